/* test_tcp.c - TCP, segment by segment: opening, payload, acknowledgements, windows, closing, resets. */
#include "tests/protocols/tcp_rig.h"

/* ---- opening ---- */

RIG_TEST(tcp_open_waits_for_the_peer, tcp_rig(""))
{
	struct end e = open_with(r, &plain);

	CHECK_EQ(connection_of(&e)->state, TCP_ESTABLISHED);
	CHECK_EQ(rig_push(r, e.s, "616263"), 0);
	expect(&e, TCP_ACK, 1, 1, 3);
	say(&e, TCP_ACK, 1, 4, "");
	reset(&e);
}

RIG_TEST(tcp_open_is_refused_by_a_reset, tcp_rig(""))
{
	struct end e = { .r = r, .port = PORT, .far_port = FAR_PORT };
	struct xk_participants participants = { .remote = { 2, { PEER, FAR_PORT } }, .local = { 1, { PORT } } };

	CHECK(rig_open(r, participants) == NULL);
	expect(&e, TCP_SYN, 0, 0, 0);
	say(&e, TCP_RST, 0, 0, "");           /* of nothing */
	say(&e, TCP_RST | TCP_ACK, 0, 7, ""); /* of another connection */
	CHECK_EQ(open_status(r), -EINPROGRESS);
	say(&e, TCP_RST | TCP_ACK, 0, 1, "");
	CHECK_EQ(open_status(r), -ECONNREFUSED);
	expect_nothing(&e);
}

/* Returns the initial number of an open to this port, which the peer refuses. */
static uint32_t
refused_iss(struct rig *r, uint16_t far_port)
{
	struct end e = { .r = r, .port = PORT, .far_port = far_port };
	struct xk_participants participants = { .remote = { 2, { PEER, far_port } }, .local = { 1, { PORT } } };

	CHECK(rig_open(r, participants) == NULL);
	expect(&e, TCP_SYN, 0, 0, 0);
	say(&e, TCP_RST | TCP_ACK, 0, 1, "");
	CHECK_EQ(open_status(r), -ECONNREFUSED);
	return e.iss;
}

/* RFC 9293, 3.4.1 (MUST-8, MUST-9): between the same ends, one more each 4 us; others begin elsewhere. */
RIG_TEST(tcp_initial_numbers_rise_with_the_clock, tcp_rig(""))
{
	uint32_t first = refused_iss(r, FAR_PORT), other = refused_iss(r, FAR_PORT + 1);

	CHECK(other - first > 1000 && first - other > 1000);
	rig_advance_repeatedly_ms(r, 1, 1000);
	CHECK_EQ(refused_iss(r, FAR_PORT) - first, 250000);
	CHECK_EQ(refused_iss(r, FAR_PORT + 1) - other, 250000);
}

RIG_TEST(tcp_open_is_given_up, tcp_rig("tcp.open_patience=7s;"))
{
	struct end e = { .r = r, .port = PORT, .far_port = FAR_PORT };
	struct xk_participants participants = { .remote = { 2, { PEER, FAR_PORT } }, .local = { 1, { PORT } } };

	CHECK(rig_open(r, participants) == NULL);
	rig_advance_repeatedly_ms(r, 8, 1000);
	for (unsigned i = 0; i < 3; i++) /* after 1 and 3 s */
		expect(&e, TCP_SYN, 0, 0, 0);
	expect_nothing(&e);
	CHECK_EQ(open_status(r), -ETIMEDOUT);
}

RIG_TEST(tcp_both_ends_may_open_at_once, tcp_rig(""))
{
	struct end e = { .r = r, .port = PORT, .far_port = FAR_PORT };
	struct xk_participants participants = { .remote = { 2, { PEER, FAR_PORT } }, .local = { 1, { PORT } } };

	CHECK(rig_open(r, participants) == NULL);
	expect(&e, TCP_SYN, 0, 0, 0);
	say_with(&e, TCP_SYN, 0, 0, WINDOW, &plain, "", 0);
	expect(&e, TCP_SYN | TCP_ACK, 0, 1, 0);
	CHECK_EQ(open_status(r), -EINPROGRESS);
	say(&e, TCP_ACK, 1, 1, "hello");
	CHECK_EQ(open_status(r), 0);
	e.s = rig_opened_session(r);
	rig_expect_delivered(r, "68656c6c6f");
	reset(&e);
}

