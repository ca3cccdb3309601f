/* test_am.c - Active Messages: sessions, requests sent, answered and returned, and hostile messages. */
#include <limits.h>

#include "platform/sim/memory.h"
#include "tests/protocols/am_rig.h"
#include "tests/protocols/bare.h"

enum { TELL = 4, LAST = XK_AM_HANDLERS - 1 };

/* The messages that the handlers received. */
static struct {
	unsigned tells, returns;
	struct xk_am_arrival arrival;
	bool had_reply;
	char text[64];
	int status;
	unsigned number;
} seen;

static void
take_text(struct xk_msg *m)
{
	size_t len = xk_msg_len(m) < sizeof(seen.text) ? xk_msg_len(m) : sizeof(seen.text) - 1;

	CHECK(xk_msg_copy_out(m, 0, seen.text, len));
	seen.text[len] = '\0';
	xk_msg_free(m);
}

static void
tell(void *argument, const struct xk_am_arrival *arrival, struct xk_msg *m, struct xk_am_reply *reply)
{
	++*(unsigned *)argument;
	seen.arrival = *arrival;
	seen.had_reply = reply != NULL;
	take_text(m);
}

static void
returned(void *argument, struct xk_session *s, unsigned number, struct xk_msg *m, int status)
{
	++*(unsigned *)argument;
	CHECK(s != NULL);
	seen.number = number;
	seen.status = status;
	take_text(m);
}

static const struct xk_am_handler teller = { tell, &seen.tells, false };
static const struct xk_am_endpoint with_returns = { .returned = returned, .argument = &seen.returns };

static struct rig *
client_rig(const char *settings)
{
	struct rig *r = rig_new(settings);
	struct xk_protocol *am = rig_protocol(r, "am");

	memset(&seen, 0, sizeof(seen));
	CHECK_EQ(xk_am_register(am, NAME, TELL, &teller), 0);
	CHECK_EQ(xk_am_set_endpoint(am, NAME, &with_returns), 0);
	return r;
}

/* ---- sending requests ---- */

struct requesting {
	struct xk_session *s;
	struct xk_am_push push;
	const char *text;
	size_t len; /* number of zeros; 0: text */
	int status;
};

static void
do_request(void *argument)
{
	struct requesting *q = argument;
	struct xk_platform *platform = xk_platform_of(q->s->protocol);
	struct xk_msg *m = NULL;

	if (q->len != 0)
		m = xk_msg_new(platform, q->len);
	else if (q->text != NULL)
		m = xk_msg_from(platform, q->text, strlen(q->text));
	for (struct xk_msg *part = q->len != 0 ? m : NULL; part != NULL; part = part->next)
		memset(part->data, 0, part->len);
	q->status = xk_am_request(q->s, &q->push, m);
}

static int
request_push(struct rig *r, struct xk_session *s, struct xk_am_push push, const char *text, size_t len)
{
	struct requesting q = { s, push, text, len, 0 };

	REQUIRE(rig_do(r, do_request, &q));
	return q.status;
}

static int
request(struct rig *r, struct xk_session *s, unsigned number, const char *text)
{
	return request_push(r, s, (struct xk_am_push){ .number = number }, text, 0);
}

static uint32_t
count(struct xk_session *s, int op)
{
	uint32_t value = 99;

	CHECK_EQ(xk_control_op(s, op, &value), 0);
	return value;
}

