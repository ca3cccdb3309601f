/*
 * estimate.h - the mean and the mean deviation of samples, and what they hardly ever exceed: Jacobson, "Congestion
 * avoidance and control" (1988).
 */
#ifndef XK_ESTIMATE_H
#define XK_ESTIMATE_H

#include <stdint.h>

/* In the unit of the samples. Mean 0: there is no sample yet. */
struct xk_estimate {
	uint32_t mean, deviation;
};

/* Adds a sample; 0 counts as 1. Its user serialises the calls. */
static inline void
xk_estimate_add(struct xk_estimate *estimate, uint32_t sample)
{
	int64_t error = (int64_t)sample - estimate->mean, deviation = estimate->deviation;

	if (estimate->mean == 0) {
		estimate->mean = sample == 0 ? 1 : sample;
		estimate->deviation = estimate->mean / 2;
		return;
	}
	estimate->mean = (uint32_t)(estimate->mean + error / 8);
	estimate->mean += estimate->mean == 0;
	estimate->deviation = (uint32_t)(deviation + ((error < 0 ? -error : error) - deviation) / 4);
}

/* Returns what samples hardly ever exceed. 0: there is none yet. */
static inline uint64_t
xk_estimate_bound(const struct xk_estimate *estimate)
{
	return estimate->mean + 4 * (uint64_t)estimate->deviation;
}

#endif
