/*
 * pair.h - for tests of whole graphs under threads: two hosts in real time, each with its own threads and one port. A
 * wire in memory joins the ports. The test supplies the hosts' graphs (compose.h).
 */
#ifndef TESTS_PAIR_H
#define TESTS_PAIR_H

#include <time.h>

#include "platform/sim/memory.h"
#include "tests/compose.h"

enum { PAIR_NAPS = 60000 }; /* milliseconds: a bound for hangs, not for slow machines */

struct pair {
	struct xk_platform *platforms[2];
	struct xk_kernel *kernels[2];
	struct xk_port *ports[2];
};

/* Makes two kernels without protocols. */
static inline void
pair_begin(struct pair *pair, enum xk_mode mode)
{
	for (unsigned i = 0; i < 2; i++) {
		struct xk_kernel_config config = {
			.name = "pair", .mode = mode, .threads = 3, .core = -1, .driver = XK_DRIVER_INTERRUPT
		};

		pair->platforms[i] = config.platform = xk_memory_platform_new(XK_MEMORY_REAL);
		pair->kernels[i] = xk_kernel_new(&config);
		pair->ports[i] = xk_memory_port_new(pair->platforms[i], "port", 0x020000000001 + i, 1500);
		REQUIRE(pair->kernels[i] != NULL && pair->ports[i] != NULL);
		xk_kernel_add_port(pair->kernels[i], pair->ports[i]);
	}
	REQUIRE(xk_memory_connect(pair->ports[0], pair->ports[1]) == 0);
}

/* Initializes both kernels, then starts both. */
static inline void
pair_start(struct pair *pair)
{
	struct xk_protocol *failed;

	for (unsigned i = 0; i < 2; i++)
		REQUIRE(xk_kernel_init(pair->kernels[i], &failed) == 0);
	for (unsigned i = 0; i < 2; i++)
		REQUIRE(xk_kernel_start(pair->kernels[i]) == 0);
}

/* Waits until is_done(context). Returns false if it never happens. */
static inline bool
pair_wait(bool (*is_done)(void *context), void *context)
{
	static const struct timespec nap = { 0, 1000000 };

	for (unsigned naps = 0; naps < PAIR_NAPS && !is_done(context); naps++)
		nanosleep(&nap, NULL);
	return is_done(context);
}

static inline void
pair_stop(struct pair *pair)
{
	for (unsigned i = 0; i < 2; i++)
		xk_kernel_stop(pair->kernels[i]);
}

/* Frees two stopped hosts; every buffer must have come back. */
static inline void
pair_end(struct pair *pair)
{
	for (unsigned i = 0; i < 2; i++)
		xk_kernel_free(pair->kernels[i]);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(pair->platforms[i]->ops->buffers_out(pair->platforms[i]), 0);
		xk_memory_platform_free(pair->platforms[i]);
	}
}

#endif