AM_SESSION_TEST(first_request_calls_the_peer, client_rig("am"), open_am(r))
{
	struct message m;
	uint64_t number;

	rig_expect_nothing_sent(r);
	CHECK_EQ(request_push(r, s, (struct xk_am_push){ .number = 3, .count = 2, .words = { 5, 6 } }, "ab", 0), 0);
	CHECK_EQ(count(s, XK_AM_GET_WAITING), 1);
	number = answer_call(r);
	m = expect(r, AM_REQUEST);
	CHECK(m.h.to == PEER && m.h.from == number);
	CHECK_EQ(m.h.handler, 3);
	CHECK_EQ(m.h.words, 2);
	CHECK_EQ(m.h.sequence, 0);
	CHECK_EQ(m.h.oldest, 0);
	CHECK_EQ(m.h.length, 10);
	CHECK_EQ(memcmp(m.bytes, "\0\0\0\5\0\0\0\6ab", 10), 0);
	CHECK_EQ(count(s, XK_AM_GET_UNANSWERED), 1);
	answer(r, &m, AM_ACK, 0, "");
	CHECK_EQ(count(s, XK_AM_GET_UNANSWERED), 0);
	CHECK_EQ(rig_counter(r, "acks"), 1);
	CHECK_EQ(request(r, s, 3, NULL), 0);
	m = expect(r, AM_REQUEST);
	CHECK_EQ(m.h.sequence, 1);
	CHECK_EQ(m.h.oldest, 1);
	CHECK_EQ(m.h.length, 0);
	answer(r, &m, AM_ACK, 0, "");
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_drop_count(r), 0);
}

AM_SESSION_TEST(a_reply_runs_its_handler_once_and_is_taken, client_rig("am"), open_am(r))
{
	struct message m;

	CHECK_EQ(request(r, s, 3, "x"), 0);
	answer_call(r);
	m = expect(r, AM_REQUEST);
	inject_bytes(r, (struct am_header){ AM_REPLY, 1, TELL, 0, 0, 7, m.h.from, PEER }, "\0\0\0\x2ayes", 7);
	CHECK_EQ(seen.tells, 1);
	CHECK_STR(seen.text, "yes");
	CHECK_EQ(seen.arrival.count, 1);
	CHECK_EQ(seen.arrival.words[0], 42);
	CHECK(seen.arrival.session == s && !seen.had_reply);
	CHECK_EQ(rig_counter(r, "replies"), 1);
	expect_answer(r, AM_TAKEN, 0, 0);
	answer(r, &m, AM_REPLY, TELL, "no"); /* the first TAKEN was lost */
	expect_answer(r, AM_TAKEN, 0, 0);
	CHECK_EQ(seen.tells, 1);
	CHECK_EQ(rig_counter(r, "stale"), 1);
	CHECK_EQ(request(r, s, 3, "x"), 0);
	m = expect(r, AM_REQUEST);
	answer(r, &m, AM_REPLY, LAST, "nobody's");
	CHECK_EQ(rig_counter(r, "no_handler"), 1);
	expect_answer(r, AM_TAKEN, 1, 0);
}

AM_SESSION_TEST(refused_request_returns_to_its_error_handler, client_rig("am"), open_am(r))
{
	static const struct {
		unsigned reason;
		int status;
	} reasons[] = { { AM_R_NO_HANDLER, -ENOENT }, { AM_R_REGION, -EFAULT }, { AM_R_FORGOTTEN, -ECONNRESET } };
	struct message m;

	CHECK_EQ(request_push(r, s, (struct xk_am_push){ .number = 3, .count = 1, .words = { 0x41424344 } }, "e", 0),
		 0);
	answer_call(r);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(reasons); i++) {
		m = expect(r, AM_REQUEST);
		answer(r, &m, AM_REFUSED, reasons[i].reason, "");
		CHECK_EQ(seen.returns, i + 1);
		CHECK_EQ(seen.status, reasons[i].status);
		CHECK_EQ(seen.number, 3);
		CHECK_STR(seen.text, "ABCDe");
		CHECK_EQ(request_push(r, s, (struct xk_am_push){ .number = 3, .count = 1, .words = { 0x41424344 } },
				      "e", 0),
			 0);
	}
	CHECK_EQ(rig_counter(r, "returned"), 3);
	m = expect(r, AM_REQUEST);
	answer(r, &m, AM_ACK, 0, "");
}

