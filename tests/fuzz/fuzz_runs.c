/*
 * fuzz_runs.c - seeded runs of a fuzzer in a CUnit program. A child runs them: if an assertion, a sanitizer or a signal
 * ends it, the parent reports the seed.
 */
#define _GNU_SOURCE
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

enum { RUNS_LONG = 16, RUNS_LEAK_EVERY = 64, RUNS_FILE_MAX = 1 << 16 };

/* The leak sanitizer's, if it is linked. */
__attribute__((weak)) int __lsan_do_recoverable_leak_check(void);

void
fuzz_failed(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, what);
	abort();
}

/* Runs one input in a buffer of its own length, so that reads past its end are detected. */
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
		fprintf(stderr, "\nfailed with seed %" PRIu64 "; to repeat it: XK_FUZZ_SEED=%" PRIu64 "\n", *seed,
			*seed);
	munmap((void *)seed, sizeof(*seed));
	return status == 0;
}

/* ---- the corpus ---- */

enum { RUNS_PATH = 256, RUNS_DAMAGE = 8, RUNS_DAMAGE_LONGEST = 16 };

struct runs_files {
	glob_t found;
};

/* Finds files by name, in the same order everywhere, from the checkout's root. */
static void
runs_find(struct runs_files *files, const char *name)
{
	char pattern[RUNS_PATH];

	snprintf(pattern, sizeof(pattern), "tests/fuzz/corpus/%s/*", name);
	if (glob(pattern, 0, NULL, &files->found) != 0)
		files->found.gl_pathc = 0;
}

/* Returns the file's bytes, which the caller frees. */
static uint8_t *
runs_read(const char *path, size_t *len)
{
	FILE *stream = fopen(path, "re");
	uint8_t *bytes = malloc(RUNS_FILE_MAX);

	FUZZ_CHECK(stream != NULL && bytes != NULL);
	*len = fread(bytes, 1, RUNS_FILE_MAX, stream);
	FUZZ_CHECK(!ferror(stream));
	fclose(stream);
	return bytes;
}

static void
runs_file(const char *path)
{
	size_t len;
	uint8_t *bytes = runs_read(path, &len), *input = realloc(bytes, len > 0 ? len : 1);

	FUZZ_CHECK(input != NULL);
	LLVMFuzzerTestOneInput(input, len);
	free(input);
}

static void
runs_files_child(const struct runs_files *files, _Atomic size_t *at)
{
	for (*at = 0; *at < files->found.gl_pathc; (*at)++)
		runs_file(files->found.gl_pathv[*at]);
	_exit(runs_leak() ? 1 : 0);
}

static bool
runs_files_in_child(const struct runs_files *files)
{
	_Atomic size_t *at = mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = -1;
	pid_t child;

	FUZZ_CHECK(at != MAP_FAILED);
	fflush(NULL);
	child = fork();
	FUZZ_CHECK(child >= 0);
	if (child == 0)
		runs_files_child(files, at);
	FUZZ_CHECK(waitpid(child, &status, 0) == child);
	if (status != 0 && *at < files->found.gl_pathc)
		fprintf(stderr, "\nfailed; to repeat it: XK_FUZZ_INPUT=%s\n", files->found.gl_pathv[*at]);
	munmap((void *)at, sizeof(*at));
	return status == 0;
}

bool
fuzz_corpus(const char *name)
{
	const char *only = getenv("XK_FUZZ_INPUT");
	struct runs_files files;
	bool good;

	if (only != NULL) {
		runs_file(only);
		return true;
	}
	runs_find(&files, name);
	good = files.found.gl_pathc > 0 && runs_files_in_child(&files);
	if (files.found.gl_pathc == 0)
		fprintf(stderr, "no file in tests/fuzz/corpus/%s\n", name);
	else
		globfree(&files.found);
	return good;
}

static size_t
runs_damage_bytes(uint8_t *input, size_t len, uint64_t *random)
{
	size_t at = fuzz_random(random) % len, count = 1 + fuzz_random(random) % RUNS_DAMAGE_LONGEST;

	count = count < len - at ? count : len - at;
	switch (fuzz_random(random) % 4) {
	case 0:
		memmove(input + at, input + at + count, len - at - count);
		return len - count;
	case 1:
		memset(input + at, fuzz_random(random) % 2 == 0 ? 0 : 0xff, count);
		return len;
	case 2:
		input[at] = (uint8_t)fuzz_random(random);
		return len;
	default:
		input[at] ^= (uint8_t)(1u << fuzz_random(random) % 8);
		return len;
	}
}

size_t
fuzz_corpus_damaged(const char *name, uint8_t *input, size_t max, uint64_t seed)
{
	struct runs_files files;
	uint8_t *bytes;
	size_t len;

	runs_find(&files, name);
	FUZZ_CHECK(files.found.gl_pathc > 0);
	bytes = runs_read(files.found.gl_pathv[fuzz_random(&seed) % files.found.gl_pathc], &len);
	globfree(&files.found);
	len = len < max ? len : max;
	memcpy(input, bytes, len);
	free(bytes);
	for (uint64_t changes = 1 + fuzz_random(&seed) % RUNS_DAMAGE; changes > 0 && len > 0; changes--)
		len = runs_damage_bytes(input, len, &seed);
	return len;
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
