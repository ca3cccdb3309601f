/* test_vwork.c - what vwork's work costs, on a virtual clock, and where it can be interrupted. */
#include "tests/rig.h"
#include "xkernel/upi.h"

static uint64_t
now_ns(struct rig *r)
{
	return xk_now_ns(rig_protocol(r, "vwork"));
}

/* How much time a message of len bytes takes on its way down s. */
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

TEST(vwork_without_settings_costs_nothing)
{
	struct rig *r = rig_new("vwork");
	struct xk_session *s = rig_open(r, rig_to(5));

	CHECK_EQ(push_ns(r, s, 1000), 0);
	CHECK_EQ(pop_ns(r, 1000), 0);
	CHECK_EQ(rig_counter(r, "worked_up"), 0);
	CHECK_EQ(rig_counter(r, "worked_down"), 0);
	rig_free(r);
}

TEST(vwork_works_for_each_message_and_in_proportion_to_its_bytes)
{
	struct rig *r = rig_new("vwork up=7us up_kb=800us down=30us down_kb=2us");
	struct xk_session *s = rig_open(r, rig_to(5));

	CHECK_EQ(pop_ns(r, 0), 7000);
	CHECK_EQ(pop_ns(r, 1), 7800);
	CHECK_EQ(pop_ns(r, 1500), 7000 + 1200000);
	CHECK_EQ(rig_counter(r, "worked_up"), 3);
	CHECK_EQ(rig_counter(r, "worked_down"), 0);
	CHECK_EQ(push_ns(r, s, 0), 30000);
	CHECK_EQ(push_ns(r, s, 1), 30002);
	CHECK_EQ(push_ns(r, s, 65000), 30000 + 130000);
	CHECK_EQ(rig_counter(r, "worked_down"), 3);
	rig_free(r);
}

/* Less than a nanosecond a byte: of short messages nothing is left. */
TEST(vwork_counts_parts_of_nanoseconds_over_the_whole_message)
{
	struct rig *r = rig_new("vwork down_kb=500ns");
	struct xk_session *s = rig_open(r, rig_to(5));

	CHECK_EQ(push_ns(r, s, 1), 0);
	CHECK_EQ(push_ns(r, s, 3), 1);
	CHECK_EQ(push_ns(r, s, 999), 499);
	CHECK_EQ(rig_counter(r, "worked_down"), 2);
	rig_free(r);
}

TEST(vwork_does_the_same_work_in_pieces)
{
	struct rig *r = rig_new("vwork up=10us checkpoints=6");

	REQUIRE(rig_open(r, rig_to(5)) != NULL);
	CHECK_EQ(pop_ns(r, 1), 10000);
	rig_free(r);
}

/* A budget of 20 us that no crossing looks at. */
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
	rig_inject(r, "01");
	rig_expect_delivered(r, "01");
	xk_kernel_stats(rig_kernel(r), &stats);
	rig_free(r);
	return stats.handoffs[XK_HANDOFF_TIME];
}

TEST(vwork_leaves_the_driver_at_a_checkpoint_only)
{
	CHECK_EQ(handoffs_in_time("vwork.up=50us"), 0);
	CHECK_EQ(handoffs_in_time("vwork.up=50us; vwork.checkpoints=1"), 1);
	CHECK_EQ(handoffs_in_time("vwork.up=15us; vwork.checkpoints=1"), 0);
	CHECK_EQ(handoffs_in_time("vwork.up=30us; vwork.checkpoints=1"), 0); /* not spent yet at the only one */
	CHECK_EQ(handoffs_in_time("vwork.up=30us; vwork.checkpoints=9"), 1);
}
