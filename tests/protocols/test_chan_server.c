/* test_chan_server.c - the server's end of a channel: requests run, replies kept, and messages sent. */
#include "tests/protocols/chan_rig.h"

enum { REQUEST = CHAN_USER_MSG, AGAIN = CHAN_USER_MSG | CHAN_ACK_REQUESTED, PROBE = CHAN_ACK_REQUESTED };

/* ---- the exchanges ---- */

CHAN_TEST(chan_next_request_frees_the_kept_reply, server_new(""))
{
	struct frame f;

	f = call_once(r, 5, "one");
	CHECK_EQ(f.h.channel, CHANNEL);
	CHECK_EQ(caller_in(r)->opened, 1);
	call_once(r, 6, "");
	rig_advance_ms(r, 150);
	ask(r, 0, 7, ""); /* the explicit ack: the server has nothing left to ask for */
	rig_expect_silence_ms(r, 60000);
	CHECK_EQ(executed(r), 2);
	CHECK_EQ(caller_in(r)->opened, 1);
	CHECK_EQ(rig_counter(r, "executed"), 2);
	CHECK_EQ(rig_drop_count(r), 0);
}

CHAN_TEST(chan_header_only_ack_is_no_request, server_new(""))
{
	call_once(r, 5, "one");
	ask(r, 0, 6, "");
	CHECK_EQ(executed(r), 1);
	ask(r, 0, 6, "");
	CHECK_EQ(rig_counter(r, "stale"), 1);
	call_once(r, 6, "two");
	ask(r, 0, 9, ""); /* for no reply */
	CHECK_EQ(rig_counter(r, "stale"), 2);
	ask(r, 0, 7, "");
	rig_expect_nothing_sent(r);
	CHECK_EQ(executed(r), 2);
}

CHAN_TEST(chan_acknowledges_a_running_request, server_new(""))
{
	caller_in(r)->waits = true;
	ask(r, REQUEST, 5, "slow");
	rig_expect_nothing_sent(r);
	draw(r, AGAIN, 5, "slow", 0, "");
	draw(r, PROBE, 5, "", 0, "");
	ask(r, REQUEST, 5, "slow"); /* a duplicate from the network */
	ask(r, CHAN_NEGATIVE_ACK, 5, "");
	rig_expect_nothing_sent(r);
	rig_expect_counts(r, "duplicate=2 acked=2");
	go(r);
	expect(r, CHAN_USER_MSG, 5, "slow");
	CHECK_EQ(executed(r), 1);
	ask(r, 0, 6, "");
}

CHAN_TEST(chan_asks_for_a_missing_request, server_new(""))
{
	draw(r, PROBE, 5, "", CHAN_NEGATIVE_ACK, "");
	CHECK_EQ(caller_in(r)->opened, 0); /* a probe leaves no state */
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	call_once(r, 5, "one");
	draw(r, PROBE, 6, "", CHAN_NEGATIVE_ACK, "");
	rig_expect_silence_ms(r, 1000); /* that acknowledges the reply */
	call_once(r, 6, "two");
	CHECK_EQ(executed(r), 2);
	ask(r, 0, 7, "");
}

CHAN_TEST(chan_retransmits_a_reply_until_acknowledged, server_new(""))
{
	call_once(r, 5, "x");
	rig_advance_ms(r, 200);
	expect(r, CHAN_USER_MSG | CHAN_ACK_REQUESTED, 5, "x");
	rig_advance_ms(r, 400);
	expect(r, CHAN_USER_MSG | CHAN_ACK_REQUESTED, 5, "x");
	rig_advance_ms(r, 5);
	draw(r, CHAN_NEGATIVE_ACK, 5, "", CHAN_USER_MSG, "x");
	CHECK_EQ(rig_counter(r, "repeated"), 3);
	ask(r, 0, 6, "");
	rig_expect_silence_ms(r, 60000);
}

CHAN_TEST(chan_probes_whether_a_long_reply_has_arrived, chan_rig(""))
{
	uint32_t packet = 3000;

	rig_answer_control(r, XK_GET_MAX_PACKET, &packet, sizeof(packet));
	CHECK_EQ(serve(r, true), 0);
	caller_in(r)->reply_len = 2000;
	CHECK_EQ(draw(r, REQUEST, 5, "x", CHAN_USER_MSG, NULL).len, 2000);
	rig_advance_ms(r, 200);
	expect(r, CHAN_ACK_REQUESTED, 5, "");
	CHECK_EQ(draw(r, CHAN_NEGATIVE_ACK, 5, "", CHAN_USER_MSG, NULL).len, 2000);
	ask(r, 0, 6, "");
	rig_expect_silence_ms(r, 1000);
}

