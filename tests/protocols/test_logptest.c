/*
 * test_logptest.c - batches on a fake wire: the server's answers; what the client sends, awaits and times, on virtual
 * time; losses, strays and a lower protocol without room.
 */
#include <errno.h>
#include <limits.h>

#include "protocols/papers/logptest.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"
#include "xkernel/event.h"

#define SERVER "wire:; logptest: wire"

enum { HOST = 0x0a4d0002, PORT = 2009, SIZE = 10, MS = 1000000 };

/* Results of the callbacks. */
static struct {
	unsigned recorded, lost, finished;
	uint64_t last_ns;
	struct xk_logptest_result result;
} results;

static void
on_record(void *argument, uint64_t answered_ns)
{
	results.recorded++;
	results.last_ns = answered_ns;
}

static void
on_lost(void *argument, uint64_t waited_ns)
{
	results.lost++;
}

static void
on_finished(void *argument, const struct xk_logptest_result *result)
{
	results.finished++;
	results.result = *result;
}

static int
start_copying(struct rig *r, enum xk_logptest_copies copies, uint64_t rounds, struct xk_logptest_loop loop)
{
	const struct xk_logptest_run run = { .host = HOST,
					     .size = SIZE,
					     .rounds = rounds,
					     .loop = loop,
					     .copies = copies,
					     .record = on_record,
					     .lost = on_lost,
					     .finished = on_finished };
	int status;

	memset(&results, 0, sizeof(results));
	status = xk_logptest_start(rig_protocol(r, "logptest"), &run);
	rig_advance_ms(r, 0);
	return status;
}

static int
start(struct rig *r, uint64_t rounds, struct xk_logptest_loop loop)
{
	return start_copying(r, XK_LOGPTEST_SENDER, rounds, loop);
}

enum { MESSAGE = 0x1000, ANSWER = 0x2000, GREETING = 0x3000, NOBODY = 0x4000, BOTH = 0x8000, PROVEN = 16 };

#define TOKEN UINT64_C(0x7777123456789abc)

/*
 * Takes the message sent, of this kind, which includes its number of answers, and with this token (0: any). Returns its
 * batch.
 */
static uint32_t
take_kind(struct rig *r, uint32_t kind, uint64_t token)
{
	bool is_proven = token != 0 || kind == (GREETING | 1);
	uint8_t bytes[64];

	REQUIRE(rig_take_sent(r, bytes, sizeof(bytes)) == (is_proven ? PROVEN : SIZE));
	CHECK_EQ(xk_get16(bytes + 4), kind);
	CHECK_EQ(xk_get16(bytes + 6), is_proven ? SIZE : 0);
	if (token != 0)
		CHECK_EQ(xk_get64(bytes + 8), token);
	return xk_get32(bytes);
}

static uint32_t
take(struct rig *r, uint32_t answers)
{
	return take_kind(r, MESSAGE | answers, answers > 1 ? TOKEN : 0);
}

static void
answer_copying(struct rig *r, uint32_t batch, unsigned copies)
{
	uint8_t bytes[SIZE];

	memset(bytes, 0, sizeof(bytes));
	xk_put32(bytes, batch);
	xk_put16(bytes + 4, (uint16_t)(copies | ANSWER));
	rig_inject_bytes(r, bytes, sizeof(bytes));
}

static void
answer(struct rig *r, uint32_t batch)
{
	answer_copying(r, batch, 0);
}

/* Answers the greeting at the start of a run or after a loss. */
static void
welcome(struct rig *r)
{
	uint8_t bytes[PROVEN];

	xk_put32(bytes, take_kind(r, GREETING | 1, 0));
	xk_put16(bytes + 4, ANSWER);
	xk_put16(bytes + 6, SIZE);
	xk_put64(bytes + 8, TOKEN);
	rig_inject_bytes(r, bytes, sizeof(bytes));
	rig_advance_ms(r, 1);
}

static void
make_room(struct xk_event *event, void *argument)
{
	rig_fail_sending(argument, 0);
}

/* Lets the wire refuse pushes for a tenth of a millisecond. */
static void
refuse_for_a_while(struct rig *r, struct xk_event *event)
{
	rig_fail_sending(r, -ENOBUFS);
	xk_event_init(event, rig_kernel(r), make_room, r);
	xk_event_schedule(event, 100);
}

/* ---- the server ---- */

