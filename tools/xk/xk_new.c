/*
 * xk_new.c - `xk new NAME`: begins a protocol, as a directory for `./run build --with` with its file, its tests and a
 * graph.
 *
 * They are the documentation's examples (docs/examples) under another name: asp, which has its own addresses and
 * sessions; seq, a layer with a header between two protocols; tally, a layer without one; or adder, client and server
 * of calls. docs/writing-a-protocol.md explains and tests them.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/output.h"
#include "tools/xk/xk.h"
#include "tools/xk_new_templates.h"
#include "xkernel/protocol.h"

enum { NEW_NAME_MAX = 24, NEW_PATH_MAX = 4096 };

struct new_choices {
	const char *output;
	bool layer, is_virtual, rpc;
};

static const struct options_option new_options[] = {
	OPTION(FLAG, struct new_choices, layer, "layer", NULL,
	       "a layer between two protocols, without its own addresses"),
	OPTION(FLAG, struct new_choices, is_virtual, "virtual", NULL,
	       "a layer without a header, for any edge of a graph"),
	OPTION(FLAG, struct new_choices, rpc, "rpc", NULL,
	       "client and server of calls, and a network (NAMEnet.dot) with both"),
	OPTION(TEXT, struct new_choices, output, "output", "DIR",
	       "or -o DIR: the directory (NAME), created if missing"),
	{ .name = NULL },
};

static const struct options_program new_program = {
	.name = "xk new",
	.usage = "NAME [--layer | --virtual | --rpc] [-o DIR]",
	.about = "Begins a protocol: writes NAME.c, test_NAME.c and NAMEtest.dot into DIR. They are a working\n"
		 "protocol, to be changed into yours. `./run build --with DIR` builds it into build-with/xk and the\n"
		 "other programs, and runs its tests. docs/writing-a-protocol.md explains every line.",
	.options = new_options,
	.operands_min = 1,
	.operands_max = 1,
};

/* ---- names ---- */

/* Returns true if the name at `at` in text is, or begins with, the example's, in lower or upper case. */
static bool
new_is_example(const char *text, size_t at, const char *example)
{
	size_t len = strlen(example);
	bool is_upper = isupper((unsigned char)text[at]) != 0;

	if (strncasecmp(text + at, example, len) != 0 || (at > 0 && isalpha((unsigned char)text[at - 1])))
		return false;
	for (size_t i = 0; i < len; i++)
		if ((isupper((unsigned char)text[at + i]) != 0) != is_upper)
			return false;
	return !isalpha((unsigned char)text[at + len]) || strncmp(text + at + len, "test", 4) == 0 ||
	       strncmp(text + at + len, "net", 3) == 0;
}

/* Returns the length of a phrase at text that describes an example, or 0 if there is none. */
static size_t
new_skip(const char *text)
{
	static const char *const phrases[] = {
		"\"a simple protocol\", the example of docs/writing-a-protocol.md: ",
		"the x-kernel tutorial's ASP; ",
		": the example of docs/writing-a-protocol.md",
		": an example of docs/writing-a-protocol.md",
		": the example of the documentation",
		": an example of the documentation",
		": the smallest example of the documentation",
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(phrases); i++)
		if (strncmp(text, phrases[i], strlen(phrases[i])) == 0)
			return strlen(phrases[i]);
	return 0;
}

/* Writes text with name in place of the example's, and without the phrases about the example. */
static void
new_write_text(FILE *stream, const char *text, const char *example, const char *name)
{
	for (size_t at = 0; text[at] != '\0';) {
		size_t skip = new_skip(text + at);

		if (skip == 0 && new_is_example(text, at, example)) {
			for (const char *p = name; *p != '\0'; p++)
				fputc(isupper((unsigned char)text[at]) ? toupper((unsigned char)*p) : *p, stream);
			skip = strlen(example);
		} else if (skip == 0) {
			fputc(text[at], stream);
			skip = 1;
		}
		at += skip;
	}
}

/* Returns true if `text`, of len characters, is one of the words. */
static bool
new_is_one_of(const char *text, size_t len, const char *const *words)
{
	while (*words != NULL && (strlen(*words) != len || strncmp(text, *words, len) != 0))
		words++;
	return *words != NULL;
}