RIG_TEST(tcp_answer_to_an_open_is_repeated_and_forgotten, tcp_rig(""))
{
	struct end e = { .r = r, .port = PORT, .far_port = FAR_PORT };

	CHECK_EQ(rig_open_enable(r, (struct xk_participants){ .local = { 1, { PORT } } }), 0);
	say_with(&e, TCP_SYN, 0, 0, WINDOW, &plain, "", 0);
	rig_advance_repeatedly_ms(r, 300, 100);
	for (unsigned i = 0; i < 3; i++)
		expect(&e, TCP_SYN | TCP_ACK, 0, 1, 0);
	expect_nothing(&e);
	CHECK_EQ(rig_counter(r, "half_open"), 1);
	say(&e, TCP_ACK, 1, 1, "");
	expect(&e, TCP_RST, 1, 0, 0);
}

RIG_TEST(tcp_resets_segments_to_closed_ports, tcp_rig(""))
{
	struct end e = { .r = r, .port = PORT, .far_port = FAR_PORT };

	CHECK_EQ(rig_open_enable(r, (struct xk_participants){ .local = { 1, { PORT + 1 } } }), 0);
	say(&e, TCP_SYN, 0, 0, "");
	expect(&e, TCP_RST | TCP_ACK, 0, 1, 0);
	say(&e, TCP_ACK, 5, 9, "abc");
	expect(&e, TCP_RST, 9, 0, 0);
	say(&e, TCP_FIN, 5, 0, "abc");
	expect(&e, TCP_RST | TCP_ACK, 0, 9, 0);
	say(&e, TCP_RST | TCP_ACK, 5, 9, "");
	expect_nothing(&e);
	CHECK_EQ(rig_counter(r, "resets_sent"), 3);
}

RIG_TEST(tcp_full_limbo_answers_by_cookies, tcp_rig("tcp.limbo=1;"))
{
	struct end first = { .r = r, .port = PORT, .far_port = FAR_PORT }, second = first;

	second.far_port++;
	CHECK_EQ(rig_open_enable(r, (struct xk_participants){ .local = { 1, { PORT } } }), 0);
	rig_keep_sessions(r, true);
	say_with(&first, TCP_SYN, 0, 0, WINDOW, &plain, "", 0);
	expect(&first, TCP_SYN | TCP_ACK, 0, 1, 0);
	say_with(&second, TCP_SYN, 0, 0, WINDOW, &plain, "", 0);
	expect(&second, TCP_SYN | TCP_ACK, 0, 1, 0);
	CHECK_EQ(rig_counter(r, "cookies"), 1);
	say(&second, TCP_ACK, 1, 2, ""); /* no cookie */
	expect(&second, TCP_RST, 2, 0, 0);
	say(&second, TCP_ACK, 3, 1, "late"); /* these have overtaken it */
	say(&second, TCP_FIN | TCP_ACK, 7, 1, "");
	expect_nothing(&second);
	rig_advance_ms(r, 59000);
	rig_forget(r);
	say(&second, TCP_ACK, 1, 1, "hi");
	CHECK_EQ(rig_counter(r, "cookies_accepted"), 1);
	rig_expect_delivered(r, "6869");
	second.s = rig_announced_session(r);
	CHECK_EQ(connection_of(&second)->mss, 1448); /* the next that a cookie can name */
	reset(&second);
}

RIG_TEST(tcp_old_cookie_is_refused, tcp_rig("tcp.limbo=0;"))
{
	struct end e = { .r = r, .port = PORT, .far_port = FAR_PORT };

	CHECK_EQ(rig_open_enable(r, (struct xk_participants){ .local = { 1, { PORT } } }), 0);
	say_with(&e, TCP_SYN, 0, 0, WINDOW, &plain, "", 0);
	expect(&e, TCP_SYN | TCP_ACK, 0, 1, 0);
	rig_advance_ms(r, 181000);
	say(&e, TCP_ACK, 1, 1, "");
	expect(&e, TCP_RST, 1, 0, 0);
}

/* ---- payload ---- */

ACCEPT_TEST(tcp_delivers_in_order_and_once, "")
{
	say(e, TCP_ACK, 4, 1, "def");
	expect(e, TCP_ACK, 1, 1, 0);
	rig_expect_nothing_delivered(r);
	say(e, TCP_ACK, 1, 1, "abc");
	expect(e, TCP_ACK, 1, 7, 0);
	rig_expect_delivered(r, "616263");
	rig_expect_delivered(r, "646566");
	say(e, TCP_ACK, 2, 1, "bcdefgh"); /* two new bytes */
	rig_expect_delivered(r, "6768");
	say(e, TCP_ACK, 1, 1, "abc"); /* old */
	expect(e, TCP_ACK, 1, 9, 0);
	CHECK_EQ(rig_counter(r, "old"), 1);
	reset(e);
}

