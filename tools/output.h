/* output.h - the files that programs write, and names on standard output that must not harm a terminal. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* Prints a name on standard output, control characters in it as \xHH. */
void output_print_name(const char *name);

/*
 * Gives standard output away: returns a descriptor for it, which the caller closes, or -1 and errno. From now on, what
 * is printed on standard output goes to standard error.
 */
int output_take(void);

/* Makes a file in memory, to write and read. NULL: errno says why. */
FILE *output_memory(void);

/* Opens a file to be written, as the value of an option: "-" is standard output. NULL: errno says why. */
FILE *output_open(const char *file);

/*
 * Closes a stream of output_open; standard output is only flushed. False: it is NULL, or not all was written (errno).
 */
bool output_close(FILE *stream);

/* Returns whether writing the file `output` would overwrite the file `input`, after a message if so. */
bool output_is_input(const char *program, const char *output, const char *input);

#endif
