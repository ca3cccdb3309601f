/*
 * bidctl.c - which boot of a host is there now: asks hosts for their boot ids, and tells the protocols above of first
 * contacts, reboots and losses. bidctl.h is how it is asked; bidctl_peer.c has the tables of hosts, boot ids and tags.
 *
 * Promise:      Only a host's own answer to our question, known by a tag that nobody else can know, confirms a boot id.
 *               What a message says of itself only makes us ask. Each confirmed reboot is told once.
 * Boot ids:     a keyed hash of a secret and of the host that is told; key and secret are drawn at each boot. A host
 *               that is told one id cannot derive those that others are told, so it cannot speak for them even where
 *               addresses can be forged. Where the host counts its boots (xk_boots), the upper 24 bits are that count.
 * Spec:         our own, after x-kernel 3.2's, with 64-bit ids, tags, an end to retries, stateless answers, and LOST.
 *               QUERY (tag a) -> RESPONSE (a), of the same length. If the asker is no peer, or was known by another
 *               boot, the answer is a QUERY, too: QUERY (a) -> RESPONSE (a) with QUERY (b) -> RESPONSE (b). An asker
 *               that is no peer takes no memory: tag b is computed. Nobody answers the last message, so the exchange
 *               ends.
 * Asking:       hosts that somebody opens (confirm), that a message with a strange boot id came from (heard), that say
 *               to everybody that they have booted, and now and then those that are used. Hosts that never answered
 *               (strangers) have no timer and share a rate; only hosts that answer, or are being opened, take memory.
 * Ways:         A peer is where its latest answer came from: the tag shows that this station gets what is sent to the
 *               host. A message from another station does not count as the peer's and makes us ask; an answer from
 *               there moves the peer. No message for a host goes to another station that speaks for it, which would
 *               learn the host's boot ids (XK_VNET_LEADS_TO). Over IP no station is known, and boot ids alone decide.
 * Graph:        bid -> bidctl, chan -> bidctl; bidctl -> vnet, or ip. Sessions below open lazily: asking never waits.
 */
#include <errno.h>

#include "protocols/bid/bidctl_private.h"
#include "protocols/virtual/vnet.h"
#include "xkernel/bytes.h"
#include "xkernel/trace.h"

static const char *const bidctl_drops[] = { "bad_checksum", "bad_flags", "bad_boot", "bad_host",  "stale",
					    "unasked",      "full",      "ended",    "rebooting", NULL };

static const char *const bidctl_counters[] = {
	"queries_in",  "queries_out", "responses_in",   "responses_out", "broadcasts_in", "broadcasts_out",
	"retries",     "keepalives",  "first_contacts", "reboots",       "lost",          "forgotten",
	"unreachable", "limited",     "replaced",       "too_many",      "unsent",        "asked_back",
	NULL,
};

/* ---- the header ---- */

enum { BIDCTL_QUERY = 1, BIDCTL_RESPONSE = 2, BIDCTL_BCAST = 4 };

enum {
	BIDCTL_FLAGS = 0,
	BIDCTL_CHECKSUM = 2,
	BIDCTL_HOST = 4,
	BIDCTL_SOURCE = 8,
	BIDCTL_DESTINATION = 16,
	BIDCTL_REQUEST = 24,
	BIDCTL_REPLY = 32,
	BIDCTL_HEADER_LEN = 40,
};

struct bidctl_header {
	unsigned flags;
	uint32_t host;
	uint64_t source, destination; /* boot ids */
	uint64_t request, reply;      /* tags */
};

static const struct xk_field_value bidctl_flags[] = {
	{ BIDCTL_QUERY, "QUERY" }, { BIDCTL_RESPONSE, "RESPONSE" }, { BIDCTL_BCAST, "BCAST" }, { 0, NULL }
};

