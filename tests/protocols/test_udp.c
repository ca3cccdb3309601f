/* test_udp.c - UDP between a fake user and a fake IP that joins this host, 10.77.0.1, and 10.77.0.2. */
#include <errno.h>
#include <unistd.h>

#include "platform/sim/memory.h"
#include "protocols/ip/ip.h"
#include "protocols/udp.h"
#include "protocols/virtual/vnet.h"
#include "tests/participants.h"
#include "tests/random.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"
#include "xkernel/platform.h"
#include "xkernel/support/ports.h"

enum { ME = 0x0a4d0001, PEER = 0x0a4d0002, BROADCAST = 0x0a4d00ff, MAX = 65515, WHOLE = 1480, PORT = 7, FAR_PORT = 9 };

static void
prepare(struct rig *r)
{
	static const uint64_t me = ME, peer = PEER;
	static const uint32_t max = MAX, whole = WHOLE;

	rig_answer_control(r, XK_GET_MY_HOST, &me, sizeof(me));
	rig_answer_control(r, XK_GET_PEER_HOST, &peer, sizeof(peer));
	rig_answer_control(r, XK_GET_MAX_PACKET, &max, sizeof(max));
	rig_answer_control(r, XK_GET_OPT_PACKET, &whole, sizeof(whole));
}

/* Returns a rig of UDP with settings: statements, each ending in ';'. */
static struct rig *
udp_rig_with(const char *settings)
{
	char graph[256];

	snprintf(graph, sizeof(graph), "wire:; udp: wire; %s user: udp", settings);
	return rig_new_prepared(graph, prepare);
}

static struct rig *
udp_rig(void)
{
	return udp_rig_with("");
}

/* Returns the sum of a datagram and its pseudo-header: 0xffff if the checksum is right. */
static uint16_t
sum_of(const uint8_t *datagram, size_t len, uint32_t source, uint32_t destination)
{
	uint8_t pseudo[12] = { [9] = 17 };

	xk_put32(pseudo, source);
	xk_put32(pseudo + 4, destination);
	xk_put16(pseudo + 10, (uint16_t)len);
	return xk_sum_fold(xk_sum(xk_sum(0, pseudo, sizeof(pseudo)), datagram, len));
}

/* Makes a datagram from the peer at `bytes`, with its checksum. Returns its length. */
static size_t
build(uint8_t *bytes, uint16_t source, uint16_t destination, const void *payload, size_t len)
{
	xk_put16(bytes, source);
	xk_put16(bytes + 2, destination);
	xk_put16(bytes + 4, (uint16_t)(len + 8));
	xk_put16(bytes + 6, 0);
	memcpy(bytes + 8, payload, len);
	xk_checksum_store(bytes + 6, (uint16_t)~sum_of(bytes, len + 8, PEER, ME));
	return len + 8;
}

static void
inject(struct rig *r, uint16_t source, uint16_t destination)
{
	uint8_t bytes[64];
	size_t len = build(bytes, source, destination, "\xaa\xbb\xcc", 3);

	rig_inject_bytes(r, bytes, len);
}

/* ---- round trip ---- */

RIG_SESSION_TEST(sends_a_datagram, udp_rig(), rig_must_open(r, rig_to2(PEER, FAR_PORT, PORT)))
{
	uint8_t sent[64];

	CHECK_EQ(rig_wire_remote(r), PEER);
	CHECK_EQ(rig_push(r, s, "aabbcc"), 0);
	CHECK_EQ(rig_take_sent(r, sent, sizeof(sent)), 11);
	CHECK(memcmp(sent, "\0\7\0\11\0\13", 6) == 0);
	CHECK(memcmp(sent + 8, "\xaa\xbb\xcc", 3) == 0);
	CHECK_EQ(sum_of(sent, 11, ME, PEER), 0xffff);
}

