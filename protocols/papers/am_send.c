/*
 * am_send.c - AM's requesting half: requests that wait, are in flight, or are returned. am.c has the protocol.
 *
 * A request has its header, of a STORE also what follows that, in front from its push on, and is kept until it is
 * answered. A short one is sent as a copy, a long one as a header before its bytes. Each is repeated on its own: the
 * others do not wait for it until it holds up the credits.
 */
#include <errno.h>

#include "protocols/papers/am_private.h"

/* ---- messages ---- */

bool
am_put_words(struct xk_msg **m, const uint32_t *words, unsigned count)
{
	uint8_t *p = count == 0 ? (*m)->data : xk_msg_push(m, 4 * (size_t)count);

	for (unsigned i = 0; p != NULL && i < count; i++)
		xk_put32(p + 4 * (size_t)i, words[i]);
	return p != NULL;
}

bool
am_put_header(struct xk_msg **m, enum am_kind kind, unsigned number, unsigned count)
{
	struct am_header h = { .kind = (uint8_t)kind,
			       .words = (uint8_t)count,
			       .handler = (uint16_t)number,
			       .length = (uint32_t)xk_msg_len(*m) };
	uint8_t *p = xk_msg_push(m, AM_HEADER_LEN);

	if (p != NULL)
		am_store(p, &h);
	return p != NULL;
}

struct xk_msg *
am_packet(const struct am_session *s, struct xk_msg *m, uint32_t sequence, uint32_t oldest)
{
	size_t len = xk_msg_len(m);
	struct xk_msg *copy;
	uint8_t *p;

	if (len <= AM_HEADER_LEN + AM_SHORT) {
		copy = xk_msg_new(xk_platform_of(s->session.protocol), len);
		if (copy == NULL)
			return NULL;
		xk_msg_copy_first(m, copy->data, len);
		p = copy->data;
	} else {
		copy = xk_msg_part(m, AM_HEADER_LEN, len - AM_HEADER_LEN);
		if (copy == NULL)
			return NULL;
		p = xk_msg_push(&copy, AM_HEADER_LEN);
		if (p == NULL) {
			xk_msg_free(copy);
			return NULL;
		}
		memcpy(p, m->data, AM_HEADER_LEN);
	}
	XK_PUT(am, sequence, p, sequence);
	XK_PUT(am, oldest, p, oldest);
	XK_PUT(am, to, p, s->peer);
	XK_PUT(am, from, p, s->number);
	return copy;
}

/*
 * Makes m, which is part `store` of the whole, the message of a store; the last one has the words. Takes m, also if
 * NULL.
 */
static struct xk_msg *
am_make_store(struct xk_msg *m, const struct xk_am_push *push, const struct am_store_header *store, bool is_last)
{
	unsigned count = is_last ? push->count : 0;
	uint8_t *p = NULL;

	if (m != NULL && am_put_words(&m, push->words, count))
		p = xk_msg_push(&m, AM_STORE_LEN);
	if (p != NULL)
		am_store_store(p, store);
	if (p != NULL && am_put_header(&m, AM_STORE, is_last ? push->number : XK_AM_NONE, count))
		return m;
	xk_msg_free(m);
	return NULL;
}

/* Makes the messages of a store of m, by `link`, and counts them. NULL: no buffer. m stays the caller's. */
static struct xk_msg *
am_make_stores(const struct am_session *s, struct xk_msg *m, const struct xk_am_push *push, unsigned *messages)
{
	struct am_store_header store = { push->part.region, push->part.place, (uint32_t)xk_msg_len(m), 0, 0 };
	struct xk_msg *list = NULL, **last = &list, *next;
	uint32_t len;

	*messages = 0;
	do {
		len = store.total - store.offset < s->fragment ? store.total - store.offset : s->fragment;
		next = am_make_store(xk_msg_part(m, store.offset, len), push, &store,
				     store.offset + len == store.total);
		if (next == NULL)
			break;
		next->link = NULL;
		*last = next;
		last = &next->link;
		store.offset += len;
		store.before = ++*messages;
	} while (store.offset < store.total);
	while (next == NULL && list != NULL) {
		m = list;
		list = m->link;
		xk_msg_free(m);
	}
	return list;
}

/* ---- pushing ---- */

/* Adds the list of so many requests to those that wait. Returns 0, or the reason to drop them. The lock is held. */
static unsigned
am_enqueue(struct am_session *s, struct xk_msg *list, unsigned messages)
{
	const struct am *am = am_of(s);
	uint32_t buffers = 0;

	for (const struct xk_msg *m = list; m != NULL; m = m->link)
		buffers += xk_msg_buffers(m);
	if (s->over || !xk_alarm_set(&s->alarm, xk_now_ns(&am->protocol) + s->round_trip.timeout_ns))
		return AM_CLOSED;
	if (s->waiting + (s->next - s->oldest) + messages > am->outstanding + am->queue)
		return AM_QUEUE_FULL;
	if (!xk_share_take(s->share, buffers))
		return AM_NO_ROOM;
	*s->last = list;
	while (*s->last != NULL)
		s->last = &(*s->last)->link;
	s->waiting += messages;
	return 0;
}

