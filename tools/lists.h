/*
 * lists.h - a look at the lists that protocols declare, for the start of a program: one whose NULL is missing would be read on
 * into whatever lies behind it.
 */
#ifndef LISTS_H
#define LISTS_H

#include <stdbool.h>

/*
 * Whether the lists `drops` and `counters` of every protocol that was built in end, as far as their lengths can be known: they are
 * the sizes that the program's table of symbols gives to the arrays. What is wrong is printed on standard error.
 */
bool lists_are_good(const char *program);

#endif