/* Greets a server. Returns the token in its answer. */
static uint64_t
greet(struct rig *r)
{
	uint8_t bytes[64];

	rig_inject(r, "00000006 3001 000a 0000 0000 0000 0000");
	REQUIRE(rig_take_sent(r, bytes, sizeof(bytes)) == PROVEN);
	CHECK_EQ(xk_get32(bytes), 6);
	CHECK_EQ(xk_get16(bytes + 4), ANSWER);
	return xk_get64(bytes + 8);
}

/* Asks a server for answers of `len` bytes each (0: one answer, as long as the message). */
static void
ask_for(struct rig *r, uint32_t batch, unsigned answers, unsigned len, uint64_t token)
{
	uint8_t bytes[PROVEN];

	xk_put32(bytes, batch);
	xk_put16(bytes + 4, (uint16_t)(MESSAGE | answers));
	xk_put16(bytes + 6, (uint16_t)len);
	xk_put64(bytes + 8, token);
	rig_inject_bytes(r, bytes, len > 0 ? PROVEN : SIZE);
}

static void
ask(struct rig *r, uint32_t batch, unsigned answers, uint64_t token)
{
	ask_for(r, batch, answers, answers > 1 ? SIZE : 0, token);
}

RIG_TEST(logptest_server_sends_as_many_answers_as_requested, rig_new_graph(SERVER))
{
	uint64_t token = greet(r);

	rig_expect_answer(r, "00000007 1001 0000 aabb", "00000007 2000 0000 aabb");
	ask(r, 8, 3, token);
	rig_expect_sent(r, "00000008 2000 .... .. ..");
	rig_expect_sent(r, "00000008 2000 .... .. ..");
	rig_expect_sent(r, "00000008 2000 .... .. ..");
	rig_inject(r, "00000009 1000 0000 aabb");
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter_of(r, "logptest", "messages"), 4);
	CHECK_EQ(rig_drop_count(r), 0);
}

/* The peer gets the same bytes whoever copies. */
RIG_TEST(logptest_server_copies_as_requested, rig_new_graph(SERVER))
{
	uint64_t token = greet(r);
	uint8_t bytes[SIZE], first[SIZE];

	rig_inject(r, "00000007 5001 0000 aabb");
	REQUIRE(rig_take_sent(r, first, SIZE) == SIZE);
	CHECK_EQ(xk_get16(first + 4), NOBODY | ANSWER);
	rig_inject(r, "00000007 9001 0000 aabb");
	REQUIRE(rig_take_sent(r, bytes, SIZE) == SIZE);
	CHECK_EQ(xk_get16(bytes + 4), BOTH | ANSWER);
	CHECK(memcmp(bytes + 8, first + 8, SIZE - 8) == 0); /* the server's bytes, not the client's */
	CHECK(bytes[8] != 0xaa || bytes[9] != 0xbb);
	ask(r, 8, NOBODY | 2, token);
	rig_expect_sent(r, "00000008 6000 .... .. ..");
	rig_expect_sent(r, "00000008 6000 .... .. ..");
	rig_limit_buffers(r, 1); /* enough for lent bytes, but not for a header too */
	rig_inject(r, "00000009 5001 0000 aabb");
	rig_limit_buffers(r, UINT_MAX);
	rig_advance_ms(r, 1);
	CHECK(rig_counter_of(r, "logptest", "unsent") > 0);
	rig_expect_sent(r, "00000009 6000 0000 .. ..");
	CHECK_EQ(rig_drop_count(r), 0);
	rig_forget(r);
}

RIG_TEST(logptest_server_answers_a_stranger_once, rig_new_graph(SERVER))
{
	uint64_t token = greet(r);

	ask(r, 7, 2, token ^ 1);
	ask(r, 8, 1024, token + 1);
	for (unsigned bit = 0; bit < 64; bit++)
		ask(r, 8, 2, token ^ UINT64_C(1) << bit);
	rig_inject(r, "00000007 1002 0000");                   /* no token */
	rig_inject(r, "00000007 1002 000a 0000 0000 0000 00"); /* a truncated token */
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter_of(r, "logptest", "unproven"), 68);
	ask(r, 9, 1, token ^ 1);
	rig_expect_sent_count(r, 1);
}

