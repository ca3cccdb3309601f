/*
 * test_link.c - the model of a link: times, turns, queues, faults, and that a seed repeats all of it. Expected times
 * are worked out by hand in the comments beside them.
 */
#include <errno.h>
#include <stdlib.h>

#include "platform/sim/link.h"
#include "platform/sim/random.h"
#include "tests/test.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum { LEN_MAX = 10000, ARRIVALS_MAX = 4096, GROUP = -1 };

/* A link under test, and what it has told. */
struct bench {
	struct sim_link_config config;
	struct sim_link *link;
	unsigned station_count;
	struct sim_arrival arrivals[ARRIVALS_MAX];
	unsigned count;
};

static uint64_t
address_of(unsigned station)
{
	return UINT64_C(0x020000000001) + station;
}

static struct bench *
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

static struct bench *
bench_preset(const char *name, unsigned stations)
{
	const struct sim_link_preset *preset = sim_link_preset_find(name);

	REQUIRE(preset != NULL);
	return bench_new(&preset->config, stations, 1);
}

/* Every frame that began came to each receiver or was lost by name; other than that, nothing was counted. */
static void
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

static void
bench_arrive(void *context, const struct sim_arrival *arrival)
{
	struct bench *bench = context;

	xk_assert(arrival->station < bench->station_count);
	if (bench->count < ARRIVALS_MAX)
		bench->arrivals[bench->count++] = *arrival;
}

static const uint8_t *
frame_to(int to, unsigned from)
{
	static uint8_t frame[LEN_MAX + 64];

	xk_put48(frame, to == GROUP ? UINT64_C(0xffffffffffff) : address_of((unsigned)to));
	xk_put48(frame + 6, address_of(from));
	return frame;
}

/* When the frame begins. */
static uint64_t
give(struct bench *bench, unsigned from, int to, size_t len, uint64_t now_ns)
{
	return sim_link_send(bench->link, from, frame_to(to, from), len, now_ns, bench_arrive, bench);
}

static void
begin(struct bench *bench, unsigned from, int to, size_t len, uint64_t at_ns)
{
	sim_link_begin(bench->link, from, frame_to(to, from), len, at_ns, bench_arrive, bench);
}

/* Sends, and begins at once what has to wait. For what nothing else happens in between. */
static void
send_one(struct bench *bench, unsigned from, int to, size_t len, uint64_t now_ns)
{
	uint64_t at_ns = give(bench, from, to, len, now_ns);

	if (at_ns > now_ns)
		begin(bench, from, to, len, at_ns);
}

static const struct sim_arrival *
arrival(const struct bench *bench, unsigned i)
{
	REQUIRE(i < bench->count);
	return &bench->arrivals[i];
}

/* For comparing. */
static const char *
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

static const struct sim_link_counts *
counts_of(const struct bench *bench)
{
	return sim_link_counts_of(bench->link);
}

/* 8 Gb/s: a byte takes a nanosecond. */
static const struct sim_link_config nano_wire = {
	.kind = "wire", .rate = UINT64_C(8000000000), .latency_ns = 1000, .mtu = 1500, .queue = 16
};

static struct sim_link_config
nano(const char *kind)
{
	struct sim_link_config config = nano_wire;

	config.kind = kind;
	return config;
}

/* ---- times ---- */

TEST(each_preset_sends_as_fast_as_worked_out_by_hand)
{
	static const struct {
		const char *preset;
		size_t len;
		uint64_t ns;
	} cases[] = {
		/* (8 + 60 + 4) * 800 ns: published as 115 us both ways; (8 + 1514 + 4) * 800 ns: as 2442 us */
		{ "ethernet10", 60, 57600 },
		{ "ethernet10", 1514, 1220800 },
		/* padded */
		{ "ethernet10", 43, 57600 },
		{ "ethernet10", 14, 57600 },
		{ "ethernet10", 61, 58400 },
		/* (60 + 22) * 80 ns: published as 13 us both ways; (1514 + 22) * 80 ns: as 245 us */
		{ "fddi", 60, 6560 },
		{ "fddi", 1514, 122880 },
		{ "fddi", 4366, 351040 },
		/* one cell: 424 bits at 140 Mb/s are 3028.57 ns: published as 6 us both ways */
		{ "atm140", 40, 3029 },
		{ "atm140", 14, 3029 },
		/* 41 + 8 bytes are two cells: 6057.14 ns */
		{ "atm140", 41, 6058 },
		{ "atm140", 88, 6058 },
		{ "atm140", 89, 9086 },
		/* 1384 + 8 bytes are 29 cells, 1537 bytes: 87828.57 ns: published as 176 us both ways */
		{ "atm140", 1384, 87829 },
		/* 9194 + 8 bytes are 192 cells, 81408 bits: 581485.7 ns */
		{ "atm140", 9194, 581486 },
		/* (60 + 2) * 6.25 ns, (1514 + 2) * 6.25 ns */
		{ "myrinet", 60, 388 },
		{ "myrinet", 1514, 9475 },
		{ "myrinet640", 60, 775 },
		{ "myrinet640", 1514, 18950 },
		{ "hub100", 60, 5760 },
		{ "hub100", 1514, 122080 },
		/* 57.6 ns, 1220.8 ns */
		{ "rack10g", 60, 58 },
		{ "rack10g", 1514, 1221 },
		/* 5.76 ns, 122.08 ns */
		{ "rack100g", 60, 6 },
		{ "rack100g", 1514, 123 },
		{ "wide", 60, 5760 },
		{ "wide", 1514, 122080 },
		{ "ideal", 60, 0 },
		{ "ideal", 1514, 0 },
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(cases); i++) {
		const struct sim_link_preset *preset = sim_link_preset_find(cases[i].preset);
		uint64_t ns;

		REQUIRE(preset != NULL);
		ns = sim_link_frame_ns(&preset->config, cases[i].len);
		if (ns != cases[i].ns)
			fprintf(stderr, "\n%s, %zu bytes\n", cases[i].preset, cases[i].len);
		CHECK_EQ(ns, cases[i].ns);
	}
}

