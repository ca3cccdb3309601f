/* test_chan_client.c - the client's end of a channel: messages sent and their times, and how calls end. */
#include "tests/protocols/chan_rig.h"

enum { REQUEST = CHAN_FROM_CLIENT | CHAN_USER_MSG, PROBE = CHAN_FROM_CLIENT | CHAN_ACK_REQUESTED };

/* ---- the exchanges ---- */

CHAN_SESSION_TEST(chan_next_request_acknowledges_the_reply, chan_rig(""), open_channel(r, SERVER))
{
	struct calling c;
	struct frame f;

	CHECK_EQ(rig_wire_remote(r), SERVER);
	CHECK(call_sync(r, &c, s, "one"));
	f = expect(r, REQUEST, 1, "one");
	answer(r, f, CHAN_USER_MSG, 0, "eno");
	expect_end(&c, 0);
	CHECK_STR(c.reply, "eno");
	rig_expect_nothing_sent(r);
	CHECK(call_sync(r, &c, s, ""));
	f = expect(r, REQUEST, 2, "");
	answer(r, f, CHAN_USER_MSG, 0, "");
	CHECK_EQ(c.done, 1);
	CHECK_EQ(c.reply_len, 0);
	CHECK_EQ(rig_counter(r, "called"), 2);
	rig_expect_silence_ms(r, 60000);
	close_channel(r, s);
	CHECK_EQ(rig_drop_count(r), 0);
}

CLIENT_TEST(chan_slow_server_acknowledges_and_is_then_probed, "")
{
	struct frame f;

	CHECK(call_sync(r, c, s, "slow"));
	expect(r, REQUEST, 1, "slow");
	rig_advance_ms(r, 200);
	f = expect(r, REQUEST | CHAN_ACK_REQUESTED, 1, "slow");
	answer(r, f, 0, 0, "");
	for (unsigned i = 0; i < 20; i++) { /* for as long as it answers */
		rig_expect_silence_ms(r, 1999);
		rig_advance_ms(r, 1);
		answer(r, expect(r, PROBE, 1, ""), 0, 0, "");
	}
	answer(r, f, CHAN_USER_MSG, 0, "reply");
	CHECK_EQ(c->done, 1);
	CHECK_STR(c->reply, "reply");
	rig_expect_counts(r, "retransmitted=1 probed=20");
}

CHAN_SESSION_TEST(chan_lost_long_request_is_probed_and_retransmitted, chan_rig(""), open_channel(r, SERVER))
{
	struct calling c;
	uint32_t packet = 3000;
	struct frame f;

	close_channel(r, s);
	rig_answer_control(r, XK_GET_MAX_PACKET, &packet, sizeof(packet));
	s = open_channel(r, SERVER);
	CHECK_EQ(call_async_long(r, &c, s, 2000), 0);
	CHECK_EQ(expect(r, REQUEST, 1, NULL).len, 2000);
	rig_advance_ms(r, 200);
	f = expect(r, PROBE, 1, "");
	answer(r, f, CHAN_NEGATIVE_ACK, 0, "");
	CHECK_EQ(expect(r, REQUEST, 1, NULL).len, 2000);
	answer(r, f, CHAN_USER_MSG, 0, "reply");
	expect_end(&c, 0);
	close_channel(r, s);
}

CHAN_SESSION_TEST(chan_lost_reply_is_missed_when_the_server_probes, chan_rig(""), open_channel(r, SERVER))
{
	struct calling c;
	struct frame f;

	CHECK_EQ(call_async(r, &c, s, "x"), 0);
	f = expect(r, REQUEST, 1, "x");
	answer(r, f, CHAN_ACK_REQUESTED, 0, "");
	expect(r, CHAN_FROM_CLIENT | CHAN_NEGATIVE_ACK, 1, "");
	CHECK_EQ(rig_counter(r, "asked"), 1);
	answer(r, f, CHAN_USER_MSG | CHAN_ACK_REQUESTED, 0, "reply");
	CHECK_EQ(c.done, 1);
	CHECK_STR(c.reply, "reply");
	expect(r, CHAN_FROM_CLIENT, 2, ""); /* the explicit ack */
	answer(r, f, CHAN_ACK_REQUESTED, 0, "");
	expect(r, CHAN_FROM_CLIENT, 2, "");
	answer(r, f, CHAN_USER_MSG | CHAN_ACK_REQUESTED, 0, "reply");
	expect(r, CHAN_FROM_CLIENT, 2, "");
	rig_expect_counts(r, "acked=3 unasked=1");
	CHECK_EQ(c.done, 1);
	close_channel(r, s);
	answer(r, f, CHAN_USER_MSG | CHAN_ACK_REQUESTED, 0, "reply"); /* also if it is closed */
	rig_advance_ms(r, 1000);
	rig_forget(r);
	CHECK_EQ(c.done, 1);
}