/* The session's endpoint has no error handler. */
AM_SESSION_TEST(returned_request_without_error_handler_is_dropped, client_rig("am patience=300ms"),
		rig_must_open(r, rig_to2(PEER_HOST, THERE, XK_ANY)))
{
	struct message m;

	CHECK_EQ(request(r, s, 3, "x"), 0);
	answer_call(r);
	m = expect(r, AM_REQUEST);
	answer(r, &m, AM_REFUSED, AM_R_NO_HANDLER, "");
	CHECK_EQ(rig_counter(r, "undelivered"), 1);
	CHECK_EQ(request(r, s, 3, "x"), 0);
	m = expect(r, AM_REQUEST);
	inject(r, (struct am_header){ .kind = AM_GONE, .handler = AM_R_FORGOTTEN, .to = m.h.from, .from = PEER }, "");
	CHECK_EQ(rig_counter(r, "peer_gone"), 1);
	CHECK_EQ(request(r, s, 3, "x"), 0); /* calls again */
	answer_call(r);
	expect(r, AM_REQUEST);
	rig_advance_ms(r, 2000);
	CHECK_EQ(rig_counter(r, "gave_up"), 1);
	CHECK_EQ(seen.returns, 0);
}

AM_SESSION_TEST(unanswered_request_backs_off_and_is_returned,
		client_rig("am timeout=100ms timeout_max=400ms patience=1s"), open_am(r))
{
	struct message first, again;

	CHECK_EQ(request(r, s, 3, "x"), 0);
	answer_call(r);
	first = expect(r, AM_REQUEST);
	rig_expect_silence_ms(r, 99);
	rig_advance_ms(r, 2);
	again = expect(r, AM_REQUEST);
	CHECK(again.h.sequence == first.h.sequence && again.bytes[0] == 'x');
	rig_expect_silence_ms(r, 198);
	rig_advance_ms(r, 4);
	expect(r, AM_REQUEST);
	CHECK_EQ(rig_counter(r, "retransmitted"), 2);
	rig_advance_ms(r, 2000);
	rig_forget(r);
	CHECK_EQ(seen.returns, 1);
	CHECK_EQ(seen.status, -ETIMEDOUT);
	answer(r, &first, AM_ACK, 0, ""); /* too late */
	CHECK_EQ(rig_counter(r, "stale"), 1);
	CHECK_EQ(request(r, s, 3, "y"), 0); /* the session goes on */
	again = expect(r, AM_REQUEST);
	CHECK_EQ(again.h.sequence, 1);
	CHECK_EQ(again.h.oldest, 1);
	answer(r, &again, AM_ACK, 0, "");
}

AM_SESSION_TEST(lost_request_does_not_delay_others, client_rig("am"), open_am(r))
{
	struct message m[3];

	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(request(r, s, 3, "x"), 0);
	answer_call(r);
	for (unsigned i = 0; i < 3; i++)
		m[i] = expect(r, AM_REQUEST);
	answer(r, &m[2], AM_ACK, 0, "");
	answer(r, &m[1], AM_ACK, 0, "");
	CHECK_EQ(count(s, XK_AM_GET_UNANSWERED), 1);
	rig_advance_ms(r, 300);
	m[1] = expect(r, AM_REQUEST);
	CHECK_EQ(m[1].h.sequence, 0);
	rig_expect_nothing_sent(r);
	answer(r, &m[1], AM_ACK, 0, "");
	CHECK_EQ(request(r, s, 3, "x"), 0);
	CHECK_EQ(expect(r, AM_REQUEST).h.oldest, 3);
}

AM_SESSION_TEST(requests_in_flight_are_limited_by_credits, client_rig("am outstanding=8 queue=2"), open_am(r))
{
	struct message m[8];

	for (unsigned i = 0; i < 10; i++)
		CHECK_EQ(request(r, s, 3, "x"), 0);
	CHECK_EQ(request(r, s, 3, "x"), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "queue_full"), 1);
	answer_call(r);
	for (unsigned i = 0; i < CREDITS; i++)
		m[i] = expect(r, AM_REQUEST);
	rig_expect_nothing_sent(r);
	CHECK_EQ(count(s, XK_AM_GET_UNANSWERED), CREDITS);
	CHECK_EQ(count(s, XK_AM_GET_WAITING), 10 - CREDITS);
	answer(r, &m[1], AM_ACK, 0, "");
	rig_expect_nothing_sent(r); /* the oldest holds up the rest */
	answer(r, &m[0], AM_ACK, 0, "");
	CHECK_EQ(expect(r, AM_REQUEST).h.sequence, 4);
	CHECK_EQ(expect(r, AM_REQUEST).h.sequence, 5);
	rig_expect_nothing_sent(r);
}

