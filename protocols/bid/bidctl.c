/*
 * bidctl.c - the current boots of hosts: queries hosts for their boot ids, and notifies the protocols above of first
 * contacts, reboots and losses (bidctl.h).
 *
 * Promise:      Only a host's own answer to our query, with a tag that no other host can know, confirms a boot id. Boot
 *               ids in other messages only cause queries. Watchers are notified of each confirmed reboot once.
 * Spec:         our own, after x-kernel 3.2's, with 64-bit ids, tags, an end to retries, stateless answers, and LOST.
 *               QUERY (tag a) -> RESPONSE (a), of the same length. If the asker is no peer, or was known by another
 *               boot, the answer is a QUERY, too: QUERY (a) -> RESPONSE (a) with QUERY (b) -> RESPONSE (b). The last
 *               message gets no answer, so the exchange ends.
 * Asking:       hosts that are opened (confirm), that sent a message with an unknown boot id (check), that broadcast a
 *               boot, and now and then those in use. Hosts that never answered (strangers) have no timer and share a
 *               rate; only hosts that answer, or are being opened (peers), take memory. A message in the name of a peer
 *               that is not in use pays for its question and one repetition: what is sent to a host that is gone is at
 *               most three times what is sent in its name.
 * Origin:       A peer is where its latest answer came from: the tag shows that this station receives frames for
 *               the host. A message from another station does not count as the peer's and causes a question; an answer
 *               from there moves the peer. No message for a host goes to another station that claims its address,
 *               which would learn the host's boot ids (XK_VNET_LEADS_TO). Over IP no station is known, and boot ids
 *               alone decide.
 * Graph:        bid -> bidctl, chan -> bidctl; bidctl -> vnet, or ip. Sessions below open lazily: asking never waits.
 */
#include <errno.h>
#include <stdlib.h>

#include "protocols/bid/bidctl_private.h"
#include "protocols/virtual/vnet.h"
#include "xkernel/bytes.h"
#include "xkernel/siphash.h"
#include "xkernel/trace.h"

#define BIDCTL_COUNTERS(C)                                                                                             \
	C(BIDCTL_QUERIES_IN, "queries_in")                                                                             \
	C(BIDCTL_QUERIES_OUT, "queries_out")                                                                           \
	C(BIDCTL_RESPONSES_IN, "responses_in")                                                                         \
	C(BIDCTL_RESPONSES_OUT, "responses_out")                                                                       \
	C(BIDCTL_BROADCASTS_IN, "broadcasts_in")                                                                       \
	C(BIDCTL_BROADCASTS_OUT, "broadcasts_out")                                                                     \
	C(BIDCTL_RETRIES, "retries")                                                                                   \
	C(BIDCTL_KEEPALIVES, "keepalives")                                                                             \
	C(BIDCTL_FIRST_CONTACTS, "first_contacts")                                                                     \
	C(BIDCTL_REBOOTS, "reboots")                                                                                   \
	C(BIDCTL_LOSSES, "lost")                                                                                       \
	C(BIDCTL_FORGOTTEN, "forgotten")     /* reported as lost after long disuse */                                  \
	C(BIDCTL_UNREACHABLE, "unreachable") /* hosts that never answered a question */                                \
	C(BIDCTL_LIMITED, "limited")         /* questions suppressed */                                                \
	C(BIDCTL_REPLACED, "replaced")       /* strangers that lost their place */                                     \
	C(BIDCTL_TOO_MANY, "too_many")       /* peers that found no room */                                            \
	C(BIDCTL_UNSENT, "unsent")                                                                                     \
	C(BIDCTL_ASKED_BACK, "asked_back") /* responses_out that were questions, too */
XK_COUNTERS(bidctl, BIDCTL_COUNTERS);

enum {
	BIDCTL_BUCKETS_MAX = 1 << 16,
	BIDCTL_SEARCHED = 64, /* buckets searched for a peer to be replaced */
	BIDCTL_NS_PER_S = 1000000000,
	BIDCTL_BURST_NS = 100000000, /* questions to strangers may run ahead of their rate by this time */
};

/* A shepherd that waits for a host's boot id. On its stack; the lock is held while it is woken, and when it goes. */
struct bidctl_waiter {
	SLIST_ENTRY(bidctl_waiter) next;
	struct xk_semaphore semaphore;
	bool done;
	uint64_t boot; /* 0: there is none */
};

/* A message to be sent after the lock is released. */
struct bidctl_output {
	uint32_t host;           /* 0: send nothing; UINT32_MAX: broadcast */
	uint64_t boot;           /* the host's known boot; 0: unknown */
	uint64_t request, reply; /* tags of a question and of the question that is answered; 0: none */
	bool again;              /* the question was asked before without an answer */
};

/* ---- the header ---- */

enum { BIDCTL_QUERY = 1, BIDCTL_RESPONSE = 2, BIDCTL_BCAST = 4 };

static const struct xk_field_value bidctl_flags[] = {
	{ BIDCTL_QUERY, "QUERY" }, { BIDCTL_RESPONSE, "RESPONSE" }, { BIDCTL_BCAST, "BCAST" }, { 0, NULL }
};

