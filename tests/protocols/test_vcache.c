/* test_vcache.c - closed sessions are kept for a time and reopened without involving the lower protocol. */
#include <errno.h>

#include "tests/participants.h"
#include "tests/protocols/bare.h"
#include "tests/rig.h"
#include "xkernel/upi.h"

enum { TIME_MS = 20000 };

/* Runs until nothing is kept, then frees the rig. */
static void
end(struct rig *r)
{
	rig_advance_ms(r, 2 * TIME_MS);
	rig_free(r);
}

static void
open_and_close(struct rig *r, uint64_t peer)
{
	struct xk_session *s = rig_must_open(r, rig_to(peer));

	rig_close(r, s);
}

TEST_WITH(messages_pass_in_both_directions, struct rig *r, rig_new("vcache"), end)
{
	struct xk_session *s = rig_must_open(r, rig_to(5));

	rig_expect_down(r, s, "0102", "0102");
	rig_expect_up(r, "03", "03");
	CHECK(rig_delivered_session(r) == s);
	rig_fail_sending(r, -EMSGSIZE);
	CHECK_EQ(rig_push(r, s, "0102"), -EMSGSIZE);
	rig_close(r, s);
	CHECK_EQ(rig_counter(r, "kept"), 1); /* that failure does not end the session */
}

TEST_WITH(open_reuses_the_kept_session, struct rig *r, rig_new("vcache"), end)
{
	struct xk_session *s = rig_must_open(r, rig_to2(5, 6, 7)), *lls;

	lls = s->lls;
	rig_close(r, s);
	CHECK_EQ(rig_wire_session_count(r), 1);
	rig_wire_refuse(r, -ENETUNREACH); /* the lower protocol is not asked */
	s = rig_must_open(r, rig_to2(5, 6, 7));
	CHECK(s->lls == lls);
	rig_expect_up(r, "03", "03");
	CHECK(rig_delivered_session(r) == s);
	rig_close(r, s);
	rig_expect_counts(r, "opened=1 reused=1 kept=2");
}

TEST_WITH(only_equal_participants_are_reused, struct rig *r,
	  rig_new_graph("wire:; vcache: wire; user/ip: vcache; user2/arp: vcache"), end)
{
	struct xk_participants other = rig_to2(5, 6, 7);

	REQUIRE(rig_open(r, rig_to2(5, 6, 7)) != NULL);
	rig_close(r, rig_opened_session(r));
	CHECK_EQ(rig_counter(r, "kept"), 1);
	rig_wire_refuse(r, -ENETUNREACH);
	CHECK(rig_open(r, rig_to2(5, 6, 8)) == NULL);
	CHECK(rig_open(r, rig_to2(4, 6, 7)) == NULL);
	CHECK(rig_open(r, rig_to(6)) == NULL);
	other.local.depth = 0;
	CHECK(rig_open(r, other) == NULL);
	rig_user(r, "user2");
	CHECK(rig_open(r, rig_to2(5, 6, 7)) == NULL);
	rig_user(r, "user");
	REQUIRE(rig_open(r, rig_to2(5, 6, 7)) != NULL);
	rig_close(r, rig_opened_session(r));
}

/* Sessions open at the same time are distinct, and one of them is kept. */
TEST_WITH(one_session_is_kept_per_participants, struct rig *r, rig_new("vcache"), end)
{
	struct xk_session *a = rig_open(r, rig_to(5)), *b = rig_open(r, rig_to(5));

	REQUIRE(a != NULL && b != NULL && a != b);
	rig_close(r, a);
	rig_close(r, b);
	CHECK_EQ(rig_wire_session_count(r), 1);
	rig_expect_counts(r, "opened=2 kept=1");
}

