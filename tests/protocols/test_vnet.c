/* test_vnet.c - vnet over real arp, eth and port, below a fake user of type ip; this host is 10.77.0.2/24. */
#include <errno.h>
#include <time.h>

#include "platform/sim/memory.h"
#include "protocols/vnet.h"
#include "tests/rig.h"

#define BELOW "port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.2/24"
#define GRAPH BELOW "; user/ip: vnet"
#define TWO_LINKS                                                                                                      \
	"port:; port2:; eth: port; eth2: port2; arp: eth; arp2: eth2; vnet: eth arp eth2 arp2;"                        \
	"vnet.address=10.77.0.2/24; vnet.address2=10.78.0.2/16; user/ip: vnet"

#define ME "020000000001"
#define ME2 "020000000002"
#define PEER "0200000000aa"
#define OTHER "0200000000bb"
#define EVERYBODY "ffffffffffff"
#define NOBODY "000000000000"
#define MY_HOST "0a4d0002"
#define PEER_HOST "0a4d0003"

#define REQUEST "0806 0001 0800 06 04 0001"
#define REPLY "0806 0001 0800 06 04 0002"
#define MY_REQUEST EVERYBODY ME REQUEST ME MY_HOST NOBODY PEER_HOST
#define PEER_REPLY ME PEER REPLY PEER PEER_HOST ME MY_HOST
#define FROM_PEER ME PEER "0800"
#define TO_PEER PEER ME "0800"

enum { MY_NUMBER = 0x0a4d0002, PEER_NUMBER = 0x0a4d0003 };

static const struct xk_participants nobody;

/* A session to the peer, which answers ARP. */
static struct xk_session *
open_to_peer(struct rig *r)
{
	CHECK(rig_open(r, rig_to(PEER_NUMBER)) == NULL);
	CHECK_EQ(rig_error(r), -EINPROGRESS);
	rig_expect_sent(r, MY_REQUEST);
	rig_inject(r, PEER_REPLY);
	return rig_opened(r);
}

static struct xk_participants
lazily(uint64_t host)
{
	return (struct xk_participants){ .remote = { 1, { host } }, .local = { 1, { XK_VNET_LAZY } } };
}

static struct xk_participants
from(uint64_t local, uint64_t host)
{
	return (struct xk_participants){ .remote = { 1, { host } }, .local = { 1, { local } } };
}

TEST(vnet_resolves_a_neighbour_and_carries_messages_both_ways)
{
	struct rig *r = rig_new_graph(GRAPH);
	struct xk_session *s = open_to_peer(r);

	REQUIRE(s != NULL);
	CHECK_EQ(rig_push(r, s, "a1"), 0);
	rig_expect_sent(r, TO_PEER "a1");
	rig_inject(r, FROM_PEER "b2");
	rig_expect_delivered(r, "b2");
	CHECK(rig_delivered_on(r) == s);
	CHECK_EQ(rig_drops(r), 0);
	rig_free(r);
}

TEST(vnet_says_when_a_neighbour_does_not_answer)
{
	struct rig *r = rig_new_graph(GRAPH);

	CHECK(rig_open(r, rig_to(PEER_NUMBER)) == NULL);
	rig_advance_ms(r, 5000);
	CHECK(rig_opened(r) == NULL);
	CHECK_EQ(rig_error(r), -EHOSTUNREACH);
	rig_forget(r);
	rig_free(r);
}

TEST(vnet_accepts_what_a_neighbour_sends_first_without_asking)
{
	struct rig *r = rig_new_graph(GRAPH);

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, FROM_PEER "01");
	rig_expect_delivered(r, "01");
	CHECK_EQ(rig_open_dones(r), 1);
	CHECK(rig_delivered_on(r) == rig_announced(r));
	CHECK_EQ(rig_push(r, rig_announced(r), "02"), 0);
	rig_expect_sent(r, TO_PEER "02");
	rig_inject(r, EVERYBODY PEER "0800 03");
	rig_expect_delivered(r, "03");
	CHECK_EQ(rig_open_dones(r), 1);
	rig_free(r);
}

