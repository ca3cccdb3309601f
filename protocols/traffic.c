/*
 * traffic.c - the load of simulated networks: sends messages to many peers, and checks every message that comes.
 *
 * Every instance does both. A message says who has sent it to whom, in which stream and as which of it, its other bytes
 * follow from that, and a hash covers all: what was damaged, mixed, cut off or delivered to somebody else is seen. A
 * stream is what one boot of a host pushes on one session; its messages are numbered from 0, and only what the protocol
 * below has accepted counts. A session that the protocol below closes is opened again, with a new stream.
 *
 * Spec:         our own; a 40-byte header (below), then words in the machine's order
 * Participants: none above; below (remote: host, port; local: port, if `local` says one)
 * Promise:      what the protocols below are held to. Each kind of fault is counted always; which are violations, counted
 *               as broken and traced at level errors, the setting `promise` says:
 *               intact:  corrupt
 *               once:    and misdirected (for another host), duplicate
 *               ordered: and reordered (came after a later one of its stream), gap (some before it have not come; or a
 *               stream begins in its middle, which was meant for a boot of this host that is over), mixed (a session
 *               carries two streams)
 *               old_incarnation is none: a message of a boot that is over, up the session of its own time, after one of a
 *               later boot. After streams were forgotten (`senders`) none begins in its middle.
 * Settings:     peers, fanout, pattern, port, local, rate, count, size_min, size_max, start, stop, promise, senders
 * Sending:      one event for all. The peers' sessions are opened by a shepherd of its own, which may wait for ARP; messages
 *               go to those that are open. At rate=0 it sends until the protocol below refuses, and again after 1 ms. What
 *               is refused is not sent again. Hosts with the same settings begin at different times within 1/rate.
 * Control:      traffic.h
 * Counters:     sent, received, unsent (the protocol below would not), unopened (nobody to send to), opened, closed (by
 *               the protocol below), broken, forgotten, and the faults by name
 * Drops:        no_buffer
 * Not done:     answers
 * Graph:        traffic -> udp, traffic -> stopwait
 */
#include "protocols/traffic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xkernel/bytes.h"
#include "xkernel/chance.h"
#include "xkernel/event.h"
#include "xkernel/trace.h"

enum traffic_counter {
	TRAFFIC_SENT,
	TRAFFIC_RECEIVED,
	TRAFFIC_UNSENT,
	TRAFFIC_UNOPENED,
	TRAFFIC_OPENED,
	TRAFFIC_CLOSED,
	TRAFFIC_BROKEN,
	TRAFFIC_FORGOTTEN,
	TRAFFIC_CORRUPT, /* the faults: the least promise that each breaks is in traffic_breaks */
	TRAFFIC_MISDIRECTED,
	TRAFFIC_DUPLICATE,
	TRAFFIC_REORDERED,
	TRAFFIC_GAP,
	TRAFFIC_MIXED,
	TRAFFIC_OLD_INCARNATION,
};

static const char *const traffic_counters[] = {
	"sent",    "received",    "unsent",    "unopened",  "opened", "closed", "broken",          "forgotten",
	"corrupt", "misdirected", "duplicate", "reordered", "gap",    "mixed",  "old_incarnation", NULL,
};

enum traffic_promise { TRAFFIC_NONE, TRAFFIC_INTACT, TRAFFIC_ONCE, TRAFFIC_ORDERED, TRAFFIC_NEVER };

static const char *const traffic_promises[] = { "none", "intact", "once", "ordered", NULL };
static const char *const traffic_patterns[] = { "turn", "random", NULL };

static const enum traffic_promise traffic_breaks[] = {
	[TRAFFIC_CORRUPT] = TRAFFIC_INTACT,        [TRAFFIC_MISDIRECTED] = TRAFFIC_ONCE,
	[TRAFFIC_DUPLICATE] = TRAFFIC_ONCE,        [TRAFFIC_REORDERED] = TRAFFIC_ORDERED,
	[TRAFFIC_GAP] = TRAFFIC_ORDERED,           [TRAFFIC_MIXED] = TRAFFIC_ORDERED,
	[TRAFFIC_OLD_INCARNATION] = TRAFFIC_NEVER,
};

enum {
	TRAFFIC_BATCH = 64,        /* messages that one event sends at most */
	TRAFFIC_REFUSED_US = 1000, /* rate=0: after a refusal */
	TRAFFIC_WINDOW = 64,       /* positions below the highest that are remembered */
	TRAFFIC_CHUNK = 256,
	TRAFFIC_NOBODY = UINT16_MAX, /* the end of a bucket */
};

#define TRAFFIC_LAG_NS UINT64_C(1000000000)   /* who is later than this catches up no more */
#define TRAFFIC_REOPEN_NS UINT64_C(100000000) /* from one attempt to open sessions to the next */

/* ---- what a message looks like ---- */

