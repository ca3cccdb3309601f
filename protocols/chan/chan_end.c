/*
 * chan_end.c - the two ends of a channel, as sessions: what both do with a message that may have to be sent again, then
 * the client's states, the server's, and how ends begin and end.
 */
#include "protocols/chan/chan_private.h"
#include "xkernel/trace.h"

enum {
	CHAN_PACKETS = 8,      /* that are sent in half of timeout_min */
	CHAN_UNASKED_MAX = 3,  /* repeats of a message before the timer only asks */
	CHAN_REPEATS_MAX = 8,  /* repeats of a message, by the timer and by questions together */
	CHAN_MEASURE_EACH = 8, /* calls to a measured round trip while the timeout is at its minimum */
};

/* Work left to do after an end's lock is released. */
struct chan_after {
	struct xk_ticket ticket; /* to release */
	enum chan_answer kind;   /* to answer */
	struct xk_msg *m;        /* to send again, or a question to ask; NULL: nothing */
	uint32_t sequence;
	unsigned flags, status; /* of m; flags 0: it must not be sent */
	bool ended;             /* the call is over, with this result */
	struct xk_call *call;
	int result;
	struct xk_msg *reply;
};

/*
 * Returns the positive error number that a caller gets for a handler's status: none that CHAN itself returns, so that a
 * caller can tell a handler's failure from a call that was not run.
 */
static unsigned
chan_status_of_handler(int status)
{
	switch (status) {
	case -ETIMEDOUT:
	case -ECONNRESET:
	case -ECONNREFUSED:
	case -EBUSY:
	case -ECANCELED:
	case -EMSGSIZE:
	case -ENOBUFS:
		return EREMOTEIO;
	default:
		return status < 0 && status >= -CHAN_STATUS_MAX ? (unsigned)-status : EREMOTEIO;
	}
}

/* ---- a message: kept, sent again, timed; the lock is held ---- */

/* Copies m, which stays the caller's, for retransmissions. Returns false if there is no buffer. */
static inline bool
chan_end_copy(struct chan_end *e, struct xk_msg *m)
{
	size_t len = xk_msg_len(m);

	e->copy.len = (uint32_t)len;
	if (xk_unlikely(len > CHAN_SHORT))
		return xk_msg_keep(&e->copy.kept, m);
	/* a constant length needs no call: where the buffer is large enough, bytes after the message are copied, too */
	if (xk_likely(m->next == NULL && m->ceiling - m->data >= CHAN_SHORT))
		memcpy(e->copy.bytes, m->data, CHAN_SHORT);
	else
		xk_msg_copy_first(m, e->copy.bytes, len);
	return true;
}

/* As xk_ticket_release, but on a copy, so that the caller's ticket stays in registers. */
static inline void
chan_end_release(struct xk_ticket *ticket)
{
	if (xk_unlikely(ticket->keeper != NULL)) {
		struct xk_ticket copy = *ticket;

		xk_ticket_release(&copy);
	}
}

/*
 * Drops the copy: the message is not sent again. Moves the ticket to *ticket, for the caller to release without the
 * lock.
 */
static inline void
chan_end_forget(struct chan_end *e, struct xk_ticket *ticket)
{
	e->state = CHAN_IDLE;
	ticket->keeper = NULL;
	if (xk_unlikely(e->copy.kept.buffers != 0)) {
		if (e->is_server)
			xk_share_give(e->peer->saved, e->copy.saved);
		xk_kept_free(&e->copy.kept);
	}
	if (xk_unlikely(e->ticket.keeper != NULL)) {
		*ticket = e->ticket;
		e->ticket.keeper = NULL;
	}
}

/* Starts over for a new message, which has been copied and is about to be sent. */
static inline void
chan_end_is_new(struct chan_end *e, uint64_t now_ns)
{
	xk_retry_begin(&e->retry, e->round_trip.timeout_ns, now_ns);
	e->repeats = 0;
	e->asked = false;
	e->sent_ns = now_ns;
	xk_budget_note(&e->peer->again, e->copy.len + CHAN_HEADER_LEN);
}

/* Returns whether the ticket's keeper still retransmits the message by itself. */
static bool
chan_end_is_being_sent(const struct chan_end *e, uint64_t now_ns)
{
	return e->ticket.keeper != NULL && now_ns < e->sent_ns + e->ticket.keeps_us * 1000;
}

/* Puts the message into *after, to be sent again: a request with the age of its call. */
static void
chan_end_take_copy(struct chan_end *e, uint64_t now_ns, struct chan_after *after)
{
	struct xk_platform *platform = xk_platform_of(e->session.protocol);

	e->asked = false;
	e->sent_ns = now_ns;
	after->m = e->copy.kept.buffers != 0 ? xk_kept_part(&e->copy.kept, 0, e->copy.len)
					     : xk_msg_from(platform, e->copy.bytes, e->copy.len);
	after->sequence = e->sequence;
	after->flags = e->flags;
	after->status = e->is_server ? e->status : chan_age_pack(now_ns - e->retry.begun_ns);
}

