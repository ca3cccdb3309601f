/* test_arp.c - address resolution over a real eth and port; this host is 10.77.0.2/24. */
#include <errno.h>
#include <limits.h>

#include "protocols/arp/arp.h"
#include "tests/rig.h"

#define GRAPH "port:; eth: port; arp: eth"
#define ME "020000000001"
#define PEER "0200000000aa"
#define OTHER "0200000000bb"
#define EVERYBODY "ffffffffffff"
#define NOBODY "000000000000"
#define MY_HOST "0a4d0002"
#define PEER_HOST "0a4d0003"
#define OTHER_HOST "0a4d0004"

#define TYPES "0001 0800 06 04"
#define REQUEST TYPES "0001"
#define REPLY TYPES "0002"

#define ASKS_ME EVERYBODY PEER "0806" REQUEST PEER PEER_HOST NOBODY MY_HOST
#define ANSWER_TO_PEER PEER ME "0806" REPLY ME MY_HOST PEER PEER_HOST
#define MY_REQUEST EVERYBODY ME "0806" REQUEST ME MY_HOST NOBODY PEER_HOST
#define PEER_REPLY ME PEER "0806" REPLY PEER PEER_HOST ME MY_HOST

enum { PEER_NUMBER = 0x0a4d0003, OTHER_NUMBER = 0x0a4d0004 };

#define PEER_LINK UINT64_C(0x0200000000aa)
#define OTHER_LINK UINT64_C(0x0200000000bb)

static struct rig *
arp_rig(const char *settings)
{
	struct xk_network network = { 0x0a4d0002, 24 };
	char graph[256];
	struct rig *r;

	snprintf(graph, sizeof(graph), GRAPH "; %s", settings);
	r = rig_new_graph(graph);
	CHECK_EQ(xk_arp_ops(rig_protocol(r, "arp"))->set_address(rig_protocol(r, "arp"), &network), 0);
	return r;
}

struct asking {
	struct xk_protocol *arp;
	uint32_t host;
	uint64_t link;
	int status;
};

static void
ask(void *argument)
{
	struct asking *asking = argument;

	asking->status = xk_arp_ops(asking->arp)->resolve(asking->arp, asking->host, &asking->link);
}

static void
look_up(void *argument)
{
	struct asking *asking = argument;

	asking->link = xk_arp_ops(asking->arp)->known(asking->arp, asking->host);
}

/* Returns the link address of host, or 0 if ARP does not know it. */
static uint64_t
known(struct rig *r, uint32_t host)
{
	struct asking asking = { rig_protocol(r, "arp"), host, 0, 0 };

	CHECK(rig_do(r, look_up, &asking));
	return asking.link;
}

static void
inject_request_of(struct rig *r, unsigned host)
{
	char frame[256];

	snprintf(frame, sizeof(frame),
		 EVERYBODY "0200000000%02x 0806" REQUEST "0200000000%02x 0a4d00%02x" NOBODY MY_HOST, host, host, host);
	rig_inject(r, frame);
	rig_forget(r);
}

RIG_TEST(arp_broadcasts_a_request_and_learns_from_the_answer, arp_rig(""))
{
	struct asking asking = { rig_protocol(r, "arp"), PEER_NUMBER, 0, 0 };

	CHECK(!rig_do(r, ask, &asking));
	rig_expect_sent(r, MY_REQUEST);
	rig_inject(r, PEER_REPLY);
	CHECK_EQ(asking.status, 0);
	CHECK_EQ(asking.link, PEER_LINK);
	asking.link = 0;
	CHECK(rig_do(r, ask, &asking)); /* at once */
	CHECK_EQ(asking.link, PEER_LINK);
	CHECK_EQ(known(r, PEER_NUMBER), PEER_LINK);
	rig_expect_counts(r, "requests_out=1 replies_in=1");
}

RIG_TEST(arp_answers_a_request_and_learns_from_it, arp_rig(""))
{
	rig_expect_answer(r, ASKS_ME, ANSWER_TO_PEER);
	CHECK_EQ(known(r, PEER_NUMBER), PEER_LINK);
	rig_expect_counts(r, "requests_in=1 learned=1");
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(arp_ignores_the_padding_of_short_frames, arp_rig(""))
{
	rig_expect_answer(r, ASKS_ME "00000000 00000000 00000000 00000000 0000", ANSWER_TO_PEER);
}

RIG_TEST(arp_ignores_requests_for_other_hosts, arp_rig(""))
{
	rig_inject(r, EVERYBODY PEER "0806" REQUEST PEER PEER_HOST NOBODY OTHER_HOST);
	rig_expect_nothing_sent(r);
	CHECK_EQ(known(r, PEER_NUMBER), 0);
	CHECK_EQ(rig_counter(r, "others"), 1);
}

RIG_TEST(arp_repeats_its_request_and_gives_up, arp_rig("arp.timeout=100ms; arp.tries=3"))
{
	struct asking asking = { rig_protocol(r, "arp"), PEER_NUMBER, 0, 1 };

	CHECK(!rig_do(r, ask, &asking));
	rig_expect_sent(r, MY_REQUEST);
	rig_advance_ms(r, 101);
	rig_expect_sent(r, MY_REQUEST);
	rig_advance_ms(r, 100);
	rig_expect_sent(r, MY_REQUEST);
	CHECK_EQ(asking.status, 1);
	rig_advance_ms(r, 100);
	CHECK_EQ(asking.status, -EHOSTUNREACH);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "unreachable"), 1);
	CHECK(!rig_do(r, ask, &asking)); /* begins anew */
	rig_expect_sent(r, MY_REQUEST);
	rig_inject(r, PEER_REPLY);
	CHECK_EQ(asking.status, 0);
}

