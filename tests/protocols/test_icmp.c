/*
 * test_icmp.c - ICMP on IP over a fake link with one network, 10.77.0.0/24, of which we are 10.77.0.1, with udp beside it;
 * a fake user stands on each. What is sent and injected are IP datagrams.
 */
#include <errno.h>

#include "protocols/ip.h"
#include "protocols/ip_header.h"
#include "tests/protocols/ip_datagrams.h"
#include "tests/random.h"

enum {
	ID = 0x1234,
	PORT = 7,
	FAR_PORT = 0x1000,
	ICMP = HEADER, /* where ICMP's header begins */
	DATA = HEADER + 8,
	DF = 0x4000,
	LONGEST = 65507,
	FRAGMENT = 1480,
};

#define GRAPH "wire:; ip: wire; ip.seed=2; %s icmp: ip; icmp.seed=3; udp: ip; udp.seed=4; user: icmp; user2: udp"

static struct rig *
icmp_rig_with(const char *settings)
{
	char graph[400];

	snprintf(graph, sizeof(graph), GRAPH, settings);
	return rig_new_prepared(graph, prepare);
}

static struct rig *
icmp_rig(void)
{
	return icmp_rig_with("");
}

static long
counter(struct rig *r, const char *name)
{
	return rig_counter_of(r, "icmp", name);
}

/* An ICMP message at p: its length. word is what follows the checksum, data what follows that. */
static size_t
message(uint8_t *p, unsigned type, unsigned code, uint32_t word, const void *data, size_t len)
{
	p[0] = (uint8_t)type;
	p[1] = (uint8_t)code;
	xk_put16(p + 2, 0);
	xk_put32(p + 4, word);
	memcpy(p + 8, data, len);
	xk_checksum_store(p + 2, xk_checksum_finish(xk_sum(0, p, 8 + len)));
	return 8 + len;
}

static void
inject_message(struct rig *r, unsigned type, unsigned code, uint32_t word, const void *data, size_t len)
{
	uint8_t payload[MTU];
	struct datagram d = usual();

	d.protocol = 1;
	d.payload = payload;
	d.len = message(payload, type, code, word, data, len);
	inject(r, &d);
}

/* Takes what was sent: an ICMP message to `to`, of this type and code (one number). Its length. */
static long
take_message(struct rig *r, uint8_t *got, size_t max, uint32_t to, unsigned kind)
{
	long len = rig_take_sent(r, got, max);

	REQUIRE(len >= DATA);
	CHECK_EQ(xk_get32(got + IP_SOURCE), ME);
	CHECK_EQ(xk_get32(got + IP_DESTINATION), to);
	CHECK_EQ(got[IP_PROTOCOL], 1);
	CHECK_EQ(xk_get16(got + ICMP), kind);
	CHECK_EQ(xk_sum_fold(xk_sum(0, got + ICMP, (size_t)len - HEADER)), 0xffff);
	return len;
}

/* ---- echoes of others ---- */

TEST(rfc792_an_echo_request_is_answered_with_its_own_bytes)
{
	struct rig *r = icmp_rig();
	uint8_t data[MTU], got[MTU];

	fill_pattern(data, 0, sizeof(data));
	for (size_t len = 0; len <= MTU - DATA; len += len < 70 ? 1 : 241) {
		inject_message(r, 8, 0, 0x12340001 + (uint32_t)len, data, len);
		CHECK_EQ(take_message(r, got, sizeof(got), PEER, 0x0000), DATA + len);
		CHECK_EQ(xk_get32(got + ICMP + 4), 0x12340001 + len);
		CHECK(memcmp(got + DATA, data, len) == 0);
	}
	CHECK_EQ(rig_drops(r), 0);
	rig_free(r);
}

TEST(rfc1071_the_answer_s_checksum_is_right_whatever_the_bytes)
{
	struct rig *r = icmp_rig();
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
	rig_free(r);
}

