/* test_gm.c - GM's sending half, opens and controls. Receiving: test_gm_received.c. */
#include <limits.h>

#include "platform/sim/memory.h"
#include "tests/protocols/gm_rig.h"

/* ---- opening ---- */

RIG_SESSION_TEST(gm_open_sends_nothing, gm_rig(""), open_it(r))
{
	struct xk_participants participants = { .remote.depth = 0 };
	uint32_t longest = 0;

	rig_expect_nothing_sent(r);
	CHECK_EQ(xk_get_participants(s, &participants), 0);
	CHECK_EQ(xk_participant_pop(&participants.remote), FAR);
	CHECK_EQ(xk_participant_pop(&participants.local), PORT);
	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &longest), 0);
	CHECK_EQ(longest, 65536);
	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &longest), 0);
	CHECK_EQ(longest, FRAGMENT);
	CHECK_EQ(tokens(s), 16);
	CHECK(rig_open(r, rig_to2(PARTNER, FAR, PORT)) == s); /* one session per pair of ports */
}

RIG_TEST(gm_refuses_impossible_ports, gm_rig(""))
{
	struct xk_participants both = at_port(PORT);

	rig_expect_open_fails(r, rig_to2(PARTNER, 0, PORT), -EINVAL);
	rig_expect_open_fails(r, rig_to2(PARTNER, FAR, 65536), -EINVAL);
	CHECK_EQ(rig_open_enable(r, at_port(0)), -EINVAL);
	xk_participant_push(&both.remote, PARTNER);
	CHECK_EQ(rig_open_enable(r, both), -EOPNOTSUPP);
}

RIG_TEST(gm_chooses_local_ports, gm_rig(""))
{
	struct xk_participants to = { .remote = { 2, { PARTNER, FAR } } }, participants;
	uint64_t ports[2];

	for (unsigned i = 0; i < 2; i++) {
		struct xk_session *s = rig_must_open(r, to);

		CHECK_EQ(xk_get_participants(s, &participants), 0);
		ports[i] = xk_participant_pop(&participants.local);
		CHECK(ports[i] >= 49152);
	}
	CHECK(ports[0] != ports[1]);
}

TEST(gm_refuses_impossible_settings)
{
	CHECK_EQ(rig_refusal("wire:; wire2:; bidctl: wire2; bid: wire bidctl; gm: bid bidctl; gm.small=tiny; user: gm"),
		 -EINVAL);
	CHECK_EQ(rig_refusal("wire:; wire2:; bidctl: wire2; bid: wire bidctl; gm: bid bidctl; gm.timeout_min=2s;"
			     "gm.timeout_max=1s; user: gm"),
		 -EINVAL);
}

/* ---- sending ---- */

GM_SESSION_TEST(gm_sends_and_reports_the_delivery, gm_rig(""), open_it(r))
{
	static struct sending a, b;
	struct packet p, q;

	send_it(r, &a, s, 5);
	send_it(r, &b, s, 0);
	CHECK_EQ(a.pushed, 0);
	CHECK_EQ(tokens(s), 14);
	p = expect(r, GM_DATA);
	q = expect(r, GM_DATA);
	CHECK_EQ(p.h.length, 5);
	CHECK_EQ(p.h.total, 5);
	CHECK_EQ(p.h.previous, 0);
	CHECK(p.h.begin != 0 && p.h.number > p.h.begin);
	CHECK_EQ(p.payload[4], 4);
	CHECK_EQ(q.h.length, 0);
	CHECK_EQ(q.h.previous, p.h.number);
	CHECK_EQ(a.times, 0);
	answer(r, &p, GM_ACK, 0);
	CHECK_EQ(a.times, 1);
	CHECK_EQ(a.status, 0);
	CHECK_EQ(b.times, 0);
	answer(r, &q, GM_ACK, 0);
	CHECK_EQ(b.times, 1);
	CHECK_EQ(tokens(s), 16);
	CHECK_EQ(rig_drop_count(r), 0);
}

