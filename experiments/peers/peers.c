/*
 * peers.c echo|call|trip|stream SIZE - times lwIP and the x-kernel in turn, both embedded in one single-threaded program as
 * docs/embedding.md describes.
 *
 *   echo    A frame with SIZE bytes in UDP arrives at a host, and the echo leaves it. Both stacks get the same frames.
 *   call    A host sends a request of SIZE bytes in UDP to another host, which answers: two stacks, each in both directions.
 *   trip    As a call, through a TCP connection.
 *   stream  A host sends messages of SIZE bytes through a TCP connection to another one, which drops them: two stacks. The
 *           bytes are lent, not copied, to either stack. A round is a full segment.
 *
 * Each stack verifies and generates every checksum and has its own buffers: frames are copied in and out. Prints the
 * least and the median of the blocks' nanoseconds. Checks the length of every echo and all bits of each block's first
 * echo; of replies, the length and the number; all bytes of each block's first round of a stream.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lwip/etharp.h"
#include "lwip/init.h"
#include "lwip/tcp.h"
#include "lwip/timeouts.h"
#include "lwip/udp.h"
#include "netif/ethernet.h"

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "tools/bench/echo_frame.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"
#include "xkernel/kernel.h"

enum { BLOCKS = 400, ROUNDS = 4000, PORT = 2001, FRAME = ECHO_FRAME_HEADERS + ECHO_FRAME_MAX_SIZE };

enum { CLIENT, SERVER, ENDS };

enum { INBOX = 128 }; /* most frames that wait at an end: more than a stream's window */

enum { SEGMENT = 1460, LENT = 1 << 16, AHEAD = 32 * SEGMENT, STREAM_PORT = 2002 };

/* The client's addresses are those of echo_frame.h's first peer. */
static uint64_t links[ENDS] = { [SERVER] = UINT64_C(0x020000000001) };
static uint32_t hosts[ENDS] = { [SERVER] = 0x0a000002 };

static struct echo_frames frames;
static uint8_t payload[ECHO_FRAME_MAX_MESSAGE];
static unsigned size, replies;

/* What a stream is made of, again and again. */
static uint8_t lent[LENT];
static struct stream {
	uint64_t sent, received;
	bool is_checked;
} stream;

static bool makes_trips; /* the stream's server sends everything back */

/* A ring of frames sent to an end, from `taken` up to `count`, that it has not received yet. */
static struct inbox {
	uint8_t bytes[INBOX][FRAME];
	size_t len[INBOX];
	unsigned count, taken;
} inboxes[ENDS];

static void
fail(const char *stack, const char *what)
{
	fprintf(stderr, "peers: %s: %s\n", stack, what);
	exit(1);
}

/* Returns room for a frame of len bytes to an end. */
static uint8_t *
inbox_put(unsigned end, size_t len)
{
	struct inbox *inbox = &inboxes[end];
	unsigned at = inbox->count++ % INBOX;

	if (inbox->count - inbox->taken > INBOX || len > FRAME)
		fail("a stack", "sends too many frames");
	inbox->len[at] = len;
	return inbox->bytes[at];
}

/* Counts bytes of the stream that have arrived, and checks them if that is wanted. */
static void
stream_take(const char *stack, const void *bytes, size_t len)
{
	size_t at = stream.received % size, some;

	stream.received += len;
	for (const uint8_t *p = bytes; stream.is_checked && len > 0; p += some, len -= some, at = 0) {
		some = len < size - at ? len : size - at;
		if (memcmp(p, lent + at, some) != 0)
			fail(stack, "a byte of the stream is wrong");
	}
}

/* ---- the x-kernel ---- */

static struct xk_host {
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	unsigned end;
} xk_hosts[ENDS];

static unsigned
xk_receive(void *context, struct xk_msg **arrived, unsigned max)
{
	const struct xk_host *host = context;
	struct inbox *inbox = &inboxes[host->end];
	unsigned count = 0;

	for (; count < max && inbox->taken != inbox->count; count++, inbox->taken++) {
		unsigned at = inbox->taken % INBOX;

		arrived[count] = xk_memory_frame(host->platform, inbox->len[at]);
		if (arrived[count] == NULL)
			fail("x-kernel", "no buffer");
		memcpy(arrived[count]->data, inbox->bytes[at], inbox->len[at]);
	}
	return count;
}

