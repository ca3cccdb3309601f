/*
 * test_engine.c - the stack engine under load: handoffs of each kind, parking against signals, pool exhaustion, waiting
 * within waiting, sleeping drivers, time-outs, order, changes of mode. Real threads on the in-memory platform.
 *
 * Two toy protocols: `wire` stands on a port, `top` above it does what the first byte of each message says.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "platform/sim/memory.h"
#include "tests/test.h"
#include "xkernel/event.h"
#include "xkernel/kernel.h"

enum op {
	OP_ECHO = 'E',    /* send it back */
	OP_WAIT = 'W',    /* wait for a signal, then send it back */
	OP_SIGNAL = 'S',  /* signal; ends the message */
	OP_TIMEOUT = 'T', /* wait half a millisecond for what never comes, then send it back */
	OP_NESTED = 'N',  /* wait twice, then send it back */
	OP_BUSY = 'B',    /* compute for 100 us, then send it back */
	OP_LOCK = 'L',    /* count under a lock, then send it back */
	OP_HANDOFF = 'H', /* ask for a handoff, then send it back */
};

enum { TOP_NOT_WAITED = XK_DROP_OWN };

struct top {
	struct xk_protocol protocol;
	struct xk_session *session;
	struct xk_semaphore semaphore, never;
	struct xk_lock lock;
	uint64_t counted; /* under the lock */
	_Atomic unsigned handled;
	uint8_t order[4096];
	_Atomic unsigned order_count;
};

/* ---- the toy protocols ------------------------------------------------------------------------------------------- */

static int
wire_push(struct xk_session *s, struct xk_msg *m)
{
	struct xk_kernel *kernel = s->protocol->kernel;
	int result = xk_port_transmit(xk_kernel_find_port(kernel, "port"), s->protocol, m);

	if (result != 0)
		xk_drop(s->protocol, m, XK_DROP_OWN);
	return result;
}

static void
wire_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	(void)lls;
	(void)hdr;
	xk_demux(s, m);
}

static const struct xk_session_ops wire_session_ops = { .push = wire_push, .pop = wire_pop };

static int
wire_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	  struct xk_participants *participants, struct xk_session **session)
{
	(void)participants;
	*session = xk_session_new(self, &wire_session_ops, sizeof(**session), hlp_receive, hlp_type, NULL);
	if (*session == NULL)
		return -ENOMEM;
	xk_kernel_find_port(self->kernel, "port")->receiver = *session;
	return 0;
}

static const struct xk_protocol_ops wire_ops = { .open = wire_open };
static const char *const wire_drops[] = { "tx_full", NULL };
static const struct xk_protocol_type wire_type = {
	.name = "wire", .ops = &wire_ops, .size = sizeof(struct xk_protocol), .offers = XK_ASYNC, .drops = wire_drops
};

static int
top_wait(struct top *top, uint8_t op)
{
	switch (op) {
	case OP_WAIT:
		return xk_semaphore_wait(&top->semaphore, XK_FOREVER);
	case OP_TIMEOUT:
		return xk_semaphore_wait(&top->never, 500) == -ETIMEDOUT ? 0 : -EIO;
	case OP_NESTED:
		if (xk_semaphore_wait(&top->semaphore, XK_FOREVER) != 0)
			return -EIO;
		return xk_semaphore_wait(&top->semaphore, XK_FOREVER);
	default:
		return 0;
	}
}

static void
top_compute(struct top *top, uint8_t op)
{
	uint64_t until = xk_now_ns(&top->protocol) + 100000;

	if (op == OP_BUSY)
		while (xk_now_ns(&top->protocol) < until)
			xk_checkpoint(&top->protocol);
	if (op == OP_HANDOFF)
		xk_handoff(&top->protocol);
	if (op == OP_LOCK) {
		xk_lock(&top->lock);
		for (volatile int i = 0; i < 200; i++)
			top->counted += i == 100;
		xk_unlock(&top->lock);
	}
}

