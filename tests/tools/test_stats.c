/* test_stats.c - a host's counts as tables and as a document, and pictures of documents, including hostile ones. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "tests/random.h"
#include "tests/test.h"
#include "tools/host/host.h"
#include "tools/stats/stats_client.h"
#include "tools/stats/stats_draw.h"
#include "tools/stats/stats_metrics.h"
#include "tools/stats/stats_print.h"

static const char graph_text[] = "digraph g { udptest -> udp; udp -> ip; ip -> vnet; vnet -> eth; vnet -> arp;\n"
				 "arp -> eth; eth -> port; }\n";

/* Idle hosts, whose counts the tests set. */
static struct host_pair {
	struct host hosts[2];
	struct stats_before before;
	char path[64];
} pair;

static void
pair_begin(void)
{
	static const struct options_program program = { .name = "test" };
	static const struct options_texts none = { .count = 0 };
	struct host_options options[2];
	FILE *file;

	snprintf(pair.path, sizeof(pair.path), "/tmp/test_stats-%ld.dot", (long)getpid());
	file = fopen(pair.path, "w");
	REQUIRE(file != NULL);
	fputs(graph_text, file);
	fclose(file);
	for (unsigned i = 0; i < 2; i++) {
		options[i] = (struct host_options){
			.program = "test",
			.name = pair_end_names[i],
			.end = i,
			.graph = pair.path,
			.sets = &none,
			.meeting = "",
			.mode = XK_IPP,
			.driver = XK_DRIVER_INTERRUPT,
			.threads = 1,
		};
		REQUIRE(host_link_find(&program, "memory", -1, &options[i].link) == 0);
	}
	REQUIRE(host_open_both(pair.hosts, options) == 0);
}

static void
pair_end(void)
{
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(host_close(&pair.hosts[i]), 0);
	unlink(pair.path);
	free(pair.before.counts);
	pair.before = (struct stats_before){ .at_ns = 0 };
}

static struct xk_protocol *
protocol_called(const char *name)
{
	struct xk_protocol *p = xk_kernel_first(pair.hosts[0].kernel);

	while (p != NULL && strcmp(p->name, name) != 0)
		p = p->next;
	REQUIRE(p != NULL);
	return p;
}

static void
count(struct xk_edge *edge, unsigned way, uint64_t messages, uint64_t timed, uint64_t ns)
{
	atomic_store(&edge->counts[way].messages, messages);
	atomic_store(&edge->counts[way].timed, timed);
	atomic_store(&edge->counts[way].ns, ns);
}

/* Counts messages above and below ip, and five drops of eth. */
static void
count_some(void)
{
	struct xk_edge *above = protocol_called("udp")->lowers[0], *below = protocol_called("ip")->lowers[0];

	count(below, XK_UP, 100, 10, 500);
	count(below, XK_DOWN, 50, 5, 100);
	count(above, XK_UP, 90, 9, 90);
	count(above, XK_DOWN, 50, 5, 200);
	atomic_store(&below->handoffs[0], 4);
	atomic_store(&below->handoffs[2], 6);
	atomic_store(&above->handoffs[1], 1);
	atomic_store(&protocol_called("eth")->drops[1], 2);
	atomic_store(&protocol_called("eth")->drops[2], 3);
}

static char *
printed(bool (*print)(const struct host *host, const struct stats_about *about, FILE *out), uint64_t now_ns)
{
	struct stats_about about = { "h-1", now_ns, 1500000000, &pair.before, true };
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	REQUIRE(out != NULL);
	CHECK(print(&pair.hosts[0], &about, out));
	fclose(out);
	return text;
}

/* A test of two hosts, `pair`. */
#define PAIR_TEST(name)                                                                                                \
	static void name##_of_pair(void);                                                                              \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		pair_begin();                                                                                          \
		name##_of_pair();                                                                                      \
		pair_end();                                                                                            \
	}                                                                                                              \
	static void name##_of_pair(void)

