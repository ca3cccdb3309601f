/*
 * ticket.h - names the protocol that keeps a copy, for the pusher of the message. A protocol that sends persistently
 * (BLAST) keeps a copy until no retransmission can be needed. The pushing protocol often learns earlier, by a reply,
 * that the message has arrived. So it puts a ticket on the message, and the keeper fills it in; neither knows the
 * other, nor the layers in between. (O'Malley's and Peterson's protocols for Sprite RPC found BLAST through the layers:
 * action at a distance.)
 *
 * A ticket also specifies whether the push may wait for room to keep a copy. A protocol that retransmits in the
 * shepherd of an arriving message must not wait: other messages would queue behind it. `again` marks a message that was
 * pushed before, so that one limit counts the keeper's own retransmissions and these.
 *
 *     struct xk_ticket ticket = { .keeper = NULL };
 *     xk_ticket_put(m, &ticket);
 *     xk_push(s, m);
 *     ...
 *     xk_ticket_release(&ticket);
 */
#ifndef XK_TICKET_H
#define XK_TICKET_H

#include "xkernel/upi.h"

#define XK_TICKET XK_KIND('t', 'i', 'c', 'k') /* an annotation of a push: the address of a struct xk_ticket */

/* A ticket. Belongs to the protocol that pushes; the keeper writes it, only during that push. */
struct xk_ticket {
	struct xk_session *keeper; /* of a copy, referenced by the ticket; NULL: none */
	uint64_t number;           /* the keeper's number of the copy */
	uint64_t keeps_us;         /* roughly how long the keeper retransmits by itself; 0: not at all */
	bool no_wait;              /* if there is no room for a copy, replace another or keep none */
	bool again;                /* a retransmission: the same bytes were pushed before */
};

/* The keeper, session: the number of a copy that need not be kept. */
XK_CONTROL_OP(XK_RELEASE, 100, const uint64_t);

/* Puts the ticket on m, for the next push, which the ticket must outlive. */
static inline void
xk_ticket_put(struct xk_msg *m, struct xk_ticket *ticket)
{
	xk_msg_annotate(m, XK_OF_PUSH, XK_TICKET, (uintptr_t)ticket);
}

/* Takes the ticket off m, or returns NULL if there is none. For the keeper. */
static inline struct xk_ticket *
xk_ticket_take(struct xk_msg *m)
{
	const uint64_t *ticket = xk_msg_annotation(m, XK_OF_PUSH, XK_TICKET);

	if (ticket == NULL)
		return NULL;
	xk_msg_unannotate(m, XK_OF_PUSH);
	return (struct xk_ticket *)(uintptr_t)*ticket;
}

/* Fills in the ticket, with a reference on s. For the keeper, in its push. */
static inline void
xk_ticket_fill(struct xk_ticket *ticket, struct xk_session *s, uint64_t number, uint64_t keeps_us)
{
	*ticket = (struct xk_ticket){ xk_duplicate(s) ? s : NULL, number, keeps_us, ticket->no_wait, ticket->again };
}

/* Frees the copy, because the message has arrived or does not matter any more, and empties the ticket. Any shepherd. */
static inline void
xk_ticket_release(struct xk_ticket *ticket)
{
	struct xk_session *keeper = ticket->keeper;

	if (keeper == NULL)
		return;
	ticket->keeper = NULL;
	xk_control(keeper, XK_RELEASE, &ticket->number);
	xk_session_release(keeper);
}

#endif
