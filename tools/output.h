/* output.h - what programs write, and what must not be lost by that. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>

/*
 * The last step of main, which returns its value: what was printed must have got there. status; where standard output cannot
 * be written, as on a full disk, that is told, and success becomes OPTIONS_FAILURE.
 */
int output_finish(int status);

/* Whether writing a file called output would write over the one called input. Then that is told. */
bool output_is_input(const char *program, const char *output, const char *input);

#endif
