/*
 * fuzz_graph.c - hostile graph files and --set options: reader, checker, drawing, and the kernel that is composed.
 *
 * An input is a graph file; after a byte FUZZ_GRAPH_SET one --set option follows, after another one the next. These
 * must hold: a graph is refused if and only if something was found wrong, each error says what and stands in the order
 * of its line; what is accepted has its lowers before its uppers, can be drawn as a graph file that libcgraph reads,
 * and can be composed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "tests/fuzz/fuzz.h"
#include "xkernel/kernel.h"

enum { FUZZ_GRAPH_SET = 1, FUZZ_GRAPH_SETS = 8, FUZZ_GRAPH_SET_MAX = 256 };

static void
graph_check_errors(const struct xk_graph_errors *errors)
{
	char *text = NULL;
	size_t len = 0;
	FILE *stream;

	FUZZ_CHECK(errors->count <= XK_GRAPH_ERRORS_MAX);
	for (unsigned i = 0; i < errors->count; i++)
		FUZZ_CHECK(strncmp(errors->list[i].text, "fuzz", 4) == 0 ||
			   strncmp(errors->list[i].text, "--set", 5) == 0);
	stream = open_memstream(&text, &len);
	FUZZ_CHECK(stream != NULL);
	xk_graph_errors_print(errors, stream);
	FUZZ_CHECK(fclose(stream) == 0);
	FUZZ_CHECK((len > 0) == (errors->count > 0));
	free(text);
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

/* The picture is no graph of protocols, but must be right in its form. */
static void
graph_draw(const struct xk_graph *graph)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *read;
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);

	FUZZ_CHECK(stream != NULL);
	xk_graph_draw(graph, stream);
	FUZZ_CHECK(fclose(stream) == 0);
	read = xk_graph_read_text("fuzz", text, len, &errors);
	FUZZ_CHECK(read != NULL);
	FUZZ_CHECK(read->node_count >= graph->node_count);
	xk_graph_free(read);
	xk_graph_errors_clear(&errors);
	free(text);
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

/* Where the next --set begins in text, or its end. */
static const uint8_t *
graph_cut(const uint8_t *text, const uint8_t *end)
{
	const uint8_t *cut = end == text ? NULL : memchr(text, FUZZ_GRAPH_SET, (size_t)(end - text));

	return cut == NULL ? end : cut;
}

/* Whether every --set was taken. */
static bool
graph_set(struct xk_graph *graph, const uint8_t *at, const uint8_t *end, struct xk_graph_errors *errors)
{
	bool taken = true;

	for (unsigned i = 0; i < FUZZ_GRAPH_SETS && at != end; i++) {
		const uint8_t *next = graph_cut(at + 1, end);
		size_t len = (size_t)(next - at - 1);
		char text[FUZZ_GRAPH_SET_MAX];

		len = len < sizeof(text) ? len : sizeof(text) - 1;
		memcpy(text, at + 1, len);
		text[len] = '\0';
		taken &= xk_graph_set(graph, text, errors) == 0;
		at = next;
	}
	return taken;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xk_graph_errors errors = { 0 };
	const uint8_t *end = data + size, *sets = size == 0 ? end : graph_cut(data, end);
	const char *text = size == 0 ? "" : (const char *)data;
	struct xk_graph *graph = xk_graph_read_text("fuzz", text, (size_t)(sets - data), &errors);
	bool good = graph != NULL && graph_set(graph, sets, end, &errors);

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
