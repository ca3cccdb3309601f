/*
 * am.c - Active Messages: each message says which handler is to run for it where it arrives, and there it is run at once, by
 * the driver. The simplest use of interrupt protocol processing (Bjorkman 1994, 2.1): a demultiplexing by the message itself.
 *
 * Spec:         von Eicken, Culler, Goldstein and Schauer, "Active Messages" (1992), with a handler's number in place of its
 *               address, since hosts need not have the same core image; our own 20-byte header:
 *
 *                0      1      2             4             8             12                   20
 *               +------+------+-------------+-------------+-------------+---------------------+
 *               | kind | 0    | handler     | sequence    | length      | session             |  arguments ...
 *               +------+------+-------------+-------------+-------------+---------------------+
 *
 *               kind: REQUEST 1, REPLY 2, ACK 3 (handler 0, no arguments). length is that of the arguments.
 * Exchange:     Each REQUEST is answered by one message with its session and sequence: the REPLY of its handler, or an ACK if
 *               that does not reply or there is no such handler. A request to everybody is not answered, nor run.
 * Promise:      None but that of the protocol below: what is lost is not sent again, what comes twice is run twice (a reply
 *               only once). Over something reliable it is reliable.
 * Flow:         At most `outstanding` requests of a session are unanswered; `queue` others wait; more are refused. A request
 *               that is not answered within `timeout` is counted as lost, and makes room; nobody is told.
 * In the driver (2.2): whatever arrives is handled by the shepherd that brought it: handlers that are short, and answers, which
 *               are a little book-keeping. The shepherd leaves the driver (handoff, counted as explicit) before it runs a
 *               handler that was registered with may_wait, and before an answer makes it send what has waited. The answer to
 *               a request is sent by whom the handler has run on; should that have to wait, the graph's `implicit` decides.
 * Participants: none of its own: what is given to open goes on to the protocol below
 * Sessions:     only those that are opened, to request; each open gives another. An answer finds it by its number, 64 bits
 *               drawn at random, whichever way it comes: nobody else can know it, and no boot before has had it. Answering
 *               needs no session, so that a stranger's request takes no memory. One that is closed lives on until its
 *               requests are answered or lost.
 * Push:         a message is the handler's number (2 bytes) and the arguments: xk_am_request (am.h). Nothing comes up: handlers
 *               run for it.
 * Control:      XK_AM_REGISTER, XK_AM_GET_... (am.h), XK_GET_MAX_PACKET, XK_GET_OPT_PACKET; below they answer the others
 * Settings:     outstanding, queue, timeout
 * Drops:        short, no_buffer; bad_kind, bad_length, bad_handler (no such number anywhere, or in an ACK); to_all; no_handler
 *               (nobody has registered it here); no_session (an answer to nobody's session); stale (an answer to no request that is
 *               unanswered); of what is pushed queue_full, bad_request (shorter than a number, or no such one), closed (the
 *               session has gone before it could be sent)
 * Counters:     requests, replies (handlers run for them), acks (got), acked (sent), unsent (answers that there was no buffer
 *               for, or that the protocol below refused), lost, left (the driver, for either reason)
 * Not done:     sending again; telling who requested that an answer was lost, or that there is no such handler
 * Graph:        am -> vnet, or anything else that carries messages to hosts: bid, blast, ip, stopwait
 */
#include "protocols/am.h"

#include <errno.h>
#include <stdlib.h>

#include "xkernel/event.h"

enum am_drop {
	AM_BAD_KIND = XK_DROP_OWN,
	AM_BAD_LENGTH,
	AM_BAD_HANDLER,
	AM_TO_ALL,
	AM_NO_HANDLER,
	AM_STALE,
	AM_QUEUE_FULL,
	AM_BAD_REQUEST,
	AM_CLOSED,
};

enum am_counter { AM_REQUESTS, AM_REPLIES, AM_ACKS, AM_ACKED, AM_UNSENT, AM_LOST, AM_LEFT };

enum { AM_OUTSTANDING_MAX = 64 };

