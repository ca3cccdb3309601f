/* compiled.c - gives a graph the types that were compiled into the program for it; see compiled.h. */
#include "graphs/compiled.h"

#include <errno.h>
#include <string.h>

#include "xkernel/trace.h"

/* Whether graph has the nodes that were compiled, of the same types, in the same order. */
static bool
compiled_has_nodes(const struct xk_graph_compiled *compiled, const struct xk_graph *graph)
{
	if (graph->node_count != compiled->node_count)
		return false;
	for (unsigned i = 0; i < graph->node_count; i++) {
		const struct xk_graph_node *node = &graph->nodes[graph->order[i]];

		if (strcmp(node->name, compiled->names[i]) != 0 ||
		    strcmp(node->type->name, compiled->plain[i]->name) != 0)
			return false;
	}
	return true;
}

/* Whether two graphs of the same nodes have the same edges. */
static bool
compiled_has_edges(const struct xk_graph *graph, const struct xk_graph *file)
{
	if (graph->edge_count != file->edge_count)
		return false;
	for (unsigned i = 0; i < graph->edge_count; i++) {
		const struct xk_graph_edge *a = &graph->edges[i], *b = &file->edges[i];

		if (a->upper != b->upper || a->lower != b->lower || strcmp(a->role->name, b->role->name) != 0)
			return false;
	}
	return true;
}

/* Whether a crossing of graph must look at marks or an order that the compiled file does not have there. */
static bool
compiled_is_changed(const struct xk_graph *graph, const struct xk_graph *file)
{
	if ((graph->budget.budget_ns != 0) != (file->budget.budget_ns != 0))
		return true;
	for (unsigned i = 0; i < graph->edge_count; i++) {
		const struct xk_graph_edge *a = &graph->edges[i], *b = &file->edges[i];

		if (a->handoff != b->handoff || (a->budget.budget_ns != 0) != (b->budget.budget_ns != 0))
			return true;
	}
	for (unsigned i = 0; i < graph->node_count; i++) {
		const struct xk_graph_policy *policy = &graph->nodes[i].policy;

		if (policy->trace_level >= XK_TRACE_MESSAGES ||
		    policy->order_session != file->nodes[i].policy.order_session)
			return true;
	}
	return false;
}

int
xk_graph_specialise(struct xk_graph *graph, const struct xk_graph_compiled *compiled, bool watched)
{
	struct xk_graph_errors errors = { .list = NULL };
	const struct xk_protocol_type *first;
	struct xk_graph *file;
	int err = -EINVAL;

	xk_assert(graph->checked);
	if (!compiled_has_nodes(compiled, graph))
		return -EINVAL;
	first = graph->nodes[graph->order[0]].type;
	if (first == compiled->plain[0] || first == compiled->watched[0]) /* it has them already */
		return 0;
	file = xk_graph_read_text(compiled->file, compiled->text, compiled->size, &errors);
	if (file != NULL && xk_graph_check(file, xk_protocol_types, &errors) == 0 && compiled_has_edges(graph, file)) {
		watched = watched || compiled_is_changed(graph, file);
		for (unsigned i = 0; i < graph->node_count; i++)
			graph->nodes[graph->order[i]].type = watched ? compiled->watched[i] : compiled->plain[i];
		err = 0;
	}
	xk_graph_errors_clear(&errors);
	xk_graph_free(file);
	return err;
}
