/*
 * am.c - Active Messages: each message names the handler to run where it arrives, and the driver runs it at once
 * (demultiplexing by the message itself: Bjorkman 1994, 2.1). am_send.c requests, am_receive.c serves; sessions are
 * here.
 *
 * Promise:      A request is run at most once; it is answered, or returned to its sender's endpoint with a status. None
 *               runs in another boot of the peer, or for another session, than it was sent to. If some are lost,
 *               requests may run in another order than they were pushed. Bytes are as intact as the protocol below
 *               delivers them.
 * Spec:         after Mainwaring and Culler's AM-II, as Heath, Kaur, Martin and Nguyen use it, "Quantifying the Impact
 *               of Architectural Scaling on Communication" (2001): endpoints, request, reply, bulk store, returned
 *               messages, credits, three-way exchanges. Our own 32-byte header
 * Participants: the top of each stack is an endpoint's name, 1 to 65535; the rest is for the protocol below, where AM's
 *               own `port` comes next if that is set. Opening needs the remote name; without a local one, the session's
 *               is 0. Enabling needs the local name.
 * Exchange:     REQUEST, REPLY, TAKEN: the requester repeats the first until it has the second; the server keeps that,
 *               and repeats it, until it has the third, or `patience` has passed. A request without a reply is
 *               acknowledged (ACK), one that cannot be run refused (REFUSED); neither is kept.
 * Stores:       xk_am_request with a region writes to memory that the peer has registered (region.h), in as many
 *               messages as needed, checked one by one. The handler, if one is named, runs when all are there.
 * Credits:      A session has at most `outstanding` requests in flight, and not more than the peer grants (`credits`);
 *               `queue` others wait; more are refused (-ENOBUFS).
 * Sessions:     Each open makes another. The first push calls the peer: CALL, COOKIE, CALL, WELCOME. The cookie is a
 *               hash of the caller's address: strangers take no memory before they have proved that they receive what
 *               is sent there, and get no more bytes than they send. Both ends have numbers of 64 random bits that are
 *               used once: a message that names another end is dropped, and answered with GONE. After that, or when a
 *               call is given up, requests are returned, and the next push calls again. A closed session lives on until
 *               its requests are answered or returned.
 * Memory:       a host has at most `peer_sessions` passive sessions; all together, `sessions` idle ones and as many
 *               others. Each keeps at most `credits` replies, and repeats at most three times the bytes of its replies.
 *               All hosts' requests and replies keep at most `kept` bytes of buffers, one host's at most half of what
 *               others leave (share.h).
 * Again:        A passive session retransmits at most three times the bytes of its first transmissions, and three times
 *               those answered (budget.h). The last repetition waits until half of `patience` is over.
 * Handoff:      The shepherd that brought a message runs its handler, in the driver if it can. It leaves the driver
 *               (counted as explicit) before a handler registered with may_wait.
 * Not done:     order; flow control of replies, which are as many as requests
 * Graph:        am -> vnet, am -> eth, am -> udp (port=N), or anything else that carries messages to hosts: bid, ip,
 *               blast
 */
#include <errno.h>
#include <stdlib.h>

#include "protocols/papers/am_private.h"
#include "xkernel/siphash.h"
#include "xkernel/support/ports.h"
#include "xkernel/trace.h"

/* ---- the header ---- */

static const struct xk_field_value am_kinds[] = {
	{ AM_CALL, "CALL" },
	{ AM_COOKIE, "COOKIE" },
	{ AM_WELCOME, "WELCOME" },
	{ AM_REQUEST, "REQUEST" },
	{ AM_STORE, "STORE" },
	{ AM_REPLY, "REPLY" },
	{ AM_ACK, "ACK" },
	{ AM_REFUSED, "REFUSED" },
	{ AM_TAKEN, "TAKEN" },
	{ AM_GONE, "GONE" },
	{ 0, NULL },
};

XK_FIELDS(am, AM_HEADER);

/* Returns whether a message of this kind may have this handler. */
static bool
am_handler_is_good(const struct am_header *h)
{
	switch (h->kind) {
	case AM_CALL:
		return h->handler != 0;
	case AM_WELCOME:
		return h->handler > 0 && h->handler <= AM_SLOTS;
	case AM_REQUEST:
	case AM_STORE:
		return h->handler < XK_AM_HANDLERS || h->handler == XK_AM_NONE;
	case AM_REPLY:
		return h->handler < XK_AM_HANDLERS;
	case AM_REFUSED:
	case AM_GONE:
		return h->handler > 0 && h->handler < AM_R_END;
	default:
		return h->handler == 0;
	}
}

