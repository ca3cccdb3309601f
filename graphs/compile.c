/*
 * compile.c - a checked graph as C: the crossings of each node, then the protocols' files; see compiled.h.
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

#include "graphs/compile_names.h"
#include "graphs/compiled.h"
#include "xkernel/virtual.h"

enum {
	COMPILE_NEIGHBOURS = 4, /* that a crossing tells apart; with more of them it asks the session */
	COMPILE_COPIES = 64,    /* besides one for each type; more nodes share that */
	COMPILE_TEXT = 1 << 20, /* of a protocol's file */
	COMPILE_PATH = 4096,
	COMPILE_SYMBOL = 128,
};

/*
 * A copy is a protocol's files in the C, for one node or for all nodes of its type. It is known by its first node; what is
 * said of copies below is said of that one.
 */
struct compile {
	const struct xk_graph *graph;
	const struct xk_graph_c_source *source;
	FILE *stream;
	struct xk_graph_errors *errors;
	unsigned *position; /* of each node: its number in the C */
	unsigned *copy;     /* of each node */
};

/* The copies that a copy's sessions may lead to. */
struct compile_set {
	unsigned copies[COMPILE_NEIGHBOURS + 1];
	unsigned count; /* more than COMPILE_NEIGHBOURS: too many to tell apart */
	bool lent;      /* some of them by way of a protocol that lends sessions */
};

static const struct xk_protocol_type *
compile_type(const struct compile *c, unsigned node)
{
	return c->graph->nodes[node].type;
}

/* The first node of a type, from below. */
static unsigned
compile_first_of(const struct compile *c, const struct xk_protocol_type *type)
{
	unsigned i = 0;

	while (compile_type(c, c->graph->order[i]) != type)
		i++;
	return c->graph->order[i];
}

