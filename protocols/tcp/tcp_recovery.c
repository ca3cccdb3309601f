/*
 * tcp_recovery.c - see tcp_private.h: how much may be in flight, and what of it is lost.
 *
 * An acknowledgement that says nothing new, or a range behind a gap, tells that a later segment has arrived. Three of
 * them begin fast recovery, which ends when all that was in flight then is acknowledged. With SACK, each range that
 * three segments have overtaken is sent again, as long as fewer bytes than the window are on their way (RFC 6675);
 * without it, the first segment is, for each partial acknowledgement (RFC 6582).
 */
#include "protocols/tcp/tcp_private.h"

enum { TCP_DUPLICATES = 3, TCP_WINDOW_MAX = 1 << 30 };

static uint32_t
recovery_min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- Reno (RFC 5681) ---- */

/* Returns the initial window (RFC 6928). */
static uint32_t
reno_initial(const struct tcp_connection *c)
{
	uint32_t ten = 10 * c->mss, some = 2 * c->mss > 14600 ? 2 * c->mss : 14600;

	return recovery_min(ten, some);
}

static void
reno_begin(struct tcp_connection *c)
{
	/* a lost SYN is a sign of congestion (RFC 5681, 3.1) */
	c->cwnd = c->retry.tries > 0 ? c->mss : reno_initial(c);
	c->ssthresh = TCP_WINDOW_MAX;
}

static void
reno_acked(struct tcp_connection *c, uint32_t bytes)
{
	uint64_t more;

	/* by bytes (RFC 3465), without its limit: an acknowledgement may be of a whole burst; less after a timeout */
	if (c->cwnd < c->ssthresh)
		more = tcp_before(c->snd_una, c->recover) ? recovery_min(bytes, c->mss) : bytes;
	else
		more = (uint64_t)c->mss * bytes / c->cwnd;
	c->cwnd = recovery_min((uint32_t)(c->cwnd + (more > 0 ? more : 1)), TCP_WINDOW_MAX);
}

static void
reno_lost(struct tcp_connection *c)
{
	/* beyond cwnd is what RFC 3042 has sent, which does not count (RFC 5681, 3.2) */
	uint32_t half = recovery_min(tcp_in_flight(c), c->cwnd) / 2;

	c->ssthresh = half > 2 * c->mss ? half : 2 * c->mss;
}

const struct tcp_congestion tcp_reno = { "reno", reno_begin, reno_acked, reno_lost };

/* ---- what the peer has ---- */

/* Returns the bytes that the peer has behind `sequence`. */
static uint32_t
recovery_sacked_behind(const struct tcp_connection *c, uint32_t sequence)
{
	uint32_t bytes = 0;

	for (unsigned i = 0; c->sacked != NULL && i < c->sacked->count; i++)
		if (!tcp_before(c->sacked->range[i].begin, sequence))
			bytes += c->sacked->range[i].end - c->sacked->range[i].begin;
	return bytes;
}

/* Returns whether bytes at `sequence`, which the peer does not have, are lost: enough behind them has arrived. */
static bool
recovery_is_lost(const struct tcp_connection *c, uint32_t sequence)
{
	return recovery_sacked_behind(c, sequence) > (TCP_DUPLICATES - 1) * c->mss;
}

/* Returns the end of the gap at `sequence`. */
static uint32_t
recovery_gap_end(const struct tcp_connection *c, uint32_t sequence)
{
	for (unsigned i = 0; c->sacked != NULL && i < c->sacked->count; i++)
		if (tcp_before(sequence, c->sacked->range[i].begin))
			return c->sacked->range[i].begin;
	return c->snd_max;
}

/* Returns the bytes on their way: neither received, nor lost and not sent again (RFC 6675, 4: pipe). */
static uint32_t
recovery_pipe(const struct tcp_connection *c)
{
	uint32_t at = c->snd_una, pipe = 0;

	for (unsigned i = 0; at != c->snd_max; i++) {
		uint32_t end = recovery_gap_end(c, at), resent = at;

		if (!recovery_is_lost(c, at))
			pipe += end - at;
		if (tcp_before(at, c->high_resent))
			resent = tcp_before(c->high_resent, end) ? c->high_resent : end;
		pipe += resent - at;
		if (c->sacked == NULL || i >= c->sacked->count)
			break;
		at = end == c->snd_max ? end : c->sacked->range[i].end;
	}
	return pipe;
}

