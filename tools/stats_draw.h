/* stats_draw.h - what a host has counted, on the picture of its graph. */
#ifndef STATS_DRAW_H
#define STATS_DRAW_H

#include <stdio.h>

#include "graphs/graph.h"
#include "tools/stats_read.h"

/* As xk_graph_draw; stats may be NULL. What the host counted of nodes that the graph has not is left out. */
void stats_draw(const struct xk_graph *graph, const struct stats *stats, FILE *stream);

#endif