/* What a copy's type is called in the C. */
static const char *
compile_symbol(const struct compile *c, unsigned copy, char symbol[COMPILE_SYMBOL])
{
	const struct xk_protocol_type *type = compile_type(c, copy);

	if (copy == compile_first_of(c, type))
		snprintf(symbol, COMPILE_SYMBOL, "xk_type_%.100s", type->name);
	else
		snprintf(symbol, COMPILE_SYMBOL, "xk_type_%.100s__%u", type->name, c->position[copy]);
	return symbol;
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

/* What may stand in a comment; the rest becomes _. */
static void
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

/* ---- who stands on whom ---- */

static void
compile_add(const struct compile *c, struct compile_set *set, unsigned node)
{
	for (unsigned i = 0; i < set->count; i++)
		if (set->copies[i] == c->copy[node])
			return;
	if (set->count <= COMPILE_NEIGHBOURS)
		set->copies[set->count++] = c->copy[node];
}

/* A protocol that lends is passed by: its uppers stand on its lowers themselves, too. */
static void
compile_add_uppers(const struct compile *c, unsigned node, struct compile_set *set)
{
	for (unsigned i = 0; i < c->graph->edge_count; i++) {
		const struct xk_graph_edge *edge = &c->graph->edges[i];

		if (edge->lower != node)
			continue;
		compile_add(c, set, edge->upper);
		if (compile_type(c, edge->upper)->flags & XK_LENDS) {
			set->lent = true;
			compile_add_uppers(c, edge->upper, set);
		}
	}
}

/* Not of an edge whose lower is only asked. */
static bool
compile_carries(const struct xk_graph_edge *edge)
{
	return (edge->role->needs & (XK_ASYNC | XK_RPC)) != 0;
}

static void
compile_add_lowers(const struct compile *c, unsigned node, struct compile_set *set)
{
	for (unsigned i = 0; i < c->graph->edge_count; i++) {
		const struct xk_graph_edge *edge = &c->graph->edges[i];

		if (edge->upper != node || !compile_carries(edge))
			continue;
		compile_add(c, set, edge->lower);
		if (compile_type(c, edge->lower)->flags & XK_LENDS) {
			set->lent = true;
			compile_add_lowers(c, edge->lower, set);
		}
	}
}

/* Of all nodes of a copy together. */
static struct compile_set
compile_neighbours(const struct compile *c, unsigned copy,
		   void (*add)(const struct compile *c, unsigned node, struct compile_set *set))
{
	struct compile_set set = { .count = 0 };

	for (unsigned i = 0; i < c->graph->node_count; i++)
		if (c->copy[i] == copy)
			add(c, i, &set);
	return set;
}

static bool
compile_edge_is_marked(const struct compile *c, const struct xk_graph_edge *edge)
{
	return edge->handoff == XK_GRAPH_EXPLICIT ||
	       (edge->handoff != XK_GRAPH_NEVER && (edge->budget.budget_ns != 0 || c->graph->budget.budget_ns != 0));
}

/* Whether the file marks an edge that leads to a copy, or, of what is lent, any edge at all. */
static bool
compile_is_marked(const struct compile *c, const struct compile_set *uppers, unsigned copy)
{
	for (unsigned i = 0; i < c->graph->edge_count; i++)
		if ((uppers->lent || c->copy[c->graph->edges[i].lower] == copy) &&
		    compile_edge_is_marked(c, &c->graph->edges[i]))
			return true;
	return false;
}

/* ---- a copy's crossings ---- */

/* "if (it is one of the nodes of copy)", where there are others. */
static void
compile_if(const struct compile *c, unsigned copy)
{
	const char *before = "\tif (";

	for (unsigned i = 0; i < c->graph->node_count; i++) {
		unsigned node = c->graph->order[i];

		if (c->copy[node] != copy)
			continue;
		fprintf(c->stream, "%ss->up->upper_index == %u", before, i);
		before = " || ";
	}
	fputs(")\n\t", c->stream);
}

/* The way up: a protocol's demux, or its call_demux. */
static void
compile_way_up(const struct compile *c, unsigned copy, const struct compile_set *uppers, bool call)
{
	char symbol[COMPILE_SYMBOL];
	unsigned known = 0;

	if (call)
		fprintf(c->stream,
			"static inline int\nxk_way_call_up_%u(struct xk_session *s, struct xk_msg *m, struct xk_msg "
			"**reply)\n{\n",
			c->position[copy]);
	else
		fprintf(c->stream, "static inline void\nxk_way_up_%u(struct xk_session *s, struct xk_msg *m)\n{\n",
			c->position[copy]);
	for (unsigned i = 0; i < uppers->count && uppers->count <= COMPILE_NEIGHBOURS; i++) {
		const struct xk_protocol_type *type = compile_type(c, uppers->copies[i]);

		if (call ? type->ops->call_demux == NULL : type->ops->demux == NULL)
			continue;
		known++;
		if (uppers->count > 1)
			compile_if(c, uppers->copies[i]);
		fprintf(c->stream, "\treturn %s.ops->%s(xk_hlp_receive(s), s, m%s);\n",
			compile_symbol(c, uppers->copies[i], symbol), call ? "call_demux" : "demux",
			call ? ", reply" : "");
	}
	if (known == 0 || uppers->count > 1)
		fputs(call ? "\treturn xk_call_demux(s, m, reply);\n" : "\txk_demux(s, m);\n", c->stream);
	fputs("}\n", c->stream);
}

/* How many edges that carry messages lead to a copy. */
static unsigned
compile_load(const struct compile *c, unsigned copy)
{
	unsigned count = 0;

	for (unsigned i = 0; i < c->graph->edge_count; i++)
		count += c->copy[c->graph->edges[i].lower] == copy && compile_carries(&c->graph->edges[i]);
	return count;
}

/* What most stands on is asked for first: whoever only resolves addresses has seldom a message. */
static void
compile_sort(const struct compile *c, struct compile_set *set)
{
	for (unsigned i = 0; i < set->count; i++) {
		for (unsigned j = i; j > 0 && compile_load(c, set->copies[j]) > compile_load(c, set->copies[j - 1]);
		     j--) {
			unsigned copy = set->copies[j];

			set->copies[j] = set->copies[j - 1];
			set->copies[j - 1] = copy;
		}
	}
}

static void
compile_up(const struct compile *c, unsigned copy)
{
	struct compile_set uppers = compile_neighbours(c, copy, compile_add_uppers);
	bool marked = compile_is_marked(c, &uppers, copy);

	compile_sort(c, &uppers);
	compile_way_up(c, copy, &uppers, false);
	fprintf(c->stream, "XK_CROSS_UP(%u, %d)\n", c->position[copy], marked);
	compile_way_up(c, copy, &uppers, true);
	fprintf(c->stream, "XK_CROSS_CALL_UP(%u, %d)\n", c->position[copy], marked);
}

/* The copy on whose sessions all of a copy's stand, or -1: they have to be asked. */
static int
compile_only_lower(const struct compile *c, unsigned copy)
{
	struct compile_set lowers = compile_neighbours(c, copy, compile_add_lowers);

	return lowers.count == 1 && !lowers.lent ? (int)lowers.copies[0] : -1;
}

/* The ways down: push, call and call_async, of the lower's sessions. */
static void
compile_down(const struct compile *c, unsigned copy)
{
	int lower = compile_only_lower(c, copy);
	const struct xk_session_ops *ops = lower < 0 ? NULL : compile_type(c, (unsigned)lower)->session_ops;
	const struct {
		bool known;
		const char *macro;
	} ways[] = {
		{ ops != NULL && ops->push != NULL, "XK_DOWN" },
		{ ops != NULL && ops->call != NULL, "XK_CALL" },
		{ ops != NULL && ops->call_async != NULL, "XK_CALL_ASYNC" },
	};
	char symbol[COMPILE_SYMBOL];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(ways); i++) {
		if (ways[i].known)
			fprintf(c->stream, "%s_TO(%u, %s.session_ops)\n", ways[i].macro, c->position[copy],
				compile_symbol(c, (unsigned)lower, symbol));
		else
			fprintf(c->stream, "%s_ASKED(%u)\n", ways[i].macro, c->position[copy]);
	}
}

