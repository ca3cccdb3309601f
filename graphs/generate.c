/*
 * generate.c - writes a checked graph as C: the crossings of each node (generate_crossings.c), then the protocols'
 * files; see compiled.h.
 *
 * A graph file is not trusted: of its names and values, only numbers, names of types (the library's own) and strings
 *                              with
 * every odd byte escaped reach the C.
 */
#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/generate_private.h"

enum {
	GENERATE_COPIES = 64,    /* besides one for each type; more nodes share that */
	GENERATE_TEXT = 1 << 20, /* of a protocol's file */
	GENERATE_PATH = 4096,
};

/* Returns the first node of a type, lowers first. */
static unsigned
generate_first_of(const struct generate *g, const struct xk_protocol_type *type)
{
	unsigned i = 0;

	while (generate_type(g, g->graph->order[i]) != type)
		i++;
	return g->graph->order[i];
}

const char *
generate_symbol(const struct generate *g, unsigned copy, char symbol[GENERATE_SYMBOL])
{
	const struct xk_protocol_type *type = generate_type(g, copy);

	if (copy == generate_first_of(g, type))
		snprintf(symbol, GENERATE_SYMBOL, "xk_type_%.100s", type->name);
	else
		snprintf(symbol, GENERATE_SYMBOL, "xk_type_%.100s__%u", type->name, g->position[copy]);
	return symbol;
}

/* Whether a node stands for its copy. */
static bool
generate_begins_copy(const struct generate *g, unsigned node)
{
	return g->copy[node] == node;
}

/* ---- strings ---- */

static void
generate_string(FILE *stream, const char *text, size_t size)
{
	fputc('"', stream);
	for (size_t i = 0; i < size; i++) {
		unsigned char byte = (unsigned char)text[i];

		if (byte == '\n')
			fputs("\\n\"\n\t\"", stream);
		else if (byte == '"' || byte == '\\')
			fprintf(stream, "\\%c", byte);
		else if (byte == '?' || !isprint(byte))
			fprintf(stream, "\\%03o", byte);
		else
			fputc(byte, stream);
	}
	fputc('"', stream);
}

void
generate_word(FILE *stream, const char *text)
{
	for (; *text != '\0'; text++)
		fputc(isalnum((unsigned char)*text) || strchr("_-.", *text) != NULL ? *text : '_', stream);
}

/* ---- the protocols' files ---- */

/* A type's file, and the other parts of its protocol, NAME_*.c, in the order of their names. */
struct generate_files {
	glob_t file, parts;
	char *text; /* NULL: the file is not in the tree */
};

/* Adds the files of the tree that match pattern, in the order of their names. */
static void
generate_match(const struct generate *g, const char *pattern, int flags, glob_t *files)
{
	char text[GENERATE_PATH];
	size_t used = 0;

	for (const char *p = g->source->tree; *p != '\0' && used < sizeof(text) - 2; p++) {
		if (strchr("*?[\\", *p) != NULL)
			text[used++] = '\\';
		text[used++] = *p;
	}
	snprintf(text + used, sizeof(text) - used, "/%s", pattern);
	glob(text, flags, NULL, files);
}

/* Returns the path from the tree of a file that was found. */
static const char *
generate_path(const struct generate *g, const glob_t *files, size_t index)
{
	return files->gl_pathv[index] + strlen(g->source->tree) + 1;
}

/* Finds the files in protocols/ or in one of its folders. */
static void
generate_read(const struct generate *g, const char *type, struct generate_files *files)
{
	char pattern[GENERATE_PATH];
	const char *path;
	FILE *stream;

	memset(files, 0, sizeof(*files));
	snprintf(pattern, sizeof(pattern), "protocols/%s.c", type);
	generate_match(g, pattern, 0, &files->file);
	snprintf(pattern, sizeof(pattern), "protocols/*/%s.c", type);
	generate_match(g, pattern, GLOB_APPEND, &files->file);
	stream = files->file.gl_pathc > 0 ? fopen(files->file.gl_pathv[0], "re") : NULL;
	if (stream == NULL)
		return;
	files->text = malloc(GENERATE_TEXT + 1);
	xk_assert(files->text != NULL);
	files->text[fread(files->text, 1, GENERATE_TEXT, stream)] = '\0';
	fclose(stream);
	path = generate_path(g, &files->file, 0);
	snprintf(pattern, sizeof(pattern), "%.*s_*.c", (int)strlen(path) - 2, path);
	generate_match(g, pattern, 0, &files->parts);
}

