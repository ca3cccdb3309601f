/*
 * test_icmp_received.c - ICMP over IP: errors received, which of them are accepted, and path MTUs (icmp_rig.h).
 */
#include "protocols/ip/ip.h"
#include "tests/protocols/icmp_rig.h"
#include "tests/random.h"

/* Returns a rig with path MTU discovery. */
static struct rig *
icmp_rig_of_paths(void)
{
	return icmp_rig_with("ip.pmtu=yes;");
}

/* ---- errors received ---- */

/* Opens a session of udp to the peer's port and sends a datagram on it, which is stored in `frame`. */
static struct xk_session *
send_datagram(struct rig *r, uint8_t *frame, size_t len)
{
	struct xk_session *s;

	rig_user(r, "user2");
	s = rig_must_open(r, rig_to2(PEER, FAR_PORT, PORT));
	CHECK_EQ(rig_push_pattern(r, s, len), 0);
	CHECK_EQ(rig_take_sent(r, frame, MTU), HEADER + 8 + len);
	return s;
}

static void
inject_error(struct rig *r, unsigned kind, uint32_t word, const uint8_t *quote, size_t len)
{
	inject_message(r, kind >> 8, kind & 0xff, word, quote, len);
}

RIG_TEST(rfc1122_3_2_2_1_errors_about_our_datagrams_are_accepted, icmp_rig())
{
	static const struct {
		unsigned kind;
		const char *name;
	} known[] = {
		{ 0x0300, "got_network" }, { 0x0301, "got_host" },       { 0x0302, "got_protocol" },
		{ 0x0303, "got_port" },    { 0x0306, "got_network" },    { 0x030d, "got_host" },
		{ 0x0b00, "got_hops" },    { 0x0b01, "got_reassembly" }, { 0x0c00, "got_header" },
	};
	uint8_t frame[MTU];

	send_datagram(r, frame, 10);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(known); i++) {
		long before = counter(r, known[i].name);

		inject_error(r, known[i].kind, 0, frame, HEADER + 8);
		CHECK_EQ(counter(r, known[i].name), before + 1);
	}
	CHECK_EQ(rig_drop_count(r), 0);
	rig_expect_nothing_sent(r);
}

static void
expect_bogus(struct rig *r, unsigned kind, uint32_t word, const uint8_t *quote, size_t len)
{
	long before = counter(r, "bad_quote");

	inject_error(r, kind, word, quote, len);
	CHECK_EQ(counter(r, "bad_quote"), before + 1);
}

RIG_TEST(rfc5927_quotes_of_impossible_datagrams_are_refused, icmp_rig())
{
	static const struct {
		unsigned at;
		uint8_t mask;
	} lies[] = {
		{ XK_OFFSET(ip, version), 0x10 },
		{ XK_OFFSET(ip, version), 0x02 },
		{ XK_OFFSET(ip, protocol), 0x01 },
		{ XK_OFFSET(ip, source) + 3, 0x02 },
		{ XK_OFFSET(ip, destination), 0x01 },
		{ XK_OFFSET(ip, destination) + 3, 0x04 },
		{ IP_FRAGMENT, 0x01 },
		{ HEADER + 1, 0x01 },
		{ HEADER + 3, 0x01 },
		{ HEADER, 0x80 },
		{ HEADER + 2, 0x80 },
		{ XK_OFFSET(ip, length), 0 },
	};
	uint8_t frame[MTU], lie[MTU];

	send_datagram(r, frame, 10);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(lies); i++) {
		memcpy(lie, frame, sizeof(lie));
		lie[lies[i].at] ^= lies[i].mask;
		if (lies[i].mask == 0)
			xk_put16(lie + lies[i].at, HEADER - 1);
		expect_bogus(r, 0x0303, 0, lie, HEADER + 8);
	}
	for (size_t len = 0; len < HEADER + 8; len++)
		expect_bogus(r, 0x0303, 0, frame, len);
	CHECK_EQ(counter(r, "got_port"), 0);
}

RIG_SESSION_TEST(errors_about_our_echoes_are_accepted, icmp_rig(), open_echo(r))
{
	uint8_t frame[MTU];
	long len;

	rig_push(r, s, "0007 aabbcc");
	len = rig_take_sent(r, frame, sizeof(frame));
	inject_error(r, 0x0301, 0, frame, (size_t)len);
	CHECK_EQ(counter(r, "got_host"), 1);
	frame[ICMP + 4] ^= 1; /* another identifier */
	expect_bogus(r, 0x0301, 0, frame, (size_t)len);
	frame[ICMP + 4] ^= 1;
	frame[ICMP] = 13; /* this host requests no timestamps */
	expect_bogus(r, 0x0301, 0, frame, (size_t)len);
	frame[ICMP] = 0; /* but it may have replied to an echo */
	inject_error(r, 0x0301, 0, frame, (size_t)len);
	CHECK_EQ(counter(r, "got_host"), 2);
}

