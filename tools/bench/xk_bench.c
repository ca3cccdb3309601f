/* xk_bench.c - the command `bench` of xk: selects the benchmark. */
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/xk/xk.h"

static const struct {
	const char *command;
	int (*run)(int argc, char **argv);
	const char *usage;
} bench_commands[] = {
	{ "echo", bench_echo_main, "echo [OPTION]..." },
	{ "call", bench_call_main, "call [OPTION]..." },
	{ "copy", bench_copy_main, "copy [OPTION]..." },
	{ "handoff", bench_handoff_main, "handoff [OPTION]..." },
	{ "message", bench_message_main, "message [OPTION]..." },
	{ "sim", bench_sim_main, "sim NETWORK [OPTION]..." },
};

int
xk_bench_main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	for (size_t i = 0; i < XK_ARRAY_LENGTH(bench_commands); i++)
		if (strcmp(what, bench_commands[i].command) == 0)
			return bench_commands[i].run(argc - 1, argv + 1);
	if (strcmp(what, "--help") == 0) {
		for (size_t i = 0; i < XK_ARRAY_LENGTH(bench_commands); i++)
			printf("%s xk bench %s\n", i == 0 ? "usage:" : "      ", bench_commands[i].usage);
		printf("Each has --help.\n");
		return OPTIONS_SUCCESS;
	}
	if (argc < 2)
		fprintf(stderr, "xk bench: which benchmark? There are: echo, call, copy, handoff, message, sim\n");
	else
		fprintf(stderr,
			"xk bench: \"%s\" is not a benchmark; there are: echo, call, copy, handoff, message, sim\n",
			what);
	return OPTIONS_MISUSE;
}