RIG_SESSION_TEST(checksums_of_all_lengths_are_right, udp_rig(), rig_open(r, rig_to2(PEER, FAR_PORT, PORT)))
{
	static uint8_t sent[65536];

	for (size_t len = 0; len < 70; len++) {
		CHECK_EQ(rig_push_pattern(r, s, len), 0);
		CHECK_EQ(rig_take_sent(r, sent, sizeof(sent)), len + 8);
		CHECK_EQ(sum_of(sent, len + 8, ME, PEER), 0xffff);
	}
	CHECK_EQ(rig_push_pattern(r, s, MAX - 8), 0);
	CHECK_EQ(rig_take_sent(r, sent, sizeof(sent)), MAX);
	CHECK_EQ(sum_of(sent, MAX, ME, PEER), 0xffff);
}

RIG_SESSION_TEST(checksums_of_messages_in_segments_are_right, udp_rig(), rig_open(r, rig_to2(PEER, FAR_PORT, PORT)))
{
	uint8_t sent[64];

	CHECK_EQ(rig_push(r, s, "11 | 2233 | 445566 | 77"), 0);
	CHECK_EQ(rig_take_sent(r, sent, sizeof(sent)), 15);
	CHECK_EQ(sum_of(sent, 15, ME, PEER), 0xffff);
}

/* A payload that makes everything add up to all ones. */
RIG_SESSION_TEST(checksum_of_zero_is_sent_as_all_ones, udp_rig(), rig_open(r, rig_to2(PEER, FAR_PORT, PORT)))
{
	uint8_t sent[64], payload[2] = { 0, 0 };

	rig_push_bytes(r, s, payload, 2);
	rig_take_sent(r, sent, sizeof(sent));
	memcpy(payload, sent + 6, 2);
	rig_push_bytes(r, s, payload, 2);
	rig_take_sent(r, sent, sizeof(sent));
	CHECK_EQ(xk_get16(sent + 6), 0xffff);
	CHECK_EQ(sum_of(sent, 10, ME, PEER), 0xffff);
}

RIG_SESSION_TEST(checksum_can_be_omitted, udp_rig_with("udp.checksum=no;"), rig_open(r, rig_to2(PEER, FAR_PORT, PORT)))
{
	rig_push(r, s, "aabb");
	rig_expect_sent(r, "0007 0009 000a 0000 aabb");
}

RIG_TEST(port_computes_the_checksum_of_a_single_frame, udp_rig())
{
	uint32_t offloads = XK_OFFLOAD_UDP_SUM;
	static uint8_t sent[4096];
	struct xk_session *s;

	rig_answer_control(r, XK_GET_OFFLOADS, &offloads, sizeof(offloads));
	s = rig_open(r, rig_to2(PEER, FAR_PORT, PORT));
	rig_push(r, s, "aabb");
	/* 0a4d + 0001 + 0a4d + 0002 + 0011 + 000a: the pseudo-header alone */
	rig_expect_sent(r, "0007 0009 000a 14b8 aabb");
	rig_push_pattern(r, s, WHOLE - 8);
	rig_take_sent(r, sent, sizeof(sent));
	CHECK(sum_of(sent, WHOLE, ME, PEER) != 0xffff);
	rig_push_pattern(r, s, WHOLE - 7);
	rig_take_sent(r, sent, sizeof(sent));
	CHECK_EQ(sum_of(sent, WHOLE + 1, ME, PEER), 0xffff);
}

RIG_SESSION_TEST(delivers_to_the_session_that_was_opened, udp_rig(), rig_open(r, rig_to2(PEER, FAR_PORT, PORT)))
{
	inject(r, FAR_PORT, PORT);
	rig_expect_delivered(r, "aabbcc");
	CHECK(rig_delivered_session(r) == s);
	inject(r, FAR_PORT + 1, PORT);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
}

RIG_TEST(padding_is_trimmed, udp_rig())
{
	uint8_t bytes[64] = { 0 };

	rig_open_enable(r, at_port(PORT));
	build(bytes, FAR_PORT, PORT, "\xaa", 1);
	rig_inject_bytes(r, bytes, sizeof(bytes));
	rig_expect_delivered(r, "aa");
}

