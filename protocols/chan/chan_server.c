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
 *           |    +---------------------------------- |  SENT   |   |  REQ(n, ack?), probe(n, ack?), NACK(n): REP(n)
 *           |                                        +---------+ <-+
 *           |    probe(new): NACK(new)                    |
 *           +---------------------------------------------+  REQ(new), to EXECUTE: an implicit ack
 *
 * Old sequence numbers are dropped in each state. A probe in IDLE is answered with NACK(new), or with an error if it is
 * about a reply that is gone. A disabled end drops everything, and its handler's reply is suppressed.
 */
#include "protocols/chan/chan_private.h"

/* ---- the handler ---- */

/* Keeps reply (NULL: an empty one) until it has arrived. Returns false if it cannot be kept. The lock is held. */
static bool
chan_server_keep(struct chan_end *e, const struct xk_msg *reply)
{
	bool is_long = reply != NULL && xk_msg_len(reply) > CHAN_SHORT;

	if (xk_unlikely(reply == NULL)) {
		e->copy.len = 0;
		return true;
	}
	if (xk_unlikely(is_long && !chan_peer_save(e->peer, reply)))
		return false;
	if (xk_likely(chan_end_copy(e, reply)))
		return true;
	chan_peer_unsave(e->peer, reply);
	return false;
}

/* Runs the handler and sends its reply. Takes m. The state is CHAN_EXECUTE, so no other shepherd runs it. */
static void
chan_server_run(struct chan_end *e, struct xk_msg *m, uint32_t sequence)
{
	struct xk_protocol *self = e->session.protocol;
	unsigned error = 0, counter = 0;
	struct xk_msg *reply = NULL;
	int status = xk_call_demux(&e->session, m, &reply);
	uint64_t now_ns;
	uint32_t newer;

	xk_count(self, CHAN_EXECUTED);
	if (xk_unlikely(status == 0 && reply != NULL && xk_msg_len(reply) > e->max_packet))
		status = -EMSGSIZE;
	if (xk_unlikely(status != 0)) {
		xk_count(self, CHAN_FAILED);
		error = chan_status_of_handler(status);
		xk_msg_free(reply);
		reply = NULL;
	}
	if (xk_unlikely(reply == NULL))
		reply = xk_msg_new(xk_platform_of(self), 0);
	now_ns = xk_now_ns(self);
	xk_lock(&e->lock);
	e->status = (uint16_t)error;
	e->flags = CHAN_USER_MSG | (error != 0 ? CHAN_ERROR : 0);
	e->heard_ns = now_ns;
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
		chan_end_wake(e, e->due_ns, now_ns);
	}
	xk_unlock(&e->lock);
	if (xk_unlikely(counter != 0))
		xk_count(self, counter);
	if (xk_unlikely(counter == CHAN_SUPPRESSED || counter == CHAN_ABANDONED)) {
		const struct chan_header h = { e->channel, e->number, newer, CHAN_FROM_CLIENT, 0 };

		xk_msg_free(reply);
		if (counter == CHAN_ABANDONED)
			chan_say(self, e->session.lls, &h, CHAN_SAY_NACK);
	} else if (xk_likely(reply != NULL)) {
		chan_send(e, reply, sequence, CHAN_USER_MSG | (error != 0 ? CHAN_ERROR : 0), error);
	}
}

/* ---- what a client says ---- */

static inline bool
chan_server_is_enabled(const struct chan_end *e)
{
	const struct xk_enable *enable = xk_table_enabled(e->session.protocol, xk_table_number_key(e->number));

	return enable != NULL && enable->hlp_receive == xk_hlp_receive(&e->session);
}

/* The lock is held. */
static void
chan_server_is_acked(struct chan_end *e, struct xk_ticket *ticket)
{
	chan_end_forget(e, ticket);
	e->state = CHAN_IDLE;
}

unsigned
chan_server_judge(struct chan_end *e, const struct chan_header *h, struct chan_after *after)
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
				after->word = CHAN_SAY_ACK;
			return is_request ? CHAN_BUSY : 0;
		}
		if (e->state == CHAN_SENT)
			chan_server_is_acked(e, &after->ticket);
		after->word = chan_server_is_enabled(e) ? CHAN_SAY_NACK : CHAN_SAY_REFUSED;
		return is_request ? XK_DROP_NO_SESSION : 0;
	}
	e->heard_ns = now_ns = xk_now_ns(self);
	if (is_ack) { /* it bears the sequence number after that of the reply */
		if (e->state != CHAN_SENT || ahead != 1)
			return CHAN_STALE;
		if (e->tries == 1) /* it was asked for once */
			chan_end_measure(e, now_ns - e->sent_ns);
		chan_server_is_acked(e, &after->ticket);
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
			after->word = CHAN_SAY_ACK;
		else
			xk_count(self, CHAN_REPEATED);
	} else if (e->state == CHAN_IDLE) {
		after->word = CHAN_SAY_GONE;
	} else if (!(h->flags & CHAN_NEGATIVE_ACK)) {
		after->word = CHAN_SAY_ACK;
	}
	return why;
}

