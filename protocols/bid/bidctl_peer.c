/*
 * bidctl_peer.c - what BIDCTL knows of which host: peers, who are kept, and strangers, who were asked and take no memory;
 * see bidctl.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/bid/bidctl_private.h"

enum {
	BIDCTL_BUCKETS_MAX = 1 << 16,
	BIDCTL_LOOKED_AT = 64, /* buckets in which a peer to be replaced is looked for */
};

/* ---- tables ---- */

static uint32_t
bidctl_peer_power(uint64_t at_least, uint64_t most)
{
	uint32_t power = 1;

	while (power < at_least && power < most)
		power *= 2;
	return power;
}

int
bidctl_peer_init(struct bidctl *b, xk_event_handler *timeout)
{
	uint32_t buckets = bidctl_peer_power(b->peer_max, BIDCTL_BUCKETS_MAX);
	uint32_t sets = bidctl_peer_power(b->stranger_count / BIDCTL_WAYS, BIDCTL_BUCKETS_MAX);

	b->bucket_mask = buckets - 1;
	b->way_mask = sets - 1;
	b->seed = xk_random(&b->protocol) | 1;
	b->timeout = timeout;
	b->buckets = calloc(buckets, sizeof(struct bidctl_peer *));
	b->strangers = calloc((size_t)sets * BIDCTL_WAYS, sizeof(*b->strangers));
	return b->buckets == NULL || b->strangers == NULL ? -ENOMEM : 0;
}

void
bidctl_peer_fini(struct bidctl *b)
{
	for (uint32_t i = 0; b->buckets != NULL && i <= b->bucket_mask; i++) {
		struct bidctl_peer *peer = b->buckets[i], *next;

		for (; peer != NULL; peer = next) {
			next = peer->next;
			xk_event_cancel(&peer->timer);
			free(peer->ended);
			free(peer);
		}
	}
	free(b->buckets);
	free(b->strangers);
}

/* Multiplication by a random odd number: any two hosts share a place for two seeds in so many places, at most. */
static uint32_t
bidctl_peer_hash(const struct bidctl *b, uint32_t host)
{
	return (uint32_t)(host * b->seed >> 32);
}

struct bidctl_peer *
bidctl_peer_find(struct bidctl *b, uint32_t host)
{
	struct bidctl_peer *peer = b->buckets[bidctl_peer_hash(b, host) & b->bucket_mask];

	while (peer != NULL && peer->host != host)
		peer = peer->next;
	return peer;
}

static struct bidctl_peer *
bidctl_peer_new(struct bidctl *b, uint32_t host)
{
	struct bidctl_peer **bucket = &b->buckets[bidctl_peer_hash(b, host) & b->bucket_mask];
	struct bidctl_peer *peer = calloc(1, sizeof(*peer));

	if (peer == NULL)
		return NULL;
	peer->bidctl = b;
	peer->host = host;
	xk_event_init(&peer->timer, b->protocol.kernel, b->timeout, peer);
	peer->next = *bucket;
	*bucket = peer;
	b->peer_count++;
	return peer;
}

/* Returns whether nobody uses the peer or waits for it, and its timer is not about to forget it. */
static bool
bidctl_peer_may_go(const struct bidctl_peer *peer, uint64_t now_ns)
{
	return peer->uses == 0 && peer->holds == 0 && peer->waiters == NULL && !peer->asking && peer->due_ns > now_ns;
}

/* Returns a peer that may go, looking from a random bucket on; if possible, one without ended boots. NULL: none may. */
static struct bidctl_peer *
bidctl_peer_choose(struct bidctl *b)
{
	uint32_t from = (uint32_t)xk_random(&b->protocol);
	uint64_t now_ns = xk_now_ns(&b->protocol);
	struct bidctl_peer *chosen = NULL;

	for (uint32_t i = 0; i < BIDCTL_LOOKED_AT; i++)
		for (struct bidctl_peer *p = b->buckets[(from + i) & b->bucket_mask]; p != NULL; p = p->next) {
			if (!bidctl_peer_may_go(p, now_ns))
				continue;
			if (p->ended_count == 0)
				return p;
			if (chosen == NULL)
				chosen = p;
		}
	return chosen;
}

/* Makes the timer of some peer forget it now, ended boots included. False: none may go. */
static bool
bidctl_peer_make_room(struct bidctl *b)
{
	struct bidctl_peer *peer = bidctl_peer_choose(b);

	if (peer == NULL)
		return false;
	peer->suspected = false;
	peer->last = 0;
	b->ended_count -= peer->ended_count;
	peer->ended_count = 0;
	bidctl_peer_schedule(peer, 0);
	return true;
}

