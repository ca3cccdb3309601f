/*
 * chance.h - random numbers for protocols that inject faults: the same everywhere for the same seed.
 *
 * splitmix64 (Steele, Lea and Flood, 2014): one word of state, so that each instance has its own stream. Not for
 * secrets: use xk_random (process.h). The simulated world has its own generator (platform/sim/random.h), which
 * protocols must not depend on.
 */
#ifndef XK_CHANCE_H
#define XK_CHANCE_H

#include "xkernel/base.h"

struct xk_chance {
	uint64_t state;
};

static inline uint64_t
xk_chance_next(struct xk_chance *chance)
{
	uint64_t z = chance->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* Initializes one of a seed's independent streams. */
static inline void
xk_chance_init(struct xk_chance *chance, uint64_t seed, uint64_t stream)
{
	chance->state = seed;
	chance->state = xk_chance_next(chance) + stream;
	chance->state = xk_chance_next(chance);
}

/* Returns a number from 0 to bound - 1; 0 if bound is 0. */
static inline uint64_t
xk_chance_below(struct xk_chance *chance, uint64_t bound)
{
	return (uint64_t)((unsigned __int128)xk_chance_next(chance) * bound >> 64);
}

/* Returns true with a probability in parts of 2^32 (XK_SETTING_PROBABILITY); draws nothing if never or always. */
static inline bool
xk_chance_hits(struct xk_chance *chance, uint64_t probability)
{
	if (probability == 0 || probability >= UINT64_C(1) << 32)
		return probability != 0;
	return xk_chance_next(chance) >> 32 < probability;
}

#endif
