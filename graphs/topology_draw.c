/*
 * topology_draw.c - draws a network as a picture, in DOT: hosts as boxes, links between several hosts as ellipses,
 * links of two hosts as edges. The hosts of a large `count` are one box.
 */
#include <stdlib.h>
#include <string.h>

#include "graphs/draw_private.h"
#include "graphs/topology.h"

enum {
	TOPOLOGY_ROWS_MAX = 8,
	TOPOLOGY_SINGLE_MAX = 6, /* hosts of a count that have boxes of their own */
};

static_assert((int)TOPOLOGY_SINGLE_MAX >= (int)XK_TOPOLOGY_DEVICES_MAX, "see topology_draw_wire");

struct topology_picture {
	const struct xk_topology *topology;
	FILE *stream;
	unsigned *box;  /* by host: the first host of its box */
	unsigned *side; /* by link: the number of boxes already drawn beside it */
};

/* ---- rows ---- */

static void
topology_draw_more(FILE *stream, unsigned count)
{
	char text[32];

	snprintf(text, sizeof(text), "and %u more", count - TOPOLOGY_ROWS_MAX);
	if (count > TOPOLOGY_ROWS_MAX)
		draw_row(stream, DRAW_FAINT, text);
}

static void
topology_draw_settings(FILE *stream, const struct xk_graph_attributes *settings)
{
	for (unsigned i = 0; i < settings->count && i < TOPOLOGY_ROWS_MAX; i++)
		draw_row_setting(stream, settings->list[i].name, settings->list[i].value);
	topology_draw_more(stream, settings->count);
}

/* ---- hosts ---- */

/* Decides which hosts share a box. */
static void
topology_assign_boxes(const struct topology_picture *picture)
{
	const struct xk_topology *topology = picture->topology;

	for (unsigned first = 0, end; first < topology->host_count; first = end) {
		end = first;
		while (end < topology->host_count && topology->hosts[end].written == topology->hosts[first].written)
			end++;
		for (unsigned i = first; i < end; i++)
			picture->box[i] = end - first > TOPOLOGY_SINGLE_MAX ? first : i;
	}
}

/* Returns how many hosts are in the box that begins with host `first`. */
static unsigned
topology_count_hosts(const struct topology_picture *picture, unsigned first)
{
	unsigned end = first;

	while (end < picture->topology->host_count && picture->box[end] == first)
		end++;
	return end - first;
}

/* Writes the address of device n of count hosts, or the first and the last. */
static void
topology_draw_address(FILE *stream, const struct xk_topology_host *host, unsigned count, unsigned n)
{
	const struct xk_topology_device *first = &host->devices[n], *last = &host[count - 1].devices[n];
	char text[16];

	if (first->host == 0)
		return;
	draw_row_begin(stream, DRAW_BLUE);
	if (count > 1) {
		fprintf(stream, "%s &#8230; ", xk_host_print(first->host, text));
		first = last;
	}
	fprintf(stream, "%s/%u", xk_host_print(first->host, text), first->bits);
	draw_row_end(stream);
}

static void
topology_draw_host(const struct topology_picture *picture, const struct xk_topology_host *host, unsigned count)
{
	FILE *stream = picture->stream;

	fprintf(stream,
		"\th%u [shape=box, style=\"filled,rounded\", fillcolor=\"" DRAW_FILL "\", label=<" DRAW_TABLE
		"<tr><td><b>",
		host->number);
	draw_text(stream, host->name, XK_GRAPH_NAME_MAX);
	if (count > 1) {
		fputs(" &#8230; ", stream);
		draw_text(stream, host[count - 1].name, XK_GRAPH_NAME_MAX);
	}
	fputs("</b></td></tr>", stream);
	draw_row(stream, DRAW_INK, draw_base_name(host->graph));
	for (unsigned i = 0; i < host->device_count; i++)
		topology_draw_address(stream, host, count, i);
	topology_draw_settings(stream, host->settings);
	for (unsigned i = 0; i < host->set_count && i < TOPOLOGY_ROWS_MAX; i++)
		draw_row(stream, DRAW_FAINT, host->sets[i]);
	topology_draw_more(stream, host->set_count);
	fputs("</table>>];\n", stream);
}

/* ---- links ---- */

static void
topology_draw_link(const struct topology_picture *picture, unsigned index)
{
	const struct xk_topology_link *link = &picture->topology->links[index];
	FILE *stream = picture->stream;

	fprintf(stream,
		"\tl%u [shape=ellipse, style=filled, fillcolor=\"" DRAW_FILL_PORT "\", label=<" DRAW_TABLE
		"<tr><td><b>",
		index);
	draw_text(stream, link->name, XK_GRAPH_NAME_MAX);
	fputs("</b></td></tr>", stream);
	draw_row(stream, DRAW_INK, link->preset);
	topology_draw_settings(stream, &link->settings);
	fputs("</table>>];\n", stream);
}

