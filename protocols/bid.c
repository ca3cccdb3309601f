/*
 * bid.c - messages between boots of hosts: what was meant for a boot that is over, or comes from one that was not
 * confirmed, does not get through.
 *
 * Promise:      No message of a new boot of a host reaches the protocol above before that protocol was told of the boot (if
 *               it watches BIDCTL, where BID is told last); and none that was meant for a former boot of this host ever
 *               does. When a reboot is being told, a message of the boot before it may still be on its way up, in another
 *               shepherd. Messages may be lost, twice, late or damaged: that is for others.
 * Spec:         our own, after x-kernel 3.2's; a 24-byte header:
 *
 *                0                    4                    8                                        16
 *               +--------------------+--------------------+----------------------------------------+ ...
 *               | protocol above     | source host        | source's boot id (8 bytes)             |
 *               +--------------------+--------------------+----------------------------------------+
 *               | destination's boot id (8 bytes, 0: not known)                                     ...
 *
 *               A message without a payload is an answer to one that was meant for a former boot: it shows who is there now.
 * Participants: the remote stack's top is the peer's host. Enabling names nobody.
 * Sessions:     one per (host, protocol above), for whoever opens it. open asks BIDCTL for the host's boot id, and may wait
 *               for that. A stranger's message makes one when BIDCTL has confirmed him; until then they are dropped
 *               (unconfirmed). A session uses its host (bidctl.h), lives through the peer's reboots, and knows at any time
 *               the boot that its user was told of last. When the host is lost it has none: pushes fail with -EHOSTUNREACH,
 *               and each of them makes BIDCTL ask.
 * Answers:      what was opened sends where it was opened to; what a message has caused, down the session below that brought
 *               the latest good message. Where that one knows its peer's host, messages must bear the same.
 * Control:      XK_GET_MAX_PACKET, XK_GET_OPT_PACKET, XK_GET_MY_HOST, XK_GET_PEER_HOST; the session below answers the others
 * Settings:     interval (between answers to one host, however much comes from it)
 * Drops:        bad_boot (0), bad_host (no single host, or not the one that the session below knows), old_destination (meant
 *               for a former boot of this host; answered), unconfirmed, empty (an answer: BIDCTL has been asked if need be;
 *               or pushed), unknown_peer (pushed, while the host is lost)
 * Counters:     answers, limited (answers not sent), moved (sessions that answer by another session below), told (sessions
 *               whose peer's boot has changed)
 * Differs:      from x-kernel 3.2: ids of 64 bits in a byte order, the host in the header (what is below may know a link
 *               address only), answers limited and never to answers, -EHOSTUNREACH instead of a session without push.
 * Not done:     faults from below (fault.h), more than 16 protocols above
 * Graph:        chan -> bid; bid -> vsize (or blast, vnet, ip); bid -> bidctl
 */
#include <errno.h>

#include "protocols/bidctl.h"
#include "protocols/vnet.h"
#include "xkernel/bytes.h"
#include "xkernel/protocol.h"
#include "xkernel/trace.h"

enum bid_drop {
	BID_BAD_BOOT = XK_DROP_OWN,
	BID_BAD_HOST,
	BID_OLD_DESTINATION,
	BID_UNCONFIRMED,
	BID_EMPTY,
	BID_UNKNOWN_PEER,
};

enum bid_counter { BID_ANSWERS, BID_LIMITED, BID_MOVED, BID_TOLD };

static const char *const bid_drops[] = { "bad_boot",     "bad_host", "old_destination", "unconfirmed", "empty",
					 "unknown_peer", NULL };

static const char *const bid_counters[] = { "answers", "limited", "moved", "told", NULL };

enum { BID_TRANSPORT, BID_BIDCTL };

enum { BID_UPPERS = 16, BID_ANSWERED = 256 };

/* ---- the header ---- */

enum { BID_FLOW = 0, BID_SOURCE = 8, BID_DESTINATION = 16, BID_HEADER_LEN = 24 };

struct bid_header {
	uint64_t flow; /* protocol above << 32 | source host, as the key has them */
	uint64_t source, destination;
};

static inline uint32_t
bid_host(const struct bid_header *h)
{
	return (uint32_t)h->flow;
}

