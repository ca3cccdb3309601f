/* test_ip.c - datagrams through IP, opened sessions, and sessions that strangers' datagrams open. */
#include <errno.h>

#include "protocols/ip/ip.h"
#include "tests/protocols/ip_datagrams.h"

/* Our address on a second link. */
enum { ME2 = 0x0a4e0001 };

/* Prepares both links. */
static void
prepare_two(struct rig *r)
{
	const struct xk_vnet_interfaces two = {
		2,
		{ interface,
		  { .host = ME2, .mask = 0xffffff00, .broadcast = ME2 | 0xff, .max_packet = MTU, .index = 1 } },
	};

	rig_answer_control(r, XK_VNET_GET_INTERFACES, &two, sizeof(two));
}

/* ---- round trip ---- */

RIG_SESSION_TEST(sends_a_datagram, ip_rig(), rig_must_open(r, rig_to(PEER)))
{
	uint8_t sent[64];

	CHECK_EQ(rig_wire_remote(r), PEER);
	CHECK_EQ(rig_push(r, s, "aabbcc"), 0);
	CHECK_EQ(rig_take_sent(r, sent, sizeof(sent)), 23);
	CHECK_EQ(sent[0], 0x45);
	CHECK_EQ(xk_get16(sent + 2), 23);
	CHECK_EQ(xk_get16(sent + 6), 0);
	CHECK_EQ(sent[8], 64);
	CHECK_EQ(sent[9], 17);
	CHECK_EQ(xk_get32(sent + 12), ME);
	CHECK_EQ(xk_get32(sent + 16), PEER);
	CHECK_EQ(xk_sum_fold(xk_sum(0, sent, HEADER)), 0xffff);
	CHECK(memcmp(sent + HEADER, "\xaa\xbb\xcc", 3) == 0);
}

RIG_SESSION_TEST(empty_datagrams_pass_in_both_directions, ip_rig(), rig_open(r, rig_to(PEER)))
{
	struct datagram d = usual();

	rig_expect_down(r, s, "", "4500 0014 .. .. 0000 4011 .. .. 0a4d0001 0a4d0002");
	d.len = 0;
	inject(r, &d);
	rig_expect_delivered(r, "");
}

RIG_SESSION_TEST(delivers_to_the_session_that_was_opened, ip_rig(), rig_open(r, rig_to(PEER)))
{
	struct datagram d = usual();

	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	CHECK(rig_delivered_session(r) == s);
	CHECK_EQ(rig_open_done_count(r), 0);
}

RIG_TEST(padding_is_trimmed, ip_rig())
{
	struct datagram d = usual();
	uint8_t frame[64] = { 0 };

	rig_open_enable(r, anybody());
	build(frame, &d);
	rig_inject_bytes(r, frame, 46);
	rig_expect_delivered(r, "aabbccddee");
}

RIG_TEST(header_in_segments_is_read, ip_rig())
{
	rig_open_enable(r, anybody());
	rig_expect_up(r, "45 | 00 0016 0007 0000 40 | 11 66 | 34 0a4d | 0002 0a4d0001 | 12 | 34", "1234");
}

RIG_TEST(time_to_live_is_a_setting, ip_rig_with("ip.ttl=7;"))
{
	rig_push(r, rig_open(r, rig_to(PEER)), "01");
	rig_expect_sent(r, "4500 0015 .. .. 0000 0711 *");
}

/* ---- opening ---- */

RIG_TEST(sessions_are_shared, ip_rig())
{
	struct xk_session *s = rig_open(r, rig_to(PEER)), *again = rig_open(r, rig_to(PEER));

	CHECK(s != NULL && s == again);
	rig_close(r, again);
	rig_expect_down(r, s, "01", "45 *");
}

RIG_SESSION_TEST(distant_hosts_are_reached_through_the_gateway, ip_rig_with("ip.gateway=10.77.0.254;"),
		 rig_must_open(r, rig_to(FAR)))
{
	CHECK_EQ(rig_wire_remote(r), GATEWAY);
	rig_push(r, s, "01");
	rig_expect_sent(r, "4500 0015 .. .. 0000 4011 .. .. 0a4d0001 08080808 01");
}

