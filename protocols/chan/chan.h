/*
 * chan.h - request and reply, at most once: what users of CHAN can ask and set. chan.c has the protocol.
 */
#ifndef XK_CHAN_H
#define XK_CHAN_H

#include "xkernel/protocol.h"

/* On a session that was opened actively: a channel. */
enum xk_chan_control {
	XK_CHAN_SET_DEADLINE = 800, /* uint64_t, nanoseconds, at least 1000: of the calls that begin from now on */
	XK_CHAN_GET_DEADLINE,       /* uint64_t */
	XK_CHAN_ABORT,              /* nothing: the call under way ends with -ECANCELED; the server may have run it */
};

#endif
