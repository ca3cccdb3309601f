/* tcp_output.c - see tcp_private.h: chooses the next segment, and makes it. */
#include "protocols/tcp/tcp_private.h"
#include "xkernel/bytes.h"

enum {
	TCP_PARTS = 3,  /* messages of which a segment is made without a copy */
	TCP_SHORT = 64, /* bytes of the longest segment that is copied: a view would cost more */
};

/* ---- segments ---- */

/* Puts the header in front of m (NULL: no buffer) and sums it up. Takes m; returns the segment, or NULL. */
static struct xk_msg *
output_finish(struct xk_msg *m, const struct tcp_reply *reply, uint64_t pseudo_sum)
{
	uint8_t options[TCP_OPTIONS_MAX], *p;
	size_t len = reply->options == NULL ? 0 : tcp_options_store(options, reply->options);
	struct tcp_header h = { .source = reply->source,
				.destination = reply->destination,
				.sequence = reply->sequence,
				.acknowledgement = reply->acknowledgement,
				.offset = (uint8_t)((TCP_HEADER_LEN + len) / 4),
				.flags = reply->flags,
				.window = reply->window };
	uint64_t sum;

	if (m == NULL)
		return NULL;
	sum = pseudo_sum + xk_sum_of16((uint16_t)(TCP_HEADER_LEN + len + xk_msg_len(m))) + tcp_sum(&h) + xk_msg_sum(m);
	p = xk_msg_push(&m, TCP_HEADER_LEN + len);
	if (p == NULL) {
		xk_msg_free(m);
		return NULL;
	}
	if (len > 0) {
		sum = xk_sum(sum, options, len);
		memcpy(p + TCP_HEADER_LEN, options, len);
	}
	tcp_store(p, &h);
	xk_checksum_store(p + XK_OFFSET(tcp, checksum), xk_checksum_finish(sum));
	return m;
}

/* Returns how many ranges a segment names. */
static unsigned
output_ranges(const struct tcp_connection *c)
{
	unsigned most = c->stamps ? TCP_SACKS - 1 : TCP_SACKS;
	unsigned count = (c->twice.begin != c->twice.end) + (c->gaps == NULL ? 0 : c->gaps->count);

	if (!c->sacks)
		return 0;
	return count < most ? count : most;
}

/* Returns the longest payload of a segment beside its options. */
static uint32_t
output_longest(const struct tcp_connection *c)
{
	unsigned ranges = output_ranges(c);

	return c->mss - (ranges > 0 ? 4 + 8 * ranges : 0);
}

static void
output_sack(struct tcp_options *options, struct tcp_range range)
{
	options->sacks[options->sack_count].begin = range.begin;
	options->sacks[options->sack_count++].end = range.end;
}

/* Adds what has come twice (RFC 2883), then the ranges behind gaps, the one that has changed last first (RFC 2018, 4). */
static void
output_sacks(const struct tcp_connection *c, struct tcp_options *options)
{
	unsigned most = output_ranges(c);
	const struct tcp_gaps *gaps = c->gaps;

	if (most > 0 && c->twice.begin != c->twice.end)
		output_sack(options, c->twice);
	for (unsigned i = 0; gaps != NULL && i < gaps->count && options->sack_count < most; i++)
		if (gaps->range[i].begin == c->newest)
			output_sack(options, gaps->range[i]);
	for (unsigned i = 0; gaps != NULL && i < gaps->count && options->sack_count < most; i++)
		if (gaps->range[i].begin != c->newest)
			output_sack(options, gaps->range[i]);
}

uint32_t
tcp_receive_window(const struct tcp_connection *c)
{
	const struct tcp *tcp = tcp_of(c);
	uint32_t held = c->ready_bytes, most = (uint32_t)UINT16_MAX << c->rcv_scale;
	uint32_t window = held < tcp->receive_max ? (uint32_t)tcp->receive_max - held : 0;
	uint32_t granted = c->rcv_edge - c->rcv_nxt;

	if (c->has_fin || c->is_closed) /* no more will come that is wanted: keep what was granted */
		return granted < most ? granted : most;
	if (window > most)
		window = most;
	/* neither shrinks (RFC 9293, 3.8.6), nor opens by little (3.8.6.2.2) */
	if (window < granted || (window - granted < c->mss && window - granted < tcp->receive_max / 2))
		window = granted;
	return window;
}