/* Returns how many bytes a message of this kind has at least; *exactly: and no more. */
static uint32_t
am_least(const struct am_header *h, bool *exactly)
{
	*exactly = false;
	switch (h->kind) {
	case AM_REQUEST:
	case AM_REPLY:
		return 4 * h->words;
	case AM_STORE:
		return AM_STORE_LEN + 4 * h->words;
	default:
		*exactly = true;
		return h->kind == AM_CALL ? AM_CALL_LEN : 0;
	}
}

/* Strips and checks the header of m, and cuts off padding. Returns 0, or the reason to drop m. */
static unsigned
am_header_pop(struct am_header *h, struct xk_msg *m)
{
	bool exactly;
	uint32_t least;

	*h = am_load(m->data);
	xk_msg_pop_in_place(m, AM_HEADER_LEN);
	least = am_least(h, &exactly);
	if (h->kind < AM_CALL || h->kind > AM_GONE || h->from == 0)
		return AM_BAD_KIND;
	if (h->words > XK_AM_WORDS || (exactly && h->words != 0) || h->length > xk_msg_len(m) || h->length < least ||
	    (exactly && h->length > least))
		return XK_DROP_BAD_LENGTH;
	if (!am_handler_is_good(h))
		return AM_BAD_HANDLER;
	xk_msg_truncate(m, h->length);
	return 0;
}

void
am_send_header(struct xk_protocol *self, struct xk_session *lls, const struct am_header *h,
	       const struct am_call_header *call)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(self), h->length);
	uint8_t *p;

	if (m == NULL) {
		xk_count(self, AM_UNSENT);
		return;
	}
	if (call != NULL)
		am_call_store(m->data, call);
	p = xk_msg_push(&m, AM_HEADER_LEN);
	if (p == NULL) {
		xk_msg_free(m);
		xk_count(self, AM_UNSENT);
		return;
	}
	am_store(p, h);
	if (xk_push(lls, m) != 0)
		xk_count(self, AM_UNSENT);
}

/* ---- calling ---- */

/* Begins or continues to call the peer, unless its number is known: then sends what waits. No lock is held. */
static void
am_call(struct am_session *s)
{
	struct am *am = am_of(s);
	struct am_header h = { .kind = AM_CALL, .handler = s->remote, .length = AM_CALL_LEN, .from = s->number };
	struct am_call_header call = { .name = s->local, .credits = (uint16_t)am->credits };
	uint64_t now_ns = xk_now_ns(&am->protocol);

	xk_lock(&s->lock);
	h.to = s->cookie;
	call.tag = s->tag;
	s->call.due_ns = now_ns + s->call.timeout_ns;
	xk_alarm_set(&s->alarm, s->call.due_ns);
	xk_unlock(&s->lock);
	am_send_header(&am->protocol, s->session.lls, &h, &call);
}

void
am_go_on(struct am_session *s)
{
	struct am *am = am_of(s);
	uint64_t now_ns = xk_now_ns(&am->protocol);
	bool calls = false, knows;

	xk_lock(&s->lock);
	knows = s->peer != 0;
	if (!knows && !s->calling && s->called == 0) {
		s->calling = true;
		xk_retry_begin(&s->call, am->timeouts.first_ns, now_ns);
		calls = true;
	}
	xk_unlock(&s->lock);
	if (knows)
		am_transmit(s);
	else if (calls)
		am_call(s);
}

/* Takes COOKIE or WELCOME m. No lock is held. */
static void
am_pop_called(struct am_session *s, struct xk_msg *m, const struct am_header *h)
{
	bool is_good, is_welcome = h->kind == AM_WELCOME;

	xk_lock(&s->lock);
	is_good = s->calling && s->cookie != (is_welcome ? 0 : h->from);
	if (is_good && is_welcome) {
		s->peer = h->from;
		s->credits = h->handler;
		s->calling = false;
		s->oldest = s->next = 0;
		s->served_oldest = 0;
		am_served_clear(s);
	} else if (is_good) {
		s->cookie = h->from;
	}
	xk_unlock(&s->lock);
	if (!is_good) {
		xk_drop(s->session.protocol, m, AM_STALE);
		return;
	}
	xk_msg_free(m);
	if (is_welcome)
		am_transmit(s);
	else
		am_call(s);
}

