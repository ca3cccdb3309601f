/*
 * messages_private.h - the client of messages that are answered one by one, for icmptest and blasttest.
 *
 * A run is `count` messages, numbered from 0. A message is answered, or lost after its time-out; the run is over when
 * each of them is one or the other. At an interval an event sends, in the driver if it can; as a window allows, a
 * shepherd of the client's own does, because a push may wait. Opening the session is a shepherd's in either case.
 */
#ifndef XK_MESSAGES_PRIVATE_H
#define XK_MESSAGES_PRIVATE_H

#include "protocols/test/client_private.h"
#include "protocols/ticket.h"

struct messages;

enum messages_state { MESSAGES_WAITING, MESSAGES_ANSWERED, MESSAGES_LOST };

/* A message that was sent. */
struct messages_slot {
	struct xk_ticket ticket;
	uint64_t sent_ns;
	enum messages_state state;
	bool pushing; /* the ticket is the push's */
};

/* What a test protocol adds. */
struct messages_kind {
	unsigned slots;    /* messages that are remembered */
	bool has_interval; /* an event sends at the run's interval; otherwise a shepherd does, as the window allows */
	bool has_tickets;  /* on its messages */
	unsigned counters; /* the first of four that follow one another: sent, answered, lost, unsent */
	/* Returns message `number`, of t->run.len bytes, or NULL: no buffer. The lock is not held. */
	struct xk_msg *(*message)(struct messages *t, uint64_t number);
	/* Message `number` is lost or, if not `sent`, refused by the protocols below. The lock is held. May be NULL. */
	void (*missed)(struct messages *t, uint64_t number, bool sent);
	/* The run is over. The lock is held. */
	void (*finished)(struct messages *t, int err);
};

struct messages_run {
	uint32_t host, len;   /* len: bytes of what is pushed */
	uint64_t count;       /* UINT64_MAX: until messages_stop */
	uint64_t window;      /* messages under way, 1 to the kind's slots */
	uint64_t interval_ns; /* from one message to the next */
	uint64_t timeout_ns;
};

/* A test protocol; its struct begins with one. */
struct messages {
	struct xk_protocol protocol;
	/* settings */
	uint32_t to; /* 0: a program starts the runs */
	uint64_t count, size, timeout_ns, start_ns;

	const struct messages_kind *kind;
	struct xk_event event;       /* begins the run; at an interval, sends */
	struct xk_semaphore answers; /* without an interval, wakes the client's shepherd */
	struct xk_session *session;  /* of whoever is busy; NULL: not open */
	struct xk_lock lock;         /* over what follows */
	bool running, stopping;
	bool busy;        /* somebody sends, opens the session or ends the run */
	bool tried;       /* to open the session, for the message that is due */
	uint64_t next_ns; /* when the next message is due */
	struct messages_run run;
	/* sent = answered + lost when the run is over; the unsent are sent, and lost */
	uint64_t sent, answered, lost, unsent;
	uint64_t oldest; /* message that waits, or if none does the next one to send */
	struct client_trips trips;
	struct messages_slot *slots; /* by number modulo kind->slots */
};

/* Prepares t; messages_fini is due unless this fails. Returns 0 or -ENOMEM. */
int messages_init(struct messages *t, const struct messages_kind *kind);
void messages_fini(struct messages *t);

/*
 * Begins a run after delay_ns. Any thread, also before the kernel runs; the lock is held, so that callers prepare
 * what is theirs. Returns 0, or -EBUSY: a run is under way.
 */
int messages_begin(struct messages *t, const struct messages_run *run, uint64_t delay_ns);

/* Ends the run when all that was sent is answered or lost. Any thread; never waits. */
void messages_stop(struct messages *t);

/*
 * Finds the youngest message whose number ends in `low`, as far as mask shows it. Returns its slot and stores its whole
 * number, or returns NULL: no such message is remembered. The lock is held.
 */
struct messages_slot *messages_find(struct messages *t, uint32_t low, uint32_t mask, uint64_t *number);

/* Counts the answer to the message of slot, which waits. The lock is held. */
void messages_answer(struct messages *t, struct messages_slot *slot, uint64_t rtt_ns);

/* Takes the ticket of a message that is answered or lost, to be released without the lock. The lock is held. */
static inline struct xk_ticket
messages_ticket(struct messages_slot *slot)
{
	struct xk_ticket ticket = { .keeper = NULL };

	if (!slot->pushing) {
		ticket = slot->ticket;
		slot->ticket.keeper = NULL;
	}
	return ticket;
}

/*
 * Fills m from byte `begin` on with a sequence from its place i on. The sequence has no period, so that a piece of a
 * message in the wrong place is seen; another salt makes another sequence.
 */
void messages_fill(struct xk_msg *m, uint32_t begin, uint32_t i, uint8_t salt);
/* Returns whether m is filled like that. */
bool messages_is_filled(const struct xk_msg *m, uint32_t begin, uint32_t i, uint8_t salt);

#endif
