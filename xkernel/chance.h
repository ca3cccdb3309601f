/*
 * chance.h - what protocols draw faults from: numbers that are the same everywhere for the same seed.
 *
 * splitmix64 (Steele, Lea and Flood, 2014): a word of state, so that each instance has a stream of its own, on every
 * platform. Not for what must not be guessed; that is xk_random (process.h). The simulated world has its own generator
 * (platform/sim/random.h), which protocols must not depend on.
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

/* One seed has many streams, which have nothing to do with one another. */
static inline void
xk_chance_init(struct xk_chance *chance, uint64_t seed, uint64_t stream)
{
	chance->state = seed;
	chance->state = xk_chance_next(chance) + stream;
	chance->state = xk_chance_next(chance);
}

/* One of 0 ... bound - 1; bound 0 gives 0. */
static inline uint64_t
xk_chance_below(struct xk_chance *chance, uint64_t bound)
{
	return (uint64_t)((unsigned __int128)xk_chance_next(chance) * bound >> 64);
}

/* True with a probability in parts of 2^32 (XK_SETTING_PROBABILITY). Draws nothing where that is never or always. */
static inline bool
xk_chance_hits(struct xk_chance *chance, uint64_t probability)
{
	if (probability == 0 || probability >= UINT64_C(1) << 32)
		return probability != 0;
	return xk_chance_next(chance) >> 32 < probability;
}

#endif
