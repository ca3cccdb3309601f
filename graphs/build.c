/* build.c - a checked graph becomes the protocols and edges of a kernel, lowers first. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/graph.h"
#include "xkernel/kernel.h"

/* The node's attributes that are settings of its type. */
static int
build_settings(const struct xk_graph *graph, const struct xk_graph_node *node, struct xk_protocol *protocol,
	       struct xk_graph_errors *errors)
{
	const struct xk_setting *setting = node->type->settings;

	for (; setting != NULL && setting->name != NULL; setting++) {
		const struct xk_graph_attribute *a = xk_graph_attribute_find(&node->attributes, setting->name);
		char why[160] = "another value";
		int result = a == NULL ? 0 : xk_setting_parse(setting, a->value, protocol, why, sizeof(why));

		if (result == 0)
			continue;
		xk_graph_errors_add(errors, a->line == 0 ? "--set" : graph->file, a->line, "%s of %s is \"%.80s\": %s",
				    a->name, node->name, a->value, why);
		return result;
	}
	return 0;
}

static void
build_policy(const struct xk_graph_policy *policy, struct xk_protocol *protocol)
{
	protocol->implicit = policy->implicit;
	protocol->spin_ns = policy->spin_ns;
	protocol->resume = policy->resume;
	protocol->trace_level = policy->trace_level;
	protocol->order_session = policy->order_session;
	if (policy->session_max != 0)
		protocol->session_max = policy->session_max;
}

static void
build_marks(const struct xk_graph_edge *from, struct xk_edge *edge)
{
	if (from->handoff == XK_GRAPH_EXPLICIT)
		xk_edge_watch(edge, XK_WATCH_EXPLICIT, XK_WATCH_EXPLICIT);
	edge->never = from->handoff == XK_GRAPH_NEVER;
	edge->budget_ns = from->budget.budget_ns;
	edge->carry_ns = from->budget.budget_ns * from->budget.carry;
	edge->has_number = from->has_number;
	edge->number = from->number;
}

/* made: the protocols of nodes that were built before, by index. */
static int
build_edges(const struct xk_graph *graph, unsigned index, struct xk_kernel *kernel, struct xk_protocol **made)
{
	const struct xk_graph_node *node = &graph->nodes[index];

	for (unsigned i = 0; i < node->lower_count; i++) {
		const struct xk_graph_edge *from = &graph->edges[node->lowers[i]];
		struct xk_edge *edge = xk_kernel_add_edge(kernel, made[index], made[from->lower], from->role->name);

		if (edge == NULL)
			return -ENOMEM;
		build_marks(from, edge);
	}
	return 0;
}

static int
build_node(const struct xk_graph *graph, unsigned index, struct xk_kernel *kernel, struct xk_protocol **made,
	   struct xk_graph_errors *errors)
{
	const struct xk_graph_node *node = &graph->nodes[index];
	int result;

	made[index] = xk_kernel_add_protocol(kernel, node->type, node->name);
	if (made[index] == NULL)
		return -ENOMEM;
	build_policy(&node->policy, made[index]);
	result = build_settings(graph, node, made[index], errors);
	return result != 0 ? result : build_edges(graph, index, kernel, made);
}

int
xk_graph_build(const struct xk_graph *graph, struct xk_kernel *kernel, struct xk_graph_errors *errors)
{
	struct xk_protocol **made = calloc(graph->node_count + 1, sizeof(*made));
	int result = made == NULL ? -ENOMEM : 0;

	xk_assert(graph->checked);
	for (unsigned i = 0; i < graph->node_count && result == 0; i++)
		result = build_node(graph, graph->order[i], kernel, made, errors);
	if (result == -ENOMEM)
		xk_graph_errors_add(errors, graph->file, 0, "cannot be composed: no memory");
	else if (result == 0)
		xk_kernel_set_budget(kernel, graph->budget.budget_ns, graph->budget.carry);
	free(made);
	return result;
}