ACCEPT_TEST(tcp_acknowledges_every_second_full_segment_or_late, "")
{
	char full[MSS + 1];

	memset(full, 'x', MSS);
	full[MSS] = '\0';
	say(e, TCP_ACK, 1, 1, full);
	expect_nothing(e);
	rig_advance_ms(r, 41);
	expect(e, TCP_ACK, 1, 1 + MSS, 0);
	say(e, TCP_ACK, 1 + MSS, 1, full);
	say(e, TCP_ACK, 1 + 2 * MSS, 1, full);
	expect(e, TCP_ACK, 1, 1 + 3 * MSS, 0);
	reset(e);
}

ACCEPT_TEST(tcp_reply_carries_the_acknowledgement, "")
{
	say(e, TCP_ACK, 1, 1, "abc");
	rig_expect_delivered(r, "616263");
	CHECK_EQ(rig_push(r, e->s, "64"), 0);
	expect(e, TCP_ACK, 1, 4, 1);
	rig_advance_ms(r, 100);
	expect_nothing(e);
	say(e, TCP_ACK, 4, 2, "");
	reset(e);
}

ACCEPT_TEST(tcp_message_becomes_segments_of_the_peers_length, "")
{
	CHECK_EQ(rig_push_pattern(r, e->s, 3 * MSS + 5), 0);
	for (uint32_t i = 0; i < 3; i++)
		expect(e, TCP_ACK, 1 + i * MSS, 1, MSS);
	expect_nothing(e); /* the rest is small, and waits (RFC 896) */
	say(e, TCP_ACK, 1, 1 + 3 * MSS, "");
	expect(e, TCP_ACK, 1 + 3 * MSS, 1, 5);
	say(e, TCP_ACK, 1, 6 + 3 * MSS, "");
	reset(e);
}

ACCEPT_TEST(tcp_small_messages_wait_for_each_other, "")
{
	bool eager = true;

	CHECK_EQ(rig_push(r, e->s, "61"), 0);
	expect(e, TCP_ACK, 1, 1, 1);
	CHECK_EQ(rig_push(r, e->s, "62"), 0);
	CHECK_EQ(rig_push(r, e->s, "63"), 0);
	expect_nothing(e);
	say(e, TCP_ACK, 1, 2, "");
	expect(e, TCP_ACK, 2, 1, 2);
	CHECK_EQ(xk_control(e->s, XK_TCP_SET_EAGER, &eager), 0);
	CHECK_EQ(rig_push(r, e->s, "64"), 0);
	expect(e, TCP_ACK, 4, 1, 1);
	say(e, TCP_ACK, 1, 5, "");
	reset(e);
}

/* The sum of 7 bytes is near 2^56: what it is added to must be small. */
ACCEPT_TEST(tcp_segments_of_7_bytes_have_their_checksums, "tcp.eager=yes;")
{
	for (uint32_t i = 0; i < 4000; i++) {
		CHECK_EQ(rig_push(r, e->s, "ffffffffffffff"), 0);
		expect(e, TCP_ACK, 1 + 7 * i, 1, 7);
		say(e, TCP_ACK, 1, 8 + 7 * i, "");
	}
	reset(e);
}

/* A copy of many small messages has as many segments of memory as its length needs. */
RIG_TEST(tcp_makes_a_jumbo_segment_of_small_messages, tcp_rig(""))
{
	static const struct tcp_options jumbo = { .has_mss = true, .mss = 8960 };
	static const uint32_t whole = 9000;
	uint8_t bytes[500];
	struct taken t;
	struct end e;

	rig_answer_control(r, XK_GET_OPT_PACKET, &whole, sizeof(whole));
	e = accept_with(r, &jumbo);
	for (unsigned i = 0; i < 11; i++) {
		memset(bytes, 'a' + (int)i, sizeof(bytes));
		CHECK_EQ(rig_push_bytes(r, e.s, bytes, sizeof(bytes)), 0);
	}
	expect(&e, TCP_ACK, 1, 1, 500);
	say(&e, TCP_ACK, 1, 501, "");
	t = expect(&e, TCP_ACK, 501, 1, 5000);
	for (unsigned i = 0; i < 5000; i++)
		CHECK_EQ(t.payload[i], 'b' + i / 500);
	say(&e, TCP_ACK, 1, 5501, "");
	reset(&e);
}

