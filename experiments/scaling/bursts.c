/*
 * bursts.c - bursts of Active Messages between two hosts, as Heath, Kaur, Martin and Nguyen measured them ("Quantifying
 * the Impact of Architectural Scaling on Communication", 2001): the sender's time per message until it is sent and
 * until it is answered, over three kinds of links.
 *
 * Each message is a request whose handler replies: REQUEST, REPLY, TAKEN (protocols/papers/am.c). A sender without
 * credit receives until it has one, as in AM-II. Messages longer than a packet are stores.
 *
 * Links: `virtio` is DPDK's, between two processes. `socket` is Linux's UDP: each frame is a datagram between two
 * sockets on the loopback interface, and each system call is timed. `memory` passes frames within one thread, on a
 * virtual clock that stands still, so that two runs differ by a few instructions only (session numbers are random).
 * Under callgrind, --toggle-collect=bursts_request counts the instructions of sending; --toggle-collect=bursts_turn
 * adds the sender's other instructions.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "platform/clock.h"
#ifdef XK_HAVE_DPDK
#include "platform/dpdk/dpdk.h"
#endif
#include "platform/sim/memory.h"
#include "protocols/papers/am.h"
#include "tools/batches.h"
#include "tools/json.h"
#include "tools/machine.h"
#include "tools/options.h"
#include "xkernel/base.h"
#include "xkernel/kernel.h"
#include "xkernel/process.h"

/* Neither inlined nor cloned: callgrind finds the function by name. Clang has no `noclone`. */
#if __has_attribute(noclone)
#define BURSTS_NAMED __attribute__((noinline, noclone))
#else
#define BURSTS_NAMED __attribute__((noinline))
#endif

enum { CLIENT, SERVER, ENDS };

enum {
	BURSTS_NAME = 7, /* the endpoint's */
	BURSTS_REQUEST_HANDLER = 1,
	BURSTS_REPLY_HANDLER = 2,
	BURSTS_UNREGISTERED = 3, /* a handler that the server lacks */
	BURSTS_WORDS = 4,        /* in each request and reply */
	BURSTS_WINDOW = 16,
	BURSTS_MTU = 1500,
	BURSTS_FRAME = 14 + BURSTS_MTU,
	BURSTS_FRAMES = 1024, /* in flight to an end of --link memory */
	BURSTS_PIECES = 8,    /* most in a sent frame */
	BURSTS_SIZE_MAX = 65536,
	BURSTS_ROUNDS_MAX = 10000,
	BURSTS_WARM_UP = 20,
	BURSTS_ROOM = 1 << 22,     /* bytes of a socket's queues */
	BURSTS_REST_NS = 30000,    /* between bursts: lets messages in flight arrive */
	BURSTS_REST_TURNS = 8,     /* the same on a clock that stands still */
	BURSTS_CLOCK_TURNS = 1024, /* turns between two clock readings */
	BURSTS_CALIBRATE_NS = 20000000,
};

#define BURSTS_SERVER_ADDRESS UINT32_C(0x0a4d0002)
#define BURSTS_PATIENCE_NS UINT64_C(10000000000)

enum bursts_link { BURSTS_VIRTIO, BURSTS_SOCKET, BURSTS_MEMORY };
static const char *const bursts_links[] = { "virtio", "socket", "memory", NULL };

struct bursts_options {
	const char *graph;
	unsigned link;
	bool together, returned, json;
	struct options_numbers cores, sizes, messages;
	uint64_t rounds;
};

