/* test_ip_fragments.c - datagrams longer than the link carries: fragmented by IP on send, reassembled on receive. */
#include <errno.h>
#include <limits.h>

#include "platform/sim/memory.h"
#include "protocols/ip/ip.h"
#include "tests/platform/lent.h"
#include "tests/protocols/ip_datagrams.h"

/* Takes one delivered message. Returns true if it is the pattern's first len bytes. */
static bool
delivered_pattern(struct rig *r, size_t len)
{
	static uint8_t got[70000], want[70000];
	long got_len = rig_take_delivered(r, got, sizeof(got));

	fill_pattern(want, 0, len);
	return got_len == (long)len && memcmp(got, want, len) == 0;
}

/* Injects [start, end) of the pattern as a fragment of datagram id. */
static void
inject_fragment(struct rig *r, uint16_t id, size_t start, size_t end, bool more)
{
	uint8_t payload[MTU];
	struct datagram d = usual();

	fill_pattern(payload, start, end);
	d.id = id;
	d.fragment = (uint16_t)(start / 8 | (more ? MORE : 0));
	d.payload = payload;
	d.len = end - start;
	inject(r, &d);
}

/* ---- fragments sent ---- */

/*
 * Takes the fragments sent and joins them by offset. Returns their total length; -1: not the pattern in valid
 * fragments.
 */
static long
take_fragments(struct rig *r, size_t len, unsigned *count)
{
	size_t next = 0;
	uint16_t id = 0;
	bool more = true;

	for (*count = 0; rig_sent(r) > 0; ++*count) {
		uint8_t frame[MTU + 1], want[MTU];
		long got = rig_take_sent(r, frame, sizeof(frame));
		size_t payload = (size_t)got - HEADER;
		uint16_t fragment = xk_get16(frame + 6);

		if (got < HEADER || got > MTU || xk_get16(frame + 2) != got || !more)
			return -1;
		if (xk_sum_fold(xk_sum(0, frame, HEADER)) != 0xffff || (*count > 0 && xk_get16(frame + 4) != id))
			return -1;
		id = xk_get16(frame + 4);
		more = (fragment & MORE) != 0;
		if ((fragment & 0x1fff) * 8u != next || (more && payload % 8 != 0))
			return -1;
		fill_pattern(want, next, next + payload);
		if (memcmp(frame + HEADER, want, payload) != 0)
			return -1;
		next += payload;
	}
	return more || next != len || (*count > 1) != (id % 2 == 0) ? -1 : (long)next;
}

static void
check_fragments(struct rig *r, struct xk_session *s, size_t len, unsigned want)
{
	unsigned count;

	CHECK_EQ(rig_push_pattern(r, s, len), 0);
	CHECK_EQ(take_fragments(r, len, &count), len);
	CHECK_EQ(count, want);
}

RIG_SESSION_TEST(fragments_respect_the_links_limits, ip_rig(), rig_open(r, rig_to(PEER)))
{
	check_fragments(r, s, 1479, 1);
	check_fragments(r, s, 1480, 1);
	CHECK_EQ(rig_counter(r, "fragmented"), 0);
	check_fragments(r, s, 1481, 2);
	check_fragments(r, s, 1488, 2);
	check_fragments(r, s, 2959, 2);
	check_fragments(r, s, 2960, 2);
	check_fragments(r, s, 2961, 3);
	check_fragments(r, s, 65514, 45);
	check_fragments(r, s, 65515, 45);
	CHECK_EQ(rig_counter(r, "fragmented"), 7);
}

