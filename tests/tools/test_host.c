/* test_host.c - from options to hosts: addresses, settings of one end, ports, a pair in this process. */
#define _GNU_SOURCE
#include <semaphore.h>
#include <unistd.h>

#include "protocols/test/udptest.h"
#include "tests/test.h"
#include "tools/host/host.h"
#ifdef XK_HAVE_DPDK
#include "platform/dpdk/dpdk.h"
#endif

static const char *const graph_text = "digraph g { udptest -> udp; udp -> ip; ip -> vnet; vnet -> eth; vnet -> arp;\n"
				      "arp -> eth; eth -> port; }\n";
static const struct options_program program = { .name = "test" };

/* Writes the graph to a file and its name to path. */
static void
graph_file(char *path, size_t size, const char *text)
{
	FILE *file;

	snprintf(path, size, "/tmp/test_host-%ld.dot", (long)getpid());
	file = fopen(path, "w");
	REQUIRE(file != NULL);
	fputs(text, file);
	fclose(file);
}

static struct host_options
options_of(unsigned end, const char *graph, const struct options_texts *sets)
{
	struct host_options options = {
		.program = "test",
		.name = pair_end_names[end],
		.end = end,
		.graph = graph,
		.sets = sets,
		.meeting = "",
		.mode = XK_IPP,
		.driver = XK_DRIVER_INTERRUPT,
		.threads = 1,
	};

	REQUIRE(host_link_find(&program, "memory", -1, &options.link) == 0);
	return options;
}

/* Returns the address that one end gets; 0: refused. */
static uint32_t
address_of(unsigned end, bool paired, const struct options_texts *sets)
{
	char path[64];
	struct host_options options;
	struct host host;
	uint32_t address;

	graph_file(path, sizeof(path), graph_text);
	options = options_of(end, path, sets);
	options.paired = paired;
	address = host_load(&host, &options) == 0 ? host.address : 0;
	if (address != 0) {
		CHECK_EQ(host.port_count, 1);
		CHECK_STR(host.port_names[0], "port");
	}
	host_close(&host);
	unlink(path);
	return address;
}

TEST(ends_have_default_addresses)
{
	struct options_texts none = { .count = 0 };

	CHECK_EQ(address_of(PAIR_CLIENT, false, &none), 0x0a4d0001);
	CHECK_EQ(address_of(PAIR_SERVER, false, &none), 0x0a4d0002);
	CHECK_EQ(address_of(PAIR_CLIENT, true, &none), 0x0a4d0001);
}

TEST(address_given_to_a_pair_is_the_servers)
{
	struct options_texts sets = { 1, { "vnet.address=192.168.5.1/24" } };

	CHECK_EQ(address_of(PAIR_SERVER, true, &sets), 0xc0a80501);
	CHECK_EQ(address_of(PAIR_CLIENT, true, &sets), 0xc0a80502);
	CHECK_EQ(address_of(PAIR_CLIENT, false, &sets), 0xc0a80501); /* a lone client's own */
	sets.text[0] = "vnet.address=192.168.5.9/24";
	CHECK_EQ(address_of(PAIR_CLIENT, true, &sets), 0xc0a80501);
	sets.text[0] = "vnet.address=192.168.5.9/32";
	CHECK_EQ(address_of(PAIR_SERVER, true, &sets), 0xc0a80509);
	CHECK_EQ(address_of(PAIR_CLIENT, true, &sets), 0); /* no room: refused */
}

TEST(settings_can_be_for_one_end)
{
	struct options_texts sets = { 2, { "client:vnet.address=10.1.1.7/24", "server:vnet.address=10.1.1.9/24" } };

	CHECK_EQ(address_of(PAIR_CLIENT, true, &sets), 0x0a010107);
	CHECK_EQ(address_of(PAIR_SERVER, true, &sets), 0x0a010109);
}

TEST(settings_have_a_form)
{
	static const char *const good[] = { "a.b=c", "a.b=", "client:a.b=c", "server:a.b=1.2.3=4" };
	static const char *const bad[] = { "a", "a.b", "a=b.c", ".b=c", "a.=c", "", "client:", "client:b=c" };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(good); i++)
		CHECK(host_sets_are_valid(&program, &(struct options_texts){ 1, { good[i] } }));
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(bad); i++)
		CHECK(!host_sets_are_valid(&program, &(struct options_texts){ 1, { bad[i] } }));
}

