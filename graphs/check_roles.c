/* check_roles.c - see check_roles.h. docs/graphs.md describes how edges without role= are placed. */
#include "graphs/check_roles.h"

#include <stdlib.h>
#include <string.h>

/* A node's edges, and the places that they take: role by role, group by group. */
struct check_places {
	struct attributes_check *check;
	struct xk_graph_node *node;
	struct xk_graph_edge *edges; /* the node's */
	unsigned edge_count;
	unsigned roles, groups;
	int *edge_at; /* by place: an index in edges, or -1 */
	bool wrong;
};

static unsigned
check_count_roles(const struct xk_protocol_type *type)
{
	unsigned count = 0;

	while (type->lowers != NULL && type->lowers[count].name != NULL)
		count++;
	return count;
}

/* Writes "link, resolver" into text, and returns text. */
static const char *
check_list_roles(const struct xk_protocol_type *type, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < check_count_roles(type) && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "" : ", ", type->lowers[i].name);
	return text;
}

#define check_places_refuse(places, line, ...)                                                                         \
	do {                                                                                                           \
		attributes_refuse((places)->check, (line), __VA_ARGS__);                                               \
		(places)->wrong = true;                                                                                \
	} while (0)

/*
 * Finds the next unplaced edge with role=NAME in the order of the lowers' names: the order of statements does not
 * count. Returns -1 if there is none.
 */
static int
check_next_named(const struct check_places *places, const char *role, const bool *placed)
{
	int found = -1;

	for (unsigned i = 0; i < places->edge_count; i++) {
		const struct xk_graph_attribute *a = xk_graph_attribute_find(&places->edges[i].attributes, "role");

		if (a == NULL || placed[i] || strcmp(a->value, role) != 0)
			continue;
		if (found < 0 || places->edges[i].lower < places->edges[found].lower)
			found = (int)i;
	}
	return found;
}

static void
check_place_named(struct check_places *places, unsigned role, bool *placed)
{
	const char *name = places->node->type->lowers[role].name;
	int first = -1, edge;

	for (unsigned group = 0; (edge = check_next_named(places, name, placed)) >= 0; group++) {
		placed[edge] = true;
		if (group < places->groups) {
			places->edge_at[group * places->roles + role] = edge;
			first = first < 0 ? edge : first;
			continue;
		}
		if (!(places->node->type->flags & XK_REPEATS))
			check_places_refuse(places, check_later(&places->edges[first], &places->edges[edge])->line,
					    "%s has two lowers of role %s: %s and %s", places->node->name, name,
					    check_name(places->check, places->edges[first].lower),
					    check_name(places->check, places->edges[edge].lower));
		else
			check_places_refuse(places, places->edges[edge].line,
					    "%s has too many lowers of role %s: each group has only one",
					    places->node->name, name);
	}
}

static void
check_refuse_extra(struct check_places *places, const struct xk_graph_edge *edge)
{
	const char *lower = check_name(places->check, edge->lower), *name = places->node->name;
	char list[256];

	for (const struct xk_graph_edge *e = places->edges; e < edge; e++)
		if (e->lower == edge->lower) {
			check_places_refuse(places, edge->line, "parallel edges %s -> %s: the first is on line %u",
					    name, lower, e->line);
			return;
		}
	if (places->roles == 0)
		check_places_refuse(places, edge->line, "%s -> %s: %s (%s) takes no lowers", name, lower, name,
				    places->node->type->name);
	else
		check_places_refuse(places, edge->line, "%s -> %s is one lower too many: %s (%s) takes %u (%s)", name,
				    lower, name, places->node->type->name, places->roles,
				    check_list_roles(places->node->type, list, sizeof(list)));
}

static bool
check_fits(const struct xk_role *role, const struct xk_protocol_type *type)
{
	return role->type == NULL || strcmp(role->type, type->name) == 0;
}

/*
 * Gives each edge without a role the first place that it fits, if graphviz has laid the graph out, which reorders a
 * node's edges.
 */
