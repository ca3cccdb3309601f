/*
 * gm_receive.c - GM's receiving half: packets in order, incomplete messages, delivery, deposits. gm.c has the protocol,
 * and explains why a packet is accepted.
 *
 * The first fragment of a message takes buffers of its host's share for all of them: fragments are of one length, so
 * their number is known.
 *
 * A whole message waits in `ready` while another shepherd delivers the one before. It has a posted buffer by then;
 * waiting messages take buffers of the host's share, too. A message is acknowledged when the user has returned from it,
 * other packets when they arrive; both later if they are patient. A datagram is handled alike, but only its own number
 * is checked, and it is answered with a CREDIT if its sender asks.
 */
#include "protocols/papers/gm_private.h"

/*
 * While a message waits in `ready`: whether to post its buffer again, whether it is a datagram, whether it has buffers
 * of the host's share, and above these the number of its last packet; of a datagram, the number to answer with a
 * CREDIT, or 0.
 */
#define GM_WAITS XK_KIND('g', 'm', 'r', 'x')

enum {
	GM_WAITS_OWN = 1 << 0,
	GM_WAITS_DATAGRAM = 1 << 1,
	GM_WAITS_ROOM = 1 << 2,
	GM_WAITS_NUMBER = 3, /* shift */
};

/* ---- incomplete messages ---- */

void
gm_receive_abandon(struct gm_session *s, unsigned why)
{
	if (s->partial == NULL)
		return;
	xk_share_give(s->share, s->partial_room);
	xk_posted_add(&s->posted, (unsigned)s->partial_class, 1);
	xk_drop(s->session.protocol, s->partial, why);
	s->partial = NULL;
}

/* Returns the notes about m, which is no longer among the ready ones. */
static uint64_t
gm_receive_unready(struct gm_session *s, struct xk_msg *m)
{
	uint64_t waits = *xk_msg_annotation(m, XK_OF_PUSH, GM_WAITS);

	xk_msg_unannotate(m, XK_OF_PUSH);
	if ((waits & GM_WAITS_ROOM) != 0)
		xk_share_give(s->share, xk_msg_buffers(m));
	return waits;
}

void
gm_receive_clear(struct gm_session *s)
{
	struct xk_msg *m;

	gm_receive_abandon(s, GM_ABANDONED);
	s->acked_to = s->taken;
	while ((m = s->ready) != NULL) {
		s->ready = m->link;
		gm_receive_unready(s, m);
		xk_drop(s->session.protocol, m, GM_ABANDONED);
	}
	s->ready_end = &s->ready;
}

/* ---- one packet; the lock is held ---- */

/* Returns 0 if the datagram is a later one, or the next packet of the last, or the reason to drop it. */
static unsigned
gm_check_datagram(struct gm_session *s, const struct gm_header *h)
{
	if (h->offset != 0)
		return h->number == s->last_datagram ? 0 : GM_GAP;
	if (h->number <= s->last_datagram)
		return GM_DUPLICATE;
	if (s->last_datagram != 0 && h->number > s->last_datagram + 1)
		xk_count(s->session.protocol, GM_SKIPPED);
	s->last_datagram = h->number;
	return 0;
}

/* Returns 0 if the packet is the next, or the reason to drop it. */
static unsigned
gm_check_sequence(struct gm_session *s, const struct gm_header *h)
{
	if (s->error != 0 || h->begin < s->peer_begin)
		return GM_STALE;
	if (h->begin > s->peer_begin)
		s->last_datagram = 0;
	s->peer_begin = h->begin;
	if (h->kind == GM_DATAGRAM)
		return gm_check_datagram(s, h);
	if (h->number <= s->arrived)
		return s->begun ? GM_DUPLICATE : GM_STALE;
	if (h->previous != 0 && (!s->begun || h->previous > s->arrived))
		return GM_GAP;
	return 0;
}

