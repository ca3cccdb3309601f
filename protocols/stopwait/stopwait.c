/*
 * stopwait.c - reliable messages between ports, one at a time: each is sent again until it is acknowledged.
 *
 * Promise:      A session is a conversation of two ends, each of which lives once. Each message pushed on one end is
 *               delivered at the other at most once, in order, and intact as far as a 16-bit checksum detects;
 *               exactly once if the peer stays reachable and neither end is closed. No end, not even one of a rebooted
 *               host, gets a message meant for another. (No frame may be older than 2^31 messages of its session.)
 * Spec:         our own 30-byte header; the exchange is below
 * Participants: the top of each stack is a port, 1 to 65535; the rest goes on to the protocol below. Opening needs
 *               the remote port, and chooses a local one from 49152 on if none is given. Enabling needs the local
 *               port.
 * Sessions:     Open exchanges nothing: the first push calls the peer. A CALL to an enabled port makes an end, which
 *               open_done announces with its first message. Any number of sessions may have the same ports and hosts.
 *               A closed session lives on until its messages are acknowledged or given up. `sessions` bounds those
 *               that strangers can make.
 * Failure:      An unanswered message is sent again after `timeout`, which doubles up to `timeout_max`. After `retries`
 *               the session is dead: queued messages are dropped (gave_up), the hlp gets close_done, and pushes fail
 *               with -ETIMEDOUT. GONE has the same effect at once (peer_gone, -ECONNRESET). An end that a stranger has
 *               made retransmits, in a minute, at most three times the bytes of its first transmissions and of what it
 *               received (budget.h); a retransmission beyond that waits (withheld).
 * Memory:       All hosts' unacknowledged messages keep at most `kept` bytes of buffers, one host's at most half of
 *               what others leave (share.h).
 * Not done:     more than one message in flight, measuring the round trip, notifying the peer of a close
 * Graph:        stopwait -> ip [number=253], or anything else that carries messages to hosts
 */
#include <errno.h>

#include "protocols/stopwait/stopwait_private.h"
#include "xkernel/bytes.h"
#include "xkernel/support/ports.h"
#include "xkernel/trace.h"

/*
 * Exchange:     CALL    from=a, to=0      "I am a": an enabled port makes an end of its own, b
 *               WELCOME from=b, to=a      "I am b, and know a"
 *               DATA    from=a, to=b      a message; the first one shows that a is alive, and knows b
 *               ACK     from=b, to=a      the message with this sequence number has been delivered
 *               GONE    from=b, to=a      in answer to DATA: b does not exist
 *
 * An end accepts only frames that name it, from its peer: the caller's peer is the end in the WELCOME, the called end's
 * the one in the CALL. Identifiers are learned from the ends themselves, so DATA for b was sent after b was made, by an
 * end that knew b. A late CALL of a dead end makes an end whose WELCOME is never answered, so the user never learns of
 * that end. Between two ends sequence numbers do the rest: the next message is delivered, older ones are acknowledged
 * again. A message is acknowledged after the user's demux has returned, so that the next one, carried by another
 * shepherd, cannot overtake it.
 */

#define STOPWAIT_DROPS(D)                                                                                              \
	D(STOPWAIT_BAD_KIND, "bad_kind") /* or identifiers that the kind cannot have */                                \
	D(STOPWAIT_STALE, "stale")       /* from an end that is not the peer, or to one that is dead */                \
	D(STOPWAIT_DUPLICATE, "duplicate")                                                                             \
	D(STOPWAIT_BAD_SEQUENCE, "bad_sequence") /* not the next, or still being delivered */                          \
	D(STOPWAIT_TOO_MANY, "too_many")         /* ends made by strangers */                                          \
	/* of pushed messages */                                                                                       \
	D(STOPWAIT_QUEUE_FULL, "queue_full")                                                                           \
	D(STOPWAIT_GAVE_UP, "gave_up")                                                                                 \
	D(STOPWAIT_PEER_GONE, "peer_gone")                                                                             \
	D(STOPWAIT_CLOSED, "closed")                                                                                   \
	D(STOPWAIT_NO_ROOM, "no_room") /* too many buffers are kept for the message's host */
XK_DROPS(stopwait, STOPWAIT_DROPS);