TEST(vnet_without_an_enable_takes_nothing)
{
	struct rig *r = rig_new_graph(GRAPH);

	rig_inject(r, FROM_PEER "01");
	CHECK_EQ(rig_counter_of(r, "eth", "no_session"), 1);
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_refuse(r, -ENOMEM);
	rig_inject(r, FROM_PEER "01");
	CHECK_EQ(rig_counter_of(r, "eth", "refused"), 1);
	rig_expect_nothing_delivered(r);
	rig_refuse(r, 0);
	rig_inject(r, FROM_PEER "02");
	rig_expect_delivered(r, "02");
	rig_free(r);
}

TEST(vnet_opens_the_session_that_a_frame_has_caused)
{
	struct rig *r = rig_new_graph(GRAPH);
	struct xk_session *s;
	uint64_t host = 0;

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, FROM_PEER "01");
	rig_forget(r);
	CHECK_EQ(xk_control(rig_announced(r), XK_GET_PEER_HOST, &host, sizeof(host)), -ENOTSUP);
	s = open_to_peer(r);
	CHECK(s == rig_announced(r));
	CHECK_EQ(xk_control(s, XK_GET_PEER_HOST, &host, sizeof(host)), sizeof(host));
	CHECK_EQ(host, PEER_NUMBER);
	CHECK(rig_open(r, rig_to(PEER_NUMBER)) == s);
	rig_free(r);
}

TEST(vnet_closes_what_it_stands_on)
{
	struct rig *r = rig_new_graph(GRAPH);
	struct xk_session *s = open_to_peer(r);

	rig_close(r, s);
	rig_inject(r, FROM_PEER "00");
	CHECK_EQ(rig_counter_of(r, "eth", "no_session"), 1);
	CHECK(rig_open(r, rig_to(PEER_NUMBER)) != NULL); /* ARP still knows */
	rig_inject(r, FROM_PEER "00");
	rig_expect_delivered(r, "00");
	rig_free(r);
}

TEST(vnet_keeps_as_many_passive_sessions_as_it_is_told)
{
	struct rig *r = rig_new_graph(BELOW "; vnet.sessions=2; user/ip: vnet");

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, ME "020000000010 0800 00");
	rig_inject(r, ME "020000000011 0800 00");
	rig_inject(r, ME "020000000012 0800 00");
	CHECK_EQ(rig_open_dones(r), 3);
	CHECK_EQ(rig_protocol(r, "vnet")->cache_count, 2);
	CHECK_EQ(rig_protocol(r, "eth")->cache_count, 2); /* the link's went with it */
	rig_inject(r, ME "020000000012 0800 00");
	CHECK_EQ(rig_open_dones(r), 3);
	rig_inject(r, ME "020000000010 0800 00");
	CHECK_EQ(rig_open_dones(r), 4);
	rig_forget(r);
	rig_free(r);
}

TEST(vnet_outlives_what_the_link_no_longer_keeps)
{
	struct rig *r = rig_new_graph("port:; eth: port; eth.sessions=1; arp: eth; vnet: eth arp;"
				      "vnet.address=10.77.0.2/24; user/ip: vnet");

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, ME "020000000010 0800 00");
	rig_inject(r, ME "020000000011 0800 00");
	rig_inject(r, ME "020000000010 0800 00");
	CHECK_EQ(rig_open_dones(r), 2); /* VNET's reference has kept the first */
	rig_forget(r);
	rig_free(r);
}

TEST(vnet_keeps_a_session_that_the_upper_keeps)
{
	struct rig *r = rig_new_graph(BELOW "; vnet.sessions=1; user/ip: vnet");
	struct xk_session *kept;

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_keep(r, true);
	rig_inject(r, FROM_PEER "00");
	rig_keep(r, false);
	kept = rig_announced(r);
	rig_inject(r, ME "020000000010 0800 00");
	rig_inject(r, ME "020000000011 0800 00");
	rig_forget(r);
	rig_inject(r, FROM_PEER "77");
	rig_expect_delivered(r, "77");
	CHECK(rig_delivered_on(r) == kept);
	rig_close(r, kept);
	rig_free(r);
}