enum {
	TRAFFIC_MAGIC = 0,
	TRAFFIC_LENGTH = 4,
	TRAFFIC_INCARNATION = 8,
	TRAFFIC_SOURCE = 16,
	TRAFFIC_DESTINATION = 20,
	TRAFFIC_STREAM = 24,
	TRAFFIC_POSITION = 28,
	TRAFFIC_CHECK = 32, /* the hash of the header before it and the bytes behind it */
	TRAFFIC_HEADER_LEN = 40,

	TRAFFIC_MAGIC_VALUE = 0x78747266,
};

static_assert(TRAFFIC_HEADER_LEN == (int)XK_TRAFFIC_SIZE_MIN && TRAFFIC_HEADER_LEN % 8 == 0,
	      "the header is whole words");

struct traffic_header {
	uint64_t incarnation;
	uint32_t source, destination, stream, position;
};

/* One word into a hash: whatever bit of it changes, the hash does. */
static inline uint64_t
traffic_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/* len bytes, the last word filled up with zeros. */
static inline uint64_t
traffic_hash(uint64_t hash, const uint8_t *p, size_t len)
{
	uint64_t word;

	for (; len >= sizeof(word); p += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		hash = traffic_mix(hash, word);
	}
	if (len == 0)
		return hash;
	word = 0;
	memcpy(&word, p, len);
	return traffic_mix(hash, word);
}

/* The hash of what comes before it in a message. */
static inline uint64_t
traffic_head_hash(const uint8_t *header)
{
	return traffic_hash(0, header, TRAFFIC_CHECK);
}

/* As traffic_check, of a message of several segments. */
__attribute__((noinline)) static uint64_t
traffic_check_segments(const struct xk_msg *m, uint64_t hash)
{
	size_t total = xk_msg_len(m);
	uint8_t chunk[TRAFFIC_CHUNK];

	for (size_t at = TRAFFIC_HEADER_LEN; at < total; at += sizeof(chunk)) {
		size_t len = total - at < sizeof(chunk) ? total - at : sizeof(chunk);

		xk_msg_copy_out(m, at, chunk, len);
		hash = traffic_hash(hash, chunk, len);
	}
	return hash;
}

/* The hash that belongs into a message that begins with what head is the hash of. */
static inline uint64_t
traffic_check(const struct xk_msg *m, uint64_t head)
{
	if (xk_unlikely(m->next != NULL))
		return traffic_check_segments(m, head);
	return traffic_hash(head, m->data + TRAFFIC_HEADER_LEN, m->len - TRAFFIC_HEADER_LEN);
}

/* Bytes from offset on of words that begin with seed, each the one before and a constant more. */
static void
traffic_fill(uint8_t *p, size_t len, size_t offset, uint64_t seed)
{
	const uint64_t step = UINT64_C(0xd1342543de82ef95);
	uint64_t word = seed + offset / sizeof(word) * step;
	size_t skip = offset % sizeof(word), piece = len < sizeof(word) - skip ? len : sizeof(word) - skip;

	if (skip != 0) {
		memcpy(p, (const uint8_t *)&word + skip, piece);
		p += piece;
		len -= piece;
		word += step;
	}
	for (; len >= sizeof(word); p += sizeof(word), len -= sizeof(word), word += step)
		memcpy(p, &word, sizeof(word));
	if (len != 0)
		memcpy(p, &word, len);
}

/* NULL: no buffer. */
static struct xk_msg *
traffic_message(const struct xk_protocol *self, const struct traffic_header *h, uint32_t size)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(self), size);
	size_t offset = 0;
	uint64_t head;
	uint8_t *p;

	if (m == NULL)
		return NULL;
	p = m->data;
	xk_put32(p + TRAFFIC_MAGIC, TRAFFIC_MAGIC_VALUE);
	xk_put32(p + TRAFFIC_LENGTH, size);
	xk_put64(p + TRAFFIC_INCARNATION, h->incarnation);
	xk_put32(p + TRAFFIC_SOURCE, h->source);
	xk_put32(p + TRAFFIC_DESTINATION, h->destination);
	xk_put32(p + TRAFFIC_STREAM, h->stream);
	xk_put32(p + TRAFFIC_POSITION, h->position);
	head = traffic_head_hash(p);
	for (struct xk_msg *part = m; part != NULL; offset += part->len, part = part->next) {
		size_t skip = part == m ? TRAFFIC_HEADER_LEN : 0;

		traffic_fill(part->data + skip, part->len - skip, offset + skip, head);
	}
	xk_put64(p + TRAFFIC_CHECK, traffic_check(m, head));
	return m;
}