#define STOPWAIT_COUNTERS(C)                                                                                           \
	C(STOPWAIT_CALLED, "called")     /* ends made by strangers */                                                  \
	C(STOPWAIT_ACCEPTED, "accepted") /* those of them that were announced */                                       \
	C(STOPWAIT_RETRANSMITTED, "retransmitted")                                                                     \
	C(STOPWAIT_GONE_SENT, "gone")                                                                                  \
	C(STOPWAIT_WITHHELD, "withheld") /* retransmissions that the budget did not allow */
XK_COUNTERS(stopwait, STOPWAIT_COUNTERS);

struct stopwait {
	struct xk_protocol protocol;
	/* settings */
	uint64_t queue, retries, timeout_ns, timeout_max_ns, kept_max;

	/* self->table: sessions by (own identifier, ports), for all frames but a CALL */
	struct xk_map callers;   /* passive sessions by (the caller's identifier, ports), for a CALL */
	struct xk_shares shares; /* of hosts, in the buffers kept for them */
};

static inline const struct stopwait *
stopwait_of(const struct stopwait_session *s)
{
	return (const struct stopwait *)s->session.protocol;
}

/* ---- the header ---- */

static const struct xk_field_value stopwait_kinds[] = {
	{ STOPWAIT_CALL, "CALL" }, { STOPWAIT_WELCOME, "WELCOME" }, { STOPWAIT_DATA, "DATA" },
	{ STOPWAIT_ACK, "ACK" },   { STOPWAIT_GONE, "GONE" },       { 0, NULL },
};

XK_FIELDS(stopwait, STOPWAIT_HEADER);

/* Strips and checks the header of m, and cuts off padding. Returns 0, or the reason to drop m. */
static unsigned
stopwait_header_pop(struct stopwait_header *h, struct xk_msg *m)
{
	*h = stopwait_load(m->data);
	if (h->length < STOPWAIT_HEADER_LEN || h->length > xk_msg_len(m))
		return XK_DROP_BAD_LENGTH;
	xk_msg_truncate(m, h->length);
	if (!xk_sum_is_intact(xk_msg_sum(m)))
		return XK_DROP_BAD_CHECKSUM;
	xk_msg_pop_in_place(m, STOPWAIT_HEADER_LEN);
	if (h->kind < STOPWAIT_CALL || h->kind > STOPWAIT_GONE)
		return STOPWAIT_BAD_KIND;
	if (h->from == 0 || (h->to == 0) != (h->kind == STOPWAIT_CALL))
		return STOPWAIT_BAD_KIND;
	return h->kind != STOPWAIT_DATA && h->length != STOPWAIT_HEADER_LEN ? XK_DROP_BAD_LENGTH : 0;
}

/* Returns a message of header h, completed, and the payload (NULL: none), which stays the caller's. NULL: no buffer. */
static struct xk_msg *
stopwait_frame(struct xk_protocol *self, struct stopwait_header *h, struct xk_msg *payload)
{
	struct xk_msg *m = payload != NULL ? xk_msg_reference(payload) : xk_msg_new(xk_platform_of(self), 0);
	uint8_t *p = m == NULL ? NULL : xk_msg_push(&m, STOPWAIT_HEADER_LEN);

	if (p == NULL) {
		xk_msg_free(m);
		return NULL;
	}
	h->length = (uint16_t)xk_msg_len(m);
	stopwait_store(p, h);
	xk_checksum_store(p + XK_OFFSET(stopwait, checksum), xk_checksum_finish(xk_msg_sum(m)));
	return m;
}

/* Sends a frame, unless it is NULL for want of a buffer: any lost frame is sent, or asked for, again. */
static void
stopwait_transmit(struct xk_session *lls, struct xk_msg *frame)
{
	if (frame != NULL)
		xk_push(lls, frame);
}

/* Answers h, which came up lls for the end `from`. */
static void
stopwait_answer(struct xk_protocol *self, struct xk_session *lls, const struct stopwait_header *h, uint64_t from,
		enum stopwait_kind kind)
{
	struct stopwait_header answer = { .source = h->destination,
					  .destination = h->source,
					  .kind = (uint16_t)kind,
					  .sequence = h->sequence,
					  .from = from,
					  .to = h->from };

	if (kind == STOPWAIT_GONE)
		xk_count(self, STOPWAIT_GONE_SENT);
	stopwait_transmit(lls, stopwait_frame(self, &answer, NULL));
}

/* ---- sending; the lock is held, and the caller sends the returned frame without it ---- */

