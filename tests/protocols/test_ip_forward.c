/* test_ip_forward.c - IP as a router: datagrams forwarded and dropped (ip_router.h). */
#include "tests/protocols/ip_router.h"
#include "tests/random.h"

/* Injects d and checks that it is dropped without an error to its sender. */
static void
expect_dropped(struct rig *r, const struct datagram *d, const char *name)
{
	long before = counter(r, name);

	inject(r, d);
	CHECK_EQ(counter(r, name), before + 1);
	rig_expect_nothing_sent(r);
	rig_expect_nothing_delivered(r);
}

/* Injects d and checks that its sender is sent an error of this type and code, with the next hop's MTU. */
static void
expect_notified(struct rig *r, const struct datagram *d, const char *name, unsigned kind, unsigned mtu)
{
	uint8_t want[MTU], got[MTU];
	size_t len = build(want, d);
	long before = counter(r, name), got_len;

	inject(r, d);
	CHECK_EQ(counter(r, name), before + 1);
	got_len = rig_take_sent(r, got, sizeof(got));
	REQUIRE(got_len >= HEADER + 8 + HEADER);
	CHECK_EQ(XK_GET(ip, source, got), ME);
	CHECK_EQ(XK_GET(ip, destination, got), d->source);
	CHECK_EQ(got[XK_OFFSET(ip, protocol)], 1);
	CHECK_EQ(xk_get16(got + HEADER), kind);
	CHECK_EQ(xk_get32(got + HEADER + 4), mtu);
	CHECK_EQ(xk_sum_fold(xk_sum(0, got + HEADER, (size_t)got_len - HEADER)), 0xffff);
	CHECK_EQ(got_len, HEADER + 8 + (len < 548 ? len : 548));
	CHECK(memcmp(got + HEADER + 8, want, (size_t)got_len - HEADER - 8) == 0);
	rig_expect_nothing_sent(r);
}

/* ---- forwarded datagrams ---- */

