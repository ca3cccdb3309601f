/*
 * tcp_strangers.c - see tcp_private.h: segments that belong to no connection.
 *
 * LISTEN        A SYN to an enabled port is answered and remembered in limbo, for a few repetitions of the answer. Its
 *               acknowledgement makes the connection. If limbo is full, the SYN is answered by a cookie: an initial
 *               number that says the same (Bernstein 1996; RFC 4987, 3.6), with scale and SACK in the time stamp.
 * TIME-WAIT     The numbers of a connection that this end has closed are kept for `time_wait`, in order to acknowledge
 *               the peer's FIN again, and to keep a new connection between the same ends apart from old segments. A SYN
 *               with a later number begins a new one at once (RFC 9293, 3.10.7.4).
 * the rest      is answered by a RST.
 *
 * All of this is found by both ends' hosts and ports, under one lock; nothing is sent while it is held.
 */
#include <stdlib.h>
#include <sys/queue.h>

#include "protocols/tcp/tcp_private.h"
#include "xkernel/siphash.h"

enum {
	STRANGERS_TICK_US = 200000,
	STRANGERS_BATCH = 16,
	STRANGERS_COOKIE_MINUTES = 2, /* how long a cookie is good */
	STRANGERS_INFO = 63,          /* bits of a cookie's time stamp that hold options */
};

/* Longest segments that a cookie can tell apart. */
static const uint16_t strangers_mss[8] = { 216, 536, 1024, 1220, 1400, 1448, 4312, 8948 };

/* An open in progress, or a connection in TIME-WAIT. */
struct tcp_stranger_entry {
	struct xk_binding binding; /* first: by hosts and ports */
	TAILQ_ENTRY(tcp_stranger_entry) beside;
	uint64_t due_ns; /* when its answer is repeated, or when it is forgotten */
	bool is_waiting; /* in TIME-WAIT */
	uint32_t snd_nxt, rcv_nxt, stamp;
	bool has_stamp;
	/* in limbo */
	unsigned tries;
	struct xk_session *lls; /* a reference */
	struct tcp_how how;
};

TAILQ_HEAD(tcp_stranger_list, tcp_stranger_entry);

struct tcp_strangers {
	struct xk_lock lock;
	struct xk_map map;
	struct tcp_stranger_list limbo, waiting; /* oldest first */
	uint64_t limbo_count, waiting_count;
	_Atomic uint64_t cookies_until_ns; /* until then, acknowledgements may be those of cookies */
	struct xk_event tick;
	bool is_ticking;
};

/* ---- ends ---- */

/* Returns the key of a connection, from a header that it receives. */
static struct xk_key
strangers_key(struct xk_session *lls, const uint8_t *p)
{
	uint64_t remote = 0, local = 0;

	xk_control(lls, XK_GET_PEER_HOST, &remote);
	xk_control(lls, XK_GET_MY_HOST, &local);
	return (struct xk_key){ remote << 32 | (uint32_t)local,
				(uint64_t)XK_GET(tcp, source, p) << 16 | XK_GET(tcp, destination, p) };
}

static uint64_t
strangers_hash(const struct tcp *tcp, struct xk_key ends, uint64_t more)
{
	return siphash(tcp->key, ends.a, siphash(tcp->key, ends.b, more));
}

uint32_t
tcp_initial(struct tcp *tcp, struct xk_session *lls, const uint8_t *p)
{
	return (uint32_t)(xk_now_ns(&tcp->protocol) / 4000 + strangers_hash(tcp, strangers_key(lls, p), 0));
}

/* ---- entries; the lock is held ---- */

static void
strangers_tick_on(struct tcp *tcp)
{
	struct tcp_strangers *all = tcp->strangers;

	if (!all->is_ticking)
		xk_event_schedule(&all->tick, STRANGERS_TICK_US);
	all->is_ticking = true;
}

static void
strangers_remove(struct tcp *tcp, struct tcp_stranger_entry *entry)
{
	struct tcp_strangers *all = tcp->strangers;

	xk_map_unbind(&all->map, &entry->binding);
	if (entry->is_waiting) {
		TAILQ_REMOVE(&all->waiting, entry, beside);
		all->waiting_count--;
	} else {
		TAILQ_REMOVE(&all->limbo, entry, beside);
		all->limbo_count--;
	}
}

