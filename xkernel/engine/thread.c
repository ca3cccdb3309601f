/* thread.c - threads of the system or the platform, their state while they run, and the tokens they wait on. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "xkernel/engine/engine.h"

static void
thread_own(void *argument)
{
	struct xk_runner *runner = argument;

	runner->body(runner);
}

static void *
thread_system(void *argument)
{
	thread_own(argument);
	return NULL;
}

int
xk_runner_start(struct xk_kernel *kernel, struct xk_runner *runner, enum xk_runner_kind kind, bool detached,
		void (*body)(struct xk_runner *runner))
{
	struct xk_platform *platform = kernel->platform;
	pthread_attr_t attributes;
	int result;

	runner->kernel = kernel;
	runner->kind = kind;
	runner->body = body;
	if (platform->threads != NULL)
		return platform->threads->start(platform, thread_own, runner, kind == XK_RUN_DRIVER, detached,
						&runner->name);
	pthread_attr_init(&attributes);
	if (detached)
		pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	result = pthread_create(&runner->thread, &attributes, thread_system, runner);
	pthread_attr_destroy(&attributes);
	return result == 0 ? 0 : -EAGAIN;
}

void
xk_runner_join(struct xk_runner *runner)
{
	struct xk_platform *platform = runner->kernel->platform;

	if (platform->threads != NULL)
		platform->threads->join(platform, runner->name);
	else
		pthread_join(runner->thread, NULL);
}

uint64_t
xk_runner_switches(const struct xk_runner *runner)
{
	struct xk_platform *platform = runner->kernel->platform;
	unsigned long long switches = 0;
	struct rusage usage;
	char line[128];
	FILE *status;
	int tid;

	if (platform->threads != NULL)
		return runner->name == NULL ? 0 : platform->threads->switches(platform, runner->name);
	tid = atomic_load_explicit(&runner->tid, memory_order_acquire);
	/* The calling thread's count is cheaper to get. */
	if (tid == 0 || tid == (int)gettid())
		return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_nvcsw : 0;
	snprintf(line, sizeof(line), "/proc/self/task/%d/status", tid);
	status = fopen(line, "r");
	if (status == NULL)
		return 0;
	while (fgets(line, sizeof(line), status) != NULL)
		if (sscanf(line, "voluntary_ctxt_switches: %llu", &switches) == 1)
			break;
	fclose(status);
	return switches;
}

/* ---- tokens ---- */

#ifdef XK_NO_SEM_CLOCKWAIT
enum { THREAD_SLICE_NS = 100000000 };

/* Waits in slices, by the clock that can be set: a change affects one slice, not the whole wait. */
static int
sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
	struct timespec now, slice;
	int64_t left_ns;

	clock_gettime(clock, &now);
	clock_gettime(CLOCK_REALTIME, &slice);
	left_ns = (until->tv_sec - now.tv_sec) * INT64_C(1000000000) + until->tv_nsec - now.tv_nsec;
	slice.tv_nsec += left_ns < 0 ? 0 : left_ns < THREAD_SLICE_NS ? left_ns : THREAD_SLICE_NS;
	slice.tv_sec += slice.tv_nsec / 1000000000;
	slice.tv_nsec %= 1000000000;
	if (sem_timedwait(semaphore, &slice) == 0)
		return 0;
	if (left_ns > THREAD_SLICE_NS)
		errno = EINTR; /* as if interrupted by a signal: the caller waits again */
	return -1;
}
#endif

void
xk_token_init(struct xk_token *token)
{
	sem_init(&token->semaphore, 0, 0);
	token->posted = 0;
	token->waiter = NULL;
}

void
xk_token_fini(struct xk_token *token)
{
	sem_destroy(&token->semaphore);
}

