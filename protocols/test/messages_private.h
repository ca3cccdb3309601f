/*
 * messages_private.h - the client of icmptest and blasttest, whose messages are answered one by one.
 *
 * A run sends `count` messages, numbered from 0, and ends when each is answered or, after its time-out, lost. If the
 * run has an interval, an event sends, in the driver if possible. Otherwise the client's own shepherd sends as the
 * window allows, and waits in pushes. A shepherd opens the session in either case.
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
	bool pushing; /* the push still uses the ticket */
};

/* The part of a test protocol. */
struct messages_kind {
	unsigned slots;    /* messages remembered */
	bool has_interval; /* in all runs; constant, because an event may fire after its run, without the lock */
	bool has_tickets;  /* on its messages */
	unsigned counters; /* the first of four in a row: sent, answered, lost, unsent */
	/* Returns message `number`, of t->run.len bytes, or NULL: no buffer. Called without the lock. */
	struct xk_msg *(*message)(struct messages *t, uint64_t number);
	/* Called when message `number` is lost or (not sent) refused below. The lock is held. May be NULL. */
	void (*missed)(struct messages *t, uint64_t number, bool sent);
	/* Called when the run is over. The lock is held. */
	void (*finished)(struct messages *t, int err);
};

struct messages_run {
	uint32_t host, len;   /* len: bytes of a pushed message */
	uint64_t count;       /* UINT64_MAX: until messages_stop */
	uint64_t window;      /* unanswered messages, 1 to the kind's slots */
	uint64_t interval_ns; /* from one message to the next; 0: as the window allows */
	uint64_t timeout_ns;
};

/* A test protocol. Its struct begins with this. */
struct messages {
	struct xk_protocol protocol;
	/* settings */
	uint32_t to; /* 0: runs are started by a program */
	uint64_t count, size, timeout_ns, start_ns;

	const struct messages_kind *kind;
	struct xk_event event;       /* begins the run; at an interval, sends */
	struct xk_semaphore answers; /* wakes the client's shepherd, if there is no interval */
	struct xk_session *session;  /* for the thread that is busy; NULL: not open */
	struct xk_lock lock;         /* protects what follows */
	bool running, stopping;
	bool busy;        /* a thread sends, opens the session or ends the run */
	bool tried;       /* to open the session for the message that is due */
	uint64_t next_ns; /* when the next message is due */
	struct messages_run run;
	/* after the run: sent = answered + lost; unsent ones count as sent and lost */
	uint64_t sent, answered, lost, unsent;
	uint64_t oldest; /* unanswered message, or else the next one to send */
	struct client_trips trips;
	struct messages_slot *slots; /* by number modulo kind->slots */
};

/* Initializes t. Returns 0 or -ENOMEM; messages_fini is due only after 0. */
int messages_init(struct messages *t, const struct messages_kind *kind);
void messages_fini(struct messages *t);

/* Begins a run after delay_ns. Any thread, also before the kernel runs; the lock is held. Returns 0 or -EBUSY. */
int messages_begin(struct messages *t, const struct messages_run *run, uint64_t delay_ns);

/* Sends no more: the run ends when all messages are answered or lost. Any thread; never waits. */
void messages_stop(struct messages *t);

/*
 * Finds the youngest message whose number equals `low` under mask. Returns its slot and stores its whole number, or
 * returns NULL: no such message is remembered. The lock is held.
 */
struct messages_slot *messages_find(struct messages *t, uint32_t low, uint32_t mask, uint64_t *number);

/* Counts the answer to the message of slot, which is MESSAGES_WAITING. The lock is held. */
void messages_answer(struct messages *t, struct messages_slot *slot, uint64_t rtt_ns);

/* Takes the ticket of an answered or lost message, for release without the lock. The lock is held. */
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
 * Fills m from byte `begin` on with the sequence that salt selects, from its element i on. The sequence has no period,
 * so that misplaced pieces of a message are detected.
 */
void messages_fill(struct xk_msg *m, uint32_t begin, uint32_t i, uint8_t salt);
/* Returns whether m is filled like that. */
bool messages_is_filled(const struct xk_msg *m, uint32_t begin, uint32_t i, uint8_t salt);

#endif
