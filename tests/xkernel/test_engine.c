/*
 * test_engine.c - the stack engine under load: handoffs of each kind, parking racing with signals, pool exhaustion,
 * nested waits, sleeping drivers, timeouts, order, changes of mode. Real threads on the in-memory platform, with the
 * toy protocols of toy.h.
 */
#include "tests/xkernel/toy.h"

/* ---- tests ---- */

#define MANY (test_is_long() ? 4000u : 1000u)

TEST_WITH(regular_mode_carries_every_message_on_a_thread, struct host *h,
	  host_new(XK_REGULAR, XK_DRIVER_INTERRUPT, 2, 0), host_free)
{
	host_start(h);
	host_echo(h, OP_ECHO, MANY);
	CHECK_EQ(host_stats(h).frames, MANY);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), MANY);
}

TEST_WITH(ipp_without_handoff_switches_no_stack_and_takes_no_lock, struct host *h,
	  host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0), host_free)
{
	struct xk_kernel_stats before, after;

	host_start(h);
	host_echo(h, OP_ECHO, 1);
	before = host_stats(h);
	for (unsigned i = 1; i < MANY; i++)
		host_send(h, OP_ECHO, (uint8_t)i);
	CHECK(host_wait_handled(h, MANY));
	after = host_stats(h);
	CHECK_EQ(after.stack_switches, before.stack_switches);
	CHECK_EQ(after.locks, before.locks);
	CHECK(after.clock_reads - before.clock_reads <= after.turns - before.turns + 1);
	CHECK_EQ(after.handoffs[XK_HANDOFF_EXPLICIT] + after.handoffs[XK_HANDOFF_IMPLICIT], 0);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), MANY);
}

TEST_WITH(polling_driver_carries_messages_too, struct host *h, host_new(XK_IPP, XK_DRIVER_POLL, 1, 0), host_free)
{
	host_start(h);
	host_echo(h, OP_ECHO, MANY);
	CHECK_EQ(host_stats(h).sleeps, 0);
}

TEST_WITH(explicit_edge_hands_every_message_off, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 2, 0), host_free)
{
	struct xk_kernel_stats stats;

	xk_edge_watch(h->edge, XK_WATCH_ANY, XK_WATCH_EXPLICIT);
	host_start(h);
	host_echo(h, OP_ECHO, MANY);
	xk_kernel_stop(h->kernel);
	stats = host_stats(h);
	CHECK_EQ(stats.handoffs[XK_HANDOFF_EXPLICIT] + stats.fallbacks, MANY);
	CHECK_EQ(h->edge->handoffs[XK_HANDOFF_EXPLICIT], stats.handoffs[XK_HANDOFF_EXPLICIT]);
	CHECK(stats.handoffs[XK_HANDOFF_EXPLICIT] > 0);
	CHECK_EQ(host_collect(h), MANY);
}

TEST_WITH(a_protocol_may_ask_for_a_handoff, struct host *h, host_new(XK_IPP, XK_DRIVER_ADAPTIVE, 1, 0), host_free)
{
	host_start(h);
	host_echo(h, OP_HANDOFF, 500);
	CHECK(host_stats(h).handoffs[XK_HANDOFF_EXPLICIT] > 0);
}

TEST_WITH(handoffs_with_two_stacks_fall_back_and_lose_nothing, struct host *h,
	  host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 2), host_free)
{
	xk_edge_watch(h->edge, XK_WATCH_ANY, XK_WATCH_EXPLICIT);
	host_start(h);
	host_echo(h, OP_ECHO, MANY);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), MANY);
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_EXPLICIT] + host_stats(h).fallbacks, MANY);
}

TEST_WITH(time_budget_hands_off_long_messages_only, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0),
	  host_free)
{
	xk_kernel_set_budget(h->kernel, 20000, 0);
	host_start(h);
	host_echo(h, OP_BUSY, 100);
	CHECK(host_stats(h).handoffs[XK_HANDOFF_TIME] + host_stats(h).fallbacks > 50);
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_EXPLICIT], 0);
}

