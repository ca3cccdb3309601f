/*
 * declared.c - checks protocols' declarations before anything runs. The lengths of lists and the names of types'
 * objects come from the symbol table.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "xkernel/engine/where.h"
#include "xkernel/protocol.h"

struct declared {
	const struct xk_symbols *symbols;
	const char *program;
	const struct xk_protocol_type *type;
	bool good;
};

/* Reports a fault of the type. */
__attribute__((format(printf, 2, 3))) static void
declared_refuse(struct declared *d, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "%s: protocol \"%s\": ", d->program, d->type->name);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	d->good = false;
}

/* Checks a list of entries of `size` bytes with a pointer at `offset`; NULL ends the list. */
static bool
declared_list(struct declared *d, const char *name, const void *list, size_t size, size_t offset)
{
	struct xk_symbol array;
	const void *pointer;
	size_t length;

	if (list == NULL || !xk_symbol_find(d->symbols, (uintptr_t)list, &array))
		return true;
	length = (array.start + array.size - (uintptr_t)list) / size;
	for (size_t i = 0; i < length; i++) {
		memcpy(&pointer, (const char *)list + i * size + offset, sizeof(pointer));
		if (pointer == NULL)
			return true;
	}
	declared_refuse(d, "its list `%s` does not end with %s", name,
			size == sizeof(pointer) ? "NULL" : "an entry whose name is NULL");
	return false;
}

/* Returns whether all lists of the type are terminated. */
static bool
declared_lists(struct declared *d, const struct xk_protocol_type *type)
{
	bool has_end;

	declared_list(d, "drops", type->drops, sizeof(*type->drops), 0);
	declared_list(d, "counters", type->counters, sizeof(*type->counters), 0);
	declared_list(d, "lowers", type->lowers, sizeof(*type->lowers), offsetof(struct xk_role, name));
	declared_list(d, "numbers", type->numbers, sizeof(*type->numbers), offsetof(struct xk_number_on, lower));
	declared_list(d, "settings", type->settings, sizeof(*type->settings), offsetof(struct xk_setting, name));
	has_end = declared_list(d, "fields", type->fields, sizeof(*type->fields), offsetof(struct xk_field, name));
	for (const struct xk_field *f = type->fields; has_end && f != NULL && f->name != NULL; f++)
		declared_list(d, "values", f->values, sizeof(*f->values), offsetof(struct xk_field_value, name));
	return d->good;
}

/* Checks that the type has the name of its object, xk_type_NAME, by which the program's table finds it. */
static bool
declared_name(struct declared *d, const struct xk_protocol_type *type)
{
	static const char prefix[] = "xk_type_";
	struct xk_symbol object;
	bool known = xk_symbol_find(d->symbols, (uintptr_t)type, &object);
	const char *called = known && strncmp(object.name, prefix, strlen(prefix)) == 0 ? object.name : NULL;

	if (type->name != NULL && (called == NULL || strcmp(called + strlen(prefix), type->name) == 0))
		return true;
	fprintf(stderr,
		"%s: the protocol that %s declares has %s%s: its file, its name and the object xk_type_NAME "
		"must have the same name\n",
		d->program, called == NULL ? "a type" : called, type->name == NULL ? "no name" : "another name, ",
		type->name == NULL ? "" : type->name);
	d->good = false;
	return false;
}

/* Checks sizes, and operations that the framework calls without checking for NULL. */
static void
declared_operations(struct declared *d, const struct xk_protocol_type *type)
{
	const struct xk_session_ops *ops = type->session_ops;

	if (type->size < sizeof(struct xk_protocol))
		declared_refuse(d,
				"its `size` is %zu, less than a struct xk_protocol: give the size of its own "
				"struct, which begins with that",
				type->size);
	if (type->ops == NULL)
		declared_refuse(d, "it has no `ops`");
	else if ((type->offers & XK_ASYNC) != 0 && type->ops->open == NULL)
		declared_refuse(d, "it offers XK_ASYNC, but its `ops` have no `open`");
	else if (ops != NULL && type->lowers != NULL && type->ops->demux == NULL && type->ops->call_demux == NULL)
		declared_refuse(d, "it has lowers, but its `ops` have neither `demux` nor `call_demux`");
	if (ops == NULL)
		return;
	if (ops->size != 0 && ops->size < sizeof(struct xk_session))
		declared_refuse(d,
				"the `size` of its sessions is %zu, less than a struct xk_session: give the size "
				"of its own struct, which begins with that",
				ops->size);
	if ((type->offers & XK_ASYNC) != 0 && ops->push == NULL)
		declared_refuse(d, "it offers XK_ASYNC, but its `session_ops` have no `push`");
	else if ((type->offers & XK_ASYNC) != 0 && ops->pop == NULL && (type->flags & XK_PORT) == 0)
		declared_refuse(d, "it offers XK_ASYNC, but its `session_ops` have no `pop`");
}

