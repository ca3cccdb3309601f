/* test_vnet_follow.c - vnet: neighbours that move or fall silent, and the sessions that follow them (vnet_rig.h). */
#include "tests/protocols/vnet_rig.h"

#define FAST BELOW "; arp.age=10s; arp.timeout=100ms; user/ip: vnet"
#define MY_POLL PEER ME REQUEST ME MY_HOST NOBODY PEER_HOST
#define PEER_IS_AT(link) EVERYBODY link REQUEST link PEER_HOST NOBODY PEER_HOST

static uint64_t
link_of(struct xk_session *s)
{
	uint64_t link = 0;

	CHECK_EQ(xk_control(s, XK_GET_PEER_LINK, &link), 0);
	return link;
}

RIG_SESSION_TEST(vnet_follows_a_neighbour_that_moves_and_returns, rig_new_graph(GRAPH), open_to_peer(r))
{
	REQUIRE(s != NULL);
	rig_inject(r, PEER_IS_AT(OTHER));
	rig_expect_down(r, s, "01", OTHER ME "0800 01");
	CHECK_EQ(link_of(s), 0x0200000000bb);
	CHECK(rig_open(r, rig_to(PEER_NUMBER)) == s);
	rig_expect_up(r, ME OTHER "0800 02", "02"); /* nobody has enabled: all messages from there are for s */
	CHECK(rig_delivered_session(r) == s);
	rig_inject(r, PEER_IS_AT("0200000000cc"));
	rig_expect_down(r, s, "03", "0200000000cc" ME "0800 03");
	rig_inject(r, ME OTHER "0800 04"); /* the link's session is closed */
	CHECK_EQ(rig_counter_of(r, "eth", "no_session"), 1);
	rig_inject(r, PEER_IS_AT(PEER));
	rig_expect_down(r, s, "05", TO_PEER "05");
	CHECK_EQ(link_of(s), 0x0200000000aa);
	rig_expect_up(r, FROM_PEER "06", "06");
	rig_expect_counts(r, "moved=3 arp.moved=3");
}

RIG_TEST(vnet_follows_for_every_upper, rig_new_graph(BELOW "; user/ip: vnet; user2: vnet"))
{
	struct xk_session *s = open_to_peer(r), *t;

	rig_user(r, "user2");
	t = rig_must_open(r, rig_to(PEER_NUMBER));
	CHECK(t != s);
	rig_inject(r, PEER_IS_AT(OTHER));
	rig_expect_down(r, s, "01", OTHER ME "0800 01");
	rig_expect_down(r, t, "02", OTHER ME ".... 02");
	rig_close(r, s);
	rig_inject(r, PEER_IS_AT(PEER));
	rig_expect_down(r, t, "03", PEER ME ".... 03");
	CHECK_EQ(rig_counter(r, "moved"), 3);
}

/* One machine with two addresses, one of which moves. */
RIG_TEST(vnet_moves_only_sessions_of_the_moved_neighbour, rig_new_graph(GRAPH))
{
	struct xk_session *s = open_to_peer(r), *t;

	CHECK(rig_open(r, rig_to(0x0a4d0004)) == NULL);
	rig_forget(r);
	rig_inject(r, ME PEER REPLY PEER "0a4d0004" ME MY_HOST);
	t = rig_opened_session(r);
	REQUIRE(t != NULL);
	CHECK(t != s);
	rig_inject(r, PEER_IS_AT(OTHER));
	rig_expect_down(r, s, "01", OTHER ME "0800 01");
	rig_expect_down(r, t, "02", TO_PEER "02");
}

RIG_TEST(vnet_answers_strangers_at_their_station, rig_new_graph(GRAPH))
{
	struct xk_session *stranger;

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	REQUIRE(open_to_peer(r) != NULL);
	rig_expect_up(r, FROM_PEER "01", "01");
	stranger = rig_delivered_session(r);
	rig_inject(r, PEER_IS_AT(OTHER));
	rig_expect_down(r, stranger, "02", TO_PEER "02");
	rig_expect_up(r, ME OTHER "0800 03", "03");
	CHECK(rig_delivered_session(r) != stranger);
	rig_expect_down(r, rig_delivered_session(r), "04", OTHER ME "0800 04");
}

RIG_SESSION_TEST(vnet_refreshes_an_old_address_while_it_sends, rig_new_graph(FAST), open_to_peer(r))
{
	rig_advance_ms(r, 9999);
	rig_expect_down(r, s, "01", TO_PEER "01");
	rig_expect_silence_ms(r, 20000);           /* an idle session sends no queries */
	rig_expect_down(r, s, "02", TO_PEER "02"); /* nothing waits */
	rig_expect_sent(r, MY_POLL);
	rig_expect_down(r, s, "03", TO_PEER "03");
	rig_expect_nothing_sent(r); /* a request is in flight */
	rig_inject(r, PEER_REPLY);
	rig_advance_ms(r, 9999);
	rig_expect_down(r, s, "04", TO_PEER "04");
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 2);
	rig_expect_down(r, s, "05", TO_PEER "05");
	rig_expect_sent(r, MY_POLL);
	rig_inject(r, PEER_REPLY);
	rig_expect_counts(r, "arp.polls=2 moved=0");
}

