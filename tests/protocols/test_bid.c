/*
 * test_bid.c - BID over a fake wire and BIDCTL over another: messages delivered and dropped. Reboots:
 * test_bid_reboots.c.
 */
#include <errno.h>

#include "protocols/bid/bid_private.h"
#include "tests/protocols/bid_rig.h"

/* ---- messages delivered ---- */

STAGE_TEST(bid_carries_messages_between_confirmed_boots, stage_open(s, false))
{
	struct xk_session *session = open_it(s);

	CHECK_EQ(push(s, session, "hello"), 0);
	expect_sent(s, BOOT_A, "hello");
	inject(s, packet(s, BOOT_A, "world"));
	expect_delivered(s, "world");
	CHECK(rig_delivered_session(s->r) == session);
	inject(s, packet(s, BOOT_A, "again"));
	expect_delivered(s, "again");
	CHECK_EQ(rig_drop_count(s->r), 0);
}

STAGE_TEST(bid_accepts_a_stranger_once_confirmed, stage_open(s, true))
{
	struct xk_session *session;

	be_met(s, "hello");
	session = rig_announced_session(s->r);
	CHECK(rig_delivered_session(s->r) == session);
	CHECK_EQ(rig_open_done_count(s->r), 1);
	CHECK_EQ(push(s, session, "world"), 0);
	expect_sent(s, BOOT_A, "world");
	inject(s, packet(s, BOOT_A, "more"));
	expect_delivered(s, "more");
	CHECK_EQ(rig_open_done_count(s->r), 1);
}

TEST(bid_refuses_strangers_unless_enabled)
{
	struct stage s;
	struct packet p;

	stage_open(&s, false);
	inject(&s, packet(&s, BOOT_A, "hello"));
	p = packet(&s, BOOT_A, "hello");
	p.destination = 0;
	inject(&s, p);
	CHECK_EQ(counted(&s, "no_session"), 2);
	rig_expect_nothing_sent(s.r); /* no query was sent */
	stage_close(&s);
	stage_open(&s, true);
	rig_refuse_sessions(s.r, -ENOMEM);
	inject(&s, packet(&s, BOOT_A, "hello"));
	answer(&s, BOOT_A);
	inject(&s, packet(&s, BOOT_A, "hello"));
	CHECK_EQ(counted(&s, "refused"), 1);
	rig_expect_nothing_delivered(s.r);
	stage_close(&s);
}

STAGE_TEST(bid_opens_one_session_per_host, stage_open(s, true))
{
	struct xk_session *session;

	be_met(s, "x");
	session = rig_announced_session(s->r);
	CHECK(rig_open(s->r, rig_to(HOST)) == session);
	CHECK(rig_open(s->r, rig_to(HOST)) == session);
	rig_expect_nothing_sent(s->r);
}

STAGE_TEST(bid_opens_once_for_two_waiters, stage_open(s, false))
{
	CHECK(rig_open(s->r, rig_to(HOST)) == NULL);
	CHECK(rig_open(s->r, rig_to(HOST)) == NULL);
	answer(s, BOOT_A);
	CHECK(rig_opened_session(s->r) != NULL);
	CHECK_EQ(rig_wire_session_count(s->r), 1);
	rig_expect_nothing_sent(s->r);
}

STAGE_TEST(bid_opens_no_silent_host, stage_open(s, false))
{
	CHECK(rig_open(s->r, rig_to(HOST)) == NULL);
	rig_advance_ms(s->r, 1000);
	CHECK(rig_opened_session(s->r) == NULL);
	CHECK_EQ(rig_error(s->r), -EHOSTUNREACH);
	rig_expect_open_fails(s->r, rig_to(0), -EINVAL);
	rig_expect_open_fails(s->r, rig_to(UINT64_C(0x10a4d0002)), -EINVAL);
	rig_expect_open_fails(s->r, rig_to(UINT32_MAX), -EINVAL);
	rig_forget(s->r);
}

/* ---- addresses ---- */

