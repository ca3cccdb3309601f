/*
 * generated.h - for the C of a compiled graph (`xk compile`), and nothing else: the verbs of upi.h where it is known
 * who stands on whom.
 *
 * A compiled graph is one translation unit: this header, then the crossings of each node, then the protocols' own
 *                                           files,
 * unchanged. In a protocol's file XK_NODE is the number of its node, and the verbs are macros that lead to that
 * node's crossings, which call the neighbour by name: `xk_type_udp.ops->demux` is a constant that the compiler sees
 * through. Where a neighbour is not known (a protocol that lends sessions, sessions of several kinds), a verb is what
 * it always is.
 *
 * The unit is compiled twice. With XK_WATCHED every crossing looks at its edge's marks, as ever; without, only edges
 * that the graph file marks (XK_MARKED), and what nobody has marked costs nothing. A host takes the second if nothing
 * that it was told (a trace, a handoff, a budget) asks for the first.
 */
#ifndef XK_GENERATED_H
#define XK_GENERATED_H

#define XK_COMPILED

#include "xkernel/capture.h"
#include "xkernel/chance.h"
#include "xkernel/checksum.h"
#include "xkernel/engine/engine.h"
#include "xkernel/event.h"
#include "xkernel/fault.h"
#include "xkernel/later.h"
#include "xkernel/protocol.h"
#include "xkernel/trace.h"
#include "xkernel/upi.h"
#include "xkernel/virtual.h"

#define XK_PASTE_(a, b) a##b
#define XK_PASTE(a, b) XK_PASTE_(a, b)

/* ---- the parts of a crossing ---- */

/* As xk_header_gather, for the protocol above s, whose type is a constant. */
static inline int
xk_gather_for(const struct xk_protocol_type *type, struct xk_session *s, struct xk_msg **m)
{
	return xk_likely((*m)->len >= xk_header_gathers(type)) ? 0 : xk_header_gather(xk_hlp_receive(s), m);
}

static inline void
xk_demux_into(const struct xk_protocol_type *type, struct xk_session *s, struct xk_msg *m)
{
	if (xk_gather_for(type, s, &m) == 0)
		type->ops->demux(xk_hlp_receive(s), s, m);
}

static inline int
xk_call_demux_into(const struct xk_protocol_type *type, struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	int result = xk_gather_for(type, s, &m);

	return result != 0 ? result : type->ops->call_demux(xk_hlp_receive(s), s, m, reply);
}

/* What every pop notes, as xk_pop_on. */
static inline void
xk_note_used(struct xk_session *s)
{
	xk_debug_assert(xk_locks_held() == 0);
	atomic_store_explicit(&s->binding.used, true, memory_order_relaxed);
}

static inline void
xk_note_pop(struct xk_session *s)
{
	xk_note_used(s);
	xk_self_head()->popped = s;
}

/* The pop of a session whose type's operations are `ops`, a constant; as xk_pop_within. */
static inline void
xk_pop_by(const struct xk_session_ops *ops, struct xk_session *s, struct xk_session *lls, struct xk_msg *m,
	  const void *hdr)
{
	struct xk_shepherd_head *self = xk_self_head();
	struct xk_hold hold = { self->holds, s, false };

	if (xk_unlikely(s->binding.pops & XK_POPS_IN_ORDER)) {
		xk_pop_within(s, lls, m, hdr);
		return;
	}
	self->holds = &hold;
	xk_note_pop(s);
	ops->pop(s, lls, m, hdr);
	self = xk_self_head();
	self->holds = hold.below;
	if (xk_unlikely(hold.referenced))
		xk_hold_release(&hold);
}

/* As xk_call_pop. */
static inline int
xk_call_pop_by(const struct xk_session_ops *ops, struct xk_session *s, struct xk_session *lls, struct xk_msg *m,
	       const void *hdr, struct xk_msg **reply)
{
	struct xk_shepherd_head *self = xk_self_head();
	struct xk_hold hold = { self->holds, s, false };
	int result;

	if (xk_unlikely(s->binding.pops & XK_POPS_IN_ORDER))
		return xk_call_pop(s, lls, m, hdr, reply);
	*reply = NULL;
	self->holds = &hold;
	xk_note_pop(s);
	result = ops->call_pop(s, lls, m, hdr, reply);
	self = xk_self_head();
	self->holds = hold.below;
	if (xk_unlikely(hold.referenced))
		xk_hold_release(&hold);
	return result;
}

