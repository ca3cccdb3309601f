/* xk_bench.c - the word `bench` of xk: which benchmark. */
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/xk/xk.h"

static const struct {
	const char *word;
	int (*run)(int argc, char **argv);
	const char *usage;
} bench_words[] = {
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

	for (size_t i = 0; i < XK_ARRAY_LENGTH(bench_words); i++)
		if (strcmp(what, bench_words[i].word) == 0)
			return bench_words[i].run(argc - 1, argv + 1);
	if (strcmp(what, "--help") == 0) {
		for (size_t i = 0; i < XK_ARRAY_LENGTH(bench_words); i++)
			printf("%s xk bench %s\n", i == 0 ? "usage:" : "      ", bench_words[i].usage);
		printf("Each has --help.\n");
		return OPTIONS_SUCCESS;
	}
	if (argc < 2)
		fprintf(stderr, "xk bench: which benchmark? There are: echo, call, copy, handoff, message, sim\n");
	else
		fprintf(stderr,
			"xk bench: \"%s\" is no benchmark; there are: echo, call, copy, handoff, message, sim\n", what);
	return OPTIONS_MISUSE;
}