PAIR_TEST(tables_have_rates_and_totals)
{
	struct xk_edge *edge;
	char *text;

	count_some();
	edge = protocol_called("ip")->lowers[0];
	count(edge, XK_UP, 40, 10, 500);
	free(printed(stats_print_tables, 3000000000));
	count(edge, XK_UP, 100, 10, 500);
	text = printed(stats_print_tables, 5000000000);
	CHECK(strncmp(text, "h-1: /tmp/test_stats-", 21) == 0);
	CHECK_HAS(text, ".dot on memory, driver interrupt, mode ipp\n");
	CHECK_HAS(text, "rates of the last 2.0 s; edges have been counted for 1.5 s");
	CHECK(strstr(text, "ip -> vnet                      30         100         0          50      50      20") !=
	      NULL);
	CHECK_HAS(text, "\nip                              30         100         0          50      50      40"
			"        4        0        6  78.7%        0\n");
	CHECK_HAS(text, "\neth.short                        0           2\n");
	CHECK_HAS(text, "\ndriver ");
	free(text);
	/* Counts that have been reset have no rates. */
	count(edge, XK_UP, 10, 10, 500);
	text = printed(stats_print_tables, 6000000000);
	CHECK_HAS(text, "ip -> vnet                       0          10");
	free(text);
}

PAIR_TEST(long_names_stay_in_their_row)
{
	char *text;

	count_some();
	((char *)protocol_called("udp")->name)[1] = '\n';
	text = printed(stats_print_tables, 5000000000);
	CHECK_HAS(text, "\nu?p -> ip ");
	free(text);
}

PAIR_TEST(node_counts_are_sums_over_its_incoming_edges)
{
	json_t *document, *node = NULL;
	size_t i;
	char *text;
	int messages, down_ns, handoffs;
	double share;

	count_some();
	text = printed(stats_print_document, 5000000000);
	document = json_loads(text, 0, NULL);
	REQUIRE(document != NULL);
	json_array_foreach(json_object_get(document, "protocols"), i,
			   node) if (strcmp(json_string_value(json_object_get(node, "name")), "ip") == 0) break;
	REQUIRE(json_unpack(node, "{s:{s:i}, s:{s:i}, s:{s:i}, s:f}", "up", "messages", &messages, "down", "ns",
			    &down_ns, "handoffs", "time", &handoffs, "share", &share) == 0);
	CHECK_EQ(messages, 100);
	CHECK_EQ(down_ns, 200);
	CHECK_EQ(handoffs, 6);
	CHECK(fabs(share - 7000.0 / 8900) < 1e-5);
	json_decref(document);
	free(text);
}

PAIR_TEST(list_has_one_line_per_host)
{
	char *text;

	text = printed(stats_print_line, 1);
	CHECK(strncmp(text, "h-1   ", 6) == 0);
	CHECK(strchr(text, '\n') == text + strlen(text) - 1);
	free(text);
}

PAIR_TEST(metrics_have_drops_handoffs_and_messages_with_labels)
{
	static const char *const once[] = {
		"\nxk_drops_total{host=\"h-1\",protocol=\"eth\",type=\"eth\",reason=\"no_session\"} 3\n",
		"\nxk_messages_total{host=\"h-1\",upper=\"ip\",lower=\"vnet\",role=\"network\",direction=\"down\"} "
		"50\n",
		"\nxk_handoffs_total{host=\"h-1\",upper=\"ip\",lower=\"vnet\",role=\"network\",reason=\"explicit\"} "
		"4\n",
		"\nxk_counted_seconds_total{host=\"h-1\"} 1.500000000\n",
	};
	char *text;

	count_some();
	text = printed(stats_print_metrics, 1);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(once); i++)
		CHECK_HAS(text, once[i]);
	/* the name of an edge, of a file, or of a port may be anything */
	((char *)protocol_called("udp")->name)[1] = '"';
	free(text);
	text = printed(stats_print_metrics, 1);
	CHECK_HAS(text, "protocol=\"u\\\"p\"");
	free(text);
}

