/*
 * xk_bench.c - `xk bench echo`: what the whole graph costs without a wire.
 *
 * One process, one thread: the graph's udptest serves, on a port in memory whose far end is the rig of echo_rig.h: one
 * frame in and its echo out per round, addresses and ports of the peers chosen at random, all checksums verified and
 * generated. The driver polls, in IPP mode. Nothing of the system is needed (no huge pages, no child), so that it runs
 * under callgrind: with two numbers of --rounds, the difference of instructions is what the rounds between cost.
 */
#include "tools/bench/xk_bench.h"
#include "tools/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/sim/memory.h"
#include "protocols/test/udptest.h"
#include "tools/bench/bench.h"
#include "tools/bench/echo_rig.h"
#include "tools/json.h"
#include "tools/options.h"
#include "tools/program/program.h"
#include "tools/program/program_compile.h"
#include "xkernel/kernel.h"

enum { BENCH_MTU = 1500 };

#define BENCH_LINK UINT64_C(0x020000000001)
#define BENCH_HOST 0x0a000002
/* Before the user's own: all peers are on the link. */
#define BENCH_ADDRESS "10.0.0.2/8"

struct bench_options {
	const char *graph;
	bool compiled;
	uint64_t size, rounds, sessions, burst;
	bool neighbours, alone;
	const char *json;
	struct options_texts sets;
};

struct bench {
	const struct bench_options *options;
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	struct echo_rig rig;
	struct xk_kernel_stats before, after; /* the rounds that count */
	double echo_ns, rig_ns;               /* of one of them; the rig's part */
};

static const struct options_option bench_options[] = {
	{ "compiled", OPTIONS_FLAG, offsetof(struct bench_options, compiled), NULL,
	  "the graph compiled into the program: takes some seconds first", 0, 0, NULL },
	{ "graph", OPTIONS_TEXT, offsetof(struct bench_options, graph), "FILE", "the graph (graphs/udptest.dot)", 0, 0,
	  NULL },
	{ "size", OPTIONS_NUMBER, offsetof(struct bench_options, size), "N", "message bytes (1)", 1,
	  ECHO_FRAME_MAX_MESSAGE, NULL },
	{ "rounds", OPTIONS_NUMBER, offsetof(struct bench_options, rounds), "N", "echoes that count (1000000)", 1,
	  UINT32_MAX, NULL },
	{ "sessions", OPTIONS_NUMBER, offsetof(struct bench_options, sessions), "N",
	  "peers, chosen at random, each with its own address and port (1)", 1, ECHO_FRAME_MAX_PEERS, NULL },
	{ "neighbours", OPTIONS_FLAG, offsetof(struct bench_options, neighbours), NULL,
	  "each peer has its own link address, too (they are behind one router)", 0, 0, NULL },
	{ "burst", OPTIONS_NUMBER, offsetof(struct bench_options, burst), "N", "frames per turn of the driver (1)", 1,
	  ECHO_RIG_BURST, NULL },
	{ "alone", OPTIONS_FLAG, offsetof(struct bench_options, alone), NULL,
	  "leave the graph out: what the benchmark itself costs", 0, 0, NULL },
	{ "set", OPTIONS_TEXT_ANY, offsetof(struct bench_options, sets), "NODE.ATTRIBUTE=VALUE",
	  "a setting of the graph", 0, 0, NULL },
	{ "json", OPTIONS_TEXT, offsetof(struct bench_options, json), "FILE", "JSON to FILE; - is standard output", 0,
	  0, NULL },
	{ .name = NULL },
};

static const struct options_program bench_program = {
	.name = "xk bench echo",
	.usage = "[OPTION]...",
	.about = "Times the graph of udptest as a server, in one process on a port in memory.",
	.footer = "Instructions per echo, by the difference of two runs:\n"
		  "  valgrind --tool=callgrind --callgrind-out-file=/dev/null xk bench echo --rounds 10000\n"
		  "  valgrind --tool=callgrind --callgrind-out-file=/dev/null xk bench echo --rounds 20000",
	.options = bench_options,
};

/* ---- the kernel ---- */

