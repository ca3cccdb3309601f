/* bench.c - see bench.h. */
#include "tools/bench/bench.h"

#include <errno.h>
#include <string.h>

#include "graphs/graph.h"
#include "tools/machine.h"
#include "tools/output.h"
#include "tools/program/program_compile.h"
#include "tools/xk/xk.h"

enum { BENCH_MTU = 1500 };

const struct options_option bench_options[] = {
	OPTION(FLAG, struct bench, compiled, "compiled", NULL, "with the graph inside a program made for it"),
	OPTION(FILE, struct bench, graph, "graph", "FILE", "the graph (see above)"),
	OPTION(TEXT_ANY, struct bench, sets, "set", "NODE.ATTRIBUTE=VALUE", "a setting of the graph"),
	OPTION(CHOICE, struct bench, no_paths, "paths", "YES", "no: every message goes layer by layer (yes)",
	       .choices = options_yes_no),
	OPTION(TEXT, struct bench, json, "json", "FILE", "JSON to FILE; - is standard output"),
	{ .name = NULL },
};

int
bench_main(const struct bench_kind *kind, struct bench *bench, int argc, char **argv)
{
	struct options_texts operands;
	int status = options_parse(kind->program, argc, argv, bench, &operands);

	if (status != OPTIONS_GO)
		return status;
	bench->kind = kind;
	if (kind->graph != NULL) {
		bench->graph = xk_graph_file(bench->graph, kind->graph);
		if (bench->compiled && xk_program_graph == NULL) {
			compile_exec(bench->graph, "bench", kind->command, argc, argv);
			return OPTIONS_FAILURE;
		}
	}
	for (unsigned i = 0; i < bench->drivers || i == 0; i++) {
		bench->platforms[i] = xk_memory_platform_new(XK_MEMORY_REAL);
		xk_assert(bench->platforms[i] != NULL);
		if (kind->graph != NULL)
			xk_memory_platform_calibrate(bench->platforms[i]);
	}
	status = kind->run(bench);
	for (unsigned i = 0; i < BENCH_DRIVERS && bench->platforms[i] != NULL; i++)
		xk_memory_platform_free(bench->platforms[i]);
	return status;
}

/* ---- hosts ---- */

/* Builds the graph with the benchmark's settings, then the user's. Returns false if it is refused. */
static bool
bench_compose(const struct bench *bench, const struct bench_host *host, struct xk_kernel *kernel,
	      struct xk_graph_errors *errors)
{
	struct xk_graph *graph = xk_graph_read(bench->graph, errors);
	bool good = graph != NULL;

	if (good && xk_graph_node_find(graph, "vnet") >= 0)
		good = xk_graph_set(graph, host->address, errors) == 0;
	if (good && host->policy != NULL)
		good = xk_graph_set(graph, host->policy, errors) == 0;
	for (unsigned i = 0; good && i < bench->sets.count; i++)
		good = xk_graph_set(graph, bench->sets.text[i], errors) == 0;
	good = good && xk_graph_check(graph, xk_protocol_types, errors) == 0 &&
	       xk_graph_build(graph, kernel, errors) == 0;
	if (bench->no_paths)
		xk_kernel_set_paths(kernel, false);
	xk_graph_free(graph);
	return good;
}

/* Returns the core of a driver if there are several drivers, else -1: any. */
static int
bench_core(const struct bench *bench, unsigned driver)
{
	return bench->drivers > 1 ? machine_core(driver) : -1;
}