TEST(a_frame_arrives_when_its_last_bit_has_come_through)
{
	static const struct {
		const char *preset;
		uint64_t first, second;
	} cases[] = {
		/* two frames of 60 bytes at once; the second begins after time and gap of the first */
		{ "ethernet10", 57600 + 1000, 57600 + 9600 + 57600 + 1000 },
		{ "fddi", 6560 + 1000, 2 * 6560 + 1000 },
		/* 68 bytes are two cells; both wires, but the time only once: cut through */
		{ "atm140", 6058 + 4000, 2 * 6058 + 4000 },
		{ "myrinet", 388 + 600, 2 * 388 + 600 },
		/* stored and forwarded: both wires with latency and time; the gap is 9.6 ns, rounded up */
		{ "rack10g", 2 * (58 + 250), 2 * (58 + 250) + 58 + 10 },
		{ "rack100g", 2 * (6 + 250), 2 * (6 + 250) + 6 + 1 },
		{ "wide", 5760 + 20000000, 5760 + 960 + 5760 + 20000000 },
		{ "ideal", 0, 0 },
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(cases); i++) {
		struct bench *bench = bench_preset(cases[i].preset, 2);

		send_one(bench, 0, 1, 60, 5000);
		send_one(bench, 0, 1, 60, 5000);
		CHECK_ARRIVAL(bench, 0, 1, 5000 + cases[i].first);
		CHECK_ARRIVAL(bench, 1, 1, 5000 + cases[i].second);
		bench_free(bench);
	}
}

TEST(presets_are_links_and_found_by_name)
{
	unsigned count = 0;

	for (const struct sim_link_preset *preset = sim_link_presets; preset->name != NULL; preset++, count++) {
		CHECK(sim_link_check(&preset->config) == NULL);
		CHECK(sim_link_preset_find(preset->name) == preset);
		REQUIRE(sim_link_preset_names[count] != NULL);
		CHECK_STR(sim_link_preset_names[count], preset->name);
		CHECK(preset->help[0] != '\0');
		CHECK(preset->config.loss == 0 && preset->config.corrupt == 0);
	}
	CHECK(sim_link_preset_names[count] == NULL);
	CHECK(sim_link_preset_find("token") == NULL);
	CHECK(sim_link_preset_find("") == NULL);
}

TEST(times_end_rather_than_begin_again)
{
	struct sim_link_config config = nano("wire");
	struct bench *bench;

	config.rate = 1000;
	config.latency_ns = 3600 * UINT64_C(1000000000);
	bench = bench_new(&config, 2, 1);
	send_one(bench, 0, 1, 1000, UINT64_MAX - 10);
	send_one(bench, 0, 1, 1000, UINT64_MAX - 5);
	CHECK_ARRIVAL(bench, 0, 1, (long long)UINT64_MAX);
	CHECK_ARRIVAL(bench, 1, 1, (long long)UINT64_MAX);
	bench_free(bench);
}

/* ---- turns ---- */

TEST(the_directions_of_a_wire_do_not_meet)
{
	struct bench *bench = bench_new(&nano_wire, 2, 1);

	send_one(bench, 0, 1, 100, 0);
	send_one(bench, 1, 0, 200, 0);
	send_one(bench, 0, 1, 100, 50);
	send_one(bench, 0, 1, 100, 1000);
	CHECK_ARRIVAL(bench, 0, 1, 1100);
	CHECK_ARRIVAL(bench, 1, 0, 1200);
	CHECK_ARRIVAL(bench, 2, 1, 1200);
	CHECK_ARRIVAL(bench, 3, 1, 2100);
	CHECK_EQ(counts_of(bench)->sent, 4);
	CHECK_EQ(counts_of(bench)->delivered, 4);
	bench_free(bench);
}

TEST(a_wire_has_two_ends)
{
	struct bench *bench = bench_new(&nano_wire, 2, 1);

	CHECK_EQ(sim_link_join(bench->link, address_of(2)), -ENOSPC);
	bench_free(bench);
}

TEST(what_shares_a_medium_takes_turns_as_it_came)
{
	struct sim_link_config config = nano("shared");
	struct bench *bench;

	config.frame_gap = 10;
	bench = bench_new(&config, 3, 1);
	CHECK_EQ(give(bench, 0, 1, 100, 0), 0);
	CHECK_EQ(give(bench, 1, 0, 200, 1), 110);
	CHECK_EQ(give(bench, 2, 0, 300, 2), 320);
	CHECK_EQ(give(bench, 0, 2, 100, 3), 630);
	CHECK_EQ(bench->count, 1);
	begin(bench, 1, 0, 200, 110);
	begin(bench, 2, 0, 300, 320);
	begin(bench, 0, 2, 100, 630);
	CHECK_ARRIVAL(bench, 0, 1, 1100);
	CHECK_ARRIVAL(bench, 1, 0, 1310);
	CHECK_ARRIVAL(bench, 2, 0, 1620);
	CHECK_ARRIVAL(bench, 3, 2, 1730);
	/* the gap is over at 740 */
	CHECK_EQ(give(bench, 0, 1, 100, 739), 740);
	CHECK_EQ(give(bench, 0, 1, 100, 850), 850);
	bench_free(bench);
}

TEST(a_switch_keeps_pairs_apart_and_queues_for_a_station)
{
	struct sim_link_config config = nano("switch");
	struct bench *bench = bench_new(&config, 4, 1);

	/* in the switch at 1100, at the station 100 + 1000 later */
	send_one(bench, 0, 1, 100, 0);
	send_one(bench, 2, 3, 100, 0);
	CHECK_ARRIVAL(bench, 0, 1, 2200);
	CHECK_ARRIVAL(bench, 1, 3, 2200);
	/* in the switch at 1110, behind the first, which leaves it from 1100 to 1200 */
	send_one(bench, 3, 1, 100, 10);
	CHECK_ARRIVAL(bench, 2, 1, 2300);
	/* station 1 sends all the while */
	send_one(bench, 1, 0, 100, 10);
	CHECK_ARRIVAL(bench, 3, 0, 2210);
	bench_free(bench);
}