RIG_TEST(header_in_segments_is_read, udp_rig())
{
	rig_open_enable(r, at_port(PORT));
	rig_expect_up(r, "00 | 09 00 | 07 0009 | 0000 | 5a", "5a");
}

/* ---- opening ---- */

RIG_TEST(each_pair_of_ports_has_one_session, udp_rig())
{
	CHECK(rig_open(r, rig_to2(PEER, FAR_PORT, PORT)) != NULL);
	CHECK(rig_open(r, rig_to2(PEER, FAR_PORT + 1, PORT)) != NULL);
	CHECK(rig_open(r, rig_to2(PEER, FAR_PORT, PORT + 1)) != NULL);
}

static struct xk_participants
to_port(uint64_t port)
{
	struct xk_participants p = { .remote.depth = 0 };

	xk_participant_push(&p.remote, PEER);
	xk_participant_push(&p.remote, port);
	return p;
}

static uint16_t
local_port(struct xk_session *s)
{
	struct xk_participants p = { .remote.depth = 0 };

	CHECK_EQ(xk_get_participants(s, &p), 0);
	return (uint16_t)xk_participant_pop(&p.local);
}

RIG_TEST(local_port_is_chosen, udp_rig())
{
	uint16_t last = 0;

	for (unsigned i = 0; i < 10; i++) {
		struct xk_session *s = rig_must_open(r, to_port(FAR_PORT));

		CHECK(local_port(s) >= XK_PORTS_FIRST);
		CHECK(local_port(s) != last);
		last = local_port(s);
	}
}

/* An enabled port is skipped. */
RIG_TEST(chosen_port_is_not_in_use, udp_rig_with("udp.seed=1;"))
{
	unsigned port = local_port(rig_open(r, to_port(FAR_PORT)));

	rig_open_enable(r, at_port(port + 1));
	CHECK_EQ(local_port(rig_open(r, to_port(FAR_PORT))), port + 2);
}

RIG_TEST(impossible_participants_are_refused, udp_rig())
{
	rig_expect_open_fails(r, at_port(PORT), -EINVAL);
	rig_expect_open_fails(r, to_port(0), -EINVAL);
	rig_expect_open_fails(r, to_port(65536), -EINVAL);
	rig_expect_open_fails(r, rig_to2(PEER, FAR_PORT, 0), -EINVAL);
	rig_expect_open_fails(r, rig_to2(PEER, FAR_PORT, 65536), -EINVAL);
	rig_wire_refuse(r, -ENETUNREACH);
	rig_expect_open_fails(r, to_port(FAR_PORT), -ENETUNREACH);
}

RIG_TEST(checksum_needs_both_hosts, udp_rig())
{
	rig_answer_control(r, XK_GET_MY_HOST, NULL, 0);
	rig_expect_open_fails(r, to_port(FAR_PORT), -ENOTSUP);
}

RIG_TEST(port_enabled_by_another_upper_is_taken, rig_new_prepared("wire:; udp: wire; user: udp; user2: udp", prepare))
{
	CHECK_EQ(rig_open_enable(r, at_port(PORT)), 0);
	rig_user(r, "user2");
	CHECK_EQ(rig_open_enable(r, at_port(PORT)), -EADDRINUSE);
	rig_expect_open_fails(r, rig_to2(PEER, FAR_PORT, PORT), -EADDRINUSE);
}

/* Returns a rig over a real IP, whose session both opens share. */
static struct rig *
ip_rig(void)
{
	return rig_new_graph("port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.1/24; ip: vnet; udp: ip; "
			     "user: udp");
}

