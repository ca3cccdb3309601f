/*
 * tcp_connection.c - see tcp_private.h: a connection's states, what it keeps, and what is done once its lock is
 * released.
 */
#include <stdlib.h>

#include "protocols/tcp/tcp_private.h"
#include "xkernel/path.h"
#include "xkernel/trace.h"

/* ---- states ---- */

static const char *const tcp_state_names[] = { TCP_STATES(XK_NAMED_TEXT) };

const char *
tcp_state_name(enum tcp_state state)
{
	return tcp_state_names[state];
}

/* RFC 9293, 3.3.2; 0, which is SYN-SENT: the event does not occur there. */
static const uint8_t tcp_next_state[TCP_STATES_COUNT][TCP_EVENTS] = {
	[TCP_ESTABLISHED] = { [TCP_CLOSES] = TCP_FIN_WAIT_1, [TCP_FIN_COMES] = TCP_CLOSE_WAIT },
	[TCP_FIN_WAIT_1] = { [TCP_FIN_ACKED] = TCP_FIN_WAIT_2, [TCP_FIN_COMES] = TCP_CLOSING },
	[TCP_FIN_WAIT_2] = { [TCP_FIN_COMES] = TCP_TIME_WAIT },
	[TCP_CLOSE_WAIT] = { [TCP_CLOSES] = TCP_LAST_ACK },
	[TCP_CLOSING] = { [TCP_FIN_ACKED] = TCP_TIME_WAIT },
	[TCP_LAST_ACK] = { [TCP_FIN_ACKED] = TCP_ENDED },
};

void
tcp_move(struct tcp_connection *c, enum tcp_event event)
{
	enum tcp_state next = tcp_next_state[c->state][event];

	if (next == 0)
		return;
	xk_trace(c->session.protocol, XK_TRACE_EVENTS, "%s to %s", tcp_state_names[c->state], tcp_state_names[next]);
	if (next != TCP_ENDED) /* tcp_end's part */
		c->state = (uint8_t)next;
	if (next == TCP_FIN_WAIT_2 && c->is_closed)
		c->idle_due_ns = xk_now_ns(c->session.protocol) + tcp_of(c)->time_wait_ns;
	if (next == TCP_TIME_WAIT)
		tcp_strangers_wait(c);
	if (next == TCP_TIME_WAIT || next == TCP_ENDED)
		tcp_end(c, 0);
}

/* ---- what a connection keeps ---- */

void
tcp_queue_acked(struct tcp_connection *c, uint32_t sequence)
{
	uint32_t end = tcp_before(sequence, c->snd_end) ? sequence : c->snd_end, buffers = 0;

	while (c->queue != NULL && end - c->queue_begin >= xk_msg_len(c->queue)) {
		struct xk_msg *m = c->queue;

		c->queue = m->link;
		c->queue_begin += (uint32_t)xk_msg_len(m);
		buffers += xk_msg_buffers(m);
		if (c->cursor == m)
			c->cursor = NULL;
		xk_msg_free(m);
	}
	if (c->queue == NULL)
		c->queue_end = &c->queue;
	c->has_room |= xk_room_give(&c->room, c->room.used - (c->snd_end - end));
	if (buffers > 0)
		xk_share_lot_give(&c->kept, buffers);
}

void
tcp_count_gaps(struct tcp_connection *c)
{
	uint32_t buffers = c->gaps == NULL ? 0 : c->gaps->buffers;

	if (buffers < c->gaps_kept)
		xk_share_lot_give(&c->kept, c->gaps_kept - buffers);
	c->gaps_kept = buffers;
}

bool
tcp_is_scarce(struct tcp *tcp)
{
	uint64_t until_ns = atomic_load_explicit(&tcp->scarce_until_ns, memory_order_relaxed);

	if (xk_likely(until_ns == 0))
		return false;
	if (xk_now_ns(&tcp->protocol) < until_ns)
		return true;
	atomic_compare_exchange_strong_explicit(&tcp->scarce_until_ns, &until_ns, 0, memory_order_relaxed,
						memory_order_relaxed);
	return false;
}