bool
bench_host_open(struct bench *bench, unsigned which, const struct bench_host *host)
{
	struct xk_platform *platform = host->platform == NULL ? bench->platforms[0] : host->platform;
	const struct xk_kernel_config config = { .name = host->name,
						 .platform = platform,
						 .mode = XK_IPP,
						 .driver = XK_DRIVER_POLL,
						 .core = bench_core(bench, 0) };
	struct xk_kernel *kernel = xk_kernel_new(&config);
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_protocol *failed = NULL;
	int err = -EINVAL;

	if (kernel == NULL) {
		fprintf(stderr, "%s: no host can be created: %s\n", bench->kind->program->name, xk_error(ENOMEM));
		return false;
	}
	for (unsigned i = 1; i < bench->drivers; i++)
		xk_assert(xk_kernel_add_driver(kernel, bench->platforms[i], bench_core(bench, i)) == (int)i);
	for (unsigned i = 0; i < bench->drivers || i == 0; i++) {
		struct xk_port *port = xk_memory_port_new(i == 0 ? platform : bench->platforms[i], "port", host->link,
							  bench->mtu == 0 ? BENCH_MTU : (uint32_t)bench->mtu);

		xk_assert(port != NULL);
		port->driver = i;
		xk_memory_loop(port, host->receive, host->transmit, host->contexts[i]);
		xk_kernel_add_port(kernel, port);
	}
	if (bench_compose(bench, host, kernel, &errors)) {
		for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL; p = p->next)
			if (p->session_max != 0 && p->session_max <= host->sessions)
				p->session_max = host->sessions + 1;
		err = xk_kernel_init(kernel, &failed);
		if (err == 0 && host->test != NULL && xk_kernel_find(kernel, host->test) == NULL)
			err = -ENOENT;
		if (err != 0)
			fprintf(stderr, "%s: %s: %s is missing or cannot start (%s)\n", bench->kind->program->name,
				bench->graph,
				failed != NULL       ? failed->name
				: host->test != NULL ? host->test
						     : "the graph",
				xk_error(err));
	}
	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	if (err == 0)
		bench->kernels[which] = kernel;
	else
		xk_kernel_free(kernel);
	return err == 0;
}

/* ---- counts and reports ---- */

const struct xk_kernel_count bench_counts[BENCH_COUNTS] = {
	{ "turns", offsetof(struct xk_kernel_stats, turns) },
	{ "clock_reads", offsetof(struct xk_kernel_stats, clock_reads) },
	{ "stack_switches", offsetof(struct xk_kernel_stats, stack_switches) },
	{ "locks", offsetof(struct xk_kernel_stats, locks) },
	{ "by_path", offsetof(struct xk_kernel_stats, by_path) },
	{ "parks", offsetof(struct xk_kernel_stats, parks) },
};

void
bench_take_stats(const struct bench *bench, struct xk_kernel_stats stats[BENCH_HOSTS])
{
	for (unsigned i = 0; i < BENCH_HOSTS; i++)
		if (bench->kernels[i] != NULL)
			xk_kernel_stats(bench->kernels[i], &stats[i]);
}

double
bench_per_round(const struct bench *bench, const struct xk_kernel_count *count)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < BENCH_HOSTS; i++)
		sum += *(const uint64_t *)((const char *)&bench->after[i] + count->offset) -
		       *(const uint64_t *)((const char *)&bench->before[i] + count->offset);
	return (double)sum / (double)bench->rounds;
}

void
bench_json_counts(const struct bench *bench, struct json *json, const char *key, unsigned count)
{
	json_object(json, key);
	for (unsigned i = 0; i < count; i++)
		json_double(json, bench_counts[i].name, bench_per_round(bench, &bench_counts[i]));
	json_close(json);
}

/* Writes the document. Returns false with errno set on failure. */
static bool
bench_write(const struct bench *bench)
{
	FILE *out = output_open(bench->json);
	struct json json;
	bool good;

	if (out == NULL)
		return false;
	json_begin(&json, out);
	json_object(&json, NULL);
	json_string(&json, "program", bench->kind->program->name);
	if (bench->kind->graph != NULL) {
		json_string(&json, "graph", bench->graph);
		json_bool(&json, "compiled", xk_program_graph != NULL);
		json_uint(&json, "size", bench->size);
		json_uint(&json, "rounds", bench->rounds);
	}
	bench->kind->write(bench, &json);
	json_close(&json);
	good = json_end(&json);
	return output_close(out) && good;
}

int
bench_report(const struct bench *bench)
{
	if (bench->json != NULL && !bench_write(bench)) {
		fprintf(stderr, "%s: --json %s cannot be written: %s\n", bench->kind->program->name, bench->json,
			xk_error(errno));
		return OPTIONS_FAILURE;
	}
	if (bench->json == NULL || strcmp(bench->json, "-") != 0)
		bench->kind->print(bench);
	return OPTIONS_SUCCESS;
}
