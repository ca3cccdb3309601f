/*
 * xk_draw.c - `xk draw FILE -o FILE`: draws a graph or a network. graphviz's dot lays it out, from text that is written
 * here: the graph file's own drawing attributes, which could name other files, never reach it. dot is a separate
 * process, because its library leaks.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graphs/topology.h"
#include "tools/output.h"
#include "tools/stats/stats_client.h"
#include "tools/stats/stats_draw.h"
#include "tools/xk/xk.h"

enum { DRAW_NO_COMMAND = 127 /* the shell's status */ };

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

/* Returns the middle of the x coordinates in "x,y x,y ...", with letters between, up to a quote. */
static double
draw_middle(const char *points)
{
	double low = HUGE_VAL, high = -HUGE_VAL;

	while (*points != '\0' && *points != '"') {
		char *end;
		double x = strtod(points, &end);

		if (end == points) {
			points++;
			continue;
		}
		low = fmin(low, x);
		high = fmax(high, x);
		if (*end == ',')
			strtod(end + 1, &end);
		points = end;
	}
	return (low + high) / 2;
}

/* Returns the start of the coordinates of a line's shape, or NULL if it has none. */
static const char *
draw_shape(const char *line)
{
	static const char *const starts[] = { " points=\"", " d=\"M", " cx=\"" };

	for (size_t i = 0; i < XK_ARRAY_LENGTH(starts); i++) {
		const char *start = strstr(line, starts[i]);

		if (start != NULL)
			return start + strlen(starts[i]);
	}
	return NULL;
}

/*
 * Copies dot's SVG, but centres the rows of nodes and of the title. dot places the start of each piece of a row, as
 * measured in a font that other systems do not have.
 */
static void
draw_svg(FILE *in, FILE *out)
{
	bool wants_middle = false, has_middle = false, in_row = false;
	double middle = 0, y, row = 0;
	char *line = NULL, *text_end;
	size_t size = 0;

	while (getline(&line, &size, in) > 0) {
		int len = 0;

		if (has_middle && sscanf(line, "<text text-anchor=\"start\" x=\"%*f\" y=\"%lf\"%n", &y, &len) == 1 &&
		    len > 0 && (text_end = strstr(line, "</text>")) != NULL) {
			*text_end = '\0';
			if (in_row && y == row)
				fprintf(out, "<tspan%s</tspan>", line + len);
			else
				fprintf(out, "%s<text text-anchor=\"middle\" x=\"%.2f\" y=\"%.2f\"%s",
					in_row ? "</text>\n" : "", middle, y, line + len);
			in_row = true;
			row = y;
			continue;
		}
		fputs(in_row ? "</text>\n" : "", out);
		in_row = false;
		if (strncmp(line, "<g ", 3) == 0) {
			wants_middle =
				strstr(line, "class=\"node\"") != NULL || strstr(line, "class=\"graph\"") != NULL;
			has_middle = false;
		} else if (wants_middle && !has_middle && draw_shape(line) != NULL) {
			middle = draw_middle(draw_shape(line));
			has_middle = true;
		}
		fputs(line, out);
	}
	free(line);
}

/* Draws graph or net on standard output, through dot unless the format is dot's own. Returns 0 or OPTIONS_FAILURE. */
static int
draw(const struct xk_graph *graph, const struct xk_topology *net, const struct json_t *stats, const char *format)
{
	bool is_dot = strcmp(format, "dot") == 0;
	FILE *text = is_dot ? stdout : output_memory(), *picture = NULL;
	char command[32], bytes[4096];
	size_t len;
	int status;

	if (text != NULL && net != NULL)
		xk_topology_draw(net, text);
	else if (text != NULL)
		stats_draw(graph, stats, text);
	if (is_dot)
		return OPTIONS_SUCCESS;
	if (text == NULL || fflush(text) != 0) {
		fprintf(stderr, "xk draw: no memory for dot's input: %s\n", xk_error(errno));
		if (text != NULL)
			fclose(text);
		return OPTIONS_FAILURE;
	}
	snprintf(command, sizeof(command), "exec dot -T%s", format);
	if (fseek(text, 0, SEEK_SET) == 0 && dup2(fileno(text), STDIN_FILENO) >= 0)
		picture = popen(command, "r");
	if (picture != NULL && strcmp(format, "svg") == 0)
		draw_svg(picture, stdout);
	while (picture != NULL && (len = fread(bytes, 1, sizeof(bytes), picture)) > 0)
		fwrite(bytes, 1, len, stdout);
	status = picture == NULL ? -1 : pclose(picture);
	fclose(text);
	if (status == 0)
		return OPTIONS_SUCCESS;
	if (picture == NULL)
		fprintf(stderr, "xk draw: dot cannot be run: %s\n", xk_error(errno));
	else if (status < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == DRAW_NO_COMMAND))
		fprintf(stderr, "xk draw: dot cannot be run; it is in the package graphviz, and -o NAME.dot works "
				"without it\n");
	else
		fprintf(stderr, "xk draw: dot failed\n");
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
