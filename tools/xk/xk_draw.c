/*
 * xk_draw.c - `xk draw FILE -o FILE`: draws a graph or a network. graphviz's dot lays it out, from text that is
 * written here: the graph file's own drawing attributes, which could name other files, never reach it. dot is a
 * process of its own, since its library leaks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/net/net_settings.h"
#include "tools/options.h"
#include "tools/output.h"
#include "tools/stats/stats_client.h"
#include "tools/stats/stats_draw.h"
#include "tools/xk/xk.h"

struct draw_options {
	struct options_texts sets;
	const char *output, *stats;
};

enum { DRAW_FORMAT = 8 };

static const char draw_formats[][DRAW_FORMAT] = { "svg", "png", "pdf", "dot" };

static const struct options_option draw_options[] = {
	OPTION(TEXT, struct draw_options, output, "output", "FILE",
	       "-o FILE too; NAME.svg, NAME.png, NAME.pdf, or NAME.dot: what dot is given;\n"
	       "- is standard output, as SVG"),
	OPTION(TEXT, struct draw_options, stats, "stats", "HOST|FILE",
	       "of a graph: with what a host has counted that runs it (xk stats),\n"
	       "looked at for a second; or with what NAME.json says, which\n"
	       "`xk stats --json` has written"),
	OPTION(TEXT_ANY, struct draw_options, sets, "set", "NODE.ATTRIBUTE=VALUE",
	       "as if it were written in the file; may be given many times"),
	{ .name = NULL },
};

static const struct options_program draw_program = {
	.name = "xk draw",
	.usage = "GRAPH -o FILE [--stats HOST|FILE] [--set NODE.ATTRIBUTE=VALUE]...",
	.about = "Draws a graph file, or a network file: hosts as boxes, links as ellipses, or as edges where they\n"
		 "join two hosts; the hosts of a count are one box. In the picture of a graph messages arrive at\n"
		 "the bottom; a dashed frame is a virtual protocol, which has no header; a dotted edge is asked and\n"
		 "carries no messages; red is an explicit handoff, amber a budget. With --stats a protocol is the\n"
		 "warmer the more of the time is spent in it.\n"
		 "Exit status 1: the graph is refused, or FILE cannot be written.",
	.options = draw_options,
	.operands_min = 1,
	.operands_max = 1,
};

/* A graph or a network. */
struct draw_what {
	struct xk_graph *graph;
	struct xk_topology *net;
	struct stats_seen *seen; /* counts of the graph's nodes; NULL: not asked for */
};

static void
draw_write(const struct draw_what *what, FILE *stream)
{
	if (what->net != NULL)
		xk_topology_draw(what->net, stream);
	else
		stats_draw(what->graph, what->seen, stream);
}

static int
draw_cannot_write(const char *file)
{
	fprintf(stderr, "xk draw: %s cannot be written: %s\n", file, strerror(errno));
	return OPTIONS_FAILURE;
}

static int
draw_dot(const struct draw_what *what, const char *file)
{
	FILE *stream = output_open(file);

	if (stream != NULL)
		draw_write(what, stream);
	return output_close(stream) ? OPTIONS_SUCCESS : draw_cannot_write(file);
}

/* Runs `dot -TFORMAT` from one descriptor to another. Returns the status to exit with, after a message if it failed. */
static int
draw_run_dot(const char *format, int from, int to)
{
	char option[DRAW_FORMAT + 3], *arguments[] = { (char[]){ "dot" }, option, NULL };
	posix_spawn_file_actions_t actions;
	int status, err;
	pid_t child;

	snprintf(option, sizeof(option), "-T%.*s", DRAW_FORMAT, format);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, from, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
	err = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (err != 0) {
		fprintf(stderr,
			"xk draw: dot cannot be run: %s; it is in the package graphviz, and -o NAME.dot does "
			"without it\n",
			strerror(err));
		return OPTIONS_FAILURE;
	}
	if (waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return OPTIONS_SUCCESS;
	fprintf(stderr, "xk draw: dot has failed\n");
	return OPTIONS_FAILURE;
}

static int
draw_laid_out(const struct draw_what *what, const char *format, const char *file)
{
	FILE *source = tmpfile();
	int output, status;

	if (source == NULL)
		return draw_cannot_write("a temporary file");
	draw_write(what, source);
	if (fflush(source) != 0 || lseek(fileno(source), 0, SEEK_SET) != 0) {
		fclose(source);
		return draw_cannot_write("a temporary file");
	}
	output = strcmp(file, "-") == 0 ? dup(STDOUT_FILENO)
					: open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	status = output < 0 ? draw_cannot_write(file) : draw_run_dot(format, fileno(source), output);
	if (output >= 0 && close(output) != 0 && status == OPTIONS_SUCCESS)
		status = draw_cannot_write(file);
	fclose(source);
	return status;
}

/* Returns the format by the end of a file's name, svg if it has none; NULL: it is no format. */
static const char *
draw_format(const char *file)
{
	const char *slash = strrchr(file, '/'), *dot = strrchr(slash == NULL ? file : slash, '.');

	if (dot == NULL)
		return draw_formats[0];
	for (size_t i = 0; i < XK_ARRAY_LENGTH(draw_formats); i++)
		if (strcmp(dot + 1, draw_formats[i]) == 0)
			return draw_formats[i];
	return NULL;
}

int
xk_draw_main(int argc, char **argv)
{
	struct draw_options o = { 0 };
	struct xk_graph_errors errors = { 0 };
	struct options_texts operands;
	struct draw_what what = { NULL, NULL, NULL };
	char why[STATS_WHY];
	const char *format;
	int status;

	status = options_parse(&draw_program, argc, argv, &o, &operands);
	if (status != OPTIONS_GO)
		return status;
	if (o.output == NULL)
		return options_misuse(&draw_program, "where is the picture to go? -o FILE");
	format = draw_format(o.output);
	if (format == NULL)
		return options_misuse(&draw_program, "%s: a picture is NAME.svg, NAME.png, NAME.pdf or NAME.dot",
				      o.output);
	if (output_is_input(draw_program.name, o.output, operands.text[0]) ||
	    (o.stats != NULL && output_is_input(draw_program.name, o.output, o.stats)))
		return OPTIONS_FAILURE;
	if (o.stats != NULL && xk_topology_is_one(operands.text[0]))
		return options_misuse(&draw_program, "--stats is of a graph, and %s is a network", operands.text[0]);
	if (xk_topology_is_one(operands.text[0]))
		what.net = net_load(operands.text[0], o.sets.text, o.sets.count, &errors);
	else
		what.graph = xk_graph_load(operands.text[0], o.sets.text, o.sets.count, xk_protocol_types, &errors);
	xk_graph_errors_print(&errors, stderr);
	status = what.net != NULL || what.graph != NULL ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
	if (status == OPTIONS_SUCCESS && o.stats != NULL)
		what.seen = stats_seen_get(o.stats, why, sizeof(why));
	if (status == OPTIONS_SUCCESS && o.stats != NULL && what.seen == NULL) {
		fprintf(stderr, "xk draw: %s\n", why);
		status = OPTIONS_FAILURE;
	}
	if (status == OPTIONS_SUCCESS)
		status =
			strcmp(format, "dot") == 0 ? draw_dot(&what, o.output) : draw_laid_out(&what, format, o.output);
	stats_seen_free(what.seen);
	xk_graph_errors_clear(&errors);
	xk_graph_free(what.graph);
	xk_topology_free(what.net);
	return status;
}