#define BIDCTL_HEADER(F)                                                                                               \
	F(16, flags, .is_bits = true, .values = bidctl_flags)                                                          \
	F(16, checksum, .kind = XK_CHECKSUM, .print = XK_PRINT_HEX, .covers = XK_COVERS_HEADER)                        \
	F(32, source_host, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HOST)                                           \
	F(64, source_boot, .print = XK_PRINT_HEX)                                                                      \
	F(64, destination_boot, .print = XK_PRINT_HEX, .help = "0: not known")                                         \
	F(64, request, .print = XK_PRINT_HEX, .help = "tag of a question; 0: none")                                    \
	F(64, reply, .print = XK_PRINT_HEX, .help = "tag of an answer; 0: none")
XK_HEADER(bidctl, BIDCTL_HEADER);
XK_FIELDS(bidctl, BIDCTL_HEADER);

/* Returns 0, or the reason to drop h, which lies at p. */
static unsigned
bidctl_header_check(const struct bidctl_header *h, const uint8_t *p)
{
	bool is_query = (h->flags & BIDCTL_QUERY) != 0, is_response = (h->flags & BIDCTL_RESPONSE) != 0;

	if (!xk_sum_is_intact(xk_sum(0, p, XK_HEADER_LEN(bidctl))))
		return XK_DROP_BAD_CHECKSUM;
	if (h->flags != BIDCTL_BCAST && (h->flags == 0 || h->flags > (BIDCTL_QUERY | BIDCTL_RESPONSE)))
		return BIDCTL_BAD_FLAGS;
	if ((h->request != 0) != is_query || (h->reply != 0) != is_response)
		return BIDCTL_BAD_FLAGS;
	if (h->source_boot == 0 || (is_response && h->destination_boot == 0))
		return BIDCTL_BAD_BOOT;
	return xk_bidctl_is_host(h->source_host) ? 0 : BIDCTL_BAD_HOST;
}

/* ---- boot ids and tags; any context ---- */

/*
 * Returns this boot's id for host: a keyed hash of the host and a secret, drawn at each boot. A host cannot derive the
 * ids of others from its own, so it cannot speak for them even where addresses can be forged. If this host counts its
 * boots, the upper 24 bits are that count. An id equals a tag only if the asker has guessed the secret and used it as
 * its boot id.
 */
static uint64_t
bidctl_own(struct xk_protocol *self, uint32_t host)
{
	const struct bidctl *b = (const struct bidctl *)self;
	uint64_t id = siphash(b->key, host, b->secret), boots = xk_boots(self);

	if (boots != 0)
		id = boots << 40 | id >> 24;
	return id != 0 ? id : 1;
}

/*
 * Returns the tag, never 0, of a question about this boot of host, asked `periods_ago`. Computed instead of remembered,
 * like TCP's SYN cookies (Bernstein, 1996), it counts for one to two periods, so floods of questions take no memory.
 * Two periods end before a host that has answered can be forgotten: no answer counts twice. The host and the period fit
 * one word, because 2^32 periods are longer than any boot.
 */
static uint64_t
bidctl_tag(const struct bidctl *b, uint32_t host, uint64_t boot, unsigned periods_ago)
{
	uint64_t period_ns = b->timeout_max_ns < b->lifetime_ns / 2 ? b->timeout_max_ns : b->lifetime_ns / 2;
	uint64_t period = xk_now_ns(&b->protocol) / period_ns - periods_ago;

	return siphash(b->key, period << 32 | host, boot) | 1;
}

/* ---- peers; the lock is held ---- */

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

/* Returns the peer of host, or NULL. */
struct bidctl_peer *
bidctl_peer_find(struct bidctl *b, uint32_t host)
{
	struct bidctl_peer *peer = SLIST_FIRST(bidctl_peer_bucket(b, host));

	while (peer != NULL && peer->host != host)
		peer = SLIST_NEXT(peer, next);
	return peer;
}

/* Lets the timer act in delay_ns. */
static void
bidctl_peer_schedule(struct bidctl_peer *peer, uint64_t delay_ns)
{
	peer->retry.due_ns = xk_now_ns(&peer->bidctl->protocol) + delay_ns;
	xk_alarm_set(&peer->alarm, peer->retry.due_ns);
}

/*
 * Sets the timer of a peer without a pending query: to check whether the host is still there, at a random time so that
 * hosts met together are not queried together, or to forget it.
 */
static void
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

/* Asks a new question, or the pending one again, and doubles the time until the next. */
static void
bidctl_peer_ask(struct bidctl_peer *peer, struct bidctl_output *output)
{
	const struct bidctl *b = peer->bidctl;
	uint64_t now_ns = xk_now_ns(&b->protocol);

	if (peer->asking) {
		xk_retry_again(&peer->retry, b->timeout_max_ns, now_ns);
	} else {
		peer->asking = peer->paid = true;
		peer->suspected = false;
		peer->tag = xk_random(&b->protocol) | 1;
		xk_retry_begin(&peer->retry, b->timeout_ns, now_ns);
	}
	xk_alarm_set(&peer->alarm, peer->retry.due_ns);
	*output = (struct bidctl_output){ .host = peer->host, .boot = peer->boot, .request = peer->tag };
	output->again = peer->retry.tries > 0;
}

