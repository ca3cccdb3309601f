/* test_bip.c - BIP between a fake user and a fake wire. */
#include <errno.h>
#include <limits.h>

#include "protocols/post.h"
#include "tests/participants.h"
#include "tests/rig.h"

enum { HOST = 0x0a4d0002, PORT = 7, FAR_PORT = 9, LONG = 257, BYTES = 1500 };

#define STATION UINT64_C(0x020000000099)

static struct rig *
rig_at(const char *type, uint64_t station)
{
	struct rig *r = rig_new(type);

	rig_answer_control(r, XK_GET_PEER_LINK, &station, sizeof(station));
	return r;
}

/* Injects a message of len bytes. */
static void
inject_long(struct rig *r, unsigned len)
{
	uint8_t bytes[BYTES] = { 0, FAR_PORT, 0, PORT, 0, 0, (uint8_t)((len + 8) >> 8), (uint8_t)(len + 8) };

	rig_inject_bytes(r, bytes, len + 8);
}

RIG_SESSION_TEST(bip_sends_and_receives, rig_at("bip", STATION), rig_must_open(r, rig_to2(HOST, FAR_PORT, PORT)))
{
	CHECK_EQ(rig_wire_remote(r), HOST);
	rig_expect_down(r, s, "aabbcc", "0007 0009 0000000b aabbcc");
	rig_expect_up(r, "0009 0007 0000000a ddee", "ddee");
	CHECK(rig_delivered_session(r) == s);
	rig_expect_up(r, "0009 0007 00000009 dd 000000000000", "dd"); /* padding */
	rig_expect_up(r, "0009 00 | 07 0000 | 0008", "");             /* empty */
}

RIG_TEST(bip_accepts_strangers_and_answers_them, rig_at("bip", STATION))
{
	CHECK_EQ(rig_open_enable(r, at_port(PORT)), 0);
	rig_inject(r, "0009 0007 00000009 dd");
	rig_inject(r, "000a 0007 00000009 ee");
	rig_wire_peer(r, HOST + 1); /* another lower session, the same station */
	rig_inject(r, "000a 0007 00000009 ff");
	CHECK_EQ(rig_open_done_count(r), 2);
	rig_expect_down(r, rig_announced_session(r), "11", "0007 000a 00000009 11");
	rig_forget(r);
	CHECK_EQ(rig_open_disable(r, at_port(PORT)), 0);
	rig_inject(r, "000b 0007 00000008");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
}

RIG_TEST(bip_works_without_stations, rig_new("bip"))
{
	CHECK_EQ(rig_open_enable(r, at_port(PORT)), 0);
	rig_wire_peer(r, HOST);
	rig_inject(r, "0009 0007 00000009 dd");
	rig_wire_peer(r, HOST + 1);
	rig_inject(r, "0009 0007 00000009 ee");
	CHECK_EQ(rig_open_done_count(r), 2);
	rig_forget(r);
}

RIG_SESSION_TEST(bip_drops_a_long_message_without_a_posted_buffer, rig_at("bip", STATION),
		 rig_open(r, rig_to2(HOST, FAR_PORT, PORT)))
{
	uint8_t bytes[BYTES];

	inject_long(r, LONG - 1); /* short message */
	CHECK_EQ(rig_take_delivered(r, bytes, sizeof(bytes)), LONG - 1);
	inject_long(r, LONG);
	CHECK_EQ(rig_counter(r, "unposted"), 1);
	CHECK_EQ(xk_post(s, 256, 1), 0);  /* too small */
	CHECK_EQ(xk_post(s, 1023, 1), 0); /* counts as 512 */
	inject_long(r, 513);
	CHECK_EQ(rig_counter(r, "unposted"), 2);
	inject_long(r, 512);
	CHECK_EQ(rig_take_delivered(r, bytes, sizeof(bytes)), 512);
	inject_long(r, 512); /* no buffer is left */
	CHECK_EQ(rig_counter(r, "unposted"), 3);
	rig_expect_nothing_delivered(r);
}

RIG_SESSION_TEST(bip_takes_the_smallest_buffer_that_is_large_enough, rig_at("bip", STATION),
		 rig_open(r, rig_to2(HOST, FAR_PORT, PORT)))
{
	CHECK_EQ(xk_post(s, 2048, 1), 0);
	CHECK_EQ(xk_post(s, 512, 1), 0);
	inject_long(r, 300);
	inject_long(r, 1400);
	CHECK_EQ(rig_delivered(r), 2);
	CHECK_EQ(xk_post(s, 0, 1), -EINVAL);
	CHECK_EQ(xk_post(s, XK_MSG_MAX + 1, 1), -EINVAL);
	CHECK_EQ(xk_post(s, 4096, XK_POSTED_MAX + 1), -EINVAL);
	rig_forget(r);
}

