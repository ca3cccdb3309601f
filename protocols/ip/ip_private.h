/*
 * ip_private.h - the state of IP, shared by ip.c (messages), ip_session.c (how sessions come to be), ip_forward.c (what
 * goes through), ip_options.c (what few headers have) and ip_fault.c (what went wrong).
 */
#ifndef XK_IP_PRIVATE_H
#define XK_IP_PRIVATE_H

#include "protocols/ip/ip.h"
#include "protocols/ip/ip_header.h"
#include "protocols/ip/ip_path.h"
#include "protocols/ip/ip_reassembly.h"
#include "protocols/ip/ip_route.h"
#include "protocols/virtual/vnet.h"
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
	uint64_t datagrams, bytes, source_datagrams, source_bytes; /* of reassembly */
	bool forward, pmtu;
	uint64_t pmtu_timeout_ns, pmtu_entries, pmtu_min;

	struct xk_ip_errors errors; /* send is NULL: nobody */
	struct xk_vnet_interface interface[XK_VNET_INTERFACES];
	unsigned interfaces;
	struct ip_routes routes;
	_Atomic uint16_t fragment_id; /* even */

	struct xk_lock lock; /* of what follows */
	struct ip_reassembly reassembly;
	struct xk_event tick;
	bool ticking; /* tick is scheduled, or its handler will look at the table again */
	struct ip_paths paths;
	struct xk_event path_tick;
	bool path_ticking;
};

enum ip_counter {
	IP_COUNT_FRAGMENTED,
	IP_COUNT_REASSEMBLED,
	IP_COUNT_FORWARDED,
	IP_COUNT_FORWARD_FRAGMENTED,
	IP_COUNT_PATH_LOWERED,
	IP_COUNT_PATH_FORGOTTEN,
	IP_COUNT_UNQUOTED,
};

struct ip_session {
	struct xk_session session;
	uint32_t remote;
	uint32_t destination;       /* of arriving datagrams */
	uint32_t local;             /* what it sends from */
	uint32_t link_max;          /* longest payload that the session below takes in one piece */
	_Atomic uint32_t whole_max; /* ... and the path, as far as it is known: at most link_max */
	uint16_t whole_flags;       /* IP_FRAGMENT of what goes in one piece */
	_Atomic bool any_lls;       /* takes datagrams from whatever session below they come up */
	_Atomic uint16_t id;        /* of the next whole datagram: odd */
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

/* What host is, seen from this host's interfaces (vnet.h). */
static inline enum xk_vnet_kind
ip_kind(const struct ip *ip, uint32_t host, unsigned *index)
{
	return xk_vnet_kind(ip->interface, ip->interfaces, host, index);
}

/* Of ip_session.c: as struct xk_protocol_ops and struct xk_session_ops say. */
int ip_session_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		    struct xk_participants *participants, struct xk_session **session);
int ip_session_setup(struct xk_session *session, const void *how);

/* The neighbour that datagrams for remote go to, and the interface it is on. 0, -EINVAL or -ENETUNREACH. */
int ip_session_next_hop(const struct ip *ip, uint32_t remote, uint32_t *hop, unsigned *index);

/* Whether a datagram may come from this host. 0, or the reason to drop it. */
unsigned ip_session_check_source(const struct ip *ip, uint32_t source);

/* Whether host is everybody on a network of ours, by today's address or by that of old, or a group. */
bool ip_session_is_to_all(const struct ip *ip, uint32_t host);

/* Whether h may come from where it says, and is for us. 0, or the reason to drop it. */
unsigned ip_session_check_addresses(const struct ip *ip, struct ip_header h);

/*
 * The session of m, which came up lls, opened passively if need be, where `first`, the one found by addresses alone, is
 * missing or has learned another session below. The header lies in front of m. NULL: m could not be delivered, and is gone.
 */
struct xk_session *ip_session_find(struct ip *ip, struct xk_session *lls, struct xk_msg *m,
				   const struct xk_session *first);

/* m cannot be delivered here: goes on to where it belongs, or ends. If its header was fine, that lies in front. Takes m. */
void ip_undelivered(struct ip *ip, struct xk_msg *m, unsigned why);

/* ---- ip_forward.c ---- */

/* Passes m on, whose header has been taken off, or drops it. Takes m. */
void ip_forward(struct ip *ip, struct xk_msg *m, const uint8_t *header, size_t header_len);

/* ---- ip_options.c ---- */

enum { IP_OPTION_END = 0, IP_OPTION_NOP = 1, IP_OPTION_COPIED = 0x80 };

/* The length of the option at `at` of the header's end, of a malformed one the rest of them all; 0: there is none any more. */
size_t ip_option_len(const uint8_t *header, size_t header_len, size_t at);

/* Whether the header has an option by which its sender wants to choose the route. */
bool ip_options_have_source_route(const uint8_t *header, size_t header_len);

/*
 * m, whose header has options, without them, and with what is quoted in one piece, if it is for us. NULL: it went on with
 * them, where this host forwards, or was dropped. Takes m.
 */
struct xk_msg *ip_options_take_off(struct ip *ip, struct xk_msg *m);

/* ---- ip_fault.c ---- */

/* First of all; then 0 or -ENOMEM, and ip_fault_fini in any case. */
void ip_fault_prepare(struct ip *ip);
int ip_fault_init(struct ip *ip);
void ip_fault_fini(struct ip *ip);

/* Tells the sender of the datagram that trouble quotes (fault, mtu, header and on are set), where somebody does that. */
void ip_fault_send(struct ip *ip, struct xk_ip_trouble *trouble);

/* The same of m, whose header without options lies in front of it. */
void ip_fault_send_of(struct ip *ip, enum xk_fault fault, const struct xk_msg *m);

/* As the control operations XK_IP_REFUSE, XK_IP_FAULT (ip.h) and XK_VNET_UNSENT (vnet.h). */
int ip_fault_refuse(struct ip_session *s, const struct xk_ip_refusal *refusal);
int ip_fault_receive(struct ip *ip, const struct xk_ip_fault *fault);
int ip_fault_unsent(struct ip *ip, const struct xk_msg *m);

/* The longest payload that s sends in one piece, which has just come to be. */
uint32_t ip_fault_whole_max(struct ip *ip, const struct ip_session *s);

#endif
