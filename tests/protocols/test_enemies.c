/*
 * test_enemies.c - attacks from the wire on arp, ip, icmp and udp, which must not be believed for long, evict known
 * hosts, divert traffic or reveal secrets.
 */
#include "protocols/ip/ip.h"
#include "protocols/udp.h"
#include "tests/protocols/ip_router.h"
#include "tests/random.h"

enum { PORT = 7, FAR_PORT = 9, SHORT_WHOLE = 1000 };

#define ASK "0806 0001 0800 06 04 0001"
#define ANSWER "0806 0001 0800 06 04 0002"
#define ALL "ffffffffffff"
#define MY_LINK "020000000001"
#define MY_LINK2 "020000000002"
#define LINK_A "0200000000aa"
#define LINK_B "0200000000bb"
#define LIAR "0200000000cc"
#define NO_LINK "000000000000"
#define MY_HOST2 "0a4e0001"
#define NEAR2_HOST "0a4e0002"

#define LINKS                                                                                                          \
	"port:; port2:; eth: port; eth2: port2; arp: eth; arp2: eth2; arp2.entries=8; vnet: eth arp eth2 arp2;"        \
	"vnet.address=10.77.0.1/24; vnet.address2=10.78.0.1/24; ip: vnet; ip.forward=yes; icmp: ip"

/* Injects a datagram from PEER, at LINK_A, for a host on the second network. */
static void
inject_passing(struct rig *r, uint32_t to)
{
	struct datagram d = passing();
	uint8_t frame[MTU] = { 0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 0xaa, 8, 0 };

	d.destination = to;
	rig_wire(r, "port");
	rig_inject_bytes(r, frame, 14 + build(frame + 14, &d));
}

/* Returns true if it alone was sent on, to NEAR2 at this link address. */
static bool
passed_to(struct rig *r, uint64_t link)
{
	uint8_t got[MTU];

	return rig_take_sent(r, got, sizeof(got)) == (long)(14 + HEADER + sizeof(some)) && xk_get48(got) == link &&
	       rig_sent(r) == 0;
}

#define NEAR2_IS_AT(link) ALL link ASK link NEAR2_HOST NO_LINK NEAR2_HOST
#define ASK_FOR_NEAR2 ALL MY_LINK2 ASK MY_LINK2 MY_HOST2 NO_LINK NEAR2_HOST

/* Returns a router that knows NEAR2 at LINK_B. */
static struct rig *
router_that_knows(void)
{
	struct rig *r = rig_new_graph(LINKS);

	inject_passing(r, NEAR2);
	rig_expect_sent(r, ASK_FOR_NEAR2);
	rig_wire(r, "port2");
	rig_inject(r, MY_LINK2 LINK_B ANSWER LINK_B NEAR2_HOST MY_LINK2 MY_HOST2);
	CHECK(passed_to(r, 0x0200000000bb));
	return r;
}

/* ---- arp ---- */

RIG_TEST(router_forgets_unsolicited_answers_soon, router_that_knows())
{
	rig_inject(r, NEAR2_IS_AT(LIAR));
	inject_passing(r, NEAR2);
	CHECK(passed_to(r, 0x0200000000cc));
	rig_advance_ms(r, 1501);
	inject_passing(r, NEAR2);
	rig_expect_sent(r, ASK_FOR_NEAR2);
	rig_wire(r, "port2");
	rig_inject(r, MY_LINK2 LINK_B ANSWER LINK_B NEAR2_HOST MY_LINK2 MY_HOST2);
	CHECK(passed_to(r, 0x0200000000bb));
	rig_advance_ms(r, 20000); /* solicited */
	inject_passing(r, NEAR2);
	CHECK(passed_to(r, 0x0200000000bb));
}

RIG_TEST(repeated_lie_is_believed_no_longer, router_that_knows())
{
	for (unsigned i = 0; i < 5; i++) {
		rig_inject(r, NEAR2_IS_AT(LIAR));
		rig_advance_ms(r, 301);
	}
	inject_passing(r, NEAR2);
	rig_expect_sent(r, ASK_FOR_NEAR2);
	rig_forget(r);
}

RIG_TEST(nonexistent_hosts_replace_no_known_host, router_that_knows())
{
	for (uint32_t i = 0; i < 100; i++)
		inject_passing(r, NEAR2 + 1 + i);
	CHECK(rig_counter_of(r, "arp2", "replaced") >= 92);
	rig_forget(r);
	inject_passing(r, NEAR2);
	CHECK(passed_to(r, 0x0200000000bb));
	rig_forget(r);
}

/* ---- ip ---- */

RIG_TEST(rfc3927_7_link_local_addresses_stay_on_their_link, router_with("ip.gateway=10.78.0.2;"))
{
	struct datagram d = passing();

	d.destination = FAR;
	inject(r, &d);
	rig_expect_sent_count(r, 1);
	for (uint32_t host = 0xa9fe0101; host < 0xa9ff0000; host += 0x3f01) {
		d = passing();
		d.destination = host;
		inject(r, &d);
		d = passing();
		d.source = host;
		inject(r, &d);
	}
	CHECK_EQ(counter(r, "not_forwarded"), 10);
	rig_expect_nothing_sent(r);
}