RIG_TEST(bip_posts_its_own_buffers_again, rig_at("bip buffers=1", STATION))
{
	CHECK_EQ(rig_open_enable(r, at_port(PORT)), 0);
	for (unsigned i = 0; i < 3; i++)
		inject_long(r, 1400);
	CHECK_EQ(rig_delivered(r), 3);
	CHECK_EQ(rig_counter(r, "unposted"), 0);
	rig_forget(r);
}

RIG_TEST(bip_chooses_a_local_port, rig_at("bip", STATION))
{
	struct xk_participants to = rig_to(HOST);
	struct xk_session *s;

	xk_participant_push(&to.remote, FAR_PORT);
	REQUIRE(rig_open(r, rig_to2(HOST, FAR_PORT, 0xc000)) != NULL); /* the first choice is taken */
	s = rig_must_open(r, to);
	rig_expect_down(r, s, "aa", "c001 0009 00000009 aa");
}

RIG_TEST(bip_refuses_impossible_ports, rig_at("bip", STATION))
{
	struct xk_participants both = at_port(PORT);

	rig_expect_open_fails(r, rig_to2(HOST, 0, PORT), -EINVAL);
	rig_expect_open_fails(r, rig_to2(HOST, FAR_PORT, 65536), -EINVAL);
	CHECK_EQ(rig_open_enable(r, at_port(0)), -EINVAL);
	xk_participant_push(&both.remote, HOST);
	CHECK_EQ(rig_open_enable(r, both), -EOPNOTSUPP);
}

RIG_TEST(bip_drops_malformed_messages, rig_at("bip", STATION))
{
	rig_open(r, rig_to2(HOST, FAR_PORT, PORT));
	rig_inject_prefixes(r, "0009 0007 00000008");
	CHECK_EQ(rig_counter(r, "short"), 8);
	rig_inject(r, "0009 0007 00000007");
	rig_inject(r, "0009 0007 0000000a dd");
	rig_inject(r, "0009 0007 ffffffff dd");
	CHECK_EQ(rig_counter(r, "bad_length"), 3);
	rig_expect_nothing_delivered(r);
}

RIG_TEST(bip_carries_as_much_as_the_protocol_below, rig_at("bip", STATION))
{
	uint32_t below = 100, wanted;
	struct xk_participants participants = { .remote.depth = 0 };
	struct xk_session *s;
	uint8_t bytes[100];

	rig_answer_control(r, XK_GET_MAX_PACKET, &below, sizeof(below));
	s = rig_must_open(r, rig_to2(HOST, FAR_PORT, PORT));
	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &wanted), 0);
	CHECK_EQ(wanted, 92);
	CHECK_EQ(rig_push_pattern(r, s, 92), 0);
	CHECK_EQ(rig_take_sent(r, bytes, sizeof(bytes)), 100);
	CHECK_EQ(rig_push_pattern(r, s, 93), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_big"), 1);
	CHECK_EQ(xk_get_participants(s, &participants), 0);
	CHECK_EQ(xk_participant_pop(&participants.remote), FAR_PORT);
	CHECK_EQ(xk_participant_pop(&participants.local), PORT);
}

/* A message without headroom is copied with its header, or gets a segment for it if no buffer is left for a copy. */
struct shared {
	struct xk_session *s;
	struct xk_msg *m;
	int status;
};

static void
do_push_shared(void *argument)
{
	struct shared *shared = argument;

	shared->m = xk_msg_from(xk_platform_of(shared->s->protocol), "\xaa\xbb", 2);
	REQUIRE(shared->m != NULL);
	shared->status = xk_push(shared->s, xk_msg_reference(shared->m));
	xk_msg_free(shared->m);
}

RIG_TEST(bip_copies_a_short_message_without_headroom, rig_at("bip", STATION))
{
	struct shared shared = { .s = rig_open(r, rig_to2(HOST, FAR_PORT, PORT)) };

	REQUIRE(rig_do(r, do_push_shared, &shared));
	CHECK_EQ(shared.status, 0);
	rig_expect_sent(r, "0007 0009 0000000a aabb");
	rig_limit_buffers(r, 2); /* the message and the reference */
	REQUIRE(rig_do(r, do_push_shared, &shared));
	CHECK_EQ(shared.status, -ENOBUFS);
	rig_limit_buffers(r, UINT_MAX);
}
