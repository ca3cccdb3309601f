/*
 * test_first_call.c - a client's first call to a server that does not know it, and the first calls after either
 * reboots: none is dropped while BIDCTL sends queries, so none waits for a timeout.
 */
#include "protocols/bid/bidctl.h"
#include "tests/compose.h"
#include "tools/net/net.h"

#define MS UINT64_C(1000000)

/* Graphs are in the directory above this file's. */
#define FILE_NAME "graphs/net/test.dot"

/* Three hosts: the client's neighbour is a server, and so is one beyond a router. */
#define NETWORK                                                                                                        \
	"graph n { router [protocols=\"router.dot\"]; client [%s protocols=\"%s\", set=\"chantest.peer=%s "            \
	"chantest.rounds=%u chantest.size=%u %s\"];"                                                                   \
	"near [%s protocols=\"%s\"];"                                                                                  \
	"far [protocols=\"chantest-full.dot\", set=\"ip.gateway=10.2.0.1\"];"                                          \
	"left [link=rack10g, latency=\"100us\", network=\"10.1.0.0/24\"];"                                             \
	"right [link=rack10g, latency=\"100us\", network=\"10.2.0.0/24\"];"                                            \
	"router -- left; client -- left; near -- left; router -- right; far -- right; }"

struct plan {
	const char *graph, *peer, *client, *near; /* peer and client: attributes, each followed by a comma */
	unsigned rounds, size;
};

static void
run_plan(struct net *net, const struct plan *plan, uint64_t until_ms)
{
	bool is_full = strcmp(plan->graph, "chantest-full.dot") == 0;
	char text[2048];
	int len = snprintf(text, sizeof(text), NETWORK, plan->client, plan->graph, plan->peer, plan->rounds, plan->size,
			   is_full ? "ip.gateway=10.1.0.1" : "", plan->near, plan->graph);

	REQUIRE(net_read_text(net, "test", FILE_NAME, text, (size_t)len) == 0);
	REQUIRE(net_open(net, 7, stderr, false) == 0);
	xk_sim_run(net->sim, until_ms * MS);
}

/* Returns a counter or a drop. */
static long
counted(struct net *net, const char *host, const char *protocol, const char *name)
{
	return compose_count(xk_sim_kernel(net_host_find(net, host)->sim), protocol, name);
}

static void
expect_nothing_late(struct net *net, const char *server)
{
	CHECK_EQ(counted(net, server, "chan", "duplicate"), 0);
	CHECK_EQ(counted(net, "client", "chan", "retransmitted"), 0);
	CHECK_EQ(counted(net, "client", "blast", "expired"), 0);
	CHECK_EQ(counted(net, "client", "blast", "nacks_in"), 0);
}

TEST(first_calls_are_not_dropped)
{
	static const struct plan plans[] = {
		{ "chantest.dot", "10.1.0.3", "", "", 1, 1 },
		{ "chantest.dot", "10.1.0.3", "", "", 1, 20000 },
		{ "chantest-full.dot", "10.1.0.3", "", "", 1, 1 },
		{ "chantest-full.dot", "10.1.0.3", "", "", 1, 20000 },
		{ "chantest-full.dot", "10.2.0.2", "", "", 1, 1 },
		{ "chantest-full.dot", "10.2.0.2", "", "", 1, 20000 },
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(plans); i++) {
		const char *server = strcmp(plans[i].peer, "10.2.0.2") == 0 ? "far" : "near";
		struct net net;

		run_plan(&net, &plans[i], 3000);
		CHECK_EQ(counted(&net, server, "chantest", "requests"), 1);
		CHECK_EQ(counted(&net, server, "bidctl", "asked_back"), 1);
		CHECK_EQ(counted(&net, "client", "chantest", "rounds"), 1);
		CHECK(counted(&net, "client", "chantest", "rtt_max_ns") < 10 * (long)MS); /* on the virtual clock */
		CHECK_EQ(counted(&net, server, "bid", "unconfirmed"), 0);
		expect_nothing_late(&net, server);
		CHECK_EQ(net_close(&net), 0);
	}
}

/* ---- reboots ---- */

/*
 * The client has called before, as another boot. The server's last reply, retransmitted, makes it send a query: the
 * client's BID answers as another boot.
 */
TEST(first_calls_after_a_client_reboot_are_not_dropped)
{
	static const char *const graphs[] = { "chantest.dot", "chantest-full.dot" };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(graphs); i++) {
		const struct plan plan = { graphs[i], "10.1.0.3", "crash=\"1s\", boot=\"1001ms\",", "", 1, 20000 };
		struct net net;

		run_plan(&net, &plan, 3000);
		CHECK_EQ(counted(&net, "near", "chantest", "requests"), 2);
		CHECK_EQ(counted(&net, "near", "bidctl", "reboots"), 1);
		CHECK_EQ(counted(&net, "client", "chantest", "rounds"), 1);
		CHECK(counted(&net, "client", "chantest", "rtt_max_ns") < 10 * (long)MS);
		expect_nothing_late(&net, "near");
		CHECK_EQ(net_close(&net), 0);
	}
}

/* The server reboots between two calls, and knows neither the client nor its address. */
TEST(first_calls_after_a_server_reboot_are_not_dropped)
{
	static const char *const graphs[] = { "chantest.dot", "chantest-full.dot" };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(graphs); i++) {
		const struct plan plan = { graphs[i], "10.1.0.3", "", "crash=\"10ms\", boot=\"10001us\",", 2000, 100 };
		struct net net;

		run_plan(&net, &plan, 3000);
		CHECK_EQ(counted(&net, "client", "chantest", "failed"), 1);
		CHECK_EQ(counted(&net, "client", "chantest", "reopened"), 1);
		CHECK_EQ(counted(&net, "client", "chantest", "rounds"), 2000);
		CHECK_EQ(counted(&net, "near", "bid", "unconfirmed"), 0);
		CHECK_EQ(counted(&net, "near", "chan", "duplicate"), 0);
		CHECK_EQ(net_close(&net), 0);
	}
}
