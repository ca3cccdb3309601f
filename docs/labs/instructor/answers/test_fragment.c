/*
 * test_fragment.c - tests of lab 3 beyond the visible ones: where messages are cut, contradicting fragments, and freed
 * memory.
 */
#include <errno.h>
#include <stdlib.h>

#include "fragment.h"

#include "tests/rig.h"
#include "xkernel/bytes.h"

enum {
	STATION = 0x99,
	OTHER_STATION = 0x77,
	MTU = 1500 /* of the rig's wire */,
	PIECE = (MTU - FRAGMENT_HEADER_LEN) / FRAGMENT_UNIT * FRAGMENT_UNIT,
	SIZE = 4 * FRAGMENT_UNIT, /* bytes of most fragments here */
};

/* Returns the byte at offset i of every message here, as in rig_push_pattern. */
static uint8_t
byte_at(size_t i)
{
	return (uint8_t)(i % 251);
}

/* Writes the fragment with len bytes at offset of a message of `total` to p, and returns its length. */
static size_t
fragment_of(uint8_t *p, unsigned id, size_t offset, size_t total, size_t len)
{
	memset(p, 0, FRAGMENT_HEADER_LEN);
	xk_put16(p + FRAGMENT_ID, (uint16_t)id);
	xk_put16(p + FRAGMENT_OFFSET, (uint16_t)(offset / FRAGMENT_UNIT));
	xk_put16(p + FRAGMENT_TOTAL, (uint16_t)total);
	xk_put16(p + FRAGMENT_LENGTH, (uint16_t)(FRAGMENT_HEADER_LEN + len));
	for (size_t i = 0; i < len; i++)
		p[FRAGMENT_HEADER_LEN + i] = byte_at(offset + i);
	return FRAGMENT_HEADER_LEN + len;
}

static void
arrive(struct rig *r, unsigned id, size_t offset, size_t total, size_t len)
{
	uint8_t p[MTU];

	rig_inject_bytes(r, p, fragment_of(p, id, offset, total, len));
}

/* Returns whether the message with this number of bytes was delivered to the user next. */
static bool
delivered(struct rig *r, size_t total)
{
	static uint8_t got[65536];
	bool is_right = rig_take_delivered(r, got, sizeof(got)) == (long)total;

	for (size_t i = 0; i < total && is_right; i++)
		is_right = got[i] == byte_at(i);
	return is_right;
}

/* Ends a test, after incomplete messages have timed out. */
static void
end(struct rig *r)
{
	rig_advance_ms(r, 2 * FRAGMENT_TIMEOUT_MS);
	rig_free(r);
}

static struct rig *
enabled_rig(void)
{
	struct rig *r = rig_new("fragment");

	rig_open_enable(r, (struct xk_participants){ .remote.depth = 0 });
	return r;
}

/* Returns whether a message of `total` bytes with this id was sent, cut by rule 1, and nothing else. */
static bool
sent_in_pieces(struct rig *r, unsigned id, size_t total)
{
	uint8_t wanted[MTU], sent[MTU];
	size_t offset = 0;

	do {
		size_t rest = total - offset, len = fragment_of(wanted, id, offset, total, rest < PIECE ? rest : PIECE);

		if (rig_take_sent(r, sent, sizeof(sent)) != (long)len || memcmp(sent, wanted, len) != 0)
			return false;
		offset += PIECE;
	} while (offset < total);
	return rig_sent(r) == 0;
}

TEST(messages_are_cut_into_full_fragments_and_a_rest)
{
	static const size_t totals[] = { 0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 5000, FRAGMENT_LONGEST };
	struct rig *r = rig_new("fragment");
	struct xk_session *s = rig_open(r, rig_to(STATION));

	REQUIRE(s != NULL);
	for (unsigned i = 0; i < 20; i++) { /* beyond the last id */
		size_t total = totals[i % (sizeof(totals) / sizeof(totals[0]))];

		CHECK_EQ(rig_push_pattern(r, s, total), 0);
		CHECK(sent_in_pieces(r, FRAGMENT_FIRST + i, total));
	}
	rig_free(r);
}