/* ---- the end of a conversation ---- */

int
am_status_of(unsigned reason)
{
	switch (reason) {
	case AM_R_NO_ENDPOINT:
		return -ECONNREFUSED;
	case AM_R_TAG:
		return -EACCES;
	case AM_R_NO_HANDLER:
		return -ENOENT;
	case AM_R_REGION:
		return -EFAULT;
	default:
		return -ECONNRESET;
	}
}

void
am_end(struct am_session *s, int status)
{
	struct xk_session *session = &s->session;
	struct xk_msg *list;
	bool first = false;

	xk_lock(&s->lock);
	list = am_requests_take(s);
	am_served_clear(s);
	s->peer = s->cookie = 0;
	s->calling = false;
	if (s->called != 0) {
		first = !s->over;
		s->over = true;
	}
	xk_unlock(&s->lock);
	am_return(s, list, status);
	if (!first)
		return;
	xk_map_unbind(&session->protocol->table.sessions, &session->binding);
	xk_close_done(session);
	if (xk_duplicate(session))
		xk_close(session); /* as an hlp would: out of the cache */
}

/* Takes GONE m: of the peer's session, or of the endpoint that was called. No lock is held. */
static void
am_pop_gone(struct am_session *s, struct xk_msg *m, const struct am_header *h)
{
	bool is_good;

	xk_lock(&s->lock);
	is_good = !s->over && h->from == (s->peer != 0 ? s->peer : s->cookie);
	xk_unlock(&s->lock);
	if (!is_good) {
		xk_drop(s->session.protocol, m, AM_STALE);
		return;
	}
	xk_msg_free(m);
	am_end(s, am_status_of(h->handler));
}

static void
am_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct am_session *s = xk_container_of(alarm, struct am_session, alarm);
	struct am *am = am_of(s);
	struct xk_msg *late = NULL, *given_up = NULL, *m;
	bool calls = false, ends = false, gave_up;

	xk_alarm_set(alarm, am_requests_due(s, now_ns, &late, &given_up));
	xk_alarm_set(alarm, am_served_due(s, now_ns));
	if (s->calling && s->call.due_ns <= now_ns) {
		ends = now_ns - s->call.begun_ns >= am->patience_ns;
		calls = !ends;
		xk_retry_again(&s->call, am->timeouts.max_ns, now_ns);
	} else if (s->calling) {
		xk_alarm_set(alarm, s->call.due_ns);
	}
	gave_up = given_up != NULL;
	xk_unlock(&s->lock);
	if (late != NULL || calls)
		xk_unanswered(s->session.lls);
	while ((m = late) != NULL) {
		late = m->link;
		xk_count(&am->protocol, AM_RETRANSMITTED);
		xk_push(s->session.lls, m);
	}
	am_return(s, given_up, -ETIMEDOUT);
	if (ends)
		am_end(s, -ETIMEDOUT);
	else if (calls)
		am_call(s);
	else if (gave_up)
		am_transmit(s);
}

/* ---- endpoints ---- */

static struct am_endpoint_state *
am_endpoint(const struct am *am, uint16_t name)
{
	struct am_endpoint_state *e = am->endpoints;

	while (e != NULL && e->name != name)
		e = e->next;
	return e;
}

static int
am_register(struct am *am, const struct xk_am_registration *registration)
{
	struct am_endpoint_state *e = am_endpoint(am, registration->name);

	if (e == NULL) {
		e = calloc(1, sizeof(*e));
		if (e == NULL)
			return -ENOMEM;
		e->name = registration->name;
		e->next = am->endpoints;
		am->endpoints = e;
	}
	if (registration->number >= XK_AM_HANDLERS) {
		e->endpoint = registration->endpoint;
		return 0;
	}
	if (e->handlers[registration->number].run != NULL)
		return -EEXIST;
	e->handlers[registration->number] = registration->handler;
	return 0;
}

/* ---- sessions ---- */

/* Parameters of a new session. */
struct am_how {
	uint64_t number, called, address;
	uint16_t local, remote;
	uint32_t credits;
};

