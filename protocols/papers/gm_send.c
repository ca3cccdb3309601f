/*
 * gm_send.c - GM's sending half: messages in flight, acknowledgements, retransmission. gm.c has the protocol.
 *
 * A message in flight has a slot, which holds it until its last packet is acknowledged. Packets are made from it when
 * they are sent: at most `window` unacknowledged ones, fewer after a time-out (one more with each acknowledgement).
 * Without an acknowledgement for longer than round trips usually take, all are sent again from the oldest on.
 * A datagram has no slot: its packets are made of the message itself.
 */
#include <errno.h>

#include "protocols/papers/gm_private.h"

/* ---- packets; the lock is held ---- */

/* Returns the slot of the packet at position, which is in flight. */
static struct gm_slot *
gm_slot_at(struct gm_session *s, uint64_t position)
{
	unsigned i = 0;

	while (position - gm_slot(s, i)->position >= gm_slot(s, i)->count)
		i++;
	return gm_slot(s, i);
}

static uint64_t
gm_number_at(struct gm_session *s, uint64_t position)
{
	const struct gm_slot *slot = gm_slot_at(s, position);

	return slot->number + (position - slot->position);
}

/* Returns the payload's length of the packet at position. */
static uint32_t
gm_len_at(struct gm_session *s, uint64_t position)
{
	const struct gm_slot *slot = gm_slot_at(s, position);
	uint32_t rest = (uint32_t)(xk_msg_len(slot->m) - (position - slot->position) * s->fragment);

	return rest < s->fragment ? rest : s->fragment;
}

/* Returns a message of the payload's len bytes from offset on: a copy of a small one if the settings say so. */
static struct xk_msg *
gm_payload(const struct gm_session *s, struct xk_msg *m, uint32_t offset, uint32_t len)
{
	struct xk_msg *copy;

	if (gm_of(s)->small == GM_REFERENCE || xk_msg_len(m) > GM_SMALL)
		return xk_msg_part(m, offset, len);
	copy = xk_msg_new(xk_platform_of(s->session.protocol), len);
	if (copy != NULL)
		xk_msg_copy_out(m, offset, copy->data, len);
	return copy;
}

/*
 * Returns whether the acknowledgement of the packet at position, of slot, may wait: before the tokens or the window are
 * used up, another packet will ask for one. The lock is held.
 */
static bool
gm_is_patient(const struct gm_session *s, const struct gm_slot *slot, uint64_t position)
{
	const struct gm *gm = gm_of(s);

	return gm->ack_delay_ns != 0 && slot->send == NULL && position % ((gm->tokens + 1) / 2) != 0 &&
	       position + 1 - s->acked < s->window / 2;
}

/* Returns the packet at position. NULL: no buffer. */
static struct xk_msg *
gm_packet(struct gm_session *s, uint64_t position)
{
	const struct gm_slot *slot = gm_slot_at(s, position);
	uint32_t total = (uint32_t)xk_msg_len(slot->m), offset = (uint32_t)(position - slot->position) * s->fragment;
	struct gm_header h = gm_header_of(s, slot->region != 0 ? GM_DEPOSIT : GM_DATA);
	struct xk_msg *m;

	h.length = (uint16_t)gm_len_at(s, position);
	h.total = slot->region != 0 ? slot->region : total;
	h.offset = slot->place + offset;
	h.number = slot->number + (position - slot->position);
	h.previous = position == s->acked ? 0 : gm_number_at(s, position - 1);
	h.patient = gm_is_patient(s, slot, position);
	m = gm_payload(s, slot->m, offset, h.length);
	return m == NULL ? NULL : gm_frame(&h, s->boot, m);
}

/*
 * Charges a repetition of the packet at `next` to the budget of a session that a stranger made; others have none,
 * because this host decides what they send. Returns false if it is not allowed now: the timer tries again. The last one
 * waits for the second half of `patience`.
 */
static bool
gm_may_repeat(struct gm_session *s)
{
	bool is_late = xk_now_ns(s->session.protocol) - s->retry.begun_ns >= gm_of(s)->patience_ns / 2;

	if (!s->passive || xk_budget_take(&s->budget, GM_HEADER_LEN + gm_len_at(s, s->next), is_late))
		return true;
	xk_count(s->session.protocol, GM_WITHHELD);
	return false;
}

