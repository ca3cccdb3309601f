/* load.c - loads a graph from its file: reads, sets and checks it. */
#include "graphs/graph.h"

struct xk_graph *
xk_graph_finish(struct xk_graph *graph, const char *const *sets, unsigned set_count,
		const struct xk_protocol_type *const *types, struct xk_graph_errors *errors)
{
	if (graph == NULL)
		return NULL;
	for (unsigned i = 0; i < set_count; i++)
		xk_graph_set(graph, sets[i], errors);
	if (xk_graph_check(graph, types, errors) == 0)
		return graph;
	xk_graph_free(graph);
	return NULL;
}

struct xk_graph *
xk_graph_load(const char *file, const char *const *sets, unsigned set_count,
	      const struct xk_protocol_type *const *types, struct xk_graph_errors *errors)
{
	return xk_graph_finish(xk_graph_read(file, errors), sets, set_count, types, errors);
}