CHAN_TEST(chan_reply_to_a_closed_channel_is_acknowledged, chan_rig(""))
{
	struct chan_header h = { CHANNEL, NUMBER, 5, CHAN_USER_MSG | CHAN_ACK_REQUESTED, 0 };

	inject(r, h, "late");
	expect(r, CHAN_FROM_CLIENT, 6, "");
	h.flags = CHAN_USER_MSG;
	inject(r, h, "late");
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "no_session"), 2);
}

/* ---- replies that match no call ---- */

CLIENT_TEST(chan_reply_to_another_call_is_dropped, "")
{
	struct frame f, other;

	CHECK_EQ(call_async(r, c, s, "1"), 0);
	f = expect(r, REQUEST, 1, "1");
	answer(r, f, CHAN_USER_MSG, 0, "a");
	CHECK_EQ(call_async(r, c, s, "2"), 0);
	other = f;
	answer(r, other, CHAN_USER_MSG, 0, "a");                      /* again */
	answer(r, other, CHAN_USER_MSG | CHAN_ACK_REQUESTED, 0, "a"); /* the waiting request has acknowledged it */
	answer(r, other, CHAN_ERROR, ECONNREFUSED, "");
	answer(r, other, 0, 0, "");
	other.h.sequence = 3;
	answer(r, other, CHAN_USER_MSG, 0, "c");
	answer(r, other, CHAN_NEGATIVE_ACK, 0, "");
	CHECK_EQ(c->done, 0);
	CHECK_EQ(rig_counter(r, "unasked"), 6);
	f = expect(r, REQUEST, 2, "2");
	rig_expect_nothing_sent(r);
	answer(r, f, CHAN_USER_MSG, 0, "b");
	CHECK_STR(c->reply, "b");
}

CHAN_TEST(chan_impossible_headers_are_dropped_by_name, chan_rig(""))
{
	static const uint16_t bad[] = {
		3 << 1 | 8, 8 | 4, 16 | 4, 1 | 16, 1 | 2 | 16, 1 | 4 | 8, 1 | 2 | 8, 32, 0x8000
	};
	struct chan_header h = { CHANNEL, NUMBER, 1, 0, 0 };
	uint8_t bytes[CHAN_HEADER_LEN + 4];

	rig_inject(r, "");
	rig_inject_prefixes(r, "00001234 0001 0000 00000007 00000001 00000000");
	CHECK_EQ(rig_counter(r, "short"), 21);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(bad); i++) {
		h.flags = bad[i];
		h.status = bad[i] & CHAN_ERROR ? 1 : 0;
		inject(r, h, "");
	}
	CHECK_EQ(rig_counter(r, "bad_flags"), XK_ARRAY_LENGTH(bad));
	h = (struct chan_header){ CHANNEL, NUMBER, 1, CHAN_ERROR, 0 };
	inject(r, h, ""); /* an error without a number */
	h.status = CHAN_STATUS_MAX + 1;
	inject(r, h, "");
	h.flags = CHAN_USER_MSG;
	h.status = 1;
	inject(r, h, ""); /* a number without an error */
	CHECK_EQ(rig_counter(r, "bad_flags"), XK_ARRAY_LENGTH(bad) + 3);
	h = (struct chan_header){ CHANNEL, NUMBER, 1, CHAN_ACK_REQUESTED, 0 };
	inject(r, h, "x");
	h = (struct chan_header){ CHANNEL, NUMBER, 1, CHAN_ERROR | CHAN_USER_MSG, 5 };
	inject(r, h, "x");
	CHECK_EQ(rig_counter(r, "bad_length"), 2);
	h = (struct chan_header){ CHANNEL, NUMBER, 1, CHAN_USER_MSG, 0 };
	frame_bytes(bytes, h, "abcd", 4);
	rig_inject_bytes(r, bytes, sizeof(bytes) - 1); /* claims 4 bytes, has 3 */
	xk_put32(bytes + 16, UINT32_MAX);
	rig_inject_bytes(r, bytes, sizeof(bytes));
	CHECK_EQ(rig_counter(r, "bad_length"), 4);
	rig_expect_nothing_sent(r);
}