ACCEPT_TEST(tcp_remembers_a_bounded_number_of_gaps, "")
{
	for (uint32_t i = 0; i <= TCP_RANGES; i++) {
		say(e, TCP_ACK, 3 + 2 * i, 1, "x");
		expect(e, TCP_ACK, 1, 1, 0);
	}
	CHECK_EQ(rig_counter(r, "too_many_gaps"), 1);
	CHECK_EQ(tcp_gaps_bytes(connection_of(e)->gaps), TCP_RANGES);
	reset(e);
}

/* ---- losses ---- */

ACCEPT_TEST(tcp_retransmits_after_a_timeout_that_doubles, "")
{
	CHECK_EQ(rig_push(r, e->s, "6162"), 0);
	expect(e, TCP_ACK, 1, 1, 2);
	for (unsigned ms = 1000; ms <= 8000; ms *= 2) {
		rig_advance_ms(r, ms - 1);
		expect_nothing(e);
		rig_advance_ms(r, 1);
		expect(e, TCP_ACK, 1, 1, 2);
	}
	say(e, TCP_ACK, 1, 3, "");
	rig_advance_ms(r, 60000);
	expect_nothing(e);
	reset(e);
}

ACCEPT_TEST(tcp_acknowledges_after_a_timeout_with_its_latest_number, "")
{
	CHECK_EQ(rig_push_pattern(r, e->s, 3 * MSS), 0);
	for (uint32_t i = 0; i < 3; i++)
		expect(e, TCP_ACK, 1 + i * MSS, 1, MSS);
	rig_advance_ms(r, 1000);
	expect(e, TCP_ACK, 1, 1, MSS);
	say(e, TCP_ACK, 2, 1, "b"); /* behind a gap: acknowledged at once */
	expect(e, TCP_ACK, 1 + 3 * MSS, 1, 0);
	reset(e);
}

ACCEPT_TEST(tcp_gives_up_a_silent_peer, "tcp.patience=10s;")
{
	CHECK_EQ(rig_push(r, e->s, "6162"), 0);
	rig_advance_repeatedly_ms(r, 200, 100);
	CHECK_EQ(connection_of(e)->state, TCP_ENDED);
	CHECK_EQ(rig_close_done_count(r), 1);
	CHECK_EQ(rig_push(r, e->s, "63"), -ETIMEDOUT);
	rig_forget(r);
}

ACCEPT_TEST(tcp_three_duplicates_resend_the_first_segment, "")
{
	CHECK_EQ(rig_push_pattern(r, e->s, 6 * MSS), 0);
	for (uint32_t i = 0; i < 6; i++)
		expect(e, TCP_ACK, 1 + i * MSS, 1, MSS);
	say(e, TCP_ACK, 1, 1, "");
	say(e, TCP_ACK, 1, 1, "");
	expect_nothing(e);
	say(e, TCP_ACK, 1, 1, "");
	expect(e, TCP_ACK, 1, 1, MSS);
	say(e, TCP_ACK, 1, 1, "");
	say(e, TCP_ACK, 1, 1 + 3 * MSS, ""); /* a partial one: the next was lost, too (RFC 6582) */
	expect(e, TCP_ACK, 1 + 3 * MSS, 1, MSS);
	say(e, TCP_ACK, 1, 1 + 6 * MSS, "");
	expect_nothing(e);
	CHECK_EQ(rig_counter(r, "recoveries"), 1);
	CHECK_EQ(rig_counter(r, "timeouts"), 0);
	reset(e);
}

static void
push_meanwhile(struct rig *r)
{
	struct xk_session *s = rig_announced_session(r);
	struct xk_msg *m = xk_msg_from(xk_platform_of(s->protocol), "", 1);

	CHECK_EQ(xk_push(s, m), 0);
}

