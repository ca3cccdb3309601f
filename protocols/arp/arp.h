/*
 * arp.h - what can be asked of ARP, or of a protocol that stands in for it: the link address of a host on the same link.
 * VNET asks; arp.c has the rest.
 */
#ifndef ARP_H
#define ARP_H

#include "xkernel/protocol.h"

/*
 * Who sends to hosts for longer than a message, one for each ARP. changed: of a host that is followed another link
 * address has become known, or what was known is not believed any more. It is a shepherd of ARP's, and must not wait.
 */
struct xk_arp_follower {
	struct xk_protocol *protocol;
	unsigned interface; /* the follower's */
	void (*changed)(const struct xk_arp_follower *follower, uint32_t host);
};

/*
 * A message for whoever has the address `host`: send takes m, once the link address is known; before one is dropped that
 * nobody answers for, unsent is told, and leaves m as it is (NULL: nobody wants to know).
 */
struct xk_arp_output {
	uint32_t host;
	struct xk_msg *m;
	void (*send)(const struct xk_arp_output *output, uint64_t link);
	void (*unsent)(const struct xk_arp_output *output);
	struct xk_protocol *owner, *hlp_receive, *hlp_type; /* these four are for send and unsent */
	unsigned interface;
};

/* What the functions below call: neighbour_ops of the type. */
struct xk_arp_ops {
	int (*set_address)(struct xk_protocol *self, const struct xk_network *network);
	void (*set_follower)(struct xk_protocol *self, const struct xk_arp_follower *follower);
	int (*resolve)(struct xk_protocol *self, uint32_t host, uint64_t *link);
	int (*lookup)(struct xk_protocol *self, uint32_t host, uint64_t *link);
	int (*follow)(struct xk_protocol *self, uint32_t host, uint64_t *link, bool asks);
	void (*doubt)(struct xk_protocol *self, uint32_t host, uint64_t link);
	int (*output)(struct xk_protocol *self, const struct xk_arp_output *output);
};

static inline const struct xk_arp_ops *
xk_arp_ops(const struct xk_protocol *arp)
{
	return arp->type->neighbour_ops;
}

/* Sets this host's address, which requests are answered for. 0 or -EINVAL. Any context. */
static inline int
xk_arp_set_address(struct xk_protocol *arp, const struct xk_network *network)
{
	return xk_arp_ops(arp)->set_address(arp, network);
}

/* follower is copied, and told from now on. init only. */
static inline void
xk_arp_set_follower(struct xk_protocol *arp, const struct xk_arp_follower *follower)
{
	xk_arp_ops(arp)->set_follower(arp, follower);
}

/*
 * The link address of host. Asks the link and waits where it is not known: a shepherd, holding no lock. 0;
 * -EHOSTUNREACH: nobody answered, or no neighbour has such an address; -ENOBUFS: too many hosts are being asked for; or
 * as xk_semaphore_wait where the shepherd could not wait.
 */
static inline int
xk_arp_resolve(struct xk_protocol *arp, uint32_t host, uint64_t *link)
{
	return xk_arp_ops(arp)->resolve(arp, host, link);
}

/* The link address of host if it is known now. 0 or -ENOENT. Any shepherd; never waits for an answer. */
static inline int
xk_arp_lookup(struct xk_protocol *arp, uint32_t host, uint64_t *link)
{
	return xk_arp_ops(arp)->lookup(arp, host, link);
}

/*
 * Of host, which is sent to at *link: the follower is to be told once when its link address changes or is not believed any
 * more, even if nobody asks for it. Then it follows again. 0 and *link, if it is known now; -ENOENT. Any shepherd; never
 * waits.
 */
static inline int
xk_arp_follow(struct xk_protocol *arp, uint32_t host, uint64_t *link)
{
	return xk_arp_ops(arp)->follow(arp, host, link, false);
}

/*
 * As xk_arp_follow, but asks for host where its link address is not known: first the station `link`, if that is what was
 * known last. 0: it is `link`; -EINPROGRESS: the follower will be told, not by this call; -EHOSTUNREACH or -ENOBUFS as
 * xk_arp_resolve. Any context, also a foreign thread; never waits for an answer.
 */
static inline int
xk_arp_ask(struct xk_protocol *arp, uint32_t host, uint64_t link)
{
	return xk_arp_ops(arp)->follow(arp, host, &link, true);
}

/*
 * Reports that frames of host come from the station `link` (0: from no station of this link). If ARP knows host by
 * another link address, it broadcasts a new request, and messages for host wait for the answer. Any shepherd; never
 * waits.
 */
static inline void
xk_arp_doubt(struct xk_protocol *arp, uint32_t host, uint64_t link)
{
	xk_arp_ops(arp)->doubt(arp, host, link);
}

/*
 * Sends output->m when its host's link address is known: at once, or from the shepherd of the answer. Few messages wait
 * for one host, the latest; the others, and those that nobody answers for, are dropped by ARP (queue_full, unresolved). Takes m, also
 * on failure. Never waits for an answer. 0 or -ENOBUFS.
 */
static inline int
xk_arp_output(struct xk_protocol *arp, const struct xk_arp_output *output)
{
	return xk_arp_ops(arp)->output(arp, output);
}

#endif
