/* test_am.c - Active Messages: handlers run where the message says, answers make room, and hostile messages do nothing. */
#include <limits.h>

#include "protocols/am/am.h"
#include "protocols/bid/boot.h"
#include "tests/protocols/bare.h"
#include "tests/rig.h"
#include "xkernel/upi.h"

enum { ADD = 3, SUM = 4, SLOW = 0x12, LAST = XK_AM_HANDLERS - 1 };

/* What the handlers have seen. */
static struct {
	unsigned adds, sums, slows;
	size_t len;
	bool replies, had_reply;
	unsigned reply_number;
	size_t longer; /* bytes by which a reply exceeds its request */
	struct rig *r;
} seen;

static void
note(struct xk_msg *m, struct xk_am_reply *reply)
{
	seen.len = xk_msg_len(m);
	seen.had_reply = reply != NULL;
	if (seen.longer != 0) {
		uint8_t *p = xk_msg_push(&m, seen.longer);

		REQUIRE(p != NULL);
		memset(p, 0xee, seen.longer);
	}
	if (reply != NULL && seen.replies)
		*reply = (struct xk_am_reply){ seen.reply_number, m };
	else
		xk_msg_free(m);
}

static void
run_add(void *argument, struct xk_session *lls, struct xk_msg *m, struct xk_am_reply *reply)
{
	CHECK(lls != NULL);
	++*(unsigned *)argument;
	note(m, reply);
}

static const struct xk_am_handler handlers[] = {
	{ run_add, &seen.adds, false },
	{ run_add, &seen.sums, false },
	{ run_add, &seen.slows, true },
};

static struct rig *
am_rig(const char *settings)
{
	struct rig *r = rig_new(settings);
	struct xk_protocol *am = rig_protocol(r, "am");

	memset(&seen, 0, sizeof(seen));
	seen.r = r;
	CHECK_EQ(xk_am_register(am, ADD, &handlers[0]), 0);
	CHECK_EQ(xk_am_register(am, SUM, &handlers[1]), 0);
	CHECK_EQ(xk_am_register(am, SLOW, &handlers[2]), 0);
	return r;
}

/* An answer to what was sent last as `request` (its header's bytes): the same sequence and session. */
static void
answer(struct rig *r, const uint8_t *request, uint8_t kind, uint8_t handler, size_t len)
{
	uint8_t bytes[64] = { kind, 0, 0, handler };

	memcpy(bytes + 4, request + 4, 4);
	bytes[11] = (uint8_t)len;
	memcpy(bytes + 12, request + 12, 8);
	rig_inject_bytes(r, bytes, 20 + len);
}

static void
take(struct rig *r, uint8_t request[20])
{
	CHECK(rig_take_sent(r, request, 20) >= 20);
}

#define REPLY(r, request) answer(r, request, 2, SUM, 0)
#define ACK(r, request) answer(r, request, 3, 0, 0)

static struct xk_session *
open_am(struct rig *r)
{
	struct xk_session *s = rig_open(r, rig_to(5));

	REQUIRE(s != NULL);
	return s;
}

static uint32_t
count(struct xk_session *s, int op)
{
	uint32_t value = 99;

	CHECK_EQ(xk_control(s, op, &value, sizeof(value)), 4);
	return value;
}

/* ---- requests that arrive ---- */

TEST(a_request_runs_its_handler_and_is_acknowledged)
{
	struct rig *r = am_rig("am");

	rig_inject(r, "01 00 0003 01020304 00000002 1112131415161718 c3c3 000000"); /* padded by the link */
	CHECK_EQ(seen.adds, 1);
	CHECK_EQ(seen.len, 2);
	CHECK(seen.had_reply);
	rig_expect_sent(r, "03 00 0000 01020304 00000000 1112131415161718");
	CHECK_EQ(rig_counter(r, "requests"), 1);
	CHECK_EQ(rig_counter(r, "acked"), 1);
	CHECK_EQ(rig_counter(r, "left"), 0);
	CHECK_EQ(rig_drops(r), 0);
	rig_free(r);
}

TEST(a_handler_replies_by_another)
{
	struct rig *r = am_rig("am");

	seen.replies = true;
	seen.reply_number = LAST;
	rig_inject(r, "01 00 0003 01 | 020304 00000002 1112131415161718 | c3 | c4");
	rig_expect_sent(r, "02 00 00ff 01020304 00000002 1112131415161718 c3c4");
	CHECK_EQ(rig_counter(r, "acked"), 0);
	rig_free(r);
}