RIG_TEST(rfc1812_5_3_1_forwarding_decrements_time_to_live, router())
{
	struct datagram d = passing();
	uint8_t want[MTU], got[MTU];
	size_t len;

	inject(r, &d);
	d.ttl--;
	len = build(want, &d);
	CHECK_EQ(rig_take_sent(r, got, sizeof(got)), len);
	CHECK(memcmp(got, want, len) == 0);
	CHECK_EQ(rig_wire_remote(r), NEAR2);
	CHECK_EQ(rig_wire_local(r), XK_VNET_LAZY);
	CHECK_EQ(counter(r, "forwarded"), 1);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(nothing_is_forwarded_unless_set, rig_new_prepared("wire:; ip: wire; icmp: ip; user: ip#17", prepare_router))
{
	struct datagram d = passing();

	expect_dropped(r, &d, "not_mine");
}

RIG_TEST(own_datagrams_are_delivered_and_not_forwarded, router())
{
	struct datagram d = usual();

	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	d.destination = ME2; /* at our other address (RFC 1122, 3.3.4.2: the weak model) */
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	rig_expect_nothing_sent(r);
}

RIG_TEST(rfc1812_5_2_4_route_determines_the_next_hop, router())
{
	struct datagram d = passing();

	d.destination = BEHIND;
	inject(r, &d);
	CHECK_EQ(rig_wire_remote(r), NEAR2);
	rig_expect_sent_count(r, 1);
}

RIG_TEST(rfc1624_checksum_is_right_for_any_header, router())
{
	struct datagram d = passing();
	uint64_t state = 1;
	uint8_t want[MTU], got[MTU];

	for (unsigned i = 0; i < 2000; i++) {
		d.id = (uint16_t)next_random(&state);
		d.ttl = (uint8_t)(2 + next_random(&state) % 254);
		d.source = PEER + (uint32_t)(next_random(&state) % 250);
		d.protocol = (uint8_t)next_random(&state);
		inject(r, &d);
		d.ttl--;
		build(want, &d);
		CHECK_EQ(rig_take_sent(r, got, sizeof(got)), HEADER + sizeof(some));
		CHECK(memcmp(got, want, HEADER) == 0);
	}
}

RIG_TEST(rfc1812_5_2_6_fragment_is_forwarded_unchanged, router())
{
	struct datagram d = passing();
	static const uint8_t payload[16];
	uint8_t want[MTU], got[MTU];

	d.payload = payload;
	d.len = sizeof(payload);
	d.fragment = MORE | 5;
	inject(r, &d);
	d.ttl--;
	build(want, &d);
	CHECK_EQ(rig_take_sent(r, got, sizeof(got)), HEADER + 16);
	CHECK(memcmp(got, want, HEADER + 16) == 0);
	CHECK_EQ(counter(r, "reassembled"), 0);
}

/* ---- fragmentation ---- */

/* Returns a datagram with len bytes of pattern, stored at payload, which holds more of it. */
static struct datagram
passing_pattern(uint8_t payload[MTU], size_t len)
{
	struct datagram d = passing();

	fill_pattern(payload, 0, MTU);
	d.payload = payload;
	d.len = len;
	return d;
}

/* Takes the datagrams into which len bytes of pattern that began at `offset` were fragmented. */
static void
expect_pieces(struct rig *r, size_t len, unsigned offset, bool more)
{
	uint8_t got[MTU], want[MTU];
	size_t at = 0;

	while (at < len) {
		long got_len = rig_take_sent(r, got, sizeof(got));
		size_t piece = (size_t)got_len - HEADER;
		bool is_last;

		REQUIRE(got_len > HEADER && got_len <= NARROW);
		is_last = at + piece == len;
		CHECK_EQ(xk_get16(got + IP_FRAGMENT), (is_last && !more ? 0 : MORE) | (offset + at / 8));
		CHECK(is_last || piece == ((NARROW - HEADER) & ~7));
		CHECK_EQ(XK_GET(ip, length, got), got_len);
		CHECK_EQ(XK_GET(ip, identification, got), 7);
		CHECK_EQ(got[XK_OFFSET(ip, ttl)], 63);
		CHECK_EQ(xk_sum_fold(xk_sum(0, got, HEADER)), 0xffff);
		fill_pattern(want, at, at + piece);
		CHECK(memcmp(got + HEADER, want, piece) == 0);
		at += piece;
	}
	rig_expect_nothing_sent(r);
}

RIG_TEST(rfc1812_5_2_6_datagram_too_long_for_the_link_is_fragmented, router())
{
	uint8_t payload[MTU];
	struct datagram d = passing_pattern(payload, 1480);

	for (d.len = NARROW - HEADER - 2; d.len <= MTU - HEADER; d.len += 3) {
		inject(r, &d);
		expect_pieces(r, d.len, 0, false);
	}
	CHECK(counter(r, "forward_fragmented") > 250);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(rfc791_fragments_are_fragmented_further, router())
{
	uint8_t payload[MTU];
	struct datagram d = passing_pattern(payload, 1480);

	d.fragment = MORE | 185;
	inject(r, &d);
	expect_pieces(r, 1480, 185, true);
	d.fragment = 185; /* the last fragment */
	inject(r, &d);
	expect_pieces(r, 1480, 185, false);
}

RIG_TEST(rfc791_fragments_never_end_beyond_65535, router())
{
	uint8_t payload[MTU];
	struct datagram d = passing_pattern(payload, 1480);

	d.fragment = 0x1fff;
	expect_dropped(r, &d, "too_long");
	d.fragment = (65515 - 1480) / 8 + 1;
	expect_dropped(r, &d, "too_long");
}

RIG_TEST(buffers_may_run_out_between_fragments, router())
{
	uint8_t payload[MTU], frame[MTU];
	struct datagram d = passing_pattern(payload, 1480);
	size_t len = build(frame, &d);

	for (unsigned more = 0; more < 6; more++) {
		rig_limit_buffers(r, more + 1); /* one holds the injected datagram */
		rig_inject_bytes(r, frame, len);
		rig_limit_buffers(r, UINT32_MAX);
	}
	CHECK(counter(r, "no_buffer") > 0);
	rig_forget(r);
}

RIG_TEST(unsent_fragment_ends_its_datagram, router())
{
	uint8_t payload[MTU];
	struct datagram d = passing_pattern(payload, 1480);

	rig_fail_sending(r, -ENOBUFS);
	expect_dropped(r, &d, "unsent");
	rig_fail_sending(r, 0);
}

/* ---- drops with an error ---- */

RIG_TEST(rfc1812_5_3_1_expired_datagram_is_reported, router())
{
	struct datagram d = passing();

	d.ttl = 1;
	expect_notified(r, &d, "expired", 0x0b00, 0);
	CHECK_EQ(rig_counter(r, "sent_hops"), 1);
}

RIG_TEST(rfc1812_4_3_3_1_missing_route_is_reported, router())
{
	struct datagram d = passing();

	d.destination = FAR;
	expect_notified(r, &d, "no_route", 0x0300, 0);
	CHECK_EQ(rig_counter(r, "sent_network"), 1);
}

RIG_TEST(rfc1191_4_dont_fragment_is_reported_with_the_next_mtu, router())
{
	uint8_t payload[MTU];
	struct datagram d = passing_pattern(payload, 1480);

	d.fragment = DF;
	d.len = NARROW - HEADER + 1;
	expect_notified(r, &d, "dont_fragment", 0x0304, NARROW);
	CHECK_EQ(rig_counter(r, "sent_too_big"), 1);
	d.len = NARROW - HEADER; /* this one fits */
	inject(r, &d);
	rig_expect_sent_count(r, 1);
}

RIG_TEST(rfc1122_3_2_2_later_fragments_and_errors_draw_no_error, router())
{
	static const uint8_t error[16] = { 3, 1 }, echo[16] = { 8, 0 };
	struct datagram d = passing();

	d.ttl = 1;
	d.payload = error;
	d.len = sizeof(error);
	d.fragment = 1;
	expect_dropped(r, &d, "expired");
	CHECK_EQ(rig_counter(r, "about_part"), 1);
	d.fragment = 0;
	d.protocol = 1;
	expect_dropped(r, &d, "expired");
	CHECK_EQ(rig_counter(r, "about_error"), 1);
	d.payload = echo;
	expect_notified(r, &d, "expired", 0x0b00, 0);
}

/* ---- datagrams never forwarded ---- */

RIG_TEST(rfc1812_5_3_4_and_rfc2644_broadcasts_are_not_forwarded, router())
{
	static const uint32_t all[] = { 0x0a4e0000, 0x0a4d0000, 0xe0000001, 0xefffffff,
					0xf0000001, 0xfffffffe, 0x00000001 };
	struct datagram d = passing();

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(all); i++) {
		d.destination = all[i];
		expect_dropped(r, &d, "not_forwarded");
	}
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	d.destination = NEAR2_BROADCAST; /* this host is one of them */
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	d.destination = UINT32_MAX;
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	rig_expect_nothing_sent(r);
}

RIG_TEST(rfc1812_5_3_7_martians_are_not_forwarded, router())
{
	static const struct {
		uint32_t source;
		const char *name;
	} wrong[] = {
		{ 0x7f000001, "martian" },       { 0, "bad_source" },          { 0x00000001, "bad_source" },
		{ 0xe0000001, "bad_source" },    { 0xf0000001, "bad_source" }, { UINT32_MAX, "bad_source" },
		{ NET_BROADCAST, "bad_source" }, { 0x0a4d0000, "bad_source" }, { ME, "bad_source" },
		{ ME2, "bad_source" },
	};
	struct datagram d = passing();

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(wrong); i++) {
		d.source = wrong[i].source;
		expect_dropped(r, &d, wrong[i].name);
	}
	d.source = PEER;
	d.destination = 0x7f000001;
	expect_dropped(r, &d, "martian");
}

