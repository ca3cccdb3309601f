/* start.c - see start.h. */
#define _GNU_SOURCE
#include "tools/start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "tools/compile_config.h"
#include "tools/options.h"
#include "xkernel/protocol.h"
#ifdef XK_HAVE_DPDK
#include "platform/dpdk/dpdk.h"
#endif

enum { START_STACK_KB = 512 };

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

/* Returns true if the arguments request the version, even if other arguments are wrong. */
static bool
start_wants_version(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--version") == 0)
			return true;
	return false;
}

/* Names the limit that ends this program. */
static void
start_report_time(int number)
{
	static const char text[] = "the processor time is used up: `ulimit -t` limits it\n";
	ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)written;
	signal(number, SIG_DFL);
	raise(number);
}

/*
 * Replaces a closed output by a descriptor that cannot be written. Otherwise a socket or device could get its number,
 * and the program's output.
 */
static void
start_fill_closed(int fd)
{
	int filler;

	if (fcntl(fd, F_GETFD) >= 0)
		return;
	filler = open("/dev/null", O_RDONLY);
	if (filler >= 0 && filler != fd) {
		dup2(filler, fd);
		close(filler);
	}
}

/* Refuses to run where the program would be killed without a message. */
static bool
start_has_stack(void)
{
	struct rlimit stack;

	if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >> 10 >= START_STACK_KB)
		return true;
	fprintf(stderr, "%s: a stack may have %lu KiB, but %d are needed: see `ulimit -s`\n",
		program_invocation_short_name, (unsigned long)(stack.rlim_cur >> 10), START_STACK_KB);
	return false;
}

int
start_main(int (*run)(int argc, char **argv), int argc, char **argv)
{
	bool failed;
	int status;

	start_fill_closed(STDOUT_FILENO);
	start_fill_closed(STDERR_FILENO);
	start_make_plain();
	if (!start_has_stack() || !xk_protocol_types_check(argv[0]))
		return OPTIONS_FAILURE;
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGXCPU, start_report_time);
	status = start_wants_version(argc, argv) ? start_version() : run(argc, argv);
	failed = ferror(stdout);
	if (fflush(stdout) == 0 && !failed)
		return status;
	fprintf(stderr, "%s: standard output cannot be written: %s\n", program_invocation_short_name,
		failed ? "the disk is full, or it is closed" : xk_error(errno));
	return status == OPTIONS_SUCCESS ? OPTIONS_FAILURE : status;
}
