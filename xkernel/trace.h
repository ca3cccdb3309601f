/*
 * trace.h - traces of a protocol's decisions. The UPI traces every crossing, so a protocol traces only
 * what it decides: a state change, a timeout, a refusal. Levels are set in the graph (`trace=LEVEL`).
 */
#ifndef XK_TRACE_H
#define XK_TRACE_H

#include "xkernel/upi.h"

enum xk_trace_level {
	XK_TRACE_NONE,     /* trace=none, the default */
	XK_TRACE_ERRORS,   /* trace=errors: drops and failures */
	XK_TRACE_EVENTS,   /* trace=events: sessions opened and closed, time-outs */
	XK_TRACE_MESSAGES, /* trace=messages: each message's crossings, with its header bytes */
};

/* Not for callers; use xk_trace. */
__attribute__((format(printf, 2, 3))) void xk_trace_print(struct xk_protocol *self, const char *format, ...);

/* Writes one line to the kernel's trace; a lower level costs a comparison. Any context; never waits for a lock. */
#define xk_trace(self, level, ...)                                                                                     \
	do {                                                                                                           \
		if (xk_unlikely((self)->trace_level >= (level)))                                                       \
			xk_trace_print((self), __VA_ARGS__);                                                           \
	} while (0)

/* Returns the level called name ("none" ... "messages"), or -1. */
int xk_trace_level(const char *name);

#endif