/* Removes the first message from the queue, which is not empty. */
static struct xk_msg *
stopwait_dequeue(struct stopwait_session *s)
{
	struct xk_msg *m = s->first;

	s->first = m->link;
	xk_share_give(s->share, xk_msg_buffers(m));
	if (--s->count == 0)
		s->last = &s->first;
	return m;
}

static void
stopwait_drop_all(struct stopwait_session *s, unsigned why)
{
	while (s->count > 0)
		xk_drop(s->session.protocol, stopwait_dequeue(s), why);
}

/*
 * Charges a repetition of the message in flight to the budget of an end created by a stranger. Returns false if it is
 * not allowed now. The last one waits for the second half of the retries.
 */
static bool
stopwait_may_repeat(struct stopwait_session *s)
{
	bool is_late = s->retry.tries > stopwait_of(s)->retries / 2;
	uint64_t len = xk_msg_len(s->first) + STOPWAIT_HEADER_LEN;

	xk_budget_turn(&s->budget, len, xk_now_ns(s->session.protocol));
	return !s->passive || xk_budget_take(&s->budget, len, is_late);
}

/*
 * Returns the frame that the peer must answer: the CALL, or the message in flight, for the first time or `again`.
 * Returns NULL if nothing is queued, without a buffer, or if it must not be sent again now; the timer then tries again.
 */
static struct xk_msg *
stopwait_next_frame(struct stopwait_session *s, bool again)
{
	const struct stopwait *stopwait = stopwait_of(s);
	const uint8_t *ends = s->session.sends.header;
	uint64_t now_ns = xk_now_ns(s->session.protocol);
	bool calls = s->peer == 0;
	struct stopwait_header h = { .source = XK_GET(stopwait, source, ends),
				     .destination = XK_GET(stopwait, destination, ends),
				     .kind = calls ? STOPWAIT_CALL : STOPWAIT_DATA,
				     .sequence = s->sequence,
				     .from = s->id,
				     .to = s->peer };

	if (s->count == 0)
		return NULL;
	if (again) {
		xk_retry_again(&s->retry, stopwait->timeout_max_ns, now_ns);
		xk_count(s->session.protocol, STOPWAIT_RETRANSMITTED);
	} else {
		xk_retry_begin(&s->retry, stopwait->timeout_ns, now_ns);
	}
	xk_alarm_set(&s->alarm, s->retry.due_ns);
	if (!calls && !again) {
		xk_budget_note(&s->budget, xk_msg_len(s->first) + STOPWAIT_HEADER_LEN);
	} else if (!calls && !stopwait_may_repeat(s)) {
		xk_count(s->session.protocol, STOPWAIT_WITHHELD);
		return NULL;
	}
	return stopwait_frame(s->session.protocol, &h, calls ? NULL : s->first);
}

static int
stopwait_push(struct xk_session *session, struct xk_msg *m)
{
	struct stopwait_session *s = (struct stopwait_session *)session;
	struct xk_msg *frame = NULL;
	unsigned why = 0;
	uint64_t due_ns;
	int err = 0;

	xk_lock(&s->lock);
	due_ns = s->count > 0 ? s->retry.due_ns : xk_now_ns(session->protocol) + stopwait_of(s)->timeout_ns;
	if (xk_msg_len(m) > s->session.sends.longest) {
		why = XK_DROP_TOO_BIG;
		err = -EMSGSIZE;
	} else if (s->error != 0) {
		why = STOPWAIT_CLOSED;
		err = s->error;
	} else if (s->count > stopwait_of(s)->queue) {
		why = STOPWAIT_QUEUE_FULL;
		err = -ENOBUFS;
	} else if (!xk_share_take(s->share, xk_msg_buffers(m))) {
		why = STOPWAIT_NO_ROOM;
		err = -ENOBUFS;
	} else if (!xk_alarm_set(&s->alarm, due_ns)) {
		xk_share_give(s->share, xk_msg_buffers(m));
		why = STOPWAIT_CLOSED;
		err = -ECONNRESET;
	} else {
		m->link = NULL;
		*s->last = m;
		s->last = &m->link;
		if (++s->count == 1)
			frame = stopwait_next_frame(s, false);
	}
	xk_unlock(&s->lock);
	if (why != 0)
		xk_drop(session->protocol, m, why);
	stopwait_transmit(session->lls, frame);
	return err;
}

