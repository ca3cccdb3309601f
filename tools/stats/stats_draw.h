/* stats_draw.h - what a host has counted, on the picture of its graph. */
#ifndef STATS_DRAW_H
#define STATS_DRAW_H

#include <stdio.h>

#include "graphs/graph.h"

/* A host's document: a json_t of jansson's. */
struct stats_seen;

/*
 * Reads what a host counts within a second from now (from: its name), or a file that `xk stats --json` has written
 * (from: a path, or NAME.json). NULL, and why: also if jansson is missing.
 */
struct stats_seen *stats_seen_get(const char *from, char *why, size_t size);

/* Does nothing for NULL. */
void stats_seen_free(struct stats_seen *seen);

/*
 * As xk_graph_draw, with the counts of the document, which may come from a stranger; it may be NULL. Counts of nodes
 * that are not in the graph are left out.
 */
void stats_draw(const struct xk_graph *graph, const struct stats_seen *seen, FILE *stream);

#endif
