/*
 * tcp_input.c - see tcp_private.h: the arrival of a segment at its connection (RFC 9293, 3.10.7.3 and 3.10.7.4, with RFC
 * 5961 and 7323). Judges it and changes the connection; sends nothing: `acks` and `resets` tell tcp_output what to do.
 */
#include "protocols/tcp/tcp_private.h"
#include "xkernel/bytes.h"

/* ---- acknowledgements ---- */

/*
 * Takes a round trip's time: of a segment that was sent once or, with time stamps, of the one sent last (RFC 7323, 4.1):
 * the timeout then need not stay long until a segment is not lost. An older stamp may tell of a lost acknowledgement.
 */
static void
input_measure(struct tcp_connection *c, const struct tcp_segment *segment, uint64_t now_ns)
{
	const struct xk_timeouts *timeouts = &tcp_of(c)->timeouts;
	uint64_t stamp_ns = UINT64_C(1000000) * (tcp_now_stamp(c, now_ns) - segment->options.echo), trip_ns;

	if (c->times && !tcp_before(segment->acknowledgement, c->timed_end)) {
		c->times = false;
		trip_ns = now_ns > c->timed_ns ? now_ns - c->timed_ns : 0;
		if (trip_ns >= 1000 && (c->min_trip_us == 0 || trip_ns / 1000 < c->min_trip_us))
			c->min_trip_us = (uint32_t)(trip_ns / 1000);
		xk_round_trip_measure(&c->round_trip, timeouts, trip_ns);
	} else if (c->stamps && segment->options.has_stamp && c->round_trip.timeout_ns > timeouts->min_ns &&
		   c->sent_ns + stamp_ns <= now_ns + UINT64_C(1000000)) {
		xk_round_trip_measure(&c->round_trip, timeouts, stamp_ns);
	}
}

/*
 * Takes the peer's window, unless an older segment than the last one brings it (RFC 9293, 3.10.7.4). A segment that
 * acknowledges new bytes is not older, even if it repeats the peer's bytes: the last window would then seem to begin
 * where the new bytes end.
 */
static void
input_take_window(struct tcp_connection *c, const struct tcp_segment *segment)
{
	uint32_t edge = c->snd_una + c->snd_wnd, back;

	if (!tcp_before(c->snd_una, segment->acknowledgement) &&
	    (tcp_before(segment->sequence, c->snd_wl1) ||
	     (segment->sequence == c->snd_wl1 && tcp_before(segment->acknowledgement, c->snd_wl2))))
		return;
	c->snd_wl1 = segment->sequence;
	c->snd_wl2 = segment->acknowledgement;
	c->snd_wnd = segment->window << (segment->flags & TCP_SYN ? 0 : c->snd_scale);
	back = edge - (segment->acknowledgement + c->snd_wnd);
	if (back >> c->snd_scale == 0) /* the peer has only rounded it down (RFC 7323, 2.4) */
		c->snd_wnd += back;
	if (c->snd_wnd > c->max_window)
		c->max_window = c->snd_wnd;
}

/*
 * The window is open again after probes, or nothing waits for it any more: what was forced out is sent again, if it was not
 * acknowledged.
 */
static void
input_end_probes(struct tcp_connection *c, uint64_t now_ns)
{
	if (!c->probes || (c->snd_wnd == 0 && c->snd_una != c->snd_end + c->ends))
		return;
	c->probes = false;
	c->snd_nxt = c->snd_una;
	if (c->snd_una == c->snd_max)
		c->retry.due_ns = XK_NEVER;
	else
		tcp_recovery_begin_timer(c, now_ns);
}

/* Takes an acknowledgement that is acceptable. */
static void
input_acknowledge(struct tcp_connection *c, const struct tcp_segment *segment, uint64_t now_ns)
{
	uint32_t acked = segment->acknowledgement - c->snd_una, window = c->snd_wnd;
	bool is_news = tcp_recovery_sacked(c, segment, now_ns), is_duplicate;

	c->heard_ns = now_ns; /* also beside bytes that do not fit */
	input_take_window(c, segment);
	is_duplicate =
		acked == 0 && c->snd_una != c->snd_max && !c->probes &&
		(c->sacks ? is_news : segment->len == 0 && c->snd_wnd == window && (segment->flags & TCP_FIN) == 0);
	if (acked > 0) {
		input_measure(c, segment, now_ns);
		c->snd_una = segment->acknowledgement;
		c->snd_nxt = tcp_later(c->snd_nxt, c->snd_una);
		tcp_queue_acked(c, c->snd_una);
		c->retry.due_ns = XK_NEVER;
		if (c->snd_una != c->snd_max || c->probes)
			tcp_recovery_begin_timer(c, now_ns);
	} else if (c->probes) {
		c->retry.begun_ns = now_ns; /* a peer that answers is not given up, whatever its window */
	}
	tcp_recovery_acked(c, acked, is_duplicate, now_ns);
	input_end_probes(c, now_ns);
	if (acked > 0 && c->ends && c->snd_una == c->snd_end + 1)
		tcp_move(c, TCP_FIN_ACKED);
}

