/* test_vnet.c - vnet: sessions, including lazy ones, controls, and several links (vnet_rig.h). */
#include "tests/protocols/vnet_rig.h"

#include "protocols/arp/arp.h"

RIG_SESSION_TEST(vnet_resolves_a_neighbour_and_carries_messages, rig_new_graph(GRAPH), open_to_peer(r))
{
	REQUIRE(s != NULL);
	rig_expect_down(r, s, "a1", TO_PEER "a1");
	rig_expect_up(r, FROM_PEER "b2", "b2");
	CHECK(rig_delivered_session(r) == s);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(vnet_reports_a_silent_neighbour, rig_new_graph(GRAPH))
{
	CHECK(rig_open(r, rig_to(PEER_NUMBER)) == NULL);
	rig_advance_ms(r, 5000);
	CHECK(rig_opened_session(r) == NULL);
	CHECK_EQ(rig_error(r), -EHOSTUNREACH);
	rig_forget(r);
}

RIG_TEST(vnet_accepts_a_neighbours_first_message_without_arp, rig_new_graph(GRAPH))
{
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_expect_up(r, FROM_PEER "01", "01");
	CHECK_EQ(rig_open_done_count(r), 1);
	CHECK(rig_delivered_session(r) == rig_announced_session(r));
	rig_expect_down(r, rig_announced_session(r), "02", TO_PEER "02");
	rig_expect_up(r, EVERYBODY PEER "0800 03", "03");
	CHECK_EQ(rig_open_done_count(r), 1);
}

RIG_TEST(vnet_delivers_nothing_unless_enabled, rig_new_graph(GRAPH))
{
	rig_inject(r, FROM_PEER "01");
	CHECK_EQ(rig_counter_of(r, "eth", "no_session"), 1);
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_refuse_sessions(r, -ENOMEM);
	rig_inject(r, FROM_PEER "01");
	CHECK_EQ(rig_counter_of(r, "eth", "refused"), 1);
	rig_expect_nothing_delivered(r);
	rig_refuse_sessions(r, 0);
	rig_expect_up(r, FROM_PEER "02", "02");
}

/* A message is answered to its station, whatever ARP has; an opened session follows ARP. */
RIG_TEST(vnet_open_does_not_share_a_passive_session, rig_new_graph(GRAPH))
{
	struct xk_session *s;
	uint64_t host = 0;

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, FROM_PEER "01");
	rig_forget(r);
	CHECK_EQ(xk_control(rig_announced_session(r), XK_GET_PEER_HOST, &host), -ENOTSUP);
	s = open_to_peer(r);
	CHECK(s != rig_announced_session(r));
	CHECK_EQ(xk_control(s, XK_GET_PEER_HOST, &host), 0);
	CHECK_EQ(host, PEER_NUMBER);
	CHECK(rig_open(r, rig_to(PEER_NUMBER)) == s);
	rig_expect_up(r, FROM_PEER "02", "02");
	CHECK(rig_delivered_session(r) == rig_announced_session(r));
	CHECK_EQ(rig_open_done_count(r), 1);
}

RIG_SESSION_TEST(vnet_closes_its_lower_session, rig_new_graph(GRAPH), open_to_peer(r))
{
	rig_close(r, s);
	rig_inject(r, FROM_PEER "00");
	CHECK_EQ(rig_counter_of(r, "eth", "no_session"), 1);
	CHECK(rig_open(r, rig_to(PEER_NUMBER)) != NULL); /* ARP still knows */
	rig_expect_up(r, FROM_PEER "00", "00");
}

RIG_TEST(vnet_limits_its_passive_sessions, rig_new_graph(BELOW "; vnet.sessions=2; user/ip: vnet"))
{
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, ME "020000000010 0800 00");
	rig_inject(r, ME "020000000011 0800 00");
	rig_inject(r, ME "020000000012 0800 00");
	CHECK_EQ(rig_open_done_count(r), 3);
	CHECK_EQ(rig_protocol(r, "vnet")->cache_count, 2);
	CHECK_EQ(rig_protocol(r, "eth")->cache_count, 2); /* the link's session closed with it */
	rig_inject(r, ME "020000000012 0800 00");
	CHECK_EQ(rig_open_done_count(r), 3);
	rig_inject(r, ME "020000000010 0800 00");
	CHECK_EQ(rig_open_done_count(r), 4);
	rig_forget(r);
}

