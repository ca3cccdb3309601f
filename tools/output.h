/* output.h - what programs write, and what must not be lost by that. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>

/*
 * The first step of main: from now on control characters on stderr are printed as \xHH, whatever a message quotes (names of
 * files, values of options); see xk_graph_print_plain.
 */
void output_begin(void);

/* Prints a name on standard output, in the same way. */
void output_print_name(const char *name);

/*
 * Gives standard output away: returns its descriptor, or -1 and errno. What is printed there goes to standard error from
 * now on.
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
