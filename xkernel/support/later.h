/*
 * later.h - a bounded store of delayed messages, for virtual protocols (virtual.h) that delay or reorder.
 *
 * A waiting message holds its session, as a parked shepherd would: a session closed meanwhile is freed with its last
 * message. After the delay, an event's shepherd carries the message on in its direction; upward by xk_pop with a hdr
 * that is not NULL: the session's pop must pass that on without delay.
 */
#ifndef XK_LATER_H
#define XK_LATER_H

#include "xkernel/support/virtual.h"

struct xk_later_message;

struct xk_later {
	struct xk_protocol *owner;
	struct xk_lock lock; /* protects the fields below */
	uint64_t max, count;
	struct xk_later_message *first[XK_DIRECTIONS], **last[XK_DIRECTIONS];
	bool ordered;
	unsigned full, unsent;
};

/*
 * Initializes a store of at most max messages; others are dropped for the reason `full`. ordered: whenever a message is
 * due, the oldest of its direction goes on instead. Failed pushes of delayed messages, which no caller sees, are
 * counted as the owner's counter `unsent`. For init.
 */
void xk_later_init(struct xk_later *later, struct xk_protocol *owner, uint64_t max, bool ordered, unsigned full,
		   unsigned unsent);

/* Frees the waiting messages and releases their sessions. For fini. */
void xk_later_fini(struct xk_later *later);

/*
 * Delays m, which is passing through s, by delay_ns, rounded up to microseconds; overtakers: but only until so many
 * others have passed (xk_later_passed), 0: however many. Takes m, also on failure. From push or pop of s; may hand off.
 * Returns 0, or -ENOBUFS: m was dropped.
 */
int xk_later_hold(struct xk_later *later, struct xk_session *s, struct xk_msg *m, enum xk_direction direction,
		  uint64_t delay_ns, uint64_t overtakers);

/* Another message has passed in this direction: carries on those that were to be overtaken by no more. */
void xk_later_passed(struct xk_later *later, enum xk_direction direction);

#endif
