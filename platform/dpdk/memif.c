/*
 * memif.c - link `memif`: two processes over shared memory, by DPDK's memif driver; the protocol is VPP's. The server
 * owns the socket, the client provides the memory. There are no wake-ups.
 *
 * When a peer goes, DPDK's interrupt thread unmaps the shared memory even while a driver uses it. Therefore a guard is
 * shut whenever that thread runs: between its turns the thread sleeps in a callback of ours, with the guard open.
 * Senders and receivers do not wait: while the guard is shut, there is nothing to receive and no room to send. The
 * guard, like DPDK's thread, belongs to the process.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <rte_alarm.h>
#include <rte_ethdev.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"

enum {
	DPDK_MEMIF_OPEN_NS = 50 * 1000 * 1000, /* time that the guard stays open */
	DPDK_MEMIF_SHUT_US = 50,  /* time that it stays shut; DPDK runs due alarms before it serves its peers */
	DPDK_MEMIF_POLL_US = 500, /* time between polls for a peer while there is none */
	DPDK_MEMIF_ANSWER_MS = 500,
	DPDK_MEMIF_RING_LOG2 = 8,
	DPDK_MEMIF_PORTS = 16,
	DPDK_MEMIF_ARGUMENTS = 200,
};

static_assert(1 << DPDK_MEMIF_RING_LOG2 == DPDK_DEVICE_RING, "memif's rings are as long as those of other devices");

static struct {
	pthread_mutex_t lock; /* protects devices */
	struct dpdk_guard guard;
	struct dpdk_device *devices[DPDK_MEMIF_PORTS];
	unsigned count;
} dpdk_memif = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- the guard ---- */

/* Runs in the interrupt thread, which sleeps here while the guard is open. */
static void
dpdk_memif_turn(void *argument)
{
	const struct timespec open = { 0, DPDK_MEMIF_OPEN_NS };
	bool any = false, going;

	dpdk_guard_shut(&dpdk_memif.guard);
	pthread_mutex_lock(&dpdk_memif.lock);
	for (unsigned i = 0; i < dpdk_memif.count; i++) {
		bool up = dpdk_device_is_linked(dpdk_memif.devices[i]);

		if (up != dpdk_device_is_up(dpdk_memif.devices[i]))
			dpdk_device_set_up(dpdk_memif.devices[i], up);
		any |= up;
	}
	going = dpdk_memif.count > 0;
	pthread_mutex_unlock(&dpdk_memif.lock);
	if (any) {
		dpdk_guard_open(&dpdk_memif.guard);
		nanosleep(&open, NULL);
		dpdk_guard_shut(&dpdk_memif.guard);
	}
	if (going)
		rte_eal_alarm_set(any ? DPDK_MEMIF_SHUT_US : DPDK_MEMIF_POLL_US, dpdk_memif_turn, argument);
}

static int
dpdk_memif_enter(struct dpdk_device *device, char *why, size_t size)
{
	bool first, full;

	pthread_mutex_lock(&dpdk_memif.lock);
	first = dpdk_memif.count == 0;
	full = dpdk_memif.count == DPDK_MEMIF_PORTS;
	if (!full)
		dpdk_memif.devices[dpdk_memif.count++] = device;
	pthread_mutex_unlock(&dpdk_memif.lock);
	if (full)
		snprintf(why, size, "a process has at most %d memif ports", DPDK_MEMIF_PORTS);
	else if (first)
		rte_eal_alarm_set(1, dpdk_memif_turn, NULL);
	return full ? -EMFILE : 0;
}

static void
dpdk_memif_leave(struct dpdk_device *device)
{
	bool last;
	unsigned i = 0;

	pthread_mutex_lock(&dpdk_memif.lock);
	while (i < dpdk_memif.count && dpdk_memif.devices[i] != device)
		i++;
	last = i < dpdk_memif.count && dpdk_memif.count == 1;
	if (i < dpdk_memif.count)
		dpdk_memif.devices[i] = dpdk_memif.devices[--dpdk_memif.count];
	pthread_mutex_unlock(&dpdk_memif.lock);
	if (last)
		rte_eal_alarm_cancel(dpdk_memif_turn, NULL);
}

