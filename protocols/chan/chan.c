/*
 * chan.c - request and reply, at most once, over anything that carries messages to known incarnations of hosts (BID). Here is
 * the header, and whom a message is for; the two ends of a channel are in chan_client.c and chan_server.c, where their
 * state machines are drawn, what is known of a host in chan_peer.c, and how clients share channels in chan_share.c.
 *
 * Promise:      A call ends once: with the reply of the server's handler to this call, or with an error, by its deadline. Within
 *               one boot of client and server the handler runs for it at most once, whatever is lost, repeated, reordered or
 *               late on the way; exactly once where the call ends with a reply. A request never reaches another boot of the
 *               server than the one the channel was opened to, and no reply another boot of the client. Handlers of one
 *               channel run one after the other. (Assumed: BID keeps its promise; no message is longer under way than half of the
 *               server's `lifetime`, or than 2^31 calls of its channel.)
 * Spec:         the x-kernel's CHAN (O'Malley and Peterson, "A dynamic network architecture", 1992), but for the header:
 *
 *                0             4             6             8             12            16             20
 *               +-------------+------+------+-------------+-------------+-------------+
 *               | channel     | flags|status| protocol    | sequence    | length      |  payload ...
 *               +-------------+------+------+-------------+-------------+-------------+
 *
 *               flags: FROM_CLIENT 1, USER_MSG 2 (request or reply, not only about one), ACK_REQUESTED 4, NEGATIVE_ACK 8
 *               ("send it again"), ERROR 16 (status is why; with USER_MSG the handler said so, without it none has run). Of
 *               a request that is sent again, status is the age of the call: 11 bits of microseconds, times two to the power
 *               of the upper 5.
 * Participants: none of its own: what is given to open goes on to BID. Channels are numbered by CHAN.
 * Sessions:     Each open gives another channel, for one call at a time (a second: -EBUSY). The number of a closed channel is
 *               used again at once, by the next open to that host for that protocol, so that a server remembers no more
 *               channels than were open at a time. Its sequence goes on: what is left of its calls is older than the next one,
 *               whose request also acknowledges the reply that the server still keeps. A number whose last call was given up
 *               keeps the promise likewise, but its next call might wait for the handler of that one: it rests for `lifetime`,
 *               unless the reply comes before it is closed. A server's session appears with
 *               the first request of a channel, and is kept until nothing was heard of it for `lifetime`, even when nobody
 *               is willing to serve any more: it is what knows which calls were run. A request that says that its call is
 *               older than half of that makes no session, and is answered with an error: it may have been run, whatever
 *               `silence` its client has been given.
 *               When `channels` are in use, a client with more than its share loses one to a client with less; the
 *               number and sequence of that channel are remembered for `lifetime`. If no client has more than its
 *               share, the new channel takes the place of an idle one of its own client, or is refused.
 * Calls:        xk_call parks its shepherd, xk_call_async tells done; both are the same machine. A handler is call_demux above,
 *               on the shepherd that brought the request. An error that it returns is the caller's, too; what could be
 *               taken for one of CHAN's own reaches it as -EREMOTEIO.
 * Errors:       -ETIMEDOUT (the deadline has come; or nobody has answered for `silence`; or the server has given up the reply),
 *               -ECONNRESET (the server has been booted again, or is lost to BIDCTL: the channel is of no use any more, open
 *               another), -ECONNREFUSED (nobody has enabled the protocol there, or too many have called), -EBUSY, -EMSGSIZE,
 *               -ENOBUFS, -ECANCELED (aborted, or the kernel stops); as xk_semaphore_wait where the caller could not wait.
 *               After any but -ECONNREFUSED and -EBUSY, -EMSGSIZE, -ENOBUFS the call may have been run, or may yet be.
 * Retransmission: A client sends its request again after `timeout`, later after what round trips have taken (Jacobson, 1988;
 *               Karn, 1987), handler included; then after twice that, and so on. What does not fit one packet is asked for
 *               first, by a header alone, as is a server that has said it has the request. A server sends a reply again
 *               likewise, `retries` times, until the next request or an explicit ack says that it has arrived.
 * Amplification: A timer repeats a message three times at most, and then sends headers alone; the other end answers if
 *               it lacks the message. Timers and questions together repeat a message eight times at most. In each
 *               minute, repeats to a host are at most three times the bytes sent to it for the first time: a client
 *               that acknowledges nothing gets four times its replies. Questions beyond that are answered by an ack.
 * Differs:      from the original, which had no deadlines, no limit of retries, no wrap of sequence numbers, no bounds of what
 *               a server remembers, and timers of seconds: a server that has replied answers a request that comes again with
 *               the reply at once, so that a lost one need not wait for the server's timer; a client goes on asking a server
 *               that has acknowledged; a new request ends the old one's claim to a reply, is asked for when the handler is
 *               done, and has no handler beside it; errors are carried. Channels begin at a random number in each boot.
 *               Whatever is asked for again sooner than half of timeout_min is not sent (a little later if it is long).
 * Waiting:      Only who calls may have to wait below (BLAST, for room to keep a copy). What a message or the timer causes does
 *               not: it is lost then, and sent again.
 * Tickets:      A ticket goes with what may be kept below (ticket.h), and is released when the other end has it; while its
 *               keeper tries by itself, CHAN sends the same again only when it was asked for twice.
 * Control:      XK_CHAN_... (chan.h); the session below answers the others
 * Settings:     timeout, timeout_min, timeout_max, deadline, silence, retries, lifetime; channels, hosts,
 *               peer_channels, saved, peer_saved, idle
 * Drops:        bad_length, bad_flags; no_session; stale (an old request), duplicate (the latest one again), busy (a newer one
 *               while it runs; a second call on a channel), unasked (a reply to no call that waits), too_many (channels of
 *               servers), old_boot (a request of a boot of the client that is over), too_soon (a question after what was sent
 *               just now), refused (by open_done); of what is pushed too_big, closed (to a server that is no more)
 * Counters:     of a client called, retransmitted, probed, timed_out, reset; of a server executed, failed (handlers that
 *               returned an error), repeated (replies), rejected (requests), abandoned and suppressed (replies that nobody wants:
 *               a newer request has come; the client is no more), unsaved (replies that were not kept: too many), given_up
 *               (replies that nobody acknowledged), forgotten (channels); of both acked and asked (explicit acks and negative
 *               ones that were sent), withheld (messages that were asked for, but sent too often already); of a server
 *               evicted (channels that made room for another client's)
 * Boots:        Messages may wait between CHAN and BID, for a thread, say, while another boot is told of. So each request and
 *               reply goes down with the boot that it is for, and a request that finds no channel comes up with the one that
 *               it is from, which must be the one that BIDCTL has told of last (XK_FOR_BOOT, XK_FROM_BOOT).
 * Graph:        chan -> bid, chan -> bidctl
 */
