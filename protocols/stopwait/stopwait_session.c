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

#include "protocols/stopwait/stopwait_private.h"

static struct xk_key
stopwait_session_key(uint64_t id, uint32_t ports)
{
	return (struct xk_key){ id, ports };
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
	xk_map_for_each(&self->table.sessions, stopwait_session_forget, NULL);
	xk_map_fini(&((struct stopwait *)self)->callers);
}

int
stopwait_session_init(struct xk_protocol *self)
{
	struct stopwait *stopwait = (struct stopwait *)self;
	struct xk_participants anybody = { .remote.depth = 0 };
	int err;

	if (stopwait->timeout_max_ns < stopwait->timeout_ns)
		return -EINVAL;
	err = xk_map_init(&stopwait->callers, self->kernel, 16);
	if (err != 0)
		return err;
	atomic_store_explicit(&stopwait->next_anonymous, (uint32_t)xk_random(self), memory_order_relaxed);
	err = xk_open_enable(self, self, xk_lower(self, 0), &anybody);
	if (err != 0)
		xk_map_fini(&stopwait->callers);
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

/*
 * Adds a session that messages with the ports of h are for. h.from is the end that has called; 0: the session is an active
 * one, and its peer not known yet. h.to, its own identifier, is drawn here. Takes lls, also on failure. 0 or -errno.
 */
static int
stopwait_session_new(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		     struct xk_session *lls, struct stopwait_header h, struct xk_session **session)
{
	struct xk_key key;
	unsigned tries = 0;

	do {
		h.to = stopwait_session_draw_id(self);
		key = stopwait_session_key(h.to, h.ports);
	} while (xk_table_find(self, key) != NULL && ++tries < 8);
	return xk_table_add(self, key, hlp_receive, hlp_type, lls, &h, session);
}

int
stopwait_session_setup(struct xk_session *session, const void *how)
{
	struct stopwait_session *s = (struct stopwait_session *)session;
	const struct stopwait_header *h = how;
	uint32_t below;
	int got;

	xk_event_init(&s->timer, session->protocol->kernel, stopwait_expire, s);
	xk_lock_init(&s->lock, session->protocol);
	s->id = h->to;
	s->ports = h->ports;
	s->peer = h->from;
	s->passive = h->from != 0;
	s->known = !s->passive;
	s->last = &s->first;
	got = xk_control(session->lls, XK_GET_MAX_PACKET, &below, sizeof(below));
	if (got < 0)
		return got;
	if (below < STOPWAIT_HEADER_LEN)
		return -EMSGSIZE;
	s->max_packet = (below < STOPWAIT_LONGEST ? below : STOPWAIT_LONGEST) - STOPWAIT_HEADER_LEN;
	return 0;
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
	uint64_t remote = xk_participant_pop(&participants->remote), local = xk_participant_pop(&participants->local);
	struct stopwait_header h = { .from = 0 };
	struct xk_session *lls;
	int err;

	if (local == XK_ANY)
		local = stopwait_session_anonymous_port((struct stopwait *)self);
	if (!stopwait_session_is_port(remote) || !stopwait_session_is_port(local))
		return -EINVAL;
	err = xk_open(self, self, xk_lower(self, 0), participants, &lls); /* may wait */
	if (err != 0)
		return err;
	h.ports = (uint32_t)(remote << 16 | local);
	return stopwait_session_new(self, hlp_receive, hlp_type, lls, h, session);
}

/* A port of ours is enabled for any host. */
int
stopwait_session_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type,
			     struct xk_participants *participants, struct xk_key *key)
{
	uint64_t local = xk_participant_pop(&participants->local);

	if (!stopwait_session_is_port(local))
		return -EINVAL;
	if (participants->local.depth != 0 || participants->remote.depth != 0)
		return -EOPNOTSUPP;
	*key = xk_table_number_key((uint32_t)local);
	return 0;
}

struct xk_key
stopwait_session_passive_key_of(const struct xk_session *session)
{
	return xk_table_number_key((uint16_t)((const struct stopwait_session *)session)->ports);
}

/* ---- finding ---- */

/*
 * A session for the stranger who has called; it is announced with its first message. 0, or the reason to drop the CALL.
 */
XK_APART static unsigned
stopwait_session_accept(struct stopwait *stopwait, struct xk_session *lls, const struct stopwait_header *h,
			struct xk_session **session)
{
	struct xk_protocol *self = &stopwait->protocol;
	const struct xk_enable *enable = xk_table_enabled(self, xk_table_number_key((uint16_t)h->ports));
	struct xk_session *s;

	if (enable == NULL)
		return XK_DROP_NO_SESSION;
	/* the cache lets go of those that are idle; who makes us send, and does not answer, is bounded here */
	if (xk_map_count(&stopwait->callers) / 2 >= self->session_max)
		return STOPWAIT_TOO_MANY;
	if (!xk_duplicate(lls))
		return XK_DROP_NO_SESSION;
	if (stopwait_session_new(self, enable->hlp_receive, enable->hlp_type, lls, *h, &s) != 0)
		return XK_DROP_NO_MEMORY;
	if (xk_map_bind(&stopwait->callers, &((struct stopwait_session *)s)->caller,
			stopwait_session_key(h->from, h->ports), s) != 0) {
		xk_close(s);
		return XK_DROP_NO_MEMORY; /* or another shepherd has done it meanwhile: the caller tries again */
	}
	xk_count(self, STOPWAIT_CALLED);
	xk_session_cache(s);
	*session = s;
	return 0;
}

unsigned
stopwait_session_find(struct xk_protocol *self, struct xk_session *lls, const struct stopwait_header *h,
		      struct xk_session **session)
{
	struct stopwait *stopwait = (struct stopwait *)self;
	bool calls = h->kind == STOPWAIT_CALL;

	if (calls)
		*session = xk_map_resolve(&stopwait->callers, stopwait_session_key(h->from, h->ports));
	else
		*session = xk_table_find(self, stopwait_session_key(h->to, h->ports));
	if (*session != NULL)
		return (*session)->lls == lls ? 0 : STOPWAIT_STALE; /* another host says so */
	return calls ? stopwait_session_accept(stopwait, lls, h, session) : XK_DROP_NO_SESSION;
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
	const struct stopwait_session *s = (const struct stopwait_session *)session;

	return op != XK_GET_MAX_PACKET ? -ENOTSUP : xk_answer(buffer, len, &s->max_packet, sizeof(s->max_packet));
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
