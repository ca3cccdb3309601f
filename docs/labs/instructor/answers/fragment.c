/*
 * fragment.c - lab 3, a model answer: messages longer than a frame, cut up and reassembled.
 *
 * Spec:         docs/labs/fragment.md; the header is in fragment.h, which you do not change
 * Participants: those of the protocol below, which carries messages to hosts
 * Sessions:     one per neighbour
 * Drops:        bad_length, bad_fragment, duplicate, conflict, evicted, timed_out, closed; too_big, no_buffer (pushed)
 * Not done:     a limit on kept buffers: see question 2
 * Graph:        fragment -> vnet
 */
#include "fragment.h"

#include <stdlib.h>

#include "xkernel/bytes.h"
#include "xkernel/protocol.h"
#include "xkernel/support/alarm.h"

enum fragment_drop {
	FRAGMENT_BAD_LENGTH = XK_DROP_BAD_LENGTH,
	FRAGMENT_TOO_BIG = XK_DROP_TOO_BIG,
	FRAGMENT_BAD_FRAGMENT = XK_DROP_OWN,
	FRAGMENT_DUPLICATE,
	FRAGMENT_CONFLICT,
	FRAGMENT_EVICTED,
	FRAGMENT_TIMED_OUT,
	FRAGMENT_CLOSED,
};

#define FRAGMENT_TIMEOUT_NS (FRAGMENT_TIMEOUT_MS * UINT64_C(1000000))

/* The annotation of a kept piece: its offset in its message, in bytes. */
#define FRAGMENT_AT XK_KIND('f', 'r', 'a', 't')

static_assert(FRAGMENT_LONGEST <= UINT16_MAX, "`total` has 16 bits");

/* ---- the header ---- */

struct fragment_header {
	uint16_t id;
	uint32_t offset; /* in bytes */
	uint16_t total;
};

static void
fragment_header_store(uint8_t *p, struct fragment_header h, size_t length)
{
	memset(p, 0, FRAGMENT_HEADER_LEN);
	xk_put16(p + FRAGMENT_ID, h.id);
	xk_put16(p + FRAGMENT_OFFSET, (uint16_t)(h.offset / FRAGMENT_UNIT));
	xk_put16(p + FRAGMENT_TOTAL, h.total);
	xk_put16(p + FRAGMENT_LENGTH, (uint16_t)length);
}

/* Checks and removes the header of m, and cuts off the bytes after its length. Returns 0, or the reason to drop m. */
static unsigned
fragment_header_pop(struct fragment_header *h, struct xk_msg *m)
{
	const uint8_t *p = m->data;
	size_t length = xk_get16(p + FRAGMENT_LENGTH);

	h->id = xk_get16(p + FRAGMENT_ID);
	h->offset = xk_get16(p + FRAGMENT_OFFSET) * (uint32_t)FRAGMENT_UNIT;
	h->total = xk_get16(p + FRAGMENT_TOTAL);
	if (length < FRAGMENT_HEADER_LEN || length > xk_msg_len(m))
		return FRAGMENT_BAD_LENGTH;
	xk_msg_truncate(m, length);
	xk_msg_pop_in_place(m, FRAGMENT_HEADER_LEN);
	length = xk_msg_len(m);
	if (h->total > FRAGMENT_LONGEST || h->offset + length > h->total) /* 32 bits: an offset is below 2^20 */
		return FRAGMENT_BAD_FRAGMENT;
	if (length == 0 && h->total > 0)
		return FRAGMENT_BAD_FRAGMENT;
	if (length % FRAGMENT_UNIT != 0 && h->offset + length < h->total)
		return FRAGMENT_BAD_FRAGMENT;
	return 0;
}

/* ---- state ---- */

/* An incomplete message. */
struct fragment_message {
	struct xk_msg *pieces; /* linked by xk_msg.link, in the order of their offsets; they do not overlap */
	uint32_t bytes;        /* of all pieces: `total` when the message is complete */
	uint16_t id, total;
	uint64_t born_ns; /* arrival of its first fragment */
};

