/* test_dpdk_links_ends.c - ends of links that appear, leave, die or cannot be opened. */
#define _GNU_SOURCE
#include "tests/platform/dpdk_links.h"

/* ---- coming and going ---- */

TEST(memif_server_survives_killed_clients)
{
	struct host own, *h = &own;
	char path[128];
	struct xk_msg *m;

	REQUIRE(host_start(h) == 0);
	REQUIRE(link_open(h, "memif", socket_for(path, "flood"), XK_DPDK_SERVER, false));
	for (unsigned i = 0; i < 8; i++) {
		struct peer p = peer_start("flood", "memif", path, "client", "poll");
		uint64_t until;

		CHECK(peer_is_ready(&p));
		for (until = now_ns(h) + 50000000; now_ns(h) < until;)
			if (h->port->ops->receive(h->port, &m, 1) == 1 && h->port->ops->transmit(h->port, &m, 1) == 0)
				msg_free(m);
		kill(p.pid, SIGKILL);
		for (until = now_ns(h) + PATIENCE_NS; xk_dpdk_port_is_up(h->port) && now_ns(h) < until;)
			if (h->port->ops->receive(h->port, &m, 1) == 1)
				msg_free(m);
		CHECK(!xk_dpdk_port_is_up(h->port));
		CHECK_EQ(peer_end(&p, SIGKILL), -SIGKILL);
	}
	check_echo("memif", socket_for(path, "another"), path, XK_DPDK_CLIENT, false, "poll");
	link_close(h);
}

TEST(memif_removes_a_dead_servers_socket_and_refuses_a_second_server)
{
	char path[128];
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	struct host h;
	struct peer p;

	strcpy(address.sun_path, socket_for(path, "stale"));
	REQUIRE(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	close(fd);
	p = peer_start("echo", "memif", path, "server", "poll");
	CHECK(peer_is_ready(&p));
	REQUIRE(host_start(&h) == 0);
	CHECK(!link_open(&h, "memif", path, XK_DPDK_SERVER, false));
	CHECK_HAS(h.why, "another server has");
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	CHECK(access(path, F_OK) != 0);
	link_close(&h);
}

static void
check_ups_and_downs(const char *link, const struct cable *c)
{
	struct peer p = peer_start("echo", link, c->names[1], "server", "sleep");
	struct host h;

	REQUIRE(host_start(&h) == 0);
	REQUIRE(link_open(&h, link, c->names[0], XK_DPDK_CLIENT, true));
	CHECK(peer_is_ready(&p) && echo_begins(&h));
	REQUIRE(interface_switch(c->names[0], false));
	CHECK(link_is_up(&h, false));
	CHECK(host_send(&h, frame_new(&h, 2, 100, 100)));
	CHECK_EQ(port_count(h.port, "no_peer"), 1);
	REQUIRE(interface_switch(c->names[0], true));
	CHECK(link_is_up(&h, true));
	CHECK(echo_begins(&h));
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	link_close(&h);
}

TEST(port_goes_down_and_up_with_its_interface)
{
	struct cable c;

	if (cable_new(&c, 10))
		check_ups_and_downs("af_packet", &c);
	if (cable_new(&c, 11) && xdp_is_possible(&c))
		check_ups_and_downs("af_xdp", &c);
}

/* Returns the number of spurious wakeups within a while. */
static unsigned
count_wakes(struct host *h)
{
	uint64_t until = now_ns(h) + 200000000;
	unsigned count = 0;

	for (; now_ns(h) < until; count++) {
		h->port->ops->arm(h->port);
		h->platform->ops->sleep(h->platform, until);
		h->port->ops->disarm(h->port);
	}
	return count;
}

/* Deletes the interface, as the exit of a tap's last process does. */
TEST(port_sleeps_after_its_interface_vanishes)
{
	struct cable c;
	struct host h;
	char command[64];

	if (!cable_new(&c, 12))
		return;
	REQUIRE(host_start(&h) == 0);
	REQUIRE(link_open(&h, "af_packet", c.names[0], XK_DPDK_CLIENT, true));
	CHECK(link_is_up(&h, true));
	CHECK(count_wakes(&h) < 50);
	snprintf(command, sizeof(command), "ip link del %s 2>&1", c.names[1]);
	if (system(command) == 0) {
		CHECK(link_is_up(&h, false));
		CHECK(count_wakes(&h) < 50);
		CHECK(host_send(&h, frame_new(&h, 1, 100, 100)));
	} else {
		skipped("ip, of the package iproute2, is needed to delete an interface");
	}
	link_close(&h);
}

TEST(tap_with_frames_waiting_sleeps_when_down)
{
	struct cable c;
	struct host h;

	if (!cable_new_taps(&c, 13))
		return;
	REQUIRE(host_start(&h) == 0);
	REQUIRE(link_open(&h, "tap", c.names[0], XK_DPDK_CLIENT, true));
	CHECK(link_is_up(&h, true));
	CHECK(count_wakes(&h) < 50);
	REQUIRE(interface_switch(c.names[0], false));
	CHECK(link_is_up(&h, false));
	CHECK(count_wakes(&h) < 50);
	link_close(&h);
}

/* ---- refusals ---- */

TEST_IN(impossible_opens_are_refused_in_words, struct host, h, REQUIRE(host_start(h) == 0), link_close)
{
	static const struct {
		const char *link, *device, *words;
	} bad[] = { { "carrier-pigeon", "a", "no link" },
		    { "ring", "a", "opened one at a time" },
		    { "af_packet", "nosuch", "there is no network interface \"nosuch\"" },
		    { "af_xdp", "nosuch", "there is no network interface \"nosuch\"" },
		    { "af_packet", "a/b", "cannot be the name" },
		    { "tap", "a_name_that_is_too_long", "cannot be the name" },
		    { "tap", "a,mac=b", "cannot be the name" },
		    { "af_packet", "", "cannot be the name" },
		    { "memif", "a,b", "no comma" },
		    { "pci", "nonsense", "not a PCI address" },
		    { "pci", "0000:ff:1f.7", "no network card at 0000:ff:1f.7" } };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(bad); i++) {
		CHECK(!link_open(h, bad[i].link, bad[i].device, XK_DPDK_SERVER, false));
		CHECK_HAS(h->why, bad[i].words);
	}
}

