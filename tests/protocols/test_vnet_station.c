/* test_vnet_station.c - XK_VNET_STATION: VNET's sessions to a link address, which send no queries and never wait. */
#include <errno.h>

#include "protocols/virtual/vnet.h"
#include "tests/participants.h"
#include "tests/rig.h"

#define ME "020000000001"
#define PEER "0200000000aa"

enum { HOST = 0x0a4d0001, HOST2 = 0x0a4e0001 };

static const uint64_t peer = UINT64_C(0x0200000000aa) | XK_VNET_STATION;

static struct rig *
one_link(void)
{
	return rig_new_graph("port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.1/24;"
			     "user/bid: vnet; user2/bid: vnet");
}

RIG_SESSION_TEST(station_is_opened_without_a_query, one_link(), rig_must_open(r, rig_to(peer)))
{
	uint64_t asked;

	rig_expect_nothing_sent(r);
	rig_expect_down(r, s, "c3", PEER ME "3005 c3");
	rig_expect_up(r, ME PEER "3005 3c", "3c");
	CHECK(rig_delivered_session(r) == s);
	CHECK_EQ(xk_control(s, XK_GET_PEER_HOST, &asked), -ENOTSUP);
	CHECK_EQ(xk_control(s, XK_GET_PEER_LINK, &asked), 0);
	CHECK_EQ(asked, 0x0200000000aa);
	CHECK(rig_open(r, rig_to(peer)) == s);
}

static void
close_and_ask(void *argument)
{
	struct rig *r = argument;
	struct xk_participants to = rig_to(peer);
	struct xk_session *s;
	uint64_t asked = 0;

	REQUIRE(xk_open(rig_protocol(r, "user"), rig_protocol(r, "user"), rig_protocol(r, "vnet"), &to, &s) == 0);
	xk_close(s);
	CHECK_EQ(xk_control(s, XK_GET_PEER_LINK, &asked), 0);
	CHECK_EQ(asked, 0x0200000000aa);
	CHECK_EQ(xk_control(s, XK_GET_PEER_HOST, &asked), -ENOTSUP);
}

/* A shepherd that carries a message may see a session that another one has closed, until its turn ends. */
RIG_TEST(closed_session_still_knows_its_station, one_link())
{
	CHECK(rig_do(r, close_and_ask, r));
}

RIG_TEST(station_is_the_source_of_a_frame, one_link())
{
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	rig_expect_up(r, ME PEER "3005 3c", "3c");
	CHECK_EQ(rig_open_done_count(r), 1);
	CHECK(rig_open(r, rig_to(peer)) == rig_announced_session(r));
	rig_user(r, "user2");
	rig_expect_open_fails(r, rig_to(peer), -EADDRINUSE);
}

TEST(station_is_on_the_link_of_the_local_address)
{
	struct rig *r =
		rig_new_graph("port:; port2:; eth: port; arp: eth; eth2: port2; arp2: eth2; vnet: eth arp eth2 arp2;"
			      "vnet.address=10.77.0.1/24; vnet.address2=10.78.0.1/24; user/bid: vnet");
	struct xk_participants to = rig_to(peer);
	struct xk_session *s;

	to.local = (struct xk_participant){ 1, { HOST2 } };
	s = rig_must_open(r, to);
	rig_expect_down(r, s, "c3", PEER "020000000002 3005 c3");
	to.local.address[0] = HOST;
	CHECK(rig_open(r, to) != s);
	to.local.address[0] = HOST + 1;
	rig_expect_open_fails(r, to, -EADDRNOTAVAIL);
	rig_free(r);
}

RIG_TEST(own_station_is_refused, one_link())
{
	CHECK(rig_open(r, rig_to(UINT64_C(0x020000000001) | XK_VNET_STATION)) == NULL);
	CHECK(rig_error(r) != 0);
	CHECK(rig_open(r, rig_to(UINT64_C(1) << 50 | XK_VNET_STATION)) == NULL);
	CHECK(rig_error(r) != 0);
}
