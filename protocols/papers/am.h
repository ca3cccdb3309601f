/*
 * am.h - Active Messages: messages that name the handler to run where they arrive. am.c has the protocol; memory that
 * peers may store into is registered with xk_region_register (protocols/region.h).
 *
 * A program enables an endpoint (xk_open_enable, its name on top of the local stack), and registers handlers under the
 * same numbers on every host. It opens a session to an endpoint, and sends requests; a request's handler may reply,
 * once, to a handler of the requesting endpoint.
 *
 *	struct xk_am_handler add = { .run = add_run, .argument = &sum };
 *	struct xk_am_push push = { .number = ADD, .count = 2, .words = { 3, 4 } };
 *
 *	xk_am_register(am, NAME, ADD, &add);
 *	...
 *	xk_am_request(s, &push, NULL);
 *
 * A plain xk_push on a session is a request for the peer's protocol above: it comes up as a message.
 */
#ifndef XK_AM_H
#define XK_AM_H

#include "protocols/region.h"
#include "xkernel/protocol.h"

#define XK_AM_PUSH XK_KIND('a', 'm', 'p', 'u') /* an annotation of a push: the address of a struct xk_am_push */

enum {
	XK_AM_HANDLERS = 256, /* numbers are below this */
	XK_AM_WORDS = 8,      /* of a request or reply, besides its bytes */
	XK_AM_NONE = 0xffff,  /* no handler: of a request for the protocol above, or of a store without notification */
};

/* The message that a handler runs for. Valid until it returns. */
struct xk_am_arrival {
	struct xk_session *session; /* the handler's own end: a passive one if the peer has opened it */
	unsigned count;
	uint32_t words[XK_AM_WORDS]; /* the first `count` are the sender's, the others 0 */
	uint8_t *memory;             /* a store's: its bytes are there; else NULL */
	uint32_t len;                /* how many */
};

/* The reply of a handler. At first there is none, and AM acknowledges the request. */
struct xk_am_reply {
	bool given;
	unsigned number; /* the handler to run where the request came from */
	unsigned count;
	uint32_t words[XK_AM_WORDS];
	struct xk_msg *m; /* the bytes; NULL: none. Belongs to AM once the handler has returned */
};

struct xk_am_handler {
	/*
	 * Takes m, the bytes of the request or reply; of a store, none. reply is NULL if m is a reply. A shepherd, in
	 * the driver if it can; must be short, and must neither wait nor send anything but the reply, unless may_wait
	 * is set. Holds no lock.
	 */
	void (*run)(void *argument, const struct xk_am_arrival *arrival, struct xk_msg *m, struct xk_am_reply *reply);
	void *argument;
	bool may_wait; /* or send: runs outside of the driver */
};

/* The tag that an endpoint requires of its peers, and the handler of its returned requests. */
struct xk_am_endpoint {
	uint64_t tag; /* what peers must show to open a session; 0: nothing */
	/*
	 * Takes m, the words (4 bytes each, in network order) and bytes of a request that was not answered; of a store,
	 * its last bytes. Runs in a shepherd, and may send. NULL: such requests are dropped. status:
	 *	-ENOENT		the peer has no such handler
	 *	-EFAULT		a store outside of registered memory
	 *	-ECONNREFUSED	the peer has no such endpoint
	 *	-EACCES		the session's tag is not the endpoint's
	 *	-ECONNRESET	the peer was booted again, or has forgotten the session: it may have been run
	 *	-ETIMEDOUT	no answer for `patience`: it may have been run, or may still be
	 */
	void (*returned)(void *argument, struct xk_session *s, unsigned number, struct xk_msg *m, int status);
	void *argument;
};

/* A request. */
struct xk_am_push {
	unsigned number; /* of the handler, or XK_AM_NONE */
	unsigned count;
	uint32_t words[XK_AM_WORDS];
	struct xk_region_part part; /* a store: where at the peer; its len is that of the message. region 0: no store */
};

/* The argument of XK_AM_REGISTER. */
struct xk_am_registration {
	uint16_t name;
	unsigned number; /* XK_AM_HANDLERS: none, but the endpoint */
	struct xk_am_handler handler;
	struct xk_am_endpoint endpoint;
};

XK_CONTROL_OP(XK_AM_REGISTER, 110, const struct xk_am_registration); /* protocol: see xk_am_register */
XK_CONTROL_OP(XK_AM_SET_TAG, 111, const uint64_t);                   /* session: see xk_am_set_tag */
XK_CONTROL_OP(XK_AM_GET_WAITING, 112, uint32_t);    /* session: number of requests that wait for answers to others */
XK_CONTROL_OP(XK_AM_GET_UNANSWERED, 113, uint32_t); /* session: number of unanswered requests */

/*
 * Registers the handler of messages to endpoint `name` with this number; name 0 is that of sessions that are opened
 * without a local name. Before the kernel runs. Returns 0, -EINVAL, -EEXIST or -ENOMEM.
 */
static inline int
xk_am_register(struct xk_protocol *am, uint16_t name, unsigned number, const struct xk_am_handler *handler)
{
	struct xk_am_registration registration = { .name = name, .number = number, .handler = *handler };

	return number >= XK_AM_HANDLERS || handler->run == NULL
		       ? -EINVAL
		       : xk_control_protocol(am, XK_AM_REGISTER, &registration);
}

/* Sets an endpoint's required tag and its error handler. Before the kernel runs. Returns 0 or -ENOMEM. */
static inline int
xk_am_set_endpoint(struct xk_protocol *am, uint16_t name, const struct xk_am_endpoint *endpoint)
{
	struct xk_am_registration registration = { .name = name, .number = XK_AM_HANDLERS, .endpoint = *endpoint };

	return xk_control_protocol(am, XK_AM_REGISTER, &registration);
}

/* Sets the tag that a session shows. Before its first push. Returns 0. */
static inline int
xk_am_set_tag(struct xk_session *s, uint64_t tag)
{
	return xk_control(s, XK_AM_SET_TAG, &tag);
}

/*
 * Sends the request `push` to the peer of s. m has its bytes (NULL: none); those of a store are in place before the
 * handler runs. Takes m. Returns as xk_push: 0 (it will be answered or returned); -ENOBUFS: too many requests are
 * queued, or no buffer is left; -EMSGSIZE; -EINVAL.
 */
static inline int
xk_am_request(struct xk_session *s, const struct xk_am_push *push, struct xk_msg *m)
{
	if (m == NULL && (m = xk_msg_new(xk_platform_of(s->protocol), 0)) == NULL)
		return -ENOBUFS;
	xk_msg_annotate(m, XK_OF_PUSH, XK_AM_PUSH, (uintptr_t)push);
	return xk_push(s, m);
}

#endif
