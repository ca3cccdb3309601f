/* test_vchan.c - many calls on one session: the calls that get channels or wait, and the end of the host's boot. */
#include <errno.h>

#include "protocols/chan/chan.h"
#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/upi.h"

static struct xk_session *
open_pool(struct rig *r)
{
	return rig_must_open(r, rig_to(5));
}

/* Sends a reply to the oldest waiting call, which must be `number`. */
static void
reply(struct rig *r, unsigned number, const char *hex)
{
	rig_end_call(r, 0, hex);
	CHECK_EQ(rig_call_status(r, number), 0);
	rig_expect_delivered(r, hex);
}

/* ---- channels ---- */

RIG_TEST(channels_are_reused, rig_new("vchan"))
{
	struct xk_session *s = open_pool(r), *channel = rig_wire_newest_session(r);

	CHECK_EQ(rig_wire_remote(r), 5);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(rig_call(r, s, "0102"), i);
		CHECK_EQ(rig_call_status(r, i), -EINPROGRESS);
		rig_expect_sent(r, "0102");
		reply(r, i, "03");
	}
	CHECK(rig_wire_newest_session(r) == channel);
	CHECK_EQ(rig_wire_session_count(r), 1);
	CHECK_EQ(rig_counter(r, "opened"), 1);
	rig_close(r, s);
	CHECK_EQ(rig_wire_session_count(r), 0);
}

RIG_SESSION_TEST(concurrent_calls_have_channels_of_their_own, rig_new("vchan channels=2"), open_pool(r))
{
	rig_call(r, s, "01");
	rig_call(r, s, "02");
	CHECK_EQ(rig_wire_session_count(r), 2);
	rig_call(r, s, "03");
	rig_call(r, s, "04");
	CHECK_EQ(rig_wire_session_count(r), 2);
	rig_expect_sent(r, "01");
	rig_expect_sent(r, "02");
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "waited"), 2);
	reply(r, 0, "a1"); /* the first to wait is next */
	rig_expect_sent(r, "03");
	rig_expect_nothing_sent(r);
	reply(r, 1, "a2");
	rig_expect_sent(r, "04");
	reply(r, 2, "a3");
	reply(r, 3, "a4");
	CHECK_EQ(rig_counter(r, "opened"), 2);
	CHECK_EQ(rig_drop_count(r), 0);
}

TEST(channels_may_be_opened_at_once)
{
	struct rig *r = rig_new("vchan channels=3 opened=3");
	struct xk_session *s = open_pool(r);

	CHECK_EQ(rig_wire_session_count(r), 3);
	rig_wire_refuse(r, -ENETUNREACH);
	rig_expect_open_fails(r, rig_to(6), -ENETUNREACH);
	CHECK_EQ(rig_wire_session_count(r), 3);
	rig_close(r, s);
	rig_free(r);
	CHECK_EQ(rig_refusal("wire:; vchan: wire; vchan.channels=2; vchan.opened=3; user: vchan"), -EINVAL);
}

RIG_SESSION_TEST(waiting_calls_are_bounded_in_number_and_time, rig_new("vchan channels=1 waiting=2 wait=100ms"),
		 open_pool(r))
{
	rig_call(r, s, "01");
	rig_call(r, s, "02");
	rig_advance_ms(r, 50);
	rig_call(r, s, "03");
	rig_call(r, s, "04");
	CHECK_EQ(rig_call_status(r, 3), -EBUSY);
	CHECK_EQ(rig_counter(r, "busy"), 1);
	rig_advance_ms(r, 51);
	CHECK_EQ(rig_call_status(r, 1), -ETIMEDOUT);
	CHECK_EQ(rig_call_status(r, 2), -EINPROGRESS);
	CHECK_EQ(rig_counter(r, "late"), 1);
	rig_expect_sent(r, "01");
	reply(r, 0, "a1");
	rig_expect_sent(r, "03");
	reply(r, 2, "a3");
}

RIG_SESSION_TEST(waiting_can_be_disabled, rig_new("vchan channels=1 waiting=0"), open_pool(r))
{
	rig_call(r, s, "01");
	rig_call(r, s, "02");
	CHECK_EQ(rig_call_status(r, 1), -EBUSY);
	rig_expect_sent(r, "01");
	reply(r, 0, "a1");
}

/* Its place passes to the waiting calls, which try to open it in turn. */
RIG_SESSION_TEST(failed_open_of_a_channel_is_reported, rig_new("vchan channels=2"), open_pool(r))
{
	rig_call(r, s, "01");
	rig_wire_refuse(r, -ENOBUFS);
	rig_call(r, s, "02");
	CHECK_EQ(rig_call_status(r, 1), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "unopened"), 1);
	rig_wire_refuse(r, 0);
	rig_expect_call_sent(r, s, "03", "01");
	rig_expect_sent(r, "03");
	reply(r, 0, "a1");
	reply(r, 2, "a3");
}

