/*
 * graph.h - graph files: reads a DOT digraph, checks it against the built-in protocols, and composes them.
 *
 * A program that needs a host calls xk_graph_compose. A program that inspects the graph itself does
 *
 *	struct xk_graph_errors errors = { 0 };
 *	struct xk_graph *graph = xk_graph_load(file, sets, set_count, xk_protocol_types, &errors);
 *
 *	if (graph == NULL || xk_graph_build(graph, kernel, &errors) != 0)
 *		xk_graph_errors_print(&errors, stderr);
 *	xk_graph_errors_clear(&errors);
 *	xk_graph_free(graph);
 *
 * xk_graph_load reads, sets and checks. Every error that can be found is collected, as "file:line: what" with the names
 * concerned. docs/graphs.md describes the language.
 */
#ifndef XK_GRAPH_H
#define XK_GRAPH_H

#include <stdarg.h>
#include <stdio.h>

#include "xkernel/protocol.h"

struct xk_kernel;

/* Limits; a file that exceeds one is refused. */
enum {
	XK_GRAPH_FILE_MAX = 1 << 20,
	XK_GRAPH_NODES_MAX = 1000,
	XK_GRAPH_EDGES_MAX = 4000,
	XK_GRAPH_ATTRIBUTES_MAX = 256, /* different names in one file */
	XK_GRAPH_NESTING_MAX = 64,     /* of subgraphs */
	XK_GRAPH_NAME_MAX = 63,        /* of a node */
	XK_GRAPH_ERRORS_MAX = 100,     /* maximum kept; further ones are only counted */
	XK_GRAPH_NOTE = 96,            /* size of a note's row, with its NUL */
	XK_GRAPH_NOTE_ROWS = 6,
};

/* ---- errors ---- */

struct xk_graph_error {
	unsigned line;
	char *text; /* "file:line: what" */
};

/* All zero at first. */
struct xk_graph_errors {
	struct xk_graph_error *list;
	unsigned count; /* in list */
	unsigned more;  /* not kept */
};

/* Adds an error; line 0: unknown, or none. */
__attribute__((format(printf, 4, 5))) void xk_graph_errors_add(struct xk_graph_errors *errors, const char *file,
							       unsigned line, const char *format, ...);

/* The same with a va_list. */
__attribute__((format(printf, 4, 0))) void xk_graph_errors_add_list(struct xk_graph_errors *errors, const char *file,
								    unsigned line, const char *format,
								    va_list arguments);

/*
 * Prints untrusted text, such as a file's name, with control characters as \xHH, which a terminal does not interpret.
 * Keeps newlines if `lines` is set.
 */
void xk_graph_print_plain(const char *text, size_t len, bool lines, FILE *stream);

/* Prints the errors, one per line, in the order of their lines. */
void xk_graph_errors_print(const struct xk_graph_errors *errors, FILE *stream);

/* Frees the errors; the struct can be used again. */
void xk_graph_errors_clear(struct xk_graph_errors *errors);

/* ---- a graph, as data ---- */

struct xk_graph_attribute {
	char *name, *value;
	unsigned line; /* 0: from --set */
	bool html;     /* the value was written as <...> */
};

struct xk_graph_attributes {
	struct xk_graph_attribute *list;
	unsigned count;
};

/* A node's policy; the graph's is the default for nodes. */
struct xk_graph_policy {
	enum xk_implicit implicit;
	uint64_t spin_ns; /* for XK_IMPLICIT_SPIN */
	enum xk_resume resume;
	int trace_level;      /* enum xk_trace_level */
	bool order_session;   /* nodes only */
	unsigned session_max; /* nodes only; 0: the type's */
};

/* Budget of the graph or of an edge. */
struct xk_graph_budget {
	uint64_t budget_ns; /* 0: none */
	unsigned carry;
};

enum xk_graph_kind {
	XK_GRAPH_PROTOCOLS, /* a digraph: the protocols of a host, upper -> lower */
	XK_GRAPH_NETWORK,   /* an undirected graph: hosts and links (topology.h) */
};