static bool
compile_is_ordered(const struct compile *c, unsigned copy)
{
	for (unsigned i = 0; i < c->graph->node_count; i++)
		if (c->copy[i] == copy && c->graph->nodes[i].policy.order_session)
			return true;
	return false;
}

/*
 * Whether all that a copy's sessions hand on comes to a virtual protocol whose demux notes, where it has to stop, by whom it came:
 * then they need not.
 */
static bool
compile_is_noted_above(const struct compile *c, unsigned copy)
{
	struct compile_set uppers = compile_neighbours(c, copy, compile_add_uppers);
	const struct xk_protocol_type *upper =
		uppers.count == 1 && !uppers.lent ? compile_type(c, uppers.copies[0]) : NULL;

	return upper != NULL && upper->ops->demux == xk_virtual_demux && upper->session_ops != NULL &&
	       upper->session_ops->pop == xk_pop_through && !compile_is_ordered(c, uppers.copies[0]) &&
	       !compile_is_marked(c, &uppers, copy);
}

/* What a pop does to a copy's own sessions. */
static void
compile_pop(const struct compile *c, unsigned copy)
{
	const struct xk_protocol_type *type = compile_type(c, copy);
	const struct xk_session_ops *ops = type->session_ops;
	unsigned at = c->position[copy];
	char symbol[COMPILE_SYMBOL];

	compile_symbol(c, copy, symbol);
	if (ops != NULL && ops->pop == xk_pop_through)
		fprintf(c->stream, "XK_POP_THROUGH(%u, %d, %d)\n", at, compile_is_ordered(c, copy),
			compile_is_noted_above(c, copy));
	else if (ops != NULL && ops->pop != NULL)
		fprintf(c->stream, "XK_POP_BY(%u, %s.session_ops)\n", at, symbol);
	else
		fprintf(c->stream, "XK_POP_ASKED(%u)\n", at);
	if (ops != NULL && ops->call_pop != NULL)
		fprintf(c->stream, "XK_CALL_POP_BY(%u, %s.session_ops)\n", at, symbol);
	else
		fprintf(c->stream, "XK_CALL_POP_ASKED(%u)\n", at);
	if (type->flags & XK_VIRTUAL)
		fprintf(c->stream, "XK_VIRTUAL_DEMUX(%u)\n", at);
}

static void
compile_crossings(const struct compile *c, unsigned copy)
{
	fputs("\n/*", c->stream);
	for (unsigned i = 0; i < c->graph->node_count; i++) {
		if (c->copy[c->graph->order[i]] != copy)
			continue;
		fprintf(c->stream, " %u: ", i);
		compile_word(c->stream, c->graph->nodes[c->graph->order[i]].name);
	}
	fputs(" */\n\n", c->stream);
	compile_up(c, copy);
	compile_down(c, copy);
	compile_pop(c, copy);
}

