/*
 * am_receive.c - AM's serving half: recognizes new requests, runs their handlers, writes stores and keeps replies. am.c
 * has the protocol.
 *
 * Why a request is run at most once: it names its session, which is one of one boot, by 64 random bits. Of its sequence
 * numbers, those before `served_oldest` have been answered, as the peer itself has confirmed; later ones, at most as
 * many as credits, have a slot each with their progress.
 */
#include "protocols/papers/am_private.h"

/* ---- slots; the lock is held ---- */

static void
am_free_slot(struct am_session *s, struct am_served *served)
{
	if (served->m == NULL)
		return;
	xk_share_give(s->share, xk_msg_buffers(served->m));
	xk_msg_free(served->m);
	served->m = NULL;
}

/* The peer has had the answers to all before `oldest`. */
static void
am_forget_before(struct am_session *s, uint32_t oldest)
{
	for (unsigned i = 0; i < AM_SLOTS && am_before(s->served_oldest, oldest); i++) {
		struct am_served *served = &s->served[s->served_oldest++ % AM_SLOTS];

		am_free_slot(s, served);
		served->progress = AM_NEVER;
	}
	if (am_before(s->served_oldest, oldest))
		s->served_oldest = oldest;
}

void
am_served_clear(struct am_session *s)
{
	for (unsigned i = 0; i < AM_SLOTS; i++) {
		am_free_slot(s, &s->served[i]);
		s->served[i].progress = AM_NEVER;
	}
}

uint64_t
am_served_due(struct am_session *s, uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	for (unsigned i = 0; i < AM_SLOTS; i++) {
		struct am_served *served = &s->served[i];

		if (served->progress == AM_KEPT && served->until_ns <= now_ns) {
			am_free_slot(s, served);
			served->progress = AM_DONE;
			xk_count(s->session.protocol, AM_EXPIRED);
		} else if (served->progress == AM_KEPT && served->until_ns < next_ns) {
			next_ns = served->until_ns;
		}
	}
	return next_ns;
}

/* Returns whether all messages of the store that were sent before h are in place. */
static bool
am_is_complete(const struct am_session *s, const struct am_header *h, uint32_t before)
{
	for (uint32_t i = 1; i <= before && i < AM_SLOTS; i++) {
		const struct am_served *served = &s->served[(h->sequence - i) % AM_SLOTS];

		if (am_before(h->sequence - i, s->served_oldest))
			return true;
		if (served->progress != AM_DONE || served->sequence != h->sequence - i)
			return false;
	}
	return true;
}

/* Returns 0 if h is new, and notes that it runs; or the reason to drop it. `store`: of a store's last message. */
static unsigned
am_check(struct am_session *s, const struct am_header *h, const struct am_store_header *store)
{
	struct am_served *served = &s->served[h->sequence % AM_SLOTS];

	if (s->over || s->peer == 0 || h->from != s->peer)
		return AM_STALE;
	if (h->sequence - h->oldest >= am_of(s)->credits)
		return AM_NO_CREDIT;
	am_forget_before(s, h->oldest);
	if (am_before(h->sequence, s->served_oldest) ||
	    (served->progress != AM_NEVER && served->sequence == h->sequence))
		return AM_DUPLICATE;
	if (store != NULL && !am_is_complete(s, h, store->before))
		return AM_GAP;
	am_free_slot(s, served);
	*served = (struct am_served){ .sequence = h->sequence, .progress = AM_RUNNING };
	return 0;
}

/* Returns the slot of h, which runs, or NULL: its answer is no longer awaited. */
static struct am_served *
am_running(struct am_session *s, const struct am_header *h)
{
	struct am_served *served = &s->served[h->sequence % AM_SLOTS];

	return s->peer == h->from && served->progress == AM_RUNNING && served->sequence == h->sequence ? served : NULL;
}

/* ---- running ---- */

static bool
am_get_words(struct xk_msg **m, const struct am_header *h, struct xk_am_arrival *arrival)
{
	const uint8_t *p = h->words == 0 ? (*m)->data : xk_msg_pop(m, 4 * (size_t)h->words);

	arrival->count = h->words;
	for (unsigned i = 0; p != NULL && i < h->words; i++)
		arrival->words[i] = xk_get32(p + 4 * (size_t)i);
	return p != NULL;
}

/* Runs the handler of a request or (reply NULL) reply. Returns 0, or the reason why m was dropped. Takes m. */
static unsigned
am_run(struct am_session *s, struct xk_msg *m, const struct am_header *h, const struct xk_am_arrival *arrival,
       struct xk_am_reply *reply)
{
	struct xk_protocol *self = s->session.protocol;
	const struct xk_am_handler *handler = s->endpoint == NULL ? NULL : &s->endpoint->handlers[h->handler];

