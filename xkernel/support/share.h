/*
 * share.h - shares of what a protocol keeps for other hosts: buffers of incomplete and unacknowledged messages, or
 * sessions. A buffer counts as one, however few bytes it holds. Shares form a tree: those of hosts, and perhaps of
 * their networks, lie within the share of all. A protocol that has no more room has two choices:
 *
 * - It refuses the newcomer (xk_share_take). A holder with `leaves` gets at most its limit, and at most as much as then
 *   remains for all others: one holder leaves at least half, and no number of holders takes all (dynamic thresholds:
 *   Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998). In the same way, all of a protocol's buffers together leave buffers
 *   to other protocols (xk_keep, in services.h).
 * - It takes from the holder that has the most (xk_share_loser). A holder with at most an equal share loses nothing.
 *
 * Neither suits state that any frame can create and whose sender may be forged (fragments): there, drop the oldest.
 *
 *	xk_shares_init(&gm->shares, self, XK_SHARES_OF_BUFFERS, buffers of all hosts);
 *	s->share = xk_shares_join(&gm->shares, &host, 1);	in a session's setup
 *	if (!xk_share_take(s->share, xk_msg_buffers(m)))	before m is stored
 *		xk_drop(self, m, GM_NO_ROOM);
 *	xk_share_give(s->share, xk_msg_buffers(m));		after it was stored
 *	xk_shares_leave(&gm->shares, s->share);			when the session ends
 */
#ifndef XK_SHARE_H
#define XK_SHARE_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "xkernel/map.h"
#include "xkernel/protocol.h"

/* What a session takes of a share in advance (struct xk_share_lot). It keeps less than twice as much. */
enum { XK_SHARE_ADVANCE = 16 };

LIST_HEAD(xk_share_list, xk_share);

/* The holding of one holder, or of all together. */
struct xk_share {
	struct xk_share *of;        /* the share that contains this one; NULL: none, it is the outermost */
	struct xk_protocol *keeper; /* of the outermost: xk_kept counts instead of `held`; NULL: `held` counts */
	uint32_t max;               /* and xk_keep_limit, if there is a keeper */
	bool leaves;                /* holds at most as much as remains of the outermost */
	_Atomic uint32_t held;
	_Atomic uint32_t parts; /* number of shares within */
	/* for xk_share_loser only */
	LIST_ENTRY(xk_share) beside;
	struct xk_share_list within;
	struct xk_share *most; /* of those within, the one that held the most, which was most_was; NULL: unknown */
	uint32_t most_was;
};

/* Returns the number of buffers of the usual size that `bytes` fill. */
static inline uint32_t
xk_share_buffers(uint64_t bytes)
{
	return bytes / XK_MSG_SEGMENT < UINT32_MAX / 2 ? (uint32_t)(bytes / XK_MSG_SEGMENT) : UINT32_MAX / 2;
}

static inline uint32_t
xk_share_held(const struct xk_share *share)
{
	return atomic_load_explicit(&share->held, memory_order_relaxed);
}

/* Gives back `count` of share. Any context. */
void xk_share_give(struct xk_share *share, uint32_t count);

/*
 * Takes `count`, or nothing if a limit is exceeded, even if only for a moment because others are trying to take more.
 * Returns whether it was taken. Any context.
 */
bool xk_share_take(struct xk_share *share, uint32_t count);

/* Returns whether share, with `count` more, has more than an equal part of what the one around it may hold. Any context. */
bool xk_share_exceeds(const struct xk_share *share, uint32_t count);

/* ---- what a session takes and gives back all the time ---- */

/*
 * A session's part of a share. Once the session holds something, it takes some more in advance, if there is plenty, so
 * that most calls change nothing that others use. A session that holds nothing has nothing in advance. The session's
 * lock protects it.
 */
struct xk_share_lot {
	struct xk_share *share;
	uint32_t held, spare; /* of what was taken: in use, and in advance */
};

/* The slow halves of those below. Not for callers. */
bool xk_share_lot_refill(struct xk_share_lot *lot, uint32_t count);
void xk_share_lot_return(struct xk_share_lot *lot);

/* As xk_share_take. */
static inline bool
xk_share_lot_take(struct xk_share_lot *lot, uint32_t count)
{
	if (xk_unlikely(count > lot->spare) && !xk_share_lot_refill(lot, count))
		return false;
	lot->spare -= count;
	lot->held += count;
	return true;
}

/* As xk_share_give. */
static inline void
xk_share_lot_give(struct xk_share_lot *lot, uint32_t count)
{
	lot->held -= count;
	lot->spare += count;
	if (lot->held == 0 || lot->spare >= 2 * XK_SHARE_ADVANCE)
		xk_share_lot_return(lot);
}

/* ---- who makes room; the protocol serializes these, with xk_share_take, xk_shares_join and xk_shares_leave ---- */

/* Adds share, which the caller has filled in, to the shares within `of`. */
void xk_share_enter(struct xk_share *share);

/* Removes share from there. Nothing may be within it any more. */
void xk_share_exit(struct xk_share *share);

/*
 * Returns the share that must give something back before `share` takes `count`. At each level, from the outermost
 * inwards, that is the holder with the most (or up to an eighth less), if that is more than the newcomer would have;
 * else the newcomer. The result may be `share` itself, even if it holds nothing.
 */
struct xk_share *xk_share_loser(struct xk_share *share, uint32_t count);

/* ---- shares by address ---- */

/* What is shared, and what a protocol does without room: see the choices above. */
enum xk_shares_of {
	XK_SHARES_OF_BUFFERS, /* kept by the protocol (xk_keep); a holder leaves at least half */
	XK_SHARES_OF_PLACES,  /* of anything else; a holder leaves at least half */
	XK_SHARES_TAKEN,      /* of anything else; holders lose some to others (xk_share_loser) */
};

struct xk_shares {
	struct xk_share all;
	enum xk_shares_of what;
	struct xk_lock lock;
	struct xk_map holders; /* under the lock */
};

/* Initializes shares of at most `max` in all. Returns 0 or -ENOMEM. Main thread. */
int xk_shares_init(struct xk_shares *shares, struct xk_protocol *self, enum xk_shares_of what, uint32_t max);

/* Frees all shares, which must not be in use any more. */
void xk_shares_fini(struct xk_shares *shares);

/*
 * Returns the share of the last of `count` addresses, with a reference; NULL: no memory. It lies within the share of
 * the address before, and so on: equal addresses must follow equal addresses. Any shepherd.
 */
struct xk_share *xk_shares_join(struct xk_shares *shares, const struct xk_key *addresses, unsigned count);

/* As a protocol's promise (upi.h): at rest, everything taken was given back. */
const char *xk_shares_promise(const struct xk_shares *shares, bool at_rest);

/* Releases a reference on share, after everything taken with it was given back. Ignores NULL. Any shepherd. */
void xk_shares_leave(struct xk_shares *shares, struct xk_share *share);

#endif
