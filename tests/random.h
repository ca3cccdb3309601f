/*
 * random.h - numbers for tests that try what nobody thought of: xorshift, so that a test draws the same everywhere and
 * owes nothing to the generators that are tested.
 */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The next of the numbers that follow state, which is not 0. */
static inline uint64_t
next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Another seed each time, which is printed; XK_TEST_SEED in the environment sets it. */
static inline unsigned
seed_of(const char *test)
{
	const char *given = getenv("XK_TEST_SEED");
	unsigned seed = given == NULL ? (unsigned)time(NULL) : (unsigned)strtoul(given, NULL, 10);

	printf("\n  %s: seed %u ", test, seed);
	return seed;
}

#endif
