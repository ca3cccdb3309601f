/*
 * traffic.c - the load of simulated networks: sends messages to many peers, and checks arriving ones.
 *
 * A message names its sender, its receiver, its stream and its position there, and its other bytes follow from that:
 * damage, mixing, cuts and wrong deliveries are seen. A stream holds the messages that one boot of a host pushes on one
 * session, numbered from 0; refused ones do not count. When the protocol below closes a session, another is opened,
 * with a new stream.
 *
 * Participants: none above; below (remote: host, port; local: port, unless `local` is 0); no ports if `port` is 0
 * Hosts:        A host on several links has an address on each. Its messages carry that of their session; those that
 *               arrive must be for that of the session they come up. No host sends to itself.
 * Sending:      One event sends, to peers whose sessions are open. A shepherd opens the sessions, because that may wait
 *               for ARP. At rate=0, sends until the protocol below refuses, and again 1 ms later. Refused messages are
 *               not sent again. Hosts with the same settings begin at different times within 1/rate.
 * Faults:       All are counted; those that break `promise` are counted as broken, too. misdirected: for another host;
 *               reordered: after a later one of its stream; gap: earlier ones are missing, or a stream begins in its
 *               middle, as it does after a reboot of the receiver (not checked once streams were forgotten); mixed: one
 *               session carries two streams; old_incarnation: from an earlier boot, after messages of a later one.
 * Control:      traffic.h
 * Not done:     answers
 * Graph:        traffic -> udp, traffic -> stopwait, traffic [port=0] -> blast
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/test/traffic_private.h"
#include "xkernel/bytes.h"
#include "xkernel/support/fault.h"
#include "xkernel/trace.h"

/* The least promise that each fault breaks. */
static const enum traffic_promise traffic_breaks[] = {
	[TRAFFIC_CORRUPT] = TRAFFIC_INTACT,        [TRAFFIC_MISDIRECTED] = TRAFFIC_ONCE,
	[TRAFFIC_DUPLICATE] = TRAFFIC_ONCE,        [TRAFFIC_REORDERED] = TRAFFIC_ORDERED,
	[TRAFFIC_GAP] = TRAFFIC_ORDERED,           [TRAFFIC_MIXED] = TRAFFIC_ORDERED,
	[TRAFFIC_OLD_INCARNATION] = TRAFFIC_NEVER,
};

enum {
	TRAFFIC_BATCH = 64,        /* messages that one event sends at most */
	TRAFFIC_REFUSED_US = 1000, /* pause after a refusal at rate=0 */
	TRAFFIC_WINDOW = 64,       /* positions below the highest whose arrival is remembered */
};

#define TRAFFIC_LAG_NS UINT64_C(1000000000)   /* longer delays are not made up for */
#define TRAFFIC_REOPEN_NS UINT64_C(100000000) /* between two attempts to open sessions */

/* ---- messages: a header with a hash, and a payload that follows from the hash ---- */

enum { TRAFFIC_MAGIC = 0x78747266 };

/* The payload is words in the machine's order: the hash, and each a step more than the last; one may be cut. */
#define TRAFFIC_STEP UINT64_C(0xd1342543de82ef95)

static_assert(XK_HEADER_LEN(traffic) == XK_TRAFFIC_SIZE_MIN, "the shortest message is a header");

static inline uint64_t
traffic_header_hash(const uint8_t *p)
{
	uint64_t hash = 0, word;

	for (unsigned at = 0; at < XK_OFFSET(traffic, hash); at += sizeof(word)) {
		memcpy(&word, p + at, sizeof(word));
		hash = traffic_mix(hash, word);
	}
	return hash;
}