/*
 * Adds m, a message whose last packet is h and which has `room` buffers of the host's share, to the ready ones. Returns
 * false if it would have to wait, and the share has no room for it.
 */
static bool
gm_receive_ready(struct gm_session *s, struct xk_msg *m, const struct gm_header *h, int class, uint32_t room)
{
	uint32_t needed = s->delivering ? xk_msg_buffers(m) : 0; /* otherwise it is delivered at once */
	uint64_t waits = (class == XK_POSTED_OWN ? GM_WAITS_OWN : 0) | (s->delivering ? GM_WAITS_ROOM : 0);

	if (needed > room && !xk_share_take(s->share, needed - room))
		return false;
	if (needed < room)
		xk_share_give(s->share, room - needed);
	if (h->kind == GM_DATAGRAM)
		waits |= GM_WAITS_DATAGRAM;
	if (h->kind == GM_DATA || h->previous != 0)
		waits |= h->number << GM_WAITS_NUMBER;
	xk_msg_annotate(m, XK_OF_PUSH, GM_WAITS, waits);
	m->link = NULL;
	*s->ready_end = m;
	s->ready_end = &m->link;
	return true;
}

/* Begins a message of several fragments with m, the first. Returns 0, or the reason to drop m. */
static unsigned
gm_receive_first(struct gm_session *s, struct xk_msg *m, const struct gm_header *h, int class)
{
	uint32_t fragments = h->length == 0 ? 0 : (h->total + h->length - 1) / h->length;

	if (fragments == 0)
		return GM_INCONSISTENT;
	if (!xk_share_take(s->share, fragments * xk_msg_buffers(m)))
		return GM_NO_ROOM;
	s->partial = m;
	s->partial_total = h->total;
	s->partial_fragment = h->length;
	s->partial_room = fragments * xk_msg_buffers(m);
	s->partial_class = class;
	return 0;
}

/* Joins the fragment m, not the first, to the incomplete message. Returns 0, or the reason to drop m. */
static unsigned
gm_receive_other(struct gm_session *s, struct xk_msg *m, const struct gm_header *h)
{
	uint32_t buffers;

	if (s->partial == NULL || h->total != s->partial_total || h->offset != xk_msg_len(s->partial) ||
	    h->length == 0 ||
	    (h->length != s->partial_fragment &&
	     (h->offset + h->length != h->total || h->length > s->partial_fragment)))
		return GM_INCONSISTENT;
	buffers = xk_msg_buffers(s->partial) + xk_msg_buffers(m);
	if (buffers > s->partial_room) { /* this fragment came in more pieces than the first */
		if (!xk_share_take(s->share, buffers - s->partial_room))
			return GM_NO_ROOM;
		s->partial_room = buffers;
	}
	xk_msg_join(s->partial, m);
	return 0;
}

/* Adds the packet m. Returns 0; then m is taken. Or returns the reason to drop m. */
static unsigned
gm_receive_data(struct gm_session *s, struct xk_msg *m, const struct gm_header *h)
{
	unsigned why;
	int class;

	if (h->offset == 0) {
		if (h->total > gm_of(s)->longest)
			return GM_TOO_LONG;
		if (h->kind == GM_DATA || h->length < h->total) /* a whole datagram may come amid a reliable message */
			gm_receive_abandon(s, GM_ABANDONED);
		class = xk_posted_take(&s->posted, h->total);
		if (class < 0)
			return GM_UNPOSTED;
		if (h->length == h->total)
			why = gm_receive_ready(s, m, h, class, 0) ? 0 : GM_NO_ROOM;
		else
			why = gm_receive_first(s, m, h, class);
		if (why != 0)
			xk_posted_add(&s->posted, (unsigned)class, 1);
		if (why != 0 || h->length == h->total)
			return why;
	} else {
		why = gm_receive_other(s, m, h);
		if (why != 0)
			return why;
	}
	s->partial_ns = xk_now_ns(s->session.protocol);
	if (xk_msg_len(s->partial) == s->partial_total) {
		m = s->partial;
		s->partial = NULL;
		gm_receive_ready(s, m, h, s->partial_class, s->partial_room); /* which is enough */
	} else {
		xk_alarm_set(&s->alarm, s->partial_ns + gm_of(s)->patience_ns);
	}
	return 0;
}

