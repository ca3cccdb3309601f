/*
 * threads.h - for tests of protocols under threads: a host in real time with one port, `echo`, which echoes its
 * messages, and the test's protocols between them.
 */
#ifndef TESTS_THREADS_H
#define TESTS_THREADS_H

#include <time.h>

#include "platform/sim/memory.h"
#include "tests/test.h"
#include "xkernel/kernel.h"
#include "xkernel/upi.h"

enum {
	THREADS_NAPS = 60000, /* a bound for hangs, not for slow machines */
	THREADS_OPENERS = 2,
	THREADS_OPENS = 300, /* by each opener */
};

struct echo {
	struct xk_protocol protocol;
	_Atomic unsigned delivered;
	_Atomic unsigned opens, finished; /* by openers or the test's own threads */
	uint32_t first_host, host_count;  /* hosts that they open */
};

static inline void
echo_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	atomic_fetch_add(&xk_container_of(self, struct echo, protocol)->delivered, 1);
	xk_push(lls, m);
}

static const struct xk_protocol_ops echo_ops = { .demux = echo_demux };

static const struct xk_number_on echo_numbers[] = { { "eth", 0x0800 }, { NULL, 0 } };

static const struct xk_protocol_type echo_type = {
	.name = "ip",
	.help = "Sends back what it receives.",
	.ops = &echo_ops,
	.size = sizeof(struct echo),
	.offers = XK_ASYNC,
	.numbers = echo_numbers,
};

struct threads {
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	struct xk_port *port;
	struct echo *echo;
	unsigned frames; /* number to inject */
	unsigned ahead;  /* how many of them may wait at the port, whose queue is bounded */
	unsigned taken;  /* number sent by the host */
	void (*inject)(struct threads *t, unsigned i);
	bool (*is_done)(struct threads *t);
};

static inline struct xk_protocol *
threads_add(struct threads *t, const char *name, const struct xk_protocol_type *type, const char *first,
	    const char *second)
{
	struct xk_protocol *p = xk_kernel_add_protocol(t->kernel, type, name);

	REQUIRE(p != NULL);
	if (first != NULL)
		REQUIRE(xk_kernel_add_edge(t->kernel, p, xk_kernel_find(t->kernel, first), "") != NULL);
	if (second != NULL)
		REQUIRE(xk_kernel_add_edge(t->kernel, p, xk_kernel_find(t->kernel, second), "") != NULL);
	return p;
}

/* Adds a protocol of the table above one or two existing ones. */
static inline struct xk_protocol *
threads_add_type(struct threads *t, const char *type, const char *first, const char *second)
{
	return threads_add(t, type, xk_protocol_type_find(type), first, second);
}

static inline void
threads_set(struct xk_protocol *p, const char *name, const char *value)
{
	const struct xk_setting *setting = p->type->settings;
	char why[64];

	while (strcmp(setting->name, name) != 0)
		setting++;
	REQUIRE(xk_setting_parse(setting, value, p, why, sizeof(why)) == 0);
}

/* Makes the kernel and the protocol `port` on the port. */
static inline void
threads_begin(struct threads *t, enum xk_mode mode)
{
	struct xk_kernel_config config = {
		.name = "threads", .mode = mode, .threads = 3, .core = -1, .driver = XK_DRIVER_INTERRUPT
	};

	t->platform = config.platform = xk_memory_platform_new(XK_MEMORY_REAL);
	t->kernel = xk_kernel_new(&config);
	t->port = xk_memory_port_new(t->platform, "port", 0x020000000001, 1500);
	REQUIRE(t->kernel != NULL && t->port != NULL);
	xk_kernel_add_port(t->kernel, t->port);
	threads_add_type(t, "port", NULL, NULL);
}

static inline void
threads_add_echo(struct threads *t, const char *below)
{
	t->echo = xk_container_of(threads_add(t, "echo", &echo_type, below, NULL), struct echo, protocol);
}

/* Enables the echo above `below` for strangers, and starts the kernel. */
static inline void
threads_start(struct threads *t, struct xk_protocol *below)
{
	struct xk_participants anybody = { .remote.depth = 0 };
	struct xk_protocol *failed;

	REQUIRE(xk_kernel_init(t->kernel, &failed) == 0);
	CHECK_EQ(xk_open_enable(&t->echo->protocol, &t->echo->protocol, below, &anybody), 0);
	REQUIRE(xk_kernel_start(t->kernel) == 0);
}

/* Opens sessions to hosts in turn, as an application does; sends on each and closes it. */
static inline void
threads_open_and_close(void *argument)
{
	struct echo *echo = argument;
	struct xk_protocol *self = &echo->protocol;

	for (unsigned i = 0; i < THREADS_OPENS; i++) {
		struct xk_participants participants = { .remote = { 1, { echo->first_host + i % echo->host_count } } };
		struct xk_session *s;

		if (xk_open(self, self, xk_lower(self, 0), &participants, &s) != 0)
			continue;
		atomic_fetch_add(&echo->opens, 1);
		xk_push(s, xk_msg_from(xk_platform_of(self), "x", 1));
		xk_close(s);
	}
	atomic_fetch_add(&echo->finished, 1);
}

static inline void
threads_start_openers(struct threads *t, uint32_t first_host, uint32_t host_count)
{
	t->echo->first_host = first_host;
	t->echo->host_count = host_count;
	for (unsigned i = 0; i < THREADS_OPENERS; i++)
		CHECK_EQ(xk_thread_start(t->kernel, "opener", threads_open_and_close, t->echo), 0);
}

static inline bool
threads_openers_have_finished(struct threads *t)
{
	return atomic_load(&t->echo->finished) == THREADS_OPENERS;
}

static inline void
threads_take(struct threads *t)
{
	struct xk_msg *m;

	for (; (m = xk_memory_take(t->port)) != NULL; t->taken++)
		xk_msg_free(m);
}

static inline unsigned
threads_frames_in(struct threads *t)
{
	return (unsigned)atomic_load(&t->port->frames_in);
}

/* Injects all frames and waits until everything is done. */
static inline void
threads_feed(struct threads *t)
{
	static const struct timespec nap = { 0, 1000000 };
	unsigned naps = 0;

	for (unsigned i = 0; i < t->frames; i++) {
		t->inject(t, i);
		threads_take(t);
		while (i >= t->ahead + threads_frames_in(t) && naps++ < THREADS_NAPS)
			nanosleep(&nap, NULL);
	}
	while (!t->is_done(t) && naps++ < THREADS_NAPS) {
		nanosleep(&nap, NULL);
		threads_take(t);
	}
	CHECK(t->is_done(t));
}

/* Stops and frees the host; every buffer must have come back. */
static inline void
threads_end(struct threads *t)
{
	xk_kernel_free(t->kernel);
	CHECK_EQ(t->platform->ops->buffers_out(t->platform), 0);
	xk_memory_platform_free(t->platform);
}

#endif