static inline uint64_t
bid_flow(uint32_t number, uint32_t host)
{
	return (uint64_t)number << 32 | host;
}

/* Whether it may be a single host's address. */
static inline bool
bid_is_host(uint64_t host)
{
	return host >> 24 != 0 && host >> 28 < 0xe;
}

/* Takes the header off *m, and checks it by itself. 0, or the reason to drop *m. */
static inline unsigned
bid_header_pop(struct bid_header *h, struct xk_msg **m)
{
	const uint8_t *p = xk_msg_pop(m, BID_HEADER_LEN);

	if (xk_unlikely(p == NULL))
		return xk_msg_len(*m) < BID_HEADER_LEN ? XK_DROP_SHORT : XK_DROP_NO_BUFFER;
	h->flow = xk_get64(p + BID_FLOW);
	h->source = xk_get64(p + BID_SOURCE);
	h->destination = xk_get64(p + BID_DESTINATION);
	if (xk_unlikely(h->source == 0))
		return BID_BAD_BOOT;
	return xk_likely(bid_is_host(bid_host(h))) ? 0 : BID_BAD_HOST;
}

static inline void
bid_header_store(uint8_t *p, const struct bid_header *h)
{
	xk_put64(p + BID_FLOW, h->flow);
	xk_put64(p + BID_SOURCE, h->source);
	xk_put64(p + BID_DESTINATION, h->destination);
}

/* ---- state ---- */

struct bid {
	struct xk_protocol protocol; /* first */
	uint64_t interval_ns;        /* setting */

	struct xk_map sessions; /* flow: bid_session */
	struct xk_map enables;  /* number of the protocol above: struct xk_enable */
	uint64_t own;           /* this boot's id */
	struct xk_bidctl_watcher watcher;
	uint64_t seed;       /* of where a host's limit is */
	struct xk_lock lock; /* over what follows */
	uint32_t uppers[BID_UPPERS];
	unsigned upper_count;               /* does not shrink */
	uint64_t answered_ns[BID_ANSWERED]; /* when, and 1; 0: never. Hosts that share a place share the limit */
};

struct bid_session {
	struct xk_session session; /* first */
	uint64_t flow;             /* in what arrives */
	_Atomic uint64_t peer;     /* the peer's boot; 0: not known */
	/* Brought the latest good message, and has been checked; NULL: none. There is a reference on it unless it is lls. */
	_Atomic(struct xk_session *) heard;
	uint8_t header[BID_DESTINATION]; /* as it is sent; the destination follows */
	uint32_t own_host;
	bool passive, used;
	struct xk_lock lock; /* over changes of heard, and what follows */
	bool closed;
};

static inline struct bid *
bid_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct bid, protocol);
}

static inline struct bid_session *
bid_session_of(struct xk_session *s)
{
	return xk_container_of(s, struct bid_session, session);
}

static inline struct xk_key
bid_key(uint64_t flow)
{
	return (struct xk_key){ flow, 0 };
}

static struct xk_key
bid_enable_key(uint32_t number)
{
	return (struct xk_key){ number, 0 };
}

static inline struct xk_protocol *
bid_bidctl(struct bid *bid)
{
	return xk_lower(&bid->protocol, BID_BIDCTL);
}

static inline uint64_t
bid_peer(const struct bid_session *s)
{
	return atomic_load_explicit(&s->peer, memory_order_relaxed);
}

static inline struct xk_session *
bid_heard(const struct bid_session *s)
{
	return atomic_load_explicit(&s->heard, memory_order_acquire);
}

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

static void
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

/*
 * Whether a message of the session's host may go up that bears this boot id: BIDCTL says now that it is the one that all
 * were told of. It is asked again when the session knows the id, since a change in between was told to the session first.
 */
static bool
bid_is_confirmed(struct bid *bid, struct bid_session *s, uint64_t boot)
{
	uint32_t host = (uint32_t)s->flow;

	if (bid_peer(s) == boot)
		return true;
	if (xk_bidctl_heard(bid_bidctl(bid), host, boot) != 0)
		return false;
	bid_set_peer(bid, s, boot);
	if (xk_bidctl_heard(bid_bidctl(bid), host, boot) == 0)
		return true;
	atomic_compare_exchange_strong_explicit(&s->peer, &boot, 0, memory_order_relaxed, memory_order_relaxed);
	return false;
}

