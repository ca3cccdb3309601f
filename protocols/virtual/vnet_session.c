/*
 * vnet_session.c - how VNET's sessions are made, and found by host; see vnet_private.h.
 *
 * A session has a reference on a session of the link and may stand there (above): then messages come up it without a map.
 * Opened sessions are also in a hash table by host, under vnet's lock.
 */
#include <errno.h>

#include "protocols/eth.h"
#include "protocols/virtual/vnet_private.h"

int
vnet_session_open_link(struct vnet *vnet, unsigned interface, struct xk_protocol *hlp_type, uint64_t link,
		       struct xk_session **lls)
{
	struct xk_participants participants = { .remote.depth = 0 };

	xk_participant_push(&participants.remote, link);
	return xk_open(&vnet->protocol, hlp_type, vnet_link(vnet, interface), &participants, lls);
}

/* The interface whose link lls is a session of. */
static unsigned
vnet_session_interface_of(const struct vnet *vnet, const struct xk_session *lls)
{
	unsigned i = 0;

	while (i + 1 < vnet->interface_count && vnet->protocol.lowers[i * VNET_ROLES + VNET_LINK] != lls->up)
		i++;
	return i;
}

int
vnet_session_setup(struct xk_session *s, const void *how)
{
	struct vnet_session *vs = vnet_session_of(s);
	const unsigned *interface = how;

	vs->interface = interface != NULL ? *interface : vnet_session_interface_of(vnet_of(s->protocol), s->lls);
	xk_lock_init(&vs->lock, s->protocol);
	if (s->lls == NULL || xk_control(s->lls, XK_GET_PEER_LINK, &vs->link, sizeof(vs->link)) < 0)
		vs->link = 0;
	vnet_set_host(vs, XK_ANY);
	return 0;
}

/* A new session on lls (NULL: none), in no table. Takes the caller's reference on lls. NULL: no memory. */
static struct xk_session *
vnet_session_new(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, unsigned interface,
		 struct xk_session *lls)
{
	struct xk_session *s =
		xk_session_new(&vnet->protocol, vnet->protocol.type->session_ops, hlp_receive, hlp_type, lls);

	if (s == NULL)
		xk_close(lls);
	else
		vnet_session_setup(s, &interface);
	return s;
}

void
vnet_session_stand(struct xk_session *s, struct xk_session *lls)
{
	struct xk_session *expected = NULL;

	atomic_compare_exchange_strong_explicit(&lls->above, &expected, s, memory_order_release, memory_order_relaxed);
}

void
vnet_session_leave(struct xk_session *s, struct xk_session *lls)
{
	struct xk_session *expected = s;

	atomic_compare_exchange_strong_explicit(&lls->above, &expected, NULL, memory_order_release,
						memory_order_relaxed);
}

/* ---- opened sessions by host ---- */

static struct vnet_session **
vnet_session_bucket(struct vnet *vnet, uint64_t host)
{
	return &vnet->buckets[host * UINT64_C(0x9e3779b97f4a7c15) >> 32 & vnet->bucket_mask];
}

/* Finds the live session of hlp_type with host and takes a reference on it. Under the lock. */
static struct xk_session *
vnet_session_find_opened(struct vnet *vnet, unsigned interface, uint64_t host, const struct xk_protocol *hlp_type)
{
	for (struct vnet_session *vs = *vnet_session_bucket(vnet, host); vs != NULL; vs = vs->next)
		if (vnet_host(vs) == host && vs->interface == interface && vs->session.hlp_type == hlp_type &&
		    xk_duplicate(&vs->session))
			return &vs->session;
	return NULL;
}

unsigned
vnet_session_find_followers(struct vnet *vnet, unsigned interface, uint64_t host, unsigned skip,
			    struct xk_session **found)
{
	unsigned count = 0;

	xk_lock(&vnet->lock);
	for (struct vnet_session *vs = *vnet_session_bucket(vnet, host); vs != NULL && count < VNET_FOUND;
	     vs = vs->next) {
		if (vnet_host(vs) != host || vs->interface != interface)
			continue;
		if (skip > 0)
			skip--;
		else if (xk_duplicate(&vs->session))
			found[count++] = &vs->session;
	}
	xk_unlock(&vnet->lock);
	return count;
}