struct am {
	struct xk_protocol protocol;
	uint64_t outstanding, queue, timeout_ns;
	struct xk_map active; /* number: struct am_session */
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
	struct xk_event timer; /* pending, it holds a reference on the session */
	struct xk_lock lock;   /* of what follows */
	bool timing;           /* the timer is pending, or its handler will look again */
	uint32_t sequence;     /* of the next request */
	unsigned unanswered;
	struct xk_msg *first, **last; /* requests that wait, headers in front */
	unsigned waiting;
	struct am_request requests[]; /* as many as may be unanswered */
};

static inline struct am *
am_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct am, protocol);
}

static inline struct am_session *
am_session_of(struct xk_session *s)
{
	return xk_container_of(s, struct am_session, session);
}

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

/* Takes the header off *m, checks it, and cuts off what is not the message's. 0, or the reason to drop *m. */
static unsigned
am_header_pop(struct am_header *h, struct xk_msg **m)
{
	const uint8_t *p = xk_msg_pop(m, AM_HEADER_LEN);
	uint32_t length;

	if (p == NULL)
		return xk_msg_len(*m) < AM_HEADER_LEN ? XK_DROP_SHORT : XK_DROP_NO_BUFFER;
	*h = (struct am_header){ p[AM_AT_KIND], xk_get16(p + AM_AT_HANDLER), xk_get32(p + AM_AT_SEQUENCE),
				 xk_get64(p + AM_AT_SESSION) };
	length = xk_get32(p + AM_AT_LENGTH);
	if (h->kind < AM_REQUEST || h->kind > AM_ACK || p[AM_AT_ZERO] != 0)
		return AM_BAD_KIND;
	if (length > xk_msg_len(*m) || (h->kind == AM_ACK && length != 0))
		return AM_BAD_LENGTH;
	if (h->handler >= (h->kind == AM_ACK ? 1 : XK_AM_HANDLERS))
		return AM_BAD_HANDLER;
	xk_msg_truncate(*m, length);
	return 0;
}

/* False: no buffer, and *m is unchanged. */
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

/* ---- init and fini ---- */

static void
am_forget(void *object, void *context)
{
	struct am_session *as = object;

	if (xk_event_cancel(&as->timer) == XK_EVENT_CANCELLED)
		xk_session_release(&as->session);
}

static void
am_fini(struct xk_protocol *self)
{
	xk_map_for_each(&am_of(self)->active, am_forget, NULL);
	xk_map_fini(&am_of(self)->active);
}

static int
am_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };
	int status = xk_map_init(&am_of(self)->active, self->kernel, 16);

	if (status != 0)
		return status;
	status = xk_open_enable(self, self, xk_lower(self, 0), &anybody);
	if (status != 0)
		am_fini(self);
	return status;
}

/* ---- opening ---- */

static struct xk_key
am_key(uint64_t number)
{
	return (struct xk_key){ number, 0 };
}

static const struct xk_session_ops am_session_ops;
static void am_expire(struct xk_event *event, void *argument);

/* A session on lls, in no map yet. Takes lls, unless there is no memory: then NULL. */
static struct am_session *
am_session_new(struct am *am, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_session *lls)
{
	size_t size = sizeof(struct am_session) + am->outstanding * sizeof(struct am_request);
	struct xk_session *s = xk_session_new(&am->protocol, &am_session_ops, size, hlp_receive, hlp_type, lls);
	struct am_session *as;

	if (s == NULL)
		return NULL;
	as = am_session_of(s);
	xk_event_init(&as->timer, am->protocol.kernel, am_expire, as);
	xk_lock_init(&as->lock, &am->protocol);
	as->sequence = (uint32_t)xk_random(&am->protocol);
	as->last = &as->first;
	return as;
}

static int
am_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	struct xk_participants *participants, struct xk_session **session)
{
	struct am *am = am_of(self);
	struct am_session *as;
	struct xk_session *lls;
	int status = xk_open(self, self, xk_lower(self, 0), participants, &lls);

	if (status != 0)
		return status;
	as = am_session_new(am, hlp_receive, hlp_type, lls);
	if (as == NULL) {
		xk_close(lls);
		return -ENOMEM;
	}
	as->number = xk_random(self);
	status = xk_session_bind(&as->session, &am->active, am_key(as->number));
	if (status != 0)
		xk_close(&as->session);
	else
		*session = &as->session;
	return status;
}