/* The limit includes headers of 20 bytes: three times 24 is 72. */
TEST(a_reply_that_is_long_for_its_request_is_not_sent)
{
	struct rig *r = am_rig("am");
	uint8_t sent[128];

	seen.replies = true;
	seen.longer = 48;
	rig_inject(r, "01 00 0003 01020304 00000004 1112131415161718 c3c4c5c6");
	CHECK_EQ(rig_take_sent(r, sent, sizeof(sent)), 72);
	CHECK_EQ(rig_counter(r, "too_long"), 0);
	seen.longer = 49;
	rig_inject(r, "01 00 0003 01020305 00000004 1112131415161718 c3c4c5c6");
	rig_expect_sent(r, "03 00 0000 01020305 00000000 1112131415161718");
	CHECK_EQ(rig_counter(r, "too_long"), 1);
	CHECK_EQ(rig_counter(r, "acked"), 1);
	rig_free(r);
}

static void
do_request_confirmed(void *argument)
{
	static const uint8_t request[20] = { 1, 0, 0, ADD };
	struct xk_msg *m = xk_msg_from(rig_platform(argument), request, sizeof(request));

	REQUIRE(m != NULL);
	xk_msg_annotate(m, XK_OF_MESSAGE, XK_FROM_BOOT, 1);
	xk_demux(rig_wire_session(argument), m);
}

TEST(a_reply_to_a_host_that_is_confirmed_may_be_long)
{
	struct rig *r = am_rig("am");
	uint8_t sent[128];

	seen.replies = true;
	seen.longer = 100;
	rig_inject(r, "01 00 0003 01020304 00000000 1112131415161718"); /* opens the session below */
	CHECK_EQ(rig_counter(r, "too_long"), 1);
	rig_forget(r);
	CHECK(rig_do(r, do_request_confirmed, r));
	CHECK_EQ(rig_take_sent(r, sent, sizeof(sent)), 120);
	CHECK_EQ(rig_counter(r, "too_long"), 1);
	rig_free(r);
}

/* Of the sender's place in its window, at least. */
TEST(a_request_that_nobody_handles_is_acknowledged)
{
	struct rig *r = am_rig("am");

	rig_inject(r, "01 00 0005 01020304 00000000 1112131415161718");
	rig_expect_sent(r, "03 00 0000 01020304 00000000 1112131415161718");
	CHECK_EQ(rig_counter(r, "no_handler"), 1);
	CHECK_EQ(rig_counter(r, "requests"), 0);
	rig_free(r);
}

TEST(a_handler_that_may_wait_runs_outside_of_the_driver)
{
	struct rig *r = am_rig("am");

	rig_inject(r, "01 00 0012 01020304 00000000 1112131415161718");
	CHECK_EQ(seen.slows, 1);
	CHECK_EQ(rig_counter(r, "left"), 1);
	rig_expect_sent(r, "03 *");
	rig_free(r);
}

TEST(an_answer_that_cannot_be_sent_is_counted)
{
	struct rig *r = am_rig("am");

	rig_fail_sending(r, -ENOBUFS);
	rig_inject(r, "01 00 0003 01020304 00000000 1112131415161718");
	CHECK_EQ(rig_counter(r, "unsent"), 1);
	seen.replies = true;
	rig_inject(r, "01 00 0003 01020304 00000000 1112131415161718");
	CHECK_EQ(rig_counter(r, "unsent"), 2);
	CHECK_EQ(rig_counter_of(r, "wire", "no_buffer"), 2);
	rig_free(r);
}

/* ---- requests that are made ---- */

struct requesting {
	struct xk_session *s;
	unsigned number;
	size_t len;
	int status;
};

static void
do_request(void *argument)
{
	struct requesting *q = argument;
	struct xk_msg *m = xk_msg_new(xk_platform_of(q->s->protocol), q->len);

	REQUIRE(m != NULL);
	memset(m->data, 0xc3, q->len);
	q->status = xk_am_request(q->s, q->number, m);
}

static int
request(struct rig *r, struct xk_session *s, unsigned number)
{
	struct requesting q = { s, number, 1, 0 };

	REQUIRE(rig_do(r, do_request, &q));
	return q.status;
}

