/*
 * traffic_check.c - what comes in: every message is placed in its stream, and what the protocols below should not have done
 * is counted. traffic.c says which faults there are, and which promise each of them breaks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/test/traffic_private.h"
#include "xkernel/trace.h"

enum {
	TRAFFIC_CHECK_WINDOW = 64,         /* positions below the highest that are remembered */
	TRAFFIC_CHECK_NOBODY = UINT16_MAX, /* the end of a bucket */
};

/* The least promise that each fault breaks. */
static const enum traffic_promise traffic_check_breaks[] = {
	[TRAFFIC_CORRUPT] = TRAFFIC_INTACT,        [TRAFFIC_MISDIRECTED] = TRAFFIC_ONCE,
	[TRAFFIC_DUPLICATE] = TRAFFIC_ONCE,        [TRAFFIC_REORDERED] = TRAFFIC_ORDERED,
	[TRAFFIC_GAP] = TRAFFIC_ORDERED,           [TRAFFIC_MIXED] = TRAFFIC_ORDERED,
	[TRAFFIC_OLD_INCARNATION] = TRAFFIC_NEVER,
};

/* ---- streams; the lock is held ---- */

static void
traffic_check_fault(struct traffic *t, enum traffic_counter fault, const struct traffic_header *h)
{
	char host[16], text[XK_TRAFFIC_TEXT];

	xk_count(&t->protocol, fault);
	if (t->promise < traffic_check_breaks[fault])
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

/* Its seed is drawn when it is needed first, while no stream is known. */
static uint16_t *
traffic_check_bucket(struct traffic *t, uint64_t incarnation, uint32_t source, uint32_t destination, uint32_t stream)
{
	uint64_t hash;

	if (xk_unlikely(t->hash_seed == 0))
		t->hash_seed = xk_random(&t->protocol) | 1;
	hash = traffic_mix(traffic_mix(incarnation ^ t->hash_seed, source), (uint64_t)destination << 32 | stream);
	return &t->buckets[(hash >> 32) & t->bucket_mask];
}

static struct traffic_stream *
traffic_check_find(struct traffic *t, const struct traffic_header *h)
{
	uint16_t i = *traffic_check_bucket(t, h->incarnation, h->source, h->destination, h->stream);

	while (i != TRAFFIC_CHECK_NOBODY) {
		struct traffic_stream *s = &t->streams[i];

		if (s->incarnation == h->incarnation && s->source == h->source && s->destination == h->destination &&
		    s->stream == h->stream)
			return s;
		i = s->next;
	}
	return NULL;
}

static void
traffic_check_forget(struct traffic *t, struct traffic_stream *s)
{
	uint16_t *at = traffic_check_bucket(t, s->incarnation, s->source, s->destination, s->stream);
	uint16_t i = (uint16_t)(s - t->streams);

	while (*at != i)
		at = &t->streams[*at].next;
	*at = s->next;
	t->has_forgotten = true;
	xk_count(&t->protocol, TRAFFIC_FORGOTTEN);
}

/* A place for a stream: a free one, or that of one which was not used since it was last looked at. */
static struct traffic_stream *
traffic_check_make_room(struct traffic *t)
{
	for (;;) {
		struct traffic_stream *s = &t->streams[t->hand];

		t->hand = (t->hand + 1) % (unsigned)t->stream_max;
		if (!s->taken)
			return s;
		if (!s->used) {
			traffic_check_forget(t, s);
			return s;
		}
		s->used = false;
	}
}

/* Whether boot a of a host was before boot b, as far as one can tell; the later one is seen after it, at least. */
static bool
traffic_check_is_older(uint64_t a, uint64_t b)
{
	return a >> 48 != 0 && b >> 48 != 0 && a >> 48 < b >> 48;
}

/* Which boot of its source s belongs to, compared with what is known. */
static void
traffic_check_date(struct traffic *t, struct traffic_stream *s)
{
	for (unsigned i = 0; i < t->stream_max; i++) {
		struct traffic_stream *other = &t->streams[i];

		if (!other->taken || other->source != s->source || other->incarnation == s->incarnation)
			continue;
		if (traffic_check_is_older(s->incarnation, other->incarnation))
			s->old = true;
		else
			other->old = true;
	}
}

static struct traffic_stream *
traffic_check_begin_stream(struct traffic *t, const struct traffic_header *h)
{
	struct traffic_stream *s = traffic_check_make_room(t);
	uint16_t *bucket = traffic_check_bucket(t, h->incarnation, h->source, h->destination, h->stream);

	*s = (struct traffic_stream){
		.incarnation = h->incarnation,
		.source = h->source,
		.destination = h->destination,
		.stream = h->stream,
		.first = h->position,
		.highest = h->position,
		.next = *bucket,
		.taken = true,
	};
	*bucket = (uint16_t)(s - t->streams);
	traffic_check_date(t, s);
	if (h->position != 0 && !t->has_forgotten)
		traffic_check_fault(t, TRAFFIC_GAP, h);
	return s;
}

/* lls carries s from now on. What is over has left it (traffic_check_open_done). */
static void
traffic_check_take_session(struct traffic *t, struct traffic_stream *s, const struct xk_session *lls,
			   const struct traffic_header *h)
{
	for (unsigned i = 0; i < t->stream_max; i++) {
		struct traffic_stream *other = &t->streams[i];

		if (other == s || !other->taken || other->lls != lls)
			continue;
		traffic_check_fault(t, TRAFFIC_MIXED, h);
		other->lls = NULL;
	}
	s->lls = lls;
}

/* A message that came after a later one, or twice. */
static void
traffic_check_look_back(struct traffic *t, struct traffic_stream *s, const struct traffic_header *h)
{
	uint32_t back = s->highest - h->position;

	if (back < TRAFFIC_CHECK_WINDOW && (s->window >> back & 1) != 0) {
		s->duplicates++;
		traffic_check_fault(t, TRAFFIC_DUPLICATE, h);
		return;
	}
	if (back < TRAFFIC_CHECK_WINDOW)
		s->window |= UINT64_C(1) << back;
	traffic_check_fault(t, TRAFFIC_REORDERED, h);
}

static void
traffic_check_place(struct traffic *t, struct traffic_stream *s, const struct traffic_header *h)
{
	uint32_t ahead = h->position - s->highest;

	if (h->position <= s->highest && s->received > 1) {
		traffic_check_look_back(t, s, h);
		return;
	}
	if (ahead > 1)
		traffic_check_fault(t, TRAFFIC_GAP, h);
	s->window = (ahead < TRAFFIC_CHECK_WINDOW ? s->window << ahead : 0) | 1;
	s->highest = h->position;
}

/* h has come up lls, on which this host is `own`; 0: not known. */
static void
traffic_check_receive(struct traffic *t, const struct xk_session *lls, uint32_t own, const struct traffic_header *h)
{
	struct traffic_stream *s;

	if (own != 0 && h->destination != own) {
		traffic_check_fault(t, TRAFFIC_MISDIRECTED, h);
		return;
	}
	s = traffic_check_find(t, h);
	if (s == NULL)
		s = traffic_check_begin_stream(t, h);
	xk_count(&t->protocol, TRAFFIC_RECEIVED);
	s->received++;
	s->used = true;
	if (s->old)
		traffic_check_fault(t, TRAFFIC_OLD_INCARNATION, h);
	if (s->lls != lls)
		traffic_check_take_session(t, s, lls, h);
	traffic_check_place(t, s, h);
}

/* ---- what the protocol below calls; the lock is not held ---- */

void
traffic_check_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct traffic *t = traffic_of(self);
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
		traffic_check_receive(t, lls, own, &h);
	else
		traffic_check_fault(t, TRAFFIC_CORRUPT, NULL);
	xk_unlock(&t->lock);
}

/* A new session may lie where one that is over has lain. */
int
traffic_check_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
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

/* ---- life, and questions ---- */

int
traffic_check_init(struct traffic *t)
{
	uint32_t buckets = 1;

	xk_lock_init(&t->lock, &t->protocol);
	while (buckets < t->stream_max)
		buckets *= 2;
	t->bucket_mask = buckets - 1;
	t->streams = calloc(t->stream_max, sizeof(*t->streams));
	t->buckets = calloc(buckets, sizeof(*t->buckets));
	if (t->streams == NULL || t->buckets == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < buckets; i++)
		t->buckets[i] = TRAFFIC_CHECK_NOBODY;
	return 0;
}

void
traffic_check_fini(struct traffic *t)
{
	free(t->streams);
	free(t->buckets);
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
			.to = s->destination,
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
