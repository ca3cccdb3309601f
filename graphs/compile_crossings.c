/*
 * compile_crossings.c - what a compiled graph's crossings lead to: who stands on whom is asked of the graph, and what can be known
 * of it is written as calls by name. See compile_inside.h.
 */
#include "graphs/compile_inside.h"
#include "xkernel/virtual.h"

enum { COMPILE_NEIGHBOURS = 4 }; /* that a crossing tells apart; with more of them it asks the session */

/* The copies that a copy's sessions may lead to. */
struct compile_set {
	unsigned copies[COMPILE_NEIGHBOURS + 1];
	unsigned count; /* more than COMPILE_NEIGHBOURS: too many to tell apart */
	bool lent;      /* some of them by way of a protocol that lends sessions */
};

/* ---- what is asked of the graph ---- */

static void
compile_add(const struct compile *c, struct compile_set *set, unsigned node)
{
	for (unsigned i = 0; i < set->count; i++)
		if (set->copies[i] == c->copy[node])
			return;
	if (set->count <= COMPILE_NEIGHBOURS)
		set->copies[set->count++] = c->copy[node];
}

/* A protocol that lends is passed by: its uppers stand on its lowers themselves, too. */
static void
compile_add_uppers(const struct compile *c, unsigned node, struct compile_set *set)
{
	for (unsigned i = 0; i < c->graph->edge_count; i++) {
		const struct xk_graph_edge *edge = &c->graph->edges[i];

		if (edge->lower != node)
			continue;
		compile_add(c, set, edge->upper);
		if (compile_type(c, edge->upper)->flags & XK_LENDS) {
			set->lent = true;
			compile_add_uppers(c, edge->upper, set);
		}
	}
}

/* Not of an edge whose lower is only asked. */
static bool
compile_carries(const struct xk_graph_edge *edge)
{
	return (edge->role->needs & (XK_ASYNC | XK_RPC)) != 0;
}

static void
compile_add_lowers(const struct compile *c, unsigned node, struct compile_set *set)
{
	for (unsigned i = 0; i < c->graph->edge_count; i++) {
		const struct xk_graph_edge *edge = &c->graph->edges[i];

		if (edge->upper != node || !compile_carries(edge))
			continue;
		compile_add(c, set, edge->lower);
		if (compile_type(c, edge->lower)->flags & XK_LENDS) {
			set->lent = true;
			compile_add_lowers(c, edge->lower, set);
		}
	}
}

/* Of all nodes of a copy together. */
static struct compile_set
compile_neighbours(const struct compile *c, unsigned copy,
		   void (*add)(const struct compile *c, unsigned node, struct compile_set *set))
{
	struct compile_set set = { .count = 0 };

	for (unsigned i = 0; i < c->graph->node_count; i++)
		if (c->copy[i] == copy)
			add(c, i, &set);
	return set;
}

static bool
compile_edge_is_marked(const struct compile *c, const struct xk_graph_edge *edge)
{
	return edge->handoff == XK_GRAPH_EXPLICIT ||
	       (edge->handoff != XK_GRAPH_NEVER && (edge->budget.budget_ns != 0 || c->graph->budget.budget_ns != 0));
}

/* Whether the file marks an edge that leads to a copy, or, of what is lent, any edge at all. */
static bool
compile_is_marked(const struct compile *c, const struct compile_set *uppers, unsigned copy)
{
	for (unsigned i = 0; i < c->graph->edge_count; i++)
		if ((uppers->lent || c->copy[c->graph->edges[i].lower] == copy) &&
		    compile_edge_is_marked(c, &c->graph->edges[i]))
			return true;
	return false;
}

/* How many edges that carry messages lead to a copy. */
static unsigned
compile_load(const struct compile *c, unsigned copy)
{
	unsigned count = 0;

	for (unsigned i = 0; i < c->graph->edge_count; i++)
		count += c->copy[c->graph->edges[i].lower] == copy && compile_carries(&c->graph->edges[i]);
	return count;
}

/* What most stands on is asked for first: whoever only resolves addresses has seldom a message. */
static void
compile_sort(const struct compile *c, struct compile_set *set)
{
	for (unsigned i = 0; i < set->count; i++) {
		for (unsigned j = i; j > 0 && compile_load(c, set->copies[j]) > compile_load(c, set->copies[j - 1]);
		     j--) {
			unsigned copy = set->copies[j];

			set->copies[j] = set->copies[j - 1];
			set->copies[j - 1] = copy;
		}
	}
}

/* The copy on whose sessions all of a copy's stand, or -1: they have to be asked. */
static int
compile_only_lower(const struct compile *c, unsigned copy)
{
	struct compile_set lowers = compile_neighbours(c, copy, compile_add_lowers);

	return lowers.count == 1 && !lowers.lent ? (int)lowers.copies[0] : -1;
}

static bool
compile_is_ordered(const struct compile *c, unsigned copy)
{
	for (unsigned i = 0; i < c->graph->node_count; i++)
		if (c->copy[i] == copy && c->graph->nodes[i].policy.order_session)
			return true;
	return false;
}

/*
 * Whether all that a copy's sessions hand on comes to a virtual protocol whose demux notes, where it has to stop, by whom it came:
 * then they need not.
 */
static bool
compile_is_noted_above(const struct compile *c, unsigned copy)
{
	struct compile_set uppers = compile_neighbours(c, copy, compile_add_uppers);
	const struct xk_protocol_type *upper =
		uppers.count == 1 && !uppers.lent ? compile_type(c, uppers.copies[0]) : NULL;

	return upper != NULL && upper->ops->demux == xk_virtual_demux && upper->session_ops != NULL &&
	       upper->session_ops->pop == xk_pop_through && !compile_is_ordered(c, uppers.copies[0]) &&
	       !compile_is_marked(c, &uppers, copy);
}

