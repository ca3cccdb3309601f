/*
 * crowd.c - measures the memory per client and the calls per second of one server (the graph of chantest) with very
 * many clients. Then all clients reboot at once and call again. README.md explains its use and its output.
 *
 * The server is a whole kernel on a port in memory and a virtual clock, driven by this program's only thread. The
 * clients (client.h) are at the other end of the port. Each run is therefore the same; only its cost varies.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "experiments/crowd/client.h"
#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "tools/options.h"
#include "xkernel/kernel.h"

enum {
	CROWD_PHASES = 2,
	CROWD_MTU = 1500,
	CROWD_FRAME_NS = 1000,     /* virtual time between two clients' frames */
	CROWD_IDLE_NS = 1000000,   /* virtual time that passes in an idle turn */
	CROWD_IDLE_TURNS = 1000,   /* in a second */
	CROWD_STUCK_TURNS = 10000, /* idle turns after which a client counts as stuck */
	CROWD_SETS = 16,
};

struct crowd_options {
	const char *graph;
	uint64_t clients, calls, window, rest;
	struct options_texts sets;
};

/* A phase's costs. */
struct crowd_phase {
	uint64_t calls, frames;
	double seconds;
	double heap, resident; /* growth in bytes since before the first client */
};

struct crowd {
	const struct crowd_options *options;
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	struct clients clients;
	struct client_frame *queue; /* ring of the clients' next frames */
	uint64_t queue_size, first, last;
	uint32_t booted, ended; /* clients, in this phase */
	unsigned phase, idle_turns;
	uint64_t frames, frames_before, calls_before;
	double begun, heap, resident;
	const char *wrong; /* NULL: no failure */
	struct crowd_phase phases[CROWD_PHASES];
};

static const struct options_option crowd_table[] = {
	OPTION(TEXT, struct crowd_options, graph, "graph", "FILE", "the graph (graphs/chantest.dot)"),
	OPTION(NUMBER, struct crowd_options, clients, "clients", "N", "clients (100000)", .min = 1, .max = CLIENT_MAX),
	OPTION(NUMBER, struct crowd_options, calls, "calls", "N", "calls of each client in each phase (3)", .min = 1,
	       .max = 1000000),
	OPTION(NUMBER, struct crowd_options, window, "window", "N", "clients that call at once (64)", .min = 1,
	       .max = CLIENT_MAX),
	OPTION(NUMBER, struct crowd_options, rest, "rest", "SECONDS",
	       "quiet time at the end of a phase, on the virtual clock (3)", .min = 1, .max = 1000),
	OPTION(TEXT_ANY, struct crowd_options, sets, "set", "NODE.ATTRIBUTE=VALUE", "override a node's attribute"),
	{ .name = NULL },
};

static const struct options_program crowd_program = {
	.name = "crowd",
	.usage = "[OPTION]...",
	.about = "Lets very many clients call one server, reboot, and call again.",
	.options = crowd_table,
};

/* ---- costs ---- */

static double
crowd_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double
crowd_heap(void)
{
	struct mallinfo2 info = mallinfo2();

	return (double)info.uordblks + (double)info.hblkhd;
}

