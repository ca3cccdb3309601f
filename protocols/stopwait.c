/*
 * stopwait.c - a reliable message channel between ports, the simplest that keeps its promise: one message at a time, sent
 * again until it is acknowledged.
 *
 * Promise:      A session is a conversation of two ends, each of which lives once: it has an identifier that no other end
 *               has or had. Of what is pushed on one end, the other one's user gets every message at most once, in
 *               order, and intact as far as a 16-bit checksum can tell; and exactly once if the peer stays reachable and
 *               neither end is closed. Nothing that was meant for an end is ever delivered to another, a host's after its
 *               reboot least of all. (It is assumed that no frame is older than 2^31 messages of its session.)
 * Spec:         our own; a 30-byte header:
 *
 *                0             2             4             6             8             10            12
 *               +-------------+-------------+-------------+-------------+-------------+-------------+
 *               | source port | destination | length        | checksum  | kind        | sequence .. |
 *               +-------------+-------------+-------------+-------------+-------------+-------------+
 *               | .. sequence | from: the sender's end (8 bytes)  | to: the receiver's end (8 bytes)  |
 *
 *               length counts header and payload, as the checksum (RFC 1071) covers both.
 * Exchange:     CALL   from=a, to=0       "I am a": whoever has enabled the port makes an end of its own, b
 *               WELCOME from=b, to=a      "I am b, and have heard a"
 *               DATA   from=a, to=b       a message; the first one shows that a is there, and has heard b
 *               ACK    from=b, to=a       the message with this sequence number has been delivered
 *               GONE   from=b, to=a       in answer to DATA: there is no b (any more)
 * Why it holds: An end listens to what names it, and only from the one peer that it has taken: the caller from the
 *               WELCOME that names it, the one called from the CALL that made it. An identifier is drawn when an end is
 *               made, never reused (a host that counts its boots puts the count into it), and learned by the peer from
 *               the end itself: so DATA for b was sent after b was made, by an end that had heard b. An old CALL that
 *               comes late makes an end that welcomes a dead one, whom nobody answers for: its user never hears of it.
 *               Between two ends sequence numbers do the rest: the next one is delivered, older ones are acknowledged
 *               again. A message is acknowledged when the user's demux has returned, not before, so that the next one,
 *               carried by another shepherd, cannot overtake it.
 * Participants: the top of each stack is a port, 1 to 65535; what is below it goes on to the protocol below. Opening needs
 *               the remote one; without a local one a port from 49152 on is chosen. Enabling needs the local one.
 * Sessions:     open exchanges nothing: the first message that is pushed calls the peer. Any number of sessions may have
 *               the same ports and hosts. A stranger's CALL makes a session; open_done comes with its first message. A
 *               session that is closed lives on until what was pushed is acknowledged or given up.
 * Failure:      A message that is not acknowledged is sent again after `timeout`, then after twice that and so on up to
 *               `timeout_max`; what was acknowledged without that halves the time again. After `retries` of them the
 *               session is dead: all that waits is dropped as gave_up, the hlp is told by close_done, and pushes fail
 *               with -ETIMEDOUT. GONE has the same effect at once, with peer_gone and -ECONNRESET (of the message that
 *               was under way it is then not known whether it was delivered).
 * Control:      XK_GET_MAX_PACKET, XK_GET_OPT_PACKET; the session below answers the others
 * Settings:     queue, timeout, timeout_max, retries; sessions bounds what strangers can make
 * Drops:        bad_length, bad_checksum, bad_kind (or identifiers that the kind cannot have); no_session, stale (names an
 *               end that is dead, or comes from an end that is not its peer), duplicate, bad_sequence, too_many (ends that
 *               strangers have made); of what is pushed too_big, queue_full, gave_up, peer_gone, closed
 * Counters:     called (ends that strangers have made), accepted (of these, announced), retransmitted, gone (answers)
 * Not done:     more than one message under way, measuring the round trip, telling the peer of a close
 * Graph:        stopwait -> ip [number=253], or anything else that carries messages to hosts
 */
#include <errno.h>
#include <string.h>

#include "xkernel/bytes.h"
#include "xkernel/event.h"
#include "xkernel/protocol.h"
#include "xkernel/trace.h"

enum stopwait_drop {
	STOPWAIT_BAD_LENGTH = XK_DROP_OWN,
	STOPWAIT_BAD_CHECKSUM,
	STOPWAIT_BAD_KIND,
	STOPWAIT_STALE,
	STOPWAIT_DUPLICATE,
	STOPWAIT_BAD_SEQUENCE,
	STOPWAIT_TOO_MANY,
	STOPWAIT_TOO_BIG,
	STOPWAIT_QUEUE_FULL,
	STOPWAIT_GAVE_UP,
	STOPWAIT_PEER_GONE,
	STOPWAIT_CLOSED,
};

