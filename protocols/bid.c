/*
 * bid.c - messages between boots of hosts: what was meant for a boot that is over, or comes from one that was not
 * confirmed, does not get through. Here is what messages go through; how sessions come to be, and what BIDCTL tells, is in
 * bid_session.c.
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
 *               A message without a payload answers one that was meant for a former boot. It bears the public id of
 *               this boot, since the message that it answers may be forged, and makes its receiver ask BIDCTL for the
 *               confirmed one.
 * Participants: the remote stack's top is the peer's host. Enabling names nobody.
 * Sessions:     one per (host, protocol above), for whoever opens it. open asks BIDCTL for the host's boot id, and may wait
 *               for that. A stranger's message makes one when BIDCTL has confirmed him; until then they are dropped
 *               (unconfirmed). A session uses its host (bidctl.h), lives through the peer's reboots, and knows at any time
 *               the boot that its user was told of last. When the host is lost it has none: pushes fail with -EHOSTUNREACH,
 *               and each of them makes BIDCTL ask.
 * Boots:        What comes up bears the boot that it is from (XK_MSG_FROM_BOOT), since it may wait on its way until there is
 *               another one; what goes down may bear the one that it is for (XK_MSG_FOR_BOOT), and goes to no other.
 * Answers:      what was opened sends where it was opened to; what a message has caused, down the session below that brought
 *               the latest good message. Where that one knows its peer's host, messages must bear the same. Where it
 *               knows only a station, that must be the station from which the host answers BIDCTL.
 * Control:      XK_GET_MAX_PACKET, XK_GET_OPT_PACKET, XK_GET_MY_HOST, XK_GET_PEER_HOST; the session below answers the others
 * Settings:     interval (between answers to one host, however much comes from it)
 * Drops:        bad_boot (0), bad_host (no single host, or not the one that the session below knows), old_destination (meant
 *               for a former boot of this host; answered), unconfirmed, empty (an answer: BIDCTL has been asked if need be;
 *               or pushed), unknown_peer (pushed, while the host is lost), over (pushed, for a boot that is over),
 *               elsewhere (from another station than its host answers from: BIDCTL asks)
 * Counters:     answers, limited (answers not sent), moved (sessions that answer by another session below), told (sessions
 *               whose peer's boot has changed)
 * Differs:      from x-kernel 3.2: ids of 64 bits in a byte order, the host in the header (what is below may know a link
 *               address only), answers limited and never to answers, -EHOSTUNREACH instead of a session without push.
 * Not done:     faults from below (fault.h), more than 16 protocols above
 * Graph:        chan -> bid; bid -> vsize (or blast, vnet, ip); bid -> bidctl
 */
#include <errno.h>

#include "protocols/bid_private.h"
#include "xkernel/bytes.h"

/* ---- the header ---- */

static inline void
bid_header_load(struct bid_header *h, const uint8_t *p)
{
	h->flow = xk_get64(p + BID_FLOW);
	h->source = xk_get64(p + BID_SOURCE);
	h->destination = xk_get64(p + BID_DESTINATION);
}

/* Takes the header off *m, and checks it by itself. 0, or the reason to drop *m. */
static inline unsigned
bid_header_pop(struct bid_header *h, struct xk_msg **m)
{
	const uint8_t *p = xk_msg_pop(m, BID_HEADER_LEN);

	if (xk_unlikely(p == NULL))
		return xk_msg_len(*m) < BID_HEADER_LEN ? XK_DROP_SHORT : XK_DROP_NO_BUFFER;
	bid_header_load(h, p);
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
	bid->watcher = (struct xk_bidctl_watcher){ .protocol = self, .changed = bid_changed };
	err = xk_open_enable(self, self, xk_lower(self, BID_TRANSPORT), &anybody);
	if (err != 0)
		bid_fini(self);
	else
		xk_bidctl_watch(bid_bidctl(bid), &bid->watcher);
	return err;
}

/* ---- down ---- */

/* Whether m is for another boot than `peer`, which is there now. */
static inline bool
bid_is_over(const struct xk_msg *m, uint64_t peer)
{
	return (m->flags & XK_MSG_FOR_BOOT) && m->boot != peer;
}

/*
 * A message that is not sent: it is empty, for a boot that is over, or the peer's is not known. Takes m. A foreign thread
 * does not ask.
 */
__attribute__((noinline)) static int
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
	if (xk_self() != NULL && xk_bidctl_known(bid_bidctl(bid_of(self)), (uint32_t)s->flow, &boot) == 0)
		bid_confirm(bid_of(self), s, boot, NULL);
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

	if (xk_unlikely(peer == 0 || xk_msg_len(m) == 0 || bid_is_over(m, peer)))
		return bid_refuse(s, peer, m);
	if (xk_unlikely(!xk_msg_has_room(m, BID_HEADER_LEN)))
		return xk_push_again(session, m);
	p = xk_msg_push_in_place(m, BID_HEADER_LEN);
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

