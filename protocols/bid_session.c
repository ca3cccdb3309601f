/*
 * bid_session.c - how sessions of BID come to be, go, and follow what BIDCTL tells; see bid.c.
 */
#include <errno.h>

#include "protocols/bid_private.h"
#include "protocols/vnet.h"
#include "xkernel/bytes.h"

/* ---- what BIDCTL says ---- */

static void
bid_set_peer(struct bid *bid, struct bid_session *s, uint64_t boot)
{
	if (atomic_exchange_explicit(&s->peer, boot, memory_order_relaxed) != boot)
		xk_count(&bid->protocol, BID_TOLD);
}

static unsigned
bid_count_uppers(struct bid *bid, uint32_t *uppers)
{
	unsigned count;

	xk_lock(&bid->lock);
	count = bid->upper_count;
	memcpy(uppers, bid->uppers, sizeof(bid->uppers));
	xk_unlock(&bid->lock);
	return count;
}

void
bid_changed(const struct xk_bidctl_watcher *watcher, enum xk_bidctl_change change, const struct xk_bidctl_peer *peer)
{
	struct bid *bid = bid_of(watcher->protocol);
	uint32_t uppers[BID_UPPERS];
	unsigned count = bid_count_uppers(bid, uppers);

	(void)change;
	for (unsigned i = 0; i < count; i++) {
		struct bid_session *s = xk_map_resolve(&bid->sessions, bid_key(bid_flow(uppers[i], peer->host)));

		if (s != NULL)
			bid_set_peer(bid, s, peer->boot);
	}
}

/* Asks BIDCTL about a message of host. Returns 0, or the reason to drop it. */
static unsigned
bid_ask(struct bid *bid, uint32_t host, uint64_t boot, struct xk_session *lls)
{
	int status = xk_bidctl_heard(bid_bidctl(bid), host, boot, lls);

	return status == 0 ? 0 : status == -EREMCHG ? BID_ELSEWHERE : BID_UNCONFIRMED;
}

/*
 * BIDCTL is asked again when the session knows the id, since a change in between was told to the session first.
 */
unsigned
bid_confirm(struct bid *bid, struct bid_session *s, uint64_t boot, struct xk_session *lls)
{
	uint32_t host = (uint32_t)s->flow;
	unsigned why;

	if (bid_peer(s) == boot && (lls == NULL || lls == bid_heard(s)))
		return 0;
	why = bid_ask(bid, host, boot, lls);
	if (why != 0 || bid_peer(s) == boot)
		return why;
	bid_set_peer(bid, s, boot);
	why = bid_ask(bid, host, boot, NULL);
	if (why != 0)
		atomic_compare_exchange_strong_explicit(&s->peer, &boot, 0, memory_order_relaxed, memory_order_relaxed);
	return why;
}

/* ---- sessions ---- */

/* The number of a protocol above, which will be told of changes. 0 or -errno. */
static int
bid_number(struct bid *bid, const struct xk_protocol *hlp_type, uint32_t *number)
{
	int err = xk_number(&bid->protocol, hlp_type, number);
	unsigned i = 0;

	if (err != 0)
		return err;
	xk_lock(&bid->lock);
	while (i < bid->upper_count && bid->uppers[i] != *number)
		i++;
	if (i == bid->upper_count && i < BID_UPPERS)
		bid->uppers[bid->upper_count++] = *number;
	xk_unlock(&bid->lock);
	return i < BID_UPPERS ? 0 : -ENOSPC;
}

/* A session over lls, in no map yet; takes the reference on lls, also on failure. 0 or -errno. */
static int
bid_session_new(struct bid *bid, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_session *lls,
		uint64_t flow, struct bid_session **session)
{
	uint64_t own_host = 0;
	int got = xk_control(lls, XK_GET_MY_HOST, &own_host, sizeof(own_host));
	struct xk_session *s = got < 0 ? NULL
				       : xk_session_new(&bid->protocol, &bid_session_ops, sizeof(struct bid_session),
							hlp_receive, hlp_type, lls);

	if (s == NULL) {
		xk_close(lls);
		return got < 0 ? got : -ENOMEM;
	}
	*session = bid_session_of(s);
	xk_lock_init(&(*session)->lock, &bid->protocol);
	(*session)->flow = flow;
	(*session)->own_host = (uint32_t)own_host;
	xk_put32((*session)->header, (uint32_t)(flow >> 32));
	xk_put32((*session)->header + 4, (uint32_t)own_host);
	(*session)->own = xk_bidctl_own(bid_bidctl(bid), (uint32_t)flow);
	xk_put64((*session)->header + BID_SOURCE, (*session)->own);
	return 0;
}

