/*
 * xk_dissectors.c - `xk dissectors [GRAPH] -o FILE`: writes the headers that protocols declare (xkernel/header.h) as
 * dissectors for Wireshark and tshark, in Lua.
 *
 * Each protocol with a header is a Proto, xk_NAME, with a filter for each field, xk_NAME.FIELD, and for each option behind
 * the fields and its own, xk_NAME.options.OPTION and xk_NAME.options.OPTION.FIELD. The number in the header selects the
 * protocol above; protocols on eth or ip are in Wireshark's own tables. Protocols that Wireshark knows are left to it.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "graphs/graph.h"
#include "tools/output.h"
#include "tools/xk/xk.h"
#include "xkernel/protocol.h"

struct dissectors_options {
	const char *output;
};

static const struct options_option dissectors_options[] = {
	OPTION(TEXT, struct dissectors_options, output, "output", "FILE",
	       "or -o FILE: the output (standard output); - is standard output"),
	{ .name = NULL },
};

static const struct options_program dissectors_program = {
	.name = "xk dissectors",
	.usage = "[GRAPH] [-o FILE]",
	.about = "Writes dissectors in Lua for the headers of all protocols: `tshark -X lua_script:FILE -r CAPTURE`.\n"
		 "Protocols identify those above them by their usual numbers and, with GRAPH, by the numbers of the\n"
		 "graph's edges. eth, arp, ip, icmp, tcp and udp are Wireshark's own.",
	.options = dissectors_options,
	.operands_max = 1,
	.reads_operands = true,
};

/*
 * Returns the dissector table above a protocol that Wireshark itself knows, "" if it has none, or NULL if Wireshark
 * does not know it.
 */
static const char *
dissectors_known_table(const struct xk_protocol_type *type)
{
	static const char *const known[][2] = {
		{ "arp", "" },        { "eth", "ethertype" }, { "icmp", "" },
		{ "ip", "ip.proto" }, { "tcp", "" },          { "udp", "" },
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(known); i++)
		if (strcmp(known[i][0], type->name) == 0)
			return known[i][1];
	return NULL;
}

static bool
dissectors_is_ours(const struct xk_protocol_type *type)
{
	return type->fields != NULL && dissectors_known_table(type) == NULL;
}

/* Returns the field with the number of the protocol above, and its first bit, or NULL if there is none. */
static const struct xk_field *
dissectors_find_upper(const struct xk_protocol_type *type, size_t *at)
{
	*at = 0;
	for (const struct xk_field *field = type->fields; field->name != NULL; *at += field->bits, field++)
		if (field->is_upper)
			return field;
	return NULL;
}

/* ---- strings and names ---- */

/* Writes any text as a Lua string. */
static void
dissectors_write_string(FILE *stream, const char *text)
{
	putc('"', stream);
	for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++)
		fprintf(stream, *c < ' ' || *c == 0x7f || *c == '"' || *c == '\\' ? "\\%03u" : "%c", *c);
	putc('"', stream);
}

/* Writes name as part of a filter's name, where few characters are allowed; others become their numbers. */
static void
dissectors_write_name(FILE *stream, const char *name)
{
	for (const unsigned char *c = (const unsigned char *)name; *c != '\0'; c++)
		fprintf(stream, *c < 0x80 && (isalnum(*c) || *c == '_' || *c == '-') ? "%c" : "_%02x", *c);
}

/* What holds a field: a header, or an option behind its fields (NULL: none). */
struct dissectors_owner {
	const char *type, *option;
};

/*
 * Writes "xk_TYPE.options.OPTION.FIELD.BIT", "LABEL": a name in filters, without those that are NULL, and the last name
 * as the label.
 */
static void
dissectors_write_names(FILE *stream, const struct dissectors_owner *owner, const char *field, const char *bit)
{
	const char *const names[] = { owner->option, field, bit };
	const char *label = owner->option;

	fputs("\"xk_", stream);
	dissectors_write_name(stream, owner->type);
	fputs(owner->option != NULL ? ".options" : "", stream);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(names); i++)
		if (names[i] != NULL) {
			putc('.', stream);
			dissectors_write_name(stream, names[i]);
			label = names[i];
		}
	fputs("\", ", stream);
	dissectors_write_string(stream, label);
}

/* Writes TABLE[TYPE]. */
static void
dissectors_write_of(FILE *stream, const char *table, const struct xk_protocol_type *type)
{
	fprintf(stream, "%s[", table);
	dissectors_write_string(stream, type->name);
	putc(']', stream);
}

/* ---- fields ---- */

/* The bytes that contain a field, which Wireshark reads as one number. */
struct dissectors_range {
	size_t first, count;
	uint64_t mask; /* 0: all bits */
};

