/*
 * tap.c - link `tap`: the peer is this machine's operating system, through an interface created for the port, or a host
 * that the interface is bridged to.
 *
 * The interface is the other end of the cable, so our end has another link address: otherwise a bridge could not
 * distinguish them. The descriptor of /dev/net/tun is read and written here, not by DPDK's driver, which cannot open a
 * single-queue tap, receives only after a real-time signal, and does not follow an interface that was deleted and
 * created again. The descriptor stays valid when the interface moves.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"

enum { DPDK_TAP_PIECES = 16 };

#ifndef TUNGETDEVNETNS
#define TUNGETDEVNETNS _IO('T', 227)
#endif

static const char dpdk_tap_tun[] = "/dev/net/tun";

struct dpdk_tap {
	struct dpdk_interface interface;
	int fd;
};

/* ---- receiving and sending ---- */

static unsigned
dpdk_tap_receive(struct dpdk_port *port, struct rte_mbuf **frames, unsigned max)
{
	const struct dpdk_tap *self = port->device->state;
	unsigned taken = 0;

	for (unsigned i = 0; i < max; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(((struct dpdk_platform *)port->base.platform)->pool);
		struct iovec pieces[2];
		uint8_t rest;
		ssize_t got;

		if (m == NULL) /* the frame stays in the interface */
			break;
		/* The kernel truncates frames silently; a byte after the buffer detects that. */
		pieces[0] = (struct iovec){ rte_pktmbuf_mtod(m, void *), rte_pktmbuf_tailroom(m) };
		pieces[1] = (struct iovec){ &rest, sizeof(rest) };
		got = readv(self->fd, pieces, 2);
		if (got > 0 && (size_t)got <= pieces[0].iov_len) {
			m->pkt_len = m->data_len = (uint16_t)got;
			frames[taken++] = m;
			continue;
		}
		rte_pktmbuf_free(m);
		if (got <= 0)
			break;
		dpdk_port_count(port, DPDK_COUNT_RX_TOO_LONG, 1);
	}
	return taken;
}

/* Returns false if the interface has no room. */
static bool
dpdk_tap_send(struct dpdk_port *port, const struct rte_mbuf *frame)
{
	const struct dpdk_tap *self = port->device->state;
	struct iovec pieces[DPDK_TAP_PIECES];
	unsigned used = 0;

	for (const struct rte_mbuf *m = frame; m != NULL; m = m->next)
		pieces[used++] = (struct iovec){ rte_pktmbuf_mtod(m, void *), m->data_len };
	if (writev(self->fd, pieces, (int)used) >= 0)
		return true;
	switch (errno) {
	case EINTR:
	case EAGAIN:
	case ENOBUFS:
	case ENOMEM:
		return false;
	case EIO:    /* the interface is down */
	case EBADFD: /* ... or gone */
		dpdk_port_count(port, DPDK_COUNT_NO_PEER, 1);
		return true;
	default:
		dpdk_port_count(port, DPDK_COUNT_UNSENT, 1);
		return true;
	}
}

static unsigned
dpdk_tap_transmit(struct dpdk_port *port, struct rte_mbuf **frames, unsigned count)
{
	unsigned sent = 0;

	for (; sent < count && dpdk_tap_send(port, frames[sent]); sent++)
		rte_pktmbuf_free(frames[sent]);
	return sent;
}

/* ---- opening and closing ---- */

/* Takes the interface of this name, creating it if needed, or one queue of it. Returns 0 or -errno. */
static int
dpdk_tap_take(const struct dpdk_tap *self, const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(self->fd, TUNSETIFF, &request) == 0)
		return 0;
	if (errno != EINVAL)
		return -errno;
	request.ifr_flags |= IFF_MULTI_QUEUE; /* the interface was created with several queues */
	return ioctl(self->fd, TUNSETIFF, &request) == 0 ? 0 : -errno;
}

