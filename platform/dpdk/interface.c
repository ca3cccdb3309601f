/*
 * interface.c - the operating system's network interface under a device. It is claimed, which refuses a second user,
 * and monitored by netlink: its state, MTU, address, name, removal and return.
 *
 * The interface is found by its name once, and known by its index from then on: a rename changes nothing. When it is
 * deleted or moved to another network namespace, the port goes down, and waits for an interface with the configured or
 * the last name. A link that holds the interface itself (a tap's descriptor) follows it to the other namespace.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"
#include "xkernel/bytes.h"

enum { DPDK_INTERFACE_LIST = 200, DPDK_INTERFACE_NOTIFY_ROOM = 1 << 20 };

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
		return 0; /* unknown: without the capability, the device will report an error */
	if ((data[capability / 32].effective >> capability % 32 & 1) != 0)
		return 0;
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(dpdk_capabilities); i++)
		if (dpdk_capabilities[i].capability == capability)
			snprintf(why, size, "%s needs %s, which this process lacks: %s", what,
				 dpdk_capabilities[i].name, dpdk_capabilities[i].advice);
	return -EPERM;
}

/* ---- netlink ---- */

/* Opens a netlink socket in the calling thread's network namespace. Returns it or -errno. */
static int
dpdk_netlink_open(unsigned groups)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = groups };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE), error;
	int room = DPDK_INTERFACE_NOTIFY_ROOM;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

/* Copies at most `size` bytes of an attribute. */
static void
dpdk_netlink_copy(const struct rtattr *attribute, void *to, size_t size)
{
	size_t len = RTA_PAYLOAD(attribute);

	memcpy(to, RTA_DATA(attribute), len < size ? len : size);
}

static void
dpdk_netlink_kind(struct rtattr *info, struct dpdk_interface_state *state)
{
	struct rtattr *one = RTA_DATA(info);
	int len = (int)RTA_PAYLOAD(info);

	for (; RTA_OK(one, len); one = RTA_NEXT(one, len))
		if (one->rta_type == IFLA_INFO_KIND)
			dpdk_netlink_copy(one, state->kind, sizeof(state->kind) - 1);
}

static void
dpdk_netlink_counts(const struct rtattr *attribute, struct dpdk_interface_state *state)
{
	struct rtnl_link_stats64 all = { 0 };

	dpdk_netlink_copy(attribute, &all, sizeof(all));
	state->counts.rx_dropped = all.rx_dropped;
	state->counts.rx_missed = all.rx_missed_errors;
	state->counts.rx_errors = all.rx_errors;
	state->counts.tx_dropped = all.tx_dropped;
	state->counts.tx_errors = all.tx_errors;
}

/* Parses a link message. */
static void
dpdk_netlink_read(struct nlmsghdr *message, struct dpdk_interface_state *state)
{
	const struct ifinfomsg *about = NLMSG_DATA(message);
	struct rtattr *one = IFLA_RTA(about);
	int len = (int)IFLA_PAYLOAD(message);

	*state = (struct dpdk_interface_state){ .index = about->ifi_index, .flags = about->ifi_flags };
	state->type = about->ifi_type;
	for (; RTA_OK(one, len); one = RTA_NEXT(one, len))
		switch (one->rta_type & NLA_TYPE_MASK) {
		case IFLA_IFNAME:
			dpdk_netlink_copy(one, state->name, sizeof(state->name) - 1);
			break;
		case IFLA_MTU:
			dpdk_netlink_copy(one, &state->mtu, sizeof(state->mtu));
			break;
		case IFLA_ADDRESS:
			dpdk_netlink_copy(one, state->address, sizeof(state->address));
			break;
		case IFLA_PERM_ADDRESS:
			dpdk_netlink_copy(one, state->own_address, sizeof(state->own_address));
			break;
		case IFLA_LINKINFO:
			dpdk_netlink_kind(one, state);
			break;
		case IFLA_STATS64:
			dpdk_netlink_counts(one, state);
			break;
		case IFLA_NEW_NETNSID:
			state->is_moved = true;
			break;
		default:
			break;
		}
	if (xk_get48(state->own_address) == 0)
		memcpy(state->own_address, state->address, sizeof(state->own_address));
}