/* Writes m to the region that h names. Returns 0, or the reason to drop m. m stays the caller's. */
static unsigned
gm_receive_deposit(struct gm_session *s, struct xk_msg *m, const struct gm_header *h)
{
	struct xk_region_part part = { h->total, h->offset, h->length };
	uint8_t *begin;
	int err =
		xk_regions_write(&gm_of(s)->regions, XK_GET(gm, source, s->session.sends.header), &part, 0, m, &begin);

	return err == 0 ? 0 : err == -EFAULT ? GM_OUT_OF_BOUNDS : GM_BAD_REGION;
}

/* Takes the next packet. Returns 0, or the reason to drop m; then the sender's copies of it will be checked again. */
static unsigned
gm_receive_next(struct gm_session *s, struct xk_msg *m, const struct gm_header *h)
{
	unsigned why = gm_check_sequence(s, h);

	if (why == 0 && h->kind != GM_DEPOSIT)
		why = gm_receive_data(s, m, h);
	else if (why == 0)
		why = gm_receive_deposit(s, m, h);
	if (why != 0 || h->kind == GM_DATAGRAM)
		return why;
	if (h->kind == GM_DEPOSIT) {
		xk_count(s->session.protocol, GM_DEPOSITED);
		xk_msg_free(m);
	}
	s->begun = true;
	s->arrived = h->number;
	if (!h->patient)
		s->asked = h->number;
	return 0;
}

/* Records that the user has had all up to `taken`. Returns the number to acknowledge now, or 0. The lock is held. */
static uint64_t
gm_take(struct gm_session *s, uint64_t taken)
{
	uint64_t delay_ns = gm_of(s)->ack_delay_ns;
	bool waits = s->taken != s->acked_to;

	if (taken == s->taken)
		return 0;
	s->taken = taken;
	if (delay_ns != 0 && s->asked <= s->acked_to) {
		if (!waits)
			s->ack_due_ns = xk_now_ns(s->session.protocol) + delay_ns;
		if (waits || xk_alarm_set(&s->alarm, s->ack_due_ns))
			return 0;
	}
	s->acked_to = taken;
	return taken;
}

/* ---- without the lock ---- */

/* Answers the packet of that number, of the peer's session `begin`; 0 of either: there is none to answer. */
static void
gm_answer(struct gm_session *s, enum gm_kind kind, uint64_t number, uint64_t begin)
{
	struct gm_header h = gm_header_of(s, kind);
	struct xk_msg *m = number == 0 || begin == 0 ? NULL : xk_msg_new(xk_platform_of(s->session.protocol), 0);

	h.number = number;
	h.begin = begin;
	if (m != NULL)
		m = gm_frame(&h, s->boot, m);
	if (m != NULL)
		xk_push(s->session.lls, m);
}

/* Returns the peer's session whose packets may be answered, or 0: s is over, and has dropped what its user had not. */
static uint64_t
gm_answered(const struct gm_session *s)
{
	return s->error == 0 ? s->peer_begin : 0;
}