enum stopwait_counter { STOPWAIT_CALLED, STOPWAIT_ACCEPTED, STOPWAIT_RETRANSMITTED, STOPWAIT_GONE_SENT };

/* ---- the header ---- */

enum stopwait_kind { STOPWAIT_CALL = 1, STOPWAIT_WELCOME, STOPWAIT_DATA, STOPWAIT_ACK, STOPWAIT_GONE };

enum {
	STOPWAIT_PORTS = 0, /* source, destination */
	STOPWAIT_LENGTH = 4,
	STOPWAIT_CHECKSUM = 6,
	STOPWAIT_KIND = 8,
	STOPWAIT_SEQUENCE = 10,
	STOPWAIT_FROM = 14,
	STOPWAIT_TO = 22,
	STOPWAIT_HEADER_LEN = 30,

	STOPWAIT_LONGEST = 65535, /* what the length field can say */
};

struct stopwait_header {
	uint32_t ports; /* source << 16 | destination */
	enum stopwait_kind kind;
	uint32_t sequence;
	uint64_t from, to;
};

static uint32_t
stopwait_turn_round(uint32_t ports)
{
	return ports << 16 | ports >> 16;
}

/* 0, or why no honest sender has made this. */
static unsigned
stopwait_header_check(const struct stopwait_header *h, size_t payload_len)
{
	if (h->kind < STOPWAIT_CALL || h->kind > STOPWAIT_GONE)
		return STOPWAIT_BAD_KIND;
	if (h->from == 0 || (h->to == 0) != (h->kind == STOPWAIT_CALL))
		return STOPWAIT_BAD_KIND;
	return h->kind != STOPWAIT_DATA && payload_len != 0 ? STOPWAIT_BAD_LENGTH : 0;
}

/* Takes the header off *m, checks it, and cuts off what is not the message's. 0, or the reason to drop *m. */
static unsigned
stopwait_header_pop(struct stopwait_header *h, struct xk_msg **m)
{
	const uint8_t *p = xk_msg_peek(m, STOPWAIT_HEADER_LEN);
	size_t length;

	if (p == NULL)
		return xk_msg_len(*m) < STOPWAIT_HEADER_LEN ? XK_DROP_SHORT : XK_DROP_NO_BUFFER;
	length = xk_get16(p + STOPWAIT_LENGTH);
	if (length < STOPWAIT_HEADER_LEN || length > xk_msg_len(*m))
		return STOPWAIT_BAD_LENGTH;
	xk_msg_truncate(*m, length);
	if (!xk_sum_is_intact(xk_msg_sum(*m)))
		return STOPWAIT_BAD_CHECKSUM;
	h->ports = xk_get32(p + STOPWAIT_PORTS);
	h->kind = xk_get16(p + STOPWAIT_KIND);
	h->sequence = xk_get32(p + STOPWAIT_SEQUENCE);
	h->from = xk_get64(p + STOPWAIT_FROM);
	h->to = xk_get64(p + STOPWAIT_TO);
	xk_msg_pop(m, STOPWAIT_HEADER_LEN);
	return stopwait_header_check(h, length - STOPWAIT_HEADER_LEN);
}

/* Header and payload (NULL: none), which stays the caller's, as a message of their own. NULL: no buffer. */
static struct xk_msg *
stopwait_frame(struct xk_protocol *self, const struct stopwait_header *h, const struct xk_msg *payload)
{
	struct xk_msg *m = payload != NULL ? xk_msg_reference(payload) : xk_msg_new(xk_platform_of(self), 0);
	uint8_t *p = m == NULL ? NULL : xk_msg_push(&m, STOPWAIT_HEADER_LEN);

	if (p == NULL) {
		xk_msg_free(m);
		return NULL;
	}
	xk_put32(p + STOPWAIT_PORTS, h->ports);
	xk_put16(p + STOPWAIT_LENGTH, (uint16_t)xk_msg_len(m));
	xk_put16(p + STOPWAIT_CHECKSUM, 0);
	xk_put16(p + STOPWAIT_KIND, (uint16_t)h->kind);
	xk_put32(p + STOPWAIT_SEQUENCE, h->sequence);
	xk_put64(p + STOPWAIT_FROM, h->from);
	xk_put64(p + STOPWAIT_TO, h->to);
	xk_checksum_store(p + STOPWAIT_CHECKSUM, xk_checksum_finish(xk_msg_sum(m)));
	return m;
}

