/*
 * xk_bench.c - `xk bench echo`: what the whole graph costs without a wire.
 *
 * One process, one thread: the graph's udptest serves, on a port in memory whose far end is the rig of echo_rig.h: one
 * frame in and its echo out per round, addresses and ports of the peers chosen at random, all checksums verified and
 * generated. The driver polls, in IPP mode. Nothing of the system is needed (no huge pages, no child), so that it runs
 * under callgrind: with two numbers of --rounds, the difference of instructions is the cost of the rounds between.
 */
#include "tools/bench/xk_bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/test/udptest.h"
#include "tools/bench/bench.h"
#include "tools/bench/echo_rig.h"
#include "tools/output.h"

enum { ECHO_COUNTS = 4 /* of bench_counts: nothing parks */ };

#define ECHO_LINK UINT64_C(0x020000000001)
#define ECHO_HOST 0x0a000002

struct echo_options {
	struct bench_options common; /* first */
	uint64_t sessions, burst;
	bool neighbours, alone;
};

struct echo_bench {
	const struct echo_options *options;
	struct xk_kernel *kernel;
	struct echo_rig rig;
	struct xk_kernel_stats before, after; /* the rounds that count */
	double echo_ns, rig_ns;               /* of one of them; the rig's part */
};

static const struct options_option echo_options[] = {
	{ "size", OPTIONS_NUMBER, offsetof(struct echo_options, common.size), "N", "message bytes (1)", 1,
	  ECHO_FRAME_MAX_MESSAGE, NULL },
	{ "rounds", OPTIONS_NUMBER, offsetof(struct echo_options, common.rounds), "N", "echoes that count (1000000)", 1,
	  UINT32_MAX, NULL },
	{ "sessions", OPTIONS_NUMBER, offsetof(struct echo_options, sessions), "N",
	  "peers, chosen at random, each with its own address and port (1)", 1, ECHO_FRAME_MAX_PEERS, NULL },
	{ "neighbours", OPTIONS_FLAG, offsetof(struct echo_options, neighbours), NULL,
	  "each peer has its own link address, too (they are behind one router)", 0, 0, NULL },
	{ "burst", OPTIONS_NUMBER, offsetof(struct echo_options, burst), "N", "frames per turn of the driver (1)", 1,
	  ECHO_RIG_BURST, NULL },
	{ "alone", OPTIONS_FLAG, offsetof(struct echo_options, alone), NULL,
	  "leave the graph out: what the benchmark itself costs", 0, 0, NULL },
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
	.shared = { { bench_options, offsetof(struct echo_options, common) } },
};

/* ---- running ---- */

static void
echo_counting(void *context)
{
	struct echo_bench *bench = context;

	xk_kernel_stats(bench->kernel, &bench->before);
}

static void
echo_finished(void *context)
{
	struct echo_bench *bench = context;

	xk_kernel_stats(bench->kernel, &bench->after);
	xk_kernel_halt(bench->kernel);
}

/* Prints what the protocols dropped on standard error: a missing echo is among them. */
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

/* False: something was wrong, after a message. */
static bool
echo_measure(struct echo_bench *bench, struct xk_platform *platform)
{
	const struct bench_host host = {
		.name = "bench",
		.link = ECHO_LINK,
		.address = "vnet.address=10.0.0.2/8", /* all peers are on the link */
		.sessions = (unsigned)bench->options->sessions,
		.receive = echo_rig_receive,
		.transmit = echo_rig_transmit,
		.context = &bench->rig,
	};
	const char *wrong;

	bench->kernel = bench_host_new(&bench->options->common, platform, &host);
	if (bench->kernel == NULL)
		return false;
	xk_kernel_run(bench->kernel);
	wrong = bench->rig.wrong;
	if (wrong != NULL) {
		fprintf(stderr, "xk bench echo: round %" PRIu64 ": wrong with the echo: %s\n", bench->rig.wrong_round,
			wrong);
		echo_print_drops(bench->kernel);
	}
	xk_kernel_free(bench->kernel);
	return wrong == NULL;
}

/* ---- telling ---- */

static double
echo_per_echo(const struct echo_bench *bench, unsigned count)
{
	return bench_per_round(&bench->options->common, &bench_counts[count], &bench->before, &bench->after, 1);
}