/* Returns the next packet to send, and whether others wait. NULL: none, or no buffer, and the timer tries again. */
static struct xk_msg *
gm_next(struct gm_session *s, bool *more)
{
	struct xk_msg *m;

	*more = false;
	if (s->error != 0 || s->next == s->end || (gm_of(s)->flow && s->next - s->acked >= s->window))
		return NULL;
	if (s->next < s->sent && !gm_may_repeat(s))
		return NULL;
	m = gm_packet(s, s->next);
	if (m == NULL)
		return NULL;
	if (s->next == s->sent && s->timed_ns == 0) {
		s->timed = s->next;
		s->timed_ns = xk_now_ns(s->session.protocol);
	}
	if (++s->next > s->sent) {
		s->sent = s->next;
		xk_budget_note(&s->budget, xk_msg_len(m));
	}
	*more = s->next != s->end;
	return m;
}

void
gm_transmit(struct gm_session *s)
{
	struct xk_msg *m;
	bool more;

	do {
		xk_lock(&s->lock);
		m = gm_next(s, &more);
		xk_unlock(&s->lock);
		if (m != NULL)
			xk_push(s->session.lls, m);
	} while (more);
}

bool
gm_send_late(struct gm_session *s, uint64_t now_ns)
{
	const struct gm *gm = gm_of(s);

	if (s->count == 0 || now_ns < s->retry.due_ns)
		return false;
	xk_unanswered(s->session.lls);
	if (now_ns - s->retry.begun_ns >= gm->patience_ns)
		return true;
	xk_count(s->session.protocol, GM_RETRANSMITTED);
	s->next = s->acked;
	s->window = 1;
	s->timed_ns = 0; /* an acknowledgement could be of either */
	xk_round_trip_timed_out(&s->round_trip, &s->retry, &gm->timeouts, now_ns);
	return false;
}

/* ---- pushing ---- */

/*
 * Returns whether there is a token. Those of datagrams are back if no CREDIT has come for `timeout`. The lock is held.
 */
static bool
gm_has_token(struct gm_session *s)
{
	uint64_t now_ns;

	if (gm_tokens(s) > 0) {
		s->refused_ns = 0;
		return true;
	}
	if (s->credited == s->datagrams)
		return false;
	now_ns = xk_now_ns(s->session.protocol);
	if (s->refused_ns == 0)
		s->refused_ns = now_ns;
	if (now_ns - s->refused_ns < gm_of(s)->timeouts.first_ns)
		return false;
	s->refused_ns = 0;
	s->credited = s->datagrams;
	xk_count(s->session.protocol, GM_RESTORED);
	return gm_tokens(s) > 0;
}

/* Makes m the last message in flight. Returns 0, or the reason to drop it. The lock is held. */
static unsigned
gm_begin(struct gm_session *s, struct xk_msg *m, const struct xk_gm_request *request)
{
	uint32_t len = (uint32_t)xk_msg_len(m), packets = len == 0 ? 1 : (len + s->fragment - 1) / s->fragment;
	uint32_t buffers = xk_msg_buffers(m);
	uint64_t now_ns = xk_now_ns(s->session.protocol);

	if (s->error != 0)
		return GM_CLOSED;
	if (!gm_has_token(s))
		return GM_NO_TOKEN;
	if (!xk_share_take(s->share, buffers))
		return GM_NO_ROOM;
	if (s->count == 0)
		xk_retry_begin(&s->retry, s->round_trip.timeout_ns, now_ns);
	if (!xk_alarm_set(&s->alarm, s->retry.due_ns)) {
		xk_share_give(s->share, buffers);
		return GM_CLOSED;
	}
	s->last_number = atomic_fetch_add(&gm_of(s)->number, packets) + packets;
	*gm_slot(s, s->count++) = (struct gm_slot){ .m = m,
						    .send = request->send,
						    .number = s->last_number + 1 - packets,
						    .position = s->end,
						    .count = packets,
						    .buffers = buffers,
						    .region = request->region,
						    .place = request->place };
	s->end += packets;
	return 0;
}

/*
 * Numbers the datagram h and, with flow control, takes a token for it and asks for a CREDIT for each half of them.
 * Returns 0, or the reason to drop it. The lock is held.
 */
