/*
 * window.c - lab 2: reliable messages in order between neighbours, several of them in flight.
 *
 * This is the skeleton: it compiles, and sends each message once. Fill in each HOLE.
 *
 * Spec:         docs/labs/window.md; the header is in window.h, which you do not change
 * Participants: those of the protocol below, which carries messages to hosts
 * Sessions:     one per neighbour
 * Drops:        bad_length, bad_checksum, bad_kind, duplicate, outside; queue_full (pushed), closed (kept at the end)
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
	xk_msg_truncate(m, length);
	/* HOLE 1: the checksum (xk_msg_sum, xk_sum_is_intact), and the kind. */
	h->kind = p[WINDOW_KIND];
	h->number = xk_get16(p + WINDOW_NUMBER);
	xk_msg_pop_in_place(m, WINDOW_HEADER_LEN);
	return 0;
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
	uint16_t next;             /* number of the next message pushed */
	uint16_t expected;         /* number of the next message to deliver */
	/* HOLE 2: messages kept until they are acknowledged, or until it is their turn; when to send again. */
};

static void window_expire(struct xk_alarm *alarm, uint64_t now_ns);

static int
window_setup(struct xk_session *session, const void *how)
{
	struct window_session *s = (struct window_session *)session;

	xk_lock_init(&s->lock, session->protocol);
	xk_alarm_init(&s->alarm, session, &s->lock, window_expire);
	s->next = s->expected = WINDOW_FIRST;
	return 0;
}

/* Runs when the last reference to the session is gone. */
static void
window_close(struct xk_session *session)
{
	/* HOLE 3: drop the kept messages (xk_drop, WINDOW_CLOSED), with the lock held. */
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

static int
window_push(struct xk_session *session, struct xk_msg *m)
{
	struct window_session *s = (struct window_session *)session;
	struct xk_msg *frame;

	/* HOLE 4: keep m, and send it only if the window is open. If there are too many: -ENOBUFS, WINDOW_QUEUE_FULL. */
	xk_lock(&s->lock);
	frame = window_frame(session->protocol, (struct window_header){ WINDOW_DATA, s->next++ }, m);
	xk_unlock(&s->lock);
	xk_msg_free(m);
	return frame == NULL ? -ENOBUFS : xk_push(session->lls, frame);
}

/* HOLE 5: all messages before h->number have arrived, if that is possible. Free them, and send those that may go now. */
static void
window_pop_ack(struct window_session *s, const struct window_header *h)
{
}

/* HOLE 6: send due messages again, and set the alarm again while messages are in flight. The lock is held. */
static void
window_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct window_session *s = xk_container_of(alarm, struct window_session, alarm);

	xk_unlock(&s->lock); /* taken by the alarm */
}

/* ---- receiving ---- */

/* HOLE 7: deliver m if it is its turn, and the kept messages after it; keep it if it is early; answer it. Takes m. */
static void
window_pop_data(struct window_session *s, struct xk_session *lls, struct xk_msg *m, const struct window_header *h)
{
	xk_demux(&s->session, m);
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
