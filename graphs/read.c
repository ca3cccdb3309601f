/*
 * read.c - a graph file becomes a struct xk_graph: the scan (scan.h) reads it, and what it has found is sorted here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "graphs/graph.h"
#include "graphs/scan.h"

/* ---- the file ---- */

/* At most XK_GRAPH_FILE_MAX bytes of stream and one more; a NUL follows. */
static char *
read_all(FILE *stream, size_t *size)
{
	size_t room = XK_GRAPH_FILE_MAX + 1;
	char *text = malloc(room + 1);

	xk_assert(text != NULL);
	*size = fread(text, 1, room, stream);
	text[*size] = '\0';
	return text;
}

static char *
read_file(const char *file, size_t *size, struct xk_graph_errors *errors)
{
	FILE *stream = fopen(file, "re");
	struct stat status;
	char *text;

	if (stream == NULL || fstat(fileno(stream), &status) != 0) {
		xk_graph_errors_add(errors, file, 0, "cannot be read: %s", strerror(errno));
		if (stream != NULL)
			fclose(stream);
		return NULL;
	}
	if (S_ISDIR(status.st_mode)) {
		xk_graph_errors_add(errors, file, 0, "is a directory, not a graph file");
		fclose(stream);
		return NULL;
	}
	text = read_all(stream, size);
	if (!ferror(stream)) {
		fclose(stream);
		return text;
	}
	xk_graph_errors_add(errors, file, 0, "cannot be read: %s", strerror(errno));
	fclose(stream);
	free(text);
	return NULL;
}

/* ---- the order ---- */

static int
read_compare_nodes(const void *a, const void *b)
{
	return strcmp(((const struct xk_graph_node *)a)->name, ((const struct xk_graph_node *)b)->name);
}

static int
read_compare_edges(const void *a, const void *b)
{
	const struct xk_graph_edge *left = a, *right = b;

	if (left->upper != right->upper)
		return left->upper < right->upper ? -1 : 1;
	return left->sequence < right->sequence ? -1 : left->sequence > right->sequence;
}

/* From the order in which nodes and edges are written to the one of struct xk_graph. */
static void
read_sort(struct xk_graph *graph)
{
	unsigned *place = calloc(graph->node_count + 1, sizeof(*place));

	xk_assert(place != NULL);
	if (graph->node_count > 0)
		qsort(graph->nodes, graph->node_count, sizeof(*graph->nodes), read_compare_nodes);
	for (unsigned i = 0; i < graph->node_count; i++)
		place[graph->nodes[i].sequence] = i;
	for (unsigned i = 0; i < graph->edge_count; i++) {
		graph->edges[i].upper = place[graph->edges[i].upper];
		graph->edges[i].lower = place[graph->edges[i].lower];
	}
	if (graph->edge_count > 0)
		qsort(graph->edges, graph->edge_count, sizeof(*graph->edges), read_compare_edges);
	free(place);
}

/* ---- a graph ---- */

/* Whether text can be looked at: it is not too long, and holds no NUL. */
static bool
read_is_text(const char *file, const char *text, size_t size, struct xk_graph_errors *errors)
{
	const char *nul;
	unsigned line = 1;

	if (size > XK_GRAPH_FILE_MAX) {
		xk_graph_errors_add(errors, file, 0, "is longer than %d bytes", XK_GRAPH_FILE_MAX);
		return false;
	}
	nul = memchr(text, '\0', size);
	if (nul == NULL)
		return true;
	for (const char *p = text; p < nul; p++)
		line += *p == '\n';
	xk_graph_errors_add(errors, file, line, "a NUL byte: this is no text");
	return false;
}

struct xk_graph *
xk_graph_read_text_kind(const char *file, const char *text, size_t size, enum xk_graph_kind kind,
			struct xk_graph_errors *errors)
{
	struct xk_graph *graph;
	char *copy;

	if (!read_is_text(file, text, size, errors))
		return NULL;
	graph = calloc(1, sizeof(*graph));
	copy = malloc(size + 1);
	xk_assert(graph != NULL && copy != NULL);
	memcpy(copy, text, size);
	copy[size] = '\0';
	graph->file = xk_graph_copy(file);
	graph->kind = kind;
	if (scan_text(graph, copy, size, errors)) {
		read_sort(graph);
	} else {
		xk_graph_free(graph);
		graph = NULL;
	}
	free(copy);
	return graph;
}

struct xk_graph *
xk_graph_read_text(const char *file, const char *text, size_t size, struct xk_graph_errors *errors)
{
	return xk_graph_read_text_kind(file, text, size, XK_GRAPH_PROTOCOLS, errors);
}

struct xk_graph *
xk_graph_read_kind(const char *file, enum xk_graph_kind kind, struct xk_graph_errors *errors)
{
	struct xk_graph *graph;
	size_t size;
	char *text = read_file(file, &size, errors);

	if (text == NULL)
		return NULL;
	graph = xk_graph_read_text_kind(file, text, size, kind, errors);
	free(text);
	return graph;
}

struct xk_graph *
xk_graph_read(const char *file, struct xk_graph_errors *errors)
{
	return xk_graph_read_kind(file, XK_GRAPH_PROTOCOLS, errors);
}

bool
xk_graph_file_is_network(const char *file)
{
	struct xk_graph_errors errors = { 0 };
	size_t size;
	char *text = read_file(file, &size, &errors);
	bool is_network = text != NULL && scan_is_network(text, size);

	free(text);
	xk_graph_errors_clear(&errors);
	return is_network;
}
