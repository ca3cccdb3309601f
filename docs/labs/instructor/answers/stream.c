/*
 * stream.c - lab 5, a model answer: the sender of a reliable stream of bytes, whose receiver is any TCP.
 *
 * Spec:         docs/labs/stream.md; the header is in stream.h, which you do not change
 * Participants: the top of each stack is a port, 1 to 65535; the rest is IP's. Opening needs the remote port
 * Sessions:     one per stream, which a host can only begin. Open sends a SYN, and does not wait for the answer
 * Messages:     have no borders. Without room (STREAM_ROOM), a push waits. XK_TCP_END ends the stream: a FIN follows
 * Closing:      a close ends the stream, too, and what was pushed is still sent. The peer's FIN is notified by
 *               close_done, and so is the end of a stream that is reset or given up: pushes then return its error
 * Not done:     receiving bytes; options; probes of a closed window
 * Graph:        stream -> ip
 */
#include "stream.h"

#include <errno.h>

#include "protocols/tcp/tcp.h"
#include "xkernel/receive.h"
#include "xkernel/support/alarm.h"
#include "xkernel/support/ports.h"
#include "xkernel/support/room.h"

XK_FIELDS(stream, STREAM_HEADER);
XK_FORMAT(stream, STREAM_HEADER);

#define STREAM_DROPS(D)                                                                                                \
	D(STREAM_BAD_OFFSET, "bad_offset") /* the header is shorter than 20 bytes, or longer than the segment */       \
	D(STREAM_UNEXPECTED, "unexpected") /* a segment that a sender does not get */                                  \
	D(STREAM_CLOSED, "closed")         /* a pushed message that was not acknowledged before the end */
XK_DROPS(stream, STREAM_DROPS);

#define STREAM_COUNTERS(C)                                                                                             \
	C(STREAM_SENT_AGAIN, "retransmitted") /* segments */                                                           \
	C(STREAM_TIMEOUTS, "timeouts")
XK_COUNTERS(stream, STREAM_COUNTERS);

#define STREAM_MS(n) ((n)*UINT64_C(1000000))

/* ---- state ---- */

struct stream {
	struct xk_session session; /* first */
	struct xk_lock lock;       /* of the fields below; never held while a segment is pushed */
	struct xk_alarm alarm;     /* holds the session while it is set */

	/* Numbers of bytes, modulo 2^32: compare them with stream_before. */
	uint32_t una;  /* the oldest that is not acknowledged */
	uint32_t next; /* the next to send: una <= next <= max */
	uint32_t max;  /* behind the last that was ever sent */
	uint32_t end;  /* behind the last that was pushed: the FIN's number, once `ends` */
	bool ends;

	uint32_t peer_window; /* bytes behind una that the peer has room for */
	uint32_t window;      /* ... and the network: the congestion window */
	uint32_t threshold;   /* slow start up to here */
	unsigned duplicates;  /* ACKs in a row that acknowledge nothing new */
	bool recovers;        /* fast recovery, until everything before `recover` is acknowledged */
	uint32_t recover;
	bool resends; /* the segment at una is sent next */

	uint64_t due_ns;     /* the oldest byte in flight is late then; XK_NEVER: nothing is in flight */
	uint64_t timeout_ns; /* for bytes that are sent now */
	unsigned tries;      /* timeouts in a row */
	bool is_timed;       /* a segment is being timed: it ends at timed_end, and was sent at timed_ns */
	uint32_t timed_end;
	uint64_t timed_ns;
	uint64_t mean_ns, deviation_ns; /* of round trips; 0: none is measured */

	/* of the finished parts */
	bool is_open;      /* the peer has acknowledged the SYN */
	bool is_over;      /* nothing is sent any more */
	bool is_closed;    /* the user has closed it */
	bool has_fin;      /* the peer's has come */
	bool answers;      /* an ACK is sent next */
	bool tells;        /* the user is told next: close_done */
	bool has_room;     /* ... and of room */
	int error;         /* that ended the stream, or 0 */
	uint32_t expected; /* the peer's next number */
	uint32_t queue_begin;
	struct xk_msg *queue, **queue_end; /* pushed and not acknowledged, by link; its first byte is queue_begin */
	struct xk_room room;
};

