/*
 * gm.c - messages between ports of hosts, reliable and in order, as many in flight as there are tokens; and deposits
 * into registered memory. gm_send.c sends, gm_receive.c receives; the rest is here.
 *
 * Promise:      Messages of a session arrive in order, and each at most once. A message reported to its sender as
 *               delivered was delivered once; if its session ends before, it may or may not have been. None reaches a
 *               later boot of the peer than the one at its push. Payloads are as intact as the frames are.
 * Spec:         after GM 1.1 and GM+ as Chen and Watson describe them, "User Level Communication on Alpha Linux
 *               Systems": fragments of at most 4 KB, an acknowledgement for each, no connections for the user. Our own
 *               40-byte header
 * Participants: the top of each stack is a port, 1 to 65535; the rest is BID's. Opening needs the remote port,
 *               and chooses a local one from 49152 on if none is given. Enabling needs the local port.
 * Sessions:     one per (host, local port, remote port). Opening exchanges nothing but BIDCTL's messages. When a
 *               session is over, the hlp gets close_done: the peer has rebooted or forgotten it (-ECONNRESET), or there
 *               was no progress for `patience` (-ETIMEDOUT). A closed session remains until its messages have arrived.
 * Tokens:       A push takes one of the session's `tokens`, and fails with -ENOBUFS if there is none; the message gives
 *               it back when it is acknowledged (XK_GM_GET_TOKENS, and xk_gm_send in gm.h).
 * Buffers:      A message arrives if a buffer is posted on its session (xk_post in post.h), and is refused otherwise:
 *               it is sent again, and stops the messages of its own session alone. Each session has `buffers` that hold
 *               any message and are posted again when the hlp has returned from it; with buffers=0 the hlp posts all.
 * Deposits:     xk_gm_deposit writes to memory that the peer has registered (gm.h), checked packet by packet; the
 *               peer's hlp is not notified. One outside of it ends the session (-EFAULT), and the part that fitted may
 *               have been written.
 * small=        how messages of up to 256 bytes are sent: `reference` (a header before the message's own buffer, as GM
 *               does), `copy` (into the header's buffer, as GM+ does), `unreliable` (copied, and as with reliable=no
 *               and flow=no)
 * reliable=no   A message is sent once, its status is XK_GM_UNKNOWN, and it is neither acknowledged nor kept. Those
 *               that arrive are still in order, and unique while the receiver remembers the session. Deposits stay
 *               reliable.
 * flow=no       Neither tokens nor window; 64 messages are kept at most all the same. Without reliability, flow control
 *               is a CREDIT from the receiver for each half of the tokens; if none comes for `timeout`, the sender
 *               continues. Each packet names its kind, so the two ends may have different settings.
 * ack_delay=T   An acknowledgement may wait up to T, and then covers all packets received until then. Some packets ask
 *               for one at once: one in each half of the tokens or window, the first ones after a time-out, and those
 *               of messages whose sender asks for notification. A ping-pong then takes little more than two packets a
 *               round trip instead of four.
 * Memory:       A host has at most `peer_sessions` passive sessions, all hosts together `sessions`, and `held` bytes of
 *               buffers with messages that are incomplete, undelivered or unacknowledged. One host has at most half of
 *               what others leave (share.h).
 * Again:        A passive session retransmits at most three times the bytes of its first transmissions, and three times
 *               those acknowledged (budget.h). The last repetition waits until half of `patience` is over.
 * Assumes:      that BID keeps its promise, and that no packet is older than the time for which BIDCTL remembers a host
 * Not done:     selective acknowledgements, priorities
 * Graph:        gm -> bid, gm -> bidctl
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/papers/gm_private.h"
#include "xkernel/receive.h"
#include "xkernel/trace.h"

/*
 * Why a packet is accepted once, without a handshake:
 *
 * Each packet of a boot has a number that is higher than all before, whatever session sent it. A session's packets also
 * name the packet before (`previous`), or 0 once that was acknowledged. The receiver accepts a packet if its number is
 * above the last one that it accepted, and nothing is missing in between: `previous` is 0 or not above that last one.
 *
 * A receiver may forget an idle session. It then remembers for the host, as `floor`, the highest number of all sessions
 * that it has forgotten. A packet for a session that is not there must have a number above the floor, so that it was
 * not accepted before; and no packet of its session may be missing, so `previous` must be 0. The sender's session
 * continues without noticing; a packet below the floor is answered with a RESET, because it is unknown whether it was
 * accepted.
 *
 * `begin`, a number like those of packets, distinguishes a sender's sessions: the first packet of a later one ends the
 * receiver's session, so that an hlp never sees on one session what was sent on two. BID keeps boots apart.
 */