/* ---- a node's crossings ---- */

/*
 * XK_CROSS_UP(node, marked) defines xk_demux as it is from `node`; xk_way_up_NODE(s, m) is the way on. Where an edge
 * is marked it is the library's.
 */
#define XK_CROSS_UP(node, marked)                                                                                      \
	static inline void xk_up_##node(struct xk_session *s, struct xk_msg *m)                                        \
	{                                                                                                              \
		xk_debug_assert(xk_locks_held() == 0);                                                                 \
		xk_debug_cross_up(s, m);                                                                               \
		if ((XK_WATCHED || (marked)) && xk_unlikely(xk_edge_watched(s->up, XK_WATCH_ANY)))                     \
			xk_demux_slow(s, m);                                                                           \
		else                                                                                                   \
			xk_way_up_##node(s, m);                                                                        \
	}

/* The same of xk_call_demux. */
#define XK_CROSS_CALL_UP(node, marked)                                                                                 \
	static inline int xk_call_up_##node(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)             \
	{                                                                                                              \
		*reply = NULL;                                                                                         \
		xk_debug_cross_up(s, m);                                                                               \
		if ((XK_WATCHED || (marked)) && xk_unlikely(xk_edge_watched(s->up, XK_WATCH_ANY)))                     \
			return xk_call_demux_slow(s, m, reply);                                                        \
		return xk_debug_reply(xk_way_call_up_##node(s, m, reply), reply);                                      \
	}

/*
 * xk_push, xk_call and xk_call_async as they are from `node`, to sessions whose operations are `to`. Not all marks
 * are of what goes down; what they ask for is the library's part.
 */
#define XK_IS_ASKED(s) (XK_WATCHED && xk_unlikely(xk_edge_watched(s->up, XK_WATCH_DOWN)))

#define XK_DOWN_TO(node, to)                                                                                           \
	static inline int xk_down_##node(struct xk_session *s, struct xk_msg *m)                                       \
	{                                                                                                              \
		xk_debug_assert(xk_locks_held() == 0);                                                                 \
		if (XK_IS_ASKED(s))                                                                                    \
			return xk_push(s, m);                                                                          \
		xk_debug_cross_down(s, m);                                                                             \
		return (to)->push(s, m);                                                                               \
	}
#define XK_CALL_TO(node, to)                                                                                           \
	static inline int xk_call_##node(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)                \
	{                                                                                                              \
		*reply = NULL;                                                                                         \
		if (XK_IS_ASKED(s))                                                                                    \
			return xk_call(s, m, reply);                                                                   \
		xk_debug_cross_down(s, m);                                                                             \
		return xk_reply_gather(xk_hlp_receive(s), xk_debug_reply((to)->call(s, m, reply), reply), reply);      \
	}
#define XK_CALL_ASYNC_TO(node, to)                                                                                     \
	static inline int xk_call_async_##node(struct xk_session *s, struct xk_msg *m, struct xk_call *call)           \
	{                                                                                                              \
		if (XK_IS_ASKED(s))                                                                                    \
			return xk_call_async(s, m, call);                                                              \
		xk_debug_cross_down(s, m);                                                                             \
		return (to)->call_async(s, m, call);                                                                   \
	}
#define XK_DOWN_ASKED(node)                                                                                            \
	static inline int xk_down_##node(struct xk_session *s, struct xk_msg *m)                                       \
	{                                                                                                              \
		return xk_push(s, m);                                                                                  \
	}
#define XK_CALL_ASKED(node)                                                                                            \
	static inline int xk_call_##node(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)                \
	{                                                                                                              \
		return xk_call(s, m, reply);                                                                           \
	}
#define XK_CALL_ASYNC_ASKED(node)                                                                                      \
	static inline int xk_call_async_##node(struct xk_session *s, struct xk_msg *m, struct xk_call *call)           \
	{                                                                                                              \
		return xk_call_async(s, m, call);                                                                      \
	}

/*
 * xk_pop and xk_pop_past of a node's own sessions: they have nothing to do but to hand on (unless some are `asked`),
 * or what `own` says. noted: the protocol above notes by whom a message came, as soon as that matters.
 */
#define XK_POP_THROUGH(node, asked, noted)                                                                             \
	static inline void xk_pop_past_##node(struct xk_session *s, struct xk_session *lls, struct xk_msg *m)          \
	{                                                                                                              \
		if ((XK_WATCHED || (asked)) && xk_unlikely(s->binding.pops & XK_POPS_IN_ORDER)) {                      \
			xk_pop_within(s, lls, m, NULL);                                                                \
			return;                                                                                        \
		}                                                                                                      \
		if (XK_WATCHED || !(noted))                                                                            \
			xk_note_pop(s);                                                                                \
		else                                                                                                   \
			xk_note_used(s);                                                                               \
		xk_up_##node(s, m);                                                                                    \
	}                                                                                                              \
	static inline void xk_pop_##node(struct xk_session *s, struct xk_session *lls, struct xk_msg *m,               \
					 const void *hdr)                                                              \
	{                                                                                                              \
		if ((XK_WATCHED || (asked)) && xk_unlikely(s->binding.pops != 0))                                      \
			xk_pop_within(s, lls, m, hdr);                                                                 \
		else                                                                                                   \
			xk_pop_past_##node(s, lls, m);                                                                 \
	}