/* p: the message's header in one piece. False: this is not what was sent. */
static bool
traffic_parse(struct traffic_header *h, const struct xk_msg *m, const uint8_t *p)
{
	if (xk_get32(p + TRAFFIC_MAGIC) != TRAFFIC_MAGIC_VALUE || xk_get32(p + TRAFFIC_LENGTH) != xk_msg_len(m) ||
	    xk_get64(p + TRAFFIC_CHECK) != traffic_check(m, traffic_head_hash(p)))
		return false;
	h->incarnation = xk_get64(p + TRAFFIC_INCARNATION);
	h->source = xk_get32(p + TRAFFIC_SOURCE);
	h->destination = xk_get32(p + TRAFFIC_DESTINATION);
	h->stream = xk_get32(p + TRAFFIC_STREAM);
	h->position = xk_get32(p + TRAFFIC_POSITION);
	return true;
}

/* ---- state ---- */

/* Sessions are opened by the opener alone, and closed by the event alone; in between they are the event's. */
struct traffic_peer {
	_Atomic(struct xk_session *) session; /* NULL: none */
	_Atomic bool closed;                  /* by the protocol below */
	uint32_t host;
	uint32_t stream, position;
	uint32_t max_packet;
	uint64_t accepted, unsent;
};

/* What has come of a stream. */
struct traffic_stream {
	uint64_t incarnation;
	uint64_t window; /* bit i: the position i below the highest has come */
	uint64_t received, duplicates;
	const struct xk_session *lls; /* that it came up last, to compare; NULL: that one is over */
	uint32_t source, stream;
	uint32_t first, highest;
	uint16_t next; /* in its bucket */
	bool taken, used, old;
};

struct traffic {
	struct xk_protocol protocol;
	/* settings */
	const char *peers_text, *promise_text, *pattern_text;
	uint64_t fanout, port, local, rate, count, size_min, size_max, start_ns, stop_ns, stream_max;

	enum traffic_promise promise;
	bool random; /* pattern */
	uint32_t host;
	uint64_t incarnation;
	/* sending */
	struct xk_event event;
	struct xk_chance chance;
	struct traffic_peer *peers;
	unsigned peer_count, turn;
	uint64_t accepted, interval_ns, next_ns, end_ns;
	_Atomic uint64_t open_ns; /* when sessions that are missing may be opened */
	_Atomic bool opening, missing;
	/* receiving */
	struct xk_lock lock; /* over what follows */
	struct traffic_stream *streams;
	uint16_t *buckets;
	uint32_t bucket_mask;
	unsigned hand; /* which stream is looked at next to make room */
	bool has_forgotten;
	char first[XK_TRAFFIC_TEXT];
};

static struct traffic *
traffic_of(const struct xk_protocol *self)
{
	return (struct traffic *)self;
}

/* ---- receiving: streams; the lock is held ---- */

static void
traffic_fault(struct traffic *t, enum traffic_counter fault, const struct traffic_header *h)
{
	char host[16], text[XK_TRAFFIC_TEXT];

	xk_count(&t->protocol, fault);
	if (t->promise < traffic_breaks[fault])
		return;
	xk_count(&t->protocol, TRAFFIC_BROKEN);
	if (h != NULL)
		snprintf(text, sizeof(text), "%s: from %s, boot %llx, message %u of stream %u", traffic_counters[fault],
			 xk_host_print(h->source, host), (unsigned long long)h->incarnation, h->position, h->stream);
	else
		snprintf(text, sizeof(text), "%s", traffic_counters[fault]);
	if (t->first[0] == '\0')
		memcpy(t->first, text, sizeof(text));
	xk_trace(&t->protocol, XK_TRACE_ERRORS, "broken: %s", text);
}

static uint16_t *
traffic_bucket(struct traffic *t, uint64_t incarnation, uint32_t source, uint32_t stream)
{
	uint64_t hash = traffic_mix(traffic_mix(incarnation, source), stream);

	return &t->buckets[(hash >> 32) & t->bucket_mask];
}

static struct traffic_stream *
traffic_find(struct traffic *t, const struct traffic_header *h)
{
	uint16_t i = *traffic_bucket(t, h->incarnation, h->source, h->stream);

	while (i != TRAFFIC_NOBODY) {
		struct traffic_stream *s = &t->streams[i];

		if (s->incarnation == h->incarnation && s->source == h->source && s->stream == h->stream)
			return s;
		i = s->next;
	}
	return NULL;
}

static void
traffic_forget(struct traffic *t, struct traffic_stream *s)
{
	uint16_t *at = traffic_bucket(t, s->incarnation, s->source, s->stream), i = (uint16_t)(s - t->streams);

	while (*at != i)
		at = &t->streams[*at].next;
	*at = s->next;
	t->has_forgotten = true;
	xk_count(&t->protocol, TRAFFIC_FORGOTTEN);
}

/* A place for a stream: a free one, or that of one which was not used since it was last looked at. */
static struct traffic_stream *
traffic_make_room(struct traffic *t)
{
	for (;;) {
		struct traffic_stream *s = &t->streams[t->hand];

		t->hand = (t->hand + 1) % (unsigned)t->stream_max;
		if (!s->taken)
			return s;
		if (!s->used) {
			traffic_forget(t, s);
			return s;
		}
		s->used = false;
	}
}

