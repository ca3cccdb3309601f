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

/* With sanitizers the times mean nothing, so a short measurement is enough. */
enum { MACHINE_BATCHES = 41, MACHINE_TRIPS = MACHINE_SANITIZED ? 50 : 1000, MACHINE_PATIENCE = 1000000 };

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

/* ---- the cache line ---- */

/* Two threads throw the line to each other: a store of an odd number is the client's, of an even one the server's. */
struct machine_line {
	_Alignas(128) _Atomic uint32_t ball;
	_Alignas(128) unsigned client, server; /* cores */
	uint64_t median_ns;
};

static void
machine_pin(unsigned core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

/* Waits until the ball is `at`; yields when that takes long, since others may run on the core. */
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

	machine_pin(line->server);
	for (uint32_t i = 0; i < MACHINE_BATCHES * MACHINE_TRIPS; i++) {
		machine_await(line, 2 * i + 1);
		atomic_store_explicit(&line->ball, 2 * i + 2, memory_order_release);
	}
	return NULL;
}

static void *
machine_send(void *argument)
{
	struct machine_line *line = argument;
	double times[MACHINE_BATCHES];
	uint32_t ball = 0;

	machine_pin(line->client);
	for (unsigned batch = 0; batch < MACHINE_BATCHES; batch++) {
		uint64_t start_ns = clock_system_ns();

		for (unsigned i = 0; i < MACHINE_TRIPS; i++, ball += 2) {
			atomic_store_explicit(&line->ball, ball + 1, memory_order_release);
			machine_await(line, ball + 2);
		}
		times[batch] = (double)(clock_system_ns() - start_ns) / MACHINE_TRIPS;
	}
	line->median_ns = (uint64_t)batches_median(times, MACHINE_BATCHES);
	return NULL;
}

/* Both threads are new, so that the caller's own affinity stays as it is. */
uint64_t
machine_cache_line_ns(unsigned a, unsigned b)
{
	struct machine_line line = { .client = a, .server = b };
	pthread_t client, server;

	if (a == b || !machine_has_core(a) || !machine_has_core(b))
		return 0;
	if (pthread_create(&server, NULL, machine_return, &line) != 0)
		return 0;
	if (pthread_create(&client, NULL, machine_send, &line) != 0)
		machine_send(&line);
	else
		pthread_join(client, NULL);
	pthread_join(server, NULL);
	return line.median_ns;
}

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