STAGE_TEST(bid_answers_to_the_latest_source, stage_open(s, true))
{
	struct xk_session *session, *first, *second;

	be_met(s, "x");
	session = rig_announced_session(s->r);
	first = rig_wire_newest_session(s->r);
	rig_wire_peer(s->r, HOST); /* by another session */
	inject(s, packet(s, BOOT_A, "y"));
	expect_delivered(s, "y");
	CHECK(rig_delivered_session(s->r) == session);
	second = rig_wire_newest_session(s->r);
	CHECK(first != second);
	CHECK_EQ(counted(s, "moved"), 1);
	CHECK_EQ(push(s, session, "1"), 0);
	expect_sent(s, BOOT_A, "1");
	rig_wire_peer(s->r, HOST);
	inject(s, packet(s, BOOT_B, "no good message"));
	CHECK_EQ(push(s, session, "2"), 0);
	rig_forget(s->r);
	CHECK_EQ(counted(s, "moved"), 1);
	rig_inject_on(s->r, first, "00003000 0a4d0002 a000000000000001 0000000000000000 7a");
	rig_forget(s->r);
	CHECK_EQ(counted(s, "moved"), 1);
}

STAGE_TEST(bid_sends_to_the_address_it_was_opened_to, stage_open(s, true))
{
	struct xk_session *session = open_it(s);

	rig_wire_peer(s->r, HOST);
	inject(s, packet(s, BOOT_A, "y"));
	expect_delivered(s, "y");
	rig_wire_peer(s->r, HOST);
	inject(s, packet(s, BOOT_A, "z"));
	expect_delivered(s, "z");
	CHECK(rig_delivered_session(s->r) == session);
	CHECK_EQ(counted(s, "moved"), 0);
}

/* ---- malformed messages ---- */

STAGE_TEST(bid_drops_malformed_messages, stage_open(s, true))
{
	static const uint32_t hosts[] = { 0, 5, 0xe0000001, UINT32_MAX };
	struct packet p;

	be_met(s, "x");
	inject(s, packet(s, 0, "x"));
	CHECK_EQ(counted(s, "bad_boot"), 1);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(hosts); i++) {
		p = packet(s, BOOT_A, "x");
		p.host = hosts[i];
		inject(s, p);
	}
	p.host = OTHER; /* the wire names another host */
	inject(s, p);
	CHECK_EQ(counted(s, "bad_host"), 5);
	p = packet(s, BOOT_A, "x");
	p.number++;
	inject(s, p);
	CHECK_EQ(counted(s, "no_session"), 1);
	rig_inject_prefixes(s->r, "00003000 0a4d0002 a000000000000001 0000000000000000");
	CHECK_EQ(counted(s, "short"), LEN);
	rig_expect_nothing_delivered(s->r);
	rig_expect_nothing_sent(s->r);
}

STAGE_TEST(bid_survives_a_lack_of_buffers, stage_open(s, true))
{
	struct xk_session *session;
	struct packet p;

	session = open_it(s);
	rig_limit_buffers(s->r, 2);
	rig_inject(s->r, "0000 | 3000 0a4d0002 a000000000000001 0000000000000000 00");
	CHECK_EQ(counted(s, "no_buffer"), 1);
	rig_limit_buffers(s->r, 1);
	p = packet(s, BOOT_A, "x");
	p.destination = 0;
	inject(s, p); /* no buffer for an answer */
	rig_expect_nothing_sent(s->r);
	rig_limit_buffers(s->r, UINT32_MAX);
	CHECK_EQ(rig_push(s->r, session, ""), -EINVAL);
	CHECK_EQ(counted(s, "empty"), 1);
}

