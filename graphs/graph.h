/*
 * graph.h - graph files: a DOT digraph is read, checked against the protocols that were built in, and composed.
 *
 * A program that wants a host says xk_graph_compose; one that looks at the graph itself says
 *
 *	struct xk_graph_errors errors = { 0 };
 *	struct xk_graph *graph = xk_graph_load(file, sets, set_count, xk_protocol_types, &errors);
 *
 *	if (graph == NULL || xk_graph_build(graph, kernel, &errors) != 0)
 *		xk_graph_errors_print(&errors, stderr);
 *	xk_graph_errors_clear(&errors);
 *	xk_graph_free(graph);
 *
 * xk_graph_load is read, set and check in one. All that can be found wrong is collected, each as "file:line: what"
 * with the names concerned. The language is described in docs/graphs.md.
 */
#ifndef XK_GRAPH_H
#define XK_GRAPH_H

#include <stdarg.h>
#include <stdio.h>

#include "xkernel/protocol.h"

struct xk_kernel;

/* What a file may hold; more is refused. */
enum {
	XK_GRAPH_FILE_MAX = 1 << 20,
	XK_GRAPH_NODES_MAX = 1000,
	XK_GRAPH_EDGES_MAX = 4000,
	XK_GRAPH_ATTRIBUTES_MAX = 256, /* different names in one file */
	XK_GRAPH_NESTING_MAX = 64,     /* of subgraphs */
	XK_GRAPH_NAME_MAX = 63,        /* of a node */
	XK_GRAPH_ERRORS_MAX = 100,     /* kept; the others are only counted */
	XK_GRAPH_NOTE = 96,            /* of a note's row, with its end */
	XK_GRAPH_NOTE_ROWS = 6,
};

/* ---- what was wrong ---- */

struct xk_graph_error {
	unsigned line;
	char *text; /* "file:line: what" */
};

/* All zero at first. */
struct xk_graph_errors {
	struct xk_graph_error *list;
	unsigned count; /* of those in list */
	unsigned more;  /* that were not kept */
};

/* Adds one error; line 0: none is known, or none exists. */
__attribute__((format(printf, 4, 5))) void xk_graph_errors_add(struct xk_graph_errors *errors, const char *file,
							       unsigned line, const char *format, ...);

/* The same, with the arguments as vprintf takes them. */
__attribute__((format(printf, 4, 0))) void xk_graph_errors_add_list(struct xk_graph_errors *errors, const char *file,
								    unsigned line, const char *format,
								    va_list arguments);

/*
 * Prints text that may hold anything, such as a file's name. Control characters are printed as \xHH, so that a terminal
 * does not obey them; newlines are kept if `lines` is set.
 */
void xk_graph_print_plain(const char *text, size_t len, bool lines, FILE *stream);

/* Prints the errors, a line each, in the order of their lines. */
void xk_graph_errors_print(const struct xk_graph_errors *errors, FILE *stream);

/* Frees them; errors can be used again. */
void xk_graph_errors_clear(struct xk_graph_errors *errors);

/* ---- a graph, as data ---- */

struct xk_graph_attribute {
	char *name, *value;
	unsigned line; /* 0: from --set */
	bool html;     /* the value was written <...> */
};

struct xk_graph_attributes {
	struct xk_graph_attribute *list;
	unsigned count;
};

/* Of a node; the graph's are where a node's begin. */
struct xk_graph_policy {
	enum xk_implicit implicit;
	uint64_t spin_ns; /* of XK_IMPLICIT_SPIN */
	enum xk_resume resume;
	int trace_level;      /* enum xk_trace_level */
	bool order_session;   /* nodes only */
	unsigned session_max; /* nodes only; 0: the type's */
};

/* Of the graph or of an edge. */
struct xk_graph_budget {
	uint64_t budget_ns; /* 0: none */
	unsigned carry;
};

enum xk_graph_kind {
	XK_GRAPH_PROTOCOLS, /* a digraph: the protocols of a host, upper -> lower */
	XK_GRAPH_NETWORK,   /* an undirected one: hosts and links (topology.h) */
};

