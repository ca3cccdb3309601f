/*
 * xk_bench_handoff.c - `xk bench handoff`: what it costs that a message leaves the driver, and what it saves that it does not.
 *
 * One host in memory, its driver and its threads on one core, and one message that comes up again and again: the protocol
 * that gets it, `probe`, puts it back into the port. Time runs from the moment the driver has taken the message until probe
 * has it (or, where probe waits, from the signal until it goes on): what lies between is the engine's and, where a thread has
 * to be woken, the system's. Ways are compared in turn, in short blocks of one run; beside them, in the same run, what two
 * threads need to wake each other without any engine.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/clock.h"
#include "platform/sim/memory.h"
#include "tools/bench/bench.h"
#include "tools/bench/switches.h"
#include "tools/bench/xk_bench.h"
#include "tools/histogram.h"
#include "tools/json.h"
#include "tools/machine.h"
#include "tools/options.h"
#include "xkernel/engine/stack.h"
#include "xkernel/kernel.h"

enum {
	HANDOFF_WARM = 50,        /* messages of each block that do not count */
	HANDOFF_BLOCK_MAX = 4096, /* ... that do, at most */
	HANDOFF_BLOCKS_MAX = 10000,
	HANDOFF_STARTS = 16, /* stacks that are begun for one sample */
	HANDOFF_STACK = 16384,
	HANDOFF_MTU = 1500,
	HANDOFF_FRAME = 64,
	HANDOFF_LINK = 2,
};

/* What is compared. */
enum handoff_way {
	WAY_REGULAR,       /* the driver gives the message to an input thread */
	WAY_IPP_HANDOFF,   /* the driver carries it up to an edge where its stack is left to a thread */
	WAY_IPP_NONE,      /* the driver carries it all the way */
	WAY_BLOCKED,       /* who waits is a thread, and the signal wakes it */
	WAY_RESUME_THREAD, /* who waits is a stack, and a thread goes on with it */
	WAY_RESUME_DRIVER, /* who waits is a stack, and the driver goes on with it */
	WAY_SYSTEM,        /* one thread wakes another, and sleeps */
	WAY_STACK,         /* a stack is begun, and left again */
	WAYS
};

struct handoff_text {
	const char *key, *text;
};

static const struct handoff_text handoff_texts[WAYS] = {
	[WAY_REGULAR] = { "regular", "handoff to an input thread (regular)" },
	[WAY_IPP_HANDOFF] = { "ipp_handoff", "handoff at an edge (IPP)" },
	[WAY_IPP_NONE] = { "ipp_none", "no handoff (IPP)" },
	[WAY_BLOCKED] = { "blocked", "a thread that waited goes on (regular)" },
	[WAY_RESUME_THREAD] = { "resume_thread", "a stack that waited goes on, on a thread (IPP)" },
	[WAY_RESUME_DRIVER] = { "resume_driver", "a stack that waited goes on, in the driver (IPP)" },
	[WAY_SYSTEM] = { "system", "wake-up and switch of the system's alone" },
	[WAY_STACK] = { "stack", "a stack is begun, and left again" },
};

struct handoff_options {
	uint64_t rounds, block, core;
	const char *json;
};

struct handoff;

struct probe {
	struct xk_protocol protocol; /* first */
	struct xk_session *session;
	struct handoff *bench;
	struct xk_semaphore signal;
	bool waits;             /* set between blocks */
	bool is_signalled_next; /* what the next message is for, where probe waits */
	uint64_t signalled_ns;
};

struct handoff {
	const struct handoff_options *options;
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	struct xk_port *port;
	struct xk_port_ops port_ops; /* the port's own, but for its receive */
	unsigned (*receive)(struct xk_port *port, struct xk_msg **frames, unsigned max);
	struct probe *probe;
	struct switches *switches;
	uint64_t taken_ns;
	unsigned count, goal; /* of the block that runs */
	uint32_t samples[HANDOFF_WARM + HANDOFF_BLOCK_MAX];
	sem_t ended;
	unsigned blocks;
	uint32_t *medians[WAYS]; /* of each block */
	struct histogram *all[WAYS];
	uint64_t yield_ns, across_ns;
};

/* The port has no context of its own: there is one benchmark in a process. */
static struct handoff *
handoff_of(struct xk_port *port)
{
	return (struct handoff *)((char *)port->ops - offsetof(struct handoff, port_ops));
}

