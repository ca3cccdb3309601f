/*
 * test_fragment.c - the visible tests of lab 3: the grader has others. `./run build --with DIR` runs them.
 *
 * They work with every header file, because they take the offsets of fields from it.
 */
#include <errno.h>
#include <stdlib.h>

#include "fragment.h"

#include "tests/rig.h"
#include "xkernel/bytes.h"

enum {
	STATION = 0x99,
	MTU = 1500 /* of the rig's wire */,
	PIECE = (MTU - FRAGMENT_HEADER_LEN) / FRAGMENT_UNIT * FRAGMENT_UNIT
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

TEST(long_messages_are_cut_up)
{
	struct rig *r = rig_new("fragment");
	struct xk_session *s = rig_open(r, rig_to(STATION));
	size_t total = 2 * PIECE + 5;
	uint8_t wanted[MTU], sent[MTU];

	REQUIRE(s != NULL);
	CHECK_EQ(rig_push_pattern(r, s, total), 0);
	for (size_t offset = 0; offset < total; offset += PIECE) {
		size_t rest = total - offset,
		       len = fragment_of(wanted, FRAGMENT_FIRST, offset, total, rest < PIECE ? rest : PIECE);

		CHECK_EQ(rig_take_sent(r, sent, sizeof(sent)), (long)len);
		CHECK(memcmp(sent, wanted, len) == 0);
	}
	CHECK_EQ(rig_push_pattern(r, s, FRAGMENT_LONGEST + 1), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_big"), 1);
	rig_free(r);
}

TEST(fragments_in_any_order_become_a_message)
{
	struct rig *r = enabled_rig();
	size_t size = 4 * FRAGMENT_UNIT, total = 3 * size + 1;

	arrive(r, 7, 2 * size, total, size);
	arrive(r, 7, 3 * size, total, 1);
	arrive(r, 7, 2 * size, total, size);
	CHECK_EQ(rig_counter(r, "duplicate"), 1);
	arrive(r, 7, 0, total, size);
	rig_expect_nothing_delivered(r);
	arrive(r, 7, size, total, size);
	CHECK(delivered(r, total));
	end(r);
}

TEST(impossible_fragments_are_dropped)
{
	struct rig *r = enabled_rig();
	size_t size = 4 * FRAGMENT_UNIT;

	arrive(r, 7, size, 2 * size - 1, size);
	arrive(r, 7, 0, FRAGMENT_LONGEST + 1, size);
	arrive(r, 7, 0, 2 * size, size - 1);
	arrive(r, 7, 0, 2 * size, 0);
	CHECK_EQ(rig_counter(r, "bad_fragment"), 4);
	end(r);
}

TEST(contradicting_fragments_end_their_message)
{
	struct rig *r = enabled_rig();
	size_t size = 4 * FRAGMENT_UNIT, total = 2 * size;

	arrive(r, 7, 0, total, size);
	arrive(r, 7, FRAGMENT_UNIT, total, size);
	CHECK_EQ(rig_counter(r, "conflict"), 2);
	arrive(r, 7, size, total, size);
	rig_expect_nothing_delivered(r);
	end(r);
}

TEST(incomplete_messages_time_out)
{
	struct rig *r = enabled_rig();
	size_t size = 4 * FRAGMENT_UNIT;

	arrive(r, 7, 0, 2 * size, size);
	rig_advance_ms(r, FRAGMENT_TIMEOUT_MS - 1);
	CHECK_EQ(rig_counter(r, "timed_out"), 0);
	rig_advance_ms(r, 2);
	CHECK_EQ(rig_counter(r, "timed_out"), 1);
	end(r);
}

TEST(kept_messages_are_limited)
{
	struct rig *r = enabled_rig();
	size_t size = 4 * FRAGMENT_UNIT;

	for (unsigned id = 0; id <= FRAGMENT_PARTIAL; id++) {
		arrive(r, id, 0, 2 * size, size);
		rig_advance_ms(r, 1);
	}
	CHECK_EQ(rig_counter(r, "evicted"), 1);
	arrive(r, 1, size, 2 * size, size);
	CHECK(delivered(r, 2 * size));
	end(r);
}

TEST(whole_messages_leave_fragments_of_their_id_alone)
{
	struct rig *r = enabled_rig();
	size_t size = 4 * FRAGMENT_UNIT;

	arrive(r, 7, 0, 2 * size, size);
	arrive(r, 7, 0, size, size);
	CHECK(delivered(r, size));
	arrive(r, 7, size, 2 * size, size);
	CHECK(delivered(r, 2 * size));
	CHECK_EQ(rig_counter(r, "conflict"), 0);
	end(r);
}
