/*
 * am.c - Active Messages: each message says which handler is to run for it where it arrives, and there it is run at once, by
 * the driver. The simplest use of interrupt protocol processing (Bjorkman 1994, 2.1): a demultiplexing by the message itself.
 * am_request.c has the side that requests.
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
 *               A reply more than three times as long as its request, headers included, is replaced by an ACK. Over
 *               BID, which has confirmed the requesting host, a reply may have any length.
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
 * Drops:        bad_kind, bad_length, bad_handler (no such number anywhere, or in an ACK); to_all; no_handler (nobody has
 *               registered it here); no_session (an answer to nobody's session); stale (an answer to no request that is
 *               unanswered); too_long (a reply: see Exchange); of what is pushed queue_full, bad_request (shorter than
 *               a number, or no such one), closed (the session has gone before it could be sent)
 * Counters:     requests, replies (handlers run for them), acks (got), acked (sent), unsent (answers that there was no buffer
 *               for, or that the protocol below refused), lost, left (the driver, for either reason)
 * Not done:     sending again; telling who requested that an answer was lost, or that there is no such handler
 * Graph:        am -> vnet, or anything else that carries messages to hosts: bid, blast, ip, stopwait
 */
#include <errno.h>

#include "protocols/am/am_private.h"
#include "protocols/bid/boot.h"

/* ---- the header ---- */

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

/* Takes the header off m, checks it, and cuts off what is not the message's. 0, or the reason to drop m. */
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

bool
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
	xk_map_for_each(&self->table.sessions, am_forget, NULL);
}

static int
am_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };

	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
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

/*
 * Returns the greatest length of a reply to the request m. The request only claims its source address, so that address
 * must not be sent much more than the request took. A boot that BID has confirmed may be sent anything.
 */
static size_t
am_longest_reply(const struct xk_msg *m)
{
	if (xk_msg_from_boot(m) != 0)
		return SIZE_MAX;
	return AM_REPLY_TIMES * (AM_HEADER_LEN + xk_msg_len(m)) - AM_HEADER_LEN;
}

static void
am_requested(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, const struct am_header *h)
{
	struct xk_am_reply reply = { 0, NULL };
	size_t longest = am_longest_reply(m);

	am_run(self, lls, m, h, &reply);
	if (reply.m != NULL && xk_msg_len(reply.m) > longest) {
		xk_drop(self, reply.m, AM_TOO_LONG);
		reply.m = NULL;
	}
	am_answer(self, lls, h, &reply);
}

/* A reply or an acknowledgement. */
static void
am_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct am_session *as = am_session_of(s);
	const struct am_header *h = hdr;
	bool others_wait;

	if (!am_answered(as, h->sequence, &others_wait)) {
		xk_drop(s->protocol, m, AM_STALE);
		return;
	}
	if (h->kind == AM_REPLY) {
		am_run(s->protocol, lls, m, h, NULL);
	} else {
		xk_count(s->protocol, AM_ACKS);
		xk_msg_free(m);
	}
	if (!others_wait)
		return;
	am_leave(s->protocol);
	am_send_waiting(as);
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
	  "requests of a session that are unanswered, at most", 1, AM_OUTSTANDING_MAX },
	{ "queue", XK_SETTING_UINT, offsetof(struct am, queue), "16", "... and that wait until they may be sent", 0,
	  65536 },
	{ "timeout", XK_SETTING_TIME, offsetof(struct am, timeout_ns), "200ms",
	  "after this without an answer a request is lost", 1000, UINT64_C(60000000000) },
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
	.help = "Active Messages: each says which handler is to run for it, and the driver runs it.",
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
