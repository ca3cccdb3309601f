/*
 * chan.c - request and reply, at most once, over anything that carries messages to known boots of hosts (BID).
 *
 * Promise:      Each call ends exactly once, by its deadline: with the handler's reply or with an error. Within one
 *               boot of client and server the handler runs at most once for it, and exactly once if it ends with a
 *               reply. Requests and replies never reach another boot than the one the channel was opened to. Handlers
 *               of one channel run one after the other. This assumes that BID keeps its promise, and that no message is
 *               in flight for longer than half of the server's `lifetime` or than 2^31 calls of its channel.
 * Spec:         the x-kernel's CHAN (O'Malley and Peterson, "A dynamic network architecture", 1992) with another
 *               header:
 *
 *                0             4      6      8             12            16             20
 *               +-------------+------+------+-------------+-------------+-------------+
 *               | channel     | flags|status| protocol    | sequence    | length      |  payload ...
 *               +-------------+------+------+-------------+-------------+-------------+
 *
 * Participants: none of its own; those given to open go on to BID
 * Sessions:     Each open gives another channel, for one call at a time. A server's session appears with the first
 *               request and stays until it has been silent for `lifetime`, since it knows which calls were run.
 * Errors:       -ETIMEDOUT, -ECONNRESET (the server has rebooted or is lost: open another channel), -ECONNREFUSED (the
 *               protocol is not enabled, or there are too many callers), -EBUSY, -EMSGSIZE, -ENOBUFS, -ECANCELED; a
 *               handler's own error, as -EREMOTEIO if it could be mistaken for one of these. After the first two,
 *               -ECANCELED and -EREMOTEIO the call may have been run.
 * Graph:        chan -> bid, chan -> bidctl
 */
#include "protocols/chan/chan_private.h"
#include "xkernel/bytes.h"

/* ---- the header ---- */

enum {
	CHAN_HOSTS = 16, /* expected hosts; there may be more */
};

/* Combinations of flags that exist, as bits. */
#define CHAN_FLAGS_POSSIBLE                                                                                            \
	(UINT32_C(1) << 0 | UINT32_C(1) << CHAN_ACK_REQUESTED | UINT32_C(1) << CHAN_NEGATIVE_ACK |                     \
	 UINT32_C(1) << CHAN_USER_MSG | UINT32_C(1) << (CHAN_USER_MSG | CHAN_ACK_REQUESTED) |                          \
	 UINT32_C(1) << CHAN_ERROR | UINT32_C(1) << (CHAN_ERROR | CHAN_USER_MSG) |                                     \
	 UINT32_C(1) << (CHAN_ERROR | CHAN_USER_MSG | CHAN_ACK_REQUESTED) | UINT32_C(1) << CHAN_FROM_CLIENT |          \
	 UINT32_C(1) << (CHAN_FROM_CLIENT | CHAN_ACK_REQUESTED) |                                                      \
	 UINT32_C(1) << (CHAN_FROM_CLIENT | CHAN_NEGATIVE_ACK) | UINT32_C(1) << (CHAN_FROM_CLIENT | CHAN_USER_MSG) |   \
	 UINT32_C(1) << (CHAN_FROM_CLIENT | CHAN_USER_MSG | CHAN_ACK_REQUESTED))

static const struct xk_field_value chan_flag_names[] = {
	{ CHAN_ERROR >> 1, "error" },
	{ CHAN_NEGATIVE_ACK >> 1, "negative_ack" },
	{ CHAN_ACK_REQUESTED >> 1, "ack_requested" },
	{ CHAN_USER_MSG >> 1, "user_msg" },
	{ 0, NULL },
};

XK_FIELDS(chan, CHAN_HEADER);