TEST(a_request_names_its_handler_and_its_session)
{
	struct rig *r = am_rig("am");
	struct xk_session *s = open_am(r);
	uint8_t first[20], second[20];

	CHECK_EQ(request(r, s, ADD), 0);
	CHECK_EQ(rig_push(r, s, "00 | 12"), 0);
	take(r, first);
	take(r, second);
	CHECK(memcmp(first, "\1\0\0\3", 4) == 0 && memcmp(first + 8, "\0\0\0\1", 4) == 0);
	CHECK(memcmp(second, "\1\0\0\x12", 4) == 0 && memcmp(second + 8, "\0\0\0\0", 4) == 0);
	CHECK(memcmp(first + 12, second + 12, 8) == 0);
	CHECK_EQ(xk_get32(second + 4) - xk_get32(first + 4), 1);
	CHECK_EQ(count(s, XK_AM_GET_UNANSWERED), 2);
	answer(r, second, 2, SUM, 3);
	CHECK_EQ(seen.sums, 1);
	CHECK_EQ(seen.len, 3);
	CHECK(!seen.had_reply);
	ACK(r, first);
	CHECK_EQ(count(s, XK_AM_GET_UNANSWERED), 0);
	CHECK_EQ(rig_counter(r, "replies"), 1);
	CHECK_EQ(rig_counter(r, "acks"), 1);
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 1000);
	CHECK_EQ(rig_counter(r, "lost"), 0);
	rig_free(r);
}

TEST(each_open_is_a_session_of_its_own)
{
	struct rig *r = am_rig("am");
	struct xk_session *a = open_am(r), *b = open_am(r);
	uint8_t of_a[20], of_b[20];

	CHECK(a != b);
	CHECK_EQ(request(r, a, ADD), 0);
	CHECK_EQ(request(r, b, ADD), 0);
	take(r, of_a);
	take(r, of_b);
	CHECK(memcmp(of_a + 12, of_b + 12, 8) != 0);
	ACK(r, of_a); /* whichever way it comes */
	CHECK_EQ(count(a, XK_AM_GET_UNANSWERED), 0);
	CHECK_EQ(count(b, XK_AM_GET_UNANSWERED), 1);
	rig_wire_refuse(r, -EHOSTUNREACH);
	CHECK(rig_open(r, rig_to(6)) == NULL);
	CHECK_EQ(rig_error(r), -EHOSTUNREACH);
	rig_advance_ms(r, 1000);
	rig_free(r);
}

TEST(an_answer_is_taken_once)
{
	struct rig *r = am_rig("am");
	struct xk_session *s = open_am(r);
	uint8_t bytes[20];

	CHECK_EQ(request(r, s, ADD), 0);
	take(r, bytes);
	REPLY(r, bytes);
	REPLY(r, bytes);
	ACK(r, bytes);
	CHECK_EQ(seen.sums, 1);
	CHECK_EQ(rig_counter(r, "stale"), 2);
	bytes[7] ^= 1; /* never asked */
	REPLY(r, bytes);
	CHECK_EQ(rig_counter(r, "stale"), 3);
	bytes[19] ^= 1; /* nobody's */
	REPLY(r, bytes);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK_EQ(seen.sums, 1);
	rig_advance_ms(r, 1000);
	rig_free(r);
}

TEST(a_reply_that_nobody_handles_makes_room_all_the_same)
{
	struct rig *r = am_rig("am");
	struct xk_session *s = open_am(r);
	uint8_t bytes[20];

	CHECK_EQ(request(r, s, ADD), 0);
	take(r, bytes);
	answer(r, bytes, 2, 9, 0);
	CHECK_EQ(rig_counter(r, "no_handler"), 1);
	CHECK_EQ(count(s, XK_AM_GET_UNANSWERED), 0);
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 1000);
	rig_free(r);
}

/* ---- how many ---- */

/* ... and what an answer makes room for is sent outside of the driver. */
TEST(requests_wait_for_room)
{
	struct rig *r = am_rig("am outstanding=2 queue=2");
	struct xk_session *s = open_am(r);
	uint8_t bytes[4][20];

	for (unsigned i = 0; i < 4; i++)
		CHECK_EQ(request(r, s, ADD + i % 2), 0);
	CHECK_EQ(request(r, s, ADD), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "queue_full"), 1);
	CHECK_EQ(count(s, XK_AM_GET_WAITING), 2);
	CHECK_EQ(rig_sent(r), 2);
	take(r, bytes[0]);
	take(r, bytes[1]);
	ACK(r, bytes[1]);
	CHECK_EQ(rig_counter(r, "left"), 1);
	take(r, bytes[2]);
	CHECK_EQ(bytes[2][3], ADD);
	REPLY(r, bytes[0]);
	CHECK_EQ(rig_counter(r, "left"), 2);
	take(r, bytes[3]);
	CHECK_EQ(bytes[3][3], SUM);
	CHECK_EQ(xk_get32(bytes[3] + 4) - xk_get32(bytes[0] + 4), 3);
	ACK(r, bytes[2]);
	ACK(r, bytes[3]);
	CHECK_EQ(rig_counter(r, "left"), 2); /* a little book-keeping: in the driver */
	CHECK_EQ(count(s, XK_AM_GET_UNANSWERED), 0);
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 1000);
	rig_free(r);
}

