/* program_none.c - a program that was not made of a graph. Alone here, since a compiled graph brings its own instead. */
#include "tools/program/program.h"

const struct xk_graph_compiled *const program_graph = NULL;
