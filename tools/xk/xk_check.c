/* xk_check.c - `xk check FILE`: checks whether a graph file can be composed, or a network file of hosts be run. */
#include <stdio.h>

#include "tools/net/net_settings.h"
#include "tools/output.h"
#include "tools/xk/xk.h"

static const struct options_option check_options[] = {
	{ .name = "set",
	  .kind = OPTIONS_TEXT_ANY,
	  .argument = "NODE.ATTRIBUTE=VALUE",
	  .help = "as if it were in the file; may be given many times" },
	{ .name = NULL },
};

static const struct options_program check_program = {
	.name = "xk check",
	.usage = "FILE [--set NODE.ATTRIBUTE=VALUE]...",
	.about = "Checks a graph file (a digraph, of protocols) or a network file (a graph, of hosts and links, with\n"
		 "their graph files). Exit status 0: it can be composed; 1: refused, with the reasons on standard "
		 "error as\n"
		 "file:line: what; 2: misuse. In a network, --set HOST.NODE.ATTRIBUTE=VALUE is for a host's graph.",
	.options = check_options,
	.operands_min = 1,
	.operands_max = 1,
	.reads_operands = true,
};

int
xk_check_main(int argc, char **argv)
{
	struct options_texts sets = { .count = 0 }, operands;
	struct xk_topology *net;
	struct xk_graph *graph;
	int status = options_parse(&check_program, argc, argv, &sets, &operands);

	if (status != OPTIONS_GO)
		return status;
	if (!xk_load(operands.text[0], &sets, &graph, &net))
		return OPTIONS_FAILURE;
	output_print_name(operands.text[0]);
	if (graph != NULL)
		printf(": ok, %u protocols\n", graph->node_count);
	else
		printf(": ok, %u host%s, %u link%s\n", net->host_count, net->host_count == 1 ? "" : "s",
		       net->link_count, net->link_count == 1 ? "" : "s");
	xk_graph_free(graph);
	xk_topology_free(net);
	return OPTIONS_SUCCESS;
}
