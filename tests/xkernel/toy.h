/*
 * toy.h - for tests of the engine: two toy protocols and a host that runs them on the in-memory platform.
 *
 * `wire` stands on a port; `top` above it does what the first byte of each message requests; `middle`, if a test asks
 * for it, is a virtual protocol between them.
 */
#ifndef TESTS_TOY_H
#define TESTS_TOY_H

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "platform/sim/memory.h"
#include "tests/random.h"
#include "tests/test.h"
#include "xkernel/event.h"
#include "xkernel/kernel.h"

enum op {
	OP_ECHO = 'E',    /* send it back */
	OP_WAIT = 'W',    /* wait for a signal, then send it back */
	OP_SIGNAL = 'S',  /* signal, then free it */
	OP_TIMEOUT = 'T', /* wait half a millisecond for a signal that never comes, then send it back */
	OP_NESTED = 'N',  /* wait twice, then send it back */
	OP_BUSY = 'B',    /* compute for 100 us, then send it back */
	OP_LOCK = 'L',    /* count under a lock, then send it back */
	OP_HANDOFF = 'H', /* ask for a handoff, then send it back */
	OP_ACT = 'A',     /* run the test's `act` */
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
	void (*act)(struct top *top, struct xk_session *lls, struct xk_msg *m); /* takes m */
	void *argument;                                                         /* the test's own */
};

/* ---- the toy protocols ---- */

static inline int
wire_push(struct xk_session *s, struct xk_msg *m)
{
	struct xk_kernel *kernel = s->protocol->kernel;

	return xk_port_transmit(xk_kernel_find_port(kernel, "port"), s->protocol, m, XK_DROP_OWN);
}

static const struct xk_session_ops wire_session_ops = { .push = wire_push, .pop = xk_pop_through };

static inline int
wire_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	  struct xk_participants *participants, struct xk_session **session)
{
	*session = xk_session_new(self, &wire_session_ops, hlp_receive, hlp_type, NULL);
	if (*session == NULL)
		return -ENOMEM;
	xk_port_listen(xk_kernel_find_port(self->kernel, "port"), *session);
	return 0;
}

static const struct xk_protocol_ops wire_ops = { .open = wire_open };
static const char *const wire_drops[] = { "tx_full", NULL };
static const struct xk_protocol_type wire_type = {
	.name = "wire", .ops = &wire_ops, .size = sizeof(struct xk_protocol), .offers = XK_ASYNC, .drops = wire_drops
};

static inline int
top_wait(struct top *top, uint8_t op)
{
	switch (op) {
	case OP_WAIT:
		return xk_semaphore_wait(&top->semaphore, XK_UNTIL_SIGNALLED);
	case OP_TIMEOUT:
		return xk_semaphore_wait(&top->never, 500) == -ETIMEDOUT ? 0 : -EIO;
	case OP_NESTED:
		if (xk_semaphore_wait(&top->semaphore, XK_UNTIL_SIGNALLED) != 0)
			return -EIO;
		return xk_semaphore_wait(&top->semaphore, XK_UNTIL_SIGNALLED);
	default:
		return 0;
	}
}

static inline void
top_compute(struct top *top, uint8_t op)
{
	uint64_t until = op == OP_BUSY ? xk_now_ns(&top->protocol) + 100000 : 0;

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

static inline void
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
	if (op == OP_ACT) {
		top->act(top, lls, m);
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

static inline int
top_init(struct xk_protocol *self)
{
	struct top *top = (struct top *)self;
	struct xk_participants none = { 0 };

	xk_semaphore_init(&top->semaphore, self, 0);
	xk_semaphore_init(&top->never, self, 0);
	xk_lock_init(&top->lock, self);
	return xk_open(self, self, xk_lower(self, 0), &none, &top->session);
}

static inline void
top_fini(struct xk_protocol *self)
{
	xk_close(((struct top *)self)->session);
}

static const struct xk_protocol_ops top_ops = { .init = top_init, .fini = top_fini, .demux = top_demux };
static const char *const top_drops[] = { "not_waited", NULL };
static const struct xk_protocol_type top_type = {
	.name = "top", .ops = &top_ops, .size = sizeof(struct top), .offers = XK_ASYNC, .drops = top_drops
};
/* A virtual protocol with one session, for tests of order. */
static inline int
middle_push(struct xk_session *s, struct xk_msg *m)
{
	return xk_push(s->lls, m);
}

static const struct xk_session_ops middle_session_ops = { .push = middle_push, .pop = xk_pop_through };

/* Opens such a session, with operations of the caller's. */
static inline int
toy_open_on(const struct xk_session_ops *ops, struct xk_protocol *self, struct xk_protocol *hlp_receive,
	    struct xk_protocol *hlp_type, struct xk_participants *participants, struct xk_session **session)
{
	struct xk_session *lls;
	int result = xk_open(self, hlp_type, xk_lower(self, 0), participants, &lls);

	if (result != 0)
		return result;
	*session = xk_session_new(self, ops, hlp_receive, hlp_type, lls);
	lls->above = *session;
	return 0;
}

static inline int
middle_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	    struct xk_participants *participants, struct xk_session **session)
{
	return toy_open_on(&middle_session_ops, self, hlp_receive, hlp_type, participants, session);
}

static inline void
middle_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	xk_pop(lls->above, lls, m, NULL);
}