/*
 * Makes boot the peer's last one. The one before has ended: it is not confirmed again for `lifetime`, so its requests
 * need not be remembered. Returns 0, or BIDCTL_ENDED or BIDCTL_REBOOTING if boot must not be confirmed now.
 */
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

/* Returns for how many ns an unused peer must be kept, because a boot of it has ended, or may have as it was lost. */
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

/* ---- strangers; the lock is held ---- */

/* Returns the place of host in its set, or else the one to take: a free one, or that of the host asked longest ago. */
static struct bidctl_stranger *
bidctl_stranger_place(struct bidctl *b, uint32_t host)
{
	struct bidctl_stranger *set = &b->strangers[(size_t)(bidctl_peer_hash(b, host) & b->set_mask) * BIDCTL_WAYS];
	struct bidctl_stranger *place = &set[0];

	for (unsigned i = 0; i < BIDCTL_WAYS; i++) {
		if (set[i].host == host)
			return &set[i];
		if (place->host != 0 && (set[i].host == 0 || set[i].asked_ns < place->asked_ns))
			place = &set[i];
	}
	return place;
}

/* Returns whether the question to a stranger still counts. */
static bool
bidctl_stranger_is_fresh(const struct bidctl *b, const struct bidctl_stranger *stranger)
{
	return stranger->host != 0 && xk_now_ns(&b->protocol) - stranger->asked_ns < b->timeout_max_ns;
}

/*
 * Sets *output to a question to host, which is no peer and has sent a message, unless the rate is used up. Asks with
 * the same tag while the last question counts: the answer may take longer than the host's next message.
 */
static void
bidctl_stranger_ask(struct bidctl *b, uint32_t host, struct bidctl_output *output)
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

/* Returns whether host was asked with this tag; it is no stranger then. */
static bool
bidctl_stranger_answers(struct bidctl *b, uint32_t host, uint64_t tag)
{
	struct bidctl_stranger *stranger = bidctl_stranger_place(b, host);

	if (stranger->host != host || stranger->tag != tag || !bidctl_stranger_is_fresh(b, stranger))
		return false;
	stranger->host = 0;
	return true;
}

/* ---- sending; no lock is held ---- */

/* Sends output down lls. A message lost here is replaced like one lost on a link. */
static void
bidctl_send(struct bidctl *b, struct xk_session *lls, const struct bidctl_output *output)
{
	static const enum bidctl_counter counters[] = { BIDCTL_BROADCASTS_OUT, BIDCTL_QUERIES_OUT, BIDCTL_RESPONSES_OUT,
							BIDCTL_RESPONSES_OUT };
	unsigned flags = (output->request != 0 ? BIDCTL_QUERY : 0) | (output->reply != 0 ? BIDCTL_RESPONSE : 0);
	struct xk_msg *m = xk_msg_new(xk_platform_of(&b->protocol), XK_HEADER_LEN(bidctl));
	struct bidctl_header h;
	uint64_t host;

	if (flags == (BIDCTL_QUERY | BIDCTL_RESPONSE))
		xk_count(&b->protocol, BIDCTL_ASKED_BACK);
	if (m == NULL || xk_control(lls, XK_GET_MY_HOST, &host) != 0) {
		xk_msg_free(m);
		xk_count(&b->protocol, BIDCTL_UNSENT);
		return;
	}
	h = (struct bidctl_header){
		.flags = (uint16_t)(flags != 0 ? flags : BIDCTL_BCAST),
		.source_host = (uint32_t)host,
		.source_boot = bidctl_own(&b->protocol, output->host == UINT32_MAX ? 0 : output->host),
		.destination_boot = output->boot,
		.request = output->request,
		.reply = output->reply,
	};
	bidctl_store(m->data, &h);
	xk_checksum_store(m->data + XK_OFFSET(bidctl, checksum),
			  xk_checksum_finish(xk_sum(0, m->data, XK_HEADER_LEN(bidctl))));
	xk_count(&b->protocol, xk_push(lls, m) == 0 ? counters[flags] : BIDCTL_UNSENT);
}

/*
 * Sends output, if there is one, to where its host is. Before a question about a message that came up `lls` (NULL:
 * none), makes ARP query the host.
 */
static void
bidctl_send_to_host(struct bidctl *b, const struct bidctl_output *output, struct xk_session *lls)
{
	struct xk_protocol *self = &b->protocol;
	struct xk_participants participants = { .remote = { 1, { output->host } } };
	uint64_t host = output->host;
	struct xk_session *to;

	if (host == 0)
		return;
	if (output->request != 0 && lls != NULL)
		xk_control(lls, XK_VNET_DOUBT, &host);
	if (host != UINT32_MAX)
		xk_participant_push(&participants.local, XK_VNET_LAZY);
	if (xk_open(self, self, xk_lower(self, 0), &participants, &to) != 0) {
		xk_count(self, BIDCTL_UNSENT);
		return;
	}
	if (output->again)
		xk_unanswered(to);
	bidctl_send(b, to, output);
	xk_close(to);
}