/* Queries a link, by index if that is not 0, else by name. Returns 0 or -errno; -ENODEV: there is none. */
static int
dpdk_netlink_query(int fd, void *buffer, size_t size, int index, const char *name, struct dpdk_interface_state *state)
{
	struct {
		struct nlmsghdr header;
		struct ifinfomsg about;
		struct rtattr attribute;
		char name[IFNAMSIZ];
	} request = { .header = { .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST },
		      .about = { .ifi_index = index },
		      .attribute = { .rta_type = IFLA_IFNAME, .rta_len = RTA_LENGTH(IFNAMSIZ) } };
	struct nlmsghdr *message = buffer;
	ssize_t got;

	if (index == 0)
		snprintf(request.name, sizeof(request.name), "%s", name);
	request.header.nlmsg_len = index == 0 ? sizeof(request) : offsetof(typeof(request), attribute);
	while (recv(fd, buffer, size, MSG_DONTWAIT) > 0) /* discard late replies */
		;
	/* Netlink answers a query for one link before send returns. */
	if (send(fd, &request, request.header.nlmsg_len, 0) < 0)
		return -errno;
	got = recv(fd, buffer, size, MSG_DONTWAIT);
	if (got < 0)
		return -errno;
	if (!NLMSG_OK(message, (size_t)got) || message->nlmsg_type != RTM_NEWLINK)
		return -ENODEV;
	dpdk_netlink_read(message, state);
	return 0;
}

/* Queries the interface: by name, or by its index if name is NULL; -ENODEV if it is gone. Any thread. */
static int
dpdk_interface_query(struct dpdk_interface *self, const char *name, struct dpdk_interface_state *state)
{
	int error = -ENODEV;

	pthread_mutex_lock(&self->query_lock);
	if (name != NULL || self->now.index != 0)
		error = dpdk_netlink_query(self->query_fd, self->answer, sizeof(self->answer),
					   name == NULL ? self->now.index : 0, name, state);
	pthread_mutex_unlock(&self->query_lock);
	return error;
}

/* ---- state of the interface ---- */

/* Changes the state, which other threads may be reading. */
static void
dpdk_interface_set(struct dpdk_interface *self, const struct dpdk_interface_state *now)
{
	pthread_mutex_lock(&self->query_lock);
	if (self->now.index == 0)
		self->before = now->counts;
	self->now = *now;
	pthread_mutex_unlock(&self->query_lock);
}

static void
dpdk_interface_forget(struct dpdk_interface *self)
{
	pthread_mutex_lock(&self->query_lock);
	self->now.index = 0;
	pthread_mutex_unlock(&self->query_lock);
}

int
dpdk_interface_is_ethernet(const struct dpdk_interface_state *now, char *why, size_t size)
{
	if (now->type == ARPHRD_ETHER)
		return 0;
	if ((now->flags & IFF_LOOPBACK) != 0)
		snprintf(why, size,
			 "%s is the loopback device, which has no Ethernet header: between programs on one machine use "
			 "link virtio, or a veth (ip link add NAME type veth peer name OTHER)",
			 now->name);
	else if (strcmp(now->kind, "tun") == 0)
		snprintf(why, size,
			 "%s is a tun, which carries IP datagrams without Ethernet: create a tap (ip tuntap add dev "
			 "NAME mode tap), and use link tap",
			 now->name);
	else
		snprintf(why, size,
			 "%s is not an Ethernet interface (hardware type %u%s%s): use one that `ip link` lists with "
			 "link/ether",
			 now->name, now->type, now->kind[0] != '\0' ? ", kind " : "", now->kind);
	return -EPROTOTYPE;
}

