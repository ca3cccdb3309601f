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
#include "xkernel/trace.h"

/* ---- the end of a call ---- */

/* What is left to do without the lock. */
struct chan_ended {
	struct xk_call *call;
	int status;
	struct xk_msg *reply;
	struct xk_ticket ticket;
};

/* Ends the call under way. The lock is held. */
static inline void
chan_client_end(struct chan_client *c, int status, struct xk_msg *reply, struct chan_ended *ended)
{
	struct chan_end *e = &c->end;

	ended->call = c->call;
	ended->status = status;
	ended->reply = reply;
	chan_end_forget(e, &ended->ticket);
	if (ended->call != NULL) {
		c->call = NULL;
		e->state = CHAN_IDLE;
	} else {
		e->state = CHAN_ENDED;
		c->status = status;
		c->reply = reply;
	}
}

/* Tells whoever waits for the call. */
static void
chan_client_tell(struct chan_client *c, struct chan_ended *ended)
{
	xk_ticket_release(&ended->ticket);
	if (ended->call != NULL)
		xk_call_done(ended->call, ended->status, ended->reply);
	else
		xk_semaphore_signal(&c->ended);
}

/* Ends the call, if there is one. disables: there will be no other, and nothing for the timer to do. */
static void
chan_client_break(struct chan_client *c, int status, bool disables)
{
	struct chan_end *e = &c->end;
	struct chan_ended ended;
	bool waits, stops;

	xk_lock(&e->lock);
	waits = e->state == CHAN_SENT;
	if (waits)
		chan_client_end(c, status, NULL, &ended);
	e->in_doubt |= waits;
	e->disabled |= disables;
	stops = disables && chan_end_stop(e);
	xk_unlock(&e->lock);
	if (waits)
		chan_client_tell(c, &ended);
	if (stops)
		xk_session_release(&e->session);
}

void
chan_client_disable(struct chan_client *c)
{
	struct xk_session *session = &c->end.session;

	xk_count(session->protocol, CHAN_WAS_RESET);
	xk_trace(session->protocol, XK_TRACE_EVENTS, "channel %x of %s is void", c->end.channel,
		 xk_hlp_receive(session)->name);
	chan_client_break(c, -ECONNRESET, true);
	xk_close_done(session);
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
	bool ended = false;

	if (status != 0)
		return status;
	while (!ended) { /* a signal may be left of an earlier call */
		int err = xk_semaphore_wait(&c->ended, XK_FOREVER);

		if (xk_unlikely(err != 0))
			chan_client_break(c, err, false);
		xk_lock(&c->end.lock);
		ended = c->end.state == CHAN_ENDED;
		if (ended) {
			status = c->status;
			*reply = c->reply;
			c->end.state = CHAN_IDLE;
		}
		xk_unlock(&c->end.lock);
	}
	return status;
}

/* ---- the timer ---- */

static void
chan_client_expire(struct xk_event *event, void *argument)
{
	struct chan_client *c = argument;
	struct chan_end *e = &c->end;
	struct xk_protocol *self = e->session.protocol;
	const struct chan *chan = (struct chan *)self;
	struct chan_again again = { .m = NULL };
	struct chan_ended ended;
	bool waits, ends;
	uint64_t now_ns;

	(void)event;
	xk_lock(&e->lock);
	e->timing = false;
	now_ns = xk_now_ns(self);
	waits = e->state == CHAN_SENT;
	ends = waits && (now_ns >= c->ends_ns || now_ns >= e->heard_ns + chan->silence_ns);
	if (ends) {
		chan_client_end(c, -ETIMEDOUT, NULL, &ended);
		e->in_doubt = true;
	} else if (waits) {
		if (now_ns >= e->due_ns) {
			bool probes = chan_end_retry(e, c->acked, now_ns, &again);

			if (c->acked)
				e->due_ns = now_ns + chan->timeout_max_ns;
			xk_count(self, probes ? CHAN_PROBED : CHAN_RETRANSMITTED);
		}
		chan_end_wake(e, chan_client_next_ns(c), now_ns);
	}
	xk_unlock(&e->lock);
	chan_end_send_again(e, &again);
	if (ends) {
		xk_count(self, CHAN_TIMED_OUT);
		chan_client_tell(c, &ended);
	}
	xk_session_release(&e->session);
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
	struct chan_ended ended;
	bool is_current, waits;

	xk_lock(&e->lock);
	is_current = h->sequence == e->sequence;
	waits = is_current && e->state == CHAN_SENT;
	if (xk_likely(waits)) {
		if (xk_likely(e->tries == 0)) /* Karn: otherwise the reply may be to either message */
			chan_end_measure(e, now_ns - e->sent_ns);
		chan_client_end(c, chan_client_status(h), h->status == 0 ? m : NULL, &ended);
	} else if (is_current) {
		e->in_doubt = false; /* the server is done with it after all */
	}
	xk_unlock(&e->lock);
	if (is_current && (h->flags & CHAN_ACK_REQUESTED))
		chan_say(self, lls, h, h->sequence + 1, CHAN_SAY_ACK);
	if (xk_unlikely(!waits))
		xk_drop(self, m, CHAN_UNASKED);
	else if (xk_unlikely(h->status != 0))
		xk_msg_free(m);
	if (xk_likely(waits))
		chan_client_tell(c, &ended);
}

