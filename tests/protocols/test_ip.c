/* test_ip.c - IP between a fake user and a fake link with one network, 10.77.0.0/24, of which we are 10.77.0.1. */
#include <errno.h>
#include <stdlib.h>

#include "platform/sim/memory.h"
#include "protocols/ip.h"
#include "protocols/vnet.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum {
	ME = 0x0a4d0001,
	ME2 = 0x0a4e0001,
	PEER = 0x0a4d0002,
	OTHER = 0x0a4d0003,
	NET_BROADCAST = 0x0a4d00ff,
	GATEWAY = 0x0a4d00fe,
	FAR = 0x08080808,
	MTU = 1500,
	HEADER = 20,
	MORE = 0x2000,
	PATTERN_PERIOD = 251,
};

static const struct xk_vnet_interface interface = {
	.host = ME, .mask = 0xffffff00, .broadcast = NET_BROADCAST, .max_packet = MTU
};

static void
prepare(struct rig *r)
{
	rig_answer(r, XK_VNET_GET_INTERFACES, &interface, sizeof(interface));
}

/* The same, and an address on a second link. */
static void
prepare_two(struct rig *r)
{
	const struct xk_vnet_interface two[] = {
		interface,
		{ .host = ME2, .mask = 0xffffff00, .broadcast = ME2 | 0xff, .max_packet = MTU, .index = 1 },
	};

	rig_answer(r, XK_VNET_GET_INTERFACES, two, sizeof(two));
}

/* IP with settings, statements each ending in ';'. */
static struct rig *
ip_rig_with(const char *settings)
{
	char graph[256];

	snprintf(graph, sizeof(graph), "wire:; ip: wire; %s user: ip#17", settings);
	return rig_new_prepared(graph, prepare);
}

static struct rig *
ip_rig(void)
{
	return ip_rig_with("");
}

static struct xk_participants
anybody(void)
{
	return (struct xk_participants){ .remote.depth = 0 };
}

struct datagram {
	uint32_t source, destination;
	uint16_t id, fragment;
	uint8_t protocol, ttl;
	const uint8_t *payload;
	size_t len;
};

static const uint8_t some[] = { 0xaa, 0xbb, 0xcc, 0xdd, 0xee };

/* What a neighbour sends us. */
static struct datagram
usual(void)
{
	return (struct datagram){ PEER, ME, 7, 0, 17, 64, some, sizeof(some) };
}

static void
put_checksum(uint8_t *frame)
{
	xk_put16(frame + 10, 0);
	xk_checksum_store(frame + 10, xk_checksum_finish(xk_sum(0, frame, HEADER)));
}

static size_t
build(uint8_t *frame, const struct datagram *d)
{
	memset(frame, 0, HEADER);
	frame[0] = 0x45;
	xk_put16(frame + 2, (uint16_t)(HEADER + d->len));
	xk_put16(frame + 4, d->id);
	xk_put16(frame + 6, d->fragment);
	frame[8] = d->ttl;
	frame[9] = d->protocol;
	xk_put32(frame + 12, d->source);
	xk_put32(frame + 16, d->destination);
	put_checksum(frame);
	memcpy(frame + HEADER, d->payload, d->len);
	return HEADER + d->len;
}

static void
inject(struct rig *r, const struct datagram *d)
{
	uint8_t frame[MTU + 100];
	size_t len = build(frame, d);

	rig_inject_bytes(r, frame, len);
}

/* Bytes [start, end) of the pattern that rig_push_pattern pushes. */
static void
fill_pattern(uint8_t *bytes, size_t start, size_t end)
{
	for (size_t i = start; i < end; i++)
		bytes[i - start] = (uint8_t)(i % PATTERN_PERIOD);
}

/* Takes one delivered message. False: it is not the pattern's first len bytes. */
static bool
delivered_pattern(struct rig *r, size_t len)
{
	static uint8_t got[70000], want[70000];
	long got_len = rig_take_delivered(r, got, sizeof(got));

	fill_pattern(want, 0, len);
	return got_len == (long)len && memcmp(got, want, len) == 0;
}

/* Injects [start, end) of the pattern as a fragment of datagram id. */
static void
inject_fragment(struct rig *r, uint16_t id, size_t start, size_t end, bool more)
{
	uint8_t payload[MTU];
	struct datagram d = usual();

	fill_pattern(payload, start, end);
	d.id = id;
	d.fragment = (uint16_t)(start / 8 | (more ? MORE : 0));
	d.payload = payload;
	d.len = end - start;
	inject(r, &d);
}

/* ---- round trip ---- */

