/*
 * attributes.c - the attributes of a graph, its nodes and its edges: the graph language's own, the settings that a
 * node's protocol declares, and graphviz's drawing attributes, which are accepted and ignored.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/attributes.h"
#include "xkernel/trace.h"

enum {
	ATTRIBUTES_CARRY_MAX = 256, /* frames that a device buffers: the maximum that carried budgets allow for */
	ATTRIBUTES_SESSIONS_MAX = 1 << 20,
};

/* The longest time; it keeps carried budgets from overflowing. */
#define ATTRIBUTES_TIME_MAX (60 * UINT64_C(1000000000))

/* The owner of attributes, and the destinations of their values; NULL: the owner has no such value. */
struct attributes_target {
	struct attributes_check *check;
	enum attributes_where where;
	const char *of; /* in errors: "the graph", "udp", "udp -> ip" */
	struct xk_graph_policy *policy;
	struct xk_graph_budget *budget;
	struct xk_graph_edge *edge;
	const struct xk_protocol_type *type;
};

/*
 * graphviz's drawing attributes, from its documentation, including those that it writes back (-Txdot). The graph's
 * include those of subgraphs and clusters, which the scanner does not distinguish. `name` and `key` are networkx's, for
 * a graph and for one of several edges between two nodes.
 */
static const struct {
	unsigned where;
	const char *names;
} attributes_drawing[] = {
	{ ATTRIBUTES_GRAPH,
	  " _draw_ _ldraw_ name Damping K TBbalance URL _background area bb bgcolor center charset class cluster "
	  "clusterrank color colorscheme comment compound concentrate defaultdist dim dimen diredgeconstraints dpi "
	  "epsilon esep fillcolor fontcolor fontname fontnames fontpath fontsize forcelabels gradientangle href id "
	  "imagepath inputscale label label_scheme labeljust labelloc landscape layer layerlistsep layers layerselect "
	  "layersep layout levels levelsgap lheight linelength lp lwidth margin maxiter mclimit mindist mode model "
	  "newrank nodesep nojustify normalize notranslate nslimit nslimit1 oneblock ordering orientation outputorder "
	  "overlap overlap_scaling overlap_shrink pack packmode pad page pagedir pencolor penwidth peripheries "
	  "quadtree quantum rank rankdir ranksep ratio remincross repulsiveforce resolution root rotate rotation scale "
	  "searchsize sep showboxes size smoothing sortv splines start style stylesheet target tooltip truecolor "
	  "viewport voro_margin xdotversion " },
	{ ATTRIBUTES_NODE,
	  " _draw_ _ldraw_ URL area class color colorscheme comment distortion fillcolor fixedsize fontcolor fontname "
	  "fontsize gradientangle group height href id image imagepos imagescale label labelloc layer margin nojustify "
	  "ordering orientation penwidth peripheries pin pos rects regular root samplepoints shape shapefile showboxes "
	  "sides skew sortv style target tooltip vertices width xlabel xlp z " },
	{ ATTRIBUTES_EDGE,
	  " _draw_ _hdraw_ _hldraw_ _ldraw_ _tdraw_ _tldraw_ key URL arrowhead arrowsize arrowtail class color "
	  "colorscheme comment constraint decorate dir edgeURL edgehref edgetarget edgetooltip fillcolor fontcolor "
	  "fontname fontsize headURL head_lp headclip headhref headlabel headport headtarget headtooltip href id label "
	  "labelURL labelangle labeldistance labelfloat labelfontcolor labelfontname labelfontsize labelhref "
	  "labeltarget labeltooltip layer len lhead lp ltail minlen nojustify penwidth pos samehead sametail showboxes "
	  "style tailURL tail_lp tailclip tailhref taillabel tailport tailtarget tailtooltip target tooltip weight "
	  "xlabel xlp " },
};

/* ---- did you mean ---- */

enum { ATTRIBUTES_WORD_MAX = 32 };

