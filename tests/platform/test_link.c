/*
 * test_link.c - the link model: times, turns, queues, addresses, changes. The comments derive the expected times by
 * hand.
 */
#include <errno.h>

#include "platform/sim/random.h"
#include "tests/platform/link_bench.h"

/* ---- times ---- */

TEST(presets_have_the_times_computed_by_hand)
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
		{ "lanai", 60, 388 },
		{ "lanai", 1514, 9475 },
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

TEST(frame_arrives_with_its_last_bit)
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

TEST(presets_are_valid_links_and_found_by_name)
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

BENCH_TEST(times_saturate_instead_of_wrapping, SIM_LINK_WIRE,
	   (config.rate = 1000, config.latency_ns = 3600 * UINT64_C(1000000000)), 2, 1)
{
	send_one(bench, 0, 1, 1000, UINT64_MAX - 10);
	send_one(bench, 0, 1, 1000, UINT64_MAX - 5);
	CHECK_ARRIVAL(bench, 0, 1, (long long)UINT64_MAX);
	CHECK_ARRIVAL(bench, 1, 1, (long long)UINT64_MAX);
}

TEST(controllers_add_to_the_latency_for_each_byte)
{
	static const enum sim_link_kind kinds[] = { SIM_LINK_WIRE, SIM_LINK_SHARED, SIM_LINK_SWITCH };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(kinds); i++) {
		struct sim_link_config config = nano(kinds[i]);
		struct bench *bench;
		uint64_t plain_ns;

		bench = bench_new(&config, 2, 1);
		send_one(bench, 0, 1, 1500, 0);
		plain_ns = bench->arrivals[0].at_ns;
		bench_free(bench);
		config.latency_kb_ns = 2000;
		bench = bench_new(&config, 2, 1);
		send_one(bench, 0, 1, 1500, 0);
		CHECK_ARRIVAL(bench, 0, 1, (long long)plain_ns + 3000);
		/* the link itself is free as early as before */
		send_one(bench, 0, 1, 500, 1500);
		CHECK(bench->arrivals[1].at_ns <= plain_ns + 3000 + 500);
		bench_free(bench);
	}
}

/* 10 cells of 100 bytes, 100 ns each; the processor writes a cell in 30 ns or in 300 ns. */
TEST(cells_leave_as_soon_as_written)
{
	struct sim_link_config config = nano(SIM_LINK_WIRE);
	struct sim_link_writing writing;

	config.write_ns = 7;
	config.write_kb_ns = 300;
	writing = sim_link_write(&config, 1000);
	CHECK_EQ(writing.before_ns, 307);
	CHECK_EQ(writing.after_ns, 0);
	config.cell_size = config.cell_payload = 100;
	writing = sim_link_write(&config, 1000);
	CHECK_EQ(writing.before_ns, 7 + 30);
	CHECK_EQ(writing.after_ns, 270);
	CHECK_EQ(sim_link_frame_ns(&config, 1000), 1000);
	config.write_kb_ns = 3000;
	writing = sim_link_write(&config, 1000);
	CHECK_EQ(writing.before_ns, 7 + 300);
	CHECK_EQ(writing.after_ns, 2700);
	CHECK_EQ(sim_link_frame_ns(&config, 1000), 1000);
	config.read_ns = 5;
	config.read_kb_ns = 10;
	CHECK_EQ(sim_link_read_ns(&config, 1500), 5 + 15);
}

/* The last of 10 cells leaves when it is written; a store-and-forward switch then sends the frame at full rate. */
TEST(slow_writer_delays_only_its_own_wire)
{
	static const struct {
		enum sim_link_kind kind;
		bool cut_through;
		long long at_ns;
	} cases[] = {
		{ SIM_LINK_WIRE, false, 2800 + 1000 },
		{ SIM_LINK_SHARED, false, 2800 + 1000 },
		{ SIM_LINK_SWITCH, true, 2800 + 2000 },
		{ SIM_LINK_SWITCH, false, 2800 + 1000 + 2000 },
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(cases); i++) {
		struct sim_link_config config = nano(cases[i].kind);
		struct bench *bench;

		config.cell_size = config.cell_payload = 100;
		config.write_kb_ns = 3000;
		config.cut_through = cases[i].cut_through;
		bench = bench_new(&config, 2, 1);
		send_one(bench, 0, 1, 1000, 0);
		CHECK_ARRIVAL(bench, 0, 1, cases[i].at_ns);
		/* the next one waits until the wire is free */
		CHECK_EQ(give(bench, 0, 1, 1000, 0), 2800);
		begin(bench, 0, 1, 1000, 2800);
		bench_free(bench);
	}
}

/* ---- turns ---- */

TEST_WITH(directions_of_a_wire_are_independent, struct bench *bench, bench_nano(SIM_LINK_WIRE, 2), bench_free)
{
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
}

