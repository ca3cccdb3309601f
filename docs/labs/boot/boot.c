/*
 * boot.c - lab 4: each message is delivered at most once, although hosts crash and forget everything.
 *
 * This is the skeleton: it compiles, and calls its neighbour. Fill in each HOLE.
 *
 * Spec:         docs/labs/boot.md; the header is in boot.h, which you do not change
 * Participants: those of the protocol below, which carries messages to hosts
 * Sessions:     one per neighbour
 * Drops:        bad_length, bad_kind, stale, duplicate, bad_sequence; queue_full (pushed), gone, gave_up, closed (kept)
 * Graph:        boot -> vnet
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

/* Sends a frame, if not NULL for lack of a buffer: lost frames are sent, or requested, again. No lock is held. */
static void
boot_transmit(struct xk_session *lls, struct xk_msg *frame)
{
	if (frame != NULL)
		xk_push(lls, frame);
}

/* ---- state ---- */

struct boot {
	struct xk_protocol protocol; /* first */
	_Atomic uint32_t ends;       /* made by this host in this boot */
};

struct boot_session {
	struct xk_session session; /* first */
	struct xk_lock lock;       /* of the fields below; never held while a message is pushed or delivered */
	struct xk_alarm alarm;     /* holds the session while it is set */
	uint32_t mine, yours;      /* this end, and the peer's; 0: unknown */
	/* unacknowledged messages, linked by xk_msg.link */
	struct xk_msg *first, **last;
	unsigned count;
	/* HOLE 1: the message in flight, and since when; the numbers of this conversation. */
};

/* HOLE 2: returns an end that this host has never had before: xk_boots(self) is all that it remembers. */
static uint32_t
boot_new_end(struct xk_protocol *self)
{
	return 0;
}

static void boot_expire(struct xk_alarm *alarm, uint64_t now_ns);

static int
boot_setup(struct xk_session *session, const void *how)
{
	struct boot_session *s = (struct boot_session *)session;

	xk_lock_init(&s->lock, session->protocol);
	xk_alarm_init(&s->alarm, session, &s->lock, boot_expire);
	s->last = &s->first;
	s->mine = boot_new_end(session->protocol);
	return 0;
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

/* ---- sending ---- */

/* HOLE 3: returns the frame that the peer has to answer next, CALL or DATA, and sets the alarm. The lock is held. */
static struct xk_msg *
boot_next_frame(struct boot_session *s)
{
	if (s->count == 0)
		return NULL;
	return boot_frame(s->session.protocol, (struct boot_header){ .kind = BOOT_CALL, .mine = s->mine }, NULL);
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

/* HOLE 4: send again, or give up. Set the alarm again while an answer is awaited. The lock is held. */
static void
boot_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct boot_session *s = xk_container_of(alarm, struct boot_session, alarm);

	xk_unlock(&s->lock); /* taken by the alarm */
}

/* ---- receiving ---- */

/* HOLE 5: apply rules 2 to 5: receiver, sender, contents. Takes m. */
static void
boot_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	xk_drop(session->protocol, m, BOOT_STALE);
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
	/* HOLE 6: only a CALL makes a session. What is the answer if there is none? */
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
