/*
 * fault.h - what has become of a message that was sent, told upward: from the protocol that learns of it (ICMP below, a
 * link that gives up) through each protocol that the message came down, as far up as somebody wants to know.
 *
 * It is a hint, not a failure: it may be forged, come late, or be about a message that was sent again meanwhile.
 */
#ifndef XK_FAULT_H
#define XK_FAULT_H

#include "xkernel/protocol.h"

enum xk_fault {
	XK_FAULT_NETWORK,    /* no way to that network */
	XK_FAULT_HOST,       /* the host does not answer on its network */
	XK_FAULT_PROTOCOL,   /* the host does not know the protocol above */
	XK_FAULT_PORT,       /* nobody listens there */
	XK_FAULT_TOO_BIG,    /* longer than a link on its way takes, and must not be fragmented */
	XK_FAULT_HOPS,       /* its time to live was over on its way */
	XK_FAULT_REASSEMBLY, /* parts of it were lost */
	XK_FAULT_HEADER,     /* something in its header was not understood */
	XK_FAULTS
};

/* A fault's name, as in counters: "network", "host", ... */
static inline const char *
xk_fault_name(enum xk_fault fault)
{
	static const char *const names[] = { "network", "host", "protocol",   "port",
					     "too_big", "hops", "reassembly", "header" };

	static_assert(XK_ARRAY_LENGTH(names) == XK_FAULTS, "a name for each");
	return names[fault];
}

struct xk_fault_report {
	enum xk_fault fault;
	uint32_t mtu;               /* XK_FAULT_TOO_BIG: what that link takes, of the network below; 0: not known */
	uint64_t from;              /* the host that says so */
	struct xk_session *session; /* that the message was pushed on */
	const uint8_t *begin;       /* the message's first bytes, as they were pushed there ... */
	size_t len;                 /* ... as many as are known */
};

enum {
	/*
	 * Control operation of a protocol, called by the one below with a struct xk_fault_report. It may change the report to
	 * pass it on. 0; -ENOENT: it cannot have sent such a message. It may not wait, and holds for as long as the call.
	 */
	XK_FAULT = 50,
};

/*
 * For a protocol whose session s a message went down: tells the protocol above, past virtual ones. What it said;
 * -ENOTSUP: it does not care. A shepherd; holds no lock.
 */
static inline int
xk_fault_tell(struct xk_session *s, struct xk_fault_report *report)
{
	struct xk_protocol *hlp = xk_hlp_receive(s);
	struct xk_session *above;

	while ((hlp->type->flags & XK_VIRTUAL) != 0 &&
	       (above = atomic_load_explicit(&s->above, memory_order_acquire)) != NULL) {
		s = above;
		hlp = xk_hlp_receive(s);
	}
	report->session = s;
	/* Not xk_control_protocol: that would ask those below. */
	return hlp->ops->control == NULL ? -ENOTSUP : hlp->ops->control(hlp, XK_FAULT, report, sizeof(*report));
}

#endif