/* Segments made with the lock held and pushed without it, linked by xk_msg.link. */
struct stream_burst {
	struct xk_msg *first, **last;
};

static bool
stream_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static uint32_t
stream_min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- segments: finished ---- */

/* Adds a segment with len bytes from `sequence` on to the burst; without a buffer, it is lost. The lock is held. */
static void
stream_add(struct stream *s, struct stream_burst *burst, uint32_t sequence, uint32_t len, uint8_t flags)
{
	struct stream_header h = { .sequence = sequence,
				   .acknowledgement = flags & STREAM_ACK ? s->expected : 0,
				   .offset = STREAM_HEADER_LEN / 4,
				   .flags = flags,
				   .window = flags & STREAM_SYN ? UINT16_MAX : 0 };
	struct xk_msg *m = xk_msg_new(xk_platform_of(s->session.protocol), len), *from = s->queue;
	uint32_t at = sequence - s->queue_begin, done = 0, some;
	uint64_t sum;
	uint8_t *p;

	for (; m != NULL && done < len; from = from->link, at = 0) {
		for (; at >= xk_msg_len(from); from = from->link)
			at -= (uint32_t)xk_msg_len(from);
		some = stream_min((uint32_t)xk_msg_len(from) - at, len - done);
		xk_msg_copy_out(from, at, m->data + done, some);
		done += some;
	}
	p = m == NULL ? NULL : xk_msg_push(&m, STREAM_HEADER_LEN);
	if (p == NULL) {
		xk_msg_free(m);
		return;
	}
	stream_store(p, &h);
	memcpy(p, s->session.sends.header, XK_OFFSET(stream, sequence)); /* both ports */
	sum = s->session.sends.push_sum + xk_sum_of16((uint16_t)xk_msg_len(m)) + xk_msg_sum(m);
	xk_checksum_store(p + XK_OFFSET(stream, checksum), xk_checksum_finish(sum));
	m->link = NULL;
	*burst->last = m;
	burst->last = &m->link;
	s->answers = false;
}

/*
 * Adds a segment with len bytes from `sequence` on to the burst, and the FIN behind them if it is their turn and the
 * user has ended the stream. Returns the number behind the segment. The lock is held.
 */
static uint32_t
stream_add_data(struct stream *s, struct stream_burst *burst, uint32_t sequence, uint32_t len)
{
	bool fin = s->ends && sequence + len == s->end;

	if (stream_before(sequence, s->max))
		xk_count(s->session.protocol, STREAM_SENT_AGAIN);
	stream_add(s, burst, sequence, len,
		   STREAM_ACK | (fin ? STREAM_FIN : 0) | (sequence + len == s->end ? STREAM_PSH : 0));
	return sequence + len + fin;
}

/* Removes acknowledged bytes from the queue: whole messages before `sequence`. The lock is held. */
static void
stream_forget(struct stream *s, uint32_t sequence)
{
	struct xk_msg *m;

	while ((m = s->queue) != NULL && !stream_before(sequence, s->queue_begin + (uint32_t)xk_msg_len(m))) {
		s->queue = m->link;
		if (s->queue == NULL)
			s->queue_end = &s->queue;
		s->queue_begin += (uint32_t)xk_msg_len(m);
		s->has_room |= xk_room_give(&s->room, xk_msg_len(m));
		xk_msg_free(m);
	}
}

/* Ends the stream: nothing is sent any more. error: why, for pushes. The lock is held. */
static void
stream_fail(struct stream *s, int error)
{
	s->tells = !s->is_over;
	s->is_over = true;
	s->error = error;
	s->due_ns = XK_NEVER;
	xk_room_wake(&s->room);
}

/* ---- time ---- */