static bool
echo_write_json(const void *context, FILE *out)
{
	const struct echo_bench *bench = context;
	struct json json;

	json_begin(&json, out);
	bench_json(&json, &bench->options->common);
	json_uint(&json, "sessions", bench->options->sessions);
	json_uint(&json, "burst", bench->options->burst);
	json_double(&json, "echo_ns", bench->echo_ns);
	json_double(&json, "rig_ns", bench->rig_ns);
	json_double(&json, "net_ns", bench->echo_ns - bench->rig_ns);
	json_object(&json, "per_echo");
	for (unsigned i = 0; i < ECHO_COUNTS; i++)
		json_double(&json, bench_counts[i].name, echo_per_echo(bench, i));
	json_close(&json);
	json_close(&json);
	return json_end(&json);
}

static void
echo_tell(const void *context)
{
	const struct echo_bench *bench = context;
	const struct echo_options *o = bench->options;

	output_print_name(o->common.graph);
	printf(", %" PRIu64 " byte%s, %" PRIu64 " session%s: %.1f ns an echo (median of batches), of which %.1f ns\n"
	       "making and checking frames: %.1f ns for the graph.\n",
	       o->common.size, o->common.size == 1 ? "" : "s", o->sessions, o->sessions == 1 ? "" : "s", bench->echo_ns,
	       bench->rig_ns, bench->echo_ns - bench->rig_ns);
	printf("Per echo: %.3f turns of the driver, %.3f clock reads, %.3f stack switches, %.3f locks.\n",
	       echo_per_echo(bench, 0), echo_per_echo(bench, 1), echo_per_echo(bench, 2), echo_per_echo(bench, 3));
	printf("Instructions: see --help.\n");
}

static bool
echo_run(const struct bench_options *common, struct xk_platform *platform)
{
	static const struct echo_end server = { ECHO_LINK, ECHO_HOST, XK_UDPTEST_PORT };
	const struct bench_report report = { echo_program.name, common->json, echo_write_json, echo_tell };
	const struct echo_options *o = (const struct echo_options *)common;
	struct echo_bench *bench = calloc(1, sizeof(*bench));
	bool good = true;

	xk_assert(bench != NULL);
	bench->options = o;
	bench->rig = (struct echo_rig){ .platform = platform,
					.sessions = (uint32_t)o->sessions,
					.burst = (uint32_t)o->burst,
					.neighbours = o->neighbours,
					.rounds = common->rounds,
					.alone = o->alone,
					.counting = o->alone ? NULL : echo_counting,
					.finished = o->alone ? NULL : echo_finished,
					.context = bench };
	echo_rig_init(&bench->rig, &server, (uint32_t)common->size);
	if (o->alone) {
		echo_rig_alone(&bench->rig);
	} else {
		good = echo_measure(bench, platform);
		bench->echo_ns = echo_rig_median_ns(&bench->rig);
		bench->rig_ns = good ? echo_rig_cost_ns(&bench->rig, (uint32_t)common->size) : 0;
		good = good && bench_report(&report, bench);
	}
	free(bench);
	return good;
}

static int
echo_main(int argc, char **argv)
{
	static const struct bench_kind kind = { &echo_program, "echo", "graphs/udptest.dot", echo_run };
	struct echo_options o = { .common = { .size = 1, .rounds = 1000000 }, .sessions = 1, .burst = 1 };

	return bench_main(&kind, &o.common, argc, argv);
}

/* ---- the word ---- */

static const struct {
	const char *word;
	int (*run)(int argc, char **argv);
	const char *usage;
} bench_words[] = {
	{ "echo", echo_main, "echo [OPTION]..." },
	{ "call", xk_bench_call_main, "call [OPTION]..." },
	{ "handoff", xk_bench_handoff_main, "handoff [OPTION]..." },
	{ "sim", xk_bench_sim_main, "sim NETWORK [OPTION]..." },
};

int
xk_bench_main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	for (size_t i = 0; i < XK_ARRAY_LENGTH(bench_words); i++)
		if (strcmp(what, bench_words[i].word) == 0)
			return bench_words[i].run(argc - 1, argv + 1);
	if (strcmp(what, "--help") == 0) {
		for (size_t i = 0; i < XK_ARRAY_LENGTH(bench_words); i++)
			printf("%s xk bench %s\n", i == 0 ? "usage:" : "      ", bench_words[i].usage);
		printf("Each has --help.\n");
		return OPTIONS_SUCCESS;
	}
	if (argc < 2)
		fprintf(stderr, "xk bench: which benchmark? There are: echo, call, handoff, sim\n");
	else
		fprintf(stderr, "xk bench: \"%s\" is no benchmark; there are: echo, call, handoff, sim\n", what);
	return OPTIONS_MISUSE;
}
