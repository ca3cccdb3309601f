/*
 * bidctl_message.c - BIDCTL's messages: their header, how each kind is sent, and what is made of those that arrive: whether they
 * are believed, answered, or make it ask. Their exchange is told in bidctl.c, which draws them, too.
 */
#include <errno.h>

#include "protocols/bid/bidctl_private.h"
#include "protocols/virtual/vnet.h"
#include "xkernel/bytes.h"

/* ---- the header ---- */

enum {
	BIDCTL_FLAGS = 0,
	BIDCTL_CHECKSUM = 2,
	BIDCTL_HOST = 4,
	BIDCTL_SOURCE = 8,
	BIDCTL_DESTINATION = 16,
	BIDCTL_REQUEST = 24,
	BIDCTL_REPLY = 32,
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

const struct xk_field bidctl_fields[] = {
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

/* 0, or why no honest sender has made h, which lies at p. */
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
	return bidctl_is_host(h->host) ? 0 : BIDCTL_BAD_HOST;
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

/* ---- sending ---- */

/*
 * Sends h, as this boot of this host, to host `to` (0: to everybody). A message lost here is asked for again, like one
 * lost on the way.
 */
static void
bidctl_send(struct bidctl *b, struct xk_session *lls, uint32_t to, struct bidctl_header *h, enum bidctl_counter counter)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(&b->protocol), BIDCTL_HEADER_LEN);
	uint64_t host;

	if (m == NULL || xk_control(lls, XK_GET_MY_HOST, &host, sizeof(host)) != sizeof(host)) {
		xk_msg_free(m);
		xk_count(&b->protocol, BIDCTL_UNSENT);
		return;
	}
	h->host = (uint32_t)host;
	h->source = bidctl_own(&b->protocol, to);
	bidctl_header_store(m->data, h);
	xk_count(&b->protocol, xk_push(lls, m) == 0 ? counter : BIDCTL_UNSENT);
}

/* Opens a session to participants and sends h on it, to host `to`. Waits only if participants allow it. */
static void
bidctl_send_to(struct bidctl *b, struct xk_participants participants, uint32_t to, struct bidctl_header *h,
	       enum bidctl_counter counter)
{
	struct xk_protocol *self = &b->protocol;
	struct xk_session *lls;

	if (xk_open(self, self, xk_lower(self, 0), &participants, &lls) != 0) {
		xk_count(self, BIDCTL_UNSENT);
		return;
	}
	bidctl_send(b, lls, to, h, counter);
	xk_close(lls);
}

void
bidctl_send_question(struct bidctl *b, const struct bidctl_question *question)
{
	struct bidctl_header h = { .destination = question->boot,
				   .request = question->tag,
				   .reply = question->answers };
	struct xk_participants participants = { .local = { 1, { XK_VNET_LAZY } } };

	h.flags = (h.request != 0 ? BIDCTL_QUERY : 0) | (h.reply != 0 ? BIDCTL_RESPONSE : 0);
	if (h.flags == 0)
		return;
	if (h.flags == (BIDCTL_QUERY | BIDCTL_RESPONSE))
		xk_count(&b->protocol, BIDCTL_ASKED_BACK);
	xk_participant_push(&participants.remote, question->host);
	bidctl_send_to(b, participants, question->host, &h, h.reply != 0 ? BIDCTL_RESPONSES_OUT : BIDCTL_QUERIES_OUT);
}

/* Answers the question `asked` down lls, where it came from. tag 0: the answer asks nothing. */
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
	bidctl_send(b, lls, asked->host, &h, BIDCTL_RESPONSES_OUT);
}

