/* topology.c - a network file becomes a struct xk_topology: read, set, checked, and given back. See topology.h. */
#include "graphs/topology.h"

#include <stdlib.h>
#include <string.h>

#include "graphs/topology_private.h"

__attribute__((format(printf, 4, 5))) void
xk_topology_refuse(const struct xk_topology *topology, struct xk_graph_errors *errors, unsigned line,
		   const char *format, ...)
{
	va_list arguments;
	char *what;

	va_start(arguments, format);
	what = xk_graph_format(format, arguments);
	va_end(arguments);
	xk_graph_errors_add(errors, line == 0 ? "--set" : topology->file, line, "%s", what);
	free(what);
}

static void
topology_check(struct topology_load *load, const char *const *sets, unsigned set_count)
{
	bool *done = calloc(set_count + 1, sizeof(*done));

	xk_assert(done != NULL);
	for (unsigned i = 0; i < set_count; i++)
		done[i] = topology_set_written(load, sets[i]);
	topology_classify(load);
	if (topology_make(load)) {
		for (unsigned i = 0; i < set_count; i++)
			if (!done[i])
				topology_set_made(load, sets[i]);
		topology_check_graphs(load);
		topology_number(load);
	}
	free(done);
}

static void
topology_load_clear(struct topology_load *load)
{
	for (unsigned i = 0; i < topology_written(load)->node_count; i++)
		xk_graph_attributes_clear(&load->nodes[i].given);
	xk_graph_attributes_clear(&load->file_given);
	xk_graph_attributes_clear(&load->given);
	free(load->nodes);
	free(load->node_order);
	free(load->edge_order);
}

/* Takes written. */
static struct xk_topology *
topology_from(struct xk_graph *written, const char *const *sets, unsigned set_count,
	      const struct xk_topology_types *types, struct xk_graph_errors *errors)
{
	struct topology_load load = { .check = { written, types->protocols, errors }, .types = types };
	struct xk_topology *topology = calloc(1, sizeof(*topology));

	xk_assert(topology != NULL);
	topology->file = xk_graph_copy(written->file);
	topology->written = written;
	load.topology = topology;
	load.nodes = calloc(written->node_count + 1, sizeof(*load.nodes));
	xk_assert(load.nodes != NULL);
	topology_check(&load, sets, set_count);
	topology_load_clear(&load);
	if (!written->refused)
		return topology;
	xk_topology_free(topology);
	return NULL;
}

struct xk_topology *
xk_topology_load(const char *file, const char *const *sets, unsigned set_count, const struct xk_topology_types *types,
		 struct xk_graph_errors *errors)
{
	struct xk_graph *written = xk_graph_read_kind(file, XK_GRAPH_NETWORK, errors);

	return written == NULL ? NULL : topology_from(written, sets, set_count, types, errors);
}

struct xk_topology *
xk_topology_load_text(const char *file, const char *text, size_t size, const char *const *sets, unsigned set_count,
		      const struct xk_topology_types *types, struct xk_graph_errors *errors)
{
	struct xk_graph *written = xk_graph_read_text_kind(file, text, size, XK_GRAPH_NETWORK, errors);

	return written == NULL ? NULL : topology_from(written, sets, set_count, types, errors);
}

bool
xk_topology_is_one(const char *file)
{
	return xk_graph_file_is_network(file);
}

/* ---- giving back ---- */

static void
topology_host_free(struct xk_topology_host *host)
{
	for (unsigned i = 0; i < host->device_count; i++)
		free(host->devices[i].name);
	free(host->devices);
	free(host->name);
}

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
	for (unsigned i = 0; i < topology->host_count; i++)
		topology_host_free(&topology->hosts[i]);
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
