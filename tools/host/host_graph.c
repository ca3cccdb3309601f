/* host_graph.c - a host's graph: the file, the command line's settings, and default addresses and devices. */
#define _GNU_SOURCE
#include "tools/host/host.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <string.h>
#include <unistd.h>

#include "graphs/attributes.h"
#include "graphs/graph.h"

enum { HOST_TEXT = 256, HOST_NETWORK_BITS = 24 };

/* Default addresses: 10.77.0.1/24 for the client and .2 for the server; 10.78.0 for the second link, and so on. */
#define HOST_NETWORK UINT32_C(0x0a4d0000)
#define HOST_NETWORK_STEP UINT32_C(0x00010000)

static const char *const host_ends[PAIR_ENDS] = { "client:", "server:" };

/* Returns a --set without "client:" or "server:", or NULL if it is for the other end. */
static const char *
host_set_of(unsigned end, const char *set)
{
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		if (strncmp(set, host_ends[i], strlen(host_ends[i])) == 0)
			return i == end ? set + strlen(host_ends[i]) : NULL;
	return set;
}

bool
host_sets_are_valid(const struct options_program *program, const struct options_texts *sets)
{
	for (unsigned i = 0; i < sets->count; i++) {
		const char *set = host_set_of(PAIR_CLIENT, sets->text[i]), *dot, *equals;

		if (set == NULL)
			set = host_set_of(PAIR_SERVER, sets->text[i]);
		dot = strchr(set, '.');
		equals = strchr(set, '=');
		if (dot != NULL && equals != NULL && dot > set && dot + 1 < equals)
			continue;
		options_misuse(program, "--set \"%s\" is not of the form node.attribute=value", sets->text[i]);
		return false;
	}
	return true;
}

const char *
host_graph_path(const char *file, char *path, size_t size)
{
	static const char *const places[] = { "graphs", "share/xkernel/graphs" };
	char exe[HOST_PATH / 2], beside[HOST_PATH];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	snprintf(path, size, "graphs/%s", file);
	if (access(path, R_OK) == 0 || len <= 0)
		return path;
	exe[len] = '\0';
	dirname(exe);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(places); i++) {
		snprintf(beside, sizeof(beside), "%s/../%s/%s", exe, places[i], file);
		if (access(beside, R_OK) == 0) {
			snprintf(path, size, "%s", beside);
			break;
		}
	}
	return path;
}

static const char *
host_node_attribute(const struct xk_graph *graph, unsigned node, const char *name)
{
	struct xk_graph_attribute *attribute = xk_graph_attribute_find(&graph->nodes[node].attributes, name);

	return attribute == NULL ? NULL : attribute->value;
}

static const struct xk_protocol_type *
host_node_type(const struct xk_graph *graph, unsigned node)
{
	const char *type = host_node_attribute(graph, node, "protocol");

	return xk_protocol_type_find(type == NULL ? graph->nodes[node].name : type);
}

static int
host_set(struct host *host, struct xk_graph_errors *errors, unsigned node, const char *attribute, const char *value)
{
	char text[HOST_TEXT * 2];

	snprintf(text, sizeof(text), "%s.%s=%s", host->graph->nodes[node].name, attribute, value);
	return xk_graph_set(host->graph, text, errors);
}

/* Names every port by its `dev`, or else by its node. */
static int
host_name_ports(struct host *host, struct xk_graph_errors *errors)
{
	struct xk_graph *graph = host->graph;
	const struct xk_setting link = { .name = "address", .type = XK_SETTING_LINK };
	char name[HOST_TEXT], why[HOST_TEXT]; /* why is ignored: the graph's check reports bad addresses */

	for (unsigned i = 0; i < graph->node_count; i++) {
		const struct xk_protocol_type *type = host_node_type(graph, i);
		const char *address = host_node_attribute(graph, i, "address");
		const char *dev = host_node_attribute(graph, i, "dev");

		if (type == NULL || (type->flags & XK_PORT) == 0)
			continue;
		if (host->port_count == HOST_PORTS) {
			fprintf(stderr, "%s: %s has more than %d ports\n", host->options.program, host->options.graph,
				HOST_PORTS);
			return -EINVAL;
		}
		host->port_is_set[host->port_count] = dev != NULL;
		if (address != NULL)
			xk_setting_parse(&link, address, &host->port_addresses[host->port_count], why, sizeof(why));
		if (dev == NULL) {
			snprintf(name, sizeof(name), "%.100s%.63s", host->options.meeting, graph->nodes[i].name);
			if (host_set(host, errors, i, "dev", name) != 0)
				return -EINVAL;
			dev = host_node_attribute(graph, i, "dev");
		}
		host->port_nodes[host->port_count] = graph->nodes[i].name;
		host->port_names[host->port_count++] = dev;
	}
	return 0;
}

