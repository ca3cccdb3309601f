/* test_turn.c - kernels in programs with their own loop: xk_kernel_turn. */
#include <pthread.h>

#include "tests/xkernel/toy.h"

/* Turns until there is nothing to do now. Returns the last xk_kernel_turn's result. */
static uint64_t
host_turns(struct host *h)
{
	uint64_t next_ns = 0;

	for (unsigned i = 0; i < 1000 && next_ns == 0; i++)
		next_ns = xk_kernel_turn(h->kernel);
	CHECK(next_ns != 0);
	host_collect(h);
	return next_ns;
}

static struct host *
host_by_turns(void)
{
	struct host *h = host_virtual();

	host_init(h);
	return h;
}

TEST_WITH(turn_carries_arrived_frames_and_leaves_nothing_to_do, struct host *h, host_by_turns(), host_free)
{
	CHECK(xk_kernel_turn(h->kernel) == UINT64_MAX);
	send_one(h, OP_ECHO);
	send_one(h, OP_ECHO);
	CHECK_EQ(xk_kernel_turn(h->kernel), 0);
	CHECK_EQ(host_collect(h), 2);
	CHECK(xk_kernel_turn(h->kernel) == UINT64_MAX);
	CHECK_EQ(host_stats(h).turns, 3);
}

TEST_WITH(turn_carries_at_most_one_burst, struct host *h, host_by_turns(), host_free)
{
	for (unsigned i = 0; i < XK_BURST + 1; i++)
		send_one(h, OP_ECHO);
	CHECK_EQ(xk_kernel_turn(h->kernel), 0);
	CHECK_EQ(host_collect(h), XK_BURST);
	CHECK_EQ(xk_kernel_turn(h->kernel), 0);
	CHECK_EQ(host_collect(h), XK_BURST + 1);
}

TEST_WITH(turn_returns_when_the_next_event_is_due, struct host *h, host_by_turns(), host_free)
{
	uint64_t next_ns;

	send_one(h, OP_TIMEOUT);
	next_ns = host_turns(h);
	CHECK(next_ns >= 500000 && next_ns <= 502000);
	CHECK_EQ(h->received, 0);
	xk_memory_advance(h->platform, next_ns - 1000);
	CHECK_EQ(host_turns(h), next_ns);
	CHECK_EQ(h->received, 0);
	xk_memory_advance(h->platform, 1000);
	CHECK(host_turns(h) == UINT64_MAX);
	CHECK_EQ(h->received, 1);
}

TEST_WITH(handed_off_message_continues_in_another_turn, struct host *h, host_by_turns(), host_free)
{
	for (unsigned i = 0; i < 3; i++)
		send_one(h, OP_HANDOFF);
	CHECK_EQ(xk_kernel_turn(h->kernel), 0);
	CHECK(host_turns(h) == UINT64_MAX);
	CHECK_EQ(h->received, 3);
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_EXPLICIT], 3);
}

static void
waits_and_counts(void *argument)
{
	struct host *h = argument;

	if (xk_semaphore_wait(&h->top->semaphore, XK_UNTIL_SIGNALLED) == 0)
		h->top->counted++;
}

TEST_WITH(application_code_waits_while_turns_go_by, struct host *h, host_by_turns(), host_free)
{
	CHECK_EQ(xk_thread_start(h->kernel, "waits", waits_and_counts, h), 0);
	CHECK(host_turns(h) == UINT64_MAX);
	CHECK_EQ(h->top->counted, 0);
	send_one(h, OP_SIGNAL);
	CHECK(host_turns(h) == UINT64_MAX);
	CHECK_EQ(h->top->counted, 1);
}

TEST_WITH(turn_is_due_at_once_while_a_shepherd_spins, struct host *h, host_by_turns(), host_free)
{
	h->top->protocol.implicit = XK_IMPLICIT_SPIN;
	h->top->protocol.spin_ns = 20000;
	send_one(h, OP_WAIT);
	for (unsigned i = 0; i < 10; i++)
		CHECK_EQ(xk_kernel_turn(h->kernel), 0);
	xk_memory_advance(h->platform, 20000);
	CHECK(host_turns(h) == UINT64_MAX);
	send_one(h, OP_SIGNAL);
	CHECK(host_turns(h) == UINT64_MAX);
	CHECK_EQ(h->received, 1);
}