/* ---- telling ---- */

/*
 * Notifies all watchers of the change, then wakes the waiters, unless the host is being asked again. The lock is held,
 * but released during notifications: another shepherd that confirms a boot meanwhile leaves its notification to this
 * one.
 */
static void
bidctl_notify(struct bidctl_peer *peer)
{
	static const char *const names[] = { "first contact with", "reboot of", "lost" };
	struct bidctl *b = peer->bidctl;
	struct bidctl_waiter *waiter;
	char host[16];

	if (peer->notifying)
		return;
	peer->notifying = true;
	peer->holds++;
	while (peer->notified != peer->boot) {
		struct xk_bidctl_peer known = { peer->host, peer->boot };
		enum xk_bidctl_change change = XK_BIDCTL_LOST;

		if (known.boot != 0) {
			change = peer->notified == 0 ? XK_BIDCTL_FIRST_CONTACT : XK_BIDCTL_REBOOTED;
			xk_count(&b->protocol, peer->notified == 0 ? BIDCTL_FIRST_CONTACTS : BIDCTL_REBOOTS);
		}
		xk_unlock(&b->lock);
		xk_trace(&b->protocol, XK_TRACE_EVENTS, "%s %s, boot %016llx", names[change],
			 xk_host_print(known.host, host), (unsigned long long)known.boot);
		for (struct xk_bidctl_watcher *watcher = b->watchers; watcher != NULL; watcher = watcher->next)
			watcher->changed(watcher, change, &known);
		xk_lock(&b->lock);
		peer->notified = known.boot;
	}
	peer->holds--;
	peer->notifying = false;
	if (peer->notified == 0 && peer->asking)
		return;
	while ((waiter = SLIST_FIRST(&peer->waiters)) != NULL) {
		SLIST_REMOVE_HEAD(&peer->waiters, next);
		waiter->done = true;
		waiter->boot = peer->notified;
		xk_semaphore_signal(&waiter->semaphore);
	}
}

/* ---- a peer's timer ---- */

/* Asks again, unless only messages in the peer's name have caused the question, and none pays for a repetition. */
static void
bidctl_peer_ask_again(struct bidctl_peer *peer, struct bidctl_output *output)
{
	bool is_ours = !SLIST_EMPTY(&peer->waiters) || (peer->uses > 0 && peer->boot != 0),
	     asks = is_ours || peer->paid;

	bidctl_peer_ask(peer, output);
	if (!asks)
		output->host = 0;
	peer->paid = false;
	xk_count(&peer->bidctl->protocol, asks ? BIDCTL_RETRIES : BIDCTL_LIMITED);
}

/* Asks, forgets an unused peer, or gives up one that does not answer. The lock is held. */
static void
bidctl_act(struct bidctl_peer *peer, struct bidctl_output *output)
{
	struct bidctl *b = peer->bidctl;

	if (peer->asking && peer->retry.tries < b->retries) {
		bidctl_peer_ask_again(peer, output);
	} else if (peer->asking) {
		xk_count(&b->protocol, peer->boot != 0 ? BIDCTL_LOSSES : BIDCTL_UNREACHABLE);
		if (peer->boot != 0)
			peer->lost_ns = xk_now_ns(&b->protocol);
		peer->asking = false;
		peer->boot = 0;
		bidctl_notify(peer);
	} else if (peer->suspected) {
		bidctl_peer_ask(peer, output);
	} else if (peer->uses == 0) {
		if (peer->boot != 0) {
			xk_count(&b->protocol, BIDCTL_FORGOTTEN);
			peer->last = 0;
		}
		peer->boot = 0;
		bidctl_notify(peer);
	} else if (b->keepalive_ns != 0 && peer->boot != 0) {
		xk_count(&b->protocol, BIDCTL_KEEPALIVES);
		bidctl_peer_ask(peer, output);
	}
}

static void
bidctl_peer_free(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct bidctl_peer, retired));
}

/*
 * Acts, then frees an unused peer without a boot. It stays for a while if one of its boots has ended lately, or a
 * shepherd is still using it.
 */
static void
bidctl_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct bidctl_peer *peer = xk_container_of(alarm, struct bidctl_peer, alarm);
	struct bidctl *b = peer->bidctl;
	struct bidctl_output output = { .host = 0 };
	uint64_t remembers_ns;

	peer->holds++;
	if (now_ns < peer->retry.due_ns)
		xk_alarm_set(alarm, peer->retry.due_ns);
	else
		bidctl_act(peer, &output);
	xk_unlock(&b->lock);
	bidctl_send_to_host(b, &output, NULL);
	xk_lock(&b->lock);
	peer->holds--;
	if (!xk_alarm_is_set(alarm) && peer->uses == 0 && !peer->asking && peer->boot == 0 && peer->notified == 0) {
		remembers_ns = bidctl_peer_remembers(peer);
		if (remembers_ns == 0 && peer->holds == 0) {
			SLIST_REMOVE(bidctl_peer_bucket(b, peer->host), peer, bidctl_peer, next);
			b->peer_count--;
			xk_retire(b->protocol.kernel, &peer->retired, bidctl_peer_free);
		} else {
			bidctl_peer_schedule(peer, remembers_ns != 0 ? remembers_ns : b->timeout_ns);
		}
	}
	xk_unlock(&b->lock);
}

