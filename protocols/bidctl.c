/*
 * bidctl.c - which boot of a host is there now: asks hosts for their boot ids, and tells the protocols above of first
 * contacts, reboots and losses. bidctl_peer.c has what is known of which host, bidctl_tag.c the tags of questions that
 * nobody remembers; bidctl.h is how it is asked.
 *
 * Promise:      Only a host's own answer to a question of ours, known by a tag that nobody else can know, confirms a boot
 *               id; what a message says of itself never does, it makes us ask. Each reboot that is confirmed is told once.
 * Boot ids:     64 bits, drawn at each boot, never 0. Where the host counts its boots (xk_boots) the upper 24 bits are that
 *               count and the rest is random; else all are random. No clock has a part in it: two boots within a tick of
 *               one, or after one was set back, differ like any other two.
 * Spec:         our own, after x-kernel 3.2's; a 40-byte header and nothing behind it:
 *
 *                0            2             4                    8
 *               +------------+-------------+--------------------+----------------------------------------+
 *               | flags      | checksum    | source host        | source's boot id (8 bytes)             |
 *               +------------+-------------+--------------------+----------------------------------------+
 *               | destination's boot id (8 bytes, 0: not known) | tag of a question (8 bytes, 0: none)   |
 *               +-----------------------------------------------+----------------------------------------+
 *               | tag of an answer (8 bytes, 0: none)           |
 *
 *               flags: QUERY 1, RESPONSE 2, BCAST 4 (alone: "I have booted"). The checksum is RFC 1071's.
 * Exchange:     QUERY (tag) -> RESPONSE (that tag, the destination's boot id being the one the QUERY came from). Every QUERY
 *               is answered, without any memory of who asked, by one message of the same length, back where it came from.
 *               Of an asker that is no peer, or was known by another boot, the answer asks in turn, so that he is known
 *               before his first message comes:
 *
 *               QUERY (tag a) -> RESPONSE (a) and QUERY (tag b), in one message -> RESPONSE (b)
 *
 *               Of who is no peer tag b is not remembered but computed from his host and boot id, a key and the time, and is
 *               good for a short while; only he who has received it takes memory. What is both answer and question is
 *               answered by a RESPONSE alone, and only if its own answer is right, so that nothing goes on for ever. If the
 *               last message is lost, the first one above is dropped by BID, and makes us ask.
 * Asking:       hosts that somebody opens (confirm), that a message with a strange boot id has come from (heard), that say
 *               to everybody that they have booted (after a random wait), and now and then those that somebody uses. A
 *               question is repeated after `timeout`, twice that and so on up to `timeout_max`, `retries` times; then the
 *               host is unreachable, or lost. A host is asked once in an `interval` at most, whatever strangers say of it.
 * Strangers:    who was never heard of before, and has not answered, has a place in a table of fixed size (`strangers`),
 *               no timer, and a part in a common `stranger_rate`. Only hosts that have answered, or are being opened, take
 *               memory: `peers` of them at most, 144 bytes each.
 * Participants: none; BIDCTL is asked by control. Below: hosts, opened lazily (vnet.h), so that asking never waits
 * Hosts:        a host is the address that its messages bear. Where the session below knows its peer's host it must be the
 *               same one; over VNET it is believed when it has been confirmed, since the question goes to whom ARP knows. So an
 *               answer to a stranger is a question, too, only where it goes there (XK_VNET_LEADS_TO). If ARP does not know
 *               him it has to, first, and both are sent where he is, as one of the questions to strangers; if it knows
 *               him elsewhere, the answer goes where the question came from, and the question where he is.
 * Telling:      uppers first (bidctl.h), by the shepherd that brought the answer, without the lock; what is confirmed
 *               meanwhile of the same host is told when it is done.
 * Settings:     peers, strangers, stranger_rate, timeout, timeout_max, retries, interval, keepalive, lifetime (longer than a
 *               message may be under way, so that nothing of a forgotten host is left), broadcast, broadcast_wait
 * Drops:        bad_checksum, bad_flags (or tags that they cannot have), bad_boot (none), bad_host (no single host, this one,
 *               or not the one below knows), stale (an answer to a former boot of this host), unasked (an answer to no
 *               question, or a second one), full (a stranger's answer: there are as many as `peers`)
 * Counters:     queries_in, queries_out, responses_in, responses_out, broadcasts_in, broadcasts_out, retries, keepalives;
 *               first_contacts, reboots, lost, forgotten (not used for long) as told; unreachable (asked in vain), limited
 *               (questions not asked), replaced (strangers that lost their place), too_many (peers that found no room), unsent,
 *               asked_back (responses_out that were questions, too)
 * Differs:      from x-kernel 3.2: ids of 64 bits and not a clock's seconds, a byte order, tags that cannot be guessed, an
 *               end to retries, answers without state, and LOST.
 * Graph:        bid -> bidctl, chan -> bidctl; bidctl -> vnet, or ip
 */