/* The session's host is used, and the session found, from now on. 0 or -errno. */
static int
bid_session_publish(struct bid *bid, struct bid_session *s)
{
	int err = xk_bidctl_use(bid_bidctl(bid), (uint32_t)s->flow);

	s->used = err == 0;
	return err != 0 ? err : xk_session_bind(&s->session, &bid->sessions, bid_key(s->flow));
}

void
bid_close(struct xk_session *session)
{
	struct bid_session *s = bid_session_of(session);

	struct xk_session *heard;

	xk_lock(&s->lock);
	s->closed = true;
	heard = bid_heard(s);
	xk_unlock(&s->lock);
	if (heard != session->lls)
		xk_close(heard);
	if (s->used)
		xk_bidctl_unuse(bid_bidctl(bid_of(session->protocol)), (uint32_t)s->flow);
}

/* ---- opening ---- */

/* The session gets its peer's boot, if it has none. May wait. 0 or -errno. */
static int
bid_session_confirm(struct bid *bid, struct bid_session *s)
{
	uint64_t boot = 0;
	int err = 0;

	if (bid_peer(s) == 0)
		err = xk_bidctl_confirm(bid_bidctl(bid), (uint32_t)s->flow, &boot);
	if (err != 0 || bid_peer(s) != 0 || bid_confirm(bid, s, boot, NULL) == 0)
		return err;
	return -EAGAIN; /* it has rebooted again */
}

/*
 * One reference more on the session that exists, which is an opened one from now on: it is not to stay behind when its
 * neighbour moves. 0; -ENOENT: there is none; -errno.
 */
static int
bid_open_again(struct bid *bid, uint64_t flow, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	       struct xk_session **session)
{
	uint64_t host = (uint32_t)flow;
	int err = xk_session_share(&bid->sessions, bid_key(flow), hlp_receive, hlp_type, session);

	if (err != 0)
		return err;
	if (bid_session_of(*session)->passive)
		xk_control((*session)->lls, XK_VNET_FOLLOW, &host, sizeof(host));
	err = bid_session_confirm(bid, bid_session_of(*session));
	if (err != 0)
		xk_close(*session);
	return err;
}

/* A session to the host of flow, whose boot is known. 0; -EEXIST: somebody was faster; -errno. */
static int
bid_open_new(struct bid *bid, uint64_t flow, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	     struct xk_participants *participants, struct xk_session **session)
{
	struct xk_protocol *self = &bid->protocol;
	struct xk_session *lls;
	struct bid_session *s;
	int err = xk_open(self, self, xk_lower(self, BID_TRANSPORT), participants, &lls);

	if (err == 0)
		err = bid_session_new(bid, hlp_receive, hlp_type, lls, flow, &s);
	if (err != 0)
		return err;
	err = bid_session_publish(bid, s);
	if (err == 0)
		err = bid_session_confirm(bid, s);
	if (err != 0)
		xk_close(&s->session);
	else
		*session = &s->session;
	return err;
}

int
bid_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	struct bid *bid = bid_of(self);
	struct xk_participant remote = participants->remote;
	uint64_t host = xk_participant_pop(&remote), flow, boot;
	uint32_t number;
	int err = bid_number(bid, hlp_type, &number);

	if (err != 0)
		return err;
	if (host > UINT32_MAX || !bid_is_host(host))
		return -EINVAL;
	flow = bid_flow(number, (uint32_t)host);
	err = bid_open_again(bid, flow, hlp_receive, hlp_type, session);
	if (err != -ENOENT)
		return err;
	err = xk_bidctl_confirm(bid_bidctl(bid), (uint32_t)host, &boot);
	if (err == 0)
		err = bid_open_new(bid, flow, hlp_receive, hlp_type, participants, session);
	if (err != -EEXIST)
		return err;
	err = bid_open_again(bid, flow, hlp_receive, hlp_type, session);
	return err == -ENOENT ? -EAGAIN : err;
}

