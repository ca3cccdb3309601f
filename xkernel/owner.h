/* owner.h - checks of messages' owners: in debug builds, and in kernels that track owners. */
#ifndef XK_OWNER_H
#define XK_OWNER_H

#include "xkernel/base.h"

struct xk_msg;
struct xk_protocol;

/* Names a freed message's user, its function and the last owner, and aborts. `what` is a verb: "splits". */
__attribute__((noreturn, cold)) void xk_msg_misused(const struct xk_msg *m, const char *what);

/*
 * Records that `from` hands m to `to`. Names the protocols and aborts if m was freed, or if owners are tracked
 * (xk_kernel_watch_owners) and `from` does not own m. For each crossing in debug builds, else where owners are tracked.
 */
void xk_msg_cross(struct xk_msg *m, const struct xk_protocol *from, const struct xk_protocol *to,
		  enum xk_direction direction);

/*
 * Names the protocols and aborts if owners are tracked and m, which is popped at a session of `to`, belongs to another.
 */
void xk_msg_pops(const struct xk_msg *m, const struct xk_protocol *to);

#endif