#define XK_POP_PAST(node)                                                                                              \
	static inline void xk_pop_past_##node(struct xk_session *s, struct xk_session *lls, struct xk_msg *m)          \
	{                                                                                                              \
		if (xk_unlikely(s->binding.pops & XK_POPS_IN_ORDER)) {                                                 \
			xk_pop_within(s, lls, m, NULL);                                                                \
			return;                                                                                        \
		}                                                                                                      \
		xk_note_pop(s);                                                                                        \
		xk_up_##node(s, m);                                                                                    \
	}
#define XK_POP_BY(node, own)                                                                                           \
	XK_POP_PAST(node)                                                                                              \
	static inline void xk_pop_##node(struct xk_session *s, struct xk_session *lls, struct xk_msg *m,               \
					 const void *hdr)                                                              \
	{                                                                                                              \
		xk_pop_by(own, s, lls, m, hdr);                                                                        \
	}
#define XK_POP_ASKED(node)                                                                                             \
	XK_POP_PAST(node)                                                                                              \
	static inline void xk_pop_##node(struct xk_session *s, struct xk_session *lls, struct xk_msg *m,               \
					 const void *hdr)                                                              \
	{                                                                                                              \
		xk_pop(s, lls, m, hdr);                                                                                \
	}
#define XK_CALL_POP_BY(node, own)                                                                                      \
	static inline int xk_call_pop_##node(struct xk_session *s, struct xk_session *lls, struct xk_msg *m,           \
					     const void *hdr, struct xk_msg **reply)                                   \
	{                                                                                                              \
		return xk_call_pop_by(own, s, lls, m, hdr, reply);                                                     \
	}
#define XK_CALL_POP_ASKED(node)                                                                                        \
	static inline int xk_call_pop_##node(struct xk_session *s, struct xk_session *lls, struct xk_msg *m,           \
					     const void *hdr, struct xk_msg **reply)                                   \
	{                                                                                                              \
		return xk_call_pop(s, lls, m, hdr, reply);                                                             \
	}

/*
 * xk_virtual_demux as it is at `node`; where no session stands on lls yet, it is the library's. Who is self is not
 * asked on the usual way.
 */
#define XK_VIRTUAL_DEMUX(node)                                                                                         \
	__attribute__((unused)) static void xk_virtual_demux_##node(struct xk_protocol *self, struct xk_session *lls,  \
								    struct xk_msg *m)                                  \
	{                                                                                                              \
		struct xk_session *s = xk_session_above(lls);                                                          \
                                                                                                                       \
		if (xk_likely(s != NULL)) {                                                                            \
			xk_pop_##node(s, lls, m, NULL);                                                                \
			return;                                                                                        \
		}                                                                                                      \
		xk_self_head()->popped = lls;                                                                          \
		xk_virtual_demux(xk_hlp_receive(lls), lls, m);                                                         \
	}

/* xk_port_transmit where the usual case can be seen. */
static inline int
xk_port_transmit_seen(struct xk_port *port, struct xk_protocol *owner, struct xk_msg *m, unsigned full)
{
	return xk_likely(xk_transmit_add(port, m)) ? 0 : xk_port_transmit(port, owner, m, full);
}

/* What the unit has for others. */
#define XK_COMPILED_OUT __attribute__((externally_visible))

#endif
