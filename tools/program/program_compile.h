/*
 * program_compile.h - makes programs with a graph inside, or with the user's own protocols (`xk compile`). Messages go
 * to standard error. Main thread only, before there are others.
 */
#ifndef PROGRAM_COMPILE_H
#define PROGRAM_COMPILE_H

#include <stdbool.h>

#include "tools/options.h"

/*
 * Makes the program `output` from the graph file (NULL: none) and the C files of `with`, which define protocols or are
 * parts of one. If `output` is called NAME.o, makes an object for a program of the user's own instead (xk_program_graph
 * in graphs/graph.h). Returns true on success.
 */
bool compile_to_file(const char *file, const struct options_texts *with, const char *output);

/*
 * Makes a program from the graph file and executes it with `command` (program.c), `what` unless NULL, and the arguments
 * after argv[0]. Leaves no file behind. Returns only on failure.
 */
void compile_exec(const char *file, const char *command, const char *what, int argc, char **argv);

#endif