static unsigned
handoff_receive(struct xk_port *port, struct xk_msg **frames, unsigned max)
{
	struct handoff *bench = handoff_of(port);
	unsigned count = bench->receive(port, frames, max);

	if (count > 0)
		bench->taken_ns = clock_system_ns();
	return count;
}

/* ---- the protocol that gets the messages ---- */

/* One more time; the last one ends the block. Takes m. */
static void
probe_note(struct handoff *bench, uint64_t since_ns, struct xk_msg *m)
{
	uint64_t took_ns = clock_system_ns() - since_ns;

	bench->samples[bench->count++] = took_ns < UINT32_MAX ? (uint32_t)took_ns : UINT32_MAX;
	if (bench->count < bench->goal) {
		xk_memory_inject(bench->port, m);
		return;
	}
	xk_msg_free(m);
	sem_post(&bench->ended);
}

/* Of two messages the first waits for the second, whose signal is its end. */
static void
probe_wait(struct probe *probe, struct xk_msg *m)
{
	struct handoff *bench = probe->bench;

	probe->is_signalled_next = true;
	xk_memory_inject(bench->port, m);
	xk_semaphore_wait(&probe->signal, XK_FOREVER);
	m = xk_memory_frame(bench->platform, HANDOFF_FRAME);
	xk_assert(m != NULL);
	probe_note(bench, probe->signalled_ns, m);
}

static void
probe_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct probe *probe = (struct probe *)self;

	(void)lls;
	if (!probe->waits) {
		probe_note(probe->bench, probe->bench->taken_ns, m);
	} else if (probe->is_signalled_next) {
		probe->is_signalled_next = false;
		xk_msg_free(m);
		probe->signalled_ns = clock_system_ns();
		xk_semaphore_signal(&probe->signal);
	} else {
		probe_wait(probe, m);
	}
}

static int
probe_init(struct xk_protocol *self)
{
	struct probe *probe = (struct probe *)self;
	struct xk_participants none = { .local.depth = 0 };

	xk_semaphore_init(&probe->signal, self, 0);
	return xk_open(self, self, xk_lower(self, 0), &none, &probe->session);
}

static void
probe_fini(struct xk_protocol *self)
{
	xk_close(((struct probe *)self)->session);
}

static const struct xk_protocol_ops probe_ops = { .init = probe_init, .fini = probe_fini, .demux = probe_demux };

static const struct xk_protocol_type probe_type = {
	.name = "probe", .help = "Puts what comes back.", .ops = &probe_ops, .size = sizeof(struct probe)
};

/* ---- the host ---- */

/* The platform's own port, but that it is noted when a message was taken. */
static void
handoff_watch_port(struct handoff *bench)
{
	bench->receive = bench->port->ops->receive;
	bench->port_ops = *bench->port->ops;
	bench->port_ops.receive = handoff_receive;
	bench->port->ops = &bench->port_ops;
}

/* False: it could not be made, and said why. */
static bool
handoff_host_start(struct handoff *bench)
{
	const struct xk_kernel_config config = { .name = "bench",
						 .platform = bench->platform,
						 .mode = XK_IPP,
						 .driver = XK_DRIVER_INTERRUPT,
						 .core = (int)bench->options->core };
	struct xk_protocol *port, *failed;
	int status = -ENOMEM;

	bench->kernel = xk_kernel_new(&config);
	bench->port = xk_memory_port_new(bench->platform, "port", HANDOFF_LINK, HANDOFF_MTU);
	xk_assert(bench->kernel != NULL && bench->port != NULL);
	handoff_watch_port(bench);
	xk_kernel_add_port(bench->kernel, bench->port);
	port = xk_kernel_add_protocol(bench->kernel, xk_protocol_type_find("port"), "port");
	bench->probe = (struct probe *)xk_kernel_add_protocol(bench->kernel, &probe_type, "probe");
	xk_assert(port != NULL && bench->probe != NULL);
	bench->probe->bench = bench;
	if (xk_kernel_add_edge(bench->kernel, &bench->probe->protocol, port, NULL) != NULL)
		status = xk_kernel_init(bench->kernel, &failed);
	if (status == 0)
		status = xk_kernel_start(bench->kernel);
	if (status != 0)
		fprintf(stderr, "xk bench handoff: no host: %s\n", strerror(-status));
	return status == 0;
}