CLIENT_TEST(chan_cuts_off_padding, "")
{
	uint8_t bytes[CHAN_HEADER_LEN + 40] = { 0 };
	struct frame f;

	CHECK_EQ(call_async(r, c, s, "x"), 0);
	f = expect(r, REQUEST, 1, "x");
	f.h.flags = CHAN_USER_MSG;
	frame_bytes(bytes, f.h, "yes", 3);
	rig_inject_bytes(r, bytes, sizeof(bytes));
	CHECK_EQ(c->reply_len, 3);
}

CHAN_TEST(chan_header_in_pieces_is_read, chan_rig(""))
{
	rig_inject(r, "00001234 0006 00|00 00000007 000000|05 00000000");
	expect(r, CHAN_FROM_CLIENT, 6, "");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
}

/* ---- how calls end ---- */

CHAN_SESSION_TEST(chan_errors_have_names, chan_rig(""), open_channel(r, SERVER))
{
	static const int errors[] = { ECONNREFUSED, ENOSYS, ETIMEDOUT, EREMOTEIO };
	struct calling c;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(errors); i++) {
		unsigned flags = CHAN_ERROR | (i % 2 == 0 ? 0 : CHAN_USER_MSG);

		CHECK(call_sync(r, &c, s, "x"));
		answer(r, expect(r, REQUEST, i + 1, "x"), flags, (unsigned)errors[i], "");
		expect_end(&c, -errors[i]);
	}
	close_channel(r, s);
}

CLIENT_TEST(chan_call_ends_at_its_deadline_but_its_channel_does_not, "")
{
	uint64_t deadline_ns = 1500000, read_ns = 0;

	CHECK_EQ(xk_control(s, XK_CHAN_SET_DEADLINE, &deadline_ns), 0);
	CHECK_EQ(xk_control(s, XK_CHAN_GET_DEADLINE, &read_ns), 0);
	CHECK_EQ(read_ns, deadline_ns);
	CHECK(call_sync(r, c, s, "x"));
	rig_advance_ms(r, 1);
	CHECK_EQ(c->done, 0);
	rig_advance_ms(r, 1);
	expect_end(c, -ETIMEDOUT);
	CHECK_EQ(rig_counter(r, "timed_out"), 1);
	answer(r, expect(r, REQUEST, 1, "x"), CHAN_USER_MSG, 0, "late");
	CHECK_EQ(rig_counter(r, "unasked"), 1);
	CHECK(call_sync(r, c, s, "y"));
	answer(r, expect(r, REQUEST, 2, "y"), CHAN_USER_MSG, 0, "good");
	CHECK_EQ(c->status, 0);
}

CLIENT_TEST(chan_deadline_defaults_to_the_setting_and_is_checked, "chan.deadline=3s")
{
	uint64_t deadline_ns = 999;

	CHECK_EQ(xk_control(s, XK_CHAN_SET_DEADLINE, &deadline_ns), -EINVAL);
	CHECK_EQ(call_async(r, c, s, "x"), 0);
	rig_advance_ms(r, 2999);
	CHECK_EQ(c->done, 0);
	rig_advance_ms(r, 1);
	CHECK_EQ(c->status, -ETIMEDOUT);
	rig_forget(r);
}

CHAN_SESSION_TEST(chan_dead_server_is_detected_by_unanswered_probes,
		  chan_rig("chan.deadline=1000s;chan.silence=6s;chan.timeout_max=1s"), open_channel(r, SERVER))
{
	struct calling c;

	CHECK_EQ(call_async(r, &c, s, "x"), 0);
	answer(r, expect(r, REQUEST, 1, "x"), 0, 0, ""); /* it has the request, then dies */
	rig_advance_ms(r, 5900);
	CHECK_EQ(c.done, 0);
	for (unsigned i = 0; i < 5; i++)
		expect(r, PROBE, 1, "");
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 200);
	expect_end(&c, -ETIMEDOUT);
	rig_expect_nothing_sent(r);
	close_channel(r, s);
}

