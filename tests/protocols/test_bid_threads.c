/*
 * test_bid_threads.c - BID and BIDCTL under threads: peers send, reboot and answer while shepherds of this host open,
 * push and close. This host is 10.77.0.2 in 10.77.0.0/24.
 */
#include "protocols/bid/bidctl.h"
#include "tests/compose.h"
#include "tests/protocols/threads.h"
#include "xkernel/bytes.h"

enum {
	PEERS = 6,
	ROUNDS = 3000,
	AHEAD = 500,
	FIRST = 0x0a4d0010,
	ME = 0x0a4d0002,
	NUMBER = 102,
	ETH_LEN = 14,
	BID_LEN = 24,
	BIDCTL_LEN = 40,
};

struct talk {
	struct threads t;    /* first */
	uint64_t own[PEERS]; /* boot id that this host shows to each peer */
	uint64_t boots[PEERS];
	unsigned injected;
};

static void
talk_inject(struct talk *talk, unsigned peer, uint16_t type, const uint8_t *payload, size_t len)
{
	uint8_t frame[ETH_LEN + BIDCTL_LEN] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, (uint8_t)peer };

	xk_put16(frame + 12, type);
	memcpy(frame + ETH_LEN, payload, len);
	CHECK(xk_memory_inject(talk->t.port, xk_msg_from(talk->t.platform, frame, ETH_LEN + len)));
	talk->injected++;
}

/* Sends as the peer an ARP request for this host, or the answer to its request. */
static void
talk_resolve(struct talk *talk, unsigned peer, uint8_t operation)
{
	uint8_t packet[28] = { 0, 1, 8, 0, 6, 4, 0, operation, 2, 0, 0, 0, 1, (uint8_t)peer };

	xk_put32(packet + 14, FIRST + peer);
	xk_put48(packet + 18, operation == 2 ? 0x020000000001 : 0);
	xk_put32(packet + 24, ME);
	talk_inject(talk, peer, 0x0806, packet, sizeof(packet));
}

static void
talk_control(struct talk *talk, unsigned peer, uint16_t flags, uint64_t destination, uint64_t request, uint64_t reply)
{
	uint8_t packet[BIDCTL_LEN] = { 0 };

	xk_put16(packet, flags);
	xk_put32(packet + 4, FIRST + peer);
	xk_put64(packet + 8, talk->boots[peer]);
	xk_put64(packet + 16, destination);
	xk_put64(packet + 24, request);
	xk_put64(packet + 32, reply);
	xk_checksum_store(packet + 2, xk_checksum_finish(xk_sum(0, packet, sizeof(packet))));
	talk_inject(talk, peer, 0x3006, packet, sizeof(packet));
}

static void
talk_message(struct talk *talk, unsigned peer, uint64_t destination)
{
	uint8_t packet[BID_LEN + 1] = { 0 };

	xk_put32(packet, NUMBER);
	xk_put32(packet + 4, FIRST + peer);
	xk_put64(packet + 8, talk->boots[peer]);
	xk_put64(packet + 16, destination);
	talk_inject(talk, peer, 0x3005, packet, sizeof(packet));
}

/* Answers a frame of this host as its peers. */
static void
talk_answer(struct talk *talk, const uint8_t *p, size_t len)
{
	unsigned peer = p[5];
	uint16_t type = xk_get16(p + 12);

	p += ETH_LEN;
	if (type == 0x0806 && p[7] == 1 && xk_get32(p + 24) - FIRST < PEERS)
		talk_resolve(talk, xk_get32(p + 24) - FIRST, 2);
	if (type == 0x3006 && peer < PEERS && len >= ETH_LEN + BIDCTL_LEN && xk_get16(p) == 1)
		talk_control(talk, peer, 2, xk_get64(p + 8), 0, xk_get64(p + 24));
}