static void
declared_fields(struct declared *d, const struct xk_protocol_type *type)
{
	unsigned bits = 0;

	for (const struct xk_field *f = type->fields; f != NULL && f->name != NULL; f++)
		bits += f->bits;
	if (type->fields != NULL && bits != type->header * 8)
		declared_refuse(d, "its `fields` have %u bits, but its `header` has %u bytes, %u bits", bits,
				type->header, type->header * 8);
}

/* Checks that each option behind the header is of whole bytes, has a kind of its own, and fits. */
static void
declared_options(struct declared *d, const struct xk_protocol_type *type)
{
	const struct xk_option_list *list = type->options;
	unsigned most;

	if (list == NULL)
		return;
	most = (0xffu >> (8 - list->bits)) * list->unit;
	if (list->header != type->header || type->fields == NULL) {
		declared_refuse(d, "its `options` are not behind its header");
		return;
	}
	for (const struct xk_option *o = list->options; o->name != NULL; o++) {
		unsigned bits = 0, len = XK_OPTION_HEAD + o->once + (o->least > 0 ? o->least : 1u) * o->each;

		for (const struct xk_field *f = o->fields; f->name != NULL; f++)
			bits += f->bits;
		if (bits != 8u * (o->once + o->each))
			declared_refuse(d, "the fields of its option %s have %u bits, not its %u", o->name, bits,
					8u * (o->once + o->each));
		if (o->kind < XK_OPTION_HEAD || xk_option_find(list, o->kind) != o)
			declared_refuse(d, "the kind %u of its option %s is not its own", o->kind, o->name);
		if (type->header + len > most)
			declared_refuse(
				d,
				"its option %s, of %u bytes, is longer than a header of at most %u bytes has room for",
				o->name, len, most);
	}
}

/* Checks the fields that name the two ends, which are exchanged in sent messages. */
static void
declared_ends(struct declared *d, const struct xk_protocol_type *type)
{
	const struct xk_field *remote = NULL, *local = NULL;
	unsigned at = 0;

	for (const struct xk_field *f = type->fields; f != NULL && f->name != NULL; at += f->bits, f++) {
		const struct xk_field **end = f->end == XK_END_REMOTE ? &remote : &local;

		if (f->end == XK_END_NONE)
			continue;
		if (*end != NULL) {
			declared_refuse(d, "its fields %s and %s both are %s", (*end)->name, f->name,
					f->end == XK_END_REMOTE ? "XK_END_REMOTE" : "XK_END_LOCAL");
			return;
		}
		if (at % 8 != 0 || f->bits % 8 != 0) {
			declared_refuse(d, "its field %s is an end, but not of whole bytes", f->name);
			return;
		}
		*end = f;
	}
	if (remote != NULL && local != NULL && remote->bits != local->bits)
		declared_refuse(d, "its fields %s and %s, the two ends, differ in length", remote->name, local->name);
	if ((remote == NULL) != (local == NULL))
		declared_refuse(d, "its field %s is %s, but no field is the other end",
				remote != NULL ? remote->name : local->name,
				remote != NULL ? "XK_END_REMOTE" : "XK_END_LOCAL");
}

/* Returns whether strangers' messages are looked up by the local port that their header names, and nothing else. */
static bool
declared_has_ports(const struct xk_protocol_type *type, const struct xk_format *format)
{
	for (const struct xk_field *f = type->fields; f->name != NULL; f++)
		if (f->is_upper)
			return false;
	return format->end_len == 2 && type->ops->validate == NULL;
}

