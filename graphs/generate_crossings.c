/*
 * generate_crossings.c - writes the crossings of a compiled graph: where the graph says which protocols a session may
 * lead to, they are called by name. See generate_private.h.
 */
#include "graphs/generate_private.h"
#include "xkernel/virtual.h"

/* Neighbours that a crossing tells apart; with more of them it asks the session. */
enum { GENERATE_NEIGHBOURS = 4 };

/* The copies that a copy's sessions may lead to. */
struct generate_set {
	unsigned copies[GENERATE_NEIGHBOURS + 1];
	unsigned count; /* above GENERATE_NEIGHBOURS: too many to tell apart */
	bool lent;      /* some of them by way of a protocol that lends sessions */
};

/* ---- what is asked of the graph ---- */

/* Whether messages cross edge; otherwise its lower is only asked. */
static bool
generate_carries(const struct xk_graph_edge *edge)
{
	return (edge->role->needs & (XK_ASYNC | XK_RPC)) != 0;
}

/*
 * Adds the uppers or lowers of node. A protocol that lends is passed by: its uppers also stand on its lowers
 * themselves.
 */
static void
generate_add_neighbours(const struct generate *g, unsigned node, enum xk_direction direction, struct generate_set *set)
{
	for (unsigned i = 0; i < g->graph->edge_count; i++) {
		const struct xk_graph_edge *edge = &g->graph->edges[i];
		bool up = direction == XK_UPWARD;
		unsigned from = up ? edge->lower : edge->upper, to = up ? edge->upper : edge->lower, k = 0;

		if (from != node || (!up && !generate_carries(edge)))
			continue;
		while (k < set->count && set->copies[k] != g->copy[to])
			k++;
		if (k == set->count && k <= GENERATE_NEIGHBOURS)
			set->copies[set->count++] = g->copy[to];
		if (generate_type(g, to)->flags & XK_LENDS) {
			set->lent = true;
			generate_add_neighbours(g, to, direction, set);
		}
	}
}

/* Returns the neighbours of all nodes of a copy together. */
static struct generate_set
generate_neighbours(const struct generate *g, unsigned copy, enum xk_direction direction)
{
	struct generate_set set = { .count = 0 };

	for (unsigned i = 0; i < g->graph->node_count; i++)
		if (g->copy[i] == copy)
			generate_add_neighbours(g, i, direction, &set);
	return set;
}

static bool
generate_edge_is_marked(const struct generate *g, const struct xk_graph_edge *edge)
{
	return edge->handoff == XK_GRAPH_EXPLICIT ||
	       (edge->handoff != XK_GRAPH_NEVER && (edge->budget.budget_ns != 0 || g->graph->budget.budget_ns != 0));
}

/* Whether the file marks an edge that leads to a copy; any edge at all, if sessions are lent. */
static bool
generate_is_marked(const struct generate *g, const struct generate_set *uppers, unsigned copy)
{
	for (unsigned i = 0; i < g->graph->edge_count; i++)
		if ((uppers->lent || g->copy[g->graph->edges[i].lower] == copy) &&
		    generate_edge_is_marked(g, &g->graph->edges[i]))
			return true;
	return false;
}

/* Returns the number of edges to a copy that carry messages. */
static unsigned
generate_load(const struct generate *g, unsigned copy)
{
	unsigned count = 0;

	for (unsigned i = 0; i < g->graph->edge_count; i++)
		count += g->copy[g->graph->edges[i].lower] == copy && generate_carries(&g->graph->edges[i]);
	return count;
}

/* Sorts by number of uppers, most first: a protocol that only resolves addresses rarely has a message. */
static void
generate_sort(const struct generate *g, struct generate_set *set)
{
	for (unsigned i = 0; i < set->count; i++) {
		for (unsigned j = i; j > 0 && generate_load(g, set->copies[j]) > generate_load(g, set->copies[j - 1]);
		     j--) {
			unsigned copy = set->copies[j];

			set->copies[j] = set->copies[j - 1];
			set->copies[j - 1] = copy;
		}
	}
}

static bool
generate_is_ordered(const struct generate *g, unsigned copy)
{
	for (unsigned i = 0; i < g->graph->node_count; i++)
		if (g->copy[i] == copy && g->graph->nodes[i].policy.order_session)
			return true;
	return false;
}

/*
 * Whether all that a copy's sessions hand on comes to a virtual protocol whose demux notes, where it has to stop, which
 * session it came up: then they need not.
 */
static bool
generate_is_noted_above(const struct generate *g, unsigned copy)
{
	struct generate_set uppers = generate_neighbours(g, copy, XK_UPWARD);
	const struct xk_protocol_type *upper =
		uppers.count == 1 && !uppers.lent ? generate_type(g, uppers.copies[0]) : NULL;

	return upper != NULL && upper->ops->demux == xk_virtual_demux && upper->session_ops != NULL &&
	       upper->session_ops->pop == xk_pop_through && !generate_is_ordered(g, uppers.copies[0]) &&
	       !generate_is_marked(g, &uppers, copy);
}

/* ---- what is written ---- */

/* Writes "if (it is one of the nodes of copy)". */
static void
generate_if(const struct generate *g, unsigned copy)
{
	const char *before = "\tif (";

	for (unsigned i = 0; i < g->graph->node_count; i++) {
		if (g->copy[g->graph->order[i]] != copy)
			continue;
		fprintf(g->stream, "%ss->up->upper_index == %u", before, i);
		before = " || ";
	}
	fputs(")\n\t", g->stream);
}

