/*
 * check.c - checks whether a graph can be composed: types, attributes, cycles, roles, realms, numbers, ports; and finds
 * the order in which to build it. Reports as many errors as it can find, without those that only follow from others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/check_roles.h"

/* ---- types ---- */

static void
check_type(struct attributes_check *check, struct xk_graph_node *node)
{
	const struct xk_graph_attribute *a = xk_graph_attribute_find(&node->attributes, "protocol");
	const char *name = a == NULL ? node->name : a->value;
	unsigned line = a == NULL ? node->line : a->line;
	struct attributes_guess guess = { .name = name };

	node->type = NULL;
	for (unsigned i = 0; check->types[i] != NULL; i++)
		if (strcmp(check->types[i]->name, name) == 0)
			node->type = check->types[i];
		else
			attributes_guess_try(&guess, check->types[i]->name);
	if (node->type != NULL)
		return;
	if (guess.found != NULL)
		attributes_refuse(check, line, "unknown protocol \"%.80s\"%s", name, attributes_guess_text(&guess));
	else if (strcmp(node->name, name) == 0)
		attributes_refuse(check, line,
				  "unknown protocol \"%.80s\" (`xk protocols` lists them; [protocol=NAME] gives a node "
				  "a type that is not its name)",
				  name);
	else
		attributes_refuse(check, line, "unknown protocol \"%.80s\" of node %s (`xk protocols` lists them)",
				  name, node->name);
}

/* ---- cycles ---- */

enum check_colour { CHECK_UNSEEN, CHECK_ON_STACK, CHECK_DONE };

struct check_walk {
	struct attributes_check *check;
	uint8_t *colour;      /* enum check_colour, by node */
	unsigned *stack, len; /* the current node and those above it */
	bool cyclic;
};

static void
check_report_cycle(struct check_walk *walk, const struct xk_graph_edge *edge)
{
	struct xk_graph *graph = walk->check->graph;
	unsigned from = walk->len;
	char text[512];
	size_t used = 0;

	while (walk->stack[--from] != edge->lower)
		;
	for (unsigned i = from; i < walk->len && used < sizeof(text) - XK_GRAPH_NAME_MAX - 16; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%.63s -> ",
					 graph->nodes[walk->stack[i]].name);
	if (used >= sizeof(text) - XK_GRAPH_NAME_MAX - 16)
		snprintf(text + used, sizeof(text) - used, "... -> ");
	attributes_refuse(walk->check, edge->line, "a cycle: %s%s", text, graph->nodes[edge->lower].name);
	walk->cyclic = true;
}

/* Walks depth first, at most XK_GRAPH_NODES_MAX deep. Edges are sorted by their uppers. */
static void
check_walk_node(struct check_walk *walk, unsigned node, const unsigned *first_edge)
{
	struct xk_graph *graph = walk->check->graph;

	walk->colour[node] = CHECK_ON_STACK;
	walk->stack[walk->len++] = node;
	for (unsigned e = first_edge[node]; e < first_edge[node + 1]; e++) {
		unsigned lower = graph->edges[e].lower;

		if (walk->colour[lower] == CHECK_ON_STACK)
			check_report_cycle(walk, &graph->edges[e]);
		else if (walk->colour[lower] == CHECK_UNSEEN)
			check_walk_node(walk, lower, first_edge);
	}
	walk->len--;
	walk->colour[node] = CHECK_DONE;
}

/* Returns, for each node, the index of its first edge in the graph's list, with one more entry at the end. */
static unsigned *
check_first_edges(const struct xk_graph *graph)
{
	unsigned *first = calloc(graph->node_count + 1, sizeof(*first));

	xk_assert(first != NULL);
	for (unsigned i = 0; i < graph->edge_count; i++)
		first[graph->edges[i].upper + 1]++;
	for (unsigned i = 0; i < graph->node_count; i++)
		first[i + 1] += first[i];
	return first;
}

/* Returns true if there is a cycle. */
static bool
check_cycles(struct attributes_check *check, const unsigned *first_edge)
{
	unsigned count = check->graph->node_count;
	struct check_walk walk = { .check = check };

	walk.colour = calloc(count + 1, sizeof(*walk.colour));
	walk.stack = calloc(count + 1, sizeof(*walk.stack));
	xk_assert(walk.colour != NULL && walk.stack != NULL);
	for (unsigned i = 0; i < count; i++)
		if (walk.colour[i] == CHECK_UNSEEN)
			check_walk_node(&walk, i, first_edge);
	free(walk.colour);
	free(walk.stack);
	return walk.cyclic;
}

/* ---- numbers ---- */

/* A number on the current lower, and the edge by which its upper has it. */
struct check_claim {
	uint32_t number;
	const struct xk_graph_edge *edge;
};

struct check_numbers {
	struct attributes_check *check;
	unsigned lower;
	bool *seen; /* by edge, for this lower */
	bool *used; /* by edge: its number identifies an upper */
	struct check_claim *claims;
	unsigned count;
};