enum xk_graph_handoff { XK_GRAPH_AS_POLICY, XK_GRAPH_EXPLICIT, XK_GRAPH_NEVER };

struct xk_graph_node {
	char *name;
	unsigned line;     /* of its first occurrence */
	unsigned sequence; /* position among the nodes, by first occurrence, from 0 */
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
	unsigned sequence; /* position among the edges, as written, from 0 */
	struct xk_graph_attributes attributes;
	/* from xk_graph_check */
	const struct xk_role *role; /* NULL: no role found */
	enum xk_graph_handoff handoff;
	struct xk_graph_budget budget;
	bool has_number;
	uint32_t number; /* number=N, the upper's on every lower that is reached by this edge */
};

struct xk_graph {
	char *file;
	enum xk_graph_kind kind;
	unsigned line; /* of `digraph`, or `graph` */
	struct xk_graph_attributes attributes;
	struct xk_graph_node *nodes; /* by name */
	unsigned node_count;
	struct xk_graph_edge *edges; /* by upper, then as written */
	unsigned edge_count;
	bool refused; /* an error was found in the graph */
	/* from xk_graph_check */
	bool checked;
	struct xk_graph_policy policy;
	struct xk_graph_budget budget;
	bool no_paths;   /* paths=no */
	unsigned *order; /* the nodes, lowers before uppers, otherwise by name */
};

/*
 * Reads file, or the program's own graph (xk_program_graph) if that has this name. Returns NULL, with the reason in
 * errors, if there is no graph in it. A graph with errors (graph->refused) may be returned, so that xk_graph_check can
 * find more; it refuses such a graph in any case.
 */
struct xk_graph *xk_graph_read(const char *file, struct xk_graph_errors *errors);

/* Reads a graph like xk_graph_read, but from size bytes of text; file is the name in errors. */
struct xk_graph *xk_graph_read_text(const char *file, const char *text, size_t size, struct xk_graph_errors *errors);

/*
 * Sets an attribute like --set on a command line: "node.attribute=value", or "graph.attribute=value" for the graph.
 * Call before xk_graph_check, which checks the value. Returns 0, or -EINVAL: not of this form, or no such node.
 */
int xk_graph_set(struct xk_graph *graph, const char *text, struct xk_graph_errors *errors);

/*
 * Checks graph against types and fills in the fields that come from xk_graph_check. NULL terminates the types; among
 * types of one name the last wins; they must outlive the graph. Returns 0, or -EINVAL with the reasons in errors.
 */
int xk_graph_check(struct xk_graph *graph, const struct xk_protocol_type *const *types, struct xk_graph_errors *errors);

/* Reads, sets and checks. Returns NULL, with the reasons in errors, if the graph is refused. */
struct xk_graph *xk_graph_load(const char *file, const char *const *sets, unsigned set_count,
			       const struct xk_protocol_type *const *types, struct xk_graph_errors *errors);

/*
 * Composes the kernel's protocols from a checked graph; the caller continues with xk_kernel_init. Returns 0, or -ENOMEM
 * or -EINVAL with the reasons in errors; the kernel may then only be freed (xk_kernel_free).
 */
int xk_graph_build(const struct xk_graph *graph, struct xk_kernel *kernel, struct xk_graph_errors *errors);

/* The composition of a kernel, for a program that does not inspect the graph itself. */
struct xk_graph_source {
	const char *file;        /* the graph file; with text, its name in errors, or NULL */
	const char *text;        /* the graph itself; NULL: read the file */
	const char *const *sets; /* for xk_graph_set; NULL terminates them, or means none */
	/* The program's own types, preferred to built-in ones; they outlive the kernel. Terminated like sets. */
	const struct xk_protocol_type *const *types;
};

/*
 * The graph inside a program or an object NAME.o that `xk compile` made, with its file's name and text, or NULL.
 * xk_graph_read finds it by that name, and xk_protocol_types has the protocols compiled with it.
 */
extern const struct xk_graph_source *const xk_program_graph;

/* Returns the name of the graph to use: the given one or, if that is NULL, the program's own or the usual one. */
const char *xk_graph_file(const char *given, const char *usual);

