/* test_blasttest.c - BLAST's test protocol on a fake wire: messages sent, checked, answered, awaited and given up. */
#include <errno.h>
#include <limits.h>

#include "protocols/test/blasttest.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { HOST = 0x0a4d0002, SIZE = 100, MS = 1000000, LONGEST = 65536 };

struct results {
	struct xk_blasttest_result result;
	unsigned finished;
};

/* Result of the latest run. */
static struct results results;

static void
on_finished(void *argument, const struct xk_blasttest_result *result)
{
	struct results *t = argument;

	t->result = *result;
	t->finished++;
}

static struct xk_blasttest_run
run_of(struct results *t, uint32_t window, uint64_t count)
{
	memset(t, 0, sizeof(*t));
	return (struct xk_blasttest_run){ .host = HOST,
					  .size = SIZE,
					  .window = window,
					  .count = count,
					  .timeout_ns = 200 * MS,
					  .finished = on_finished,
					  .argument = t };
}

static struct rig *
new_rig(const char *settings)
{
	static const uint32_t longest = LONGEST;
	char graph[160];
	struct rig *r;

	snprintf(graph, sizeof(graph), "wire:; blasttest: wire%s", settings);
	r = rig_new_graph(graph);
	rig_answer_control(r, XK_GET_MAX_PACKET, &longest, sizeof(longest));
	return r;
}

static int
start(struct rig *r, const struct xk_blasttest_run *run)
{
	int status = xk_blasttest_start(rig_protocol(r, "blasttest"), run);

	rig_advance_ms(r, 1);
	return status;
}

/* Takes the next message sent and answers as the server, which has `whole` of them. Returns its number. */
static uint32_t
answer(struct rig *r, uint32_t whole)
{
	uint8_t bytes[SIZE];

	REQUIRE(rig_sent(r) > 0);
	CHECK_EQ(rig_take_sent(r, bytes, sizeof(bytes)), SIZE);
	CHECK_EQ(xk_get32(bytes), 1);
	xk_put32(bytes, 2);
	xk_put32(bytes + 16, whole);
	rig_inject_bytes(r, bytes, XK_BLASTTEST_MIN);
	return xk_get32(bytes + 4);
}

/* ---- the client ---- */

RIG_TEST(blasttest_sends_one_after_the_other, new_rig(""))
{
	struct xk_blasttest_run run = run_of(&results, 1, 3);

	CHECK_EQ(start(r, &run), 0);
	CHECK_EQ(rig_wire_remote(r), HOST);
	for (uint32_t i = 0; i < 3; i++) {
		CHECK_EQ(rig_sent(r), 1);
		CHECK_EQ(results.finished, 0);
		rig_advance_ms(r, i);
		CHECK_EQ(answer(r, i + 1), i);
	}
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.error, 0);
	CHECK_EQ(results.result.sent, 3);
	CHECK_EQ(results.result.answered, 3);
	CHECK_EQ(results.result.whole, 3);
	CHECK_EQ(results.result.rtt_min_ns, 1 * MS);
	CHECK_EQ(results.result.rtt_max_ns, 2 * MS);
	CHECK_EQ(results.result.rtt_mean_ns, (1 + 1 + 2) * MS / 3);
	CHECK_EQ(rig_wire_session_count(r), 0);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(blasttest_keeps_a_window_of_messages_in_flight, new_rig(""))
{
	struct xk_blasttest_run run = run_of(&results, 4, 10);

	CHECK_EQ(start(r, &run), 0);
	CHECK_EQ(rig_sent(r), 4);
	answer(r, 1);
	CHECK_EQ(rig_sent(r), 4);
	for (unsigned i = 1; i < 10; i++)
		answer(r, i + 1);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.answered, 10);
	rig_expect_nothing_sent(r);
}

RIG_TEST(blasttest_counts_unanswered_messages_as_lost, new_rig(""))
{
	struct xk_blasttest_run run = run_of(&results, 2, 3);

	CHECK_EQ(start(r, &run), 0);
	rig_advance_ms(r, 198);
	CHECK_EQ(rig_sent(r), 2);
	rig_advance_ms(r, 1);
	CHECK_EQ(rig_counter(r, "lost"), 2);
	CHECK_EQ(rig_sent(r), 3);
	answer(r, 1); /* the first message's, late */
	CHECK_EQ(rig_counter(r, "late"), 1);
	answer(r, 2);
	CHECK_EQ(rig_counter(r, "late"), 2);
	CHECK_EQ(results.finished, 0);
	answer(r, 3);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.lost, 2);
	CHECK_EQ(results.result.answered, 1);
}

