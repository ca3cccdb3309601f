/*
 * test_process.c - shepherds that wait: event handlers, stacks, signals racing with timeouts, and how waits are charged
 * to budgets. Random schedules print their seed; XK_TEST_SEED in the environment sets it.
 */
#include "tests/xkernel/toy.h"
#include "xkernel/engine/engine.h"

/* ---- event handlers that wait ---- */

static void
handler_that_waits(struct xk_event *event, void *argument)
{
	struct top *top = argument;

	if (xk_delay(&top->protocol, 300) == 0)
		atomic_fetch_add(&top->handled, 1);
}

static void
handler_that_counts(struct xk_event *event, void *argument)
{
	struct top *top = argument;

	atomic_fetch_add(&top->handled, 1);
}

static void
check_handlers_wait(enum xk_mode mode)
{
	enum { WAITING = 10 };
	struct host *h = host_new(mode, XK_DRIVER_INTERRUPT, 1, 0);
	struct xk_event waiting[WAITING], counting;

	host_start(h);
	xk_event_init(&counting, h->kernel, handler_that_counts, h->top);
	for (unsigned i = 0; i < WAITING; i++) {
		xk_event_init(&waiting[i], h->kernel, handler_that_waits, h->top);
		xk_event_schedule(&waiting[i], 10 * i);
	}
	CHECK(wait_until(&h->top->handled, WAITING));
	xk_event_schedule(&counting, 0);
	CHECK(wait_until(&h->top->handled, WAITING + 1));
	host_free(h);
}

TEST_OF(waiting_handler_does_not_stop_time_in_ipp_mode, check_handlers_wait(XK_IPP));
TEST_OF(waiting_handler_does_not_stop_time_in_regular_mode, check_handlers_wait(XK_REGULAR));

static void
handler_that_waits_for_ever(struct xk_event *event, void *argument)
{
	struct top *top = argument;

	atomic_fetch_add(&top->handled, 1);
	xk_semaphore_wait(&top->semaphore, XK_FOREVER);
}

TEST(stop_ends_event_handlers_waits)
{
	for (unsigned mode = XK_REGULAR; mode <= XK_IPP; mode++) {
		struct host *h = host_new((enum xk_mode)mode, XK_DRIVER_INTERRUPT, 1, 0);
		struct xk_event waiting[5];

		host_start(h);
		for (unsigned i = 0; i < 5; i++) {
			xk_event_init(&waiting[i], h->kernel, handler_that_waits_for_ever, h->top);
			xk_event_schedule(&waiting[i], 0);
		}
		CHECK(wait_until(&h->top->handled, 5));
		host_free(h);
	}
}

/* ---- the clock ---- */

static void
act_read_clock(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	for (unsigned i = 0; i < m->data[1]; i++)
		xk_now_ns(&top->protocol);
	xk_msg_free(m);
}

TEST(protocols_clock_readings_are_counted)
{
	const struct xk_kernel_config config = { .mode = XK_IPP };
	struct host *h = host_build_on(XK_MEMORY_VIRTUAL, &config, false);
	uint64_t before;

	host_init(h);
	h->top->act = act_read_clock;
	host_send(h, OP_ACT, 0);
	host_run(h);
	before = host_stats(h).clock_reads;
	host_send(h, OP_ACT, 100);
	host_run(h);
	CHECK(host_stats(h).clock_reads - before >= 100);
	CHECK(host_stats(h).clock_reads - before < 200);
	host_free(h);
}

static void
act_ask_for_arrival(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	uint64_t begun_ns = xk_now_ns(&top->protocol), *late_ns = top->argument;

	for (unsigned i = 0; i < m->data[1]; i++)
		*late_ns = xk_arrival_ns(&top->protocol) - begun_ns;
	xk_msg_free(m);
}

/* The driver knows when a message has arrived; a thread reads the clock. */
TEST(a_message_s_arrival_time_takes_no_clock_reading_in_the_driver)
{
	for (unsigned mode = XK_REGULAR; mode <= XK_IPP; mode++) {
		struct host *h = host_new((enum xk_mode)mode, XK_DRIVER_INTERRUPT, 1, 0);
		uint64_t late_ns = 0, reads;

		h->top->act = act_ask_for_arrival;
		h->top->argument = &late_ns;
		host_start(h);
		host_send(h, OP_ACT, 200);
		CHECK(wait_until(&h->top->handled, 1));
		reads = host_stats(h).clock_reads;
		host_free(h);
		CHECK_EQ((int64_t)late_ns <= 0, mode == XK_IPP);
		CHECK_EQ(reads < 200, mode == XK_IPP);
	}
}

/* ---- parked shepherds ---- */

static void
act_wait(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	if (m->data[1] == 0)
		xk_semaphore_wait(&top->semaphore, XK_UNTIL_SIGNALLED);
	else
		xk_delay(&top->protocol, m->data[1] * 1000);
	xk_msg_free(m);
}