static int
dpdk_interface_check_exists(const struct dpdk_interface *self, char *why, size_t size)
{
	struct if_nameindex *all = self->now.index == 0 ? if_nameindex() : NULL;
	char list[DPDK_INTERFACE_LIST] = "";
	size_t len = 0;

	if (self->now.index != 0)
		return 0;
	for (struct if_nameindex *one = all; one != NULL && one->if_index != 0 && len < sizeof(list); one++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", len == 0 ? "" : ", ", one->if_name);
	if (all != NULL)
		if_freenameindex(all);
	snprintf(why, size, "there is no network interface \"%s\": set port.dev= to one of: %s", self->given_name,
		 list);
	return -ENODEV;
}

int
dpdk_interface_check(const struct dpdk_interface *self, const unsigned *needed, unsigned count, const char *what,
		     char *why, size_t size)
{
	int error = dpdk_interface_check_exists(self, why, size);

	for (unsigned i = 0; i < count && error == 0; i++)
		error = dpdk_interface_may(needed[i], what, why, size);
	if (error == 0)
		error = dpdk_interface_is_ethernet(&self->now, why, size);
	if (error != 0 || (self->now.flags & IFF_UP) != 0)
		return error;
	snprintf(why, size, "the network interface %s is down: ip link set %s up", self->given_name, self->given_name);
	return -ENETDOWN;
}

static bool
dpdk_interface_is_up(const struct dpdk_interface_state *now)
{
	return now->index != 0 && (now->flags & IFF_UP) != 0 && (now->flags & IFF_RUNNING) != 0;
}

/* Sets the port up or down to match the interface. */
static void
dpdk_interface_sync_port(struct dpdk_interface *self)
{
	bool up = dpdk_interface_is_up(&self->now);
	socklen_t len = sizeof(int);
	int ignored;

	/* The socket keeps the error that its interface was down, which would make one more send fail: clear it. */
	if (self->socket_fd >= 0)
		getsockopt(self->socket_fd, SOL_SOCKET, SO_ERROR, &ignored, &len);
	if (up != dpdk_device_is_up(self->port->device)) {
		dpdk_device_set_up(self->port->device, up);
		if (up)
			xk_port_changed(&self->port->base);
	}
	dpdk_port_rewatch(self->port);
}

static uint32_t
dpdk_interface_mtu(const struct dpdk_interface_state *now)
{
	return now->mtu < DPDK_PORT_MTU ? now->mtu : DPDK_PORT_MTU;
}

/*
 * Adds the port's address to the filter of a network card: the interface may have another address by now, or the port
 * was given one. Does nothing where all frames pass anyway. The filter entry lasts as long as the socket.
 */
static void
dpdk_interface_accept(struct dpdk_interface *self)
{
	struct packet_mreq request = { .mr_ifindex = self->now.index, .mr_type = PACKET_MR_UNICAST, .mr_alen = 6 };

	if (self->filter_fd >= 0)
		close(self->filter_fd);
	self->filter_fd = -1;
	if (self->now.index == 0 || self->port->base.address == xk_get48(self->now.address) ||
	    self->port->device->link->is_other_end)
		return;
	self->filter_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* protocol 0: receives nothing */
	xk_put48(request.mr_address, self->port->base.address);
	if (self->filter_fd >= 0)
		setsockopt(self->filter_fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof(request));
}

/* ---- changes; in the driver ---- */

static void
dpdk_interface_lost(struct dpdk_interface *self, bool is_moved)
{
	dpdk_port_count(self->port, is_moved ? DPDK_COUNT_MOVED : DPDK_COUNT_DELETED, 1);
	dpdk_port_report(self->port, "the interface %s was %s: the port is down until one of that name returns",
			 self->now.name, is_moved ? "moved to another network namespace" : "deleted");
	dpdk_interface_forget(self);
	dpdk_interface_sync_port(self);
}

/* Opens new netlink sockets in the network namespace `netns` and stores them. Closes `netns`. Returns 0 or -errno. */
static int
dpdk_interface_enter(struct dpdk_interface *self, int netns)
{
	int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), query = -1, notifications = -1, error = 0;

	if (home < 0 || setns(netns, CLONE_NEWNET) != 0) {
		error = -errno;
	} else {
		query = dpdk_netlink_open(0);
		notifications = dpdk_netlink_open(RTMGRP_LINK);
		if (setns(home, CLONE_NEWNET) != 0)
			xk_assert(!"the thread is back in its network namespace");
		error = query < 0 ? query : notifications < 0 ? notifications : 0;
	}
	if (error == 0 &&
	    (dup3(query, self->query_fd, O_CLOEXEC) < 0 || dup3(notifications, self->notify_fd, O_CLOEXEC) < 0))
		error = -errno;
	if (query >= 0)
		close(query);
	if (notifications >= 0)
		close(notifications);
	if (home >= 0)
		close(home);
	close(netns);
	return error;
}

/* Follows the interface to its new namespace, if the link can. Returns true on success. */
static bool
dpdk_interface_follow(struct dpdk_interface *self)
{
	const struct dpdk_link *link = self->port->device->link;
	int netns = link->netns == NULL ? -1 : link->netns(self->port), error;
	struct dpdk_interface_state now = self->now;
	char name[IFNAMSIZ];

	if (netns < 0 || link->name(self->port, name) != 0)
		return false;
	dpdk_port_count(self->port, DPDK_COUNT_MOVED, 1);
	event_del(self->event);
	pthread_mutex_lock(&self->query_lock);
	error = dpdk_interface_enter(self, netns);
	pthread_mutex_unlock(&self->query_lock);
	event_add(self->event, NULL);
	if (error == 0)
		error = dpdk_interface_query(self, name, &now);
	if (error != 0) /* its state is unknown: assume up */
		now.flags |= IFF_UP | IFF_RUNNING;
	dpdk_interface_set(self, &now);
	dpdk_port_report(self->port,
			 "the interface %s was moved to another network namespace: the port continues there%s",
			 self->now.name, error == 0 ? "" : ", without notifications of changes");
	dpdk_interface_sync_port(self);
	return true;
}