/* Adds an entry. Returns false, and frees it, if there is no memory, or another one has its key. */
static bool
strangers_add(struct tcp *tcp, struct tcp_stranger_entry *entry, struct xk_key key)
{
	struct tcp_strangers *all = tcp->strangers;

	if (xk_map_bind(&all->map, &entry->binding, key, entry) != 0) {
		free(entry);
		return false;
	}
	if (entry->is_waiting) {
		TAILQ_INSERT_TAIL(&all->waiting, entry, beside);
		all->waiting_count++;
	} else {
		TAILQ_INSERT_TAIL(&all->limbo, entry, beside);
		all->limbo_count++;
	}
	xk_count(&tcp->protocol, entry->is_waiting ? TCP_WAITING : TCP_LIMBO);
	strangers_tick_on(tcp);
	return true;
}

/* ---- TIME-WAIT ---- */

void
tcp_strangers_wait(struct tcp_connection *c)
{
	struct tcp *tcp = tcp_of(c);
	struct tcp_strangers *all = tcp->strangers;
	struct tcp_stranger_entry *entry = calloc(1, sizeof(*entry)), *oldest = NULL;
	uint8_t p[TCP_HEADER_LEN] = { 0 };

	if (entry == NULL)
		return; /* the peer's FIN, if it comes again, is answered by a RST */
	XK_PUT(tcp, source, p, XK_GET(tcp, destination, c->session.sends.header));
	XK_PUT(tcp, destination, p, XK_GET(tcp, source, c->session.sends.header));
	entry->is_waiting = true;
	entry->snd_nxt = c->snd_end + 1;
	entry->rcv_nxt = c->rcv_nxt;
	entry->has_stamp = c->stamps;
	entry->stamp = c->stamp_recent;
	entry->how.stamp_offset = c->stamp_offset;
	entry->due_ns = xk_now_ns(&tcp->protocol) + tcp->time_wait_ns;
	xk_lock(&all->lock);
	if (all->waiting_count >= tcp->waiting_max) {
		oldest = TAILQ_FIRST(&all->waiting);
		strangers_remove(tcp, oldest);
	}
	strangers_add(tcp, entry, strangers_key(c->session.lls, p));
	xk_unlock(&all->lock);
	free(oldest);
}

bool
tcp_strangers_waits(struct tcp *tcp, struct xk_session *lls, const uint8_t *p)
{
	struct tcp_strangers *all = tcp->strangers;
	const struct tcp_stranger_entry *entry;
	struct xk_key key = strangers_key(lls, p);
	bool waits;

	xk_lock(&all->lock);
	entry = xk_map_resolve(&all->map, key);
	waits = entry != NULL && entry->is_waiting;
	xk_unlock(&all->lock);
	return waits;
}

/*
 * A segment for a connection in TIME-WAIT. Returns 0: it is to be acknowledged again; TCP_TOO_LATE: it is not; or
 * XK_DROP_TAKEN: it begins a new connection, and the entry is to be removed.
 */
