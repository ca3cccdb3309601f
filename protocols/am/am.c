/*
 * am.c - Active Messages: each message names the handler to run where it arrives, and the driver runs it at once
 * (demultiplexing by the message itself: Bjorkman 1994, 2.1).
 *
 * Spec:         von Eicken, Culler, Goldstein and Schauer, "Active Messages" (1992), with a handler's number in place
 *               of its address, because hosts need not have the same core image; our own 20-byte header
 * Exchange:     Each REQUEST is answered once: by the REPLY of its handler, or by an ACK if there is no reply or no
 *               such handler. A broadcast request is neither run nor answered. A reply more than three times as long as
 *               its request, headers included, becomes an ACK, unless BID has confirmed the requesting host.
 * Promise:      that of the protocol below, without retransmission; a repeated request runs again, a repeated reply
 *               does not
 * Flow:         At most `outstanding` requests of a session are unanswered and `queue` others queued; more are refused.
 *               A request without an answer after `timeout` is lost, and makes room; the requester is not told.
 * Handoff:      The shepherd that brought a message runs its handler, in the driver if it can. It leaves the driver
 *               (counted as explicit) before a handler registered with may_wait, and before it sends queued requests.
 * Sessions:     active ones only; each open makes another. An answer finds its session by 64 random bits, whichever way
 *               it comes: no other host knows them, and no earlier boot had them. Strangers' requests take no memory. A
 *               closed session lives on until its requests are answered or lost.
 * Participants: those of the protocol below
 * Push:         the handler's number (2 bytes) and the arguments (xk_am_request). Nothing comes up: handlers run.
 * Not done:     retransmission; telling the requester that an answer was lost, or that there is no such handler
 * Graph:        am -> vnet, or anything else that carries messages to hosts: bid, blast, ip, stopwait
 */
#include "protocols/am/am.h"

#include <errno.h>

#include "protocols/bid/boot.h"
#include "xkernel/event.h"

enum am_drop {
	AM_BAD_KIND = XK_DROP_OWN,
	AM_BAD_LENGTH,
	AM_BAD_HANDLER, /* not below XK_AM_HANDLERS, or not 0 in an ACK */
	AM_TO_ALL,
	AM_NO_HANDLER, /* not registered here */
	AM_STALE,      /* an answer to no unanswered request */
	AM_QUEUE_FULL,
	AM_BAD_REQUEST, /* pushed: shorter than a number, or a number too large */
	AM_CLOSED,      /* the session was closed before the request could be sent */
	AM_TOO_LONG,    /* a reply */
};

/* acks: received; acked: sent; left: handoffs off the driver */
enum am_counter { AM_REQUESTS, AM_REPLIES, AM_ACKS, AM_ACKED, AM_UNSENT, AM_LOST, AM_LEFT };

enum {
	AM_OUTSTANDING_MAX = 64,
	AM_REPLY_TIMES = 3, /* limit of a reply's length, in lengths of its request; not over BID */
};

struct am {
	struct xk_protocol protocol;
	uint64_t outstanding, queue, timeout_ns;
	struct xk_am_handler handlers[XK_AM_HANDLERS];
};

/* A request that was sent. */
struct am_request {
	uint32_t sequence;
	bool unanswered;
	uint64_t due_ns;
};

struct am_session {
	struct xk_session session;
	uint64_t number;
	struct xk_event timer; /* holds a reference on the session while pending */
	struct xk_lock lock;   /* protects the fields below */
	bool timing;           /* the timer is pending, or its handler will check again */
	uint32_t sequence;     /* of the next request */
	unsigned unanswered;
	struct xk_msg *first, **last; /* requests that wait, headers in front */
	unsigned waiting;
	struct am_request requests[AM_OUTSTANDING_MAX]; /* the first `outstanding` are in use */
};

/* ---- the header ---- */

enum {
	AM_AT_KIND = 0,
	AM_AT_ZERO = 1,
	AM_AT_HANDLER = 2,
	AM_AT_SEQUENCE = 4,
	AM_AT_LENGTH = 8,
	AM_AT_SESSION = 12,
	AM_HEADER_LEN = 20,
};

