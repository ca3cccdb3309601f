/* test_tally.c - counting between a fake user and a fake wire: an example of docs/writing-a-protocol.md. */
#include "tests/rig.h"

enum { HOST = 0x0a4d0002, PORT = 7 };

static struct xk_session *
opened(struct rig *r)
{
	struct xk_session *s = rig_open(r, rig_to(HOST));

	REQUIRE(s != NULL);
	return s;
}

RIG_TEST(tally_counts_messages_and_bytes_by_direction, rig_new("tally"))
{
	struct xk_session *s = opened(r);

	CHECK_EQ(rig_push(r, s, "aabb"), 0);
	CHECK_EQ(rig_push(r, s, "cc | ddee"), 0);
	rig_inject(r, "ff");
	rig_expect_sent(r, "aabb");
	rig_expect_sent(r, "ccddee");
	rig_expect_delivered(r, "ff");
	CHECK_EQ(rig_counter(r, "down"), 2);
	CHECK_EQ(rig_counter(r, "bytes_down"), 5);
	CHECK_EQ(rig_counter(r, "up"), 1);
	CHECK_EQ(rig_counter(r, "bytes_up"), 1);
}

RIG_TEST(tally_drops_long_messages, rig_new("tally longest=2"))
{
	struct xk_session *s = opened(r);

	CHECK_EQ(rig_push(r, s, "aabbcc"), -EMSGSIZE);
	rig_inject(r, "aabbcc");
	rig_inject(r, "aabb");
	rig_expect_delivered(r, "aabb");
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "too_long"), 2);
	CHECK_EQ(rig_counter(r, "bytes_up"), 2);
}

RIG_TEST(tally_passes_empty_messages, rig_new("tally"))
{
	struct xk_session *s = opened(r);

	CHECK_EQ(rig_push(r, s, ""), 0);
	rig_expect_sent(r, "");
	CHECK_EQ(rig_counter(r, "down"), 1);
	CHECK_EQ(rig_counter(r, "bytes_down"), 0);
}

RIG_TEST(tally_opens_a_session_for_a_stranger, rig_new("tally"))
{
	CHECK_EQ(rig_open_enable(r, rig_to(PORT)), 0);
	rig_inject(r, "aa");
	rig_expect_delivered(r, "aa");
	CHECK_EQ(rig_open_done_count(r), 1);
}