TEST(a_long_queue_at_one_sender_does_not_stop_another)
{
	struct sim_link_config config = nano("switch");
	struct bench *bench = bench_new(&config, 3, 1);

	for (unsigned i = 0; i < 10; i++)
		CHECK_EQ(give(bench, 0, 2, 1000, 0), i * 1000);
	CHECK_EQ(bench->count, 1);
	CHECK_EQ(give(bench, 1, 2, 1000, 500), 500);
	/* the first is in the switch at 2000 and leaves it until 3000; the other's is in it at 2500 */
	CHECK_ARRIVAL(bench, 0, 2, 4000);
	CHECK_ARRIVAL(bench, 1, 2, 5000);
	begin(bench, 0, 2, 1000, 1000);
	CHECK_ARRIVAL(bench, 2, 2, 6000);
	for (unsigned i = 2; i < 10; i++)
		sim_link_withdraw(bench->link, 0);
	bench_free(bench);
}

TEST(a_switch_keeps_the_gap_between_frames)
{
	struct sim_link_config config = nano("switch");
	struct bench *bench;

	config.frame_gap = 7;
	bench = bench_new(&config, 3, 1);
	send_one(bench, 0, 2, 100, 0);
	send_one(bench, 1, 2, 100, 0);
	CHECK_ARRIVAL(bench, 0, 2, 2200);
	CHECK_ARRIVAL(bench, 1, 2, 2307);
	bench_free(bench);
}

TEST(a_switch_that_cuts_through_does_not_store)
{
	struct sim_link_config config = nano("switch");
	struct bench *bench;

	config.cut_through = true;
	bench = bench_new(&config, 3, 1);
	send_one(bench, 0, 1, 1000, 0);
	CHECK_ARRIVAL(bench, 0, 1, 3000);
	/* where the station is sent something already, it waits in the switch */
	send_one(bench, 2, 1, 100, 200);
	CHECK_ARRIVAL(bench, 1, 1, 3100);
	bench_free(bench);
}

/* ---- queues ---- */

TEST(a_station_has_room_for_its_queue)
{
	struct sim_link_config config = nano("wire");
	struct bench *bench;

	config.queue = 3;
	bench = bench_new(&config, 2, 1);
	CHECK_EQ(sim_link_room(bench->link, 0), 3);
	CHECK_EQ(give(bench, 0, 1, 100, 0), 0);
	CHECK_EQ(sim_link_room(bench->link, 0), 3);
	for (unsigned i = 1; i <= 3; i++) {
		CHECK_EQ(give(bench, 0, 1, 100, 0), i * 100);
		CHECK_EQ(sim_link_room(bench->link, 0), 3 - i);
	}
	CHECK_EQ(sim_link_room(bench->link, 1), 3);
	begin(bench, 0, 1, 100, 100);
	CHECK_EQ(sim_link_room(bench->link, 0), 1);
	sim_link_withdraw(bench->link, 0);
	CHECK_EQ(sim_link_room(bench->link, 0), 2);
	CHECK_EQ(counts_of(bench)->withdrawn, 1);
	/* a queue that has become shorter than what waits has no room */
	config.queue = 1;
	sim_link_configure(bench->link, &config);
	CHECK_EQ(sim_link_room(bench->link, 0), 0);
	begin(bench, 0, 1, 100, 300);
	CHECK_EQ(sim_link_room(bench->link, 0), 1);
	CHECK_EQ(counts_of(bench)->sent, 4);
	bench_free(bench);
}

TEST(a_full_queue_in_the_switch_loses_by_name)
{
	struct sim_link_config config = nano("switch");
	struct bench *bench;

	config.queue = 4;
	bench = bench_new(&config, 10, 1);
	/* eight at once: one leaves the switch from 1100 on, four wait, three are lost */
	for (unsigned i = 1; i <= 8; i++)
		send_one(bench, i, 0, 100, 0);
	for (unsigned i = 0; i < 5; i++)
		CHECK_ARRIVAL(bench, i, 0, 2200 + i * 100);
	for (unsigned i = 5; i < 8; i++)
		CHECK_LOST(bench, i, 0, "queue");
	CHECK_EQ(counts_of(bench)->queue, 3);
	/* in the switch at 1199, all wait still; at 1200 the second leaves */
	send_one(bench, 9, 0, 100, 99);
	CHECK_LOST(bench, 8, 0, "queue");
	send_one(bench, 1, 0, 100, 100);
	CHECK_ARRIVAL(bench, 9, 0, 2700);
	/* others do not wait for it */
	send_one(bench, 9, 1, 100, 200);
	CHECK_ARRIVAL(bench, 10, 1, 2400);
	bench_free(bench);
}

TEST(a_queue_in_the_switch_grows_to_its_length_and_empties)
{
	struct sim_link_config config = nano("switch");
	struct bench *bench;

	config.queue = 100;
	bench = bench_new(&config, 300, 1);
	for (unsigned round = 0; round < 3; round++) {
		uint64_t now_ns = round * UINT64_C(1000000) + round;
		unsigned first = bench->count;

		for (unsigned i = 1; i < 300; i++)
			send_one(bench, i, 0, 64, now_ns);
		for (unsigned i = 0; i < 101; i++)
			CHECK_ARRIVAL(bench, first + i, 0, now_ns + 2 * 1064 + i * 64);
		CHECK_EQ(counts_of(bench)->queue, (round + 1) * 198);
	}
	bench_free(bench);
}

TEST(a_queue_that_has_moved_on_grows_in_order)
{
	struct sim_link_config config = nano("switch");
	struct bench *bench;

	config.queue = 64;
	bench = bench_new(&config, 100, 1);
	/* seven wait; when five of them have left, and one more is leaving, sixty more come */
	for (unsigned i = 1; i <= 8; i++)
		send_one(bench, i, 0, 100, 0);
	for (unsigned i = 9; i < 69; i++)
		send_one(bench, i, 0, 100, 600);
	for (unsigned i = 0; i < 68; i++)
		CHECK_ARRIVAL(bench, i, 0, 2200 + i * 100);
	/* at 4800 there still wait those that leave from 4900 to 7800, thirty: room for thirty-four */
	for (unsigned i = 1; i < 40; i++)
		send_one(bench, i, 0, 100, 3700);
	for (unsigned i = 68; i < 102; i++)
		CHECK_ARRIVAL(bench, i, 0, 2200 + i * 100);
	CHECK_EQ(counts_of(bench)->queue, 5);
	bench_free(bench);
}

/* ---- addresses ---- */