/* Returns the identification of the first datagram to a host. */
static uint16_t
first_id(struct rig *r, uint32_t host)
{
	struct xk_session *s = rig_must_open(r, rig_to(host));
	uint8_t got[MTU];

	CHECK_EQ(rig_push(r, s, "aa"), 0);
	CHECK(rig_take_sent(r, got, sizeof(got)) == HEADER + 1);
	return XK_GET(ip, identification, got);
}

/* A host that receives datagrams cannot derive the identifications sent to another host, whatever the seed. */
TEST(rfc6864_first_identifications_are_independent)
{
	enum { SEEDS = 64 };
	uint64_t state = 5;
	uint16_t differences[SEEDS];
	unsigned other = 0;

	for (unsigned i = 0; i < SEEDS; i++) {
		char settings[64];
		struct rig *r;

		snprintf(settings, sizeof(settings), "ip.seed=%llu;", (unsigned long long)next_random(&state) | 1);
		r = ip_rig_with(settings);
		differences[i] = (uint16_t)(first_id(r, PEER) - first_id(r, OTHER));
		other += i > 0 && differences[i] != differences[0] && differences[i] != (uint16_t)-differences[0];
		rig_free(r);
	}
	CHECK(other > SEEDS - 5);
}

#define HOST "port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.1/24; ip: vnet; user: ip#17"

static struct xk_participants
to_peer(bool lazily)
{
	return (struct xk_participants){ .remote = { 1, { PEER } }, .local = { lazily ? 1 : 0, { XK_IP_LAZY } } };
}

/*
 * A liar opens a session by claiming to be PEER. Opening that session again leads to ARP's address, even if it was
 * opened lazily before, to answer the liar.
 */
RIG_TEST(lazily_opened_session_follows_once_opened, rig_new_graph(HOST))
{
	struct xk_session *lazy, *s;

	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	rig_expect_up(r, MY_LINK LIAR "0800 45000015 00070000 40116635 0a4d0002 0a4d0001 aa", "aa");
	lazy = rig_open(r, to_peer(true));
	CHECK(lazy == rig_delivered_session(r));
	rig_expect_nothing_sent(r);
	s = rig_open(r, to_peer(false));
	CHECK(s == lazy);
	rig_expect_sent(r, ALL MY_LINK ASK MY_LINK "0a4d0001" NO_LINK "0a4d0002");
	rig_inject(r, MY_LINK LINK_A ANSWER LINK_A "0a4d0002" MY_LINK "0a4d0001");
	rig_expect_down(r, s, "aa", LINK_A MY_LINK "0800 *");
}

/* ---- udp ---- */

/* Injects an ICMP error: the path of the datagram sent takes SHORT_WHOLE bytes. */
static void
inject_path(struct rig *r, const uint8_t *sent)
{
	uint8_t error[8 + HEADER + 8] = { 3, 4, 0, 0, 0, 0, SHORT_WHOLE >> 8, SHORT_WHOLE & 0xff };
	struct datagram d = usual();

	memcpy(error + 8, sent, HEADER + 8);
	xk_checksum_store(error + 2, xk_checksum_finish(xk_sum(0, error, sizeof(error))));
	d.protocol = 1;
	d.payload = error;
	d.len = sizeof(error);
	inject(r, &d);
}

/* Returns the sum of a datagram sent in two fragments, with its pseudo-header: 0xffff if the checksum is right. */
static uint16_t
sum_of_two(struct rig *r)
{
	uint8_t first[MTU], second[MTU], pseudo[12] = { [9] = 17 };
	long first_len = rig_take_sent(r, first, sizeof(first)), second_len = rig_take_sent(r, second, sizeof(second));
	uint64_t sum;

	REQUIRE(first_len > HEADER + 8 && second_len > HEADER);
	memcpy(pseudo, first + XK_OFFSET(ip, source), 8);
	memcpy(pseudo + 10, first + HEADER + 4, 2);
	sum = xk_sum(xk_sum(0, pseudo, sizeof(pseudo)), first + HEADER, (size_t)first_len - HEADER);
	return xk_sum_fold(xk_sum(sum, second + HEADER, (size_t)second_len - HEADER));
}

/*
 * A port fills in checksums only for datagrams in one frame, so a datagram longer than a newly reported path MTU needs
 * its checksum beforehand.
 */
RIG_TEST(shorter_path_leaves_no_checksum_to_the_port,
	 rig_new_prepared("wire:; ip: wire; ip.pmtu=yes; icmp: ip; udp: ip; user: udp", prepare))
{
	uint32_t offloads = XK_OFFLOAD_UDP_SUM;
	struct xk_session *s;
	uint8_t sent[MTU];

	rig_answer_control(r, XK_GET_OFFLOADS, &offloads, sizeof(offloads));
	s = rig_must_open(r, rig_to2(PEER, FAR_PORT, PORT));
	CHECK_EQ(rig_push_pattern(r, s, 1200), 0);
	CHECK_EQ(rig_take_sent(r, sent, sizeof(sent)), HEADER + 8 + 1200);
	inject_path(r, sent);
	CHECK_EQ(rig_counter_of(r, "ip", "path_lowered"), 1);
	CHECK_EQ(rig_push_pattern(r, s, 1200), 0);
	CHECK_EQ(rig_sent(r), 2);
	CHECK_EQ(sum_of_two(r), 0xffff);
}
