/* attributes.h - checking what is written on a graph, its nodes and its edges. For the files of graphs/. */
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
#define attributes_refuse(check, line, ...) xk_graph_refuse((check)->graph, (check)->errors, (line), __VA_ARGS__)

/* Check the graph first (nodes begin with its policy), then nodes, whose types are known, then edges. */
void attributes_check_graph(struct attributes_check *check);
void attributes_check_node(struct attributes_check *check, struct xk_graph_node *node);
void attributes_check_edge(struct attributes_check *check, struct xk_graph_edge *edge);

/* Whether name is a drawing attribute of graphviz there. */
bool attributes_draws(enum attributes_where where, const char *name);

/* Returns the setting called name, or NULL; settings may be NULL. */
const struct xk_setting *attributes_find_setting(const struct xk_setting *settings, const char *name);

/* Refuses a, the value of a setting, if it is not what the setting takes. of: what it stands on, in errors. */
void attributes_check_setting(struct attributes_check *check, const char *of, const struct xk_setting *setting,
			      const struct xk_graph_attribute *a);

/* An address of a host that a node's settings give; begins as zeroes. */
struct attributes_address {
	unsigned node, setting; /* where the search goes on: indexes */
	unsigned number;        /* among the addresses that the node can have */
	const struct xk_graph_attribute *attribute;
	struct xk_network network;
};

/* Finds the next address in graph, whose nodes have their types. False: there is none. */
bool attributes_next_address(const struct xk_graph *graph, struct attributes_address *at);

/* ---- did you mean ---- */

/* The known name that an unknown one is probably meant to be. Begins as { .name = the unknown one }. */
struct attributes_guess {
	const char *name;
	const char *found; /* NULL: nothing is near */
	unsigned distance;
	char text[96];
};

/* Takes candidate as the guess if it is nearer than the last one: a few letters differ. */
void attributes_consider(struct attributes_guess *guess, const char *candidate);
/* The same with the names of settings, which may be NULL. */
void attributes_consider_settings(struct attributes_guess *guess, const struct xk_setting *settings);

/* Returns " (did you mean "NAME"?)", or nothing. Valid as long as guess. */
const char *attributes_guessed(struct attributes_guess *guess);

#endif