TEST(sends_a_datagram)
{
	struct rig *r = ip_rig();
	struct xk_session *s = rig_open(r, rig_to(PEER));
	uint8_t sent[64];

	REQUIRE(s != NULL);
	CHECK_EQ(rig_wire_remote(r), PEER);
	CHECK_EQ(rig_push(r, s, "aabbcc"), 0);
	CHECK_EQ(rig_take_sent(r, sent, sizeof(sent)), 23);
	CHECK_EQ(sent[0], 0x45);
	CHECK_EQ(xk_get16(sent + 2), 23);
	CHECK_EQ(xk_get16(sent + 6), 0);
	CHECK_EQ(sent[8], 64);
	CHECK_EQ(sent[9], 17);
	CHECK_EQ(xk_get32(sent + 12), ME);
	CHECK_EQ(xk_get32(sent + 16), PEER);
	CHECK_EQ(xk_sum_fold(xk_sum(0, sent, HEADER)), 0xffff);
	CHECK(memcmp(sent + HEADER, "\xaa\xbb\xcc", 3) == 0);
	rig_free(r);
}

TEST(an_empty_datagram_goes_both_ways)
{
	struct rig *r = ip_rig();
	struct xk_session *s = rig_open(r, rig_to(PEER));
	struct datagram d = usual();

	CHECK_EQ(rig_push(r, s, ""), 0);
	rig_expect_sent(r, "4500 0014 .. .. 0000 4011 .. .. 0a4d0001 0a4d0002");
	d.len = 0;
	inject(r, &d);
	rig_expect_delivered(r, "");
	rig_free(r);
}

TEST(delivers_to_the_session_that_was_opened)
{
	struct rig *r = ip_rig();
	struct xk_session *s = rig_open(r, rig_to(PEER));
	struct datagram d = usual();

	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	CHECK(rig_delivered_on(r) == s);
	CHECK_EQ(rig_open_dones(r), 0);
	rig_free(r);
}

TEST(padding_is_trimmed)
{
	struct rig *r = ip_rig();
	struct datagram d = usual();
	uint8_t frame[64] = { 0 };

	rig_open_enable(r, anybody());
	build(frame, &d);
	rig_inject_bytes(r, frame, 46);
	rig_expect_delivered(r, "aabbccddee");
	rig_free(r);
}

TEST(a_header_in_pieces_is_read)
{
	struct rig *r = ip_rig();

	rig_open_enable(r, anybody());
	rig_inject(r, "45 | 00 0016 0007 0000 40 | 11 66 | 34 0a4d | 0002 0a4d0001 | 12 | 34");
	rig_expect_delivered(r, "1234");
	rig_free(r);
}

TEST(the_time_to_live_is_a_setting)
{
	struct rig *r = ip_rig_with("ip.ttl=7;");

	rig_push(r, rig_open(r, rig_to(PEER)), "01");
	rig_expect_sent(r, "4500 0015 .. .. 0000 0711 *");
	rig_free(r);
}

/* ---- opening ---- */

TEST(a_session_is_shared)
{
	struct rig *r = ip_rig();
	struct xk_session *s = rig_open(r, rig_to(PEER)), *again = rig_open(r, rig_to(PEER));

	CHECK(s != NULL && s == again);
	rig_close(r, again);
	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_expect_sent(r, "45 *");
	rig_free(r);
}

TEST(hosts_elsewhere_go_through_the_gateway)
{
	struct rig *r = ip_rig_with("ip.gateway=10.77.0.254;");
	struct xk_session *s = rig_open(r, rig_to(FAR));

	REQUIRE(s != NULL);
	CHECK_EQ(rig_wire_remote(r), GATEWAY);
	rig_push(r, s, "01");
	rig_expect_sent(r, "4500 0015 .. .. 0000 4011 .. .. 0a4d0001 08080808 01");
	rig_free(r);
}

static void
check_hop(struct rig *r, uint32_t remote, uint64_t hop)
{
	struct xk_session *s = rig_open(r, rig_to(remote));

	CHECK(s != NULL);
	CHECK_EQ(rig_wire_remote(r), hop);
}

TEST(the_longest_prefix_wins)
{
	struct rig *r = ip_rig_with("ip.routes=10.0.0.0/8=10.77.0.8,10.1.2.0/24=10.77.0.24,0.0.0.0/0=10.77.0.9,"
				    "10.1.2.3/32=10.77.0.32,10.1.0.0/16=10.77.0.16;");

	check_hop(r, 0x0a010203, 0x0a4d0020);
	check_hop(r, 0x0a010204, 0x0a4d0018);
	check_hop(r, 0x0a010304, 0x0a4d0010);
	check_hop(r, 0x0a020304, 0x0a4d0008);
	check_hop(r, 0x0b020304, 0x0a4d0009);
	check_hop(r, PEER, PEER);
	rig_free(r);
}

