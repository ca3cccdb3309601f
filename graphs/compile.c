/*
 * compile.c - a checked graph as C: the crossings of each node (compile_crossings.c), then the protocols' files; see compiled.h.
 *
 * Nothing of a graph file's names and values reaches the C but as numbers, as names of types, which are the library's own,
 * and in strings whose every odd byte is escaped.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graphs/compile_inside.h"
#include "graphs/compile_names.h"

enum {
	COMPILE_COPIES = 64,    /* besides one for each type; more nodes share that */
	COMPILE_TEXT = 1 << 20, /* of a protocol's file */
	COMPILE_PATH = 4096,
};

/* The first node of a type, from below. */
static unsigned
compile_first_of(const struct compile *c, const struct xk_protocol_type *type)
{
	unsigned i = 0;

	while (compile_type(c, c->graph->order[i]) != type)
		i++;
	return c->graph->order[i];
}

const char *
compile_symbol(const struct compile *c, unsigned copy, char symbol[COMPILE_SYMBOL])
{
	const struct xk_protocol_type *type = compile_type(c, copy);

	if (copy == compile_first_of(c, type))
		snprintf(symbol, COMPILE_SYMBOL, "xk_type_%.100s", type->name);
	else
		snprintf(symbol, COMPILE_SYMBOL, "xk_type_%.100s__%u", type->name, c->position[copy]);
	return symbol;
}

/* Whether a node is the one that its copy is known by. */
static bool
compile_begins_copy(const struct compile *c, unsigned node)
{
	return c->copy[node] == node;
}

/* ---- strings ---- */

static void
compile_string_byte(FILE *stream, unsigned char byte)
{
	if (byte == '\n')
		fputs("\\n\"\n\t\"", stream);
	else if (byte == '"' || byte == '\\')
		fprintf(stream, "\\%c", byte);
	else if (byte == '?' || !isprint(byte))
		fprintf(stream, "\\%03o", byte);
	else
		fputc(byte, stream);
}

static void
compile_string(FILE *stream, const char *text, size_t size)
{
	fputc('"', stream);
	for (size_t i = 0; i < size; i++)
		compile_string_byte(stream, (unsigned char)text[i]);
	fputc('"', stream);
}

void
compile_word(FILE *stream, const char *text)
{
	for (; *text != '\0'; text++)
		fputc(isalnum((unsigned char)*text) || strchr("_-.", *text) != NULL ? *text : '_', stream);
}

static const char *
compile_base(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash == NULL ? file : slash + 1;
}

/* ---- the protocols' files ---- */

/* NAME_*.c: what a protocol has been divided into. */
struct compile_parts {
	char **list;
	unsigned count;
};

static bool
compile_is_part(const char *file, const char *type)
{
	size_t len = strlen(type), file_len = strlen(file);

	return strncmp(file, type, len) == 0 && file_len > len + 2 && strcmp(file + file_len - 2, ".c") == 0 &&
	       file[len] == '_';
}

static int
compile_by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The files in the directory that are parts of a type, in no order. */
static void
compile_add_parts(struct compile_parts *parts, DIR *directory, const char *type)
{
	const struct dirent *entry;
	char **more;

	while ((entry = readdir(directory)) != NULL) {
		if (!compile_is_part(entry->d_name, type))
			continue;
		more = realloc(parts->list, (parts->count + 1) * sizeof(*more));
		xk_assert(more != NULL);
		parts->list = more;
		more[parts->count] = strdup(entry->d_name);
		xk_assert(more[parts->count] != NULL);
		parts->count++;
	}
}

/*
 * Where the file of a type is, from the tree: in protocols itself, or in one of its folders. False: in none.
 */
static bool
compile_find(const struct compile *c, const char *type, char place[COMPILE_PATH])
{
	char path[COMPILE_PATH];
	const struct dirent *entry = NULL;
	DIR *directory;

	snprintf(place, COMPILE_PATH, "protocols");
	snprintf(path, sizeof(path), "%s/%s/%s.c", c->source->tree, place, type);
	if (access(path, R_OK) == 0)
		return true;
	snprintf(path, sizeof(path), "%s/protocols", c->source->tree);
	directory = opendir(path);
	while (directory != NULL && (entry = readdir(directory)) != NULL) {
		snprintf(place, COMPILE_PATH, "protocols/%s", entry->d_name);
		snprintf(path, sizeof(path), "%s/%s/%s.c", c->source->tree, place, type);
		if (entry->d_name[0] != '.' && access(path, R_OK) == 0)
			break;
	}
	if (directory != NULL)
		closedir(directory);
	return entry != NULL;
}