/* Injects an echo request with LONGEST bytes of data in fragments, the last one first if it is backwards. */
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

/* Takes the fragments of one datagram that were sent; what they hold together. */
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

TEST(rfc1122_3_2_2_6_the_longest_echo_request_is_answered)
{
	static uint8_t whole[70000];
	struct rig *r = icmp_rig();

	for (int backwards = 0; backwards < 2; backwards++) {
		inject_longest(r, backwards != 0);
		CHECK_EQ(take_fragments(r, whole), LONGEST + 8);
		CHECK_EQ(xk_get16(whole), 0);
		CHECK_EQ(xk_sum_fold(xk_sum(0, whole, LONGEST + 8)), 0xffff);
		for (size_t i = 0; i < LONGEST; i++)
			REQUIRE(whole[8 + i] == i % PATTERN_PERIOD);
	}
	CHECK_EQ(counter(r, "requests"), 2);
	rig_free(r);
}

TEST(rfc1122_3_2_2_6_an_echo_request_to_everybody_is_not_answered)
{
	struct rig *r = icmp_rig();
	uint8_t payload[MTU];
	struct datagram d = usual();

	d.protocol = 1;
	d.payload = payload;
	d.len = message(payload, 8, 0, 1, some, sizeof(some));
	d.destination = NET_BROADCAST;
	inject(r, &d);
	rig_expect_nothing_sent(r);
	CHECK_EQ(counter(r, "echo_to_all"), 1);
	rig_free(r);
}

TEST(echoes_can_be_turned_off)
{
	struct rig *r = rig_new_prepared("wire:; ip: wire; icmp: ip; icmp.echo=no; user: icmp", prepare);

	inject_message(r, 8, 0, 1, some, sizeof(some));
	rig_expect_nothing_sent(r);
	CHECK_EQ(counter(r, "echo_off"), 1);
	rig_free(r);
}

