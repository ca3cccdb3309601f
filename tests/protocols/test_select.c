/* test_select.c - calls reach the procedure of their number, and errors reach the caller. */
#include <errno.h>
#include <limits.h>

#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/upi.h"

/* Opens a session for procedure 0x102 of host 5. */
static struct xk_session *
open_procedure(struct rig *r)
{
	return rig_must_open(r, rig_to2(5, 0x102, XK_ANY));
}

/* ---- client ---- */

RIG_SESSION_TEST(call_names_its_procedure, rig_new("select"), open_procedure(r))
{
	CHECK_EQ(rig_wire_remote(r), 5);
	rig_expect_call_sent(r, s, "c3", "00000102 00000000 c3");
	rig_expect_reply(r, 0, "00000102 00000001 3c", "3c");
	rig_expect_call_sent(r, s, "", "00000102 00000000");
	rig_expect_reply(r, 1, "0000 | 0102 000000 | 01", "");
	CHECK_EQ(rig_counter(r, "called"), 2);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_SESSION_TEST(calls_may_be_asynchronous, rig_new("select"), open_procedure(r))
{
	rig_call_async(r, s, "c3");
	rig_call_async(r, s, "c4");
	rig_expect_sent(r, "00000102 00000000 c3");
	rig_expect_sent(r, "00000102 00000000 c4");
	rig_close(r, s); /* they hold the session */
	rig_end_call(r, 0, "00000102 00000001 3c");
	CHECK_EQ(rig_call_status(r, 0), 0);
	CHECK_EQ(rig_call_status(r, 1), -EINPROGRESS);
	rig_expect_delivered(r, "3c");
	rig_end_call(r, 0, "00000102 00000003");
	CHECK_EQ(rig_call_status(r, 1), -ENOSYS);
	CHECK_EQ(rig_wire_session_count(r), 0);
}

RIG_SESSION_TEST(results_of_the_lower_protocol_are_passed_on, rig_new("select"), open_procedure(r))
{
	rig_call(r, s, "c3");
	rig_call_async(r, s, "c3");
	rig_expect_sent(r, "00000102 00000000 c3");
	rig_expect_sent(r, "00000102 00000000 c3");
	rig_end_call(r, -ETIMEDOUT, NULL);
	rig_end_call(r, -ECONNRESET, NULL);
	CHECK_EQ(rig_call_status(r, 0), -ETIMEDOUT);
	CHECK_EQ(rig_call_status(r, 1), -ECONNRESET);
	rig_fail_sending(r, -EBUSY);
	rig_call(r, s, "c3");
	rig_call_async(r, s, "c3");
	CHECK_EQ(rig_call_status(r, 2), -EBUSY);
	CHECK_EQ(rig_call_status(r, 3), -EBUSY);
	rig_wire_refuse(r, -EHOSTUNREACH);
	rig_expect_open_fails(r, rig_to2(5, 1, XK_ANY), -EHOSTUNREACH);
}

RIG_SESSION_TEST(remote_errors_reach_the_caller, rig_new("select"), open_procedure(r))
{
	static const struct {
		const char *reply;
		int error;
	} errors[] = {
		{ "00000102 00000002", -EREMOTEIO },    /* FAILED */
		{ "00000102 00000003", -ENOSYS },       /* NO_PROCEDURE */
		{ "00000102 00000004", -ECONNREFUSED }, /* REFUSED */
		{ "00000102 00000105", -EIO },          /* 256 + 5 */
		{ "00000102 000010ff", -4095 },
		{ "00000102 0000016e", -EREMOTEIO }, /* 256 + ETIMEDOUT: another call's */
		{ "00000102 00000126", -EREMOTEIO }, /* 256 + ENOSYS */
		{ "00000102 00000003 0102", -ENOSYS },
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(errors); i++) {
		rig_call(r, s, "");
		rig_end_call(r, 0, errors[i].reply);
		CHECK_EQ(rig_call_status(r, i), errors[i].error);
	}
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_drop_count(r), 0);
	rig_forget(r);
}

