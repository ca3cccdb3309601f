/*
 * test_stopwait_strangers.c - one end against malformed packets, many strangers, impossible settings and random
 * packets.
 */
#include "tests/protocols/stopwait_peer.h"
#include "xkernel/support/ports.h"

/* ---- malformed packets ---- */

RIG_TEST(stopwait_drops_malformed_packets, server_new(""))
{
	struct packet p = packet(STOPWAIT_CALL, 0, 0xa, 0, "x");

	inject(r, p); /* with a payload */
	CHECK_EQ(rig_counter(r, "bad_length"), 1);
	inject(r, packet(STOPWAIT_CALL, 0, 0xa, 0xb, ""));
	inject(r, packet(STOPWAIT_CALL, 0, 0, 0, ""));
	inject(r, packet(STOPWAIT_DATA, 0, 0xa, 0, ""));
	inject(r, packet(0, 0, 0xa, 0, ""));
	inject(r, packet(STOPWAIT_GONE + 1, 0, 0xa, 0xb, ""));
	inject(r, packet(0xffff, 0, 0xa, 0xb, ""));
	CHECK_EQ(rig_counter(r, "bad_kind"), 6);
	rig_inject(r, "2345 0007 001d 0000 0001 00000000 0000000000000001 0000000000000000");
	rig_inject(r, "2345 0007 001f 0000 0001 00000000 0000000000000001 0000000000000000");
	CHECK_EQ(rig_counter(r, "bad_length"), 3);
	rig_inject(r, "2345 0007 001e 0000 0001 00000000 0000000000000001 0000000000000000");
	CHECK_EQ(rig_counter(r, "bad_checksum"), 1);
	rig_inject_prefixes(r, "2345 0007 001e dc98 0001 00000000 0000000000000001 0000000000000000");
	rig_expect_counts(r, "short=30 called=0");
	rig_expect_nothing_sent(r);
}

RIG_TEST(stopwait_cuts_off_padding, server_new(""))
{
	uint8_t bytes[STOPWAIT_HEADER_LEN + LEN];
	uint64_t id = call(r, 0xa);
	struct packet p = packet(STOPWAIT_DATA, 0, 0xa, id, "abc");
	size_t len = packet_store(&p, bytes);

	memset(bytes + len, 0xee, 20);
	rig_inject_bytes(r, bytes, len + 20);
	expect_delivered(r, "abc");
	expect(r, STOPWAIT_ACK, 0);
}

RIG_TEST(stopwait_detects_every_flipped_bit, server_new(""))
{
	uint8_t bytes[STOPWAIT_HEADER_LEN + LEN];
	uint64_t id = call(r, 0xa);
	struct packet p = packet(STOPWAIT_DATA, 0, 0xa, id, "damage");
	size_t len = packet_store(&p, bytes);

	rig_inject_flips(r, bytes, len, 8 * len);
	rig_expect_nothing_delivered(r);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "bad_checksum") + rig_counter(r, "bad_length"), 8 * len);
}

RIG_TEST(stopwait_answers_a_repeated_packet_after_a_failed_answer, server_new(""))
{
	uint64_t id;

	rig_fail_sending(r, -ENOBUFS);
	CHECK_EQ(call(r, 0xa), 0);
	rig_fail_sending(r, 0);
	id = call(r, 0xa);
	CHECK(id != 0);
	rig_fail_sending(r, -ENOBUFS);
	inject_data(r, 0, id, "x");
	expect_delivered(r, "x");
	rig_fail_sending(r, 0);
	inject_data(r, 0, id, "x");
	rig_expect_nothing_delivered(r);
	expect(r, STOPWAIT_ACK, 0);
	CHECK_EQ(rig_counter(r, "called"), 1);
}

/* ---- bounds, settings, controls ---- */

RIG_TEST(stopwait_keeps_the_youngest_strangers, server_new("sessions=4"))
{
	uint64_t ids[10];

	rig_protocol(r, "stopwait")->session_max = 4;
	for (unsigned i = 0; i < 10; i++)
		ids[i] = call(r, 100 + i);
	CHECK_EQ(rig_counter(r, "called"), 10);
	CHECK(rig_protocol(r, "stopwait")->cache_count <= 4);
	inject(r, packet(STOPWAIT_DATA, 0, 109, ids[9], "x"));
	expect_delivered(r, "x");
	rig_forget(r);
}

/* A stranger that is answered and does not acknowledge keeps a session until it is given up. */
RIG_TEST(stopwait_bounds_strangers_that_do_not_acknowledge, server_new(""))
{
	unsigned welcomed = 0;

	rig_protocol(r, "stopwait")->session_max = 4;
	for (unsigned i = 0; i < 20; i++) {
		uint64_t id = call(r, 100 + i);

		welcomed += id != 0;
		if (id == 0)
			continue;
		inject(r, packet(STOPWAIT_DATA, 0, 100 + i, id, "x"));
		CHECK_EQ(push(r, rig_announced_session(r), "y"), 0);
		rig_forget(r);
	}
	CHECK(welcomed >= 4 && welcomed <= 9);
	CHECK_EQ(rig_counter(r, "too_many"), 20 - welcomed);
	rig_advance_repeatedly_ms(r, 60, 1000);
	rig_forget(r);
	CHECK(call(r, 200) != 0); /* there is room again */
}