enum am_kind { AM_REQUEST = 1, AM_REPLY, AM_ACK };

struct am_header {
	enum am_kind kind;
	unsigned handler;
	uint32_t sequence;
	uint64_t session;
};

static const struct xk_field_value am_kinds[] = {
	{ AM_REQUEST, "REQUEST" }, { AM_REPLY, "REPLY" }, { AM_ACK, "ACK" }, { 0, NULL }
};

static const struct xk_field am_fields[] = {
	{ .name = "kind", .bits = 8, .kind = XK_VARIES, .values = am_kinds },
	{ .name = "zero", .bits = 8, .kind = XK_FIXED },
	{ .name = "handler", .bits = 16, .kind = XK_VARIES, .help = "number, below 256" },
	{ .name = "sequence", .bits = 32, .kind = XK_VARIES },
	{ .name = "length", .bits = 32, .kind = XK_LENGTH, .covers = XK_COVERS_PAYLOAD },
	{ .name = "session", .bits = 64, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HEX, .help = "the requester's" },
	{ .name = NULL },
};

/* Strips and checks the header of m, and cuts off padding. Returns 0, or the reason to drop m. */
static unsigned
am_header_pop(struct am_header *h, struct xk_msg *m)
{
	const uint8_t *p = m->data;
	uint32_t length = xk_get32(p + AM_AT_LENGTH);

	*h = (struct am_header){ p[AM_AT_KIND], xk_get16(p + AM_AT_HANDLER), xk_get32(p + AM_AT_SEQUENCE),
				 xk_get64(p + AM_AT_SESSION) };
	xk_msg_pop_in_place(m, AM_HEADER_LEN);
	if (h->kind < AM_REQUEST || h->kind > AM_ACK || p[AM_AT_ZERO] != 0)
		return AM_BAD_KIND;
	if (length > xk_msg_len(m) || (h->kind == AM_ACK && length != 0))
		return AM_BAD_LENGTH;
	if (h->handler >= (h->kind == AM_ACK ? 1 : XK_AM_HANDLERS))
		return AM_BAD_HANDLER;
	xk_msg_truncate(m, length);
	return 0;
}

/* Puts header h before *m. Returns false without a buffer, with *m unchanged. */
static bool
am_header_push(struct xk_msg **m, const struct am_header *h)
{
	uint32_t length = (uint32_t)xk_msg_len(*m);
	uint8_t *p = xk_msg_push(m, AM_HEADER_LEN);

	if (p == NULL)
		return false;
	p[AM_AT_KIND] = (uint8_t)h->kind;
	p[AM_AT_ZERO] = 0;
	xk_put16(p + AM_AT_HANDLER, (uint16_t)h->handler);
	xk_put32(p + AM_AT_SEQUENCE, h->sequence);
	xk_put32(p + AM_AT_LENGTH, length);
	xk_put64(p + AM_AT_SESSION, h->session);
	return true;
}

/* ---- requesting ---- */

/* Makes m the next request; there is room for it. The lock is held. */
static void
am_begin(struct am_session *s, struct xk_msg *m)
{
	const struct am *am = (struct am *)s->session.protocol;
	struct am_request *request = s->requests;

	while (request->unanswered)
		request++;
	*request = (struct am_request){ s->sequence++, true, xk_now_ns(&am->protocol) + am->timeout_ns };
	s->unanswered++;
	xk_put32(m->data + AM_AT_SEQUENCE, request->sequence);
}

