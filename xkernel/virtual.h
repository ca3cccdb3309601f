/*
 * virtual.h - what virtual protocols have in common: they pass through whatever is opened, enabled and asked (with several
 * lowers they do that by themselves), and each session stands on one session below. What is left to the protocol is push and pop.
 *
 *	static const struct xk_session_ops vtap_session_ops = {
 *		.size = sizeof(struct xk_session), .push = vtap_push, .pop = vtap_pop, .close = xk_virtual_session_close,
 *	};
 *	static const struct xk_protocol_ops vtap_ops = { XK_VIRTUAL_OPS };
 *
 * Sessions:  the session below knows the one that stands on it (above), so that a message crosses without a map. The
 *            upper session holds a reference on the lower, the lower none on the upper. Those that the protocol below
 *            has opened passively are kept as the setting `sessions` says.
 * Enables:   participants are not looked at: all that the same hlp_type has enabled counts together, for one
 *            hlp_receive. With each that is taken back, sessions go that were opened passively and nobody else holds.
 * Control:   nothing is answered here; the session or protocol below is asked.
 */
#ifndef XK_VIRTUAL_H
#define XK_VIRTUAL_H

#include "xkernel/protocol.h"

/* As the operations of upi.h that they are named after. */
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
void xk_virtual_session_close(struct xk_session *s);

/* What an enable of hlp_type is remembered by. */
static inline struct xk_key
xk_virtual_passive_key(const struct xk_protocol *hlp_type)
{
	return (struct xk_key){ (uintptr_t)hlp_type, 0 };
}

/*
 * For an open that has the session below already: the session that stands on lls, made (with a reference of its own on
 * lls) or, if the same hlps have it, with one more reference. 0 or -errno.
 */
int xk_virtual_open_on(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_session *lls,
		       struct xk_session **session);

/* For struct xk_protocol_ops: all but init, fini and control. */
#define XK_VIRTUAL_OPS                                                                                                 \
	.open = xk_virtual_open, .open_enable = xk_virtual_open_enable, .open_disable = xk_virtual_open_disable,       \
	.open_done = xk_virtual_open_done, .close_done = xk_virtual_close_done, .demux = xk_virtual_demux

enum xk_way { XK_WAY_UP, XK_WAY_DOWN, XK_WAYS };

/* Lets m, which is passing through s, go on. Takes m. As xk_demux (then 0) and xk_push. */
static inline int
xk_virtual_pass(struct xk_session *s, struct xk_msg *m, enum xk_way way)
{
	if (way == XK_WAY_DOWN)
		return xk_push(s->lls, m);
	xk_demux(s, m);
	return 0;
}

#endif
