/* machine.c - see machine.h. */
#define _GNU_SOURCE
#include "tools/machine.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "platform/clock.h"
#include "tools/batches.h"
#include "tools/json.h"
#include "xkernel/base.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MACHINE_SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MACHINE_SANITIZED true
#endif
#endif
#ifndef MACHINE_SANITIZED
#define MACHINE_SANITIZED false
#endif

/* With sanitizers, times are meaningless, so a short measurement suffices. */
enum {
	MACHINE_BATCHES = 41,
	MACHINE_TRIPS = MACHINE_SANITIZED ? 50 : 200,
	MACHINE_PATIENCE = 1000000,
	MACHINE_YIELDS = 20000,
};

bool
machine_read(const char *path, const char *key, char *text, size_t size)
{
	FILE *file = fopen(path, "re");
	bool found = false;

	while (file != NULL && !found && fgets(text, (int)size, file) != NULL)
		found = strncmp(text, key, strlen(key)) == 0;
	if (file != NULL)
		fclose(file);
	if (found) {
		char *value = text + strlen(key);

		value += strspn(value, " \t:");
		value[strcspn(value, "\n")] = '\0';
		memmove(text, value, strlen(value) + 1);
	} else {
		text[0] = '\0';
	}
	return found;
}

void
machine_describe(struct machine *machine)
{
	struct utsname name = { .sysname = "unknown" };
	char pages[96];
	cpu_set_t set;

	memset(machine, 0, sizeof(*machine));
	CPU_ZERO(&set);
	if (!machine_read("/proc/cpuinfo", "model name", machine->processor, sizeof(machine->processor)))
		snprintf(machine->processor, sizeof(machine->processor), "unknown");
	machine_read("/proc/meminfo", "HugePages_Total", pages, sizeof(pages));
	machine->huge_pages = strtoull(pages, NULL, 10);
	uname(&name);
	snprintf(machine->system, sizeof(machine->system), "%.20s %.50s %.20s", name.sysname, name.release,
		 name.machine);
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		machine->cores = (unsigned)CPU_COUNT(&set);
	machine->sanitized = MACHINE_SANITIZED;
}

bool
machine_has_core(unsigned core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	return core < CPU_SETSIZE && sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_ISSET(core, &set);
}

int
machine_core(unsigned index)
{
	for (unsigned core = 0; core < CPU_SETSIZE; core++)
		if (machine_has_core(core) && index-- == 0)
			return (int)core;
	return -1;
}

/* ---- two threads: the first one measures ---- */

struct machine_two {
	_Alignas(128) _Atomic uint32_t ball; /* odd: thrown by the first thread; even: by the second */
	_Alignas(128) unsigned cores[2];
	uint32_t *ns; /* what was measured */
	unsigned count;
	uint64_t start_ns[2], end_ns[2];
};

