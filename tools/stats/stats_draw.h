/* stats_draw.h - shows a host's counts on the picture of its graph. */
#ifndef STATS_DRAW_H
#define STATS_DRAW_H

#include <stdio.h>

#include "graphs/graph.h"

struct json_t; /* jansson's, whose header and tools/json.h exclude each other */

/*
 * Reads a host's counts of the next second (from: its name), or a file that `xk stats --json` has written (from: a
 * path, or NAME.json). Returns NULL, with the reason in why, on failure.
 */
struct json_t *stats_read(const char *from, char *why, size_t size);

/* Frees the result of stats_read; may be NULL. */
void stats_free(struct json_t *stats);

/*
 * Draws the graph like xk_graph_draw, with the counts of the document, which is untrusted and may be NULL. Counts of
 * nodes that are not in the graph are left out.
 */
void stats_draw(const struct xk_graph *graph, const struct json_t *stats, FILE *stream);

#endif