#include <errno.h>

#include "protocols/bidctl_private.h"
#include "protocols/vnet.h"
#include "xkernel/bytes.h"
#include "xkernel/trace.h"

static const char *const bidctl_drops[] = { "bad_checksum", "bad_flags", "bad_boot", "bad_host",
					    "stale",        "unasked",   "full",     NULL };

static const char *const bidctl_counters[] = {
	"queries_in",  "queries_out", "responses_in",   "responses_out", "broadcasts_in", "broadcasts_out",
	"retries",     "keepalives",  "first_contacts", "reboots",       "lost",          "forgotten",
	"unreachable", "limited",     "replaced",       "too_many",      "unsent",        "asked_back",
	NULL,
};

/* ---- messages ---- */

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

enum { BIDCTL_QUERY = 1, BIDCTL_RESPONSE = 2, BIDCTL_BCAST = 4 };

struct bidctl_header {
	unsigned flags;
	uint32_t host;
	uint64_t source, destination; /* boot ids */
	uint64_t request, reply;      /* tags */
};

static struct bidctl *
bidctl_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct bidctl, protocol);
}

/* Whether it may be a single host's address. */
static bool
bidctl_is_host(uint32_t host)
{
	return host >> 24 != 0 && host >> 28 < 0xe;
}

/* 0, or why no honest sender has made this. */
static unsigned
bidctl_header_check(const struct bidctl_header *h)
{
	bool is_query = (h->flags & BIDCTL_QUERY) != 0, is_response = (h->flags & BIDCTL_RESPONSE) != 0;

	if (h->flags != BIDCTL_BCAST && (h->flags == 0 || h->flags > (BIDCTL_QUERY | BIDCTL_RESPONSE)))
		return BIDCTL_BAD_FLAGS;
	if ((h->request != 0) != is_query || (h->reply != 0) != is_response)
		return BIDCTL_BAD_FLAGS;
	if (h->source == 0 || (is_response && h->destination == 0))
		return BIDCTL_BAD_BOOT;
	return bidctl_is_host(h->host) ? 0 : BIDCTL_BAD_HOST;
}

/* Takes the header off *m, and checks it. 0, or the reason to drop *m. */
static unsigned
bidctl_header_pop(struct bidctl_header *h, struct xk_msg **m)
{
	const uint8_t *p = xk_msg_pop(m, BIDCTL_HEADER_LEN);

	if (p == NULL)
		return xk_msg_len(*m) < BIDCTL_HEADER_LEN ? XK_DROP_SHORT : XK_DROP_NO_BUFFER;
	if (!xk_sum_is_intact(xk_sum(0, p, BIDCTL_HEADER_LEN)))
		return BIDCTL_BAD_CHECKSUM;
	h->flags = xk_get16(p + BIDCTL_FLAGS);
	h->host = xk_get32(p + BIDCTL_HOST);
	h->source = xk_get64(p + BIDCTL_SOURCE);
	h->destination = xk_get64(p + BIDCTL_DESTINATION);
	h->request = xk_get64(p + BIDCTL_REQUEST);
	h->reply = xk_get64(p + BIDCTL_REPLY);
	return bidctl_header_check(h);
}

static void
bidctl_header_store(uint8_t *p, const struct bidctl_header *h)
{
	xk_put16(p + BIDCTL_FLAGS, (uint16_t)h->flags);
	xk_put16(p + BIDCTL_CHECKSUM, 0);
	xk_put32(p + BIDCTL_HOST, h->host);
	xk_put64(p + BIDCTL_SOURCE, h->source);
	xk_put64(p + BIDCTL_DESTINATION, h->destination);
	xk_put64(p + BIDCTL_REQUEST, h->request);
	xk_put64(p + BIDCTL_REPLY, h->reply);
	xk_checksum_store(p + BIDCTL_CHECKSUM, xk_checksum_finish(xk_sum(0, p, BIDCTL_HEADER_LEN)));
}