TEST(a_refused_message_takes_no_id)
{
	struct rig *r = rig_new("fragment");
	struct xk_session *s = rig_open(r, rig_to(STATION));

	REQUIRE(s != NULL);
	CHECK_EQ(rig_push_pattern(r, s, FRAGMENT_LONGEST + 1), -EMSGSIZE);
	CHECK_EQ(rig_push_pattern(r, s, 65536), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_big"), 2);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_push_pattern(r, s, 5), 0);
	CHECK(sent_in_pieces(r, FRAGMENT_FIRST, 5));
	rig_free(r);
}

TEST(a_failed_push_ends_the_message_and_leaks_nothing)
{
	struct rig *r = rig_new("fragment");
	struct xk_session *s = rig_open(r, rig_to(STATION));

	REQUIRE(s != NULL);
	rig_fail_sending(r, -ENETDOWN);
	CHECK_EQ(rig_push_pattern(r, s, 3 * PIECE), -ENETDOWN);
	rig_fail_sending(r, 0);
	rig_forget(r);
	rig_free(r);
}

TEST(messages_without_missing_fragments_are_delivered_at_once)
{
	struct rig *r = enabled_rig();
	uint8_t p[MTU];
	size_t len = fragment_of(p, 3, 0, 5, 5);

	arrive(r, 1, 0, 0, 0);
	CHECK(delivered(r, 0));
	arrive(r, 2, 0, 1, 1);
	CHECK(delivered(r, 1));
	memset(p + len, 0x5a, 20); /* padding */
	rig_inject_bytes(r, p, len + 20);
	CHECK(delivered(r, 5));
	CHECK_EQ(rig_drop_count(r), 0);
	rig_free(r);
}

TEST(the_longest_message_is_reassembled_in_either_order)
{
	struct rig *r = enabled_rig();
	size_t total = FRAGMENT_LONGEST, pieces = (total + PIECE - 1) / PIECE;

	for (size_t i = 0; i < pieces; i++)
		arrive(r, 1, i * PIECE, total, i + 1 < pieces ? PIECE : total - i * PIECE);
	CHECK(delivered(r, total));
	for (size_t i = pieces; i-- > 0;)
		arrive(r, 2, i * PIECE, total, i + 1 < pieces ? PIECE : total - i * PIECE);
	CHECK(delivered(r, total));
	CHECK_EQ(rig_drop_count(r), 0);
	end(r);
}

TEST(the_largest_number_of_messages_is_reassembled_in_parallel)
{
	struct rig *r = enabled_rig();

	for (size_t piece = 0; piece < 3; piece++)
		for (unsigned id = 0; id < FRAGMENT_PARTIAL; id++) {
			size_t offset = (piece * 2 + id) % 3 * SIZE; /* each message in another order */

			arrive(r, id, offset, 3 * SIZE, SIZE);
			if (piece < 2)
				arrive(r, id, offset, 3 * SIZE, SIZE);
			CHECK_EQ(rig_delivered(r), piece == 2);
			CHECK(piece < 2 || delivered(r, 3 * SIZE));
		}
	CHECK_EQ(rig_counter(r, "duplicate"), 2 * FRAGMENT_PARTIAL);
	CHECK_EQ(rig_drop_count(r), 2 * FRAGMENT_PARTIAL);
	end(r);
}

TEST(impossible_fragments_change_nothing)
{
	struct rig *r = enabled_rig();
	uint8_t p[MTU];
	size_t len = fragment_of(p, 0, SIZE, 2 * SIZE, SIZE);

	for (unsigned id = 0; id < FRAGMENT_PARTIAL; id++)
		arrive(r, id, 0, 2 * SIZE, SIZE);
	arrive(r, 0, SIZE, 2 * SIZE, SIZE + FRAGMENT_UNIT);          /* beyond the end */
	arrive(r, 0, 65535 * (size_t)FRAGMENT_UNIT, 2 * SIZE, SIZE); /* far beyond */
	arrive(r, 0, 0, 2 * SIZE, 3 * SIZE);                         /* more than the whole message */
	arrive(r, 0, SIZE, 2 * SIZE, 0);                             /* nothing */
	arrive(r, 0, SIZE, 2 * SIZE, SIZE - 1);                      /* not whole units, and not the end */
	arrive(r, 99, 0, 2 * SIZE, 0);                               /* ... nor as another message */
	arrive(r, 99, 0, 2 * SIZE, SIZE - 1);
	arrive(r, 99, 0, FRAGMENT_LONGEST + 1, SIZE);
	arrive(r, 99, 0, 0, SIZE);
	CHECK_EQ(rig_counter(r, "bad_fragment"), 9);
	rig_inject_bytes(r, p, len - 1);
	xk_put16(p + FRAGMENT_LENGTH, FRAGMENT_HEADER_LEN - 1);
	rig_inject_bytes(r, p, len);
	CHECK_EQ(rig_counter(r, "bad_length"), 2);
	rig_expect_nothing_delivered(r);
	for (unsigned id = 0; id < FRAGMENT_PARTIAL; id++) {
		arrive(r, id, SIZE, 2 * SIZE, SIZE);
		CHECK(delivered(r, 2 * SIZE));
	}
	end(r);
}

TEST(each_contradiction_ends_its_message_but_no_other)
{
	static const struct {
		size_t offset, total, len;
	} conflicts[] = {
		{ SIZE, 4 * SIZE, SIZE - FRAGMENT_UNIT },                 /* the same place, but shorter */
		{ SIZE, 4 * SIZE, SIZE + FRAGMENT_UNIT },                 /* ... longer */
		{ SIZE + FRAGMENT_UNIT, 4 * SIZE, SIZE - FRAGMENT_UNIT }, /* within */
		{ 0, 4 * SIZE, SIZE + FRAGMENT_UNIT },                    /* into the next piece */
		{ 2 * SIZE - FRAGMENT_UNIT, 4 * SIZE, SIZE },             /* out of the piece before */
		{ 0, 4 * SIZE, 3 * SIZE },                                /* around it */
		{ 3 * SIZE, 5 * SIZE, SIZE },                             /* another total */
		{ 0, 3 * SIZE, SIZE },
	};

	for (unsigned i = 0; i < sizeof(conflicts) / sizeof(conflicts[0]); i++) {
		struct rig *r = enabled_rig();

		arrive(r, 8, 0, 2 * SIZE, SIZE); /* another message */
		arrive(r, 7, SIZE, 4 * SIZE, SIZE);
		arrive(r, 7, conflicts[i].offset, conflicts[i].total, conflicts[i].len);
		CHECK_EQ(rig_counter(r, "conflict"), 2);
		/* Nothing is remembered: the message starts anew, and needs all its fragments again. */
		arrive(r, 7, 0, 4 * SIZE, SIZE);
		arrive(r, 7, 2 * SIZE, 4 * SIZE, SIZE);
		arrive(r, 7, 3 * SIZE, 4 * SIZE, SIZE);
		rig_expect_nothing_delivered(r);
		arrive(r, 7, SIZE, 4 * SIZE, SIZE);
		CHECK(delivered(r, 4 * SIZE));
		arrive(r, 8, SIZE, 2 * SIZE, SIZE);
		CHECK(delivered(r, 2 * SIZE));
		end(r);
	}
}

TEST(a_whole_message_evicts_nothing)
{
	struct rig *r = enabled_rig();

	for (unsigned id = 0; id < FRAGMENT_PARTIAL; id++)
		arrive(r, id, 0, 2 * SIZE, SIZE);
	arrive(r, 0, 0, 2 * SIZE, 2 * SIZE); /* with the total of the kept one */
	CHECK(delivered(r, 2 * SIZE));
	arrive(r, 99, 0, SIZE, SIZE);
	CHECK(delivered(r, SIZE));
	arrive(r, 1, 0, 0, 0);
	CHECK(delivered(r, 0));
	for (unsigned id = 0; id < FRAGMENT_PARTIAL; id++) {
		arrive(r, id, SIZE, 2 * SIZE, SIZE);
		CHECK(delivered(r, 2 * SIZE));
	}
	CHECK_EQ(rig_drop_count(r), 0);
	end(r);
}

TEST(the_oldest_message_is_evicted)
{
	struct rig *r = enabled_rig();

	for (unsigned id = 0; id <= FRAGMENT_PARTIAL; id++) {
		arrive(r, id, 0, 3 * SIZE, SIZE);
		rig_advance_ms(r, 1);
		arrive(r, 0, SIZE, 3 * SIZE, SIZE); /* only a message's first fragment counts */
	}
	CHECK_EQ(rig_counter(r, "evicted"), 3); /* two of message 0, and one of message 1: message 0 started again */
	rig_forget(r);
	end(r);
}

TEST(evicted_messages_leak_nothing)
{
	struct rig *r = enabled_rig();

	rig_limit_buffers(r, 40);
	for (unsigned id = 0; id < 100; id++)
		arrive(r, id, 0, 2 * SIZE, SIZE);
	CHECK_EQ(rig_counter(r, "evicted"), 100 - FRAGMENT_PARTIAL);
	arrive(r, 99, SIZE, 2 * SIZE, SIZE);
	CHECK(delivered(r, 2 * SIZE));
	end(r);
}

TEST(the_timeout_starts_with_the_first_fragment)
{
	struct rig *r = enabled_rig();

	arrive(r, 1, 0, 3 * SIZE, SIZE);
	rig_advance_ms(r, FRAGMENT_TIMEOUT_MS / 2);
	arrive(r, 1, SIZE, 3 * SIZE, SIZE); /* does not restart it */
	arrive(r, 2, 0, 3 * SIZE, SIZE);
	rig_advance_ms(r, FRAGMENT_TIMEOUT_MS / 2 - 1);
	CHECK_EQ(rig_counter(r, "timed_out"), 0);
	rig_advance_ms(r, 1);
	CHECK_EQ(rig_counter(r, "timed_out"), 2);
	rig_advance_ms(r, FRAGMENT_TIMEOUT_MS / 2 - 1);
	CHECK_EQ(rig_counter(r, "timed_out"), 2);
	rig_advance_ms(r, 1);
	CHECK_EQ(rig_counter(r, "timed_out"), 3);
	/* Nothing is left of either. */
	arrive(r, 1, 2 * SIZE, 3 * SIZE, SIZE);
	arrive(r, 2, SIZE, 3 * SIZE, SIZE);
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "conflict"), 0);
	end(r);
}

