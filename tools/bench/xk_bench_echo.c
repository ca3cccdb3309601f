/*
 * xk_bench_echo.c - `xk bench echo`: the cost of the whole graph without a wire.
 *
 * One process, one thread: the graph's udptest serves, on a port in memory whose far end is the rig of echo_rig.h: one
 * frame in and its echo out per round, addresses and ports of the peers chosen at random, all checksums verified and
 * generated. The driver polls, in IPP mode. The benchmark makes no system calls and needs neither huge pages nor a
 * child process, so it can run under callgrind: the difference in instructions between two values of --rounds is the
 * cost of the additional rounds.
 *
 * With several drivers, each has its own thread, core, lane of the port, rig and peers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "protocols/test/udptest.h"
#include "tools/bench/bench.h"
#include "tools/bench/echo_rig.h"
#include "tools/output.h"

enum {
	ECHO_COUNTS = 5,  /* the first of bench_counts: no shepherd parks */
	ECHO_ALIGN = 128, /* rigs of two drivers share no cache line, nor a pair of lines fetched together */
};

#define ECHO_LINK UINT64_C(0x020000000001)
#define ECHO_HOST 0x0a000002

struct echo_bench {
	struct bench common; /* first */
	uint64_t sessions, burst;
	bool neighbours, turns, done;
	_Atomic unsigned running; /* number of rigs */
	struct echo_rig *rigs[BENCH_DRIVERS];
	double echo_ns, rig_ns; /* per counted round, the mean of the drivers; the rig's part */
};

static const struct options_option echo_options[] = {
	OPTION(NUMBER, struct echo_bench, common.size, "size", "N", "message bytes (1)", .min = 1,
	       .max = ECHO_FRAME_MAX_MESSAGE),
	OPTION(NUMBER, struct echo_bench, common.rounds, "rounds", "N", "echoes that count (1000000)", .min = 1,
	       .max = UINT32_MAX),
	OPTION(NUMBER, struct echo_bench, sessions, "sessions", "N",
	       "peers, chosen at random, each with its own address and port (1)", .min = 1,
	       .max = ECHO_FRAME_MAX_PEERS),
	OPTION(FLAG, struct echo_bench, neighbours, "neighbours", NULL,
	       "each peer has its own link address (default: all are behind one router)"),
	OPTION(NUMBER, struct echo_bench, burst, "burst", "N", "frames per turn of the driver (1)", .min = 1,
	       .max = ECHO_RIG_BURST),
	OPTION(NUMBER, struct echo_bench, common.drivers, "drivers", "N",
	       "drivers in parallel, each with its own core and peers (1)", .min = 1, .max = BENCH_DRIVERS),
	OPTION(FLAG, struct echo_bench, turns, "turns", NULL,
	       "by xk_kernel_turn, like a program with its own loop, instead of xk_kernel_run"),
	OPTION(FLAG, struct echo_bench, common.alone, "alone", NULL,
	       "leave the graph out: the cost of the benchmark itself"),
	{ .name = NULL },
};

static const struct options_program echo_program = {
	.name = "xk bench echo",
	.usage = "[OPTION]...",
	.about = "Times the graph of udptest (graphs/udptest.dot) as a server, in one process on a port in memory.",
	.footer = "Instructions per echo, by the difference of two runs:\n"
		  "  valgrind --tool=callgrind --callgrind-out-file=/dev/null xk bench echo --rounds 10000\n"
		  "  valgrind --tool=callgrind --callgrind-out-file=/dev/null xk bench echo --rounds 20000",
	.options = echo_options,
	.shared = { { bench_options, offsetof(struct echo_bench, common) } },
};

static void
echo_counting(void *context)
{
	struct bench *bench = context;

	bench_take_stats(bench, bench->before);
}

static void
echo_finished(void *context)
{
	struct echo_bench *echo = context;
	struct bench *bench = &echo->common;

	if (atomic_fetch_sub_explicit(&echo->running, 1, memory_order_acq_rel) != 1)
		return;
	bench_take_stats(bench, bench->after);
	echo->done = true;
	xk_kernel_halt(bench->kernels[0]);
}

/* Prints the protocols' drops on standard error, which may include a missing echo. */
static void
echo_print_drops(struct xk_kernel *kernel)
{
	for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL; p = p->next)
		for (unsigned i = 1; i < xk_drop_count(p->type); i++) {
			uint64_t count = atomic_load_explicit(&p->drops[i], memory_order_relaxed);

			if (count != 0)
				fprintf(stderr, "  dropped by %s: %s: %" PRIu64 "\n", p->name, xk_drop_name(p->type, i),
					count);
		}
}

/* Creates the rig of a driver. */
static struct echo_rig *
echo_rig_new(struct echo_bench *echo, unsigned driver)
{
	static const struct echo_end server = { ECHO_LINK, ECHO_HOST, XK_UDPTEST_PORT };
	struct bench *bench = &echo->common;
	struct echo_rig *rig = aligned_alloc(ECHO_ALIGN, (sizeof(*rig) + ECHO_ALIGN - 1) / ECHO_ALIGN * ECHO_ALIGN);

	xk_assert(rig != NULL);
	*rig = (struct echo_rig){ .platform = bench->platforms[driver],
				  .first = driver * (uint32_t)echo->sessions,
				  .sessions = (uint32_t)echo->sessions,
				  .burst = (uint32_t)echo->burst,
				  .neighbours = echo->neighbours,
				  .rounds = bench->rounds,
				  .alone = bench->alone,
				  .counting = bench->alone || driver != 0 ? NULL : echo_counting,
				  .finished = bench->alone ? NULL : echo_finished,
				  .context = echo };
	echo_rig_init(rig, &server, (uint32_t)bench->size);
	return rig;
}