TEST(invalid_settings_and_graphs_are_refused)
{
	struct options_texts sets = { 1, { "nobody.is=here" } }, none = { .count = 0 };
	struct host_options options = options_of(PAIR_CLIENT, "/nonexistent.dot", &none);
	struct host host;

	CHECK_EQ(address_of(PAIR_CLIENT, false, &sets), 0);
	sets.text[0] = "ip.ttl=300";
	CHECK_EQ(address_of(PAIR_CLIENT, false, &sets), 0);
	sets.text[0] = "vnet.address=300.1.1.1/24";
	CHECK_EQ(address_of(PAIR_CLIENT, false, &sets), 0);
	CHECK_EQ(host_load(&host, &options), 1);
	host_close(&host);
}

TEST(links_are_refused_by_name)
{
	const struct host_link *link;

	CHECK_EQ(host_link_find(&program, "carrier-pigeon", -1, &link), 2);
	CHECK_EQ(host_link_find(&program, "memory", XK_DRIVER_INTERRUPT, &link), 0);
	CHECK(link->in_process);
}

/* ---- a pair in this process ---- */

static struct xk_udptest_result last;
static sem_t done;

static void
finished(void *argument, const struct xk_udptest_result *result)
{
	last = *result;
	sem_post(&done);
}

static void
with_pair(const char *text, uint64_t rounds, bool to_the_end)
{
	struct options_texts none = { .count = 0 };
	struct host_options options[2];
	struct pair_counts counts = { .drop_count = 0 };
	struct host hosts[2];
	char path[64];
	struct xk_udptest_run run = { .size = 3000, .rounds = rounds, .finished = finished };

	graph_file(path, sizeof(path), text);
	for (unsigned i = 0; i < 2; i++)
		options[i] = options_of(i, path, &none);
	REQUIRE(host_open_both(hosts, options) == 0);
	sem_init(&done, 0, 0);
	run.host = hosts[PAIR_SERVER].address;
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(host_start(&hosts[i]), 0);
	CHECK_EQ(xk_udptest_start(host_find_type(&hosts[PAIR_CLIENT], "udptest"), &run), 0);
	if (to_the_end) {
		sem_wait(&done);
		CHECK_EQ(last.error, 0);
		CHECK_EQ(last.rounds, rounds);
		host_counts(&hosts[PAIR_SERVER], &counts);
		CHECK(counts.frames >= 3 * rounds);
		CHECK(host_counter(host_find_type(&hosts[PAIR_SERVER], "udptest"), "messages") >= rounds);
		CHECK_EQ(host_counter(host_find_type(&hosts[PAIR_SERVER], "udptest"), "nothing"), 0);
	} else {
		usleep(20000);
	}
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(host_close(&hosts[i]), 0);
	unlink(path);
}

TEST_OF(two_hosts_in_one_process_exchange_messages, with_pair(graph_text, 200, true));
TEST_OF(pair_can_be_ended_during_a_run, with_pair(graph_text, 1000000000, false));

TEST(each_link_has_its_own_addresses)
{
	with_pair("digraph g { udptest -> udp; udp -> ip; ip -> vnet; vnet -> eth1; vnet -> arp1; vnet -> eth2;\n"
		  "vnet -> arp2; arp1 -> eth1; arp2 -> eth2; eth1 -> port1; eth2 -> port2;\n"
		  "eth1 [protocol=eth]; eth2 [protocol=eth]; arp1 [protocol=arp]; arp2 [protocol=arp];\n"
		  "port1 [protocol=port]; port2 [protocol=port]; }\n",
		  50, true);
}

#ifdef XK_HAVE_DPDK
TEST(links_have_as_many_drivers_as_the_platform_has_lanes)
{
	const struct xk_dpdk_link *lanes;
	const struct host_link *link;

	for (unsigned i = 0; (lanes = xk_dpdk_link(i)) != NULL; i++) {
		const char *name = lanes->needs == XK_DPDK_NEEDS_PCI ? "0000:01:00.0" : lanes->name;

		REQUIRE(host_link_find(&program, name, -1, &link) == 0);
		CHECK_EQ(link->drivers, lanes->lanes < HOST_DRIVERS_MAX ? lanes->lanes : HOST_DRIVERS_MAX);
	}
}
#endif
