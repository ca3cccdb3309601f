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

TEST(holders_leave_as_much_free_as_they_hold)
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

TEST(a_holder_exceeds_an_equal_part_of_the_limit)
{
	struct xk_share all = { .max = 31 }, own[3];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(own); i++) {
		own[i] = (struct xk_share){ .of = &all, .max = UINT32_MAX };
		xk_share_enter(&own[i]);
	}
	CHECK(xk_share_take(&own[0], 10));
	CHECK(!xk_share_exceeds(&own[0], 0));
	CHECK(xk_share_take(&own[0], 1));
	CHECK(xk_share_exceeds(&own[0], 0));
	CHECK(!xk_share_exceeds(&own[1], 0));
	xk_share_exit(&own[2]);
	CHECK(!xk_share_exceeds(&own[0], 0)); /* of two, it may have 15 */
	xk_share_give(&own[0], 11);
}

TEST(a_lot_takes_in_advance_while_there_is_plenty)
{
	struct xk_share all = { .max = 100 * XK_SHARE_ADVANCE }, own = { .of = &all, .max = UINT32_MAX };
	struct xk_share_lot lot = { .share = &own }, other = { .share = &own };

	CHECK(xk_share_lot_take(&lot, 1));
	CHECK_EQ(own.held, 1); /* it may be all that is needed */
	CHECK(xk_share_lot_take(&lot, 2));
	CHECK_EQ(own.held, 3 + XK_SHARE_ADVANCE);
	for (unsigned i = 0; i < XK_SHARE_ADVANCE; i++)
		CHECK(xk_share_lot_take(&lot, 1));
	CHECK_EQ(own.held, 3 + XK_SHARE_ADVANCE);
	xk_share_lot_give(&lot, XK_SHARE_ADVANCE);
	xk_share_lot_give(&lot, 2);
	CHECK_EQ(lot.held, 1);
	CHECK_EQ(own.held, 3 + XK_SHARE_ADVANCE);
	xk_share_lot_give(&lot, 1);
	CHECK_EQ(own.held, 0);
	/* what is given back beyond that is of use to others */
	CHECK(xk_share_lot_take(&lot, 1) && xk_share_lot_take(&lot, 3 * XK_SHARE_ADVANCE));
	xk_share_lot_give(&lot, 3 * XK_SHARE_ADVANCE);
	CHECK_EQ(own.held, 1 + XK_SHARE_ADVANCE);
	xk_share_lot_give(&lot, 1);
	/* of the last 64 times as much, nothing is taken in advance, and all of it can be used */
	CHECK(xk_share_take(&own, 37 * XK_SHARE_ADVANCE));
	CHECK(xk_share_lot_take(&lot, 1) && xk_share_lot_take(&lot, 1));
	CHECK_EQ(lot.spare, 0);
	CHECK(xk_share_lot_take(&other, 63 * XK_SHARE_ADVANCE - 2));
	CHECK(!xk_share_lot_take(&lot, 1));
	CHECK_EQ(all.held, all.max);
	CHECK_EQ(lot.held, 2);
}

TEST(what_a_lot_takes_in_advance_exceeds_no_equal_part)
{
	struct xk_share all = { .max = 1000 * XK_SHARE_ADVANCE }, own[100];
	struct xk_share_lot lots[8];
	uint32_t part = all.max / XK_ARRAY_LENGTH(own);

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(own); i++) {
		own[i] = (struct xk_share){ .of = &all, .max = UINT32_MAX };
		xk_share_enter(&own[i]);
	}
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(lots); i++) {
		lots[i] = (struct xk_share_lot){ .share = &own[0] };
		CHECK(xk_share_lot_take(&lots[i], 1) && xk_share_lot_take(&lots[i], 1));
	}
	CHECK(own[0].held > 2 * XK_ARRAY_LENGTH(lots));
	CHECK(own[0].held <= part / 2 + 2 * XK_ARRAY_LENGTH(lots));
	CHECK(!xk_share_exceeds(&own[0], 0));
}

