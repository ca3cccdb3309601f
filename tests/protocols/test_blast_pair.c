/*
 * test_blast_pair.c - two hosts of threads that send long messages to each other through whole graphs, which lose, repeat and
 * reorder fragments: BLAST and its tickets under real concurrency, over VNET and over IP.
 */
#include <stdio.h>
#include <time.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "protocols/blasttest.h"
#include "tests/test.h"
#include "xkernel/kernel.h"

enum { PAIR_MESSAGES = 200, PAIR_SIZE = 12000, PAIR_NAPS = 60000 };

struct pair {
	struct xk_platform *platforms[2];
	struct xk_kernel *kernels[2];
	struct xk_port *ports[2];
	struct xk_protocol *tests[2];
	struct xk_blasttest_result results[2];
	_Atomic unsigned finished;
};

struct pair_end {
	struct pair *pair;
	unsigned i;
};

static void
pair_build(struct pair *p, unsigned i, const char *edges)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_protocol *failed;
	struct xk_graph *graph;
	char text[1024];

	snprintf(text, sizeof(text),
		 "digraph pair { blast [nack=\"2ms\", nack_max=\"50ms\", nacks=8]; vnet [address=\"10.77.0.%u/24\"];"
		 "vdrop [seed=%u, loss=\"2%%\", duplicate=\"2%%\", reorder=\"2%%\", reorder_time=\"1ms\"];"
		 "blasttest -> blast; %s vnet -> eth; vnet -> arp -> eth; eth -> port }",
		 1 + i, 7 + i, edges);
	graph = xk_graph_read_text("pair", text, strlen(text), &errors);
	REQUIRE(graph != NULL && xk_graph_check(graph, xk_protocol_types, &errors) == 0);
	REQUIRE(xk_graph_build(graph, p->kernels[i], &errors) == 0);
	xk_graph_free(graph);
	REQUIRE(xk_kernel_init(p->kernels[i], &failed) == 0);
	p->tests[i] = xk_kernel_find(p->kernels[i], "blasttest");
}

static void
pair_begin(struct pair *p, enum xk_mode mode, const char *edges)
{
	memset(p, 0, sizeof(*p));
	for (unsigned i = 0; i < 2; i++) {
		struct xk_kernel_config config = { .name = "pair", .mode = mode, .threads = 3, .core = -1 };

		config.driver = XK_DRIVER_INTERRUPT;
		p->platforms[i] = config.platform = xk_memory_platform_new(XK_MEMORY_REAL);
		p->kernels[i] = xk_kernel_new(&config);
		p->ports[i] = xk_memory_port_new(p->platforms[i], "port", 0x020000000001 + i, 1500);
		REQUIRE(p->kernels[i] != NULL && p->ports[i] != NULL);
		xk_kernel_add_port(p->kernels[i], p->ports[i]);
	}
	REQUIRE(xk_memory_connect(p->ports[0], p->ports[1]) == 0);
	for (unsigned i = 0; i < 2; i++)
		pair_build(p, i, edges);
	for (unsigned i = 0; i < 2; i++)
		REQUIRE(xk_kernel_start(p->kernels[i]) == 0);
}

static void
pair_finished(void *argument, const struct xk_blasttest_result *result)
{
	const struct pair_end *end = argument;

	end->pair->results[end->i] = *result;
	atomic_fetch_add(&end->pair->finished, 1);
}

static void
pair_end(struct pair *p)
{
	for (unsigned i = 0; i < 2; i++)
		xk_kernel_stop(p->kernels[i]);
	for (unsigned i = 0; i < 2; i++)
		xk_kernel_free(p->kernels[i]);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(p->platforms[i]->ops->buffers_out(p->platforms[i]), 0);
		xk_memory_platform_free(p->platforms[i]);
	}
}

static long
pair_count(const struct xk_protocol *p, const char *name)
{
	for (unsigned i = 0; p->type->counters[i] != NULL; i++)
		if (strcmp(p->type->counters[i], name) == 0)
			return (long)p->counters[i];
	return -1;
}

/* Nobody was given anything that was not sent, and what was lost was sent again. */
static void
pair_check(struct pair *p)
{
	for (unsigned i = 0; i < 2; i++) {
		const struct xk_blasttest_result *result = &p->results[i];
		const struct xk_protocol *blast = xk_kernel_find(p->kernels[i], "blast");

		CHECK_EQ(result->error, 0);
		CHECK_EQ(result->sent, PAIR_MESSAGES);
		CHECK_EQ(result->answered + result->lost, PAIR_MESSAGES);
		CHECK(result->answered > PAIR_MESSAGES / 2);
		CHECK(pair_count(blast, "retransmitted") > 0);
		CHECK(pair_count(blast, "released") > 0);
		for (unsigned drop = XK_DROP_OWN; drop < xk_drop_count(p->tests[i]->type); drop++)
			if (strcmp(xk_drop_name(p->tests[i]->type, drop), "corrupt") == 0)
				CHECK_EQ(p->tests[i]->drops[drop], 0);
	}
}

static void
pair_run(enum xk_mode mode, const char *edges)
{
	static const struct timespec nap = { 0, 1000000 };
	struct pair p;
	struct pair_end ends[2] = { { &p, 0 }, { &p, 1 } };

	pair_begin(&p, mode, edges);
	for (unsigned i = 0; i < 2; i++) {
		struct xk_blasttest_run run = { .host = 0x0a4d0002 - i,
						.size = PAIR_SIZE,
						.window = 8,
						.count = PAIR_MESSAGES,
						.timeout_ns = 300000000,
						.finished = pair_finished,
						.argument = &ends[i] };

		CHECK_EQ(xk_blasttest_start(p.tests[i], &run), 0);
	}
	for (unsigned naps = 0; naps < PAIR_NAPS && atomic_load(&p.finished) < 2; naps++)
		nanosleep(&nap, NULL);
	CHECK_EQ(p.finished, 2);
	if (p.finished == 2)
		pair_check(&p);
	pair_end(&p);
}

TEST(blast_two_hosts_in_regular_mode_over_vnet)
{
	pair_run(XK_REGULAR, "blast -> vdrop -> vnet;");
}

TEST(blast_two_hosts_in_ipp_mode_over_vnet)
{
	pair_run(XK_IPP, "blast -> vdrop -> vnet;");
}

TEST(blast_two_hosts_in_regular_mode_over_ip)
{
	pair_run(XK_REGULAR, "blast -> vdrop -> ip; ip -> vnet;");
}

TEST(blast_two_hosts_in_ipp_mode_over_ip)
{
	pair_run(XK_IPP, "blast -> vdrop -> ip; ip -> vnet;");
}
