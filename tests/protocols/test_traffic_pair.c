/* test_traffic_pair.c - two hosts of threads that send to each other through whole graphs. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "protocols/traffic_private.h"
#include "tests/test.h"
#include "xkernel/kernel.h"

enum { PAIR_MESSAGES = 300, PAIR_NAPS = 30000 };

struct pair {
	struct xk_platform *platforms[2];
	struct xk_kernel *kernels[2];
	struct xk_port *ports[2];
	struct xk_protocol *traffics[2];
};

static void
pair_build(struct pair *p, unsigned i, const char *graph_text)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_protocol *failed;
	struct xk_graph *graph;
	char text[1024];

	snprintf(text, sizeof(text), graph_text, 2 - i, PAIR_MESSAGES, 1 + i);
	graph = xk_graph_read_text("pair", text, strlen(text), &errors);
	REQUIRE(graph != NULL && xk_graph_check(graph, xk_protocol_types, &errors) == 0);
	REQUIRE(xk_graph_build(graph, p->kernels[i], &errors) == 0);
	xk_graph_free(graph);
	REQUIRE(xk_kernel_init(p->kernels[i], &failed) == 0);
	p->traffics[i] = xk_kernel_find(p->kernels[i], "traffic");
}

static void
pair_begin(struct pair *p, enum xk_mode mode, const char *graph_text)
{
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
		pair_build(p, i, graph_text);
	for (unsigned i = 0; i < 2; i++)
		REQUIRE(xk_kernel_start(p->kernels[i]) == 0);
}

static uint64_t
pair_counter(struct pair *p, unsigned i, enum traffic_counter which)
{
	return atomic_load_explicit(&p->traffics[i]->counters[which], memory_order_relaxed);
}

/* Until all has come, or `lossy`, been sent. */
static void
pair_wait(struct pair *p, bool lossy)
{
	static const struct timespec nap = { 0, 1000000 };
	enum traffic_counter which = lossy ? TRAFFIC_SENT : TRAFFIC_RECEIVED;

	for (unsigned naps = 0; naps < PAIR_NAPS; naps++) {
		if (pair_counter(p, 0, which) >= PAIR_MESSAGES && pair_counter(p, 1, which) >= PAIR_MESSAGES)
			return;
		nanosleep(&nap, NULL);
	}
}

static void
pair_end(struct pair *p)
{
	for (unsigned i = 0; i < 2; i++)
		xk_kernel_stop(p->kernels[i]);
	for (unsigned i = 0; i < 2; i++) {
		struct xk_traffic_report report;

		xk_traffic_report(p->traffics[i], &report);
		CHECK(report.finished);
		CHECK_EQ(report.sent, PAIR_MESSAGES);
		CHECK_EQ(report.broken, 0);
		CHECK_STR(report.first, "");
	}
	for (unsigned i = 0; i < 2; i++)
		xk_kernel_free(p->kernels[i]);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(p->platforms[i]->ops->buffers_out(p->platforms[i]), 0);
		xk_memory_platform_free(p->platforms[i]);
	}
}

static void
pair_run(enum xk_mode mode, const char *promise, const char *edges)
{
	static const char settings[] =
		"digraph pair { traffic [peers=\"10.77.0.%%u\", count=%%u, rate=0, size_max=300, promise=%s];"
		"vnet [address=\"10.77.0.%%u/24\"]; %s ip -> vnet -> eth; vnet -> arp -> eth; eth -> port }";
	char text[1024];
	struct pair p;

	snprintf(text, sizeof(text), settings, promise, edges);
	pair_begin(&p, mode, text);
	pair_wait(&p, strcmp(promise, "ordered") != 0);
	if (strcmp(promise, "ordered") == 0)
		for (unsigned i = 0; i < 2; i++)
			CHECK_EQ(pair_counter(&p, i, TRAFFIC_RECEIVED), PAIR_MESSAGES);
	pair_end(&p);
}

TEST(traffic_over_stopwait_between_threads)
{
	pair_run(XK_REGULAR, "ordered", "traffic -> stopwait; stopwait -> ip [number=253];");
}

TEST(traffic_over_stopwait_between_drivers)
{
	pair_run(XK_IPP, "ordered", "traffic -> stopwait; stopwait -> ip [number=253];");
}

/* Every message leaves the driver, and losses make retransmissions meet acknowledgements. */
TEST(traffic_over_stopwait_that_is_handed_off_and_lost)
{
	pair_run(
		XK_IPP, "ordered",
		"traffic -> stopwait [handoff=explicit]; stopwait -> vdrop [number=253, handoff=explicit]; vdrop -> ip;"
		"stopwait [timeout=\"3ms\", timeout_max=\"20ms\", retries=1000];"
		"vdrop [loss=\"0.05\", duplicate=\"0.1\", reorder=\"0.1\", reorder_time=\"5ms\"];");
	pair_run(XK_REGULAR, "ordered",
		 "traffic -> stopwait; stopwait -> vdrop [number=253]; vdrop -> ip;"
		 "stopwait [timeout=\"3ms\", timeout_max=\"20ms\", retries=1000];"
		 "vdrop [loss=\"0.05\", duplicate=\"0.1\", reorder=\"0.1\", reorder_time=\"5ms\"];");
}

TEST(traffic_over_udp_between_threads)
{
	pair_run(XK_REGULAR, "intact", "traffic -> udp -> ip;");
	pair_run(XK_IPP, "intact", "traffic -> udp -> ip;");
}
