/*
 * kernel.c - a host's life: made, given drivers, freed. kernel_graph.c fills it, kernel_run.c starts and stops it.
 */
#include "xkernel/kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "xkernel/capture.h"
#include "xkernel/engine/kernel_private.h"

enum {
	KERNEL_STACKS = 64,
	KERNEL_ADAPTIVE_NS = 50 * 1000,
};

/* ---- making ---- */

static void
kernel_configure(struct xk_kernel *kernel, const struct xk_kernel_config *config)
{
	kernel->config = *config;
	kernel->config.name = strdup(config->name == NULL ? "kernel" : config->name);
	if (kernel->config.threads == 0)
		kernel->config.threads = 1;
	if (kernel->config.stacks == 0)
		kernel->config.stacks = KERNEL_STACKS;
	if (kernel->config.adaptive_ns == 0)
		kernel->config.adaptive_ns = KERNEL_ADAPTIVE_NS;
	kernel->platform = config->platform;
	kernel->mode = config->mode;
}

static void
kernel_init_driver(struct xk_kernel *kernel, struct xk_driver *driver, struct xk_platform *platform, int core)
{
	driver->kernel = kernel;
	driver->platform = platform;
	driver->index = kernel->driver_count++;
	driver->core = core;
	driver->run_last = &driver->run_first;
	driver->clock_interval = 1;
	driver->runner.kernel = kernel;
	driver->runner.kind = XK_RUN_DRIVER;
	driver->runner.shepherd.driver = driver;
}

static void
kernel_wake(void *kernel)
{
	xk_driver_wake(&((struct xk_kernel *)kernel)->driver);
}

static void
kernel_init_lists(struct xk_kernel *kernel)
{
	xk_pool_init(&kernel->pool);
	atomic_init(&kernel->events, NULL);
	kernel_init_driver(kernel, &kernel->driver, kernel->platform, kernel->config.core);
	xk_epochs_init(&kernel->epochs, kernel_wake, kernel);
	atomic_init(&kernel->seeds, xk_kernel_random(kernel));
}

struct xk_kernel *
xk_kernel_new(const struct xk_kernel_config *config)
{
	struct xk_kernel *kernel;

	if (config->platform == NULL || config->stacks == 1)
		return NULL;
	kernel = aligned_alloc(64, (sizeof(*kernel) + 63) & ~(size_t)63);
	if (kernel == NULL)
		return NULL;
	memset(kernel, 0, sizeof(*kernel));
	kernel_configure(kernel, config);
	kernel_init_lists(kernel);
	if (kernel->config.name == NULL || xk_pool_prepare(&kernel->pool, kernel->mode, 1) != 0 ||
	    xk_events_init(kernel) != 0 || xk_stacks_init(&kernel->driver) != 0) {
		xk_kernel_free(kernel);
		return NULL;
	}
	return kernel;
}

/* ---- drivers ---- */

int
xk_kernel_add_driver(struct xk_kernel *kernel, struct xk_platform *platform, int core)
{
	struct xk_driver *last = xk_kernel_driver(kernel, kernel->driver_count - 1), *driver;

	xk_assert(kernel->ports == NULL && kernel->protocols == NULL && !kernel->started);
	if (platform->virtual_time || kernel->platform->virtual_time || platform->threads != NULL ||
	    kernel->platform->threads != NULL)
		return -EINVAL;
	if (kernel->driver_count == XK_DRIVERS)
		return -ENOSPC;
	driver = aligned_alloc(_Alignof(struct xk_driver), sizeof(*driver));
	if (driver == NULL)
		return -ENOMEM;
	memset(driver, 0, sizeof(*driver));
	kernel_init_driver(kernel, driver, platform, core);
	last->next_driver = driver;
	/* What there is of it goes with the kernel, which is of no use then. */
	if (xk_stacks_init(driver) != 0 || xk_pool_prepare(&kernel->pool, kernel->mode, kernel->driver_count) != 0)
		return -ENOMEM;
	return (int)driver->index;
}

unsigned
xk_kernel_drivers(const struct xk_kernel *kernel)
{
	return kernel->driver_count;
}

/* ---- what protocols ask it for ---- */

struct xk_platform *
xk_platform_of(const struct xk_protocol *self)
{
	const struct xk_shepherd *shepherd = xk_self();

	/* It may be another kernel's, which pushes on a session of this one. */
	if (shepherd != NULL && shepherd->kernel == self->kernel)
		return shepherd->driver->platform;
	return self->kernel->platform;
}

struct xk_capture *
xk_capture_of(const struct xk_protocol *self)
{
	return self->kernel->config.capture;
}

/* ---- the end ---- */

static void
kernel_free_drivers(struct xk_kernel *kernel)
{
	struct xk_driver *next;

	for (struct xk_driver *driver = kernel->driver.next_driver; driver != NULL; driver = next) {
		next = driver->next_driver;
		free(driver);
	}
}

void
xk_kernel_free(struct xk_kernel *kernel)
{
	if (kernel == NULL)
		return;
	xk_kernel_stop(kernel);
	atomic_store_explicit(&kernel->stopping, true, memory_order_seq_cst);
	xk_kernel_unwind(kernel);
	xk_kernel_fini_protocols(kernel);
	xk_epochs_drain(&kernel->epochs);
	if (kernel->protocols != NULL)
		xk_reached_note(kernel);
	xk_kernel_free_graph(kernel);
	xk_stacks_fini(kernel);
	kernel_free_drivers(kernel);
	xk_pool_fini(&kernel->pool);
	xk_events_fini(kernel);
	free((void *)kernel->config.name);
	free(kernel);
}
