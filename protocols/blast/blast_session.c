/*
 * blast_session.c - how sessions of BLAST come to be: opened from above, or by a stranger's message; see blast.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "protocols/blast/blast_private.h"

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

int
blast_session_setup(struct xk_session *session, const void *number)
{
	struct blast_session *s = (struct blast_session *)session;
	uint32_t below = 0;
	int got;

	s->number = *(const uint32_t *)number;
	blast_list_init(&s->partials);
	atomic_store_explicit(&s->peer, &blast_of(s)->strangers, memory_order_relaxed);
	blast_session_join(s, false);
	got = xk_control(session->lls, XK_GET_OPT_PACKET, &below, sizeof(below));
	if (got < 0)
		got = xk_control(session->lls, XK_GET_MAX_PACKET, &below, sizeof(below));
	return blast_fragment_size(got, below, &s->fragment_size);
}

/* ---- opening ---- */

int
blast_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	   struct xk_participants *participants, struct xk_session **session)
{
	struct xk_session *lls;
	uint32_t number;
	int err = xk_number(self, hlp_type, &number);

	if (err == 0)
		err = xk_open(self, self, xk_lower(self, 0), participants, &lls); /* may wait */
	if (err == 0)
		err = xk_table_open(self, blast_key(lls, number), hlp_receive, hlp_type, lls, &number, session);
	if (err == 0)
		blast_session_confirm((struct blast_session *)*session);
	return err;
}

/* Enables below, too, and only then: over VNET what is not enabled comes up the sessions that were opened. */
int
blast_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		  struct xk_participants *participants)
{
	int err = xk_table_enable(self, hlp_receive, hlp_type, participants);

	if (err != 0)
		return err;
	err = xk_open_enable(self, self, xk_lower(self, 0), participants);
	if (err != 0)
		xk_table_disable(self, hlp_receive, hlp_type, participants);
	return err;
}

int
blast_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		   struct xk_participants *participants)
{
	int err = xk_table_disable(self, hlp_receive, hlp_type, participants);

	return err != 0 ? err : xk_open_disable(self, self, xk_lower(self, 0), participants);
}