TEST(every_flipped_bit_is_noticed)
{
	struct rig *r = icmp_rig();
	uint8_t payload[MTU], frame[MTU];
	struct datagram d = usual();
	size_t len;

	d.protocol = 1;
	d.payload = payload;
	d.len = message(payload, 8, 0, 1, some, sizeof(some));
	len = build(frame, &d);
	for (size_t bit = HEADER * 8; bit < len * 8; bit++) {
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
		rig_inject_bytes(r, frame, len);
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	CHECK_EQ(counter(r, "bad_checksum"), (len - HEADER) * 8);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(short_messages_are_dropped)
{
	static const uint8_t zeros[4] = { 0 };
	struct rig *r = icmp_rig();
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
	d.len = sizeof(zeros); /* sums up to zero, which no checksum makes */
	memset(payload, 0, sizeof(payload));
	inject(r, &d);
	CHECK_EQ(counter(r, "bad_checksum"), 1);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(types_that_are_not_known_are_named)
{
	struct rig *r = icmp_rig();

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
	rig_free(r);
}

TEST(rfc6633_source_quench_and_redirects_are_ignored)
{
	struct rig *r = icmp_rig();

	inject_message(r, 4, 0, 0, some, sizeof(some));
	inject_message(r, 5, 1, GATEWAY, some, sizeof(some));
	CHECK_EQ(counter(r, "ignored"), 2);
	rig_free(r);
}

/* ---- our own ---- */

/* The session that pings PEER with ID. */
static struct xk_session *
open_echo(struct rig *r)
{
	rig_user(r, "user");
	return rig_open(r, (struct xk_participants){ .remote = { 1, { PEER } }, .local = { 1, { ID } } });
}

TEST(rfc792_an_echo_request_is_sent_and_its_reply_delivered)
{
	struct rig *r = icmp_rig();
	struct xk_session *s = open_echo(r);
	uint8_t got[MTU];

	REQUIRE(s != NULL);
	CHECK_EQ(rig_push(r, s, "0007 aabbcc"), 0);
	CHECK_EQ(take_message(r, got, sizeof(got), PEER, 0x0800), DATA + 3);
	CHECK_EQ(xk_get32(got + ICMP + 4), ID << 16 | 7);
	inject_message(r, 0, 0, ID << 16 | 7, "\xaa\xbb\xcc", 3);
	rig_expect_delivered(r, "0007 aabbcc");
	CHECK(rig_delivered_on(r) == s);
	CHECK_EQ(counter(r, "replies"), 1);
	inject_message(r, 0, 0, (ID + 1) << 16 | 7, "\xaa\xbb\xcc", 3);
	CHECK_EQ(counter(r, "no_session"), 1);
	rig_free(r);
}

TEST(sessions_have_an_identifier_each)
{
	struct rig *r = icmp_rig();
	struct xk_participants p = { .remote.depth = 0 };
	struct xk_session *s = open_echo(r);
	uint32_t max = 0;

	CHECK(open_echo(r) == NULL);
	CHECK_EQ(rig_error(r), -EADDRINUSE);
	CHECK(rig_open(r, rig_to(PEER)) != NULL); /* chosen */
	CHECK(rig_open(r, rig_to(PEER)) != NULL);
	CHECK(rig_open(r, (struct xk_participants){ .remote = { 1, { PEER } }, .local = { 1, { 65536 } } }) == NULL);
	CHECK_EQ(rig_error(r), -EINVAL);
	CHECK(rig_open(r, rig_to(FAR)) == NULL);
	CHECK_EQ(rig_error(r), -ENETUNREACH);
	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &max, sizeof(max)), sizeof(max));
	CHECK_EQ(max, LONGEST + 2);
	CHECK_EQ(xk_get_participants(s, &p), 0);
	CHECK_EQ(xk_participant_pop(&p.local), ID);
	CHECK_EQ(xk_participant_pop(&p.remote), PEER);
	rig_free(r);
}

TEST(what_cannot_be_an_echo_request_is_not_sent)
{
	struct rig *r = icmp_rig();
	struct xk_session *s = open_echo(r);

	CHECK_EQ(rig_push(r, s, "07"), -EINVAL);
	CHECK_EQ(counter(r, "bad_message"), 1);
	CHECK_EQ(rig_push_pattern(r, s, LONGEST + 3), -EMSGSIZE);
	CHECK_EQ(counter(r, "too_big"), 1);
	rig_limit_buffers(r, 1);
	rig_push(r, s, "0001");
	rig_limit_buffers(r, UINT32_MAX);
	rig_forget(r);
	rig_free(r);
}

TEST(only_one_icmp_stands_on_an_ip)
{
	struct rig *r = icmp_rig();
	struct {
		struct xk_protocol *protocol;
		void *send;
	} another = { rig_protocol(r, "udp"), NULL };

	CHECK_EQ(xk_control_protocol(rig_protocol(r, "ip"), XK_IP_SET_ERRORS, &another, sizeof(another)), -EADDRINUSE);
	CHECK_EQ(xk_control_protocol(rig_protocol(r, "ip"), XK_IP_SET_ERRORS, &another, 1), -EMSGSIZE);
	rig_free(r);
}

/* ---- errors sent ---- */

/* d, injected, is told to its sender with this type and code. */
static void
expect_told(struct rig *r, const struct datagram *d, unsigned kind)
{
	uint8_t want[MTU], got[MTU];
	size_t len = build(want, d);
	long got_len;

	inject(r, d);
	got_len = take_message(r, got, sizeof(got), d->source, kind);
	CHECK_EQ(got_len, DATA + (len < 548 ? len : 548)); /* 576 in all */
	CHECK(memcmp(got + DATA, want, (size_t)got_len - DATA) == 0);
	CHECK_EQ(xk_get32(got + ICMP + 4), 0);
	rig_expect_nothing_sent(r);
}

TEST(rfc1122_3_2_2_1_an_unknown_protocol_is_told)
{
	struct rig *r = icmp_rig();
	struct datagram d = usual();

	d.protocol = 99;
	expect_told(r, &d, 0x0302);
	CHECK_EQ(counter(r, "sent_protocol"), 1);
	CHECK_EQ(rig_counter_of(r, "ip", "no_session"), 1);
	rig_free(r);
}

/* A datagram to this port at `bytes`. */
static struct datagram
to_port(uint8_t *bytes, uint16_t port, size_t len)
{
	struct datagram d = usual();

	fill_pattern(bytes, 0, len + 8);
	xk_put16(bytes, FAR_PORT);
	xk_put16(bytes + 2, port);
	xk_put16(bytes + 4, (uint16_t)(len + 8));
	xk_put16(bytes + 6, 0);
	d.payload = bytes;
	d.len = len + 8;
	return d;
}

TEST(rfc1122_4_1_3_1_a_port_where_nobody_listens_is_told)
{
	struct rig *r = icmp_rig();
	uint8_t payload[MTU];

	for (size_t len = 0; len < 1400; len += 100) {
		struct datagram d = to_port(payload, PORT, len);

		expect_told(r, &d, 0x0303);
		rig_advance_ms(r, 1000); /* what may be sent at once is limited */
	}
	CHECK_EQ(counter(r, "sent_port"), 14);
	rig_free(r);
}

TEST(rfc1122_3_2_2_1_the_header_is_quoted_wherever_segments_begin)
{
	struct rig *r = icmp_rig();
	uint8_t payload[MTU], frame[MTU], got[MTU];
	struct datagram d = to_port(payload, PORT, 4);
	size_t len = build(frame, &d);
	unsigned quoted = 0;

	for (size_t first = 1; first < len; first++) {
		char text[200] = "";

		for (size_t i = 0; i < len; i++)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%02x", i == first ? "|" : "",
				 frame[i]);
		rig_inject(r, text);
		CHECK_EQ(take_message(r, got, sizeof(got), PEER, 0x0303), DATA + len);
		CHECK(memcmp(got + DATA, frame, len) == 0);
		quoted++;
	}
	CHECK_EQ(quoted, len - 1);
	CHECK_EQ(rig_counter_of(r, "ip", "unquoted"), 0);
	rig_free(r);
}