/*
 * Makes the timer forget an unused peer, with its ended boots, at once: one without ended boots if possible, found from
 * a random bucket on, so that the largest holder of places loses most. Returns false if none may go.
 */
static bool
bidctl_peer_make_room(struct bidctl *b)
{
	uint32_t from = (uint32_t)xk_random(&b->protocol);
	uint64_t now_ns = xk_now_ns(&b->protocol);
	struct bidctl_peer *chosen = NULL, *peer;

	for (uint32_t i = 0; i < BIDCTL_SEARCHED && (chosen == NULL || chosen->ended_count > 0); i++)
		for (peer = SLIST_FIRST(&b->buckets[(from + i) & b->bucket_mask]); peer != NULL;
		     peer = SLIST_NEXT(peer, next))
			if (peer->uses == 0 && peer->holds == 0 && !peer->asking && peer->retry.due_ns > now_ns &&
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

/* Finds or makes the peer of host. Returns NULL if there are too many (counted) or there is no memory. */
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
	xk_alarm_init(&peer->alarm, NULL, &b->lock, bidctl_expire);
	SLIST_INSERT_HEAD(bidctl_peer_bucket(b, host), peer, next);
	b->peer_count++;
	return peer;
}

/* ---- questions from above ---- */

static int
bidctl_confirm(struct xk_protocol *self, uint32_t host, uint64_t *boot)
{
	struct bidctl *b = (struct bidctl *)self;
	struct bidctl_output output = { .host = 0 };
	struct bidctl_waiter waiter = { .done = false };
	struct bidctl_peer *peer;
	int err = -ENOBUFS;

	if (!xk_bidctl_is_host(host))
		return -EINVAL;
	xk_lock(&b->lock);
	peer = bidctl_peer_get(b, host);
	if (peer != NULL && peer->notified != 0 && !peer->notifying) {
		*boot = peer->notified;
		err = 0;
	} else if (peer != NULL) {
		if (peer->boot == 0 && !peer->asking)
			bidctl_peer_ask(peer, &output);
		xk_semaphore_init(&waiter.semaphore, self, 0);
		SLIST_INSERT_HEAD(&peer->waiters, &waiter, next);
		peer->holds++;
		xk_unlock(&b->lock);
		bidctl_send_to_host(b, &output, NULL);
		err = xk_semaphore_wait(&waiter.semaphore, XK_UNTIL_SIGNALLED);
		xk_lock(&b->lock);
		peer->holds--;
		if (waiter.done) {
			*boot = waiter.boot;
			err = waiter.boot != 0 ? 0 : -EHOSTUNREACH;
		} else {
			SLIST_REMOVE(&peer->waiters, &waiter, bidctl_waiter, next);
		}
	}
	xk_unlock(&b->lock);
	return err;
}

static int
bidctl_use(struct xk_protocol *self, uint32_t host)
{
	struct bidctl *b = (struct bidctl *)self;
	struct bidctl_peer *peer;

	xk_lock(&b->lock);
	peer = bidctl_peer_get(b, host);
	if (peer != NULL && peer->uses++ == 0)
		bidctl_peer_rest(peer);
	xk_unlock(&b->lock);
	return peer != NULL ? 0 : -ENOBUFS;
}

static void
bidctl_unuse(struct xk_protocol *self, uint32_t host)
{
	struct bidctl *b = (struct bidctl *)self;
	struct bidctl_peer *peer;

	xk_lock(&b->lock);
	peer = bidctl_peer_find(b, host);
	xk_assert(peer != NULL && peer->uses > 0);
	if (--peer->uses == 0)
		bidctl_peer_rest(peer);
	xk_unlock(&b->lock);
}

static void
bidctl_watch(struct xk_protocol *self, struct xk_bidctl_watcher *watcher)
{
	struct bidctl *b = (struct bidctl *)self;

	watcher->next = b->watchers;
	b->watchers = watcher;
}

/* ---- ways ---- */

/*
 * Returns the station and interface whose messages come up lls. Returns 0 if lls knows its host, by address (IP) or by
 * following ARP, or knows neither: then only boot ids distinguish hosts.
 */
static uint64_t
bidctl_origin(struct xk_session *lls)
{
	struct xk_vnet_interface interface = { .index = 0 };
	uint64_t host, link;

	if (lls == NULL || xk_control(lls, XK_GET_PEER_HOST, &host) == 0 ||
	    xk_control(lls, XK_GET_PEER_LINK, &link) != 0)
		return 0;
	xk_control(lls, XK_VNET_GET_INTERFACE, &interface);
	return link | ((uint64_t)interface.index + 1) << 48;
}

/* Returns whether a message from this origin may be the peer's. */
static bool
bidctl_is_origin(const struct bidctl_peer *peer, uint64_t origin)
{
	return origin == peer->origin || origin == 0 || peer->origin == 0;
}

/* ---- boot ids in messages ---- */

/* As xk_bidctl_check or, where *boot is 0, xk_bidctl_known, for a message that came this way. The lock is held. */
static int
bidctl_compare(struct bidctl *b, uint32_t host, uint64_t *boot, uint64_t origin, struct bidctl_output *output)
{
	struct bidctl_peer *peer = bidctl_peer_find(b, host);
	int err = -EINPROGRESS;

	if (peer == NULL) {
		bidctl_stranger_ask(b, host, output);
		return err;
	}
	if (peer->notified != 0 && peer->notified == peer->boot && !peer->notifying &&
	    (*boot == 0 || *boot == peer->notified)) {
		*boot = peer->notified;
		if (bidctl_is_origin(peer, origin))
			return 0;
		err = -EREMCHG;
	}
	if (peer->asking) {
		peer->paid = true;
		return err;
	}
	if (xk_now_ns(&b->protocol) - peer->retry.begun_ns < b->interval_ns)
		xk_count(&b->protocol, BIDCTL_LIMITED);
	else
		bidctl_peer_ask(peer, output);
	return err;
}

static int
bidctl_check(struct xk_protocol *self, uint32_t host, uint64_t *boot, struct xk_session *lls)
{
	struct bidctl *b = (struct bidctl *)self;
	struct bidctl_output output = { .host = 0 };
	uint64_t origin = bidctl_origin(lls);
	int err;

	if (!xk_bidctl_is_host(host))
		return -EINVAL;
	xk_lock(&b->lock);
	err = bidctl_compare(b, host, boot, origin, &output);
	xk_unlock(&b->lock);
	bidctl_send_to_host(b, &output, lls);
	return err;
}

/*
 * Answers a QUERY, and asks in the same message if the host is unknown, or known by another boot or elsewhere. The
 * answer goes back down lls if that leads to the host alone, and otherwise where the host is, within the limit for
 * strangers: no station gets a boot id that is meant for a host elsewhere. For a host that is no peer the tag is
 * computed if the answer leads to it, or goes by IP to no neighbour.
 */
static void
bidctl_receive_query(struct bidctl *b, struct xk_session *lls, const struct bidctl_header *h)
{
	struct bidctl_output output = { .host = 0 };
	uint64_t origin = bidctl_origin(lls), boot = h->source_boot, host = h->source_host;
	/* over IP the VNET session below answers, for the station that frames came from */
	int leads_to = xk_control(lls, XK_VNET_LEADS_TO, &host);
	struct bidctl_peer *peer;
	bool is_limited;

	if (leads_to == -ENOTSUP)
		leads_to = xk_control(lls, XK_GET_PEER_HOST, &host) == 0 && host == h->source_host;
	xk_lock(&b->lock);
	peer = bidctl_peer_find(b, h->source_host);
	if (peer == NULL && (leads_to > 0 || (leads_to == -ENETUNREACH && origin == 0)))
		output.request = bidctl_tag(b, h->source_host, h->source_boot, 0);
	else if (peer == NULL || peer->boot != h->source_boot || !bidctl_is_origin(peer, origin))
		bidctl_compare(b, h->source_host, &boot, origin, &output);
	is_limited = peer == NULL && output.request == 0;
	xk_unlock(&b->lock);
	if (is_limited)
		return;
	output = (struct bidctl_output){ h->source_host, h->source_boot, output.request, h->request, false };
	if (leads_to > 0)
		bidctl_send(b, lls, &output);
	else
		bidctl_send_to_host(b, &output, lls);
}

/*
 * Confirms the boot in a RESPONSE and notifies watchers. First answers the query in it, if any, so that the host knows
 * us. Returns 0, or the reason to drop the message.
 */
static unsigned
bidctl_receive_response(struct bidctl *b, struct xk_session *lls, const struct bidctl_header *h)
{
	struct bidctl_output answer = { h->source_host, h->source_boot, 0, h->request, false };
	uint64_t origin = bidctl_origin(lls);
	struct bidctl_peer *peer;
	unsigned why = BIDCTL_UNASKED;

	if (h->destination_boot != bidctl_own(&b->protocol, h->source_host))
		return BIDCTL_STALE;
	xk_lock(&b->lock);
	peer = bidctl_peer_find(b, h->source_host);
	if (peer != NULL && peer->asking && peer->tag == h->reply) {
		why = bidctl_peer_become(peer, h->source_boot);
	} else if (peer == NULL && (h->reply == bidctl_tag(b, h->source_host, h->source_boot, 0) ||
				    h->reply == bidctl_tag(b, h->source_host, h->source_boot, 1) ||
				    bidctl_stranger_answers(b, h->source_host, h->reply))) {
		peer = bidctl_peer_get(b, h->source_host);
		why = peer == NULL ? BIDCTL_FULL : bidctl_peer_become(peer, h->source_boot);
		if (peer != NULL)
			peer->retry.begun_ns = xk_now_ns(&b->protocol);
	}
	if (why == 0) {
		xk_count(&b->protocol, BIDCTL_RESPONSES_IN);
		peer->asking = false;
		peer->boot = h->source_boot;
		peer->origin = origin;
		bidctl_peer_rest(peer);
		if (answer.reply != 0) {
			peer->holds++;
			xk_unlock(&b->lock);
			bidctl_send(b, lls, &answer);
			xk_lock(&b->lock);
			peer->holds--;
		}
		bidctl_notify(peer);
	}
	xk_unlock(&b->lock);
	return why;
}

/* Asks a host that has announced a boot, after a random wait because all its peers do so. */
static void
bidctl_receive_broadcast(struct bidctl *b, const struct bidctl_header *h)
{
	struct bidctl_peer *peer;

	xk_count(&b->protocol, BIDCTL_BROADCASTS_IN);
	xk_lock(&b->lock);
	peer = bidctl_peer_find(b, h->source_host);
	if (peer != NULL && peer->boot != h->source_boot && !peer->asking && !peer->suspected) {
		peer->suspected = true;
		bidctl_peer_schedule(peer, xk_random(&b->protocol) % (b->broadcast_wait_ns + 1));
	}
	xk_unlock(&b->lock);
}

static void
bidctl_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct bidctl *b = (struct bidctl *)self;
	struct bidctl_header h = bidctl_load(m->data);
	unsigned why = bidctl_header_check(&h, m->data);
	uint64_t host;

	xk_msg_pop_in_place(m, XK_HEADER_LEN(bidctl));
	if (why == 0 && ((xk_control(lls, XK_GET_MY_HOST, &host) == 0 && host == h.source_host) ||
			 (xk_control(lls, XK_GET_PEER_HOST, &host) == 0 && host != h.source_host)))
		why = BIDCTL_BAD_HOST;
	if (why == 0 && (h.flags & BIDCTL_RESPONSE) != 0)
		why = bidctl_receive_response(b, lls, &h);
	if (why != 0) {
		xk_drop(self, m, why);
		return;
	}
	xk_msg_free(m);
	if (h.flags == BIDCTL_BCAST)
		bidctl_receive_broadcast(b, &h);
	if ((h.flags & BIDCTL_QUERY) != 0)
		xk_count(self, BIDCTL_QUERIES_IN);
	if (h.flags == BIDCTL_QUERY)
		bidctl_receive_query(b, lls, &h);
}

