/* test_net.c - from network files to worlds: hosts with their graphs and addresses, crashes, boots, healing. */

#include "protocols/test/traffic.h"
#include "tests/test.h"
#include "tools/net/net.h"
#include "tools/options.h"

#define MS UINT64_C(1000000)

/* Graphs are found beside the file or in the directory above it. */
#define FILE_NAME "graphs/net/test.dot"

#define HEAD "graph n { graph [network=\"10.1.0.0/24\", protocols=\"traffic.dot\", set=\"traffic.rate=1000\"];\n"

struct world {
	struct net net;
	FILE *trace;
};

static void
world_open(struct world *world, const char *text, uint64_t seed, bool traces)
{
	world->trace = tmpfile();
	REQUIRE(world->trace != NULL);
	REQUIRE(net_read_text(&world->net, "test", FILE_NAME, text, strlen(text)) == 0);
	REQUIRE(net_open(&world->net, seed, world->trace, traces) == 0);
}

static void
world_close(struct world *world, int status)
{
	CHECK_EQ(net_close(&world->net), status);
	fclose(world->trace);
}

static void
world_run(struct world *world, uint64_t until_ns)
{
	xk_sim_run(world->net.sim, until_ns);
}

static void
world_end(struct world *world)
{
	world_close(world, 0);
}

static struct xk_kernel *
world_kernel(struct world *world, const char *name)
{
	struct net_host *host = net_host_find(&world->net, name);

	REQUIRE(host != NULL && xk_sim_is_up(host->sim));
	return xk_sim_kernel(host->sim);
}

static struct xk_traffic_report
world_report(struct world *world, const char *name)
{
	struct xk_traffic_report report;

	xk_traffic_report(xk_kernel_find(world_kernel(world, name), "traffic"), &report);
	return report;
}

static bool
world_is_up(struct world *world, const char *name)
{
	return xk_sim_is_up(net_host_find(&world->net, name)->sim);
}

TEST_IN(hosts_have_addresses_and_reach_each_other, struct world, world,
	world_open(world,
		   HEAD "a [set=\"traffic.peers=10.1.0.1-10.1.0.4 traffic.count=300\"];"
			"b [count=3, mode=regular, threads=2]; lan [link=rack10g]; a -- lan; b -- lan; }",
		   1, false),
	world_end)
{
	CHECK(net_host_find(&world->net, "b") == NULL);
	CHECK(!world_is_up(world, "b3"));
	world_run(world, 1000 * MS);
	CHECK_EQ(xk_kernel_mode(world_kernel(world, "a")), XK_IPP);
	CHECK_EQ(xk_kernel_mode(world_kernel(world, "b1")), XK_REGULAR);
	CHECK_EQ(world_report(world, "a").sent, 300);
	CHECK_EQ(world_report(world, "b1").host, 0x0a010002);
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(world_report(world, (const char *[]){ "b1", "b2", "b3" }[i]).received, 100);
}

static uint64_t
world_by_path(struct world *world, const char *name)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(world_kernel(world, name), &stats);
	return stats.by_path;
}

/* Also for active sessions: their messages arrive on a lower session that was opened passively. */
TEST(conversations_get_paths_at_both_ends)
{
	static const char text[] =
		HEAD "a [set=\"traffic.peers=10.1.0.2\"]; b [set=\"traffic.peers=10.1.0.1\", mode=regular];"
		     "lan [link=rack10g]; a -- lan; b -- lan; }";
	struct world world;

	world_open(&world, text, 1, false);
	world_run(&world, 200 * MS);
	for (unsigned i = 0; i < 2; i++) {
		const char *name = i == 0 ? "a" : "b";

		CHECK(world_report(&world, name).received > 100);
		CHECK(world_by_path(&world, name) > world_report(&world, name).received / 2);
	}
	world_close(&world, 0);
}

TEST_IN(graphs_own_addresses_are_kept, struct world, world,
	world_open(world,
		   HEAD "a [set=\"vnet.address=10.1.0.77/24\"]; b [set=\"traffic.peers=10.1.0.77\"];"
			"lan [link=rack10g]; a -- lan; b -- lan; }",
		   1, false),
	world_end)
{
	world_run(world, 100 * MS);
	CHECK_EQ(world_report(world, "a").host, 0x0a01004d);
	CHECK(world_report(world, "a").received > 50);
}

/* Each device is a port of the graph, in the order of the edges, with an address of its link's network. */
TEST_IN(host_may_stand_on_several_links, struct world, world,
	world_open(world,
		   "graph n { graph [protocols=\"traffic.dot\"]; a [protocols=\"udptest-multihomed.dot\"];"
		   "b [set=\"traffic.peers=10.1.0.1\"]; c [set=\"traffic.peers=10.2.0.1\"];"
		   "one [link=rack10g, network=\"10.1.0.0/24\"]; two [link=hub100, network=\"10.2.0.0/24\"];"
		   "a -- one; a -- two; b -- one; c -- two; }",
		   1, false),
	world_end)
{
	world_run(world, 1000 * MS);
	CHECK(xk_kernel_find_port(world_kernel(world, "a"), "port") != NULL);
	CHECK(xk_kernel_find_port(world_kernel(world, "a"), "port2") != NULL);
	/* The hosts have resolved each other's link addresses. */
	CHECK(world_report(world, "b").sent > 5 && world_report(world, "c").sent > 5);
}

