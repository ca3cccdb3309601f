/*
 * gm.h - GM's own calls: notification of a message's delivery, depositing into registered memory, free tokens. gm.c has
 * the protocol; buffers for arriving messages are posted with xk_post (protocols/post.h).
 *
 *	struct xk_gm_send send = { .done = sent };	the caller's, until done
 *	xk_gm_send(s, m, &send);
 *
 *	xk_region_register(gm, &region);			region.id is for the peers that may write (region.h)
 *	xk_gm_deposit(s, m, region_id, place, &send);	at a peer: the bytes of m to memory + place
 */
#ifndef XK_GM_H
#define XK_GM_H

#include "protocols/region.h"
#include "xkernel/protocol.h"

#define XK_GM_REQUEST XK_KIND('g', 'm', 'r', 'q') /* an annotation of a push: the address of a struct xk_gm_request */

XK_CONTROL_OP(XK_GM_GET_TOKENS, 114, uint32_t); /* session: number of messages that may be pushed */

enum { XK_GM_UNKNOWN = 1 /* a status: sent once (reliable=no, small=unreliable); it may arrive or not */ };

/* A message whose sender is notified of its end. The caller's; must exist until done, or until the kernel ends. */
struct xk_gm_send {
	/*
	 * Runs once, in a shepherd, if the push has returned 0. May send. status:
	 *	0		delivered: the user at the peer has returned from it; or deposited
	 *	XK_GM_UNKNOWN	not known, and not awaited
	 *	-ETIMEDOUT	the session is over: no progress for `patience`
	 *	-ECONNRESET	the session is over: the peer has rebooted, or forgotten or refused it
	 *	-EFAULT		the session is over: a deposit outside of registered memory
	 *	-EMSGSIZE	the session is over: the peer takes no message that long
	 * After an error the message may have been delivered or not.
	 */
	void (*done)(struct xk_gm_send *send, int status);
};

/* Options of a push. */
struct xk_gm_request {
	struct xk_gm_send *send; /* NULL: no notification */
	uint32_t region, place;  /* region 0: no deposit */
};

/* Sends m; send->done reports its end. Takes m. Returns as xk_push; done runs only after 0. */
static inline int
xk_gm_send(struct xk_session *s, struct xk_msg *m, struct xk_gm_send *send)
{
	struct xk_gm_request request = { .send = send };

	xk_msg_annotate(m, XK_OF_PUSH, XK_GM_REQUEST, (uintptr_t)&request);
	return xk_push(s, m);
}

/* Writes m into a region of the peer's, `place` bytes from its base. The peer's user is not notified. As xk_gm_send. */
static inline int
xk_gm_deposit(struct xk_session *s, struct xk_msg *m, uint32_t region, uint32_t place, struct xk_gm_send *send)
{
	struct xk_gm_request request = { send, region, place };

	xk_msg_annotate(m, XK_OF_PUSH, XK_GM_REQUEST, (uintptr_t)&request);
	return xk_push(s, m);
}

#endif
