/* services.c - what a kernel supplies to its protocols and to the tools that they use. */
#include <sys/random.h>

#include "xkernel/capture.h"
#include "xkernel/engine/engine.h"
#include "xkernel/map.h"

/* ---- the host ---- */

struct xk_platform *
xk_platform_of(const struct xk_protocol *self)
{
	const struct xk_shepherd *shepherd = xk_self();

	/* The shepherd may be another kernel's that pushes on a session of this one. */
	if (shepherd != NULL && shepherd->kernel == self->kernel)
		return shepherd->driver->platform;
	return self->kernel->platform;
}

struct xk_capture *
xk_capture_of(const struct xk_protocol *self)
{
	return self->kernel->config.capture;
}

uint64_t
xk_now_ns(const struct xk_protocol *self)
{
	struct xk_platform *platform = self->kernel->platform;

	return platform->ops->now_ns(platform);
}

uint64_t
xk_boots(const struct xk_protocol *self)
{
	struct xk_platform *platform = self->kernel->platform;

	return platform->ops->boots == NULL ? 0 : platform->ops->boots(platform);
}

/* ---- randomness ---- */

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

/* ---- seeds, clock and epochs of the other tools ---- */

int
xk_map_init(struct xk_map *map, struct xk_kernel *kernel, unsigned expected)
{
	const uint64_t seed[2] = { xk_kernel_seed(kernel), xk_kernel_seed(kernel) };

	if (kernel == NULL)
		return xk_map_make(map, expected, seed, NULL, false);
	return xk_map_make(map, expected, seed, &kernel->epochs, kernel->driver_count > 1);
}

void
xk_event_init(struct xk_event *event, struct xk_kernel *kernel, xk_event_handler *handler, void *argument)
{
	xk_wheel_prepare(kernel->wheel, event, handler, argument);
}

void
xk_retire(struct xk_kernel *kernel, struct xk_retired *retired, void (*release)(struct xk_retired *retired))
{
	xk_epochs_retire(&kernel->epochs, retired, release);
}
