/* tcp_timer.c - see tcp_private.h: what happens when nothing arrives. */
#include "protocols/tcp/tcp_private.h"

enum { TIMER_DEAF_TIMEOUTS = 3 }; /* of a peer that is heard, but acknowledges nothing new, when buffers are scarce */

/*
 * Returns whether the peer keeps buffers that others need: it has more than its equal share of them, and has not been
 * heard since the last timeout, or has acknowledged nothing new for several (RFC 6429).
 */
static bool
timer_is_deaf(const struct tcp_connection *c)
{
	uint64_t last_ns = c->retry.due_ns - c->retry.timeout_ns;
	unsigned patience = 1;

	if (c->heard_ns >= last_ns)
		patience = TIMER_DEAF_TIMEOUTS;
	return c->queue != NULL && c->retry.tries >= patience && c->sent_ns >= last_ns && tcp_is_scarce(tcp_of(c)) &&
	       xk_share_exceeds(c->kept.share, 0);
}

/* Nothing has acknowledged the oldest byte, or a probe, in time. */
static void
timer_retransmit(struct tcp_connection *c, uint64_t now_ns)
{
	struct tcp *tcp = tcp_of(c);
	bool opens = c->state == TCP_SYN_SENT || c->state == TCP_SYN_RECEIVED;
	uint64_t patience_ns = opens ? tcp->open_patience_ns : tcp->patience_ns;

	if (now_ns - c->retry.begun_ns >= patience_ns) {
		xk_count(&tcp->protocol, TCP_TIMED_OUT);
		tcp_end(c, -ETIMEDOUT);
		return;
	}
	if (timer_is_deaf(c)) {
		xk_count(&tcp->protocol, TCP_DEAF);
		c->resets = true;
		tcp_end(c, -ETIMEDOUT);
		return;
	}
	if (c->tails) { /* in place of the timeout, which is due later */
		c->tails = false;
		c->probes_tail = c->snd_una != c->snd_max && c->snd_wnd > 0;
		c->retry.due_ns = (c->probes_tail ? now_ns : c->retry.begun_ns) + c->retry.timeout_ns;
		return;
	}
	xk_unanswered(c->session.lls);
	if (opens) {
		c->snd_nxt = c->iss;
	} else if (c->probes || c->snd_wnd == 0) { /* it may have been closed on what is in flight */
		c->probes = true;
		xk_count(&tcp->protocol, TCP_PROBES);
		c->forces = true;
	} else {
		xk_count(&tcp->protocol, TCP_TIMEOUTS);
		tcp_recovery_timed_out(c);
	}
	xk_round_trip_timed_out(&c->round_trip, &c->retry, &tcp->timeouts, now_ns);
}

/* Nothing has come for long: the peer's FIN after our close, or anything at all. */
static void
timer_idle(struct tcp_connection *c, uint64_t now_ns)
{
	uint64_t keep_ns = tcp_of(c)->keep_alive_ns;

	if (c->state == TCP_FIN_WAIT_2 && c->is_closed) {
		tcp_end(c, 0);
		return;
	}
	c->idle_due_ns = XK_NEVER;
	if (keep_ns == 0 || c->state < TCP_ESTABLISHED)
		return;
	c->idle_due_ns = c->heard_ns + keep_ns;
	if (now_ns < c->idle_due_ns)
		return;
	if (now_ns >= c->heard_ns + keep_ns + tcp_of(c)->patience_ns) {
		xk_count(c->session.protocol, TCP_TIMED_OUT);
		tcp_end(c, -ETIMEDOUT);
		return;
	}
	xk_count(c->session.protocol, TCP_PROBES);
	c->asks = true;
	c->idle_due_ns = now_ns + c->round_trip.timeout_ns;
}

void
tcp_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct tcp_connection *c = xk_container_of(alarm, struct tcp_connection, alarm);

	if (c->state != TCP_ENDED && now_ns >= tcp_recovery_due_ns(c))
		tcp_recovery_judge(c, now_ns);
	if (c->state != TCP_ENDED && now_ns >= c->retry.due_ns)
		timer_retransmit(c, now_ns);
	if (c->state != TCP_ENDED && now_ns >= c->ack_due_ns) {
		c->acks = true;
		c->ack_due_ns = XK_NEVER;
	}
	if (c->state != TCP_ENDED && now_ns >= c->idle_due_ns)
		timer_idle(c, now_ns);
	tcp_finish(c, true);
}