	if (handler == NULL || handler->run == NULL) {
		xk_drop(self, m, AM_NO_HANDLER);
		return AM_NO_HANDLER;
	}
	xk_count(self, reply != NULL ? AM_REQUESTS : AM_REPLIES);
	if (handler->may_wait && xk_handoff(self))
		xk_count(self, AM_LEFT);
	handler->run(handler->argument, arrival, m, reply);
	return 0;
}

void
am_pop_reply(struct am_session *s, struct xk_msg *m, const struct am_header *h)
{
	struct xk_am_arrival arrival = { .session = &s->session };

	if (am_get_words(&m, h, &arrival))
		am_run(s, m, h, &arrival, NULL);
	else
		xk_drop(s->session.protocol, m, XK_DROP_NO_BUFFER);
}

/* Hands m to the protocol above. Returns as am_run. Takes m. */
static unsigned
am_hand_up(struct am_session *s, struct xk_msg *m)
{
	struct xk_protocol *self = s->session.protocol;

	if (xk_hlp_receive(&s->session)->ops->demux == NULL) {
		xk_drop(self, m, AM_NO_HANDLER);
		return AM_NO_HANDLER;
	}
	xk_count(self, AM_REQUESTS);
	xk_demux(&s->session, m);
	return 0;
}

/* Puts the bytes of a store in their place. Returns 0, or the reason for refusing it. m stays the caller's. */
static unsigned
am_write(struct am_session *s, const struct xk_msg *m, const struct am_store_header *store,
	 struct xk_am_arrival *arrival)
{
	const struct xk_region_part part = { store->region, store->place, store->total };
	int err = xk_regions_write(&am_of(s)->regions, s->local, &part, store->offset, m, &arrival->memory);

	arrival->len = store->total;
	if (err == 0)
		xk_count(s->session.protocol, AM_STORES);
	return err == 0 ? 0 : err == -EFAULT ? AM_OUT_OF_BOUNDS : AM_BAD_REGION;
}

/* ---- answers ---- */

/* Puts headers before a reply. Returns the message to keep, or NULL: there is none, or it cannot be. */
static struct xk_msg *
am_make_reply(struct am_session *s, struct xk_am_reply *reply)
{
	struct xk_protocol *self = s->session.protocol;
	struct xk_msg *m = reply->m;

	if (!reply->given)
		return NULL;
	xk_assert(reply->number < XK_AM_HANDLERS && reply->count <= XK_AM_WORDS);
	if (m != NULL && xk_msg_len(m) + 4 * (size_t)reply->count > s->session.sends.longest) {
		xk_drop(self, m, AM_TOO_LONG);
		return NULL;
	}
	if (m == NULL)
		m = xk_msg_new(xk_platform_of(self), 0);
	if (m != NULL && am_put_words(&m, reply->words, reply->count) &&
	    am_put_header(&m, AM_REPLY, reply->number, reply->count))
		return m;
	xk_msg_free(m);
	xk_count(self, AM_UNSENT);
	return NULL;
}

/* Sends the answer that a slot has, `reply` being a copy of its message. No lock is held. */
static void
am_answer(struct am_session *s, const struct am_header *h, enum am_progress progress, unsigned reason,
	  struct xk_msg *reply)
{
	struct xk_protocol *self = s->session.protocol;
	struct am_header answer = { .kind = progress == AM_NOT_DONE ? AM_REFUSED : AM_ACK,
				    .handler = progress == AM_NOT_DONE ? reason : 0,
				    .sequence = h->sequence,
				    .to = h->from,
				    .from = s->number };

	if (progress != AM_KEPT) {
		xk_count(self, AM_ACKED);
		am_send_header(self, s->session.lls, &answer, NULL);
	} else if (reply == NULL || xk_push(s->session.lls, reply) != 0) {
		xk_count(self, AM_UNSENT);
	}
}