/* ---- life ---- */

/* Announces this boot. */
static void
bidctl_boot(struct xk_event *event, void *argument)
{
	bidctl_send_to_host(argument, &(struct bidctl_output){ .host = UINT32_MAX }, NULL);
}

/* Nothing else runs. */
static void
bidctl_fini(struct xk_protocol *self)
{
	struct bidctl *b = (struct bidctl *)self;

	xk_event_cancel(&b->boot);
	for (uint32_t i = 0; b->buckets != NULL && i <= b->bucket_mask; i++) {
		struct bidctl_peer *peer;

		while ((peer = SLIST_FIRST(&b->buckets[i])) != NULL) {
			SLIST_REMOVE_HEAD(&b->buckets[i], next);
			xk_alarm_cancel(&peer->alarm);
			bidctl_peer_trim(peer, UINT64_MAX);
			free(peer);
		}
	}
	free(b->buckets);
	free(b->strangers);
}

static int
bidctl_init(struct xk_protocol *self)
{
	struct bidctl *b = (struct bidctl *)self;
	struct xk_participants anybody = { .remote.depth = 0 };
	uint32_t buckets = 1, sets = 1;
	int err = -ENOMEM;

	if (b->timeout_max_ns < b->timeout_ns)
		return -EINVAL;
	b->secret = xk_random(self);
	b->key[0] = xk_random(self);
	b->key[1] = xk_random(self);
	xk_lock_init(&b->lock, self);
	xk_event_init(&b->boot, self->kernel, bidctl_boot, b);
	while (buckets < b->peer_max && buckets < BIDCTL_BUCKETS_MAX)
		buckets *= 2;
	while (sets < b->stranger_count / BIDCTL_WAYS && sets < BIDCTL_BUCKETS_MAX)
		sets *= 2;
	b->bucket_mask = buckets - 1;
	b->set_mask = sets - 1;
	b->seed = xk_random(self) | 1;
	b->buckets = calloc(buckets, sizeof(*b->buckets));
	b->strangers = calloc((size_t)sets * BIDCTL_WAYS, sizeof(*b->strangers));
	if (b->buckets != NULL && b->strangers != NULL)
		err = xk_open_enable(self, self, xk_lower(self, 0), &anybody);
	if (err != 0)
		bidctl_fini(self);
	else if (b->broadcast)
		xk_event_schedule(&b->boot, 0);
	return err;
}