TEST(nothing_may_have_to_wait)
{
	struct rig *r = am_rig("am outstanding=1 queue=0");
	struct xk_session *s = open_am(r);
	uint8_t bytes[20];

	CHECK_EQ(request(r, s, ADD), 0);
	CHECK_EQ(request(r, s, ADD), -ENOBUFS);
	take(r, bytes);
	ACK(r, bytes);
	CHECK_EQ(request(r, s, ADD), 0);
	take(r, bytes);
	ACK(r, bytes);
	rig_advance_ms(r, 1000);
	rig_free(r);
}

TEST(what_is_not_answered_in_time_is_lost_and_makes_room)
{
	struct rig *r = am_rig("am outstanding=1 timeout=100ms");
	struct xk_session *s = open_am(r);
	uint8_t first[20], second[20];

	CHECK_EQ(request(r, s, ADD), 0);
	CHECK_EQ(request(r, s, ADD), 0);
	take(r, first);
	rig_advance_ms(r, 99);
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 2);
	take(r, second);
	CHECK_EQ(rig_counter(r, "lost"), 1);
	ACK(r, first);
	CHECK_EQ(rig_counter(r, "stale"), 1);
	CHECK_EQ(count(s, XK_AM_GET_UNANSWERED), 1);
	rig_advance_ms(r, 50);
	ACK(r, second);
	CHECK_EQ(request(r, s, ADD), 0); /* while the timer of the one before is pending */
	take(r, first);
	rig_advance_ms(r, 99);
	CHECK_EQ(rig_counter(r, "lost"), 1);
	rig_advance_ms(r, 2);
	CHECK_EQ(rig_counter(r, "lost"), 2);
	rig_free(r);
}

TEST(a_session_that_is_closed_lives_until_all_is_answered)
{
	struct rig *r = am_rig("am outstanding=1");
	struct xk_session *s = open_am(r);
	uint8_t bytes[20];

	CHECK_EQ(request(r, s, ADD), 0);
	CHECK_EQ(request(r, s, SUM), 0);
	take(r, bytes);
	rig_close(r, s);
	CHECK_EQ(rig_wire_sessions(r), 1);
	ACK(r, bytes);
	take(r, bytes);
	REPLY(r, bytes);
	CHECK_EQ(seen.sums, 1);
	rig_advance_ms(r, 1000);
	CHECK_EQ(rig_wire_sessions(r), 0);
	rig_free(r);
}

TEST(a_host_may_end_with_requests_under_way)
{
	struct bare b = bare_new("am");
	struct xk_session *s = bare_session(&b);

	for (unsigned i = 0; i < 8 + 16; i++)
		CHECK_EQ(xk_push(s, xk_msg_from(b.platform, "\0\3", 2)), 0);
	CHECK_EQ(count(s, XK_AM_GET_WAITING), 16);
	xk_close(s);
	bare_free(&b);
}

/* ---- what makes no sense ---- */

TEST(messages_that_make_no_sense_are_dropped)
{
	static const struct {
		const char *hex, *drop;
	} messages[] = {
		{ "", "short" },
		{ "01 00 0003 01020304 00000000 11121314151617", "short" },
		{ "00 00 0003 01020304 00000000 1112131415161718", "bad_kind" },
		{ "04 00 0003 01020304 00000000 1112131415161718", "bad_kind" },
		{ "01 01 0003 01020304 00000000 1112131415161718", "bad_kind" },
		{ "01 00 0003 01020304 00000001 1112131415161718", "bad_length" },
		{ "01 00 0003 01020304 ffffffff 1112131415161718 01", "bad_length" },
		{ "03 00 0000 01020304 00000001 1112131415161718 01", "bad_length" },
		{ "01 00 0100 01020304 00000000 1112131415161718", "bad_handler" },
		{ "02 00 ffff 01020304 00000000 1112131415161718", "bad_handler" },
		{ "03 00 0001 01020304 00000000 1112131415161718", "bad_handler" },
		{ "02 00 0003 01020304 00000000 1112131415161718", "no_session" },
		{ "03 00 0000 01020304 00000000 1112131415161718", "no_session" },
	};
	struct rig *r = am_rig("am");

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(messages); i++) {
		long before = rig_counter(r, messages[i].drop);

		rig_inject(r, messages[i].hex);
		CHECK_EQ(rig_counter(r, messages[i].drop), before + 1);
	}
	CHECK_EQ(rig_drops(r), XK_ARRAY_LENGTH(messages));
	CHECK_EQ(seen.adds + seen.sums + seen.slows, 0);
	rig_expect_nothing_sent(r);
	rig_inject_prefixes(r, "01 00 0003 01020304 00000000 1112131415161718");
	CHECK_EQ(rig_counter(r, "short"), 22);
	rig_free(r);
}