/* ---- init and fini ---- */

static void
bid_fini(struct xk_protocol *self)
{
	struct bid *bid = bid_of(self);

	xk_enable_fini(&bid->enables);
	xk_map_fini(&bid->sessions);
}

static int
bid_init(struct xk_protocol *self)
{
	struct bid *bid = bid_of(self);
	struct xk_participants anybody = { .remote.depth = 0 };
	int err = xk_map_init(&bid->sessions, self->kernel, 16);

	if (err != 0)
		return err;
	err = xk_map_init(&bid->enables, self->kernel, 8);
	if (err != 0) {
		xk_map_fini(&bid->sessions);
		return err;
	}
	xk_lock_init(&bid->lock, self);
	bid->seed = xk_random(self) | 1;
	bid->own = xk_bidctl_own(bid_bidctl(bid));
	bid->watcher = (struct xk_bidctl_watcher){ .protocol = self, .changed = bid_changed };
	err = xk_open_enable(self, self, xk_lower(self, BID_TRANSPORT), &anybody);
	if (err != 0)
		bid_fini(self);
	else
		xk_bidctl_watch(bid_bidctl(bid), &bid->watcher);
	return err;
}

/* ---- sessions ---- */

static const struct xk_session_ops bid_session_ops;

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

/* How much of the length that a session or protocol below says is left for a message; as struct xk_protocol_ops says. */
static int
bid_answer_length(int got, uint32_t below, void *buffer, size_t len)
{
	if (got < 0)
		return got;
	if (below < BID_HEADER_LEN)
		return -EMSGSIZE;
	below -= BID_HEADER_LEN;
	return xk_answer(buffer, len, &below, sizeof(below));
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
	xk_put64((*session)->header + BID_SOURCE, bid->own);
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

static void
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
	if (err != 0 || bid_peer(s) != 0 || bid_is_confirmed(bid, s, boot))
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

static int
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

static int
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

static int
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

/* ---- down ---- */

/* A message that is not sent: it is empty, or the peer's boot is not known. Takes m. A foreign thread does not ask. */
static int
bid_refuse(struct bid_session *s, struct xk_msg *m)
{
	struct xk_protocol *self = s->session.protocol;
	uint64_t boot;

	if (xk_msg_len(m) == 0) {
		xk_drop(self, m, BID_EMPTY);
		return -EINVAL;
	}
	if (xk_self() != NULL && xk_bidctl_known(bid_bidctl(bid_of(self)), (uint32_t)s->flow, &boot) == 0)
		bid_is_confirmed(bid_of(self), s, boot);
	xk_drop(self, m, BID_UNKNOWN_PEER);
	return -EHOSTUNREACH;
}

/* Down the session that brought the latest good message. Apart, so that a push without that saves no registers. */
__attribute__((noinline)) static int
bid_push_moved(struct bid_session *s, struct xk_msg *m)
{
	struct xk_session *lls;
	int err;

	xk_lock(&s->lock);
	lls = bid_heard(s);
	if (lls != NULL && !xk_duplicate(lls))
		lls = NULL;
	xk_unlock(&s->lock);
	if (lls == NULL)
		return xk_push(s->session.lls, m);
	err = xk_push(lls, m);
	xk_close(lls);
	return err;
}

static int
bid_push(struct xk_session *session, struct xk_msg *m)
{
	struct bid_session *s = bid_session_of(session);
	uint64_t peer = bid_peer(s);
	uint8_t *p;

	if (xk_unlikely(peer == 0 || xk_msg_len(m) == 0))
		return bid_refuse(s, m);
	p = xk_msg_push(&m, BID_HEADER_LEN);
	if (xk_unlikely(p == NULL)) {
		xk_drop(session->protocol, m, XK_DROP_NO_BUFFER);
		return -ENOBUFS;
	}
	memcpy(p, s->header, sizeof(s->header));
	xk_put64(p + BID_DESTINATION, peer);
	if (xk_unlikely(atomic_load_explicit(&session->binding.watched, memory_order_relaxed)))
		return bid_push_moved(s, m);
	return xk_push(session->lls, m);
}

/* ---- up ---- */

/* Whether host, which has got no answer lately, may get one. */
static bool
bid_may_answer(struct bid *bid, uint32_t host)
{
	uint64_t *answered_ns = &bid->answered_ns[(host * bid->seed >> 32) % BID_ANSWERED];
	uint64_t now_ns = xk_now_ns(&bid->protocol) + 1;
	bool may;

	xk_lock(&bid->lock);
	may = *answered_ns == 0 || now_ns - *answered_ns >= bid->interval_ns;
	if (may)
		*answered_ns = now_ns;
	xk_unlock(&bid->lock);
	xk_count(&bid->protocol, may ? BID_ANSWERS : BID_LIMITED);
	return may;
}

/* Tells the sender of h, who means a former boot of this host, who is here now: an answer as long as its header. */
static void
bid_answer(struct bid *bid, struct xk_session *lls, const struct bid_header *h)
{
	struct bid_header answer = { .source = bid->own, .destination = h->source };
	struct xk_msg *m;
	uint64_t host;

	if (xk_control(lls, XK_GET_MY_HOST, &host, sizeof(host)) != sizeof(host) || !bid_may_answer(bid, bid_host(h)))
		return;
	m = xk_msg_new(xk_platform_of(&bid->protocol), BID_HEADER_LEN);
	if (m == NULL)
		return;
	answer.flow = bid_flow((uint32_t)(h->flow >> 32), (uint32_t)host);
	bid_header_store(m->data, &answer);
	xk_push(lls, m);
}

/* Whether h may come from whom lls brings messages of. */
static bool
bid_is_from_sender(struct xk_session *lls, const struct bid_header *h)
{
	uint64_t host;

	return xk_control(lls, XK_GET_PEER_HOST, &host, sizeof(host)) != sizeof(host) || host == bid_host(h);
}

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

	if (enable == NULL || !xk_duplicate(lls) ||
	    bid_session_new(bid, enable->hlp_receive, enable->hlp_type, lls, h->flow, &s) != 0)
		return XK_DROP_NO_SESSION;
	s->passive = true;
	atomic_init(&s->heard, lls);
	if (bid_session_publish(bid, s) != 0 || !bid_is_confirmed(bid, s, h->source)) {
		xk_close(&s->session);
		*session = xk_map_resolve(&bid->sessions, bid_key(h->flow)); /* another shepherd's, if there is one */
		return *session != NULL ? 0 : BID_UNCONFIRMED;
	}
	if (xk_session_announce(&s->session) != 0)
		return XK_DROP_REFUSED;
	*session = s;
	return 0;
}

