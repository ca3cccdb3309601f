/*
 * test_blast_pair.c - two hosts of threads that exchange long messages through whole graphs, which lose, duplicate and
 * reorder fragments: BLAST and its tickets under real concurrency, over VNET and over IP.
 */
#include "protocols/test/blasttest.h"
#include "tests/protocols/pair.h"

enum { MESSAGES = 200, SIZE = 12000 };

struct blasters {
	struct pair pair;
	struct xk_protocol *tests[2];
	struct xk_blasttest_result results[2];
	_Atomic unsigned finished;
};

struct blaster {
	struct blasters *blasters;
	unsigned i;
};

static void
blasters_compose(struct blasters *b, unsigned i, const char *edges)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "digraph pair { blast [nack=\"2ms\", nack_max=\"50ms\", nacks=8]; vnet [address=\"10.77.0.%u/24\"];"
		 "vdrop [seed=%u, loss=\"2%%\", duplicate=\"2%%\", reorder=\"2%%\", reorder_time=\"1ms\"];"
		 "blasttest -> blast; %s vnet -> eth; vnet -> arp -> eth; eth -> port }",
		 1 + i, 7 + i, edges);
	compose(b->pair.kernels[i], NULL, text);
	b->tests[i] = xk_kernel_find(b->pair.kernels[i], "blasttest");
}

static void
blaster_finished(void *argument, const struct xk_blasttest_result *result)
{
	const struct blaster *blaster = argument;

	blaster->blasters->results[blaster->i] = *result;
	atomic_fetch_add(&blaster->blasters->finished, 1);
}

static bool
blasters_have_finished(void *context)
{
	struct blasters *b = context;

	return atomic_load(&b->finished) == 2;
}

/* Checks that every message delivered was sent, and that lost fragments were retransmitted. */
static void
blasters_check(struct blasters *b)
{
	for (unsigned i = 0; i < 2; i++) {
		const struct xk_blasttest_result *result = &b->results[i];
		struct xk_kernel *kernel = b->pair.kernels[i];

		CHECK_EQ(result->error, 0);
		CHECK_EQ(result->sent, MESSAGES);
		CHECK_EQ(result->answered + result->lost, MESSAGES);
		CHECK(result->answered > MESSAGES / 2);
		CHECK(compose_count(kernel, "blast", "retransmitted") > 0);
		CHECK(compose_count(kernel, "blast", "released") > 0);
		CHECK_EQ(compose_count(kernel, "blasttest", "corrupt"), 0);
	}
}

static void
check_blasters(enum xk_mode mode, const char *edges)
{
	struct blasters b = { .finished = 0 };
	struct blaster ends[2] = { { &b, 0 }, { &b, 1 } };

	pair_begin(&b.pair, mode);
	for (unsigned i = 0; i < 2; i++)
		blasters_compose(&b, i, edges);
	pair_start(&b.pair);
	for (unsigned i = 0; i < 2; i++) {
		struct xk_blasttest_run run = { .host = 0x0a4d0002 - i,
						.size = SIZE,
						.window = 8,
						.count = MESSAGES,
						.timeout_ns = 300000000,
						.finished = blaster_finished,
						.argument = &ends[i] };

		CHECK_EQ(xk_blasttest_start(b.tests[i], &run), 0);
	}
	CHECK(pair_wait(blasters_have_finished, &b));
	if (blasters_have_finished(&b))
		blasters_check(&b);
	pair_stop(&b.pair);
	pair_end(&b.pair);
}

TEST(blast_connects_two_hosts_in_regular_mode_over_vnet)
{
	check_blasters(XK_REGULAR, "blast -> vdrop -> vnet;");
}

TEST(blast_connects_two_hosts_in_ipp_mode_over_vnet)
{
	check_blasters(XK_IPP, "blast -> vdrop -> vnet;");
}

TEST(blast_connects_two_hosts_in_regular_mode_over_ip)
{
	check_blasters(XK_REGULAR, "blast -> vdrop -> ip; ip -> vnet;");
}

TEST(blast_connects_two_hosts_in_ipp_mode_over_ip)
{
	check_blasters(XK_IPP, "blast -> vdrop -> ip; ip -> vnet;");
}