static void
machine_pin(unsigned core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

/*
 * Runs both on new threads, so that the caller keeps its affinity. Returns false if a core may not be used, or without
 * a thread.
 */
static bool
machine_run(struct machine_two *two, void *(*first)(void *two), void *(*second)(void *two))
{
	pthread_t threads[2];

	if (!machine_has_core(two->cores[0]) || !machine_has_core(two->cores[1]) ||
	    pthread_create(&threads[1], NULL, second, two) != 0)
		return false;
	if (pthread_create(&threads[0], NULL, first, two) != 0)
		first(two); /* the second thread must not wait forever */
	else
		pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	return true;
}

/* Waits until the ball is `at`; yields if that takes long, because others may run on the core. */
static void
line_await(struct machine_two *two, uint32_t at)
{
	for (unsigned i = 1; atomic_load_explicit(&two->ball, memory_order_acquire) != at; i++)
		if (i % MACHINE_PATIENCE == 0)
			sched_yield();
}

static void *
line_second(void *argument)
{
	struct machine_two *two = argument;

	machine_pin(two->cores[1]);
	for (uint32_t i = 0; i < MACHINE_BATCHES * MACHINE_TRIPS; i++) {
		line_await(two, 2 * i + 1);
		atomic_store_explicit(&two->ball, 2 * i + 2, memory_order_release);
	}
	return NULL;
}

static void *
line_first(void *argument)
{
	struct machine_two *two = argument;
	uint32_t ball = 0;

	machine_pin(two->cores[0]);
	for (unsigned batch = 0; batch < MACHINE_BATCHES; batch++) {
		uint64_t start_ns = clock_system_ns();

		for (unsigned i = 0; i < MACHINE_TRIPS; i++, ball += 2) {
			atomic_store_explicit(&two->ball, ball + 1, memory_order_release);
			line_await(two, ball + 2);
		}
		two->ns[batch] = (uint32_t)((clock_system_ns() - start_ns) / MACHINE_TRIPS);
	}
	return NULL;
}

uint64_t
machine_cache_line_ns(unsigned a, unsigned b)
{
	uint32_t ns[MACHINE_BATCHES];
	double values[MACHINE_BATCHES];
	struct machine_two two = { .cores = { a, b }, .ns = ns };

	if (a == b || !machine_run(&two, line_first, line_second))
		return 0;
	for (unsigned i = 0; i < MACHINE_BATCHES; i++)
		values[i] = ns[i];
	return (uint64_t)batches_median(values, MACHINE_BATCHES);
}

static void
wake_throw(struct machine_two *two, uint32_t ball)
{
	atomic_store_explicit(&two->ball, ball, memory_order_release);
	syscall(SYS_futex, &two->ball, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void
wake_await(struct machine_two *two, uint32_t at)
{
	while (atomic_load_explicit(&two->ball, memory_order_acquire) != at)
		syscall(SYS_futex, &two->ball, FUTEX_WAIT_PRIVATE, at - 1, NULL, NULL, 0);
}

static void *
wake_second(void *argument)
{
	struct machine_two *two = argument;

	machine_pin(two->cores[1]);
	for (uint32_t i = 0; i < two->count; i++) {
		wake_await(two, 2 * i + 1);
		wake_throw(two, 2 * i + 2);
	}
	return NULL;
}

static void *
wake_first(void *argument)
{
	struct machine_two *two = argument;

	machine_pin(two->cores[0]);
	for (uint32_t i = 0; i < two->count; i++) {
		uint64_t start_ns = clock_system_ns();

		wake_throw(two, 2 * i + 1);
		wake_await(two, 2 * i + 2);
		two->ns[i] = (uint32_t)((clock_system_ns() - start_ns) / 2);
	}
	return NULL;
}

bool
machine_wake_ns(unsigned a, unsigned b, uint32_t *ns, unsigned count)
{
	struct machine_two two = { .cores = { a, b }, .ns = ns, .count = count };

	return machine_run(&two, wake_first, wake_second);
}

static void
yield_run(struct machine_two *two, unsigned which)
{
	machine_pin(two->cores[which]);
	atomic_fetch_add(&two->ball, 1);
	while (atomic_load(&two->ball) != 2)
		sched_yield();
	two->start_ns[which] = clock_system_ns();
	for (unsigned i = 0; i < MACHINE_YIELDS; i++)
		sched_yield();
	two->end_ns[which] = clock_system_ns();
}

static void *
yield_first(void *two)
{
	yield_run(two, 0);
	return NULL;
}

static void *
yield_second(void *two)
{
	yield_run(two, 1);
	return NULL;
}

uint64_t
machine_yield_ns(unsigned core)
{
	struct machine_two two = { .cores = { core, core } };
	uint64_t start_ns, end_ns;

	if (!machine_run(&two, yield_first, yield_second))
		return 0;
	start_ns = two.start_ns[0] > two.start_ns[1] ? two.start_ns[0] : two.start_ns[1];
	end_ns = two.end_ns[0] < two.end_ns[1] ? two.end_ns[0] : two.end_ns[1];
	/* while both ran, each yielded nearly as often as the other */
	return end_ns <= start_ns ? 0 : (end_ns - start_ns) / (2 * MACHINE_YIELDS);
}

/* ---- the report ---- */

void
machine_json(const struct machine *machine, struct json *json, const char *key)
{
	static const char *const keys[] = { "before", "after" };

	json_object(json, key);
	json_string(json, "processor", machine->processor);
	json_string(json, "system", machine->system);
	json_uint(json, "cores", machine->cores);
	json_uint(json, "huge_pages", machine->huge_pages);
	json_bool(json, "sanitized", machine->sanitized);
	json_object(json, "cache_line_ns");
	for (unsigned i = 0; i < 2; i++)
		if (machine->line_ns[i] == 0)
			json_null(json, keys[i]);
		else
			json_uint(json, keys[i], machine->line_ns[i]);
	json_close(json);
	json_close(json);
}
