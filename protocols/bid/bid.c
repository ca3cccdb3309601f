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
 * Boots:        What comes up bears the boot that it is from (XK_FROM_BOOT), since it may wait on its way until there is
 *               another one; what goes down may bear the one that it is for (XK_FOR_BOOT), and goes to no other.
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

#include "protocols/bid/bid_private.h"
#include "xkernel/bytes.h"

/* ---- the header ---- */

struct bid_header {
	uint64_t flow, source, destination;
};

static inline struct bid_header
bid_header_load(const uint8_t *p)
{
	return (struct bid_header){ xk_get64(p + BID_FLOW), xk_get64(p + BID_SOURCE), xk_get64(p + BID_DESTINATION) };
}

static const struct xk_field bid_fields[] = {
	{ .name = "protocol", .bits = 32, .kind = XK_NAMES_SESSION, .is_upper = true, .help = "above" },
	{ .name = "source_host", .bits = 32, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HOST },
	{ .name = "source_boot", .bits = 64, .kind = XK_FIXED, .print = XK_PRINT_HEX, .help = "confirmed by BIDCTL" },
	{ .name = "destination_boot", .bits = 64, .kind = XK_FIXED, .print = XK_PRINT_HEX, .help = "0: not known" },
	{ .name = NULL },
};

/* ---- init ---- */

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

/* ---- down ---- */

/* Whether m is for another boot than `peer`, which is there now. */
static inline bool
bid_is_over(const struct xk_msg *m, uint64_t peer)
{
	const uint64_t *boot = xk_msg_annotation(m, XK_OF_MESSAGE, XK_FOR_BOOT);

	return boot != NULL && *boot != peer;
}

/*
 * A message that is not sent: it is empty, for a boot that is over, or the peer's is not known. Takes m. A foreign thread
 * does not ask.
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
	if (xk_self() != NULL && xk_bidctl_known(bid_bidctl(self), bid_host(s->flow), &boot) == 0)
		bid_confirm(s, boot, NULL);
	xk_drop(self, m, BID_UNKNOWN_PEER);
	return -EHOSTUNREACH;
}

/* Down the session that brought the latest good message. */
XK_APART static int
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
	struct bid_session *s = (struct bid_session *)session;
	uint64_t peer = bid_peer(s);

	if (xk_unlikely(peer == 0 || xk_msg_len(m) == 0 || bid_is_over(m, peer)))
		return bid_refuse(s, peer, m);
	m = xk_push_header(session, m, BID_HEADER_LEN);
	if (xk_unlikely(m == NULL))
		return -ENOBUFS;
	memcpy(m->data, s->header, sizeof(s->header));
	xk_put64(m->data + BID_DESTINATION, peer);
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
bid_answer(struct xk_protocol *self, struct xk_session *lls, const struct bid_header *h)
{
	struct xk_msg *m;
	uint64_t host;

	if (xk_control(lls, XK_GET_MY_HOST, &host, sizeof(host)) != sizeof(host) ||
	    !bid_may_answer((struct bid *)self, bid_host(h->flow)))
		return;
	m = xk_msg_new(xk_platform_of(self), BID_HEADER_LEN);
	if (m == NULL)
		return;
	xk_put64(m->data + BID_FLOW, bid_flow(bid_number(h->flow), (uint32_t)host));
	xk_put64(m->data + BID_SOURCE, xk_bidctl_own(bid_bidctl(self), 0));
	xk_put64(m->data + BID_DESTINATION, h->source);
	xk_push(lls, m);
}

/* Returns 0 if a message of s (NULL: a stranger's), which lls has brought, is meant for this boot; or why to drop it. */
static unsigned
bid_check(struct xk_protocol *self, const struct bid_session *s, struct xk_session *lls, const struct bid_header *h,
	  bool empty)
{
	struct xk_protocol *bidctl = bid_bidctl(self);
	uint32_t host = bid_host(h->flow);
	uint64_t sender;

	if (h->source == 0)
		return BID_BAD_BOOT;
	if (!bid_is_host(host) ||
	    (xk_control(lls, XK_GET_PEER_HOST, &sender, sizeof(sender)) == sizeof(sender) && sender != host))
		return BID_BAD_HOST;
	if (s == NULL && xk_table_enabled(self, xk_table_number_key(bid_number(h->flow))) == NULL)
		return XK_DROP_NO_SESSION;
	if (h->destination != (s != NULL ? s->own : xk_bidctl_own(bidctl, host))) {
		if (!empty)
			bid_answer(self, lls, h);
		return BID_OLD_DESTINATION;
	}
	if (!empty)
		return 0;
	return xk_bidctl_heard(bidctl, host, h->source, lls) == 0 ? BID_EMPTY : BID_UNCONFIRMED;
}

/*
 * Judges message m, in front of which its header lies, and which is a stranger's (s is NULL), from or for another boot than
 * s knows, by another way, or empty. Returns the session that it is for; NULL: m was dropped.
 */
XK_APART static struct bid_session *
bid_judge(struct xk_protocol *self, struct bid_session *s, struct xk_session *lls, struct xk_msg *m)
{
	struct bid_header h = bid_header_load(m->data - BID_HEADER_LEN);
	unsigned why = bid_check(self, s, lls, &h, xk_msg_len(m) == 0);

	if (why == 0)
		why = bid_find(self, lls, h.flow, h.source, &s);
	if (why == 0)
		return s;
	xk_drop(self, m, why);
	return NULL;
}

/* The header is loaded after the session was looked for: kept meanwhile, it would cost saved registers. */
static void
bid_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct bid_session *s = (struct bid_session *)xk_table_find(self, bid_key(xk_get64(m->data + BID_FLOW)));
	struct bid_header h = bid_header_load(m->data);

	xk_msg_pop_in_place(m, BID_HEADER_LEN);
	if (xk_unlikely(s == NULL || h.source != bid_peer(s) || h.source == 0 || h.destination != s->own ||
			lls != bid_heard(s) || xk_msg_len(m) == 0) &&
	    (s = bid_judge(self, s, lls, m)) == NULL)
		return;
	xk_msg_annotate(m, XK_OF_MESSAGE, XK_FROM_BOOT, xk_get64(m->data - BID_HEADER_LEN + BID_SOURCE));
	xk_pop(&s->session, lls, m, NULL);
}

/* ---- asking ---- */

static int
bid_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	const struct bid_session *s = (const struct bid_session *)session;
	uint64_t host = op == XK_GET_PEER_HOST ? bid_host(s->flow) : s->own_host;

	if (op != XK_GET_PEER_HOST && op != XK_GET_MY_HOST)
		return -ENOTSUP;
	return xk_answer(buffer, len, &host, sizeof(host));
}

/* Hosts take the place of what the session below has put there. */
static int
bid_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	const struct bid_session *s = (const struct bid_session *)session;

	*participants =
		(struct xk_participants){ .remote = { 1, { bid_host(s->flow) } }, .local = { 1, { s->own_host } } };
	return 0;
}

/* ---- tables ---- */

static const struct xk_session_ops bid_session_ops = {
	.size = sizeof(struct bid_session),
	.setup = bid_setup,
	.push = bid_push,
	.pop = xk_pop_through,
	.close = bid_close,
	.control = bid_session_control,
	.get_participants = bid_get_participants,
};

static const struct xk_protocol_ops bid_ops = {
	.init = bid_init,
	.open = bid_open,
	.demux = bid_demux,
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
	.header = BID_HEADER_LEN,
	.fields = bid_fields,
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