/* Returns 0, or the error of an impossible request. */
static int
am_check_push(const struct am_session *s, const struct xk_am_push *push, size_t len)
{
	if ((push->number >= XK_AM_HANDLERS && push->number != XK_AM_NONE) || push->count > XK_AM_WORDS)
		return -EINVAL;
	if (push->part.region == 0 && len + 4 * push->count > s->session.sends.longest)
		return -EMSGSIZE;
	return 0;
}

int
am_push(struct xk_session *session, struct xk_msg *m)
{
	struct am_session *s = (struct am_session *)session;
	const uint64_t *annotation = xk_msg_annotation(m, XK_OF_PUSH, XK_AM_PUSH);
	struct xk_am_push push = { .number = XK_AM_NONE };
	unsigned messages = 1, why = 0;
	struct xk_msg *list, *next;
	int err;

	if (annotation != NULL) {
		push = *(const struct xk_am_push *)(uintptr_t)*annotation;
		xk_msg_unannotate(m, XK_OF_PUSH);
	}
	err = am_check_push(s, &push, xk_msg_len(m));
	if (err != 0) {
		xk_drop(session->protocol, m, err == -EINVAL ? AM_BAD_REQUEST : AM_TOO_LONG);
		return err;
	}
	m->link = NULL;
	if (push.part.region != 0) {
		list = am_make_stores(s, m, &push, &messages);
		if (list == NULL) {
			why = XK_DROP_NO_BUFFER;
		} else {
			xk_msg_free(m);
			m = list;
		}
	} else {
		if (!am_put_words(&m, push.words, push.count) ||
		    !am_put_header(&m, AM_REQUEST, push.number, push.count))
			why = XK_DROP_NO_BUFFER;
		m->link = NULL;
	}
	if (why == 0) {
		xk_lock(&s->lock);
		why = am_enqueue(s, m, messages);
		xk_unlock(&s->lock);
	}
	if (why != 0) {
		for (; m != NULL; m = next) {
			next = m->link;
			xk_drop(session->protocol, m, why);
		}
		return why == AM_CLOSED ? -ECONNRESET : -ENOBUFS;
	}
	am_go_on(s);
	return 0;
}

/* ---- in flight ---- */

/* Returns a message to send, or NULL: none, or no buffer, and the timer tries again. The lock is held. */
static struct xk_msg *
am_next(struct am_session *s, bool *more)
{
	const struct am *am = am_of(s);
	uint32_t window = am->outstanding < s->credits ? (uint32_t)am->outstanding : s->credits;
	struct xk_msg *m = s->first, *copy;
	struct am_request *request;

	*more = m != NULL && s->peer != 0 && s->next - s->oldest < window;
	if (!*more)
		return NULL;
	request = &s->requests[s->next % AM_SLOTS];
	s->first = m->link;
	m->link = NULL;
	if (--s->waiting == 0)
		s->last = &s->first;
	request->m = m;
	xk_retry_begin(&request->retry, s->round_trip.timeout_ns, xk_now_ns(&am->protocol));
	xk_budget_note(&s->budget, xk_msg_len(m));
	copy = am_packet(s, m, s->next, s->oldest);
	s->next++;
	xk_alarm_set(&s->alarm, request->retry.due_ns);
	return copy;
}

void
am_transmit(struct am_session *s)
{
	struct xk_msg *m;
	bool more;

	do {
		xk_lock(&s->lock);
		m = am_next(s, &more);
		xk_unlock(&s->lock);
		if (m != NULL)
			xk_push(s->session.lls, m);
		else if (more)
			xk_count(s->session.protocol, AM_UNSENT);
	} while (more);
}

/* Records answered requests. The lock is held. */
static void
am_advance(struct am_session *s)
{
	while (s->oldest != s->next && s->requests[s->oldest % AM_SLOTS].m == NULL)
		s->oldest++;
}

/*
 * Charges a repetition of the request to the budget of a passive session; others have none, because this host decides
 * what they send. Returns false if it is not allowed now: the timer tries again. The last one waits for the second half
 * of `patience`. The lock is held.
 */
static bool
am_may_repeat(struct am_session *s, const struct am_request *request, uint64_t now_ns)
{
	bool is_late = now_ns - request->retry.begun_ns >= am_of(s)->patience_ns / 2;

	if (s->called == 0 || xk_budget_take(&s->budget, xk_msg_len(request->m), is_late))
		return true;
	xk_count(s->session.protocol, AM_WITHHELD);
	return false;
}

