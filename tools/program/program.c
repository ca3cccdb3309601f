/*
 * program.c - main of a compiled graph's program: runs the word that its first argument names or, for a pair that
 * starts itself, its own name.
 */
#include "tools/program/program.h"

#include <stdio.h>
#include <string.h>

#include "tools/options.h"
#include "tools/start.h"
#include "tools/xk/xk.h"
#include "xkernel/base.h"

enum { PROGRAM_ARGUMENTS = 256 };

static int program_run(int argc, char **argv);

static const struct {
	const char *word;
	int (*run)(int argc, char **argv);
	const char *help;
	bool is_protocol; /* needs the protocol of its name in the graph */
} program_words[] = {
	{ "udptest", udptest_main, "measures round trips of messages between two hosts", true },
	{ "chantest", chantest_main, "measures calls between two hosts", true },
	{ "icmptest", icmptest_main, "pings a host", true },
	{ "run", program_run, "a host that stands on its link; or a network file, with --link sim", false },
	{ "bench", xk_bench_main, "times the graph in one process", false },
};

static void
program_help(FILE *stream)
{
	fprintf(stream, "usage: PROGRAM WORD ...\n\n%s, compiled: what stands on what is fixed.\n\n",
		program_graph->file);
	for (size_t i = 0; i < XK_ARRAY_LENGTH(program_words); i++) {
		bool is_there = !program_words[i].is_protocol;

		for (unsigned n = 0; n < program_graph->node_count; n++)
			is_there |= strcmp(program_graph->plain[n]->name, program_words[i].word) == 0;
		if (is_there)
			fprintf(stream, "  %-12s %s\n", program_words[i].word, program_words[i].help);
	}
	fprintf(stream, "\nPROGRAM WORD --help says more; the graph is not said.\n");
}

/* `run` of the graph, which is not named, or of a network file, whose hosts may have the graph. */
static int
program_run(int argc, char **argv)
{
	char *arguments[PROGRAM_ARGUMENTS + 2] = { argv[0], (char *)program_graph->file };

	if (argc > 1 && argv[1][0] != '-')
		return xk_run_main(argc, argv);
	if (argc > PROGRAM_ARGUMENTS) {
		fprintf(stderr, "run: too many arguments\n");
		return OPTIONS_MISUSE;
	}
	memcpy(&arguments[2], &argv[1], (size_t)argc * sizeof(*argv));
	return xk_run_main(argc + 1, arguments);
}

static int
program_main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/'), *called = slash == NULL ? argv[0] : slash + 1;
	const char *word = argc > 1 ? argv[1] : "";

	if (strcmp(word, "--help") == 0) {
		program_help(stdout);
		return OPTIONS_SUCCESS;
	}
	for (size_t i = 0; i < XK_ARRAY_LENGTH(program_words); i++)
		if (strcmp(word, program_words[i].word) == 0)
			return program_words[i].run(argc - 1, argv + 1);
	for (size_t i = 0; i < XK_ARRAY_LENGTH(program_words); i++)
		if (strcmp(called, program_words[i].word) == 0)
			return program_words[i].run(argc, argv);
	program_help(stderr);
	return OPTIONS_MISUSE;
}

int
main(int argc, char **argv)
{
	return start_main(program_main, argc, argv);
}