static struct xk_key
am_key(uint64_t number)
{
	return (struct xk_key){ number, 0 };
}

static struct am_sessions *
am_bucket(struct am *am, uint64_t address)
{
	return &am->passive[siphash(am->secret, address, 0) % AM_BUCKETS];
}

/*
 * Joins the address's sessions. Returns 0, -EALREADY (the peer's session has one here, or had one recently) or -EUSERS.
 */
static int
am_join(struct am_session *s)
{
	struct am *am = am_of(s);
	struct am_sessions *bucket = am_bucket(am, s->address);
	struct am_session *other;
	unsigned count = 0;
	int err = 0;

	xk_lock(&am->lock);
	for (other = TAILQ_FIRST(bucket); other != NULL; other = TAILQ_NEXT(other, of_address)) {
		if (other->address != s->address)
			continue;
		count++;
		if (other->called == s->called)
			err = -EALREADY;
	}
	if (err == 0 && (count >= am->peer_sessions || am->passive_count >= 2 * am->protocol.session_max))
		err = -EUSERS;
	if (err == 0) {
		TAILQ_INSERT_TAIL(bucket, s, of_address);
		am->passive_count++;
	}
	xk_unlock(&am->lock);
	return err;
}

static int
am_setup(struct xk_session *session, const void *argument)
{
	struct am_session *s = (struct am_session *)session;
	struct am *am = am_of(s);
	const struct am_how *how = argument;
	uint32_t below;
	int got = xk_control(session->lls, XK_GET_MAX_PACKET, &below), err;

	xk_lock_init(&s->lock, session->protocol);
	xk_alarm_init(&s->alarm, session, &s->lock, am_expire);
	s->number = how->number;
	s->local = how->local;
	s->remote = how->remote;
	s->endpoint = am_endpoint(am, how->local);
	s->address = how->address;
	xk_round_trip_init(&s->round_trip, &am->timeouts);
	s->last = &s->first;
	s->share = xk_shares_join(&am->shares, &(struct xk_key){ xk_peer_address(session->lls), 0 }, 1);
	if (s->share == NULL)
		return -ENOMEM;
	if (got < 0)
		return got;
	if (below <= AM_HEADER_LEN + AM_STORE_LEN + 4 * XK_AM_WORDS)
		return -EMSGSIZE;
	s->session.sends.longest = below - AM_HEADER_LEN;
	if (xk_control(session->lls, XK_GET_OPT_PACKET, &below) < 0 ||
	    below <= AM_HEADER_LEN + AM_STORE_LEN + 4 * XK_AM_WORDS)
		below = s->session.sends.longest + AM_HEADER_LEN;
	s->fragment = below - AM_HEADER_LEN - AM_STORE_LEN - 4 * XK_AM_WORDS;
	if (how->called == 0)
		return 0;
	s->peer = s->called = how->called;
	s->credits = how->credits;
	err = am_join(s);
	if (err != 0)
		s->called = 0; /* it is in no list */
	return err;
}

static int
am_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	struct xk_participants *participants, struct xk_session **session)
{
	uint64_t remote = xk_participant_pop(&participants->remote), local = xk_participant_pop(&participants->local);
	struct am *am = (struct am *)self;
	struct am_how how = { .number = xk_random(self) };
	struct xk_session *lls;
	int err;

	if (local == XK_ANY)
		local = 0;
	if (!xk_is_port(remote) || local > UINT16_MAX)
		return -EINVAL;
	if (am->port != 0)
		xk_participant_push(&participants->remote, am->port);
	err = xk_open(self, self, xk_lower(self, 0), participants, &lls); /* may wait */
	if (err != 0)
		return err;
	how.number += how.number == 0;
	how.local = (uint16_t)local;
	how.remote = (uint16_t)remote;
	return xk_table_add(self, am_key(how.number), hlp_receive, hlp_type, lls, &how, session);
}

static struct xk_key
am_passive_key_of(const struct xk_session *session)
{
	return xk_table_number_key(((const struct am_session *)session)->local);
}