struct fragment_session {
	struct xk_session session; /* first */
	struct xk_lock lock;       /* of the fields below; never held while a message is pushed or delivered */
	struct xk_alarm alarm;     /* holds the session while it is set */
	uint16_t next;             /* id of the next message */
	uint32_t room;             /* longest message of the protocol below, in bytes */
	/* the first `count` are used, oldest first: the first is the next to be evicted or given up */
	struct fragment_message partial[FRAGMENT_PARTIAL];
	unsigned count;
};

static void fragment_expire(struct xk_alarm *alarm, uint64_t now_ns);

static int
fragment_setup(struct xk_session *session, const void *how)
{
	struct fragment_session *s = (struct fragment_session *)session;
	int got = xk_control(session->lls, XK_GET_MAX_PACKET, &s->room);

	xk_lock_init(&s->lock, session->protocol);
	xk_alarm_init(&s->alarm, session, &s->lock, fragment_expire);
	s->next = FRAGMENT_FIRST;
	if (got < 0 || s->room < FRAGMENT_HEADER_LEN + FRAGMENT_UNIT)
		return got < 0 ? got : -EMSGSIZE; /* the session is closed */
	return 0;
}

/* Removes a kept message, and returns its pieces. The lock is held. */
static struct xk_msg *
fragment_remove(struct fragment_session *s, struct fragment_message *message)
{
	struct xk_msg *pieces = message->pieces;
	size_t younger = (size_t)(&s->partial[s->count] - message) - 1;

	memmove(message, message + 1, younger * sizeof(*message));
	s->count--;
	return pieces;
}

/* Drops the pieces of a message. The lock is held. */
static void
fragment_give_up(struct fragment_session *s, struct fragment_message *message, unsigned why)
{
	struct xk_msg *m = fragment_remove(s, message), *next;

	for (; m != NULL; m = next) {
		next = m->link;
		xk_drop(s->session.protocol, m, why);
	}
}

/* Runs when the last reference to the session is gone. */
static void
fragment_close(struct xk_session *session)
{
	struct fragment_session *s = (struct fragment_session *)session;

	xk_lock(&s->lock); /* a shepherd may still be in fragment_pop */
	while (s->count > 0)
		fragment_give_up(s, &s->partial[0], FRAGMENT_CLOSED);
	xk_unlock(&s->lock);
}

/* ---- opening ---- */

/* Returns the key of the conversation with the neighbour of lls, whichever session below its messages come up. */
static struct xk_key
fragment_key(struct xk_session *lls)
{
	uint64_t station;

	if (xk_control(lls, XK_GET_PEER_LINK, &station) == 0)
		return (struct xk_key){ station, 0 };
	return (struct xk_key){ (uintptr_t)lls, 1 };
}

static int
fragment_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };

	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

static int
fragment_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	      struct xk_participants *participants, struct xk_session **session)
{
	struct xk_session *lls;
	int err = xk_open(self, self, xk_lower(self, 0), participants, &lls); /* may wait */

	return err != 0 ? err : xk_table_open(self, fragment_key(lls), hlp_receive, hlp_type, lls, NULL, session);
}

/* One protocol stands on this one, and is enabled for all neighbours. */
static int
fragment_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		     struct xk_key *key)
{
	*key = xk_table_number_key(0);
	return 0;
}

static struct xk_key
fragment_passive_key_of(const struct xk_session *session)
{
	return xk_table_number_key(0);
}

/* ---- sending ---- */

/* Sends one fragment. Takes m, also on failure. */
static int
fragment_send(struct xk_session *session, struct xk_msg *m, struct fragment_header h)
{
	m = xk_push_header(session, m, FRAGMENT_HEADER_LEN);
	if (m == NULL)
		return -ENOBUFS;
	fragment_header_store(m->data, h, xk_msg_len(m));
	return xk_push(session->lls, m);
}