GM_SESSION_TEST(gm_acknowledgements_are_cumulative, gm_rig(""), open_it(r))
{
	static struct sending sending[3];
	struct packet p;

	for (unsigned i = 0; i < 3; i++)
		send_it(r, &sending[i], s, 5);
	expect(r, GM_DATA);
	p = expect(r, GM_DATA);
	answer(r, &p, GM_ACK, 0);
	CHECK_EQ(sending[0].times, 1);
	CHECK_EQ(sending[1].times, 1);
	CHECK_EQ(sending[2].times, 0);
}

GM_SESSION_TEST(gm_limits_messages_in_flight_by_tokens, gm_rig("gm.tokens=2"), open_it(r))
{
	static struct sending sending[3];
	struct packet p;

	for (unsigned i = 0; i < 3; i++)
		send_it(r, &sending[i], s, 5);
	CHECK_EQ(sending[1].pushed, 0);
	CHECK_EQ(sending[2].pushed, -ENOBUFS);
	CHECK_EQ(sending[2].times, 0);
	CHECK_EQ(rig_counter(r, "no_token"), 1);
	CHECK_EQ(tokens(s), 0);
	p = expect(r, GM_DATA);
	answer(r, &p, GM_ACK, 0);
	send_it(r, &sending[2], s, 5);
	CHECK_EQ(sending[2].pushed, 0);
}

GM_SESSION_TEST(gm_sends_fragments_up_to_the_window, gm_rig("gm.window=2"), open_it(r))
{
	static struct sending a;
	struct packet p[3];

	send_it(r, &a, s, 2 * FRAGMENT + 7);
	for (unsigned i = 0; i < 2; i++)
		p[i] = expect(r, GM_DATA);
	rig_expect_nothing_sent(r);
	CHECK_EQ(p[0].h.length, FRAGMENT);
	CHECK_EQ(p[0].h.total, 2 * FRAGMENT + 7);
	CHECK_EQ(p[1].h.offset, FRAGMENT);
	CHECK_EQ(p[1].h.number, p[0].h.number + 1);
	CHECK_EQ(p[1].h.previous, p[0].h.number);
	CHECK_EQ(p[1].payload[3], (FRAGMENT + 3) % 251);
	answer(r, &p[0], GM_ACK, 0);
	p[2] = expect(r, GM_DATA);
	CHECK_EQ(p[2].h.length, 7);
	CHECK_EQ(a.times, 0);
	answer(r, &p[2], GM_ACK, 0);
	CHECK_EQ(a.times, 1);
}

RIG_TEST(gm_fragments_have_at_most_4_kb, gm_rig(""))
{
	uint32_t below = 9000;
	struct xk_session *s;
	uint32_t opt = 0;

	rig_answer_control(r, XK_GET_OPT_PACKET, &below, sizeof(below));
	s = open_it(r);
	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &opt), 0);
	CHECK_EQ(opt, 4096);
	below = BID_LEN + GM_HEADER_LEN;
	rig_answer_control(r, XK_GET_OPT_PACKET, &below, sizeof(below));
	rig_expect_open_fails(r, rig_to2(PARTNER, FAR, PORT + 1), -EMSGSIZE);
}

RIG_SESSION_TEST(gm_retransmits_all_if_nothing_is_acknowledged, gm_rig("gm.timeout=50ms; gm.timeout_max=80ms"),
		 open_it(r))
{
	static struct sending a, b;
	struct packet p, q, again;

	send_it(r, &a, s, 5);
	send_it(r, &b, s, 6);
	p = expect(r, GM_DATA);
	q = expect(r, GM_DATA);
	rig_expect_silence_ms(r, 49);
	rig_advance_ms(r, 1);
	again = expect(r, GM_DATA); /* one packet until it is acknowledged */
	CHECK_EQ(again.h.number, p.h.number);
	rig_expect_nothing_sent(r);
	rig_expect_silence_ms(r, 79);
	rig_advance_ms(r, 1);
	expect(r, GM_DATA);
	CHECK_EQ(rig_counter(r, "retransmitted"), 2);
	CHECK_EQ(rig_unanswered_count(r), 2);
	answer(r, &p, GM_ACK, 0);
	again = expect(r, GM_DATA);
	CHECK_EQ(again.h.number, q.h.number);
	CHECK_EQ(again.h.previous, 0); /* the packets before it have arrived */
	answer(r, &p, GM_ACK, 0);
	CHECK_EQ(rig_counter(r, "duplicate"), 1);
	answer(r, &q, GM_ACK, 0);
	CHECK_EQ(b.times, 1);
	answer(r, &q, GM_ACK, 0);
	CHECK_EQ(rig_counter(r, "duplicate"), 2);
	rig_advance_repeatedly_ms(r, 30, 100);
	rig_expect_nothing_sent(r);
}

