/*
 * interface.c - the operating system's network interface under a device, in the network namespace that the process had
 * when the port was opened. It is claimed, so that a second user is refused, and watched, so that the port is up while
 * the interface is.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"
#include "xkernel/bytes.h"

enum { DPDK_INTERFACE_NEWS = 8192, DPDK_INTERFACE_LIST = 200 };

/* ---- capabilities ---- */

static const struct {
	unsigned capability;
	const char *name, *advice;
} dpdk_capabilities[] = {
	{ CAP_NET_ADMIN, "CAP_NET_ADMIN", "run it as root, or in a network namespace of its own" },
	{ CAP_NET_RAW, "CAP_NET_RAW", "run it as root, or in a network namespace of its own" },
	{ CAP_BPF, "CAP_BPF", "run it as root" },
};

int
dpdk_interface_may(unsigned capability, const char *what, char *why, size_t size)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	if (syscall(SYS_capget, &header, data) != 0)
		return 0; /* unknown: the device will report an error if it lacks the capability */
	if ((data[capability / 32].effective >> capability % 32 & 1) != 0)
		return 0;
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(dpdk_capabilities); i++)
		if (dpdk_capabilities[i].capability == capability)
			snprintf(why, size, "%s needs %s, which this process lacks: %s", what,
				 dpdk_capabilities[i].name, dpdk_capabilities[i].advice);
	return -EPERM;
}

/* ---- state of the interface ---- */

static bool
dpdk_interface_ask(const struct dpdk_interface *self, unsigned long request, struct ifreq *answer)
{
	memset(answer, 0, sizeof(*answer));
	memcpy(answer->ifr_name, self->name, sizeof(self->name));
	return ioctl(self->ioctl_fd, request, answer) == 0;
}

static unsigned
dpdk_interface_flags(const struct dpdk_interface *self)
{
	struct ifreq answer;

	if (!dpdk_interface_ask(self, SIOCGIFINDEX, &answer) || answer.ifr_ifindex != self->index)
		return 0;
	return dpdk_interface_ask(self, SIOCGIFFLAGS, &answer) ? (unsigned short)answer.ifr_flags : 0;
}

static void
dpdk_interface_look(struct dpdk_interface *self)
{
	struct ifreq answer;

	self->index = dpdk_interface_ask(self, SIOCGIFINDEX, &answer) ? answer.ifr_ifindex : 0;
	if (dpdk_interface_ask(self, SIOCGIFMTU, &answer))
		self->mtu = (uint32_t)answer.ifr_mtu;
	if (dpdk_interface_ask(self, SIOCGIFHWADDR, &answer))
		memcpy(self->address, answer.ifr_hwaddr.sa_data, sizeof(self->address));
}

int
dpdk_interface_is_there(const struct dpdk_interface *self, char *why, size_t size)
{
	if (self->index == 0) {
		struct if_nameindex *all = if_nameindex();
		char list[DPDK_INTERFACE_LIST] = "";
		size_t len = 0;

		for (struct if_nameindex *one = all; one != NULL && one->if_index != 0 && len < sizeof(list); one++)
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", len == 0 ? "" : ", ",
						one->if_name);
		if_freenameindex(all);
		snprintf(why, size, "there is no network interface \"%s\": name one with port.dev=; there are: %s",
			 self->name, list);
		return -ENODEV;
	}
	if ((dpdk_interface_flags(self) & IFF_UP) != 0)
		return 0;
	snprintf(why, size, "the network interface %s is down: ip link set %s up", self->name, self->name);
	return -ENETDOWN;
}

/* ---- changes of the interface ---- */

static void
dpdk_interface_update(struct dpdk_port *port)
{
	struct dpdk_interface *self = port->device->state;
	unsigned flags = dpdk_interface_flags(self);
	bool up = (flags & IFF_UP) != 0 && (flags & IFF_RUNNING) != 0;
	socklen_t len = sizeof(int);
	int ignored;

	/* The socket remembers that its interface was down, and would refuse to send once more: clear its error. */
	if (self->socket_fd >= 0)
		getsockopt(self->socket_fd, SOL_SOCKET, SO_ERROR, &ignored, &len);
	if (up != dpdk_device_is_up(port->device))
		dpdk_device_set_up(port->device, up);
	dpdk_port_rewatch(port);
}

/* Reads the messages, in the driver, and asks the interface itself for its state. */
static void
dpdk_interface_changed(evutil_socket_t fd, short what, void *argument)
{
	char news[DPDK_INTERFACE_NEWS];

	(void)what;
	while (recv(fd, news, sizeof(news), MSG_DONTWAIT) > 0 || errno == ENOBUFS)
		;
	dpdk_interface_update(argument);
}

