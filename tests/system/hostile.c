/*
 * hostile.c - hostile SOCKET SEED: a peer that sends invalid frames to the udptest server on a socket of link `virtio`,
 * whose address is 10.77.0.2/16. After each kind of abuse, the server must still echo a valid request.
 *
 * Prints `ok NAME` or `FAIL NAME: why` for each kind, and at the end `# drop NAME COUNT` (exactly) or `# drop NAME
 * COUNT+` (at least) for drops that the server must have counted, which hostile.sh compares. SEED is for the last kind,
 * which damages valid frames at random.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/random.h"
#include "tests/system/hostile.h"
#include "xkernel/bytes.h"

/* ---- random damage ---- */

static uint32_t
hostile_random(struct hostile *h, uint32_t below)
{
	return (uint32_t)((next_random(&h->random) >> 32) * below >> 32);
}

static void
hostile_good_frame(struct hostile *h)
{
	switch (hostile_random(h, 4)) {
	case 0:
		hostile_arp(h, (uint16_t)(1 + hostile_random(h, 2)), HOSTILE_HOST, HOSTILE_SERVER);
		break;
	case 1:
		hostile_request(h, HOSTILE_HOST, 1 + hostile_random(h, 1472));
		xk_put16(h->frame + HOSTILE_IP + 4, (uint16_t)hostile_random(h, 8));
		xk_put16(h->frame + HOSTILE_IP + 6,
			 (uint16_t)(hostile_random(h, 2) * HOSTILE_MORE | hostile_random(h, 400)));
		break;
	default:
		hostile_request(h, HOSTILE_HOST + hostile_random(h, 3), 1 + hostile_random(h, 100));
	}
}

/* Damages a few bits or bytes of valid frames, mostly in headers; corrects the checksums half of the time. */
static void
hostile_damaged(struct hostile *h)
{
	for (unsigned i = 0; i < 20000; i++) {
		hostile_good_frame(h);
		for (unsigned j = hostile_random(h, 4); j > 0; j--) {
			uint32_t headers = h->len < HOSTILE_DATA ? (uint32_t)h->len : HOSTILE_DATA;
			uint32_t at = hostile_random(h, hostile_random(h, 4) == 0 ? (uint32_t)h->len : headers);

			h->frame[at] = hostile_random(h, 2) == 0 ? (uint8_t)(h->frame[at] ^ 1u << hostile_random(h, 8))
								 : (uint8_t)hostile_random(h, 256);
		}
		if (hostile_random(h, 2) == 0 && xk_get16(h->frame + 12) == 0x0800)
			hostile_fix_ip(h);
		if (hostile_random(h, 8) == 0)
			h->len = 1 + hostile_random(h, (uint32_t)h->len);
		hostile_send(h);
	}
}

/* ---- the program ---- */

static const struct {
	const char *name;
	void (*abuse)(struct hostile *h);
} hostile_kinds[] = {
	{ "short frames", hostile_short_frames },
	{ "long frames", hostile_long_frames },
	{ "misaddressed frames", hostile_misaddressed_frames },
	{ "impossible senders of frames", hostile_frame_sources },
	{ "unknown types", hostile_frame_types },
	{ "bad ARP packets", hostile_arp_packets },
	{ "ARP packets that lie", hostile_arp_lies },
	{ "more neighbours than ARP's table holds", hostile_arp_flood },
	{ "short datagrams", hostile_short_datagrams },
	{ "bad IP headers", hostile_ip_headers },
	{ "bad UDP headers", hostile_udp_headers },
	{ "duplicate fragments", hostile_duplicates },
	{ "overlapping fragments", hostile_overlaps },
	{ "fragments beyond the end", hostile_ends },
	{ "impossible fragments", hostile_odd_fragments },
	{ "endless fragments", hostile_endless },
	{ "never finished datagrams, more than memory", hostile_never_finished },
	{ "fragments that come too late", hostile_late },
	{ "more strangers than sessions", hostile_strangers },
	{ "a peer that does not take its echoes", hostile_deaf },
	{ "frames damaged at random", hostile_damaged },
};

static void
hostile_run(struct hostile *h)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(hostile_kinds) - (h->random == 0); i++) {
		bool good;

		hostile_kinds[i].abuse(h);
		good = hostile_echoes(h, 10) && hostile_echoes(h, 1400);
		printf(good ? "ok %s\n" : "FAIL %s: a valid request is not answered\n", hostile_kinds[i].name);
		fflush(stdout);
		h->failures += !good;
	}
	for (unsigned i = 0; i < h->drop_count; i++)
		printf("# drop %s %u%s\n", h->drops[i].name, h->drops[i].count, h->drops[i].at_least ? "+" : "");
}

static int
hostile_open(struct hostile *h, const char *socket)
{
	struct xk_dpdk_config config = { .core = -1 };
	struct xk_dpdk_port_config link = {
		.link = "virtio", .name = "hostile", .device = socket, .address = HOSTILE_LINK
	};
	char why[XK_DPDK_WHY];

	if (xk_dpdk_start(&config, &h->platform, why, sizeof(why)) == 0)
		h->port = xk_dpdk_open(h->platform, &link, why, sizeof(why));
	if (h->port == NULL) {
		printf("FAIL hostile: %s\n", why);
		return 1;
	}
	h->port->mtu = HOSTILE_FRAME; /* allows frames longer than the link's mtu */
	return 0;
}

int
main(int argc, char **argv)
{
	static struct hostile h = { .next_port = 10000, .next_id = 1, .next_host = 0x0a4d8000 };

	if (argc != 3) {
		fprintf(stderr, "usage: hostile SOCKET SEED\n");
		return 2;
	}
	h.random = strtoull(argv[2], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15);
	if (hostile_open(&h, argv[1]) != 0)
		return 1;
	if (hostile_finds_server(&h) && hostile_echoes(&h, 10)) {
		hostile_run(&h);
	} else {
		printf("FAIL hostile: the server does not answer\n");
		h.failures++;
	}
	h.port->ops->close(h.port);
	xk_dpdk_stop(h.platform);
	return h.failures != 0;
}
