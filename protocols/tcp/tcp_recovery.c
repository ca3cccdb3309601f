/*
 * tcp_recovery.c - see tcp_private.h: how much may be in flight, and what of it is lost.
 *
 * With SACK, time tells (RFC 8985): a segment is lost if one that was sent later has come, and it has not for a while
 * longer. That while is nothing until the network is seen to reorder segments, if three have come or others are lost
 * already; otherwise it is a quarter of the shortest round trip, and more if the peer reports that it has got the same
 * twice. Of segments sent for the first time, the order of their numbers is that of sending; those sent again are
 * listed. Whatever is lost is sent again, as long as fewer bytes than the window are on their way (RFC 6675). If
 * nothing comes for two round trips, a probe is sent, so that something later may come; after a timeout all is lost.
 *
 * Without SACK, three duplicate acknowledgements begin fast recovery, which ends when all that was in flight then is
 * acknowledged; the first segment is sent again, for each partial acknowledgement (RFC 6582).
 */
#include <stdlib.h>

#include "protocols/tcp/tcp_private.h"

enum {
	TCP_DUPLICATES = 3,
	TCP_WINDOW_MAX = 1 << 30,
	TCP_PERSISTS = 16, /* recoveries (RFC 8985, 6.2.4) */
};

#define TCP_LONE_DELAY_NS                                                                                              \
	UINT64_C(200000000)            /* a lone segment's acknowledgement may wait for so long (RFC 8985, 7.2) */
#define TCP_DELAY_NS UINT64_C(2000000) /* that of several does for busy hosts only */

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
reno_lost(struct tcp_connection *c, uint32_t flight)
{
	/* beyond cwnd is what RFC 3042 has sent, which does not count (RFC 5681, 3.2) */
	uint32_t half = recovery_min(flight, c->cwnd) / 2;

	c->ssthresh = half > 2 * c->mss ? half : 2 * c->mss;
}

const struct tcp_congestion tcp_reno = { "reno", reno_begin, reno_acked, reno_lost };

/* ---- what the peer has ---- */

static unsigned
recovery_ranges(const struct tcp_connection *c)
{
	return c->sacked == NULL ? 0 : c->sacked->count;
}

/* Returns the gap before range `index` of what the peer has; the last is behind all ranges. */
static struct tcp_range
recovery_gap(const struct tcp_connection *c, unsigned index)
{
	struct tcp_range gap = { c->snd_una, c->snd_max };

	if (index > 0)
		gap.begin = c->sacked->range[index - 1].end;
	if (index < recovery_ranges(c))
		gap.end = c->sacked->range[index].begin;
	return gap;
}

/* Returns whether the peer has all of a range. */
static bool
recovery_has(const struct tcp_connection *c, struct tcp_range range)
{
	bool has = !tcp_before(c->snd_una, range.end);

	for (unsigned i = 0; !has && i < recovery_ranges(c); i++)
		has = !tcp_before(range.begin, c->sacked->range[i].begin) &&
		      !tcp_before(c->sacked->range[i].end, range.end);
	return has;
}

/* Returns the end of the lost part of a gap, which is at its beginning. */
static uint32_t
recovery_lost_end(const struct tcp_connection *c, struct tcp_range gap)
{
	return tcp_before(c->lost_end, gap.end) ? tcp_later(c->lost_end, gap.begin) : gap.end;
}

/* Returns the first byte from `sequence` on that is not on its way again. */
static uint32_t
recovery_behind_resent(const struct tcp_connection *c, uint32_t sequence)
{
	uint32_t was;

	do {
		was = sequence;
		for (unsigned i = 0; c->resent != NULL && i < c->resent->count; i++)
			if (sequence - c->resent->again[i].range.begin <
			    c->resent->again[i].range.end - c->resent->again[i].range.begin)
				sequence = c->resent->again[i].range.end;
	} while (sequence != was);
	return sequence;
}

/* Returns the bytes on their way: neither received, nor lost and not sent again (RFC 6675, 4: pipe). */
static uint32_t
recovery_pipe(const struct tcp_connection *c)
{
	uint32_t pipe = 0;

	for (unsigned i = 0; i <= recovery_ranges(c); i++) {
		struct tcp_range gap = recovery_gap(c, i);

		pipe += gap.end - recovery_lost_end(c, gap);
	}
	for (unsigned i = 0; c->resent != NULL && i < c->resent->count; i++)
		pipe += c->resent->again[i].range.end - c->resent->again[i].range.begin;
	return pipe;
}

/* Notes that bytes have come: if they were sent once, and before others that have come already, there is reordering. */
static void
recovery_came(struct tcp_connection *c, struct tcp_range range)
{
	for (unsigned i = 0; !c->restarts && i < recovery_ranges(c); i++) {
		struct tcp_range gap = recovery_gap(c, i);
		uint32_t begin = tcp_later(gap.begin, range.begin);
		uint32_t end = tcp_before(gap.end, range.end) ? gap.end : range.end;

		if (tcp_before(begin, end) && tcp_before(recovery_behind_resent(c, begin), end))
			c->reorders = true;
	}
}