TEST(vnet_sends_to_everybody_without_asking)
{
	struct rig *r = rig_new_graph(GRAPH);
	struct xk_session *s = rig_open(r, rig_to(0x0a4d00ff));

	REQUIRE(s != NULL);
	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_expect_sent(r, EVERYBODY ME "0800 01");
	CHECK(rig_open(r, rig_to(UINT32_MAX)) == s);
	CHECK(rig_open(r, lazily(UINT32_MAX)) == s);
	rig_free(r);
}

TEST(vnet_refuses_hosts_that_are_no_neighbours)
{
	struct rig *r = rig_new_graph(GRAPH);

	CHECK(rig_open(r, rig_to(0x0a4e0003)) == NULL);
	CHECK_EQ(rig_error(r), -ENETUNREACH);
	CHECK(rig_open(r, rig_to(0)) == NULL);
	CHECK_EQ(rig_error(r), -EINVAL);
	CHECK(rig_open(r, nobody) == NULL);
	CHECK_EQ(rig_error(r), -EINVAL);
	CHECK(rig_open(r, from(0x0a4d0009, PEER_NUMBER)) == NULL);
	CHECK_EQ(rig_error(r), -EADDRNOTAVAIL);
	CHECK(rig_open(r, rig_to(0x0a4d0000)) == NULL); /* the network itself */
	CHECK_EQ(rig_error(r), -EHOSTUNREACH);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(vnet_refuses_to_talk_to_itself)
{
	struct rig *r = rig_new_graph(GRAPH);

	CHECK(rig_open(r, rig_to(MY_NUMBER)) == NULL);
	CHECK_EQ(rig_error(r), -EADDRNOTAVAIL);
	CHECK_EQ(rig_counter(r, "to_self"), 1);
	rig_free(r);
}

TEST(vnet_counts_enables_and_refuses_a_second_upper)
{
	struct rig *r = rig_new_graph(BELOW "; user/ip: vnet; user2/ip: vnet");

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_user(r, "user2");
	CHECK_EQ(rig_open_enable(r, nobody), -EADDRINUSE); /* ETH sees both claim 0x0800 */
	CHECK_EQ(rig_open_disable(r, nobody), -ENOENT);
	rig_user(r, "user");
	CHECK_EQ(rig_open_disable(r, nobody), 0);
	rig_inject(r, FROM_PEER "01");
	rig_expect_delivered(r, "01");
	CHECK_EQ(rig_open_disable(r, nobody), 0);
	CHECK_EQ(rig_protocol(r, "vnet")->cache_count, 0);
	CHECK_EQ(rig_protocol(r, "eth")->cache_count, 0);
	rig_inject(r, FROM_PEER "01");
	CHECK_EQ(rig_counter_of(r, "eth", "no_session"), 1);
	rig_user(r, "user2");
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, FROM_PEER "02");
	rig_expect_delivered(r, "02");
	rig_free(r);
}

/* ---- lazy sessions ---- */

TEST(vnet_opens_lazily_and_asks_when_something_is_sent)
{
	struct rig *r = rig_new_graph(GRAPH);
	struct xk_session *s = rig_open(r, lazily(PEER_NUMBER));

	REQUIRE(s != NULL); /* at once */
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_push(r, s, "01"), 0);
	CHECK_EQ(rig_push(r, s, "02"), 0);
	rig_expect_sent(r, MY_REQUEST);
	rig_expect_nothing_sent(r);
	rig_inject(r, PEER_REPLY);
	rig_expect_sent(r, TO_PEER "01");
	rig_expect_sent(r, TO_PEER "02");
	CHECK_EQ(rig_push(r, s, "03"), 0);
	rig_expect_sent(r, TO_PEER "03");
	rig_free(r);
}

TEST(vnet_lazily_follows_a_neighbour_that_moves)
{
	struct rig *r = rig_new_graph(GRAPH);
	struct xk_session *s = rig_open(r, lazily(PEER_NUMBER));

	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_inject(r, PEER_REPLY);
	rig_forget(r);
	rig_inject(r, EVERYBODY OTHER REQUEST OTHER PEER_HOST NOBODY PEER_HOST);
	CHECK_EQ(rig_push(r, s, "02"), 0);
	rig_expect_sent(r, OTHER ME "0800 02");
	rig_free(r);
}