/* Checks that the framework can receive and send what the type leaves to it (receive.h). */
static void
declared_messages(struct declared *d, const struct xk_protocol_type *type)
{
	struct xk_format format;

	if (!(type->flags & XK_BY_FIELDS))
		return;
	xk_format_init(&format, type);
	if (type->fields == NULL || !format.fits || type->header > XK_SENDS_HEADER)
		declared_refuse(d,
				"it has the flag XK_BY_FIELDS, but the framework cannot receive and send by its "
				"`fields`: it needs at most %d bytes; a length of 16 or 32 bits, and a number and a "
				"checksum of 16, on byte boundaries; session names within two windows of 8 bytes; and "
				"usual values within three",
				XK_SENDS_HEADER);
	else if (format.sum_covers == XK_COVERS_PAYLOAD || format.sum_covers == XK_COVERS_MESSAGE)
		declared_refuse(d, "it has the flag XK_BY_FIELDS, but the framework cannot compute its checksum, which "
				   "covers neither the header alone nor everything with IP's pseudo-header");
	else if (format.sum_covers != XK_COVERS_NOTHING && (type->header % 2 != 0 || format.sum_at % 2 != 0 ||
							    format.length_at % 2 != 0 || format.number_at % 2 != 0))
		declared_refuse(d, "its checksum, length or number is not on an even byte of an even header");
	else if (format.sum_covers == XK_COVERS_PSEUDO && format.sum_pseudo == 0)
		declared_refuse(d,
				"its checksum is XK_COVERS_PSEUDO, but has no `pseudo`, the protocol's number there");
	else if (type->session_ops == NULL || (type->flags & XK_TABLE) != 0)
		declared_refuse(d, "it has the flag XK_BY_FIELDS, but no `session_ops` for all its sessions");
	else if ((type->offers & XK_ASYNC) != 0 && declared_has_ports(type, &format) &&
		 (type->ops->passive_key == NULL || type->ops->passive_key_of == NULL))
		declared_refuse(d, "its header names ports, but its `ops` have no `%s`: ports are what uppers enable",
				type->ops->passive_key == NULL ? "passive_key" : "passive_key_of");
}

/* Checks that each setting lies in the protocol's own part of an instance, and that its initial value is valid. */
static void
declared_settings(struct declared *d, const struct xk_protocol_type *type)
{
	void *instance = calloc(1, type->size);
	char why[256];

	for (const struct xk_setting *s = type->settings; s != NULL && s->name != NULL && instance != NULL; s++) {
		if (s->offset < sizeof(struct xk_protocol) || s->offset + xk_setting_size(s->type) > type->size)
			declared_refuse(d,
					"the `offset` of its setting %s is outside its own part of its struct, bytes "
					"%zu to %zu (it is %zu)",
					s->name, sizeof(struct xk_protocol), type->size, s->offset);
		else if (s->type == XK_SETTING_CHOICE && s->choices == NULL)
			declared_refuse(d, "its setting %s has no `choices`", s->name);
		else if (s->initial != NULL && xk_setting_parse(s, s->initial, instance, why, sizeof(why)) != 0)
			declared_refuse(d, "the `initial` of its setting %s is \"%s\": it %s", s->name, s->initial,
					why);
		else if (s->type == XK_SETTING_STRING)
			free(*(char **)((char *)instance + s->offset));
	}
	free(instance);
}

/* Checks one type. Later checks rely on earlier ones. */
static void
declared_see(struct declared *d, const struct xk_protocol_type *type)
{
	bool good = d->good;

	d->type = type;
	d->good = true;
	if (declared_name(d, type) && declared_lists(d, type))
		declared_operations(d, type);
	if (d->good) {
		declared_fields(d, type);
		declared_options(d, type);
		declared_ends(d, type);
		declared_messages(d, type);
		declared_settings(d, type);
	}
	d->good = d->good && good;
}

bool
xk_protocol_types_check(const char *program)
{
	struct xk_symbols *symbols = xk_symbols_new();
	struct declared d = { .symbols = symbols, .program = program, .good = true };

	for (unsigned i = 0; xk_protocol_types[i] != NULL; i++)
		declared_see(&d, xk_protocol_types[i]);
	xk_symbols_free(symbols);
	return d.good;
}
