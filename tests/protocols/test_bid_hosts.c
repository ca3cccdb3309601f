/*
 * test_bid_hosts.c - BID and BIDCTL on simulated hosts that crash and boot while old messages are still in flight, over
 * VNET and over IP.
 */
#include "protocols/bid/bidctl.h"
#include "protocols/test/traffic.h"
#include "tests/compose.h"
#include "tools/net/net.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

/* Graphs are in the directory above this file's. */
#define FILE_NAME "graphs/net/test.dot"

/* Delays every other frame by up to 300 ms: longer than the crash and the events after it. */
#define LATE "lan [link=rack10g, latency=\"100us\", reorder=\"50%\", reorder_delay=\"300ms\", loss=\"5%\"];"
#define GOOD "lan [link=rack10g, latency=\"100us\"];"
#define QUICK "bidctl.interval=5ms bidctl.timeout=50ms bidctl.timeout_max=100ms bidctl.retries=4"

static const char *const graphs[] = { "bid.dot", "bid-ip.dot" };

struct world {
	struct net net;
};

/* Opens a world of two hosts that send to each other; `a` and `b` have these attributes. */
static void
world_open(struct world *world, const char *graph, const char *settings, const char *a, const char *b, const char *lan)
{
	char text[2048];
	int len = snprintf(text, sizeof(text),
			   "graph n { graph [network=\"10.1.0.0/24\", protocols=\"%s\","
			   "set=\"traffic.peers=10.1.0.1-10.1.0.2 traffic.rate=500 traffic.senders=1000 %s\"];"
			   "a [%s]; b [%s]; %s a -- lan; b -- lan; }",
			   graph, settings, a, b, lan);

	REQUIRE(net_read_text(&world->net, "test", FILE_NAME, text, (size_t)len) == 0);
	REQUIRE(net_open(&world->net, 7, stderr, false) == 0);
}

static void
world_close(struct world *world)
{
	CHECK_EQ(net_close(&world->net), 0);
}

static struct xk_protocol *
world_find(struct world *world, const char *host, const char *protocol)
{
	struct net_host *found = net_host_find(&world->net, host);

	REQUIRE(found != NULL && xk_sim_is_up(found->sim));
	return xk_kernel_find(xk_sim_kernel(found->sim), protocol);
}

/* Returns a counter or a drop; -1: unknown. */
static long
counted(struct world *world, const char *host, const char *protocol, const char *name)
{
	return compose_count_of(world_find(world, host, protocol), name);
}

static uint64_t
received(struct world *world, const char *host)
{
	struct xk_traffic_report report;

	xk_traffic_report(world_find(world, host, "traffic"), &report);
	CHECK_EQ(report.broken, 0);
	return report.received;
}

/* Checks that both hosts receive from each other. */
static void
check_alive(struct world *world, uint64_t until_ns)
{
	uint64_t a = received(world, "a"), b = received(world, "b");

	xk_sim_run(world->net.sim, until_ns);
	CHECK(received(world, "a") > a + 50);
	CHECK(received(world, "b") > b + 50);
}

/* ---- reboots ---- */

#define CRASHES "crash=\"500ms,900ms,1300ms\", boot=\"502ms,901ms,1301ms\""

/* Returns the number of messages from ended boots of `b` that `a` delivered after one from a later boot. */
static long
old_messages(const char *graph, const char *settings)
{
	struct world world;
	long old;

	world_open(&world, graph, settings, "", CRASHES, LATE);
	xk_sim_run(world.net.sim, 2 * SECOND);
	old = counted(&world, "a", "traffic", "old_incarnation");
	if (strncmp(graph, "bid", 3) == 0) {
		CHECK(counted(&world, "a", "bid", "unconfirmed") > 10);
		CHECK(counted(&world, "b", "bid", "old_destination") > 0);
	}
	check_alive(&world, 3 * SECOND);
	world_close(&world);
	return old;
}

TEST(no_message_of_an_ended_boot_follows_one_of_the_next)
{
	CHECK(old_messages("traffic.dot", "") > 50);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(graphs); i++)
		CHECK_EQ(old_messages(graphs[i], QUICK), 0);
}