TEST(vnet_lazy_messages_that_nobody_answers_for_are_dropped_by_name)
{
	struct rig *r = rig_new_graph(GRAPH);
	struct xk_session *s = rig_open(r, lazily(PEER_NUMBER));

	for (unsigned i = 0; i < 4; i++)
		CHECK_EQ(rig_push(r, s, "01"), 0);
	CHECK_EQ(rig_push(r, s, "01"), -ENOBUFS);
	CHECK_EQ(rig_counter_of(r, "arp", "queue_full"), 1);
	rig_advance_ms(r, 5000);
	CHECK_EQ(rig_counter_of(r, "arp", "unresolved"), 4);
	rig_forget(r);
	rig_free(r);
}

TEST(vnet_lazy_session_stands_beside_the_one_that_receives)
{
	struct rig *r = rig_new_graph(GRAPH);
	struct xk_session *s = rig_open(r, lazily(PEER_NUMBER));

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, FROM_PEER "01");
	rig_expect_delivered(r, "01");
	CHECK(rig_delivered_on(r) != s);
	CHECK_EQ(rig_push(r, s, "02"), 0);
	rig_expect_sent(r, MY_REQUEST);
	rig_inject(r, PEER_REPLY);
	rig_expect_sent(r, TO_PEER "02");
	rig_inject(r, FROM_PEER "03"); /* the session of the frame is still there */
	rig_expect_delivered(r, "03");
	CHECK_EQ(rig_open_dones(r), 1);
	rig_free(r);
}

/* ---- what can be asked, and several links ---- */

TEST(vnet_answers_what_its_interfaces_are)
{
	struct rig *r = rig_new_graph(TWO_LINKS);
	struct xk_vnet_interface interfaces[XK_VNET_INTERFACES];
	struct xk_protocol *vnet = rig_protocol(r, "vnet");
	uint64_t host = 0;
	unsigned index = 9;

	CHECK_EQ(xk_control_protocol(vnet, XK_VNET_GET_INTERFACES, interfaces, sizeof(interfaces)),
		 2 * sizeof(interfaces[0]));
	CHECK_EQ(interfaces[0].host, MY_NUMBER);
	CHECK_EQ(interfaces[0].mask, 0xffffff00);
	CHECK_EQ(interfaces[0].broadcast, 0x0a4d00ff);
	CHECK_EQ(interfaces[0].max_packet, 1500);
	CHECK_EQ(interfaces[1].host, 0x0a4e0002);
	CHECK_EQ(interfaces[1].broadcast, 0x0a4effff);
	CHECK_EQ(interfaces[1].index, 1);
	CHECK_EQ(xk_control_protocol(vnet, XK_VNET_GET_INTERFACES, interfaces, sizeof(interfaces[0])), -EMSGSIZE);
	CHECK_EQ(xk_control_protocol(vnet, XK_GET_MY_HOST, &host, sizeof(host)), sizeof(host));
	CHECK_EQ(host, MY_NUMBER);
	CHECK_EQ(xk_vnet_kind(interfaces, 2, 0x0a4e0002, &index), XK_VNET_MINE);
	CHECK_EQ(index, 1);
	CHECK_EQ(xk_vnet_kind(interfaces, 2, 0x0a4effff, &index), XK_VNET_BROADCAST);
	CHECK_EQ(xk_vnet_kind(interfaces, 2, UINT32_MAX, &index), XK_VNET_BROADCAST);
	CHECK_EQ(index, 0);
	CHECK_EQ(xk_vnet_kind(interfaces, 2, 0x0a4e1234, &index), XK_VNET_ON_LINK);
	CHECK_EQ(index, 1);
	CHECK_EQ(xk_vnet_kind(interfaces, 2, 0x0a4f0001, &index), XK_VNET_ELSEWHERE);
	rig_free(r);
}