void
vnet_session_add(struct vnet *vnet, struct vnet_session *vs, uint64_t host)
{
	struct vnet_session **bucket = vnet_session_bucket(vnet, host);

	vnet_set_host(vs, host);
	vs->next = *bucket;
	*bucket = vs;
}

static void
vnet_session_remove(struct vnet *vnet, struct vnet_session *vs)
{
	xk_lock(&vnet->lock);
	if (vnet_host(vs) != XK_ANY) {
		struct vnet_session **at = vnet_session_bucket(vnet, vnet_host(vs));

		while (*at != vs)
			at = &(*at)->next;
		*at = vs->next;
	}
	xk_unlock(&vnet->lock);
}

/* ---- opening ---- */

/* Gives the caller's reference on s to an opener if s is hlp_receive's. 0 or -EADDRINUSE. */
static int
vnet_session_share(struct xk_session *s, const struct xk_protocol *hlp_receive, struct xk_session **session)
{
	if (xk_hlp_receive(s) != hlp_receive) {
		xk_close(s);
		return -EADDRINUSE;
	}
	*session = s;
	return 0;
}

/* Makes the new session s that of host, or shares that of a shepherd who was faster. Takes s. 0 or -EADDRINUSE. */
static int
vnet_session_publish(struct vnet *vnet, struct xk_session *s, uint64_t host, struct xk_session **session)
{
	struct vnet_session *vs = vnet_session_of(s);
	struct xk_protocol *hlp_receive = xk_hlp_receive(s);
	struct xk_session *other;

	xk_lock(&vnet->lock);
	other = vnet_session_find_opened(vnet, vs->interface, host, s->hlp_type);
	if (other == NULL)
		vnet_session_add(vnet, vs, host);
	xk_unlock(&vnet->lock);
	if (other == NULL) {
		*session = s;
		return 0;
	}
	xk_close(s);
	return vnet_session_share(other, hlp_receive, session);
}

/* Makes a session to host, which is at `link`. 0 or -errno. */
static int
vnet_session_make(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, unsigned interface,
		  uint64_t host, uint64_t link, struct xk_session **session)
{
	struct xk_session *lls, *s;
	int status = vnet_session_open_link(vnet, interface, hlp_type, link, &lls);

	if (status != 0)
		return status;
	s = vnet_session_new(vnet, hlp_receive, hlp_type, interface, lls);
	if (s == NULL)
		return -ENOMEM;
	if (!vnet_is_enabled(vnet, hlp_type))
		vnet_session_stand(s, lls);
	return vnet_session_publish(vnet, s, host, session);
}

int
vnet_session_open(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, unsigned interface,
		  uint64_t host, uint64_t link, struct xk_session **session)
{
	struct xk_session *s;
	int status;

	xk_lock(&vnet->lock);
	s = vnet_session_find_opened(vnet, interface, host, hlp_type);
	xk_unlock(&vnet->lock);
	if (s != NULL)
		status = vnet_session_share(s, hlp_receive, session);
	else
		status = vnet_session_make(vnet, hlp_receive, hlp_type, interface, host, link, session);
	if (status == 0 && link != XK_ETH_BROADCAST)
		vnet_follow(vnet, *session);
	return status;
}

int
vnet_session_open_lazy(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		       unsigned interface, uint32_t host, struct xk_session **session)
{
	struct xk_session *s = vnet_session_new(vnet, hlp_receive, hlp_type, interface, NULL);

	if (s == NULL)
		return -ENOMEM;
	vnet_set_host(vnet_session_of(s), host);
	atomic_store_explicit(&s->binding.watched, true, memory_order_relaxed);
	*session = s;
	return 0;
}

/* A push that is under way meanwhile goes to lls, which stays as long. */
void
vnet_session_close(struct xk_session *s)
{
	if (s->lls == NULL) /* a lazy one, which is in no table */
		return;
	vnet_session_remove(vnet_of(s->protocol), vnet_session_of(s));
	vnet_follow_end(s);
}
