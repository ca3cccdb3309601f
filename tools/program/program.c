/*
 * program.c - main of the programs that `xk compile` makes.
 *
 * With a graph inside, it is udptest, chantest, tcptest, icmptest, logp or a command of xk: its first argument selects one or,
 * if options come first, as when a pair starts itself, its own name does. Without a graph, its own name selects one;
 * any other name is xk.
 */
#include "tools/roundtrip/programs.h"

#include <stdio.h>
#include <string.h>

#include "graphs/graph.h"
#include "tools/options.h"
#include "tools/start.h"
#include "tools/xk/xk.h"
#include "xkernel/base.h"

enum { PROGRAM_ARGUMENTS = 256 };

/* Separate programs, which use the graph inside by default. */
static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} program_programs[] = {
	{ "udptest", udptest_main },   { "chantest", chantest_main }, { "tcptest", tcptest_main },
	{ "icmptest", icmptest_main }, { "logp", logp_main },
};

/* Commands of xk whose operand is a graph: by default the one inside. */
static const char *const program_graph_commands[] = { "run", "check", "draw" };

static int
program_help(void)
{
	printf("usage: PROGRAM COMMAND ...\n\n%s and its protocols, as a program. Its commands are udptest, chantest, "
	       "tcptest,\nicmptest, logp "
	       "and those of xk; you need not name its graph.\n\n",
	       xk_program_graph->file);
	return xk_main(2, (char *[]){ "xk", "--help", NULL });
}

static int
program_main(int argc, char **argv)
{
	char *arguments[PROGRAM_ARGUMENTS + 2] = { argv[0], argc > 1 ? argv[1] : NULL };
	const char *slash = strrchr(argv[0], '/'), *called = slash == NULL ? argv[0] : slash + 1;
	const char *command = argc > 1 ? argv[1] : "";
	bool has_graph = xk_program_graph != NULL;

	if (has_graph && strcmp(command, "--help") == 0)
		return program_help();
	for (size_t i = 0; i < XK_ARRAY_LENGTH(program_programs); i++)
		if (strcmp(called, program_programs[i].name) == 0 &&
		    (!has_graph || command[0] == '-' || command[0] == '\0'))
			return program_programs[i].run(argc, argv);
	for (size_t i = 0; i < XK_ARRAY_LENGTH(program_programs); i++)
		if (strcmp(command, program_programs[i].name) == 0)
			return program_programs[i].run(argc - 1, argv + 1);
	if (!has_graph)
		return xk_main(argc, argv);
	for (size_t i = 0; i < XK_ARRAY_LENGTH(program_graph_commands); i++) {
		if (strcmp(command, program_graph_commands[i]) != 0 || (argc > 2 && argv[2][0] != '-'))
			continue;
		if (argc > PROGRAM_ARGUMENTS) {
			fprintf(stderr, "%s: too many arguments\n", command);
			return OPTIONS_MISUSE;
		}
		arguments[2] = (char *)xk_program_graph->file;
		memcpy(&arguments[3], &argv[2], (size_t)(argc - 1) * sizeof(*argv));
		return xk_main(argc + 1, arguments);
	}
	return xk_main(argc, argv);
}

int
main(int argc, char **argv)
{
	return start_main(program_main, argc, argv);
}