TEST(a_broadcast_comes_to_all_but_its_sender)
{
	static const char *const kinds[] = { "wire", "shared", "switch" };

	for (unsigned k = 0; k < 3; k++) {
		struct sim_link_config config = nano(kinds[k]);
		unsigned stations = k == 0 ? 2 : 5, i = 0;
		struct bench *bench = bench_new(&config, stations, 1);

		send_one(bench, 1, GROUP, 100, 0);
		for (unsigned to = 0; to < stations; to++)
			if (to != 1) {
				CHECK_ARRIVAL(bench, i, to, k == 2 ? 2200 : 1100);
				i++;
			}
		CHECK_EQ(bench->count, i);
		CHECK_EQ(counts_of(bench)->sent, 1);
		CHECK_EQ(counts_of(bench)->delivered, stations - 1);
		bench_free(bench);
	}
}

TEST(a_multicast_is_told_by_its_lowest_bit)
{
	struct sim_link_config config = nano("switch");
	struct bench *bench = bench_new(&config, 3, 1);
	uint8_t frame[60] = { 0x01, 0x00, 0x5e, 0, 0, 1 };

	CHECK_EQ(sim_link_send(bench->link, 0, frame, sizeof(frame), 0, bench_arrive, bench), 0);
	CHECK_EQ(bench->count, 2);
	bench_free(bench);
}

TEST(a_frame_to_nobody_takes_its_time_and_is_counted)
{
	struct sim_link_config config = nano("shared");
	struct bench *bench = bench_new(&config, 2, 1);

	send_one(bench, 0, 7, 100, 0);
	send_one(bench, 0, 0, 100, 0);
	send_one(bench, 0, 1, 13, 0);
	CHECK_EQ(bench->count, 0);
	CHECK_EQ(counts_of(bench)->nobody, 3);
	send_one(bench, 1, 0, 100, 0);
	CHECK_ARRIVAL(bench, 0, 0, 1313);
	bench_free(bench);
}

TEST(addresses_are_one_stations)
{
	struct sim_link_config config = nano("switch");
	struct bench *bench = bench_new(&config, 2, 1);

	CHECK_EQ(sim_link_join(bench->link, address_of(1)), -EEXIST);
	CHECK_EQ(sim_link_join(bench->link, 0), -EINVAL);
	CHECK_EQ(sim_link_join(bench->link, UINT64_C(1) << 48), -EINVAL);
	CHECK_EQ(sim_link_join(bench->link, UINT64_C(0x010000000000)), -EINVAL);
	CHECK_EQ(sim_link_join(bench->link, UINT64_C(0xffffffffffff)), -EINVAL);
	CHECK_EQ(sim_link_join(bench->link, UINT64_C(0xfeffffffffff)), 2);
	CHECK_EQ(sim_link_join(bench->link, 1), 3);
	bench_free(bench);
}

TEST(ten_thousand_stations_with_any_addresses_are_told_apart)
{
	enum { COUNT = 10000 };
	struct sim_link_config config = nano("switch");
	struct bench *bench = bench_new(&config, 0, 1);
	static uint64_t addresses[COUNT];
	struct sim_random random;
	uint8_t frame[60] = { 0 };

	sim_random_init(&random, 5);
	for (unsigned i = 0; i < COUNT; i++) {
		addresses[i] = sim_random_next(&random) & UINT64_C(0xfeffffffffff);
		CHECK_EQ(sim_link_join(bench->link, addresses[i]), i);
	}
	bench->station_count = COUNT;
	for (unsigned i = 0; i < COUNT; i++) {
		xk_put48(frame, addresses[i]);
		bench->count = 0;
		CHECK_EQ(sim_link_send(bench->link, (i + 1) % COUNT, frame, 60, 0, bench_arrive, bench), 0);
		CHECK_ARRIVAL(bench, 0, i, 2120);
	}
	CHECK_EQ(counts_of(bench)->delivered, COUNT);
	bench->count = ARRIVALS_MAX;
	bench_free(bench);
}

TEST(a_link_is_full_with_65536_stations)
{
	struct sim_link_config config = nano("shared");
	struct bench *bench = bench_new(&config, 0, 1);

	for (unsigned i = 0; i < SIM_LINK_STATIONS_MAX; i++)
		REQUIRE(sim_link_join(bench->link, (uint64_t)(i + 1) << 16 & UINT64_C(0xfeffffffffff)) == (int)i);
	CHECK_EQ(sim_link_join(bench->link, 77), -ENOSPC);
	bench_free(bench);
}

/* ---- what is lost by intent ---- */

TEST(a_station_is_cut_off_in_each_direction_by_itself)
{
	struct bench *bench = bench_new(&nano_wire, 2, 1);

	sim_link_cut(bench->link, 0, true, false);
	send_one(bench, 0, 1, 100, 0);
	CHECK_LOST(bench, 0, 1, "cut");
	send_one(bench, 1, 0, 100, 0);
	CHECK_ARRIVAL(bench, 1, 0, 1100);
	sim_link_cut(bench->link, 0, false, true);
	/* what was sent in vain took no time */
	send_one(bench, 0, 1, 100, 0);
	CHECK_ARRIVAL(bench, 2, 1, 1100);
	send_one(bench, 1, 0, 100, 100);
	CHECK_LOST(bench, 3, 0, "cut");
	sim_link_cut(bench->link, 0, false, false);
	send_one(bench, 1, 0, 100, 200);
	CHECK_ARRIVAL(bench, 4, 0, 1300);
	CHECK_EQ(counts_of(bench)->cut, 2);
	bench_free(bench);
}

TEST(a_cut_takes_what_still_waits_but_not_what_is_under_way)
{
	struct bench *bench = bench_new(&nano_wire, 2, 1);

	CHECK_EQ(give(bench, 0, 1, 100, 0), 0);
	CHECK_EQ(give(bench, 0, 1, 100, 0), 100);
	sim_link_cut(bench->link, 0, true, true);
	begin(bench, 0, 1, 100, 100);
	CHECK_ARRIVAL(bench, 0, 1, 1100);
	CHECK_LOST(bench, 1, 1, "cut");
	bench_free(bench);
}

