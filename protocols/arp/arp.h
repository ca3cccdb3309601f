/*
 * arp.h - asks ARP for the link addresses of hosts on its link, as VNET does.
 */
#ifndef ARP_H
#define ARP_H

#include "xkernel/protocol.h"

/* The sender that follows hosts; one for each ARP. */
struct xk_arp_follower {
	struct xk_protocol *protocol;
	unsigned interface; /* the follower's */
	/* A followed host has another link address, or ARP doubts the known one. A shepherd of ARP's; must not wait. */
	void (*changed)(const struct xk_arp_follower *follower, uint32_t host);
};

/* The protocol that sends from this host's address; one for each ARP. */
struct xk_arp_user {
	struct xk_protocol *protocol;
	unsigned interface; /* the user's */
	/*
	 * Called when the address may be used (also from xk_arp_set_address), or may not: it is being probed, or
	 * another station has it. Must not wait.
	 */
	void (*used)(const struct xk_arp_user *user, bool is_used);
};

/* A message for a host whose link address may be unknown. */
struct xk_arp_output {
	uint32_t host;
	struct xk_msg *m;
	/* Takes m once the link address is known. */
	void (*send)(const struct xk_arp_output *output, uint64_t link);
	/* Runs if there is no answer, before ARP drops m; must not change it. May be NULL. */
	void (*unsent)(const struct xk_arp_output *output);
	struct xk_protocol *owner, *hlp_receive, *hlp_type; /* for send and unsent, as is interface */
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

/*
 * Sets this host's address, for which ARP answers requests; announces it, with the setting `probe` after probing it.
 * Returns 0 or -EINVAL. Any context.
 */
int xk_arp_set_address(struct xk_protocol *arp, const struct xk_network *network);

/* Makes host a neighbour beside those of the network; 0: none. init only. */
void xk_arp_set_onlink(struct xk_protocol *arp, uint32_t host);

/* Sets the user, which is copied. init only, before xk_arp_set_address. */
void xk_arp_set_user(struct xk_protocol *arp, const struct xk_arp_user *user);

/* Sets the follower, which is copied. init only. */
void xk_arp_set_follower(struct xk_protocol *arp, const struct xk_arp_follower *follower);

/*
 * Sets *link to the link address of host; asks and waits if it is not known. Returns 0; -EHOSTUNREACH: no answer, or no
 * neighbour's address; -ENOBUFS: too many hosts are being asked for; or an error of xk_semaphore_wait. A shepherd,
 * holding no lock.
 */
int xk_arp_resolve(struct xk_protocol *arp, uint32_t host, uint64_t *link);

/* Sets *link to the link address of host if it is known. Returns 0 or -ENOENT. Any shepherd; never waits. */
int xk_arp_lookup(struct xk_protocol *arp, uint32_t host, uint64_t *link);

/*
 * Makes ARP tell the follower once when the link address of host changes or is doubted. Returns 0 and *link if it is
 * known, or -ENOENT. Any shepherd; never waits.
 */
int xk_arp_follow(struct xk_protocol *arp, uint32_t host, uint64_t *link);

/*
 * As xk_arp_follow, but asks for an unknown link address: first the station that was known last, if any. Returns 0: it
 * is `link`; -EINPROGRESS: the follower will be told, but not by this call; -EHOSTUNREACH or -ENOBUFS as
 * xk_arp_resolve. Any context, also a foreign thread, which replaces no followed host; never waits for an answer.
 */
int xk_arp_ask(struct xk_protocol *arp, uint32_t host, uint64_t link);

/*
 * Reports that host does not answer messages sent to the station `link` (0: unknown). Verifies a known address, at most
 * once in `verify`: asks that station, then all. Meanwhile, messages still go there. Any context, also with locks held;
 * sends nothing itself.
 */
void xk_arp_unanswered(struct xk_protocol *arp, uint32_t host, uint64_t link);

/*
 * Reports that frames of host come from the station `link` (0: none of this link). If ARP knows another link address of
 * host, it broadcasts a request, and messages for host are queued until the answer. Any shepherd; never waits.
 */
void xk_arp_doubt(struct xk_protocol *arp, uint32_t host, uint64_t link);

/*
 * Sends output->m when its host's link address is known: at once, or from the shepherd of the answer. Queues the latest
 * few messages for one host, and drops the others (queue_full) and those without an answer (unresolved). Takes m, also
 * on failure. Returns 0 or -ENOBUFS. Never waits for an answer.
 */
int xk_arp_output(struct xk_protocol *arp, const struct xk_arp_output *output);

#endif
