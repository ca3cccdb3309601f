/*
 * packet.c - link `af_packet`: a network interface of the operating system, by a packet socket. The operating system
 * keeps the interface and receives its frames, too.
 *
 * DPDK's driver puts its socket into a fanout group that reassembles IP fragments: the kernel would do the graph's
 * work and deliver datagrams that fit no frame. A socket cannot leave such a group, so another one replaces it, with
 * the same rings at the same address under the same descriptor. The new one has no group, does not receive what the
 * kernel itself sends, and never makes the driver wait for room. It also signals frames, which the driver does not.
 *
 * The group is named by the process and the interface, in 16 bits: another process that is just making its own, on another
 * interface, may have the same name, and Linux refuses the second. It has left the group a moment later.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"

enum {
	DPDK_PACKET_FRAME = 2048,
	DPDK_PACKET_BLOCK = 2 * DPDK_PACKET_FRAME,
	DPDK_PACKET_FRAMES = 512,
	DPDK_PACKET_RING = DPDK_PACKET_FRAME * DPDK_PACKET_FRAMES,
	DPDK_PACKET_ROOM = 4 * DPDK_PACKET_RING,
	DPDK_PACKET_ARGUMENTS = 96,
	DPDK_PACKET_LINE = 512,
	DPDK_PACKET_TRIES = 100,
	DPDK_PACKET_PAUSE_US = 10000,
};

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

/* Returns the address of socket fd's rings, the one to receive and the one to send, or NULL if they are not mapped. */
static void *
dpdk_packet_rings(int fd)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end, inode;
	char line[DPDK_PACKET_LINE];
	void *found = NULL;
	struct stat status;

	if (maps == NULL)
		return NULL;
	while (fstat(fd, &status) == 0 && found == NULL && fgets(line, sizeof(line), maps) != NULL)
		if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &start, &end, &inode) == 3 && inode == status.st_ino &&
		    strstr(line, "socket:") != NULL && end - start == 2 * DPDK_PACKET_RING)
			found = (void *)(uintptr_t)start;
	fclose(maps);
	return found;
}

static bool
dpdk_packet_set(int fd, int option, int value)
{
	return setsockopt(fd, SOL_PACKET, option, &value, sizeof(value)) == 0;
}

static bool
dpdk_packet_make_rings(int fd)
{
	const struct tpacket_req rings = { .tp_block_size = DPDK_PACKET_BLOCK,
					   .tp_block_nr = DPDK_PACKET_RING / DPDK_PACKET_BLOCK,
					   .tp_frame_size = DPDK_PACKET_FRAME,
					   .tp_frame_nr = DPDK_PACKET_FRAMES };
	int room = DPDK_PACKET_ROOM;

	dpdk_packet_set(fd, PACKET_IGNORE_OUTGOING, 1);
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	return dpdk_packet_set(fd, PACKET_VERSION, TPACKET_V2) && dpdk_packet_set(fd, PACKET_LOSS, 1) &&
	       setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &rings, sizeof(rings)) == 0 &&
	       setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &rings, sizeof(rings)) == 0;
}

/* Replaces descriptor fd by another socket on the same interface, with rings at the same address. 0 or -errno. */
static int
dpdk_packet_replace(int fd, int interface)
{
	const struct sockaddr_ll address = { .sll_family = AF_PACKET,
					     .sll_protocol = htons(ETH_P_ALL),
					     .sll_ifindex = interface };
	void *rings = dpdk_packet_rings(fd), *mapped = MAP_FAILED;
	int other = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), error = 0;

	if (other >= 0 && dpdk_packet_make_rings(other) && rings != NULL)
		mapped = mmap(rings, 2 * DPDK_PACKET_RING, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, other, 0);
	if (mapped == MAP_FAILED || dup3(other, fd, O_CLOEXEC) < 0 ||
	    bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
		error = rings == NULL || errno == 0 ? -ENXIO : -errno;
	if (other >= 0)
		close(other);
	return error;
}

/* Makes the device and finds its socket's descriptor. */
static int
dpdk_packet_plug(struct dpdk_device *device, int *fd, char *why, size_t size)
{
	const struct dpdk_interface *interface = device->state;
	struct dpdk_descriptors before;
	char arguments[DPDK_PACKET_ARGUMENTS];
	int error;

	dpdk_descriptors_find(&before, AF_PACKET);
	dpdk_device_name(device, "net_af_packet");
	snprintf(arguments, sizeof(arguments), "iface=%s,blocksz=%d,framesz=%d,framecnt=%d", interface->name,
		 DPDK_PACKET_BLOCK, DPDK_PACKET_FRAME, DPDK_PACKET_FRAMES);
	for (unsigned tries = 1;; tries++) {
		error = dpdk_device_plug(device, arguments, "DPDK makes no af_packet device", why, size);
		if (error == 0)
			break;
		if (strstr(why, "PACKET_FANOUT") == NULL || tries == DPDK_PACKET_TRIES)
			return error;
		usleep(DPDK_PACKET_PAUSE_US);
	}
	*fd = dpdk_descriptors_new(&before, AF_PACKET);
	error = dpdk_packet_replace(*fd, interface->index);
	if (error != 0)
		snprintf(why, size, "the packet socket on %s cannot be set up: %s", interface->name, xk_error(error));
	return error;
}

static int
dpdk_packet_open(struct dpdk_port *port, const struct xk_dpdk_port_config *config, char *why, size_t size)
{
	struct dpdk_device *device = port->device;
	int fd = -1, error = dpdk_interface_new(device, config->device, why, size);

	if (error == 0)
		error = dpdk_interface_is_there(device->state, why, size);
	if (error == 0)
		error = dpdk_interface_may(CAP_NET_RAW, "link af_packet", why, size);
	if (error == 0)
		error = dpdk_packet_plug(device, &fd, why, size);
	if (error == 0)
		error = dpdk_device_start(device, why, size);
	if (error != 0)
		return error;
	((struct dpdk_interface *)device->state)->socket_fd = fd;
	dpdk_port_watch_fd(port, fd, 0);
	return dpdk_interface_attach(port, why, size);
}

const struct dpdk_link dpdk_link_packet = {
	.about = { "af_packet", "a network interface of the kernel, by a packet socket", XK_DPDK_NEEDS_INTERFACE, true,
		   1 },
	.open = dpdk_packet_open,
	.closed = dpdk_interface_free,
};
