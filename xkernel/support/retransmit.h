/*
 * retransmit.h - times retransmissions: round trips, the timeout computed from them, and the timeouts of a message. RFC
 * 6298; Jacobson, "Congestion avoidance and control" (1988); Karn and Partridge, "Improving round-trip time estimates
 * in reliable transport protocols" (1987).
 *
 *	struct xk_timeouts timeouts;		of a protocol: its settings
 *	struct xk_round_trip round_trip;	of a conversation
 *	struct xk_retry retry;			of a message, or of the oldest of a window
 *
 *	xk_round_trip_init(&s->round_trip, &self->timeouts);
 *
 *	xk_retry_begin(&s->retry, s->round_trip.timeout_ns, now_ns);		sent for the first time
 *	xk_alarm_set(&s->alarm, s->retry.due_ns);				(alarm.h)
 *
 *	if (now_ns >= s->retry.due_ns) {					in the alarm's handler
 *		xk_round_trip_timed_out(&s->round_trip, &s->retry, &self->timeouts, now_ns);
 *		xk_alarm_set(&s->alarm, s->retry.due_ns);
 *	}
 *
 *	if (s->retry.tries == 0)						answered
 *		xk_round_trip_measure(&s->round_trip, &self->timeouts, now_ns - s->retry.begun_ns);
 *
 * The message itself stays with the protocol. Users serialize the calls.
 */
#ifndef XK_RETRANSMIT_H
#define XK_RETRANSMIT_H

#include <stdint.h>

/* ---- estimates ---- */

/* The mean and mean deviation of samples, in their unit. Mean 0: there is no sample yet. */
struct xk_estimate {
	uint32_t mean, deviation;
};

/* Adds a sample; 0 counts as 1. */
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

/* Returns a bound that samples rarely exceed; 0: there is no sample yet. */
static inline uint64_t
xk_estimate_bound(const struct xk_estimate *estimate)
{
	return estimate->mean + 4 * (uint64_t)estimate->deviation;
}

/* ---- the timeout of a conversation ---- */

/* A protocol's timeouts: the first, before any round trip is measured; the shortest measured one; and the longest. */
struct xk_timeouts {
	uint64_t first_ns, min_ns, max_ns;
};

struct xk_round_trip {
	struct xk_estimate us;
	uint64_t timeout_ns; /* of what is sent now */
};

static inline void
xk_round_trip_init(struct xk_round_trip *round_trip, const struct xk_timeouts *timeouts)
{
	*round_trip = (struct xk_round_trip){ { 0, 0 }, timeouts->first_ns };
}

/*
 * Adapts the timeout to a round trip of sample_ns. Only for messages that were sent once: the answer to a retransmitted
 * one may be to any copy. After a timeout, the longer one stays until a message sent once is answered.
 */
static inline void
xk_round_trip_measure(struct xk_round_trip *round_trip, const struct xk_timeouts *timeouts, uint64_t sample_ns)
{
	uint64_t most_us = UINT32_MAX / 16, sample_us = sample_ns / 1000 + (sample_ns % 1000 != 0);
	uint64_t timeout_ns;

	xk_estimate_add(&round_trip->us, (uint32_t)(sample_us < most_us ? sample_us : most_us));
	timeout_ns = xk_estimate_bound(&round_trip->us) * 1000;
	if (timeout_ns < timeouts->min_ns)
		timeout_ns = timeouts->min_ns;
	round_trip->timeout_ns = timeout_ns < timeouts->max_ns ? timeout_ns : timeouts->max_ns;
}

/* ---- the timeouts of a message ---- */

struct xk_retry {
	uint64_t begun_ns;   /* when it was first sent or, for a window, when its oldest message changed */
	uint64_t timeout_ns; /* doubled by each timeout */
	uint64_t due_ns;     /* time of the next timeout */
	uint32_t tries;      /* timeouts so far */
};

/* Begins with a message that is sent for the first time, at now_ns. */
static inline void
xk_retry_begin(struct xk_retry *retry, uint64_t timeout_ns, uint64_t now_ns)
{
	*retry = (struct xk_retry){ now_ns, timeout_ns, now_ns + timeout_ns, 0 };
}

/* Counts a timeout at now_ns, and doubles the time until the next, up to max_ns. */
static inline void
xk_retry_again(struct xk_retry *retry, uint64_t max_ns, uint64_t now_ns)
{
	retry->tries++;
	retry->timeout_ns = retry->timeout_ns < max_ns / 2 ? retry->timeout_ns * 2 : max_ns;
	retry->due_ns = now_ns + retry->timeout_ns;
}

/* The same, for a message whose conversation has a measured timeout: the longer one then holds for all its messages. */
static inline void
xk_round_trip_timed_out(struct xk_round_trip *round_trip, struct xk_retry *retry, const struct xk_timeouts *timeouts,
			uint64_t now_ns)
{
	xk_retry_again(retry, timeouts->max_ns, now_ns);
	round_trip->timeout_ns = retry->timeout_ns;
}

#endif