/* ---- payload ---- */

/* Appends m to what is handed up. Takes m. */
static void
input_deliver(struct tcp_connection *c, struct xk_msg *m)
{
	m->link = NULL;
	*c->ready_end = m;
	c->ready_end = &m->link;
	c->ready_bytes += (uint32_t)xk_msg_len(m);
	c->rcv_nxt += (uint32_t)xk_msg_len(m);
	c->unacked += (uint32_t)xk_msg_len(m);
}

/* Notes the bytes of a segment that have come before: the next acknowledgement tells (RFC 2883). */
static void
input_note_twice(struct tcp_connection *c, const struct tcp_segment *segment)
{
	uint32_t end = segment->sequence + segment->len;

	if (segment->len > 0 && tcp_before(segment->sequence, c->rcv_nxt))
		c->twice = (struct tcp_range){ segment->sequence, tcp_before(end, c->rcv_nxt) ? end : c->rcv_nxt };
}

/* Hands up what was received behind the gap that is closed now, and takes the FIN if all before it has come. */
static void
input_close_gap(struct tcp_connection *c)
{
	struct xk_msg *m;

	c->acks = c->acks || c->gaps != NULL; /* RFC 5681, 4.2 */
	m = tcp_gaps_take(&c->gaps, c->rcv_nxt);
	if (m != NULL)
		input_deliver(c, m);
	tcp_count_gaps(c);
	if (c->has_fin && c->rcv_nxt == c->fin_at) {
		c->rcv_nxt++;
		c->acks = true;
		tcp_move(c, TCP_FIN_COMES);
	}
}

/* Keeps *m, whose bytes begin at `sequence`, behind a gap. Takes it unless there is a reason to drop it. */
static unsigned
input_keep(struct tcp_connection *c, uint32_t sequence, struct xk_msg **m)
{
	struct tcp_range range = { sequence, sequence + (uint32_t)xk_msg_len(*m) };
	uint32_t buffers = xk_msg_buffers(*m);
	unsigned why = 0;

	c->acks = true;
	if (!tcp_take_buffers(c, buffers))
		return XK_DROP_NO_BUFFER;
	c->gaps_kept += buffers; /* more than the gaps have if the peer had sent some of the bytes before */
	if (!tcp_gaps_add(&c->gaps, range, m))
		why = TCP_TOO_MANY_GAPS;
	tcp_count_gaps(c);
	for (unsigned i = 0; c->gaps != NULL && i < c->gaps->count; i++)
		if (!tcp_before(sequence, c->gaps->range[i].begin) && tcp_before(sequence, c->gaps->range[i].end))
			c->newest = c->gaps->range[i].begin;
	return why;
}

/*
 * Takes the payload and the FIN of an acceptable segment. Takes *m if it keeps it. Returns 0, or the reason to drop the
 * rest.
 */
static unsigned
input_text(struct tcp_connection *c, struct tcp_segment *segment, struct xk_msg **m)
{
	uint32_t edge = c->rcv_edge, old = c->rcv_nxt - segment->sequence;
	struct xk_msg *text = *m, *cut;
	bool has_fin = (segment->flags & TCP_FIN) != 0;

	if (c->state != TCP_ESTABLISHED && c->state != TCP_FIN_WAIT_1 && c->state != TCP_FIN_WAIT_2)
		return segment->len > 0 || has_fin ? TCP_NOT_WANTED : 0;
	if (c->is_closed && tcp_before(c->rcv_nxt, segment->sequence + segment->len)) { /* RFC 1122, 4.2.2.13 */
		c->resets = true;
		tcp_end(c, -ECONNRESET);
		return TCP_NOT_WANTED;
	}
	if (c->has_fin && tcp_before(c->fin_at, segment->sequence + segment->len))
		return TCP_NOT_WANTED;
	if (tcp_before(segment->sequence, c->rcv_nxt)) {
		if (old >= segment->len && !(has_fin && old == segment->len)) {
			c->acks = true;
			return TCP_OLD;
		}
		if (old > 0 && segment->len > 0) {
			cut = xk_msg_split(&text, old);
			*m = text;
			if (cut == NULL)
				return XK_DROP_NO_BUFFER;
			xk_msg_free(cut);
		}
		segment->sequence += old;
		segment->len -= old;
	}
	if (segment->len > 0 && tcp_before(edge, segment->sequence + segment->len)) {
		segment->len = edge - segment->sequence;
		xk_msg_truncate(text, segment->len);
		has_fin = false;
	}
	if (has_fin && !c->has_fin) {
		c->has_fin = true;
		c->fin_at = segment->sequence + segment->len;
	}
	if (segment->len > 0) {
		if (segment->sequence != c->rcv_nxt)
			return input_keep(c, segment->sequence, m);
		*m = NULL;
		input_deliver(c, text);
	}
	if (segment->sequence == c->rcv_nxt || segment->len > 0 || c->has_fin)
		input_close_gap(c);
	if (has_fin)
		c->acks = true;
	return 0;
}