/*
 * One packet in each half of the tokens asks for an acknowledgement at once, and so do a retransmission and a packet
 * whose sender wants a completion.
 */
GM_SESSION_TEST(gm_lets_acknowledgements_wait_if_set, gm_rig("gm.tokens=8; gm.ack_delay=1ms"), open_it(r))
{
	static const bool patient[] = { false, true, true, true, false, true, false };
	static struct sending last;
	struct packet p;

	for (unsigned i = 0; i < 6; i++)
		CHECK_EQ(rig_push(r, s, "aa"), 0);
	send_it(r, &last, s, 1);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(patient); i++) {
		p = expect(r, GM_DATA);
		CHECK_EQ(p.h.patient, patient[i]);
		if (i == 0)
			answer(r, &p, GM_ACK, 0);
	}
	rig_advance_ms(r, 20);
	p = expect(r, GM_DATA);
	CHECK_EQ(p.h.previous, 0); /* the second again */
	CHECK(!p.h.patient);
	rig_expect_nothing_sent(r);
}

/* The acknowledgement of the first transmission also counts. */
RIG_SESSION_TEST(gm_late_acknowledgement_counts, gm_rig(""), open_it(r))
{
	static struct sending a, b;
	struct packet q;

	send_it(r, &a, s, 5);
	send_it(r, &b, s, 6);
	expect(r, GM_DATA);
	q = expect(r, GM_DATA);
	rig_advance_ms(r, 20);
	expect(r, GM_DATA);
	answer(r, &q, GM_ACK, 0);
	CHECK_EQ(a.times, 1);
	CHECK_EQ(b.times, 1);
	rig_expect_silence_ms(r, 1000);
}

GM_SESSION_TEST(gm_measures_round_trips, gm_rig("gm.timeout=50ms"), open_it(r))
{
	static struct sending a;
	struct packet p;

	for (unsigned i = 0; i < 40; i++) {
		send_it(r, &a, s, 5);
		p = expect(r, GM_DATA);
		rig_expect_silence_ms(r, 20);
		answer(r, &p, GM_ACK, 0);
	}
	send_it(r, &a, s, 5);
	expect(r, GM_DATA);
	rig_advance_ms(r, 30);
	CHECK_EQ(rig_sent(r), 1);
	CHECK_EQ(rig_counter(r, "retransmitted"), 1);
}

/*
 * A peer that opened the session and then falls silent gets three retransmissions, the last in the second half of
 * `patience`, and then nothing.
 */
TEST(gm_retransmits_three_times_to_a_silent_stranger)
{
	static const size_t lens[] = { 1, 1000, 3 * FRAGMENT };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(lens); i++) {
		struct rig *r = gm_server("gm.buffers=64");
		uint64_t first = 0, again = 0, last_number = 0;
		unsigned late = 0;
		struct sending a;
		struct packet p;

		inject_data(r, 105, 0, "one");
		rig_forget(r);
		send_it(r, &a, rig_announced_session(r), lens[i]);
		for (unsigned ms = 0; ms < 11000; ms += 10) {
			while ((p = sent(r)).h.kind != 0) {
				*(p.h.number > last_number ? &first : &again) += p.h.length + 100;
				last_number = p.h.number > last_number ? p.h.number : last_number;
				late += ms >= 5000;
			}
			rig_advance_ms(r, 10);
		}
		CHECK_EQ(a.status, -ETIMEDOUT);
		CHECK(again > first && again <= 3 * first);
		CHECK(late > 0);
		CHECK(rig_counter(r, "withheld") > 0);
		rig_free(r);
	}
}