/* Fills or checks the payload of m, which begins with word. Returns false if a byte is wrong. */
__attribute__((always_inline)) static inline bool
traffic_payload(const struct xk_msg *m, uint64_t word, bool fills)
{
	size_t done = 0, piece; /* done: bytes of word that lie in segments before */

	for (size_t begin = XK_HEADER_LEN(traffic); m != NULL; m = m->next, begin = 0) {
		uint8_t *p = m->data + begin, *end = m->data + m->len;

		for (; p < end; p += piece, done = (done + piece) % sizeof(word)) {
			uint64_t cut, found;

			for (; done == 0 && (size_t)(end - p) >= sizeof(word); p += sizeof(word)) {
				if (fills) {
					memcpy(p, &word, sizeof(word));
				} else {
					memcpy(&found, p, sizeof(found));
					if (found != word)
						return false;
				}
				word += TRAFFIC_STEP;
			}
			if (p == end)
				break;
			cut = word;
			piece = sizeof(word) - done;
			if (piece > (size_t)(end - p))
				piece = (size_t)(end - p);
			if (fills)
				memcpy(p, (const uint8_t *)&cut + done, piece);
			else if (memcmp(p, (const uint8_t *)&cut + done, piece) != 0)
				return false;
			if (done + piece == sizeof(word))
				word += TRAFFIC_STEP;
		}
	}
	return true;
}

struct xk_msg *
traffic_message_new(const struct xk_protocol *self, const struct traffic_header *h, uint32_t size)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(self), size);
	struct traffic_header whole = *h;
	uint8_t *p;

	if (m == NULL)
		return NULL;
	p = m->data;
	whole.magic = TRAFFIC_MAGIC;
	whole.length = size;
	traffic_store(p, &whole);
	XK_PUT(traffic, hash, p, traffic_header_hash(p));
	traffic_payload(m, traffic_header_hash(p), true);
	return m;
}

bool
traffic_message_parse(struct traffic_header *h, const struct xk_msg *m, const uint8_t *p)
{
	uint64_t hash = traffic_header_hash(p);

	*h = traffic_load(p);
	return h->magic == TRAFFIC_MAGIC && h->length == xk_msg_len(m) && h->hash == hash &&
	       traffic_payload(m, hash, false);
}

/* ---- opening: a shepherd that may wait ---- */

/* Returns the address that this host has on session s, or 0: unknown. No lock is held. */
static uint32_t
traffic_own_host(const struct traffic *t, struct xk_session *s)
{
	uint64_t host;

	if (xk_control(s, XK_GET_MY_HOST, &host) == 0)
		return (uint32_t)host;
	return t->host_count == 0 ? 0 : t->hosts[0];
}

/* Opens the peer's session. Returns 0 or -errno. */
static int
traffic_open(struct traffic *t, struct traffic_peer *peer)
{
	struct xk_protocol *self = &t->protocol;
	struct xk_participants participants = { .remote.depth = 0 };
	struct xk_session *s;
	int err;

	xk_participant_push(&participants.remote, peer->host);
	if (t->port != 0)
		xk_participant_push(&participants.remote, t->port);
	if (t->local != 0)
		xk_participant_push(&participants.local, t->local);
	err = xk_open(self, self, xk_lower(self, 0), &participants, &s);
	if (err != 0)
		return err;
	if (xk_control(s, XK_GET_MAX_PACKET, &peer->max_packet) < 0)
		peer->max_packet = XK_TRAFFIC_SIZE_MAX;
	peer->own = traffic_own_host(t, s);
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

/* Starts a shepherd that opens missing sessions, unless one tried recently. */
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

static void
traffic_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct traffic *t = (struct traffic *)self;

	for (unsigned i = 0; i < t->peer_count; i++)
		if (atomic_load_explicit(&t->peers[i].session, memory_order_acquire) == session)
			atomic_store_explicit(&t->peers[i].closed, true, memory_order_release);
}

/* Returns the peer's session, or NULL: there is none, or the protocol below has closed it, and it is closed here. */
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

/* Returns the next peer that has a session, or NULL. */
static struct traffic_peer *
traffic_choose(struct traffic *t)
{
	unsigned begin = t->is_random ? (unsigned)xk_chance_below(&t->chance, t->peer_count) : t->turn;

	for (unsigned i = 0; i < t->peer_count; i++) {
		unsigned at = begin + i < t->peer_count ? begin + i : begin + i - t->peer_count;

		if (traffic_session(t, &t->peers[at]) == NULL)
			continue;
		t->turn = at + 1 < t->peer_count ? at + 1 : 0;
		return &t->peers[at];
	}
	xk_count(&t->protocol, TRAFFIC_UNOPENED);
	return NULL;
}