RIG_TEST(sessions_of_one_host_have_one_share, rig_new("llp"))
{
	struct xk_share *first, *second, *other;
	struct xk_shares shares;

	REQUIRE(xk_shares_init(&shares, rig_protocol(r, "llp"), XK_SHARES_OF_BUFFERS, 16) == 0);
	first = xk_shares_join(&shares, &(struct xk_key){ 1, 0 }, 1);
	second = xk_shares_join(&shares, &(struct xk_key){ 1, 0 }, 1);
	other = xk_shares_join(&shares, &(struct xk_key){ 2, 0 }, 1);
	CHECK(first != NULL && first == second && first != other);
	CHECK(!xk_share_take(first, 9) && xk_share_take(first, 8) && !xk_share_take(second, 1));
	/* one large request gets no more than several small ones: what remains */
	CHECK(!xk_share_take(other, 8) && !xk_share_take(other, 5) && xk_share_take(other, 4) &&
	      !xk_share_take(other, 1));
	xk_share_give(first, 8);
	xk_share_give(other, 4);
	xk_shares_leave(&shares, first);
	CHECK(xk_shares_join(&shares, &(struct xk_key){ 1, 0 }, 1) == second);
	xk_shares_leave(&shares, second);
	xk_shares_leave(&shares, second);
	xk_shares_leave(&shares, NULL);
	CHECK_EQ(xk_map_count(&shares.holders), 1);
	xk_shares_fini(&shares); /* frees `other`, too */
}

TEST(bytes_count_as_standard_buffers)
{
	CHECK_EQ(xk_share_buffers(0), 0);
	CHECK_EQ(xk_share_buffers(2047), 0);
	CHECK_EQ(xk_share_buffers(1 << 20), 512);
	CHECK_EQ(xk_share_buffers(UINT64_MAX), UINT32_MAX / 2);
}

/* Buffers in hosts' shares count as kept by the protocol, which leaves as many free for other protocols. */
RIG_TEST(shares_leave_as_much_to_other_protocols_as_they_hold, rig_new("llp"))
{
	struct xk_protocol *llp = rig_protocol(r, "llp"), *user = rig_protocol(r, "user");
	struct xk_share *share, *other;
	struct xk_shares shares;
	uint32_t got = 0, rest = 0;

	REQUIRE(xk_shares_init(&shares, llp, XK_SHARES_OF_BUFFERS, 10000) == 0);
	share = xk_shares_join(&shares, &(struct xk_key){ 1, 0 }, 1);
	other = xk_shares_join(&shares, &(struct xk_key){ 2, 0 }, 1);
	REQUIRE(share != NULL && other != NULL);
	rig_limit_buffers(r, 320); /* 10 of them are the reserve, so llp may keep 150 beside user's */
	xk_keep(user, 10);
	while (xk_share_take(share, 1))
		got++;
	while (xk_share_take(other, 1))
		rest++;
	CHECK_EQ(got, 75);
	CHECK_EQ(rest, 38);
	CHECK_EQ(xk_kept(llp), 113);
	CHECK_EQ(xk_share_held(share), 75);
	xk_share_give(other, rest);
	xk_unkeep(user, 10);
	CHECK(xk_share_take(share, 3));
	CHECK(!xk_share_take(share, 1));
	xk_share_give(share, 78);
	CHECK_EQ(xk_kept(llp), 0);
	rig_limit_buffers(r, UINT_MAX);
	xk_shares_leave(&shares, share);
	xk_shares_leave(&shares, other);
	xk_shares_fini(&shares);
}

