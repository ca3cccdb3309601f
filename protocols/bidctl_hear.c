/*
 * bidctl_hear.c - what BIDCTL makes of messages that arrive: whether they are believed, answered, or make it ask; see
 * bidctl.c.
 */
#include <errno.h>

#include "protocols/bidctl_private.h"
#include "protocols/vnet.h"

/* ---- what a message says of its sender ---- */

int
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

/* ---- questions ---- */

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

/* ---- answers ---- */

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

	if (h->destination != bidctl_own(b, h->host))
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

/* ---- any message ---- */

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

void
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
