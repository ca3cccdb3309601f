/*
 * topology_join.c - creates a network's objects from its file: the hosts of each node (`count`), links from nodes and
 * from edges between hosts, and a device for every edge that joins a host to a link.
 */
#include <stdlib.h>
#include <string.h>

#include "graphs/topology_private.h"

static bool
topology_is_link(const struct topology_load *load, unsigned node)
{
	return load->nodes[node].where == TOPOLOGY_LINK;
}

/* ---- kinds of nodes and edges ---- */

static void
topology_classify_node(struct topology_load *load, unsigned index)
{
	const struct xk_graph_node *written = &topology_written(load)->nodes[index];
	struct topology_node *node = &load->nodes[index];
	uint64_t count = 1;

	node->where = xk_graph_attribute_find(&written->attributes, "link") != NULL ? TOPOLOGY_LINK : TOPOLOGY_HOST;
	topology_check_attributes(load, node->where, written->name, &written->attributes);
	if (node->where == TOPOLOGY_HOST)
		node->counted = topology_value(&written->attributes, "count", &count);
	else if (node->given.count > 0)
		attributes_refuse(&load->check, 0, "%s.%.80s: %s is a link and has no graph", written->name,
				  node->given.list[0].name, written->name);
	node->count = (unsigned)count;
}

/* Refuses one address for several hosts. */
static void
topology_refuse_shared(struct topology_load *load, const struct xk_graph_edge *edge, const char *of, const char *name)
{
	const struct xk_graph_attribute *a = xk_graph_attribute_find(&edge->attributes, name);
	unsigned host = topology_is_link(load, edge->upper) ? edge->lower : edge->upper;

	if (a != NULL && load->nodes[host].count > 1)
		attributes_refuse(&load->check, a->line, "%s of %s: %s is %u hosts, but this is one address", name, of,
				  topology_written(load)->nodes[host].name, load->nodes[host].count);
}

static void
topology_classify_edge(struct topology_load *load, const struct xk_graph_edge *edge)
{
	bool upper = topology_is_link(load, edge->upper), lower = topology_is_link(load, edge->lower);
	const struct xk_graph_node *nodes = topology_written(load)->nodes;
	char of[2 * XK_GRAPH_NAME_MAX + 8], list[512];

	snprintf(of, sizeof(of), "%s -- %s", nodes[edge->upper].name, nodes[edge->lower].name);
	if (edge->upper == edge->lower) {
		attributes_refuse(&load->check, edge->line, "%s joins %s to itself", of, nodes[edge->upper].name);
	} else if (upper && lower) {
		attributes_refuse(&load->check, edge->line, "%s joins two links: a link joins hosts", of);
	} else if (upper || lower) {
		topology_check_attributes(load, TOPOLOGY_DEVICE, of, &edge->attributes);
		topology_refuse_shared(load, edge, of, "address");
		topology_refuse_shared(load, edge, of, "host");
	} else {
		topology_check_attributes(load, TOPOLOGY_WIRE, of, &edge->attributes);
		if (xk_graph_attribute_find(&edge->attributes, "link") == NULL)
			attributes_refuse(&load->check, edge->line,
					  "%s joins two hosts: specify the link with [link=PRESET], one of %s", of,
					  topology_list_presets(load, list, sizeof(list)));
	}
}

void
topology_classify(struct topology_load *load)
{
	struct xk_graph *written = topology_written(load);

	load->node_order = calloc(written->node_count + 1, sizeof(*load->node_order));
	load->edge_order = calloc(written->edge_count + 1, sizeof(*load->edge_order));
	xk_assert(load->node_order != NULL && load->edge_order != NULL);
	for (unsigned i = 0; i < written->node_count; i++)
		load->node_order[written->nodes[i].sequence] = i;
	for (unsigned i = 0; i < written->edge_count; i++)
		load->edge_order[written->edges[i].sequence] = i;
	topology_check_attributes(load, TOPOLOGY_GRAPH, "the graph", &written->attributes);
	topology_parse_sets(load, "the graph", &written->attributes, &load->file_given);
	for (unsigned i = 0; i < written->node_count; i++)
		topology_classify_node(load, load->node_order[i]);
	for (unsigned i = 0; i < written->edge_count; i++)
		topology_classify_edge(load, &written->edges[load->edge_order[i]]);
}

/* ---- hosts ---- */