#include <errno.h>
#include <stdlib.h>

#include "protocols/chan/chan_private.h"
#include "xkernel/bytes.h"
#include "xkernel/trace.h"

/* ---- the header ---- */

enum {
	CHAN_AT_CHANNEL = 0, /* and flags, and status */
	CHAN_AT_NUMBER = 8,  /* and sequence */
	CHAN_AT_LENGTH = 16,
};

static_assert(CHAN_AT_LENGTH + 4 == CHAN_HEADER_LEN, "the header ends with its last field");

enum { CHAN_PACKETS = 8 }; /* go in the time in which one may be asked for again */

/* Which flags go together: by their five bits. */
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

static const struct xk_field chan_fields[] = {
	{ .name = "channel", .bits = 32, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HEX },
	{ .name = "reserved", .bits = 11, .kind = XK_FIXED },
	{ .name = "flags", .bits = 4, .kind = XK_VARIES, .is_bits = true, .values = chan_flag_names },
	{ .name = "from_client", .bits = 1, .kind = XK_NAMES_SESSION },
	{ .name = "status", .bits = 16, .kind = XK_VARIES, .help = "an error; of a request that comes again, its age" },
	{ .name = "protocol", .bits = 32, .kind = XK_NAMES_SESSION, .is_upper = true, .help = "the protocol above" },
	{ .name = "sequence", .bits = 32, .kind = XK_VARIES },
	{ .name = "length", .bits = 32, .kind = XK_LENGTH, .covers = XK_COVERS_PAYLOAD },
	{ .name = NULL },
};

/*
 * Takes the header off m, cuts off what is not the message's, and checks it. 0, or why no honest sender has made this: the
 * reason to drop m.
 */
