/*
 * compiled.h - graphs as C: what `xk compile` writes, and how a program takes on a graph that was compiled into it.
 *
 * The C is one translation unit that contains the protocols' own files (graphs/generated.h says how they come to call one
 * another directly). What it defines for others is an xk_graph_compiled: the graph file's text, which is read again at the
 * start as any graph file is, and the types that its nodes are of.
 */
#ifndef XK_GRAPH_COMPILED_H
#define XK_GRAPH_COMPILED_H

#include "graphs/graph.h"

struct xk_graph_compiled {
	const char *file;
	const char *text; /* of the graph file, size bytes */
	size_t size;
	unsigned node_count;
	const char *const *names; /* of the nodes, lowers before uppers */
	/* The types of the nodes, in that order: those that look at an edge's marks only where the file has some, and all. */
	const struct xk_protocol_type *const *plain, *const *watched;
};

/* The graph that `xk compile` has made the program of, or the object NAME.o in it; NULL: a program that reads graph files. */
extern const struct xk_graph_compiled *const program_graph;

/* What `xk compile` needs besides a checked graph. */
struct xk_graph_c_source {
	const char *text; /* of the graph file */
	size_t size;
	const char *tree; /* the directory that has xkernel/ and protocols/ */
};

/*
 * Writes a checked graph of protocols as C. 0; -EINVAL: a protocol's files are not in the tree, and errors say which; -EIO:
 * stream could not be written.
 */
int xk_graph_compile(const struct xk_graph *graph, const struct xk_graph_c_source *source, FILE *stream,
		     struct xk_graph_errors *errors);

/*
 * Gives a checked graph the compiled types; it was read of compiled->text (xk_graph_read_text), whatever has been set since.
 * watched: something will mark edges later (a trace, a handoff). What has been set counts as well, and what another file of
 * the same nodes and edges says: where marks or an order differ, the types are the watched ones. -EINVAL: it is another graph.
 */
int xk_graph_specialise(struct xk_graph *graph, const struct xk_graph_compiled *compiled, bool watched);

#endif
