/*
 * bidctl_message.c - BIDCTL's messages: their header, and how each kind is sent. Their exchange is told in bidctl.c, which
 * draws them, too.
 */
#include "protocols/bidctl_private.h"
#include "protocols/vnet.h"
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
	BIDCTL_HEADER_LEN = 40,
};

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

unsigned
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
	h->source = bidctl_own(b, to);
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

void
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