/* ---- sending; the lock is not held ---- */

/* Sends h, as this boot of this host. What is lost here is asked for again, like what is lost on its way. */
static void
bidctl_send(struct bidctl *b, struct xk_session *lls, struct bidctl_header *h, enum bidctl_counter counter)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(&b->protocol), BIDCTL_HEADER_LEN);
	uint64_t host;

	if (m == NULL || xk_control(lls, XK_GET_MY_HOST, &host, sizeof(host)) != sizeof(host)) {
		xk_msg_free(m);
		xk_count(&b->protocol, BIDCTL_UNSENT);
		return;
	}
	h->host = (uint32_t)host;
	h->source = b->own;
	bidctl_header_store(m->data, h);
	xk_count(&b->protocol, xk_push(lls, m) == 0 ? counter : BIDCTL_UNSENT);
}

/* Opens a session to host and sends h there. Only where participants say so it may wait. */
static void
bidctl_send_to(struct bidctl *b, struct xk_participants participants, struct bidctl_header *h,
	       enum bidctl_counter counter)
{
	struct xk_protocol *self = &b->protocol;
	struct xk_session *lls;

	if (xk_open(self, self, xk_lower(self, 0), &participants, &lls) != 0) {
		xk_count(self, BIDCTL_UNSENT);
		return;
	}
	bidctl_send(b, lls, h, counter);
	xk_close(lls);
}

static void
bidctl_send_question(struct bidctl *b, const struct bidctl_question *question)
{
	struct bidctl_header h = { .flags = BIDCTL_QUERY, .destination = question->boot, .request = question->tag };
	struct xk_participants participants = { .local = { 1, { XK_VNET_LAZY } } };

	if (question->tag == 0)
		return;
	if (question->answers != 0) {
		h.flags |= BIDCTL_RESPONSE;
		h.reply = question->answers;
		xk_count(&b->protocol, BIDCTL_ASKED_BACK);
	}
	xk_participant_push(&participants.remote, question->host);
	bidctl_send_to(b, participants, &h, question->answers != 0 ? BIDCTL_RESPONSES_OUT : BIDCTL_QUERIES_OUT);
}

/* tag 0: the answer asks nothing. */
static void
bidctl_answer(struct bidctl *b, struct xk_session *lls, const struct bidctl_header *asked, uint64_t tag)
{
	struct bidctl_header h = {
		.flags = BIDCTL_RESPONSE, .destination = asked->source, .request = tag, .reply = asked->request
	};

	if (tag != 0) {
		h.flags |= BIDCTL_QUERY;
		xk_count(&b->protocol, BIDCTL_ASKED_BACK);
	}
	bidctl_send(b, lls, &h, BIDCTL_RESPONSES_OUT);
}

/* ---- telling; the lock is held on both ends, and not in between ---- */

static enum xk_bidctl_change
bidctl_change(struct bidctl_peer *peer)
{
	struct xk_protocol *self = &peer->bidctl->protocol;

	if (peer->boot == 0)
		return XK_BIDCTL_LOST;
	xk_count(self, peer->told == 0 ? BIDCTL_FIRST_CONTACTS : BIDCTL_REBOOTS);
	return peer->told == 0 ? XK_BIDCTL_FIRST_CONTACT : XK_BIDCTL_REBOOTED;
}

static void
bidctl_tell_change(struct bidctl_peer *peer)
{
	static const char *const names[] = { "first contact with", "reboot of", "lost" };
	struct bidctl *b = peer->bidctl;
	struct xk_bidctl_peer known = { peer->host, peer->boot };
	enum xk_bidctl_change change = bidctl_change(peer);
	char host[16];

	xk_unlock(&b->lock);
	xk_trace(&b->protocol, XK_TRACE_EVENTS, "%s %s, boot %016llx", names[change], xk_host_print(known.host, host),
		 (unsigned long long)known.boot);
	for (struct xk_bidctl_watcher *watcher = b->watchers; watcher != NULL; watcher = watcher->next)
		watcher->changed(watcher, change, &known);
	xk_lock(&b->lock);
	peer->told = known.boot;
}