static double
crowd_resident(void)
{
	unsigned long all, resident = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (file == NULL)
		return 0;
	if (fscanf(file, "%lu %lu", &all, &resident) != 2)
		resident = 0;
	fclose(file);
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* ---- phases ---- */

static void
crowd_phase_begin(struct crowd *crowd)
{
	crowd->booted = crowd->ended = 0;
	crowd->frames_before = crowd->frames;
	crowd->calls_before = crowd->clients.replies;
	crowd->begun = crowd_seconds();
}

/* Takes the phase's measurements. All calls have been answered. */
static void
crowd_phase_measure(struct crowd *crowd)
{
	crowd->phases[crowd->phase] = (struct crowd_phase){
		.calls = crowd->clients.replies - crowd->calls_before,
		.frames = crowd->frames - crowd->frames_before,
		.seconds = crowd_seconds() - crowd->begun,
	};
}

static void
crowd_phase_end(struct crowd *crowd)
{
	crowd->phases[crowd->phase].heap = crowd_heap() - crowd->heap;
	crowd->phases[crowd->phase].resident = crowd_resident() - crowd->resident;
	if (++crowd->phase == CROWD_PHASES)
		xk_kernel_halt(crowd->kernel);
	else
		crowd_phase_begin(crowd);
}

static void
crowd_fail(struct crowd *crowd, const char *wrong)
{
	if (crowd->wrong == NULL)
		crowd->wrong = wrong;
	xk_kernel_halt(crowd->kernel);
}

/* Runs when the server's driver would sleep. Advances the clock if no client has a frame to send. */
static void
crowd_idle(void *context)
{
	struct crowd *crowd = context;
	bool settles = crowd->ended == crowd->clients.count;

	if (crowd->first < crowd->last || crowd->phase == CROWD_PHASES || crowd->wrong != NULL)
		return;
	xk_memory_advance(crowd->platform, CROWD_IDLE_NS);
	crowd->idle_turns++;
	if (settles && crowd->idle_turns >= crowd->options->rest * CROWD_IDLE_TURNS)
		crowd_phase_end(crowd);
	else if (!settles && crowd->idle_turns >= CROWD_STUCK_TURNS)
		crowd_fail(crowd, "a client waits for a reply that does not arrive");
}

/* ---- the other end of the server's port ---- */

/* Queues frames of clients. */
static void
crowd_send(struct crowd *crowd, const struct client_frame *frames, unsigned count)
{
	if (crowd->last - crowd->first + count > crowd->queue_size)
		crowd_fail(crowd, "the queue of clients' frames is full");
	for (unsigned i = 0; i < count; i++)
		crowd->queue[crowd->last++ % crowd->queue_size] = frames[i];
}

/* Boots further clients, as many as the window allows. */
static void
crowd_boot_next(struct crowd *crowd)
{
	struct client_frame frames[CLIENT_ANSWERS];

	for (; crowd->booted < crowd->clients.count && crowd->booted - crowd->ended < crowd->options->window;
	     crowd->booted++)
		crowd_send(crowd, frames, client_boot(&crowd->clients, crowd->booted, crowd->phase + 1, frames));
}

static unsigned
crowd_receive(void *context, struct xk_msg **frames, unsigned max)
{
	struct crowd *crowd = context;
	unsigned count = 0;

	if (crowd->phase == CROWD_PHASES || crowd->wrong != NULL)
		return 0;
	crowd_boot_next(crowd);
	for (; count < max && crowd->first < crowd->last; count++, crowd->first++) {
		const struct client_frame *frame = &crowd->queue[crowd->first % crowd->queue_size];

		frames[count] = xk_msg_from(crowd->platform, frame->bytes, frame->len);
		xk_assert(frames[count] != NULL);
	}
	crowd->frames += count;
	xk_memory_advance(crowd->platform, (uint64_t)count * CROWD_FRAME_NS);
	return count;
}

static void
crowd_deliver(struct crowd *crowd, const struct xk_msg *m)
{
	struct client_frame answers[CLIENT_ANSWERS];
	uint8_t bytes[CROWD_MTU];
	size_t len = xk_msg_len(m);
	unsigned count;
	bool ended;

	xk_assert(len <= sizeof(bytes) && xk_msg_copy_out(m, 0, bytes, len));
	count = client_receive(&crowd->clients, bytes, len, answers, &ended);
	crowd_send(crowd, answers, count);
	if (count > 0 || ended)
		crowd->idle_turns = 0;
	if (ended && ++crowd->ended == crowd->clients.count)
		crowd_phase_measure(crowd);
}

static unsigned
crowd_transmit(void *context, struct xk_msg **frames, unsigned count)
{
	struct crowd *crowd = context;

	for (unsigned i = 0; i < count; i++) {
		crowd_deliver(crowd, frames[i]);
		xk_msg_free(frames[i]);
	}
	crowd->frames += count;
	return count;
}

/* ---- the server ---- */

/* Gives each protocol room for all clients. Returns false if the graph refuses. */
static bool
crowd_set_up(struct xk_graph *graph, const struct crowd_options *o, struct xk_graph_errors *errors)
{
	static const struct {
		const char *setting;
		unsigned factor; /* for each client */
	} rooms[] = {
		{ "eth.sessions", 3 },  { "vnet.sessions", 2 }, { "blast.sessions", 1 }, { "bid.sessions", 1 },
		{ "chan.channels", 2 }, { "chan.hosts", 1 },    { "bidctl.peers", 1 },   { "arp.entries", 1 },
	};
	char text[64];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(rooms); i++) {
		snprintf(text, sizeof(text), "%s=%" PRIu64, rooms[i].setting, rooms[i].factor * (o->clients + 1));
		if (xk_graph_set(graph, text, errors) != 0)
			return false;
	}
	for (unsigned i = 0; i < o->sets.count; i++)
		if (xk_graph_set(graph, o->sets.text[i], errors) != 0)
			return false;
	return xk_graph_set(graph, "vnet.address=10.255.255.254/8", errors) == 0;
}

