/*
 * boot.h - which boot of its peer a message comes from, or is for: annotations that BID puts on what comes up, and reads on
 * what goes down.
 */
#ifndef XK_BOOT_H
#define XK_BOOT_H

#include "xkernel/msg.h"

#define XK_FROM_BOOT XK_KIND('f', 'r', 'o', 'm') /* on the way up: the boot id of the sender */
#define XK_FOR_BOOT XK_KIND('f', 'o', 'r', ' ')  /* on the way down: sent to this boot of the peer, or not at all */

/* Returns the boot id that m, which came up, is known to be from; 0: it is not known. */
static inline uint64_t
xk_msg_from_boot(const struct xk_msg *m)
{
	const uint64_t *from = xk_msg_annotation(m, XK_OF_MESSAGE, XK_FROM_BOOT);

	return from != NULL ? *from : 0;
}

#endif
