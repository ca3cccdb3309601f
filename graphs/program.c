/*
 * program.c - for programs without a graph inside. In a program that `xk compile` made, another definition replaces it.
 */
#include "graphs/graph.h"

const struct xk_graph_source *const xk_program_graph = NULL;
