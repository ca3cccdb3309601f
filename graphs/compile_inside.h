/* compile_inside.h - what the files that write a graph as C share. Not for others. */
#ifndef XK_COMPILE_INSIDE_H
#define XK_COMPILE_INSIDE_H

#include "graphs/compiled.h"

enum { COMPILE_SYMBOL = 128 };

/*
 * A copy is a protocol's files in the C, for one node or for all nodes of its type. It is known by its first node; what is
 * said of copies is said of that one.
 */
struct compile {
	const struct xk_graph *graph;
	const struct xk_graph_c_source *source;
	FILE *stream;
	struct xk_graph_errors *errors;
	unsigned *position; /* of each node: its number in the C */
	unsigned *copy;     /* of each node */
};

static inline const struct xk_protocol_type *
compile_type(const struct compile *c, unsigned node)
{
	return c->graph->nodes[node].type;
}

/* ---- compile.c ---- */

/* What a copy's type is called in the C. */
const char *compile_symbol(const struct compile *c, unsigned copy, char symbol[COMPILE_SYMBOL]);

/* Writes what of text may stand in a comment; the rest becomes _. */
void compile_word(FILE *stream, const char *text);

/* ---- compile_crossings.c ---- */

/* Writes whom a copy's sessions call, up and down, and what a pop does to them. */
void compile_crossings(const struct compile *c, unsigned copy);

#endif