TEST_WITH(a_wire_has_two_ends, struct bench *bench, bench_nano(SIM_LINK_WIRE, 2), bench_free)
{
	CHECK_EQ(sim_link_join(bench->link, address_of(2)), -ENOSPC);
}

BENCH_TEST(frames_on_a_shared_medium_go_in_order_of_arrival, SIM_LINK_SHARED, config.frame_gap = 10, 3, 1)
{
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
	/* the gap ends at 740 */
	CHECK_EQ(give(bench, 0, 1, 100, 739), 740);
	CHECK_EQ(give(bench, 0, 1, 100, 850), 850);
}

TEST_WITH(switch_separates_pairs_and_queues_per_station, struct bench *bench, bench_nano(SIM_LINK_SWITCH, 4),
	  bench_free)
{
	/* in the switch at 1100, at the station 100 + 1000 later */
	send_one(bench, 0, 1, 100, 0);
	send_one(bench, 2, 3, 100, 0);
	CHECK_ARRIVAL(bench, 0, 1, 2200);
	CHECK_ARRIVAL(bench, 1, 3, 2200);
	/* in the switch at 1110, behind the first, which leaves from 1100 to 1200 */
	send_one(bench, 3, 1, 100, 10);
	CHECK_ARRIVAL(bench, 2, 1, 2300);
	/* station 1 may send meanwhile */
	send_one(bench, 1, 0, 100, 10);
	CHECK_ARRIVAL(bench, 3, 0, 2210);
}

TEST_WITH(long_queue_at_one_sender_does_not_delay_another, struct bench *bench, bench_nano(SIM_LINK_SWITCH, 3),
	  bench_free)
{
	for (unsigned i = 0; i < 10; i++)
		CHECK_EQ(give(bench, 0, 2, 1000, 0), i * 1000);
	CHECK_EQ(bench->count, 1);
	CHECK_EQ(give(bench, 1, 2, 1000, 500), 500);
	/* the first is in the switch at 2000 and leaves until 3000; the other sender's is there at 2500 */
	CHECK_ARRIVAL(bench, 0, 2, 4000);
	CHECK_ARRIVAL(bench, 1, 2, 5000);
	begin(bench, 0, 2, 1000, 1000);
	CHECK_ARRIVAL(bench, 2, 2, 6000);
	for (unsigned i = 2; i < 10; i++)
		sim_link_withdraw(bench->link, 0);
}

BENCH_TEST(a_switch_keeps_the_gap_between_frames, SIM_LINK_SWITCH, config.frame_gap = 7, 3, 1)
{
	send_one(bench, 0, 2, 100, 0);
	send_one(bench, 1, 2, 100, 0);
	CHECK_ARRIVAL(bench, 0, 2, 2200);
	CHECK_ARRIVAL(bench, 1, 2, 2307);
}

BENCH_TEST(cut_through_switch_does_not_store, SIM_LINK_SWITCH, config.cut_through = true, 3, 1)
{
	send_one(bench, 0, 1, 1000, 0);
	CHECK_ARRIVAL(bench, 0, 1, 3000);
	/* if the station's wire is busy, the frame waits in the switch */
	send_one(bench, 2, 1, 100, 200);
	CHECK_ARRIVAL(bench, 1, 1, 3100);
}

/* ---- queues ---- */

TEST(station_holds_as_many_frames_as_its_queue)
{
	struct sim_link_config config = nano(SIM_LINK_WIRE);
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
	/* a queue made shorter than its contents has no room */
	config.queue = 1;
	sim_link_configure(bench->link, &config);
	CHECK_EQ(sim_link_room(bench->link, 0), 0);
	begin(bench, 0, 1, 100, 300);
	CHECK_EQ(sim_link_room(bench->link, 0), 1);
	CHECK_EQ(counts_of(bench)->sent, 4);
	bench_free(bench);
}

BENCH_TEST(full_switch_queue_loses_by_name, SIM_LINK_SWITCH, config.queue = 4, 10, 1)
{
	/* eight at once: one leaves the switch from 1100, four wait, three are lost */
	for (unsigned i = 1; i <= 8; i++)
		send_one(bench, i, 0, 100, 0);
	for (unsigned i = 0; i < 5; i++)
		CHECK_ARRIVAL(bench, i, 0, 2200 + i * 100);
	for (unsigned i = 5; i < 8; i++)
		CHECK_LOST(bench, i, 0, "queue");
	CHECK_EQ(counts_of(bench)->queue, 3);
	/* in the switch at 1199, when all still wait; the second leaves at 1200 */
	send_one(bench, 9, 0, 100, 99);
	CHECK_LOST(bench, 8, 0, "queue");
	send_one(bench, 1, 0, 100, 100);
	CHECK_ARRIVAL(bench, 9, 0, 2700);
	/* other stations' frames do not wait */
	send_one(bench, 9, 1, 100, 200);
	CHECK_ARRIVAL(bench, 10, 1, 2400);
}