TEST(messages_given_up_together_leak_nothing)
{
	struct rig *r = enabled_rig();

	rig_limit_buffers(r, 40);
	for (unsigned turn = 0; turn < 20; turn++) {
		for (unsigned id = 0; id < FRAGMENT_PARTIAL; id++)
			arrive(r, id, 0, 2 * SIZE, SIZE);
		rig_advance_ms(r, FRAGMENT_TIMEOUT_MS + 1);
	}
	CHECK_EQ(rig_counter(r, "timed_out"), 20 * FRAGMENT_PARTIAL);
	rig_free(r);
}

TEST(each_neighbour_has_its_own_ids)
{
	struct rig *r = enabled_rig();

	arrive(r, 7, 0, 2 * SIZE, SIZE);
	rig_wire_peer(r, OTHER_STATION);
	arrive(r, 7, SIZE, 2 * SIZE, SIZE);
	rig_expect_nothing_delivered(r);
	arrive(r, 7, 0, 2 * SIZE, SIZE);
	CHECK(delivered(r, 2 * SIZE));
	end(r);
}

TEST(a_lower_with_too_little_room_is_refused)
{
	struct rig *r = rig_new("fragment");
	uint32_t room = FRAGMENT_HEADER_LEN + FRAGMENT_UNIT - 1;

	rig_answer_control(r, XK_GET_MAX_PACKET, &room, sizeof(room));
	CHECK(rig_open(r, rig_to(STATION)) == NULL);
	CHECK_EQ(rig_error(r), -EMSGSIZE);
	rig_free(r);
}