PAIR_TEST(picture_has_each_number_once)
{
	static const char *const once[] = { "100 up, 50 down",      "90 up, 50 down", "4 explicit, 6 time",
					    "50 ns up, 40 ns down", "5 dropped",      "78.7 % of the time" };
	char *text, *picture = NULL;
	json_t *stats;
	size_t len;
	FILE *out;

	count_some();
	text = printed(stats_print_document, 5000000000);
	stats = json_loads(text, 0, NULL);
	out = open_memstream(&picture, &len);
	REQUIRE(stats != NULL && out != NULL);
	stats_draw(pair.hosts[0].graph, stats, out);
	fclose(out);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(once); i++) {
		const char *found = strstr(picture, once[i]);

		CHECK(found != NULL && strstr(found + 1, once[i]) == NULL);
	}
	free(picture);
	json_decref(stats);
	free(text);
}

/* A document with any bytes changed can be drawn if it is still JSON. */
PAIR_TEST(hostile_documents_can_be_drawn)
{
	static const char bytes[] = "{}[]\",:0nt-.";
	unsigned drawn = 0, noted = 0;
	uint64_t random = 1;
	char *text;

	count_some();
	text = printed(stats_print_document, 5000000000);
	for (unsigned i = 0; i < 2000; i++) {
		char *copy = strdup(text), *picture = NULL;
		size_t len;
		json_t *stats;
		FILE *out;

		for (unsigned k = 0; k < i % 4; k++)
			copy[next_random(&random) % strlen(text)] = bytes[next_random(&random) % (sizeof(bytes) - 1)];
		stats = json_loads(copy, 0, NULL);
		free(copy);
		if (stats == NULL)
			continue;
		out = open_memstream(&picture, &len);
		stats_draw(pair.hosts[0].graph, stats, out);
		fclose(out);
		drawn++;
		noted += strstr(picture, "78.7 % of the time") != NULL;
		free(picture);
		json_decref(stats);
	}
	CHECK(drawn > 600 && noted > 500);
	free(text);
}

/* tools/json.c and jansson have functions of the same names: ours must not replace jansson's own. */
TEST(jansson_calls_its_own_functions)
{
	Dl_info info;

	REQUIRE(dladdr(dlsym(RTLD_DEFAULT, "json_object"), &info) != 0);
	CHECK_HAS(info.dli_fname, "libjansson");
}

TEST(host_names_are_short_and_plain)
{
	char name[STATS_NAME], longest[200] = "xkstats-", why[STATS_WHY], want[108];
	struct sockaddr_un address;

	CHECK(stats_name_of("xkstats-udptest-17.sock", name));
	CHECK_STR(name, "udptest-17");
	CHECK(!stats_name_of("xkstats-.sock", name));
	CHECK(!stats_name_of("xkstats-a.sockx", name));
	CHECK(!stats_name_of("xk-a.sock", name));
	CHECK(!stats_name_of("xkstats-a\033[2J.sock", name));
	CHECK(!stats_is_name("../../etc/x"));
	setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
	snprintf(want, sizeof(want), "/tmp/xk-%u/xkstats-a.sock", (unsigned)geteuid());
	CHECK_EQ(stats_address("a", true, &address, why, sizeof(why)), 0);
	CHECK_STR(address.sun_path, want);
	memset(longest + 8, 'a', 100);
	CHECK(stats_address(longest, false, &address, why, sizeof(why)) < 0);
	strcat(longest, ".sock");
	CHECK(!stats_name_of(longest, name));
}

TEST(host_is_chosen_by_a_unique_part_of_its_name)
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
	CHECK_STR(why, "2 hosts match: `xk stats --list` lists them");
	CHECK(stats_choose(&hosts, "tcp", &name, why, sizeof(why)) < 0);
	CHECK(stats_choose(&hosts, NULL, &name, why, sizeof(why)) < 0);
	hosts.count = 1;
	CHECK_EQ(stats_choose(&hosts, NULL, &name, why, sizeof(why)), 0);
	CHECK_STR(name, "chantest-18");
}
