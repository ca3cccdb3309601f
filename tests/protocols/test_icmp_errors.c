/*
 * test_icmp_errors.c - ICMP over IP: the errors it sends, their destinations, quotes and rate (icmp_rig.h).
 */
#include "protocols/ip/ip.h"
#include "tests/protocols/icmp_rig.h"

/* Injects d and checks that its sender is sent an error of this type and code. */
static void
expect_notified(struct rig *r, const struct datagram *d, unsigned kind)
{
	uint8_t want[MTU], got[MTU];
	size_t len = build(want, d);
	long got_len;

	inject(r, d);
	got_len = take_message(r, got, sizeof(got), d->source, kind);
	CHECK_EQ(got_len, DATA + (len < 548 ? len : 548)); /* 576 in total */
	CHECK(memcmp(got + DATA, want, (size_t)got_len - DATA) == 0);
	CHECK_EQ(xk_get32(got + ICMP + 4), 0);
	rig_expect_nothing_sent(r);
}

/* Returns a datagram of an unknown protocol. */
static struct datagram
to_nobody(void)
{
	struct datagram d = usual();

	d.protocol = 99;
	return d;
}

RIG_TEST(rfc1122_3_2_2_1_unknown_protocol_is_reported, icmp_rig())
{
	struct datagram d = to_nobody();

	expect_notified(r, &d, 0x0302);
	CHECK_EQ(counter(r, "sent_protocol"), 1);
	CHECK_EQ(rig_counter_of(r, "ip", "no_session"), 1);
}

/* Returns a datagram to this port, stored at `bytes`. */
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

RIG_TEST(rfc1122_4_1_3_1_unused_port_is_reported, icmp_rig())
{
	uint8_t payload[MTU];

	for (size_t len = 0; len < 1400; len += 100) {
		struct datagram d = to_port(payload, PORT, len);

		expect_notified(r, &d, 0x0303);
		rig_advance_ms(r, 1000); /* the burst is limited */
	}
	CHECK_EQ(counter(r, "sent_port"), 14);
}

RIG_TEST(rfc1122_3_2_2_1_header_is_quoted_from_any_segments, icmp_rig())
{
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
}

RIG_TEST(datagram_without_its_header_is_not_quoted, icmp_rig())
{
	uint8_t payload[MTU], other[80] = { 0 }; /* in a header's former room in front of the message */
	struct xk_msg *m = xk_msg_from(rig_platform(r), other, sizeof(other));
	struct datagram d = to_port(payload, PORT, 4);
	struct xk_session *s;

	xk_msg_pop(&m, sizeof(other) / 2);
	rig_user(r, "user2");
	CHECK_EQ(rig_open_enable(r, at_port(PORT)), 0);
	rig_keep_sessions(r, true);
	inject(r, &d);
	s = rig_delivered_session(r);
	rig_forget(r);
	s = rig_announced_session(r);
	REQUIRE(s != NULL);
	xk_ip_refuse(s->lls, XK_FAULT_PORT, m, 8);
	CHECK_EQ(rig_counter_of(r, "ip", "unquoted"), 1);
	rig_expect_nothing_sent(r);
	xk_msg_free(m);
}

RIG_TEST(rfc1122_3_2_2_damaged_datagrams_draw_no_error, icmp_rig())
{
	uint8_t payload[MTU];
	struct datagram d = to_port(payload, PORT, 4);

	xk_put16(payload + 6, 1); /* a checksum, but a wrong one */
	inject(r, &d);
	CHECK_EQ(rig_counter_of(r, "udp", "bad_checksum"), 1);
	rig_expect_nothing_sent(r);
}

RIG_TEST(rfc1122_3_2_2_broadcasts_draw_no_error, icmp_rig())
{
	uint8_t payload[MTU];
	struct datagram d = to_port(payload, PORT, 4);

	d.destination = NET_BROADCAST;
	inject(r, &d);
	d.destination = UINT32_MAX;
	d.protocol = 99;
	inject(r, &d);
	CHECK_EQ(counter(r, "about_all"), 2);
	rig_expect_nothing_sent(r);
}

RIG_TEST(rfc1122_3_2_2_later_fragments_draw_no_error, icmp_rig())
{
	struct datagram d = to_nobody();
	static const uint8_t payload[16];

	d.payload = payload;
	d.len = sizeof(payload);
	d.fragment = 2;
	inject(r, &d);
	CHECK_EQ(counter(r, "about_part"), 1);
	rig_expect_nothing_sent(r);
	d.fragment = MORE;
	expect_notified(r, &d, 0x0302);
}

RIG_TEST(rfc1122_3_2_2_errors_go_only_to_single_hosts, icmp_rig())
{
	static const uint32_t none[] = { 0,          0x7f000001,    0xe0000001, 0xf0000001,
					 UINT32_MAX, NET_BROADCAST, 0x0a4d0000, ME };
	struct datagram d = to_nobody();

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(none); i++) {
		d.source = none[i];
		inject(r, &d);
	}
	rig_expect_nothing_sent(r);
	CHECK_EQ(counter(r, "sent_protocol"), 0);
}

RIG_TEST(rfc1122_3_3_2_incomplete_datagram_with_its_start_is_reported, icmp_rig_with("ip.reassembly_timeout=16s;"))
{
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
}

TEST(rfc1812_4_3_2_8_errors_are_rate_limited)
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
	rig_advance_ms(r, error); /* 1000 bytes per second */
	inject(r, &d);
	inject(r, &d);
	rig_expect_sent_count(r, 1);
	rig_advance_ms(r, 100000);
	for (unsigned i = 0; i < 100; i++)
		inject(r, &d);
	rig_expect_sent_count(r, at_once);
	rig_free(r);
}

RIG_TEST(zero_rate_sends_no_errors, rig_new_prepared("wire:; ip: wire; icmp: ip; icmp.rate=0; user: icmp", prepare))
{
	struct datagram d = to_nobody();

	inject(r, &d);
	CHECK_EQ(counter(r, "limited"), 1);
	rig_expect_nothing_sent(r);
}

RIG_TEST(unsent_errors_are_counted, icmp_rig())
{
	struct datagram d = to_nobody();

	d.source = FAR; /* without a route */
	inject(r, &d);
	CHECK_EQ(counter(r, "unsent"), 1);
	d.source = PEER;
	rig_limit_buffers(r, 1); /* the injected datagram's */
	inject(r, &d);
	rig_limit_buffers(r, UINT32_MAX);
	CHECK_EQ(counter(r, "unsent"), 2);
	rig_fail_sending(r, -ENOBUFS);
	inject(r, &d);
	rig_fail_sending(r, 0);
	CHECK_EQ(counter(r, "unsent"), 3);
	CHECK_EQ(counter(r, "sent_protocol"), 0);
}
