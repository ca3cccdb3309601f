/* host_companion.c - see host_companion.h. */
#define _GNU_SOURCE
#include "tools/host/host_companion.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Stands on the link until `stop` is closed. Leaves signals for the whole process group to its parent. */
__attribute__((noreturn)) static void
host_companion_main(const struct host_options *options, int ready, int stop)
{
	struct host host = { .port_count = 0 };
	int status, closed;
	sigset_t none;
	char byte = 0;

	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	status = host_open(&host, options);
	if (status == 0)
		status = host_start(&host);
	if (status == 0 && write(ready, &byte, 1) == 1)
		while (read(stop, &byte, 1) < 0 && errno == EINTR)
			;
	closed = host_close(&host);
	exit(status != 0 ? status : closed);
}

/* Waits until it is ready, has ended, or a signal has come. Returns 0, or the status to exit with. */
static int
host_companion_await(struct host_companion *companion, const char *program, int signals)
{
	struct pollfd polls[] = { { .fd = companion->alive, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
	char byte;
	int status;

	while (poll(polls, 2, -1) < 0 && errno == EINTR)
		;
	if (polls[0].revents != 0 && read(companion->alive, &byte, 1) == 1)
		return 0;
	status = pair_reap(companion->pid, polls[0].revents != 0 ? PAIR_END_MS : 0);
	companion->pid = 0;
	if (status != -1 && WIFSIGNALED(status))
		fprintf(stderr, "%s: the server died: signal %d\n", program, WTERMSIG(status));
	return status != -1 && WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : OPTIONS_FAILURE;
}

int
host_companion_start(struct host_companion *companion, const struct host_options *options, int signals)
{
	int ready[2], stop[2];

	*companion = (struct host_companion){ .stop = -1, .alive = -1 };
	if (pipe2(ready, O_CLOEXEC) != 0 || pipe2(stop, O_CLOEXEC) != 0) {
		fprintf(stderr, "%s: no pipe to the server: %s\n", options->program, strerror(errno));
		return OPTIONS_FAILURE;
	}
	companion->pid = pair_fork();
	if (companion->pid == 0) {
		close(ready[0]);
		close(stop[1]);
		host_companion_main(options, ready[1], stop[0]);
	}
	close(ready[1]);
	close(stop[0]);
	companion->stop = stop[1];
	companion->alive = ready[0];
	if (companion->pid > 0)
		return host_companion_await(companion, options->program, signals);
	fprintf(stderr, "%s: the server cannot be started: %s\n", options->program, strerror(errno));
	companion->pid = 0;
	return OPTIONS_FAILURE;
}

int
host_companion_stop(struct host_companion *companion, const char *program)
{
	int status = 0;

	if (companion->stop >= 0)
		close(companion->stop);
	if (companion->alive >= 0)
		close(companion->alive);
	if (companion->pid > 0)
		status = pair_reap(companion->pid, PAIR_END_MS);
	*companion = (struct host_companion){ .stop = -1, .alive = -1 };
	if (status == 0)
		return 0;
	fprintf(stderr, "%s: the server did not end well (status %#x)\n", program, (unsigned)status);
	return OPTIONS_FAILURE;
}
