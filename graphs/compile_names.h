/*
 * compile_names.h - the names that a protocol's file has to itself, so that it can be there several times in one translation unit.
 * For compile.c.
 */
#ifndef XK_COMPILE_NAMES_H
#define XK_COMPILE_NAMES_H

#include <stdbool.h>
#include <stdio.h>

/* All zero at first. */
struct compile_names {
	char **list;
	unsigned count;
};

/*
 * The names in the text of protocols/TYPE.c that begin with TYPE_ or xk_type_TYPE, in lower or upper case, and TYPE itself. False:
 * it includes another header of protocols/, with which names are shared.
 */
bool compile_names_find(struct compile_names *names, const char *text, const char *type);
void compile_names_clear(struct compile_names *names);

/* Lines that give each name a number from here on, and that take it away again. */
void compile_names_begin(const struct compile_names *names, unsigned number, FILE *stream);
void compile_names_end(const struct compile_names *names, FILE *stream);

#endif
