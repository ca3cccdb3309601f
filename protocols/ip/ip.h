/*
 * ip.h - IP for the protocols above it.
 *
 * Participants: the top of each stack is an IPv4 host (10.77.0.2 is 0x0a4d0002)
 */
#ifndef XK_IP_H
#define XK_IP_H

#include "xkernel/support/fault.h"

enum {
	XK_IP_MAX_PACKET = 65515, /* payload of the longest datagram */
	XK_IP_HEADER_MAX = 60,    /* with all options */
};

/*
 * Pushed above the local address (or alone) when opening: the first push asks for the neighbour's link address, so that
 * open never waits. For sessions that a stranger's datagram causes.
 */
#define XK_IP_LAZY (UINT64_C(1) << 32)

/* An arrived datagram that will be neither delivered nor forwarded; its sender may have to be notified. */
struct xk_ip_trouble {
	enum xk_fault fault;
	uint32_t mtu;           /* XK_FAULT_TOO_BIG */
	uint32_t source, local; /* its sender; our address to answer from, 0: any */
	uint8_t protocol;
	bool is_to_all;        /* sent to a broadcast or multicast address, of the link or of IP */
	bool is_later_part;    /* a fragment other than the first */
	const uint8_t *header; /* as received */
	size_t header_len;     /* with options */
	const uint8_t *begin;  /* bytes behind the header that were taken off m */
	size_t begin_len;
	const struct xk_msg *m; /* the rest, from offset skip on */
	size_t skip;
};

/* The protocol that reports faults to senders. `send` may not wait. */
struct xk_ip_errors {
	struct xk_protocol *protocol;
	void (*send)(struct xk_protocol *protocol, const struct xk_ip_trouble *trouble);
};

/* A host's report on a datagram; quote is the datagram's beginning as that host received it, header first. */
struct xk_ip_fault {
	enum xk_fault fault;
	uint32_t mtu;  /* XK_FAULT_TOO_BIG; 0: unknown */
	uint32_t from; /* the reporting host */
	const uint8_t *quote;
	size_t len;
};

/* The neighbour_ops of IP's type. */
struct xk_ip_ops {
	/* Makes *errors (copied) report faults to senders. Returns 0, or -EADDRINUSE if another does. From init. */
	int (*set_errors)(struct xk_protocol *ip, const struct xk_ip_errors *errors);
	/*
	 * Notifies the protocol above whose datagram fault quotes. Returns 0, or -ENOENT: we cannot have sent it. A
	 * shepherd; never waits.
	 */
	int (*report)(struct xk_protocol *ip, const struct xk_ip_fault *fault);
	/* As xk_ip_refuse; s is IP's session that m came up, or NULL. */
	void (*refuse)(struct xk_protocol *ip, const struct xk_session *s, enum xk_fault fault, const struct xk_msg *m,
		       size_t popped);
};

extern const struct xk_protocol_type xk_type_ip;

static inline const struct xk_ip_ops *
xk_ip_ops(void)
{
	return xk_type_ip.neighbour_ops;
}

/* Returns the IP below self, looking through other protocols, or NULL. */
static inline struct xk_protocol *
xk_ip_below(const struct xk_protocol *self)
{
	while (self->lower_count > 0 && xk_lower(self, 0)->type != &xk_type_ip)
		self = xk_lower(self, 0);
	return self->lower_count > 0 ? xk_lower(self, 0) : NULL;
}

/*
 * Has a fault reported to the sender of m (not XK_FAULT_HEADER). m came up the session of IP at or below lls, and the
 * protocols above IP took `popped` bytes off it. m stays the caller's, to be dropped. Any shepherd; never waits.
 */
static inline void
xk_ip_refuse(struct xk_session *lls, enum xk_fault fault, const struct xk_msg *m, size_t popped)
{
	while (lls != NULL && lls->protocol->type != &xk_type_ip)
		lls = lls->lls;
	if (lls != NULL)
		xk_ip_ops()->refuse(lls->protocol, lls, fault, m, popped);
}

#endif
