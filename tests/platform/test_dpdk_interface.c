/*
 * test_dpdk_interface.c - ports on network interfaces of the operating system: frames as kernels send them, and
 * interfaces that change while the port is open.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <sys/uio.h>

#include "tests/platform/dpdk_links.h"

enum { UDP_LEN = 8, SUM_AT = HEADER + IP_LEN + 6, PAYLOAD = 101, DATAGRAM = HEADER + IP_LEN + UDP_LEN + PAYLOAD };

/* ---- a kernel at the other end ---- */

/* Opens a socket that sends frames on the interface as a kernel does: with metadata. */
static int
wire_open(const char *name)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(name) };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), one = 1, room = 1 << 24;

	REQUIRE(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	REQUIRE(setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) == 0);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
	return fd;
}

static bool
wire_send(int fd, struct virtio_net_hdr about, const void *frame, size_t len)
{
	struct iovec pieces[] = { { &about, sizeof(about) }, { (void *)(uintptr_t)frame, len } };

	return writev(fd, pieces, 2) == (ssize_t)(sizeof(about) + len);
}

/* Writes a datagram whose checksum is only the pseudo-header's sum. Returns the correct checksum. */
static uint16_t
datagram_write(uint8_t *frame, size_t payload)
{
	uint8_t *ip = frame + HEADER, *udp = ip + IP_LEN;
	uint16_t len = (uint16_t)(UDP_LEN + payload);
	uint64_t pseudo;

	frame_write_header(frame);
	xk_put16(frame + 12, ETHERTYPE_IP);
	memset(ip, 0, IP_LEN);
	ip[0] = 0x45;
	xk_put16(ip + 2, (uint16_t)(IP_LEN + len));
	ip[8] = 64;
	ip[9] = IPPROTO_UDP;
	xk_put32(ip + 12, 0x0a4d0001);
	xk_put32(ip + 16, 0x0a4d0002);
	xk_checksum_store(ip + 10, xk_checksum_finish(xk_sum(0, ip, IP_LEN)));
	xk_put16(udp, 1000);
	xk_put16(udp + 2, 2001);
	xk_put16(udp + 4, len);
	pseudo = xk_sum(0, ip + 12, 8) + xk_sum_of16(IPPROTO_UDP) + xk_sum_of16(len);
	for (size_t i = 0; i < payload; i++)
		udp[UDP_LEN + i] = byte_at(3, i);
	xk_checksum_store(udp + 6, xk_sum_fold(pseudo));
	return xk_checksum_finish(xk_sum(0, udp, len));
}

/* Enables the interface's checksum and segmentation offloads, which are on by default. */
static void
offloads_on(const char *name)
{
	static const uint32_t what[] = { ETHTOOL_STXCSUM, ETHTOOL_SSG, ETHTOOL_STSO, ETHTOOL_SGSO };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(what); i++) {
		struct ethtool_value value = { what[i], 1 };
		struct ifreq r = { .ifr_data = (char *)&value };

		CHECK(interface_ask(name, SIOCETHTOOL, &r));
	}
}

static const struct virtio_net_hdr sum_is_left = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
						   .csum_start = HEADER + IP_LEN,
						   .csum_offset = 6 };

struct end {
	struct cable cable;
	struct host host;
	int wire;
};

/* Makes a cable with a port on one end and the wire at the other. Returns false if it cannot. */
static bool
end_open(struct end *e, const char *link, unsigned number)
{
	memset(e, 0, sizeof(*e));
	if (!cable_new(&e->cable, number) || (strcmp(link, "af_xdp") == 0 && !xdp_is_possible(&e->cable)))
		return false;
	REQUIRE(host_start(&e->host) == 0);
	REQUIRE(link_open(&e->host, link, e->cable.names[0], XK_DPDK_CLIENT, true));
	CHECK(link_is_up(&e->host, true));
	e->wire = wire_open(e->cable.names[1]);
	return true;
}

static void
end_close(struct end *e)
{
	close(e->wire);
	link_close(&e->host);
}

/* A test of an end `e`; skipped if this machine cannot have one. */
#define END_TEST(name, link, number)                                                                                   \
	static void name##_of(struct end *e);                                                                          \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		struct end e;                                                                                          \
                                                                                                                       \
		if (!end_open(&e, link, number))                                                                       \
			return;                                                                                        \
		name##_of(&e);                                                                                         \
		end_close(&e);                                                                                         \
	}                                                                                                              \
	static void name##_of(struct end *e)