RIG_TEST(kept_session_closes_when_its_time_is_up, rig_new("vcache"))
{
	open_and_close(r, 5);
	rig_advance_ms(r, TIME_MS / 2);
	open_and_close(r, 6);
	rig_advance_ms(r, TIME_MS / 2 - 1);
	CHECK_EQ(rig_wire_session_count(r), 2);
	rig_advance_ms(r, 2);
	CHECK_EQ(rig_wire_session_count(r), 1);
	open_and_close(r, 6); /* and its time starts again */
	rig_advance_ms(r, TIME_MS - 1);
	CHECK_EQ(rig_wire_session_count(r), 1);
	rig_advance_ms(r, 2);
	CHECK_EQ(rig_wire_session_count(r), 0);
	rig_expect_counts(r, "expired=2 reused=1");
}

TEST_WITH(session_closed_first_is_evicted, struct rig *r, rig_new("vcache entries=2"), end)
{
	open_and_close(r, 5);
	open_and_close(r, 6);
	open_and_close(r, 7);
	CHECK_EQ(rig_wire_session_count(r), 2);
	CHECK_EQ(rig_counter(r, "pushed_out"), 1);
	rig_wire_refuse(r, -ENETUNREACH);
	CHECK(rig_open(r, rig_to(5)) == NULL);
	open_and_close(r, 6);
	open_and_close(r, 7);
}

/* Sessions leave from the middle, and from buckets with several. */
TEST_WITH(many_sessions_come_and_go_in_any_order, struct rig *r, rig_new("vcache entries=64"), end)
{
	struct xk_session *s[100];

	for (unsigned i = 0; i < 100; i++) {
		s[i] = rig_open(r, rig_to(i));
		REQUIRE(s[i] != NULL);
	}
	for (unsigned i = 0; i < 100; i++)
		rig_close(r, s[i * 37 % 100]);
	CHECK_EQ(rig_wire_session_count(r), 64);
	CHECK_EQ(rig_counter(r, "pushed_out"), 36);
	for (unsigned i = 99; i > 36; i -= 3)
		open_and_close(r, i * 37 % 100);
	CHECK_EQ(rig_counter(r, "reused"), 21);
}

RIG_SESSION_TEST(dead_session_is_not_kept, rig_new("vcache"), rig_must_open(r, rig_to(5)))
{
	static const int deadly[] = { -ECONNRESET, -ETIMEDOUT };

	rig_close_done(r, s->lls);
	CHECK_EQ(rig_close_done_count(r), 1);
	rig_close(r, s);
	CHECK_EQ(rig_wire_session_count(r), 0);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(deadly); i++) {
		s = rig_must_open(r, rig_to(5));
		rig_fail_sending(r, deadly[i]);
		CHECK_EQ(rig_push(r, s, "01"), deadly[i]);
		rig_fail_sending(r, 0);
		rig_close(r, s);
		CHECK_EQ(rig_wire_session_count(r), 0);
	}
	CHECK_EQ(rig_counter(r, "kept"), 0);
}

TEST_WITH(kept_session_closed_by_the_peer_is_released, struct rig *r, rig_new("vcache"), end)
{
	struct xk_session *s = rig_must_open(r, rig_to(5)), *lls;

	lls = s->lls;
	open_and_close(r, 6);
	rig_close(r, s);
	rig_close_done(r, lls);
	CHECK_EQ(rig_close_done_count(r), 0);
	CHECK_EQ(rig_counter(r, "died"), 1);
	CHECK_EQ(rig_wire_session_count(r), 1);
}

/* Its open_enable is looked up again, and open_done is called again. */
TEST_WITH(message_for_a_kept_session_opens_a_new_one_if_enabled, struct rig *r, rig_new("vcache"), end)
{
	struct xk_session *lls;

	open_and_close(r, 5);
	lls = rig_wire_newest_session(r);
	rig_inject(r, "01");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	rig_expect_up(r, "02", "02");
	CHECK_EQ(rig_open_done_count(r), 1);
	CHECK(rig_announced_session(r)->lls == lls);
	CHECK(rig_open(r, rig_to(5)) == rig_announced_session(r)); /* an open shares it */
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	rig_close(r, rig_opened_session(r));
}

/* ---- shutdown with kept sessions ---- */

TEST(host_may_end_while_sessions_are_kept)
{
	struct bare b = bare_new("vcache");

	xk_close(bare_session(&b));
	bare_free(&b);
}