/* Each acknowledgement permits more retransmissions, so a session on a bad link survives. */
GM_TEST(gm_continues_with_a_peer_that_answers_late, gm_server(""))
{
	struct xk_session *s;
	static struct sending a;
	struct packet p = { .host = 0 };

	inject_data(r, 105, 0, "one");
	rig_forget(r);
	s = rig_announced_session(r);
	for (unsigned i = 0; i < 50; i++) {
		unsigned heard = 0;

		send_it(r, &a, s, 5);
		for (unsigned ms = 0; ms < 8000 && a.times == 0; ms += 10) {
			while (rig_sent(r) > 0) {
				p = sent(r);
				heard++;
			}
			if (heard >= 3)
				answer(r, &p, GM_ACK, 0);
			rig_advance_ms(r, 10);
		}
		CHECK_EQ(a.times, 1);
		CHECK_EQ(a.status, 0);
	}
}

/* Unacknowledged messages hold their buffers: a host has one share for all its sessions. */
TEST(gm_keeps_at_most_a_hosts_share)
{
	struct rig *r = gm_rig("gm.held=20k"); /* 10 buffers, hence 5 for the first of two hosts */
	struct xk_session *s = open_it(r), *other = rig_open(r, rig_to2(PARTNER, FAR, PORT + 1)), *third;
	struct packet p;

	REQUIRE(other != NULL);
	rig_forget(r);
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(rig_push(r, s, "aa"), 0);
	for (unsigned i = 0; i < 3; i++)
		p = expect(r, GM_DATA);
	CHECK_EQ(rig_push(r, other, "aa"), 0);
	CHECK_EQ(rig_push(r, other, "aa"), 0);
	CHECK_EQ(rig_push(r, other, "aa"), -ENOBUFS); /* the rest of the share */
	CHECK_EQ(rig_push(r, s, "aa"), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "no_room"), 2);
	meet(r, STRANGER, BOOT_B);
	third = rig_must_open(r, rig_to2(STRANGER, FAR, PORT));
	rig_forget(r);
	CHECK_EQ(rig_push(r, third, "aa"), 0); /* another host has room */
	CHECK_EQ(rig_counter(r, "no_room"), 2);
	rig_wire_peer(r, PARTNER);
	answer(r, &p, GM_ACK, 0);
	CHECK_EQ(rig_push(r, s, "aa"), 0); /* there is room again */
	gm_rig_end(r);
}

RIG_SESSION_TEST(gm_gives_up_without_progress, gm_rig("gm.patience=1s"), open_it(r))
{
	static struct sending a, b;

	send_it(r, &a, s, 5);
	send_it(r, &b, s, 5);
	rig_advance_repeatedly_ms(r, 30, 100);
	CHECK_EQ(a.times, 1);
	CHECK_EQ(a.status, -ETIMEDOUT);
	CHECK_EQ(b.status, -ETIMEDOUT);
	CHECK_EQ(rig_counter(r, "gave_up"), 2);
	CHECK_EQ(rig_close_done_count(r), 1);
	rig_forget(r);
	send_it(r, &a, s, 5);
	CHECK_EQ(a.pushed, -ETIMEDOUT);
	CHECK_EQ(rig_counter(r, "closed"), 1);
	rig_expect_nothing_sent(r);
	CHECK(rig_open(r, rig_to2(PARTNER, FAR, PORT)) != s); /* a new session */
}

