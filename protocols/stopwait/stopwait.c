/*
 * stopwait.c - a reliable message channel between ports, the simplest that keeps its promise: one message at a time, sent
 * again until it is acknowledged. Here is what two ends say to each other; how they come to be is in stopwait_session.c.
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
 * Exchange:     CALL    from=a, to=0      "I am a": whoever has enabled the port makes an end of its own, b
 *               WELCOME from=b, to=a      "I am b, and have heard a"
 *               DATA    from=a, to=b      a message; the first one shows that a is there, and has heard b
 *               ACK     from=b, to=a      the message with this sequence number has been delivered
 *               GONE    from=b, to=a      in answer to DATA: there is no b (any more)
 * Why it holds: An end listens to what names it, and only from the one peer that it has taken: the caller from the
 *               WELCOME that names it, the one called from the CALL that made it. The peer has learned the identifier
 *               from the end itself, so DATA for b was sent after b was made, by an end that had heard b. An old CALL
 *               that comes late makes an end that welcomes a dead one, whom nobody answers for: its user never hears of
 *               it. Between two ends sequence numbers do the rest: the next message is delivered, older ones are
 *               acknowledged again. A message is acknowledged when the user's demux has returned, not before, so that
 *               the next one, carried by another shepherd, cannot overtake it.
 * Sessions:     the first message that is pushed calls the peer; open_done comes with the first that arrives. A session
 *               that is closed lives on until what was pushed is acknowledged or given up. Participants: stopwait_session.c
 * Failure:      What is not answered is sent again after `timeout`, then after twice that and so on up to `timeout_max`;
 *               after `retries` of them the session is dead: all that waits is dropped (gave_up), the hlp is told by
 *               close_done, pushes fail with -ETIMEDOUT. GONE has the same effect at once (peer_gone, -ECONNRESET).
 * Control:      XK_GET_MAX_PACKET, XK_GET_OPT_PACKET; the session below answers the others
 * Settings:     queue, timeout, timeout_max, retries; sessions bounds what strangers can make
 * Drops:        bad_length, bad_checksum, bad_kind (or identifiers that the kind cannot have); no_session; stale (from an
 *               end that is not the peer, or to one that is dead); duplicate; bad_sequence (not the next, or still being
 *               delivered); too_many (ends that strangers have made); of what is pushed too_big, queue_full, gave_up,
 *               peer_gone, closed
 * Counters:     called (ends that strangers have made), accepted (of these, announced), retransmitted, gone (answers)
 * Not done:     more than one message under way, measuring the round trip, telling the peer of a close
 * Graph:        stopwait -> ip [number=253], or anything else that carries messages to hosts
 */
#include <errno.h>

#include "protocols/stopwait/stopwait_private.h"
#include "xkernel/bytes.h"
#include "xkernel/trace.h"

/* ---- the header ---- */

enum {
	STOPWAIT_PORTS = 0, /* source, destination */
	STOPWAIT_LENGTH = 4,
	STOPWAIT_CHECKSUM = 6,
	STOPWAIT_KIND = 8,
	STOPWAIT_SEQUENCE = 10,
	STOPWAIT_FROM = 14,
	STOPWAIT_TO = 22,
};

static_assert(STOPWAIT_TO + 8 == STOPWAIT_HEADER_LEN, "the header ends with its last field");

static const struct xk_field_value stopwait_kinds[] = {
	{ STOPWAIT_CALL, "CALL" }, { STOPWAIT_WELCOME, "WELCOME" }, { STOPWAIT_DATA, "DATA" },
	{ STOPWAIT_ACK, "ACK" },   { STOPWAIT_GONE, "GONE" },       { 0, NULL },
};

static const struct xk_field stopwait_fields[] = {
	{ .name = "source", .bits = 16, .kind = XK_NAMES_SESSION, .help = "port" },
	{ .name = "destination", .bits = 16, .kind = XK_NAMES_SESSION, .help = "port" },
	{ .name = "length", .bits = 16, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE },
	{ .name = "checksum", .bits = 16, .kind = XK_CHECKSUM, .print = XK_PRINT_HEX, .covers = XK_COVERS_MESSAGE },
	{ .name = "kind", .bits = 16, .kind = XK_VARIES, .values = stopwait_kinds },
	{ .name = "sequence", .bits = 32, .kind = XK_VARIES },
	{ .name = "from", .bits = 64, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HEX, .help = "the sender's end" },
	{ .name = "to", .bits = 64, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HEX, .help = "the receiver's end" },
	{ .name = NULL },
};

