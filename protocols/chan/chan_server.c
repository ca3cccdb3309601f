/*
 * chan_server.c - the server's end of a channel.
 *
 *                       REQ(new): the handler runs
 *         +--------+ ------------------------------> +---------+ --+  REQ(current), probe(current): ACK if asked for
 *         |  IDLE  |                                 | EXECUTE |   |  REQ(new), probe(new): noted; ACK if asked for
 *         +--------+ <------------------------------ +---------+ <-+
 *           ^    ^      it was noted: NACK(new); or       |
 *           |    |      too much is kept: REP(n)          | REP(n), which is kept
 *           |    |                                        v
 *           |    |   ACK(n+1), or given up           +---------+ --+  time-out: REP(n, ack?) or probe(n, ack?)
 *           |    +---------------------------------- | REPLIED |   |  REQ(n, ack?), probe(n, ack?), NACK(n): REP(n)
 *           |                                        +---------+ <-+
 *           |    probe(new): NACK(new)                    |
 *           +---------------------------------------------+  REQ(new), to EXECUTE: an implicit ack
 *
 * Old sequence numbers are dropped in each of them, and no handler runs beside another one of its channel. A probe in IDLE is
 * answered with NACK(new), or if it is about a reply that is gone with an error. What an end knows of one boot of the client is
 * void when there is another: the end is disabled, and what its handler replies suppressed.
 */
#include <errno.h>

#include "protocols/chan/chan_private.h"
#include "xkernel/trace.h"

/* What was decided of a message. */
enum chan_verdict {
	CHAN_RUN,          /* the handler runs */
	CHAN_ANSWER_ACK,   /* I have it */
	CHAN_ANSWER_NACK,  /* I have not */
	CHAN_ANSWER_REPLY, /* the reply, again */
	CHAN_ANSWER_GONE,  /* it was run, and the reply is no more */
	CHAN_ANSWER_NONE,
	CHAN_ANSWER_LATER,   /* it was sent just now */
	CHAN_ANSWER_REFUSED, /* nobody is there to run it */
};

/* ---- the reply that is kept; the lock is held ---- */

static inline void
chan_server_forget_copy(struct chan_server *s)
{
	struct chan_end *e = &s->end;

	if (e->copy.m != NULL) {
		chan_peer_unsave(e->peer, chan_copy_cost(e->copy.m));
		xk_msg_free(e->copy.m);
		e->copy.m = NULL;
	}
	e->copied = false;
}

/* Keeps reply (NULL: nothing) until it has arrived. False: it cannot be. */
static bool
chan_server_keep(struct chan_server *s, const struct xk_msg *reply)
{
	struct chan_end *e = &s->end;
	bool is_long = reply != NULL && xk_msg_len(reply) > CHAN_SHORT;

	if (xk_unlikely(is_long && !chan_peer_save(e->peer, chan_copy_cost(reply))))
		return false;
	if (xk_unlikely(reply == NULL))
		e->copy.len = 0;
	e->copied = reply == NULL || chan_copy_take(&e->copy, reply);
	if (xk_unlikely(!e->copied && is_long))
		chan_peer_unsave(e->peer, chan_copy_cost(reply));
	return e->copied;
}

static unsigned
chan_server_flags(const struct chan_server *s)
{
	return CHAN_USER_MSG | (s->status != 0 ? CHAN_ERROR : 0);
}

/* Nobody asks for the reply any more. */
static void
chan_server_is_acked(struct chan_server *s, struct xk_ticket *ticket)
{
	chan_ticket_take(&s->end, ticket);
	chan_server_forget_copy(s);
	s->end.state = CHAN_IDLE;
}

/* ---- replying ---- */

/* The handler is done: what becomes of its reply, and of the end. 0, or what to count. The lock is held. */
static int
chan_server_conclude(struct chan_server *s, const struct xk_msg *reply, uint64_t now_ns)
{
	struct chan_end *e = &s->end;

	s->heard_ns = now_ns;
	e->state = CHAN_IDLE;
	if (e->disabled)
		return CHAN_SUPPRESSED;
	if (s->has_newer)
		return CHAN_ABANDONED;
	if (!chan_server_keep(s, reply))
		return CHAN_UNSAVED;
	e->state = CHAN_REPLIED;
	chan_end_is_new(e, now_ns);
	e->due_ns = now_ns + e->timeout_ns;
	chan_end_wake(e, e->due_ns, now_ns);
	return 0;
}

