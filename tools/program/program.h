/*
 * program.h - the programs, which are words of a compiled
 * graph's program (program.c), and where their graphs come from.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "graphs/compiled.h"
#include "tools/options.h"

int udptest_main(int argc, char **argv);
int chantest_main(int argc, char **argv);
int icmptest_main(int argc, char **argv);

/*
 * Returns the graph file to use: the one given or, if that is NULL, the usual one. A program that
 * was compiled of a graph has only that: returns NULL, after a message, if another one was given.
 */
const char *program_graph_file(const struct options_program *program, const char *given, const char *usual);

/* Reads the graph file, or the graph that the program was compiled of. As xk_graph_read. */
struct xk_graph *program_graph_read(const char *file, struct xk_graph_errors *errors);

/* As xk_graph_check. The graph that the program was compiled of then gets its compiled types. */
int program_graph_check(struct xk_graph *graph, bool watched, struct xk_graph_errors *errors);

/* Gives a checked graph the compiled types if it is the one that the program was compiled of. Returns whether it is. */
bool program_graph_adopt(struct xk_graph *graph, bool watched);

#endif
