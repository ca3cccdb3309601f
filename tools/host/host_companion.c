/* host_companion.c - see host_companion.h. */
#define _GNU_SOURCE
#include "tools/host/host_companion.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HOST_COMPANION_END_MS = 10000, HOST_COMPANION_NAP_MS = 5 };

/* ---- its process ---- */

static int
host_companion_stand(const struct host_options *options, int ready, int stop)
{
	struct host host = { .port_count = 0 };
	int status = host_open(&host, options), closed;
	char byte = 0;

	if (status == 0)
		status = host_start(&host);
	if (status == 0 && write(ready, &byte, 1) == 1)
		while (read(stop, &byte, 1) < 0 && errno == EINTR)
			;
	closed = host_close(&host);
	return status != 0 ? status : closed;
}

/*
 * It dies with its parent whatever it is doing; the check is for a parent that was gone before. What ends a whole group of
 * processes, such as ctrl-C, is for the parent.
 */
__attribute__((noreturn)) static void
host_companion_main(const struct host_options *options, const int ready[2], const int stop[2], pid_t parent)
{
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(OPTIONS_FAILURE);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	close(ready[0]);
	close(stop[1]);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	exit(host_companion_stand(options, ready[1], stop[0]));
}

/* ---- its parent ---- */

/* Waits at most so long; kills it then. Its status; -1: it was killed. */
static int
host_companion_reap(struct host_companion *companion, unsigned limit_ms)
{
	struct timespec nap = { .tv_nsec = HOST_COMPANION_NAP_MS * 1000000 };
	int status = 0;

	for (unsigned waited_ms = 0; waited_ms < limit_ms; waited_ms += HOST_COMPANION_NAP_MS) {
		if (waitpid(companion->pid, &status, WNOHANG) != 0)
			return status;
		nanosleep(&nap, NULL);
	}
	kill(companion->pid, SIGKILL);
	waitpid(companion->pid, NULL, 0);
	return -1;
}

/* Until it is ready, has ended, or a signal has come. 0, or the status to exit with. */
static int
host_companion_await(struct host_companion *companion, const char *program, int ready, int signals)
{
	struct pollfd polls[] = { { .fd = ready, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
	char byte;
	int status;

	while (poll(polls, 2, -1) < 0 && errno == EINTR)
		;
	if (polls[0].revents != 0 && read(ready, &byte, 1) == 1)
		return 0;
	status = host_companion_reap(companion, polls[0].revents != 0 ? HOST_COMPANION_END_MS : 0);
	companion->pid = 0;
	if (status != -1 && WIFSIGNALED(status))
		fprintf(stderr, "%s: the server died: signal %d\n", program, WTERMSIG(status));
	return status != -1 && WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : OPTIONS_FAILURE;
}

int
host_companion_start(struct host_companion *companion, const struct host_options *options, int signals)
{
	pid_t self = getpid();
	int ready[2], stop[2], status;

	*companion = (struct host_companion){ .stop = -1, .alive = -1 };
	if (pipe2(ready, O_CLOEXEC) != 0 || pipe2(stop, O_CLOEXEC) != 0) {
		fprintf(stderr, "%s: no pipe to the server: %s\n", options->program, strerror(errno));
		return OPTIONS_FAILURE;
	}
	fflush(NULL);
	companion->pid = fork();
	if (companion->pid == 0)
		host_companion_main(options, ready, stop, self);
	close(ready[1]);
	close(stop[0]);
	companion->stop = stop[1];
	companion->alive = ready[0];
	if (companion->pid < 0) {
		fprintf(stderr, "%s: the server cannot be started: %s\n", options->program, strerror(errno));
		companion->pid = 0;
		status = OPTIONS_FAILURE;
	} else {
		status = host_companion_await(companion, options->program, ready[0], signals);
	}
	return status;
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
		status = host_companion_reap(companion, HOST_COMPANION_END_MS);
	*companion = (struct host_companion){ .stop = -1, .alive = -1 };
	if (status == 0)
		return 0;
	fprintf(stderr, "%s: the server did not end well (status %#x)\n", program, (unsigned)status);
	return OPTIONS_FAILURE;
}
