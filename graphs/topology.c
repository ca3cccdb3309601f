/* topology.c - loads a network file (reads, sets and checks it), and frees it. See topology.h. */
#include "graphs/topology.h"

#include <stdlib.h>
#include <string.h>

#include "graphs/topology_private.h"

void
xk_topology_refuse(const struct xk_topology *topology, struct xk_graph_errors *errors, unsigned line,
		   const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	xk_graph_errors_add_list(errors, line == 0 ? "--set" : topology->file, line, format, arguments);
	va_end(arguments);
}

/* ---- --set ---- */

/* "name.rest=value", divided: rest is "attribute" or, for a host's graph, "node.attribute". */
struct topology_set {
	char *copy;
	const char *name, *rest, *value;
};

/*
 * Divides "name.rest=value" at the last dot, or `skip` dots before: names may have dots. Returns false if there is no
 * such dot.
 */
static bool
topology_set_divide(struct topology_set *set, const char *text, unsigned skip)
{
	size_t len = strcspn(text, "=");

	memcpy(set->copy, text, len);
	set->copy[len] = '\0';
	set->value = set->copy + len + 1;
	for (char *dot = set->copy + len; dot > set->copy; dot--)
		if (*dot == '.' && skip-- == 0) {
			*dot = '\0';
			set->name = set->copy;
			set->rest = dot + 1;
			return true;
		}
	return false;
}

static bool
topology_set_is_for_graph(const struct topology_set *set)
{
	return strchr(set->rest, '.') != NULL;
}

/* Sets a node or the graph, before it is checked. Returns false if the file has no set->name. */
static bool
topology_set_written(struct topology_load *load, const struct topology_set *set)
{
	struct xk_graph *written = topology_written(load);
	int node = xk_graph_node_find(written, set->name);
	bool is_all = node < 0 && strcmp(set->name, "graph") == 0;
	struct xk_graph_attributes *into;

	if (node < 0 && !is_all)
		return false;
	if (topology_set_is_for_graph(set))
		into = is_all ? &load->given : &load->nodes[node].given;
	else
		into = is_all ? &written->attributes : &written->nodes[node].attributes;
	xk_graph_attribute_put(into, set->rest, set->value, 0);
	return true;
}

static void
topology_set_host(struct topology_load *load, struct xk_topology_host *host, const struct topology_set *set)
{
	struct xk_graph_attribute a = { (char *)(uintptr_t)set->rest, (char *)(uintptr_t)set->value, 0, false };
	bool is_for_graph = topology_set_is_for_graph(set);

	if (!is_for_graph && topology_setting(load, TOPOLOGY_HOST, set->rest) == NULL) {
		attributes_refuse(&load->check, 0, "%.80s cannot be set for %s alone, only for %s", set->rest,
				  host->name, topology_written(load)->nodes[host->written].name);
		return;
	}
	if (!host->part->is_single)
		host->part = topology_part_copy(load, host->part);
	if (!is_for_graph)
		topology_check_attribute(load, TOPOLOGY_HOST, host->name, &a);
	xk_graph_attribute_put(is_for_graph ? &host->part->given : &host->part->settings, set->rest, set->value, 0);
}

static void
topology_set_link(struct topology_load *load, struct xk_topology_link *link, const struct topology_set *set)
{
	struct xk_graph_attribute a = { (char *)(uintptr_t)set->rest, (char *)(uintptr_t)set->value, 0, false };

	if (strcmp(set->rest, "link") == 0) {
		topology_check_attribute(load, TOPOLOGY_WIRE, link->name, &a);
		free(link->preset);
		link->preset = xk_graph_copy(set->value);
	} else if (topology_setting(load, TOPOLOGY_WIRE, set->rest) != NULL) {
		topology_check_attribute(load, TOPOLOGY_WIRE, link->name, &a);
		xk_graph_attribute_put(&link->settings, set->rest, set->value, 0);
	} else {
		attributes_refuse(&load->check, 0, "%.80s cannot be set for the link %s", set->rest, link->name);
	}
}

/* Sets a host of a `count`, or a link that is an edge. Returns false if none is called set->name. */
static bool
topology_set_created(struct topology_load *load, const struct topology_set *set)
{
	struct xk_topology *topology = load->topology;

	for (unsigned i = 0; i < topology->host_count; i++)
		if (strcmp(topology->hosts[i].name, set->name) == 0) {
			topology_set_host(load, &topology->hosts[i], set);
			return true;
		}
	for (unsigned i = 0; i < topology->link_count; i++)
		if (strcmp(topology->links[i].name, set->name) == 0) {
			topology_set_link(load, &topology->links[i], set);
			return true;
		}
	return false;
}