AM_TEST(each_open_is_a_session_of_its_own, client_rig("am"))
{
	struct xk_session *a = open_am(r), *b = open_am(r);
	struct message of_a, of_b;

	CHECK(a != b);
	CHECK_EQ(request(r, a, 3, "x"), 0);
	answer_call(r);
	of_a = expect(r, AM_REQUEST);
	CHECK_EQ(request(r, b, 3, "x"), 0);
	answer_call(r);
	of_b = expect(r, AM_REQUEST);
	CHECK(of_a.h.from != of_b.h.from);
	answer(r, &of_a, AM_ACK, 0, "");
	CHECK_EQ(count(a, XK_AM_GET_UNANSWERED), 0);
	CHECK_EQ(count(b, XK_AM_GET_UNANSWERED), 1);
	rig_wire_refuse(r, -EHOSTUNREACH);
	rig_expect_open_fails(r, rig_to2(6, THERE, NAME), -EHOSTUNREACH);
}

AM_TEST(endpoint_name_must_be_a_number, client_rig("am"))
{
	static const uint64_t names[][2] = { { 0, NAME }, { 65536, NAME }, { XK_ANY, NAME }, { THERE, 65536 } };
	struct xk_participants none = { .local.depth = 0 }, more = { .local = { 2, { 1, NAME } } };
	struct xk_participants got = { .local.depth = 0 };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(names); i++) {
		rig_expect_open_fails(r, rig_to2(PEER_HOST, names[i][0], names[i][1]), -EINVAL);
	}
	CHECK_EQ(rig_open_enable(r, none), -EINVAL);
	CHECK_EQ(rig_open_enable(r, more), -EOPNOTSUPP);
	CHECK_EQ(xk_get_participants(open_am(r), &got), 0);
	CHECK_EQ(got.remote.address[got.remote.depth - 1], THERE);
	CHECK_EQ(got.local.address[got.local.depth - 1], NAME);
}

AM_SESSION_TEST(unanswered_call_is_retransmitted_then_given_up,
		client_rig("am timeout=100ms timeout_max=200ms patience=1s"), open_am(r))
{
	struct message m;

	CHECK_EQ(request(r, s, 3, "x"), 0);
	m = expect(r, AM_CALL);
	rig_advance_ms(r, 101);
	CHECK(expect(r, AM_CALL).h.from == m.h.from);
	rig_advance_ms(r, 2000);
	rig_forget(r);
	CHECK_EQ(seen.returns, 1);
	CHECK_EQ(seen.status, -ETIMEDOUT);
	CHECK_EQ(request(r, s, 3, "x"), 0);
	answer_call(r); /* the next one calls again */
	m = expect(r, AM_REQUEST);
	answer(r, &m, AM_ACK, 0, "");
}

AM_SESSION_TEST(a_call_may_be_refused, client_rig("am"), open_am(r))
{
	struct message m;

	CHECK_EQ(xk_am_set_tag(s, 77), 0);
	CHECK_EQ(request(r, s, 3, "x"), 0);
	m = expect(r, AM_CALL);
	CHECK(xk_get64(m.bytes + 4) == 77);
	inject(r, (struct am_header){ .kind = AM_COOKIE, .to = m.h.from, .from = COOKIE }, "");
	expect(r, AM_CALL);
	inject(r, (struct am_header){ .kind = AM_GONE, .handler = AM_R_TAG, .to = m.h.from, .from = COOKIE + 1 }, "");
	CHECK_EQ(rig_counter(r, "stale"), 1);
	inject(r, (struct am_header){ .kind = AM_GONE, .handler = AM_R_TAG, .to = m.h.from, .from = COOKIE }, "");
	CHECK_EQ(seen.status, -EACCES);
	CHECK_EQ(request(r, s, 3, "x"), 0);
	m = expect(r, AM_CALL);
	inject(r, (struct am_header){ .kind = AM_COOKIE, .to = m.h.from, .from = COOKIE }, "");
	inject(r, (struct am_header){ .kind = AM_GONE, .handler = AM_R_NO_ENDPOINT, .to = m.h.from, .from = COOKIE },
	       "");
	CHECK_EQ(seen.status, -ECONNREFUSED);
	CHECK_EQ(seen.returns, 2);
}