static const struct options_option bursts_options[] = {
	OPTION(TEXT, struct bursts_options, graph, "graph", "FILE", "a graph with udptest above am (graphs/am.dot)"),
	OPTION(CHOICE, struct bursts_options, link, "link", "LINK",
	       "virtio: two processes over DPDK\n"
	       "socket: ... over Linux's UDP, on the loopback interface\n"
	       "memory: one thread, on a clock that stands still (virtio)",
	       .choices = bursts_links),
	OPTION(FLAG, struct bursts_options, together, "together", NULL, "socket: both ends in one thread, in turn"),
	OPTION(FLAG, struct bursts_options, returned, "returned", NULL,
	       "requests name a handler that the server lacks, and are returned"),
	OPTION(NUMBERS, struct bursts_options, cores, "cores", "A,B", "cores of client and server (0,1)", .max = 1023),
	OPTION(NUMBERS, struct bursts_options, sizes, "size", "N,...",
	       "bytes of a request, in addition to four words (0); sent as stores if they exceed a packet",
	       .max = BURSTS_SIZE_MAX),
	OPTION(NUMBERS, struct bursts_options, messages, "messages", "N,...", "messages of a burst (1,4,128)", .min = 1,
	       .max = 1024),
	OPTION(NUMBER, struct bursts_options, rounds, "rounds", "N", "bursts of each kind (1000)", .min = 1,
	       .max = BURSTS_ROUNDS_MAX),
	OPTION(FLAG, struct bursts_options, json, "json", NULL, "JSON on standard output"),
	{ .name = NULL },
};

static const struct options_program bursts_program = {
	.name = "bursts",
	.usage = "[OPTION]...",
	.about = "Times bursts of Active Messages between two hosts. All kinds of bursts alternate.",
	.footer = "Instructions of sending a message, by the difference of two runs:\n"
		  "  valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=bursts_request \\\n"
		  "    bursts --link memory --messages 4 --rounds 100\n"
		  "and the same with --rounds 200. For all of the sender's, add --toggle-collect=bursts_turn.",
	.options = bursts_options,
};

/* System calls of an end. */
struct bursts_calls {
	uint64_t carried, empty; /* calls with a frame, and without one */
	uint64_t carried_ns;     /* time in calls with a frame */
};

struct bursts_end {
	struct bursts *bursts;
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	struct xk_protocol *am;
	/* --link socket */
	int fd;
	struct sockaddr_in peer;
	struct xk_msg *spare; /* buffer for the next frame; NULL: none yet */
	struct bursts_calls calls;
	/* --link memory */
	struct xk_msg *queue[BURSTS_FRAMES];
	unsigned first, count;
};

/* Shared by the two processes. */
struct bursts_shared {
	_Atomic bool ended, failed; /* the client; the server */
};

/* Figures per message of a burst: nanoseconds in all and in system calls, and numbers of system calls. */
enum bursts_figure {
	BURSTS_SENT,
	BURSTS_ANSWERED,
	BURSTS_KERNEL_SENT,
	BURSTS_KERNEL,
	BURSTS_CALLS_SENT,
	BURSTS_CALLS,
	BURSTS_EMPTY,
	BURSTS_FIGURES
};
static const char *const bursts_figures[] = { "sent_ns",    "answered_ns", "kernel_sent_ns", "kernel_ns",
					      "calls_sent", "calls",       "empty_calls" };

struct bursts {
	struct bursts_options options;
	struct clock clock;
	double ghz; /* the counter's frequency; 0: no counter */
	struct machine machine;
	struct bursts_end ends[ENDS];
	struct bursts_shared *shared;
	pid_t server;
	char device[32]; /* of --link virtio */
	bool yields, stands_still;
	uint8_t bytes[BURSTS_SIZE_MAX];
	/* the client's */
	struct xk_session *session;
	bool opened;
	int open_error;
	uint32_t max_packet;
	uint32_t region; /* the server's, for stores; 0: not known yet */
	uint64_t size;   /* bytes of each message of the burst */
	unsigned number; /* number of their handler */
	uint64_t sent, replies;
	uint64_t retransmitted;
	/* the server's */
	struct xk_region memory;
	double samples[OPTIONS_LIST][OPTIONS_LIST][BURSTS_FIGURES][BURSTS_ROUNDS_MAX];
};

static bool
bursts_fail(const char *what, int error)
{
	fprintf(stderr, "bursts: %s%s%s\n", what, error == 0 ? "" : ": ", error == 0 ? "" : xk_error(error));
	return false;
}

/* ---- a link over Linux's UDP ---- */

static void
bursts_count(struct bursts_end *end, bool carried, uint64_t begun_ns)
{
	if (carried) {
		end->calls.carried_ns += clock_now_ns(&end->bursts->clock) - begun_ns;
		end->calls.carried++;
	} else {
		end->calls.empty++;
	}
}