static inline unsigned
chan_header_pop(struct chan_header *h, struct xk_msg *m)
{
	uint64_t first = xk_get64(m->data + CHAN_AT_CHANNEL), second = xk_get64(m->data + CHAN_AT_NUMBER);
	size_t length = xk_get32(m->data + CHAN_AT_LENGTH);
	bool has_age, is_error;

	h->channel = (uint32_t)(first >> 32);
	h->flags = (uint16_t)(first >> 16);
	h->status = (uint16_t)first;
	h->number = (uint32_t)(second >> 32);
	h->sequence = (uint32_t)second;
	if (xk_unlikely(length > xk_msg_len(m) - CHAN_HEADER_LEN))
		return CHAN_BAD_LENGTH;
	xk_msg_pop_in_place(m, CHAN_HEADER_LEN);
	xk_msg_truncate(m, length);
	if (xk_unlikely(h->flags > 31 || !(CHAN_FLAGS_POSSIBLE >> h->flags & 1)))
		return CHAN_BAD_FLAGS;
	is_error = (h->flags & CHAN_ERROR) != 0;
	has_age = (h->flags & (CHAN_FROM_CLIENT | CHAN_USER_MSG)) == (CHAN_FROM_CLIENT | CHAN_USER_MSG);
	if (xk_unlikely(!has_age && (is_error != (h->status != 0) || h->status > CHAN_STATUS_MAX)))
		return CHAN_BAD_FLAGS;
	return length != 0 && (!(h->flags & CHAN_USER_MSG) || is_error) ? CHAN_BAD_LENGTH : 0;
}

static inline void
chan_header_store(uint8_t *p, const struct chan_header *h, size_t length)
{
	xk_put64(p + CHAN_AT_CHANNEL, (uint64_t)h->channel << 32 | (uint32_t)h->flags << 16 | h->status);
	xk_put64(p + CHAN_AT_NUMBER, (uint64_t)h->number << 32 | h->sequence);
	xk_put32(p + CHAN_AT_LENGTH, (uint32_t)length);
}

/* ---- sending ---- */

/* Stores m's header, for which it has room, and names the boot that e is of: m goes to no other. */
static inline void
chan_send_prepare(const struct chan_end *e, struct xk_msg *m, uint32_t sequence, unsigned flags, unsigned status)
{
	struct chan_header h = { e->channel, e->number, sequence, (uint16_t)flags, (uint16_t)status };

	chan_header_store(m->data, &h, xk_msg_len(m) - CHAN_HEADER_LEN);
	if (xk_likely(e->boot != 0))
		xk_msg_annotate(m, XK_OF_MESSAGE, XK_FOR_BOOT, e->boot);
}

/* What may be kept below goes with a ticket, which is kept here as long as it is of interest. */
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
	if (e->copied && e->sequence == sequence) {
		struct xk_ticket before = e->ticket;

		e->ticket = ticket;
		ticket = before;
	}
	xk_unlock(&e->lock);
	xk_ticket_release(&ticket);
}

/*
 * What is lost here for want of a buffer, or below, is sent again by the timer, like what is lost on its way. Nobody below
 * keeps what fits one packet.
 */
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

void
chan_answer(struct xk_protocol *self, struct xk_session *lls, const struct chan_header *h, uint32_t sequence,
	    unsigned flags, unsigned status)
{
	unsigned direction = ~h->flags & CHAN_FROM_CLIENT;
	struct chan_header answer = { h->channel, h->number, sequence, (uint16_t)(flags | direction),
				      (uint16_t)status };
	struct xk_msg *m = xk_msg_new(xk_platform_of(self), CHAN_HEADER_LEN);

	xk_count(self, flags == 0 ? CHAN_ACKED : (flags & CHAN_NEGATIVE_ACK) ? CHAN_ASKED : CHAN_REJECTED);
	if (m == NULL)
		return;
	chan_header_store(m->data, &answer, 0);
	xk_push(lls, m);
}

/* ---- what both ends do ---- */