RIG_TEST(one_more_is_kept_as_long_as_there_is_room, rig_new("llp"))
{
	struct xk_protocol *llp = rig_protocol(r, "llp"), *user = rig_protocol(r, "user");
	struct xk_msg *held[40];

	rig_limit_buffers(r, 64); /* 2 of them are the reserve */
	xk_keep(user, 11);
	CHECK_EQ(xk_keep_room(llp), 25);
	CHECK(!xk_keep_more(llp, 26));
	CHECK(xk_keep_more(llp, 20));
	CHECK_EQ(xk_keep_room(llp), 5);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(held); i++)
		held[i] = xk_msg_new(rig_platform(r), 1);
	CHECK(xk_keep_more(llp, 1));
	for (unsigned i = 0; i < 22; i++) {
		struct xk_msg *m = xk_msg_new(rig_platform(r), 1);

		xk_msg_join(held[0], m);
	}
	CHECK(!xk_keep_more(llp, 1)); /* others have taken the rest */
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(held); i++)
		xk_msg_free(held[i]);
	CHECK(xk_keep_more(llp, 4));
	CHECK(!xk_keep_more(llp, 1));
	xk_unkeep(llp, 25);
	xk_unkeep(user, 11);
	rig_limit_buffers(r, UINT_MAX);
}

/* ---- choosing the holder that gives up room ---- */

/* Takes `count` for own, one by one; if there is no room, the loser gives one up. Returns the number own then holds. */
static uint32_t
take_of_others(struct xk_share *own, uint32_t count)
{
	while (count-- > 0)
		while (!xk_share_take(own, 1)) {
			struct xk_share *loser = xk_share_loser(own, 1);

			REQUIRE(xk_share_held(loser) > 0);
			xk_share_give(loser, 1);
		}
	return xk_share_held(own);
}

TEST(newcomer_takes_from_the_largest_holder)
{
	struct xk_share all = { .max = 12 }, own[4];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(own); i++) {
		own[i] = (struct xk_share){ .of = &all, .max = UINT32_MAX };
		xk_share_enter(&own[i]);
	}
	CHECK(xk_share_loser(&own[0], 1) == &own[0]); /* no share holds anything */
	CHECK_EQ(take_of_others(&own[0], 10), 10);
	CHECK_EQ(take_of_others(&own[1], 2), 2);
	CHECK_EQ(take_of_others(&own[2], 20), 5); /* then it loses its own */
	CHECK_EQ(own[0].held, 5);
	CHECK_EQ(own[1].held, 2); /* less than its share */
	CHECK_EQ(take_of_others(&own[3], 20), 3);
	CHECK_EQ(own[1].held, 2);
	CHECK_EQ(all.held, 12);
	xk_share_give(&own[0], own[0].held);
	xk_share_exit(&own[0]);
	CHECK(take_of_others(&own[1], 20) >= 5); /* the free room, and the others' excess */
	CHECK_EQ(all.held, 12);
}

TEST(newcomer_loses_if_no_holder_would_have_more)
{
	struct xk_share all = { .max = 2 }, own[3];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(own); i++) {
		own[i] = (struct xk_share){ .of = &all, .max = UINT32_MAX };
		xk_share_enter(&own[i]);
	}
	CHECK(xk_share_take(&own[0], 1) && xk_share_take(&own[1], 1) && !xk_share_take(&own[2], 1));
	CHECK(xk_share_loser(&own[2], 1) == &own[2]);
	CHECK_EQ(own[2].held, 0);
}

/* With many holders, the largest is found even after another one was. */
TEST(loser_is_the_largest_as_holders_grow_and_shrink)
{
	struct xk_share all = { .max = UINT32_MAX }, own[64];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(own); i++) {
		own[i] = (struct xk_share){ .of = &all, .max = UINT32_MAX };
		xk_share_enter(&own[i]);
		CHECK(xk_share_take(&own[i], 100 + i));
	}
	CHECK(xk_share_loser(&own[0], 1) == &own[63]);
	CHECK(xk_share_take(&own[7], 100));
	CHECK(xk_share_loser(&own[0], 1) == &own[7]);
	xk_share_give(&own[7], 20); /* within an eighth */
	CHECK(xk_share_loser(&own[0], 1) == &own[7]);
	xk_share_give(&own[7], 80);
	CHECK(xk_share_loser(&own[0], 1) == &own[63]);
	xk_share_exit(&own[63]);
	CHECK(xk_share_loser(&own[0], 1) == &own[62]);
	xk_share_give(&own[62], 162); /* all it holds; then others grow */
	CHECK(xk_share_take(&own[0], 1));
	CHECK(xk_share_loser(&own[0], 1) == &own[61]);
}