static int
refusal_of(const char *routes)
{
	char graph[512];

	snprintf(graph, sizeof(graph),
		 "port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.1/24; ip: vnet; ip.%s; user: ip#17",
		 routes);
	return rig_refusal(graph);
}

TEST(wrong_routes_are_refused)
{
	CHECK_EQ(refusal_of("routes=10.1.0.0/16"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.0=10.77.0.9"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.0/=10.77.0.9"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.0/33=10.77.0.9"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.0/-1=10.77.0.9"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.1/16=10.77.0.9"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0/16=10.77.0.9"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.0/16=10.77.0"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.0/16=10.77.0.9,10.1.0.0/16=10.77.0.8"), -EEXIST);
	CHECK_EQ(refusal_of("routes=10.1.0.0/16=10.78.0.9"), -EINVAL);
	CHECK_EQ(refusal_of("gateway=10.77.0.1"), -EINVAL);
	CHECK_EQ(refusal_of("gateway=10.77.0.255"), -EINVAL);
	CHECK_EQ(refusal_of("routes=00000000000000000000000000000000000000000000000000000000000000000000000000"),
		 -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.0/16=10.77.0.9,"), 0);
}

TEST(without_an_address_there_is_no_host)
{
	CHECK_EQ(rig_refusal("wire:; ip: wire; user: ip#17"), -ENOTSUP);
}

static void
check_open_fails(struct rig *r, struct xk_participants participants, int error)
{
	CHECK(rig_open(r, participants) == NULL);
	CHECK_EQ(rig_error(r), error);
}

TEST(what_cannot_be_opened)
{
	struct rig *r = ip_rig();
	struct xk_participants p = rig_to(PEER);

	check_open_fails(r, anybody(), -EINVAL);
	check_open_fails(r, rig_to(UINT64_C(0x10a4d0002)), -EINVAL);
	check_open_fails(r, rig_to(FAR), -ENETUNREACH);
	check_open_fails(r, rig_to(ME), -EINVAL);
	check_open_fails(r, rig_to(0), -EINVAL);
	check_open_fails(r, rig_to(0x7f000001), -EINVAL);
	check_open_fails(r, rig_to(0xe0000001), -EINVAL);
	xk_participant_push(&p.local, OTHER);
	check_open_fails(r, p, -EADDRNOTAVAIL);
	rig_wire_refuse(r, -EHOSTUNREACH);
	check_open_fails(r, rig_to(PEER), -EHOSTUNREACH);
	rig_free(r);
}

TEST(too_small_a_link_is_refused)
{
	struct rig *r = ip_rig();
	uint32_t mtu = 67;

	rig_answer(r, XK_GET_MAX_PACKET, &mtu, sizeof(mtu));
	check_open_fails(r, rig_to(PEER), -EMSGSIZE);
	rig_free(r);
}

TEST(another_uppers_session_is_not_shared)
{
	struct rig *r = rig_new_prepared("wire:; ip: wire; user: ip#17; user2: ip#18", prepare);

	CHECK(rig_open(r, rig_to(PEER)) != NULL);
	rig_user(r, "user2");
	CHECK(rig_open(r, rig_to(PEER)) != NULL);
	rig_free(r);
}

TEST(answers_questions)
{
	struct rig *r = ip_rig();
	struct xk_session *s = rig_open(r, rig_to(PEER));
	struct xk_participants p = anybody();
	uint64_t host = 0;
	uint32_t length = 0;

	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &length, sizeof(length)), sizeof(length));
	CHECK_EQ(length, 65515);
	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &length, sizeof(length)), sizeof(length));
	CHECK_EQ(length, MTU - HEADER);
	CHECK_EQ(xk_control(s, XK_GET_MY_HOST, &host, sizeof(host)), sizeof(host));
	CHECK_EQ(host, ME);
	CHECK_EQ(xk_control(s, XK_GET_PEER_HOST, &host, sizeof(host)), sizeof(host));
	CHECK_EQ(host, PEER);
	CHECK_EQ(xk_control(s, XK_GET_PEER_HOST, &host, 4), -EMSGSIZE);
	CHECK_EQ(xk_control_protocol(rig_protocol(r, "ip"), XK_GET_MY_HOST, &host, sizeof(host)), sizeof(host));
	CHECK_EQ(host, ME);
	CHECK_EQ(xk_get_participants(s, &p), 0);
	CHECK_EQ(xk_participant_pop(&p.remote), PEER);
	CHECK_EQ(xk_participant_pop(&p.local), ME);
	rig_free(r);
}