static unsigned
strangers_waited(struct tcp *tcp, struct tcp_stranger_entry *entry, const struct tcp_segment *segment)
{
	bool is_later =
		tcp_before(entry->rcv_nxt - 1, segment->sequence) ||
		(entry->has_stamp && segment->options.has_stamp && tcp_before(entry->stamp, segment->options.stamp));

	if ((segment->flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN && is_later)
		return XK_DROP_TAKEN;
	if ((segment->flags & TCP_RST) || segment->end == segment->sequence) /* RFC 1337; and no storm of answers */
		return TCP_TOO_LATE;
	if (segment->flags & TCP_FIN) {
		entry->due_ns = xk_now_ns(&tcp->protocol) + tcp->time_wait_ns;
		TAILQ_REMOVE(&tcp->strangers->waiting, entry, beside);
		TAILQ_INSERT_TAIL(&tcp->strangers->waiting, entry, beside);
	}
	return 0;
}

/* ---- answers ---- */

static void
strangers_answer(struct tcp *tcp, struct xk_session *lls, const struct tcp_how *how, uint32_t stamp)
{
	const struct tcp_options *peer = &how->options;
	uint32_t below = TCP_MSS_DEFAULT + TCP_HEADER_LEN;
	struct tcp_options options = { .has_scale = peer->has_scale && tcp->use_scale,
				       .scale = tcp->scale,
				       .has_sack_permitted = peer->has_sack_permitted && tcp->use_sack,
				       .has_stamp = peer->has_stamp && tcp->use_stamps,
				       .stamp = stamp,
				       .echo = peer->stamp };
	struct tcp_reply reply = { .source = XK_GET(tcp, destination, how->p),
				   .destination = XK_GET(tcp, source, how->p),
				   .sequence = how->iss,
				   .acknowledgement = how->irs + 1,
				   .flags = TCP_SYN | TCP_ACK,
				   .window = (uint16_t)(tcp->receive_max < UINT16_MAX ? tcp->receive_max : UINT16_MAX),
				   .options = &options };

	xk_control(lls, XK_GET_OPT_PACKET, &below);
	options.has_mss = true;
	options.mss = (uint16_t)(below - TCP_HEADER_LEN < UINT16_MAX ? below - TCP_HEADER_LEN : UINT16_MAX);
	tcp_reply(&tcp->protocol, lls, &reply);
}

static uint32_t
strangers_stamp(const struct tcp *tcp, const struct tcp_how *how)
{
	return (uint32_t)(xk_now_ns(&tcp->protocol) / 1000000) + how->stamp_offset;
}

/* ---- cookies ---- */

static uint32_t
strangers_cookie(const struct tcp *tcp, struct xk_key ends, uint32_t irs, uint32_t minute, unsigned mss)
{
	uint32_t head = (minute & 31) << 3 | mss;

	return head << 24 | (strangers_hash(tcp, ends, (uint64_t)head << 32 | irs) & 0xffffff);
}

/* Returns the number to answer a SYN with, if the answer is not remembered. */
static uint32_t
strangers_cookie_now(const struct tcp *tcp, const struct tcp_how *how, struct xk_key ends)
{
	uint32_t minute = (uint32_t)(xk_now_ns(&tcp->protocol) / UINT64_C(60000000000));
	unsigned mss = XK_ARRAY_LENGTH(strangers_mss) - 1;

	while (mss > 0 && strangers_mss[mss] > how->options.mss)
		mss--;
	return strangers_cookie(tcp, ends, how->irs, minute, mss);
}

/* Answers a SYN without remembering it. */
static void
strangers_send_cookie(struct tcp *tcp, struct xk_session *lls, struct tcp_how *how, struct xk_key ends)
{
	uint32_t info =
		(how->options.has_scale ? how->options.scale : 15u) | (how->options.has_sack_permitted ? 16u : 0);
	uint32_t exact = strangers_stamp(tcp, how), stamp = (exact & ~(uint32_t)STRANGERS_INFO) | info;

	how->iss = strangers_cookie_now(tcp, how, ends);
	if (!how->options.has_stamp || !tcp->use_stamps) /* which alone can hold them */
		how->options.has_scale = how->options.has_sack_permitted = false;
	if (tcp_before(exact, stamp)) /* or the next stamp would seem older */
		stamp -= STRANGERS_INFO + 1;
	xk_count(&tcp->protocol, TCP_COOKIES_SENT);
	strangers_answer(tcp, lls, how, stamp);
}

/* Returns whether an acknowledgement is that of a cookie, and restores what the cookie says of the SYN. */
static bool
strangers_read_cookie(struct tcp *tcp, const struct tcp_segment *segment, struct xk_key ends, struct tcp_how *how)
{
	uint32_t minute = (uint32_t)(xk_now_ns(&tcp->protocol) / UINT64_C(60000000000));
	uint32_t cookie = segment->acknowledgement - 1, irs = segment->sequence - 1;
	unsigned mss = cookie >> 24 & 7, age = (minute - (cookie >> 27)) & 31;

	if (age > STRANGERS_COOKIE_MINUTES || strangers_cookie(tcp, ends, irs, minute - age, mss) != cookie)
		return false;
	how->iss = cookie;
	how->irs = irs;
	how->window = segment->window;
	how->options = (struct tcp_options){ .mss = strangers_mss[mss] };
	how->stamp_offset = (uint32_t)strangers_hash(tcp, ends, 1);
	if (segment->options.has_stamp) {
		how->options.has_stamp = true;
		how->options.stamp = segment->options.stamp;
		how->options.has_sack_permitted = (segment->options.echo & 16) != 0;
		how->options.has_scale = (segment->options.echo & 15) != 15;
		how->options.scale = segment->options.echo & 15;
	}
	xk_count(&tcp->protocol, TCP_COOKIES_RECEIVED);
	return true;
}

/* ---- opening ---- */

/* Answers a SYN to an enabled port. */
static void
strangers_listen(struct tcp *tcp, struct xk_session *lls, const uint8_t *p, const struct tcp_segment *segment,
		 struct xk_key ends)
{
	struct tcp_strangers *all = tcp->strangers;
	struct tcp_stranger_entry *entry = NULL;
	uint64_t now_ns = xk_now_ns(&tcp->protocol);
	struct tcp_how how = { .irs = segment->sequence, .options = segment->options };
	bool is_held = xk_duplicate(lls), is_added = false;

	memcpy(how.p, p, TCP_HEADER_LEN);
	/* while cookies are sent, another copy of the SYN may get one */
	how.iss = now_ns < all->cookies_until_ns ? strangers_cookie_now(tcp, &how, ends) : tcp_initial(tcp, lls, p);
	how.stamp_offset = (uint32_t)strangers_hash(tcp, ends, 1); /* the same for each answer, also for a cookie */
	xk_lock(&all->lock);
	if (is_held && all->limbo_count < tcp->limbo_max) {
		entry = calloc(1, sizeof(*entry));
		if (entry != NULL) {
			entry->lls = lls;
			entry->how = how;
			entry->how.remembered = true;
			entry->due_ns = now_ns + tcp->timeouts.first_ns;
			is_added = strangers_add(tcp, entry, ends);
		}
	}
	if (!is_added)
		all->cookies_until_ns = now_ns + (STRANGERS_COOKIE_MINUTES + 1) * UINT64_C(60000000000);
	xk_unlock(&all->lock);
	if (is_added) {
		strangers_answer(tcp, lls, &how, strangers_stamp(tcp, &how));
		return;
	}
	if (is_held)
		xk_session_release(lls);
	strangers_send_cookie(tcp, lls, &how, ends);
}

/*
 * A segment for an open in limbo. Returns the reason to drop it; 0: it is to be answered; or XK_DROP_TAKEN: it completes
 * the open, or resets it: the entry is to be removed.
 */
static unsigned
strangers_reopened(struct tcp *tcp, struct tcp_stranger_entry *entry, const struct tcp_segment *segment)
{
	uint32_t window = (uint32_t)(tcp->receive_max < UINT16_MAX ? tcp->receive_max : UINT16_MAX);
	bool is_inside = segment->sequence - (entry->how.irs + 1) < window;

	if ((segment->flags & TCP_RST) && segment->sequence == entry->how.irs + 1)
		return XK_DROP_TAKEN;
	if ((segment->flags & TCP_RST) && !is_inside)
		return TCP_BAD_RESET;
	if ((segment->flags & TCP_SYN) && segment->sequence == entry->how.irs && segment->options.has_stamp)
		entry->how.options.stamp = tcp_later(entry->how.options.stamp, segment->options.stamp);
	if ((segment->flags & (TCP_SYN | TCP_RST)) || !is_inside)
		return 0;
	if ((segment->flags & TCP_ACK) == 0)
		return TCP_BAD_FLAGS;
	if (segment->acknowledgement != entry->how.iss + 1)
		return TCP_NO_CONNECTION;
	entry->how.window = segment->window;
	entry->how.tries = entry->tries;
	/* the shepherd removes it once there is a connection */
	entry->due_ns = xk_now_ns(&tcp->protocol) + tcp->timeouts.max_ns;
	return XK_DROP_TAKEN;
}

/*
 * Forgets an open that was completed. Not before there is a connection: until then, other shepherds need it, too.
 * Returns its session below, which the caller releases without a lock; NULL: it is forgotten already.
 */
static struct xk_session *
strangers_forget(struct tcp *tcp, struct xk_key ends, const struct tcp_how *how)
{
	struct tcp_strangers *all = tcp->strangers;
	struct tcp_stranger_entry *entry;
	struct xk_session *lls = NULL;

	xk_lock(&all->lock);
	entry = xk_map_resolve(&all->map, ends);
	if (entry != NULL && !entry->is_waiting && entry->how.iss == how->iss) {
		lls = entry->lls;
		strangers_remove(tcp, entry);
		free(entry);
		xk_count(&tcp->protocol, TCP_ACCEPTED);
	}
	xk_unlock(&all->lock);
	return lls;
}

/*
 * Makes the connection, or finds the one that another shepherd has made, and hands m, the segment, to it. If that one has
 * ended already, this shepherd makes another, which no peer knows of: it ends at once. Takes m.
 */
static void
strangers_accept(struct tcp *tcp, struct xk_session *lls, struct xk_msg *m, const struct tcp_segment *segment,
		 struct tcp_how *how, struct xk_key ends, struct xk_key key, struct xk_key passive)
{
	struct xk_session *forgotten;
	struct tcp_connection *c;

	c = (struct tcp_connection *)xk_table_accept(&tcp->protocol, key, passive, lls, how, m);
	if (c == NULL && xk_table_find(&tcp->protocol, key) != NULL)
		return; /* another shepherd has accepted it meanwhile, and forgets the open */
	if (c != NULL)
		xk_lock(&c->lock); /* the shepherd that made c sees below if another has forgotten the open */
	forgotten = strangers_forget(tcp, ends, how);
	if (c == NULL) {
		if (forgotten != NULL)
			xk_session_release(forgotten);
		tcp_refuse(&tcp->protocol, lls, how->p, segment); /* the peer believes that it is open */
		return;
	}
	c->remembered |= forgotten != NULL;
	if (c->accepted_by == how) { /* this shepherd has announced it */
		c->accepted_by = NULL;
		c->delivers = false;
		if (how->remembered && !c->remembered)
			tcp_end(c, -ECONNRESET);
	}
	xk_unlock(&c->lock);
	if (forgotten != NULL)
		xk_session_release(forgotten);
	xk_pop(&c->session, lls, m, NULL);
}

/* Drops m for a reason, after a RST if that is called for. Takes m. */
static void
strangers_drop(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, const struct tcp_segment *segment,
	       unsigned why)
{
	if (why == TCP_NO_CONNECTION || why == XK_DROP_NO_SESSION)
		tcp_refuse(self, lls, m->data - TCP_HEADER_LEN, segment);
	xk_drop(self, m, why);
}

/* Handles a segment that no entry is about. Takes m, with its options. */
static void
strangers_new(struct tcp *tcp, struct xk_session *lls, struct xk_msg *m, const struct tcp_segment *segment,
	      struct xk_key ends, struct xk_key key, struct xk_key passive)
{
	struct xk_protocol *self = &tcp->protocol;
	const uint8_t *p = m->data - TCP_HEADER_LEN;
	struct xk_session *s = xk_table_find(self, key); /* another shepherd may have made one */
	struct tcp_how how = { .iss = 0 };
	uint8_t flags = segment->flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN);

	memcpy(how.p, p, TCP_HEADER_LEN);
	if (xk_receive_is_from(s, lls)) {
		xk_pop(s, lls, m, NULL);
	} else if (segment->flags & TCP_RST) {
		strangers_drop(self, lls, m, segment, TCP_BAD_RESET);
	} else if (xk_table_enabled(self, passive) == NULL) {
		strangers_drop(self, lls, m, segment, XK_DROP_NO_SESSION);
	} else if (flags == TCP_SYN) {
		strangers_listen(tcp, lls, p, segment, ends);
		xk_msg_free(m);
	} else if ((flags & (TCP_SYN | TCP_ACK)) == TCP_ACK && xk_now_ns(self) < tcp->strangers->cookies_until_ns) {
		if (strangers_read_cookie(tcp, segment, ends, &how))
			strangers_accept(tcp, lls, m, segment, &how, ends, key, passive);
		else /* payload or a FIN may have overtaken the cookie, which then comes again */
			strangers_drop(self, lls, m, segment,
				       segment->end != segment->sequence ? TCP_OPENING : TCP_NO_CONNECTION);
	} else {
		strangers_drop(self, lls, m, segment, flags & TCP_ACK ? TCP_NO_CONNECTION : TCP_BAD_FLAGS);
	}
}

