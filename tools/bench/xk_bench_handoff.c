/*
 * xk_bench_handoff.c - `xk bench handoff`: the cost of handing a message from the driver to a thread, and the savings
 * if the driver carries it on.
 *
 * One host in memory, its driver and its threads on one core, and one message that arrives again and again: the
 * protocol that gets it, `probe`, puts it back into the port. The measured time runs from the moment the driver has
 * taken the message until probe has it (or, if probe waits, from the signal until probe continues). The ways are
 * measured in turn, in short blocks of one run, beside two threads that wake each other without the engine.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "platform/clock.h"
#include "tools/batches.h"
#include "tools/bench/bench.h"
#include "tools/histogram.h"
#include "tools/machine.h"
#include "xkernel/engine/stack.h"

enum {
	HANDOFF_WARM = 50,        /* uncounted messages of each block */
	HANDOFF_BLOCK_MAX = 4096, /* maximum of counted messages per block */
	HANDOFF_BLOCKS_MAX = 10000,
	HANDOFF_STARTS = 16, /* stacks started per sample */
	HANDOFF_STACK = 16384,
	HANDOFF_MTU = 1500,
	HANDOFF_FRAME = 64,
	HANDOFF_LINK = 2,
};

/* The ways to be compared. */
enum handoff_way {
	WAY_REGULAR,       /* the driver gives the message to an input thread */
	WAY_IPP_HANDOFF,   /* the driver carries it to an edge where a thread takes over its stack */
	WAY_IPP_NONE,      /* the driver carries it to the top */
	WAY_BLOCKED,       /* a thread waits, and the signal wakes it */
	WAY_RESUME_THREAD, /* a stack waits, and a thread resumes it */
	WAY_RESUME_DRIVER, /* a stack waits, and the driver resumes it */
	WAY_SYSTEM,        /* one thread wakes another, and sleeps */
	WAY_STACK,         /* a stack is started and left again */
	WAYS
};

static const struct {
	const char *key, *text;
} handoff_texts[WAYS] = {
	[WAY_REGULAR] = { "regular", "handoff to an input thread (regular)" },
	[WAY_IPP_HANDOFF] = { "ipp_handoff", "handoff at an edge (IPP)" },
	[WAY_IPP_NONE] = { "ipp_none", "no handoff (IPP)" },
	[WAY_BLOCKED] = { "blocked", "a waiting thread continues (regular)" },
	[WAY_RESUME_THREAD] = { "resume_thread", "a waiting stack continues, on a thread (IPP)" },
	[WAY_RESUME_DRIVER] = { "resume_driver", "a waiting stack continues, in the driver (IPP)" },
	[WAY_SYSTEM] = { "system", "wake-up and switch by the system alone" },
	[WAY_STACK] = { "stack", "a stack is started and left again" },
};

struct handoff;

struct probe {
	struct xk_protocol protocol; /* first */
	struct xk_session *session;
	struct handoff *bench;
	struct xk_semaphore signal;
	bool waits;             /* set between blocks */
	bool is_signalled_next; /* the next message is the signal */
	uint64_t signalled_ns;
};

struct handoff {
	struct bench common;  /* first; rounds: messages of each way */
	uint64_t block, core; /* messages of each way in a block; the core of all threads */
	struct xk_port *port;
	struct xk_port_ops port_ops; /* the port's own, with another receive */
	unsigned (*receive)(struct xk_port *port, struct xk_msg **frames, unsigned max);
	struct probe *probe;
	uint64_t taken_ns;
	unsigned count, goal; /* of the current block */
	uint32_t samples[HANDOFF_WARM + HANDOFF_BLOCK_MAX];
	sem_t ended;
	unsigned blocks;
	double medians[WAYS][HANDOFF_BLOCKS_MAX]; /* of each block */
	struct histogram all[WAYS];
	uint64_t yield_ns, across_ns;
	struct clock_pair begun;
};

static unsigned
handoff_receive(struct xk_port *port, struct xk_msg **frames, unsigned max)
{
	struct handoff *bench = xk_container_of(port->ops, struct handoff, port_ops);
	unsigned count = bench->receive(port, frames, max);

	if (count > 0)
		bench->taken_ns = clock_system_ns();
	return count;
}

/* ---- the protocol that gets the messages ---- */

/* Records a time; the last one ends the block. Takes m. */
static void
probe_record(struct handoff *bench, uint64_t since_ns, struct xk_msg *m)
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