static struct dissectors_range
dissectors_range_of(const struct xk_field *field, size_t at)
{
	struct dissectors_range range = { at / 8, (at + field->bits + 7) / 8 - at / 8, 0 };

	if (range.count * 8 != field->bits)
		range.mask = ((UINT64_C(1) << field->bits) - 1) << ((range.first + range.count) * 8 - at - field->bits);
	return range;
}

/* Declares a field, and each of its named bits, with the bytes of each; n numbers them. */
static void
dissectors_write_field(FILE *stream, const struct dissectors_owner *owner, const struct xk_field *field, size_t at,
		       unsigned *n)
{
	struct dissectors_range range = dissectors_range_of(field, at);
	bool is_number = field->print == XK_PRINT_DECIMAL || field->print == XK_PRINT_HEX;
	bool is_odd = range.count >= 5 && range.count <= 7;
	unsigned shift = range.mask == 0 ? 0 : (unsigned)__builtin_ctzll(range.mask);

	++*n;
	fprintf(stream, "f[%u], at[%u] = ProtoField.", *n, *n);
	if (field->print == XK_PRINT_HOST)
		fprintf(stream, "ipv4");
	else if (field->print == XK_PRINT_LINK)
		fprintf(stream, "ether");
	else if (is_odd)
		fprintf(stream, "bytes");
	else
		fprintf(stream, "uint%zu", range.count * 8);
	putc('(', stream);
	dissectors_write_names(stream, owner, field->name, NULL);
	if (is_number && range.count <= 8 && !is_odd) {
		fprintf(stream, ", base.%s, ", field->print == XK_PRINT_HEX || field->is_bits ? "HEX" : "DEC");
		if (field->values != NULL && !field->is_bits) {
			const char *before = "{ ";

			for (const struct xk_field_value *v = field->values; v->name != NULL; v++) {
				fprintf(stream, "%s[%" PRIu64 "] = ", before, v->value);
				dissectors_write_string(stream, v->name);
				before = ", ";
			}
			fputs(" }", stream);
		} else {
			fputs("nil", stream);
		}
		if (range.mask != 0)
			fprintf(stream, ", 0x%" PRIx64, range.mask);
	}
	fprintf(stream, "), { %zu, %zu }\n", range.first, range.count);
	for (const struct xk_field_value *v = field->values; field->is_bits && v != NULL && v->name != NULL; v++) {
		++*n;
		fprintf(stream, "f[%u], at[%u] = ProtoField.bool(", *n, *n);
		dissectors_write_names(stream, owner, field->name, v->name);
		fprintf(stream, ", %zu, nil, 0x%" PRIx64 "), at[%u]\n", range.count * 8, v->value << shift, *n - 1);
	}
}

/* ---- options ---- */

/* The Lua function that adds the options in bytes from `from` up to `last` to a tree. */
static const char dissectors_options_code[] =
	"local function add_fields(tree, tvb, f, o, first, last, from, limit)\n"
	"\tfor i = first, last do\n"
	"\t\tlocal begin, count = from + o.at[i][1], o.at[i][2]\n"
	"\t\tif begin + count <= limit then tree:add(f[i], tvb(begin, count)) end\n"
	"\tend\n"
	"end\n"
	"local function add_options(tree, tvb, f, options, from, last)\n"
	"\twhile from < last and tvb(from, 1):uint() ~= 0 do\n"
	"\t\tlocal kind, len = tvb(from, 1):uint(), 1\n"
	"\t\tif kind ~= 1 then len = from + 1 < last and tvb(from + 1, 1):uint() or 0 end\n"
	"\t\tif len < 1 + (kind == 1 and 0 or 1) or from + len > last then\n"
	"\t\t\ttree:add(tvb(from, last - from), \"malformed option \" .. kind)\n"
	"\t\t\treturn\n"
	"\t\tend\n"
	"\t\tlocal o, at, limit = options[kind], from + 2, from + len\n"
	"\t\tif o then\n"
	"\t\t\tlocal t = tree:add(f[o.head], tvb(from, len))\n"
	"\t\t\tadd_fields(t, tvb, f, o, o.head + 1, o.again - 1, at, limit)\n"
	"\t\t\tat = at + o.once\n"
	"\t\t\twhile o.each > 0 and at + o.each <= limit do\n"
	"\t\t\t\tadd_fields(t, tvb, f, o, o.again, o.last, at, limit)\n"
	"\t\t\t\tat = at + o.each\n"
	"\t\t\tend\n"
	"\t\telseif kind ~= 1 then\n"
	"\t\t\ttree:add(tvb(from, len), \"option \" .. kind)\n"
	"\t\tend\n"
	"\t\tfrom = limit\n"
	"\tend\n"
	"end\n";