TEST(each_reboot_is_reported_once)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(graphs); i++) {
		struct world world;

		world_open(&world, graphs[i], QUICK, "", CRASHES, GOOD);
		xk_sim_run(world.net.sim, 3 * SECOND);
		CHECK_EQ(counted(&world, "a", "bidctl", "first_contacts"), 1);
		CHECK_EQ(counted(&world, "a", "bidctl", "reboots"), 3);
		CHECK_EQ(counted(&world, "a", "bidctl", "lost"), 0);
		check_alive(&world, 4 * SECOND);
		world_close(&world);
	}
}

/* No clock tells these boots apart: the host boots twice within two microseconds. */
TEST_IN(boots_within_one_clock_tick_are_distinguished, struct world, world,
	world_open(world, "bid.dot", QUICK, "", "crash=\"500000us,500002us\", boot=\"500001us,500003us\"", GOOD),
	world_close)
{
	uint64_t boots[3];

	xk_sim_run(world->net.sim, 400 * MS);
	boots[0] = xk_bidctl_own(world_find(world, "b", "bidctl"), 0x0a010001);
	xk_sim_run(world->net.sim, 500001 * 1000);
	boots[1] = xk_bidctl_own(world_find(world, "b", "bidctl"), 0x0a010001);
	xk_sim_run(world->net.sim, 500003 * 1000);
	boots[2] = xk_bidctl_own(world_find(world, "b", "bidctl"), 0x0a010001);
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(boots[i] >> 40, i + 1); /* a host that counts its boots cannot draw an id twice */
	xk_sim_run(world->net.sim, 1000 * MS);
	CHECK_EQ(counted(world, "a", "bidctl", "reboots"), 1); /* no peer had met the second boot */
	check_alive(world, 2000 * MS);
}

TEST(both_hosts_reboot_again_and_again)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(graphs); i++) {
		struct world world;

		world_open(&world, graphs[i], QUICK, "crash=\"300ms,500ms,790ms\", boot=\"301ms,520ms,791ms\"",
			   "crash=\"310ms,510ms,780ms\", boot=\"330ms,511ms,795ms\"", LATE);
		xk_sim_run(world.net.sim, 2 * SECOND);
		CHECK_EQ(counted(&world, "a", "traffic", "old_incarnation"), 0);
		CHECK_EQ(counted(&world, "b", "traffic", "old_incarnation"), 0);
		check_alive(&world, 3 * SECOND);
		world_close(&world);
	}
}

/* ---- losses ---- */

TEST_IN(host_that_stays_down_is_lost_and_found_again, struct world, world,
	world_open(world, "bid.dot", QUICK " bidctl.keepalive=200ms", "", "crash=\"500ms\", boot=\"3s\"", GOOD),
	world_close)
{
	xk_sim_run(world->net.sim, 2900 * MS);
	CHECK_EQ(counted(world, "a", "bidctl", "lost"), 1);
	CHECK_EQ(counted(world, "a", "bidctl", "reboots"), 0);
	CHECK(counted(world, "a", "bid", "unknown_peer") > 0);
	xk_sim_run(world->net.sim, 4 * SECOND);
	CHECK_EQ(counted(world, "a", "bidctl", "first_contacts"), 2);
	check_alive(world, 5 * SECOND);
}

TEST_IN(partition_is_no_reboot, struct world, world,
	world_open(world, "bid.dot", QUICK " bidctl.keepalive=200ms", "", "", GOOD), world_close)
{
	struct net_host *b;

	b = net_host_find(&world->net, "b");
	xk_sim_run(world->net.sim, 500 * MS);
	xk_sim_cut(b->sim, 0, true, true);
	xk_sim_run(world->net.sim, 3000 * MS);
	CHECK_EQ(counted(world, "a", "bidctl", "lost"), 1);
	CHECK_EQ(counted(world, "b", "bidctl", "lost"), 1);
	xk_sim_cut(b->sim, 0, false, false);
	xk_sim_run(world->net.sim, 4000 * MS);
	CHECK_EQ(counted(world, "a", "bidctl", "first_contacts"), 2);
	CHECK_EQ(counted(world, "a", "bidctl", "reboots"), 0);
	check_alive(world, 5 * SECOND);
}

/* ---- determinism ---- */

static uint64_t
hash_of_run(void)
{
	struct world world;
	uint64_t hash;

	world_open(&world, "bid.dot", QUICK, "mode=regular, threads=2", CRASHES, LATE);
	xk_sim_run(world.net.sim, 2 * SECOND);
	hash = xk_sim_hash(world.net.sim);
	world_close(&world);
	return hash;
}

TEST_OF(same_seed_gives_the_same_run, CHECK(hash_of_run() == hash_of_run()));
