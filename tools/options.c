/* options.c - see options.h. */
#include "tools/options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/input.h"
#include "xkernel/protocol.h"

const char *const options_yes_no[] = { "yes", "no", NULL };

enum { OPTIONS_MAX = 64, OPTIONS_FIRST = 256, OPTIONS_COLUMN = 26 };

/* A program's options, including the shared ones. */
struct options_all {
	struct options_option list[OPTIONS_MAX];
	unsigned count;
};

static void
options_add(struct options_all *all, const struct options_option *table, size_t offset)
{
	for (const struct options_option *o = table; o != NULL && o->name != NULL; o++) {
		xk_assert(all->count + 2 < OPTIONS_MAX);
		all->list[all->count] = *o;
		all->list[all->count++].offset += offset;
	}
}

int
options_misuse(const struct options_program *program, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s: ", program->name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "; try %s --help\n", program->name);
	return OPTIONS_MISUSE;
}

static void
options_help_one(const char *name, const char *argument, const char *help)
{
	int width = printf("  --%s%s%s", name, argument == NULL ? "" : " ", argument == NULL ? "" : argument);

	if (width >= OPTIONS_COLUMN)
		printf("\n%*s", OPTIONS_COLUMN, "");
	else
		printf("%*s", OPTIONS_COLUMN - width, "");
	for (const char *p = help; *p != '\0'; p++) {
		putchar(*p);
		if (*p == '\n')
			printf("%*s", OPTIONS_COLUMN, "");
	}
	putchar('\n');
}

static void
options_help(const struct options_program *program, const struct options_all *all)
{
	printf("usage: %s %s\n\n%s\n\n", program->name, program->usage, program->about);
	for (const struct options_option *o = all->list; o < all->list + all->count; o++)
		if (o->help != NULL)
			options_help_one(o->name, o->argument, o->help);
	options_help_one("help", NULL, "this text");
	options_help_one("version", NULL, "versions and licence");
	if (program->footer != NULL)
		printf("\n%s\n", program->footer);
}

/* ---- values: each function returns 0, or OPTIONS_MISUSE after a message ---- */

static int
options_number(const struct options_program *program, const struct options_option *o, const char *text, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *value >= o->min && *value <= o->max)
		return 0;
	return options_misuse(program, "--%s: \"%s\" is not a number between %" PRIu64 " and %" PRIu64, o->name, text,
			      o->min, o->max);
}

/* Accepts "0" as a time without a unit if 0 is allowed. */
static int
options_time(const struct options_program *program, const struct options_option *o, const char *text, uint64_t *ns)
{
	char min[XK_SETTING_TEXT], max[XK_SETTING_TEXT];

	*ns = 0;
	if ((strcmp(text, "0") == 0 || xk_time_parse(text, ns)) && *ns >= o->min && (o->max == 0 || *ns <= o->max))
		return 0;
	xk_setting_print(XK_SETTING_TIME, o->min, min);
	xk_setting_print(XK_SETTING_TIME, o->max, max);
	if (o->max != 0)
		return options_misuse(program, "--%s: \"%s\" is not a time from %s to %s", o->name, text, min, max);
	if (o->min > 1)
		return options_misuse(program, "--%s: \"%s\" is not a time of at least %s, such as 200ms or 1s",
				      o->name, text, min);
	return options_misuse(program, "--%s: \"%s\" is not a time such as 500ms or 10s", o->name, text);
}

int
options_host(const struct options_program *program, const char *what, const char *text, uint32_t *host)
{
	bool is_one = xk_host_parse(text, host);
	const char *refusal = is_one ? xk_host_refusal(*host, 32) : NULL;

	if (is_one && refusal == NULL)
		return 0;
	return options_misuse(program, "%s\"%s\" is not an address like 10.77.0.2%s%s", what, text,
			      refusal == NULL ? "" : ", of one host, but ", refusal == NULL ? "" : refusal);
}

static int
options_choice(const struct options_program *program, const struct options_option *o, const char *text, uint64_t *value)
{
	char all[256];
	size_t len = 0;

	all[0] = '\0';
	for (*value = 0; o->choices[*value] != NULL; (*value)++) {
		if (strcmp(o->choices[*value], text) == 0)
			return 0;
		if (len < sizeof(all))
			len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", len == 0 ? "" : ", ",
						o->choices[*value]);
	}
	return options_misuse(program, "--%s: \"%s\" is not one of %s", o->name, text, all);
}

/* Takes a list of numbers or choices, separated by commas. */
static int
options_list(const struct options_program *program, const struct options_option *o, const char *text,
	     struct options_numbers *list)
{
	for (list->count = 0;; text++) {
		size_t len = strcspn(text, ",");
		char item[64];
		int status;

		if (list->count == OPTIONS_LIST)
			return options_misuse(program, "--%s: more than %d values", o->name, OPTIONS_LIST);
		snprintf(item, sizeof(item), "%.*s", len < sizeof(item) ? (int)len : (int)sizeof(item) - 1, text);
		status = o->kind == OPTIONS_NUMBERS ? options_number(program, o, item, &list->value[list->count])
						    : options_choice(program, o, item, &list->value[list->count]);
		if (status != 0)
			return status;
		list->count++;
		text += len;
		if (*text == '\0')
			return 0;
	}
}

