/*
 * arp.h - asks ARP for the link addresses of hosts on its link, as VNET does.
 */
#ifndef ARP_H
#define ARP_H

#include "xkernel/protocol.h"

/*
 * A sender that uses hosts for longer than a message; one for each ARP. changed: a followed host has another link
 * address, or its known one is not believed any more. It runs as a shepherd of ARP's, and must not wait.
 */
struct xk_arp_follower {
	struct xk_protocol *protocol;
	unsigned interface; /* the follower's */
	void (*changed)(const struct xk_arp_follower *follower, uint32_t host);
};

/*
 * A message for the address `host`: send takes m once the link address is known. If nobody answers, unsent (may be
 * NULL) is told before m is dropped, and leaves it as it is.
 */
struct xk_arp_output {
	uint32_t host;
	struct xk_msg *m;
	void (*send)(const struct xk_arp_output *output, uint64_t link);
	void (*unsent)(const struct xk_arp_output *output);
	struct xk_protocol *owner, *hlp_receive, *hlp_type; /* these four are for send and unsent */
	unsigned interface;
};

/* Returns whether host may be a station's address on network, this host's own included. Any context. */
static inline bool
xk_arp_is_neighbour(const struct xk_network *network, uint32_t host)
{
	uint32_t rest = network->bits == 0 ? UINT32_MAX : (uint32_t)((UINT64_C(1) << (32 - network->bits)) - 1);

	if (((host ^ network->host) & ~rest) != 0 || host >> 28 >= 0xe)
		return false;
	return network->bits >= 31 || ((host & rest) != 0 && (host & rest) != rest);
}

/* Sets this host's address, for which ARP answers requests. Returns 0 or -EINVAL. Any context. */
int xk_arp_set_address(struct xk_protocol *arp, const struct xk_network *network);

/* Sets the follower, which is copied. init only. */
void xk_arp_set_follower(struct xk_protocol *arp, const struct xk_arp_follower *follower);

/*
 * Sets *link to the link address of host; asks and waits where it is not known. Returns 0; -EHOSTUNREACH: nobody
 * answered, or no neighbour has such an address; -ENOBUFS: too many hosts are being asked for; or as xk_semaphore_wait
 * where the shepherd could not wait. A shepherd, holding no lock.
 */
int xk_arp_resolve(struct xk_protocol *arp, uint32_t host, uint64_t *link);

/* Sets *link to the link address of host if it is known now. Returns 0 or -ENOENT. Any shepherd; never waits. */
int xk_arp_lookup(struct xk_protocol *arp, uint32_t host, uint64_t *link);

/*
 * Follows host: tells the follower once when its link address changes or is not believed any more, even if nobody asks
 * for it. Returns 0 and *link if that is known now, or -ENOENT. Any shepherd; never waits.
 */
int xk_arp_follow(struct xk_protocol *arp, uint32_t host, uint64_t *link);

/*
 * Follows host, and asks for it where its link address is not known: first the station that was known last, if any.
 * Returns 0: it is `link`; -EINPROGRESS: the follower will be told, but not by this call; -EHOSTUNREACH or -ENOBUFS as
 * xk_arp_resolve. Any context, also a foreign thread; never waits for an answer.
 */
int xk_arp_ask(struct xk_protocol *arp, uint32_t host, uint64_t link);

/*
 * Reports that frames of host come from the station `link` (0: from no station of this link). If ARP knows host by
 * another link address, it broadcasts a new request, and messages for host wait for the answer. Any shepherd; never
 * waits.
 */
void xk_arp_doubt(struct xk_protocol *arp, uint32_t host, uint64_t link);

/*
 * Sends output->m when its host's link address is known: at once, or from the shepherd of the answer. The latest few
 * messages wait for one host; ARP drops the others (queue_full), and those that nobody answers for (unresolved). Takes
 * m, also on failure. Returns 0 or -ENOBUFS. Never waits for an answer.
 */
int xk_arp_output(struct xk_protocol *arp, const struct xk_arp_output *output);

#endif
