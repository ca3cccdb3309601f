/*
 * virtio.c - link `virtio`: the server is a vhost-user device that owns a socket, the client a virtio-user device that
 * connects to it; frames then go through shared memory, and each end can wake the other.
 *
 * The server's end is vhost because that end stands by itself: it needs no peer to start and serves one after another.
 * A name that no other process has, and that goes with its process however that ends, is each end's claim to the
 * socket: an abstract socket. So a second server is refused, a second client waits for the first to go, and a socket
 * left by a server that was killed is known to be nobody's.
 */
#include <limits.h>
#include <linux/virtio_net.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_vhost.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "platform/dpdk/inside.h"

enum { DPDK_VIRTIO_RETRY_US = 5000, DPDK_VIRTIO_WORD_MAX = 48, DPDK_VIRTIO_PATH_MAX = 100 };

/* A port's own. */
struct dpdk_virtio {
	int claim_fd;
	bool owns_path; /* a server's: the socket file is ours to remove */
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
};

/* ---- where the ends meet ---- */

/* Whether path is a directory of this user's, where no other can write. */
static bool
dpdk_virtio_is_private(const char *path)
{
	struct stat status;

	return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
	       (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* The user's run-time directory, or one of that purpose in /tmp. */
static int
dpdk_virtio_directory(char *path, size_t path_size, char *why, size_t size)
{
	const char *given = getenv("XDG_RUNTIME_DIR");

	if (given != NULL && given[0] == '/' && strlen(given) < path_size && dpdk_virtio_is_private(given) &&
	    access(given, W_OK | X_OK) == 0) {
		strcpy(path, given);
		return 0;
	}
	snprintf(path, path_size, "/tmp/xk-%u", (unsigned)geteuid());
	if (mkdir(path, 0700) != 0 && errno != EEXIST) {
		snprintf(why, size,
			 "no directory for sockets: %s cannot be made (%s); set XDG_RUNTIME_DIR, or give a path", path,
			 strerror(errno));
		return -EACCES;
	}
	if (dpdk_virtio_is_private(path))
		return 0;
	snprintf(why, size, "no directory for sockets: %s is not a directory of yours alone; remove it, or give a path",
		 path);
	return -EACCES;
}

/* DPDK's arguments are separated by these. */
static bool
dpdk_virtio_is_plain(const char *socket)
{
	return socket[0] != '\0' && strpbrk(socket, ",[]\"\n") == NULL;
}

int
xk_dpdk_socket_path(const char *socket, char *path, size_t path_size, char *why, size_t size)
{
	char directory[PATH_MAX];
	int error, len;

	if (socket == NULL || !dpdk_virtio_is_plain(socket)) {
		snprintf(why, size, "a socket's name has at least one character, and no comma, bracket or quote");
		return -EINVAL;
	}
	if (strchr(socket, '/') != NULL) {
		len = snprintf(path, path_size, "%s", socket);
	} else {
		error = dpdk_virtio_directory(directory, sizeof(directory), why, size);
		if (error != 0)
			return error;
		len = snprintf(path, path_size, "%s/xk-%s.sock", directory, socket);
	}
	if (len <= DPDK_VIRTIO_PATH_MAX && (size_t)len < path_size)
		return 0;
	snprintf(why, size, "the socket's path has %d characters, and at most %d are possible: take a shorter name",
		 len, DPDK_VIRTIO_PATH_MAX);
	return -ENAMETOOLONG;
}

static int
dpdk_virtio_socket(int type, const char *path, struct sockaddr_un *address)
{
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	snprintf(address->sun_path, sizeof(address->sun_path), "%s", path);
	return socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
}

/* The one process that may be this end of the socket at path. A descriptor to keep, or -errno. */
static int
dpdk_virtio_claim(const char *path, enum xk_dpdk_end end)
{
	char directory[PATH_MAX], whole[PATH_MAX + 128], name[64];
	const char *slash = strrchr(path, '/');
	struct sockaddr_un address;
	int fd, len;

	snprintf(whole, sizeof(whole), "%.*s", slash == NULL ? 1 : (int)(slash - path + 1), slash == NULL ? "." : path);
	if (realpath(whole, directory) == NULL)
		return -errno;
	snprintf(whole, sizeof(whole), "%s/%s", directory, slash == NULL ? path : slash + 1);
	fd = dpdk_virtio_socket(SOCK_DGRAM, "", &address);
	if (fd < 0)
		return -errno;
	len = snprintf(name, sizeof(name), "xk-%s-%016llx", end == XK_DPDK_SERVER ? "server" : "client",
		       (unsigned long long)dpdk_port_hash(whole));
	memcpy(address.sun_path + 1, name, (size_t)len);
	if (bind(fd, (struct sockaddr *)&address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) == 0)
		return fd;
	len = -errno;
	close(fd);
	return len;
}

/* Whether somebody listens at path. 0; -ENOENT, -ECONNREFUSED (a socket that nobody has open), ... */
static int
dpdk_virtio_probe(const char *path)
{
	struct sockaddr_un address;
	int fd = dpdk_virtio_socket(SOCK_STREAM | SOCK_NONBLOCK, path, &address), error = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		error = -errno;
	close(fd);
	return error;
}

/* ---- the server ---- */

/* Removes a socket that a killed server has left at path; anything else there is a reason to refuse. */
static int
dpdk_virtio_clear(const char *path, char *why, size_t size)
{
	struct stat status;
	int error = dpdk_virtio_probe(path);

	if (error == -ENOENT)
		return 0;
	if (error == 0) {
		snprintf(why, size, "another program serves on %s: end it, or take another socket", path);
		return -EADDRINUSE;
	}
	if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode) && error == -ECONNREFUSED && unlink(path) == 0)
		return 0;
	snprintf(why, size, "%s is in the way and cannot be used (%s): remove it, or take another socket", path,
		 strerror(-error));
	return error;
}

