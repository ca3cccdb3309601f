/*
 * compiled.h - graphs as C: what `xk compile` writes, and how a program uses a graph that was compiled into it.
 *
 * The C is one translation unit that contains the protocols' own files; graphs/generated.h says how they call one
 * another directly. It defines an xk_graph_compiled: the graph file's text, which is read again at the start like any
 * graph file, and the types of its nodes.
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
	/* Types of the nodes, in that order: plain ones look at an edge's marks only where the file has some. */
	const struct xk_protocol_type *const *plain, *const *watched;
};

/*
 * The graph that `xk compile` has made the program, or an object NAME.o in it, of; NULL: the program reads graph
 * files.
 */
extern const struct xk_graph_compiled *const program_graph;

/* What `xk compile` needs besides a checked graph. */
struct xk_graph_c_source {
	const char *text; /* of the graph file */
	size_t size;
	const char *tree; /* the directory that has xkernel/ and protocols/ */
};

/*
 * Writes a checked graph of protocols as C. 0; -EINVAL: a protocol's files are not in the tree, and errors say which;
 * -EIO: stream could not be written.
 */
int xk_graph_compile(const struct xk_graph *graph, const struct xk_graph_c_source *source, FILE *stream,
		     struct xk_graph_errors *errors);

/*
 * Gives a checked graph the compiled types. It was read of compiled->text (xk_graph_read_text), or of another file
 * with the same nodes and edges; attributes may have been set since. The watched types are taken if `watched` says
 * that something will mark edges later (a trace, a handoff), or where marks or an order differ from the compiled
 * file's. 0; -EINVAL: it is another graph.
 */
int xk_graph_specialise(struct xk_graph *graph, const struct xk_graph_compiled *compiled, bool watched);

#endif