/* Answers a segment that an entry, a copy, is about. Takes m. */
static void
strangers_again(struct tcp *tcp, struct xk_session *lls, struct xk_msg *m, const struct tcp_segment *segment,
		const struct tcp_stranger_entry *entry)
{
	const struct tcp_how *how = &entry->how;
	const uint8_t *p = m->data - TCP_HEADER_LEN;
	bool waits = entry->is_waiting;
	struct tcp_options stamps = { .has_stamp = segment->options.has_stamp && tcp->use_stamps,
				      .stamp = strangers_stamp(tcp, how),
				      .echo = segment->options.stamp };
	struct tcp_reply reply = { .source = XK_GET(tcp, destination, p),
				   .destination = XK_GET(tcp, source, p),
				   .sequence = waits ? entry->snd_nxt : how->iss + 1,
				   .acknowledgement = waits ? entry->rcv_nxt : how->irs + 1,
				   .flags = TCP_ACK,
				   .window = UINT16_MAX,
				   .options = &stamps };

	if (!waits && segment->sequence == how->irs) /* its answer was lost, or is late */
		strangers_answer(tcp, lls, how, stamps.stamp);
	else if (waits || tcp_challenges(tcp, xk_now_ns(&tcp->protocol)))
		tcp_reply(&tcp->protocol, lls, &reply);
	xk_drop(&tcp->protocol, m, waits ? TCP_TOO_LATE : TCP_OPENING);
}

