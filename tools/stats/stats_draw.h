/* stats_draw.h - what a host has counted, on the picture of its graph. */
#ifndef STATS_DRAW_H
#define STATS_DRAW_H

#include <stdio.h>

#include "graphs/graph.h"

/* A host's document: a json_t of jansson. */
struct stats_seen;

/*
 * What a host has counted within a second from now (from: its name), or what a file says that `xk stats --json` has written
 * (from: a path, or NAME.json). NULL, and why: where jansson is missing, too.
 */
struct stats_seen *stats_seen_get(const char *from, char *why, size_t size);

/* NULL is let through. */
void stats_seen_free(struct stats_seen *seen);

/*
 * As xk_graph_draw; seen, the host's document or a stranger's, may be NULL. What the host counted of nodes that the graph has
 * not is left out.
 */
void stats_draw(const struct xk_graph *graph, const struct stats_seen *seen, FILE *stream);

#endif