RIG_TEST(random_messages_leave_nothing_behind, icmp_rig_of_paths())
{
	uint8_t frame[MTU], payload[100];
	uint64_t state = 7;

	send_datagram(r, frame, 10);
	for (unsigned i = 0; i < 20000; i++) {
		size_t len = next_random(&state) % sizeof(payload);

		memcpy(payload, frame, sizeof(payload));
		for (unsigned flips = (unsigned)(next_random(&state) % 4); flips > 0; flips--)
			payload[next_random(&state) % sizeof(payload)] = (uint8_t)next_random(&state);
		inject_message(r, (unsigned)(next_random(&state) % 20), (unsigned)(next_random(&state) % 6),
			       (uint32_t)(next_random(&state) % 2000), payload, len);
		rig_forget(r);
	}
}

/* ---- path MTUs ---- */

static uint32_t
whole_of(struct xk_session *s)
{
	uint32_t whole = 0;

	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &whole), 0);
	return whole;
}

RIG_TEST(rfc1191_3_whole_datagrams_have_dont_fragment_set, icmp_rig_of_paths())
{
	uint8_t frame[MTU];
	struct xk_session *s = send_datagram(r, frame, 10);

	CHECK_EQ(xk_get16(frame + IP_FRAGMENT), DF);
	CHECK_EQ(xk_sum_fold(xk_sum(0, frame, HEADER)), 0xffff);
	CHECK_EQ(rig_push_pattern(r, s, 2000), 0); /* fragmented here, and routers may fragment it further */
	rig_take_sent(r, frame, sizeof(frame));
	CHECK_EQ(xk_get16(frame + IP_FRAGMENT), MORE);
	rig_forget(r);
}

RIG_TEST(rfc1191_3_fragmentation_needed_lowers_the_path_mtu, icmp_rig_of_paths())
{
	uint8_t frame[MTU];
	struct xk_session *s = send_datagram(r, frame, 1000);

	CHECK_EQ(whole_of(s), MTU - HEADER - 8);
	inject_error(r, 0x0304, 600, frame, HEADER + 8);
	CHECK_EQ(counter(r, "got_too_big"), 1);
	CHECK_EQ(rig_counter_of(r, "ip", "path_lowered"), 1);
	CHECK_EQ(whole_of(s), 600 - HEADER - 8);
	CHECK_EQ(rig_push_pattern(r, s, 1000), 0);
	CHECK_EQ(rig_take_sent(r, frame, sizeof(frame)), HEADER + 576);
	CHECK_EQ(rig_take_sent(r, frame, sizeof(frame)), HEADER + 1008 - 576);
	CHECK_EQ(rig_push_pattern(r, s, 572), 0);
	CHECK_EQ(rig_take_sent(r, frame, sizeof(frame)), 600);
	CHECK_EQ(xk_get16(frame + IP_FRAGMENT), DF);
}

RIG_TEST(rfc1191_3_all_sessions_to_that_host_learn_of_it, icmp_rig_of_paths())
{
	uint8_t frame[MTU];
	struct xk_session *s = send_datagram(r, frame, 1000), *other, *echo;

	other = rig_open(r, rig_to2(OTHER, FAR_PORT, PORT));
	echo = open_echo(r);
	inject_error(r, 0x0304, 600, frame, HEADER + 8);
	CHECK_EQ(whole_of(s), 572);
	CHECK_EQ(whole_of(other), MTU - HEADER - 8);
	CHECK_EQ(whole_of(echo), 574);
	rig_close(r, echo);
	echo = open_echo(r); /* opened later */
	CHECK_EQ(whole_of(echo), 574);
}

RIG_TEST(rfc1191_6_3_path_mtu_is_forgotten_after_ten_minutes, icmp_rig_of_paths())
{
	uint8_t frame[MTU];
	struct xk_session *s = send_datagram(r, frame, 1000);

	inject_error(r, 0x0304, 600, frame, HEADER + 8);
	rig_advance_ms(r, 590000);
	CHECK_EQ(whole_of(s), 572);
	rig_advance_ms(r, 60000);
	CHECK_EQ(whole_of(s), MTU - HEADER - 8);
	CHECK_EQ(rig_counter_of(r, "ip", "path_forgotten"), 1);
	rig_advance_ms(r, 1000000);
	CHECK_EQ(rig_push_pattern(r, s, 1000), 0);
	rig_take_sent(r, frame, sizeof(frame));
	inject_error(r, 0x0304, 700, frame, HEADER + 8); /* and may be learned again */
	CHECK_EQ(whole_of(s), 672);
}

