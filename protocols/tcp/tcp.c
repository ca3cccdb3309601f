/*
 * tcp.c - reliable streams of bytes between ports, over IP.
 *
 * Spec:         RFC 9293, 1122 (4.2), 5681, 5961, 6298, 6528, 6582, 6675, 7323, 8985, 2018, 2883, 3042; 20-byte header
 *               and options
 * Participants: the top of each stack is a port, 1 to 65535; the rest is IP's. Opening needs the remote port; a missing
 *               local one is chosen from 49152 on. Enabling needs the local port, and no host.
 * Sessions:     one per connection. Open waits until the peer has answered: -ECONNREFUSED, -ETIMEDOUT. A stranger's SYN
 *               to an enabled port is answered, and remembered in limbo; only its acknowledgement makes a session, which
 *               open_done announces. If limbo is full, what it would hold is in the answer's sequence number (a cookie).
 * Messages:     have no borders: the peer's hlp gets the same bytes in order, in messages of other lengths. A pushed
 *               message of any length is kept, by reference, until it is acknowledged. Without room (`send`), a push
 *               waits; -EAGAIN if the hlp has the operation `room` (room.h).
 * Closing:      XK_TCP_END sends a FIN behind what was pushed; messages still come up. A close does, too, and answers
 *               what still comes by a reset. The peer's FIN is notified by close_done, and messages may still be pushed.
 *               A connection that fails gets close_done as well; pushes on it return -ECONNRESET or -ETIMEDOUT.
 * Flow control: the window shrinks by what the hlp has not returned from: a hlp that waits in its demux holds the peer
 *               back.
 * Control:      tcp.h; XK_GET_MAX_PACKET (of a push), XK_GET_OPT_PACKET (of a segment), XK_GET_ROOM
 * Departures:   the least retransmission timeout is 200 ms (setting timeout_min; RFC 6298 says 1 s), as in Linux. The
 *               tail of what is in flight is probed in recovery, too (RFC 8985, 7.2). The urgent pointer is ignored
 *               (counted): urgent bytes are delivered in the stream (RFC 6093).
 * Not done:     ECN, Fast Open, offloads
 * Graph:        tcp -> ip
 */
#include "protocols/paths.h"
#include "protocols/tcp/tcp_private.h"
#include "xkernel/support/fault.h"
#include "xkernel/support/ports.h"

XK_FIELDS(tcp, TCP_HEADER);
XK_FORMAT(tcp, TCP_HEADER);

/* ---- pushing ---- */

static int
tcp_push(struct xk_session *session, struct xk_msg *m)
{
	struct tcp_connection *c = (struct tcp_connection *)session;
	struct tcp *tcp = tcp_of(c);
	uint32_t len = (uint32_t)xk_msg_len(m);
	unsigned why = TCP_CLOSED;
	int err;

	if (len == 0) {
		xk_msg_free(m);
		return 0;
	}
	xk_lock(&c->lock);
	err = c->ends ? -EPIPE : xk_room_take(&c->room, session, len, tcp->patience_ns / 1000, &c->lock, &c->error);
	if (err == 0 && c->ends) { /* meanwhile */
		xk_room_give(&c->room, len);
		err = -EPIPE;
	} else if (err == 0 && !tcp_take_buffers(c, xk_msg_buffers(m))) {
		xk_room_give(&c->room, len);
		why = XK_DROP_NO_BUFFER;
		err = -ENOBUFS;
	} else if (c->error == 0 && (err == -EAGAIN || err == -ETIMEDOUT)) {
		why = TCP_NO_ROOM;
	}
	if (err != 0) {
		xk_unlock(&c->lock);
		xk_drop(&tcp->protocol, m, why);
		return err;
	}
	m->link = NULL;
	*c->queue_end = m;
	c->queue_end = &m->link;
	if (c->queue == m)
		c->queue_begin = c->snd_end;
	c->snd_end += len;
	tcp_finish(c, false);
	return 0;
}

/* ---- opening ---- */

