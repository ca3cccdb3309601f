/* watch.c - see watch.h. */
#define _GNU_SOURCE
#include "tools/host/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "platform/clock.h"
#include "platform/sim/sim.h"
#include "tools/host/crash.h"
#include "tools/host/host_pair.h"
#include "tools/options.h"
#include "xkernel/engine/where.h"
#include "xkernel/kernel.h"

enum {
	WATCH_CHECKS = 5,       /* minimum number of checks within the limit */
	WATCH_CHECK_MS = 1000,  /* longest time between two checks */
	WATCH_ANSWER_MS = 2000, /* time for a thread to answer */
	WATCH_THREADS = 1024,   /* of all hosts; further ones are not watched */
	WATCH_HOSTS = 2,
	WATCH_ONE_SIGNAL_NS = 100000000, /* signals within this time count as one */
};

/* A watched thread and its progress at the last check. */
struct watch_thread {
	int tid;
	uint64_t progress, since_ns;
	uint64_t spent_ns; /* processor time at the last check */
	unsigned blocked;  /* number of consecutive checks that found it in the same system call */
	bool reported, seen;
};

struct watch {
	const char *program;
	uint64_t limit_ns;
	int check_ms;            /* between two checks */
	unsigned blocked_checks; /* number of checks in limit_ns */
	int from, to;            /* the signalfd, and the pipe for the first signal; -1: none */
	int stop;                /* an eventfd that ends the thread */
	uint64_t signalled_ns;   /* time of the first signal; 0: none yet */
	pthread_t thread;
	pthread_mutex_t mutex; /* protects the rest */
	struct xk_kernel *kernels[WATCH_HOSTS];
	struct xk_sim *sim;
	int sim_tid;
	unsigned thread_count;
	struct watch_thread threads[WATCH_THREADS];
};

/* ---- asking a thread for its position ---- */

struct watch_question {
	struct xk_where where;
	sem_t answered;
};

/* A real-time signal that nothing else in these programs uses. */
static int
watch_signal(void)
{
	return SIGRTMIN + 5;
}

/* Runs on the asked thread, as a signal handler. */
static void
watch_answer(int signal, siginfo_t *info, void *context)
{
	struct watch_question *question = info->si_value.sival_ptr;
	int before = errno;

	(void)signal;
	(void)context;
	if (info->si_code == SI_QUEUE && info->si_pid == getpid()) {
		xk_where_note(&question->where);
		sem_post(&question->answered);
	}
	errno = before;
}

/*
 * Asks a thread for its position. Returns false without an answer; the question must not be freed then, because the
 * thread may still answer.
 */
static bool
watch_ask(int tid, struct watch_question *question)
{
	siginfo_t info = { .si_code = SI_QUEUE, .si_signo = watch_signal() };
	struct timespec until;

	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_ptr = question;
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, watch_signal(), &info) != 0)
		return false;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WATCH_ANSWER_MS / 1000;
	while (sem_timedwait(&question->answered, &until) != 0)
		if (errno != EINTR)
			return false;
	return true;
}

/* ---- the watchdog ---- */

/*
 * Returns true if the thread waits in a system call other than a write: output may wait for its reader, for which no
 * protocol is responsible.
 */
static bool
watch_is_blocked(int tid)
{
	char path[64], line[256] = "", *state;
	long call = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "re");
	if (file == NULL)
		return false;
	state = fgets(line, sizeof(line), file) == NULL ? NULL : strrchr(line, ')');
	fclose(file);
	if (state == NULL || strncmp(state, ") S", 3) != 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	file = fopen(path, "re");
	if (file != NULL && fscanf(file, "%ld", &call) != 1)
		call = -1;
	if (file != NULL)
		fclose(file);
	return call != SYS_write && call != SYS_writev;
}

/*
 * Prints the position of a thread that `does` ("has computed"), in one write, because others may print. Ends the
 * program if the world is simulated.
 */