static int
fragment_push(struct xk_session *session, struct xk_msg *m)
{
	struct fragment_session *s = (struct fragment_session *)session;
	size_t most = (s->room - FRAGMENT_HEADER_LEN) / FRAGMENT_UNIT * FRAGMENT_UNIT;
	struct fragment_header h = { .offset = 0 };
	int err;

	if (xk_msg_len(m) > FRAGMENT_LONGEST) {
		xk_drop(session->protocol, m, FRAGMENT_TOO_BIG);
		return -EMSGSIZE;
	}
	h.total = (uint16_t)xk_msg_len(m);
	xk_lock(&s->lock);
	h.id = s->next++;
	xk_unlock(&s->lock);
	while (xk_msg_len(m) > most) {
		struct xk_msg *part = xk_msg_split(&m, most); /* m keeps the rest */

		if (part == NULL) {
			xk_drop(session->protocol, m, XK_DROP_NO_BUFFER);
			return -ENOBUFS;
		}
		err = fragment_send(session, part, h);
		if (err != 0) {
			xk_msg_free(m); /* without this fragment, the rest is useless */
			return err;
		}
		h.offset += (uint32_t)most;
	}
	return fragment_send(session, m, h);
}

/* ---- receiving ---- */

/* Gives up messages that have timed out. One alarm is enough: it is set for the oldest. The lock is held. */
static void
fragment_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct fragment_session *s = xk_container_of(alarm, struct fragment_session, alarm);

	while (s->count > 0 && now_ns - s->partial[0].born_ns >= FRAGMENT_TIMEOUT_NS)
		fragment_give_up(s, &s->partial[0], FRAGMENT_TIMED_OUT);
	if (s->count > 0)
		xk_alarm_set(alarm, s->partial[0].born_ns + FRAGMENT_TIMEOUT_NS);
	xk_unlock(&s->lock);
}

/* Returns the message of h, a new one if none is kept. The lock is held. */
static struct fragment_message *
fragment_find(struct fragment_session *s, const struct fragment_header *h)
{
	struct fragment_message *message;

	for (unsigned i = 0; i < s->count; i++)
		if (s->partial[i].id == h->id)
			return &s->partial[i];
	if (s->count == FRAGMENT_PARTIAL)
		fragment_give_up(s, &s->partial[0], FRAGMENT_EVICTED);
	message = &s->partial[s->count++];
	*message = (struct fragment_message){ .id = h->id, .total = h->total };
	message->born_ns = xk_now_ns(s->session.protocol);
	xk_alarm_set(&s->alarm, message->born_ns + FRAGMENT_TIMEOUT_NS);
	return message;
}

/* Returns the offset of a kept piece in its message. */
static uint32_t
fragment_at(const struct xk_msg *piece)
{
	return (uint32_t)*xk_msg_annotation(piece, XK_OF_MESSAGE, FRAGMENT_AT);
}

/* Puts m among the pieces of its message. Returns 0, or the reason to drop m. The lock is held. */
static unsigned
fragment_insert(struct fragment_message *message, const struct fragment_header *h, struct xk_msg *m)
{
	uint32_t len = (uint32_t)xk_msg_len(m);
	struct xk_msg **link = &message->pieces, *next;

	if (h->total != message->total)
		return FRAGMENT_CONFLICT;
	while (*link != NULL && fragment_at(*link) + xk_msg_len(*link) <= h->offset)
		link = &(*link)->link;
	next = *link; /* the first piece that does not end before m: only this one can be its duplicate */
	if (next != NULL && fragment_at(next) < h->offset + len)
		return fragment_at(next) == h->offset && xk_msg_len(next) == len ? FRAGMENT_DUPLICATE
										 : FRAGMENT_CONFLICT;
	xk_msg_annotate(m, XK_OF_MESSAGE, FRAGMENT_AT, h->offset);
	m->link = next;
	*link = m;
	message->bytes += len;
	return 0;
}

/* Joins all pieces of a message, without copying. */
static struct xk_msg *
fragment_join(struct xk_msg *pieces)
{
	struct xk_msg *whole = pieces, *m = pieces->link, *next;

	xk_msg_unannotate(whole, XK_OF_MESSAGE); /* private to this protocol */
	for (; m != NULL; m = next) {
		next = m->link;
		xk_msg_join(whole, m);
	}
	return whole;
}