int
chan_end_init(struct chan_end *e, xk_event_handler *expire, uint32_t number, uint64_t boot)
{
	struct xk_session *s = &e->session;
	struct xk_protocol *self = s->protocol;
	int err = xk_control(s, XK_GET_MAX_PACKET, &e->max_packet, sizeof(e->max_packet));
	int whole = xk_control(s, XK_GET_OPT_PACKET, &e->opt_packet, sizeof(e->opt_packet));

	e->number = number;
	e->timeout_ns = ((struct chan *)self)->timeout_ns;
	xk_event_init(&e->timer, self->kernel, expire, e);
	xk_lock_init(&e->lock, self);
	if (err < 0 || whole == -EMSGSIZE)
		return err < 0 ? err : whole;
	if (whole < 0)
		e->opt_packet = e->max_packet;
	err = chan_peer_join(e, boot);
	if (err != 0)
		return err;
	return xk_session_bind(s, &self->table.sessions, chan_key(s->lls, number, e->channel, e->is_server));
}

bool
chan_end_is_being_sent(const struct chan_end *e, uint64_t now_ns)
{
	return e->ticket.keeper != NULL && now_ns < e->sent_ns + e->ticket.keeps_us * 1000;
}

bool
chan_end_may_wait(struct chan_end *e, uint64_t now_ns)
{
	if (e->asked || !chan_end_is_being_sent(e, now_ns))
		return false;
	e->asked = true;
	return true;
}

/* An honest one asks after timeout_min at least; what goes in many packets it gets less often. */
bool
chan_end_is_too_soon(const struct chan_end *e, uint64_t now_ns)
{
	uint64_t packets = e->opt_packet == 0 ? 0 : e->copy.len / e->opt_packet;

	return now_ns < e->sent_ns + chan_of(e)->timeout_min_ns / 2 * (1 + packets / CHAN_PACKETS);
}

bool
chan_end_may_repeat(struct chan_end *e, unsigned most, uint64_t now_ns)
{
	if (e->repeats >= most || !chan_peer_may_repeat(e->peer, e->copy.len + CHAN_HEADER_LEN, now_ns))
		return false;
	e->repeats++;
	return true;
}

static uint64_t
chan_end_clamp(const struct chan *chan, uint64_t timeout_ns)
{
	if (timeout_ns < chan->timeout_min_ns)
		return chan->timeout_min_ns;
	return timeout_ns < chan->timeout_max_ns ? timeout_ns : chan->timeout_max_ns;
}

void
chan_end_measure(struct chan_end *e, uint64_t sample_ns)
{
	uint32_t sample = (uint32_t)(sample_ns / 1000 < UINT32_MAX / 16 ? sample_ns / 1000 : UINT32_MAX / 16) + 1;

	if (xk_unlikely(e->srtt_us == 0)) {
		e->srtt_us = sample;
		e->dev_us = sample / 2;
	} else {
		int32_t error = (int32_t)(sample - e->srtt_us);

		e->srtt_us += (uint32_t)(error / 8);
		e->dev_us += (uint32_t)(((error < 0 ? -error : error) - (int32_t)e->dev_us) / 4);
	}
	e->timeout_ns = chan_end_clamp(chan_of(e), (e->srtt_us + UINT64_C(4) * e->dev_us) * 1000);
}

void
chan_end_back_off(struct chan_end *e, uint64_t now_ns)
{
	e->tries++;
	e->timeout_ns = chan_end_clamp(chan_of(e), e->timeout_ns * 2);
	e->due_ns = now_ns + e->timeout_ns;
}

/* ---- the timer: messages seldom move it, it looks what is due when it fires ---- */

static void
chan_end_schedule(struct chan_end *e, uint64_t at_ns, uint64_t now_ns)
{
	e->fires_ns = at_ns;
	xk_event_schedule(&e->timer, at_ns <= now_ns ? 1 : (at_ns - now_ns + 999) / 1000);
}

bool
chan_end_wake_sooner(struct chan_end *e, uint64_t at_ns, uint64_t now_ns)
{
	/* one that runs will look again: it has not had the lock yet */
	if (e->timing && xk_event_cancel(&e->timer) != XK_EVENT_CANCELLED)
		return true;
	if (!e->timing && !xk_duplicate(&e->session))
		return false;
	e->timing = true;
	chan_end_schedule(e, at_ns, now_ns);
	return true;
}

void
chan_end_wake_again(struct chan_end *e, uint64_t at_ns, uint64_t now_ns)
{
	e->timing = xk_duplicate(&e->session);
	if (e->timing)
		chan_end_schedule(e, at_ns, now_ns);
}

