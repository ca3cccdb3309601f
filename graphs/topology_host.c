/*
 * topology_host.c - finds, sets and checks the graphs of a network's hosts, once for each graph and list of sets, and
 * checks that their ports match the hosts' devices.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "graphs/topology_private.h"

/* ---- parsing `set` ---- */

/*
 * Cuts the next setting off *rest and returns it, or NULL. Settings are separated by blanks and ';', except between
 * single quotes, which are removed. *open: a quote is not closed.
 */
static char *
topology_next_set(char **rest, bool *open)
{
	char *from = *rest + strspn(*rest, " \t\r\n;"), *set = from, *to = from;
	bool quoted = false;

	if (*from == '\0')
		return NULL;
	for (; *from != '\0' && (quoted || strchr(" \t\r\n;", *from) == NULL); from++)
		if (*from == '\'')
			quoted = !quoted;
		else
			*to++ = *from;
	*rest = *from == '\0' ? from : from + 1;
	*to = '\0';
	*open = quoted;
	return set;
}

void
topology_parse_sets(struct topology_load *load, const char *of, const struct xk_graph_attributes *attributes,
		    struct xk_graph_attributes *into)
{
	const struct xk_graph_attribute *a = xk_graph_attribute_find(attributes, "set");
	char *copy, *rest, *set;
	bool open;

	if (a == NULL || a->html || strlen(a->value) > XK_TOPOLOGY_SET_MAX)
		return;
	copy = rest = xk_graph_copy(a->value);
	while ((set = topology_next_set(&rest, &open)) != NULL) {
		char *equals = strchr(set, '='), *dot;

		if (equals != NULL)
			*equals = '\0';
		dot = strrchr(set, '.');
		if (open)
			attributes_refuse(&load->check, a->line, "set of %s has a quote ' that does not close", of);
		else if (equals == NULL || dot == NULL || dot == set || dot[1] == '\0')
			attributes_refuse(&load->check, a->line,
					  "set of %s contains \"%.80s\", which is not of the form node.attribute=value",
					  of, set);
		else
			xk_graph_attribute_put(into, set, equals + 1, a->line);
	}
	free(copy);
}

/* ---- finding a graph file ---- */

static bool
topology_is_file(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* Returns the first len bytes of `first`, `second` and `third` as one string, malloc'ed. */
static char *
topology_join_text(const char *first, size_t len, const char *second, const char *third)
{
	size_t size = len + strlen(second) + strlen(third) + 1;
	char *text = malloc(size);

	xk_assert(text != NULL);
	snprintf(text, size, "%.*s%s%s", (int)len, first, second, third);
	return text;
}

/* Finds file beside the network file, in the directory above it, or as given. Returns NULL if it is in none of them. */
static char *
topology_find_graph(const struct topology_load *load, const char *file)
{
	static const char *const above[] = { "", "../" };
	const char *network = load->topology->file, *slash = strrchr(network, '/');
	bool is_stream = strncmp(network, "/dev/", 5) == 0; /* standard input or a pipe: use the working directory */
	size_t len = slash == NULL || is_stream ? 0 : (size_t)(slash - network) + 1;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(above) && file[0] != '/'; i++) {
		char *path = topology_join_text(network, len, above[i], file);

		if (topology_is_file(path))
			return path;
		free(path);
	}
	return topology_is_file(file) ? xk_graph_copy(file) : NULL;
}

/* ---- parts ---- */

static struct xk_topology_part *
topology_part_add(struct topology_load *load)
{
	struct xk_topology_part *part = calloc(1, sizeof(*part)), **last = &load->topology->parts;

	xk_assert(part != NULL);
	while (*last != NULL)
		last = &(*last)->next;
	*last = part;
	return part;
}

struct xk_topology_part *
topology_part_new(struct topology_load *load, const struct xk_graph_node *node)
{
	const struct xk_graph *written = topology_written(load);
	const struct xk_graph_attribute *a = xk_graph_attribute_find(&node->attributes, "protocols");
	struct xk_topology_part *part = topology_part_add(load);

	if (a == NULL)
		a = xk_graph_attribute_find(&written->attributes, "protocols");
	if (a == NULL) {
		attributes_refuse(&load->check, node->line,
				  "host %s has no graph file: add protocols=\"FILE.dot\" to it, or link=PRESET if "
				  "it is a link (this is an undirected graph, of hosts and links)",
				  node->name);
	} else if (!a->html && strlen(a->value) <= XK_TOPOLOGY_SET_MAX) {
		part->graph = topology_find_graph(load, a->value);
		if (part->graph == NULL)
			attributes_refuse(&load->check, a->line,
					  "protocols of %s is \"%.80s\": no such file beside %s, in the "
					  "directory above it, or here",
					  node->name, a->value, load->topology->file);
	}
	part->line = a != NULL ? a->line : 0;
	topology_merge(&part->given, &load->file_given);
	topology_parse_sets(load, node->name, &node->attributes, &part->given);
	topology_merge(&part->given, &load->given);
	topology_merge(&part->given, &load->nodes[node - written->nodes].given);
	topology_merge_settings(load, TOPOLOGY_GRAPH, &part->settings, &written->attributes);
	topology_merge_settings(load, TOPOLOGY_HOST, &part->settings, &node->attributes);
	return part;
}