static struct xk_kernel *
bench_kernel_new(struct bench *bench)
{
	const struct xk_kernel_config config = {
		.name = "bench", .platform = bench->platform, .mode = XK_IPP, .driver = XK_DRIVER_POLL, .core = -1
	};
	struct xk_kernel *kernel = xk_kernel_new(&config);
	struct xk_port *port = xk_memory_port_new(bench->platform, "port", BENCH_LINK, BENCH_MTU);

	xk_assert(kernel != NULL && port != NULL);
	xk_memory_loop(port, echo_rig_receive, echo_rig_transmit, &bench->rig);
	xk_kernel_add_port(kernel, port);
	return kernel;
}

/* Composes and initialises the kernel. False: refused, and said why. */
static bool
bench_echo_compose(struct bench *bench)
{
	const struct bench_graph graph = { .program = bench_program.name,
					   .file = bench->options->graph,
					   .address = "vnet.address=" BENCH_ADDRESS,
					   .sets = &bench->options->sets,
					   .sessions = (unsigned)bench->options->sessions };

	return bench_compose(bench->kernel, &graph);
}

/* ---- running ---- */

static void
bench_counting(void *context)
{
	struct bench *bench = context;

	xk_kernel_stats(bench->kernel, &bench->before);
}

static void
bench_finished(void *context)
{
	struct bench *bench = context;

	xk_kernel_stats(bench->kernel, &bench->after);
	xk_kernel_halt(bench->kernel);
}

/* What the protocols dropped, on standard error: an echo that did not come is among them. */
static void
bench_print_drops(struct bench *bench)
{
	for (struct xk_protocol *p = xk_kernel_first(bench->kernel); p != NULL; p = p->next)
		for (unsigned i = 1; i < xk_drop_count(p->type); i++) {
			uint64_t count = atomic_load_explicit(&p->drops[i], memory_order_relaxed);

			if (count != 0)
				fprintf(stderr, "  dropped by %s: %s: %" PRIu64 "\n", p->name, xk_drop_name(p->type, i),
					count);
		}
}

static void
bench_prepare(struct bench *bench)
{
	static const struct echo_end server = { BENCH_LINK, BENCH_HOST, XK_UDPTEST_PORT };
	const struct bench_options *o = bench->options;

	bench->rig = (struct echo_rig){ .platform = bench->platform,
					.sessions = (uint32_t)o->sessions,
					.burst = (uint32_t)o->burst,
					.neighbours = o->neighbours,
					.rounds = o->rounds,
					.alone = o->alone,
					.counting = o->alone ? NULL : bench_counting,
					.finished = o->alone ? NULL : bench_finished,
					.context = bench };
	echo_rig_init(&bench->rig, &server, (uint32_t)o->size);
}

/* False: something was wrong, and said what. */
static bool
bench_run(struct bench *bench)
{
	bool composed;

	bench_prepare(bench);
	bench->kernel = bench_kernel_new(bench);
	composed = bench_echo_compose(bench);
	if (composed)
		xk_kernel_run(bench->kernel);
	if (composed && bench->rig.wrong != NULL) {
		fprintf(stderr, "xk bench echo: round %" PRIu64 ": wrong with the echo: %s\n", bench->rig.wrong_round,
			bench->rig.wrong);
		bench_print_drops(bench);
	}
	xk_kernel_free(bench->kernel);
	return composed && bench->rig.wrong == NULL;
}

/* ---- telling ---- */

static double
bench_per_echo(const struct bench *bench, uint64_t before, uint64_t after)
{
	return (double)(after - before) / (double)bench->options->rounds;
}

static bool
bench_write_json(const void *context, FILE *out)
{
	const struct bench *bench = context;
	const struct bench_options *o = bench->options;
	struct json json;

	json_begin(&json, out);
	json_object(&json, NULL);
	json_string(&json, "program", "xk bench echo");
	json_string(&json, "graph", o->graph);
	json_bool(&json, "compiled", program_graph != NULL);
	json_uint(&json, "size", o->size);
	json_uint(&json, "sessions", o->sessions);
	json_uint(&json, "rounds", o->rounds);
	json_uint(&json, "burst", o->burst);
	json_double(&json, "echo_ns", bench->echo_ns);
	json_double(&json, "rig_ns", bench->rig_ns);
	json_double(&json, "net_ns", bench->echo_ns - bench->rig_ns);
	json_object(&json, "per_echo");
	json_double(&json, "turns", bench_per_echo(bench, bench->before.turns, bench->after.turns));
	json_double(&json, "clock_reads", bench_per_echo(bench, bench->before.clock_reads, bench->after.clock_reads));
	json_double(&json, "stack_switches",
		    bench_per_echo(bench, bench->before.stack_switches, bench->after.stack_switches));
	json_double(&json, "locks", bench_per_echo(bench, bench->before.locks, bench->after.locks));
	json_close(&json);
	json_close(&json);
	return json_end(&json);
}