/* Counts what has become of reply. True: nobody wants it, it is freed, and a newer request is asked for. */
__attribute__((noinline)) static bool
chan_server_gives_up(struct chan_server *s, unsigned counter, struct xk_msg *reply, uint32_t newer)
{
	struct chan_end *e = &s->end;
	struct xk_protocol *self = e->session.protocol;
	const struct chan_header h = { e->channel, e->number, newer, CHAN_FROM_CLIENT, 0 };

	xk_count(self, counter);
	if (counter == CHAN_UNSAVED)
		return false;
	xk_msg_free(reply);
	if (counter == CHAN_ABANDONED)
		chan_answer(self, e->session.lls, &h, newer, CHAN_NEGATIVE_ACK, 0);
	return true;
}

/* Sends what the handler of the request sequence has replied, unless nobody wants it. Takes reply. */
static void
chan_server_reply(struct chan_server *s, uint32_t sequence, unsigned status, struct xk_msg *reply)
{
	struct chan_end *e = &s->end;
	struct xk_protocol *self = e->session.protocol;
	uint64_t now_ns = xk_now_ns(self);
	uint32_t newer;
	int counter;

	xk_lock(&e->lock);
	s->status = (uint16_t)status;
	counter = chan_server_conclude(s, reply, now_ns);
	newer = s->newer;
	xk_unlock(&e->lock);
	if (xk_unlikely(counter != 0 && chan_server_gives_up(s, (unsigned)counter, reply, newer)))
		return;
	if (xk_likely(reply != NULL))
		chan_send(e, reply, sequence, CHAN_USER_MSG | (status != 0 ? CHAN_ERROR : 0), status);
}

/* The handler runs: nobody else is in CHAN_EXECUTE here. Takes m. */
static void
chan_server_run(struct chan_server *s, struct xk_msg *m, uint32_t sequence)
{
	struct xk_protocol *self = s->end.session.protocol;
	struct xk_msg *reply = NULL;
	int status = xk_call_demux(&s->end.session, m, &reply);
	unsigned error = 0;

	xk_count(self, CHAN_EXECUTED);
	if (xk_unlikely(status == 0 && reply != NULL && xk_msg_len(reply) > s->end.max_packet))
		status = -EMSGSIZE;
	if (xk_unlikely(status != 0)) {
		xk_count(self, CHAN_FAILED);
		error = chan_status_of_handler(status);
		xk_msg_free(reply);
		reply = NULL;
	}
	if (xk_unlikely(reply == NULL))
		reply = xk_msg_new(xk_platform_of(self), 0);
	chan_server_reply(s, sequence, error, reply);
}

/* ---- what a client says; the lock is held ---- */

static bool
chan_server_is_enabled(struct chan_server *s)
{
	const struct xk_enable *enable = xk_table_enabled(s->end.session.protocol, xk_table_number_key(s->end.number));

	return enable != NULL && enable->hlp_receive == xk_hlp_receive(&s->end.session);
}

/* About the latest request: it comes again, or the reply is asked for. */
static enum chan_verdict
chan_server_judge_current(struct chan_server *s, const struct chan_header *h, uint64_t now_ns)
{
	struct chan_end *e = &s->end;

	if (!(h->flags & (CHAN_ACK_REQUESTED | CHAN_NEGATIVE_ACK)))
		return CHAN_ANSWER_NONE; /* the network has made another one of it */
	if (e->state == CHAN_EXECUTE)
		return h->flags & CHAN_NEGATIVE_ACK ? CHAN_ANSWER_NONE : CHAN_ANSWER_ACK;
	if (e->state == CHAN_IDLE)
		return CHAN_ANSWER_GONE;
	if (chan_end_may_wait(e, now_ns))
		return CHAN_ANSWER_ACK;
	if (chan_end_is_too_soon(e, now_ns))
		return CHAN_ANSWER_LATER;
	if (chan_end_may_repeat(e, CHAN_REPEATS_MAX, now_ns))
		return CHAN_ANSWER_REPLY;
	xk_count(e->session.protocol, CHAN_WITHHELD);
	return CHAN_ANSWER_ACK;
}

