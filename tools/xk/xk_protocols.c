/*
 * xk_protocols.c - `xk protocols [NAME]`: lists the built-in protocols, or one protocol's declarations
 * (xkernel/protocol.h).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/options.h"
#include "tools/xk/xk.h"
#include "xkernel/kernel.h"
#include "xkernel/protocol.h"

struct protocols_choices {
	bool counters, dictionary, markdown;
};

static const struct options_option protocols_options[] = {
	OPTION(FLAG, struct protocols_choices, counters, "counters", NULL,
	       "every count, one per line: kernel.NAME, PROTOCOL.NAME"),
	OPTION(FLAG, struct protocols_choices, dictionary, "dictionary", NULL,
	       "values in headers, as a dictionary for libFuzzer and AFL"),
	OPTION(FLAG, struct protocols_choices, markdown, "markdown", NULL,
	       "the same as Markdown, as in docs/protocols/"),
	{ .name = NULL },
};

static const struct options_program protocols_program = {
	.name = "xk protocols",
	.usage = "[OPTION] [NAME]",
	.about = "Lists the protocols for graph files; with NAME, that protocol's declarations:\n"
		 "the roles of its lowers, its uppers' numbers, settings, drop reasons, counters.",
	.options = protocols_options,
	.operands_max = 1,
};

static const char *const protocols_setting_types[] = {
	[XK_SETTING_UINT] = "number",       [XK_SETTING_BOOL] = "yes or no",
	[XK_SETTING_TIME] = "time",         [XK_SETTING_STRING] = "text",
	[XK_SETTING_HOST] = "host",         [XK_SETTING_NETWORK] = "host/bits",
	[XK_SETTING_ADDRESS] = "host/bits", [XK_SETTING_LINK] = "link address",
	[XK_SETTING_RATE] = "rate",         [XK_SETTING_PROBABILITY] = "probability",
};

static void
protocols_print_realms(unsigned realms)
{
	const char *between = "";

	for (unsigned bit = XK_ASYNC; bit <= XK_CONTROL; bit <<= 1) {
		if (!(realms & bit))
			continue;
		printf("%s%s", between, bit == XK_ASYNC ? "push and demux" : bit == XK_RPC ? "calls (RPC)" : "control");
		between = ", ";
	}
	printf("%s", realms == 0 ? "nothing" : "");
}

static const char *
protocols_counter_name(const struct xk_protocol_type *type, unsigned i)
{
	return type->counters[i];
}

static unsigned
protocols_counter_count(const struct xk_protocol_type *type)
{
	unsigned count = 0;

	while (type->counters != NULL && type->counters[count] != NULL)
		count++;
	return count;
}

/* Prints the names from first to end - 1 under their title; nothing if there are none. */
static void
protocols_print_names(const struct xk_protocol_type *type, const char *title,
		      const char *(*name)(const struct xk_protocol_type *type, unsigned i), unsigned first,
		      unsigned end, bool markdown)
{
	for (unsigned i = first; i < end; i++)
		printf(markdown ? "%s`%s`" : "%s%s", i == first ? title : markdown ? ", " : " ", name(type, i));
	printf("%s", first >= end ? "" : markdown ? ".\n" : "\n");
}

static void
protocols_print_kind(const struct xk_protocol_type *type)
{
	printf("%s: %s\n\noffers   ", type->name, type->help);
	protocols_print_realms(type->offers);
	printf("\n");
	if (type->flags & XK_VIRTUAL)
		printf("virtual  no header: numbers pass through it\n");
	if (type->flags & XK_PORT)
		printf("port     the source of messages\n");
	if (type->flags & XK_LENDS)
		printf("lends    its lowers' sessions: messages cross the edge above it\n");
	if (type->flags & XK_ONE_UPPER)
		printf("alone    at most one protocol above it\n");
}

static void
protocols_print_roles(const struct xk_protocol_type *type, bool markdown)
{
	const char *repeats = type->flags & XK_REPEATS ? " (the whole group may be repeated)" : "";
	const struct xk_role *role = type->lowers;
	bool none = role == NULL || role->name == NULL;

	if (!markdown)
		printf("\nlowers%s\n%s", repeats, none ? "  none\n" : "");
	else if (!none)
		printf("\n| below%s | | |\n| --- | --- | --- |\n", repeats);
	for (; role != NULL && role->name != NULL; role++) {
		printf(markdown ? "| %s | %s" : "  %-12s %s", role->name,
		       role->type == NULL ? "any protocol" : role->type);
		if (role->needs != 0) {
			printf(role->type == NULL ? " with " : ", used for ");
			protocols_print_realms(role->needs);
		}
		printf(markdown ? " | %s |\n" : "; %s\n", role->help == NULL ? "" : role->help);
	}
}