BENCH_TEST(switch_queue_grows_to_its_limit_and_empties, SIM_LINK_SWITCH, config.queue = 100, 300, 1)
{
	for (unsigned round = 0; round < 3; round++) {
		uint64_t now_ns = round * UINT64_C(1000000) + round;
		unsigned first = bench->count;

		for (unsigned i = 1; i < 300; i++)
			send_one(bench, i, 0, 64, now_ns);
		for (unsigned i = 0; i < 101; i++)
			CHECK_ARRIVAL(bench, first + i, 0, now_ns + 2 * 1064 + i * 64);
		CHECK_EQ(counts_of(bench)->queue, (round + 1) * 198);
	}
}

BENCH_TEST(wrapped_switch_queue_grows_in_order, SIM_LINK_SWITCH, config.queue = 64, 100, 1)
{
	/* seven wait; when five of them have left, and one more is leaving, sixty more come */
	for (unsigned i = 1; i <= 8; i++)
		send_one(bench, i, 0, 100, 0);
	for (unsigned i = 9; i < 69; i++)
		send_one(bench, i, 0, 100, 600);
	for (unsigned i = 0; i < 68; i++)
		CHECK_ARRIVAL(bench, i, 0, 2200 + i * 100);
	/* at 4800, the thirty that leave from 4900 to 7800 still wait: room for thirty-four */
	for (unsigned i = 1; i < 40; i++)
		send_one(bench, i, 0, 100, 3700);
	for (unsigned i = 68; i < 102; i++)
		CHECK_ARRIVAL(bench, i, 0, 2200 + i * 100);
	CHECK_EQ(counts_of(bench)->queue, 5);
}

/* ---- addresses ---- */

TEST(broadcast_reaches_all_but_its_sender)
{
	static const enum sim_link_kind kinds[] = { SIM_LINK_WIRE, SIM_LINK_SHARED, SIM_LINK_SWITCH };

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

TEST_WITH(multicast_is_recognized_by_its_lowest_bit, struct bench *bench, bench_nano(SIM_LINK_SWITCH, 3), bench_free)
{
	uint8_t frame[60] = { 0x01, 0x00, 0x5e, 0, 0, 1 };

	CHECK_EQ(sim_link_send(bench->link, 0, frame, sizeof(frame), 0, bench_arrive, bench), 0);
	CHECK_EQ(bench->count, 2);
}

TEST_WITH(frame_without_a_receiver_takes_time_and_is_counted, struct bench *bench, bench_nano(SIM_LINK_SHARED, 2),
	  bench_free)
{
	send_one(bench, 0, 7, 100, 0);
	send_one(bench, 0, 0, 100, 0);
	send_one(bench, 0, 1, 13, 0);
	CHECK_EQ(bench->count, 0);
	CHECK_EQ(counts_of(bench)->nobody, 3);
	send_one(bench, 1, 0, 100, 0);
	CHECK_ARRIVAL(bench, 0, 0, 1313);
}

TEST_WITH(addresses_are_unique_and_unicast, struct bench *bench, bench_nano(SIM_LINK_SWITCH, 2), bench_free)
{
	CHECK_EQ(sim_link_join(bench->link, address_of(1)), -EEXIST);
	CHECK_EQ(sim_link_join(bench->link, 0), -EINVAL);
	CHECK_EQ(sim_link_join(bench->link, UINT64_C(1) << 48), -EINVAL);
	CHECK_EQ(sim_link_join(bench->link, UINT64_C(0x010000000000)), -EINVAL);
	CHECK_EQ(sim_link_join(bench->link, UINT64_C(0xffffffffffff)), -EINVAL);
	CHECK_EQ(sim_link_join(bench->link, UINT64_C(0xfeffffffffff)), 2);
	CHECK_EQ(sim_link_join(bench->link, 1), 3);
}

TEST_WITH(ten_thousand_stations_are_distinguished, struct bench *bench, bench_nano(SIM_LINK_SWITCH, 0), bench_free)
{
	enum { COUNT = 10000 };
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
}

TEST_WITH(link_holds_at_most_65536_stations, struct bench *bench, bench_nano(SIM_LINK_SHARED, 0), bench_free)
{
	for (unsigned i = 0; i < SIM_LINK_STATIONS_MAX; i++)
		REQUIRE(sim_link_join(bench->link, (uint64_t)(i + 1) << 16 & UINT64_C(0xfeffffffffff)) == (int)i);
	CHECK_EQ(sim_link_join(bench->link, 77), -ENOSPC);
}

/* ---- changing ---- */

TEST(shorter_latency_does_not_reorder_frames_in_flight)
{
	struct sim_link_config config = nano(SIM_LINK_WIRE);
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
	struct sim_link_config config = nano(SIM_LINK_SHARED);
	struct bench *bench = bench_new(&config, 3, 1);

	config.kind = SIM_LINK_SWITCH;
	sim_link_configure(bench->link, &config);
	send_one(bench, 0, 1, 100, 0);
	CHECK_ARRIVAL(bench, 0, 1, 1100);
	bench_free(bench);
}