/* Nothing can be said without a reply. */
int
chan_end_push(struct xk_session *session, struct xk_msg *m)
{
	xk_drop(session->protocol, m, XK_DROP_UNEXPECTED);
	return -EOPNOTSUPP;
}

/* ---- init and fini ---- */

struct chan_gathered {
	struct chan_end **list;
	size_t count;
};

static void
chan_gather(void *object, void *context)
{
	struct chan_gathered *ends = context;

	ends->list[ends->count++] = object;
}

static int
chan_compare(const void *a, const void *b)
{
	const struct chan_end *x = *(struct chan_end *const *)a, *y = *(struct chan_end *const *)b;
	const uint32_t mine[] = { x->peer->host, x->number, x->channel },
		       its[] = { y->peer->host, y->number, y->channel };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(mine); i++)
		if (mine[i] != its[i])
			return mine[i] < its[i] ? -1 : 1;
	return 0;
}

/*
 * No timer fires any more. In an order that does not come from where the ends lie in memory, so that a simulated host ends the
 * same way each time.
 */
static void
chan_forget_all(struct chan *chan)
{
	struct xk_map *sessions = &chan->protocol.table.sessions;
	struct chan_gathered ends = { calloc(xk_map_count(sessions) + 1, sizeof(struct chan_end *)), 0 };

	if (ends.list == NULL)
		return; /* what is leaked here is told by the host that ends */
	xk_map_for_each(sessions, chan_gather, &ends);
	qsort(ends.list, ends.count, sizeof(struct chan_end *), chan_compare);
	for (size_t i = 0; i < ends.count; i++)
		if (xk_event_cancel(&ends.list[i]->timer) == XK_EVENT_CANCELLED)
			xk_session_release(&ends.list[i]->session);
	free(ends.list);
}

static void
chan_fini(struct xk_protocol *self)
{
	struct chan *chan = (struct chan *)self;

	xk_event_cancel(&chan->forget);
	chan_forget_all(chan);
	chan_peer_fini(chan);
}

static int
chan_init(struct xk_protocol *self)
{
	struct chan *chan = (struct chan *)self;
	struct xk_participants anybody = { .remote.depth = 0 };
	int err;

	if (chan->timeout_min_ns > chan->timeout_ns || chan->timeout_ns > chan->timeout_max_ns ||
	    chan->timeout_max_ns > chan->silence_ns || chan->lifetime_ns < 2 * chan->silence_ns)
		return -EINVAL;
	xk_lock_init(&chan->lock, self);
	xk_event_init(&chan->forget, self->kernel, chan_share_expire, chan);
	err = chan_peer_init(chan);
	if (err != 0)
		return err;
	chan->next_channel = (uint32_t)xk_random(self);
	err = xk_open_enable(self, self, xk_lower(self, 0), &anybody);
	if (err != 0) {
		chan_peer_fini(chan);
		return err;
	}
	chan->watcher.protocol = self;
	chan->watcher.changed = chan_peer_changed;
	xk_bidctl_watch(xk_lower(self, 1), &chan->watcher);
	return 0;
}

/* ---- up ---- */

/* m came to no end: a new one, or a word that there is none. NULL: m was dropped. */
XK_APART static struct xk_session *
chan_accept(struct chan *chan, struct xk_session *lls, struct xk_msg *m, const struct chan_header *h)
{
	if (h->flags & CHAN_FROM_CLIENT)
		return chan_server_accept(chan, lls, m, h);
	if (h->flags & CHAN_ACK_REQUESTED)
		chan_answer(&chan->protocol, lls, h, h->sequence + 1, 0, 0); /* nobody waits for that reply any more */
	xk_drop(&chan->protocol, m, XK_DROP_NO_SESSION);
	return NULL;
}

static void
chan_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct chan_header h;
	struct xk_session *s;
	unsigned why = chan_header_pop(&h, m);

	if (xk_unlikely(why != 0)) {
		xk_drop(self, m, why);
		return;
	}
	s = xk_table_find(self, chan_key(lls, h.number, h.channel, h.flags & CHAN_FROM_CLIENT));
	if (xk_unlikely(s == NULL) && (s = chan_accept((struct chan *)self, lls, m, &h)) == NULL)
		return;
	xk_pop(s, lls, m, &h);
}