void
tcp_stranger(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_key key,
	     struct xk_key passive)
{
	struct tcp *tcp = (struct tcp *)self;
	struct tcp_strangers *all = tcp->strangers;
	uint8_t *options = m->data;
	struct xk_key ends = strangers_key(lls, m->data - TCP_HEADER_LEN);
	struct tcp_stranger_entry *entry, copy;
	struct xk_session *unused = NULL;
	struct tcp_segment segment;
	uint64_t local = 0, destination = 0;
	unsigned why = 0;

	if (xk_control(lls, XK_GET_DESTINATION, &destination) >= 0 && xk_control(lls, XK_GET_MY_HOST, &local) >= 0 &&
	    destination != local)
		why = TCP_BROADCAST;
	if (why == 0)
		why = tcp_segment_read(&segment, m);
	if (why != 0) {
		xk_drop(self, m, why);
		return;
	}
	xk_msg_push_in_place(m, (size_t)(m->data - options)); /* a connection reads them, too */
	xk_lock(&all->lock);
	entry = xk_map_resolve(&all->map, ends);
	if (entry != NULL) {
		why = entry->is_waiting ? strangers_waited(tcp, entry, &segment)
					: strangers_reopened(tcp, entry, &segment);
		copy = *entry;
		if (why == XK_DROP_TAKEN && (copy.is_waiting || (segment.flags & TCP_RST))) {
			strangers_remove(tcp, entry);
			free(entry);
			unused = copy.lls;
		}
	}
	xk_unlock(&all->lock);
	if (unused != NULL)
		xk_session_release(unused);
	if (entry == NULL) {
		strangers_new(tcp, lls, m, &segment, ends, key, passive);
		return;
	}
	if (why == 0)
		strangers_again(tcp, lls, m, &segment, &copy);
	else if (why != XK_DROP_TAKEN)
		strangers_drop(self, lls, m, &segment, why);
	else if (copy.is_waiting)
		strangers_new(tcp, lls, m, &segment, ends, key, passive);
	else if (segment.flags & TCP_RST)
		xk_msg_free(m);
	else
		strangers_accept(tcp, lls, m, &segment, &copy.how, ends, key, passive);
}

