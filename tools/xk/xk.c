/*
 * xk.c - the program `xk COMMAND ...`: each command has a line in the table, and a file xk_COMMAND.c in its subject's
 * folder.
 */
#include "tools/xk/xk.h"

#include <stdio.h>
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/doctor/doctor.h"
#include "tools/explore/xk_explore.h"
#include "tools/net/net_settings.h"
#include "tools/stats/xk_stats.h"
#include "xkernel/base.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} xk_commands[] = {
	{ "check", xk_check_main, "checks whether a graph file can be composed" },
	{ "draw", xk_draw_main, "draws a picture of a graph file" },
	{ "compile", xk_compile_main, "makes a program from a graph file and your own protocols" },
	{ "protocols", xk_protocols_main, "lists the protocols, and their declarations" },
	{ "new", xk_new_main, "begins a protocol: its file, its tests and a graph" },
	{ "dissectors", xk_dissectors_main, "describes the protocols' headers for Wireshark" },
	{ "run", xk_run_main, "runs a host on its link, or a network of hosts in the simulator" },
	{ "explore", xk_explore_main, "searches the runs of a network for one that breaks a promise" },
	{ "stats", xk_stats_main, "shows the counts of a running host, in the terminal or as JSON" },
	{ "doctor", xk_doctor_main, "shows what this machine can do, and how to enable the rest" },
	{ "bench", xk_bench_main, "times a graph in one process" },
};

bool
xk_load(const char *file, const struct options_texts *sets, struct xk_graph **graph, struct xk_topology **net)
{
	struct xk_graph_errors errors = { 0 };
	bool is_net = net != NULL && xk_topology_is_network(file);

	*graph = is_net ? NULL : xk_graph_load(file, sets->text, sets->count, xk_protocol_types, &errors);
	if (net != NULL)
		*net = is_net ? net_load(file, sets->text, sets->count, &errors) : NULL;
	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	return *graph != NULL || (net != NULL && *net != NULL);
}

static void
xk_help(FILE *stream)
{
	fprintf(stream, "usage: xk COMMAND ...\n\nProtocols composed by a graph file.\n\n");
	for (size_t i = 0; i < XK_ARRAY_LENGTH(xk_commands); i++)
		fprintf(stream, "  %-12s %s\n", xk_commands[i].name, xk_commands[i].help);
	fprintf(stream, "\nSee xk COMMAND --help; --version prints versions and licence.\n");
}

int
xk_main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	for (size_t i = 0; i < XK_ARRAY_LENGTH(xk_commands); i++)
		if (strcmp(name, xk_commands[i].name) == 0)
			return xk_commands[i].run(argc - 1, argv + 1);
	if (strcmp(name, "--help") == 0 || strcmp(name, "help") == 0) {
		xk_help(stdout);
		return OPTIONS_SUCCESS;
	}
	if (argc > 1)
		fprintf(stderr, "xk: there is no command \"%s\"\n", name);
	xk_help(stderr);
	return OPTIONS_MISUSE;
}
