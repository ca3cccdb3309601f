/*
 * scan.h - the parser of graph files: the DOT language, as docs/graphs.md describes it. For read.c.
 *
 * What DOT has and a graph may not have is refused with its line: several graphs, one of the wrong kind, ports on nodes,
 * several nodes at an end of an edge, defaults after the first node, an attribute with two values. The first syntax error
 * ends the scan.
 */
#ifndef XK_SCAN_H
#define XK_SCAN_H

#include "graphs/graph.h"

/*
 * Reads text (size bytes and a NUL after them, none among them) into graph, which has its file and kind. Nodes and edges
 * come in the order in which they are written; in a strict graph there is one edge for each pair. False: there is no
 * graph in it.
 */
bool scan_text(struct xk_graph *graph, const char *text, size_t size, struct xk_graph_errors *errors);

/* Whether text, as for scan_text, begins as an undirected graph. */
bool scan_is_network(const char *text, size_t size);

#endif
