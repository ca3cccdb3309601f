/* histogram.c - see histogram.h. */
#include "tools/histogram.h"

#include <string.h>

#include "tools/json.h"

#define HISTOGRAM_MAX ((UINT64_C(1) << HISTOGRAM_BITS) - 1)

static unsigned
histogram_bucket(uint64_t ns)
{
	unsigned bits = 64 - (unsigned)__builtin_clzll(ns | 1);
	unsigned shift = bits <= HISTOGRAM_FINE_BITS + 1 ? 0 : bits - HISTOGRAM_FINE_BITS - 1;

	return (shift << HISTOGRAM_FINE_BITS) + (unsigned)(ns >> shift);
}

/* Returns the middle of a bucket. */
static uint64_t
histogram_value(unsigned bucket)
{
	unsigned shift = bucket >> HISTOGRAM_FINE_BITS;
	uint64_t low;

	shift = shift == 0 ? 0 : shift - 1;
	low = (uint64_t)(bucket - (shift << HISTOGRAM_FINE_BITS)) << shift;
	return low + (((UINT64_C(1) << shift) - 1) / 2);
}

void
histogram_init(struct histogram *h)
{
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

void
histogram_add(struct histogram *h, uint64_t ns)
{
	if (ns > HISTOGRAM_MAX)
		ns = HISTOGRAM_MAX;
	h->buckets[histogram_bucket(ns)]++;
	h->count++;
	h->sum += ns;
	if (ns < h->min)
		h->min = ns;
	if (ns > h->max)
		h->max = ns;
}

void
histogram_merge(struct histogram *into, const struct histogram *from)
{
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
	into->count += from->count;
	into->sum += from->sum;
	if (from->min < into->min)
		into->min = from->min;
	if (from->max > into->max)
		into->max = from->max;
}

uint64_t
histogram_percentile(const struct histogram *h, double percent)
{
	double want = (double)h->count * percent / 100.0;
	uint64_t seen = 0;

	if (h->count == 0)
		return 0;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen > 0 && (double)seen >= want) {
			uint64_t ns = histogram_value(i);

			return ns < h->min ? h->min : ns > h->max ? h->max : ns;
		}
	}
	return h->max;
}

uint64_t
histogram_mean(const struct histogram *h)
{
	return h->count == 0 ? 0 : h->sum / h->count;
}

void
histogram_json(const struct histogram *h, struct json *json, const char *key)
{
	json_object(json, key);
	json_uint(json, "min", h->count == 0 ? 0 : h->min);
	json_uint(json, "p50", histogram_percentile(h, 50));
	json_uint(json, "p90", histogram_percentile(h, 90));
	json_uint(json, "p99", histogram_percentile(h, 99));
	json_uint(json, "max", h->max);
	json_uint(json, "mean", histogram_mean(h));
}