/* How messages are carried from now on. */
static int
handoff_configure(struct handoff *bench, enum handoff_way way)
{
	bool regular = way == WAY_REGULAR || way == WAY_BLOCKED;
	struct xk_edge *edge = bench->probe->protocol.lowers[0];

	bench->probe->waits = way == WAY_BLOCKED || way == WAY_RESUME_THREAD || way == WAY_RESUME_DRIVER;
	bench->probe->protocol.resume = way == WAY_RESUME_DRIVER ? XK_RESUME_DRIVER : XK_RESUME_THREAD;
	xk_edge_watch(edge, XK_WATCH_ANY, way == WAY_IPP_HANDOFF ? XK_WATCH_EXPLICIT : 0);
	xk_kernel_rewatch(bench->kernel);
	return xk_kernel_reconfigure(bench->kernel, regular ? XK_REGULAR : XK_IPP, way == WAY_BLOCKED ? 2 : 1);
}

/* ---- blocks: their samples are in bench->samples ---- */

static bool
handoff_messages(struct handoff *bench, enum handoff_way way)
{
	struct xk_msg *m = xk_memory_frame(bench->platform, HANDOFF_FRAME);
	int status = handoff_configure(bench, way);

	if (m == NULL || status != 0) {
		fprintf(stderr, "xk bench handoff: %s: %s\n", handoff_texts[way].text,
			strerror(m == NULL ? ENOMEM : -status));
		xk_msg_free(m);
		return false;
	}
	bench->count = 0;
	bench->goal = HANDOFF_WARM + (unsigned)bench->options->block;
	xk_memory_inject(bench->port, m);
	while (sem_wait(&bench->ended) != 0)
		continue; /* a signal */
	return true;
}

struct start {
	struct xk_context here, stack;
};

static void
start_main(void *argument)
{
	struct start *start = argument;

	xk_context_leave(&start->stack, &start->here);
}

static bool
handoff_stacks(struct handoff *bench)
{
	struct start start;

	if (xk_context_map(&start.stack, HANDOFF_STACK) != 0)
		return false;
	xk_context_adopt(&start.here);
	for (unsigned i = 0; i < HANDOFF_WARM + bench->options->block; i++) {
		uint64_t since_ns = clock_system_ns();

		for (unsigned n = 0; n < HANDOFF_STARTS; n++) {
			xk_context_prepare(&start.stack, start_main, &start);
			xk_context_switch(&start.here, &start.stack);
		}
		bench->samples[i] = (uint32_t)((clock_system_ns() - since_ns) / HANDOFF_STARTS);
	}
	xk_context_disown(&start.here);
	xk_context_unmap(&start.stack);
	return true;
}

static int
handoff_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static bool
handoff_block(struct handoff *bench, enum handoff_way way)
{
	uint32_t *counted = bench->samples + HANDOFF_WARM;
	unsigned block = (unsigned)bench->options->block;
	bool good = true;

	if (way == WAY_SYSTEM)
		switches_wake(bench->switches, bench->samples, HANDOFF_WARM + block);
	else if (way == WAY_STACK)
		good = handoff_stacks(bench);
	else
		good = handoff_messages(bench, way);
	for (unsigned i = 0; good && i < block; i++)
		histogram_add(bench->all[way], counted[i]);
	qsort(counted, block, sizeof(*counted), handoff_compare);
	bench->medians[way][bench->blocks] = counted[block / 2];
	return good;
}

/* Every way once in each round of blocks. */
static bool
handoff_run(struct handoff *bench)
{
	unsigned blocks = (unsigned)(bench->options->rounds / bench->options->block);

	for (bench->blocks = 0; bench->blocks < blocks; bench->blocks++)
		for (enum handoff_way way = 0; way < WAYS; way++)
			if (!handoff_block(bench, way))
				return false;
	return true;
}

/* ---- what follows from it ---- */

/* The median of what each block says, and where it lies with 95 % confidence (by its rank). */
struct interval {
	double low, median, high;
};

static int
interval_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Sorts values. */
static struct interval
interval_of(double *values, unsigned count)
{
	double reach = 0.98 * sqrt(count);
	unsigned low = count / 2 > reach ? (unsigned)(count / 2 - reach) : 0, high = (unsigned)(count / 2 + reach);

	qsort(values, count, sizeof(*values), interval_compare);
	return (struct interval){ values[low], values[count / 2], values[high < count ? high : count - 1] };
}