static unsigned
bursts_socket_receive(void *context, struct xk_msg **frames, unsigned max)
{
	struct bursts_end *end = context;
	unsigned count = 0;

	for (; count < max; count++) {
		uint64_t begun_ns;
		ssize_t n;

		if (end->spare == NULL)
			end->spare = xk_memory_frame(end->platform, BURSTS_FRAME);
		if (end->spare == NULL)
			return count;
		begun_ns = clock_now_ns(&end->bursts->clock);
		n = recv(end->fd, end->spare->data, BURSTS_FRAME, MSG_DONTWAIT);
		bursts_count(end, n > 0, begun_ns);
		if (n <= 0)
			return count;
		xk_msg_truncate(end->spare, (size_t)n);
		frames[count] = end->spare;
		end->spare = NULL;
	}
	return count;
}

/* A datagram that finds no room is retried later, as on a full ring. */
static unsigned
bursts_socket_transmit(void *context, struct xk_msg **frames, unsigned count)
{
	struct bursts_end *end = context;
	struct iovec pieces[BURSTS_PIECES];
	unsigned taken = 0;

	for (; taken < count; taken++) {
		struct msghdr m = { .msg_name = &end->peer, .msg_namelen = sizeof(end->peer), .msg_iov = pieces };
		uint64_t begun_ns;
		ssize_t n;

		for (const struct xk_msg *piece = frames[taken]; piece != NULL; piece = piece->next) {
			xk_assert(m.msg_iovlen < BURSTS_PIECES);
			pieces[m.msg_iovlen++] = (struct iovec){ piece->data, piece->len };
		}
		begun_ns = clock_now_ns(&end->bursts->clock);
		n = sendmsg(end->fd, &m, MSG_DONTWAIT);
		bursts_count(end, n > 0, begun_ns);
		if (n < 0 && (errno == EAGAIN || errno == ENOBUFS))
			break;
		xk_msg_free(frames[taken]);
	}
	return taken;
}

static bool
bursts_socket_open(struct bursts_end *end, struct bursts_end *other)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(here);
	int room = BURSTS_ROOM;

	end->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (end->fd < 0 || bind(end->fd, (const struct sockaddr *)&here, sizeof(here)) != 0 ||
	    getsockname(end->fd, (struct sockaddr *)&other->peer, &len) != 0)
		return bursts_fail("a socket", errno);
	if (setsockopt(end->fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) != 0)
		setsockopt(end->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	return true;
}

/* ---- a link in memory ---- */

static unsigned
bursts_memory_receive(void *context, struct xk_msg **frames, unsigned max)
{
	struct bursts_end *end = context;
	unsigned count = 0;

	for (; count < max && end->count > 0; count++, end->count--) {
		frames[count] = end->queue[end->first];
		end->first = (end->first + 1) % BURSTS_FRAMES;
	}
	return count;
}

static unsigned
bursts_memory_transmit(void *context, struct xk_msg **frames, unsigned count)
{
	struct bursts_end *from = context, *to = &from->bursts->ends[from == &from->bursts->ends[CLIENT]];
	unsigned taken = 0;

	for (; taken < count && to->count < BURSTS_FRAMES; taken++, to->count++) {
		frames[taken]->flags = 0;
		to->queue[(to->first + to->count) % BURSTS_FRAMES] = frames[taken];
	}
	return taken;
}

/* ---- the protocol above ---- */

/* Enables the endpoint. Its handlers are registered afterwards. */
static int
bursts_init(struct xk_protocol *self)
{
	struct xk_participants here = { .local.depth = 0 };

	xk_participant_push(&here.local, BURSTS_NAME);
	return xk_open_enable(self, self, xk_lower(self, 0), &here);
}

/* No message arrives here: each has a handler. */
static void
bursts_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	xk_drop(self, m, XK_DROP_NO_SESSION);
}

static const struct xk_protocol_ops bursts_ops = { .init = bursts_init, .demux = bursts_demux };

static const struct xk_role bursts_lowers[] = {
	{ .name = "am", .needs = XK_ASYNC, .help = "carries requests" },
	{ .name = NULL },
};