/* If probe waits, the first of two messages waits for the second, whose signal ends its wait. */
static void
probe_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct probe *probe = (struct probe *)self;
	struct handoff *bench = probe->bench;

	(void)lls;
	if (!probe->waits) {
		probe_record(bench, bench->taken_ns, m);
	} else if (probe->is_signalled_next) {
		probe->is_signalled_next = false;
		xk_msg_free(m);
		probe->signalled_ns = clock_system_ns();
		xk_semaphore_signal(&probe->signal);
	} else {
		probe->is_signalled_next = true;
		xk_memory_inject(bench->port, m);
		xk_semaphore_wait(&probe->signal, XK_UNTIL_SIGNALLED);
		m = xk_memory_frame(bench->common.platforms[0], HANDOFF_FRAME);
		xk_assert(m != NULL);
		probe_record(bench, probe->signalled_ns, m);
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
	.name = "probe", .help = "Sends messages back.", .ops = &probe_ops, .size = sizeof(struct probe)
};

/* ---- the host ---- */

/* Starts the host. Returns false, after a message, if it cannot be created. */
static bool
handoff_host_start(struct handoff *bench)
{
	const struct xk_kernel_config config = { .name = "bench",
						 .platform = bench->common.platforms[0],
						 .mode = XK_IPP,
						 .driver = XK_DRIVER_INTERRUPT,
						 .core = (int)bench->core };
	struct xk_protocol *port, *failed;
	int err = -ENOMEM;

	bench->common.kernels[0] = xk_kernel_new(&config);
	bench->port = xk_memory_port_new(bench->common.platforms[0], "port", HANDOFF_LINK, HANDOFF_MTU);
	xk_assert(bench->common.kernels[0] != NULL && bench->port != NULL);
	bench->receive = bench->port->ops->receive;
	bench->port_ops = *bench->port->ops;
	bench->port_ops.receive = handoff_receive;
	bench->port->ops = &bench->port_ops;
	xk_kernel_add_port(bench->common.kernels[0], bench->port);
	port = xk_kernel_add_protocol(bench->common.kernels[0], xk_protocol_type_find("port"), "port");
	bench->probe = (struct probe *)xk_kernel_add_protocol(bench->common.kernels[0], &probe_type, "probe");
	xk_assert(port != NULL && bench->probe != NULL);
	bench->probe->bench = bench;
	if (xk_kernel_add_edge(bench->common.kernels[0], &bench->probe->protocol, port, NULL) != NULL)
		err = xk_kernel_init(bench->common.kernels[0], &failed);
	if (err == 0)
		err = xk_kernel_start(bench->common.kernels[0]);
	if (err != 0)
		fprintf(stderr, "xk bench handoff: no host can be created: %s\n", xk_error(err));
	return err == 0;
}

/* ---- blocks: their samples are in bench->samples ---- */

/*
 * Configures how messages are carried, and circulates one until the block is full. Returns false, after a message, on
 * failure.
 */