/* ---- the header ---- */

static const struct xk_field_value gm_kinds[] = {
	{ GM_DATA, "DATA" }, { GM_DEPOSIT, "DEPOSIT" }, { GM_DATAGRAM, "DATAGRAM" },
	{ GM_ACK, "ACK" },   { GM_RESET, "RESET" },     { GM_CREDIT, "CREDIT" },
	{ 0, NULL }
};

XK_FIELDS(gm, GM_HEADER);

/* Strips and checks the header of m, and cuts off padding. Returns 0, or the reason to drop m. */
static unsigned
gm_header_pop(struct gm_header *h, struct xk_msg *m)
{
	*h = gm_load(m->data);
	xk_msg_pop_in_place(m, GM_HEADER_LEN);
	if (h->kind < GM_DATA || h->kind > GM_CREDIT || h->begin == 0 || h->number == 0 ||
	    h->number > UINT64_MAX >> 2 || h->previous >= h->number + (h->kind == GM_DATAGRAM))
		return GM_BAD_KIND;
	if (h->length > xk_msg_len(m) || h->length > GM_FRAGMENT_MAX)
		return XK_DROP_BAD_LENGTH;
	xk_msg_truncate(m, h->length);
	switch (h->kind) {
	case GM_DATA:
	case GM_DATAGRAM:
		return h->offset > h->total || h->length > h->total - h->offset ? XK_DROP_BAD_LENGTH : 0;
	case GM_DEPOSIT:
		return 0;
	default:
		return h->length != 0 ? XK_DROP_BAD_LENGTH : 0;
	}
}

void
gm_header_store(struct xk_msg *m, const struct gm_header *h, uint64_t boot)
{
	gm_store(m->data, h);
	xk_msg_annotate(m, XK_OF_MESSAGE, XK_FOR_BOOT, boot);
}

struct xk_msg *
gm_frame(const struct gm_header *h, uint64_t boot, struct xk_msg *m)
{
	if (xk_msg_push(&m, GM_HEADER_LEN) == NULL) {
		xk_msg_free(m);
		return NULL;
	}
	gm_header_store(m, h, boot);
	return m;
}

void
gm_reset(struct xk_protocol *self, struct xk_session *lls, uint64_t boot, const struct gm_header *h,
	 enum gm_reason reason)
{
	struct gm_header reset = { .source = h->destination,
				   .destination = h->source,
				   .kind = GM_RESET,
				   .offset = reason,
				   .begin = h->begin,
				   .number = h->number };
	struct xk_msg *m = h->kind == GM_DATAGRAM ? NULL : xk_msg_new(xk_platform_of(self), 0);

	if (m != NULL)
		m = gm_frame(&reset, boot, m);
	if (m == NULL)
		return;
	xk_count(self, GM_RESETS);
	xk_push(lls, m);
}

/* ---- a session's timer and end ---- */

bool
gm_disarm(struct gm_session *s)
{
	return s->count == 0 && s->partial == NULL && s->taken == s->acked_to && xk_alarm_stop(&s->alarm);
}

void
gm_end(struct gm_session *s, unsigned why, int err)
{
	struct xk_session *session = &s->session;
	struct gm_slot slots[GM_TOKENS_MAX];
	unsigned count;
	bool first, known, disarmed;

	xk_lock(&s->lock);
	first = s->error == 0;
	known = s->known;
	if (first)
		s->error = err;
	for (count = 0; count < s->count; count++) {
		slots[count] = *gm_slot(s, count);
		xk_share_give(s->share, slots[count].buffers);
	}
	s->count = 0;
	gm_receive_clear(s);
	disarmed = gm_disarm(s);
	xk_unlock(&s->lock);
	if (disarmed)
		xk_session_release(session); /* not the last: the caller has one, or pops through s */
	if (first)                           /* later packets are for another session, or for none */
		xk_map_unbind(&session->protocol->table.sessions, &session->binding);
	for (unsigned i = 0; i < count; i++) {
		xk_drop(session->protocol, slots[i].m, why);
		if (slots[i].send != NULL)
			slots[i].send->done(slots[i].send, err);
	}
	if (!first)
		return;
	xk_trace(session->protocol, XK_TRACE_EVENTS, "session of %s is over: %s", xk_hlp_receive(session)->name,
		 xk_drop_name(session->protocol->type, why));
	if (known && why != XK_DROP_REFUSED)
		xk_close_done(session);
	if (s->passive && xk_duplicate(session))
		xk_close(session); /* as an hlp would: out of the cache */
}