/* Sends a message. Returns false if none was accepted. */
static bool
traffic_send(struct traffic *t)
{
	struct traffic_peer *peer = traffic_choose(t);
	uint64_t size = t->size_min;
	struct traffic_header h;
	struct xk_msg *m;

	if (peer == NULL)
		return false;
	if (t->size_max > t->size_min)
		size += xk_chance_below(&t->chance, t->size_max - t->size_min + 1);
	if (size > peer->max_packet)
		size = peer->max_packet;
	if (size < XK_TRAFFIC_SIZE_MIN)
		size = XK_TRAFFIC_SIZE_MIN;
	h = (struct traffic_header){ .incarnation = t->incarnation,
				     .source = peer->own,
				     .destination = peer->host,
				     .stream = peer->stream,
				     .position = peer->position };
	m = traffic_message_new(&t->protocol, &h, (uint32_t)size);
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

/*
 * Draws an exponential variate with mean 1, in parts of 2^32, from nothing but comparisons, so that it is the same with
 * every compiler (von Neumann, 1951): of numbers drawn until one is not less than the one before, the first is kept if
 * their count is odd; otherwise it is one more.
 */
static uint64_t
traffic_draw_exponential(struct xk_chance *chance)
{
	for (uint64_t whole = 0;; whole++) {
		uint64_t first = xk_chance_below(chance, UINT64_C(1) << 32), least = first, next;
		bool odd = true;

		while ((next = xk_chance_below(chance, UINT64_C(1) << 32)) < least) {
			least = next;
			odd = !odd;
		}
		if (odd)
			return (whole << 32) + first;
	}
}

/* Sends the messages that are due. Returns the nanoseconds until the next one. */
static uint64_t
traffic_send_due(struct traffic *t, uint64_t now_ns)
{
	for (unsigned i = 0; i < TRAFFIC_BATCH && t->next_ns <= now_ns && !traffic_is_finished(t, now_ns); i++) {
		unsigned __int128 interval_ns = t->interval_ns;

		if (!traffic_send(t) && t->interval_ns == 0)
			return TRAFFIC_REFUSED_US * 1000;
		if (t->is_uneven)
			interval_ns = interval_ns * traffic_draw_exponential(&t->chance) >> 32;
		t->next_ns += (uint64_t)interval_ns;
	}
	if (t->next_ns + TRAFFIC_LAG_NS < now_ns)
		t->next_ns = now_ns;
	return t->next_ns > now_ns ? t->next_ns - now_ns : 0;
}

static void
traffic_tick(struct xk_event *event, void *argument)
{
	struct traffic *t = argument;
	uint64_t now_ns = xk_now_ns(&t->protocol);

	if (traffic_is_finished(t, now_ns)) {
		xk_trace(&t->protocol, XK_TRACE_EVENTS, "finished: %llu messages sent",
			 (unsigned long long)t->accepted);
		return;
	}
	traffic_see_to_sessions(t, now_ns);
	xk_event_schedule(event, xk_us_of_ns(traffic_send_due(t, now_ns)));
}

/* ---- peers ---- */

/* Makes host the peer number `index` of those named, or none: each is kept with equal probability (Vitter, 1985). */
static int
traffic_add_peer(struct traffic *t, unsigned index, uint32_t host)
{
	uint64_t at = index;

	if (t->fanout != 0 && index >= t->fanout) {
		at = xk_chance_below(&t->chance, (uint64_t)index + 1);
	} else {
		struct traffic_peer *peers = reallocarray(t->peers, index + 1, sizeof(*peers));

		if (peers == NULL)
			return -ENOMEM;
		memset(&peers[index], 0, sizeof(*peers));
		t->peers = peers;
		t->peer_count++;
	}
	if (at < t->peer_count)
		t->peers[at].host = host;
	return 0;
}

static bool
traffic_is_own(const struct traffic *t, uint32_t host)
{
	for (unsigned i = 0; i < t->host_count; i++)
		if (t->hosts[i] == host)
			return true;
	return false;
}

/* Makes the peers that the setting names, "HOST" or "HOST-HOST", but for this host. Returns 0, -EINVAL or -ENOMEM. */
static int
traffic_make_peers(struct traffic *t)
{
	char *text = strdup(t->peers_text == NULL ? "" : t->peers_text), *rest = NULL;
	unsigned named = 0, index = 0;
	int err = text == NULL ? -ENOMEM : 0;

	for (char *word = text; err == 0 && (word = strtok_r(word, " ,", &rest)) != NULL; word = NULL) {
		char *dash = strchr(word, '-');
		uint32_t first, last;

		if (dash != NULL)
			*dash = '\0';
		if (!xk_host_parse(word, &first) || !xk_host_parse(dash == NULL ? word : dash + 1, &last) ||
		    last < first || last - first >= XK_TRAFFIC_PEERS_MAX - named) {
			xk_trace(&t->protocol, XK_TRACE_NONE, "peers=\"%s\": hosts and ranges of hosts, %u at most",
				 t->peers_text, XK_TRAFFIC_PEERS_MAX);
			err = -EINVAL;
			break;
		}
		named += last - first + 1;
		for (uint64_t host = first; err == 0 && host <= last; host++)
			if (!traffic_is_own(t, (uint32_t)host))
				err = traffic_add_peer(t, index++, (uint32_t)host);
	}
	free(text);
	return err;
}

/* ---- incoming streams; the lock is held ---- */

/* Counts a fault of message h (NULL: unknown), and traces it if it breaks the promise. */
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

/* Returns the bucket of h's stream. */
static struct traffic_bucket *
traffic_bucket(struct traffic *t, const struct traffic_header *h)
{
	uint64_t hash;

	if (xk_unlikely(t->hash_seed == 0))
		t->hash_seed = xk_random(&t->protocol) | 1;
	hash = traffic_mix(h->incarnation ^ t->hash_seed, h->source);
	hash = traffic_mix(hash, (uint64_t)h->destination << 32 | h->stream);
	return &t->buckets[(hash >> 32) & t->bucket_mask];
}

static struct traffic_stream *
traffic_find(struct traffic *t, const struct traffic_header *h)
{
	struct traffic_stream *s;

	LIST_FOREACH(s, traffic_bucket(t, h), in_bucket)
	if (s->first.incarnation == h->incarnation && s->first.source == h->source &&
	    s->first.destination == h->destination && s->first.stream == h->stream)
		break;
	return s;
}

/* Returns a free stream, or forgets one that was not used since the hand last passed it. */
static struct traffic_stream *
traffic_make_room(struct traffic *t)
{
	for (;;) {
		struct traffic_stream *s = &t->streams[t->hand];

		t->hand = (t->hand + 1) % (unsigned)t->stream_max;
		if (!s->taken)
			return s;
		if (!s->used) {
			LIST_REMOVE(s, in_bucket);
			t->has_forgotten = true;
			xk_count(&t->protocol, TRAFFIC_FORGOTTEN);
			return s;
		}
		s->used = false;
	}
}

/* Begins a stream with h, and marks streams of earlier boots of its host. */
static struct traffic_stream *
traffic_begin_stream(struct traffic *t, const struct traffic_header *h)
{
	struct traffic_stream *s = traffic_make_room(t);

	*s = (struct traffic_stream){ .first = *h, .highest = h->position, .taken = true };
	LIST_INSERT_HEAD(traffic_bucket(t, h), s, in_bucket);
	for (unsigned i = 0; i < t->stream_max; i++) {
		struct traffic_stream *other = &t->streams[i];
		uint64_t boot = h->incarnation >> 48, other_boot = other->first.incarnation >> 48; /* 0: unknown */

		if (!other->taken || other->first.source != h->source || other->first.incarnation == h->incarnation)
			continue;
		/* if a boot is unknown: the one that is seen later is later */
		if (boot != 0 && other_boot != 0 && boot < other_boot)
			s->old = true;
		else
			other->old = true;
	}
	if (h->position != 0 && !t->has_forgotten)
		traffic_fault(t, TRAFFIC_GAP, h);
	return s;
}

/* Notes the position of h in its stream s. */
static void
traffic_place(struct traffic *t, struct traffic_stream *s, const struct traffic_header *h)
{
	uint32_t ahead = h->position - s->highest, back = s->highest - h->position;
	uint64_t bit = back < TRAFFIC_WINDOW ? UINT64_C(1) << back : 0;

	if (h->position > s->highest || s->received == 1) {
		if (ahead > 1)
			traffic_fault(t, TRAFFIC_GAP, h);
		s->window = (ahead < TRAFFIC_WINDOW ? s->window << ahead : 0) | 1;
		s->highest = h->position;
	} else if ((s->window & bit) != 0) {
		s->duplicates++;
		traffic_fault(t, TRAFFIC_DUPLICATE, h);
	} else {
		s->window |= bit;
		traffic_fault(t, TRAFFIC_REORDERED, h);
	}
}

/* Checks h, which came up lls, where this host's address is `own` (0: unknown). */
static void
traffic_receive(struct traffic *t, const struct xk_session *lls, uint32_t own, const struct traffic_header *h)
{
	struct traffic_stream *s;

	if (own != 0 && h->destination != own) {
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
	/* no other stream may be on lls: those of an earlier session there have left (traffic_open_done) */
	for (unsigned i = 0; s->lls != lls && i < t->stream_max; i++) {
		struct traffic_stream *other = &t->streams[i];

		if (other == s || !other->taken || other->lls != lls)
			continue;
		traffic_fault(t, TRAFFIC_MIXED, h);
		other->lls = NULL;
	}
	s->lls = lls;
	traffic_place(t, s, h);
}

/* ---- up ---- */

static void
traffic_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct traffic *t = (struct traffic *)self;
	const uint8_t *p = xk_msg_peek(&m, XK_TRAFFIC_SIZE_MIN);
	struct traffic_header h;
	uint32_t own;
	bool good;

	if (p == NULL && xk_msg_len(m) >= XK_TRAFFIC_SIZE_MIN) {
		xk_drop(self, m, XK_DROP_NO_BUFFER);
		return;
	}
	good = p != NULL && traffic_message_parse(&h, m, p);
	xk_msg_free(m);
	own = traffic_own_host(t, lls);
	xk_lock(&t->lock);
	if (good)
		traffic_receive(t, lls, own, &h);
	else
		traffic_fault(t, TRAFFIC_CORRUPT, NULL);
	xk_unlock(&t->lock);
}

/* Forgets an earlier session at the same address. */
static int
traffic_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
		  struct xk_protocol *hlp_type)
{
	struct traffic *t = (struct traffic *)self;