RIG_TEST(rfc1191_5_next_plateau_is_tried_without_an_mtu, icmp_rig_of_paths())
{
	uint8_t frame[MTU];
	struct xk_session *s = send_datagram(r, frame, 1472);

	inject_error(r, 0x0304, 0, frame, HEADER + 8);
	CHECK_EQ(whole_of(s), 1492 - 28);
	CHECK_EQ(rig_push_pattern(r, s, 1464), 0);
	rig_take_sent(r, frame, sizeof(frame));
	inject_error(r, 0x0304, 0, frame, HEADER + 8);
	CHECK_EQ(whole_of(s), 1006 - 28);
}

TEST(rfc1191_3_path_mtu_is_never_below_68)
{
	struct rig *r = icmp_rig_with("ip.pmtu=yes; ip.pmtu_min=68;");
	uint8_t frame[MTU];
	struct xk_session *s = send_datagram(r, frame, 1000);

	inject_error(r, 0x0304, 20, frame, HEADER + 8);
	CHECK_EQ(whole_of(s), 68 - 28);
	rig_free(r);
	r = icmp_rig_with("ip.pmtu=yes;"); /* no less than any link has today, unless asked for */
	s = send_datagram(r, frame, 1000);
	inject_error(r, 0x0304, 100, frame, HEADER + 8);
	CHECK_EQ(whole_of(s), 552 - 28);
	rig_free(r);
}

RIG_TEST(rfc5927_7_impossible_mtu_is_refused, icmp_rig_of_paths())
{
	uint8_t frame[MTU], lie[MTU];
	struct xk_session *s = send_datagram(r, frame, 1000);

	expect_bogus(r, 0x0304, 1028, frame, HEADER + 8); /* it would have fitted */
	expect_bogus(r, 0x0304, 9000, frame, HEADER + 8);
	memcpy(lie, frame, sizeof(lie));
	XK_PUT(ip, length, lie, 1501); /* longer than our link takes */
	expect_bogus(r, 0x0304, 600, lie, HEADER + 8);
	memcpy(lie, frame, sizeof(lie));
	xk_put16(lie + IP_FRAGMENT, 0); /* the router could have fragmented it */
	expect_bogus(r, 0x0304, 600, lie, HEADER + 8);
	xk_put16(lie + IP_FRAGMENT, DF | MORE); /* not a whole datagram */
	expect_bogus(r, 0x0304, 600, lie, HEADER + 8);
	memcpy(lie, frame, sizeof(lie));
	for (unsigned id = 0; id < 65536; id += 97) { /* a guess, right once in 16 */
		XK_PUT(ip, identification, lie, (uint16_t)(XK_GET(ip, identification, frame) + 1 + id % 30000));
		if (id % 30000 % 2 == 0 || id % 30000 > 2)
			expect_bogus(r, 0x0304, 600, lie, HEADER + 8);
	}
	CHECK_EQ(whole_of(s), MTU - HEADER - 8);
	CHECK_EQ(rig_counter_of(r, "ip", "path_lowered"), 0);
}

RIG_TEST(errors_lower_no_mtu_without_pmtu, icmp_rig())
{
	uint8_t frame[MTU];
	struct xk_session *s = send_datagram(r, frame, 1000);

	CHECK_EQ(xk_get16(frame + IP_FRAGMENT), 0);
	expect_bogus(r, 0x0304, 600, frame, HEADER + 8);
	xk_put16(frame + IP_FRAGMENT, DF);
	expect_bogus(r, 0x0304, 600, frame, HEADER + 8);
	CHECK_EQ(whole_of(s), MTU - HEADER - 8);
}

RIG_TEST(path_mtus_are_bounded_and_the_oldest_is_replaced,
	 icmp_rig_with("ip.pmtu=yes; ip.pmtu_entries=2; ip.pmtu_timeout=160s;"))
{
	struct xk_session *s[3];
	uint8_t frame[MTU];

	rig_user(r, "user2");
	for (unsigned i = 0; i < 3; i++) {
		s[i] = rig_open(r, rig_to2(PEER + i, FAR_PORT, PORT));
		REQUIRE(s[i] != NULL);
		CHECK_EQ(rig_push_pattern(r, s[i], 1000), 0);
		rig_take_sent(r, frame, sizeof(frame));
		inject_error(r, 0x0304, 600 + i, frame, HEADER + 8);
		rig_advance_ms(r, 30000);
	}
	CHECK_EQ(whole_of(s[0]), MTU - HEADER - 8);
	CHECK_EQ(whole_of(s[1]), 601 - 28);
	CHECK_EQ(whole_of(s[2]), 602 - 28);
	CHECK_EQ(rig_counter_of(r, "ip", "path_forgotten"), 1);
	rig_advance_ms(r, 120000);
	CHECK_EQ(whole_of(s[1]), MTU - HEADER - 8);
	CHECK_EQ(whole_of(s[2]), 602 - 28);
}