/* A newer request, or the question whether it is here. */
static enum chan_verdict
chan_server_judge_new(struct chan_server *s, const struct chan_header *h, struct xk_ticket *ticket)
{
	struct chan_end *e = &s->end;

	if (xk_unlikely(e->state == CHAN_EXECUTE)) {
		if (!s->has_newer || (int32_t)(h->sequence - s->newer) > 0)
			s->newer = h->sequence;
		s->has_newer = true;
		return h->flags & CHAN_ACK_REQUESTED ? CHAN_ANSWER_ACK : CHAN_ANSWER_NONE;
	}
	if (e->state == CHAN_REPLIED)
		chan_server_is_acked(s, ticket);
	if (xk_unlikely(!chan_server_is_enabled(s)))
		return CHAN_ANSWER_REFUSED;
	if (!(h->flags & CHAN_USER_MSG))
		return CHAN_ANSWER_NACK;
	e->state = CHAN_EXECUTE;
	e->sequence = h->sequence;
	s->has_newer = false;
	return CHAN_RUN;
}

/* An explicit ack bears the sequence number after the one that it is for. 0, or the reason to drop it. */
static unsigned
chan_server_hear_ack(struct chan_server *s, const struct chan_header *h, uint64_t now_ns, struct xk_ticket *ticket)
{
	struct chan_end *e = &s->end;

	if (e->state != CHAN_REPLIED || h->sequence != e->sequence + 1)
		return CHAN_STALE;
	if (e->tries == 1) /* it was asked for once */
		chan_end_measure(e, now_ns - e->sent_ns);
	chan_server_is_acked(s, ticket);
	return 0;
}

/* 0 and the verdict, or the reason to drop it. */
static unsigned
chan_server_judge(struct chan_server *s, const struct chan_header *h, enum chan_verdict *verdict,
		  struct xk_ticket *ticket)
{
	int32_t ahead = (int32_t)(h->sequence - s->end.sequence);
	uint64_t now_ns;

	if (xk_unlikely(s->end.disabled))
		return XK_DROP_NO_SESSION;
	if (xk_likely(ahead > 0 && h->flags != CHAN_FROM_CLIENT)) {
		if (h->flags & CHAN_NEGATIVE_ACK)
			return CHAN_STALE; /* of a reply that was never sent */
		*verdict = chan_server_judge_new(s, h, ticket);
		return *verdict == CHAN_RUN || !(h->flags & CHAN_USER_MSG) ? 0
		       : *verdict == CHAN_ANSWER_REFUSED                   ? XK_DROP_NO_SESSION
									   : CHAN_BUSY;
	}
	if (ahead < 0)
		return CHAN_STALE;
	s->heard_ns = now_ns = xk_now_ns(s->end.session.protocol);
	if (h->flags == CHAN_FROM_CLIENT)
		return chan_server_hear_ack(s, h, now_ns, ticket);
	*verdict = chan_server_judge_current(s, h, now_ns);
	if (*verdict == CHAN_ANSWER_LATER)
		return CHAN_TOO_SOON;
	return h->flags & CHAN_USER_MSG ? CHAN_DUPLICATE : 0;
}

/* The reply once more, with these flags besides. NULL: no buffer. The lock is held. */
static struct xk_msg *
chan_server_repeat(struct chan_server *s, bool bare)
{
	struct xk_protocol *self = s->end.session.protocol;

	xk_count(self, CHAN_REPEATED);
	if (bare)
		return xk_msg_new(xk_platform_of(self), 0);
	chan_end_is_sent(&s->end, xk_now_ns(self));
	return chan_copy_give(self, &s->end.copy);
}

/* Says what was decided about h. */
static void
chan_server_answer(struct chan_server *s, struct xk_session *lls, const struct chan_header *h,
		   enum chan_verdict verdict)
{
	struct xk_protocol *self = s->end.session.protocol;

	if (verdict == CHAN_ANSWER_ACK)
		chan_answer(self, lls, h, h->sequence, 0, 0);
	else if (verdict == CHAN_ANSWER_NACK)
		chan_answer(self, lls, h, h->sequence, CHAN_NEGATIVE_ACK, 0);
	else if (verdict == CHAN_ANSWER_GONE)
		chan_answer(self, lls, h, h->sequence, CHAN_ERROR, ETIMEDOUT);
	else if (verdict == CHAN_ANSWER_REFUSED)
		chan_answer(self, lls, h, h->sequence, CHAN_ERROR, ECONNREFUSED);
}

