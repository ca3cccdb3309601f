/*
 * chan_client.c - the client's end of a channel.
 *
 *                       call: REQ(n+1)
 *           +--------+ ------------------> +--------+ --+  time-out: REQ(n, ack?) or probe(n, ack?)
 *           |  FREE  |                     |  WAIT  |   |  "ack": it has it; probes from now on
 *           +--------+ <------------------ +--------+ <-+  "nack": REQ(n)
 *               ^   async: done told           |           "ack?": NACK(n), the reply was missed
 *               |                              |  sync
 *               |  the shepherd takes it   +--------+      (a reply, an error, the deadline, silence, ABORT,
 *               +------------------------- | ENDED  |       a reboot of the server end WAIT)
 *                                          +--------+
 *
 * In each of them a reply that asks for it is acknowledged, ACK(n+1), unless a newer request does that. A channel whose server
 * has been booted again, or is lost, is disabled: calls fail.
 */
#include <errno.h>

#include "protocols/chan/chan_private.h"
#include "xkernel/trace.h"

/* ---- the end of a call ---- */

/* What is left to do when the lock has been given back. */
struct chan_ended {
	struct xk_call *call;
	int status;
	struct xk_msg *reply, *copy;
	struct xk_ticket ticket;
};

/* The call under way ends. The lock is held. */
static void
chan_client_end(struct chan_client *c, int status, struct xk_msg *reply, struct chan_ended *ended)
{
	struct chan_end *e = &c->end;

	ended->call = c->call;
	ended->status = status;
	ended->reply = reply;
	ended->copy = e->copy.m;
	chan_ticket_take(e, &ended->ticket);
	e->copied = false;
	e->copy.m = NULL;
	c->call = NULL;
	if (ended->call != NULL) {
		e->state = CHAN_FREE;
	} else {
		e->state = CHAN_ENDED;
		c->status = status;
		c->reply = reply;
	}
}

/* The same without an answer: what becomes of it at the server is not known. The lock is held. */
static void
chan_client_give_up(struct chan_client *c, int status, struct chan_ended *ended)
{
	c->gave_up = true;
	c->given_up = c->end.sequence;
	chan_client_end(c, status, NULL, ended);
}

/* Tells whoever waits. */
static void
chan_client_tell(struct chan_client *c, struct chan_ended *ended)
{
	if (ended->copy != NULL)
		xk_msg_free(ended->copy);
	xk_ticket_release(&ended->ticket);
	if (ended->call != NULL)
		xk_call_done(ended->call, ended->status, ended->reply);
	else
		xk_semaphore_signal(&c->ended);
}

