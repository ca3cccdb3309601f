/*
 * fragment.c - lab 3: messages longer than a frame, cut up and reassembled.
 *
 * This is the skeleton: it compiles, and sends messages that fit into one frame. Fill in each HOLE.
 *
 * Spec:         docs/labs/fragment.md; the header is in fragment.h, which you do not change
 * Participants: those of the protocol below, which carries messages to hosts
 * Sessions:     one per neighbour
 * Drops:        bad_length, bad_fragment, duplicate, conflict, evicted, timed_out, closed; too_big (pushed)
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
	/* HOLE 1: is this fragment possible? */
	return 0;
}

/* ---- state ---- */

struct fragment_session {
	struct xk_session session; /* first */
	struct xk_lock lock;       /* of the fields below; never held while a message is pushed or delivered */
	struct xk_alarm alarm;     /* holds the session while it is set */
	uint16_t next;             /* id of the next message */
	uint32_t room;             /* longest message of the protocol below, in bytes */
				   /* HOLE 2: incomplete messages. */
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

/* Runs when the last reference to the session is gone. */
static void
fragment_close(struct xk_session *session)
{
	/* HOLE 3: drop the kept fragments (xk_drop, FRAGMENT_CLOSED), with the lock held. */
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

static int
fragment_push(struct xk_session *session, struct xk_msg *m)
{
	struct fragment_session *s = (struct fragment_session *)session;
	struct fragment_header h = { .total = (uint16_t)xk_msg_len(m) };

	/* HOLE 4: cut m up (xk_msg_split), if it is longer than the whole units that fit into a frame. */
	if (xk_msg_len(m) > s->room - FRAGMENT_HEADER_LEN) {
		xk_drop(session->protocol, m, FRAGMENT_TOO_BIG);
		return -EMSGSIZE;
	}
	xk_lock(&s->lock);
	h.id = s->next++;
	xk_unlock(&s->lock);
	m = xk_push_header(session, m, FRAGMENT_HEADER_LEN);
	if (m == NULL)
		return -ENOBUFS;
	fragment_header_store(m->data, h, xk_msg_len(m));
	return xk_push(session->lls, m);
}

/* ---- receiving ---- */

/* HOLE 5: give up messages that have timed out, and set the alarm again if there are others. The lock is held. */
static void
fragment_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct fragment_session *s = xk_container_of(alarm, struct fragment_session, alarm);

	xk_unlock(&s->lock); /* taken by the alarm */
}

static void
fragment_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	/* HOLE 6: deliver a complete message; keep a fragment, unless it completes its message. */
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