TEST(a_cut_is_told_for_each_receiver_of_a_broadcast)
{
	struct sim_link_config config = nano("shared");
	struct bench *bench = bench_new(&config, 4, 1);

	sim_link_cut(bench->link, 2, false, true);
	send_one(bench, 0, GROUP, 100, 0);
	CHECK_ARRIVAL(bench, 0, 1, 1100);
	CHECK_LOST(bench, 1, 2, "cut");
	CHECK_ARRIVAL(bench, 2, 3, 1100);
	sim_link_cut(bench->link, 0, true, false);
	send_one(bench, 0, GROUP, 100, 200);
	CHECK_EQ(counts_of(bench)->cut, 4);
	CHECK_EQ(bench->count, 6);
	bench_free(bench);
}

TEST(a_frame_longer_than_the_link_carries_is_lost_by_name)
{
	struct bench *bench = bench_new(&nano_wire, 2, 1);

	send_one(bench, 0, 1, 1514, 0);
	send_one(bench, 0, 1, 1515, 2000);
	CHECK_ARRIVAL(bench, 0, 1, 2514);
	CHECK_LOST(bench, 1, 1, "mtu");
	CHECK_EQ(counts_of(bench)->mtu, 1);
	bench_free(bench);
}

/* ---- faults ---- */

enum { FRAMES = 100000 };

/* Sends frames far enough apart that none waits. */
static void
send_many(struct bench *bench, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		send_one(bench, 0, 1, 100, i * UINT64_C(1000));
}

/* 1 % of 100,000 is 1,000; the standard deviation is 31.5, and so each seed's count is within 1,000 +- 160. */
TEST(faults_come_as_often_as_asked_and_are_counted)
{
	static const struct {
		size_t probability, count;
	} faults[] = {
		{ offsetof(struct sim_link_config, loss), offsetof(struct sim_link_counts, loss) },
		{ offsetof(struct sim_link_config, corrupt), offsetof(struct sim_link_counts, corrupt) },
		{ offsetof(struct sim_link_config, duplicate), offsetof(struct sim_link_counts, duplicate) },
		{ offsetof(struct sim_link_config, reorder), offsetof(struct sim_link_counts, reorder) },
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(faults); i++)
		for (uint64_t seed = 1; seed <= 3; seed++) {
			struct sim_link_config config = nano("wire");
			struct bench *bench;
			const struct sim_link_counts *counts;
			uint64_t happened;

			*(uint64_t *)(void *)((char *)&config + faults[i].probability) = SIM_ALWAYS / 100;
			config.reorder_ns = 5000;
			bench = bench_new(&config, 2, seed);
			send_many(bench, FRAMES);
			counts = counts_of(bench);
			happened = *(const uint64_t *)(const void *)((const char *)counts + faults[i].count);
			CHECK(happened >= 840 && happened <= 1160);
			CHECK_EQ(counts->loss + counts->corrupt + counts->duplicate + counts->reorder, happened);
			CHECK_EQ(counts->delivered, FRAMES + counts->duplicate - counts->loss);
			bench_free(bench);
		}
}

TEST(random_numbers_are_those_of_the_published_generators)
{
	/* splitmix64 from 1, and xoshiro256** from 1, 2, 3, 4 */
	struct sim_random random, counted = { { 1, 2, 3, 4 } };

	sim_random_init(&random, 1);
	CHECK(random.s[0] == UINT64_C(0x910a2dec89025cc1) && random.s[1] == UINT64_C(0xbeeb8da1658eec67));
	CHECK_EQ(sim_random_next(&counted), 11520);
	CHECK_EQ(sim_random_next(&counted), 0);
	CHECK_EQ(sim_random_next(&counted), 1509978240);
	CHECK_EQ(sim_random_next(&counted), 1215971899390074240);
	CHECK_EQ(sim_random_below(&random, 0), 0);
	for (unsigned i = 0; i < 1000; i++)
		CHECK(sim_random_below(&random, 7) < 7);
	CHECK(!sim_random_hits(&random, 0) && sim_random_hits(&random, SIM_ALWAYS));
}

/* The generator and the order of draws are part of what replays: these numbers change only where they do. */
TEST(a_seed_gives_the_same_faults_everywhere)
{
	struct sim_link_config config = nano("switch");
	struct bench *bench;

	config.loss = config.corrupt = config.duplicate = config.reorder = SIM_ALWAYS / 20;
	config.reorder_ns = 5000;
	config.burst = 3;
	bench = bench_new(&config, 3, 2024);
	send_many(bench, FRAMES);
	CHECK_EQ(counts_of(bench)->loss, 9526);
	CHECK_EQ(counts_of(bench)->corrupt, 4493);
	CHECK_EQ(counts_of(bench)->duplicate, 4604);
	CHECK_EQ(counts_of(bench)->reorder, 4443);
	bench_free(bench);
}

TEST(always_is_always_and_never_never)
{
	struct sim_link_config config = nano("wire");
	struct bench *bench;

	config.loss = SIM_ALWAYS;
	bench = bench_new(&config, 2, 1);
	send_many(bench, 1000);
	CHECK_EQ(counts_of(bench)->loss, 1000);
	config.loss = 0;
	config.duplicate = SIM_ALWAYS;
	sim_link_configure(bench->link, &config);
	send_many(bench, 1000);
	CHECK_EQ(counts_of(bench)->loss, 1000);
	CHECK_EQ(counts_of(bench)->duplicate, 1000);
	CHECK_EQ(counts_of(bench)->delivered, 2000);
	bench_free(bench);
}

TEST(losses_come_in_bursts_to_one_receiver)
{
	struct sim_link_config config = nano("switch");
	struct bench *bench;
	unsigned longest = 0, row = 0, bursts = 0, lost = 0;

	config.loss = SIM_ALWAYS / 1000;
	config.burst = 5;
	bench = bench_new(&config, 3, 7);
	/* every other frame goes to station 2, where losses come at other times */
	for (unsigned i = 0; i < FRAMES; i++) {
		bench->count = 0;
		send_one(bench, 0, 1, 100, i * UINT64_C(1000));
		if (arrival(bench, 0)->lost) {
			bursts += row == 0;
			lost++;
			longest = ++row > longest ? row : longest;
		} else {
			row = 0;
		}
		send_one(bench, 0, 2, 100, i * UINT64_C(1000) + 500);
	}
	/* bursts of 1 to 5, 3 in the mean; seldom two touch */
	CHECK(bursts > 70 && bursts < 130);
	CHECK(lost > bursts * 5 / 2 && lost < bursts * 7 / 2);
	CHECK(longest >= 5 && longest <= 10);
	CHECK(counts_of(bench)->loss > lost);
	bench->count = ARRIVALS_MAX;
	bench_free(bench);
}