/* ---- strangers ---- */

TEST(a_strangers_datagram_opens_a_session_that_answers)
{
	struct rig *r = ip_rig();
	struct datagram d = usual();

	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	inject(r, &d);
	CHECK_EQ(rig_open_dones(r), 1);
	rig_expect_delivered(r, "aabbccddee");
	inject(r, &d);
	CHECK_EQ(rig_open_dones(r), 1);
	rig_expect_delivered(r, "aabbccddee");
	CHECK(rig_delivered_on(r) == rig_announced(r));
	rig_push(r, rig_delivered_on(r), "01");
	rig_expect_sent(r, "4500 0015 .. .. 0000 4011 .. .. 0a4d0001 0a4d0002 01");
	d.source = OTHER;
	inject(r, &d);
	CHECK_EQ(rig_open_dones(r), 2);
	rig_expect_delivered(r, "aabbccddee");
	rig_free(r);
}

TEST(one_host_heard_over_two_links_has_two_sessions)
{
	struct rig *r = ip_rig();
	struct datagram d = usual();
	struct xk_session *first, *second;

	rig_open_enable(r, anybody());
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	first = rig_delivered_on(r);
	rig_wire_peer(r, 0x77);
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	second = rig_delivered_on(r);
	CHECK(first != second);
	CHECK(first->lls != second->lls);
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	CHECK(rig_delivered_on(r) == second);
	CHECK_EQ(rig_open_dones(r), 2);
	rig_free(r);
}

/* Whichever of our addresses a stranger has spoken to, on whatever link: it is answered from that one. */
TEST(a_stranger_is_answered_from_the_address_it_has_spoken_to)
{
	struct rig *r = rig_new_prepared("wire:; ip: wire; user: ip#17", prepare_two);
	struct datagram d = usual();

	rig_open_enable(r, anybody());
	d.destination = ME2;
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	CHECK_EQ(rig_push(r, rig_delivered_on(r), "01"), 0);
	rig_expect_sent(r, "45000015 .... 0000 4011 .... 0a4e0001 0a4d0002 01");
	rig_free(r);
}

TEST(an_opened_session_hears_its_peer_over_any_link)
{
	struct rig *r = ip_rig();
	struct datagram d = usual();
	struct xk_session *s = rig_open(r, rig_to(PEER));

	rig_wire_peer(r, 0x77);
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	CHECK(rig_delivered_on(r) == s);
	rig_free(r);
}

TEST(opening_a_learned_session_shares_it)
{
	struct rig *r = ip_rig();
	struct datagram d = usual();

	rig_open_enable(r, anybody());
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	CHECK(rig_open(r, rig_to(PEER)) == rig_announced(r));
	rig_wire_peer(r, 0x77);
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	CHECK_EQ(rig_open_dones(r), 1);
	rig_free(r);
}

TEST(a_broadcast_is_answered_from_the_interface)
{
	struct rig *r = ip_rig();
	struct datagram d = usual();
	uint64_t host = 0;

	rig_open_enable(r, anybody());
	d.destination = NET_BROADCAST;
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	rig_push(r, rig_delivered_on(r), "01");
	rig_expect_sent(r, "4500 0015 .. .. 0000 4011 .. .. 0a4d0001 0a4d0002 01");
	xk_control(rig_delivered_on(r), XK_GET_MY_HOST, &host, sizeof(host));
	CHECK_EQ(host, ME);
	xk_control(rig_delivered_on(r), XK_IP_GET_DESTINATION, &host, sizeof(host));
	CHECK_EQ(host, NET_BROADCAST);
	d.destination = UINT32_MAX;
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	rig_free(r);
}

TEST(a_broadcast_is_sent)
{
	struct rig *r = ip_rig();
	struct xk_session *s = rig_open(r, rig_to(UINT32_MAX));

	REQUIRE(s != NULL);
	CHECK_EQ(rig_wire_remote(r), UINT32_MAX);
	rig_push(r, s, "01");
	rig_expect_sent(r, "4500 0015 .. .. 0000 4011 .. .. 0a4d0001 ffffffff 01");
	rig_free(r);
}

TEST(disabling_closes_what_was_learned)
{
	struct rig *r = ip_rig();
	struct datagram d = usual();

	CHECK_EQ(rig_open_disable(r, anybody()), -ENOENT);
	rig_open_enable(r, anybody());
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	inject(r, &d);
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	rig_free(r);
}

