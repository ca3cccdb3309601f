/*
 * read.c - a graph file becomes a struct xk_graph: libcgraph reads it, the scan (scan.h) says where everything stands.
 */
#include <cgraph.h>
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

/* ---- libcgraph ---- */

/* The line in "file: syntax error in line 3 near 'x'"; 0: none. */
static unsigned
read_error_line(const char *message)
{
	const char *line = message == NULL ? NULL : strstr(message, " line ");

	return line == NULL ? 0 : (unsigned)strtoul(line + strlen(" line "), NULL, 10);
}

/* Adds what libcgraph would print. This is rare: the scan has found all syntax errors but a third port after a name. */
static void
read_cgraph_error(struct scan *scan)
{
	char *message = agerrors() != 0 ? aglasterr() : NULL;

	if (message != NULL)
		message[strcspn(message, "\n")] = '\0';
	xk_graph_errors_add(scan->errors, scan->file, read_error_line(message), "libcgraph cannot read this: %s",
			    message == NULL ? "no message" : message);
	free(message);
}

/* NULL: it cannot be read. */
static Agraph_t *
read_cgraph(struct scan *scan, const char *text)
{
	char name[] = "DOT";
	agerrlevel_t level;
	Agraph_t *g;

	/* Kept in libcgraph (for aglasterr) instead of printed. Line and file name live on from the last file. */
	level = agseterr(AGMAX);
	agreseterrors();
	agsetfile(name);
	agreadline(1);
	g = agmemread(text);
	if (g == NULL)
		read_cgraph_error(scan);
	agsetfile(NULL);
	agseterr(level);
	return g;
}

/* ---- from libcgraph's graph to ours ---- */

/*
 * The attributes of a libcgraph object that were written on it, or as a default (libcgraph has a value, perhaps empty,
 * of every attribute for every object).
 */
static void
read_attributes(Agraph_t *g, void *object, int kind, const struct xk_graph_attributes *written,
		const struct xk_graph_attributes *defaults, struct xk_graph_attributes *into)
{
	for (Agsym_t *symbol = agnxtattr(g, kind, NULL); symbol != NULL; symbol = agnxtattr(g, kind, symbol)) {
		const struct xk_graph_attribute *where = xk_graph_attribute_find(written, symbol->name);

		if (where == NULL && defaults != NULL)
			where = xk_graph_attribute_find(defaults, symbol->name);
		if (where != NULL) {
			char *value = agxget(object, symbol);

			xk_graph_attribute_add(into, symbol->name, value, where->line)->html = where->html;
		}
	}
}

static int
read_compare_nodes(const void *a, const void *b)
{
	return strcmp(((const struct xk_graph_node *)a)->name, ((const struct xk_graph_node *)b)->name);
}

static void
read_nodes(struct xk_graph *graph, Agraph_t *g, const struct scan *scan)
{
	for (Agnode_t *n = agfstnode(g); n != NULL; n = agnxtnode(g, n)) {
		int found = scan_node_find(scan, agnameof(n));
		const struct scan_node *where;
		struct xk_graph_node *node;

		xk_assert(found >= 0);
		where = &scan->nodes[found];
		graph->nodes = xk_graph_grow(graph->nodes, graph->node_count, sizeof(*graph->nodes));
		node = &graph->nodes[graph->node_count++];
		node->name = xk_graph_copy(agnameof(n));
		node->line = where->line;
		node->sequence = (unsigned)found;
		read_attributes(g, n, AGNODE, &where->attributes, &scan->node_defaults, &node->attributes);
	}
	if (graph->node_count > 0)
		qsort(graph->nodes, graph->node_count, sizeof(*graph->nodes), read_compare_nodes);
}

static int
read_compare_edges(const void *a, const void *b)
{
	unsigned left = AGSEQ(*(Agedge_t *const *)a), right = AGSEQ(*(Agedge_t *const *)b);

	return (left > right) - (left < right);
}

/* The edges that leave n, in the order of their sequence: libcgraph does not return them so. */
static Agedge_t **
read_sorted_edges(Agraph_t *g, Agnode_t *n, unsigned *count)
{
	Agedge_t **list = NULL;

	*count = 0;
	for (Agedge_t *e = agfstout(g, n); e != NULL; e = agnxtout(g, e)) {
		list = xk_graph_grow(list, *count, sizeof(*list));
		list[(*count)++] = e;
	}
	if (list != NULL)
		qsort(list, *count, sizeof(*list), read_compare_edges);
	return list;
}

/* Where the next edge upper -> lower stands that is not taken yet. */
static const struct scan_edge *
read_find_edge(const struct scan *scan, bool *taken, const char *upper, const char *lower)
{
	int u = scan_node_find(scan, upper), l = scan_node_find(scan, lower);

	for (unsigned i = 0; i < scan->edge_count; i++)
		if (!taken[i] && (int)scan->edges[i].upper == u && (int)scan->edges[i].lower == l) {
			taken[i] = true;
			return &scan->edges[i];
		}
	return NULL;
}