/* Whether anybody here wants messages of this flow. */
static bool
bid_is_known(struct bid *bid, const struct bid_header *h)
{
	return xk_map_resolve(&bid->sessions, bid_key(h->flow)) != NULL ||
	       xk_map_resolve(&bid->enables, bid_enable_key((uint32_t)(h->flow >> 32))) != NULL;
}

/* The session of h, whose boots are right and which a new session below has brought, or of a stranger. */
static unsigned
bid_find(struct bid *bid, struct xk_session *lls, const struct bid_header *h, struct bid_session **session)
{
	unsigned why = 0;

	*session = xk_map_resolve(&bid->sessions, bid_key(h->flow));
	if (*session == NULL && xk_bidctl_heard(bid_bidctl(bid), bid_host(h), h->source) != 0)
		return BID_UNCONFIRMED;
	if (*session == NULL)
		why = bid_open_passively(bid, lls, h, session);
	if (why != 0)
		return why;
	if (!bid_is_confirmed(bid, *session, h->source))
		return BID_UNCONFIRMED;
	if (bid_heard(*session) != lls)
		bid_session_hear(bid, *session, lls);
	return 0;
}

/* All but an ordinary message of a session: 0 and the session, or the reason to drop m. */
__attribute__((noinline)) static unsigned
bid_judge(struct bid *bid, struct xk_session *lls, const struct bid_header *h, const struct xk_msg *m,
	  struct bid_session **session)
{
	bool empty = xk_msg_len(m) == 0;