/* Returns the host at the other end of a link of two hosts. */
static unsigned
topology_other_end(const struct xk_topology *topology, unsigned link, unsigned from)
{
	for (unsigned i = 0; i < topology->host_count; i++)
		for (unsigned k = 0; k < topology->hosts[i].device_count; k++)
			if (topology->hosts[i].devices[k].link == link && i != from)
				return i;
	return from;
}

/*
 * Draws a link of two hosts, once. Both have boxes of their own: a host at the other end of a shared box's links would
 * need more devices than a host may have.
 */
static void
topology_draw_wire(const struct topology_picture *picture, unsigned from, unsigned index)
{
	const struct xk_topology_link *link = &picture->topology->links[index];
	unsigned to = topology_other_end(picture->topology, index, from);
	FILE *stream = picture->stream;

	if (to < from)
		return;
	fprintf(stream, "\th%u -- h%u [penwidth=2, label=<" DRAW_TABLE, from, to);
	draw_row(stream, DRAW_INK, link->preset);
	topology_draw_settings(stream, &link->settings);
	fputs("</table>>];\n", stream);
}

/* Draws hosts on both sides of a link in turn, so that a link with many hosts is not one long column. */
static void
topology_draw_devices(const struct topology_picture *picture, const struct xk_topology_host *host)
{
	for (unsigned i = 0; i < host->device_count; i++) {
		unsigned link = host->devices[i].link;

		if (picture->topology->links[link].is_edge)
			topology_draw_wire(picture, host->number, link);
		else if (picture->side[link]++ % 2 == 0)
			fprintf(picture->stream, "\th%u -- l%u;\n", host->number, link);
		else
			fprintf(picture->stream, "\tl%u -- h%u;\n", link, host->number);
	}
}

/* ---- the whole picture ---- */

static void
topology_draw_head(const struct topology_picture *picture)
{
	const struct xk_topology *topology = picture->topology;
	const struct xk_graph_attribute *network = xk_graph_attribute_find(&topology->written->attributes, "network");
	FILE *stream = picture->stream;

	fputs("graph network {\n"
	      "\tgraph [rankdir=LR, fontname=\"Helvetica\", fontsize=13, fontcolor=\"" DRAW_INK
	      "\", labelloc=t, bgcolor=\"white\", pad=0.3, nodesep=0.2, ranksep=0.7, charset=\"UTF-8\"];\n"
	      "\tnode [fontname=\"Helvetica\", fontsize=13, fontcolor=\"" DRAW_INK "\", color=\"" DRAW_LINE
	      "\", penwidth=1.2, margin=\"0.12,0.05\"];\n"
	      "\tedge [fontname=\"Helvetica\", fontsize=10, color=\"" DRAW_LINE "\", penwidth=1.3];\n"
	      "\tlabel=<" DRAW_TABLE "<tr><td><b>",
	      stream);
	draw_text(stream, draw_base_name(topology->file), 2 * DRAW_VALUE_MAX);
	fputs("</b></td></tr>", stream);
	if (network != NULL)
		draw_row(stream, DRAW_BLUE, network->value);
	fputs("</table>>;\n", stream);
}

/* Begins the cluster of all nodes, with a legend of what occurs in the picture. */
static void
topology_draw_legend(const struct topology_picture *picture)
{
	bool has_wire = false, has_node = false;

	for (unsigned i = 0; i < picture->topology->link_count; i++)
		*(picture->topology->links[i].is_edge ? &has_wire : &has_node) = true;
	draw_legend_begin(picture->stream);
	draw_legend_row(picture->stream, DRAW_LEGEND_BOX("rounded", DRAW_FILL), "host: its graph, addresses, settings");
	if (has_node)
		draw_legend_row(picture->stream, DRAW_LEGEND_BOX("rounded", DRAW_FILL_PORT),
				"link: its kind, settings");
	if (has_wire)
		draw_legend_row(picture->stream, DRAW_LEGEND_LINE("solid", "2", DRAW_LINE), "link of two hosts");
	draw_legend_end(picture->stream);
}

void
xk_topology_draw(const struct xk_topology *topology, FILE *stream)
{
	struct topology_picture picture = { .topology = topology, .stream = stream };

	picture.box = calloc(topology->host_count + 1, sizeof(*picture.box));
	picture.side = calloc(topology->link_count + 1, sizeof(*picture.side));
	xk_assert(picture.box != NULL && picture.side != NULL);
	topology_assign_boxes(&picture);
	topology_draw_head(&picture);
	topology_draw_legend(&picture);
	for (unsigned i = 0; i < topology->link_count; i++)
		if (!topology->links[i].is_edge)
			topology_draw_link(&picture, i);
	for (unsigned i = 0, count; i < topology->host_count; i += count) {
		count = topology_count_hosts(&picture, i);
		topology_draw_host(&picture, &topology->hosts[i], count);
	}
	for (unsigned i = 0; i < topology->host_count; i += topology_count_hosts(&picture, i))
		topology_draw_devices(&picture, &topology->hosts[i]);
	fputs("\t}\n}\n", stream);
	free(picture.box);
	free(picture.side);
}