/* Replaces the test protocol at the top of am's graphs. */
static const struct xk_protocol_type bursts_type = {
	.name = "udptest",
	.help = "Sends bursts of Active Messages.",
	.ops = &bursts_ops,
	.size = sizeof(struct xk_protocol),
	.lowers = bursts_lowers,
};

/* The server's handler of requests. */
static void
bursts_handle_request(void *argument, const struct xk_am_arrival *arrival, struct xk_msg *m, struct xk_am_reply *reply)
{
	const struct bursts *b = argument;

	(void)arrival;
	xk_msg_free(m);
	reply->given = true;
	reply->number = BURSTS_REPLY_HANDLER;
	reply->count = BURSTS_WORDS;
	reply->words[0] = b->memory.id;
}

/* The client's handler of replies. */
static void
bursts_handle_reply(void *argument, const struct xk_am_arrival *arrival, struct xk_msg *m, struct xk_am_reply *reply)
{
	struct bursts *b = argument;

	(void)reply;
	b->region = arrival->words[0];
	b->replies++;
	xk_msg_free(m);
}

/* The client's handler of returned requests, which count as answered. */
static void
bursts_handle_returned(void *argument, struct xk_session *s, unsigned number, struct xk_msg *m, int status)
{
	struct bursts *b = argument;

	(void)s;
	if (number == BURSTS_UNREGISTERED && status == -ENOENT)
		b->replies++;
	xk_msg_free(m);
}

/* ---- hosts ---- */

#ifdef XK_HAVE_DPDK
/* Returns the port, or NULL after a message. */
static struct xk_port *
bursts_virtio_open(struct bursts *b, unsigned which)
{
	struct xk_dpdk_config config = { .core = (int)b->options.cores.value[which] };
	struct xk_dpdk_port_config port = { .link = "virtio",
					    .name = "port",
					    .device = b->device,
					    .end = which == CLIENT ? XK_DPDK_CLIENT : XK_DPDK_SERVER };
	struct xk_port *opened = NULL;
	char why[XK_DPDK_WHY];

	if (xk_dpdk_start(&config, &b->ends[which].platform, why, sizeof(why)) == 0)
		opened = xk_dpdk_open(b->ends[which].platform, &port, why, sizeof(why));
	if (opened == NULL)
		fprintf(stderr, "bursts: %s\n", why);
	return opened;
}
#else
static struct xk_port *
bursts_virtio_open(struct bursts *b, unsigned which)
{
	fprintf(stderr, "bursts: this build has no virtio\n");
	return NULL;
}
#endif

static struct xk_port *
bursts_port_open(struct bursts *b, unsigned which)
{
	struct bursts_end *end = &b->ends[which];
	struct xk_port *port;

	if (b->options.link == BURSTS_VIRTIO)
		return bursts_virtio_open(b, which);
	end->platform = xk_memory_platform_new(b->stands_still ? XK_MEMORY_VIRTUAL : XK_MEMORY_REAL);
	port = end->platform == NULL
		       ? NULL
		       : xk_memory_port_new(end->platform, "port", UINT64_C(0x020000000001) + which, BURSTS_MTU);
	if (port == NULL) {
		bursts_fail("a port", ENOMEM);
		return NULL;
	}
	xk_memory_platform_calibrate(end->platform);
	if (b->options.link == BURSTS_SOCKET)
		xk_memory_loop(port, bursts_socket_receive, bursts_socket_transmit, end);
	else
		xk_memory_loop(port, bursts_memory_receive, bursts_memory_transmit, end);
	return port;
}