RIG_TEST(headers_are_checked_before_forwarding, router())
{
	struct datagram d = passing();
	uint8_t frame[MTU];
	size_t len = build(frame, &d);

	rig_inject_flips(r, frame, len, HEADER * 8); /* all flips but those that give another valid header: none */
	rig_expect_nothing_sent(r);
	d.ttl = 0;
	expect_dropped(r, &d, "ttl_zero");
}

/* ---- over real links ---- */

#define LINKS                                                                                                          \
	"port:; port2:; eth: port; eth2: port2; arp: eth; arp2: eth2; vnet: eth arp eth2 arp2;"                        \
	"vnet.address=10.77.0.1/24; vnet.address2=10.78.0.1/24; ip: vnet; ip.forward=yes; icmp: ip"

#define MY_LINK "020000000001"
#define MY_LINK2 "020000000002"
#define LINK_A "0200000000aa"
#define LINK_B "0200000000bb"
#define ALL "ffffffffffff"
#define ASK "0806 0001 0800 06 04 0001"
#define ANSWER "0806 0001 0800 06 04 0002"

/* Injects a datagram on the first link, to this link address. */
static void
inject_a(struct rig *r, const char *to)
{
	struct datagram d = passing();
	uint8_t frame[MTU] = { 0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 0xaa, 8, 0 };

	if (to != NULL)
		memset(frame, 0xff, 6);
	rig_wire(r, "port");
	rig_inject_bytes(r, frame, 14 + build(frame + 14, &d));
}

