/*
 * lists.h - checks the lists that protocols declare, when a program starts: a list without its NULL would be read
 * beyond its end.
 */
#ifndef LISTS_H
#define LISTS_H

#include <stdbool.h>

/*
 * Returns whether the lists `drops` and `counters` of every built-in protocol end with NULL; names bad ones on
 * standard error. The lengths of the arrays come from the program's symbol table; a list of unknown length passes.
 */
bool lists_are_good(const char *program);

#endif