RIG_TEST(tcp_segments_of_two_shepherds_do_not_overtake_each_other, tcp_rig("tcp.eager=yes;"))
{
	struct end e = accept_plain(r);

	rig_before_sending(r, push_meanwhile);
	CHECK_EQ(rig_push_pattern(r, e.s, 2 * MSS), 0);
	for (uint32_t i = 0; i < 2; i++)
		expect(&e, TCP_ACK, 1 + i * MSS, 1, MSS);
	expect(&e, TCP_ACK, 1 + 2 * MSS, 1, 1);
	expect_nothing(&e);
	say(&e, TCP_ACK, 1, 2 + 2 * MSS, "");
	reset(&e);
}

RIG_TEST(tcp_ranges_of_what_was_not_sent_are_ignored, tcp_rig(""))
{
	struct end e = accept_with(r, &selective);

	CHECK_EQ(rig_push_pattern(r, e.s, 2 * MSS), 0);
	for (uint32_t i = 0; i < 2; i++)
		expect(&e, TCP_ACK, 1 + i * MSS, 1, MSS);
	for (uint32_t i = 1; i < 16; i++) {
		uint32_t begin = e.iss + 1 + (i << 28);
		/* no further from the last byte sent than half of all numbers, to either side */
		struct tcp_options options = { .sack_count = 2,
					       .sacks = { { begin, begin + 0x60000000 }, { begin, e.iss + 2 } } };

		say_with(&e, TCP_ACK, 1, 1, WINDOW, &options, "", 0);
	}
	expect_nothing(&e);
	say(&e, TCP_ACK, 1, 1 + 2 * MSS, "");
	reset(&e);
}

RIG_TEST(tcp_resends_only_what_the_peer_lacks, tcp_rig(""))
{
	struct end e = accept_with(r, &selective);
	struct tcp_options options = { .sack_count = 2,
				       .sacks = { { e.iss + 1 + 4 * MSS, e.iss + 1 + 8 * MSS },
						  { e.iss + 1 + MSS, e.iss + 1 + 3 * MSS } } };

	CHECK_EQ(rig_push_pattern(r, e.s, 8 * MSS), 0);
	for (uint32_t i = 0; i < 8; i++)
		expect(&e, TCP_ACK, 1 + i * MSS, 1, MSS);
	/* 0 and 3 were lost */
	say_with(&e, TCP_ACK, 1, 1, WINDOW, &options, "", 0);
	expect(&e, TCP_ACK, 1, 1, MSS);
	expect(&e, TCP_ACK, 1 + 3 * MSS, 1, MSS);
	expect_nothing(&e);
	say(&e, TCP_ACK, 1, 1 + 8 * MSS, "");
	CHECK_EQ(rig_counter(r, "timeouts"), 0);
	reset(&e);
}

/* ---- windows ---- */

ACCEPT_TEST(tcp_probes_a_closed_window, "")
{
	say_with(e, TCP_ACK, 1, 1, 0, NULL, "", 0);
	CHECK_EQ(rig_push(r, e->s, "616263"), 0);
	expect_nothing(e);
	for (unsigned ms = 1000; ms <= 4000; ms *= 2) {
		rig_advance_ms(r, ms + 1);
		expect(e, TCP_ACK, 1, 1, 1);
		say_with(e, TCP_ACK, 1, 1, 0, NULL, "", 0); /* not taken */
		expect_nothing(e);
	}
	rig_advance_ms(r, 600000);
	CHECK_EQ(connection_of(e)->state, TCP_ENDED); /* a peer that is silent is given up even so */
	rig_forget(r);
}

ACCEPT_TEST(tcp_window_that_opens_ends_the_probes, "")
{
	say_with(e, TCP_ACK, 1, 1, 0, NULL, "", 0);
	CHECK_EQ(rig_push(r, e->s, "616263"), 0);
	rig_advance_ms(r, 1001);
	expect(e, TCP_ACK, 1, 1, 1);
	say_with(e, TCP_ACK, 1, 2, 0, NULL, "", 0); /* the byte was taken */
	expect_nothing(e);
	say_with(e, TCP_ACK, 1, 2, 1000, NULL, "", 0);
	expect(e, TCP_ACK, 2, 1, 2);
	say(e, TCP_ACK, 1, 4, "");
	rig_advance_ms(r, 5000);
	expect_nothing(e);
	reset(e);
}