static void
gm_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct gm_session *s = xk_container_of(alarm, struct gm_session, alarm);
	uint64_t patience_ns = gm_of(s)->patience_ns;
	bool gives_up = gm_send_late(s, now_ns);

	if (s->count > 0 && !gives_up)
		xk_alarm_set(alarm, s->retry.due_ns);
	if (s->partial != NULL && now_ns - s->partial_ns >= patience_ns)
		gm_receive_abandon(s, GM_ABANDONED);
	if (s->partial != NULL)
		xk_alarm_set(alarm, s->partial_ns + patience_ns);
	xk_unlock(&s->lock);
	if (gives_up)
		gm_end(s, GM_GAVE_UP, -ETIMEDOUT);
	else
		gm_transmit(s);
	gm_acknowledge_late(s, now_ns);
}

/* ---- peers and their boots ---- */

static struct xk_key
gm_peer_key(uint32_t host)
{
	return (struct xk_key){ host, 0 };
}

static void
gm_peer_free(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct gm_peer, retired));
}

/* Forgets peer if it is no longer needed. The protocol's lock is held. */
static void
gm_peer_drop(struct gm *gm, struct gm_peer *peer)
{
	if (!TAILQ_EMPTY(&peer->sessions) || (!peer->lost && peer->floor != 0))
		return;
	xk_map_unbind(&gm->peers, &peer->binding);
	xk_retire(gm->protocol.kernel, &peer->retired, gm_peer_free);
}

/* Returns the peer, made if there is none, or NULL: no memory. The protocol's lock is held. */
static struct gm_peer *
gm_peer_get(struct gm *gm, uint32_t host, uint64_t boot)
{
	struct gm_peer *peer = xk_map_resolve(&gm->peers, gm_peer_key(host));

	if (peer != NULL || (peer = calloc(1, sizeof(*peer))) == NULL)
		return peer;
	peer->boot = boot;
	TAILQ_INIT(&peer->sessions);
	if (xk_map_bind(&gm->peers, &peer->binding, gm_peer_key(host), peer) == 0)
		return peer;
	free(peer);
	return NULL;
}

/* Returns a session of another boot of the peer than this, with a reference, each once. NULL: none is left. */
static struct gm_session *
gm_outdated(struct gm *gm, uint32_t host, uint64_t boot)
{
	struct gm_session *s;
	struct gm_peer *peer;

	xk_lock(&gm->lock);
	peer = xk_map_resolve(&gm->peers, gm_peer_key(host));
	if (peer != NULL && peer->boot != boot) {
		peer->boot = boot;
		peer->floor = 0;
	}
	s = peer == NULL ? NULL : TAILQ_FIRST(&peer->sessions);
	while (s != NULL && (s->boot == boot || s->notified || !xk_duplicate(&s->session)))
		s = TAILQ_NEXT(s, of_peer);
	if (s != NULL)
		s->notified = true;
	xk_unlock(&gm->lock);
	return s;
}

/* Makes boot the host's, which BIDCTL has confirmed: sessions with others are over. No lock is held. */
static void
gm_meet(struct gm *gm, uint32_t host, uint64_t boot)
{
	struct gm_session *s;

	while ((s = gm_outdated(gm, host, boot)) != NULL) {
		gm_end(s, GM_PEER_GONE, -ECONNRESET);
		xk_session_release(&s->session);
	}
}

static void
gm_changed(const struct xk_bidctl_watcher *watcher, enum xk_bidctl_change change, const struct xk_bidctl_peer *changed)
{
	struct gm *gm = (struct gm *)watcher->protocol;
	struct gm_peer *peer;

	if (changed->boot != 0)
		gm_meet(gm, changed->host, changed->boot);
	xk_lock(&gm->lock);
	peer = xk_map_resolve(&gm->peers, gm_peer_key(changed->host));
	if (peer != NULL) {
		peer->lost = changed->boot == 0;
		gm_peer_drop(gm, peer);
	}
	xk_unlock(&gm->lock);
}