RIG_TEST(vnet_session_survives_the_links_eviction,
	 rig_new_graph("port:; eth: port; eth.sessions=1; arp: eth; vnet: eth arp;"
		       "vnet.address=10.77.0.2/24; user/ip: vnet"))
{
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, ME "020000000010 0800 00");
	rig_inject(r, ME "020000000011 0800 00");
	rig_inject(r, ME "020000000010 0800 00");
	CHECK_EQ(rig_open_done_count(r), 2); /* VNET's reference has kept the first */
	rig_forget(r);
}

RIG_TEST(vnet_keeps_a_session_held_by_its_upper, rig_new_graph(BELOW "; vnet.sessions=1; user/ip: vnet"))
{
	struct xk_session *kept;

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_keep_sessions(r, true);
	rig_inject(r, FROM_PEER "00");
	rig_keep_sessions(r, false);
	kept = rig_announced_session(r);
	rig_inject(r, ME "020000000010 0800 00");
	rig_inject(r, ME "020000000011 0800 00");
	rig_forget(r);
	rig_expect_up(r, FROM_PEER "77", "77");
	CHECK(rig_delivered_session(r) == kept);
	rig_close(r, kept);
}

RIG_SESSION_TEST(vnet_broadcasts_without_arp, rig_new_graph(GRAPH), rig_must_open(r, rig_to(0x0a4d00ff)))
{
	rig_expect_down(r, s, "01", EVERYBODY ME "0800 01");
	CHECK(rig_open(r, rig_to(UINT32_MAX)) == s);
	CHECK(rig_open(r, lazily(UINT32_MAX)) == s);
}

RIG_TEST(vnet_refuses_hosts_that_are_not_neighbours, rig_new_graph(GRAPH))
{
	rig_expect_open_fails(r, rig_to(0x0a4e0003), -ENETUNREACH);
	rig_expect_open_fails(r, rig_to(0), -EINVAL);
	rig_expect_open_fails(r, nobody, -EINVAL);
	rig_expect_open_fails(r, from(0x0a4d0009, PEER_NUMBER), -EADDRNOTAVAIL);
	rig_expect_open_fails(r, rig_to(0x0a4d0000), -EHOSTUNREACH); /* the network itself */
	rig_expect_nothing_sent(r);
}

RIG_TEST(vnet_refuses_to_talk_to_itself, rig_new_graph(GRAPH))
{
	rig_expect_open_fails(r, rig_to(MY_NUMBER), -EADDRNOTAVAIL);
	CHECK_EQ(rig_counter(r, "to_self"), 1);
}

RIG_TEST(vnet_counts_enables_and_refuses_a_second_upper, rig_new_graph(BELOW "; user/ip: vnet; user2/ip: vnet"))
{
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_user(r, "user2");
	CHECK_EQ(rig_open_enable(r, nobody), -EADDRINUSE); /* ETH sees both claim 0x0800 */
	CHECK_EQ(rig_open_disable(r, nobody), -ENOENT);
	rig_user(r, "user");
	CHECK_EQ(rig_open_disable(r, nobody), 0);
	rig_expect_up(r, FROM_PEER "01", "01");
	CHECK_EQ(rig_open_disable(r, nobody), 0);
	CHECK_EQ(rig_protocol(r, "vnet")->cache_count, 0);
	CHECK_EQ(rig_protocol(r, "eth")->cache_count, 0);
	rig_inject(r, FROM_PEER "01");
	CHECK_EQ(rig_counter_of(r, "eth", "no_session"), 1);
	rig_user(r, "user2");
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_expect_up(r, FROM_PEER "02", "02");
}

/* ---- lazy sessions ---- */

RIG_SESSION_TEST(vnet_lazy_session_resolves_on_its_first_push, rig_new_graph(GRAPH), rig_open(r, lazily(PEER_NUMBER)))
{
	REQUIRE(s != NULL); /* at once */
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_push(r, s, "01"), 0);
	CHECK_EQ(rig_push(r, s, "02"), 0);
	rig_expect_sent(r, MY_REQUEST);
	rig_expect_nothing_sent(r);
	rig_expect_answer(r, PEER_REPLY, TO_PEER "01");
	rig_expect_sent(r, TO_PEER "02");
	rig_expect_down(r, s, "03", TO_PEER "03");
}