static void
topology_create_node_hosts(struct topology_load *load, unsigned index)
{
	const struct xk_graph_node *written = &topology_written(load)->nodes[index];
	struct xk_topology *topology = load->topology;
	struct topology_node *node = &load->nodes[index];

	node->first = topology->host_count;
	node->part = topology_part_new(load, written);
	for (unsigned i = 0; i < node->count; i++) {
		struct xk_topology_host *host = &topology->hosts[topology->host_count];
		char name[XK_GRAPH_NAME_MAX + 16];

		if (node->counted)
			snprintf(name, sizeof(name), "%s%u", written->name, i + 1);
		host->name = xk_graph_copy(node->counted ? name : written->name);
		host->line = written->line;
		host->number = topology->host_count++;
		host->written = index;
		host->part = node->part;
	}
	if (strlen(topology->hosts[topology->host_count - 1].name) > XK_GRAPH_NAME_MAX)
		attributes_refuse(&load->check, written->line, "the host's name \"%s\" is longer than %d characters",
				  topology->hosts[topology->host_count - 1].name, XK_GRAPH_NAME_MAX);
}

static bool
topology_create_hosts(struct topology_load *load)
{
	struct xk_graph *written = topology_written(load);
	uint64_t count = 0;

	for (unsigned i = 0; i < written->node_count; i++)
		count += topology_is_link(load, i) ? 0 : load->nodes[i].count;
	if (count == 0 || count > XK_TOPOLOGY_HOSTS_MAX) {
		attributes_refuse(&load->check, written->line, "this network has %llu hosts, not 1 to %d",
				  (unsigned long long)count, XK_TOPOLOGY_HOSTS_MAX);
		return false;
	}
	load->topology->hosts = calloc(count, sizeof(*load->topology->hosts));
	xk_assert(load->topology->hosts != NULL);
	for (unsigned i = 0; i < written->node_count; i++)
		if (!topology_is_link(load, load->node_order[i]))
			topology_create_node_hosts(load, load->node_order[i]);
	return true;
}

/* ---- links ---- */

/* Adds a link. Its attributes have a `link`, or were refused. Returns its index. */
static unsigned
topology_create_link(struct topology_load *load, const char *name, unsigned line,
		     const struct xk_graph_attributes *attributes)
{
	struct xk_topology *topology = load->topology;
	const struct xk_graph_attribute *preset = xk_graph_attribute_find(attributes, "link");
	struct xk_topology_link *link;

	topology->links = xk_graph_grow(topology->links, topology->link_count, sizeof(*topology->links));
	link = &topology->links[topology->link_count];
	link->name = xk_graph_copy(name);
	link->line = line;
	link->preset = xk_graph_copy(preset == NULL ? "" : preset->value);
	topology_merge_settings(load, TOPOLOGY_LINK, &link->settings, attributes);
	return topology->link_count++;
}

static void
topology_create_links(struct topology_load *load)
{
	struct xk_graph *written = topology_written(load);

	for (unsigned i = 0; i < written->node_count; i++) {
		unsigned index = load->node_order[i];
		const struct xk_graph_node *node = &written->nodes[index];

		if (!topology_is_link(load, index))
			continue;
		load->nodes[index].first = topology_create_link(load, node->name, node->line, &node->attributes);
		load->topology->links[load->nodes[index].first].written = index;
	}
}

/* ---- devices ---- */

/* Connects the next device of host to link. Returns false if the host has too many. */
static bool
topology_create_device(struct topology_load *load, struct xk_topology_host *host, unsigned link,
		       const struct xk_graph_edge *edge)
{
	const struct xk_graph_attribute *dev = xk_graph_attribute_find(&edge->attributes, "dev");
	struct xk_network network = { 0, 0 };
	struct xk_topology_device *device;
	unsigned index = host->device_count;
	char name[16] = "port";

	if (index == XK_TOPOLOGY_DEVICES_MAX) {
		attributes_refuse(&load->check, edge->line, "host %s has more than %d devices", host->name,
				  XK_TOPOLOGY_DEVICES_MAX);
		return false;
	}
	host->devices = xk_graph_grow(host->devices, host->device_count++, sizeof(*host->devices));
	device = &host->devices[index];
	device->link = link;
	device->line = edge->line;
	load->topology->links[link].device_count++;
	if (index > 0)
		snprintf(name, sizeof(name), "port%u", index + 1);
	device->name = xk_graph_copy(dev != NULL ? dev->value : name);
	/* Locally administered: 02:00:00:00:00:01 is the first host's first device. */
	if (!topology_value(&edge->attributes, "address", &device->address))
		device->address = UINT64_C(0x020000000000) | (uint64_t)index << 24 | (host->number + 1);
	if (topology_value(&edge->attributes, "host", &network)) {
		device->host = network.host;
		device->bits = network.bits;
	}
	topology_value(&edge->attributes, "shared", &device->is_shared);
	for (unsigned i = 0; i < index; i++)
		if (strcmp(host->devices[i].name, device->name) == 0)
			attributes_refuse(&load->check, device->line,
					  "host %s has two devices \"%.80s\": give one another name with [dev=NAME]",
					  host->name, device->name);
	return true;
}

