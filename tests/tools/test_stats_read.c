/* test_stats_read.c - what a host has told is read, summed and printed, a stranger's document too. */
#include <stdlib.h>

#include "tests/random.h"
#include "tests/test.h"
#include "tools/stats.h"
#include "tools/stats_client.h"
#include "tools/stats_print.h"

/* udp on ip on eth: 100 messages up and 50 down at ip, of which 10 and 5 were timed. */
static const char document[] =
	"{\"host\": \"h-1\", \"graph\": \"g.dot\", \"link\": \"virtio\", \"driver\": \"poll\", \"mode\": \"ipp\","
	" \"pid\": 1, \"now_ns\": 5000000000, \"counted_ns\": 1500000000,"
	" \"protocols\": [{\"name\": \"eth\", \"drops\": {\"short\": 2, \"full\": 3}, \"counters\": {\"to_self\": 7}},"
	" {\"name\": \"ip\", \"drops\": {}, \"counters\": {}}, {\"name\": \"udp\", \"drops\": {}, \"counters\": {}}],"
	" \"edges\": [{\"upper\": \"ip\", \"lower\": \"eth\", \"role\": \"link\","
	" \"up\": {\"messages\": 100, \"timed\": 10, \"ns\": 500}, \"down\": {\"messages\": 50, \"timed\": 5, \"ns\": "
	"100},"
	" \"handoffs\": {\"explicit\": 4, \"implicit\": 5, \"time\": 6}},"
	" {\"upper\": \"udp\", \"lower\": \"ip\", \"role\": \"transport\","
	" \"up\": {\"messages\": 90, \"timed\": 9, \"ns\": 90}, \"down\": {\"messages\": 50, \"timed\": 5, \"ns\": "
	"200},"
	" \"handoffs\": {\"explicit\": 0, \"implicit\": 1, \"time\": 0}}],"
	" \"drivers\": [{\"turns\": 11, \"sleeps\": 12, \"overruns\": 13, \"fallbacks\": 14}], \"kernel\": {}}";

static struct stats *
stats_of(const char *text, const char **why)
{
	char *copy = strdup(text);

	REQUIRE(copy != NULL);
	return stats_read(copy, strlen(copy), why);
}

static char *
printed(const struct stats *now, const struct stats *before)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	REQUIRE(out != NULL);
	stats_print(now, before, out);
	fclose(out);
	return text;
}

TEST(a_node_is_the_sum_of_the_edges_by_which_messages_come)
{
	const char *why;
	struct stats *stats = stats_of(document, &why);
	struct stats_sum sum;

	REQUIRE(stats != NULL);
	stats_sum_node(stats, "ip", &sum);
	CHECK_EQ(sum.ways[STATS_UP].messages, 100);
	CHECK_EQ(sum.ways[STATS_DOWN].messages, 50);
	CHECK_EQ(sum.handoffs[STATS_EXPLICIT], 4);
	CHECK_EQ(sum.handoffs[STATS_TIME], 6);
	CHECK_EQ(sum.busy_ns, 5000 + 2000);
	CHECK_EQ(stats_all_busy_ns(stats), 5000 + 1000 + 900 + 2000);
	CHECK_EQ(stats_find_node(stats, "eth")->dropped, 5);
	CHECK(stats_find_node(stats, "tcp") == NULL);
	CHECK(stats_find_edge(stats, "ip", "eth", "resolver") == NULL);
	CHECK_EQ(stats_count_of(stats->drivers[0], "fallbacks"), 14);
	CHECK_EQ(stats->counted_ns, 1500000000);
	stats_free(stats);
}

