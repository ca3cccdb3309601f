/* compose.c - builds a kernel's protocols from a graph, in a file or as text; see graph.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/graph.h"
#include "xkernel/kernel.h"

/* ---- a checked graph ---- */

/* Sets the node's attributes that are settings of its type. */
static int
compose_settings(const struct xk_graph *graph, const struct xk_graph_node *node, struct xk_protocol *protocol,
		 struct xk_graph_errors *errors)
{
	const struct xk_setting *setting = node->type->settings;

	for (; setting != NULL && setting->name != NULL; setting++) {
		const struct xk_graph_attribute *a = xk_graph_attribute_find(&node->attributes, setting->name);
		char why[160] = "another value";
		int err = a == NULL ? 0 : xk_setting_parse(setting, a->value, protocol, why, sizeof(why));

		if (err == 0)
			continue;
		xk_graph_errors_add(errors, a->line == 0 ? "--set" : graph->file, a->line, "%s of %s is \"%.80s\": %s",
				    a->name, node->name, a->value, why);
		return err;
	}
	return 0;
}

/* Builds a node. made: the protocols of the nodes built before, by index. Returns 0 or -errno. */
static int
compose_node(const struct xk_graph *graph, unsigned index, struct xk_kernel *kernel, struct xk_protocol **made,
	     struct xk_graph_errors *errors)
{
	const struct xk_graph_node *node = &graph->nodes[index];
	const struct xk_graph_policy *policy = &node->policy;
	struct xk_protocol *protocol = xk_kernel_add_protocol(kernel, node->type, node->name);
	int err;

	made[index] = protocol;
	if (protocol == NULL)
		return -ENOMEM;
	protocol->implicit = policy->implicit;
	protocol->spin_ns = policy->spin_ns;
	protocol->resume = policy->resume;
	protocol->trace_level = policy->trace_level;
	protocol->order_session = policy->order_session;
	if (policy->session_max != 0)
		protocol->session_max = policy->session_max;
	err = compose_settings(graph, node, protocol, errors);
	if (err != 0)
		return err;
	for (unsigned i = 0; i < node->lower_count; i++) {
		const struct xk_graph_edge *from = &graph->edges[node->lowers[i]];
		struct xk_edge *edge = xk_kernel_add_edge(kernel, protocol, made[from->lower], from->role->name);

		if (edge == NULL)
			return -ENOMEM;
		if (from->handoff == XK_GRAPH_EXPLICIT)
			xk_edge_watch(edge, XK_WATCH_EXPLICIT, XK_WATCH_EXPLICIT);
		edge->never = from->handoff == XK_GRAPH_NEVER;
		edge->budget_ns = from->budget.budget_ns;
		edge->carry_ns = from->budget.budget_ns * from->budget.carry;
		edge->has_number = from->has_number;
		edge->number = from->number;
	}
	return 0;
}

int
xk_graph_build(const struct xk_graph *graph, struct xk_kernel *kernel, struct xk_graph_errors *errors)
{
	struct xk_protocol **made = calloc(graph->node_count + 1, sizeof(*made));
	int err = made == NULL ? -ENOMEM : 0;

	xk_assert(graph->checked);
	for (unsigned i = 0; i < graph->node_count && err == 0; i++)
		err = compose_node(graph, graph->order[i], kernel, made, errors);
	if (err == -ENOMEM)
		xk_graph_errors_add(errors, graph->file, 0, "cannot be composed: no memory");
	if (err == 0) {
		xk_kernel_set_budget(kernel, graph->budget.budget_ns, graph->budget.carry);
		xk_kernel_set_paths(kernel, !graph->no_paths);
	}
	free(made);
	return err;
}

/* ---- all steps in one ---- */

static unsigned
compose_count(const struct xk_protocol_type *const *types)
{
	unsigned count = 0;

	while (types != NULL && types[count] != NULL)
		count++;
	return count;
}

/* Returns the built-in types, then the program's own, which win over those of the same name. NULL: no memory. */
static const struct xk_protocol_type **
compose_types(const struct xk_protocol_type *const *own)
{
	unsigned own_count = compose_count(own), count = compose_count(xk_protocol_types);
	const struct xk_protocol_type **types = calloc(own_count + count + 1, sizeof(*types));

	if (types == NULL)
		return NULL;
	for (unsigned i = 0; i < count; i++)
		types[i] = xk_protocol_types[i];
	for (unsigned i = 0; i < own_count; i++)
		types[count + i] = own[i];
	return types;
}

/* Reads, sets and checks the graph. Returns NULL if it is refused. */
static struct xk_graph *
compose_load(const struct xk_graph_source *source, const char *file, const struct xk_protocol_type *const *types,
	     struct xk_graph_errors *errors)
{
	struct xk_graph *graph;
	unsigned set_count = 0;

	if (source->text != NULL)
		graph = xk_graph_read_text(file, source->text, strlen(source->text), errors);
	else
		graph = xk_graph_read(file, errors);
	while (source->sets != NULL && source->sets[set_count] != NULL)
		set_count++;
	return xk_graph_finish(graph, source->sets, set_count, types, errors);
}

int
xk_graph_compose(const struct xk_graph_source *source, struct xk_kernel *kernel, FILE *stream)
{
	const struct xk_protocol_type **types = compose_types(source->types);
	const char *file = source->file != NULL ? source->file : "graph";
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_protocol *failed = NULL;
	struct xk_graph *graph = NULL;
	int err = -EINVAL;

	if (types == NULL)
		return -ENOMEM;
	if (xk_kernel_first(kernel) != NULL)
		xk_graph_errors_add(&errors, file, 0, "is the second graph: the kernel is already composed");
	else
		graph = compose_load(source, file, types, &errors);
	if (graph != NULL)
		err = xk_graph_build(graph, kernel, &errors);
	if (graph != NULL && err == 0) {
		err = xk_kernel_init(kernel, &failed);
		if (err != 0)
			xk_graph_errors_add(&errors, file, 0, "%s cannot start: its init failed (%s)",
					    failed == NULL ? "the graph" : failed->name, xk_error(err));
	}
	if (stream != NULL)
		xk_graph_errors_print(&errors, stream);
	xk_graph_errors_clear(&errors);
	xk_graph_free(graph);
	free(types);
	return err;
}
