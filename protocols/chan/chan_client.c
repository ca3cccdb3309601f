/*
 * chan_client.c - the client's end of a channel.
 *
 *                       call: REQ(n+1)
 *           +--------+ ------------------> +--------+ --+  time-out: REQ(n, ack?) or probe(n, ack?)
 *           |  IDLE  |                     |  SENT  |   |  "ack": the server has it; probes from now on
 *           +--------+ <------------------ +--------+ <-+  "nack": REQ(n)
 *               ^   async: done is told        |           "ack?": NACK(n), the reply was missed
 *               |                              |  sync
 *               |  the shepherd fetches it +--------+      (a reply, an error, the deadline, silence, ABORT,
 *               +------------------------- | ENDED  |       a reboot of the server end SENT)
 *                                          +--------+
 *
 * In each state a reply that asks for an ack gets one, ACK(n+1), unless a newer request acknowledges it. Calls on a
 * disabled channel fail.
 */
#include "protocols/chan/chan_private.h"

/* ---- the end of a call ---- */

/* Ends the call under way. The lock is held. */
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
		e->state = CHAN_IDLE;
	} else {
		e->state = CHAN_ENDED;
		c->result = result;
		c->reply = reply;
	}
}

void
chan_client_give_up(struct chan_end *e, int result, struct chan_after *after)
{
	if (e->state != CHAN_SENT)
		return;
	chan_client_end((struct chan_client *)e, result, NULL, after);
	e->in_doubt = true;
}

void
chan_client_tell(struct chan_end *e, struct chan_after *after)
{
	xk_ticket_release(&after->ticket);
	if (after->call != NULL)
		xk_call_done(after->call, after->result, after->reply);
	else
		xk_semaphore_signal(&((struct chan_client *)e)->ended);
}

/* ---- calling ---- */

