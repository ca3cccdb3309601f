/*
 * window.c - lab 2, a model answer: reliable messages in order between neighbours, several of them in flight.
 *
 * Spec:         docs/labs/window.md; the header is in window.h, which you do not change
 * Participants: those of the protocol below, which carries messages to hosts
 * Sessions:     one per neighbour
 * Drops:        bad_length, bad_checksum, bad_kind, duplicate, outside; queue_full (pushed), closed (kept at the end)
 * Not done:     a limit on the length of messages: one that the protocol below does not carry is sent again forever
 * Graph:        window -> vnet
 */
#include "window.h"

#include "xkernel/bytes.h"
#include "xkernel/protocol.h"
#include "xkernel/support/alarm.h"

enum window_drop {
	WINDOW_BAD_LENGTH = XK_DROP_BAD_LENGTH,
	WINDOW_BAD_CHECKSUM = XK_DROP_BAD_CHECKSUM,
	WINDOW_BAD_KIND = XK_DROP_OWN,
	WINDOW_DUPLICATE,
	WINDOW_OUTSIDE,
	WINDOW_QUEUE_FULL,
	WINDOW_CLOSED,
};

#define WINDOW_TIMEOUT_NS (WINDOW_TIMEOUT_MS * UINT64_C(1000000))

/* ---- the header ---- */

struct window_header {
	uint8_t kind;
	uint16_t number;
};

/* Checks and removes the header of m, and cuts off the bytes after its length. Returns 0, or the reason to drop m. */
static unsigned
window_header_pop(struct window_header *h, struct xk_msg *m)
{
	const uint8_t *p = m->data;
	size_t length = xk_get16(p + WINDOW_LENGTH);

	if (length < WINDOW_HEADER_LEN || length > xk_msg_len(m))
		return WINDOW_BAD_LENGTH;
	xk_msg_truncate(m, length); /* first: padding is not in the checksum */
	if (!xk_sum_is_intact(xk_msg_sum(m)))
		return WINDOW_BAD_CHECKSUM;
	h->kind = p[WINDOW_KIND];
	h->number = xk_get16(p + WINDOW_NUMBER);
	xk_msg_pop_in_place(m, WINDOW_HEADER_LEN);
	return h->kind == WINDOW_DATA || h->kind == WINDOW_ACK ? 0 : WINDOW_BAD_KIND;
}

/* Returns a frame with a reference to payload (NULL: none), which stays the caller's. Returns NULL without a buffer. */
static struct xk_msg *
window_frame(struct xk_protocol *self, struct window_header h, struct xk_msg *payload)
{
	struct xk_msg *m = payload != NULL ? xk_msg_reference(payload) : xk_msg_new(xk_platform_of(self), 0);
	uint8_t *p = m == NULL ? NULL : xk_msg_push(&m, WINDOW_HEADER_LEN);

	if (p == NULL) {
		xk_msg_free(m);
		return NULL;
	}
	memset(p, 0, WINDOW_HEADER_LEN);
	p[WINDOW_KIND] = h.kind;
	xk_put16(p + WINDOW_NUMBER, h.number);
	xk_put16(p + WINDOW_LENGTH, (uint16_t)xk_msg_len(m));
	xk_checksum_store(p + WINDOW_CHECKSUM, xk_checksum_finish(xk_msg_sum(m)));
	return m;
}

/* ---- state ---- */

struct window_session {
	struct xk_session session; /* first */
	struct xk_lock lock;       /* of the fields below; never held while a message is pushed or delivered */
	struct xk_alarm alarm;     /* holds the session while it is set */
	/* sending: unacknowledged messages, linked by xk_msg.link */
	struct xk_msg *first, **last;
	struct xk_msg *waiting; /* the first that is not in flight; NULL: all are */
	unsigned count, in_flight;
	uint16_t oldest; /* number of the first one */
	uint64_t due_ns; /* time to send the first one again */
	/* receiving */
	uint16_t expected;                 /* number of the next message to deliver */
	struct xk_msg *early[WINDOW_SIZE]; /* a ring of messages from the expected one on; NULL: not arrived */
	unsigned turn;                     /* the place of the expected one in the ring */
	bool delivering;                   /* a shepherd is delivering; others only put their messages into the ring */
};

/* Frames made with the lock held and pushed without it, linked by xk_msg.link. */
struct window_burst {
	struct xk_msg *first, **last;
};

static void window_expire(struct xk_alarm *alarm, uint64_t now_ns);

static int
window_setup(struct xk_session *session, const void *how)
{
	struct window_session *s = (struct window_session *)session;

	xk_lock_init(&s->lock, session->protocol);
	xk_alarm_init(&s->alarm, session, &s->lock, window_expire);
	s->last = &s->first;
	s->oldest = s->expected = WINDOW_FIRST;
	return 0;
}

/* Removes and returns the first message of the queue, which is not empty. The lock is held. */
static struct xk_msg *
window_dequeue(struct window_session *s)
{
	struct xk_msg *m = s->first;

	s->first = m->link;
	if (--s->count == 0)
		s->last = &s->first;
	return m;
}

