/* input.h - files that a program reads, among them standard input and pipes. */
#ifndef INPUT_H
#define INPUT_H

/*
 * Returns the name under which `file` can be read any number of times, from its beginning, also by programs that this
 * one starts. `-` is standard input. A pipe or terminal is read now, and its descriptor becomes one of a copy in
 * memory, of at most INPUT_MAX bytes. Returns `file` itself for every other file, and if it cannot be copied. Not for
 * several threads at once.
 */
const char *input_file(const char *file);

enum { INPUT_MAX = 16 << 20 };

#endif