/* Joins the peer's shares, and takes a place if the peer opens the connection. Returns 0 or -errno. */
static int
tcp_join(struct tcp_connection *c, bool is_accepted)
{
	struct tcp *tcp = tcp_of(c);
	const struct xk_key peer = { xk_peer_address(c->session.lls), 0 };

	c->kept.share = xk_shares_join(&tcp->shares, &peer, 1);
	if (c->kept.share == NULL)
		return -ENOMEM;
	if (!is_accepted)
		return 0;
	c->place = xk_shares_join(&tcp->places, &peer, 1);
	if (c->place == NULL)
		return -ENOMEM;
	if (xk_share_take(c->place, 1))
		return 0;
	xk_shares_leave(&tcp->places, c->place);
	c->place = NULL;
	xk_count(&tcp->protocol, TCP_TOO_MANY);
	return -ENOBUFS;
}

/* how: struct tcp_how, or a header without flags: a connection that is being opened. */
static int
tcp_setup(struct xk_session *session, const void *how)
{
	struct tcp_connection *c = (struct tcp_connection *)session;
	struct xk_protocol *self = session->protocol;
	struct tcp *tcp = (struct tcp *)self;
	const struct tcp_how *accepted = XK_GET(tcp, flags, (const uint8_t *)how) != 0 ? how : NULL;
	uint32_t below = 0;
	int err = xk_control(session->lls, XK_GET_OPT_PACKET, &below);

	if (err < 0)
		return err;
	if (below < TCP_HEADER_LEN + TCP_OPTIONS_MAX + TCP_MSS_MIN)
		return -EMSGSIZE;
	session->sends.sums = true;
	session->sends.offloads = false;
	session->sends.longest = XK_MSG_MAX;
	session->sends.is_path = true;
	xk_lock_init(&c->lock, self);
	xk_alarm_init(&c->alarm, session, &c->lock, tcp_expire);
	xk_room_init(&c->room, self, tcp->send_max);
	xk_round_trip_init(&c->round_trip, &tcp->timeouts);
	c->congestion = &tcp_reno;
	c->queue_end = &c->queue;
	c->ready_end = &c->ready;
	c->own_mss = (uint16_t)(below - TCP_HEADER_LEN < UINT16_MAX ? below - TCP_HEADER_LEN : UINT16_MAX);
	c->mss = c->own_mss;
	c->eager = tcp->eager;
	c->scales = tcp->use_scale;
	c->sacks = tcp->use_sack;
	c->stamps = tcp->use_stamps;
	c->rcv_scale = tcp->use_scale ? tcp->scale : 0;
	c->retry.due_ns = c->ack_due_ns = c->idle_due_ns = XK_NEVER;
	c->is_done = true; /* until it is established */
	c->iss = accepted != NULL ? accepted->iss : tcp_initial(tcp, session->lls, how);
	c->stamp_offset = accepted != NULL ? accepted->stamp_offset : (uint32_t)xk_random(self);
	c->snd_una = c->snd_nxt = c->snd_max = c->iss;
	c->snd_end = c->queue_begin = c->iss + 1;
	c->state = TCP_SYN_SENT;
	if (accepted != NULL) {
		c->accepted_by = accepted;
		c->delivers = true; /* nothing is handed up before open_done, whoever brings it */
		tcp_agree(c, &accepted->options, accepted->irs);
		c->snd_nxt = c->snd_max = c->iss + 1;
		c->snd_wl1 = accepted->irs;
		c->snd_wl2 = c->iss + 1;
		c->snd_wnd = c->max_window = accepted->window << c->snd_scale;
		c->retry.tries = accepted->tries;
		tcp_establish(c, c->iss + 1);
	}
	return tcp_join(c, accepted != NULL);
}

/* Waits until the peer has answered. Returns 0, or what ended the connection. */
static int
tcp_await_peer(struct tcp_connection *c)
{
	struct xk_semaphore opened;
	bool waits;
	int err;

	xk_semaphore_init(&opened, c->session.protocol, 0);
	xk_lock(&c->lock);
	c->opened = &opened;
	if (c->state > TCP_SYN_RECEIVED) /* already: a SYN has met it, and what followed */
		xk_semaphore_signal(&opened);
	tcp_finish(c, false); /* sends the SYN */
	do {
		err = xk_semaphore_wait(&opened, XK_UNTIL_SIGNALLED); /* the timer ends it */
		xk_lock(&c->lock);
		waits = err == 0 && (c->state == TCP_SYN_SENT || c->state == TCP_SYN_RECEIVED);
		if (err == 0 && c->state == TCP_ENDED && !c->is_open)
			err = c->error;
		else if (err != 0)
			tcp_end(c, err); /* the host stops */
		if (!waits)
			c->opened = NULL;
		xk_unlock(&c->lock);
	} while (waits);
	return err;
}

