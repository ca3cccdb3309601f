/*
 * test_udptest.c - the test protocol on a fake wire: the server's echoes, and the client's rounds with losses and late
 * and bad echoes.
 */
#include <errno.h>

#include "protocols/test/udptest.h"
#include "tests/rig.h"

#define SERVER "wire:; udptest: wire"

enum { HOST = 0x0a4d0002, LONGEST = XK_UDPTEST_MAX };

/* Results of the callbacks. */
static struct {
	unsigned recorded, lost, finished;
	uint64_t last_rtt_ns;
	struct xk_udptest_result result;
} results;

static void
on_record(void *argument, uint64_t rtt_ns)
{
	results.recorded++;
	results.last_rtt_ns = rtt_ns;
}

static void
on_lost(void *argument, uint64_t waited_ns)
{
	results.lost++;
}

static void
on_finished(void *argument, const struct xk_udptest_result *result)
{
	results.finished++;
	results.result = *result;
}

static struct xk_udptest_run
run_of(uint32_t size, uint64_t rounds)
{
	return (struct xk_udptest_run){ .host = HOST,
					.size = size,
					.rounds = rounds,
					.record = on_record,
					.lost = on_lost,
					.finished = on_finished };
}

static int
start(struct rig *r, uint32_t size, uint64_t rounds)
{
	struct xk_udptest_run run = run_of(size, rounds);
	int status;

	memset(&results, 0, sizeof(results));
	status = xk_udptest_start(rig_protocol(r, "udptest"), &run);
	rig_advance_ms(r, 0);
	return status;
}

/* Takes the request sent last and returns it as its echo. */
static void
echo(struct rig *r)
{
	static uint8_t bytes[LONGEST];
	long len = rig_take_sent(r, bytes, sizeof(bytes));

	REQUIRE(len >= 0);
	rig_inject_bytes(r, bytes, (size_t)len);
}

static void
close_it(void *argument)
{
	CHECK_EQ(xk_udptest_close(rig_protocol(argument, "udptest")), 0);
}

/* Closes the session and checks that nothing is left. */
static void
end(struct rig *r)
{
	rig_do(r, close_it, r);
	rig_free(r);
}

/* ---- server ---- */

RIG_TEST(udptest_echoes_every_message, rig_new_graph(SERVER))
{
	CHECK_EQ(rig_wire_enable_count(r), 1);
	rig_expect_answer(r, "aabbcc", "aabbcc");
	rig_expect_answer(r, "00 | 11", "0011");
	rig_expect_answer(r, "", "");
	CHECK_EQ(rig_counter_of(r, "udptest", "messages"), 3);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(udptest_refuses_to_echo_for_another_server, rig_new_graph(SERVER))
{
	rig_wire_peer(r, XK_UDPTEST_PORT);
	rig_inject(r, "aa");
	rig_expect_nothing_sent(r);
	rig_wire_peer(r, XK_UDPTEST_PORT + 1);
	rig_expect_answer(r, "aa", "aa");
}

RIG_TEST(udptest_with_serve_off_enables_nothing, rig_new_graph(SERVER "; udptest.serve=no"))
{
	CHECK_EQ(rig_wire_enable_count(r), 0);
}

RIG_TEST(udptest_counts_failed_echoes, rig_new_graph(SERVER))
{
	rig_fail_sending(r, -ENOBUFS);
	rig_inject(r, "aa");
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter_of(r, "udptest", "unsent"), 1);
}

/* ---- client ---- */

TEST_WITH(udptest_counts_rounds_exactly, struct rig *r, rig_new_graph(SERVER), end)
{
	CHECK_EQ(start(r, 1, 3), 0);
	CHECK_EQ(rig_wire_remote(r), XK_UDPTEST_PORT);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(results.finished, 0);
		rig_advance_ms(r, 7);
		CHECK_EQ(rig_sent(r), 1);
		echo(r);
	}
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.recorded, 3);
	CHECK_EQ(results.last_rtt_ns, 7000000);
	CHECK_EQ(results.result.error, 0);
	CHECK_EQ(results.result.rounds, 3);
	CHECK_EQ(results.result.lost + results.result.late + results.result.bad, 0);
	rig_expect_nothing_sent(r);
}

TEST_WITH(udptest_numbers_its_requests, struct rig *r, rig_new_graph(SERVER), end)
{
	CHECK_EQ(start(r, 9, 2), 0);
	rig_expect_sent(r, "01000000 00000000 ..");
	rig_inject(r, "01000000 00000000 00");
	CHECK_EQ(rig_counter_of(r, "udptest", "bad"), 1); /* the pattern is wrong */
	rig_expect_sent(r, "02000000 00000000 ..");
	rig_advance_ms(r, 20000);
	rig_forget(r);
}

