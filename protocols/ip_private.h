/*
 * ip_private.h - the state of IP, shared by ip.c (messages) and ip_session.c (how sessions come to be).
 */
#ifndef XK_IP_PRIVATE_H
#define XK_IP_PRIVATE_H

#include "protocols/ip_header.h"
#include "protocols/ip_reassembly.h"
#include "protocols/ip_route.h"
#include "protocols/vnet.h"
#include "xkernel/event.h"
#include "xkernel/protocol.h"

struct ip {
	struct xk_protocol protocol;
	/* settings */
	uint64_t ttl;
	const char *routes_text;
	uint32_t gateway;
	uint64_t seed;
	uint64_t timeout_ns;
	uint64_t datagrams, fragments, source_datagrams, source_fragments, datagram_fragments;

	struct xk_vnet_interface interface[XK_VNET_INTERFACES];
	unsigned interfaces;
	struct ip_routes routes;
	struct xk_map sessions, enables;
	_Atomic uint16_t fragment_id; /* even */

	struct xk_lock lock; /* of what follows */
	struct ip_reassembly reassembly;
	struct xk_event tick;
	bool ticking; /* tick is scheduled, or its handler will look at the table again */
};

struct ip_session {
	struct xk_session session;
	uint32_t remote;
	uint32_t destination; /* of arriving datagrams */
	uint32_t local;       /* what it sends from */
	uint32_t whole_max;   /* longest payload that goes in one piece */
	_Atomic bool any_lls; /* takes datagrams from whatever session below they come up */
	_Atomic uint16_t id;  /* of the next whole datagram: odd */
	uint8_t header[IP_HEADER_LEN];
	uint64_t sum; /* of header */
};

/*
 * A session's key. lls is NULL for the first session of these three; a learned one that came to be while it existed,
 * through another lls, has that in its key. Addresses of objects leave the top byte free.
 */
static inline struct xk_key
ip_key(uint8_t protocol, uint32_t remote, uint32_t local, const struct xk_session *lls)
{
	return (struct xk_key){ (uint64_t)remote << 32 | local, (uint64_t)(uintptr_t)lls << 8 | protocol };
}

static inline struct xk_key
ip_enable_key(uint8_t protocol)
{
	return (struct xk_key){ protocol, 0 };
}

/* What host is, seen from this host's interfaces (vnet.h). */
static inline enum xk_vnet_kind
ip_kind(const struct ip *ip, uint32_t host, unsigned *index)
{
	return xk_vnet_kind(ip->interface, ip->interfaces, host, index);
}

/* Of ip.c. */
extern const struct xk_session_ops ip_session_ops;

/* Of ip_session.c: what struct xk_protocol_ops says. */
int ip_session_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		    struct xk_participants *participants, struct xk_session **session);
int ip_session_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
			   struct xk_participants *participants);
int ip_session_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
			    struct xk_participants *participants);

/* Whether h may come from where it says, and is for us. 0, or the reason to drop it. */
unsigned ip_session_check_addresses(const struct ip *ip, struct ip_header h);

/*
 * The session of h, which came up lls, opened passively if need be, where `first`, the one found by addresses alone, is
 * missing or has learned another session below. 0, or the reason to drop the datagram.
 */
unsigned ip_session_find(struct ip *ip, struct xk_session *lls, struct ip_header h, const struct xk_session *first,
			 struct xk_session **session);

#endif