/*
 * Creates a link from an edge between two hosts: "a--b", and "a--b-2" for the next between the same hosts. Returns
 * false if a host has too many devices.
 */
static bool
topology_create_wire(struct topology_load *load, struct xk_topology_host *a, struct xk_topology_host *b,
		     const struct xk_graph_edge *edge)
{
	char name[2 * XK_GRAPH_NAME_MAX + 32];
	unsigned link, number = 1;

	snprintf(name, sizeof(name), "%s--%s", a->name, b->name);
	for (unsigned i = 0; i < a->device_count; i++)
		if (strcmp(load->topology->links[a->devices[i].link].name, name) == 0)
			snprintf(name, sizeof(name), "%s--%s-%u", a->name, b->name, ++number);
	link = topology_create_link(load, name, edge->line, &edge->attributes);
	load->topology->links[link].is_edge = true;
	load->topology->links[link].written = (unsigned)(edge - topology_written(load)->edges);
	return topology_create_device(load, a, link, edge) && topology_create_device(load, b, link, edge);
}

/* Joins hosts to a link, or to one another. Any other edge was refused. */
static void
topology_join(struct topology_load *load, const struct xk_graph_edge *edge)
{
	const struct topology_node *a = &load->nodes[edge->upper], *b = &load->nodes[edge->lower];
	struct xk_topology_host *hosts = load->topology->hosts;
	bool good = edge->upper != edge->lower && (a->where == TOPOLOGY_HOST || b->where == TOPOLOGY_HOST);

	if (a->where == TOPOLOGY_LINK) {
		a = b;
		b = &load->nodes[edge->upper];
	}
	for (unsigned i = 0; i < a->count && good; i++) {
		if (b->where == TOPOLOGY_LINK)
			good = topology_create_device(load, &hosts[a->first + i], b->first, edge);
		for (unsigned k = 0; k < b->count && b->where == TOPOLOGY_HOST && good; k++)
			good = topology_create_wire(load, &hosts[a->first + i], &hosts[b->first + k], edge);
	}
}

/* ---- the whole network ---- */

static void
topology_check_joined(struct topology_load *load)
{
	const struct xk_topology *topology = load->topology;

	for (unsigned i = 0; i < topology->host_count; i++) {
		const struct xk_topology_host *host = &topology->hosts[i];

		if (host->device_count == 0 && (i == 0 || host[-1].written != host->written))
			attributes_refuse(&load->check, host->line,
					  "host %s has no link: add an edge %s -- LINK, or %s -- HOST "
					  "[link=PRESET]",
					  host->name, topology_written(load)->nodes[host->written].name,
					  topology_written(load)->nodes[host->written].name);
	}
}

struct topology_name {
	const char *name;
	unsigned line;
};

static int
topology_compare_names(const void *a, const void *b)
{
	return strcmp(((const struct topology_name *)a)->name, ((const struct topology_name *)b)->name);
}

/* Refuses duplicate names: traces and --set identify hosts and links by them. */
static void
topology_check_names(struct topology_load *load)
{
	const struct xk_topology *topology = load->topology;
	unsigned count = 0;
	struct topology_name *names = calloc(topology->host_count + topology->link_count + 1, sizeof(*names));

	xk_assert(names != NULL);
	for (unsigned i = 0; i < topology->host_count; i++)
		names[count++] = (struct topology_name){ topology->hosts[i].name, topology->hosts[i].line };
	for (unsigned i = 0; i < topology->link_count; i++)
		names[count++] = (struct topology_name){ topology->links[i].name, topology->links[i].line };
	qsort(names, count, sizeof(*names), topology_compare_names);
	for (unsigned i = 1; i < count; i++)
		if (strcmp(names[i - 1].name, names[i].name) == 0) {
			unsigned a = names[i - 1].line, b = names[i].line;

			attributes_refuse(&load->check, a > b ? a : b,
					  "two hosts or links are called %s: the other is on line %u", names[i].name,
					  a > b ? b : a);
		}
	free(names);
}

bool
topology_create(struct topology_load *load)
{
	struct xk_graph *written = topology_written(load);

	if (!topology_create_hosts(load))
		return false;
	topology_create_links(load);
	for (unsigned i = 0; i < written->edge_count; i++)
		topology_join(load, &written->edges[load->edge_order[i]]);
	topology_check_joined(load);
	topology_check_names(load);
	return true;
}