#define CRASHES                                                                                                        \
	"a [crash=\"20ms,60ms\", boot=\"30ms\"]; b [start=\"5ms\"]; lan [link=rack10g, loss=\"50%\"]; a -- lan; b -- " \
	"lan; }"

TEST_IN(hosts_start_crash_and_boot_on_schedule, struct world, world, world_open(world, HEAD CRASHES, 1, false),
	world_end)
{
	world_run(world, 5 * MS - 1);
	CHECK(world_is_up(world, "a") && !world_is_up(world, "b"));
	world_run(world, 20 * MS - 1);
	CHECK(world_is_up(world, "a") && world_is_up(world, "b"));
	world_run(world, 20 * MS);
	CHECK(!world_is_up(world, "a"));
	world_run(world, 30 * MS);
	CHECK(world_is_up(world, "a"));
	world_run(world, 60 * MS);
	CHECK(!world_is_up(world, "a"));
	CHECK_EQ(xk_sim_host_boots(net_host_find(&world->net, "a")->sim), 2);
}

TEST_IN(a_healed_network_has_no_faults_and_no_crashes, struct world, world,
	world_open(world, HEAD "a [set=\"traffic.peers=10.1.0.2\"];" CRASHES, 1, false), world_end)
{
	struct sim_link_counts counts;

	world_run(world, 25 * MS);
	CHECK(!world_is_up(world, "a"));
	xk_sim_cut(net_host_find(&world->net, "a")->sim, 0, true, true);
	xk_sim_link_counts(world->net.links[0], &counts);
	CHECK(counts.loss > 0);
	net_heal(&world->net);
	CHECK(world_is_up(world, "a"));
	world_run(world, 200 * MS);
	CHECK(world_is_up(world, "a"));
	CHECK_EQ(xk_sim_host_boots(net_host_find(&world->net, "a")->sim), 2);
	CHECK(world_report(world, "b").received > 150);
	CHECK_EQ(xk_sim_link_config(world->net.links[0])->loss, 0);
}

TEST(hosts_traces_go_to_the_given_stream)
{
	struct world world;
	char line[300];
	unsigned lines = 0;

	world_open(&world, HEAD "a [set=\"traffic.peers=10.1.0.2\"]; b; lan [link=rack10g]; a -- lan; b -- lan; }", 1,
		   true);
	world_run(&world, 10 * MS);
	rewind(world.trace);
	while (fgets(line, sizeof(line), world.trace) != NULL)
		lines += strstr(line, " b #") != NULL && strstr(line, "udp -> traffic") != NULL;
	CHECK(lines >= 8 && lines <= 10);
	world_close(&world, 0);
}

TEST(host_that_cannot_boot_is_reported_at_the_end)
{
	struct world world;

	world_open(&world, HEAD "a [set=\"traffic.peers=nobody\"]; b; lan [link=rack10g]; a -- lan; b -- lan; }", 1,
		   false);
	world_run(&world, MS);
	CHECK(!world_is_up(&world, "a") && world_is_up(&world, "b"));
	world_close(&world, OPTIONS_FAILURE);
}

TEST(refused_file_leaks_nothing)
{
	static const char *const refused[] = { "", "graph", HEAD "a -- b [link=nowhere]; }", "digraph d { a -> b }",
					       HEAD "a [crash=\"1s,1s\"]; a -- b [link=wide]; }" };
	struct net net;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(refused); i++) {
		CHECK_EQ(net_read_text(&net, "test", FILE_NAME, refused[i], strlen(refused[i])), OPTIONS_FAILURE);
		CHECK_EQ(net_close(&net), 0);
	}
	CHECK_EQ(net_read(&net, "test", "graphs/net/none.dot", NULL, 0), OPTIONS_FAILURE);
	CHECK_EQ(net_close(&net), 0);
}

static uint64_t
hash_of(uint64_t seed, const char *set)
{
	struct net net;
	uint64_t hash;

	REQUIRE(net_read(&net, "test", "graphs/net/crash.dot", &set, 1) == 0);
	REQUIRE(net_open(&net, seed, NULL, false) == 0);
	xk_sim_run(net.sim, 4000 * MS);
	hash = xk_sim_hash(net.sim);
	CHECK_EQ(net_close(&net), 0);
	return hash;
}

TEST(seed_and_settings_determine_the_run)
{
	uint64_t hash = hash_of(1, "server.mode=ipp");

	CHECK(hash_of(1, "server.mode=ipp") == hash);
	CHECK(hash_of(2, "server.mode=ipp") != hash);
	CHECK(hash_of(1, "client--server.loss=20%") != hash);
}