TEST(logptest_token_is_valid_for_one_host_and_one_server)
{
	struct rig *r = rig_new_graph(SERVER), *other = rig_new_graph(SERVER);
	uint64_t token;

	rig_wire_peer(r, HOST);
	rig_wire_peer(other, HOST);
	token = greet(r);
	CHECK(greet(other) != token);
	rig_wire_peer(r, HOST + 1);
	ask(r, 7, 2, token);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter_of(r, "logptest", "unproven"), 1);
	rig_wire_peer(r, HOST);
	ask(r, 7, 2, token);
	rig_expect_sent_count(r, 2);
	rig_free(r);
	rig_free(other);
}

RIG_TEST(logptest_bounds_the_length_of_answers, rig_new_graph(SERVER))
{
	static const unsigned wrong[] = { 1, 7, PROVEN + 1, UINT16_MAX };
	uint64_t token = greet(r);

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(wrong); i++)
		ask_for(r, 7, 2, wrong[i], token);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter_of(r, "logptest", "unproven"), XK_ARRAY_LENGTH(wrong));
	ask_for(r, 8, 2, 8, token);
	ask_for(r, 9, 2, PROVEN, token);
	rig_expect_sent(r, "00000008 2000 0000");
	rig_expect_sent(r, "00000008 2000 0000");
	rig_expect_sent_count(r, 2);
}

RIG_TEST(logptest_server_refuses_impossible_messages, rig_new_graph(SERVER))
{
	static uint8_t bytes[XK_LOGPTEST_MAX + 1] = { [4] = 0x10, [5] = 1 };

	rig_inject(r, "00000007 0001 0000");
	rig_inject(r, "00000007 4001 0000");
	rig_inject(r, "00000007 d001 0000");                     /* an unknown kind of copy */
	rig_inject(r, "00000007 1401 0000");                     /* 1025 answers */
	rig_inject(r, "00000007 3002 0010 0000 0000 0000 0000"); /* a greeting that asks for two */
	rig_inject(r, "00000007 3001 0000");                     /* ... without room for the token */
	rig_inject(r, "00000007 3001 0010 0000 0000 0000 00");   /* ... or with room for part of it */
	rig_inject_bytes(r, bytes, sizeof(bytes));
	CHECK_EQ(rig_counter_of(r, "logptest", "bad"), 8);
	rig_inject(r, "00000007 2001 0000"); /* an answer to no batch: not answered */
	CHECK_EQ(rig_counter_of(r, "logptest", "late"), 1);
	rig_inject_prefixes(r, "00000007 1001 0000");
	rig_expect_nothing_sent(r);
}

RIG_TEST(logptest_server_waits_for_room, rig_new_graph(SERVER))
{
	uint64_t token = greet(r);
	struct xk_event event;

	refuse_for_a_while(r, &event);
	ask(r, 7, 3, token);
	ask(r, 7, 1, token); /* the last message of the same batch */
	rig_advance_ms(r, 1);
	CHECK(rig_counter_of(r, "logptest", "unsent") > 10);
	for (unsigned i = 0; i < 4; i++)
		rig_expect_sent(r, "00000007 2000 .... .. ..");
	ask(r, 9, 2, token); /* there is room for the next */
	rig_expect_sent_count(r, 2);
}

RIG_TEST(logptest_server_gives_up_if_room_stays_short, rig_new_graph(SERVER "; logptest.timeout=1ms"))
{
	uint64_t token = greet(r);

	rig_fail_sending(r, -ENOBUFS);
	ask(r, 7, 3, token);
	ask(r, 8, 1, token);
	rig_advance_ms(r, 5);
	rig_fail_sending(r, 0);
	rig_expect_silence_ms(r, 5);
}

/* ---- the client ---- */

TEST(logptest_client_copies_as_requested)
{
	static const unsigned copies[] = {
		[XK_LOGPTEST_SENDER] = 0, [XK_LOGPTEST_NOBODY] = NOBODY, [XK_LOGPTEST_BOTH] = BOTH
	};
	uint8_t bytes[XK_LOGPTEST_COPIES][SIZE];

	for (unsigned i = 0; i < XK_LOGPTEST_COPIES; i++) {
		struct rig *r = rig_new_graph(SERVER);

		CHECK_EQ(start_copying(r, i, 1, (struct xk_logptest_loop){ .sends = 2, .last = 1 }), 0);
		REQUIRE(rig_take_sent(r, bytes[i], SIZE) == SIZE);
		CHECK_EQ(xk_get16(bytes[i] + 4), copies[i] | MESSAGE);
		CHECK(memcmp(bytes[i] + 8, bytes[0] + 8, SIZE - 8) == 0);
		take_kind(r, copies[i] | MESSAGE | 1, 0);
		answer_copying(r, xk_get32(bytes[i]), copies[i]);
		CHECK_EQ(results.finished, 1);
		CHECK_EQ(results.result.error, 0);
		rig_free(r);
	}
}