/* Returns the number of letters to change, add, remove or swap with their neighbour to turn a into b. */
static unsigned
attributes_distance(const char *a, const char *b)
{
	unsigned rows[3][ATTRIBUTES_WORD_MAX + 1]; /* distances of the last three prefixes of a to each prefix of b */
	size_t len = strlen(b), i;

	if (strlen(a) > ATTRIBUTES_WORD_MAX || len > ATTRIBUTES_WORD_MAX)
		return UINT32_MAX;
	for (unsigned k = 0; k <= len; k++)
		rows[0][k] = k;
	for (i = 1; a[i - 1] != '\0'; i++) {
		unsigned *row = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];

		row[0] = (unsigned)i;
		for (size_t k = 1; k <= len; k++) {
			unsigned other = 1 + (row[k - 1] < before[k] ? row[k - 1] : before[k]);

			row[k] = before[k - 1] + (a[i - 1] != b[k - 1]);
			row[k] = other < row[k] ? other : row[k];
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] && earlier[k - 2] < row[k])
				row[k] = earlier[k - 2] + 1;
		}
	}
	return rows[(i - 1) % 3][len];
}

void
attributes_guess_try(struct attributes_guess *guess, const char *candidate)
{
	size_t len = strlen(guess->name);
	unsigned distance = attributes_distance(guess->name, candidate);

	if (guess->found == NULL)
		guess->distance = len < 4 ? (unsigned)len : 4;
	/* If more than half of the letters differ, it is another word. */
	if (distance < guess->distance && distance * 2 <= strlen(candidate) + 1) {
		guess->distance = distance;
		guess->found = candidate;
	}
}

void
attributes_guess_try_settings(struct attributes_guess *guess, const struct xk_setting *settings)
{
	for (const struct xk_setting *s = settings; s != NULL && s->name != NULL; s++)
		attributes_guess_try(guess, s->name);
}

const char *
attributes_guess_text(struct attributes_guess *guess)
{
	if (guess->found == NULL)
		return "";
	snprintf(guess->text, sizeof(guess->text), " (did you mean \"%s\"?)", guess->found);
	return guess->text;
}

/* ---- values ---- */

/* Parses a decimal number or 0x..., at most max. */
static bool
attributes_number(const char *value, uint64_t max, uint64_t *number)
{
	bool hex = value[0] == '0' && (value[1] == 'x' || value[1] == 'X');
	char *end;

	if (!isdigit((unsigned char)value[0]) || (hex && !isxdigit((unsigned char)value[2])))
		return false;
	errno = 0;
	*number = strtoull(value, &end, hex ? 16 : 10);
	return errno == 0 && *end == '\0' && *number <= max;
}

/* Parses "spin(20us)". */
static bool
attributes_spin(const char *value, uint64_t *ns)
{
	size_t len = strlen(value);
	char text[32];

	if (strncmp(value, "spin(", 5) != 0 || value[len - 1] != ')' || len - 6 >= sizeof(text))
		return false;
	memcpy(text, value + 5, len - 6);
	text[len - 6] = '\0';
	return xk_time_parse(text, ns) && *ns > 0 && *ns <= ATTRIBUTES_TIME_MAX;
}

enum attributes_name {
	ATTRIBUTES_BUDGET,
	ATTRIBUTES_CARRY,
	ATTRIBUTES_HANDOFF,
	ATTRIBUTES_IMPLICIT,
	ATTRIBUTES_NUMBER,
	ATTRIBUTES_ORDER,
	ATTRIBUTES_PATHS,
	ATTRIBUTES_PROTOCOL,
	ATTRIBUTES_RESUME,
	ATTRIBUTES_ROLE,
	ATTRIBUTES_SESSIONS,
	ATTRIBUTES_TRACE,
};

static const struct {
	const char *name;
	unsigned where; /* enum attributes_where */
} attributes_own[] = {
	[ATTRIBUTES_BUDGET] = { "budget", ATTRIBUTES_GRAPH | ATTRIBUTES_EDGE },
	[ATTRIBUTES_CARRY] = { "carry", ATTRIBUTES_GRAPH | ATTRIBUTES_EDGE },
	[ATTRIBUTES_HANDOFF] = { "handoff", ATTRIBUTES_EDGE },
	[ATTRIBUTES_IMPLICIT] = { "implicit", ATTRIBUTES_GRAPH | ATTRIBUTES_NODE },
	[ATTRIBUTES_NUMBER] = { "number", ATTRIBUTES_EDGE },
	[ATTRIBUTES_ORDER] = { "order", ATTRIBUTES_NODE },
	[ATTRIBUTES_PATHS] = { "paths", ATTRIBUTES_GRAPH },
	[ATTRIBUTES_PROTOCOL] = { "protocol", ATTRIBUTES_NODE },
	[ATTRIBUTES_RESUME] = { "resume", ATTRIBUTES_GRAPH | ATTRIBUTES_NODE },
	[ATTRIBUTES_ROLE] = { "role", ATTRIBUTES_EDGE },
	[ATTRIBUTES_SESSIONS] = { "sessions", ATTRIBUTES_NODE },
	[ATTRIBUTES_TRACE] = { "trace", ATTRIBUTES_GRAPH | ATTRIBUTES_NODE },
};