/* Decides whether what has come is acknowledged now or later (RFC 9293, 3.8.6.3). */
static void
input_delay_ack(struct tcp_connection *c, uint64_t now_ns)
{
	if (c->unacked == 0 || c->acks)
		return;
	if (c->unacked >= 2 * c->mss || tcp_of(c)->ack_delay_ns == 0) {
		c->acks = true;
	} else if (c->ack_due_ns == XK_NEVER) {
		c->ack_due_ns = now_ns + tcp_of(c)->ack_delay_ns;
		xk_count(c->session.protocol, TCP_ACKS_DELAYED);
	}
}

/* ---- segments ---- */

bool
tcp_challenges(struct tcp *tcp, uint64_t now_ns)
{
	uint64_t second = now_ns / UINT64_C(1000000000) << 16;
	uint64_t was = atomic_load_explicit(&tcp->challenge_second, memory_order_relaxed), next;

	do {
		next = was >> 16 == second >> 16 ? was + 1 : second + 1;
		if ((next & 0xffff) > tcp->challenges_max)
			return false;
	} while (!atomic_compare_exchange_weak(&tcp->challenge_second, &was, next));
	xk_count(&tcp->protocol, TCP_CHALLENGES);
	return true;
}

/* Answers a suspicious segment by an acknowledgement, unless enough were sent this second. */
static void
input_challenge(struct tcp_connection *c, uint64_t now_ns)
{
	c->acks |= tcp_challenges(tcp_of(c), now_ns);
}

/* Answers a segment that is not acceptable. Without payload it may be such an answer itself: no storm must follow. */
static void
input_answer(struct tcp_connection *c, const struct tcp_segment *segment, uint64_t now_ns)
{
	if (segment->flags & TCP_RST)
		return;
	if (segment->len > 0 || (segment->flags & TCP_FIN))
		c->acks = true;
	else
		input_challenge(c, now_ns);
}

/* A segment at SYN-SENT (RFC 9293, 3.10.7.3). Returns 0, or the reason to drop it. */
static unsigned
input_syn_sent(struct tcp_connection *c, const struct tcp_segment *segment, uint64_t now_ns)
{
	bool has_ack = (segment->flags & TCP_ACK) != 0;

	if (has_ack && segment->acknowledgement != c->iss + 1) {
		c->refuses = (segment->flags & TCP_RST) == 0;
		return TCP_BAD_ACK;
	}
	if (segment->flags & TCP_RST) {
		if (!has_ack)
			return TCP_BAD_RESET;
		xk_count(c->session.protocol, TCP_RESET_RECEIVED);
		tcp_end(c, -ECONNREFUSED);
		return 0;
	}
	if ((segment->flags & TCP_SYN) == 0)
		return TCP_BAD_FLAGS;
	tcp_agree(c, &segment->options, segment->sequence);
	c->snd_wl1 = segment->sequence;
	c->snd_wl2 = segment->acknowledgement;
	input_take_window(c, segment);
	c->acks = true;
	if (!has_ack) { /* both have sent a SYN: ours is sent again, with an acknowledgement */
		c->state = TCP_SYN_RECEIVED;
		c->snd_nxt = c->iss;
		return 0;
	}
	input_measure(c, segment, now_ns);
	tcp_establish(c, segment->acknowledgement);
	return 0;
}

/*
 * Returns whether the segment has anything in the window (RFC 9293, 3.10.7.4: first). An acknowledgement may also have
 * the number behind the window: its peer has used all of it, and something was lost.
 */