/* All watchers are told what has changed; then who waits goes on, unless the host is being asked again. */
static void
bidctl_tell(struct bidctl_peer *peer)
{
	if (peer->telling)
		return; /* who does goes on */
	peer->telling = true;
	peer->holds++;
	while (peer->told != peer->boot)
		bidctl_tell_change(peer);
	peer->holds--;
	peer->telling = false;
	if (peer->told != 0 || !peer->asking)
		bidctl_peer_wake(peer);
}

/* ---- a peer's timer ---- */

/* The last question has not been answered. */
static void
bidctl_give_up(struct bidctl_peer *peer)
{
	struct bidctl *b = peer->bidctl;

	peer->asking = false;
	xk_count(&b->protocol, peer->boot != 0 ? BIDCTL_LOSSES : BIDCTL_UNREACHABLE);
	peer->boot = 0;
	bidctl_tell(peer);
}

/* Nothing is being asked. */
static void
bidctl_look(struct bidctl_peer *peer, struct bidctl_question *question)
{
	struct bidctl *b = peer->bidctl;

	if (peer->suspected) {
		bidctl_peer_ask(peer, question);
	} else if (peer->uses == 0) {
		if (peer->boot != 0)
			xk_count(&b->protocol, BIDCTL_FORGOTTEN);
		peer->boot = 0;
		bidctl_tell(peer);
	} else if (b->keepalive_ns != 0 && peer->boot != 0) {
		xk_count(&b->protocol, BIDCTL_KEEPALIVES);
		bidctl_peer_ask(peer, question);
	}
}

static void
bidctl_act(struct bidctl_peer *peer, struct bidctl_question *question)
{
	struct bidctl *b = peer->bidctl;
	uint64_t now_ns = xk_now_ns(&b->protocol);

	if (now_ns < peer->due_ns) {
		bidctl_peer_schedule(peer, peer->due_ns - now_ns);
	} else if (!peer->asking) {
		bidctl_look(peer, question);
	} else if (peer->tries < b->retries) {
		xk_count(&b->protocol, BIDCTL_RETRIES);
		bidctl_peer_ask_again(peer, question);
	} else {
		bidctl_give_up(peer);
	}
}

/* Of whom nothing is known, and nobody wants to know anything, goes; or a little later, if a shepherd is still at it. */
static void
bidctl_end(struct bidctl_peer *peer)
{
	if (peer->pending || peer->uses != 0 || peer->asking || peer->boot != 0 || peer->told != 0)
		return;
	if (peer->holds == 0 && peer->waiters == NULL)
		bidctl_peer_forget(peer);
	else
		bidctl_peer_schedule(peer, peer->bidctl->timeout_ns);
}

static void
bidctl_timeout(struct xk_event *event, void *argument)
{
	struct bidctl_peer *peer = argument;
	struct bidctl *b = peer->bidctl;
	struct bidctl_question question = { .tag = 0 };

	(void)event;
	xk_lock(&b->lock);
	peer->pending = false;
	peer->holds++;
	bidctl_act(peer, &question);
	xk_unlock(&b->lock);
	bidctl_send_question(b, &question);
	xk_lock(&b->lock);
	peer->holds--;
	bidctl_end(peer);
	xk_unlock(&b->lock);
}

/* ---- what arrives ---- */

/* As xk_bidctl_heard and xk_bidctl_known; the lock is held. */
static int
bidctl_heard(struct bidctl *b, struct xk_bidctl_peer *heard, struct bidctl_question *question)
{
	struct bidctl_peer *peer = bidctl_peer_find(b, heard->host);

	if (peer == NULL) {
		bidctl_stranger_heard(b, heard->host, question);
		return -EINPROGRESS;
	}
	if (peer->told != 0 && peer->told == peer->boot && !peer->telling &&
	    (heard->boot == 0 || heard->boot == peer->told)) {
		heard->boot = peer->told;
		return 0;
	}
	if (peer->asking)
		return -EINPROGRESS;
	if (xk_now_ns(&b->protocol) - peer->asked_ns < b->interval_ns)
		xk_count(&b->protocol, BIDCTL_LIMITED);
	else
		bidctl_peer_ask(peer, question);
	return -EINPROGRESS;
}