GM_SESSION_TEST(gm_continues_once_buffers_return, gm_rig(""), open_it(r))
{
	struct xk_msg *others[8];
	static struct sending a;

	rig_limit_buffers(r, 10);
	for (unsigned i = 0; i < 8; i++)
		others[i] = xk_memory_frame(rig_platform(r), 1);
	send_it(r, &a, s, 5); /* the message takes the last buffer but one: none is left for its header */
	CHECK_EQ(a.pushed, 0);
	rig_expect_nothing_sent(r);
	for (unsigned i = 0; i < 8; i++)
		xk_msg_free(others[i]);
	rig_limit_buffers(r, UINT_MAX);
	rig_advance_ms(r, 20);
	expect(r, GM_DATA);
}

RIG_SESSION_TEST(gm_keeps_sending_after_the_hlp_closes, gm_rig(""), open_it(r))
{
	static struct sending a;
	struct packet p;

	send_it(r, &a, s, 5);
	rig_close(r, s);
	expect(r, GM_DATA);
	rig_advance_ms(r, 20);
	p = expect(r, GM_DATA);
	answer(r, &p, GM_ACK, 0);
	CHECK_EQ(a.times, 1);
	rig_advance_ms(r, 1000);
	answer(r, &p, GM_ACK, 0); /* for a session without an upper */
	CHECK_EQ(rig_counter(r, "no_session"), 1);
}

GM_SESSION_TEST(gm_refuses_messages_that_are_too_long, gm_rig("gm.longest=2000"), open_it(r))
{
	static struct sending a;

	send_it(r, &a, s, 2001);
	CHECK_EQ(a.pushed, -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_big"), 1);
	send_it(r, &a, s, 2000);
	CHECK_EQ(a.pushed, 0);
}

/* ---- forged answers ---- */

GM_SESSION_TEST(gm_ignores_acknowledgements_of_unsent_packets, gm_rig("gm.window=1"), open_it(r))
{
	static struct sending a, b;
	struct packet p, forged;

	send_it(r, &a, s, 5);
	send_it(r, &b, s, 5); /* waits */
	p = forged = expect(r, GM_DATA);
	forged.h.number++; /* b's number */
	answer(r, &forged, GM_ACK, 0);
	forged.h.number += 1000;
	answer(r, &forged, GM_ACK, 0);
	answer(r, &forged, GM_RESET, GM_R_STALE);
	CHECK_EQ(rig_counter(r, "bad_ack"), 3);
	forged = p;
	forged.h.begin++; /* another session's */
	answer(r, &forged, GM_ACK, 0);
	answer(r, &forged, GM_RESET, GM_R_STALE);
	CHECK_EQ(rig_counter(r, "stale"), 2);
	CHECK_EQ(a.times + b.times, 0);
	answer(r, &p, GM_ACK, 0);
	CHECK_EQ(a.times, 1);
}

GM_SESSION_TEST(gm_ignores_acknowledgements_from_another_host, gm_rig(""), open_it(r))
{
	static struct sending a;
	struct packet p, forged;

	send_it(r, &a, s, 5);
	p = expect(r, GM_DATA);
	meet(r, STRANGER, BOOT_B);
	forged = packet(GM_ACK, p.h.number, 0, "");
	forged.h.begin = p.h.begin;
	forged.host = STRANGER;
	forged.boot = BOOT_B;
	inject(r, forged);
	CHECK_EQ(a.times, 0);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
}

TEST(gm_ends_a_session_reset_by_the_peer)
{
	static const struct {
		enum gm_reason reason;
		int status;
	} cases[] = { { GM_R_STALE, -ECONNRESET },        { GM_R_REFUSED, -ECONNRESET },
		      { GM_R_INCONSISTENT, -ECONNRESET }, { GM_R_REGION, -EFAULT },
		      { GM_R_BOUNDS, -EFAULT },           { GM_R_TOO_LONG, -EMSGSIZE },
		      { (enum gm_reason)99, -ECONNRESET } };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(cases); i++) {
		struct rig *r = gm_rig("");
		struct xk_session *s = open_it(r);
		struct sending a;
		struct packet p;

		send_it(r, &a, s, 5);
		p = expect(r, GM_DATA);
		answer(r, &p, GM_RESET, cases[i].reason);
		CHECK_EQ(a.times, 1);
		CHECK_EQ(a.status, cases[i].status);
		CHECK_EQ(rig_counter(r, "was_reset"), 1);
		CHECK_EQ(rig_close_done_count(r), 1);
		rig_free(r);
	}
}