TEST(vnet_session_says_who_takes_part)
{
	struct rig *r = rig_new_graph(GRAPH);
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
	CHECK_EQ(xk_control(s, XK_VNET_GET_INTERFACE, &interface, sizeof(interface)), sizeof(interface));
	CHECK_EQ(interface.host, MY_NUMBER);
	CHECK_EQ(xk_control(s, XK_GET_MY_HOST, &value, sizeof(value)), sizeof(value));
	CHECK_EQ(value, MY_NUMBER);
	CHECK_EQ(xk_control(s, XK_GET_PEER_LINK, &value, sizeof(value)), sizeof(value));
	CHECK_EQ(value, 0x0200000000aa);
	CHECK_EQ(xk_control(lazy, XK_GET_LINK_ADDRESS, &value, sizeof(value)), sizeof(value));
	CHECK_EQ(value, 0x020000000001);
	rig_free(r);
}

TEST(vnet_chooses_the_link_by_the_network)
{
	struct rig *r = rig_new_graph(TWO_LINKS);
	struct xk_session *s;

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	CHECK(rig_open(r, rig_to(0x0a4e0003)) == NULL);
	rig_expect_sent(r, EVERYBODY ME2 REQUEST ME2 "0a4e0002" NOBODY "0a4e0003");
	CHECK_STR(rig_sent_through(r), "port2");
	rig_wire(r, "port2");
	rig_inject(r, ME2 PEER REPLY PEER "0a4e0003" ME2 "0a4e0002");
	s = rig_opened(r);
	REQUIRE(s != NULL);
	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_expect_sent(r, PEER ME2 "0800 01");
	CHECK_STR(rig_sent_through(r), "port2");
	rig_wire(r, "port"); /* the same station on the other link is another neighbour */
	rig_inject(r, FROM_PEER "02");
	rig_expect_delivered(r, "02");
	CHECK(rig_delivered_on(r) != s);
	s = rig_open(r, from(0x0a4e0002, UINT32_MAX));
	REQUIRE(s != NULL);
	CHECK_EQ(rig_push(r, s, "03"), 0);
	rig_expect_sent(r, EVERYBODY ME2 "0800 03");
	CHECK_EQ(rig_open_disable(r, nobody), 0);
	rig_free(r);
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

/* What stood on a session of the link that somebody else holds as well must not be found there any more. */
TEST(vnet_stands_anew_on_a_session_of_the_link_that_lives_on)
{
	struct rig *r = rig_new_graph("wire:; port:; eth: port; arp: eth; vnet: wire arp; vnet.address=10.77.0.2/24;"
				      "user/ip: vnet");
	struct xk_session *lls;

	rig_wire(r, "wire");
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, "01");
	rig_expect_delivered(r, "01");
	lls = rig_delivered_on(r)->lls;
	REQUIRE(xk_duplicate(lls));
	CHECK(rig_do(r, let_go_of_strangers, rig_protocol(r, "vnet")));
	CHECK(atomic_load_explicit(&lls->hls, memory_order_relaxed) == NULL);
	rig_inject_on(r, lls, "02");
	rig_expect_delivered(r, "02");
	CHECK_EQ(rig_open_dones(r), 2);
	CHECK(rig_do(r, close_session, lls));
	rig_free(r);
}

/* On two links or on none. */
TEST(vnet_enables_nothing_where_one_link_refuses)
{
	struct rig *r = rig_new_graph(
		"wire:; wire2:; port:; port2:; eth: port; eth2: port2; arp: eth; arp2: eth2;"
		"vnet: wire arp wire2 arp2; vnet.address=10.77.0.2/24; vnet.address2=10.78.0.2/24; user/ip: vnet");

	rig_wire(r, "wire2");
	rig_wire_refuse(r, -EADDRINUSE);
	CHECK_EQ(rig_open_enable(r, nobody), -EADDRINUSE);
	rig_wire(r, "wire");
	CHECK_EQ(rig_wire_enables(r), 0);
	rig_wire(r, "wire2");
	rig_wire_refuse(r, 0);
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	CHECK_EQ(rig_wire_enables(r), 1);
	CHECK_EQ(rig_open_disable(r, nobody), 0);
	CHECK_EQ(rig_wire_enables(r), 0);
	rig_free(r);
}

