/*
 * test_sequence.c - tests of lab 1 beyond the visible ones: the limits of the history, jumps beyond it, the counts,
 * and malformed frames.
 */
#include <stdlib.h>

#include "sequence.h"

#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { STATION = 0x99, OTHER_STATION = 0x77, ROOM = 256, COUNTS = 5 };

/* Writes a frame with this payload to p, and returns its length. */
static size_t
frame_of(uint8_t *p, uint8_t kind, uint32_t number, const char *payload)
{
	size_t len = strlen(payload);

	memset(p, 0, SEQUENCE_HEADER_LEN);
	p[SEQUENCE_KIND] = kind;
	xk_put16(p + SEQUENCE_LENGTH, (uint16_t)(SEQUENCE_HEADER_LEN + len));
	xk_put32(p + SEQUENCE_NUMBER, number);
	memcpy(p + SEQUENCE_HEADER_LEN, payload, len);
	return SEQUENCE_HEADER_LEN + len;
}

static void
arrive(struct rig *r, uint8_t kind, uint32_t number, const char *payload)
{
	uint8_t p[ROOM];

	rig_inject_bytes(r, p, frame_of(p, kind, number, payload));
}

/* Returns whether this message was delivered to the user next. */
static bool
delivered(struct rig *r, const char *payload)
{
	char got[ROOM];
	long len = rig_take_delivered(r, got, sizeof(got));

	return len == (long)strlen(payload) && memcmp(got, payload, (size_t)len) == 0;
}

static struct rig *
enabled_rig(void)
{
	struct rig *r = rig_new("sequence");

	rig_open_enable(r, (struct xk_participants){ .remote.depth = 0 });
	return r;
}

/* Checks that DATA with this number is delivered. */
static bool
is_delivered(struct rig *r, uint32_t number)
{
	arrive(r, SEQUENCE_DATA, number, "abc");
	return delivered(r, "abc");
}

/* Checks that DATA with this number is dropped for this reason. */
static bool
is_dropped(struct rig *r, uint32_t number, const char *reason)
{
	long before = rig_counter(r, reason);

	arrive(r, SEQUENCE_DATA, number, "abc");
	return rig_delivered(r) == 0 && rig_counter(r, reason) == before + 1;
}

/* Returns whether an ASK is answered by a REPORT with its number and these counts. */
static bool
reports(struct rig *r, uint32_t delivered, uint32_t missing, uint32_t late, uint32_t duplicate, uint32_t old)
{
	uint8_t sent[ROOM], wanted[ROOM] = { 0 };
	size_t len = SEQUENCE_HEADER_LEN + 4 * COUNTS;

	frame_of(wanted, SEQUENCE_REPORT, 0x12345678, "");
	xk_put16(wanted + SEQUENCE_LENGTH, (uint16_t)len);
	xk_put32(wanted + SEQUENCE_HEADER_LEN, delivered);
	xk_put32(wanted + SEQUENCE_HEADER_LEN + 4, missing);
	xk_put32(wanted + SEQUENCE_HEADER_LEN + 8, late);
	xk_put32(wanted + SEQUENCE_HEADER_LEN + 12, duplicate);
	xk_put32(wanted + SEQUENCE_HEADER_LEN + 16, old);
	arrive(r, SEQUENCE_ASK, 0x12345678, "");
	return rig_take_sent(r, sent, sizeof(sent)) == (long)len && memcmp(sent, wanted, len) == 0;
}

TEST(each_neighbour_has_its_own_numbers)
{
	struct rig *r = rig_new("sequence");
	struct xk_session *first = rig_open(r, rig_to(STATION)), *second = rig_open(r, rig_to(OTHER_STATION));
	struct xk_session *sessions[] = { first, second, first, second };
	uint8_t sent[ROOM];

	REQUIRE(first != NULL && second != NULL && first != second);
	for (uint32_t i = 0; i < 4; i++) {
		CHECK_EQ(rig_push_bytes(r, sessions[i], "abc", 3), 0);
		CHECK_EQ(rig_take_sent(r, sent, sizeof(sent)), SEQUENCE_HEADER_LEN + 3);
		CHECK_EQ(xk_get32(sent + SEQUENCE_NUMBER), SEQUENCE_FIRST + i / 2);
	}
	rig_free(r);
}

TEST(each_neighbour_is_checked_by_its_own_numbers)
{
	struct rig *r = enabled_rig();

	CHECK(is_delivered(r, SEQUENCE_FIRST));
	rig_wire_peer(r, OTHER_STATION);
	CHECK(is_delivered(r, SEQUENCE_FIRST + 5));
	CHECK(reports(r, 1, 5, 0, 0, 0));
	rig_free(r);
}

