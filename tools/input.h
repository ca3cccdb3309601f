/* input.h - files that a program reads, including standard input and pipes. */
#ifndef INPUT_H
#define INPUT_H

/*
 * Returns a name under which `file` can be read any number of times, from its start, also by child processes. `-` is
 * standard input. A pipe or terminal is read now, and its descriptor becomes one of a copy in memory, of at most
 * INPUT_MAX bytes. Returns `file` itself for every other file, or if it cannot be copied. Not thread-safe.
 */
const char *input_file(const char *file);

enum { INPUT_MAX = 16 << 20 };

#endif
