/*
 * chan.h - request and reply, at most once: what users of CHAN can ask and set. chan.c has the protocol.
 */
#ifndef XK_CHAN_H
#define XK_CHAN_H

#include "xkernel/protocol.h"

/* An actively opened channel: nanoseconds, at least 1000; for calls that begin later. -EINVAL: another time. */
XK_CONTROL_OP(XK_CHAN_SET_DEADLINE, 107, const uint64_t);
XK_CONTROL_OP(XK_CHAN_GET_DEADLINE, 108, uint64_t);
/* The same channel: ends the running call with -ECANCELED; the server may have executed it. */
XK_CONTROL_OP(XK_CHAN_ABORT, 109, void);

#endif