	xk_lock(&t->lock);
	for (unsigned i = 0; i < t->stream_max; i++)
		if (t->streams[i].lls == session)
			t->streams[i].lls = NULL;
	xk_unlock(&t->lock);
	return 0;
}

/* Counts reports of hosts on messages. */
static int
traffic_reported(struct xk_protocol *self, struct xk_fault_report *report)
{
	xk_count(self, TRAFFIC_REPORTS);
	xk_trace(self, XK_TRACE_EVENTS, "%llx reports: %s", (unsigned long long)report->from,
		 xk_fault_name(report->fault));
	return 0;
}

/* ---- init and fini ---- */

/* Stores this host's addresses: all of them above a vnet, otherwise the one that the protocol below has. */
static void
traffic_ask_hosts(struct traffic *t)
{
	struct xk_protocol *lower = xk_lower(&t->protocol, 0);
	struct xk_vnet_interfaces interfaces = { .count = 0 };
	uint64_t host;

	xk_control_protocol(lower, XK_VNET_GET_INTERFACES, &interfaces);
	for (unsigned i = 0; i < interfaces.count; i++)
		t->hosts[t->host_count++] = interfaces.list[i].host;
	if (t->host_count == 0 && xk_control_protocol(lower, XK_GET_MY_HOST, &host) == 0)
		t->hosts[t->host_count++] = (uint32_t)host;
}

