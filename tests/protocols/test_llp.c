/* test_llp.c - LLP between a fake user and a fake wire. */
#include <errno.h>

#include "tests/participants.h"
#include "tests/rig.h"

enum { HOST = 0x0a4d0002, PORT = 7, FAR_PORT = 9 };

#define STATION UINT64_C(0x020000000099)

static struct rig *
rig_at(uint64_t station)
{
	struct rig *r = rig_new("llp");

	rig_answer_control(r, XK_GET_PEER_LINK, &station, sizeof(station));
	return r;
}

RIG_SESSION_TEST(llp_sends_and_receives, rig_at(STATION), rig_must_open(r, rig_to2(HOST, FAR_PORT, PORT)))
{
	CHECK_EQ(rig_wire_remote(r), HOST);
	rig_expect_down(r, s, "aabbcc", "0007 0009 0009 aabbcc");
	rig_expect_up(r, "0009 0007 0008 ddee", "ddee");
	CHECK(rig_delivered_session(r) == s);
	rig_expect_up(r, "0009 0007 0007 dd 000000000000", "dd"); /* padding */
	rig_expect_up(r, "0009 00 | 07 00 | 08 dd | ee", "ddee");
}

/* Over VNET, messages from an opened host arrive on another lower session than the one that leads there. */
RIG_SESSION_TEST(llp_knows_a_station_on_any_lower_session, rig_at(STATION), rig_open(r, rig_to2(HOST, FAR_PORT, PORT)))
{
	uint64_t other = STATION + 1;

	rig_wire_peer(r, HOST + 1); /* a lower session of its own */
	rig_expect_up(r, "0009 0007 0007 dd", "dd");
	CHECK(rig_delivered_session(r) == s);
	rig_answer_control(r, XK_GET_PEER_LINK, &other, sizeof(other));
	rig_inject(r, "0009 0007 0007 ee");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
}

RIG_TEST(llp_distinguishes_strangers_by_endpoint, rig_at(STATION))
{
	struct xk_session *first;

	CHECK_EQ(rig_open_enable(r, at_port(PORT)), 0);
	rig_expect_up(r, "0009 0007 0007 dd", "dd");
	first = rig_delivered_session(r);
	rig_expect_up(r, "0009 0007 0007 dd", "dd");
	CHECK(rig_delivered_session(r) == first);
	rig_expect_up(r, "000a 0007 0007 ee", "ee");
	CHECK(rig_delivered_session(r) != first);
	CHECK_EQ(rig_open_done_count(r), 2);
	rig_expect_down(r, first, "ff", "0007 0009 0007 ff");
	CHECK_EQ(rig_open_disable(r, at_port(PORT)), 0);
	CHECK_EQ(rig_open_disable(r, at_port(PORT)), -ENOENT);
	rig_inject(r, "000b 0007 0006");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
}

/* Without a station, the lower session identifies the peer. */
RIG_TEST(llp_works_without_stations, rig_new("llp"))
{
	CHECK_EQ(rig_open_enable(r, at_port(PORT)), 0);
	rig_wire_peer(r, HOST);
	rig_inject(r, "0009 0007 0007 dd");
	rig_wire_peer(r, HOST + 1);
	rig_inject(r, "0009 0007 0007 ee");
	CHECK_EQ(rig_open_done_count(r), 2);
	rig_expect_delivered(r, "dd");
	rig_expect_delivered(r, "ee");
}

RIG_TEST(llp_chooses_an_endpoint, rig_at(STATION))
{
	struct xk_participants to = rig_to(HOST);
	struct xk_session *s;

	xk_participant_push(&to.remote, FAR_PORT);
	rig_open_enable(r, at_port(0xc000)); /* the first choice is taken */
	s = rig_must_open(r, to);
	rig_expect_down(r, s, "aa", "c001 0009 0007 aa");
}

RIG_TEST(llp_opens_an_endpoint_once, rig_at(STATION))
{
	CHECK(rig_open(r, rig_to2(HOST, FAR_PORT, PORT)) != NULL);
	rig_expect_open_fails(r, rig_to2(HOST, FAR_PORT, PORT), -EADDRINUSE);
}

RIG_TEST(llp_refuses_impossible_endpoints, rig_at(STATION))
{
	struct xk_participants both = at_port(PORT);

	rig_expect_open_fails(r, rig_to2(HOST, 0, PORT), -EINVAL);
	rig_expect_open_fails(r, rig_to2(HOST, FAR_PORT, 0), -EINVAL);
	rig_expect_open_fails(r, rig_to2(HOST, 65536, PORT), -EINVAL);
	CHECK_EQ(rig_open_enable(r, at_port(0)), -EINVAL);
	CHECK_EQ(rig_open_enable(r, at_port(65536)), -EINVAL);
	xk_participant_push(&both.remote, HOST);
	CHECK_EQ(rig_open_enable(r, both), -EOPNOTSUPP);
}

RIG_TEST(llp_drops_malformed_messages, rig_at(STATION))
{
	rig_open(r, rig_to2(HOST, FAR_PORT, PORT));
	rig_inject(r, "0009 0007 00");
	CHECK_EQ(rig_counter(r, "short"), 1);
	rig_inject(r, "0009 0007 0005");
	rig_inject(r, "0009 0007 0008 dd");
	rig_inject(r, "0009 0007 ffff dd");
	CHECK_EQ(rig_counter(r, "bad_length"), 3);
	CHECK_EQ(rig_delivered(r), 0);
}

RIG_TEST(llp_carries_as_much_as_a_frame, rig_at(STATION))
{
	uint32_t below = 100, wanted;
	uint8_t bytes[100];
	struct xk_participants participants = { .remote.depth = 0 };
	struct xk_session *s;

	rig_answer_control(r, XK_GET_MAX_PACKET, &below, sizeof(below));
	s = rig_must_open(r, rig_to2(HOST, FAR_PORT, PORT));
	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &wanted), 0);
	CHECK_EQ(wanted, 94);
	CHECK_EQ(rig_push_pattern(r, s, 94), 0);
	CHECK_EQ(rig_take_sent(r, bytes, sizeof(bytes)), 100);
	CHECK_EQ(rig_push_pattern(r, s, 95), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_big"), 1);
	CHECK_EQ(xk_get_participants(s, &participants), 0);
	CHECK_EQ(xk_participant_pop(&participants.remote), FAR_PORT);
	CHECK_EQ(xk_participant_pop(&participants.local), PORT);
}