static void
top_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct top *top = (struct top *)self;
	uint8_t op = m->data[0], mark = m->data[1];

	if (op == OP_SIGNAL) {
		xk_msg_free(m);
		xk_semaphore_signal(&top->semaphore);
		atomic_fetch_add(&top->handled, 1);
		return;
	}
	top_compute(top, op);
	if (top_wait(top, op) != 0) {
		xk_drop(self, m, TOP_NOT_WAITED);
		atomic_fetch_add(&top->handled, 1);
		return;
	}
	top->order[atomic_fetch_add(&top->order_count, 1) % sizeof(top->order)] = mark;
	xk_push(lls, m);
	atomic_fetch_add(&top->handled, 1);
}

static int
top_init(struct xk_protocol *self)
{
	struct top *top = (struct top *)self;
	struct xk_participants none = { 0 };

	xk_semaphore_init(&top->semaphore, self, 0);
	xk_semaphore_init(&top->never, self, 0);
	xk_lock_init(&top->lock, self);
	return xk_open(self, self, xk_lower(self, 0), &none, &top->session);
}

static void
top_fini(struct xk_protocol *self)
{
	xk_close(((struct top *)self)->session);
}

static const struct xk_protocol_ops top_ops = { .init = top_init, .fini = top_fini, .demux = top_demux };
static const char *const top_drops[] = { "not_waited", NULL };
static const struct xk_protocol_type top_type = {
	.name = "top", .ops = &top_ops, .size = sizeof(struct top), .offers = XK_ASYNC, .drops = top_drops
};
/* A virtual protocol with one session, for the tests of order. */
static int
middle_push(struct xk_session *s, struct xk_msg *m)
{
	return xk_push(s->lls, m);
}

static void
middle_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	(void)lls;
	(void)hdr;
	xk_demux(s, m);
}

static const struct xk_session_ops middle_session_ops = { .push = middle_push, .pop = middle_pop };

static int
middle_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	    struct xk_participants *participants, struct xk_session **session)
{
	struct xk_session *lls;
	int result = xk_open(self, hlp_type, xk_lower(self, 0), participants, &lls);

	if (result != 0)
		return result;
	*session = xk_session_new(self, &middle_session_ops, sizeof(**session), hlp_receive, hlp_type, lls);
	lls->hls = *session;
	return 0;
}

static void
middle_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	(void)self;
	xk_pop(lls->hls, lls, m, NULL);
}

static const struct xk_protocol_ops middle_ops = { .open = middle_open, .demux = middle_demux };
static const struct xk_protocol_type middle_type = {
	.name = "middle", .ops = &middle_ops, .size = sizeof(struct xk_protocol), .offers = XK_ASYNC
};

/* ---- a host ------------------------------------------------------------------------------------------------------ */

struct host {
	struct xk_platform *platform;
	struct xk_port *port;
	struct xk_kernel *kernel;
	struct top *top;
	struct xk_edge *edge; /* below top */
	unsigned sent, received;
};

static struct host *
host_build(const struct xk_kernel_config *wanted, bool ordered)
{
	struct host *h = calloc(1, sizeof(*h));
	struct xk_kernel_config config = *wanted;
	struct xk_protocol *lower;

	h->platform = xk_memory_platform_new(XK_MEMORY_REAL);
	config.platform = h->platform;
	config.core = -1;
	h->kernel = xk_kernel_new(&config);
	h->port = xk_memory_port_new(h->platform, "port", 1, 1500);
	xk_kernel_add_port(h->kernel, h->port);
	lower = xk_kernel_add_protocol(h->kernel, &wire_type, "wire");
	if (ordered) {
		struct xk_protocol *middle = xk_kernel_add_protocol(h->kernel, &middle_type, "middle");

		xk_kernel_add_edge(h->kernel, middle, lower, NULL);
		middle->order_session = true;
		lower = middle;
	}
	h->top = (struct top *)xk_kernel_add_protocol(h->kernel, &top_type, "top");
	h->edge = xk_kernel_add_edge(h->kernel, &h->top->protocol, lower, NULL);
	return h;
}

static void
host_start(struct host *h)
{
	struct xk_protocol *failed;

	REQUIRE(xk_kernel_init(h->kernel, &failed) == 0);
	REQUIRE(xk_kernel_start(h->kernel) == 0);
}

static struct host *
host_new(enum xk_mode mode, enum xk_driver_policy driver, unsigned threads, unsigned stacks)
{
	struct xk_kernel_config config = { .mode = mode, .driver = driver, .threads = threads, .stacks = stacks };

	return host_build(&config, false);
}