/* Open sessions follow the change, down and up; so do new ones and forwarded datagrams (vnet's answer). */
RIG_SESSION_TEST(datagrams_follow_the_mtu_of_the_link, ip_rig(), rig_open(r, rig_to(PEER)))
{
	struct xk_vnet_interfaces now = { 1, { interface } };
	struct xk_protocol *ip = rig_protocol(r, "ip");
	static const uint32_t mtus[] = { 1006, MTU };

	check_fragments(r, s, 1480, 1);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(mtus); i++) {
		uint32_t whole = 0;

		now.list[0].max_packet = mtus[i];
		rig_answer_control(r, XK_GET_MAX_PACKET, &mtus[i], sizeof(mtus[i]));
		rig_answer_control(r, XK_VNET_GET_INTERFACES, &now, sizeof(now));
		ip->ops->port_changed(ip);
		check_fragments(r, s, mtus[i] - HEADER, 1);
		check_fragments(r, s, mtus[i] - HEADER + 1, 2);
		CHECK_EQ(xk_control_protocol(ip, XK_GET_OPT_PACKET, &whole), 0);
		CHECK_EQ(whole, mtus[i] - HEADER);
	}
}

/* The link's limit is no multiple of 8 behind the header. */
RIG_TEST(fragments_are_multiples_of_eight, ip_rig())
{
	uint32_t mtu = 1006;
	struct xk_session *s;

	rig_answer_control(r, XK_GET_MAX_PACKET, &mtu, sizeof(mtu));
	s = rig_open(r, rig_to(PEER));
	check_fragments(r, s, 986, 1);
	check_fragments(r, s, 987, 2);
	check_fragments(r, s, 984 + 986, 2);
	check_fragments(r, s, 984 + 987, 3);
}

RIG_SESSION_TEST(message_longer_than_a_datagram_is_refused, ip_rig(), rig_open(r, rig_to(PEER)))
{
	CHECK_EQ(rig_push_pattern(r, s, 65516), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_big"), 1);
	rig_expect_nothing_sent(r);
}

RIG_SESSION_TEST(datagram_is_not_sent_without_its_first_fragment, ip_rig(), rig_open(r, rig_to(PEER)))
{
	rig_fail_sending(r, -ENOBUFS);
	CHECK_EQ(rig_push_pattern(r, s, 4000), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "unsent"), 1);
	rig_fail_sending(r, 0);
	rig_forget(r);
}

TEST(buffers_may_run_out_in_mid_datagram)
{
	unsigned failed = 0;

	for (unsigned spare = 0; spare < 16; spare++) {
		struct rig *r = ip_rig();
		struct xk_session *s = rig_open(r, rig_to(PEER));
		struct xk_platform *platform = xk_platform_of(rig_protocol(r, "ip"));
		unsigned all = platform->ops->buffers_out(platform) + 1; /* the message */
		int status;

		xk_memory_platform_limit(platform, all + spare);
		status = rig_push_pattern(r, s, 4000);
		CHECK(status == 0 || status == -ENOBUFS);
		CHECK_EQ(status == 0, rig_drop_count(r) == 0);
		failed += status != 0;
		xk_memory_platform_limit(platform, UINT32_MAX);
		rig_forget(r);
		rig_free(r);
	}
	CHECK(failed > 1 && failed < 16);
}

/* Each fragment has its own header and holds the bytes until it is freed. */
TEST(lent_bytes_are_returned_with_the_last_fragment)
{
	static uint8_t bytes[4000], before[sizeof(bytes)];
	unsigned failed = 0, count;

	fill_pattern(bytes, 0, sizeof(bytes));
	memcpy(before, bytes, sizeof(bytes));
	for (unsigned spare = 0; spare < 16; spare++) {
		struct rig *r = ip_rig();
		struct xk_session *s = rig_open(r, rig_to(PEER));
		_Atomic unsigned ended = 0;
		struct xk_msg *m = xk_msg_lend(rig_platform(r), bytes, sizeof(bytes), lent_ended, &ended);
		int status;

		REQUIRE(m != NULL);
		rig_limit_buffers(r, spare);
		status = xk_push(s, m);
		rig_limit_buffers(r, UINT_MAX);
		failed += status != 0;
		if (status == 0) {
			CHECK_EQ(take_fragments(r, sizeof(bytes), &count), sizeof(bytes));
			CHECK_EQ(count, 3);
		}
		rig_forget(r);
		CHECK_EQ(ended, 1);
		CHECK(memcmp(bytes, before, sizeof(bytes)) == 0);
		rig_free(r);
	}
	CHECK(failed > 1 && failed < 16);
}

