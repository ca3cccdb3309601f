/* host_pair.c - see host_pair.h. Requests and answers are structs in a stream. */
#define _GNU_SOURCE
#include "tools/host/host_pair.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/options.h"
#include "xkernel/base.h"

enum { PAIR_START_MS = 60000, PAIR_ANSWER_MS = 30000, PAIR_ARGUMENTS = 256, PAIR_NAP_MS = 5, PAIR_LINE = 1 << 16 };
enum { PAIR_FAR_IN = 0, PAIR_FAR_OUT = 3 }; /* descriptors of a server started by pair->far */
enum pair_request_type { PAIR_READY, PAIR_SETUP, PAIR_COUNTS, PAIR_RUN };

const char *const pair_end_names[PAIR_ENDS] = { "client", "server" };

struct pair_request {
	uint32_t type; /* enum pair_request_type */
	union {
		struct pair_setup setup;
		struct pair_block block;
	};
};

/* ---- signals ---- */

void
pair_signal_set(sigset_t *set)
{
	struct sigaction action;

	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	if (sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
		sigaddset(set, SIGHUP);
}

int
pair_signals(void)
{
	sigset_t set;

	pair_signal_set(&set);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void
pair_signals_end(int signals)
{
	struct signalfd_siginfo info;
	sigset_t set;

	if (signals < 0)
		return;
	while (read(signals, &info, sizeof(info)) == sizeof(info))
		continue;
	close(signals);
	pair_signal_set(&set);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- processes ---- */

pid_t
pair_fork(void)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* the parent ended before prctl */
		_exit(OPTIONS_FAILURE);
	signal(SIGINT, SIG_IGN);
	return 0;
}

int
pair_reap(pid_t pid, unsigned limit_ms)
{
	struct timespec nap = { .tv_nsec = PAIR_NAP_MS * 1000000 };
	int status = 0;

	for (unsigned waited_ms = 0; waited_ms < limit_ms; waited_ms += PAIR_NAP_MS) {
		if (waitpid(pid, &status, WNOHANG) != 0)
			return status;
		nanosleep(&nap, NULL);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return -1;
}

/* ---- starting ---- */

void
pair_init(struct pair *pair, const char *program, int signals)
{
	*pair = (struct pair){ .program = program, .signals = signals };
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		pair->ends[i].control = -1;
}

void
pair_add_local(struct pair *pair, unsigned which, const struct pair_end_ops *ops, void *end)
{
	pair->ends[which].ops = ops;
	pair->ends[which].end = end;
}

/* Becomes an end's program. dup keeps the socket open across exec. Only the parent uses standard output. */
__attribute__((noreturn)) static void
pair_exec(int control, unsigned which, int argc, char **argv)
{
	char fd[32], end[32], *arguments[PAIR_ARGUMENTS + 3] = { argv[0], fd, end };

	control = dup(control);
	if (control < 0) {
		fprintf(stderr, "%s: no socket for the %s: %s\n", argv[0], pair_end_names[which], xk_error(errno));
		fflush(stderr);
		_exit(OPTIONS_FAILURE);
	}
	snprintf(fd, sizeof(fd), "--control=%d", control);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	snprintf(end, sizeof(end), "--end=%s", pair_end_names[which]);
	for (int i = 1; i < argc; i++)
		arguments[i + 2] = argv[i];
	arguments[argc + 2] = NULL;
	execv("/proc/self/exe", arguments);
	fprintf(stderr, "%s: this program cannot be restarted as the %s (is /proc mounted?): %s\n", argv[0],
		pair_end_names[which], xk_error(errno));
	fflush(stderr);
	_exit(OPTIONS_FAILURE);
}

/* Adds an argument to a line for a shell, in quotes. */
static void
pair_quote(FILE *line, const char *argument)
{
	fputc('\'', line);
	for (; *argument != '\0'; argument++)
		if (*argument == '\'')
			fputs("'\\''", line);
		else
			fputc(*argument, line);
	fputs("' ", line);
}

/* Becomes the command that starts the server on another machine. */
__attribute__((noreturn)) static void
pair_exec_far(const char *far, int control, int argc, char **argv)
{
	char line[PAIR_LINE], command[PAIR_LINE], directory[PATH_MAX], program[PATH_MAX];
	FILE *out = fmemopen(line, sizeof(line), "w");

	if (out == NULL || getcwd(directory, sizeof(directory)) == NULL ||
	    realpath("/proc/self/exe", program) == NULL) {
		fprintf(stderr, "%s: no command line for --far %s: %s\n", argv[0], far, xk_error(errno));
		fflush(stderr);
		_exit(OPTIONS_FAILURE);
	}
	fputs("cd ", out);
	pair_quote(out, directory);
	fputs("&& exec ", out);
	pair_quote(out, program);
	fprintf(out, "--control=%d --end=%s --answer=%zu ", PAIR_FAR_IN, pair_end_names[PAIR_SERVER],
		sizeof(struct pair_answer));
	for (int i = 1; i < argc; i++)
		pair_quote(out, argv[i]);
	fprintf(out, "%d>&1 1>&2", PAIR_FAR_OUT);
	if (fclose(out) != 0 || snprintf(command, sizeof(command), "exec %s \"$0\"", far) >= (int)sizeof(command)) {
		fprintf(stderr, "%s: too many arguments\n", argv[0]);
		_exit(OPTIONS_MISUSE);
	}
	dup2(control, STDIN_FILENO);
	dup2(control, STDOUT_FILENO);
	execl("/bin/sh", "sh", "-c", command, line, (char *)NULL);
	fprintf(stderr, "%s: --far %s: /bin/sh cannot be run: %s\n", argv[0], far, xk_error(errno));
	fflush(stderr);
	_exit(OPTIONS_FAILURE);
}

static int
pair_spawn(struct pair *pair, unsigned which, int argc, char **argv)
{
	const struct timeval patience = { .tv_sec = PAIR_ANSWER_MS / 1000 };
	struct pair_end *end = &pair->ends[which];
	sigset_t none;
	int sockets[2];

	if (argc + 3 > PAIR_ARGUMENTS) {
		fprintf(stderr, "%s: too many arguments\n", pair->program);
		return OPTIONS_MISUSE;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
		fprintf(stderr, "%s: no socket to the %s: %s\n", pair->program, pair_end_names[which], xk_error(errno));
		return OPTIONS_FAILURE;
	}
	/* Bounds the wait for the rest of an answer that has begun. */
	setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	end->pid = pair_fork();
	if (end->pid == 0) {
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		if (which == PAIR_SERVER && pair->far != NULL)
			pair_exec_far(pair->far, sockets[1], argc, argv);
		pair_exec(sockets[1], which, argc, argv);
	}
	close(sockets[1]);
	end->control = sockets[0];
	if (end->pid > 0)
		return 0;
	end->pid = 0;
	fprintf(stderr, "%s: the %s cannot be started: %s\n", pair->program, pair_end_names[which], xk_error(errno));
	return OPTIONS_FAILURE;
}

/* ---- waiting for answers ---- */

/* Reports the exit of an end that should be running. Returns the exit status. */
static int
pair_ended(struct pair *pair, unsigned which, bool starting)
{
	struct pair_end *end = &pair->ends[which];
	const char *name = pair_end_names[which];
	int status = 0;

	waitpid(end->pid, &status, 0);
	end->pid = 0;
	if (WIFSIGNALED(status))
		fprintf(stderr, "%s: the %s died: signal %d (%s)\n", pair->program, name, WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else if (starting)
		fprintf(stderr, "%s: the %s could not start (see above)\n", pair->program, name);
	else
		fprintf(stderr, "%s: the %s ended with status %d in the middle of the run\n", pair->program, name,
			WEXITSTATUS(status));
	return starting && WIFEXITED(status) && WEXITSTATUS(status) == OPTIONS_MISUSE ? OPTIONS_MISUSE
										      : OPTIONS_FAILURE;
}

static bool
pair_interrupted(struct pair *pair)
{
	struct signalfd_siginfo info;

	if (pair->signals < 0 || read(pair->signals, &info, sizeof(info)) != sizeof(info))
		return false;
	fprintf(stderr, "%s: stopped by signal %u (%s)\n", pair->program, info.ssi_signo,
		strsignal((int)info.ssi_signo));
	pair->interrupted = true;
	return true;
}

/*
 * Waits at most wait_ms (-1: forever) for the answer of `which` to a request, in pair->answer. Fails on a timeout, on a
 * signal, or if either end has ended.
 */
static int
pair_await(struct pair *pair, unsigned which, uint32_t type, int wait_ms)
{
	struct pair_answer *answer = &pair->answer;
	struct pollfd polls[PAIR_ENDS + 1];

	for (;;) {
		int ready;
		ssize_t got;

		for (unsigned i = 0; i < PAIR_ENDS; i++)
			polls[i] = (struct pollfd){ .fd = pair->ends[i].control, .events = i == which ? POLLIN : 0 };
		polls[PAIR_ENDS] = (struct pollfd){ .fd = pair->signals, .events = POLLIN };
		ready = poll(polls, PAIR_ENDS + 1, wait_ms);
		if (ready < 0 && errno == EINTR)
			continue;
		if (polls[PAIR_ENDS].revents != 0 && pair_interrupted(pair))
			return OPTIONS_FAILURE;
		if (ready <= 0) {
			fprintf(stderr, "%s: the %s did not answer for %d s\n", pair->program, pair_end_names[which],
				wait_ms / 1000);
			return OPTIONS_FAILURE;
		}
		if ((polls[which].revents & POLLIN) != 0) {
			got = recv(pair->ends[which].control, answer, sizeof(*answer), MSG_WAITALL);
			if (got == (ssize_t)sizeof(*answer) && answer->type == type)
				return 0;
			if (got == (ssize_t)sizeof(*answer))
				continue;
			if (got != 0) /* incomplete: the process may still be running */
				kill(pair->ends[which].pid, SIGKILL);
			return pair_ended(pair, which, type == PAIR_READY);
		}
		for (unsigned i = 0; i < PAIR_ENDS; i++)
			if (polls[i].revents != 0)
				return pair_ended(pair, i, type == PAIR_READY);
	}
}

int
pair_start(struct pair *pair, int argc, char **argv)
{
	int status = 0;

	/* the server first: most links' clients wait for it */
	for (unsigned i = PAIR_ENDS; status == 0 && i-- > 0;)
		status = pair_spawn(pair, i, argc, argv);
	for (unsigned i = PAIR_ENDS; status == 0 && i-- > 0;)
		status = pair_await(pair, i, PAIR_READY, PAIR_START_MS);
	return status;
}

/* ---- requests ---- */

/* Executes a request. Returns false if a block gave up because `stop` became readable, or if the request is unknown. */
static bool
pair_execute(const struct pair_end *end, const struct pair_request *request, int stop, struct pair_answer *answer)
{
	*answer = (struct pair_answer){ .type = request->type };
	switch (request->type) {
	case PAIR_SETUP:
		answer->error = end->ops->setup(end->end, &request->setup, answer->why, sizeof(answer->why));
		return true;
	case PAIR_COUNTS:
		end->ops->counts(end->end, &answer->counts);
		return true;
	case PAIR_RUN:
		histogram_init(&answer->result.rtt);
		return end->ops->run(end->end, &request->block, &answer->result, stop);
	default:
		return false;
	}
}

/* Makes an end execute the request, here or in its process. Fills in pair->answer, with zeroes if there is no end. */
static int
pair_request_answer(struct pair *pair, unsigned which, const struct pair_request *request, int wait_ms)
{
	struct pair_end *end = &pair->ends[which];

	pair->answer = (struct pair_answer){ .error = 0 };
	if (end->ops != NULL) {
		if (pair_execute(end, request, pair->signals, &pair->answer))
			return 0;
		pair_interrupted(pair);
		return OPTIONS_FAILURE;
	}
	if (end->pid == 0)
		return 0;
	send(end->control, request, sizeof(*request), MSG_NOSIGNAL); /* pair_await reports an end that has exited */
	return pair_await(pair, which, request->type, wait_ms);
}

static int
pair_report(struct pair *pair, unsigned which, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", pair->program, pair_end_names[which], why);
	return OPTIONS_FAILURE;
}

int
pair_setup(struct pair *pair, const struct pair_setup *setup)
{
	struct pair_request request = { .type = PAIR_SETUP, .setup = *setup };
	int status = 0;

	for (unsigned i = 0; i < PAIR_ENDS && status == 0; i++) {
		status = pair_request_answer(pair, i, &request, PAIR_ANSWER_MS);
		if (status == 0 && pair->answer.error != 0)
			status = pair_report(pair, i, pair->answer.why);
	}
	return status;
}

int
pair_counts(struct pair *pair, unsigned which, struct pair_counts *counts)
{
	struct pair_request request = { .type = PAIR_COUNTS };
	int status = pair_request_answer(pair, which, &request, PAIR_ANSWER_MS);

	*counts = pair->answer.counts;
	return status;
}

int
pair_run(struct pair *pair, const struct pair_block *block, struct pair_result *result)
{
	struct pair_request request = { .type = PAIR_RUN, .block = *block };
	int status = pair_request_answer(pair, PAIR_CLIENT, &request, -1);

	if (status != 0) /* a block that gave up may still add to the answer */
		return status;
	*result = pair->answer.result;
	return result->error == 0 ? 0 : pair_report(pair, PAIR_CLIENT, result->why);
}

/* Writes or reads all size bytes. Returns false at the end of the stream or on an error. */
static bool
pair_transfer(int fd, void *what, size_t size, bool writes)
{
	ssize_t done;

	for (uint8_t *at = what; size > 0; at += done, size -= (size_t)done) {
		do
			done = writes ? write(fd, at, size) : read(fd, at, size);
		while (done < 0 && errno == EINTR);
		if (done <= 0)
			return false;
	}
	return true;
}

int
pair_serve(int control, const struct pair_end_ops *ops, void *end)
{
	const struct pair_end self = { .ops = ops, .end = end };
	int out = control == PAIR_FAR_IN ? PAIR_FAR_OUT : control;
	struct pair_answer answer = { .type = PAIR_READY };
	struct pair_request request;

	signal(SIGPIPE, SIG_IGN);
	while (pair_transfer(out, &answer, sizeof(answer), true) &&
	       pair_transfer(control, &request, sizeof(request), false) &&
	       pair_execute(&self, &request, control, &answer))
		continue;
	return OPTIONS_SUCCESS;
}

/* ---- ending ---- */

int
pair_stop(struct pair *pair, bool cleanly)
{
	int result = 0;

	for (unsigned i = 0; i < PAIR_ENDS; i++) {
		if (pair->ends[i].pid != 0 && !cleanly)
			kill(pair->ends[i].pid, SIGKILL);
		if (pair->ends[i].control >= 0)
			close(pair->ends[i].control);
	}
	for (unsigned i = 0; i < PAIR_ENDS; i++) {
		int status = pair->ends[i].pid == 0 ? 0 : pair_reap(pair->ends[i].pid, PAIR_END_MS);

		if (status != 0 && cleanly) {
			fprintf(stderr, "%s: the %s failed at its end (status %#x)\n", pair->program, pair_end_names[i],
				(unsigned)status);
			result = OPTIONS_FAILURE;
		}
		pair->ends[i] = (struct pair_end){ .control = -1 };
	}
	return result;
}

/* ---- counts ---- */

static struct pair_drop *
pair_counts_find(struct pair_counts *counts, const char *name)
{
	for (unsigned i = 0; i < counts->drop_count; i++)
		if (strcmp(counts->drops[i].name, name) == 0)
			return &counts->drops[i];
	return NULL;
}

void
pair_counts_drop(struct pair_counts *counts, const char *name, uint64_t count)
{
	struct pair_drop *drop = pair_counts_find(counts, name);

	if (drop == NULL && counts->drop_count >= PAIR_DROPS - 1) {
		name = "other";
		drop = pair_counts_find(counts, name);
	}
	if (drop == NULL) {
		drop = &counts->drops[counts->drop_count++];
		*drop = (struct pair_drop){ .count = 0 };
		snprintf(drop->name, sizeof(drop->name), "%s", name);
	}
	drop->count += count;
}

void
pair_counts_add(struct pair_counts *sum, const struct pair_counts *before, const struct pair_counts *after)
{
	/* all members before drop_count are uint64_t */
	uint64_t *sums = (uint64_t *)sum;
	const uint64_t *befores = (const uint64_t *)before, *afters = (const uint64_t *)after;

	for (size_t i = 0; i < offsetof(struct pair_counts, drop_count) / sizeof(uint64_t); i++)
		sums[i] += afters[i] - befores[i];
	for (unsigned i = 0; i < after->drop_count; i++) {
		const struct pair_drop *drop = &after->drops[i];
		struct pair_drop *old = pair_counts_find((struct pair_counts *)before, drop->name);
		uint64_t count = drop->count - (old == NULL ? 0 : old->count);

		if (count > 0)
			pair_counts_drop(sum, drop->name, count);
	}
}