/* No request is in flight, except in fini. A shepherd may still be in the session's pop. */
static void
am_close(struct xk_session *session)
{
	struct am_session *s = (struct am_session *)session;
	struct am *am = am_of(s);
	struct xk_msg *list, *m;

	xk_lock(&s->lock);
	s->over = true;
	list = am_requests_take(s);
	am_served_clear(s);
	xk_unlock(&s->lock);
	while ((m = list) != NULL) {
		list = m->link;
		xk_drop(session->protocol, m, AM_CLOSED);
	}
	xk_shares_leave(&am->shares, s->share);
	if (s->called == 0)
		return;
	xk_lock(&am->lock);
	TAILQ_REMOVE(am_bucket(am, s->address), s, of_address);
	am->passive_count--;
	xk_unlock(&am->lock);
}

/* ---- being called ---- */

static uint64_t
am_cookie(const struct am *am, const struct am_header *h, uint64_t address)
{
	uint64_t hash = siphash(am->secret, h->from, address);

	return hash + (hash == 0);
}

/*
 * Returns the session that this caller has here, with a reference, or NULL. Makes room for one of the same address, if
 * one is idle; am_join bounds their number otherwise.
 */
static struct am_session *
am_find_called(struct am *am, const struct am_header *h, uint64_t address)
{
	struct am_session *s, *found = NULL, *idle = NULL;
	unsigned count = 0;

	xk_lock(&am->lock);
	for (s = TAILQ_FIRST(am_bucket(am, address)); s != NULL; s = TAILQ_NEXT(s, of_address)) {
		if (s->address != address)
			continue;
		count++;
		if (s->called == h->from)
			found = s;
		if (idle == NULL && !xk_alarm_is_set(&s->alarm))
			idle = s;
	}
	if (found != NULL && !xk_duplicate(&found->session))
		found = NULL;
	if (found != NULL || count < am->peer_sessions || (idle != NULL && !xk_duplicate(&idle->session)))
		idle = NULL;
	xk_unlock(&am->lock);
	if (idle != NULL)
		xk_close(&idle->session); /* as an hlp would: out of the cache */
	return found;
}

/* Makes a session for a caller that has proved its address. Returns it with a reference, or NULL: m was dropped. */
static struct am_session *
am_accept(struct xk_protocol *self, struct xk_session *lls, const struct am_header *h,
	  const struct am_call_header *call, uint64_t address, struct xk_msg *m)
{
	const struct xk_enable *enable = xk_table_enabled(self, xk_table_number_key(h->handler));
	struct am_how how = { .number = xk_random(self),
			      .called = h->from,
			      .address = address,
			      .local = h->handler,
			      .remote = call->name,
			      .credits = call->credits };
	struct xk_session *session;
	unsigned why = XK_DROP_NO_SESSION;
	int err;

	how.number += how.number == 0;
	if (enable == NULL || !xk_duplicate(lls)) {
		xk_drop(self, m, why);
		return NULL;
	}
	err = xk_table_add(self, am_key(how.number), enable->hlp_receive, enable->hlp_type, lls, &how, &session);
	if (err == 0 && xk_duplicate(session)) {
		if (xk_session_announce(session) == 0) {
			xk_count(self, AM_ACCEPTED);
			xk_msg_free(m);
			return (struct am_session *)session;
		}
		xk_session_release(session);
		why = XK_DROP_REFUSED;
	} else {
		why = err == -ENOMEM ? XK_DROP_NO_MEMORY : err == -EUSERS ? AM_TOO_MANY : XK_DROP_NO_SESSION;
	}
	xk_drop(self, m, why);
	return NULL;
}