/* Ends the call, if there is one. */
static void
chan_client_break(struct chan_client *c, int status, bool disables)
{
	struct chan_ended ended;
	bool waits;

	xk_lock(&c->end.lock);
	waits = c->end.state == CHAN_WAIT;
	c->end.disabled |= disables;
	if (waits)
		chan_client_give_up(c, status, &ended);
	xk_unlock(&c->end.lock);
	if (waits)
		chan_client_tell(c, &ended);
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

/* A call begins, if the channel is free. m stays the caller's. 0 or -errno. The lock is held. */
static int
chan_client_take(struct chan_client *c, const struct xk_msg *m, struct xk_call *call, uint64_t now_ns)
{
	struct chan_end *e = &c->end;

	if (xk_unlikely(e->disabled))
		return -ECONNRESET;
	if (xk_unlikely(e->state != CHAN_FREE))
		return -EBUSY;
	if (xk_unlikely(!chan_copy_take(&e->copy, m)))
		return -ENOBUFS;
	c->heard_ns = now_ns;
	chan_end_is_new(e, now_ns);
	e->due_ns = now_ns + e->timeout_ns;
	c->begun_ns = now_ns;
	c->ends_ns = now_ns + c->deadline_ns;
	if (!chan_end_wake(e, e->due_ns < c->ends_ns ? e->due_ns : c->ends_ns, now_ns)) {
		xk_msg_free(e->copy.m);
		e->copy.m = NULL;
		return -ECONNRESET;
	}
	e->copied = true;
	e->state = CHAN_WAIT;
	e->sequence++;
	c->acked = false;
	c->call = call;
	return 0;
}

static unsigned
chan_client_why(int err)
{
	return err == -EBUSY ? CHAN_BUSY : err == -ENOBUFS ? XK_DROP_NO_BUFFER : CHAN_CLOSED;
}

/* Begins a call with m, which is taken; call NULL: a shepherd will wait. 0 or -errno. */
static int
chan_client_begin(struct chan_client *c, struct xk_msg *m, struct xk_call *call)
{
	struct xk_protocol *self = c->end.session.protocol;
	uint64_t now_ns = xk_now_ns(self);
	uint32_t sequence;
	int err;

	if (xk_unlikely(xk_msg_len(m) > c->end.max_packet)) {
		xk_drop(self, m, CHAN_TOO_BIG);
		return -EMSGSIZE;
	}
	xk_lock(&c->end.lock);
	err = chan_client_take(c, m, call, now_ns);
	sequence = c->end.sequence;
	xk_unlock(&c->end.lock);
	if (xk_unlikely(err != 0)) {
		xk_drop(self, m, chan_client_why(err));
		return err;
	}
	xk_count(self, CHAN_CALLED);
	chan_send(&c->end, m, sequence, CHAN_FROM_CLIENT | CHAN_USER_MSG | (call == NULL ? CHAN_MAY_WAIT : 0), 0);
	return 0;
}

static int
chan_client_call_async(struct xk_session *session, struct xk_msg *m, struct xk_call *call)
{
	return chan_client_begin((struct chan_client *)session, m, call);
}

/* The shepherd has been woken, or could not wait (woken is not 0). False: too early. */
static bool
chan_client_collect(struct chan_client *c, int woken, int *status, struct xk_msg **reply)
{
	struct chan_ended ended;
	bool over, ends;

	xk_lock(&c->end.lock);
	ends = c->end.state == CHAN_WAIT && woken != 0;
	if (ends)
		chan_client_give_up(c, woken, &ended);
	over = c->end.state == CHAN_ENDED;
	if (over) {
		*status = c->status;
		*reply = c->reply;
		c->end.state = CHAN_FREE;
	}
	xk_unlock(&c->end.lock);
	if (ends) {
		xk_msg_free(ended.copy);
		xk_ticket_release(&ended.ticket);
	}
	return over;
}

/* A signal may be left of a call whose shepherd had given up: whoever is woken looks. */
static int
chan_client_call(struct xk_session *session, struct xk_msg *m, struct xk_msg **reply)
{
	struct chan_client *c = (struct chan_client *)session;
	int status = chan_client_begin(c, m, NULL);

	if (status != 0)
		return status;
	while (!chan_client_collect(c, xk_semaphore_wait(&c->ended, XK_FOREVER), &status, reply))
		;
	return status;
}

/* ---- the timer ---- */

/* The request once more, which says its age. NULL: no buffer. The lock is held. */
static struct xk_msg *
chan_client_repeat(struct chan_client *c, uint64_t now_ns, unsigned *age)
{
	chan_end_is_sent(&c->end, now_ns);
	*age = chan_age_pack(now_ns - c->begun_ns);
	return chan_copy_give(c->end.session.protocol, &c->end.copy);
}

/* What to send when nobody has answered. NULL: no buffer. The lock is held. */
static struct xk_msg *
chan_client_retry(struct chan_client *c, uint64_t now_ns, unsigned *flags, unsigned *age)
{
	struct xk_protocol *self = c->end.session.protocol;
	bool probes = c->acked || c->end.copy.len > c->end.opt_packet || chan_end_is_being_sent(&c->end, now_ns) ||
		      !chan_end_may_repeat(&c->end, CHAN_UNASKED_MAX, now_ns);

	chan_end_back_off(&c->end, now_ns);
	if (c->acked)
		c->end.due_ns = now_ns + chan_of(&c->end)->timeout_max_ns;
	xk_count(self, probes ? CHAN_PROBED : CHAN_RETRANSMITTED);
	*flags = CHAN_FROM_CLIENT | CHAN_ACK_REQUESTED | (probes ? 0 : CHAN_USER_MSG);
	return probes ? xk_msg_new(xk_platform_of(self), 0) : chan_client_repeat(c, now_ns, age);
}

static bool
chan_client_is_too_late(const struct chan_client *c, uint64_t now_ns)
{
	return now_ns >= c->ends_ns || now_ns >= c->heard_ns + chan_of(&c->end)->silence_ns;
}

static void
chan_client_expire(struct xk_event *event, void *argument)
{
	struct chan_client *c = argument;
	struct chan_end *e = &c->end;
	struct xk_protocol *self = e->session.protocol;
	struct chan_ended ended;
	struct xk_msg *m = NULL;
	unsigned flags = 0, age = 0;
	uint32_t sequence;
	uint64_t now_ns;
	bool waits, ends;

	(void)event;
	xk_lock(&e->lock);
	now_ns = xk_now_ns(self);
	waits = e->state == CHAN_WAIT;
	ends = waits && chan_client_is_too_late(c, now_ns);
	sequence = e->sequence;
	if (ends)
		chan_client_give_up(c, -ETIMEDOUT, &ended);
	else if (waits && now_ns >= e->due_ns)
		m = chan_client_retry(c, now_ns, &flags, &age);
	e->timing = false;
	if (waits && !ends)
		chan_end_wake_again(e, e->due_ns < c->ends_ns ? e->due_ns : c->ends_ns, now_ns);
	xk_unlock(&e->lock);
	if (m != NULL)
		chan_send(e, m, sequence, flags | CHAN_AGAIN, age);
	if (ends) {
		xk_count(self, CHAN_TIMED_OUT);
		chan_client_tell(c, &ended);
	}
	xk_session_release(&e->session);
}

/* ---- hearing from the server ---- */

/* What the caller is told, whatever the server says: of itself it refuses, or has given the reply up, and no more. */
static int
chan_client_status(const struct chan_header *h)
{
	if (xk_likely(h->status == 0))
		return 0;
	if (h->flags & CHAN_USER_MSG)
		return -(int)chan_status_of_handler(-(int)h->status);
	return h->status == ETIMEDOUT || h->status == ECONNREFUSED ? -(int)h->status : -EREMOTEIO;
}

/* A reply, or an error. */
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
	waits = is_current && e->state == CHAN_WAIT;
	if (xk_likely(waits)) {
		if (xk_likely(e->tries == 0))
			chan_end_measure(e, now_ns - e->sent_ns);
		chan_client_end(c, chan_client_status(h), h->status == 0 ? m : NULL, &ended);
	} else if (is_current) {
		c->gave_up = false; /* the server has done with it after all */
	}
	xk_unlock(&e->lock);
	if (is_current && (h->flags & CHAN_ACK_REQUESTED))
		chan_answer(self, lls, h, h->sequence + 1, 0, 0);
	if (xk_unlikely(!waits))
		xk_drop(self, m, CHAN_UNASKED);
	else if (xk_unlikely(h->status != 0))
		xk_msg_free(m);
	if (xk_likely(waits))
		chan_client_tell(c, &ended);
}