RIG_SESSION_TEST(malformed_replies_are_dropped, rig_new("select"), open_procedure(r))
{
	static const struct {
		const char *reply, *drop;
	} replies[] = {
		{ "", "short" },
		{ "00000102 000000", "short" },
		{ "00000102 00000000 01", "bad_status" }, /* a call */
		{ "00000102 00000005", "bad_status" },    /* between the two kinds */
		{ "00000102 00000100", "bad_status" },    /* no error number */
		{ "00000102 00001100", "bad_status" },    /* too large */
		{ "00000102 ffffffff", "bad_status" },
		{ "00000103 00000001 01", "bad_reply" }, /* another procedure's */
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(replies); i++) {
		long before = rig_counter(r, replies[i].drop);

		rig_call(r, s, "");
		rig_end_call(r, 0, replies[i].reply);
		CHECK_EQ(rig_call_status(r, i), -EBADMSG);
		CHECK_EQ(rig_counter(r, replies[i].drop), before + 1);
	}
	CHECK_EQ(rig_drop_count(r), XK_ARRAY_LENGTH(replies));
	rig_expect_nothing_delivered(r);
	rig_forget(r);
}

RIG_TEST(procedure_numbers_have_32_bits, rig_new("select"))
{
	rig_expect_open_fails(r, rig_to2(5, UINT64_C(1) << 32, XK_ANY), -EINVAL);
	CHECK(rig_open(r, (struct xk_participants){ .remote.depth = 0 }) == NULL);
	CHECK_EQ(rig_error(r), -EINVAL);
	CHECK_EQ(rig_open_enable(r, at_port(UINT64_C(1) << 32)), -EINVAL);
	CHECK_EQ(rig_open_disable(r, at_port(XK_ANY)), -EINVAL);
	CHECK_EQ(rig_open_enable(r, rig_to2(5, 1, 1)), -EOPNOTSUPP);
	REQUIRE(rig_open(r, rig_to2(5, UINT32_MAX, XK_ANY)) != NULL);
	CHECK_EQ(rig_open_enable(r, at_port(0)), 0);
}

/* ---- server ---- */

RIG_TEST(call_reaches_the_server_of_its_procedure, rig_new_graph("wire:; select: wire; user: select; user2: select"))
{
	CHECK_EQ(rig_open_enable(r, at_port(0x102)), 0);
	rig_user(r, "user2");
	CHECK_EQ(rig_open_enable(r, at_port(0x102)), -EADDRINUSE);
	CHECK_EQ(rig_open_enable(r, at_port(0x103)), 0);
	rig_serve(r, 0, "0304");
	CHECK_EQ(rig_inject_call(r, NULL, "00000103 00000000 0102"), 0);
	rig_expect_delivered(r, "0102");
	CHECK(xk_hlp_receive(rig_delivered_session(r)) == rig_protocol(r, "user2"));
	rig_expect_sent(r, "00000103 00000001 0304");
	CHECK_EQ(rig_inject_call(r, NULL, "0000 | 0102 0000 | 0000"), 0);
	rig_expect_delivered(r, "");
	CHECK(xk_hlp_receive(rig_delivered_session(r)) == rig_protocol(r, "user"));
	rig_expect_sent(r, "00000102 00000001 0304");
	CHECK_EQ(rig_open_done_count(r), 2);
	CHECK_EQ(rig_inject_call(r, NULL, "00000102 00000000"), 0); /* on the same session */
	rig_expect_delivered(r, "");
	rig_expect_sent(r, "00000102 00000001 0304");
	CHECK_EQ(rig_open_done_count(r), 2);
	CHECK_EQ(rig_counter_of(r, "select", "served"), 3);
}

RIG_TEST(handler_may_reply_nothing, rig_new("select"))
{
	CHECK_EQ(rig_open_enable(r, at_port(0x102)), 0);
	rig_serve(r, 0, NULL);
	CHECK_EQ(rig_inject_call(r, NULL, "00000102 00000000 01"), 0);
	rig_expect_delivered(r, "01");
	rig_expect_sent(r, "00000102 00000001");
}

