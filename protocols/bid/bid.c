/*
 * bid.c - messages between boots of hosts: drops those meant for a former boot or sent by an unconfirmed one.
 *
 * Promise:      No message of a host's new boot reaches the protocol above before that protocol was notified of the
 *               boot (if it watches BIDCTL, which notifies BID last). No message meant for a former boot of this host
 *               does. During the notification another shepherd may still carry up a message of the previous boot.
 *               Messages may be lost, duplicated, late or damaged.
 * Spec:         our own, after x-kernel 3.2's, with 64-bit ids, the host in the header and limited answers. A message
 *               without a payload answers one meant for a former boot. It bears this boot's public id, because the
 *               answered message may be forged, and makes its receiver ask BIDCTL for the confirmed id.
 * Participants: the remote stack's top is the peer's host; enabling takes none
 * Sessions:     one per (host, protocol above). open asks BIDCTL for the host's boot id and may wait. A stranger's
 *               message makes a session once BIDCTL has confirmed its boot; until then its messages are dropped. A
 *               session outlives the peer's reboots and knows the boot that its user was notified of last. While the
 *               host is lost, each push fails with -EHOSTUNREACH and makes BIDCTL ask.
 * Boots:        Messages come up with their sender's boot (XK_FROM_BOOT), because another may follow before they
 *               arrive. A message pushed with XK_FOR_BOOT goes to that boot or nowhere.
 * Origin:       An opened session sends to where it was opened; a passive one, down the session below that brought its
 *               latest good message. If that session knows its peer's host, messages must bear it. If it knows only a
 *               station, the host must answer BIDCTL from that station.
 * Control:      XK_GET_MY_HOST, XK_GET_PEER_HOST; the session below answers the others
 * Not done:     faults from below (fault.h)
 * Graph:        chan -> bid; bid -> vsize (or blast, vnet, ip); bid -> bidctl
 */
#include <errno.h>

#include "protocols/bid/bid_private.h"
#include "protocols/paths.h"
#include "protocols/virtual/vnet.h"
#include "xkernel/bytes.h"

#define BID_DROPS(D)                                                                                                   \
	D(BID_BAD_BOOT, "bad_boot")               /* the source's boot id is 0 */                                      \
	D(BID_BAD_HOST, "bad_host")               /* no single host, or not the one that the session below knows */    \
	D(BID_OLD_DESTINATION, "old_destination") /* meant for a former boot of this host: answered */                 \
	D(BID_UNCONFIRMED, "unconfirmed")                                                                              \
	D(BID_EMPTY, "empty")               /* an answer, or pushed without a payload */                               \
	D(BID_UNKNOWN_PEER, "unknown_peer") /* pushed while the host is lost */                                        \
	D(BID_OVER, "over")                 /* pushed for a boot that is over */                                       \
	D(BID_ELSEWHERE, "elsewhere")       /* not from the station that its host answers from: BIDCTL asks */
XK_DROPS(bid, BID_DROPS);

#define BID_COUNTERS(C)                                                                                                \
	C(BID_ANSWERS, "answers")                                                                                      \
	C(BID_LIMITED, "limited") /* answers suppressed */                                                             \
	C(BID_MOVED, "moved")     /* sessions that now answer by another session below */                              \
	C(BID_NOTIFIED, "told")   /* changes of a session's peer boot */
XK_COUNTERS(bid, BID_COUNTERS);

XK_FIELDS(bid, BID_HEADER);

enum { BID_TRANSPORT, BID_BIDCTL };

enum { BID_ANSWERED = 256 };

#define BID_NO_MOVES UINT64_MAX /* a number of changes that is never reached */

struct bid {
	struct xk_protocol protocol; /* first */
	uint64_t interval_ns;        /* setting */

	struct xk_bidctl_watcher watcher;
	uint64_t seed;                      /* of the hash of hosts in answered_ns */
	struct xk_lock lock;                /* protects the fields below */
	uint64_t answered_ns[BID_ANSWERED]; /* by a host's hash: time of the last answer, plus 1; 0: none */
};

static inline struct xk_protocol *
bid_bidctl(const struct xk_protocol *self)
{
	return xk_lower(self, BID_BIDCTL);
}

static inline struct xk_session *
bid_origin(const struct bid_session *s)
{
	return atomic_load_explicit(&s->origin, memory_order_acquire);
}

/* Returns a session's key: the number of the protocol above, and the host, as they stand side by side in messages. */
static inline struct xk_key
bid_key(uint32_t number, uint32_t host)
{
	return (struct xk_key){ (uint64_t)number << 32 | host, 0 };
}

