/* bid_private.h - BID's header and session, and what paths to its sessions do (protocols/paths.c). */
#ifndef XK_BID_PRIVATE_H
#define XK_BID_PRIVATE_H

#include "protocols/bid/bidctl.h"
#include "xkernel/bytes.h"
#include "xkernel/upi.h"

#define BID_HEADER(F)                                                                                                  \
	F(32, protocol, .kind = XK_NAMES_SESSION, .is_upper = true, .help = "above")                                   \
	F(32, source_host, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HOST)                                           \
	F(64, source_boot, .kind = XK_FIXED, .is_own = true, .print = XK_PRINT_HEX, .help = "confirmed by BIDCTL")     \
	F(64, destination_boot, .kind = XK_FIXED, .print = XK_PRINT_HEX, .help = "0: not known")
XK_HEADER(bid, BID_HEADER);

struct bid_session {
	struct xk_session session; /* first */
	uint64_t own;              /* this boot's id, as the peer knows it; 0: BIDCTL refused the host */
	_Atomic uint64_t peer;     /* the peer's boot; 0: unknown */
	/* The session below that brought the latest good message; NULL: none. A reference, unless it is lls. */
	_Atomic(struct xk_session *) origin;
	_Atomic uint64_t moves; /* number of changes of `origin` */
	uint32_t host, own_host;
	bool passive;
	struct xk_lock lock; /* protects `closed` and changes of `origin` */
	bool closed;
};

static inline uint64_t
bid_peer(const struct bid_session *s)
{
	return atomic_load_explicit(&s->peer, memory_order_relaxed);
}

/* An xk_path_pop: `moves` is bid_path_state's (bid.c). */
static inline bool
bid_path_pop(struct xk_session *session, struct xk_msg *m, const uint8_t *p, uint64_t moves)
{
	const struct bid_session *s = (const struct bid_session *)session;
	uint64_t boot = XK_GET(bid, source_boot, p);

	if (xk_unlikely(boot != bid_peer(s) || boot == 0 ||
			moves != atomic_load_explicit(&s->moves, memory_order_relaxed)))
		return false;
	xk_msg_annotate(m, XK_OF_MESSAGE, XK_FROM_BOOT, boot);
	return true;
}

/* An xk_path_push. */
static inline bool
bid_path_push(struct xk_session *session, struct xk_msg *m, uint8_t *p)
{
	const struct bid_session *s = (const struct bid_session *)session;
	const uint64_t *only = xk_msg_annotation(m, XK_OF_MESSAGE, XK_FOR_BOOT);
	uint64_t peer = bid_peer(s);

	if (xk_unlikely(peer == 0 || xk_msg_len(m) == 0 || (only != NULL && *only != peer) ||
			xk_session_marked(session)))
		return false;
	XK_PUT(bid, destination_boot, p, peer);
	return true;
}

#endif