/* Sends a frame. Returns true if the port receives it. */
static bool
end_carries_plain(struct end *e)
{
	uint8_t frame[DATAGRAM];
	struct xk_msg *m;
	bool good;

	datagram_write(frame, PAYLOAD);
	CHECK(wire_send(e->wire, (struct virtio_net_hdr){ 0 }, frame, sizeof(frame)));
	m = frame_receive(&e->host);
	good = m != NULL && m->total == DATAGRAM && m->flags == 0;
	msg_free(m);
	return good;
}

/* Makes the port process the earlier frames, which it drops, by sending one that it receives. */
static void
end_sends_plain(struct end *e)
{
	CHECK(end_carries_plain(e));
}

/* ---- frames as kernels send them ---- */

END_TEST(offloaded_checksum_is_completed, "af_packet", 20)
{
	uint8_t frame[DATAGRAM];
	uint16_t want, got;
	struct xk_msg *m;

	offloads_on(e->cable.names[1]);
	want = datagram_write(frame, PAYLOAD);
	CHECK(wire_send(e->wire, sum_is_left, frame, sizeof(frame)));
	m = frame_receive(&e->host);
	REQUIRE(m != NULL && m->total == DATAGRAM);
	memcpy(&got, m->data + SUM_AT, sizeof(got));
	CHECK_EQ(got, want);
	CHECK_EQ(m->flags, XK_MSG_TRANSPORT_SUM_GOOD);
	msg_free(m);
	end_sends_plain(e);
}

END_TEST(frame_with_an_unknown_offloaded_checksum_is_dropped_by_name, "af_packet", 21)
{
	struct virtio_net_hdr about = sum_is_left;
	uint8_t frame[DATAGRAM];

	offloads_on(e->cable.names[1]);
	about.csum_offset = 8; /* SCTP's */
	datagram_write(frame, PAYLOAD);
	CHECK(wire_send(e->wire, about, frame, sizeof(frame)));
	end_sends_plain(e);
	CHECK_EQ(port_count(e->host.port, "rx_unsummed"), 1);
}

END_TEST(coalesced_frames_are_dropped_by_name, "af_packet", 22)
{
	struct virtio_net_hdr about = sum_is_left;
	uint8_t frame[DATAGRAM];

	offloads_on(e->cable.names[1]);
	about.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
	about.hdr_len = HEADER + IP_LEN + 20;
	about.gso_size = 20;
	about.csum_offset = 16;
	datagram_write(frame, PAYLOAD);
	frame[HEADER + 9] = IPPROTO_TCP;
	frame[HEADER + IP_LEN + 12] = 5 << 4;
	CHECK(wire_send(e->wire, about, frame, sizeof(frame)));
	end_sends_plain(e);
	CHECK_EQ(port_count(e->host.port, "rx_joined"), 1);
}

/* The kernel strips a VLAN tag and the port restores it: the frame does not belong to the untagged network. */
END_TEST(tagged_frame_keeps_its_tag, "af_packet", 23)
{
	static const uint16_t tags[] = { 0x2005, 0xe000 };
	uint8_t frame[DATAGRAM + 4];
	struct xk_msg *m;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(tags); i++) {
		datagram_write(frame, PAYLOAD);
		memmove(frame + 16, frame + 12, DATAGRAM - 12);
		xk_put16(frame + 12, 0x8100);
		xk_put16(frame + 14, tags[i]);
		CHECK(wire_send(e->wire, (struct virtio_net_hdr){ 0 }, frame, sizeof(frame)));
		m = frame_receive(&e->host);
		REQUIRE(m != NULL);
		if (i == 0) {
			CHECK_EQ(m->total, sizeof(frame));
			CHECK(memcmp(m->data, frame, sizeof(frame)) == 0);
		} else { /* a priority tag */
			CHECK_EQ(m->total, DATAGRAM);
			CHECK_EQ(xk_get16(m->data + 12), ETHERTYPE_IP);
		}
		msg_free(m);
	}
}

static bool
interface_set_mtu(const char *name, int mtu)
{
	struct ifreq r = { .ifr_mtu = mtu };

	return interface_ask(name, SIOCSIFMTU, &r);
}