/* An edge that libcgraph has and the scan has not seen: the two read names differently. */
static void
read_edge_unseen(struct xk_graph *graph, const struct xk_graph_edge *edge, const struct scan *scan)
{
	xk_graph_errors_add(scan->errors, scan->file, graph->nodes[edge->upper].line,
			    "the edge from %s to %s cannot be found again: write every name in one way",
			    graph->nodes[edge->upper].name, graph->nodes[edge->lower].name);
	graph->refused = true;
}

static void
read_edge(struct xk_graph *graph, Agraph_t *g, Agedge_t *e, const struct scan *scan, bool *taken)
{
	const struct scan_edge *where = read_find_edge(scan, taken, agnameof(agtail(e)), agnameof(aghead(e)));
	struct xk_graph_edge *edge;

	graph->edges = xk_graph_grow(graph->edges, graph->edge_count, sizeof(*graph->edges));
	edge = &graph->edges[graph->edge_count++];
	edge->upper = (unsigned)xk_graph_node_find(graph, agnameof(agtail(e)));
	edge->lower = (unsigned)xk_graph_node_find(graph, agnameof(aghead(e)));
	if (where == NULL) {
		read_edge_unseen(graph, edge, scan);
		return;
	}
	edge->line = where->line;
	edge->sequence = (unsigned)(where - scan->edges);
	read_attributes(g, e, AGEDGE, &where->attributes, &scan->edge_defaults, &edge->attributes);
}

static void
read_edges(struct xk_graph *graph, Agraph_t *g, const struct scan *scan)
{
	bool *taken = calloc(scan->edge_count + 1, sizeof(*taken));

	xk_assert(taken != NULL);
	for (unsigned i = 0; i < graph->node_count; i++) {
		unsigned count;
		Agedge_t **list = read_sorted_edges(g, agnode(g, graph->nodes[i].name, 0), &count);

		for (unsigned k = 0; k < count; k++)
			read_edge(graph, g, list[k], scan, taken);
		free(list);
	}
	free(taken);
}

/* The graph that libcgraph and the scan agree on. */
static struct xk_graph *
read_convert(Agraph_t *g, const struct scan *scan)
{
	struct xk_graph *graph = calloc(1, sizeof(*graph));

	xk_assert(graph != NULL);
	graph->file = xk_graph_copy(scan->file);
	graph->kind = scan->kind;
	graph->line = scan->line;
	graph->refused = scan->wrong;
	read_attributes(g, g, AGRAPH, &scan->attributes, NULL, &graph->attributes);
	read_nodes(graph, g, scan);
	read_edges(graph, g, scan);
	return graph;
}

static bool
read_knows_nodes(Agraph_t *g, const struct scan *scan)
{
	for (Agnode_t *n = agfstnode(g); n != NULL; n = agnxtnode(g, n))
		if (scan_node_find(scan, agnameof(n)) < 0)
			return false;
	return true;
}

/* Both must have seen the same, or lines would be wrong and bounds not kept. */
static bool
read_agree(Agraph_t *g, const struct scan *scan)
{
	bool directed = scan->kind == XK_GRAPH_PROTOCOLS;

	if (!agisdirected(g) == !directed && agnnodes(g) == (int)scan->node_count &&
	    agnedges(g) == (int)scan->edge_count && read_knows_nodes(g, scan))
		return true;
	/* What was refused may be why. */
	if (!scan->wrong)
		xk_graph_errors_add(scan->errors, scan->file, scan->line,
				    "libcgraph finds %d nodes and %d edges where %u and %u are written", agnnodes(g),
				    agnedges(g), scan->node_count, scan->edge_count);
	return false;
}

static struct xk_graph *
read_scanned(struct scan *scan, const char *text)
{
	Agraph_t *g = read_cgraph(scan, text);
	struct xk_graph *graph = NULL;

	if (g == NULL)
		return NULL;
	if (read_agree(g, scan))
		graph = read_convert(g, scan);
	agclose(g);
	return graph;
}

struct xk_graph *
xk_graph_read_text_kind(const char *file, const char *text, size_t size, enum xk_graph_kind kind,
			struct xk_graph_errors *errors)
{
	struct xk_graph *graph = NULL;
	struct scan scan;
	char *copy;

	if (size > XK_GRAPH_FILE_MAX) {
		xk_graph_errors_add(errors, file, 0, "is longer than %d bytes", XK_GRAPH_FILE_MAX);
		return NULL;
	}
	copy = malloc(size + 1);
	xk_assert(copy != NULL);
	memcpy(copy, text, size);
	copy[size] = '\0';
	scan_text(&scan, file, kind, copy, size, errors);
	if (!scan.failed)
		graph = read_scanned(&scan, copy);
	scan_clear(&scan);
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