static int
am_push(struct xk_session *session, struct xk_msg *m)
{
	struct am_session *s = (struct am_session *)session;
	const struct am *am = (struct am *)session->protocol;
	struct am_header h = { .kind = AM_REQUEST, .session = s->number };
	const uint8_t *p = xk_msg_pop(&m, XK_AM_NUMBER_LEN);
	bool at_once = false;
	unsigned why = 0;

	if (p == NULL)
		why = xk_msg_len(m) < XK_AM_NUMBER_LEN ? AM_BAD_REQUEST : XK_DROP_NO_BUFFER;
	else if ((h.handler = xk_get16(p)) >= XK_AM_HANDLERS)
		why = AM_BAD_REQUEST;
	else if (!am_header_push(&m, &h))
		why = XK_DROP_NO_BUFFER;
	if (why == 0) {
		xk_lock(&s->lock);
		at_once = s->waiting == 0 && s->unanswered < am->outstanding;
		if (at_once && !s->timing && !xk_duplicate(session)) {
			why = AM_CLOSED;
		} else if (at_once) {
			if (!s->timing)
				xk_event_schedule(&s->timer, xk_us_of_ns(am->timeout_ns));
			s->timing = true;
			am_begin(s, m);
		} else if (s->waiting >= am->queue) {
			why = AM_QUEUE_FULL;
		} else {
			m->link = NULL;
			*s->last = m;
			s->last = &m->link;
			s->waiting++;
		}
		xk_unlock(&s->lock);
	}
	if (why != 0) {
		xk_drop(session->protocol, m, why);
		return why == AM_BAD_REQUEST ? -EINVAL : why == AM_CLOSED ? -ECONNRESET : -ENOBUFS;
	}
	return at_once ? xk_push(session->lls, m) : 0;
}

/* Sends queued requests, as far as there is room for them. */
static void
am_send_waiting(struct am_session *s)
{
	const struct am *am = (struct am *)s->session.protocol;
	struct xk_msg *m;

	do {
		xk_lock(&s->lock);
		m = s->unanswered < am->outstanding ? s->first : NULL;
		if (m != NULL) {
			s->first = m->link;
			if (--s->waiting == 0)
				s->last = &s->first;
			am_begin(s, m);
		}
		xk_unlock(&s->lock);
		if (m != NULL)
			xk_push(s->session.lls, m);
	} while (m != NULL);
}

/* Gives up due requests, and fires again when the next one is due. */
static void
am_expire(struct xk_event *event, void *argument)
{
	struct am_session *s = argument;
	const struct am *am = (struct am *)s->session.protocol;
	uint64_t now_ns = xk_now_ns(s->session.protocol), next_ns = UINT64_MAX;

	xk_lock(&s->lock);
	for (unsigned i = 0; i < am->outstanding; i++) {
		struct am_request *request = &s->requests[i];

		if (request->unanswered && request->due_ns <= now_ns) {
			request->unanswered = false;
			s->unanswered--;
			xk_count(s->session.protocol, AM_LOST);
		} else if (request->unanswered && request->due_ns < next_ns) {
			next_ns = request->due_ns;
		}
	}
	if (next_ns == UINT64_MAX && s->waiting > 0)
		next_ns = now_ns + am->timeout_ns;
	s->timing = next_ns != UINT64_MAX && xk_duplicate(&s->session);
	if (s->timing)
		xk_event_schedule(event, xk_us_of_ns(next_ns - now_ns));
	xk_unlock(&s->lock);
	am_send_waiting(s);
	xk_session_release(&s->session);
}

/* ---- sessions ---- */

static struct xk_key
am_key(uint64_t number)
{
	return (struct xk_key){ number, 0 };
}

/* `how` is the header of the first request. */
static int
am_setup(struct xk_session *session, const void *how)
{
	struct am_session *s = (struct am_session *)session;
	const struct am_header *first = how;

	xk_event_init(&s->timer, session->protocol->kernel, am_expire, s);
	xk_lock_init(&s->lock, session->protocol);
	s->number = first->session;
	s->sequence = first->sequence;
	s->last = &s->first;
	return 0;
}

static int
am_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	struct xk_participants *participants, struct xk_session **session)
{
	struct am_header first = { .kind = AM_REQUEST };
	struct xk_session *lls;
	int err = xk_open(self, self, xk_lower(self, 0), participants, &lls);

	if (err != 0)
		return err;
	first.sequence = (uint32_t)xk_random(self);
	first.session = xk_random(self);
	return xk_table_add(self, am_key(first.session), hlp_receive, hlp_type, lls, &first, session);
}

