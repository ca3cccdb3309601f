/* attributes.h - checks the attributes of a graph, its nodes and its edges. For the files of graphs/. */
#ifndef XK_GRAPH_ATTRIBUTES_H
#define XK_GRAPH_ATTRIBUTES_H

#include "graphs/graph.h"

/* State of a check. */
struct attributes_check {
	struct xk_graph *graph;
	const struct xk_protocol_type *const *types;
	struct xk_graph_errors *errors;
};

/* The places where an attribute may appear. */
enum attributes_where { ATTRIBUTES_GRAPH = 1 << 0, ATTRIBUTES_NODE = 1 << 1, ATTRIBUTES_EDGE = 1 << 2 };

/* Adds an error at line (0: from --set), and refuses the graph. */
#define attributes_refuse(check, line, ...) xk_graph_refuse((check)->graph, (check)->errors, (line), __VA_ARGS__)

/* Check the graph first (nodes start from its policy), then nodes, whose types are known, then edges. */
void attributes_check_graph(struct attributes_check *check);
void attributes_check_node(struct attributes_check *check, struct xk_graph_node *node);
void attributes_check_edge(struct attributes_check *check, struct xk_graph_edge *edge);

/* Returns true if name is a drawing attribute of graphviz there. */
bool attributes_draws(enum attributes_where where, const char *name);

/* Returns the setting called name, or NULL; settings may be NULL. */
const struct xk_setting *attributes_find_setting(const struct xk_setting *settings, const char *name);

/* Refuses a, the value of a setting, if its text is invalid. of: the attribute's owner, for errors. */
void attributes_check_setting(struct attributes_check *check, const char *of, const struct xk_setting *setting,
			      const struct xk_graph_attribute *a);

/* An address of a host that a node's settings give; all 0 at first. */
struct attributes_address {
	unsigned node, setting; /* indexes at which the search continues */
	unsigned number;        /* index, from 1, among the addresses that the node can have */
	const struct xk_graph_attribute *attribute;
	struct xk_network network;
};

/* Finds the next address in graph, whose nodes have their types. Returns false if there is none. */
bool attributes_next_address(const struct xk_graph *graph, struct attributes_address *at);

/* ---- did you mean ---- */

/* The known name that was probably meant by an unknown one. Initialize with .name = the unknown one. */
struct attributes_guess {
	const char *name;
	const char *found; /* NULL: no known name is similar */
	unsigned distance;
	char text[96];
};

/* Takes candidate as the guess if it differs in few letters, and in fewer than the last guess. */
void attributes_guess_try(struct attributes_guess *guess, const char *candidate);
/* Does the same for the names of settings, which may be NULL. */
void attributes_guess_try_settings(struct attributes_guess *guess, const struct xk_setting *settings);

/* Returns " (did you mean "NAME"?)", or "". Valid as long as guess. */
const char *attributes_guess_text(struct attributes_guess *guess);

#endif
