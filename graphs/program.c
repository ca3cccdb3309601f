/* program.c - for programs without a graph inside; a definition in one that `xk compile` made replaces this file. */
#include "graphs/graph.h"

const struct xk_graph_source *const xk_program_graph = NULL;