RIG_SESSION_TEST(results_of_a_channel_are_passed_on, rig_new("vchan"), open_pool(r))
{
	rig_expect_call_sent(r, s, "01", "01");
	rig_end_call(r, -ETIMEDOUT, NULL);
	CHECK_EQ(rig_call_status(r, 0), -ETIMEDOUT);
	rig_fail_sending(r, -EMSGSIZE);
	rig_call(r, s, "02");
	CHECK_EQ(rig_call_status(r, 1), -EMSGSIZE);
	rig_call_async(r, s, "02");
	CHECK_EQ(rig_call_status(r, 2), -EMSGSIZE);
	rig_fail_sending(r, 0);
	rig_call(r, s, "03"); /* the channel is still usable */
	rig_expect_sent(r, "03");
	reply(r, 3, "a3");
	CHECK_EQ(rig_counter(r, "opened"), 1);
}

/* ---- pools ---- */

RIG_SESSION_TEST(same_participants_share_a_pool, rig_new_graph("wire:; vchan: wire; user: vchan; user2: vchan"),
		 open_pool(r))
{
	CHECK(open_pool(r) == s);
	CHECK(rig_open(r, rig_to(6)) != s);
	CHECK(rig_open(r, rig_to2(5, 5, 5)) != s);
	rig_user(r, "user2");
	CHECK(rig_open(r, rig_to(5)) != s);
	CHECK_EQ(rig_wire_session_count(r), 4);
	rig_user(r, "user");
	rig_close(r, s);
	CHECK_EQ(rig_wire_session_count(r), 4);
	rig_close(r, s);
	CHECK_EQ(rig_wire_session_count(r), 3);
	CHECK(open_pool(r) != NULL);
}

RIG_SESSION_TEST(asynchronous_calls_take_idle_channels, rig_new("vchan opened=2"), open_pool(r))
{
	rig_call_async(r, s, "01");
	rig_call_async(r, s, "02");
	rig_call_async(r, s, "03");
	CHECK_EQ(rig_call_status(r, 2), -EBUSY);
	CHECK_EQ(rig_counter(r, "busy"), 1);
	rig_expect_sent(r, "01");
	rig_expect_sent(r, "02");
	reply(r, 0, "a1");
	rig_call_async(r, s, "04");
	rig_expect_sent(r, "04");
	reply(r, 1, "a2");
	rig_end_call(r, -ETIMEDOUT, NULL);
	CHECK_EQ(rig_call_status(r, 3), -ETIMEDOUT);
	CHECK_EQ(rig_wire_session_count(r), 2);
}

/* The call holds the pool until it ends. */
RIG_SESSION_TEST(pool_may_be_closed_with_a_call_in_progress, rig_new("vchan"), open_pool(r))
{
	rig_call_async(r, s, "01");
	rig_expect_sent(r, "01");
	rig_close(r, s);
	CHECK_EQ(rig_wire_session_count(r), 1);
	reply(r, 0, "a1");
	CHECK_EQ(rig_wire_session_count(r), 0);
}

/* ---- reboots ---- */

RIG_TEST(pool_ends_with_its_hosts_boot, rig_new("vchan channels=2 opened=2"))
{
	struct xk_session *s = open_pool(r), *again;

	rig_call(r, s, "01");
	rig_call(r, s, "02");
	rig_call(r, s, "03"); /* waits */
	rig_expect_sent(r, "01");
	rig_expect_sent(r, "02");
	rig_end_call(r, -ECONNRESET, NULL);
	CHECK_EQ(rig_call_status(r, 0), -ECONNRESET);
	CHECK_EQ(rig_call_status(r, 2), -ECONNRESET);
	CHECK_EQ(rig_call_status(r, 1), -EINPROGRESS);
	rig_call(r, s, "04");
	CHECK_EQ(rig_call_status(r, 3), -ECONNRESET);
	rig_call_async(r, s, "05");
	CHECK_EQ(rig_call_status(r, 4), -ECONNRESET);
	CHECK_EQ(rig_counter(r, "reset"), 3);
	again = open_pool(r); /* to the host's present boot */
	CHECK(again != s);
	rig_end_call(r, -ECONNRESET, NULL);
	CHECK_EQ(rig_call_status(r, 1), -ECONNRESET);
	rig_expect_call_sent(r, again, "06", "06");
	reply(r, 5, "a6");
	rig_expect_nothing_sent(r);
	rig_close(r, s);
	CHECK_EQ(rig_wire_session_count(r), 2);
}

RIG_SESSION_TEST(waiting_caller_opens_no_channel_after_the_pool_ends, rig_new("vchan channels=1"), open_pool(r))
{
	rig_call(r, s, "01");
	rig_call(r, s, "02"); /* waits */
	rig_expect_sent(r, "01");
	rig_end_call(r, -ECONNRESET, NULL);
	CHECK_EQ(rig_call_status(r, 1), -ECONNRESET);
	CHECK_EQ(rig_counter(r, "opened"), 1); /* none to the present boot */
	rig_expect_nothing_sent(r);
	rig_close(r, s);
}

