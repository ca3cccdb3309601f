/*
 * packet.c - link `af_packet`: a network interface of the operating system, by a packet socket. The operating system
 * keeps the interface and receives its frames, too.
 *
 * The socket is our own, not that of DPDK's af_packet driver. That driver ignores the kernel's metadata: which
 * checksums were left to a device, which frames were joined or truncated, and which were lost. It also joins a fanout
 * group that reassembles IP fragments, and sends by a ring that drops silently. Here, frames are received by a ring,
 * each behind a virtio header (PACKET_VNET_HDR), and sent by sendmmsg, which reports each frame that the interface
 * refuses.
 *
 * A checksum that the sender left to a device is completed at once: no protocol, capture or other link gets a frame
 * without one. Completing takes one pass over the frame, like verifying.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/capability.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum {
	DPDK_PACKET_FRAME = 2048,
	DPDK_PACKET_BLOCK = 2 * DPDK_PACKET_FRAME,
	DPDK_PACKET_FRAMES = 512,
	DPDK_PACKET_RING = DPDK_PACKET_FRAME * DPDK_PACKET_FRAMES,
	DPDK_PACKET_ROOM = 4 * DPDK_PACKET_RING,
	DPDK_PACKET_PIECES = 2 * XK_BURST,
	DPDK_PACKET_ADDRESSES = 12, /* bytes before a VLAN tag */
	DPDK_PACKET_TAG = 4,
	DPDK_PACKET_SCTP = 8, /* offset of SCTP's checksum, which is not the Internet checksum */
};

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

static_assert((int)DPDK_PACKET_FRAME <= (int)XK_MSG_SEGMENT, "a frame of the ring fits into a buffer");

struct dpdk_packet {
	struct dpdk_interface interface; /* with the socket */
	uint8_t *ring;
	unsigned next; /* frame of the ring */
};

/* ---- receiving ---- */

static struct virtio_net_hdr *
dpdk_packet_about(struct tpacket2_hdr *frame)
{
	return (struct virtio_net_hdr *)((uint8_t *)frame + frame->tp_mac - sizeof(struct virtio_net_hdr));
}

/* Prints once how to keep kernels from joining frames. */
static void
dpdk_packet_report_joined(struct dpdk_port *port)
{
	const struct dpdk_packet *self = port->device->state;

	if (atomic_exchange_explicit(&port->has_advised, true, memory_order_relaxed))
		return;
	dpdk_port_report(
		port,
		"frames joined from several by a kernel arrive, and are dropped (rx_joined): if the peer is a "
		"kernel, `ethtool -K ITS_END gso off tso off` there; if %s is a card, `ethtool -K %s gro off lro "
		"off` here",
		self->interface.now.name, self->interface.now.name);
}

/* Completes the checksum that was left to a device. Otherwise counts the frame and returns false. */
static bool
dpdk_packet_sum(struct dpdk_port *port, uint8_t *bytes, size_t len, const struct virtio_net_hdr *about)
{
	size_t from = about->csum_start, at = from + about->csum_offset;
	uint16_t sum;

	if (at + 2 > len || about->csum_offset == DPDK_PACKET_SCTP) {
		dpdk_port_count(port, DPDK_COUNT_RX_UNSUMMED, 1);
		return false;
	}
	sum = xk_checksum_finish(xk_sum(0, bytes + from, len - from));
	xk_checksum_store(bytes + at, sum != 0 ? sum : 0xffff); /* to UDP, 0 means that there is none */
	return true;
}