/* A broadcast needs no ARP. */
RIG_SESSION_TEST(same_ports_cannot_be_opened_twice, ip_rig(), rig_must_open(r, rig_to2(BROADCAST, FAR_PORT, PORT)))
{
	rig_expect_open_fails(r, rig_to2(BROADCAST, FAR_PORT, PORT), -EADDRINUSE);
	rig_close(r, s);
	CHECK(rig_open(r, rig_to2(BROADCAST, FAR_PORT, PORT)) != NULL);
}

RIG_TEST(enabling_needs_a_port_and_no_host, udp_rig())
{
	struct xk_participants p = { .remote.depth = 0 };

	CHECK_EQ(rig_open_enable(r, p), -EINVAL);
	CHECK_EQ(rig_open_enable(r, at_port(0)), -EINVAL);
	CHECK_EQ(rig_open_enable(r, at_port(65536)), -EINVAL);
	xk_participant_push(&p.local, ME);
	xk_participant_push(&p.local, PORT);
	CHECK_EQ(rig_open_enable(r, p), -EOPNOTSUPP);
}

RIG_SESSION_TEST(answers_controls, udp_rig(), rig_open(r, rig_to2(PEER, FAR_PORT, PORT)))
{
	struct xk_participants p = { .remote.depth = 0 };
	uint32_t length = 0;
	uint64_t host = 0;

	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &length), 0);
	CHECK_EQ(length, MAX - 8);
	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &length), 0);
	CHECK_EQ(length, WHOLE - 8);
	CHECK_EQ(xk_control(s, XK_GET_PEER_HOST, &host), 0);
	CHECK_EQ(host, PEER);
	CHECK_EQ(xk_get_participants(s, &p), 0);
	CHECK_EQ(xk_participant_pop(&p.remote), FAR_PORT);
	CHECK_EQ(xk_participant_pop(&p.local), PORT);
}

