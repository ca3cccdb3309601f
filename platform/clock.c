/* clock.c - see clock.h. */
#include "platform/clock.h"

#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { CLOCK_TRIES = 16, CLOCK_NAP_NS = 1000 * 1000 };

static uint64_t
clock_get_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t
clock_system_ns(void)
{
	return clock_get_ns(CLOCK_MONOTONIC);
}

/* Keeps the fastest of several readings: the least likely to have been interrupted between the two clocks. */
void
clock_read(struct clock_pair *pair)
{
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < CLOCK_TRIES; i++) {
		uint64_t before = clock_ticks(), ns = clock_get_ns(CLOCK_MONOTONIC_RAW), after = clock_ticks();

		if (after - before < best) {
			best = after - before;
			pair->ticks = before + best / 2;
			pair->ns = ns;
		}
	}
}

/* Returns true if the counter's rate is constant in every power state. */
static bool
clock_is_steady(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1u << 8) != 0;
#else
	return true;
#endif
}

void
clock_calibrate(struct clock *clock, const struct clock_pair *earlier, uint64_t span_ns)
{
	static const struct timespec nap = { 0, CLOCK_NAP_NS };
	struct clock_pair now;

	for (clock_read(&now); now.ns - earlier->ns < span_ns; clock_read(&now))
		nanosleep(&nap, NULL);
	clock->start_ticks = now.ticks;
	clock->start_ns = now.ns;
	clock->has_counter = clock_is_steady() && now.ticks > earlier->ticks;
	if (clock->has_counter)
		clock->scale =
			(uint64_t)(((unsigned __int128)(now.ns - earlier->ns) << 32) / (now.ticks - earlier->ticks));
}