/* Restores the VLAN tag, which the kernel removed. VLAN 0 is no VLAN, only a priority. */
static void
dpdk_packet_tag(struct rte_mbuf *m, const struct tpacket2_hdr *frame)
{
	uint16_t type = (frame->tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? frame->tp_vlan_tpid : ETH_P_8021Q;
	uint8_t *before = rte_pktmbuf_mtod(m, uint8_t *), *bytes;

	if ((frame->tp_status & TP_STATUS_VLAN_VALID) == 0 || (frame->tp_vlan_tci & 0xfff) == 0)
		return;
	bytes = (uint8_t *)rte_pktmbuf_prepend(m, DPDK_PACKET_TAG);
	memmove(bytes, before, DPDK_PACKET_ADDRESSES);
	xk_put16(bytes + DPDK_PACKET_ADDRESSES, type);
	xk_put16(bytes + DPDK_PACKET_ADDRESSES + 2, frame->tp_vlan_tci);
}

/* Returns true if the frame is complete and not joined from several; otherwise counts it. */
static bool
dpdk_packet_is_good(struct dpdk_port *port, struct tpacket2_hdr *frame)
{
	bool is_joined = dpdk_packet_about(frame)->gso_type != VIRTIO_NET_HDR_GSO_NONE;

	if (!is_joined && frame->tp_len == frame->tp_snaplen)
		return true;
	dpdk_port_count(port, is_joined ? DPDK_COUNT_RX_JOINED : DPDK_COUNT_RX_TOO_LONG, 1);
	if (is_joined)
		dpdk_packet_report_joined(port);
	return false;
}

/* Copies the frame into m. Returns false if it was dropped. */
static bool
dpdk_packet_copy(struct dpdk_port *port, struct rte_mbuf *m, struct tpacket2_hdr *frame)
{
	const struct virtio_net_hdr *about = dpdk_packet_about(frame);
	uint8_t *bytes = rte_pktmbuf_mtod(m, uint8_t *);

	memcpy(bytes, (uint8_t *)frame + frame->tp_mac, frame->tp_snaplen);
	m->pkt_len = m->data_len = (uint16_t)frame->tp_snaplen;
	if ((about->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) != 0 && !dpdk_packet_sum(port, bytes, m->data_len, about))
		return false;
	if (about->flags != 0)
		m->ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_GOOD;
	dpdk_packet_tag(m, frame);
	return true;
}

static unsigned
dpdk_packet_receive(struct dpdk_port *port, struct rte_mbuf **frames, unsigned max)
{
	struct dpdk_packet *self = port->device->state;
	unsigned taken = 0;

	for (unsigned i = 0; i < max; i++) {
		struct tpacket2_hdr *frame = (struct tpacket2_hdr *)(self->ring + self->next * DPDK_PACKET_FRAME);
		struct rte_mbuf *m = NULL;

		if ((__atomic_load_n(&frame->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) == 0)
			break;
		if (xk_likely(dpdk_packet_is_good(port, frame))) {
			m = rte_pktmbuf_alloc(((struct dpdk_platform *)port->base.platform)->pool);
			if (m == NULL) /* the frame stays in the ring */
				break;
		}
		if (m != NULL && dpdk_packet_copy(port, m, frame))
			frames[taken++] = m;
		else
			rte_pktmbuf_free(m);
		__atomic_store_n(&frame->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		self->next = (self->next + 1) % DPDK_PACKET_FRAMES;
	}
	return taken;
}

/* ---- sending ---- */

/*
 * Handles an error of sendmmsg. Returns true, with the frame counted, if it is lost, or false if it may be sent again.
 */
static bool
dpdk_packet_is_lost(struct dpdk_port *port, int error)
{
	switch (error) {
	case EINTR:
	case EAGAIN:
	case ENOBUFS:
	case ENOMEM:
		return false;
	case EMSGSIZE:
		dpdk_port_count(port, DPDK_COUNT_TOO_LONG, 1);
		return true;
	case ENETDOWN:
	case ENXIO:
	case ENODEV:
		dpdk_port_count(port, DPDK_COUNT_NO_PEER, 1);
		return true;
	default:
		dpdk_port_count(port, DPDK_COUNT_UNSENT, 1);
		return true;
	}
}

/* Sends the frames that fit into one call. Returns how many were taken. */
static unsigned
dpdk_packet_send(struct dpdk_port *port, struct rte_mbuf **frames, unsigned count)
{
	static const struct virtio_net_hdr plain = { .gso_type = VIRTIO_NET_HDR_GSO_NONE };
	const struct dpdk_packet *self = port->device->state;
	struct mmsghdr messages[XK_BURST];
	struct iovec pieces[DPDK_PACKET_PIECES];
	unsigned used = 0, ready = 0;
	int sent;

	for (; ready < count && ready < XK_BURST && used + 1 + frames[ready]->nb_segs <= DPDK_PACKET_PIECES; ready++) {
		struct msghdr header = { .msg_iov = &pieces[used], .msg_iovlen = 1 + (size_t)frames[ready]->nb_segs };

		pieces[used++] = (struct iovec){ (void *)(uintptr_t)&plain, sizeof(plain) };
		for (const struct rte_mbuf *m = frames[ready]; m != NULL; m = m->next)
			pieces[used++] = (struct iovec){ rte_pktmbuf_mtod(m, void *), m->data_len };
		messages[ready] = (struct mmsghdr){ .msg_hdr = header };
	}
	sent = sendmmsg(self->interface.socket_fd, messages, ready, MSG_DONTWAIT);
	if (sent < 0)
		sent = dpdk_packet_is_lost(port, errno);
	for (int i = 0; i < sent; i++)
		rte_pktmbuf_free(frames[i]);
	return (unsigned)sent;
}

static unsigned
dpdk_packet_transmit(struct dpdk_port *port, struct rte_mbuf **frames, unsigned count)
{
	unsigned sent = 0, taken = 1;

	for (; sent < count && taken > 0; sent += taken)
		taken = dpdk_packet_send(port, frames + sent, count - sent);
	return sent;
}

/* ---- counts ---- */

/* Adds the kernel's count, which each reading resets. */
static void
dpdk_packet_count(struct dpdk_port *port)
{
	const struct dpdk_packet *self = port->device->state;
	struct tpacket_stats stats;
	socklen_t len = sizeof(stats);

	if (getsockopt(self->interface.socket_fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len) == 0)
		dpdk_port_count(port, DPDK_COUNT_RX_MISSED, stats.tp_drops);
}

/* ---- opening and closing ---- */

static bool
dpdk_packet_set(int fd, int option, int value)
{
	return setsockopt(fd, SOL_PACKET, option, &value, sizeof(value)) == 0;
}

/* Directs the interface's frames to the socket. Returns 0 or -errno. */
static int
dpdk_packet_bind(const struct dpdk_packet *self)
{
	const struct sockaddr_ll address = { .sll_family = AF_PACKET,
					     .sll_protocol = htons(ETH_P_ALL),
					     .sll_ifindex = self->interface.now.index };

	return bind(self->interface.socket_fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : -errno;
}

/* Creates the socket and its ring. Returns 0 or -errno. */
static int
dpdk_packet_new_socket(struct dpdk_packet *self)
{
	const struct tpacket_req ring = { .tp_block_size = DPDK_PACKET_BLOCK,
					  .tp_block_nr = DPDK_PACKET_RING / DPDK_PACKET_BLOCK,
					  .tp_frame_size = DPDK_PACKET_FRAME,
					  .tp_frame_nr = DPDK_PACKET_FRAMES };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), room = DPDK_PACKET_ROOM;
	void *mapped;

	self->interface.socket_fd = fd;
	if (fd < 0)
		return -errno;
	dpdk_packet_set(fd, PACKET_IGNORE_OUTGOING, 1);
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	if (!dpdk_packet_set(fd, PACKET_VERSION, TPACKET_V2) || !dpdk_packet_set(fd, PACKET_VNET_HDR, 1) ||
	    setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof(ring)) != 0)
		return -errno;
	mapped = mmap(NULL, DPDK_PACKET_RING, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		return -errno;
	self->ring = mapped;
	return dpdk_packet_bind(self);
}

static int
dpdk_packet_open(struct dpdk_port *port, const struct xk_dpdk_port_config *config, char *why, size_t size)
{
	static const unsigned needed = CAP_NET_RAW;
	struct dpdk_device *device = port->device;
	int error = dpdk_interface_new(device, sizeof(struct dpdk_packet), config->device, why, size);
	struct dpdk_packet *self = device->state;

	if (error == 0)
		error = dpdk_interface_check(&self->interface, &needed, 1, "link af_packet", why, size);
	if (error != 0)
		return error;
	error = dpdk_packet_new_socket(self);
	if (error != 0) {
		snprintf(why, size, "the packet socket on %s cannot be set up: %s", config->device, xk_error(error));
		return error;
	}
	device->can_chain = true;
	dpdk_port_watch_fd(port, self->interface.socket_fd);
	return dpdk_interface_attach(port, why, size);
}

static int
dpdk_packet_reopen(struct dpdk_port *port, char *why, size_t size)
{
	int error = dpdk_packet_bind(port->device->state);

	if (error != 0)
		snprintf(why, size, "%s", xk_error(error));
	return error;
}

static void
dpdk_packet_closed(struct dpdk_device *device)
{
	struct dpdk_packet *self = device->state;

	if (self != NULL && self->ring != NULL)
		munmap(self->ring, DPDK_PACKET_RING);
	if (self != NULL && self->interface.socket_fd >= 0)
		close(self->interface.socket_fd);
	dpdk_interface_free(device);
}

const struct dpdk_link dpdk_link_packet = {
	.about = { "af_packet", "a network interface of the kernel, by a packet socket", XK_DPDK_NEEDS_INTERFACE, true,
		   1 },
	.open = dpdk_packet_open,
	.closed = dpdk_packet_closed,
	.receive = dpdk_packet_receive,
	.transmit = dpdk_packet_transmit,
	.count = dpdk_packet_count,
	.reopen = dpdk_packet_reopen,
};
