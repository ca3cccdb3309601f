/* test_histogram.c - quantiles within the promised error, merging, bucket edges; order of batches (batches.h). */

#include "tests/test.h"
#include "tools/batches.h"
#include "tools/histogram.h"

static bool
near(uint64_t got, uint64_t want)
{
	uint64_t error = got > want ? got - want : want - got;

	return error * 128 <= want;
}

TEST(empty_histogram_returns_zero)
{
	static struct histogram h;

	histogram_init(&h);
	CHECK_EQ(histogram_percentile(&h, 50), 0);
	CHECK_EQ(histogram_mean(&h), 0);
	CHECK_EQ(h.count, 0);
}

TEST(single_time_is_every_quantile)
{
	static struct histogram h;

	histogram_init(&h);
	histogram_add(&h, 123457);
	CHECK_EQ(histogram_percentile(&h, 0), 123457);
	CHECK_EQ(histogram_percentile(&h, 50), 123457);
	CHECK_EQ(histogram_percentile(&h, 100), 123457);
	CHECK_EQ(h.min, 123457);
	CHECK_EQ(h.max, 123457);
	CHECK_EQ(histogram_mean(&h), 123457);
}

TEST(small_times_are_exact)
{
	static struct histogram h;

	histogram_init(&h);
	for (uint64_t ns = 1; ns <= 200; ns++)
		histogram_add(&h, ns);
	CHECK_EQ(histogram_percentile(&h, 50), 100);
	CHECK_EQ(histogram_percentile(&h, 99), 198);
	CHECK_EQ(histogram_percentile(&h, 100), 200);
}

TEST(quantiles_are_within_one_in_128)
{
	static struct histogram h;

	for (uint64_t scale = 1; scale < UINT64_C(1) << 26; scale *= 7) {
		histogram_init(&h);
		for (uint64_t i = 1; i <= 1000; i++)
			histogram_add(&h, i * scale);
		CHECK(near(histogram_percentile(&h, 50), 500 * scale));
		CHECK(near(histogram_percentile(&h, 90), 900 * scale));
		CHECK(near(histogram_percentile(&h, 99), 990 * scale));
		CHECK_EQ(h.min, scale);
		CHECK_EQ(h.max, 1000 * scale);
		CHECK_EQ(histogram_mean(&h), 1001 * scale / 2);
	}
}

TEST(bucket_edges_stay_within_the_error)
{
	static struct histogram h;

	for (unsigned bit = 0; bit < 64; bit++)
		for (int off = -1; off <= 1; off++) {
			uint64_t ns = (UINT64_C(1) << bit) + (uint64_t)off;

			histogram_init(&h);
			histogram_add(&h, ns);
			CHECK_EQ(h.count, 1);
			CHECK_EQ(histogram_percentile(&h, 50), h.max);
		}
}

TEST(merged_histograms_equal_one)
{
	static struct histogram a, b, all;

	histogram_init(&a);
	histogram_init(&b);
	histogram_init(&all);
	for (uint64_t i = 0; i < 5000; i++) {
		histogram_add(i % 3 == 0 ? &a : &b, i * i);
		histogram_add(&all, i * i);
	}
	histogram_merge(&a, &b);
	CHECK(memcmp(&a, &all, sizeof(a)) == 0);
	histogram_init(&b);
	histogram_merge(&a, &b);
	CHECK(memcmp(&a, &all, sizeof(a)) == 0);
}

TEST(batches_follow_each_other_equally_often)
{
	for (unsigned count = 1; count <= 9; count++) {
		unsigned follows[9][9] = { { 0 } }, blocks = count % 2 == 0 ? count : 2 * count;

		for (unsigned block = 0; block < blocks; block++) {
			unsigned seen = 0;

			for (unsigned place = 0; place < count; place++) {
				unsigned turn = batches_turn(count, block, place);

				REQUIRE(turn < count);
				seen |= 1u << turn;
				if (place > 0)
					follows[batches_turn(count, block, place - 1)][turn]++;
			}
			CHECK_EQ(seen, (1u << count) - 1);
		}
		for (unsigned i = 0; i < count; i++)
			for (unsigned j = 0; j < count; j++)
				CHECK_EQ(follows[i][j], i == j ? 0 : blocks / count);
	}
}