static struct xk_protocol *
gm_bidctl(const struct xk_protocol *self)
{
	return xk_lower(self, 1);
}

/* ---- sessions ---- */

/* Parameters of a new session. */
struct gm_how {
	const uint8_t *p; /* a header that it receives; begin 0: active */
	uint32_t host;
	uint64_t boot;
};

/* Joins the peer's sessions. Returns 0, or -ESTALE (another boot is there), -EUSERS or -ENOMEM. */
static int
gm_join(struct gm_session *s, const struct gm_how *how)
{
	struct gm *gm = gm_of(s);
	struct gm_session *other;
	struct gm_peer *peer;
	int err = 0;

	xk_lock(&gm->lock);
	peer = gm_peer_get(gm, how->host, how->boot);
	if (peer == NULL)
		err = -ENOMEM;
	else if (peer->boot != how->boot)
		err = -ESTALE;
	else if (s->passive && peer->passive >= gm->peer_sessions)
		err = -EUSERS;
	if (err == 0) {
		s->peer = peer;
		s->arrived = peer->floor;
		/* one of the same ports may be being closed */
		for (other = TAILQ_FIRST(&peer->sessions); other != NULL; other = TAILQ_NEXT(other, of_peer))
			if (memcmp(other->session.sends.header, s->session.sends.header, XK_SENDS_HEADER) == 0 &&
			    other->boot == s->boot && other->arrived > s->arrived)
				s->arrived = other->arrived;
		s->taken = s->acked_to = s->arrived;
		TAILQ_INSERT_TAIL(&peer->sessions, s, of_peer);
		peer->passive += s->passive;
		peer->lost = false;
	}
	xk_unlock(&gm->lock);
	return err;
}

static int
gm_setup(struct xk_session *session, const void *argument)
{
	struct gm_session *s = (struct gm_session *)session;
	struct gm *gm = (struct gm *)session->protocol;
	const struct gm_how *how = argument;
	uint32_t below;
	int got = xk_control(session->lls, XK_GET_OPT_PACKET, &below);

	xk_lock_init(&s->lock, session->protocol);
	xk_alarm_init(&s->alarm, session, &s->lock, gm_expire);
	xk_ports_setup(session, how->p);
	s->boot = how->boot;
	s->peer_begin = XK_GET(gm, begin, how->p);
	s->passive = s->peer_begin != 0;
	s->known = !s->passive;
	s->begin = atomic_fetch_add(&gm->number, 1) + 1;
	s->last_number = s->begin;
	s->window = gm->window;
	xk_round_trip_init(&s->round_trip, &gm->timeouts);
	s->ready_end = &s->ready;
	session->sends.longest = (uint32_t)gm->longest;
	xk_posted_add(&s->posted, XK_POSTED_OWN, (uint32_t)gm->buffers);
	if (got < 0)
		got = xk_control(session->lls, XK_GET_MAX_PACKET, &below);
	if (got < 0)
		return got;
	if (below <= GM_HEADER_LEN)
		return -EMSGSIZE;
	s->fragment = below - GM_HEADER_LEN < GM_FRAGMENT_MAX ? below - GM_HEADER_LEN : GM_FRAGMENT_MAX;
	s->share = xk_shares_join(&gm->shares, &(struct xk_key){ how->host, 0 }, 1);
	return s->share == NULL ? -ENOMEM : gm_join(s, how);
}

static void
gm_close(struct xk_session *session)
{
	struct gm_session *s = (struct gm_session *)session;
	struct gm *gm = gm_of(s);

	xk_lock(&s->lock);
	if (s->error == 0) /* a shepherd may still be in the pop */
		s->error = -ECONNRESET;
	for (; s->count > 0; s->count--) { /* the kernel ends */
		xk_share_give(s->share, gm_slot(s, s->count - 1)->buffers);
		xk_drop(session->protocol, gm_slot(s, s->count - 1)->m, GM_CLOSED);
	}
	gm_receive_clear(s);
	xk_unlock(&s->lock);
	xk_shares_leave(&gm->shares, s->share);
	if (s->peer == NULL)
		return;
	xk_lock(&gm->lock);
	TAILQ_REMOVE(&s->peer->sessions, s, of_peer);
	s->peer->passive -= s->passive;
	if (s->peer->boot == s->boot && s->peer->floor < s->arrived)
		s->peer->floor = s->arrived;
	gm_peer_drop(gm, s->peer);
	xk_unlock(&gm->lock);
}

