/*
 * virtio.c - link `virtio`: two processes over shared memory, each of which can wake the other. The server is a
 * vhost-user device that owns a socket, the client a virtio-user device that connects to it. vhost is the server
 * because it starts without a peer and serves one peer after another.
 *
 * Queue i of one end leads to queue i of the other. A client uses all of its queues; the server may have more.
 */
#include <linux/virtio_net.h>
#include <rte_eth_vhost.h>
#include <rte_ethdev.h>
#include <rte_vhost.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"

enum {
	DPDK_VIRTIO_ARGUMENTS = 160,
	DPDK_VIRTIO_LANES = 8, /* maximum of DPDK's virtio driver */
};

static_assert(DPDK_VIRTIO_LANES < 32, "dpdk_device.enabled has a bit for each");

static const char dpdk_virtio_server[] = "net_vhost", dpdk_virtio_client[] = "net_virtio_user";

/* ---- the server ---- */

static bool
dpdk_virtio_is_server(const struct dpdk_device *device)
{
	return strncmp(device->name, dpdk_virtio_server, strlen(dpdk_virtio_server)) == 0;
}

/* Returns the number of leading lanes of which the client has enabled both queues. */
static unsigned
dpdk_virtio_lanes(struct dpdk_device *device, bool up)
{
	struct rte_eth_vhost_queue_event event;
	unsigned lanes = 0;

	if (!dpdk_virtio_is_server(device))
		return up ? device->port_count : 0;
	if (!up)
		device->enabled[0] = device->enabled[1] = 0;
	while (up && rte_eth_vhost_get_queue_event(device->id, &event) == 0) {
		if (event.queue_id >= device->port_count) /* a client may enable queues that do not exist */
			continue;
		device->enabled[event.rx] &= ~(UINT32_C(1) << event.queue_id);
		device->enabled[event.rx] |= (uint32_t)event.enable << event.queue_id;
	}
	while (lanes < device->port_count && (device->enabled[0] & device->enabled[1] & UINT32_C(1) << lanes) != 0)
		lanes++;
	return lanes;
}

static const struct rte_vhost_device_ops dpdk_virtio_nothing;

/*
 * Wakes DPDK's vhost thread, which may sleep for up to a second before it polls a new listening socket. A connection
 * that DPDK itself makes wakes it, so this listens at a second path for a moment and makes DPDK connect there.
 */
static void
dpdk_virtio_wake_vhost(const char *path)
{
	char beside[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	struct sockaddr_un address;
	int fd;

	snprintf(beside, sizeof(beside), "%.100s.wake", path);
	address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(address.sun_path, beside, sizeof(beside));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
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

/* Disables features of a server that make DPDK compute checksums, or read more of the peer's headers than needed. */
static int
dpdk_virtio_configured(struct dpdk_device *device)
{
	struct dpdk_socket *self = device->state;
	uint64_t unwanted = 1ULL << VIRTIO_NET_F_CSUM | 1ULL << VIRTIO_NET_F_GUEST_CSUM |
			    1ULL << VIRTIO_NET_F_GUEST_TSO4 | 1ULL << VIRTIO_NET_F_GUEST_TSO6 |
			    1ULL << VIRTIO_NET_F_GUEST_ECN | 1ULL << VIRTIO_NET_F_GUEST_UFO |
			    1ULL << VIRTIO_NET_F_HOST_TSO4 | 1ULL << VIRTIO_NET_F_HOST_TSO6 |
			    1ULL << VIRTIO_NET_F_HOST_ECN | 1ULL << VIRTIO_NET_F_HOST_UFO;

	if (!dpdk_virtio_is_server(device))
		return 0;
	self->owns_path = true;
	if (rte_vhost_driver_disable_features(self->path, unwanted) != 0)
		return -EIO;
	dpdk_virtio_wake_vhost(self->path);
	return 0;
}

static int
dpdk_virtio_serve(struct dpdk_port *port, char *why, size_t size)
{
	struct dpdk_device *device = port->device;
	struct dpdk_socket *self = device->state;
	char arguments[DPDK_VIRTIO_ARGUMENTS];
	int error = dpdk_socket_serve(device, why, size);
	mode_t mask;

	if (error != 0)
		return error;
	dpdk_device_name(device, dpdk_virtio_server);
	snprintf(arguments, sizeof(arguments), "iface=%s,queues=%u", self->path, device->port_count);
	mask = dpdk_umask_private();
	error = dpdk_device_plug(device, arguments, "DPDK creates no vhost device", why, size);
	if (error == 0)
		error = dpdk_device_start(device, why, size);
	dpdk_umask_restore(mask);
	return error;
}

/* ---- the client ---- */

/* Fails with -ERANGE if the server has fewer lanes: DPDK would leave frames in queues that have no driver. */
static int
dpdk_virtio_check_lanes(const struct dpdk_device *device, char *why, size_t size)
{
	const struct dpdk_socket *self = device->state;
	unsigned most;

	if (device->port_count == 1)
		return 0;
	most = dpdk_socket_lanes(self);
	if (device->port_count <= most)
		return 0;
	snprintf(why, size,
		 "the server on %s has %u queue%s, and this host has %u drivers: use fewer, or give the server more",
		 self->path, most, most == 1 ? "" : "s", device->port_count);
	return -ERANGE;
}

static int
dpdk_virtio_attach(struct dpdk_port *port, char *why, size_t size)
{
	struct dpdk_socket *self = port->device->state;
	char arguments[DPDK_VIRTIO_ARGUMENTS], what[XK_DPDK_WHY / 2];
	int error = dpdk_virtio_check_lanes(port->device, why, size), len;

	if (error != 0)
		return error;
	len = snprintf(arguments, sizeof(arguments), "path=%s,queue_size=%d", self->path, DPDK_DEVICE_RING);
	if (port->device->port_count > 1)
		snprintf(arguments + len, sizeof(arguments) - (size_t)len, ",queues=%u,cq=1", port->device->port_count);
	snprintf(what, sizeof(what), "the server on %s does not accept a virtio device", self->path);
	return dpdk_device_plug(port->device, arguments, what, why, size);
}

/* ---- opening ---- */

static int
dpdk_virtio_open(struct dpdk_port *port, const struct xk_dpdk_port_config *config, char *why, size_t size)
{
	struct dpdk_socket *self;
	int error = dpdk_socket_new(port->device, config->device, SOCK_STREAM, why, size);

	if (error != 0)
		return error;
	self = port->device->state;
	port->device->reports_link = true;
	port->device->spreads = port->device->port_count > 1;
	port->base.address = dpdk_address_generate(self->path) | config->end;
	if (config->end == XK_DPDK_SERVER)
		return dpdk_virtio_serve(port, why, size);
	error = dpdk_eal_check_shared(why, size);
	if (error != 0)
		return error;
	port->device->is_read_by_others = true; /* the server copies from this process's memory */
	dpdk_device_name(port->device, dpdk_virtio_client);
	error = dpdk_socket_await(port, config->wait_ms, dpdk_virtio_attach, why, size);
	if (error != 0)
		return error;
	dpdk_device_set_up(port->device, true);
	return dpdk_device_start(port->device, why, size);
}

const struct dpdk_link dpdk_link_virtio = {
	.about = { "virtio", "two processes over shared memory (virtio-user to vhost-user)", XK_DPDK_NEEDS_SOCKET, true,
		   DPDK_VIRTIO_LANES },
	.open = dpdk_virtio_open,
	.lanes = dpdk_virtio_lanes,
	.configured = dpdk_virtio_configured,
	.closed = dpdk_socket_free,
};