/*
 * Tells the sender of h, which names a former boot of this host, that there is a newer one. The answer is no longer
 * than the header of h.
 */
static void
bid_answer(struct bid *bid, struct xk_session *lls, const struct bid_header *h)
{
	struct bid_header answer = { .source = xk_bidctl_own(bid_bidctl(bid), 0), .destination = h->source };
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

/* Whether anybody here wants messages of this flow. */
static bool
bid_is_known(struct bid *bid, const struct bid_header *h)
{
	return xk_map_resolve(&bid->sessions, bid_key(h->flow)) != NULL ||
	       xk_map_resolve(&bid->enables, bid_enable_key((uint32_t)(h->flow >> 32))) != NULL;
}

/* Returns the id of this boot that h must name; s is the session of its flow, or NULL. */
static uint64_t
bid_own(struct bid *bid, const struct bid_session *s, const struct bid_header *h)
{
	return s != NULL ? s->own : xk_bidctl_own(bid_bidctl(bid), bid_host(h));
}

/*
 * Judges all but ordinary messages; *session is the session of h, or NULL. Returns 0 and the session, or the reason to
 * drop m.
 */
__attribute__((noinline)) static unsigned
bid_judge(struct bid *bid, struct xk_session *lls, const struct bid_header *h, const struct xk_msg *m,
	  struct bid_session **session)
{
	bool empty = xk_msg_len(m) == 0;

	if (!bid_is_from_sender(lls, h))
		return BID_BAD_HOST;
	if (!bid_is_known(bid, h))
		return XK_DROP_NO_SESSION;
	if (h->destination != bid_own(bid, *session, h)) {
		if (!empty)
			bid_answer(bid, lls, h);
		return BID_OLD_DESTINATION;
	}
	if (!empty)
		return bid_find(bid, lls, h, session);
	return xk_bidctl_heard(bid_bidctl(bid), bid_host(h), h->source, lls) == 0 ? BID_EMPTY : BID_UNCONFIRMED;
}

/* Up to s, with what BID knows of who has sent m. */
static inline void
bid_pop(struct bid_session *s, struct xk_session *lls, struct xk_msg *m, const struct bid_header *h)
{
	m->boot = h->source;
	m->flags |= XK_MSG_FROM_BOOT;
	xk_pop(&s->session, lls, m, NULL);
}

/* Any message. */
__attribute__((noinline)) static void
bid_demux_any(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct bid *bid = bid_of(self);
	struct bid_session *s;
	struct bid_header h;
	unsigned why = bid_header_pop(&h, &m);

	if (xk_likely(why == 0)) {
		s = xk_map_resolve(&bid->sessions, bid_key(h.flow));
		if (xk_unlikely(s == NULL || h.source != bid_peer(s) || h.destination != s->own ||
				lls != bid_heard(s) || xk_msg_len(m) == 0))
			why = bid_judge(bid, lls, &h, m, &s);
	}
	if (why == 0)
		bid_pop(s, lls, m, &h);
	else
		xk_drop(self, m, why);
}

/*
 * Usually one more message of the session that had the last, from the same boot to this one: that way has no call, and saves
 * no registers. The session's host has been checked.
 */
static void
bid_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct bid *bid = bid_of(self);
	struct bid_session *s;
	struct bid_header h;

	if (xk_likely(m->len >= BID_HEADER_LEN && xk_msg_len(m) > BID_HEADER_LEN)) {
		bid_header_load(&h, m->data);
		s = xk_map_resolved_last(&bid->sessions, bid_key(h.flow));
		if (xk_likely(s != NULL && h.source == bid_peer(s) && h.source != 0 && h.destination == s->own &&
			      lls == bid_heard(s))) {
			xk_msg_pop_in_place(m, BID_HEADER_LEN);
			bid_pop(s, lls, m, &h);
			return;
		}
	}
	bid_demux_any(self, lls, m);
}

/* ---- asking ---- */

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

const struct xk_session_ops bid_session_ops = {
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
static const struct xk_setting bid_settings[] = {
	{ "interval", XK_SETTING_TIME, offsetof(struct bid, interval_ns), "100ms",
	  "a host that means a former boot of this one is told so at most once in this", 1000, UINT64_C(60000000000) },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const char *const bid_drops[] = { "bad_boot",     "bad_host", "old_destination", "unconfirmed", "empty",
					 "unknown_peer", "over",     "elsewhere",       NULL };

static const char *const bid_counters[] = { "answers", "limited", "moved", "told", NULL };

static const struct xk_number_on bid_numbers[] = { { "blast", 0x3005 }, { "eth", 0x3005 }, { "ip", 204 }, { NULL, 0 } };

const struct xk_protocol_type xk_type_bid = {
	.name = "bid",
	.help = "Messages between boots of hosts: nothing of a former boot, or of one not confirmed, gets through.",
	.ops = &bid_ops,
	.session_ops = &bid_session_ops,
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
