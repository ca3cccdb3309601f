/*
 * test_attacks.c - known attacks on reassembly and parsers, replayed on the whole UDP graph over a real port. Each is
 * counted by name, takes bounded memory, and leaves others served; rig_free checks that nothing is left.
 */
#include "tests/fuzz/attack.h"
#include "tests/protocols/discarded.h"

/* ---- fragments with false offsets ---- */

/* The second fragment ends inside the first: the length of what it adds is negative (1997). */
ATTACK_TEST(teardrop, graph())
{
	zeros(r, PEER, 242, 0, 40, true);
	zeros(r, PEER, 242, 24, 4, false);
	CHECK_EQ(rig_counter_of(r, "ip", "overlap"), 2);
}

/* The same in reverse order, and with a hole filled twice ("bonk", "boink", "newtear"). */
ATTACK_TEST(teardrop_in_other_orders, graph())
{
	zeros(r, PEER, 1, 24, 4, false);
	zeros(r, PEER, 1, 0, 40, true);
	CHECK_EQ(rig_counter_of(r, "ip", "overlap") + rig_counter_of(r, "ip", "inconsistent"), 2);
	zeros(r, PEER, 2, 0, 16, true);
	zeros(r, PEER, 2, 32, 16, false);
	zeros(r, PEER, 2, 8, 32, true);
	CHECK_EQ(rig_counter_of(r, "ip", "overlap") + rig_counter_of(r, "ip", "inconsistent"), 5);
}

/* More than 65,535 bytes in total: the last fragment ends beyond that (CA-1996-26). */
ATTACK_TEST(ping_of_death, graph())
{
	size_t at = 0;

	for (; at + 1480 <= LONGEST; at += 1480)
		zeros(r, PEER, 1, at, 1480, true);
	zeros(r, PEER, 1, at, 1480, false);
	CHECK_EQ(rig_counter_of(r, "ip", "too_long"), 1);
	zeros(r, PEER, 2, 65528, 8, false);
	zeros(r, PEER, 3, 65528, 1480, true);
	zeros(r, PEER, 4, 65512, 4, false);
	CHECK_EQ(rig_counter_of(r, "ip", "too_long"), 4);
	/* valid fragments wait for an end that cannot come */
	CHECK_EQ(waiting_fragments(table(r)), 44);
}

/* One fragment repeated endlessly at link speed (2000). */
ATTACK_TEST(jolt2, graph())
{
	for (unsigned i = 0; i < 3000; i++)
		zeros(r, PEER, 1109, 65504, 9, false);
	CHECK_EQ(rig_counter_of(r, "ip", "duplicate"), 2999);
	CHECK_EQ(waiting_fragments(table(r)), 1);
	for (unsigned i = 0; i < 100; i++)
		attack(r, (struct piece){ PEER, 1109, 65504, 9, false, .claimed = 68 });
	CHECK_EQ(rig_counter_of(r, "ip", "bad_length"), 100);
}

/* The same at offset zero. */
ATTACK_TEST(same_first_fragment_endlessly, graph())
{
	for (unsigned i = 0; i < 3000; i++)
		zeros(r, PEER, 7, 0, 1480, true);
	CHECK_EQ(rig_counter_of(r, "ip", "duplicate"), 2999);
}

/* The first fragment is longer than the datagram (CVE-2019-14378). */
ATTACK_TEST(first_fragment_longer_than_its_datagram, graph())
{
	zeros(r, PEER, 1, 16, 8, false);
	zeros(r, PEER, 1, 0, 1480, true);
	zeros(r, PEER, 2, 24, 8, false);
	zeros(r, PEER, 2, 32, 1480, true);
	rig_expect_counts(r, "ip.overlap=2 ip.inconsistent=2");
}

/* ---- fragments that evade filters ---- */

/* Ports in the second fragment (RFC 1858), or overwritten by it (RFC 3128). */
ATTACK_TEST(tiny_first_fragments, graph())
{
	for (unsigned len = 1; len < 8; len++)
		zeros(r, PEER, (uint16_t)len, 0, len, true);
	CHECK_EQ(rig_counter_of(r, "ip", "tiny"), 7);
	CHECK_EQ(table(r)->datagrams, 0);
	zeros(r, PEER, 9, 0, 16, true);
	zeros(r, PEER, 9, 8, 16, false);
	CHECK_EQ(rig_counter_of(r, "ip", "overlap"), 2);
}

