/*
 * clock.c - nanoseconds from the processor's counter, its rate measured against CLOCK_MONOTONIC. Starting DPDK takes
 * 0.1 s, which is time enough to know the rate to a millionth; DPDK's own figure is rounded to 10 MHz.
 */
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "platform/dpdk/inside.h"

enum { DPDK_CLOCK_TRIES = 16, DPDK_CLOCK_SPAN_NS = 80 * 1000 * 1000 };

static uint64_t
dpdk_clock_system_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Of several readings the one that took least: nobody came between its two clocks. */
void
dpdk_clock_read(struct dpdk_clock_pair *pair)
{
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < DPDK_CLOCK_TRIES; i++) {
		uint64_t before = rte_rdtsc_precise(), ns = dpdk_clock_system_ns();
		uint64_t after = rte_rdtsc_precise();

		if (after - before < best) {
			best = after - before;
			pair->ticks = before + best / 2;
			pair->ns = ns;
		}
	}
}

/* Whether the counter runs at one rate whatever the processor does. */
static bool
dpdk_clock_is_steady(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1u << 8) != 0;
#else
	return true;
#endif
}

void
dpdk_clock_calibrate(struct dpdk_clock *clock, const struct dpdk_clock_pair *earlier)
{
	struct dpdk_clock_pair now;
	struct timespec pause = { 0, 10 * 1000 * 1000 };

	for (dpdk_clock_read(&now); now.ns - earlier->ns < DPDK_CLOCK_SPAN_NS; dpdk_clock_read(&now))
		nanosleep(&pause, NULL);
	clock->start_ticks = now.ticks;
	clock->start_ns = now.ns;
	clock->has_counter = dpdk_clock_is_steady() && now.ticks > earlier->ticks;
	if (clock->has_counter)
		clock->scale = ((now.ns - earlier->ns) << 32) / (now.ticks - earlier->ticks);
}

uint64_t
dpdk_clock_now_ns(const struct dpdk_clock *clock)
{
	if (xk_unlikely(!clock->has_counter))
		return dpdk_clock_system_ns();
	return clock->start_ns + (uint64_t)((unsigned __int128)(rte_rdtsc() - clock->start_ticks) * clock->scale >> 32);
}