ACCEPT_TEST(tcp_sends_no_silly_segments, "")
{
	say_with(e, TCP_ACK, 1, 1, 100, NULL, "", 0);
	CHECK_EQ(rig_push_pattern(r, e->s, 2 * MSS), 0);
	expect_nothing(e); /* far less than the largest window that the peer has had */
	say_with(e, TCP_ACK, 1, 1, MSS, NULL, "", 0);
	expect(e, TCP_ACK, 1, 1, MSS);
	say(e, TCP_ACK, 1, 1 + MSS, "");
	expect(e, TCP_ACK, 1 + MSS, 1, MSS);
	say(e, TCP_ACK, 1, 1 + 2 * MSS, "");
	reset(e);
}

ACCEPT_TEST(tcp_takes_no_more_than_its_window, "tcp.receive=4k;")
{
	char much[1461] = "";

	memset(much, 'x', 1460);
	say(e, TCP_ACK, 1 + 4096, 1, "z"); /* behind the window */
	expect(e, TCP_ACK, 1, 1, 0);
	CHECK_EQ(rig_counter(r, "outside"), 1);
	say(e, TCP_ACK, 1 + 2 * 1460, 1, much); /* reaches over its edge */
	expect(e, TCP_ACK, 1, 1, 0);
	CHECK_EQ(tcp_gaps_bytes(connection_of(e)->gaps), 4096 - 2 * 1460);
	reset(e);
}

/* ---- closing ---- */

ACCEPT_TEST(tcp_user_closes_first, "")
{
	rig_close(r, e->s);
	expect(e, TCP_FIN | TCP_ACK, 1, 1, 0);
	say(e, TCP_ACK, 1, 2, "");
	say(e, TCP_FIN | TCP_ACK, 1, 2, "");
	expect(e, TCP_ACK, 2, 2, 0);
	CHECK_EQ(rig_counter(r, "waiting"), 1);
	say(e, TCP_FIN | TCP_ACK, 1, 2, ""); /* the acknowledgement was lost */
	expect(e, TCP_ACK, 2, 2, 0);
	say(e, TCP_ACK, 2, 2, "");
	expect_nothing(e);
	rig_advance_repeatedly_ms(r, 62, 1000);
	say(e, TCP_FIN | TCP_ACK, 1, 2, "");
	expect(e, TCP_RST, 2, 0, 0);
}

ACCEPT_TEST(tcp_peer_closes_first, "")
{
	say(e, TCP_FIN | TCP_ACK, 1, 1, "bye");
	rig_expect_delivered(r, "627965");
	expect(e, TCP_ACK, 1, 5, 0);
	CHECK_EQ(rig_close_done_count(r), 1);
	CHECK_EQ(rig_push(r, e->s, "6f6b"), 0); /* the other half is open */
	expect(e, TCP_ACK, 1, 5, 2);
	rig_close(r, e->s);
	say(e, TCP_ACK, 5, 3, "");
	expect(e, TCP_FIN | TCP_ACK, 3, 5, 0);
	say(e, TCP_ACK, 5, 4, "");
	CHECK_EQ(rig_counter(r, "waiting"), 0);
}

ACCEPT_TEST(tcp_both_close_at_once, "")
{
	rig_close(r, e->s);
	expect(e, TCP_FIN | TCP_ACK, 1, 1, 0);
	say(e, TCP_FIN | TCP_ACK, 1, 1, "");
	expect(e, TCP_ACK, 2, 2, 0);
	say(e, TCP_ACK, 2, 2, "");
	CHECK_EQ(rig_counter(r, "waiting"), 1);
}

ACCEPT_TEST(tcp_fin_waits_behind_a_gap, "")
{
	say(e, TCP_FIN | TCP_ACK, 4, 1, "def");
	expect(e, TCP_ACK, 1, 1, 0);
	CHECK_EQ(rig_close_done_count(r), 0);
	say(e, TCP_FIN | TCP_ACK, 4, 1, "def");
	expect(e, TCP_ACK, 1, 1, 0);
	say(e, TCP_ACK, 1, 1, "abc");
	expect(e, TCP_ACK, 1, 8, 0);
	rig_expect_delivered(r, "616263");
	rig_expect_delivered(r, "646566");
	CHECK_EQ(rig_close_done_count(r), 1);
	say(e, TCP_FIN | TCP_ACK, 4, 1, "def");
	expect(e, TCP_ACK, 1, 8, 0); /* counted once */
	reset(e);
}

ACCEPT_TEST(tcp_resets_a_peer_that_sends_after_the_close, "")
{
	rig_close(r, e->s);
	expect(e, TCP_FIN | TCP_ACK, 1, 1, 0);
	say(e, TCP_ACK, 1, 2, "more");
	expect(e, TCP_RST | TCP_ACK, 2, 1, 0);
	CHECK_EQ(rig_counter(r, "not_wanted"), 1);
}