RIG_TEST(arp_sends_one_request_for_all_waiters, arp_rig(""))
{
	struct asking first = { rig_protocol(r, "arp"), PEER_NUMBER, 0, 1 }, second = first;

	CHECK(!rig_do(r, ask, &first));
	CHECK(!rig_do(r, ask, &second));
	rig_expect_sent(r, MY_REQUEST);
	rig_expect_nothing_sent(r);
	rig_inject(r, PEER_REPLY);
	CHECK_EQ(first.link, PEER_LINK);
	CHECK_EQ(second.link, PEER_LINK);
}

RIG_TEST(arp_takes_a_request_from_the_wanted_host_as_an_answer, arp_rig(""))
{
	struct asking asking = { rig_protocol(r, "arp"), PEER_NUMBER, 0, 1 };

	CHECK(!rig_do(r, ask, &asking));
	rig_forget(r);
	rig_expect_answer(r, ASKS_ME, ANSWER_TO_PEER);
	CHECK_EQ(asking.link, PEER_LINK);
}

RIG_TEST(arp_does_not_wait_if_implicit_is_fail, arp_rig("arp.implicit=fail"))
{
	struct asking asking = { rig_protocol(r, "arp"), PEER_NUMBER, 0, 1 };

	CHECK(rig_do(r, ask, &asking));
	CHECK_EQ(asking.status, -EAGAIN);
	rig_expect_sent(r, MY_REQUEST); /* sends a request all the same */
	rig_inject(r, PEER_REPLY);
	CHECK(rig_do(r, ask, &asking));
	CHECK_EQ(asking.status, 0);
}

RIG_TEST(arp_uses_an_answer_until_it_is_too_old, arp_rig("arp.age=1s"))
{
	struct asking asking = { rig_protocol(r, "arp"), PEER_NUMBER, 0, 1 };

	rig_inject(r, ASKS_ME);
	rig_forget(r);
	rig_advance_ms(r, 900);
	CHECK_EQ(known(r, PEER_NUMBER), PEER_LINK);
	rig_inject(r, ASKS_ME); /* the peer is heard from again */
	rig_forget(r);
	rig_advance_ms(r, 900);
	CHECK_EQ(known(r, PEER_NUMBER), PEER_LINK);
	rig_advance_ms(r, 200);
	CHECK_EQ(known(r, PEER_NUMBER), 0);
	CHECK(!rig_do(r, ask, &asking));
	rig_expect_sent(r, MY_REQUEST);
	rig_inject(r, PEER_REPLY);
	CHECK_EQ(asking.link, PEER_LINK);
}

RIG_TEST(arp_follows_a_host_that_announces_a_new_link_address, arp_rig(""))
{
	rig_inject(r, EVERYBODY OTHER "0806" REQUEST OTHER PEER_HOST NOBODY PEER_HOST);
	CHECK_EQ(known(r, PEER_NUMBER), 0); /* an announcement alone makes no entry */
	rig_inject(r, ASKS_ME);
	rig_forget(r);
	rig_inject(r, EVERYBODY OTHER "0806" REQUEST OTHER PEER_HOST NOBODY PEER_HOST);
	CHECK_EQ(known(r, PEER_NUMBER), OTHER_LINK);
	rig_inject(r, EVERYBODY PEER "0806" REPLY PEER PEER_HOST PEER PEER_HOST);
	CHECK_EQ(known(r, PEER_NUMBER), PEER_LINK);
	rig_expect_nothing_sent(r);
}

RIG_TEST(arp_drops_unsolicited_answers, arp_rig(""))
{
	rig_inject(r, PEER_REPLY);
	CHECK_EQ(rig_counter(r, "unasked"), 1);
	CHECK_EQ(known(r, PEER_NUMBER), 0);
	rig_inject(r, ASKS_ME);
	rig_forget(r);
	rig_inject(r, EVERYBODY OTHER "0806" REPLY OTHER PEER_HOST PEER OTHER_HOST); /* for others */
	CHECK_EQ(rig_counter(r, "unasked"), 2);
	CHECK_EQ(known(r, PEER_NUMBER), PEER_LINK);
}

RIG_TEST(arp_drops_every_truncated_packet, arp_rig(""))
{
	rig_inject_prefixes(r, ASKS_ME);
	rig_expect_counts(r, "short=28 eth.short=14");
	CHECK_EQ(rig_drop_count(r), 42);
	rig_expect_nothing_sent(r);
}

