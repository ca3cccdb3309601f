/*
 * test_bidctl_links.c - BIDCTL over VNET, which knows each frame's station, and ARP, which knows the host's: whom it
 * sends queries back; and that a host whose address is unverified draws at most three times the bytes it has sent.
 */
#include "tests/protocols/bidctl_rig.h"
#include "tests/random.h"

#define EVERYBODY "ffffffffffff"
#define NOBODY "000000000000"
#define MY_STATION "020000000001"
#define PEER "0200000000aa"
#define MY_HOST "0a4d0001"
#define PEER_HOST "0a4d0002"

#define REQUEST "0806 0001 0800 06 04 0001"
#define REPLY "0806 0001 0800 06 04 0002"
#define MY_REQUEST EVERYBODY MY_STATION REQUEST MY_STATION MY_HOST NOBODY PEER_HOST
#define PEER_REQUEST EVERYBODY PEER REQUEST PEER PEER_HOST NOBODY MY_HOST
#define PEER_REPLY MY_STATION PEER REPLY PEER PEER_HOST MY_STATION MY_HOST

#define BELOW "port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.1/24"
#define BIDCTL_GRAPH BELOW "; bidctl: vnet; bidctl.broadcast=no; bidctl.keepalive=0s; user: bidctl; bidctl.retries=0;"

enum { LINK_LEN = 14 };

#define STATION_PEER UINT64_C(0x0200000000aa)
#define STATION_OTHER UINT64_C(0x0200000000bb)

static void
inject_frame(struct rig *r, uint64_t station, struct packet p)
{
	uint8_t frame[LINK_LEN + LEN];

	xk_put48(frame, UINT64_C(0x020000000001));
	xk_put48(frame + 6, station);
	xk_put16(frame + 12, 0x3006);
	packet_store(&p, frame + LINK_LEN);
	rig_inject_bytes(r, frame, sizeof(frame));
}

/* Takes the next frame sent, which must be BIDCTL's to that station. Returns its message. */
static struct packet
sent_to(struct rig *r, uint64_t station)
{
	uint8_t frame[LINK_LEN + LEN];
	const uint8_t *bytes = frame + LINK_LEN;
	struct packet p = { .flags = 0 };

	if (rig_sent(r) == 0)
		return p;
	CHECK_EQ(rig_take_sent(r, frame, sizeof(frame)), sizeof(frame));
	CHECK_EQ(xk_get48(frame), station);
	CHECK_EQ(xk_get16(frame + 12), 0x3006);
	return (struct packet){ xk_get16(bytes),      xk_get32(bytes + 4),  xk_get64(bytes + 8),
				xk_get64(bytes + 16), xk_get64(bytes + 24), xk_get64(bytes + 32) };
}

static const struct packet peer_asks = { QUERY, HOST, BOOT_A, 0, 7, 0 };

RIG_TEST(bidctl_queries_back_at_the_address_from_arp, rig_new_graph(BIDCTL_GRAPH))
{
	struct packet p;

	rig_inject(r, PEER_REQUEST);
	rig_forget(r);
	inject_frame(r, STATION_PEER, peer_asks);
	p = sent_to(r, STATION_PEER);
	CHECK_EQ(p.flags, QUERY | RESPONSE);
	rig_expect_nothing_sent(r);
	p = (struct packet){ RESPONSE, HOST, BOOT_A, p.source, 0, p.request };
	inject_frame(r, STATION_PEER, p);
	CHECK_EQ(rig_counter_of(r, "bidctl", "first_contacts"), 1);
	rig_expect_nothing_sent(r);
}

