/*
 * stopwait_session.c - the ends of stopwait: how they come to be, under which identifiers, and which of them an arriving
 * message is for. stopwait.c has the promise, and what they say to each other.
 *
 * Participants: the top of each stack is a port, 1 to 65535; what is below it goes on to the protocol below. Opening needs
 *               the remote one; without a local one a port from 49152 on is chosen. Enabling needs the local one.
 * Sessions:     open exchanges nothing. Any number of sessions may have the same ports and hosts: an end is found by its
 *               identifier, which is drawn when it is made, and never drawn again (a host that counts its boots puts
 *               the count into it). A CALL to a port that is enabled makes an end, and finds it when it comes again.
 */
#include <errno.h>

#include "protocols/stopwait_private.h"

static struct xk_key
stopwait_session_key(uint64_t id, uint32_t ports)
{
	return (struct xk_key){ id, ports };
}

static struct xk_key
stopwait_session_enable_key(uint16_t local)
{
	return (struct xk_key){ local, 0 };
}

/* ---- init and fini ---- */

/* A session that was waiting for an answer: nobody will wait any more. */
static void
stopwait_session_forget(void *object, void *context)
{
	struct stopwait_session *s = object;

	if (xk_event_cancel(&s->timer) == XK_EVENT_CANCELLED)
		xk_session_release(&s->session);
}

void
stopwait_session_fini(struct xk_protocol *self)
{
	struct stopwait *stopwait = (struct stopwait *)self;

	xk_map_for_each(&stopwait->sessions, stopwait_session_forget, NULL);
	xk_enable_fini(&stopwait->enables);
	xk_map_fini(&stopwait->callers);
	xk_map_fini(&stopwait->sessions);
}

static int
stopwait_session_init_maps(struct stopwait *stopwait)
{
	struct xk_map *maps[] = { &stopwait->sessions, &stopwait->callers, &stopwait->enables };
	int err = 0;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(maps) && err == 0; i++) {
		err = xk_map_init(maps[i], stopwait->protocol.kernel, 16);
		while (err != 0 && i > 0)
			xk_map_fini(maps[--i]);
	}
	return err;
}

int
stopwait_session_init(struct xk_protocol *self)
{
	struct stopwait *stopwait = (struct stopwait *)self;
	struct xk_participants anybody = { .remote.depth = 0 };
	int err;

	if (stopwait->timeout_max_ns < stopwait->timeout_ns)
		return -EINVAL;
	err = stopwait_session_init_maps(stopwait);
	if (err != 0)
		return err;
	atomic_store_explicit(&stopwait->next_anonymous, (uint32_t)xk_random(self), memory_order_relaxed);
	err = xk_open_enable(self, self, xk_lower(self, 0), &anybody);
	if (err != 0)
		stopwait_session_fini(self);
	return err;
}

/* ---- a new end ---- */

/* Where boots are counted, no two (of 65,536) can draw the same. */
static uint64_t
stopwait_session_draw_id(const struct xk_protocol *self)
{
	uint64_t id = xk_random(self), boots = xk_boots(self);

	if (boots != 0)
		id = boots << 48 | id >> 16;
	return id != 0 ? id : 1;
}

/* Makes s reachable under an identifier that is new. 0 or -errno. */
static int
stopwait_session_bind(struct stopwait *stopwait, struct stopwait_session *s)
{
	int err = -EEXIST;

	for (unsigned tries = 0; err == -EEXIST && tries < 8; tries++) {
		s->id = stopwait_session_draw_id(&stopwait->protocol);
		err = xk_session_bind(&s->session, &stopwait->sessions, stopwait_session_key(s->id, s->ports));
	}
	return err;
}