static void
check_park_against_signal(enum xk_resume resume, enum xk_driver_policy driver, enum xk_implicit implicit)
{
	struct host *h = host_new(XK_IPP, driver, 2, 64);

	h->top->protocol.resume = resume;
	h->top->protocol.implicit = implicit;
	h->top->protocol.spin_ns = 20000;
	host_start(h);
	for (unsigned i = 0; i < MANY / 2; i++) {
		bool signal_first = rand() % 2 == 0;

		host_send(h, signal_first ? OP_SIGNAL : OP_WAIT, 0);
		host_send(h, signal_first ? OP_WAIT : OP_SIGNAL, 0);
		if (i % 16 == 15)
			CHECK(host_wait_handled(h, 2 * (i + 1)));
	}
	CHECK(host_wait_handled(h, MANY));
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), MANY / 2);
	CHECK(host_stats(h).parks > 0);
	CHECK_EQ(host_stats(h).parks, host_stats(h).resumes_thread + host_stats(h).resumes_driver);
	host_free(h);
}

TEST_OF(parked_shepherds_are_resumed_by_threads,
	check_park_against_signal(XK_RESUME_THREAD, XK_DRIVER_INTERRUPT, XK_IMPLICIT_HANDOFF));
TEST_OF(parked_shepherds_are_resumed_by_the_driver,
	check_park_against_signal(XK_RESUME_DRIVER, XK_DRIVER_INTERRUPT, XK_IMPLICIT_HANDOFF));

/* Two shepherds wake each other by bells[0] and bells[1] until the test ends; the test wakes a third. */
struct ringers {
	struct xk_semaphore bells[3];
	_Atomic unsigned rings[3];
	_Atomic bool ends;
};

struct ringer {
	struct ringers *all;
	unsigned bell;
};

static void
ringer_run(void *argument)
{
	const struct ringer *ringer = argument;
	struct ringers *all = ringer->all;

	while (xk_semaphore_wait(&all->bells[ringer->bell], XK_FOREVER) == 0) {
		atomic_fetch_add(&all->rings[ringer->bell], 1);
		if (ringer->bell < 2 && !atomic_load(&all->ends))
			xk_semaphore_signal(&all->bells[1 - ringer->bell]);
	}
}

static bool
ringers_have_rung(struct ringers *all, unsigned which, unsigned times)
{
	for (unsigned i = 0; i < 600000 && atomic_load(&all->rings[which]) < times; i++)
		host_nap();
	return atomic_load(&all->rings[which]) >= times;
}

/* Two shepherds keep making each other runnable in the driver: frames and other threads still get their turns. */
TEST(shepherds_that_wake_each_other_starve_nobody)
{
	for (unsigned policy = XK_DRIVER_POLL; policy <= XK_DRIVER_INTERRUPT; policy++) {
		struct host *h = host_new(XK_IPP, (enum xk_driver_policy)policy, 1, 0);
		struct ringers all = { .ends = false };
		struct ringer ringers[3];

		h->top->protocol.resume = XK_RESUME_DRIVER;
		for (unsigned i = 0; i < 3; i++)
			xk_semaphore_init(&all.bells[i], &h->top->protocol, 0);
		host_start(h);
		for (unsigned i = 0; i < 3; i++) {
			ringers[i] = (struct ringer){ &all, i };
			CHECK_EQ(xk_thread_start(h->kernel, "ringer", ringer_run, &ringers[i]), 0);
		}
		xk_semaphore_signal(&all.bells[0]);
		CHECK(ringers_have_rung(&all, 0, 1000));
		host_echo(h, OP_ECHO, MANY);
		for (unsigned i = 1; i <= 100; i++) {
			xk_semaphore_signal(&all.bells[2]);
			CHECK(ringers_have_rung(&all, 2, i));
		}
		CHECK(ringers_have_rung(&all, 1, atomic_load(&all.rings[1]) + 1000));
		atomic_store(&all.ends, true);
		xk_kernel_stop(h->kernel);
		CHECK(host_stats(h).resumes_driver > 2000);
		host_free(h);
	}
}