/* Another station sends a query as the peer: all answers go to the peer, where ARP finds it. */
RIG_TEST(bidctl_sends_nothing_to_an_impostors_station, rig_new_graph(BIDCTL_GRAPH))
{
	struct packet p = peer_asks;

	rig_inject(r, PEER_REQUEST);
	rig_forget(r);
	p.source = BOOT_B;
	inject_frame(r, STATION_OTHER, p);
	rig_expect_sent(r, MY_REQUEST);
	inject_frame(r, STATION_OTHER, p); /* too soon: neither queried nor answered */
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter_of(r, "bidctl", "limited"), 1);
	rig_inject(r, PEER_REPLY);
	p = sent_to(r, STATION_PEER);
	CHECK_EQ(p.flags, QUERY | RESPONSE);
	CHECK_EQ(p.destination, BOOT_B);
	rig_expect_nothing_sent(r);
	p = (struct packet){ RESPONSE, HOST, BOOT_A, p.source, 0, p.request };
	inject_frame(r, STATION_PEER, p);
	CHECK_EQ(rig_counter_of(r, "bidctl", "first_contacts"), 1);
}

/* ARP does not know the host: it is resolved first, then sent a query. */
RIG_TEST(bidctl_resolves_a_querying_host_by_arp, rig_new_graph(BIDCTL_GRAPH))
{
	struct packet p;

	inject_frame(r, STATION_PEER, peer_asks);
	rig_expect_sent(r, MY_REQUEST);
	rig_expect_nothing_sent(r);
	rig_inject(r, PEER_REPLY);
	p = sent_to(r, STATION_PEER);
	CHECK_EQ(p.flags, QUERY | RESPONSE);
	CHECK_EQ(p.reply, 7);
	CHECK_EQ(p.destination, BOOT_A);
	inject_frame(r, STATION_PEER, peer_asks); /* too soon for another query, but answered */
	CHECK_EQ(sent_to(r, STATION_PEER).flags & RESPONSE, RESPONSE);
	rig_expect_nothing_sent(r);
	p = (struct packet){ RESPONSE, HOST, BOOT_A, p.source, 0, p.request };
	inject_frame(r, STATION_PEER, p);
	CHECK_EQ(rig_counter_of(r, "bidctl", "first_contacts"), 1);
	rig_expect_nothing_sent(r);
}

/* On none of our networks: it can be neither queried nor answered. */
RIG_TEST(bidctl_answers_only_neighbours, rig_new_graph(BIDCTL_GRAPH))
{
	struct packet p = peer_asks;

	p.host = 0x0b000001;
	inject_frame(r, STATION_PEER, p);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter_of(r, "bidctl", "unsent"), 1);
}

/* ---- at most three times what a stranger sends ---- */

#define WHOLE_GRAPH                                                                                                    \
	BELOW "; bidctl: vnet; bidctl.broadcast=no; blast: vnet; bid: blast bidctl; chan: bid bidctl; chantest: chan"

enum { STRANGERS = 6, FRAME_MAX = 200, ETHERNET_MIN = 60 };

struct strangers {
	struct rig *r;
	uint64_t random;
	size_t in[STRANGERS], out[STRANGERS]; /* bytes, as counted on a wire */
};

static unsigned
draw(struct strangers *s, unsigned below)
{
	return (unsigned)(next_random(&s->random) >> 33) % below;
}

static size_t
on_the_wire(size_t len)
{
	return len < ETHERNET_MIN ? ETHERNET_MIN : len;
}

/* Counts the frames sent: each for the stranger it was addressed to, or if broadcast, for all. */
static void
count_sent(struct strangers *s)
{
	uint8_t frame[2048];

	while (rig_sent(s->r) > 0) {
		long len = rig_take_sent(s->r, frame, sizeof(frame));
		uint64_t to = xk_get48(frame);

		for (unsigned i = 0; i < STRANGERS; i++)
			if (to == STATION_PEER + i)
				s->out[i] += on_the_wire((size_t)len);
	}
	for (unsigned i = 0; i < STRANGERS; i++)
		CHECK(s->out[i] <= 3 * s->in[i]);
}