static void
generate_files_free(struct generate_files *files)
{
	globfree(&files->file);
	globfree(&files->parts);
	free(files->text);
}

/* Includes the files of a copy, which gets names of its own if it is not the first of its type. 0 or -EINVAL. */
static int
generate_include(const struct generate *g, unsigned copy)
{
	const struct xk_protocol_type *type = generate_type(g, copy);
	struct generate_names names = { .count = 0 };
	unsigned position = g->position[copy];
	struct generate_files files;

	generate_read(g, type->name, &files);
	if (files.text == NULL) {
		xk_graph_errors_add(g->errors, g->graph->file, g->graph->nodes[copy].line,
				    "%s cannot be compiled: there is no protocols/%s.c in %s", type->name, type->name,
				    g->source->tree);
		generate_files_free(&files);
		return -EINVAL;
	}
	fprintf(g->stream, "\n#undef XK_NODE\n#define XK_NODE %u\n#undef xk_virtual_demux\n", position);
	if (type->flags & XK_VIRTUAL)
		fprintf(g->stream, "#define xk_virtual_demux xk_virtual_demux_%u\n", position);
	if (copy != generate_first_of(g, type))
		generate_names_find(&names, files.text, type->name);
	generate_names_begin(&names, position, g->stream);
	fprintf(g->stream, "#include \"%s\"\n", generate_path(g, &files.file, 0));
	generate_names_end(&names, g->stream);
	for (size_t i = 0; i < files.parts.gl_pathc; i++)
		fprintf(g->stream, "#include \"%s\"\n", generate_path(g, &files.parts, i));
	generate_names_clear(&names);
	generate_files_free(&files);
	return 0;
}

/* Whether nodes of a type can have copies of their own: its one file shares no names with others. */
static bool
generate_is_alone(const struct generate *g, const struct xk_protocol_type *type)
{
	struct generate_names names = { .count = 0 };
	struct generate_files files;
	bool alone;

	generate_read(g, type->name, &files);
	alone = files.text != NULL && files.parts.gl_pathc == 0 && generate_names_find(&names, files.text, type->name);
	generate_names_clear(&names);
	generate_files_free(&files);
	return alone;
}

/* Makes one copy for each type or, where that is possible, for each node. */
static void
generate_make_copies(struct generate *g)
{
	unsigned copies = 0;

	for (unsigned i = 0; i < g->graph->node_count; i++) {
		unsigned node = g->graph->order[i], first = generate_first_of(g, generate_type(g, node));

		g->position[node] = i;
		g->copy[node] = first;
		if (node != first && copies < GENERATE_COPIES && generate_is_alone(g, generate_type(g, node))) {
			g->copy[node] = node;
			copies++;
		}
	}
}

/* ---- the frame ---- */

static void
generate_head(const struct generate *g)
{
	const struct xk_graph *graph = g->graph;
	const char *slash;

	fputs("/*\n * ", g->stream);
	slash = strrchr(graph->file, '/');
	generate_word(g->stream, slash == NULL ? graph->file : slash + 1);
	fputs(", compiled by xk compile:\n *\n", g->stream);
	for (unsigned i = graph->node_count; i-- > 0;) {
		const struct xk_graph_node *node = &graph->nodes[graph->order[i]];

		fprintf(g->stream, " *  %3u ", i);
		generate_word(g->stream, node->name);
		for (unsigned j = 0; j < node->lower_count; j++) {
			const struct xk_graph_edge *edge = &graph->edges[node->lowers[j]];

			fputs(j == 0 ? " -> " : ", ", g->stream);
			generate_word(g->stream, graph->nodes[edge->lower].name);
			if (edge->handoff == XK_GRAPH_EXPLICIT)
				fputs(" (handed off)", g->stream);
		}
		fputc('\n', g->stream);
	}
	fputs(" */\n#include \"graphs/generated.h\"\n\n#include \"graphs/compiled.h\"\n", g->stream);
}