/* Nothing of the session is under way any more, but in fini. */
static void
am_close(struct xk_session *s)
{
	struct am_session *as = am_session_of(s);
	struct xk_msg *next;

	for (struct xk_msg *m = as->first; m != NULL; m = next) {
		next = m->link;
		xk_drop(s->protocol, m, AM_CLOSED);
	}
}

/* ---- requesting; the lock is held, so what is to be sent is returned, to be sent without it ---- */

/* The request of that sequence that is unanswered; NULL: there is none. */
static struct am_request *
am_find_request(struct am_session *as, uint32_t sequence)
{
	for (unsigned i = 0; i < am_of(as->session.protocol)->outstanding; i++)
		if (as->requests[i].unanswered && as->requests[i].sequence == sequence)
			return &as->requests[i];
	return NULL;
}

/* m is the next request, and unanswered from now on; there is room for it. */
static void
am_begin(struct am_session *as, struct xk_msg *m)
{
	struct am_request *request = as->requests;

	while (request->unanswered)
		request++;
	request->sequence = as->sequence++;
	request->unanswered = true;
	request->due_ns = xk_now_ns(as->session.protocol) + am_of(as->session.protocol)->timeout_ns;
	as->unanswered++;
	xk_put32(m->data + AM_AT_SEQUENCE, request->sequence);
}

/* The request that has waited longest, which may be sent now; NULL: none, or not yet. */
static struct xk_msg *
am_next(struct am_session *as)
{
	struct xk_msg *m = as->first;

	if (m == NULL || as->unanswered >= am_of(as->session.protocol)->outstanding)
		return NULL;
	as->first = m->link;
	if (--as->waiting == 0)
		as->last = &as->first;
	am_begin(as, m);
	return m;
}

/* The timer looks in time. False: the session is being closed. */
static bool
am_keep_time(struct am_session *as)
{
	if (as->timing)
		return true;
	as->timing = xk_duplicate(&as->session);
	if (as->timing)
		xk_event_schedule(&as->timer, (am_of(as->session.protocol)->timeout_ns + 999) / 1000);
	return as->timing;
}

/* Takes m, with its header. 0 and *now (m, if it may be sent now, or NULL), or the reason to drop it. */
static unsigned
am_take(struct am_session *as, struct xk_msg *m, struct xk_msg **now)
{
	*now = NULL;
	if (as->waiting == 0 && as->unanswered < am_of(as->session.protocol)->outstanding) {
		if (!am_keep_time(as))
			return AM_CLOSED;
		am_begin(as, m);
		*now = m;
		return 0;
	}
	if (as->waiting >= am_of(as->session.protocol)->queue)
		return AM_QUEUE_FULL;
	m->link = NULL;
	*as->last = m;
	as->last = &m->link;
	as->waiting++;
	return 0;
}

/* ---- ... and without the lock ---- */

/* Puts a request's header in place of the number in front of *m. 0, or the reason to drop *m. */
static unsigned
am_make_request(struct am_session *as, struct xk_msg **m)
{
	struct am_header h = { .kind = AM_REQUEST, .session = as->number };
	const uint8_t *p = xk_msg_pop(m, XK_AM_NUMBER_LEN);

	if (p == NULL)
		return xk_msg_len(*m) < XK_AM_NUMBER_LEN ? AM_BAD_REQUEST : XK_DROP_NO_BUFFER;
	h.handler = xk_get16(p);
	if (h.handler >= XK_AM_HANDLERS)
		return AM_BAD_REQUEST;
	return am_header_push(m, &h) ? 0 : XK_DROP_NO_BUFFER;
}

static int
am_push(struct xk_session *s, struct xk_msg *m)
{
	struct am_session *as = am_session_of(s);
	struct xk_msg *now = NULL;
	unsigned why = am_make_request(as, &m);

	if (why == 0) {
		xk_lock(&as->lock);
		why = am_take(as, m, &now);
		xk_unlock(&as->lock);
	}
	if (why != 0) {
		xk_drop(s->protocol, m, why);
		return why == AM_BAD_REQUEST ? -EINVAL : why == AM_CLOSED ? -ECONNRESET : -ENOBUFS;
	}
	return now == NULL ? 0 : xk_push(s->lls, now);
}

