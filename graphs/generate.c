/*
 * generate.c - writes a checked graph as C: the crossings of each node (generate_crossings.c), then the protocols'
 * files; see compiled.h.
 *
 * A graph file is not trusted: of its names and values, only numbers, names of types (the library's own) and strings
 *                              with
 * every odd byte escaped reach the C.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* A type's file, and the other parts of its protocol. */
struct generate_files {
	char place[GENERATE_PATH]; /* their folder, from the tree */
	char *text;                /* NULL: the file is not in the tree */
	char **parts;              /* NAME_*.c, in the order of their names */
	unsigned part_count;
};

/* Whether the file of a type is in a folder of the tree; writes its path. */
static bool
generate_is_in(const struct generate *g, const char *place, const char *type, char path[GENERATE_PATH])
{
	return snprintf(path, GENERATE_PATH, "%s/%s/%s.c", g->source->tree, place, type) < GENERATE_PATH &&
	       access(path, R_OK) == 0;
}

/* Lists the entries of a folder of the tree in the order of their names. Returns how many; or -1. */
static int
generate_list(const struct generate *g, const char *place, struct dirent ***entries)
{
	char path[GENERATE_PATH];

	if (snprintf(path, sizeof(path), "%s/%s", g->source->tree, place) >= (int)sizeof(path))
		return -1;
	return scandir(path, entries, NULL, alphasort);
}

static void
generate_list_free(struct dirent **entries, int count)
{
	for (int i = 0; i < count; i++)
		free(entries[i]);
	if (count >= 0)
		free(entries);
}

/* Finds the file in protocols/ or in one of its folders. False: it is nowhere. */
static bool
generate_find(const struct generate *g, const char *type, struct generate_files *files, char path[GENERATE_PATH])
{
	struct dirent **folders;
	bool found;
	int count;

	snprintf(files->place, sizeof(files->place), "protocols");
	if (generate_is_in(g, files->place, type, path))
		return true;
	found = false;
	count = generate_list(g, "protocols", &folders);
	for (int i = 0; i < count && !found; i++) {
		snprintf(files->place, sizeof(files->place), "protocols/%s", folders[i]->d_name);
		found = folders[i]->d_name[0] != '.' && generate_is_in(g, files->place, type, path);
	}
	generate_list_free(folders, count);
	return found;
}

static void
generate_read_parts(const struct generate *g, const char *type, struct generate_files *files)
{
	size_t len = strlen(type);
	struct dirent **entries;
	int count = generate_list(g, files->place, &entries);

	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;
		size_t name_len = strlen(name);

		if (strncmp(name, type, len) != 0 || name[len] != '_' || strcmp(name + name_len - 2, ".c") != 0)
			continue;
		files->parts = xk_graph_grow(files->parts, files->part_count, sizeof(*files->parts));
		files->parts[files->part_count++] = xk_graph_copy(name);
	}
	generate_list_free(entries, count);
}

static void
generate_read(const struct generate *g, const char *type, struct generate_files *files)
{
	char path[GENERATE_PATH];
	FILE *stream;

	*files = (struct generate_files){ .text = NULL };
	if (!generate_find(g, type, files, path))
		return;
	stream = fopen(path, "re");
	if (stream == NULL)
		return;
	files->text = malloc(GENERATE_TEXT + 1);
	xk_assert(files->text != NULL);
	files->text[fread(files->text, 1, GENERATE_TEXT, stream)] = '\0';
	fclose(stream);
	generate_read_parts(g, type, files);
}

static void
generate_files_free(struct generate_files *files)
{
	for (unsigned i = 0; i < files->part_count; i++)
		free(files->parts[i]);
	free(files->parts);
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
		return -EINVAL;
	}
	fprintf(g->stream, "\n#undef XK_NODE\n#define XK_NODE %u\n#undef xk_virtual_demux\n", position);
	if (type->flags & XK_VIRTUAL)
		fprintf(g->stream, "#define xk_virtual_demux xk_virtual_demux_%u\n", position);
	if (copy != generate_first_of(g, type))
		generate_names_find(&names, files.text, type->name);
	generate_names_begin(&names, position, g->stream);
	fprintf(g->stream, "#include \"%s/%s.c\"\n", files.place, type->name);
	generate_names_end(&names, g->stream);
	for (unsigned i = 0; i < files.part_count; i++)
		fprintf(g->stream, "#include \"%s/%s\"\n", files.place, files.parts[i]);
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
	alone = files.text != NULL && files.part_count == 0 && generate_names_find(&names, files.text, type->name);
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
