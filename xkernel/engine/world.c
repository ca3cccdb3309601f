/*
 * world.c - what protocols ask of the world around the kernel besides messages: chance, memory over a crash, work.
 */
#include <sys/random.h>

#include "xkernel/engine/engine.h"

uint64_t
xk_kernel_random(struct xk_kernel *kernel)
{
	struct xk_platform *platform = kernel == NULL ? NULL : kernel->platform;
	uint64_t bits = 0;

	if (platform != NULL && platform->ops->random != NULL)
		return platform->ops->random(platform);
	while (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		continue;
	return bits;
}

/* Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014): splitmix64. */
uint64_t
xk_kernel_seed(struct xk_kernel *kernel)
{
	uint64_t bits;

	if (kernel == NULL)
		return xk_kernel_random(NULL);
	bits = atomic_fetch_add_explicit(&kernel->seeds, UINT64_C(0x9e3779b97f4a7c15), memory_order_relaxed);
	bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
	return bits ^ bits >> 31;
}

uint64_t
xk_random(const struct xk_protocol *self)
{
	return xk_kernel_random(self->kernel);
}

uint64_t
xk_boots(const struct xk_protocol *self)
{
	struct xk_platform *platform = self->kernel->platform;

	return platform->ops->boots == NULL ? 0 : platform->ops->boots(platform);
}

/* In the driver: what was pushed before does not wait for the end of the turn, which is so much later. */
static void
world_send_first(void)
{
	struct xk_shepherd *self = xk_self();

	if (self == NULL || !xk_on_driver(self))
		return;
	for (struct xk_port *port = self->driver->ports; port != NULL; port = port->beside)
		xk_transmit_flush(port);
}

void
xk_work(struct xk_protocol *self, uint64_t work_ns)
{
	struct xk_platform *platform = self->kernel->platform;
	uint64_t until_ns;

	xk_assert(xk_locks_held() == 0);
	world_send_first();
	if (platform->ops->work != NULL) {
		platform->ops->work(platform, work_ns);
		return;
	}
	until_ns = platform->ops->now_ns(platform) + work_ns;
	while (platform->ops->now_ns(platform) < until_ns)
		continue;
}
