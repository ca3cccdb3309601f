/*
 * trace.h - traces of a protocol's decisions. The UPI traces every crossing, so a protocol traces only what it decides:
 * a state change, a timeout, a refusal. Levels are set in the graph (`trace=LEVEL`).
 */
#ifndef XK_TRACE_H
#define XK_TRACE_H

#include "xkernel/upi.h"

enum xk_trace_level {
	XK_TRACE_NONE,     /* trace=none, the default */
	XK_TRACE_ERRORS,   /* trace=errors: drops and failures */
	XK_TRACE_EVENTS,   /* trace=events: sessions opened and closed, timeouts */
	XK_TRACE_MESSAGES, /* trace=messages: each message's crossings, with its header bytes */
};

/* Not for callers; use xk_trace. */
__attribute__((format(printf, 3, 4))) void xk_trace_print(struct xk_protocol *self, int level, const char *format, ...);

/* Writes one line to the kernel's trace; a lower level costs a comparison. Any context; never waits for a lock. */
#define xk_trace(self, level, ...)                                                                                     \
	do {                                                                                                           \
		if (xk_unlikely((self)->shown_level >= (level)))                                                       \
			xk_trace_print((self), (level), __VA_ARGS__);                                                  \
	} while (0)

/* The names of handoffs' reasons, also for programs that count them. */
extern const char *const xk_handoff_names[XK_HANDOFF_REASONS];

/* Returns the level called name ("none" ... "messages"), or -1. */
int xk_trace_level(const char *name);

/* ---- the same as data, for a program (kernel.h) ---- */

enum xk_trace_kind {
	XK_TRACE_TAKEN,    /* a driver took the frame m from a port; m has its number */
	XK_TRACE_CROSSED,  /* m crosses the edge above `session` */
	XK_TRACE_REPLIED,  /* m, the reply of a call, crosses that edge */
	XK_TRACE_RETURNED, /* the call that handed a message across `edge` has returned, on the same shepherd */
	XK_TRACE_HANDOFF,  /* the shepherd has left the driver for `reason`, at `edge` (NULL: none) */
	XK_TRACE_DROPPED,  /* `protocol` drops m */
	XK_TRACE_DECISION, /* `protocol` (NULL: the kernel) traces a decision */
	XK_TRACE_MADE,     /* `session` is new */
	XK_TRACE_CLOSED,   /* `session` will soon be freed */
};

/* A step of the trace. Only its kind's members are set; everything is the kernel's, and valid during the call only. */
struct xk_trace_step {
	enum xk_trace_kind kind;
	enum xk_handoff_reason reason;
	enum xk_direction direction; /* of m */
	const struct xk_msg *m;
	const struct xk_session *session;
	const struct xk_edge *edge;
	const struct xk_protocol *protocol;
	const char *text; /* the text of the decision, or the name of the drop's reason */
	/* of every kind */
	uint64_t now_ns;
	enum xk_load load;    /* what the shepherd carries */
	const void *shepherd; /* identifies the shepherd; NULL: a foreign thread */
	const char *place;    /* where it runs: "driver, stack 3", "thread 1, stack 2" */
};

/*
 * Receives the steps of a kernel, whatever the graph's levels are, in the order in which they happen, from all its
 * threads. A program's own sink begins with this struct. Messages take the same paths (path.h) as without a sink: a
 * message on a path crosses the edge above the path's top, and on send also the one above the port.
 */
struct xk_trace_sink {
	void (*see)(struct xk_trace_sink *sink, const struct xk_trace_step *step);
};

#endif
