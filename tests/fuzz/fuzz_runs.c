/*
 * fuzz_runs.c - seeded runs of a fuzzer in a CUnit program. They are made in a child, so that whatever ends it (an
 * assertion, a sanitizer, a signal) leaves somebody to say which seed it was.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

enum { RUNS_LONG = 8, RUNS_LEAK_EVERY = 64 };

/* Of the leak sanitizer, where there is one. */
__attribute__((weak)) int __lsan_do_recoverable_leak_check(void);

void
fuzz_failed(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
	abort();
}

/* An input in a buffer of its own length, so that who reads past its end is seen. */
static void
runs_one(uint64_t seed, size_t max, size_t (*make)(uint8_t *input, size_t max, uint64_t seed))
{
	uint8_t *room = malloc(max), *input;
	size_t len;

	FUZZ_CHECK(room != NULL);
	len = make(room, max, seed);
	input = realloc(room, len > 0 ? len : 1);
	FUZZ_CHECK(input != NULL);
	LLVMFuzzerTestOneInput(input, len);
	free(input);
}

static bool
runs_leak(void)
{
	return __lsan_do_recoverable_leak_check != NULL && __lsan_do_recoverable_leak_check() != 0;
}

static void
runs_child(unsigned runs, size_t max, size_t (*make)(uint8_t *input, size_t max, uint64_t seed), _Atomic uint64_t *seed)
{
	for (*seed = 1; *seed <= runs; (*seed)++) {
		runs_one(*seed, max, make);
		if ((*seed % RUNS_LEAK_EVERY == 0 || *seed == runs) && runs_leak())
			_exit(1);
	}
	_exit(0);
}

static bool
runs_in_child(unsigned runs, size_t max, size_t (*make)(uint8_t *input, size_t max, uint64_t seed))
{
	_Atomic uint64_t *seed = mmap(NULL, sizeof(*seed), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = -1;
	pid_t child;

	FUZZ_CHECK(seed != MAP_FAILED);
	fflush(NULL);
	child = fork();
	FUZZ_CHECK(child >= 0);
	if (child == 0)
		runs_child(runs, max, make, seed);
	FUZZ_CHECK(waitpid(child, &status, 0) == child);
	if (status != 0)
		fprintf(stderr, "\nfailed with seed %" PRIu64 ": to see it again, XK_FUZZ_SEED=%" PRIu64 "\n", *seed,
			*seed);
	munmap((void *)seed, sizeof(*seed));
	return status == 0;
}

bool
fuzz_runs(unsigned runs, size_t max, size_t (*make)(uint8_t *input, size_t max, uint64_t seed))
{
	const char *only = getenv("XK_FUZZ_SEED"), *lengthy = getenv("XK_TEST_LONG");

	if (only != NULL) {
		runs_one(strtoull(only, NULL, 0), max, make);
		return true;
	}
	if (lengthy != NULL && atoi(lengthy) != 0)
		runs *= RUNS_LONG;
	return runs_in_child(runs, max, make);
}
