/* output.h - the files that programs write, and names on standard output, which must not control a terminal. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* Prints a name on standard output, with control characters as \xHH. */
void output_print_name(const char *name);

/*
 * Takes over standard output: returns a descriptor for it, which the caller closes, or -1 with errno set. From now on,
 * text printed on standard output goes to standard error.
 */
int output_take_stdout(void);

/* Creates a file in memory, to write and read. Returns NULL with errno set on failure. */
FILE *output_memory(void);

/*
 * Opens a file for writing, as specified by an option: "-" is standard output. Returns NULL with errno set on failure.
 */
FILE *output_open(const char *file);

/*
 * Closes a stream of output_open; standard output is only flushed. Returns false if stream is NULL, or if a write
 * failed (errno).
 */
bool output_close(FILE *stream);

/* Returns true, after a message, if writing the file `output` would overwrite the file `input`. */
bool output_is_input(const char *program, const char *output, const char *input);

#endif
