/*
 * where.h - locates a shepherd for error messages: the host, the protocol, and the crossing by which it got there.
 *
 * Costs messages nothing. The engine knows the sessions that a shepherd is in. The protocol whose code it executes is
 * found on its stack, by the names of functions. Names come from the executable's ELF section .symtab, which includes
 * static functions; in a stripped program every symbol is unknown.
 */
#ifndef XK_WHERE_H
#define XK_WHERE_H

#include <stdio.h>

#include "xkernel/base.h"

struct xk_kernel;
struct xk_protocol;
struct xk_protocol_type;

enum { XK_WHERE_FRAMES = 40 };

struct xk_where {
	struct xk_kernel *kernel; /* NULL: the thread is no shepherd */
	/* protocols of the last crossing upward; under: the one below `below`. NULL: none */
	const struct xk_protocol *under, *below, *above;
	unsigned load; /* enum xk_load */
	unsigned count;
	uintptr_t frames[XK_WHERE_FRAMES]; /* innermost first: addresses within the call instructions */
};

/* Records where the calling thread is. May be called in signal handlers. */
void xk_where_note(struct xk_where *where);

/*
 * Prints where, without a newline, as the rest of a line: `host "b", protocol "asp" VERB, crossing "ip" -> "asp"
 * upward, in its operation demux (asp_find < asp_demux < ...)`. The kernel must still exist. Not for signal handlers.
 */
void xk_where_print(const struct xk_where *where, const char *verb, FILE *out);

/* Returns the type whose code the thread executes, or NULL. As xk_where_print. */
const struct xk_protocol_type *xk_where_type(const struct xk_where *where);

/* Prints only the functions: " (asp_find < asp_demux < ...)"; nothing if none has a name. As xk_where_print. */
void xk_where_print_functions(const struct xk_where *where, FILE *out);

enum { XK_WHERE_FUNCTION = 64 /* bytes that xk_where_function needs */ };

/* Writes the name of the function that contains address; "?": unknown. Returns name. As xk_where_print. */
char *xk_where_function(uintptr_t address, char name[XK_WHERE_FUNCTION]);

/* ---- names of the running program's functions and objects; slow ---- */

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

/* Unmaps the table, and with it the names that were found there. symbols may be NULL. */
void xk_symbols_free(struct xk_symbols *symbols);

/* Finds the function or object that contains address. False: unknown. symbols may be NULL. */
bool xk_symbol_find(const struct xk_symbols *symbols, uintptr_t address, struct xk_symbol *symbol);

#endif
