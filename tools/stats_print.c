/* stats_print.c - see stats_print.h. */
#include "tools/stats_print.h"

#include <inttypes.h>
#include <string.h>

#include "graphs/graph.h"

enum { PRINT_NAME = 24, PRINT_EDGE = 2 * 64 + 8 };

static double
print_seconds(const struct stats *now, const struct stats *before)
{
	return now->now_ns > before->now_ns ? (double)(now->now_ns - before->now_ns) / 1e9 : 1;
}

/* What was counted since; counts may have begun anew meanwhile. */
static double
print_rate(uint64_t now, uint64_t before, double seconds)
{
	return now < before ? 0 : (double)(now - before) / seconds;
}

static void
print_ns(FILE *out, const struct stats_way *way)
{
	if (way->timed == 0)
		fprintf(out, " %7s", "-");
	else
		fprintf(out, " %7.0f", (double)way->ns / (double)way->timed);
}

static void
print_ways(FILE *out, const struct stats_way now[STATS_WAYS], const struct stats_way before[STATS_WAYS], double seconds)
{
	for (unsigned i = 0; i < STATS_WAYS; i++)
		fprintf(out, " %9.0f %11" PRIu64, print_rate(now[i].messages, before[i].messages, seconds),
			now[i].messages);
	for (unsigned i = 0; i < STATS_WAYS; i++)
		print_ns(out, &now[i]);
}

static void
print_handoffs(FILE *out, const uint64_t handoffs[STATS_REASONS])
{
	for (unsigned i = 0; i < STATS_REASONS; i++)
		fprintf(out, " %8" PRIu64, handoffs[i]);
}

static void
print_nodes(FILE *out, const struct stats *now, const struct stats *before, double seconds)
{
	double all_ns = stats_all_busy_ns(now);

	fprintf(out, "%-*s %9s %11s %9s %11s %7s %7s %8s %8s %8s %6s %8s\n", PRINT_NAME, "protocol", "up/s", "up",
		"down/s", "down", "ns up", "ns down", "explicit", "implicit", "time", "share", "drops");
	for (unsigned i = now->node_count; i-- > 0;) {
		const struct stats_node *node = &now->nodes[i];
		struct stats_sum sum, sum_before;

		stats_sum_node(now, node->name, &sum);
		stats_sum_node(before, node->name, &sum_before);
		fprintf(out, "%-*.63s", PRINT_NAME, node->name);
		print_ways(out, sum.ways, sum_before.ways, seconds);
		print_handoffs(out, sum.handoffs);
		if (all_ns > 0)
			fprintf(out, " %5.1f%%", 100 * sum.busy_ns / all_ns);
		else
			fprintf(out, " %6s", "-");
		fprintf(out, " %8" PRIu64 "\n", node->dropped);
	}
}

static void
print_edges(FILE *out, const struct stats *now, const struct stats *before, double seconds)
{
	static const struct stats_edge none;
	char name[PRINT_EDGE];

	fprintf(out, "\n%-*s %9s %11s %9s %11s %7s %7s %8s %8s %8s\n", PRINT_NAME, "edge", "up/s", "up", "down/s",
		"down", "ns up", "ns down", "explicit", "implicit", "time");
	for (unsigned i = now->edge_count; i-- > 0;) {
		const struct stats_edge *edge = &now->edges[i];
		const struct stats_edge *was = stats_find_edge(before, edge->upper, edge->lower, edge->role);

		snprintf(name, sizeof(name), "%.63s -> %.63s", edge->upper, edge->lower);
		fprintf(out, "%-*s", PRINT_NAME, name);
		print_ways(out, edge->ways, was == NULL ? none.ways : was->ways, seconds);
		print_handoffs(out, edge->handoffs);
		putc('\n', out);
	}
}

/* What is not zero of the nodes' drops, or of their counters. */
static void
print_counts(FILE *out, const char *title, const struct stats *now, const struct stats *before, double seconds,
	     const struct json_value *(*counts)(const struct stats_node *node))
{
	char name[PRINT_EDGE];

	for (unsigned i = now->node_count; i-- > 0;) {
		const struct stats_node *node = &now->nodes[i], *was = stats_find_node(before, node->name);

		for (const struct json_value *c = counts(node)->first; c != NULL; c = c->next) {
			uint64_t count = was == NULL ? 0 : json_member(counts(was), c->key)->number;

			if (c->number == 0)
				continue;
			if (title != NULL)
				fprintf(out, "\n%-*s %9s %11s\n", PRINT_NAME, title, "/s", "all");
			title = NULL;
			snprintf(name, sizeof(name), "%.63s.%.63s", node->name, c->key);
			fprintf(out, "%-*s %9.0f %11" PRIu64 "\n", PRINT_NAME, name,
				print_rate(c->number, count, seconds), c->number);
		}
	}
}

static const struct json_value *
print_drops_of(const struct stats_node *node)
{
	return node->drops;
}

static const struct json_value *
print_counters_of(const struct stats_node *node)
{
	return node->counters;
}

static void
print_drivers(FILE *out, const struct stats *now, const struct stats *before, double seconds)
{
	static const char *const rated[] = { "turns", "frames", "sleeps" };
	static const char *const totals[] = { "overruns", "fallbacks", "no_stack", "parks", "overtaken" };

	fprintf(out, "\n%-*s", PRINT_NAME, "driver");
	for (size_t k = 0; k < sizeof(rated) / sizeof(rated[0]); k++)
		fprintf(out, " %7s/s %11s", rated[k], rated[k]);
	for (size_t k = 0; k < sizeof(totals) / sizeof(totals[0]); k++)
		fprintf(out, " %9s", totals[k]);
	putc('\n', out);
	for (unsigned i = 0; i < now->driver_count; i++) {
		fprintf(out, "%-*u", PRINT_NAME, i);
		for (size_t k = 0; k < sizeof(rated) / sizeof(rated[0]); k++) {
			uint64_t count = stats_count_of(now->drivers[i], rated[k]);
			uint64_t was = i < before->driver_count ? stats_count_of(before->drivers[i], rated[k]) : 0;

			fprintf(out, " %9.0f %11" PRIu64, print_rate(count, was, seconds), count);
		}
		for (size_t k = 0; k < sizeof(totals) / sizeof(totals[0]); k++)
			fprintf(out, " %9" PRIu64, stats_count_of(now->drivers[i], totals[k]));
		putc('\n', out);
	}
}

void
stats_print(const struct stats *now, const struct stats *before, FILE *out)
{
	double seconds = print_seconds(now, before);

	fprintf(out, "%.63s: ", now->host);
	xk_graph_print_plain(now->graph, strlen(now->graph), false, out);
	fprintf(out, " on %.63s, driver %.20s, mode %.20s\n", now->link, now->driver, now->mode);
	fprintf(out, "rates of the last %.1f s; edges have been counted for %.1f s, while somebody asked\n\n", seconds,
		(double)now->counted_ns / 1e9);
	print_nodes(out, now, before, seconds);
	print_edges(out, now, before, seconds);
	print_counts(out, "drops", now, before, seconds, print_drops_of);
	print_counts(out, "counters", now, before, seconds, print_counters_of);
	print_drivers(out, now, before, seconds);
}