/* Sends what waits, as far as there is room for it. */
static void
am_send_waiting(struct am_session *as)
{
	struct xk_msg *m;

	do {
		xk_lock(&as->lock);
		m = am_next(as);
		xk_unlock(&as->lock);
		if (m != NULL)
			xk_push(as->session.lls, m);
	} while (m != NULL);
}

/* Those that are due are lost. When the next one is; UINT64_MAX: none is unanswered. The lock is held. */
static uint64_t
am_lose(struct am_session *as, uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	for (unsigned i = 0; i < am_of(as->session.protocol)->outstanding; i++) {
		struct am_request *request = &as->requests[i];

		if (!request->unanswered)
			continue;
		if (request->due_ns <= now_ns) {
			request->unanswered = false;
			as->unanswered--;
			xk_count(as->session.protocol, AM_LOST);
		} else if (request->due_ns < next_ns) {
			next_ns = request->due_ns;
		}
	}
	return next_ns;
}

static void
am_expire(struct xk_event *event, void *argument)
{
	struct am_session *as = argument;
	uint64_t now_ns = xk_now_ns(as->session.protocol), next_ns;

	(void)event;
	xk_lock(&as->lock);
	next_ns = am_lose(as, now_ns);
	if (next_ns == UINT64_MAX && as->waiting > 0)
		next_ns = now_ns + am_of(as->session.protocol)->timeout_ns;
	as->timing = next_ns != UINT64_MAX && xk_duplicate(&as->session);
	if (as->timing)
		xk_event_schedule(&as->timer, (next_ns - now_ns + 999) / 1000);
	xk_unlock(&as->lock);
	am_send_waiting(as);
	xk_session_release(&as->session);
}

/* ---- what arrives ---- */

/* Before what may wait or send: not in the driver. */
static void
am_leave(struct xk_protocol *self)
{
	if (xk_handoff(self))
		xk_count(self, AM_LEFT);
}

/* Runs the handler that h names for m, which is taken. False: there is none. */
static bool
am_run(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, const struct am_header *h,
       struct xk_am_reply *reply)
{
	const struct xk_am_handler *handler = &am_of(self)->handlers[h->handler];

	if (handler->run == NULL) {
		xk_drop(self, m, AM_NO_HANDLER);
		return false;
	}
	xk_count(self, h->kind == AM_REQUEST ? AM_REQUESTS : AM_REPLIES);
	if (handler->may_wait)
		am_leave(self);
	handler->run(handler->argument, lls, m, reply);
	return true;
}

/* Answers request h by the session that it came up. */
static void
am_answer(struct xk_protocol *self, struct xk_session *lls, const struct am_header *h, const struct xk_am_reply *reply)
{
	struct am_header answer = { AM_REPLY, reply->number, h->sequence, h->session };
	struct xk_msg *m = reply->m;

	if (m == NULL) {
		answer.kind = AM_ACK;
		answer.handler = 0;
		m = xk_msg_new(xk_platform_of(self), 0);
		xk_count(self, AM_ACKED);
	}
	xk_assert(answer.handler < XK_AM_HANDLERS);
	if (m == NULL || !am_header_push(&m, &answer)) {
		xk_msg_free(m);
		xk_count(self, AM_UNSENT);
	} else if (xk_push(lls, m) != 0) {
		xk_count(self, AM_UNSENT);
	}
}

static void
am_requested(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, const struct am_header *h)
{
	struct xk_am_reply reply = { 0, NULL };

	am_run(self, lls, m, h, &reply);
	am_answer(self, lls, h, &reply);
}

/* A reply or an acknowledgement. */
static void
am_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct am_session *as = am_session_of(s);
	const struct am_header *h = hdr;
	struct am_request *request;
	bool sends;

	xk_lock(&as->lock);
	request = am_find_request(as, h->sequence);
	if (request != NULL) {
		request->unanswered = false;
		as->unanswered--;
	}
	sends = as->waiting > 0;
	xk_unlock(&as->lock);
	if (request == NULL) {
		xk_drop(s->protocol, m, AM_STALE);
		return;
	}
	if (h->kind == AM_REPLY) {
		am_run(s->protocol, lls, m, h, NULL);
	} else {
		xk_count(s->protocol, AM_ACKS);
		xk_msg_free(m);
	}
	if (!sends)
		return;
	am_leave(s->protocol);
	am_send_waiting(as);
}