static unsigned
xk_transmit(void *context, struct xk_msg **sent, unsigned count)
{
	const struct xk_host *host = context;

	for (unsigned i = 0; i < count; i++) {
		size_t len = xk_msg_len(sent[i]);

		xk_msg_copy_first(sent[i], inbox_put(!host->end, len), len);
		xk_msg_free(sent[i]);
	}
	return count;
}

/* The client's protocol: a session to the server, and the replies. */
struct asker {
	struct xk_protocol protocol;
	struct xk_session *session;
};

static struct asker *asker;

static void
asker_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	uint8_t number = 0;

	(void)self;
	(void)lls;
	xk_msg_copy_first(m, &number, 1);
	replies += xk_msg_len(m) == size && number == payload[0];
	xk_msg_free(m);
}

static const struct xk_protocol_ops asker_ops = { .demux = asker_demux };

static const struct xk_role asker_lowers[] = {
	{ "transport", XK_ASYNC, NULL, "carries datagrams to ports" },
	{ .name = NULL },
};

static const struct xk_protocol_type asker_type = { .name = "asker",
						    .help = "Asks an echo server.",
						    .ops = &asker_ops,
						    .size = sizeof(struct asker),
						    .lowers = asker_lowers };

/* Opens the session. Waits for the server's link address. */
static void
asker_open(void *argument)
{
	struct xk_protocol *self = &asker->protocol;
	struct xk_participants to = { .remote.depth = 0 };

	(void)argument;
	xk_participant_push(&to.remote, hosts[SERVER]);
	xk_participant_push(&to.remote, PORT);
	if (xk_open(self, self, xk_lower(self, 0), &to, &asker->session) != 0)
		fail("x-kernel", "cannot open the session");
}

/* The protocol above TCP, at both ends: one connection. */
struct streamer {
	struct xk_protocol protocol;
	struct xk_session *session;
	bool is_full;
};

static struct streamer *streamers[ENDS];

static int
streamer_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *s,
		   struct xk_protocol *hlp_type)
{
	(void)self;
	(void)llp;
	(void)hlp_type;
	return xk_duplicate(s) ? 0 : -1;
}

static void
streamer_room(struct xk_protocol *self, struct xk_session *s)
{
	(void)s;
	((struct streamer *)self)->is_full = false;
}

static void
streamer_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	if (makes_trips && self == &streamers[SERVER]->protocol) {
		if (xk_push(lls, m) != 0)
			fail("x-kernel", "cannot send the answer");
		return;
	}
	for (const struct xk_msg *part = m; part != NULL; part = part->next)
		stream_take("x-kernel", part->data, part->len);
	xk_msg_free(m);
}

static const struct xk_protocol_ops streamer_ops = {
	.open_done = streamer_open_done,
	.room = streamer_room,
	.demux = streamer_demux,
};

static const struct xk_role streamer_lowers[] = {
	{ "stream", XK_ASYNC, "tcp", "carries the connection" },
	{ .name = NULL },
};

static const struct xk_protocol_type streamer_type = { .name = "streamer",
						       .help = "Sends a stream, or drops it.",
						       .ops = &streamer_ops,
						       .size = sizeof(struct streamer),
						       .lowers = streamer_lowers };

/* Opens the connection. Waits for the server's answer. */
static void
streamer_open(void *argument)
{
	struct xk_protocol *self = &streamers[CLIENT]->protocol;
	struct xk_participants to = { .remote = { 2, { hosts[SERVER], STREAM_PORT } } };

	(void)argument;
	if (xk_open(self, self, xk_lower(self, 0), &to, &streamers[CLIENT]->session) != 0)
		fail("x-kernel", "cannot open the connection");
}