/* Returns whether messages on lls go to several hosts, with which there is no connection (RFC 9293, MUST-46). */
static bool
tcp_is_to_all(struct xk_session *lls)
{
	uint64_t link = 0;

	return xk_control(lls, XK_GET_PEER_LINK, &link) >= 0 && (link >> 40 & 1) != 0;
}

static int
tcp_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	 struct xk_participants *participants, struct xk_session **session)
{
	uint8_t p[TCP_HEADER_LEN] = { 0 };
	struct xk_opening opening = { hlp_receive, hlp_type, .p = p, .how = p };
	int err = xk_ports_open_below(self, participants, &opening); /* may wait */

	if (err != 0)
		return err;
	if (tcp_is_to_all(opening.lls)) {
		xk_close(opening.lls);
		return -EINVAL;
	}
	for (unsigned tries = 0;; tries++) {
		if (!xk_duplicate(opening.lls))
			err = -ENOMEM;
		else
			err = xk_ports_open_on(self, &opening, session);
		if (err != 0 || !tcp_strangers_waits((struct tcp *)self, opening.lls, p))
			break;
		xk_close(*session); /* segments of the last connection between these ends may still come */
		err = -EADDRINUSE;
		if (opening.local != XK_ANY || tries == 16)
			break;
	}
	xk_close(opening.lls);
	if (err != 0)
		return err;
	xk_count(self, TCP_OPENED);
	err = tcp_await_peer((struct tcp_connection *)*session);
	if (err != 0)
		xk_close(*session);
	return err;
}

/* ---- closing ---- */

/* Sends a FIN behind what was pushed. The lock is held. */
static void
tcp_close_sending(struct tcp_connection *c)
{
	if (c->ends || c->state == TCP_ENDED)
		return;
	c->ends = true;
	if (c->state == TCP_SYN_SENT)
		tcp_end(c, -ECONNABORTED);
	else
		tcp_move(c, TCP_CLOSES);
	xk_room_wake(&c->room);
}

static void
tcp_let_go(struct xk_session *session)
{
	struct tcp_connection *c = (struct tcp_connection *)session;

	xk_lock(&c->lock);
	c->is_closed = c->is_done = true;
	tcp_drop_ready(c);
	if (session->map == NULL) /* another shepherd was faster with a connection between these ends */
		tcp_end(c, 0);
	tcp_close_sending(c);
	if (c->state == TCP_FIN_WAIT_2)
		c->idle_due_ns = xk_now_ns(session->protocol) + tcp_of(c)->time_wait_ns;
	if (c->state != TCP_ENDED && !c->lingers)
		c->lingers = xk_duplicate(session);
	tcp_finish(c, false);
}

static void
tcp_close(struct xk_session *session)
{
	struct tcp_connection *c = (struct tcp_connection *)session;
	struct xk_msg *m = NULL;

	xk_lock(&c->lock);           /* a shepherd may still be in the pop */
	if (c->state != TCP_ENDED) { /* nobody has closed it: the cache had no room for it */
		c->resets = true;
		tcp_end(c, -ECONNABORTED);
		m = tcp_output(c, xk_now_ns(session->protocol));
	}
	tcp_drop_ready(c);
	xk_unlock(&c->lock);
	if (m != NULL)
		xk_push(session->lls, m);
	if (c->place != NULL)
		xk_share_give(c->place, 1);
	xk_shares_leave(&tcp_of(c)->places, c->place);
	xk_shares_leave(&tcp_of(c)->shares, c->kept.share);
}

/* ---- control ---- */

