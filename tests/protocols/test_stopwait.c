/*
 * test_stopwait.c - one end: how it calls and answers calls, sends and receives. Sets session state that nothing else
 * reaches: numbers about to wrap, a delivery that has not returned, and broken promises.
 */
#include <limits.h>

#include "tests/protocols/stopwait_peer.h"

/* ---- calling ---- */

RIG_SESSION_TEST(stopwait_open_sends_nothing_and_the_first_message_calls, rig_new("stopwait"), open_it(r))
{
	struct packet p;

	CHECK_EQ(rig_wire_remote(r), HOST);
	rig_expect_nothing_sent(r);
	CHECK_EQ(push(r, s, "hello"), 0);
	rig_expect_sent(r, "2345 0007 001e .... 0001 00000000 ................ 0000000000000000");
	rig_advance_ms(r, 200);
	p = expect(r, STOPWAIT_CALL, 0);
	CHECK(p.from != 0);
	answer(r, STOPWAIT_WELCOME, 0, 0xb, p.from);
	rig_expect_sent(r, "2345 0007 0023 .... 0003 00000000 ................ 000000000000000b 68656c6c6f");
	answer(r, STOPWAIT_ACK, 0, 0xb, p.from);
	rig_expect_silence_ms(r, 60000);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(stopwait_answers_a_call_and_delivers, server_new(""))
{
	uint64_t id = call(r, 0xa);

	REQUIRE(id != 0);
	CHECK_EQ(rig_open_done_count(r), 0); /* it may be an old call */
	inject_data(r, 0, id, "one");
	CHECK_EQ(rig_open_done_count(r), 1);
	expect_delivered(r, "one");
	rig_expect_sent(r, "0007 2345 001e .... 0004 00000000 ................ 000000000000000a");
	inject_data(r, 1, id, "");
	expect_delivered(r, "");
	CHECK_EQ(expect(r, STOPWAIT_ACK, 1).from, id);
	CHECK_EQ(rig_open_done_count(r), 1);
	rig_expect_counts(r, "called=1 accepted=1");
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(stopwait_server_answers_on_the_callers_session, server_new(""))
{
	uint64_t id = call(r, 0xa);
	struct packet p;

	inject_data(r, 0, id, "q");
	expect_delivered(r, "q");
	expect(r, STOPWAIT_ACK, 0);
	CHECK_EQ(push(r, rig_announced_session(r), "a"), 0);
	p = expect(r, STOPWAIT_DATA, 0);
	CHECK_EQ(p.source, PORT);
	CHECK_EQ(p.destination, CALLER);
	CHECK_EQ(p.from, id);
	CHECK_EQ(p.to, 0xa);
	inject(r, packet(STOPWAIT_ACK, 0, 0xa, id, ""));
	rig_expect_silence_ms(r, 60000);
}

RIG_TEST(stopwait_repeats_its_welcome_and_opens_one_end, server_new(""))
{
	uint64_t id = call(r, 0xa);

	CHECK_EQ(call(r, 0xa), id);
	CHECK(call(r, 0xc) != id);
	CHECK_EQ(rig_counter(r, "called"), 2);
}

RIG_TEST(stopwait_drops_calls_of_disabled_ports, server_new(""))
{
	struct packet p = packet(STOPWAIT_CALL, 0, 0xa, 0, "");

	p.destination = PORT + 1;
	inject(r, p);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK_EQ(rig_open_disable(r, at_port(PORT)), 0);
	CHECK_EQ(call(r, 0xa), 0);
	CHECK_EQ(rig_counter(r, "no_session"), 2);
}

STOPWAIT_TEST(stopwait_accepts_only_the_first_welcome, rig_new("stopwait"))
{
	uint64_t id;
	struct xk_session *s = open_and_call(r, "x", &id);

	CHECK_EQ(expect(r, STOPWAIT_DATA, 0).to, 0xb);
	answer(r, STOPWAIT_WELCOME, 0, 0xb, id);
	CHECK_EQ(rig_counter(r, "duplicate"), 1);
	answer(r, STOPWAIT_WELCOME, 0, 0xc, id);
	CHECK_EQ(rig_counter(r, "stale"), 1);
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 250);
	CHECK_EQ(expect(r, STOPWAIT_DATA, 0).to, 0xb);
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
	rig_close(r, s);
}

RIG_TEST(stopwait_reports_gone_if_the_hlp_refuses, server_new(""))
{
	uint64_t id = call(r, 0xa);

	rig_refuse_sessions(r, -EPERM);
	inject_data(r, 0, id, "x");
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "refused"), 1);
	CHECK_EQ(expect(r, STOPWAIT_GONE, 0).from, id);
	inject_data(r, 0, id, "x"); /* the end no longer exists */
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK_EQ(expect(r, STOPWAIT_GONE, 0).from, id);
	CHECK_EQ(rig_counter(r, "gone"), 2);
}