bool
tcp_take_scarce_buffers(struct tcp_connection *c, uint32_t count)
{
	struct tcp *tcp = tcp_of(c);

	if (tcp_is_scarce(tcp) && xk_share_exceeds(c->kept.share, 0))
		return false;
	if (xk_share_lot_take(&c->kept, count))
		return true;
	if (!xk_share_exceeds(c->kept.share, count)) /* long enough for each connection's timer to expire once */
		atomic_store_explicit(&tcp->scarce_until_ns, xk_now_ns(&tcp->protocol) + tcp->timeouts.max_ns,
				      memory_order_relaxed);
	return false;
}

/* Drops everything that waits to be handed up. The lock is held. */
void
tcp_drop_ready(struct tcp_connection *c)
{
	while (c->ready != NULL) {
		struct xk_msg *m = c->ready;

		c->ready = m->link;
		c->ready_bytes -= (uint32_t)xk_msg_len(m);
		xk_msg_free(m);
	}
	c->ready_end = &c->ready;
}

/* Frees what is known of gaps, in either direction. The lock is held. */
static void
connection_drop_gaps(struct tcp_connection *c)
{
	while (c->gaps != NULL)
		xk_msg_free(tcp_gaps_take(&c->gaps, c->gaps->range[c->gaps->count - 1].end - 1));
	tcp_count_gaps(c);
	tcp_gaps_take(&c->sacked, c->snd_max);
	free(c->resent);
	c->resent = NULL;
}

void
tcp_end(struct tcp_connection *c, int err)
{
	if (c->state == TCP_ENDED)
		return;
	xk_trace(c->session.protocol, XK_TRACE_EVENTS, "connection of %s has ended: %s",
		 xk_hlp_receive(&c->session)->name, err == 0 ? "closed" : xk_error(-err));
	c->state = TCP_ENDED;
	c->error = err != 0 ? err : -EPIPE;
	tcp_queue_acked(c, c->snd_end);
	connection_drop_gaps(c);
	c->acks = c->acks && err == 0;  /* of the peer's FIN */
	xk_session_unbind(&c->session); /* the same ends may be connected again */
	xk_room_wake(&c->room);
	if (c->opened != NULL)
		xk_semaphore_signal(c->opened);
}

/* ---- opening ---- */

void
tcp_set_mss(struct tcp_connection *c)
{
	uint32_t below = 0;

	c->mss = c->own_mss < c->peer_mss ? c->own_mss : c->peer_mss;
	if (xk_control(c->session.lls, XK_GET_OPT_PACKET, &below) >= 0 && below > TCP_HEADER_LEN &&
	    below - TCP_HEADER_LEN < c->mss)
		c->mss = below - TCP_HEADER_LEN;
	if (c->mss < TCP_MSS_MIN)
		c->mss = TCP_MSS_MIN;
	if (c->stamps)
		c->mss -= TCP_STAMP_LEN;
}

void
tcp_agree(struct tcp_connection *c, const struct tcp_options *options, uint32_t irs)
{
	c->rcv_nxt = c->rcv_edge = c->ack_sent = irs + 1;
	c->rcv_edge += (uint32_t)(tcp_of(c)->receive_max < UINT16_MAX ? tcp_of(c)->receive_max : UINT16_MAX);
	c->peer_mss = options->mss != 0 ? options->mss : TCP_MSS_DEFAULT;
	c->scales = c->scales && options->has_scale;
	c->snd_scale = c->scales ? options->scale : 0;
	c->rcv_scale = c->scales ? c->rcv_scale : 0;
	c->sacks = c->sacks && options->has_sack_permitted;
	c->stamps = c->stamps && options->has_stamp;
	c->stamp_recent = options->stamp;
	c->stamp_ns = xk_now_ns(c->session.protocol);
	tcp_set_mss(c);
}