static int
traffic_read_settings(struct traffic *t)
{
	if (t->size_max < t->size_min) {
		xk_trace(&t->protocol, XK_TRACE_NONE, "size_max is less than size_min");
		return -EINVAL;
	}
	t->interval_ns = t->rate == 0 ? 0 : UINT64_C(1000000000) / t->rate;
	return 0;
}

static void
traffic_fini(struct xk_protocol *self)
{
	struct traffic *t = (struct traffic *)self;

	xk_event_cancel(&t->event);
	for (unsigned i = 0; i < t->peer_count; i++)
		xk_close(atomic_load_explicit(&t->peers[i].session, memory_order_relaxed));
	free(t->peers);
	free(t->streams);
	free(t->buckets);
}

static int
traffic_init(struct xk_protocol *self)
{
	struct traffic *t = (struct traffic *)self;
	struct xk_participants participants = { .remote.depth = 0 };
	uint64_t now_ns = xk_now_ns(self);
	uint32_t buckets = 1;
	int err = traffic_read_settings(t);

	if (err != 0)
		return err;
	while (buckets < t->stream_max)
		buckets *= 2;
	t->bucket_mask = buckets - 1;
	t->streams = calloc(t->stream_max, sizeof(*t->streams));
	t->buckets = calloc(buckets, sizeof(*t->buckets)); /* empty lists */
	xk_lock_init(&t->lock, self);
	xk_event_init(&t->event, self->kernel, traffic_tick, t);
	traffic_ask_hosts(t);
	t->incarnation = xk_random(self) >> 16 | xk_boots(self) << 48;
	xk_chance_init(&t->chance, xk_random(self), 0);
	if (t->port != 0)
		xk_participant_push(&participants.local, t->port);
	err = t->streams == NULL || t->buckets == NULL ? -ENOMEM : traffic_make_peers(t);
	if (err == 0)
		err = xk_open_enable(self, self, xk_lower(self, 0), &participants);
	if (err != 0) {
		traffic_fini(self);
		return err;
	}
	t->next_ns = now_ns + t->start_ns + xk_chance_below(&t->chance, t->interval_ns);
	t->end_ns = t->stop_ns == 0 ? UINT64_MAX : now_ns + t->stop_ns;
	atomic_store_explicit(&t->missing, true, memory_order_relaxed);
	if (t->peer_count != 0)
		xk_event_schedule(&t->event, xk_us_of_ns(t->next_ns - now_ns));
	return 0;
}

