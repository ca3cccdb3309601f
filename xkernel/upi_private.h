/* upi_private.h - sessions that shepherds hold, and those that come to nothing: the engine's side of upi.h. */
#ifndef XK_UPI_PRIVATE_H
#define XK_UPI_PRIVATE_H

#include "xkernel/upi.h"

/* Turns a hold into a reference because its shepherd leaves its epoch, and gives that back. */
void xk_hold_keep(struct xk_hold *hold);
void xk_hold_release(struct xk_hold *hold);

/* Frees s, a new session that was not set up, and closes its lls. */
void xk_session_discard(struct xk_session *s);

/* Keeps the session that self popped last by a reference, in place of the one kept before. */
void xk_kept_renew(struct xk_shepherd_head *self);

#endif