/*
 * Reads, sets, checks, composes and initializes (xk_kernel_init). kernel has its ports and no protocols. Prints errors
 * to stream, one per line (NULL: nowhere). Returns 0; -EINVAL: refused; -ENOMEM; or the error of a protocol's init.
 * After an error the kernel may only be freed (xk_kernel_free); a kernel that was already composed is unchanged.
 */
int xk_graph_compose(const struct xk_graph_source *source, struct xk_kernel *kernel, FILE *stream);

/* Writes a checked graph as DOT, for drawing, with handoffs, budgets and policies. Text is escaped. */
void xk_graph_draw(const struct xk_graph *graph, FILE *stream);

/* Additional contents of a picture for a node or an edge. */
struct xk_graph_note {
	char rows[XK_GRAPH_NOTE_ROWS][XK_GRAPH_NOTE]; /* text; terminated by an empty row */
	double heat;                                  /* 0 to 1: the node's colour; below 0: the usual colour */
};

/* Fill in the notes. At first a note has no rows and a heat below 0, which shows nothing more. */
struct xk_graph_notes {
	void (*title)(const struct xk_graph_notes *self, struct xk_graph_note *note);
	void (*node)(const struct xk_graph_notes *self, const char *name, struct xk_graph_note *note);
	void (*edge)(const struct xk_graph_notes *self, const char *upper, const char *lower, const char *role,
		     struct xk_graph_note *note);
};

/* The same with notes. */
void xk_graph_draw_noted(const struct xk_graph *graph, const struct xk_graph_notes *notes, FILE *stream);

/* Frees graph, which may be NULL. */
void xk_graph_free(struct xk_graph *graph);

/* ---- for the files of graphs/ ---- */

/* Read like xk_graph_read and xk_graph_read_text, but either kind. */
struct xk_graph *xk_graph_read_kind(const char *file, enum xk_graph_kind kind, struct xk_graph_errors *errors);
struct xk_graph *xk_graph_read_text_kind(const char *file, const char *text, size_t size, enum xk_graph_kind kind,
					 struct xk_graph_errors *errors);

/* Does the rest of xk_graph_load: takes graph, which may be NULL, and frees it if it is refused. */
struct xk_graph *xk_graph_finish(struct xk_graph *graph, const char *const *sets, unsigned set_count,
				 const struct xk_protocol_type *const *types, struct xk_graph_errors *errors);

/* Returns true if file begins as an undirected graph; false also if it cannot be read. */
bool xk_graph_file_is_network(const char *file);

/* Adds an error about a line of graph (0: about --set), and refuses the graph. */
__attribute__((format(printf, 4, 5))) void xk_graph_refuse(struct xk_graph *graph, struct xk_graph_errors *errors,
							   unsigned line, const char *format, ...);

/* Returns the attribute called name, or NULL. */
struct xk_graph_attribute *xk_graph_attribute_find(const struct xk_graph_attributes *attributes, const char *name);

/* Adds attribute name, which is not in the list, with a copy of value. Returns it; valid until the next is added. */
struct xk_graph_attribute *xk_graph_attribute_add(struct xk_graph_attributes *attributes, const char *name,
						  const char *value, unsigned line);
/* Sets attribute name to a copy of value, replacing any old value. */
void xk_graph_attribute_put(struct xk_graph_attributes *attributes, const char *name, const char *value, unsigned line);
/* Removes attribute name, if it is in the list. */
void xk_graph_attribute_remove(struct xk_graph_attributes *attributes, const char *name);
void xk_graph_attributes_clear(struct xk_graph_attributes *attributes);

/* Returns the index of the node called name, or -1. */
int xk_graph_node_find(const struct xk_graph *graph, const char *name);

/*
 * Returns list with room for one more element of size bytes, zeroed, after its first count. Ends the process if memory
 * is exhausted; the size of a file bounds its graph's memory.
 */
void *xk_graph_grow(void *list, unsigned count, size_t size);
char *xk_graph_copy(const char *text);
__attribute__((format(printf, 1, 0))) char *xk_graph_format(const char *format, va_list arguments);

#endif
