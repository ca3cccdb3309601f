/*
 * program_compile.h - makes programs with a graph inside, or with protocols of the user's own (`xk compile`). Messages go
 * to standard error. Main thread only, before there are others.
 */
#ifndef PROGRAM_COMPILE_H
#define PROGRAM_COMPILE_H

#include <stdbool.h>

#include "tools/options.h"

/*
 * Makes the program `output` of the graph file (NULL: none) and the C files of `with`, which define protocols or are
 * parts of one; or an object for a program of the user's own (xk_program_graph in graphs/graph.h) if that is called
 * NAME.o. Returns true on success.
 */
bool compile_make(const char *file, const struct options_texts *with, const char *output);

/*
 * Makes a program of the graph file and executes it with `word` (program.c), `what` unless NULL, and the arguments after
 * argv[0]. Leaves no file behind. Returns only on failure.
 */
void compile_exec(const char *file, const char *word, const char *what, int argc, char **argv);

#endif
