/* test_participants.c - the address stacks passed to open. */
#include "tests/test.h"
#include "xkernel/participants.h"

TEST(addresses_come_back_in_the_opposite_order)
{
	struct xk_participant p = { 0 };

	CHECK(xk_participant_push(&p, 0x0a4d0002));
	CHECK(xk_participant_push(&p, 7));
	CHECK_EQ(p.depth, 2);
	CHECK_EQ(xk_participant_pop(&p), 7);
	CHECK_EQ(xk_participant_pop(&p), 0x0a4d0002);
	CHECK_EQ(p.depth, 0);
}

TEST(missing_address_means_any)
{
	struct xk_participant p = { 0 };

	CHECK(xk_participant_pop(&p) == XK_ANY);
	CHECK(xk_participant_pop(&p) == XK_ANY);
	CHECK_EQ(p.depth, 0);
	CHECK(xk_participant_push(&p, XK_ANY));
	CHECK_EQ(p.depth, 1);
	CHECK(xk_participant_pop(&p) == XK_ANY);
}

TEST(a_full_stack_takes_no_more)
{
	struct xk_participant p = { 0 };

	for (unsigned i = 0; i < XK_PARTICIPANT_DEPTH; i++)
		CHECK(xk_participant_push(&p, i));
	CHECK(!xk_participant_push(&p, 99));
	CHECK_EQ(p.depth, XK_PARTICIPANT_DEPTH);
	for (unsigned i = XK_PARTICIPANT_DEPTH; i-- > 0;)
		CHECK_EQ(xk_participant_pop(&p), i);
}

TEST(remote_and_local_are_two_stacks)
{
	struct xk_participants p = { .remote.depth = 0 };

	CHECK(xk_participant_push(&p.remote, 1));
	CHECK_EQ(p.local.depth, 0);
	CHECK(xk_participant_pop(&p.local) == XK_ANY);
	CHECK_EQ(xk_participant_pop(&p.remote), 1);
}