static void
watch_report(struct watch *watch, int tid, const char *does)
{
	struct watch_question *question = calloc(1, sizeof(*question));
	char verb[64], *text = NULL;
	size_t len;
	FILE *line;

	if (question == NULL || sem_init(&question->answered, 0, 0) != 0 ||
	    (line = open_memstream(&text, &len)) == NULL)
		return;
	snprintf(verb, sizeof(verb), "%s for %.3g s", does, (double)watch->limit_ns / 1e9);
	fprintf(line, "%s: watchdog: ", watch->program);
	if (watch->sim != NULL && xk_sim_booting(watch->sim) != NULL)
		fprintf(line, "host \"%s\" boots: ", xk_sim_booting(watch->sim));
	if (watch_ask(tid, question)) {
		xk_where_print(&question->where, verb, line);
		free(question);
	} else {
		fprintf(line, "a thread %s at an unknown position", verb);
	}
	fprintf(line, "%s\n", watch->sim != NULL ? "; nothing else can run in the simulator" : "");
	if (fclose(line) == 0)
		fputs(text, stderr);
	free(text);
	if (watch->sim == NULL)
		return;
	if (ftrylockfile(stdout) == 0) { /* unless the computing thread holds its lock */
		fflush(stdout);
		funlockfile(stdout);
	}
	_exit(OPTIONS_FAILURE);
}

/* Reports the thread if `progress` has not changed for too long. */
static void
watch_check_thread(void *context, int tid, uint64_t progress, bool rests)
{
	struct watch *watch = context;
	struct watch_thread *thread = watch->threads, *end = watch->threads + watch->thread_count;
	clockid_t clock = (clockid_t)(~(unsigned)tid << 3 | 6); /* the thread's, as in pthread_getcpuclockid */
	struct timespec now = { .tv_sec = 0 };
	uint64_t now_ns;

	while (thread < end && thread->tid != tid)
		thread++;
	if (thread == end) {
		if (watch->thread_count == WATCH_THREADS)
			return;
		watch->thread_count++;
		*thread = (struct watch_thread){ .tid = tid, .progress = UINT64_MAX };
	}
	clock_gettime(clock, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	thread->seen = true;
	if (thread->progress != progress) {
		thread->progress = progress;
		thread->since_ns = now_ns;
		thread->reported = false;
	} else if (!thread->reported && now_ns - thread->since_ns >= watch->limit_ns) {
		thread->reported = true;
		watch_report(watch, tid, "has computed");
	}
	/* A busy machine or a stopped program keeps threads from running, but not in a system call. */
	if (thread->reported || rests || thread->spent_ns != now_ns || !watch_is_blocked(tid))
		thread->blocked = 0;
	else if (++thread->blocked > watch->blocked_checks) {
		thread->reported = true;
		watch_report(watch, tid, "has been blocked in a system call");
	}
	thread->spent_ns = now_ns;
}

static void
watch_check(struct watch *watch)
{
	unsigned kept = 0;

	pthread_mutex_lock(&watch->mutex);
	for (unsigned i = 0; i < watch->thread_count; i++)
		watch->threads[i].seen = false;
	for (unsigned i = 0; i < WATCH_HOSTS; i++)
		if (watch->kernels[i] != NULL)
			xk_kernel_each_thread(watch->kernels[i], watch_check_thread, watch);
	if (watch->sim != NULL)
		watch_check_thread(watch, watch->sim_tid, xk_sim_steps(watch->sim), false);
	for (unsigned i = 0; i < watch->thread_count; i++)
		if (watch->threads[i].seen)
			watch->threads[kept++] = watch->threads[i];
	watch->thread_count = kept;
	pthread_mutex_unlock(&watch->mutex);
}

/* ---- signals ---- */

/*
 * Passes the first signal on to the program; the second one ends it. timeout(1) and some shells signal a process and
 * then its group, so signals in quick succession count as one.
 */
static void
watch_take_signal(struct watch *watch)
{
	struct signalfd_siginfo info;
	ssize_t written = 0;
	uint64_t now_ns;
	sigset_t set;
	int signo;

	if (read(watch->from, &info, sizeof(info)) != sizeof(info))
		return;
	now_ns = clock_system_ns();
	if (watch->signalled_ns != 0 && now_ns - watch->signalled_ns < WATCH_ONE_SIGNAL_NS)
		return;
	if (watch->signalled_ns != 0) {
		signo = (int)info.ssi_signo;
		signal(signo, SIG_DFL);
		sigemptyset(&set);
		sigaddset(&set, signo);
		kill(getpid(), signo);
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		_exit(128 + signo);
	}
	watch->signalled_ns = now_ns;
	while (written >= 0 && written != sizeof(info))
		written = write(watch->to, &info, sizeof(info));
}

/* ---- the thread ---- */

static void *
watch_main(void *argument)
{
	struct watch *watch = argument;
	struct pollfd polls[] = { { .fd = watch->from, .events = POLLIN }, { .fd = watch->stop, .events = POLLIN } };
	int wait_ms = watch->limit_ns == 0 ? -1 : watch->check_ms;

	while (polls[1].revents == 0) {
		int ready = poll(polls, XK_ARRAY_LENGTH(polls), wait_ms);

		if (ready > 0 && polls[0].revents != 0)
			watch_take_signal(watch);
		if (ready == 0)
			watch_check(watch);
	}
	return NULL;
}

struct watch *
watch_new(const char *program, int *signals, uint64_t limit_ns)
{
	struct sigaction action = { .sa_sigaction = watch_answer, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct watch *watch = calloc(1, sizeof(*watch));
	uint64_t check_ms = limit_ns / WATCH_CHECKS / 1000000 + 1;
	struct xk_where where;
	sigset_t all, before;
	int ends[2] = { -1, -1 }, err;

	if (watch == NULL) {
		err = ENOMEM;
		goto fail;
	}
	watch->program = program;
	watch->limit_ns = limit_ns;
	watch->check_ms = (int)(check_ms < WATCH_CHECK_MS ? check_ms : WATCH_CHECK_MS);
	watch->blocked_checks = (unsigned)(limit_ns / 1000000) / (unsigned)watch->check_ms + 1;
	watch->stop = eventfd(0, EFD_CLOEXEC);
	if (watch->stop < 0 || (*signals >= 0 && pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)) {
		err = errno;
		goto fail;
	}
	watch->from = *signals;
	watch->to = ends[1];
	pthread_mutex_init(&watch->mutex, NULL);
	sigemptyset(&action.sa_mask);
	sigaction(watch_signal(), &action, NULL);
	xk_where_note(&where); /* the unwinder's first run may load libraries, which the handler must not */
	crash_report_faults(program);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&watch->thread, NULL, watch_main, watch);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err == 0) {
		*signals = ends[0];
		return watch;
	}
	close(ends[0]);
	close(ends[1]);
fail:
	fprintf(stderr, "%s: no watchdog thread: %s\n", program, xk_error(err));
	if (watch != NULL)
		close(watch->stop);
	free(watch);
	return NULL;
}

