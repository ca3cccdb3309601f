/* lists.c - checks the end markers of lists in protocols' declarations, whose lengths the symbol table tells. */
#include <stdio.h>

#include "xkernel/engine/where.h"
#include "xkernel/protocol.h"

struct lists {
	const struct xk_symbols *symbols;
	const char *program;
	const struct xk_protocol_type *type;
	bool good;
};

/* Checks a list of entries of `size` bytes with a pointer at `offset`; NULL ends the list. */
static bool
lists_see(struct lists *lists, const char *name, const void *list, size_t size, size_t offset)
{
	struct xk_symbol array;
	const void *pointer;
	size_t length;

	if (list == NULL || !xk_symbol_find(lists->symbols, (uintptr_t)list, &array))
		return true;
	length = (array.start + array.size - (uintptr_t)list) / size;
	for (size_t i = 0; i < length; i++) {
		memcpy(&pointer, (const char *)list + i * size + offset, sizeof(pointer));
		if (pointer == NULL)
			return true;
	}
	fprintf(stderr, "%s: protocol \"%s\": its list `%s` does not end with %s\n", lists->program, lists->type->name,
		name, size == sizeof(pointer) ? "NULL" : "an entry whose name is NULL");
	lists->good = false;
	return false;
}

static void
lists_see_type(struct lists *lists, const struct xk_protocol_type *type)
{
	bool has_end;

	lists->type = type;
	lists_see(lists, "drops", type->drops, sizeof(*type->drops), 0);
	lists_see(lists, "counters", type->counters, sizeof(*type->counters), 0);
	lists_see(lists, "lowers", type->lowers, sizeof(*type->lowers), offsetof(struct xk_role, name));
	lists_see(lists, "numbers", type->numbers, sizeof(*type->numbers), offsetof(struct xk_number_on, lower));
	lists_see(lists, "settings", type->settings, sizeof(*type->settings), offsetof(struct xk_setting, name));
	has_end = lists_see(lists, "fields", type->fields, sizeof(*type->fields), offsetof(struct xk_field, name));
	for (const struct xk_field *f = type->fields; has_end && f != NULL && f->name != NULL; f++)
		lists_see(lists, "values", f->values, sizeof(*f->values), offsetof(struct xk_field_value, name));
}

bool
xk_protocol_lists_check(const char *program)
{
	struct xk_symbols *symbols = xk_symbols_new();
	struct lists lists = { .symbols = symbols, .program = program, .good = true };

	for (unsigned i = 0; xk_protocol_types[i] != NULL; i++)
		lists_see_type(&lists, xk_protocol_types[i]);
	xk_symbols_free(symbols);
	return lists.good;
}
