/*
 * where.h - where a shepherd is: the host, the protocol and the crossing by which it came there, for messages about mistakes.
 *
 * Nothing of it is kept on the way of messages. The sessions that a shepherd is in are known to the engine; which
 * protocol's code it executes is read off its stack, by the functions' names (symbols.h).
 */
#ifndef XK_WHERE_H
#define XK_WHERE_H

#include <stdio.h>

#include "xkernel/base.h"

struct xk_kernel;
struct xk_protocol;

enum { XK_WHERE_FRAMES = 40 };

struct xk_where {
	struct xk_kernel *kernel; /* NULL: the thread is no shepherd */
	/* of the last crossing upward; NULL: none. under: what the session that was popped stands on */
	const struct xk_protocol *under, *below, *above;
	unsigned load; /* enum xk_load */
	unsigned count;
	uintptr_t frames[XK_WHERE_FRAMES]; /* innermost first: addresses within the calling instructions */
};

/* Notes where the calling thread is. For signal handlers too. */
void xk_where_note(struct xk_where *where);

/*
 * Prints it to out, in one line that goes on from "NAME: ": `host "b", protocol "asp" (handed a message by ip) ...; in asp_find <
 * asp_demux < ...`. verb says what it does ("computes"). While the kernel lives. Not for signal handlers.
 */
void xk_where_print(const struct xk_where *where, const char *verb, FILE *out);

/* Prints only the functions: " (asp_find < asp_demux < ...)", nothing where they have no names. As xk_where_print. */
void xk_where_print_functions(const struct xk_where *where, FILE *out);

#endif