/* ---- sending ---- */

STOPWAIT_TEST(stopwait_sends_one_message_at_a_time_in_order, rig_new("stopwait"))
{
	uint64_t id;
	struct xk_session *s = open_and_call(r, "0", &id);

	CHECK_EQ(push(r, s, "1"), 0);
	CHECK_EQ(push(r, s, "2"), 0);
	for (unsigned i = 0; i < 3; i++) {
		struct packet p = expect(r, STOPWAIT_DATA, i);

		CHECK_EQ(p.payload[0], '0' + i);
		rig_expect_nothing_sent(r);
		answer(r, STOPWAIT_ACK, i, 0xb, id);
	}
	rig_expect_nothing_sent(r);
}

STOPWAIT_SESSION_TEST(stopwait_queue_is_bounded, rig_new("stopwait queue=2"), open_it(r))
{
	CHECK_EQ(push(r, s, "0"), 0); /* in flight */
	CHECK_EQ(push(r, s, "1"), 0);
	CHECK_EQ(push(r, s, "2"), 0);
	CHECK_EQ(push(r, s, "3"), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "queue_full"), 1);
}

STOPWAIT_TEST(stopwait_backs_off_up_to_the_bound, rig_new("stopwait timeout=100ms timeout_max=500ms"))
{
	static const unsigned gaps_ms[] = { 100, 200, 400, 500, 500 };
	uint64_t id;

	open_and_call(r, "x", &id);
	expect(r, STOPWAIT_DATA, 0);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(gaps_ms); i++) {
		rig_expect_silence_ms(r, gaps_ms[i] - 1);
		rig_advance_ms(r, 1);
		expect(r, STOPWAIT_DATA, 0);
	}
	CHECK_EQ(rig_counter(r, "retransmitted"), 5);
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
}

STOPWAIT_TEST(stopwait_starts_each_message_with_the_first_timeout, rig_new("stopwait timeout=100ms timeout_max=400ms"))
{
	uint64_t id;
	struct xk_session *s = open_and_call(r, "x", &id);

	rig_advance_repeatedly_ms(r, 8, 100);
	rig_forget(r);
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
	rig_expect_nothing_sent(r);
	CHECK_EQ(push(r, s, "y"), 0);
	expect(r, STOPWAIT_DATA, 1);
	rig_expect_silence_ms(r, 99);
	rig_advance_ms(r, 1);
	expect(r, STOPWAIT_DATA, 1);
}

RIG_SESSION_TEST(stopwait_gives_up_an_unanswered_call, rig_new("stopwait retries=3 timeout=100ms timeout_max=100ms"),
		 open_it(r))
{
	CHECK_EQ(push(r, s, "0"), 0);
	CHECK_EQ(push(r, s, "1"), 0);
	rig_advance_repeatedly_ms(r, 3, 100);
	CHECK_EQ(rig_sent(r), 4);
	CHECK_EQ(rig_counter(r, "gave_up"), 0);
	rig_advance_ms(r, 100);
	CHECK_EQ(rig_sent(r), 4);
	CHECK_EQ(rig_counter(r, "gave_up"), 2);
	CHECK_EQ(push(r, s, "2"), -ETIMEDOUT);
	CHECK_EQ(rig_counter(r, "closed"), 1);
	rig_advance_ms(r, 1000);
	rig_expect_sent_count(r, 4);
}

STOPWAIT_TEST(stopwait_counts_retries_for_each_message, rig_new("stopwait retries=2 timeout=100ms timeout_max=100ms"))
{
	uint64_t id;
	struct xk_session *s = open_and_call(r, "0", &id);

	for (uint32_t i = 0; i < 10; i++) {
		rig_advance_ms(r, 100);
		rig_advance_ms(r, 100);
		rig_expect_sent_count(r, 3);
		CHECK_EQ(push(r, s, "n"), 0);
		answer(r, STOPWAIT_ACK, i, 0xb, id);
	}
	CHECK_EQ(rig_counter(r, "gave_up"), 0);
}

/* Unacknowledged messages hold their buffers: a host has one share for all its sessions. */
TEST(stopwait_keeps_at_most_a_hosts_share)
{
	struct rig *r = rig_new("stopwait kept=12k"); /* three buffers */
	uint64_t id;
	struct xk_session *other = open_it(r), *s = open_and_call(r, "x", &id);

	expect(r, STOPWAIT_DATA, 0);
	CHECK_EQ(push(r, s, "y"), 0);
	CHECK_EQ(push(r, other, "x"), 0);
	rig_forget(r);
	CHECK_EQ(push(r, other, "y"), -ENOBUFS);
	CHECK_EQ(push(r, s, "y"), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "no_room"), 2);
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
	CHECK_EQ(push(r, s, "z"), 0);
	rig_forget(r);
	end(r);
}

