/* xk_check.c - `xk check FILE`: tells whether a graph file can be composed, or a network file of hosts be run. */
#include <stdio.h>

#include "tools/net/net_settings.h"
#include "tools/options.h"
#include "tools/output.h"
#include "tools/xk/xk.h"

struct check_options {
	struct options_texts sets;
};

static const struct options_option check_options[] = {
	OPTION(TEXT_ANY, struct check_options, sets, "set", "NODE.ATTRIBUTE=VALUE",
	       "as if it were written in the file; may be given many times"),
	{ .name = NULL },
};

static const struct options_program check_program = {
	.name = "xk check",
	.usage = "FILE [--set NODE.ATTRIBUTE=VALUE]...",
	.about = "Checks a graph file (a digraph, of protocols) or a network file (a graph, of hosts and links, with\n"
		 "their graph files). Exit status 0: it can be composed; 1: refused, and standard error says why, as\n"
		 "file:line: what; 2: misuse. In a network, --set HOST.NODE.ATTRIBUTE=VALUE is for a host's graph.",
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
	struct xk_topology *net = NULL;
	struct xk_graph *graph = NULL;
	const char *file;
	bool good;
	int status;

	status = options_parse(&check_program, argc, argv, &o, &operands);
	if (status != OPTIONS_GO)
		return status;
	file = operands.text[0];
	if (xk_topology_is_one(file))
		net = net_load(file, o.sets.text, o.sets.count, &errors);
	else
		graph = xk_graph_load(file, o.sets.text, o.sets.count, xk_protocol_types, &errors);
	good = net != NULL || graph != NULL;
	if (good)
		output_print_name(file);
	if (graph != NULL)
		printf(": ok, %u protocols\n", graph->node_count);
	if (net != NULL)
		printf(": ok, %u host%s, %u link%s\n", net->host_count, net->host_count == 1 ? "" : "s",
		       net->link_count, net->link_count == 1 ? "" : "s");
	xk_graph_free(graph);
	xk_topology_free(net);
	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	return good ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}
