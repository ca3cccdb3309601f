/*
 * boot.c - lab 4, a model answer: each message is delivered at most once, although hosts crash and forget everything.
 *
 * Spec:         docs/labs/boot.md; the header is in boot.h, which you do not change
 * Participants: those of the protocol below, which carries messages to hosts
 * Sessions:     one per neighbour
 * Drops:        bad_length, bad_kind, stale, duplicate, bad_sequence; queue_full (pushed), gone, gave_up, closed (kept)
 * Not done:     more than 65535 boots: see question 4
 * Graph:        boot -> vnet
 */

/*
 * States of a session:
 *     yours 0, nothing queued         idle
 *     yours 0, messages queued        calling: CALL is sent repeatedly
 *     yours known, nothing queued     idle
 *     yours known, messages queued    the first message is in flight: DATA is sent again, BOOT_RETRIES times
 * Numbers and the message in flight belong to one pair of ends, `mine` and `yours`. When either end changes, numbers
 * start again, and the message in flight is dropped: it may have been delivered.
 */
#include "boot.h"

#include "xkernel/bytes.h"
#include "xkernel/protocol.h"
#include "xkernel/support/alarm.h"

enum boot_drop {
	BOOT_BAD_LENGTH = XK_DROP_BAD_LENGTH,
	BOOT_BAD_KIND = XK_DROP_OWN,
	BOOT_STALE,
	BOOT_DUPLICATE,
	BOOT_BAD_SEQUENCE,
	BOOT_QUEUE_FULL,
	BOOT_PEER_GONE,
	BOOT_GAVE_UP,
	BOOT_CLOSED,
};

#define BOOT_TIMEOUT_NS (BOOT_TIMEOUT_MS * UINT64_C(1000000))

/* ---- the header ---- */

struct boot_header {
	uint8_t kind;
	uint16_t number;
	uint32_t mine, yours; /* ends: the sender's, and the receiver's */
};

/* Checks and removes the header of m, and cuts off the bytes after its length. Returns 0, or the reason to drop m. */
static unsigned
boot_header_pop(struct boot_header *h, struct xk_msg *m)
{
	const uint8_t *p = m->data;
	size_t length = xk_get16(p + BOOT_LENGTH);

	if (length < BOOT_HEADER_LEN || length > xk_msg_len(m))
		return BOOT_BAD_LENGTH;
	xk_msg_truncate(m, length);
	h->kind = p[BOOT_KIND];
	h->number = xk_get16(p + BOOT_NUMBER);
	h->mine = xk_get32(p + BOOT_MINE);
	h->yours = xk_get32(p + BOOT_YOURS);
	xk_msg_pop_in_place(m, BOOT_HEADER_LEN);
	switch (h->kind) {
	case BOOT_CALL:
	case BOOT_WELCOME:
	case BOOT_DATA:
	case BOOT_ACK:
	case BOOT_GONE:
		return 0;
	default:
		return BOOT_BAD_KIND;
	}
}

/* Returns a frame with header h and the payload (NULL: none), which stays the caller's. Returns NULL without a buffer. */
static struct xk_msg *
boot_frame(struct xk_protocol *self, struct boot_header h, struct xk_msg *payload)
{
	struct xk_msg *m = payload != NULL ? xk_msg_reference(payload) : xk_msg_new(xk_platform_of(self), 0);
	uint8_t *p = m == NULL ? NULL : xk_msg_push(&m, BOOT_HEADER_LEN);

	if (p == NULL) {
		xk_msg_free(m);
		return NULL;
	}
	memset(p, 0, BOOT_HEADER_LEN);
	p[BOOT_KIND] = h.kind;
	xk_put16(p + BOOT_NUMBER, h.number);
	xk_put32(p + BOOT_MINE, h.mine);
	xk_put32(p + BOOT_YOURS, h.yours);
	xk_put16(p + BOOT_LENGTH, (uint16_t)xk_msg_len(m));
	return m;
}

/* Sends a frame, if there was a buffer for it: lost frames are sent, or requested, again. No lock is held. */
static void
boot_transmit(struct xk_session *lls, struct xk_msg *frame)
{
	if (frame != NULL)
		xk_push(lls, frame);
}

/* ---- state ---- */

struct boot {
	struct xk_protocol protocol; /* first */
	_Atomic uint64_t ends;       /* made by this host in this boot; strangers' CALLs cannot make it wrap */
};