/* ---- the protocols' files ---- */

static int
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

/* NAME_*.c: what a protocol has been divided into. */
static unsigned
compile_list_parts(const char *directory, const char *type, char ***parts)
{
	DIR *d = opendir(directory);
	struct dirent *entry;
	unsigned count = 0;

	*parts = NULL;
	while (d != NULL && (entry = readdir(d)) != NULL) {
		char **more;

		if (!compile_is_part(entry->d_name, type))
			continue;
		more = realloc(*parts, (count + 1) * sizeof(*more));
		if (more == NULL)
			break;
		*parts = more;
		more[count] = strdup(entry->d_name);
		count += more[count] != NULL;
	}
	if (d != NULL)
		closedir(d);
	if (count > 1)
		qsort(*parts, count, sizeof(**parts), compile_by_name);
	return count;
}

/* The text of protocols/TYPE.c, the caller's. NULL: it is not in the tree. */
static char *
compile_read(const struct compile *c, const char *type)
{
	char path[COMPILE_PATH], *text;
	FILE *stream;
	size_t size;

	snprintf(path, sizeof(path), "%s/protocols/%s.c", c->source->tree, type);
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
	char path[COMPILE_PATH], **parts;
	unsigned count;

	snprintf(path, sizeof(path), "%s/protocols", c->source->tree);
	count = compile_list_parts(path, type, &parts);
	fprintf(c->stream, "\n#undef XK_NODE\n#define XK_NODE %u\n#undef xk_virtual_demux\n", c->position[copy]);
	if (compile_type(c, copy)->flags & XK_VIRTUAL)
		fprintf(c->stream, "#define xk_virtual_demux xk_virtual_demux_%u\n", c->position[copy]);
	compile_names_begin(names, c->position[copy], c->stream);
	fprintf(c->stream, "#include \"protocols/%s.c\"\n", type);
	compile_names_end(names, c->stream);
	for (unsigned i = 0; i < count; i++) {
		fprintf(c->stream, "#include \"protocols/%s\"\n", parts[i]);
		free(parts[i]);
	}
	free(parts);
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
	char path[COMPILE_PATH], **parts, *text = compile_read(c, type->name);
	unsigned count;
	bool alone;

	snprintf(path, sizeof(path), "%s/protocols", c->source->tree);
	count = compile_list_parts(path, type->name, &parts);
	alone = text != NULL && count == 0 && compile_names_find(&names, text, type->name);
	for (unsigned i = 0; i < count; i++)
		free(parts[i]);
	free(parts);
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

/* ---- the whole ---- */

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
	fputs(" */\n#include \"xkernel/compiled.h\"\n\n#include \"graphs/compiled.h\"\n", c->stream);
}

static void
compile_externs(const struct compile *c)
{
	char symbol[COMPILE_SYMBOL];

	fputc('\n', c->stream);
	for (unsigned i = 0; i < c->graph->node_count; i++)
		if (c->copy[c->graph->order[i]] == c->graph->order[i])
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

int
xk_graph_compile(const struct xk_graph *graph, const struct xk_graph_c_source *source, FILE *stream,
		 struct xk_graph_errors *errors)
{
	struct compile c = { .graph = graph, .source = source, .stream = stream, .errors = errors };
	int status = 0;

	xk_assert(graph->checked);
	c.position = calloc(graph->node_count + 1, sizeof(*c.position));
	c.copy = calloc(graph->node_count + 1, sizeof(*c.copy));
	xk_assert(c.position != NULL && c.copy != NULL);
	compile_make_copies(&c);
	compile_head(&c);
	compile_externs(&c);
	fputs("\n/* ---- who calls whom ---- */\n", stream);
	for (unsigned i = 0; i < graph->node_count; i++)
		if (c.copy[graph->order[i]] == graph->order[i])
			compile_crossings(&c, graph->order[i]);
	fputs("\n/* ---- the protocols ---- */\n\n#include \"xkernel/compiled_verbs.h\"\n", stream);
	for (unsigned i = 0; i < graph->node_count && status == 0; i++)
		if (c.copy[graph->order[i]] == graph->order[i])
			status = compile_include(&c, graph->order[i]);
	compile_tables(&c);
	free(c.position);
	free(c.copy);
	return status == 0 && ferror(stream) ? -EIO : status;
}
