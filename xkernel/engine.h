/*
 * engine.h - the inside of the engine, for files of xkernel/ only: the kernel's parts and what they ask of one another.
 */
#ifndef XK_ENGINE_H
#define XK_ENGINE_H

#include "xkernel/event.h"
#include "xkernel/kernel.h"

struct xk_wheel;

/* ---- the event wheel (event.c) ------------------------------------------------------------------------------- */

/* A wheel whose time begins at now_us. NULL: no memory. */
struct xk_wheel *xk_wheel_new(uint64_t now_us);
void xk_wheel_free(struct xk_wheel *wheel);

/* When something may be due, at the earliest; UINT64_MAX: nothing is scheduled. One load; any context. */
uint64_t xk_wheel_next_us(const struct xk_wheel *wheel);

/* One event that is due at now_us, now FIRING; NULL: none. Afterwards xk_wheel_next_us says when to ask again. */
struct xk_event *xk_wheel_take(struct xk_wheel *wheel, uint64_t now_us);

/* The handler of event has returned. */
void xk_wheel_fired(struct xk_wheel *wheel, struct xk_event *event);

/* ---- what event.c asks of the kernel ------------------------------------------------------------------------- */

struct xk_wheel *xk_kernel_wheel(struct xk_kernel *kernel);
/* The clock as event.c should see it: the driver's turn's, or read now. */
uint64_t xk_kernel_now_us(struct xk_kernel *kernel);
/* Something is due earlier than the sleeping driver (or event thread) knows. Any context; never waits. */
void xk_kernel_kick(struct xk_kernel *kernel);

#endif
