/* test_vsize.c - each message takes the first lower protocol that carries its size; messages arrive through any. */
#include <errno.h>

#include "protocols/virtual/vnet.h"
#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/upi.h"

static struct rig *
two_lowers(void)
{
	return rig_new_graph("wire:; wire2:; vsize: wire wire2; vsize.cutoff=4; user: vsize");
}

static void
expect_through(struct rig *r, const char *hex, const char *wire)
{
	rig_expect_sent(r, hex);
	CHECK_STR(rig_sent_through(r), wire);
}

static unsigned
sessions_on(struct rig *r, const char *wire)
{
	rig_wire(r, wire);
	return rig_wire_session_count(r);
}

/* ---- an active open ---- */

RIG_SESSION_TEST(messages_are_sent_by_size_and_arrive_through_any_lower, two_lowers(),
		 rig_must_open(r, rig_to2(4, 5, 6)))
{
	for (unsigned i = 0; i < 2; i++) {
		rig_wire(r, i == 0 ? "wire" : "wire2");
		CHECK_EQ(rig_wire_remote(r), 5);
		CHECK_EQ(rig_wire_local(r), 6);
		rig_expect_up(r, "aa", "aa");
		CHECK(rig_delivered_session(r) == s);
	}
	CHECK_EQ(rig_push(r, s, "01020304"), 0);
	expect_through(r, "01020304", "wire");
	CHECK_EQ(rig_push(r, s, "0102 | 030405"), 0);
	expect_through(r, "0102030405", "wire2");
	CHECK_EQ(rig_push(r, s, ""), 0);
	expect_through(r, "", "wire");
	rig_expect_counts(r, "long=1 opened=0");
	rig_close(r, s);
	CHECK_EQ(sessions_on(r, "wire") + sessions_on(r, "wire2"), 0);
	CHECK_EQ(rig_drop_count(r), 0);
}

static void
push_of(struct rig *r, struct xk_session *s, size_t len, const char *wire)
{
	uint8_t bytes[1];

	CHECK_EQ(rig_push_pattern(r, s, len), 0);
	CHECK_EQ(rig_take_sent(r, bytes, sizeof(bytes)), len);
	CHECK_STR(rig_sent_through(r), wire);
}

RIG_SESSION_TEST(lower_is_asked_for_its_size, rig_new_graph("wire:; wire2:; vsize: wire wire2; user: vsize"),
		 rig_must_open(r, rig_to(5)))
{
	push_of(r, s, 1500, "wire");
	push_of(r, s, 1501, "wire2");
	push_of(r, s, 60000, "wire2");
}

/* A lower that cannot tell its size carries nothing: everything goes through the other. */
RIG_TEST(lower_without_a_size_carries_nothing, rig_new_graph("wire:; wire2:; vsize: wire wire2; user: vsize"))
{
	struct xk_session *s;

	rig_answer_control(r, XK_GET_OPT_PACKET, NULL, 0);
	s = rig_must_open(r, rig_to(5));
	push_of(r, s, 1, "wire2");
}

TEST(four_lowers_are_supported)
{
	struct rig *r = rig_new_graph("wire:; wire2:; wire3:; wire4:; vsize: wire wire2 wire3 wire4; vsize.cutoff=1;"
				      "vsize.cutoff2=2; vsize.cutoff3=3; user: vsize");
	struct xk_session *s = rig_must_open(r, rig_to(5));

	push_of(r, s, 1, "wire");
	push_of(r, s, 2, "wire2");
	push_of(r, s, 3, "wire3");
	push_of(r, s, 4, "wire4");
	rig_free(r);
	CHECK_EQ(rig_refusal("wire:; wire2:; wire3:; wire4:; wire5:; vsize: wire wire2 wire3 wire4 wire5; user: vsize"),
		 -EINVAL);
}

RIG_SESSION_TEST(single_lower_carries_everything, rig_new("vsize cutoff=4"), rig_must_open(r, rig_to(5)))
{
	uint32_t length;

	push_of(r, s, 2000, "wire");
	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &length), 0);
	CHECK_EQ(length, 1500);
}

RIG_SESSION_TEST(failures_of_a_lower_are_passed_on, two_lowers(), rig_must_open(r, rig_to(5)))
{
	rig_fail_sending(r, -EMSGSIZE);
	CHECK_EQ(rig_push(r, s, "01"), -EMSGSIZE);
	CHECK_EQ(rig_push(r, s, "0102030405"), -EMSGSIZE);
}