/*
 * Puts into *after what a time-out sends: the message, or a question (a header alone) if only_asks, if the message has
 * several packets, or if it must not be sent again now. A server that has asked too much sends nothing. Returns whether
 * it is a question.
 */
static bool
chan_end_retry(struct chan_end *e, bool only_asks, uint64_t now_ns, struct chan_after *after)
{
	xk_unanswered(e->session.lls);
	only_asks = only_asks || e->copy.len > e->opt_packet || chan_end_is_being_sent(e, now_ns) ||
		    !chan_peer_may_repeat(e, CHAN_UNASKED_MAX, now_ns);
	xk_round_trip_timed_out(&e->round_trip, &e->retry, &chan_of(e)->timeouts, now_ns);
	e->measure_in = 1;
	if (only_asks && e->is_server && !chan_peer_may_ask(e, now_ns)) {
		xk_count(e->session.protocol, CHAN_WITHHELD);
		return true;
	}
	if (only_asks) {
		after->m = xk_msg_new(xk_platform_of(e->session.protocol), 0);
		after->sequence = e->sequence;
		after->flags = e->flags & CHAN_FROM_CLIENT;
	} else {
		chan_end_take_copy(e, now_ns, after);
	}
	after->flags |= CHAN_ACK_REQUESTED;
	return only_asks;
}

/*
 * Puts the message into *after for an end that lacks it. Returns 0, or the reason to drop the end's question. The first
 * question draws nothing while a keeper still sends the message; the second one does, because what has arrived below
 * may be lost above. Questions that come sooner than an honest end asks (timeout_min, more for long messages) draw
 * nothing.
 */
static unsigned
chan_end_repeat(struct chan_end *e, uint64_t now_ns, struct chan_after *after)
{
	uint64_t packets = e->opt_packet == 0 ? 0 : e->copy.len / e->opt_packet;

	if (!e->asked && chan_end_is_being_sent(e, now_ns)) {
		e->asked = true;
		return 0;
	}
	if (now_ns < e->sent_ns + chan_of(e)->timeouts.min_ns / 2 * (1 + packets / CHAN_PACKETS))
		return CHAN_TOO_SOON;
	if (chan_peer_may_repeat(e, CHAN_REPEATS_MAX, now_ns))
		chan_end_take_copy(e, now_ns, after);
	else
		xk_count(e->session.protocol, CHAN_WITHHELD);
	return 0;
}

/* Adapts the timeout to a round trip that took sample_ns. */
static void
chan_end_measure(struct chan_end *e, uint64_t sample_ns)
{
	const struct xk_timeouts *timeouts = &chan_of(e)->timeouts;

	xk_round_trip_measure(&e->round_trip, timeouts, sample_ns);
	e->measure_in = e->round_trip.timeout_ns == timeouts->min_ns ? CHAN_MEASURE_EACH : 1;
}

/* ---- the client: calls ---- */

/*
 *                       call: REQ(n+1)
 *           +--------+ ------------------> +--------+ --+  time-out: REQ(n, ack?) or probe(n, ack?)
 *           |  IDLE  |                     |  SENT  |   |  "ack": the server has it; probes from now on
 *           +--------+ <------------------ +--------+ <-+  "nack": REQ(n)
 *               ^   async: done called         |           "ack?": NACK(n), the reply was missed
 *               |                              |  sync
 *               |  the shepherd fetches it +--------+      (a reply, an error, the deadline, silence, ABORT,
 *               +------------------------- | ENDED  |       a reboot of the server end SENT)
 *                                          +--------+
 *
 * In each state a reply that asks for an ack gets one, ACK(n+1), unless a newer request acknowledges it. Calls on a
 * disabled end fail.
 */

/* Ends the call in progress. The lock is held. */
static inline void
chan_client_end(struct chan_client *c, int result, struct xk_msg *reply, struct chan_after *after)
{
	struct chan_end *e = &c->end;

	chan_end_forget(e, &after->ticket);
	after->ended = true;
	after->call = c->call;
	after->result = result;
	after->reply = reply;
	if (c->call != NULL) {
		c->call = NULL;
	} else {
		e->state = CHAN_ENDED;
		c->result = result;
		c->reply = reply;
	}
}

/* Ends the call in progress, if there is one, without an answer. The lock is held. */
static void
chan_client_give_up(struct chan_end *e, int result, struct chan_after *after)
{
	if (e->state != CHAN_SENT)
		return;
	chan_client_end((struct chan_client *)e, result, NULL, after);
	e->in_doubt = true;
}

static uint64_t
chan_client_next_ns(const struct chan_client *c)
{
	return c->end.retry.due_ns < c->ends_ns ? c->end.retry.due_ns : c->ends_ns;
}