static void
generate_externs(const struct generate *g)
{
	char symbol[GENERATE_SYMBOL];

	fputc('\n', g->stream);
	for (unsigned i = 0; i < g->graph->node_count; i++)
		if (generate_begins_copy(g, g->graph->order[i]))
			fprintf(g->stream, "extern const struct xk_protocol_type %s;\n",
				generate_symbol(g, g->graph->order[i], symbol));
}

static void
generate_types(const struct generate *g, const char *declaration)
{
	char symbol[GENERATE_SYMBOL];

	fprintf(g->stream, "%s = {\n", declaration);
	for (unsigned i = 0; i < g->graph->node_count; i++)
		fprintf(g->stream, "\t&%s,\n", generate_symbol(g, g->copy[g->graph->order[i]], symbol));
	fputs("};\n", g->stream);
}

static void
generate_names(const struct generate *g)
{
	fputs("static const char *const xk_compiled_names[] = {\n", g->stream);
	for (unsigned i = 0; i < g->graph->node_count; i++) {
		const char *name = g->graph->nodes[g->graph->order[i]].name;

		fputc('\t', g->stream);
		generate_string(g->stream, name, strlen(name));
		fputs(",\n", g->stream);
	}
	fputs("};\n", g->stream);
}

static void
generate_tables(const struct generate *g)
{
	fputs("\n/* ---- what the program takes ---- */\n\n#if !XK_WATCHED\n", g->stream);
	generate_types(g, "XK_COMPILED_OUT const struct xk_protocol_type *const xk_compiled_plain[]");
	fputs("#else\nextern const struct xk_protocol_type *const xk_compiled_plain[];\n\n", g->stream);
	generate_types(g, "static const struct xk_protocol_type *const xk_compiled_watched[]");
	generate_names(g);
	fputs("static const struct xk_graph_compiled xk_compiled_graph = {\n\t.file = ", g->stream);
	generate_string(g->stream, g->graph->file, strlen(g->graph->file));
	fputs(",\n\t.text =\n\t", g->stream);
	generate_string(g->stream, g->source->text, g->source->size);
	fprintf(g->stream,
		",\n\t.size = %zu,\n\t.node_count = %u,\n\t.names = xk_compiled_names,\n"
		"\t.plain = xk_compiled_plain,\n\t.watched = xk_compiled_watched,\n};\n"
		"XK_COMPILED_OUT const struct xk_graph_compiled *const program_graph = &xk_compiled_graph;\n#endif\n",
		g->source->size, g->graph->node_count);
}

/* ---- the whole ---- */

int
xk_graph_compile(const struct xk_graph *graph, const struct xk_graph_c_source *source, FILE *stream,
		 struct xk_graph_errors *errors)
{
	struct generate g = { .graph = graph, .source = source, .stream = stream, .errors = errors };
	int err = 0;

	xk_assert(graph->checked);
	g.position = calloc(graph->node_count + 1, sizeof(*g.position));
	g.copy = calloc(graph->node_count + 1, sizeof(*g.copy));
	xk_assert(g.position != NULL && g.copy != NULL);
	generate_make_copies(&g);
	generate_head(&g);
	generate_externs(&g);
	/* crossings first: the protocols' files use them */
	fputs("\n/* ---- who calls whom ---- */\n", stream);
	for (unsigned i = 0; i < graph->node_count; i++)
		if (generate_begins_copy(&g, graph->order[i]))
			generate_crossings(&g, graph->order[i]);
	fputs("\n/* ---- the protocols ---- */\n\n#include \"graphs/generated_verbs.h\"\n", stream);
	for (unsigned i = 0; i < graph->node_count && err == 0; i++)
		if (generate_begins_copy(&g, graph->order[i]))
			err = generate_include(&g, graph->order[i]);
	generate_tables(&g);
	free(g.position);
	free(g.copy);
	return err == 0 && ferror(stream) ? -EIO : err;
}
