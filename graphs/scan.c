/*
 * scan.c - a recursive descent parser for the DOT language; see scan_private.h.
 * Spec: https://graphviz.org/doc/info/lang.html, and lib/cgraph/grammar.y of graphviz for details that it leaves open.
 */
#include <stdlib.h>
#include <string.h>

#include "graphs/attributes.h"
#include "graphs/scan_private.h"

enum {
	SCAN_APPLIED_MAX = 100000,
	SCAN_DEFAULT_MAX = 1024, /* bytes of a default's value: every node or edge gets a copy */
};

/* ---- the two kinds ---- */

static bool
scan_is_directed(const struct scan_state *state)
{
	return state->graph->kind == XK_GRAPH_PROTOCOLS;
}

/* Returns the token that joins nodes. */
static unsigned
scan_join_token(const struct scan_state *state)
{
	return scan_is_directed(state) ? SCAN_ARROW : SCAN_LINE;
}

/* ---- nodes and edges ---- */

/* Refuses names that do not suit traces, JSON, --set and pictures. */
static void
scan_check_name(struct scan_state *state, const char *name, bool html, unsigned line)
{
	size_t len = strlen(name);

	if (html)
		scan_fail(state, line, "a node's name cannot be the HTML-like string <%.40s>", name);
	else if (len == 0 || len > XK_GRAPH_NAME_MAX)
		scan_refuse(state, line, "the node's name \"%.80s\" has %zu characters, not 1 to %d", name, len,
			    XK_GRAPH_NAME_MAX);
	else if (name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")] != '\0')
		scan_refuse(state, line, "the node's name \"%s\" has characters other than letters, digits and _ - .",
			    name);
}

/* Finds or adds the node called name. Returns -1 if there are too many. */
static int
scan_node(struct scan_state *state, const char *name, bool html, unsigned line)
{
	struct xk_graph *graph = state->graph;
	struct xk_graph_node *node;

	for (unsigned i = 0; i < graph->node_count; i++)
		if (strcmp(graph->nodes[i].name, name) == 0)
			return (int)i;
	if (graph->node_count == XK_GRAPH_NODES_MAX) {
		scan_fail(state, line, "more than %d nodes", XK_GRAPH_NODES_MAX);
		return -1;
	}
	scan_check_name(state, name, html, line);
	graph->nodes = xk_graph_grow(graph->nodes, graph->node_count, sizeof(*graph->nodes));
	node = &graph->nodes[graph->node_count];
	node->name = xk_graph_copy(name);
	node->line = line;
	node->sequence = graph->node_count++;
	return (int)node->sequence;
}

/* Finds or adds the node called name, and refuses a port behind it. Returns -1 if the scan ends. */
static int
scan_node_rest(struct scan_state *state, const char *name, bool html, unsigned line)
{
	int node = scan_node(state, name, html, line);

	while (node >= 0 && scan_accept(state, ':')) {
		char *port = scan_id(state, &html, "a port after ':'");

		if (port == NULL)
			return -1;
		scan_refuse(state, line, "node %s has the port \"%.40s\": edges join whole %s: remove the port",
			    state->graph->nodes[node].name, port, scan_is_directed(state) ? "protocols" : "nodes");
		free(port);
	}
	return node;
}

/* Takes a node. Returns -1, and ends the scan, if there is none. */
static int
scan_node_id(struct scan_state *state, const char *expected)
{
	unsigned line = state->token_line;
	bool html;
	char *name = scan_id(state, &html, expected);
	int node = name == NULL ? -1 : scan_node_rest(state, name, html, line);

	free(name);
	return node;
}

/* Adds the edge, or finds it: a strict graph has one for each pair. Returns -1 if there are too many. */
static int
scan_edge(struct scan_state *state, unsigned upper, unsigned lower, unsigned line)
{
	struct xk_graph *graph = state->graph;
	struct xk_graph_edge *edge;

	for (unsigned i = 0; state->strict && i < graph->edge_count; i++) {
		edge = &graph->edges[i];
		if ((edge->upper == upper && edge->lower == lower) ||
		    (!scan_is_directed(state) && edge->upper == lower && edge->lower == upper))
			return (int)i;
	}
	if (graph->edge_count == XK_GRAPH_EDGES_MAX) {
		scan_fail(state, line, "more than %d edges", XK_GRAPH_EDGES_MAX);
		return -1;
	}
	graph->edges = xk_graph_grow(graph->edges, graph->edge_count, sizeof(*graph->edges));
	edge = &graph->edges[graph->edge_count];
	edge->upper = upper;
	edge->lower = lower;
	edge->line = line;
	edge->sequence = graph->edge_count++;
	return (int)edge->sequence;
}

/* ---- attributes ---- */

/* Adds a to `into`. The order of statements must not matter, so a second value is refused. */
static void
scan_attribute(struct scan_state *state, struct xk_graph_attributes *into, const struct xk_graph_attribute *a,
	       const char *of)
{
	struct xk_graph_attribute *old = xk_graph_attribute_find(into, a->name);

	if (old == NULL)
		xk_graph_attribute_add(into, a->name, a->value, a->line)->html = a->html;
	else if (strcmp(old->value, a->value) != 0 || old->html != a->html)
		scan_refuse(state, a->line, "%s of %s is \"%.40s\" here and \"%.40s\" on line %u", a->name, of,
			    a->value, old->value, old->line);
}

/* Takes the value of attribute name, after its =, into list. Returns false if there is none. */
static bool
scan_value(struct scan_state *state, char *name, unsigned line, struct xk_graph_attributes *list)
{
	struct xk_graph_attribute attribute = { name, NULL, line, false };

	/* Lists of attributes are searched linearly, so their lengths are bounded. */
	if (xk_graph_attribute_find(&state->names, name) == NULL) {
		if (state->names.count == XK_GRAPH_ATTRIBUTES_MAX)
			scan_fail(state, line, "more than %d different attributes", XK_GRAPH_ATTRIBUTES_MAX);
		else
			xk_graph_attribute_add(&state->names, name, "", line);
	}
	attribute.value = scan_id(state, &attribute.html, "a value");
	if (attribute.value == NULL)
		return false;
	scan_attribute(state, list, &attribute, "this statement");
	free(attribute.value);
	return true;
}

/* Takes [a=b, c=d; e=f] [...]... into list, as written. */
static void
scan_list(struct scan_state *state, struct xk_graph_attributes *list)
{
	while (scan_accept(state, '[')) {
		while (state->token != ']' && state->token != SCAN_END) {
			unsigned line = state->token_line;
			bool html;
			char *name;

			if (state->token == SCAN_GRAPH || state->token == SCAN_NODE || state->token == SCAN_EDGE)
				scan_fail(state, line,
					  "\"%s\" is a keyword of DOT and not an attribute's name (a host of a network "
					  "names its graph file with protocols=\"FILE\")",
					  state->text);
			name = scan_id(state, &html, "an attribute's name or ]");
			if (name != NULL && state->token != '=')
				scan_syntax(state, "= and a value after an attribute's name");
			else if (name != NULL)
				scan_next(state);
			if (name != NULL && scan_value(state, name, line, list) && !scan_accept(state, ','))
				scan_accept(state, ';');
			free(name);
		}
		if (!scan_accept(state, ']'))
			scan_syntax(state, "]");
	}
}

static void
scan_apply(struct scan_state *state, struct xk_graph_attributes *into, const struct xk_graph_attributes *list,
	   const char *of)
{
	state->applied += list->count;
	if (state->applied > SCAN_APPLIED_MAX)
		scan_fail(state, state->line, "more than %d attributes", SCAN_APPLIED_MAX);
	for (unsigned i = 0; i < list->count && !state->failed; i++)
		scan_attribute(state, into, &list->list[i], of);
}

/* ---- statements ---- */

/* Returns true if an attribute of this kind of graph affects more than drawing. */
static bool
scan_has_effect(const struct scan_state *state, const char *name)
{
	static const char *const meant[] = { "budget", "carry", "implicit", "paths", "resume", "trace" };

	if (!scan_is_directed(state))
		return !attributes_draws(ATTRIBUTES_GRAPH, name);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(meant); i++)
		if (strcmp(name, meant[i]) == 0)
			return true;
	return false;
}