RIG_TEST(blasttest_accepts_an_answer_once, new_rig(""))
{
	struct xk_blasttest_run run = run_of(&results, 2, 2);
	uint8_t bytes[SIZE];

	CHECK_EQ(start(r, &run), 0);
	CHECK_EQ(rig_take_sent(r, bytes, sizeof(bytes)), SIZE);
	xk_put32(bytes, 2);
	for (unsigned i = 0; i < 2; i++)
		rig_inject_bytes(r, bytes, XK_BLASTTEST_MIN);
	CHECK_EQ(rig_counter(r, "late"), 1);
	xk_put64(bytes + 8, xk_get64(bytes + 8) + 1); /* another run */
	rig_inject_bytes(r, bytes, XK_BLASTTEST_MIN);
	xk_put64(bytes + 8, xk_get64(bytes + 8) - 1);
	xk_put32(bytes + 4, 2); /* not sent yet */
	rig_inject_bytes(r, bytes, XK_BLASTTEST_MIN);
	CHECK_EQ(rig_counter(r, "late"), 3);
	answer(r, 2);
	CHECK_EQ(results.result.answered, 2);
}

RIG_TEST(blasttest_drops_an_answer_of_another_run, new_rig(""))
{
	struct xk_blasttest_run run = run_of(&results, 1, 1);
	uint8_t bytes[SIZE];

	CHECK_EQ(start(r, &run), 0);
	CHECK_EQ(rig_take_sent(r, bytes, sizeof(bytes)), SIZE);
	xk_put32(bytes, 2);
	xk_put64(bytes + 8, xk_get64(bytes + 8) + 1);
	rig_inject_bytes(r, bytes, XK_BLASTTEST_MIN);
	rig_expect_counts(r, "late=1 answered=0");
	CHECK_EQ(results.finished, 0);
	xk_put64(bytes + 8, xk_get64(bytes + 8) - 1);
	rig_inject_bytes(r, bytes, XK_BLASTTEST_MIN);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.answered, 1);
}

RIG_TEST(blasttest_counts_failed_sends_as_lost, new_rig(""))
{
	struct xk_blasttest_run run = run_of(&results, 1, 2);

	rig_fail_sending(r, -ENOBUFS);
	CHECK_EQ(start(r, &run), 0);
	rig_fail_sending(r, 0);
	rig_limit_buffers(r, 0);
	rig_advance_ms(r, 200);
	rig_limit_buffers(r, UINT_MAX);
	rig_advance_ms(r, 200);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.unsent, 2);
	CHECK_EQ(results.result.lost, 2);
	CHECK_EQ(rig_counter(r, "unsent"), 2);
}

RIG_TEST(blasttest_gives_up_a_run_that_cannot_start, new_rig(""))
{
	struct xk_blasttest_run run = run_of(&results, 1, 2);
	uint32_t longest = SIZE - 1;

	rig_wire_refuse(r, -ENETUNREACH);
	CHECK_EQ(start(r, &run), 0);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.error, -ENETUNREACH);
	rig_wire_refuse(r, 0);
	rig_answer_control(r, XK_GET_MAX_PACKET, &longest, sizeof(longest));
	CHECK_EQ(start(r, &run), 0);
	CHECK_EQ(results.result.error, -EMSGSIZE);
	rig_expect_nothing_sent(r);
}

RIG_TEST(blasttest_refuses_impossible_runs, new_rig(""))
{
	struct xk_blasttest_run run = run_of(&results, 0, 2);

	CHECK_EQ(start(r, &run), -EINVAL);
	run.window = XK_BLASTTEST_WINDOW + 1;
	CHECK_EQ(start(r, &run), -EINVAL);
	run.window = 1;
	run.size = XK_BLASTTEST_MIN - 1;
	CHECK_EQ(start(r, &run), -EINVAL);
	run.size = XK_BLASTTEST_MAX + 1;
	CHECK_EQ(start(r, &run), -EINVAL);
	run.size = SIZE;
	run.timeout_ns = 999;
	CHECK_EQ(start(r, &run), -EINVAL);
	run.timeout_ns = 200 * MS;
	run.finished = NULL;
	CHECK_EQ(start(r, &run), -EINVAL);
	run.finished = on_finished;
	CHECK_EQ(start(r, &run), 0);
	CHECK_EQ(start(r, &run), -EBUSY);
	answer(r, 1);
	answer(r, 2);
	CHECK_EQ(results.finished, 1);
}

