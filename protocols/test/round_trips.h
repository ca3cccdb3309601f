/*
 * round_trips.h - how long the round trips of a test protocol's run have taken: the shortest, the mean and the longest.
 */
#ifndef XK_ROUND_TRIPS_H
#define XK_ROUND_TRIPS_H

#include "xkernel/protocol.h"

struct round_trips {
	uint64_t count, sum_ns, min_ns, max_ns; /* all 0 before the first */
};

static inline void
round_trips_add(struct round_trips *trips, uint64_t rtt_ns)
{
	if (trips->count == 0 || rtt_ns < trips->min_ns)
		trips->min_ns = rtt_ns;
	if (rtt_ns > trips->max_ns)
		trips->max_ns = rtt_ns;
	trips->sum_ns += rtt_ns;
	trips->count++;
}

/* 0 without any. */
static inline uint64_t
round_trips_mean_ns(const struct round_trips *trips)
{
	return trips->count == 0 ? 0 : trips->sum_ns / trips->count;
}

/* Of a run that has ended: into three counters of p that follow one another, rtt_min_ns, rtt_mean_ns and rtt_max_ns. */
static inline void
round_trips_tell(const struct round_trips *trips, struct xk_protocol *p, unsigned first)
{
	xk_counter_set(p, first, trips->min_ns);
	xk_counter_set(p, first + 1, round_trips_mean_ns(trips));
	xk_counter_set(p, first + 2, trips->max_ns);
}

#endif
