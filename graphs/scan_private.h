/*
 * scan_private.h - the parser of graph files: tokens (scan_token.c), and the DOT language (scan.c), as docs/graphs.md
 * describes it. For read.c.
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

/* A scan under way. */
struct scan_state {
	struct xk_graph *graph; /* what is read; in the order in which it is written */
	struct xk_graph_errors *errors;
	struct xk_graph_attributes node_defaults, edge_defaults;
	bool strict;
	bool failed;            /* no graph can be made of the file */
	const char *next, *end; /* text not read yet; a NUL follows */
	unsigned line;
	unsigned token; /* enum scan_token, or a character: the current token */
	unsigned token_line;
	char *text; /* of the token, malloc'ed; NULL: it has none, or scan_id has given it away */
	unsigned depth;
	unsigned joined;                  /* strings, by + */
	unsigned applied;                 /* attributes to objects, repeated ones and defaults too */
	struct xk_graph_attributes names; /* of attributes, each once; values are of no interest */
};

/* ---- scan.c ---- */

/*
 * Reads text (size bytes, none of them NUL, and a NUL after them) into graph, which has its file and kind. Nodes and
 * edges are in the order in which they are written; in a strict graph there is one edge for each pair. Refuses with
 * its line what DOT has and a graph may not have; the first syntax error ends the scan. False: there is no graph in
 * the text.
 */
bool scan_text(struct xk_graph *graph, const char *text, size_t size, struct xk_graph_errors *errors);

/* Whether text, as for scan_text, begins as an undirected graph. */
bool scan_is_network(const char *text, size_t size);

/* ---- scan_token.c ---- */

/* Adds an error at line, and refuses the graph; the scan goes on. */
#define scan_refuse(state, line, ...) xk_graph_refuse((state)->graph, (state)->errors, (line), __VA_ARGS__)

/* Ends the scan: every further token is the end. */
void scan_stop(struct scan_state *state);

/* Refuses and stops; after the first time it only stops, because later errors follow from the first. */
#define scan_fail(state, line, ...)                                                                                    \
	do {                                                                                                           \
		if (!(state)->failed)                                                                                  \
			scan_refuse((state), (line), __VA_ARGS__);                                                     \
		scan_stop(state);                                                                                      \
	} while (0)

/* Fails with what was expected instead of the current token. */
void scan_syntax(struct scan_state *state, const char *expected);

/* Whether the text not read yet begins with `text`. */
bool scan_at(const struct scan_state *state, const char *text);

/* Goes to the next token. */
void scan_next(struct scan_state *state);

/* Goes to the next token if the current one is `token`. */
bool scan_accept(struct scan_state *state, unsigned token);

/* Whether the current token is an ID: a word, a number, a string or HTML. */
bool scan_is_id(const struct scan_state *state);

/* Takes an ID and returns its text, malloc'ed; strings may be joined by +. NULL: there is none, and the scan stops. */
char *scan_id(struct scan_state *state, bool *html, const char *expected);

#endif
