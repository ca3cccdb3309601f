/*
 * budget.h - a peer's budget of retransmissions: three times the bytes sent to it for the first time. A peer that does
 * not answer, or repeats its requests, draws no more traffic than that.
 *
 *	xk_budget_note(&s->budget, len);		a message is sent for the first time
 *	if (xk_budget_take(&s->budget, len, true))	may it be sent again?
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
	_Atomic uint64_t first;                   /* bytes sent for the first time */
	_Atomic uint64_t again;                   /* bytes sent again, in this minute ... */
	_Atomic uint64_t minute_ns, first_before; /* ... which began then, and `first` at that time */
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

/*
 * Begins a new minute at now_ns if the last one is over; the message of len bytes at hand counts as sent in the new.
 * Any context.
 */
static inline void
xk_budget_turn(struct xk_budget *budget, uint64_t len, uint64_t now_ns)
{
	uint64_t first = atomic_load_explicit(&budget->first, memory_order_relaxed);
	uint64_t begun_ns = atomic_load_explicit(&budget->minute_ns, memory_order_relaxed);

	if ((int64_t)(now_ns - begun_ns) < (int64_t)XK_BUDGET_MINUTE_NS ||
	    !atomic_compare_exchange_strong(&budget->minute_ns, &begun_ns, now_ns))
		return;
	len += XK_BUDGET_HEADERS;
	atomic_store_explicit(&budget->first_before, first - (len < first ? len : first), memory_order_relaxed);
	atomic_store_explicit(&budget->again, 0, memory_order_relaxed);
}

/*
 * Charges the repetition of a message of len bytes. Returns false, and charges nothing, if the budget does not suffice:
 * the message must not be sent. Unless it is_late, the budget must suffice for one more like it, so that a short
 * silence does not use up the last repetition. Any context.
 */
static inline bool
xk_budget_take(struct xk_budget *budget, uint64_t len, bool is_late)
{
	uint64_t first = atomic_load_explicit(&budget->first, memory_order_relaxed);
	uint64_t before = atomic_load_explicit(&budget->first_before, memory_order_relaxed);
	uint64_t again = atomic_load_explicit(&budget->again, memory_order_relaxed);

	len += XK_BUDGET_HEADERS;
	do
		if (again + (is_late ? 1 : 2) * len > XK_BUDGET_TIMES * (first - before))
			return false;
	while (!atomic_compare_exchange_weak(&budget->again, &again, again + len));
	return true;
}

#endif