int
bid_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		struct xk_participants *participants)
{
	struct bid *bid = bid_of(self);
	uint32_t number;
	int err = bid_number(bid, hlp_type, &number);

	return err != 0 ? err : xk_enable_add(&bid->enables, bid_enable_key(number), hlp_receive, hlp_type);
}

/* Whether somebody is still willing to have the session. */
static bool
bid_is_wanted(struct xk_session *session, void *context)
{
	struct bid *bid = context;
	uint32_t number = (uint32_t)(bid_session_of(session)->flow >> 32);

	return xk_map_resolve(&bid->enables, bid_enable_key(number)) != NULL;
}

int
bid_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 struct xk_participants *participants)
{
	struct bid *bid = bid_of(self);
	uint32_t number;
	int err = xk_number(self, hlp_type, &number);

	if (err == 0)
		err = xk_enable_remove(&bid->enables, bid_enable_key(number), hlp_receive, hlp_type);
	if (err == 0)
		xk_session_uncache(self, bid_is_wanted, bid);
	return err;
}

/* ---- those that messages cause ---- */

/* s has had a good message by lls, whose peer is the session's. */
static void
bid_session_hear(struct bid *bid, struct bid_session *s, struct xk_session *lls)
{
	struct xk_session *first = s->session.lls, *before;
	bool moved = s->passive && lls != first;

	if (lls != first && !xk_duplicate(lls))
		return;
	xk_lock(&s->lock);
	before = lls;
	if (!s->closed) {
		before = bid_heard(s);
		atomic_store_explicit(&s->heard, lls, memory_order_release);
		if (atomic_exchange_explicit(&s->session.binding.watched, moved, memory_order_relaxed) || moved)
			xk_count(&bid->protocol, BID_MOVED);
	}
	xk_unlock(&s->lock);
	if (before != first)
		xk_close(before);
}

/* A session for the stranger of h, whom BIDCTL has confirmed. 0, or the reason to drop the message. */
static unsigned
bid_open_passively(struct bid *bid, struct xk_session *lls, const struct bid_header *h, struct bid_session **session)
{
	const struct xk_enable *enable = xk_map_resolve(&bid->enables, bid_enable_key((uint32_t)(h->flow >> 32)));
	struct bid_session *s;
	unsigned why = BID_UNCONFIRMED;

	if (enable == NULL || !xk_duplicate(lls) ||
	    bid_session_new(bid, enable->hlp_receive, enable->hlp_type, lls, h->flow, &s) != 0)
		return XK_DROP_NO_SESSION;
	s->passive = true;
	atomic_init(&s->heard, lls);
	if (bid_session_publish(bid, s) == 0)
		why = bid_confirm(bid, s, h->source, NULL);
	if (why != 0) {
		xk_close(&s->session);
		*session = xk_map_resolve(&bid->sessions, bid_key(h->flow)); /* another shepherd's, if there is one */
		return *session != NULL ? 0 : why;
	}
	if (xk_session_announce(&s->session) != 0)
		return XK_DROP_REFUSED;
	*session = s;
	return 0;
}

unsigned
bid_find(struct bid *bid, struct xk_session *lls, const struct bid_header *h, struct bid_session **session)
{
	unsigned why = 0;

	*session = xk_map_resolve(&bid->sessions, bid_key(h->flow));
	if (*session == NULL)
		why = bid_ask(bid, bid_host(h), h->source, lls);
	if (*session == NULL && why == 0)
		why = bid_open_passively(bid, lls, h, session);
	if (why == 0)
		why = bid_confirm(bid, *session, h->source, lls);
	if (why != 0)
		return why;
	if (bid_heard(*session) != lls)
		bid_session_hear(bid, *session, lls);
	return 0;
}
