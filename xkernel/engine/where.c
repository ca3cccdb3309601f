/*
 * where.c - see where.h.
 *
 * A function belongs to a protocol if it is one of its operations, or if its name says so: it begins with the type's
 * name and an underscore, and the name of its file begins with the type's name.
 */
#include "xkernel/engine/where.h"

#include <string.h>
#include <unwind.h>

#include "xkernel/engine/engine.h"
#include "xkernel/engine/symbols.h"
#include "xkernel/protocol.h"

enum { WHERE_SHOWN = 8 /* functions in a report, at most */ };

/* ---- noting ---- */

static _Unwind_Reason_Code
where_note_frame(struct _Unwind_Context *context, void *argument)
{
	struct xk_where *where = argument;
	int before = 0;
	uintptr_t address = _Unwind_GetIPInfo(context, &before);

	if (address == 0 || where->count == XK_WHERE_FRAMES)
		return _URC_END_OF_STACK;
	/* A call may be the last instruction of its function: the return address then lies in the next function. */
	where->frames[where->count++] = before ? address : address - 1;
	return _URC_NO_REASON;
}

void
xk_where_note(struct xk_where *where)
{
	const struct xk_shepherd *self = xk_self();

	*where = (struct xk_where){ .load = XK_LOAD_MESSAGE };
	if (self != NULL) {
		const struct xk_session *popped = self->head.popped;

		where->kernel = self->kernel;
		where->load = self->load;
		if (popped != NULL) {
			where->under = popped->lls == NULL ? NULL : popped->lls->protocol;
			where->below = popped->protocol;
			where->above = xk_hlp_receive(popped);
		}
	}
	_Unwind_Backtrace(where_note_frame, where);
}

/* ---- which protocol a function belongs to ---- */

struct where_verb {
	const char *name;
	size_t offset; /* in the operations */
	bool down;
};

static const struct where_verb where_protocol_verbs[] = {
	{ "init", offsetof(struct xk_protocol_ops, init), false },
	{ "fini", offsetof(struct xk_protocol_ops, fini), false },
	{ "open", offsetof(struct xk_protocol_ops, open), true },
	{ "open_enable", offsetof(struct xk_protocol_ops, open_enable), true },
	{ "open_disable", offsetof(struct xk_protocol_ops, open_disable), true },
	{ "open_done", offsetof(struct xk_protocol_ops, open_done), false },
	{ "close_done", offsetof(struct xk_protocol_ops, close_done), false },
	{ "demux", offsetof(struct xk_protocol_ops, demux), false },
	{ "call_demux", offsetof(struct xk_protocol_ops, call_demux), false },
	{ "control", offsetof(struct xk_protocol_ops, control), true },
	{ .name = NULL },
};

static const struct where_verb where_session_verbs[] = {
	{ "push", offsetof(struct xk_session_ops, push), true },
	{ "pop", offsetof(struct xk_session_ops, pop), false },
	{ "call", offsetof(struct xk_session_ops, call), true },
	{ "call_async", offsetof(struct xk_session_ops, call_async), true },
	{ "call_pop", offsetof(struct xk_session_ops, call_pop), false },
	{ "let_go", offsetof(struct xk_session_ops, let_go), true },
	{ "close", offsetof(struct xk_session_ops, close), true },
	{ "control", offsetof(struct xk_session_ops, control), true },
	{ .name = NULL },
};

/* Returns the operation that begins at `start`, or NULL. */
static const struct where_verb *
where_verb_in(const struct where_verb *verbs, const void *ops, uintptr_t start)
{
	for (; ops != NULL && verbs->name != NULL; verbs++)
		if (memcmp((const char *)ops + verbs->offset, &start, sizeof(start)) == 0)
			return verbs;
	return NULL;
}

static const struct where_verb *
where_verb_of(const struct xk_protocol_type *type, uintptr_t start)
{
	const struct where_verb *verb = where_verb_in(where_protocol_verbs, type->ops, start);

	return verb != NULL ? verb : where_verb_in(where_session_verbs, type->session_ops, start);
}