/* Removes and returns the message whose turn it is, or NULL if it has not arrived. The lock is held. */
static struct xk_msg *
window_take(struct window_session *s)
{
	struct xk_msg *m = s->early[s->turn];

	if (m == NULL)
		return NULL;
	s->early[s->turn] = NULL;
	s->turn = (s->turn + 1) % WINDOW_SIZE; /* not number % WINDOW_SIZE: few windows divide 65536 */
	s->expected++;
	return m;
}

/* Runs when the last reference to the session is gone. */
static void
window_close(struct xk_session *session)
{
	struct window_session *s = (struct window_session *)session;

	xk_lock(&s->lock); /* a shepherd may still be in window_pop */
	while (s->count > 0)
		xk_drop(session->protocol, window_dequeue(s), WINDOW_CLOSED);
	for (unsigned i = 0; i < WINDOW_SIZE; i++) {
		if (s->early[i] != NULL)
			xk_drop(session->protocol, s->early[i], WINDOW_CLOSED);
		s->early[i] = NULL;
	}
	xk_unlock(&s->lock);
}

/* ---- opening ---- */

/* Returns the key of the conversation with the neighbour of lls, whichever session below its messages come up. */
static struct xk_key
window_key(struct xk_session *lls)
{
	uint64_t station;

	if (xk_control(lls, XK_GET_PEER_LINK, &station) == 0)
		return (struct xk_key){ station, 0 };
	return (struct xk_key){ (uintptr_t)lls, 1 };
}

static int
window_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };

	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

static int
window_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	    struct xk_participants *participants, struct xk_session **session)
{
	struct xk_session *lls;
	int err = xk_open(self, self, xk_lower(self, 0), participants, &lls); /* may wait */

	return err != 0 ? err : xk_table_open(self, window_key(lls), hlp_receive, hlp_type, lls, NULL, session);
}

/* One protocol stands on this one, and is enabled for all neighbours. */
static int
window_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		   struct xk_key *key)
{
	*key = xk_table_number_key(0);
	return 0;
}

static struct xk_key
window_passive_key_of(const struct xk_session *session)
{
	return xk_table_number_key(0);
}

/* ---- sending ---- */

/* Adds the DATA of a message in flight to the burst; without a buffer, its frame is lost. The lock is held. */
static void
window_add(struct window_session *s, struct window_burst *burst, uint16_t number, struct xk_msg *m)
{
	struct xk_msg *frame = window_frame(s->session.protocol, (struct window_header){ WINDOW_DATA, number }, m);

	if (frame == NULL)
		return;
	frame->link = NULL;
	*burst->last = frame;
	burst->last = &frame->link;
}

/* Adds waiting messages to the burst, as many as the window has room for. The lock is held. */
static void
window_fill(struct window_session *s, struct window_burst *burst)
{
	if (s->in_flight == 0)
		s->due_ns = xk_now_ns(s->session.protocol) + WINDOW_TIMEOUT_NS;
	while (s->in_flight < WINDOW_SIZE && s->waiting != NULL) {
		window_add(s, burst, (uint16_t)(s->oldest + s->in_flight), s->waiting);
		s->waiting = s->waiting->link;
		s->in_flight++;
	}
	if (s->in_flight > 0)
		xk_alarm_set(&s->alarm, s->due_ns);
}

/* Sends the burst. No lock is held: the protocols below may wait. */
static void
window_transmit(struct window_session *s, struct window_burst *burst)
{
	struct xk_msg *frame = burst->first, *next;

	for (; frame != NULL; frame = next) {
		next = frame->link;
		xk_push(s->session.lls, frame); /* one that fails is lost, as on the link */
	}
}

static int
window_push(struct xk_session *session, struct xk_msg *m)
{
	struct window_session *s = (struct window_session *)session;
	struct window_burst burst = { NULL, &burst.first };

	xk_lock(&s->lock);
	if (s->count == WINDOW_QUEUE) {
		xk_unlock(&s->lock);
		xk_drop(session->protocol, m, WINDOW_QUEUE_FULL);
		return -ENOBUFS;
	}
	m->link = NULL;
	*s->last = m;
	s->last = &m->link;
	s->count++;
	if (s->waiting == NULL)
		s->waiting = m;
	window_fill(s, &burst);
	xk_unlock(&s->lock);
	window_transmit(s, &burst);
	return 0;
}

/* Handles an ACK: frees the messages before h->number, and sends as many more as the window has room for. */
static void
window_pop_ack(struct window_session *s, const struct window_header *h)
{
	struct window_burst burst = { NULL, &burst.first };
	uint16_t acked; /* messages: 1 to in_flight if the ACK counts. The difference is right across the wrap, too */

	xk_lock(&s->lock);
	acked = (uint16_t)(h->number - s->oldest);
	if (acked > 0 && acked <= s->in_flight) {
		for (unsigned i = 0; i < acked; i++)
			xk_msg_free(window_dequeue(s));
		s->oldest = h->number;
		s->in_flight -= acked;
		s->due_ns = xk_now_ns(s->session.protocol) + WINDOW_TIMEOUT_NS;
		window_fill(s, &burst);
	}
	xk_unlock(&s->lock);
	window_transmit(s, &burst);
}