TEST_WITH(udptest_keeps_its_session_for_the_next_run, struct rig *r, rig_new_graph(SERVER), end)
{
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(start(r, 4, 1), 0);
		echo(r);
		CHECK_EQ(results.finished, 1);
		CHECK_EQ(rig_wire_session_count(r), 1);
	}
}

TEST_WITH(udptest_carries_the_longest_message, struct rig *r, rig_new_graph(SERVER), end)
{
	static uint8_t bytes[LONGEST];
	uint32_t max = LONGEST;

	rig_answer_control(r, XK_GET_MAX_PACKET, &max, sizeof(max));
	CHECK_EQ(start(r, LONGEST, 2), 0);
	CHECK_EQ(rig_take_sent(r, bytes, sizeof(bytes)), LONGEST);
	rig_inject_bytes(r, bytes, LONGEST);
	CHECK_EQ(results.recorded, 1);
	CHECK_EQ(rig_take_sent(r, bytes, sizeof(bytes)), LONGEST);
	bytes[LONGEST - 1] ^= 1;
	rig_inject_bytes(r, bytes, LONGEST);
	CHECK_EQ(results.recorded, 1);
	CHECK_EQ(rig_counter_of(r, "udptest", "bad"), 1);
	echo(r);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.bad, 1);
	CHECK_EQ(results.result.rounds, 2);
}

TEST_WITH(udptest_continues_after_a_loss_and_detects_the_late_echo, struct rig *r, rig_new_graph(SERVER), end)
{
	CHECK_EQ(start(r, 1, 2), 0);
	rig_expect_sent(r, "01");
	rig_advance_ms(r, 400);
	CHECK_EQ(results.lost, 0);
	rig_advance_ms(r, 300);
	CHECK_EQ(results.lost, 1);
	CHECK_EQ(rig_counter_of(r, "udptest", "lost"), 1);
	rig_expect_sent(r, "02");
	rig_inject(r, "01");
	CHECK_EQ(rig_counter_of(r, "udptest", "late"), 1);
	CHECK_EQ(results.recorded, 0);
	rig_inject(r, "02");
	CHECK_EQ(results.recorded, 1);
	rig_inject(r, "02"); /* a duplicate */
	CHECK_EQ(rig_counter_of(r, "udptest", "late"), 2);
	echo(r);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.lost, 1);
	CHECK_EQ(results.result.rounds, 2);
	rig_inject(r, "03"); /* after the end */
	CHECK_EQ(rig_counter_of(r, "udptest", "late"), 3);
}

TEST_WITH(udptest_drops_truncated_and_longer_echoes, struct rig *r, rig_new_graph(SERVER), end)
{
	CHECK_EQ(start(r, 8, 1), 0);
	rig_forget(r);
	rig_inject_prefixes(r, "01000000 00000000");
	rig_forget(r);
	rig_inject(r, "08000000 00000000 99");
	CHECK_EQ(results.finished, 0);
	CHECK_EQ(results.recorded, 0);
	CHECK_EQ(rig_counter_of(r, "udptest", "bad") + rig_counter_of(r, "udptest", "late"), 9);
	rig_advance_ms(r, 20000);
	rig_forget(r);
}

TEST_WITH(udptest_fails_if_the_server_is_silent, struct rig *r, rig_new_graph(SERVER), end)
{
	CHECK_EQ(start(r, 1, 1), 0);
	rig_advance_repeatedly_ms(r, 19, 500);
	CHECK_EQ(results.finished, 0);
	rig_advance_repeatedly_ms(r, 4, 500);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.error, -ETIMEDOUT);
	CHECK_EQ(results.result.lost, results.lost);
	CHECK(results.lost >= 10);
	rig_forget(r);
}

TEST_WITH(udptest_counts_failed_sends_as_lost, struct rig *r, rig_new_graph(SERVER), end)
{
	rig_fail_sending(r, -ENOBUFS);
	CHECK_EQ(start(r, 1, 1), 0);
	CHECK_EQ(rig_counter_of(r, "udptest", "unsent"), 1);
	rig_fail_sending(r, 0);
	rig_advance_ms(r, 700);
	CHECK_EQ(results.lost, 1);
	echo(r);
	CHECK_EQ(results.finished, 1);
}

TEST_WITH(udptest_waits_for_a_server_that_is_not_up_yet, struct rig *r, rig_new_graph(SERVER), end)
{
	rig_wire_refuse(r, -EHOSTUNREACH);
	CHECK_EQ(start(r, 1, 1), 0);
	rig_advance_ms(r, 3000);
	CHECK_EQ(results.finished, 0);
	rig_wire_refuse(r, 0);
	rig_advance_ms(r, 200);
	echo(r);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.error, 0);
}

