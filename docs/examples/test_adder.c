/* test_adder.c - server and client of calls on a fake wire: an example of docs/writing-a-protocol.md. */
#include "tests/rig.h"

static const char graph[] = "wire:; adder: wire";

RIG_TEST(adder_serves_calls, rig_new_graph(graph))
{
	CHECK_EQ(rig_inject_call(r, NULL, "01 00 0002 00000003 00000004"), 0);
	rig_expect_sent(r, "02 00 0001 00000007");
	CHECK_EQ(rig_inject_call(r, NULL, "01 00 0000"), 0);
	rig_expect_sent(r, "02 00 0001 00000000");
	CHECK_EQ(rig_inject_call(r, NULL, "01 00 0002 ffffffff 00000001"), 0);
	rig_expect_sent(r, "03 00 0000");
	CHECK_EQ(rig_counter(r, "served"), 3);
}

RIG_TEST(adder_accepts_requests_in_pieces, rig_new_graph(graph))
{
	CHECK_EQ(rig_inject_call(r, NULL, "01 | 00 00 | 01 0000 | 0005"), 0);
	rig_expect_sent(r, "02 00 0001 00000005");
}

RIG_TEST(adder_drops_malformed_requests, rig_new_graph(graph))
{
	CHECK_EQ(rig_inject_call(r, NULL, "02 00 0000"), -EBADMSG);
	CHECK_EQ(rig_inject_call(r, NULL, "01 00 0002 00000003"), -EBADMSG);
	CHECK_EQ(rig_inject_call(r, NULL, "01 00 ffff 00000003"), -EBADMSG);
	CHECK(rig_inject_call(r, NULL, "01 00 00") != 0);
	CHECK_EQ(rig_counter(r, "bad_op"), 1);
	CHECK_EQ(rig_counter(r, "bad_length"), 2);
	CHECK_EQ(rig_counter(r, "short"), 1);
	rig_expect_nothing_sent(r);
}

RIG_TEST(adder_calls_its_peer,
	 rig_new_graph("wire:; adder: wire; adder.peer=10.77.0.2; adder.values=1 2; adder.calls=2; "
		       "adder.ends=yes"))
{
	rig_advance_ms(r, 1);
	rig_expect_sent(r, "01 00 0002 00000001 00000002");
	rig_end_call(r, 0, "02 00 0001 00000003");
	rig_expect_sent(r, "01 00 0002 00000001 00000002");
	CHECK_EQ(xk_kernel_ended(rig_kernel(r)), XK_ENDED_NOT);
	rig_end_call(r, 0, "02 00 0001 00000003");
	CHECK_EQ(rig_counter(r, "answered"), 2);
	CHECK_EQ(xk_kernel_ended(rig_kernel(r)), XK_ENDED_WELL);
}

RIG_TEST(adder_counts_failed_calls,
	 rig_new_graph("wire:; adder: wire; adder.peer=10.77.0.2; adder.calls=3; adder.ends=yes"))
{
	rig_advance_ms(r, 1);
	rig_end_call(r, -ETIMEDOUT, NULL);
	rig_end_call(r, 0, "02 00 0002 00000003");
	rig_end_call(r, 0, "03 00 0000");
	CHECK_EQ(rig_counter(r, "failed"), 3);
	CHECK_EQ(rig_counter(r, "bad_length"), 1);
	CHECK_EQ(xk_kernel_ended(rig_kernel(r)), XK_ENDED_BADLY);
	rig_forget(r);
}