RIG_TEST(next_hop_is_resolved, rig_new_graph(LINKS))
{
	uint8_t got[MTU];

	inject_a(r, NULL);
	rig_expect_sent(r, ALL MY_LINK2 ASK MY_LINK2 "0a4e0001"
						     "000000000000"
						     "0a4e0002");
	CHECK_STR(rig_sent_through(r), "port2");
	rig_wire(r, "port2");
	rig_inject(r, MY_LINK2 LINK_B ANSWER LINK_B "0a4e0002" MY_LINK2 "0a4e0001");
	CHECK_EQ(rig_take_sent(r, got, sizeof(got)), 14 + HEADER + sizeof(some));
	CHECK_STR(rig_sent_through(r), "port2");
	CHECK_EQ(got[14 + XK_OFFSET(ip, ttl)], 63);
	inject_a(r, NULL); /* known from now on */
	CHECK_EQ(rig_take_sent(r, got, sizeof(got)), 14 + HEADER + sizeof(some));
	CHECK_EQ(counter(r, "forwarded"), 2);
}

/* Lets ARP give up. Takes the last frame sent meanwhile on the first link. Returns its length. */
static long
sent_to_a(struct rig *r, uint8_t *got, size_t max)
{
	uint8_t frame[MTU];
	long len, last = 0;

	rig_advance_ms(r, 10000);
	while ((len = rig_take_sent(r, frame, sizeof(frame))) >= 0) {
		if (strcmp(rig_sent_through(r), "port") != 0)
			continue;
		memcpy(got, frame, max);
		last = len;
	}
	return last;
}

RIG_TEST(rfc1812_4_3_3_1_silent_host_is_reported, rig_new_graph(LINKS))
{
	uint8_t got[MTU];

	inject_a(r, NULL);
	CHECK_EQ(sent_to_a(r, got, sizeof(got)), 42); /* unknown to us, its sender is resolved first */
	CHECK_EQ(rig_counter_of(r, "arp2", "unresolved"), 1);
	inject_a(r, NULL);
	rig_inject(r, MY_LINK LINK_A ASK LINK_A "0a4d0002"
						"000000000000"
						"0a4d0001"); /* known now */
	rig_forget(r);
	CHECK_EQ(sent_to_a(r, got, sizeof(got)), 14 + HEADER + 8 + HEADER + sizeof(some));
	CHECK_EQ(xk_get16(got + 14 + HEADER), 0x0301);
	CHECK_EQ(got[14 + HEADER + 8 + XK_OFFSET(ip, ttl)], 63);
	CHECK_EQ(rig_counter(r, "sent_host"), 2);
}

RIG_TEST(rfc1812_5_3_4_link_broadcasts_are_not_forwarded, rig_new_graph(LINKS))
{
	inject_a(r, ALL);
	CHECK_EQ(counter(r, "not_forwarded"), 1);
	rig_expect_nothing_sent(r);
}

RIG_TEST(rfc1122_3_2_2_link_broadcasts_draw_no_error, rig_new_graph(LINKS))
{
	struct datagram d = usual();
	uint8_t frame[MTU] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0, 0, 0, 0, 0xaa, 8, 0 };

	rig_inject_bytes(r, frame, 14 + build(frame + 14, &d));
	CHECK_EQ(counter(r, "link_broadcast"), 1);
	rig_expect_nothing_sent(r);
}