/* ---- for programs ---- */

static const char *
traffic_promise(struct xk_protocol *self, bool at_rest)
{
	const struct traffic *t = (const struct traffic *)self;

	(void)at_rest;
	return xk_counter(self, TRAFFIC_BROKEN) == 0 ? NULL : t->first;
}

void
xk_traffic_report(const struct xk_protocol *traffic, struct xk_traffic_report *report)
{
	const struct traffic *t = (const struct traffic *)traffic;

	*report = (struct xk_traffic_report){
		.incarnation = t->incarnation,
		.host = t->host_count == 0 ? 0 : t->hosts[0],
		.finished = traffic_is_finished(t, xk_now_ns(traffic)),
		.peers = t->peer_count,
		.sent = xk_counter(traffic, TRAFFIC_SENT),
		.received = xk_counter(traffic, TRAFFIC_RECEIVED),
		.broken = xk_counter(traffic, TRAFFIC_BROKEN),
	};
	for (unsigned i = 0; i < t->stream_max; i++)
		report->senders += t->streams[i].taken;
	memcpy(report->first, t->first, sizeof(report->first));
}

unsigned
xk_traffic_peers(const struct xk_protocol *traffic, struct xk_traffic_peer *peers, unsigned max)
{
	const struct traffic *t = (const struct traffic *)traffic;
	unsigned count = t->peer_count < max ? t->peer_count : max;

	for (unsigned i = 0; i < count; i++) {
		struct traffic_peer *peer = &t->peers[i];

		peers[i] = (struct xk_traffic_peer){
			.host = peer->host,
			.stream = peer->stream,
			.position = peer->position,
			.open = atomic_load_explicit(&peer->session, memory_order_relaxed) != NULL &&
				!atomic_load_explicit(&peer->closed, memory_order_relaxed),
			.accepted = peer->accepted,
			.unsent = peer->unsent,
		};
	}
	return count;
}

unsigned
xk_traffic_senders(const struct xk_protocol *traffic, struct xk_traffic_sender *senders, unsigned max)
{
	const struct traffic *t = (const struct traffic *)traffic;
	unsigned count = 0;

	for (unsigned i = 0; i < t->stream_max && count < max; i++) {
		const struct traffic_stream *s = &t->streams[i];

		if (!s->taken)
			continue;
		senders[count++] = (struct xk_traffic_sender){
			.host = s->first.source,
			.to = s->first.destination,
			.stream = s->first.stream,
			.incarnation = s->first.incarnation,
			.first = s->first.position,
			.highest = s->highest,
			.received = s->received,
			.duplicates = s->duplicates,
		};
	}
	return count;
}