/* Declares the options and their fields, with their places: of those that repeat, among each other. */
static void
dissectors_write_options(FILE *stream, const struct xk_protocol_type *type, unsigned *n)
{
	fputs("local options = {}\n", stream);
	for (const struct xk_option *option = type->options->options; option->name != NULL; option++) {
		const struct dissectors_owner owner = { type->name, option->name };
		unsigned head = ++*n, again = head + 1;
		size_t at = 0, once = option->once * (size_t)8;

		fprintf(stream, "do\nlocal at = {}\nf[%u] = ProtoField.none(", head);
		dissectors_write_names(stream, &owner, NULL, NULL);
		fputs(")\n", stream);
		for (const struct xk_field *field = option->fields; field->name != NULL; at += field->bits, field++) {
			dissectors_write_field(stream, &owner, field, at < once ? at : at - once, n);
			again = at < once ? *n + 1 : again;
		}
		fprintf(stream,
			"options[%u] = { head = %u, again = %u, last = %u, once = %u, each = %u, at = at }\nend\n",
			option->kind, head, again, *n, option->once, option->each);
	}
}

/* Writes what sets `size` to the header's length, with options, if that can be. */
static void
dissectors_write_size(FILE *stream, const struct xk_option_list *list)
{
	fprintf(stream,
		"\tlocal claimed = tvb(0, %u):bitfield(%u, %u) * %u\n"
		"\tif claimed >= size and claimed <= tvb:len() then size = claimed end\n",
		list->at + 1u, list->at * 8u + 8u - list->shift - list->bits, list->bits, list->unit);
}

/* ---- protocols ---- */

/* Writes a number in the header as a Lua expression. */
static void
dissectors_write_number(FILE *stream, const struct xk_field *field, size_t at)
{
	struct dissectors_range range = dissectors_range_of(field, at);

	if (range.mask != 0)
		fprintf(stream, "tvb:range(0, %zu):bitfield(%zu, %u)", range.first + range.count, at, field->bits);
	else
		fprintf(stream, "tvb(%zu, %zu):uint()", range.first, range.count);
}

/* Hands the bytes behind the header to the protocol above, unless the message is part of a longer one. */
static void
dissectors_write_rest(FILE *stream, const struct xk_protocol_type *type)
{
	size_t at, part_at = 0;
	const struct xk_field *upper = dissectors_find_upper(type, &at);

	fputs("\tif tvb:len() == size then return size end\n\tlocal rest = tvb(size):tvb()\n\tlocal done = 0\n",
	      stream);
	if (upper != NULL) {
		fputs("\tlocal whole = true", stream);
		for (const struct xk_field *field = type->fields; field->name != NULL;
		     part_at += field->bits, field++) {
			if (!field->is_part)
				continue;
			fputs(" and ", stream);
			dissectors_write_number(stream, field, part_at);
			fputs(" == 0", stream);
		}
		fputs("\n\tif whole then done = ", stream);
		dissectors_write_of(stream, "uppers", type);
		fputs(":try(", stream);
		dissectors_write_number(stream, upper, at);
		fputs(", rest, pinfo, tree) end\n", stream);
	}
	fputs("\tif done == 0 then Dissector.get(\"data\"):call(rest, pinfo, tree) end\n", stream);
}

static void
dissectors_write_protocol(FILE *stream, const struct xk_protocol_type *type)
{
	const struct dissectors_owner owner = { type->name, NULL };
	unsigned n = 0;
	size_t at = 0;

	fputs("\ndo\nlocal name = ", stream);
	dissectors_write_string(stream, type->name);
	fputs("\nlocal p = Proto(\"xk_", stream);
	dissectors_write_name(stream, type->name);
	fputs("\", \"x-kernel \" .. name)\nlocal f, at = p.fields, {}\n", stream);
	dissectors_write_of(stream, "protocols", type);
	fputs(" = p\n", stream);
	if (dissectors_find_upper(type, &at) != NULL) {
		dissectors_write_of(stream, "uppers", type);
		fputs(" = DissectorTable.new(\"xk_", stream);
		dissectors_write_name(stream, type->name);
		fputs(".upper\", \"x-kernel \" .. name, ftypes.UINT32, base.HEX)\n", stream);
	}
	at = 0;
	for (const struct xk_field *field = type->fields; field->name != NULL; at += field->bits, field++)
		dissectors_write_field(stream, &owner, field, at, &n);
	if (type->options != NULL)
		dissectors_write_options(stream, type, &n);
	fprintf(stream,
		"function p.dissector(tvb, pinfo, tree)\n\tlocal size = %" PRIu32 "\n"
		"\tif tvb:len() < size then return 0 end\n",
		type->header);
	if (type->options != NULL)
		dissectors_write_size(stream, type->options);
	fputs("\tpinfo.cols.protocol = name\n\tlocal t = tree:add(p, tvb(0, size))\n"
	      "\tfor i, bytes in ipairs(at) do t:add(f[i], tvb(bytes[1], bytes[2])) end\n",
	      stream);
	if (type->options != NULL)
		fprintf(stream, "\tadd_options(t, tvb, f, options, %" PRIu32 ", size)\n", type->header);
	dissectors_write_rest(stream, type);
	fputs("\treturn tvb:len()\nend\nend\n", stream);
}