static bool
bursts_host_open(struct bursts *b, unsigned which)
{
	static const struct xk_protocol_type *const types[] = { &bursts_type, NULL };
	char outstanding[32];
	/* A process may lose its core for some milliseconds; its unanswered messages must not time out. */
	const char *const sets[] = { which == CLIENT ? "vnet.address=10.77.0.1/24" : "vnet.address=10.77.0.2/24",
				     outstanding, "am.queue=64", "am.timeout_min=20ms", NULL };
	const struct xk_graph_source source = { .file = b->options.graph, .sets = sets, .types = types };
	struct bursts_end *end = &b->ends[which];
	struct xk_port *port = bursts_port_open(b, which);
	struct xk_kernel_config config = {
		.name = which == CLIENT ? "client" : "server", .platform = end->platform, .mode = XK_IPP, .core = -1
	};
	struct xk_am_handler handler = { .run = which == CLIENT ? bursts_handle_reply : bursts_handle_request,
					 .argument = b };
	struct xk_am_endpoint endpoint = { .returned = bursts_handle_returned, .argument = b };
	struct xk_protocol *top;
	int err;

	if (port == NULL)
		return false;
	snprintf(outstanding, sizeof(outstanding), "am.outstanding=%d", BURSTS_WINDOW);
	end->kernel = xk_kernel_new(&config);
	if (end->kernel == NULL)
		return bursts_fail("a host", ENOMEM);
	xk_kernel_add_port(end->kernel, port);
	err = xk_graph_compose(&source, end->kernel, stderr);
	top = err == 0 ? xk_kernel_find(end->kernel, "udptest") : NULL;
	if (top == NULL || strcmp(xk_lower(top, 0)->type->name, "am") != 0)
		return bursts_fail("--graph: the graph has no udptest above am", 0);
	end->am = xk_lower(top, 0);
	err = xk_am_register(end->am, BURSTS_NAME, which == CLIENT ? BURSTS_REPLY_HANDLER : BURSTS_REQUEST_HANDLER,
			     &handler);
	if (err == 0 && which == CLIENT)
		err = xk_am_set_endpoint(end->am, BURSTS_NAME, &endpoint);
	if (err == 0 && which == SERVER) {
		b->memory = (struct xk_region){ .base = b->bytes, .len = BURSTS_SIZE_MAX, .port = BURSTS_NAME };
		err = xk_region_register(end->am, &b->memory);
	}
	return err == 0 || bursts_fail("the handlers", -err);
}

static void
bursts_host_close(struct bursts *b, unsigned which)
{
	struct bursts_end *end = &b->ends[which];

	for (; end->count > 0; end->count--) {
		xk_msg_free(end->queue[end->first]);
		end->first = (end->first + 1) % BURSTS_FRAMES;
	}
	xk_msg_free(end->spare);
	if (end->kernel != NULL)
		xk_kernel_free(end->kernel);
	end->kernel = NULL;
}

/* Frees an end's platform. The caller has closed both hosts of the process: they may hold each other's buffers. */
static void
bursts_platform_free(struct bursts *b, unsigned which)
{
	struct xk_platform *platform = b->ends[which].platform;

#ifdef XK_HAVE_DPDK
	if (b->options.link == BURSTS_VIRTIO) {
		xk_dpdk_stop(platform);
		return;
	}
#endif
	if (platform != NULL)
		xk_memory_platform_free(platform);
}

/* ---- turns ---- */

/* Does the client's work apart from its requests. */
BURSTS_NAMED static void
bursts_turn(struct bursts *b)
{
	xk_kernel_turn(b->ends[CLIENT].kernel);
}

/* Lets the server run if it is in this thread or on this core. */
static void
bursts_yield(struct bursts *b)
{
	if (b->options.together)
		xk_kernel_turn(b->ends[SERVER].kernel);
	else if (b->yields)
		sched_yield();
}

/* Takes turns until is_done(b). Returns false after a message if that takes too long. */
static bool
bursts_await(struct bursts *b, bool (*is_done)(const struct bursts *b))
{
	uint64_t until_ns = clock_system_ns() + BURSTS_PATIENCE_NS;

	for (unsigned turns = 0; !is_done(b); turns++) {
		bursts_turn(b);
		bursts_yield(b);
		if (turns % BURSTS_CLOCK_TURNS != 0)
			continue;
		if (atomic_load_explicit(&b->shared->failed, memory_order_relaxed))
			return false; /* the server has printed why */
		if (clock_system_ns() > until_ns)
			return bursts_fail("the server did not answer; name idle --cores", ETIMEDOUT);
	}
	return true;
}

/* Lets messages in flight arrive, so that bursts do not overlap. */
static void
bursts_rest(struct bursts *b)
{
	uint64_t until_ns = clock_now_ns(&b->clock) + BURSTS_REST_NS;

	for (unsigned i = 0; i < BURSTS_REST_TURNS || (!b->stands_still && clock_now_ns(&b->clock) < until_ns); i++) {
		xk_kernel_turn(b->ends[CLIENT].kernel);
		bursts_yield(b);
	}
}

