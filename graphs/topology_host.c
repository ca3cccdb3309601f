/*
 * topology_host.c - the graphs of a network's hosts: found, set and checked, each with one list of sets only once; and
 * whether their ports are the host's devices.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "graphs/topology_private.h"

/* ---- the text of `set` ---- */

static void
topology_parse_set(struct topology_load *load, const char *of, const struct xk_graph_attribute *a, char *set,
		   struct xk_graph_attributes *into)
{
	char *equals = strchr(set, '='), *dot;

	if (equals != NULL)
		*equals = '\0';
	dot = strrchr(set, '.');
	if (equals == NULL || dot == NULL || dot == set || dot[1] == '\0')
		attributes_refuse(&load->check, a->line,
				  "set of %s holds \"%.80s\", which is not of the form "
				  "node.attribute=value",
				  of, set);
	else
		topology_put(into, set, equals + 1, a->line);
}

void
topology_parse_sets(struct topology_load *load, const char *of, const struct xk_graph_attributes *attributes,
		    struct xk_graph_attributes *into)
{
	static const char separators[] = " \t\r\n;";
	const struct xk_graph_attribute *a = xk_graph_attribute_find(attributes, "set");
	char *copy, *next;

	if (a == NULL || a->html || strlen(a->value) > XK_TOPOLOGY_SET_MAX)
		return;
	copy = xk_graph_copy(a->value);
	for (next = copy + strspn(copy, separators); *next != '\0';) {
		char *set = next;

		next += strcspn(next, separators);
		if (*next != '\0')
			*next++ = '\0';
		next += strspn(next, separators);
		topology_parse_set(load, of, a, set, into);
	}
	free(copy);
}

/* ---- where a graph file is ---- */