void
tcp_establish(struct tcp_connection *c, uint32_t acknowledged)
{
	struct xk_protocol *self = c->session.protocol;
	const struct xk_timeouts *timeouts = &tcp_of(c)->timeouts;
	uint64_t timeout_ns = 0;

	c->state = TCP_ESTABLISHED;
	c->is_open = true;
	c->snd_una = acknowledged;
	c->recover = c->lost_end = acknowledged;
	c->congestion->begin(c);
	if (c->retry.tries > 0 && c->round_trip.us.mean == 0) /* a SYN was lost: 3 s instead of 1 s (RFC 6298, 5.7) */
		timeout_ns = 3 * timeouts->first_ns;
	if (timeout_ns > c->round_trip.timeout_ns)
		c->round_trip.timeout_ns = timeout_ns < timeouts->max_ns ? timeout_ns : timeouts->max_ns;
	xk_retry_begin(&c->retry, c->round_trip.timeout_ns, 0);
	c->retry.due_ns = XK_NEVER;
	c->sent_ns = c->heard_ns = xk_now_ns(self);
	if (tcp_of(c)->keep_alive_ns != 0)
		c->idle_due_ns = c->heard_ns + tcp_of(c)->keep_alive_ns;
	c->is_done = c->is_closed;
	xk_trace(self, XK_TRACE_EVENTS, "established");
	if (c->ends)
		tcp_move(c, TCP_CLOSES);
	if (c->opened != NULL)
		xk_semaphore_signal(c->opened);
}

/* ---- sending and handing up ---- */

/* Returns the least deadline. */
static uint64_t
connection_next_ns(const struct tcp_connection *c)
{
	uint64_t next_ns = c->retry.due_ns;

	if (c->state == TCP_ENDED)
		return XK_NEVER;
	if (c->sacked != NULL || c->resent != NULL) {
		uint64_t lost_ns = tcp_recovery_due_ns(c);

		next_ns = lost_ns < next_ns ? lost_ns : next_ns;
	}
	next_ns = c->ack_due_ns < next_ns ? c->ack_due_ns : next_ns;
	return c->idle_due_ns < next_ns ? c->idle_due_ns : next_ns;
}

/* Sets the alarm. The lock is held. */
static void
connection_set_alarm(struct tcp_connection *c)
{
	xk_alarm_set(&c->alarm, connection_next_ns(c));
}

/*
 * Takes what is sent now, by link: *out. Returns whether that is a full burst. Only one shepherd at a time sends, because
 * segments must not overtake each other; others leave it what is to be sent. The lock is held: time stamps must not go
 * back, so the clock is read under it.
 */
static bool
connection_take_output(struct tcp_connection *c, struct xk_msg **out)
{
	struct xk_msg **end = out;
	unsigned count = 0;
	uint64_t now_ns;

	*out = NULL;
	if (!tcp_has_output(c))
		return false;
	if (atomic_load_explicit(&c->sending, memory_order_relaxed) != TCP_SENDS_NOTHING &&
	    atomic_exchange(&c->sending, TCP_SENDS_MORE) != TCP_SENDS_NOTHING)
		return false;
	now_ns = xk_now_ns(c->session.protocol);
	for (; count < XK_BURST && tcp_has_output(c); count++) {
		*end = tcp_output(c, now_ns);
		if (*end == NULL)
			break;
		end = &(*end)->link;
		*end = NULL;
	}
	atomic_store_explicit(&c->sending, *out != NULL ? TCP_SENDING : TCP_SENDS_NOTHING, memory_order_relaxed);
	return count == XK_BURST;
}

/*
 * Returns the next messages for the hlp, by link; NULL: none. Several are at most an eighth of the window, which opens
 * only when the hlp has returned from all of them. The lock is held.
 */
static struct xk_msg *
connection_take_ready(struct tcp_connection *c)
{
	struct xk_msg *first = NULL, **end = &first;
	uint64_t bytes = 0;

	if (c->is_closed)
		tcp_drop_ready(c);
	for (; c->ready != NULL; c->ready = *end) {
		bytes += xk_msg_len(c->ready);
		if (first != NULL && bytes > tcp_of(c)->receive_max / 8)
			break;
		*end = c->ready;
		end = &c->ready->link;
	}
	*end = NULL;
	if (c->ready == NULL)
		c->ready_end = &c->ready;
	return first;
}

