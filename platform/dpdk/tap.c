/*
 * tap.c - link `tap`: the peer is this machine's operating system, through an interface made for the port, or what that
 * interface is bridged to.
 *
 * The interface is the other end of the cable, so our end has another link address: a bridge could not tell them apart
 * otherwise. DPDK's driver receives only after the process has got a real-time signal. Any thread may get it, a moment
 * after the descriptor became readable; so a thread that the descriptor has woken sends itself another.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <rte_ethdev.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"

enum { DPDK_TAP_ARGUMENTS = 96 };

static const char dpdk_tap_tun[] = "/dev/net/tun";

static int
dpdk_tap_is_possible(char *why, size_t size)
{
	int fd = open(dpdk_tap_tun, O_RDWR | O_CLOEXEC), error = errno;

	if (fd >= 0) {
		close(fd);
		return dpdk_interface_may(CAP_NET_ADMIN, "link tap", why, size);
	}
	snprintf(why, size, "%s cannot be opened (%s): load the module (modprobe tun), or give it to the container",
		 dpdk_tap_tun, xk_error(error));
	return -error;
}

/* Makes the device. An existing interface keeps its address, which the driver would change. */
static int
dpdk_tap_plug(struct dpdk_port *port, char *why, size_t size)
{
	const struct dpdk_interface *self = port->device->state;
	const uint8_t *a = self->address;
	char arguments[DPDK_TAP_ARGUMENTS], what[96];
	int len = snprintf(arguments, sizeof(arguments), "iface=%s", self->name);

	if (self->index != 0)
		snprintf(arguments + len, sizeof(arguments) - (size_t)len, ",mac=%02x:%02x:%02x:%02x:%02x:%02x", a[0],
			 a[1], a[2], a[3], a[4], a[5]);
	snprintf(what, sizeof(what), "DPDK makes no tap of %s", self->name);
	dpdk_device_name(port->device, "net_tap");
	return dpdk_device_plug(port->device, arguments, what, why, size);
}

static int
dpdk_tap_open(struct dpdk_port *port, const struct xk_dpdk_port_config *config, char *why, size_t size)
{
	struct ifreq request = { 0 };
	struct dpdk_interface *self;
	int fd, error = dpdk_interface_new(port->device, config->device, why, size);

	if (error == 0)
		error = dpdk_tap_is_possible(why, size);
	if (error != 0)
		return error;
	self = port->device->state;
	memcpy(request.ifr_name, self->name, sizeof(self->name));
	request.ifr_mtu = (int)self->mtu;
	dpdk_ignore_signal(SIGIO); /* sent by the kernel instead of a real-time signal if it has no memory */
	error = dpdk_tap_plug(port, why, size);
	if (error == 0)
		error = dpdk_device_start(port->device, why, size);
	if (error != 0)
		return error;
	if (request.ifr_mtu != 0)
		ioctl(self->ioctl_fd, SIOCSIFMTU, &request);
	fd = rte_eth_dev_rx_intr_ctl_q_get_fd(port->id, port->queue);
	dpdk_port_watch_fd(port, fd, fd < 0 ? 0 : fcntl(fd, F_GETSIG));
	error = dpdk_interface_attach(port, why, size);
	port->base.address = dpdk_hash_address(self->name) ^ (uint64_t)getpid();
	return error;
}

const struct dpdk_link dpdk_link_tap = {
	.about = { "tap", "this machine's kernel, or whatever it bridges the interface to (tap)",
		   XK_DPDK_NEEDS_INTERFACE, true, 1 },
	.open = dpdk_tap_open,
	.closed = dpdk_interface_free,
};
