/* test_seq.c - numbers between a fake user and a fake wire: an example of docs/writing-a-protocol.md. */
#include "tests/rig.h"

enum { HOST = 0x0a4d0002, PORT = 7, FAR_PORT = 9 };

static struct xk_session *
opened(struct rig *r)
{
	struct xk_session *s = rig_open(r, rig_to2(HOST, FAR_PORT, PORT));

	REQUIRE(s != NULL);
	return s;
}

RIG_TEST(seq_numbers_sent_messages, rig_new("seq"))
{
	struct xk_session *s = opened(r);

	CHECK_EQ(rig_push(r, s, "aa"), 0);
	CHECK_EQ(rig_push(r, s, "bb"), 0);
	rig_expect_sent(r, "00000000 aa");
	rig_expect_sent(r, "00000001 bb");
}

RIG_TEST(seq_counts_missing_and_late_messages, rig_new("seq"))
{
	opened(r);
	rig_inject(r, "00000000 aa");
	rig_inject(r, "00 | 000003 | bb");
	rig_inject(r, "00000002 cc");
	rig_expect_delivered(r, "aa");
	rig_expect_delivered(r, "bb");
	rig_expect_delivered(r, "cc");
	CHECK_EQ(rig_counter(r, "missing"), 2);
	CHECK_EQ(rig_counter(r, "late"), 1);
}

/* Numbers wrap around, and no number makes the driver loop for long. */
RIG_TEST(seq_accepts_any_number, rig_new("seq"))
{
	opened(r);
	rig_inject(r, "7fffffff");
	CHECK_EQ(rig_counter(r, "missing"), 64);
	rig_inject(r, "ffffffff");
	CHECK_EQ(rig_counter(r, "missing"), 128);
	rig_inject(r, "00000000");
	CHECK_EQ(rig_counter(r, "missing"), 128);
	CHECK_EQ(rig_counter(r, "late"), 0);
	CHECK_EQ(rig_delivered(r), 3);
	rig_forget(r);
}

RIG_TEST(seq_drops_short_messages, rig_new("seq"))
{
	opened(r);
	rig_inject(r, "000000");
	CHECK_EQ(rig_counter(r, "short"), 1);
	rig_expect_nothing_delivered(r);
}

RIG_TEST(seq_leaves_room_for_its_header, rig_new("seq"))
{
	struct xk_session *s = opened(r);
	uint32_t above = 0, below = 0;

	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &above), 0);
	CHECK_EQ(xk_control(s->lls, XK_GET_MAX_PACKET, &below), 0);
	CHECK_EQ(above + 4, below);
}

RIG_TEST(seq_opens_a_session_for_a_stranger, rig_new("seq"))
{
	CHECK_EQ(rig_open_enable(r, rig_to(PORT)), 0);
	rig_inject(r, "00000000 aa");
	rig_expect_delivered(r, "aa");
	CHECK_EQ(rig_open_done_count(r), 1);
}
