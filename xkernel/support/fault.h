/*
 * fault.h - reports upward that a message could not be delivered: from the protocol that detects it (ICMP, or a link
 * that gives up), through each protocol that the message came down, as far up as they handle it.
 *
 * A report is a hint, not a failure: it may be forged or late, or the message may have been sent again meanwhile.
 */
#ifndef XK_FAULT_H
#define XK_FAULT_H

#include "xkernel/protocol.h"

enum xk_fault {
	XK_FAULT_NETWORK,    /* no route to the network */
	XK_FAULT_HOST,       /* the host does not answer on its network */
	XK_FAULT_PROTOCOL,   /* the host lacks the protocol above */
	XK_FAULT_PORT,       /* nothing listens on the port */
	XK_FAULT_TOO_BIG,    /* too long for a link on its route, and must not be fragmented */
	XK_FAULT_HOPS,       /* its time to live ran out */
	XK_FAULT_REASSEMBLY, /* fragments of it were lost */
	XK_FAULT_HEADER,     /* its header was not understood */
	XK_FAULTS
};

/* Returns a fault's name, as in counters: "network", "host", ... */
static inline const char *
xk_fault_name(enum xk_fault fault)
{
	static const char *const names[] = { "network", "host", "protocol",   "port",
					     "too_big", "hops", "reassembly", "header" };

	static_assert(XK_ARRAY_LENGTH(names) == XK_FAULTS, "a name for each");
	return names[fault];
}

/* Valid during the call. */
struct xk_fault_report {
	enum xk_fault fault;
	uint32_t mtu;  /* XK_FAULT_TOO_BIG: that link's MTU, in bytes of the network protocol below; 0: unknown */
	uint64_t from; /* the reporting host */
	struct xk_session *session; /* on which the message was pushed; NULL: a lazy one, which may be closed by now */
	const uint8_t *begin;       /* first bytes of the message, as pushed there */
	size_t len;                 /* number of known bytes */
	const struct xk_msg *m;     /* the whole message, if it never left this host; otherwise NULL */
};

/*
 * Reports a fault of a message that went down s to the protocol above, past virtual ones. For the protocol of s.
 * Returns what that protocol returns; -ENOTSUP: it does not handle faults. A shepherd; holds no lock.
 */
static inline int
xk_fault_notify(struct xk_session *s, struct xk_fault_report *report)
{
	struct xk_protocol *hlp = xk_hlp_receive(s);
	struct xk_session *above;

	while ((hlp->type->flags & XK_VIRTUAL) != 0 && (above = xk_session_above(s)) != NULL) {
		s = above;
		hlp = xk_hlp_receive(s);
	}
	report->session = s;
	return hlp->ops->fault == NULL ? -ENOTSUP : hlp->ops->fault(hlp, report);
}

#endif
