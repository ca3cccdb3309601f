/*
 * arp.h - what can be asked of ARP, by control on the protocol: the link address of a host on the same link. VNET asks;
 * arp.c has the rest.
 */
#ifndef ARP_H
#define ARP_H

#include "xkernel/protocol.h"

enum xk_arp_control {
	XK_ARP_SET_ADDRESS = 200, /* struct xk_network: this host's address, which requests are answered for */
	XK_ARP_RESOLVE,           /* struct xk_arp_binding: host in, link out; may wait */
	XK_ARP_LOOKUP,            /* struct xk_arp_binding: host in, link out; never waits */
	XK_ARP_OUTPUT,            /* struct xk_arp_output */
};

struct xk_arp_binding {
	uint32_t host;
	uint64_t link;
};

/* A message for whoever has the address `host`: send takes m, once the link address is known. */
struct xk_arp_output {
	uint32_t host;
	struct xk_msg *m;
	void (*send)(const struct xk_arp_output *output, uint64_t link);
	struct xk_protocol *owner, *hlp_type; /* these three are for send */
	unsigned interface;
};

/*
 * The link address of host. Asks the link and waits where it is not known: a shepherd, holding no lock. 0;
 * -EHOSTUNREACH: nobody answered, or no neighbour has such an address; -ENOBUFS: too many hosts are being asked for; or
 * as xk_semaphore_wait where the shepherd could not wait.
 */
static inline int
xk_arp_resolve(struct xk_protocol *arp, uint32_t host, uint64_t *link)
{
	struct xk_arp_binding binding = { host, 0 };
	int status = xk_control_protocol(arp, XK_ARP_RESOLVE, &binding, sizeof(binding));

	*link = binding.link;
	return status < 0 ? status : 0;
}

/* The link address of host if it is known now. 0 or -ENOENT. Any shepherd; never waits for an answer. */
static inline int
xk_arp_lookup(struct xk_protocol *arp, uint32_t host, uint64_t *link)
{
	struct xk_arp_binding binding = { host, 0 };
	int status = xk_control_protocol(arp, XK_ARP_LOOKUP, &binding, sizeof(binding));

	*link = binding.link;
	return status < 0 ? status : 0;
}

/*
 * Sends output->m when its host's link address is known: at once, or from the shepherd of the answer. Few messages wait
 * for one host; one too many, or one that nobody answers for, is dropped by ARP (queue_full, unresolved). Takes m, also
 * on failure. Never waits for an answer. 0 or -ENOBUFS.
 */
static inline int
xk_arp_output(struct xk_protocol *arp, struct xk_arp_output *output)
{
	int status = xk_control_protocol(arp, XK_ARP_OUTPUT, output, sizeof(*output));

	return status < 0 ? status : 0;
}

#endif
