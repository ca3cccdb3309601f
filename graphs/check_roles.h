/* check_roles.h - assigns a role to each edge of a node, and checks that its lower suits the role. For check.c. */
#ifndef XK_CHECK_ROLES_H
#define XK_CHECK_ROLES_H

#include "graphs/attributes.h"

/*
 * Gives each edge of node its role, and lists the edges in node->lowers. Refuses lowers that are missing, too many or
 * unsuitable. first_edge: by node, the index of its first edge in the graph's list; one more at the end.
 */
void check_roles(struct attributes_check *check, struct xk_graph_node *node, const unsigned *first_edge);

/* Refuses a second upper of a node that takes only one. */
void check_one_upper(struct attributes_check *check, unsigned node);

static inline const char *
check_name(const struct attributes_check *check, unsigned node)
{
	return check->graph->nodes[node].name;
}

/* Returns the edge that is written later. */
static inline const struct xk_graph_edge *
check_later(const struct xk_graph_edge *a, const struct xk_graph_edge *b)
{
	return a->line > b->line ? a : b;
}

#endif
