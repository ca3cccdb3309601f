/*
 * connections.c - opens very many TCP connections between two hosts and keeps them: what one costs, in memory and time,
 * and whether the last costs more than the first. README.md explains the output.
 *
 * Both hosts are whole kernels on ports in memory, whose drivers this program's thread runs in turn. A shepherd of the
 * client opens the connections one after another, then makes round trips of one byte on the first thousand and on the
 * last. With --tap, the only host is the client, and the server is Linux at the other end of a tap.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "protocols/tcp/tcp_private.h"
#include "tools/options.h"
#include "xkernel/kernel.h"

enum {
	CLIENT,
	SERVER,
	ENDS,
	CONNECTIONS_MAX = 1000000,
	BATCH = 1000, /* connections that are timed together */
	TRIPS = 20,   /* on each of these */
	QUEUE = 256,  /* frames */
	PORT = 5001,  /* the first of the server's; each serves PER_PORT */
	PER_PORT = 15000,
	FRAME_MAX = 1514,
};

static const char graph[] =
	"digraph connections { holder -> tcp; tcp -> ip; ip -> vnet; vnet -> eth; vnet -> arp;"
	"arp -> eth; eth -> port; tcp [eager=yes, connections=\"2m\"]; vnet [address=\"10.0.0.%u/8\"] }";

struct connections_options {
	uint64_t connections;
	const char *tap;
};

static const struct options_option connections_table[] = {
	OPTION(NUMBER, struct connections_options, connections, "connections", "N", "connections (100000)",
	       .min = BATCH, .max = CONNECTIONS_MAX),
	OPTION(TEXT, struct connections_options, tap, "tap", "NAME",
	       "open them to Linux, which has the address 10.0.0.2 on this tap, and a server that sends everything "
	       "back"),
	{ .name = NULL },
};

static const struct options_program connections_program = {
	.name = "connections",
	.usage = "[OPTION]...",
	.about = "Opens very many TCP connections between two hosts in memory, and keeps them.",
	.options = connections_table,
};

struct end {
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	struct end *other;
	int tap;                     /* -1: the other end is a host of ours */
	struct xk_msg *queue[QUEUE]; /* a ring of frames that arrive here next */
	unsigned first, count;
};

/* The protocol above TCP. */
struct holder {
	struct xk_protocol protocol;
	struct xk_session **sessions; /* references */
	uint64_t most, held;
	bool is_client;
	struct xk_semaphore answered;
	double begun_s, first_open_s, last_open_s, first_trip_s, last_trip_s;
	int err;
	_Atomic bool is_done; /* after everything else was written */
};

static double
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- the wire ---- */

static unsigned
end_receive(void *context, struct xk_msg **arrived, unsigned max)
{
	struct end *end = context;
	unsigned count = 0;

	for (; count < max && end->first != end->count; count++, end->first++)
		arrived[count] = end->queue[end->first % QUEUE];
	return count;
}

static unsigned
end_transmit(void *context, struct xk_msg **sent, unsigned count)
{
	struct end *to = ((struct end *)context)->other;
	unsigned taken = 0;

	for (; taken < count && to->count - to->first < QUEUE; taken++) {
		size_t len = xk_msg_len(sent[taken]);
		struct xk_msg *m = xk_memory_frame(to->platform, len);

		if (m == NULL)
			break;
		xk_msg_copy_first(sent[taken], m->data, len);
		xk_msg_free(sent[taken]);
		to->queue[to->count++ % QUEUE] = m;
	}
	return taken;
}

static unsigned
tap_receive(void *context, struct xk_msg **arrived, unsigned max)
{
	struct end *end = context;
	uint8_t frame[FRAME_MAX];
	unsigned count = 0;
	ssize_t len;

	for (; count < max && (len = read(end->tap, frame, sizeof(frame))) > 0; count++) {
		arrived[count] = xk_memory_frame(end->platform, (size_t)len);
		if (arrived[count] == NULL)
			break;
		memcpy(arrived[count]->data, frame, (size_t)len);
	}
	return count;
}

static unsigned
tap_transmit(void *context, struct xk_msg **sent, unsigned count)
{
	const struct end *end = context;
	uint8_t frame[FRAME_MAX];
	unsigned taken = 0;

	for (; taken < count; taken++) {
		size_t len = xk_msg_len(sent[taken]);

		xk_msg_copy_first(sent[taken], frame, len);
		if (write(end->tap, frame, len) != (ssize_t)len)
			break;
		xk_msg_free(sent[taken]);
	}
	return taken;
}