/* Adds a round trip, and computes the timeout from it (RFC 6298, 2). The lock is held. */
static void
stream_measure(struct stream *s, uint64_t sample_ns)
{
	uint64_t error_ns = sample_ns > s->mean_ns ? sample_ns - s->mean_ns : s->mean_ns - sample_ns;

	if (s->mean_ns == 0) {
		s->mean_ns = sample_ns;
		s->deviation_ns = sample_ns / 2;
	} else {
		s->deviation_ns = (3 * s->deviation_ns + error_ns) / 4;
		s->mean_ns = (7 * s->mean_ns + sample_ns) / 8;
	}
	s->timeout_ns = s->mean_ns + 4 * s->deviation_ns;
	if (s->timeout_ns < STREAM_MS(STREAM_TIMEOUT_MIN_MS))
		s->timeout_ns = STREAM_MS(STREAM_TIMEOUT_MIN_MS);
}

/* Begins to time a segment that is sent for the first time, unless another one is being timed. The lock is held. */
static void
stream_time(struct stream *s, uint32_t end, uint64_t now_ns)
{
	if (s->is_timed)
		return;
	s->is_timed = true;
	s->timed_end = end;
	s->timed_ns = now_ns;
}

/* ---- the window ---- */

/*
 * Adds what may be sent now to the burst: a segment that is lost, then new ones, whole but for the last, and the FIN.
 * The lock is held.
 */
static void
stream_fill(struct stream *s, struct stream_burst *burst, uint64_t now_ns)
{
	uint32_t window = stream_min(s->window, s->peer_window), last = s->end + s->ends, len, end;

	if (s->resends && stream_before(s->una, s->max)) {
		stream_add_data(s, burst, s->una, stream_min(STREAM_SEGMENT, s->end - s->una));
		s->is_timed = false; /* an ACK may be for either copy (Karn's algorithm) */
	}
	s->resends = false;
	while (s->next != last) {
		len = stream_min(STREAM_SEGMENT, s->end - s->next);
		if (s->next - s->una + len > window) {
			if (s->next != s->una || window == 0)
				break;
			len = window; /* less than a segment, but nothing is in flight that could open the window */
		}
		end = stream_add_data(s, burst, s->next, len);
		if (!stream_before(s->next, s->max))
			stream_time(s, end, now_ns);
		s->next = end;
		if (stream_before(s->max, end))
			s->max = end;
	}
	if (s->due_ns == XK_NEVER && s->una != s->max)
		s->due_ns = now_ns + s->timeout_ns;
}

/* Sets the threshold to half of what is in flight, because something is lost. The lock is held. */
static void
stream_halve(struct stream *s)
{
	uint32_t half = stream_min(s->max - s->una, s->window) / 2;

	s->threshold = half > 2 * STREAM_SEGMENT ? half : 2 * STREAM_SEGMENT;
}

/* Opens the window because `bytes` are newly acknowledged, up to una. The lock is held. */
static void
stream_acked(struct stream *s, uint32_t bytes)
{
	uint32_t more = 0;

	s->duplicates = 0;
	if (s->recovers && stream_before(s->una, s->recover)) { /* a partial ACK: the next one is lost, too */
		s->window = (s->window > bytes ? s->window - bytes : 0) + STREAM_SEGMENT;
		s->resends = true;
	} else if (s->recovers) {
		s->recovers = false;
		s->window = s->threshold;
	} else if (s->window < s->threshold) {
		more = stream_min(bytes, 2 * STREAM_SEGMENT);
	} else {
		more = (uint32_t)((uint64_t)STREAM_SEGMENT * bytes / s->window);
	}
	s->window = stream_min(s->window + more, STREAM_WINDOW_MAX);
}

/* Handles an ACK that shows that a later segment has arrived than the one it asks for. The lock is held. */
static void
stream_duplicate(struct stream *s)
{
	s->duplicates++;
	if (s->recovers) {
		s->window = stream_min(s->window + STREAM_SEGMENT, STREAM_WINDOW_MAX);
	} else if (s->duplicates == STREAM_DUPLICATES && !stream_before(s->una, s->recover)) {
		stream_halve(s);
		s->window = s->threshold + STREAM_DUPLICATES * STREAM_SEGMENT;
		s->recovers = s->resends = true;
		s->recover = s->max;
	}
}