/* Other ports at the same place: the second must neither replace the first nor be accepted. */
ATTACK_TEST(first_fragment_with_other_ports, graph())
{
	uint8_t datagram[32], other[32];

	make_udp(datagram, PEER, sizeof(datagram), 'a');
	make_udp(other, PEER, sizeof(other), 'b');
	attack(r, (struct piece){ PEER, 9, 0, 16, true, .data = datagram });
	attack(r, (struct piece){ PEER, 9, 0, 16, true, .data = other });
	attack(r, (struct piece){ PEER, 9, 16, 16, false, .data = datagram });
	rig_expect_counts(r, "ip.overlap=2 ip.refused_datagram=1");
}

/* IP in IP, in fragments (CVE-2020-11896): nobody here has enabled it, so none is kept. */
ATTACK_TEST(fragments_of_an_unused_protocol, graph())
{
	for (uint16_t id = 0; id < 100; id++)
		attack(r, (struct piece){ PEER, id, 0, 1480, true, .protocol = 4 });
	CHECK_EQ(rig_counter_of(r, "ip", "no_session"), 100);
	CHECK_EQ(table(r)->datagrams, 0);
}

ATTACK_TEST(evil_bit, graph())
{
	attack(r, (struct piece){ PEER, 1, 0, 64, false, .fragment = IP_RESERVED });
	attack(r, (struct piece){ PEER, 1, 0, 64, true, .fragment = IP_RESERVED });
	CHECK_EQ(rig_counter_of(r, "ip", "bad_flags"), 2);
}

/* The datagram claims to be from its destination (1997), or from a host that would answer the answer. */
ATTACK_TEST(land_and_echo_loops, graph())
{
	uint8_t datagram[32];

	make_udp(datagram, HOST, sizeof(datagram), 'a');
	attack(r, (struct piece){ HOST, 1, 0, sizeof(datagram), false, .data = datagram });
	CHECK_EQ(rig_counter_of(r, "ip", "bad_source"), 1);
	attack(r, (struct piece){ HOST, 2, 0, 16, true, .data = datagram });
	CHECK_EQ(rig_counter_of(r, "ip", "bad_source"), 2);
	make_udp(datagram, PEER, sizeof(datagram), 'a');
	xk_put16(datagram, XK_UDPTEST_PORT);
	xk_put16(datagram + 6, 0);
	attack(r, (struct piece){ PEER, 3, 0, sizeof(datagram), false, .data = datagram });
	CHECK_EQ(rig_counter_of(r, "udp", "refused"), 1);
}

/* Layers disagree on a length: UDP's is more than IP's, or less. */
ATTACK_TEST(lengths_that_differ_between_layers, graph())
{
	uint8_t datagram[64];

	make_udp(datagram, PEER, sizeof(datagram), 'a');
	xk_put16(datagram + 4, 65);
	attack(r, (struct piece){ PEER, 1, 0, 32, true, .data = datagram });
	attack(r, (struct piece){ PEER, 1, 32, 32, false, .data = datagram });
	xk_put16(datagram + 4, 7);
	attack(r, (struct piece){ PEER, 2, 0, 32, true, .data = datagram });
	attack(r, (struct piece){ PEER, 2, 32, 32, false, .data = datagram });
	CHECK_EQ(rig_counter_of(r, "udp", "bad_length"), 2);
	/* a UDP header alone, then its data */
	make_udp(datagram, PEER, 8, 0);
	attack(r, (struct piece){ PEER, 3, 0, 8, true, .data = datagram });
	attack(r, (struct piece){ PEER, 3, 8, 40, false, .data = datagram });
	rig_expect_sent(r, "0200 0a4d0110 020000000001 0800 4500001c *");
}

