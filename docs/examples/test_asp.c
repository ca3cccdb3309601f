/* test_asp.c - ASP between a fake user and a fake wire: the example of docs/writing-a-protocol.md. */
#include <errno.h>

#include "tests/rig.h"

enum { HOST = 0x0a4d0002, PORT = 7, FAR_PORT = 9 };

#define STATION UINT64_C(0x020000000099)

/* The participants that a server enables: its own port. */
static struct xk_participants
at_port(uint64_t port)
{
	struct xk_participants p = { .remote.depth = 0 };

	xk_participant_push(&p.local, port);
	return p;
}

/* ---- a round trip ---- */

RIG_TEST(asp_sends_and_receives, rig_new("asp"))
{
	struct xk_session *s = rig_open(r, rig_to2(HOST, FAR_PORT, PORT));

	REQUIRE(s != NULL);
	CHECK_EQ(rig_wire_remote(r), HOST);
	CHECK_EQ(rig_push(r, s, "aabbcc"), 0);
	rig_expect_sent(r, "0007 0009 0009 aabbcc");
	rig_inject(r, "0009 0007 0008 ddee");
	rig_expect_delivered(r, "ddee");
	CHECK(rig_delivered_session(r) == s);
}

RIG_TEST(asp_cuts_off_padding, rig_new("asp"))
{
	rig_open(r, rig_to2(HOST, FAR_PORT, PORT));
	rig_inject(r, "0009 0007 0007 dd 000000000000");
	rig_expect_delivered(r, "dd");
}

RIG_TEST(asp_accepts_headers_in_pieces, rig_new("asp"))
{
	rig_open(r, rig_to2(HOST, FAR_PORT, PORT));
	rig_inject(r, "0009 00 | 07 00 | 08 dd | ee");
	rig_expect_delivered(r, "ddee");
}

/* ---- sessions ---- */

RIG_TEST(asp_opens_a_session_for_a_stranger, rig_new("asp"))
{
	CHECK_EQ(rig_open_enable(r, at_port(PORT)), 0);
	rig_inject(r, "0009 0007 0007 dd");
	rig_inject(r, "0009 0007 0007 ee");
	CHECK_EQ(rig_open_done_count(r), 1);
	CHECK_EQ(rig_counter(r, "opened"), 1);
	rig_expect_delivered(r, "dd");
	rig_expect_delivered(r, "ee");
	CHECK_EQ(rig_push(r, rig_delivered_session(r), "ff"), 0);
	rig_expect_sent(r, "0007 0009 0007 ff");
}

RIG_TEST(asp_distinguishes_strangers_by_host, rig_new("asp"))
{
	struct xk_session *first;

	rig_open_enable(r, at_port(PORT));
	rig_wire_peer(r, HOST);
	rig_inject(r, "0009 0007 0007 dd");
	rig_expect_delivered(r, "dd");
	first = rig_delivered_session(r);
	rig_wire_peer(r, HOST + 1);
	rig_inject(r, "0009 0007 0007 ee"); /* the same ports */
	rig_expect_delivered(r, "ee");
	CHECK(rig_delivered_session(r) != first);
	CHECK_EQ(rig_counter(r, "opened"), 2);
}

RIG_TEST(asp_closes_strangers_sessions_when_disabled, rig_new("asp"))
{
	rig_open_enable(r, at_port(PORT));
	rig_inject(r, "0009 0007 0006");
	rig_expect_delivered(r, "");
	CHECK_EQ(rig_open_disable(r, at_port(PORT)), 0);
	CHECK_EQ(rig_open_disable(r, at_port(PORT)), -ENOENT);
	rig_inject(r, "0009 0007 0006");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
}

RIG_TEST(asp_keeps_strangers_of_other_ports, rig_new("asp"))
{
	rig_open_enable(r, at_port(PORT));
	rig_open_enable(r, at_port(PORT + 1));
	rig_inject(r, "0009 0007 0006");
	rig_inject(r, "0009 0008 0006");
	CHECK_EQ(rig_open_disable(r, at_port(PORT)), 0);
	rig_inject(r, "0009 0008 0006");
	CHECK_EQ(rig_delivered(r), 3);
	CHECK_EQ(rig_open_done_count(r), 2);
	rig_forget(r);
}

RIG_TEST(asp_chooses_a_port, rig_new("asp"))
{
	struct xk_participants to = rig_to(HOST);
	struct xk_session *s;

	xk_participant_push(&to.remote, FAR_PORT);
	rig_open_enable(r, at_port(0xc000)); /* the first port is taken */
	s = rig_open(r, to);
	REQUIRE(s != NULL);
	CHECK_EQ(rig_push(r, s, "aa"), 0);
	rig_expect_sent(r, "c001 0009 0007 aa");
}

RIG_TEST(asp_refuses_to_open_from_another_protocols_port, rig_new_graph("wire:; asp: wire; user: asp; user2: asp"))
{
	rig_user(r, "user2");
	CHECK_EQ(rig_open_enable(r, at_port(PORT)), 0);
	rig_user(r, "user");
	CHECK(rig_open(r, rig_to2(HOST, FAR_PORT, PORT)) == NULL);
	CHECK_EQ(rig_error(r), -EADDRINUSE);
	rig_user(r, "user2");
	CHECK(rig_open(r, rig_to2(HOST, FAR_PORT, PORT)) != NULL);
}

RIG_TEST(asp_opens_from_a_port_its_opener_enabled, rig_new("asp"))
{
	CHECK_EQ(rig_open_enable(r, at_port(PORT)), 0);
	CHECK(rig_open(r, rig_to2(HOST, FAR_PORT, PORT)) != NULL);
	rig_inject(r, "0009 0007 0007 dd");
	rig_expect_delivered(r, "dd");
	CHECK_EQ(rig_open_done_count(r), 0);
}