/* ---- reboots ---- */

GM_TEST(gm_sends_nothing_to_another_boot, gm_rig(""))
{
	struct xk_session *s = open_it(r), *next;
	static struct sending a;
	struct packet p;

	send_it(r, &a, s, 5);
	expect(r, GM_DATA);
	meet(r, PARTNER, BOOT_B);
	CHECK_EQ(a.times, 1);
	CHECK_EQ(a.status, -ECONNRESET);
	CHECK_EQ(rig_counter(r, "peer_gone"), 1);
	CHECK_EQ(rig_close_done_count(r), 1);
	send_it(r, &a, s, 5);
	CHECK_EQ(a.pushed, -ECONNRESET);
	rig_expect_silence_ms(r, 1000);
	next = rig_open(r, rig_to2(PARTNER, FAR, PORT));
	REQUIRE(next != NULL && next != s);
	rig_forget(r);
	send_it(r, &a, next, 5);
	p = sent(r);
	CHECK(p.boot == BOOT_B);
}

/* ---- small messages ---- */

static unsigned
segments_of(const char *small, size_t len)
{
	char settings[64];
	struct rig *r;
	struct xk_session *s;
	static struct sending a;
	unsigned buffers = 0;
	bool was_sent = false;

	/* finds out how many buffers the message needs: its own, and its packet's */
	while (!was_sent && ++buffers < 10) {
		snprintf(settings, sizeof(settings), "gm.small=%s", small);
		r = gm_rig(settings);
		s = open_it(r);
		rig_limit_buffers(r, buffers);
		send_it(r, &a, s, len);
		was_sent = rig_sent(r) > 0;
		rig_limit_buffers(r, UINT_MAX);
		gm_rig_end(r);
	}
	return buffers;
}

TEST(gm_copies_small_messages_if_set)
{
	CHECK_EQ(segments_of("copy", 256), 2);
	CHECK(segments_of("reference", 256) > 2);
	CHECK(segments_of("copy", 257) > 2);
}

GM_SESSION_TEST(gm_sends_small_messages_unreliably_if_set, gm_rig("gm.small=unreliable; gm.tokens=1"), open_it(r))
{
	static struct sending a;
	struct packet p;

	for (unsigned i = 0; i < 3; i++) {
		send_it(r, &a, s, 256);
		CHECK_EQ(a.pushed, 0);
		CHECK_EQ(a.times, 1);
		CHECK_EQ(a.status, XK_GM_UNKNOWN);
		p = expect(r, GM_DATAGRAM);
		CHECK_EQ(p.h.number, i + 1);
		CHECK_EQ(p.h.previous, 0);
		CHECK_EQ(p.h.length, 256);
	}
	CHECK_EQ(rig_push(r, s, "aabb"), 0);
	expect(r, GM_DATAGRAM);
	CHECK_EQ(rig_counter(r, "unreliable"), 4);
	rig_expect_silence_ms(r, 1000);
	send_it(r, &a, s, 257);
	expect(r, GM_DATA);
	CHECK_EQ(a.times, 0);
	rig_limit_buffers(r, 1);
	send_it(r, &a, s, 10);
	CHECK_EQ(a.pushed, -ENOBUFS);
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	rig_limit_buffers(r, UINT_MAX);
}

/* ---- without reliability, without flow control ---- */

