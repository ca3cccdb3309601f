/*
 * share.h - shares of the buffers that a protocol keeps for other hosts: incomplete messages, and unacknowledged
 * messages and replies. A buffer counts as one, however few bytes it holds.
 *
 * A host gets at most its limit, and at most as many buffers as then remain for all others: one host leaves at least
 * half, and no number of hosts takes all (dynamic thresholds: Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998). In the
 * same way, all of a protocol's shares together leave buffers to other protocols (xk_keep, in upi.h).
 *
 *	xk_shares_init(&gm->shares, self, buffers of all, buffers of a host);
 *	s->share = xk_shares_join(&gm->shares, host);		in a session's setup
 *	if (!xk_share_take(s->share, xk_msg_buffers(m)))	before m is stored
 *		xk_drop(self, m, GM_NO_ROOM);
 *	xk_share_give(s->share, xk_msg_buffers(m));		after it was stored
 *	xk_shares_leave(&gm->shares, s->share);			when the session ends
 */
#ifndef XK_SHARE_H
#define XK_SHARE_H

#include <stdatomic.h>

#include "xkernel/map.h"
#include "xkernel/protocol.h"

/* The buffers of one holder, or of all holders together. */
struct xk_share {
	struct xk_share *of;        /* the share that contains this one; NULL: none, it is the outermost */
	struct xk_protocol *keeper; /* of the outermost: the protocol that keeps the buffers (xk_keep); NULL: none */
	uint32_t max;               /* most buffers */
	bool leaves;                /* holds at most as many as remain of the outermost */
	_Atomic uint32_t held;      /* buffers */
};

/* Returns the number of buffers of the usual size that `bytes` fill. */
static inline uint32_t
xk_share_buffers(uint64_t bytes)
{
	return bytes / XK_MSG_SEGMENT < UINT32_MAX / 2 ? (uint32_t)(bytes / XK_MSG_SEGMENT) : UINT32_MAX / 2;
}

static inline uint32_t
xk_share_held(const struct xk_share *share)
{
	return atomic_load_explicit(&share->held, memory_order_relaxed);
}

/* Gives back `count` buffers of share. Any context. */
void xk_share_give(struct xk_share *share, uint32_t count);

/* Takes `count` buffers, or none if they exceed a limit. Returns whether they were taken. Any context. */
bool xk_share_take(struct xk_share *share, uint32_t count);

/* ---- the shares of hosts, by address ---- */

struct xk_shares {
	struct xk_share all;
	uint32_t own_max;
	struct xk_lock lock;
	struct xk_map holders; /* under the lock */
};

/* Sets the limits, in buffers. Returns 0 or -ENOMEM. Main thread. */
int xk_shares_init(struct xk_shares *shares, struct xk_protocol *self, uint32_t all_max, uint32_t own_max);

/* Frees all shares, which must not be in use any more. */
void xk_shares_fini(struct xk_shares *shares);

/* Returns the share of the host at address, with a reference; NULL: no memory. Any shepherd. */
struct xk_share *xk_shares_join(struct xk_shares *shares, uint64_t address);

/* Gives back a reference on share, after the buffers taken with it. Ignores NULL. Any shepherd. */
void xk_shares_leave(struct xk_shares *shares, struct xk_share *share);

#endif