TEST_WITH(udptest_gives_up_if_the_open_fails, struct rig *r, rig_new_graph(SERVER), end)
{
	rig_wire_refuse(r, -EHOSTUNREACH);
	CHECK_EQ(start(r, 1, 1), 0);
	rig_advance_ms(r, 9000);
	CHECK_EQ(results.finished, 0);
	rig_advance_ms(r, 2000);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.error, -EHOSTUNREACH);
	rig_wire_refuse(r, -ENETUNREACH);
	CHECK_EQ(start(r, 1, 1), 0);
	CHECK_EQ(results.finished, 1); /* at once */
	CHECK_EQ(results.result.error, -ENETUNREACH);
}

TEST_WITH(udptest_refuses_sizes_that_the_graph_cannot_send, struct rig *r, rig_new_graph(SERVER), end)
{
	uint32_t max = 100;

	rig_answer_control(r, XK_GET_MAX_PACKET, &max, sizeof(max));
	CHECK_EQ(start(r, 101, 1), 0);
	CHECK_EQ(results.result.error, -EMSGSIZE);
	CHECK_EQ(results.result.max_packet, 100);
	CHECK_EQ(start(r, 100, 1), 0);
	echo(r);
	CHECK_EQ(results.result.error, 0);
}

TEST_WITH(udptest_refuses_impossible_runs, struct rig *r, rig_new_graph(SERVER), end)
{
	struct xk_protocol *udptest = rig_protocol(r, "udptest");
	struct xk_udptest_run run = run_of(0, 1);

	CHECK_EQ(xk_udptest_start(udptest, &run), -EINVAL);
	run = run_of(LONGEST + 1, 1);
	CHECK_EQ(xk_udptest_start(udptest, &run), -EINVAL);
	run = run_of(1, 0);
	CHECK_EQ(xk_udptest_start(udptest, &run), -EINVAL);
	CHECK_EQ(start(r, 1, 1), 0);
	run = run_of(1, 1);
	CHECK_EQ(xk_udptest_start(udptest, &run), -EBUSY);
	CHECK_EQ(xk_udptest_close(udptest), -EBUSY);
	echo(r);
	CHECK_EQ(results.finished, 1);
}

/* ---- the run that starts by itself ---- */

TEST(udptest_starts_by_itself_if_a_peer_is_set)
{
	struct rig *r =
		rig_new_graph(SERVER "; udptest.peer=10.77.0.2; udptest.rounds=3; udptest.size=9; udptest.start=1s");

	rig_expect_silence_ms(r, 999);
	rig_advance_ms(r, 1);
	CHECK_EQ(rig_wire_remote(r), XK_UDPTEST_PORT);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(rig_sent(r), 1);
		rig_advance_ms(r, 2 + 3 * i);
		echo(r);
	}
	rig_expect_nothing_sent(r);
	rig_expect_counts(r, "udptest.rounds=3 udptest.lost=0 udptest.rtt_min_ns=2000000 "
			     "udptest.rtt_mean_ns=5000000 udptest.rtt_max_ns=8000000");
	rig_expect_silence_ms(r, 20000);
	end(r);
}

TEST_WITH(udptest_reports_progress_of_its_own_run, struct rig *r,
	  rig_new_graph(SERVER "; udptest.peer=10.77.0.2; udptest.rounds=3; udptest.silence=2s"), end)
{
	rig_advance_ms(r, 0);
	rig_advance_ms(r, 4);
	echo(r);
	rig_advance_repeatedly_ms(r, 40, 100);
	CHECK_EQ(rig_counter_of(r, "udptest", "rounds"), 1);
	CHECK(rig_counter_of(r, "udptest", "lost") >= 2);
	CHECK_EQ(rig_counter_of(r, "udptest", "rtt_mean_ns"), 4000000);
	rig_forget(r);
	CHECK_EQ(start(r, 1, 1), 0); /* free for a program's run now */
	echo(r);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(rig_counter_of(r, "udptest", "rounds"), 1);
}

TEST_WITH(udptest_without_any_echo_reports_no_times, struct rig *r,
	  rig_new_graph(SERVER "; udptest.peer=10.77.0.2; udptest.silence=1s"), end)
{
	rig_advance_repeatedly_ms(r, 40, 100);
	rig_expect_counts(r, "udptest.rounds=0 udptest.rtt_min_ns=0 udptest.rtt_mean_ns=0");
	rig_forget(r);
}