/* Takes a new interface with the right name, after the port's own was deleted or moved. */
static void
dpdk_interface_returned(struct dpdk_interface *self, const struct dpdk_interface_state *now)
{
	const struct dpdk_link *link = self->port->device->link;
	char why[XK_DPDK_WHY] = "";
	int error;

	if (dpdk_interface_is_ethernet(now, why, sizeof(why)) != 0) {
		dpdk_port_report(self->port, "%s", why);
		return;
	}
	dpdk_interface_set(self, now);
	error = link->reopen == NULL ? 0 : link->reopen(self->port, why, sizeof(why));
	if (error != 0) {
		dpdk_interface_forget(self);
		dpdk_port_report(self->port, "the interface %s is back, but cannot be used: %s", now->name, why);
		return;
	}
	dpdk_port_count(self->port, DPDK_COUNT_RETURNED, 1);
	dpdk_port_report(self->port, "the interface %s is back, %s", now->name,
			 dpdk_interface_is_up(now) ? "and up" : "and down");
	dpdk_interface_accept(self);
	dpdk_port_set_mtu(self->port, dpdk_interface_mtu(now));
	dpdk_interface_sync_port(self);
}

static void
dpdk_interface_mtu_changed(struct dpdk_interface *self, uint32_t before)
{
	dpdk_port_count(self->port, DPDK_COUNT_MTU_CHANGED, 1);
	dpdk_port_report(self->port, "the interface %s now has an MTU of %u (%u before); the port's is %u",
			 self->now.name, self->now.mtu, before, dpdk_interface_mtu(&self->now));
	dpdk_port_set_mtu(self->port, dpdk_interface_mtu(&self->now));
}

/* Handles a change of the interface. */
static void
dpdk_interface_update(struct dpdk_interface *self, const struct dpdk_interface_state *now)
{
	struct dpdk_interface_state before = self->now;
	bool up = dpdk_interface_is_up(now), was_up = dpdk_interface_is_up(&before);
	char text[18];

	dpdk_interface_set(self, now);
	if (strcmp(now->name, before.name) != 0) {
		dpdk_port_count(self->port, DPDK_COUNT_RENAMED, 1);
		dpdk_port_report(self->port, "the interface %s is now called %s", before.name, now->name);
	}
	if (now->mtu != before.mtu)
		dpdk_interface_mtu_changed(self, before.mtu);
	if (memcmp(now->address, before.address, sizeof(now->address)) != 0) {
		dpdk_port_count(self->port, DPDK_COUNT_ADDRESS_CHANGED, 1);
		dpdk_address_print(xk_get48(now->address), text);
		dpdk_port_report(self->port, "the interface %s now has the link address %s; the port keeps its own",
				 now->name, text);
		dpdk_interface_accept(self);
	}
	if (up != was_up) {
		dpdk_port_count(self->port, up ? DPDK_COUNT_UPS : DPDK_COUNT_DOWNS, 1);
		dpdk_port_report(self->port, "the interface %s is %s", now->name,
				 up                           ? "up"
				 : (now->flags & IFF_UP) == 0 ? "down"
							      : "without a carrier");
	}
	dpdk_interface_sync_port(self);
}

/* Returns true if an interface called name replaces the one that is gone. */
static bool
dpdk_interface_is_wanted(const struct dpdk_interface *self, const char *name)
{
	return strcmp(name, self->given_name) == 0 || strcmp(name, self->now.name) == 0;
}