RIG_SESSION_TEST(vnet_lazy_session_follows_a_neighbour_that_moves, rig_new_graph(GRAPH),
		 rig_open(r, lazily(PEER_NUMBER)))
{
	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_inject(r, PEER_REPLY);
	rig_forget(r);
	rig_inject(r, EVERYBODY OTHER REQUEST OTHER PEER_HOST NOBODY PEER_HOST);
	rig_expect_down(r, s, "02", OTHER ME "0800 02");
}

RIG_SESSION_TEST(vnet_lazy_session_counts_drops_of_unresolved_messages,
		 rig_new_graph(BELOW "; arp.queue=4; user/ip: vnet"), rig_open(r, lazily(PEER_NUMBER)))
{
	for (unsigned i = 0; i < 5; i++)
		CHECK_EQ(rig_push(r, s, "01"), 0);
	CHECK_EQ(rig_counter_of(r, "arp", "queue_full"), 1); /* the oldest has made room */
	rig_advance_ms(r, 5000);
	CHECK_EQ(rig_counter_of(r, "arp", "unresolved"), 4);
	rig_forget(r);
}

RIG_SESSION_TEST(vnet_lazy_session_is_separate_from_the_passive_one, rig_new_graph(GRAPH),
		 rig_open(r, lazily(PEER_NUMBER)))
{
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_expect_up(r, FROM_PEER "01", "01");
	CHECK(rig_delivered_session(r) != s);
	rig_expect_down(r, s, "02", MY_REQUEST);
	rig_expect_answer(r, PEER_REPLY, TO_PEER "02");
	rig_expect_up(r, FROM_PEER "03", "03"); /* the frame's session still exists */
	CHECK_EQ(rig_open_done_count(r), 1);
}

/* ---- controls and several links ---- */

RIG_TEST(vnet_reports_its_interfaces, rig_new_graph(TWO_LINKS))
{
	struct xk_vnet_interfaces interfaces;
	struct xk_protocol *vnet = rig_protocol(r, "vnet");
	uint64_t host = 0;
	unsigned index = 9;

	CHECK_EQ(xk_control_protocol(vnet, XK_VNET_GET_INTERFACES, &interfaces), 0);
	CHECK_EQ(interfaces.count, 2);
	CHECK_EQ(interfaces.list[0].host, MY_NUMBER);
	CHECK_EQ(interfaces.list[0].mask, 0xffffff00);
	CHECK_EQ(interfaces.list[0].broadcast, 0x0a4d00ff);
	CHECK_EQ(interfaces.list[0].max_packet, 1500);
	CHECK_EQ(interfaces.list[1].host, 0x0a4e0002);
	CHECK_EQ(interfaces.list[1].broadcast, 0x0a4effff);
	CHECK_EQ(interfaces.list[1].index, 1);
	CHECK_EQ(xk_control_protocol(vnet, XK_GET_MY_HOST, &host), 0);
	CHECK_EQ(host, MY_NUMBER);
	CHECK_EQ(xk_vnet_kind(interfaces.list, 2, 0x0a4e0002, &index), XK_VNET_MINE);
	CHECK_EQ(index, 1);
	CHECK_EQ(xk_vnet_kind(interfaces.list, 2, 0x0a4effff, &index), XK_VNET_BROADCAST);
	CHECK_EQ(xk_vnet_kind(interfaces.list, 2, UINT32_MAX, &index), XK_VNET_BROADCAST);
	CHECK_EQ(index, 0);
	CHECK_EQ(xk_vnet_kind(interfaces.list, 2, 0x0a4e1234, &index), XK_VNET_ON_LINK);
	CHECK_EQ(index, 1);
	CHECK_EQ(xk_vnet_kind(interfaces.list, 2, 0x0a4f0001, &index), XK_VNET_ELSEWHERE);
}