void
xk_traffic_stop(struct xk_protocol *traffic)
{
	((struct traffic *)traffic)->end_ns = 0;
}

/* ---- tables ---- */

static const struct xk_role traffic_lowers[] = {
	{ .name = "transport", .needs = XK_ASYNC, .help = "carries messages: udp, stopwait" },
	{ .name = NULL },
};

static const char *const traffic_promises[] = { "none", "intact", "once", "ordered", NULL };
static const char *const traffic_patterns[] = { "turn", "random", NULL };
static const char *const traffic_spacings[] = { "even", "random", NULL };

static const struct xk_setting traffic_settings[] = {
	XK_SETTING(STRING, struct traffic, peers_text, "peers",
		   "hosts to send to: \"10.77.0.2 10.77.0.5-10.77.0.9\"; this host itself is left out"),
	XK_SETTING(UINT, struct traffic, fanout, "fanout", "number of them, chosen at random; 0: all", .initial = "0",
		   .max = XK_TRAFFIC_PEERS_MAX),
	XK_SETTING(CHOICE, struct traffic, is_random, "pattern", "order of the peers", .initial = "turn",
		   .choices = traffic_patterns),
	XK_SETTING(UINT, struct traffic, port, "port",
		   "port, here and at the peers; 0: the protocol below has no ports", .initial = "2002", .max = 65535),
	XK_SETTING(UINT, struct traffic, local, "local", "source port; 0: the protocol below chooses", .initial = "0",
		   .max = 65535),
	XK_SETTING(UINT, struct traffic, rate, "rate",
		   "messages per second to all peers together; 0: as many as the protocol below accepts",
		   .initial = "10", .max = 10000000),
	XK_SETTING(CHOICE, struct traffic, is_uneven, "spacing",
		   "intervals between messages; random: as from many independent senders", .initial = "even",
		   .choices = traffic_spacings),
	XK_SETTING(UINT, struct traffic, count, "count", "accepted messages after which it ends; 0: never",
		   .initial = "0"),
	XK_SETTING(UINT, struct traffic, size_min, "size_min", "bytes of the shortest message", .initial = "64",
		   .min = XK_TRAFFIC_SIZE_MIN, .max = XK_TRAFFIC_SIZE_MAX),
	XK_SETTING(UINT, struct traffic, size_max, "size_max",
		   "bytes of the longest message; the protocol below may allow less", .initial = "64",
		   .min = XK_TRAFFIC_SIZE_MIN, .max = XK_TRAFFIC_SIZE_MAX),
	XK_SETTING(TIME, struct traffic, start_ns, "start", "time from the boot to the first message", .initial = "0s",
		   .max = UINT64_C(86400000000000)),
	XK_SETTING(TIME, struct traffic, stop_ns, "stop", "time from the boot to the end; 0: never", .initial = "0s",
		   .max = UINT64_C(86400000000000)),
	XK_SETTING(CHOICE, struct traffic, promise, "promise", "guarantee of the protocols below", .initial = "intact",
		   .choices = traffic_promises),
	XK_SETTING(UINT, struct traffic, stream_max, "senders", "incoming streams to remember", .initial = "64",
		   .min = 1, .max = 65535),
	{ .name = NULL },
};

static const struct xk_protocol_ops traffic_ops = {
	.init = traffic_init,
	.fini = traffic_fini,
	.open_done = traffic_open_done,
	.close_done = traffic_close_done,
	.demux = traffic_demux,
	.fault = traffic_reported,
	.promise = traffic_promise,
};

const struct xk_protocol_type xk_type_traffic = {
	.name = "traffic",
	.help = "Sends messages to many peers, and checks every message that arrives.",
	.ops = &traffic_ops,
	.size = sizeof(struct traffic),
	.lowers = traffic_lowers,
	.settings = traffic_settings,
	.counters = traffic_counters,
};