static void
protocols_print_header(const struct xk_protocol_type *type, bool markdown)
{
	static const char *const kinds[] = { "", "fixed", "names the session", "a length", "a checksum" };
	static const char *const covered[] = { "", "the header", "what follows", "header and what follows",
					       "pseudo-header, header and what follows" };

	if (type->header == 0)
		return;
	printf(markdown ? "\n| header, %" PRIu32 " bytes | bits | |\n| --- | --- | --- |\n"
			: "\nheader (%" PRIu32 " bytes; fields and their bits)\n",
	       type->header);
	for (const struct xk_field *field = type->fields; field != NULL && field->name != NULL; field++) {
		printf(markdown ? "| %s | %u | " : "  %-22s %2u  ", field->name, field->bits);
		printf("%s%s%s", kinds[field->kind], field->covers == XK_COVERS_NOTHING ? "" : " of ",
		       covered[field->covers]);
		printf("%s%s%s\n", field->help == NULL || field->kind == XK_VARIES ? "" : "; ",
		       field->help == NULL ? "" : field->help, markdown ? " |" : "");
	}
}

/* Prints the options behind the header: kinds, lengths in bytes, and fields. */
static void
protocols_print_options(const struct xk_protocol_type *type, bool markdown)
{
	if (type->options == NULL)
		return;
	printf(markdown ? "\n| option | kind | bytes | |\n| --- | --- | --- | --- |\n"
			: "\noptions behind the header (kinds, lengths in bytes, fields and their bits)\n");
	for (const struct xk_option *option = type->options->options; option->name != NULL; option++) {
		unsigned len = XK_OPTION_HEAD + option->once + option->least * option->each, bits = 0;
		const char *before = "";

		printf(markdown ? "| %s | %u | %u" : "  %-22s %3u  %u", option->name, option->kind, len);
		if (option->each != 0)
			printf(" + n * %u", option->each);
		printf(markdown ? " | " : "  ");
		for (const struct xk_field *field = option->fields; field->name != NULL; bits += field++->bits) {
			bool repeats = option->each != 0 && bits == option->once * 8u;

			printf("%s%s%s %u", before, repeats ? "repeated: " : "", field->name, field->bits);
			before = ", ";
		}
		printf("%s%s%s\n", *before != '\0' && option->help != NULL ? "; " : "",
		       option->help == NULL ? "" : option->help, markdown ? " |" : "");
	}
}

static void
protocols_print_numbers(const struct xk_protocol_type *type, bool markdown)
{
	const char *before = "\nNumbers of the protocols above: ";
	bool none = true;
	uint32_t number;

	if (type->number_max == 0)
		return;
	if (!markdown)
		printf("\nnumbers of its uppers (others: number=N on the edge, at most %" PRIu32 ")\n",
		       type->number_max);
	for (const struct xk_protocol_type *const *upper = xk_protocol_types; *upper != NULL; upper++) {
		if (!xk_number_find(*upper, type, &number))
			continue;
		if (markdown)
			printf("%s`%s` %" PRIu32 " (0x%04" PRIx32 ")", before, (*upper)->name, number, number);
		else
			printf("  %-12s %" PRIu32 " (0x%04" PRIx32 ")\n", (*upper)->name, number, number);
		before = ", ";
		none = false;
	}
	printf("%s", markdown && !none ? ".\n" : "");
}

static void
protocols_print_setting(const struct xk_setting *setting, bool markdown)
{
	char min[XK_SETTING_TEXT], max[XK_SETTING_TEXT], choices[128];
	const char *initial = setting->initial == NULL ? "" : setting->initial;

	printf(markdown ? "| `%s` | %s" : "  %-12s %s", setting->name,
	       setting->type != XK_SETTING_CHOICE ? protocols_setting_types[setting->type]
						  : xk_choices_print(setting->choices, ", ", choices, sizeof(choices)));
	if (setting->min != 0 || setting->max != 0)
		printf(" from %s to %s", xk_setting_print(setting->type, setting->min, min),
		       xk_setting_print(setting->type, setting->max, max));
	if (markdown)
		printf(" | %s | %s |\n", initial, setting->help);
	else
		printf(setting->initial == NULL ? "%s; %s\n" : ", default %s; %s\n", initial, setting->help);
}

