/*
 * am.h - Active Messages: messages that name the handler to run where they arrive. am.c has the protocol.
 *
 * A program registers the same handlers under the same numbers on every host. It opens a session to a host, and sends
 * requests; a request's handler may reply, once, to a handler of the requesting host.
 *
 *	struct xk_am_handler add = { .run = add_run, .argument = &sum };
 *
 *	xk_am_register(am, ADD, &add);
 *	...
 *	xk_am_request(s, ADD, m);
 */
#ifndef XK_AM_H
#define XK_AM_H

#include "protocols/control.h"
#include "xkernel/bytes.h"
#include "xkernel/protocol.h"

enum {
	XK_AM_HANDLERS = 256, /* numbers are below this */
	XK_AM_NUMBER_LEN = 2, /* in front of a pushed message */
};

/* The reply of a handler; empty at first, which AM acknowledges. */
struct xk_am_reply {
	unsigned number; /* the handler to run where the request came from */
	/*
	 * Belongs to AM once the handler has returned; NULL: no reply. Unless BID is below AM, AM drops a reply
	 * (too_long) more than three times as long as its request, counting 20 bytes of header for each.
	 */
	struct xk_msg *m;
};

struct xk_am_handler {
	/*
	 * Takes m. reply is NULL if m is a reply. A shepherd, in the driver if it can; must be short, and must neither
	 * wait nor send, other than by the reply, unless may_wait is set. Holds no lock.
	 */
	void (*run)(void *argument, struct xk_session *lls, struct xk_msg *m, struct xk_am_reply *reply);
	void *argument;
	bool may_wait; /* or send: runs outside of the driver */
};

struct xk_am_registration {
	unsigned number;
	struct xk_am_handler handler;
};

/* Registers the handler of messages with this number. Before the kernel runs. Returns 0, -EINVAL or -EEXIST. */
static inline int
xk_am_register(struct xk_protocol *am, unsigned number, const struct xk_am_handler *handler)
{
	struct xk_am_registration registration = { number, *handler };

	return xk_control_protocol(am, XK_AM_REGISTER, &registration, sizeof(registration));
}

/*
 * Asks the peer of s to run handler `number` for m. Takes m. Returns as xk_push: 0 (it may be lost); -ENOBUFS: too many
 * requests are queued, or no buffer is left; -EMSGSIZE.
 */
static inline int
xk_am_request(struct xk_session *s, unsigned number, struct xk_msg *m)
{
	uint8_t *p = xk_msg_push(&m, XK_AM_NUMBER_LEN);

	if (p == NULL) {
		xk_drop(s->protocol, m, XK_DROP_NO_BUFFER);
		return -ENOBUFS;
	}
	xk_put16(p, (uint16_t)number);
	return xk_push(s, m);
}

#endif