/* Two stations: one with many hosts in one network, the other with one host in each of two networks. */
TEST(shares_are_compared_from_the_outermost_level_inward)
{
	struct rig *r = rig_new("llp");
	struct xk_share *many[6], *left, *right;
	struct xk_shares shares;
	uint32_t held = 0;

	REQUIRE(xk_shares_init(&shares, rig_protocol(r, "llp"), XK_SHARES_TAKEN, 12) == 0);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(many); i++) {
		const struct xk_key place[] = { { 1, 0 }, { 1, 1 }, { 1, 100 + i } };

		many[i] = xk_shares_join(&shares, place, XK_ARRAY_LENGTH(place));
		REQUIRE(many[i] != NULL);
		CHECK_EQ(take_of_others(many[i], 2), 2);
	}
	left = xk_shares_join(&shares, (const struct xk_key[]){ { 2, 0 }, { 2, 1 }, { 2, 100 } }, 3);
	right = xk_shares_join(&shares, (const struct xk_key[]){ { 2, 0 }, { 2, 2 }, { 2, 100 + 1 } }, 3);
	REQUIRE(left != NULL && right != NULL);
	CHECK_EQ(xk_map_count(&shares.holders), 2 + 3 + 8);
	CHECK_EQ(take_of_others(left, 10), 6);
	CHECK_EQ(take_of_others(right, 10), 3);
	CHECK_EQ(xk_share_held(left), 3);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(many); i++) {
		CHECK(xk_share_held(many[i]) <= 2);
		held += xk_share_held(many[i]);
	}
	CHECK_EQ(held, 6);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(many); i++) {
		xk_share_give(many[i], xk_share_held(many[i]));
		xk_shares_leave(&shares, many[i]);
	}
	CHECK_EQ(xk_map_count(&shares.holders), 1 + 2 + 2); /* the last host's exit freed its station and network */
	CHECK_EQ(take_of_others(left, 9), 9);
	xk_share_give(left, 9);
	xk_share_give(right, 3);
	xk_shares_leave(&shares, left);
	xk_shares_leave(&shares, right);
	CHECK_EQ(xk_map_count(&shares.holders), 0);
	CHECK(LIST_EMPTY(&shares.all.within));
	CHECK_EQ(shares.all.held, 0);
	xk_shares_fini(&shares);
	rig_free(r);
}

/* Number of the tool's allocation that fails, counted from now (0: none). The program is linked with calloc wrapped. */
static unsigned fails_in;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *
__wrap_calloc(size_t count, size_t size)
{
	return fails_in > 0 && --fails_in == 0 ? NULL : __real_calloc(count, size);
}

TEST(failed_join_leaks_nothing)
{
	static const struct xk_key near[] = { { 1, 0 }, { 1, 1 } }, far[] = { { 2, 0 }, { 2, 1 } };
	struct rig *r = rig_new("llp");
	struct xk_share *first;
	struct xk_shares shares;

	REQUIRE(xk_shares_init(&shares, rig_protocol(r, "llp"), XK_SHARES_OF_BUFFERS, 16) == 0);
	first = xk_shares_join(&shares, near, 2);
	REQUIRE(first != NULL);
	for (fails_in = 1; fails_in <= 2; fails_in++) {
		unsigned nth = fails_in;

		CHECK(xk_shares_join(&shares, far, 2) == NULL);
		CHECK_EQ(xk_map_count(&shares.holders), 2);
		fails_in = nth;
	}
	fails_in = 1;
	CHECK(xk_shares_join(&shares, (const struct xk_key[]){ near[0], { 1, 2 } }, 2) == NULL);
	CHECK_EQ(xk_map_count(&shares.holders), 2);
	CHECK(xk_shares_join(&shares, near, 2) == first); /* exists already */
	xk_shares_leave(&shares, first);
	xk_shares_leave(&shares, first);
	CHECK_EQ(xk_map_count(&shares.holders), 0);
	xk_shares_fini(&shares);
	rig_free(r);
}