RIG_TEST(arp_checks_every_field, arp_rig(""))
{
	rig_inject(r, EVERYBODY PEER "0806 0002 0800 06 04 0001" PEER PEER_HOST NOBODY MY_HOST);
	CHECK_EQ(rig_counter(r, "bad_hardware"), 1);
	rig_inject(r, EVERYBODY PEER "0806 0001 0806 06 04 0001" PEER PEER_HOST NOBODY MY_HOST);
	CHECK_EQ(rig_counter(r, "bad_protocol"), 1);
	rig_inject(r, EVERYBODY PEER "0806 0001 0800 08 04 0001" PEER PEER_HOST NOBODY MY_HOST);
	rig_inject(r, EVERYBODY PEER "0806 0001 0800 06 10 0001" PEER PEER_HOST NOBODY MY_HOST);
	CHECK_EQ(rig_counter(r, "bad_length"), 2);
	rig_inject(r, EVERYBODY PEER "0806 0001 0800 06 04 0003" PEER PEER_HOST NOBODY MY_HOST);
	CHECK_EQ(rig_counter(r, "bad_operation"), 1);
	rig_inject(r, EVERYBODY PEER "0806" REQUEST NOBODY PEER_HOST NOBODY MY_HOST);
	rig_inject(r, EVERYBODY PEER "0806" REQUEST EVERYBODY PEER_HOST NOBODY MY_HOST);
	rig_inject(r, EVERYBODY PEER "0806" REQUEST "01005e000001" PEER_HOST NOBODY MY_HOST);
	rig_inject(r, EVERYBODY PEER "0806" REQUEST ME PEER_HOST NOBODY MY_HOST);
	CHECK_EQ(rig_counter(r, "bad_sender"), 4);
	CHECK_EQ(rig_drop_count(r), 9);
	CHECK_EQ(known(r, PEER_NUMBER), 0);
	rig_expect_nothing_sent(r);
}

RIG_TEST(arp_drops_impossible_senders, arp_rig(""))
{
	static const char *const hosts[] = { "0a4d0000", "0a4d00ff", "ffffffff", "e0000001", "7f000001", "00000001" };
	char frame[256];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(hosts); i++) {
		snprintf(frame, sizeof(frame), EVERYBODY PEER "0806" REQUEST PEER "%s" NOBODY MY_HOST, hosts[i]);
		rig_inject(r, frame);
		CHECK_EQ(rig_counter(r, "bad_address"), i + 1);
	}
	rig_inject(r, ME PEER "0806" REPLY PEER "00000000" ME MY_HOST);
	CHECK_EQ(rig_counter(r, "bad_address"), XK_ARRAY_LENGTH(hosts) + 1);
	rig_expect_nothing_sent(r);
}

/* Neighbours with a wider prefix ask like this, and so does Linux, which uses any of its addresses. */
RIG_TEST(arp_answers_but_learns_nothing_from_outside_its_network, arp_rig("arp.entries=1"))
{
	inject_request_of(r, 0x10);
	rig_expect_answer(r, EVERYBODY PEER "0806" REQUEST PEER "0a4d0509" NOBODY MY_HOST,
			  PEER ME "0806" REPLY ME MY_HOST PEER "0a4d0509");
	rig_expect_counts(r, "foreign=1 learned=1");
	CHECK_EQ(known(r, 0x0a4d0010), 0x020000000010);
	rig_inject(r, EVERYBODY PEER "0806" REQUEST PEER "0a4d0509" NOBODY OTHER_HOST); /* not for this host */
	rig_inject(r, ME PEER "0806" REPLY PEER "0a4d0509" ME MY_HOST);
	CHECK_EQ(rig_counter(r, "bad_address"), 2);
	rig_expect_nothing_sent(r);
}

/* A gateway, as `ip route add ... onlink` makes it: one host outside the network, and no other. */
RIG_TEST(arp_knows_one_neighbour_outside_its_network, arp_rig(""))
{
	struct asking gateway = { rig_protocol(r, "arp"), 0xac1f0101, 0, 0 }, another = gateway;

	another.host++;
	xk_arp_ops(gateway.arp)->set_user(gateway.arp, &(struct xk_arp_user){ .interface = 0 }, gateway.host);
	CHECK(!rig_do(r, ask, &gateway));
	rig_expect_sent(r, EVERYBODY ME "0806" REQUEST ME MY_HOST NOBODY "ac1f0101");
	rig_inject(r, ME PEER "0806" REPLY PEER "ac1f0101" ME MY_HOST);
	CHECK_EQ(gateway.status, 0);
	CHECK_EQ(gateway.link, PEER_LINK);
	rig_expect_answer(r, EVERYBODY PEER "0806" REQUEST PEER "ac1f0101" NOBODY MY_HOST,
			  PEER ME "0806" REPLY ME MY_HOST PEER "ac1f0101");
	CHECK_EQ(rig_counter(r, "foreign"), 0);
	CHECK(rig_do(r, ask, &another));
	CHECK_EQ(another.status, -EHOSTUNREACH);
	rig_inject(r, EVERYBODY PEER "0806" REQUEST PEER "ac1f0102" NOBODY MY_HOST);
	rig_forget(r);
	CHECK_EQ(rig_counter(r, "foreign"), 1);
	CHECK_EQ(known(r, another.host), 0);
	rig_inject(r, ME PEER "0806" REPLY PEER "ac1f0102" ME MY_HOST);
	rig_inject(r, ME PEER "0806" REPLY PEER "00000000" ME MY_HOST);
	CHECK_EQ(rig_counter(r, "bad_address"), 2);
}

