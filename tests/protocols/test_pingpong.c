/*
 * test_pingpong.c - both ends of a round trip: on a fake wire, and two hosts of threads with each of the four
 * interfaces.
 */
#include <errno.h>

#include "tests/protocols/pair.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"

#define SERVER "wire:; pingpong: wire"
#define CLIENT SERVER "; pingpong.peer=10.77.0.2; pingpong.rounds=2; pingpong.repeats=2; pingpong.timeout=100ms"

enum { PORT = 2008 };

/* ---- the server ---- */

RIG_TEST(pingpong_server_changes_only_the_count, rig_new_graph(SERVER))
{
	rig_expect_answer(r, "00000007 00000bb8 0102030405060708 0000000000000000 aabbcc",
			  "00000007 00000bb7 0102030405060708 0000000000000000 aabbcc");
	rig_expect_answer(r, "00000007 00 | 000002 0102030405060708 00 | 00000000000000",
			  "00000007 00000001 0102030405060708 0000000000000000");
	rig_expect_counts(r, "pingpong.messages=2 pingpong.buffers=0");
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(pingpong_refuses_impossible_counts, rig_new_graph(SERVER))
{
	rig_inject(r, "00000007 00000000 0102030405060708 0000000000000000");
	rig_inject(r, "00000007 00000001 0102030405060708 0000000000000000"); /* a server's count is even */
	rig_inject(r, "00000007 001e8482 0102030405060708 0000000000000000");
	rig_inject(r, "00000007 ffffffff 0102030405060708 0000000000000000");
	CHECK_EQ(rig_counter_of(r, "pingpong", "bad_count"), 4);
	rig_inject_prefixes(r, "00000007 00000bb8 0102030405060708 00000000000000");
	rig_expect_nothing_sent(r);
	rig_expect_answer(r, "00000007 001e8480 0102030405060708 0000000000000000",
			  "00000007 001e847f 0102030405060708 0000000000000000");
}

RIG_TEST(pingpong_refuses_messages_too_long_for_an_application, rig_new_graph(SERVER))
{
	static uint8_t bytes[65508] = { [7] = 2 };

	rig_inject_bytes(r, bytes, sizeof(bytes));
	CHECK_EQ(rig_counter_of(r, "pingpong", "bad_length"), 1);
	rig_inject_bytes(r, bytes, sizeof(bytes) - 1);
	rig_expect_sent_count(r, 1);
}

RIG_TEST(pingpong_does_not_answer_another_server, rig_new_graph(SERVER))
{
	rig_wire_peer(r, PORT);
	rig_inject(r, "00000007 00000bb8 0102030405060708 0000000000000000");
	rig_expect_nothing_sent(r);
}

RIG_TEST(pingpong_counts_failed_sends, rig_new_graph(SERVER))
{
	rig_fail_sending(r, -ENOBUFS);
	rig_inject(r, "00000007 00000bb8 0102030405060708 0000000000000000");
	CHECK_EQ(rig_counter_of(r, "pingpong", "unsent"), 1);
}

TEST(pingpong_refuses_other_endpoints)
{
	CHECK_EQ(rig_refusal(SERVER "; pingpong.endpoint=elsewhere"), -EINVAL);
}

/* ---- the client ---- */

/* Returns the message sent last, as a server does. */
static void
serve(struct rig *r)
{
	uint8_t bytes[64];
	long len = rig_take_sent(r, bytes, sizeof(bytes));

	REQUIRE(len == 32);
	xk_put32(bytes + 4, xk_get32(bytes + 4) - 1);
	rig_inject_bytes(r, bytes, (size_t)len);
}

RIG_TEST(pingpong_client_reports_the_averages_of_its_runs, rig_new_graph(CLIENT))
{
	rig_advance_ms(r, 0);
	for (unsigned i = 0; i < 4; i++) {
		rig_advance_ms(r, i < 2 ? 10 : 20); /* a round trip's; a run has two */
		serve(r);
	}
	rig_expect_silence_ms(r, 1);
	rig_expect_counts(r, "pingpong.runs=2 pingpong.messages=4 pingpong.min_ns=10000000 "
			     "pingpong.max_ns=20000000 pingpong.mean_ns=15000000 pingpong.lost=0");
}

RIG_TEST(pingpong_client_checks_the_length_of_the_answer, rig_new_graph(CLIENT))
{
	uint8_t bytes[64] = { 0 };

	rig_advance_ms(r, 0);
	CHECK_EQ(rig_take_sent(r, bytes, sizeof(bytes)), 32);
	xk_put32(bytes + 4, xk_get32(bytes + 4) - 1);
	rig_inject_bytes(r, bytes, 31);
	rig_inject_bytes(r, bytes, 33);
	CHECK_EQ(rig_counter_of(r, "pingpong", "bad_length"), 2);
	rig_expect_nothing_sent(r);
	rig_inject_bytes(r, bytes, 32);
	CHECK_EQ(rig_sent(r), 1);
	rig_advance_ms(r, 20000);
	rig_forget(r);
}

RIG_TEST(pingpong_client_restarts_a_run_after_a_loss, rig_new_graph(CLIENT))
{
	uint8_t lost[64];

	rig_advance_ms(r, 0);
	serve(r);
	CHECK_EQ(rig_take_sent(r, lost, sizeof(lost)), 32);
	rig_advance_ms(r, 250);
	CHECK_EQ(rig_counter_of(r, "pingpong", "lost"), 1);
	rig_inject_bytes(r, lost, 32); /* not an answer's count */
	CHECK_EQ(rig_counter_of(r, "pingpong", "bad_count"), 1);
	xk_put32(lost + 4, xk_get32(lost + 4) - 1);
	rig_inject_bytes(r, lost, 32);
	CHECK_EQ(rig_counter_of(r, "pingpong", "stale"), 1);
	for (unsigned i = 0; i < 4; i++) {
		serve(r);
		rig_advance_ms(r, 0);
	}
	CHECK_EQ(rig_counter_of(r, "pingpong", "runs"), 2);
}

RIG_TEST(pingpong_client_detects_a_loss_among_stray_messages, rig_new_graph(CLIENT))
{
	rig_advance_ms(r, 0);
	rig_wire_peer(r, 9);
	for (unsigned i = 0; i < 4; i++) {
		rig_inject(r, "00000007 00000bb8 0102030405060708 0000000000000000");
		rig_advance_ms(r, 40);
	}
	CHECK_EQ(rig_counter_of(r, "pingpong", "lost"), 1);
	rig_advance_ms(r, 20000);
	rig_forget(r);
}

RIG_TEST(pingpong_client_gives_up_a_silent_server, rig_new_graph(CLIENT "; pingpong.silence=1s"))
{
	rig_advance_ms(r, 5000);
	rig_expect_counts(r, "pingpong.lost=10 pingpong.runs=0");
	rig_forget(r);
	rig_expect_silence_ms(r, 5000);
}

/* ---- two hosts ---- */

enum { ROUNDS = 50, REPEATS = 3 };

static void
pair_compose(struct pair *pair, unsigned i, const char *settings, const char *edges)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "digraph pair { pingpong [%s%s]; %s; vnet [address=\"10.77.0.%u/24\"]; vnet -> eth;"
		 "vnet -> arp -> eth; eth -> port }",
		 settings, i == 0 ? ", peer=\"10.77.0.2\"" : "", edges, 1 + i);
	compose(pair->kernels[i], NULL, text);
}