TEST(vnet_refuses_a_graph_without_good_addresses)
{
	CHECK_EQ(rig_refusal("port:; eth: port; arp: eth; vnet: eth arp"), -EADDRNOTAVAIL);
	CHECK_EQ(rig_refusal("port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.0/24"), -EADDRNOTAVAIL);
	CHECK_EQ(rig_refusal("port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.255/24"), -EADDRNOTAVAIL);
	CHECK_EQ(rig_refusal("port:; eth: port; arp: eth; vnet: eth arp; vnet.address=224.0.0.1/24"), -EADDRNOTAVAIL);
}

TEST(vnet_knows_links_of_two_hosts)
{
	struct rig *r = rig_new_graph("port:; eth: port; arp: eth; vnet: eth arp;"
				      "vnet.address=10.77.0.2/31; user/ip: vnet");

	REQUIRE(open_to_peer(r) != NULL);
	CHECK(rig_open(r, rig_to(0x0a4d0001)) == NULL);
	CHECK_EQ(rig_error(r), -ENETUNREACH);
	rig_free(r);
}

/* ---- many threads: sessions come, are opened and closed, and make room, while messages pass ---- */

enum { THREADS_PEERS = 24, THREADS_FRAMES = 6000, THREADS_OPENS = 300, THREADS_NAPS = 60000 };

/* So many frames may wait at the port, whose queue is bounded. */
enum { THREADS_AHEAD = 1000 };

struct echo {
	struct xk_protocol protocol;
	_Atomic unsigned delivered, opens, finished;
};

static void
echo_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct echo *echo = xk_container_of(self, struct echo, protocol);

	atomic_fetch_add(&echo->delivered, 1);
	xk_push(lls, m);
}

static const struct xk_protocol_ops echo_ops = { .demux = echo_demux };

static const struct xk_protocol_type echo_type = {
	.name = "ip",
	.help = "Sends back what it is sent.",
	.ops = &echo_ops,
	.size = sizeof(struct echo),
	.offers = XK_ASYNC,
};

/* Application code: opens sessions to peers that ARP has heard of, sends on them, closes them. */
static void
echo_opener(void *argument)
{
	struct echo *echo = argument;
	struct xk_protocol *self = &echo->protocol;

	for (unsigned i = 0; i < THREADS_OPENS; i++) {
		struct xk_participants participants = rig_to(0x0a4d0010 + i % THREADS_PEERS);
		struct xk_session *s;

		if (xk_open(self, self, xk_lower(self, 0), &participants, &s) != 0)
			continue;
		atomic_fetch_add(&echo->opens, 1);
		xk_push(s, xk_msg_from(xk_platform_of(self), "x", 1));
		xk_close(s);
	}
	atomic_fetch_add(&echo->finished, 1);
}

struct threads {
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	struct xk_port *port;
	struct echo *echo;
};

static struct xk_protocol *
threads_add(struct threads *t, const struct xk_protocol_type *type, const char *first, const char *second)
{
	struct xk_protocol *p = xk_kernel_add_protocol(t->kernel, type, type == &echo_type ? "echo" : type->name);

	REQUIRE(p != NULL);
	if (first != NULL)
		REQUIRE(xk_kernel_add_edge(t->kernel, p, xk_kernel_find(t->kernel, first), "") != NULL);
	if (second != NULL)
		REQUIRE(xk_kernel_add_edge(t->kernel, p, xk_kernel_find(t->kernel, second), "") != NULL);
	return p;
}

static void
threads_set(struct xk_protocol *p, const char *name, const char *value)
{
	const struct xk_setting *setting = p->type->settings;
	char why[64];

	while (strcmp(setting->name, name) != 0)
		setting++;
	REQUIRE(xk_setting_parse(setting, value, p, why, sizeof(why)) == 0);
}

