/* start.c - see start.h. */
#define _GNU_SOURCE
#include "tools/start.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "graphs/graph.h"
#include "tools/compile_config.h"
#include "tools/options.h"
#include "xkernel/protocol.h"
#ifdef XK_HAVE_DPDK
#include "platform/dpdk/dpdk.h"
#endif

#ifdef __GLIBC__
static ssize_t
start_write_plain(void *raw, const char *text, size_t len)
{
	xk_graph_print_plain(text, len, true, raw);
	return fflush(raw) == 0 ? (ssize_t)len : 0;
}
#endif

/* Keeps quoted text in messages from controlling a terminal. Only with glibc: elsewhere, stderr is a constant. */
static void
start_make_plain(void)
{
#ifdef __GLIBC__
	FILE *plain = fopencookie(stderr, "w", (cookie_io_functions_t){ .write = start_write_plain });

	if (plain == NULL)
		return;
	/* Each message is written in one piece. */
	setvbuf(stderr, NULL, _IOFBF, BUFSIZ);
	setvbuf(plain, NULL, _IONBF, 0);
	stderr = plain;
#endif
}

static int
start_version(void)
{
#ifdef XK_HAVE_DPDK
	const char *platform = xk_dpdk_version();
#else
	const char *platform = "without DPDK";
#endif

	printf("%s (x-kernel) %s, %s\nBSD 3-Clause License; no warranty, to the extent permitted by law\n",
	       program_invocation_short_name, COMPILE_VERSION, platform);
	return OPTIONS_SUCCESS;
}

/* Returns whether the arguments ask for the version, even if other arguments are wrong. */
static bool
start_asks_version(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--version") == 0)
			return true;
	return false;
}

int
start_main(int (*run)(int argc, char **argv), int argc, char **argv)
{
	bool failed;
	int status;

	start_make_plain();
	if (!xk_protocol_types_check(argv[0]))
		return OPTIONS_FAILURE;
	signal(SIGXFSZ, SIG_IGN);
	status = start_asks_version(argc, argv) ? start_version() : run(argc, argv);
	failed = ferror(stdout);
	if (fflush(stdout) == 0 && !failed)
		return status;
	fprintf(stderr, "%s: standard output cannot be written: %s\n", program_invocation_short_name,
		failed ? "the disk is full, or it is closed" : xk_error(errno));
	return status == OPTIONS_SUCCESS ? OPTIONS_FAILURE : status;
}