/* ---- state ---- */

enum { STOPWAIT_ANONYMOUS_FIRST = 49152, STOPWAIT_ANONYMOUS_COUNT = 65536 - STOPWAIT_ANONYMOUS_FIRST };

struct stopwait {
	struct xk_protocol protocol; /* first */
	/* settings */
	uint64_t queue, retries, timeout_ns, timeout_max_ns;

	struct xk_map sessions; /* (own identifier, ports): how all but a CALL finds its session */
	struct xk_map callers;  /* (the caller's identifier, ports): the session that a CALL has made */
	struct xk_map enables;  /* local port: struct xk_enable */
	_Atomic uint32_t next_anonymous;
	_Atomic unsigned passive_count; /* sessions that strangers have made, cached or not */
};

struct stopwait_session {
	struct xk_session session; /* first */
	uint64_t id;               /* of this end */
	uint32_t ports;            /* as in what arrives */
	uint32_t max_packet;
	bool passive;
	struct xk_binding caller; /* in callers */
	struct xk_event timer;    /* pending, it holds a reference on the session */

	struct xk_lock lock; /* over what follows */
	uint64_t peer;       /* the other end; 0: has not answered yet */
	bool known;          /* to the hlp */
	bool timing;         /* the timer is pending, or has fired and waits for the lock */
	int error;           /* what a push gets; 0: not dead */
	/* sending: the first of the queue is under way, and as long as there is one, the timer is pending */
	struct xk_msg *first, **last;
	unsigned count;
	uint32_t sequence;
	unsigned tries;
	uint64_t timeout_ns, due_ns;
	/* receiving */
	uint32_t expected;
	bool delivering; /* the one before `expected` is on its way up, and not to be acknowledged yet */
};

static struct stopwait *
stopwait_of(struct stopwait_session *s)
{
	return (struct stopwait *)s->session.protocol;
}

static struct xk_key
stopwait_key(uint64_t id, uint32_t ports)
{
	return (struct xk_key){ id, ports };
}

static struct xk_key
stopwait_enable_key(uint16_t local)
{
	return (struct xk_key){ local, 0 };
}

/* ---- sending; the lock is held ---- */

static void
stopwait_enqueue(struct stopwait_session *s, struct xk_msg *m)
{
	m->link = NULL;
	*s->last = m;
	s->last = &m->link;
	s->count++;
}

/* NULL: nothing is queued. */
static struct xk_msg *
stopwait_dequeue(struct stopwait_session *s)
{
	struct xk_msg *m = s->first;

	if (m == NULL)
		return NULL;
	s->first = m->link;
	if (s->first == NULL)
		s->last = &s->first;
	s->count--;
	return m;
}

static uint64_t
stopwait_us(uint64_t ns)
{
	return (ns + 999) / 1000;
}

/* What has to be answered next, as a frame to send when the lock is free. NULL: no buffer, the timer tries again. */
static struct xk_msg *
stopwait_send(struct stopwait_session *s)
{
	struct stopwait_header h = { stopwait_turn_round(s->ports), STOPWAIT_CALL, 0, s->id, s->peer };

	s->due_ns = xk_now_ns(s->session.protocol) + s->timeout_ns;
	if (s->peer == 0)
		return stopwait_frame(s->session.protocol, &h, NULL);
	h.kind = STOPWAIT_DATA;
	h.sequence = s->sequence;
	return stopwait_frame(s->session.protocol, &h, s->first);
}

/* As stopwait_send, for what is sent for the first time. NULL also if nothing is queued. */
static struct xk_msg *
stopwait_begin(struct stopwait_session *s)
{
	s->tries = 0;
	return s->count == 0 ? NULL : stopwait_send(s);
}

/* The end of s: all that waits is dropped for the reason why. stopwait_bury follows, without the lock. */
static void
stopwait_die(struct stopwait_session *s, unsigned why, int error)
{
	struct xk_msg *m;

	xk_trace(s->session.protocol, XK_TRACE_EVENTS, "session of %s is dead: %s", xk_hlp_receive(&s->session)->name,
		 xk_drop_name(s->session.protocol->type, why));
	s->error = error;
	while ((m = stopwait_dequeue(s)) != NULL)
		xk_drop(s->session.protocol, m, why);
}

