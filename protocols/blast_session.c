/*
 * blast_session.c - how sessions of BLAST come to be: opened from above, or by a stranger's message; see blast.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "protocols/blast_private.h"

/* ---- peers ---- */

void
blast_peer_init(struct blast *blast, struct blast_peer *peer)
{
	xk_semaphore_init(&peer->slots, &blast->protocol, (unsigned)blast->outstanding_peer);
	blast_list_init(&peer->copies);
}

/*
 * Returns the key of the peer of lls: its station, which is the same for a neighbour that VNET hears and one that was
 * opened, or else its host.
 */
static struct xk_key
blast_peer_key(struct xk_session *lls)
{
	uint64_t peer;

	if (xk_control(lls, XK_GET_PEER_LINK, &peer, sizeof(peer)) == sizeof(peer))
		return (struct xk_key){ peer, XK_GET_PEER_LINK };
	if (xk_control(lls, XK_GET_PEER_HOST, &peer, sizeof(peer)) == sizeof(peer))
		return (struct xk_key){ peer, XK_GET_PEER_HOST };
	return (struct xk_key){ (uintptr_t)lls, 0 };
}

/* Returns a new confirmed peer without references. NULL: no memory. The lock is held. */
static struct blast_peer *
blast_peer_new(struct blast *blast, struct xk_key key)
{
	struct blast_peer *peer = calloc(1, sizeof(*peer));

	if (peer == NULL)
		return NULL;
	blast_peer_init(blast, peer);
	if (xk_map_bind(&blast->peers, &peer->binding, key, peer) == 0)
		return peer;
	free(peer);
	return NULL;
}

static void
blast_peer_free(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct blast_peer, retired));
}

/* Moves s from the strangers to its peer if that is confirmed, or confirms it first (`confirms`). */
static void
blast_session_join(struct blast_session *s, bool confirms)
{
	struct blast *blast = blast_of(s);
	struct xk_key key = blast_peer_key(s->session.lls);
	struct blast_peer *peer;

	xk_lock(&blast->lock);
	peer = blast_session_is_confirmed(s) ? NULL : xk_map_resolve(&blast->peers, key);
	if (peer == NULL && confirms && !blast_session_is_confirmed(s))
		peer = blast_peer_new(blast, key);
	if (peer != NULL) {
		peer->references++;
		atomic_store_explicit(&s->peer, peer, memory_order_release);
	}
	xk_unlock(&blast->lock);
}

void
blast_session_confirm(struct blast_session *s)
{
	if (!blast_session_is_confirmed(s))
		blast_session_join(s, true);
}

void
blast_session_close(struct xk_session *session)
{
	struct blast_session *s = (struct blast_session *)session;
	struct blast *blast = blast_of(s);
	struct blast_peer *peer = atomic_load_explicit(&s->peer, memory_order_relaxed);

	if (peer == &blast->strangers)
		return;
	xk_lock(&blast->lock);
	if (--peer->references == 0) {
		xk_map_unbind(&blast->peers, &peer->binding);
		xk_retire(blast->protocol.kernel, &peer->retired, blast_peer_free);
	}
	xk_unlock(&blast->lock);
}

/* ---- sessions ---- */

int
blast_fragment_size(int got, uint32_t below, uint32_t *size)
{
	if (got < 0)
		return got;
	if (below <= BLAST_HEADER_LEN)
		return -EMSGSIZE;
	*size = below - BLAST_HEADER_LEN < BLAST_FRAGMENT_MAX ? below - BLAST_HEADER_LEN : BLAST_FRAGMENT_MAX;
	return 0;
}

/* The longest message that the protocol below does not divide, or where it cannot say, that it carries. 0 or -errno. */
static int
blast_ask_fragment_size(struct xk_session *lls, uint32_t *size)
{
	uint32_t below = 0;
	int got = xk_control(lls, XK_GET_OPT_PACKET, &below, sizeof(below));

	if (got < 0)
		got = xk_control(lls, XK_GET_MAX_PACKET, &below, sizeof(below));
	return blast_fragment_size(got, below, size);
}