static void
send_as(struct strangers *s, unsigned i, uint8_t *frame, unsigned number, size_t len)
{
	xk_put48(frame, UINT64_C(0x020000000001));
	xk_put48(frame + 6, STATION_PEER + i);
	xk_put16(frame + 12, (uint16_t)number);
	s->in[i] += on_the_wire(LINK_LEN + len);
	rig_inject_bytes(s->r, frame, LINK_LEN + len);
}

static uint64_t
some_boot(struct strangers *s)
{
	const uint64_t boots[] = { BOOT_A, BOOT_B, xk_bidctl_own(rig_protocol(s->r, "bidctl"), HOST), 0 };

	return boots[draw(s, 4)];
}

/* Sends a BIDCTL message with invented tags: the right one would have been received. */
static void
send_bidctl(struct strangers *s, unsigned i)
{
	struct packet p = { 1 + draw(s, 4), HOST + i, some_boot(s), some_boot(s), 0, 0 };
	uint8_t frame[FRAME_MAX];

	if (p.flags & QUERY)
		p.request = 1 + draw(s, 99);
	if (p.flags & RESPONSE)
		p.reply = 1 + draw(s, 99);
	packet_store(&p, frame + LINK_LEN);
	send_as(s, i, frame, 0x3006, LEN);
}

/* Sends a CHAN message over BID, short or a fragment, from any boot to any boot. */
static void
send_message(struct strangers *s, unsigned i)
{
	uint8_t frame[FRAME_MAX] = { 0 }, *p = frame + LINK_LEN;
	bool is_long = draw(s, 3) == 0;
	size_t len = draw(s, 70);

	xk_put32(p, 0x3005);
	xk_put32(p + 4, is_long ? 1 + draw(s, 4) : 0);
	xk_put32(p + 8, (uint32_t)len);
	xk_put16(p + 12, is_long ? 3 : 0);
	p[14] = 1;
	p[15] = 64;
	xk_put64(p + 16, is_long ? UINT64_C(1) << draw(s, 3) : 0);
	xk_put32(p + 24, 102);
	xk_put32(p + 28, HOST + i);
	xk_put64(p + 32, some_boot(s));
	xk_put64(p + 40, draw(s, 3) == 0 ? some_boot(s) : xk_bidctl_own(rig_protocol(s->r, "bidctl"), HOST + i));
	xk_put16(p + 52, 3);
	send_as(s, i, frame, 0x3001, 24 + len);
}

static void
run_strangers(uint64_t seed)
{
	struct strangers s = { .r = rig_new_graph(WHOLE_GRAPH) };

	s.random = seed;
	for (unsigned n = 0; n < 3000; n++) {
		unsigned i = draw(&s, STRANGERS);
		char request[256];

		if (draw(&s, 8) == 0) {
			snprintf(request, sizeof(request),
				 EVERYBODY "0200000000%02x" REQUEST "0200000000%02x 0a4d00%02x" NOBODY MY_HOST,
				 0xaa + i, 0xaa + i, 2 + i);
			s.in[i] += ETHERNET_MIN;
			rig_inject(s.r, request);
		} else if (draw(&s, 2) == 0) {
			send_bidctl(&s, i);
		} else {
			send_message(&s, i);
		}
		count_sent(&s);
		if (draw(&s, 4) == 0)
			rig_advance_ms(s.r, draw(&s, 400));
		count_sent(&s);
	}
	rig_advance_ms(s.r, 60000);
	count_sent(&s);
	CHECK_EQ(rig_counter_of(s.r, "bidctl", "first_contacts"), 0);
	CHECK(rig_counter_of(s.r, "bidctl", "asked_back") > 10);
	CHECK(rig_counter_of(s.r, "bid", "unconfirmed") > 10);
	rig_free(s.r);
}

TEST(bidctl_strangers_draw_at_most_three_times_what_they_send)
{
	for (uint64_t seed = 1; seed <= 10; seed++)
		run_strangers(seed);
}
