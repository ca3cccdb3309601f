/* test_port.c - the port protocol, on a port in memory. */
#include <errno.h>

#include "protocols/virtual/vnet.h"
#include "tests/rig.h"

#define ON_PORT "port:; user: port"

static const struct xk_participants nobody;

RIG_SESSION_TEST(port_carries_frames_as_they_are, rig_new_graph(ON_PORT), rig_must_open(r, nobody))
{
	rig_expect_up(r, "ff", "ff");
	CHECK(rig_delivered_session(r) == s);
	rig_expect_down(r, s, "0011 2233", "00112233"); /* no padding */
}

RIG_SESSION_TEST(port_has_one_session, rig_new_graph(ON_PORT), rig_open(r, nobody))
{
	rig_expect_open_fails(r, nobody, -EADDRINUSE);
	rig_close(r, s);
	CHECK(rig_open(r, nobody) != NULL);
}

RIG_SESSION_TEST(port_drops_frames_longer_than_its_mtu_and_a_header, rig_new_graph(ON_PORT), rig_open(r, nobody))
{
	CHECK_EQ(rig_push_pattern(r, s, 1514), 0);
	CHECK_EQ(rig_sent(r), 1);
	CHECK_EQ(rig_push_pattern(r, s, 1515), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_long"), 1);
	rig_forget(r);
}

RIG_SESSION_TEST(port_counts_drops_when_its_ring_is_full, rig_new_graph(ON_PORT "; port.implicit=fail"),
		 rig_open(r, nobody))
{
	int status = 0, pushed = 0;

	rig_fail_sending(r, -ENOBUFS);
	while (status == 0 && pushed < 1000) {
		status = rig_push(r, s, "00");
		pushed += status == 0;
	}
	CHECK_EQ(status, -ENOBUFS);
	CHECK_EQ(rig_counter(r, "tx_full"), 1);
	CHECK_EQ(rig_sent(r), 0);
	rig_fail_sending(r, 0);
	rig_advance_ms(r, 1);
	CHECK_EQ(rig_sent(r), pushed); /* accepted frames are sent */
	rig_forget(r);
}

RIG_TEST(port_answers_controls, rig_new_graph(ON_PORT))
{
	struct xk_protocol *port = rig_protocol(r, "port");
	uint32_t packet = 0, offloads = 1;
	uint64_t address = 0;

	CHECK_EQ(xk_control_protocol(port, XK_GET_MAX_PACKET, &packet), 0);
	CHECK_EQ(packet, 1514);
	CHECK_EQ(xk_control_protocol(port, XK_GET_OFFLOADS, &offloads), 0);
	CHECK_EQ(offloads, 0);
	CHECK_EQ(xk_control_protocol(port, XK_GET_LINK_ADDRESS, &address), 0);
	CHECK_EQ(address, 0x020000000001);
	CHECK_EQ(xk_control_protocol_op(port, XK_CONTROL_OUTSIDE, &packet), -ENOTSUP);
}

RIG_TEST(all_protocols_are_notified_of_another_mtu,
	 rig_new_graph("port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.1/24; ip: vnet; "
		       "user: ip#17"))
{
	struct xk_port *port = xk_kernel_find_port(rig_kernel(r), "port");
	struct xk_vnet_interfaces own;
	uint32_t whole;

	port->mtu = 1000;
	xk_port_changed(port);
	rig_advance_ms(r, 1);
	CHECK(xk_control_protocol(rig_protocol(r, "vnet"), XK_VNET_GET_INTERFACES, &own) == 0);
	CHECK_EQ(own.list[0].max_packet, 1000);
	CHECK_EQ(xk_control_protocol(rig_protocol(r, "ip"), XK_GET_OPT_PACKET, &whole), 0);
	CHECK_EQ(whole, 980);
}

TEST(port_must_have_the_address_of_its_setting)
{
	rig_free(rig_new_graph("port:; port.address=02:00:00:00:00:01; user: port"));
	CHECK_EQ(rig_refusal("port:; port.address=02:00:00:00:00:99; user: port"), -EADDRNOTAVAIL);
}

TEST(port_refuses_a_graph_without_its_port)
{
	CHECK_EQ(rig_refusal("port:; port.dev=elsewhere; user: port"), -ENODEV);
}

RIG_TEST(frames_for_no_protocol_are_counted, rig_new_graph(ON_PORT))
{
	rig_inject(r, "00");
	rig_expect_nothing_delivered(r);
	CHECK_EQ(atomic_load(&xk_kernel_find_port(rig_kernel(r), "port")->unheard), 1);
}
