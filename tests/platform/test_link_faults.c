/* test_link_faults.c - losses, corruption, duplicates and delays, deliberate and random; a seed repeats them. */
#include "platform/sim/random.h"
#include "tests/platform/link_bench.h"
#include "xkernel/checksum.h"

/* ---- deliberate losses ---- */

TEST_WITH(station_is_cut_off_in_each_direction_separately, struct bench *bench, bench_nano(SIM_LINK_WIRE, 2),
	  bench_free)
{
	sim_link_cut(bench->link, 0, true, false);
	send_one(bench, 0, 1, 100, 0);
	CHECK_LOST(bench, 0, 1, "cut");
	send_one(bench, 1, 0, 100, 0);
	CHECK_ARRIVAL(bench, 1, 0, 1100);
	sim_link_cut(bench->link, 0, false, true);
	/* the lost frames took no time */
	send_one(bench, 0, 1, 100, 0);
	CHECK_ARRIVAL(bench, 2, 1, 1100);
	send_one(bench, 1, 0, 100, 100);
	CHECK_LOST(bench, 3, 0, "cut");
	sim_link_cut(bench->link, 0, false, false);
	send_one(bench, 1, 0, 100, 200);
	CHECK_ARRIVAL(bench, 4, 0, 1300);
	CHECK_EQ(counts_of(bench)->cut, 2);
}

TEST_WITH(cut_loses_waiting_frames_but_not_those_in_flight, struct bench *bench, bench_nano(SIM_LINK_WIRE, 2),
	  bench_free)
{
	CHECK_EQ(give(bench, 0, 1, 100, 0), 0);
	CHECK_EQ(give(bench, 0, 1, 100, 0), 100);
	sim_link_cut(bench->link, 0, true, true);
	begin(bench, 0, 1, 100, 100);
	CHECK_ARRIVAL(bench, 0, 1, 1100);
	CHECK_LOST(bench, 1, 1, "cut");
}

TEST_WITH(cut_is_reported_for_each_receiver_of_a_broadcast, struct bench *bench, bench_nano(SIM_LINK_SHARED, 4),
	  bench_free)
{
	sim_link_cut(bench->link, 2, false, true);
	send_one(bench, 0, GROUP, 100, 0);
	CHECK_ARRIVAL(bench, 0, 1, 1100);
	CHECK_LOST(bench, 1, 2, "cut");
	CHECK_ARRIVAL(bench, 2, 3, 1100);
	sim_link_cut(bench->link, 0, true, false);
	send_one(bench, 0, GROUP, 100, 200);
	CHECK_EQ(counts_of(bench)->cut, 4);
	CHECK_EQ(bench->count, 6);
}

TEST_WITH(too_long_frame_is_lost_by_name, struct bench *bench, bench_nano(SIM_LINK_WIRE, 2), bench_free)
{
	send_one(bench, 0, 1, 1514, 0);
	send_one(bench, 0, 1, 1515, 2000);
	CHECK_ARRIVAL(bench, 0, 1, 2514);
	CHECK_LOST(bench, 1, 1, "mtu");
	CHECK_EQ(counts_of(bench)->mtu, 1);
}

/* ---- faults ---- */

enum { FRAMES = 100000 };

/* Sends frames far enough apart that none has to wait. */
static void
send_many(struct bench *bench, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		send_one(bench, 0, 1, 100, i * UINT64_C(1000));
}

/* 1 % of 100,000 is 1,000; the standard deviation is 31.5, so each seed's count is within 1,000 +- 160. */
TEST(faults_occur_at_their_rate_and_are_counted)
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
			struct sim_link_config config = nano(SIM_LINK_WIRE);
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

TEST(random_numbers_match_the_published_generators)
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

/* Replays depend on the generator and the order of draws: these numbers change only with them. */
BENCH_TEST(seed_gives_the_same_faults_everywhere, SIM_LINK_SWITCH,
	   (config.loss = config.corrupt = config.duplicate = config.reorder = SIM_ALWAYS / 20,
	    config.reorder_ns = 5000, config.burst = 3),
	   3, 2024)
{
	send_many(bench, FRAMES);
	CHECK_EQ(counts_of(bench)->loss, 9526);
	CHECK_EQ(counts_of(bench)->corrupt, 4493);
	CHECK_EQ(counts_of(bench)->duplicate, 4604);
	CHECK_EQ(counts_of(bench)->reorder, 4443);
}