/* Nobody has answered in time. A frame to send, or NULL; true: s is dead. */
static bool
stopwait_overdue(struct stopwait_session *s, struct xk_msg **frame)
{
	const struct stopwait *stopwait = stopwait_of(s);

	if (s->tries++ == stopwait->retries) {
		stopwait_die(s, STOPWAIT_GAVE_UP, -ETIMEDOUT);
		return true;
	}
	s->timeout_ns *= 2;
	if (s->timeout_ns > stopwait->timeout_max_ns)
		s->timeout_ns = stopwait->timeout_max_ns;
	xk_count(s->session.protocol, STOPWAIT_RETRANSMITTED);
	*frame = stopwait_send(s);
	return false;
}

/* ---- a session's end, and its timer; the lock is not held ---- */

/* s is dead: whoever has it is told, and what holds it for a stranger lets it go. A shepherd that has s or holds it. */
static void
stopwait_bury(struct stopwait_session *s, bool known)
{
	if (known)
		xk_close_done(&s->session);
	if (s->passive && xk_duplicate(&s->session))
		xk_close(&s->session); /* as an hlp would: out of the cache */
}

/* Messages move no timer: it looks what is due when it fires, and rests when nothing is. */
static void
stopwait_expire(struct xk_event *event, void *argument)
{
	struct stopwait_session *s = argument;
	struct xk_msg *frame = NULL;
	bool dead = false, known;
	uint64_t now_ns;

	xk_lock(&s->lock);
	now_ns = xk_now_ns(s->session.protocol);
	if (s->count > 0 && now_ns >= s->due_ns)
		dead = stopwait_overdue(s, &frame);
	s->timing = s->count > 0 && xk_duplicate(&s->session);
	if (s->timing)
		xk_event_schedule(event, stopwait_us(s->due_ns - now_ns));
	known = s->known;
	xk_unlock(&s->lock);
	if (frame != NULL)
		xk_push(s->session.lls, frame);
	if (dead)
		stopwait_bury(s, known);
	xk_session_release(&s->session);
}

static void
stopwait_close(struct xk_session *session)
{
	struct stopwait_session *s = (struct stopwait_session *)session;
	struct stopwait *stopwait = stopwait_of(s);
	struct xk_msg *m;

	while ((m = stopwait_dequeue(s)) != NULL)
		xk_drop(session->protocol, m, STOPWAIT_CLOSED);
	if (!s->passive)
		return;
	xk_map_unbind(&stopwait->callers, &s->caller);
	atomic_fetch_sub_explicit(&stopwait->passive_count, 1, memory_order_relaxed);
}

/* ---- init and fini ---- */

/* A session that was waiting for an answer: nobody will wait any more. */
static void
stopwait_forget(void *object, void *context)
{
	struct stopwait_session *s = object;

	(void)context;
	if (xk_event_cancel(&s->timer) == XK_EVENT_CANCELLED)
		xk_session_release(&s->session);
}

static void
stopwait_fini(struct xk_protocol *self)
{
	struct stopwait *stopwait = (struct stopwait *)self;

	xk_map_for_each(&stopwait->sessions, stopwait_forget, NULL);
	xk_enable_fini(&stopwait->enables);
	xk_map_fini(&stopwait->callers);
	xk_map_fini(&stopwait->sessions);
}

static int
stopwait_init_maps(struct stopwait *stopwait)
{
	struct xk_kernel *kernel = stopwait->protocol.kernel;
	int err = xk_map_init(&stopwait->sessions, kernel, 16);

	if (err != 0)
		return err;
	err = xk_map_init(&stopwait->callers, kernel, 16);
	if (err == 0) {
		err = xk_map_init(&stopwait->enables, kernel, 8);
		if (err == 0)
			return 0;
		xk_map_fini(&stopwait->callers);
	}
	xk_map_fini(&stopwait->sessions);
	return err;
}

static int
stopwait_init(struct xk_protocol *self)
{
	struct stopwait *stopwait = (struct stopwait *)self;
	struct xk_participants anybody = { .remote.depth = 0 };
	int err;

	if (stopwait->timeout_max_ns < stopwait->timeout_ns)
		return -EINVAL;
	err = stopwait_init_maps(stopwait);
	if (err != 0)
		return err;
	atomic_store_explicit(&stopwait->next_anonymous, (uint32_t)xk_random(self), memory_order_relaxed);
	err = xk_open_enable(self, self, xk_lower(self, 0), &anybody);
	if (err != 0)
		stopwait_fini(self);
	return err;
}

/* ---- opening ---- */

static const struct xk_session_ops stopwait_session_ops;

/* Where boots are counted, no two (of 65,536) can draw the same. */
static uint64_t
stopwait_draw_id(const struct xk_protocol *self)
{
	uint64_t id = xk_random(self), boots = xk_boots(self);

	if (boots != 0)
		id = boots << 48 | id >> 16;
	return id != 0 ? id : 1;
}