/* Returns an address in the server's network for its client, or 0 if the network is too small. */
static uint32_t
host_client_of(struct xk_network server)
{
	uint32_t first;

	if (server.bits > 30)
		return 0;
	first = (server.host & ~(UINT32_MAX >> server.bits)) + 1;
	return first == server.host ? first + 1 : first;
}

static bool
host_is_set_for_client(const struct host *host, const char *node, const char *attribute)
{
	char prefix[HOST_TEXT];

	snprintf(prefix, sizeof(prefix), "%s%s.%s=", host_ends[PAIR_CLIENT], node, attribute);
	for (unsigned i = 0; i < host->options.sets->count; i++)
		if (strncmp(host->options.sets->text[i], prefix, strlen(prefix)) == 0)
			return true;
	return false;
}

/* Sets an address of a node: the given one, for the client of a pair a neighbour of the given one, or the default. */
static int
host_address_node(struct host *host, struct xk_graph_errors *errors, unsigned node, unsigned link,
		  const struct xk_setting *setting)
{
	const char *given = host_node_attribute(host->graph, node, setting->name);
	bool is_client = host->options.end == PAIR_CLIENT;
	struct xk_network network = { HOST_NETWORK + link * HOST_NETWORK_STEP + (is_client ? 1 : 2),
				      HOST_NETWORK_BITS };
	const struct xk_setting parsed = { .name = "address", .type = XK_SETTING_ADDRESS };
	char text[HOST_TEXT], host_text[16], why[HOST_TEXT];

	if (given != NULL && xk_setting_parse(&parsed, given, &network, why, sizeof(why)) != 0)
		return 0; /* the graph's check refuses it */
	if (given != NULL && is_client && host->options.paired &&
	    !host_is_set_for_client(host, host->graph->nodes[node].name, setting->name)) {
		network.host = host_client_of(network);
		if (network.host == 0) {
			fprintf(stderr, "%s: %s leaves no address for the client: set one with --set client:%s.%s=\n",
				host->options.program, given, host->graph->nodes[node].name, setting->name);
			return -EINVAL;
		}
	}
	if (host->address == 0)
		host->address = network.host;
	snprintf(text, sizeof(text), "%s/%" PRIu32, xk_host_print(network.host, host_text), network.bits);
	return host_set(host, errors, node, setting->name, text);
}

/*
 * Makes a host on a real link announce its address, because neighbours may know an old link address. On other links
 * none can, and traces stay free of announcements.
 */
static int
host_announce(struct host *host, struct xk_graph_errors *errors, unsigned node, const char *setting)
{
	bool is_real = host->options.link != NULL && host->options.link->on_dpdk;

	if (!is_real || host_node_attribute(host->graph, node, setting) != NULL)
		return 0;
	return host_set(host, errors, node, setting, "2");
}

/* Sets all addresses: a protocol has one for each group of lowers (address, address2, ...). */
static int
host_address_all(struct host *host, struct xk_graph_errors *errors)
{
	struct xk_graph *graph = host->graph;
	unsigned link = 0;

	for (unsigned i = 0; i < graph->node_count; i++) {
		const struct xk_protocol_type *type = host_node_type(graph, i);
		const struct xk_setting *setting = type == NULL ? NULL : type->settings;
		unsigned roles = 0, groups = 0;

		while (type != NULL && type->lowers != NULL && type->lowers[roles].name != NULL)
			roles++;
		for (unsigned e = 0; e < graph->edge_count; e++)
			groups += graph->edges[e].upper == i;
		groups = roles == 0 ? 0 : groups / roles;
		for (; setting != NULL && setting->name != NULL && groups > 0; setting++) {
			if (strcmp(setting->name, "announcements") == 0 &&
			    host_announce(host, errors, i, setting->name) != 0)
				return -EINVAL;
			if (setting->type != XK_SETTING_ADDRESS)
				continue;
			if (host_address_node(host, errors, i, link++, setting) != 0)
				return -EINVAL;
			groups--;
		}
	}
	return 0;
}