/* Pops and checks the header of m, and trims m to its length. Returns 0 or the reason to drop m. */
static inline unsigned
chan_header_pop(struct chan_header *h, struct xk_msg *m)
{
	size_t length = XK_GET(chan_wire, length, m->data);
	bool has_age, is_error;

	*h = chan_header_load(m->data);
	if (xk_unlikely(length > xk_msg_len(m) - CHAN_HEADER_LEN))
		return XK_DROP_BAD_LENGTH;
	xk_msg_pop_in_place(m, CHAN_HEADER_LEN);
	xk_msg_truncate(m, length);
	if (xk_unlikely(h->flags > 31 || !(CHAN_FLAGS_POSSIBLE >> h->flags & 1)))
		return CHAN_BAD_FLAGS;
	is_error = (h->flags & CHAN_ERROR) != 0;
	has_age = (h->flags & (CHAN_FROM_CLIENT | CHAN_USER_MSG)) == (CHAN_FROM_CLIENT | CHAN_USER_MSG);
	if (xk_unlikely(!has_age && (is_error != (h->status != 0) || h->status > CHAN_STATUS_MAX)))
		return CHAN_BAD_FLAGS;
	return length != 0 && (!(h->flags & CHAN_USER_MSG) || is_error) ? XK_DROP_BAD_LENGTH : 0;
}

static inline void
chan_header_store(uint8_t *p, const struct chan_header *h, size_t length)
{
	XK_PUT(chan_wire, channel, p, h->channel);
	XK_PUT_SPAN(chan_wire, reserved, from_client, p, h->flags);
	XK_PUT(chan_wire, status, p, h->status);
	XK_PUT(chan_wire, protocol, p, h->number);
	XK_PUT(chan_wire, sequence, p, h->sequence);
	XK_PUT(chan_wire, length, p, length);
}

/* ---- sending ---- */

/* Stores the header in m's first bytes, and names the boot that m is for. */
static inline void
chan_send_prepare(const struct chan_end *e, struct xk_msg *m, uint32_t sequence, unsigned flags, unsigned status)
{
	struct chan_header h = { e->channel, e->number, sequence, (uint16_t)flags, (uint16_t)status };

	chan_header_store(m->data, &h, xk_msg_len(m) - CHAN_HEADER_LEN);
	if (xk_likely(e->boot != 0))
		xk_msg_annotate(m, XK_OF_MESSAGE, XK_FOR_BOOT, e->boot);
}

/* Sends a message that a protocol below may keep, with a ticket, which e keeps while the message is the current one. */
XK_APART static void
chan_send_ticketed(struct chan_end *e, struct xk_msg *m, uint32_t sequence, unsigned flags, unsigned status)
{
	struct xk_ticket ticket = { .keeper = NULL, .no_wait = !(flags & CHAN_MAY_WAIT), .again = flags & CHAN_AGAIN };

	m = xk_push_header(&e->session, m, CHAN_HEADER_LEN);
	if (m == NULL)
		return;
	chan_send_prepare(e, m, sequence, flags, status);
	xk_ticket_put(m, &ticket);
	xk_push(e->session.lls, m);
	if (ticket.keeper == NULL)
		return;
	xk_lock(&e->lock);
	if (e->state == CHAN_SENT && e->sequence == sequence) {
		struct xk_ticket before = e->ticket;

		e->ticket = ticket;
		ticket = before;
	}
	xk_unlock(&e->lock);
	xk_ticket_release(&ticket);
}

/* The timer repeats messages that are lost here or below. No protocol below keeps a message that fits one packet. */
void
chan_send(struct chan_end *e, struct xk_msg *m, uint32_t sequence, unsigned flags, unsigned status)
{
	if (xk_unlikely(xk_msg_len(m) > e->opt_packet || !xk_msg_has_room(m, CHAN_HEADER_LEN))) {
		chan_send_ticketed(e, m, sequence, flags, status);
		return;
	}
	xk_msg_push_in_place(m, CHAN_HEADER_LEN);
	chan_send_prepare(e, m, sequence, flags, status);
	xk_push(e->session.lls, m);
}