struct bidctl_peer *
bidctl_peer_get(struct bidctl *b, uint32_t host)
{
	struct bidctl_peer *peer = bidctl_peer_find(b, host);

	if (peer == NULL && (b->peer_count < b->peer_max || bidctl_peer_make_room(b)))
		peer = bidctl_peer_new(b, host);
	if (peer == NULL)
		xk_count(&b->protocol, BIDCTL_TOO_MANY);
	return peer;
}

static void
bidctl_peer_free(struct xk_retired *retired)
{
	struct bidctl_peer *peer = xk_container_of(retired, struct bidctl_peer, retired);

	free(peer->ended);
	free(peer);
}

void
bidctl_peer_forget(struct bidctl_peer *peer)
{
	struct bidctl *b = peer->bidctl;
	struct bidctl_peer **at = &b->buckets[bidctl_peer_hash(b, peer->host) & b->bucket_mask];

	xk_assert(peer->holds == 0 && peer->uses == 0 && !peer->pending && peer->waiters == NULL);
	while (*at != peer)
		at = &(*at)->next;
	*at = peer->next;
	b->peer_count--;
	xk_retire(b->protocol.kernel, &peer->retired, bidctl_peer_free);
}

/* ---- time ---- */

/* One firing is under way at most, so that who handles it may free the peer. */
void
bidctl_peer_schedule(struct bidctl_peer *peer, uint64_t delay_ns)
{
	peer->due_ns = xk_now_ns(&peer->bidctl->protocol) + delay_ns;
	if (peer->pending && xk_event_cancel(&peer->timer) != XK_EVENT_CANCELLED)
		return; /* its handler will look when it is due */
	peer->pending = true;
	xk_event_schedule(&peer->timer, xk_us_of_ns(delay_ns));
}

/* Those that were met together are not asked together. */
void
bidctl_peer_rest(struct bidctl_peer *peer)
{
	const struct bidctl *b = peer->bidctl;

	if (peer->uses == 0)
		bidctl_peer_schedule(peer, b->lifetime_ns);
	else if (b->keepalive_ns != 0 && peer->boot != 0)
		bidctl_peer_schedule(peer, b->keepalive_ns - xk_random(&b->protocol) % (b->keepalive_ns / 4 + 1));
}

static void
bidctl_peer_question(const struct bidctl_peer *peer, struct bidctl_question *question)
{
	*question = (struct bidctl_question){ .host = peer->host, .boot = peer->boot, .tag = peer->tag };
}

void
bidctl_peer_ask(struct bidctl_peer *peer, struct bidctl_question *question)
{
	struct bidctl *b = peer->bidctl;

	peer->asking = true;
	peer->suspected = false;
	peer->tries = 0;
	peer->tag = xk_random(&b->protocol) | 1;
	peer->asked_ns = xk_now_ns(&b->protocol);
	bidctl_peer_question(peer, question);
	bidctl_peer_schedule(peer, b->timeout_ns);
}

void
bidctl_peer_ask_again(struct bidctl_peer *peer, struct bidctl_question *question)
{
	const struct bidctl *b = peer->bidctl;
	uint64_t delay_ns = b->timeout_ns;

	peer->tries++;
	for (unsigned i = 0; i < peer->tries && delay_ns < b->timeout_max_ns; i++)
		delay_ns *= 2;
	bidctl_peer_question(peer, question);
	bidctl_peer_schedule(peer, delay_ns < b->timeout_max_ns ? delay_ns : b->timeout_max_ns);
}

void
bidctl_peer_wake(struct bidctl_peer *peer)
{
	while (peer->waiters != NULL) {
		struct bidctl_waiter *waiter = peer->waiters;

		peer->waiters = waiter->next;
		waiter->done = true;
		waiter->boot = peer->told;
		waiter->status = peer->told != 0 ? 0 : -EHOSTUNREACH;
		xk_semaphore_signal(&waiter->semaphore);
	}
}

/* ---- boots that have ended ---- */

/* Forgets the boots that ended at least `lifetime` ago. */
static void
bidctl_peer_trim(struct bidctl_peer *peer)
{
	uint64_t now_ns = xk_now_ns(&peer->bidctl->protocol);
	uint32_t old = 0;

	while (old < peer->ended_count && peer->ended[old].until_ns <= now_ns)
		old++;
	if (old == 0)
		return;
	peer->bidctl->ended_count -= old;
	peer->ended_count -= old;
	memmove(peer->ended, peer->ended + old, peer->ended_count * sizeof(*peer->ended));
	if (peer->ended_count > 0)
		return;
	free(peer->ended);
	peer->ended = NULL;
	peer->ended_room = 0;
}

/* Makes room for one more ended boot. False: there are too many, or there is no memory. */
static bool
bidctl_peer_has_room(struct bidctl_peer *peer)
{
	uint32_t room = peer->ended_room == 0 ? BIDCTL_ENDED_FEW : 2 * peer->ended_room;
	struct bidctl_ended *ended;

	if (peer->ended_count >= BIDCTL_ENDED_FEW &&
	    (peer->ended_count >= BIDCTL_ENDED_MAX || peer->bidctl->ended_count >= BIDCTL_ENDED_ALL))
		return false;
	if (peer->ended_count < peer->ended_room)
		return true;
	ended = reallocarray(peer->ended, room, sizeof(*ended));
	if (ended == NULL)
		return false;
	peer->ended = ended;
	peer->ended_room = room;
	return true;
}