void
bidctl_send_broadcast(struct bidctl *b)
{
	struct bidctl_header h = { .flags = BIDCTL_BCAST };
	struct xk_participants everybody = { .remote = { 1, { UINT32_MAX } } };

	bidctl_send_to(b, everybody, 0, &h, BIDCTL_BROADCASTS_OUT);
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

/* Makes ARP look for host, of which lls has brought a message, before something is sent to it. */
static void
bidctl_doubt(struct xk_session *lls, uint64_t host)
{
	if (lls != NULL)
		xk_control(lls, XK_VNET_DOUBT, &host, sizeof(host));
}

/* ---- what a message says of its sender ---- */

/* As bidctl_hear, for a message that came this way. The lock is held. */
static int
bidctl_heard(struct bidctl *b, uint32_t host, uint64_t *boot, uint64_t way, struct bidctl_question *question)
{
	struct bidctl_peer *peer = bidctl_peer_find(b, host);
	int status = -EINPROGRESS;

	if (peer == NULL) {
		bidctl_stranger_heard(b, host, question);
		return status;
	}
	if (peer->told != 0 && peer->told == peer->boot && !peer->telling && (*boot == 0 || *boot == peer->told)) {
		*boot = peer->told;
		if (bidctl_is_way(peer, way))
			return 0;
		status = -EREMCHG;
	}
	if (peer->asking)
		return status;
	if (xk_now_ns(&b->protocol) - peer->asked_ns < b->interval_ns)
		xk_count(&b->protocol, BIDCTL_LIMITED);
	else
		bidctl_peer_ask(peer, question);
	return status;
}

int
bidctl_hear(struct xk_protocol *self, uint32_t host, uint64_t *boot, struct xk_session *lls)
{
	struct bidctl *b = bidctl_of(self);
	struct bidctl_question question = { .tag = 0 };
	uint64_t way = bidctl_way(lls);
	int status;

	if (!bidctl_is_host(host))
		return -EINVAL;
	xk_lock(&b->lock);
	status = bidctl_heard(b, host, boot, way, &question);
	xk_unlock(&b->lock);
	if (question.tag != 0)
		bidctl_doubt(lls, question.host);
	bidctl_send_question(b, &question);
	return status;
}

/* ---- questions ---- */

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

/*
 * A host asks. Sets *question if it has to be asked in turn: it is unknown, or known by another boot or elsewhere. For
 * a host that is no peer, only the tag is set if the answer leads to the host, or goes by IP to no neighbour: an asker
 * takes no memory. Returns false if the host must not be answered, because the limit for strangers is used up.
 */
static bool
bidctl_hear_query(struct bidctl *b, const struct bidctl_header *h, uint64_t way, int leads_to,
		  struct bidctl_question *question)
{
	uint64_t boot = h->source;
	struct bidctl_peer *peer;

	xk_lock(&b->lock);
	peer = bidctl_peer_find(b, h->host);
	if (peer == NULL && (leads_to > 0 || (leads_to == -ENETUNREACH && way == 0)))
		question->tag = bidctl_tag_make(b, h->host, h->source);
	else if (peer == NULL || peer->boot != h->source || !bidctl_is_way(peer, way))
		bidctl_heard(b, h->host, &boot, way, question);
	xk_unlock(&b->lock);
	return peer != NULL || question->tag != 0;
}

/*
 * Sends the answer and the question in turn in one message. It goes where the question came from if that leads to the
 * host alone, and otherwise where the host is: no station gets a boot id that is meant for a host elsewhere.
 */
static void
bidctl_hear_question(struct bidctl *b, struct xk_session *lls, const struct bidctl_header *h,
		     struct bidctl_question *question)
{
	uint64_t way = bidctl_way(lls);
	int leads_to = bidctl_leads_to(lls, h->host);
	bool answers = bidctl_hear_query(b, h, way, leads_to, question);

	if (leads_to > 0) {
		bidctl_answer(b, lls, h, question->tag);
		question->tag = 0;
	} else if (answers) {
		if (question->tag != 0)
			bidctl_doubt(lls, h->host);
		*question = (struct bidctl_question){ h->host, h->source, question->tag, h->request };
	}
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
bidctl_confirmed(struct bidctl_peer *peer, struct xk_session *lls, uint64_t way, const struct bidctl_header *h)
{
	struct bidctl *b = peer->bidctl;

	peer->asking = false;
	peer->boot = h->source;
	peer->way = way;
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
	uint64_t way = bidctl_way(lls);
	struct bidctl_peer *peer;
	unsigned why = BIDCTL_STALE;

	if (h->destination != bidctl_own(&b->protocol, h->host))
		return why;
	xk_lock(&b->lock);
	peer = bidctl_answered(b, h, &why);
	if (peer != NULL)
		why = bidctl_peer_become(peer, h->source);
	if (why == 0) {
		xk_count(&b->protocol, BIDCTL_RESPONSES_IN);
		bidctl_confirmed(peer, lls, way, h);
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
	struct bidctl_header h = bidctl_header_load(m->data);
	unsigned why = bidctl_header_check(&h, m->data);

	xk_msg_pop_in_place(m, BIDCTL_HEADER_LEN);
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