static unsigned
gm_begin_datagram(struct gm_session *s, struct gm_header *h)
{
	const struct gm *gm = gm_of(s);
	bool takes = !gm->reliable && gm->flow;

	if (s->error != 0)
		return GM_CLOSED;
	if (takes && !gm_has_token(s))
		return GM_NO_TOKEN;
	h->number = ++s->datagrams;
	h->previous = takes && h->number % ((gm->tokens + 1) / 2) == 0;
	if (!takes)
		s->credited = s->datagrams;
	return 0;
}

/* Sends m once. Takes m. No lock is held. */
static int
gm_push_datagram(struct gm_session *s, struct xk_msg *m, struct xk_gm_send *send)
{
	struct gm_header h = gm_header_of(s, GM_DATAGRAM);
	struct xk_msg *packet = m;
	unsigned why;
	int err;

	h.total = (uint32_t)xk_msg_len(m);
	xk_lock(&s->lock);
	why = gm_begin_datagram(s, &h);
	err = why == 0 || why == GM_NO_TOKEN ? -ENOBUFS : s->error;
	xk_unlock(&s->lock);
	if (why == 0 && gm_of(s)->small != GM_REFERENCE && h.total <= GM_SMALL)
		packet = gm_payload(s, m, 0, h.total);
	if (why != 0 || packet == NULL) {
		xk_drop(s->session.protocol, m, why != 0 ? why : XK_DROP_NO_BUFFER);
		return err;
	}
	if (packet != m)
		xk_msg_free(m);
	m = packet;
	xk_count(s->session.protocol, GM_UNRELIABLE);
	do {
		h.length = (uint16_t)(h.total - h.offset < s->fragment ? h.total - h.offset : s->fragment);
		packet = m;
		if (h.offset + h.length == h.total) {
			m = NULL;
		} else if ((packet = xk_msg_split(&m, h.length)) == NULL) {
			xk_drop(s->session.protocol, m, XK_DROP_NO_BUFFER);
			return -ENOBUFS;
		}
		packet = xk_push_header(&s->session, packet, GM_HEADER_LEN);
		err = -ENOBUFS;
		if (packet != NULL) {
			gm_header_store(packet, &h, s->boot);
			err = xk_push(s->session.lls, packet);
		}
		h.offset += h.length;
	} while (err == 0 && m != NULL);
	xk_msg_free(m);
	if (err == 0 && send != NULL)
		send->done(send, XK_GM_UNKNOWN);
	return err;
}

int
gm_push(struct xk_session *session, struct xk_msg *m)
{
	struct gm_session *s = (struct gm_session *)session;
	const uint64_t *annotation = xk_msg_annotation(m, XK_OF_PUSH, XK_GM_REQUEST);
	const struct gm *gm = gm_of(s);
	struct xk_gm_request request = { .send = NULL };
	struct xk_msg *packet = NULL;
	bool more = false;
	unsigned why;
	int err;

	if (annotation != NULL) {
		request = *(const struct xk_gm_request *)(uintptr_t)*annotation;
		xk_msg_unannotate(m, XK_OF_PUSH);
	}
	if (xk_msg_len(m) > gm->longest) {
		xk_drop(session->protocol, m, XK_DROP_TOO_BIG);
		return -EMSGSIZE;
	}
	if (request.region == 0 && (!gm->reliable || (gm->small == GM_NOT_RELIABLE && xk_msg_len(m) <= GM_SMALL)))
		return gm_push_datagram(s, m, request.send);
	xk_lock(&s->lock);
	err = s->error;
	why = gm_begin(s, m, &request);
	if (why == 0)
		packet = gm_next(s, &more);
	xk_unlock(&s->lock);
	if (why != 0) {
		xk_drop(session->protocol, m, why);
		return why == GM_NO_TOKEN || why == GM_NO_ROOM ? -ENOBUFS : err != 0 ? err : -ECONNRESET;
	}
	if (packet != NULL)
		xk_push(session->lls, packet);
	if (more)
		gm_transmit(s);
	return 0;
}

/* ---- answers ---- */

/*
 * Sets *position to that of the packet that h names. Returns 0, or the reason to drop h: it is of an old packet, or of
 * one that was never sent. The lock is held.
 */