/* A client's ack bears the sequence number after that of the reply, like the request that makes it superfluous. */
void
chan_answer(struct xk_protocol *self, struct xk_session *lls, const struct chan_header *h, enum chan_answer kind)
{
	unsigned direction = ~h->flags & CHAN_FROM_CLIENT;
	struct chan_header answer = { h->channel, h->number, h->sequence, (uint16_t)((unsigned)kind | direction),
				      (uint16_t)((unsigned)kind >> 16) };
	struct xk_msg *m;

	if (kind == CHAN_ANSWER_NOTHING)
		return;
	answer.sequence += kind == CHAN_ANSWER_ACK && direction == CHAN_FROM_CLIENT;
	xk_count(self, kind == CHAN_ANSWER_ACK ? CHAN_ACKED : kind == CHAN_ANSWER_NACK ? CHAN_ASKED : CHAN_REJECTED);
	m = xk_msg_new(xk_platform_of(self), CHAN_HEADER_LEN);
	if (m == NULL)
		return;
	chan_header_store(m->data, &answer, 0);
	xk_push(lls, m);
}

/* ---- init and fini ---- */

static int
chan_init(struct xk_protocol *self)
{
	struct chan *chan = (struct chan *)self;
	struct xk_participants anybody = { .remote.depth = 0 };
	int err;

	if (chan->timeouts.min_ns > chan->timeouts.first_ns || chan->timeouts.first_ns > chan->timeouts.max_ns ||
	    chan->timeouts.max_ns > chan->silence_ns || chan->lifetime_ns < 2 * chan->silence_ns)
		return -EINVAL;
	xk_lock_init(&chan->lock, self);
	xk_event_init(&chan->forget, self->kernel, chan_peer_expire, chan);
	err = xk_map_init(&chan->peers, self->kernel, CHAN_HOSTS);
	if (err != 0)
		return err;
	err = xk_shares_init(&chan->saved, self, XK_SHARES_OF_BUFFERS, xk_share_buffers(chan->saved_max));
	if (err != 0)
		goto fail_saved;
	err = xk_shares_init(&chan->shares, self, XK_SHARES_TAKEN, (uint32_t)chan->channels);
	if (err != 0)
		goto fail_shares;
	chan->next_channel = (uint32_t)xk_random(self);
	if (chan->channels > chan->hosts) /* so that `hosts` hosts with one channel each fill the table */
		chan->host_cost = (uint32_t)(chan->channels / chan->hosts - 1);
	err = xk_open_enable(self, self, xk_lower(self, 0), &anybody);
	if (err != 0)
		goto fail;
	chan->watcher.protocol = self;
	chan->watcher.changed = chan_peer_changed;
	xk_bidctl_watch(xk_lower(self, 1), &chan->watcher);
	return 0;
fail:
	xk_shares_fini(&chan->shares);
fail_shares:
	xk_shares_fini(&chan->saved);
fail_saved:
	xk_map_fini(&chan->peers);
	return err;
}

static void
chan_fini(struct xk_protocol *self)
{
	struct chan *chan = (struct chan *)self;

	xk_event_cancel(&chan->forget);
	chan_peer_fini(chan);
}

/* ---- demux ---- */

/* Demultiplexes a message of any kind. */
XK_APART static void
chan_demux_any(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	const uint8_t *p = m->data;
	struct chan_header h;
	struct xk_session *s;
	unsigned why = chan_header_pop(&h, m);

	if (xk_unlikely(why != 0)) {
		xk_drop(self, m, why);
		return;
	}
	s = xk_table_find(self, chan_key(lls, h.number, h.channel, h.flags & CHAN_FROM_CLIENT));
	if (xk_unlikely(s == NULL) && (s = chan_end_accept((struct chan *)self, lls, m, &h)) == NULL)
		return;
	xk_pop(s, lls, m, p);
}