END_TEST(frame_longer_than_a_buffer_is_counted, "af_packet", 24)
{
	enum { LONG = 4000 };
	static uint8_t frame[LONG];
	int fd;

	REQUIRE(interface_set_mtu(e->cable.names[0], 9000) && interface_set_mtu(e->cable.names[1], 9000));
	datagram_write(frame, LONG - HEADER - IP_LEN - UDP_LEN);
	CHECK(wire_send(e->wire, (struct virtio_net_hdr){ 0 }, frame, sizeof(frame)));
	end_sends_plain(e);
	CHECK_EQ(port_count(e->host.port, "rx_too_long"), 1);
	CHECK_EQ(e->host.port->mtu, 1500);
	end_close(e);

	REQUIRE(host_start(&e->host) == 0);
	REQUIRE(link_open(&e->host, "tap", "long24", XK_DPDK_CLIENT, true));
	CHECK(link_is_up(&e->host, true));
	REQUIRE(interface_set_mtu("long24", 9000));
	fd = e->wire = wire_open("long24");
	CHECK(wire_send(fd, (struct virtio_net_hdr){ 0 }, frame, sizeof(frame)));
	end_sends_plain(e);
	CHECK_EQ(port_count(e->host.port, "rx_too_long"), 1);
}

/* Checks that frames beyond the ring's size are lost and counted while the port does not receive. */
static void
check_missed(const char *link, unsigned number)
{
	enum { SENT = 6000 };
	uint8_t frame[DATAGRAM];
	struct xk_msg *all[XK_BURST];
	unsigned got = 0, count;
	struct end e;

	if (!end_open(&e, link, number))
		return;
	datagram_write(frame, PAYLOAD);
	for (unsigned i = 0; i < SENT; i++)
		CHECK(wire_send(e.wire, (struct virtio_net_hdr){ 0 }, frame, sizeof(frame)));
	while ((count = e.host.port->ops->receive(e.host.port, all, XK_BURST)) > 0)
		for (unsigned i = 0; i < count; i++, got++)
			msg_free(all[i]);
	CHECK(got > 0 && got < SENT);
	CHECK_EQ(got + port_count(e.host.port, "rx_missed") + port_count(e.host.port, "interface_rx_dropped"), SENT);
	end_close(&e);
}

TEST(frames_missed_by_a_full_ring_are_counted)
{
	check_missed("af_packet", 25);
	check_missed("af_xdp", 26);
}

/* ---- an interface that changes ---- */

static bool
command(const char *format, ...)
{
	char text[200];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return system(text) == 0;
}

static bool
has_ip(void)
{
	bool has = command("ip -V >/dev/null 2>&1");

	if (!has)
		skipped("ip, of the package iproute2, is needed to change an interface");
	return has;
}

/* Returns true if the counter reaches count in time. */
static bool
counter_reaches(struct host *h, const char *name, uint64_t count)
{
	uint64_t until = now_ns(h) + PATIENCE_NS;

	while (port_count(h->port, name) < count && now_ns(h) < until) {
		h->platform->ops->poll_control(h->platform);
		usleep(1000);
	}
	return port_count(h->port, name) == count;
}

/* Checks that frames still get through in both directions. */
static void
check_carries(struct end *e)
{
	struct timeval patience = { 30, 0 };
	bool carries = false;
	uint8_t bytes[FRAME_MAX];
	struct sockaddr_ll address = { .sll_family = AF_PACKET,
				       .sll_protocol = htons(FRAME_TYPE),
				       .sll_ifindex = (int)if_nametoindex(e->cable.names[1]) };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(FRAME_TYPE));

	CHECK(link_is_up(&e->host, true));
	/* the far end drops frames until the kernel has noticed, a moment later, that its carrier is back */
	for (unsigned i = 0; i < 10 && !carries; i++)
		carries = end_carries_plain(e);
	CHECK(carries);
	REQUIRE(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	CHECK(host_send(&e->host, frame_new(&e->host, 4, 100, 100)));
	CHECK_EQ(recv(fd, bytes, sizeof(bytes), 0), 100);
	close(fd);
}

static void
check_rename(const char *link, unsigned number)
{
	struct end e;

	if (!has_ip() || !end_open(&e, link, number))
		return;
	REQUIRE(command("ip link set %s down && ip link set %s name other%u && ip link set other%u up",
			e.cable.names[0], e.cable.names[0], number, number));
	CHECK(counter_reaches(&e.host, "renamed", 1));
	CHECK(counter_reaches(&e.host, "ups", 1) && counter_reaches(&e.host, "downs", 1));
	check_carries(&e);
	end_close(&e);
}

TEST(renamed_interface_keeps_working)
{
	check_rename("af_packet", 30);
	check_rename("af_xdp", 31);
}