static struct compile_parts
compile_list_parts(const struct compile *c, const char *type)
{
	struct compile_parts parts = { .list = NULL };
	char place[COMPILE_PATH], path[2 * COMPILE_PATH];
	DIR *directory;

	if (!compile_find(c, type, place))
		return parts;
	snprintf(path, sizeof(path), "%s/%s", c->source->tree, place);
	directory = opendir(path);
	if (directory == NULL)
		return parts;
	compile_add_parts(&parts, directory, type);
	closedir(directory);
	if (parts.count > 1)
		qsort(parts.list, parts.count, sizeof(*parts.list), compile_by_name);
	return parts;
}

static void
compile_clear_parts(struct compile_parts *parts)
{
	for (unsigned i = 0; i < parts->count; i++)
		free(parts->list[i]);
	free(parts->list);
}

/* The text of a type's file, the caller's. NULL: it is not in the tree. */
static char *
compile_read(const struct compile *c, const char *type)
{
	char place[COMPILE_PATH], path[2 * COMPILE_PATH], *text;
	FILE *stream;
	size_t size;

	if (!compile_find(c, type, place))
		return NULL;
	snprintf(path, sizeof(path), "%s/%s/%s.c", c->source->tree, place, type);
	stream = fopen(path, "re");
	if (stream == NULL)
		return NULL;
	text = malloc(COMPILE_TEXT + 1);
	xk_assert(text != NULL);
	size = fread(text, 1, COMPILE_TEXT, stream);
	text[size] = '\0';
	fclose(stream);
	return text;
}

/* The files of a copy, which is not the first of its type if it has names of its own. */
static void
compile_include_files(const struct compile *c, unsigned copy, const struct compile_names *names)
{
	const char *type = compile_type(c, copy)->name;
	struct compile_parts parts = compile_list_parts(c, type);
	char place[COMPILE_PATH];

	compile_find(c, type, place);
	fprintf(c->stream, "\n#undef XK_NODE\n#define XK_NODE %u\n#undef xk_virtual_demux\n", c->position[copy]);
	if (compile_type(c, copy)->flags & XK_VIRTUAL)
		fprintf(c->stream, "#define xk_virtual_demux xk_virtual_demux_%u\n", c->position[copy]);
	compile_names_begin(names, c->position[copy], c->stream);
	fprintf(c->stream, "#include \"%s/%s.c\"\n", place, type);
	compile_names_end(names, c->stream);
	for (unsigned i = 0; i < parts.count; i++)
		fprintf(c->stream, "#include \"%s/%s\"\n", place, parts.list[i]);
	compile_clear_parts(&parts);
}

static int
compile_include(const struct compile *c, unsigned copy)
{
	const struct xk_protocol_type *type = compile_type(c, copy);
	struct compile_names names = { .count = 0 };
	char *text = compile_read(c, type->name);

	if (text == NULL) {
		xk_graph_errors_add(c->errors, c->graph->file, c->graph->nodes[copy].line,
				    "%s cannot be compiled: there is no protocols/%s.c in %s", type->name, type->name,
				    c->source->tree);
		return -EINVAL;
	}
	if (copy != compile_first_of(c, type))
		compile_names_find(&names, text, type->name);
	compile_include_files(c, copy, &names);
	compile_names_clear(&names);
	free(text);
	return 0;
}

/* Whether nodes of a type can have copies of their own: its one file shares no names with others. */
static bool
compile_is_alone(const struct compile *c, const struct xk_protocol_type *type)
{
	struct compile_names names = { .count = 0 };
	struct compile_parts parts = compile_list_parts(c, type->name);
	char *text = compile_read(c, type->name);
	bool alone = text != NULL && parts.count == 0 && compile_names_find(&names, text, type->name);

	compile_clear_parts(&parts);
	compile_names_clear(&names);
	free(text);
	return alone;
}

/* One copy for each type, or, where that can be, for each node. */
static void
compile_make_copies(struct compile *c)
{
	unsigned copies = 0;

	for (unsigned i = 0; i < c->graph->node_count; i++) {
		unsigned node = c->graph->order[i], first = compile_first_of(c, compile_type(c, node));

		c->position[node] = i;
		c->copy[node] = first;
		if (node != first && copies < COMPILE_COPIES && compile_is_alone(c, compile_type(c, node))) {
			c->copy[node] = node;
			copies++;
		}
	}
}

/* ---- what stands around them ---- */