/* Sets the host of lls and its confirmed boot. Returns 0 or -errno. */
static int
gm_ask(struct xk_protocol *self, struct xk_session *lls, struct gm_how *how)
{
	uint64_t host;
	int err = xk_control(lls, XK_GET_PEER_HOST, &host);

	if (err < 0)
		return err;
	how->host = (uint32_t)host;
	err = xk_bidctl_known(gm_bidctl(self), how->host, &how->boot);
	if (err == 0)
		gm_meet((struct gm *)self, how->host, how->boot);
	return err == 0 ? 0 : -EAGAIN;
}

static int
gm_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	struct xk_participants *participants, struct xk_session **session)
{
	uint8_t p[GM_HEADER_LEN] = { 0 };
	struct gm_how how = { .p = p };
	struct xk_opening opening = { hlp_receive, hlp_type, p, &how, .shares = true };
	int err = xk_ports_open_below(self, participants, &opening); /* may wait */

	if (err != 0)
		return err;
	err = gm_ask(self, opening.lls, &how);
	if (err != 0) {
		xk_close(opening.lls);
		return err;
	}
	err = xk_ports_open_on(self, &opening, session);
	if (err == 0 && xk_bidctl_check(gm_bidctl(self), how.host, how.boot, NULL) != 0) {
		xk_close(*session); /* its reboot may have been reported before the session existed */
		err = -EAGAIN;
	}
	return err == -ESTALE ? -EAGAIN : err;
}

/*
 * Returns whether a session may begin with h: no forgotten session has accepted it. Closes the host's oldest idle
 * passive session if it has as many as it may.
 */
static bool
gm_admit(struct gm *gm, const struct gm_header *h, uint32_t host)
{
	struct gm_session *s = NULL;
	struct gm_peer *peer;
	bool admits;

	xk_lock(&gm->lock);
	peer = xk_map_resolve(&gm->peers, gm_peer_key(host));
	admits = peer == NULL || h->kind == GM_DATAGRAM || h->number > peer->floor;
	if (admits && peer != NULL && peer->passive >= gm->peer_sessions)
		s = TAILQ_FIRST(&peer->sessions);
	while (s != NULL && (!s->passive || xk_alarm_is_set(&s->alarm) || s->notified || !xk_duplicate(&s->session)))
		s = TAILQ_NEXT(s, of_peer);
	xk_unlock(&gm->lock);
	if (s != NULL)
		xk_close(&s->session); /* as an hlp would: out of the cache */
	return admits;
}

/* Makes a session for h, which belongs to none. Returns 0, or the reason to drop the packet. */
XK_APART static unsigned
gm_accept(struct xk_protocol *self, struct xk_session *lls, const struct gm_header *h, struct gm_how *how,
	  struct xk_session **session)
{
	const struct xk_enable *enable = xk_table_enabled(self, xk_table_number_key(h->destination));
	struct xk_key key = xk_receive_key(self, lls, how->p);
	struct xk_session *s;
	int err;

	if (h->kind > GM_DATAGRAM || enable == NULL)
		return XK_DROP_NO_SESSION;
	if (h->previous != 0 && h->kind != GM_DATAGRAM)
		return GM_GAP;
	if (h->offset != 0 && h->kind != GM_DEPOSIT)
		return GM_STALE;
	if (xk_bidctl_check(gm_bidctl(self), how->host, how->boot, NULL) != 0)
		return GM_STALE;
	gm_meet((struct gm *)self, how->host, how->boot);
	if (!xk_duplicate(lls))
		return XK_DROP_NO_SESSION;
	/* without the reference, lls could go with the session that makes room */
	if (!gm_admit((struct gm *)self, h, how->host)) {
		xk_session_release(lls);
		return GM_STALE;
	}
	err = xk_table_add(self, key, enable->hlp_receive, enable->hlp_type, lls, how, &s);
	if (err == -EEXIST) { /* another shepherd was faster */
		s = xk_table_find(self, key);
		*session = s;
		return s != NULL && ((struct gm_session *)s)->boot == how->boot ? 0 : XK_DROP_NO_SESSION;
	}
	if (err != 0)
		return err == -ENOMEM   ? XK_DROP_NO_MEMORY
		       : err == -EUSERS ? GM_TOO_MANY
		       : err == -ESTALE ? GM_STALE
					: XK_DROP_NO_SESSION;
	/* its reboot may have been reported before the session existed */
	if (xk_bidctl_check(gm_bidctl(self), how->host, how->boot, NULL) != 0) {
		xk_close(s);
		return GM_STALE;
	}
	xk_session_cache(s);
	*session = s;
	return 0;
}

