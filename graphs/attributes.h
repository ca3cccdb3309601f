/* attributes.h - checking what is written on the graph, its nodes and its edges. For check.c. */
#ifndef XK_GRAPH_ATTRIBUTES_H
#define XK_GRAPH_ATTRIBUTES_H

#include "graphs/graph.h"

/* A check under way. */
struct attributes_check {
	struct xk_graph *graph;
	const struct xk_protocol_type *const *types;
	struct xk_graph_errors *errors;
};

/* Where an attribute may stand. */
enum attributes_where { ATTRIBUTES_GRAPH = 1 << 0, ATTRIBUTES_NODE = 1 << 1, ATTRIBUTES_EDGE = 1 << 2 };

/* Adds an error at line (0: from --set), and refuses the graph. */
__attribute__((format(printf, 3, 4))) void attributes_refuse(struct attributes_check *check, unsigned line,
							     const char *format, ...);

/* Graph first (nodes begin with its policy), then nodes once their type is known, then edges. */
void attributes_check_graph(struct attributes_check *check);
void attributes_check_node(struct attributes_check *check, struct xk_graph_node *node);
void attributes_check_edge(struct attributes_check *check, struct xk_graph_edge *edge);

/* Whether name is a drawing attribute of graphviz there. */
bool attributes_draws(enum attributes_where where, const char *name);

/* The setting called name, or NULL; settings may be NULL. */
const struct xk_setting *attributes_find_setting(const struct xk_setting *settings, const char *name);

/* Refuses a, the value of a setting, if it is not what the setting takes. of: what it stands on, in errors. */
void attributes_check_setting(struct attributes_check *check, const char *of, const struct xk_setting *setting,
			      const struct xk_graph_attribute *a);

/* The candidate (NULL ends them) that name is probably meant to be, a few letters differing; or NULL. */
const char *attributes_suggest(const char *name, const char *const *candidates);

#endif
