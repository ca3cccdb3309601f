/*
 * world.c - what protocols ask of the world around the kernel besides messages: chance, memory over a crash, work.
 */
#include "xkernel/engine/engine.h"

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
