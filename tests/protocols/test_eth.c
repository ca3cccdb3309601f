/* test_eth.c - Ethernet between a fake user, whose type is 0x3000, and a fake port. */
#include <errno.h>
#include <limits.h>

#include "protocols/eth.h"
#include "tests/rig.h"

#define ME "020000000001"
#define PEER "0200000000aa"
#define EVERYBODY "ffffffffffff"
#define FROM_PEER ME PEER "3000"

#define PEER_ADDRESS UINT64_C(0x0200000000aa)

static const struct xk_participants nobody;

RIG_SESSION_TEST(eth_carries_messages_both_ways, rig_new("eth"), rig_must_open(r, rig_to(PEER_ADDRESS)))
{
	rig_expect_down(r, s, "a1b2", PEER ME "3000 a1b2");
	rig_expect_up(r, FROM_PEER "c3", "c3");
	CHECK(rig_delivered_session(r) == s);
	CHECK_EQ(rig_open_done_count(r), 0);
	rig_expect_up(r, FROM_PEER, "");
}

RIG_TEST(eth_reads_a_header_that_straddles_segments, rig_new("eth"))
{
	REQUIRE(rig_open(r, rig_to(PEER_ADDRESS)) != NULL);
	rig_expect_up(r, ME "02 | 00000000aa30 | 00c3", "c3");
}

RIG_TEST(eth_drops_frames_shorter_than_a_header, rig_new("eth"))
{
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject_prefixes(r, FROM_PEER);
	CHECK_EQ(rig_counter(r, "short"), XK_ETH_HEADER_LEN);
	CHECK_EQ(rig_drop_count(r), XK_ETH_HEADER_LEN);
	CHECK_EQ(rig_open_done_count(r), 0);
}

/* A driver may be between testing the edge and the call: therefore the function called never changes. */
RIG_TEST(eth_drops_short_frames_on_counted_edges_too, rig_new("eth"))
{
	struct xk_protocol *eth = rig_protocol(r, "eth");

	for (unsigned i = 1; i <= 4; i++) {
		xk_kernel_count_edges(eth->kernel, i % 2 != 0);
		CHECK_EQ(xk_edge_watched(eth->lowers[0], XK_WATCH_GATHER), XK_ETH_HEADER_LEN);
		rig_inject_prefixes(r, FROM_PEER);
		CHECK_EQ(rig_counter(r, "short"), i * XK_ETH_HEADER_LEN);
	}
	CHECK_EQ(atomic_load(&eth->lowers[0]->counts[XK_UP].messages), 2 * XK_ETH_HEADER_LEN);
}

RIG_TEST(eth_drops_frames_for_others, rig_new("eth"))
{
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, "020000000002" PEER "3000 00");
	rig_inject(r, "01005e000001" PEER "3000 00");
	CHECK_EQ(rig_counter(r, "not_mine"), 2);
	rig_expect_nothing_delivered(r);
}

RIG_TEST(eth_drops_lengths_in_place_of_types, rig_new("eth"))
{
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, ME PEER "0001 00");
	rig_inject(r, ME PEER "05ff 00");
	CHECK_EQ(rig_counter(r, "bad_type"), 2);
	rig_inject(r, ME PEER "0600 00");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
}

RIG_TEST(eth_drops_impossible_sources, rig_new("eth"))
{
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, EVERYBODY ME "3000 00");
	rig_inject(r, ME EVERYBODY "3000 00");
	rig_inject(r, ME "01005e000001 3000 00");
	rig_inject(r, ME "000000000000 3000 00");
	CHECK_EQ(rig_counter(r, "bad_source"), 4);
	rig_expect_nothing_delivered(r);
}

RIG_TEST(eth_drops_types_that_are_not_enabled, rig_new("eth"))
{
	rig_inject(r, FROM_PEER "00");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, ME PEER "3001 00");
	CHECK_EQ(rig_counter(r, "no_session"), 2);
}

RIG_TEST(eth_opens_a_session_for_a_new_peer_of_an_enabled_type, rig_new("eth"))
{
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_expect_up(r, FROM_PEER "01", "01");
	CHECK_EQ(rig_open_done_count(r), 1);
	CHECK(rig_delivered_session(r) == rig_announced_session(r));
	rig_expect_down(r, rig_announced_session(r), "02", PEER ME "3000 02");
	rig_expect_up(r, EVERYBODY PEER "3000 03", "03"); /* broadcast: arrives on its sender's session */
	CHECK(rig_delivered_session(r) == rig_announced_session(r));
	CHECK_EQ(rig_open_done_count(r), 1);
}