GM_SESSION_TEST(gm_sends_unreliable_messages_once, gm_rig("gm.reliable=no; gm.flow=no"), open_it(r))
{
	static struct sending a;
	struct packet p;

	for (unsigned i = 0; i < 70; i++) {
		send_it(r, &a, s, 2 * FRAGMENT + 7);
		CHECK_EQ(a.pushed, 0);
		CHECK_EQ(a.times, 1);
		CHECK_EQ(a.status, XK_GM_UNKNOWN);
		for (unsigned part = 0; part < 3; part++) {
			p = expect(r, GM_DATAGRAM);
			CHECK_EQ(p.h.number, i + 1);
			CHECK_EQ(p.h.previous, 0);
			CHECK_EQ(p.h.total, 2 * FRAGMENT + 7);
			CHECK_EQ(p.h.offset, part * FRAGMENT);
			CHECK_EQ(p.h.length, part < 2 ? FRAGMENT : 7);
			CHECK_EQ(p.payload[5], (p.h.offset + 5) % 251);
		}
	}
	CHECK_EQ(tokens(s), GM_TOKENS_MAX);
	send_it(r, &a, s, 0);
	expect(r, GM_DATAGRAM);
	rig_expect_silence_ms(r, 20000);
	deposit(r, &a, s, 2, 0x1234, 0); /* deposits stay reliable */
	p = expect(r, GM_DEPOSIT);
	answer(r, &p, GM_ACK, 0);
	CHECK_EQ(a.status, 0);
	CHECK_EQ(rig_drop_count(r), 0);
}

GM_SESSION_TEST(gm_drops_a_datagram_without_a_buffer, gm_rig("gm.reliable=no"), open_it(r))
{
	static struct sending a;
	unsigned dropped = 0;

	for (unsigned more = 1; more < 8; more++) { /* the message itself takes the first */
		rig_limit_buffers(r, more);
		send_it(r, &a, s, FRAGMENT + 7);
		CHECK(a.pushed == 0 || a.pushed == -ENOBUFS);
		CHECK_EQ(a.times, a.pushed == 0);
		dropped += a.pushed != 0;
		rig_limit_buffers(r, UINT_MAX);
		rig_forget(r);
	}
	CHECK(dropped > 0 && a.pushed == 0);
	CHECK_EQ(rig_drop_count(r), dropped);
}

GM_SESSION_TEST(gm_regains_tokens_with_credits, gm_rig("gm.reliable=no; gm.tokens=4; gm.timeout=50ms"), open_it(r))
{
	static struct sending a;
	struct packet p, second = { .host = 0 }, forged;

	for (unsigned i = 1; i <= 4; i++) {
		send_it(r, &a, s, 5);
		CHECK_EQ(a.pushed, 0);
		p = expect(r, GM_DATAGRAM);
		CHECK_EQ(p.h.previous, i % 2 == 0); /* asks for credit */
		if (i == 2)
			second = p;
	}
	CHECK_EQ(tokens(s), 0);
	send_it(r, &a, s, 5);
	CHECK_EQ(a.pushed, -ENOBUFS);
	CHECK_EQ(a.times, 0);
	CHECK_EQ(rig_counter(r, "no_token"), 1);
	answer(r, &second, GM_CREDIT, 0);
	CHECK_EQ(tokens(s), 2);
	answer(r, &second, GM_CREDIT, 0);
	CHECK_EQ(rig_counter(r, "duplicate"), 1);
	forged = p;
	forged.h.number = 5;
	answer(r, &forged, GM_CREDIT, 0);
	CHECK_EQ(rig_counter(r, "bad_ack"), 1);
	forged = p;
	forged.h.begin++;
	answer(r, &forged, GM_CREDIT, 0);
	CHECK_EQ(rig_counter(r, "stale"), 1);
	CHECK_EQ(tokens(s), 2);
	answer(r, &p, GM_CREDIT, 0);
	CHECK_EQ(tokens(s), 4);
	rig_expect_nothing_sent(r);
}

