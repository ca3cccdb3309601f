/* bench.c - see bench.h. */
#include "tools/bench/bench.h"

#include <errno.h>
#include <string.h>

#include "graphs/graph.h"
#include "tools/output.h"
#include "tools/program/program.h"
#include "tools/program/program_compile.h"

enum { BENCH_MTU = 1500 };

const struct options_option bench_options[] = {
	{ "compiled", OPTIONS_FLAG, offsetof(struct bench_options, compiled), NULL,
	  "the graph compiled into the program: takes some seconds first", 0, 0, NULL },
	{ "graph", OPTIONS_TEXT, offsetof(struct bench_options, graph), "FILE", "the graph (see above)", 0, 0, NULL },
	{ "set", OPTIONS_TEXT_ANY, offsetof(struct bench_options, sets), "NODE.ATTRIBUTE=VALUE",
	  "a setting of the graph", 0, 0, NULL },
	{ "json", OPTIONS_TEXT, offsetof(struct bench_options, json), "FILE", "JSON to FILE; - is standard output", 0,
	  0, NULL },
	{ .name = NULL },
};

int
bench_main(const struct bench_kind *kind, struct bench_options *options, int argc, char **argv)
{
	struct options_texts operands;
	struct xk_platform *platform;
	int status = options_parse(kind->program, argc, argv, options, &operands);
	bool good;

	if (status != OPTIONS_GO)
		return status;
	options->program = kind->program->name;
	options->graph = program_graph_file(kind->program, options->graph, kind->graph);
	if (options->graph == NULL)
		return OPTIONS_MISUSE;
	if (options->compiled && program_graph == NULL) {
		compile_exec(options->graph, "bench", kind->word, argc, argv);
		return OPTIONS_FAILURE;
	}
	platform = xk_memory_platform_new(XK_MEMORY_REAL);
	xk_assert(platform != NULL);
	xk_memory_platform_recycle(platform);
	good = kind->run(options, platform);
	xk_memory_platform_free(platform);
	return good ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}

/* ---- hosts ---- */

/* Builds the graph with the benchmark's settings, then the user's. False: refused. */
static bool
bench_compose(const struct bench_options *o, const struct bench_host *host, struct xk_kernel *kernel,
	      struct xk_graph_errors *errors)
{
	struct xk_graph *graph = program_graph_read(o->graph, errors);
	bool good = graph != NULL;

	if (good && xk_graph_node_find(graph, "vnet") >= 0)
		good = xk_graph_set(graph, host->address, errors) == 0;
	if (good && host->policy != NULL)
		good = xk_graph_set(graph, host->policy, errors) == 0;
	for (unsigned i = 0; good && i < o->sets.count; i++)
		good = xk_graph_set(graph, o->sets.text[i], errors) == 0;
	good = good && program_graph_check(graph, false, errors) == 0 && xk_graph_build(graph, kernel, errors) == 0;
	xk_graph_free(graph);
	return good;
}

struct xk_kernel *
bench_host_new(const struct bench_options *o, struct xk_platform *platform, const struct bench_host *host)
{
	const struct xk_kernel_config config = {
		.name = host->name, .platform = platform, .mode = XK_IPP, .driver = XK_DRIVER_POLL, .core = -1
	};
	struct xk_kernel *kernel = xk_kernel_new(&config);
	struct xk_port *port = xk_memory_port_new(platform, "port", host->link, BENCH_MTU);
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_protocol *failed = NULL;
	int err = -EINVAL;

	xk_assert(kernel != NULL && port != NULL);
	xk_memory_loop(port, host->receive, host->transmit, host->context);
	xk_kernel_add_port(kernel, port);
	if (bench_compose(o, host, kernel, &errors)) {
		for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL; p = p->next)
			if (p->session_max != 0 && p->session_max <= host->sessions)
				p->session_max = host->sessions + 1;
		err = xk_kernel_init(kernel, &failed);
		if (err == 0 && host->test != NULL && xk_kernel_find(kernel, host->test) == NULL)
			err = -ENOENT;
		if (err != 0)
			fprintf(stderr, "%s: %s: %s: %s\n", o->program, o->graph,
				failed != NULL       ? failed->name
				: host->test != NULL ? host->test
						     : "the graph",
				strerror(-err));
	}
	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	if (err == 0)
		return kernel;
	xk_kernel_free(kernel);
	return NULL;
}

/* ---- the report ---- */

const struct bench_count bench_counts[] = {
	{ "turns", offsetof(struct xk_kernel_stats, turns) },
	{ "clock_reads", offsetof(struct xk_kernel_stats, clock_reads) },
	{ "stack_switches", offsetof(struct xk_kernel_stats, stack_switches) },
	{ "locks", offsetof(struct xk_kernel_stats, locks) },
	{ "parks", offsetof(struct xk_kernel_stats, parks) },
	{ .name = NULL },
};

double
bench_per_round(const struct bench_options *options, const struct bench_count *count,
		const struct xk_kernel_stats *before, const struct xk_kernel_stats *after, unsigned hosts)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < hosts; i++)
		sum += *(const uint64_t *)((const char *)&after[i] + count->offset) -
		       *(const uint64_t *)((const char *)&before[i] + count->offset);
	return (double)sum / (double)options->rounds;
}

void
bench_json(struct json *json, const struct bench_options *o)
{
	json_object(json, NULL);
	json_string(json, "program", o->program);
	json_string(json, "graph", o->graph);
	json_bool(json, "compiled", program_graph != NULL);
	json_uint(json, "size", o->size);
	json_uint(json, "rounds", o->rounds);
}

bool
bench_report(const struct bench_report *report, const void *bench)
{
	bool to_stdout = report->json != NULL && strcmp(report->json, "-") == 0;

	if (report->json != NULL) {
		FILE *out = output_open(report->json);
		bool good = out != NULL && report->write_json(bench, out);

		if (!output_close(out) || !good) {
			fprintf(stderr, "%s: %s: %s\n", report->program, report->json, strerror(errno));
			return false;
		}
	}
	if (!to_stdout)
		report->tell(bench);
	return true;
}
