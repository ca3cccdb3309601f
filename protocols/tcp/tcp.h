/*
 * tcp.h - TCP's control operations.
 *
 * Participants: the top of each stack is a port, 1 to 65535; the rest is IP's.
 */
#ifndef XK_TCP_H
#define XK_TCP_H

#include "xkernel/upi.h"

enum { XK_TCP_NUMBER = 6 /* on IP, and so in the pseudo-header */ };

/* A connection, as `ss -i` shows it. Times are in nanoseconds, the rest in bytes or segments. */
struct xk_tcp_info {
	const char *state;      /* as in RFC 9293: "ESTABLISHED" */
	const char *congestion; /* control: "reno" */
	uint64_t round_trip_ns, deviation_ns, timeout_ns;
	uint32_t mss;              /* of sent segments */
	uint32_t window, receives; /* that the peer grants, and that this end grants */
	uint32_t congestion_window, threshold;
	uint32_t queued, in_flight; /* pushed and not acknowledged; those of them that were sent */
	uint32_t reordered;         /* received behind a gap */
	uint64_t retransmitted;     /* segments */
	bool scales, sacks, stamps; /* options in use */
};

XK_CONTROL_OP(XK_TCP_GET_INFO, 130, struct xk_tcp_info);
/* No more is pushed: sends a FIN behind what is queued. Messages still come up. Any shepherd; never waits. */
XK_CONTROL_OP(XK_TCP_END, 131, void);
/* Ends the connection at once, with a RST. Any shepherd; never waits. */
XK_CONTROL_OP(XK_TCP_ABORT, 132, void);
/* Sets whether small messages are sent at once (true), or wait for the acknowledgement of earlier ones (RFC 896). */
XK_CONTROL_OP(XK_TCP_SET_EAGER, 133, const bool);

#endif
