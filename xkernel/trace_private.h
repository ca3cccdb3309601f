/* trace_private.h - events for the trace: the engine's side of trace.h. */
#ifndef XK_TRACE_PRIVATE_H
#define XK_TRACE_PRIVATE_H

#include "xkernel/trace.h"

/*
 * Trace, in this order: a frame taken from a port, m crossing the edge above s, a reply crossing it, the return of the
 * call that handed a message across edge, a session made or closing, a drop, a line of the kernel's own, and a
 * completed handoff. Not called where nothing is traced.
 */
void xk_trace_taken(struct xk_kernel *kernel, const struct xk_msg *m);
void xk_trace_crossing(struct xk_session *s, const struct xk_msg *m, enum xk_direction direction);
void xk_trace_replied(struct xk_session *s, const struct xk_msg *reply, enum xk_direction direction);
void xk_trace_returned(const struct xk_edge *edge, enum xk_direction direction);
void xk_trace_session(const struct xk_session *s, bool made);
void xk_trace_drop(struct xk_protocol *self, const struct xk_msg *m, const char *reason);
__attribute__((format(printf, 2, 3))) void xk_trace_kernel(struct xk_kernel *kernel, const char *format, ...);
void xk_trace_handoff(struct xk_shepherd *self, enum xk_handoff_reason reason, const struct xk_edge *edge);

#endif
