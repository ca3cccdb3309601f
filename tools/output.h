/* output.h - what programs write, and what must not be lost by that. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>

/*
 * The first step of main: from now on, control characters in text for stderr are printed as \xHH, since messages quote
 * names of files and values of options; see xk_graph_print_plain. Without memory stderr stays as it is.
 */
void output_begin(void);

/* Prints a name on standard output in the same way. */
void output_print_name(const char *name);

/*
 * Gives standard output away: returns a descriptor for it, which the caller closes, or -1 and errno. From now on, what
 * is printed on standard output goes to standard error.
 */
int output_take(void);

/*
 * The last step of main, which returns its value: what was printed must have got there. status; where standard output cannot
 * be written, as on a full disk, that is told, and success becomes OPTIONS_FAILURE.
 */
int output_finish(int status);

/* Whether writing a file called output would write over the one called input. Then that is told. */
bool output_is_input(const char *program, const char *output, const char *input);

#endif