TEST(a_datagram_whose_header_is_gone_is_not_quoted)
{
	struct rig *r = icmp_rig();
	uint8_t payload[MTU], other[80] = { 0 }; /* half of it in front of the message, where a header was */
	struct xk_msg *m = xk_msg_from(rig_platform(r), other, sizeof(other));
	struct xk_ip_refusal refusal = { .fault = XK_FAULT_PORT, .popped = 8 };
	struct datagram d = to_port(payload, PORT, 4);
	struct xk_session *s;

	xk_msg_pop(&m, sizeof(other) / 2);
	refusal.m = m;
	rig_user(r, "user2");
	CHECK_EQ(rig_open_enable(r, (struct xk_participants){ .local = { 1, { PORT } } }), 0);
	rig_keep(r, true);
	inject(r, &d);
	s = rig_delivered_on(r);
	rig_forget(r);
	s = rig_announced(r);
	REQUIRE(s != NULL);
	CHECK_EQ(xk_control(s->lls, XK_IP_REFUSE, &refusal, 1), -EMSGSIZE);
	CHECK_EQ(xk_control(s->lls, XK_IP_REFUSE, &refusal, sizeof(refusal)), 0);
	CHECK_EQ(rig_counter_of(r, "ip", "unquoted"), 1);
	rig_expect_nothing_sent(r);
	xk_msg_free(m);
	rig_free(r);
}