static const struct xk_parked *
parked_of(const struct xk_parked *groups, unsigned count, enum xk_wait_end end)
{
	for (unsigned i = 0; i < count; i++)
		if (groups[i].end == end)
			return &groups[i];
	return NULL;
}

TEST(parked_shepherds_are_grouped_by_protocol_kind_and_time)
{
	const struct xk_kernel_config config = { .mode = XK_IPP };
	struct host *h = host_build_on(XK_MEMORY_VIRTUAL, &config, false);
	const struct xk_parked *signalled, *timed;
	struct xk_parked groups[4];
	unsigned count;

	host_init(h);
	h->top->act = act_wait;
	CHECK_EQ(xk_kernel_parked(h->kernel, groups, 4), 0);
	for (unsigned i = 0; i < 3; i++)
		host_send(h, OP_ACT, i < 2 ? 0 : 200);
	for (unsigned turns = 0; turns < 10; turns++)
		xk_kernel_turn(h->kernel);
	xk_memory_advance(h->platform, 50000000);
	count = xk_kernel_parked(h->kernel, groups, 4);
	CHECK_EQ(count, 2);
	signalled = parked_of(groups, count, XK_WAIT_SIGNALLED);
	timed = parked_of(groups, count, XK_WAIT_TIMED);
	REQUIRE(signalled != NULL && timed != NULL);
	CHECK(signalled->protocol == &h->top->protocol);
	CHECK_EQ(signalled->load, XK_LOAD_MESSAGE);
	CHECK_EQ(signalled->count, 2);
	CHECK_EQ(timed->count, 1);
	CHECK_EQ(timed->longest_ns, 50000000);
	CHECK(!xk_kernel_is_stuck(h->kernel));
	CHECK_EQ(xk_kernel_parked(h->kernel, groups, 1), 1); /* the last group includes the rest */
	CHECK_EQ(groups[0].count, 3);
	host_free(h);
}

/* ---- stacks ---- */

static void
application_that_counts(void *argument)
{
	struct top *top = argument;

	atomic_fetch_add(&top->handled, 1);
}

TEST_WITH(applications_leave_the_driver_its_stack, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 4),
	  host_free)
{
	host_init(h);
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(xk_thread_start(h->kernel, "early", application_that_counts, h->top), 0);
	CHECK_EQ(xk_thread_start(h->kernel, "early", application_that_counts, h->top), -EAGAIN);
	REQUIRE(xk_kernel_start(h->kernel) == 0);
	CHECK(wait_until(&h->top->handled, 3));
	send_one(h, OP_ECHO);
	CHECK(host_wait_handled(h, 4));
}

TEST(ordered_session_without_a_stack_drops_by_name)
{
	struct xk_kernel_config config = { .mode = XK_IPP, .driver = XK_DRIVER_INTERRUPT, .threads = 1, .stacks = 3 };
	struct host *h = host_build(&config, true);
	struct xk_protocol *middle = xk_kernel_find(h->kernel, "middle");

	host_start(h);
	send_one(h, OP_WAIT);
	for (unsigned i = 0; i < 20; i++)
		send_one(h, OP_ECHO);
	while (atomic_load(&middle->drops[XK_DROP_NO_STACK]) < 19)
		host_nap();
	xk_semaphore_signal(&h->top->semaphore);
	CHECK(host_wait_handled(h, 2)); /* the one that waited, and the one that got a stack to wait on */
	CHECK_EQ(host_stats(h).no_stack, 19);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), 2);
	host_free(h);
}

/* ---- timeouts ---- */

static void
wait_a_little(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	unsigned *outcomes = top->argument;
	int result = xk_semaphore_wait(&top->semaphore, 100);

	xk_msg_free(m);
	if (result == 0)
		atomic_fetch_add((_Atomic unsigned *)&outcomes[0], 1);
	else if (result == -ETIMEDOUT)
		atomic_fetch_add((_Atomic unsigned *)&outcomes[1], 1);
}

static void
check_signal_against_time_out(enum xk_mode mode, enum xk_resume resume)
{
	enum { ROUNDS = 2000 };
	struct host *h = host_new(mode, XK_DRIVER_INTERRUPT, 2, 0);
	unsigned outcomes[2] = { 0, 0 };

	h->top->protocol.resume = resume;
	h->top->act = wait_a_little;
	h->top->argument = outcomes;
	host_start(h);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t until = xk_now_ns(&h->top->protocol) + 70000 + (uint64_t)(rand() % 120000);

		send_one(h, OP_ACT);
		while (xk_now_ns(&h->top->protocol) < until)
			continue;
		xk_semaphore_signal(&h->top->semaphore);
		CHECK(host_wait_handled(h, i + 1));
	}
	xk_kernel_stop(h->kernel);
	CHECK_EQ(outcomes[0] + outcomes[1], ROUNDS);
	/* Every signal ended a wait or is still pending. */
	CHECK_EQ(outcomes[0] + h->top->semaphore.count, ROUNDS);
	CHECK(h->top->semaphore.first == NULL);
	host_free(h);
}

