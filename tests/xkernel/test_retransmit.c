/* test_retransmit.c - round-trip times, timeouts and back-off (xkernel/support/retransmit.h). */
#include "tests/test.h"
#include "xkernel/support/retransmit.h"

enum { MS = 1000000 };

static const struct xk_timeouts timeouts = { 200 * MS, 10 * MS, 2000 * MS };

/* RFC 6298, 2.2: SRTT is R, RTTVAR R / 2. */
TEST(first_round_trip_sets_the_timeout_to_three_times_it)
{
	struct xk_round_trip round_trip;

	xk_round_trip_init(&round_trip, &timeouts);
	CHECK_EQ(round_trip.timeout_ns, 200 * MS);
	xk_round_trip_measure(&round_trip, &timeouts, 40 * MS);
	CHECK_EQ(round_trip.us.mean, 40000);
	CHECK_EQ(round_trip.us.deviation, 20000);
	CHECK_EQ(round_trip.timeout_ns, 120 * MS);
}

/* RFC 6298, 2.3: the deviation is updated first, from the previous mean. */
TEST(later_round_trips_count_an_eighth_and_their_deviations_a_quarter)
{
	struct xk_round_trip round_trip;

	xk_round_trip_init(&round_trip, &timeouts);
	xk_round_trip_measure(&round_trip, &timeouts, 40 * MS);
	xk_round_trip_measure(&round_trip, &timeouts, 80 * MS);
	CHECK_EQ(round_trip.us.mean, 45000);
	CHECK_EQ(round_trip.us.deviation, 25000);
	CHECK_EQ(round_trip.timeout_ns, 145 * MS);
	xk_round_trip_measure(&round_trip, &timeouts, 5 * MS);
	CHECK_EQ(round_trip.us.mean, 40000);
	CHECK_EQ(round_trip.us.deviation, 28750);
}

TEST(timeouts_stay_within_their_limits)
{
	struct xk_round_trip round_trip;

	xk_round_trip_init(&round_trip, &timeouts);
	xk_round_trip_measure(&round_trip, &timeouts, 0);
	CHECK_EQ(round_trip.us.mean, 1);
	CHECK_EQ(round_trip.timeout_ns, 10 * MS);
	xk_round_trip_measure(&round_trip, &timeouts, UINT64_MAX);
	CHECK_EQ(round_trip.timeout_ns, 2000 * MS);
	for (unsigned i = 0; i < 1000; i++)
		xk_round_trip_measure(&round_trip, &timeouts, UINT64_MAX);
	CHECK(round_trip.us.mean <= UINT32_MAX / 16);
	CHECK_EQ(round_trip.timeout_ns, 2000 * MS);
	for (unsigned i = 0; i < 1000; i++)
		xk_round_trip_measure(&round_trip, &timeouts, 1);
	CHECK_EQ(round_trip.timeout_ns, 10 * MS);
}

TEST(fractions_of_a_microsecond_round_up)
{
	struct xk_round_trip round_trip;

	xk_round_trip_init(&round_trip, &timeouts);
	xk_round_trip_measure(&round_trip, &timeouts, 2001);
	CHECK_EQ(round_trip.us.mean, 3);
}

TEST(each_timeout_doubles_the_next_up_to_the_limit)
{
	static const uint64_t timeouts_ms[] = { 400, 800, 1600, 2000, 2000 };
	struct xk_retry retry;
	uint64_t now_ns = 5;

	xk_retry_begin(&retry, 200 * MS, now_ns);
	CHECK_EQ(retry.begun_ns, 5);
	CHECK_EQ(retry.tries, 0);
	CHECK_EQ(retry.due_ns, 200 * MS + 5);
	for (unsigned i = 0; i < sizeof(timeouts_ms) / sizeof(timeouts_ms[0]); i++) {
		now_ns = retry.due_ns;
		xk_retry_again(&retry, timeouts.max_ns, now_ns);
		CHECK_EQ(retry.tries, i + 1);
		CHECK_EQ(retry.timeout_ns, timeouts_ms[i] * MS);
		CHECK_EQ(retry.due_ns, now_ns + timeouts_ms[i] * MS);
	}
	CHECK_EQ(retry.begun_ns, 5);
	xk_retry_begin(&retry, UINT64_MAX / 2, 0);
	xk_retry_again(&retry, UINT64_MAX / 2 + 8, 0);
	CHECK_EQ(retry.due_ns, UINT64_MAX / 2 + 8);
}