static void
prepare_onlink(struct rig *r)
{
	struct xk_vnet_interfaces one = { 1, { interface } };

	one.list[0].onlink = 0xac1f0100;
	rig_answer_control(r, XK_VNET_GET_INTERFACES, &one, sizeof(one));
}

/* No prefix applies to its address: 172.31.1.0 is a network in none that this host knows. */
RIG_TEST(gateway_outside_the_prefix_is_a_valid_host,
	 rig_new_prepared("wire:; ip: wire; ip.gateway=172.31.1.0; user: ip#17", prepare_onlink))
{
	struct datagram d = usual();

	REQUIRE(rig_open(r, rig_to(FAR)) != NULL);
	CHECK_EQ(rig_wire_remote(r), 0xac1f0100);
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	d.source = 0xac1f0100;
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
}

static void
check_hop(struct rig *r, uint32_t remote, uint64_t hop)
{
	struct xk_session *s = rig_open(r, rig_to(remote));

	CHECK(s != NULL);
	CHECK_EQ(rig_wire_remote(r), hop);
}

RIG_TEST(longest_prefix_wins, ip_rig_with("ip.routes=10.0.0.0/8=10.77.0.8,10.1.2.0/24=10.77.0.24,0.0.0.0/0=10.77.0.9,"
					  "10.1.2.3/32=10.77.0.32,10.1.0.0/16=10.77.0.16;"))
{
	check_hop(r, 0x0a010203, 0x0a4d0020);
	check_hop(r, 0x0a010204, 0x0a4d0018);
	check_hop(r, 0x0a010304, 0x0a4d0010);
	check_hop(r, 0x0a020304, 0x0a4d0008);
	check_hop(r, 0x0b020304, 0x0a4d0009);
	check_hop(r, PEER, PEER);
}

static int
refusal_of(const char *routes)
{
	char graph[512];

	snprintf(graph, sizeof(graph),
		 "port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.1/24; ip: vnet; ip.%s; user: ip#17",
		 routes);
	return rig_refusal(graph);
}

TEST(wrong_routes_are_refused)
{
	CHECK_EQ(refusal_of("routes=10.1.0.0/16"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.0=10.77.0.9"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.0/=10.77.0.9"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.0/33=10.77.0.9"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.0/-1=10.77.0.9"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.1/16=10.77.0.9"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0/16=10.77.0.9"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.0/16=10.77.0"), -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.0/16=10.77.0.9,10.1.0.0/16=10.77.0.8"), -EEXIST);
	CHECK_EQ(refusal_of("routes=10.1.0.0/16=10.78.0.9"), -EINVAL);
	CHECK_EQ(refusal_of("gateway=10.77.0.1"), -EINVAL);
	CHECK_EQ(refusal_of("gateway=10.77.0.255"), -EINVAL);
	CHECK_EQ(refusal_of("gateway=172.31.1.1"), -EINVAL);
	CHECK_EQ(refusal_of("gateway=172.31.1.1; vnet.onlink=172.31.1.2"), -EINVAL);
	CHECK_EQ(refusal_of("gateway=172.31.1.1; vnet.onlink=172.31.1.1"), 0);
	CHECK_EQ(refusal_of("gateway=172.31.1.0; vnet.onlink=172.31.1.0"), 0);
	CHECK_EQ(refusal_of("routes=00000000000000000000000000000000000000000000000000000000000000000000000000"),
		 -EINVAL);
	CHECK_EQ(refusal_of("routes=10.1.0.0/16=10.77.0.9,"), 0);
}

TEST(ip_opens_no_host_without_an_address)
{
	CHECK_EQ(rig_refusal("wire:; ip: wire; user: ip#17"), -ENOTSUP);
}

RIG_TEST(impossible_participants_are_refused, ip_rig())
{
	struct xk_participants p = rig_to(PEER);

	rig_expect_open_fails(r, anybody(), -EINVAL);
	rig_expect_open_fails(r, rig_to(UINT64_C(0x10a4d0002)), -EINVAL);
	rig_expect_open_fails(r, rig_to(FAR), -ENETUNREACH);
	rig_expect_open_fails(r, rig_to(ME), -EINVAL);
	rig_expect_open_fails(r, rig_to(0), -EINVAL);
	rig_expect_open_fails(r, rig_to(0x7f000001), -EINVAL);
	rig_expect_open_fails(r, rig_to(0xe0000001), -EINVAL);
	xk_participant_push(&p.local, OTHER);
	rig_expect_open_fails(r, p, -EADDRNOTAVAIL);
	rig_wire_refuse(r, -EHOSTUNREACH);
	rig_expect_open_fails(r, rig_to(PEER), -EHOSTUNREACH);
}