static void
threads_begin(struct threads *t, enum xk_mode mode)
{
	struct xk_kernel_config config = {
		.name = "threads", .mode = mode, .threads = 3, .core = -1, .driver = XK_DRIVER_INTERRUPT
	};
	struct xk_participants anybody = nobody;
	struct xk_protocol *vnet, *failed;

	t->platform = config.platform = xk_memory_platform_new(XK_MEMORY_REAL);
	t->kernel = xk_kernel_new(&config);
	t->port = xk_memory_port_new(t->platform, "port", 0x020000000001, 1500);
	REQUIRE(t->kernel != NULL && t->port != NULL);
	xk_kernel_add_port(t->kernel, t->port);
	threads_add(t, xk_protocol_type_find("port"), NULL, NULL);
	threads_add(t, xk_protocol_type_find("eth"), "port", NULL)->session_max = 6;
	threads_set(threads_add(t, xk_protocol_type_find("arp"), "eth", NULL), "timeout", "60s"); /* however slow */
	vnet = threads_add(t, xk_protocol_type_find("vnet"), "eth", "arp");
	vnet->session_max = 4;
	threads_set(vnet, "address", "10.77.0.2/24");
	t->echo = xk_container_of(threads_add(t, &echo_type, "vnet", NULL), struct echo, protocol);
	REQUIRE(xk_kernel_init(t->kernel, &failed) == 0);
	CHECK_EQ(xk_open_enable(&t->echo->protocol, &t->echo->protocol, vnet, &anybody), 0);
	REQUIRE(xk_kernel_start(t->kernel) == 0);
}

static void
threads_take(struct threads *t)
{
	struct xk_msg *m;

	while ((m = xk_memory_take(t->port)) != NULL)
		xk_msg_free(m);
}

/* Frame i: mostly a message of one of the peers, now and then its ARP request for this host. */
static void
threads_inject(struct threads *t, unsigned i)
{
	uint8_t peer = (uint8_t)(0x10 + i * 7 % THREADS_PEERS);
	uint8_t frame[42] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, peer, 8, 0, 'm' };
	const uint8_t request[] = { 8,    6,  0,  1, 8,    0, 6, 4, 0, 1, 2, 0,  0,  0, 0,
				    peer, 10, 77, 0, peer, 0, 0, 0, 0, 0, 0, 10, 77, 0, 2 };

	if (i % 5 == 0)
		memcpy(frame + 12, request, sizeof(request));
	CHECK(xk_memory_inject(t->port, xk_msg_from(t->platform, frame, i % 5 == 0 ? sizeof(frame) : 15)));
}

static unsigned
threads_frames(struct threads *t)
{
	return (unsigned)atomic_load(&t->port->frames_in);
}

static bool
threads_is_done(struct threads *t)
{
	return atomic_load(&t->echo->finished) == 2 && threads_frames(t) == THREADS_FRAMES;
}

static void
threads_run(enum xk_mode mode)
{
	static const struct timespec nap = { 0, 1000000 };
	struct threads t;
	unsigned naps = 0; /* a bound for what hangs, not for what is slow */

	threads_begin(&t, mode);
	CHECK_EQ(xk_thread_start(t.kernel, "opener", echo_opener, t.echo), 0);
	CHECK_EQ(xk_thread_start(t.kernel, "opener", echo_opener, t.echo), 0);
	for (unsigned i = 0; i < THREADS_FRAMES; i++) {
		threads_inject(&t, i);
		threads_take(&t);
		while (i >= THREADS_AHEAD + threads_frames(&t) && naps++ < THREADS_NAPS)
			nanosleep(&nap, NULL);
	}
	while (!threads_is_done(&t) && naps++ < THREADS_NAPS) {
		nanosleep(&nap, NULL);
		threads_take(&t);
	}
	CHECK(threads_is_done(&t));
	xk_kernel_stop(t.kernel);
	CHECK(atomic_load(&t.echo->delivered) > 0);
	CHECK_EQ(atomic_load(&t.echo->opens), 2 * THREADS_OPENS); /* none meets a session that is being closed */
	threads_take(&t);
	xk_kernel_free(t.kernel);
	CHECK_EQ(t.platform->ops->buffers_out(t.platform), 0);
	xk_memory_platform_free(t.platform);
}

TEST(vnet_sessions_come_and_go_under_threads_in_regular_mode)
{
	threads_run(XK_REGULAR);
}

TEST(vnet_sessions_come_and_go_under_threads_in_ipp_mode)
{
	threads_run(XK_IPP);
}