/* Whether what goes down lls goes to nobody but host: 1 or 0; -ENOENT: nobody knows yet where the host is. */
static int
bidctl_leads_to(struct xk_session *lls, uint64_t host)
{
	uint64_t peer;

	if (xk_control(lls, XK_GET_PEER_HOST, &peer, sizeof(peer)) == sizeof(peer))
		return peer == host;
	return xk_control(lls, XK_VNET_LEADS_TO, &host, sizeof(host));
}

/* What is to be asked in turn goes with the answer, unless the answer goes to somebody else. The tag that it gets, or 0. */
static uint64_t
bidctl_join(const struct bidctl_header *h, int leads_to, struct bidctl_question *question)
{
	uint64_t tag = question->tag;

	if (tag != 0 && leads_to == -ENOENT) {
		question->boot = h->source;
		question->answers = h->request;
	}
	if (leads_to <= 0)
		return 0;
	question->tag = 0;
	return tag;
}

/*
 * A host asks: it may be one that we know by another boot, or not at all, and have to ask in turn; by *question, or with
 * the tag that is returned (0: not) where the answer goes. Nobody is remembered for asking.
 */
static uint64_t
bidctl_hear_query(struct bidctl *b, struct xk_session *lls, const struct bidctl_header *h,
		  struct bidctl_question *question)
{
	struct xk_bidctl_peer heard = { h->host, h->source };
	int leads_to = bidctl_leads_to(lls, h->host);
	struct bidctl_peer *peer;

	xk_lock(&b->lock);
	peer = bidctl_peer_find(b, h->host);
	if (peer != NULL && peer->boot != h->source)
		bidctl_heard(b, &heard, question);
	if (peer == NULL && leads_to <= 0)
		bidctl_stranger_heard(b, h->host, question);
	xk_unlock(&b->lock);
	return peer == NULL && leads_to > 0 ? bidctl_tag_make(b, h->host, h->source)
					    : bidctl_join(h, leads_to, question);
}

/* The answer is sent where the question came from, unless what is asked in turn is an answer, too, and goes its own way. */
static void
bidctl_hear_question(struct bidctl *b, struct xk_session *lls, const struct bidctl_header *h,
		     struct bidctl_question *question)
{
	uint64_t tag = bidctl_hear_query(b, lls, h, question);

	if (question->answers == 0)
		bidctl_answer(b, lls, h, tag);
}

/* The peer whose question is answered; NULL and why it is none. The lock is held. */
static struct bidctl_peer *
bidctl_answered(struct bidctl *b, const struct bidctl_header *h, unsigned *why)
{
	struct bidctl_peer *peer = bidctl_peer_find(b, h->host);

	if (peer != NULL && peer->asking && peer->tag == h->reply)
		return peer;
	*why = BIDCTL_UNASKED;
	if (peer != NULL ||
	    !(bidctl_tag_is_good(b, h->host, h->source, h->reply) || bidctl_stranger_answers(b, h->host, h->reply)))
		return NULL;
	peer = bidctl_peer_get(b, h->host);
	*why = BIDCTL_FULL;
	if (peer != NULL)
		peer->asked_ns = xk_now_ns(&b->protocol);
	return peer;
}

/* What the peer has answered counts from now on, and is told; a question in it is answered first, so that it knows us. */
static void
bidctl_confirmed(struct bidctl_peer *peer, struct xk_session *lls, const struct bidctl_header *h)
{
	struct bidctl *b = peer->bidctl;

	peer->asking = false;
	peer->boot = h->source;
	bidctl_peer_rest(peer);
	if ((h->flags & BIDCTL_QUERY) != 0) {
		peer->holds++;
		xk_unlock(&b->lock);
		bidctl_answer(b, lls, h, 0);
		xk_lock(&b->lock);
		peer->holds--;
	}
	bidctl_tell(peer);
}

/* 0, or the reason to drop it. */
static unsigned
bidctl_hear_response(struct bidctl *b, struct xk_session *lls, const struct bidctl_header *h)
{
	struct bidctl_peer *peer;
	unsigned why = BIDCTL_STALE;

	if (h->destination != b->own)
		return why;
	xk_lock(&b->lock);
	peer = bidctl_answered(b, h, &why);
	if (peer != NULL) {
		xk_count(&b->protocol, BIDCTL_RESPONSES_IN);
		why = 0;
		bidctl_confirmed(peer, lls, h);
	}
	xk_unlock(&b->lock);
	return why;
}