unsigned
bidctl_peer_become(struct bidctl_peer *peer, uint64_t boot)
{
	struct bidctl *b = peer->bidctl;

	if (boot == peer->last)
		return 0;
	bidctl_peer_trim(peer);
	for (uint32_t i = 0; i < peer->ended_count; i++)
		if (peer->ended[i].boot == boot)
			return BIDCTL_ENDED;
	if (peer->last != 0 && !bidctl_peer_has_room(peer))
		return BIDCTL_REBOOTING;
	if (peer->last != 0) {
		peer->ended[peer->ended_count++] =
			(struct bidctl_ended){ peer->last, xk_now_ns(&b->protocol) + b->lifetime_ns };
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

	bidctl_peer_trim(peer);
	if (peer->ended_count > 0 && peer->ended[peer->ended_count - 1].until_ns > until_ns)
		until_ns = peer->ended[peer->ended_count - 1].until_ns;
	return until_ns > now_ns ? until_ns - now_ns : 0;
}

/* ---- strangers ---- */

static struct bidctl_stranger *
bidctl_stranger_set(struct bidctl *b, uint32_t host)
{
	return &b->strangers[(size_t)(bidctl_peer_hash(b, host) & b->way_mask) * BIDCTL_WAYS];
}

static struct bidctl_stranger *
bidctl_stranger_find(struct bidctl *b, uint32_t host)
{
	struct bidctl_stranger *set = bidctl_stranger_set(b, host);

	for (unsigned i = 0; i < BIDCTL_WAYS; i++)
		if (set[i].host == host)
			return &set[i];
	return NULL;
}

/* So long what a stranger was asked, and has said, is of use. */
static bool
bidctl_stranger_is_fresh(const struct bidctl *b, const struct bidctl_stranger *stranger)
{
	return stranger->host != 0 && xk_now_ns(&b->protocol) - stranger->asked_ns < b->timeout_max_ns;
}

/* A place for a host that has none: that of whoever was asked longest ago. */
static struct bidctl_stranger *
bidctl_stranger_new(struct bidctl *b, uint32_t host)
{
	struct bidctl_stranger *set = bidctl_stranger_set(b, host), *oldest = &set[0];

	for (unsigned i = 1; i < BIDCTL_WAYS && oldest->host != 0; i++)
		if (set[i].host == 0 || set[i].asked_ns < oldest->asked_ns)
			oldest = &set[i];
	if (bidctl_stranger_is_fresh(b, oldest))
		xk_count(&b->protocol, BIDCTL_REPLACED);
	*oldest = (struct bidctl_stranger){ .host = host };
	return oldest;
}

/* Whether strangers, all of them together, may be asked one question more now. */
static bool
bidctl_stranger_may_be_asked(struct bidctl *b, uint64_t now_ns)
{
	uint64_t until_ns = b->strangers_ns > now_ns ? b->strangers_ns : now_ns;

	if (until_ns - now_ns > BIDCTL_BURST_NS)
		return false;
	b->strangers_ns = until_ns + BIDCTL_NS_PER_S / b->stranger_rate;
	return true;
}

/*
 * A tag is good for one answer, and as long as the stranger is asked again and again: an answer may take longer than the
 * next message of whoever is asked.
 */
void
bidctl_stranger_heard(struct bidctl *b, uint32_t host, struct bidctl_question *question)
{
	struct bidctl_stranger *stranger = bidctl_stranger_find(b, host);
	uint64_t now_ns = xk_now_ns(&b->protocol);

	if ((stranger != NULL && now_ns - stranger->asked_ns < b->interval_ns) ||
	    !bidctl_stranger_may_be_asked(b, now_ns)) {
		xk_count(&b->protocol, BIDCTL_LIMITED);
		return;
	}
	if (stranger == NULL)
		stranger = bidctl_stranger_new(b, host);
	if (stranger->tag == 0 || !bidctl_stranger_is_fresh(b, stranger))
		stranger->tag = xk_random(&b->protocol) | 1;
	stranger->asked_ns = now_ns;
	*question = (struct bidctl_question){ .host = host, .tag = stranger->tag };
}

bool
bidctl_stranger_answers(struct bidctl *b, uint32_t host, uint64_t tag)
{
	struct bidctl_stranger *stranger = bidctl_stranger_find(b, host);

	if (stranger == NULL || stranger->tag != tag || !bidctl_stranger_is_fresh(b, stranger))
		return false;
	stranger->host = 0;
	return true;
}
