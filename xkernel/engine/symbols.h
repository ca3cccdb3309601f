/*
 * symbols.h - names of the running program's functions and objects, for error messages. Slow: not for the path of
 * messages.
 *
 * The names come from the executable's ELF section .symtab, which has static functions too. A stripped program has no
 * such section: every symbol is then unknown.
 */
#ifndef XK_SYMBOLS_H
#define XK_SYMBOLS_H

#include "xkernel/base.h"

struct xk_symbols;

struct xk_symbol {
	const char *name; /* the compiler's: may end in .cold, .part.0 and the like */
	const char *file; /* base name of the source file; static symbols only, else NULL */
	uintptr_t start;
	size_t size;
};

/*
 * Maps the executable's symbol table. NULL: there is none, or no memory. The caller frees it with xk_symbols_free. Any
 * thread; not for signal handlers.
 */
struct xk_symbols *xk_symbols_new(void);

/* Unmaps the table; names that were found in it go with it. symbols may be NULL. */
void xk_symbols_free(struct xk_symbols *symbols);

/* Finds the function or object that contains address. False: unknown. symbols may be NULL. */
bool xk_symbol_find(const struct xk_symbols *symbols, uintptr_t address, struct xk_symbol *symbol);

#endif