/* A host says that it has booted. Not all that know it ask it at once. */
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

/* Whether h may come from whom lls brings messages of. */
static bool
bidctl_is_from_sender(struct xk_session *lls, const struct bidctl_header *h)
{
	uint64_t host;

	if (xk_control(lls, XK_GET_MY_HOST, &host, sizeof(host)) == sizeof(host) && host == h->host)
		return false;
	return xk_control(lls, XK_GET_PEER_HOST, &host, sizeof(host)) != sizeof(host) || host == h->host;
}

static void
bidctl_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct bidctl *b = bidctl_of(self);
	struct bidctl_question question = { .tag = 0 };
	struct bidctl_header h;
	unsigned why = bidctl_header_pop(&h, &m);

	if (why == 0 && !bidctl_is_from_sender(lls, &h))
		why = BIDCTL_BAD_HOST;
	if (why == 0 && (h.flags & BIDCTL_RESPONSE) != 0)
		why = bidctl_hear_response(b, lls, &h);
	if (why == 0 && h.flags == BIDCTL_BCAST)
		bidctl_hear_broadcast(b, &h);
	if (why == 0 && (h.flags & BIDCTL_QUERY) != 0)
		xk_count(self, BIDCTL_QUERIES_IN);
	if (why == 0 && h.flags == BIDCTL_QUERY)
		bidctl_hear_question(b, lls, &h, &question);
	if (why != 0)
		xk_drop(self, m, why);
	else
		xk_msg_free(m);
	bidctl_send_question(b, &question);
}

/* ---- questions from above ---- */

/* Waits until the peer is told of, or given up. 0 or -errno. The lock is held on both ends. */
static int
bidctl_wait(struct bidctl_peer *peer, const struct bidctl_question *question, uint64_t *boot)
{
	struct bidctl *b = peer->bidctl;
	struct bidctl_waiter waiter = { .next = peer->waiters }, **at;
	int status;

	xk_semaphore_init(&waiter.semaphore, &b->protocol, 0);
	peer->waiters = &waiter;
	peer->holds++;
	xk_unlock(&b->lock);
	bidctl_send_question(b, question);
	status = xk_semaphore_wait(&waiter.semaphore, XK_FOREVER);
	xk_lock(&b->lock);
	peer->holds--;
	for (at = &peer->waiters; !waiter.done && *at != NULL; at = &(*at)->next)
		if (*at == &waiter) {
			*at = waiter.next;
			break;
		}
	*boot = waiter.boot;
	return waiter.done ? waiter.status : status;
}

static int
bidctl_confirm(struct bidctl *b, struct xk_bidctl_peer *wanted)
{
	struct bidctl_question question = { .tag = 0 };
	struct bidctl_peer *peer;
	int status = -ENOBUFS;

	if (!bidctl_is_host(wanted->host))
		return -EINVAL;
	xk_lock(&b->lock);
	peer = bidctl_peer_get(b, wanted->host);
	if (peer != NULL && peer->told != 0 && !peer->telling) {
		wanted->boot = peer->told;
		status = 0;
	} else if (peer != NULL) {
		if (peer->boot == 0 && !peer->asking)
			bidctl_peer_ask(peer, &question);
		status = bidctl_wait(peer, &question, &wanted->boot);
	}
	xk_unlock(&b->lock);
	return status;
}

static int
bidctl_ask(struct bidctl *b, struct xk_bidctl_peer *heard)
{
	struct bidctl_question question = { .tag = 0 };
	int status;

	if (!bidctl_is_host(heard->host))
		return -EINVAL;
	xk_lock(&b->lock);
	status = bidctl_heard(b, heard, &question);
	xk_unlock(&b->lock);
	bidctl_send_question(b, &question);
	return status;
}

static int
bidctl_use(struct bidctl *b, uint32_t host)
{
	struct bidctl_peer *peer;

	xk_lock(&b->lock);
	peer = bidctl_peer_get(b, host);
	if (peer != NULL && peer->uses++ == 0 && !peer->asking && !peer->suspected)
		bidctl_peer_rest(peer);
	xk_unlock(&b->lock);
	return peer != NULL ? 0 : -ENOBUFS;
}