TEST(simultaneous_signal_and_timeout_end_a_wait_once)
{
	unsigned seed = test_seed("time-outs");

	srand(seed);
	check_signal_against_time_out(XK_IPP, XK_RESUME_THREAD);
	check_signal_against_time_out(XK_IPP, XK_RESUME_DRIVER);
	check_signal_against_time_out(XK_REGULAR, XK_RESUME_THREAD);
}

static void
signal_top(struct xk_event *event, void *argument)
{
	xk_semaphore_signal(argument);
}

static void
check_same_microsecond(bool signal_is_older)
{
	struct host *h = host_virtual();
	unsigned outcomes[2] = { 0, 0 };
	struct xk_event signal;

	h->top->act = wait_a_little;
	h->top->argument = outcomes;
	host_init(h);
	xk_event_init(&signal, h->kernel, signal_top, &h->top->semaphore);
	if (signal_is_older)
		xk_event_schedule(&signal, 100);
	send_one(h, OP_ACT);
	xk_memory_run_until(h->platform, 50000);
	host_run(h);
	if (!signal_is_older)
		xk_event_schedule(&signal, 50);
	xk_memory_run_until(h->platform, UINT64_MAX);
	host_run(h);
	CHECK_EQ(outcomes[0], signal_is_older);
	CHECK_EQ(outcomes[1], !signal_is_older);
	CHECK_EQ(h->top->semaphore.count, !signal_is_older);
	CHECK_EQ(h->top->handled, 1);
	host_free(h);
}

TEST(within_one_microsecond_the_older_event_wins)
{
	check_same_microsecond(true);
	check_same_microsecond(false);
}

/* ---- budgets, on a virtual clock ---- */

/* Takes the number of microseconds in the message's second byte, then checks the budget. */
static void
act_work(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	struct host *h = top->argument;

	xk_memory_advance(h->platform, m->data[1] * 1000u);
	xk_checkpoint(&top->protocol);
	xk_msg_free(m);
}

static struct host *
budget_host(unsigned carry)
{
	struct host *h = host_virtual();

	xk_kernel_set_budget(h->kernel, 20000, carry);
	h->top->argument = h;
	h->top->act = act_work;
	host_init(h);
	return h;
}

TEST_WITH(saved_budget_is_spent_by_the_message_that_uses_it, struct host *h, budget_host(4), host_free)
{
	for (unsigned i = 0; i < 8; i++)
		host_send(h, OP_ACT, 0);
	host_run(h);
	CHECK_EQ(h->kernel->driver.credit_ns, 80000);
	host_send(h, OP_ACT, 110); /* more than the budget and all savings: handed off, and the savings are spent */
	host_send(h, OP_ACT, 30);  /* has only its own 20 us */
	host_run(h);
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_TIME], 2);
	CHECK_EQ(host_stats(h).overruns, 0);
}

static void
act_work_then_handoff(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	struct host *h = top->argument;

	xk_memory_advance(h->platform, m->data[1] * 1000u);
	xk_handoff(&top->protocol);
	xk_msg_free(m);
}

TEST_WITH(late_explicit_handoff_is_an_overrun, struct host *h, budget_host(0), host_free)
{
	h->top->act = act_work_then_handoff;
	host_send(h, OP_ACT, 10);
	host_send(h, OP_ACT, 110);
	host_run(h);
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_EXPLICIT], 2);
	CHECK_EQ(host_stats(h).overruns, 1);
}

static void
act_wait_then_work(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	struct host *h = top->argument;

	xk_memory_advance(h->platform, 15000);
	xk_delay(&top->protocol, 1000);
	xk_memory_advance(h->platform, m->data[1] * 1000u);
	if (m->data[1] < 100)
		xk_checkpoint(&top->protocol);
	xk_msg_free(m);
}

TEST_WITH(resumed_message_keeps_its_budget, struct host *h, budget_host(0), host_free)
{
	h->top->protocol.resume = XK_RESUME_DRIVER;
	h->top->act = act_wait_then_work;
	host_send(h, OP_ACT, 4); /* 19 us: the millisecond of waiting does not count */
	host_run(h);
	CHECK_EQ(host_stats(h).resumes_driver, 1);
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_TIME], 0);
	CHECK_EQ(host_stats(h).overruns, 0);
	host_send(h, OP_ACT, 10); /* 25 us */
	host_run(h);
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_TIME], 1);
	host_send(h, OP_ACT, 200); /* without a check */
	host_run(h);
	CHECK_EQ(host_stats(h).overruns, 1);
	CHECK_EQ(h->top->handled, 3);
}