/* ---- the client ---- */

static bool
bursts_is_opened(const struct bursts *b)
{
	return b->opened;
}

static bool
bursts_is_answered(const struct bursts *b)
{
	return b->replies == b->sent;
}

/* Returns whether AM would send another packet at once. */
static bool
bursts_has_credit(const struct bursts *b)
{
	uint32_t waiting = 0;

	if (b->size <= b->max_packet)
		return b->sent - b->replies < BURSTS_WINDOW;
	xk_control(b->session, XK_AM_GET_WAITING, &waiting);
	return waiting == 0;
}

/* Sends one message from the program's memory. */
BURSTS_NAMED static int
bursts_request(struct bursts *b)
{
	struct xk_am_push push = { .number = b->number, .count = BURSTS_WORDS };
	struct xk_msg *m = NULL;

	if (b->size > 0) {
		m = xk_msg_from(b->ends[CLIENT].platform, b->bytes, b->size);
		if (m == NULL)
			return -ENOBUFS;
		push.part.region = b->size <= b->max_packet ? 0 : b->region;
	}
	b->sent++;
	return xk_am_request(b->session, &push, m);
}

/* Opens the session. Runs in a shepherd because it waits for the server's link address. */
static void
bursts_open(void *argument)
{
	struct bursts *b = argument;
	struct xk_protocol *top = xk_kernel_find(b->ends[CLIENT].kernel, "udptest");
	struct xk_participants to = { .remote.depth = 0 };

	xk_participant_push(&to.remote, BURSTS_SERVER_ADDRESS);
	xk_participant_push(&to.remote, BURSTS_NAME);
	xk_participant_push(&to.local, BURSTS_NAME);
	b->open_error = xk_open(top, top, b->ends[CLIENT].am, &to, &b->session);
	b->opened = true;
}

/* Opens the session and makes the first request, whose reply names the server's memory. */
static bool
bursts_begin(struct bursts *b)
{
	uint32_t longest = 0;
	int err = xk_thread_start(b->ends[CLIENT].kernel, "opener", bursts_open, b);

	if (err != 0)
		return bursts_fail("no stack", -err);
	if (!bursts_await(b, bursts_is_opened))
		return false;
	if (b->open_error != 0)
		return bursts_fail("no session", -b->open_error);
	if (xk_control(b->session, XK_GET_OPT_PACKET, &longest) != 0)
		return bursts_fail("the length of a packet", ENOTSUP);
	b->max_packet = longest - 4 * BURSTS_WORDS;
	b->number = BURSTS_REQUEST_HANDLER;
	err = bursts_request(b);
	return err == 0 ? bursts_await(b, bursts_is_answered) : bursts_fail("the first request", -err);
}

/* Sends a burst and stores its figures in sample. */
static bool
bursts_burst(struct bursts *b, uint64_t messages, double sample[BURSTS_FIGURES])
{
	const struct bursts_calls *calls = &b->ends[CLIENT].calls, before = *calls;
	uint64_t begun_ns = clock_now_ns(&b->clock);

	for (uint64_t i = 0; i < messages; i++) {
		int err;

		if (!bursts_has_credit(b) && !bursts_await(b, bursts_has_credit))
			return false;
		err = bursts_request(b);
		if (err != 0)
			return bursts_fail("a request", -err);
	}
	sample[BURSTS_SENT] = (double)(clock_now_ns(&b->clock) - begun_ns);
	sample[BURSTS_KERNEL_SENT] = (double)(calls->carried_ns - before.carried_ns);
	sample[BURSTS_CALLS_SENT] = (double)(calls->carried - before.carried);
	if (!bursts_await(b, bursts_is_answered))
		return false;
	sample[BURSTS_ANSWERED] = (double)(clock_now_ns(&b->clock) - begun_ns);
	sample[BURSTS_KERNEL] = (double)(calls->carried_ns - before.carried_ns);
	sample[BURSTS_CALLS] = (double)(calls->carried - before.carried);
	sample[BURSTS_EMPTY] = (double)(calls->empty - before.empty);
	for (unsigned i = 0; i < BURSTS_FIGURES; i++)
		sample[i] /= (double)messages;
	bursts_rest(b);
	return true;
}