CHAN_TEST(chan_duplicate_request_draws_the_reply_at_once, server_new(""))
{
	call_once(r, 5, "x");
	ask(r, REQUEST, 5, "x"); /* a duplicate from the network */
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 5);
	draw(r, AGAIN, 5, "x", CHAN_USER_MSG, "x");
	rig_advance_ms(r, 5);
	draw(r, PROBE, 5, "", CHAN_USER_MSG, "x");
	CHECK_EQ(executed(r), 1);
	CHECK_EQ(rig_counter(r, "duplicate"), 2);
	ask(r, 0, 6, "");
	CHECK_EQ(draw(r, PROBE, 5, "", CHAN_ERROR, "").h.status, ETIMEDOUT); /* unneeded and gone */
	CHECK_EQ(draw(r, CHAN_NEGATIVE_ACK, 5, "", CHAN_ERROR, "").h.status, ETIMEDOUT);
	CHECK_EQ(executed(r), 1);
}

CHAN_TEST(chan_old_requests_are_never_run, server_new(""))
{
	for (uint32_t i = 5; i < 8; i++) {
		call_once(r, i, "x");
	}
	ask(r, REQUEST, 6, "x");
	ask(r, AGAIN, 5, "x");
	ask(r, PROBE, 6, "");
	ask(r, CHAN_NEGATIVE_ACK, 6, "");
	ask(r, CHAN_NEGATIVE_ACK, 9, ""); /* for a reply that was never sent */
	rig_expect_nothing_sent(r);
	CHECK_EQ(executed(r), 3);
	CHECK_EQ(rig_counter(r, "stale"), 5);
	ask(r, 0, 8, "");
	ask(r, AGAIN, 6, "x"); /* and while idle */
	rig_expect_nothing_sent(r);
	CHECK_EQ(executed(r), 3);
}

CHAN_TEST(chan_sequence_numbers_of_requests_wrap, server_new(""))
{
	for (uint32_t i = 0; i < 4; i++) {
		call_once(r, UINT32_MAX - 1 + i, "x");
	}
	ask(r, REQUEST, UINT32_MAX, "x");
	CHECK_EQ(rig_counter(r, "stale"), 1);
	CHECK_EQ(executed(r), 4);
	ask(r, 0, 2, "");
	rig_expect_nothing_sent(r);
}

/* ---- the fast path for the usual request ---- */

CHAN_TEST(chan_usual_request_with_a_wrong_length_is_dropped, server_new(""))
{
	uint8_t bytes[CHAN_HEADER_LEN + 32] = { 0 };
	struct chan_header h = { CHANNEL, NUMBER, 5, CHAN_FROM_CLIENT | REQUEST, 0 };

	call_once(r, 5, "x");
	for (uint32_t more = 1; more <= CHAN_HEADER_LEN + 8; more++) {
		h.sequence++;
		frame_bytes(bytes, h, "four", 4);
		xk_put32(bytes + 16, 4 + more);
		rig_inject_bytes(r, bytes, CHAN_HEADER_LEN + 4);
		CHECK_EQ(rig_counter(r, "bad_length"), more);
	}
	rig_expect_nothing_sent(r);
	CHECK_EQ(executed(r), 1);
	ask(r, 0, 6, "");
}

/* ---- a newer request while one runs ---- */

CHAN_TEST(chan_newer_request_suppresses_the_old_reply, server_new(""))
{
	caller_in(r)->waits = true;
	ask(r, REQUEST, 5, "old");
	ask(r, REQUEST, 6, "new");
	draw(r, AGAIN, 7, "newest", 0, "");
	draw(r, PROBE, 7, "", 0, "");
	ask(r, REQUEST, 6, "new"); /* late */
	CHECK_EQ(rig_counter(r, "busy"), 3);
	CHECK_EQ(executed(r), 1);
	caller_in(r)->waits = false;
	go(r);
	expect(r, CHAN_NEGATIVE_ACK, 7, "");
	CHECK_EQ(rig_counter(r, "abandoned"), 1);
	rig_expect_silence_ms(r, 5000);
	call_once(r, 7, "newest");
	CHECK_EQ(executed(r), 2);
	ask(r, REQUEST, 6, "new");
	CHECK_EQ(executed(r), 2);
	ask(r, 0, 8, "");
}