static int
dpdk_interface_listen(struct dpdk_port *port)
{
	struct dpdk_interface *self = port->device->state;
	struct event_base *events = ((struct dpdk_platform *)port->base.platform)->events;
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK };

	self->netlink_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (self->netlink_fd < 0 || bind(self->netlink_fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		return -errno;
	self->event = event_new(events, self->netlink_fd, EV_READ | EV_ET | EV_PERSIST, dpdk_interface_changed, port);
	return self->event != NULL && event_add(self->event, NULL) == 0 ? 0 : -ENOMEM;
}

int
dpdk_interface_attach(struct dpdk_port *port, char *why, size_t size)
{
	struct dpdk_interface *self = port->device->state;
	int error;

	dpdk_interface_look(self);
	port->base.address = xk_get48(self->address);
	if (self->mtu < port->base.mtu)
		port->base.mtu = self->mtu;
	error = dpdk_interface_listen(port);
	if (error != 0)
		snprintf(why, size, "the network interface %s cannot be watched: %s", self->name, xk_error(error));
	else
		dpdk_interface_update(port);
	return error;
}

/* ---- the socket of a DPDK driver ---- */

static bool
dpdk_descriptors_is(int fd, int domain)
{
	socklen_t len = sizeof(int);
	int is = -1;

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &is, &len) == 0 && is == domain;
}

enum { DPDK_DESCRIPTORS = 64 * (int)XK_ARRAY_LENGTH(((struct dpdk_descriptors *)NULL)->bits) };

void
dpdk_descriptors_find(struct dpdk_descriptors *self, int domain)
{
	memset(self, 0, sizeof(*self));
	for (int fd = 0; fd < DPDK_DESCRIPTORS; fd++)
		if (dpdk_descriptors_is(fd, domain))
			self->bits[fd / 64] |= UINT64_C(1) << fd % 64;
}

int
dpdk_descriptors_new(const struct dpdk_descriptors *before, int domain)
{
	for (int fd = 0; fd < DPDK_DESCRIPTORS; fd++)
		if ((before->bits[fd / 64] >> fd % 64 & 1) == 0 && dpdk_descriptors_is(fd, domain))
			return fd;
	return -1;
}

/* ---- making and freeing ---- */

/* Claims the interface. The claim includes the network namespace: each may have an interface of this name. */
static int
dpdk_interface_claim(struct dpdk_interface *self, char *why, size_t size)
{
	struct stat space = { .st_ino = 0 };
	char what[64];

	if (stat("/proc/thread-self/ns/net", &space) != 0)
		space.st_ino = 0;
	snprintf(what, sizeof(what), "interface-%llu-%s", (unsigned long long)space.st_ino, self->name);
	self->claim_fd = dpdk_claim(what);
	if (self->claim_fd >= 0)
		return 0;
	if (self->claim_fd == -EADDRINUSE)
		snprintf(why, size, "another program of this kind uses %s: end it, or take another interface",
			 self->name);
	else
		snprintf(why, size, "the interface %s cannot be claimed: %s", self->name, xk_error(self->claim_fd));
	return self->claim_fd;
}

int
dpdk_interface_new(struct dpdk_device *device, const char *name, char *why, size_t size)
{
	struct dpdk_interface *self = calloc(1, sizeof(*self));
	bool is_name = name[0] != '\0' && strlen(name) < IFNAMSIZ && strpbrk(name, "/:,= \t\n[]\"") == NULL;

	if (self == NULL || !is_name) {
		snprintf(why, size, self == NULL ? "no memory" : "\"%.40s\" cannot be the name of a network interface",
			 name);
		free(self);
		return -EINVAL;
	}
	device->state = self;
	self->claim_fd = self->netlink_fd = self->socket_fd = -1;
	strcpy(self->name, name);
	self->ioctl_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (self->ioctl_fd < 0) {
		snprintf(why, size, "no socket to ask for %s: %s", name, xk_error(errno));
		return -errno;
	}
	dpdk_interface_look(self);
	return dpdk_interface_claim(self, why, size);
}

void
dpdk_interface_free(struct dpdk_device *device)
{
	struct dpdk_interface *self = device->state;

	if (self == NULL)
		return;
	if (self->event != NULL)
		event_free(self->event);
	if (self->netlink_fd >= 0)
		close(self->netlink_fd);
	if (self->ioctl_fd >= 0)
		close(self->ioctl_fd);
	dpdk_unclaim(self->claim_fd);
	free(self);
}
