/*
 * socket.c - the socket in the file system at which two processes meet.
 *
 * Each end claims the socket: a second server is refused, a second client waits until the first has gone, and a socket
 * left by a killed server is recognized as unused. A server announces its number of lanes by another claim.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"
#include "platform/private.h"

enum { DPDK_SOCKET_RETRY_US = 5000, DPDK_SOCKET_PATH_MAX = 100, DPDK_SOCKET_CLAIM = 64 };

static_assert((int)DPDK_SOCKET_PATH <= (int)sizeof(((struct sockaddr_un *)NULL)->sun_path),
	      "a path fits into an address");

/* ---- paths and claims ---- */

int
xk_dpdk_socket_path(const char *socket, char *path, size_t path_size, char *why, size_t size)
{
	char directory[PATH_MAX], reason[XK_DPDK_WHY / 2];
	int error, len;

	/* These characters have a meaning in DPDK's arguments. */
	if (socket == NULL || socket[0] == '\0' || strpbrk(socket, ",[]\"\n") != NULL) {
		snprintf(why, size, "a socket's name needs at least one character, and no comma, bracket or quote");
		return -EINVAL;
	}
	if (strchr(socket, '/') != NULL) {
		len = snprintf(path, path_size, "%s", socket);
	} else {
		error = private_directory(directory, sizeof(directory), true, reason, sizeof(reason));
		if (error != 0) {
			snprintf(why, size,
				 "no directory for sockets: %s; set XDG_RUNTIME_DIR, remove it, or specify a path",
				 reason);
			return error;
		}
		len = snprintf(path, path_size, "%s/xk-%s.sock", directory, socket);
	}
	if (len <= DPDK_SOCKET_PATH_MAX && (size_t)len < path_size)
		return 0;
	snprintf(why, size, "the socket's path has %d characters, more than %d: use a shorter name", len,
		 DPDK_SOCKET_PATH_MAX);
	return -ENAMETOOLONG;
}

/*
 * Writes the name of an end's claim, which is the same for every spelling of the path. The directory is known by its
 * inode: in two mount namespaces, one path may name two. Returns 0 or -errno.
 */
static int
dpdk_socket_claim_name(const char *path, const char *end, char name[DPDK_SOCKET_CLAIM])
{
	char directory[PATH_MAX], whole[PATH_MAX];
	const char *slash = strrchr(path, '/');
	struct stat status;

	snprintf(directory, sizeof(directory), "%.*s", slash == NULL ? 1 : (int)(slash - path + 1),
		 slash == NULL ? "." : path);
	if (stat(directory, &status) != 0)
		return -errno;
	snprintf(whole, sizeof(whole), "%llx:%llx/%s", (unsigned long long)status.st_dev,
		 (unsigned long long)status.st_ino, slash == NULL ? path : slash + 1);
	snprintf(name, DPDK_SOCKET_CLAIM, "%s-%016llx", end, (unsigned long long)dpdk_hash(whole));
	return 0;
}

/* Claims this end of the socket at path for this process, like dpdk_claim. */
static int
dpdk_socket_claim(const char *path, const char *end)
{
	char name[DPDK_SOCKET_CLAIM];
	int error = dpdk_socket_claim_name(path, end, name);

	return error == 0 ? dpdk_claim(name) : error;
}

/* Checks that the socket exists without connecting to it, which would harm some servers. Returns 0 or -errno. */
static int
dpdk_socket_check_exists(const struct dpdk_socket *self)
{
	struct stat status;

	if (stat(self->path, &status) != 0)
		return -errno;
	return S_ISSOCK(status.st_mode) ? 0 : -ENOTSOCK;
}

/* Returns 0 if a process in this network namespace has the socket open, or an error like private_probe. */
static int
dpdk_socket_check_open(const struct dpdk_socket *self)
{
	FILE *sockets = fopen("/proc/net/unix", "re");
	char line[512];
	int error = dpdk_socket_check_exists(self);
	bool is_open = sockets == NULL;

	while (sockets != NULL && error == 0 && fgets(line, sizeof(line), sockets) != NULL) {
		const char *path = strchr(line, '/');
		size_t len = strlen(self->path);

		is_open |= path != NULL && strncmp(path, self->path, len) == 0 && path[len] == '\n';
	}
	if (sockets != NULL)
		fclose(sockets);
	return error == 0 && !is_open ? -ECONNREFUSED : error;
}

/* ---- the server ---- */

/* The umask belongs to the process, so one thread changes it at a time. */
static pthread_mutex_t dpdk_umask_mutex = PTHREAD_MUTEX_INITIALIZER;

mode_t
dpdk_umask_private(void)
{
	pthread_mutex_lock(&dpdk_umask_mutex);
	return umask(S_IXUSR | S_IRWXG | S_IRWXO);
}

void
dpdk_umask_restore(mode_t mask)
{
	umask(mask);
	pthread_mutex_unlock(&dpdk_umask_mutex);
}