/* Calls `apply` for every division of text, until it returns true. Returns false if it never does. */
static bool
topology_set(struct topology_load *load, const char *text,
	     bool (*apply)(struct topology_load *load, const struct topology_set *set))
{
	struct topology_set set = { .copy = xk_graph_copy(text) };
	bool done = false;

	for (unsigned skip = 0; !done && topology_set_divide(&set, text, skip); skip++)
		done = apply(load, &set);
	free(set.copy);
	return done;
}

static bool
topology_set_is_valid(const char *text)
{
	const char *dot = strchr(text, '.'), *equals = strchr(text, '=');

	return equals != NULL && dot != NULL && dot != text && dot + 1 < equals && equals[-1] != '.';
}

/* ---- loading ---- */

static void
topology_check(struct topology_load *load, const char *const *sets, unsigned set_count)
{
	bool *done = calloc(set_count + 1, sizeof(*done));

	xk_assert(done != NULL);
	for (unsigned i = 0; i < set_count; i++) {
		done[i] = !topology_set_is_valid(sets[i]);
		if (done[i])
			attributes_refuse(&load->check, 0, "\"%.80s\" is not of the form node.attribute=value",
					  sets[i]);
		else
			done[i] = topology_set(load, sets[i], topology_set_written);
	}
	topology_classify(load);
	if (topology_create(load)) {
		for (unsigned i = 0; i < set_count; i++)
			if (!done[i] && !topology_set(load, sets[i], topology_set_created))
				attributes_refuse(&load->check, 0, "%.80s: %s has no host or link \"%.*s\"", sets[i],
						  load->topology->file, (int)(strcspn(sets[i], ".") & 63), sets[i]);
		topology_check_graphs(load);
		topology_assign_addresses(load);
	}
	free(done);
}

/* Takes written, which may be NULL. */
static struct xk_topology *
topology_from(struct xk_graph *written, const char *const *sets, unsigned set_count,
	      const struct xk_topology_types *types, struct xk_graph_errors *errors)
{
	struct topology_load load = { .types = types };
	struct xk_topology *topology;

	if (written == NULL)
		return NULL;
	topology = calloc(1, sizeof(*topology));
	load.nodes = calloc(written->node_count + 1, sizeof(*load.nodes));
	xk_assert(topology != NULL && load.nodes != NULL);
	topology->file = xk_graph_copy(written->file);
	topology->written = written;
	load.topology = topology;
	load.check = (struct attributes_check){ written, types->protocols, errors };
	topology_check(&load, sets, set_count);
	for (unsigned i = 0; i < written->node_count; i++)
		xk_graph_attributes_clear(&load.nodes[i].given);
	xk_graph_attributes_clear(&load.file_given);
	xk_graph_attributes_clear(&load.given);
	free(load.nodes);
	free(load.node_order);
	free(load.edge_order);
	if (!written->refused)
		return topology;
	xk_topology_free(topology);
	return NULL;
}

struct xk_topology *
xk_topology_load(const char *file, const char *const *sets, unsigned set_count, const struct xk_topology_types *types,
		 struct xk_graph_errors *errors)
{
	return topology_from(xk_graph_read_kind(file, XK_GRAPH_NETWORK, errors), sets, set_count, types, errors);
}

struct xk_topology *
xk_topology_load_text(const char *file, const char *text, size_t size, const char *const *sets, unsigned set_count,
		      const struct xk_topology_types *types, struct xk_graph_errors *errors)
{
	return topology_from(xk_graph_read_text_kind(file, text, size, XK_GRAPH_NETWORK, errors), sets, set_count,
			     types, errors);
}

bool
xk_topology_is_network(const char *file)
{
	return xk_graph_file_is_network(file);
}

/* ---- freeing ---- */

static void
topology_part_free(struct xk_topology_part *part)
{
	for (unsigned i = 0; part->sets != NULL && i < part->given.count; i++)
		free((char *)(uintptr_t)part->sets[i]);
	free(part->sets);
	xk_graph_attributes_clear(&part->given);
	xk_graph_attributes_clear(&part->settings);
	if (part->is_owner)
		xk_graph_free(part->checked);
	free(part->graph);
	free(part);
}

void
xk_topology_free(struct xk_topology *topology)
{
	if (topology == NULL)
		return;
	for (unsigned i = 0; i < topology->host_count; i++) {
		struct xk_topology_host *host = &topology->hosts[i];

		for (unsigned k = 0; k < host->device_count; k++)
			free(host->devices[k].name);
		free(host->devices);
		free(host->name);
	}
	for (unsigned i = 0; i < topology->link_count; i++) {
		free(topology->links[i].name);
		free(topology->links[i].preset);
		xk_graph_attributes_clear(&topology->links[i].settings);
	}
	while (topology->parts != NULL) {
		struct xk_topology_part *part = topology->parts;

		topology->parts = part->next;
		topology_part_free(part);
	}
	free(topology->hosts);
	free(topology->links);
	xk_graph_free(topology->written);
	free(topology->file);
	free(topology);
}
