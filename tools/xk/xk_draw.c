/*
 * xk_draw.c - `xk draw FILE -o FILE`: draws a graph or a network. graphviz's dot lays it out, from text that is written
 * here (tools/picture.h): the graph file's own drawing attributes, which could name other files, never reach it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/topology.h"
#include "tools/output.h"
#include "tools/picture.h"
#include "tools/stats/stats_client.h"
#include "tools/stats/stats_draw.h"
#include "tools/xk/xk.h"

struct draw_options {
	struct options_texts sets;
	const char *output, *stats;
};

static const struct options_option draw_options[] = {
	OPTION(TEXT, struct draw_options, output, "output", "FILE",
	       "or -o FILE: NAME.svg, NAME.png, NAME.pdf, or NAME.dot, the input of dot;\n"
	       "- is standard output, as SVG"),
	OPTION(FILE, struct draw_options, stats, "stats", "HOST|FILE",
	       "of a graph: with the counts of a host that runs it (xk stats),\n"
	       "sampled for a second, or with those in NAME.json, written by\n"
	       "`xk stats --json`"),
	OPTION(TEXT_ANY, struct draw_options, sets, "set", "NODE.ATTRIBUTE=VALUE",
	       "as if it were in the file; may be given many times"),
	{ .name = NULL },
};

static const struct options_program draw_program = {
	.name = "xk draw",
	.usage = "GRAPH -o FILE [--stats HOST|FILE] [--set NODE.ATTRIBUTE=VALUE]...",
	.about = "Draws a graph file, or a network file: hosts as boxes, links as ellipses, or as edges if they join\n"
		 "two hosts; the hosts of a count above six are one box. In the picture of a graph messages arrive at\n"
		 "the bottom; a dashed frame is a virtual protocol, which has no header; a dotted edge is for queries\n"
		 "and carries no messages; red is an explicit handoff, amber a budget. With --stats, a protocol's\n"
		 "colour is warmer the more time is spent in it.\n"
		 "Exit status 1: the graph is refused, or FILE cannot be written.",
	.options = draw_options,
	.operands_min = 1,
	.operands_max = 1,
	.reads_operands = true,
};

/* Returns the format for a file name's extension, svg if it has none, or NULL for an unknown one. */
static const char *
draw_format(const char *file)
{
	static const char *const formats[] = { "svg", "png", "pdf", "dot" };
	const char *slash = strrchr(file, '/'), *dot = strrchr(slash == NULL ? file : slash, '.');

	for (size_t i = 0; i < XK_ARRAY_LENGTH(formats); i++)
		if (strcmp(dot == NULL ? "svg" : dot + 1, formats[i]) == 0)
			return formats[i];
	return NULL;
}

/* Draws graph or net on standard output, through dot unless the format is dot's own. Returns 0 or OPTIONS_FAILURE. */
static int
draw(const struct xk_graph *graph, const struct xk_topology *net, const struct json_t *stats, const char *format)
{
	bool is_dot = strcmp(format, "dot") == 0;
	FILE *text = is_dot ? stdout : output_memory();
	char why[PICTURE_WHY];
	int err;

	if (text != NULL && net != NULL)
		xk_topology_draw(net, text);
	else if (text != NULL)
		stats_draw(graph, stats, text);
	if (is_dot)
		return OPTIONS_SUCCESS;
	err = picture_write(text, format, stdout, why, sizeof(why));
	if (text != NULL)
		fclose(text);
	if (err == 0)
		return OPTIONS_SUCCESS;
	fprintf(stderr, "xk draw: %s\n", why);
	return OPTIONS_FAILURE;
}

int
xk_draw_main(int argc, char **argv)
{
	struct draw_options o = { 0 };
	struct options_texts operands;
	struct json_t *stats = NULL;
	struct xk_topology *net;
	struct xk_graph *graph;
	const char *format, *file;
	char why[STATS_WHY];
	int status = options_parse(&draw_program, argc, argv, &o, &operands);

	if (status != OPTIONS_GO)
		return status;
	file = operands.text[0];
	if (o.output == NULL)
		return options_misuse(&draw_program, "-o FILE is missing");
	format = draw_format(o.output);
	if (format == NULL)
		return options_misuse(&draw_program, "%s: a picture is NAME.svg, NAME.png, NAME.pdf or NAME.dot",
				      o.output);
	if (output_is_input(draw_program.name, o.output, file) ||
	    (o.stats != NULL && output_is_input(draw_program.name, o.output, o.stats)))
		return OPTIONS_FAILURE;
	if (o.stats != NULL && xk_topology_is_network(file))
		return options_misuse(&draw_program, "--stats is for a graph, but %s is a network", file);
	if (!xk_load(file, &o.sets, &graph, &net))
		return OPTIONS_FAILURE;
	if (o.stats != NULL)
		stats = stats_read(o.stats, why, sizeof(why));
	status = OPTIONS_FAILURE;
	if (o.stats != NULL && stats == NULL)
		fprintf(stderr, "xk draw: %s\n", why);
	else if (strcmp(o.output, "-") != 0 && freopen(o.output, "w", stdout) == NULL)
		fprintf(stderr, "xk draw: %s cannot be written: %s\n", o.output, xk_error(errno));
	else
		status = draw(graph, net, stats, format);
	if (status == OPTIONS_SUCCESS && fflush(stdout) != 0) {
		fprintf(stderr, "xk draw: %s cannot be written: %s\n", o.output, xk_error(errno));
		clearerr(stdout); /* start_main need not repeat it */
		status = OPTIONS_FAILURE;
	}
	stats_free(stats);
	xk_graph_free(graph);
	xk_topology_free(net);
	return status;
}