static void
gm_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	const struct gm_header *h = hdr;

	if (h->kind > GM_DATAGRAM)
		gm_pop_answer((struct gm_session *)session, m, h);
	else
		gm_pop_packet((struct gm_session *)session, m, h);
}

/* Returns whether h is of a later session of the peer's than s, which a stranger has made. */
static bool
gm_is_outdated(const struct gm_session *s, const struct gm_header *h)
{
	return s->passive && h->kind <= GM_DATAGRAM && h->begin > s->peer_begin;
}

/* Accepts h in place of s, which is of an earlier session of the peer's. As gm_accept. */
XK_APART static unsigned
gm_replace(struct gm_session *s, struct xk_session *lls, const struct gm_header *h, struct gm_how *how,
	   struct xk_session **session)
{
	struct xk_protocol *self = s->session.protocol;
	unsigned why;

	if (!xk_duplicate(lls)) /* it could go with s */
		return XK_DROP_NO_SESSION;
	if (xk_duplicate(&s->session)) {
		gm_end(s, GM_PEER_GONE, -ECONNRESET);
		xk_session_release(&s->session);
	}
	why = gm_accept(self, lls, h, how, session);
	xk_session_release(lls);
	return why;
}

static void
gm_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct gm_how how = { m->data, .boot = xk_msg_from_boot(m) };
	struct xk_session *s = NULL;
	struct gm_header h;
	uint64_t host = 0;
	unsigned why = gm_header_pop(&h, m);

	if (why == 0 && (how.boot == 0 || xk_control(lls, XK_GET_PEER_HOST, &host) != 0))
		why = GM_STALE;
	how.host = (uint32_t)host;
	if (why == 0)
		s = xk_table_find(self, xk_receive_key(self, lls, how.p));
	if (s != NULL && ((struct gm_session *)s)->boot != how.boot)
		s = NULL; /* unless BIDCTL confirms it, the packet's boot is over */
	if (why == 0 && s == NULL)
		why = gm_accept(self, lls, &h, &how, &s);
	else if (why == 0 && gm_is_outdated((const struct gm_session *)s, &h))
		why = gm_replace((struct gm_session *)s, lls, &h, &how, &s);
	if (why == 0) {
		xk_pop(s, lls, m, &h);
		return;
	}
	xk_drop(self, m, why);
	if (why == GM_STALE && host != 0)
		gm_reset(self, lls, how.boot, &h, GM_R_STALE);
}

/* ---- asking and registering ---- */

static int
gm_session_control(struct xk_session *session, int op, void *argument)
{
	struct gm_session *s = (struct gm_session *)session;
	uint32_t *value = argument;

	switch (op) {
	case XK_POST_BUFFERS:
		return xk_posted_control(&s->posted, argument);
	case XK_GM_GET_TOKENS:
		xk_lock(&s->lock);
		*value = gm_tokens(s);
		xk_unlock(&s->lock);
		return 0;
	case XK_GET_OPT_PACKET:
		*value = s->fragment;
		return 0;
	default:
		return -ENOTSUP;
	}
}

static int
gm_control(struct xk_protocol *self, int op, void *argument)
{
	return xk_regions_control(self, &((struct gm *)self)->regions, op, argument);
}

/* ---- promises ---- */

