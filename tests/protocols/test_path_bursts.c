/*
 * test_path_bursts.c - paths of many conversations whose messages come in bursts. The driver looks up a burst's paths
 * before it delivers any of it; meanwhile sessions may end, paths become void and tables grow. Each message is echoed.
 */
#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "tests/random.h"
#include "tests/test.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"
#include "xkernel/kernel.h"

enum { ETH = 14, IP = 20, UDP = 8, PAYLOAD = 5, LENGTH = ETH + IP + UDP + PAYLOAD, PEERS = 1000 };

static const char graph[] = "digraph bursts { udptest -> udp; udp -> ip; ip -> vnet; vnet -> eth; vnet -> arp;"
			    "arp -> eth; eth -> port; vnet [address=\"10.0.0.1/8\"];"
			    "udp [sessions=%u]; ip [sessions=%u]; }";

struct bursts {
	struct xk_platform *platform;
	struct xk_port *port;
	struct xk_kernel *kernel;
	unsigned sent, echoed;
	bool watched; /* an edge is watched: no message takes a path */
	uint64_t by_path;
};

/* Begins a host that keeps this many sessions of UDP and IP. */
static struct bursts
bursts_begin(unsigned udps, unsigned ips)
{
	struct bursts b = { .platform = xk_memory_platform_new(XK_MEMORY_REAL) };
	struct xk_kernel_config config = { .name = "bursts", .mode = XK_IPP, .core = -1, .platform = b.platform };
	char text[sizeof(graph) + 32];
	struct xk_graph_source source = { .text = text };

	snprintf(text, sizeof(text), graph, udps, ips);
	b.port = xk_memory_port_new(b.platform, "port", 0x020000000001, 1500);
	b.kernel = xk_kernel_new(&config);
	REQUIRE(b.port != NULL && b.kernel != NULL);
	xk_kernel_add_port(b.kernel, b.port);
	REQUIRE(xk_graph_compose(&source, b.kernel, stderr) == 0);
	return b;
}

/* Ends the host. Returns the number of messages that took paths. */
static uint64_t
bursts_end(struct bursts *b)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(b->kernel, &stats);
	xk_kernel_free(b->kernel);
	CHECK_EQ(b->platform->ops->buffers_out(b->platform), 0);
	xk_memory_platform_free(b->platform);
	return stats.by_path;
}

/*
 * Makes a message from a peer to udptest's port with valid checksums, whose length fields are `less` bytes too small.
 */
static void
bursts_frame(uint8_t frame[LENGTH], unsigned peer, unsigned less)
{
	static const uint8_t head[] = { 0x02, 0, 0, 0, 0, 0x01, 0x02, 0, 0, 0, 0, 0x02, 0x08, 0, 0x45 };
	uint8_t *ip = frame + ETH, *udp = ip + IP;
	uint64_t sum;

	memset(frame, 0, LENGTH);
	memcpy(frame, head, sizeof(head));
	xk_put16(ip + 2, (uint16_t)(LENGTH - ETH - less));
	ip[8] = 64;
	ip[9] = 17;
	xk_put32(ip + 12, 0x0a010000 + peer / 2);
	xk_put32(ip + 16, 0x0a000001);
	xk_checksum_store(ip + 10, xk_checksum_finish(xk_sum(0, ip, IP)));
	xk_put16(udp, (uint16_t)(4000 + peer));
	xk_put16(udp + 2, 2001);
	xk_put16(udp + 4, (uint16_t)(UDP + PAYLOAD - less));
	xk_put16(udp + UDP, (uint16_t)peer);
	sum = xk_sum(0, ip + 12, 8) + xk_sum_of16(17) + xk_sum_of16(UDP + PAYLOAD);
	xk_checksum_store(udp + 6, xk_checksum_finish(xk_sum(sum, udp, UDP + PAYLOAD)));
}

/* Sends a peer's message. The peers are behind one router. */
static void
bursts_send(struct bursts *b, unsigned peer)
{
	uint8_t frame[LENGTH];

	bursts_frame(frame, peer, 0);
	REQUIRE(xk_memory_inject_bytes(b->port, frame, sizeof(frame)) == 0);
	b->sent++;
}