static const struct xk_field bidctl_fields[] = {
	{ .name = "flags", .bits = 16, .is_bits = true, .values = bidctl_flags },
	{ .name = "checksum", .bits = 16, .kind = XK_CHECKSUM, .print = XK_PRINT_HEX, .covers = XK_COVERS_HEADER },
	{ .name = "source_host", .bits = 32, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HOST },
	{ .name = "source_boot", .bits = 64, .print = XK_PRINT_HEX },
	{ .name = "destination_boot", .bits = 64, .print = XK_PRINT_HEX, .help = "0: not known" },
	{ .name = "request", .bits = 64, .print = XK_PRINT_HEX, .help = "tag of a question; 0: none" },
	{ .name = "reply", .bits = 64, .print = XK_PRINT_HEX, .help = "tag of an answer; 0: none" },
	{ .name = NULL },
};

static struct bidctl_header
bidctl_header_load(const uint8_t *p)
{
	return (struct bidctl_header){
		.flags = xk_get16(p + BIDCTL_FLAGS),
		.host = xk_get32(p + BIDCTL_HOST),
		.source = xk_get64(p + BIDCTL_SOURCE),
		.destination = xk_get64(p + BIDCTL_DESTINATION),
		.request = xk_get64(p + BIDCTL_REQUEST),
		.reply = xk_get64(p + BIDCTL_REPLY),
	};
}

/* Returns 0, or why no honest sender has made h, which lies at p. */
static unsigned
bidctl_header_check(const struct bidctl_header *h, const uint8_t *p)
{
	bool is_query = (h->flags & BIDCTL_QUERY) != 0, is_response = (h->flags & BIDCTL_RESPONSE) != 0;

	if (!xk_sum_is_intact(xk_sum(0, p, BIDCTL_HEADER_LEN)))
		return BIDCTL_BAD_CHECKSUM;
	if (h->flags != BIDCTL_BCAST && (h->flags == 0 || h->flags > (BIDCTL_QUERY | BIDCTL_RESPONSE)))
		return BIDCTL_BAD_FLAGS;
	if ((h->request != 0) != is_query || (h->reply != 0) != is_response)
		return BIDCTL_BAD_FLAGS;
	if (h->source == 0 || (is_response && h->destination == 0))
		return BIDCTL_BAD_BOOT;
	return xk_bidctl_is_host(h->host) ? 0 : BIDCTL_BAD_HOST;
}

/* ---- sending; no lock is held ---- */

/* Sends output down lls, from this boot of this host. A message lost here is replaced like one lost on the way. */
static void
bidctl_send(struct bidctl *b, struct xk_session *lls, const struct bidctl_output *output)
{
	static const enum bidctl_counter counters[] = { BIDCTL_BROADCASTS_OUT, BIDCTL_QUERIES_OUT, BIDCTL_RESPONSES_OUT,
							BIDCTL_RESPONSES_OUT };
	unsigned flags = (output->request != 0 ? BIDCTL_QUERY : 0) | (output->reply != 0 ? BIDCTL_RESPONSE : 0);
	struct xk_msg *m = xk_msg_new(xk_platform_of(&b->protocol), BIDCTL_HEADER_LEN);
	uint64_t host;

	if (flags == (BIDCTL_QUERY | BIDCTL_RESPONSE))
		xk_count(&b->protocol, BIDCTL_ASKED_BACK);
	if (m == NULL || xk_control(lls, XK_GET_MY_HOST, &host, sizeof(host)) != sizeof(host)) {
		xk_msg_free(m);
		xk_count(&b->protocol, BIDCTL_UNSENT);
		return;
	}
	xk_put16(m->data + BIDCTL_FLAGS, (uint16_t)(flags != 0 ? flags : BIDCTL_BCAST));
	xk_put16(m->data + BIDCTL_CHECKSUM, 0);
	xk_put32(m->data + BIDCTL_HOST, (uint32_t)host);
	xk_put64(m->data + BIDCTL_SOURCE, bidctl_own(&b->protocol, output->host == UINT32_MAX ? 0 : output->host));
	xk_put64(m->data + BIDCTL_DESTINATION, output->boot);
	xk_put64(m->data + BIDCTL_REQUEST, output->request);
	xk_put64(m->data + BIDCTL_REPLY, output->reply);
	xk_checksum_store(m->data + BIDCTL_CHECKSUM, xk_checksum_finish(xk_sum(0, m->data, BIDCTL_HEADER_LEN)));
	xk_count(&b->protocol, xk_push(lls, m) == 0 ? counters[flags] : BIDCTL_UNSENT);
}