/* No request is unanswered, except in fini. */
static void
am_close(struct xk_session *session)
{
	struct xk_msg *next;

	for (struct xk_msg *m = ((struct am_session *)session)->first; m != NULL; m = next) {
		next = m->link;
		xk_drop(session->protocol, m, AM_CLOSED);
	}
}

static void
am_forget(void *object, void *context)
{
	struct am_session *s = object;

	if (xk_event_cancel(&s->timer) == XK_EVENT_CANCELLED)
		xk_session_release(&s->session);
}

static void
am_fini(struct xk_protocol *self)
{
	xk_map_for_each(&self->table.sessions, am_forget, NULL);
}

static int
am_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };

	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

/* ---- receiving ---- */

/* Leaves the driver, before the shepherd waits or sends. */
static void
am_leave(struct xk_protocol *self)
{
	if (xk_handoff(self))
		xk_count(self, AM_LEFT);
}

/* Runs the handler named in h for m, if there is one. Takes m. */
static void
am_run(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, const struct am_header *h,
       struct xk_am_reply *reply)
{
	const struct xk_am_handler *handler = &((struct am *)self)->handlers[h->handler];

	if (handler->run == NULL) {
		xk_drop(self, m, AM_NO_HANDLER);
		return;
	}
	xk_count(self, h->kind == AM_REQUEST ? AM_REQUESTS : AM_REPLIES);
	if (handler->may_wait)
		am_leave(self);
	handler->run(handler->argument, lls, m, reply);
}

/*
 * Runs and answers request h. Its source address may be forged, so the answer must not be much longer than the request,
 * unless BID has confirmed the sender's boot.
 */
static void
am_requested(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, const struct am_header *h)
{
	size_t longest =
		xk_msg_from_boot(m) != 0 ? SIZE_MAX : AM_REPLY_TIMES * (AM_HEADER_LEN + xk_msg_len(m)) - AM_HEADER_LEN;
	struct am_header answer = { AM_ACK, 0, h->sequence, h->session };
	struct xk_am_reply reply = { 0, NULL };

	am_run(self, lls, m, h, &reply);
	if (reply.m != NULL && xk_msg_len(reply.m) > longest) {
		xk_drop(self, reply.m, AM_TOO_LONG);
		reply.m = NULL;
	}
	if (reply.m != NULL) {
		xk_assert(reply.number < XK_AM_HANDLERS);
		answer.kind = AM_REPLY;
		answer.handler = reply.number;
	} else {
		reply.m = xk_msg_new(xk_platform_of(self), 0);
		xk_count(self, AM_ACKED);
	}
	if (reply.m == NULL || !am_header_push(&reply.m, &answer)) {
		xk_msg_free(reply.m);
		xk_count(self, AM_UNSENT);
	} else if (xk_push(lls, reply.m) != 0) {
		xk_count(self, AM_UNSENT);
	}
}

static void
am_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct am_session *s = (struct am_session *)session;
	struct xk_protocol *self = session->protocol;
	struct am_request *request = s->requests, *end = request + ((struct am *)self)->outstanding;
	const struct am_header *h = hdr;
	bool others_wait;

	xk_lock(&s->lock);
	while (request < end && !(request->unanswered && request->sequence == h->sequence))
		request++;
	if (request < end) {
		request->unanswered = false;
		s->unanswered--;
	}
	others_wait = s->waiting > 0;
	xk_unlock(&s->lock);
	if (request == end) {
		xk_drop(self, m, AM_STALE);
		return;
	}
	if (h->kind == AM_REPLY) {
		am_run(self, lls, m, h, NULL);
	} else {
		xk_count(self, AM_ACKS);
		xk_msg_free(m);
	}
	if (others_wait) {
		am_leave(self);
		am_send_waiting(s);
	}
}