/* Parses an attribute of the graph language. Returns NULL, or the expected form if the value is wrong. */
static const char *
attributes_parse(struct attributes_target *target, enum attributes_name name, const char *value)
{
	struct xk_graph_policy *policy = target->policy;
	uint64_t number;

	switch (name) {
	case ATTRIBUTES_BUDGET:
		if (!xk_time_parse(value, &number) || number == 0 || number > ATTRIBUTES_TIME_MAX)
			return "a time above zero, like \"20us\", and at most 60s";
		target->budget->budget_ns = number;
		break;
	case ATTRIBUTES_CARRY:
		if (!attributes_number(value, ATTRIBUTES_CARRY_MAX, &number))
			return "a number from 0 to 256";
		target->budget->carry = (unsigned)number;
		break;
	case ATTRIBUTES_HANDOFF:
		if (strcmp(value, "explicit") == 0)
			target->edge->handoff = XK_GRAPH_EXPLICIT;
		else if (strcmp(value, "never") == 0)
			target->edge->handoff = XK_GRAPH_NEVER;
		else
			return "explicit or never";
		break;
	case ATTRIBUTES_IMPLICIT:
		policy->spin_ns = 0;
		if (strcmp(value, "handoff") == 0)
			policy->implicit = XK_IMPLICIT_HANDOFF;
		else if (strcmp(value, "fail") == 0)
			policy->implicit = XK_IMPLICIT_FAIL;
		else if (attributes_spin(value, &policy->spin_ns))
			policy->implicit = XK_IMPLICIT_SPIN;
		else
			return "handoff, \"spin(TIME)\" with a time like 20us, or fail";
		break;
	case ATTRIBUTES_NUMBER:
		if (!attributes_number(value, UINT32_MAX, &number))
			return "a number, like 17 or \"0x0806\"";
		target->edge->has_number = true;
		target->edge->number = (uint32_t)number;
		break;
	case ATTRIBUTES_ORDER:
		if (strcmp(value, "session") != 0)
			return "session";
		policy->order_session = true;
		break;
	case ATTRIBUTES_RESUME:
		if (strcmp(value, "thread") == 0)
			policy->resume = XK_RESUME_THREAD;
		else if (strcmp(value, "driver") == 0)
			policy->resume = XK_RESUME_DRIVER;
		else
			return "thread or driver";
		break;
	case ATTRIBUTES_SESSIONS:
		if (target->type->session_max == 0)
			return "no such attribute: this protocol keeps no passively opened sessions";
		if (!attributes_number(value, ATTRIBUTES_SESSIONS_MAX, &number) || number == 0)
			return "a number from 1 to 1048576";
		policy->session_max = (unsigned)number;
		break;
	case ATTRIBUTES_PATHS:
		if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
			return "yes or no";
		target->check->graph->no_paths = *value == 'n';
		break;
	case ATTRIBUTES_TRACE:
		if (xk_trace_level(value) < 0)
			return "none, errors, events or messages";
		policy->trace_level = xk_trace_level(value);
		break;
	case ATTRIBUTES_PROTOCOL: /* check.c has checked it before, ... */
	case ATTRIBUTES_ROLE:     /* ... and does so later */
		break;
	}
	return NULL;
}

/* ---- one attribute ---- */

bool
attributes_draws(enum attributes_where where, const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || strchr(name, ' ') != NULL)
		return false;
	for (size_t i = 0; i < XK_ARRAY_LENGTH(attributes_drawing); i++) {
		const char *p = attributes_drawing[i].names;

		for (p = strstr(p, name); p != NULL && attributes_drawing[i].where == where; p = strstr(p + 1, name))
			if (p[-1] == ' ' && p[len] == ' ')
				return true;
	}
	return false;
}