/* ---- a session's end, and its timer ---- */

/*
 * Ends s: drops queued messages for the reason why, notifies the hlp, and takes a passive session out of the cache. The
 * shepherd holds a reference on s, or is popping through it.
 */
static void
stopwait_end(struct stopwait_session *s, unsigned why, int err)
{
	struct xk_session *session = &s->session;
	bool first, known, stopped;

	xk_lock(&s->lock);
	first = s->error == 0;
	known = s->known;
	if (first)
		s->error = err;
	stopwait_drop_all(s, why);
	stopped = xk_alarm_stop(&s->alarm);
	xk_unlock(&s->lock);
	if (stopped)
		xk_session_release(session); /* not the last: the caller has one, or pops through s */
	if (!first)
		return;
	xk_trace(session->protocol, XK_TRACE_EVENTS, "session of %s is dead: %s", xk_hlp_receive(session)->name,
		 xk_drop_name(session->protocol->type, why));
	if (known && why != XK_DROP_REFUSED)
		xk_close_done(session);
	if (s->passive && xk_duplicate(session))
		xk_close(session); /* as an hlp would: out of the cache */
}

/* Sends a due message again. */
static void
stopwait_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct stopwait_session *s = xk_container_of(alarm, struct stopwait_session, alarm);
	bool late = s->count > 0 && now_ns >= s->retry.due_ns;
	bool gives_up = late && s->retry.tries == stopwait_of(s)->retries;
	struct xk_msg *frame = NULL;

	if (late && !gives_up)
		frame = stopwait_next_frame(s, true);
	else if (s->count > 0 && !late)
		xk_alarm_set(&s->alarm, s->retry.due_ns);
	xk_unlock(&s->lock);
	if (late)
		xk_unanswered(s->session.lls);
	stopwait_transmit(s->session.lls, frame);
	if (gives_up)
		stopwait_end(s, STOPWAIT_GAVE_UP, -ETIMEDOUT);
}

/* ---- a new end ---- */

/* Returns the key of the end with this identifier, or of the one that the end with this identifier has called. */
static struct xk_key
stopwait_key(uint64_t id, const struct stopwait_header *h)
{
	return (struct xk_key){ id, (uint32_t)h->source << 16 | h->destination };
}

static struct xk_key
stopwait_key_of(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p)
{
	const struct stopwait_header h = stopwait_load(p);

	return stopwait_key(h.to, &h);
}

/*
 * Draws the identifier of a new end. If boots are counted, it contains the boot's number: no two of 65,536 boots draw
 * the same identifier.
 */
static uint64_t
stopwait_draw(struct xk_protocol *self)
{
	uint64_t boots = xk_boots(self), id = xk_random(self);

	if (boots != 0)
		id = boots << 48 | id >> 16;
	return id != 0 ? id : 1;
}

static int
stopwait_setup(struct xk_session *session, const void *how)
{
	struct stopwait_session *s = (struct stopwait_session *)session;
	const struct stopwait_header h = stopwait_load(how);
	uint32_t below;
	int got;

	xk_lock_init(&s->lock, session->protocol);
	xk_alarm_init(&s->alarm, session, &s->lock, stopwait_expire);
	xk_ports_setup(session, how);
	s->id = h.to;
	s->peer = h.from;
	s->passive = h.from != 0;
	s->known = !s->passive;
	s->last = &s->first;
	s->share = xk_shares_join(&((struct stopwait *)session->protocol)->shares,
				  &(struct xk_key){ xk_peer_address(session->lls), 0 }, 1);
	if (s->share == NULL)
		return -ENOMEM;
	got = xk_control(session->lls, XK_GET_MAX_PACKET, &below);
	if (got < 0)
		return got;
	if (below < STOPWAIT_HEADER_LEN)
		return -EMSGSIZE;
	s->session.sends.longest = (below < UINT16_MAX ? below : UINT16_MAX) - STOPWAIT_HEADER_LEN;
	return 0;
}

static int
stopwait_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	      struct xk_participants *participants, struct xk_session **session)
{
	uint8_t p[STOPWAIT_HEADER_LEN] = { 0 };
	struct xk_opening opening = { hlp_receive, hlp_type, .p = p, .how = p };
	int err = xk_ports_open_below(self, participants, &opening); /* may wait */

	if (err != 0)
		return err;
	XK_PUT(stopwait, to, p, stopwait_draw(self));
	return xk_ports_open_on(self, &opening, session);
}

