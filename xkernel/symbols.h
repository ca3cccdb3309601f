/*
 * symbols.h - what the running program calls its functions and objects: for messages about mistakes, never on a message's way.
 *
 * The table is the executable's own (its ELF section .symtab), so static functions have their names too; a stripped
 * program has none, and every question is then answered with "unknown".
 */
#ifndef XK_SYMBOLS_H
#define XK_SYMBOLS_H

#include "xkernel/base.h"

struct xk_symbols;

struct xk_symbol {
	const char *name; /* as the compiler wrote it: may end in .cold, .part.0 and the like */
	const char *file; /* of a static one: its source file without the folders; NULL: unknown */
	uintptr_t start;
	size_t size;
};

/* Maps the executable's table. NULL: there is none. xk_symbols_free afterwards. Any thread; not for signal handlers. */
struct xk_symbols *xk_symbols_new(void);
void xk_symbols_free(struct xk_symbols *symbols);

/* Finds the function or object that address lies in. False: unknown. symbols may be NULL. */
bool xk_symbol_find(const struct xk_symbols *symbols, uintptr_t address, struct xk_symbol *symbol);

#endif