/* Identifications wrap: fragments of two datagrams with the same one (RFC 4963) fail the checksum. */
ATTACK_TEST(fragments_of_two_datagrams_with_one_identification, graph())
{
	uint8_t old[64], new[64];

	make_udp(old, PEER, sizeof(old), 'a');
	make_udp(new, PEER, sizeof(new), 'b');
	attack(r, (struct piece){ PEER, 1, 0, 32, true, .data = old });
	attack(r, (struct piece){ PEER, 1, 32, 32, false, .data = new });
	rig_expect_counts(r, "ip.reassembled=1 udp.bad_checksum=1");
}

/* ---- floods ---- */

ATTACK_TEST(flood_of_fragments_from_many_sources, graph())
{
	for (uint16_t i = 0; i < 3000; i++) {
		zeros(r, PEER + i, i, i % 2 == 0 ? 0 : 1480, 1480, true);
		CHECK(table(r)->datagrams <= DATAGRAMS && waiting_fragments(table(r)) <= FRAGMENTS);
		CHECK(rig_platform(r)->ops->buffers_out(rig_platform(r)) <= FRAGMENTS);
	}
	CHECK_EQ(rig_counter_of(r, "ip", "evicted"), 3000 - DATAGRAMS);
	CHECK(rig_protocol(r, "ip")->cache_count <= 4);
}

/* One source fills its own share; other sources' datagrams stay. */
ATTACK_TEST(flood_of_fragments_from_one_source, graph())
{
	uint8_t datagram[64];

	make_udp(datagram, OTHER, sizeof(datagram), 'a');
	attack(r, (struct piece){ OTHER, 1, 32, 32, false, .data = datagram });
	for (uint16_t i = 0; i < 3000; i++) {
		zeros(r, PEER, i, 0, 1480, true);
		CHECK(table(r)->datagrams <= SOURCE_DATAGRAMS + 1 &&
		      waiting_fragments(table(r)) <= SOURCE_FRAGMENTS + 1);
	}
	attack(r, (struct piece){ OTHER, 1, 0, 32, true, .data = datagram });
	rig_expect_sent(r, "0200 0a4d0220 020000000001 0800 *");
}

/* FragmentSmack (CVE-2018-5391): the smallest fragments with gaps between them, so that each must find its place. */
ATTACK_TEST(small_fragments_with_gaps, graph())
{
	for (uint32_t i = 0; i < 2000; i++) {
		zeros(r, PEER, (uint16_t)(i / 1000), 65504 - i % 1000 * 16, 8, true);
		CHECK(waiting_fragments(table(r)) <= SOURCE_FRAGMENTS);
	}
	CHECK_EQ(rig_counter_of(r, "ip", "too_many"), 2 * (SOURCE_FRAGMENTS + 1));
	CHECK_EQ(rig_counter_of(r, "ip", "refused_datagram"), 2 * (1000 - SOURCE_FRAGMENTS - 1));
}

/* The later fragment first, with a full table: the fragment that completes a datagram must not find it half evicted. */
ATTACK_TEST(later_fragments_first_with_a_full_table, graph())
{
	uint8_t datagram[64];
	unsigned whole = 0;

	for (uint32_t i = 0; i < 2 * DATAGRAMS; i++)
		zeros(r, PEER + i, 5, 32, 32, false);
	CHECK_EQ(rig_counter_of(r, "ip", "evicted"), DATAGRAMS);
	/* half of these are gone: their first fragments start datagrams, and each evicts another */
	for (uint32_t i = 2 * DATAGRAMS; i-- > 0;) {
		make_udp(datagram, PEER + i, sizeof(datagram), 0);
		attack(r, (struct piece){ PEER + i, 5, 0, 32, true, .data = datagram });
		whole = (unsigned)rig_counter_of(r, "ip", "reassembled");
		CHECK(table(r)->datagrams <= DATAGRAMS);
	}
	CHECK_EQ(whole, DATAGRAMS);
	rig_expect_sent_count(r, DATAGRAMS);
}

/* A datagram that grows slowly does not keep its place longer. */
ATTACK_TEST(slow_fragments_do_not_extend_the_time, graph())
{
	for (unsigned i = 0; i < 40; i++) {
		zeros(r, PEER, 1, i * 8, 8, true);
		rig_advance_ms(r, 100);
	}
	CHECK(rig_counter_of(r, "ip", "timed_out") >= 20);
}