/* Alternates all kinds of bursts, so that a disturbance affects all of them. */
static bool
bursts_measure(struct bursts *b)
{
	const struct bursts_options *o = &b->options;
	double sample[BURSTS_FIGURES];

	if (o->returned)
		b->number = BURSTS_UNREGISTERED;
	for (uint64_t round = 0; round < BURSTS_WARM_UP + o->rounds; round++)
		for (unsigned i = 0; i < o->sizes.count; i++)
			for (unsigned j = 0; j < o->messages.count; j++) {
				b->size = o->sizes.value[i];
				if (!bursts_burst(b, o->messages.value[j], sample))
					return false;
				for (unsigned k = 0; k < BURSTS_FIGURES && round >= BURSTS_WARM_UP; k++)
					b->samples[i][j][k][round - BURSTS_WARM_UP] = sample[k];
			}
	return true;
}

/* Returns the client's retransmissions plus the duplicates that it received from the server. */
static uint64_t
bursts_retransmitted(const struct xk_protocol *am)
{
	unsigned counter = 0, drop = 0;

	while (strcmp(am->type->counters[counter], "retransmitted") != 0)
		counter++;
	while (strcmp(xk_drop_name(am->type, drop), "duplicate") != 0)
		drop++;
	return xk_counter(am, counter) + atomic_load_explicit(&am->drops[drop], memory_order_relaxed);
}

static void
bursts_print(struct bursts *b)
{
	const struct bursts_options *o = &b->options;
	unsigned rounds = (unsigned)o->rounds;
	struct json json;

	if (!o->json)
		printf("%8s %8s %10s %10s\n", "bytes", "messages", "sent, ns", "answered");
	json_begin(&json, stdout);
	if (o->json) {
		json_object(&json, NULL);
		json_string(&json, "link", bursts_links[o->link]);
		json_double(&json, "ghz", b->ghz);
		json_uint(&json, "window", BURSTS_WINDOW);
		json_uint(&json, "packet", b->max_packet);
		json_uint(&json, "retransmitted", b->retransmitted);
		machine_json(&b->machine, &json, "machine");
		json_array(&json, "runs");
	}
	for (unsigned i = 0; i < o->sizes.count; i++)
		for (unsigned j = 0; j < o->messages.count; j++) {
			double medians[BURSTS_FIGURES];

			for (unsigned k = 0; k < BURSTS_FIGURES; k++)
				medians[k] = batches_median(b->samples[i][j][k], rounds);
			if (!o->json) {
				printf("%8" PRIu64 " %8" PRIu64 " %10.1f %10.1f\n", o->sizes.value[i],
				       o->messages.value[j], medians[BURSTS_SENT], medians[BURSTS_ANSWERED]);
				continue;
			}
			json_object(&json, NULL);
			json_uint(&json, "size", o->sizes.value[i]);
			json_uint(&json, "messages", o->messages.value[j]);
			for (unsigned k = 0; k < BURSTS_FIGURES; k++)
				json_double(&json, bursts_figures[k], medians[k]);
			json_close(&json);
		}
	if (o->json) {
		json_close(&json);
		json_close(&json);
		json_end(&json);
	}
}

/* ---- two processes, or one ---- */

static bool
bursts_pin(uint64_t core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0 ||
	       bursts_fail("a core of --cores (`taskset -p $$` prints those that this process may use)", errno);
}

/* The server's process. */
__attribute__((noreturn)) static void
bursts_serve(struct bursts *b)
{
	bool good = bursts_pin(b->options.cores.value[1]);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	good = good && bursts_host_open(b, SERVER);
	if (!good)
		atomic_store_explicit(&b->shared->failed, true, memory_order_relaxed);
	while (good && !atomic_load_explicit(&b->shared->ended, memory_order_relaxed)) {
		xk_kernel_turn(b->ends[SERVER].kernel);
		if (b->yields)
			sched_yield();
	}
	bursts_host_close(b, SERVER);
	bursts_platform_free(b, SERVER);
	_exit(good ? OPTIONS_SUCCESS : OPTIONS_FAILURE);
}

