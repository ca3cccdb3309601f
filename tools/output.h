/* output.h - what programs write, so that nothing of it is lost and nothing in it harms a terminal. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

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
 * The last step of main, which returns its value: status. If standard output could not be written, as on a full disk,
 * prints that, and success becomes OPTIONS_FAILURE.
 */
int output_finish(int status);

/* Opens a file to be written, as the value of an option: "-" is standard output. NULL: errno says why. */
FILE *output_open(const char *file);

/*
 * Closes a stream of output_open; standard output is only flushed. False: it is NULL, or not all was written (errno).
 */
bool output_close(FILE *stream);

/* Returns whether writing the file `output` would overwrite the file `input`, after a message if so. */
bool output_is_input(const char *program, const char *output, const char *input);

#endif