/* Finds the session of a usual message, on the channel of the last one, by a few comparisons. */
static void
chan_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	const uint8_t *p = m->data;
	struct xk_session *s = NULL;

	if (xk_likely(chan_header_is_usual(p) && XK_GET(chan_wire, length, p) == xk_msg_len(m) - CHAN_HEADER_LEN))
		s = xk_table_last(self, chan_key(lls, XK_GET(chan_wire, protocol, p), XK_GET(chan_wire, channel, p),
						 XK_GET(chan_wire, from_client, p)));
	if (xk_unlikely(s == NULL)) {
		chan_demux_any(self, lls, m);
		return;
	}
	xk_msg_pop_in_place(m, CHAN_HEADER_LEN);
	xk_pop(s, lls, m, p);
}

/* ---- tables ---- */

static const struct xk_protocol_ops chan_ops = {
	.init = chan_init,
	.fini = chan_fini,
	.open = chan_client_open,
	.demux = chan_demux,
	.promise = chan_peers_promise,
};

#define CHAN_HOUR_NS UINT64_C(3600000000000)

static const struct xk_setting chan_settings[] = {
	XK_SETTING(TIME, struct chan, timeouts.first_ns, "timeout",
		   "time without an answer before a request or reply is sent again, until round trips are measured",
		   .initial = "200ms", .min = 1000, .max = CHAN_HOUR_NS),
	XK_SETTING(TIME, struct chan, timeouts.min_ns, "timeout_min", "shortest timeout that measuring sets",
		   .initial = "10ms", .min = 1000, .max = CHAN_HOUR_NS),
	XK_SETTING(TIME, struct chan, timeouts.max_ns, "timeout_max",
		   "longest timeout that measuring and doubling set; how often a busy server is probed",
		   .initial = "2s", .min = 1000, .max = CHAN_HOUR_NS),
	XK_SETTING(TIME, struct chan, deadline_ns, "deadline", "longest time of a call, unless its caller sets another",
		   .initial = "60s", .min = 1000, .max = 24 * CHAN_HOUR_NS),
	XK_SETTING(TIME, struct chan, silence_ns, "silence", "time without any answer before a call fails",
		   .initial = "20s", .min = 1000, .max = CHAN_HOUR_NS),
	XK_SETTING(UINT, struct chan, retries, "retries",
		   "probes for the arrival of a reply, before the server discards it", .initial = "8", .max = 1000),
	XK_SETTING(TIME, struct chan, lifetime_ns, "lifetime",
		   "time that a server remembers a silent channel; at least twice silence", .initial = "120s",
		   .min = 1000, .max = 24 * CHAN_HOUR_NS),
	XK_SETTING(UINT, struct chan, channels, "channels", "channels of a server, shared equally when all are in use",
		   .initial = "65536", .min = 1, .max = 1 << 30),
	XK_SETTING(UINT, struct chan, hosts, "hosts",
		   "clients with one channel each that use up all channels; less than bidctl.peers", .initial = "2048",
		   .min = 1, .max = 1 << 30),
	XK_SETTING(UINT, struct chan, peer_channels, "peer_channels", "channels of one client", .initial = "1024",
		   .min = 1, .max = 1 << 30),
	XK_SETTING(
		UINT, struct chan, saved_max, "saved",
		"bytes of buffers of replies that a server keeps until they have arrived; half of it for one network",
		.initial = "8m", .max = UINT64_C(1) << 40),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_chan = {
	.name = "chan",
	.help = "Request and reply, at most once: one call at a time on each of many channels.",
	.ops = &chan_ops,
	.header = CHAN_HEADER_LEN,
	.fields = chan_fields,
	.size = sizeof(struct chan),
	.offers = XK_RPC,
	.flags = XK_TABLE,
	.lowers = XK_ROLES({ "transport", XK_ASYNC, NULL, "carries messages to known boots of hosts: bid" },
			   { "bidctl", XK_CONTROL, "bidctl", "reports reboots of hosts" }),
	.numbers = XK_NUMBERS({ "bid", 102 }, { "blast", 0x3003 }, { "eth", 0x3003 }, { "ip", 102 }),
	.number_max = UINT32_MAX,
	.settings = chan_settings,
	.drops = chan_drops,
	.counters = chan_counters,
};
