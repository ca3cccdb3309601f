/* test_icmp.c - ICMP over IP: echo requests from others and our own, and malformed messages (icmp_rig.h). */
#include "protocols/ip/ip.h"
#include "tests/protocols/icmp_rig.h"
#include "tests/random.h"

/* ---- echo requests from others ---- */

RIG_TEST(rfc792_echo_request_is_answered_with_its_own_bytes, icmp_rig())
{
	uint8_t data[MTU], got[MTU];

	fill_pattern(data, 0, sizeof(data));
	for (size_t len = 0; len <= MTU - DATA; len += len < 70 ? 1 : 241) {
		inject_message(r, 8, 0, 0x12340001 + (uint32_t)len, data, len);
		CHECK_EQ(take_message(r, got, sizeof(got), PEER, 0x0000), DATA + len);
		CHECK_EQ(xk_get32(got + ICMP + 4), 0x12340001 + len);
		CHECK(memcmp(got + DATA, data, len) == 0);
	}
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(rfc1071_answers_checksum_is_right_for_any_bytes, icmp_rig())
{
	uint8_t data[40], got[MTU];
	uint64_t state = 5;

	for (unsigned i = 0; i < 3000; i++) {
		size_t len = next_random(&state) % sizeof(data);
		uint64_t fill = i % 3 == 0 ? 0 : i % 3 == 1 ? UINT64_MAX : next_random(&state);

		for (size_t at = 0; at < len; at++)
			data[at] = (uint8_t)(fill >> at % 8 * 8);
		inject_message(r, 8, 0, (uint32_t)fill, data, len);
		CHECK_EQ(take_message(r, got, sizeof(got), PEER, 0x0000), DATA + len);
	}
}

/* Injects an echo request with LONGEST bytes of data in fragments, the last one first if `backwards`. */
static void
inject_longest(struct rig *r, bool backwards)
{
	static uint8_t data[LONGEST], payload[LONGEST + 8];
	struct datagram d = usual();
	size_t len, pieces;

	fill_pattern(data, 0, LONGEST);
	len = message(payload, 8, 0, 0x12340001, data, LONGEST);
	pieces = (len + FRAGMENT - 1) / FRAGMENT;
	d.protocol = 1;
	for (size_t i = 0; i < pieces; i++) {
		size_t at = (backwards ? pieces - 1 - i : i) * FRAGMENT;

		d.payload = payload + at;
		d.len = len - at < FRAGMENT ? len - at : FRAGMENT;
		d.fragment = (uint16_t)(at / 8 | (at + FRAGMENT < len ? MORE : 0));
		inject(r, &d);
	}
}

/* Takes the fragments sent of one datagram and copies them into `whole`. Returns its length. */
static size_t
take_fragments(struct rig *r, uint8_t *whole)
{
	uint8_t got[MTU];
	size_t at = 0;
	long len;

	while ((len = rig_take_sent(r, got, sizeof(got))) > 0) {
		CHECK_EQ((xk_get16(got + IP_FRAGMENT) & IP_OFFSET) * 8, at);
		memcpy(whole + at, got + HEADER, (size_t)len - HEADER);
		at += (size_t)len - HEADER;
	}
	return at;
}

RIG_TEST(rfc1122_3_2_2_6_longest_echo_request_is_answered, icmp_rig())
{
	static uint8_t whole[70000];

	for (int backwards = 0; backwards < 2; backwards++) {
		inject_longest(r, backwards != 0);
		CHECK_EQ(take_fragments(r, whole), LONGEST + 8);
		CHECK_EQ(xk_get16(whole), 0);
		CHECK_EQ(xk_sum_fold(xk_sum(0, whole, LONGEST + 8)), 0xffff);
		for (size_t i = 0; i < LONGEST; i++)
			REQUIRE(whole[8 + i] == i % PATTERN_PERIOD);
	}
	CHECK_EQ(counter(r, "requests"), 2);
}

RIG_TEST(rfc1122_3_2_2_6_broadcast_echo_request_is_not_answered, icmp_rig())
{
	uint8_t payload[MTU];
	struct datagram d = carrying(payload, 8, 0, 1, some, sizeof(some));

	d.destination = NET_BROADCAST;
	inject(r, &d);
	rig_expect_nothing_sent(r);
	CHECK_EQ(counter(r, "echo_to_all"), 1);
}

RIG_TEST(echoes_can_be_turned_off, rig_new_prepared("wire:; ip: wire; icmp: ip; icmp.echo=no; user: icmp", prepare))
{
	inject_message(r, 8, 0, 1, some, sizeof(some));
	rig_expect_nothing_sent(r);
	CHECK_EQ(counter(r, "echo_off"), 1);
}

RIG_TEST(every_flipped_bit_is_detected, icmp_rig())
{
	uint8_t payload[MTU], frame[MTU];
	struct datagram d = carrying(payload, 8, 0, 1, some, sizeof(some));
	size_t len = build(frame, &d);

	for (size_t bit = HEADER * 8; bit < len * 8; bit++) {
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
		rig_inject_bytes(r, frame, len);
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	CHECK_EQ(counter(r, "bad_checksum"), (len - HEADER) * 8);
	rig_expect_nothing_sent(r);
}

RIG_TEST(short_messages_are_dropped, icmp_rig())
{
	static const uint8_t zeros[4] = { 0 };
	struct datagram d = usual();
	uint8_t payload[MTU];

	d.protocol = 1;
	d.payload = payload;
	for (d.len = 0; d.len < 8; d.len++) {
		memset(payload, 0, sizeof(payload));
		payload[0] = 8;
		xk_put16(payload + 2, 0xf7ff);
		inject(r, &d);
	}
	CHECK_EQ(counter(r, "short"), 8);
	d.len = sizeof(zeros); /* sums up to zero, which no valid checksum does */
	memset(payload, 0, sizeof(payload));
	inject(r, &d);
	CHECK_EQ(counter(r, "bad_checksum"), 1);
	rig_expect_nothing_sent(r);
}

RIG_TEST(unknown_types_are_counted_by_name, icmp_rig())
{
	for (unsigned type = 13; type <= 18; type++)
		inject_message(r, type, 0, 0, some, sizeof(some));
	CHECK_EQ(counter(r, "unsupported"), 6);
	inject_message(r, 1, 0, 0, some, sizeof(some));
	inject_message(r, 255, 0, 0, some, sizeof(some));
	inject_message(r, 8, 1, 0, some, sizeof(some));
	inject_message(r, 3, 16, 0, some, sizeof(some));
	inject_message(r, 11, 2, 0, some, sizeof(some));
	inject_message(r, 12, 3, 0, some, sizeof(some));
	CHECK_EQ(counter(r, "unknown"), 6);
	rig_expect_nothing_sent(r);
}

RIG_TEST(rfc6633_source_quench_and_redirects_are_ignored, icmp_rig())
{
	inject_message(r, 4, 0, 0, some, sizeof(some));
	inject_message(r, 5, 1, GATEWAY, some, sizeof(some));
	CHECK_EQ(counter(r, "ignored"), 2);
}

/* ---- our own echo requests ---- */

RIG_SESSION_TEST(rfc792_echo_request_is_sent_and_its_reply_delivered, icmp_rig(), open_echo(r))
{
	uint8_t got[MTU];

	REQUIRE(s != NULL);
	CHECK_EQ(rig_push(r, s, "0007 aabbcc"), 0);
	CHECK_EQ(take_message(r, got, sizeof(got), PEER, 0x0800), DATA + 3);
	CHECK_EQ(xk_get32(got + ICMP + 4), ID << 16 | 7);
	inject_message(r, 0, 0, ID << 16 | 7, "\xaa\xbb\xcc", 3);
	rig_expect_delivered(r, "0007 aabbcc");
	CHECK(rig_delivered_session(r) == s);
	CHECK_EQ(counter(r, "replies"), 1);
	inject_message(r, 0, 0, (ID + 1) << 16 | 7, "\xaa\xbb\xcc", 3);
	CHECK_EQ(counter(r, "no_session"), 1);
}

RIG_SESSION_TEST(each_session_has_an_identifier, icmp_rig(), open_echo(r))
{
	struct xk_participants p = { .remote.depth = 0 };
	uint32_t max = 0;

	CHECK(open_echo(r) == NULL);
	CHECK_EQ(rig_error(r), -EADDRINUSE);
	CHECK(rig_open(r, rig_to(PEER)) != NULL); /* chosen by ICMP */
	CHECK(rig_open(r, rig_to(PEER)) != NULL);
	CHECK(rig_open(r, (struct xk_participants){ .remote = { 1, { PEER } }, .local = { 1, { 65536 } } }) == NULL);
	CHECK_EQ(rig_error(r), -EINVAL);
	rig_expect_open_fails(r, rig_to(FAR), -ENETUNREACH);
	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &max), 0);
	CHECK_EQ(max, LONGEST + 2);
	CHECK_EQ(xk_get_participants(s, &p), 0);
	CHECK_EQ(xk_participant_pop(&p.local), ID);
	CHECK_EQ(xk_participant_pop(&p.remote), PEER);
}

