/* netns.c - see netns.h. */
#define _GNU_SOURCE
#include "tools/host/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "xkernel/base.h"

/*
 * Interface numbers of a cable's ends. They are far apart because DPDK derives a unique name from process id XOR
 * interface number, and the two ends' processes have adjacent ids.
 */
enum { NETNS_MESSAGE = 512, NETNS_NESTS = 3, NETNS_NEAR = 0x1000, NETNS_FAR = 0x2000 };

/*
 * Settings of a new network, where the kernel has them. IPv6 would send its own packets. A bridge is only a cable, on
 * which no filter may drop frames or reassemble fragments.
 */
static const struct {
	const char *path, *value;
} netns_settings[] = {
	{ "/proc/sys/net/ipv6/conf/all/disable_ipv6", "1" },
	{ "/proc/sys/net/ipv6/conf/default/disable_ipv6", "1" },
	{ "/proc/sys/net/bridge/bridge-nf-call-arptables", "0" },
	{ "/proc/sys/net/bridge/bridge-nf-call-iptables", "0" },
	{ "/proc/sys/net/bridge/bridge-nf-call-ip6tables", "0" },
};

static int
netns_fail(char *why, size_t size, const char *what, const char *name)
{
	int err = errno;

	snprintf(why, size, "%s %s: %s", what, name, xk_error(err));
	return -err;
}

/* ---- entering ---- */

static bool
netns_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return good;
}

/* Maps this user and group to themselves in the user namespace. */
static bool
netns_map(unsigned user, unsigned group)
{
	char users[32], groups[32];

	snprintf(users, sizeof(users), "%u %u 1", user, user);
	snprintf(groups, sizeof(groups), "%u %u 1", group, group);
	return netns_write("/proc/self/uid_map", users) && netns_write("/proc/self/setgroups", "deny") &&
	       netns_write("/proc/self/gid_map", groups);
}

/* Keeps the capabilities for links across exec. */
static bool
netns_keep_capabilities(void)
{
	static const unsigned kept[] = { CAP_NET_ADMIN, CAP_NET_RAW };
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data) != 0)
		return false;
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(kept); i++)
		data[kept[i] / 32].inheritable |= UINT32_C(1) << kept[i] % 32;
	if (syscall(SYS_capset, &header, data) != 0)
		return false;
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(kept); i++)
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, kept[i], 0, 0) != 0)
			return false;
	return true;
}

int
netns_enter(char *why, size_t size)
{
	unsigned user = (unsigned)geteuid(), group = (unsigned)getegid();

	if (unshare(CLONE_NEWNET) != 0 &&
	    (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 || !netns_map(user, group) || !netns_keep_capabilities())) {
		int err = errno;

		snprintf(why, size,
			 "this user may not create a network (%s): run the program as root, or allow user namespaces "
			 "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone)",
			 xk_error(err));
		return -err;
	}
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(netns_settings); i++)
		netns_write(netns_settings[i].path, netns_settings[i].value);
	return 0;
}

/* ---- interfaces ---- */

/* Disables the offloads that the interfaces have, and brings both up. */
static int
netns_finish_both(const char *const names[2], char *why, size_t size)
{
	static const uint32_t offloads[] = { ETHTOOL_SRXCSUM, ETHTOOL_STXCSUM, ETHTOOL_SSG, ETHTOOL_STSO,
					     ETHTOOL_SUFO,    ETHTOOL_SGSO,    ETHTOOL_SGRO };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	if (fd < 0)
		return netns_fail(why, size, "no socket for", names[0]);
	for (unsigned i = 0; i < 2 && err == 0; i++) {
		struct ifreq request = { .ifr_ifindex = 0 };

		snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", names[i]);
		for (unsigned n = 0; n < XK_ARRAY_LENGTH(offloads); n++) {
			struct ethtool_value off = { .cmd = offloads[n], .data = 0 };

			request.ifr_data = (void *)&off;
			ioctl(fd, SIOCETHTOOL, &request);
		}
		request.ifr_flags = IFF_UP;
		if (ioctl(fd, SIOCSIFFLAGS, &request) != 0)
			err = netns_fail(why, size, "the interface cannot be brought up:", names[i]);
	}
	close(fd);
	return err;
}

/* ---- veth and bridges, by netlink ---- */

/* A request for a new interface. Nested attributes end with the message. */
struct netns_message {
	_Alignas(struct nlmsghdr) char bytes[NETNS_MESSAGE];
	size_t len, nests[NETNS_NESTS]; /* offsets of the nested attributes */
	unsigned depth;
};

static void
netns_add(struct netns_message *m, const void *bytes, size_t len)
{
	memcpy(m->bytes + m->len, bytes, len);
	m->len += NLMSG_ALIGN(len);
}