/* Takes attributes of the graph. Those of a subgraph, which only groups nodes in pictures, are not the graph's. */
static void
scan_graph_attributes(struct scan_state *state, const struct xk_graph_attributes *list)
{
	if (state->depth == 0) {
		scan_apply(state, &state->graph->attributes, list, "the graph");
		return;
	}
	for (unsigned i = 0; i < list->count; i++)
		if (scan_has_effect(state, list->list[i].name))
			scan_refuse(state, list->list[i].line,
				    "%.80s in a subgraph: a subgraph only groups nodes in pictures",
				    list->list[i].name);
}

/* Takes graph [...], node [...] or edge [...]. */
static void
scan_default(struct scan_state *state)
{
	struct xk_graph_attributes list = { 0 };
	unsigned which = state->token, line = state->token_line;
	const char *what = which == SCAN_NODE ? "node" : "edge";
	const struct xk_graph *graph = state->graph;

	scan_next(state);
	if (state->token != '[')
		scan_syntax(state, "[");
	scan_list(state, &list);
	for (unsigned i = 0; i < list.count && which != SCAN_GRAPH; i++)
		if (strlen(list.list[i].value) > SCAN_DEFAULT_MAX)
			scan_fail(state, list.list[i].line, "a default of %.80s longer than %d bytes",
				  list.list[i].name, SCAN_DEFAULT_MAX);
	if (which == SCAN_GRAPH)
		scan_graph_attributes(state, &list);
	else if (state->depth > 0)
		scan_refuse(state, line, "\"%s [...]\" in a subgraph: write it before the first node of the graph",
			    what);
	else if (graph->node_count > 0)
		scan_refuse(state, line, "\"%s [...]\" after the first node, %s on line %u: write it before", what,
			    graph->nodes[0].name, graph->nodes[0].line);
	else if (which == SCAN_NODE)
		scan_apply(state, &state->node_defaults, &list, "nodes");
	else
		scan_apply(state, &state->edge_defaults, &list, "edges");
	xk_graph_attributes_clear(&list);
}