/* Delivers what is ready, unless another shepherd does, and answers each message. Gives up the lock, which is held. */
static void
gm_deliver(struct gm_session *s)
{
	uint64_t waited = 0, taken, ack, credit, begin;
	struct xk_msg *m;

	if (s->delivering) {
		xk_unlock(&s->lock);
		return;
	}
	for (;;) {
		credit = waited & GM_WAITS_DATAGRAM ? waited >> GM_WAITS_NUMBER : 0;
		taken = waited >> GM_WAITS_NUMBER == 0 || (waited & GM_WAITS_DATAGRAM) != 0 ? s->taken
											    : waited >> GM_WAITS_NUMBER;
		m = s->ready;
		s->delivering = m != NULL;
		if (m == NULL)
			taken = s->arrived;
		else if ((s->ready = m->link) == NULL)
			s->ready_end = &s->ready;
		waited = m == NULL ? 0 : gm_receive_unready(s, m);
		ack = gm_take(s, taken);
		begin = gm_answered(s);
		xk_unlock(&s->lock);
		gm_answer(s, GM_ACK, ack, begin);
		gm_answer(s, GM_CREDIT, credit, begin);
		if (m == NULL)
			return;
		xk_demux(&s->session, m);
		if ((waited & GM_WAITS_OWN) != 0)
			xk_posted_add(&s->posted, XK_POSTED_OWN, 1);
		xk_lock(&s->lock);
	}
}

void
gm_acknowledge_late(struct gm_session *s, uint64_t now_ns)
{
	uint64_t number = 0, begin;

	xk_lock(&s->lock);
	begin = gm_answered(s);
	if (s->taken != s->acked_to && (now_ns >= s->ack_due_ns || !xk_alarm_set(&s->alarm, s->ack_due_ns)))
		number = s->acked_to = s->taken;
	xk_unlock(&s->lock);
	gm_answer(s, GM_ACK, number, begin);
}

/* Announces s to the hlp before its first message. Returns 0, or the reason to drop that. */
static unsigned
gm_announce(struct gm_session *s)
{
	struct xk_protocol *self = s->session.protocol;

	if (xk_likely(atomic_load(&s->known)) || atomic_exchange(&s->known, true))
		return 0;
	if (xk_open_done(xk_hlp_receive(&s->session), self, &s->session, s->session.hlp_type) != 0)
		return XK_DROP_REFUSED;
	xk_count(self, GM_ACCEPTED);
	return 0;
}

/* Returns the reason to report to the sender, or 0: none is reported. */
static enum gm_reason
gm_reason_of(unsigned why, const struct gm_session *s)
{
	switch (why) {
	case GM_STALE:
		return s->begun ? 0 : GM_R_STALE;
	case XK_DROP_REFUSED:
		return GM_R_REFUSED;
	case GM_INCONSISTENT:
		return GM_R_INCONSISTENT;
	case GM_BAD_REGION:
		return GM_R_REGION;
	case GM_OUT_OF_BOUNDS:
		return GM_R_BOUNDS;
	case GM_TOO_LONG:
		return GM_R_TOO_LONG;
	default:
		return 0;
	}
}

void
gm_pop_packet(struct gm_session *s, struct xk_msg *m, const struct gm_header *h)
{
	unsigned why = h->kind == GM_DEPOSIT ? 0 : gm_announce(s);
	uint64_t taken = 0, begin = 0;
	bool disarmed = false;
	enum gm_reason reason;

	if (why == XK_DROP_REFUSED)
		gm_end(s, why, -ECONNREFUSED);
	if (why == 0) {
		xk_lock(&s->lock);
		why = gm_receive_next(s, m, h);
		if (h->offset != 0 && h->kind != GM_DEPOSIT)
			disarmed = gm_disarm(s); /* of a message that is whole now */
		taken = s->taken;
		begin = gm_answered(s);
		if (why == 0)
			gm_deliver(s);
		else
			xk_unlock(&s->lock);
	}
	if (disarmed)
		xk_session_release(&s->session);
	if (why == 0)
		return;
	xk_drop(s->session.protocol, m, why);
	if (why == GM_DUPLICATE && h->kind != GM_DATAGRAM)
		gm_answer(s, GM_ACK, taken, begin);
	else if ((reason = gm_reason_of(why, s)) != 0)
		gm_reset(s->session.protocol, s->session.lls, s->boot, h, reason);
}