/* Begins a call with m, which is taken. call NULL: a shepherd will wait. Returns 0 or -errno. */
static int
chan_client_begin(struct chan_client *c, struct xk_msg *m, struct xk_call *call)
{
	struct chan_end *e = &c->end;
	struct xk_protocol *self = e->session.protocol;
	uint64_t now_ns = xk_now_ns(self);
	uint32_t sequence;
	unsigned why = 0;

	if (xk_unlikely(xk_msg_len(m) > e->max_packet)) {
		xk_drop(self, m, XK_DROP_TOO_BIG);
		return -EMSGSIZE;
	}
	xk_lock(&e->lock);
	if (xk_unlikely(e->disabled)) {
		why = CHAN_CLOSED;
	} else if (xk_unlikely(e->state != CHAN_IDLE)) {
		why = CHAN_BUSY;
	} else if (xk_unlikely(!chan_end_copy(e, m))) {
		why = XK_DROP_NO_BUFFER;
	} else {
		chan_end_is_new(e, now_ns);
		e->received_ns = now_ns;
		c->ends_ns = now_ns + c->deadline_ns;
		if (xk_likely(xk_alarm_set(&e->alarm, chan_client_next_ns(c)))) {
			e->state = CHAN_SENT;
			e->sequence++;
			e->in_doubt = false;
			c->acked = c->probed = false;
			c->call = call;
		} else {
			xk_kept_free(&e->copy.kept);
			why = CHAN_CLOSED;
		}
	}
	sequence = e->sequence;
	xk_unlock(&e->lock);
	if (xk_unlikely(why != 0)) {
		xk_drop(self, m, why);
		return why == CHAN_CLOSED ? -ECONNRESET : why == CHAN_BUSY ? -EBUSY : -ENOBUFS;
	}
	xk_count(self, CHAN_CALLED);
	chan_send(e, m, sequence, CHAN_FROM_CLIENT | CHAN_USER_MSG | (call == NULL ? CHAN_MAY_WAIT : 0), 0);
	return 0;
}

static int
chan_client_call_async(struct xk_session *session, struct xk_msg *m, struct xk_call *call)
{
	return chan_client_begin((struct chan_client *)session, m, call);
}

static int
chan_client_call(struct xk_session *session, struct xk_msg *m, struct xk_msg **reply)
{
	struct chan_client *c = (struct chan_client *)session;
	int status = chan_client_begin(c, m, NULL);
	struct chan_after after; /* for its ticket: there is nobody else to notify */
	bool ended = false;

	if (status != 0)
		return status;
	after.ticket.keeper = NULL;
	while (!ended) { /* a signal may be left of an earlier call */
		int err = xk_semaphore_wait(&c->ended, XK_UNTIL_SIGNALLED);

		xk_lock(&c->end.lock);
		if (xk_unlikely(err != 0))
			chan_client_give_up(&c->end, err, &after);
		ended = c->end.state == CHAN_ENDED;
		if (ended) {
			status = c->result;
			*reply = c->reply;
			c->end.state = CHAN_IDLE;
		}
		xk_unlock(&c->end.lock);
	}
	xk_ticket_release(&after.ticket);
	return status;
}

/* Does what is due at a client. Returns the time of the next check, or XK_NEVER. The lock is held. */
static uint64_t
chan_client_tick(struct chan_end *e, uint64_t now_ns, struct chan_after *after)
{
	struct chan_client *c = (struct chan_client *)e;
	struct chan *chan = chan_of(e);

	if (e->state != CHAN_SENT)
		return XK_NEVER;
	if (now_ns >= c->ends_ns || now_ns >= e->received_ns + chan->silence_ns) {
		xk_count(&chan->protocol, CHAN_TIMED_OUT);
		chan_client_give_up(e, -ETIMEDOUT, after);
		return XK_NEVER;
	}
	if (now_ns >= e->retry.due_ns) {
		bool probes = chan_end_retry(e, c->acked, now_ns, after);

		if (c->acked)
			e->retry.due_ns = now_ns + chan->timeouts.max_ns;
		c->probed = probes;
		xk_count(&chan->protocol, probes ? CHAN_PROBED : CHAN_RETRANSMITTED);
	}
	return chan_client_next_ns(c);
}

/* ---- the client: messages of the server ---- */

/* Returns what the caller gets. A server itself only refuses a call, or reports that the reply is gone. */
static int
chan_client_status(unsigned flags, int status)
{
	if (xk_likely(status == 0))
		return 0;
	if (flags & CHAN_USER_MSG)
		return -(int)chan_status_of_handler(-status);
	return status == ETIMEDOUT || status == ECONNREFUSED ? -status : -EREMOTEIO;
}

/*
 * Applies a control message of the server, and decides what answers it. Returns 0, or the reason to drop it. The lock
 * is held.
 */
static unsigned
chan_client_receive_control(struct chan_end *e, const struct chan_header *h, struct chan_after *after)
{
	struct chan_client *c = (struct chan_client *)e;
	uint64_t now_ns = xk_now_ns(e->session.protocol);
	bool waits = e->state == CHAN_SENT;
	unsigned why = 0;

	if (h->sequence != e->sequence)
		return CHAN_UNASKED;
	if (h->flags & CHAN_ACK_REQUESTED) /* has the reply arrived? */
		after->kind = waits ? CHAN_ANSWER_NACK : CHAN_ANSWER_ACK;
	if (!waits)
		return 0;
	e->received_ns = now_ns;
	if (h->flags == 0) {
		c->acked = true;
		e->retry.due_ns = now_ns + chan_of(e)->timeouts.max_ns;
	} else if (h->flags == CHAN_NEGATIVE_ACK) {
		if (c->probed &&
		    e->copy.len <= e->opt_packet) /* the server can be reached: no need to wait for a budget */
			xk_budget_note(&e->peer->again, e->copy.len + CHAN_HEADER_LEN);
		c->probed = false;
		why = chan_end_repeat(e, now_ns, after);
		if (after->flags != 0) {
			c->acked = false;
			e->retry.tries++; /* the reply will not show how long a round trip is */
			e->retry.due_ns = now_ns + e->retry.timeout_ns;
			xk_alarm_set(&e->alarm, chan_client_next_ns(c));
		}
	}
	return why;
}