/* Keeps a fragment, or drops it. Returns the message that it completes, or NULL. Takes m. The lock is held. */
static struct xk_msg *
fragment_keep(struct fragment_session *s, struct xk_msg *m, const struct fragment_header *h)
{
	struct fragment_message *message = fragment_find(s, h);
	unsigned why = fragment_insert(message, h, m);

	if (why != 0) {
		xk_drop(s->session.protocol, m, why);
		if (why == FRAGMENT_CONFLICT)
			fragment_give_up(s, message, why);
		return NULL;
	}
	/* Pieces do not overlap and lie within the message, so `total` bytes are all its bytes. */
	return message->bytes < message->total ? NULL : fragment_join(fragment_remove(s, message));
}

/* Keeps the fragment m, and delivers its message once it is complete. Takes m. */
static void
fragment_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct fragment_session *s = (struct fragment_session *)session;
	const struct fragment_header *h = hdr;

	if (xk_msg_len(m) < h->total) {
		xk_lock(&s->lock);
		m = fragment_keep(s, m, h);
		xk_unlock(&s->lock);
	}
	if (m != NULL)
		xk_demux(session, m);
}

static void
fragment_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct fragment_header h;
	unsigned why = fragment_header_pop(&h, m);
	struct xk_key key;
	struct xk_session *s;

	if (why != 0) {
		xk_drop(self, m, why);
		return;
	}
	key = fragment_key(lls);
	s = xk_table_find(self, key);
	if (s == NULL)
		s = xk_table_accept(self, key, xk_table_number_key(0), lls, NULL, m);
	if (s != NULL)
		xk_pop(s, lls, m, &h);
}

/* ---- the end of the host ---- */

static void
fragment_forget(void *object, void *context)
{
	xk_alarm_cancel(&((struct fragment_session *)object)->alarm);
}

static void
fragment_fini(struct xk_protocol *self)
{
	xk_map_for_each(&self->table.sessions, fragment_forget, NULL);
}

/* ---- asking ---- */

static int
fragment_session_control(struct xk_session *session, int op, void *argument)
{
	if (op != XK_GET_MAX_PACKET)
		return -ENOTSUP;
	*(uint32_t *)argument = FRAGMENT_LONGEST;
	return 0;
}

/* ---- tables ---- */

static const struct xk_session_ops fragment_session_ops = {
	.size = sizeof(struct fragment_session),
	.setup = fragment_setup,
	.push = fragment_push,
	.pop = fragment_pop,
	.close = fragment_close,
	.control = fragment_session_control,
};

static const struct xk_protocol_ops fragment_ops = {
	.init = fragment_init,
	.fini = fragment_fini,
	.open = fragment_open,
	.passive_key = fragment_passive_key,
	.passive_key_of = fragment_passive_key_of,
	.demux = fragment_demux,
};

static const struct xk_role fragment_lowers[] = {
	{ "network", XK_ASYNC, NULL, "carries messages to hosts: vnet" },
	{ NULL, 0, NULL, NULL },
};
static const struct xk_number_on fragment_numbers[] = { { "eth", 0x88b5 }, { NULL, 0 } };
static const char *const fragment_drops[] = { "bad_fragment", "duplicate", "conflict", "evicted",
					      "timed_out",    "closed",    NULL };

const struct xk_protocol_type xk_type_fragment = {
	.name = "fragment",
	.help = "Lab 3: messages longer than a frame.",
	.ops = &fragment_ops,
	.session_ops = &fragment_session_ops,
	.header = FRAGMENT_HEADER_LEN,
	.fields = fragment_fields,
	.size = sizeof(struct xk_protocol),
	.offers = XK_ASYNC,
	.lowers = fragment_lowers,
	.numbers = fragment_numbers,
	.drops = fragment_drops,
	.session_max = 64,
};