/* Runs a turn and takes its echoes: each must go to the peer whose number it carries. */
static void
bursts_turn(struct bursts *b)
{
	struct xk_msg *m;
	uint8_t frame[LENGTH];

	xk_kernel_turn(b->kernel);
	while ((m = xk_memory_take(b->port)) != NULL) {
		CHECK_EQ(xk_msg_len(m), sizeof(frame));
		REQUIRE(xk_msg_copy_out(m, 0, frame, sizeof(frame)));
		CHECK_EQ(xk_get16(frame + ETH + IP + 2), 4000 + xk_get16(frame + ETH + IP + UDP));
		CHECK_EQ(xk_get32(frame + ETH + 16), 0x0a010000 + xk_get16(frame + ETH + IP + UDP) / 2u);
		b->echoed++;
		xk_msg_free(m);
	}
}

/* Sends bursts of random length from random peers, and calls `each` after each (NULL: nothing). */
static void
bursts_of(struct bursts *b, unsigned peers, unsigned count, void (*each)(struct bursts *b, uint64_t bits))
{
	uint64_t random = 1;

	for (unsigned i = 0; i < count; i++) {
		uint64_t bits = next_random(&random);

		for (unsigned n = (unsigned)(bits % XK_BURST); n < XK_BURST; n++)
			bursts_send(b, (unsigned)(next_random(&random) % peers));
		bursts_turn(b);
		if (each != NULL)
			each(b, bits);
	}
	bursts_turn(b);
	CHECK_EQ(b->echoed, b->sent);
}

TEST(many_conversations_take_paths)
{
	struct bursts b = bursts_begin(PEERS + 1, PEERS + 1);

	bursts_of(&b, PEERS, 2000, NULL);
	CHECK(bursts_end(&b) > b.sent / 2);
}

TEST(sessions_that_end_within_a_burst_void_their_paths)
{
	struct bursts b = bursts_begin(200, 150);

	bursts_of(&b, 300, 2000, NULL);
	CHECK(bursts_end(&b) > 0);
}

static void
bursts_watch(struct bursts *b, uint64_t bits)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(b->kernel, &stats);
	if (b->watched)
		CHECK_EQ(stats.by_path, b->by_path);
	b->by_path = stats.by_path;
	if ((bits >> 32 & 7) == 0)
		b->watched = !b->watched;
	xk_edge_watch(b->port->receiver->up, XK_WATCH_COUNT, b->watched ? XK_WATCH_COUNT : 0);
}

TEST(paths_are_voided_and_remade_between_bursts)
{
	struct bursts b = bursts_begin(PEERS + 1, PEERS + 1);

	bursts_of(&b, 300, 2000, bursts_watch);
	CHECK(bursts_end(&b) > 0);
}

/* Begins a host with one peer whose messages take a path. */
static struct bursts
bursts_of_one(void)
{
	struct bursts b = bursts_begin(2, 2);

	for (unsigned i = 0; i < 4; i++) {
		bursts_send(&b, 0);
		bursts_turn(&b);
	}
	CHECK_EQ(b.echoed, b.sent);
	return b;
}

TEST(lengths_without_room_for_the_headers_are_refused)
{
	struct bursts b = bursts_of_one();
	uint8_t frame[LENGTH];

	for (unsigned less = PAYLOAD + 1; less <= PAYLOAD + UDP; less++) {
		bursts_frame(frame, 0, less);
		REQUIRE(xk_memory_inject_bytes(b.port, frame, sizeof(frame)) == 0);
		bursts_turn(&b);
		CHECK_EQ(b.echoed, b.sent);
	}
	bursts_send(&b, 0);
	bursts_turn(&b);
	CHECK_EQ(b.echoed, b.sent);
	bursts_end(&b);
}

TEST(padding_in_a_segment_of_its_own_is_cut_off)
{
	enum { PADDED = 60 };
	struct bursts b = bursts_of_one();

	for (unsigned at = ETH + IP + UDP; at < PADDED; at++) {
		uint8_t bytes[PADDED] = { 0 };
		struct xk_msg *first, *rest;

		bursts_frame(bytes, 0, 0);
		rest = xk_memory_frame(b.platform, PADDED);
		REQUIRE(rest != NULL);
		memcpy(rest->data, bytes, PADDED);
		first = xk_msg_split(&rest, at);
		REQUIRE(first != NULL);
		xk_msg_join(first, rest);
		REQUIRE(xk_memory_inject(b.port, first));
		b.sent++;
		bursts_turn(&b);
		CHECK_EQ(b.echoed, b.sent);
	}
	bursts_end(&b);
}