RIG_TEST(asp_forgets_closed_conversations, rig_new("asp"))
{
	struct xk_session *s = rig_open(r, rig_to2(HOST, FAR_PORT, PORT));

	REQUIRE(s != NULL);
	rig_close(r, s);
	CHECK_EQ(rig_wire_session_count(r), 0);
	CHECK(rig_open(r, rig_to2(HOST, FAR_PORT, PORT)) != NULL);
	CHECK_EQ(rig_counter(r, "opened"), 2);
}

RIG_TEST(asp_refuses_opens_it_cannot_perform, rig_new("asp"))
{
	CHECK(rig_open(r, rig_to2(HOST, 65536, PORT)) == NULL);
	CHECK_EQ(rig_error(r), -EINVAL);
	CHECK_EQ(rig_open_enable(r, rig_to(HOST)), -EINVAL);
	CHECK_EQ(rig_open_enable(r, rig_to2(HOST, FAR_PORT, PORT)), -EOPNOTSUPP);
	rig_wire_refuse(r, -EHOSTUNREACH);
	CHECK(rig_open(r, rig_to2(HOST, FAR_PORT, PORT)) == NULL);
	CHECK_EQ(rig_error(r), -EHOSTUNREACH);
}

/* On Ethernet, which has one session to each station. */
RIG_TEST(asp_opens_a_conversation_once, rig_new_graph("port:; eth: port; asp: eth#0x3100; user: asp"))
{
	struct xk_session *s = rig_open(r, rig_to2(STATION, FAR_PORT, PORT));

	REQUIRE(s != NULL);
	CHECK(rig_open(r, rig_to2(STATION, FAR_PORT, PORT)) == NULL);
	CHECK_EQ(rig_error(r), -EADDRINUSE);
	CHECK(rig_open(r, rig_to2(STATION, FAR_PORT, PORT + 1)) != NULL);
	rig_push(r, s, "aa");
	rig_expect_sent(r, "020000000099 020000000001 3100 0007 0009 0007 aa");
}

RIG_TEST(asp_reports_lengths_and_participants, rig_new("asp"))
{
	struct xk_session *s = rig_open(r, rig_to2(HOST, FAR_PORT, PORT));
	struct xk_participants p = { .remote.depth = 0 };
	uint32_t length;

	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &length), 0);
	CHECK_EQ(length, 1500 - 6);
	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &length), 0);
	CHECK_EQ(length, 1500 - 6);
	CHECK_EQ(xk_get_participants(s, &p), 0);
	CHECK_EQ(xk_participant_pop(&p.remote), FAR_PORT);
	CHECK_EQ(xk_participant_pop(&p.local), PORT);
}

RIG_TEST(asp_sends_no_more_than_its_length_field_allows, rig_new("asp"))
{
	uint32_t length = 100000;

	rig_answer_control(r, XK_GET_MAX_PACKET, &length, sizeof(length));
	CHECK_EQ(xk_control(rig_open(r, rig_to2(HOST, FAR_PORT, PORT)), XK_GET_MAX_PACKET, &length), 0);
	CHECK_EQ(length, UINT16_MAX - 6);
}

RIG_TEST(asp_refuses_a_lower_without_room_for_its_header, rig_new("asp"))
{
	uint32_t length = 5;

	rig_answer_control(r, XK_GET_MAX_PACKET, &length, sizeof(length));
	CHECK(rig_open(r, rig_to2(HOST, FAR_PORT, PORT)) == NULL);
	CHECK_EQ(rig_error(r), -EMSGSIZE);
	CHECK_EQ(rig_wire_session_count(r), 0);
}

/* ---- drops ---- */

RIG_TEST(asp_drops_short_messages, rig_new("asp"))
{
	rig_open_enable(r, at_port(PORT));
	rig_inject_prefixes(r, "0009 0007 0006"); /* 0 to 5 bytes of a header */
	CHECK_EQ(rig_counter(r, "short"), 6);
	rig_expect_nothing_delivered(r);
}

RIG_TEST(asp_drops_messages_with_a_wrong_length, rig_new("asp"))
{
	rig_open_enable(r, at_port(PORT));
	rig_inject(r, "0009 0007 0007");      /* claims a byte that is missing */
	rig_inject(r, "0009 0007 0005 aabb"); /* shorter than its own header */
	CHECK_EQ(rig_counter(r, "bad_length"), 2);
	rig_expect_nothing_delivered(r);
}

RIG_TEST(asp_drops_messages_without_a_user, rig_new("asp"))
{
	rig_open_enable(r, at_port(PORT));
	rig_inject(r, "0009 0008 0006");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	rig_refuse_sessions(r, -EPERM);
	rig_inject(r, "0009 0007 0006");
	CHECK_EQ(rig_counter(r, "refused"), 1);
}

RIG_TEST(asp_refuses_to_send_long_messages, rig_new("asp"))
{
	struct xk_session *s = rig_open(r, rig_to2(HOST, FAR_PORT, PORT));

	CHECK_EQ(rig_push_pattern(r, s, 1494), 0);
	CHECK_EQ(rig_push_pattern(r, s, 1495), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_big"), 1);
	CHECK_EQ(rig_sent(r), 1);
	rig_forget(r);
}

RIG_TEST(asp_returns_the_error_of_the_protocol_below, rig_new("asp"))
{
	struct xk_session *s = rig_open(r, rig_to2(HOST, FAR_PORT, PORT));

	REQUIRE(s != NULL);
	rig_fail_sending(r, -ENOBUFS);
	CHECK_EQ(rig_push(r, s, "aa"), -ENOBUFS);
	CHECK_EQ(rig_sent(r), 0);
}