/* Returns whether the hlp is to be told of the end of the stream. */
static bool
connection_is_over(const struct tcp_connection *c)
{
	return !c->is_done && (c->state == TCP_ENDED || (c->has_fin && c->rcv_nxt == c->fin_at + 1));
}

/*
 * The hlp has returned from len bytes, which the window has room for again: acknowledges if the peer's window was small
 * and now opens by so much that it is worth it.
 */
static void
connection_returned(struct tcp_connection *c, uint32_t len)
{
	c->ready_bytes -= len;
	if (tcp_before(c->rcv_edge, c->rcv_nxt + 2 * c->mss) && c->state != TCP_ENDED &&
	    c->rcv_nxt + tcp_receive_window(c) != c->rcv_edge)
		c->acks = true;
}

/*
 * Sends what connection_take_output has taken, by link. Takes it. Returns whether others have left more to be sent. Does
 * not need the lock, which others may hold for long while nobody else sends.
 */
static bool
connection_send(struct tcp_connection *c, struct xk_msg *m)
{
	struct xk_msg *next;

	if (m == NULL)
		return false;
	for (; m != NULL; m = next) {
		next = m->link;
		xk_path_push_below(&c->session, m);
	}
	return atomic_exchange(&c->sending, TCP_SENDS_NOTHING) == TCP_SENDS_MORE;
}

/* Hands up messages, a list by link, as long as the hlp does not close. Takes them. Returns their length. */
static uint32_t
connection_demux(struct tcp_connection *c, struct xk_msg *m)
{
	uint32_t len = 0;
	struct xk_msg *next;

	for (; m != NULL; m = next) {
		next = m->link;
		len += (uint32_t)xk_msg_len(m);
		if (xk_unlikely(atomic_load_explicit(&c->is_closed, memory_order_relaxed)))
			xk_msg_free(m);
		else
			xk_demux(&c->session, m);
	}
	return len;
}

/*
 * Takes what is handed up next: *m, a list by link, or the end of the stream (*is_over). Returns whether there is either;
 * only one shepherd at a time hands up, and is_mine says that it is this one. The lock is held.
 */
static bool
connection_take_up(struct tcp_connection *c, bool is_mine, struct xk_msg **m, bool *is_over)
{
	if (c->delivers && !is_mine)
		return false;
	*m = connection_take_ready(c);
	*is_over = *m == NULL && connection_is_over(c);
	c->is_done |= *is_over;
	c->delivers = *m != NULL || *is_over;
	return c->delivers;
}

XK_APART void
tcp_finish_rarely(struct tcp_connection *c)
{
	struct xk_session *s = &c->session;
	bool has_ended = c->state == TCP_ENDED, gone = has_ended && c->lingers;
	bool is_stopped = has_ended && xk_alarm_stop(&c->alarm);

	c->has_room = false;
	c->lingers = c->lingers && !gone;
	xk_unlock(&c->lock);
	if (!has_ended)
		xk_room_notify(s);
	if (is_stopped)
		xk_session_release(s);
	if (gone)
		xk_session_release(s);
}

void
tcp_finish(struct tcp_connection *c, bool delivers)
{
	bool is_full, is_more, is_rare, is_delivering = false, is_over = false;
	struct xk_msg *out, *m = NULL;
	uint32_t len;

	for (;;) {
		is_full = connection_take_output(c, &out);
		is_delivering = delivers && connection_take_up(c, is_delivering, &m, &is_over);
		is_rare = c->state == TCP_ENDED || c->has_room;
		connection_set_alarm(c);
		if (out == NULL && !is_delivering)
			break;
		xk_unlock(&c->lock);
		is_more = connection_send(c, out) || is_full;
		if (!is_delivering && !is_more && xk_likely(!is_rare))
			return;
		len = is_delivering ? connection_demux(c, m) : 0;
		if (is_over)
			xk_close_done(&c->session);
		is_over = false;
		xk_lock(&c->lock);
		if (is_delivering)
			connection_returned(c, len);
	}
	if (xk_unlikely(is_rare))
		tcp_finish_rarely(c);
	else
		xk_unlock(&c->lock);
}