TEST(stopwait_refuses_impossible_participants_and_settings)
{
	struct rig *r = rig_new("stopwait");
	struct xk_participants two = at_port(PORT);

	rig_expect_open_fails(r, rig_to2(HOST, 0, 1), -EINVAL);
	CHECK(rig_open(r, rig_to2(HOST, 65536, 1)) == NULL);
	CHECK(rig_open(r, rig_to2(HOST, 1, 65536)) == NULL);
	CHECK_EQ(rig_open_enable(r, at_port(0)), -EINVAL);
	xk_participant_push(&two.remote, HOST);
	CHECK_EQ(rig_open_enable(r, two), -EOPNOTSUPP);
	CHECK_EQ(rig_open_disable(r, at_port(PORT)), -ENOENT);
	rig_wire_refuse(r, -EHOSTUNREACH);
	rig_expect_open_fails(r, rig_to2(HOST, PORT, 1), -EHOSTUNREACH);
	rig_free(r);
	CHECK_EQ(rig_refusal("wire:; stopwait: wire; stopwait.timeout=3s; stopwait.timeout_max=2s"), -EINVAL);
}

RIG_TEST(stopwait_reports_its_participants, rig_new("stopwait"))
{
	struct xk_participants to = { .remote = { 2, { HOST, PORT } } }, got;
	struct xk_session *s = open_it(r), *anonymous;
	uint32_t optimal;

	CHECK_EQ(xk_get_participants(s, &got), 0);
	CHECK_EQ(xk_participant_pop(&got.remote), PORT);
	CHECK_EQ(xk_participant_pop(&got.remote), HOST);
	CHECK_EQ(xk_participant_pop(&got.local), CALLER);
	anonymous = rig_must_open(r, to);
	CHECK_EQ(xk_get_participants(anonymous, &got), 0);
	CHECK(xk_participant_pop(&got.local) >= XK_PORTS_FIRST);
	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &optimal), 0);
	CHECK_EQ(optimal, 1500 - STOPWAIT_HEADER_LEN);
}

STOPWAIT_SESSION_TEST(stopwait_shuts_down_with_messages_in_flight, rig_new("stopwait"), open_it(r))
{
	CHECK_EQ(push(r, s, "x"), 0);
	CHECK_EQ(push(r, s, "y"), 0);
	rig_close(r, s);
	rig_forget(r);
	xk_kernel_stop(rig_kernel(r));
	CHECK_EQ(rig_wire_session_count(r), 1);
}

/* ---- hostile strangers ---- */

/* A silent peer draws three times the bytes in retransmissions, the last ones in the second half of the retries. */
STOPWAIT_TEST(stopwait_retransmits_three_times_to_a_silent_stranger, server_new("timeout=100ms timeout_max=500ms"))
{
	uint64_t id = call(r, 0xa);
	unsigned times = 0, late = 0;

	inject(r, packet(STOPWAIT_DATA, 0, 0xa, id, "x"));
	expect(r, STOPWAIT_ACK, 0);
	CHECK_EQ(push(r, rig_announced_session(r), "y"), 0);
	for (unsigned ms = 0; ms < 8000; ms += 100) {
		for (; rig_sent(r) > 0; times++) {
			expect(r, STOPWAIT_DATA, 0);
			late += ms > 2000;
		}
		rig_advance_ms(r, 100);
	}
	CHECK_EQ(times, 6); /* three times its own bytes, and those received from the peer */
	CHECK_EQ(late, 1);
	CHECK(rig_counter(r, "withheld") > 3);
	CHECK_EQ(rig_counter(r, "gave_up"), 1);
}

STOPWAIT_TEST(stopwait_survives_random_packets, server_new(""))
{
	uint64_t state = 7, from[4] = { 0xa, 0xb, 0, 1 }, to[4] = { 0, 0xa, 0, 0 };

	rig_protocol(r, "stopwait")->session_max = 8;
	for (unsigned i = 0; i < 6000; i++) {
		uint64_t one = draw(&state, 4), other = draw(&state, 8) == 0 ? draw(&state, 4) : one;
		struct packet p = packet((unsigned)draw(&state, 7), (uint32_t)draw(&state, 4) - 1, from[one], to[other],
					 draw(&state, 2) == 0 ? "" : "data");

		inject(r, p);
		while (rig_sent(r) > 0) {
			p = sent(r);
			one = draw(&state, 3);
			from[one] = p.to; /* as if they had received it */
			to[one] = p.from;
		}
		while (rig_delivered(r) > 0) {
			rig_expect_delivered(r, "*");
			if (draw(&state, 2) == 0)
				push(r, rig_delivered_session(r), "answer");
		}
		if (draw(&state, 32) == 0) {
			rig_advance_ms(r, draw(&state, 1000));
			from[3] = draw(&state, 1000);
			to[3] = 0;
		}
	}
	CHECK(rig_counter(r, "accepted") > 10);
	CHECK(rig_counter(r, "retransmitted") > 0);
	CHECK(rig_counter(r, "duplicate") > 10);
}