/* Returns false after a message if the graph is refused. */
static bool
crowd_compose(struct crowd *crowd)
{
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_graph *graph = xk_graph_read(crowd->options->graph, &errors);
	struct xk_protocol *failed = NULL;
	bool good = graph != NULL && crowd_set_up(graph, crowd->options, &errors) &&
		    xk_graph_check(graph, xk_protocol_types, &errors) == 0 &&
		    xk_graph_build(graph, crowd->kernel, &errors) == 0;

	if (good && xk_kernel_init(crowd->kernel, &failed) != 0) {
		fprintf(stderr, "crowd: %s: refused\n", failed == NULL ? "graph" : failed->name);
		good = false;
	}
	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	xk_graph_free(graph);
	return good;
}

static bool
crowd_open(struct crowd *crowd)
{
	const struct xk_kernel_config config = {
		.name = "server", .platform = crowd->platform, .mode = XK_IPP, .driver = XK_DRIVER_POLL, .core = -1
	};
	struct xk_port *port = xk_memory_port_new(crowd->platform, "port", CLIENT_SERVER_LINK, CROWD_MTU);

	crowd->kernel = xk_kernel_new(&config);
	crowd->clients.list = calloc(crowd->clients.count, sizeof(struct client));
	crowd->queue_size = 4 * (uint64_t)crowd->clients.count + 4096;
	crowd->queue = malloc(crowd->queue_size * sizeof(*crowd->queue));
	xk_assert(crowd->kernel != NULL && port != NULL && crowd->clients.list != NULL && crowd->queue != NULL);
	memset(crowd->clients.list, 1, crowd->clients.count * sizeof(struct client)); /* makes the pages resident */
	memset(crowd->clients.list, 0, crowd->clients.count * sizeof(struct client));
	memset(crowd->queue, 1, crowd->queue_size * sizeof(*crowd->queue));
	xk_memory_run_until(crowd->platform, 0);
	xk_memory_on_idle(crowd->platform, crowd_idle, crowd);
	xk_memory_loop(port, crowd_receive, crowd_transmit, crowd);
	xk_kernel_add_port(crowd->kernel, port);
	return crowd_compose(crowd);
}

static void
crowd_close(struct crowd *crowd)
{
	xk_kernel_free(crowd->kernel);
	free(crowd->queue);
	free(crowd->clients.list);
}

/* ---- report ---- */

static uint64_t
crowd_counter(const struct crowd *crowd, const char *protocol, const char *name)
{
	const struct xk_protocol *p = xk_kernel_find(crowd->kernel, protocol);

	for (unsigned i = 0; p != NULL && p->type->counters[i] != NULL; i++)
		if (strcmp(p->type->counters[i], name) == 0)
			return xk_counter(p, i);
	return 0;
}