/* Takes the header off m, checks it, and cuts off what is not the message's. 0, or the reason to drop m. */
static unsigned
stopwait_header_pop(struct stopwait_header *h, struct xk_msg *m)
{
	const uint8_t *p = m->data;
	size_t length = xk_get16(p + STOPWAIT_LENGTH);

	if (length < STOPWAIT_HEADER_LEN || length > xk_msg_len(m))
		return STOPWAIT_BAD_LENGTH;
	xk_msg_truncate(m, length);
	if (!xk_sum_is_intact(xk_msg_sum(m)))
		return STOPWAIT_BAD_CHECKSUM;
	h->ports = xk_get32(p + STOPWAIT_PORTS);
	h->kind = xk_get16(p + STOPWAIT_KIND);
	h->sequence = xk_get32(p + STOPWAIT_SEQUENCE);
	h->from = xk_get64(p + STOPWAIT_FROM);
	h->to = xk_get64(p + STOPWAIT_TO);
	xk_msg_pop_in_place(m, STOPWAIT_HEADER_LEN);
	if (h->kind < STOPWAIT_CALL || h->kind > STOPWAIT_GONE)
		return STOPWAIT_BAD_KIND;
	if (h->from == 0 || (h->to == 0) != (h->kind == STOPWAIT_CALL))
		return STOPWAIT_BAD_KIND;
	return h->kind != STOPWAIT_DATA && length != STOPWAIT_HEADER_LEN ? STOPWAIT_BAD_LENGTH : 0;
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

/* The ports of an answer. */
static uint32_t
stopwait_turn_round(uint32_t ports)
{
	return ports << 16 | ports >> 16;
}

/* Sends a frame that there may have been no buffer for: whatever is lost is sent, or asked for, again. */
static void
stopwait_transmit(struct xk_session *lls, struct xk_msg *frame)
{
	if (frame != NULL)
		xk_push(lls, frame);
}

/* ---- sending; the lock is held, so what is to be sent is returned, to be sent without it ---- */

/* What the peer has to answer next: the call, or the message under way. NULL: no buffer, the timer tries again. */
static struct xk_msg *
stopwait_say(struct stopwait_session *s)
{
	struct stopwait_header h = { stopwait_turn_round(s->ports), STOPWAIT_DATA, s->sequence, s->id, s->peer };

	s->due_ns = xk_now_ns(s->session.protocol) + s->timeout_ns;
	if (s->peer == 0)
		h.kind = STOPWAIT_CALL;
	return stopwait_frame(s->session.protocol, &h, s->peer == 0 ? NULL : s->first);
}

/* As stopwait_say, for the first time. NULL also if nothing is queued. */
static struct xk_msg *
stopwait_say_first(struct stopwait_session *s)
{
	s->tries = 0;
	s->timeout_ns = stopwait_of(s)->timeout_ns;
	return s->count == 0 ? NULL : stopwait_say(s);
}

/* As stopwait_say, once more, with twice the patience. */
static struct xk_msg *
stopwait_say_again(struct stopwait_session *s)
{
	uint64_t max_ns = stopwait_of(s)->timeout_max_ns;

	s->tries++;
	s->timeout_ns = s->timeout_ns * 2 < max_ns ? s->timeout_ns * 2 : max_ns;
	xk_count(s->session.protocol, STOPWAIT_RETRANSMITTED);
	return stopwait_say(s);
}

/* The timer will look in delay_ns; sooner if that is long, since another message may be under way by then. */
static void
stopwait_schedule(struct stopwait_session *s, uint64_t delay_ns)
{
	uint64_t first_ns = stopwait_of(s)->timeout_ns;

	xk_event_schedule(&s->timer, xk_us_of_ns(delay_ns < first_ns ? delay_ns : first_ns));
}

/* Queues m, and makes sure that the timer is pending. 0; otherwise m is still the caller's. */
static int
stopwait_take(struct stopwait_session *s, struct xk_msg *m)
{
	if (xk_msg_len(m) > s->max_packet)
		return -EMSGSIZE;
	if (s->error != 0)
		return s->error;
	if (s->count > stopwait_of(s)->queue)
		return -ENOBUFS;
	if (!s->timing) {
		if (!xk_duplicate(&s->session))
			return -ECONNRESET;
		s->timing = true;
		stopwait_schedule(s, stopwait_of(s)->timeout_ns);
	}
	stopwait_enqueue(s, m);
	return 0;
}

static int
stopwait_push(struct xk_session *session, struct xk_msg *m)
{
	struct stopwait_session *s = (struct stopwait_session *)session;
	struct xk_msg *frame = NULL;
	int err;

	xk_lock(&s->lock);
	err = stopwait_take(s, m);
	if (err == 0 && s->count == 1)
		frame = stopwait_say_first(s);
	xk_unlock(&s->lock);
	if (err != 0)
		xk_drop(session->protocol, m,
			err == -EMSGSIZE  ? STOPWAIT_TOO_BIG
			: err == -ENOBUFS ? STOPWAIT_QUEUE_FULL
					  : STOPWAIT_CLOSED);
	stopwait_transmit(session->lls, frame);
	return err;
}

/* ---- a session's end, and its timer ---- */

/*
 * s is dead: all that waits is dropped for the reason why, its hlp is told, and what holds it for a stranger lets it go.
 * A shepherd that has a reference on s, or is popping through it.
 */
static void
stopwait_end(struct stopwait_session *s, unsigned why, int error)
{
	struct xk_session *session = &s->session;
	bool first, known;

	xk_lock(&s->lock);
	first = s->error == 0;
	known = s->known;
	if (first)
		s->error = error;
	stopwait_drop_all(s, why);
	xk_unlock(&s->lock);
	if (!first)
		return;
	xk_trace(session->protocol, XK_TRACE_EVENTS, "session of %s is dead: %s", xk_hlp_receive(session)->name,
		 xk_drop_name(session->protocol->type, why));
	if (known && why != XK_DROP_REFUSED)
		xk_close_done(session);
	if (s->passive && xk_duplicate(session))
		xk_close(session); /* as an hlp would: out of the cache */
}

/* Messages move no timer: it looks what is due when it fires, and rests when nothing is. */
void
stopwait_expire(struct xk_event *event, void *argument)
{
	struct stopwait_session *s = argument;
	struct xk_msg *frame = NULL;
	bool late, gives_up;
	uint64_t now_ns;

	xk_lock(&s->lock);
	now_ns = xk_now_ns(s->session.protocol);
	late = s->count > 0 && now_ns >= s->due_ns;
	gives_up = late && s->tries == stopwait_of(s)->retries;
	if (late && !gives_up)
		frame = stopwait_say_again(s);
	s->timing = s->count > 0 && !gives_up && xk_duplicate(&s->session);
	if (s->timing)
		stopwait_schedule(s, s->due_ns - now_ns);
	xk_unlock(&s->lock);
	stopwait_transmit(s->session.lls, frame);
	if (gives_up)
		stopwait_end(s, STOPWAIT_GAVE_UP, -ETIMEDOUT);
	xk_session_release(&s->session);
}

/* ---- receiving ---- */

/* Answers h, which lls has brought for the end `from`. */
static void
stopwait_answer(struct xk_protocol *self, struct xk_session *lls, const struct stopwait_header *h, uint64_t from,
		enum stopwait_kind kind)
{
	struct stopwait_header answer = { stopwait_turn_round(h->ports), kind, h->sequence, from, h->from };

	if (kind == STOPWAIT_GONE)
		xk_count(self, STOPWAIT_GONE_SENT);
	stopwait_transmit(lls, stopwait_frame(self, &answer, NULL));
}

/* Whether DATA is what comes next: it is then being delivered. The lock is held. 0, or the reason to drop it. */
static unsigned
stopwait_judge(struct stopwait_session *s, const struct stopwait_header *h)
{
	int32_t ahead = (int32_t)(h->sequence - s->expected);

	if (s->error != 0)
		return XK_DROP_NO_SESSION;
	if (h->from != s->peer)
		return STOPWAIT_STALE;
	if (ahead < 0)
		return STOPWAIT_DUPLICATE;
	if (ahead > 0 || s->delivering)
		return STOPWAIT_BAD_SEQUENCE;
	s->delivering = true;
	return 0;
}

/* The first message for a session that a stranger has made. 0, or the reason to drop it. */
static unsigned
stopwait_announce(struct stopwait_session *s)
{
	struct xk_session *session = &s->session;

	if (xk_open_done(xk_hlp_receive(session), session->protocol, session, session->hlp_type) != 0) {
		stopwait_end(s, XK_DROP_REFUSED, -ECONNREFUSED);
		return XK_DROP_REFUSED;
	}
	xk_count(session->protocol, STOPWAIT_ACCEPTED);
	return 0;
}

static void
stopwait_deliver(struct stopwait_session *s, struct xk_msg *m)
{
	xk_demux(&s->session, m);
	xk_lock(&s->lock);
	s->expected++;
	s->delivering = false;
	xk_unlock(&s->lock);
}

static void
stopwait_pop_data(struct stopwait_session *s, struct xk_session *lls, struct xk_msg *m, const struct stopwait_header *h)
{
	struct xk_protocol *self = s->session.protocol;
	bool first;
	unsigned why;

	xk_lock(&s->lock);
	why = stopwait_judge(s, h);
	first = why == 0 && !s->known;
	s->known |= first;
	xk_unlock(&s->lock);
	if (first)
		why = stopwait_announce(s);
	if (why == 0)
		stopwait_deliver(s, m);
	else
		xk_drop(self, m, why);
	if (why == 0 || why == STOPWAIT_DUPLICATE)
		stopwait_answer(self, lls, h, s->id, STOPWAIT_ACK);
	else if (why == XK_DROP_NO_SESSION || why == XK_DROP_REFUSED)
		stopwait_answer(self, lls, h, s->id, STOPWAIT_GONE);
}

/* WELCOME brings the peer, ACK ends what was under way, GONE s. The lock is held. 0, or the reason to drop it. */
static unsigned
stopwait_hear(struct stopwait_session *s, const struct stopwait_header *h)
{
	bool calling = s->peer == 0;

	if (s->error != 0 || (calling ? h->kind != STOPWAIT_WELCOME : h->from != s->peer))
		return STOPWAIT_STALE;
	if (h->kind == STOPWAIT_WELCOME && !calling)
		return STOPWAIT_DUPLICATE;
	if (h->kind == STOPWAIT_WELCOME)
		s->peer = h->from;
	if (h->kind != STOPWAIT_ACK)
		return 0;
	if (s->count == 0 || h->sequence != s->sequence)
		return (int32_t)(h->sequence - s->sequence) < 0 ? STOPWAIT_DUPLICATE : STOPWAIT_BAD_SEQUENCE;
	xk_msg_free(stopwait_dequeue(s));
	s->sequence++;
	return 0;
}

/* The next message goes down, or s ends. */
static void
stopwait_pop_answer(struct stopwait_session *s, struct xk_session *lls, struct xk_msg *m,
		    const struct stopwait_header *h)
{
	struct xk_msg *frame = NULL;
	unsigned why;

	xk_lock(&s->lock);
	why = stopwait_hear(s, h);
	if (why == 0 && h->kind != STOPWAIT_GONE)
		frame = stopwait_say_first(s);
	xk_unlock(&s->lock);
	if (why != 0) {
		xk_drop(s->session.protocol, m, why);
		return;
	}
	xk_msg_free(m);
	stopwait_transmit(lls, frame);
	if (h->kind == STOPWAIT_GONE)
		stopwait_end(s, STOPWAIT_PEER_GONE, -ECONNRESET);
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
		stopwait_answer(session->protocol, lls, h, s->id, STOPWAIT_WELCOME);
	} else {
		stopwait_pop_answer(s, lls, m, h);
	}
}

