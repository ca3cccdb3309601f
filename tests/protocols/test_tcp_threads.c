/*
 * test_tcp_threads.c - TCP under threads: two hosts whose connections send both ways and open and close, all at once,
 * over links that lose, duplicate and reorder. Each byte of each stream arrives once and in order. With cookies, which
 * remember less than a full limbo, a connection may fail.
 *
 * Opens in limbo and connections in TIME-WAIT are remembered for much longer than a busy machine keeps a thread waiting:
 * once they are forgotten, what the peer sends again is answered by a RST, and its connection fails.
 */
#include "tests/protocols/pair.h"

enum { CONNECTIONS = 3, TIMES = 10, BYTES = 20000 };

static const char graph_text[] =
	"digraph tcp { graph [%s]; tcptest [peer=\"10.77.0.%u\", connections=%u, times=%u, bytes=%u, size=%u, flow=%s];"
	"tcp [timeout=\"50ms\", timeout_min=\"5ms\", timeout_max=\"100ms\", patience=\"30s\", synack_retries=8, "
	"send=\"8k\", receive=\"16k\", limbo=%u, ack_delay=\"5ms\"];"
	"vdrop [seed=%u, loss=\"2%%\", duplicate=\"3%%\", reorder=\"3%%\", reorder_time=\"1ms\", direction=both];"
	"vnet [address=\"10.77.0.%u/24\"];"
	"tcptest -> tcp [%s]; tcp -> ip [%s]; ip -> vdrop -> vnet;"
	"vnet -> eth; vnet -> arp; arp -> eth; eth -> port }";

static bool
both_have_finished(void *context)
{
	const struct pair *pair = context;

	for (unsigned i = 0; i < 2; i++)
		if (compose_count(pair->kernels[i], "tcptest", "finished") +
			    compose_count(pair->kernels[i], "tcptest", "failed") <
		    CONNECTIONS * TIMES)
			return false;
	return true;
}

/* Returns whether each connection that was announced has ended: one that no peer knows of would not. */
static bool
all_have_ended(void *context)
{
	const struct pair *pair = context;

	for (unsigned i = 0; i < 2; i++)
		if (compose_count(pair->kernels[i], "tcptest", "ended") +
			    compose_count(pair->kernels[i], "tcptest", "cut") <
		    compose_count(pair->kernels[i], "tcptest", "accepted") +
			    compose_count(pair->kernels[i], "tcptest", "finished"))
			return false;
	return true;
}

static void
check_streams(enum xk_mode mode, const char *policy, const char *mark, const char *flow, unsigned limbo)
{
	struct pair pair;
	char text[2048];

	pair_begin(&pair, mode);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(text, sizeof(text), graph_text, policy, 2 - i, CONNECTIONS, TIMES, BYTES, 700 + 1500 * i, flow,
			 limbo, 7 + i, 1 + i, mark, mark);
		compose(pair.kernels[i], NULL, text);
	}
	pair_start(&pair);
	CHECK(pair_wait(both_have_finished, &pair));
	if (!both_have_finished(&pair))
		return;                                        /* what hangs cannot be freed */
	CHECK(limbo <= 1 || pair_wait(all_have_ended, &pair)); /* an old cookie may open a connection again */
	pair_stop(&pair);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(compose_count(pair.kernels[i], "tcptest", "wrong"), 0);
		CHECK(compose_count(pair.kernels[i], "tcptest", "failed") <= (limbo > 1 ? 0 : CONNECTIONS));
		CHECK(compose_count(pair.kernels[i], "tcp", "retransmitted") > 0);
	}
	pair_end(&pair);
}

TEST_OF(tcp_works_under_threads_in_regular_mode, check_streams(XK_REGULAR, "resume=thread", "", "both", 256));
TEST_OF(tcp_works_under_threads_in_ipp_mode, check_streams(XK_IPP, "resume=driver", "", "both", 256));
TEST_OF(tcp_works_under_threads_in_ipp_mode_with_handoffs,
	check_streams(XK_IPP, "resume=thread", "handoff=explicit", "both", 256));
TEST_OF(tcp_echoes_under_threads_in_ipp_mode, check_streams(XK_IPP, "resume=driver", "", "echo", 256));
TEST_OF(tcp_accepts_cookies_under_threads, check_streams(XK_IPP, "resume=thread", "handoff=explicit", "both", 1));