struct boot_session {
	struct xk_session session; /* first */
	struct xk_lock lock;       /* of the fields below; never held while a message is pushed or delivered */
	struct xk_alarm alarm;     /* holds the session while it is set */
	uint32_t mine, yours;      /* this end, and the peer's; 0: unknown */
	/* unacknowledged messages, linked by xk_msg.link */
	struct xk_msg *first, **last;
	unsigned count;
	bool in_flight;          /* the first message was sent to `yours` */
	unsigned tries;          /* retransmissions of it */
	uint64_t due_ns;         /* time to send it, or the CALL, again */
	uint16_t next, expected; /* numbers of the DATA in flight, or of the next, and of the next to deliver */
	bool delivering;         /* a shepherd is delivering DATA, and will acknowledge it */
};

/* Returns an end that this host has never had before, or 0, which names none, if this boot's are used up. */
static uint32_t
boot_new_end(struct xk_protocol *self)
{
	uint64_t end = atomic_fetch_add_explicit(&((struct boot *)self)->ends, 1, memory_order_relaxed) + 1;

	return end > UINT16_MAX ? 0 : (uint32_t)xk_boots(self) << 16 | (uint32_t)end;
}

static void boot_expire(struct xk_alarm *alarm, uint64_t now_ns);

static int
boot_setup(struct xk_session *session, const void *how)
{
	struct boot_session *s = (struct boot_session *)session;

	xk_lock_init(&s->lock, session->protocol);
	xk_alarm_init(&s->alarm, session, &s->lock, boot_expire);
	s->last = &s->first;
	s->next = s->expected = BOOT_FIRST;
	s->mine = boot_new_end(session->protocol);
	return s->mine == 0 ? -EADDRNOTAVAIL : 0;
}

/* Removes and returns the first message of the queue, which is not empty. The lock is held. */
static struct xk_msg *
boot_dequeue(struct boot_session *s)
{
	struct xk_msg *m = s->first;

	s->first = m->link;
	if (--s->count == 0)
		s->last = &s->first;
	return m;
}

/* Runs when the last reference to the session is gone. */
static void
boot_close(struct xk_session *session)
{
	struct boot_session *s = (struct boot_session *)session;

	xk_lock(&s->lock);
	while (s->count > 0)
		xk_drop(session->protocol, boot_dequeue(s), BOOT_CLOSED);
	xk_unlock(&s->lock);
}

/* ---- opening ---- */

/* Returns the key of the conversation with the neighbour of lls, whichever session below its messages come up. */
static struct xk_key
boot_key(struct xk_session *lls)
{
	uint64_t station;

	if (xk_control(lls, XK_GET_PEER_LINK, &station) == 0)
		return (struct xk_key){ station, 0 };
	return (struct xk_key){ (uintptr_t)lls, 1 };
}

static int
boot_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };

	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

static int
boot_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	  struct xk_participants *participants, struct xk_session **session)
{
	struct xk_session *lls;
	int err = xk_open(self, self, xk_lower(self, 0), participants, &lls); /* may wait */

	return err != 0 ? err : xk_table_open(self, boot_key(lls), hlp_receive, hlp_type, lls, NULL, session);
}

/* One protocol stands on this one, and is enabled for all neighbours. */
static int
boot_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		 struct xk_key *key)
{
	*key = xk_table_number_key(0);
	return 0;
}

static struct xk_key
boot_passive_key_of(const struct xk_session *session)
{
	return xk_table_number_key(0);
}

/* ---- the two ends; the lock is held ---- */

/*
 * Resets the state of a pair of ends, one of which changes. Drops the message in flight for the reason why: only the
 * peer knows whether it was delivered, so sending it again could deliver it twice. The others were never sent.
 */
static void
boot_forget_peer(struct boot_session *s, unsigned why)
{
	if (s->in_flight)
		xk_drop(s->session.protocol, boot_dequeue(s), why);
	s->in_flight = false;
	s->tries = 0;
	s->next = s->expected = BOOT_FIRST;
}

/* Makes `yours` the peer's end, which is newer than the previous one, if any. */
static void
boot_set_peer(struct boot_session *s, uint32_t yours)
{
	if (s->yours != 0)
		boot_forget_peer(s, BOOT_PEER_GONE);
	s->yours = yours;
}

/* Starts as a new end, which knows no peer. If this boot's ends are used up, it is 0, and neither sends nor accepts. */
static void
boot_restart(struct boot_session *s, unsigned why)
{
	boot_forget_peer(s, why);
	s->mine = boot_new_end(s->session.protocol);
	s->yours = 0;
}

