/*
 * scan.h - what libcgraph does not keep of a graph file: the line of every statement and attribute, and whether it
 * was written on the object itself or came from a default. For read.c.
 *
 * The scan also refuses what libcgraph would let through but a graph may not have, or would read without bound:
 * several graphs, one of the wrong kind, ports on nodes, several nodes at an end of an edge, defaults after the first
 * node, an attribute with two values. It stops at the first syntax error, so that libcgraph sees only text that can be read:
 * it leaks, and its lexer keeps state, when it cannot.
 */
#ifndef XK_SCAN_H
#define XK_SCAN_H

#include "graphs/graph.h"

struct scan_node {
	char *name;
	unsigned line;
	struct xk_graph_attributes attributes; /* as written, without defaults */
};

struct scan_edge {
	unsigned upper, lower; /* in nodes */
	unsigned line;
	struct xk_graph_attributes attributes;
};

struct scan {
	const char *file;
	enum xk_graph_kind kind;
	struct xk_graph_errors *errors;
	bool failed; /* no graph can be made of the file */
	bool wrong;  /* something was refused */
	bool strict;
	unsigned line; /* of `digraph`, or `graph` */
	struct xk_graph_attributes attributes, node_defaults, edge_defaults;
	struct scan_node *nodes; /* in the order of their first mention */
	unsigned node_count;
	struct scan_edge *edges; /* in the order they are written; in a strict graph one for each pair */
	unsigned edge_count;
};

/*
 * Scans text (size bytes and a NUL after them) of file, which is to hold a graph of this kind. Lines that begin with #
 * are blanked: to libcgraph they could name another file and line. Text after the graph is cut off: libcgraph would
 * read it before the next file.
 */
void scan_text(struct scan *scan, const char *file, enum xk_graph_kind kind, char *text, size_t size,
	       struct xk_graph_errors *errors);
void scan_clear(struct scan *scan);

/* Whether text, as for scan_text, begins as an undirected graph. */
bool scan_is_network(char *text, size_t size);

/* The index of a node, or -1. */
int scan_node_find(const struct scan *scan, const char *name);

#endif
