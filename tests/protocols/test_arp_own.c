/* test_arp_own.c - arp and vnet: this host's own address announced, defended, probed and given up (RFC 5227). */
#include <limits.h>

#include "protocols/arp/arp.h"
#include "tests/protocols/vnet_rig.h"
#include "xkernel/engine/engine.h"

#define OWN(settings) "port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.2/24; user/ip: vnet;" settings
#define ANNOUNCEMENT EVERYBODY ME REQUEST ME MY_HOST NOBODY MY_HOST
#define PROBE EVERYBODY ME REQUEST ME "00000000" NOBODY MY_HOST
#define CLAIM EVERYBODY OTHER REQUEST OTHER MY_HOST NOBODY PEER_HOST
#define ASKS_ME EVERYBODY PEER REQUEST PEER PEER_HOST NOBODY MY_HOST
#define MY_ANSWER PEER ME REPLY ME MY_HOST PEER PEER_HOST

RIG_TEST(arp_announces_its_address_twice_two_seconds_apart, rig_new_graph(OWN("arp.announcements=2")))
{
	rig_advance_ms(r, 1);
	rig_expect_sent(r, PROBE);
	rig_expect_sent(r, ANNOUNCEMENT);
	rig_expect_silence_ms(r, 1998);
	rig_advance_ms(r, 1);
	rig_expect_sent(r, ANNOUNCEMENT);
	rig_expect_silence_ms(r, 100000);
	rig_expect_counts(r, "arp.announcements=2 arp.requests_out=0");
}

RIG_TEST(arp_announces_each_new_address, rig_new_graph(OWN("arp.announcements=1")))
{
	const struct xk_network other = { 0x0a4d0009, 24 };

	rig_advance_ms(r, 1);
	rig_expect_sent(r, PROBE);
	rig_expect_sent(r, ANNOUNCEMENT);
	CHECK_EQ(xk_arp_ops(rig_protocol(r, "arp"))->set_address(rig_protocol(r, "arp"), &other), 0);
	rig_advance_ms(r, 1);
	rig_expect_sent(r, EVERYBODY ME REQUEST ME "00000000" NOBODY "0a4d0009");
	rig_expect_sent(r, EVERYBODY ME REQUEST ME "0a4d0009" NOBODY "0a4d0009");
}

RIG_TEST(arp_announces_its_address_again_when_the_port_changes, rig_new_graph(OWN("arp.announcements=1")))
{
	rig_advance_ms(r, 1);
	rig_expect_sent(r, PROBE);
	rig_expect_sent(r, ANNOUNCEMENT);
	rig_protocol(r, "arp")->ops->port_changed(rig_protocol(r, "arp"));
	rig_advance_ms(r, 1);
	rig_expect_sent(r, PROBE);
	rig_expect_sent(r, ANNOUNCEMENT);
}

/* Linux answers a probe of its address, but no announcement of it. */
RIG_TEST(arp_learns_from_a_host_that_answers_only_probes, rig_new_graph(OWN("arp.announcements=1")))
{
	rig_advance_ms(r, 1);
	rig_expect_sent(r, PROBE);
	rig_expect_sent(r, ANNOUNCEMENT);
	rig_inject(r, ME OTHER REPLY OTHER MY_HOST ME "00000000");
	CHECK_EQ(rig_counter_of(r, "arp", "conflict"), 1);
	rig_expect_sent(r, ANNOUNCEMENT);
}

RIG_TEST(arp_defends_its_address_at_most_every_ten_seconds, rig_new_graph(OWN("")))
{
	for (unsigned i = 0; i < 3; i++) {
		rig_expect_answer(r, CLAIM, ANNOUNCEMENT);
		for (unsigned again = 0; again < 99; again++) { /* a storm of claims draws nothing more */
			rig_advance_ms(r, 100);
			rig_inject(r, CLAIM);
		}
		rig_expect_nothing_sent(r);
		rig_advance_ms(r, 100);
	}
	rig_expect_counts(r, "arp.defended=3 arp.conflict=300 arp.left=0");
	rig_expect_answer(r, ASKS_ME, MY_ANSWER); /* it is still ours */
}

/* Returns how often text contains `part`. */
static unsigned
count_of(const char *text, const char *part)
{
	unsigned count = 0;

	for (; (text = strstr(text, part)) != NULL; text++)
		count++;
	return count;
}

/*
 * Injects claims of this host's address for 1,000 s, one per second. Returns the number of warnings that contain
 * `what`.
 */
static unsigned
warnings(const char *settings, const char *what)
{
	char graph[512], *text = NULL;
	size_t size;
	unsigned count;
	FILE *trace = open_memstream(&text, &size);
	struct rig *r;

	snprintf(graph, sizeof(graph), OWN("%s"), settings);
	r = rig_new_graph(graph);
	REQUIRE(trace != NULL);
	rig_kernel(r)->config.trace = trace;
	for (unsigned s = 0; s < 1000; s++) {
		rig_inject(r, CLAIM);
		rig_advance_ms(r, 1000);
	}
	rig_forget(r);
	rig_free(r);
	fclose(trace);
	count = count_of(text, "address conflict: 10.77.0.2 is also used by the station 02:00:00:00:00:bb");
	CHECK_EQ(count_of(text, what), count);
	free(text);
	return count;
}

/* The first after 10 s, then each after twice as long; the same for an address out of use. */
TEST(arp_warns_of_a_conflict_less_and_less_often)
{
	CHECK_EQ(warnings("", "this host keeps it"), 7);
	CHECK_EQ(warnings("arp.conflict=leave", "this host does not use it"), 7);
	CHECK_EQ(warnings("arp.probe=yes", "this host does not use it"), 7);
}

