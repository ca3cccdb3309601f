/*
 * ip.h - what other protocols need to know of IP. ip.c has the rest.
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
	const uint8_t *begin;   /* what followed the header, the first of it ... */
	size_t begin_len;       /* ... that is not in m any more */
	const struct xk_msg *m; /* ... and the rest, of which this many bytes are to be left out */
	size_t skip;
};

/* Who tells senders; a shepherd that must not wait. */
struct xk_ip_errors {
	struct xk_protocol *protocol;
	void (*send)(struct xk_protocol *protocol, const struct xk_ip_trouble *trouble);
};

/*
 * m, of which `popped` bytes have been taken off above IP, is not wanted. It stays the caller's, to be dropped. Any fault
 * but XK_FAULT_HEADER.
 */
struct xk_ip_refusal {
	enum xk_fault fault;
	size_t popped;
	const struct xk_msg *m;
};

/*
 * Tells the sender of m, which came up the session of IP below lls, where there is somebody to do that. Any shepherd;
 * never waits.
 */
static inline void
xk_ip_refuse(struct xk_session *lls, enum xk_fault fault, const struct xk_msg *m, size_t popped)
{
	struct xk_ip_refusal refusal = { fault, popped, m };

	xk_control(lls, XK_IP_REFUSE, &refusal, sizeof(refusal));
}

/* What a host says of a datagram: quote is its beginning as that host says it came, header first. */
struct xk_ip_fault {
	enum xk_fault fault;
	uint32_t mtu;  /* XK_FAULT_TOO_BIG; 0: not said */
	uint32_t from; /* who says so */
	const uint8_t *quote;
	size_t len;
};

#endif