RIG_TEST(eth_drops_when_the_upper_refuses, rig_new("eth"))
{
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_refuse_sessions(r, -ENOMEM);
	rig_inject(r, FROM_PEER "01");
	CHECK_EQ(rig_counter(r, "refused"), 1);
	rig_expect_nothing_delivered(r);
	rig_refuse_sessions(r, 0);
	rig_expect_up(r, FROM_PEER "02", "02");
}

RIG_TEST(eth_limits_its_passive_sessions, rig_new("eth sessions=2"))
{
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, ME "020000000010 3000 00");
	rig_inject(r, ME "020000000011 3000 00");
	rig_inject(r, ME "020000000012 3000 00");
	CHECK_EQ(rig_open_done_count(r), 3);
	CHECK_EQ(rig_protocol(r, "eth")->cache_count, 2);
	rig_inject(r, ME "020000000012 3000 00"); /* the youngest is still there */
	CHECK_EQ(rig_open_done_count(r), 3);
	rig_inject(r, ME "020000000010 3000 00"); /* the oldest made room */
	CHECK_EQ(rig_open_done_count(r), 4);
	rig_forget(r);
}

RIG_TEST(eth_never_closes_a_passive_session_that_is_kept, rig_new("eth sessions=1"))
{
	struct xk_session *kept;

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_keep_sessions(r, true);
	rig_inject(r, FROM_PEER "00");
	rig_keep_sessions(r, false);
	kept = rig_announced_session(r);
	rig_inject(r, ME "020000000010 3000 00");
	rig_inject(r, ME "020000000011 3000 00");
	rig_forget(r);
	rig_expect_down(r, kept, "77", PEER ME "3000 77");
	rig_expect_up(r, FROM_PEER "78", "78");
	CHECK(rig_delivered_session(r) == kept);
}

RIG_TEST(eth_counts_enables, rig_new("eth"))
{
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	CHECK_EQ(rig_open_disable(r, nobody), 0);
	rig_expect_up(r, FROM_PEER "00", "00");
	CHECK_EQ(rig_open_disable(r, nobody), 0);
	CHECK_EQ(rig_protocol(r, "eth")->cache_count, 0); /* sessions opened by frames are closed */
	rig_inject(r, FROM_PEER "00");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK_EQ(rig_open_disable(r, nobody), -ENOENT);
}

#define TWO_USERS "wire:; eth: wire; user: eth#0x3000; user2: eth#0x3000"

RIG_TEST(eth_refuses_a_second_upper_on_one_type, rig_new_graph(TWO_USERS))
{
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	REQUIRE(rig_open(r, rig_to(PEER_ADDRESS)) != NULL);
	rig_user(r, "user2");
	CHECK_EQ(rig_open_enable(r, nobody), -EADDRINUSE);
	CHECK_EQ(rig_open_disable(r, nobody), -ENOENT);
	rig_expect_open_fails(r, rig_to(PEER_ADDRESS), -EADDRINUSE);
}

RIG_SESSION_TEST(eth_gives_the_same_hlps_the_same_session, rig_new("eth"), rig_open(r, rig_to(PEER_ADDRESS)))
{
	CHECK(rig_open(r, rig_to(PEER_ADDRESS)) == s);
	rig_close(r, s);
	rig_expect_up(r, FROM_PEER "00", "00"); /* one reference is left */
	rig_close(r, s);
	rig_inject(r, FROM_PEER "00");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
}

RIG_TEST(eth_open_shares_a_passive_session, rig_new("eth"))
{
	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, FROM_PEER "00");
	CHECK(rig_open(r, rig_to(PEER_ADDRESS)) == rig_announced_session(r));
	rig_forget(r);
}

RIG_SESSION_TEST(eth_sends_broadcasts, rig_new("eth"), rig_must_open(r, rig_to(XK_ETH_BROADCAST)))
{
	rig_expect_down(r, s, "01", EVERYBODY ME "3000 01");
}