TEST_OF(parked_shepherds_are_resumed_under_a_polling_driver,
	check_park_against_signal(XK_RESUME_DRIVER, XK_DRIVER_POLL, XK_IMPLICIT_HANDOFF));
TEST_OF(spinning_for_a_signal_resumes_in_the_driver,
	check_park_against_signal(XK_RESUME_THREAD, XK_DRIVER_INTERRUPT, XK_IMPLICIT_SPIN));

TEST_WITH(implicit_fail_ends_the_wait_in_the_driver, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0),
	  host_free)
{
	h->top->protocol.implicit = XK_IMPLICIT_FAIL;
	host_start(h);
	host_echo(h, OP_WAIT, 50);
	CHECK_EQ(h->top->protocol.drops[TOP_NOT_WAITED], 50);
	CHECK_EQ(host_stats(h).parks, 0);
}

TEST_WITH(exhausted_stacks_drop_by_name_and_others_are_served, struct host *h,
	  host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 8), host_free)
{
	host_start(h);
	for (unsigned i = 0; i < 20; i++)
		host_send(h, OP_WAIT, 0);
	CHECK(host_wait_handled(h, 13)); /* seven park; the driver keeps the eighth stack */
	CHECK_EQ(h->top->protocol.drops[TOP_NOT_WAITED], 13);
	CHECK_EQ(host_stats(h).no_stack, 13);
	for (unsigned i = 0; i < 100; i++)
		host_send(h, OP_ECHO, 0);
	CHECK(host_wait_handled(h, 113));
	for (unsigned i = 0; i < 7; i++)
		host_send(h, OP_SIGNAL, 0);
	CHECK(host_wait_handled(h, 127));
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), 107);
}

TEST_WITH(nested_waits_return, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 2, 32), host_free)
{
	host_start(h);
	for (unsigned i = 0; i < 300; i++) {
		host_send(h, OP_NESTED, 0);
		host_send(h, OP_SIGNAL, 0);
		host_send(h, OP_SIGNAL, 0);
		if (i % 8 == 7)
			CHECK(host_wait_handled(h, 3 * (i + 1)));
	}
	CHECK(host_wait_handled(h, 900));
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), 300);
}

static void
check_timeouts(enum xk_mode mode, enum xk_resume resume)
{
	struct host *h = host_new(mode, XK_DRIVER_INTERRUPT, 4, 0);

	h->top->protocol.resume = resume;
	host_start(h);
	for (unsigned i = 0; i < 200; i++) {
		host_send(h, OP_TIMEOUT, 0);
		if (i % 20 == 19)
			CHECK(host_wait_handled(h, i + 1));
	}
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), 200);
	CHECK_EQ(h->top->protocol.drops[TOP_NOT_WAITED], 0);
	host_free(h);
}

TEST(waits_time_out_on_parked_stacks)
{
	check_timeouts(XK_IPP, XK_RESUME_THREAD);
	check_timeouts(XK_IPP, XK_RESUME_DRIVER);
}

TEST_OF(waits_time_out_on_threads, check_timeouts(XK_REGULAR, XK_RESUME_THREAD));

TEST_WITH(regular_waits_block_threads_and_a_stall_is_reported, struct host *h,
	  host_new(XK_REGULAR, XK_DRIVER_INTERRUPT, 2, 0), host_free)
{
	host_start(h);
	for (unsigned i = 0; i < 4; i++)
		host_send(h, OP_WAIT, 0);
	for (unsigned tries = 0; tries < 300000 && host_stats(h).stalled == 0; tries++)
		host_nap();
	CHECK(host_stats(h).stalled > 0);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(h->top->protocol.drops[TOP_NOT_WAITED], 4);
}