GM_SESSION_TEST(gm_recovers_from_lost_credits, gm_rig("gm.reliable=no; gm.tokens=2; gm.timeout=50ms"), open_it(r))
{
	static struct sending a;

	send_it(r, &a, s, 5);
	send_it(r, &a, s, 5);
	rig_advance_ms(r, 100); /* while nobody waits for a token */
	send_it(r, &a, s, 5);
	CHECK_EQ(a.pushed, -ENOBUFS);
	rig_advance_ms(r, 49);
	send_it(r, &a, s, 5);
	CHECK_EQ(a.pushed, -ENOBUFS);
	rig_advance_ms(r, 1);
	send_it(r, &a, s, 5);
	CHECK_EQ(a.pushed, 0);
	CHECK_EQ(rig_counter(r, "restored"), 1);
	CHECK_EQ(tokens(s), 1);
	send_it(r, &a, s, 5);
	deposit(r, &a, s, 5, 0x1234, 0);
	CHECK_EQ(a.pushed, -ENOBUFS);
	rig_advance_ms(r, 50);
	deposit(r, &a, s, 5, 0x1234, 0);
	CHECK_EQ(a.pushed, 0);
	CHECK_EQ(rig_counter(r, "restored"), 2);
	rig_forget(r);
}

GM_SESSION_TEST(gm_never_waits_without_flow_control, gm_rig("gm.flow=no; gm.tokens=1; gm.window=1; gm.longest=2k"),
		open_it(r))
{
	static struct sending sending[GM_TOKENS_MAX + 1];
	struct packet p = { .host = 0 };

	for (unsigned i = 0; i <= GM_TOKENS_MAX; i++)
		send_it(r, &sending[i], s, FRAGMENT + 1);
	CHECK_EQ(sending[GM_TOKENS_MAX - 1].pushed, 0);
	CHECK_EQ(sending[GM_TOKENS_MAX].pushed, -ENOBUFS); /* kept messages are bounded */
	for (unsigned i = 0; i < 2 * GM_TOKENS_MAX; i++)
		p = expect(r, GM_DATA);
	rig_expect_nothing_sent(r);
	answer(r, &p, GM_ACK, 0);
	CHECK_EQ(sending[GM_TOKENS_MAX - 1].times, 1);
	CHECK_EQ(tokens(s), GM_TOKENS_MAX);
}

/* ---- deposits ---- */

TEST(gm_deposits_name_region_and_offset)
{
	struct rig *r = gm_rig("gm.small=unreliable"); /* deposits stay reliable */
	struct xk_session *s = open_it(r);
	static struct sending a, b;
	struct packet p, q;

	deposit(r, &a, s, FRAGMENT + 3, 0x1234, 1000);
	deposit(r, &b, s, 2, 0x1235, 0);
	p = expect(r, GM_DEPOSIT);
	q = expect(r, GM_DEPOSIT);
	CHECK_EQ(p.h.total, 0x1234);
	CHECK_EQ(p.h.offset, 1000);
	CHECK_EQ(q.h.offset, 1000 + FRAGMENT);
	CHECK_EQ(q.h.length, 3);
	q = expect(r, GM_DEPOSIT);
	CHECK_EQ(q.h.total, 0x1235);
	CHECK_EQ(q.h.offset, 0);
	answer(r, &q, GM_ACK, 0);
	CHECK_EQ(a.times, 1);
	CHECK_EQ(a.status, 0);
	CHECK_EQ(b.times, 1);
	gm_rig_end(r);
}

RIG_TEST(gm_registers_regions, gm_rig(""))
{
	struct xk_protocol *gm = rig_protocol(r, "gm");
	static uint8_t memory[16];
	struct xk_region region = { .base = memory, .len = sizeof(memory), .port = PORT }, none = { .id = 0 };

	CHECK_EQ(xk_region_register(gm, &none), -EINVAL);
	CHECK_EQ(xk_region_unregister(gm, &none), -ENOENT);
	for (unsigned i = 0; i < XK_REGIONS; i++) {
		CHECK_EQ(xk_region_register(gm, &region), 0);
		CHECK(region.id != 0);
	}
	none = region;
	CHECK_EQ(xk_region_register(gm, &none), -ENOSPC);
	CHECK_EQ(xk_region_unregister(gm, &region), 0);
	CHECK_EQ(xk_region_unregister(gm, &region), -ENOENT);
	CHECK_EQ(xk_region_register(gm, &region), 0);
}