static int
bidctl_unuse(struct bidctl *b, uint32_t host)
{
	struct bidctl_peer *peer;

	xk_lock(&b->lock);
	peer = bidctl_peer_find(b, host);
	xk_assert(peer != NULL && peer->uses > 0);
	if (--peer->uses == 0 && !peer->asking && !peer->suspected)
		bidctl_peer_rest(peer);
	xk_unlock(&b->lock);
	return 0;
}

static int
bidctl_watch(struct bidctl *b, struct xk_bidctl_watcher *watcher)
{
	watcher->next = b->watchers;
	b->watchers = watcher;
	return 0;
}

static int
bidctl_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	struct bidctl *b = bidctl_of(self);

	switch (op) {
	case XK_BIDCTL_GET_OWN:
		return xk_answer(buffer, len, &b->own, sizeof(b->own));
	case XK_BIDCTL_CONFIRM:
		return len < sizeof(struct xk_bidctl_peer) ? -EMSGSIZE : bidctl_confirm(b, buffer);
	case XK_BIDCTL_HEARD:
		return len < sizeof(struct xk_bidctl_peer) ? -EMSGSIZE : bidctl_ask(b, buffer);
	case XK_BIDCTL_USE:
		return len < sizeof(uint32_t) ? -EMSGSIZE : bidctl_use(b, *(const uint32_t *)buffer);
	case XK_BIDCTL_UNUSE:
		return len < sizeof(uint32_t) ? -EMSGSIZE : bidctl_unuse(b, *(const uint32_t *)buffer);
	case XK_BIDCTL_WATCH:
		return len < sizeof(void *) ? -EMSGSIZE : bidctl_watch(b, *(struct xk_bidctl_watcher **)buffer);
	default:
		return -ENOTSUP;
	}
}

/* ---- life ---- */

/* Where boots are counted no two (of 2^24) can draw the same. */
static uint64_t
bidctl_draw_boot(const struct xk_protocol *self)
{
	uint64_t boot = xk_random(self), boots = xk_boots(self);

	if (boots != 0)
		boot = boots << 40 | boot >> 24;
	return boot != 0 ? boot : 1;
}

/* The first thing that is done: everybody is told. */
static void
bidctl_boot(struct xk_event *event, void *argument)
{
	struct bidctl_header h = { .flags = BIDCTL_BCAST };
	struct xk_participants everybody = { .remote = { 1, { UINT32_MAX } } };

	(void)event;
	bidctl_send_to(argument, everybody, &h, BIDCTL_BROADCASTS_OUT);
}

static void
bidctl_fini(struct xk_protocol *self)
{
	struct bidctl *b = bidctl_of(self);

	xk_event_cancel(&b->boot);
	bidctl_peer_fini(b);
}

static int
bidctl_init(struct xk_protocol *self)
{
	struct bidctl *b = bidctl_of(self);
	struct xk_participants anybody = { .remote.depth = 0 };
	int status;

	if (b->timeout_max_ns < b->timeout_ns)
		return -EINVAL;
	b->own = bidctl_draw_boot(self);
	bidctl_tag_init(b);
	xk_lock_init(&b->lock, self);
	xk_event_init(&b->boot, self->kernel, bidctl_boot, b);
	status = bidctl_peer_init(b, bidctl_timeout);
	if (status == 0)
		status = xk_open_enable(self, self, xk_lower(self, 0), &anybody);
	if (status != 0)
		bidctl_peer_fini(b);
	else if (b->broadcast)
		xk_event_schedule(&b->boot, 0);
	return status;
}

/* ---- tables ---- */

static const struct xk_protocol_ops bidctl_ops = {
	.init = bidctl_init,
	.fini = bidctl_fini,
	.demux = bidctl_demux,
	.control = bidctl_control,
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

const struct xk_protocol_type xk_type_bidctl = {
	.name = "bidctl",
	.help = "Boot-id agreement: which boot of a host is there now, asked for and confirmed.",
	.ops = &bidctl_ops,
	.size = sizeof(struct bidctl),
	.offers = XK_CONTROL,
	.lowers = bidctl_lowers,
	.settings = bidctl_settings,
	.drops = bidctl_drops,
	.counters = bidctl_counters,
};