/* ---- what is written ---- */

/* "if (it is one of the nodes of copy)", where there are others. */
static void
compile_if(const struct compile *c, unsigned copy)
{
	const char *before = "\tif (";

	for (unsigned i = 0; i < c->graph->node_count; i++) {
		unsigned node = c->graph->order[i];

		if (c->copy[node] != copy)
			continue;
		fprintf(c->stream, "%ss->up->upper_index == %u", before, i);
		before = " || ";
	}
	fputs(")\n\t", c->stream);
}

/* The call of each upper that has the verb; how many those are. */
static unsigned
compile_calls_up(const struct compile *c, const struct compile_set *uppers, bool call)
{
	char symbol[COMPILE_SYMBOL];
	unsigned known = 0;

	for (unsigned i = 0; i < uppers->count && uppers->count <= COMPILE_NEIGHBOURS; i++) {
		const struct xk_protocol_type *type = compile_type(c, uppers->copies[i]);

		if (call ? type->ops->call_demux == NULL : type->ops->demux == NULL)
			continue;
		known++;
		if (uppers->count > 1)
			compile_if(c, uppers->copies[i]);
		fprintf(c->stream, "\treturn xk_%s_into(&%s, s, m%s);\n", call ? "call_demux" : "demux",
			compile_symbol(c, uppers->copies[i], symbol), call ? ", reply" : "");
	}
	return known;
}

/* The way up: a protocol's demux, or its call_demux. */
static void
compile_way_up(const struct compile *c, unsigned copy, const struct compile_set *uppers, bool call)
{
	unsigned known;

	if (call)
		fprintf(c->stream,
			"static inline int\nxk_way_call_up_%u(struct xk_session *s, struct xk_msg *m, struct xk_msg "
			"**reply)\n{\n",
			c->position[copy]);
	else
		fprintf(c->stream, "static inline void\nxk_way_up_%u(struct xk_session *s, struct xk_msg *m)\n{\n",
			c->position[copy]);
	known = compile_calls_up(c, uppers, call);
	if (known == 0 || uppers->count > 1)
		fputs(call ? "\treturn xk_call_demux(s, m, reply);\n" : "\txk_demux(s, m);\n", c->stream);
	fputs("}\n", c->stream);
}

static void
compile_up(const struct compile *c, unsigned copy)
{
	struct compile_set uppers = compile_neighbours(c, copy, compile_add_uppers);
	bool marked = compile_is_marked(c, &uppers, copy);

	compile_sort(c, &uppers);
	compile_way_up(c, copy, &uppers, false);
	fprintf(c->stream, "XK_CROSS_UP(%u, %d)\n", c->position[copy], marked);
	compile_way_up(c, copy, &uppers, true);
	fprintf(c->stream, "XK_CROSS_CALL_UP(%u, %d)\n", c->position[copy], marked);
}

/* The ways down: push, call and call_async, of the lower's sessions. */
static void
compile_down(const struct compile *c, unsigned copy)
{
	int lower = compile_only_lower(c, copy);
	const struct xk_session_ops *ops = lower < 0 ? NULL : compile_type(c, (unsigned)lower)->session_ops;
	const struct {
		bool known;
		const char *macro;
	} ways[] = {
		{ ops != NULL && ops->push != NULL, "XK_DOWN" },
		{ ops != NULL && ops->call != NULL, "XK_CALL" },
		{ ops != NULL && ops->call_async != NULL, "XK_CALL_ASYNC" },
	};
	char symbol[COMPILE_SYMBOL];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(ways); i++) {
		if (ways[i].known)
			fprintf(c->stream, "%s_TO(%u, %s.session_ops)\n", ways[i].macro, c->position[copy],
				compile_symbol(c, (unsigned)lower, symbol));
		else
			fprintf(c->stream, "%s_ASKED(%u)\n", ways[i].macro, c->position[copy]);
	}
}

/* What a pop does to a copy's own sessions. */
static void
compile_pop(const struct compile *c, unsigned copy)
{
	const struct xk_protocol_type *type = compile_type(c, copy);
	const struct xk_session_ops *ops = type->session_ops;
	unsigned at = c->position[copy];
	char symbol[COMPILE_SYMBOL];

	compile_symbol(c, copy, symbol);
	if (ops != NULL && ops->pop == xk_pop_through)
		fprintf(c->stream, "XK_POP_THROUGH(%u, %d, %d)\n", at, compile_is_ordered(c, copy),
			compile_is_noted_above(c, copy));
	else if (ops != NULL && ops->pop != NULL)
		fprintf(c->stream, "XK_POP_BY(%u, %s.session_ops)\n", at, symbol);
	else
		fprintf(c->stream, "XK_POP_ASKED(%u)\n", at);
	if (ops != NULL && ops->call_pop != NULL)
		fprintf(c->stream, "XK_CALL_POP_BY(%u, %s.session_ops)\n", at, symbol);
	else
		fprintf(c->stream, "XK_CALL_POP_ASKED(%u)\n", at);
	if (type->flags & XK_VIRTUAL)
		fprintf(c->stream, "XK_VIRTUAL_DEMUX(%u)\n", at);
}

void
compile_crossings(const struct compile *c, unsigned copy)
{
	fputs("\n/*", c->stream);
	for (unsigned i = 0; i < c->graph->node_count; i++) {
		if (c->copy[c->graph->order[i]] != copy)
			continue;
		fprintf(c->stream, " %u: ", i);
		compile_word(c->stream, c->graph->nodes[c->graph->order[i]].name);
	}
	fputs(" */\n\n", c->stream);
	compile_up(c, copy);
	compile_down(c, copy);
	compile_pop(c, copy);
}