static void
attributes_refuse_value(struct attributes_check *check, const char *of, const struct xk_graph_attribute *a,
			const char *expected)
{
	attributes_refuse(check, a->line, "%s of %s is \"%.80s\": expected %s", a->name, of, a->value, expected);
}

/* The value of any setting except a string. */
union attributes_value {
	uint64_t number;
	struct xk_network network;
	bool flag;
};

void
attributes_check_setting(struct attributes_check *check, const char *of, const struct xk_setting *setting,
			 const struct xk_graph_attribute *a)
{
	union attributes_value place = { 0 };
	struct xk_setting there = *setting;
	char why[160] = "another value";

	/* any text is a valid string, and xk_setting_parse would copy it */
	if (a->html)
		attributes_refuse_value(check, of, a, "a value that is not an HTML-like string");
	if (a->html || setting->type == XK_SETTING_STRING)
		return;
	there.offset = 0;
	if (xk_setting_parse(&there, a->value, &place, why, sizeof(why)) != 0)
		attributes_refuse(check, a->line, "%s of %s is \"%.80s\": %s", a->name, of, a->value, why);
}

const struct xk_setting *
attributes_find_setting(const struct xk_setting *settings, const char *name)
{
	for (const struct xk_setting *s = settings; s != NULL && s->name != NULL; s++)
		if (strcmp(s->name, name) == 0)
			return s;
	return NULL;
}

static const char *
attributes_owners(unsigned where)
{
	if (where & ATTRIBUTES_NODE)
		return where & ATTRIBUTES_GRAPH ? "the graph or a node" : "a node";
	if (where & ATTRIBUTES_EDGE)
		return where & ATTRIBUTES_GRAPH ? "the graph or an edge" : "an edge";
	return "the graph";
}

static void
attributes_unknown(struct attributes_target *target, const struct xk_graph_attribute *a)
{
	struct attributes_guess guess = { .name = a->name };

	for (size_t i = 0; i < XK_ARRAY_LENGTH(attributes_own); i++)
		if (attributes_own[i].where & target->where)
			attributes_guess_try(&guess, attributes_own[i].name);
	attributes_guess_try_settings(&guess, target->type == NULL ? NULL : target->type->settings);
	attributes_refuse(target->check, a->line, "unknown attribute \"%.80s\" of %s%s", a->name, target->of,
			  attributes_guess_text(&guess));
}

static void
attributes_check_one(struct attributes_target *target, const struct xk_graph_attribute *a)
{
	const struct xk_setting *settings = target->type == NULL ? NULL : target->type->settings;
	const struct xk_setting *setting = attributes_find_setting(settings, a->name);
	size_t own = 0;

	while (own < XK_ARRAY_LENGTH(attributes_own) && strcmp(attributes_own[own].name, a->name) != 0)
		own++;
	if (own < XK_ARRAY_LENGTH(attributes_own) && (attributes_own[own].where & target->where)) {
		const char *expected = a->html ? "a value that is not an HTML-like string"
					       : attributes_parse(target, (enum attributes_name)own, a->value);

		if (expected != NULL)
			attributes_refuse_value(target->check, target->of, a, expected);
	} else if (setting != NULL) {
		attributes_check_setting(target->check, target->of, setting, a);
	} else if (attributes_draws(target->where, a->name)) {
		return;
	} else if (own < XK_ARRAY_LENGTH(attributes_own)) {
		attributes_refuse(target->check, a->line, "%s is not an attribute of %s: it belongs on %s", a->name,
				  attributes_owners(target->where), attributes_owners(attributes_own[own].where));
	} else {
		attributes_unknown(target, a);
	}
}

static void
attributes_check_all(struct attributes_target *target, const struct xk_graph_attributes *attributes)
{
	const struct xk_graph_attribute *carry = xk_graph_attribute_find(attributes, "carry");

	for (unsigned i = 0; i < attributes->count; i++)
		attributes_check_one(target, &attributes->list[i]);
	/* a node has no budget: there, carry is unknown or a setting of the protocol */
	if (carry != NULL && target->budget != NULL && xk_graph_attribute_find(attributes, "budget") == NULL)
		attributes_refuse(target->check, carry->line, "carry of %s has no effect without a budget of its own",
				  target->of);
}