static void
check_place_fitting(struct check_places *places, bool *placed)
{
	const struct xk_graph *graph = places->check->graph;
	bool laid_out = xk_graph_attribute_find(&graph->attributes, "bb") != NULL;

	for (unsigned place = 0; laid_out && place < places->groups * places->roles; place++) {
		const struct xk_role *role = &places->node->type->lowers[place % places->roles];

		for (unsigned i = 0; i < places->edge_count && places->edge_at[place] < 0; i++) {
			const struct xk_protocol_type *type = graph->nodes[places->edges[i].lower].type;

			if (placed[i] || type == NULL || !check_fits(role, type) || (role->needs & ~type->offers) ||
			    xk_graph_attribute_find(&places->edges[i].attributes, "role") != NULL)
				continue;
			placed[i] = true;
			places->edge_at[place] = (int)i;
		}
	}
}

/* Gives edges without a role the remaining places, in the order in which they are written. */
static void
check_place_rest(struct check_places *places, const bool *placed)
{
	const struct xk_graph_node *node = places->node;
	unsigned place = 0, places_count = places->groups * places->roles;
	char list[256];

	for (unsigned i = 0; i < places->edge_count; i++) {
		const struct xk_graph_attribute *a = xk_graph_attribute_find(&places->edges[i].attributes, "role");

		if (placed[i])
			continue;
		if (a != NULL) {
			if (places->roles == 0)
				check_places_refuse(places, a->line,
						    "role \"%.80s\" on an edge from %s, which takes no lowers",
						    a->value, node->name);
			else
				check_places_refuse(places, a->line, "%s has no role \"%.80s\" for its lowers, only %s",
						    node->name, a->value,
						    check_list_roles(node->type, list, sizeof(list)));
			continue;
		}
		while (place < places_count && places->edge_at[place] >= 0)
			place++;
		if (place < places_count)
			places->edge_at[place] = (int)i;
		else
			check_refuse_extra(places, &places->edges[i]);
	}
}

/* Writes " push and demux, calls (RPC), control" into text, and returns text; " nothing" for no realm. */
static const char *
check_list_realms(unsigned realms, char *text, size_t size)
{
	snprintf(text, size, "%s%s%s", realms & XK_ASYNC ? " push and demux," : "",
		 realms & XK_RPC ? " calls (RPC)," : "", realms & XK_CONTROL ? " control," : "");
	if (text[0] != '\0')
		text[strlen(text) - 1] = '\0';
	return realms == 0 ? " nothing" : text;
}

/* Refuses a lower that does not suit its role. */
static void
check_lower(struct check_places *places, const struct xk_role *role, struct xk_graph_edge *edge)
{
	const struct xk_graph_node *node = places->node, *lower = &places->check->graph->nodes[edge->lower];
	const struct xk_role *other = node->type->lowers;
	char needs[64], offers[64], hint[160] = "";

	edge->role = role;
	if (lower->type == NULL)
		return;
	while (other->name != NULL && (other->type == NULL || !check_fits(other, lower->type)))
		other++;
	if (other->name != NULL)
		snprintf(hint, sizeof(hint), "; as its %s write [role=%s], or change the order of the edges",
			 other->name, other->name);
	if (!check_fits(role, lower->type))
		check_places_refuse(places, edge->line,
				    "%s -> %s: the %s of %s must be of type %s, and %s is of type %s%s", node->name,
				    lower->name, role->name, node->name, role->type, lower->name, lower->type->name,
				    hint);
	else if (role->needs & ~lower->type->offers)
		check_places_refuse(places, edge->line, "%s -> %s: %s needs%s of its %s, and %s (%s) offers%s%s",
				    node->name, lower->name, node->name,
				    check_list_realms(role->needs, needs, sizeof(needs)), role->name, lower->name,
				    lower->type->name, check_list_realms(lower->type->offers, offers, sizeof(offers)),
				    hint);
}