static void
tcp_get_info(struct tcp_connection *c, struct xk_tcp_info *info)
{
	*info = (struct xk_tcp_info){ .state = tcp_state_name(c->state),
				      .congestion = c->congestion->name,
				      .round_trip_ns = c->round_trip.us.mean * UINT64_C(1000),
				      .deviation_ns = c->round_trip.us.deviation * UINT64_C(1000),
				      .timeout_ns = c->round_trip.timeout_ns,
				      .mss = c->mss,
				      .window = c->snd_wnd,
				      .receives = c->rcv_edge - c->rcv_nxt,
				      .congestion_window = c->cwnd,
				      .threshold = c->ssthresh,
				      .queued = tcp_before(c->snd_una, c->snd_end) ? c->snd_end - c->snd_una : 0,
				      .in_flight = tcp_in_flight(c),
				      .reordered = tcp_gaps_bytes(c->gaps),
				      .retransmitted = c->retransmitted,
				      .scales = c->scales,
				      .sacks = c->sacks,
				      .stamps = c->stamps };
}

static int
tcp_session_control(struct xk_session *session, int op, void *argument)
{
	struct tcp_connection *c = (struct tcp_connection *)session;

	if (op != XK_TCP_GET_INFO && op != XK_TCP_END && op != XK_TCP_ABORT && op != XK_TCP_SET_EAGER &&
	    op != XK_GET_ROOM && op != XK_GET_OPT_PACKET)
		return -ENOTSUP;
	xk_lock(&c->lock);
	switch (op) {
	case XK_TCP_GET_INFO:
		tcp_get_info(c, argument);
		break;
	case XK_TCP_END:
		tcp_close_sending(c);
		break;
	case XK_TCP_ABORT:
		c->is_done = true;
		c->resets = c->state != TCP_ENDED && c->state != TCP_SYN_SENT;
		tcp_end(c, -ECONNABORTED);
		break;
	case XK_TCP_SET_EAGER:
		c->eager = *(const bool *)argument;
		break;
	case XK_GET_ROOM:
		*(uint64_t *)argument = c->error != 0 || c->ends ? 0 : xk_room_left(&c->room);
		break;
	default:
		*(uint32_t *)argument = c->mss;
		break;
	}
	tcp_finish(c, false);
	return 0;
}

/* A stranger to a port that is not enabled. */
static void
tcp_refused(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	const uint8_t *p = m->data - TCP_HEADER_LEN;
	struct tcp_segment segment;

	if (tcp_segment_read(&segment, m) == 0)
		tcp_refuse(self, lls, p, &segment);
}

/* Handles a report about a segment of ours, whose header it quotes (RFC 1122, 4.2.3.9; 5927). */
static int
tcp_fault(struct xk_protocol *self, struct xk_fault_report *report)
{
	uint8_t p[TCP_HEADER_LEN] = { 0 };
	struct tcp_connection *c;
	struct xk_session *s;
	uint32_t sequence, mss;

	if (report->session == NULL || report->len < XK_OFFSET(tcp, acknowledgement))
		return -ENOENT;
	XK_PUT(tcp, source, p, XK_GET(tcp, destination, report->begin));
	XK_PUT(tcp, destination, p, XK_GET(tcp, source, report->begin));
	s = xk_table_find(self, xk_receive_key(self, report->session, p));
	if (s == NULL)
		return -ENOENT;
	c = (struct tcp_connection *)s;
	sequence = XK_GET(tcp, sequence, report->begin);
	xk_lock(&c->lock);
	if (tcp_before(sequence, c->snd_una) || !tcp_before(sequence, c->snd_max)) {
		xk_unlock(&c->lock); /* nothing that is on its way: late, or forged */
		return 0;
	}
	if (report->fault == XK_FAULT_TOO_BIG) {
		mss = c->mss;
		tcp_set_mss(c);
		if (c->mss < mss) /* once for all that is on its way: each of these segments draws a report */
			c->snd_nxt = c->snd_una;
	} else if (c->state == TCP_SYN_SENT && (report->fault == XK_FAULT_PROTOCOL || report->fault == XK_FAULT_PORT)) {
		tcp_end(c, -ECONNREFUSED);
	}
	tcp_finish(c, true);
	return 0;
}

/* ---- init and fini ---- */