/* ---- boots ---- */

static void
bid_set_peer(struct bid_session *s, uint64_t boot)
{
	if (atomic_exchange_explicit(&s->peer, boot, memory_order_relaxed) != boot)
		xk_count(s->session.protocol, BID_NOTIFIED);
}

/* Updates the host's session with each protocol above that has a number here. */
static void
bid_changed(const struct xk_bidctl_watcher *watcher, enum xk_bidctl_change change, const struct xk_bidctl_peer *peer)
{
	struct xk_protocol *self = watcher->protocol;

	for (struct xk_protocol *hlp = self->next; hlp != NULL; hlp = hlp->next) {
		struct xk_session *s = NULL;
		uint32_t number;

		if (xk_number(self, hlp, &number) == 0)
			s = xk_table_find(self, bid_key(number, peer->host));
		if (s != NULL)
			bid_set_peer((struct bid_session *)s, peer->boot);
	}
}

/* Asks BIDCTL about a message from host. Returns 0, or the reason to drop it. */
static unsigned
bid_ask(struct xk_protocol *self, uint32_t host, uint64_t boot, struct xk_session *lls)
{
	int err = xk_bidctl_check(bid_bidctl(self), host, boot, lls);

	return err == 0 ? 0 : err == -EREMCHG ? BID_ELSEWHERE : BID_UNCONFIRMED;
}

/*
 * Checks a message of the session's host with this boot id: BIDCTL must confirm that all watchers were notified of this
 * boot, and that the message came from the host's own station by lls (NULL: do not check). Asks again after the session
 * has adopted the id, because it may have been notified of a change in between. Returns 0, or the reason to drop the
 * message. Never waits.
 */
static unsigned
bid_confirm(struct bid_session *s, uint64_t boot, struct xk_session *lls)
{
	struct xk_protocol *self = s->session.protocol;
	unsigned why;

	if (bid_peer(s) == boot && (lls == NULL || lls == bid_origin(s)))
		return 0;
	why = bid_ask(self, s->host, boot, lls);
	if (why != 0 || bid_peer(s) == boot)
		return why;
	bid_set_peer(s, boot);
	why = bid_ask(self, s->host, boot, NULL);
	if (why != 0)
		atomic_compare_exchange_strong_explicit(&s->peer, &boot, 0, memory_order_relaxed, memory_order_relaxed);
	return why;
}

/* ---- sessions ---- */

/* Parameters of a new session. */
struct bid_how {
	uint32_t number, host;
	bool passive;
};

static int
bid_setup(struct xk_session *session, const void *argument)
{
	struct bid_session *s = (struct bid_session *)session;
	const struct bid_how *how = argument;
	struct xk_protocol *bidctl = bid_bidctl(session->protocol);
	uint64_t own_host = 0;
	int err = xk_control(session->lls, XK_GET_MY_HOST, &own_host);

	xk_lock_init(&s->lock, session->protocol);
	s->host = how->host;
	s->passive = how->passive;
	if (s->passive)
		atomic_init(&s->origin, session->lls);
	if (err < 0 || (err = xk_bidctl_use(bidctl, s->host)) != 0)
		return err;
	s->own_host = (uint32_t)own_host;
	s->own = xk_bidctl_own(bidctl, s->host);
	XK_PUT(bid, protocol, session->sends.header, how->number);
	XK_PUT(bid, source_host, session->sends.header, s->own_host);
	XK_PUT(bid, source_boot, session->sends.header, s->own);
	session->sends.is_path = true;
	return 0;
}

static void
bid_close(struct xk_session *session)
{
	struct bid_session *s = (struct bid_session *)session;
	struct xk_session *origin;

	xk_lock(&s->lock);
	s->closed = true;
	origin = bid_origin(s);
	xk_unlock(&s->lock);
	for (struct xk_session *below = origin; below != NULL; below = below->lls)
		xk_session_used(below); /* by messages that have passed them on a path */
	if (origin != session->lls)
		xk_close(origin);
	if (s->own != 0)
		xk_bidctl_unuse(bid_bidctl(session->protocol), s->host);
}