TEST(rates_of_0_and_1_mean_never_and_always)
{
	struct sim_link_config config = nano(SIM_LINK_WIRE);
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

BENCH_TEST(losses_occur_in_bursts_per_receiver, SIM_LINK_SWITCH, (config.loss = SIM_ALWAYS / 1000, config.burst = 5), 3,
	   7)
{
	unsigned longest = 0, row = 0, bursts = 0, lost = 0;

	/* every other frame goes to station 2, whose losses occur at other times */
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
	/* bursts of 1 to 5, 3 on average; two seldom touch */
	CHECK(bursts > 70 && bursts < 130);
	CHECK(lost > bursts * 5 / 2 && lost < bursts * 7 / 2);
	CHECK(longest >= 5 && longest <= 10);
	CHECK(counts_of(bench)->loss > lost);
	bench->count = ARRIVALS_MAX;
}

TEST(burst_ends_when_loss_is_switched_off)
{
	struct sim_link_config config = nano(SIM_LINK_WIRE);
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

/* Returns the number of bits from the first flipped bit to the last. */
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

/* Returns true if the checksum of these bytes, intact before, detects the damage. */
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

/* Fills bytes by kind or at random, with their Internet checksum in the first two. */
static void
fill(uint8_t *bytes, size_t len, unsigned kind, struct sim_random *random)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = kind == 0 ? 0 : kind == 1 ? 0xff : (uint8_t)sim_random_next(random);
	memset(bytes, 0, 2);
	xk_checksum_store(bytes, xk_checksum_finish(xk_sum(0, bytes, len)));
	CHECK(xk_sum_is_intact(xk_sum(0, bytes, len)));
}

BENCH_TEST(internet_checksum_detects_every_corruption, SIM_LINK_WIRE, config.corrupt = SIM_ALWAYS, 2, 3)
{
	enum { LEN = 61, ROUNDS = 20000 };
	struct sim_random random;
	uint8_t bytes[LEN];
	unsigned unseen = 0, longest = 0, last = 0, spans[16] = { 0 };

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
}

/* Proves that flips within 15 bits are always detected, for each place, length and content of two 16-bit words. */
TEST(checksum_detects_every_change_within_15_bits)
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

BENCH_TEST(only_reordered_and_duplicate_frames_overtake, SIM_LINK_SWITCH,
	   (config.reorder = config.duplicate = SIM_ALWAYS / 10, config.reorder_ns = 300), 4, 1)
{
	uint64_t last_ns = 0, reordered_late = 0;

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
}

BENCH_TEST(reordered_frame_is_late_by_at_most_its_delay, SIM_LINK_WIRE,
	   (config.reorder = SIM_ALWAYS, config.reorder_ns = 10), 2, 1)
{
	uint64_t most = 0;

	send_many(bench, 1000);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t late = arrival(bench, i)->at_ns - (i * UINT64_C(1000) + 1100);

		CHECK_STR(fault_of(arrival(bench, i)), "reorder");
		CHECK(late >= 1 && late <= 10);
		most = late > most ? late : most;
	}
	CHECK_EQ(most, 10);
}

TEST(duplicate_is_reported_twice_and_equally_corrupt)
{
	struct sim_link_config config = nano(SIM_LINK_WIRE);
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

BENCH_TEST(faults_are_drawn_per_receiver, SIM_LINK_SWITCH, config.loss = SIM_ALWAYS / 2, 9, 1)
{
	unsigned lost[9] = { 0 };

	for (unsigned i = 0; i < 200; i++)
		send_one(bench, 0, GROUP, 100, i * UINT64_C(1000));
	for (unsigned i = 0; i < bench->count; i++)
		lost[arrival(bench, i)->station] += arrival(bench, i)->lost;
	CHECK_EQ(bench->count, 1600);
	CHECK_EQ(lost[0], 0);
	for (unsigned i = 1; i < 9; i++)
		CHECK(lost[i] > 60 && lost[i] < 140);
}

/* Runs a link with every kind of fault. */
static struct bench *
run(uint64_t seed)
{
	struct sim_link_config config = nano(SIM_LINK_SWITCH);
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

/* Returns the FNV-1a hash of all reported arrivals. */
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

TEST_WITH(run_is_the_same_on_every_machine, struct bench *bench, run(11), bench_free)
{
	CHECK(hash_of(bench) == UINT64_C(0x1f29fdd78776c063));
}

TEST(same_seed_repeats_a_run_and_another_does_not)
{
	struct bench *first = run(11), *again = run(11), *other = run(12);

	CHECK(are_equal(first, again));
	CHECK(!are_equal(first, other));
	CHECK(counts_of(first)->queue > 0 && counts_of(first)->loss > 0 && counts_of(first)->corrupt > 0);
	bench_free(first);
	bench_free(again);
	bench_free(other);
}