RIG_SESSION_TEST(impossible_echo_requests_are_not_sent, icmp_rig(), open_echo(r))
{
	CHECK_EQ(rig_push(r, s, "07"), -EINVAL);
	CHECK_EQ(counter(r, "bad_message"), 1);
	CHECK_EQ(rig_push_pattern(r, s, LONGEST + 3), -EMSGSIZE);
	CHECK_EQ(counter(r, "too_big"), 1);
	rig_limit_buffers(r, 1);
	rig_push(r, s, "0001");
	rig_limit_buffers(r, UINT32_MAX);
	rig_forget(r);
}

RIG_SESSION_TEST(icmp_reports_lengths_without_its_header, icmp_rig(), open_echo(r))
{
	uint32_t of_session, of_protocol;

	for (int op = XK_GET_MAX_PACKET; op <= XK_GET_OPT_PACKET; op++) {
		CHECK_EQ(xk_control_op(s, op, &of_session), 0);
		CHECK_EQ(xk_control_protocol_op(rig_protocol(r, "icmp"), op, &of_protocol), 0);
		CHECK_EQ(of_protocol, (op == XK_GET_MAX_PACKET ? 65515 : 1480) - 6);
		CHECK_EQ(of_session, of_protocol);
	}
}

RIG_TEST(ip_accepts_only_one_icmp, icmp_rig())
{
	struct xk_ip_errors another = { rig_protocol(r, "udp"), NULL };

	CHECK_EQ(xk_ip_ops()->set_errors(rig_protocol(r, "ip"), &another), -EADDRINUSE);
}