/* The oldest byte is late: begins again with it, and slowly. The lock is held. */
static void
stream_timed_out(struct stream *s, uint64_t now_ns)
{
	if (s->tries == STREAM_TRIES) {
		stream_fail(s, -ETIMEDOUT);
		return;
	}
	if (s->tries++ == 0)
		stream_halve(s);
	s->window = STREAM_SEGMENT;
	s->recovers = s->is_timed = false;
	s->duplicates = 0;
	s->recover = s->max;
	s->next = s->una;
	s->timeout_ns = 2 * s->timeout_ns < STREAM_MS(STREAM_TIMEOUT_MAX_MS) ? 2 * s->timeout_ns
									     : STREAM_MS(STREAM_TIMEOUT_MAX_MS);
	s->due_ns = now_ns + s->timeout_ns;
}

/* Handles an ACK in a segment with this many bytes of payload, which are dropped. The lock is held. */
static void
stream_judge(struct stream *s, const struct stream_header *h, uint32_t payload, uint64_t now_ns)
{
	uint32_t acked = h->acknowledgement - s->una;

	if (acked > s->max - s->una)
		return; /* old, or of what was never sent */
	if (acked > 0) {
		if (s->is_timed && !stream_before(h->acknowledgement, s->timed_end)) {
			stream_measure(s, now_ns - s->timed_ns);
			s->is_timed = false;
		}
		s->una = h->acknowledgement;
		if (stream_before(s->next, s->una))
			s->next = s->una;
		s->tries = 0;
		s->due_ns = s->una == s->max ? XK_NEVER : now_ns + s->timeout_ns;
		stream_forget(s, s->una);
		stream_acked(s, acked);
	} else if (payload == 0 && (h->flags & STREAM_FIN) == 0 && h->window == s->peer_window && s->una != s->max) {
		stream_duplicate(s);
	}
	s->peer_window = h->window;
}

/* ---- opening, pushing, closing: finished ---- */

static void stream_expire(struct xk_alarm *alarm, uint64_t now_ns);

static int
stream_setup(struct xk_session *session, const void *how)
{
	struct stream *s = (struct stream *)session;

	(void)how;
	xk_lock_init(&s->lock, session->protocol);
	xk_alarm_init(&s->alarm, session, &s->lock, stream_expire);
	xk_room_init(&s->room, session->protocol, STREAM_ROOM);
	s->queue_end = &s->queue;
	s->una = s->next = s->max = s->recover = STREAM_FIRST;
	s->end = s->queue_begin = STREAM_FIRST + 1;
	s->window = STREAM_INITIAL * STREAM_SEGMENT;
	s->threshold = STREAM_WINDOW_MAX;
	s->timeout_ns = STREAM_MS(STREAM_TIMEOUT_MS);
	s->due_ns = XK_NEVER;
	return 0;
}

/* Sends what may be sent, sets the alarm, releases the lock, and tells the user what has happened. */
static void
stream_finish(struct stream *s, uint64_t now_ns)
{
	struct stream_burst burst = { NULL, &burst.first };
	bool tells, has_room;
	struct xk_msg *m;

	if (s->is_open && !s->is_over)
		stream_fill(s, &burst, now_ns);
	if (s->answers)
		stream_add(s, &burst, s->next, 0, STREAM_ACK);
	xk_alarm_set(&s->alarm, s->due_ns);
	tells = s->tells && !s->is_closed;
	has_room = s->has_room && !s->is_closed;
	s->tells = s->has_room = false;
	xk_unlock(&s->lock);
	while ((m = burst.first) != NULL) {
		burst.first = m->link;
		xk_push(s->session.lls, m); /* one that fails is lost, as on the link */
	}
	if (has_room)
		xk_room_notify(&s->session);
	if (tells)
		xk_close_done(&s->session);
}

/* Sends the SYN, or sends it again. The lock is held. */
static void
stream_send_syn(struct stream *s, uint64_t now_ns)
{
	struct stream_burst burst = { NULL, &burst.first };

	stream_add(s, &burst, STREAM_FIRST, 0, STREAM_SYN);
	s->next = s->max = STREAM_FIRST + 1;
	s->due_ns = now_ns + (s->timeout_ns << s->tries);
	xk_alarm_set(&s->alarm, s->due_ns);
	xk_unlock(&s->lock);
	if (burst.first != NULL)
		xk_push(s->session.lls, burst.first);
}