RIG_SESSION_TEST(unsent_lent_bytes_are_returned, ip_rig(), rig_open(r, rig_to(PEER)))
{
	static const uint8_t bytes[65516];
	_Atomic unsigned ended = 0;

	CHECK_EQ(xk_push(s, xk_msg_lend(rig_platform(r), bytes, sizeof(bytes), lent_ended, &ended)), -EMSGSIZE);
	CHECK_EQ(ended, 1);
	rig_fail_sending(r, -ENOBUFS);
	CHECK_EQ(xk_push(s, xk_msg_lend(rig_platform(r), bytes, 4000, lent_ended, &ended)), -ENOBUFS);
	rig_fail_sending(r, 0);
	rig_forget(r);
	CHECK_EQ(ended, 2);
}

RIG_SESSION_TEST(whole_datagrams_have_identifications_of_their_own, ip_rig(), rig_open(r, rig_to(PEER)))
{
	uint8_t first[64], second[64];

	rig_push(r, s, "01");
	rig_push(r, s, "01");
	rig_take_sent(r, first, sizeof(first));
	rig_take_sent(r, second, sizeof(second));
	CHECK_EQ((uint16_t)(xk_get16(second + 4) - xk_get16(first + 4)), 2);
	CHECK_EQ(first[5] & 1, 1);
}

/* ---- fragments received ---- */

RIG_TEST(fragments_are_reassembled_and_delivered_once, ip_rig())
{
	rig_open_enable(r, anybody());
	inject_fragment(r, 1, 2960, 4008, false);
	inject_fragment(r, 1, 0, 1480, true);
	inject_fragment(r, 1, 0, 1480, true);
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_open_done_count(r), 0);
	inject_fragment(r, 1, 1480, 2960, true);
	CHECK(delivered_pattern(r, 4008));
	rig_expect_nothing_delivered(r);
	rig_expect_counts(r, "reassembled=1 duplicate=1");
}

RIG_TEST(incomplete_datagrams_do_not_mix, ip_rig())
{
	rig_open(r, rig_to(PEER));
	inject_fragment(r, 1, 0, 1480, true);
	inject_fragment(r, 2, 0, 800, true);
	inject_fragment(r, 1, 1480, 1500, false);
	CHECK(delivered_pattern(r, 1500));
	inject_fragment(r, 2, 800, 900, false);
	CHECK(delivered_pattern(r, 900));
}

RIG_TEST(padding_of_fragments_is_trimmed, ip_rig())
{
	uint8_t frame[64] = { 0 };
	struct datagram d = usual();

	rig_open_enable(r, anybody());
	inject_fragment(r, 7, 0, 16, true);
	d.fragment = 2;
	build(frame, &d);
	rig_inject_bytes(r, frame, 46);
	rig_expect_delivered(r, "000102030405060708090a0b0c0d0e0f aabbccddee");
}

RIG_TEST(overlap_refuses_the_datagram_and_later_fragments, ip_rig())
{
	rig_open_enable(r, anybody());
	inject_fragment(r, 1, 0, 1480, true);
	inject_fragment(r, 1, 1472, 2000, true);
	inject_fragment(r, 1, 1480, 2000, false);
	rig_expect_counts(r, "overlap=2 refused_datagram=1");
	rig_expect_nothing_delivered(r);
	rig_advance_ms(r, 35000);
	inject_fragment(r, 1, 0, 1480, true);
	inject_fragment(r, 1, 1480, 2000, false);
	CHECK(delivered_pattern(r, 2000));
}

