/*
 * where.c - see where.h.
 *
 * A function belongs to a protocol if it is one of its operations, or if its name begins with the type's name and an
 * underscore and the name of its file begins with the type's name.
 */
#define _GNU_SOURCE
#include "xkernel/engine/where.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unwind.h>

#include "xkernel/engine/engine.h"
#include "xkernel/protocol.h"

enum { WHERE_SHOWN = 8 /* functions in a report, at most */ };

/* ---- symbols ---- */

struct xk_symbols {
	const uint8_t *image;
	size_t size;
	const ElfW(Sym) * table;
	size_t count;
	const char *names;
	size_t names_size;
	uintptr_t moved; /* load address minus link address */
};

/* Called for the executable first; ends the iteration. */
static int
symbols_note_moved(struct dl_phdr_info *info, size_t size, void *moved)
{
	(void)size;
	*(uintptr_t *)moved = info->dlpi_addr;
	return 1;
}

/* Returns section number `index`; NULL: it is not in the file. */
static const ElfW(Shdr) * symbols_section(const struct xk_symbols *symbols, unsigned index)
{
	const ElfW(Ehdr) *header = (const void *)symbols->image;
	const ElfW(Shdr) *section = (const void *)(symbols->image + header->e_shoff);

	if (index >= header->e_shnum || header->e_shoff + (index + 1) * sizeof(*section) > symbols->size)
		return NULL;
	section += index;
	return section->sh_offset + section->sh_size <= symbols->size ? section : NULL;
}

