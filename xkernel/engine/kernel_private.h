/*
 * kernel_private.h - what the parts of a kernel ask of one another: kernel.c (made and freed), kernel_graph.c (what it is
 * filled with), kernel_time.c (the clock, and who runs event handlers) and kernel_run.c (started or run, and stopped).
 */
#ifndef XK_KERNEL_PRIVATE_H
#define XK_KERNEL_PRIVATE_H

#include "xkernel/engine/engine.h"

enum { XK_KERNEL_NAP_NS = 100 * 1000 /* who waits for others to end looks so often */ };

/* Returns the driver with this index, or NULL. */
static inline struct xk_driver *
xk_kernel_driver(struct xk_kernel *kernel, unsigned index)
{
	struct xk_driver *driver = &kernel->driver;

	while (driver != NULL && driver->index != index)
		driver = driver->next_driver;
	return driver;
}

/* ---- kernel_graph.c ---- */

/* Gives back what the protocols have taken when they were initialised: uppers first. When nothing runs. */
void xk_kernel_fini_protocols(struct xk_kernel *kernel);
/* Frees ports, devices, protocols and edges. */
void xk_kernel_free_graph(struct xk_kernel *kernel);

/* ---- kernel_time.c ---- */

/* 0 or -ENOMEM; xk_events_fini in either case. */
int xk_events_init(struct xk_kernel *kernel);
void xk_events_fini(struct xk_kernel *kernel);
/* In regular mode somebody else than the driver watches the time. 0 or -EAGAIN. */
int xk_events_need(struct xk_kernel *kernel);
/* Who watches the time looks at the wheel again. */
void xk_events_nudge(struct xk_kernel *kernel);
/* Returns when no handler runs or waits any more. */
void xk_events_end(struct xk_kernel *kernel);

/* ---- kernel_run.c ---- */

/* A kernel that was run, not started: lets those who wait unwind, here, driver by driver. */
void xk_kernel_unwind(struct xk_kernel *kernel);

#endif