/* Whether boot a of a host was before boot b, as far as one can tell; the later one is seen after it, at least. */
static bool
traffic_is_older(uint64_t a, uint64_t b)
{
	return a >> 48 != 0 && b >> 48 != 0 && a >> 48 < b >> 48;
}

/* Which boot of its source s belongs to, compared with what is known. */
static void
traffic_date(struct traffic *t, struct traffic_stream *s)
{
	for (unsigned i = 0; i < t->stream_max; i++) {
		struct traffic_stream *other = &t->streams[i];

		if (!other->taken || other->source != s->source || other->incarnation == s->incarnation)
			continue;
		if (traffic_is_older(s->incarnation, other->incarnation))
			s->old = true;
		else
			other->old = true;
	}
}

static struct traffic_stream *
traffic_begin_stream(struct traffic *t, const struct traffic_header *h)
{
	struct traffic_stream *s = traffic_make_room(t);
	uint16_t *bucket = traffic_bucket(t, h->incarnation, h->source, h->stream);

	*s = (struct traffic_stream){
		.incarnation = h->incarnation,
		.source = h->source,
		.stream = h->stream,
		.first = h->position,
		.highest = h->position,
		.next = *bucket,
		.taken = true,
	};
	*bucket = (uint16_t)(s - t->streams);
	traffic_date(t, s);
	if (h->position != 0 && !t->has_forgotten)
		traffic_fault(t, TRAFFIC_GAP, h);
	return s;
}

/* lls carries s from now on. What is over has left it (traffic_open_done). */
static void
traffic_take_session(struct traffic *t, struct traffic_stream *s, const struct xk_session *lls,
		     const struct traffic_header *h)
{
	for (unsigned i = 0; i < t->stream_max; i++) {
		struct traffic_stream *other = &t->streams[i];

		if (other == s || !other->taken || other->lls != lls)
			continue;
		traffic_fault(t, TRAFFIC_MIXED, h);
		other->lls = NULL;
	}
	s->lls = lls;
}

/* A message that came after a later one, or twice. */
static void
traffic_look_back(struct traffic *t, struct traffic_stream *s, const struct traffic_header *h)
{
	uint32_t back = s->highest - h->position;

	if (back < TRAFFIC_WINDOW && (s->window >> back & 1) != 0) {
		s->duplicates++;
		traffic_fault(t, TRAFFIC_DUPLICATE, h);
		return;
	}
	if (back < TRAFFIC_WINDOW)
		s->window |= UINT64_C(1) << back;
	traffic_fault(t, TRAFFIC_REORDERED, h);
}

static void
traffic_place(struct traffic *t, struct traffic_stream *s, const struct traffic_header *h)
{
	uint32_t ahead = h->position - s->highest;

	if (h->position <= s->highest && s->received > 1) {
		traffic_look_back(t, s, h);
		return;
	}
	if (ahead > 1)
		traffic_fault(t, TRAFFIC_GAP, h);
	s->window = (ahead < TRAFFIC_WINDOW ? s->window << ahead : 0) | 1;
	s->highest = h->position;
}

static void
traffic_receive(struct traffic *t, const struct xk_session *lls, const struct traffic_header *h)
{
	struct traffic_stream *s;

	if (t->host != 0 && h->destination != t->host) {
		traffic_fault(t, TRAFFIC_MISDIRECTED, h);
		return;
	}
	s = traffic_find(t, h);
	if (s == NULL)
		s = traffic_begin_stream(t, h);
	xk_count(&t->protocol, TRAFFIC_RECEIVED);
	s->received++;
	s->used = true;
	if (s->old)
		traffic_fault(t, TRAFFIC_OLD_INCARNATION, h);
	if (s->lls != lls)
		traffic_take_session(t, s, lls, h);
	traffic_place(t, s, h);
}

/* ---- receiving; the lock is not held ---- */

static void
traffic_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct traffic *t = traffic_of(self);
	const uint8_t *p = xk_msg_peek(&m, TRAFFIC_HEADER_LEN);
	struct traffic_header h;
	bool good;

	if (p == NULL && xk_msg_len(m) >= TRAFFIC_HEADER_LEN) {
		xk_drop(self, m, XK_DROP_NO_BUFFER);
		return;
	}
	good = p != NULL && traffic_parse(&h, m, p);
	xk_msg_free(m);
	xk_lock(&t->lock);
	if (good)
		traffic_receive(t, lls, &h);
	else
		traffic_fault(t, TRAFFIC_CORRUPT, NULL);
	xk_unlock(&t->lock);
}

/* A new session may lie where one that is over has lain. */
static int
traffic_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
		  struct xk_protocol *hlp_type)
{
	struct traffic *t = traffic_of(self);

	(void)llp;
	(void)hlp_type;
	xk_lock(&t->lock);
	for (unsigned i = 0; i < t->stream_max; i++)
		if (t->streams[i].lls == session)
			t->streams[i].lls = NULL;
	xk_unlock(&t->lock);
	return 0;
}