RIG_TEST(vnet_session_reports_its_participants, rig_new_graph(GRAPH))
{
	struct xk_session *s = open_to_peer(r), *lazy = rig_open(r, lazily(0x0a4d0004));
	struct xk_vnet_interface interface;
	struct xk_participants participants;
	uint64_t value = 0;

	CHECK_EQ(xk_get_participants(s, &participants), 0);
	CHECK_EQ(participants.remote.depth, 1);
	CHECK_EQ(xk_participant_pop(&participants.remote), PEER_NUMBER);
	CHECK_EQ(xk_participant_pop(&participants.local), MY_NUMBER);
	CHECK_EQ(xk_get_participants(lazy, &participants), 0);
	CHECK_EQ(xk_participant_pop(&participants.remote), 0x0a4d0004);
	CHECK_EQ(xk_control(s, XK_VNET_GET_INTERFACE, &interface), 0);
	CHECK_EQ(interface.host, MY_NUMBER);
	CHECK_EQ(xk_control(s, XK_GET_MY_HOST, &value), 0);
	CHECK_EQ(value, MY_NUMBER);
	CHECK_EQ(xk_control(s, XK_GET_PEER_LINK, &value), 0);
	CHECK_EQ(value, 0x0200000000aa);
	CHECK_EQ(xk_control(lazy, XK_GET_LINK_ADDRESS, &value), 0);
	CHECK_EQ(value, 0x020000000001);
}

RIG_TEST(vnet_chooses_the_link_by_the_network, rig_new_graph(TWO_LINKS))
{
	struct xk_session *s;

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	CHECK(rig_open(r, rig_to(0x0a4e0003)) == NULL);
	rig_expect_sent(r, EVERYBODY ME2 REQUEST ME2 "0a4e0002" NOBODY "0a4e0003");
	CHECK_STR(rig_sent_through(r), "port2");
	rig_wire(r, "port2");
	rig_inject(r, ME2 PEER REPLY PEER "0a4e0003" ME2 "0a4e0002");
	s = rig_opened_session(r);
	REQUIRE(s != NULL);
	rig_expect_down(r, s, "01", PEER ME2 "0800 01");
	CHECK_STR(rig_sent_through(r), "port2");
	rig_wire(r, "port"); /* the same station on the other link is another neighbour */
	rig_expect_up(r, FROM_PEER "02", "02");
	CHECK(rig_delivered_session(r) != s);
	s = rig_must_open(r, from(0x0a4e0002, UINT32_MAX));
	rig_expect_down(r, s, "03", EVERYBODY ME2 "0800 03");
	CHECK_EQ(rig_open_disable(r, nobody), 0);
}

static void
let_go_of_strangers(void *vnet)
{
	xk_session_uncache(vnet, NULL, NULL);
}

static void
close_session(void *session)
{
	xk_close(session);
}

/* A session above a link's session that another protocol also holds must not be found there any more. */
RIG_TEST(vnet_opens_anew_on_a_link_session_still_in_use,
	 rig_new_graph("wire:; port:; eth: port; arp: eth; vnet: wire arp; vnet.address=10.77.0.2/24;"
		       "user/ip: vnet"))
{
	struct xk_session *lls;

	rig_wire(r, "wire");
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_expect_up(r, "01", "01");
	lls = rig_delivered_session(r)->lls;
	REQUIRE(xk_duplicate(lls));
	CHECK(rig_do(r, let_go_of_strangers, rig_protocol(r, "vnet")));
	CHECK(atomic_load_explicit(&lls->above, memory_order_relaxed) == NULL);
	rig_inject_on(r, lls, "02");
	rig_expect_delivered(r, "02");
	CHECK_EQ(rig_open_done_count(r), 2);
	CHECK(rig_do(r, close_session, lls));
}

/* Both links are enabled or none. */
RIG_TEST(vnet_enables_nothing_if_a_link_refuses,
	 rig_new_graph(
		 "wire:; wire2:; port:; port2:; eth: port; eth2: port2; arp: eth; arp2: eth2;"
		 "vnet: wire arp wire2 arp2; vnet.address=10.77.0.2/24; vnet.address2=10.78.0.2/24; user/ip: vnet"))
{
	rig_wire(r, "wire2");
	rig_wire_refuse(r, -EADDRINUSE);
	CHECK_EQ(rig_open_enable(r, nobody), -EADDRINUSE);
	rig_wire(r, "wire");
	CHECK_EQ(rig_wire_enable_count(r), 0);
	rig_wire(r, "wire2");
	rig_wire_refuse(r, 0);
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	CHECK_EQ(rig_wire_enable_count(r), 1);
	CHECK_EQ(rig_open_disable(r, nobody), 0);
	CHECK_EQ(rig_wire_enable_count(r), 0);
}