RIG_TEST(wrong_fragments_are_counted_by_reason, ip_rig())
{
	rig_open_enable(r, anybody());
	inject_fragment(r, 1, 8, 8, true);
	inject_fragment(r, 1, 8, 17, true);
	CHECK_EQ(rig_counter(r, "bad_fragment"), 2);
	inject_fragment(r, 2, 0, 7, true);
	CHECK_EQ(rig_counter(r, "tiny"), 1);
	inject_fragment(r, 3, 65512, 65516, false);
	CHECK_EQ(rig_counter(r, "too_long"), 1);
	inject_fragment(r, 4, 16, 24, false);
	inject_fragment(r, 4, 24, 32, false);
	CHECK_EQ(rig_counter(r, "inconsistent"), 2);
	rig_expect_nothing_delivered(r);
}

RIG_TEST(incomplete_datagram_times_out, ip_rig())
{
	rig_open_enable(r, anybody());
	inject_fragment(r, 1, 0, 1480, true);
	rig_advance_ms(r, 29000);
	CHECK_EQ(rig_counter(r, "timed_out"), 0);
	inject_fragment(r, 1, 1480, 2960, true);
	rig_advance_ms(r, 3000);
	CHECK_EQ(rig_counter(r, "timed_out"), 2);
	inject_fragment(r, 2, 0, 1480, true);
	rig_advance_ms(r, 32000);
	CHECK_EQ(rig_counter(r, "timed_out"), 3);
}

RIG_TEST(waiting_fragments_are_bounded, ip_rig_with("ip.reassembly_datagrams=3; ip.reassembly_source_datagrams=2;"))
{
	rig_open_enable(r, anybody());
	for (uint16_t id = 0; id < 100; id++)
		inject_fragment(r, id, 0, 8, true);
	CHECK_EQ(rig_counter(r, "evicted"), 98);
}

RIG_TEST(endless_eight_byte_fragments_are_refused, ip_rig())
{
	rig_open_enable(r, anybody());
	for (uint16_t i = 0; i < 300; i++)
		inject_fragment(r, 1, i * 8u, i * 8u + 8, true);
	rig_expect_counts(r, "too_many=241 refused_datagram=59");
}

RIG_TEST(longest_datagram_arrives, ip_rig())
{
	size_t at = 0;

	rig_open_enable(r, anybody());
	for (; at + 1480 < XK_IP_MAX_PACKET; at += 1480)
		inject_fragment(r, 1, at, at + 1480, true);
	inject_fragment(r, 1, at, XK_IP_MAX_PACKET, false);
	CHECK(delivered_pattern(r, XK_IP_MAX_PACKET));
}

/* Every host must accept datagrams of 576 bytes (RFC 791, 3.2), so links may cut the longest into those. */
RIG_TEST(longest_datagram_arrives_in_fragments_of_576_bytes, ip_rig())
{
	size_t at = 0;

	rig_open_enable(r, anybody());
	for (; at + 552 < XK_IP_MAX_PACKET; at += 552)
		inject_fragment(r, 1, at, at + 552, true);
	inject_fragment(r, 1, at, XK_IP_MAX_PACKET, false);
	CHECK_EQ(rig_counter(r, "too_many"), 0);
	CHECK(delivered_pattern(r, XK_IP_MAX_PACKET));
}

/* ---- identifications ---- */

/* Returns the identification of a datagram of 3000 bytes sent on s. */
static uint16_t
fragmented_id(struct rig *r, struct xk_session *s)
{
	static uint8_t bytes[3000], got[MTU];

	CHECK_EQ(rig_push_bytes(r, s, bytes, sizeof(bytes)), 0);
	REQUIRE(rig_take_sent(r, got, sizeof(got)) > HEADER);
	rig_forget(r);
	return xk_get16(got + 4);
}

