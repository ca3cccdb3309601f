/* generate_names.c - the names that a protocol's file has to itself; see generate_private.h. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "graphs/generate_private.h"

enum { NAMES_LONGEST = 128 };

static bool
names_is_part(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Whether a name of len bytes is one that the file of a type has to itself. */
static bool
names_is_own(const char *name, size_t len, const char *type)
{
	static const char prefix[] = "xk_type_";
	size_t type_len = strlen(type);

	if (len == sizeof(prefix) - 1 + type_len && strncmp(name, prefix, sizeof(prefix) - 1) == 0)
		return strncmp(name + sizeof(prefix) - 1, type, type_len) == 0;
	if (len < type_len || len >= NAMES_LONGEST || strncasecmp(name, type, type_len) != 0)
		return false;
	return len == type_len ? strncmp(name, type, type_len) == 0 : name[type_len] == '_';
}

static void
names_add(struct generate_names *names, const char *name, size_t len)
{
	for (unsigned i = 0; i < names->count; i++)
		if (strlen(names->list[i]) == len && strncmp(names->list[i], name, len) == 0)
			return;
	names->list = xk_graph_grow(names->list, names->count, sizeof(*names->list));
	names->list[names->count] = strndup(name, len);
	xk_assert(names->list[names->count++] != NULL);
}

/* Whether name is being defined as a macro, which is the same in each copy. */
static bool
names_is_macro(const char *text, const char *name)
{
	static const char define[] = "#define ";
	size_t len = sizeof(define) - 1;

	return name >= text + len && strncmp(name - len, define, len) == 0;
}

bool
generate_names_find(struct generate_names *names, const char *text, const char *type)
{
	const char *at = text;

	if (strstr(text, "#include \"protocols/") != NULL)
		return false;
	while (*at != '\0') {
		const char *end = at;

		while (names_is_part(*end))
			end++;
		if (end > at && !isdigit((unsigned char)*at) && names_is_own(at, (size_t)(end - at), type) &&
		    !names_is_macro(text, at))
			names_add(names, at, (size_t)(end - at));
		at = end > at ? end : at + 1;
	}
	return true;
}

void
generate_names_clear(struct generate_names *names)
{
	for (unsigned i = 0; i < names->count; i++)
		free(names->list[i]);
	free(names->list);
	*names = (struct generate_names){ .count = 0 };
}

void
generate_names_begin(const struct generate_names *names, unsigned number, FILE *stream)
{
	for (unsigned i = 0; i < names->count; i++)
		fprintf(stream, "#define %s %s__%u\n", names->list[i], names->list[i], number);
}

void
generate_names_end(const struct generate_names *names, FILE *stream)
{
	for (unsigned i = 0; i < names->count; i++)
		fprintf(stream, "#undef %s\n", names->list[i]);
}
