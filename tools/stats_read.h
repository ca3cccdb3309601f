/* stats_read.h - a host's counts, from the document that it has told them in (stats.h). */
#ifndef STATS_READ_H
#define STATS_READ_H

#include <stddef.h>
#include <stdint.h>

#include "tools/json_read.h"

enum { STATS_UP, STATS_DOWN, STATS_WAYS };
enum { STATS_EXPLICIT, STATS_IMPLICIT, STATS_TIME, STATS_REASONS };

struct stats_way {
	uint64_t messages, timed, ns;
};

struct stats_edge {
	const char *upper, *lower, *role;
	struct stats_way ways[STATS_WAYS];
	uint64_t handoffs[STATS_REASONS];
};

struct stats_node {
	const char *name;
	const struct json_value *drops, *counters; /* objects: counts by name */
	uint64_t dropped;                          /* all of them */
};

/* Names are the document's. */
struct stats {
	const char *host, *graph, *link, *driver, *mode;
	uint64_t pid, now_ns, counted_ns;
	struct stats_node *nodes;
	struct stats_edge *edges;
	const struct json_value **drivers;
	unsigned node_count, edge_count, driver_count;
	const struct json_value *kernel;
	struct json_value *document;
	char *text;
};

/* Takes text (len bytes, allocated, a zero byte behind them), also on failure. NULL, and why: it is no such document. */
struct stats *stats_read(char *text, size_t len, const char **why);
/* NULL is let through. */
void stats_free(struct stats *stats);

/* The node called name, or the edge; NULL: there is none. */
const struct stats_node *stats_find_node(const struct stats *stats, const char *name);
const struct stats_edge *stats_find_edge(const struct stats *stats, const char *upper, const char *lower,
					 const char *role);

/*
 * What came to a node, and became of it there: sums over the edges by which it came, up those below it and down those above
 * it; handoffs of those below.
 */
struct stats_sum {
	struct stats_way ways[STATS_WAYS];
	uint64_t handoffs[STATS_REASONS];
	double busy_ns; /* the time of all its messages, as those that were timed tell */
};
void stats_sum_node(const struct stats *stats, const char *name, struct stats_sum *sum);

/* The time of all messages of one way, as those that were timed tell. */
double stats_busy_ns(const struct stats_way *way);
/* ... and of all edges. */
double stats_all_busy_ns(const struct stats *stats);

/* A count of a driver or of the kernel. */
uint64_t stats_count_of(const struct json_value *counts, const char *name);

#endif