/* Each host has its own numbers and counts: none reveals another's numbers, or how many it gets (RFC 7739). */
RIG_TEST(rfc7739_identifications_do_not_reveal_other_hosts, ip_rig())
{
	enum { HOSTS = 60 };
	unsigned sequential = 0, disturbed = 0, own;
	uint16_t first[HOSTS];
	struct xk_session *s[HOSTS];

	for (unsigned i = 0; i < HOSTS; i++) {
		s[i] = rig_open(r, rig_to(PEER + i));
		REQUIRE(s[i] != NULL);
		first[i] = fragmented_id(r, s[i]);
		CHECK_EQ(first[i] % 2, 0);
		sequential += i > 0 && first[i] == (uint16_t)(first[i - 1] + 2);
	}
	CHECK(sequential < 3);
	for (unsigned i = 0; i < 50; i++)
		fragmented_id(r, s[0]);
	for (unsigned i = 1; i < HOSTS; i++) /* two hosts may share a count, but few do */
		disturbed += fragmented_id(r, s[i]) != (uint16_t)(first[i] + 2);
	CHECK(disturbed < HOSTS / 2);
	own = (uint16_t)(fragmented_id(r, s[0]) - first[0]) / 2;
	CHECK(own >= 51 && own < 51 + 10); /* and those that share it */
}

/* Fragments of a session's last datagrams may still be in flight when the next session with that host sends. */
RIG_SESSION_TEST(identifications_continue_in_the_next_session, ip_rig(), rig_must_open(r, rig_to(PEER)))
{
	uint16_t id;

	fragmented_id(r, s);
	id = fragmented_id(r, s);
	rig_close(r, s);
	s = rig_must_open(r, rig_to(PEER));
	CHECK_EQ(fragmented_id(r, s), (uint16_t)(id + 2));
}

/* ---- buffers left to others ---- */

/* Several protocols that keep all they can get receive equal shares, and leave another such share. */
RIG_TEST(kept_buffers_are_shared_between_protocols, ip_rig())
{
	static const char *const names[] = { "ip", "user", "wire" };
	unsigned kept[3] = { 0 }, all = 0;

	rig_limit_buffers(r, 1000);
	for (unsigned turn = 0; turn < 64; turn++)
		for (unsigned i = 0; i < 3; i++) {
			unsigned room = xk_keep_room(rig_protocol(r, names[i]));

			xk_keep(rig_protocol(r, names[i]), room);
			kept[i] += room;
			if (turn == 0 && i == 0)
				CHECK(room > 450 && room <= 500);
		}
	for (unsigned i = 0; i < 3; i++) {
		all += kept[i];
		xk_unkeep(rig_protocol(r, names[i]), kept[i]);
	}
	CHECK(all > 700 && all < 850);
	CHECK(xk_keep_room(rig_protocol(r, "user")) > 450);
}

RIG_TEST(fragments_make_room_for_other_protocols,
	 ip_rig_with("ip.reassembly_datagrams=64; ip.reassembly_source_datagrams=64;"))
{
	struct xk_protocol *user = rig_protocol(r, "user");

	rig_open_enable(r, anybody());
	rig_limit_buffers(r, 60);
	for (uint16_t id = 0; id < 40; id++)
		inject_fragment(r, id, 0, 8, true);
	CHECK_EQ(rig_counter(r, "evicted") > 5, true);
	CHECK(rig_platform(r)->ops->buffers_out(rig_platform(r)) <= 30);
	xk_keep(user, 20);
	inject_fragment(r, 40, 0, 8, true);
	CHECK(rig_platform(r)->ops->buffers_out(rig_platform(r)) <= 21);
	inject_fragment(r, 40, 8, 16, false); /* the youngest datagram is still whole */
	CHECK_EQ(rig_counter(r, "reassembled"), 1);
	rig_forget(r);
	rig_advance_ms(r, 40000);
	CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 0);
	CHECK_EQ(xk_kept(rig_protocol(r, "ip")), 0);
	xk_unkeep(user, 20);
	rig_limit_buffers(r, UINT_MAX);
}