/* Makes an existing passive session follow its neighbour, as an opened one does. */
static int
bid_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	struct xk_participant remote = participants->remote;
	struct bid_how how = { .passive = false };
	uint64_t host = xk_participant_pop(&remote), boot = 0;
	struct xk_session *lls;
	struct bid_session *s;
	struct xk_key key;
	int err = xk_number(self, hlp_type, &how.number);

	if (err != 0)
		return err;
	if (!xk_bidctl_is_host(host))
		return -EINVAL;
	how.host = (uint32_t)host;
	key = bid_key(how.number, how.host);
	err = xk_table_share(self, key, hlp_receive, hlp_type, session);
	if (err == -ENOENT) {
		err = xk_bidctl_confirm(bid_bidctl(self), how.host, &boot);
		if (err == 0)
			err = xk_open(self, self, xk_lower(self, BID_TRANSPORT), participants, &lls);
		if (err == 0)
			err = xk_table_open(self, key, hlp_receive, hlp_type, lls, &how, session);
	}
	if (err != 0)
		return err;
	s = (struct bid_session *)*session;
	if (s->passive)
		xk_control(s->session.lls, XK_VNET_FOLLOW, &host);
	if (bid_peer(s) == 0)
		err = xk_bidctl_confirm(bid_bidctl(self), how.host, &boot);
	if (err == 0 && bid_peer(s) == 0 && bid_confirm(s, boot, NULL) != 0)
		err = -EAGAIN; /* rebooted again */
	if (err != 0)
		xk_close(*session);
	return err;
}

/*
 * Finds or makes the session of a stranger whose boot and origin BIDCTL confirms. A new one is confirmed before it is
 * announced, and bound before it is confirmed, so that changes in between reach it. Returns 0 and the session, or the
 * reason to drop the message.
 */
static unsigned
bid_accept(struct xk_protocol *self, struct xk_session *lls, const struct bid_header *h, struct bid_session **session)
{
	const struct xk_enable *enable = xk_table_enabled(self, xk_table_number_key(h->protocol));
	struct xk_key key = bid_key(h->protocol, h->source_host);
	struct bid_how how = { h->protocol, h->source_host, true };
	unsigned why = bid_ask(self, h->source_host, h->source_boot, lls);
	struct xk_session *s;
	int err;

	if (why != 0)
		return why;
	if (enable == NULL || !xk_duplicate(lls))
		return XK_DROP_NO_SESSION;
	err = xk_table_add(self, key, enable->hlp_receive, enable->hlp_type, lls, &how, &s);
	if (err != 0 && err != -EEXIST && err != -ENOBUFS)
		return XK_DROP_NO_SESSION;
	why = BID_UNCONFIRMED;
	if (err == 0) {
		why = bid_confirm((struct bid_session *)s, h->source_boot, NULL);
		if (why == 0 && xk_session_announce(s) != 0)
			return XK_DROP_REFUSED;
		if (why != 0)
			xk_close(s);
	}
	if (why != 0) /* another shepherd may have made one */
		s = xk_table_find(self, key);
	*session = (struct bid_session *)s;
	return s != NULL ? 0 : why;
}

/* Notes that lls has brought a good message of s. */
static void
bid_note_origin(struct bid_session *s, struct xk_session *lls)
{
	struct xk_session *first = s->session.lls, *before;
	bool moved = s->passive && lls != first;

	if (lls != first && !xk_duplicate(lls))
		return;
	xk_lock(&s->lock);
	before = lls;
	if (!s->closed) {
		before = bid_origin(s);
		atomic_store_explicit(&s->origin, lls, memory_order_release);
		atomic_fetch_add_explicit(&s->moves, 1, memory_order_release);
		if (xk_session_marked(&s->session) || moved)
			xk_count(s->session.protocol, BID_MOVED);
		xk_session_mark(&s->session, moved);
	}
	xk_unlock(&s->lock);
	if (before != first)
		xk_close(before);
}

static int
bid_session_control(struct xk_session *session, int op, void *argument)
{
	const struct bid_session *s = (const struct bid_session *)session;

	if (op != XK_GET_PEER_HOST && op != XK_GET_MY_HOST)
		return -ENOTSUP;
	*(uint64_t *)argument = op == XK_GET_PEER_HOST ? s->host : s->own_host;
	return 0;
}

/* Replaces the participants of the session below. */
static int
bid_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	const struct bid_session *s = (const struct bid_session *)session;

	*participants = (struct xk_participants){ .remote = { 1, { s->host } }, .local = { 1, { s->own_host } } };
	return 0;
}

/* ---- down ---- */

/*
 * Drops m, which is empty, for a boot that is over, or for a lost host. Asks for the host, unless on a foreign thread.
 */