/* Writes the way up: to the demux of each upper, or to its call_demux. */
static void
generate_way_up(const struct generate *g, unsigned copy, const struct generate_set *uppers, bool call)
{
	char symbol[GENERATE_SYMBOL];
	unsigned known = 0;

	if (call)
		fprintf(g->stream,
			"static inline int\nxk_way_call_up_%u(struct xk_session *s, struct xk_msg *m, struct xk_msg "
			"**reply)\n{\n",
			g->position[copy]);
	else
		fprintf(g->stream, "static inline void\nxk_way_up_%u(struct xk_session *s, struct xk_msg *m)\n{\n",
			g->position[copy]);
	for (unsigned i = 0; i < uppers->count && uppers->count <= GENERATE_NEIGHBOURS; i++) {
		const struct xk_protocol_ops *ops = generate_type(g, uppers->copies[i])->ops;

		if (call ? ops->call_demux == NULL : ops->demux == NULL)
			continue;
		known++;
		if (uppers->count > 1)
			generate_if(g, uppers->copies[i]);
		fprintf(g->stream, "\treturn xk_%s_into(&%s, s, m%s);\n", call ? "call_demux" : "demux",
			generate_symbol(g, uppers->copies[i], symbol), call ? ", reply" : "");
	}
	if (known == 0 || uppers->count > 1)
		fputs(call ? "\treturn xk_call_demux(s, m, reply);\n" : "\txk_demux(s, m);\n", g->stream);
	fputs("}\n", g->stream);
}

static void
generate_up(const struct generate *g, unsigned copy)
{
	struct generate_set uppers = generate_neighbours(g, copy, XK_UPWARD);
	bool marked = generate_is_marked(g, &uppers, copy);

	generate_sort(g, &uppers);
	generate_way_up(g, copy, &uppers, false);
	fprintf(g->stream, "XK_CROSS_UP(%u, %d)\n", g->position[copy], marked);
	generate_way_up(g, copy, &uppers, true);
	fprintf(g->stream, "XK_CROSS_CALL_UP(%u, %d)\n", g->position[copy], marked);
}

/*
 * Writes the ways down: push, call and call_async, by name where all of a copy's sessions stand on those of one copy.
 */
static void
generate_down(const struct generate *g, unsigned copy)
{
	struct generate_set lowers = generate_neighbours(g, copy, XK_DOWNWARD);
	bool is_one = lowers.count == 1 && !lowers.lent;
	const struct xk_session_ops *ops = is_one ? generate_type(g, lowers.copies[0])->session_ops : NULL;
	const struct {
		bool known;
		const char *macro;
	} ways[] = {
		{ ops != NULL && ops->push != NULL, "XK_DOWN" },
		{ ops != NULL && ops->call != NULL, "XK_CALL" },
		{ ops != NULL && ops->call_async != NULL, "XK_CALL_ASYNC" },
	};
	char symbol[GENERATE_SYMBOL];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(ways); i++) {
		if (ways[i].known)
			fprintf(g->stream, "%s_TO(%u, %s.session_ops)\n", ways[i].macro, g->position[copy],
				generate_symbol(g, lowers.copies[0], symbol));
		else
			fprintf(g->stream, "%s_ASKED(%u)\n", ways[i].macro, g->position[copy]);
	}
}

/* Writes what a pop does to a copy's own sessions. */
static void
generate_pop(const struct generate *g, unsigned copy)
{
	const struct xk_protocol_type *type = generate_type(g, copy);
	const struct xk_session_ops *ops = type->session_ops;
	unsigned at = g->position[copy];
	char symbol[GENERATE_SYMBOL];

	generate_symbol(g, copy, symbol);
	if (ops != NULL && ops->pop == xk_pop_through)
		fprintf(g->stream, "XK_POP_THROUGH(%u, %d, %d)\n", at, generate_is_ordered(g, copy),
			generate_is_noted_above(g, copy));
	else if (ops != NULL && ops->pop != NULL)
		fprintf(g->stream, "XK_POP_BY(%u, %s.session_ops)\n", at, symbol);
	else
		fprintf(g->stream, "XK_POP_ASKED(%u)\n", at);
	if (ops != NULL && ops->call_pop != NULL)
		fprintf(g->stream, "XK_CALL_POP_BY(%u, %s.session_ops)\n", at, symbol);
	else
		fprintf(g->stream, "XK_CALL_POP_ASKED(%u)\n", at);
	if (type->flags & XK_VIRTUAL)
		fprintf(g->stream, "XK_VIRTUAL_DEMUX(%u)\n", at);
}

void
generate_crossings(const struct generate *g, unsigned copy)
{
	fputs("\n/*", g->stream);
	for (unsigned i = 0; i < g->graph->node_count; i++) {
		if (g->copy[g->graph->order[i]] != copy)
			continue;
		fprintf(g->stream, " %u: ", i);
		generate_word(g->stream, g->graph->nodes[g->graph->order[i]].name);
	}
	fputs(" */\n\n", g->stream);
	generate_up(g, copy);
	generate_down(g, copy);
	generate_pop(g, copy);
}
