/* stats_draw.h - what a host has counted, on the picture of its graph. */
#ifndef STATS_DRAW_H
#define STATS_DRAW_H

#include <stdio.h>

#include "graphs/graph.h"

struct json_t; /* jansson's; its header and tools/json.h exclude each other */

/*
 * Reads what a host counts within a second from now (from: its name), or a file that `xk stats --json` has written
 * (from: a path, or NAME.json). Returns NULL, and why, if there is none.
 */
struct json_t *stats_read(const char *from, char *why, size_t size);

/* Frees what stats_read has returned; may be NULL. */
void stats_free(struct json_t *stats);

/*
 * As xk_graph_draw, with the counts of the document, which may come from a stranger; it may be NULL. Counts of nodes
 * that are not in the graph are left out.
 */
void stats_draw(const struct xk_graph *graph, const struct json_t *stats, FILE *stream);

#endif