/* The packet bears the virtual link address, the frame the physical one (RFC 5798, 8.1.2). */
RIG_TEST(arp_takes_the_address_from_the_packet_not_the_frame, arp_rig(""))
{
	struct asking asking = { rig_protocol(r, "arp"), PEER_NUMBER, 0, 0 };

	CHECK(!rig_do(r, ask, &asking));
	rig_forget(r);
	rig_inject(r, ME OTHER "0806" REPLY PEER PEER_HOST ME MY_HOST);
	CHECK_EQ(asking.status, 0);
	CHECK_EQ(asking.link, PEER_LINK);
	rig_expect_answer(r, EVERYBODY OTHER "0806" REQUEST PEER PEER_HOST NOBODY MY_HOST, ANSWER_TO_PEER);
	CHECK_EQ(known(r, PEER_NUMBER), PEER_LINK);
}

RIG_TEST(arp_defends_its_address_and_counts_conflicts, arp_rig(""))
{
	rig_expect_answer(r, EVERYBODY PEER "0806" REQUEST PEER "00000000" NOBODY MY_HOST,
			  PEER ME "0806" REPLY ME MY_HOST PEER "00000000");
	CHECK_EQ(rig_counter(r, "learned"), 0);
	rig_inject(r, EVERYBODY PEER "0806" REQUEST PEER MY_HOST NOBODY MY_HOST);
	CHECK_EQ(rig_counter(r, "conflict"), 1);
	rig_expect_sent(r, EVERYBODY ME "0806" REQUEST ME MY_HOST NOBODY MY_HOST);
}

RIG_TEST(arp_without_an_address_sends_nothing, rig_new_graph(GRAPH))
{
	struct asking asking = { rig_protocol(r, "arp"), PEER_NUMBER, 0, 1 };

	rig_inject(r, ASKS_ME);
	CHECK_EQ(rig_counter(r, "others"), 1);
	rig_inject(r, PEER_REPLY);
	CHECK_EQ(rig_counter(r, "unasked"), 1);
	CHECK(rig_do(r, ask, &asking));
	CHECK_EQ(asking.status, -EHOSTUNREACH);
	rig_expect_nothing_sent(r);
}

RIG_TEST(arp_resolves_only_neighbours, arp_rig(""))
{
	struct asking asking = { rig_protocol(r, "arp"), 0x0a4d0002, 0, 0 };

	CHECK(rig_do(r, ask, &asking));
	CHECK_EQ(asking.status, -EHOSTUNREACH);
	asking.host = 0x0a4e0002;
	CHECK(rig_do(r, ask, &asking));
	CHECK_EQ(asking.status, -EHOSTUNREACH);
	rig_expect_nothing_sent(r);
}

/* ---- followed hosts ---- */

struct following {
	struct xk_arp_follower follower;
	struct xk_protocol *arp;
	uint32_t host;
	unsigned notified;
	bool asks, cannot_move, stays;
	int status;
};

static int
follow_move(struct xk_arp_follower *follower, uint64_t link)
{
	struct following *f = xk_container_of(follower, struct following, follower);

	CHECK_EQ(f->host, PEER_NUMBER);
	CHECK(xk_self() != NULL);
	f->notified++;
	if (f->cannot_move)
		return -ENOMEM;
	if (!f->stays)
		follower->link = link;
	return 0;
}

static void
count_doubt(struct xk_arp_follower *follower)
{
	CHECK(xk_self() != NULL);
	xk_container_of(follower, struct following, follower)->notified++;
}

static void
follow(void *argument)
{
	struct following *f = argument;

	f->status = xk_arp_ops(f->arp)->follow(f->arp, &f->follower, f->host, f->asks);
}

static void
follow_as(struct rig *r, struct following *f, bool asks, uint64_t link, int status)
{
	f->asks = asks;
	f->follower.link = link;
	CHECK(rig_do(r, follow, f)); /* never waits */
	CHECK_EQ(f->status, status);
}

/* Returns a rig with a session that follows the peer, whose address the link supplies because ARP has none. */
static struct rig *
follow_rig(const char *settings, struct following *f)
{
	static const struct xk_arp_user user = { .moved = follow_move, .doubted = count_doubt };
	char graph[256];
	struct rig *r;

	snprintf(graph, sizeof(graph), "%s; user/ip: eth", settings);
	r = arp_rig(graph);
	*f = (struct following){ .arp = rig_protocol(r, "arp"), .host = PEER_NUMBER };
	f->follower.session = rig_open(r, rig_to(OTHER_LINK));
	REQUIRE(f->follower.session != NULL);
	xk_arp_ops(f->arp)->set_user(f->arp, &user, 0);
	return r;
}