RIG_TEST(eth_refuses_impossible_participants, rig_new("eth"))
{
	struct xk_participants elsewhere = { .remote = { 1, { PEER_ADDRESS } }, .local = { 1, { 0x5 } } };

	rig_expect_open_fails(r, nobody, -EINVAL);
	rig_expect_open_fails(r, rig_to(0), -EINVAL);
	rig_expect_open_fails(r, rig_to(0x01005e000001), -EINVAL);
	rig_expect_open_fails(r, elsewhere, -EADDRNOTAVAIL);
}

RIG_TEST(eth_refuses_to_talk_to_itself, rig_new("eth"))
{
	rig_expect_open_fails(r, rig_to(0x020000000001), -EADDRNOTAVAIL);
	CHECK_EQ(rig_counter(r, "to_self"), 1);
}

RIG_SESSION_TEST(eth_takes_the_numbers_that_uppers_declare,
		 rig_new_graph("wire:; eth: wire; user/ip: eth; user2/nameless: eth"),
		 rig_must_open(r, rig_to(PEER_ADDRESS)))
{
	rig_expect_down(r, s, "", PEER ME "0800");
	rig_user(r, "user2");
	rig_expect_open_fails(r, rig_to(PEER_ADDRESS), -ENOENT);
	CHECK_EQ(rig_open_enable(r, nobody), -ENOENT);
}

RIG_TEST(eth_refuses_a_number_that_is_a_length, rig_new_graph("wire:; eth: wire; user: eth#1500"))
{
	rig_expect_open_fails(r, rig_to(PEER_ADDRESS), -EINVAL);
}

RIG_SESSION_TEST(eth_reports_its_participants, rig_new("eth"), rig_must_open(r, rig_to(PEER_ADDRESS)))
{
	struct xk_participants participants;
	uint64_t address = 0;
	uint32_t packet = 0;

	CHECK_EQ(xk_control(s, XK_GET_PEER_LINK, &address), 0);
	CHECK_EQ(address, PEER_ADDRESS);
	CHECK_EQ(xk_control(s, XK_GET_LINK_ADDRESS, &address), 0);
	CHECK_EQ(address, 0x020000000001);
	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &packet), 0);
	CHECK_EQ(packet, 1486);
	CHECK_EQ(xk_get_participants(s, &participants), 0);
	CHECK_EQ(xk_participant_pop(&participants.remote), PEER_ADDRESS);
	CHECK_EQ(xk_participant_pop(&participants.local), 0x020000000001);
}

RIG_SESSION_TEST(eth_returns_the_ports_result_of_a_push, rig_new("eth"), rig_open(r, rig_to(PEER_ADDRESS)))
{
	rig_fail_sending(r, -ENOBUFS);
	CHECK_EQ(rig_push(r, s, "00"), -ENOBUFS);
	rig_fail_sending(r, 0);
}

struct shared_push {
	struct xk_session *s;
	struct xk_msg *m;
	int status;
};

static void
push_shared(void *argument)
{
	struct shared_push *push = argument;

	push->status = xk_push(push->s, push->m);
}

RIG_TEST(eth_counts_a_drop_without_a_header_buffer, rig_new("eth"))
{
	struct shared_push push = { rig_open(r, rig_to(PEER_ADDRESS)), NULL, 0 };
	struct xk_msg *m = xk_msg_from(rig_platform(r), "x", 1);

	push.m = xk_msg_reference(m); /* shared: nothing may be written in front of it */
	rig_limit_buffers(r, 0);
	CHECK(rig_do(r, push_shared, &push));
	CHECK_EQ(push.status, -ENOBUFS);
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	rig_limit_buffers(r, UINT_MAX);
	push.m = m;
	CHECK(rig_do(r, push_shared, &push));
	rig_expect_sent(r, PEER ME "3000 78");
}

RIG_TEST(eth_works_on_a_real_port, rig_new_graph("port:; eth: port; user: eth"))
{
	struct xk_session *s;

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_expect_up(r, FROM_PEER "01", "01");
	s = rig_must_open(r, rig_to(XK_ETH_BROADCAST));
	CHECK_EQ(rig_push_pattern(r, s, 1500), 0);
	rig_expect_sent(r, EVERYBODY ME "3000 00 01 02 *");
	CHECK_EQ(rig_push_pattern(r, s, 1501), -EMSGSIZE);
	CHECK_EQ(rig_counter_of(r, "port", "too_long"), 1);
}