/* ---- promises ---- */

/* A shepherd that has a hold, and does not wait, may be in the midst of a change. */
static const char *
bidctl_peer_promise(const struct bidctl_peer *peer, bool at_rest)
{
	const struct bidctl *b = peer->bidctl;
	const struct bidctl_waiter *waiter;
	unsigned waiters = 0;
	bool is_settled;

	for (waiter = SLIST_FIRST(&peer->waiters); waiter != NULL; waiter = SLIST_NEXT(waiter, next))
		waiters++;
	is_settled = !peer->notifying && peer->holds == waiters;
	if (peer->asking && !xk_alarm_covers(&peer->alarm, peer->retry.due_ns))
		return "a question is unanswered without a timer";
	if (peer->asking && peer->retry.tries > b->retries)
		return "a question is repeated more often than `retries`";
	if (is_settled && peer->boot != peer->notified)
		return "watchers were not notified of a host's boot";
	if (is_settled && waiters > 0 && !peer->asking)
		return "a shepherd waits for a host that nobody asks";
	if (is_settled && !xk_alarm_covers(&peer->alarm, XK_NEVER) && (peer->uses == 0 || peer->suspected))
		return "a host has no timer to forget it, or to ask it";
	if (at_rest && peer->asking)
		return "a question is neither answered nor given up";
	return at_rest && peer->holds > 0 ? "a shepherd still waits for a host" : NULL;
}