/* Makes s reachable under an identifier that is new. 0 or -errno. */
static int
stopwait_bind(struct stopwait *stopwait, struct stopwait_session *s)
{
	int err = -EEXIST;

	for (unsigned tries = 0; err == -EEXIST && tries < 8; tries++) {
		s->id = stopwait_draw_id(&stopwait->protocol);
		err = xk_session_bind(&s->session, &stopwait->sessions, stopwait_key(s->id, s->ports));
	}
	return err;
}

static int
stopwait_ask_length(struct stopwait_session *s, struct xk_session *lls)
{
	uint32_t below;
	int got = xk_control(lls, XK_GET_MAX_PACKET, &below, sizeof(below));

	if (got < 0)
		return got;
	if (below < STOPWAIT_HEADER_LEN)
		return -EMSGSIZE;
	s->max_packet = (below < STOPWAIT_LONGEST ? below : STOPWAIT_LONGEST) - STOPWAIT_HEADER_LEN;
	return 0;
}

/* A session over lls; peer: the end that has called, 0: an active one. Takes lls, also on failure. 0 or -errno. */
static int
stopwait_session_new(struct stopwait *stopwait, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		     struct xk_session *lls, uint32_t ports, uint64_t peer, struct stopwait_session **session)
{
	struct xk_protocol *self = &stopwait->protocol;
	struct stopwait_session *s = (struct stopwait_session *)xk_session_new(self, &stopwait_session_ops, sizeof(*s),
									       hlp_receive, hlp_type, lls);
	int err;

	if (s == NULL) {
		xk_close(lls);
		return -ENOMEM;
	}
	xk_event_init(&s->timer, self->kernel, stopwait_expire, s);
	xk_lock_init(&s->lock, self);
	s->ports = ports;
	s->peer = peer;
	s->known = peer == 0;
	s->last = &s->first;
	s->timeout_ns = stopwait->timeout_ns;
	err = stopwait_ask_length(s, lls);
	if (err == 0)
		err = stopwait_bind(stopwait, s);
	if (err != 0)
		xk_close(&s->session);
	else
		*session = s;
	return err;
}

static bool
stopwait_is_port(uint64_t port)
{
	return port > 0 && port <= UINT16_MAX;
}

static int
stopwait_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	      struct xk_participants *participants, struct xk_session **session)
{
	struct stopwait *stopwait = (struct stopwait *)self;
	uint64_t remote = xk_participant_pop(&participants->remote), local = xk_participant_pop(&participants->local);
	struct xk_session *lls;
	struct stopwait_session *s;
	int err;

	if (local == XK_ANY)
		local = STOPWAIT_ANONYMOUS_FIRST +
			atomic_fetch_add_explicit(&stopwait->next_anonymous, 1, memory_order_relaxed) %
				STOPWAIT_ANONYMOUS_COUNT;
	if (!stopwait_is_port(remote) || !stopwait_is_port(local))
		return -EINVAL;
	err = xk_open(self, self, xk_lower(self, 0), participants, &lls); /* may wait */
	if (err == 0)
		err = stopwait_session_new(stopwait, hlp_receive, hlp_type, lls, (uint32_t)(remote << 16 | local), 0,
					   &s);
	if (err == 0)
		*session = &s->session;
	return err;
}

/* What a passive open is remembered by: a port of ours, towards everybody. 0 or -errno. */
static int
stopwait_enable_key_of(struct xk_participants *participants, struct xk_key *key)
{
	uint64_t local = xk_participant_pop(&participants->local);

	if (!stopwait_is_port(local))
		return -EINVAL;
	if (participants->local.depth != 0 || participants->remote.depth != 0)
		return -EOPNOTSUPP;
	*key = stopwait_enable_key((uint16_t)local);
	return 0;
}

static int
stopwait_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		     struct xk_participants *participants)
{
	struct xk_key key;
	int err = stopwait_enable_key_of(participants, &key);

	return err != 0 ? err : xk_enable_add(&((struct stopwait *)self)->enables, key, hlp_receive, hlp_type);
}

/* Whether somebody is still willing to have session s. */
static bool
stopwait_is_wanted(struct xk_session *s, void *context)
{
	struct stopwait *stopwait = context;
	uint16_t local = (uint16_t)((struct stopwait_session *)s)->ports;

	return xk_map_resolve(&stopwait->enables, stopwait_enable_key(local)) != NULL;
}

static int
stopwait_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		      struct xk_participants *participants)
{
	struct stopwait *stopwait = (struct stopwait *)self;
	struct xk_key key;
	int err = stopwait_enable_key_of(participants, &key);

	if (err == 0)
		err = xk_enable_remove(&stopwait->enables, key, hlp_receive, hlp_type);
	if (err == 0)
		xk_session_uncache(self, stopwait_is_wanted, stopwait);
	return err;
}