/* Sends output, if it is to be sent, to where its host is. */
static void
bidctl_send_to_host(struct bidctl *b, const struct bidctl_output *output)
{
	struct xk_protocol *self = &b->protocol;
	struct xk_participants participants = { .remote = { 1, { output->host } } };
	struct xk_session *lls;

	if (output->host == 0)
		return;
	if (output->host != UINT32_MAX)
		xk_participant_push(&participants.local, XK_VNET_LAZY);
	if (xk_open(self, self, xk_lower(self, 0), &participants, &lls) != 0) {
		xk_count(self, BIDCTL_UNSENT);
		return;
	}
	bidctl_send(b, lls, output);
	xk_close(lls);
}

/* ---- telling ---- */

/*
 * Tells all watchers what has changed, then wakes the waiters, unless the host is being asked again. The lock is held
 * on both ends and not in between: another shepherd that confirms something meanwhile leaves it to this one to tell.
 */
static void
bidctl_tell(struct bidctl_peer *peer)
{
	static const char *const names[] = { "first contact with", "reboot of", "lost" };
	struct bidctl *b = peer->bidctl;
	struct bidctl_waiter *waiter;
	char host[16];

	if (peer->telling)
		return;
	peer->telling = true;
	peer->holds++;
	while (peer->told != peer->boot) {
		struct xk_bidctl_peer known = { peer->host, peer->boot };
		enum xk_bidctl_change change = XK_BIDCTL_LOST;

		if (known.boot != 0) {
			change = peer->told == 0 ? XK_BIDCTL_FIRST_CONTACT : XK_BIDCTL_REBOOTED;
			xk_count(&b->protocol, peer->told == 0 ? BIDCTL_FIRST_CONTACTS : BIDCTL_REBOOTS);
		}
		xk_unlock(&b->lock);
		xk_trace(&b->protocol, XK_TRACE_EVENTS, "%s %s, boot %016llx", names[change],
			 xk_host_print(known.host, host), (unsigned long long)known.boot);
		for (struct xk_bidctl_watcher *watcher = b->watchers; watcher != NULL; watcher = watcher->next)
			watcher->changed(watcher, change, &known);
		xk_lock(&b->lock);
		peer->told = known.boot;
	}
	peer->holds--;
	peer->telling = false;
	if (peer->told == 0 && peer->asking)
		return;
	while ((waiter = SLIST_FIRST(&peer->waiters)) != NULL) {
		SLIST_REMOVE_HEAD(&peer->waiters, next);
		waiter->done = true;
		waiter->boot = peer->told;
		xk_semaphore_signal(&waiter->semaphore);
	}
}

/* ---- a peer's timer ---- */

/* Asks, forgets an unused peer, or gives up one that does not answer. The lock is held. */
static void
bidctl_act(struct bidctl_peer *peer, struct bidctl_output *output)
{
	struct bidctl *b = peer->bidctl;

	if (peer->asking && peer->tries < b->retries) {
		xk_count(&b->protocol, BIDCTL_RETRIES);
		bidctl_peer_ask(peer, output);
	} else if (peer->asking) {
		xk_count(&b->protocol, peer->boot != 0 ? BIDCTL_LOSSES : BIDCTL_UNREACHABLE);
		if (peer->boot != 0)
			peer->lost_ns = xk_now_ns(&b->protocol);
		peer->asking = false;
		peer->boot = 0;
		bidctl_tell(peer);
	} else if (peer->suspected) {
		bidctl_peer_ask(peer, output);
	} else if (peer->uses == 0) {
		if (peer->boot != 0) {
			xk_count(&b->protocol, BIDCTL_FORGOTTEN);
			peer->last = 0;
		}
		peer->boot = 0;
		bidctl_tell(peer);
	} else if (b->keepalive_ns != 0 && peer->boot != 0) {
		xk_count(&b->protocol, BIDCTL_KEEPALIVES);
		bidctl_peer_ask(peer, output);
	}
}

