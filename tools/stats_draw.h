/* stats_draw.h - what a host has counted, on the picture of its graph. */
#ifndef STATS_DRAW_H
#define STATS_DRAW_H

#include <jansson.h>
#include <stdio.h>

#include "graphs/graph.h"

/*
 * As xk_graph_draw; stats, the host's document or a stranger's, may be NULL. What the host counted of nodes that the
 * graph has not is left out.
 */
void stats_draw(const struct xk_graph *graph, const json_t *stats, FILE *stream);

#endif