/* Makes a session for a stranger's CALL. Returns 0, or the reason to drop it. */
XK_APART static unsigned
stopwait_accept(struct xk_protocol *self, struct xk_session *lls, const struct stopwait_header *h,
		struct xk_session **session)
{
	struct xk_map *callers = &((struct stopwait *)self)->callers;
	const struct xk_enable *enable = xk_table_enabled(self, xk_table_number_key(h->destination));
	struct stopwait_header called = *h;
	uint8_t p[STOPWAIT_HEADER_LEN];
	struct xk_session *s;

	if (enable == NULL)
		return XK_DROP_NO_SESSION;
	/* the cache closes idle ones; this bounds those that make us send, and do not answer */
	if (xk_map_count(callers) / 2 >= self->session_max)
		return STOPWAIT_TOO_MANY;
	if (!xk_duplicate(lls))
		return XK_DROP_NO_SESSION;
	called.to = stopwait_draw(self);
	stopwait_store(p, &called);
	if (xk_table_add(self, stopwait_key(called.to, h), enable->hlp_receive, enable->hlp_type, lls, p, &s) != 0)
		return XK_DROP_NO_MEMORY;
	if (xk_map_bind(callers, &((struct stopwait_session *)s)->caller, stopwait_key(h->from, h), s) != 0) {
		xk_close(s);
		return XK_DROP_NO_MEMORY; /* or another shepherd was faster: the caller tries again */
	}
	xk_count(self, STOPWAIT_CALLED);
	xk_session_cache(s);
	*session = s;
	return 0;
}

/* ---- receiving ---- */

/* Checks DATA; the next message is then being delivered. Returns 0, or the reason to drop it. The lock is held. */
static unsigned
stopwait_check_data(struct stopwait_session *s, const struct stopwait_header *h)
{
	int32_t ahead = (int32_t)(h->sequence - s->expected);

	if (s->error != 0)
		return XK_DROP_NO_SESSION;
	if (h->from != s->peer)
		return STOPWAIT_STALE;
	xk_budget_note(&s->budget, STOPWAIT_HEADER_LEN); /* a peer that sends earns retransmissions */
	if (ahead < 0)
		return STOPWAIT_DUPLICATE;
	if (ahead > 0 || s->delivering)
		return STOPWAIT_BAD_SEQUENCE;
	s->delivering = true;
	return 0;
}

/* Delivers DATA, if it is the next message, and answers it. */
static void
stopwait_pop_data(struct stopwait_session *s, struct xk_session *lls, struct xk_msg *m, const struct stopwait_header *h)
{
	struct xk_protocol *self = s->session.protocol;
	bool first; /* message of a passive session, which is announced */
	unsigned why;

	xk_lock(&s->lock);
	why = stopwait_check_data(s, h);
	first = why == 0 && !s->known;
	s->known |= first;
	xk_unlock(&s->lock);
	if (first && xk_open_done(xk_hlp_receive(&s->session), self, &s->session, s->session.hlp_type) != 0) {
		why = XK_DROP_REFUSED;
		stopwait_end(s, why, -ECONNREFUSED);
	} else if (first) {
		xk_count(self, STOPWAIT_ACCEPTED);
	}
	if (why != 0) {
		xk_drop(self, m, why);
		if (why == STOPWAIT_DUPLICATE)
			stopwait_answer(self, lls, h, s->id, STOPWAIT_ACK);
		else if (why == XK_DROP_NO_SESSION || why == XK_DROP_REFUSED)
			stopwait_answer(self, lls, h, s->id, STOPWAIT_GONE);
		return;
	}
	xk_demux(&s->session, m);
	xk_lock(&s->lock);
	s->expected++;
	s->delivering = false;
	xk_unlock(&s->lock);
	stopwait_answer(self, lls, h, s->id, STOPWAIT_ACK);
}

/*
 * Takes the peer from a WELCOME, or the message in flight off the queue for its ACK. Returns 0, or the reason to drop
 * the answer. The lock is held.
 */