/*
 * Acts, then removes a peer of which nothing is known and that nobody uses. It stays for a while if one of its boots
 * has ended lately, or a shepherd is still using it.
 */
static void
bidctl_timeout(struct xk_event *event, void *argument)
{
	struct bidctl_peer *peer = argument;
	struct bidctl *b = peer->bidctl;
	struct bidctl_output output = { .host = 0 };
	uint64_t now_ns, remembers_ns;

	(void)event;
	xk_lock(&b->lock);
	peer->pending = false;
	peer->holds++;
	now_ns = xk_now_ns(&b->protocol);
	if (now_ns < peer->due_ns)
		bidctl_peer_schedule(peer, peer->due_ns - now_ns);
	else
		bidctl_act(peer, &output);
	xk_unlock(&b->lock);
	bidctl_send_to_host(b, &output);
	xk_lock(&b->lock);
	peer->holds--;
	if (!peer->pending && peer->uses == 0 && !peer->asking && peer->boot == 0 && peer->told == 0) {
		remembers_ns = bidctl_peer_remembers(peer);
		if (remembers_ns == 0 && peer->holds == 0 && SLIST_EMPTY(&peer->waiters))
			bidctl_peer_forget(peer);
		else
			bidctl_peer_schedule(peer, remembers_ns != 0 ? remembers_ns : b->timeout_ns);
	}
	xk_unlock(&b->lock);
}

/* ---- questions from above ---- */