bool
tcp_recovery_sacked(struct tcp_connection *c, const struct tcp_segment *segment)
{
	struct xk_msg *none = NULL;
	bool is_news = false;

	for (unsigned i = 0; c->sacks && i < segment->options.sack_count; i++) {
		struct tcp_range range = { segment->options.sacks[i].begin, segment->options.sacks[i].end };
		uint32_t begin = range.begin - c->snd_una, end = range.end - c->snd_una;
		uint32_t before = recovery_sacked_behind(c, c->snd_una);

		/*
		 * A duplicate's range lies before the acknowledgement (RFC 2883), and so may forged ones. These are
		 * distances, because numbers half the space apart are each before the other.
		 */
		if (begin != 0 && begin < end && end <= c->snd_max - c->snd_una &&
		    tcp_gaps_add(&c->sacked, range, &none))
			is_news = is_news || recovery_sacked_behind(c, c->snd_una) != before;
	}
	return is_news;
}

/* ---- losses ---- */

uint32_t
tcp_recovery_window(const struct tcp_connection *c)
{
	uint32_t window = c->cwnd, pipe, flight = c->snd_nxt - c->snd_una;

	if (c->recovers && c->sacks) {
		pipe = recovery_pipe(c);
		window = flight + (c->cwnd > pipe ? c->cwnd - pipe : 0);
	} else if (!c->recovers && c->duplicates > 0) { /* RFC 3042 */
		window += recovery_min(c->duplicates, TCP_DUPLICATES - 1) * c->mss;
	}
	return recovery_min(window, c->snd_wnd);
}

/* Begins fast recovery. */
static void
recovery_begin(struct tcp_connection *c)
{
	xk_count(c->session.protocol, TCP_RECOVERED);
	c->congestion->lost(c);
	c->recovers = c->resends = true;
	c->recover = c->snd_max;
	c->high_resent = c->snd_una;
	c->cwnd = c->ssthresh + (c->sacks ? 0 : TCP_DUPLICATES * c->mss);
}

void
tcp_recovery_acked(struct tcp_connection *c, uint32_t acked, bool is_duplicate)
{
	bool is_past = !tcp_before(c->snd_una, c->recover);

	if (acked > 0) {
		c->duplicates = 0;
		tcp_gaps_take(&c->sacked, c->snd_una);
		c->high_resent = tcp_later(c->high_resent, c->snd_una);
		if (!c->recovers) {
			c->congestion->acked(c, acked);
		} else if (is_past) {
			c->recovers = c->resends = false;
			c->cwnd = recovery_min(c->ssthresh,
					       (tcp_in_flight(c) > c->mss ? tcp_in_flight(c) : c->mss) + c->mss);
		} else {
			c->resends = !c->sacks || !tcp_before(c->snd_una, c->high_resent);
			if (!c->sacks)
				c->cwnd = (c->cwnd > acked ? c->cwnd - acked : 0) + c->mss;
		}
		return;
	}
	if (!is_duplicate)
		return;
	c->duplicates += c->duplicates < UINT8_MAX;
	if (c->recovers && !c->sacks)
		c->cwnd = recovery_min(c->cwnd + c->mss, TCP_WINDOW_MAX);
	else if (!c->recovers && is_past &&
		 (c->duplicates >= TCP_DUPLICATES || (c->sacked != NULL && recovery_is_lost(c, c->snd_una))))
		recovery_begin(c);
}

void
tcp_recovery_timed_out(struct tcp_connection *c)
{
	if (!c->recovers && c->retry.tries == 0)
		c->congestion->lost(c);
	else if (c->retry.tries > 0) /* the peer may have dropped them meanwhile (RFC 2018, 8) */
		tcp_gaps_take(&c->sacked, c->snd_max);
	c->cwnd = c->mss;
	c->recovers = c->resends = false;
	c->recover = c->snd_max;
	c->duplicates = 0;
	c->snd_nxt = c->snd_una;
}

void
tcp_recovery_rested(struct tcp_connection *c)
{
	c->cwnd = recovery_min(c->cwnd, reno_initial(c));
}

bool
tcp_recovery_resend(const struct tcp_connection *c, struct tcp_range *range)
{
	uint32_t at = c->resends ? c->snd_una : c->high_resent;

	if (!c->recovers || (!c->resends && (!c->sacks || recovery_pipe(c) >= c->cwnd)))
		return false;
	for (unsigned i = 0; c->sacked != NULL && i < c->sacked->count; i++)
		if (!tcp_before(at, c->sacked->range[i].begin) && tcp_before(at, c->sacked->range[i].end))
			at = c->sacked->range[i].end;
	if (!tcp_before(at, c->recover) || (!c->resends && !recovery_is_lost(c, at)))
		return false;
	range->begin = at;
	range->end = recovery_gap_end(c, at);
	return true;
}

void
tcp_recovery_resent(struct tcp_connection *c, const struct tcp_range *range)
{
	c->resends = false;
	c->high_resent = tcp_later(c->high_resent, range->end);
}