/* A session over lls, bound. Takes lls, also on failure. 0 or -errno; -EEXIST: somebody was faster. */
static int
blast_session_new(struct blast *blast, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		  struct xk_session *lls, uint32_t number, struct blast_session **session)
{
	struct xk_protocol *self = &blast->protocol;
	struct blast_session *s = (struct blast_session *)xk_session_new(self, &blast_session_ops, sizeof(*s),
									 hlp_receive, hlp_type, lls);
	int err;

	if (s == NULL) {
		xk_close(lls);
		return -ENOMEM;
	}
	s->number = number;
	blast_list_init(&s->partials);
	atomic_store_explicit(&s->peer, &blast->strangers, memory_order_relaxed);
	blast_session_join(s, false);
	err = blast_ask_fragment_size(lls, &s->fragment_size);
	if (err == 0)
		err = xk_session_bind(&s->session, &blast->sessions, blast_key(lls, number));
	if (err != 0)
		xk_close(&s->session);
	else
		*session = s;
	return err;
}

/* What hlps get that open over lls: the session that is there, or a new one. Takes lls. 0 or -errno. */
static int
blast_session_get(struct blast *blast, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		  struct xk_session *lls, uint32_t number, struct xk_session **session)
{
	struct xk_key key = blast_key(lls, number);
	struct blast_session *s;
	int err = xk_session_share(&blast->sessions, key, hlp_receive, hlp_type, session);

	if (err != -ENOENT) {
		xk_close(lls);
		return err;
	}
	err = blast_session_new(blast, hlp_receive, hlp_type, lls, number, &s);
	if (err == 0)
		*session = &s->session;
	else if (err == -EEXIST)
		err = xk_session_share(&blast->sessions, key, hlp_receive, hlp_type, session);
	return err == -ENOENT ? -EAGAIN : err;
}

/* ---- opening ---- */

int
blast_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	   struct xk_participants *participants, struct xk_session **session)
{
	struct blast *blast = (struct blast *)self;
	struct xk_session *lls;
	uint32_t number;
	int err = xk_number(self, hlp_type, &number);

	if (err == 0)
		err = xk_open(self, self, xk_lower(self, 0), participants, &lls); /* may wait */
	if (err == 0)
		err = blast_session_get(blast, hlp_receive, hlp_type, lls, number, session);
	if (err == 0)
		blast_session_confirm((struct blast_session *)*session);
	return err;
}

/* Enables below, too, and only then: over VNET what is not enabled comes up the sessions that were opened. */
int
blast_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		  struct xk_participants *participants)
{
	struct blast *blast = (struct blast *)self;
	uint32_t number;
	int err = xk_number(self, hlp_type, &number);

	if (err == 0)
		err = xk_enable_add(&blast->enables, blast_enable_key(number), hlp_receive, hlp_type);
	if (err != 0)
		return err;
	err = xk_open_enable(self, self, xk_lower(self, 0), participants);
	if (err != 0)
		xk_enable_remove(&blast->enables, blast_enable_key(number), hlp_receive, hlp_type);
	return err;
}

/* Whether somebody is still willing to have the session. */
static bool
blast_is_wanted(struct xk_session *session, void *context)
{
	struct blast *blast = context;
	uint32_t number = ((struct blast_session *)session)->number;

	return xk_map_resolve(&blast->enables, blast_enable_key(number)) != NULL;
}

int
blast_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		   struct xk_participants *participants)
{
	struct blast *blast = (struct blast *)self;
	uint32_t number;
	int err = xk_number(self, hlp_type, &number);

	if (err == 0)
		err = xk_enable_remove(&blast->enables, blast_enable_key(number), hlp_receive, hlp_type);
	if (err != 0)
		return err;
	xk_session_uncache(self, blast_is_wanted, blast);
	return xk_open_disable(self, self, xk_lower(self, 0), participants);
}

/* ---- strangers ---- */

unsigned
blast_open_passively(struct blast *blast, struct xk_session *lls, const struct blast_header *h,
		     struct blast_session **session)
{
	const struct xk_enable *enable = xk_map_resolve(&blast->enables, blast_enable_key(h->protocol));
	int err;

	if (enable == NULL || !xk_duplicate(lls))
		return XK_DROP_NO_SESSION;
	err = blast_session_new(blast, enable->hlp_receive, enable->hlp_type, lls, h->protocol, session);
	if (err == -EEXIST) { /* another shepherd's, if it is left */
		*session = xk_map_resolve(&blast->sessions, blast_key(lls, h->protocol));
		return *session != NULL ? 0 : XK_DROP_NO_SESSION;
	}
	if (err != 0)
		return err == -ENOMEM ? XK_DROP_NO_MEMORY : XK_DROP_NO_SESSION;
	return xk_session_announce(&(*session)->session) != 0 ? XK_DROP_REFUSED : 0;
}
