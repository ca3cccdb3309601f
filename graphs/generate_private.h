/* generate_private.h - what the files that write a graph as C share. */
#ifndef XK_GENERATE_PRIVATE_H
#define XK_GENERATE_PRIVATE_H

#include "graphs/compiled.h"

enum { GENERATE_SYMBOL = 128 };

/*
 * A copy is a protocol's files in the C, for one node or for all nodes of its type. Its first node stands for it:
 * functions that take a copy take that node's index.
 */
struct generate {
	const struct xk_graph *graph;
	const struct xk_graph_c_source *source;
	FILE *stream;
	struct xk_graph_errors *errors;
	unsigned *position; /* of each node: its number in the C */
	unsigned *copy;     /* of each node */
};

static inline const struct xk_protocol_type *
generate_type(const struct generate *g, unsigned node)
{
	return g->graph->nodes[node].type;
}

/* ---- generate.c ---- */

/* Writes the name of a copy's type in the C into symbol, and returns symbol. */
const char *generate_symbol(const struct generate *g, unsigned copy, char symbol[GENERATE_SYMBOL]);

/* Writes text into a comment: letters, digits and _ - . as they are, other characters as _. */
void generate_word(FILE *stream, const char *text);

/* ---- generate_crossings.c ---- */

/* Writes whom a copy's sessions call, up and down, and what a pop does to them. */
void generate_crossings(const struct generate *g, unsigned copy);

/* ---- generate_names.c ---- */

/* The names that a protocol's file has to itself, so that it can be several times in one unit. All zero at first. */
struct generate_names {
	char **list;
	unsigned count;
};

/*
 * Finds the names in the text of protocols/TYPE.c that begin with TYPE_ or xk_type_TYPE, in lower or upper case, and
 * TYPE itself. False: it includes another header of protocols/, with which it shares names.
 */
bool generate_names_find(struct generate_names *names, const char *text, const char *type);
void generate_names_clear(struct generate_names *names);

/* Writes lines that give each name a number from here on, and that take it away again. */
void generate_names_begin(const struct generate_names *names, unsigned number, FILE *stream);
void generate_names_end(const struct generate_names *names, FILE *stream);

#endif