static bool
where_is_called_as(const struct xk_symbol *symbol, const char *type)
{
	size_t len = strlen(type);

	if (strncmp(symbol->name, type, len) != 0 || symbol->name[len] != '_')
		return false;
	return symbol->file == NULL || strncmp(symbol->file, type, len) == 0;
}

/* ---- frames of the stack ---- */

struct where_frame {
	struct xk_symbol symbol;
	bool known;
	const struct xk_protocol_type *type; /* NULL: of no protocol */
	const struct where_verb *verb;       /* NULL: a helper, not an operation */
};

static void
where_match(struct where_frame *frame, const struct xk_protocol_type *type)
{
	const struct where_verb *verb = where_verb_of(type, frame->symbol.start);

	if (verb != NULL || (frame->verb == NULL && where_is_called_as(&frame->symbol, type->name))) {
		frame->type = type;
		frame->verb = verb;
	}
}

/* Fills in the frame's type and verb; an operation counts for more than a name. */
static void
where_find(const struct xk_kernel *kernel, struct where_frame *frame)
{
	if (kernel == NULL)
		for (unsigned i = 0; xk_protocol_types[i] != NULL; i++)
			where_match(frame, xk_protocol_types[i]);
	else
		for (const struct xk_protocol *p = kernel->protocols; p != NULL; p = p->next)
			where_match(frame, p->type);
}

/* Fills in frames. Returns the index of the innermost one that belongs to a protocol; where->count: none does. */
static unsigned
where_find_all(const struct xk_where *where, const struct xk_symbols *symbols, struct where_frame *frames)
{
	unsigned at = where->count;

	for (unsigned i = where->count; i-- > 0;) {
		frames[i] = (struct where_frame){ .type = NULL };
		frames[i].known = xk_symbol_find(symbols, where->frames[i], &frames[i].symbol);
		if (frames[i].known)
			where_find(where->kernel, &frames[i]);
		if (frames[i].type != NULL)
			at = i;
	}
	return at;
}

/* ---- printing ---- */

/*
 * Returns the instance's name if the last crossing identifies it, or if it is the only one of its type; else the type's
 * name.
 */
static const char *
where_name(const struct xk_where *where, const struct xk_protocol_type *type)
{
	const char *name = NULL;
	unsigned count = 0;

	if (where->above != NULL && where->above->type == type)
		return where->above->name;
	if (where->below != NULL && where->below->type == type)
		return where->below->name;
	for (const struct xk_protocol *p = where->kernel == NULL ? NULL : where->kernel->protocols; p != NULL;
	     p = p->next)
		if (p->type == type) {
			name = p->name;
			count++;
		}
	return count == 1 ? name : type->name;
}

static void
where_print_edge(const struct xk_protocol *from, const struct xk_protocol *to, FILE *out)
{
	fprintf(out, ", crossing \"%s\" -> \"%s\" upward", from->name, to->name);
}

static const struct xk_protocol *
where_first(const struct xk_kernel *kernel, const struct xk_protocol_type *type)
{
	const struct xk_protocol *p = kernel == NULL ? NULL : kernel->protocols;

	while (p != NULL && p->type != type)
		p = p->next;
	return p;
}

/*
 * Prints the protocols between upper and lower: tail calls have removed them from the stack. Returns whether there is a
 * way from upper to lower. out may be NULL.
 */
static bool
where_print_between(const struct xk_protocol *upper, const struct xk_protocol *lower, FILE *out)
{
	for (unsigned i = 0; i < upper->lower_count; i++) {
		const struct xk_protocol *next = upper->lowers[i]->lower;

		if (next == lower)
			return true;
		if (where_print_between(next, lower, NULL)) {
			if (out != NULL) {
				fprintf(out, " -> \"%s\"", next->name);
				where_print_between(next, lower, out);
			}
			return true;
		}
	}
	return false;
}

