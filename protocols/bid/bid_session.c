/*
 * bid_session.c - how sessions of BID come to be, go, and follow what BIDCTL tells; see bid.c.
 */
#include <errno.h>

#include "protocols/bid/bid_private.h"
#include "protocols/virtual/vnet.h"
#include "xkernel/bytes.h"

/* ---- what BIDCTL says ---- */

static void
bid_set_peer(struct bid_session *s, uint64_t boot)
{
	if (atomic_exchange_explicit(&s->peer, boot, memory_order_relaxed) != boot)
		xk_count(s->session.protocol, BID_TOLD);
}

void
bid_changed(const struct xk_bidctl_watcher *watcher, enum xk_bidctl_change change, const struct xk_bidctl_peer *peer)
{
	struct bid *bid = (struct bid *)watcher->protocol;
	unsigned count = atomic_load_explicit(&bid->upper_count, memory_order_acquire);

	for (unsigned i = 0; i < count; i++) {
		struct xk_session *s = xk_table_find(&bid->protocol, bid_key(bid_flow(bid->uppers[i], peer->host)));

		if (s != NULL)
			bid_set_peer((struct bid_session *)s, peer->boot);
	}
}

/* Asks BIDCTL about a message of host. Returns 0, or the reason to drop it. */
static unsigned
bid_ask(struct xk_protocol *self, uint32_t host, uint64_t boot, struct xk_session *lls)
{
	int status = xk_bidctl_heard(bid_bidctl(self), host, boot, lls);

	return status == 0 ? 0 : status == -EREMCHG ? BID_ELSEWHERE : BID_UNCONFIRMED;
}

/*
 * BIDCTL is asked again when the session knows the id, since a change in between was told to the session first.
 */
unsigned
bid_confirm(struct bid_session *s, uint64_t boot, struct xk_session *lls)
{
	struct xk_protocol *self = s->session.protocol;
	unsigned why;

	if (bid_peer(s) == boot && (lls == NULL || lls == bid_heard(s)))
		return 0;
	why = bid_ask(self, bid_host(s->flow), boot, lls);
	if (why != 0 || bid_peer(s) == boot)
		return why;
	bid_set_peer(s, boot);
	why = bid_ask(self, bid_host(s->flow), boot, NULL);
	if (why != 0)
		atomic_compare_exchange_strong_explicit(&s->peer, &boot, 0, memory_order_relaxed, memory_order_relaxed);
	return why;
}

/* ---- sessions ---- */

/* What makes a session: what its messages bear, and whether one of them has caused it. */
struct bid_how {
	uint64_t flow;
	bool passive;
};

/* Sessions of the protocol above with this number are told of changes from now on. 0 or -ENOSPC. */
static int
bid_add_upper(struct bid *bid, uint32_t number)
{
	unsigned count, i = 0;

	xk_lock(&bid->lock);
	count = atomic_load_explicit(&bid->upper_count, memory_order_relaxed);
	while (i < count && bid->uppers[i] != number)
		i++;
	if (i == count && i < BID_UPPERS) {
		bid->uppers[i] = number;
		atomic_store_explicit(&bid->upper_count, count + 1, memory_order_release);
	}
	xk_unlock(&bid->lock);
	return i < BID_UPPERS ? 0 : -ENOSPC;
}

int
bid_setup(struct xk_session *session, const void *argument)
{
	const struct bid_how *how = argument;
	struct bid_session *s = (struct bid_session *)session;
	struct xk_protocol *self = session->protocol, *bidctl = bid_bidctl(self);
	uint32_t number = bid_number(how->flow), host = bid_host(how->flow);
	uint64_t own_host = 0;
	int err = xk_control(session->lls, XK_GET_MY_HOST, &own_host, sizeof(own_host));

	xk_lock_init(&s->lock, self);
	s->flow = how->flow;
	s->passive = how->passive;
	if (s->passive)
		atomic_init(&s->heard, session->lls);
	if (err < 0 || (err = bid_add_upper((struct bid *)self, number)) != 0 ||
	    (err = xk_bidctl_use(bidctl, host)) != 0)
		return err;
	s->used = true;
	s->own_host = (uint32_t)own_host;
	s->own = xk_bidctl_own(bidctl, host);
	xk_put64(s->header + BID_FLOW, bid_flow(number, s->own_host));
	xk_put64(s->header + BID_SOURCE, s->own);
	return 0;
}

void
bid_close(struct xk_session *session)
{
	struct bid_session *s = (struct bid_session *)session;
	struct xk_session *heard;

	xk_lock(&s->lock);
	s->closed = true;
	heard = bid_heard(s);
	xk_unlock(&s->lock);
	if (heard != session->lls)
		xk_close(heard);
	if (s->used)
		xk_bidctl_unuse(bid_bidctl(session->protocol), bid_host(s->flow));
}