/* ---- down ---- */

/* Queues m, and makes sure that the timer is pending. 0, or the reason to drop m, and *err for the caller. */
static unsigned
stopwait_take(struct stopwait_session *s, struct xk_msg *m, int *err)
{
	*err = s->error;
	if (s->error != 0)
		return STOPWAIT_CLOSED;
	*err = -ENOBUFS;
	if (s->count > stopwait_of(s)->queue)
		return STOPWAIT_QUEUE_FULL;
	*err = -ECONNRESET;
	if (!s->timing && !xk_duplicate(&s->session))
		return STOPWAIT_CLOSED;
	if (!s->timing)
		xk_event_schedule(&s->timer, stopwait_us(s->timeout_ns));
	s->timing = true;
	stopwait_enqueue(s, m);
	*err = 0;
	return 0;
}

static int
stopwait_push(struct xk_session *session, struct xk_msg *m)
{
	struct stopwait_session *s = (struct stopwait_session *)session;
	struct xk_msg *frame = NULL;
	int err = -EMSGSIZE;
	unsigned why = STOPWAIT_TOO_BIG;

	if (xk_msg_len(m) <= s->max_packet) {
		xk_lock(&s->lock);
		why = stopwait_take(s, m, &err);
		if (why == 0 && s->count == 1)
			frame = stopwait_begin(s);
		xk_unlock(&s->lock);
	}
	if (why != 0)
		xk_drop(session->protocol, m, why);
	if (frame != NULL)
		xk_push(session->lls, frame);
	return err;
}

/* ---- up: what one end says to another ---- */

/* Answers h, which lls has brought for the end `from`. */
static void
stopwait_reply(struct xk_protocol *self, struct xk_session *lls, const struct stopwait_header *h, uint64_t from,
	       enum stopwait_kind kind)
{
	struct stopwait_header reply = { stopwait_turn_round(h->ports), kind, h->sequence, from, h->from };
	struct xk_msg *frame = stopwait_frame(self, &reply, NULL);

	if (kind == STOPWAIT_GONE)
		xk_count(self, STOPWAIT_GONE_SENT);
	if (frame != NULL)
		xk_push(lls, frame); /* what is lost is asked for again */
}

/* Whether DATA is what comes next: it is then being delivered. The lock is held. 0, or the reason to drop it. */
static unsigned
stopwait_judge(struct stopwait_session *s, const struct stopwait_header *h)
{
	int32_t ahead = (int32_t)(h->sequence - s->expected);

	if (s->error != 0 || h->from != s->peer)
		return STOPWAIT_STALE;
	if (ahead < 0)
		return STOPWAIT_DUPLICATE;
	if (ahead > 0 || s->delivering)
		return STOPWAIT_BAD_SEQUENCE;
	s->expected++;
	s->delivering = true;
	return 0;
}

/* The first message for a session that a stranger has made. False: the hlp does not want it. */
static bool
stopwait_announce(struct stopwait_session *s)
{
	struct xk_session *session = &s->session;

	if (xk_open_done(xk_hlp_receive(session), session->protocol, session, session->hlp_type) == 0) {
		xk_count(session->protocol, STOPWAIT_ACCEPTED);
		return true;
	}
	xk_lock(&s->lock);
	stopwait_die(s, XK_DROP_REFUSED, -ECONNREFUSED);
	xk_unlock(&s->lock);
	stopwait_bury(s, false);
	return false;
}

/* Delivers what is next. False: it was refused. */
static bool
stopwait_deliver(struct stopwait_session *s, struct xk_msg *m, bool first)
{
	if (first && !stopwait_announce(s)) {
		xk_drop(s->session.protocol, m, XK_DROP_REFUSED);
		return false;
	}
	xk_demux(&s->session, m);
	xk_lock(&s->lock);
	s->delivering = false;
	xk_unlock(&s->lock);
	return true;
}

static void
stopwait_pop_data(struct stopwait_session *s, struct xk_session *lls, struct xk_msg *m, const struct stopwait_header *h)
{
	struct xk_protocol *self = s->session.protocol;
	bool first, acks, dead;
	unsigned why;

	xk_lock(&s->lock);
	why = stopwait_judge(s, h);
	first = why == 0 && !s->known;
	s->known |= first;
	acks = why == STOPWAIT_DUPLICATE && !s->delivering;
	dead = s->error != 0;
	xk_unlock(&s->lock);
	if (why != 0)
		xk_drop(self, m, why);
	else if (stopwait_deliver(s, m, first))
		acks = true;
	else
		dead = true;
	if (acks)
		stopwait_reply(self, lls, h, s->id, STOPWAIT_ACK);
	else if (dead)
		stopwait_reply(self, lls, h, s->id, STOPWAIT_GONE);
}

