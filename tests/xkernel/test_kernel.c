/*
 * test_kernel.c - a kernel as a whole: its counts, changing mode and stopping under load, several hosts in one process.
 * Random schedules print their seed; XK_TEST_SEED in the environment sets it.
 */
#include <pthread.h>
#include <string.h>

#include "tests/xkernel/toy.h"
#include "xkernel/engine/engine.h"

/* ---- counts ---- */

TEST_WITH(implicit_handoffs_above_no_session_are_not_charged_to_an_edge, struct host *h, host_virtual(), host_free)
{
	host_init(h);
	for (unsigned i = 0; i < 3; i++)
		send_one(h, OP_TIMEOUT);
	host_run(h);
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_IMPLICIT], 3);
	CHECK_EQ(h->top->handled, 3);
	/* Below top, no session is popped: only the kernel counts. */
	CHECK_EQ(h->edge->handoffs[XK_HANDOFF_IMPLICIT], 0);
}

static void
check_implicit_at_edge(bool ordered, unsigned overtaken)
{
	struct xk_kernel_config config = { .mode = XK_IPP, .driver = XK_DRIVER_INTERRUPT, .stacks = 8 };
	struct host *h = host_build_on(XK_MEMORY_VIRTUAL, &config, true);

	xk_kernel_find(h->kernel, "middle")->order_session = ordered;
	host_init(h);
	send_one(h, OP_TIMEOUT);
	host_run(h);
	CHECK_EQ(h->edge->handoffs[XK_HANDOFF_IMPLICIT], 1);
	CHECK_EQ(host_stats(h).overtaken, overtaken);
	host_free(h);
}

TEST(implicit_handoffs_count_at_the_edge_above_a_session)
{
	check_implicit_at_edge(false, 1);
	check_implicit_at_edge(true, 0);
}

TEST_WITH(ended_threads_counts_are_kept, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 2, 0), host_free)
{
	struct xk_kernel_stats before, after;

	xk_kernel_set_budget(h->kernel, 1000000000, 0);
	host_start(h);
	for (unsigned i = 0; i < 50; i++) {
		send_one(h, OP_TIMEOUT);
		CHECK(host_wait_handled(h, i + 1));
	}
	while (atomic_load(&h->kernel->busy) > 0)
		host_nap();
	before = host_stats(h);
	xk_kernel_stop(h->kernel);
	after = host_stats(h);
	CHECK(before.driver_switches > 0);
	CHECK(after.driver_switches >= before.driver_switches);
	CHECK(after.thread_switches >= before.thread_switches);
	CHECK(after.clock_reads >= before.clock_reads);
	CHECK(after.stack_switches >= before.stack_switches);
}

struct reader {
	struct host *host;
	_Atomic unsigned read, done;
};

static void *
read_stats(void *argument)
{
	struct reader *reader = argument;

	while (atomic_load(&reader->done) == 0) {
		host_stats(reader->host);
		atomic_fetch_add(&reader->read, 1);
	}
	return NULL;
}

TEST_WITH(counts_may_be_read_while_threads_come_and_go, struct host *h, host_new(XK_REGULAR, XK_DRIVER_INTERRUPT, 3, 0),
	  host_free)
{
	struct reader reader = { .host = h };
	pthread_t thread;

	host_start(h);
	REQUIRE(pthread_create(&thread, NULL, read_stats, &reader) == 0);
	for (unsigned i = 0; i < 40; i++) {
		send_one(h, OP_ECHO);
		CHECK_EQ(xk_kernel_reconfigure(h->kernel, XK_REGULAR, 1 + i % 3), 0);
	}
	CHECK(wait_until(&reader.read, 1));
	atomic_store(&reader.done, 1);
	pthread_join(thread, NULL);
	CHECK(host_wait_handled(h, 40));
}

/* ---- reconfiguring ---- */

static void
handler_that_goes_on(struct xk_event *event, void *argument)
{
	struct top *top = argument;

	atomic_fetch_add(&top->order_count, 1);
	xk_event_schedule(event, 0);
}

