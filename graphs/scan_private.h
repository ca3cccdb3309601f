/*
 * scan_private.h - the parser of graph files: tokens (scan_token.c), and the DOT language (scan.c), as described in
 * docs/graphs.md. For read.c.
 */
#ifndef XK_SCAN_PRIVATE_H
#define XK_SCAN_PRIVATE_H

#include "graphs/graph.h"

enum scan_token {
	SCAN_END = 256, /* others are characters */
	SCAN_NAME,
	SCAN_STRING,
	SCAN_HTML,
	SCAN_ARROW,
	SCAN_LINE, /* -- */
	SCAN_STRICT,
	SCAN_GRAPH,
	SCAN_DIGRAPH,
	SCAN_SUBGRAPH,
	SCAN_NODE,
	SCAN_EDGE,
};

/* State of a scan. */
struct scan_state {
	struct xk_graph *graph; /* the result, in the order in which it is written */
	struct xk_graph_errors *errors;
	struct xk_graph_attributes node_defaults, edge_defaults;
	bool strict;
	bool failed;            /* the file contains no graph */
	const char *next, *end; /* unread text; a NUL follows */
	unsigned line;
	unsigned token; /* enum scan_token, or a character: the current token */
	unsigned token_line;
	char *text; /* the token's, malloc'ed; NULL: none, or passed on by scan_id */
	unsigned depth;
	unsigned joined;  /* number of strings joined by + */
	unsigned applied; /* number of attributes applied to objects, including repeated ones and defaults */
	struct xk_graph_attributes names; /* names of attributes, each once; the values are unused */
};

/* ---- scan.c ---- */

/*
 * Reads text (size bytes, none of them NUL, followed by a NUL) into graph, whose file and kind are set. Nodes and edges
 * are in the order in which they are written; a strict graph has one edge for each pair. Refuses, with its line, DOT
 * that a graph may not contain; the first syntax error ends the scan. Returns false if there is no graph in the text.
 */
bool scan_text(struct xk_graph *graph, const char *text, size_t size, struct xk_graph_errors *errors);

/* Returns true if text, as for scan_text, begins as an undirected graph. */
bool scan_is_network(const char *text, size_t size);

/* ---- scan_token.c ---- */

/* Adds an error at line, and refuses the graph; the scan continues. */
#define scan_refuse(state, line, ...) xk_graph_refuse((state)->graph, (state)->errors, (line), __VA_ARGS__)

/* Ends the scan: all further tokens are SCAN_END. */
void scan_stop(struct scan_state *state);

/* Refuses and stops. After the first time it only stops, because later errors follow from the first. */
#define scan_fail(state, line, ...)                                                                                    \
	do {                                                                                                           \
		if (!(state)->failed)                                                                                  \
			scan_refuse((state), (line), __VA_ARGS__);                                                     \
		scan_stop(state);                                                                                      \
	} while (0)

/* Fails with a message that names the expected token. */
void scan_syntax(struct scan_state *state, const char *expected);

/* Returns true if the unread text begins with `text`. */
bool scan_at(const struct scan_state *state, const char *text);

/* Advances to the next token. */
void scan_next(struct scan_state *state);

/* Advances to the next token, and returns true, if the current one is `token`. */
bool scan_accept(struct scan_state *state, unsigned token);

/* Returns true if the current token is an ID: a name, a number, a string or HTML. */
bool scan_is_id(const struct scan_state *state);

/*
 * Takes an ID and returns its text, malloc'ed; strings may be joined by +. Returns NULL, and stops the scan, if there
 * is none.
 */
char *scan_id(struct scan_state *state, bool *html, const char *expected);

#endif