TEST(enabling_takes_no_host)
{
	struct rig *r = ip_rig();
	struct xk_participants p = anybody();

	xk_participant_push(&p.local, ME);
	CHECK_EQ(rig_open_enable(r, p), -EOPNOTSUPP);
	CHECK_EQ(rig_open_enable(r, rig_to(PEER)), -EOPNOTSUPP);
	rig_free(r);
}

TEST(an_unwanted_session_is_refused)
{
	struct rig *r = ip_rig();
	struct datagram d = usual();

	rig_open_enable(r, anybody());
	rig_refuse(r, -EPERM);
	inject(r, &d);
	CHECK_EQ(rig_counter(r, "refused"), 1);
	rig_expect_nothing_delivered(r);
	rig_refuse(r, 0);
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	rig_free(r);
}

/* ---- what is dropped ---- */

static void
check_dropped(struct rig *r, const struct datagram *d, const char *why)
{
	long before = rig_counter(r, why), all = rig_drops(r);

	inject(r, d);
	if (rig_counter(r, why) != before + 1)
		fprintf(stderr, "\nnot dropped as %s\n", why);
	CHECK_EQ(rig_counter(r, why), before + 1);
	CHECK_EQ(rig_drops(r), all + 1);
	rig_expect_nothing_delivered(r);
}

static void
check_source_dropped(struct rig *r, uint32_t source, const char *why)
{
	struct datagram d = usual();

	d.source = source;
	check_dropped(r, &d, why);
}

TEST(wrong_sources_are_dropped)
{
	struct rig *r = ip_rig();

	rig_open_enable(r, anybody());
	check_source_dropped(r, ME, "bad_source");
	check_source_dropped(r, 0, "bad_source");
	check_source_dropped(r, 0x00000005, "bad_source");
	check_source_dropped(r, NET_BROADCAST, "bad_source");
	check_source_dropped(r, 0x0a4d0000, "bad_source");
	check_source_dropped(r, UINT32_MAX, "bad_source");
	check_source_dropped(r, 0xe0000001, "bad_source");
	check_source_dropped(r, 0xf0000001, "bad_source");
	check_source_dropped(r, 0x7f000001, "martian");
	rig_free(r);
}

static void
check_destination_dropped(struct rig *r, uint32_t destination, const char *why)
{
	struct datagram d = usual();

	d.destination = destination;
	check_dropped(r, &d, why);
}

TEST(what_is_for_others_is_dropped)
{
	struct rig *r = ip_rig();

	rig_open_enable(r, anybody());
	check_destination_dropped(r, OTHER, "not_mine");
	check_destination_dropped(r, FAR, "not_mine");
	check_destination_dropped(r, 0xe0000001, "not_mine");
	check_destination_dropped(r, 0x7f000001, "martian");
	rig_free(r);
}

TEST(what_nobody_has_opened_is_dropped)
{
	struct rig *r = ip_rig();
	struct datagram d = usual();

	rig_open_enable(r, anybody());
	d.protocol = 99;
	check_dropped(r, &d, "no_session");
	d.fragment = MORE;
	check_dropped(r, &d, "no_session");
	rig_free(r);
}

/* Changes one 16-bit field of the usual datagram, makes the checksum right again, and injects it. */
static void
check_field_dropped(struct rig *r, size_t offset, uint16_t value, const char *why)
{
	struct datagram d = usual();
	uint8_t frame[64];
	size_t len = build(frame, &d);
	long before = rig_counter(r, why);

	xk_put16(frame + offset, value);
	put_checksum(frame);
	rig_inject_bytes(r, frame, len);
	if (rig_counter(r, why) != before + 1)
		fprintf(stderr, "\n%04x at %zu: not dropped as %s\n", value, offset, why);
	CHECK_EQ(rig_counter(r, why), before + 1);
	rig_expect_nothing_delivered(r);
}

TEST(wrong_headers_are_dropped)
{
	struct rig *r = ip_rig();

	rig_open_enable(r, anybody());
	check_field_dropped(r, 0, 0x6500, "bad_version");
	check_field_dropped(r, 0, 0x0500, "bad_version");
	check_field_dropped(r, 0, 0x4400, "bad_header");
	check_field_dropped(r, 0, 0x4000, "bad_header");
	check_field_dropped(r, 0, 0x4600, "options");
	check_field_dropped(r, 0, 0x4f00, "options");
	check_field_dropped(r, 2, 19, "bad_length");
	check_field_dropped(r, 2, 0, "bad_length");
	check_field_dropped(r, 2, 26, "bad_length");
	check_field_dropped(r, 2, 65535, "bad_length");
	check_field_dropped(r, 6, 0x8000, "bad_flags");
	check_field_dropped(r, 6, 0xa000, "bad_flags");
	check_field_dropped(r, 8, 0x0011, "ttl_zero");
	rig_free(r);
}

