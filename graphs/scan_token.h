/*
 * scan_token.h - the words of the DOT language, one after another; for scan.c. Whoever looks at a token owns nothing:
 * its text goes with it, unless scan_id has given it away.
 */
#ifndef XK_SCAN_TOKEN_H
#define XK_SCAN_TOKEN_H

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

/* Where the scan stands. */
struct scan_state {
	struct xk_graph *graph; /* what is read; in the order in which it is written */
	struct xk_graph_errors *errors;
	struct xk_graph_attributes node_defaults, edge_defaults;
	bool strict;
	bool failed;            /* no graph can be made of the file */
	const char *next, *end; /* what is not read yet; a NUL follows */
	unsigned line;
	unsigned token; /* enum scan_token: the one looked at */
	unsigned token_line;
	char *text; /* of the token, malloc'ed */
	unsigned depth;
	unsigned joined;  /* strings by + */
	unsigned applied; /* attributes to objects, the same ones again and defaults too */
	unsigned attribute_names;
	char *names[XK_GRAPH_ATTRIBUTES_MAX];
};

/* Adds an error at line, and refuses the graph; the scan goes on. */
__attribute__((format(printf, 3, 4))) void scan_refuse(struct scan_state *state, unsigned line, const char *format,
						       ...);

/* Nothing can be read after this: every further token is the end. */
void scan_stop(struct scan_state *state);

/* Refuses and stops; after the first time it only stops, since what follows an error is not worth telling. */
#define scan_fail(state, line, ...)                                                                                    \
	do {                                                                                                           \
		if (!(state)->failed)                                                                                  \
			scan_refuse((state), (line), __VA_ARGS__);                                                     \
		scan_stop(state);                                                                                      \
	} while (0)

/* What was expected instead of the token looked at. Stops. */
void scan_syntax(struct scan_state *state, const char *expected);

/* Whether what is not read yet begins with text. */
bool scan_at(const struct scan_state *state, const char *text);

/* Looks at the next token. */
void scan_next(struct scan_state *state);

/* Takes the token looked at, if it is this one. */
bool scan_accept(struct scan_state *state, unsigned token);

/* Whether the token looked at is an ID: a word, a number, a string or HTML. */
bool scan_is_id(const struct scan_state *state);

/* Takes an ID and returns its text, malloc'ed; strings may be joined by +. NULL: there is none, and the scan stops. */
char *scan_id(struct scan_state *state, bool *html, const char *expected);

#endif