TEST(a_burst_ends_when_losses_do)
{
	struct sim_link_config config = nano("wire");
	struct bench *bench;

	config.loss = SIM_ALWAYS;
	config.burst = 1000;
	bench = bench_new(&config, 2, 1);
	send_many(bench, 1);
	CHECK_LOST(bench, 0, 1, "loss");
	config.loss = 0;
	config.duplicate = SIM_ALWAYS;
	sim_link_configure(bench->link, &config);
	send_many(bench, 100);
	CHECK_EQ(counts_of(bench)->loss, 1);
	bench_free(bench);
}

/* Bits from the first that is flipped to the last. */
static unsigned
span_of(const struct sim_arrival *a)
{
	unsigned flips = (unsigned)a->flip[0] << 8 | a->flip[1], bits = 0;

	REQUIRE(flips != 0);
	while ((flips & 1) == 0)
		flips >>= 1;
	for (; flips != 0; flips >>= 1)
		bits++;
	return bits;
}

/* What the sum of these bytes, which was intact, says of the damage. */
static bool
is_seen(uint8_t *bytes, size_t len, const struct sim_arrival *a)
{
	uint8_t second = a->offset + 1 < len ? a->flip[1] : 0;
	bool seen;

	bytes[a->offset] ^= a->flip[0];
	bytes[a->offset + (second != 0)] ^= second;
	seen = !xk_sum_is_intact(xk_sum(0, bytes, len));
	bytes[a->offset] ^= a->flip[0];
	bytes[a->offset + (second != 0)] ^= second;
	return seen;
}

/* Bytes of one kind or at random, with their Internet checksum in the first two. */
static void
fill(uint8_t *bytes, size_t len, unsigned kind, struct sim_random *random)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = kind == 0 ? 0 : kind == 1 ? 0xff : (uint8_t)sim_random_next(random);
	memset(bytes, 0, 2);
	xk_checksum_store(bytes, xk_checksum_finish(xk_sum(0, bytes, len)));
	CHECK(xk_sum_is_intact(xk_sum(0, bytes, len)));
}

TEST(an_internet_checksum_sees_every_corruption)
{
	enum { LEN = 61, ROUNDS = 20000 };
	struct sim_link_config config = nano("wire");
	struct sim_random random;
	uint8_t bytes[LEN];
	unsigned unseen = 0, longest = 0, last = 0, spans[16] = { 0 };
	struct bench *bench;

	config.corrupt = SIM_ALWAYS;
	bench = bench_new(&config, 2, 3);
	sim_random_init(&random, 4);
	for (unsigned i = 0; i < ROUNDS; i++) {
		const struct sim_arrival *a;
		unsigned span;

		bench->count = 0;
		send_one(bench, 0, 1, LEN, i * UINT64_C(1000));
		a = arrival(bench, 0);
		CHECK_STR(fault_of(a), "corrupt");
		REQUIRE(!a->lost && a->offset < LEN);
		span = span_of(a);
		REQUIRE(span <= 15);
		spans[span]++;
		longest = span > longest ? span : longest;
		last += a->offset == LEN - 1;
		if (a->offset == LEN - 1)
			CHECK_EQ(a->flip[1], 0);
		fill(bytes, LEN, i % 3, &random);
		unseen += !is_seen(bytes, LEN, a);
	}
	CHECK_EQ(unseen, 0);
	CHECK_EQ(longest, 15);
	CHECK(last > 0);
	for (unsigned span = 1; span <= 15; span++)
		CHECK(spans[span] > 0);
	bench->count = ARRIVALS_MAX;
	bench_free(bench);
}

/* The claim that a span of at most 15 bits cannot hide, for each place, length and content of two words. */
TEST(no_span_of_15_bits_is_the_same_to_the_sum)
{
	struct sim_random random;
	unsigned unseen = 0;

	sim_random_init(&random, 9);
	for (unsigned i = 0; i < 300000; i++) {
		unsigned bits = 1 + (unsigned)sim_random_below(&random, 15);
		uint32_t span =
			(uint32_t)sim_random_below(&random, UINT64_C(1) << bits) | UINT32_C(1) << (bits - 1) | 1;
		uint32_t flips = span << sim_random_below(&random, 33 - bits);
		uint32_t words = (uint32_t)sim_random_next(&random);

		if (i % 3 != 0) /* all zeros and ones where the flips are: the largest change */
			words = i % 3 == 1 ? words & ~flips : words | flips;
		unseen += ((words >> 16) + (words & 0xffff)) % 0xffff ==
			  (((words ^ flips) >> 16) + ((words ^ flips) & 0xffff)) % 0xffff;
	}
	CHECK_EQ(unseen, 0);
}

TEST(only_what_is_told_to_overtakes)
{
	struct sim_link_config config = nano("switch");
	uint64_t last_ns = 0, reordered_late = 0;
	struct bench *bench;

	config.reorder = config.duplicate = SIM_ALWAYS / 10;
	config.reorder_ns = 300;
	bench = bench_new(&config, 4, 1);
	for (unsigned i = 0; i < 1000; i++)
		send_one(bench, i % 3, 3, 14 + i % 200, i * UINT64_C(50));
	for (unsigned i = 0; i < bench->count; i++) {
		const struct sim_arrival *a = arrival(bench, i);

		if (a->lost)
			continue;
		if (a->fault == NULL) {
			CHECK(a->at_ns >= last_ns);
			last_ns = a->at_ns;
		} else {
			CHECK(strcmp(a->fault, "reorder") == 0 || strcmp(a->fault, "duplicate") == 0);
			reordered_late += a->at_ns > last_ns;
		}
	}
	CHECK(counts_of(bench)->reorder > 20 && counts_of(bench)->duplicate > 20);
	CHECK(reordered_late > 20);
	bench_free(bench);
}