static const struct rte_vhost_device_ops dpdk_virtio_nothing;

/*
 * DPDK's vhost thread sleeps for up to a second before it looks at a new listening socket. A connection of its own
 * wakes it: we listen at a second path for a moment, and let it connect there.
 */
static void
dpdk_virtio_hurry(const char *path)
{
	char beside[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	struct sockaddr_un address;
	int fd;

	snprintf(beside, sizeof(beside), "%.*s.wake", DPDK_VIRTIO_PATH_MAX, path);
	fd = dpdk_virtio_socket(SOCK_STREAM, beside, &address);
	if (fd < 0)
		return;
	unlink(beside);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 1) == 0 &&
	    rte_vhost_driver_register(beside, RTE_VHOST_USER_CLIENT | RTE_VHOST_USER_NO_RECONNECT) == 0) {
		rte_vhost_driver_callback_register(beside, &dpdk_virtio_nothing);
		rte_vhost_driver_start(beside);
		rte_vhost_driver_unregister(beside);
	}
	unlink(beside);
	close(fd);
}

/* What would make DPDK compute checksums on our way, or read more of the peer's headers than is needed. */
static int
dpdk_virtio_configured(struct dpdk_port *port)
{
	struct dpdk_virtio *self = port->link;
	uint64_t unwanted = 1ULL << VIRTIO_NET_F_CSUM | 1ULL << VIRTIO_NET_F_GUEST_CSUM |
			    1ULL << VIRTIO_NET_F_GUEST_TSO4 | 1ULL << VIRTIO_NET_F_GUEST_TSO6 |
			    1ULL << VIRTIO_NET_F_GUEST_ECN | 1ULL << VIRTIO_NET_F_GUEST_UFO |
			    1ULL << VIRTIO_NET_F_HOST_TSO4 | 1ULL << VIRTIO_NET_F_HOST_TSO6 |
			    1ULL << VIRTIO_NET_F_HOST_ECN | 1ULL << VIRTIO_NET_F_HOST_UFO;

	self->owns_path = true;
	if (rte_vhost_driver_disable_features(self->path, unwanted) != 0)
		return -EIO;
	dpdk_virtio_hurry(self->path);
	return 0;
}

static int
dpdk_virtio_serve(struct dpdk_port *port, char *why, size_t size)
{
	struct dpdk_virtio *self = port->link;
	char arguments[PATH_MAX], text[XK_DPDK_WHY / 2];
	int error;

	self->claim_fd = dpdk_virtio_claim(self->path, XK_DPDK_SERVER);
	if (self->claim_fd == -EADDRINUSE)
		snprintf(why, size, "another server has %s: end it, or take another socket", self->path);
	else if (self->claim_fd < 0)
		snprintf(why, size, "no socket can be made at %s: %s", self->path, strerror(-self->claim_fd));
	if (self->claim_fd < 0)
		return self->claim_fd;
	error = dpdk_virtio_clear(self->path, why, size);
	if (error != 0)
		return error;
	port->configured = dpdk_virtio_configured;
	snprintf(arguments, sizeof(arguments), "iface=%s", self->path);
	dpdk_eal_log_reset();
	error = rte_eal_hotplug_add("vdev", port->device, arguments);
	if (error != 0) {
		snprintf(why, size, "DPDK makes no vhost device (%s): %s", strerror(-error),
			 dpdk_eal_log_text(text, sizeof(text)));
		return error;
	}
	return dpdk_port_start(port, why, size);
}