enum xk_graph_handoff { XK_GRAPH_AS_POLICY, XK_GRAPH_EXPLICIT, XK_GRAPH_NEVER };

struct xk_graph_node {
	char *name;
	unsigned line;     /* where it is written first */
	unsigned sequence; /* in the order in which nodes are written first, from 0 */
	struct xk_graph_attributes attributes;
	/* from xk_graph_check */
	const struct xk_protocol_type *type; /* NULL: unknown */
	struct xk_graph_policy policy;
	unsigned *lowers; /* indices of edges, in the order of the type's roles, group by group */
	unsigned lower_count;
};

struct xk_graph_edge {
	unsigned upper, lower; /* indices of nodes; in a network, as written */
	unsigned line;
	unsigned sequence; /* in the order in which edges are written, from 0 */
	struct xk_graph_attributes attributes;
	/* from xk_graph_check */
	const struct xk_role *role; /* NULL: found none */
	enum xk_graph_handoff handoff;
	struct xk_graph_budget budget;
	bool has_number;
	uint32_t number; /* number=N, of the upper on every lower that is reached by this edge */
};

struct xk_graph {
	char *file;
	enum xk_graph_kind kind;
	unsigned line; /* of `digraph`, or `graph` */
	struct xk_graph_attributes attributes;
	struct xk_graph_node *nodes; /* by name */
	unsigned node_count;
	struct xk_graph_edge *edges; /* by upper, then in the order in which they are written */
	unsigned edge_count;
	bool refused; /* an error was found in it */
	/* from xk_graph_check */
	bool checked;
	struct xk_graph_policy policy;
	struct xk_graph_budget budget;
	unsigned *order; /* the nodes, lowers before uppers, otherwise by name */
};

/*
 * Reads file. NULL: there is no graph in it, and errors say why. A graph may come back although errors were found
 * (graph->refused), so that xk_graph_check can find the others; it refuses such a graph in any case.
 */
struct xk_graph *xk_graph_read(const char *file, struct xk_graph_errors *errors);

/* As xk_graph_read, of size bytes of text (not changed); file is the name in errors. */
struct xk_graph *xk_graph_read_text(const char *file, const char *text, size_t size, struct xk_graph_errors *errors);

/*
 * "node.attribute=value" as a command line's --set gives it, "graph.attribute=value" for the graph. Before
 * xk_graph_check, which looks at the value. 0; -EINVAL: not of this form, or no such node.
 */
int xk_graph_set(struct xk_graph *graph, const char *text, struct xk_graph_errors *errors);

/*
 * Checks graph against types (NULL ends them; of one name the last counts; they must outlive the graph) and fills in
 * what the structs above say. 0; -EINVAL: refused, and errors say why.
 */
int xk_graph_check(struct xk_graph *graph, const struct xk_protocol_type *const *types, struct xk_graph_errors *errors);

/* Read, set and check. NULL: refused, and errors say why. */
struct xk_graph *xk_graph_load(const char *file, const char *const *sets, unsigned set_count,
			       const struct xk_protocol_type *const *types, struct xk_graph_errors *errors);

/*
 * Composes the kernel's protocols as a checked graph says; the caller goes on with xk_kernel_init. 0; -ENOMEM or
 * -EINVAL: errors say why, and the kernel is good for nothing but xk_kernel_free.
 */
int xk_graph_build(const struct xk_graph *graph, struct xk_kernel *kernel, struct xk_graph_errors *errors);

/* What a kernel is composed of, for a program that does not look at the graph itself. */
struct xk_graph_source {
	const char *file;        /* is read; of text, its name in errors, which may be NULL */
	const char *text;        /* the graph itself; NULL: it is in the file */
	const char *const *sets; /* as xk_graph_set takes them; NULL ends them, or stands for none */
	/* The program's own, besides those that were built in and before them; they outlive the kernel. As sets. */
	const struct xk_protocol_type *const *types;
	/*
	 * In place of file, text and types: a graph that is compiled into the program (compiled.h). Edges that are marked after
	 * it is composed may not be looked at: who marks some does what xk_graph_compose does, with xk_graph_specialise.
	 */
	const struct xk_graph_compiled *compiled;
};