/* ---- the server: the handler ---- */

/*
 *                       REQ(new): the handler runs
 *         +--------+ ------------------------------> +---------+ --+  REQ(current), probe(current): ACK if asked for
 *         |  IDLE  |                                 | EXECUTE |   |  REQ(new), probe(new): noted; ACK if asked for
 *         +--------+ <------------------------------ +---------+ <-+
 *           ^    ^      it was noted: NACK(new); or       |
 *           |    |      too much is kept: REP(n)          | REP(n), which is kept
 *           |    |                                        v
 *           |    |   ACK(n+1), or given up           +---------+ --+  time-out: REP(n, ack?) or probe(n, ack?)
 *           |    +---------------------------------- |  SENT   |   |  REQ(n, ack?), probe(n, ack?), NACK(n): REP(n)
 *           |                                        +---------+ <-+
 *           |    probe(new): NACK(new)                    |
 *           +---------------------------------------------+  REQ(new), to EXECUTE: an implicit ack
 *
 * Old sequence numbers are dropped in each state. A probe in IDLE is answered with NACK(new), or with an error if it is
 * about a reply that is gone. A disabled end drops everything, and its handler's reply is suppressed.
 */

/* Keeps reply (NULL: an empty one) until it has arrived. Returns false if it cannot be kept. The lock is held. */
static bool
chan_server_keep(struct chan_end *e, struct xk_msg *reply)
{
	if (xk_unlikely(reply == NULL)) {
		e->copy.len = 0;
		return true;
	}
	if (xk_unlikely(xk_msg_len(reply) > CHAN_SHORT)) {
		e->copy.saved = xk_msg_buffers(reply);
		if (!xk_share_take(e->peer->saved, e->copy.saved))
			return false;
	}
	if (xk_likely(chan_end_copy(e, reply))) /* a short one always is */
		return true;
	xk_share_give(e->peer->saved, e->copy.saved);
	return false;
}

/* Runs the handler and sends its reply. Takes m. The state is CHAN_EXECUTE, so no other shepherd runs it. */
static void
chan_server_run(struct chan_end *e, struct xk_msg *m, uint32_t sequence)
{
	struct xk_protocol *self = e->session.protocol;
	unsigned flags = CHAN_USER_MSG, error = 0, counter = 0;
	struct xk_msg *reply = NULL;
	int status = xk_call_demux(&e->session, m, &reply);
	uint64_t now_ns;
	uint32_t newer;

	xk_count(self, CHAN_EXECUTED);
	if (xk_unlikely(status == 0 && reply != NULL && xk_msg_len(reply) > e->max_packet))
		status = -EMSGSIZE;
	if (xk_unlikely(status != 0)) {
		xk_count(self, CHAN_FAILED);
		flags |= CHAN_ERROR;
		error = chan_status_of_handler(status);
		xk_msg_free(reply);
		reply = NULL;
	}
	if (xk_unlikely(reply == NULL))
		reply = xk_msg_new(xk_platform_of(self), 0);
	now_ns = xk_now_ns(self);
	xk_lock(&e->lock);
	e->status = (uint16_t)error;
	e->flags = (uint16_t)flags;
	e->received_ns = now_ns;
	e->state = CHAN_IDLE;
	newer = e->newer;
	if (xk_unlikely(e->disabled)) {
		counter = CHAN_SUPPRESSED;
	} else if (xk_unlikely(newer != sequence)) {
		counter = CHAN_ABANDONED;
	} else if (xk_unlikely(!chan_server_keep(e, reply))) {
		counter = CHAN_UNSAVED;
	} else {
		e->state = CHAN_SENT;
		chan_end_is_new(e, now_ns);
		xk_alarm_set(&e->alarm, e->retry.due_ns);
	}
	xk_unlock(&e->lock);
	if (xk_unlikely(counter != 0))
		xk_count(self, counter);
	if (xk_unlikely(counter == CHAN_SUPPRESSED || counter == CHAN_ABANDONED)) {
		const struct chan_header h = { e->channel, e->number, newer, CHAN_FROM_CLIENT, 0 };

		xk_msg_free(reply);
		if (counter == CHAN_ABANDONED)
			chan_answer(self, e->session.lls, &h, CHAN_ANSWER_NACK);
	} else if (xk_likely(reply != NULL)) {
		chan_send(e, reply, sequence, flags, error);
	}
}

/* ---- the server: messages of a client ---- */

static inline bool
chan_server_is_enabled(const struct chan_end *e)
{
	const struct xk_enable *enable = xk_table_enabled(e->session.protocol, xk_table_number_key(e->number));

	return enable != NULL && enable->hlp_receive == xk_hlp_receive(&e->session);
}