static void
stopwait_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct stopwait_header h;
	struct xk_session *s;
	unsigned why = stopwait_header_pop(&h, m);

	if (why == 0)
		why = stopwait_session_find(self, lls, &h, &s);
	if (why == 0) {
		xk_pop(s, lls, m, &h);
		return;
	}
	xk_drop(self, m, why);
	if (why == XK_DROP_NO_SESSION && h.kind == STOPWAIT_DATA)
		stopwait_answer(self, lls, &h, h.to, STOPWAIT_GONE);
}

/* ---- tables ---- */

static const struct xk_session_ops stopwait_session_ops = {
	.size = sizeof(struct stopwait_session),
	.setup = stopwait_session_setup,
	.push = stopwait_push,
	.pop = stopwait_pop,
	.close = stopwait_session_close,
	.control = stopwait_session_control,
	.get_participants = stopwait_session_get_participants,
};

static const struct xk_protocol_ops stopwait_ops = {
	.init = stopwait_session_init,
	.fini = stopwait_session_fini,
	.open = stopwait_session_open,
	.passive_key = stopwait_session_passive_key,
	.passive_key_of = stopwait_session_passive_key_of,
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

static const struct xk_number_on stopwait_numbers[] = { { "bid", 253 }, { NULL, 0 } };

const struct xk_protocol_type xk_type_stopwait = {
	.name = "stopwait",
	.help = "Reliable, ordered messages between ports, one at a time: each is sent again until it is acknowledged.",
	.ops = &stopwait_ops,
	.session_ops = &stopwait_session_ops,
	.header = STOPWAIT_HEADER_LEN,
	.fields = stopwait_fields,
	.size = sizeof(struct stopwait),
	.offers = XK_ASYNC,
	.lowers = stopwait_lowers,
	.numbers = stopwait_numbers,
	.settings = stopwait_settings,
	.drops = stopwait_drops,
	.counters = stopwait_counters,
	.session_max = 1024,
};