static int
tcp_init(struct xk_protocol *self)
{
	struct tcp *tcp = (struct tcp *)self;
	int err;

	tcp->key[0] = xk_random(self);
	tcp->key[1] = xk_random(self);
	while (tcp->receive_max >> tcp->scale > UINT16_MAX && tcp->scale < TCP_SCALE_MAX)
		tcp->scale++;
	if (tcp->timeouts.max_ns < tcp->timeouts.first_ns || tcp->timeouts.max_ns < tcp->timeouts.min_ns)
		return -EINVAL;
	err = xk_shares_init(&tcp->shares, self, XK_SHARES_OF_BUFFERS, UINT32_MAX / 2); /* fewer: xk_keep_limit */
	if (err != 0)
		return err;
	err = xk_shares_init(&tcp->places, self, XK_SHARES_OF_PLACES, (uint32_t)tcp->connections_max);
	if (err != 0)
		goto fail;
	err = tcp_strangers_init(tcp);
	if (err != 0)
		goto fail_places;
	return xk_ports_init(self, XK_PORTS_FIRST, XK_PORTS_LAST, xk_random(self));
fail_places:
	xk_shares_fini(&tcp->places);
fail:
	xk_shares_fini(&tcp->shares);
	return err;
}

/* The kernel stops: nothing is sent any more. */
static void
tcp_forget(void *object, void *context)
{
	struct tcp_connection *c = object;

	(void)context;
	xk_lock(&c->lock);
	tcp_end(c, -ECANCELED);
	tcp_finish_rarely(c);
}

static void
tcp_fini(struct xk_protocol *self)
{
	xk_map_for_each(&self->table.sessions, tcp_forget, NULL);
	tcp_strangers_fini((struct tcp *)self);
	xk_shares_fini(&((struct tcp *)self)->places);
	xk_shares_fini(&((struct tcp *)self)->shares);
}

static void
tcp_receive(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	const struct xk_format format = XK_KNOWN_FORMAT(tcp, self);

	m->link = NULL; /* tcp_pop takes lists */
	xk_receive_as(&format, self, lls, m);
}

/* ---- promises ---- */

static const char *
tcp_session_promise(struct xk_session *session, bool at_rest)
{
	const struct tcp_connection *c = (const struct tcp_connection *)session;
	uint32_t begin = c->queue_begin, buffers = c->gaps_kept;

	for (const struct xk_msg *m = c->queue; m != NULL; m = m->link) {
		begin += (uint32_t)xk_msg_len(m);
		buffers += xk_msg_buffers(m);
	}
	if (buffers != c->kept.held)
		return "a message's buffers are not counted in its host's share";
	if (c->queue != NULL && begin != c->snd_end)
		return "the queue does not end where the stream does";
	if (c->state != TCP_ENDED && (tcp_before(c->snd_nxt, c->snd_una) || tcp_before(c->snd_max, c->snd_nxt)))
		return "what is sent next is not between what is acknowledged and what was sent";
	if (c->state != TCP_ENDED && c->snd_una != c->snd_max && !xk_alarm_covers(&c->alarm, c->retry.due_ns))
		return "bytes are in flight without a timer";
	if (c->gaps != NULL && !tcp_before(c->rcv_nxt, c->gaps->range[0].begin))
		return "bytes that could be handed up are kept";
	if (!at_rest)
		return NULL;
	if (c->state != TCP_ENDED && c->snd_una != c->snd_end + (c->ends ? 1 : 0) && !c->probes)
		return "bytes are neither acknowledged nor given up";
	return c->ready != NULL || c->delivers ? "bytes are being handed up for ever" : NULL;
}

/* ---- tables ---- */

static const struct xk_session_ops tcp_session_ops = {
	.size = sizeof(struct tcp_connection),
	.setup = tcp_setup,
	.push = tcp_push,
	.pop = tcp_pop,
	.let_go = tcp_let_go,
	.close = tcp_close,
	.control = tcp_session_control,
	.promise = tcp_session_promise,
};

static const struct xk_protocol_ops tcp_ops = {
	.init = tcp_init,
	.fini = tcp_fini,
	.open = tcp_open,
	.passive_key = xk_ports_passive_key,
	.passive_key_of = xk_ports_passive_key_of,
	.demux = tcp_receive,
	.stranger = tcp_stranger,
	.refused = tcp_refused,
	.fault = tcp_fault,
};

#define TCP_SECONDS(n) (UINT64_C(1000000000) * (n))

