/* test_null.c - messages cross null unchanged, through any number of layers. */
#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/engine/engine.h"
#include "xkernel/trace.h"

#define TEN                                                                                                            \
	"wire:; null: wire; null2: null; null3: null2; null4: null3; null5: null4; null6: null5; null7: null6; "       \
	"null8: null7; null9: null8; null10: null9; user: null10"

static void
crosses_both_ways(struct rig *r)
{
	struct xk_session *s = rig_must_open(r, rig_to(5));

	CHECK_EQ(rig_wire_remote(r), 5);
	rig_expect_down(r, s, "0102 | 03", "010203");
	rig_expect_down(r, s, "", "");
	rig_expect_up(r, "0405", "0405");
	CHECK(rig_delivered_session(r) == s);
	rig_close(r, s);
	CHECK_EQ(rig_wire_session_count(r), 0);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(null_changes_nothing, rig_new("null"))
{
	crosses_both_ways(r);
}

RIG_TEST(ten_nulls_change_nothing, rig_new_graph(TEN))
{
	crosses_both_ways(r);
}

/* A frame opens a session in each layer, and the topmost is announced; without room the oldest are closed. */
RIG_TEST(ten_nulls_are_opened_passively, rig_new_graph(TEN))
{
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	rig_expect_up(r, "01", "01");
	CHECK_EQ(rig_open_done_count(r), 1);
	CHECK(rig_delivered_session(r) == rig_announced_session(r));
	rig_expect_up(r, "02", "02");
	CHECK_EQ(rig_open_done_count(r), 1);
	CHECK_EQ(rig_protocol(r, "null10")->cache_count, 1);
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	CHECK_EQ(rig_protocol(r, "null")->cache_count, 0);
	rig_inject(r, "03");
	rig_expect_nothing_delivered(r);
}

RIG_SESSION_TEST(null_passes_failures_on, rig_new("null"), rig_must_open(r, rig_to(5)))
{
	rig_fail_sending(r, -EMSGSIZE);
	CHECK_EQ(rig_push(r, s, "01"), -EMSGSIZE);
	rig_wire_refuse(r, -ENETUNREACH);
	rig_expect_open_fails(r, rig_to(6), -ENETUNREACH);
}

static uint64_t
explicit_handoffs(struct rig *r)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(rig_kernel(r), &stats);
	return stats.handoffs[XK_HANDOFF_EXPLICIT];
}

/* Messages that cross the edges of a stack of nulls are watched as on any others. */
static void
prepare_explicit(struct rig *r)
{
	struct xk_edge *edge = rig_protocol(r, "null5")->lowers[0];

	xk_edge_watch(edge, XK_WATCH_ANY, XK_WATCH_EXPLICIT);
}

RIG_TEST(edge_between_nulls_hands_off, rig_new_prepared(TEN, prepare_explicit))
{
	REQUIRE(rig_open(r, rig_to(5)) != NULL);
	rig_expect_up(r, "01", "01");
	CHECK_EQ(explicit_handoffs(r), 1);
}

/* Watching may change while sessions cross the edge. */
RIG_TEST(edge_between_nulls_can_be_watched_and_unwatched, rig_new_graph(TEN))
{
	struct xk_edge *edge = rig_protocol(r, "null5")->lowers[0];
	struct xk_session *s = rig_must_open(r, rig_to(5));

	for (unsigned i = 1; i <= 3; i++) {
		xk_edge_watch(edge, XK_WATCH_ANY, XK_WATCH_EXPLICIT | XK_WATCH_COUNT);
		rig_expect_up(r, "01", "01");
		rig_expect_down(r, s, "02", "02");
		CHECK_EQ(explicit_handoffs(r), i);
		xk_edge_watch(edge, XK_WATCH_ANY, 0);
		rig_expect_up(r, "03", "03");
		rig_expect_down(r, s, "04", "04");
		CHECK_EQ(explicit_handoffs(r), i);
		CHECK_EQ(atomic_load(&edge->counts[XK_UP].messages), i);
		CHECK_EQ(atomic_load(&edge->counts[XK_DOWN].messages), i);
	}
}

static void
prepare_traced(struct rig *r)
{
	xk_edge_watch(rig_protocol(r, "null5")->lowers[0], XK_WATCH_ANY, XK_WATCH_EXPLICIT);
	rig_protocol(r, "null5")->trace_level = XK_TRACE_MESSAGES;
}

RIG_SESSION_TEST(sessions_opened_on_a_watched_edge_are_watched, rig_new_prepared(TEN, prepare_traced),
		 rig_must_open(r, rig_to(5)))
{
	for (unsigned i = 10; i > 4; i--)
		s = s->lls;
	CHECK_EQ(xk_edge_watched(s->up, XK_WATCH_ANY), XK_WATCH_EXPLICIT | XK_WATCH_TRACE);
	CHECK_EQ(xk_edge_watched(s->lls->up, XK_WATCH_ANY), 0);
}
