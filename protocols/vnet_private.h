/*
 * vnet_private.h - the state of VNET, shared by vnet.c (whom an open, a frame and a push are for), vnet_session.c (how
 * sessions come to be, and which of them is meant) and vnet_follow.c (neighbours whose link address changes).
 */
#ifndef XK_VNET_PRIVATE_H
#define XK_VNET_PRIVATE_H

#include "protocols/arp.h"
#include "protocols/vnet.h"

enum { VNET_FOUND = 16 /* sessions with one host that are looked at together */ };

enum { VNET_LINK, VNET_RESOLVER, VNET_ROLES };

enum { VNET_COUNT_TO_SELF, VNET_COUNT_MOVED };

struct vnet {
	struct xk_protocol protocol;
	struct xk_network addresses[XK_VNET_INTERFACES];
	unsigned interface_count;
	struct xk_vnet_interface interfaces[XK_VNET_INTERFACES];
	struct xk_map active;  /* the link's session: vnet_session that a frame has caused */
	struct xk_map passive; /* hlp_type: xk_enable */
	struct xk_lock lock;   /* of what follows; before that of a session */
	unsigned bucket_mask;
	struct vnet_session **buckets; /* what has been opened, by its host */
};

/* binding.watched says that a push must look at what is under the lock. */
struct vnet_session {
	struct xk_session session;
	unsigned interface;        /* index */
	_Atomic uint64_t host;     /* the neighbour; XK_ANY: a frame has caused it, and nobody has opened it */
	struct vnet_session *next; /* in its bucket */
	struct xk_lock lock;       /* of what follows */
	struct xk_session *moved;  /* pushes go there, and it has a reference on it; NULL: to lls */
	uint64_t link;             /* the address of either */
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

static inline struct xk_key
vnet_passive_key(const struct xk_protocol *hlp_type)
{
	return (struct xk_key){ (uintptr_t)hlp_type, 0 };
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
	return xk_map_resolve(&vnet->passive, vnet_passive_key(hlp_type)) != NULL;
}

/* Of vnet.c. */
extern const struct xk_session_ops vnet_session_ops;

/* ---- vnet_session.c ---- */

/* The session of the link to link address `link`, with the caller's reference. 0 or -errno. */
int vnet_session_open_link(struct vnet *vnet, unsigned interface, struct xk_protocol *hlp_type, uint64_t link,
			   struct xk_session **lls);

/* A session on lls (with a reference of its own on it) that nobody finds yet, with the caller's reference, or NULL. */
struct xk_session *vnet_session_new(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_session *lls,
				    unsigned interface);

/* Messages that come up lls go to s, unless another session stands there; or no more. */
void vnet_session_stand(struct xk_session *s, struct xk_session *lls);
void vnet_session_leave(struct xk_session *s, struct xk_session *lls);

/* s becomes that of host, found by it from now on. Under vnet's lock. */
void vnet_session_add(struct vnet *vnet, struct vnet_session *vs, uint64_t host);

/*
 * Live sessions with host, of whatever type, after `skip` others, with a reference of its own on each. How many: VNET_FOUND
 * at most.
 */
unsigned vnet_session_find_followers(struct vnet *vnet, unsigned interface, uint64_t host, unsigned skip,
				     struct xk_session **found);

/* The session with host, which is at `link` or was a moment ago, made or with one more reference. 0 or -errno. */
int vnet_session_open(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		      unsigned interface, uint64_t host, uint64_t link, struct xk_session **session);

/* The same with XK_VNET_LAZY. 0 or -ENOMEM. */
int vnet_session_open_lazy(struct vnet *vnet, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
			   unsigned interface, uint32_t host, struct xk_session **session);

/* What struct xk_session_ops says. */
void vnet_session_close(struct xk_session *s);

/* ---- vnet_follow.c ---- */

/* s, on which the caller has a reference, goes where ARP says now, or asks at its next push. */
void vnet_follow(struct vnet *vnet, struct xk_session *s);

/* ARP knows host by another link address, or does not know it any more. */
void vnet_follow_changed(const struct xk_arp_follower *follower, uint32_t host);

/* An upper has opened s, which a frame has caused, for `host`. 0. */
int vnet_follow_opened(struct vnet *vnet, struct xk_session *s, const uint64_t *host);

/* A push has come upon what ARP does not believe any more. Any context. */
void vnet_follow_ask(struct vnet *vnet, struct vnet_session *vs);

/* What s pushes on instead of lls, with the caller's reference; NULL: lls itself. Any context. */
struct xk_session *vnet_follow_take(struct vnet_session *vs);

/* The link address that s pushes to. */
uint64_t vnet_follow_link(struct vnet_session *vs);

/* s, which is being closed, pushes on lls again and stands nowhere. */
void vnet_follow_end(struct xk_session *s);

#endif