/* The message that was under way has arrived. The lock is held. 0, or the reason to drop the ACK. */
static unsigned
stopwait_hear_ack(struct stopwait_session *s, const struct stopwait_header *h, struct xk_msg **done)
{
	uint64_t timeout_ns = stopwait_of(s)->timeout_ns;

	if (h->from != s->peer || s->error != 0)
		return STOPWAIT_STALE;
	if (s->count == 0 || h->sequence != s->sequence)
		return (int32_t)(h->sequence - s->sequence) < 0 ? STOPWAIT_DUPLICATE : STOPWAIT_BAD_SEQUENCE;
	*done = stopwait_dequeue(s);
	s->sequence++;
	if (s->tries == 0)
		s->timeout_ns = s->timeout_ns / 2 > timeout_ns ? s->timeout_ns / 2 : timeout_ns;
	return 0;
}

/* The one who was called has answered. The lock is held. 0, or the reason to drop the WELCOME. */
static unsigned
stopwait_hear_welcome(struct stopwait_session *s, const struct stopwait_header *h)
{
	if (s->error != 0 || (s->peer != 0 && s->peer != h->from))
		return STOPWAIT_STALE;
	if (s->peer != 0)
		return STOPWAIT_DUPLICATE;
	s->peer = h->from;
	return 0;
}

/* ACK, WELCOME, GONE: the next message goes down, or s ends. */
static void
stopwait_pop_answer(struct stopwait_session *s, struct xk_session *lls, struct xk_msg *m,
		    const struct stopwait_header *h)
{
	struct xk_msg *done = NULL, *frame = NULL;
	unsigned why = STOPWAIT_STALE;
	bool gone = false, known;

	xk_lock(&s->lock);
	if (h->kind == STOPWAIT_GONE)
		gone = s->error == 0 && h->from == s->peer;
	else
		why = h->kind == STOPWAIT_ACK ? stopwait_hear_ack(s, h, &done) : stopwait_hear_welcome(s, h);
	if (gone)
		stopwait_die(s, STOPWAIT_PEER_GONE, -ECONNRESET);
	else if (why == 0)
		frame = stopwait_begin(s);
	known = s->known;
	xk_unlock(&s->lock);
	xk_msg_free(done);
	if (why != 0 && !gone)
		xk_drop(s->session.protocol, m, why);
	else
		xk_msg_free(m);
	if (frame != NULL)
		xk_push(lls, frame);
	if (gone)
		stopwait_bury(s, known);
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
		stopwait_reply(session->protocol, lls, h, s->id, STOPWAIT_WELCOME);
	} else {
		stopwait_pop_answer(s, lls, m, h);
	}
}

/* ---- up: which end is meant ---- */

/* A session for the stranger who has called. 0, or the reason to drop the CALL. */
static unsigned
stopwait_open_passively(struct stopwait *stopwait, struct xk_session *lls, const struct stopwait_header *h,
			struct stopwait_session **session)
{
	const struct xk_enable *enable = xk_map_resolve(&stopwait->enables, stopwait_enable_key((uint16_t)h->ports));
	struct stopwait_session *s;

	if (enable == NULL)
		return XK_DROP_NO_SESSION;
	/* the cache lets go of those that are idle; who makes us send, and does not answer, is bounded here */
	if (atomic_load_explicit(&stopwait->passive_count, memory_order_relaxed) / 2 >= stopwait->protocol.session_max)
		return STOPWAIT_TOO_MANY;
	if (!xk_duplicate(lls))
		return XK_DROP_NO_SESSION;
	if (stopwait_session_new(stopwait, enable->hlp_receive, enable->hlp_type, lls, h->ports, h->from, &s) != 0)
		return XK_DROP_NO_MEMORY;
	s->passive = true;
	atomic_fetch_add_explicit(&stopwait->passive_count, 1, memory_order_relaxed);
	if (xk_map_bind(&stopwait->callers, &s->caller, stopwait_key(h->from, h->ports), s) != 0) {
		xk_close(&s->session);
		return XK_DROP_NO_MEMORY; /* or another shepherd has done it meanwhile: the caller tries again */
	}
	xk_count(&stopwait->protocol, STOPWAIT_CALLED);
	xk_session_cache(&s->session);
	*session = s;
	return 0;
}