/* Answers CALL m. */
static void
am_called(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, const struct am_header *h)
{
	struct am *am = (struct am *)self;
	uint64_t address = xk_peer_address(lls), cookie = am_cookie(am, h, address);
	const struct am_endpoint_state *e = am_endpoint(am, h->handler);
	struct am_header answer = { .kind = AM_COOKIE, .to = h->from, .from = cookie };
	const uint8_t *p = xk_msg_pop(&m, AM_CALL_LEN);
	struct am_call_header call;
	struct am_session *s;

	if (p == NULL) {
		xk_drop(self, m, XK_DROP_NO_BUFFER);
		return;
	}
	call = am_call_load(p);
	if (call.credits == 0 || call.credits > AM_SLOTS) {
		xk_drop(self, m, XK_DROP_BAD_LENGTH);
		return;
	}
	if (h->to != cookie) {
		xk_msg_free(m);
		am_send_header(self, lls, &answer, NULL);
		return;
	}
	if (xk_table_enabled(self, xk_table_number_key(h->handler)) == NULL) {
		answer.handler = AM_R_NO_ENDPOINT;
		xk_drop(self, m, XK_DROP_NO_SESSION);
	} else if (e != NULL && e->endpoint.tag != 0 && e->endpoint.tag != call.tag) {
		answer.handler = AM_R_TAG;
		xk_drop(self, m, AM_BAD_TAG);
	}
	if (answer.handler != 0) {
		answer.kind = AM_GONE;
		am_send_header(self, lls, &answer, NULL);
		return;
	}
	if (!xk_duplicate(lls)) { /* it could go with the session that makes room */
		xk_drop(self, m, XK_DROP_NO_SESSION);
		return;
	}
	s = am_find_called(am, h, address);
	if (s == NULL)
		s = am_accept(self, lls, h, &call, address, m);
	else
		xk_msg_free(m);
	if (s != NULL) {
		answer.kind = AM_WELCOME;
		answer.handler = (uint16_t)am->credits;
		answer.from = s->number;
		am_send_header(self, lls, &answer, NULL);
		xk_session_release(&s->session);
	}
	xk_session_release(lls);
}

/* ---- receiving ---- */

static void
am_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct am_session *s = (struct am_session *)session;
	const struct am_header *h = hdr;

	switch (h->kind) {
	case AM_COOKIE:
	case AM_WELCOME:
		am_pop_called(s, m, h);
		break;
	case AM_REQUEST:
	case AM_STORE:
		am_pop_request(s, m, h);
		break;
	case AM_TAKEN:
		am_pop_taken(s, m, h);
		break;
	case AM_GONE:
		am_pop_gone(s, m, h);
		break;
	default:
		am_pop_answer(s, m, h);
		break;
	}
}

static void
am_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct am_header h, gone;
	unsigned why = am_header_pop(&h, m);
	struct xk_session *s;

	if (why == 0 && (m->flags & XK_MSG_TO_ALL) != 0)
		why = AM_TO_ALL;
	if (why != 0) {
		xk_drop(self, m, why);
		return;
	}
	if (h.kind == AM_CALL) {
		am_called(self, lls, m, &h);
		return;
	}
	s = xk_table_find(self, am_key(h.to));
	if (s != NULL) {
		xk_pop(s, lls, m, &h);
		return;
	}
	xk_drop(self, m, XK_DROP_NO_SESSION);
	if (h.kind == AM_REQUEST || h.kind == AM_STORE) {
		gone = (struct am_header){ .kind = AM_GONE, .handler = AM_R_FORGOTTEN, .to = h.from, .from = h.to };
		am_send_header(self, lls, &gone, NULL);
	}
}

/* ---- control ---- */

static int
am_control(struct xk_protocol *self, int op, void *argument)
{
	struct am *am = (struct am *)self;

	return op == XK_AM_REGISTER ? am_register(am, argument) : xk_regions_control(self, &am->regions, op, argument);
}

static int
am_session_control(struct xk_session *session, int op, void *argument)
{
	struct am_session *s = (struct am_session *)session;
	uint32_t value = 0;

	switch (op) {
	case XK_AM_SET_TAG:
		xk_lock(&s->lock);
		s->tag = *(const uint64_t *)argument;
		xk_unlock(&s->lock);
		return 0;
	case XK_AM_GET_WAITING:
		xk_lock(&s->lock);
		value = s->waiting;
		xk_unlock(&s->lock);
		break;
	case XK_AM_GET_UNANSWERED:
		xk_lock(&s->lock);
		for (unsigned i = 0; i < AM_SLOTS; i++)
			value += s->requests[i].m != NULL;
		xk_unlock(&s->lock);
		break;
	case XK_GET_OPT_PACKET:
		value = s->fragment + AM_STORE_LEN + 4 * XK_AM_WORDS;
		break;
	default:
		return -ENOTSUP;
	}
	*(uint32_t *)argument = value;
	return 0;
}

static int
am_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	const struct am_session *s = (const struct am_session *)session;
	const struct am *am = (const struct am *)session->protocol;

	if (am->port != 0) {
		xk_participant_pop(&participants->remote);
		xk_participant_pop(&participants->local);
	}
	if (!xk_participant_push(&participants->remote, s->remote) ||
	    !xk_participant_push(&participants->local, s->local))
		return -E2BIG;
	return 0;
}