static void
bench_tell(const void *context)
{
	const struct bench *bench = context;
	const struct bench_options *o = bench->options;

	output_print_name(o->graph);
	printf(", %" PRIu64 " byte%s, %" PRIu64 " session%s: %.1f ns an echo (median of batches), of which %.1f ns\n"
	       "making and checking frames: %.1f ns for the graph.\n",
	       o->size, o->size == 1 ? "" : "s", o->sessions, o->sessions == 1 ? "" : "s", bench->echo_ns,
	       bench->rig_ns, bench->echo_ns - bench->rig_ns);
	printf("Per echo: %.3f turns of the driver, %.3f clock reads, %.3f stack switches, %.3f locks.\n",
	       bench_per_echo(bench, bench->before.turns, bench->after.turns),
	       bench_per_echo(bench, bench->before.clock_reads, bench->after.clock_reads),
	       bench_per_echo(bench, bench->before.stack_switches, bench->after.stack_switches),
	       bench_per_echo(bench, bench->before.locks, bench->after.locks));
	printf("Instructions: see --help.\n");
}

static bool
bench_echo(struct bench *bench)
{
	const struct bench_options *o = bench->options;
	const struct bench_report report = { bench_program.name, o->json, bench_write_json, bench_tell };

	if (o->alone) {
		bench_prepare(bench);
		echo_rig_alone(&bench->rig);
		return true;
	}
	if (!bench_run(bench))
		return false;
	bench->echo_ns = echo_rig_median_ns(&bench->rig);
	bench->rig_ns = echo_rig_cost_ns(&bench->rig, (uint32_t)o->size);
	return bench_report(&report, bench);
}

static int
bench_echo_main(int argc, char **argv)
{
	struct bench_options o = { .size = 1, .rounds = 1000000, .sessions = 1, .burst = 1 };
	struct options_texts operands;
	struct bench *bench;
	bool good;
	int status;

	status = options_parse(&bench_program, argc, argv, &o, &operands);
	if (status != OPTIONS_GO)
		return status;
	o.graph = program_graph_file(&bench_program, o.graph, "graphs/udptest.dot");
	if (o.graph == NULL)
		return OPTIONS_MISUSE;
	if (o.compiled && program_graph == NULL) {
		compile_exec(o.graph, "bench", "echo", argc, argv);
		return OPTIONS_FAILURE;
	}
	bench = calloc(1, sizeof(*bench));
	xk_assert(bench != NULL);
	bench->options = &o;
	bench->platform = xk_memory_platform_new(XK_MEMORY_REAL);
	xk_assert(bench->platform != NULL);
	xk_memory_platform_recycle(bench->platform);
	good = bench_echo(bench);
	xk_memory_platform_free(bench->platform);
	free(bench);
	return good ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}

int
xk_bench_main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "echo") == 0)
		return bench_echo_main(argc - 1, argv + 1);
	if (strcmp(what, "call") == 0)
		return xk_bench_call_main(argc - 1, argv + 1);
	if (strcmp(what, "handoff") == 0)
		return xk_bench_handoff_main(argc - 1, argv + 1);
	if (strcmp(what, "sim") == 0)
		return xk_bench_sim_main(argc - 1, argv + 1);
	if (strcmp(what, "--help") == 0) {
		printf("usage: xk bench echo [OPTION]...\n       xk bench call [OPTION]...\n"
		       "       xk bench handoff [OPTION]...\n"
		       "       xk bench sim NETWORK [OPTION]...\nEach has --help.\n");
		return OPTIONS_SUCCESS;
	}
	if (argc < 2)
		fprintf(stderr, "xk bench: which benchmark? There are: echo, call, handoff, sim\n");
	else
		fprintf(stderr, "xk bench: \"%s\" is no benchmark; there are: echo, call, handoff, sim\n", what);
	return OPTIONS_MISUSE;
}