static void
dpdk_interface_handle(struct dpdk_interface *self, struct nlmsghdr *message)
{
	struct dpdk_interface_state now;

	if (message->nlmsg_type != RTM_NEWLINK && message->nlmsg_type != RTM_DELLINK)
		return;
	/* bridges use another family for their ports, where RTM_DELLINK means that a port left the bridge */
	if (((const struct ifinfomsg *)NLMSG_DATA(message))->ifi_family != AF_UNSPEC)
		return;
	dpdk_netlink_read(message, &now);
	if (self->now.index != 0 && now.index == self->now.index) {
		if (message->nlmsg_type == RTM_NEWLINK)
			dpdk_interface_update(self, &now);
		else if (!now.is_moved || !dpdk_interface_follow(self))
			dpdk_interface_lost(self, now.is_moved);
	} else if (self->now.index == 0 && message->nlmsg_type == RTM_NEWLINK &&
		   dpdk_interface_is_wanted(self, now.name)) {
		dpdk_interface_returned(self, &now);
	}
}

/* Queries the state after notifications were lost. */
static void
dpdk_interface_catch_up(struct dpdk_interface *self)
{
	struct dpdk_interface_state now;
	bool was_there = self->now.index != 0;
	int error = was_there ? dpdk_interface_query(self, NULL, &now) : -ENODEV;

	if (error == 0)
		dpdk_interface_update(self, &now);
	else if (was_there && error == -ENODEV)
		dpdk_interface_lost(self, false);
	if (error == -ENODEV && (dpdk_interface_query(self, self->given_name, &now) == 0 ||
				 dpdk_interface_query(self, self->now.name, &now) == 0))
		dpdk_interface_returned(self, &now);
}

static void
dpdk_interface_changed(evutil_socket_t fd, short what, void *argument)
{
	struct dpdk_interface *self = argument;
	ssize_t got;

	(void)what;
	while ((got = recv(fd, self->notifications, sizeof(self->notifications), MSG_DONTWAIT)) > 0 ||
	       errno == ENOBUFS) {
		size_t left = got > 0 ? (size_t)got : 0;
		struct nlmsghdr *message = (struct nlmsghdr *)self->notifications;

		if (got < 0)
			dpdk_interface_catch_up(self);
		for (; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left))
			dpdk_interface_handle(self, message);
	}
}

/* ---- the port's ---- */

int
dpdk_interface_attach(struct dpdk_port *port, char *why, size_t size)
{
	struct dpdk_interface *self = port->device->state;
	struct event_base *events = ((struct dpdk_platform *)port->base.platform)->events;
	int error;

	self->port = port;
	self->notify_fd = dpdk_netlink_open(RTMGRP_LINK);
	error = self->notify_fd < 0 ? self->notify_fd : dpdk_interface_query(self, self->given_name, &self->now);
	if (error == 0) {
		self->event =
			event_new(events, self->notify_fd, EV_READ | EV_ET | EV_PERSIST, dpdk_interface_changed, self);
		error = self->event != NULL && event_add(self->event, NULL) == 0 ? 0 : -ENOMEM;
	}
	if (error != 0) {
		snprintf(why, size, "the network interface %s cannot be watched: %s", self->given_name,
			 xk_error(error));
		return error;
	}
	self->before = self->now.counts;
	if (port->base.address == 0)
		port->base.address = xk_get48(self->now.address);
	port->base.mtu = dpdk_interface_mtu(&self->now);
	dpdk_interface_accept(self);
	dpdk_interface_sync_port(self);
	return 0;
}

void
dpdk_interface_count(struct dpdk_interface *self, struct dpdk_interface_counts *counts)
{
	struct dpdk_interface_state now;

	*counts = (struct dpdk_interface_counts){ 0 };
	if (self->port == NULL || dpdk_interface_query(self, NULL, &now) != 0)
		return;
	pthread_mutex_lock(&self->query_lock);
	counts->rx_dropped = now.counts.rx_dropped - self->before.rx_dropped;
	counts->rx_missed = now.counts.rx_missed - self->before.rx_missed;
	counts->rx_errors = now.counts.rx_errors - self->before.rx_errors;
	counts->tx_dropped = now.counts.tx_dropped - self->before.tx_dropped;
	counts->tx_errors = now.counts.tx_errors - self->before.tx_errors;
	pthread_mutex_unlock(&self->query_lock);
}

/* ---- the socket of a DPDK driver ---- */

static bool
dpdk_descriptors_is(int fd, int domain)
{
	socklen_t len = sizeof(int);
	int is = -1;

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &is, &len) == 0 && is == domain;
}

bool
dpdk_descriptors_find(struct dpdk_descriptors *self, int domain)
{
	DIR *directory = opendir("/proc/self/fd");
	const struct dirent *entry;

	self->count = 0;
	while (directory != NULL && self->count < XK_ARRAY_LENGTH(self->fds) && (entry = readdir(directory)) != NULL)
		if (entry->d_name[0] != '.' && dpdk_descriptors_is(atoi(entry->d_name), domain))
			self->fds[self->count++] = atoi(entry->d_name);
	if (directory != NULL)
		closedir(directory);
	return directory != NULL && self->count < XK_ARRAY_LENGTH(self->fds);
}