/* Waits on the system's semaphore. */
static void
token_wait(struct xk_platform *platform, struct xk_token *token, uint64_t deadline_ns)
{
	uint64_t now_ns, until_ns;
	struct timespec until;

	if (deadline_ns == UINT64_MAX) {
		while (sem_wait(&token->semaphore) != 0)
			continue;
		return;
	}
	now_ns = platform->ops->now_ns(platform);
	if (deadline_ns <= now_ns) {
		sem_trywait(&token->semaphore);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until_ns = (uint64_t)until.tv_nsec + (deadline_ns - now_ns);
	until.tv_sec += (time_t)(until_ns / 1000000000);
	until.tv_nsec = (long)(until_ns % 1000000000);
	while (sem_clockwait(&token->semaphore, CLOCK_MONOTONIC, &until) != 0 && errno == EINTR)
		continue;
}

void
xk_token_wait(struct xk_kernel *kernel, struct xk_token *token, uint64_t deadline_ns)
{
	struct xk_platform *platform = kernel->platform;
	struct xk_shepherd *self = xk_self();

	if (platform->threads != NULL) {
		platform->threads->wait(platform, token, deadline_ns);
		return;
	}
	if (self != NULL)
		atomic_store_explicit(&self->runner->rests, true, memory_order_relaxed);
	token_wait(platform, token, deadline_ns);
	if (self != NULL)
		atomic_store_explicit(&self->runner->rests, false, memory_order_relaxed);
}

void
xk_token_post(struct xk_kernel *kernel, struct xk_token *token)
{
	struct xk_platform *platform = kernel->platform;

	if (platform->threads != NULL)
		platform->threads->post(platform, token);
	else
		sem_post(&token->semaphore);
}

void
xk_thread_nap(struct xk_kernel *kernel, uint64_t nap_ns)
{
	struct xk_platform *platform = kernel->platform;
	struct timespec nap = { .tv_sec = (time_t)(nap_ns / 1000000000), .tv_nsec = (long)(nap_ns % 1000000000) };

	if (platform->threads != NULL)
		platform->threads->nap(platform, nap_ns);
	else
		nanosleep(&nap, NULL);
}

/* ---- runners ---- */

/* Returns the driver whose core and platform a runner uses. Threads of the pool go to the drivers in turn. */
static struct xk_driver *
runner_driver(const struct xk_runner *runner)
{
	struct xk_kernel *kernel = runner->kernel;
	struct xk_driver *driver = &kernel->driver;

	if (runner->kind == XK_RUN_DRIVER)
		return xk_container_of(runner, struct xk_driver, runner);
	if (runner->kind != XK_RUN_POOL)
		return driver;
	for (unsigned i = (runner->number - 1) % kernel->driver_count; i > 0; i--)
		driver = driver->next_driver;
	return driver;
}

/* Returns whether the kernel started the thread; the one that called xk_kernel_run is the program's. */
static bool
runner_is_ours(const struct xk_runner *runner)
{
	return runner->kind != XK_RUN_DRIVER || runner_driver(runner)->started;
}

void
xk_runner_begin(struct xk_runner *runner)
{
	struct xk_driver *driver = runner_driver(runner);
	struct xk_platform *platform = driver->platform;

	runner->shepherd.kernel = runner->kernel;
	runner->shepherd.runner = runner;
	runner->shepherd.head.taken = &runner->locks;
	runner->shepherd.head.lane = runner->kind == XK_RUN_DRIVER ? driver->index + 1 : 0;
	if (runner->shepherd.driver == NULL)
		runner->shepherd.driver = driver;
	if (platform->threads != NULL)
		platform->threads->adopt(platform, &runner->own);
	else
		xk_context_adopt(&runner->own);
	xk_reader_add(&runner->kernel->epochs, &runner->shepherd.reader);
	xk_self_set(&runner->shepherd);
	if (driver->core >= 0 && platform->threads == NULL) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET((unsigned)driver->core, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
	if (runner_is_ours(runner) && platform->ops->thread_begin != NULL)
		platform->ops->thread_begin(platform);
	if (runner->kind == XK_RUN_DRIVER && platform->ops->driver_begin != NULL)
		platform->ops->driver_begin(platform);
	if (runner->uncounted)
		return;
	atomic_store_explicit(&runner->switches_before, xk_runner_switches(runner), memory_order_relaxed);
	atomic_store_explicit(&runner->tid, (int)syscall(SYS_gettid), memory_order_release);
}

void
xk_runner_end(struct xk_runner *runner)
{
	struct xk_kernel *kernel = runner->kernel;
	struct xk_driver *driver = runner_driver(runner);
	struct xk_platform *platform = driver->platform;
	bool drives = runner->kind == XK_RUN_DRIVER;

	if (drives && platform->ops->driver_end != NULL)
		platform->ops->driver_end(platform);
	if (runner_is_ours(runner) && platform->ops->thread_end != NULL)
		platform->ops->thread_end(platform);
	/* The counts of a runner that is freed next move to the kernel; a driver's remain. */
	if (!runner->uncounted)
		atomic_fetch_add_explicit(drives ? &driver->ended_switches : &kernel->ended_switches,
					  xk_runner_switches(runner) - runner->switches_before, memory_order_relaxed);
	if (!drives) {
		atomic_fetch_add_explicit(&kernel->ended_stack_switches, runner->stack_switches, memory_order_relaxed);
		atomic_fetch_add_explicit(&kernel->ended_locks, runner->locks, memory_order_relaxed);
		atomic_fetch_add_explicit(&kernel->ended_clock_reads, runner->clock_reads, memory_order_relaxed);
	}
	atomic_store_explicit(&runner->tid, 0, memory_order_release);
	xk_self_set(NULL);
	xk_reader_remove(&runner->shepherd.reader);
	xk_context_disown(&runner->own);
}