	if (!bid_is_from_sender(lls, h))
		return BID_BAD_HOST;
	if (!bid_is_known(bid, h))
		return XK_DROP_NO_SESSION;
	if (h->destination != bid->own) {
		if (!empty)
			bid_answer(bid, lls, h);
		return BID_OLD_DESTINATION;
	}
	if (!empty)
		return bid_find(bid, lls, h, session);
	return xk_bidctl_heard(bid_bidctl(bid), bid_host(h), h->source) == 0 ? BID_EMPTY : BID_UNCONFIRMED;
}

static void
bid_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct bid *bid = bid_of(self);
	struct bid_session *s;
	struct bid_header h;
	unsigned why = bid_header_pop(&h, &m);

	if (xk_likely(why == 0)) {
		s = xk_map_resolve(&bid->sessions, bid_key(h.flow));
		if (xk_unlikely(s == NULL || h.source != bid_peer(s) || h.destination != bid->own ||
				lls != bid_heard(s) || xk_msg_len(m) == 0))
			why = bid_judge(bid, lls, &h, m, &s);
	}
	if (xk_likely(why == 0))
		xk_pop(&s->session, lls, m, NULL);
	else
		xk_drop(self, m, why);
}

/* ---- asking ---- */

static int
bid_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	const struct bid_session *s = bid_session_of(session);
	uint64_t host = op == XK_GET_PEER_HOST ? (uint32_t)s->flow : s->own_host;
	uint32_t below = 0;
	int got;

	if (op == XK_GET_PEER_HOST || op == XK_GET_MY_HOST)
		return xk_answer(buffer, len, &host, sizeof(host));
	if (op != XK_GET_MAX_PACKET && op != XK_GET_OPT_PACKET)
		return -ENOTSUP;
	got = xk_control(session->lls, op, &below, sizeof(below));
	return bid_answer_length(got, below, buffer, len);
}

static int
bid_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	uint32_t below = 0;
	int got;

	if (op != XK_GET_MAX_PACKET && op != XK_GET_OPT_PACKET)
		return -ENOTSUP;
	got = xk_control_protocol(xk_lower(self, BID_TRANSPORT), op, &below, sizeof(below));
	return bid_answer_length(got, below, buffer, len);
}

/* Hosts take the place of what the session below has put there. */
static int
bid_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	const struct bid_session *s = bid_session_of(session);

	*participants =
		(struct xk_participants){ .remote = { 1, { (uint32_t)s->flow } }, .local = { 1, { s->own_host } } };
	return 0;
}

/* ---- tables ---- */

static const struct xk_session_ops bid_session_ops = {
	.push = bid_push,
	.pop = xk_pop_through,
	.close = bid_close,
	.control = bid_session_control,
	.get_participants = bid_get_participants,
};

static const struct xk_protocol_ops bid_ops = {
	.init = bid_init,
	.fini = bid_fini,
	.open = bid_open,
	.open_enable = bid_open_enable,
	.open_disable = bid_open_disable,
	.demux = bid_demux,
	.control = bid_control,
};

static const struct xk_role bid_lowers[] = {
	{ "transport", XK_ASYNC, NULL, "carries messages to hosts: vsize, blast, vnet, ip" },
	{ "bidctl", XK_CONTROL, "bidctl", "knows which boot of a host is there" },
	{ NULL, 0, NULL, NULL },
};

/* As on IP, where they are there. */
static const struct xk_number_of bid_numbers[] = {
	{ "udp", 17 }, { "chan", 102 }, { "am", 206 }, { "stopwait", 253 }, { NULL, 0 },
};

static const struct xk_setting bid_settings[] = {
	{ "interval", XK_SETTING_TIME, offsetof(struct bid, interval_ns), "100ms",
	  "a host that means a former boot of this one is told so at most once in this", 1000, UINT64_C(60000000000) },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

const struct xk_protocol_type xk_type_bid = {
	.name = "bid",
	.help = "Messages between boots of hosts: nothing of a former boot, or of one not confirmed, gets through.",
	.ops = &bid_ops,
	.size = sizeof(struct bid),
	.offers = XK_ASYNC,
	.lowers = bid_lowers,
	.numbers = bid_numbers,
	.number_max = UINT32_MAX,
	.settings = bid_settings,
	.drops = bid_drops,
	.counters = bid_counters,
	.session_max = 1024,
};