/* The session that h is for. 0, or the reason to drop its message. */
static unsigned
stopwait_find(struct stopwait *stopwait, struct xk_session *lls, const struct stopwait_header *h,
	      struct stopwait_session **session)
{
	if (h->kind == STOPWAIT_CALL)
		*session = xk_map_resolve(&stopwait->callers, stopwait_key(h->from, h->ports));
	else
		*session = xk_map_resolve(&stopwait->sessions, stopwait_key(h->to, h->ports));
	if (*session != NULL)
		return (*session)->session.lls == lls ? 0 : STOPWAIT_STALE; /* another host says so */
	return h->kind == STOPWAIT_CALL ? stopwait_open_passively(stopwait, lls, h, session) : XK_DROP_NO_SESSION;
}

static void
stopwait_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct stopwait_session *s;
	struct stopwait_header h;
	unsigned why = stopwait_header_pop(&h, &m);
	bool good = why == 0;

	if (good)
		why = stopwait_find((struct stopwait *)self, lls, &h, &s);
	if (why == 0) {
		xk_pop(&s->session, lls, m, &h);
		return;
	}
	xk_drop(self, m, why);
	if (good && why == XK_DROP_NO_SESSION && h.kind == STOPWAIT_DATA)
		stopwait_reply(self, lls, &h, h.to, STOPWAIT_GONE);
}

/* ---- asking ---- */

static int
stopwait_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	uint32_t answer = ((struct stopwait_session *)session)->max_packet;
	int got;

	if (op != XK_GET_MAX_PACKET && op != XK_GET_OPT_PACKET)
		return -ENOTSUP;
	if (op == XK_GET_OPT_PACKET) {
		got = xk_control(session->lls, op, &answer, sizeof(answer));
		if (got < 0)
			return got;
		answer = answer < STOPWAIT_HEADER_LEN ? 0 : answer - STOPWAIT_HEADER_LEN;
	}
	return xk_answer(buffer, len, &answer, sizeof(answer));
}

static int
stopwait_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	uint32_t ports = ((const struct stopwait_session *)session)->ports;

	if (!xk_participant_push(&participants->remote, ports >> 16) ||
	    !xk_participant_push(&participants->local, ports & UINT16_MAX))
		return -E2BIG;
	return 0;
}

/* ---- tables ---- */

static const struct xk_session_ops stopwait_session_ops = {
	.push = stopwait_push,
	.pop = stopwait_pop,
	.close = stopwait_close,
	.control = stopwait_session_control,
	.get_participants = stopwait_get_participants,
};

static const struct xk_protocol_ops stopwait_ops = {
	.init = stopwait_init,
	.fini = stopwait_fini,
	.open = stopwait_open,
	.open_enable = stopwait_open_enable,
	.open_disable = stopwait_open_disable,
	.demux = stopwait_demux,
};

static const struct xk_role stopwait_lowers[] = {
	{ "network", XK_ASYNC, NULL, "carries messages to hosts; normally ip" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_setting stopwait_settings[] = {
	{ "queue", XK_SETTING_UINT, offsetof(struct stopwait, queue), "16",
	  "messages of a session that wait behind the one under way", 0, 65535 },
	{ "timeout", XK_SETTING_TIME, offsetof(struct stopwait, timeout_ns), "200ms",
	  "after this without an answer a message is sent again, at first", 1000, UINT64_C(60000000000) },
	{ "timeout_max", XK_SETTING_TIME, offsetof(struct stopwait, timeout_max_ns), "2s",
	  "the longest that doubling makes of it", 1000, UINT64_C(3600000000000) },
	{ "retries", XK_SETTING_UINT, offsetof(struct stopwait, retries), "10",
	  "how often a message is sent again before the session is given up", 0, 1000 },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const char *const stopwait_drops[] = { "bad_length",   "bad_checksum", "bad_kind", "stale",      "duplicate",
					      "bad_sequence", "too_many",     "too_big",  "queue_full", "gave_up",
					      "peer_gone",    "closed",       NULL };

static const char *const stopwait_counters[] = { "called", "accepted", "retransmitted", "gone", NULL };

const struct xk_protocol_type xk_type_stopwait = {
	.name = "stopwait",
	.help = "Reliable, ordered messages between ports, one at a time: each is sent again until it is acknowledged.",
	.ops = &stopwait_ops,
	.size = sizeof(struct stopwait),
	.offers = XK_ASYNC,
	.lowers = stopwait_lowers,
	.settings = stopwait_settings,
	.drops = stopwait_drops,
	.counters = stopwait_counters,
	.session_max = 1024,
};