XK_APART static int
bid_refuse(struct bid_session *s, uint64_t peer, struct xk_msg *m)
{
	struct xk_protocol *self = s->session.protocol;
	uint64_t boot;

	if (xk_msg_len(m) == 0) {
		xk_drop(self, m, BID_EMPTY);
		return -EINVAL;
	}
	if (peer != 0) {
		xk_drop(self, m, BID_OVER);
		return -ECONNRESET;
	}
	if (xk_self() != NULL && xk_bidctl_known(bid_bidctl(self), s->host, &boot) == 0)
		bid_confirm(s, boot, NULL);
	xk_drop(self, m, BID_UNKNOWN_PEER);
	return -EHOSTUNREACH;
}

/* Sends m down the session that brought the latest good message. */
XK_APART static int
bid_push_moved(struct bid_session *s, struct xk_msg *m)
{
	struct xk_session *lls;
	int err;

	xk_lock(&s->lock);
	lls = bid_origin(s);
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
	struct bid_session *s = (struct bid_session *)session;
	const uint64_t *only = xk_msg_annotation(m, XK_OF_MESSAGE, XK_FOR_BOOT);
	uint8_t header[XK_HEADER_LEN(bid)];
	uint64_t peer = bid_peer(s);
	bool is_usual;

	memcpy(header, session->sends.header, sizeof(header));
	is_usual = bid_path_push(session, m, header);
	if (xk_unlikely(!is_usual)) {
		if (peer == 0 || xk_msg_len(m) == 0 || (only != NULL && *only != peer))
			return bid_refuse(s, peer, m);
		XK_PUT(bid, destination_boot, header, peer);
	}
	m = xk_push_header(session, m, sizeof(header));
	if (xk_unlikely(m == NULL))
		return -ENOBUFS;
	memcpy(m->data, header, sizeof(header));
	return xk_likely(is_usual) ? xk_push(session->lls, m) : bid_push_moved(s, m);
}

/* ---- up ---- */

/*
 * Sends the newer boot to the sender of h, which names a former one of this host: at most once per interval and host.
 */
static void
bid_answer(struct xk_protocol *self, struct xk_session *lls, const struct bid_header *h)
{
	struct bid *bid = (struct bid *)self;
	uint64_t *answered_ns = &bid->answered_ns[(h->source_host * bid->seed >> 32) % BID_ANSWERED];
	uint64_t host, now_ns = xk_now_ns(self) + 1;
	struct bid_header answer;
	struct xk_msg *m;
	bool may;

	if (xk_control(lls, XK_GET_MY_HOST, &host) != 0)
		return;
	xk_lock(&bid->lock);
	may = *answered_ns == 0 || now_ns - *answered_ns >= bid->interval_ns;
	if (may)
		*answered_ns = now_ns;
	xk_unlock(&bid->lock);
	xk_count(self, may ? BID_ANSWERS : BID_LIMITED);
	m = may ? xk_msg_new(xk_platform_of(self), XK_HEADER_LEN(bid)) : NULL;
	if (m == NULL)
		return;
	answer = (struct bid_header){ h->protocol, (uint32_t)host, xk_bidctl_own(bid_bidctl(self), 0), h->source_boot };
	bid_store(m->data, &answer);
	xk_push(lls, m);
}

/*
 * Checks m, whose header lies in front of it, and which is unusual: from a stranger, from or for another boot than its
 * session knows, from elsewhere, or empty. Returns its session, or NULL: m was dropped.
 */
XK_APART static struct xk_session *
bid_admit(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct bid_header h = bid_load(m->data - XK_HEADER_LEN(bid));
	struct bid_session *s = (struct bid_session *)xk_table_find(self, bid_key(h.protocol, h.source_host));
	struct xk_protocol *bidctl = bid_bidctl(self);
	uint32_t host = h.source_host;
	bool is_empty = xk_msg_len(m) == 0;
	uint64_t sender;
	unsigned why = 0;

	if (h.source_boot == 0)
		why = BID_BAD_BOOT;
	else if (!xk_bidctl_is_host(host) || (xk_control(lls, XK_GET_PEER_HOST, &sender) == 0 && sender != host))
		why = BID_BAD_HOST;
	else if (s == NULL && xk_table_enabled(self, xk_table_number_key(h.protocol)) == NULL)
		why = XK_DROP_NO_SESSION;
	else if (h.destination_boot != (s != NULL ? s->own : xk_bidctl_own(bidctl, host)))
		why = BID_OLD_DESTINATION;
	else if (is_empty)
		why = xk_bidctl_check(bidctl, host, h.source_boot, lls) == 0 ? BID_EMPTY : BID_UNCONFIRMED;
	if (why == BID_OLD_DESTINATION && !is_empty)
		bid_answer(self, lls, &h);
	if (why == 0 && s == NULL)
		why = bid_accept(self, lls, &h, &s);
	if (why == 0)
		why = bid_confirm(s, h.source_boot, lls);
	if (why != 0) {
		xk_drop(self, m, why);
		return NULL;
	}
	if (bid_origin(s) != lls)
		bid_note_origin(s, lls);
	xk_msg_annotate(m, XK_OF_MESSAGE, XK_FROM_BOOT, h.source_boot);
	return &s->session;
}