/* ---- an address that is lost while a session is opened ---- */

static const struct xk_session_ops *vnet_session_ops;

/* Sets up a session of vnet; then, before anybody can find it, ARP begins to probe this host's address. */
static int
setup_and_probe(struct xk_session *s, const void *how)
{
	const struct xk_network network = { MY_NUMBER, 24 };
	struct xk_protocol *arp = xk_lower(s->protocol, 1);
	int err = vnet_session_ops->setup(s, how);

	CHECK_EQ(xk_arp_ops(arp)->set_address(arp, &network), 0);
	return err;
}

/* Nothing is sent on s until the address has been probed. */
static void
check_waits_for_address(struct rig *r, struct xk_session *s)
{
	rig_forget(r);
	CHECK_EQ(rig_push(r, s, "01"), -EADDRNOTAVAIL);
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 10000);
	rig_forget(r);
	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_forget(r);
}

RIG_TEST(vnet_sessions_opened_without_an_address_send_nothing, rig_new_graph(BELOW "; arp.probe=yes; user/ip: vnet"))
{
	static struct xk_protocol_type type;
	static struct xk_session_ops ops;
	struct xk_protocol *vnet = rig_protocol(r, "vnet");

	vnet_session_ops = vnet->type->session_ops;
	type = *vnet->type;
	ops = *vnet_session_ops;
	ops.setup = setup_and_probe;
	type.session_ops = &ops;
	vnet->type = &type;
	rig_advance_ms(r, 10000);
	check_waits_for_address(r, rig_open(r, rig_to(UINT32_MAX)));
	check_waits_for_address(r, rig_open(r, rig_to(XK_VNET_STATION | 0x0200000000bb)));
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, FROM_PEER "01");
	check_waits_for_address(r, rig_announced_session(r));
	CHECK_EQ(rig_counter(r, "no_address"), 3);
}

TEST(vnet_refuses_a_graph_without_addresses)
{
	CHECK_EQ(rig_refusal("port:; eth: port; arp: eth; vnet: eth arp"), -EADDRNOTAVAIL);
}

RIG_TEST(vnet_knows_one_neighbour_outside_its_network, rig_new_graph(TWO_LINKS "; vnet.onlink2=10.77.0.9"))
{
	struct xk_vnet_interfaces interfaces;
	unsigned index = 9;

	CHECK_EQ(xk_control_protocol(rig_protocol(r, "vnet"), XK_VNET_GET_INTERFACES, &interfaces), 0);
	CHECK_EQ(interfaces.count, 2);
	CHECK_EQ(xk_vnet_kind(interfaces.list, 2, 0x0a4d0009, &index),
		 XK_VNET_ON_LINK); /* more specific than the first link */
	CHECK_EQ(index, 1);
	CHECK_EQ(xk_vnet_kind(interfaces.list, 2, 0, &index), XK_VNET_ELSEWHERE);
	CHECK(rig_open(r, rig_to(0x0a4d0009)) == NULL);
	rig_expect_sent(r, EVERYBODY ME2 REQUEST ME2 "0a4e0002" NOBODY "0a4d0009");
	rig_wire(r, "port2");
	rig_inject(r, ME2 PEER REPLY PEER "0a4d0009" ME2 "0a4e0002");
	CHECK(rig_opened_session(r) != NULL);
}

TEST(vnet_refuses_an_impossible_neighbour)
{
	CHECK_EQ(rig_refusal(BELOW "; vnet.onlink=10.77.0.255"), -EINVAL);
	CHECK_EQ(rig_refusal(BELOW "; vnet.onlink=224.0.0.1"), -EINVAL);
	CHECK_EQ(rig_refusal(BELOW "; vnet.onlink=10.78.0.255"), 0);
}

RIG_TEST(vnet_supports_links_of_two_hosts, rig_new_graph("port:; eth: port; arp: eth; vnet: eth arp;"
							 "vnet.address=10.77.0.2/31; user/ip: vnet"))
{
	REQUIRE(open_to_peer(r) != NULL);
	rig_expect_open_fails(r, rig_to(0x0a4d0001), -ENETUNREACH);
}
