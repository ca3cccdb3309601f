/*
 * bidctl_peer.c - what BIDCTL knows of which host: peers, which are kept; strangers, which were asked and take no
 * memory; and what it computes with a key instead of remembering it. See bidctl.c.
 *
 * Peers:        When the table is full, a new peer replaces an unused one, chosen at random, so that whoever holds
 *               most of the table loses most. A host with ended boots makes room only if no other can.
 * Ended boots:  A boot that another one has followed is not confirmed again for `lifetime`, so that nobody need
 *               remember its requests. A lost host is remembered as long, because its boot may have ended.
 * Tags:         A computed tag is a keyed hash of the host that is asked, of the boot that the question is about, and
 *               of the time, like TCP's SYN cookies (Bernstein, 1996). It is good for that host's answers with that
 *               boot for one to two periods. So floods of questions take no memory, and late answers do not count.
 */
#include <errno.h>
#include <stdlib.h>

#include "protocols/bid/bidctl_private.h"

enum {
	BIDCTL_BUCKETS_MAX = 1 << 16,
	BIDCTL_LOOKED_AT = 64, /* buckets in which a peer to be replaced is looked for */
	BIDCTL_NS_PER_S = 1000000000,
	BIDCTL_BURST_NS = 100000000, /* the questions to strangers of this time may be asked at once */
};

/* ---- peers ---- */

int
bidctl_peer_init(struct bidctl *b, xk_event_handler *timeout)
{
	uint32_t buckets = 1, sets = 1;

	while (buckets < b->peer_max && buckets < BIDCTL_BUCKETS_MAX)
		buckets *= 2;
	while (sets < b->stranger_count / BIDCTL_WAYS && sets < BIDCTL_BUCKETS_MAX)
		sets *= 2;
	b->bucket_mask = buckets - 1;
	b->way_mask = sets - 1;
	b->seed = xk_random(&b->protocol) | 1;
	b->timeout = timeout;
	b->buckets = calloc(buckets, sizeof(*b->buckets));
	b->strangers = calloc((size_t)sets * BIDCTL_WAYS, sizeof(*b->strangers));
	return b->buckets == NULL || b->strangers == NULL ? -ENOMEM : 0;
}

/* Frees the ended boots that need not be remembered at now_ns (UINT64_MAX: all). */
static void
bidctl_peer_trim(struct bidctl_peer *peer, uint64_t now_ns)
{
	struct bidctl_ended **at = &peer->ended, *ended;

	while (*at != NULL && (*at)->until_ns > now_ns)
		at = &(*at)->next;
	while ((ended = *at) != NULL) {
		*at = ended->next;
		peer->ended_count--;
		peer->bidctl->ended_count--;
		free(ended);
	}
}

void
bidctl_peer_fini(struct bidctl *b)
{
	for (uint32_t i = 0; b->buckets != NULL && i <= b->bucket_mask; i++) {
		struct bidctl_peer *peer;

		while ((peer = SLIST_FIRST(&b->buckets[i])) != NULL) {
			SLIST_REMOVE_HEAD(&b->buckets[i], next);
			xk_event_cancel(&peer->timer);
			bidctl_peer_trim(peer, UINT64_MAX);
			free(peer);
		}
	}
	free(b->buckets);
	free(b->strangers);
}

/*
 * Multiplies by a random odd number, twice: one product alone puts consecutive addresses at equal distances, which with
 * some seeds crowds them into few buckets.
 */
static uint32_t
bidctl_peer_hash(const struct bidctl *b, uint32_t host)
{
	uint64_t product = host * b->seed;

	return (uint32_t)((product ^ product >> 32) * b->seed >> 32);
}

static struct bidctl_bucket *
bidctl_peer_bucket(struct bidctl *b, uint32_t host)
{
	return &b->buckets[bidctl_peer_hash(b, host) & b->bucket_mask];
}

struct bidctl_peer *
bidctl_peer_find(struct bidctl *b, uint32_t host)
{
	struct bidctl_peer *peer = SLIST_FIRST(bidctl_peer_bucket(b, host));

	while (peer != NULL && peer->host != host)
		peer = SLIST_NEXT(peer, next);
	return peer;
}

/*
 * Makes the timer forget a peer at once, ended boots included: one that nobody uses or waits for, looking from a random
 * bucket on; if possible, one without ended boots. False: none may go.
 */
static bool
bidctl_peer_make_room(struct bidctl *b)
{
	uint32_t from = (uint32_t)xk_random(&b->protocol);
	uint64_t now_ns = xk_now_ns(&b->protocol);
	struct bidctl_peer *chosen = NULL, *peer;

	for (uint32_t i = 0; i < BIDCTL_LOOKED_AT && (chosen == NULL || chosen->ended_count > 0); i++)
		for (peer = SLIST_FIRST(&b->buckets[(from + i) & b->bucket_mask]); peer != NULL;
		     peer = SLIST_NEXT(peer, next))
			if (peer->uses == 0 && peer->holds == 0 && SLIST_EMPTY(&peer->waiters) && !peer->asking &&
			    peer->due_ns > now_ns &&
			    (chosen == NULL || (chosen->ended_count > 0 && peer->ended_count == 0)))
				chosen = peer;
	if (chosen == NULL)
		return false;
	chosen->suspected = false;
	chosen->last = 0;
	bidctl_peer_trim(chosen, UINT64_MAX);
	bidctl_peer_schedule(chosen, 0);
	return true;
}