TEST_WITH(a_driver_busy_with_events_can_be_reconfigured, struct host *h, host_new(XK_IPP, XK_DRIVER_POLL, 1, 0),
	  host_free)
{
	struct xk_event busy;

	host_start(h);
	xk_event_init(&busy, h->kernel, handler_that_goes_on, h->top);
	xk_event_schedule(&busy, 0);
	for (unsigned i = 0; i < 10; i++) {
		CHECK_EQ(xk_kernel_reconfigure(h->kernel, i % 2 == 0 ? XK_REGULAR : XK_IPP, 2), 0);
		send_one(h, OP_ECHO);
		CHECK(host_wait_handled(h, i + 1));
	}
	xk_kernel_stop(h->kernel);
}

TEST_WITH(regular_mode_keeps_at_least_one_thread, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0),
	  host_free)
{
	host_start(h);
	CHECK_EQ(xk_kernel_reconfigure(h->kernel, XK_REGULAR, 0), 0);
	host_echo(h, OP_ECHO, 100);
}

TEST_WITH(parked_stacks_survive_a_change_of_mode_and_of_threads, struct host *h,
	  host_new(XK_IPP, XK_DRIVER_INTERRUPT, 3, 0), host_free)
{
	unsigned handled = 0;

	srand(test_seed("modes"));
	host_start(h);
	for (unsigned i = 0; i < 60; i++) {
		unsigned waiting = (unsigned)rand() % 4;

		CHECK_EQ(xk_kernel_reconfigure(h->kernel, XK_IPP, 1 + (unsigned)rand() % 3), 0);
		h->top->protocol.resume = rand() % 2 == 0 ? XK_RESUME_DRIVER : XK_RESUME_THREAD;
		for (unsigned j = 0; j < waiting; j++)
			send_one(h, OP_NESTED);
		while (host_stats(h).stacks_parked < waiting)
			host_nap();
		for (unsigned j = 0; j < waiting; j++)
			xk_semaphore_signal(&h->top->semaphore);
		CHECK_EQ(xk_kernel_reconfigure(h->kernel, XK_REGULAR, 1 + (unsigned)rand() % 3), 0);
		for (unsigned j = 0; j < waiting; j++)
			send_one(h, OP_SIGNAL);
		handled += 2 * waiting;
		CHECK(host_wait_handled(h, handled));
	}
}

/* ---- stopping ---- */

static void
application_that_takes_long(void *argument)
{
	struct host *h = argument;

	for (unsigned i = 0; i < 26000; i++)
		host_nap();
	xk_delay(&h->top->protocol, 1);
	atomic_fetch_add(&h->top->handled, 1);
}

TEST_WITH(stop_waits_for_slow_applications, struct host *h, host_new(XK_REGULAR, XK_DRIVER_INTERRUPT, 1, 0), host_free)
{
	host_start(h);
	CHECK_EQ(xk_thread_start(h->kernel, "long", application_that_takes_long, h), 0);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(h->top->handled, 1);
}

static void *
foreign_waiter(void *argument)
{
	struct top *top = argument;
	int result;

	atomic_fetch_add(&top->handled, 1);
	result = xk_semaphore_wait(&top->never, 1000000000);
	return result == -ECANCELED ? top : NULL;
}

TEST(stop_ends_foreign_threads_waits_before_it_returns)
{
	for (unsigned i = 0; i < 200; i++) {
		struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 4);
		struct top *top = h->top;
		pthread_t threads[3];
		void *result;

		host_start(h);
		for (unsigned j = 0; j < 3; j++)
			REQUIRE(pthread_create(&threads[j], NULL, foreign_waiter, top) == 0);
		CHECK(wait_until(&top->handled, 3));
		while (host_stats(h).foreign_waits < 3)
			host_nap();
		host_free(h);
		for (unsigned j = 0; j < 3; j++) {
			pthread_join(threads[j], &result);
			CHECK(result == top);
		}
	}
}