RIG_SESSION_TEST(vnet_keeps_sending_to_a_silent_neighbour_until_it_returns, rig_new_graph(FAST), open_to_peer(r))
{
	rig_advance_ms(r, 10001);
	rig_expect_down(r, s, "01", TO_PEER "01");
	rig_expect_sent(r, MY_POLL);
	for (unsigned i = 0; i < 3; i++) {
		rig_advance_ms(r, 100);
		rig_expect_sent(r, MY_REQUEST);
	}
	rig_advance_ms(r, 101);
	CHECK_EQ(rig_counter_of(r, "arp", "lost"), 1);
	rig_expect_silence_ms(r, 5000);
	rig_expect_down(r, s, "02", TO_PEER "02");
	rig_expect_sent(r, MY_REQUEST);
	rig_inject(r, ME OTHER REPLY OTHER PEER_HOST ME MY_HOST);
	rig_expect_down(r, s, "03", OTHER ME "0800 03");
	rig_expect_nothing_sent(r);
}

RIG_SESSION_TEST(vnet_recovers_from_a_wrong_address, rig_new_graph(FAST), open_to_peer(r))
{
	rig_inject(r, PEER_IS_AT(OTHER)); /* no station has that address */
	rig_advance_ms(r, 301);
	rig_expect_down(r, s, "01", OTHER ME "0800 01");
	rig_expect_sent(r, OTHER ME REQUEST ME MY_HOST NOBODY PEER_HOST);
	rig_advance_ms(r, 100);
	rig_expect_sent(r, MY_REQUEST);
	rig_inject(r, PEER_REPLY);
	rig_expect_down(r, s, "02", TO_PEER "02");
	rig_advance_ms(r, 9000); /* solicited: believed as long as any other */
	rig_expect_down(r, s, "03", TO_PEER "03");
	rig_expect_nothing_sent(r);
}

RIG_SESSION_TEST(vnet_resolves_a_neighbour_that_arp_had_no_room_for,
		 rig_new_graph(BELOW "; arp.entries=1; user/ip: vnet"), open_to_peer(r))
{
	rig_inject(r, EVERYBODY OTHER REQUEST OTHER "0a4d0004" NOBODY MY_HOST);
	CHECK_EQ(rig_counter_of(r, "arp", "replaced"), 1);
	rig_forget(r);
	rig_expect_down(r, s, "01", TO_PEER "01");
	rig_expect_sent(r, MY_REQUEST);
	rig_inject(r, ME OTHER REPLY OTHER PEER_HOST ME MY_HOST);
	rig_expect_down(r, s, "02", OTHER ME "0800 02");
}

RIG_SESSION_TEST(vnet_verifies_a_neighbour_reported_unanswered,
		 rig_new_graph(BELOW "; arp.timeout=100ms; user/ip: vnet"), open_to_peer(r))
{
	rig_advance_ms(r, 1000);
	xk_unanswered(s);
	rig_advance_ms(r, 1);
	rig_expect_sent(r, MY_POLL);
	rig_expect_down(r, s, "01", TO_PEER "01");
	rig_advance_ms(r, 100);
	rig_expect_sent(r, MY_REQUEST);
	rig_inject(r, ME OTHER REPLY OTHER PEER_HOST ME MY_HOST);
	rig_expect_down(r, s, "02", OTHER ME "0800 02");
	rig_expect_nothing_sent(r);
}

/* Their host is unknown, or is the broadcast address. */
RIG_TEST(vnet_verifies_no_stranger_reported_unanswered, rig_new_graph(GRAPH))
{
	struct xk_session *all, *lazy;

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, EVERYBODY PEER REQUEST PEER PEER_HOST NOBODY MY_HOST);
	rig_forget(r);
	rig_advance_ms(r, 1000);
	rig_expect_up(r, FROM_PEER "01", "01");
	xk_unanswered(rig_delivered_session(r));
	all = rig_open(r, rig_to(0x0a4d00ff));
	xk_unanswered(all);
	rig_expect_silence_ms(r, 1);
	lazy = rig_open(r, lazily(PEER_NUMBER));
	xk_unanswered(lazy);
	rig_advance_ms(r, 1);
	rig_expect_sent(r, MY_POLL);
	rig_expect_down(r, lazy, "02", TO_PEER "02");
}

/* Reports, as an upper does, that it has opened a passive session. */
static void
follow_peer(void *session)
{
	uint64_t host = PEER_NUMBER;

	CHECK_EQ(xk_control(session, XK_VNET_FOLLOW, &host), 0);
}

RIG_TEST(vnet_passive_session_follows_once_opened, rig_new_graph(GRAPH))
{
	struct xk_session *s;

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_expect_up(r, ME OTHER "0800 01", "01"); /* OTHER claims to be the peer */
	s = rig_delivered_session(r);
	CHECK(rig_do(r, follow_peer, s));
	rig_expect_sent(r, MY_REQUEST);
	rig_expect_down(r, s, "02", OTHER ME "0800 02");
	rig_inject(r, PEER_REPLY);
	rig_expect_down(r, s, "03", TO_PEER "03");
	rig_expect_up(r, ME OTHER "0800 04", "04"); /* messages from there are answered there */
	CHECK(rig_delivered_session(r) != s);
	rig_expect_down(r, rig_delivered_session(r), "05", OTHER ME "0800 05");
	CHECK(rig_do(r, follow_peer, s)); /* this opens it */
	CHECK(rig_open(r, rig_to(PEER_NUMBER)) == s);
	rig_expect_nothing_sent(r);
}