/* Returns a segment of c: m, or a new message, behind its header. Notes that it acknowledges. */
static struct xk_msg *
output_segment(struct tcp_connection *c, struct xk_msg *m, uint32_t sequence, uint8_t flags, uint64_t now_ns)
{
	struct xk_protocol *self = c->session.protocol;
	const uint8_t *ends = c->session.sends.header;
	struct tcp_options options = { .has_stamp = c->stamps };
	struct tcp_reply reply = { .source = XK_GET(tcp, source, ends),
				   .destination = XK_GET(tcp, destination, ends),
				   .sequence = sequence,
				   .flags = flags,
				   .options = &options };
	uint32_t window = tcp_receive_window(c);

	if (flags & TCP_ACK)
		reply.acknowledgement = c->rcv_nxt;
	if (c->stamps) {
		options.stamp = tcp_now_stamp(c, now_ns);
		options.echo = flags & TCP_ACK ? c->stamp_recent : 0;
	}
	if (flags & TCP_SYN) {
		options.has_mss = true;
		options.mss = c->own_mss;
		options.has_scale = c->scales;
		options.scale = c->rcv_scale;
		options.has_sack_permitted = c->sacks;
		window = window < UINT16_MAX ? window : UINT16_MAX;
		reply.window = (uint16_t)window;
	} else {
		reply.window = (uint16_t)(window >> c->rcv_scale);
		window = (uint32_t)reply.window << c->rcv_scale;
		output_sacks(c, &options);
	}
	m = output_finish(m != NULL ? m : xk_msg_new(xk_platform_of(self), 0), &reply, c->session.sends.push_sum);
	if (m == NULL || (flags & TCP_ACK) == 0)
		return m;
	c->rcv_edge = tcp_later(c->rcv_edge, c->rcv_nxt + window);
	c->ack_sent = c->rcv_nxt;
	c->twice.end = c->twice.begin;
	c->acks = false;
	c->unacked = 0;
	c->ack_due_ns = XK_NEVER;
	return m;
}

/* Returns how many of the len bytes from m's byte `at` on, and from the messages linked behind it, m holds. */
static uint32_t
output_some(const struct xk_msg *m, uint32_t at, uint32_t len)
{
	uint32_t rest = (uint32_t)xk_msg_len(m) - at;

	return rest < len ? rest : len;
}

/* Points the cursor to the message that holds the byte at `sequence`, and returns the byte's place in it. */
static uint32_t
output_seek(struct tcp_connection *c, uint32_t sequence)
{
	if (c->cursor == NULL || tcp_before(sequence, c->cursor_begin)) {
		c->cursor = c->queue;
		c->cursor_begin = c->queue_begin;
	}
	while (sequence - c->cursor_begin >= xk_msg_len(c->cursor)) {
		c->cursor_begin += (uint32_t)xk_msg_len(c->cursor);
		c->cursor = c->cursor->link;
	}
	return sequence - c->cursor_begin;
}

/* Returns a copy of len bytes from the cursor's byte `at` on, or NULL: no buffer. */
static struct xk_msg *
output_copy(const struct tcp_connection *c, uint32_t at, uint32_t len)
{
	struct xk_msg *whole = xk_msg_new(xk_platform_of(c->session.protocol), len);
	const struct xk_msg *from = c->cursor;

	for (struct xk_msg *to = whole; to != NULL; to = to->next) {
		for (uint32_t left = to->len, some; left > 0; left -= some) {
			some = output_some(from, at, left);
			xk_msg_copy_out(from, at, to->data + (to->len - left), some);
			at += some;
			if (at == xk_msg_len(from)) {
				from = from->link;
				at = 0;
			}
		}
	}
	return whole;
}