bool
attributes_next_address(const struct xk_graph *graph, struct attributes_address *at)
{
	char why[160];

	for (; at->node < graph->node_count; at->node++, at->setting = at->number = 0) {
		const struct xk_graph_node *node = &graph->nodes[at->node];
		const struct xk_setting *settings = node->type == NULL ? NULL : node->type->settings;

		while (settings != NULL && settings[at->setting].name != NULL) {
			struct xk_setting setting = settings[at->setting++];

			if (setting.type != XK_SETTING_ADDRESS)
				continue;
			at->number++;
			setting.offset = 0;
			at->attribute = xk_graph_attribute_find(&node->attributes, setting.name);
			if (at->attribute != NULL && !at->attribute->html &&
			    xk_setting_parse(&setting, at->attribute->value, &at->network, why, sizeof(why)) == 0)
				return true;
		}
	}
	return false;
}

/* ---- owners of attributes ---- */

void
attributes_check_graph(struct attributes_check *check)
{
	struct xk_graph *graph = check->graph;
	struct attributes_target target = { .check = check,
					    .where = ATTRIBUTES_GRAPH,
					    .of = "the graph",
					    .policy = &graph->policy,
					    .budget = &graph->budget };

	memset(&graph->policy, 0, sizeof(graph->policy));
	memset(&graph->budget, 0, sizeof(graph->budget));
	graph->no_paths = false;
	attributes_check_all(&target, &graph->attributes);
}

/*
 * Removes layout attributes of graphviz that have the name of a setting (`width`): values that the setting cannot have,
 * of nodes that also have a position.
 */
static void
attributes_remove_layout(struct xk_graph_node *node)
{
	const struct xk_setting *settings =
		xk_graph_attribute_find(&node->attributes, "pos") == NULL ? NULL : node->type->settings;
	union attributes_value place;
	char why[160];

	for (const struct xk_setting *s = settings; s != NULL && s->name != NULL; s++) {
		const struct xk_graph_attribute *a = xk_graph_attribute_find(&node->attributes, s->name);
		struct xk_setting there = *s;

		there.offset = 0;
		if (a != NULL && s->type != XK_SETTING_STRING && attributes_draws(ATTRIBUTES_NODE, s->name) &&
		    xk_setting_parse(&there, a->value, &place, why, sizeof(why)) != 0)
			xk_graph_attribute_remove(&node->attributes, s->name);
	}
}

void
attributes_check_node(struct attributes_check *check, struct xk_graph_node *node)
{
	struct attributes_target target = {
		.check = check, .where = ATTRIBUTES_NODE, .of = node->name, .policy = &node->policy, .type = node->type
	};

	node->policy = check->graph->policy;
	if (node->type == NULL) /* its attributes are unknown */
		return;
	attributes_remove_layout(node);
	attributes_check_all(&target, &node->attributes);
}

/* Refuses two edges with the same key between two nodes: in DOT they are one edge. */
static void
attributes_check_key(struct attributes_check *check, const struct xk_graph_edge *edge, const char *of)
{
	const struct xk_graph_attribute *key = xk_graph_attribute_find(&edge->attributes, "key"), *other;

	for (const struct xk_graph_edge *e = check->graph->edges; key != NULL && e < edge; e++) {
		other = xk_graph_attribute_find(&e->attributes, "key");
		if (e->upper == edge->upper && e->lower == edge->lower && other != NULL &&
		    strcmp(other->value, key->value) == 0)
			attributes_refuse(check, key->line,
					  "%s has the key \"%.80s\" twice, which merges the two edges", of, key->value);
	}
}

void
attributes_check_edge(struct attributes_check *check, struct xk_graph_edge *edge)
{
	struct xk_graph *graph = check->graph;
	char of[256];
	struct attributes_target target = {
		.check = check, .where = ATTRIBUTES_EDGE, .of = of, .budget = &edge->budget, .edge = edge
	};

	snprintf(of, sizeof(of), "%s -> %s", graph->nodes[edge->upper].name, graph->nodes[edge->lower].name);
	edge->handoff = XK_GRAPH_AS_POLICY;
	edge->has_number = false;
	edge->number = 0;
	memset(&edge->budget, 0, sizeof(edge->budget));
	attributes_check_all(&target, &edge->attributes);
	attributes_check_key(check, edge, of);
	if (edge->handoff == XK_GRAPH_NEVER && edge->budget.budget_ns != 0)
		attributes_refuse(check, edge->line, "%s has handoff=never and a budget, which contradict each other",
				  of);
}
