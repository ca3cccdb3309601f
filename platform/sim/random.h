/*
 * random.h - random numbers that are the same on every machine: xoshiro256** (Blackman and Vigna), seeded by
 * splitmix64.
 *
 * The simulated world uses it for links' faults and hosts' xk_random; protocols use xkernel/support/chance.h. Another
 * generator in either would change the run of every seed.
 */
#ifndef XK_SIM_RANDOM_H
#define XK_SIM_RANDOM_H

#include "xkernel/support/chance.h"

struct sim_random {
	uint64_t s[4];
};

static inline uint64_t
sim_random_rotate(uint64_t x, unsigned by)
{
	return x << by | x >> (64 - by);
}

static inline void
sim_random_init(struct sim_random *random, uint64_t seed)
{
	struct xk_chance splitmix = { seed };

	for (unsigned i = 0; i < 4; i++)
		random->s[i] = xk_chance_next(&splitmix);
}

static inline uint64_t
sim_random_next(struct sim_random *random)
{
	uint64_t *s = random->s, result = sim_random_rotate(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = sim_random_rotate(s[3], 45);
	return result;
}

/* Returns a number from 0 to bound - 1, or 0 if bound is 0. */
static inline uint64_t
sim_random_below(struct sim_random *random, uint64_t bound)
{
	return (uint64_t)((unsigned __int128)sim_random_next(random) * bound >> 64);
}

/* Returns true with a probability in units of 2^-32. Draws nothing if that is 0 or 1. */
static inline bool
sim_random_hits(struct sim_random *random, uint64_t probability)
{
	if (probability == 0 || probability >= UINT64_C(1) << 32)
		return probability != 0;
	return (sim_random_next(random) >> 32) < probability;
}

#endif
