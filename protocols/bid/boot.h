/*
 * boot.h - the boot of the peer that a message comes from, or is for: annotations that BID puts on arriving messages,
 * and reads from outgoing ones.
 */
#ifndef XK_BOOT_H
#define XK_BOOT_H

#include "xkernel/msg.h"

#define XK_FROM_BOOT XK_KIND('f', 'r', 'o', 'm') /* upward: the sender's boot id */
#define XK_FOR_BOOT XK_KIND('f', 'o', 'r', ' ')  /* downward: the only boot of the peer to send to */

/* Returns the sender's boot id of m, which came up; 0: unknown. */
static inline uint64_t
xk_msg_from_boot(const struct xk_msg *m)
{
	const uint64_t *from = xk_msg_annotation(m, XK_OF_MESSAGE, XK_FROM_BOOT);

	return from != NULL ? *from : 0;
}

#endif