CHAN_SESSION_TEST(chan_second_call_on_a_channel_is_busy, chan_rig(""), open_channel(r, SERVER))
{
	struct calling first, second;

	CHECK(call_sync(r, &first, s, "x"));
	CHECK_EQ(call_async(r, &second, s, "y"), -EBUSY);
	CHECK_EQ(second.done, 0);
	CHECK_EQ(rig_counter(r, "busy"), 1);
	answer(r, expect(r, REQUEST, 1, "x"), CHAN_USER_MSG, 0, "z");
	CHECK_EQ(first.done, 1);
	CHECK_EQ(first.status, 0);
	close_channel(r, s);
}

CLIENT_TEST(chan_abort_ends_the_call, "")
{
	CHECK_EQ(xk_control(s, XK_CHAN_ABORT, NULL), 0);
	CHECK(call_sync(r, c, s, "x"));
	expect(r, REQUEST, 1, "x");
	CHECK_EQ(xk_control(s, XK_CHAN_ABORT, NULL), 0);
	rig_advance_ms(r, 0);
	expect_end(c, -ECANCELED);
	rig_expect_silence_ms(r, 60000);
}

CLIENT_TEST(chan_too_long_a_request_is_refused, "")
{
	uint32_t longest = 0, whole = 0;

	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &longest), 0);
	CHECK_EQ(longest, 1500 - CHAN_HEADER_LEN);
	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &whole), 0);
	CHECK_EQ(whole, longest);
	CHECK_EQ(call_async_long(r, c, s, longest + 1), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_big"), 1);
	CHECK_EQ(call_async_long(r, c, s, longest), 0);
	answer(r, expect(r, REQUEST, 1, NULL), CHAN_USER_MSG, 0, "");
	CHECK_EQ(c->done, 1);
}

CLIENT_TEST(chan_without_buffers_short_calls_wait_and_long_ones_fail, "")
{
	rig_limit_buffers(r, 1);
	CHECK_EQ(call_async_long(r, c, s, 65), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	CHECK_EQ(call_async(r, c, s, "short"), 0);
	expect(r, REQUEST, 1, "short");
	rig_limit_buffers(r, 0);
	rig_expect_silence_ms(r, 200);
	rig_limit_buffers(r, UINT32_MAX);
	rig_advance_ms(r, 400);
	answer(r, expect(r, REQUEST | CHAN_ACK_REQUESTED, 1, "short"), CHAN_USER_MSG, 0, "");
	CHECK_EQ(c->done, 1);
}

CLIENT_TEST(chan_request_without_a_header_buffer_is_sent_later, "")
{
	CHECK_EQ(call_async_long(r, c, s, 100), 0);
	expect(r, REQUEST, 1, NULL);
	rig_limit_buffers(r, 1); /* a retransmission, without its header */
	rig_advance_ms(r, 200);
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	rig_expect_nothing_sent(r);
	rig_limit_buffers(r, UINT32_MAX);
	rig_advance_ms(r, 400);
	answer(r, expect(r, REQUEST | CHAN_ACK_REQUESTED, 1, NULL), CHAN_USER_MSG, 0, "");
	CHECK_EQ(c->done, 1);
}

/* ---- time ---- */

CLIENT_TEST(chan_retransmissions_back_off, "chan.timeout_max=1s")
{
	static const unsigned ms[] = { 200, 400, 800, 1000, 1000 };
	struct frame f;

	CHECK_EQ(call_async(r, c, s, "x"), 0);
	f = expect(r, REQUEST, 1, "x");
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(ms); i++) {
		rig_expect_silence_ms(r, ms[i] - 1);
		rig_advance_ms(r, 1);
		if (i < 3)
			expect(r, REQUEST | CHAN_ACK_REQUESTED, 1, "x");
		else
			expect(r, CHAN_FROM_CLIENT | CHAN_ACK_REQUESTED, 1, ""); /* a server that lacks it reports so */
	}
	answer(r, f, CHAN_USER_MSG, 0, "");
	CHECK_EQ(c->done, 1);
}