TEST_WITH(foreign_signal_wakes_a_sleeping_driver, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0),
	  host_free)
{
	h->top->protocol.resume = XK_RESUME_DRIVER;
	host_start(h);
	for (unsigned i = 0; i < 500; i++) {
		host_send(h, OP_WAIT, 0);
		if (i % 2 == 0)
			host_nap();
		xk_semaphore_signal(&h->top->semaphore);
		CHECK(host_wait_handled(h, i + 1));
	}
}

TEST_WITH(stopping_ends_every_wait, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0), host_free)
{
	host_start(h);
	for (unsigned i = 0; i < 30; i++)
		host_send(h, OP_WAIT, 0);
	while (host_stats(h).stacks_parked < 30)
		host_nap();
	xk_kernel_stop(h->kernel);
	CHECK_EQ(h->top->protocol.drops[TOP_NOT_WAITED], 30);
	CHECK_EQ(host_stats(h).stacks_parked, 0);
}

TEST_WITH(contended_locks_are_exclusive, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 2, 0), host_free)
{
	xk_edge_watch(h->edge, XK_WATCH_ANY, XK_WATCH_EXPLICIT);
	host_start(h);
	host_echo(h, OP_LOCK, MANY);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(h->top->counted, MANY);
}

TEST(ordered_sessions_keep_their_order_through_handoffs)
{
	struct xk_kernel_config config = { .mode = XK_IPP, .driver = XK_DRIVER_INTERRUPT, .threads = 3 };
	struct host *h = host_build(&config, true);

	xk_edge_watch(h->edge, XK_WATCH_ANY, XK_WATCH_EXPLICIT);
	host_start(h);
	for (unsigned i = 0; i < 2000; i++) {
		host_send(h, OP_ECHO, (uint8_t)i);
		if (i % 32 == 31)
			CHECK(host_wait_handled(h, i + 1));
	}
	CHECK(host_wait_handled(h, 2000));
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), 2000);
	CHECK(host_stats(h).handoffs[XK_HANDOFF_EXPLICIT] > 0);
	CHECK_EQ(host_stats(h).overtaken, 0);
	for (unsigned i = 0; i < 2000; i++)
		if (h->top->order[i] != (uint8_t)i) {
			CHECK_EQ(h->top->order[i], (uint8_t)i);
			break;
		}
	host_free(h);
}

TEST_WITH(mode_and_threads_change_between_messages, struct host *h, host_new(XK_REGULAR, XK_DRIVER_INTERRUPT, 1, 0),
	  host_free)
{
	unsigned total = 0;

	host_start(h);
	for (unsigned round = 0; round < 24; round++) {
		for (unsigned i = 0; i < 100; i++, total++)
			host_send(h, OP_ECHO, 0);
		CHECK_EQ(xk_kernel_reconfigure(h->kernel, round % 2 == 0 ? XK_IPP : XK_REGULAR, 1 + round % 3), 0);
	}
	CHECK(host_wait_handled(h, total));
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), total);
}

static void
application(void *argument)
{
	struct host *h = argument;

	for (unsigned i = 0; i < 20; i++)
		if (xk_delay(&h->top->protocol, 300) == 0)
			atomic_fetch_add(&h->top->handled, 1);
}

static void
check_application(enum xk_mode mode)
{
	struct host *h = host_new(mode, XK_DRIVER_INTERRUPT, 1, 0);

	host_start(h);
	for (unsigned i = 0; i < 10; i++)
		CHECK_EQ(xk_thread_start(h->kernel, "application", application, h), 0);
	CHECK(host_wait_handled(h, 200));
	host_free(h);
}

TEST(application_code_runs_as_shepherds)
{
	check_application(XK_IPP);
	check_application(XK_REGULAR);
}
