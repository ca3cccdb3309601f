/*
 * peers.c SIZE - times a UDP echo of SIZE bytes by lwIP and by the x-kernel, embedded as docs/embedding.md says, in one
 * program on one thread, in turn. Both get the same frames, verify and make every checksum, and have buffers of their
 * own: a frame that arrives is copied into one, and one that is sent is copied out.
 *
 * Prints the least and the median of the blocks' nanoseconds an echo. Every echo's length is checked, and the first of
 * each stack to its last bit.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lwip/etharp.h"
#include "lwip/init.h"
#include "lwip/timeouts.h"
#include "lwip/udp.h"
#include "netif/ethernet.h"

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "tools/bench/echo_frame.h"
#include "xkernel/kernel.h"

enum { BLOCKS = 40, ECHOES = 20000, PORT = 2001, FRAME = ECHO_FRAME_HEADERS + ECHO_FRAME_MAX_SIZE };

#define LINK UINT64_C(0x020000000001)
#define HOST 0x0a000002u

static const char graph[] = "digraph echo { udptest -> udp; udp -> ip; ip -> vnet; vnet -> eth; vnet -> arp;"
			    "arp -> eth; eth -> port; vnet [address=\"10.0.0.2/8\"]; }";

/* The wire's end: what arrives at the stack that has its turn, and what it has sent. */
static struct {
	struct echo_frames frames;
	uint8_t in[ECHO_FRAME_MAX_PIECES][FRAME], out[ECHO_FRAME_MAX_PIECES][FRAME];
	size_t out_len[ECHO_FRAME_MAX_PIECES];
	unsigned arrived, sent;
} wire;

/* ---- the x-kernel ---- */

static struct xk_platform *platform;
static struct xk_kernel *kernel;

static unsigned
xk_receive(void *context, struct xk_msg **frames, unsigned max)
{
	unsigned count = 0;

	(void)context;
	for (; count < max && wire.arrived < wire.frames.pieces; count++, wire.arrived++) {
		frames[count] = xk_msg_from(platform, wire.in[wire.arrived], wire.frames.piece[wire.arrived].len);
		if (frames[count] == NULL)
			abort();
	}
	return count;
}

static unsigned
xk_transmit(void *context, struct xk_msg **frames, unsigned count)
{
	(void)context;
	for (unsigned i = 0; i < count; i++) {
		if (wire.sent < ECHO_FRAME_MAX_PIECES && xk_msg_len(frames[i]) <= FRAME) {
			wire.out_len[wire.sent] = xk_msg_len(frames[i]);
			xk_msg_copy_first(frames[i], wire.out[wire.sent++], xk_msg_len(frames[i]));
		}
		xk_msg_free(frames[i]);
	}
	return count;
}

static void
xk_begin(void)
{
	struct xk_kernel_config config = { .name = "echo", .mode = XK_IPP, .core = -1 };
	struct xk_graph_source source = { .text = graph };
	struct xk_port *port;

	config.platform = platform = xk_memory_platform_new(XK_MEMORY_REAL);
	xk_memory_platform_recycle(platform);
	port = xk_memory_port_new(platform, "port", LINK, 1500);
	kernel = xk_kernel_new(&config);
	xk_memory_loop(port, xk_receive, xk_transmit, NULL);
	xk_kernel_add_port(kernel, port);
	if (xk_graph_compose(&source, kernel, stderr) != 0)
		exit(1);
}

/* A turn takes what has arrived; what it pushed is sent before it returns. */
static void
xk_echo(void)
{
	xk_kernel_turn(kernel);
}

/* ---- lwIP ---- */

static struct netif netif;

static err_t
lwip_transmit(struct netif *self, struct pbuf *p)
{
	(void)self;
	if (wire.sent < ECHO_FRAME_MAX_PIECES && p->tot_len <= FRAME) {
		wire.out_len[wire.sent] = p->tot_len;
		pbuf_copy_partial(p, wire.out[wire.sent++], p->tot_len, 0);
	}
	return ERR_OK;
}

static err_t
lwip_add(struct netif *self)
{
	for (unsigned i = 0; i < 6; i++)
		self->hwaddr[i] = (u8_t)(LINK >> 8 * (5 - i));
	self->hwaddr_len = 6;
	self->mtu = 1500;
	self->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET | NETIF_FLAG_LINK_UP;
	self->output = etharp_output;
	self->linkoutput = lwip_transmit;
	return ERR_OK;
}