static void
chan_server_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct chan_end *e = (struct chan_end *)session;
	const struct chan_header *h = hdr;
	struct xk_ticket ticket;

	xk_lock(&e->lock);
	if (xk_unlikely(!(h->flags & CHAN_USER_MSG) || (int32_t)(h->sequence - e->sequence) <= 0 || e->disabled ||
			e->state == CHAN_EXECUTE || !chan_server_is_enabled(e))) {
		chan_end_pop_word(e, lls, m, h);
		return;
	}
	chan_end_forget(e, &ticket); /* the request acknowledges the last reply */
	e->state = CHAN_EXECUTE;
	e->sequence = h->sequence;
	e->newer = h->sequence;
	xk_unlock(&e->lock);
	xk_ticket_release(&ticket);
	chan_server_run(e, m, h->sequence);
}

/* ---- the timer, which keeps the end alive ---- */

uint64_t
chan_server_tick(struct chan_end *e, uint64_t now_ns, struct chan_after *after)
{
	struct xk_protocol *self = e->session.protocol;
	const struct chan *chan = (struct chan *)self;
	uint64_t forget_ns = e->heard_ns + chan->lifetime_ns;

	if (e->disabled)
		return 0;
	if (e->state == CHAN_SENT && now_ns >= e->due_ns) {
		if (e->tries == chan->retries) {
			xk_count(self, CHAN_GIVEN_UP);
			chan_server_is_acked(e, &after->ticket);
		} else {
			xk_count(self, CHAN_REPEATED);
			chan_end_retry(e, false, now_ns, after);
		}
	}
	if (e->state == CHAN_SENT)
		return e->due_ns;
	if (e->state == CHAN_EXECUTE)
		return now_ns + e->timeout_ns;
	if (now_ns < forget_ns)
		return forget_ns;
	e->disabled = true;
	xk_count(self, CHAN_FORGOTTEN);
	xk_map_unbind(&self->table.sessions, &e->session.binding);
	return 0;
}

/* ---- a new channel ---- */

static const struct xk_session_ops chan_server_session_ops = {
	.size = sizeof(struct chan_end),
	.push = chan_end_push,
	.pop = chan_server_pop,
	.close = chan_end_close,
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
		/* what is left is want of memory, or a session below of which nothing can be made */
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
	e->heard_ns = now_ns;
	if (!e->disabled) /* a request that overtook this one may have started the timer already */
		chan_end_wake(e, now_ns + e->timeout_ns, now_ns);
	xk_unlock(&e->lock);
	xk_session_release(made);
	*session = made;
	return 0;
}

/*
 * A request whose call is older than half of `lifetime` may have been run and forgotten, whatever `silence` its client
 * was given. Questions alone make no end.
 */
struct xk_session *
chan_server_accept(struct chan *chan, struct xk_session *lls, struct xk_msg *m, const struct chan_header *h)
{
	struct xk_protocol *self = &chan->protocol;
	const struct xk_enable *enable = xk_table_enabled(self, xk_table_number_key(h->number));
	bool is_request = (h->flags & CHAN_USER_MSG) != 0;
	enum chan_word word = CHAN_SAY_NOTHING;
	unsigned why = XK_DROP_NO_SESSION;
	struct xk_session *session;

	if (is_request && chan_age_ns(h->status) > chan->lifetime_ns / 2)
		why = CHAN_STALE;
	else if (is_request && enable != NULL && xk_duplicate(lls))
		why = chan_server_new(chan, enable, lls, m, h, &session);
	if (why == 0)
		return session;
	if (why == CHAN_STALE)
		word = CHAN_SAY_GONE;
	else if (enable == NULL ? h->flags != CHAN_FROM_CLIENT : why == CHAN_TOO_MANY || why == XK_DROP_REFUSED)
		word = CHAN_SAY_REFUSED;
	else if (enable != NULL && !is_request && (h->flags & CHAN_ACK_REQUESTED))
		word = CHAN_SAY_NACK;
	chan_say(self, lls, h, word);
	xk_drop(self, m, why);
	return NULL;
}