TEST(rfc1122_3_2_2_nothing_is_told_of_what_is_not_intact)
{
	struct rig *r = icmp_rig();
	uint8_t payload[MTU];
	struct datagram d = to_port(payload, PORT, 4);

	xk_put16(payload + 6, 1); /* a checksum, and wrong */
	inject(r, &d);
	CHECK_EQ(rig_counter_of(r, "udp", "bad_checksum"), 1);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(rfc1122_3_2_2_nothing_is_told_of_a_broadcast)
{
	struct rig *r = icmp_rig();
	uint8_t payload[MTU];
	struct datagram d = to_port(payload, PORT, 4);

	d.destination = NET_BROADCAST;
	inject(r, &d);
	d.destination = UINT32_MAX;
	d.protocol = 99;
	inject(r, &d);
	CHECK_EQ(counter(r, "about_all"), 2);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(rfc1122_3_2_2_nothing_is_told_of_a_later_fragment)
{
	struct rig *r = icmp_rig();
	struct datagram d = usual();
	static const uint8_t payload[16];

	d.payload = payload;
	d.len = sizeof(payload);
	d.protocol = 99;
	d.fragment = 2;
	inject(r, &d);
	CHECK_EQ(counter(r, "about_part"), 1);
	rig_expect_nothing_sent(r);
	d.fragment = MORE;
	expect_told(r, &d, 0x0302);
	rig_free(r);
}

TEST(rfc1122_3_2_2_nothing_is_told_to_what_is_no_single_host)
{
	static const uint32_t none[] = { 0,          0x7f000001,    0xe0000001, 0xf0000001,
					 UINT32_MAX, NET_BROADCAST, 0x0a4d0000, ME };
	struct rig *r = icmp_rig();
	struct datagram d = usual();

	d.protocol = 99;
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(none); i++) {
		d.source = none[i];
		inject(r, &d);
	}
	rig_expect_nothing_sent(r);
	CHECK_EQ(counter(r, "sent_protocol"), 0);
	rig_free(r);
}

TEST(rfc1122_3_3_2_a_datagram_that_never_becomes_whole_is_told_if_its_beginning_came)
{
	struct rig *r = icmp_rig_with("ip.reassembly_timeout=16s;");
	struct datagram d = usual();
	uint8_t payload[16], want[MTU], got[MTU];
	size_t len;

	fill_pattern(payload, 0, sizeof(payload));
	CHECK_EQ(rig_open_enable(r, anybody()), -EOPNOTSUPP);
	d.payload = payload;
	d.len = sizeof(payload);
	d.fragment = MORE | 4;
	inject(r, &d);
	d.fragment = MORE;
	inject(r, &d);
	len = build(want, &d);
	d.id++;
	d.fragment = MORE | 2;
	inject(r, &d);
	rig_advance_ms(r, 20000);
	CHECK_EQ(take_message(r, got, sizeof(got), PEER, 0x0b01), DATA + len);
	CHECK(memcmp(got + DATA, want, len) == 0);
	rig_expect_nothing_sent(r);
	CHECK_EQ(counter(r, "sent_reassembly"), 1);
	CHECK_EQ(counter(r, "about_part"), 2);
	rig_free(r);
}

TEST(rfc1812_4_3_2_8_errors_are_limited_by_their_rate)
{
	struct rig *r =
		rig_new_prepared("wire:; ip: wire; icmp: ip; icmp.rate=8kb/s; icmp.burst=576; user: icmp", prepare);
	struct datagram d = usual();
	const unsigned error = DATA + HEADER + sizeof(some), at_once = 576 / error;

	d.protocol = 99;
	for (unsigned i = 0; i < 100; i++)
		inject(r, &d);
	CHECK_EQ(counter(r, "sent_protocol"), at_once);
	CHECK_EQ(counter(r, "limited"), 100 - at_once);
	rig_forget(r);
	rig_advance_ms(r, error); /* 1000 bytes a second */
	inject(r, &d);
	inject(r, &d);
	CHECK_EQ(rig_sent(r), 1);
	rig_forget(r);
	rig_advance_ms(r, 100000);
	for (unsigned i = 0; i < 100; i++)
		inject(r, &d);
	CHECK_EQ(rig_sent(r), at_once);
	rig_forget(r);
	rig_free(r);
}

TEST(a_rate_of_nothing_sends_no_errors)
{
	struct rig *r = rig_new_prepared("wire:; ip: wire; icmp: ip; icmp.rate=0; user: icmp", prepare);
	struct datagram d = usual();

	d.protocol = 99;
	inject(r, &d);
	CHECK_EQ(counter(r, "limited"), 1);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(errors_that_cannot_be_sent_are_counted)
{
	struct rig *r = icmp_rig();
	struct datagram d = usual();

	d.protocol = 99;
	d.source = FAR; /* we have no route */
	inject(r, &d);
	CHECK_EQ(counter(r, "unsent"), 1);
	d.source = PEER;
	rig_limit_buffers(r, 1); /* what is injected */
	inject(r, &d);
	rig_limit_buffers(r, UINT32_MAX);
	CHECK_EQ(counter(r, "unsent"), 2);
	rig_fail_sending(r, -ENOBUFS);
	inject(r, &d);
	rig_fail_sending(r, 0);
	CHECK_EQ(counter(r, "unsent"), 3);
	CHECK_EQ(counter(r, "sent_protocol"), 0);
	rig_free(r);
}

/* ---- errors got ---- */

/* A session of udp to the peer's port, and a datagram that was sent on it: the frame. */
static struct xk_session *
send_datagram(struct rig *r, uint8_t *frame, size_t len)
{
	struct xk_session *s;

	rig_user(r, "user2");
	s = rig_open(r, rig_to2(PEER, FAR_PORT, PORT));
	REQUIRE(s != NULL);
	CHECK_EQ(rig_push_pattern(r, s, len), 0);
	CHECK_EQ(rig_take_sent(r, frame, MTU), HEADER + 8 + len);
	return s;
}

static void
inject_error(struct rig *r, unsigned kind, uint32_t word, const uint8_t *quote, size_t len)
{
	inject_message(r, kind >> 8, kind & 0xff, word, quote, len);
}

TEST(rfc1122_3_2_2_1_errors_about_our_datagrams_are_taken_and_counted)
{
	static const struct {
		unsigned kind;
		const char *name;
	} known[] = {
		{ 0x0300, "got_network" }, { 0x0301, "got_host" },       { 0x0302, "got_protocol" },
		{ 0x0303, "got_port" },    { 0x0306, "got_network" },    { 0x030d, "got_host" },
		{ 0x0b00, "got_hops" },    { 0x0b01, "got_reassembly" }, { 0x0c00, "got_header" },
	};
	struct rig *r = icmp_rig();
	uint8_t frame[MTU];

	send_datagram(r, frame, 10);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(known); i++) {
		long before = counter(r, known[i].name);

		inject_error(r, known[i].kind, 0, frame, HEADER + 8);
		CHECK_EQ(counter(r, known[i].name), before + 1);
	}
	CHECK_EQ(rig_drops(r), 0);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

static void
expect_bogus(struct rig *r, unsigned kind, uint32_t word, const uint8_t *quote, size_t len)
{
	long before = counter(r, "bad_quote");

	inject_error(r, kind, word, quote, len);
	CHECK_EQ(counter(r, "bad_quote"), before + 1);
}

TEST(rfc5927_quotes_of_what_we_cannot_have_sent_are_refused)
{
	static const struct {
		unsigned at;
		uint8_t mask;
	} lies[] = {
		{ IP_VERSION, 0x10 },    { IP_VERSION, 0x02 },     { IP_PROTOCOL, 0x01 },
		{ IP_SOURCE + 3, 0x02 }, { IP_DESTINATION, 0x01 }, { IP_DESTINATION + 3, 0x04 },
		{ IP_FRAGMENT, 0x01 },   { HEADER + 1, 0x01 },     { HEADER + 3, 0x01 },
		{ HEADER, 0x80 },        { HEADER + 2, 0x80 },     { IP_LENGTH, 0 },
	};
	struct rig *r = icmp_rig();
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
	rig_free(r);
}

TEST(errors_about_our_echoes_are_taken)
{
	struct rig *r = icmp_rig();
	struct xk_session *s = open_echo(r);
	uint8_t frame[MTU];
	long len;

	rig_push(r, s, "0007 aabbcc");
	len = rig_take_sent(r, frame, sizeof(frame));
	inject_error(r, 0x0301, 0, frame, (size_t)len);
	CHECK_EQ(counter(r, "got_host"), 1);
	frame[ICMP + 4] ^= 1; /* another identifier */
	expect_bogus(r, 0x0301, 0, frame, (size_t)len);
	frame[ICMP + 4] ^= 1;
	frame[ICMP] = 13; /* we ask for no time */
	expect_bogus(r, 0x0301, 0, frame, (size_t)len);
	frame[ICMP] = 0; /* but we may have answered */
	inject_error(r, 0x0301, 0, frame, (size_t)len);
	CHECK_EQ(counter(r, "got_host"), 2);
	rig_free(r);
}

TEST(random_messages_leave_nothing_behind)
{
	struct rig *r = icmp_rig_with("ip.pmtu=yes;");
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
	rig_free(r);
}

/* ---- what paths take ---- */

static uint32_t
whole_of(struct xk_session *s)
{
	uint32_t whole = 0;

	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &whole, sizeof(whole)), sizeof(whole));
	return whole;
}