/*
 * Sends the oldest message again if it is due. ACKs do not move the alarm, so it may fire early; it is not set again
 * when nothing is in flight. The others need not be sent again: the receiver keeps early messages, and the next ACK
 * covers them.
 */
static void
window_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct window_session *s = xk_container_of(alarm, struct window_session, alarm);
	struct window_burst burst = { NULL, &burst.first };

	if (s->in_flight > 0) {
		if (now_ns >= s->due_ns) {
			window_add(s, &burst, s->oldest, s->first);
			s->due_ns = now_ns + WINDOW_TIMEOUT_NS;
		}
		xk_alarm_set(alarm, s->due_ns);
	}
	xk_unlock(&s->lock);
	window_transmit(s, &burst);
}

/* ---- receiving ---- */

/* Puts m into the ring, unless it is outside or a duplicate. Returns 0, or the reason to drop m. The lock is held. */
static unsigned
window_keep(struct window_session *s, struct xk_msg *m, uint16_t number)
{
	int16_t ahead = (int16_t)(number - s->expected); /* right across the wrap, too: half of all numbers are ahead */
	struct xk_msg **place;

	if (ahead < 0)
		return WINDOW_DUPLICATE;
	if (ahead >= WINDOW_SIZE)
		return WINDOW_OUTSIDE;
	place = &s->early[(s->turn + (unsigned)ahead) % WINDOW_SIZE];
	if (*place != NULL)
		return WINDOW_DUPLICATE;
	*place = m;
	return 0;
}

/* Keeps or drops m, delivers all messages whose turn has come, and sends an ACK. Takes m. */
static void
window_pop_data(struct window_session *s, struct xk_session *lls, struct xk_msg *m, const struct window_header *h)
{
	struct xk_protocol *self = s->session.protocol;
	struct window_header answer = { .kind = WINDOW_ACK };
	unsigned why;

	xk_lock(&s->lock);
	why = window_keep(s, m, h->number);
	if (why != 0)
		xk_drop(self, m, why);
	if (!s->delivering) {
		s->delivering = true;
		while ((m = window_take(s)) != NULL) {
			xk_unlock(&s->lock);
			xk_demux(&s->session, m);
			xk_lock(&s->lock);
		}
		s->delivering = false;
	}
	answer.number = s->expected;
	xk_unlock(&s->lock);
	m = window_frame(self, answer, NULL);
	if (m != NULL)
		xk_push(lls, m);
}

static void
window_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct window_session *s = (struct window_session *)session;
	const struct window_header *h = hdr;

	if (h->kind == WINDOW_DATA) {
		window_pop_data(s, lls, m, h);
		return;
	}
	xk_msg_free(m);
	window_pop_ack(s, h);
}

static void
window_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct window_header h;
	unsigned why = window_header_pop(&h, m);
	struct xk_key key;
	struct xk_session *s;

	if (why != 0) {
		xk_drop(self, m, why);
		return;
	}
	key = window_key(lls);
	s = xk_table_find(self, key);
	if (s == NULL)
		s = xk_table_accept(self, key, xk_table_number_key(0), lls, NULL, m);
	if (s != NULL)
		xk_pop(s, lls, m, &h);
}

/* ---- the end of the host ---- */

static void
window_forget(void *object, void *context)
{
	xk_alarm_cancel(&((struct window_session *)object)->alarm);
}

static void
window_fini(struct xk_protocol *self)
{
	xk_map_for_each(&self->table.sessions, window_forget, NULL);
}

/* ---- tables ---- */

static const struct xk_session_ops window_session_ops = {
	.size = sizeof(struct window_session),
	.setup = window_setup,
	.push = window_push,
	.pop = window_pop,
	.close = window_close,
};

static const struct xk_protocol_ops window_ops = {
	.init = window_init,
	.fini = window_fini,
	.open = window_open,
	.passive_key = window_passive_key,
	.passive_key_of = window_passive_key_of,
	.demux = window_demux,
};

static const struct xk_role window_lowers[] = {
	{ "network", XK_ASYNC, NULL, "carries messages to hosts: vnet" },
	{ NULL, 0, NULL, NULL },
};
static const struct xk_number_on window_numbers[] = { { "eth", 0x88b5 }, { NULL, 0 } };
static const char *const window_drops[] = { "bad_kind", "duplicate", "outside", "queue_full", "closed", NULL };

const struct xk_protocol_type xk_type_window = {
	.name = "window",
	.help = "Lab 2: reliable messages in order, several of them in flight.",
	.ops = &window_ops,
	.session_ops = &window_session_ops,
	.header = WINDOW_HEADER_LEN,
	.fields = window_fields,
	.size = sizeof(struct xk_protocol),
	.offers = XK_ASYNC,
	.lowers = window_lowers,
	.numbers = window_numbers,
	.drops = window_drops,
	.session_max = 64,
};
