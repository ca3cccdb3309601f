/*
 * bid_private.h - the state of BID, shared by bid.c (messages) and bid_session.c (sessions, and what BIDCTL tells).
 */
#ifndef XK_BID_PRIVATE_H
#define XK_BID_PRIVATE_H

#include "protocols/bid/bidctl.h"
#include "xkernel/protocol.h"

enum bid_drop {
	BID_BAD_BOOT = XK_DROP_OWN,
	BID_BAD_HOST,
	BID_OLD_DESTINATION,
	BID_UNCONFIRMED,
	BID_EMPTY,
	BID_UNKNOWN_PEER,
	BID_OVER,
	BID_ELSEWHERE,
};

enum bid_counter { BID_ANSWERS, BID_LIMITED, BID_MOVED, BID_TOLD };

enum { BID_TRANSPORT, BID_BIDCTL };

enum { BID_UPPERS = 16, BID_ANSWERED = 256 };

enum { BID_FLOW = 0, BID_SOURCE = 8, BID_DESTINATION = 16, BID_HEADER_LEN = 24 };

/* A flow is what messages bear, and the key: the number of the protocol above, and the source host. */
static inline uint64_t
bid_flow(uint32_t number, uint32_t host)
{
	return (uint64_t)number << 32 | host;
}

static inline uint32_t
bid_number(uint64_t flow)
{
	return (uint32_t)(flow >> 32);
}

static inline uint32_t
bid_host(uint64_t flow)
{
	return (uint32_t)flow;
}

static inline struct xk_key
bid_key(uint64_t flow)
{
	return (struct xk_key){ flow, 0 };
}

/* Whether it may be a single host's address. */
static inline bool
bid_is_host(uint64_t host)
{
	return host - (UINT64_C(1) << 24) < UINT64_C(0xe0000000) - (UINT64_C(1) << 24);
}

struct bid {
	struct xk_protocol protocol; /* first */
	uint64_t interval_ns;        /* setting */

	struct xk_bidctl_watcher watcher;
	uint64_t seed;                      /* of where a host's limit is */
	struct xk_lock lock;                /* over changes of what follows */
	uint32_t uppers[BID_UPPERS];        /* numbers of the protocols above that have had sessions */
	_Atomic unsigned upper_count;       /* does not shrink */
	uint64_t answered_ns[BID_ANSWERED]; /* when, and 1; 0: never. Hosts that share a place share the limit */
};

struct bid_session {
	struct xk_session session; /* first */
	uint64_t flow;             /* in what arrives */
	uint64_t own;              /* this boot's id, as the peer knows it */
	_Atomic uint64_t peer;     /* the peer's boot; 0: not known */
	/*
	 * Brought the latest good message, from where the host has answered; NULL: none. It is referenced unless it is
	 * lls.
	 */
	_Atomic(struct xk_session *) heard;
	uint8_t header[BID_DESTINATION]; /* as it is sent; the destination follows */
	uint32_t own_host;
	bool passive, used;
	struct xk_lock lock; /* over changes of heard, and what follows */
	bool closed;
};

static inline struct xk_protocol *
bid_bidctl(const struct xk_protocol *self)
{
	return xk_lower(self, BID_BIDCTL);
}

static inline uint64_t
bid_peer(const struct bid_session *s)
{
	return atomic_load_explicit(&s->peer, memory_order_relaxed);
}

static inline struct xk_session *
bid_heard(const struct bid_session *s)
{
	return atomic_load_explicit(&s->heard, memory_order_acquire);
}

/* ---- bid_session.c: shepherds, which hold no lock ---- */

/* BIDCTL tells of a change; a watcher's. */
void bid_changed(const struct xk_bidctl_watcher *watcher, enum xk_bidctl_change change,
		 const struct xk_bidctl_peer *peer);

/*
 * Checks whether a message of the session's host that bears this boot id may go up: BIDCTL must confirm now that this
 * is the boot that all watchers were told of, and that the host is where lls (NULL: do not check) has brought the
 * message from. Returns 0, or the reason to drop the message. Never waits.
 */
unsigned bid_confirm(struct bid_session *s, uint64_t boot, struct xk_session *lls);

/*
 * Sets *session, which is that of flow or (NULL) a stranger's, to be made, for a message of this boot that a new session
 * below has brought. It is valid as long as what a map resolves. 0, or the reason to drop the message. Never waits.
 */
unsigned bid_find(struct xk_protocol *self, struct xk_session *lls, uint64_t flow, uint64_t boot,
		  struct bid_session **session);

/* As struct xk_protocol_ops and xk_session_ops say. bid_open may wait. */
int bid_setup(struct xk_session *session, const void *how);
void bid_close(struct xk_session *session);
int bid_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	     struct xk_participants *participants, struct xk_session **session);

#endif