static unsigned
stopwait_receive_answer(struct stopwait_session *s, const struct stopwait_header *h)
{
	bool calling = s->peer == 0;

	if (s->error != 0 || (calling ? h->kind != STOPWAIT_WELCOME : h->from != s->peer))
		return STOPWAIT_STALE;
	if (h->kind == STOPWAIT_WELCOME && !calling)
		return STOPWAIT_DUPLICATE;
	if (h->kind == STOPWAIT_WELCOME)
		s->peer = h->from;
	if (h->kind != STOPWAIT_ACK)
		return 0;
	if (s->count == 0 || h->sequence != s->sequence)
		return (int32_t)(h->sequence - s->sequence) < 0 ? STOPWAIT_DUPLICATE : STOPWAIT_BAD_SEQUENCE;
	xk_budget_note(&s->budget, xk_msg_len(s->first) + STOPWAIT_HEADER_LEN);
	xk_msg_free(stopwait_dequeue(s));
	s->sequence++;
	return 0;
}

/* Sends the next message after WELCOME or ACK; ends s after GONE. */
static void
stopwait_pop_answer(struct stopwait_session *s, struct xk_session *lls, struct xk_msg *m,
		    const struct stopwait_header *h)
{
	struct xk_msg *frame = NULL;
	unsigned why;

	xk_lock(&s->lock);
	why = stopwait_receive_answer(s, h);
	if (why == 0 && h->kind != STOPWAIT_GONE)
		frame = stopwait_next_frame(s, false);
	xk_unlock(&s->lock);
	if (why != 0) {
		xk_drop(s->session.protocol, m, why);
		return;
	}
	xk_msg_free(m);
	stopwait_transmit(lls, frame);
	if (h->kind == STOPWAIT_GONE)
		stopwait_end(s, STOPWAIT_PEER_GONE, -ECONNRESET);
}

static void
stopwait_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct stopwait_session *s = (struct stopwait_session *)session;
	const struct stopwait_header *h = hdr;

	if (h->kind == STOPWAIT_DATA) {
		stopwait_pop_data(s, lls, m, h);
	} else if (h->kind == STOPWAIT_CALL) {
		xk_msg_free(m);
		stopwait_answer(session->protocol, lls, h, s->id, STOPWAIT_WELCOME);
	} else {
		stopwait_pop_answer(s, lls, m, h);
	}
}

static void
stopwait_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct stopwait_header h;
	struct xk_session *s = NULL;
	unsigned why = stopwait_header_pop(&h, m);

	if (why == 0 && h.kind == STOPWAIT_CALL)
		s = xk_map_resolve(&((struct stopwait *)self)->callers, stopwait_key(h.from, &h));
	else if (why == 0)
		s = xk_table_find(self, stopwait_key(h.to, &h));
	if (s != NULL && s->lls != lls)
		why = STOPWAIT_STALE; /* from another host */
	else if (why == 0 && s == NULL)
		why = h.kind == STOPWAIT_CALL ? stopwait_accept(self, lls, &h, &s) : XK_DROP_NO_SESSION;
	if (why == 0) {
		xk_pop(s, lls, m, &h);
		return;
	}
	xk_drop(self, m, why);
	if (why == XK_DROP_NO_SESSION && h.kind == STOPWAIT_DATA)
		stopwait_answer(self, lls, &h, h.to, STOPWAIT_GONE);
}

/* ---- closing and asking ---- */

static void
stopwait_close(struct xk_session *session)
{
	struct stopwait_session *s = (struct stopwait_session *)session;
	struct stopwait *stopwait = (struct stopwait *)session->protocol;

	xk_lock(&s->lock); /* a shepherd may still be in the pop */
	stopwait_drop_all(s, STOPWAIT_CLOSED);
	xk_unlock(&s->lock);
	xk_shares_leave(&stopwait->shares, s->share);
	xk_map_unbind(&stopwait->callers, &s->caller);
}

/* ---- init and fini ---- */

static void
stopwait_forget(void *object, void *context)
{
	xk_alarm_cancel(&((struct stopwait_session *)object)->alarm);
}

static void
stopwait_fini(struct xk_protocol *self)
{
	xk_map_for_each(&self->table.sessions, stopwait_forget, NULL);
	xk_map_fini(&((struct stopwait *)self)->callers);
	xk_shares_fini(&((struct stopwait *)self)->shares);
}