RIG_TEST(blasttest_starts_by_itself,
	 new_rig("; blasttest.to=10.77.0.2; blasttest.count=2; blasttest.size=100; blasttest.start=5ms"))
{
	rig_expect_silence_ms(r, 4);
	rig_advance_ms(r, 2);
	for (uint32_t i = 0; i < 2; i++) {
		rig_advance_ms(r, 3);
		answer(r, i + 1);
	}
	rig_expect_counts(r, "sent=2 answered=2 whole_there=2");
	CHECK_EQ(rig_counter(r, "rtt_min_ns"), 3 * MS);
	CHECK_EQ(rig_counter(r, "rtt_mean_ns"), 7 * MS / 2);
	CHECK_EQ(rig_counter(r, "rtt_max_ns"), 4 * MS);
}

/* ---- the server ---- */

/* Takes a message that a client sends. */
static void
take_message(uint8_t *bytes)
{
	struct rig *client = new_rig("");
	struct xk_blasttest_run run = run_of(&results, 1, 1);

	CHECK_EQ(start(client, &run), 0);
	CHECK_EQ(rig_take_sent(client, bytes, SIZE), SIZE);
	rig_advance_ms(client, 200);
	CHECK_EQ(results.finished, 1);
	rig_free(client);
}

RIG_TEST(blasttest_answers_with_the_number_received, new_rig(""))
{
	uint8_t bytes[SIZE], got[SIZE];

	take_message(bytes);
	for (uint32_t i = 1; i <= 3; i++) {
		rig_inject_bytes(r, bytes, SIZE);
		CHECK_EQ(rig_take_sent(r, got, sizeof(got)), XK_BLASTTEST_MIN);
		CHECK_EQ(xk_get32(got), 2);
		CHECK_EQ(xk_get32(got + 16), i);
		CHECK(memcmp(got + 4, bytes + 4, 12) == 0);
	}
	CHECK_EQ(rig_counter(r, "whole"), 3);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(blasttest_server_remembers_some_runs, new_rig(""))
{
	uint8_t bytes[2][SIZE], got[SIZE];

	for (unsigned i = 0; i < 20; i++) {
		take_message(bytes[i > 0]);
		rig_inject_bytes(r, bytes[i > 0], SIZE);
	}
	rig_forget(r);
	rig_inject_bytes(r, bytes[1], SIZE);
	CHECK_EQ(rig_take_sent(r, got, sizeof(got)), XK_BLASTTEST_MIN);
	CHECK_EQ(xk_get32(got + 16), 2);
	rig_inject_bytes(r, bytes[0], SIZE);
	CHECK_EQ(rig_take_sent(r, got, sizeof(got)), XK_BLASTTEST_MIN);
	CHECK_EQ(xk_get32(got + 16), 1); /* forgotten: counts anew */
}

RIG_TEST(blasttest_drops_damaged_messages, new_rig(""))
{
	uint8_t bytes[SIZE];

	take_message(bytes);
	rig_inject_bytes(r, bytes, SIZE - 1);
	bytes[SIZE - 1] ^= 1;
	rig_inject_bytes(r, bytes, SIZE);
	CHECK_EQ(rig_counter(r, "corrupt"), 2);
	xk_put32(bytes, 3);
	rig_inject_bytes(r, bytes, SIZE);
	xk_put32(bytes, 2); /* an answer is short */
	rig_inject_bytes(r, bytes, SIZE);
	CHECK_EQ(rig_counter(r, "bad"), 2);
	rig_inject_bytes(r, bytes, XK_BLASTTEST_MIN - 1);
	CHECK_EQ(rig_counter(r, "short"), 1);
	rig_expect_nothing_sent(r);
}

RIG_TEST(blasttest_drops_without_a_buffer, new_rig(""))
{
	uint8_t bytes[SIZE];

	take_message(bytes);
	rig_limit_buffers(r, 2);
	rig_inject(r, "00000001 00000000 | 0000000000000001 00000014");
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	rig_limit_buffers(r, 1);
	rig_inject_bytes(r, bytes, SIZE); /* none for the answer */
	rig_limit_buffers(r, UINT_MAX);
	CHECK_EQ(rig_counter(r, "whole"), 1);
	rig_expect_nothing_sent(r);
}

RIG_TEST(blasttest_need_not_serve, new_rig("; blasttest.serve=no"))
{
	uint8_t bytes[SIZE];

	take_message(bytes);
	rig_inject_bytes(r, bytes, SIZE);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	rig_expect_nothing_sent(r);
}