RIG_TEST(link_with_a_small_mtu_is_refused, ip_rig())
{
	uint32_t mtu = 67;

	rig_answer_control(r, XK_GET_MAX_PACKET, &mtu, sizeof(mtu));
	rig_expect_open_fails(r, rig_to(PEER), -EMSGSIZE);
}

RIG_TEST(sessions_of_another_upper_are_not_shared,
	 rig_new_prepared("wire:; ip: wire; user: ip#17; user2: ip#18", prepare))
{
	CHECK(rig_open(r, rig_to(PEER)) != NULL);
	rig_user(r, "user2");
	CHECK(rig_open(r, rig_to(PEER)) != NULL);
}

RIG_SESSION_TEST(answers_controls, ip_rig(), rig_open(r, rig_to(PEER)))
{
	struct xk_participants p = anybody();
	uint64_t host = 0;
	uint32_t length = 0;

	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &length), 0);
	CHECK_EQ(length, 65515);
	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &length), 0);
	CHECK_EQ(length, MTU - HEADER);
	CHECK_EQ(xk_control(s, XK_GET_MY_HOST, &host), 0);
	CHECK_EQ(host, ME);
	CHECK_EQ(xk_control(s, XK_GET_PEER_HOST, &host), 0);
	CHECK_EQ(host, PEER);
	CHECK_EQ(xk_control_protocol(rig_protocol(r, "ip"), XK_GET_MY_HOST, &host), 0);
	CHECK_EQ(host, ME);
	CHECK_EQ(xk_get_participants(s, &p), 0);
	CHECK_EQ(xk_participant_pop(&p.remote), PEER);
	CHECK_EQ(xk_participant_pop(&p.local), ME);
}

/* ---- strangers ---- */

RIG_TEST(strangers_datagram_opens_a_session_that_can_answer, ip_rig())
{
	struct datagram d = usual();

	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	inject(r, &d);
	CHECK_EQ(rig_open_done_count(r), 1);
	rig_expect_delivered(r, "aabbccddee");
	inject(r, &d);
	CHECK_EQ(rig_open_done_count(r), 1);
	rig_expect_delivered(r, "aabbccddee");
	CHECK(rig_delivered_session(r) == rig_announced_session(r));
	rig_push(r, rig_delivered_session(r), "01");
	rig_expect_sent(r, "4500 0015 .. .. 0000 4011 .. .. 0a4d0001 0a4d0002 01");
	d.source = OTHER;
	inject(r, &d);
	CHECK_EQ(rig_open_done_count(r), 2);
	rig_expect_delivered(r, "aabbccddee");
}

RIG_TEST(host_on_two_links_has_two_sessions, ip_rig())
{
	struct datagram d = usual();
	struct xk_session *first, *second;

	rig_open_enable(r, anybody());
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	first = rig_delivered_session(r);
	rig_wire_peer(r, 0x77);
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	second = rig_delivered_session(r);
	CHECK(first != second);
	CHECK(first->lls != second->lls);
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	CHECK(rig_delivered_session(r) == second);
	CHECK_EQ(rig_open_done_count(r), 2);
}

/* ---- a race of two links ---- */

static struct {
	struct xk_session *lls; /* session on which a datagram arrives meanwhile; NULL: none */
	struct xk_msg *m;
	const struct xk_session_ops *ops;
} meanwhile;

/* Handles a wire session's control messages: while IP opens a session on it, a datagram arrives on another. */
static int
control_meanwhile(struct xk_session *s, int op, void *argument)
{
	struct xk_session *lls = meanwhile.lls;

	meanwhile.lls = NULL;
	if (lls != NULL)
		xk_demux(lls, meanwhile.m);
	return meanwhile.ops->control != NULL ? meanwhile.ops->control(s, op, argument) : -ENOTSUP;
}