/* Takes the rest of A -> B -> C [...] (A -- B -- C), from the first arrow on. */
static void
scan_edges(struct scan_state *state, int upper, unsigned line)
{
	struct xk_graph_attributes list = { 0 };
	unsigned count = 0;
	int *edges = NULL;

	while (scan_accept(state, scan_join_token(state))) {
		unsigned lower_line = state->token_line;
		int lower;

		if (count == XK_GRAPH_EDGES_MAX)
			scan_fail(state, line, "more than %d edges", XK_GRAPH_EDGES_MAX);
		if (state->token == '{' || state->token == SCAN_SUBGRAPH)
			scan_fail(state, lower_line,
				  "several nodes in braces at the end of an edge: write one edge for each, so that "
				  "their order is clear");
		lower = scan_node_id(state, scan_is_directed(state) ? "a node after ->" : "a node after --");
		if (lower < 0)
			break;
		if (state->token == ',')
			scan_fail(state, lower_line, "several nodes at the end of an edge: write one edge for each");
		edges = xk_graph_grow(edges, count, sizeof(*edges));
		edges[count++] = scan_edge(state, (unsigned)upper, (unsigned)lower, line);
		upper = lower;
		line = lower_line;
	}
	scan_list(state, &list);
	for (unsigned i = 0; i < count && !state->failed; i++) {
		struct xk_graph_edge *edge = &state->graph->edges[edges[i]];
		char of[256];

		snprintf(of, sizeof(of), "the edge %s %s %s", state->graph->nodes[edge->upper].name,
			 scan_is_directed(state) ? "->" : "--", state->graph->nodes[edge->lower].name);
		scan_apply(state, &edge->attributes, &list, of);
	}
	free(edges);
	xk_graph_attributes_clear(&list);
}