CLIENT_TEST(chan_timeout_follows_round_trips_within_bounds, "chan.timeout=1s;chan.timeout_min=20ms")
{
	struct chan_end *e = (struct chan_end *)s;

	CHECK_EQ(e->round_trip.timeout_ns, 1000000000);
	for (unsigned i = 1; i <= 40; i++) {
		CHECK_EQ(call_async(r, c, s, "x"), 0);
		rig_advance_ms(r, 100);
		answer(r, expect(r, REQUEST, i, "x"), CHAN_USER_MSG, 0, "");
	}
	CHECK(e->round_trip.timeout_ns > 100000000 && e->round_trip.timeout_ns < 140000000);
	for (unsigned i = 41; i <= 140; i++) {
		CHECK_EQ(call_async(r, c, s, "x"), 0);
		answer(r, expect(r, REQUEST, i, "x"), CHAN_USER_MSG, 0, "");
	}
	CHECK_EQ(e->round_trip.timeout_ns, 20000000);
	CHECK_EQ(call_async(r, c, s, "x"), 0); /* a retransmitted message yields no sample */
	rig_advance_ms(r, 20);
	expect(r, REQUEST, 141, "x");
	answer(r, expect(r, REQUEST | CHAN_ACK_REQUESTED, 141, "x"), CHAN_USER_MSG, 0, "");
	CHECK_EQ(e->round_trip.timeout_ns, 40000000);
}

CLIENT_TEST(chan_timer_of_a_long_call_does_not_delay_the_next_one, "")
{
	struct frame f;

	CHECK_EQ(call_async(r, c, s, "x"), 0);
	f = expect(r, REQUEST, 1, "x");
	answer(r, f, 0, 0, "");
	rig_advance_ms(r, 201); /* the timer looks again at 2 s */
	answer(r, f, CHAN_USER_MSG, 0, "");
	((struct chan_end *)s)->round_trip.timeout_ns = 50000000;
	CHECK_EQ(call_async(r, c, s, "y"), 0);
	expect(r, REQUEST, 2, "y");
	rig_advance_ms(r, 50);
	answer(r, expect(r, REQUEST | CHAN_ACK_REQUESTED, 2, "y"), CHAN_USER_MSG, 0, "");
}

CLIENT_TEST(chan_repetition_after_a_nack_is_repeated_in_time, "")
{
	struct frame f;

	CHECK_EQ(call_async(r, c, s, "x"), 0);
	f = expect(r, REQUEST, 1, "x");
	answer(r, f, 0, 0, "");
	rig_advance_ms(r, 201); /* the timer looks again at 2 s */
	answer(r, f, CHAN_NEGATIVE_ACK, 0, "");
	expect(r, REQUEST, 1, "x"); /* and is lost */
	rig_advance_ms(r, 400);
	answer(r, expect(r, REQUEST | CHAN_ACK_REQUESTED, 1, "x"), CHAN_USER_MSG, 0, "");
}

CLIENT_TEST(chan_request_that_is_asked_for_is_sent_although_the_budget_was_used_up, "")
{
	CHECK_EQ(call_async(r, c, s, "x"), 0);
	expect(r, REQUEST, 1, "x");
	for (unsigned ms = 200; ms <= 800; ms *= 2) { /* as often as without an answer */
		rig_advance_ms(r, ms);
		expect(r, REQUEST | CHAN_ACK_REQUESTED, 1, "x");
	}
	rig_advance_ms(r, 1600);
	answer(r, expect(r, PROBE, 1, ""), CHAN_NEGATIVE_ACK, 0, "");
	answer(r, expect(r, REQUEST, 1, "x"), CHAN_USER_MSG, 0, "");
}

/* ---- reboots ---- */

CHAN_TEST(chan_server_reboot_ends_the_call, chan_rig(""))
{
	struct xk_session *s = open_channel(r, SERVER), *other = open_channel(r, SERVER + 1);
	struct calling c, unhurt;
	struct frame f;

	CHECK_EQ(call_async(r, &unhurt, other, "other"), 0);
	expect(r, REQUEST, 1, "other");
	CHECK(call_sync(r, &c, s, "x"));
	f = expect(r, REQUEST, 1, "x");
	report(r, XK_BIDCTL_REBOOTED, SERVER, BOOT + 1);
	expect_end(&c, -ECONNRESET);
	CHECK_EQ(unhurt.done, 0);
	CHECK_EQ(caller_in(r)->closed, 1);
	CHECK_EQ(rig_counter(r, "reset"), 1);
	CHECK_EQ(xk_control(other, XK_CHAN_ABORT, NULL), 0);
	rig_expect_silence_ms(r, 60000);
	CHECK_EQ(call_async(r, &c, s, "y"), -ECONNRESET); /* it must be opened anew */
	CHECK_EQ(rig_counter(r, "closed"), 1);
	close_channel(r, s);
	s = open_channel(r, SERVER);
	CHECK_EQ(call_async(r, &c, s, "z"), 0);
	CHECK(expect(r, REQUEST, 1, "z").h.channel != f.h.channel); /* the old numbers are void */
	CHECK_EQ(xk_control(s, XK_CHAN_ABORT, NULL), 0);
	close_channel(r, s);
	close_channel(r, other);
}