/*
 * All in one: reads, sets, checks, composes and initialises (xk_kernel_init). kernel has its ports and no protocols. What was
 * wrong goes to stream, a line each (NULL: nowhere). 0; -EINVAL: refused; -ENOMEM; or what a protocol's init returned. After
 * an error the kernel is good for nothing but xk_kernel_free; one that has been composed already stays as it is.
 */
int xk_graph_compose(const struct xk_graph_source *source, struct xk_kernel *kernel, FILE *stream);

/* Writes a checked graph as DOT, for drawing: handoffs, budgets and policies can be seen, text is escaped. */
void xk_graph_draw(const struct xk_graph *graph, FILE *stream);

/* What a picture shows besides of a node or an edge. */
struct xk_graph_note {
	char rows[XK_GRAPH_NOTE_ROWS][XK_GRAPH_NOTE]; /* text; the first that is empty ends them */
	double heat;                                  /* 0 to 1: the node's colour; below 0: the usual one */
};

/* Gives the notes; what it is not about has no rows and a heat below 0 when it is asked. */
struct xk_graph_notes {
	void (*title)(const struct xk_graph_notes *self, struct xk_graph_note *note);
	void (*node)(const struct xk_graph_notes *self, const char *name, struct xk_graph_note *note);
	void (*edge)(const struct xk_graph_notes *self, const char *upper, const char *lower, const char *role,
		     struct xk_graph_note *note);
};

/* The same with notes. */
void xk_graph_draw_noted(const struct xk_graph *graph, const struct xk_graph_notes *notes, FILE *stream);

/* NULL is let through. */
void xk_graph_free(struct xk_graph *graph);

/* ---- for the files of graphs/ ---- */

/* As xk_graph_read and xk_graph_read_text, of either kind. */
struct xk_graph *xk_graph_read_kind(const char *file, enum xk_graph_kind kind, struct xk_graph_errors *errors);
struct xk_graph *xk_graph_read_text_kind(const char *file, const char *text, size_t size, enum xk_graph_kind kind,
					 struct xk_graph_errors *errors);

/* The rest of xk_graph_load: takes graph (NULL is let through), and frees it if it is refused. */
struct xk_graph *xk_graph_finish(struct xk_graph *graph, const char *const *sets, unsigned set_count,
				 const struct xk_protocol_type *const *types, struct xk_graph_errors *errors);

/* Whether file begins as an undirected graph; false also if it cannot be read. */
bool xk_graph_file_is_network(const char *file);

/* Adds an error about a line of graph (0: about --set), and refuses the graph. */
__attribute__((format(printf, 4, 5))) void xk_graph_refuse(struct xk_graph *graph, struct xk_graph_errors *errors,
							   unsigned line, const char *format, ...);

/* The attribute called name, or NULL. */
struct xk_graph_attribute *xk_graph_attribute_find(const struct xk_graph_attributes *attributes, const char *name);

/* Sets attribute name (of no other in the list) to a copy of value. Returns it; valid until the next is added. */
struct xk_graph_attribute *xk_graph_attribute_add(struct xk_graph_attributes *attributes, const char *name,
						  const char *value, unsigned line);
/* Sets attribute name to a copy of value, in place of what there is. */
void xk_graph_attribute_put(struct xk_graph_attributes *attributes, const char *name, const char *value, unsigned line);
void xk_graph_attributes_clear(struct xk_graph_attributes *attributes);

/* The index of the node called name, or -1. */
int xk_graph_node_find(const struct xk_graph *graph, const char *name);

/*
 * list with room for one more after its first count of size bytes each, the new one zero. The process
 * ends where memory is exhausted; what a graph takes is bounded by the size of its file.
 */
void *xk_graph_grow(void *list, unsigned count, size_t size);
char *xk_graph_copy(const char *text);
__attribute__((format(printf, 1, 0))) char *xk_graph_format(const char *format, va_list arguments);

#endif
