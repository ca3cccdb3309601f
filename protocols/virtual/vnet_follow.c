/*
 * vnet_follow.c - lets VNET's sessions follow a neighbour whose link address changes, as ARP tells; see vnet.c.
 *
 * moved, link and is_stale are under the session's lock; binding.watched tells a push without the lock whether it must
 * look at them. No lock is held across a call of ARP or of the link.
 */
#include <errno.h>

#include "protocols/virtual/vnet_private.h"
#include "xkernel/trace.h"

/* A session tries so often to keep up with an address that goes on changing, then leaves that to its next push. */
enum { VNET_TRIES = 1000 };

/* Under the session's lock. */
static void
vnet_set_watched(struct vnet_session *vs)
{
	atomic_store_explicit(&vs->session.binding.watched, vs->moved != NULL || vs->is_stale, memory_order_relaxed);
}

struct xk_session *
vnet_follow_take(struct vnet_session *vs)
{
	struct xk_session *lls;

	xk_lock(&vs->lock);
	lls = vs->moved;
	if (lls != NULL && !xk_duplicate(lls))
		lls = NULL;
	xk_unlock(&vs->lock);
	return lls;
}

/*
 * Makes s push on `to` (NULL: on lls), whose address is link, and if `stands`, receive what comes up there. Takes the
 * caller's reference on `to`; returns what s has pushed on instead of lls, for the caller to close.
 */
static struct xk_session *
vnet_replace(struct xk_session *s, struct xk_session *to, uint64_t link, bool stands)
{
	struct vnet_session *vs = vnet_session_of(s);
	struct xk_session *before;

	xk_lock(&vs->lock);
	before = vs->moved;
	vnet_session_leave(s, s->lls);
	if (before != NULL)
		vnet_session_leave(s, before);
	if (stands)
		vnet_session_stand(s, to != NULL ? to : s->lls);
	vs->moved = to;
	vs->link = link;
	vnet_set_watched(vs);
	xk_unlock(&vs->lock);
	return before;
}

void
vnet_follow_end(struct xk_session *s)
{
	xk_close(vnet_replace(s, NULL, 0, false));
}

/*
 * Makes s push to another link address. It leaves lls and the table: whatever else comes from the old address must not
 * be answered elsewhere. 0 or -errno.
 */
static int
vnet_move(struct vnet *vnet, struct xk_session *s, uint64_t link)
{
	struct xk_session *lls;
	int status = vnet_session_open_link(vnet, vnet_session_of(s)->interface, s->hlp_type, link, &lls);

	if (status != 0)
		return status;
	if (s->map != NULL)
		xk_map_unbind(s->map, &s->binding);
	if (lls == s->lls) {
		xk_close(lls);
		lls = NULL;
	}
	xk_close(vnet_replace(s, lls, link, !vnet_is_enabled(vnet, s->hlp_type)));
	xk_count(&vnet->protocol, VNET_COUNT_MOVED);
	xk_trace(&vnet->protocol, XK_TRACE_EVENTS, "%08x is at %012llx now", (uint32_t)vnet_host(vnet_session_of(s)),
		 (unsigned long long)link);
	return 0;
}

uint64_t
vnet_follow_link(struct vnet_session *vs)
{
	uint64_t link;

	xk_lock(&vs->lock);
	link = vs->link;
	xk_unlock(&vs->lock);
	return link;
}

static void
vnet_set_stale(struct vnet_session *vs, bool is_stale)
{
	xk_lock(&vs->lock);
	vs->is_stale = is_stale;
	vnet_set_watched(vs);
	xk_unlock(&vs->lock);
}

/* Makes s, on which the caller has a reference, push where ARP says, until that changes no more. False: it failed. */
static bool
vnet_follow_now(struct vnet *vnet, struct xk_session *s)
{
	struct vnet_session *vs = vnet_session_of(s);

	for (unsigned i = 0; i < VNET_TRIES; i++) {
		uint64_t link = vnet_follow_link(vs), known = link;

		if (xk_arp_follow(vnet_resolver(vnet, vs->interface), (uint32_t)vnet_host(vs), &known) != 0)
			return false;
		if (known == link)
			return true;
		if (vnet_move(vnet, s, known) != 0)
			return false;
	}
	return false;
}

void
vnet_follow(struct vnet *vnet, struct xk_session *s)
{
	if (!vnet_follow_now(vnet, s))
		vnet_set_stale(vnet_session_of(s), true);
}

void
vnet_follow_changed(const struct xk_arp_follower *follower, uint32_t host)
{
	struct vnet *vnet = vnet_of(follower->protocol);
	struct xk_session *found[VNET_FOUND];
	unsigned count, done = 0;

	do {
		count = vnet_session_find_followers(vnet, follower->interface, host, done, found);
		for (unsigned i = 0; i < count; i++) {
			vnet_follow(vnet, found[i]);
			xk_session_release(found[i]);
		}
		done += count;
	} while (count == VNET_FOUND);
}

void
vnet_follow_ask(struct vnet *vnet, struct vnet_session *vs)
{
	struct xk_protocol *arp = vnet_resolver(vnet, vs->interface);
	int status;

	vnet_set_stale(vs, false);
	status = xk_arp_ask(arp, (uint32_t)vnet_host(vs), vnet_follow_link(vs));
	if (status != 0 && status != -EINPROGRESS)
		vnet_set_stale(vs, true);
}

int
vnet_follow_opened(struct vnet *vnet, struct xk_session *s, const uint64_t *host)
{
	struct vnet_session *vs = vnet_session_of(s);
	unsigned interface = vs->interface;
	bool follows;

	if (s->lls == NULL ||
	    xk_vnet_kind(&vnet->interfaces[interface], 1, (uint32_t)*host, &(unsigned){ 0 }) != XK_VNET_ON_LINK)
		return 0;
	xk_lock(&vnet->lock);
	follows = vnet_host(vs) == XK_ANY;
	if (follows)
		vnet_session_add(vnet, vs, *host);
	xk_unlock(&vnet->lock);
	if (follows)
		vnet_follow_ask(vnet, vs);
	return 0;
}