static void
host_nap(void)
{
	static const struct timespec nap = { 0, 100000 };

	nanosleep(&nap, NULL);
}

static void
host_send(struct host *h, enum op op, uint8_t mark)
{
	uint8_t bytes[20] = { (uint8_t)op, mark };
	struct xk_msg *m = xk_msg_from(h->platform, bytes, sizeof(bytes));

	REQUIRE(m != NULL);
	while (!xk_memory_inject(h->port, m)) {
		host_nap();
		m = xk_msg_from(h->platform, bytes, sizeof(bytes));
	}
	h->sent++;
}

/* Takes what has come back; returns how many so far. */
static unsigned
host_collect(struct host *h)
{
	struct xk_msg *m;

	while ((m = xk_memory_take(h->port)) != NULL) {
		h->received++;
		xk_msg_free(m);
	}
	return h->received;
}

/* Waits (at most a minute: only a hang takes that long) until `handled` messages have ended. */
static bool
host_wait_handled(struct host *h, unsigned handled)
{
	for (unsigned tries = 0; tries < 600000; tries++) {
		host_collect(h);
		if (atomic_load(&h->top->handled) >= handled)
			return true;
		host_nap();
	}
	return false;
}

static struct xk_kernel_stats
host_stats(struct host *h)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(h->kernel, &stats);
	return stats;
}

/* Ends everything; whatever is left of a message fails the test. */
static void
host_free(struct host *h)
{
	xk_kernel_stop(h->kernel);
	host_collect(h);
	xk_kernel_free(h->kernel);
	CHECK_EQ(h->platform->ops->buffers_out(h->platform), 0);
	xk_memory_platform_free(h->platform);
	free(h);
}

static void
host_echo(struct host *h, enum op op, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		host_send(h, op, (uint8_t)i);
		if (i % 16 == 0)
			host_collect(h);
	}
	CHECK(host_wait_handled(h, count));
	CHECK_EQ(h->sent, count);
}

/* ---- tests ---------------------------------------------------------------------------------------------------------
 */

enum { MANY = 4000 };

TEST(regular_mode_carries_every_message_on_a_thread)
{
	struct host *h = host_new(XK_REGULAR, XK_DRIVER_INTERRUPT, 2, 0);

	host_start(h);
	host_echo(h, OP_ECHO, MANY);
	CHECK_EQ(host_stats(h).frames, MANY);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), MANY);
	host_free(h);
}

TEST(ipp_without_handoff_switches_no_stack_and_takes_no_lock)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0);
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
	host_free(h);
}

TEST(polling_driver_carries_messages_too)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_POLL, 1, 0);

	host_start(h);
	host_echo(h, OP_ECHO, MANY);
	CHECK_EQ(host_stats(h).sleeps, 0);
	host_free(h);
}

TEST(explicit_edge_hands_every_message_off)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 2, 0);
	struct xk_kernel_stats stats;

	h->edge->watch = XK_WATCH_EXPLICIT;
	host_start(h);
	host_echo(h, OP_ECHO, MANY);
	xk_kernel_stop(h->kernel);
	stats = host_stats(h);
	CHECK_EQ(stats.handoffs[XK_HANDOFF_EXPLICIT] + stats.fallbacks, MANY);
	CHECK_EQ(h->edge->handoffs[XK_HANDOFF_EXPLICIT], stats.handoffs[XK_HANDOFF_EXPLICIT]);
	CHECK(stats.handoffs[XK_HANDOFF_EXPLICIT] > 0);
	CHECK_EQ(host_collect(h), MANY);
	host_free(h);
}

TEST(a_protocol_may_ask_for_a_handoff)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_ADAPTIVE, 1, 0);

	host_start(h);
	host_echo(h, OP_HANDOFF, 500);
	CHECK(host_stats(h).handoffs[XK_HANDOFF_EXPLICIT] > 0);
	host_free(h);
}

TEST(handoffs_with_two_stacks_fall_back_and_lose_nothing)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 2);

	h->edge->watch = XK_WATCH_EXPLICIT;
	host_start(h);
	host_echo(h, OP_ECHO, MANY);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), MANY);
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_EXPLICIT] + host_stats(h).fallbacks, MANY);
	host_free(h);
}

