/*
 * vnet_private.h - the state of VNET, shared by vnet.c (opening, enabling, pushing, asking), vnet_session.c (how
 * sessions are made and found by host) and vnet_follow.c (neighbours whose link address changes).
 */
#ifndef XK_VNET_PRIVATE_H
#define XK_VNET_PRIVATE_H

#include "protocols/arp/arp.h"
#include "protocols/virtual/vnet.h"
#include "xkernel/virtual.h"

enum { VNET_FOUND = 16 /* sessions with one host that are looked at together */ };

enum { VNET_LINK, VNET_RESOLVER, VNET_ROLES };

enum { VNET_COUNT_TO_SELF, VNET_COUNT_MOVED };

struct vnet {
	struct xk_protocol protocol;
	struct xk_network addresses[XK_VNET_INTERFACES];
	unsigned interface_count;
	struct xk_vnet_interface interfaces[XK_VNET_INTERFACES];
	struct xk_lock lock; /* protects the buckets; taken before a session's lock */
	unsigned bucket_mask;
	struct vnet_session **buckets; /* opened sessions, by host: several uppers may have opened the same */
};

/* The table (xkernel/table.h) has the sessions that frames have caused, the buckets have those that were opened. */
struct vnet_session {
	struct xk_session session; /* binding.watched: a push must look at moved and is_stale */
	unsigned interface;        /* index */
	_Atomic uint64_t host;     /* the neighbour; XK_ANY: a frame has caused the session, and nobody has opened it */
	struct vnet_session *next; /* in its bucket */
	struct xk_lock lock;       /* protects what follows */
	struct xk_session *moved;  /* receives pushes instead of lls; a reference. NULL: lls does */
	uint64_t link;             /* the link address that pushes go to */
	bool is_stale;             /* the next push asks for the address */
};

static inline struct vnet *
vnet_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct vnet, protocol);
}

static inline struct vnet_session *
vnet_session_of(struct xk_session *s)
{
	return xk_container_of(s, struct vnet_session, session);
}

static inline uint64_t
vnet_host(const struct vnet_session *vs)
{
	return atomic_load_explicit(&vs->host, memory_order_relaxed);
}

static inline void
vnet_set_host(struct vnet_session *vs, uint64_t host)
{
	atomic_store_explicit(&vs->host, host, memory_order_relaxed);
}

static inline struct xk_protocol *
vnet_link(struct vnet *vnet, unsigned interface)
{
	return xk_lower(&vnet->protocol, interface * VNET_ROLES + VNET_LINK);
}

static inline struct xk_protocol *
vnet_resolver(struct vnet *vnet, unsigned interface)
{
	return xk_lower(&vnet->protocol, interface * VNET_ROLES + VNET_RESOLVER);
}

static inline bool
vnet_is_enabled(struct vnet *vnet, const struct xk_protocol *hlp_type)
{
	return xk_table_enabled(&vnet->protocol, xk_virtual_passive_key(hlp_type)) != NULL;
}

/* ---- vnet_session.c ---- */

/* Opens the link's session to link address `link`, with a reference for the caller. 0 or -errno. */
int vnet_session_open_link(struct vnet *vnet, unsigned interface, struct xk_protocol *hlp_type, uint64_t link,
			   struct xk_session **lls);

/* Directs messages that come up lls to s, unless another session stands there. */
void vnet_session_stand(struct xk_session *s, struct xk_session *lls);
/* Ends that. */
void vnet_session_leave(struct xk_session *s, struct xk_session *lls);

/* Adds vs to the opened sessions of host. Under vnet's lock. */
void vnet_session_add(struct vnet *vnet, struct vnet_session *vs, uint64_t host);

/*
 * Finds the live opened sessions of host, of all types, skipping the first `skip`; takes a reference on each. Returns
 * how many: at most VNET_FOUND.
 */
unsigned vnet_session_find_followers(struct vnet *vnet, unsigned interface, uint64_t host, unsigned skip,
				     struct xk_session **found);

/* Opens a session to host, which is or was just at `link`: shared with the same hlps, or new. 0 or -errno. */
int vnet_session_open(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		      unsigned interface, uint64_t host, uint64_t link, struct xk_session **session);

/* Makes a session as XK_VNET_LAZY asks for. 0 or -ENOMEM. */
int vnet_session_open_lazy(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
			   unsigned interface, uint32_t host, struct xk_session **session);

/* Session operations. how: the index of the interface (unsigned); NULL: the interface of the session below. */
int vnet_session_setup(struct xk_session *s, const void *how);
void vnet_session_close(struct xk_session *s);

/* ---- vnet_follow.c ---- */

/* Lets s, on which the caller has a reference, push to the address that ARP knows, or ask at its next push. */
void vnet_follow(struct vnet *vnet, struct xk_session *s);

/* ARP calls this when it knows host by another link address, or does not know it any more. */
void vnet_follow_changed(const struct xk_arp_follower *follower, uint32_t host);

/* Answers XK_VNET_FOLLOW: an upper has opened s, which a frame has caused, for `host`. 0. */
int vnet_follow_opened(struct vnet *vnet, struct xk_session *s, const uint64_t *host);

/* Asks ARP for the address of vs, for a push that has found it stale. Any context. */
void vnet_follow_ask(struct vnet *vnet, struct vnet_session *vs);

/* The session that vs pushes on instead of lls, with a reference for the caller; NULL: lls. Any context. */
struct xk_session *vnet_follow_take(struct vnet_session *vs);

/* The link address that vs pushes to. */
uint64_t vnet_follow_link(struct vnet_session *vs);

/* Ends following for s, which is being closed: it pushes on lls again and stands nowhere. */
void vnet_follow_end(struct xk_session *s);

#endif
