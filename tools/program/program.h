/*
 * program.h - programs that have a main each, and together are what a compiled graph's program can do (program.c).
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "graphs/compiled.h"
#include "tools/options.h"

int udptest_main(int argc, char **argv);
int chantest_main(int argc, char **argv);
int icmptest_main(int argc, char **argv);

/*
 * The graph file that is meant: the one given, or if that is NULL the usual one. A program that was made of a graph has that
 * alone. NULL: another was given; that is misuse, and has been told.
 */
const char *program_graph_file(const struct options_program *program, const char *given, const char *usual);

/*
 * Reads the graph file, or the one that the program was made of, of which file is then only the name in messages. As
 * xk_graph_read.
 */
struct xk_graph *program_graph_read(const char *file, struct xk_graph_errors *errors);

/* As xk_graph_check; then a program's own graph takes its compiled types on. */
int program_graph_check(struct xk_graph *graph, bool watched, struct xk_graph_errors *errors);

/* A checked graph takes the program's own types on if it is the program's own; whether it is. */
bool program_graph_adopt(struct xk_graph *graph, bool watched);

#endif