/* A rebooted peer has another secret, and therefore another cookie. */
AM_SESSION_TEST(later_cookie_replaces_the_former, client_rig("am"), open_am(r))
{
	struct message m;

	CHECK_EQ(request(r, s, 3, "x"), 0);
	m = expect(r, AM_CALL);
	welcome(r, m.h.from); /* before the COOKIE: ignored */
	CHECK_EQ(rig_counter(r, "stale"), 1);
	inject(r, (struct am_header){ .kind = AM_COOKIE, .to = m.h.from, .from = COOKIE }, "");
	CHECK(expect(r, AM_CALL).h.to == COOKIE);
	inject(r, (struct am_header){ .kind = AM_COOKIE, .to = m.h.from, .from = COOKIE }, "");
	CHECK_EQ(rig_counter(r, "stale"), 2);
	inject(r, (struct am_header){ .kind = AM_COOKIE, .to = m.h.from, .from = COOKIE + 1 }, "");
	CHECK(expect(r, AM_CALL).h.to == COOKIE + 1);
	welcome(r, m.h.from);
	m = expect(r, AM_REQUEST);
	welcome(r, m.h.from);
	CHECK_EQ(rig_counter(r, "stale"), 3);
	answer(r, &m, AM_ACK, 0, "");
}

RIG_SESSION_TEST(closed_session_lives_until_all_requests_are_answered, client_rig("am outstanding=1"), open_am(r))
{
	struct message m;

	CHECK_EQ(request(r, s, 3, "x"), 0);
	CHECK_EQ(request(r, s, 3, "y"), 0);
	rig_close(r, s);
	answer_call(r);
	m = expect(r, AM_REQUEST);
	CHECK_EQ(rig_wire_session_count(r), 1);
	answer(r, &m, AM_ACK, 0, "");
	m = expect(r, AM_REQUEST);
	answer(r, &m, AM_REPLY, TELL, "z");
	CHECK_EQ(seen.tells, 1);
	expect(r, AM_TAKEN);
	rig_advance_ms(r, 1000);
	CHECK_EQ(rig_wire_session_count(r), 0);
}

