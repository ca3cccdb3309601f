/*
 * types.h - protocol types for tests of the graph language: like those of the UDP graph, a virtual protocol that can be
 * stacked, an RPC protocol and its user. They declare everything and do nothing.
 */
#ifndef TYPES_H
#define TYPES_H

#include "graphs/graph.h"
#include "tests/graphs/errors.h"
#include "tests/test.h"

struct types_node {
	struct xk_protocol protocol;
	uint64_t number, time_ns;
	const char *text;
	bool flag;
	struct xk_network network;
};

static const struct xk_protocol_ops types_ops = { .init = NULL };

static const struct xk_role types_port_role[] = { { "port", XK_ASYNC, NULL, "carries frames" }, { .name = NULL } };
static const struct xk_role types_network_role[] = { { "network", XK_ASYNC, NULL, NULL }, { .name = NULL } };
static const struct xk_role types_vnet_roles[] = {
	{ "link", XK_ASYNC, "eth", "the wire" },
	{ "resolver", XK_CONTROL, "arp", "who has an address" },
	{ .name = NULL },
};
static const struct xk_role types_rpc_roles[] = { { "caller", XK_RPC, NULL, NULL }, { .name = NULL } };
static const struct xk_role types_chan_roles[] = {
	{ "network", XK_ASYNC, NULL, NULL },
	{ "control", XK_ASYNC | XK_CONTROL, NULL, NULL },
	{ .name = NULL },
};

static const struct xk_number_on types_ip_numbers[] = { { "eth", 0x0800 }, { .lower = NULL } };
static const struct xk_number_on types_arp_numbers[] = { { "eth", 0x0806 }, { .lower = NULL } };
static const struct xk_number_on types_udp_numbers[] = { { "ip", 17 }, { .lower = NULL } };

static const struct xk_setting types_port_settings[] = {
	XK_SETTING(STRING, struct types_node, text, "dev", "the device", .initial = ""),
	{ .name = NULL },
};
static const struct xk_setting types_udptest_settings[] = {
	XK_SETTING(UINT, struct types_node, number, "port", "the port", .initial = "2001", .min = 1, .max = 65535),
	XK_SETTING(UINT, struct types_node, time_ns, "size", "also an attribute of graphviz", .initial = "1", .min = 1,
		   .max = 9),
	XK_SETTING(UINT, struct types_node, time_ns, "width", "also what graphviz writes", .initial = "1", .min = 1,
		   .max = 9),
	XK_SETTING(BOOL, struct types_node, flag, "serve", "answers", .initial = "yes"),
	{ .name = NULL },
};
static const struct xk_setting types_vnet_settings[] = {
	XK_SETTING(ADDRESS, struct types_node, network, "address", "the host's"),
	{ .name = NULL },
};

static const struct xk_field types_udp_fields[] = { { .name = "ports", .bits = 64 }, { .name = NULL } };

#define TYPES_TYPE(type_name, ...)                                                                                     \
	static const struct xk_protocol_type types_##type_name = { .name = #type_name,                                 \
								   .help = "for tests",                                \
								   .ops = &types_ops,                                  \
								   .size = sizeof(struct types_node),                  \
								   __VA_ARGS__ }

TYPES_TYPE(port, .offers = XK_ASYNC, .flags = XK_PORT | XK_ONE_UPPER, .settings = types_port_settings);
TYPES_TYPE(eth, .offers = XK_ASYNC, .lowers = types_port_role, .number_max = 0xffff);
TYPES_TYPE(arp, .offers = XK_CONTROL, .lowers = types_network_role, .numbers = types_arp_numbers);
TYPES_TYPE(vnet, .offers = XK_ASYNC, .flags = XK_VIRTUAL | XK_REPEATS, .lowers = types_vnet_roles,
	   .settings = types_vnet_settings, .session_max = 256);
TYPES_TYPE(vtap, .offers = XK_ASYNC, .flags = XK_VIRTUAL, .lowers = types_network_role);
TYPES_TYPE(ip, .offers = XK_ASYNC, .lowers = types_network_role, .numbers = types_ip_numbers, .number_max = 255);
TYPES_TYPE(udp, .offers = XK_ASYNC, .lowers = types_network_role, .numbers = types_udp_numbers, .session_max = 8192,
	   .header = 8, .fields = types_udp_fields);
TYPES_TYPE(udptest, .lowers = types_network_role, .settings = types_udptest_settings);
TYPES_TYPE(chan, .offers = XK_RPC, .lowers = types_chan_roles);
TYPES_TYPE(bidctl, .offers = XK_ASYNC | XK_CONTROL, .lowers = types_network_role);
TYPES_TYPE(chantest, .lowers = types_rpc_roles);

static const struct xk_protocol_type *const types[] = {
	&types_arp,  &types_bidctl, &types_chan,    &types_chantest, &types_eth,  &types_ip,
	&types_port, &types_udp,    &types_udptest, &types_vnet,     &types_vtap, NULL,
};

/* The graph below udp, in one line. */
#define TYPES_LOWER "udp -> ip; ip -> vnet; vnet -> eth; vnet -> arp; arp -> eth; eth -> port;"

/* Reads and checks text as the file "g". NULL: refused. */
static inline struct xk_graph *
types_load(const char *text, size_t size, struct xk_graph_errors *errors)
{
	struct xk_graph *graph = xk_graph_read_text("g", text, size, errors);

	if (graph != NULL && xk_graph_check(graph, types, errors) == 0)
		return graph;
	xk_graph_free(graph);
	return NULL;
}

/* Loads a graph that must be accepted. */
static inline struct xk_graph *
types_good(const char *text)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = types_load(text, strlen(text), &errors);

	xk_graph_errors_print(&errors, stderr);
	CHECK_EQ(errors.count, 0);
	xk_graph_errors_clear(&errors);
	REQUIRE(graph != NULL);
	return graph;
}

static inline void
types_accept(const char *text)
{
	xk_graph_free(types_good(text));
}

/* Returns all errors of a graph that must be refused; the caller frees them. */
static inline char *
types_errors_of(const char *text)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = types_load(text, strlen(text), &errors);
	char *report = error_lines(&errors);

	CHECK(graph == NULL);
	xk_graph_free(graph);
	xk_graph_errors_clear(&errors);
	return report;
}

/* Checks that a graph is refused with exactly the errors `expected`, a line each. */
static inline void
types_refuse(const char *text, const char *expected)
{
	char *report = types_errors_of(text);

	CHECK_STR(report, expected);
	free(report);
}

/* Checks that a graph is refused with errors that contain part. */
static inline void
types_refuse_with(const char *text, const char *part)
{
	char *report = types_errors_of(text);

	CHECK_HAS(report, part);
	free(report);
}

#endif