static void
talk_take(struct talk *talk)
{
	struct xk_msg *m;

	while ((m = xk_memory_take(talk->t.port)) != NULL) {
		uint8_t frame[128] = { 0 };
		size_t len = xk_msg_len(m) < sizeof(frame) ? xk_msg_len(m) : sizeof(frame);

		CHECK(xk_msg_copy_out(m, 0, frame, len));
		talk_answer(talk, frame, len);
		xk_msg_free(m);
	}
}

/* Sends a message as a peer; now and then it has rebooted, sends a query, or means a former boot of this host. */
static void
talk_round(struct talk *talk, unsigned i)
{
	unsigned peer = i * 7 % PEERS;

	if (i % 251 == 250)
		talk->boots[peer] += PEERS;
	if (i % 502 == 250)
		talk_control(talk, peer, 4, 0, 0, 0);
	if (i % 61 == 0)
		talk_control(talk, peer, 1, 0, i + 1, 0);
	talk_message(talk, peer, i % 53 == 0 ? 1 : talk->own[peer]);
}

static void
talk_feed(struct talk *talk)
{
	static const struct timespec nap = { 0, 1000000 };
	unsigned naps = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		talk_round(talk, i);
		talk_take(talk);
		while (talk->injected >= AHEAD + threads_frames_in(&talk->t) && naps++ < THREADS_NAPS)
			nanosleep(&nap, NULL);
	}
	while ((!threads_openers_have_finished(&talk->t) || threads_frames_in(&talk->t) < talk->injected) &&
	       naps++ < THREADS_NAPS) {
		talk_take(talk);
		nanosleep(&nap, NULL);
	}
	CHECK(threads_openers_have_finished(&talk->t));
}

static struct xk_protocol *
talk_build(struct talk *talk)
{
	struct threads *t = &talk->t;
	struct xk_protocol *bidctl, *bid;
	struct xk_edge *edge;

	threads_add_type(t, "eth", "port", NULL);
	threads_add_type(t, "arp", "eth", NULL);
	threads_set(threads_add_type(t, "vnet", "eth", "arp"), "address", "10.77.0.2/24");
	bidctl = threads_add_type(t, "bidctl", "vnet", NULL);
	threads_set(bidctl, "interval", "1ms");
	threads_set(bidctl, "timeout", "20ms");
	threads_set(bidctl, "timeout_max", "20ms");
	threads_set(bidctl, "retries", "100");
	threads_set(bidctl, "keepalive", "5ms");
	threads_set(bidctl, "lifetime", "10ms");
	bid = threads_add_type(t, "bid", "vnet", "bidctl");
	bid->session_max = 3;
	threads_add_echo(t, "bid");
	edge = t->echo->protocol.lowers[0];
	edge->has_number = true;
	edge->number = NUMBER;
	return bid;
}

static void
check_talk(enum xk_mode mode)
{
	struct talk talk = { .t = { .frames = 0 } };
	struct xk_protocol *bid, *bidctl;

	for (unsigned i = 0; i < PEERS; i++)
		talk.boots[i] = 100 + i;
	threads_begin(&talk.t, mode);
	bid = talk_build(&talk);
	threads_start(&talk.t, bid);
	bidctl = xk_kernel_find(talk.t.kernel, "bidctl");
	for (unsigned i = 0; i < PEERS; i++) {
		talk.own[i] = xk_bidctl_own(bidctl, FIRST + i);
		talk_resolve(&talk, i, 1);
	}
	threads_start_openers(&talk.t, FIRST, PEERS);
	talk_feed(&talk);
	xk_kernel_stop(talk.t.kernel);
	CHECK(atomic_load(&talk.t.echo->delivered) > 0);
	CHECK(atomic_load(&talk.t.echo->opens) > 0);
	CHECK(compose_count_of(bid, "told") > PEERS); /* several per peer */
	talk_take(&talk);
	threads_end(&talk.t);
}

TEST_OF(bid_serves_rebooting_hosts_under_threads_in_regular_mode, check_talk(XK_REGULAR));
TEST_OF(bid_serves_rebooting_hosts_under_threads_in_ipp_mode, check_talk(XK_IPP));