/* As chan_client_receive_control, for a client's messages, except requests that can be run. */
static unsigned
chan_server_receive_control(struct chan_end *e, const struct chan_header *h, struct chan_after *after)
{
	struct xk_protocol *self = e->session.protocol;
	int32_t ahead = (int32_t)(h->sequence - e->sequence);
	bool is_request = h->flags & CHAN_USER_MSG, is_ack = h->flags == CHAN_FROM_CLIENT;
	uint64_t now_ns;
	unsigned why;

	if (e->disabled)
		return XK_DROP_NO_SESSION;
	if (ahead < 0)
		return CHAN_STALE;
	if (ahead > 0 && !is_ack) { /* a new request, or a question about one */
		if (h->flags & CHAN_NEGATIVE_ACK)
			return CHAN_STALE; /* about a reply that was never sent */
		if (e->state == CHAN_EXECUTE) {
			if ((int32_t)(h->sequence - e->newer) > 0)
				e->newer = h->sequence;
			if (h->flags & CHAN_ACK_REQUESTED)
				after->kind = CHAN_ANSWER_ACK;
			return is_request ? CHAN_BUSY : 0;
		}
		if (e->state == CHAN_SENT)
			chan_end_forget(e, &after->ticket);
		after->kind = chan_server_is_enabled(e) ? CHAN_ANSWER_NACK : CHAN_ANSWER_REFUSED;
		return is_request ? XK_DROP_NO_SESSION : 0;
	}
	e->received_ns = now_ns = xk_now_ns(self);
	if (is_ack) { /* it bears the sequence number after that of the reply */
		if (e->state != CHAN_SENT || ahead != 1)
			return CHAN_STALE;
		if (e->retry.tries == 1) /* it was asked for once */
			chan_end_measure(e, now_ns - e->sent_ns);
		chan_end_forget(e, &after->ticket);
		return 0;
	}
	/* about the current request, or its reply */
	why = is_request ? CHAN_DUPLICATE : 0;
	if (!(h->flags & (CHAN_ACK_REQUESTED | CHAN_NEGATIVE_ACK)))
		return why; /* the network has duplicated it */
	if (e->state == CHAN_SENT) {
		unsigned early = chan_end_repeat(e, now_ns, after);

		if (early != 0)
			return early;
		if (after->flags == 0)
			after->kind = CHAN_ANSWER_ACK;
		else
			xk_count(self, CHAN_REPEATED);
	} else if (e->state == CHAN_IDLE) {
		after->kind = CHAN_ANSWER_GONE;
	} else if (!(h->flags & CHAN_NEGATIVE_ACK)) {
		after->kind = CHAN_ANSWER_ACK;
	}
	return why;
}

/* As chan_client_tick. A server's timer keeps the end alive. */
static uint64_t
chan_server_tick(struct chan_end *e, uint64_t now_ns, struct chan_after *after)
{
	struct xk_protocol *self = e->session.protocol;
	const struct chan *chan = (struct chan *)self;
	uint64_t forget_ns = e->received_ns + chan->lifetime_ns;

	if (e->disabled)
		return XK_NEVER;
	if (e->state == CHAN_SENT && now_ns >= e->retry.due_ns) {
		if (e->retry.tries == chan->retries) {
			xk_count(self, CHAN_GIVEN_UP);
			chan_end_forget(e, &after->ticket);
		} else {
			chan_end_retry(e, false, now_ns, after);
			if (after->flags != 0)
				xk_count(self, CHAN_REPEATED);
		}
	}
	if (e->state == CHAN_SENT)
		return e->retry.due_ns;
	if (e->state == CHAN_EXECUTE)
		return now_ns + e->round_trip.timeout_ns;
	if (now_ns < forget_ns)
		return forget_ns;
	e->disabled = true;
	xk_count(self, CHAN_FORGOTTEN);
	xk_map_unbind(&self->table.sessions, &e->session.binding);
	return XK_NEVER;
}

/* ---- events: the timer, and messages ---- */

/* Releases a copy below, and notifies the caller of the call that has ended. */
static inline void
chan_client_notify(struct chan_end *e, struct chan_after *after)
{
	chan_end_release(&after->ticket);
	if (after->call != NULL)
		xk_call_done(after->call, after->result, after->reply);
	else
		xk_semaphore_signal(&((struct chan_client *)e)->ended);
}

/* Does what is left after an event: sends, releases a copy below, and notifies the caller of a call that has ended. */
static void
chan_end_finish(struct chan_end *e, struct chan_after *after)
{
	if (after->m != NULL)
		chan_send(e, after->m, after->sequence, after->flags | CHAN_AGAIN, after->status);
	if (after->ended)
		chan_client_notify(e, after);
	else
		chan_end_release(&after->ticket);
}

static void
chan_end_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct chan_end *e = xk_container_of(alarm, struct chan_end, alarm);
	struct chan_after after = { .m = NULL };

	xk_alarm_set(alarm, e->is_server ? chan_server_tick(e, now_ns, &after) : chan_client_tick(e, now_ns, &after));
	xk_unlock(&e->lock);
	chan_end_finish(e, &after);
}