/* ---- numbers ---- */

static void
dissectors_write_number_on(FILE *stream, const struct xk_protocol_type *upper, const struct xk_protocol_type *lower,
			   uint32_t number)
{
	const char *table = dissectors_known_table(lower);
	bool is_ours = dissectors_is_ours(upper);
	size_t at;

	if (table != NULL && is_ours && table[0] != '\0')
		fprintf(stream, "DissectorTable.get(\"%s\")", table);
	else if (table == NULL && lower->fields != NULL && dissectors_find_upper(lower, &at) != NULL &&
		 (is_ours || dissectors_known_table(upper) != NULL))
		dissectors_write_of(stream, "uppers", lower);
	else
		return;
	fprintf(stream, ":add(%" PRIu32 ", ", number);
	if (is_ours)
		dissectors_write_of(stream, "protocols", upper);
	else
		fprintf(stream, "Dissector.get(\"%s\")", upper->name);
	fputs(")\n", stream);
}

/* Writes upper's number on an edge, for each lower that the edge leads to, also through virtual protocols. */
static void
dissectors_write_edge(FILE *stream, const struct xk_graph *graph, const struct xk_protocol_type *upper, unsigned lower,
		      uint32_t number)
{
	const struct xk_graph_node *node = &graph->nodes[lower];

	if (!(node->type->flags & XK_VIRTUAL)) {
		dissectors_write_number_on(stream, upper, node->type, number);
		return;
	}
	for (unsigned i = 0; i < node->lower_count; i++)
		dissectors_write_edge(stream, graph, upper, graph->edges[node->lowers[i]].lower, number);
}

static void
dissectors_write(FILE *stream, const struct xk_graph *graph)
{
	fprintf(stream,
		"-- Written by xk dissectors: the headers of x-kernel protocols.\nlocal protocols, uppers = {}, {}\n%s",
		dissectors_options_code);
	for (const struct xk_protocol_type *const *type = xk_protocol_types; *type != NULL; type++)
		if (dissectors_is_ours(*type))
			dissectors_write_protocol(stream, *type);
	fputs("\n-- numbers as protocols declare them\n", stream);
	for (const struct xk_protocol_type *const *upper = xk_protocol_types; *upper != NULL; upper++)
		for (const struct xk_number_on *on = (*upper)->numbers; on != NULL && on->lower != NULL; on++) {
			const struct xk_protocol_type *lower = xk_protocol_type_find(on->lower);

			if (lower != NULL)
				dissectors_write_number_on(stream, *upper, lower, on->number);
		}
	if (graph == NULL)
		return;
	fputs("\n-- numbers as the graph gives them\n", stream);
	for (unsigned i = 0; i < graph->edge_count; i++) {
		const struct xk_graph_edge *edge = &graph->edges[i];

		if (edge->has_number)
			dissectors_write_edge(stream, graph, graph->nodes[edge->upper].type, edge->lower, edge->number);
	}
}

/* ---- the command ---- */

int
xk_dissectors_main(int argc, char **argv)
{
	struct dissectors_options o = { .output = "-" };
	static const struct options_texts no_sets;
	struct xk_graph *graph = NULL;
	struct options_texts operands;
	FILE *stream;
	int status;

	status = options_parse(&dissectors_program, argc, argv, &o, &operands);
	if (status != OPTIONS_GO)
		return status;
	if (operands.count > 0) {
		if (output_is_input(dissectors_program.name, o.output, operands.text[0]))
			return OPTIONS_FAILURE;
		if (!xk_load(operands.text[0], &no_sets, &graph, NULL))
			return OPTIONS_FAILURE;
	}
	stream = output_open(o.output);
	if (stream != NULL)
		dissectors_write(stream, graph);
	xk_graph_free(graph);
	if (output_close(stream))
		return OPTIONS_SUCCESS;
	fprintf(stderr, "xk dissectors: %s cannot be written: %s\n",
		strcmp(o.output, "-") == 0 ? "standard output" : o.output, xk_error(errno));
	return OPTIONS_FAILURE;
}