AM_SESSION_TEST(only_requests_can_be_pushed, client_rig("am"), open_am(r))
{

	CHECK_EQ(request(r, s, XK_AM_HANDLERS, "x"), -EINVAL);
	CHECK_EQ(request_push(r, s, (struct xk_am_push){ .number = 3, .count = XK_AM_WORDS + 1 }, "x", 0), -EINVAL);
	CHECK_EQ(rig_counter(r, "bad_request"), 2);
	CHECK_EQ(count(s, XK_GET_MAX_PACKET), 1500 - AM_HEADER_LEN);
	CHECK_EQ(count(s, XK_GET_OPT_PACKET), 1500 - AM_HEADER_LEN);
	CHECK_EQ(request_push(r, s, (struct xk_am_push){ .number = 3 }, NULL, 1469), -EMSGSIZE);
	CHECK_EQ(request_push(r, s, (struct xk_am_push){ .number = 3, .count = 1 }, NULL, 1465), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_long"), 2);
	CHECK_EQ(request_push(r, s, (struct xk_am_push){ .number = 3, .count = 1 }, NULL, 1464), 0);
	answer_call(r);
	CHECK_EQ(expect(r, AM_REQUEST).h.length, 1468);
}

/* ---- stores ---- */

AM_SESSION_TEST(last_part_of_a_store_names_the_handler, client_rig("am"), open_am(r))
{
	struct xk_am_push push = {
		.number = 3, .count = 1, .words = { 9 }, .part = { .region = 0xabcd, .place = 100 }
	};
	uint32_t offset = 0, before = 0;
	struct message m;

	CHECK_EQ(request_push(r, s, push, NULL, 4000), 0);
	answer_call(r);
	do {
		m = expect(r, AM_STORE);
		CHECK_EQ(xk_get32(m.bytes), 0xabcd);
		CHECK_EQ(xk_get32(m.bytes + 4), 100);
		CHECK_EQ(xk_get32(m.bytes + 8), 4000);
		CHECK_EQ(xk_get32(m.bytes + 12), offset);
		CHECK_EQ(xk_get32(m.bytes + 16), before++);
		offset += m.h.length - AM_STORE_LEN - 4 * m.h.words;
		CHECK_EQ(m.h.handler, offset == 4000 ? 3 : XK_AM_NONE);
		CHECK_EQ(m.h.words, offset == 4000);
		answer(r, &m, offset == 4000 ? AM_REFUSED : AM_ACK, offset == 4000 ? AM_R_REGION : 0, "");
	} while (offset < 4000);
	CHECK_EQ(before, 3);
	CHECK_EQ(seen.returns, 1);
	CHECK_EQ(seen.status, -EFAULT);
	push.number = XK_AM_NONE;
	CHECK_EQ(request_push(r, s, push, NULL, 3000), 0);
	for (unsigned i = 0; i < 3; i++) {
		m = expect(r, AM_STORE);
		answer(r, &m, AM_REFUSED, AM_R_REGION, "");
	}
	CHECK_EQ(seen.returns, 2);
	CHECK_EQ(rig_counter(r, "undelivered"), 2);
	CHECK_EQ(request_push(r, s, push, NULL, 64000), -ENOBUFS);
	CHECK(rig_counter(r, "queue_full") > 24);
}

/* ---- no buffers ---- */

struct short_of {
	struct rig *r;
	struct xk_session *s;
	unsigned buffers;
	uint32_t region;
	int status;
	size_t len; /* 0: two bytes */
};

/* A message that shares another's bytes has no headroom: headers need a buffer of their own. */
static void
request_and_keep(void *argument)
{
	struct short_of *q = argument;
	struct xk_am_push push = { .number = 3, .count = 1, .part.region = q->region };
	static const char text[AM_SHORT + 1] = "xy";
	struct xk_msg *m = xk_msg_from(rig_platform(q->r), text, q->len == 0 ? 2 : q->len),
		      *other = xk_msg_reference(m);

	REQUIRE(m != NULL && other != NULL);
	rig_limit_buffers(q->r, q->buffers);
	q->status = xk_am_request(q->s, &push, other);
	rig_limit_buffers(q->r, UINT_MAX);
	xk_msg_free(m);
}

static void
request_without_bytes(void *argument)
{
	struct short_of *q = argument;
	struct xk_am_push push = { .number = 3 };

	rig_limit_buffers(q->r, 0);
	q->status = xk_am_request(q->s, &push, NULL);
	rig_limit_buffers(q->r, UINT_MAX);
}

AM_TEST(am_drops_or_retries_without_buffers, client_rig("am"))
{
	struct short_of q = { r, open_am(r), 0, 0, 0, 0 };
	struct xk_msg *others[8]; /* so that AM's share is worth a buffer */
	struct message m;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(others); i++)
		others[i] = xk_memory_frame(rig_platform(r), 1);
	CHECK(rig_do(r, request_and_keep, &q));
	CHECK_EQ(q.status, -ENOBUFS);
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	for (q.region = 5; q.buffers < 2; q.buffers++) {
		CHECK(rig_do(r, request_and_keep, &q));
		CHECK_EQ(q.status, -ENOBUFS);
	}
	CHECK_EQ(rig_counter(r, "no_buffer"), 3);
	CHECK(rig_do(r, request_without_bytes, &q));
	CHECK_EQ(q.status, -ENOBUFS);
	rig_expect_nothing_sent(r);
	q.region = 0;
	q.buffers = 1; /* for the headers: afterwards only the reserve is left */
	CHECK(rig_do(r, request_and_keep, &q));
	CHECK_EQ(q.status, -ENOBUFS);
	CHECK_EQ(rig_counter(r, "no_room"), 1);
	q.buffers = 2;
	CHECK(rig_do(r, request_and_keep, &q));
	CHECK_EQ(q.status, 0);
	expect(r, AM_CALL);
	rig_limit_buffers(r, 0); /* none to call again */
	rig_expect_silence_ms(r, 200);
	rig_limit_buffers(r, UINT_MAX);
	CHECK_EQ(rig_counter(r, "unsent"), 1);
	rig_advance_ms(r, 400);
	answer_call(r);
	m = expect(r, AM_REQUEST);
	answer(r, &m, AM_ACK, 0, "");
	q.len = AM_SHORT + 1; /* a view of this is sent behind a header */
	CHECK(rig_do(r, request_and_keep, &q));
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "unsent"), 2);
	rig_advance_ms(r, 1000);
	m = expect(r, AM_REQUEST);
	CHECK_EQ(memcmp(m.bytes, "\0\0\0\0xy", 6), 0);
	answer(r, &m, AM_ACK, 0, "");
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(others); i++)
		xk_msg_free(others[i]);
}