/*
 * Finds the number, on the lower, of edge's upper, which has a header of its own. Returns false, after refusing the
 * graph, if it has none.
 */
static bool
check_edge_number(struct check_numbers *numbers, unsigned index, uint32_t *number)
{
	const struct xk_graph *graph = numbers->check->graph;
	const struct xk_graph_edge *edge = &graph->edges[index];
	const struct xk_graph_node *upper = &graph->nodes[edge->upper], *lower = &graph->nodes[numbers->lower];

	numbers->used[index] = true;
	if (!edge->has_number) {
		if (xk_number_find(upper->type, lower->type, number))
			return true;
		/* an ill-typed number= has been reported */
		if (xk_graph_attribute_find(&edge->attributes, "number") == NULL)
			attributes_refuse(numbers->check, edge->line,
					  "%s (%s) has no number on %s (%s): write number=N on the edge %s -> %s",
					  upper->name, upper->type->name, lower->name, lower->type->name, upper->name,
					  check_name(numbers->check, edge->lower));
		return false;
	}
	*number = edge->number;
	if (edge->number <= lower->type->number_max)
		return true;
	attributes_refuse(numbers->check, xk_graph_attribute_find(&edge->attributes, "number")->line,
			  "number %u of %s is too large: %s (%s) has numbers up to %u", edge->number, upper->name,
			  lower->name, lower->type->name, lower->type->number_max);
	return false;
}

static void
check_claim_number(struct check_numbers *numbers, const struct xk_graph_edge *edge, uint32_t number)
{
	const struct xk_graph_edge *other, *later, *earlier;
	unsigned i = 0;

	while (i < numbers->count && numbers->claims[i].number != number)
		i++;
	if (i == numbers->count) {
		numbers->claims = xk_graph_grow(numbers->claims, numbers->count++, sizeof(*numbers->claims));
		numbers->claims[i] = (struct check_claim){ number, edge };
		return;
	}
	other = numbers->claims[i].edge;
	if (other->upper == edge->upper)
		return;
	later = check_later(edge, other);
	earlier = later == edge ? other : edge;
	attributes_refuse(numbers->check, later->line,
			  "%s and %s (line %u) both have number %u (0x%04x) on %s: write another number=N on the edge "
			  "of one of them",
			  check_name(numbers->check, later->upper), check_name(numbers->check, earlier->upper),
			  earlier->line, number, number, check_name(numbers->check, numbers->lower));
}

/* Claims the numbers on numbers->lower of the uppers above node, through virtual protocols too. */
static void
check_claims_above(struct check_numbers *numbers, unsigned node)
{
	const struct xk_graph *graph = numbers->check->graph;

	for (unsigned i = 0; i < graph->edge_count; i++) {
		const struct xk_graph_edge *edge = &graph->edges[i];
		const struct xk_protocol_type *upper = graph->nodes[edge->upper].type;
		uint32_t number;

		/* no messages cross an edge for queries only */
		if (edge->lower != node || numbers->seen[i] || upper == NULL || edge->role == NULL ||
		    edge->role->needs == XK_CONTROL)
			continue;
		numbers->seen[i] = true;
		if (upper->flags & XK_VIRTUAL)
			check_claims_above(numbers, edge->upper);
		else if (check_edge_number(numbers, i, &number))
			check_claim_number(numbers, edge, number);
	}
}

/* Refuses a number= without effect. */
static void
check_unused_number(struct attributes_check *check, const struct xk_graph_edge *edge)
{
	const struct xk_graph_attribute *a = xk_graph_attribute_find(&edge->attributes, "number");
	const struct xk_graph_node *upper = &check->graph->nodes[edge->upper];
	const struct xk_graph_node *lower = &check->graph->nodes[edge->lower];

	if (!edge->has_number || upper->type == NULL || lower->type == NULL || edge->role == NULL)
		return;
	if (upper->type->flags & XK_VIRTUAL)
		attributes_refuse(check, a->line,
				  "number of %s -> %s: %s is virtual and has no number; number the protocols above it",
				  upper->name, lower->name, upper->name);
	else
		attributes_refuse(check, a->line, "number of %s -> %s: %s (%s) does not number its uppers", upper->name,
				  lower->name, lower->name, lower->type->name);
}

