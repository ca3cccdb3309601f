/*
 * port.c - a port of the platform (a DPDK device, one in memory) as the leaf of a graph.
 *
 * Participants: none
 * Control:      XK_GET_MAX_PACKET (the mtu and an Ethernet header), XK_GET_OPT_PACKET (the same), XK_GET_LINK_ADDRESS,
 *               XK_GET_OFFLOADS
 * Not done:     padding to 60 bytes (virtual links carry short frames, other devices pad them); several sessions: one
 *               protocol above gets every frame
 * Graph:        eth -> port
 */
#include <errno.h>

#include "protocols/eth.h"
#include "xkernel/kernel.h"
#include "xkernel/trace.h"

enum { PORT_FRAME_HEADER = 14 /* Ethernet's, not part of the mtu */ };

#define PORT_DROPS(D)                                                                                                  \
	D(PORT_DROP_TOO_LONG, "too_long")                                                                              \
	D(PORT_DROP_TX_FULL, "tx_full") /* the device's ring stayed full */
XK_DROPS(port, PORT_DROPS);

struct port {
	struct xk_protocol protocol;
	const char *dev;
	uint64_t address; /* of the link; 0: the device's */
	struct xk_port *port;
};

static int
port_init(struct xk_protocol *self)
{
	struct port *port = (struct port *)self;

	port->port = xk_kernel_find_port(self->kernel, port->dev);
	if (port->port == NULL) {
		xk_trace(self, XK_TRACE_NONE, "there is no port called %s", port->dev);
		return -ENODEV;
	}
	/* if it can, the platform has given the port the setting's address */
	if (port->address != 0 && (port->address != port->port->address || xk_eth_is_group(port->address))) {
		xk_trace(self, XK_TRACE_NONE,
			 "the link address %012llx cannot be the port's, which has %012llx: it names a group, or the "
			 "link takes no other",
			 (unsigned long long)port->address, (unsigned long long)port->port->address);
		return -EADDRNOTAVAIL;
	}
	if (port->port->receiver != NULL) {
		xk_trace(self, XK_TRACE_NONE, "port %s has another protocol on it already", port->dev);
		return -EBUSY;
	}
	return 0;
}

static const struct xk_session_ops port_session_ops;

/* Before the kernel runs: the driver reads `receiver` from then on. */
static int
port_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	  struct xk_participants *participants, struct xk_session **session)
{
	struct xk_port *port = ((struct port *)self)->port;
	struct xk_session *s;

	if (port->receiver != NULL)
		return -EADDRINUSE;
	s = xk_session_new(self, &port_session_ops, hlp_receive, hlp_type, NULL);
	if (s == NULL)
		return -ENOMEM;
	xk_port_listen(port, s);
	*session = s;
	return 0;
}

static void
port_close(struct xk_session *s)
{
	xk_port_listen(((struct port *)s->protocol)->port, NULL);
}

static int
port_push(struct xk_session *s, struct xk_msg *m)
{
	struct xk_protocol *self = s->protocol;
	struct xk_port *port = ((struct port *)self)->port;

	if (xk_unlikely(xk_msg_len(m) > (size_t)port->mtu + PORT_FRAME_HEADER)) {
		xk_drop(self, m, PORT_DROP_TOO_LONG);
		return -EMSGSIZE;
	}
	return xk_port_transmit(port, self, m, PORT_DROP_TX_FULL);
}

static int
port_control(struct xk_protocol *self, int op, void *argument)
{
	const struct xk_port *port = ((struct port *)self)->port;

	switch (op) {
	case XK_GET_MAX_PACKET:
	case XK_GET_OPT_PACKET:
		*(uint32_t *)argument = port->mtu + PORT_FRAME_HEADER;
		return 0;
	case XK_GET_OFFLOADS:
		*(uint32_t *)argument = port->offloads;
		return 0;
	case XK_GET_LINK_ADDRESS:
		*(uint64_t *)argument = port->address;
		return 0;
	default:
		return -ENOTSUP;
	}
}

static const struct xk_session_ops port_session_ops = {
	.push = port_push,
	.close = port_close,
};

static const struct xk_protocol_ops port_ops = {
	.init = port_init,
	.open = port_open,
	.control = port_control,
};

static const struct xk_setting port_settings[] = {
	XK_SETTING(STRING, struct port, dev, "dev", "name of the port to stand on", .initial = "port"),
	XK_SETTING(LINK, struct port, address, "address",
		   "link address; without it, the device's, or one generated for this host"),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_port = {
	.name = "port",
	.help = "A port of the platform: the frames of a device, or of a link in memory.",
	.ops = &port_ops,
	.session_ops = &port_session_ops,
	.size = sizeof(struct port),
	.offers = XK_ASYNC,
	.flags = XK_PORT | XK_ONE_UPPER,
	.settings = port_settings,
	.drops = port_drops,
};
