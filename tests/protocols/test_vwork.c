/* test_vwork.c - the time that vwork's work takes, on a virtual clock, and where it can be interrupted. */
#include "tests/rig.h"
#include "xkernel/upi.h"

static uint64_t
now_ns(struct rig *r)
{
	return xk_now_ns(rig_protocol(r, "vwork"));
}

/* Returns the time that a message of len bytes takes down s. */
static uint64_t
push_ns(struct rig *r, struct xk_session *s, size_t len)
{
	uint64_t begin_ns = now_ns(r);
	uint8_t byte;

	CHECK_EQ(rig_push_pattern(r, s, len), 0);
	CHECK_EQ(rig_take_sent(r, &byte, sizeof(byte)), len);
	return now_ns(r) - begin_ns;
}

static uint64_t
pop_ns(struct rig *r, size_t len)
{
	static const uint8_t bytes[2000];
	uint64_t begin_ns = now_ns(r);
	uint8_t byte;

	rig_inject_bytes(r, bytes, len);
	CHECK_EQ(rig_take_delivered(r, &byte, sizeof(byte)), len);
	return now_ns(r) - begin_ns;
}

RIG_SESSION_TEST(vwork_without_settings_costs_nothing, rig_new("vwork"), rig_open(r, rig_to(5)))
{
	CHECK_EQ(push_ns(r, s, 1000), 0);
	CHECK_EQ(pop_ns(r, 1000), 0);
	rig_expect_counts(r, "worked_up=0 worked_down=0");
}

RIG_SESSION_TEST(vwork_works_per_message_and_per_byte, rig_new("vwork up=7us up_kb=800us down=30us down_kb=2us"),
		 rig_open(r, rig_to(5)))
{
	CHECK_EQ(pop_ns(r, 0), 7000);
	CHECK_EQ(pop_ns(r, 1), 7800);
	CHECK_EQ(pop_ns(r, 1500), 7000 + 1200000);
	rig_expect_counts(r, "worked_up=3 worked_down=0");
	CHECK_EQ(push_ns(r, s, 0), 30000);
	CHECK_EQ(push_ns(r, s, 1), 30002);
	CHECK_EQ(push_ns(r, s, 65000), 30000 + 130000);
	CHECK_EQ(rig_counter(r, "worked_down"), 3);
}

/* Less than a nanosecond per byte: rounds to zero for short messages. */
RIG_SESSION_TEST(vwork_sums_fractions_of_nanoseconds_over_a_message, rig_new("vwork down_kb=500ns"),
		 rig_open(r, rig_to(5)))
{
	CHECK_EQ(push_ns(r, s, 1), 0);
	CHECK_EQ(push_ns(r, s, 3), 1);
	CHECK_EQ(push_ns(r, s, 999), 499);
	CHECK_EQ(rig_counter(r, "worked_down"), 2);
}

RIG_TEST(vwork_does_the_same_work_with_checkpoints, rig_new("vwork up=10us checkpoints=6"))
{
	REQUIRE(rig_open(r, rig_to(5)) != NULL);
	CHECK_EQ(pop_ns(r, 1), 10000);
}

/*
 * Half of all messages have the least work, a quarter of the mean of 50 us; each doubling is half as frequent, six
 * times.
 */
RIG_TEST(vwork_draws_work_with_a_tail, rig_new("vwork up=50us tail=6 checkpoints=3 seed=1"))
{
	unsigned count[7] = { 0 };
	uint64_t sum_ns = 0;

	REQUIRE(rig_open(r, rig_to(5)) != NULL);
	for (unsigned i = 0; i < 4096; i++) {
		uint64_t ns = pop_ns(r, 1);
		unsigned doublings = 0;

		while (doublings < 6 && ns > 12500ULL << doublings)
			doublings++;
		REQUIRE(ns == 12500ULL << doublings);
		count[doublings]++;
		sum_ns += ns;
	}
	CHECK(count[0] > 1900 && count[0] < 2200);
	for (unsigned i = 1; i < 6; i++)
		CHECK(count[i] > count[i - 1] / 3 && count[i] < count[i - 1]);
	CHECK(count[6] > count[5] / 2 && count[6] < 2 * count[5]); /* including all longer work */
	CHECK(sum_ns / 4096 > 45000 && sum_ns / 4096 < 55000);
}

RIG_TEST(vwork_supports_the_longest_work, rig_new("vwork up=1s up_kb=1s tail=10 checkpoints=1000 seed=1"))
{
	uint64_t longest_ns = 0;

	REQUIRE(rig_open(r, rig_to(5)) != NULL);
	for (unsigned i = 0; i < 8192; i++) {
		uint64_t ns = pop_ns(r, 2000);

		longest_ns = ns > longest_ns ? ns : longest_ns;
	}
	CHECK_EQ(longest_ns, 500000000ULL << 10);
}

RIG_TEST(vwork_waits_before_its_work, rig_new("vwork wait=5ms up=7us"))
{
	struct xk_kernel_stats stats;

	REQUIRE(rig_open(r, rig_to(5)) != NULL);
	rig_inject(r, "01");
	rig_advance_ms(r, 4);
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "worked_up"), 0);
	rig_advance_ms(r, 2);
	rig_expect_delivered(r, "01");
	CHECK_EQ(rig_counter(r, "worked_up"), 1);
	xk_kernel_stats(rig_kernel(r), &stats);
	CHECK_EQ(stats.handoffs[XK_HANDOFF_IMPLICIT], 1);
}

static void
prepare_fail(struct rig *r)
{
	rig_protocol(r, "vwork")->implicit = XK_IMPLICIT_FAIL;
}

RIG_TEST(vwork_drops_messages_that_may_not_wait,
	 rig_new_prepared("wire:; vwork: wire; vwork.wait=5ms; vwork.up=7us; user: vwork", prepare_fail))
{
	REQUIRE(rig_open(r, rig_to(5)) != NULL);
	rig_inject(r, "01");
	rig_advance_ms(r, 10);
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "would_wait"), 1);
}

/* A budget of 20 us that no crossing checks. */
static void
prepare_budget(struct rig *r)
{
	struct xk_protocol *user = rig_protocol(r, "user"), *vwork = rig_protocol(r, "vwork");

	xk_kernel_set_budget(rig_kernel(r), 20000, 0);
	user->lowers[0]->never = true;
	vwork->lowers[0]->never = true;
}

static uint64_t
handoffs_in_time(const char *settings)
{
	char graph[128];
	struct xk_kernel_stats stats;
	struct rig *r;

	snprintf(graph, sizeof(graph), "wire:; vwork: wire; %s; user: vwork", settings);
	r = rig_new_prepared(graph, prepare_budget);
	REQUIRE(rig_open(r, rig_to(5)) != NULL);
	rig_expect_up(r, "01", "01");
	xk_kernel_stats(rig_kernel(r), &stats);
	rig_free(r);
	return stats.handoffs[XK_HANDOFF_TIME];
}

TEST(vwork_leaves_the_driver_only_at_a_checkpoint)
{
	CHECK_EQ(handoffs_in_time("vwork.up=50us"), 0);
	CHECK_EQ(handoffs_in_time("vwork.up=50us; vwork.checkpoints=1"), 1);
	CHECK_EQ(handoffs_in_time("vwork.up=15us; vwork.checkpoints=1"), 0);
	CHECK_EQ(handoffs_in_time("vwork.up=30us; vwork.checkpoints=1"), 0); /* not spent yet at the only checkpoint */
	CHECK_EQ(handoffs_in_time("vwork.up=30us; vwork.checkpoints=9"), 1);
}