TEST(arp_notifies_followers_of_changes)
{
	struct following f;
	struct rig *r = follow_rig("arp.age=10s", &f);

	follow_as(r, &f, false, 0, -ENOENT);
	rig_expect_nothing_sent(r);
	follow_as(r, &f, true, 0, -EINPROGRESS);
	rig_expect_sent(r, MY_REQUEST);
	follow_as(r, &f, true, 0, -EINPROGRESS); /* once for both followers */
	rig_inject(r, PEER_REPLY);
	CHECK_EQ(f.notified, 1);
	CHECK_EQ(f.follower.link, PEER_LINK);
	follow_as(r, &f, false, 0, 0);
	CHECK_EQ(f.notified, 2);
	CHECK_EQ(f.follower.link, PEER_LINK);
	follow_as(r, &f, true, PEER_LINK, 0);
	rig_inject(r, PEER_REPLY); /* nothing new */
	CHECK_EQ(f.notified, 2);
	follow_as(r, &f, true, OTHER_LINK, -EINPROGRESS); /* messages go to a wrong address */
	rig_advance_ms(r, 1);
	CHECK_EQ(f.notified, 3);
	follow_as(r, &f, false, PEER_LINK, 0);
	rig_advance_ms(r, 10001);
	CHECK_EQ(f.notified, 4);
	rig_advance_ms(r, 10001);
	CHECK_EQ(f.notified, 4);
	rig_expect_nothing_sent(r);
	f.host = 0x0b000001;
	follow_as(r, &f, true, 0, -EHOSTUNREACH);
	rig_free(r);
}

TEST(arp_follows_no_host_without_an_entry)
{
	struct following f;
	struct rig *r = follow_rig("arp.entries=1", &f);
	struct asking asking = { rig_protocol(r, "arp"), OTHER_NUMBER, 0, 1 };

	CHECK(!rig_do(r, ask, &asking));
	follow_as(r, &f, true, 0, -ENOBUFS);
	rig_inject(r, ME OTHER "0806" REPLY OTHER OTHER_HOST ME MY_HOST);
	follow_as(r, &f, true, 0, -EINPROGRESS);
	rig_inject(r, PEER_REPLY);
	follow_as(r, &f, true, PEER_LINK, 0);
	rig_forget(r);
	rig_free(r);
}