static void
traffic_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct traffic *t = traffic_of(self);

	for (unsigned i = 0; i < t->peer_count; i++)
		if (atomic_load_explicit(&t->peers[i].session, memory_order_acquire) == session)
			atomic_store_explicit(&t->peers[i].closed, true, memory_order_release);
}

/* ---- opening: a shepherd that may wait ---- */

/* 0 or -errno. */
static int
traffic_open(struct traffic *t, struct traffic_peer *peer)
{
	struct xk_protocol *self = &t->protocol;
	struct xk_participants participants = { .remote.depth = 0 };
	struct xk_session *s;
	int err;

	xk_participant_push(&participants.remote, peer->host);
	xk_participant_push(&participants.remote, t->port);
	if (t->local != 0)
		xk_participant_push(&participants.local, t->local);
	err = xk_open(self, self, xk_lower(self, 0), &participants, &s);
	if (err != 0)
		return err;
	if (xk_control(s, XK_GET_MAX_PACKET, &peer->max_packet, sizeof(peer->max_packet)) < 0)
		peer->max_packet = XK_TRAFFIC_SIZE_MAX;
	xk_count(self, TRAFFIC_OPENED);
	atomic_store_explicit(&peer->closed, false, memory_order_relaxed);
	atomic_store_explicit(&peer->session, s, memory_order_release);
	return 0;
}

static void
traffic_open_all(void *argument)
{
	struct traffic *t = argument;
	bool missing = false;
	int err = 0;

	for (unsigned i = 0; i < t->peer_count && err != -ECANCELED; i++) {
		if (atomic_load_explicit(&t->peers[i].session, memory_order_acquire) != NULL)
			continue;
		err = traffic_open(t, &t->peers[i]);
		missing |= err != 0;
	}
	if (missing)
		atomic_store_explicit(&t->missing, true, memory_order_relaxed);
	atomic_store_explicit(&t->open_ns, xk_now_ns(&t->protocol) + TRAFFIC_REOPEN_NS, memory_order_relaxed);
	atomic_store_explicit(&t->opening, false, memory_order_release);
}

/* Sees to it that sessions that are missing are opened. */
static void
traffic_see_to_sessions(struct traffic *t, uint64_t now_ns)
{
	if (!atomic_load_explicit(&t->missing, memory_order_relaxed) ||
	    now_ns < atomic_load_explicit(&t->open_ns, memory_order_relaxed) ||
	    atomic_exchange_explicit(&t->opening, true, memory_order_acquire))
		return;
	atomic_store_explicit(&t->missing, false, memory_order_relaxed);
	if (xk_thread_start(t->protocol.kernel, t->protocol.name, traffic_open_all, t) == 0)
		return;
	atomic_store_explicit(&t->missing, true, memory_order_relaxed);
	atomic_store_explicit(&t->opening, false, memory_order_release);
}

/* ---- sending: the event ---- */

/* The peer's session. NULL: it has none, or none any more. */
static struct xk_session *
traffic_session(struct traffic *t, struct traffic_peer *peer)
{
	struct xk_session *s = atomic_load_explicit(&peer->session, memory_order_acquire);

	if (s == NULL || !atomic_load_explicit(&peer->closed, memory_order_acquire))
		return s;
	xk_count(&t->protocol, TRAFFIC_CLOSED);
	peer->stream++;
	peer->position = 0;
	atomic_store_explicit(&peer->session, NULL, memory_order_release);
	atomic_store_explicit(&t->missing, true, memory_order_relaxed);
	xk_close(s);
	return NULL;
}

/* Whose turn it is, of those that have a session. NULL: nobody's. */
static struct traffic_peer *
traffic_choose(struct traffic *t)
{
	unsigned begin = t->random ? (unsigned)xk_chance_below(&t->chance, t->peer_count) : t->turn;

	for (unsigned i = 0; i < t->peer_count; i++) {
		unsigned at = (begin + i) % t->peer_count;

		if (traffic_session(t, &t->peers[at]) == NULL)
			continue;
		t->turn = (at + 1) % t->peer_count;
		return &t->peers[at];
	}
	xk_count(&t->protocol, TRAFFIC_UNOPENED);
	return NULL;
}

static uint32_t
traffic_draw_size(struct traffic *t, const struct traffic_peer *peer)
{
	uint64_t size = t->size_min;

	if (t->size_max > t->size_min)
		size += xk_chance_below(&t->chance, t->size_max - t->size_min + 1);
	if (size > peer->max_packet)
		size = peer->max_packet;
	return size < TRAFFIC_HEADER_LEN ? TRAFFIC_HEADER_LEN : (uint32_t)size;
}