/* Returns the meaning that name already has, which makes it unusable for a protocol, or NULL. */
static const char *
new_existing_meaning(const char *name)
{
	/* keywords of C and C++, and names that compilers define; generated code has `struct NAME` */
	static const char *const words[] = {
		"alignas",     "alignof",
		"and",         "and_eq",
		"asm",         "auto",
		"bitand",      "bitor",
		"bool",        "break",
		"case",        "catch",
		"char",        "char16_t",
		"char32_t",    "char8_t",
		"class",       "co_await",
		"co_return",   "co_yield",
		"compl",       "concept",
		"const",       "const_cast",
		"consteval",   "constexpr",
		"constinit",   "continue",
		"decltype",    "default",
		"delete",      "do",
		"double",      "dynamic_cast",
		"else",        "enum",
		"errno",       "explicit",
		"export",      "extern",
		"false",       "float",
		"for",         "friend",
		"goto",        "if",
		"inline",      "int",
		"linux",       "long",
		"mutable",     "namespace",
		"new",         "noexcept",
		"not",         "not_eq",
		"nullptr",     "offsetof",
		"operator",    "or",
		"or_eq",       "private",
		"protected",   "public",
		"register",    "reinterpret_cast",
		"requires",    "restrict",
		"return",      "short",
		"signed",      "sizeof",
		"static",      "static_assert",
		"static_cast", "struct",
		"switch",      "template",
		"this",        "thread_local",
		"throw",       "true",
		"try",         "typedef",
		"typeid",      "typename",
		"typeof",      "union",
		"unix",        "unsigned",
		"using",       "virtual",
		"void",        "volatile",
		"wchar_t",     "while",
		"xor",         "xor_eq",
		NULL,
	};
	static const char *const dot[] = { "digraph", "edge", "graph", "node", "strict", "subgraph", NULL };
	/* prefixes of the library's names; names of the C library, and of --set and --show */
	static const char *const libraries[] = { "xk", "atomic", "pthread", "sem", "sim", "rig", "main", NULL };
	static const char *const places[] = { "host", "link", NULL };
	static const char *const fakes[] = { "user", "wire", NULL };
	size_t len = strlen(name), first = strcspn(name, "_"), stem = len;

	while (stem > 0 && isdigit((unsigned char)name[stem - 1]))
		stem--;
	if (new_is_one_of(name, len, words))
		return "a keyword of C or C++";
	if (new_is_one_of(name, len, dot))
		return "a keyword of graph files";
	if (new_is_one_of(name, len, places))
		return "a name with another meaning in --set and --show";
	if (new_is_one_of(name, stem, fakes))
		return "a fake protocol of the tests (tests/rig.h)";
	if (new_is_one_of(name, first, libraries))
		return "a prefix of a library's names";
	return strncmp(name, "test_", 5) == 0 ? "a prefix of test files' names" : NULL;
}

/* ---- files ---- */

static int
new_fail(const char *path)
{
	const char *slash = strrchr(path, '/');
	bool lacks_parent = errno == ENOENT && slash != NULL;

	fprintf(stderr, "xk new: %s cannot be written: %s%s%.*s\n", path, xk_error(errno),
		errno == EEXIST ? "; use another name or directory, or remove it"
		: lacks_parent  ? "; first run: mkdir -p "
				: "",
		lacks_parent ? (int)(slash - path) : 0, path);
	return OPTIONS_FAILURE;
}

/* Writes a file, unless it already exists. */
static int
new_write_file(const char *file, const char *text, const char *directory, const char *example, const char *name)
{
	const char *rest = strstr(file, example) + strlen(example);
	char path[NEW_PATH_MAX];
	FILE *stream;

	snprintf(path, sizeof(path), "%s/%s%s%s", directory, strncmp(file, "test_", 5) == 0 ? "test_" : "", name, rest);
	stream = fopen(path, "wxe");
	if (stream == NULL)
		return new_fail(path);
	new_write_text(stream, text, example, name);
	if (!output_close(stream))
		return new_fail(path);
	printf("%s\n", path);
	return OPTIONS_SUCCESS;
}

int
xk_new_main(int argc, char **argv)
{
	struct new_choices choices = { .output = NULL };
	struct options_texts operands;
	const char *name, *example, *directory, *other;
	unsigned kinds;
	size_t len;
	int status;

	status = options_parse(&new_program, argc, argv, &choices, &operands);
	if (status != OPTIONS_GO)
		return status;
	name = operands.text[0];
	len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
	kinds = choices.layer + choices.is_virtual + choices.rpc;
	example = choices.layer ? "seq" : choices.is_virtual ? "tally" : choices.rpc ? "adder" : "asp";
	directory = choices.output == NULL ? name : choices.output;
	if (name[len] != '\0' || len > NEW_NAME_MAX || !islower((unsigned char)name[0]))
		return options_misuse(&new_program, "a name is at most %d letters a to z, digits and _, a letter first",
				      NEW_NAME_MAX);
	if (kinds > 1)
		return options_misuse(&new_program, "--layer, --virtual and --rpc exclude each other");
	other = new_existing_meaning(name);
	if (other != NULL)
		return options_misuse(&new_program, "\"%s\" is %s: use another name", name, other);
	if (xk_protocol_type_find(name) != NULL) {
		fprintf(stderr, "xk new: there is already a protocol %s\n", name);
		return OPTIONS_FAILURE;
	}
	if (mkdir(directory, 0777) != 0 && errno != EEXIST)
		return new_fail(directory);
	for (unsigned i = 0; new_templates[i].name != NULL && status != OPTIONS_FAILURE; i++)
		if (strstr(new_templates[i].name, example) != NULL)
			status = new_write_file(new_templates[i].name, new_templates[i].text, directory, example, name);
	if (status == OPTIONS_SUCCESS)
		printf("next: ./run build --with %s\n", directory);
	return status;
}