/* Notes that the peer has got bytes twice (RFC 2883): of the probe, or what was late was sent again too early. */
static void
recovery_came_twice(struct tcp_connection *c, uint32_t acknowledgement)
{
	if (c->awaits_tail && c->resent_tail && !tcp_before(acknowledgement, c->tail_end)) {
		c->awaits_tail = false;
	} else if (c->retransmitted > 0 && !c->widened) {
		c->widened = true;
		c->reorder_quarters += c->reorder_quarters < UINT8_MAX;
		c->reorder_persists = TCP_PERSISTS;
	}
}

/*
 * Stores range `index` of a segment. Returns whether it is news of what is in flight: a duplicate's range lies before the
 * acknowledgement (RFC 2883), and so may forged ones.
 */
static bool
recovery_range(const struct tcp_connection *c, const struct tcp_segment *segment, unsigned index,
	       struct tcp_range *range)
{
	uint32_t begin, end;

	*range = (struct tcp_range){ segment->options.sacks[index].begin, segment->options.sacks[index].end };
	begin = range->begin - c->snd_una; /* distances: numbers half the space apart are each before the other */
	end = range->end - c->snd_una;
	return begin != 0 && begin < end && end <= c->snd_max - c->snd_una;
}

bool
tcp_recovery_sacked(struct tcp_connection *c, const struct tcp_segment *segment, uint64_t now_ns)
{
	unsigned count = segment->options.sack_count;
	uint32_t before = tcp_gaps_bytes(c->sacked);
	struct xk_msg *none = NULL;
	struct tcp_range range;

	if (!c->sacks)
		return false;
	if (segment->len == 0 && count == 0 && segment->acknowledgement == c->snd_una && c->snd_una == c->tail_end)
		c->awaits_tail = false; /* a duplicate: the probe was received twice (RFC 8985, 7.4.2, case 2) */
	recovery_came(c, (struct tcp_range){ c->snd_una, segment->acknowledgement });
	for (unsigned i = 0; i < count; i++) /* all before any is added: they came before this acknowledgement */
		if (recovery_range(c, segment, i, &range))
			recovery_came(c, range);
	if (count > 0 && !tcp_before(segment->acknowledgement, segment->options.sacks[0].end))
		recovery_came_twice(c, segment->acknowledgement);
	for (unsigned i = 0; i < count; i++)
		if (recovery_range(c, segment, i, &range))
			tcp_gaps_add(&c->sacked, range, &none);
	if (recovery_ranges(c) > 0 && !tcp_before(c->sacked->range[c->sacked->count - 1].end, c->tail_end))
		c->awaits_tail = false; /* recovery answers it */
	for (unsigned i = recovery_ranges(c); i-- > 0;)
		if (c->sacked->since_ns[i] == 0)
			c->sacked->since_ns[i] = i + 1 < c->sacked->count ? c->sacked->since_ns[i + 1] : now_ns;
	return tcp_gaps_bytes(c->sacked) != before;
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

/* Returns how long a segment may be late without being lost (RFC 8985, 6.2.4: reo_wnd). */
static uint64_t
recovery_lateness_ns(const struct tcp_connection *c)
{
	uint64_t quarters = 1 + (uint64_t)c->reorder_quarters;

	if (!c->reorders && (c->recovers || c->duplicates >= TCP_DUPLICATES ||
			     tcp_gaps_bytes(c->sacked) > (TCP_DUPLICATES - 1) * c->mss))
		return 0;
	if (c->min_trip_us == 0) /* no round trip is measured yet */
		return TCP_DELAY_NS;
	return 250 * (quarters * c->min_trip_us < 4 * (uint64_t)c->round_trip.us.mean
			      ? quarters * c->min_trip_us
			      : 4 * (uint64_t)c->round_trip.us.mean);
}

/*
 * A loss, or one of what was sent again, while `flight` bytes were on their way: answers it once for all of them (RFC
 * 5681, 4.3).
 */
static void
recovery_slow_down(struct tcp_connection *c, uint32_t flight)
{
	c->congestion->lost(c, flight);
	c->cwnd = recovery_min(c->cwnd, c->ssthresh);
	c->resends = c->recovers && recovery_behind_resent(c, c->snd_una) == c->snd_una;
	for (unsigned i = 0; c->resent != NULL && i < c->resent->count; i++)
		c->resent->again[i].is_answered = true;
}

/* Begins fast recovery. */
static void
recovery_begin(struct tcp_connection *c)
{
	xk_count(c->session.protocol, TCP_RECOVERED);
	c->recovers = true;
	c->widened = false;
	recovery_slow_down(c, tcp_in_flight(c));
	c->recover = c->snd_max;
	c->cwnd = c->ssthresh + (c->sacks ? 0 : TCP_DUPLICATES * c->mss);
}

/* Removes from the list what has come, and what is lost again. */
static void
recovery_judge_resent(struct tcp_connection *c, uint64_t lateness_ns, uint64_t now_ns)
{
	uint32_t newest = recovery_gap(c, recovery_ranges(c)).begin, next = c->snd_una;
	struct tcp_resent *resent = c->resent;
	bool is_answered = true;
	unsigned kept = 0;

	for (unsigned i = 0; i < resent->count; i++) {
		struct tcp_again *again = &resent->again[i];

		if (!recovery_has(c, again->range))
			continue;
		if (now_ns < again->sent_ns + UINT64_C(500) * c->min_trip_us) { /* what was sent first has come */
			c->reorders = c->reorders || c->recovers; /* a probe shows none: the acknowledgement was late */
			continue;
		}
		next = again->next; /* and all that was sent before it should have */
		for (unsigned before = 0; before < i; before++)
			if (resent->again[before].overtaken_ns == XK_NEVER)
				resent->again[before].overtaken_ns = now_ns;
	}
	if (c->recovers)
		c->lost_end = tcp_later(c->lost_end, next);
	for (unsigned i = 0; i < resent->count; i++) {
		struct tcp_again *again = &resent->again[i];

		if (recovery_has(c, again->range))
			continue;
		if (again->overtaken_ns == XK_NEVER && tcp_before(again->next, newest))
			again->overtaken_ns = now_ns;
		if (again->overtaken_ns != XK_NEVER && now_ns >= again->overtaken_ns + lateness_ns) {
			xk_count(c->session.protocol, TCP_LOST_AGAIN);
			is_answered = is_answered && again->is_answered;
			continue;
		}
		resent->again[kept++] = *again;
	}
	resent->count = kept;
	if (!is_answered && c->recovers) /* otherwise recovery begins */
		recovery_slow_down(c, tcp_in_flight(c));
}

void
tcp_recovery_judge(struct tcp_connection *c, uint64_t now_ns)
{
	uint64_t lateness_ns = recovery_lateness_ns(c);

	if (c->resent != NULL)
		recovery_judge_resent(c, lateness_ns, now_ns);
	for (unsigned i = 0; i < recovery_ranges(c); i++)
		if (now_ns >= c->sacked->since_ns[i] + lateness_ns)
			c->lost_end = tcp_later(c->lost_end, recovery_gap(c, i).end);
	if (!c->recovers && tcp_before(c->snd_una, c->lost_end))
		recovery_begin(c);
	if (!c->recovers && c->resent != NULL && c->resent->count == 0) {
		free(c->resent);
		c->resent = NULL;
	}
}

uint64_t
tcp_recovery_due_ns(const struct tcp_connection *c)
{
	uint64_t since_ns = XK_NEVER;

	for (unsigned i = recovery_ranges(c); i-- > 0 && tcp_before(c->lost_end, recovery_gap(c, i).end);)
		since_ns = c->sacked->since_ns[i];
	for (unsigned i = 0; c->resent != NULL && i < c->resent->count; i++)
		if (c->resent->again[i].overtaken_ns < since_ns)
			since_ns = c->resent->again[i].overtaken_ns;
	return since_ns == XK_NEVER ? XK_NEVER : since_ns + recovery_lateness_ns(c);
}

/* Ends recovery: no burst follows (RFC 6582, 3.2, 3). */
static void
recovery_end(struct tcp_connection *c)
{
	uint32_t flight = tcp_in_flight(c);

	if (!c->restarts)
		c->cwnd = recovery_min(c->ssthresh, (flight > c->mss ? flight : c->mss) + c->mss);
	c->recovers = c->restarts = c->resends = false;
	if (c->reorder_persists > 0 && --c->reorder_persists == 0)
		c->reorder_quarters = 0;
}

void
tcp_recovery_acked(struct tcp_connection *c, uint32_t acked, bool is_duplicate, uint64_t now_ns)
{
	bool is_past = !tcp_before(c->snd_una, c->recover);

	if (acked > 0) {
		c->duplicates = 0;
		tcp_gaps_take(&c->sacked, c->snd_una);
		c->lost_end = tcp_later(c->lost_end, c->snd_una);
		c->recover = tcp_later(c->recover, c->snd_una);
		if (c->awaits_tail && !tcp_before(c->snd_una, c->tail_end + c->resent_tail)) { /* RFC 8985, 7.4.2 */
			c->awaits_tail = false;
			if (c->resent_tail && !c->recovers)
				recovery_slow_down(c, acked + tcp_in_flight(c));
		}
		if (!c->recovers || c->restarts)
			c->congestion->acked(c, acked);
		if (c->recovers && is_past) {
			recovery_end(c);
		} else if (c->recovers) {
			c->resends = c->resent == NULL;
			if (!c->sacks)
				c->cwnd = (c->cwnd > acked ? c->cwnd - acked : 0) + c->mss;
		}
	} else if (is_duplicate) {
		c->duplicates += c->duplicates < UINT8_MAX;
		if (c->recovers && !c->sacks)
			c->cwnd = recovery_min(c->cwnd + c->mss, TCP_WINDOW_MAX);
		else if (!c->sacks && is_past && c->duplicates >= TCP_DUPLICATES)
			recovery_begin(c);
	}
	if (c->sacked != NULL || c->resent != NULL)
		tcp_recovery_judge(c, now_ns);
}

void
tcp_recovery_timed_out(struct tcp_connection *c)
{
	if (c->retry.tries == 0 && (!c->recovers || c->restarts))
		c->congestion->lost(c, tcp_in_flight(c));
	/* the peer may have dropped what it had behind gaps, and has if there is no gap before it (RFC 2018, 8) */
	if (c->retry.tries > 0 || (recovery_ranges(c) > 0 && c->sacked->range[0].begin == c->snd_una))
		tcp_gaps_take(&c->sacked, c->snd_max);
	c->cwnd = c->mss;
	c->recovers = c->restarts = c->resends = c->sacks;
	c->widened = c->awaits_tail = false;
	c->recover = c->lost_end = c->snd_max;
	c->duplicates = 0;
	if (c->resent != NULL)
		c->resent->count = 0;
	if (!c->sacks)
		c->snd_nxt = c->snd_una;
}

void
tcp_recovery_rested(struct tcp_connection *c)
{
	c->cwnd = recovery_min(c->cwnd, reno_initial(c));
}

/* ---- what is sent again ---- */

bool
tcp_recovery_resend(const struct tcp_connection *c, struct tcp_range *range)
{
	uint32_t window = c->recovers && c->sacks ? recovery_min(c->snd_wnd, c->snd_max - c->snd_una) : 0;

	if (!c->recovers)
		return false;
	if (c->resends) {
		*range = recovery_gap(c, 0);
		return range->begin != range->end;
	}
	/* without a list, or room in it, nothing would be known of what is sent again */
	if (c->resent == NULL || c->resent->count == TCP_RESENT || recovery_pipe(c) >= c->cwnd)
		return false;
	for (unsigned i = 0; i <= recovery_ranges(c); i++) {
		struct tcp_range gap = recovery_gap(c, i);
		uint32_t end = recovery_lost_end(c, gap);

		range->begin = recovery_behind_resent(c, gap.begin);
		if (!tcp_before(range->begin, end) || range->begin - c->snd_una >= window)
			continue;
		for (unsigned j = 0; j < c->resent->count; j++)
			if (tcp_before(range->begin, c->resent->again[j].range.begin) &&
			    tcp_before(c->resent->again[j].range.begin, end))
				end = c->resent->again[j].range.begin;
		range->end = end;
		return true;
	}
	return false;
}

void
tcp_recovery_resent(struct tcp_connection *c, struct tcp_range range, uint64_t now_ns)
{
	unsigned kept = 0;

	c->resends = false;
	if (!c->sacks || (c->resent == NULL && (c->resent = calloc(1, sizeof(*c->resent))) == NULL))
		return;
	for (unsigned i = 0; i < c->resent->count;
	     i++) /* nothing is in the list twice; the oldest goes for lack of room */
		if ((i > 0 || c->resent->count < TCP_RESENT) &&
		    c->resent->again[i].range.begin - range.begin >= range.end - range.begin)
			c->resent->again[kept++] = c->resent->again[i];
	c->resent->again[kept] = (struct tcp_again){ range, c->snd_max, false, now_ns, XK_NEVER };
	c->resent->count = kept + 1;
}

/* ---- the timer ---- */

void
tcp_recovery_begin_timer(struct tcp_connection *c, uint64_t now_ns)
{
	xk_retry_begin(&c->retry, c->round_trip.timeout_ns, now_ns);
	c->tails = false;
	tcp_recovery_tail(c, now_ns);
}

void
tcp_recovery_tail(struct tcp_connection *c, uint64_t now_ns)
{
	uint64_t delay_ns = tcp_in_flight(c) <= c->mss ? TCP_LONE_DELAY_NS : TCP_DELAY_NS;
	uint64_t due_ns = now_ns + UINT64_C(2000) * c->round_trip.us.mean + delay_ns;

	if (c->tails || due_ns >= c->retry.due_ns || !c->sacks || c->awaits_tail || c->probes ||
	    c->round_trip.us.mean == 0 || c->retry.tries > 0)
		return;
	c->tails = true;
	c->retry.due_ns = due_ns;
}