static void
chan_server_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct chan_server *s = (struct chan_server *)session;
	const struct chan_header *h = hdr;
	enum chan_verdict verdict = CHAN_ANSWER_NONE;
	struct xk_ticket ticket; /* its keeper says whether it is one */
	struct xk_msg *again = NULL;
	unsigned why, flags, status;

	ticket.keeper = NULL;
	xk_lock(&s->end.lock);
	why = chan_server_judge(s, h, &verdict, &ticket);
	flags = chan_server_flags(s);
	status = s->status;
	if (xk_unlikely(verdict == CHAN_ANSWER_REPLY))
		again = chan_server_repeat(s, false);
	xk_unlock(&s->end.lock);
	xk_ticket_release(&ticket);
	if (xk_likely(verdict == CHAN_RUN)) {
		chan_server_run(s, m, h->sequence);
		return;
	}
	chan_server_answer(s, lls, h, verdict);
	if (again != NULL)
		chan_send(&s->end, again, h->sequence, flags | CHAN_AGAIN, status);
	if (why != 0)
		xk_drop(session->protocol, m, why);
	else
		xk_msg_free(m);
}

/* ---- the timer, which keeps the end alive ---- */

/* What is sent when nobody has acknowledged the reply; NULL: nothing, or no buffer. The lock is held. */
static struct xk_msg *
chan_server_retry(struct chan_server *s, uint64_t now_ns, struct xk_ticket *ticket, unsigned *flags)
{
	struct chan_end *e = &s->end;
	bool bare;

	if (e->tries == chan_of(e)->retries) {
		xk_count(e->session.protocol, CHAN_GIVEN_UP);
		chan_server_is_acked(s, ticket);
		return NULL;
	}
	bare = e->copy.len > e->opt_packet || chan_end_is_being_sent(e, now_ns) ||
	       !chan_end_may_repeat(e, CHAN_UNASKED_MAX, now_ns);
	chan_end_back_off(e, now_ns);
	*flags = CHAN_ACK_REQUESTED | (bare ? 0 : chan_server_flags(s));
	return chan_server_repeat(s, bare);
}

/* When there will be something to do again. The lock is held. */
static uint64_t
chan_server_next_ns(const struct chan_server *s, uint64_t now_ns)
{
	if (s->end.state == CHAN_REPLIED)
		return s->end.due_ns;
	if (s->end.state == CHAN_EXECUTE)
		return now_ns + s->end.timeout_ns;
	return s->heard_ns + chan_of(&s->end)->lifetime_ns;
}

/* Out of reach; requests that have found it before drop. */
static void
chan_server_leave(struct chan_server *s)
{
	xk_map_unbind(&s->end.session.protocol->table.sessions, &s->end.session.binding);
}

static void
chan_server_expire(struct xk_event *event, void *argument)
{
	struct chan_server *s = argument;
	struct chan_end *e = &s->end;
	struct xk_ticket ticket = { .keeper = NULL };
	struct xk_msg *m = NULL;
	unsigned flags = 0, status;
	uint32_t sequence;
	bool forgets;
	uint64_t now_ns;

	(void)event;
	xk_lock(&e->lock);
	now_ns = xk_now_ns(e->session.protocol);
	if (e->state == CHAN_REPLIED && !e->disabled && now_ns >= e->due_ns)
		m = chan_server_retry(s, now_ns, &ticket, &flags);
	status = flags & CHAN_ERROR ? s->status : 0;
	sequence = e->sequence;
	forgets = e->state == CHAN_IDLE && now_ns >= s->heard_ns + chan_of(e)->lifetime_ns && !e->disabled;
	e->disabled |= forgets;
	e->timing = false;
	if (!e->disabled)
		chan_end_wake_again(e, chan_server_next_ns(s, now_ns), now_ns);
	xk_unlock(&e->lock);
	xk_ticket_release(&ticket);
	if (m != NULL)
		chan_send(e, m, sequence, flags | CHAN_AGAIN, status);
	if (forgets) {
		xk_count(e->session.protocol, CHAN_FORGOTTEN);
		chan_server_leave(s);
	}
	xk_session_release(&e->session);
}

/* ---- the end's own end ---- */

void
chan_server_disable(struct chan_server *s)
{
	struct chan_end *e = &s->end;
	struct xk_ticket ticket;
	bool lets_go;

	xk_lock(&e->lock);
	e->disabled = true;
	ticket = e->ticket;
	e->ticket.keeper = NULL;
	chan_server_forget_copy(s);
	lets_go = e->timing && xk_event_cancel(&e->timer) == XK_EVENT_CANCELLED;
	e->timing = e->timing && !lets_go;
	xk_unlock(&e->lock);
	chan_server_leave(s);
	xk_ticket_release(&ticket);
	xk_trace(e->session.protocol, XK_TRACE_EVENTS, "channel %x of a client is void", e->channel);
	xk_close_done(&e->session);
	if (lets_go)
		xk_session_release(&e->session);
}