RIG_TEST(all_lowers_are_opened_or_none, two_lowers())
{
	rig_wire(r, "wire2");
	rig_wire_refuse(r, -EHOSTUNREACH);
	rig_expect_open_fails(r, rig_to(5), -EHOSTUNREACH);
	CHECK_EQ(sessions_on(r, "wire"), 0);
}

RIG_SESSION_TEST(lengths_are_those_of_the_lowers, two_lowers(), rig_must_open(r, rig_to(5)))
{
	uint32_t length;
	uint64_t peer;

	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &length), 0);
	CHECK_EQ(length, 4);
	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &length), 0);
	CHECK_EQ(length, 1500);
	CHECK_EQ(xk_control(s, XK_GET_PEER_HOST, &peer), 0);
	CHECK_EQ(peer, 5);
}

#define TWO_LINKS "port:; port2:; eth: port; eth2: port2; vsize: eth eth2; vsize.cutoff=4; "

/* If the lower protocols return the same sessions again, so does vsize. */
RIG_SESSION_TEST(second_open_returns_the_same_session, rig_new_graph(TWO_LINKS "user/ip: vsize; user2/ip: vsize"),
		 rig_must_open(r, rig_to(0x0200000000aa)))
{
	CHECK(rig_open(r, rig_to(0x0200000000aa)) == s);
	CHECK(rig_open(r, rig_to(0x0200000000bb)) != s);
	rig_user(r, "user2");
	rig_expect_open_fails(r, rig_to(0x0200000000aa), -EADDRINUSE);
	rig_close(r, s);
	CHECK_EQ(rig_push(r, s, "0102030405"), 0);
	expect_through(r, "0200000000aa 020000000002 0800 0102030405", "port2");
}

/* A passive session that is opened becomes the opener's, and gets what it lacks. */
RIG_TEST(open_shares_a_passive_session, rig_new_graph(TWO_LINKS "user/ip: vsize"))
{
	struct xk_session *s;

	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	rig_expect_up(r, "020000000001 0200000000aa 0800 01", "01");
	s = rig_delivered_session(r);
	CHECK(rig_open(r, rig_to(0x0200000000aa)) == s);
	CHECK_EQ(rig_push(r, s, "0102030405"), 0);
	expect_through(r, "0200000000aa 020000000002 0800 0102030405", "port2");
	CHECK_EQ(rig_counter(r, "opened"), 0);
	rig_wire(r, "port2");
	rig_expect_up(r, "020000000002 0200000000aa 0800 02", "02");
	CHECK(rig_delivered_session(r) == s);
}

/* ---- passive sessions ---- */

static struct rig *
enabled(void)
{
	struct rig *r = two_lowers();

	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	return r;
}

RIG_TEST(passive_session_starts_with_its_first_messages_lower, enabled())
{
	struct xk_session *s;

	rig_wire(r, "wire2");
	rig_expect_up(r, "0102", "0102");
	CHECK_EQ(rig_open_done_count(r), 1);
	s = rig_announced_session(r);
	CHECK_EQ(rig_push(r, s, "03"), 0);
	expect_through(r, "03", "wire2");
	CHECK_EQ(rig_push(r, s, "0405060708"), 0);
	expect_through(r, "0405060708", "wire2");
	CHECK_EQ(sessions_on(r, "wire"), 0);
}

RIG_TEST(lower_for_long_messages_is_opened_to_the_same_host, enabled())
{
	uint64_t me = 0x0a4d0001;
	struct xk_session *s;

	rig_answer_control(r, XK_GET_MY_HOST, &me, sizeof(me));
	rig_wire(r, "wire");
	rig_expect_up(r, "01", "01");
	s = rig_announced_session(r);
	CHECK_EQ(rig_push(r, s, "02"), 0);
	expect_through(r, "02", "wire");
	CHECK_EQ(sessions_on(r, "wire2"), 0);
	CHECK_EQ(rig_push(r, s, "0102030405"), 0);
	expect_through(r, "0102030405", "wire2");
	CHECK_EQ(rig_wire_remote(r), 0x99);
	CHECK_EQ(rig_wire_local(r), XK_VNET_LAZY);
	rig_expect_up(r, "06", "06"); /* it arrives on the same session */
	CHECK(rig_delivered_session(r) == s);
	CHECK_EQ(rig_push(r, s, "0102030405"), 0);
	expect_through(r, "0102030405", "wire2");
	rig_expect_counts(r, "opened=1 long=2");
	CHECK_EQ(rig_open_done_count(r), 1);
}