TEST(am_keeps_at_most_a_hosts_share)
{
	struct rig *r = client_rig("am kept=12k"); /* three buffers for all sessions */
	struct xk_session *s = open_am(r), *other = open_am(r);
	struct message m;

	CHECK_EQ(rig_push(r, s, "aa"), 0);
	answer_call(r);
	m = expect(r, AM_REQUEST);
	CHECK_EQ(rig_push(r, s, "aa"), 0);
	expect(r, AM_REQUEST);
	CHECK_EQ(rig_push(r, other, "aa"), 0);
	CHECK_EQ(rig_push(r, other, "aa"), -ENOBUFS);
	CHECK_EQ(rig_push(r, s, "aa"), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "no_room"), 2);
	answer(r, &m, AM_ACK, 0, "");
	CHECK_EQ(rig_push(r, other, "aa"), 0);
	am_rig_end(r);
}

TEST(host_may_end_while_requests_wait)
{
	struct xk_participants there = { .remote = { 2, { PEER_HOST, THERE } } };
	struct bare b = bare_new("am");
	struct xk_session *s;

	REQUIRE(xk_open(b.above, b.above, b.tested, &there, &s) == 0);
	for (unsigned i = 0; i < 8 + 16; i++)
		CHECK_EQ(xk_push(s, xk_msg_from(b.platform, "x", 1)), 0);
	CHECK_EQ(count(s, XK_AM_GET_WAITING), 8 + 16);
	xk_close(s);
	bare_free(&b);
}

/* ---- malformed and hostile messages ---- */

RIG_TEST(malformed_messages_are_dropped, client_rig("am"))
{
#define REST "01020304 01020304 0000000"
#define ENDS " 1112131415161718 2122232425262728 "
	static const struct {
		const char *hex, *drop;
	} messages[] = {
		{ "", "short" },
		{ "04 00 0003 " REST "0"
		  " 1112131415161718 21222324252627",
		  "short" },
		{ "00 00 0003 " REST "0" ENDS, "bad_kind" },
		{ "0b 00 0003 " REST "0" ENDS, "bad_kind" },
		{ "04 00 0003 " REST "0 1112131415161718 0000000000000000", "bad_kind" },
		{ "04 00 0003 " REST "1" ENDS, "bad_length" },
		{ "04 01 0003 " REST "3" ENDS "010203", "bad_length" },
		{ "04 09 0003 " REST "0" ENDS, "bad_length" },
		{ "05 00 0003 " REST "4" ENDS "01020304", "bad_length" },
		{ "06 01 0003 " REST "3" ENDS "010203", "bad_length" },
		{ "07 00 0000 " REST "1" ENDS "01", "bad_length" },
		{ "07 01 0000 " REST "0" ENDS, "bad_length" },
		{ "01 00 0007 " REST "b" ENDS "00 09 00 03 00000000 000000", "bad_length" },
		{ "01 00 0007 " REST "c" ENDS "00 09 00 00 00000000 00000000", "bad_length" },
		{ "01 00 0007 " REST "c" ENDS "00 09 00 41 00000000 00000000", "bad_length" },
		{ "01 00 0000 " REST "c" ENDS "00 09 00 03 00000000 00000000", "bad_handler" },
		{ "02 00 0001 " REST "0" ENDS, "bad_handler" },
		{ "03 00 0000 " REST "0" ENDS, "bad_handler" },
		{ "03 00 0041 " REST "0" ENDS, "bad_handler" },
		{ "04 00 0100 " REST "0" ENDS, "bad_handler" },
		{ "06 00 ffff " REST "0" ENDS, "bad_handler" },
		{ "08 00 0000 " REST "0" ENDS, "bad_handler" },
		{ "0a 00 0006 " REST "0" ENDS, "bad_handler" },
		{ "02 00 0000 " REST "0" ENDS, "no_session" },
		{ "03 00 0004 " REST "0" ENDS, "no_session" },
		{ "06 00 0004 " REST "0" ENDS, "no_session" },
		{ "07 00 0000 " REST "0" ENDS, "no_session" },
		{ "09 00 0000 " REST "0" ENDS, "no_session" },
		{ "0a 00 0003 " REST "0" ENDS, "no_session" },
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(messages); i++) {
		long before = rig_counter(r, messages[i].drop);

		rig_inject(r, messages[i].hex);
		CHECK_EQ(rig_counter(r, messages[i].drop), before + 1);
	}
	CHECK_EQ(rig_drop_count(r), XK_ARRAY_LENGTH(messages));
	rig_expect_nothing_sent(r);
	rig_inject_prefixes(r, "04 00 0003 " REST "0" ENDS);
	CHECK_EQ(rig_counter(r, "short"), 34);
	rig_expect_nothing_sent(r);
}

