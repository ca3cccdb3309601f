/*
 * draw.c - draws a checked graph as a picture, in DOT: the type of each protocol, the role of each lower, and where and
 * why a shepherd may leave the driver. Drawing attributes of the graph file are not copied: they could name files.
 */
#include <stdlib.h>
#include <string.h>

#include "graphs/draw_private.h"
#include "graphs/graph.h"

/* ---- text ---- */

/* Returns the length of the UTF-8 character at p, or 0 if it is invalid. */
static unsigned
draw_character(const unsigned char *p)
{
	unsigned len = *p < 0x80 ? 1 : *p >= 0xf0 && *p < 0xf5 ? 4 : *p >= 0xe0 ? 3 : 2;

	if (*p >= 0xf5 || (*p >= 0x80 && *p < 0xc2))
		return 0;
	for (unsigned i = 1; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

void
draw_text(FILE *stream, const char *text, unsigned max)
{
	const unsigned char *p = (const unsigned char *)text;

	for (unsigned count = 0; *p != '\0' && count < max; count++) {
		unsigned len = draw_character(p);

		if (len == 1 && strchr("&<>\"'\\[]{}", *p) != NULL)
			fprintf(stream, "&#%u;", *p);
		else if (len == 0 || *p < ' ' || *p == 0x7f)
			putc('?', stream);
		else
			fwrite(p, 1, len, stream);
		p += len == 0 ? 1 : len;
	}
	if (*p != '\0')
		fputs("&#8230;", stream);
}

void
draw_row_begin(FILE *stream, const char *colour)
{
	fprintf(stream, "<tr><td><font point-size=\"10\" color=\"%s\">", colour);
}

void
draw_row_end(FILE *stream)
{
	fputs("</font></td></tr>", stream);
}

void
draw_row(FILE *stream, const char *colour, const char *text)
{
	draw_row_begin(stream, colour);
	draw_text(stream, text, DRAW_VALUE_MAX);
	draw_row_end(stream);
}

void
draw_row_setting(FILE *stream, const char *name, const char *value)
{
	draw_row_begin(stream, DRAW_FAINT);
	draw_text(stream, name, DRAW_VALUE_MAX);
	fputs(" = ", stream);
	draw_text(stream, value, DRAW_VALUE_MAX);
	draw_row_end(stream);
}

void
draw_legend_begin(FILE *stream)
{
	fputs("\tsubgraph cluster_legend {\n\tgraph [peripheries=0, margin=4, labelloc=b];\n"
	      "\tlabel=<<table border=\"0\" cellspacing=\"0\" cellpadding=\"2\">",
	      stream);
}

void
draw_legend_row(FILE *stream, const char *swatch, const char *text)
{
	fprintf(stream,
		"<tr><td><table border=\"0\" cellspacing=\"0\" cellpadding=\"0\" fixedsize=\"true\" width=\"26\" "
		"height=\"10\"><tr><td fixedsize=\"true\" width=\"24\" height=\"8\" %s></td></tr></table></td>"
		"<td align=\"left\"><font point-size=\"9\" color=\"" DRAW_FAINT "\">%s</font></td></tr>",
		swatch, text);
}

void
draw_legend_end(FILE *stream)
{
	fputs("</table>>;\n", stream);
}

const char *
draw_base_name(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash == NULL ? file : slash + 1;
}

static void
draw_time(FILE *stream, uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *unit;
	} units[] = { { 1000000000, "s" }, { 1000000, "ms" }, { 1000, "&#181;s" }, { 1, "ns" } };
	unsigned i = 0;

	while (ns % units[i].ns != 0)
		i++;
	fprintf(stream, "%llu %s", (unsigned long long)(ns / units[i].ns), units[i].unit);
}

/* ---- nodes ---- */

/* Writes where the node differs from the graph, whose policy is in the title. */
static void
draw_policy(FILE *stream, const struct xk_graph_policy *policy, const struct xk_graph_policy *usual)
{
	if (policy->implicit != usual->implicit || policy->spin_ns != usual->spin_ns) {
		draw_row_begin(stream, DRAW_RED);
		fputs(policy->implicit == XK_IMPLICIT_SPIN   ? "would wait: spins "
		      : policy->implicit == XK_IMPLICIT_FAIL ? "would wait: fails"
							     : "would wait: hands off",
		      stream);
		if (policy->implicit == XK_IMPLICIT_SPIN)
			draw_time(stream, policy->spin_ns);
		draw_row_end(stream);
	}
	if (policy->resume != usual->resume)
		draw_row(stream, DRAW_GREEN,
			 policy->resume == XK_RESUME_DRIVER ? "resumed by the driver" : "resumed by a thread");
	if (policy->order_session)
		draw_row(stream, DRAW_BLUE, "sessions in order");
}

static void
draw_settings(FILE *stream, const struct xk_graph_node *node)
{
	const struct xk_setting *setting = node->type->settings;

	for (; setting != NULL && setting->name != NULL; setting++) {
		const struct xk_graph_attribute *a = xk_graph_attribute_find(&node->attributes, setting->name);

		if (a != NULL)
			draw_row_setting(stream, a->name, a->value);
	}
	if (node->policy.session_max != 0) {
		draw_row_begin(stream, DRAW_FAINT);
		fprintf(stream, "sessions = %u", node->policy.session_max);
		draw_row_end(stream);
	}
}

static void
draw_note_rows(FILE *stream, const struct xk_graph_note *note)
{
	for (unsigned i = 0; i < XK_GRAPH_NOTE_ROWS && note->rows[i][0] != '\0'; i++) {
		draw_row_begin(stream, DRAW_INK);
		draw_text(stream, note->rows[i], XK_GRAPH_NOTE);
		draw_row_end(stream);
	}
}

static bool
draw_is_topmost(const struct xk_graph *graph, unsigned node)
{
	for (unsigned i = 0; i < graph->edge_count; i++)
		if (graph->edges[i].lower == node)
			return false;
	return true;
}

static void
draw_node(FILE *stream, const struct xk_graph *graph, unsigned index, const struct xk_graph_notes *notes)
{
	/* from white to a warm red on which ink is still legible */
	static const double coldest[3] = { 255, 253, 247 }, hottest[3] = { 240, 106, 61 };
	const struct xk_graph_node *node = &graph->nodes[index];
	unsigned flags = node->type->flags, mixed[3];
	struct xk_graph_note note = { .heat = -1 };
	char colour[8];
	const char *fill = flags & XK_PORT                 ? DRAW_FILL_PORT
			   : flags & XK_VIRTUAL            ? DRAW_FILL_VIRTUAL
			   : draw_is_topmost(graph, index) ? DRAW_FILL_TOP
							   : DRAW_FILL;

	if (notes != NULL)
		notes->node(notes, node->name, &note);
	if (note.heat >= 0) {
		for (unsigned i = 0; i < 3; i++)
			mixed[i] =
				(unsigned)(coldest[i] + (hottest[i] - coldest[i]) * (note.heat < 1 ? note.heat : 1)) &
				0xff;
		snprintf(colour, sizeof(colour), "#%02x%02x%02x", mixed[0], mixed[1], mixed[2]);
		fill = colour;
	}
	fprintf(stream, "\tn%u [fillcolor=\"%s\", style=\"%s\", label=<" DRAW_TABLE, index, fill,
		flags & XK_VIRTUAL ? "filled,rounded,dashed"
		: flags & XK_PORT  ? "filled"
				   : "filled,rounded");
	fputs("<tr><td><b>", stream);
	draw_text(stream, node->name, XK_GRAPH_NAME_MAX);
	fputs("</b>", stream);
	if (strcmp(node->name, node->type->name) != 0) {
		fprintf(stream, "<font color=\"%s\"> : ", DRAW_FAINT);
		draw_text(stream, node->type->name, XK_GRAPH_NAME_MAX);
		fputs("</font>", stream);
	}
	fputs("</td></tr>", stream);
	if (node->type->fields != NULL && node->type->header != 0) {
		draw_row_begin(stream, DRAW_FAINT);
		fprintf(stream, "%u-byte header", node->type->header);
		draw_row_end(stream);
	}
	draw_policy(stream, &node->policy, &graph->policy);
	draw_settings(stream, node);
	draw_note_rows(stream, &note);
	fputs("</table>>];\n", stream);
}

/* ---- edges ---- */

/* Returns true if the picture names the roles of lowers: the type has several. */
static bool
draw_names_role(const struct xk_graph_node *upper)
{
	return upper->type->lowers[0].name != NULL && upper->type->lowers[1].name != NULL;
}

static void
draw_budget(FILE *stream, const struct xk_graph_budget *budget)
{
	fputs("budget ", stream);
	draw_time(stream, budget->budget_ns);
	if (budget->carry != 0)
		fprintf(stream, ", carry %u", budget->carry);
}

static void
draw_edge_rows(FILE *stream, const struct xk_graph *graph, const struct xk_graph_edge *edge)
{
	if (edge->handoff == XK_GRAPH_EXPLICIT)
		fprintf(stream, "<tr><td><font color=\"%s\"><b>handoff</b></font></td></tr>", DRAW_RED);
	if (edge->handoff == XK_GRAPH_NEVER)
		fprintf(stream, "<tr><td><font color=\"%s\">never by time</font></td></tr>", DRAW_FAINT);
	if (edge->budget.budget_ns != 0) {
		fprintf(stream, "<tr><td><font color=\"%s\"><b>", DRAW_AMBER);
		draw_budget(stream, &edge->budget);
		fputs("</b></font></td></tr>", stream);
	}
	if (draw_names_role(&graph->nodes[edge->upper])) {
		fprintf(stream, "<tr><td><font color=\"%s\">", DRAW_FAINT);
		draw_text(stream, edge->role->name, DRAW_VALUE_MAX);
		fputs("</font></td></tr>", stream);
	}
	if (edge->has_number)
		fprintf(stream, "<tr><td><font color=\"%s\">number %u</font></td></tr>", DRAW_FAINT, edge->number);
}

static void
draw_edge(FILE *stream, const struct xk_graph *graph, const struct xk_graph_edge *edge,
	  const struct xk_graph_notes *notes)
{
	bool has_rows = edge->handoff != XK_GRAPH_AS_POLICY || edge->budget.budget_ns != 0 || edge->has_number ||
			draw_names_role(&graph->nodes[edge->upper]);
	struct xk_graph_note note = { .heat = -1 };

	if (notes != NULL)
		notes->edge(notes, graph->nodes[edge->upper].name, graph->nodes[edge->lower].name, edge->role->name,
			    &note);
	fprintf(stream, "\tn%u -> n%u [", edge->upper, edge->lower);
	if (edge->handoff == XK_GRAPH_EXPLICIT)
		fprintf(stream, "color=\"%s\", penwidth=2.6, ", DRAW_RED);
	else if (edge->budget.budget_ns != 0)
		fprintf(stream, "color=\"%s\", penwidth=2.0, ", DRAW_AMBER);
	if (edge->role->needs == XK_CONTROL) /* no messages cross it */
		fputs("style=dotted, arrowhead=open, ", stream);
	if (has_rows || note.rows[0][0] != '\0') {
		fputs("label=<<table border=\"0\" cellspacing=\"2\" cellpadding=\"2\">", stream);
		draw_edge_rows(stream, graph, edge);
		draw_note_rows(stream, &note);
		fputs("</table>>", stream);
	}
	fputs("];\n", stream);
}

/* ---- the whole picture ---- */

/* Writes the file's name, and what holds for every message and node. */
static void
draw_title(FILE *stream, const struct xk_graph *graph, const struct xk_graph_notes *notes)
{
	static const struct xk_graph_policy usual = { .implicit = XK_IMPLICIT_HANDOFF };
	struct xk_graph_note note = { .heat = -1 };

	fputs("\tlabel=<" DRAW_TABLE "<tr><td><b>", stream);
	draw_text(stream, draw_base_name(graph->file), 2 * DRAW_VALUE_MAX);
	fputs("</b></td></tr>", stream);
	if (graph->budget.budget_ns != 0) {
		fprintf(stream, "<tr><td><font color=\"%s\"><b>every message: ", DRAW_AMBER);
		draw_budget(stream, &graph->budget);
		fputs("</b></font></td></tr>", stream);
	}
	draw_policy(stream, &graph->policy, &usual);
	if (notes != NULL)
		notes->title(notes, &note);
	draw_note_rows(stream, &note);
	fputs("</table>>;\n", stream);
}

/* Begins the cluster of all nodes, with a legend of what occurs in the picture. */
static void
draw_legend(FILE *stream, const struct xk_graph *graph, bool heated)
{
	bool is_virtual = false, asks = false, hands_off = false, has_budget = graph->budget.budget_ns != 0;

	for (unsigned i = 0; i < graph->node_count; i++)
		is_virtual |= (graph->nodes[i].type->flags & XK_VIRTUAL) != 0;
	for (unsigned i = 0; i < graph->edge_count; i++) {
		asks |= graph->edges[i].role->needs == XK_CONTROL;
		hands_off |= graph->edges[i].handoff == XK_GRAPH_EXPLICIT;
		has_budget |= graph->edges[i].budget.budget_ns != 0;
	}
	draw_legend_begin(stream);
	draw_legend_row(stream, DRAW_LEGEND_LINE("solid", "1", DRAW_LINE), "stands on: received messages go up");
	if (asks)
		draw_legend_row(stream, DRAW_LEGEND_LINE("dotted", "1", DRAW_LINE), "asks: no messages pass");
	if (is_virtual)
		draw_legend_row(stream, DRAW_LEGEND_BOX("dashed", DRAW_FILL_VIRTUAL), "virtual: no header");
	if (hands_off)
		draw_legend_row(stream, DRAW_LEGEND_LINE("solid", "3", DRAW_RED),
				"going up, it leaves the driver here");
	if (has_budget)
		draw_legend_row(stream, DRAW_LEGEND_LINE("solid", "2", DRAW_AMBER),
				"it leaves when this time is spent");
	if (heated)
		draw_legend_row(stream, DRAW_LEGEND_BOX("solid", "#f6a283"), "warmer: more of the time");
	draw_legend_end(stream);
}

void
xk_graph_draw(const struct xk_graph *graph, FILE *stream)
{
	xk_graph_draw_noted(graph, NULL, stream);
}

void
xk_graph_draw_noted(const struct xk_graph *graph, const struct xk_graph_notes *notes, FILE *stream)
{
	xk_assert(graph->checked);
	fprintf(stream,
		"digraph xkernel {\n"
		"\tgraph [fontname=\"Helvetica\", fontsize=13, fontcolor=\"%s\", labelloc=t, bgcolor=\"white\", "
		"pad=0.3, nodesep=0.55, ranksep=0.45, charset=\"UTF-8\"];\n"
		"\tnode [shape=box, fontname=\"Helvetica\", fontsize=13, fontcolor=\"%s\", color=\"%s\", "
		"penwidth=1.2, margin=\"0.14,0.05\", width=1.1];\n"
		"\tedge [fontname=\"Helvetica\", fontsize=10, color=\"%s\", penwidth=1.3, arrowsize=0.8];\n",
		DRAW_INK, DRAW_INK, DRAW_LINE, DRAW_LINE);
	draw_title(stream, graph, notes);
	draw_legend(stream, graph, notes != NULL);
	for (unsigned i = 0; i < graph->node_count; i++)
		draw_node(stream, graph, i, notes);
	for (unsigned i = 0; i < graph->node_count; i++)
		for (unsigned k = 0; k < graph->nodes[i].lower_count; k++)
			draw_edge(stream, graph, &graph->edges[graph->nodes[i].lowers[k]], notes);
	fputs("\t}\n}\n", stream);
}
