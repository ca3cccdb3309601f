/* program_none.c - for programs that are not compiled of a graph; a compiled graph replaces this file in the link. */
#include "tools/program/program.h"

const struct xk_graph_compiled *const program_graph = NULL;