struct bidctl_peer *
bidctl_peer_get(struct bidctl *b, uint32_t host)
{
	struct bidctl_peer *peer = bidctl_peer_find(b, host);

	if (peer != NULL)
		return peer;
	if (b->peer_count < b->peer_max || bidctl_peer_make_room(b))
		peer = calloc(1, sizeof(*peer));
	if (peer == NULL) {
		xk_count(&b->protocol, BIDCTL_TOO_MANY);
		return NULL;
	}
	peer->bidctl = b;
	peer->host = host;
	xk_event_init(&peer->timer, b->protocol.kernel, b->timeout, peer);
	SLIST_INSERT_HEAD(bidctl_peer_bucket(b, host), peer, next);
	b->peer_count++;
	return peer;
}

static void
bidctl_peer_free(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct bidctl_peer, retired));
}

void
bidctl_peer_forget(struct bidctl_peer *peer)
{
	struct bidctl *b = peer->bidctl;

	xk_assert(peer->holds == 0 && peer->uses == 0 && !peer->pending && SLIST_EMPTY(&peer->waiters) &&
		  peer->ended == NULL);
	SLIST_REMOVE(bidctl_peer_bucket(b, peer->host), peer, bidctl_peer, next);
	b->peer_count--;
	xk_retire(b->protocol.kernel, &peer->retired, bidctl_peer_free);
}

/* ---- time ---- */

/* At most one firing is under way, so that its handler may free the peer. */
void
bidctl_peer_schedule(struct bidctl_peer *peer, uint64_t delay_ns)
{
	peer->due_ns = xk_now_ns(&peer->bidctl->protocol) + delay_ns;
	if (peer->pending && xk_event_cancel(&peer->timer) != XK_EVENT_CANCELLED)
		return; /* its handler will look when it is due */
	peer->pending = true;
	xk_event_schedule(&peer->timer, xk_us_of_ns(delay_ns));
}

/* Adds chance, so that hosts that were met together are not asked together. */
void
bidctl_peer_rest(struct bidctl_peer *peer)
{
	const struct bidctl *b = peer->bidctl;

	if (peer->asking || peer->suspected)
		return;
	if (peer->uses == 0)
		bidctl_peer_schedule(peer, b->lifetime_ns);
	else if (b->keepalive_ns != 0 && peer->boot != 0)
		bidctl_peer_schedule(peer, b->keepalive_ns - xk_random(&b->protocol) % (b->keepalive_ns / 4 + 1));
}

void
bidctl_peer_ask(struct bidctl_peer *peer, struct bidctl_output *output)
{
	const struct bidctl *b = peer->bidctl;
	uint64_t delay_ns = b->timeout_ns;

	if (peer->asking) {
		peer->tries++;
	} else {
		peer->asking = true;
		peer->suspected = false;
		peer->tries = 0;
		peer->tag = xk_random(&b->protocol) | 1;
		peer->asked_ns = xk_now_ns(&b->protocol);
	}
	for (unsigned i = 0; i < peer->tries && delay_ns < b->timeout_max_ns; i++)
		delay_ns *= 2;
	*output = (struct bidctl_output){ .host = peer->host, .boot = peer->boot, .request = peer->tag };
	bidctl_peer_schedule(peer, delay_ns < b->timeout_max_ns ? delay_ns : b->timeout_max_ns);
}

/* ---- boots that have ended ---- */

unsigned
bidctl_peer_become(struct bidctl_peer *peer, uint64_t boot)
{
	struct bidctl *b = peer->bidctl;
	uint64_t now_ns = xk_now_ns(&b->protocol);
	struct bidctl_ended *ended;

	if (boot == peer->last)
		return 0;
	bidctl_peer_trim(peer, now_ns);
	for (ended = peer->ended; ended != NULL; ended = ended->next)
		if (ended->boot == boot)
			return BIDCTL_ENDED;
	if (peer->last != 0) {
		if (peer->ended_count < BIDCTL_ENDED_FEW ||
		    (peer->ended_count < BIDCTL_ENDED_MAX && b->ended_count < BIDCTL_ENDED_ALL))
			ended = malloc(sizeof(*ended));
		if (ended == NULL)
			return BIDCTL_REBOOTING;
		*ended = (struct bidctl_ended){ peer->ended, peer->last, now_ns + b->lifetime_ns };
		peer->ended = ended;
		peer->ended_count++;
		b->ended_count++;
	}
	peer->last = boot;
	return 0;
}

uint64_t
bidctl_peer_remembers(struct bidctl_peer *peer)
{
	const struct bidctl *b = peer->bidctl;
	uint64_t now_ns = xk_now_ns(&b->protocol), until_ns = peer->last != 0 ? peer->lost_ns + b->lifetime_ns : 0;

	bidctl_peer_trim(peer, now_ns);
	if (peer->ended != NULL && peer->ended->until_ns > until_ns)
		until_ns = peer->ended->until_ns;
	return until_ns > now_ns ? until_ns - now_ns : 0;
}

