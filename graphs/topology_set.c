/* topology_set.c - a command line's --set, for a network. */
#include <stdlib.h>
#include <string.h>

#include "graphs/topology_private.h"

/* "name.rest=value", taken apart: rest may be "attribute" or, of a host's graph, "node.attribute". */
struct topology_set {
	char *copy;
	const char *name, *rest, *value;
};

/* False: text has no such form. */
static bool
topology_set_begin(struct topology_set *set, const char *text)
{
	char *equals, *dot;

	set->copy = xk_graph_copy(text);
	equals = strchr(set->copy, '=');
	if (equals != NULL)
		*equals = '\0';
	dot = strchr(set->copy, '.');
	set->value = equals == NULL ? NULL : equals + 1;
	return equals != NULL && dot != NULL && dot != set->copy && dot[1] != '\0' && equals[-1] != '.';
}

/* Divides at the last dot but `skip`; names may have dots in them. False: there are no more. */
static bool
topology_set_divide(struct topology_set *set, const char *text, unsigned skip)
{
	size_t len = strcspn(text, "=");

	memcpy(set->copy, text, len);
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

/* ---- what is written ---- */

static bool
topology_set_one_written(struct topology_load *load, const struct topology_set *set)
{
	struct xk_graph *written = topology_written(load);
	int node = xk_graph_node_find(written, set->name);
	bool is_all = node < 0 && strcmp(set->name, "graph") == 0;

	if (node < 0 && !is_all)
		return false;
	if (topology_set_is_for_graph(set))
		topology_put(is_all ? &load->given : &load->nodes[node].given, set->rest, set->value, 0);
	else
		topology_put(is_all ? &written->attributes : &written->nodes[node].attributes, set->rest, set->value,
			     0);
	return true;
}

bool
topology_set_written(struct topology_load *load, const char *text)
{
	struct topology_set set;
	bool done = !topology_set_begin(&set, text);

	if (done)
		attributes_refuse(&load->check, 0, "\"%.80s\" is not of the form node.attribute=value", text);
	for (unsigned skip = 0; !done && topology_set_divide(&set, text, skip); skip++)
		done = topology_set_one_written(load, &set);
	free(set.copy);
	return done;
}

/* ---- what was made of it ---- */

static void
topology_set_host(struct topology_load *load, struct xk_topology_host *host, const struct topology_set *set)
{
	struct xk_graph_attribute a = { (char *)(uintptr_t)set->rest, (char *)(uintptr_t)set->value, 0, false };
	bool is_for_graph = topology_set_is_for_graph(set);

	if (!is_for_graph && topology_setting(load, TOPOLOGY_HOST, set->rest) == NULL) {
		attributes_refuse(&load->check, 0, "%.80s cannot be set for %s alone, but for %s", set->rest,
				  host->name, topology_written(load)->nodes[host->written].name);
		return;
	}
	if (!host->part->is_single)
		host->part = topology_part_copy(load, host->part);
	if (!is_for_graph)
		topology_check_attribute(load, TOPOLOGY_HOST, host->name, &a);
	topology_put(is_for_graph ? &host->part->given : &host->part->settings, set->rest, set->value, 0);
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
		topology_put(&link->settings, set->rest, set->value, 0);
	} else {
		attributes_refuse(&load->check, 0, "%.80s cannot be set for the link %s", set->rest, link->name);
	}
}

static bool
topology_set_one_made(struct topology_load *load, const struct topology_set *set)
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

void
topology_set_made(struct topology_load *load, const char *text)
{
	struct topology_set set;
	bool done = false;

	topology_set_begin(&set, text);
	for (unsigned skip = 0; !done && topology_set_divide(&set, text, skip); skip++)
		done = topology_set_one_made(load, &set);
	if (!done)
		attributes_refuse(&load->check, 0, "%.80s: %s has no host or link \"%.*s\"", text, load->topology->file,
				  (int)(strcspn(text, ".") & 63), text);
	free(set.copy);
}