TEST(rfc1191_3_whole_datagrams_say_that_they_must_not_be_fragmented)
{
	struct rig *r = icmp_rig_with("ip.pmtu=yes;");
	uint8_t frame[MTU];
	struct xk_session *s = send_datagram(r, frame, 10);

	CHECK_EQ(xk_get16(frame + IP_FRAGMENT), DF);
	CHECK_EQ(xk_sum_fold(xk_sum(0, frame, HEADER)), 0xffff);
	CHECK_EQ(rig_push_pattern(r, s, 2000), 0); /* what must be fragmented here, may be on its way */
	rig_take_sent(r, frame, sizeof(frame));
	CHECK_EQ(xk_get16(frame + IP_FRAGMENT), MORE);
	rig_forget(r);
	rig_free(r);
}

TEST(rfc1191_3_fragmentation_needed_lowers_what_is_sent_in_one_piece)
{
	struct rig *r = icmp_rig_with("ip.pmtu=yes;");
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
	rig_free(r);
}

TEST(rfc1191_3_every_session_to_that_host_is_told_and_no_other)
{
	struct rig *r = icmp_rig_with("ip.pmtu=yes;");
	uint8_t frame[MTU];
	struct xk_session *s = send_datagram(r, frame, 1000), *other, *echo;

	other = rig_open(r, rig_to2(OTHER, FAR_PORT, PORT));
	echo = open_echo(r);
	inject_error(r, 0x0304, 600, frame, HEADER + 8);
	CHECK_EQ(whole_of(s), 572);
	CHECK_EQ(whole_of(other), MTU - HEADER - 8);
	CHECK_EQ(whole_of(echo), 580);
	rig_close(r, echo);
	echo = open_echo(r); /* made later */
	CHECK_EQ(whole_of(echo), 580);
	rig_free(r);
}