/* A session that is over is in no table. */
static const char *
gm_session_promise(struct xk_session *session, bool at_rest)
{
	struct gm_session *s = (struct gm_session *)session;
	const struct gm *gm = gm_of(s);
	uint64_t position = s->count == 0 ? s->acked : gm_slot(s, 0)->position;
	uint32_t buffers = s->partial != NULL ? s->partial_room : 0;

	for (unsigned i = 0; i < s->count; i++) {
		if (gm_slot(s, i)->position != position)
			return "the packets of a message in flight do not follow those of the one before";
		position += gm_slot(s, i)->count;
		buffers += gm_slot(s, i)->buffers;
	}
	if (position != s->end || s->acked > s->next || s->next > s->sent || s->sent > s->end)
		return "the packets in flight are not those of the messages in flight";
	if (s->count > 0 && s->acked - gm_slot(s, 0)->position >= gm_slot(s, 0)->count)
		return "a message in flight is acknowledged";
	if (s->count + (s->datagrams - s->credited) > (gm->flow ? gm->tokens : GM_TOKENS_MAX))
		return "more messages are in flight than there are tokens";
	if (gm->flow && s->sent - s->acked > gm->window)
		return "more packets are unacknowledged than the window allows";
	if (buffers > xk_share_held(s->share))
		return "a message's buffers are not counted in its host's share";
	if (s->count > 0 && !xk_alarm_covers(&s->alarm, s->retry.due_ns))
		return "a packet is in flight without a timer";
	if (s->partial != NULL && !xk_alarm_covers(&s->alarm, s->partial_ns + gm->patience_ns))
		return "an incomplete message has no timer";
	if (s->taken != s->acked_to && !xk_alarm_covers(&s->alarm, s->ack_due_ns))
		return "a delayed acknowledgement has no timer";
	if (s->taken > s->arrived)
		return "a packet was taken that has not arrived";
	if (s->ready != NULL && !s->delivering)
		return "a whole message waits, and nobody delivers it";
	if (at_rest && s->count > 0)
		return "a message is neither acknowledged nor given up";
	if (at_rest && (s->partial != NULL || s->delivering))
		return "a message is neither delivered nor abandoned";
	return at_rest && s->taken != s->acked_to ? "a delayed acknowledgement was never sent" : NULL;
}

static const char *
gm_promise(struct xk_protocol *self, bool at_rest)
{
	return xk_shares_promise(&((const struct gm *)self)->shares, at_rest);
}

/* ---- init and fini ---- */

static void
gm_forget(void *object, void *context)
{
	xk_alarm_cancel(&((struct gm_session *)object)->alarm);
}

/* Sessions that are over are in no table. */
static void
gm_forget_peer(void *object, void *context)
{
	struct gm_peer *peer = object;
	struct gm_session *s, *next;

	for (s = TAILQ_FIRST(&peer->sessions); s != NULL; s = next) {
		next = TAILQ_NEXT(s, of_peer);
		gm_forget(s, NULL);
	}
}

static void
gm_peer_end(void *object, void *context)
{
	free(object);
}

static void
gm_fini(struct xk_protocol *self)
{
	struct gm *gm = (struct gm *)self;

	xk_map_for_each(&gm->peers, gm_forget_peer, NULL);
	xk_map_for_each(&gm->peers, gm_peer_end, NULL);
	xk_map_fini(&gm->peers);
	xk_shares_fini(&gm->shares);
}

static int
gm_init(struct xk_protocol *self)
{
	struct gm *gm = (struct gm *)self;
	int err;

	if (gm->timeouts.max_ns < gm->timeouts.min_ns) {
		xk_trace(self, XK_TRACE_NONE, "timeout_max is below timeout_min");
		return -EINVAL;
	}
	xk_lock_init(&gm->lock, self);
	xk_lock_init(&gm->regions.lock, self);
	err = xk_map_init(&gm->peers, self->kernel, 16);
	if (err != 0)
		return err;
	err = xk_shares_init(&gm->shares, self, XK_SHARES_OF_BUFFERS, xk_share_buffers(gm->held_max));
	if (err != 0)
		goto fail;
	gm->watcher = (struct xk_bidctl_watcher){ .protocol = self, .changed = gm_changed };
	err = xk_ports_init(self, XK_PORTS_FIRST, XK_PORTS_LAST, xk_random(self));
	if (err != 0)
		goto fail_shares;
	xk_bidctl_watch(gm_bidctl(self), &gm->watcher);
	return 0;
fail_shares:
	xk_shares_fini(&gm->shares);
fail:
	xk_map_fini(&gm->peers);
	return err;
}

/* ---- tables ---- */

static const struct xk_session_ops gm_session_ops = {
	.size = sizeof(struct gm_session),
	.setup = gm_setup,
	.push = gm_push,
	.pop = gm_pop,
	.close = gm_close,
	.control = gm_session_control,
	.promise = gm_session_promise,
};

