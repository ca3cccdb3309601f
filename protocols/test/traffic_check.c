/*
 * traffic_check.c - checks what comes in: places every message in its stream, and counts what the protocols below
 * should not have done.
 *
 * The faults that are not plain from their names: misdirected: for another host; reordered: after a later one of its
 * stream; gap: some before it have not come, or a stream begins in its middle, which was meant for a boot of this host
 * that is over (nothing is said of that once streams were forgotten); mixed: a session carries two streams;
 * old_incarnation: from a boot that is over, up the session of its own time, after a message of a later boot.
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

/* Counts a fault of message h (NULL: not known), and whether it breaks the promise. */
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

/* Returns the bucket of h's stream. Draws the hash's seed when it is first needed, while no stream is known. */
static uint16_t *
traffic_check_bucket(struct traffic *t, const struct traffic_header *h)
{
	uint64_t hash;

	if (xk_unlikely(t->hash_seed == 0))
		t->hash_seed = xk_random(&t->protocol) | 1;
	hash = traffic_mix(h->incarnation ^ t->hash_seed, h->source);
	hash = traffic_mix(hash, (uint64_t)h->destination << 32 | h->stream);
	return &t->buckets[(hash >> 32) & t->bucket_mask];
}

static struct traffic_stream *
traffic_check_find(struct traffic *t, const struct traffic_header *h)
{
	uint16_t i = *traffic_check_bucket(t, h);

	for (; i != TRAFFIC_CHECK_NOBODY; i = t->streams[i].next) {
		const struct traffic_header *first = &t->streams[i].first;

		if (first->incarnation == h->incarnation && first->source == h->source &&
		    first->destination == h->destination && first->stream == h->stream)
			return &t->streams[i];
	}
	return NULL;
}

/* Returns room for a stream: free, or that of one which was not used since it was last looked at, and is forgotten. */
static struct traffic_stream *
traffic_check_make_room(struct traffic *t)
{
	for (;;) {
		uint16_t i = (uint16_t)t->hand;
		struct traffic_stream *s = &t->streams[i];

		t->hand = (t->hand + 1) % (unsigned)t->stream_max;
		if (s->taken && !s->used) {
			uint16_t *at = traffic_check_bucket(t, &s->first);

			while (*at != i)
				at = &t->streams[*at].next;
			*at = s->next;
			t->has_forgotten = true;
			xk_count(&t->protocol, TRAFFIC_FORGOTTEN);
			return s;
		}
		if (!s->taken)
			return s;
		s->used = false;
	}
}

/* Begins a stream with h, and finds out which streams of its host are of boots that are over. */
static struct traffic_stream *
traffic_check_begin_stream(struct traffic *t, const struct traffic_header *h)
{
	struct traffic_stream *s = traffic_check_make_room(t);
	uint16_t *bucket = traffic_check_bucket(t, h);

	*s = (struct traffic_stream){ .first = *h, .highest = h->position, .next = *bucket, .taken = true };
	*bucket = (uint16_t)(s - t->streams);
	for (unsigned i = 0; i < t->stream_max; i++) {
		struct traffic_stream *other = &t->streams[i];
		uint64_t boot = h->incarnation >> 48, other_boot = other->first.incarnation >> 48; /* 0: not known */

		if (!other->taken || other->first.source != h->source || other->first.incarnation == h->incarnation)
			continue;
		/* as far as one can tell; the boot that is seen later is later, at least */
		if (boot != 0 && other_boot != 0 && boot < other_boot)
			s->old = true;
		else
			other->old = true;
	}
	if (h->position != 0 && !t->has_forgotten)
		traffic_check_fault(t, TRAFFIC_GAP, h);
	return s;
}

/* Notes the position of h in its stream s. */
static void
traffic_check_place(struct traffic *t, struct traffic_stream *s, const struct traffic_header *h)
{
	uint32_t ahead = h->position - s->highest, back = s->highest - h->position;
	uint64_t bit = back < TRAFFIC_CHECK_WINDOW ? UINT64_C(1) << back : 0;

	if (h->position > s->highest || s->received == 1) {
		if (ahead > 1)
			traffic_check_fault(t, TRAFFIC_GAP, h);
		s->window = (ahead < TRAFFIC_CHECK_WINDOW ? s->window << ahead : 0) | 1;
		s->highest = h->position;
	} else if ((s->window & bit) != 0) {
		s->duplicates++;
		traffic_check_fault(t, TRAFFIC_DUPLICATE, h);
	} else {
		s->window |= bit;
		traffic_check_fault(t, TRAFFIC_REORDERED, h);
	}
}

/* Checks h, which has come up lls, on which this host is `own`; 0: not known. */
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
	/* lls carries s, and nothing else: a stream that is over has left it (traffic_check_open_done) */
	for (unsigned i = 0; s->lls != lls && i < t->stream_max; i++) {
		struct traffic_stream *other = &t->streams[i];

		if (other == s || !other->taken || other->lls != lls)
			continue;
		traffic_check_fault(t, TRAFFIC_MIXED, h);
		other->lls = NULL;
	}
	s->lls = lls;
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

/* Forgets the session that lay where the new one lies. */
int
traffic_check_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
			struct xk_protocol *hlp_type)
{
	struct traffic *t = traffic_of(self);

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