/* Finds the peer's boot, or asks and waits until the peer is told of or given up. */
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
	if (peer != NULL && peer->told != 0 && !peer->telling) {
		*boot = peer->told;
		err = 0;
	} else if (peer != NULL) {
		if (peer->boot == 0 && !peer->asking)
			bidctl_peer_ask(peer, &output);
		xk_semaphore_init(&waiter.semaphore, self, 0);
		SLIST_INSERT_HEAD(&peer->waiters, &waiter, next);
		peer->holds++;
		xk_unlock(&b->lock);
		bidctl_send_to_host(b, &output);
		err = xk_semaphore_wait(&waiter.semaphore, XK_FOREVER);
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
 * Returns the station and interface that lls brings messages from. 0: lls knows its host, by address (IP) or by
 * following ARP, or it knows neither; then only boot ids tell hosts apart.
 */
static uint64_t
bidctl_way(struct xk_session *lls)
{
	struct xk_vnet_interface interface = { .index = 0 };
	uint64_t host, link;

	if (lls == NULL || xk_control(lls, XK_GET_PEER_HOST, &host, sizeof(host)) == sizeof(host) ||
	    xk_control(lls, XK_GET_PEER_LINK, &link, sizeof(link)) != sizeof(link))
		return 0;
	xk_control(lls, XK_VNET_GET_INTERFACE, &interface, sizeof(interface));
	return link | ((uint64_t)interface.index + 1) << 48;
}

/* Returns whether a message that came this way may be the peer's. */
static bool
bidctl_is_way(const struct bidctl_peer *peer, uint64_t way)
{
	return way == peer->way || way == 0 || peer->way == 0;
}

/* Makes ARP look for host, whose message lls has brought, before something is sent to it. */
static void
bidctl_doubt(struct xk_session *lls, uint64_t host)
{
	if (lls != NULL)
		xk_control(lls, XK_VNET_DOUBT, &host, sizeof(host));
}

/*
 * Returns whether a message pushed on lls goes to host alone: as XK_VNET_LEADS_TO. Over IP the VNET session below
 * answers, for the station that frames came from.
 */
static int
bidctl_leads_to(struct xk_session *lls, uint64_t host)
{
	int leads_to = xk_control(lls, XK_VNET_LEADS_TO, &host, sizeof(host));
	uint64_t peer;

	if (leads_to != -ENOTSUP)
		return leads_to;
	return xk_control(lls, XK_GET_PEER_HOST, &peer, sizeof(peer)) == sizeof(peer) && peer == host;
}

/* ---- what a message says of its sender ---- */

/* As xk_bidctl_heard and, where *boot is 0, xk_bidctl_known, for a message that came this way. The lock is held. */
static int
bidctl_heard(struct bidctl *b, uint32_t host, uint64_t *boot, uint64_t way, struct bidctl_output *output)
{
	struct bidctl_peer *peer = bidctl_peer_find(b, host);
	int err = -EINPROGRESS;

	if (peer == NULL) {
		bidctl_stranger_heard(b, host, output);
		return err;
	}
	if (peer->told != 0 && peer->told == peer->boot && !peer->telling && (*boot == 0 || *boot == peer->told)) {
		*boot = peer->told;
		if (bidctl_is_way(peer, way))
			return 0;
		err = -EREMCHG;
	}
	if (peer->asking)
		return err;
	if (xk_now_ns(&b->protocol) - peer->asked_ns < b->interval_ns)
		xk_count(&b->protocol, BIDCTL_LIMITED);
	else
		bidctl_peer_ask(peer, output);
	return err;
}

static int
bidctl_hear(struct xk_protocol *self, uint32_t host, uint64_t *boot, struct xk_session *lls)
{
	struct bidctl *b = (struct bidctl *)self;
	struct bidctl_output output = { .host = 0 };
	uint64_t way = bidctl_way(lls);
	int err;

	if (!xk_bidctl_is_host(host))
		return -EINVAL;
	xk_lock(&b->lock);
	err = bidctl_heard(b, host, boot, way, &output);
	xk_unlock(&b->lock);
	if (output.request != 0)
		bidctl_doubt(lls, host);
	bidctl_send_to_host(b, &output);
	return err;
}

/*
 * A host asks: answers, and asks in turn in the same message if the host is unknown, or known by another boot or
 * elsewhere. The message goes where the question came from if that leads to the host alone, and otherwise where the
 * host is, within the limit for strangers: no station gets a boot id that is meant for a host elsewhere. For a host
 * that is no peer the tag is computed if the answer leads to it, or goes by IP to no neighbour.
 */
static void
bidctl_hear_query(struct bidctl *b, struct xk_session *lls, const struct bidctl_header *h)
{
	struct bidctl_output output = { .host = 0 };
	uint64_t way = bidctl_way(lls), boot = h->source;
	int leads_to = bidctl_leads_to(lls, h->host);
	struct bidctl_peer *peer;
	bool is_limited;

	xk_lock(&b->lock);
	peer = bidctl_peer_find(b, h->host);
	if (peer == NULL && (leads_to > 0 || (leads_to == -ENETUNREACH && way == 0)))
		output.request = bidctl_tag(b, h->host, h->source, 0);
	else if (peer == NULL || peer->boot != h->source || !bidctl_is_way(peer, way))
		bidctl_heard(b, h->host, &boot, way, &output);
	is_limited = peer == NULL && output.request == 0;
	xk_unlock(&b->lock);
	if (is_limited)
		return;
	output = (struct bidctl_output){ h->host, h->source, output.request, h->request };
	if (leads_to > 0) {
		bidctl_send(b, lls, &output);
		return;
	}
	if (output.request != 0)
		bidctl_doubt(lls, h->host);
	bidctl_send_to_host(b, &output);
}

/* Returns the peer whose question h answers; NULL and why there is none. The lock is held. */
static struct bidctl_peer *
bidctl_answered(struct bidctl *b, const struct bidctl_header *h, unsigned *why)
{
	struct bidctl_peer *peer = bidctl_peer_find(b, h->host);

	if (peer != NULL && peer->asking && peer->tag == h->reply)
		return peer;
	*why = BIDCTL_UNASKED;
	if (peer != NULL ||
	    (h->reply != bidctl_tag(b, h->host, h->source, 0) && h->reply != bidctl_tag(b, h->host, h->source, 1) &&
	     !bidctl_stranger_answers(b, h->host, h->reply)))
		return NULL;
	peer = bidctl_peer_get(b, h->host);
	*why = BIDCTL_FULL;
	if (peer != NULL)
		peer->asked_ns = xk_now_ns(&b->protocol);
	return peer;
}

/*
 * A host answers: confirms its boot and tells it. Answers a question in the answer first, so that the host knows us.
 * Returns 0, or the reason to drop the message.
 */
static unsigned
bidctl_hear_response(struct bidctl *b, struct xk_session *lls, const struct bidctl_header *h)
{
	struct bidctl_output answer = { h->host, h->source, 0, h->request };
	uint64_t way = bidctl_way(lls);
	struct bidctl_peer *peer;
	unsigned why = 0;

	if (h->destination != bidctl_own(&b->protocol, h->host))
		return BIDCTL_STALE;
	xk_lock(&b->lock);
	peer = bidctl_answered(b, h, &why);
	if (peer != NULL)
		why = bidctl_peer_become(peer, h->source);
	if (why == 0) {
		xk_count(&b->protocol, BIDCTL_RESPONSES_IN);
		peer->asking = false;
		peer->boot = h->source;
		peer->way = way;
		bidctl_peer_rest(peer);
		if (answer.reply != 0) {
			peer->holds++;
			xk_unlock(&b->lock);
			bidctl_send(b, lls, &answer);
			xk_lock(&b->lock);
			peer->holds--;
		}
		bidctl_tell(peer);
	}
	xk_unlock(&b->lock);
	return why;
}

/* A host says that it has booted: asks it after a random wait, because all that know it do. */
static void
bidctl_hear_broadcast(struct bidctl *b, const struct bidctl_header *h)
{
	struct bidctl_peer *peer;

	xk_count(&b->protocol, BIDCTL_BROADCASTS_IN);
	xk_lock(&b->lock);
	peer = bidctl_peer_find(b, h->host);
	if (peer != NULL && peer->boot != h->source && !peer->asking && !peer->suspected) {
		peer->suspected = true;
		bidctl_peer_schedule(peer, xk_random(&b->protocol) % (b->broadcast_wait_ns + 1));
	}
	xk_unlock(&b->lock);
}

static void
bidctl_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct bidctl *b = (struct bidctl *)self;
	struct bidctl_header h = bidctl_header_load(m->data);
	unsigned why = bidctl_header_check(&h, m->data);
	uint64_t host;

	xk_msg_pop_in_place(m, BIDCTL_HEADER_LEN);
	if (why == 0 && ((xk_control(lls, XK_GET_MY_HOST, &host, sizeof(host)) == sizeof(host) && host == h.host) ||
			 (xk_control(lls, XK_GET_PEER_HOST, &host, sizeof(host)) == sizeof(host) && host != h.host)))
		why = BIDCTL_BAD_HOST;
	if (why == 0 && (h.flags & BIDCTL_RESPONSE) != 0)
		why = bidctl_hear_response(b, lls, &h);
	if (why != 0) {
		xk_drop(self, m, why);
		return;
	}
	xk_msg_free(m);
	if (h.flags == BIDCTL_BCAST)
		bidctl_hear_broadcast(b, &h);
	if ((h.flags & BIDCTL_QUERY) != 0)
		xk_count(self, BIDCTL_QUERIES_IN);
	if (h.flags == BIDCTL_QUERY)
		bidctl_hear_query(b, lls, &h);
}