/* Prints the settings, including `sessions`, which the framework adds. */
static void
protocols_print_settings(const struct xk_protocol_type *type, bool markdown)
{
	const struct xk_setting *setting = type->settings;
	bool none = setting == NULL || setting->name == NULL;
	char initial[XK_SETTING_TEXT];
	const struct xk_setting sessions = {
		.name = "sessions",
		.type = XK_SETTING_UINT,
		.initial = initial,
		.help = "passively opened sessions kept while idle",
		.min = 1,
		.max = 1048576,
	};

	if (!markdown)
		printf("\nsettings\n%s", none ? "  none of its own\n" : "");
	else if (!none || type->session_max != 0)
		printf("\n| setting | values | default | |\n| --- | --- | --- | --- |\n");
	for (; setting != NULL && setting->name != NULL; setting++)
		protocols_print_setting(setting, markdown);
	snprintf(initial, sizeof(initial), "%u", type->session_max);
	if (type->session_max != 0)
		protocols_print_setting(&sessions, markdown);
}

static void
protocols_print(const struct xk_protocol_type *type, bool markdown)
{
	if (markdown)
		printf("## %s\n\n%s\n", type->name, type->help);
	else
		protocols_print_kind(type);
	protocols_print_roles(type, markdown);
	protocols_print_header(type, markdown);
	protocols_print_options(type, markdown);
	protocols_print_numbers(type, markdown);
	protocols_print_settings(type, markdown);
	protocols_print_names(type, markdown ? "\nDrops: " : "\ndrops\n  ", xk_drop_name,
			      markdown ? XK_DROP_OWN : XK_DROP_NONE + 1, xk_drop_count(type), markdown);
	protocols_print_names(type, markdown ? "\nCounters: " : "\ncounters\n  ", protocols_counter_name, 0,
			      protocols_counter_count(type), markdown);
}

static void
protocols_print_counters(const struct xk_protocol_type *type)
{
	for (unsigned i = XK_DROP_NONE + 1; i < xk_drop_count(type); i++)
		printf("%s.%s\n", type->name, xk_drop_name(type, i));
	for (unsigned i = 0; i < protocols_counter_count(type); i++)
		printf("%s.%s\n", type->name, type->counters[i]);
}

/* ---- a dictionary for fuzzers ---- */

static void
protocols_print_value(const struct xk_field *field, uint64_t value)
{
	printf("\"");
	for (unsigned shift = field->bits; shift > 0; shift -= 8)
		printf("\\x%02x", (unsigned)(value >> (shift - 8)) & 0xff);
	printf("\"\n");
}

/* Prints the named values of fields of whole bytes, the numbers of the protocols above, and the shortest options. */
static void
protocols_print_dictionary(const struct xk_protocol_type *type)
{
	uint32_t number;

	if (type->fields != NULL)
		printf("# %s\n", type->name);
	for (const struct xk_field *field = type->fields; field != NULL && field->name != NULL; field++) {
		if (field->bits % 8 != 0)
			continue;
		if (field->usual != 0)
			protocols_print_value(field, field->usual);
		for (const struct xk_field_value *v = field->values; v != NULL && v->name != NULL; v++)
			protocols_print_value(field, v->value);
		for (unsigned i = 0; field->is_upper && xk_protocol_types[i] != NULL; i++)
			if (xk_number_find(xk_protocol_types[i], type, &number))
				protocols_print_value(field, number);
	}
	for (const struct xk_option *o = type->options == NULL ? NULL : type->options->options;
	     o != NULL && o->name != NULL; o++)
		printf("\"\\x%02x\\x%02x\"\n", o->kind, XK_OPTION_HEAD + o->once + o->least * o->each);
}

/* ---- the command ---- */

static void
protocols_show(const struct xk_protocol_type *type, const struct protocols_choices *choices, bool is_named)
{
	if (choices->counters)
		protocols_print_counters(type);
	else if (choices->dictionary)
		protocols_print_dictionary(type);
	else if (choices->markdown || is_named)
		protocols_print(type, choices->markdown);
	else
		printf("%-12s %s\n", type->name, type->help);
}

int
xk_protocols_main(int argc, char **argv)
{
	struct protocols_choices choices = { .counters = false };
	const struct xk_protocol_type *type;
	struct options_texts operands;
	int status = options_parse(&protocols_program, argc, argv, &choices, &operands);

	if (status != OPTIONS_GO)
		return status;
	if (operands.count > 0) {
		type = xk_protocol_type_find(operands.text[0]);
		if (type == NULL) {
			fprintf(stderr, "xk protocols: there is no protocol \"%s\"; `xk protocols` lists them\n",
				operands.text[0]);
			return OPTIONS_FAILURE;
		}
		protocols_show(type, &choices, true);
		return OPTIONS_SUCCESS;
	}
	for (const struct xk_kernel_count *count = xk_kernel_counts; choices.counters && count->name != NULL; count++)
		printf("kernel.%s\n", count->name);
	for (unsigned i = 0; xk_protocol_types[i] != NULL; i++)
		protocols_show(xk_protocol_types[i], &choices, false);
	return OPTIONS_SUCCESS;
}