TEST(what_is_pushed_must_be_a_request)
{
	struct rig *r = am_rig("am");
	struct xk_session *s = open_am(r);

	CHECK_EQ(rig_push(r, s, ""), -EINVAL);
	CHECK_EQ(rig_push(r, s, "00"), -EINVAL);
	CHECK_EQ(rig_push(r, s, "0100"), -EINVAL);
	CHECK_EQ(rig_counter(r, "bad_request"), 3);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

/* Over a link: its answers would be everybody's. */
TEST(requests_to_everybody_are_not_run)
{
	struct rig *r = rig_new_graph("port:; eth: port; am: eth; user: am");

	memset(&seen, 0, sizeof(seen));
	CHECK_EQ(xk_am_register(rig_protocol(r, "am"), ADD, &handlers[0]), 0);
	rig_inject(r, "ffffffffffff 0200000000aa 3007 01 00 0003 01020304 00000000 1112131415161718");
	CHECK_EQ(rig_counter(r, "to_all"), 1);
	CHECK_EQ(seen.adds, 0);
	rig_inject(r, "020000000001 0200000000aa 3007 01 00 0003 01020304 00000000 1112131415161718 0000");
	rig_expect_sent(r, "0200000000aa 020000000001 3007 03 00 0000 01020304 00000000 1112131415161718");
	CHECK_EQ(seen.adds, 1);
	rig_free(r);
}

struct kept {
	struct rig *r;
	struct xk_session *s;
	unsigned buffers;
	int status;
};

/* What shares the bytes of another has no room in front: headers need a buffer of their own. */
static void
request_and_keep(void *argument)
{
	struct kept *kept = argument;
	struct xk_msg *m = xk_msg_from(rig_platform(kept->r), "\0\3", 2), *other = xk_msg_reference(m);

	REQUIRE(m != NULL && other != NULL);
	rig_limit_buffers(kept->r, 0);
	kept->status = kept->buffers == 0 ? xk_am_request(kept->s, ADD, other) : xk_push(kept->s, other);
	rig_limit_buffers(kept->r, UINT_MAX);
	xk_msg_free(m);
}

TEST(am_drops_for_want_of_a_buffer)
{
	struct rig *r = am_rig("am");
	struct kept kept = { r, open_am(r), 0, 0 };

	for (unsigned i = 0; i < 2; i++) {
		kept.buffers = i;
		CHECK(rig_do(r, request_and_keep, &kept));
		CHECK_EQ(kept.status, -ENOBUFS);
		CHECK_EQ(rig_counter(r, "no_buffer"), 1 + i);
	}
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(handlers_are_registered_once)
{
	struct rig *r = am_rig("am");
	struct xk_protocol *am = rig_protocol(r, "am");
	struct xk_am_handler none = { NULL, NULL, false };
	uint8_t little;

	CHECK_EQ(xk_am_register(am, ADD, &handlers[1]), -EEXIST);
	CHECK_EQ(xk_am_register(am, XK_AM_HANDLERS, &handlers[1]), -EINVAL);
	CHECK_EQ(xk_am_register(am, 9, &none), -EINVAL);
	CHECK_EQ(xk_am_register(am, LAST, &handlers[1]), 0);
	CHECK_EQ(xk_control_protocol(am, XK_AM_REGISTER, &little, sizeof(little)), -EMSGSIZE);
	rig_free(r);
}

TEST(lengths_are_those_below_less_the_header)
{
	struct rig *r = am_rig("am");
	struct xk_session *s = open_am(r);
	uint32_t length;
	uint64_t peer;

	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &length, sizeof(length)), 4);
	CHECK_EQ(length, 1482); /* the handler's number included */
	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &length, sizeof(length)), 4);
	CHECK_EQ(length, 1482);
	rig_answer(r, XK_GET_OPT_PACKET, NULL, 0);
	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &length, sizeof(length)), -ENOTSUP);
	CHECK_EQ(xk_control(s, XK_GET_PEER_HOST, &peer, sizeof(peer)), 8);
	CHECK_EQ(peer, 5);
	rig_free(r);
}