static unsigned
gm_find_packet(struct gm_session *s, const struct gm_header *h, uint64_t *position)
{
	if (s->error != 0 || h->begin != s->begin)
		return GM_STALE;
	for (unsigned i = 0; i < s->count; i++) {
		const struct gm_slot *slot = gm_slot(s, i);

		*position = slot->position + (h->number - slot->number);
		if (h->number - slot->number < slot->count)
			return *position < s->acked ? GM_DUPLICATE : *position < s->sent ? 0 : GM_BAD_ACK;
	}
	return h->number <= s->last_number && (s->count == 0 || h->number < gm_slot(s, 0)->number) ? GM_DUPLICATE
												   : GM_BAD_ACK;
}

/* Records that all up to position have arrived. The lock is held. */
static void
gm_progress(struct gm_session *s, uint64_t position)
{
	const struct gm *gm = gm_of(s);
	uint64_t now_ns = xk_now_ns(s->session.protocol);

	for (; s->acked <= position; s->acked++) /* a peer that answers earns retransmissions */
		xk_budget_note(&s->budget, GM_HEADER_LEN + gm_len_at(s, s->acked));
	if (s->next < s->acked)
		s->next = s->acked;
	if (s->window < gm->window)
		s->window++;
	if (s->timed_ns != 0 && s->timed <= position) {
		xk_round_trip_measure(&s->round_trip, &gm->timeouts, now_ns - s->timed_ns);
		s->timed_ns = 0;
	}
	xk_retry_begin(&s->retry, s->round_trip.timeout_ns, now_ns);
	if (s->acked < s->end)
		xk_alarm_set(&s->alarm, s->retry.due_ns);
}

/*
 * Records that the user at the peer has had the datagrams up to that of h. Returns as gm_find_packet. The lock is held.
 */
static unsigned
gm_take_credit(struct gm_session *s, const struct gm_header *h)
{
	if (s->error != 0 || h->begin != s->begin)
		return GM_STALE;
	if (h->number <= s->credited || h->number > s->datagrams)
		return h->number > s->datagrams ? GM_BAD_ACK : GM_DUPLICATE;
	s->credited = h->number;
	s->refused_ns = 0;
	return 0;
}

/* Frees whole messages that have arrived, and notifies their senders. */
static void
gm_pop_ack(struct gm_session *s, struct xk_msg *m, const struct gm_header *h)
{
	struct gm_slot delivered[GM_TOKENS_MAX];
	unsigned count = 0, why;
	uint64_t position;
	bool more;

	xk_lock(&s->lock);
	why = gm_find_packet(s, h, &position);
	if (why == 0)
		gm_progress(s, position);
	while (why == 0 && s->count > 0 && gm_slot(s, 0)->position + gm_slot(s, 0)->count <= s->acked) {
		delivered[count] = *gm_slot(s, 0);
		xk_share_give(s->share, delivered[count++].buffers);
		s->first = (s->first + 1) % GM_TOKENS_MAX;
		s->count--;
	}
	more = s->next != s->end;
	xk_unlock(&s->lock);
	if (why != 0) {
		xk_drop(s->session.protocol, m, why);
		return;
	}
	xk_msg_free(m);
	for (unsigned i = 0; i < count; i++) {
		xk_msg_free(delivered[i].m);
		if (delivered[i].send != NULL)
			delivered[i].send->done(delivered[i].send, 0);
	}
	if (more)
		gm_transmit(s);
}

void
gm_pop_answer(struct gm_session *s, struct xk_msg *m, const struct gm_header *h)
{
	uint64_t position;
	unsigned why;
	int err;

	if (h->kind == GM_ACK) {
		gm_pop_ack(s, m, h);
		return;
	}
	xk_lock(&s->lock);
	why = h->kind == GM_CREDIT ? gm_take_credit(s, h) : gm_find_packet(s, h, &position);
	xk_unlock(&s->lock);
	if (why != 0) {
		xk_drop(s->session.protocol, m, why);
		return;
	}
	xk_msg_free(m);
	if (h->kind == GM_CREDIT)
		return;
	err = h->offset == GM_R_REGION || h->offset == GM_R_BOUNDS ? -EFAULT
	      : h->offset == GM_R_TOO_LONG                         ? -EMSGSIZE
								   : -ECONNRESET;
	gm_end(s, GM_WAS_RESET, err);
}