STOPWAIT_SESSION_TEST(stopwait_continues_once_buffers_return, rig_new("stopwait"), open_it(r))
{
	CHECK_EQ(push(r, s, "x"), 0);
	expect(r, STOPWAIT_CALL, 0);
	rig_limit_buffers(r, 0);
	rig_expect_silence_ms(r, 200);
	rig_limit_buffers(r, UINT_MAX);
	rig_advance_ms(r, 400);
	expect(r, STOPWAIT_CALL, 0);
}

RIG_TEST(stopwait_keeps_sending_after_the_hlp_closes, rig_new("stopwait"))
{
	uint64_t id;
	struct xk_session *s = open_and_call(r, "0", &id);

	CHECK_EQ(push(r, s, "1"), 0);
	rig_close(r, s);
	expect(r, STOPWAIT_DATA, 0);
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
	expect(r, STOPWAIT_DATA, 1);
	rig_advance_ms(r, 200);
	expect(r, STOPWAIT_DATA, 1);
	answer(r, STOPWAIT_ACK, 1, 0xb, id);
	rig_advance_ms(r, 1000);
	CHECK_EQ(rig_wire_session_count(r), 0);
}

STOPWAIT_SESSION_TEST(stopwait_refuses_messages_that_are_too_long, rig_new("stopwait"), open_it(r))
{
	static uint8_t bytes[1500];
	uint32_t max = 0;

	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &max), 0);
	CHECK_EQ(max, 1500 - STOPWAIT_HEADER_LEN);
	CHECK_EQ(rig_push_bytes(r, s, bytes, max + 1), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_big"), 1);
	CHECK_EQ(rig_push_bytes(r, s, bytes, max), 0);
}

STOPWAIT_TEST(stopwait_does_not_change_the_pushed_message, rig_new("stopwait"))
{
	uint64_t id;
	struct xk_session *s = open_and_call(r, "0", &id);
	struct packet p, again;

	expect(r, STOPWAIT_DATA, 0);
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
	CHECK_EQ(rig_push(r, s, "0102030405 | 06 | 0708"), 0);
	p = expect(r, STOPWAIT_DATA, 1);
	CHECK_EQ(p.len, 8);
	for (unsigned i = 0; i < 8; i++)
		CHECK_EQ(p.payload[i], i + 1);
	rig_advance_ms(r, 250);
	again = expect(r, STOPWAIT_DATA, 1);
	CHECK(memcmp(p.payload, again.payload, 8) == 0);
}

/* ---- receiving ---- */

RIG_TEST(stopwait_acknowledges_duplicates_and_delivers_none, server_new(""))
{
	uint64_t id = call(r, 0xa);

	inject_data(r, 0, id, "0");
	inject_data(r, 0, id, "0");
	inject_data(r, 1, id, "1");
	inject_data(r, 0, id, "0");
	expect_delivered(r, "0");
	expect_delivered(r, "1");
	rig_expect_nothing_delivered(r);
	expect(r, STOPWAIT_ACK, 0);
	expect(r, STOPWAIT_ACK, 0);
	expect(r, STOPWAIT_ACK, 1);
	expect(r, STOPWAIT_ACK, 0);
	CHECK_EQ(rig_counter(r, "duplicate"), 2);
}

RIG_TEST(stopwait_acknowledges_no_message_during_its_delivery, server_new(""))
{
	uint64_t id = call(r, 0xa);
	struct stopwait_session *s;

	inject_data(r, 0, id, "0");
	expect_delivered(r, "0");
	expect(r, STOPWAIT_ACK, 0);
	s = (struct stopwait_session *)rig_announced_session(r);
	s->delivering = true; /* message 1, as if the user's demux had not returned */
	inject_data(r, 1, id, "1");
	inject_data(r, 2, id, "2");
	rig_expect_nothing_delivered(r);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "bad_sequence"), 2);
	inject_data(r, 0, id, "0"); /* it has been delivered */
	expect(r, STOPWAIT_ACK, 0);
	rig_expect_nothing_delivered(r);
}

RIG_TEST(stopwait_delivers_nothing_out_of_sequence, server_new(""))
{
	uint64_t id = call(r, 0xa);

	inject_data(r, 1, id, "1");
	inject_data(r, 0x7fffffff, id, "1");
	rig_expect_nothing_delivered(r);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "bad_sequence"), 2);
	CHECK_EQ(rig_open_done_count(r), 0);
}

RIG_TEST(stopwait_accepts_data_only_from_its_peer, server_new(""))
{
	uint64_t id = call(r, 0xa);

	inject(r, packet(STOPWAIT_DATA, 0, 0xc, id, "x"));
	CHECK_EQ(rig_counter(r, "stale"), 1);
	rig_expect_nothing_sent(r);
	rig_wire_peer(r, 0x98); /* from another host */
	inject_data(r, 0, id, "x");
	CHECK_EQ(rig_counter(r, "stale"), 2);
	inject(r, packet(STOPWAIT_CALL, 0, 0xa, 0, ""));
	CHECK_EQ(rig_counter(r, "stale"), 3);
	rig_expect_nothing_delivered(r);
	rig_expect_nothing_sent(r);
}