/* ---- errors ---- */

CHAN_TEST(chan_handlers_failure_is_a_reply, server_new(""))
{
	struct frame f;

	caller_in(r)->fails = -ENOSYS;
	f = draw(r, REQUEST, 5, "x", CHAN_USER_MSG | CHAN_ERROR, "");
	CHECK_EQ(f.h.status, ENOSYS);
	rig_advance_ms(r, 200);
	f = expect(r, CHAN_USER_MSG | CHAN_ERROR | CHAN_ACK_REQUESTED, 5, "");
	CHECK_EQ(f.h.status, ENOSYS);
	rig_advance_ms(r, 5);
	f = draw(r, AGAIN, 5, "x", CHAN_USER_MSG | CHAN_ERROR, "");
	CHECK_EQ(f.h.status, ENOSYS);
	CHECK_EQ(rig_counter(r, "failed"), 1);
	CHECK_EQ(executed(r), 1);
	caller_in(r)->fails = 0;
	CHECK_EQ(call_once(r, 6, "x").h.status, 0);
	rig_advance_ms(r, 400);
	CHECK_EQ(expect(r, CHAN_USER_MSG | CHAN_ACK_REQUESTED, 6, "x").h.status, 0);
	ask(r, 0, 7, "");
}

CHAN_TEST(chan_handlers_failure_is_not_mistaken_for_chans_own, server_new(""))
{
	static const int errors[] = { -ETIMEDOUT, -ECONNRESET, -ECONNREFUSED, -EBUSY, -ECANCELED, -5000, 5 };

	for (uint32_t i = 0; i < XK_ARRAY_LENGTH(errors); i++) {
		caller_in(r)->fails = errors[i];
		CHECK_EQ(draw(r, REQUEST, i + 1, "x", CHAN_USER_MSG | CHAN_ERROR, "").h.status, EREMOTEIO);
	}
	ask(r, 0, XK_ARRAY_LENGTH(errors) + 1, "");
}

CHAN_TEST(chan_reply_may_be_missing_but_not_too_long, server_new(""))
{
	caller_in(r)->replies_nothing = true;
	draw(r, REQUEST, 1, "x", CHAN_USER_MSG, "");
	caller_in(r)->replies_nothing = false;
	caller_in(r)->reply_len = 1500;
	CHECK_EQ(draw(r, REQUEST, 2, "x", CHAN_USER_MSG | CHAN_ERROR, "").h.status, EREMOTEIO);
	ask(r, 0, 3, "");
}

CHAN_TEST(chan_refuses_calls_unless_enabled, chan_rig(""))
{
	CHECK_EQ(draw(r, REQUEST, 5, "x", CHAN_ERROR, "").h.status, ECONNREFUSED);
	CHECK_EQ(draw(r, PROBE, 5, "", CHAN_ERROR, "").h.status, ECONNREFUSED);
	ask(r, 0, 5, ""); /* answering that would answer an answer */
	rig_expect_nothing_sent(r);
	rig_expect_counts(r, "no_session=3 rejected=2");
}

CHAN_TEST(chan_refuses_calls_once_disabled_but_remembers_replies, server_new(""))
{
	call_once(r, 5, "x");
	CHECK_EQ(serve(r, false), 0);
	CHECK_EQ(serve(r, false), -ENOENT);
	rig_advance_ms(r, 5);
	draw(r, AGAIN, 5, "x", CHAN_USER_MSG, "x");
	CHECK_EQ(draw(r, REQUEST, 6, "x", CHAN_ERROR, "").h.status, ECONNREFUSED);
	CHECK_EQ(draw(r, PROBE, 6, "", CHAN_ERROR, "").h.status, ECONNREFUSED);
	CHECK_EQ(executed(r), 1);
	CHECK_EQ(serve(r, true), 0);
	ask(r, REQUEST, 5, "x");
	CHECK_EQ(executed(r), 1);
	call_once(r, 7, "x");
	ask(r, 0, 8, "");
}