/* False: nobody has accepted a message. */
static bool
traffic_send(struct traffic *t)
{
	struct traffic_peer *peer = traffic_choose(t);
	struct traffic_header h = { .incarnation = t->incarnation, .source = t->host };
	struct xk_msg *m;

	if (peer == NULL)
		return false;
	h.destination = peer->host;
	h.stream = peer->stream;
	h.position = peer->position;
	m = traffic_message(&t->protocol, &h, traffic_draw_size(t, peer));
	if (m == NULL || xk_push(atomic_load_explicit(&peer->session, memory_order_relaxed), m) != 0) {
		peer->unsent++;
		xk_count(&t->protocol, TRAFFIC_UNSENT);
		return false;
	}
	peer->position++;
	peer->accepted++;
	t->accepted++;
	xk_count(&t->protocol, TRAFFIC_SENT);
	return true;
}

static bool
traffic_is_finished(const struct traffic *t, uint64_t now_ns)
{
	return t->peer_count == 0 || (t->count != 0 && t->accepted >= t->count) || now_ns >= t->end_ns;
}

/* What is due now, and when to look again: in nanoseconds from now. */
static uint64_t
traffic_send_due(struct traffic *t, uint64_t now_ns)
{
	for (unsigned i = 0; i < TRAFFIC_BATCH && t->next_ns <= now_ns && !traffic_is_finished(t, now_ns); i++) {
		if (!traffic_send(t) && t->interval_ns == 0)
			return TRAFFIC_REFUSED_US * 1000;
		t->next_ns += t->interval_ns;
	}
	if (t->next_ns + TRAFFIC_LAG_NS < now_ns)
		t->next_ns = now_ns;
	return t->next_ns > now_ns ? t->next_ns - now_ns : 0;
}

static void
traffic_tick(struct xk_event *event, void *argument)
{
	struct traffic *t = argument;
	uint64_t now_ns = xk_now_ns(&t->protocol), later_ns;

	if (traffic_is_finished(t, now_ns)) {
		xk_trace(&t->protocol, XK_TRACE_EVENTS, "finished: %llu messages sent",
			 (unsigned long long)t->accepted);
		return;
	}
	traffic_see_to_sessions(t, now_ns);
	later_ns = traffic_send_due(t, now_ns);
	xk_event_schedule(event, (later_ns + 999) / 1000);
}

/* ---- whom to send to ---- */

/* Hosts first to last. */
struct traffic_range {
	uint32_t first, last;
};

/* Parses "HOST" or "HOST-HOST"; text is cut up. False: it is neither. */
static bool
traffic_range_parse(char *text, struct traffic_range *range)
{
	char *dash = strchr(text, '-');

	if (dash != NULL)
		*dash = '\0';
	if (!xk_host_parse(text, &range->first))
		return false;
	range->last = range->first;
	return dash == NULL || (xk_host_parse(dash + 1, &range->last) && range->last >= range->first);
}

/* Calls add(t, host) for every host of the setting `peers` but this one. 0, -EINVAL, -ENOMEM. */
static int
traffic_for_each_peer(struct traffic *t, void (*add)(struct traffic *t, uint32_t host))
{
	char *copy = strdup(t->peers_text == NULL ? "" : t->peers_text), *rest = NULL, *word;
	struct traffic_range range;
	unsigned hosts = 0;
	int err = copy == NULL ? -ENOMEM : 0;

	for (word = err != 0 ? NULL : strtok_r(copy, " ,", &rest); word != NULL && err == 0;
	     word = strtok_r(NULL, " ,", &rest)) {
		if (!traffic_range_parse(word, &range) || range.last - range.first >= XK_TRAFFIC_PEERS_MAX - hosts) {
			err = -EINVAL;
			break;
		}
		hosts += range.last - range.first + 1;
		for (uint64_t host = range.first; host <= range.last; host++)
			if (host != t->host)
				add(t, (uint32_t)host);
	}
	free(copy);
	return err;
}

static void
traffic_count_peer(struct traffic *t, uint32_t host)
{
	(void)host;
	t->peer_count++;
}

/*
 * Each of n hosts is among the k that are wanted with the same probability, and all that is kept is those k (Vitter's
 * reservoir, 1985): the turn counts the hosts that were seen.
 */
static void
traffic_consider_peer(struct traffic *t, uint32_t host)
{
	uint64_t at = t->turn < t->peer_count ? t->turn : xk_chance_below(&t->chance, t->turn + 1);

	t->turn++;
	if (at < t->peer_count)
		t->peers[at].host = host;
}

static int
traffic_make_peers(struct traffic *t)
{
	int err = traffic_for_each_peer(t, traffic_count_peer);

	if (err != 0) {
		xk_trace(&t->protocol, XK_TRACE_NONE, "peers=\"%s\": hosts and ranges of hosts, %u at most",
			 t->peers_text, XK_TRAFFIC_PEERS_MAX);
		return err;
	}
	if (t->fanout != 0 && t->fanout < t->peer_count)
		t->peer_count = (unsigned)t->fanout;
	if (t->peer_count == 0)
		return 0;
	t->peers = calloc(t->peer_count, sizeof(*t->peers));
	if (t->peers == NULL)
		return -ENOMEM;
	err = traffic_for_each_peer(t, traffic_consider_peer);
	t->turn = 0;
	return err;
}