static struct {
	const struct xk_protocol_ops *ops; /* the wire's */
	struct xk_session *first;
} rebooting;

/* Opens a channel after the previous channel's host has rebooted. */
static int
open_after_reboot(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		  struct xk_participants *participants, struct xk_session **session)
{
	int err;

	if (rebooting.first != NULL)
		xk_close_done(rebooting.first);
	err = rebooting.ops->open(self, hlp_receive, hlp_type, participants, session);
	rebooting.first = *session;
	return err;
}

RIG_TEST(pool_that_ends_during_its_open_is_not_shared, rig_new("vchan channels=2 opened=2"))
{
	struct xk_protocol *wire = rig_protocol(r, "vchan")->lowers[0]->lower;
	struct xk_protocol_ops ops = *wire->ops;
	struct xk_session *s, *anew;

	rebooting.ops = wire->ops;
	rebooting.first = NULL;
	ops.open = open_after_reboot;
	wire->ops = &ops;
	s = open_pool(r);
	wire->ops = rebooting.ops;
	CHECK_EQ(rig_call_status(r, rig_call(r, s, "01")), -ECONNRESET);
	anew = open_pool(r);
	CHECK(anew != s);
	CHECK_EQ(rig_call_status(r, rig_call(r, anew, "02")), -EINPROGRESS);
	rig_expect_sent(r, "02");
	reply(r, 1, "03");
	rig_close(r, s);
	rig_close(r, anew);
	CHECK_EQ(rig_wire_session_count(r), 0);
}

RIG_TEST(channel_closed_below_ends_the_pool, rig_new("vchan opened=2"))
{
	struct xk_session *s = open_pool(r), *channel = rig_wire_newest_session(r);

	rig_call_async(r, s, "01");
	rig_expect_sent(r, "01");
	rig_close_done(r, channel);
	CHECK_EQ(rig_close_done_count(r), 1);
	rig_call(r, s, "02");
	CHECK_EQ(rig_call_status(r, 1), -ECONNRESET);
	rig_end_call(r, -ECONNRESET, NULL);
	CHECK_EQ(rig_call_status(r, 0), -ECONNRESET);
	rig_close(r, s);
	CHECK_EQ(rig_wire_session_count(r), 0);
}

static void
close_session(void *session)
{
	xk_close(session);
}

RIG_TEST(close_of_a_channel_after_its_pool_is_ignored, rig_new("vchan"))
{
	struct xk_session *s = open_pool(r), *channel = rig_wire_newest_session(r);

	REQUIRE(xk_duplicate(channel));
	rig_close(r, s);
	rig_close_done(r, channel);
	CHECK_EQ(rig_close_done_count(r), 0);
	CHECK(rig_do(r, close_session, channel));
}

/* ---- server ---- */

RIG_TEST(server_receives_on_the_channels_themselves, rig_new("vchan"))
{
	struct xk_protocol *user = rig_protocol(r, "user");

	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	CHECK_EQ(rig_wire_enable_count(r), 1);
	rig_serve(r, 0, "0304");
	CHECK_EQ(rig_inject_call(r, NULL, "0102"), 0);
	rig_expect_delivered(r, "0102");
	rig_expect_sent(r, "0304");
	CHECK_EQ(rig_open_done_count(r), 1);
	CHECK(rig_delivered_session(r)->protocol == rig_protocol(r, "wire"));
	CHECK(rig_delivered_session(r)->up == user->lowers[0]);
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	CHECK_EQ(rig_open_disable(r, anybody()), -ENOENT);
}

RIG_SESSION_TEST(call_received_on_a_pools_channel_is_refused, rig_new("vchan"), open_pool(r))
{
	CHECK_EQ(rig_inject_call(r, s->lls, "01"), -EOPNOTSUPP);
	CHECK_EQ(rig_counter(r, "unexpected"), 1);
}

/* ---- controls ---- */

RIG_SESSION_TEST(all_channels_inherit_the_pools_deadline, rig_new("vchan"), open_pool(r))
{
	uint64_t deadline_ns = 5000000;
	uint32_t length;

	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &length), 0);
	CHECK_EQ(length, 1500);
	CHECK_EQ(xk_control(s, XK_CHAN_ABORT, NULL), -EOPNOTSUPP);
	CHECK_EQ(xk_control(s, XK_CHAN_SET_DEADLINE, &deadline_ns), -ENOTSUP);
	rig_answer_control(r, XK_CHAN_SET_DEADLINE, &deadline_ns, 0);
	CHECK_EQ(xk_control(s, XK_CHAN_SET_DEADLINE, &deadline_ns), 0);
	rig_expect_call_sent(r, s, "01", "01");
	reply(r, 0, "a1");
}