static const struct xk_setting tcp_settings[] = {
	XK_SETTING(UINT, struct tcp, send_max, "send", "bytes of a connection that are pushed and not acknowledged",
		   .initial = "256k", .min = 1024, .max = 1 << 30),
	XK_SETTING(UINT, struct tcp, receive_max, "receive", "bytes of a connection that its peer may send ahead",
		   .initial = "256k", .min = 1024, .max = 1 << 30),
	XK_SETTING(TIME, struct tcp, timeouts.first_ns, "timeout",
		   "retransmission timeout before a round trip is measured", .initial = "1s", .min = 1000,
		   .max = TCP_SECONDS(60)),
	XK_SETTING(TIME, struct tcp, timeouts.min_ns, "timeout_min", "least retransmission timeout", .initial = "200ms",
		   .min = 1000, .max = TCP_SECONDS(60)),
	XK_SETTING(TIME, struct tcp, timeouts.max_ns, "timeout_max", "longest retransmission timeout", .initial = "60s",
		   .min = 1000, .max = TCP_SECONDS(3600)),
	XK_SETTING(TIME, struct tcp, patience_ns, "patience",
		   "time without an acknowledgement after which a connection is given up", .initial = "120s",
		   .min = 1000, .max = TCP_SECONDS(86400)),
	XK_SETTING(TIME, struct tcp, open_patience_ns, "open_patience",
		   "the same, of a connection that is being opened", .initial = "180s", .min = 1000,
		   .max = TCP_SECONDS(86400)),
	XK_SETTING(TIME, struct tcp, ack_delay_ns, "ack_delay", "how long an acknowledgement waits for company; 0: not",
		   .initial = "40ms", .max = 500000000),
	XK_SETTING(
		TIME, struct tcp, time_wait_ns, "time_wait",
		"how long the ends of a closed connection are kept, and how long a closed one waits for the peer's FIN",
		.initial = "60s", .min = 1000, .max = TCP_SECONDS(3600)),
	XK_SETTING(TIME, struct tcp, keep_alive_ns, "keep_alive", "silence after which the peer is probed; 0: never",
		   .initial = "0s", .max = TCP_SECONDS(86400)),
	XK_SETTING(UINT, struct tcp, limbo_max, "limbo", "opens of strangers that are remembered; more get cookies",
		   .initial = "256", .max = 65536),
	XK_SETTING(UINT, struct tcp, waiting_max, "waiting", "closed connections whose ends are kept",
		   .initial = "4096", .min = 1, .max = 1 << 20),
	XK_SETTING(UINT, struct tcp, connections_max, "connections",
		   "that peers have opened; one peer leaves half for others", .initial = "256k", .min = 1,
		   .max = 1 << 30),
	XK_SETTING(UINT, struct tcp, synack_retries, "synack_retries", "repetitions of the answer to a stranger's open",
		   .initial = "2", .max = 16),
	XK_SETTING(UINT, struct tcp, challenges_max, "challenges",
		   "answers to suspicious segments in a second (RFC 5961)", .initial = "100", .min = 1, .max = 60000),
	XK_SETTING(BOOL, struct tcp, use_sack, "sack", "selective acknowledgements (RFC 2018)", .initial = "yes"),
	XK_SETTING(BOOL, struct tcp, use_stamps, "stamps", "time stamps (RFC 7323)", .initial = "yes"),
	XK_SETTING(BOOL, struct tcp, use_scale, "scale", "windows of more than 64 KiB (RFC 7323)", .initial = "yes"),
	XK_SETTING(BOOL, struct tcp, eager, "eager",
		   "sends small messages at once, without waiting for others (RFC 896)", .initial = "no"),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_tcp = {
	.name = "tcp",
	.help = "Reliable streams of bytes between ports, with flow and congestion control.",
	.ops = &tcp_ops,
	.session_ops = &tcp_session_ops,
	.header = TCP_HEADER_LEN,
	.gather = TCP_HEADER_LEN + TCP_OPTIONS_MAX,
	.fields = tcp_fields,
	.options = &tcp_option_list,
	.size = sizeof(struct tcp),
	.offers = XK_ASYNC,
	.flags = XK_BY_FIELDS,
	.lowers = XK_ROLES({ "network", XK_ASYNC, NULL,
			     "carries datagrams to 32-bit hosts, and answers for both ends' hosts; normally ip" }),
	.numbers = XK_NUMBERS({ "ip", XK_TCP_NUMBER }),
	.settings = tcp_settings,
	.drops = tcp_drops,
	.counters = tcp_counters,
	.session_max = 8192,
	.path_code = &xk_path_tcp,
};