/* ---- promises ---- */

/* Checks the requests that wait and those in flight. */
static const char *
am_requests_promise(const struct am_session *s, uint32_t *buffers)
{
	const struct am *am = am_of(s);
	unsigned waiting = 0;

	for (const struct xk_msg *m = s->first; m != NULL; m = m->link, waiting++)
		*buffers += xk_msg_buffers(m);
	if (waiting != s->waiting)
		return "the number of requests that wait is wrong";
	if (waiting > 0 && s->peer == 0 && !s->calling)
		return "a request waits for a peer that is not called";
	if (s->calling && !xk_alarm_covers(&s->alarm, s->call.due_ns))
		return "a peer is called without a timer";
	if (s->next - s->oldest > am->outstanding)
		return "more requests are in flight than `outstanding` allows";
	if (waiting + (s->next - s->oldest) > am->outstanding + am->queue)
		return "more requests wait than the queue holds";
	if (s->oldest != s->next && s->requests[s->oldest % AM_SLOTS].m == NULL)
		return "the oldest request in flight is answered";
	for (uint32_t sequence = s->oldest; sequence != s->next; sequence++) {
		const struct am_request *request = &s->requests[sequence % AM_SLOTS];

		if (request->m != NULL && !xk_alarm_covers(&s->alarm, request->retry.due_ns))
			return "a request is in flight without a timer";
		*buffers += request->m != NULL ? xk_msg_buffers(request->m) : 0;
	}
	return NULL;
}

/* A passive session that is over is in no table. */
static const char *
am_session_promise(struct xk_session *session, bool at_rest)
{
	const struct am_session *s = (const struct am_session *)session;
	uint32_t buffers = 0;
	const char *why = am_requests_promise(s, &buffers);

	for (unsigned i = 0; i < AM_SLOTS && why == NULL; i++) {
		const struct am_served *served = &s->served[i];

		if ((served->progress == AM_KEPT) != (served->m != NULL))
			return "a reply is kept that nobody may ask for";
		if (served->m != NULL && !xk_alarm_covers(&s->alarm, served->until_ns))
			return "a reply is kept without a timer";
		if (at_rest && served->m != NULL)
			return "a reply is kept beyond its time";
		if (at_rest && served->progress == AM_RUNNING)
			return "a handler does not end";
		buffers += served->m != NULL ? xk_msg_buffers(served->m) : 0;
	}
	if (why == NULL && buffers > xk_share_held(s->share))
		return "a message's buffers are not counted in its host's share";
	if (why == NULL && at_rest && (s->calling || s->waiting > 0 || s->oldest != s->next))
		return "a request is neither answered nor returned";
	return why;
}

static const char *
am_promise(struct xk_protocol *self, bool at_rest)
{
	const struct am *am = (const struct am *)self;
	const struct am_session *s;
	unsigned passive = 0;

	for (unsigned i = 0; i < AM_BUCKETS; i++)
		for (s = TAILQ_FIRST(&am->passive[i]); s != NULL; s = TAILQ_NEXT(s, of_address))
			passive++;
	if (passive != am->passive_count)
		return xk_broken(self, "the number of passive sessions is %u, not %u", passive, am->passive_count);
	return xk_shares_promise(&am->shares, at_rest);
}

/* ---- init and fini ---- */

static void
am_forget(void *object, void *context)
{
	xk_alarm_cancel(&((struct am_session *)object)->alarm);
}

static void
am_fini(struct xk_protocol *self)
{
	struct am *am = (struct am *)self;
	struct am_endpoint_state *e;
	struct am_session *s, *next;

	xk_map_for_each(&self->table.sessions, am_forget, NULL);
	for (unsigned i = 0; i < AM_BUCKETS; i++) /* sessions that are over are in no table */
		for (s = TAILQ_FIRST(&am->passive[i]); s != NULL; s = next) {
			next = TAILQ_NEXT(s, of_address);
			am_forget(s, NULL);
		}
	while ((e = am->endpoints) != NULL) {
		am->endpoints = e->next;
		free(e);
	}
	xk_shares_fini(&am->shares);
}