/* Prints each protocol's counters. */
static void
crowd_print_counters(const struct crowd *crowd)
{
	printf("\nThe server's counters:\n");
	for (const struct xk_protocol *p = xk_kernel_first(crowd->kernel); p != NULL; p = p->next) {
		for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++)
			if (xk_counter(p, i) != 0)
				printf("  %s.%s %" PRIu64 "\n", p->name, p->type->counters[i],
				       (uint64_t)xk_counter(p, i));
		for (unsigned i = XK_DROP_NONE + 1; i < xk_drop_count(p->type); i++) {
			if (p->drops[i] != 0)
				printf("  %s.%s %" PRIu64 " (dropped)\n", p->name, xk_drop_name(p->type, i),
				       (uint64_t)p->drops[i]);
		}
	}
}

static void
crowd_print(const struct crowd *crowd)
{
	static const char *const names[CROWD_PHASES] = { "all are new", "all have rebooted" };
	double clients = crowd->clients.count;

	printf("%s: %u clients, %u calls each, %" PRIu64 " clients at a time.\n\n", crowd->options->graph,
	       crowd->clients.count, crowd->clients.calls, crowd->options->window);
	printf("  %-24s %10s %10s %12s %14s %14s\n", "", "calls", "frames", "calls a", "heap, bytes", "resident,");
	printf("  %-24s %10s %10s %12s %14s %14s\n", "", "", "", "second", "a client", "bytes a client");
	for (unsigned i = 0; i < crowd->phase; i++) {
		const struct crowd_phase *phase = &crowd->phases[i];

		printf("  %-24s %10" PRIu64 " %10" PRIu64 " %12.0f %14.0f %14.0f\n", names[i], phase->calls,
		       phase->frames, (double)phase->calls / phase->seconds, phase->heap / clients,
		       phase->resident / clients);
	}
}

/* Returns a description of the failure, or NULL. */
static const char *
crowd_check(const struct crowd *crowd)
{
	uint64_t calls = (uint64_t)CROWD_PHASES * crowd->clients.count * crowd->clients.calls;

	if (crowd->wrong != NULL)
		return crowd->wrong;
	if (crowd->clients.wrong != 0)
		return "a client received a wrong frame";
	if (crowd->clients.replies != calls || crowd_counter(crowd, "chantest", "requests") != calls)
		return "not every call ran exactly once";
	if (crowd_counter(crowd, "bidctl", "first_contacts") != crowd->clients.count ||
	    crowd_counter(crowd, "bidctl", "reboots") != crowd->clients.count)
		return "not every boot was reported exactly once";
	return NULL;
}

static bool
crowd_run(struct crowd *crowd)
{
	const char *wrong;

	if (!crowd_open(crowd))
		return false;
	crowd->heap = crowd_heap();
	crowd->resident = crowd_resident();
	crowd_phase_begin(crowd);
	xk_kernel_run(crowd->kernel);
	crowd_print(crowd);
	crowd_print_counters(crowd);
	wrong = crowd_check(crowd);
	if (wrong != NULL)
		fprintf(stderr, "crowd: %s (%u of %u clients ended, %" PRIu64 " wrong frames)\n", wrong, crowd->ended,
			crowd->clients.count, crowd->clients.wrong);
	return wrong == NULL;
}

int
main(int argc, char **argv)
{
	struct crowd_options o = {
		.graph = "graphs/chantest.dot", .clients = 100000, .calls = 3, .window = 64, .rest = 3
	};
	struct options_texts operands;
	struct crowd crowd = { .options = &o };
	int status = options_parse(&crowd_program, argc, argv, &o, &operands);
	bool good;

	if (status != OPTIONS_GO)
		return status;
	crowd.platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);
	xk_assert(crowd.platform != NULL);
	crowd.clients.count = (uint32_t)o.clients;
	crowd.clients.calls = (uint32_t)o.calls;
	good = crowd_run(&crowd);
	crowd_close(&crowd);
	xk_memory_platform_free(crowd.platform);
	return good ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}