/* ---- life ---- */

static int
traffic_make_streams(struct traffic *t)
{
	uint32_t buckets = 1;

	while (buckets < t->stream_max)
		buckets *= 2;
	t->bucket_mask = buckets - 1;
	t->streams = calloc(t->stream_max, sizeof(*t->streams));
	t->buckets = calloc(buckets, sizeof(*t->buckets));
	if (t->streams == NULL || t->buckets == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < buckets; i++)
		t->buckets[i] = TRAFFIC_NOBODY;
	return 0;
}

/* The index of word among words; -1: it is none of them, and the trace says so. */
static int
traffic_choice(const struct traffic *t, const char *setting, const char *const *words, const char *word)
{
	for (int i = 0; words[i] != NULL; i++)
		if (strcmp(words[i], word) == 0)
			return i;
	xk_trace((struct xk_protocol *)&t->protocol, XK_TRACE_NONE, "%s=\"%s\": there is no such one", setting, word);
	return -1;
}

static int
traffic_read_settings(struct traffic *t)
{
	int promise = traffic_choice(t, "promise", traffic_promises, t->promise_text);
	int pattern = traffic_choice(t, "pattern", traffic_patterns, t->pattern_text);

	if (promise < 0 || pattern < 0)
		return -EINVAL;
	if (t->size_max < t->size_min) {
		xk_trace(&t->protocol, XK_TRACE_NONE, "size_max is less than size_min");
		return -EINVAL;
	}
	t->promise = (enum traffic_promise)promise;
	t->random = pattern == 1;
	t->interval_ns = t->rate == 0 ? 0 : UINT64_C(1000000000) / t->rate;
	return 0;
}

static void
traffic_be_somebody(struct traffic *t)
{
	struct xk_protocol *self = &t->protocol;
	uint64_t host = 0, boots = xk_boots(self);

	if (xk_control_protocol(xk_lower(self, 0), XK_GET_MY_HOST, &host, sizeof(host)) == sizeof(host))
		t->host = (uint32_t)host;
	t->incarnation = xk_random(self) >> 16 | boots << 48;
	xk_chance_init(&t->chance, xk_random(self), 0);
}

static void
traffic_fini(struct xk_protocol *self)
{
	struct traffic *t = traffic_of(self);

	xk_event_cancel(&t->event);
	for (unsigned i = 0; t->peers != NULL && i < t->peer_count; i++)
		xk_close(atomic_load_explicit(&t->peers[i].session, memory_order_relaxed));
	free(t->peers);
	free(t->streams);
	free(t->buckets);
}

static void
traffic_schedule(struct traffic *t)
{
	uint64_t delay_ns = t->start_ns + xk_chance_below(&t->chance, t->interval_ns);
	uint64_t now_ns = xk_now_ns(&t->protocol);

	t->next_ns = now_ns + delay_ns;
	t->end_ns = t->stop_ns == 0 ? UINT64_MAX : now_ns + t->stop_ns;
	atomic_store_explicit(&t->missing, true, memory_order_relaxed);
	if (t->peer_count != 0)
		xk_event_schedule(&t->event, (delay_ns + 999) / 1000);
}

static int
traffic_init(struct xk_protocol *self)
{
	struct traffic *t = traffic_of(self);
	struct xk_participants participants = { .remote.depth = 0 };
	int err = traffic_read_settings(t);

	if (err != 0)
		return err;
	xk_lock_init(&t->lock, self);
	xk_event_init(&t->event, self->kernel, traffic_tick, t);
	traffic_be_somebody(t);
	xk_participant_push(&participants.local, t->port);
	if ((err = traffic_make_peers(t)) != 0 || (err = traffic_make_streams(t)) != 0 ||
	    (err = xk_open_enable(self, self, xk_lower(self, 0), &participants)) != 0)
		traffic_fini(self);
	else
		traffic_schedule(t);
	return err;
}

/* ---- for programs ---- */

static uint64_t
traffic_counter(const struct traffic *t, enum traffic_counter counter)
{
	return atomic_load_explicit(&t->protocol.counters[counter], memory_order_relaxed);
}

void
xk_traffic_report(const struct xk_protocol *traffic, struct xk_traffic_report *report)
{
	const struct traffic *t = traffic_of(traffic);

	memset(report, 0, sizeof(*report));
	report->incarnation = t->incarnation;
	report->host = t->host;
	report->finished = traffic_is_finished(t, xk_now_ns(traffic));
	report->peers = t->peer_count;
	for (unsigned i = 0; i < t->stream_max; i++)
		report->senders += t->streams[i].taken;
	report->sent = traffic_counter(t, TRAFFIC_SENT);
	report->received = traffic_counter(t, TRAFFIC_RECEIVED);
	report->broken = traffic_counter(t, TRAFFIC_BROKEN);
	memcpy(report->first, t->first, sizeof(report->first));
}

