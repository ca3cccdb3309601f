/*
 * budget.h - a peer's budget of retransmissions: three times the bytes sent to it for the first time. A peer that does
 * not answer, or repeats its requests, draws no more traffic than that.
 *
 *	xk_budget_note(&s->budget, len);	a message is sent for the first time
 *	if (xk_budget_take(&s->budget, len, 0))	may it be sent again?
 *
 * A budget that outlives conversations is renewed each minute (xk_budget_turn).
 */
#ifndef XK_BUDGET_H
#define XK_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	XK_BUDGET_TIMES = 3,
	XK_BUDGET_HEADERS = 58, /* bytes that the headers of ETH, IP and BID add to each message */
};

#define XK_BUDGET_MINUTE_NS UINT64_C(60000000000)

struct xk_budget {
	_Atomic uint64_t first; /* bytes sent for the first time */
	/* bytes sent again; the current minute's beginning, and `first` at that time. The user serialises changes. */
	uint64_t again, minute_ns, first_before;
};

/*
 * Adds a message of len bytes that is sent for the first time. Any context. Concurrent additions may be lost, which
 * only makes the budget smaller.
 */
static inline void
xk_budget_note(struct xk_budget *budget, uint64_t len)
{
	uint64_t first = atomic_load_explicit(&budget->first, memory_order_relaxed);

	atomic_store_explicit(&budget->first, first + len + XK_BUDGET_HEADERS, memory_order_relaxed);
}

/* Begins a new minute at now_ns if the last one is over; the message of len bytes at hand counts as sent in the new. */
static inline void
xk_budget_turn(struct xk_budget *budget, uint64_t len, uint64_t now_ns)
{
	uint64_t first = atomic_load_explicit(&budget->first, memory_order_relaxed);

	if (now_ns - budget->minute_ns < XK_BUDGET_MINUTE_NS)
		return;
	len += XK_BUDGET_HEADERS;
	budget->minute_ns = now_ns;
	budget->first_before = first - (len < first ? len : first);
	budget->again = 0;
}

/*
 * Charges the repetition of a message of len bytes. Returns false, and charges nothing, if the budget does not suffice
 * for it and `spare` more like it: the message must not be sent.
 */
static inline bool
xk_budget_take(struct xk_budget *budget, uint64_t len, unsigned spare)
{
	uint64_t first = atomic_load_explicit(&budget->first, memory_order_relaxed);

	len += XK_BUDGET_HEADERS;
	if (budget->again + (1 + spare) * len > XK_BUDGET_TIMES * (first - budget->first_before))
		return false;
	budget->again += len;
	return true;
}

#endif