static void
where_print_from(const struct xk_where *where, const struct xk_protocol_type *from, const struct xk_protocol_type *to,
		 FILE *out)
{
	const struct xk_protocol *upper = where_first(where->kernel, from), *lower = where_first(where->kernel, to);

	fprintf(out, ", crossing \"%s\"", where_name(where, from));
	if (upper != NULL && lower != NULL)
		where_print_between(upper, lower, out);
	fprintf(out, " -> \"%s\"", where_name(where, to));
}

/* Prints the crossing by which the message or call came to the protocol of frames[at], and the operation. */
static void
where_print_crossing(const struct xk_where *where, const struct where_frame *frames, unsigned at, FILE *out)
{
	const struct xk_protocol_type *type = frames[at].type, *from = NULL;
	const struct where_verb *verb = NULL;

	/* Outwards from there: the protocol's own operation, then the protocol that called it. */
	for (; at < where->count && from == NULL; at++) {
		if (frames[at].type == type && verb == NULL)
			verb = frames[at].verb;
		if (frames[at].type != type)
			from = frames[at].type;
	}
	if ((verb == NULL || !verb->down) && where->above != NULL && where->above->type == type)
		where_print_edge(where->below, where->above, out);
	else if (verb != NULL && !verb->down && where->under != NULL && where->below->type == type)
		where_print_edge(where->under, where->below, out);
	else if (from != NULL)
		where_print_from(where, from, type, out);
	if (verb != NULL)
		fprintf(out, ", in its operation %s", verb->name);
	else if (from == NULL && where->load == XK_LOAD_EVENT)
		fprintf(out, ", in an event of its own");
}

/* Returns whether name is one of the library's functions between protocols, which would only lengthen reports. */
static bool
where_is_crossing(const char *name)
{
	return strcmp(name, "xk_demux_slow") == 0 || strcmp(name, "xk_push_slow") == 0;
}

static void
where_print_functions(const struct xk_where *where, const struct where_frame *frames, unsigned first, FILE *out)
{
	unsigned shown = 0;

	for (unsigned i = first; i < where->count && shown < WHERE_SHOWN; i++) {
		size_t len = frames[i].known ? strcspn(frames[i].symbol.name, ".") : 0;

		if (len > 0 && !where_is_crossing(frames[i].symbol.name))
			fprintf(out, "%s%.*s", shown++ == 0 ? " (" : " < ", (int)len, frames[i].symbol.name);
	}
	if (shown > 0)
		fputc(')', out);
}

void
xk_where_print(const struct xk_where *where, const char *verb, FILE *out)
{
	struct xk_symbols *symbols = xk_symbols_new();
	struct where_frame frames[XK_WHERE_FRAMES];
	unsigned at = where_find_all(where, symbols, frames);

	if (where->kernel != NULL)
		fprintf(out, "host \"%s\", ", where->kernel->config.name);
	if (at < where->count) {
		fprintf(out, "protocol \"%s\" %s", where_name(where, frames[at].type), verb);
		where_print_crossing(where, frames, at, out);
	} else if (where->above != NULL) {
		fprintf(out, "protocol \"%s\" or what it calls %s, crossing \"%s\" -> \"%s\" upward",
			where->above->name, verb, where->below->name, where->above->name);
	} else {
		fprintf(out, "no known protocol %s", verb);
	}
	where_print_functions(where, frames, at, out);
	xk_symbols_free(symbols);
}

/* Begins with the innermost function of a protocol: the library's functions below it tell nothing about the mistake. */
void
xk_where_print_functions(const struct xk_where *where, FILE *out)
{
	struct xk_symbols *symbols = xk_symbols_new();
	struct where_frame frames[XK_WHERE_FRAMES];

	where_print_functions(where, frames, where_find_all(where, symbols, frames), out);
	xk_symbols_free(symbols);
}
