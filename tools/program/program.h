/* program.h - programs that a compiled graph's program has as words (program.c), and where their graphs come from. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "graphs/compiled.h"
#include "tools/options.h"

int udptest_main(int argc, char **argv);
int chantest_main(int argc, char **argv);
int icmptest_main(int argc, char **argv);

/*
 * Returns the graph file to use: the one given or, if that is NULL, the usual one. A compiled graph's program has only
 * its own: returns NULL after a message if another was given.
 */
const char *program_graph_file(const struct options_program *program, const char *given, const char *usual);

/* As xk_graph_read, of the file or of the graph that the program was compiled from. */
struct xk_graph *program_graph_read(const char *file, struct xk_graph_errors *errors);

/* As xk_graph_check; then gives the graph that the program was compiled from its compiled types. */
int program_graph_check(struct xk_graph *graph, bool watched, struct xk_graph_errors *errors);

/* Gives a checked graph the compiled types and returns true, if the program was compiled from it. */
bool program_graph_adopt(struct xk_graph *graph, bool watched);

#endif