TEST(missing_card_is_refused_before_dpdk_starts)
{
	struct xk_dpdk_config config = { .core = -1, .pci = { "ff:1f.7" } };
	struct xk_platform *platform = NULL;
	char why[XK_DPDK_WHY] = "";

	CHECK_EQ(xk_dpdk_start(&config, &platform, why, sizeof(why)), -ENODEV);
	CHECK_HAS(why, "there is no PCI device 0000:ff:1f.7");
	config.pci[0] = "somewhere";
	CHECK_EQ(xk_dpdk_start(&config, &platform, why, sizeof(why)), -EINVAL);
}

TEST(interface_that_is_down_or_in_use_is_refused)
{
	struct cable c;
	struct host first, second;

	if (!cable_new(&c, 14))
		return;
	REQUIRE(host_start(&first) == 0 && host_start(&second) == 0);
	REQUIRE(link_open(&first, "af_packet", c.names[0], XK_DPDK_CLIENT, false));
	CHECK(!link_open(&second, "af_packet", c.names[0], XK_DPDK_CLIENT, false));
	CHECK_HAS(second.why, "uses");
	REQUIRE(interface_switch(c.names[1], false));
	CHECK(!link_open(&second, "af_packet", c.names[1], XK_DPDK_CLIENT, false));
	CHECK_HAS(second.why, "is down: ip link set");
	link_close(&first);
	link_close(&second);
}

TEST(missing_capability_is_named)
{
	struct cable c;
	struct peer p;

	if (geteuid() != 0 || !cable_new(&c, 15)) {
		skipped("only root can give up rights");
		return;
	}
	p = peer_start("unprivileged", "af_packet", c.names[0], "server", "CAP_NET_RAW");
	CHECK_EQ(peer_end(&p, 0), 0);
	p = peer_start("unprivileged", "af_xdp", c.names[0], "server", "CAP_");
	CHECK_EQ(peer_end(&p, 0), 0);
	p = peer_start("unprivileged", "tap", "refused", "server", "CAP_NET_ADMIN");
	CHECK_EQ(peer_end(&p, 0), 0);
}

TEST(links_are_listed_with_their_requirements)
{
	const struct xk_dpdk_link *link;
	unsigned count = 0, asleep = 0;

	for (; (link = xk_dpdk_link(count)) != NULL; count++) {
		CHECK(strlen(link->help) > 10);
		asleep += link->can_sleep;
	}
	CHECK_EQ(count, 7);
	CHECK_EQ(asleep, 5);
}