/* Records the outcome of h, and answers it. Takes the reply. */
static void
am_served_finish(struct am_session *s, const struct am_header *h, unsigned why, struct xk_am_reply *reply)
{
	struct am *am = am_of(s);
	struct xk_msg *m = am_make_reply(s, reply), *copy = NULL;
	enum am_progress progress = why != 0 ? AM_NOT_DONE : m != NULL ? AM_KEPT : AM_DONE;
	unsigned reason = why == AM_NO_HANDLER ? AM_R_NO_HANDLER : AM_R_REGION;
	struct am_served *served;
	uint32_t len;

	xk_lock(&s->lock);
	served = am_running(s, h);
	if (served != NULL) {
		served->progress = progress;
		served->reason = reason;
	}
	if (served != NULL && m != NULL) {
		len = (uint32_t)xk_msg_len(m);
		s->again =
			s->again + AM_AGAIN_TIMES * len < AM_AGAIN_MAX ? s->again + AM_AGAIN_TIMES * len : AM_AGAIN_MAX;
		copy = am_packet(s, m, h->sequence, 0);
		if (xk_share_take(s->share, xk_msg_buffers(m))) {
			served->m = m;
			served->until_ns = xk_now_ns(&am->protocol) + am->patience_ns;
			xk_alarm_set(&s->alarm, served->until_ns);
			m = NULL;
		} else { /* a repeated request is answered: the reply is gone */
			served->progress = AM_NOT_DONE;
			served->reason = AM_R_FORGOTTEN;
			xk_count(&am->protocol, AM_UNKEPT);
		}
	}
	xk_unlock(&s->lock);
	if (served != NULL)
		am_answer(s, h, progress, reason, copy);
	xk_msg_free(m);
}

/*
 * Answers h, which was served before, again. A reply that is longer than the request is repeated only as often as there
 * are bytes for it. Takes m.
 */
static void
am_answer_again(struct am_session *s, struct xk_msg *m, const struct am_header *h)
{
	struct am_served *served = &s->served[h->sequence % AM_SLOTS], found = { .progress = AM_NEVER };
	struct xk_msg *copy = NULL;
	unsigned why = AM_DUPLICATE;
	uint32_t len;

	xk_lock(&s->lock);
	if (s->peer == h->from && served->sequence == h->sequence)
		found = *served;
	if (found.progress == AM_KEPT) {
		len = (uint32_t)xk_msg_len(found.m);
		if (len > AM_HEADER_LEN + h->length && len > s->again) {
			why = AM_REPEATED;
		} else {
			s->again -= len > AM_HEADER_LEN + h->length ? len : 0;
			copy = am_packet(s, found.m, h->sequence, 0);
		}
	}
	xk_unlock(&s->lock);
	xk_drop(s->session.protocol, m, why);
	if (why == AM_REPEATED || found.progress == AM_NEVER || found.progress == AM_RUNNING)
		return;
	xk_count(s->session.protocol, AM_REPLIED_AGAIN);
	am_answer(s, h, found.progress, found.reason, copy);
}

void
am_pop_request(struct am_session *s, struct xk_msg *m, const struct am_header *h)
{
	struct xk_protocol *self = s->session.protocol;
	struct xk_am_arrival arrival = { .session = &s->session };
	struct xk_am_reply reply = { .given = false };
	bool is_store = h->kind == AM_STORE, is_last;
	const uint8_t *p = is_store ? xk_msg_pop(&m, AM_STORE_LEN) : m->data;
	struct am_store_header store = { .offset = 0 };
	unsigned why;

	if (p != NULL && is_store)
		store = am_store_load(p);
	if (p == NULL || !am_get_words(&m, h, &arrival)) {
		xk_drop(self, m, XK_DROP_NO_BUFFER);
		return;
	}
	is_last = is_store && store.offset + xk_msg_len(m) == store.total;
	xk_lock(&s->lock);
	why = am_check(s, h, is_last ? &store : NULL);
	xk_unlock(&s->lock);
	if (why == AM_DUPLICATE) {
		am_answer_again(s, m, h);
		return;
	}
	if (why != 0) {
		xk_drop(self, m, why);
		return;
	}
	if (is_store) {
		why = am_write(s, m, &store, &arrival);
		if (why != 0)
			xk_drop(self, m, why);
		else
			xk_msg_truncate(m, 0);
	}
	if (why == 0 && is_store && (h->handler == XK_AM_NONE || !is_last))
		xk_msg_free(m);
	else if (why == 0)
		why = h->handler == XK_AM_NONE ? am_hand_up(s, m) : am_run(s, m, h, &arrival, &reply);
	am_served_finish(s, h, why, &reply);
}

void
am_pop_taken(struct am_session *s, struct xk_msg *m, const struct am_header *h)
{
	struct am_served *served = &s->served[h->sequence % AM_SLOTS];
	unsigned why = AM_STALE;

	xk_lock(&s->lock);
	if (!s->over && s->peer == h->from) {
		if (served->progress == AM_KEPT && served->sequence == h->sequence) {
			am_free_slot(s, served);
			served->progress = AM_DONE;
			why = 0;
		}
		if (h->sequence - h->oldest < AM_SLOTS || am_before(h->sequence, h->oldest))
			am_forget_before(s, h->oldest);
	}
	xk_unlock(&s->lock);
	if (why != 0)
		xk_drop(s->session.protocol, m, why);
	else
		xk_msg_free(m);
}