static void
netns_attribute(struct netns_message *m, unsigned short type, const void *bytes, size_t len)
{
	struct rtattr attribute = { .rta_len = (unsigned short)RTA_LENGTH(len), .rta_type = type };

	netns_add(m, &attribute, sizeof(attribute));
	netns_add(m, bytes, len);
}

/* Adds an attribute that contains all that follow. */
static void
netns_nest(struct netns_message *m, unsigned short type)
{
	m->nests[m->depth++] = m->len;
	netns_attribute(m, type, "", 0);
}

/* Begins a request for an interface of a kind, up from the start; attributes of that kind follow. */
static void
netns_describe(struct netns_message *m, const char *name, const char *kind, int number)
{
	const struct nlmsghdr header = { .nlmsg_type = RTM_NEWLINK,
					 .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK };
	const struct ifinfomsg link = {
		.ifi_family = AF_UNSPEC, .ifi_index = number, .ifi_flags = IFF_UP, .ifi_change = IFF_UP
	};

	m->len = m->depth = 0;
	netns_add(m, &header, sizeof(header));
	netns_add(m, &link, sizeof(link));
	netns_attribute(m, IFLA_IFNAME, name, strlen(name) + 1);
	netns_nest(m, IFLA_LINKINFO);
	netns_attribute(m, IFLA_INFO_KIND, kind, strlen(kind) + 1);
	netns_nest(m, IFLA_INFO_DATA);
}

/* Sends the request. Returns false with errno set on failure. */
static bool
netns_request(struct netns_message *m)
{
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
		char rest[NETNS_MESSAGE];
	} answer;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	bool answered;

	for (unsigned i = 0; i < m->depth; i++)
		((struct rtattr *)(m->bytes + m->nests[i]))->rta_len = (unsigned short)(m->len - m->nests[i]);
	((struct nlmsghdr *)m->bytes)->nlmsg_len = (uint32_t)m->len;
	answered = fd >= 0 && send(fd, m->bytes, m->len, 0) == (ssize_t)m->len &&
		   recv(fd, &answer, sizeof(answer), 0) >= (ssize_t)(sizeof(answer.header) + sizeof(answer.error));
	if (answered)
		errno = -answer.error.error;
	if (fd >= 0)
		close(fd);
	return answered && answer.error.error == 0;
}

int
netns_veth(const char *const names[2], unsigned number, char *why, size_t size)
{
	const struct ifinfomsg other = { .ifi_family = AF_UNSPEC, .ifi_index = NETNS_FAR + (int)number };
	struct netns_message m;

	netns_describe(&m, names[0], "veth", NETNS_NEAR + (int)number);
	netns_nest(&m, VETH_INFO_PEER);
	netns_add(&m, &other, sizeof(other));
	netns_attribute(&m, IFLA_IFNAME, names[1], strlen(names[1]) + 1);
	if (!netns_request(&m))
		return netns_fail(why, size, "the interfaces cannot be created (veth):", names[0]);
	return netns_finish_both(names, why, size);
}

/* ---- taps and a bridge ---- */

/* Creates a persistent tap, multi-queue as DPDK's driver opens it. */
static bool
netns_tap(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_MULTI_QUEUE };
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	bool good;

	if (fd < 0)
		return false;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	good = ioctl(fd, TUNSETIFF, &request) == 0 && ioctl(fd, TUNSETPERSIST, 1) == 0;
	close(fd);
	return good;
}

/* Creates a bridge between two interfaces, without multicast snooping, which would send its own packets. */
static bool
netns_bridge(const char *bridge, const char *const names[2])
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_ifindex = 0 };
	const uint8_t no = 0;
	struct netns_message m;
	bool good;

	if (fd < 0)
		return false;
	netns_describe(&m, bridge, "bridge", 0);
	netns_attribute(&m, IFLA_BR_MCAST_SNOOPING, &no, sizeof(no));
	good = netns_request(&m);
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", bridge);
	for (unsigned i = 0; i < 2 && good; i++) {
		request.ifr_ifindex = (int)if_nametoindex(names[i]);
		good = ioctl(fd, SIOCBRADDIF, &request) == 0;
	}
	close(fd);
	return good;
}

int
netns_taps(const char *const names[2], const char *bridge, char *why, size_t size)
{
	for (unsigned i = 0; i < 2; i++)
		if (!netns_tap(names[i]))
			return netns_fail(why, size,
					  "the interface cannot be created (/dev/net/tun, modprobe tun):", names[i]);
	if (!netns_bridge(bridge, names))
		return netns_fail(why, size, "the bridge cannot be created (modprobe bridge):", bridge);
	return netns_finish_both(names, why, size);
}
