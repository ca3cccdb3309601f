/* read.c - reads a graph file into a struct xk_graph: scans it (scan_private.h), and sorts the nodes and edges. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "graphs/scan_private.h"

/* ---- the file ---- */

/* Reads at most XK_GRAPH_FILE_MAX + 1 bytes of file, and appends a NUL. Returns NULL with the reason in errors. */
static char *
read_file(const char *file, size_t *size, struct xk_graph_errors *errors)
{
	size_t room = XK_GRAPH_FILE_MAX + 1;
	FILE *stream = fopen(file, "re");
	struct stat status;
	char *text;

	if (stream == NULL || fstat(fileno(stream), &status) != 0) {
		xk_graph_errors_add(errors, file, 0, "cannot be read: %s", xk_error(errno));
		if (stream != NULL)
			fclose(stream);
		return NULL;
	}
	if (S_ISDIR(status.st_mode)) {
		xk_graph_errors_add(errors, file, 0, "is a directory, not a graph file");
		fclose(stream);
		return NULL;
	}
	text = malloc(room + 1);
	if (text == NULL) {
		xk_graph_errors_add(errors, file, 0, "cannot be read: %s", xk_error(ENOMEM));
		fclose(stream);
		return NULL;
	}
	*size = fread(text, 1, room, stream);
	text[*size] = '\0';
	if (ferror(stream)) {
		xk_graph_errors_add(errors, file, 0, "cannot be read: %s", xk_error(errno));
		free(text);
		text = NULL;
	}
	fclose(stream);
	return text;
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

/* Sorts nodes and edges from the order in which they are written into that of struct xk_graph. */
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

struct xk_graph *
xk_graph_read_text_kind(const char *file, const char *text, size_t size, enum xk_graph_kind kind,
			struct xk_graph_errors *errors)
{
	const char *nul = memchr(text, '\0', size);
	struct xk_graph *graph;
	unsigned line = 1;
	char *copy;

	if (size > XK_GRAPH_FILE_MAX) {
		xk_graph_errors_add(errors, file, 0, "is longer than %d bytes", XK_GRAPH_FILE_MAX);
		return NULL;
	}
	if (nul != NULL) {
		for (const char *p = text; p < nul; p++)
			line += *p == '\n';
		xk_graph_errors_add(errors, file, line, "a NUL byte: this is not text");
		return NULL;
	}
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

const char *
xk_graph_file(const char *given, const char *usual)
{
	if (given != NULL)
		return given;
	return xk_program_graph != NULL ? xk_program_graph->file : usual;
}

struct xk_graph *
xk_graph_read(const char *file, struct xk_graph_errors *errors)
{
	const struct xk_graph_source *program = xk_program_graph;

	if (program != NULL && strcmp(file, program->file) == 0)
		return xk_graph_read_text(file, program->text, strlen(program->text), errors);
	return xk_graph_read_kind(file, XK_GRAPH_PROTOCOLS, errors);
}

bool
xk_graph_file_is_network(const char *file)
{
	struct xk_graph_errors errors = { 0 };
	size_t size;
	char *text;
	bool is_network;

	if (xk_program_graph != NULL && strcmp(file, xk_program_graph->file) == 0)
		return false;
	text = read_file(file, &size, &errors);
	is_network = text != NULL && scan_is_network(text, size);
	free(text);
	xk_graph_errors_clear(&errors);
	return is_network;
}