RIG_TEST(lower_for_long_messages_is_opened_for_its_size, enabled())
{
	uint32_t length;

	rig_wire(r, "wire");
	rig_expect_up(r, "01", "01");
	CHECK_EQ(xk_control(rig_announced_session(r), XK_GET_MAX_PACKET, &length), 0);
	CHECK_EQ(sessions_on(r, "wire2"), 1);
}

RIG_TEST(failed_open_for_long_messages_is_reported, enabled())
{
	rig_wire(r, "wire");
	rig_expect_up(r, "01", "01");
	rig_wire(r, "wire2");
	rig_wire_refuse(r, -ENETUNREACH);
	CHECK_EQ(rig_push(r, rig_announced_session(r), "0102030405"), -ENETUNREACH);
	CHECK_EQ(rig_counter(r, "no_way"), 1);
	rig_wire_refuse(r, 0);
	CHECK_EQ(rig_push(r, rig_announced_session(r), "0102030405"), 0);
	expect_through(r, "0102030405", "wire2");
	CHECK_EQ(rig_drop_count(r), 1);
}

RIG_TEST(all_lowers_are_enabled_or_none, two_lowers())
{
	rig_wire(r, "wire2");
	rig_wire_refuse(r, -EADDRINUSE);
	CHECK_EQ(rig_open_enable(r, anybody()), -EADDRINUSE);
	rig_wire(r, "wire");
	CHECK_EQ(rig_wire_enable_count(r), 0);
	CHECK_EQ(rig_open_disable(r, anybody()), -ENOENT);
	rig_wire(r, "wire2");
	rig_wire_refuse(r, 0);
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	CHECK_EQ(rig_wire_enable_count(r), 1);
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	CHECK_EQ(rig_wire_enable_count(r), 0);
}

RIG_TEST(disabling_closes_passive_sessions, enabled())
{
	rig_wire(r, "wire");
	rig_expect_up(r, "01", "01");
	CHECK_EQ(rig_push(r, rig_announced_session(r), "0102030405"), 0);
	expect_through(r, "0102030405", "wire2");
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	CHECK_EQ(sessions_on(r, "wire2"), 0);
}

/* ---- close ---- */

static void
close_session(void *session)
{
	xk_close(session);
}

RIG_TEST(message_after_the_session_is_dropped, two_lowers())
{
	struct xk_session *s = rig_must_open(r, rig_to(5)), *lls;

	lls = s->lls;
	REQUIRE(xk_duplicate(lls));
	rig_close(r, s);
	rig_inject_on(r, lls, "01");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	rig_inject_on(r, lls, "02"); /* a new session */
	rig_expect_delivered(r, "02");
	CHECK_EQ(rig_open_done_count(r), 1);
	CHECK(rig_do(r, close_session, lls));
}

RIG_TEST(close_by_the_peer_is_passed_on, two_lowers())
{
	struct xk_session *s = rig_must_open(r, rig_to(5)), *lls;

	lls = s->lls;
	rig_close_done(r, lls);
	CHECK_EQ(rig_close_done_count(r), 1);
	REQUIRE(xk_duplicate(lls));
	rig_close(r, s);
	rig_close_done(r, lls); /* no session uses it any more */
	CHECK_EQ(rig_close_done_count(r), 1);
	CHECK(rig_do(r, close_session, lls));
}

/* ---- over VNET and BLAST ---- */

#define ME "020000000001"
#define PEER "0200000000aa"

/* A stranger's short request draws a long reply, which goes to the request's station without a query. */
RIG_TEST(long_reply_goes_to_the_requests_station,
	 rig_new_graph("port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.1/24;"
		       "vmux: vnet; blast: vmux; vsize: vmux blast; user/bid: vsize"))
{
	struct xk_session *s;

	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	rig_expect_up(r, ME PEER "3005 c3", "c3");
	s = rig_announced_session(r);
	rig_expect_down(r, s, "3c", PEER ME "3005 3c");
	CHECK_EQ(rig_push_pattern(r, s, 2000), 0);
	rig_expect_sent(r, PEER ME "3001 *");
	rig_expect_sent(r, PEER ME "3001 *");
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter_of(r, "vsize", "opened"), 1);
	CHECK_EQ(rig_drop_count(r), 0);
	rig_advance_ms(r, 60000); /* blast frees its copy */
}