static uint64_t
chan_client_next_ns(const struct chan_client *c)
{
	return c->end.due_ns < c->ends_ns ? c->end.due_ns : c->ends_ns;
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
	int err = 0;

	if (xk_unlikely(xk_msg_len(m) > e->max_packet)) {
		xk_drop(self, m, CHAN_TOO_BIG);
		return -EMSGSIZE;
	}
	xk_lock(&e->lock);
	if (xk_unlikely(e->disabled)) {
		err = -ECONNRESET;
		why = CHAN_CLOSED;
	} else if (xk_unlikely(e->state != CHAN_IDLE)) {
		err = -EBUSY;
		why = CHAN_BUSY;
	} else if (xk_unlikely(!chan_end_copy(e, m))) {
		err = -ENOBUFS;
		why = XK_DROP_NO_BUFFER;
	} else {
		chan_end_is_new(e, now_ns);
		e->heard_ns = now_ns;
		e->begun_ns = now_ns;
		c->ends_ns = now_ns + c->deadline_ns;
		if (xk_likely(chan_end_wake(e, chan_client_next_ns(c), now_ns))) {
			e->state = CHAN_SENT;
			e->sequence++;
			e->in_doubt = false;
			c->acked = false;
			c->call = call;
		} else {
			xk_msg_free(e->copy.m);
			e->copy.m = NULL;
			err = -ECONNRESET;
			why = CHAN_CLOSED;
		}
	}
	sequence = e->sequence;
	xk_unlock(&e->lock);
	if (xk_unlikely(err != 0)) {
		xk_drop(self, m, why);
		return err;
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
	struct chan_after after; /* nobody else is to be told */
	bool ended = false;

	if (status != 0)
		return status;
	after.ticket.keeper = NULL;
	while (!ended) { /* a signal may be left of an earlier call */
		int err = xk_semaphore_wait(&c->ended, XK_FOREVER);

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

/* ---- the timer ---- */

uint64_t
chan_client_tick(struct chan_end *e, uint64_t now_ns, struct chan_after *after)
{
	struct chan_client *c = (struct chan_client *)e;
	struct chan *chan = chan_of(e);

	if (e->state != CHAN_SENT)
		return 0;
	if (now_ns >= c->ends_ns || now_ns >= e->heard_ns + chan->silence_ns) {
		xk_count(&chan->protocol, CHAN_TIMED_OUT);
		chan_client_give_up(e, -ETIMEDOUT, after);
		return 0;
	}
	if (now_ns >= e->due_ns) {
		bool probes = chan_end_retry(e, c->acked, now_ns, after);

		if (c->acked)
			e->due_ns = now_ns + chan->timeout_max_ns;
		xk_count(&chan->protocol, probes ? CHAN_PROBED : CHAN_RETRANSMITTED);
	}
	return chan_client_next_ns(c);
}

/* ---- hearing from the server ---- */

/* Returns what the caller gets. A server itself only refuses a call, or says that the reply is gone. */
static int
chan_client_status(const struct chan_header *h)
{
	if (xk_likely(h->status == 0))
		return 0;
	if (h->flags & CHAN_USER_MSG)
		return -(int)chan_status_of_handler(-(int)h->status);
	return h->status == ETIMEDOUT || h->status == ECONNREFUSED ? -(int)h->status : -EREMOTEIO;
}

/* Handles a reply or an error. */
static void
chan_client_pop_reply(struct chan_client *c, struct xk_session *lls, struct xk_msg *m, const struct chan_header *h)
{
	struct chan_end *e = &c->end;
	struct xk_protocol *self = e->session.protocol;
	uint64_t now_ns = xk_now_ns(self);
	struct chan_after after;
	bool is_current, waits;

	xk_lock(&e->lock);
	is_current = h->sequence == e->sequence;
	waits = is_current && e->state == CHAN_SENT;
	if (xk_likely(waits)) {
		if (xk_likely(e->tries == 0)) /* Karn: otherwise the reply may be to either message */
			chan_end_measure(e, now_ns - e->sent_ns);
		chan_client_end(c, chan_client_status(h), h->status == 0 ? m : NULL, &after);
	} else if (is_current) {
		e->in_doubt = false; /* the server is done with it after all */
	}
	xk_unlock(&e->lock);
	if (is_current && (h->flags & CHAN_ACK_REQUESTED))
		chan_say(self, lls, h, CHAN_SAY_ACK);
	if (xk_unlikely(!waits))
		xk_drop(self, m, CHAN_UNASKED);
	else if (xk_unlikely(h->status != 0))
		xk_msg_free(m);
	if (xk_likely(waits))
		chan_client_tell(e, &after);
}

unsigned
chan_client_judge(struct chan_end *e, const struct chan_header *h, struct chan_after *after)
{
	struct chan_client *c = (struct chan_client *)e;
	uint64_t now_ns = xk_now_ns(e->session.protocol);
	bool waits = e->state == CHAN_SENT;
	unsigned why = 0;

	if (h->sequence != e->sequence)
		return CHAN_UNASKED;
	if (h->flags & CHAN_ACK_REQUESTED) /* has the reply arrived? */
		after->word = waits ? CHAN_SAY_NACK : CHAN_SAY_ACK;
	if (!waits)
		return 0;
	e->heard_ns = now_ns;
	if (h->flags == 0) {
		c->acked = true;
		e->due_ns = now_ns + chan_of(e)->timeout_max_ns;
	} else if (h->flags == CHAN_NEGATIVE_ACK) {
		why = chan_end_repeat(e, now_ns, after);
		if (after->flags != 0) {
			c->acked = false;
			e->tries++; /* the reply will not tell how long a round trip is */
			e->due_ns = now_ns + e->timeout_ns;
		}
	}
	return why;
}

static void
chan_client_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct chan_end *e = (struct chan_end *)session;
	const struct chan_header *h = hdr;

	if (xk_likely(h->flags & (CHAN_USER_MSG | CHAN_ERROR))) {
		chan_client_pop_reply((struct chan_client *)session, lls, m, h);
	} else {
		xk_lock(&e->lock);
		chan_end_pop_word(e, lls, m, h);
	}
}

/* ---- opening and asking ---- */

static int
chan_client_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	struct chan_client *c = (struct chan_client *)session;
	struct chan_after after = { .m = NULL };
	uint64_t deadline_ns;

	switch (op) {
	case XK_CHAN_SET_DEADLINE:
		if (len < sizeof(deadline_ns))
			return -EMSGSIZE;
		memcpy(&deadline_ns, buffer, sizeof(deadline_ns));
		if (deadline_ns < 1000 || deadline_ns > UINT64_MAX / 4)
			return -EINVAL;
		xk_lock(&c->end.lock);
		c->deadline_ns = deadline_ns;
		xk_unlock(&c->end.lock);
		return 0;
	case XK_CHAN_GET_DEADLINE:
		return xk_answer(buffer, len, &c->deadline_ns, sizeof(c->deadline_ns));
	case XK_CHAN_ABORT:
		xk_lock(&c->end.lock);
		chan_client_give_up(&c->end, -ECANCELED, &after);
		xk_unlock(&c->end.lock);
		if (after.ended)
			chan_client_tell(&c->end, &after);
		return 0;
	default:
		return -ENOTSUP;
	}
}

static const struct xk_session_ops chan_client_session_ops = {
	.size = sizeof(struct chan_client),
	.push = chan_end_push,
	.pop = chan_client_pop,
	.call = chan_client_call,
	.call_async = chan_client_call_async,
	.let_go = chan_end_let_go,
	.close = chan_end_close,
	.control = chan_client_control,
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