TEST(a_reordered_frame_is_late_by_at_most_its_delay)
{
	struct sim_link_config config = nano("wire");
	struct bench *bench;
	uint64_t most = 0;

	config.reorder = SIM_ALWAYS;
	config.reorder_ns = 10;
	bench = bench_new(&config, 2, 1);
	send_many(bench, 1000);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t late = arrival(bench, i)->at_ns - (i * UINT64_C(1000) + 1100);

		CHECK_STR(fault_of(arrival(bench, i)), "reorder");
		CHECK(late >= 1 && late <= 10);
		most = late > most ? late : most;
	}
	CHECK_EQ(most, 10);
	bench_free(bench);
}

TEST(a_duplicate_is_told_twice_and_as_corrupt_as_the_first)
{
	struct sim_link_config config = nano("wire");
	struct bench *bench;
	const struct sim_arrival *first, *second;

	config.corrupt = config.duplicate = config.reorder = SIM_ALWAYS;
	config.reorder_ns = 1;
	bench = bench_new(&config, 2, 1);
	send_many(bench, 1);
	first = arrival(bench, 0);
	second = arrival(bench, 1);
	CHECK_STR(fault_of(first), "corrupt+reorder");
	CHECK_STR(fault_of(second), "corrupt+duplicate");
	CHECK_EQ(first->at_ns, 1101);
	CHECK_EQ(second->at_ns, 1101);
	CHECK(first->offset == second->offset && memcmp(first->flip, second->flip, 2) == 0);
	config.corrupt = config.reorder = config.reorder_ns = 0;
	sim_link_configure(bench->link, &config);
	send_one(bench, 0, 1, 100, 5000);
	CHECK_ARRIVAL(bench, 2, 1, 6100);
	CHECK_STR(fault_of(arrival(bench, 3)), "duplicate");
	CHECK_EQ(arrival(bench, 3)->at_ns, 6100);
	CHECK_EQ(arrival(bench, 3)->flip[0], 0);
	bench_free(bench);
}

TEST(faults_are_drawn_for_each_receiver)
{
	struct sim_link_config config = nano("switch");
	struct bench *bench;
	unsigned lost[9] = { 0 };

	config.loss = SIM_ALWAYS / 2;
	bench = bench_new(&config, 9, 1);
	for (unsigned i = 0; i < 200; i++)
		send_one(bench, 0, GROUP, 100, i * UINT64_C(1000));
	for (unsigned i = 0; i < bench->count; i++)
		lost[arrival(bench, i)->station] += arrival(bench, i)->lost;
	CHECK_EQ(bench->count, 1600);
	CHECK_EQ(lost[0], 0);
	for (unsigned i = 1; i < 9; i++)
		CHECK(lost[i] > 60 && lost[i] < 140);
	bench_free(bench);
}

/* A run with everything in it. */
static struct bench *
run(uint64_t seed)
{
	struct sim_link_config config = nano("switch");
	struct sim_random random;
	struct bench *bench;

	config.loss = config.corrupt = config.duplicate = config.reorder = SIM_ALWAYS / 20;
	config.reorder_ns = 5000;
	config.burst = 4;
	config.queue = 2;
	bench = bench_new(&config, 8, seed);
	sim_random_init(&random, 77);
	for (unsigned i = 0; i < 2000; i++) {
		unsigned from = (unsigned)sim_random_below(&random, 8);
		int to = (int)sim_random_below(&random, 9) - 1;

		send_one(bench, from, to, 14 + sim_random_below(&random, 1500), i * UINT64_C(200));
	}
	return bench;
}

static bool
are_equal(const struct bench *a, const struct bench *b)
{
	if (a->count != b->count || memcmp(counts_of(a), counts_of(b), sizeof(*counts_of(a))) != 0)
		return false;
	for (unsigned i = 0; i < a->count; i++) {
		const struct sim_arrival *x = &a->arrivals[i], *y = &b->arrivals[i];

		if (x->station != y->station || x->at_ns != y->at_ns || x->lost != y->lost || x->offset != y->offset ||
		    memcmp(x->flip, y->flip, 2) != 0 || strcmp(fault_of(x), fault_of(y)) != 0)
			return false;
	}
	return true;
}

/* FNV-1a over all that was told. */
static uint64_t
hash_of(const struct bench *bench)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (unsigned i = 0; i < bench->count; i++) {
		const struct sim_arrival *a = &bench->arrivals[i];
		uint64_t words[] = { a->station, a->at_ns, a->lost, a->offset, a->flip[0], a->flip[1] };

		for (unsigned k = 0; k < 8 * XK_ARRAY_LENGTH(words); k++)
			hash = (hash ^ (words[k / 8] >> k % 8 * 8 & 255)) * UINT64_C(0x100000001b3);
	}
	return hash;
}

TEST(a_run_is_the_same_on_every_machine)
{
	struct bench *bench = run(11);

	CHECK(hash_of(bench) == UINT64_C(0x1f29fdd78776c063));
	bench_free(bench);
}

TEST(a_seed_repeats_a_run_and_another_does_not)
{
	struct bench *first = run(11), *again = run(11), *other = run(12);

	CHECK(are_equal(first, again));
	CHECK(!are_equal(first, other));
	CHECK(counts_of(first)->queue > 0 && counts_of(first)->loss > 0 && counts_of(first)->corrupt > 0);
	bench_free(first);
	bench_free(again);
	bench_free(other);
}

/* ---- changing ---- */

TEST(a_latency_that_becomes_shorter_brings_nothing_past_what_is_under_way)
{
	struct sim_link_config config = nano("wire");
	struct bench *bench = bench_new(&config, 2, 1);

	send_one(bench, 0, 1, 100, 0);
	config.latency_ns = 10;
	sim_link_configure(bench->link, &config);
	send_one(bench, 0, 1, 100, 200);
	send_one(bench, 0, 1, 100, 2000);
	CHECK_ARRIVAL(bench, 0, 1, 1100);
	CHECK_ARRIVAL(bench, 1, 1, 1100);
	CHECK_ARRIVAL(bench, 2, 1, 2110);
	bench_free(bench);
}

TEST(a_link_keeps_its_kind)
{
	struct sim_link_config config = nano("shared");
	struct bench *bench = bench_new(&config, 3, 1);

	config.kind = "switch";
	sim_link_configure(bench->link, &config);
	send_one(bench, 0, 1, 100, 0);
	CHECK_ARRIVAL(bench, 0, 1, 1100);
	bench_free(bench);
}