/* Returns a descriptor of the tap, which never waits; -1: errno says why not. */
static int
tap_open(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };
	int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (tap < 0)
		return -1;
	if (snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name) >= (int)sizeof(request.ifr_name))
		errno = ENAMETOOLONG;
	else if (ioctl(tap, TUNSETIFF, &request) == 0)
		return tap;
	close(tap);
	return -1;
}

/* ---- the protocol ---- */

static int
holder_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *s, struct xk_protocol *hlp_type)
{
	struct holder *holder = (struct holder *)self;

	(void)llp;
	(void)hlp_type;
	if (holder->held == holder->most || !xk_duplicate(s))
		return -ECONNREFUSED;
	holder->sessions[holder->held++] = s;
	return 0;
}

/* The server sends everything back. */
static void
holder_demux(struct xk_protocol *self, struct xk_session *s, struct xk_msg *m)
{
	struct holder *holder = (struct holder *)self;

	if (!holder->is_client) {
		xk_push(s, m);
		return;
	}
	xk_msg_free(m);
	xk_semaphore_signal(&holder->answered);
}

/* Makes round trips on a thousand connections. Returns the seconds of one. */
static double
holder_trips(struct holder *holder, struct xk_session *const sessions[BATCH])
{
	double begun_s = seconds();

	for (unsigned i = 0; i < BATCH * TRIPS && holder->err == 0; i++) {
		struct xk_msg *m = xk_msg_from(xk_platform_of(&holder->protocol), "x", 1);

		holder->err = m == NULL ? -ENOBUFS : xk_push(sessions[i % BATCH], m);
		if (holder->err == 0)
			holder->err = xk_semaphore_wait(&holder->answered, 1000000);
	}
	return (seconds() - begun_s) / (BATCH * TRIPS);
}

static void
holder_run(void *argument)
{
	struct holder *holder = argument;
	struct xk_protocol *self = &holder->protocol;
	double begun_s = seconds();

	while (holder->held < holder->most && holder->err == 0) {
		struct xk_participants to = { .remote = { 2, { 0x0a000002, PORT + holder->held / PER_PORT } } };

		if (holder->held == holder->most - BATCH)
			begun_s = seconds();
		holder->err = xk_open(self, self, xk_lower(self, 0), &to, &holder->sessions[holder->held]);
		holder->held += holder->err == 0;
		if (holder->held == BATCH)
			holder->first_open_s = (seconds() - begun_s) / BATCH;
	}
	holder->last_open_s = (seconds() - begun_s) / BATCH;
	if (holder->err == 0) {
		holder->first_trip_s = holder_trips(holder, holder->sessions);
		holder->last_trip_s = holder_trips(holder, holder->sessions + holder->most - BATCH);
	}
	holder->is_done = true;
}

static void
holder_fini(struct xk_protocol *self)
{
	struct holder *holder = (struct holder *)self;

	free(holder->sessions);
}

static const struct xk_protocol_ops holder_ops = {
	.fini = holder_fini,
	.open_done = holder_open_done,
	.demux = holder_demux,
};

static const struct xk_role holder_lowers[] = {
	{ "stream", XK_ASYNC, "tcp", "carries the connections" },
	{ .name = NULL },
};

static const struct xk_protocol_type holder_type = { .name = "holder",
						     .help = "Opens connections, and keeps them.",
						     .ops = &holder_ops,
						     .size = sizeof(struct holder),
						     .lowers = holder_lowers };

/* ---- hosts ---- */

static struct holder *
end_begin(struct end *end, unsigned number, uint64_t connections)
{
	static const struct xk_protocol_type *const types[] = { &holder_type, NULL };
	struct xk_kernel_config config = { .name = number == 1 ? "client" : "server", .mode = XK_IPP, .core = -1 };
	struct xk_port *port;
	char text[512];
	struct xk_graph_source source = { .text = text, .types = types };
	struct holder *holder;

	config.platform = end->platform = xk_memory_platform_new(XK_MEMORY_REAL);
	xk_memory_platform_calibrate(end->platform);
	port = xk_memory_port_new(end->platform, "port", 0x020000000000 + number, 1500);
	end->kernel = xk_kernel_new(&config);
	xk_memory_loop(port, end->tap < 0 ? end_receive : tap_receive, end->tap < 0 ? end_transmit : tap_transmit, end);
	xk_kernel_add_port(end->kernel, port);
	snprintf(text, sizeof(text), graph, number);
	if (xk_graph_compose(&source, end->kernel, stderr) != 0)
		exit(OPTIONS_FAILURE);
	holder = (struct holder *)xk_kernel_find(end->kernel, "holder");
	holder->sessions = calloc(connections, sizeof(struct xk_session *));
	xk_assert(holder->sessions != NULL);
	holder->most = connections;
	holder->is_client = number == 1;
	return holder;
}