TEST(every_flipped_bit_of_the_header_is_noticed)
{
	struct rig *r = ip_rig();
	struct datagram d = usual();
	uint8_t frame[64];
	size_t len = build(frame, &d);

	rig_open_enable(r, anybody());
	for (unsigned bit = 0; bit < HEADER * 8; bit++) {
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
		rig_inject_bytes(r, frame, len);
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_drops(r), HEADER * 8);
	CHECK(rig_counter(r, "bad_checksum") > 100);
	rig_free(r);
}

TEST(every_truncation_is_noticed)
{
	struct rig *r = ip_rig();
	struct datagram d = usual();
	uint8_t frame[64];
	size_t len = build(frame, &d);

	rig_open_enable(r, anybody());
	for (size_t i = 0; i < len; i++)
		rig_inject_bytes(r, frame, i);
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "short"), HEADER);
	CHECK_EQ(rig_counter(r, "bad_length"), len - HEADER);
	rig_free(r);
}

/* ---- fragments sent ---- */

/* Takes what was sent and puts it together by offsets. Its length, or -1: it is not the pattern in proper fragments. */
static long
take_fragments(struct rig *r, size_t len, unsigned *count)
{
	size_t next = 0;
	uint16_t id = 0;
	bool more = true;

	for (*count = 0; rig_sent(r) > 0; ++*count) {
		uint8_t frame[MTU + 1], want[MTU];
		long got = rig_take_sent(r, frame, sizeof(frame));
		size_t payload = (size_t)got - HEADER;
		uint16_t fragment = xk_get16(frame + 6);

		if (got < HEADER || got > MTU || xk_get16(frame + 2) != got || !more)
			return -1;
		if (xk_sum_fold(xk_sum(0, frame, HEADER)) != 0xffff || (*count > 0 && xk_get16(frame + 4) != id))
			return -1;
		id = xk_get16(frame + 4);
		more = (fragment & MORE) != 0;
		if ((fragment & 0x1fff) * 8u != next || (more && payload % 8 != 0))
			return -1;
		fill_pattern(want, next, next + payload);
		if (memcmp(frame + HEADER, want, payload) != 0)
			return -1;
		next += payload;
	}
	return more || next != len || (*count > 1) != (id % 2 == 0) ? -1 : (long)next;
}

static void
check_fragments(struct rig *r, struct xk_session *s, size_t len, unsigned want)
{
	unsigned count;

	CHECK_EQ(rig_push_pattern(r, s, len), 0);
	CHECK_EQ(take_fragments(r, len, &count), len);
	CHECK_EQ(count, want);
}

TEST(fragments_around_the_link_s_limits)
{
	struct rig *r = ip_rig();
	struct xk_session *s = rig_open(r, rig_to(PEER));

	check_fragments(r, s, 1479, 1);
	check_fragments(r, s, 1480, 1);
	CHECK_EQ(rig_counter(r, "fragmented"), 0);
	check_fragments(r, s, 1481, 2);
	check_fragments(r, s, 1488, 2);
	check_fragments(r, s, 2959, 2);
	check_fragments(r, s, 2960, 2);
	check_fragments(r, s, 2961, 3);
	check_fragments(r, s, 65514, 45);
	check_fragments(r, s, 65515, 45);
	CHECK_EQ(rig_counter(r, "fragmented"), 7);
	rig_free(r);
}

/* A link whose limit is no multiple of 8 behind the header. */
TEST(fragments_are_multiples_of_eight)
{
	struct rig *r = ip_rig();
	uint32_t mtu = 1006;
	struct xk_session *s;

	rig_answer(r, XK_GET_MAX_PACKET, &mtu, sizeof(mtu));
	s = rig_open(r, rig_to(PEER));
	check_fragments(r, s, 986, 1);
	check_fragments(r, s, 987, 2);
	check_fragments(r, s, 984 + 986, 2);
	check_fragments(r, s, 984 + 987, 3);
	rig_free(r);
}