RIG_TEST(handlers_error_is_the_reply, rig_new("select"))
{
	static const struct {
		int status;
		const char *reply;
	} failures[] = {
		{ -EIO, "00000102 00000105" },
		{ -4095, "00000102 000010ff" },
		{ -4096, "00000102 00000002" },
		{ 1, "00000102 00000002" },
	};

	CHECK_EQ(rig_open_enable(r, at_port(0x102)), 0);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(failures); i++) {
		rig_serve(r, failures[i].status, NULL);
		CHECK_EQ(rig_inject_call(r, NULL, "00000102 00000000 01"), 0);
		rig_expect_delivered(r, "01");
		rig_expect_sent(r, failures[i].reply);
	}
	CHECK_EQ(rig_counter(r, "failed"), XK_ARRAY_LENGTH(failures));
}

RIG_TEST(call_of_an_unserved_procedure_fails, rig_new("select"))
{
	CHECK_EQ(rig_inject_call(r, NULL, "00000102 00000000 01"), 0);
	rig_expect_sent(r, "00000102 00000003");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK_EQ(rig_open_enable(r, at_port(0x102)), 0);
	rig_refuse_sessions(r, -EPERM);
	CHECK_EQ(rig_inject_call(r, NULL, "00000102 00000000 01"), 0);
	rig_expect_sent(r, "00000102 00000004");
	CHECK_EQ(rig_counter(r, "refused"), 1);
	rig_refuse_sessions(r, 0);
	rig_serve(r, 0, "");
	CHECK_EQ(rig_inject_call(r, NULL, "00000102 00000000 01"), 0);
	rig_expect_sent(r, "00000102 00000001");
	CHECK_EQ(rig_open_disable(r, at_port(0x102)), 0);
	CHECK_EQ(rig_open_disable(r, at_port(0x102)), -ENOENT);
	CHECK_EQ(rig_inject_call(r, NULL, "00000102 00000000 01"), 0);
	rig_expect_sent(r, "00000102 00000003");
	rig_expect_delivered(r, "01");
}

RIG_TEST(malformed_calls_are_dropped, rig_new("select"))
{
	CHECK_EQ(rig_open_enable(r, at_port(0x102)), 0);
	CHECK_EQ(rig_inject_call(r, NULL, ""), -EBADMSG);
	CHECK_EQ(rig_inject_call(r, NULL, "00000102 000000"), -EBADMSG);
	CHECK_EQ(rig_counter(r, "short"), 2);
	CHECK_EQ(rig_inject_call(r, NULL, "00000102 00000001 01"), -EBADMSG); /* a reply */
	CHECK_EQ(rig_inject_call(r, NULL, "00000102 80000000"), -EBADMSG);
	CHECK_EQ(rig_counter(r, "bad_status"), 2);
	CHECK_EQ(rig_drop_count(r), 4);
	CHECK_EQ(rig_open_done_count(r), 0);
	rig_expect_nothing_delivered(r);
}

RIG_TEST(sessions_end_with_their_channel, rig_new("select"))
{
	CHECK_EQ(rig_open_enable(r, at_port(0x102)), 0);
	CHECK_EQ(rig_open_enable(r, at_port(0x103)), 0);
	rig_serve(r, 0, "");
	CHECK_EQ(rig_inject_call(r, NULL, "00000102 00000000"), 0);
	rig_wire_peer(r, 0x98);
	CHECK_EQ(rig_inject_call(r, NULL, "00000102 00000000"), 0);
	CHECK_EQ(rig_inject_call(r, NULL, "00000103 00000000"), 0);
	CHECK_EQ(rig_open_done_count(r), 3);
	rig_close_done(r, rig_wire_newest_session(r));
	CHECK_EQ(rig_inject_call(r, NULL, "00000103 00000000"), 0);
	CHECK_EQ(rig_open_done_count(r), 4);
	rig_forget(r);
}

/* ---- without buffers ---- */