/* ---- opening ---- */

/* The session gets its peer's boot, if it has none. May wait. 0 or -errno. */
static int
bid_session_confirm(struct bid_session *s)
{
	uint64_t boot = 0;
	int err = 0;

	if (bid_peer(s) == 0)
		err = xk_bidctl_confirm(bid_bidctl(s->session.protocol), bid_host(s->flow), &boot);
	if (err != 0 || bid_peer(s) != 0 || bid_confirm(s, boot, NULL) == 0)
		return err;
	return -EAGAIN; /* it has rebooted again */
}

/* A session to a host that answers BIDCTL first. 0 or -errno. */
static int
bid_open_new(struct xk_protocol *self, uint64_t flow, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	     struct xk_participants *participants, struct xk_session **session)
{
	struct bid_how how = { flow, false };
	struct xk_session *lls;
	uint64_t boot;
	int err = xk_bidctl_confirm(bid_bidctl(self), bid_host(flow), &boot);

	if (err == 0)
		err = xk_open(self, self, xk_lower(self, BID_TRANSPORT), participants, &lls);
	return err != 0 ? err : xk_table_open(self, bid_key(flow), hlp_receive, hlp_type, lls, &how, session);
}

/* A session that a message has caused is an opened one from now on: it is not to stay behind when its neighbour moves. */
int
bid_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	struct xk_participant remote = participants->remote;
	uint64_t host = xk_participant_pop(&remote), flow;
	struct bid_session *s;
	uint32_t number;
	int err = xk_number(self, hlp_type, &number);

	if (err != 0)
		return err;
	if (!bid_is_host(host))
		return -EINVAL;
	flow = bid_flow(number, (uint32_t)host);
	err = xk_table_share(self, bid_key(flow), hlp_receive, hlp_type, session);
	if (err == -ENOENT)
		err = bid_open_new(self, flow, hlp_receive, hlp_type, participants, session);
	if (err != 0)
		return err;
	s = (struct bid_session *)*session;
	if (s->passive)
		xk_control(s->session.lls, XK_VNET_FOLLOW, &host, sizeof(host));
	err = bid_session_confirm(s);
	if (err != 0)
		xk_close(&s->session);
	return err;
}

/* ---- those that messages cause ---- */

/* s has had a good message by lls, whose peer is the session's. */
static void
bid_session_hear(struct bid_session *s, struct xk_session *lls)
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
			xk_count(s->session.protocol, BID_MOVED);
	}
	xk_unlock(&s->lock);
	if (before != first)
		xk_close(before);
}

/*
 * A session for a stranger whom BIDCTL has confirmed; another shepherd's, if there is one. It is confirmed before it is
 * announced, and found before it is confirmed: what changes in between is told to it. 0, or the reason to drop the message.
 */
static unsigned
bid_accept(struct xk_protocol *self, struct xk_session *lls, uint64_t flow, uint64_t boot, struct bid_session **session)
{
	const struct xk_enable *enable = xk_table_enabled(self, xk_table_number_key(bid_number(flow)));
	struct bid_how how = { flow, true };
	unsigned why = BID_UNCONFIRMED;
	struct xk_session *s;
	int err;

	if (enable == NULL || !xk_duplicate(lls))
		return XK_DROP_NO_SESSION;
	err = xk_table_add(self, bid_key(flow), enable->hlp_receive, enable->hlp_type, lls, &how, &s);
	if (err != 0 && err != -EEXIST && err != -ENOBUFS)
		return XK_DROP_NO_SESSION;
	if (err == 0) {
		why = bid_confirm((struct bid_session *)s, boot, NULL);
		if (why == 0 && xk_session_announce(s) != 0)
			return XK_DROP_REFUSED;
		if (why != 0)
			xk_close(s);
	}
	if (why != 0)
		s = xk_table_find(self, bid_key(flow));
	*session = (struct bid_session *)s;
	return s != NULL ? 0 : why;
}

unsigned
bid_find(struct xk_protocol *self, struct xk_session *lls, uint64_t flow, uint64_t boot, struct bid_session **session)
{
	unsigned why = 0;

	if (*session == NULL) {
		why = bid_ask(self, bid_host(flow), boot, lls);
		if (why == 0)
			why = bid_accept(self, lls, flow, boot, session);
	}
	if (why == 0)
		why = bid_confirm(*session, boot, lls);
	if (why == 0 && bid_heard(*session) != lls)
		bid_session_hear(*session, lls);
	return why;
}