/* ---- strangers ---- */

/* Returns the place of host in its set, or else the one to take: a free one, or that of the longest silent host. */
static struct bidctl_stranger *
bidctl_stranger_place(struct bidctl *b, uint32_t host)
{
	struct bidctl_stranger *set = &b->strangers[(size_t)(bidctl_peer_hash(b, host) & b->way_mask) * BIDCTL_WAYS];
	struct bidctl_stranger *place = &set[0];

	for (unsigned i = 0; i < BIDCTL_WAYS; i++) {
		if (set[i].host == host)
			return &set[i];
		if (place->host != 0 && (set[i].host == 0 || set[i].asked_ns < place->asked_ns))
			place = &set[i];
	}
	return place;
}

/* Whether what a stranger was asked still counts. */
static bool
bidctl_stranger_is_fresh(const struct bidctl *b, const struct bidctl_stranger *stranger)
{
	return stranger->host != 0 && xk_now_ns(&b->protocol) - stranger->asked_ns < b->timeout_max_ns;
}

/* Keeps the tag while a stranger is asked again and again: its answer may take longer than its next message. */
void
bidctl_stranger_heard(struct bidctl *b, uint32_t host, struct bidctl_output *output)
{
	struct bidctl_stranger *stranger = bidctl_stranger_place(b, host);
	bool is_known = stranger->host == host, is_fresh = bidctl_stranger_is_fresh(b, stranger);
	uint64_t now_ns = xk_now_ns(&b->protocol), until_ns = b->strangers_ns > now_ns ? b->strangers_ns : now_ns;

	if ((is_known && now_ns - stranger->asked_ns < b->interval_ns) || until_ns - now_ns > BIDCTL_BURST_NS) {
		xk_count(&b->protocol, BIDCTL_LIMITED);
		return;
	}
	b->strangers_ns = until_ns + BIDCTL_NS_PER_S / b->stranger_rate;
	if (!is_known && is_fresh)
		xk_count(&b->protocol, BIDCTL_REPLACED);
	if (!is_known || !is_fresh)
		*stranger = (struct bidctl_stranger){ .host = host, .tag = xk_random(&b->protocol) | 1 };
	stranger->asked_ns = now_ns;
	*output = (struct bidctl_output){ .host = host, .request = stranger->tag };
}

bool
bidctl_stranger_answers(struct bidctl *b, uint32_t host, uint64_t tag)
{
	struct bidctl_stranger *stranger = bidctl_stranger_place(b, host);

	if (stranger->host != host || stranger->tag != tag || !bidctl_stranger_is_fresh(b, stranger))
		return false;
	stranger->host = 0;
	return true;
}

/* ---- SipHash-2-4 (Aumasson and Bernstein, 2012) of two words ---- */

static uint64_t
bidctl_tag_rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static void
bidctl_tag_rounds(uint64_t v[4], unsigned rounds)
{
	for (; rounds > 0; rounds--) {
		v[0] += v[1];
		v[1] = bidctl_tag_rotate(v[1], 13) ^ v[0];
		v[0] = bidctl_tag_rotate(v[0], 32);
		v[2] += v[3];
		v[3] = bidctl_tag_rotate(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = bidctl_tag_rotate(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = bidctl_tag_rotate(v[1], 17) ^ v[2];
		v[2] = bidctl_tag_rotate(v[2], 32);
	}
}

uint64_t
bidctl_tag_hash(const uint64_t key[2], uint64_t first, uint64_t second)
{
	const uint64_t words[] = { first, second, UINT64_C(16) << 56 /* the length, in bytes */ };
	uint64_t v[4] = { key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
			  key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573) };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(words); i++) {
		v[3] ^= words[i];
		bidctl_tag_rounds(v, 2);
		v[0] ^= words[i];
	}
	v[2] ^= 0xff;
	bidctl_tag_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- boot ids and tags ---- */

/* An id equals a tag only if the asker has guessed the secret and used it as its boot id. */
uint64_t
bidctl_own(struct xk_protocol *self, uint32_t host)
{
	const struct bidctl *b = (const struct bidctl *)self;
	uint64_t id = bidctl_tag_hash(b->key, host, b->secret), boots = xk_boots(self);

	if (boots != 0)
		id = boots << 40 | id >> 24;
	return id != 0 ? id : 1;
}

/*
 * Two periods are over before a host that has answered can be forgotten, so that its answer does not count again. The
 * host and the period fit one word: 2^32 periods are longer than any boot.
 */
uint64_t
bidctl_tag(const struct bidctl *b, uint32_t host, uint64_t boot, unsigned periods_ago)
{
	uint64_t period_ns = b->timeout_max_ns < b->lifetime_ns / 2 ? b->timeout_max_ns : b->lifetime_ns / 2;
	uint64_t period = xk_now_ns(&b->protocol) / period_ns - periods_ago;

	return bidctl_tag_hash(b->key, period << 32 | host, boot) | 1;
}