void
watch_free(struct watch *watch)
{
	sigset_t set;

	if (watch == NULL)
		return;
	while (eventfd_write(watch->stop, 1) != 0)
		continue;
	pthread_join(watch->thread, NULL);
	if (watch->to >= 0) {
		/* any signal ends the rest of the program, which may block on a full pipe */
		pair_signal_set(&set);
		signal(SIGINT, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		close(watch->to);
	}
	close(watch->stop);
	pthread_mutex_destroy(&watch->mutex);
	free(watch);
}

/* ---- watched kernels and worlds ---- */

void
watch_kernel(struct watch *watch, struct xk_kernel *kernel)
{
	if (watch == NULL)
		return;
	pthread_mutex_lock(&watch->mutex);
	watch->kernels[watch->kernels[0] == NULL ? 0 : 1] = kernel;
	pthread_mutex_unlock(&watch->mutex);
}

void
watch_world(struct watch *watch, struct xk_sim *sim)
{
	if (watch == NULL)
		return;
	pthread_mutex_lock(&watch->mutex);
	watch->sim = sim;
	watch->sim_tid = (int)syscall(SYS_gettid);
	pthread_mutex_unlock(&watch->mutex);
}

void
watch_forget(struct watch *watch, const void *what)
{
	if (watch == NULL || what == NULL)
		return;
	pthread_mutex_lock(&watch->mutex);
	for (unsigned i = 0; i < WATCH_HOSTS; i++)
		if (watch->kernels[i] == what)
			watch->kernels[i] = NULL;
	if (watch->sim == what)
		watch->sim = NULL;
	pthread_mutex_unlock(&watch->mutex);
}