/* Handles m, which brings neither a reply nor a request that can be run. Gives the lock back, which is held. */
XK_APART static void
chan_end_pop_control(struct chan_end *e, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	const struct chan_header h = chan_header_load(hdr);
	struct xk_protocol *self = e->session.protocol;
	struct chan_after after = { .kind = CHAN_ANSWER_NOTHING };
	unsigned why =
		e->is_server ? chan_server_receive_control(e, &h, &after) : chan_client_receive_control(e, &h, &after);

	xk_unlock(&e->lock);
	chan_answer(self, lls, &h, after.kind);
	chan_end_finish(e, &after);
	if (why == 0)
		xk_msg_free(m);
	else
		xk_drop(self, m, why);
}

/* Acknowledges a reply with the header h. */
XK_APART static void
chan_client_ack(struct xk_protocol *self, struct xk_session *lls, const struct chan_header *h)
{
	chan_answer(self, lls, h, CHAN_ANSWER_ACK);
}

static void
chan_client_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct chan_client *c = (struct chan_client *)session;
	const struct chan_header h = chan_header_load(hdr);
	struct chan_end *e = &c->end;
	struct chan_header asks = { .flags = 0 }; /* the caller may free the message before it is acknowledged */
	struct chan_after after;
	bool is_current, waits;

	xk_lock(&e->lock);
	if (xk_unlikely(!(h.flags & (CHAN_USER_MSG | CHAN_ERROR)))) {
		chan_end_pop_control(e, lls, m, hdr);
		return;
	}
	is_current = h.sequence == e->sequence;
	waits = is_current && e->state == CHAN_SENT;
	if (xk_unlikely(is_current && (h.flags & CHAN_ACK_REQUESTED)))
		asks = h;
	if (xk_likely(waits)) {
		/* Karn: after a repeat, the reply may answer either request */
		if (xk_likely(e->retry.tries == 0) && xk_unlikely(--e->measure_in == 0))
			chan_end_measure(e, xk_now_ns(session->protocol) - e->sent_ns);
		chan_client_end(c, chan_client_status(h.flags, h.status), h.status == 0 ? m : NULL, &after);
	} else if (is_current) {
		e->in_doubt = false; /* the server is done with it after all */
	}
	xk_unlock(&e->lock);
	if (xk_unlikely(asks.flags != 0))
		chan_client_ack(session->protocol, lls, &asks);
	if (xk_unlikely(!waits)) {
		xk_drop(session->protocol, m, CHAN_UNASKED);
		return;
	}
	if (xk_unlikely(h.status != 0))
		xk_msg_free(m);
	chan_client_notify(e, &after);
}

static void
chan_server_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct chan_end *e = (struct chan_end *)session;
	const struct chan_header h = chan_header_load(hdr);
	struct xk_ticket ticket;

	xk_lock(&e->lock);
	if (xk_unlikely(!(h.flags & CHAN_USER_MSG) || (int32_t)(h.sequence - e->sequence) <= 0 || e->disabled ||
			e->state == CHAN_EXECUTE || !chan_server_is_enabled(e))) {
		chan_end_pop_control(e, lls, m, hdr);
		return;
	}
	chan_end_forget(e, &ticket); /* the request acknowledges the last reply */
	e->state = CHAN_EXECUTE;
	e->sequence = h.sequence;
	e->newer = h.sequence;
	xk_unlock(&e->lock);
	chan_end_release(&ticket);
	chan_server_run(e, m, h.sequence);
}

/* ---- both ends: set up, disabled, closed ---- */

/* Unbinds a server's end and suppresses its handler's reply; fails all calls of a client's. */
void
chan_end_disable(struct chan_end *e)
{
	struct xk_session *session = &e->session;
	struct chan_after after = { .m = NULL };
	bool stops;

	xk_lock(&e->lock);
	e->disabled = true;
	if (!e->is_server)
		chan_client_give_up(e, -ECONNRESET, &after);
	else if (e->state == CHAN_SENT)
		chan_end_forget(e, &after.ticket);
	stops = xk_alarm_stop(&e->alarm);
	xk_unlock(&e->lock);
	xk_trace(session->protocol, XK_TRACE_EVENTS, "channel %x of %s is void", e->channel,
		 e->is_server ? "a client" : xk_hlp_receive(session)->name);
	if (e->is_server)
		xk_map_unbind(&session->protocol->table.sessions, &session->binding);
	else
		xk_count(session->protocol, CHAN_WAS_RESET);
	chan_end_finish(e, &after);
	xk_close_done(session);
	if (stops)
		xk_session_release(session);
}

/*
 * Makes a new session an end, adds it to the ends of its host, and binds it. A server's end has is_server, channel and
 * sequence set. Returns 0; -EEXIST: another shepherd was faster; or as chan_peer_join. Close it after an error.
 */
