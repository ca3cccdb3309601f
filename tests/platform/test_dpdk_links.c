/* test_dpdk_links.c - traffic over the links memif, tap, af_packet and af_xdp. */
#define _GNU_SOURCE
#include "tests/platform/dpdk_links.h"

/* ---- an echo over each link ---- */

TEST(memif_client_and_server_echo)
{
	char path[128];

	check_echo("memif", socket_for(path, "client"), path, XK_DPDK_CLIENT, false, "poll");
	CHECK(access(path, F_OK) != 0);
	check_echo("memif", socket_for(path, "server"), path, XK_DPDK_SERVER, false, "poll");
	CHECK(access(path, F_OK) != 0);
}

TEST(af_packet_echoes_while_sleeping_and_polling)
{
	struct cable c;

	if (!cable_new(&c, 1))
		return;
	check_echo("af_packet", c.names[0], c.names[1], XK_DPDK_CLIENT, true, "sleep");
	check_echo("af_packet", c.names[0], c.names[1], XK_DPDK_CLIENT, false, "sleep");
	check_echo("af_packet", c.names[0], c.names[1], XK_DPDK_CLIENT, true, "poll");
}

TEST(tap_echoes_while_sleeping_and_polling)
{
	struct cable c;

	if (!cable_new_taps(&c, 2))
		return;
	check_echo("tap", c.names[0], c.names[1], XK_DPDK_CLIENT, true, "sleep");
	check_echo("tap", c.names[0], c.names[1], XK_DPDK_CLIENT, false, "sleep");
	check_echo("tap", c.names[0], c.names[1], XK_DPDK_CLIENT, true, "poll");
}

TEST(af_xdp_echoes_while_sleeping_and_polling)
{
	struct cable c;

	if (!cable_new(&c, 3) || !xdp_is_possible(&c))
		return;
	check_echo("af_xdp", c.names[0], c.names[1], XK_DPDK_CLIENT, true, "sleep");
	check_echo("af_xdp", c.names[0], c.names[1], XK_DPDK_CLIENT, false, "sleep");
	check_echo("af_xdp", c.names[0], c.names[1], XK_DPDK_CLIENT, true, "poll");
}

/* ---- frames that a kernel must not change or answer ---- */

/* Makes one of two fragments of a datagram. */
static struct xk_msg *
fragment_new(struct host *h, unsigned offset, bool more)
{
	struct xk_msg *m = segment_new(h->platform, 7, 0, HEADER + IP_LEN + PIECE);
	uint8_t *ip = m->data + HEADER;

	frame_write_header(m->data);
	xk_put16(m->data + 12, 0x0800);
	memset(ip, 0, IP_LEN);
	ip[0] = 0x45;
	xk_put16(ip + 2, IP_LEN + PIECE);
	xk_put16(ip + 4, 0x1234);
	xk_put16(ip + 6, (uint16_t)((more ? 0x2000 : 0) | offset / 8));
	ip[8] = 64;
	ip[9] = 17;
	xk_put32(ip + 12, 0x0a4d0001);
	xk_put32(ip + 16, 0x0a4d0002);
	xk_checksum_store(ip + 10, xk_checksum_finish(xk_sum(0, ip, IP_LEN)));
	return m;
}

/* Sends fragments there and back: fails if a kernel or a driver reassembles them. */
static void
check_fragments(const char *link, const struct cable *c)
{
	struct peer p = peer_start("echo", link, c->names[1], "server", "sleep");
	struct host h;

	REQUIRE(host_start(&h) == 0);
	REQUIRE(link_open(&h, link, c->names[0], XK_DPDK_CLIENT, true));
	CHECK(peer_is_ready(&p) && echo_begins(&h));
	for (unsigned i = 0; i < 2; i++)
		REQUIRE(host_send(&h, fragment_new(&h, i * PIECE, i == 0)));
	for (unsigned i = 0; i < 2; i++) {
		struct xk_msg *m = frame_receive(&h);

		CHECK(m != NULL && m->total == HEADER + IP_LEN + PIECE);
		CHECK(m != NULL && xk_get16(m->data + HEADER + 6) == (i == 0 ? 0x2000 : PIECE / 8));
		msg_free(m);
	}
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	link_close(&h);
}

TEST(fragments_are_not_reassembled)
{
	struct cable c;

	if (cable_new(&c, 4))
		check_fragments("af_packet", &c);
	if (cable_new(&c, 5) && xdp_is_possible(&c))
		check_fragments("af_xdp", &c);
	if (cable_new_taps(&c, 6))
		check_fragments("tap", &c);
}

TEST(kernels_own_frames_are_not_received)
{
	struct cable c;
	struct xk_msg *m = NULL;
	struct host ours, kernels;

	if (!cable_new(&c, 7))
		return;
	REQUIRE(host_start(&ours) == 0 && host_start(&kernels) == 0);
	REQUIRE(link_open(&ours, "af_packet", c.names[0], XK_DPDK_CLIENT, false));
	REQUIRE(link_open(&kernels, "af_packet", c.names[1], XK_DPDK_CLIENT, false));
	REQUIRE(link_is_up(&ours, true) && link_is_up(&kernels, true));
	CHECK(host_send(&ours, frame_new(&ours, 1, 60, 60)));
	m = frame_receive(&kernels);
	CHECK(frame_is(m, 1, 60));
	msg_free(m);
	CHECK_EQ(ours.port->ops->receive(ours.port, &m, 1), 0);
	link_close(&ours);
	link_close(&kernels);
}

/* ---- addresses and lengths ---- */

TEST(port_has_its_interfaces_address_and_mtu)
{
	static const char *const links[] = { "af_packet", "af_xdp" };
	struct ifreq r = { .ifr_mtu = 1400 };
	struct cable c;
	struct host h;

	if (!cable_new(&c, 8) || !xdp_is_possible(&c))
		return;
	REQUIRE(interface_ask(c.names[0], SIOCSIFMTU, &r));
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(links); i++) {
		REQUIRE(host_start(&h) == 0);
		REQUIRE(link_open(&h, links[i], c.names[0], XK_DPDK_CLIENT, false));
		CHECK_EQ(h.port->mtu, 1400);
		CHECK_EQ(h.port->address, interface_address(c.names[0]));
		link_close(&h);
	}
}

TEST(tap_keeps_its_interfaces_settings_and_has_its_own_address)
{
	struct ifreq r = { .ifr_mtu = 1300 };
	struct cable c;
	uint64_t address;
	struct host h;

	if (!cable_new_taps(&c, 9))
		return;
	REQUIRE(interface_ask(c.names[0], SIOCSIFMTU, &r));
	address = interface_address(c.names[0]);
	REQUIRE(host_start(&h) == 0);
	REQUIRE(link_open(&h, "tap", c.names[0], XK_DPDK_CLIENT, false));
	CHECK_EQ(h.port->mtu, 1300);
	CHECK_EQ(interface_address(c.names[0]), address);
	CHECK(h.port->address != address && (h.port->address >> 40 & 3) == 2);
	link_close(&h);
	CHECK_EQ(interface_address(c.names[0]), address);
	REQUIRE(host_start(&h) == 0);
	REQUIRE(link_open(&h, "tap", "fresh", XK_DPDK_CLIENT, false));
	CHECK(if_nametoindex("fresh") != 0);
	link_close(&h);
	CHECK_EQ(if_nametoindex("fresh"), 0);
}