CLIENT_TEST(chan_server_loss_ends_the_call, "")
{
	CHECK_EQ(call_async(r, c, s, "x"), 0);
	expect(r, REQUEST, 1, "x");
	report(r, XK_BIDCTL_LOST, SERVER, 0);
	CHECK_EQ(c->status, -ECONNRESET);
	CHECK_EQ(call_async(r, c, s, "x"), -ECONNRESET);
}

CHAN_SESSION_TEST(chan_idle_numbers_end_with_their_boot, chan_rig(""), open_channel(r, SERVER))
{
	uint32_t channel = ((struct chan_end *)s)->channel;

	close_channel(r, s);
	report(r, XK_BIDCTL_LOST, SERVER, 0);
	report(r, XK_BIDCTL_FIRST_CONTACT, SERVER, BOOT); /* the same boot again */
	s = open_channel(r, SERVER);
	CHECK_EQ(((struct chan_end *)s)->channel, channel);
	close_channel(r, s);
	report(r, XK_BIDCTL_LOST, SERVER, 0);
	report(r, XK_BIDCTL_FIRST_CONTACT, SERVER, BOOT + 1);
	s = open_channel(r, SERVER);
	CHECK(((struct chan_end *)s)->channel != channel);
	close_channel(r, s);
}

/* ---- opening ---- */

CHAN_TEST(chan_open_fails_like_the_lower_open, chan_rig(""))
{
	struct opening o = { r, SERVER, NULL, 0 };
	uint32_t packet = CHAN_HEADER_LEN - 1;

	rig_wire_refuse(r, -EHOSTUNREACH);
	REQUIRE(rig_do(r, do_open, &o));
	CHECK_EQ(o.status, -EHOSTUNREACH);
	rig_wire_refuse(r, 0);
	rig_answer_control(r, XK_GET_MAX_PACKET, &packet, sizeof(packet));
	REQUIRE(rig_do(r, do_open, &o));
	CHECK_EQ(o.status, -EMSGSIZE);
}

CHAN_SESSION_TEST(chan_has_no_push, chan_rig(""), open_channel(r, SERVER))
{
	CHECK_EQ(rig_push(r, s, "01"), -EOPNOTSUPP);
	CHECK_EQ(rig_counter(r, "unexpected"), 1);
	close_channel(r, s);
}

TEST(chan_refuses_settings_that_break_its_guarantee)
{
	CHECK_EQ(rig_refusal("wire:; wire2:; chan: wire wire2; chan.timeout=1ms"), -EINVAL); /* less than timeout_min */
	CHECK_EQ(rig_refusal("wire:; wire2:; chan: wire wire2; chan.timeout_max=100ms"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; wire2:; chan: wire wire2; chan.silence=1s"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; wire2:; chan: wire wire2; chan.lifetime=30s"), -EINVAL);
}

/* ---- tickets ---- */

CLIENT_TEST(chan_does_not_retransmit_while_a_lower_protocol_does, "")
{
	struct chan_end *e = (struct chan_end *)s;
	struct frame f;

	CHECK_EQ(call_async(r, c, s, "x"), 0);
	f = expect(r, REQUEST, 1, "x");
	xk_ticket_fill(&e->ticket, e->session.lls, 5, 500000); /* as a lower protocol does that keeps a copy */
	rig_advance_ms(r, 200);
	expect(r, PROBE, 1, "");
	answer(r, f, CHAN_NEGATIVE_ACK, 0, "");
	rig_expect_nothing_sent(r);
	answer(r, f, CHAN_NEGATIVE_ACK, 0, "");
	expect(r, REQUEST, 1, "x"); /* it may have arrived at its host, but not here */
	rig_advance_ms(r, 400);
	expect(r, PROBE, 1, "");
	rig_advance_ms(r, 800);
	expect(r, REQUEST | CHAN_ACK_REQUESTED, 1, "x");
	answer(r, f, CHAN_USER_MSG, 0, "");
	CHECK_EQ(c->done, 1);
	CHECK(e->ticket.keeper == NULL);
}