static void
check_mtu(const char *link, unsigned number)
{
	struct end e;

	if (!end_open(&e, link, number))
		return;
	REQUIRE(interface_set_mtu(e.cable.names[0], 1300));
	CHECK(counter_reaches(&e.host, "mtu_changed", 1));
	CHECK_EQ(e.host.port->mtu, 1300);
	CHECK(host_send(&e.host, frame_new(&e.host, 1, 1400, 1400)));
	CHECK_EQ(port_count(e.host.port, "device_too_long"), 1);
	check_carries(&e);
	REQUIRE(interface_set_mtu(e.cable.names[0], 1500));
	CHECK(counter_reaches(&e.host, "mtu_changed", 2));
	CHECK_EQ(e.host.port->mtu, 1500);
	end_close(&e);
}

TEST(port_follows_the_mtu)
{
	check_mtu("af_packet", 32);
	check_mtu("af_xdp", 33);
}

/* Until the port notices the change, the kernel refuses the frame with an error. */
END_TEST(frame_refused_by_the_interface_is_counted, "af_packet", 34)
{
	REQUIRE(interface_set_mtu(e->cable.names[0], 1300));
	CHECK(host_send(&e->host, frame_new(&e->host, 1, 1400, 1400)));
	CHECK_EQ(port_count(e->host.port, "device_too_long"), 1);
	CHECK_EQ(port_count(e->host.port, "mtu_changed"), 0);
}

static void
check_return(const char *link, unsigned number)
{
	const char *names[2];
	char why[NETNS_WHY] = "";
	struct end e;

	if (!has_ip() || !end_open(&e, link, number))
		return;
	names[0] = e.cable.names[0];
	names[1] = e.cable.names[1];
	for (unsigned i = 1; i <= 2; i++) {
		close(e.wire);
		REQUIRE(command("ip link del %s", names[1]));
		CHECK(counter_reaches(&e.host, "deleted", i));
		CHECK(!xk_dpdk_port_is_up(e.host.port));
		CHECK(host_send(&e.host, frame_new(&e.host, 1, 100, 100)));
		CHECK_EQ(port_count(e.host.port, "no_peer"), i);
		REQUIRE(netns_veth(names, number + 100 * i, why, sizeof(why)) == 0);
		e.wire = wire_open(names[1]);
		CHECK(counter_reaches(&e.host, "returned", i));
		check_carries(&e);
	}
	end_close(&e);
}

TEST(recreated_interface_is_reopened)
{
	check_return("af_packet", 35);
	check_return("af_xdp", 36);
}

/* An interface with the right name that is not Ethernet is ignored. */
TEST(interface_of_another_kind_is_not_reopened)
{
	const char *names[2];
	char why[NETNS_WHY] = "";
	struct end e;

	if (!has_ip() || access("/dev/net/tun", F_OK) != 0 || !end_open(&e, "af_packet", 37))
		return;
	names[0] = e.cable.names[0];
	names[1] = e.cable.names[1];
	REQUIRE(command("ip link del %s", names[0]));
	CHECK(counter_reaches(&e.host, "deleted", 1));
	REQUIRE(command("ip tuntap add dev %s mode tun && ip link set %s up", names[0], names[0]));
	e.host.platform->ops->poll_control(e.host.platform);
	CHECK(!xk_dpdk_port_is_up(e.host.port));
	REQUIRE(command("ip link del %s", names[0]));
	REQUIRE(netns_veth(names, 137, why, sizeof(why)) == 0);
	CHECK(link_is_up(&e.host, true)); /* by then it has processed all notifications */
	CHECK_EQ(port_count(e.host.port, "returned"), 1);
	CHECK_EQ(port_count(e.host.port, "deleted"), 1);
	end_close(&e);
}

TEST(recreated_tap_is_reopened)
{
	struct host h;

	if (skipped(why_no_network) || !has_ip() || access("/dev/net/tun", F_OK) != 0)
		return;
	REQUIRE(host_start(&h) == 0);
	REQUIRE(link_open(&h, "tap", "back38", XK_DPDK_CLIENT, true));
	CHECK(link_is_up(&h, true));
	REQUIRE(command("ip link del back38"));
	CHECK(counter_reaches(&h, "deleted", 1));
	CHECK(host_send(&h, frame_new(&h, 1, 100, 100)));
	REQUIRE(command("ip tuntap add dev back38 mode tap && ip link set back38 up"));
	CHECK(counter_reaches(&h, "returned", 1));
	CHECK(link_is_up(&h, true));
	link_close(&h);
}