static void
lwip_heard(void *argument, struct udp_pcb *pcb, struct pbuf *p, const ip_addr_t *address, u16_t port)
{
	(void)argument;
	udp_sendto(pcb, p, address, port);
	pbuf_free(p);
}

/* lwIP's clock, in milliseconds. */
u32_t
sys_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u32_t)(now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

static void
lwip_begin(void)
{
	ip4_addr_t address = { .addr = lwip_htonl(HOST) }, mask = { .addr = lwip_htonl(0xff000000) }, none = { 0 };
	struct eth_addr peer;
	struct udp_pcb *pcb;
	ip4_addr_t source;

	lwip_init();
	netif_add(&netif, &address, &mask, &none, NULL, lwip_add, ethernet_input);
	netif_set_up(&netif);
	pcb = udp_new();
	udp_bind(pcb, IP_ADDR_ANY, PORT);
	udp_recv(pcb, lwip_heard, NULL);
	/* The x-kernel learns where the peer is from its requests. */
	memcpy(&peer, wire.in[0] + 6, sizeof(peer));
	memcpy(&source.addr, wire.in[0] + 26, sizeof(source.addr));
	if (etharp_add_static_entry(&source, &peer) != ERR_OK)
		exit(1);
}

static void
lwip_echo(void)
{
	for (; wire.arrived < wire.frames.pieces; wire.arrived++) {
		u16_t len = (u16_t)wire.frames.piece[wire.arrived].len;
		struct pbuf *p = pbuf_alloc(PBUF_RAW, len, PBUF_POOL);

		if (p == NULL)
			abort();
		pbuf_take(p, wire.in[wire.arrived], len);
		netif.input(p, &netif);
	}
}

/* ---- blocks in turn ---- */

static struct stack {
	const char *name;
	void (*begin)(void);
	void (*echo)(void);
	double ns[BLOCKS];
} stacks[] = {
	{ "x-kernel", xk_begin, xk_echo, { 0 } },
	{ "lwIP", lwip_begin, lwip_echo, { 0 } },
};

static void
echo_once(const struct stack *stack)
{
	wire.arrived = wire.sent = 0;
	stack->echo();
	if (wire.sent == wire.frames.pieces && wire.out_len[0] == wire.frames.len)
		return;
	fprintf(stderr, "%s: no echo: %u frames\n", stack->name, wire.sent);
	exit(1);
}

static void
check_once(const struct stack *stack)
{
	const char *wrong = NULL;
	uint64_t sum = 0;

	echo_once(stack);
	for (unsigned i = 0; i < wire.frames.pieces && wrong == NULL; i++)
		wrong = echo_frame_check_piece(&wire.frames, 0, i, wire.out[i], wire.out_len[i], &sum);
	if (wrong == NULL)
		return;
	fprintf(stderr, "%s: wrong with the echo: %s\n", stack->name, wrong);
	exit(1);
}

static double
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int
main(int argc, char **argv)
{
	static const struct echo_end server = { LINK, HOST, PORT };
	unsigned size = argc > 1 ? (unsigned)atoi(argv[1]) : 0;

	if (argc != 2 || size == 0 || size > ECHO_FRAME_MAX_MESSAGE) {
		fprintf(stderr, "usage: peers SIZE (1 to %d)\n", ECHO_FRAME_MAX_MESSAGE);
		return 2;
	}
	echo_frames_init(&wire.frames, &server, size);
	for (unsigned i = 0; i < wire.frames.pieces; i++)
		if (wire.frames.pieces == 1)
			echo_frame_write(&wire.frames, 0, wire.in[i]);
		else
			echo_frame_write_piece(&wire.frames, 0, i, 1, wire.in[i]);
	for (unsigned s = 0; s < 2; s++) {
		stacks[s].begin();
		check_once(&stacks[s]);
	}
	for (unsigned block = 0; block < BLOCKS; block++)
		for (unsigned s = 0; s < 2; s++) {
			double began = now_ns();

			for (unsigned i = 0; i < ECHOES; i++)
				echo_once(&stacks[s]);
			stacks[s].ns[block] = (now_ns() - began) / ECHOES;
			check_once(&stacks[s]);
		}
	printf("%u", size);
	for (unsigned s = 0; s < 2; s++) {
		qsort(stacks[s].ns, BLOCKS, sizeof(double), compare);
		printf(" %.1f %.1f", stacks[s].ns[0], stacks[s].ns[BLOCKS / 2]);
	}
	printf("\n");
	xk_kernel_free(kernel);
	xk_memory_platform_free(platform);
	return 0;
}
