/* upi_private.h - shepherds' holds on sessions, and failed sessions: the engine's side of upi.h. */
#ifndef XK_UPI_PRIVATE_H
#define XK_UPI_PRIVATE_H

#include "xkernel/upi.h"

/* Turn a hold into a reference, because its shepherd leaves its epoch; release that reference. */
void xk_hold_keep(struct xk_hold *hold);
void xk_hold_release(struct xk_hold *hold);

/* Frees s, a new session that was not set up, and closes its lls. */
void xk_session_discard(struct xk_session *s);

/* Takes a reference on the session that self popped last, and releases the one kept before. */
void xk_kept_renew(struct xk_shepherd_head *self);

#endif