RIG_SESSION_TEST(message_longer_than_a_datagram_is_refused, udp_rig(), rig_open(r, rig_to2(PEER, FAR_PORT, PORT)))
{
	CHECK_EQ(rig_push_pattern(r, s, MAX - 7), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_big"), 1);
	rig_expect_nothing_sent(r);
}

RIG_SESSION_TEST(nothing_is_sent_without_a_header_buffer, udp_rig(), rig_open(r, rig_to2(PEER, FAR_PORT, PORT)))
{
	struct xk_platform *platform = xk_platform_of(rig_protocol(r, "udp"));
	struct xk_msg *m = xk_msg_from(platform, "abc", 3), *kept = xk_msg_reference(m);

	xk_memory_platform_limit(platform, platform->ops->buffers_out(platform));
	CHECK_EQ(xk_push(s, kept), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	xk_memory_platform_limit(platform, UINT32_MAX);
	xk_msg_free(m);
}

/* ---- strangers ---- */

RIG_TEST(strangers_datagram_opens_a_session_that_can_answer, udp_rig())
{
	CHECK_EQ(rig_open_enable(r, at_port(PORT)), 0);
	inject(r, FAR_PORT, PORT);
	CHECK_EQ(rig_open_done_count(r), 1);
	rig_expect_delivered(r, "aabbcc");
	inject(r, FAR_PORT, PORT);
	CHECK_EQ(rig_open_done_count(r), 1);
	rig_expect_delivered(r, "aabbcc");
	rig_expect_down(r, rig_delivered_session(r), "01", "0007 0009 0009 .... 01");
	inject(r, FAR_PORT + 1, PORT);
	CHECK_EQ(rig_open_done_count(r), 2);
	rig_expect_delivered(r, "aabbcc");
}

RIG_TEST(disabling_closes_passive_sessions, udp_rig())
{
	CHECK_EQ(rig_open_disable(r, at_port(PORT)), -ENOENT);
	rig_open_enable(r, at_port(PORT));
	rig_open_enable(r, at_port(PORT + 1));
	inject(r, FAR_PORT, PORT);
	inject(r, FAR_PORT, PORT + 1);
	rig_expect_delivered(r, "aabbcc");
	rig_expect_delivered(r, "aabbcc");
	CHECK_EQ(rig_open_disable(r, at_port(PORT)), 0);
	inject(r, FAR_PORT, PORT);
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	inject(r, FAR_PORT, PORT + 1);
	rig_expect_delivered(r, "aabbcc");
	CHECK_EQ(rig_open_done_count(r), 2);
}

RIG_TEST(unwanted_session_is_refused, udp_rig())
{
	rig_open_enable(r, at_port(PORT));
	rig_refuse_sessions(r, -EPERM);
	inject(r, FAR_PORT, PORT);
	CHECK_EQ(rig_counter(r, "refused"), 1);
	rig_expect_nothing_delivered(r);
}

/* A datagram to the broadcast address was summed with that address; the answer is summed with our own. */
RIG_TEST(broadcast_is_verified_and_answered, udp_rig())
{
	uint8_t bytes[64], sent[64];
	uint64_t destination = BROADCAST;
	size_t len = build(bytes, FAR_PORT, PORT, "\xaa", 1);

	xk_put16(bytes + 6, 0);
	xk_checksum_store(bytes + 6, (uint16_t)~sum_of(bytes, len, PEER, BROADCAST));
	rig_answer_control(r, XK_GET_DESTINATION, &destination, sizeof(destination));
	rig_open_enable(r, at_port(PORT));
	rig_inject_bytes(r, bytes, len);
	rig_expect_delivered(r, "aa");
	rig_inject_bytes(r, bytes, len);
	rig_expect_delivered(r, "aa");
	rig_push(r, rig_delivered_session(r), "01");
	CHECK_EQ(rig_take_sent(r, sent, sizeof(sent)), 9);
	CHECK_EQ(sum_of(sent, 9, ME, PEER), 0xffff);
}

/* ---- drops ---- */

RIG_TEST(datagram_for_an_unused_port_is_dropped, udp_rig())
{
	rig_open_enable(r, at_port(PORT));
	inject(r, FAR_PORT, PORT + 1);
	inject(r, FAR_PORT, 0);
	CHECK_EQ(rig_counter(r, "no_session"), 2);
	rig_expect_nothing_delivered(r);
}

RIG_TEST(wrong_lengths_are_dropped, udp_rig())
{
	rig_open_enable(r, at_port(PORT));
	rig_inject(r, "0009 0007 0007 0000 aabbcc");
	rig_inject(r, "0009 0007 0000 0000 aabbcc");
	rig_inject(r, "0009 0007 000c 0000 aabbcc");
	rig_inject(r, "0009 0007 ffff 0000 aabbcc");
	CHECK_EQ(rig_counter(r, "bad_length"), 4);
	rig_expect_nothing_delivered(r);
	rig_expect_up(r, "0009 0007 000b 0000 aabbcc", "aabbcc");
}

RIG_TEST(wrong_length_is_traced_with_the_received_length, udp_rig_with("udp.trace=errors;"))
{
	char text[256] = "";
	FILE *traced = tmpfile();
	int before = dup(STDERR_FILENO);

	REQUIRE(traced != NULL && before >= 0);
	dup2(fileno(traced), STDERR_FILENO);
	rig_inject(r, "0009 0007 0007 0000 aabbcc");
	fflush(stderr);
	dup2(before, STDERR_FILENO);
	close(before);
	rewind(traced);
	text[fread(text, 1, sizeof(text) - 1, traced)] = '\0';
	fclose(traced);
	CHECK_HAS(text, "dropped: bad_length (11 bytes)");
}

RIG_TEST(every_truncation_is_detected, udp_rig())
{
	uint8_t bytes[64];
	size_t len = build(bytes, FAR_PORT, PORT, "\xaa\xbb\xcc", 3);

	rig_open_enable(r, at_port(PORT));
	for (size_t i = 0; i < len; i++)
		rig_inject_bytes(r, bytes, i);
	CHECK_EQ(rig_counter(r, "short"), 8);
	CHECK_EQ(rig_counter(r, "bad_length"), len - 8);
	rig_expect_nothing_delivered(r);
}

/*
 * Checks flips before and after a session exists, in short and long datagrams; a stranger's damaged datagram opens
 * none.
 */
static void
check_flipped_bits(struct rig *r)
{
	static const char payload[] = "twenty-three bytes of it";
	uint8_t bytes[64];

	for (size_t len = 3; len <= 23; len += 20) {
		build(bytes, FAR_PORT, PORT, payload, len);
		rig_inject_flips(r, bytes, 8 + len, (8 + len) * 8);
	}
	rig_expect_nothing_delivered(r);
}

RIG_TEST(every_flipped_bit_is_detected, udp_rig())
{
	rig_open_enable(r, at_port(PORT));
	check_flipped_bits(r);
	CHECK_EQ(rig_open_done_count(r), 0);
	inject(r, FAR_PORT, PORT);
	rig_expect_delivered(r, "aabbcc");
	check_flipped_bits(r);
	CHECK_EQ(rig_open_done_count(r), 1);
	CHECK(rig_counter(r, "bad_checksum") > 100);
	CHECK_EQ(rig_drop_count(r), 2 * (11 + 31) * 8);
}

/* Linux sends such datagrams on interfaces that offload checksums. Tested without and with a session. */
RIG_TEST(offloaded_checksum_is_dropped_by_its_own_name, udp_rig())
{
	uint8_t bytes[64], pseudo[12] = { [9] = 17, [11] = 11 };
	size_t len = build(bytes, FAR_PORT, PORT, "\xaa\xbb\xcc", 3);

	xk_put32(pseudo, PEER);
	xk_put32(pseudo + 4, ME);
	xk_checksum_store(bytes + 6, xk_sum_fold(xk_sum(0, pseudo, sizeof(pseudo))));
	rig_open_enable(r, at_port(PORT));
	rig_inject_bytes(r, bytes, len);
	CHECK_EQ(rig_counter(r, "unsummed"), 1);
	inject(r, FAR_PORT, PORT);
	rig_expect_delivered(r, "aabbcc");
	rig_inject_bytes(r, bytes, len);
	rig_expect_counts(r, "unsummed=2 bad_checksum=0");
}

RIG_TEST(checksum_of_zero_means_none, udp_rig())
{
	rig_open_enable(r, at_port(PORT));
	rig_expect_up(r, "0009 0007 000b 0000 aabbcc", "aabbcc");
}

/* ---- random datagrams, through all lower protocols ---- */

static void
inject_random(struct rig *r, uint64_t *state)
{
	uint8_t payload[40] = { 0 }, bytes[64];
	size_t len = build(bytes, (uint16_t)(FAR_PORT + next_random(state) % 4),
			   (uint16_t)(PORT + next_random(state) % 4), payload, next_random(state) % sizeof(payload));

	for (uint64_t changes = next_random(state) % 3; changes > 0; changes--)
		bytes[next_random(state) % len] = (uint8_t)next_random(state);
	if (next_random(state) % 8 == 0)
		xk_put16(bytes + 6, 0);
	rig_inject_bytes(r, bytes, next_random(state) % 8 == 0 ? next_random(state) % len : len);
}

RIG_TEST(random_datagrams_leave_nothing_behind, udp_rig_with("udp.sessions=4;"))
{
	uint64_t state = UINT64_C(0x7654321);
	unsigned rounds = test_is_long() ? 200000 : 5000;

	rig_open_enable(r, at_port(PORT));
	rig_open_enable(r, at_port(PORT + 2));
	for (unsigned i = 0; i < rounds; i++) {
		inject_random(r, &state);
		if (i % 256 == 0)
			rig_forget(r);
	}
	CHECK(rig_counter(r, "bad_checksum") > 0 && rig_counter(r, "no_session") > 0);
	rig_forget(r);
}