/* A shepherd may still be on its way out of here, with a reply that nobody wants. */
static void
chan_server_close(struct xk_session *session)
{
	struct chan_server *s = (struct chan_server *)session;
	struct xk_ticket ticket;

	if (s->end.peer == NULL)
		return;
	xk_lock(&s->end.lock);
	ticket = s->end.ticket;
	s->end.ticket.keeper = NULL;
	chan_server_forget_copy(s);
	xk_unlock(&s->end.lock);
	xk_ticket_release(&ticket);
	chan_peer_leave(&s->end);
}

static const struct xk_session_ops chan_server_session_ops = {
	.size = sizeof(struct chan_server),
	.push = chan_end_push,
	.pop = chan_server_pop,
	.close = chan_server_close,
};

/* ---- a new channel ---- */

/* The hlp is told of s, and the timer gets the caller's reference. 0, or the reason to drop the request. */
static unsigned
chan_server_begin(struct chan_server *s)
{
	struct chan_end *e = &s->end;
	struct xk_session *session = &e->session;
	uint64_t now_ns = xk_now_ns(session->protocol);

	if (xk_open_done(xk_hlp_receive(session), session->protocol, session, session->hlp_type) != 0) {
		chan_server_disable(s);
		xk_session_release(session);
		return XK_DROP_REFUSED;
	}
	xk_lock(&e->lock);
	s->heard_ns = now_ns;
	if (!e->disabled) /* a request that overtook this one may have done so already */
		chan_end_wake(e, now_ns + e->timeout_ns, now_ns);
	xk_unlock(&e->lock);
	xk_session_release(session);
	return 0;
}

/* An end over lls, which is taken, also on failure. 0, or the reason to drop the request. */
static unsigned
chan_server_new(struct chan *chan, const struct xk_enable *enable, struct xk_session *lls, const struct xk_msg *m,
		const struct chan_header *h, struct chan_server **server)
{
	struct chan_server *s = (struct chan_server *)xk_session_new(&chan->protocol, &chan_server_session_ops,
								     enable->hlp_receive, enable->hlp_type, lls);
	int err;

	if (s == NULL) {
		xk_close(lls);
		return XK_DROP_NO_MEMORY;
	}
	*server = s;
	s->end.is_server = true;
	s->end.channel = h->channel;
	s->end.sequence = h->sequence - 1;
	err = chan_end_init(&s->end, chan_server_expire, h->number, xk_msg_from_boot(m));
	if (err == 0)
		return chan_server_begin(s);
	xk_close(&s->end.session);
	/* what is left is want of memory, or a session below of which nothing can be made */
	return err == -ENOBUFS    ? CHAN_TOO_MANY
	       : err == -EEXIST   ? CHAN_DUPLICATE
	       : err == -ESTALE   ? CHAN_OLD_BOOT
	       : err == -EALREADY ? CHAN_STALE
				  : XK_DROP_NO_MEMORY;
}

/* Nothing is remembered of what is only asked about, nor of a call that an end may have run, and forgotten. */
struct xk_session *
chan_server_accept(struct chan *chan, struct xk_session *lls, struct xk_msg *m, const struct chan_header *h)
{
	struct xk_protocol *self = &chan->protocol;
	const struct xk_enable *enable = xk_table_enabled(self, xk_table_number_key(h->number));
	bool is_request = (h->flags & CHAN_USER_MSG) != 0;
	unsigned why = XK_DROP_NO_SESSION;
	struct chan_server *s;

	if (is_request && chan_age_ns(h->status) > chan->lifetime_ns / 2)
		why = CHAN_STALE;
	else if (is_request && enable != NULL && xk_duplicate(lls))
		why = chan_server_new(chan, enable, lls, m, h, &s);
	if (why == 0)
		return &s->end.session;
	if (why == CHAN_STALE)
		chan_answer(self, lls, h, h->sequence, CHAN_ERROR, ETIMEDOUT);
	else if (enable == NULL ? h->flags != CHAN_FROM_CLIENT : why == CHAN_TOO_MANY || why == XK_DROP_REFUSED)
		chan_answer(self, lls, h, h->sequence, CHAN_ERROR, ECONNREFUSED);
	else if (enable != NULL && !is_request && (h->flags & CHAN_ACK_REQUESTED))
		chan_answer(self, lls, h, h->sequence, CHAN_NEGATIVE_ACK, 0);
	xk_drop(self, m, why);
	return NULL;
}