/* ---- time ---- */

/* Repeats answers that are due, and forgets what is over. */
static void
strangers_tick(struct xk_event *event, void *argument)
{
	struct tcp *tcp = argument;
	struct tcp_strangers *all = tcp->strangers;
	struct tcp_stranger_list over = TAILQ_HEAD_INITIALIZER(over);
	struct {
		struct xk_session *lls;
		struct tcp_how how;
	} due[STRANGERS_BATCH];
	struct tcp_stranger_entry *entry, *next;
	unsigned count;

	(void)event;
	do {
		uint64_t now_ns = xk_now_ns(&tcp->protocol);

		count = 0;
		xk_lock(&all->lock);
		while ((entry = TAILQ_FIRST(&all->waiting)) != NULL && now_ns >= entry->due_ns) {
			strangers_remove(tcp, entry);
			TAILQ_INSERT_TAIL(&over, entry, beside);
		}
		for (entry = TAILQ_FIRST(&all->limbo); entry != NULL && count < STRANGERS_BATCH; entry = next) {
			next = TAILQ_NEXT(entry, beside);
			if (now_ns < entry->due_ns)
				continue;
			if (entry->tries == tcp->synack_retries) {
				strangers_remove(tcp, entry);
				TAILQ_INSERT_TAIL(&over, entry, beside);
				continue;
			}
			entry->tries++;
			entry->due_ns = now_ns + (tcp->timeouts.first_ns << entry->tries);
			if (xk_duplicate(entry->lls)) {
				due[count].lls = entry->lls;
				due[count++].how = entry->how;
			}
		}
		all->is_ticking = count == STRANGERS_BATCH || all->limbo_count + all->waiting_count > 0;
		if (all->is_ticking && count < STRANGERS_BATCH)
			xk_event_schedule(&all->tick, STRANGERS_TICK_US);
		xk_unlock(&all->lock);
		for (unsigned i = 0; i < count; i++) {
			strangers_answer(tcp, due[i].lls, &due[i].how, strangers_stamp(tcp, &due[i].how));
			xk_session_release(due[i].lls);
		}
	} while (count == STRANGERS_BATCH);
	while ((entry = TAILQ_FIRST(&over)) != NULL) {
		TAILQ_REMOVE(&over, entry, beside);
		if (entry->lls != NULL)
			xk_session_release(entry->lls);
		free(entry);
	}
}