static bool
topology_is_file(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* directory (its first len bytes, with a slash at the end) and what follows. */
static char *
topology_path(const char *directory, size_t len, const char *above, const char *file)
{
	size_t size = len + strlen(above) + strlen(file) + 1;
	char *path = malloc(size);

	xk_assert(path != NULL);
	snprintf(path, size, "%.*s%s%s", (int)len, directory, above, file);
	return path;
}

/* NULL: it is nowhere. */
static char *
topology_find_graph(const struct topology_load *load, const char *file)
{
	const char *network = load->topology->file, *slash = strrchr(network, '/');
	size_t len = slash == NULL ? 0 : (size_t)(slash - network) + 1;
	static const char *const above[] = { "", "../" };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(above) && file[0] != '/'; i++) {
		char *path = topology_path(network, len, above[i], file);

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

static void
topology_part_graph(struct topology_load *load, struct xk_topology_part *part, const struct xk_graph_node *node)
{
	const struct xk_graph_attribute *a = xk_graph_attribute_find(&node->attributes, "protocols");

	if (a == NULL)
		a = xk_graph_attribute_find(&topology_written(load)->attributes, "protocols");
	if (a == NULL) {
		attributes_refuse(&load->check, node->line,
				  "host %s has no graph file: write protocols=\"FILE.dot\" on it, or link=PRESET if "
				  "it is a link (this is an undirected graph, of hosts and links)",
				  node->name);
		return;
	}
	part->line = a->line;
	if (a->html || strlen(a->value) > XK_TOPOLOGY_SET_MAX)
		return;
	part->graph = topology_find_graph(load, a->value);
	if (part->graph == NULL)
		attributes_refuse(
			&load->check, a->line,
			"protocols of %s is \"%.80s\": there is no such file beside %s, in the directory above "
			"it, or here",
			node->name, a->value, load->topology->file);
}

struct xk_topology_part *
topology_part_new(struct topology_load *load, const struct xk_graph_node *node)
{
	struct xk_topology_part *part = topology_part_add(load);
	unsigned index = (unsigned)(node - topology_written(load)->nodes);

	topology_part_graph(load, part, node);
	topology_merge(&part->given, &load->file_given);
	topology_parse_sets(load, node->name, &node->attributes, &part->given);
	topology_merge(&part->given, &load->given);
	topology_merge(&part->given, &load->nodes[index].given);
	topology_merge_settings(load, TOPOLOGY_GRAPH, &part->settings, &topology_written(load)->attributes);
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

/* "node.attribute=value" again, as a kernel's --set is written. */
static void
topology_part_write(struct xk_topology_part *part)
{
	part->sets = calloc(part->given.count + 1, sizeof(*part->sets));
	xk_assert(part->sets != NULL);
	for (unsigned i = 0; i < part->given.count; i++) {
		const struct xk_graph_attribute *a = &part->given.list[i];

		part->sets[i] = topology_path(a->name, strlen(a->name), "=", a->value);
	}
}

/* ---- the graphs ---- */

static uint64_t
topology_hash(uint64_t hash, const char *text)
{
	/* FNV-1a, the NUL too. */
	do
		hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	while (*text++ != '\0');
	return hash;
}

static void
topology_part_hash(struct xk_topology_part *part)
{
	part->hash = topology_hash(UINT64_C(0xcbf29ce484222325), part->graph);
	for (unsigned i = 0; i < part->given.count; i++)
		part->hash = topology_hash(part->hash, part->sets[i]);
}

static bool
topology_is_same(const struct xk_topology_part *a, const struct xk_topology_part *b)
{
	if (a->hash != b->hash || a->given.count != b->given.count || strcmp(a->graph, b->graph) != 0)
		return false;
	for (unsigned i = 0; i < a->given.count; i++)
		if (strcmp(a->sets[i], b->sets[i]) != 0)
			return false;
	return true;
}

/* Which of the file's sets an error is about: it names node and attribute. */
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

/* Errors in values that the file's `set` has given are told where that stands: those from index `from` on. */
static void
topology_place_errors(struct topology_load *load, const struct xk_topology_part *part, unsigned from)
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

/* Applies the sets that come from the file, or from --set. False: one was refused. */
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

/* The part's graph, checked; NULL: refused. */
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
	topology_place_errors(load, part, before);
	good = good && topology_apply_sets(load, part, graph, false);
	if (good && xk_graph_check(graph, load->types->protocols, errors) == 0)
		return graph;
	xk_graph_free(graph);
	return NULL;
}

static void
topology_check_graph(struct topology_load *load, struct xk_topology_part *part)
{
	const struct xk_topology_part *other = load->topology->parts;

	topology_part_hash(part);
	for (; other != part; other = other->next) {
		if (other->graph == NULL ||
		    !(topology_is_same(other, part) || (other->is_bad && strcmp(other->graph, part->graph) == 0)))
			continue;
		part->checked = other->checked;
		return;
	}
	part->checked = topology_load_graph(load, part);
	part->is_owner = true;
	if (part->checked == NULL)
		topology_written(load)->refused = true;
}

/* ---- ports and devices ---- */

/* Ports of a host's graph, on its devices. */
struct topology_ports {
	struct topology_load *load;
	const struct xk_topology_host *host;
	unsigned next;                             /* the device that the next port stands on if it has no dev= */
	const char *used[XK_TOPOLOGY_DEVICES_MAX]; /* by device, the port that stands on it */
	bool wrong;
};

static int
topology_find_device(const struct xk_topology_host *host, const char *name)
{
	for (unsigned i = 0; i < host->device_count; i++)
		if (strcmp(host->devices[i].name, name) == 0)
			return (int)i;
	return -1;
}

#define topology_refuse_port(ports, ...)                                                                               \
	do {                                                                                                           \
		attributes_refuse(&(ports)->load->check, (ports)->host->line, __VA_ARGS__);                            \
		(ports)->wrong = true;                                                                                 \
	} while (0)

/* The device that port node stands on: what dev= says, else the next. -1: there is none such. */
static int
topology_port_device(struct topology_ports *ports, const struct xk_graph_node *node)
{
	const struct xk_graph_attribute *a = xk_graph_attribute_find(&node->attributes, "dev");
	const struct xk_topology_host *host = ports->host;
	int device = a == NULL ? (int)ports->next++ : topology_find_device(host, a->value);

	if (a != NULL && device < 0)
		topology_refuse_port(ports, "host %s has no device \"%.80s\", which %s in its graph stands on",
				     host->name, a->value, node->name);
	if (a != NULL || device < (int)host->device_count)
		return device;
	topology_refuse_port(ports, "host %s has %u device%s, and none for %s in its graph: give it one more link",
			     host->name, host->device_count, host->device_count == 1 ? "" : "s", node->name);
	return -1;
}

static void
topology_check_port(struct topology_ports *ports, const struct xk_graph_node *node)
{
	int device = topology_port_device(ports, node);

	if (device < 0)
		return;
	if (ports->used[device] != NULL)
		topology_refuse_port(ports, "%s and %s in the graph of host %s both stand on the device \"%.80s\"",
				     ports->used[device], node->name, ports->host->name,
				     ports->host->devices[device].name);
	ports->used[device] = node->name;
}

static bool
topology_says_dev(const struct xk_graph_node *node)
{
	const struct xk_setting *setting = attributes_find_setting(node->type->settings, "dev");

	return setting != NULL && setting->type == XK_SETTING_STRING;
}

#define TOPOLOGY_TWO_PORTS "; a host on two links needs a graph with two ports, such as udptest-multihomed.dot"

/* In the order in which they are built. Ports of a type without `dev` are not known to stand on anything. */
static void
topology_check_devices(struct topology_load *load, const struct xk_topology_host *host)
{
	const struct xk_graph *graph = host->part->checked;
	struct topology_ports ports = { .load = load, .host = host };

	for (unsigned i = 0; i < graph->node_count; i++) {
		const struct xk_graph_node *node = &graph->nodes[graph->order[i]];

		if (!(node->type->flags & XK_PORT))
			continue;
		if (!topology_says_dev(node))
			return;
		topology_check_port(&ports, node);
	}
	for (unsigned i = 0; i < host->device_count && !ports.wrong; i++)
		if (ports.used[i] == NULL)
			attributes_refuse(&load->check, host->devices[i].line,
					  "no port in the graph of host %s stands on its device \"%.80s\"%s",
					  host->name, host->devices[i].name,
					  host->device_count == 1 ? "" : TOPOLOGY_TWO_PORTS);
}

void
topology_check_graphs(struct topology_load *load)
{
	struct xk_topology *topology = load->topology;

	for (struct xk_topology_part *part = topology->parts; part != NULL; part = part->next) {
		topology_part_write(part);
		if (part->graph != NULL)
			topology_check_graph(load, part);
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