ACCEPT_TEST(tcp_fin_is_retransmitted, "")
{
	rig_close(r, e->s);
	expect(e, TCP_FIN | TCP_ACK, 1, 1, 0);
	rig_advance_ms(r, 1001);
	expect(e, TCP_FIN | TCP_ACK, 1, 1, 0);
	say(e, TCP_FIN | TCP_ACK, 1, 2, "");
	expect(e, TCP_ACK, 2, 2, 0);
	rig_advance_repeatedly_ms(r, 62, 1000);
}

/* ---- resets and forgeries (RFC 5961) ---- */

ACCEPT_TEST(tcp_reset_must_name_the_next_byte, "")
{
	say(e, TCP_RST, 100, 0, "");
	expect(e, TCP_ACK, 1, 1, 0);
	CHECK_EQ(connection_of(e)->state, TCP_ESTABLISHED);
	say(e, TCP_RST, 100000, 0, ""); /* outside the window */
	expect_nothing(e);
	say(e, TCP_RST, 100000, 0, "abc");
	expect_nothing(e);
	say(e, TCP_RST, 1, 0, "");
	CHECK_EQ(connection_of(e)->state, TCP_ENDED);
	CHECK_EQ(rig_close_done_count(r), 1);
	CHECK_EQ(rig_push(r, e->s, "61"), -ECONNRESET);
}

ACCEPT_TEST(tcp_syn_in_a_connection_is_challenged, "tcp.challenges=3;")
{
	for (unsigned i = 0; i < 10; i++)
		say(e, TCP_SYN, 1 + i, 0, "");
	for (unsigned i = 0; i < 3; i++)
		expect(e, TCP_ACK, 1, 1, 0);
	expect_nothing(e);
	CHECK_EQ(connection_of(e)->state, TCP_ESTABLISHED);
	rig_advance_ms(r, 1000);
	say(e, TCP_SYN, 1, 0, "");
	expect(e, TCP_ACK, 1, 1, 0);
	reset(e);
}

ACCEPT_TEST(tcp_acknowledgements_of_what_was_not_sent_are_refused, "")
{
	say(e, TCP_ACK, 1, 2, "abc");
	expect(e, TCP_ACK, 1, 1, 0);
	rig_expect_nothing_delivered(r);
	say(e, TCP_ACK, 1, (uint32_t)-100000, "abc");
	expect(e, TCP_ACK, 1, 1, 0);
	CHECK_EQ(rig_counter(r, "bad_acknowledgement"), 2);
	say(e, TCP_ACK, 1, 1, "abc");
	rig_expect_delivered(r, "616263");
	reset(e);
}

/* ---- time stamps (RFC 7323) ---- */

RIG_TEST(tcp_old_stamps_are_refused, tcp_rig("tcp.stamps=yes;"))
{
	struct tcp_options options = { .has_mss = true, .mss = MSS, .has_stamp = true, .stamp = 1000 };
	struct end e = { .r = r, .port = PORT, .far_port = FAR_PORT };
	struct taken t;

	CHECK_EQ(rig_open_enable(r, (struct xk_participants){ .local = { 1, { PORT } } }), 0);
	rig_keep_sessions(r, true);
	say_with(&e, TCP_SYN, 0, 0, WINDOW, &options, "", 0);
	t = expect(&e, TCP_SYN | TCP_ACK, 0, 1, 0);
	CHECK(t.options.has_stamp && t.options.echo == 1000);
	options = (struct tcp_options){ .has_stamp = true, .stamp = 1010, .echo = t.options.stamp };
	say_with(&e, TCP_ACK, 1, 1, WINDOW, &options, "abc", 3);
	e.s = rig_announced_session(r);
	rig_expect_delivered(r, "616263");
	options.stamp = 1009;
	say_with(&e, TCP_ACK, 4, 1, WINDOW, &options, "old", 3);
	t = expect(&e, TCP_ACK, 1, 4, 0);
	CHECK_EQ(t.options.echo, 1010);
	CHECK_EQ(rig_counter(r, "old_stamp"), 1);
	rig_expect_nothing_delivered(r);
	say(&e, TCP_ACK, 4, 1, "def"); /* without a stamp: taken, as most stacks do */
	rig_expect_delivered(r, "646566");
	reset(&e);
}