static bool
symbols_read(struct xk_symbols *symbols)
{
	const ElfW(Ehdr) *header = (const void *)symbols->image;
	const ElfW(Shdr) * section, *names;

	if (symbols->size < sizeof(*header) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return false;
	for (unsigned i = 0; (section = symbols_section(symbols, i)) != NULL; i++)
		if (section->sh_type == SHT_SYMTAB)
			break;
	names = section == NULL ? NULL : symbols_section(symbols, section->sh_link);
	if (names == NULL)
		return false;
	symbols->table = (const void *)(symbols->image + section->sh_offset);
	symbols->count = section->sh_size / sizeof(*symbols->table);
	symbols->names = (const char *)symbols->image + names->sh_offset;
	symbols->names_size = names->sh_size;
	return names->sh_size > 0 && symbols->names[names->sh_size - 1] == '\0';
}

struct xk_symbols *
xk_symbols_new(void)
{
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct xk_symbols *symbols = calloc(1, sizeof(*symbols));
	void *image = MAP_FAILED;
	struct stat status;

	if (symbols != NULL && file >= 0 && fstat(file, &status) == 0) {
		symbols->size = (size_t)status.st_size;
		image = mmap(NULL, symbols->size, PROT_READ, MAP_PRIVATE, file, 0);
	}
	if (file >= 0)
		close(file);
	if (image == MAP_FAILED) {
		free(symbols);
		return NULL;
	}
	symbols->image = image;
	if (!symbols_read(symbols)) {
		xk_symbols_free(symbols);
		return NULL;
	}
	dl_iterate_phdr(symbols_note_moved, &symbols->moved);
	return symbols;
}

void
xk_symbols_free(struct xk_symbols *symbols)
{
	if (symbols == NULL)
		return;
	munmap((void *)(uintptr_t)symbols->image, symbols->size);
	free(symbols);
}

/* Static symbols follow the symbol of their source file. */
bool
xk_symbol_find(const struct xk_symbols *symbols, uintptr_t address, struct xk_symbol *symbol)
{
	const char *file = NULL;

	for (size_t i = 0; symbols != NULL && i < symbols->count; i++) {
		const ElfW(Sym) *s = &symbols->table[i];
		unsigned type = s->st_info & 0xf; /* ELF64_ST_TYPE and ELF32_ST_TYPE are the same */
		const char *name = s->st_name < symbols->names_size ? symbols->names + s->st_name : "";

		if (type == STT_FILE)
			file = name;
		if ((type != STT_FUNC && type != STT_OBJECT) || s->st_shndx == SHN_UNDEF)
			continue;
		if (address - symbols->moved - s->st_value >= s->st_size)
			continue;
		*symbol = (struct xk_symbol){ .name = name,
					      .file = s->st_info >> 4 == STB_LOCAL ? file : NULL,
					      .start = s->st_value + symbols->moved,
					      .size = s->st_size };
		return true;
	}
	return false;
}

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

/* ---- functions' protocols ---- */

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
	{ "fault", offsetof(struct xk_protocol_ops, fault), false },
	{ "room", offsetof(struct xk_protocol_ops, room), false },
	{ "port_changed", offsetof(struct xk_protocol_ops, port_changed), false },
	{ "stranger", offsetof(struct xk_protocol_ops, stranger), false },
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

/* Fills in type and verb if the frame belongs to type. An operation takes precedence over a name. */
static void
where_match(struct where_frame *frame, const struct xk_protocol_type *type)
{
	const struct where_verb *verb = where_verb_in(where_protocol_verbs, type->ops, frame->symbol.start);

	if (verb == NULL)
		verb = where_verb_in(where_session_verbs, type->session_ops, frame->symbol.start);
	if (frame->verb != NULL)
		return;
	if (verb != NULL || (frame->type == NULL && where_is_called_as(&frame->symbol, type->name))) {
		frame->type = type;
		frame->verb = verb;
	}
}

/* Fills in frames. Returns the index of the innermost one that belongs to a protocol, or where->count. */
static unsigned
where_find_all(const struct xk_where *where, const struct xk_symbols *symbols, struct where_frame *frames)
{
	unsigned at = where->count;

	for (unsigned i = where->count; i-- > 0;) {
		frames[i] = (struct where_frame){ .type = NULL };
		frames[i].known = xk_symbol_find(symbols, where->frames[i], &frames[i].symbol);
		if (frames[i].known && where->kernel == NULL)
			for (unsigned j = 0; xk_protocol_types[j] != NULL; j++)
				where_match(&frames[i], xk_protocol_types[j]);
		else if (frames[i].known)
			for (const struct xk_protocol *p = where->kernel->protocols; p != NULL; p = p->next)
				where_match(&frames[i], p->type);
		if (frames[i].type != NULL)
			at = i;
	}
	return at;
}

/* ---- printing ---- */

/* Returns the instance's name if the last crossing or being the only one identifies it; else the type's name. */
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

static const struct xk_protocol *
where_first(const struct xk_kernel *kernel, const struct xk_protocol_type *type)
{
	const struct xk_protocol *p = kernel == NULL ? NULL : kernel->protocols;

	while (p != NULL && p->type != type)
		p = p->next;
	return p;
}

/*
 * Prints the protocols between upper and lower, which tail calls have removed from the stack. Returns whether lower is
 * below upper. out may be NULL.
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

/* Prints the crossing by which the message or call came to the protocol of frames[at], and the operation. */
static void
where_print_crossing(const struct xk_where *where, const struct where_frame *frames, unsigned at, FILE *out)
{
	const struct xk_protocol_type *type = frames[at].type, *from = NULL;
	const struct xk_protocol *upper, *lower;
	const struct where_verb *verb = NULL;

	/* Going outwards, find the protocol's own operation and the protocol that called it. */
	for (; at < where->count && from == NULL; at++) {
		if (frames[at].type == type && verb == NULL)
			verb = frames[at].verb;
		if (frames[at].type != type)
			from = frames[at].type;
	}
	if ((verb == NULL || !verb->down) && where->above != NULL && where->above->type == type) {
		fprintf(out, ", crossing \"%s\" -> \"%s\" upward", where->below->name, where->above->name);
	} else if (verb != NULL && !verb->down && where->under != NULL && where->below->type == type) {
		fprintf(out, ", crossing \"%s\" -> \"%s\" upward", where->under->name, where->below->name);
	} else if (from != NULL) {
		fprintf(out, ", crossing \"%s\"", where_name(where, from));
		upper = where_first(where->kernel, from);
		lower = where_first(where->kernel, type);
		if (upper != NULL && lower != NULL)
			where_print_between(upper, lower, out);
		fprintf(out, " -> \"%s\"", where_name(where, type));
	}
	if (verb != NULL)
		fprintf(out, ", in its operation %s", verb->name);
	else if (from == NULL && where->load == XK_LOAD_EVENT)
		fprintf(out, ", in an event of its own");
}

/* Prints the functions from frame `first` outwards, without the framework's own between protocols. */
static void
where_print_functions(const struct xk_where *where, const struct where_frame *frames, unsigned first, FILE *out)
{
	unsigned shown = 0;

	for (unsigned i = first; i < where->count && shown < WHERE_SHOWN; i++) {
		const char *name = frames[i].known ? frames[i].symbol.name : "";
		int len = (int)strcspn(name, ".");

		if (len > 0 && strcmp(name, "xk_demux_slow") != 0 && strcmp(name, "xk_push_slow") != 0)
			fprintf(out, "%s%.*s", shown++ == 0 ? " (" : " < ", len, name);
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

const struct xk_protocol_type *
xk_where_type(const struct xk_where *where)
{
	struct xk_symbols *symbols = xk_symbols_new();
	struct where_frame frames[XK_WHERE_FRAMES];
	unsigned at = where_find_all(where, symbols, frames);

	xk_symbols_free(symbols);
	return at < where->count ? frames[at].type : NULL;
}

/* Begins with the innermost function of a protocol: framework functions below it say nothing about the mistake. */
void
xk_where_print_functions(const struct xk_where *where, FILE *out)
{
	struct xk_symbols *symbols = xk_symbols_new();
	struct where_frame frames[XK_WHERE_FRAMES];
	unsigned at = where_find_all(where, symbols, frames);

	where_print_functions(where, frames, at, out);
	xk_symbols_free(symbols);
}

char *
xk_where_function(uintptr_t address, char name[XK_WHERE_FUNCTION])
{
	struct xk_symbols *symbols = xk_symbols_new();
	struct xk_symbol symbol = { .name = "?" };

	xk_symbol_find(symbols, address, &symbol);
	snprintf(name, XK_WHERE_FUNCTION, "%.*s", (int)strcspn(symbol.name, "."), symbol.name);
	xk_symbols_free(symbols);
	return name;
}