static void
check_all_numbers(struct attributes_check *check)
{
	const struct xk_graph *graph = check->graph;
	struct check_numbers numbers = { .check = check };

	numbers.seen = calloc(graph->edge_count + 1, sizeof(*numbers.seen));
	numbers.used = calloc(graph->edge_count + 1, sizeof(*numbers.used));
	xk_assert(numbers.seen != NULL && numbers.used != NULL);
	for (unsigned i = 0; i < graph->node_count; i++) {
		const struct xk_protocol_type *type = graph->nodes[i].type;

		if (type == NULL || type->number_max == 0 || (type->flags & XK_VIRTUAL))
			continue;
		numbers.lower = i;
		numbers.claims = NULL;
		numbers.count = 0;
		memset(numbers.seen, 0, graph->edge_count * sizeof(*numbers.seen));
		check_claims_above(&numbers, i);
		free(numbers.claims);
	}
	for (unsigned i = 0; i < graph->edge_count; i++)
		if (!numbers.used[i])
			check_unused_number(check, &graph->edges[i]);
	free(numbers.seen);
	free(numbers.used);
}

/* ---- addresses ---- */

static void
check_addresses(struct attributes_check *check)
{
	const struct xk_graph *graph = check->graph;
	struct attributes_address a = { .node = 0 }, b;

	while (attributes_next_address(graph, &a))
		for (b = a; attributes_next_address(graph, &b);)
			if (a.network.host == b.network.host)
				attributes_refuse(check, b.attribute->line,
						  "%s of %s is \"%.80s\", and so is %s of %s: every interface needs "
						  "its own address",
						  b.attribute->name, check_name(check, b.node), b.attribute->value,
						  a.attribute->name, check_name(check, a.node));
}

/* ---- marks ---- */

/* Refuses marks on an edge below a protocol that lends its lowers' sessions: messages only cross the edge above it. */
static void
check_marks(struct attributes_check *check, const struct xk_graph_edge *edge)
{
	static const char *const marks[] = { "handoff", "budget", "carry" };
	const struct xk_graph_node *upper = &check->graph->nodes[edge->upper];

	if (upper->type == NULL || !(upper->type->flags & XK_LENDS))
		return;
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(marks); i++) {
		const struct xk_graph_attribute *a = xk_graph_attribute_find(&edge->attributes, marks[i]);

		if (a != NULL)
			attributes_refuse(check, a->line,
					  "%s of %s -> %s has no effect, because messages bypass %s (%s): write it on "
					  "the edges above %s",
					  marks[i], upper->name, check_name(check, edge->lower), upper->name,
					  upper->type->name, upper->name);
	}
}

/* ---- the whole graph ---- */

static bool
check_is_ready(const struct xk_graph *graph, unsigned node, const unsigned *first_edge, const bool *placed)
{
	for (unsigned e = first_edge[node]; e < first_edge[node + 1]; e++)
		if (!placed[graph->edges[e].lower])
			return false;
	return !placed[node];
}

/* Orders lowers before uppers; among the nodes that could come next, by name. */
static void
check_order(struct xk_graph *graph, const unsigned *first_edge)
{
	bool *placed = calloc(graph->node_count + 1, sizeof(*placed));

	free(graph->order);
	graph->order = calloc(graph->node_count + 1, sizeof(*graph->order));
	xk_assert(placed != NULL && graph->order != NULL);
	for (unsigned count = 0; count < graph->node_count; count++) {
		unsigned node = 0;

		while (!check_is_ready(graph, node, first_edge, placed))
			node++;
		placed[node] = true;
		graph->order[count] = node;
	}
	free(placed);
}

static void
check_port(struct attributes_check *check)
{
	bool unknown = false;

	for (unsigned i = 0; i < check->graph->node_count; i++) {
		const struct xk_protocol_type *type = check->graph->nodes[i].type;

		unknown = unknown || type == NULL;
		if (type != NULL && (type->flags & XK_PORT))
			return;
	}
	/* an unknown type may have been meant as the port */
	if (!unknown)
		attributes_refuse(check, check->graph->line,
				  "this graph has no port: its lowest protocol needs one, like eth -> port");
}

int
xk_graph_check(struct xk_graph *graph, const struct xk_protocol_type *const *types, struct xk_graph_errors *errors)
{
	struct attributes_check check = { graph, types, errors };
	unsigned *first_edge = check_first_edges(graph);
	bool cyclic;

	attributes_check_graph(&check);
	for (unsigned i = 0; i < graph->node_count; i++) {
		check_type(&check, &graph->nodes[i]);
		attributes_check_node(&check, &graph->nodes[i]);
	}
	for (unsigned i = 0; i < graph->edge_count; i++) {
		graph->edges[i].role = NULL;
		attributes_check_edge(&check, &graph->edges[i]);
		check_marks(&check, &graph->edges[i]);
	}
	cyclic = check_cycles(&check, first_edge);
	for (unsigned i = 0; i < graph->node_count; i++)
		check_roles(&check, &graph->nodes[i], first_edge);
	for (unsigned i = 0; i < graph->node_count; i++)
		check_one_upper(&check, i);
	check_port(&check);
	check_addresses(&check);
	if (!cyclic)
		check_all_numbers(&check);
	if (!graph->refused)
		check_order(graph, first_edge);
	graph->checked = !graph->refused;
	free(first_edge);
	return graph->checked ? 0 : -EINVAL;
}