/* ---- tables ---- */

static const struct xk_protocol_ops chan_ops = {
	.init = chan_init,
	.fini = chan_fini,
	.open = chan_client_open,
	.demux = chan_demux,
};

static const struct xk_role chan_lowers[] = {
	{ "transport", XK_ASYNC, NULL, "carries messages to hosts that have not been booted again meanwhile: bid" },
	{ "bidctl", XK_CONTROL, "bidctl", "tells of hosts that have been booted again" },
	{ NULL, 0, NULL, NULL },
};

#define CHAN_HOUR_NS UINT64_C(3600000000000)

static const struct xk_setting chan_settings[] = {
	{ "timeout", XK_SETTING_TIME, offsetof(struct chan, timeout_ns), "200ms",
	  "after this without an answer a request or reply is sent again, until round trips were measured", 1000,
	  CHAN_HOUR_NS },
	{ "timeout_min", XK_SETTING_TIME, offsetof(struct chan, timeout_min_ns), "10ms",
	  "the shortest that measuring makes of it", 1000, CHAN_HOUR_NS },
	{ "timeout_max", XK_SETTING_TIME, offsetof(struct chan, timeout_max_ns), "2s",
	  "the longest that measuring and doubling make of it; how often a server at work is asked", 1000,
	  CHAN_HOUR_NS },
	{ "deadline", XK_SETTING_TIME, offsetof(struct chan, deadline_ns), "60s",
	  "what a call may take, unless its caller says otherwise", 1000, 24 * CHAN_HOUR_NS },
	{ "silence", XK_SETTING_TIME, offsetof(struct chan, silence_ns), "20s",
	  "after this without any answer a call is given up", 1000, CHAN_HOUR_NS },
	{ "retries", XK_SETTING_UINT, offsetof(struct chan, retries), "8",
	  "how often a server asks whether a reply has arrived before it is given up", 0, 1000 },
	{ "lifetime", XK_SETTING_TIME, offsetof(struct chan, lifetime_ns), "120s",
	  "how long a server remembers a channel that it hears nothing of; at least twice silence", 1000,
	  24 * CHAN_HOUR_NS },
	{ "channels", XK_SETTING_UINT, offsetof(struct chan, channels), "65536",
	  "channels of a server, in equal shares when all are in use", 1, 1 << 30 },
	{ "hosts", XK_SETTING_UINT, offsetof(struct chan, hosts), "2048",
	  "clients that take all channels with one channel each; less than bidctl.peers", 1, 1 << 30 },
	{ "peer_channels", XK_SETTING_UINT, offsetof(struct chan, peer_channels), "1024", "... of one client", 1,
	  1 << 30 },
	{ "saved", XK_SETTING_UINT, offsetof(struct chan, saved_max), "8m",
	  "bytes of buffers of replies that a server keeps until they have arrived; of one network half of it", 0,
	  UINT64_C(1) << 40 },
	{ "peer_saved", XK_SETTING_UINT, offsetof(struct chan, peer_saved_max), "4m", "... of one client", 0,
	  UINT64_C(1) << 40 },
	{ "idle", XK_SETTING_UINT, offsetof(struct chan, idle_max), "4096",
	  "numbers of closed channels that a client keeps to use them again; half of them may rest", 0, 1 << 30 },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const char *const chan_drops[] = { "bad_length", "bad_flags", "stale",  "duplicate", "busy",     "unasked",
					  "too_many",   "too_big",   "closed", "old_boot",  "too_soon", NULL };

static const char *const chan_counters[] = { "called",    "retransmitted", "probed",     "timed_out", "reset",
					     "executed",  "failed",        "repeated",   "acked",     "asked",
					     "rejected",  "abandoned",     "suppressed", "unsaved",   "given_up",
					     "forgotten", "withheld",      "evicted",    NULL };

static const struct xk_number_on chan_numbers[] = {
	{ "bid", 102 }, { "blast", 0x3003 }, { "eth", 0x3003 }, { "ip", 102 }, { NULL, 0 }
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
	.lowers = chan_lowers,
	.numbers = chan_numbers,
	.number_max = UINT32_MAX,
	.settings = chan_settings,
	.drops = chan_drops,
	.counters = chan_counters,
};