TEST(stop_returns_at_any_moment)
{
	srand(test_seed("stopping"));
	for (unsigned i = 0; i < 60; i++) {
		static const enum op ops[] = { OP_ECHO,   OP_WAIT, OP_SIGNAL,  OP_TIMEOUT,
					       OP_NESTED, OP_LOCK, OP_HANDOFF, OP_SIGNAL };
		struct host *h = host_new(rand() % 3 == 0 ? XK_REGULAR : XK_IPP, (enum xk_driver_policy)(rand() % 3),
					  1 + (unsigned)rand() % 3, 2 + (unsigned)rand() % 12);

		h->top->protocol.resume = rand() % 2 == 0 ? XK_RESUME_DRIVER : XK_RESUME_THREAD;
		h->top->protocol.implicit = (enum xk_implicit)(rand() % 3);
		h->top->protocol.spin_ns = 10000;
		xk_edge_watch(h->edge, XK_WATCH_ANY, rand() % 3 == 0 ? XK_WATCH_EXPLICIT : 0);
		host_start(h);
		for (unsigned j = 0, count = (unsigned)rand() % 400; j < count; j++)
			send_one(h, ops[rand() % 8]);
		for (unsigned j = 0, naps = (unsigned)rand() % 10; j < naps; j++)
			host_nap();
		xk_kernel_stop(h->kernel);
		CHECK_EQ(host_stats(h).stacks_parked, 0);
		CHECK_EQ(h->kernel->busy, 0);
		host_free(h);
	}
}

/* ---- one process, several hosts; no threads at all ---- */

TEST_WITH(kernel_copies_its_name_from_the_config, struct xk_platform *platform,
	  xk_memory_platform_new(XK_MEMORY_VIRTUAL), xk_memory_platform_free)
{
	char name[] = "client";
	struct xk_kernel_config config = { .name = name, .platform = platform, .mode = XK_IPP, .core = -1 };
	struct xk_kernel *kernel = xk_kernel_new(&config);

	REQUIRE(kernel != NULL);
	strcpy(name, "other");
	CHECK_STR(kernel->config.name, "client");
	xk_kernel_free(kernel);
}

TEST(several_kernels_share_a_process)
{
	enum { HOSTS = 3, ROUNDS = 400 };
	struct host *hosts[HOSTS];

	for (unsigned i = 0; i < HOSTS; i++) {
		hosts[i] =
			host_new(i == 0 ? XK_REGULAR : XK_IPP, i == 2 ? XK_DRIVER_ADAPTIVE : XK_DRIVER_INTERRUPT, 1, 0);
		hosts[i]->top->protocol.resume = i == 2 ? XK_RESUME_DRIVER : XK_RESUME_THREAD;
		host_start(hosts[i]);
	}
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < HOSTS; i++) {
			send_one(hosts[i], round % 3 == 0 ? OP_TIMEOUT : OP_HANDOFF);
			if (round % 16 == 15)
				CHECK(host_wait_handled(hosts[i], round + 1));
		}
	}
	for (unsigned i = 0; i < HOSTS; i++) {
		CHECK(host_wait_handled(hosts[i], ROUNDS));
		host_free(hosts[i]);
	}
}

TEST_WITH(driver_without_threads_carries_handed_off_messages, struct host *h, host_virtual(), host_free)
{
	xk_edge_watch(h->edge, XK_WATCH_ANY, XK_WATCH_EXPLICIT);
	host_init(h);
	for (unsigned i = 0; i < 200; i++) {
		send_one(h, OP_HANDOFF);
		send_one(h, OP_TIMEOUT);
		send_one(h, OP_NESTED);
		send_one(h, OP_SIGNAL);
		send_one(h, OP_SIGNAL);
		if (i % 4 == 3)
			host_run(h);
	}
	CHECK_EQ(h->top->handled, 1000);
	CHECK_EQ(host_stats(h).stacks_parked, 0);
	CHECK_EQ(h->kernel->busy, 0);
}

TEST(kernel_free_after_run_unwinds_waits)
{
	struct host *h = host_virtual();

	host_init(h);
	for (unsigned i = 0; i < 5; i++)
		send_one(h, OP_WAIT);
	host_run(h);
	CHECK_EQ(host_stats(h).stacks_parked, 5);
	host_free(h); /* fails if a message is leaked */
}

static void
application_that_is_counted(void *argument)
{
	++*(unsigned *)argument;
}

TEST_WITH(kernel_run_keeps_a_stack_for_its_driver, struct host *h, host_virtual(), host_free)
{
	unsigned started, ran = 0;

	host_init(h);
	host_run(h);
	for (unsigned runs = 1; runs <= 2; runs++) {
		for (started = 0; started < 100; started++)
			if (xk_thread_start(h->kernel, "application", application_that_is_counted, &ran) != 0)
				break;
		CHECK_EQ(started, 7); /* of eight */
		host_run(h);
		CHECK_EQ(ran, runs * 7);
	}
}