static void
am_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	bool to_all = m->flags & XK_MSG_TO_ALL;
	struct xk_session *s = NULL;
	struct am_header h;
	unsigned why = am_header_pop(&h, &m);

	if (why == 0 && to_all)
		why = AM_TO_ALL;
	if (why == 0 && h.kind != AM_REQUEST) {
		s = xk_map_resolve(&am_of(self)->active, am_key(h.session));
		why = s == NULL ? XK_DROP_NO_SESSION : 0;
	}
	if (why != 0)
		xk_drop(self, m, why);
	else if (s != NULL)
		xk_pop(s, lls, m, &h);
	else
		am_requested(self, lls, m, &h);
}

/* ---- asking ---- */

static int
am_register(struct am *am, const struct xk_am_registration *registration)
{
	if (registration->number >= XK_AM_HANDLERS || registration->handler.run == NULL)
		return -EINVAL;
	if (am->handlers[registration->number].run != NULL)
		return -EEXIST;
	am->handlers[registration->number] = registration->handler;
	return 0;
}

static int
am_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	if (op != XK_AM_REGISTER)
		return -ENOTSUP;
	return len < sizeof(struct xk_am_registration) ? -EMSGSIZE : am_register(am_of(self), buffer);
}

static int
am_answer_count(struct am_session *as, const unsigned *count, void *buffer, size_t len)
{
	uint32_t value;

	xk_lock(&as->lock);
	value = *count;
	xk_unlock(&as->lock);
	return xk_answer(buffer, len, &value, sizeof(value));
}

/* Of what the session below takes, the number makes place for a part of the header. */
static int
am_answer_length(struct xk_session *s, int op, void *buffer, size_t len)
{
	uint32_t below, ours = AM_HEADER_LEN - XK_AM_NUMBER_LEN;
	int got = xk_control(s->lls, op, &below, sizeof(below));

	if (got < 0)
		return got;
	below -= below < ours ? below : ours;
	return xk_answer(buffer, len, &below, sizeof(below));
}

static int
am_session_control(struct xk_session *s, int op, void *buffer, size_t len)
{
	struct am_session *as = am_session_of(s);

	switch (op) {
	case XK_AM_GET_WAITING:
		return am_answer_count(as, &as->waiting, buffer, len);
	case XK_AM_GET_UNANSWERED:
		return am_answer_count(as, &as->unanswered, buffer, len);
	case XK_GET_MAX_PACKET:
	case XK_GET_OPT_PACKET:
		return am_answer_length(s, op, buffer, len);
	default:
		return -ENOTSUP;
	}
}

/* ---- tables ---- */

static const struct xk_session_ops am_session_ops = {
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
	  "requests of a session that are unanswered, at most", 1, AM_OUTSTANDING_MAX },
	{ "queue", XK_SETTING_UINT, offsetof(struct am, queue), "16", "... and that wait until they may be sent", 0,
	  65536 },
	{ "timeout", XK_SETTING_TIME, offsetof(struct am, timeout_ns), "200ms",
	  "after this without an answer a request is lost", 1000, UINT64_C(60000000000) },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const char *const am_drops[] = {
	"bad_kind", "bad_length", "bad_handler", "to_all", "no_handler",
	"stale",    "queue_full", "bad_request", "closed", NULL,
};
static const char *const am_counters[] = { "requests", "replies", "acks", "acked", "unsent", "lost", "left", NULL };

const struct xk_protocol_type xk_type_am = {
	.name = "am",
	.help = "Active Messages: each says which handler is to run for it, and the driver runs it.",
	.ops = &am_ops,
	.size = sizeof(struct am),
	.offers = XK_ASYNC,
	.lowers = am_lowers,
	.settings = am_settings,
	.drops = am_drops,
	.counters = am_counters,
};