RIG_TEST(logptest_client_requests_answers_to_first_and_last, rig_new_graph(SERVER))
{
	uint32_t batch;

	CHECK_EQ(start(r, 2, (struct xk_logptest_loop){ .sends = 3, .first = 2, .last = 1 }), 0);
	CHECK_EQ(rig_wire_remote(r), PORT);
	welcome(r);
	CHECK_EQ(results.recorded, 0);
	batch = take(r, 2);
	CHECK_EQ(take(r, 0), batch);
	CHECK_EQ(take(r, 1), batch);
	for (unsigned i = 0; i < 3; i++) {
		rig_expect_nothing_sent(r);
		rig_advance_ms(r, 4);
		answer(r, batch);
	}
	CHECK_EQ(results.recorded, 1);
	CHECK_EQ(results.last_ns / MS, 12);
	answer(r, batch); /* one too many */
	CHECK_EQ(rig_counter_of(r, "logptest", "late"), 1);
	CHECK_EQ(take(r, 2), batch + 1);
	rig_forget(r);
	for (unsigned i = 0; i < 3; i++)
		answer(r, batch + 1);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.error, 0);
	CHECK_EQ(results.result.rounds, 2);
	CHECK_EQ(results.result.max_packet, 1500);
	CHECK_EQ(results.result.times.answered_ns / MS, 12); /* the later of two */
}

RIG_TEST(logptest_client_works_between_messages, rig_new_graph(SERVER))
{
	struct xk_logptest_loop loop = { .sends = 3, .last = 4, .send_work_ns = 5 * MS, .receive_work_ns = 7 * MS };
	uint32_t batch;

	CHECK_EQ(start(r, 1, loop), 0);
	welcome(r);
	batch = take(r, 0);
	rig_forget(r);
	for (unsigned i = 0; i < 4; i++)
		answer(r, batch);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.times.sent_ns, 10 * MS);
	CHECK_EQ(results.result.times.answered_ns, 31 * MS);
	CHECK_EQ(results.result.times.send_work_ns, 5 * MS);
	CHECK_EQ(results.result.times.receive_work_ns, 7 * MS);
}

RIG_TEST(logptest_client_waits_for_room, rig_new_graph(SERVER))
{
	struct xk_event event;
	uint32_t batch;

	refuse_for_a_while(r, &event);
	CHECK_EQ(start(r, 1, (struct xk_logptest_loop){ .sends = 2, .last = 1 }), 0);
	rig_advance_ms(r, 1);
	CHECK(rig_counter_of(r, "logptest", "unsent") > 10);
	batch = take(r, 0);
	CHECK_EQ(take(r, 1), batch);
	answer(r, batch);
	CHECK_EQ(results.finished, 1);
	CHECK(results.result.times.sent_ns >= 100000 && results.result.times.sent_ns < 110000);
}

RIG_TEST(logptest_client_counts_failed_sends_as_lost,
	 rig_new_graph(SERVER "; logptest.timeout=1ms; logptest.silence=5ms"))
{
	rig_fail_sending(r, -ENOBUFS);
	CHECK_EQ(start(r, 1, (struct xk_logptest_loop){ .sends = 2, .last = 1 }), 0);
	rig_advance_ms(r, 20);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.error, -ETIMEDOUT);
	rig_fail_sending(r, 0);
}

RIG_TEST(logptest_client_counts_lost_batches_and_continues,
	 rig_new_graph(SERVER "; logptest.timeout=100ms; logptest.silence=1s"))
{
	uint32_t batch;

	CHECK_EQ(start(r, 1, (struct xk_logptest_loop){ .sends = 2, .last = 2 }), 0);
	welcome(r);
	batch = take(r, 0);
	rig_forget(r);
	rig_advance_ms(r, 90);
	answer(r, batch); /* the first of two */
	rig_advance_ms(r, 90);
	CHECK_EQ(results.lost, 0);
	rig_advance_ms(r, 90);
	CHECK_EQ(results.lost, 1);
	answer(r, batch);
	CHECK_EQ(rig_counter_of(r, "logptest", "late"), 1);
	welcome(r);
	CHECK_EQ(take(r, 0), batch + 2);
	rig_forget(r);
	answer(r, batch + 2);
	answer(r, batch + 2);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.rounds, 1);
	CHECK_EQ(results.result.lost, 1);
	CHECK_EQ(rig_counter_of(r, "logptest", "lost"), 1);
}