TEST(tables_have_rates_and_totals)
{
	const char *why;
	struct stats *now = stats_of(document, &why), *before = stats_of(document, &why);
	char *text;

	REQUIRE(now != NULL && before != NULL);
	before->now_ns -= UINT64_C(2000000000);
	before->edges[0].ways[STATS_UP].messages = 40;
	text = printed(now, before);
	CHECK(strstr(text, "rates of the last 2.0 s; edges have been counted for 1.5 s") != NULL);
	CHECK(strstr(text, "ip -> eth                       30         100         0          50") != NULL);
	CHECK(strstr(text, "eth.full                         0           3") != NULL);
	CHECK(strstr(text, "78.7%") != NULL);
	free(text);
	stats_free(now);
	stats_free(before);
}

TEST(another_document_is_refused)
{
	const char *why = NULL;

	CHECK(stats_of("{}", &why) == NULL);
	CHECK_STR(why, "it is not what `xk stats --json` writes");
	CHECK(stats_of("[1]", &why) == NULL);
	CHECK(stats_of("{\"protocols\": {}}", &why) == NULL);
	CHECK(stats_of("", &why) == NULL);
}

/* Bytes are changed: what is read can be printed. */
TEST(hostile_documents_can_be_printed)
{
	static const char bytes[] = "{}[]\",:0nt";
	uint64_t random = 1;
	unsigned printable = 0;

	for (unsigned i = 0; i < 4000; i++) {
		char copy[sizeof(document)], *text;
		struct stats *stats;
		const char *why;

		memcpy(copy, document, sizeof(copy));
		for (unsigned k = 0; k < 1 + i % 3; k++)
			copy[next_random(&random) % (sizeof(copy) - 1)] =
				bytes[next_random(&random) % (sizeof(bytes) - 1)];
		stats = stats_of(copy, &why);
		if (stats == NULL)
			continue;
		text = printed(stats, stats);
		printable += text != NULL;
		free(text);
		stats_free(stats);
	}
	CHECK(printable > 100);
}

TEST(names_of_hosts_are_bounded_and_plain)
{
	char name[STATS_NAME], longest[200] = "xkstats-";
	struct sockaddr_un address;

	CHECK(stats_name_of("xkstats-udptest-17.sock", name));
	CHECK_STR(name, "udptest-17");
	CHECK(!stats_name_of("xkstats-.sock", name));
	CHECK(!stats_name_of("xkstats-a.sockx", name));
	CHECK(!stats_name_of("xk-a.sock", name));
	CHECK(!stats_name_of("xkstats-a\033[2J.sock", name));
	memset(longest + 8, 'a', 100);
	strcat(longest, ".sock");
	CHECK(!stats_name_of(longest, name));
	CHECK(!stats_is_name("../../etc/x"));
	CHECK(stats_address("/run", "a", &address));
	CHECK_STR(address.sun_path, "/run/xkstats-a.sock");
	CHECK(!stats_address(longest, "a-long-name-of-a-host", &address));
}

TEST(a_host_is_meant_by_what_is_its_alone)
{
	struct stats_hosts hosts = { 3, { "chantest-18", "udptest-17", "udptest-170" } };
	const char *name = "";
	char why[STATS_WHY];

	CHECK_EQ(stats_choose(&hosts, "chan", &name, why, sizeof(why)), 0);
	CHECK_STR(name, "chantest-18");
	CHECK_EQ(stats_choose(&hosts, "170", &name, why, sizeof(why)), 0);
	CHECK_STR(name, "udptest-170");
	CHECK_EQ(stats_choose(&hosts, "udptest-17", &name, why, sizeof(why)), 0);
	CHECK_STR(name, "udptest-17");
	CHECK(stats_choose(&hosts, "udptest", &name, why, sizeof(why)) < 0);
	CHECK_STR(why, "2 hosts may be meant: `xk stats --list` lists them");
	CHECK(stats_choose(&hosts, "tcp", &name, why, sizeof(why)) < 0);
	CHECK(stats_choose(&hosts, NULL, &name, why, sizeof(why)) < 0);
	hosts.count = 1;
	CHECK_EQ(stats_choose(&hosts, NULL, &name, why, sizeof(why)), 0);
	CHECK_STR(name, "chantest-18");
}
