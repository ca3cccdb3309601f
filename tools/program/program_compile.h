/*
 * program_compile.h - compiles graph files to programs (`xk compile`). Messages go to standard error. Main thread only,
 * before there are others.
 */
#ifndef PROGRAM_COMPILE_H
#define PROGRAM_COMPILE_H

#include <stdbool.h>

/*
 * Compiles the graph file to the program `output`, or to an object that defines program_graph (graphs/compiled.h) if
 * that is called NAME.o, and writes its C to the file `emit` ("-": standard output). Either may be NULL. Returns true
 * on success.
 */
bool compile_make(const char *file, const char *output, const char *emit);

/*
 * Compiles the graph file and executes the program with `word` (program.c), `what` unless NULL, and the arguments after
 * argv[0]. Leaves no file behind. Returns only on failure.
 */
void compile_exec(const char *file, const char *word, const char *what, int argc, char **argv);

#endif