/* The port keeps the address that its neighbours have cached. */
END_TEST(port_keeps_its_address_when_the_interfaces_changes, "af_packet", 39)
{
	struct ifreq r = { .ifr_hwaddr = { .sa_family = 1, .sa_data = { 2, 0, 0, 0, 0x88, 0x77 } } };
	uint64_t before;

	before = e->host.port->address;
	REQUIRE(interface_ask(e->cable.names[0], SIOCSIFHWADDR, &r));
	CHECK(counter_reaches(&e->host, "address_changed", 1));
	CHECK_EQ(e->host.port->address, before);
	check_carries(e);
}

/* ---- refusals, and taps ---- */

TEST(non_ethernet_interfaces_are_refused)
{
	struct host h;

	if (skipped(why_no_network) || !has_ip() || access("/dev/net/tun", F_OK) != 0)
		return;
	REQUIRE(command("ip tuntap add dev tun40 mode tun && ip link set tun40 up && ip link set lo up"));
	REQUIRE(host_start(&h) == 0);
	CHECK(!link_open(&h, "af_packet", "tun40", XK_DPDK_CLIENT, false));
	CHECK(strstr(h.why, "tun40 is a tun") != NULL && strstr(h.why, "mode tap") != NULL);
	CHECK(!link_open(&h, "tap", "tun40", XK_DPDK_CLIENT, false));
	CHECK_HAS(h.why, "tun40 is a tun");
	CHECK(!link_open(&h, "af_packet", "lo", XK_DPDK_CLIENT, false));
	CHECK_HAS(h.why, "lo is the loopback device");
	CHECK(!link_open(&h, "tap", "lo", XK_DPDK_CLIENT, false));
	CHECK_HAS(h.why, "lo is the loopback device");
	link_close(&h);
}

TEST(tap_is_opened_with_its_number_of_queues)
{
	static const char *const queues[] = { "", "multi_queue" };
	struct host h, other;

	if (skipped(why_no_network) || !has_ip() || access("/dev/net/tun", F_OK) != 0)
		return;
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(queues); i++) {
		REQUIRE(command("ip tuntap add dev queue%u mode tap %s", i, queues[i]));
		REQUIRE(host_start(&h) == 0);
		CHECK(link_open(&h, "tap", i == 0 ? "queue0" : "queue1", XK_DPDK_CLIENT, true));
		CHECK(link_is_up(&h, true));
		link_close(&h);
	}
	REQUIRE(host_start(&other) == 0);
	if (cable_new(&(struct cable){ 0 }, 41)) {
		CHECK(!link_open(&other, "tap", "eth41", XK_DPDK_CLIENT, true));
		CHECK_HAS(other.why, "eth41 is not a tap: use link af_packet");
	}
	link_close(&other);
}

TEST(generated_address_depends_only_on_the_interface)
{
	uint64_t first[2];
	struct host h;

	if (skipped(why_no_network) || access("/dev/net/tun", F_OK) != 0)
		return;
	for (unsigned i = 0; i < 3; i++) {
		REQUIRE(host_start(&h) == 0);
		REQUIRE(link_open(&h, "tap", i == 2 ? "other42" : "same42", XK_DPDK_CLIENT, true));
		CHECK_EQ(h.port->address >> 40 & 3, 2);
		if (i == 0)
			first[0] = h.port->address;
		else if (i == 1)
			CHECK_EQ(h.port->address, first[0]);
		else
			CHECK(h.port->address != first[0]);
		link_close(&h);
	}
}

TEST(port_has_the_configured_address)
{
	static const char *const links[] = { "tap", "af_packet" };
	struct xk_dpdk_port_config config = { .name = "port", .device = "given43", .address = 0x020000000143 };
	struct cable c = { .names = { "" } };
	struct host h;

	if (!cable_new(&c, 43) || access("/dev/net/tun", F_OK) != 0)
		return;
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(links); i++) {
		REQUIRE(host_start(&h) == 0);
		h.began = h.platform->ops->buffers_out(h.platform);
		config.link = links[i];
		if (i == 1)
			config.device = c.names[0];
		h.port = xk_dpdk_open(h.platform, &config, h.why, sizeof(h.why));
		REQUIRE(h.port != NULL);
		CHECK_EQ(h.port->address, 0x020000000143);
		link_close(&h);
	}
}