CHAN_TEST(chan_reports_a_refusal_by_open_done, server_new(""))
{
	caller_in(r)->refuses = -EPERM;
	CHECK_EQ(draw(r, REQUEST, 5, "x", CHAN_ERROR, "").h.status, ECONNREFUSED);
	CHECK_EQ(rig_counter(r, "refused"), 1);
	caller_in(r)->refuses = 0;
	draw(r, AGAIN, 5, "x", CHAN_USER_MSG, "x");
	ask(r, 0, 6, "");
}

CHAN_TEST(chan_opens_no_channel_over_a_session_without_room, server_new(""))
{
	uint32_t packet = CHAN_HEADER_LEN - 1;

	rig_answer_control(r, XK_GET_MAX_PACKET, &packet, sizeof(packet));
	ask(r, REQUEST, 5, "x");
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "no_memory"), 1);
	CHECK_EQ(executed(r), 0);
}

/* ---- bounds ---- */

static void
ask_on(struct rig *r, uint32_t channel, unsigned flags, uint32_t sequence, const char *text)
{
	struct chan_header h = { channel, NUMBER, sequence, (uint16_t)(flags | CHAN_FROM_CLIENT), 0 };

	inject(r, h, text);
}

CHAN_TEST(chan_channels_of_a_client_are_bounded, server_new("chan.peer_channels=3"))
{
	for (uint32_t i = 0; i < 3; i++) {
		ask_on(r, i, REQUEST, 1, "x");
		expect(r, CHAN_USER_MSG, 1, "x");
		ask_on(r, i, 0, 2, "");
	}
	ask_on(r, 3, REQUEST, 1, "x");
	CHECK_EQ(expect(r, CHAN_ERROR, 1, "").h.status, ECONNREFUSED);
	CHECK_EQ(rig_counter(r, "too_many"), 1);
	rig_wire_peer(r, CLIENT + 1); /* another client is not affected */
	ask_on(r, 3, REQUEST, 1, "x");
	expect(r, CHAN_USER_MSG, 1, "x");
	ask_on(r, 3, 0, 2, "");
}

CHAN_TEST(chan_channels_are_bounded_in_total, server_new("chan.channels=2"))
{
	for (unsigned i = 0; i < 3; i++) {
		rig_wire_peer(r, CLIENT + i);
		ask(r, REQUEST, 1, "x");
		expect(r, i < 2 ? CHAN_USER_MSG : CHAN_ERROR, 1, i < 2 ? "x" : "");
		ask(r, 0, 2, "");
	}
	CHECK_EQ(rig_counter(r, "too_many"), 1);
	CHECK_EQ(rig_counter(r, "no_session"), 1); /* the ack of nothing */
	rig_advance_ms(r, 300000);
	CHECK_EQ(rig_counter(r, "forgotten"), 2);
	call_once(r, 1, "x");
	ask(r, 0, 2, "");
}

CHAN_TEST(chan_kept_long_replies_are_bounded, server_new("chan.saved=8192"))
{
	caller_in(r)->reply_len = 100;
	for (uint32_t i = 0; i < 3; i++) {
		ask_on(r, i, REQUEST, 1, "x");
		CHECK_EQ(expect(r, CHAN_USER_MSG, 1, NULL).len, 100);
	}
	CHECK_EQ(rig_counter(r, "unsaved"), 1);
	ask_on(r, 2, AGAIN, 1, "x");
	CHECK_EQ(expect(r, CHAN_ERROR, 1, "").h.status, ETIMEDOUT);
	rig_advance_ms(r, 5);
	ask_on(r, 0, AGAIN, 1, "x");
	CHECK_EQ(expect(r, CHAN_USER_MSG, 1, NULL).len, 100);
	rig_wire_peer(r, CLIENT + 256); /* from another network */
	for (uint32_t i = 0; i < 2; i++) {
		ask_on(r, i, REQUEST, 1, "x");
		CHECK_EQ(expect(r, CHAN_USER_MSG, 1, NULL).len, 100);
	}
	CHECK_EQ(rig_counter(r, "unsaved"), 2);
	caller_in(r)->reply_len = 64; /* short replies take no room */
	ask_on(r, 7, REQUEST, 1, "x");
	CHECK_EQ(expect(r, CHAN_USER_MSG, 1, NULL).len, 64);
	for (uint32_t i = 0; i < 8; i++)
		ask_on(r, i, 0, 2, "");
	caller_in(r)->reply_len = 100;
	for (uint32_t i = 0; i < 2; i++) { /* an acknowledged reply has made room for one */
		ask_on(r, i, REQUEST, 3, "x");
		CHECK_EQ(expect(r, CHAN_USER_MSG, 3, NULL).len, 100);
		CHECK_EQ(rig_counter(r, "unsaved"), 2 + i);
	}
	CHECK_EQ(executed(r), 8);
	rig_advance_ms(r, 60000);
	rig_forget(r);
}

