/*
 * virtual.h - the common part of virtual protocols: they pass open, open_enable and control through, and each session
 * is on one session below. Protocols with several lowers open those themselves; enables go to all lowers that carry
 * messages, or to none. Other virtual protocols write only push and pop.
 *
 * 	static int vtap_carry(struct xk_session *s, struct xk_msg *m, enum xk_direction direction) { ... }
 *
 * 	XK_VIRTUAL_SESSION_OPS(vtap);
 * 	static const struct xk_protocol_ops vtap_ops = { XK_VIRTUAL_OPS };
 *
 * Sessions:  the session below knows the one on it (`above`): messages need no map lookup. The upper holds a reference
 *            on the lower, not vice versa. The setting `sessions` limits the passively opened ones that are kept.
 * Enables:   those of one hlp_type count together, whatever their participants, for one hlp_receive. Each open_disable
 *            closes the passively opened sessions that no other protocol holds.
 * Control:   the session or protocol below answers.
 */
#ifndef XK_VIRTUAL_H
#define XK_VIRTUAL_H

#include "xkernel/protocol.h"

/* Operations of a virtual protocol and its sessions. */
int xk_virtual_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		    struct xk_participants *participants, struct xk_session **session);
int xk_virtual_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
			   struct xk_participants *participants);
int xk_virtual_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
			    struct xk_participants *participants);
int xk_virtual_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
			 struct xk_protocol *hlp_type);
void xk_virtual_close_done(struct xk_protocol *self, struct xk_session *session);
void xk_virtual_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m);
struct xk_session *xk_virtual_find(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p);
void xk_virtual_session_close(struct xk_session *s);

/* Returns the passive key of an open_enable of hlp_type. */
static inline struct xk_key
xk_virtual_passive_key(const struct xk_protocol *hlp_type)
{
	return (struct xk_key){ (uintptr_t)hlp_type, 0 };
}

/* Opens the session on lls, or shares it if the hlps are the same. Takes its own reference on lls. 0 or -errno. */
int xk_virtual_open_on(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_session *lls,
		       struct xk_session **session);

/* For struct xk_protocol_ops: all but init, fini and control. */
#define XK_VIRTUAL_OPS                                                                                                 \
	.open = xk_virtual_open, .open_enable = xk_virtual_open_enable, .open_disable = xk_virtual_open_disable,       \
	.open_done = xk_virtual_open_done, .close_done = xk_virtual_close_done, .demux = xk_virtual_demux

/* Passes m on through s. Takes m. Returns as xk_push; 0 upward. */
static inline int
xk_virtual_pass(struct xk_session *s, struct xk_msg *m, enum xk_direction direction)
{
	if (direction == XK_DOWN)
		return xk_push(s->lls, m);
	xk_demux(s, m);
	return 0;
}

/*
 * Defines NAME_session_ops, for a protocol that does the same in both directions: NAME_carry(s, m, direction), which
 * takes m and returns as xk_push. A message that has waited (later.h) only goes on. Other operations may follow.
 */
#define XK_VIRTUAL_SESSION_OPS(name, ...)                                                                              \
	static int name##_push(struct xk_session *s, struct xk_msg *m)                                                 \
	{                                                                                                              \
		return name##_carry(s, m, XK_DOWN);                                                                    \
	}                                                                                                              \
	static void name##_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)        \
	{                                                                                                              \
		if (hdr != NULL)                                                                                       \
			xk_demux(s, m);                                                                                \
		else                                                                                                   \
			name##_carry(s, m, XK_UP);                                                                     \
	}                                                                                                              \
	static const struct xk_session_ops name##_session_ops = {                                                      \
		.push = name##_push, .pop = name##_pop, .close = xk_virtual_session_close, __VA_ARGS__                 \
	}

#endif
