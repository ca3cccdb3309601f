/*
 * later.h - messages that go on later: a bounded store for virtual protocols (virtual.h) that delay or reorder.
 *
 * A message that waits holds its session, as a parked shepherd would: closed meanwhile, the session goes with the
 * last message. When its time has come, an event's shepherd carries it on, in the direction in which it was going.
 * Upward that is xk_pop with a hdr that is not NULL: the session's pop hands such a message to the protocol above
 * without delay.
 */
#ifndef XK_LATER_H
#define XK_LATER_H

#include "xkernel/virtual.h"

struct xk_later_message;

struct xk_later {
	struct xk_protocol *owner;
	struct xk_lock lock; /* over what changes */
	uint64_t max, count;
	struct xk_later_message *first[XK_WAYS], **last[XK_WAYS];
	bool ordered;
	unsigned full, unsent;
};

/*
 * At most max messages wait; another is dropped for the reason `full`. ordered: none overtakes another of its
 * direction: when one is due, the first of those that wait goes. Failed pushes of what has waited, which nobody else
 * hears of, are counted as the owner's counter `unsent`. For init.
 */
void xk_later_init(struct xk_later *later, struct xk_protocol *owner, uint64_t max, bool ordered, unsigned full,
		   unsigned unsent);

/* Frees what still waits, and lets go of its sessions. For fini, before xk_virtual_fini. */
void xk_later_fini(struct xk_later *later);

/*
 * m, which is passing through s, goes on after delay_ns (rounded up to microseconds). Takes m, also on failure. From
 * push or pop of s; may hand off. 0; -ENOBUFS: it was dropped, by name.
 */
int xk_later_hold(struct xk_later *later, struct xk_session *s, struct xk_msg *m, enum xk_way way, uint64_t delay_ns);

#endif