static double
heap(void)
{
	struct mallinfo2 info = mallinfo2();

	return (double)info.uordblks + (double)info.hblkhd;
}

/* Closes everything, and frees the hosts. */
static void
ends_end(struct end *ends, unsigned hosts, struct holder *const *holders)
{
	for (uint64_t left = holders[CLIENT]->most; left > 0; left--) {
		for (unsigned i = 0; i < hosts; i++)
			if (left <= holders[i]->held)
				xk_close(holders[i]->sessions[left - 1]);
		for (unsigned i = 0; i < hosts && left % 16 == 0; i++)
			xk_kernel_turn(ends[i].kernel);
	}
	for (unsigned i = 0; i < hosts; i++)
		xk_kernel_free(ends[i].kernel);
	for (unsigned i = 0; i < hosts; i++) {
		for (; ends[i].first != ends[i].count; ends[i].first++)
			xk_msg_free(ends[i].queue[ends[i].first % QUEUE]);
		xk_memory_platform_free(ends[i].platform);
	}
}

static void
report(const struct holder *client, unsigned hosts, double heap_bytes)
{
	uint64_t connections = client->most;

	printf("%" PRIu64 " connections, %s:\n", connections,
	       hosts == ENDS ? "both ends in one process" : "to a server of Linux");
	printf("  %-44s %8.0f\n", hosts == ENDS ? "heap, bytes for both ends of one" : "heap, bytes for our end of one",
	       heap_bytes / (double)connections);
	printf("  %-44s %8zu\n", "TCP's own state of one end, bytes",
	       sizeof(struct tcp_connection) - sizeof(struct xk_session));
	printf("  %-44s %8.2f %8.2f %6.2f\n", "an open, us: first and last thousand, ratio", 1e6 * client->first_open_s,
	       1e6 * client->last_open_s, client->last_open_s / client->first_open_s);
	printf("  %-44s %8.2f %8.2f %6.2f\n", "a round trip of 1 byte, us", 1e6 * client->first_trip_s,
	       1e6 * client->last_trip_s, client->last_trip_s / client->first_trip_s);
}

int
main(int argc, char **argv)
{
	struct connections_options options = { .connections = 100000 };
	static struct end ends[ENDS];
	struct holder *holders[ENDS] = { NULL }, *client;
	struct options_texts operands;
	unsigned hosts;
	bool is_whole;
	double before;
	int status = options_parse(&connections_program, argc, argv, &options, &operands);

	if (status != OPTIONS_GO)
		return status;
	hosts = options.tap == NULL ? ENDS : 1;
	for (unsigned i = 0; i < ENDS; i++)
		ends[i] = (struct end){ .other = &ends[!i], .tap = -1 };
	if (options.tap != NULL && (ends[CLIENT].tap = tap_open(options.tap)) < 0) {
		fprintf(stderr, "connections: tap %s: %s\n", options.tap, xk_error(errno));
		return OPTIONS_FAILURE;
	}
	for (unsigned i = 0; i < hosts; i++)
		holders[i] = end_begin(&ends[i], i + 1, options.connections);
	client = holders[CLIENT];
	xk_semaphore_init(&client->answered, &client->protocol, 0);
	for (uint64_t i = 0; i <= options.connections / PER_PORT && hosts == ENDS; i++) {
		struct xk_participants own = { .local = { 1, { (uint32_t)(PORT + i) } } };
		struct xk_protocol *server = &holders[SERVER]->protocol;

		if (xk_open_enable(server, server, xk_lower(server, 0), &own) != 0)
			return OPTIONS_FAILURE;
	}
	before = heap();
	if (xk_thread_start(ends[CLIENT].kernel, "holder", holder_run, client) != 0)
		return OPTIONS_FAILURE;
	while (!client->is_done)
		for (unsigned i = 0; i < hosts; i++)
			xk_kernel_turn(ends[i].kernel);
	is_whole = client->err == 0 && (hosts == 1 || holders[SERVER]->held == options.connections);
	if (is_whole)
		report(client, hosts, heap() - before);
	else
		fprintf(stderr, "connections: %" PRIu64 " opened, %" PRIu64 " accepted: %s\n", client->held,
			hosts == ENDS ? holders[SERVER]->held : 0, xk_error(-client->err));
	ends_end(ends, hosts, holders);
	return is_whole ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}
