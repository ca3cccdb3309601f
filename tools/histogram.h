/*
 * histogram.h - counts times in nanoseconds in bounded memory: log-linear buckets (128 per doubling, so a quantile is
 * off by less than 0.8 per cent), exact minimum, maximum and mean. A histogram is plain memory: it may be copied and
 * sent to another process of the same program.
 */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

struct json;

enum {
	HISTOGRAM_FINE_BITS = 7, /* each value below 2^7 has a bucket of its own */
	HISTOGRAM_BITS = 40,     /* longer times (18 minutes) are counted as the longest */
	HISTOGRAM_BUCKETS = (HISTOGRAM_BITS - HISTOGRAM_FINE_BITS + 1) << HISTOGRAM_FINE_BITS,
};

struct histogram {
	uint64_t count, sum, min, max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Empties h. */
void histogram_init(struct histogram *h);

/* Counts one time. */
void histogram_add(struct histogram *h, uint64_t ns);

/* Adds the counts of `from` to `into`. */
void histogram_merge(struct histogram *into, const struct histogram *from);

/* Returns the time that `percent` (0 to 100) of all times do not exceed, within min and max; 0 if none was counted. */
uint64_t histogram_percentile(const struct histogram *h, double percent);

/* Returns 0 if nothing was counted. */
uint64_t histogram_mean(const struct histogram *h);

/* Opens an object under key: min, p50, p90, p99, max, mean. The caller closes it, and may add to it. */
void histogram_json(const struct histogram *h, struct json *json, const char *key);

#endif