/* Returns len bytes of the queue from `sequence` on, or NULL: no buffer. Parts of a few messages are not copied. */
static struct xk_msg *
output_payload(struct tcp_connection *c, uint32_t sequence, uint32_t len)
{
	uint32_t at = output_seek(c, sequence), begin = at, left = len, some;
	struct xk_msg *whole = NULL, *part;
	unsigned parts = 0;

	for (const struct xk_msg *m = c->cursor; left > 0; m = m->link, at = 0, parts++)
		left -= output_some(m, at, left);
	if (parts > TCP_PARTS || len <= TCP_SHORT)
		return output_copy(c, begin, len);
	at = begin;
	for (struct xk_msg *m = c->cursor; len > 0; m = m->link, at = 0, len -= some) {
		some = output_some(m, at, len);
		part = xk_msg_part(m, at, some);
		if (part == NULL) {
			xk_msg_free(whole);
			return NULL;
		}
		if (whole == NULL)
			whole = part;
		else
			xk_msg_join(whole, part);
	}
	return whole;
}

/* ---- what is sent next ---- */

/*
 * Returns the sequence number of a segment without payload: the highest within the peer's window. The peer ignores numbers
 * beyond it, and therefore those behind a probe; snd_nxt may have gone back, and be old to the peer.
 */
static uint32_t
output_sequence(const struct tcp_connection *c)
{
	return c->is_open && c->snd_wnd < tcp_in_flight(c) ? c->snd_una + c->snd_wnd : c->snd_max;
}

/* Sends len bytes from `sequence` on, and the FIN if it follows. NULL: no buffer; the timer tries again. */
static struct xk_msg *
output_data(struct tcp_connection *c, uint32_t sequence, uint32_t len, bool with_fin, uint64_t now_ns)
{
	uint32_t end = sequence + len + with_fin;
	uint8_t flags = TCP_ACK | (with_fin ? TCP_FIN : 0) | (len > 0 && sequence + len == c->snd_end ? TCP_PSH : 0);
	struct xk_msg *m = len == 0 ? NULL : output_payload(c, sequence, len);

	if (c->retry.due_ns == XK_NEVER || c->snd_una == c->snd_max)
		tcp_recovery_begin_timer(c, now_ns);
	if (len > 0 && m == NULL)
		return NULL;
	m = output_segment(c, m, sequence, flags, now_ns);
	if (m == NULL)
		return NULL;
	if (tcp_before(sequence, c->snd_max)) {
		xk_count(c->session.protocol, TCP_RETRANSMITTED);
		c->retransmitted++;
		c->times = false; /* Karn: the acknowledgement may be of either */
		tcp_recovery_resent(c, (struct tcp_range){ sequence, end }, now_ns);
	} else if (!c->times && (!c->probes || c->snd_wnd > 0)) {
		c->times = true;
		c->timed_end = end;
		c->timed_ns = now_ns;
	}
	c->snd_max = tcp_later(c->snd_max, end);
	c->sent_ns = now_ns;
	tcp_recovery_tail(c, now_ns);
	return m;
}

/* Sends a probe of the tail: new bytes, in spite of the congestion window, or the last ones again (RFC 8985, 7.3). */
static struct xk_msg *
output_tail(struct tcp_connection *c, uint64_t now_ns)
{
	uint32_t most = output_longest(c), flight = tcp_in_flight(c), sequence = c->snd_max, len = 0;
	bool is_new = c->snd_nxt == c->snd_max && tcp_before(c->snd_max, c->snd_end) && flight < c->snd_wnd, with_fin;
	struct xk_msg *m;

	if (!is_new && c->sacked != NULL && c->sacked->range[c->sacked->count - 1].end == c->snd_max)
		return NULL; /* the tail has come: what has not is lost */
	if (is_new) {
		len = c->snd_end - c->snd_max < c->snd_wnd - flight ? c->snd_end - c->snd_max : c->snd_wnd - flight;
		with_fin = false;
	} else {
		with_fin = c->ends && c->snd_max == c->snd_end + 1;
		len = flight - with_fin;
	}
	len = len < most ? len : most;
	sequence -= is_new ? 0 : len + with_fin;
	c->awaits_tail = true; /* no other probe follows it */
	c->resent_tail = !is_new;
	c->tail_end = sequence + len + with_fin;
	m = output_data(c, sequence, len, with_fin, now_ns);
	c->snd_nxt = is_new ? c->snd_max : c->snd_nxt;
	c->awaits_tail = m != NULL;
	if (m != NULL)
		xk_count(c->session.protocol, TCP_TAIL_PROBES);
	return m;
}