static struct xk_session *
bid_find(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p)
{
	struct xk_key key = { XK_GET_SPAN(bid, protocol, source_host, p), 0 };
	struct bid_session *s = (struct bid_session *)xk_table_find(self, key);

	return s != NULL && lls == bid_origin(s) && XK_GET(bid, destination_boot, p) == s->own ? &s->session : NULL;
}

/*
 * The path's messages need no check while `moves` stays as it was before `origin` was read, and while what comes up the
 * sessions below still goes to `from`, for which those answer.
 */
static uint64_t
bid_path_state(const struct xk_session *session, const struct xk_session *from)
{
	const struct bid_session *s = (const struct bid_session *)session;
	uint64_t moves = atomic_load_explicit(&s->moves, memory_order_acquire);

	return from != bid_origin(s) ? BID_NO_MOVES : moves;
}

static void
bid_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	const uint8_t *p = m->data;
	struct xk_session *s = bid_find(self, lls, p);

	xk_msg_pop_in_place(m, XK_HEADER_LEN(bid));
	if (xk_unlikely(s == NULL || xk_msg_len(m) == 0 || !bid_path_pop(s, m, p, bid_path_state(s, lls))) &&
	    (s = bid_admit(self, lls, m)) == NULL)
		return;
	xk_pop(s, lls, m, NULL);
}

/* ---- promises ---- */

static const char *
bid_session_promise(struct xk_session *session, bool at_rest)
{
	const struct bid_session *s = (const struct bid_session *)session;
	const struct xk_session *origin = bid_origin(s);
	bool moved = s->passive && origin != NULL && origin != session->lls;

	(void)at_rest;
	return moved != xk_session_marked(session) ? "a session does not answer where its latest good message came from"
						   : NULL;
}

/* ---- tables ---- */

static int
bid_init(struct xk_protocol *self)
{
	struct bid *bid = (struct bid *)self;
	struct xk_participants anybody = { .remote.depth = 0 };
	int err;

	xk_lock_init(&bid->lock, self);
	bid->seed = xk_random(self) | 1;
	bid->watcher = (struct xk_bidctl_watcher){ .protocol = self, .changed = bid_changed };
	err = xk_open_enable(self, self, xk_lower(self, BID_TRANSPORT), &anybody);
	if (err == 0)
		xk_bidctl_watch(bid_bidctl(self), &bid->watcher);
	return err;
}

static const struct xk_session_ops bid_session_ops = {
	.size = sizeof(struct bid_session),
	.setup = bid_setup,
	.push = bid_push,
	.pop = xk_pop_through,
	.close = bid_close,
	.control = bid_session_control,
	.path_state = bid_path_state,
	.get_participants = bid_get_participants,
	.promise = bid_session_promise,
};

static const struct xk_protocol_ops bid_ops = {
	.init = bid_init,
	.open = bid_open,
	.demux = bid_demux,
	.find = bid_find,
};

static const struct xk_setting bid_settings[] = {
	XK_SETTING(TIME, struct bid, interval_ns, "interval",
		   "minimum time between answers to one host's messages for a former boot", .initial = "100ms",
		   .min = 1000, .max = UINT64_C(60000000000)),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_bid = {
	.name = "bid",
	.help = "Messages between boots of hosts: drops those for a former boot or from an unconfirmed one.",
	.ops = &bid_ops,
	.session_ops = &bid_session_ops,
	.header = XK_HEADER_LEN(bid),
	.fields = bid_fields,
	.size = sizeof(struct bid),
	.offers = XK_ASYNC,
	.lowers = XK_ROLES({ "transport", XK_ASYNC, NULL, "carries messages to hosts: vsize, blast, vnet, ip" },
			   { "bidctl", XK_CONTROL, "bidctl", "confirms hosts' boot ids" }),
	.numbers = XK_NUMBERS({ "blast", 0x3005 }, { "eth", 0x3005 }, { "ip", 204 }),
	.number_max = UINT32_MAX,
	.settings = bid_settings,
	.drops = bid_drops,
	.counters = bid_counters,
	.session_max = 1024,
	.path_code = &xk_path_bid,
};
