/* xk_protocols.c - `xk protocols [NAME]`: lists the built-in protocols, or what one declares (xkernel/protocol.h). */
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
	       "every count there is, a line each: kernel.NAME, PROTOCOL.NAME"),
	OPTION(FLAG, struct protocols_choices, dictionary, "dictionary", NULL,
	       "what stands in headers, as a dictionary for libFuzzer and AFL"),
	OPTION(FLAG, struct protocols_choices, markdown, "markdown", NULL,
	       "the same as Markdown, as in docs/protocols/"),
	{ .name = NULL },
};

static const struct options_program protocols_program = {
	.name = "xk protocols",
	.usage = "[OPTION] [NAME]",
	.about = "Lists the protocols that a graph file can name; with NAME, what that protocol declares:\n"
		 "the roles of its lowers, its uppers' numbers, settings, drop reasons, counters.",
	.options = protocols_options,
	.operands_max = 1,
};

static const char *const protocols_setting_types[] = {
	[XK_SETTING_UINT] = "number",       [XK_SETTING_BOOL] = "yes or no", [XK_SETTING_TIME] = "time",
	[XK_SETTING_STRING] = "text",       [XK_SETTING_HOST] = "host",      [XK_SETTING_NETWORK] = "host/bits",
	[XK_SETTING_LINK] = "link address", [XK_SETTING_RATE] = "rate",      [XK_SETTING_PROBABILITY] = "probability",
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

static void
protocols_print_kind(const struct xk_protocol_type *type, bool markdown)
{
	printf(markdown ? "## %s\n\n%s\n" : "%s: %s\n", type->name, type->help);
	if (markdown)
		return;
	printf("\noffers   ");
	protocols_print_realms(type->offers);
	printf("\n");
	if (type->flags & XK_VIRTUAL)
		printf("virtual  it has no header: numbers are seen through it\n");
	if (type->flags & XK_PORT)
		printf("port     it is where messages come from\n");
	if (type->flags & XK_LENDS)
		printf("lends    its lowers' sessions: messages cross the edge above it\n");
	if (type->flags & XK_ONE_UPPER)
		printf("alone    at most one protocol may stand on it\n");
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
			printf(role->type == NULL ? " with " : ", asked for ");
			protocols_print_realms(role->needs);
		}
		printf(markdown ? " | %s |\n" : "; %s\n", role->help == NULL ? "" : role->help);
	}
}

static void
protocols_print_field(const struct xk_field *field, bool markdown)
{
	static const char *const kinds[] = { "", "fixed", "names the session", "a length", "a checksum" };
	static const char *const covered[] = { "", "the header", "what follows", "header and what follows",
					       "pseudo-header, header and what follows" };

	printf(markdown ? "| %s | %u | " : "  %-22s %2u  ", field->name, field->bits);
	printf("%s%s%s", kinds[field->kind], field->covers == XK_COVERS_NOTHING ? "" : " of ", covered[field->covers]);
	printf("%s%s%s\n", field->help == NULL || field->kind == XK_VARIES ? "" : "; ",
	       field->help == NULL ? "" : field->help, markdown ? " |" : "");
}

static void
protocols_print_header(const struct xk_protocol_type *type, bool markdown)
{
	if (type->header == 0)
		return;
	printf(markdown ? "\n| header, %" PRIu32 " bytes | bits | |\n| --- | --- | --- |\n"
			: "\nheader (%" PRIu32 " bytes; fields and their bits)\n",
	       type->header);
	for (const struct xk_field *field = type->fields; field != NULL && field->name != NULL; field++)
		protocols_print_field(field, markdown);
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
	char min[XK_SETTING_TEXT], max[XK_SETTING_TEXT];
	const char *initial = setting->initial == NULL ? "" : setting->initial;

	printf(markdown ? "| `%s` | %s" : "  %-12s %s", setting->name, protocols_setting_types[setting->type]);
	if (setting->min != 0 || setting->max != 0)
		printf(" from %s to %s", xk_setting_print(setting->type, setting->min, min),
		       xk_setting_print(setting->type, setting->max, max));
	if (markdown)
		printf(" | %s | %s |\n", initial, setting->help);
	else
		printf(setting->initial == NULL ? "%s; %s\n" : ", %s unless set; %s\n", initial, setting->help);
}

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
		printf("\n| setting | values | unless set | |\n| --- | --- | --- | --- |\n");
	for (; setting != NULL && setting->name != NULL; setting++)
		protocols_print_setting(setting, markdown);
	snprintf(initial, sizeof(initial), "%u", type->session_max);
	if (type->session_max != 0)
		protocols_print_setting(&sessions, markdown);
}

/* Prints a name of a list, separated from the one before it. */
static void
protocols_print_name(const char *name, bool is_first, bool markdown)
{
	printf(markdown ? "%s`%s`" : "%s%s", is_first ? "" : markdown ? ", " : " ", name);
}