/* (ways[a] - ways[b]) / ways[c], block by block. b WAYS: nothing is taken off. */
static struct interval
handoff_ratio(const struct handoff *bench, enum handoff_way a, enum handoff_way b, enum handoff_way c)
{
	double values[HANDOFF_BLOCKS_MAX];

	for (unsigned i = 0; i < bench->blocks; i++) {
		double less = b == WAYS ? 0 : bench->medians[b][i];

		values[i] = (bench->medians[a][i] - less) / (bench->medians[c][i] > 0 ? bench->medians[c][i] : 1);
	}
	return interval_of(values, bench->blocks);
}

static void
interval_json(struct json *json, const char *key, struct interval interval)
{
	json_object(json, key);
	json_double(json, "low", interval.low);
	json_double(json, "median", interval.median);
	json_double(json, "high", interval.high);
	json_close(json);
}

/* What the host has counted: that messages went the ways they were to go. */
static void
handoff_counts_json(const struct handoff *bench, struct json *json)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(bench->kernel, &stats);
	json_object(json, "counts");
	json_uint(json, "warm", HANDOFF_WARM);
	json_uint(json, "handoffs_explicit", stats.handoffs[XK_HANDOFF_EXPLICIT]);
	json_uint(json, "parks", stats.parks);
	json_uint(json, "resumes_thread", stats.resumes_thread);
	json_uint(json, "resumes_driver", stats.resumes_driver);
	json_uint(json, "fallbacks", stats.fallbacks);
	json_close(json);
}

static bool
handoff_write_json(const void *context, FILE *out)
{
	const struct handoff *bench = context;
	struct machine machine;
	struct json json;

	machine_describe(&machine);
	json_begin(&json, out);
	json_object(&json, NULL);
	json_string(&json, "program", "xk bench handoff");
	json_uint(&json, "core", bench->options->core);
	json_uint(&json, "rounds", (uint64_t)bench->blocks * bench->options->block);
	json_uint(&json, "blocks", bench->blocks);
	machine_json(&machine, &json, "machine");
	json_object(&json, "ways");
	for (enum handoff_way way = 0; way < WAYS; way++) {
		histogram_json(bench->all[way], &json, handoff_texts[way].key);
		json_close(&json);
	}
	json_close(&json);
	handoff_counts_json(bench, &json);
	json_uint(&json, "yield_ns", bench->yield_ns);
	json_uint(&json, "across_ns", bench->across_ns);
	interval_json(&json, "ipp_to_regular", handoff_ratio(bench, WAY_IPP_HANDOFF, WAYS, WAY_REGULAR));
	interval_json(&json, "saved_to_system", handoff_ratio(bench, WAY_REGULAR, WAY_IPP_NONE, WAY_SYSTEM));
	json_close(&json);
	return json_end(&json);
}

static void
handoff_tell(const void *context)
{
	const struct handoff *bench = context;
	struct interval ratio = handoff_ratio(bench, WAY_IPP_HANDOFF, WAYS, WAY_REGULAR);
	struct interval saved = handoff_ratio(bench, WAY_REGULAR, WAY_IPP_NONE, WAY_SYSTEM);

	printf("%" PRIu64 " of each, in %u blocks in turn, all on core %" PRIu64 "; nanoseconds\n\n",
	       bench->blocks * bench->options->block, bench->blocks, bench->options->core);
	printf("%-50s %8s %8s %8s\n", "", "median", "90 %", "99 %");
	for (enum handoff_way way = 0; way < WAYS; way++)
		printf("%-50s %8" PRIu64 " %8" PRIu64 " %8" PRIu64 "\n", handoff_texts[way].text,
		       histogram_percentile(bench->all[way], 50), histogram_percentile(bench->all[way], 90),
		       histogram_percentile(bench->all[way], 99));
	printf("%-50s %8" PRIu64 "\n", "switch of the system's alone, both ready", bench->yield_ns);
	if (bench->across_ns != 0)
		printf("%-50s %8" PRIu64 "\n", "wake-up of a thread on another core", bench->across_ns);
	printf("\nIPP with a handoff to regular: %.3f (95 %%: %.3f to %.3f).\n", ratio.median, ratio.low, ratio.high);
	printf("Saved by a message without handoff, to the system's wake-up and switch: %.2f (%.2f to %.2f).\n",
	       saved.median, saved.low, saved.high);
}

/* ---- the program ---- */

