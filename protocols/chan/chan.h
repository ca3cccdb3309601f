/*
 * chan.h - request and reply, at most once: what users of CHAN can ask and set. chan.c has the protocol.
 */
#ifndef XK_CHAN_H
#define XK_CHAN_H

#include "protocols/control.h"
#include "xkernel/protocol.h"

#endif