/* Answers and forgeries that fail to name both ends. */
AM_SESSION_TEST(answers_from_other_ends_are_stale, client_rig("am"), open_am(r))
{
	static const enum am_kind kinds[] = { AM_REPLY, AM_ACK, AM_REFUSED, AM_TAKEN, AM_GONE, AM_REQUEST, AM_COOKIE };
	struct message m;

	CHECK_EQ(request(r, s, 3, "x"), 0);
	answer_call(r);
	m = expect(r, AM_REQUEST);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(kinds); i++) {
		inject(r,
		       (struct am_header){
			       .kind = kinds[i],
			       .handler = kinds[i] == AM_ACK || kinds[i] == AM_TAKEN || kinds[i] == AM_COOKIE ? 0 : 1,
			       .to = m.h.from,
			       .from = PEER + 1 },
		       "");
		CHECK_EQ(rig_counter(r, "stale"), i + 1);
	}
	m.h.sequence++; /* never asked */
	answer(r, &m, AM_REPLY, TELL, "x");
	CHECK_EQ(rig_counter(r, "stale"), XK_ARRAY_LENGTH(kinds) + 1);
	CHECK_EQ(seen.tells + seen.returns, 0);
	rig_expect_nothing_sent(r);
	m.h.sequence--;
	answer(r, &m, AM_ACK, 0, "");
}

RIG_TEST(handlers_and_regions_are_registered_once, client_rig("am"))
{
	struct xk_protocol *am = rig_protocol(r, "am");
	struct xk_am_handler none = { NULL, NULL, false };
	uint8_t memory[4];
	struct xk_region region = { .base = memory, .len = sizeof(memory), .port = NAME };

	CHECK_EQ(xk_am_register(am, NAME, TELL, &teller), -EEXIST);
	CHECK_EQ(xk_am_register(am, NAME, XK_AM_HANDLERS, &teller), -EINVAL);
	CHECK_EQ(xk_am_register(am, NAME, 9, &none), -EINVAL);
	CHECK_EQ(xk_am_register(am, NAME + 1, TELL, &teller), 0);
	CHECK_EQ(xk_region_register(am, &region), 0);
	CHECK_EQ(xk_region_unregister(am, &region), 0);
	CHECK_EQ(xk_region_unregister(am, &region), -ENOENT);
}

TEST(contradictory_times_are_refused)
{
	CHECK_EQ(rig_refusal("wire:; am: wire; am.timeout_min=2s; am.timeout_max=1s; user: am"), -EINVAL);
}

RIG_SESSION_TEST(am_has_a_port_if_the_lower_protocol_has, rig_new("am port=3007"), open_am(r))
{
	struct xk_participants got = { .remote.depth = 0 };

	CHECK_EQ(rig_wire_remote(r), 3007);
	CHECK_EQ(xk_get_participants(s, &got), 0);
}