static int
options_take(const struct options_program *program, const struct options_option *o, const char *text, void *into)
{
	void *value = (char *)into + o->offset;
	struct options_texts *texts = value;
	char what[64];
	uint64_t number;
	int status;

	switch (o->kind) {
	case OPTIONS_FLAG:
		*(bool *)value = true;
		return 0;
	case OPTIONS_TEXT:
	case OPTIONS_FILE:
		*(const char **)value = text;
		return 0;
	case OPTIONS_TEXT_ANY:
		if (texts->count == OPTIONS_TEXTS)
			return options_misuse(program, "--%s is given more than %d times", o->name, OPTIONS_TEXTS);
		texts->text[texts->count++] = text;
		return 0;
	case OPTIONS_NUMBER:
		return options_number(program, o, text, value);
	case OPTIONS_TIME:
		return options_time(program, o, text, value);
	case OPTIONS_HOST:
		snprintf(what, sizeof(what), "--%s: ", o->name);
		return options_host(program, what, text, value);
	case OPTIONS_CHOICE:
		status = options_choice(program, o, text, &number);
		if (status == 0)
			*(unsigned *)value = (unsigned)number;
		return status;
	case OPTIONS_NUMBERS:
	case OPTIONS_CHOICES:
		return options_list(program, o, text, value);
	}
	return OPTIONS_MISUSE;
}

/* ---- the command line ---- */

/* Reports an option that getopt refuses. `why` is what getopt has returned. */
static void
options_report_bad(const struct options_program *program, const struct options_all *all, int why, const char *given)
{
	size_t len = strcspn(given, "="), used = 0;
	char several[256] = "";

	if (why == ':') {
		options_misuse(program, "%s needs a value", given);
		return;
	}
	if (optopt >= OPTIONS_FIRST) {
		options_misuse(program, "%s takes no value", given);
		return;
	}
	for (unsigned i = 0; i < all->count && given[1] == '-' && len > 2 && used < sizeof(several); i++)
		if (all->list[i].help != NULL && strncmp(all->list[i].name, given + 2, len - 2) == 0)
			used += (size_t)snprintf(several + used, sizeof(several) - used, "%s--%s",
						 used == 0 ? "" : ", ", all->list[i].name);
	if (used == 0)
		options_misuse(program, "there is no option %s", given);
	else
		options_misuse(program, "%.*s is short for several options: %s", (int)len, given, several);
}

/* Opens files last: a wrong command line reads none, and an option given twice only its last. */
static void
options_read(const struct options_all *all, void *into)
{
	for (const struct options_option *o = all->list; o < all->list + all->count; o++) {
		const char **file = (const char **)((char *)into + o->offset);

		if (o->kind == OPTIONS_FILE && *file != NULL)
			*file = input_file(*file);
	}
}

static enum options_result
options_operands(const struct options_program *program, int argc, char **argv, struct options_texts *operands)
{
	unsigned count = (unsigned)(argc - optind);

	operands->count = 0;
	if (count > program->operands_max && program->operands_max == 0)
		options_misuse(program, "\"%s\" is not an option, and nothing else is expected", argv[optind]);
	else if (count > program->operands_max || count > OPTIONS_TEXTS)
		options_misuse(program, "\"%s\" is one argument too many", argv[optind + (int)program->operands_max]);
	else if (count < program->operands_min)
		options_misuse(program, "an argument is missing: %s %s", program->name, program->usage);
	else {
		for (; optind < argc; optind++)
			operands->text[operands->count++] =
				program->reads_operands ? input_file(argv[optind]) : argv[optind];
		return OPTIONS_GO;
	}
	return OPTIONS_WRONG;
}

enum options_result
options_parse(const struct options_program *program, int argc, char **argv, void *into, struct options_texts *operands)
{
	struct options_all all = { .count = 0 };
	struct option table[OPTIONS_MAX] = { { .name = NULL } };

	options_add(&all, program->options, 0);
	for (unsigned i = 0; i < OPTIONS_SHARED; i++)
		options_add(&all, program->shared[i].options, program->shared[i].offset);
	/* getopt returns OPTIONS_FIRST plus an option's index; --help is the last */
	for (unsigned i = 0; i < all.count; i++) {
		for (int k = 1; k < argc && strcmp(all.list[i].name, "output") == 0; k++)
			if (strcmp(argv[k], "-o") == 0)
				argv[k] = "--output";
		table[i] = (struct option){ all.list[i].name,
					    all.list[i].kind == OPTIONS_FLAG ? no_argument : required_argument, NULL,
					    OPTIONS_FIRST + (int)i };
	}
	table[all.count] = (struct option){ "help", no_argument, NULL, OPTIONS_FIRST + (int)all.count };
	optind = 0; /* restart (a GNU extension), so that a program may parse twice */
	opterr = 0;
	for (;;) {
		int got = getopt_long(argc, argv, ":", table, NULL);

		if (got == -1) {
			enum options_result result = options_operands(program, argc, argv, operands);

			if (result == OPTIONS_GO)
				options_read(&all, into);
			return result;
		}
		if (got == OPTIONS_FIRST + (int)all.count) {
			options_help(program, &all);
			return OPTIONS_HELPED;
		}
		if (got < OPTIONS_FIRST) {
			options_report_bad(program, &all, got, argv[optind - 1]);
			return OPTIONS_WRONG;
		}
		if (options_take(program, &all.list[got - OPTIONS_FIRST], optarg, into) != 0)
			return OPTIONS_WRONG;
	}
}