/* ---- life ---- */

/* Tells everybody of this boot, before anything else is done. */
static void
bidctl_boot(struct xk_event *event, void *argument)
{
	(void)event;
	bidctl_send_to_host(argument, &(struct bidctl_output){ .host = UINT32_MAX });
}

static void
bidctl_fini(struct xk_protocol *self)
{
	struct bidctl *b = (struct bidctl *)self;

	xk_event_cancel(&b->boot);
	bidctl_peer_fini(b);
}

static int
bidctl_init(struct xk_protocol *self)
{
	struct bidctl *b = (struct bidctl *)self;
	struct xk_participants anybody = { .remote.depth = 0 };
	int err;

	if (b->timeout_max_ns < b->timeout_ns)
		return -EINVAL;
	b->secret = xk_random(self);
	b->key[0] = xk_random(self);
	b->key[1] = xk_random(self);
	xk_lock_init(&b->lock, self);
	xk_event_init(&b->boot, self->kernel, bidctl_boot, b);
	err = bidctl_peer_init(b, bidctl_timeout);
	if (err == 0)
		err = xk_open_enable(self, self, xk_lower(self, 0), &anybody);
	if (err != 0)
		bidctl_peer_fini(b);
	else if (b->broadcast)
		xk_event_schedule(&b->boot, 0);
	return err;
}

