/*
 * fuzz_graph.c - hostile graph files and --set options: reader, checker, drawing, and the composed kernel.
 *
 * An input is a graph file and --set options (fuzz_text.h). These must hold: a graph is refused if and only if an error
 * was reported; each error has a message and stands in the order of its line; libcgraph reads an accepted graph alike
 * (graphs/oracle.h), which has its lowers before its uppers, can be drawn as a graph file, and can be composed.
 */
#include "platform/sim/memory.h"
#include "tests/fuzz/fuzz_text.h"
#include "xkernel/kernel.h"

static void
graph_check_errors(const struct xk_graph_errors *errors)
{
	FUZZ_CHECK(errors->count <= XK_GRAPH_ERRORS_MAX);
	for (unsigned i = 0; i < errors->count; i++)
		FUZZ_CHECK(strncmp(errors->list[i].text, "fuzz", 4) == 0 ||
			   strncmp(errors->list[i].text, "--set", 5) == 0);
	fuzz_check_errors(errors);
}

static void
graph_check_order(const struct xk_graph *graph)
{
	unsigned *place = calloc(graph->node_count + 1, sizeof(*place));

	FUZZ_CHECK(place != NULL);
	for (unsigned i = 0; i < graph->node_count; i++) {
		FUZZ_CHECK(graph->order[i] < graph->node_count && place[graph->order[i]] == 0);
		place[graph->order[i]] = i + 1;
	}
	for (unsigned i = 0; i < graph->edge_count; i++) {
		FUZZ_CHECK(graph->edges[i].role != NULL);
		FUZZ_CHECK(place[graph->edges[i].lower] < place[graph->edges[i].upper]);
	}
	free(place);
}

/* The picture is no graph of protocols, but must be well-formed. */
static void
graph_draw(const struct xk_graph *graph)
{
	struct fuzz_print print;
	struct xk_graph *read;

	fuzz_print_begin(&print);
	xk_graph_draw(graph, print.stream);
	read = fuzz_read_drawn(&print, XK_GRAPH_PROTOCOLS);
	FUZZ_CHECK(read->node_count >= graph->node_count);
	xk_graph_free(read);
}

static void
graph_build(const struct xk_graph *graph)
{
	struct xk_kernel_config config = { .name = "fuzz", .stacks = 2, .core = -1 };
	struct xk_graph_errors errors = { 0 };
	struct xk_kernel *kernel;
	unsigned count = 0;

	config.platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);
	FUZZ_CHECK(config.platform != NULL);
	kernel = xk_kernel_new(&config);
	FUZZ_CHECK(kernel != NULL);
	FUZZ_CHECK(xk_graph_build(graph, kernel, &errors) == 0 && errors.count == 0);
	for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL; p = p->next)
		count++;
	FUZZ_CHECK(count == graph->node_count);
	xk_kernel_free(kernel);
	xk_memory_platform_free(config.platform);
}

/* Returns true if every --set was accepted. */
static bool
graph_set(struct xk_graph *graph, const uint8_t *at, const uint8_t *end, struct xk_graph_errors *errors)
{
	bool taken = true;

	for (unsigned i = 0; i < FUZZ_SETS && at != end; i++) {
		char text[FUZZ_SET_MAX];

		at = fuzz_take_set(text, at, end);
		taken &= xk_graph_set(graph, text, errors) == 0;
	}
	return taken;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xk_graph_errors errors = { 0 };
	const uint8_t *end = data + size, *sets = size == 0 ? end : fuzz_find_set(data, end);
	const char *text = size == 0 ? "" : (const char *)data;
	struct xk_graph *graph = xk_graph_read_text("fuzz", text, (size_t)(sets - data), &errors);
	bool good = graph != NULL;

	FUZZ_CHECK(!good || graph->refused || oracle_agrees(graph, text, (size_t)(sets - data)));
	good = good && graph_set(graph, sets, end, &errors);
	if (graph != NULL)
		good &= xk_graph_check(graph, xk_protocol_types, &errors) == 0;
	FUZZ_CHECK(good == (errors.count == 0));
	graph_check_errors(&errors);
	if (good) {
		graph_check_order(graph);
		graph_draw(graph);
		graph_build(graph);
	}
	xk_graph_free(graph);
	xk_graph_errors_clear(&errors);
	return 0;
}