static bool
input_is_in_window(const struct tcp_connection *c, const struct tcp_segment *segment)
{
	uint32_t len = segment->end - segment->sequence, window = c->rcv_edge - c->rcv_nxt;

	if (len == 0)
		return segment->sequence - c->rcv_nxt <= window;
	return window > 0 && (segment->sequence - c->rcv_nxt < window || segment->end - 1 - c->rcv_nxt < window);
}

/* Returns whether the time stamp is older than that of what came before (RFC 7323, 5.3: PAWS). */
static bool
input_is_old(const struct tcp_connection *c, const struct tcp_segment *segment, uint64_t now_ns)
{
	return c->stamps && segment->options.has_stamp && (segment->flags & TCP_RST) == 0 &&
	       tcp_before(segment->options.stamp, c->stamp_recent) && now_ns < c->stamp_ns + TCP_STAMP_NS;
}

/* Takes the time stamp of an acceptable segment at the left edge (RFC 7323, 4.3). */
static void
input_take_stamp(struct tcp_connection *c, const struct tcp_segment *segment, uint64_t now_ns)
{
	if (!c->stamps || !segment->options.has_stamp || tcp_before(c->ack_sent, segment->sequence))
		return;
	c->stamp_recent = segment->options.stamp;
	c->stamp_ns = now_ns;
}

/* A segment of a connection whose peer has sent a SYN. Takes *m if it keeps it. Returns 0, or the reason to drop it. */
static unsigned
input_segment(struct tcp_connection *c, struct tcp_segment *segment, struct xk_msg **m, uint64_t now_ns)
{
	uint32_t oldest;

	/* both ends have sent a SYN: the answer to ours repeats the peer's (RFC 9293, 3.5, figure 7) */
	if (c->state == TCP_SYN_RECEIVED && segment->sequence + 1 == c->rcv_nxt &&
	    (segment->flags & (TCP_SYN | TCP_ACK | TCP_RST)) == (TCP_SYN | TCP_ACK)) {
		segment->flags &= (uint8_t)~TCP_SYN;
		segment->sequence++;
	}
	if (input_is_old(c, segment, now_ns)) {
		input_answer(c, segment, now_ns);
		return TCP_OLD_STAMP;
	}
	input_note_twice(c, segment);
	if (!input_is_in_window(c, segment)) {
		input_answer(c, segment, now_ns);
		/* an acknowledgement beside bytes that do not fit is valid all the same (RFC 9293, 3.10.7.4) */
		if ((segment->flags & (TCP_RST | TCP_SYN | TCP_ACK)) != TCP_ACK || segment->sequence != c->rcv_nxt ||
		    c->state == TCP_SYN_RECEIVED || tcp_before(segment->acknowledgement, c->snd_una) ||
		    tcp_before(c->snd_max, segment->acknowledgement))
			return tcp_before(segment->sequence, c->rcv_nxt) ? TCP_OLD : TCP_OUTSIDE;
		input_acknowledge(c, segment, now_ns);
		return TCP_OUTSIDE;
	}
	if (segment->flags & TCP_RST) {
		if (segment->sequence != c->rcv_nxt) {
			input_challenge(c, now_ns);
			return TCP_BAD_RESET;
		}
		xk_count(c->session.protocol, TCP_RESET_RECEIVED);
		tcp_end(c, c->state == TCP_SYN_RECEIVED ? -ECONNREFUSED : -ECONNRESET);
		return 0;
	}
	if (segment->flags & TCP_SYN) {
		input_challenge(c, now_ns);
		return TCP_BAD_FLAGS;
	}
	if ((segment->flags & TCP_ACK) == 0)
		return TCP_BAD_FLAGS;
	input_take_stamp(c, segment, now_ns);
	oldest = c->snd_una - c->max_window;
	if (tcp_before(c->snd_max, segment->acknowledgement) || tcp_before(segment->acknowledgement, oldest)) {
		if (c->state == TCP_SYN_RECEIVED)
			c->refuses = true;
		else
			input_challenge(c, now_ns);
		return TCP_BAD_ACK;
	}
	if (c->state == TCP_SYN_RECEIVED) {
		if (segment->acknowledgement != c->iss + 1) {
			c->refuses = true;
			return TCP_BAD_ACK;
		}
		input_take_window(c, segment);
		tcp_establish(c, segment->acknowledgement);
	} else if (!tcp_before(segment->acknowledgement, c->snd_una)) {
		input_acknowledge(c, segment, now_ns);
	}
	if (segment->flags & TCP_URG)
		xk_count(c->session.protocol, TCP_URGENT);
	return c->state == TCP_ENDED ? 0 : input_text(c, segment, m);
}