static int
chan_end_init(struct chan_end *e, uint32_t number, uint64_t boot)
{
	struct xk_session *s = &e->session;
	struct xk_protocol *self = s->protocol;
	int err = xk_control(s, XK_GET_MAX_PACKET, &e->max_packet);
	int whole = xk_control(s, XK_GET_OPT_PACKET, &e->opt_packet);

	e->number = number;
	xk_round_trip_init(&e->round_trip, &((struct chan *)self)->timeouts);
	e->measure_in = 1;
	xk_lock_init(&e->lock, self);
	xk_alarm_init(&e->alarm, s, &e->lock, chan_end_expire);
	if (err < 0 || whole == -EMSGSIZE)
		return err < 0 ? err : whole;
	if (whole < 0)
		e->opt_packet = e->max_packet;
	err = chan_peer_join(e, boot);
	if (err != 0)
		return err;
	return xk_session_bind(s, &self->table.sessions, chan_key(s->lls, number, e->channel, e->is_server));
}

/* Refuses m: a channel carries only calls. */
static int
chan_end_push(struct xk_session *session, struct xk_msg *m)
{
	xk_drop(session->protocol, m, XK_DROP_UNEXPECTED);
	return -EOPNOTSUPP;
}

/* Stops an idle client's timer: its reference would keep the closed channel, and so its number, from reuse. */
static void
chan_end_let_go(struct xk_session *session)
{
	struct chan_end *e = (struct chan_end *)session;
	bool stops;

	xk_lock(&e->lock);
	stops = e->state == CHAN_IDLE && xk_alarm_stop(&e->alarm);
	xk_unlock(&e->lock);
	if (stops)
		xk_session_release(session);
}

/* A call is in progress only if the kernel ends, since a pending timer has a reference. Its caller is not notified. */
static void
chan_end_close(struct xk_session *session)
{
	struct chan_end *e = (struct chan_end *)session;
	struct xk_ticket ticket;
	bool rests;

	if (e->peer == NULL)
		return;
	xk_lock(&e->lock); /* a shepherd with a late reply may still be here */
	chan_end_forget(e, &ticket);
	rests = e->in_doubt;
	xk_unlock(&e->lock);
	xk_ticket_release(&ticket);
	chan_peer_leave(e, rests);
}

/* ---- promises ---- */

static const char *
chan_client_promise(struct xk_session *session, bool at_rest)
{
	const struct chan_client *c = (const struct chan_client *)session;
	const struct chan_end *e = &c->end;

	if (e->state == CHAN_SENT && !xk_alarm_covers(&e->alarm, chan_client_next_ns(c)))
		return "a call is in progress without a timer for its next repetition, or for its deadline";
	if (e->state == CHAN_SENT && e->disabled)
		return "a call is in progress with a server that is gone";
	if (e->state != CHAN_SENT && (e->copy.kept.buffers != 0 || c->call != NULL))
		return "a call is over, and has not ended";
	if (at_rest && e->state == CHAN_SENT)
		return "a call has ended neither with a reply nor with an error";
	return at_rest && e->state == CHAN_ENDED ? "nobody has fetched a call's result" : NULL;
}

/* A disabled end is in no table. */
static const char *
chan_server_promise(struct xk_session *session, bool at_rest)
{
	const struct chan_end *e = (const struct chan_end *)session;

	if (e->state == CHAN_SENT && !xk_alarm_covers(&e->alarm, e->retry.due_ns))
		return "a reply is unacknowledged without a timer";
	if (e->received_ns != 0 && !xk_alarm_covers(&e->alarm, XK_NEVER)) /* 0: open_done has not returned */
		return "a channel has no timer to forget it";
	if (e->state != CHAN_SENT && e->copy.kept.buffers != 0)
		return "a reply is kept that nobody may ask for";
	if (e->copy.kept.buffers != 0 && e->copy.saved > xk_share_held(e->peer->saved))
		return "a reply's buffers are not counted in its network's share";
	if (at_rest && e->state == CHAN_EXECUTE)
		return "a handler does not end";
	return at_rest && e->state == CHAN_SENT ? "a reply is neither acknowledged nor given up" : NULL;
}

/* ---- the client: opening and asking ---- */

static int
chan_client_control(struct xk_session *session, int op, void *argument)
{
	struct chan_client *c = (struct chan_client *)session;
	struct chan_after after = { .m = NULL };
	uint64_t *deadline_ns = argument;

	switch (op) {
	case XK_CHAN_SET_DEADLINE:
		if (*deadline_ns < 1000 || *deadline_ns > UINT64_MAX / 4)
			return -EINVAL;
		xk_lock(&c->end.lock);
		c->deadline_ns = *deadline_ns;
		xk_unlock(&c->end.lock);
		return 0;
	case XK_CHAN_GET_DEADLINE:
		*deadline_ns = c->deadline_ns;
		return 0;
	case XK_CHAN_ABORT:
		xk_lock(&c->end.lock);
		chan_client_give_up(&c->end, -ECANCELED, &after);
		xk_unlock(&c->end.lock);
		chan_end_finish(&c->end, &after);
		return 0;
	default:
		return -ENOTSUP;
	}
}