/* Returns whether a segment of len of the `left` bytes may be sent: others would be silly (RFC 9293, 3.8.6.2.1). */
static bool
output_is_worth(const struct tcp_connection *c, uint32_t len, uint32_t left, bool is_cut, bool with_fin)
{
	if (len == output_longest(c) || with_fin)
		return true;
	if (tcp_before(c->snd_nxt, c->snd_max) && (!is_cut || c->snd_nxt == c->snd_una)) /* again, after a timeout */
		return true;
	if (len == left && (c->eager || c->snd_una == c->snd_max)) /* the last; RFC 896 */
		return true;
	return len > 0 && len >= c->max_window / 2;
}

/* Returns the next segment with new bytes, or bytes after a timeout, or NULL. */
static struct xk_msg *
output_next_data(struct tcp_connection *c, uint64_t now_ns)
{
	uint32_t most = output_longest(c), window, used, left, len;
	bool with_fin;
	struct xk_msg *m;

	if (c->state < TCP_ESTABLISHED)
		return NULL;
	for (unsigned i = 0; c->sacked != NULL && i < c->sacked->count; i++) /* the peer has them */
		if (!tcp_before(c->snd_nxt, c->sacked->range[i].begin) &&
		    tcp_before(c->snd_nxt, c->sacked->range[i].end))
			c->snd_nxt = c->sacked->range[i].end;
	if (c->snd_una == c->snd_max && c->sent_ns + c->round_trip.timeout_ns < now_ns)
		tcp_recovery_rested(c);
	window = tcp_recovery_window(c);
	used = c->snd_nxt - c->snd_una;
	left = tcp_before(c->snd_nxt, c->snd_end) ? c->snd_end - c->snd_nxt : 0;
	len = used < window ? window - used : 0;
	len = len < left ? len : left;
	len = len < most ? len : most;
	for (unsigned i = 0; c->sacked != NULL && i < c->sacked->count; i++)
		if (tcp_before(c->snd_nxt, c->sacked->range[i].begin) && c->sacked->range[i].begin - c->snd_nxt < len)
			len = c->sacked->range[i].begin - c->snd_nxt;
	with_fin = c->ends && len == left && c->snd_nxt + len == c->snd_end && used + len < window;
	if (len == 0 && !with_fin)
		return NULL;
	if (!output_is_worth(c, len, left, used + len == window, with_fin))
		return NULL;
	m = output_data(c, c->snd_nxt, len, with_fin, now_ns);
	if (m != NULL)
		c->snd_nxt += len + with_fin;
	return m;
}

/* Returns how many bytes the timer sends: one, if the window is closed; what a small one lets out (RFC 9293, 3.8.6.2.1). */
static uint32_t
output_forced(const struct tcp_connection *c)
{
	uint32_t left = tcp_before(c->snd_una, c->snd_end) ? c->snd_end - c->snd_una : 0, most = output_longest(c);
	uint32_t len = c->snd_wnd > 1 ? c->snd_wnd : 1;

	len = len < left ? len : left;
	return len < most ? len : most;
}

/* Returns whether something waits that the window does not let out, and nothing is in flight to bring another one. */
static bool
output_is_stuck(const struct tcp_connection *c)
{
	bool waits = tcp_before(c->snd_nxt, c->snd_end) || (c->ends && c->snd_nxt == c->snd_end);

	return c->state >= TCP_ESTABLISHED && c->state != TCP_ENDED && waits && c->snd_una == c->snd_max && !c->probes;
}