TEST(wrong_lengths_and_kinds_change_nothing)
{
	struct rig *r = enabled_rig();
	uint8_t p[ROOM], strange = 0;
	size_t len = frame_of(p, SEQUENCE_DATA, SEQUENCE_FIRST, "abc");

	while (strange == SEQUENCE_DATA || strange == SEQUENCE_ASK || strange == SEQUENCE_REPORT)
		strange++;
	xk_put16(p + SEQUENCE_LENGTH, (uint16_t)(len + 1));
	rig_inject_bytes(r, p, len);
	xk_put16(p + SEQUENCE_LENGTH, SEQUENCE_HEADER_LEN - 1);
	rig_inject_bytes(r, p, len);
	xk_put16(p + SEQUENCE_LENGTH, 0);
	rig_inject_bytes(r, p, len);
	CHECK_EQ(rig_counter(r, "bad_length"), 3);
	arrive(r, SEQUENCE_REPORT, SEQUENCE_FIRST, "abc");
	arrive(r, strange, SEQUENCE_FIRST, "abc");
	CHECK_EQ(rig_counter(r, "bad_kind"), 2);
	rig_expect_nothing_delivered(r);
	rig_expect_nothing_sent(r);
	CHECK(is_delivered(r, SEQUENCE_FIRST));
	CHECK(reports(r, 1, 0, 0, 0, 0));
	rig_free(r);
}

TEST(each_message_of_many_is_delivered_once)
{
	struct rig *r = enabled_rig();

	/* In the end, the last number is far behind, after a wrap to 0. */
	for (uint32_t i = 0; i < 2 * SEQUENCE_HISTORY; i++) {
		CHECK(is_delivered(r, SEQUENCE_FIRST + i));
		CHECK(is_dropped(r, SEQUENCE_FIRST + i, "duplicate"));
		CHECK(is_dropped(r, SEQUENCE_FIRST + i - i % 20, "duplicate"));
	}
	CHECK(reports(r, 2 * SEQUENCE_HISTORY, 0, 0, 4 * SEQUENCE_HISTORY, 0));
	rig_free(r);
}

TEST(late_messages_are_delivered_once_in_any_order)
{
	struct rig *r = enabled_rig();

	CHECK(is_delivered(r, SEQUENCE_FIRST + 40));
	CHECK(reports(r, 1, 40, 0, 0, 0));
	for (uint32_t i = 0; i < 40; i += 2) {
		CHECK(is_delivered(r, SEQUENCE_FIRST + i));
		CHECK(is_dropped(r, SEQUENCE_FIRST + i, "duplicate"));
	}
	CHECK(is_dropped(r, SEQUENCE_FIRST + 40, "duplicate"));
	CHECK(reports(r, 21, 20, 20, 21, 0));
	CHECK(reports(r, 21, 20, 20, 21, 0)); /* asking changes nothing */
	CHECK(is_delivered(r, SEQUENCE_FIRST + 41));
	rig_free(r);
}

TEST(the_history_has_64_numbers)
{
	struct rig *r = enabled_rig();
	uint32_t newest = SEQUENCE_FIRST + 1000;

	CHECK(is_delivered(r, newest));
	CHECK(is_dropped(r, newest - SEQUENCE_HISTORY, "old"));
	CHECK(is_delivered(r, newest - SEQUENCE_HISTORY + 1));
	CHECK(is_dropped(r, newest - SEQUENCE_HISTORY + 1, "duplicate"));
	CHECK(reports(r, 2, 999, 1, 1, 1));
	rig_free(r);
}

TEST(numbers_before_the_first_one_are_old_or_duplicates)
{
	struct rig *r = enabled_rig();

	CHECK(is_dropped(r, SEQUENCE_FIRST - 1, "duplicate"));
	CHECK(is_dropped(r, SEQUENCE_FIRST - SEQUENCE_HISTORY, "duplicate"));
	CHECK(is_dropped(r, SEQUENCE_FIRST - SEQUENCE_HISTORY - 1, "old"));
	CHECK(is_delivered(r, SEQUENCE_FIRST));
	CHECK(reports(r, 1, 0, 0, 2, 1));
	rig_free(r);
}

TEST(jumps_of_any_length_forget_only_distant_numbers)
{
	static const uint32_t jumps[] = { 1,   2,   31,  32,  62,  63,   64,       65,
					  100, 126, 127, 128, 129, 1000, 1u << 30, (1u << 31) - 1 };

	for (size_t i = 0; i < sizeof(jumps) / sizeof(jumps[0]); i++) {
		struct rig *r = enabled_rig();
		uint32_t last = SEQUENCE_FIRST + SEQUENCE_HISTORY - 1, newest = last + 1 + jumps[i];

		for (uint32_t number = SEQUENCE_FIRST; number != last + 1; number++)
			CHECK(is_delivered(r, number));
		CHECK(is_delivered(r, newest));
		for (uint32_t behind = 1; behind < SEQUENCE_HISTORY; behind++)
			CHECK(behind <= jumps[i] ? is_delivered(r, newest - behind)
						 : is_dropped(r, newest - behind, "duplicate"));
		CHECK(is_dropped(r, newest, "duplicate"));
		CHECK(is_dropped(r, newest - SEQUENCE_HISTORY, "old"));
		rig_free(r);
	}
}
