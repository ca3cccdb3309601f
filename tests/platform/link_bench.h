/* link_bench.h - for tests of the link model: a link, frames that stations send, and their recorded fates. */
#ifndef TESTS_LINK_BENCH_H
#define TESTS_LINK_BENCH_H

#include "platform/sim/link.h"
#include "tests/test.h"
#include "xkernel/bytes.h"

enum { LEN_MAX = 10000, ARRIVALS_MAX = 4096, GROUP = -1 };

/* A link under test, and its reports. */
struct bench {
	struct sim_link_config config;
	struct sim_link *link;
	unsigned station_count;
	struct sim_arrival arrivals[ARRIVALS_MAX];
	unsigned count;
};

static inline uint64_t
address_of(unsigned station)
{
	return UINT64_C(0x020000000001) + station;
}

static inline struct bench *
bench_new(const struct sim_link_config *config, unsigned stations, uint64_t seed)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	REQUIRE(bench != NULL);
	bench->config = *config;
	bench->link = sim_link_new(config, seed);
	REQUIRE(bench->link != NULL);
	bench->station_count = stations;
	for (unsigned i = 0; i < stations; i++)
		CHECK_EQ(sim_link_join(bench->link, address_of(i)), i);
	return bench;
}

static inline struct bench *
bench_preset(const char *name, unsigned stations)
{
	const struct sim_link_preset *preset = sim_link_preset_find(name);

	REQUIRE(preset != NULL);
	return bench_new(&preset->config, stations, 1);
}

/*
 * Frees the bench. Checks that every frame begun was delivered to each receiver or lost by name, and that counts agree.
 */
static inline void
bench_free(struct bench *bench)
{
	const struct sim_link_counts *counts = sim_link_counts_of(bench->link);
	unsigned lost = 0;

	for (unsigned i = 0; i < bench->count; i++)
		lost += bench->arrivals[i].lost;
	if (bench->count < ARRIVALS_MAX) {
		CHECK_EQ(counts->delivered, bench->count - lost);
		CHECK_EQ(counts->loss + counts->cut + counts->queue + counts->mtu, lost);
	}
	sim_link_free(bench->link);
	free(bench);
}

/* A test of the link nano(kind) with a change: an assignment to config's members. */
#define BENCH_TEST(name, kind, change, stations, seed)                                                                 \
	TEST_WITH(name, struct bench *bench, ({                                                                        \
			  struct sim_link_config config = nano(kind);                                                  \
			  change;                                                                                      \
			  bench_new(&config, stations, seed);                                                          \
		  }),                                                                                                  \
		  bench_free)

static inline void
bench_arrive(void *context, const struct sim_arrival *arrival)
{
	struct bench *bench = context;

	xk_assert(arrival->station < bench->station_count);
	if (bench->count < ARRIVALS_MAX)
		bench->arrivals[bench->count++] = *arrival;
}

static inline const uint8_t *
frame_to(int to, unsigned from)
{
	static uint8_t frame[LEN_MAX + 64];

	xk_put48(frame, to == GROUP ? UINT64_C(0xffffffffffff) : address_of((unsigned)to));
	xk_put48(frame + 6, address_of(from));
	return frame;
}

/* Gives the link a frame. Returns the time at which its transmission begins. */
static inline uint64_t
give(struct bench *bench, unsigned from, int to, size_t len, uint64_t now_ns)
{
	return sim_link_send(bench->link, from, frame_to(to, from), len, now_ns, bench_arrive, bench);
}

static inline void
begin(struct bench *bench, unsigned from, int to, size_t len, uint64_t at_ns)
{
	sim_link_begin(bench->link, from, frame_to(to, from), len, at_ns, bench_arrive, bench);
}

/* Sends a frame and begins it at once even if it has to wait. For frames without events in between. */
static inline void
send_one(struct bench *bench, unsigned from, int to, size_t len, uint64_t now_ns)
{
	uint64_t at_ns = give(bench, from, to, len, now_ns);

	if (at_ns > now_ns)
		begin(bench, from, to, len, at_ns);
}

static inline const struct sim_arrival *
arrival(const struct bench *bench, unsigned i)
{
	REQUIRE(i < bench->count);
	return &bench->arrivals[i];
}

/* Returns the fault's name for comparison; "": none. */
static inline const char *
fault_of(const struct sim_arrival *a)
{
	return a->fault == NULL ? "" : a->fault;
}

#define CHECK_ARRIVAL(bench, i, station_, at_ns_)                                                                      \
	do {                                                                                                           \
		CHECK_EQ(arrival(bench, i)->station, station_);                                                        \
		CHECK_EQ(arrival(bench, i)->at_ns, at_ns_);                                                            \
		CHECK(arrival(bench, i)->fault == NULL && !arrival(bench, i)->lost);                                   \
	} while (0)

#define CHECK_LOST(bench, i, station_, fault_)                                                                         \
	do {                                                                                                           \
		CHECK_EQ(arrival(bench, i)->station, station_);                                                        \
		CHECK_STR(fault_of(arrival(bench, i)), fault_);                                                        \
		CHECK(arrival(bench, i)->lost);                                                                        \
	} while (0)

static inline const struct sim_link_counts *
counts_of(const struct bench *bench)
{
	return sim_link_counts_of(bench->link);
}

/* 8 Gb/s: a byte takes a nanosecond. */
static inline struct sim_link_config
nano(enum sim_link_kind kind)
{
	return (struct sim_link_config){
		.kind = kind, .rate = UINT64_C(8000000000), .latency_ns = 1000, .mtu = 1500, .queue = 16
	};
}

static inline struct bench *
bench_nano(enum sim_link_kind kind, unsigned stations)
{
	struct sim_link_config config = nano(kind);

	return bench_new(&config, stations, 1);
}

#endif