CHAN_TEST(chan_gives_up_an_unacknowledged_reply, server_new("chan.retries=2"))
{
	call_once(r, 5, "x");
	rig_advance_ms(r, 10000);
	expect(r, CHAN_USER_MSG | CHAN_ACK_REQUESTED, 5, "x");
	expect(r, CHAN_USER_MSG | CHAN_ACK_REQUESTED, 5, "x");
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "given_up"), 1);
	CHECK_EQ(draw(r, AGAIN, 5, "x", CHAN_ERROR, "").h.status, ETIMEDOUT);
	CHECK_EQ(executed(r), 1);
	call_once(r, 6, "y");
	ask(r, 0, 7, "");
}

CHAN_TEST(chan_remembers_a_channel_while_messages_arrive, server_new("chan.silence=4s;chan.lifetime=8s"))
{
	call_once(r, 5, "x");
	ask(r, 0, 6, "");
	for (unsigned i = 0; i < 10; i++) {
		rig_advance_ms(r, 7000);
		draw(r, PROBE, 5, "", CHAN_ERROR, "");
	}
	CHECK_EQ(rig_counter(r, "forgotten"), 0);
	rig_advance_ms(r, 7900);
	ask(r, REQUEST, 5, "x");
	CHECK_EQ(executed(r), 1);
	rig_advance_ms(r, 9000);
	CHECK_EQ(rig_counter(r, "forgotten"), 1);
	CHECK_EQ(rig_wire_session_count(r), 0);
	call_once(r, 7, "y");
	CHECK_EQ(caller_in(r)->opened, 2);
	ask(r, 0, 8, "");
}

CHAN_TEST(chan_forgets_no_channel_whose_handler_runs, server_new(""))
{
	caller_in(r)->waits = true;
	ask(r, REQUEST, 5, "x");
	rig_advance_ms(r, 1000000);
	draw(r, AGAIN, 5, "x", 0, "");
	go(r);
	expect(r, CHAN_USER_MSG, 5, "x");
	ask(r, 0, 6, "");
}

CHAN_TEST(chan_without_buffers_retransmits_later, server_new(""))
{
	call_once(r, 5, "x");
	rig_limit_buffers(r, 0);
	rig_expect_silence_ms(r, 200);
	rig_limit_buffers(r, UINT32_MAX);
	rig_advance_ms(r, 400);
	expect(r, CHAN_USER_MSG | CHAN_ACK_REQUESTED, 5, "x");
	ask(r, 0, 6, "");
}

CHAN_TEST(chan_without_buffers_a_long_reply_is_not_kept, server_new(""))
{
	caller_in(r)->reply_len = 100;
	caller_in(r)->waits = true;
	ask(r, REQUEST, 5, "x");
	rig_limit_buffers(r, 0); /* the reply will use the request's buffer */
	go(r);
	CHECK_EQ(expect(r, CHAN_USER_MSG, 5, NULL).len, 100);
	CHECK_EQ(rig_counter(r, "unsaved"), 1);
	CHECK_EQ(xk_kept(rig_protocol(r, "chan")), 0);
	rig_limit_buffers(r, UINT32_MAX);
}

/* ---- reboots ---- */

CHAN_TEST(chan_client_reboot_suppresses_a_running_calls_reply, server_new(""))
{
	caller_in(r)->waits = true;
	ask(r, REQUEST, 5, "old");
	report(r, XK_BIDCTL_REBOOTED, CLIENT, BOOT + 1);
	CHECK_EQ(caller_in(r)->closed, 1);
	draw(r, PROBE, 5, "", CHAN_NEGATIVE_ACK, ""); /* nothing is known of it */
	go(r);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "suppressed"), 1);
	caller_in(r)->waits = false;
	call_once(r, 1, "new"); /* the new boot's own, on the same channel */
	CHECK_EQ(executed(r), 2);
	CHECK_EQ(caller_in(r)->opened, 2);
	ask(r, 0, 2, "");
}