uint64_t
am_requests_due(struct am_session *s, uint64_t now_ns, struct xk_msg **late, struct xk_msg **given_up)
{
	const struct am *am = am_of(s);
	uint64_t next_ns = UINT64_MAX;
	struct xk_msg *copy;

	for (uint32_t sequence = s->oldest; sequence != s->next; sequence++) {
		struct am_request *request = &s->requests[sequence % AM_SLOTS];

		if (request->m == NULL)
			continue;
		if (request->retry.due_ns <= now_ns && now_ns - request->retry.begun_ns >= am->patience_ns) {
			xk_share_give(s->share, xk_msg_buffers(request->m));
			*given_up = request->m;
			given_up = &request->m->link;
			*given_up = NULL;
			request->m = NULL;
			continue;
		}
		if (request->retry.due_ns <= now_ns) {
			copy = am_may_repeat(s, request, now_ns) ? am_packet(s, request->m, sequence, s->oldest) : NULL;
			if (copy != NULL) {
				*late = copy;
				late = &copy->link;
				*late = NULL;
			}
			xk_round_trip_timed_out(&s->round_trip, &request->retry, &am->timeouts, now_ns);
		}
		if (request->retry.due_ns < next_ns)
			next_ns = request->retry.due_ns;
	}
	am_advance(s);
	return next_ns;
}

/* ---- answers ---- */

void
am_pop_answer(struct am_session *s, struct xk_msg *m, const struct am_header *h)
{
	struct xk_protocol *self = s->session.protocol;
	struct am_request *request = &s->requests[h->sequence % AM_SLOTS];
	struct am_header taken = { .kind = AM_TAKEN, .sequence = h->sequence, .from = s->number };
	struct xk_msg *answered = NULL;
	bool is_peer;

	xk_lock(&s->lock);
	is_peer = s->peer != 0 && h->from == s->peer && am_before(h->sequence, s->next);
	if (is_peer && !am_before(h->sequence, s->oldest) && request->m != NULL) {
		answered = request->m;
		request->m = NULL;
		xk_share_give(s->share, xk_msg_buffers(answered));
		xk_budget_note(&s->budget, xk_msg_len(answered)); /* a peer that answers earns retransmissions */
		if (request->retry.tries == 0)
			xk_round_trip_measure(&s->round_trip, &am_of(s)->timeouts,
					      xk_now_ns(self) - request->retry.begun_ns);
		am_advance(s);
	}
	taken.to = s->peer;
	taken.oldest = s->oldest;
	xk_unlock(&s->lock);
	if (answered == NULL) {
		xk_drop(self, m, AM_STALE);
	} else if (h->kind == AM_REPLY) {
		am_pop_reply(s, m, h);
	} else {
		xk_count(self, AM_ACKS);
		xk_msg_free(m);
	}
	if (answered != NULL && h->kind == AM_REFUSED)
		am_return(s, answered, am_status_of(h->handler));
	else
		xk_msg_free(answered);
	if (is_peer && h->kind == AM_REPLY)
		am_send_header(self, s->session.lls, &taken, NULL); /* of a repeated one, too: the first may be lost */
	if (answered != NULL)
		am_transmit(s);
}

/* ---- what comes back ---- */

struct xk_msg *
am_requests_take(struct am_session *s)
{
	struct xk_msg *list = NULL, **last = &list;

	for (; s->oldest != s->next; s->oldest++) {
		struct am_request *request = &s->requests[s->oldest % AM_SLOTS];

		if (request->m == NULL)
			continue;
		*last = request->m;
		last = &request->m->link;
		request->m = NULL;
	}
	*last = s->first;
	for (const struct xk_msg *m = list; m != NULL; m = m->link)
		xk_share_give(s->share, xk_msg_buffers(m));
	s->first = NULL;
	s->last = &s->first;
	s->waiting = 0;
	return list;
}

/* Takes the headers off a request. Returns whether it is a whole one, or the last of a store. */
static bool
am_strip(struct xk_msg **m)
{
	bool is_store = XK_GET(am, kind, (*m)->data) == AM_STORE;
	size_t words = XK_GET(am, words, (*m)->data);
	struct am_store_header store;
	const uint8_t *p;

	xk_msg_pop_in_place(*m, AM_HEADER_LEN);
	if (!is_store)
		return true;
	p = xk_msg_pop(m, AM_STORE_LEN);
	if (p == NULL)
		return false;
	store = am_store_load(p);
	return store.offset + xk_msg_len(*m) - 4 * words == store.total;
}

void
am_return(struct am_session *s, struct xk_msg *list, int status)
{
	struct xk_protocol *self = s->session.protocol;
	const struct am_endpoint_state *e = s->endpoint;
	unsigned why = status == -ETIMEDOUT ? AM_GAVE_UP : status == -ECONNRESET ? AM_PEER_GONE : AM_UNDELIVERED;
	struct xk_msg *m;

	while ((m = list) != NULL) {
		unsigned number = XK_GET(am, handler, m->data);

		list = m->link;
		if (!am_strip(&m) || e == NULL || e->endpoint.returned == NULL) {
			xk_drop(self, m, why);
			continue;
		}
		xk_count(self, AM_RETURNED);
		e->endpoint.returned(e->endpoint.argument, &s->session, number, m, status);
	}
}
