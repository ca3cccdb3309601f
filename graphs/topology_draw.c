/*
 * topology_draw.c - a network as a picture, in DOT: hosts as boxes, links between several hosts as ellipses, links of
 * two hosts as edges. The hosts of a `count` are one box.
 */
#include <stdlib.h>
#include <string.h>

#include "graphs/draw_private.h"
#include "graphs/topology.h"

enum { TOPOLOGY_ROWS_MAX = 8 };

struct topology_picture {
	const struct xk_topology *topology;
	FILE *stream;
	bool *drawn;    /* by edge of the file: whether its link is in the picture */
	unsigned *side; /* by link: the number of hosts beside it */
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

/* Returns how many hosts, from this one on, are of one node. */
static unsigned
topology_count_hosts(const struct xk_topology *topology, const struct xk_topology_host *host)
{
	unsigned count = 1;

	while (host->number + count < topology->host_count && host[count].written == host->written)
		count++;
	return count;
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

/* Returns the first of the hosts that are one box with host. */
static unsigned
topology_box(const struct xk_topology *topology, unsigned host)
{
	while (host > 0 && topology->hosts[host - 1].written == topology->hosts[host].written)
		host--;
	return host;
}

/* Returns the box of the first host on link that is not in the box `from`. */
static unsigned
topology_other_end(const struct xk_topology *topology, unsigned link, unsigned from)
{
	for (unsigned i = 0; i < topology->host_count; i++)
		for (unsigned k = 0; k < topology->hosts[i].device_count; k++)
			if (topology->hosts[i].devices[k].link == link && topology_box(topology, i) != from)
				return topology_box(topology, i);
	return from;
}

static void
topology_draw_wire(const struct topology_picture *picture, unsigned from, unsigned index)
{
	const struct xk_topology_link *link = &picture->topology->links[index];
	FILE *stream = picture->stream;

	if (picture->drawn[link->written])
		return;
	picture->drawn[link->written] = true;
	fprintf(stream, "\th%u -- h%u [penwidth=2, label=<" DRAW_TABLE, from,
		topology_other_end(picture->topology, index, from));
	draw_row(stream, DRAW_INK, link->preset);
	topology_draw_settings(stream, &link->settings);
	fputs("</table>>];\n", stream);
}

/* Puts hosts on both sides of a link in turn, so that a link with many is no long column. */
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

/* ---- the whole ---- */

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

void
xk_topology_draw(const struct xk_topology *topology, FILE *stream)
{
	struct topology_picture picture = { .topology = topology, .stream = stream };

	picture.drawn = calloc(topology->written->edge_count + 1, sizeof(*picture.drawn));
	picture.side = calloc(topology->link_count + 1, sizeof(*picture.side));
	xk_assert(picture.drawn != NULL && picture.side != NULL);
	topology_draw_head(&picture);
	for (unsigned i = 0; i < topology->link_count; i++)
		if (!topology->links[i].is_edge)
			topology_draw_link(&picture, i);
	for (unsigned i = 0, count; i < topology->host_count; i += count) {
		count = topology_count_hosts(topology, &topology->hosts[i]);
		topology_draw_host(&picture, &topology->hosts[i], count);
	}
	for (unsigned i = 0; i < topology->host_count; i += topology_count_hosts(topology, &topology->hosts[i]))
		topology_draw_devices(&picture, &topology->hosts[i]);
	fputs("}\n", stream);
	free(picture.drawn);
	free(picture.side);
}
