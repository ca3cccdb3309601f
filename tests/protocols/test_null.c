/* test_null.c - what crosses null goes on as it was, through as many layers as there are. */
#include "tests/rig.h"
#include "xkernel/upi.h"

#define TEN                                                                                                            \
	"wire:; null: wire; null2: null; null3: null2; null4: null3; null5: null4; null6: null5; null7: null6; "       \
	"null8: null7; null9: null8; null10: null9; user: null10"

static const struct xk_participants nobody = { .remote.depth = 0 };

static void
crosses_both_ways(struct rig *r)
{
	struct xk_session *s = rig_open(r, rig_to(5));

	REQUIRE(s != NULL);
	CHECK_EQ(rig_wire_remote(r), 5);
	CHECK_EQ(rig_push(r, s, "0102 | 03"), 0);
	rig_expect_sent(r, "010203");
	CHECK_EQ(rig_push(r, s, ""), 0);
	rig_expect_sent(r, "");
	rig_inject(r, "0405");
	rig_expect_delivered(r, "0405");
	CHECK(rig_delivered_on(r) == s);
	rig_close(r, s);
	CHECK_EQ(rig_wire_sessions(r), 0);
	CHECK_EQ(rig_drops(r), 0);
}

TEST(null_changes_nothing)
{
	struct rig *r = rig_new("null");

	crosses_both_ways(r);
	rig_free(r);
}

TEST(ten_nulls_change_nothing)
{
	struct rig *r = rig_new_graph(TEN);

	crosses_both_ways(r);
	rig_free(r);
}

/* A frame opens a session of each layer, and the topmost is announced; with their room taken the oldest go. */
TEST(ten_nulls_are_opened_passively)
{
	struct rig *r = rig_new_graph(TEN);

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, "01");
	rig_expect_delivered(r, "01");
	CHECK_EQ(rig_open_dones(r), 1);
	CHECK(rig_delivered_on(r) == rig_announced(r));
	rig_inject(r, "02");
	rig_expect_delivered(r, "02");
	CHECK_EQ(rig_open_dones(r), 1);
	CHECK_EQ(rig_protocol(r, "null10")->cache_count, 1);
	CHECK_EQ(rig_open_disable(r, nobody), 0);
	CHECK_EQ(rig_protocol(r, "null")->cache_count, 0);
	rig_inject(r, "03");
	rig_expect_nothing_delivered(r);
	rig_free(r);
}

TEST(null_passes_failures_on)
{
	struct rig *r = rig_new("null");
	struct xk_session *s = rig_open(r, rig_to(5));

	REQUIRE(s != NULL);
	rig_fail_sending(r, -EMSGSIZE);
	CHECK_EQ(rig_push(r, s, "01"), -EMSGSIZE);
	rig_wire_refuse(r, -ENETUNREACH);
	CHECK(rig_open(r, rig_to(6)) == NULL);
	CHECK_EQ(rig_error(r), -ENETUNREACH);
	rig_free(r);
}

/* What crosses the edges of a stack of them is watched as on any others. */
static void
prepare_explicit(struct rig *r)
{
	struct xk_edge *edge = rig_protocol(r, "null5")->lowers[0];

	atomic_store(&edge->watch, XK_WATCH_EXPLICIT);
}

TEST(an_edge_between_nulls_hands_off)
{
	struct rig *r = rig_new_prepared(TEN, prepare_explicit);
	struct xk_kernel_stats stats;

	REQUIRE(rig_open(r, rig_to(5)) != NULL);
	rig_inject(r, "01");
	rig_expect_delivered(r, "01");
	xk_kernel_stats(rig_kernel(r), &stats);
	CHECK_EQ(stats.handoffs[XK_HANDOFF_EXPLICIT], 1);
	rig_free(r);
}