TEST(turn_never_sleeps)
{
	for (unsigned policy = XK_DRIVER_POLL; policy <= XK_DRIVER_ADAPTIVE; policy++) {
		struct host *h = host_new(XK_IPP, (enum xk_driver_policy)policy, 0, 0);

		host_init(h);
		CHECK(host_turns(h) == UINT64_MAX);
		send_one(h, OP_ECHO);
		CHECK(host_turns(h) == UINT64_MAX);
		CHECK_EQ(h->received, 1);
		CHECK_EQ(host_stats(h).sleeps, 0);
		host_free(h);
	}
}

TEST_WITH(waits_end_with_the_kernel, struct host *h, host_by_turns(), host_free)
{
	send_one(h, OP_WAIT);
	CHECK(host_turns(h) == UINT64_MAX);
	CHECK_EQ(atomic_load(&h->top->handled), 0);
	send_one(h, OP_ECHO); /* never received */
}

static void *
takes_turns(void *argument)
{
	struct host *h = argument;

	send_one(h, OP_HANDOFF);
	CHECK(host_turns(h) == UINT64_MAX);
	return NULL;
}

TEST(turns_may_move_between_threads)
{
	struct host *h = host_by_turns();
	pthread_t thread;

	for (unsigned i = 1; i <= 6; i += 2) {
		takes_turns(h);
		CHECK_EQ(h->received, i);
		REQUIRE(pthread_create(&thread, NULL, takes_turns, h) == 0);
		pthread_join(thread, NULL);
		CHECK_EQ(h->received, i + 1);
	}
	REQUIRE(pthread_create(&thread, NULL, takes_turns, h) == 0);
	pthread_join(thread, NULL);
	host_free(h); /* on a different thread from the last turn's */
}

TEST_WITH(pushes_between_turns_are_sent_at_once, struct host *h, host_by_turns(), host_free)
{
	struct xk_msg *m = xk_msg_new(h->platform, 8);

	CHECK(xk_kernel_turn(h->kernel) == UINT64_MAX);
	CHECK_EQ(xk_port_transmit(h->port, &h->top->protocol, m, XK_DROP_OWN), 0);
	CHECK_EQ(host_collect(h), 1);
}

static void *
pushes(void *argument)
{
	struct host *h = argument;

	CHECK_EQ(xk_port_transmit(h->port, &h->top->protocol, xk_msg_new(h->platform, 8), XK_DROP_OWN), 0);
	return NULL;
}

TEST_WITH(other_threads_pushes_are_sent_in_the_next_turn, struct host *h, host_by_turns(), host_free)
{
	pthread_t thread;

	CHECK(xk_kernel_turn(h->kernel) == UINT64_MAX);
	REQUIRE(pthread_create(&thread, NULL, pushes, h) == 0);
	pthread_join(thread, NULL);
	CHECK_EQ(host_collect(h), 0);
	pushes(h); /* the other thread's frame still goes first */
	CHECK_EQ(host_collect(h), 2);
	REQUIRE(pthread_create(&thread, NULL, pushes, h) == 0);
	pthread_join(thread, NULL);
	xk_kernel_turn(h->kernel);
	CHECK_EQ(host_collect(h), 3);
}

TEST_WITH(kernel_may_alternate_between_turns_and_threads, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 0, 0),
	  host_free)
{
	host_init(h);
	for (unsigned i = 0; i < 3; i++) {
		send_one(h, OP_ECHO);
		CHECK(host_turns(h) == UINT64_MAX);
		CHECK_EQ(xk_kernel_start(h->kernel), 0);
		send_one(h, OP_ECHO);
		for (unsigned tries = 0; tries < 10000 && host_collect(h) < 2 * (i + 1); tries++)
			host_nap();
		xk_kernel_stop(h->kernel);
		CHECK_EQ(h->received, 2 * (i + 1));
	}
}
