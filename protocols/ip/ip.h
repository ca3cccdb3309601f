/*
 * ip.h - IP for the protocols above it.
 *
 * Participants: the top of each stack is an IPv4 host (10.77.0.2 is 0x0a4d0002)
 */
#ifndef XK_IP_H
#define XK_IP_H

#include "protocols/control.h"
#include "xkernel/fault.h"

enum {
	XK_IP_MAX_PACKET = 65515, /* payload of the longest datagram */
	XK_IP_HEADER_MAX = 60,    /* with all options */
};

/*
 * Pushed above the local address (or alone) when opening: a neighbour is asked for its link address when something is
 * sent, so that open never waits. For what a stranger's datagram starts.
 */
#define XK_IP_LAZY (UINT64_C(1) << 32)

/* A datagram that came and will not be delivered or forwarded; its sender may have to be told. */
struct xk_ip_trouble {
	enum xk_fault fault;
	uint32_t mtu;           /* XK_FAULT_TOO_BIG */
	uint32_t source, local; /* its sender; our address to answer from, 0: whichever fits */
	uint8_t protocol;
	bool is_to_all;         /* it was sent to a broadcast or multicast address, of the link or of IP */
	bool is_later_part;     /* a fragment, and not the first */
	const uint8_t *header;  /* as it came ... */
	size_t header_len;      /* ... with options */
	const uint8_t *begin;   /* the bytes behind the header ... */
	size_t begin_len;       /* ... that are not in m any more */
	const struct xk_msg *m; /* the rest, behind its first ... */
	size_t skip;            /* ... bytes */
};

/* The protocol that tells senders of faults. `send` may not wait. */
struct xk_ip_errors {
	struct xk_protocol *protocol;
	void (*send)(struct xk_protocol *protocol, const struct xk_ip_trouble *trouble);
};

/* A host's report on a datagram; quote is the datagram's beginning as that host received it, header first. */
struct xk_ip_fault {
	enum xk_fault fault;
	uint32_t mtu;  /* XK_FAULT_TOO_BIG; 0: not said */
	uint32_t from; /* the reporting host */
	const uint8_t *quote;
	size_t len;
};

/* What protocols that know IP call, as neighbour_ops of the type. */
struct xk_ip_ops {
	/* Makes *errors (copied) tell senders of faults. Returns 0, or -EADDRINUSE if another does. For init. */
	int (*set_errors)(struct xk_protocol *ip, const struct xk_ip_errors *errors);
	/*
	 * Tells the protocol above whose datagram fault quotes, if it can be one of ours. Returns 0, or -ENOENT if it
	 * cannot. A shepherd; never waits.
	 */
	int (*report)(struct xk_protocol *ip, const struct xk_ip_fault *fault);
	/* As xk_ip_refuse; s is the session of IP that m came up, NULL: none. */
	void (*refuse)(struct xk_protocol *ip, const struct xk_session *s, enum xk_fault fault, const struct xk_msg *m,
		       size_t popped);
};

extern const struct xk_protocol_type xk_type_ip;

static inline const struct xk_ip_ops *
xk_ip_ops(void)
{
	return xk_type_ip.neighbour_ops;
}

/* Returns the IP that self stands on, virtual protocols between them or not; NULL: none. */
static inline struct xk_protocol *
xk_ip_below(const struct xk_protocol *self)
{
	while (self->lower_count > 0 && xk_lower(self, 0)->type != &xk_type_ip)
		self = xk_lower(self, 0);
	return self->lower_count > 0 ? xk_lower(self, 0) : NULL;
}

/*
 * Has the sender of m told of a fault (not XK_FAULT_HEADER). m came up the session of IP at or below lls, and `popped`
 * bytes of it were taken off above IP; it stays the caller's, to be dropped. Any shepherd; never waits.
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