/* ---- sending ---- */

/* Returns the frame that the peer has to answer next, CALL or DATA, and sets the alarm. The lock is held. */
static struct xk_msg *
boot_next_frame(struct boot_session *s)
{
	struct xk_protocol *self = s->session.protocol;
	struct boot_header h = { .kind = BOOT_CALL, .mine = s->mine };

	if (s->count == 0 || s->mine == 0)
		return NULL;
	s->due_ns = xk_now_ns(self) + BOOT_TIMEOUT_NS;
	xk_alarm_set(&s->alarm, s->due_ns);
	if (s->yours == 0)
		return boot_frame(self, h, NULL);
	s->in_flight = true; /* even without a buffer for its frame: as if the link had lost it */
	h.kind = BOOT_DATA;
	h.yours = s->yours;
	h.number = s->next;
	return boot_frame(self, h, s->first);
}

static int
boot_push(struct xk_session *session, struct xk_msg *m)
{
	struct boot_session *s = (struct boot_session *)session;
	struct xk_msg *frame = NULL;

	xk_lock(&s->lock);
	if (s->count == BOOT_QUEUE) {
		xk_unlock(&s->lock);
		xk_drop(session->protocol, m, BOOT_QUEUE_FULL);
		return -ENOBUFS;
	}
	m->link = NULL;
	*s->last = m;
	s->last = &m->link;
	if (++s->count == 1)
		frame = boot_next_frame(s);
	xk_unlock(&s->lock);
	boot_transmit(session->lls, frame);
	return 0;
}

/* Sends again, or gives up. The alarm may fire early, and is not set again when nothing is queued. The lock is held. */
static void
boot_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct boot_session *s = xk_container_of(alarm, struct boot_session, alarm);
	struct xk_msg *frame = NULL;

	if (s->count > 0 && now_ns < s->due_ns) {
		xk_alarm_set(alarm, s->due_ns);
	} else {
		if (s->in_flight && s->tries++ == BOOT_RETRIES)
			boot_restart(s, BOOT_GAVE_UP);
		frame = boot_next_frame(s);
	}
	xk_unlock(&s->lock);
	boot_transmit(s->session.lls, frame);
}

/* ---- receiving ---- */

/* Answers h, which came up lls, for the end `mine`. No lock is held. */
static void
boot_answer(struct xk_protocol *self, struct xk_session *lls, const struct boot_header *h, uint8_t kind, uint32_t mine)
{
	struct boot_header answer = { .kind = kind, .mine = mine, .yours = h->mine };

	if (kind == BOOT_ACK)
		answer.number = h->number;
	boot_transmit(lls, boot_frame(self, answer, NULL));
}

/* Rule 2: drops m, whose header h names no sender, or an end that this host does not have. Takes m. */
static void
boot_refuse(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, const struct boot_header *h)
{
	xk_drop(self, m, BOOT_STALE);
	if (h->kind == BOOT_DATA && h->mine != 0)
		boot_answer(self, lls, h, BOOT_GONE, h->yours);
}

/* Rule 2: returns whether h is for this end. A CALL is for any end. The lock is held. */
static bool
boot_is_for(const struct boot_session *s, const struct boot_header *h)
{
	return h->mine != 0 && s->mine != 0 && (h->kind == BOOT_CALL || h->yours == s->mine);
}

/* Rules 4 and 5: handles the peer's h. Returns 0, or the reason to drop its frame. The lock is held. */
static unsigned
boot_handle(struct boot_session *s, const struct boot_header *h)
{
	int16_t ahead = (int16_t)(h->number - s->expected); /* right beyond 65535, too */

	switch (h->kind) {
	case BOOT_DATA:
		/* Until the message that is being delivered is acknowledged, another one could only overtake it. */
		if (ahead > 0 || s->delivering)
			return BOOT_BAD_SEQUENCE;
		if (ahead < 0)
			return BOOT_DUPLICATE;
		s->expected++;
		s->delivering = true;
		return 0;
	case BOOT_ACK:
		if (!s->in_flight || h->number != s->next)
			return BOOT_DUPLICATE;
		xk_msg_free(boot_dequeue(s));
		s->in_flight = false;
		s->tries = 0;
		s->next++;
		return 0;
	case BOOT_GONE:
		boot_restart(s, BOOT_PEER_GONE);
		return 0;
	default: /* CALL and WELCOME say only who the peer is */
		return 0;
	}
}