/*
 * Returns whether the segment is what comes next while nothing is missing in either direction: the next bytes, or an
 * acknowledgement of bytes in flight, or both (Jacobson's header prediction).
 */
static bool
input_is_predicted(const struct tcp_connection *c, const struct tcp_segment *segment, uint64_t now_ns)
{
	uint32_t acked = segment->acknowledgement - c->snd_una;

	return c->state == TCP_ESTABLISHED && (segment->flags & TCP_RARE) == TCP_ACK &&
	       segment->sequence == c->rcv_nxt && segment->len <= c->rcv_edge - c->rcv_nxt &&
	       acked <= c->snd_max - c->snd_una && segment->len + acked > 0 && segment->options.sack_count == 0 &&
	       c->gaps == NULL && c->sacked == NULL && !c->recovers && !c->probes && !c->has_fin && !c->is_closed &&
	       !input_is_old(c, segment, now_ns);
}

/* Takes a predicted segment. Takes m. */
static void
input_predicted(struct tcp_connection *c, const struct tcp_segment *segment, struct xk_msg *m, uint64_t now_ns)
{
	input_take_stamp(c, segment, now_ns);
	if (segment->acknowledgement != c->snd_una)
		input_acknowledge(c, segment, now_ns);
	else
		input_take_window(c, segment);
	if (segment->len > 0)
		input_deliver(c, m);
	else
		xk_msg_free(m);
	c->heard_ns = now_ns;
}

/* Passes on a segment whose connection has ended since: to the one that has these ends now, or as a stranger's. */
static void
input_ended(struct tcp_connection *c, struct xk_session *lls, const struct tcp_segment *segment, struct xk_msg *m)
{
	struct xk_protocol *self = c->session.protocol;
	const uint8_t *p = m->data - segment->header;
	struct xk_key key = xk_receive_key(self, lls, p);
	struct xk_session *other = xk_table_find(self, key);

	m->link = NULL;
	xk_msg_push_in_place(m, segment->header - TCP_HEADER_LEN);
	if (other != NULL && other != &c->session)
		xk_pop(other, lls, m, NULL);
	else
		tcp_stranger(self, lls, m, key, xk_table_number_key(XK_GET(tcp, destination, p)));
}

/*
 * Takes any segment, which came up lls; unless it is the last of its burst, nothing is handed up yet, because the others
 * must not wait for the hlp. Takes m. The lock is held, and released.
 */
static void
input_unpredicted(struct tcp_connection *c, struct xk_session *lls, struct tcp_segment *segment, struct xk_msg *m,
		  uint64_t now_ns, bool is_last)
{
	struct xk_protocol *self = c->session.protocol;
	const uint8_t *p = m->data - segment->header;
	unsigned why;
	bool refuses;

	if (c->state == TCP_ENDED) {
		tcp_finish(c, is_last); /* a segment before it in the burst has ended c, and may have left bytes */
		input_ended(c, lls, segment, m);
		return;
	}
	why = c->state == TCP_SYN_SENT ? input_syn_sent(c, segment, now_ns) : input_segment(c, segment, &m, now_ns);
	refuses = c->refuses;
	c->refuses = false;
	c->heard_ns = why == 0 ? now_ns : c->heard_ns;
	input_delay_ack(c, now_ns);
	tcp_finish(c, is_last);
	if (refuses)
		tcp_refuse(self, lls, p, segment);
	if (m != NULL && why != 0)
		xk_drop(self, m, why);
	else
		xk_msg_free(m);
}

/* m: segments that arrived together, by link. Those that were predicted share one acknowledgement. */
void
tcp_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct tcp_connection *c = (struct tcp_connection *)session;
	uint64_t now_ns = xk_arrival_ns(session->protocol);
	struct tcp_segment segment;
	struct xk_msg *next;
	unsigned why;

	(void)hdr;
	xk_lock(&c->lock);
	for (; m != NULL; m = next) {
		next = m->link;
		why = tcp_segment_read(&segment, m);
		if (why != 0) {
			xk_drop(session->protocol, m, why);
		} else if (xk_likely(input_is_predicted(c, &segment, now_ns))) {
			input_predicted(c, &segment, m, now_ns);
		} else {
			input_unpredicted(c, lls, &segment, m, now_ns, next == NULL);
			if (next == NULL)
				return;
			now_ns = xk_now_ns(session->protocol);
			xk_lock(&c->lock);
		}
	}
	input_delay_ack(c, now_ns);
	tcp_finish(c, true);
}