static bool
host_is_test(const struct xk_graph *graph, unsigned node)
{
	const struct xk_protocol_type *type = host_node_type(graph, node);
	bool is_top = true;

	for (unsigned i = 0; i < graph->edge_count; i++)
		is_top &= graph->edges[i].lower != node;
	return is_top && type != NULL && type->offers == 0 && type->lowers != NULL &&
	       (type->lowers[0].needs & XK_ASYNC) != 0;
}

/* Replaces the first test protocol over messages by options.top; keeps its port (0: none) and policies. */
static int
host_replace_top(struct host *host, struct xk_graph_errors *errors)
{
	struct xk_graph *graph = host->graph;
	const struct xk_setting *setting;
	const char *port = "0";
	unsigned node = 0;

	while (node < graph->node_count && !host_is_test(graph, node))
		node++;
	if (node == graph->node_count) {
		fprintf(stderr, "%s: %s has no test protocol over messages that %s could replace\n",
			host->options.program, host->options.graph, host->options.top);
		return -EINVAL;
	}
	setting = host_node_type(graph, node)->settings;
	if (strcmp(host_node_type(graph, node)->name, host->options.top) == 0)
		return 0;
	for (; setting != NULL && setting->name != NULL; setting++)
		if (strcmp(setting->name, "port") == 0)
			port = NULL;
		else
			xk_graph_attribute_remove(&graph->nodes[node].attributes, setting->name);
	if (port != NULL && host_set(host, errors, node, "port", port) != 0)
		return -EINVAL;
	return host_set(host, errors, node, "protocol", host->options.top);
}

int
host_check_peer(const struct host *host, uint32_t peer)
{
	struct attributes_address own = { .node = 0 };
	char text[16];

	while (attributes_next_address(host->graph, &own)) {
		bool on_link = own.network.bits > 0 && (own.network.host ^ peer) >> (32 - own.network.bits) == 0;
		const char *refusal = on_link ? xk_host_refusal(peer, own.network.bits) : NULL;

		if (own.network.host == peer)
			refusal = "this host's own address, and hosts send nothing to themselves";
		if (refusal == NULL)
			continue;
		fprintf(stderr,
			"%s: %s: %s is %s (%s.%s is %s): specify the other host's address, or give this host another "
			"with --set\n",
			host->options.program, host->options.name, xk_host_print(peer, text), refusal,
			host->graph->nodes[own.node].name, own.attribute->name, own.attribute->value);
		return OPTIONS_FAILURE;
	}
	return 0;
}

int
host_check_pair(const struct host *client, const struct host *server)
{
	struct attributes_address address = { .node = 0 };
	int status = 0;

	while (status == 0 && attributes_next_address(server->graph, &address))
		status = host_check_peer(client, address.network.host);
	return status;
}

int
host_load(struct host *host, const struct host_options *options)
{
	struct xk_graph_errors errors = { .list = NULL };
	bool good;

	*host = (struct host){ .options = *options };
	host->graph = xk_graph_read(options->graph, &errors);
	good = host->graph != NULL && (options->top == NULL || host_replace_top(host, &errors) == 0);
	for (unsigned i = 0; i < options->sets->count && good; i++) {
		const char *set = host_set_of(options->end, options->sets->text[i]);

		good = set == NULL || xk_graph_set(host->graph, set, &errors) == 0;
	}
	good = good && host_name_ports(host, &errors) == 0 && host_address_all(host, &errors) == 0;
	if (host->graph != NULL && xk_graph_check(host->graph, xk_protocol_types, &errors) != 0)
		good = false;
	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	if (good && options->peer != 0)
		return host_check_peer(host, options->peer);
	return good ? 0 : OPTIONS_FAILURE;
}