/*
 * The server says something of the call that waits. 0, or the reason to drop it; *request is to be sent, with its age (NULL:
 * nothing). The lock is held.
 */
static unsigned
chan_client_hear(struct chan_client *c, const struct chan_header *h, uint64_t now_ns, struct xk_msg **request,
		 unsigned *age)
{
	struct chan_end *e = &c->end;

	c->heard_ns = now_ns;
	if (h->flags == 0) {
		c->acked = true;
		e->due_ns = now_ns + chan_of(e)->timeout_max_ns;
	}
	if (h->flags != CHAN_NEGATIVE_ACK || chan_end_may_wait(e, now_ns))
		return 0;
	if (chan_end_is_too_soon(e, now_ns))
		return CHAN_TOO_SOON;
	if (!chan_end_may_repeat(e, CHAN_REPEATS_MAX, now_ns)) {
		xk_count(e->session.protocol, CHAN_WITHHELD);
		return 0;
	}
	c->acked = false;
	e->tries++; /* what comes now does not say how long a round trip is */
	e->due_ns = now_ns + e->timeout_ns;
	*request = chan_client_repeat(c, now_ns, age);
	return 0;
}

static void
chan_client_pop_word(struct chan_client *c, struct xk_session *lls, struct xk_msg *m, const struct chan_header *h)
{
	struct chan_end *e = &c->end;
	struct xk_protocol *self = e->session.protocol;
	uint64_t now_ns = xk_now_ns(self);
	struct xk_msg *request = NULL;
	unsigned age = 0, why = CHAN_UNASKED;
	bool is_current, waits;

	xk_lock(&e->lock);
	is_current = h->sequence == e->sequence;
	waits = is_current && e->state == CHAN_WAIT;
	if (is_current)
		why = waits ? chan_client_hear(c, h, now_ns, &request, &age) : 0;
	xk_unlock(&e->lock);
	if (is_current && (h->flags & CHAN_ACK_REQUESTED))
		chan_answer(self, lls, h, h->sequence + !waits, waits ? CHAN_NEGATIVE_ACK : 0, 0);
	if (request != NULL)
		chan_send(e, request, h->sequence, CHAN_FROM_CLIENT | CHAN_USER_MSG | CHAN_AGAIN, age);
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
chan_client_set_deadline(struct chan_client *c, const void *buffer, size_t len)
{
	uint64_t deadline_ns;

	if (len < sizeof(deadline_ns))
		return -EMSGSIZE;
	memcpy(&deadline_ns, buffer, sizeof(deadline_ns));
	if (deadline_ns < 1000 || deadline_ns > UINT64_MAX / 4)
		return -EINVAL;
	xk_lock(&c->end.lock);
	c->deadline_ns = deadline_ns;
	xk_unlock(&c->end.lock);
	return 0;
}

static int
chan_client_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	struct chan_client *c = (struct chan_client *)session;

	switch (op) {
	case XK_CHAN_SET_DEADLINE:
		return chan_client_set_deadline(c, buffer, len);
	case XK_CHAN_GET_DEADLINE:
		return xk_answer(buffer, len, &c->deadline_ns, sizeof(c->deadline_ns));
	case XK_CHAN_ABORT:
		chan_client_break(c, -ECANCELED, false);
		return 0;
	default:
		return -ENOTSUP;
	}
}