/* ---- the client ---- */

static uint64_t
dpdk_virtio_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* One attempt to reach the server. 0, or -errno and why. */
static int
dpdk_virtio_attach(struct dpdk_port *port, char *why, size_t size)
{
	struct dpdk_virtio *self = port->link;
	char arguments[PATH_MAX], text[XK_DPDK_WHY / 2];
	int error = dpdk_virtio_probe(self->path);

	if (error == 0 && self->claim_fd < 0)
		self->claim_fd = dpdk_virtio_claim(self->path, XK_DPDK_CLIENT);
	if (error != 0) {
		snprintf(why, size, "no server on %s (%s): start the server, or name its socket", self->path,
			 strerror(-error));
		return error;
	}
	if (self->claim_fd < 0) {
		snprintf(why, size, "the server on %s has another client: end that one first", self->path);
		return self->claim_fd;
	}
	snprintf(arguments, sizeof(arguments), "path=%s,queue_size=%d", self->path, DPDK_PORT_RING);
	dpdk_eal_log_reset();
	error = rte_eal_hotplug_add("vdev", port->device, arguments);
	if (error != 0)
		snprintf(why, size, "the server on %s does not take a virtio device (%s): %s", self->path,
			 strerror(-error), dpdk_eal_log_text(text, sizeof(text)));
	return error;
}

/* Serves signals and control for a while. False: a callback has broken the loop. */
static bool
dpdk_virtio_pause(struct event_base *events)
{
	struct timeval pause = { 0, DPDK_VIRTIO_RETRY_US };

	event_base_loopexit(events, &pause);
	event_base_dispatch(events);
	return !event_base_got_break(events);
}

static int
dpdk_virtio_connect(struct dpdk_port *port, unsigned wait_ms, char *why, size_t size)
{
	struct event_base *events = ((struct dpdk_platform *)port->base.platform)->events;
	uint64_t until_us = dpdk_virtio_now_us() + (uint64_t)wait_ms * 1000;
	int error;

	while ((error = dpdk_virtio_attach(port, why, size)) != 0) {
		if (dpdk_virtio_now_us() >= until_us)
			return error;
		if (!dpdk_virtio_pause(events)) {
			snprintf(why, size, "interrupted while waiting for the server");
			return -EINTR;
		}
	}
	atomic_store_explicit(&port->up, true, memory_order_relaxed);
	return dpdk_port_start(port, why, size);
}

/* ---- opening and closing ---- */

static void
dpdk_virtio_closed(struct dpdk_port *port)
{
	struct dpdk_virtio *self = port->link;

	if (self->owns_path)
		unlink(self->path);
	if (self->claim_fd >= 0)
		close(self->claim_fd);
	free(self);
}

/* A device name that is free. */
static void
dpdk_virtio_device(char *device, size_t size, enum xk_dpdk_end end)
{
	uint16_t id;
	unsigned i = 0;

	do {
		snprintf(device, size, "%s%u", end == XK_DPDK_SERVER ? "net_vhost" : "net_virtio_user", i);
	} while (rte_eth_dev_get_port_by_name(device, &id) == 0 && ++i < 100000);
}

struct xk_port *
xk_dpdk_virtio_open(struct xk_platform *platform, const struct xk_dpdk_virtio_config *config, char *why, size_t size)
{
	struct dpdk_virtio *self = calloc(1, sizeof(*self));
	struct dpdk_port *port = NULL;
	uint64_t address = config->address;
	char device[64];
	int error;

	if (self == NULL) {
		snprintf(why, size, "no memory");
		return NULL;
	}
	self->claim_fd = -1;
	dpdk_virtio_device(device, sizeof(device), config->end);
	if (xk_dpdk_socket_path(config->socket, self->path, sizeof(self->path), why, size) == 0) {
		if (address == 0)
			address = (uint64_t)0x02 << 40 | (dpdk_port_hash(self->path) & 0xfffffffffe) | config->end;
		port = dpdk_port_new(platform, config->name, device, address, why, size);
	}
	if (port == NULL) {
		free(self);
		return NULL;
	}
	port->link = self;
	port->closed = dpdk_virtio_closed;
	error = config->end == XK_DPDK_SERVER
			? dpdk_virtio_serve(port, why, size)
			: dpdk_virtio_connect(port, config->wait_ms != 0 ? config->wait_ms : XK_DPDK_WAIT_MS, why,
					      size);
	if (error == 0)
		return &port->base;
	dpdk_port_close(&port->base);
	return NULL;
}