/* Checks that a session can send, or cannot for want of an address. */
static void
check_use(struct rig *r, struct xk_session *s, bool is_used)
{
	CHECK_EQ(rig_push(r, s, "01"), is_used ? 0 : -EADDRNOTAVAIL);
	if (is_used)
		rig_expect_sent(r, TO_PEER "01");
	rig_inject(r, ASKS_ME);
	if (is_used)
		rig_expect_sent(r, MY_ANSWER);
	rig_expect_nothing_sent(r);
}

RIG_TEST(arp_gives_up_its_address_at_the_second_conflict_if_set,
	 rig_new_graph(OWN("arp.conflict=once; arp.announcements=1; arp.age=1000s")))
{
	struct xk_session *s;

	rig_advance_ms(r, 1);
	rig_forget(r);
	s = open_to_peer(r);
	rig_expect_answer(r, CLAIM, ANNOUNCEMENT);
	rig_advance_ms(r, 10000);
	rig_expect_answer(r, CLAIM, ANNOUNCEMENT); /* late enough */
	check_use(r, s, true);
	rig_inject(r, CLAIM);
	CHECK_EQ(rig_counter_of(r, "arp", "left"), 1);
	check_use(r, s, false);
	CHECK_EQ(rig_counter_of(r, "vnet", "no_address"), 1);
	rig_expect_open_fails(r, rig_to(0x0a4d0004), -EHOSTUNREACH);
	rig_expect_silence_ms(r, 59000);
	rig_advance_ms(r, 2001);
	rig_expect_sent(r, PROBE); /* the other station may have gone */
	rig_advance_ms(r, 6000);
	rig_expect_sent(r, PROBE);
	rig_expect_sent(r, PROBE);
	rig_expect_sent(r, ANNOUNCEMENT);
	check_use(r, s, true);
}

RIG_TEST(arp_gives_up_its_address_at_once_if_set, rig_new_graph(OWN("arp.conflict=leave")))
{
	struct xk_session *passive;

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_expect_up(r, FROM_PEER "02", "02");
	passive = rig_delivered_session(r);
	check_use(r, passive, true);
	rig_inject(r, CLAIM);
	rig_expect_nothing_sent(r);
	check_use(r, passive, false);
}

RIG_TEST(arp_probes_its_address_before_use_if_set, rig_new_graph(OWN("arp.probe=yes; arp.announcements=1")))
{
	rig_expect_open_fails(r, rig_to(PEER_NUMBER), -EHOSTUNREACH);
	rig_advance_ms(r, 1000);
	rig_expect_sent(r, PROBE);
	rig_inject(r, ASKS_ME); /* not yet */
	rig_advance_ms(r, 6000);
	rig_expect_sent(r, PROBE);
	rig_expect_sent(r, PROBE);
	rig_expect_sent(r, ANNOUNCEMENT);
	CHECK_EQ(rig_counter_of(r, "arp", "probes"), 3);
	check_use(r, open_to_peer(r), true);
}

/* Advances virtual time to the next frame. Returns the milliseconds passed. */
static unsigned
next_sent_ms(struct rig *r)
{
	unsigned ms = 0;

	for (; rig_sent(r) == 0 && ms < 10000; ms++)
		rig_advance_ms(r, 1);
	rig_forget(r);
	return ms;
}

/* The shortest and the longest of several waits. */
struct waits {
	unsigned min_ms, max_ms;
};

static void
waits_add(struct waits *waits, unsigned ms)
{
	waits->min_ms = ms < waits->min_ms ? ms : waits->min_ms;
	waits->max_ms = ms > waits->max_ms ? ms : waits->max_ms;
}

/* Checks that the waits are random, from min_ms to a second longer. */
static void
check_waits(const struct waits *waits, unsigned min_ms)
{
	CHECK(waits->min_ms + 1 >= min_ms && waits->max_ms <= min_ms + 1001 && waits->max_ms - waits->min_ms > 200);
}

/* Hosts that start together, or leave an address together, must not probe together (RFC 5227, 2.1.1). */
TEST(arp_probes_at_random_times)
{
	enum { HOSTS = 20 };
	struct waits first = { .min_ms = UINT_MAX }, second = first, again = first;

	for (unsigned i = 0; i < HOSTS; i++) {
		struct rig *r = rig_new_graph(OWN("arp.probe=yes"));

		waits_add(&first, next_sent_ms(r));
		waits_add(&second, next_sent_ms(r));
		rig_inject(r, CLAIM);
		rig_expect_silence_ms(r, 59000);
		waits_add(&again, 59000 + next_sent_ms(r));
		rig_free(r);
	}
	check_waits(&first, 0);
	check_waits(&second, 1000);
	check_waits(&again, 60000);
}

/* Another host has the address, or probes it at the same time. */
TEST(arp_does_not_use_another_stations_address)
{
	static const char *const claims[] = { ME OTHER REPLY OTHER MY_HOST ME "00000000", CLAIM,
					      EVERYBODY OTHER REQUEST OTHER "00000000" NOBODY MY_HOST };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(claims); i++) {
		struct rig *r = rig_new_graph(OWN("arp.probe=yes; arp.announcements=1"));

		rig_advance_ms(r, 1000);
		rig_expect_sent(r, PROBE);
		rig_inject(r, claims[i]);
		CHECK_EQ(rig_counter_of(r, "arp", "left"), 1);
		rig_expect_silence_ms(r, 59000);
		rig_advance_ms(r, 2001);
		rig_expect_sent(r, PROBE);
		rig_inject(r, claims[i]);
		rig_expect_silence_ms(r, 1000);
		rig_free(r);
	}
}

TEST(arp_refuses_an_unknown_policy)
{
	char graph[256];

	snprintf(graph, sizeof(graph), OWN("arp.conflict=perhaps"));
	CHECK_EQ(rig_refusal(graph), -EINVAL);
}