static int
dpdk_tap_explain(const struct dpdk_tap *self, int error, char *why, size_t size)
{
	const char *name = self->interface.given_name;

	if (error == -EINVAL && self->interface.now.index != 0)
		snprintf(why, size, "%s is not a tap: use link af_packet for other interfaces", name);
	else if (error == -EBUSY)
		snprintf(why, size,
			 "another program has the tap %s: stop it, or use another name with port.dev=", name);
	else if (error == -EPERM)
		snprintf(why, size, "the tap %s belongs to another user", name);
	else
		snprintf(why, size, "the kernel creates no tap called %s: %s", name, xk_error(error));
	return error;
}

static int
dpdk_tap_bring_up(const char *name)
{
	struct ifreq request = { .ifr_flags = 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), error = -errno;

	if (fd < 0)
		return error;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	error = ioctl(fd, SIOCGIFFLAGS, &request) != 0 ? -errno : 0;
	request.ifr_flags |= IFF_UP;
	if (error == 0 && ioctl(fd, SIOCSIFFLAGS, &request) != 0)
		error = -errno;
	close(fd);
	return error;
}

static int
dpdk_tap_open(struct dpdk_port *port, const struct xk_dpdk_port_config *config, char *why, size_t size)
{
	int error = dpdk_interface_new(port->device, sizeof(struct dpdk_tap), config->device, why, size);
	struct dpdk_tap *self = port->device->state;

	if (error == 0 && self->interface.now.index != 0)
		error = dpdk_interface_is_ethernet(&self->interface.now, why, size);
	if (error != 0)
		return error;
	self->fd = open(dpdk_tap_tun, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (self->fd < 0) {
		error = -errno;
		snprintf(
			why, size,
			"%s cannot be opened (%s): load the module (modprobe tun), or pass the device to the container",
			dpdk_tap_tun, xk_error(error));
		return error;
	}
	error = dpdk_interface_may(CAP_NET_ADMIN, "link tap", why, size);
	if (error != 0)
		return error;
	error = dpdk_tap_take(self, config->device);
	if (error != 0)
		return dpdk_tap_explain(self, error, why, size);
	error = dpdk_tap_bring_up(config->device);
	if (error != 0) {
		snprintf(why, size, "the tap %s cannot be brought up: %s", config->device, xk_error(error));
		return error;
	}
	if (port->base.address == 0)
		port->base.address = dpdk_address_generate(config->device);
	port->device->can_chain = true;
	dpdk_port_watch_fd(port, self->fd);
	return dpdk_interface_attach(port, why, size);
}

static int
dpdk_tap_reopen(struct dpdk_port *port, char *why, size_t size)
{
	const struct dpdk_tap *self = port->device->state;
	int error = dpdk_tap_take(self, self->interface.now.name);

	return error == 0 ? 0 : dpdk_tap_explain(self, error, why, size);
}

static int
dpdk_tap_netns(struct dpdk_port *port)
{
	int netns = ioctl(((struct dpdk_tap *)port->device->state)->fd, TUNGETDEVNETNS);

	return netns < 0 ? -errno : netns;
}

static int
dpdk_tap_name(struct dpdk_port *port, char *name)
{
	struct ifreq answer;

	if (ioctl(((struct dpdk_tap *)port->device->state)->fd, TUNGETIFF, &answer) != 0)
		return -errno;
	memcpy(name, answer.ifr_name, IFNAMSIZ);
	return 0;
}

static void
dpdk_tap_closed(struct dpdk_device *device)
{
	struct dpdk_tap *self = device->state;

	if (self != NULL && self->fd > 0)
		close(self->fd);
	dpdk_interface_free(device);
}

const struct dpdk_link dpdk_link_tap = {
	.about = { "tap", "this machine's kernel, or whatever it bridges the interface to (tap)",
		   XK_DPDK_NEEDS_INTERFACE, true, 1 },
	.open = dpdk_tap_open,
	.closed = dpdk_tap_closed,
	.receive = dpdk_tap_receive,
	.transmit = dpdk_tap_transmit,
	.is_other_end = true,
	.reopen = dpdk_tap_reopen,
	.netns = dpdk_tap_netns,
	.name = dpdk_tap_name,
};