static const struct xk_session_ops chan_client_session_ops = {
	.size = sizeof(struct chan_client),
	.push = chan_end_push,
	.pop = chan_client_pop,
	.pop_is_last = true,
	.call = chan_client_call,
	.call_async = chan_client_call_async,
	.let_go = chan_end_let_go,
	.close = chan_end_close,
	.control = chan_client_control,
	.promise = chan_client_promise,
};

int
chan_client_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 struct xk_participants *participants, struct xk_session **session)
{
	struct xk_session *lls;
	struct chan_client *c;
	uint32_t number;
	int err = xk_number(self, hlp_type, &number);

	if (err == 0)
		err = xk_open(self, self, xk_lower(self, 0), participants, &lls); /* may wait */
	if (err != 0)
		return err;
	c = (struct chan_client *)xk_session_new(self, &chan_client_session_ops, hlp_receive, hlp_type, lls);
	if (c == NULL) {
		xk_close(lls);
		return -ENOMEM;
	}
	xk_semaphore_init(&c->ended, self, 0);
	c->deadline_ns = ((struct chan *)self)->deadline_ns;
	c->end.flags = CHAN_FROM_CLIENT | CHAN_USER_MSG;
	err = chan_end_init(&c->end, number, 0);
	if (err != 0)
		xk_close(&c->end.session);
	else
		*session = &c->end.session;
	return err;
}

/* ---- the server: a new channel ---- */

static const struct xk_session_ops chan_server_session_ops = {
	.size = sizeof(struct chan_end),
	.push = chan_end_push,
	.pop = chan_server_pop,
	.close = chan_end_close,
	.promise = chan_server_promise,
};

/*
 * Makes an end over lls, which is taken, also on failure. The timer gets the caller's reference. Returns 0, or the
 * reason to drop the request.
 */
static unsigned
chan_server_new(struct chan *chan, const struct xk_enable *enable, struct xk_session *lls, const struct xk_msg *m,
		const struct chan_header *h, struct xk_session **session)
{
	struct xk_protocol *self = &chan->protocol;
	struct xk_session *made =
		xk_session_new(self, &chan_server_session_ops, enable->hlp_receive, enable->hlp_type, lls);
	struct chan_end *e = (struct chan_end *)made;
	uint64_t now_ns;
	int err;

	if (made == NULL) {
		xk_close(lls);
		return XK_DROP_NO_MEMORY;
	}
	e->is_server = true;
	e->channel = h->channel;
	e->sequence = h->sequence - 1;
	err = chan_end_init(e, h->number, xk_msg_from_boot(m));
	if (err != 0) {
		xk_close(made);
		/* other errors: no memory, or an unusable session below */
		return err == -ENOBUFS    ? CHAN_TOO_MANY
		       : err == -EEXIST   ? CHAN_DUPLICATE
		       : err == -ESTALE   ? CHAN_OLD_BOOT
		       : err == -EALREADY ? CHAN_STALE
					  : XK_DROP_NO_MEMORY;
	}
	now_ns = xk_now_ns(self);
	if (xk_open_done(xk_hlp_receive(made), self, made, made->hlp_type) != 0) {
		chan_end_disable(e);
		xk_session_release(made);
		return XK_DROP_REFUSED;
	}
	xk_lock(&e->lock);
	e->received_ns = now_ns;
	if (!e->disabled) /* a request that overtook this one may have started the timer already */
		xk_alarm_set(&e->alarm, now_ns + e->round_trip.timeout_ns);
	xk_unlock(&e->lock);
	xk_session_release(made);
	*session = made;
	return 0;
}

/*
 * Refuses requests whose call is older than half of `lifetime`: they may have been run and forgotten, whatever
 * `silence` their client has. Only requests make an end.
 */
struct xk_session *
chan_end_accept(struct chan *chan, struct xk_session *lls, struct xk_msg *m, const struct chan_header *h)
{
	struct xk_protocol *self = &chan->protocol;
	const struct xk_enable *enable = xk_table_enabled(self, xk_table_number_key(h->number));
	bool is_request = (h->flags & CHAN_USER_MSG) != 0, asks = (h->flags & CHAN_ACK_REQUESTED) != 0;
	enum chan_answer kind = CHAN_ANSWER_NOTHING;
	unsigned why = XK_DROP_NO_SESSION;
	struct xk_session *session;

	if (!(h->flags & CHAN_FROM_CLIENT)) {
		if (asks) /* no caller waits for that reply any more */
			kind = CHAN_ANSWER_ACK;
	} else {
		if (is_request && chan_age_ns(h->status) > chan->lifetime_ns / 2)
			why = CHAN_STALE;
		else if (is_request && enable != NULL && xk_duplicate(lls))
			why = chan_server_new(chan, enable, lls, m, h, &session);
		if (why == 0)
			return session;
		if (why == CHAN_STALE)
			kind = CHAN_ANSWER_GONE;
		else if (enable == NULL ? h->flags != CHAN_FROM_CLIENT : why == CHAN_TOO_MANY || why == XK_DROP_REFUSED)
			kind = CHAN_ANSWER_REFUSED;
		else if (enable != NULL && !is_request && asks)
			kind = CHAN_ANSWER_NACK;
	}
	chan_answer(self, lls, h, kind);
	xk_drop(self, m, why);
	return NULL;
}