/* Refuses the same lower in two groups of a repeated role. */
static void
check_parallel(struct check_places *places, unsigned place)
{
	const struct xk_graph_edge *edge = &places->edges[places->edge_at[place]];

	for (unsigned before = place % places->roles; before < place; before += places->roles) {
		const struct xk_graph_edge *first =
			places->edge_at[before] < 0 ? NULL : &places->edges[places->edge_at[before]];

		if (first == NULL || first->lower != edge->lower)
			continue;
		check_places_refuse(places, edge->line, "parallel edges %s -> %s of role %s: the first is on line %u",
				    places->node->name, check_name(places->check, edge->lower), edge->role->name,
				    first->line);
		return;
	}
}

static void
check_missing(struct check_places *places, unsigned place)
{
	const struct xk_role *role = &places->node->type->lowers[place % places->roles];
	char which[32] = "";

	if (places->groups > 1)
		snprintf(which, sizeof(which), " number %u", place / places->roles + 1);
	check_places_refuse(places, places->node->line, "%s (%s) lacks its lower %s%s%s%s%s: write an edge %s -> %s",
			    places->node->name, places->node->type->name, role->name, which,
			    role->help == NULL ? "" : " (", role->help == NULL ? "" : role->help,
			    role->help == NULL ? "" : ")", places->node->name, role->type == NULL ? "..." : role->type);
}

void
check_roles(struct attributes_check *check, struct xk_graph_node *node, const unsigned *first_edge)
{
	unsigned index = (unsigned)(node - check->graph->nodes), count;
	struct check_places places = { .check = check, .node = node, .groups = 1 };
	bool *placed;

	free(node->lowers);
	node->lowers = NULL;
	node->lower_count = 0;
	if (node->type == NULL)
		return;
	places.edge_count = first_edge[index + 1] - first_edge[index];
	if (places.edge_count > 0) /* otherwise the graph may have no list of edges */
		places.edges = &check->graph->edges[first_edge[index]];
	places.roles = check_count_roles(node->type);
	if ((node->type->flags & XK_REPEATS) && places.roles > 0 && places.edge_count > places.roles)
		places.groups = (places.edge_count + places.roles - 1) / places.roles;
	count = places.groups * places.roles;
	places.edge_at = calloc(count + 1, sizeof(*places.edge_at));
	node->lowers = calloc(count + 1, sizeof(*node->lowers));
	placed = calloc(places.edge_count + 1, sizeof(*placed));
	xk_assert(places.edge_at != NULL && node->lowers != NULL && placed != NULL);
	for (unsigned i = 0; i < count; i++)
		places.edge_at[i] = -1;
	for (unsigned role = 0; role < places.roles; role++)
		check_place_named(&places, role, placed);
	check_place_fitting(&places, placed);
	check_place_rest(&places, placed);
	for (unsigned i = 0; i < count; i++) {
		if (places.edge_at[i] < 0 && !places.wrong)
			check_missing(&places, i);
		if (places.edge_at[i] < 0)
			continue;
		check_lower(&places, &node->type->lowers[i % places.roles], &places.edges[places.edge_at[i]]);
		check_parallel(&places, i);
		node->lowers[node->lower_count++] = first_edge[index] + (unsigned)places.edge_at[i];
	}
	free(placed);
	free(places.edge_at);
}

void
check_one_upper(struct attributes_check *check, unsigned node)
{
	const struct xk_graph *graph = check->graph;
	const struct xk_graph_edge *first = NULL;

	if (graph->nodes[node].type == NULL || !(graph->nodes[node].type->flags & XK_ONE_UPPER))
		return;
	for (unsigned i = 0; i < graph->edge_count; i++) {
		const struct xk_graph_edge *edge = &graph->edges[i];

		if (edge->lower != node)
			continue;
		if (first != NULL && first->upper != edge->upper) {
			attributes_refuse(check, check_later(first, edge)->line,
					  "%s and %s are both above %s: %s takes only one upper",
					  check_name(check, first->upper), check_name(check, edge->upper),
					  graph->nodes[node].name, graph->nodes[node].type->name);
			return;
		}
		first = edge;
	}
}
