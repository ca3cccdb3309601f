/* program_none.c - for programs without a compiled graph; linking one replaces this file. */
#include "tools/program/program.h"

const struct xk_graph_compiled *const program_graph = NULL;
