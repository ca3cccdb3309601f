/*
 * many.h - for tests of several drivers in one kernel: a host in which each driver has its own platform and its own
 * lane of the device.
 */
#ifndef TESTS_MANY_H
#define TESTS_MANY_H

#include "tests/xkernel/toy.h"
#include "xkernel/engine/engine.h"

enum { MANY_MAX = 3, MANY_MTU = 1500 };

/* A host of toy protocols with `count` drivers, each with a lane of the device `port`. */
struct many {
	unsigned count;
	struct xk_platform *platforms[MANY_MAX];
	struct xk_port *ports[MANY_MAX];
	struct xk_kernel *kernel;
	struct top *top;
	struct xk_edge *edge; /* below top */
	unsigned sent, received[MANY_MAX];
};

static inline void
many_add_ports(struct many *h, const char *name)
{
	for (unsigned i = 0; i < h->count; i++) {
		h->ports[i] = xk_memory_port_new(h->platforms[i], name, 0x020000000001, MANY_MTU);
		REQUIRE(h->ports[i] != NULL);
		h->ports[i]->driver = i;
		xk_kernel_add_port(h->kernel, h->ports[i]);
	}
}

/* Makes a host without ports and protocols. */
static inline struct many *
many_bare(unsigned count, const struct xk_kernel_config *wanted)
{
	struct many *h = calloc(1, sizeof(*h));
	struct xk_kernel_config config = *wanted;

	REQUIRE(h != NULL);
	h->count = count;
	for (unsigned i = 0; i < count; i++)
		h->platforms[i] = xk_memory_platform_new(XK_MEMORY_REAL);
	config.platform = h->platforms[0];
	config.core = -1;
	h->kernel = xk_kernel_new(&config);
	REQUIRE(h->kernel != NULL);
	for (unsigned i = 1; i < count; i++)
		REQUIRE(xk_kernel_add_driver(h->kernel, h->platforms[i], -1) == (int)i);
	CHECK_EQ(xk_kernel_drivers(h->kernel), count);
	return h;
}

static inline struct many *
many_build(unsigned count, const struct xk_kernel_config *wanted)
{
	struct many *h = many_bare(count, wanted);
	struct xk_protocol *wire;

	many_add_ports(h, "port");
	wire = xk_kernel_add_protocol(h->kernel, &wire_type, "wire");
	h->top = (struct top *)xk_kernel_add_protocol(h->kernel, &top_type, "top");
	h->edge = xk_kernel_add_edge(h->kernel, &h->top->protocol, wire, NULL);
	return h;
}

static inline struct many *
many_new(unsigned count, enum xk_mode mode, enum xk_driver_policy policy)
{
	struct xk_kernel_config config = { .mode = mode, .driver = policy, .threads = 2, .stacks = 16, .yields = true };

	return many_build(count, &config);
}

static inline void
many_init(struct many *h)
{
	struct xk_protocol *failed;

	REQUIRE(xk_kernel_init(h->kernel, &failed) == 0);
}

static inline void
many_start(struct many *h)
{
	many_init(h);
	REQUIRE(xk_kernel_start(h->kernel) == 0);
}

static inline void
many_collect(struct many *h)
{
	struct xk_msg *m;

	for (unsigned i = 0; i < h->count; i++) {
		while ((m = xk_memory_take(h->ports[i])) != NULL) {
			h->received[i]++;
			xk_msg_free(m);
		}
	}
}

/* Injects a frame on the lane; waits while the lane is full. Any thread. */
static inline void
many_inject(struct many *h, unsigned lane, enum op op)
{
	uint8_t bytes[20] = { (uint8_t)op, (uint8_t)lane };
	struct xk_msg *m;

	do {
		m = xk_msg_from(h->platforms[lane], bytes, sizeof(bytes));
		REQUIRE(m != NULL);
	} while (!xk_memory_inject(h->ports[lane], m) && (host_nap(), true));
}

static inline void
many_send(struct many *h, unsigned lane, enum op op, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		many_inject(h, lane, op);
		h->sent++;
		if (i % 64 == 0)
			many_collect(h);
	}
}

static inline bool
many_wait_handled(struct many *h, unsigned handled)
{
	for (unsigned tries = 0; tries < 600000; tries++) {
		many_collect(h);
		if (atomic_load(&h->top->handled) >= handled)
			return true;
		host_nap();
	}
	return false;
}

/* Returns the number of answers dropped: a thread gives up if a driver is too busy to send for long. */
static inline unsigned
many_lost(struct many *h)
{
	return (unsigned)xk_kernel_find(h->kernel, "wire")->drops[XK_DROP_OWN];
}

/* Returns the number of answers dropped or received. */
static inline unsigned
many_answered(struct many *h)
{
	unsigned answered = many_lost(h);

	for (unsigned i = 0; i < h->count; i++)
		answered += h->received[i];
	return answered;
}

static inline struct xk_kernel_stats
many_stats(struct many *h, unsigned driver)
{
	struct xk_kernel_stats stats;

	xk_kernel_driver_stats(h->kernel, driver, &stats);
	return stats;
}

static inline struct xk_driver *
many_driver(struct many *h, unsigned index)
{
	struct xk_driver *driver = &h->kernel->driver;

	while (driver->index != index)
		driver = driver->next_driver;
	return driver;
}

/* Waits until the driver sleeps. */
static inline void
many_wait_asleep(struct many *h, unsigned index)
{
	struct xk_driver *driver = many_driver(h, index);

	for (unsigned tries = 0; tries < 600000 && !atomic_load(&driver->sleeping); tries++)
		host_nap();
	CHECK(atomic_load(&driver->sleeping));
}

static inline void
many_stop(struct many *h)
{
	xk_kernel_stop(h->kernel);
	many_collect(h);
}

/* Fails the test if a buffer of any platform is leaked. */
static inline void
many_free(struct many *h)
{
	many_stop(h);
	xk_kernel_free(h->kernel);
	for (unsigned i = 0; i < h->count; i++) {
		CHECK_EQ(h->platforms[i]->ops->buffers_out(h->platforms[i]), 0);
		xk_memory_platform_free(h->platforms[i]);
	}
	free(h);
}

#endif
