/*
 * topology_files.h - for tests of network files: test settings of hosts and links, a directory with graphs for hosts,
 * and loaders for networks that must be accepted or refused.
 */
#ifndef TESTS_TOPOLOGY_FILES_H
#define TESTS_TOPOLOGY_FILES_H

#include <sys/stat.h>
#include <unistd.h>

#include "graphs/topology.h"
#include "tests/graphs/errors.h"
#include "tests/test.h"

static const struct xk_setting link_settings[] = {
	{ .name = "loss", .type = XK_SETTING_PROBABILITY, .help = "a fault" },
	{ .name = "latency", .type = XK_SETTING_TIME, .help = "a time" },
	{ .name = "kind", .type = XK_SETTING_STRING, .help = "a text" },
	{ .name = NULL },
};
static const struct xk_setting host_settings[] = {
	{ .name = "mode", .type = XK_SETTING_STRING, .help = "a text" },
	{ .name = "threads", .type = XK_SETTING_UINT, .help = "a number", .min = 1, .max = 64 },
	{ .name = NULL },
};
static const char *const presets[] = { "ethernet10", "wide", NULL };
static const struct xk_topology_types types = { link_settings, host_settings, presets, xk_protocol_types };

#define UPPER "digraph g { udptest -> udp -> ip -> vnet; "
#define LOWER "vnet -> eth; vnet -> arp; arp -> eth; eth -> port"
#define TWO_LOWER                                                                                                      \
	"eth1 [protocol=eth]; eth2 [protocol=eth]; arp1 [protocol=arp]; arp2 [protocol=arp]; port1 [protocol=port];"   \
	"port2 [protocol=port]; vnet -> eth1; vnet -> arp1; vnet -> eth2; vnet -> arp2; arp1 -> eth1; arp2 -> eth2;"   \
	"eth1 -> port1; eth2 -> port2"

/* A directory with graphs, and the name of a network file in its folder net. */
struct place {
	char directory[32], file[64];
};

static inline void
place_write(const struct place *place, const char *name, const char *text)
{
	char path[96];
	FILE *stream;

	snprintf(path, sizeof(path), "%s/%s", place->directory, name);
	stream = fopen(path, "w");
	REQUIRE(stream != NULL);
	fputs(text, stream);
	REQUIRE(fclose(stream) == 0);
}

static const char *const place_files[] = {
	"one.dot", "two.dot", "bad.dot", "net/beside.dot", "net/one2.dot", "one2.dot"
};

static inline struct place
place_new(void)
{
	struct place place = { .directory = "/tmp/test_topology.XXXXXX" };
	char net[64];

	REQUIRE(mkdtemp(place.directory) != NULL);
	snprintf(net, sizeof(net), "%s/net", place.directory);
	REQUIRE(mkdir(net, 0700) == 0);
	snprintf(place.file, sizeof(place.file), "%s/net/n.dot", place.directory);
	place_write(&place, "one.dot", UPPER LOWER "}");
	place_write(&place, "two.dot", UPPER TWO_LOWER "}");
	place_write(&place, "bad.dot", UPPER "\nudp -> eth }");
	place_write(&place, "net/beside.dot", UPPER LOWER "}");
	place_write(&place, "net/one2.dot", UPPER LOWER "}");
	place_write(&place, "one2.dot", "nothing");
	return place;
}

static inline void
place_free(const struct place *place)
{
	char path[96];

	for (size_t i = 0; i < XK_ARRAY_LENGTH(place_files); i++) {
		snprintf(path, sizeof(path), "%s/%s", place->directory, place_files[i]);
		CHECK_EQ(unlink(path), 0);
	}
	snprintf(path, sizeof(path), "%s/net", place->directory);
	CHECK_EQ(rmdir(path), 0);
	CHECK_EQ(rmdir(place->directory), 0);
}

/* ---- loading ---- */

/* Loads a network that must be accepted, with --set options. */
static inline struct xk_topology *
good_with(const char *text, const char *const *sets, unsigned set_count)
{
	struct xk_graph_errors errors = { 0 };
	struct place place = place_new();
	struct xk_topology *net =
		xk_topology_load_text(place.file, text, strlen(text), sets, set_count, &types, &errors);

	xk_graph_errors_print(&errors, stderr);
	CHECK_EQ(errors.count, 0);
	xk_graph_errors_clear(&errors);
	place_free(&place);
	REQUIRE(net != NULL);
	return net;
}

static inline struct xk_topology *
good(const char *text)
{
	return good_with(text, NULL, 0);
}

/*
 * Checks that text (with one --set, unless NULL) is refused with errors that contain part; ":2: ..." is in the network.
 */
static inline void
refuse_set(const char *text, const char *set, const char *part)
{
	struct xk_graph_errors errors = { 0 };
	struct place place = place_new();
	struct xk_topology *net =
		xk_topology_load_text(place.file, text, strlen(text), &set, set != NULL, &types, &errors);
	char *report = error_lines(&errors), whole[512];

	snprintf(whole, sizeof(whole), "%s%s", part[0] == ':' ? "net/n.dot" : "", part);
	CHECK(net == NULL);
	CHECK_HAS(report, whole);
	free(report);
	xk_topology_free(net);
	xk_graph_errors_clear(&errors);
	place_free(&place);
}

static inline void
refuse(const char *text, const char *part)
{
	refuse_set(text, NULL, part);
}

#define HEAD "graph g { network=\"10.77.0.0/24\" protocols=\"one.dot\"\nlan [link=ethernet10]; "

#endif