/* Starts a host whose topmost protocols are those of `top`. */
static void
xk_host_begin(unsigned end, const char *name, const char *top)
{
	static const struct xk_protocol_type *const types[] = { &asker_type, &streamer_type, NULL };
	struct xk_host *host = &xk_hosts[end];
	struct xk_kernel_config config = { .name = name, .mode = XK_IPP, .core = -1 };
	struct xk_port *port;
	char graph[512];
	struct xk_graph_source source = { .text = graph, .types = types };

	snprintf(graph, sizeof(graph),
		 "digraph host { %s -> ip; ip -> vnet; vnet -> eth; vnet -> arp; arp -> eth; eth -> port;"
		 "vnet [address=\"%u.%u.%u.%u/8\"]; }",
		 top, hosts[end] >> 24, hosts[end] >> 16 & 255, hosts[end] >> 8 & 255, hosts[end] & 255);
	host->end = end;
	config.platform = host->platform = xk_memory_platform_new(XK_MEMORY_REAL);
	xk_memory_platform_calibrate(host->platform);
	port = xk_memory_port_new(host->platform, "port", links[end], 1500);
	host->kernel = xk_kernel_new(&config);
	xk_memory_loop(port, xk_receive, xk_transmit, host);
	xk_kernel_add_port(host->kernel, port);
	if (xk_graph_compose(&source, host->kernel, stderr) != 0)
		exit(1);
}

/* Lets a thread of the client open its session. */
static void
xk_client_open(void (*open)(void *argument), struct xk_session *const *session)
{
	if (xk_thread_start(xk_hosts[CLIENT].kernel, "client", open, NULL) != 0)
		fail("x-kernel", "no stack");
	for (unsigned i = 0; i < 100; i++)
		xk_kernel_turn(xk_hosts[i % ENDS].kernel);
	if (*session == NULL)
		fail("x-kernel", "no session");
}

static void
xk_begin_stream(void)
{
	static const char top[] = "streamer -> tcp; tcp [send=\"512k\", receive=\"512k\", stamps=no, eager=yes]; tcp";
	struct xk_participants own = { .local = { 1, { STREAM_PORT } } };
	struct xk_protocol *server;

	for (unsigned end = 0; end < ENDS; end++) {
		xk_host_begin(end, "streamer", top);
		streamers[end] = (struct streamer *)xk_kernel_find(xk_hosts[end].kernel, "streamer");
	}
	server = &streamers[SERVER]->protocol;
	if (xk_open_enable(server, server, xk_lower(server, 0), &own) != 0)
		fail("x-kernel", "cannot enable the port");
	xk_client_open(streamer_open, &streamers[CLIENT]->session);
}

static void
xk_begin(const char *kind)
{
	if (strcmp(kind, "stream") == 0 || makes_trips) {
		xk_begin_stream();
		return;
	}
	xk_host_begin(SERVER, "udptest", "udptest -> udp; udp");
	if (strcmp(kind, "call") != 0)
		return;
	xk_host_begin(CLIENT, "asker", "asker -> udp; udp");
	asker = (struct asker *)xk_kernel_find(xk_hosts[CLIENT].kernel, "asker");
	xk_client_open(asker_open, &asker->session);
}

/* One turn receives the request and sends the echo before it returns. */
static void
xk_echo(void)
{
	xk_kernel_turn(xk_hosts[SERVER].kernel);
}

/* A push between turns is sent at once. */
static void
xk_call_once(void)
{
	struct xk_msg *m = xk_msg_from(xk_hosts[CLIENT].platform, payload, size);

	if (m == NULL || xk_push(asker->session, m) != 0)
		fail("x-kernel", "cannot send the request");
	xk_kernel_turn(xk_hosts[SERVER].kernel);
	xk_kernel_turn(xk_hosts[CLIENT].kernel);
}

static void
nothing(void *context)
{
	(void)context;
}

/* The server's part of a stream, in a function of its own so that Callgrind can count it (docs/measuring.md). */
__attribute__((noinline)) static void
xk_serve(void)
{
	xk_kernel_turn(xk_hosts[SERVER].kernel);
}

/* Sends the stream up to a byte. */
static void
xk_stream_to(uint64_t end)
{
	struct streamer *client = streamers[CLIENT];
	int err = 0;

	while (stream.received < end) {
		while (stream.sent < end && stream.sent - stream.received < AHEAD && !client->is_full) {
			struct xk_platform *platform = xk_hosts[CLIENT].platform;
			struct xk_msg *m = makes_trips ? xk_msg_from(platform, lent, size)
						       : xk_msg_lend(platform, lent, size, nothing, NULL);

			err = m == NULL ? -ENOBUFS : xk_push(client->session, m);
			if (err != 0 && err != -EAGAIN)
				fail("x-kernel", "cannot send the stream");
			client->is_full = err == -EAGAIN;
			stream.sent += err == 0 ? size : 0;
		}
		xk_serve();
		xk_kernel_turn(xk_hosts[CLIENT].kernel);
	}
}