/* Prints what is wrong with an echo. */
static void
echo_print_wrong(const struct bench *bench, const struct echo_rig *rig)
{
	fprintf(stderr, "xk bench echo: round %" PRIu64 ": wrong with the echo: %s\n", rig->wrong_round, rig->wrong);
	echo_print_drops(bench->kernels[0]);
}

static int
echo_run(struct bench *bench)
{
	struct echo_bench *echo = (struct echo_bench *)bench;
	struct bench_host host = {
		.name = "bench",
		.link = ECHO_LINK,
		.address = "vnet.address=10.0.0.2/8", /* all peers are on the link */
		.sessions = (unsigned)(echo->sessions * bench->drivers),
		.receive = echo_rig_receive,
		.transmit = echo_rig_transmit,
	};
	const char *wrong = NULL;

	if (bench->drivers > 1 && (bench->alone || echo->turns)) {
		fprintf(stderr, "xk bench echo: --%s allows only one driver\n", bench->alone ? "alone" : "turns");
		return OPTIONS_MISUSE;
	}
	if (echo->sessions * bench->drivers > ECHO_FRAME_MAX_PEERS) {
		fprintf(stderr, "xk bench echo: all drivers together have at most %d peers\n", ECHO_FRAME_MAX_PEERS);
		return OPTIONS_MISUSE;
	}
	for (unsigned i = 0; i < bench->drivers; i++)
		host.contexts[i] = echo->rigs[i] = echo_rig_new(echo, i);
	atomic_init(&echo->running, (unsigned)bench->drivers);
	if (bench->alone) {
		echo_rig_alone(echo->rigs[0]);
		free(echo->rigs[0]);
		return OPTIONS_SUCCESS;
	}
	if (!bench_host_open(bench, 0, &host))
		return OPTIONS_FAILURE;
	if (echo->turns)
		while (!echo->done)
			xk_kernel_turn(bench->kernels[0]);
	else
		xk_kernel_run(bench->kernels[0]);
	for (unsigned i = 0; i < bench->drivers && wrong == NULL; i++)
		if ((wrong = echo->rigs[i]->wrong) != NULL)
			echo_print_wrong(bench, echo->rigs[i]);
	xk_kernel_free(bench->kernels[0]);
	for (unsigned i = 0; i < bench->drivers; i++) {
		echo->echo_ns += batches_median_ns(&echo->rigs[i]->batches) / (double)bench->drivers;
		if (i == 0)
			echo->rig_ns = echo_rig_cost_ns(echo->rigs[i], (uint32_t)bench->size);
		free(echo->rigs[i]);
	}
	bench->rounds *= bench->drivers;
	return wrong != NULL ? OPTIONS_FAILURE : bench_report(bench);
}

static void
echo_write(const struct bench *bench, struct json *json)
{
	const struct echo_bench *echo = (const struct echo_bench *)bench;

	json_uint(json, "sessions", echo->sessions);
	json_uint(json, "burst", echo->burst);
	json_uint(json, "drivers", bench->drivers);
	json_double(json, "echo_ns", echo->echo_ns);
	json_double(json, "rig_ns", echo->rig_ns);
	json_double(json, "net_ns", echo->echo_ns - echo->rig_ns);
	bench_json_counts(bench, json, "per_echo", ECHO_COUNTS);
}

static void
echo_print(const struct bench *bench)
{
	const struct echo_bench *echo = (const struct echo_bench *)bench;

	output_print_name(bench->graph);
	printf(", %" PRIu64 " byte%s, %" PRIu64 " session%s: %.1f ns an echo (median of batches), %.1f ns of that for\n"
	       "making and checking frames: %.1f ns for the graph.\n",
	       bench->size, bench->size == 1 ? "" : "s", echo->sessions, echo->sessions == 1 ? "" : "s", echo->echo_ns,
	       echo->rig_ns, echo->echo_ns - echo->rig_ns);
	printf("Per echo: %.3f turns of the driver, %.3f clock reads, %.3f stack switches, %.3f locks, %.3f up a "
	       "path.\n",
	       bench_per_round(bench, &bench_counts[0]), bench_per_round(bench, &bench_counts[1]),
	       bench_per_round(bench, &bench_counts[2]), bench_per_round(bench, &bench_counts[3]),
	       bench_per_round(bench, &bench_counts[4]));
	printf("Instructions: see --help.\n");
}

int
bench_echo_main(int argc, char **argv)
{
	static const struct bench_kind kind = { &echo_program, "echo",     "graphs/udptest.dot",
						echo_run,      echo_write, echo_print };
	struct echo_bench echo = { .common = { .size = 1, .rounds = 1000000, .drivers = 1 },
				   .sessions = 1,
				   .burst = 1 };

	return bench_main(&kind, &echo.common, argc, argv);
}