TEST(time_budget_hands_off_long_messages_only)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0);

	xk_kernel_set_budget(h->kernel, 20000, 0);
	host_start(h);
	host_echo(h, OP_BUSY, 100);
	CHECK(host_stats(h).handoffs[XK_HANDOFF_TIME] + host_stats(h).fallbacks > 50);
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_EXPLICIT], 0);
	host_free(h);
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

TEST(parked_shepherds_are_resumed_by_threads)
{
	check_park_against_signal(XK_RESUME_THREAD, XK_DRIVER_INTERRUPT, XK_IMPLICIT_HANDOFF);
}

TEST(parked_shepherds_are_resumed_by_the_driver)
{
	check_park_against_signal(XK_RESUME_DRIVER, XK_DRIVER_INTERRUPT, XK_IMPLICIT_HANDOFF);
}

TEST(parked_shepherds_are_resumed_under_a_polling_driver)
{
	check_park_against_signal(XK_RESUME_DRIVER, XK_DRIVER_POLL, XK_IMPLICIT_HANDOFF);
}

TEST(spinning_for_a_signal_resumes_in_the_driver)
{
	check_park_against_signal(XK_RESUME_THREAD, XK_DRIVER_INTERRUPT, XK_IMPLICIT_SPIN);
}

TEST(implicit_fail_ends_the_wait_in_the_driver)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0);

	h->top->protocol.implicit = XK_IMPLICIT_FAIL;
	host_start(h);
	host_echo(h, OP_WAIT, 50);
	CHECK_EQ(h->top->protocol.drops[TOP_NOT_WAITED], 50);
	CHECK_EQ(host_stats(h).parks, 0);
	host_free(h);
}

TEST(exhausted_stacks_fail_by_name_and_others_are_served)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 8);

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
	host_free(h);
}

TEST(waiting_within_waiting_comes_back)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 2, 32);

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
	host_free(h);
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

TEST(waits_time_out_on_threads)
{
	check_timeouts(XK_REGULAR, XK_RESUME_THREAD);
}

TEST(regular_waits_block_threads_and_a_stall_is_reported)
{
	struct host *h = host_new(XK_REGULAR, XK_DRIVER_INTERRUPT, 2, 0);

	host_start(h);
	for (unsigned i = 0; i < 4; i++)
		host_send(h, OP_WAIT, 0);
	for (unsigned tries = 0; tries < 300000 && host_stats(h).stalled == 0; tries++)
		host_nap();
	CHECK(host_stats(h).stalled > 0);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(h->top->protocol.drops[TOP_NOT_WAITED], 4);
	host_free(h);
}

TEST(a_sleeping_driver_is_woken_by_a_foreign_signal)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0);

	h->top->protocol.resume = XK_RESUME_DRIVER;
	host_start(h);
	for (unsigned i = 0; i < 500; i++) {
		host_send(h, OP_WAIT, 0);
		if (i % 2 == 0)
			host_nap();
		xk_semaphore_signal(&h->top->semaphore);
		CHECK(host_wait_handled(h, i + 1));
	}
	host_free(h);
}

TEST(stopping_ends_every_wait)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0);

	host_start(h);
	for (unsigned i = 0; i < 30; i++)
		host_send(h, OP_WAIT, 0);
	while (host_stats(h).stacks_parked < 30)
		host_nap();
	xk_kernel_stop(h->kernel);
	CHECK_EQ(h->top->protocol.drops[TOP_NOT_WAITED], 30);
	CHECK_EQ(host_stats(h).stacks_parked, 0);
	host_free(h);
}

TEST(contended_locks_exclude_one_another)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 2, 0);

	h->edge->watch = XK_WATCH_EXPLICIT;
	host_start(h);
	host_echo(h, OP_LOCK, MANY);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(h->top->counted, MANY);
	host_free(h);
}

TEST(ordered_sessions_keep_their_order_through_handoffs)
{
	struct xk_kernel_config config = { .mode = XK_IPP, .driver = XK_DRIVER_INTERRUPT, .threads = 3 };
	struct host *h = host_build(&config, true);

	h->edge->watch = XK_WATCH_EXPLICIT;
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

TEST(mode_and_threads_change_between_messages)
{
	struct host *h = host_new(XK_REGULAR, XK_DRIVER_INTERRUPT, 1, 0);
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
	host_free(h);
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