static int
am_init(struct xk_protocol *self)
{
	struct am *am = (struct am *)self;
	struct xk_participants here = { .local.depth = 0 };
	int err;

	if (am->timeouts.max_ns < am->timeouts.min_ns) {
		xk_trace(self, XK_TRACE_NONE, "timeout_max is below timeout_min");
		return -EINVAL;
	}
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(am->secret); i++)
		am->secret[i] = xk_random(self);
	xk_lock_init(&am->lock, self);
	xk_lock_init(&am->regions.lock, self);
	for (unsigned i = 0; i < AM_BUCKETS; i++)
		TAILQ_INIT(&am->passive[i]);
	if (am->port != 0)
		xk_participant_push(&here.local, am->port);
	err = xk_shares_init(&am->shares, self, XK_SHARES_OF_BUFFERS, xk_share_buffers(am->kept_max));
	if (err != 0)
		return err;
	err = xk_open_enable(self, self, xk_lower(self, 0), &here);
	if (err != 0)
		xk_shares_fini(&am->shares);
	return err;
}

/* ---- tables ---- */

static const struct xk_session_ops am_session_ops = {
	.size = sizeof(struct am_session),
	.setup = am_setup,
	.push = am_push,
	.pop = am_pop,
	.close = am_close,
	.control = am_session_control,
	.get_participants = am_get_participants,
	.promise = am_session_promise,
};

static const struct xk_protocol_ops am_ops = {
	.init = am_init,
	.fini = am_fini,
	.open = am_open,
	.passive_key = xk_ports_passive_key,
	.passive_key_of = am_passive_key_of,
	.demux = am_demux,
	.control = am_control,
	.promise = am_promise,
};

static const struct xk_setting am_settings[] = {
	XK_SETTING(UINT, struct am, outstanding, "outstanding", "maximum number of unanswered requests of a session",
		   .initial = "8", .min = 1, .max = AM_SLOTS),
	XK_SETTING(UINT, struct am, queue, "queue", "maximum number of queued requests of a session", .initial = "16",
		   .max = 65536),
	XK_SETTING(UINT, struct am, credits, "credits", "requests that a session's peer may have in flight",
		   .initial = "16", .min = 1, .max = AM_SLOTS),
	XK_SETTING(UINT, struct am, port, "port", "AM's own port on the protocol below; 0: that has no ports",
		   .initial = "0", .max = 65535),
	XK_SETTING(TIME, struct am, timeouts.first_ns, "timeout",
		   "time until a request is sent again, while no round trip is known", .initial = "200ms", .min = 1000,
		   .max = UINT64_C(60000000000)),
	XK_SETTING(TIME, struct am, timeouts.min_ns, "timeout_min", "least time until a request is sent again",
		   .initial = "1ms", .min = 1000, .max = UINT64_C(60000000000)),
	XK_SETTING(TIME, struct am, timeouts.max_ns, "timeout_max", "longest such time", .initial = "500ms",
		   .min = 1000, .max = UINT64_C(60000000000)),
	XK_SETTING(TIME, struct am, patience_ns, "patience",
		   "time without an answer after which a request is returned, and for which a reply is kept",
		   .initial = "10s", .min = 1000, .max = UINT64_C(3600000000000)),
	XK_SETTING(UINT, struct am, peer_sessions, "peer_sessions", "passive sessions of one host", .initial = "64",
		   .min = 1, .max = 1048576),
	XK_SETTING(UINT, struct am, kept_max, "kept",
		   "bytes of buffers of requests and replies that are kept; each buffer counts as 2 KiB, however "
		   "little it holds",
		   .initial = "8m", .min = XK_MSG_SEGMENT, .max = UINT64_C(1) << 40),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_am = {
	.name = "am",
	.help = "Active Messages: each names the handler to run for it, and the driver runs it.",
	.ops = &am_ops,
	.session_ops = &am_session_ops,
	.header = AM_HEADER_LEN,
	.fields = am_fields,
	.size = sizeof(struct am),
	.offers = XK_ASYNC,
	.lowers = XK_ROLES({ "network", XK_ASYNC, NULL, "carries messages to hosts" }),
	.numbers = XK_NUMBERS({ "bid", 206 }, { "blast", 0x3007 }, { "eth", 0x3007 }, { "ip", 206 }),
	.settings = am_settings,
	.drops = am_drops,
	.counters = am_counters,
	.session_max = 1024,
};
