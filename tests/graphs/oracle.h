/*
 * oracle.h - compares our parser with graphviz's own, libcgraph. If libcgraph was not found at build time, everything
 * agrees.
 */
#ifndef TESTS_GRAPH_ORACLE_H
#define TESTS_GRAPH_ORACLE_H

#include <stdlib.h>
#include <string.h>

#include "graphs/graph.h"

#ifdef HAVE_CGRAPH

#include <cgraph.h>

/* Every libcgraph object has a value for every attribute, perhaps empty. */
static inline bool
oracle_same_attributes(Agraph_t *g, void *object, int kind, const struct xk_graph_attributes *ours)
{
	unsigned found = 0;

	for (Agsym_t *symbol = agnxtattr(g, kind, NULL); symbol != NULL; symbol = agnxtattr(g, kind, symbol)) {
		const struct xk_graph_attribute *a = xk_graph_attribute_find(ours, symbol->name);

		found += a != NULL;
		if (strcmp(agxget(object, symbol), a == NULL ? "" : a->value) != 0)
			return false;
	}
	return found == ours->count;
}

/* Both list nodes in file order. */
static inline bool
oracle_same_nodes(Agraph_t *g, const struct xk_graph *graph)
{
	unsigned sequence = 0;

	for (Agnode_t *n = agfstnode(g); n != NULL; n = agnxtnode(g, n), sequence++) {
		int found = xk_graph_node_find(graph, agnameof(n));

		if (found < 0 || graph->nodes[found].sequence != sequence ||
		    !oracle_same_attributes(g, n, AGNODE, &graph->nodes[found].attributes))
			return false;
	}
	return sequence == graph->node_count;
}

static inline int
oracle_compare_edges(const void *a, const void *b)
{
	unsigned left = AGSEQ(*(Agedge_t *const *)a), right = AGSEQ(*(Agedge_t *const *)b);

	return (left > right) - (left < right);
}

/* Returns true if libcgraph has graph's edges. It does not return them in file order. */
static inline bool
oracle_same_edges(Agraph_t *g, const struct xk_graph *graph)
{
	Agedge_t *edges[XK_GRAPH_EDGES_MAX];
	unsigned count = 0;

	if (agnedges(g) != (int)graph->edge_count)
		return false;
	for (Agnode_t *n = agfstnode(g); n != NULL; n = agnxtnode(g, n))
		for (Agedge_t *e = agfstout(g, n); e != NULL; e = agnxtout(g, e))
			edges[count++] = e;
	qsort(edges, count, sizeof(*edges), oracle_compare_edges);
	for (unsigned i = 0; i < count; i++) {
		const struct xk_graph_edge *ours = &graph->edges[i];
		Agedge_t *theirs = edges[ours->sequence];

		if (strcmp(agnameof(agtail(theirs)), graph->nodes[ours->upper].name) != 0 ||
		    strcmp(agnameof(aghead(theirs)), graph->nodes[ours->lower].name) != 0 ||
		    !oracle_same_attributes(g, theirs, AGEDGE, &ours->attributes))
			return false;
	}
	return true;
}

/* Returns true if the parsers differ on purpose in a way that leaves nothing to compare. */
static inline bool
oracle_is_exempt(const struct xk_graph *graph, const char *text)
{
	/* Only since graphviz 7 does a string continue after this, as after \ and a newline. */
	if (strstr(text, "\\\r\n") != NULL)
		return true;
	/* libcgraph merges edges with the same key. To us the key is an attribute, unknown to the checker. */
	for (unsigned i = 0; i < graph->edge_count; i++)
		if (xk_graph_attribute_find(&graph->edges[i].attributes, "key") != NULL)
			return true;
	return false;
}

/*
 * Returns true if libcgraph reads text (size bytes without a NUL) as graph, which our parser read from it and accepted.
 */
static inline bool
oracle_agrees(const struct xk_graph *graph, const char *text, size_t size)
{
	char *copy = malloc(size + 2);
	bool same = false;
	Agraph_t *g;

	if (copy == NULL)
		return false;
	memcpy(copy, text, size);
	/* libcgraph reads the rest before the next text: end a comment here. */
	memcpy(copy + size, "\n", 2);
	/* Not every version accepts a byte order mark. */
	if (strncmp(copy, "\xEF\xBB\xBF", 3) == 0)
		memset(copy, ' ', 3);
	agseterr(AGMAX); /* print nothing */
	g = agmemread(copy);
	if (g != NULL)
		same = oracle_is_exempt(graph, copy) || (!agisdirected(g) == (graph->kind == XK_GRAPH_NETWORK) &&
							 oracle_same_attributes(g, g, AGRAPH, &graph->attributes) &&
							 oracle_same_nodes(g, graph) && oracle_same_edges(g, graph));
	if (g != NULL)
		agclose(g);
	free(copy);
	return same;
}

#else

static inline bool
oracle_agrees(const struct xk_graph *graph, const char *text, size_t size)
{
	return graph != NULL && strnlen(text, size) == size;
}

#endif

/* Returns true if text is a graph with these numbers of nodes and edges and libcgraph agrees. */
static inline bool
oracle_counts(const char *text, enum xk_graph_kind kind, unsigned nodes, unsigned edges)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = xk_graph_read_text_kind("text", text, strlen(text), kind, &errors);
	bool right = graph != NULL && !graph->refused && graph->node_count == nodes && graph->edge_count == edges &&
		     oracle_agrees(graph, text, strlen(text));

	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	xk_graph_free(graph);
	return right;
}

#endif
