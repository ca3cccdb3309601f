/*
 * arp.h - the neighbours of a link and their link addresses, for the protocol above ARP (VNET).
 *
 * ARP keeps an object for each neighbour: its link address, whether that is trusted, and what waits for it: shepherds,
 * messages, and followers, which are sessions that send to the neighbour's address for long.
 */
#ifndef ARP_H
#define ARP_H

#include <sys/queue.h>

#include "xkernel/protocol.h"

struct xk_neighbour;

/* Part of a session that sends to a neighbour; zero at first, but for the session and the link address. */
struct xk_arp_follower {
	struct xk_session *session; /* NULL: it is closed, and follows no more */
	_Atomic uint64_t link;      /* the link address that it sends to; the session's protocol writes it */
	_Atomic(struct xk_neighbour *) neighbour; /* the followed one; NULL: none. ARP writes it, and the next */
	LIST_ENTRY(xk_arp_follower) next;
};

/* A message for a host whose link address may be unknown, and the protocols of the session that it went down. */
struct xk_arp_output {
	struct xk_msg *m;
	struct xk_protocol *hlp_receive, *hlp_type;
};

/* The protocol above; one for each ARP. Its functions must not wait. */
struct xk_arp_user {
	struct xk_protocol *protocol;
	unsigned interface; /* the user's */
	/*
	 * This host's address may be used, or not: it is probed, or another station's. Also called by set_address. Like
	 * `doubted` under ARP's lock: calls nothing of ARP or the link.
	 */
	void (*used)(const struct xk_arp_user *user, bool is_used);
	/*
	 * The follower's neighbour is at `link` now; changes follower->link. Returns 0, or -errno: it is in doubt then.
	 */
	int (*moved)(struct xk_arp_follower *follower, uint64_t link);
	/* The address is in doubt: the follower follows no more until it asks. */
	void (*doubted)(struct xk_arp_follower *follower);
	/* Takes output->m, whose host is at `link`. */
	void (*send)(const struct xk_arp_user *user, const struct xk_arp_output *output, uint64_t link);
	/* There is no answer. ARP drops output->m afterwards; must not change it. */
	void (*unsent)(const struct xk_arp_user *user, const struct xk_arp_output *output);
};

/* The neighbour_ops of ARP's type. Any shepherd, unless noted; only resolve waits. */
struct xk_arp_ops {
	/*
	 * Sets the user (copied), and a neighbour beside those of the network (0: none). init only, before set_address.
	 */
	void (*set_user)(struct xk_protocol *arp, const struct xk_arp_user *user, uint32_t onlink);
	/*
	 * Sets this host's address, for which ARP answers requests; announces it, with the setting `probe` after
	 * probing it. Returns 0 or -EINVAL. Any context.
	 */
	int (*set_address)(struct xk_protocol *arp, const struct xk_network *network);
	/*
	 * Sets *link to the link address of host; asks and waits if it is not known. Returns 0; -EHOSTUNREACH: no
	 * answer, or no neighbour's address; -ENOBUFS: too many hosts are being asked for; or an error of
	 * xk_semaphore_wait. A shepherd, holding no lock.
	 */
	int (*resolve)(struct xk_protocol *arp, uint32_t host, uint64_t *link);
	/* Returns the link address of host; 0: it is not known. */
	uint64_t (*known)(struct xk_protocol *arp, uint32_t host);
	/*
	 * Makes follower follow host. `asks`: asks for an unknown address: first the station that was known last, if
	 * any. Returns 0: it follows, and was notified if host is not at follower->link; -EINPROGRESS: it follows, and
	 * will be notified, but not by this call; otherwise it does not follow: -ENOENT (not known, and not asked for),
	 * -EHOSTUNREACH or -ENOBUFS as resolve. `asks` in any context, also in a foreign thread, which replaces no
	 * followed host.
	 */
	int (*follow)(struct xk_protocol *arp, struct xk_arp_follower *follower, uint32_t host, bool asks);
	/* Ends following for good: the follower's session is being closed. */
	void (*unfollow)(struct xk_protocol *arp, struct xk_arp_follower *follower);
	/*
	 * Has output->m sent when its host's link address is known: at once, or by the shepherd of the answer. Queues
	 * the latest few messages for one host, and drops the others (queue_full) and those without an answer
	 * (unresolved). Takes m, also on failure. Returns 0 or -ENOBUFS.
	 */
	int (*output)(struct xk_protocol *arp, uint32_t host, const struct xk_arp_output *output);
	/*
	 * Reports that host does not answer messages sent to the station `link` (0: unknown). Verifies a known address,
	 * at most once in `verify`: asks that station, then all. Meanwhile, messages still go there. Any context, also
	 * with locks held; sends nothing itself.
	 */
	void (*unanswered)(struct xk_protocol *arp, uint32_t host, uint64_t link);
	/*
	 * Reports that frames of host come from the station `link` (0: none of this link). If ARP knows another link
	 * address of host, it broadcasts a request, and messages for host are queued until the answer.
	 */
	void (*doubt)(struct xk_protocol *arp, uint32_t host, uint64_t link);
};

static inline const struct xk_arp_ops *
xk_arp_ops(const struct xk_protocol *arp)
{
	return arp->type->neighbour_ops;
}

#endif