int
tcp_strangers_init(struct tcp *tcp)
{
	struct tcp_strangers *all = calloc(1, sizeof(*all));
	int err;

	if (all == NULL)
		return -ENOMEM;
	err = xk_map_init(&all->map, tcp->protocol.kernel, 64);
	if (err != 0) {
		free(all);
		return err;
	}
	xk_lock_init(&all->lock, &tcp->protocol);
	TAILQ_INIT(&all->limbo);
	TAILQ_INIT(&all->waiting);
	xk_event_init(&all->tick, tcp->protocol.kernel, strangers_tick, tcp);
	tcp->strangers = all;
	return 0;
}

void
tcp_strangers_fini(struct tcp *tcp)
{
	struct tcp_strangers *all = tcp->strangers;
	struct tcp_stranger_entry *entry;

	if (all == NULL)
		return;
	xk_event_cancel(&all->tick);
	while ((entry = TAILQ_FIRST(&all->limbo)) != NULL || (entry = TAILQ_FIRST(&all->waiting)) != NULL) {
		TAILQ_REMOVE(entry->is_waiting ? &all->waiting : &all->limbo, entry, beside);
		xk_map_unbind(&all->map, &entry->binding);
		if (entry->lls != NULL)
			xk_session_release(entry->lls);
		free(entry);
	}
	xk_map_fini(&all->map);
	free(all);
}