static bool
dpdk_descriptors_has(const struct dpdk_descriptors *self, int fd)
{
	for (unsigned i = 0; i < self->count; i++)
		if (self->fds[i] == fd)
			return true;
	return false;
}

int
dpdk_descriptors_new(const struct dpdk_descriptors *before, int domain)
{
	struct dpdk_descriptors now;

	dpdk_descriptors_find(&now, domain);
	for (unsigned i = 0; i < now.count; i++)
		if (!dpdk_descriptors_has(before, now.fds[i]))
			return now.fds[i];
	return -1;
}

/* ---- the host's other interfaces ---- */

/* Returns how well the interface identifies a host in the long run: 0: well, 1: poorly, 2: not at all. */
static unsigned
dpdk_interface_rank(const struct dpdk_interface_state *now)
{
	if (now->type != ARPHRD_ETHER)
		return 2;
	if (now->kind[0] == '\0')
		return 0;
	return strcmp(now->kind, "veth") == 0 || strcmp(now->kind, "macvlan") == 0 ? 1 : 2;
}

bool
dpdk_interface_first(uint8_t address[6])
{
	struct if_nameindex *all = if_nameindex();
	struct dpdk_interface_state now;
	int fd = dpdk_netlink_open(0);
	unsigned best = 2;
	_Alignas(8) uint8_t answer[16384];

	for (struct if_nameindex *one = all; fd >= 0 && one != NULL && one->if_index != 0; one++)
		if (dpdk_netlink_query(fd, answer, sizeof(answer), (int)one->if_index, NULL, &now) == 0 &&
		    dpdk_interface_rank(&now) < best) {
			best = dpdk_interface_rank(&now);
			memcpy(address, now.own_address, sizeof(now.own_address));
		}
	if (all != NULL)
		if_freenameindex(all);
	if (fd >= 0)
		close(fd);
	return best < 2;
}

/* ---- making and freeing ---- */

/* Claims the interface. The claim includes the network namespace: each may have an interface of this name. */
static int
dpdk_interface_claim(struct dpdk_interface *self, char *why, size_t size)
{
	struct stat netns = { .st_ino = 0 };
	char what[64];

	if (stat("/proc/thread-self/ns/net", &netns) != 0)
		netns.st_ino = 0;
	snprintf(what, sizeof(what), "interface-%llu-%s", (unsigned long long)netns.st_ino, self->given_name);
	self->claim_fd = dpdk_claim(what);
	if (self->claim_fd >= 0)
		return 0;
	if (self->claim_fd == -EADDRINUSE)
		snprintf(why, size, "another program of this kind uses %s: stop it, or use another interface",
			 self->given_name);
	else
		snprintf(why, size, "the interface %s cannot be claimed in /run/xk or /tmp: %s", self->given_name,
			 xk_error(self->claim_fd));
	return self->claim_fd;
}

int
dpdk_interface_new(struct dpdk_device *device, size_t state_size, const char *name, char *why, size_t size)
{
	struct dpdk_interface *self = calloc(1, state_size);
	bool is_name = name[0] != '\0' && strlen(name) < IFNAMSIZ && strpbrk(name, "/:,= \t\n[]\"") == NULL;

	if (self == NULL || !is_name) {
		snprintf(why, size, self == NULL ? "no memory" : "\"%.40s\" cannot be the name of a network interface",
			 name);
		free(self);
		return -EINVAL;
	}
	device->state = self;
	pthread_mutex_init(&self->query_lock, NULL);
	self->claim_fd = self->notify_fd = self->socket_fd = self->filter_fd = -1;
	strcpy(self->given_name, name);
	self->query_fd = dpdk_netlink_open(0);
	if (self->query_fd < 0) {
		snprintf(why, size, "no socket to query %s: %s", name, xk_error(self->query_fd));
		return self->query_fd;
	}
	dpdk_interface_query(self, name, &self->now);
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
	if (self->notify_fd >= 0)
		close(self->notify_fd);
	if (self->query_fd >= 0)
		close(self->query_fd);
	if (self->filter_fd >= 0)
		close(self->filter_fd);
	dpdk_unclaim(self->claim_fd);
	pthread_mutex_destroy(&self->query_lock);
	free(self);
}
