/* test_vmux.c - the first lower protocol that reaches a host is used, and messages bypass vmux. */
#include <errno.h>

#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/upi.h"

static struct rig *
two_lowers(void)
{
	return rig_new_graph("wire:; wire2:; vmux: wire wire2; user: vmux");
}

static void
refuse(struct rig *r, const char *wire, int status)
{
	rig_wire(r, wire);
	rig_wire_refuse(r, status);
}

/* Returns the number of enables on the wire. */
static unsigned
enables(struct rig *r, const char *wire)
{
	rig_wire(r, wire);
	return rig_wire_enable_count(r);
}

RIG_SESSION_TEST(first_lower_provides_the_session, two_lowers(), rig_must_open(r, rig_to(5)))
{
	CHECK_EQ(rig_wire_remote(r), 5);
	CHECK(s->protocol == rig_protocol(r, "wire"));
	CHECK(s->up == rig_protocol(r, "user")->lowers[0]); /* its marks apply */
	rig_expect_down(r, s, "0102", "0102");
	CHECK_STR(rig_sent_through(r), "wire");
	rig_expect_up(r, "03", "03");
	CHECK(rig_delivered_session(r) == s);
	rig_expect_counts(r, "first=1 later=0");
}

TEST(lower_that_cannot_reach_the_host_is_skipped)
{
	static const int passed_over[] = { -ENETUNREACH, -EOPNOTSUPP };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(passed_over); i++) {
		struct rig *r = two_lowers();
		struct xk_session *s;

		refuse(r, "wire", passed_over[i]);
		s = rig_must_open(r, rig_to2(4, 5, 6));
		CHECK(s->protocol == rig_protocol(r, "wire2"));
		rig_wire(r, "wire2");
		CHECK_EQ(rig_wire_remote(r), 5); /* the second gets what the first has popped */
		CHECK_EQ(rig_wire_local(r), 6);
		rig_expect_down(r, s, "01", "01");
		CHECK_STR(rig_sent_through(r), "wire2");
		rig_expect_counts(r, "first=0 later=1");
		rig_free(r);
	}
}

/* A silent neighbour is not tried again through another lower protocol. */
TEST(any_other_failure_is_returned)
{
	static const int answers[] = { -EHOSTUNREACH, -EADDRINUSE, -ENOMEM, -EADDRNOTAVAIL, -ENOBUFS };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(answers); i++) {
		struct rig *r = two_lowers();

		refuse(r, "wire", answers[i]);
		rig_expect_open_fails(r, rig_to(5), answers[i]);
		rig_wire(r, "wire2");
		CHECK_EQ(rig_wire_session_count(r), 0);
		CHECK_EQ(rig_counter(r, "nowhere"), 0);
		rig_free(r);
	}
}

RIG_TEST(open_fails_if_no_lower_reaches_the_host, two_lowers())
{
	refuse(r, "wire", -ENETUNREACH);
	refuse(r, "wire2", -EOPNOTSUPP);
	rig_expect_open_fails(r, rig_to(5), -EOPNOTSUPP);
	CHECK_EQ(rig_counter(r, "nowhere"), 1);
}

RIG_TEST(messages_arrive_through_any_lower, two_lowers())
{
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	CHECK_EQ(enables(r, "wire"), 1);
	CHECK_EQ(enables(r, "wire2"), 1);
	rig_expect_up(r, "02", "02");
	rig_wire(r, "wire");
	rig_expect_up(r, "01", "01");
	CHECK_EQ(rig_open_done_count(r), 2);
	rig_expect_down(r, rig_announced_session(r), "03", "03");
	CHECK_STR(rig_sent_through(r), "wire");
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	CHECK_EQ(rig_open_disable(r, anybody()), -ENOENT);
	CHECK_EQ(enables(r, "wire"), 0);
	CHECK_EQ(enables(r, "wire2"), 0);
}

RIG_TEST(all_lowers_are_enabled_or_none, two_lowers())
{
	refuse(r, "wire2", -EADDRINUSE);
	CHECK_EQ(rig_open_enable(r, anybody()), -EADDRINUSE);
	CHECK_EQ(enables(r, "wire"), 0);
	refuse(r, "wire2", 0);
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
}

/* A vmux above another, and a virtual protocol with a session of its own above both. */
RIG_TEST(sessions_pass_through_several_layers,
	 rig_new_graph("wire:; wire2:; vmux: wire; vmux2: wire2 vmux; vwork: vmux2; user: vwork"))
{
	struct xk_session *s;

	refuse(r, "wire2", -ENETUNREACH);
	s = rig_must_open(r, rig_to(5));
	CHECK(s->lls->protocol == rig_protocol(r, "wire"));
	CHECK(s->lls->up == rig_protocol(r, "vwork")->lowers[0]);
	rig_wire(r, "wire");
	rig_expect_up(r, "01", "01");
}

/* ---- over VNET and IP ---- */

#define ME "020000000001"
#define PEER "0200000000aa"

static struct rig *
network(void)
{
	return rig_new_graph("port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.1/24;"
			     "ip: vnet; ip.gateway=10.77.0.9; ip.seed=1; vmux: vnet ip; user/bid: vmux");
}

/* Opens a session to a host; the request `asked` is answered from PEER. */
static struct xk_session *
open_host(struct rig *r, uint32_t host, const char *asked, const char *answer)
{
	rig_expect_open_fails(r, rig_to(host), -EINPROGRESS);
	rig_expect_sent(r, asked);
	rig_inject(r, answer);
	return rig_opened_session(r);
}

RIG_TEST(neighbour_is_reached_directly, network())
{
	struct xk_session *s = open_host(r, 0x0a4d0002, "ffffffffffff " ME "0806 *",
					 ME PEER "0806 0001 0800 06 04 0002 " PEER "0a4d0002" ME "0a4d0001");

	REQUIRE(s != NULL);
	CHECK(s->protocol == rig_protocol(r, "vnet"));
	rig_expect_down(r, s, "c3", PEER ME "3005 c3");
	rig_expect_up(r, ME PEER "3005 3c", "3c");
	CHECK_EQ(rig_counter(r, "first"), 1);
}

RIG_TEST(distant_host_is_reached_by_ip, network())
{
	struct xk_session *s = open_host(r, 0x0a580002, "ffffffffffff " ME "0806 *",
					 ME PEER "0806 0001 0800 06 04 0002 " PEER "0a4d0009" ME "0a4d0001");

	REQUIRE(s != NULL);
	CHECK(s->protocol == rig_protocol(r, "ip"));
	rig_expect_down(r, s, "c3", PEER ME "0800 45 00 0015 .... .... .. cc .... 0a4d0001 0a580002 c3");
	CHECK_EQ(rig_counter(r, "later"), 1);
}