static int
stream_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	    struct xk_participants *participants, struct xk_session **session)
{
	int err = xk_ports_open(self, hlp_receive, hlp_type, participants, session); /* may wait */

	if (err != 0)
		return err;
	xk_lock(&((struct stream *)*session)->lock);
	stream_send_syn((struct stream *)*session, xk_now_ns(self));
	return 0;
}

static int
stream_push(struct xk_session *session, struct xk_msg *m)
{
	struct stream *s = (struct stream *)session;
	size_t len = xk_msg_len(m);
	int err;

	xk_lock(&s->lock);
	err = s->ends ? -EPIPE : xk_room_take(&s->room, session, len, XK_UNTIL_SIGNALLED, &s->lock, &s->error);
	if (err != 0 || s->ends || len == 0) {
		if (err == 0)
			xk_room_give(&s->room, len);
		xk_unlock(&s->lock);
		xk_drop(session->protocol, m, STREAM_CLOSED);
		return err != 0 || len == 0 ? err : -EPIPE;
	}
	m->link = NULL;
	*s->queue_end = m;
	s->queue_end = &m->link;
	s->end += (uint32_t)len;
	stream_finish(s, xk_now_ns(session->protocol));
	return 0;
}

static int
stream_control(struct xk_session *session, int op, void *argument)
{
	struct stream *s = (struct stream *)session;

	if (op != XK_TCP_END && op != XK_TCP_GET_INFO)
		return -ENOTSUP;
	xk_lock(&s->lock);
	if (op == XK_TCP_END)
		s->ends = true;
	else
		*(struct xk_tcp_info *)argument =
			(struct xk_tcp_info){ .state = s->is_over   ? "CLOSED"
						       : s->is_open ? "ESTABLISHED"
								    : "SYN-SENT",
					      .congestion = "lab",
					      .round_trip_ns = s->mean_ns,
					      .deviation_ns = s->deviation_ns,
					      .timeout_ns = s->timeout_ns,
					      .mss = STREAM_SEGMENT,
					      .window = s->peer_window,
					      .congestion_window = s->window,
					      .threshold = s->threshold,
					      .queued = stream_before(s->una, s->end) ? s->end - s->una : 0,
					      .in_flight = s->max - s->una };
	stream_finish(s, xk_now_ns(session->protocol));
	return 0;
}

/* The user closes the stream: what was pushed is still sent, because the alarm holds the session. */
static void
stream_let_go(struct xk_session *session)
{
	struct stream *s = (struct stream *)session;

	xk_lock(&s->lock);
	s->is_closed = s->ends = true;
	stream_finish(s, xk_now_ns(session->protocol));
}

/* Runs when the last reference to the session is gone. */
static void
stream_close(struct xk_session *session)
{
	struct stream *s = (struct stream *)session;
	struct xk_msg *m;

	xk_lock(&s->lock); /* a shepherd may still be in stream_pop */
	s->is_over = true;
	while ((m = s->queue) != NULL) {
		s->queue = m->link;
		xk_drop(session->protocol, m, STREAM_CLOSED);
	}
	s->queue_end = &s->queue;
	xk_unlock(&s->lock);
}

/* ---- what comes: finished ---- */

static void
stream_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct stream *s = xk_container_of(alarm, struct stream, alarm);

	if (s->is_over || now_ns < s->due_ns) { /* it may be early */
		xk_alarm_set(alarm, s->due_ns);
		xk_unlock(&s->lock);
		return;
	}
	xk_count(s->session.protocol, STREAM_TIMEOUTS);
	if (s->is_open) {
		stream_timed_out(s, now_ns);
		stream_finish(s, now_ns);
	} else if (s->tries++ < STREAM_TRIES) {
		stream_send_syn(s, now_ns);
	} else {
		stream_fail(s, -ETIMEDOUT);
		stream_finish(s, now_ns);
	}
}

