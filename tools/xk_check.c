/* xk_check.c - xk check GRAPH: whether a graph file can be composed of the protocols that were built in. */
#include <stdio.h>

#include "graphs/graph.h"
#include "tools/options.h"
#include "tools/xk.h"

struct check_options {
	struct options_texts sets;
};

static const struct options_option check_options[] = {
	{ .name = "set",
	  .kind = OPTIONS_TEXT_ANY,
	  .offset = offsetof(struct check_options, sets),
	  .argument = "NODE.ATTRIBUTE=VALUE",
	  .help = "as if it were written in the file; may be given many times" },
	{ .name = NULL },
};

static const struct options_program check_program = {
	.name = "xk check",
	.usage = "GRAPH [--set NODE.ATTRIBUTE=VALUE]...",
	.about = "Checks a graph file. Exit status 0: it can be composed; 1: refused, and standard error says why,\n"
		 "as file:line: what; 2: misuse.",
	.options = check_options,
	.operands_min = 1,
	.operands_max = 1,
};

int
xk_check_main(int argc, char **argv)
{
	struct check_options o = { 0 };
	struct xk_graph_errors errors = { 0 };
	struct options_texts operands;
	struct xk_graph *graph;
	int status;

	status = options_parse(&check_program, argc, argv, &o, &operands);
	if (status != OPTIONS_GO)
		return status;
	graph = xk_graph_load(operands.text[0], o.sets.text, o.sets.count, xk_protocol_types, &errors);
	if (graph != NULL)
		printf("%s: ok, %u protocols\n", operands.text[0], graph->node_count);
	xk_graph_errors_print(&errors, stderr);
	status = graph != NULL ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
	xk_graph_errors_clear(&errors);
	xk_graph_free(graph);
	return status;
}