struct xk_topology_part *
topology_part_copy(struct topology_load *load, const struct xk_topology_part *part)
{
	struct xk_topology_part *copy = topology_part_add(load);

	copy->line = part->line;
	copy->graph = part->graph == NULL ? NULL : xk_graph_copy(part->graph);
	copy->is_single = true;
	topology_merge(&copy->given, &part->given);
	topology_merge(&copy->settings, &part->settings);
	return copy;
}

/* ---- the graphs ---- */

/* Writes the sets as "node.attribute=value", and computes the hash of graph and sets (FNV-1a). */
static void
topology_part_format(struct xk_topology_part *part)
{
	part->sets = calloc(part->given.count + 1, sizeof(*part->sets));
	xk_assert(part->sets != NULL);
	part->hash = UINT64_C(0xcbf29ce484222325);
	for (const char *p = part->graph; p != NULL && *p != '\0'; p++)
		part->hash = (part->hash ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
	for (unsigned i = 0; i < part->given.count; i++) {
		const struct xk_graph_attribute *a = &part->given.list[i];

		part->sets[i] = topology_join_text(a->name, strlen(a->name), "=", a->value);
		for (const char *p = part->sets[i]; *p != '\0'; p++)
			part->hash = (part->hash ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
	}
}

static bool
topology_part_equals(const struct xk_topology_part *a, const struct xk_topology_part *b)
{
	if (a->hash != b->hash || a->given.count != b->given.count || strcmp(a->graph, b->graph) != 0)
		return false;
	for (unsigned i = 0; i < a->given.count; i++)
		if (strcmp(a->sets[i], b->sets[i]) != 0)
			return false;
	return true;
}

/* Returns the line of the file's set that an error is about: the error names node and attribute. */
static unsigned
topology_set_line(const struct xk_topology_part *part, const char *what)
{
	unsigned line = part->line;

	for (unsigned i = 0; i < part->given.count; i++) {
		const struct xk_graph_attribute *a = &part->given.list[i];
		size_t len = strcspn(a->name, ".");
		char node[XK_GRAPH_NAME_MAX + 1];

		if (a->line == 0)
			continue;
		snprintf(node, sizeof(node), "%.*s", (int)(len & 0xffff), a->name);
		if (strstr(what, node) != NULL && strstr(what, strrchr(a->name, '.') + 1) != NULL)
			return a->line;
		line = line == part->line ? a->line : line;
	}
	return line;
}

/* Moves errors in values of the file's `set`, from index `from` on, to the line of that `set`. */
static void
topology_locate_errors(struct topology_load *load, const struct xk_topology_part *part, unsigned from)
{
	struct xk_graph_errors *errors = load->check.errors, moved = { 0 };
	static const char prefix[] = "--set: ";

	for (unsigned i = from; i < errors->count; i++) {
		struct xk_graph_error *error = &errors->list[i];

		if (error->line != 0 || strncmp(error->text, prefix, strlen(prefix)) != 0)
			continue;
		xk_graph_errors_add(&moved, load->topology->file, topology_set_line(part, error->text),
				    "in its set: %s", error->text + strlen(prefix));
		free(error->text);
		*error = moved.list[0];
		free(moved.list);
		moved = (struct xk_graph_errors){ 0 };
	}
}

/* Applies the sets from the file, or those from --set. Returns false if one was refused. */
static bool
topology_apply_sets(struct topology_load *load, const struct xk_topology_part *part, struct xk_graph *graph,
		    bool from_file)
{
	bool taken = true;

	for (unsigned i = 0; i < part->given.count; i++)
		if ((part->given.list[i].line != 0) == from_file)
			taken &= xk_graph_set(graph, part->sets[i], load->check.errors) == 0;
	return taken;
}

/* Returns the part's graph, checked, or NULL if it is refused. */
static struct xk_graph *
topology_load_graph(struct topology_load *load, struct xk_topology_part *part)
{
	struct xk_graph_errors *errors = load->check.errors;
	unsigned before = errors->count;
	struct xk_graph *graph = xk_graph_read(part->graph, errors);
	bool good;

	part->is_bad = graph == NULL || graph->refused;
	if (graph == NULL)
		return NULL;
	good = topology_apply_sets(load, part, graph, true);
	good &= xk_graph_check(graph, load->types->protocols, errors) == 0;
	for (unsigned i = before; i < errors->count; i++)
		part->is_bad |= errors->list[i].line != 0;
	topology_locate_errors(load, part, before);
	good = good && topology_apply_sets(load, part, graph, false);
	if (good && xk_graph_check(graph, load->types->protocols, errors) == 0)
		return graph;
	xk_graph_free(graph);
	return NULL;
}

/*
 * Finds an earlier part with the same graph and sets, or with the same graph if that is refused whatever the sets.
 * Returns NULL if there is none.
 */
static const struct xk_topology_part *
topology_find_same(const struct topology_load *load, const struct xk_topology_part *part)
{
	for (const struct xk_topology_part *other = load->topology->parts; other != part; other = other->next)
		if (other->graph != NULL &&
		    (topology_part_equals(other, part) || (other->is_bad && strcmp(other->graph, part->graph) == 0)))
			return other;
	return NULL;
}

/* ---- ports and devices ---- */

/* Ports of a host's graph, matched with its devices. */
struct topology_ports {
	struct topology_load *load;
	const struct xk_topology_host *host;
	unsigned next;                             /* device for the next port without dev= */
	const char *used[XK_TOPOLOGY_DEVICES_MAX]; /* by device, the port that uses it */
	bool wrong;
};

#define topology_refuse_port(ports, ...)                                                                               \
	do {                                                                                                           \
		attributes_refuse(&(ports)->load->check, (ports)->host->line, __VA_ARGS__);                            \
		(ports)->wrong = true;                                                                                 \
	} while (0)

/* Assigns port node to the device that its dev= names, or to the next one. */
static void
topology_check_port(struct topology_ports *ports, const struct xk_graph_node *node)
{
	const struct xk_graph_attribute *a = xk_graph_attribute_find(&node->attributes, "dev");
	const struct xk_topology_host *host = ports->host;
	unsigned device = 0;

	if (a == NULL)
		device = ports->next++;
	else
		while (device < host->device_count && strcmp(host->devices[device].name, a->value) != 0)
			device++;
	if (device >= host->device_count && a != NULL) {
		topology_refuse_port(ports, "host %s has no device \"%.80s\", which %s in its graph needs", host->name,
				     a->value, node->name);
	} else if (device >= host->device_count) {
		topology_refuse_port(ports,
				     "host %s has %u device%s, and none for %s in its graph: give it another link",
				     host->name, host->device_count, host->device_count == 1 ? "" : "s", node->name);
	} else {
		if (ports->used[device] != NULL)
			topology_refuse_port(ports, "%s and %s in the graph of host %s both use the device \"%.80s\"",
					     ports->used[device], node->name, host->name, host->devices[device].name);
		ports->used[device] = node->name;
	}
}

#define TOPOLOGY_TWO_PORTS "; a host on two links needs a graph with two ports, such as udptest-multihomed.dot"

/* Checks ports in the order in which they are built. A type without `dev` does not state its device. */
static void
topology_check_devices(struct topology_load *load, const struct xk_topology_host *host)
{
	const struct xk_graph *graph = host->part->checked;
	struct topology_ports ports = { .load = load, .host = host };

	for (unsigned i = 0; i < graph->node_count; i++) {
		const struct xk_graph_node *node = &graph->nodes[graph->order[i]];
		const struct xk_setting *dev = attributes_find_setting(node->type->settings, "dev");

		if (!(node->type->flags & XK_PORT))
			continue;
		if (dev == NULL || dev->type != XK_SETTING_STRING)
			return;
		topology_check_port(&ports, node);
	}
	for (unsigned i = 0; i < host->device_count && !ports.wrong; i++)
		if (ports.used[i] == NULL)
			attributes_refuse(&load->check, host->devices[i].line,
					  "no port in the graph of host %s uses its device \"%.80s\"%s", host->name,
					  host->devices[i].name, host->device_count == 1 ? "" : TOPOLOGY_TWO_PORTS);
}

void
topology_check_graphs(struct topology_load *load)
{
	struct xk_topology *topology = load->topology;

	for (struct xk_topology_part *part = topology->parts; part != NULL; part = part->next) {
		const struct xk_topology_part *same;

		topology_part_format(part);
		if (part->graph == NULL)
			continue;
		same = topology_find_same(load, part);
		part->is_owner = same == NULL;
		part->checked = same != NULL ? same->checked : topology_load_graph(load, part);
		if (part->checked == NULL)
			topology_written(load)->refused = true;
	}
	for (unsigned i = 0; i < topology->host_count; i++) {
		struct xk_topology_host *host = &topology->hosts[i];

		host->graph = host->part->graph;
		host->sets = host->part->sets;
		host->set_count = host->part->given.count;
		host->settings = &host->part->settings;
		host->checked = host->part->checked;
		if (host->checked != NULL && host->device_count > 0 && (i == 0 || host->part != host[-1].part))
			topology_check_devices(load, host);
	}
}