TEST(rfc1191_6_3_what_was_learned_is_forgotten_after_ten_minutes)
{
	struct rig *r = icmp_rig_with("ip.pmtu=yes;");
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
	rig_free(r);
}

TEST(rfc1191_5_without_an_mtu_the_next_plateau_is_tried)
{
	struct rig *r = icmp_rig_with("ip.pmtu=yes;");
	uint8_t frame[MTU];
	struct xk_session *s = send_datagram(r, frame, 1472);

	inject_error(r, 0x0304, 0, frame, HEADER + 8);
	CHECK_EQ(whole_of(s), 1492 - 28);
	CHECK_EQ(rig_push_pattern(r, s, 1464), 0);
	rig_take_sent(r, frame, sizeof(frame));
	inject_error(r, 0x0304, 0, frame, HEADER + 8);
	CHECK_EQ(whole_of(s), 1006 - 28);
	rig_free(r);
}

TEST(rfc1191_3_never_below_68)
{
	struct rig *r = icmp_rig_with("ip.pmtu=yes;");
	uint8_t frame[MTU];
	struct xk_session *s = send_datagram(r, frame, 1000);

	inject_error(r, 0x0304, 20, frame, HEADER + 8);
	CHECK_EQ(whole_of(s), 68 - 28);
	rig_free(r);
	r = icmp_rig_with("ip.pmtu=yes; ip.pmtu_min=552;");
	s = send_datagram(r, frame, 1000);
	inject_error(r, 0x0304, 100, frame, HEADER + 8);
	CHECK_EQ(whole_of(s), 552 - 28);
	rig_free(r);
}