static const char *
bidctl_promise(struct xk_protocol *self, bool at_rest)
{
	struct bidctl *b = (struct bidctl *)self;
	uint64_t peers = 0, ended = 0;
	const struct bidctl_peer *peer;
	const char *why = NULL;

	for (uint32_t i = 0; i <= b->bucket_mask && peers < b->peer_count; i++)
		for (peer = SLIST_FIRST(&b->buckets[i]); peer != NULL; peer = SLIST_NEXT(peer, next)) {
			peers++;
			ended += peer->ended_count;
			why = why == NULL ? bidctl_peer_promise(peer, at_rest) : why;
		}
	if (why == NULL && (peers != b->peer_count || ended != b->ended_count))
		why = "the number of hosts, or of their boots, is wrong";
	return why;
}

/* ---- tables ---- */

static const struct xk_bidctl_ops bidctl_neighbour_ops = {
	.own = bidctl_own,
	.watch = bidctl_watch,
	.confirm = bidctl_confirm,
	.check = bidctl_check,
	.use = bidctl_use,
	.unuse = bidctl_unuse,
};

static const struct xk_protocol_ops bidctl_ops = {
	.init = bidctl_init,
	.fini = bidctl_fini,
	.demux = bidctl_demux,
	.promise = bidctl_promise,
};

enum { BIDCTL_PEERS_MAX = 1 << 20 };

static const struct xk_setting bidctl_settings[] = {
	XK_SETTING(UINT, struct bidctl, peer_max, "peers", "maximum number of known hosts", .initial = "4096", .min = 1,
		   .max = BIDCTL_PEERS_MAX),
	XK_SETTING(UINT, struct bidctl, stranger_count, "strangers",
		   "maximum number of unknown hosts asked because of a message", .initial = "1024", .min = BIDCTL_WAYS,
		   .max = BIDCTL_PEERS_MAX),
	XK_SETTING(UINT, struct bidctl, stranger_rate, "stranger_rate",
		   "maximum number of questions per second to unknown hosts", .initial = "10000", .min = 1,
		   .max = 1000000),
	XK_SETTING(TIME, struct bidctl, timeout_ns, "timeout",
		   "initial time until a question is repeated, doubled each time", .initial = "200ms", .min = 1000,
		   .max = UINT64_C(60000000000)),
	XK_SETTING(TIME, struct bidctl, timeout_max_ns, "timeout_max", "longest time until a question is repeated",
		   .initial = "5s", .min = 1000, .max = UINT64_C(3600000000000)),
	XK_SETTING(UINT, struct bidctl, retries, "retries", "repetitions of a question before the host is given up",
		   .initial = "6", .max = 100),
	XK_SETTING(TIME, struct bidctl, interval_ns, "interval",
		   "minimum time between questions that one host's messages cause", .initial = "200ms", .min = 1000,
		   .max = UINT64_C(3600000000000)),
	XK_SETTING(TIME, struct bidctl, keepalive_ns, "keepalive",
		   "time between checks that a host in use is there; 0: never", .initial = "60s",
		   .max = UINT64_C(86400000000000)),
	XK_SETTING(TIME, struct bidctl, lifetime_ns, "lifetime", "how long an unused host is remembered",
		   .initial = "300s", .min = 1000, .max = UINT64_C(86400000000000)),
	XK_SETTING(BOOL, struct bidctl, broadcast, "broadcast", "announce this boot by broadcast", .initial = "yes"),
	XK_SETTING(TIME, struct bidctl, broadcast_wait_ns, "broadcast_wait",
		   "longest random wait before asking a host that broadcast its boot", .initial = "3s",
		   .max = UINT64_C(60000000000)),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_bidctl = {
	.name = "bidctl",
	.help = "Boot-id agreement: asks hosts for their boot ids and confirms them.",
	.ops = &bidctl_ops,
	.header = XK_HEADER_LEN(bidctl),
	.fields = bidctl_fields,
	.size = sizeof(struct bidctl),
	.offers = XK_CONTROL,
	.lowers = XK_ROLES({ "network", XK_ASYNC, NULL,
			     "carries messages to hosts: vnet, ip, or a protocol that chooses between them" }),
	.numbers = XK_NUMBERS({ "eth", 0x3006 }, { "ip", 205 }),
	.settings = bidctl_settings,
	.drops = bidctl_drops,
	.counters = bidctl_counters,
	.neighbour_ops = &bidctl_neighbour_ops,
};