static void
compile_head(const struct compile *c)
{
	const struct xk_graph *graph = c->graph;

	fputs("/*\n * ", c->stream);
	compile_word(c->stream, compile_base(graph->file));
	fputs(", compiled by xk compile:\n *\n", c->stream);
	for (unsigned i = graph->node_count; i-- > 0;) {
		const struct xk_graph_node *node = &graph->nodes[graph->order[i]];

		fprintf(c->stream, " *  %3u ", i);
		compile_word(c->stream, node->name);
		for (unsigned j = 0; j < node->lower_count; j++) {
			const struct xk_graph_edge *edge = &graph->edges[node->lowers[j]];

			fputs(j == 0 ? " -> " : ", ", c->stream);
			compile_word(c->stream, graph->nodes[edge->lower].name);
			if (edge->handoff == XK_GRAPH_EXPLICIT)
				fputs(" (handed off)", c->stream);
		}
		fputc('\n', c->stream);
	}
	fputs(" */\n#include \"graphs/generated.h\"\n\n#include \"graphs/compiled.h\"\n", c->stream);
}

static void
compile_externs(const struct compile *c)
{
	char symbol[COMPILE_SYMBOL];

	fputc('\n', c->stream);
	for (unsigned i = 0; i < c->graph->node_count; i++)
		if (compile_begins_copy(c, c->graph->order[i]))
			fprintf(c->stream, "extern const struct xk_protocol_type %s;\n",
				compile_symbol(c, c->graph->order[i], symbol));
}

static void
compile_types(const struct compile *c, const char *declaration)
{
	char symbol[COMPILE_SYMBOL];

	fprintf(c->stream, "%s = {\n", declaration);
	for (unsigned i = 0; i < c->graph->node_count; i++)
		fprintf(c->stream, "\t&%s,\n", compile_symbol(c, c->copy[c->graph->order[i]], symbol));
	fputs("};\n", c->stream);
}

static void
compile_names(const struct compile *c)
{
	fputs("static const char *const xk_compiled_names[] = {\n", c->stream);
	for (unsigned i = 0; i < c->graph->node_count; i++) {
		const char *name = c->graph->nodes[c->graph->order[i]].name;

		fputc('\t', c->stream);
		compile_string(c->stream, name, strlen(name));
		fputs(",\n", c->stream);
	}
	fputs("};\n", c->stream);
}

static void
compile_tables(const struct compile *c)
{
	fputs("\n/* ---- what the program takes ---- */\n\n#if !XK_WATCHED\n", c->stream);
	compile_types(c, "XK_COMPILED_OUT const struct xk_protocol_type *const xk_compiled_plain[]");
	fputs("#else\nextern const struct xk_protocol_type *const xk_compiled_plain[];\n\n", c->stream);
	compile_types(c, "static const struct xk_protocol_type *const xk_compiled_watched[]");
	compile_names(c);
	fputs("static const struct xk_graph_compiled xk_compiled_graph = {\n\t.file = ", c->stream);
	compile_string(c->stream, c->graph->file, strlen(c->graph->file));
	fputs(",\n\t.text =\n\t", c->stream);
	compile_string(c->stream, c->source->text, c->source->size);
	fprintf(c->stream,
		",\n\t.size = %zu,\n\t.node_count = %u,\n\t.names = xk_compiled_names,\n"
		"\t.plain = xk_compiled_plain,\n\t.watched = xk_compiled_watched,\n};\n"
		"XK_COMPILED_OUT const struct xk_graph_compiled *const program_graph = &xk_compiled_graph;\n#endif\n",
		c->source->size, c->graph->node_count);
}

/* ---- the whole ---- */

/* Crossings first: the protocols' files are made of them. */
static int
compile_copies(const struct compile *c)
{
	const struct xk_graph *graph = c->graph;
	int status = 0;

	fputs("\n/* ---- who calls whom ---- */\n", c->stream);
	for (unsigned i = 0; i < graph->node_count; i++)
		if (compile_begins_copy(c, graph->order[i]))
			compile_crossings(c, graph->order[i]);
	fputs("\n/* ---- the protocols ---- */\n\n#include \"graphs/generated_verbs.h\"\n", c->stream);
	for (unsigned i = 0; i < graph->node_count && status == 0; i++)
		if (compile_begins_copy(c, graph->order[i]))
			status = compile_include(c, graph->order[i]);
	return status;
}

int
xk_graph_compile(const struct xk_graph *graph, const struct xk_graph_c_source *source, FILE *stream,
		 struct xk_graph_errors *errors)
{
	struct compile c = { .graph = graph, .source = source, .stream = stream, .errors = errors };
	int status;

	xk_assert(graph->checked);
	c.position = calloc(graph->node_count + 1, sizeof(*c.position));
	c.copy = calloc(graph->node_count + 1, sizeof(*c.copy));
	xk_assert(c.position != NULL && c.copy != NULL);
	compile_make_copies(&c);
	compile_head(&c);
	compile_externs(&c);
	status = compile_copies(&c);
	compile_tables(&c);
	free(c.position);
	free(c.copy);
	return status == 0 && ferror(stream) ? -EIO : status;
}