TEST(longer_than_a_datagram_is_refused)
{
	struct rig *r = ip_rig();
	struct xk_session *s = rig_open(r, rig_to(PEER));

	CHECK_EQ(rig_push_pattern(r, s, 65516), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_big"), 1);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(the_rest_of_a_datagram_is_not_sent_without_its_beginning)
{
	struct rig *r = ip_rig();
	struct xk_session *s = rig_open(r, rig_to(PEER));

	rig_fail_sending(r, -ENOBUFS);
	CHECK_EQ(rig_push_pattern(r, s, 4000), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "unsent"), 1);
	rig_fail_sending(r, 0);
	rig_forget(r);
	rig_free(r);
}

TEST(buffers_may_run_out_in_the_middle)
{
	unsigned failed = 0;

	for (unsigned spare = 0; spare < 16; spare++) {
		struct rig *r = ip_rig();
		struct xk_session *s = rig_open(r, rig_to(PEER));
		struct xk_platform *platform = xk_platform_of(rig_protocol(r, "ip"));
		unsigned all = platform->ops->buffers_out(platform) + 1; /* the message */
		int status;

		xk_memory_platform_limit(platform, all + spare);
		status = rig_push_pattern(r, s, 4000);
		CHECK(status == 0 || status == -ENOBUFS);
		CHECK_EQ(status == 0, rig_drops(r) == 0);
		failed += status != 0;
		xk_memory_platform_limit(platform, UINT32_MAX);
		rig_forget(r);
		rig_free(r);
	}
	CHECK(failed > 1 && failed < 16);
}

TEST(whole_datagrams_have_numbers_of_their_own)
{
	struct rig *r = ip_rig();
	struct xk_session *s = rig_open(r, rig_to(PEER));
	uint8_t first[64], second[64];

	rig_push(r, s, "01");
	rig_push(r, s, "01");
	rig_take_sent(r, first, sizeof(first));
	rig_take_sent(r, second, sizeof(second));
	CHECK_EQ((uint16_t)(xk_get16(second + 4) - xk_get16(first + 4)), 2);
	CHECK_EQ(first[5] & 1, 1);
	rig_free(r);
}

/* ---- fragments received ---- */

TEST(fragments_are_put_together_and_delivered_once)
{
	struct rig *r = ip_rig();

	rig_open_enable(r, anybody());
	inject_fragment(r, 1, 2960, 4008, false);
	inject_fragment(r, 1, 0, 1480, true);
	inject_fragment(r, 1, 0, 1480, true);
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_open_dones(r), 0);
	inject_fragment(r, 1, 1480, 2960, true);
	CHECK(delivered_pattern(r, 4008));
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "reassembled"), 1);
	CHECK_EQ(rig_counter(r, "duplicate"), 1);
	rig_free(r);
}

TEST(datagrams_under_way_do_not_mix)
{
	struct rig *r = ip_rig();

	rig_open(r, rig_to(PEER));
	inject_fragment(r, 1, 0, 1480, true);
	inject_fragment(r, 2, 0, 800, true);
	inject_fragment(r, 1, 1480, 1500, false);
	CHECK(delivered_pattern(r, 1500));
	inject_fragment(r, 2, 800, 900, false);
	CHECK(delivered_pattern(r, 900));
	rig_free(r);
}

TEST(padding_of_fragments_is_trimmed)
{
	struct rig *r = ip_rig();
	uint8_t frame[64] = { 0 };
	struct datagram d = usual();

	rig_open_enable(r, anybody());
	inject_fragment(r, 7, 0, 16, true);
	d.fragment = 2;
	build(frame, &d);
	rig_inject_bytes(r, frame, 46);
	rig_expect_delivered(r, "000102030405060708090a0b0c0d0e0f aabbccddee");
	rig_free(r);
}

TEST(overlaps_refuse_the_datagram_and_what_follows)
{
	struct rig *r = ip_rig();

	rig_open_enable(r, anybody());
	inject_fragment(r, 1, 0, 1480, true);
	inject_fragment(r, 1, 1472, 2000, true);
	inject_fragment(r, 1, 1480, 2000, false);
	CHECK_EQ(rig_counter(r, "overlap"), 2);
	CHECK_EQ(rig_counter(r, "refused_datagram"), 1);
	rig_expect_nothing_delivered(r);
	rig_advance_ms(r, 35000);
	inject_fragment(r, 1, 0, 1480, true);
	inject_fragment(r, 1, 1480, 2000, false);
	CHECK(delivered_pattern(r, 2000));
	rig_free(r);
}

