/* machine.c - see machine.h. */
#define _GNU_SOURCE
#include "tools/machine.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

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

/* With sanitizers the times mean nothing, so a short measurement is enough. */
enum { MACHINE_BATCHES = 41, MACHINE_TRIPS = MACHINE_SANITIZED ? 50 : 1000, MACHINE_PATIENCE = 1000000 };

/* What "key : value" of a /proc file says; "unknown" if it says nothing. */
static void
machine_proc(const char *file, const char *key, char *value, size_t len)
{
	FILE *f = fopen(file, "re");
	char line[256];

	snprintf(value, len, "unknown");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		char *colon = strchr(line, ':');

		if (colon == NULL || strncmp(line, key, strlen(key)) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		colon += 1 + strspn(colon + 1, " \t");
		snprintf(value, len, "%.90s", colon);
		break;
	}
	if (f != NULL)
		fclose(f);
}

void
machine_describe(struct machine *machine)
{
	struct utsname name = { .sysname = "unknown" };
	char pages[96];
	cpu_set_t set;

	memset(machine, 0, sizeof(*machine));
	CPU_ZERO(&set);
	machine_proc("/proc/cpuinfo", "model name", machine->processor, sizeof(machine->processor));
	machine_proc("/proc/meminfo", "HugePages_Total", pages, sizeof(pages));
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

/* ---- the cache line ---- */

struct machine_line {
	_Alignas(128) _Atomic uint32_t ball; /* even: the server's to return, odd: the client's */
	_Alignas(128) unsigned core;
};

static void
machine_pin(unsigned core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

/* Waits until the ball is at `at`; gives the core away when that takes long (others may be running on it). */
static void
machine_await(struct machine_line *line, uint32_t at)
{
	for (unsigned i = 1; atomic_load_explicit(&line->ball, memory_order_acquire) != at; i++)
		if (i % MACHINE_PATIENCE == 0)
			sched_yield();
}

static void *
machine_return(void *argument)
{
	struct machine_line *line = argument;

	machine_pin(line->core);
	for (uint32_t i = 0; i < MACHINE_BATCHES * MACHINE_TRIPS; i++) {
		machine_await(line, 2 * i + 1);
		atomic_store_explicit(&line->ball, 2 * i + 2, memory_order_release);
	}
	return NULL;
}

static uint64_t
machine_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int
machine_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

struct machine_serve {
	struct machine_line line;
	unsigned core;
	uint64_t median_ns;
};

static void *
machine_send(void *argument)
{
	struct machine_serve *serve = argument;
	uint64_t times[MACHINE_BATCHES];
	uint32_t ball = 0;

	machine_pin(serve->core);
	for (unsigned batch = 0; batch < MACHINE_BATCHES; batch++) {
		uint64_t start = machine_now_ns();

		for (unsigned i = 0; i < MACHINE_TRIPS; i++, ball += 2) {
			atomic_store_explicit(&serve->line.ball, ball + 1, memory_order_release);
			machine_await(&serve->line, ball + 2);
		}
		times[batch] = (machine_now_ns() - start) / MACHINE_TRIPS;
	}
	qsort(times, MACHINE_BATCHES, sizeof(times[0]), machine_compare);
	serve->median_ns = times[MACHINE_BATCHES / 2];
	return NULL;
}

/* Both threads are new, so that the caller's own affinity stays as it is. */
uint64_t
machine_cache_line_ns(unsigned a, unsigned b)
{
	struct machine_serve serve = { .core = a, .line = { .core = b } };
	pthread_t there, here;

	if (a == b || !machine_has_core(a) || !machine_has_core(b))
		return 0;
	if (pthread_create(&there, NULL, machine_return, &serve.line) != 0)
		return 0;
	if (pthread_create(&here, NULL, machine_send, &serve) != 0)
		machine_send(&serve);
	else
		pthread_join(here, NULL);
	pthread_join(there, NULL);
	return serve.median_ns;
}

static void
machine_line_json(const struct machine *machine, struct json *json)
{
	static const char *const keys[] = { "before", "after" };

	json_object(json, "cache_line_ns");
	for (unsigned i = 0; i < 2; i++)
		if (machine->line_ns[i] == 0)
			json_null(json, keys[i]);
		else
			json_uint(json, keys[i], machine->line_ns[i]);
	json_close(json);
}

void
machine_json(const struct machine *machine, struct json *json, const char *key)
{
	json_object(json, key);
	json_string(json, "processor", machine->processor);
	json_string(json, "system", machine->system);
	json_uint(json, "cores", machine->cores);
	json_uint(json, "huge_pages", machine->huge_pages);
	json_bool(json, "sanitized", machine->sanitized);
	machine_line_json(machine, json);
	json_close(json);
}
