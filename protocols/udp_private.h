/* udp_private.h - what the files of UDP share (udp.c: messages, udp_session.c: how sessions come to be). */
#ifndef UDP_PRIVATE_H
#define UDP_PRIVATE_H

#include "protocols/udp.h"
#include "xkernel/protocol.h"
#include "xkernel/upi.h"

struct udp {
	struct xk_protocol protocol;
	bool checksum; /* settings */
	uint64_t seed;

	struct xk_map sessions, enables;
	_Atomic uint32_t next_anonymous;
};

struct udp_session {
	struct xk_session session;
	uint16_t local, remote;
	bool checksum;
	uint32_t short_end;   /* messages shorter than this may be pushed, and we compute their checksum */
	uint32_t max_packet;  /* longest message */
	uint32_t offload_max; /* longest message that the port computes the checksum of */
	uint8_t ports[4];     /* as in the header of what is sent */
	uint64_t push_sum;    /* of the pseudo-header of what is sent */
	uint64_t pop_sum;     /* ... of what arrives */
};

static inline struct xk_key
udp_key(uint32_t ports, const struct xk_session *lls)
{
	return (struct xk_key){ (uintptr_t)lls, ports };
}

/* The two ports as in what arrives. */
static inline uint32_t
udp_ports(uint16_t local, uint16_t remote)
{
	return (uint32_t)remote << 16 | local;
}

static inline struct xk_key
udp_enable_key(uint16_t local)
{
	return (struct xk_key){ local, 0 };
}

extern const struct xk_session_ops udp_session_ops;

/* The hosts of a session below, as in the pseudo-headers of both directions. */
struct udp_hosts {
	uint64_t local, remote;
	uint64_t destination; /* of what arrives: local, or a broadcast address */
};

/* Asks lls, a session of the network, for its hosts. 0 or -errno. Any shepherd; does not wait. */
int udp_ask_hosts(struct xk_session *lls, struct udp_hosts *hosts);

/* The sum of the pseudo-header of what arrives from them, without its length. */
uint64_t udp_pop_sum(const struct udp_hosts *hosts);

/*
 * A session over lls without ports, in no map yet, with the caller's reference; takes that on lls, also on failure. 0 or -errno.
 * Any shepherd; does not wait.
 */
int udp_session_new(struct udp *udp, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		    struct xk_session *lls, struct udp_session **session);

/* Before s is in a map. */
void udp_session_set_ports(struct udp_session *s, uint16_t local, uint16_t remote);

/* Operations of the protocol, as upi.h has them. */
int udp_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	     struct xk_participants *participants, struct xk_session **session);
int udp_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		    struct xk_participants *participants);
int udp_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		     struct xk_participants *participants);

#endif