/* ---- opening ---- */

/* Makes the path absolute, as DPDK requires. */
static int
dpdk_memif_make_absolute(struct dpdk_socket *self, char *why, size_t size)
{
	char here[DPDK_SOCKET_PATH] = "", whole[2 * DPDK_SOCKET_PATH];

	if (self->path[0] == '/')
		return 0;
	if (getcwd(here, sizeof(here)) == NULL) {
		snprintf(why, size, "the working directory is gone (%s): use an absolute path", xk_error(errno));
		return -ENOENT;
	}
	if (snprintf(whole, sizeof(whole), "%s/%s", here, self->path) < (int)sizeof(self->path)) {
		strcpy(self->path, whole);
		return 0;
	}
	snprintf(why, size, "the absolute path of %s is too long for a socket: use a shorter one", self->path);
	return -ENAMETOOLONG;
}

static int
dpdk_memif_plug(struct dpdk_port *port, const char *role, char *why, size_t size)
{
	struct dpdk_device *device = port->device;
	const struct dpdk_socket *self = device->state;
	char arguments[DPDK_MEMIF_ARGUMENTS];
	int error;

	snprintf(arguments, sizeof(arguments), "role=%s,id=0,socket=%s,socket-abstract=no,rsize=%d", role, self->path,
		 DPDK_MEMIF_RING_LOG2);
	error = dpdk_device_plug(device, arguments, "DPDK creates no memif device", why, size);
	if (error == 0)
		error = dpdk_device_start(device, why, size);
	return error == 0 ? dpdk_memif_enter(device, why, size) : error;
}

/*
 * Creates a device and waits for the server's answer. A server that is starting or ending may not answer, and DPDK's
 * driver does not retry: the device is then removed, and the caller tries again.
 */
static int
dpdk_memif_attach(struct dpdk_port *port, char *why, size_t size)
{
	const struct dpdk_socket *self = port->device->state;
	int error = dpdk_memif_plug(port, "client", why, size);

	if (error == 0 && !dpdk_socket_is_answered(port, DPDK_MEMIF_ANSWER_MS)) {
		snprintf(why, size, "the server on %s does not accept a memif device", self->path);
		error = -ECONNREFUSED;
	}
	if (error != 0)
		dpdk_device_unplug(port->device);
	return error;
}

static int
dpdk_memif_open(struct dpdk_port *port, const struct xk_dpdk_port_config *config, char *why, size_t size)
{
	struct dpdk_device *device = port->device;
	struct dpdk_socket *self;
	int error = dpdk_socket_new(device, config->device, SOCK_SEQPACKET, why, size);
	mode_t mask;

	if (error == 0)
		error = dpdk_memif_make_absolute(device->state, why, size);
	if (error != 0)
		return error;
	self = device->state;
	self->is_harmed_by_probes = true;
	port->guard = &dpdk_memif.guard;
	port->base.address = dpdk_address_generate(self->path) | config->end;
	dpdk_device_name(device, "net_memif");
	if (config->end == XK_DPDK_CLIENT) {
		error = dpdk_eal_check_shared(why, size);
		return error != 0 ? error : dpdk_socket_await(port, config->wait_ms, dpdk_memif_attach, why, size);
	}
	error = dpdk_socket_serve(device, why, size);
	if (error != 0)
		return error;
	self->owns_path = true;
	mask = dpdk_umask_private();
	error = dpdk_memif_plug(port, "server", why, size);
	dpdk_umask_restore(mask);
	return error;
}

const struct dpdk_link dpdk_link_memif = {
	.about = { "memif", "two processes over shared memory (memif)", XK_DPDK_NEEDS_SOCKET, false, 1 },
	.open = dpdk_memif_open,
	.closing = dpdk_memif_leave,
	.closed = dpdk_socket_free,
};