TEST(wrong_fragments_have_their_names)
{
	struct rig *r = ip_rig();

	rig_open_enable(r, anybody());
	inject_fragment(r, 1, 8, 8, true);
	inject_fragment(r, 1, 8, 17, true);
	CHECK_EQ(rig_counter(r, "bad_fragment"), 2);
	inject_fragment(r, 2, 0, 7, true);
	CHECK_EQ(rig_counter(r, "tiny"), 1);
	inject_fragment(r, 3, 65512, 65516, false);
	CHECK_EQ(rig_counter(r, "too_long"), 1);
	inject_fragment(r, 4, 16, 24, false);
	inject_fragment(r, 4, 24, 32, false);
	CHECK_EQ(rig_counter(r, "inconsistent"), 2);
	rig_expect_nothing_delivered(r);
	rig_free(r);
}

TEST(what_never_finishes_times_out)
{
	struct rig *r = ip_rig();

	rig_open_enable(r, anybody());
	inject_fragment(r, 1, 0, 1480, true);
	rig_advance_ms(r, 29000);
	CHECK_EQ(rig_counter(r, "timed_out"), 0);
	inject_fragment(r, 1, 1480, 2960, true);
	rig_advance_ms(r, 3000);
	CHECK_EQ(rig_counter(r, "timed_out"), 2);
	inject_fragment(r, 2, 0, 1480, true);
	rig_advance_ms(r, 32000);
	CHECK_EQ(rig_counter(r, "timed_out"), 3);
	rig_free(r);
}

TEST(waiting_fragments_are_bounded)
{
	struct rig *r = ip_rig_with("ip.reassembly_datagrams=3; ip.reassembly_source_datagrams=2;");

	rig_open_enable(r, anybody());
	for (uint16_t id = 0; id < 100; id++)
		inject_fragment(r, id, 0, 8, true);
	CHECK_EQ(rig_counter(r, "evicted"), 98);
	rig_free(r);
}

TEST(endless_fragments_of_eight_bytes_are_too_many)
{
	struct rig *r = ip_rig();

	rig_open_enable(r, anybody());
	for (uint16_t i = 0; i < 100; i++)
		inject_fragment(r, 1, i * 8u, i * 8u + 8, true);
	CHECK_EQ(rig_counter(r, "too_many"), 65);
	CHECK_EQ(rig_counter(r, "refused_datagram"), 35);
	rig_free(r);
}

TEST(a_longest_datagram_makes_it_there)
{
	struct rig *r = ip_rig();
	size_t at = 0;

	rig_open_enable(r, anybody());
	for (; at + 1480 < XK_IP_MAX_PACKET; at += 1480)
		inject_fragment(r, 1, at, at + 1480, true);
	inject_fragment(r, 1, at, XK_IP_MAX_PACKET, false);
	CHECK(delivered_pattern(r, XK_IP_MAX_PACKET));
	rig_free(r);
}

/* ---- anything at all ---- */

static uint64_t
next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* A datagram or fragment of few kinds, some bytes of it changed, its checksum mostly right. */
static void
inject_random(struct rig *r, uint64_t *state)
{
	uint8_t payload[64], frame[128];
	struct datagram d = usual();
	size_t len, cut;

	fill_pattern(payload, 0, sizeof(payload));
	d.payload = payload;
	d.len = next_random(state) % 6 * 8 + (next_random(state) % 4 == 0 ? 3 : 0);
	d.id = next_random(state) % 4;
	d.fragment = (uint16_t)(next_random(state) % 8 | (next_random(state) % 2) * MORE);
	d.source = PEER + next_random(state) % 3;
	len = build(frame, &d);
	for (uint64_t changes = next_random(state) % 3; changes > 0; changes--)
		frame[next_random(state) % len] = (uint8_t)next_random(state);
	if (next_random(state) % 8 != 0)
		put_checksum(frame);
	cut = next_random(state) % 16 == 0 ? next_random(state) % len : 0;
	rig_inject_bytes(r, frame, len - cut);
}

/* Each frame is dropped under a name, delivered, or still waits; rig_free checks that nothing is left. */
TEST(random_frames_leave_nothing_behind)
{
	struct rig *r = ip_rig_with("ip.reassembly_timeout=1s;");
	uint64_t state = UINT64_C(0x1234567);
	const char *lengthy = getenv("XK_TEST_LONG");
	unsigned rounds = lengthy != NULL && atoi(lengthy) != 0 ? 200000 : 5000;

	rig_open_enable(r, anybody());
	for (unsigned i = 0; i < rounds; i++) {
		inject_random(r, &state);
		if (i % 64 == 0)
			rig_advance_ms(r, next_random(&state) % 500);
		if (i % 256 == 0)
			rig_forget(r);
	}
	CHECK(rig_counter(r, "overlap") > 0 && rig_counter(r, "reassembled") > 0);
	rig_forget(r);
	rig_advance_ms(r, 2000);
	rig_free(r);
}
