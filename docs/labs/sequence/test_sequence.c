/*
 * test_sequence.c - the visible tests of lab 1: the grader has others. `./run build --with DIR` runs them.
 *
 * They work with every header file, because they take the offsets of fields from it.
 */
#include <stdlib.h>

#include "sequence.h"

#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { STATION = 0x99, ROOM = 256, COUNTS = 5 };

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

TEST(messages_are_sent_with_consecutive_numbers)
{
	struct rig *r = rig_new("sequence");
	struct xk_session *s = rig_open(r, rig_to(STATION));
	uint8_t sent[ROOM], wanted[ROOM];

	REQUIRE(s != NULL);
	for (uint32_t i = 0; i < 3; i++) {
		size_t len = frame_of(wanted, SEQUENCE_DATA, SEQUENCE_FIRST + i, "abc");

		CHECK_EQ(rig_push_bytes(r, s, "abc", 3), 0);
		CHECK_EQ(rig_take_sent(r, sent, sizeof(sent)), (long)len);
		CHECK(memcmp(sent, wanted, len) == 0);
	}
	rig_free(r);
}

TEST(messages_in_order_are_delivered)
{
	struct rig *r = enabled_rig();

	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST, "one");
	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST + 1, "two");
	CHECK(delivered(r, "one"));
	CHECK(delivered(r, "two"));
	rig_free(r);
}

TEST(padding_is_cut_off)
{
	struct rig *r = enabled_rig();
	uint8_t p[ROOM] = { 0 };

	rig_inject_bytes(r, p, frame_of(p, SEQUENCE_DATA, SEQUENCE_FIRST, "one") + 20);
	CHECK(delivered(r, "one"));
	rig_free(r);
}

TEST(a_length_beyond_the_end_is_dropped)
{
	struct rig *r = enabled_rig();
	uint8_t p[ROOM];

	rig_inject_bytes(r, p, frame_of(p, SEQUENCE_DATA, SEQUENCE_FIRST, "one") - 1);
	CHECK_EQ(rig_counter(r, "bad_length"), 1);
	rig_expect_nothing_delivered(r);
	rig_free(r);
}

TEST(an_overtaken_message_is_delivered_once)
{
	struct rig *r = enabled_rig();

	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST + 1, "two");
	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST, "one");
	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST, "one");
	CHECK(delivered(r, "two"));
	CHECK(delivered(r, "one"));
	CHECK_EQ(rig_counter(r, "duplicate"), 1);
	rig_expect_nothing_delivered(r);
	rig_free(r);
}

TEST(an_ask_is_answered_with_the_counts)
{
	static const uint32_t wanted[COUNTS] = { 3, 2, 1, 1, 0 }; /* delivered, missing, late, duplicate, old */
	struct rig *r = enabled_rig();
	uint8_t sent[ROOM];

	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST, "one");
	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST + 4, "five");
	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST + 4, "five");
	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST + 2, "three");
	arrive(r, SEQUENCE_ASK, 77, "");
	REQUIRE(rig_take_sent(r, sent, sizeof(sent)) == SEQUENCE_HEADER_LEN + 4 * COUNTS);
	CHECK_EQ(sent[SEQUENCE_KIND], SEQUENCE_REPORT);
	CHECK_EQ(xk_get32(sent + SEQUENCE_NUMBER), 77);
	for (unsigned i = 0; i < COUNTS; i++)
		CHECK_EQ(xk_get32(sent + SEQUENCE_HEADER_LEN + 4 * i), wanted[i]);
	rig_forget(r);
	rig_free(r);
}

TEST(a_jump_forgets_numbers_beyond_the_history)
{
	struct rig *r = enabled_rig();

	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST, "one");
	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST + SEQUENCE_HISTORY + 1, "newest");
	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST + SEQUENCE_HISTORY, "late");
	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST + 2, "late, too");
	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST + 1, "old");
	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST + SEQUENCE_HISTORY, "late");
	CHECK(delivered(r, "one"));
	CHECK(delivered(r, "newest"));
	CHECK(delivered(r, "late"));
	CHECK(delivered(r, "late, too"));
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "old"), 1);
	CHECK_EQ(rig_counter(r, "duplicate"), 1);
	rig_free(r);
}

TEST(numbers_before_the_first_one_count_as_delivered)
{
	struct rig *r = enabled_rig();

	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST - 1, "before");
	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST + 1, "two");
	arrive(r, SEQUENCE_DATA, SEQUENCE_FIRST - 2, "before");
	CHECK(delivered(r, "two"));
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "duplicate"), 2);
	rig_free(r);
}