CHAN_TEST(chan_client_reboot_frees_the_kept_reply, server_new(""))
{
	caller_in(r)->reply_len = 100;
	draw(r, REQUEST, 5, "x", CHAN_USER_MSG, NULL);
	CHECK_EQ(xk_kept(rig_protocol(r, "chan")), 1);
	report(r, XK_BIDCTL_REBOOTED, CLIENT, BOOT + 1);
	CHECK_EQ(xk_kept(rig_protocol(r, "chan")), 0);
	rig_expect_silence_ms(r, 10000);
}

CHAN_TEST(chan_lost_client_may_return, server_new(""))
{
	call_once(r, 5, "x");
	report(r, XK_BIDCTL_LOST, CLIENT, 0);
	report(r, XK_BIDCTL_FIRST_CONTACT, CLIENT, BOOT);
	rig_advance_ms(r, 5);
	draw(r, AGAIN, 5, "x", CHAN_USER_MSG, "x"); /* the same boot: it was run */
	CHECK_EQ(executed(r), 1);
	report(r, XK_BIDCTL_LOST, CLIENT, 0);
	report(r, XK_BIDCTL_FIRST_CONTACT, CLIENT, BOOT + 1);
	call_once(r, 5, "x"); /* another boot */
	CHECK_EQ(executed(r), 2);
	ask(r, 0, 6, "");
}

CHAN_TEST(chan_reboot_does_not_affect_other_hosts, server_new(""))
{
	call_once(r, 5, "x");
	report(r, XK_BIDCTL_REBOOTED, CLIENT + 1, BOOT + 1);
	rig_advance_ms(r, 5);
	draw(r, AGAIN, 5, "x", CHAN_USER_MSG, "x");
	CHECK_EQ(executed(r), 1);
	ask(r, 0, 6, "");
}

/* ---- time ---- */

CHAN_TEST(chan_server_times_acks_it_requested_once, server_new(""))
{
	call_once(r, 5, "x");
	rig_advance_ms(r, 200);
	expect(r, CHAN_USER_MSG | CHAN_ACK_REQUESTED, 5, "x");
	rig_advance_ms(r, 30);
	ask(r, 0, 6, "");
	call_once(r, 6, "x");
	rig_expect_silence_ms(r, 89);
	rig_advance_ms(r, 2);
	expect(r, CHAN_USER_MSG | CHAN_ACK_REQUESTED, 6, "x");
	rig_advance_ms(r, 181);
	expect(r, CHAN_USER_MSG | CHAN_ACK_REQUESTED, 6,
	       "x"); /* ambiguous: either transmission may have been acknowledged */
	ask(r, 0, 7, "");
	call_once(r, 7, "x");
	rig_expect_silence_ms(r, 300);
	ask(r, 0, 8, "");
}

/* ---- tickets ---- */

CHAN_TEST(chan_acknowledges_while_a_lower_protocol_sends_the_reply, server_new(""))
{
	struct xk_key key;
	struct chan_end *e;
	struct chan *chan = (struct chan *)rig_protocol(r, "chan");

	call_once(r, 5, "x");
	key = chan_key(rig_wire_newest_session(r), NUMBER, CHANNEL, true);
	e = xk_map_resolve(&chan->protocol.table.sessions, key);
	REQUIRE(e != NULL);
	xk_ticket_fill(&e->ticket, e->session.lls, 5, 300000); /* as a lower protocol does that keeps a copy */
	draw(r, AGAIN, 5, "x", 0, "");
	rig_advance_ms(r, 200);
	expect(r, CHAN_ACK_REQUESTED, 5, "");                  /* a probe costs little */
	draw(r, CHAN_NEGATIVE_ACK, 5, "", CHAN_USER_MSG, "x"); /* it may have arrived at its host, but not here */
	draw(r, AGAIN, 5, "x", 0, "");
	rig_advance_ms(r, 301);
	draw(r, AGAIN, 5, "x", CHAN_USER_MSG, "x");
	ask(r, REQUEST, 6, "y");
	CHECK(e->ticket.keeper == NULL);
	expect(r, CHAN_USER_MSG, 6, "y");
	ask(r, 0, 7, "");
}