/* ---- tables ---- */

static const struct xk_bidctl_ops bidctl_neighbour_ops = {
	.own = bidctl_own,
	.watch = bidctl_watch,
	.confirm = bidctl_confirm,
	.heard = bidctl_hear,
	.use = bidctl_use,
	.unuse = bidctl_unuse,
};

static const struct xk_protocol_ops bidctl_ops = {
	.init = bidctl_init,
	.fini = bidctl_fini,
	.demux = bidctl_demux,
};

static const struct xk_role bidctl_lowers[] = {
	{ "network", XK_ASYNC, NULL, "carries messages to hosts; vnet, ip, or what chooses between them" },
	{ NULL, 0, NULL, NULL },
};

enum { BIDCTL_PEERS_MAX = 1 << 20 };

static const struct xk_setting bidctl_settings[] = {
	{ "peers", XK_SETTING_UINT, offsetof(struct bidctl, peer_max), "4096", "hosts that are known, at most", 1,
	  BIDCTL_PEERS_MAX },
	{ "strangers", XK_SETTING_UINT, offsetof(struct bidctl, stranger_count), "1024",
	  "hosts that were asked because of a message and have not answered yet", BIDCTL_WAYS, BIDCTL_PEERS_MAX },
	{ "stranger_rate", XK_SETTING_UINT, offsetof(struct bidctl, stranger_rate), "10000",
	  "questions to them per second, to all together", 1, 1000000 },
	{ "timeout", XK_SETTING_TIME, offsetof(struct bidctl, timeout_ns), "200ms",
	  "after this without an answer a question is repeated, at first", 1000, UINT64_C(60000000000) },
	{ "timeout_max", XK_SETTING_TIME, offsetof(struct bidctl, timeout_max_ns), "5s",
	  "the longest that doubling makes of it", 1000, UINT64_C(3600000000000) },
	{ "retries", XK_SETTING_UINT, offsetof(struct bidctl, retries), "6",
	  "how often a question is repeated before the host is given up", 0, 100 },
	{ "interval", XK_SETTING_TIME, offsetof(struct bidctl, interval_ns), "200ms",
	  "a host is asked at most once in this, whatever comes from it", 1000, UINT64_C(3600000000000) },
	{ "keepalive", XK_SETTING_TIME, offsetof(struct bidctl, keepalive_ns), "60s",
	  "how often a host that is used is asked whether it is there; 0: never", 0, UINT64_C(86400000000000) },
	{ "lifetime", XK_SETTING_TIME, offsetof(struct bidctl, lifetime_ns), "300s",
	  "how long a host is remembered that nobody uses", 1000, UINT64_C(86400000000000) },
	{ "broadcast", XK_SETTING_BOOL, offsetof(struct bidctl, broadcast), "yes", "tell everybody of this boot", 0,
	  0 },
	{ "broadcast_wait", XK_SETTING_TIME, offsetof(struct bidctl, broadcast_wait_ns), "3s",
	  "who is told asks after a random time, this at most", 0, UINT64_C(60000000000) },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const struct xk_number_on bidctl_numbers[] = { { "eth", 0x3006 }, { "ip", 205 }, { NULL, 0 } };

const struct xk_protocol_type xk_type_bidctl = {
	.name = "bidctl",
	.help = "Boot-id agreement: which boot of a host is there now, asked for and confirmed.",
	.ops = &bidctl_ops,
	.header = BIDCTL_HEADER_LEN,
	.fields = bidctl_fields,
	.size = sizeof(struct bidctl),
	.offers = XK_CONTROL,
	.lowers = bidctl_lowers,
	.numbers = bidctl_numbers,
	.settings = bidctl_settings,
	.drops = bidctl_drops,
	.counters = bidctl_counters,
	.neighbour_ops = &bidctl_neighbour_ops,
};