RIG_SESSION_TEST(select_drops_without_a_buffer, rig_new("select"), open_procedure(r))
{
	CHECK_EQ(rig_open_enable(r, at_port(0x102)), 0);
	rig_limit_buffers(r, 3); /* the call's own: its header, in three segments, cannot be pulled up */
	CHECK_EQ(rig_inject_call(r, NULL, "0000 | 0102 0000 | 0000"), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	rig_limit_buffers(r, UINT_MAX);
	rig_call(r, s, "");
	rig_limit_buffers(r, 3);
	rig_end_call(r, 0, "0000 | 0102 0000 | 0001");
	CHECK_EQ(rig_call_status(r, 0), -EBADMSG);
	CHECK_EQ(rig_counter(r, "no_buffer"), 2);
	rig_limit_buffers(r, UINT_MAX);
	rig_forget(r);
}

struct calling {
	struct rig *r;
	struct xk_session *s;
	int status;
};

/* A message that shares another's bytes has no headroom: its header needs a buffer of its own. */
static void
call_and_keep(void *argument)
{
	struct calling *c = argument;
	struct xk_msg *m = xk_msg_from(rig_platform(c->r), "\1", 1), *other = xk_msg_reference(m), *reply;

	REQUIRE(m != NULL && other != NULL);
	rig_limit_buffers(c->r, 0);
	c->status = xk_call(c->s, other, &reply);
	rig_limit_buffers(c->r, UINT_MAX);
	xk_msg_free(m);
}

RIG_TEST(call_needs_a_buffer_for_its_header, rig_new("select"))
{
	struct calling c = { r, open_procedure(r), 0 };

	CHECK(rig_do(r, call_and_keep, &c));
	CHECK_EQ(c.status, -ENOBUFS);
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	rig_expect_nothing_sent(r);
}

/* ---- controls ---- */

RIG_SESSION_TEST(lengths_and_participants_account_for_selects_header, rig_new("select"), open_procedure(r))
{
	struct xk_participants who;
	uint32_t length, little = 4;

	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &length), 0);
	CHECK_EQ(length, 1492);
	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &length), 0);
	CHECK_EQ(length, 1492);
	rig_answer_control(r, XK_GET_MAX_PACKET, &little, sizeof(little));
	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &length), -EMSGSIZE);
	rig_answer_control(r, XK_GET_MAX_PACKET, NULL, 0);
	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &length), -ENOTSUP);
	CHECK_EQ(xk_get_participants(s, &who), 0);
	CHECK_EQ(xk_participant_pop(&who.remote), 0x102);
	CHECK_EQ(xk_participant_pop(&who.remote), 5);
	CHECK_EQ(rig_open_enable(r, at_port(0x103)), 0);
	rig_serve(r, 0, "");
	rig_wire_peer(r, 0x98);
	CHECK_EQ(rig_inject_call(r, NULL, "00000103 00000000"), 0);
	CHECK_EQ(xk_get_participants(rig_announced_session(r), &who), 0);
	CHECK_EQ(xk_participant_pop(&who.local), 0x103);
	CHECK_EQ(xk_participant_pop(&who.remote), 0x98);
	rig_forget(r);
}

/* ---- over VCHAN ---- */

RIG_TEST(concurrent_calls_use_vchan, rig_new_graph("wire:; vchan: wire; vchan.opened=2; select: vchan; user: select"))
{
	struct xk_session *s = open_procedure(r), *other = rig_open(r, rig_to2(5, 0x103, XK_ANY));

	REQUIRE(other != NULL);
	CHECK_EQ(rig_wire_session_count(r), 2); /* both procedures' channels */
	rig_call(r, s, "01");
	rig_call_async(r, other, "02");
	rig_expect_sent(r, "00000102 00000000 01");
	rig_expect_sent(r, "00000103 00000000 02");
	rig_end_call(r, 0, "00000102 00000001 a1");
	rig_expect_delivered(r, "a1");
	rig_end_call(r, 0, "00000103 00000001 a2");
	rig_expect_delivered(r, "a2");
	CHECK_EQ(rig_open_enable(r, at_port(7)), 0);
	rig_serve(r, 0, "b7");
	rig_wire_peer(r, 0x98);
	CHECK_EQ(rig_inject_call(r, NULL, "00000007 00000000 07"), 0);
	rig_expect_delivered(r, "07");
	rig_expect_sent(r, "00000007 00000001 b7");
}
