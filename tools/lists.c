/* lists.c - see lists.h. */
#include "tools/lists.h"

#include <stdio.h>

#include "xkernel/engine/where.h"
#include "xkernel/protocol.h"

static bool
lists_check(const struct xk_symbols *symbols, const char *program, const char *type, const char *name,
	    const char *const *list)
{
	struct xk_symbol array;
	size_t length;

	if (list == NULL || !xk_symbol_find(symbols, (uintptr_t)list, &array))
		return true;
	length = (array.start + array.size - (uintptr_t)list) / sizeof(*list);
	for (size_t i = 0; i < length; i++)
		if (list[i] == NULL)
			return true;
	fprintf(stderr, "%s: protocol \"%s\": its list `%s` does not end with NULL\n", program, type, name);
	return false;
}

bool
lists_are_good(const char *program)
{
	struct xk_symbols *symbols = xk_symbols_new();
	bool good = true;

	for (unsigned i = 0; xk_protocol_types[i] != NULL; i++) {
		const struct xk_protocol_type *type = xk_protocol_types[i];

		good &= lists_check(symbols, program, type->name, "drops", type->drops);
		good &= lists_check(symbols, program, type->name, "counters", type->counters);
	}
	xk_symbols_free(symbols);
	return good;
}