/* Takes the rest of A, B, C [...], after the first name. */
static void
scan_nodes(struct scan_state *state, int node)
{
	struct xk_graph_attributes list = { 0 };
	int *nodes = xk_graph_grow(NULL, 0, sizeof(*nodes));
	unsigned count = 1;

	nodes[0] = node;
	while (scan_accept(state, ',') && (node = scan_node_id(state, "a node after ','")) >= 0) {
		nodes = xk_graph_grow(nodes, count, sizeof(*nodes));
		nodes[count++] = node;
	}
	if (state->token == SCAN_ARROW || state->token == SCAN_LINE)
		scan_fail(state, state->token_line, "several nodes at the end of an edge: write one edge for each");
	scan_list(state, &list);
	for (unsigned i = 0; i < count && !state->failed; i++)
		scan_apply(state, &state->graph->nodes[nodes[i]].attributes, &list, state->graph->nodes[nodes[i]].name);
	free(nodes);
	xk_graph_attributes_clear(&list);
}

/*
 * Takes the rest of a statement that consists of an escaped newline, which pydot writes after graphs that it has read.
 */
static bool
scan_blank(struct scan_state *state, const char *name)
{
	struct xk_graph_attributes list = { 0 };

	if ((strcmp(name, "\\n") != 0 && strcmp(name, "\\r\\n") != 0) ||
	    (state->token != ';' && state->token != '}' && state->token != '['))
		return false;
	scan_list(state, &list);
	xk_graph_attributes_clear(&list);
	return true;
}

/* Takes a statement that begins with an ID: an attribute of the graph, nodes, or edges. */
static void
scan_named(struct scan_state *state)
{
	struct xk_graph_attributes list = { 0 };
	unsigned line = state->token_line;
	bool html;
	char *name = scan_id(state, &html, "a statement");
	int node = -1;

	if (name != NULL && scan_accept(state, '=')) {
		if (scan_value(state, name, line, &list))
			scan_graph_attributes(state, &list);
		xk_graph_attributes_clear(&list);
	} else if (name != NULL && !scan_blank(state, name)) {
		node = scan_node_rest(state, name, html, line);
	}
	free(name);
	if (node >= 0 && state->token == scan_join_token(state))
		scan_edges(state, node, line);
	else if (node >= 0 && state->token == SCAN_LINE)
		scan_fail(state, line, "-- joins nodes of an undirected graph: edges are written upper -> lower");
	else if (node >= 0 && state->token == SCAN_ARROW)
		scan_fail(state, line, "-> joins nodes of a digraph: the edges of a network are written host -- link");
	else if (node >= 0)
		scan_nodes(state, node);
}

static void scan_body(struct scan_state *state);

static void
scan_subgraph(struct scan_state *state)
{
	unsigned line = state->token_line;
	bool html;

	if (scan_accept(state, SCAN_SUBGRAPH) && scan_is_id(state))
		free(scan_id(state, &html, "a name"));
	if (++state->depth > XK_GRAPH_NESTING_MAX)
		scan_fail(state, line, "subgraphs are nested deeper than %d", XK_GRAPH_NESTING_MAX);
	scan_body(state);
	state->depth--;
	if (state->token == SCAN_ARROW || state->token == SCAN_LINE)
		scan_fail(state, line,
			  "several nodes in braces at the end of an edge: write one edge for each, so that "
			  "their order is clear");
	else if (state->token == '[')
		scan_fail(state, line, "attributes after a subgraph: write them in its braces");
	else if (state->token == ',')
		scan_syntax(state, "a statement");
}

/* Takes { statements }. */
static void
scan_body(struct scan_state *state)
{
	if (!scan_accept(state, '{'))
		scan_syntax(state, "{");
	while (state->token != '}' && state->token != SCAN_END) {
		if (state->token == SCAN_GRAPH || state->token == SCAN_NODE || state->token == SCAN_EDGE)
			scan_default(state);
		else if (state->token == SCAN_SUBGRAPH || state->token == '{')
			scan_subgraph(state);
		else if (scan_is_id(state))
			scan_named(state);
		else
			scan_syntax(state, "a statement or }");
		scan_accept(state, ';');
	}
	if (!scan_accept(state, '}'))
		scan_syntax(state, "}");
}