RIG_TEST(logptest_client_gives_up_on_a_silent_server,
	 rig_new_graph(SERVER "; logptest.timeout=100ms; logptest.silence=1s"))
{
	CHECK_EQ(start(r, 1, (struct xk_logptest_loop){ .sends = 1, .last = 1 }), 0);
	rig_advance_repeatedly_ms(r, 20, 100);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.error, -ETIMEDOUT);
	CHECK_EQ(results.result.rounds, 0);
	CHECK_EQ(results.result.times.answered_ns, 0);
	rig_forget(r);
}

RIG_TEST(logptest_refuses_impossible_runs, rig_new_graph(SERVER))
{
	struct xk_logptest_loop good = { .sends = 1, .last = 1 };

	CHECK_EQ(start(r, 0, good), -EINVAL);
	CHECK_EQ(start(r, XK_LOGPTEST_BATCHES + 1, good), -EINVAL);
	CHECK_EQ(start_copying(r, XK_LOGPTEST_COPIES, 1, good), -EINVAL);
	CHECK_EQ(start(r, 1, (struct xk_logptest_loop){ .last = 1 }), -EINVAL);
	CHECK_EQ(start(r, 1, (struct xk_logptest_loop){ .sends = 1 }), -EINVAL);
	CHECK_EQ(start(r, 1, (struct xk_logptest_loop){ .sends = 1025, .last = 1 }), -EINVAL);
	CHECK_EQ(start(r, 1, (struct xk_logptest_loop){ .sends = 1, .first = 1024, .last = 1 }), -EINVAL);
	CHECK_EQ(start(r, 1, (struct xk_logptest_loop){ .sends = 2, .last = 1025 }), -EINVAL);
	rig_expect_nothing_sent(r);
	CHECK_EQ(start(r, 1, good), 0);
	CHECK_EQ(start(r, 1, good), -EBUSY);
	answer(r, take(r, 1));
	CHECK_EQ(results.finished, 1);
}

RIG_TEST(logptest_reports_why_no_session_opens, rig_new_graph(SERVER))
{
	rig_wire_refuse(r, -EINVAL);
	CHECK_EQ(start(r, 1, (struct xk_logptest_loop){ .sends = 1, .last = 1 }), 0);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.error, -EINVAL);
	CHECK_EQ(results.result.max_packet, 0);
}

RIG_TEST(logptest_needs_no_ports_below, rig_new_graph(SERVER "; logptest.port=0"))
{
	CHECK_EQ(start(r, 1, (struct xk_logptest_loop){ .sends = 1, .last = 1 }), 0);
	CHECK_EQ(rig_wire_remote(r), HOST);
	answer(r, take(r, 1));
	CHECK_EQ(results.finished, 1);
}

/* ---- the run that starts by itself ---- */

RIG_TEST(logptest_starts_by_itself_if_a_peer_is_set,
	 rig_new_graph(SERVER "; logptest.peer=10.77.0.2; logptest.rounds=1; logptest.size=10; "
			      "logptest.sends=2; logptest.first_answers=1; logptest.last_answers=1; "
			      "logptest.send_work=3ms; logptest.start=1s"))
{
	uint32_t batch;

	rig_expect_silence_ms(r, 999);
	rig_advance_ms(r, 1);
	rig_advance_ms(r, 0);
	batch = take(r, 1);
	CHECK_EQ(take(r, 1), batch);
	rig_advance_ms(r, 1);
	answer(r, batch);
	rig_advance_ms(r, 2);
	answer(r, batch);
	CHECK_EQ(rig_counter_of(r, "logptest", "rounds"), 1);
	CHECK_EQ(rig_counter_of(r, "logptest", "sent_ns"), 3 * MS);
	CHECK_EQ(rig_counter_of(r, "logptest", "answered_ns"), 6 * MS);
	rig_expect_silence_ms(r, 2000);
}