/* How much of the length that lls says (XK_GET_MAX_PACKET or XK_GET_OPT_PACKET) is left for a message. 0 or -errno. */
static int
stopwait_session_ask_length(struct xk_session *lls, int op, uint32_t *length)
{
	uint32_t below;
	int got = xk_control(lls, op, &below, sizeof(below));

	if (got < 0)
		return got;
	if (below < STOPWAIT_HEADER_LEN)
		return -EMSGSIZE;
	*length = (below < STOPWAIT_LONGEST ? below : STOPWAIT_LONGEST) - STOPWAIT_HEADER_LEN;
	return 0;
}

/* A session over lls; peer: the end that has called, 0: an active one. Takes lls, also on failure. 0 or -errno. */
static int
stopwait_session_new(struct stopwait *stopwait, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		     struct xk_session *lls, uint32_t ports, uint64_t peer, struct stopwait_session **session)
{
	struct xk_protocol *self = &stopwait->protocol;
	struct stopwait_session *s = (struct stopwait_session *)xk_session_new(self, &stopwait_session_ops, sizeof(*s),
									       hlp_receive, hlp_type, lls);
	int err;

	if (s == NULL) {
		xk_close(lls);
		return -ENOMEM;
	}
	xk_event_init(&s->timer, self->kernel, stopwait_expire, s);
	xk_lock_init(&s->lock, self);
	s->ports = ports;
	s->peer = peer;
	s->passive = peer != 0;
	s->known = !s->passive;
	s->last = &s->first;
	err = stopwait_session_ask_length(lls, XK_GET_MAX_PACKET, &s->max_packet);
	if (err == 0)
		err = stopwait_session_bind(stopwait, s);
	if (err != 0)
		xk_close(&s->session);
	else
		*session = s;
	return err;
}

/* ---- opening ---- */

static bool
stopwait_session_is_port(uint64_t port)
{
	return port > 0 && port <= UINT16_MAX;
}

static uint64_t
stopwait_session_anonymous_port(struct stopwait *stopwait)
{
	uint32_t next = atomic_fetch_add_explicit(&stopwait->next_anonymous, 1, memory_order_relaxed);

	return STOPWAIT_ANONYMOUS_FIRST + next % (UINT16_MAX + 1 - STOPWAIT_ANONYMOUS_FIRST);
}

int
stopwait_session_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		      struct xk_participants *participants, struct xk_session **session)
{
	struct stopwait *stopwait = (struct stopwait *)self;
	uint64_t remote = xk_participant_pop(&participants->remote), local = xk_participant_pop(&participants->local);
	struct stopwait_session *s;
	struct xk_session *lls;
	int err;

	if (local == XK_ANY)
		local = stopwait_session_anonymous_port(stopwait);
	if (!stopwait_session_is_port(remote) || !stopwait_session_is_port(local))
		return -EINVAL;
	err = xk_open(self, self, xk_lower(self, 0), participants, &lls); /* may wait */
	if (err == 0)
		err = stopwait_session_new(stopwait, hlp_receive, hlp_type, lls, (uint32_t)(remote << 16 | local), 0,
					   &s);
	if (err == 0)
		*session = &s->session;
	return err;
}

/* What a passive open is remembered by: a port of ours, towards everybody. 0 or -errno. */
static int
stopwait_session_enable_key_of(struct xk_participants *participants, struct xk_key *key)
{
	uint64_t local = xk_participant_pop(&participants->local);

	if (!stopwait_session_is_port(local))
		return -EINVAL;
	if (participants->local.depth != 0 || participants->remote.depth != 0)
		return -EOPNOTSUPP;
	*key = stopwait_session_enable_key((uint16_t)local);
	return 0;
}

int
stopwait_session_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
			     struct xk_participants *participants)
{
	struct xk_key key;
	int err = stopwait_session_enable_key_of(participants, &key);

	return err != 0 ? err : xk_enable_add(&((struct stopwait *)self)->enables, key, hlp_receive, hlp_type);
}