/* Handles the answer to the SYN. The lock is held. */
static void
stream_begin(struct stream *s, const struct stream_header *h)
{
	s->is_open = true;
	s->expected = h->sequence + 1;
	s->una = s->recover = STREAM_FIRST + 1;
	s->peer_window = h->window;
	s->due_ns = XK_NEVER;
	s->tries = 0;
	s->answers = true;
}

static void
stream_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct stream *s = (struct stream *)session;
	struct stream_header h = stream_load(m->data - STREAM_HEADER_LEN);
	size_t options = h.offset * 4 - (size_t)STREAM_HEADER_LEN, len = xk_msg_len(m);
	uint64_t now_ns = xk_now_ns(session->protocol);
	unsigned why = 0;

	(void)lls;
	(void)hdr;
	xk_lock(&s->lock);
	if (options > len) { /* or it is negative */
		why = STREAM_BAD_OFFSET;
	} else if (h.flags & STREAM_RST) {
		if (s->is_open ? h.sequence == s->expected : h.acknowledgement == STREAM_FIRST + 1)
			stream_fail(s, s->is_open ? -ECONNRESET : -ECONNREFUSED);
	} else if (h.flags & STREAM_SYN) {
		if (!s->is_open && (h.flags & STREAM_ACK) && h.acknowledgement == STREAM_FIRST + 1)
			stream_begin(s, &h);
		s->answers = s->is_open;
	} else if (!s->is_open || (h.flags & STREAM_ACK) == 0) {
		why = STREAM_UNEXPECTED;
	} else {
		stream_judge(s, &h, (uint32_t)(len - options), now_ns);
		if ((h.flags & STREAM_FIN) && len == options && h.sequence == s->expected && !s->has_fin) {
			s->expected++;
			s->has_fin = s->tells = true;
		}
		s->answers = len > options || (h.flags & STREAM_FIN);
	}
	if (why != 0)
		xk_drop(session->protocol, m, why);
	else
		xk_msg_free(m);
	stream_finish(s, now_ns);
}

/* ---- the protocol ---- */

static int
stream_init(struct xk_protocol *self)
{
	return xk_ports_init(self, XK_PORTS_FIRST, XK_PORTS_LAST, xk_random(self));
}

/* The host stops. */
static void
stream_stop(void *object, void *context)
{
	struct stream *s = object;

	(void)context;
	xk_alarm_cancel(&s->alarm);
	xk_lock(&s->lock);
	s->is_closed = true;
	stream_fail(s, -ECANCELED);
	xk_unlock(&s->lock);
}

static void
stream_fini(struct xk_protocol *self)
{
	xk_map_for_each(&self->table.sessions, stream_stop, NULL);
}

static void
stream_receive(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	const struct xk_format format = XK_KNOWN_FORMAT(stream, self);

	xk_receive_as(&format, self, lls, m);
}

/* Nobody can begin a stream to this host: no port is enabled. */
static int
stream_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		   struct xk_key *key)
{
	return -EOPNOTSUPP;
}

static const struct xk_session_ops stream_session_ops = {
	.size = sizeof(struct stream),
	.setup = stream_setup,
	.push = stream_push,
	.pop = stream_pop,
	.let_go = stream_let_go,
	.close = stream_close,
	.control = stream_control,
};

static const struct xk_protocol_ops stream_ops = {
	.init = stream_init,
	.fini = stream_fini,
	.open = stream_open,
	.passive_key = stream_passive_key,
	.passive_key_of = xk_ports_passive_key_of,
	.demux = stream_receive,
};

const struct xk_protocol_type xk_type_stream = {
	.name = "stream",
	.help = "Lab 5: the sender of a stream of bytes to a TCP.",
	.ops = &stream_ops,
	.session_ops = &stream_session_ops,
	.header = STREAM_HEADER_LEN,
	.fields = stream_fields,
	.size = sizeof(struct xk_protocol),
	.offers = XK_ASYNC,
	.flags = XK_BY_FIELDS,
	.lowers = XK_ROLES({ "network", XK_ASYNC, NULL, "carries datagrams to hosts: ip" }),
	.numbers = XK_NUMBERS({ "ip", XK_TCP_NUMBER }),
	.drops = stream_drops,
	.counters = stream_counters,
	.session_max = 64,
};