STAGE_TEST(bid_leaves_unusual_messages_to_the_slow_path, stage_open(s, false))
{
	static const uint64_t boots[] = { BOOT_A, BOOT_B };
	uint8_t header[LEN] = { 0 };
	struct xk_session *session;
	struct xk_msg *m, *empty;

	session = open_it(s);
	m = xk_msg_from(rig_platform(s->r), "x", 1);
	empty = xk_msg_new(rig_platform(s->r), 0);
	CHECK(bid_path_push(session, m, header));
	CHECK_EQ(xk_get64(header + 16), BOOT_A);
	CHECK(!bid_path_push(session, empty, header));
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(boots); i++) {
		xk_msg_annotate(m, XK_OF_MESSAGE, XK_FOR_BOOT, boots[i]);
		CHECK_EQ(bid_path_push(session, m, header), boots[i] == BOOT_A);
		xk_put64(header + 8, boots[i]);
		CHECK_EQ(bid_path_pop(session, m, header, 0), boots[i] == BOOT_A);
	}
	CHECK(!bid_path_pop(session, m, header, 1)); /* another path's state */
	xk_msg_free(m);
	xk_msg_free(empty);
}

struct sharing {
	struct stage *s;
	struct xk_session *session;
	int status;
};

/* A message that shares another's bytes has no headroom: its header needs a buffer of its own. */
static void
do_push_shared(void *argument)
{
	struct sharing *sharing = argument;
	struct xk_msg *m = xk_msg_from(rig_platform(sharing->s->r), "x", 1), *other = xk_msg_reference(m);

	rig_limit_buffers(sharing->s->r, 0);
	sharing->status = xk_push(sharing->session, other);
	xk_msg_free(m);
}

TEST(bid_survives_a_lack_of_a_header_buffer)
{
	struct stage own, *s = &own;
	struct sharing sharing = { .s = s };

	stage_open(s, true);
	sharing.session = open_it(s);
	CHECK(rig_do(s->r, do_push_shared, &sharing));
	CHECK_EQ(sharing.status, -ENOBUFS);
	CHECK_EQ(counted(s, "no_buffer"), 1);
	rig_limit_buffers(s->r, UINT32_MAX);
	stage_close(s);
}

/* ---- control and close ---- */

STAGE_TEST(bid_reports_participants_and_mtu, stage_open(s, true))
{
	struct xk_session *session;
	struct xk_participants got;
	uint32_t length;
	uint64_t host;

	session = open_it(s);
	CHECK_EQ(xk_get_participants(session, &got), 0);
	CHECK_EQ(xk_participant_pop(&got.remote), HOST);
	CHECK_EQ(xk_participant_pop(&got.local), ME);
	CHECK_EQ(xk_control(session, XK_GET_PEER_HOST, &host), 0);
	CHECK_EQ(host, HOST);
	CHECK_EQ(xk_control(session, XK_GET_MY_HOST, &host), 0);
	CHECK_EQ(host, ME);
	CHECK_EQ(xk_control(session, XK_GET_MAX_PACKET, &length), 0);
	CHECK_EQ(length, 1500 - LEN);
	CHECK_EQ(xk_control_protocol(rig_protocol(s->r, "bid"), XK_GET_OPT_PACKET, &length), 0);
	CHECK_EQ(length, 1500 - LEN);
}

STAGE_TEST(bid_uses_its_host_while_it_has_a_session, stage_open(s, false))
{
	struct xk_session *session = open_it(s);

	rig_advance_ms(s->r, 400 * 1000);
	CHECK(rig_counter_of(s->r, "bidctl", "keepalives") > 0);
	rig_forget(s->r);
	rig_close(s->r, session);
	rig_advance_ms(s->r, 400 * 1000);
	rig_forget(s->r);
	CHECK_EQ(rig_wire_session_count(s->r), 0);
}

STAGE_TEST(bid_closes_strangers_when_disabled, stage_open(s, true))
{
	be_met(s, "x");
	CHECK_EQ(rig_open_disable(s->r, anybody()), 0);
	CHECK_EQ(rig_open_disable(s->r, anybody()), -ENOENT);
	inject(s, packet(s, BOOT_A, "x"));
	CHECK_EQ(counted(s, "no_session"), 1);
}