static void
xk_end(void)
{
	for (unsigned end = 0; end < ENDS; end++) {
		xk_kernel_free(xk_hosts[end].kernel);
		if (xk_hosts[end].platform != NULL)
			xk_memory_platform_free(xk_hosts[end].platform);
	}
}

/* ---- lwIP: both hosts are interfaces of its one instance ---- */

static struct netif netifs[ENDS];
static struct udp_pcb *pcbs[ENDS];

static err_t
lwip_transmit(struct netif *self, struct pbuf *p)
{
	pbuf_copy_partial(p, inbox_put(self == &netifs[CLIENT] ? SERVER : CLIENT, p->tot_len), p->tot_len, 0);
	return ERR_OK;
}

static err_t
lwip_add(struct netif *self)
{
	for (unsigned i = 0; i < 6; i++)
		self->hwaddr[i] = (u8_t)(links[self - netifs] >> 8 * (5 - i));
	self->hwaddr_len = 6;
	self->mtu = 1500;
	self->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET | NETIF_FLAG_LINK_UP;
	self->output = etharp_output;
	self->linkoutput = lwip_transmit;
	return ERR_OK;
}

static void
lwip_request_arrived(void *argument, struct udp_pcb *pcb, struct pbuf *p, const ip_addr_t *address, u16_t port)
{
	(void)argument;
	udp_sendto_if(pcb, p, address, port, &netifs[SERVER]);
	pbuf_free(p);
}