/* Prints the drop reasons from the first one on. */
static void
protocols_print_drops(const struct xk_protocol_type *type, unsigned first, bool markdown)
{
	unsigned count = xk_drop_count(type);

	if (first == count)
		return;
	printf(markdown ? "\nDrops: " : "\ndrops\n  ");
	for (unsigned i = first; i < count; i++)
		protocols_print_name(xk_drop_name(type, i), i == first, markdown);
	printf(markdown ? ".\n" : "\n");
}

static void
protocols_print_counter_names(const struct xk_protocol_type *type, bool markdown)
{
	const char *const *name = type->counters;

	if (name == NULL || *name == NULL)
		return;
	printf(markdown ? "\nCounters: " : "\ncounters\n  ");
	for (; *name != NULL; name++)
		protocols_print_name(*name, name == type->counters, markdown);
	printf(markdown ? ".\n" : "\n");
}

static void
protocols_print(const struct xk_protocol_type *type, bool markdown)
{
	protocols_print_kind(type, markdown);
	protocols_print_roles(type, markdown);
	protocols_print_header(type, markdown);
	protocols_print_numbers(type, markdown);
	protocols_print_settings(type, markdown);
	protocols_print_drops(type, markdown ? XK_DROP_OWN : XK_DROP_NONE + 1, markdown);
	protocols_print_counter_names(type, markdown);
}

static void
protocols_print_counters(const struct xk_protocol_type *type)
{
	for (unsigned i = XK_DROP_NONE + 1; i < xk_drop_count(type); i++)
		printf("%s.%s\n", type->name, xk_drop_name(type, i));
	for (unsigned i = 0; type->counters != NULL && type->counters[i] != NULL; i++)
		printf("%s.%s\n", type->name, type->counters[i]);
}

/* ---- a dictionary for fuzzers ---- */

static void
protocols_print_word(const struct xk_field *field, uint64_t value)
{
	printf("\"");
	for (unsigned shift = field->bits; shift > 0; shift -= 8)
		printf("\\x%02x", (unsigned)(value >> (shift - 8)) & 0xff);
	printf("\"\n");
}

/* Prints the values that a field's declaration names, and the numbers of the protocols above; whole bytes only. */
static void
protocols_print_words(const struct xk_protocol_type *type, const struct xk_field *field)
{
	uint32_t number;

	if (field->bits % 8 != 0)
		return;
	if (field->usual != 0)
		protocols_print_word(field, field->usual);
	for (const struct xk_field_value *v = field->values; v != NULL && v->name != NULL; v++)
		protocols_print_word(field, v->value);
	for (const struct xk_protocol_type *const *upper = xk_protocol_types; field->is_upper && *upper != NULL;
	     upper++)
		if (xk_number_find(*upper, type, &number))
			protocols_print_word(field, number);
}

static void
protocols_print_dictionary(const struct xk_protocol_type *type)
{
	if (type->fields != NULL)
		printf("# %s\n", type->name);
	for (const struct xk_field *field = type->fields; field != NULL && field->name != NULL; field++)
		protocols_print_words(type, field);
}

static void
protocols_print_text(const struct xk_protocol_type *type)
{
	protocols_print(type, false);
}

static void
protocols_print_markdown(const struct xk_protocol_type *type)
{
	protocols_print(type, true);
}

static void
protocols_print_line(const struct xk_protocol_type *type)
{
	printf("%-12s %s\n", type->name, type->help);
}

int
xk_protocols_main(int argc, char **argv)
{
	struct protocols_choices choices = { .counters = false, .dictionary = false, .markdown = false };
	void (*print)(const struct xk_protocol_type *type);
	const struct xk_protocol_type *type;
	struct options_texts operands;
	int status;

	status = options_parse(&protocols_program, argc, argv, &choices, &operands);
	if (status != OPTIONS_GO)
		return status;
	print = choices.counters      ? protocols_print_counters
		: choices.dictionary  ? protocols_print_dictionary
		: choices.markdown    ? protocols_print_markdown
		: operands.count == 0 ? protocols_print_line
				      : protocols_print_text;
	if (operands.count > 0) {
		type = xk_protocol_type_find(operands.text[0]);
		if (type != NULL) {
			print(type);
			return OPTIONS_SUCCESS;
		}
		fprintf(stderr, "xk protocols: there is no protocol \"%s\"; `xk protocols` lists them\n",
			operands.text[0]);
		return OPTIONS_FAILURE;
	}
	for (const struct xk_kernel_count *count = xk_kernel_counts; choices.counters && count->name != NULL; count++)
		printf("kernel.%s\n", count->name);
	for (unsigned i = 0; xk_protocol_types[i] != NULL; i++)
		print(xk_protocol_types[i]);
	return OPTIONS_SUCCESS;
}