static void
am_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_session *s = NULL;
	struct am_header h;
	unsigned why = am_header_pop(&h, m);

	if (why == 0 && (m->flags & XK_MSG_TO_ALL) != 0)
		why = AM_TO_ALL;
	if (why == 0 && h.kind != AM_REQUEST) {
		s = xk_table_find(self, am_key(h.session));
		why = s == NULL ? XK_DROP_NO_SESSION : 0;
	}
	if (why != 0)
		xk_drop(self, m, why);
	else if (s != NULL)
		xk_pop(s, lls, m, &h);
	else
		am_requested(self, lls, m, &h);
}

/* ---- control ---- */

static int
am_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	struct am *am = (struct am *)self;
	const struct xk_am_registration *registration = buffer;

	if (op != XK_AM_REGISTER)
		return -ENOTSUP;
	if (len < sizeof(*registration))
		return -EMSGSIZE;
	if (registration->number >= XK_AM_HANDLERS || registration->handler.run == NULL)
		return -EINVAL;
	if (am->handlers[registration->number].run != NULL)
		return -EEXIST;
	am->handlers[registration->number] = registration->handler;
	return 0;
}

static int
am_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	struct am_session *s = (struct am_session *)session;
	uint32_t value, ours = AM_HEADER_LEN - XK_AM_NUMBER_LEN; /* the header replaces the number */
	int got;

	switch (op) {
	case XK_AM_GET_WAITING:
	case XK_AM_GET_UNANSWERED:
		xk_lock(&s->lock);
		value = op == XK_AM_GET_WAITING ? s->waiting : s->unanswered;
		xk_unlock(&s->lock);
		break;
	case XK_GET_MAX_PACKET:
	case XK_GET_OPT_PACKET:
		got = xk_control(session->lls, op, &value, sizeof(value));
		if (got < 0)
			return got;
		value -= value < ours ? value : ours;
		break;
	default:
		return -ENOTSUP;
	}
	return xk_answer(buffer, len, &value, sizeof(value));
}

/* ---- tables ---- */

static const struct xk_session_ops am_session_ops = {
	.size = sizeof(struct am_session),
	.setup = am_setup,
	.push = am_push,
	.pop = am_pop,
	.close = am_close,
	.control = am_session_control,
};

static const struct xk_protocol_ops am_ops = {
	.init = am_init,
	.fini = am_fini,
	.open = am_open,
	.demux = am_demux,
	.control = am_control,
};

static const struct xk_role am_lowers[] = {
	{ "network", XK_ASYNC, NULL, "carries messages to hosts" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_setting am_settings[] = {
	{ "outstanding", XK_SETTING_UINT, offsetof(struct am, outstanding), "8",
	  "maximum number of unanswered requests of a session", 1, AM_OUTSTANDING_MAX },
	{ "queue", XK_SETTING_UINT, offsetof(struct am, queue), "16", "maximum number of queued requests of a session",
	  0, 65536 },
	{ "timeout", XK_SETTING_TIME, offsetof(struct am, timeout_ns), "200ms",
	  "time until an unanswered request is lost", 1000, UINT64_C(60000000000) },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const char *const am_drops[] = {
	"bad_kind",   "bad_length",  "bad_handler", "to_all",   "no_handler", "stale",
	"queue_full", "bad_request", "closed",      "too_long", NULL,
};
static const char *const am_counters[] = { "requests", "replies", "acks", "acked", "unsent", "lost", "left", NULL };

static const struct xk_number_on am_numbers[] = {
	{ "bid", 206 }, { "blast", 0x3007 }, { "eth", 0x3007 }, { "ip", 206 }, { NULL, 0 }
};

const struct xk_protocol_type xk_type_am = {
	.name = "am",
	.help = "Active Messages: each names the handler to run for it, and the driver runs it.",
	.ops = &am_ops,
	.session_ops = &am_session_ops,
	.header = AM_HEADER_LEN,
	.fields = am_fields,
	.size = sizeof(struct am),
	.offers = XK_ASYNC,
	.lowers = am_lowers,
	.numbers = am_numbers,
	.settings = am_settings,
	.drops = am_drops,
	.counters = am_counters,
};
