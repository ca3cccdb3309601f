/* test_traffic_pair.c - two hosts of threads that send to each other through whole graphs. */
#include "protocols/test/traffic_private.h"
#include "tests/protocols/pair.h"

enum { MESSAGES = 300 };

struct talkers {
	struct pair pair;
	struct xk_protocol *traffics[2];
	bool lossy; /* not all messages arrive */
};

static void
talkers_compose(struct talkers *t, unsigned i, const char *promise, const char *edges)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "digraph pair { traffic [peers=\"10.77.0.%u\", count=%u, rate=0, size_max=300, promise=%s];"
		 "vnet [address=\"10.77.0.%u/24\"]; %s ip -> vnet -> eth; vnet -> arp -> eth; eth -> port }",
		 2 - i, MESSAGES, promise, 1 + i, edges);
	compose(t->pair.kernels[i], NULL, text);
	t->traffics[i] = xk_kernel_find(t->pair.kernels[i], "traffic");
}

static uint64_t
talkers_counter(struct talkers *t, unsigned i, enum traffic_counter which)
{
	return xk_counter(t->traffics[i], which);
}

/* Returns true once all messages have arrived or, if some may be lost, have been sent. */
static bool
talkers_have_finished(void *context)
{
	struct talkers *t = context;
	enum traffic_counter which = t->lossy ? TRAFFIC_SENT : TRAFFIC_RECEIVED;

	return talkers_counter(t, 0, which) >= MESSAGES && talkers_counter(t, 1, which) >= MESSAGES;
}

static void
talkers_check(struct talkers *t, unsigned i)
{
	struct xk_traffic_report report;

	xk_traffic_report(t->traffics[i], &report);
	CHECK(report.finished);
	CHECK_EQ(report.sent, MESSAGES);
	CHECK_EQ(report.broken, 0);
	CHECK_STR(report.first, "");
}

static void
check_talkers(enum xk_mode mode, const char *promise, const char *edges)
{
	struct talkers t = { .lossy = strcmp(promise, "ordered") != 0 };

	pair_begin(&t.pair, mode);
	for (unsigned i = 0; i < 2; i++)
		talkers_compose(&t, i, promise, edges);
	pair_start(&t.pair);
	CHECK(pair_wait(talkers_have_finished, &t));
	for (unsigned i = 0; i < 2 && !t.lossy; i++)
		CHECK_EQ(talkers_counter(&t, i, TRAFFIC_RECEIVED), MESSAGES);
	pair_stop(&t.pair);
	for (unsigned i = 0; i < 2; i++)
		talkers_check(&t, i);
	pair_end(&t.pair);
}

TEST(traffic_runs_over_stopwait_between_threads)
{
	check_talkers(XK_REGULAR, "ordered", "traffic -> stopwait; stopwait -> ip [number=253];");
}

TEST(traffic_runs_over_stopwait_between_drivers)
{
	check_talkers(XK_IPP, "ordered", "traffic -> stopwait; stopwait -> ip [number=253];");
}

/* Each message leaves the driver, and losses make retransmissions meet acknowledgements. */
TEST(traffic_runs_over_stopwait_with_handoffs_and_losses)
{
	check_talkers(
		XK_IPP, "ordered",
		"traffic -> stopwait [handoff=explicit]; stopwait -> vdrop [number=253, handoff=explicit]; vdrop -> ip;"
		"stopwait [timeout=\"3ms\", timeout_max=\"20ms\", retries=1000];"
		"vdrop [loss=\"0.05\", duplicate=\"0.1\", reorder=\"0.1\", reorder_time=\"5ms\"];");
	check_talkers(XK_REGULAR, "ordered",
		      "traffic -> stopwait; stopwait -> vdrop [number=253]; vdrop -> ip;"
		      "stopwait [timeout=\"3ms\", timeout_max=\"20ms\", retries=1000];"
		      "vdrop [loss=\"0.05\", duplicate=\"0.1\", reorder=\"0.1\", reorder_time=\"5ms\"];");
}

TEST(traffic_runs_over_udp_between_threads)
{
	check_talkers(XK_REGULAR, "intact", "traffic -> udp -> ip;");
	check_talkers(XK_IPP, "intact", "traffic -> udp -> ip;");
}
