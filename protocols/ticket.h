/*
 * ticket.h - whose copy of a message is kept? A protocol that sends persistently (BLAST) keeps what it was given until
 * nobody can ask for it again. Who pushed it often knows sooner that it has arrived: a reply has come. A ticket is put on
 * the message and filled in by whoever keeps a copy, so that the two need not know each other, nor what is between them.
 * (O'Malley's and Peterson's protocols for Sprite RPC found BLAST through the layers: action at a distance.)
 *
 * It also says whether the push may wait for room to keep a copy. Who sends again by itself in any case, and is not the
 * caller's own shepherd but one that a message has brought, must not: others' messages would wait behind it.
 *
 * `again` tells the keeper that the message was pushed before. The keeper retransmits too, and limits both together.
 *
 *     struct xk_ticket ticket = { .keeper = NULL };
 *     xk_ticket_put(m, &ticket);
 *     xk_push(s, m);
 *     ...
 *     xk_ticket_release(&ticket);
 */
#ifndef XK_TICKET_H
#define XK_TICKET_H

#include "protocols/control.h"

#define XK_TICKET XK_KIND('t', 'i', 'c', 'k') /* an annotation of a push: the address of a struct xk_ticket */

/* Belongs to the protocol that pushes; written only during that push. */
struct xk_ticket {
	struct xk_session *keeper; /* keeps a copy; the ticket has a reference on it. NULL: nobody does */
	uint64_t number;           /* of the copy, there */
	uint64_t keeps_us;         /* how long the keeper goes on trying by itself, about; 0: it does not */
	bool no_wait;              /* if there is no room for a copy, replace another one or keep none */
	bool again;                /* a retransmission: the same bytes were pushed before */
};

/* m, which is about to be pushed, bears the ticket (which outlives the push) until somebody takes it. */
static inline void
xk_ticket_put(struct xk_msg *m, struct xk_ticket *ticket)
{
	xk_msg_annotate(m, XK_OF_PUSH, XK_TICKET, (uintptr_t)ticket);
}

/* For who keeps a copy: the ticket of m, which it bears no more; NULL: nobody wants to know. */
static inline struct xk_ticket *
xk_ticket_take(struct xk_msg *m)
{
	const uint64_t *ticket = xk_msg_annotation(m, XK_OF_PUSH, XK_TICKET);

	if (ticket == NULL)
		return NULL;
	xk_msg_unannotate(m, XK_OF_PUSH);
	return (struct xk_ticket *)(uintptr_t)*ticket;
}

/* For who keeps a copy, in its push: fills in the ticket, with a reference on s. */
static inline void
xk_ticket_fill(struct xk_ticket *ticket, struct xk_session *s, uint64_t number, uint64_t keeps_us)
{
	*ticket = (struct xk_ticket){ xk_duplicate(s) ? s : NULL, number, keeps_us, ticket->no_wait, ticket->again };
}

/* The message has arrived, or is of no interest any more: the copy is freed, and the ticket is empty. Any shepherd. */
static inline void
xk_ticket_release(struct xk_ticket *ticket)
{
	struct xk_session *keeper = ticket->keeper;

	if (keeper == NULL)
		return;
	ticket->keeper = NULL;
	xk_control(keeper, XK_RELEASE, &ticket->number, sizeof(ticket->number));
	xk_session_release(keeper);
}

#endif
