/* xk.c - the command `xk WORD ...`: a word is a line in the table, and a file xk_WORD.c in its subject's folder. */
#include "tools/xk/xk.h"

#include <stdio.h>
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/doctor/doctor.h"
#include "tools/net/net_settings.h"
#include "tools/stats/xk_stats.h"
#include "xkernel/base.h"

static const struct {
	const char *word;
	int (*run)(int argc, char **argv);
	const char *help;
} xk_words[] = {
	{ "check", xk_check_main, "whether a graph file can be composed, and if not, why" },
	{ "draw", xk_draw_main, "a picture of a graph file" },
	{ "compile", xk_compile_main, "a program of a graph file and protocols of your own" },
	{ "protocols", xk_protocols_main, "what protocols there are, and what each of them declares" },
	{ "new", xk_new_main, "begins a protocol: its file, its tests and a graph" },
	{ "dissectors", xk_dissectors_main, "what Wireshark needs to know of the protocols' headers" },
	{ "run", xk_run_main, "a host that stands on its link, or a network of hosts in the simulator" },
	{ "stats", xk_stats_main, "what a host that runs has counted, in the terminal or as JSON" },
	{ "doctor", xk_doctor_main, "what this machine can do, and the command for what is missing" },
	{ "bench", xk_bench_main, "times a graph in one process" },
};

bool
xk_load(const char *file, const struct options_texts *sets, struct xk_graph **graph, struct xk_topology **net)
{
	struct xk_graph_errors errors = { 0 };
	bool is_net = net != NULL && xk_topology_is_one(file);

	*graph = is_net ? NULL : xk_graph_load(file, sets->text, sets->count, xk_protocol_types, &errors);
	if (net != NULL)
		*net = is_net ? net_load(file, sets->text, sets->count, &errors) : NULL;
	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	return *graph != NULL || (is_net && *net != NULL);
}

static void
xk_help(FILE *stream)
{
	fprintf(stream, "usage: xk WORD ...\n\nProtocols composed by a graph file.\n\n");
	for (size_t i = 0; i < XK_ARRAY_LENGTH(xk_words); i++)
		fprintf(stream, "  %-12s %s\n", xk_words[i].word, xk_words[i].help);
	fprintf(stream, "\nxk WORD --help says more; --version prints versions and licence.\n");
}

int
xk_main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";

	for (size_t i = 0; i < XK_ARRAY_LENGTH(xk_words); i++)
		if (strcmp(word, xk_words[i].word) == 0)
			return xk_words[i].run(argc - 1, argv + 1);
	if (strcmp(word, "--help") == 0 || strcmp(word, "help") == 0) {
		xk_help(stdout);
		return OPTIONS_SUCCESS;
	}
	if (argc > 1)
		fprintf(stderr, "xk: there is no word \"%s\"\n", word);
	xk_help(stderr);
	return OPTIONS_MISUSE;
}