/* Removes a socket that a killed server left at the path. Fails if anything else is there. */
static int
dpdk_socket_clear(const struct dpdk_socket *self, char *why, size_t size)
{
	const char *path = self->path;
	struct stat status;
	int error = self->is_harmed_by_probes ? dpdk_socket_check_open(self) : private_probe(self->path, self->type);

	if (error == -ENOENT)
		return 0;
	if (error == 0) {
		snprintf(why, size,
			 "another program serves on %s: stop it, or use another socket with port.dev=", path);
		return -EADDRINUSE;
	}
	if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode) && error == -ECONNREFUSED && unlink(path) == 0)
		return 0;
	snprintf(why, size, "%s exists and cannot be used (%s): remove it, or use another socket with port.dev=", path,
		 xk_error(error));
	return error;
}

static void
dpdk_socket_lanes_name(char name[16], unsigned lanes)
{
	snprintf(name, 16, "lanes-%u", lanes);
}

int
dpdk_socket_serve(struct dpdk_device *device, char *why, size_t size)
{
	struct dpdk_socket *self = device->state;
	char lanes[16];

	dpdk_socket_lanes_name(lanes, device->port_count);
	self->claim_fd = dpdk_socket_claim(self->path, "server");
	if (self->claim_fd >= 0)
		self->lanes_fd = dpdk_socket_claim(self->path, lanes);
	if (self->claim_fd == -EADDRINUSE)
		snprintf(why, size, "another server has %s: stop it, or use another socket with port.dev=", self->path);
	else if (self->claim_fd < 0)
		snprintf(why, size, "no socket can be created at %s: %s", self->path, xk_error(self->claim_fd));
	return self->claim_fd < 0 ? self->claim_fd : dpdk_socket_clear(self, why, size);
}

unsigned
dpdk_socket_lanes(const struct dpdk_socket *self)
{
	char end[16], name[DPDK_SOCKET_CLAIM];

	for (unsigned lanes = 1; lanes <= XK_DRIVERS; lanes++) {
		dpdk_socket_lanes_name(end, lanes);
		if (dpdk_socket_claim_name(self->path, end, name) == 0 && dpdk_is_claimed(name))
			return lanes;
	}
	return UINT_MAX;
}

/* ---- the client ---- */

/* Fails unless there is a server that this client has claimed. */
static int
dpdk_socket_reach(struct dpdk_socket *self, char *why, size_t size)
{
	int error = self->is_harmed_by_probes ? dpdk_socket_check_exists(self) : private_probe(self->path, self->type);

	if (error == 0 && self->claim_fd < 0)
		self->claim_fd = dpdk_socket_claim(self->path, "client");
	if (error != 0) {
		snprintf(why, size,
			 "no server on %s (%s): start the server, or specify its socket with port.dev=", self->path,
			 xk_error(error));
		return error;
	}
	if (self->claim_fd < 0)
		snprintf(why, size, "the server on %s has another client: stop that one first", self->path);
	return self->claim_fd < 0 ? self->claim_fd : 0;
}

/* Serves signals and control for one retry interval. Returns false if a callback broke the loop. */
static bool
dpdk_socket_pause(struct event_base *events)
{
	struct timeval pause = { 0, DPDK_SOCKET_RETRY_US };

	event_base_loopexit(events, &pause);
	event_base_dispatch(events);
	return !event_base_got_break(events);
}

bool
dpdk_socket_is_answered(struct dpdk_port *port, unsigned wait_ms)
{
	struct event_base *events = ((struct dpdk_platform *)port->base.platform)->events;
	uint64_t until_ns = clock_system_ns() + (uint64_t)wait_ms * 1000000;

	while (!dpdk_device_is_up(port->device) && clock_system_ns() < until_ns)
		if (!dpdk_socket_pause(events))
			return false;
	return dpdk_device_is_up(port->device);
}

int
dpdk_socket_await(struct dpdk_port *port, unsigned wait_ms,
		  int (*attach)(struct dpdk_port *port, char *why, size_t size), char *why, size_t size)
{
	struct event_base *events = ((struct dpdk_platform *)port->base.platform)->events;
	uint64_t until_ns = clock_system_ns() + (uint64_t)(wait_ms != 0 ? wait_ms : XK_DPDK_WAIT_MS) * 1000000;
	struct dpdk_socket *self = port->device->state;
	int error;

	for (;;) {
		error = dpdk_socket_reach(self, why, size);
		if (error == 0)
			error = attach(port, why, size);
		if (error == 0 || error == -ERANGE || clock_system_ns() >= until_ns)
			return error;
		if (!dpdk_socket_pause(events)) {
			snprintf(why, size, "interrupted while waiting for the server");
			return -EINTR;
		}
	}
}

/* ---- making and freeing ---- */

int
dpdk_socket_new(struct dpdk_device *device, const char *name, int type, char *why, size_t size)
{
	struct dpdk_socket *self = calloc(1, sizeof(*self));

	if (self == NULL) {
		snprintf(why, size, "no memory");
		return -ENOMEM;
	}
	device->state = self;
	self->type = type;
	self->claim_fd = self->lanes_fd = -1;
	return xk_dpdk_socket_path(name, self->path, sizeof(self->path), why, size);
}

void
dpdk_socket_free(struct dpdk_device *device)
{
	struct dpdk_socket *self = device->state;

	if (self == NULL)
		return;
	if (self->owns_path)
		unlink(self->path);
	dpdk_unclaim(self->claim_fd);
	dpdk_unclaim(self->lanes_fd);
	free(self);
}
