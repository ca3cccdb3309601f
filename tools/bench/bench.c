/* bench.c - see bench.h. */
#include "tools/bench/bench.h"

#include <errno.h>
#include <string.h>

#include "graphs/graph.h"
#include "tools/program/program.h"

/* ---- graphs ---- */

/* The graph with the settings of the benchmark, then the user's. NULL: refused. */
static struct xk_graph *
bench_load(const struct bench_graph *g, struct xk_graph_errors *errors)
{
	struct xk_graph *graph = program_graph_read(g->file, errors);
	bool good = graph != NULL;

	if (good && g->address != NULL && xk_graph_node_find(graph, "vnet") >= 0)
		good = xk_graph_set(graph, g->address, errors) == 0;
	if (good && g->policy != NULL)
		good = xk_graph_set(graph, g->policy, errors) == 0;
	for (unsigned i = 0; good && i < g->sets->count; i++)
		good = xk_graph_set(graph, g->sets->text[i], errors) == 0;
	if (good && program_graph_check(graph, false, errors) == 0)
		return graph;
	xk_graph_free(graph);
	return NULL;
}

static void
bench_keep_sessions(struct xk_kernel *kernel, unsigned sessions)
{
	for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL; p = p->next)
		if (p->session_max != 0 && p->session_max <= sessions)
			p->session_max = sessions + 1;
}

/* False: refused, and said why. */
static bool
bench_init(struct xk_kernel *kernel, const struct bench_graph *g)
{
	struct xk_protocol *failed = NULL;
	const char *what = g->test;
	int status = xk_kernel_init(kernel, &failed);

	if (status == 0 && g->test != NULL && xk_kernel_find(kernel, g->test) == NULL)
		status = -ENOENT;
	if (status == 0)
		return true;
	if (failed != NULL)
		what = failed->name;
	fprintf(stderr, "%s: %s: %s: %s\n", g->program, g->file, what == NULL ? "the graph" : what, strerror(-status));
	return false;
}

bool
bench_compose(struct xk_kernel *kernel, const struct bench_graph *g)
{
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_graph *graph = bench_load(g, &errors);
	bool good = graph != NULL && xk_graph_build(graph, kernel, &errors) == 0;

	if (good) {
		bench_keep_sessions(kernel, g->sessions);
		good = bench_init(kernel, g);
	}
	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	xk_graph_free(graph);
	return good;
}

/* ---- the report ---- */

static bool
bench_report_json(const struct bench_report *report, const void *bench)
{
	bool to_stdout = strcmp(report->json, "-") == 0, good;
	FILE *out = to_stdout ? stdout : fopen(report->json, "we");

	good = out != NULL && report->write_json(bench, out);
	if (out != NULL && !to_stdout && fclose(out) != 0)
		good = false;
	if (!good)
		fprintf(stderr, "%s: %s: %s\n", report->program, report->json, strerror(errno));
	return good;
}

bool
bench_report(const struct bench_report *report, const void *bench)
{
	if (report->json != NULL && !bench_report_json(report, bench))
		return false;
	if (report->json == NULL || strcmp(report->json, "-") != 0)
		report->tell(bench);
	return true;
}