RIG_TEST(stranger_on_two_links_at_once_has_two_sessions, ip_rig())
{
	struct datagram d = usual();
	uint8_t frame[MTU];
	struct xk_session_ops ops;
	struct xk_session *one, *other;

	rig_open_enable(r, anybody());
	d.source = OTHER;
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	one = rig_delivered_session(r)->lls;
	rig_wire_peer(r, 0x77);
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	other = rig_delivered_session(r)->lls;
	REQUIRE(one != other);
	d.source = PEER;
	meanwhile.ops = other->ops;
	meanwhile.m = xk_msg_from(rig_platform(r), frame, build(frame, &d));
	meanwhile.lls = one;
	ops = *other->ops;
	ops.control = control_meanwhile;
	other->ops = &ops;
	inject(r, &d);
	other->ops = meanwhile.ops;
	CHECK_EQ(rig_delivered(r), 2);
	CHECK_EQ(rig_open_done_count(r), 4);
	rig_expect_delivered(r, "aabbccddee");
	CHECK(rig_delivered_session(r)->lls == one);
	rig_expect_delivered(r, "aabbccddee");
	CHECK(rig_delivered_session(r)->lls == other);
}

/* A stranger is answered from the address that it sent to, on whatever link. */
RIG_TEST(stranger_is_answered_from_the_address_it_sent_to,
	 rig_new_prepared("wire:; ip: wire; user: ip#17", prepare_two))
{
	struct datagram d = usual();

	rig_open_enable(r, anybody());
	d.destination = ME2;
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	rig_expect_down(r, rig_delivered_session(r), "01", "45000015 .... 0000 4011 .... 0a4e0001 0a4d0002 01");
}

RIG_TEST(opened_session_receives_over_any_link, ip_rig())
{
	struct datagram d = usual();
	struct xk_session *s = rig_open(r, rig_to(PEER));

	rig_wire_peer(r, 0x77);
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	CHECK(rig_delivered_session(r) == s);
}

RIG_TEST(open_shares_a_passive_session, ip_rig())
{
	struct datagram d = usual();

	rig_open_enable(r, anybody());
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	CHECK(rig_open(r, rig_to(PEER)) == rig_announced_session(r));
	rig_wire_peer(r, 0x77);
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	CHECK_EQ(rig_open_done_count(r), 1);
}

RIG_TEST(broadcast_is_answered_from_the_interfaces_address, ip_rig())
{
	struct datagram d = usual();
	uint64_t host = 0;

	rig_open_enable(r, anybody());
	d.destination = NET_BROADCAST;
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	rig_push(r, rig_delivered_session(r), "01");
	rig_expect_sent(r, "4500 0015 .. .. 0000 4011 .. .. 0a4d0001 0a4d0002 01");
	xk_control(rig_delivered_session(r), XK_GET_MY_HOST, &host);
	CHECK_EQ(host, ME);
	xk_control(rig_delivered_session(r), XK_GET_DESTINATION, &host);
	CHECK_EQ(host, NET_BROADCAST);
	d.destination = UINT32_MAX;
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
}

RIG_SESSION_TEST(broadcasts_are_sent, ip_rig(), rig_must_open(r, rig_to(UINT32_MAX)))
{
	CHECK_EQ(rig_wire_remote(r), UINT32_MAX);
	rig_push(r, s, "01");
	rig_expect_sent(r, "4500 0015 .. .. 0000 4011 .. .. 0a4d0001 ffffffff 01");
}

RIG_TEST(disabling_closes_passive_sessions, ip_rig())
{
	struct datagram d = usual();

	CHECK_EQ(rig_open_disable(r, anybody()), -ENOENT);
	rig_open_enable(r, anybody());
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	inject(r, &d);
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
}

RIG_TEST(enabling_refuses_a_host, ip_rig())
{
	struct xk_participants p = anybody();

	xk_participant_push(&p.local, ME);
	CHECK_EQ(rig_open_enable(r, p), -EOPNOTSUPP);
	CHECK_EQ(rig_open_enable(r, rig_to(PEER)), -EOPNOTSUPP);
}

RIG_TEST(unwanted_session_is_refused, ip_rig())
{
	struct datagram d = usual();

	rig_open_enable(r, anybody());
	rig_refuse_sessions(r, -EPERM);
	inject(r, &d);
	CHECK_EQ(rig_counter(r, "refused"), 1);
	rig_expect_nothing_delivered(r);
	rig_refuse_sessions(r, 0);
	inject(r, &d);
	rig_expect_delivered(r, "aabbccddee");
}