static bool
handoff_messages(struct handoff *bench, enum handoff_way way)
{
	bool regular = way == WAY_REGULAR || way == WAY_BLOCKED;
	struct xk_edge *edge = bench->probe->protocol.lowers[0];
	struct xk_msg *m = xk_memory_frame(bench->common.platforms[0], HANDOFF_FRAME);
	int err;

	bench->probe->waits = way == WAY_BLOCKED || way == WAY_RESUME_THREAD || way == WAY_RESUME_DRIVER;
	bench->probe->protocol.resume = way == WAY_RESUME_DRIVER ? XK_RESUME_DRIVER : XK_RESUME_THREAD;
	xk_edge_watch(edge, XK_WATCH_EXPLICIT, way == WAY_IPP_HANDOFF ? XK_WATCH_EXPLICIT : 0);
	xk_kernel_rewatch(bench->common.kernels[0]);
	err = xk_kernel_reconfigure(bench->common.kernels[0], regular ? XK_REGULAR : XK_IPP,
				    way == WAY_BLOCKED ? 2 : 1);
	if (m == NULL || err != 0) {
		fprintf(stderr, "xk bench handoff: %s: the message cannot be sent: %s\n", handoff_texts[way].text,
			xk_error(m == NULL ? ENOMEM : -err));
		xk_msg_free(m);
		return false;
	}
	bench->count = 0;
	bench->goal = HANDOFF_WARM + (unsigned)bench->block;
	xk_memory_inject(bench->port, m);
	while (sem_wait(&bench->ended) != 0)
		continue; /* interrupted by a signal */
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
	for (unsigned i = 0; i < HANDOFF_WARM + bench->block; i++) {
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

static double
handoff_median(const uint32_t *samples, unsigned count)
{
	double values[HANDOFF_BLOCK_MAX];

	for (unsigned i = 0; i < count; i++)
		values[i] = samples[i];
	return batches_median(values, count);
}

static bool
handoff_block(struct handoff *bench, enum handoff_way way)
{
	const uint32_t *counted = bench->samples + HANDOFF_WARM;
	unsigned block = (unsigned)bench->block;
	bool good = true;

	if (way == WAY_SYSTEM)
		good = machine_wake_ns((unsigned)bench->core, (unsigned)bench->core, bench->samples,
				       HANDOFF_WARM + block);
	else if (way == WAY_STACK)
		good = handoff_stacks(bench);
	else
		good = handoff_messages(bench, way);
	for (unsigned i = 0; good && i < block; i++)
		histogram_add(&bench->all[way], counted[i]);
	bench->medians[way][bench->blocks] = handoff_median(counted, block);
	return good;
}

/* ---- results ---- */

/* Returns the rate of the processor's counter, over the whole run, in MHz; 0: it has no steady one. */
static double
handoff_counter_mhz(const struct handoff *bench)
{
	struct clock clock = { .scale = 0 };

	clock_calibrate(&clock, &bench->begun, 0);
	return clock.has_counter ? 1000.0 * (UINT64_C(1) << 32) / (double)clock.scale : 0;
}

/* The median over the blocks, and its 95 % confidence interval (by rank). */
struct interval {
	double low, median, high;
};

/* Returns (a - less) / of, block by block; less may be WAYS: nothing is subtracted. */
static struct interval
handoff_ratio(const struct handoff *bench, enum handoff_way a, enum handoff_way less, enum handoff_way of)
{
	double values[HANDOFF_BLOCKS_MAX], median, reach = 0.98 * sqrt(bench->blocks);
	unsigned count = bench->blocks, high = (unsigned)(count / 2 + reach);
	unsigned low = count / 2 > reach ? (unsigned)(count / 2 - reach) : 0;

	for (unsigned i = 0; i < count; i++) {
		double by = bench->medians[of][i];

		values[i] = (bench->medians[a][i] - (less == WAYS ? 0 : bench->medians[less][i])) / (by > 0 ? by : 1);
	}
	median = batches_median(values, count);
	return (struct interval){ values[low], median, values[high < count ? high : count - 1] };
}

static void
handoff_json_interval(struct json *json, const char *key, struct interval interval)
{
	json_object(json, key);
	json_double(json, "low", interval.low);
	json_double(json, "median", interval.median);
	json_double(json, "high", interval.high);
	json_close(json);
}

static void
handoff_write(const struct bench *common, struct json *json)
{
	const struct handoff *bench = (const struct handoff *)common;
	struct xk_kernel_stats stats;
	struct machine machine;

	machine_describe(&machine);
	json_uint(json, "core", bench->core);
	json_uint(json, "rounds", (uint64_t)bench->blocks * bench->block);
	json_uint(json, "blocks", bench->blocks);
	machine_json(&machine, json, "machine");
	json_object(json, "ways");
	for (enum handoff_way way = 0; way < WAYS; way++) {
		histogram_json(&bench->all[way], json, handoff_texts[way].key);
		json_close(json);
	}
	json_close(json);
	xk_kernel_stats(bench->common.kernels[0], &stats);
	json_object(json, "counts"); /* show that messages took the intended ways */
	json_uint(json, "warm", HANDOFF_WARM);
	json_uint(json, "handoffs_explicit", stats.handoffs[XK_HANDOFF_EXPLICIT]);
	json_uint(json, "parks", stats.parks);
	json_uint(json, "resumes_thread", stats.resumes_thread);
	json_uint(json, "resumes_driver", stats.resumes_driver);
	json_uint(json, "fallbacks", stats.fallbacks);
	json_close(json);
	json_uint(json, "yield_ns", bench->yield_ns);
	json_uint(json, "across_ns", bench->across_ns);
	json_double(json, "counter_mhz", handoff_counter_mhz(bench));
	handoff_json_interval(json, "ipp_to_regular", handoff_ratio(bench, WAY_IPP_HANDOFF, WAYS, WAY_REGULAR));
	handoff_json_interval(json, "saved_to_system", handoff_ratio(bench, WAY_REGULAR, WAY_IPP_NONE, WAY_SYSTEM));
}

static void
handoff_print(const struct bench *common)
{
	const struct handoff *bench = (const struct handoff *)common;
	struct interval ratio = handoff_ratio(bench, WAY_IPP_HANDOFF, WAYS, WAY_REGULAR);
	struct interval saved = handoff_ratio(bench, WAY_REGULAR, WAY_IPP_NONE, WAY_SYSTEM);

	printf("%" PRIu64 " of each, in %u blocks in turn, all on core %" PRIu64 "; nanoseconds\n\n",
	       bench->blocks * bench->block, bench->blocks, bench->core);
	printf("%-50s %8s %8s %8s\n", "", "median", "90 %", "99 %");
	for (enum handoff_way way = 0; way < WAYS; way++)
		printf("%-50s %8" PRIu64 " %8" PRIu64 " %8" PRIu64 "\n", handoff_texts[way].text,
		       histogram_percentile(&bench->all[way], 50), histogram_percentile(&bench->all[way], 90),
		       histogram_percentile(&bench->all[way], 99));
	printf("%-50s %8" PRIu64 "\n", "switch by the system alone, both ready", bench->yield_ns);
	if (bench->across_ns != 0)
		printf("%-50s %8" PRIu64 "\n", "wake-up of a thread on another core", bench->across_ns);
	printf("\nIPP with a handoff to regular: %.3f (95 %%: %.3f to %.3f).\n", ratio.median, ratio.low, ratio.high);
	printf("Saved without handoff, relative to the system's wake-up and switch: %.2f (%.2f to %.2f).\n",
	       saved.median, saved.low, saved.high);
}

/* ---- the program ---- */

static const struct options_option handoff_options[] = {
	OPTION(NUMBER, struct handoff, common.rounds, "rounds", "N", "messages of each way (100000)", .min = 1,
	       .max = 1000000),
	OPTION(NUMBER, struct handoff, block, "block", "N", "... in one block (500)", .min = 1,
	       .max = HANDOFF_BLOCK_MAX),
	OPTION(NUMBER, struct handoff, core, "core", "A", "the core of the driver and of the threads (0)", .max = 1023),
	OPTION(TEXT, struct handoff, common.json, "json", "FILE", "JSON to FILE; - is standard output"),
	{ .name = NULL },
};

static const struct options_program handoff_program = {
	.name = "xk bench handoff",
	.usage = "[OPTION]...",
	.about = "Times the path of a message from the driver to the protocol that gets it.",
	.options = handoff_options,
};

/* Returns the time to wake a thread on another core, or 0 if there is no other. */
static uint64_t
handoff_across_ns(struct handoff *bench)
{
	for (unsigned other = 0; other < 1024; other++)
		if (other != bench->core && machine_has_core(other) &&
		    machine_wake_ns((unsigned)bench->core, other, bench->samples, HANDOFF_BLOCK_MAX))
			return (uint64_t)handoff_median(bench->samples, HANDOFF_BLOCK_MAX);
	return 0;
}

static int
handoff_run(struct bench *common)
{
	struct handoff *bench = (struct handoff *)common;
	unsigned core = (unsigned)bench->core;
	int status = OPTIONS_FAILURE;
	bool good;

	if (bench->block > common->rounds || common->rounds / bench->block > HANDOFF_BLOCKS_MAX)
		return options_misuse(&handoff_program, "--rounds must be one to %d blocks", HANDOFF_BLOCKS_MAX);
	if (!machine_has_core(core)) {
		fprintf(stderr, "xk bench handoff: core %u may not be used\n", core);
		return OPTIONS_FAILURE;
	}
	clock_read(&bench->begun);
	sem_init(&bench->ended, 0, 0);
	for (enum handoff_way way = 0; way < WAYS; way++)
		histogram_init(&bench->all[way]);
	bench->yield_ns = machine_yield_ns(core);
	bench->across_ns = handoff_across_ns(bench);
	good = handoff_host_start(bench);
	for (; good && bench->blocks < common->rounds / bench->block; bench->blocks++)
		for (enum handoff_way way = 0; good && way < WAYS; way++)
			good = handoff_block(bench, way);
	xk_kernel_stop(bench->common.kernels[0]);
	if (good)
		status = bench_report(common);
	xk_kernel_free(bench->common.kernels[0]);
	sem_destroy(&bench->ended);
	return status;
}

int
bench_handoff_main(int argc, char **argv)
{
	static const struct bench_kind kind = { .program = &handoff_program,
						.command = "handoff",
						.run = handoff_run,
						.write = handoff_write,
						.print = handoff_print };
	struct handoff *bench = calloc(1, sizeof(*bench));
	int status;

	xk_assert(bench != NULL);
	bench->common.rounds = 100000;
	bench->block = 500;
	status = bench_main(&kind, &bench->common, argc, argv);
	free(bench);
	return status;
}