static void
lwip_reply_arrived(void *argument, struct udp_pcb *pcb, struct pbuf *p, const ip_addr_t *address, u16_t port)
{
	(void)argument;
	(void)pcb;
	(void)address;
	(void)port;
	replies += p->tot_len == size && *(const uint8_t *)p->payload == payload[0];
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

#if PEERS_CHECKSUM == 4
/* Returns the checksum in lwIP's form, not complemented. */
unsigned short
peers_checksum(const void *bytes, int len)
{
	return (unsigned short)~xk_checksum_finish(xk_sum(0, bytes, (size_t)len));
}
#endif

static struct tcp_pcb *lwip_client;

static err_t
lwip_stream_arrived(void *argument, struct tcp_pcb *pcb, struct pbuf *p, err_t err)
{
	(void)argument;
	(void)err;
	if (p == NULL)
		fail("lwIP", "the connection has ended");
	for (const struct pbuf *part = p; part != NULL; part = part->next)
		if (!makes_trips || pcb == lwip_client)
			stream_take("lwIP", part->payload, part->len);
		else if (tcp_write(pcb, part->payload, part->len, TCP_WRITE_FLAG_COPY) != ERR_OK)
			fail("lwIP", "cannot send the answer");
	tcp_recved(pcb, p->tot_len);
	pbuf_free(p);
	return ERR_OK;
}

static err_t
lwip_accepted(void *argument, struct tcp_pcb *pcb, err_t err)
{
	(void)argument;
	(void)err;
	tcp_nagle_disable(pcb);
	tcp_recv(pcb, lwip_stream_arrived);
	return ERR_OK;
}

static bool lwip_is_connected;

static err_t
lwip_connected(void *argument, struct tcp_pcb *pcb, err_t err)
{
	(void)argument;
	(void)pcb;
	lwip_is_connected = err == ERR_OK;
	return ERR_OK;
}

static void lwip_receive(unsigned end);

/* Opens the connection. */
static void
lwip_begin_stream(void)
{
	ip_addr_t server = { .addr = lwip_htonl(hosts[SERVER]) };
	struct tcp_pcb *listener = tcp_new();

	tcp_bind(listener, &server, STREAM_PORT);
	tcp_bind_netif(listener, &netifs[SERVER]);
	listener = tcp_listen(listener);
	tcp_accept(listener, lwip_accepted);
	lwip_client = tcp_new();
	tcp_bind_netif(lwip_client, &netifs[CLIENT]);
	tcp_nagle_disable(lwip_client);
	tcp_recv(lwip_client, lwip_stream_arrived);
	if (tcp_connect(lwip_client, &server, STREAM_PORT, lwip_connected) != ERR_OK)
		fail("lwIP", "cannot open the connection");
	for (unsigned i = 0; i < 10; i++)
		lwip_receive(i % ENDS == 0 ? SERVER : CLIENT);
	if (!lwip_is_connected)
		fail("lwIP", "no connection");
}

static void
lwip_begin(const char *kind)
{
	bool calls = strcmp(kind, "echo") != 0;
	ip4_addr_t mask = { .addr = lwip_htonl(0xff000000) }, none = { 0 };

	lwip_init();
	for (unsigned end = calls ? CLIENT : SERVER; end < ENDS; end++) {
		ip4_addr_t address = { .addr = lwip_htonl(hosts[end]) };

		netif_add(&netifs[end], &address, &mask, &none, NULL, lwip_add, ethernet_input);
		netif_set_up(&netifs[end]);
		pcbs[end] = udp_new();
		udp_bind(pcbs[end], &address, end == SERVER ? PORT : PORT + 1);
		udp_recv(pcbs[end], end == SERVER ? lwip_request_arrived : lwip_reply_arrived, NULL);
	}
	/* The x-kernel learns link addresses from ARP and from requests; lwIP's are static. */
	for (unsigned end = 0; end < ENDS; end++) {
		ip4_addr_t address = { .addr = lwip_htonl(hosts[end]) };
		struct eth_addr link;

		for (unsigned i = 0; i < 6; i++)
			link.addr[i] = (u8_t)(links[end] >> 8 * (5 - i));
		if ((calls || end == CLIENT) && etharp_add_static_entry(&address, &link) != ERR_OK)
			fail("lwIP", "cannot add a link address");
	}
	if (strcmp(kind, "stream") == 0 || makes_trips)
		lwip_begin_stream();
}

static void
lwip_receive(unsigned end)
{
	struct inbox *inbox = &inboxes[end];

	for (; inbox->taken != inbox->count; inbox->taken++) {
		u16_t len = (u16_t)inbox->len[inbox->taken % INBOX];
		struct pbuf *p = pbuf_alloc(PBUF_RAW, len, PBUF_POOL);

		if (p == NULL)
			fail("lwIP", "no buffer");
		pbuf_take(p, inbox->bytes[inbox->taken % INBOX], len);
		netifs[end].input(p, &netifs[end]);
	}
}

static void
lwip_echo(void)
{
	lwip_receive(SERVER);
}

static void
lwip_call_once(void)
{
	ip_addr_t server = { .addr = lwip_htonl(hosts[SERVER]) };
	struct pbuf *p = pbuf_alloc(PBUF_TRANSPORT, (u16_t)size, PBUF_RAM);

	if (p == NULL)
		fail("lwIP", "no buffer");
	pbuf_take(p, payload, (u16_t)size);
	if (udp_sendto_if(pcbs[CLIENT], p, &server, PORT, &netifs[CLIENT]) != ERR_OK)
		fail("lwIP", "cannot send the request");
	pbuf_free(p);
	lwip_receive(SERVER);
	lwip_receive(CLIENT);
}

/* Sends the stream up to a byte. */
static void
lwip_stream_to(uint64_t end)
{
	while (stream.received < end) {
		while (stream.sent < end && stream.sent - stream.received < AHEAD && tcp_sndbuf(lwip_client) >= size &&
		       tcp_write(lwip_client, lent, (u16_t)size, 0) == ERR_OK)
			stream.sent += size;
		tcp_output(lwip_client);
		lwip_receive(SERVER);
		lwip_receive(CLIENT);
		sys_check_timeouts();
	}
}

/* ---- blocks in turn ---- */

static struct stack {
	const char *name;
	void (*begin)(const char *kind);
	void (*echo)(void);
	void (*call)(void);
	void (*stream_to)(uint64_t end);
	struct stream stream;
	double ns[BLOCKS];
} stacks[] = {
	{ "x-kernel", xk_begin, xk_echo, xk_call_once, xk_stream_to, { 0, 0, false }, { 0 } },
	{ "lwIP", lwip_begin, lwip_echo, lwip_call_once, lwip_stream_to, { 0, 0, false }, { 0 } },
};

/* Delivers the request's frames to the server. The echo's frames must be back afterwards. */
static void
echo_once(const struct stack *stack)
{
	inboxes[SERVER].taken = inboxes[CLIENT].taken = inboxes[CLIENT].count = 0;
	inboxes[SERVER].count = frames.pieces;
	stack->echo();
	if (inboxes[CLIENT].count != frames.pieces || inboxes[CLIENT].len[0] != frames.len)
		fail(stack->name, "no echo");
}

static void
call_once(const struct stack *stack)
{
	payload[0]++;
	replies = 0;
	stack->call();
	if (replies != 1)
		fail(stack->name, "no reply");
}

static void
check_echo(const struct stack *stack)
{
	const struct inbox *inbox = &inboxes[CLIENT];
	const char *wrong = NULL;
	uint64_t sum = 0;

	echo_once(stack);
	for (unsigned i = 0; i < frames.pieces && wrong == NULL; i++)
		wrong = echo_frame_check_piece(&frames, 0, i, inbox->bytes[i], inbox->len[i], &sum);
	if (wrong != NULL)
		fail(stack->name, wrong);
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

/* Sends bytes of the stream, rounded up to whole messages. */
static void
stream_on(struct stack *stack, uint64_t bytes, bool is_checked)
{
	stream = stack->stream;
	stream.is_checked = is_checked;
	stack->stream_to(stream.sent + (bytes + size - 1) / size * size);
	stack->stream = stream;
}

/* A block's first round, which is checked. */
static void
check_round(struct stack *stack, const char *kind)
{
	if (strcmp(kind, "call") == 0)
		call_once(stack);
	else if (strcmp(kind, "echo") == 0)
		check_echo(stack);
	else
		stream_on(stack, makes_trips ? size : LENT, true);
}

static void
measure(const char *kind)
{
	for (unsigned s = 0; s < 2; s++)
		stacks[s].begin(kind);
	for (unsigned block = 0; block < BLOCKS; block++)
		for (unsigned s = 0; s < 2; s++) {
			struct stack *stack = &stacks[s];
			double began;

			check_round(stack, kind);
			began = now_ns();
			if (strcmp(kind, "stream") == 0)
				stream_on(stack, (uint64_t)ROUNDS * SEGMENT, false);
			for (unsigned i = 0; makes_trips && i < ROUNDS; i++)
				stream_on(stack, size, false);
			for (unsigned i = 0; strcmp(kind, "call") == 0 && i < ROUNDS; i++)
				call_once(stack);
			for (unsigned i = 0; strcmp(kind, "echo") == 0 && i < ROUNDS; i++)
				echo_once(stack);
			stack->ns[block] = (now_ns() - began) / ROUNDS;
		}
}

int
main(int argc, char **argv)
{
	const struct echo_end server = { links[SERVER], hosts[SERVER], PORT };
	const char *kind = argc == 3 ? argv[1] : "";
	bool streams = strcmp(kind, "stream") == 0, calls = strcmp(kind, "call") == 0;

	makes_trips = strcmp(kind, "trip") == 0;
	streams = streams || makes_trips;
	size = argc == 3 ? (unsigned)atoi(argv[2]) : 0;
	if ((!streams && !calls && strcmp(kind, "echo") != 0) || size == 0 ||
	    size >= (streams ? LENT : ECHO_FRAME_MAX_MESSAGE + 1)) {
		fprintf(stderr, "usage: peers echo|call|trip|stream SIZE (1 to %d bytes, of a stream %d)\n",
			ECHO_FRAME_MAX_MESSAGE, LENT - 1);
		return 2;
	}
	for (unsigned i = 0; i < LENT; i++)
		lent[i] = (uint8_t)(i * 31 + i / 251);
	echo_frames_init(&frames, &server, streams ? 1 : size);
	for (unsigned i = 0; i < frames.pieces; i++) {
		uint8_t *frame = inbox_put(SERVER, frames.piece[i].len);

		if (frames.pieces == 1)
			echo_frame_write(&frames, 0, frame);
		else
			echo_frame_write_piece(&frames, 0, i, 1, frame);
	}
	links[CLIENT] = xk_get48(inboxes[SERVER].bytes[0] + 6);
	hosts[CLIENT] = xk_get32(inboxes[SERVER].bytes[0] + 26);
	if (calls || streams)
		inboxes[SERVER].count = 0;
	measure(kind);
	printf("%s %u", kind, size);
	for (unsigned s = 0; s < 2; s++) {
		qsort(stacks[s].ns, BLOCKS, sizeof(double), compare);
		printf(" %.1f %.1f", stacks[s].ns[0], stacks[s].ns[BLOCKS / 2]);
	}
	printf("\n");
	xk_end();
	return 0;
}