/* ---- settings ---- */

TEST(settings_are_set_from_text)
{
	static const char *const texts[][2] = {
		{ "kind", "switch" },    { "rate", "155.52Mb/s" },   { "latency", "2us" }, { "overhead", "12" },
		{ "gap", "11" },         { "min_frame", "60" },      { "cell", "53" },     { "cell_payload", "48" },
		{ "cell_trailer", "8" }, { "mtu", "9180" },          { "queue", "64" },    { "cut_through", "yes" },
		{ "loss", "25%" },       { "burst", "4" },           { "corrupt", "0.5" }, { "duplicate", "1" },
		{ "reorder", "12.5%" },  { "reorder_delay", "1ms" },
	};
	struct sim_link_config config = { .kind = NULL };
	char why[80];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(texts); i++)
		CHECK_EQ(sim_link_set(&config, texts[i][0], texts[i][1], why, sizeof(why)), 0);
	CHECK(sim_link_settings[XK_ARRAY_LENGTH(texts)].name == NULL);
	CHECK(sim_link_check(&config) == NULL);
	CHECK_STR(config.kind, "switch");
	CHECK_EQ(config.rate, 155520000);
	CHECK_EQ(config.latency_ns, 2000);
	CHECK_EQ(config.frame_overhead, 12);
	CHECK_EQ(config.frame_gap, 11);
	CHECK_EQ(config.frame_min, 60);
	CHECK(config.cell_size == 53 && config.cell_payload == 48 && config.cell_trailer == 8);
	CHECK(config.mtu == 9180 && config.queue == 64 && config.cut_through && config.burst == 4);
	CHECK_EQ(config.loss, SIM_ALWAYS / 4);
	CHECK_EQ(config.corrupt, SIM_ALWAYS / 2);
	CHECK_EQ(config.duplicate, SIM_ALWAYS);
	CHECK_EQ(config.reorder, SIM_ALWAYS / 8);
	CHECK_EQ(config.reorder_ns, 1000000);
}

TEST(what_is_no_setting_is_refused_with_what_was_expected)
{
	struct sim_link_config config = nano("wire"), before = config;
	char why[80];

	CHECK_EQ(sim_link_set(&config, "speed", "1", why, sizeof(why)), -ENOENT);
	CHECK_EQ(sim_link_set(&config, "", "1", why, sizeof(why)), -ENOENT);
	CHECK_EQ(sim_link_set(&config, "kind", "hub", why, sizeof(why)), -EINVAL);
	CHECK_STR(why, "expects wire, shared or switch");
	CHECK_EQ(sim_link_set(&config, "mtu", "67", why, sizeof(why)), -EINVAL);
	CHECK_STR(why, "expects a number from 68 to 65000");
	CHECK_EQ(sim_link_set(&config, "loss", "101%", why, sizeof(why)), -EINVAL);
	CHECK_STR(why, "expects a probability such as 0.01 or 1%");
	CHECK_EQ(sim_link_set(&config, "rate", "1001Tb/s", why, sizeof(why)), -EINVAL);
	CHECK_STR(why, "expects a rate from 0 to 1000Tb/s, such as 10Mb/s or 1.28Gb/s");
	CHECK_EQ(sim_link_set(&config, "latency", "3601s", why, sizeof(why)), -EINVAL);
	CHECK(memcmp(&config, &before, sizeof(config)) == 0);
}

/* Each field set to what makes no link. */
TEST(what_makes_no_link_is_told)
{
#define FIELD(name) offsetof(struct sim_link_config, name)
	static const struct {
		size_t offset;
		uint64_t value;
	} cases[] = {
		{ FIELD(rate), 999 },
		{ FIELD(rate), UINT64_C(1000000000000001) },
		{ FIELD(latency_ns), UINT64_C(3600000000001) },
		{ FIELD(frame_overhead), 65536 },
		{ FIELD(frame_gap), 65536 },
		{ FIELD(frame_min), 65536 },
		{ FIELD(cell_size), 1025 },
		{ FIELD(cell_size), 47 },
		{ FIELD(cell_payload), 0 },
		{ FIELD(cell_payload), 54 },
		{ FIELD(cell_trailer), 1025 },
		{ FIELD(mtu), 67 },
		{ FIELD(mtu), 65001 },
		{ FIELD(queue), 0 },
		{ FIELD(queue), 65537 },
		{ FIELD(loss), SIM_ALWAYS + 1 },
		{ FIELD(duplicate), SIM_ALWAYS + 1 },
		{ FIELD(corrupt), UINT64_MAX },
		{ FIELD(reorder), SIM_ALWAYS + 1 },
		{ FIELD(reorder), 1 },
		{ FIELD(reorder_ns), UINT64_C(3600000000001) },
		{ FIELD(burst), 65537 },
	};
	struct sim_link_config good = sim_link_preset_find("atm140")->config, config;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(cases); i++) {
		config = good;
		memcpy((char *)&config + cases[i].offset, &cases[i].value, sizeof(cases[i].value));
		if (sim_link_check(&config) == NULL)
			fprintf(stderr, "\ncase %u is a link\n", i);
		CHECK(sim_link_check(&config) != NULL);
	}
	config = good;
	config.kind = "bus";
	CHECK_STR(sim_link_check(&config), "kind is none of wire, shared, switch");
	config.kind = NULL;
	CHECK(sim_link_check(&config) != NULL);
	CHECK(sim_link_check(&good) == NULL);
}

/* The longest frame in the smallest cells, at the slowest and the fastest rate: no product wraps. */
TEST(the_extremes_of_a_link_are_times)
{
	struct sim_link_config config = nano("wire");

	config.cell_size = config.cell_trailer = 1024;
	config.cell_payload = 1;
	config.frame_overhead = 65535;
	config.rate = 1000;
	REQUIRE(sim_link_check(&config) == NULL);
	/* (1048576 + 1024) * 1024 + 65535 bytes at 8 ms each */
	CHECK_EQ(sim_link_frame_ns(&config, 1 << 20), UINT64_C(1074855935) * 8000000);
	config.rate = UINT64_C(1000000000000000);
	REQUIRE(sim_link_check(&config) == NULL);
	CHECK_EQ(sim_link_frame_ns(&config, 1 << 20), 8599 /* 8598.85 */);
}