/* Handles a header alone: an ack, a negative ack, or the question whether the reply has arrived. */
static void
chan_client_pop_word(struct chan_client *c, struct xk_session *lls, struct xk_msg *m, const struct chan_header *h)
{
	struct chan_end *e = &c->end;
	struct xk_protocol *self = e->session.protocol;
	uint64_t now_ns = xk_now_ns(self);
	struct chan_again again = { .m = NULL };
	bool is_current, waits;
	unsigned why;

	xk_lock(&e->lock);
	is_current = h->sequence == e->sequence;
	waits = is_current && e->state == CHAN_SENT;
	why = is_current ? 0 : CHAN_UNASKED;
	if (waits) {
		e->heard_ns = now_ns;
		if (h->flags == 0) {
			c->acked = true;
			e->due_ns = now_ns + chan_of(e)->timeout_max_ns;
		} else if (h->flags == CHAN_NEGATIVE_ACK) {
			why = chan_end_repeat(e, now_ns, &again);
		}
		if (again.flags != 0) {
			c->acked = false;
			e->tries++; /* the reply will not tell how long a round trip is */
			e->due_ns = now_ns + e->timeout_ns;
		}
	}
	xk_unlock(&e->lock);
	if (is_current && (h->flags & CHAN_ACK_REQUESTED))
		chan_say(self, lls, h, h->sequence + !waits, waits ? CHAN_SAY_NACK : CHAN_SAY_ACK);
	chan_end_send_again(e, &again);
	if (why == 0)
		xk_msg_free(m);
	else
		xk_drop(self, m, why);
}

static void
chan_client_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	const struct chan_header *h = hdr;

	if (xk_likely(h->flags & (CHAN_USER_MSG | CHAN_ERROR)))
		chan_client_pop_reply((struct chan_client *)session, lls, m, h);
	else
		chan_client_pop_word((struct chan_client *)session, lls, m, h);
}

/* ---- opening, asking and closing ---- */

static int
chan_client_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	struct chan_client *c = (struct chan_client *)session;
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
		chan_client_break(c, -ECANCELED, false);
		return 0;
	default:
		return -ENOTSUP;
	}
}

/* Between calls the timer would only keep a closed channel, and its number, from being used again. */
static void
chan_client_let_go(struct xk_session *session)
{
	struct chan_end *e = (struct chan_end *)session;
	bool stops;

	xk_lock(&e->lock);
	stops = e->state == CHAN_IDLE && chan_end_stop(e);
	xk_unlock(&e->lock);
	if (stops)
		xk_session_release(session);
}

static const struct xk_session_ops chan_client_session_ops = {
	.size = sizeof(struct chan_client),
	.push = chan_end_push,
	.pop = chan_client_pop,
	.call = chan_client_call,
	.call_async = chan_client_call_async,
	.let_go = chan_client_let_go,
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
	err = chan_end_init(&c->end, chan_client_expire, number, 0);
	if (err != 0)
		xk_close(&c->end.session);
	else
		*session = &c->end.session;
	return err;
}
