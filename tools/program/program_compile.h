/*
 * program_compile.h - programs of graph files (`xk compile`). Everything is for the main thread, before others are there. What goes
 * wrong is told on standard error.
 */
#ifndef PROGRAM_COMPILE_H
#define PROGRAM_COMPILE_H

#include <stdbool.h>

/*
 * Makes a program of the graph file (or, if output is called NAME.o, an object that defines program_graph, tools/program.h), and
 * writes the C that it is made of; either may be NULL. emit is a file, or - for standard
 * output.
 */
bool compile_make(const char *file, const char *output, const char *emit);

/*
 * Goes on as a program that is made of the graph file: as its `word` (program.c), and, unless that is NULL, that one's `what`,
 * with the arguments after argv[0]. The program leaves nothing behind. Returns only if that could not be.
 */
void compile_exec(const char *file, const char *word, const char *what, int argc, char **argv);

#endif
