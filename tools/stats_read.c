/* stats_read.c - see stats_read.h. What the document lacks is 0 or "". */
#include "tools/stats_read.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *const stats_reasons[STATS_REASONS] = { "explicit", "implicit", "time" };
static const char *const stats_ways[STATS_WAYS] = { "up", "down" };

static unsigned
stats_length(const struct json_value *array)
{
	unsigned length = 0;

	for (const struct json_value *value = array->first; value != NULL; value = value->next)
		length++;
	return length;
}

static void
stats_read_node(struct stats_node *node, const struct json_value *value)
{
	node->name = json_member(value, "name")->string;
	node->drops = json_member(value, "drops");
	node->counters = json_member(value, "counters");
	for (const struct json_value *drop = node->drops->first; drop != NULL; drop = drop->next)
		node->dropped += drop->number;
}

static void
stats_read_edge(struct stats_edge *edge, const struct json_value *value)
{
	const struct json_value *handoffs = json_member(value, "handoffs");

	edge->upper = json_member(value, "upper")->string;
	edge->lower = json_member(value, "lower")->string;
	edge->role = json_member(value, "role")->string;
	for (unsigned i = 0; i < STATS_WAYS; i++) {
		const struct json_value *way = json_member(value, stats_ways[i]);

		edge->ways[i].messages = json_member(way, "messages")->number;
		edge->ways[i].timed = json_member(way, "timed")->number;
		edge->ways[i].ns = json_member(way, "ns")->number;
	}
	for (unsigned i = 0; i < STATS_REASONS; i++)
		edge->handoffs[i] = json_member(handoffs, stats_reasons[i])->number;
}

static void
stats_read_host(struct stats *stats)
{
	const struct json_value *root = stats->document;

	stats->host = json_member(root, "host")->string;
	stats->graph = json_member(root, "graph")->string;
	stats->link = json_member(root, "link")->string;
	stats->driver = json_member(root, "driver")->string;
	stats->mode = json_member(root, "mode")->string;
	stats->pid = json_member(root, "pid")->number;
	stats->now_ns = json_member(root, "now_ns")->number;
	stats->counted_ns = json_member(root, "counted_ns")->number;
	stats->kernel = json_member(root, "kernel");
}

/* False: no memory. */
static bool
stats_read_lists(struct stats *stats)
{
	const struct json_value *nodes = json_member(stats->document, "protocols");
	const struct json_value *edges = json_member(stats->document, "edges");
	const struct json_value *drivers = json_member(stats->document, "drivers");

	stats->nodes = calloc(stats_length(nodes) + 1, sizeof(*stats->nodes));
	stats->edges = calloc(stats_length(edges) + 1, sizeof(*stats->edges));
	stats->drivers = calloc(stats_length(drivers) + 1, sizeof(*stats->drivers));
	if (stats->nodes == NULL || stats->edges == NULL || stats->drivers == NULL)
		return false;
	for (const struct json_value *value = nodes->first; value != NULL; value = value->next)
		stats_read_node(&stats->nodes[stats->node_count++], value);
	for (const struct json_value *value = edges->first; value != NULL; value = value->next)
		stats_read_edge(&stats->edges[stats->edge_count++], value);
	for (const struct json_value *value = drivers->first; value != NULL; value = value->next)
		stats->drivers[stats->driver_count++] = value;
	return true;
}

struct stats *
stats_read(char *text, size_t len, const char **why)
{
	struct stats *stats = calloc(1, sizeof(*stats));

	*why = "no memory";
	if (stats == NULL) {
		free(text);
		return NULL;
	}
	stats->text = text;
	stats->document = json_read(text, len, why);
	if (stats->document != NULL && json_member(stats->document, "protocols")->kind != JSON_ARRAY) {
		*why = "it is not what `xk stats --json` writes";
	} else if (stats->document != NULL && stats_read_lists(stats)) {
		stats_read_host(stats);
		return stats;
	}
	stats_free(stats);
	return NULL;
}

void
stats_free(struct stats *stats)
{
	if (stats == NULL)
		return;
	json_read_free(stats->document);
	free(stats->nodes);
	free(stats->edges);
	free(stats->drivers);
	free(stats->text);
	free(stats);
}

const struct stats_node *
stats_find_node(const struct stats *stats, const char *name)
{
	for (unsigned i = 0; i < stats->node_count; i++)
		if (strcmp(stats->nodes[i].name, name) == 0)
			return &stats->nodes[i];
	return NULL;
}

const struct stats_edge *
stats_find_edge(const struct stats *stats, const char *upper, const char *lower, const char *role)
{
	for (unsigned i = 0; i < stats->edge_count; i++) {
		const struct stats_edge *edge = &stats->edges[i];

		if (strcmp(edge->upper, upper) == 0 && strcmp(edge->lower, lower) == 0 && strcmp(edge->role, role) == 0)
			return edge;
	}
	return NULL;
}

double
stats_busy_ns(const struct stats_way *way)
{
	return way->timed == 0 ? 0 : (double)way->ns / (double)way->timed * (double)way->messages;
}

static void
stats_add_way(struct stats_sum *sum, unsigned way, const struct stats_edge *edge)
{
	sum->ways[way].messages += edge->ways[way].messages;
	sum->ways[way].timed += edge->ways[way].timed;
	sum->ways[way].ns += edge->ways[way].ns;
	sum->busy_ns += stats_busy_ns(&edge->ways[way]);
}

void
stats_sum_node(const struct stats *stats, const char *name, struct stats_sum *sum)
{
	*sum = (struct stats_sum){ .busy_ns = 0 };
	for (unsigned i = 0; i < stats->edge_count; i++) {
		const struct stats_edge *edge = &stats->edges[i];

		if (strcmp(edge->lower, name) == 0)
			stats_add_way(sum, STATS_DOWN, edge);
		if (strcmp(edge->upper, name) != 0)
			continue;
		stats_add_way(sum, STATS_UP, edge);
		for (unsigned k = 0; k < STATS_REASONS; k++)
			sum->handoffs[k] += edge->handoffs[k];
	}
}

double
stats_all_busy_ns(const struct stats *stats)
{
	double all = 0;

	for (unsigned i = 0; i < stats->edge_count; i++)
		for (unsigned way = 0; way < STATS_WAYS; way++)
			all += stats_busy_ns(&stats->edges[i].ways[way]);
	return all;
}

uint64_t
stats_count_of(const struct json_value *counts, const char *name)
{
	return json_member(counts, name)->number;
}