static const struct xk_protocol_ops middle_ops = { .open = middle_open, .demux = middle_demux };
static const struct xk_protocol_type middle_type = {
	.name = "middle", .ops = &middle_ops, .size = sizeof(struct xk_protocol), .offers = XK_ASYNC
};

/* ---- a host ---- */

struct host {
	struct xk_platform *platform;
	struct xk_port *port;
	struct xk_kernel *kernel;
	struct top *top;
	struct xk_edge *edge; /* below top */
	unsigned sent, received;
};

static inline struct host *
host_build_on(enum xk_memory_clock clock, const struct xk_kernel_config *wanted, bool ordered)
{
	struct host *h = calloc(1, sizeof(*h));
	struct xk_kernel_config config = *wanted;
	struct xk_protocol *lower;

	h->platform = xk_memory_platform_new(clock);
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

static inline struct host *
host_build(const struct xk_kernel_config *wanted, bool ordered)
{
	return host_build_on(XK_MEMORY_REAL, wanted, ordered);
}

static inline void
host_start(struct host *h)
{
	struct xk_protocol *failed;

	REQUIRE(xk_kernel_init(h->kernel, &failed) == 0);
	REQUIRE(xk_kernel_start(h->kernel) == 0);
}

static inline struct host *
host_new(enum xk_mode mode, enum xk_driver_policy driver, unsigned threads, unsigned stacks)
{
	struct xk_kernel_config config = { .mode = mode, .driver = driver, .threads = threads, .stacks = stacks };

	return host_build(&config, false);
}

static inline void
host_nap(void)
{
	static const struct timespec nap = { 0, 100000 };

	nanosleep(&nap, NULL);
}

static inline void
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

/* Takes the messages sent back; returns their total number so far. */
static inline unsigned
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
static inline bool
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

static inline struct xk_kernel_stats
host_stats(struct host *h)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(h->kernel, &stats);
	return stats;
}

/* Stops and frees everything; a leaked message fails the test. */
static inline void
host_free(struct host *h)
{
	xk_kernel_stop(h->kernel);
	host_collect(h);
	xk_kernel_free(h->kernel);
	CHECK_EQ(h->platform->ops->buffers_out(h->platform), 0);
	xk_memory_platform_free(h->platform);
	free(h);
}

static inline void
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

/* ---- for hosts without threads ---- */

static inline struct host *
host_virtual(void)
{
	struct xk_kernel_config config = { .mode = XK_IPP, .driver = XK_DRIVER_INTERRUPT, .stacks = 8 };

	return host_build_on(XK_MEMORY_VIRTUAL, &config, false);
}

static inline void
halt_when_idle(void *context)
{
	xk_kernel_halt(context);
}

static inline void
host_init(struct host *h)
{
	struct xk_protocol *failed;

	REQUIRE(xk_kernel_init(h->kernel, &failed) == 0);
}

/* Runs the host without threads, on the virtual clock, until it is idle. */
static inline void
host_run(struct host *h)
{
	xk_memory_on_idle(h->platform, halt_when_idle, h->kernel);
	xk_kernel_run(h->kernel);
	host_collect(h);
}

static inline void
send_one(struct host *h, enum op op)
{
	host_send(h, op, 0);
}

static inline bool
wait_until(_Atomic unsigned *counter, unsigned wanted)
{
	for (unsigned tries = 0; tries < 300000 && atomic_load(counter) < wanted; tries++)
		host_nap();
	return atomic_load(counter) >= wanted;
}

#endif