static void
scan_file(struct scan_state *state)
{
	bool html;

	if (state->token == SCAN_END)
		scan_fail(state, 1, "there is no graph in this file: expected %s NAME { ... }",
			  scan_is_directed(state) ? "digraph" : "graph");
	state->strict = scan_accept(state, SCAN_STRICT);
	state->graph->line = state->token_line;
	if (scan_is_directed(state) && state->token == SCAN_GRAPH)
		scan_fail(state, state->token_line,
			  "this graph is undirected, as networks of hosts are: a protocol graph is written "
			  "digraph NAME { upper -> lower }");
	else if (!scan_is_directed(state) && state->token == SCAN_DIGRAPH)
		scan_fail(state, state->token_line,
			  "this graph is directed, as protocol graphs are: a network of hosts is written "
			  "graph NAME { host -- link }");
	else if (!scan_accept(state, scan_is_directed(state) ? SCAN_DIGRAPH : SCAN_GRAPH))
		scan_syntax(state, scan_is_directed(state) ? "digraph" : "graph");
	if (scan_is_id(state))
		free(scan_id(state, &html, "a name"));
	scan_body(state);
	if (state->token == SCAN_STRICT || state->token == SCAN_DIGRAPH || state->token == SCAN_GRAPH)
		scan_fail(state, state->token_line, "a second graph begins here: a file contains only one");
	else if (state->token != SCAN_END)
		scan_syntax(state, "the end of the file after the graph");
}

/* Adds the defaults for which `into` has no value. */
static void
scan_add_defaults(struct scan_state *state, struct xk_graph_attributes *into,
		  const struct xk_graph_attributes *defaults)
{
	for (unsigned i = 0; i < defaults->count && !state->failed; i++) {
		struct xk_graph_attributes one = { &defaults->list[i], 1 };

		if (xk_graph_attribute_find(into, one.list->name) == NULL)
			scan_apply(state, into, &one, "");
	}
}

/* Starts a scan at the first token of text. */
static void
scan_begin(struct scan_state *state, struct xk_graph *graph, const char *text, size_t size,
	   struct xk_graph_errors *errors)
{
	*state = (struct scan_state){ .graph = graph, .errors = errors, .next = text, .end = text + size, .line = 1 };
	if (scan_at(state, "\xEF\xBB\xBF"))
		state->next += 3;
	scan_next(state);
}

static void
scan_end(struct scan_state *state)
{
	free(state->text);
	xk_graph_attributes_clear(&state->names);
	xk_graph_attributes_clear(&state->node_defaults);
	xk_graph_attributes_clear(&state->edge_defaults);
}

bool
scan_text(struct xk_graph *graph, const char *text, size_t size, struct xk_graph_errors *errors)
{
	struct scan_state state;

	scan_begin(&state, graph, text, size, errors);
	scan_file(&state);
	for (unsigned i = 0; i < graph->node_count; i++)
		scan_add_defaults(&state, &graph->nodes[i].attributes, &state.node_defaults);
	for (unsigned i = 0; i < graph->edge_count; i++)
		scan_add_defaults(&state, &graph->edges[i].attributes, &state.edge_defaults);
	scan_end(&state);
	return !state.failed;
}

bool
scan_is_network(const char *text, size_t size)
{
	struct xk_graph_errors errors = { 0 };
	char none[] = "";
	struct xk_graph graph = { .file = none };
	struct scan_state state;
	bool is_network;

	scan_begin(&state, &graph, text, size, &errors);
	scan_accept(&state, SCAN_STRICT);
	is_network = state.token == SCAN_GRAPH;
	scan_end(&state);
	xk_graph_errors_clear(&errors);
	return is_network;
}