unsigned
xk_traffic_peers(const struct xk_protocol *traffic, struct xk_traffic_peer *peers, unsigned max)
{
	const struct traffic *t = traffic_of(traffic);
	unsigned count = t->peer_count < max ? t->peer_count : max;

	for (unsigned i = 0; i < count; i++) {
		struct traffic_peer *peer = &t->peers[i];

		peers[i] = (struct xk_traffic_peer){
			.host = peer->host,
			.stream = peer->stream,
			.position = peer->position,
			.open = atomic_load_explicit(&peer->session, memory_order_relaxed) != NULL,
			.accepted = peer->accepted,
			.unsent = peer->unsent,
		};
	}
	return count;
}

unsigned
xk_traffic_senders(const struct xk_protocol *traffic, struct xk_traffic_sender *senders, unsigned max)
{
	const struct traffic *t = traffic_of(traffic);
	unsigned count = 0;

	for (unsigned i = 0; i < t->stream_max && count < max; i++) {
		const struct traffic_stream *s = &t->streams[i];

		if (!s->taken)
			continue;
		senders[count++] = (struct xk_traffic_sender){
			.host = s->source,
			.stream = s->stream,
			.incarnation = s->incarnation,
			.first = s->first,
			.highest = s->highest,
			.received = s->received,
			.duplicates = s->duplicates,
		};
	}
	return count;
}

/* ---- tables ---- */

static const struct xk_role traffic_lowers[] = {
	{ .name = "transport", .needs = XK_ASYNC, .help = "carries the messages: udp, stopwait" },
	{ .name = NULL },
};

static const struct xk_setting traffic_settings[] = {
	{ "peers", XK_SETTING_STRING, offsetof(struct traffic, peers_text), NULL,
	  "whom to send to: \"10.77.0.2 10.77.0.5-10.77.0.9\"; this host itself is left out", 0, 0 },
	{ "fanout", XK_SETTING_UINT, offsetof(struct traffic, fanout), "0", "so many of them, at random; 0: all", 0,
	  XK_TRAFFIC_PEERS_MAX },
	{ "pattern", XK_SETTING_STRING, offsetof(struct traffic, pattern_text), "turn",
	  "who is sent to next: turn, random", 0, 0 },
	{ "port", XK_SETTING_UINT, offsetof(struct traffic, port), "2002", "the port, here and at the peers", 1,
	  65535 },
	{ "local", XK_SETTING_UINT, offsetof(struct traffic, local), "0",
	  "the port that is sent from; 0: the protocol below chooses", 0, 65535 },
	{ "rate", XK_SETTING_UINT, offsetof(struct traffic, rate), "10",
	  "messages per second, to all together; 0: as many as are accepted", 0, 10000000 },
	{ "count", XK_SETTING_UINT, offsetof(struct traffic, count), "0",
	  "messages that are accepted before it ends; 0: for ever", 0, 0 },
	{ "size_min", XK_SETTING_UINT, offsetof(struct traffic, size_min), "64", "bytes of a message, at least",
	  XK_TRAFFIC_SIZE_MIN, XK_TRAFFIC_SIZE_MAX },
	{ "size_max", XK_SETTING_UINT, offsetof(struct traffic, size_max), "64",
	  "... and at most; what the protocol below can carry bounds it, too", XK_TRAFFIC_SIZE_MIN,
	  XK_TRAFFIC_SIZE_MAX },
	{ "start", XK_SETTING_TIME, offsetof(struct traffic, start_ns), "0s", "from the boot to the first message", 0,
	  UINT64_C(86400000000000) },
	{ "stop", XK_SETTING_TIME, offsetof(struct traffic, stop_ns), "0s", "from the boot to the last; 0: never", 0,
	  UINT64_C(86400000000000) },
	{ "promise", XK_SETTING_STRING, offsetof(struct traffic, promise_text), "intact",
	  "what the protocols below are held to: none, intact, once, ordered", 0, 0 },
	{ "senders", XK_SETTING_UINT, offsetof(struct traffic, stream_max), "64",
	  "streams that come in and are remembered", 1, 65535 },
	{ .name = NULL },
};

static const struct xk_protocol_ops traffic_ops = {
	.init = traffic_init,
	.fini = traffic_fini,
	.open_done = traffic_open_done,
	.close_done = traffic_close_done,
	.demux = traffic_demux,
};

const struct xk_protocol_type xk_type_traffic = {
	.name = "traffic",
	.help = "Sends messages to many peers, and checks every message that comes.",
	.ops = &traffic_ops,
	.size = sizeof(struct traffic),
	.lowers = traffic_lowers,
	.settings = traffic_settings,
	.counters = traffic_counters,
};