/* Whether somebody is still willing to have the session. */
static bool
stopwait_session_is_wanted(struct xk_session *session, void *context)
{
	struct stopwait *stopwait = context;
	uint16_t local = (uint16_t)((struct stopwait_session *)session)->ports;

	return xk_map_resolve(&stopwait->enables, stopwait_session_enable_key(local)) != NULL;
}

int
stopwait_session_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
			      struct xk_participants *participants)
{
	struct stopwait *stopwait = (struct stopwait *)self;
	struct xk_key key;
	int err = stopwait_session_enable_key_of(participants, &key);

	if (err == 0)
		err = xk_enable_remove(&stopwait->enables, key, hlp_receive, hlp_type);
	if (err == 0)
		xk_session_uncache(self, stopwait_session_is_wanted, stopwait);
	return err;
}

/* ---- finding ---- */

/* A session for the stranger who has called. 0, or the reason to drop the CALL. */
static unsigned
stopwait_session_open_passively(struct stopwait *stopwait, struct xk_session *lls, const struct stopwait_header *h,
				struct stopwait_session **session)
{
	struct xk_key key = stopwait_session_enable_key((uint16_t)h->ports);
	const struct xk_enable *enable = xk_map_resolve(&stopwait->enables, key);
	struct stopwait_session *s;

	if (enable == NULL)
		return XK_DROP_NO_SESSION;
	/* the cache lets go of those that are idle; who makes us send, and does not answer, is bounded here */
	if (xk_map_count(&stopwait->callers) / 2 >= stopwait->protocol.session_max)
		return STOPWAIT_TOO_MANY;
	if (!xk_duplicate(lls))
		return XK_DROP_NO_SESSION;
	if (stopwait_session_new(stopwait, enable->hlp_receive, enable->hlp_type, lls, h->ports, h->from, &s) != 0)
		return XK_DROP_NO_MEMORY;
	if (xk_map_bind(&stopwait->callers, &s->caller, stopwait_session_key(h->from, h->ports), s) != 0) {
		xk_close(&s->session);
		return XK_DROP_NO_MEMORY; /* or another shepherd has done it meanwhile: the caller tries again */
	}
	xk_count(&stopwait->protocol, STOPWAIT_CALLED);
	xk_session_cache(&s->session);
	*session = s;
	return 0;
}

unsigned
stopwait_session_find(struct stopwait *stopwait, struct xk_session *lls, const struct stopwait_header *h,
		      struct stopwait_session **session)
{
	if (h->kind == STOPWAIT_CALL)
		*session = xk_map_resolve(&stopwait->callers, stopwait_session_key(h->from, h->ports));
	else
		*session = xk_map_resolve(&stopwait->sessions, stopwait_session_key(h->to, h->ports));
	if (*session != NULL)
		return (*session)->session.lls == lls ? 0 : STOPWAIT_STALE; /* another host says so */
	return h->kind == STOPWAIT_CALL ? stopwait_session_open_passively(stopwait, lls, h, session)
					: XK_DROP_NO_SESSION;
}

/* ---- closing and asking ---- */

void
stopwait_session_close(struct xk_session *session)
{
	struct stopwait_session *s = (struct stopwait_session *)session;

	stopwait_drop_all(s, STOPWAIT_CLOSED);
	xk_map_unbind(&stopwait_of(s)->callers, &s->caller);
}

int
stopwait_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	uint32_t length;
	int err;

	if (op != XK_GET_MAX_PACKET && op != XK_GET_OPT_PACKET)
		return -ENOTSUP;
	err = stopwait_session_ask_length(session->lls, op, &length);
	return err != 0 ? err : xk_answer(buffer, len, &length, sizeof(length));
}

int
stopwait_session_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	uint32_t ports = ((const struct stopwait_session *)session)->ports;

	if (!xk_participant_push(&participants->remote, ports >> 16) ||
	    !xk_participant_push(&participants->local, ports & UINT16_MAX))
		return -E2BIG;
	return 0;
}