STOPWAIT_TEST(stopwait_drops_unsolicited_answers, rig_new("stopwait"))
{
	uint64_t id;
	struct xk_session *s = open_and_call(r, "0", &id);

	CHECK_EQ(push(r, s, "1"), 0);
	expect(r, STOPWAIT_DATA, 0);
	answer(r, STOPWAIT_ACK, 1, 0xb, id);
	CHECK_EQ(rig_counter(r, "bad_sequence"), 1);
	answer(r, STOPWAIT_ACK, 0, 0xc, id);
	CHECK_EQ(rig_counter(r, "stale"), 1);
	answer(r, STOPWAIT_ACK, 0, 0xb, id + 1);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	rig_expect_nothing_sent(r);
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
	expect(r, STOPWAIT_DATA, 1);
	answer(r, STOPWAIT_ACK, 0, 0xb, id); /* of a retransmission */
	CHECK_EQ(rig_counter(r, "duplicate"), 1);
	rig_expect_nothing_sent(r);
	answer(r, STOPWAIT_ACK, 1, 0xb, id);
	answer(r, STOPWAIT_ACK, 2, 0xb, id);
	CHECK_EQ(rig_counter(r, "bad_sequence"), 2);
}

STOPWAIT_TEST(stopwait_sequence_numbers_wrap, server_new(""))
{
	uint64_t id = call(r, 0xa);
	struct stopwait_session *s;

	inject_data(r, 0, id, "first");
	expect_delivered(r, "first");
	expect(r, STOPWAIT_ACK, 0);
	s = (struct stopwait_session *)rig_announced_session(r);
	s->expected = s->sequence = UINT32_MAX;
	for (uint32_t i = 0; i < 3; i++) {
		inject_data(r, UINT32_MAX + i, id, "x");
		expect_delivered(r, "x");
		expect(r, STOPWAIT_ACK, UINT32_MAX + i);
		inject_data(r, UINT32_MAX + i - 1, id, "x");
		rig_expect_nothing_delivered(r);
		expect(r, STOPWAIT_ACK, UINT32_MAX + i - 1);
		CHECK_EQ(push(r, &s->session, "y"), 0);
		expect(r, STOPWAIT_DATA, UINT32_MAX + i);
		inject(r, packet(STOPWAIT_ACK, UINT32_MAX + i - 1, 0xa, id, ""));
		CHECK_EQ(s->count, 1);
		inject(r, packet(STOPWAIT_ACK, UINT32_MAX + i, 0xa, id, ""));
		CHECK_EQ(s->count, 0);
	}
	CHECK_EQ(rig_counter(r, "bad_sequence"), 0);
}

/* ---- promises ---- */

/* Checks that stopwait's promises hold (NULL), or that the first broken one is this. */
static void
check_promise(struct rig *r, bool at_rest, const char *broken)
{
	struct xk_protocol *p;
	const char *why = xk_kernel_promise(rig_kernel(r), at_rest, &p);

	CHECK((why == NULL) == (broken == NULL));
	if (why == NULL || broken == NULL)
		return;
	CHECK_STR(why, broken);
	CHECK(p == rig_protocol(r, "stopwait"));
}

STOPWAIT_TEST(stopwait_states_its_promises, rig_new("stopwait"))
{
	uint64_t id;
	struct stopwait_session *s = (struct stopwait_session *)open_and_call(r, "x", &id);

	expect(r, STOPWAIT_DATA, 0);
	check_promise(r, false, NULL);
	check_promise(r, true, "a message is neither acknowledged nor given up");
	s->count++;
	check_promise(r, false, "the queue's length is 1, not 2");
	s->count--;
	s->alarm.event.state = XK_EVENT_IDLE;
	check_promise(r, false, "a message is in flight without a timer");
	s->alarm.event.state = XK_EVENT_PENDING;
	s->retry.due_ns -= 1000;
	check_promise(r, false, "a message is in flight without a timer");
	s->retry.due_ns += 1000;
	xk_share_give(s->share, 1);
	check_promise(r, false, "a message's buffers are not counted in its host's share");
	CHECK(xk_share_take(s->share, 1));
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
	check_promise(r, true, NULL);
	CHECK(xk_share_take(s->share, 1));
	check_promise(r, true, "never given back to the shares: 1");
	xk_share_give(s->share, 1);
	s->delivering = true;
	check_promise(r, true, "a message is being delivered for ever");
	s->delivering = false;
	rig_close(r, &s->session);
}
