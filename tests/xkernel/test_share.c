/* test_share.c - shares of a protocol's buffers (xkernel/support/share.h). */
#include <limits.h>

#include "tests/rig.h"
#include "xkernel/support/share.h"

TEST(a_holder_takes_no_more_than_its_limit)
{
	struct xk_share all = { .max = 100 }, own = { .of = &all, .max = 8 };

	CHECK(xk_share_take(&own, 8));
	CHECK(!xk_share_take(&own, 1));
	CHECK_EQ(own.held, 8);
	CHECK_EQ(all.held, 8);
	xk_share_give(&own, 3);
	CHECK(!xk_share_take(&own, 4));
	CHECK(xk_share_take(&own, 3));
	CHECK_EQ(all.held, 8);
	CHECK(!xk_share_take(&own, UINT32_MAX));
	CHECK_EQ(all.held, 8);
	xk_share_give(&own, 8);
	CHECK_EQ(all.held, 0);
}

TEST(holders_leave_as_much_as_they_have)
{
	struct xk_share all = { .max = 120 }, own[6];
	static const uint32_t gets[] = { 60, 30, 15, 8, 4, 2 };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(own); i++) {
		uint32_t got = 0;

		own[i] = (struct xk_share){ .of = &all, .max = 100, .leaves = true };
		while (xk_share_take(&own[i], 1))
			got++;
		CHECK_EQ(got, gets[i]);
	}
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(own); i++)
		xk_share_give(&own[i], gets[i]);
	CHECK_EQ(all.held, 0);
}

TEST(the_sessions_of_a_host_have_one_share)
{
	struct rig *r = rig_new("llp");
	struct xk_share *first, *second, *other;
	struct xk_shares shares;

	REQUIRE(xk_shares_init(&shares, rig_protocol(r, "llp"), 100, 8) == 0);
	first = xk_shares_join(&shares, 1);
	second = xk_shares_join(&shares, 1);
	other = xk_shares_join(&shares, 2);
	CHECK(first != NULL && first == second && first != other);
	CHECK(xk_share_take(first, 8) && !xk_share_take(second, 1) && xk_share_take(other, 8));
	xk_share_give(first, 8);
	xk_share_give(other, 8);
	xk_shares_leave(&shares, first);
	CHECK(xk_shares_join(&shares, 1) == second);
	xk_shares_leave(&shares, second);
	xk_shares_leave(&shares, second);
	xk_shares_leave(&shares, NULL);
	CHECK_EQ(xk_map_count(&shares.holders), 1);
	xk_shares_fini(&shares); /* with the other */
	rig_free(r);
}

TEST(bytes_count_as_usual_buffers)
{
	CHECK_EQ(xk_share_buffers(0), 0);
	CHECK_EQ(xk_share_buffers(2047), 0);
	CHECK_EQ(xk_share_buffers(1 << 20), 512);
	CHECK_EQ(xk_share_buffers(UINT64_MAX), UINT32_MAX / 2);
}

/* Buffers in hosts' shares count as kept by the protocol: it leaves as many to other protocols. */
TEST(shares_leave_as_much_of_the_host_to_other_protocols)
{
	struct rig *r = rig_new("llp");
	struct xk_protocol *llp = rig_protocol(r, "llp"), *user = rig_protocol(r, "user");
	struct xk_share *share;
	struct xk_shares shares;
	uint32_t got = 0;

	REQUIRE(xk_shares_init(&shares, llp, 10000, 10000) == 0);
	share = xk_shares_join(&shares, 1);
	REQUIRE(share != NULL);
	rig_limit_buffers(r, 320); /* 10 of them are the reserve */
	xk_keep(user, 10);
	while (xk_share_take(share, 1))
		got++;
	CHECK_EQ(got, 150);
	CHECK_EQ(llp->kept, 150);
	CHECK_EQ(xk_share_held(share), 150);
	xk_unkeep(user, 10);
	CHECK(xk_share_take(share, 5));
	CHECK(!xk_share_take(share, 1));
	xk_share_give(share, 155);
	CHECK_EQ(llp->kept, 0);
	rig_limit_buffers(r, UINT_MAX);
	xk_shares_leave(&shares, share);
	xk_shares_fini(&shares);
	rig_free(r);
}