/* Once, until it asks again: the shepherd that notifies it must come to an end. */
TEST(arp_stops_notifying_a_session_that_cannot_move)
{
	struct following f;
	struct rig *r = follow_rig("arp.age=10s", &f);

	rig_inject(r, ASKS_ME);
	rig_forget(r);
	f.cannot_move = true;
	follow_as(r, &f, false, OTHER_LINK, 0);
	CHECK_EQ(f.notified, 2); /* of the move, and then of the doubt */
	CHECK(f.follower.neighbour == NULL);
	rig_inject(r, PEER_REPLY);
	rig_advance_ms(r, 1000);
	CHECK_EQ(f.notified, 2);
	f.cannot_move = false;
	follow_as(r, &f, true, OTHER_LINK, -EINPROGRESS);
	rig_advance_ms(r, 1);
	CHECK_EQ(f.notified, 3);
	CHECK_EQ(f.follower.link, PEER_LINK);
	f.stays = true; /* or has another address to move to each time */
	follow_as(r, &f, false, OTHER_LINK, 0);
	CHECK_EQ(f.notified, 3 + 1000 + 1);
	CHECK(f.follower.neighbour == NULL);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

static void
follow_no_more(void *argument)
{
	struct following *f = argument;

	xk_arp_ops(f->arp)->unfollow(f->arp, &f->follower);
}

/* A shepherd still inside a closed session must not make ARP remember it. */
TEST(arp_notifies_no_closed_session)
{
	struct following f;
	struct rig *r = follow_rig("arp.age=10s", &f);

	rig_inject(r, ASKS_ME);
	follow_as(r, &f, false, PEER_LINK, 0);
	CHECK(rig_do(r, follow_no_more, &f));
	follow_as(r, &f, true, PEER_LINK, -ENOENT);
	rig_inject(r, EVERYBODY OTHER "0806" REQUEST OTHER PEER_HOST NOBODY PEER_HOST);
	CHECK_EQ(known(r, PEER_NUMBER), OTHER_LINK);
	rig_advance_ms(r, 20000);
	CHECK_EQ(f.notified, 0);
	CHECK_EQ(rig_counter(r, "moved"), 0);
	rig_forget(r);
	rig_free(r);
}

/* Followers open sessions, which foreign threads must not: there, ARP replaces no followed host. */
TEST(arp_notifies_nobody_on_a_foreign_thread)
{
	struct following f, more;
	struct rig *r = follow_rig("arp.entries=1", &f);

	more = f;
	follow_as(r, &f, true, 0, -EINPROGRESS);
	rig_inject(r, PEER_REPLY);
	CHECK_EQ(f.notified, 1);
	CHECK_EQ(xk_arp_ops(f.arp)->follow(f.arp, &more.follower, OTHER_NUMBER, true),
		 -ENOBUFS); /* this thread is foreign */
	CHECK_EQ(f.notified, 1);
	f.host = OTHER_NUMBER;
	follow_as(r, &f, true, 0, -EINPROGRESS);
	CHECK_EQ(f.notified, 2);
	rig_forget(r);
	rig_free(r);
}

/* ---- silent hosts ---- */

#define MY_POLL PEER ME "0806" REQUEST ME MY_HOST NOBODY PEER_HOST

static void
advise(struct rig *r, uint32_t host, uint64_t link)
{
	xk_arp_ops(rig_protocol(r, "arp"))->unanswered(rig_protocol(r, "arp"), host, link);
	rig_advance_ms(r, 1); /* ARP's timer asks */
}

RIG_TEST(arp_verifies_the_address_of_a_silent_host, arp_rig("arp.timeout=100ms; arp.tries=2"))
{
	rig_inject(r, ASKS_ME);
	rig_forget(r);
	advise(r, PEER_NUMBER, PEER_LINK);
	rig_expect_sent(r, MY_POLL);
	rig_inject(r, PEER_REPLY);
	CHECK_EQ(known(r, PEER_NUMBER), PEER_LINK);
	rig_advance_ms(r, 999);
	advise(r, PEER_NUMBER, PEER_LINK);
	rig_expect_sent(r, MY_POLL);
	rig_advance_ms(r, 100);
	rig_expect_sent(r, MY_REQUEST);
	rig_inject(r, ME OTHER "0806" REPLY OTHER PEER_HOST ME MY_HOST);
	CHECK_EQ(known(r, PEER_NUMBER), OTHER_LINK);
	rig_expect_nothing_sent(r);
	rig_expect_counts(r, "verified=2 polls=2");
}

/* Neither the number nor the source of the advice matters. */
RIG_TEST(arp_verifies_an_address_at_most_once_a_second, arp_rig("arp.age=1000s"))
{
	rig_inject(r, ASKS_ME);
	rig_forget(r);
	for (unsigned i = 0; i < 1000; i++) {
		advise(r, PEER_NUMBER, 0);
		rig_inject(r, PEER_REPLY);
		rig_advance_ms(r, 9);
	}
	CHECK_EQ(rig_counter(r, "requests_out"), 10);
	CHECK_EQ(rig_counter(r, "polls"), 10); /* no broadcast while it answers */
	rig_forget(r);
}

RIG_TEST(arp_verifies_only_known_addresses, arp_rig("arp.age=10s"))
{
	advise(r, PEER_NUMBER, 0); /* an unknown host */
	rig_inject(r, ASKS_ME);
	rig_forget(r);
	advise(r, PEER_NUMBER, OTHER_LINK); /* an address that messages no longer go to */
	advise(r, 0x0b000001, 0);
	rig_advance_ms(r, 10000);
	advise(r, PEER_NUMBER, PEER_LINK); /* too old: the next message asks */
	CHECK_EQ(rig_counter(r, "verified"), 0);
	rig_expect_nothing_sent(r);
}

/* Only the station that has the address was asked, so no other has a reason to answer. */
RIG_TEST(arp_doubts_an_answer_from_a_station_it_did_not_ask, arp_rig("arp.timeout=100ms; arp.tries=3"))
{
	rig_inject(r, ASKS_ME);
	rig_forget(r);
	advise(r, PEER_NUMBER, PEER_LINK);
	rig_expect_sent(r, MY_POLL);
	rig_inject(r, ME OTHER "0806" REPLY OTHER PEER_HOST ME MY_HOST);
	CHECK_EQ(known(r, PEER_NUMBER), OTHER_LINK);
	rig_advance_ms(r, 301);
	CHECK_EQ(known(r, PEER_NUMBER), 0);
}

/* ---- a full table ---- */

RIG_TEST(arp_replaces_the_least_recently_used, arp_rig("arp.entries=2"))
{
	inject_request_of(r, 0x10);
	inject_request_of(r, 0x11);
	CHECK_EQ(known(r, 0x0a4d0010), 0x020000000010); /* counts as a use */
	inject_request_of(r, 0x12);
	CHECK_EQ(rig_counter(r, "replaced"), 1);
	CHECK_EQ(known(r, 0x0a4d0010), 0x020000000010);
	CHECK_EQ(known(r, 0x0a4d0011), 0);
	CHECK_EQ(known(r, 0x0a4d0012), 0x020000000012);
}

RIG_TEST(arp_replaces_a_host_even_if_it_sends_much, arp_rig("arp.entries=2"))
{
	inject_request_of(r, 0x10);
	inject_request_of(r, 0x11);
	inject_request_of(r, 0x10); /* is no use */
	inject_request_of(r, 0x12);
	CHECK_EQ(rig_counter(r, "replaced"), 1);
	CHECK_EQ(known(r, 0x0a4d0010), 0);
	CHECK_EQ(known(r, 0x0a4d0011), 0x020000000011);
	CHECK_EQ(known(r, 0x0a4d0012), 0x020000000012);
}

RIG_TEST(arp_lets_no_stranger_replace_a_wanted_host, arp_rig("arp.entries=1"))
{
	struct asking asking = { rig_protocol(r, "arp"), PEER_NUMBER, 0, 1 }, more = asking;

	CHECK(!rig_do(r, ask, &asking));
	rig_forget(r);
	inject_request_of(r, 0x10);
	CHECK_EQ(rig_counter(r, "learned"), 0);
	more.host = OTHER_NUMBER;
	CHECK(rig_do(r, ask, &more)); /* neither does this host itself while somebody waits */
	CHECK_EQ(more.status, -ENOBUFS);
	rig_inject(r, PEER_REPLY);
	CHECK_EQ(asking.link, PEER_LINK);
}

/* ---- waiting messages ---- */

struct outputs {
	struct rig *r;
	uint32_t host;
	unsigned sent, unsent;
	uint64_t link;
	int status;
};

static void
send_output(const struct xk_arp_user *user, const struct xk_arp_output *output, uint64_t link)
{
	struct outputs *outputs = *(struct outputs **)(void *)output->m->data;

	CHECK_EQ(user->interface, 3);
	outputs->sent++;
	outputs->link = link;
	xk_msg_free(output->m);
}

static void
count_unsent(const struct xk_arp_user *user, const struct xk_arp_output *output)
{
	++(*(struct outputs **)(void *)output->m->data)->unsent;
}

static void
output_one(void *argument)
{
	struct outputs *outputs = argument;
	struct xk_protocol *arp = rig_protocol(outputs->r, "arp");
	struct xk_arp_output output = { .m = xk_msg_from(rig_platform(outputs->r), &outputs, sizeof(outputs)) };

	outputs->status = xk_arp_ops(arp)->output(arp, outputs->host, &output);
}

static struct rig *
output_rig(const char *settings)
{
	static const struct xk_arp_user user = { .interface = 3, .send = send_output, .unsent = count_unsent };
	struct rig *r = arp_rig(settings);

	xk_arp_ops(rig_protocol(r, "arp"))->set_user(rig_protocol(r, "arp"), &user, 0);
	return r;
}

RIG_TEST(arp_keeps_a_few_messages_until_the_answer_comes, output_rig("arp.queue=4"))
{
	struct outputs outputs = { r, PEER_NUMBER, 0, 0, 0, 0 };

	for (unsigned i = 0; i < 4; i++) {
		CHECK(rig_do(r, output_one, &outputs)); /* never waits */
		CHECK_EQ(outputs.status, 0);
	}
	rig_expect_sent(r, MY_REQUEST);
	rig_expect_nothing_sent(r);
	CHECK(rig_do(r, output_one, &outputs));
	CHECK_EQ(outputs.status, 0); /* drops the oldest */
	CHECK_EQ(rig_counter(r, "queue_full"), 1);
	CHECK_EQ(outputs.sent, 0);
	rig_inject(r, PEER_REPLY);
	CHECK_EQ(outputs.sent, 4);
	CHECK_EQ(outputs.link, PEER_LINK);
	CHECK(rig_do(r, output_one, &outputs)); /* known now */
	CHECK_EQ(outputs.sent, 5);
}

RIG_TEST(arp_keeps_using_an_old_address_while_it_is_verified, output_rig("arp.age=10s; arp.timeout=100ms; arp.tries=2"))
{
	struct outputs outputs = { r, PEER_NUMBER, 0, 0, 0, 0 };

	rig_inject(r, ASKS_ME);
	rig_forget(r);
	rig_advance_ms(r, 10001);
	CHECK(rig_do(r, output_one, &outputs)); /* too old, but still usable */
	CHECK_EQ(outputs.sent, 1);
	rig_expect_sent(r, MY_POLL);
	rig_advance_ms(r, 100);
	rig_expect_sent(r, MY_REQUEST);
	CHECK(rig_do(r, output_one, &outputs)); /* silent */
	CHECK_EQ(outputs.sent, 1);
	rig_inject(r, ME OTHER "0806" REPLY OTHER PEER_HOST ME MY_HOST);
	CHECK_EQ(outputs.sent, 2);
	CHECK_EQ(outputs.link, OTHER_LINK);
	rig_advance_ms(r, 20001);
	CHECK(rig_do(r, output_one, &outputs)); /* its address is doubtful now */
	CHECK_EQ(outputs.sent, 2);
	rig_expect_sent(r, MY_REQUEST);
}

RIG_TEST(arp_keeps_at_most_four_messages_per_entry_in_total, output_rig("arp.entries=2"))
{
	struct outputs outputs = { r, PEER_NUMBER, 0, 0, 0, 0 }, others = { r, OTHER_NUMBER, 0, 0, 0, 0 };

	for (unsigned i = 0; i < 8; i++)
		CHECK(rig_do(r, output_one, &outputs));
	CHECK_EQ(rig_counter(r, "queue_full"), 0);
	CHECK(rig_do(r, output_one, &others)); /* finds no room */
	CHECK_EQ(others.status, -ENOBUFS);
	rig_expect_sent(r, MY_REQUEST);
	rig_expect_sent(r, EVERYBODY ME "0806" REQUEST ME MY_HOST NOBODY "0a4d0004");
	rig_expect_nothing_sent(r);
	CHECK(rig_do(r, output_one, &outputs)); /* has room of its own */
	CHECK_EQ(outputs.status, 0);
	CHECK_EQ(rig_counter(r, "queue_full"), 2);
	rig_inject(r, PEER_REPLY);
	CHECK_EQ(outputs.sent, 8);
	CHECK(rig_do(r, output_one, &others));
	CHECK_EQ(others.status, 0);
	CHECK_EQ(rig_counter(r, "queue_full"), 2);
}

RIG_TEST(arp_drops_messages_for_a_silent_host, output_rig("arp.timeout=10ms; arp.tries=2"))
{
	struct outputs outputs = { r, PEER_NUMBER, 0, 0, 0, 0 };

	CHECK(rig_do(r, output_one, &outputs));
	CHECK(rig_do(r, output_one, &outputs));
	rig_advance_ms(r, 50);
	CHECK_EQ(rig_counter(r, "unresolved"), 2);
	CHECK_EQ(outputs.unsent, 2);
	CHECK_EQ(outputs.sent, 0);
	outputs.host = 0x0b000001; /* no neighbour */
	CHECK(rig_do(r, output_one, &outputs));
	CHECK_EQ(outputs.status, -ENOBUFS);
	CHECK_EQ(rig_counter(r, "unresolved"), 3);
	rig_forget(r);
}

TEST(arp_drops_messages_of_a_replaced_entry)
{
	struct rig *r = output_rig("arp.entries=1");
	struct outputs outputs = { r, PEER_NUMBER, 0, 0, 0, 0 };

	CHECK(rig_do(r, output_one, &outputs));
	inject_request_of(r, 0x10); /* a stranger does not replace it */
	CHECK_EQ(rig_counter(r, "unresolved"), 0);
	outputs.host = OTHER_NUMBER;
	CHECK(rig_do(r, output_one, &outputs));
	CHECK_EQ(rig_counter(r, "unresolved"), 1);
	rig_forget(r);
	rig_free(r); /* frees the messages that still wait */
}

RIG_TEST(arp_drops_messages_of_a_replaced_host_at_once, output_rig("arp.entries=1"))
{
	struct outputs outputs = { r, PEER_NUMBER, 0, 0, 0, 0 };
	struct asking asking = { rig_protocol(r, "arp"), OTHER_NUMBER, 0, 1 };

	CHECK(rig_do(r, output_one, &outputs));
	CHECK(!rig_do(r, ask, &asking));
	CHECK_EQ(rig_counter(r, "unresolved"), 1);
	rig_inject(r, ME OTHER "0806" REPLY OTHER OTHER_HOST ME MY_HOST);
	CHECK_EQ(asking.status, 0);
	rig_forget(r);
}

RIG_TEST(arp_drops_messages_without_an_entry, output_rig("arp.entries=1"))
{
	struct outputs outputs = { r, OTHER_NUMBER, 0, 0, 0, 0 };
	struct asking asking = { rig_protocol(r, "arp"), PEER_NUMBER, 0, 1 };

	CHECK(!rig_do(r, ask, &asking));
	CHECK(rig_do(r, output_one, &outputs));
	CHECK_EQ(outputs.status, -ENOBUFS);
	CHECK_EQ(rig_counter(r, "table_full"), 1);
	rig_inject(r, PEER_REPLY);
	rig_forget(r);
}

RIG_TEST(arp_survives_a_lack_of_buffers, arp_rig("arp.timeout=10ms"))
{
	struct asking asking = { rig_protocol(r, "arp"), PEER_NUMBER, 0, 1 };

	rig_limit_buffers(r, 1); /* the frame's own */
	rig_inject(r, ASKS_ME);
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	rig_expect_nothing_sent(r);
	asking.host = OTHER_NUMBER;
	rig_limit_buffers(r, 0);
	CHECK(!rig_do(r, ask, &asking));
	rig_expect_nothing_sent(r);
	rig_limit_buffers(r, UINT_MAX);
	rig_advance_ms(r, 11); /* ARP's timer asks again */
	rig_expect_sent(r, EVERYBODY ME "0806" REQUEST ME MY_HOST NOBODY OTHER_HOST);
	rig_inject(r, ME OTHER "0806" REPLY OTHER OTHER_HOST ME MY_HOST);
	CHECK_EQ(asking.link, OTHER_LINK);
}

RIG_TEST(arp_refuses_a_wrong_address_and_passes_controls_down, arp_rig(""))
{
	struct xk_protocol *arp = rig_protocol(r, "arp");
	const struct xk_network nowhere = { 0, 24 }, narrow = { 0x0a4d0002, 33 };
	uint32_t packet;

	CHECK_EQ(xk_arp_ops(arp)->set_address(arp, &nowhere), -EINVAL);
	CHECK_EQ(xk_arp_ops(arp)->set_address(arp, &narrow), -EINVAL);
	CHECK_EQ(xk_control_protocol(arp, XK_GET_MAX_PACKET, &packet), 0);
}
