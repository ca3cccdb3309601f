/*
 * lists.h - checks the lists that protocols declare, when a program starts: without its NULL, a list would be read
 * beyond its end.
 */
#ifndef LISTS_H
#define LISTS_H

#include <stdbool.h>

/*
 * Returns whether the lists `drops` and `counters` of every built-in protocol end with NULL. The lengths of the arrays
 * are those in the program's symbol table; a list whose length is unknown passes. Names bad lists on standard error.
 */
bool lists_are_good(const char *program);

#endif