static struct xk_msg *
output_syn(struct tcp_connection *c, uint64_t now_ns)
{
	uint8_t flags = c->state == TCP_SYN_SENT ? TCP_SYN : TCP_SYN | TCP_ACK;
	struct xk_msg *m;

	if (c->snd_nxt != c->iss)
		return NULL;
	m = output_segment(c, NULL, c->iss, flags, now_ns);
	if (c->snd_max == c->iss)
		xk_retry_begin(&c->retry, c->round_trip.timeout_ns, now_ns);
	if (m == NULL)
		return NULL;
	c->times = c->snd_max == c->iss;
	if (c->times) {
		c->timed_end = c->iss + 1;
		c->timed_ns = now_ns;
	} else {
		xk_count(c->session.protocol, TCP_RETRANSMITTED);
		c->retransmitted++;
	}
	c->snd_nxt = c->snd_max = c->iss + 1;
	c->sent_ns = now_ns;
	return m;
}

struct xk_msg *
tcp_output(struct tcp_connection *c, uint64_t now_ns)
{
	struct tcp_range again;
	struct xk_msg *m = NULL;

	if (c->resets) {
		c->resets = false;
		return output_segment(c, NULL, output_sequence(c), TCP_RST | TCP_ACK, now_ns);
	}
	if (c->state == TCP_SYN_SENT || c->state == TCP_SYN_RECEIVED)
		m = output_syn(c, now_ns);
	if (m != NULL)
		return m;
	if (c->state != TCP_ENDED && c->state != TCP_SYN_SENT) {
		if (c->forces) {
			c->forces = false;
			m = output_data(c, c->snd_una, output_forced(c), c->snd_una == c->snd_end, now_ns);
			c->snd_nxt = tcp_later(c->snd_nxt, c->snd_una);
		}
		if (c->probes_tail) {
			c->probes_tail = false;
			m = output_tail(c, now_ns);
		}
		if (m == NULL && tcp_recovery_resend(c, &again)) {
			uint32_t len = again.end - again.begin, most = output_longest(c);
			bool with_fin = c->ends && again.end - 1 == c->snd_end && len - 1 <= most;

			len = len - with_fin < most ? len - with_fin : most;
			m = output_data(c, again.begin, len, with_fin, now_ns);
		}
		if (m == NULL && !c->probes)
			m = output_next_data(c, now_ns);
		if (m == NULL && output_is_stuck(c)) {
			c->probes = true;
			tcp_recovery_begin_timer(c, now_ns);
		}
	}
	if (m == NULL && c->asks) { /* wholly old, so the peer acknowledges (RFC 1122, 4.2.3.6) */
		c->asks = false;
		return output_segment(c, NULL, c->snd_una - 1, TCP_ACK, now_ns);
	}
	if (m == NULL && c->acks)
		m = output_segment(c, NULL, output_sequence(c), TCP_ACK, now_ns);
	return m;
}

/* ---- without a connection ---- */

void
tcp_reply(struct xk_protocol *self, struct xk_session *lls, const struct tcp_reply *reply)
{
	uint64_t push_sum, pop_sum;
	struct xk_msg *m;

	if (xk_sends_pseudo_sums(self, lls, &push_sum, &pop_sum) != 0)
		return;
	m = output_finish(xk_msg_new(xk_platform_of(self), 0), reply, push_sum);
	if (m != NULL)
		xk_push(lls, m);
}

void
tcp_refuse(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p, const struct tcp_segment *segment)
{
	struct tcp_reply reply = { .source = XK_GET(tcp, destination, p), .destination = XK_GET(tcp, source, p) };

	if (segment->flags & TCP_RST)
		return;
	if (segment->flags & TCP_ACK) {
		reply.flags = TCP_RST;
		reply.sequence = segment->acknowledgement;
	} else {
		reply.flags = TCP_RST | TCP_ACK;
		reply.acknowledgement = segment->end;
	}
	xk_count(self, TCP_RESET_SENT);
	tcp_reply(self, lls, &reply);
}