static const struct xk_protocol_ops gm_ops = {
	.init = gm_init,
	.fini = gm_fini,
	.open = gm_open,
	.passive_key = xk_ports_passive_key,
	.passive_key_of = xk_ports_passive_key_of,
	.demux = gm_demux,
	.control = gm_control,
	.promise = gm_promise,
};

static const struct xk_role gm_lowers[] = {
	{ "transport", XK_ASYNC, NULL, "carries messages to boots of hosts: bid" },
	{ "bidctl", XK_CONTROL, "bidctl", "confirms hosts' boot ids" },
	{ NULL, 0, NULL, NULL },
};

static const char *const gm_smalls[] = { "reference", "copy", "unreliable", NULL }; /* enum gm_small */

static const struct xk_setting gm_settings[] = {
	XK_SETTING(UINT, struct gm, tokens, "tokens", "messages of a session in flight", .initial = "16", .min = 1,
		   .max = GM_TOKENS_MAX),
	XK_SETTING(UINT, struct gm, window, "window", "packets of a session in flight", .initial = "32", .min = 1,
		   .max = 65536),
	XK_SETTING(UINT, struct gm, longest, "longest", "bytes of the longest message", .initial = "64k", .min = 1,
		   .max = XK_MSG_MAX),
	XK_SETTING(CHOICE, struct gm, small, "small", "how messages of up to 256 bytes are sent",
		   .initial = "reference", .choices = gm_smalls),
	XK_SETTING(BOOL, struct gm, reliable, "reliable",
		   "whether messages are kept until they are acknowledged; no: they are sent once", .initial = "yes"),
	XK_SETTING(BOOL, struct gm, flow, "flow", "whether senders wait for receivers; no: without tokens and window",
		   .initial = "yes"),
	XK_SETTING(UINT, struct gm, buffers, "buffers", "buffers of each session that are posted again by themselves",
		   .initial = "16", .max = XK_POSTED_MAX),
	XK_SETTING(TIME, struct gm, timeouts.first_ns, "timeout",
		   "time until a packet is sent again, while no round trip is known", .initial = "20ms", .min = 1000,
		   .max = UINT64_C(60000000000)),
	XK_SETTING(TIME, struct gm, timeouts.min_ns, "timeout_min", "least time until a packet is sent again",
		   .initial = "1ms", .min = 1000, .max = UINT64_C(60000000000)),
	XK_SETTING(TIME, struct gm, timeouts.max_ns, "timeout_max", "longest such time", .initial = "500ms",
		   .min = 1000, .max = UINT64_C(60000000000)),
	XK_SETTING(TIME, struct gm, ack_delay_ns, "ack_delay",
		   "time that an acknowledgement waits for others, less than the peers' timeout_min; 0: none waits",
		   .initial = "0s", .max = UINT64_C(60000000000)),
	XK_SETTING(TIME, struct gm, patience_ns, "patience", "time without progress after which a session is over",
		   .initial = "10s", .min = 1000, .max = UINT64_C(3600000000000)),
	XK_SETTING(UINT, struct gm, held_max, "held",
		   "bytes of buffers of messages that are incomplete, undelivered or unacknowledged; each buffer "
		   "counts as 2 KiB, however little it holds",
		   .initial = "8m", .min = XK_MSG_SEGMENT, .max = UINT64_C(1) << 40),
	XK_SETTING(UINT, struct gm, peer_sessions, "peer_sessions", "passive sessions of one host", .initial = "64",
		   .min = 1, .max = 1048576),
	{ .name = NULL },
};

static const struct xk_number_on gm_numbers[] = { { "bid", 208 }, { NULL, 0 } };

const struct xk_protocol_type xk_type_gm = {
	.name = "gm",
	.help = "Reliable, ordered messages between ports, by tokens and posted buffers; deposits into registered "
		"memory.",
	.ops = &gm_ops,
	.session_ops = &gm_session_ops,
	.header = GM_HEADER_LEN,
	.fields = gm_fields,
	.size = sizeof(struct gm),
	.offers = XK_ASYNC,
	.lowers = gm_lowers,
	.numbers = gm_numbers,
	.settings = gm_settings,
	.drops = gm_drops,
	.counters = gm_counters,
	.session_max = 1024,
};