TEST(rfc5927_7_an_mtu_that_cannot_be_true_is_refused)
{
	struct rig *r = icmp_rig_with("ip.pmtu=yes;");
	uint8_t frame[MTU], lie[MTU];
	struct xk_session *s = send_datagram(r, frame, 1000);

	expect_bogus(r, 0x0304, 1028, frame, HEADER + 8); /* it would have fitted */
	expect_bogus(r, 0x0304, 9000, frame, HEADER + 8);
	memcpy(lie, frame, sizeof(lie));
	xk_put16(lie + IP_LENGTH, 1501); /* longer than what our link takes */
	expect_bogus(r, 0x0304, 600, lie, HEADER + 8);
	memcpy(lie, frame, sizeof(lie));
	xk_put16(lie + IP_FRAGMENT, 0); /* the router could have fragmented it */
	expect_bogus(r, 0x0304, 600, lie, HEADER + 8);
	xk_put16(lie + IP_FRAGMENT, DF | MORE); /* no whole datagram */
	expect_bogus(r, 0x0304, 600, lie, HEADER + 8);
	memcpy(lie, frame, sizeof(lie));
	for (unsigned id = 0; id < 65536; id += 97) { /* a guess, of which one in 16 is right */
		xk_put16(lie + IP_ID, (uint16_t)(xk_get16(frame + IP_ID) + 1 + id % 30000));
		if (id % 30000 % 2 == 0 || id % 30000 > 2)
			expect_bogus(r, 0x0304, 600, lie, HEADER + 8);
	}
	CHECK_EQ(whole_of(s), MTU - HEADER - 8);
	CHECK_EQ(rig_counter_of(r, "ip", "path_lowered"), 0);
	rig_free(r);
}

TEST(without_pmtu_nobody_lowers_anything)
{
	struct rig *r = icmp_rig();
	uint8_t frame[MTU];
	struct xk_session *s = send_datagram(r, frame, 1000);

	CHECK_EQ(xk_get16(frame + IP_FRAGMENT), 0);
	expect_bogus(r, 0x0304, 600, frame, HEADER + 8);
	xk_put16(frame + IP_FRAGMENT, DF);
	expect_bogus(r, 0x0304, 600, frame, HEADER + 8);
	CHECK_EQ(whole_of(s), MTU - HEADER - 8);
	rig_free(r);
}

TEST(paths_are_bounded_and_the_oldest_makes_room)
{
	struct rig *r = icmp_rig_with("ip.pmtu=yes; ip.pmtu_entries=2; ip.pmtu_timeout=160s;");
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
	rig_free(r);
}
