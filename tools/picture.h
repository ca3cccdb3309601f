/* picture.h - lays out graphs by graphviz's dot: a process of its own, because its library leaks. */
#ifndef PICTURE_H
#define PICTURE_H

#include <stdio.h>

enum { PICTURE_WHY = 160 };

/*
 * Writes the picture of a DOT text, in a stream of output_memory (NULL: errno says why there is none), to out. format: of
 * dot, such as "svg". Returns 0, or -errno with the reason in why. Main thread.
 */
int picture_write(FILE *text, const char *format, FILE *out, char *why, size_t size);

#endif