static int
stopwait_init(struct xk_protocol *self)
{
	struct stopwait *stopwait = (struct stopwait *)self;
	int err;

	if (stopwait->timeout_max_ns < stopwait->timeout_ns)
		return -EINVAL;
	err = xk_map_init(&stopwait->callers, self->kernel, 16);
	if (err != 0)
		return err;
	err = xk_shares_init(&stopwait->shares, self, XK_SHARES_OF_BUFFERS, xk_share_buffers(stopwait->kept_max));
	if (err != 0)
		goto fail;
	err = xk_ports_init(self, XK_PORTS_FIRST, XK_PORTS_LAST, xk_random(self));
	if (err == 0)
		return 0;
	xk_shares_fini(&stopwait->shares);
fail:
	xk_map_fini(&stopwait->callers);
	return err;
}

/* ---- promises ---- */

static const char *
stopwait_session_promise(struct xk_session *session, bool at_rest)
{
	const struct stopwait_session *s = (const struct stopwait_session *)session;
	unsigned count = 0, buffers = 0;

	for (const struct xk_msg *m = s->first; m != NULL; m = m->link) {
		count++;
		buffers += xk_msg_buffers(m);
	}
	if (count != s->count)
		return xk_broken(session->protocol, "the queue's length is %u, not %u", count, s->count);
	if (count > 1 + stopwait_of(s)->queue)
		return "more messages are queued than the queue holds";
	if (buffers > xk_share_held(s->share))
		return "a message's buffers are not counted in its host's share";
	if (count > 0 && s->error != 0)
		return "a dead session has messages in its queue";
	if (count > 0 && !xk_alarm_covers(&s->alarm, s->retry.due_ns))
		return "a message is in flight without a timer";
	if (at_rest && count > 0)
		return "a message is neither acknowledged nor given up";
	return at_rest && s->delivering ? "a message is being delivered for ever" : NULL;
}

static const char *
stopwait_promise(struct xk_protocol *self, bool at_rest)
{
	return xk_shares_promise(&((const struct stopwait *)self)->shares, at_rest);
}

/* ---- tables ---- */

static const struct xk_session_ops stopwait_session_ops = {
	.size = sizeof(struct stopwait_session),
	.setup = stopwait_setup,
	.push = stopwait_push,
	.pop = stopwait_pop,
	.close = stopwait_close,
	.promise = stopwait_session_promise,
};

static const struct xk_protocol_ops stopwait_ops = {
	.init = stopwait_init,
	.fini = stopwait_fini,
	.open = stopwait_open,
	.passive_key = xk_ports_passive_key,
	.passive_key_of = xk_ports_passive_key_of,
	.demux = stopwait_demux,
	.promise = stopwait_promise,
	.key = stopwait_key_of,
};

static const struct xk_setting stopwait_settings[] = {
	XK_SETTING(UINT, struct stopwait, queue, "queue", "maximum number of messages queued behind the one in flight",
		   .initial = "16", .max = 65535),
	XK_SETTING(TIME, struct stopwait, timeout_ns, "timeout",
		   "initial retransmission timeout, doubled at each retry", .initial = "200ms", .min = 1000,
		   .max = UINT64_C(60000000000)),
	XK_SETTING(TIME, struct stopwait, timeout_max_ns, "timeout_max", "longest retransmission timeout",
		   .initial = "2s", .min = 1000, .max = UINT64_C(3600000000000)),
	XK_SETTING(UINT, struct stopwait, retries, "retries",
		   "retransmissions of a message before the session is given up", .initial = "10", .max = 1000),
	XK_SETTING(UINT, struct stopwait, kept_max, "kept",
		   "bytes of buffers of unacknowledged messages; each buffer counts as 2 KiB, however little it holds",
		   .initial = "8m", .min = XK_MSG_SEGMENT, .max = UINT64_C(1) << 40),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_stopwait = {
	.name = "stopwait",
	.help = "Reliable, ordered messages between ports, one at a time: each is sent again until it is acknowledged.",
	.ops = &stopwait_ops,
	.session_ops = &stopwait_session_ops,
	.header = STOPWAIT_HEADER_LEN,
	.fields = stopwait_fields,
	.size = sizeof(struct stopwait),
	.offers = XK_ASYNC,
	.lowers = XK_ROLES({ "network", XK_ASYNC, NULL, "carries messages to hosts; normally ip" }),
	.numbers = XK_NUMBERS({ "bid", 253 }),
	.settings = stopwait_settings,
	.drops = stopwait_drops,
	.counters = stopwait_counters,
	.session_max = 1024,
};