static bool
has_run(void *context)
{
	struct pair *pair = context;

	return compose_count(pair->kernels[0], "pingpong", "runs") == REPEATS;
}

/* Returns the number of buffers that the server allocated. */
static long
check_pair(enum xk_mode mode, const char *endpoint, const char *edges, unsigned size)
{
	char settings[256];
	struct pair pair;
	long buffers;

	snprintf(settings, sizeof(settings), "endpoint=%s, rounds=%u, repeats=%u, size=%u, timeout=\"60s\"", endpoint,
		 ROUNDS, REPEATS, size);
	pair_begin(&pair, mode);
	for (unsigned i = 0; i < 2; i++)
		pair_compose(&pair, i, settings, edges);
	pair_start(&pair);
	CHECK(pair_wait(has_run, &pair));
	pair_stop(&pair);
	CHECK_EQ(compose_count(pair.kernels[0], "pingpong", "messages"), ROUNDS * REPEATS);
	CHECK(compose_count(pair.kernels[1], "pingpong", "messages") >= ROUNDS * REPEATS);
	buffers = compose_count(pair.kernels[1], "pingpong", "buffers");
	pair_end(&pair);
	return buffers;
}

static const enum xk_mode modes[] = { XK_IPP, XK_REGULAR };

TEST(pingpong_runs_between_handlers)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(modes); i++)
		CHECK_EQ(check_pair(modes[i], "handler", "pingpong -> llp -> vnet", 32), 0);
	check_pair(XK_IPP, "handler", "pingpong -> udp -> ip -> vnet", 4000);
}

/*
 * Each message arrives twice. The client accepts the first, and the copies share their bytes, so each end has to copy.
 */
TEST(pingpong_runs_between_handlers_despite_duplicates)
{
	CHECK(check_pair(XK_IPP, "handler", "pingpong -> vdrop; vdrop [duplicate=1]; vdrop -> llp -> vnet", 32) > 0);
}

TEST(pingpong_runs_between_shepherds)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(modes); i++)
		CHECK_EQ(check_pair(modes[i], "kernel", "pingpong -> llp -> vnet", 1024), 0);
}

TEST(pingpong_between_applications_copies_into_new_buffers)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(modes); i++)
		CHECK_EQ(check_pair(modes[i], "user", "pingpong -> llp -> vnet", 1024), ROUNDS * REPEATS);
	CHECK_EQ(check_pair(XK_IPP, "user, static=yes", "pingpong -> udp -> ip -> vnet", 4000), ROUNDS * REPEATS);
}

TEST(pingpong_with_a_static_buffer_allocates_none)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(modes); i++)
		CHECK_EQ(check_pair(modes[i], "user, static=yes", "pingpong -> llp -> vnet", 1024), 0);
}

static bool
queue_is_full(void *context)
{
	struct pair *pair = context;

	return compose_count(pair->kernels[1], "pingpong", "queue_full") > 0;
}

/* Each message that the client gives up waits at the server, whose shepherd does not start. */
TEST_IN(pingpong_bounds_the_queue_of_a_shepherd, struct pair, pair, pair_begin(pair, XK_IPP), pair_end)
{
	pair_compose(pair, 0, "endpoint=handler, timeout=\"1ms\", silence=\"60s\"", "pingpong -> llp -> vnet");
	pair_compose(pair, 1, "endpoint=kernel, start=\"3600s\"", "pingpong -> llp -> vnet");
	pair_start(pair);
	CHECK(pair_wait(queue_is_full, pair));
	pair_stop(pair);
	CHECK_EQ(compose_count(pair->kernels[1], "pingpong", "messages"), 0);
}
