/*
 * program_compile.h - compiles graph files to programs (`xk compile`). Messages go to standard error. Main thread only,
 * before there are others.
 */
#ifndef PROGRAM_COMPILE_H
#define PROGRAM_COMPILE_H

#include <stdbool.h>

/*
 * Makes the program `output` of the graph file (or, if output is called NAME.o, an
 * object that defines program_graph, see graphs/compiled.h), and writes its C to the
 * file `emit`, - for standard output. Either may be NULL. Returns whether it succeeded.
 */
bool compile_make(const char *file, const char *output, const char *emit);

/*
 * Compiles the graph file and executes the program as its `word` (program.c), followed by `what` unless that is NULL,
 * and by argv[1] on. Leaves no file behind. Returns only if that fails.
 */
void compile_exec(const char *file, const char *word, const char *what, int argc, char **argv);

#endif
