/*
 * random.h - random numbers for tests: xorshift, so that a test draws the same numbers on every machine and is
 * independent of the generators under test.
 */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns the next random number. *state must not be 0. */
static inline uint64_t
next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Prints and returns a test's seed: XK_TEST_SEED, or else 1, so that runs can be compared. */
static inline unsigned
test_seed(const char *test)
{
	const char *given = getenv("XK_TEST_SEED");
	unsigned seed = given == NULL ? 1 : (unsigned)strtoul(given, NULL, 10);

	printf("\n  %s: seed %u ", test, seed);
	return seed;
}

#endif