/* Returns a cache line's round trip between the processes' cores. No other thread polls meanwhile. */
static uint64_t
bursts_line_ns(const struct bursts *b)
{
	const uint64_t *cores = b->options.cores.value;

	return b->options.together ? 0 : machine_cache_line_ns((unsigned)cores[CLIENT], (unsigned)cores[SERVER]);
}

static bool
bursts_start(struct bursts *b)
{
	struct clock_pair before;

	clock_read(&before);
	clock_calibrate(&b->clock, &before, BURSTS_CALIBRATE_NS);
	if (b->clock.has_counter)
		b->ghz = (double)(UINT64_C(1) << 32) / (double)b->clock.scale;
	if (b->options.link == BURSTS_SOCKET && (!bursts_socket_open(&b->ends[CLIENT], &b->ends[SERVER]) ||
						 !bursts_socket_open(&b->ends[SERVER], &b->ends[CLIENT])))
		return false;
	/* cppcheck-suppress invalidFunctionArg; -1 is what anonymous memory takes */
	b->shared = mmap(NULL, sizeof(*b->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b->shared == MAP_FAILED)
		return bursts_fail("memory", errno);
	if (b->options.together)
		return bursts_host_open(b, SERVER) && bursts_host_open(b, CLIENT);
	b->server = fork();
	if (b->server == 0)
		bursts_serve(b);
	if (b->server < 0)
		return bursts_fail("a process", errno);
	return bursts_pin(b->options.cores.value[0]) && bursts_host_open(b, CLIENT);
}

/* Ends both hosts. Returns whether the server ended normally. */
static bool
bursts_end(struct bursts *b)
{
	int status = 0;

	if (b->session != NULL)
		xk_close(b->session);
	bursts_host_close(b, CLIENT);
	if (b->options.together)
		bursts_host_close(b, SERVER);
	bursts_platform_free(b, CLIENT);
	if (b->options.together)
		bursts_platform_free(b, SERVER);
	if (b->server <= 0)
		return true;
	atomic_store_explicit(&b->shared->ended, true, memory_order_relaxed);
	return waitpid(b->server, &status, 0) == b->server && status == 0;
}

int
main(int argc, char **argv)
{
	struct bursts *b = calloc(1, sizeof(*b));
	struct options_texts operands;
	cpu_set_t allowed;
	bool good;
	int status;

	if (b == NULL)
		return OPTIONS_FAILURE;
	b->options = (struct bursts_options){ .graph = "graphs/am.dot",
					      .cores = { 2, { 0, 1 } },
					      .sizes = { 1, { 0 } },
					      .messages = { 3, { 1, 4, 128 } },
					      .rounds = 1000 };
	status = options_parse(&bursts_program, argc, argv, b, &operands);
	if (status == OPTIONS_GO && b->options.cores.count != 2)
		status = options_misuse(&bursts_program, "--cores takes two cores");
	if (status == OPTIONS_GO && b->options.together && b->options.link == BURSTS_VIRTIO)
		status = options_misuse(&bursts_program, "--together: virtio joins two processes");
	if (status != OPTIONS_GO) {
		free(b);
		return status;
	}
	b->stands_still = b->options.link == BURSTS_MEMORY;
	b->options.together |= b->stands_still;
	b->yields = b->options.cores.value[0] == b->options.cores.value[1];
	snprintf(b->device, sizeof(b->device), "bursts-%d", (int)getpid());
	for (unsigned i = 0; i < ENDS; i++) {
		b->ends[i].bursts = b;
		b->ends[i].fd = -1;
	}
	machine_describe(&b->machine);
	sched_getaffinity(0, sizeof(allowed), &allowed);
	b->machine.line_ns[0] = bursts_line_ns(b);
	good = bursts_start(b) && bursts_begin(b) && bursts_measure(b);
	if (good)
		b->retransmitted = bursts_retransmitted(b->ends[CLIENT].am);
	good = bursts_end(b) && good;
	sched_setaffinity(0, sizeof(allowed), &allowed); /* bursts_start() has pinned this process */
	b->machine.line_ns[1] = bursts_line_ns(b);
	if (good)
		bursts_print(b);
	free(b);
	return good ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}