/*
 * Between calls the timer has nothing to look at: it would only keep a channel that is closed, and its number. One that fires
 * just now lets go by itself.
 */
static void
chan_client_let_go(struct xk_session *session)
{
	struct chan_end *e = (struct chan_end *)session;
	bool lets_go;

	xk_lock(&e->lock);
	lets_go = e->state == CHAN_FREE && e->timing && xk_event_cancel(&e->timer) == XK_EVENT_CANCELLED;
	e->timing = e->timing && !lets_go;
	xk_unlock(&e->lock);
	if (lets_go)
		xk_session_release(session);
}

/* A call is under way only if the kernel ends: it has a timer, and that a reference. Its caller will not be told. */
static void
chan_client_close(struct xk_session *session)
{
	struct chan_end *e = (struct chan_end *)session;

	xk_msg_free(e->copy.m);
	xk_ticket_release(&e->ticket);
	chan_peer_leave(e);
}

static const struct xk_session_ops chan_client_session_ops = {
	.size = sizeof(struct chan_client),
	.push = chan_end_push,
	.pop = chan_client_pop,
	.call = chan_client_call,
	.call_async = chan_client_call_async,
	.let_go = chan_client_let_go,
	.close = chan_client_close,
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
	err = chan_end_init(&c->end, chan_client_expire, number, 0);
	if (err != 0)
		xk_close(&c->end.session);
	else
		*session = &c->end.session;
	return err;
}