/* Delivers the message of DATA. Takes m. */
static void
boot_deliver(struct boot_session *s, struct xk_msg *m)
{
	xk_demux(&s->session, m);
	xk_lock(&s->lock);
	s->delivering = false;
	xk_unlock(&s->lock);
}

/* Applies the rules in turn. Takes m. */
static void
boot_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct boot_session *s = (struct boot_session *)session;
	struct xk_protocol *self = session->protocol;
	const struct boot_header *h = hdr;
	struct xk_msg *frame = NULL;
	uint32_t mine;
	bool is_newer;
	unsigned why;

	xk_lock(&s->lock);
	mine = s->mine;
	if (!boot_is_for(s, h)) {
		xk_unlock(&s->lock);
		boot_refuse(self, lls, m, h);
		return;
	}
	is_newer = h->kind != BOOT_GONE && h->mine > s->yours;
	if (is_newer)
		boot_set_peer(s, h->mine);
	why = h->mine == s->yours ? boot_handle(s, h) : BOOT_STALE;
	/* A newer peer, a GONE and an acknowledged message call for a new frame. */
	if (is_newer || (why == 0 && (h->kind == BOOT_GONE || h->kind == BOOT_ACK)))
		frame = boot_next_frame(s);
	xk_unlock(&s->lock);

	if (why != 0)
		xk_drop(self, m, why);
	else if (h->kind == BOOT_DATA)
		boot_deliver(s, m);
	else
		xk_msg_free(m);
	if (h->kind == BOOT_CALL && why == 0)
		boot_answer(self, lls, h, BOOT_WELCOME, mine);
	if (h->kind == BOOT_DATA && (why == 0 || why == BOOT_DUPLICATE))
		boot_answer(self, lls, h, BOOT_ACK, mine); /* after the delivery */
	boot_transmit(lls, frame);
}

static void
boot_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct boot_header h;
	unsigned why = boot_header_pop(&h, m);
	struct xk_key key;
	struct xk_session *s;

	if (why != 0) {
		xk_drop(self, m, why);
		return;
	}
	key = boot_key(lls);
	s = xk_table_find(self, key);
	if (s == NULL && (h.kind != BOOT_CALL || h.mine == 0)) {
		boot_refuse(self, lls, m, &h); /* only a CALL makes a session */
		return;
	}
	if (s == NULL)
		s = xk_table_accept(self, key, xk_table_number_key(0), lls, NULL, m);
	if (s != NULL)
		xk_pop(s, lls, m, &h);
}

/* ---- the end of the host ---- */

static void
boot_forget(void *object, void *context)
{
	xk_alarm_cancel(&((struct boot_session *)object)->alarm);
}

static void
boot_fini(struct xk_protocol *self)
{
	xk_map_for_each(&self->table.sessions, boot_forget, NULL);
}

/* ---- tables ---- */

static const struct xk_session_ops boot_session_ops = {
	.size = sizeof(struct boot_session),
	.setup = boot_setup,
	.push = boot_push,
	.pop = boot_pop,
	.close = boot_close,
};

static const struct xk_protocol_ops boot_ops = {
	.init = boot_init,
	.fini = boot_fini,
	.open = boot_open,
	.passive_key = boot_passive_key,
	.passive_key_of = boot_passive_key_of,
	.demux = boot_demux,
};

static const struct xk_role boot_lowers[] = {
	{ "network", XK_ASYNC, NULL, "carries messages to hosts: vnet" },
	{ NULL, 0, NULL, NULL },
};
static const struct xk_number_on boot_numbers[] = { { "eth", 0x88b5 }, { NULL, 0 } };
static const char *const boot_drops[] = { "bad_kind", "stale",  "duplicate", "bad_sequence", "queue_full", "gone",
					  "gave_up",  "closed", NULL };

const struct xk_protocol_type xk_type_boot = {
	.name = "boot",
	.help = "Lab 4: messages at most once between hosts that crash.",
	.ops = &boot_ops,
	.session_ops = &boot_session_ops,
	.header = BOOT_HEADER_LEN,
	.fields = boot_fields,
	.size = sizeof(struct boot),
	.offers = XK_ASYNC,
	.lowers = boot_lowers,
	.numbers = boot_numbers,
	.drops = boot_drops,
	.session_max = 64,
};