static const struct options_option handoff_options[] = {
	{ "rounds", OPTIONS_NUMBER, offsetof(struct handoff_options, rounds), "N", "messages of each way (100000)", 1,
	  1000000, NULL },
	{ "block", OPTIONS_NUMBER, offsetof(struct handoff_options, block), "N", "... in one block (500)", 1,
	  HANDOFF_BLOCK_MAX, NULL },
	{ "core", OPTIONS_NUMBER, offsetof(struct handoff_options, core), "A",
	  "the core of the driver and of the threads (0)", 0, 1023, NULL },
	{ "json", OPTIONS_TEXT, offsetof(struct handoff_options, json), "FILE", "JSON to FILE; - is standard output", 0,
	  0, NULL },
	{ .name = NULL },
};

static const struct options_program handoff_program = {
	.name = "xk bench handoff",
	.usage = "[OPTION]...",
	.about = "Times what lies between the driver, which has a message, and the protocol that gets it.",
	.options = handoff_options,
};

/* A core besides `core`; `core` itself where there is none. */
static unsigned
handoff_other_core(unsigned core)
{
	for (unsigned other = 0; other < 1024; other++)
		if (other != core && machine_has_core(other))
			return other;
	return core;
}

/* From one core to another. */
static uint64_t
handoff_across_ns(struct handoff *bench)
{
	unsigned core = (unsigned)bench->options->core, other = handoff_other_core(core);
	struct switches *s = other == core ? NULL : switches_new(core, other);

	if (s == NULL)
		return 0;
	switches_wake(s, bench->samples, HANDOFF_BLOCK_MAX);
	switches_free(s);
	qsort(bench->samples, HANDOFF_BLOCK_MAX, sizeof(bench->samples[0]), handoff_compare);
	return bench->samples[HANDOFF_BLOCK_MAX / 2];
}

static bool
handoff_bench(struct handoff *bench)
{
	const struct bench_report report = { handoff_program.name, bench->options->json, handoff_write_json,
					     handoff_tell };
	unsigned core = (unsigned)bench->options->core;
	bool good;

	bench->switches = switches_new(core, core);
	if (bench->switches == NULL) {
		fprintf(stderr, "xk bench handoff: core %u may not be used\n", core);
		return false;
	}
	bench->yield_ns = switches_yield_ns(core);
	bench->across_ns = handoff_across_ns(bench);
	good = handoff_host_start(bench) && handoff_run(bench);
	xk_kernel_stop(bench->kernel);
	if (good)
		good = bench_report(&report, bench);
	switches_free(bench->switches);
	xk_kernel_free(bench->kernel);
	return good;
}

static struct handoff *
handoff_new(const struct handoff_options *o)
{
	struct handoff *bench = calloc(1, sizeof(*bench));

	xk_assert(bench != NULL);
	bench->options = o;
	sem_init(&bench->ended, 0, 0);
	for (enum handoff_way way = 0; way < WAYS; way++) {
		bench->medians[way] = calloc(HANDOFF_BLOCKS_MAX, sizeof(uint32_t));
		bench->all[way] = calloc(1, sizeof(struct histogram));
		xk_assert(bench->medians[way] != NULL && bench->all[way] != NULL);
		histogram_init(bench->all[way]);
	}
	bench->platform = xk_memory_platform_new(XK_MEMORY_REAL);
	xk_assert(bench->platform != NULL);
	return bench;
}

static void
handoff_free(struct handoff *bench)
{
	xk_memory_platform_free(bench->platform);
	for (enum handoff_way way = 0; way < WAYS; way++) {
		free(bench->medians[way]);
		free(bench->all[way]);
	}
	sem_destroy(&bench->ended);
	free(bench);
}

int
xk_bench_handoff_main(int argc, char **argv)
{
	struct handoff_options o = { .rounds = 100000, .block = 500 };
	struct options_texts operands;
	struct handoff *bench;
	bool good;
	int status = options_parse(&handoff_program, argc, argv, &o, &operands);

	if (status != OPTIONS_GO)
		return status;
	if (o.block > o.rounds || o.rounds / o.block > HANDOFF_BLOCKS_MAX)
		return options_misuse(&handoff_program, "--rounds is one to %d blocks", HANDOFF_BLOCKS_MAX);
	bench = handoff_new(&o);
	good = handoff_bench(bench);
	handoff_free(bench);
	return good ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}
