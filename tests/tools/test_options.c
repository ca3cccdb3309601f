/* test_options.c - the command line: values, misuse reported in a sentence, help. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "tests/test.h"
#include "tools/options.h"

struct given {
	bool flag;
	const char *text;
	struct options_texts sets;
	uint64_t number;
	struct options_numbers numbers, choices;
	unsigned choice;
	uint64_t time_ns;
	uint32_t host;
};

static const char *const colours[] = { "red", "green", "blue", NULL };

static const struct options_option table[] = {
	OPTION(FLAG, struct given, flag, "flag", NULL, "a flag"),
	OPTION(TEXT, struct given, text, "text", "T", "t"),
	OPTION(TEXT_ANY, struct given, sets, "set", "S", "s"),
	OPTION(NUMBER, struct given, number, "number", "N", "n", .min = 1, .max = 65507),
	OPTION(NUMBERS, struct given, numbers, "numbers", "N,...", "n", .max = UINT64_MAX),
	OPTION(TIME, struct given, time_ns, "time", "T", "t"),
	OPTION(TIME, struct given, time_ns, "long", "T", "t", .min = 1000),
	OPTION(TIME, struct given, time_ns, "some", "T", "t", .min = 1000, .max = 2000000),
	OPTION(HOST, struct given, host, "host", "ADDRESS", "h"),
	OPTION(CHOICE, struct given, choice, "choice", NULL, "c", .choices = colours),
	OPTION(CHOICES, struct given, choices, "choices", NULL, "c", .choices = colours),
	OPTION(FLAG, struct given, flag, "secret", NULL, NULL),
	{ .name = NULL },
};

static const struct options_program program = {
	.name = "prog",
	.usage = "[OPTION]... [FILE]",
	.about = "Tests.",
	.options = table,
	.operands_max = 1,
};

/* Options shared by several programs. */
struct shared {
	uint64_t before, level;
	bool loud;
};

static const struct options_option shared_table[] = {
	OPTION(NUMBER, struct shared, level, "level", NULL, "l", .max = 9),
	OPTION(FLAG, struct shared, loud, "loud", NULL, "o"),
	{ .name = NULL },
};

static struct given given;
static struct options_texts operands;
static char output[4096];

/* Parses the arguments in line, separated by spaces; stores the output to stdout and stderr in `output`. */
static enum options_result
parse(const char *line)
{
	char *words[64] = { (char *)"prog" }, *copy = strdup(line), *word;
	int argc = 1, keep[2], file = memfd_create("output", 0);
	enum options_result result;
	ssize_t len;

	for (word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "))
		words[argc++] = word;
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		keep[i] = dup(i + 1);
		dup2(file, i + 1);
	}
	result = options_parse(&program, argc, words, &given, &operands);
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		dup2(keep[i], i + 1);
		close(keep[i]);
	}
	len = pread(file, output, sizeof(output) - 1, 0);
	output[len < 0 ? 0 : len] = '\0';
	close(file);
	if (given.text != NULL)
		given.text = NULL; /* would point into copy */
	free(copy);
	return result;
}

static void
wrong(const char *line, const char *sentence)
{
	CHECK_EQ(parse(line), OPTIONS_WRONG);
	if (strstr(output, sentence) == NULL)
		fprintf(stderr, "\n\"%s\" prints: %s", line, output);
	CHECK_HAS(output, sentence);
	CHECK_HAS(output, "--help");
}

TEST(values_of_every_kind_are_stored)
{
	given = (struct given){ .number = 7 };
	CHECK_EQ(parse("--flag --set a=1 file --set=b=2 --numbers 1,2,18446744073709551615 --choice blue --choices "
		       "green,red"),
		 OPTIONS_GO);
	CHECK(given.flag);
	CHECK_EQ(given.sets.count, 2);
	CHECK_EQ(given.number, 7);
	CHECK_EQ(given.numbers.count, 3);
	CHECK(given.numbers.value[2] == UINT64_MAX);
	CHECK_EQ(given.choice, 2);
	CHECK_EQ(given.choices.count, 2);
	CHECK_EQ(given.choices.value[0], 1);
	CHECK_EQ(operands.count, 1);
}

TEST(times_and_addresses_parse_as_in_settings)
{
	CHECK_EQ(parse("--time 20us --host 10.77.0.2"), OPTIONS_GO);
	CHECK_EQ(given.time_ns, 20000);
	CHECK_EQ(given.host, 0x0a4d0002);
	CHECK_EQ(parse("--time 0"), OPTIONS_GO);
	CHECK_EQ(given.time_ns, 0);
	CHECK_EQ(parse("--some 2ms"), OPTIONS_GO);
	CHECK_EQ(given.time_ns, 2000000);
	wrong("--time soon", "--time: \"soon\" is not a time such as 500ms or 10s; try");
	wrong("--time 20", "--time: \"20\" is not a time such as");
	wrong("--long 999ns", "--long: \"999ns\" is not a time of at least 1us, such as");
	wrong("--long 0", "is not a time of at least 1us");
	wrong("--some 3ms", "--some: \"3ms\" is not a time from 1us to 2ms");
	wrong("--host 10.77", "--host: \"10.77\" is not an address like 10.77.0.2; try");
	wrong("--host 127.0.0.1", "--host: \"127.0.0.1\" is not an address like 10.77.0.2, of one host, but ");
}

TEST(given_list_replaces_the_default_one)
{
	given = (struct given){ .numbers = { 2, { 1, 2 } } };
	CHECK_EQ(parse("--numbers 9"), OPTIONS_GO);
	CHECK_EQ(given.numbers.count, 1);
	CHECK_EQ(given.numbers.value[0], 9);
}

TEST(misuse_is_reported_in_a_sentence)
{
	wrong("--nothing", "there is no option --nothing; try");
	wrong("--nothing=1", "there is no option --nothing=1; try");
	wrong("--number", "--number needs a value");
	wrong("--flag=1", "takes no value");
	wrong("--number 0", "not a number between 1 and 65507");
	wrong("--number 65508", "not a number between");
	wrong("--number -1", "not a number between");
	wrong("--number 1x", "not a number between");
	wrong("--number 99999999999999999999", "not a number between");
	wrong("--numbers 1,,2", "\"\" is not a number");
	wrong("--numbers 1,", "\"\" is not a number");
	wrong("--choice pink", "\"pink\" is not one of red, green, blue");
	wrong("--choices red,pink", "\"pink\" is not one of");
	wrong("a b", "\"b\" is one argument too many");
	wrong("-n", "there is no option -n; try");
	wrong("--num 1", "--num is short for several options: --number, --numbers");
}

TEST(lists_and_repetitions_are_bounded)
{
	char line[1024] = "--numbers 0";

	for (int i = 0; i < OPTIONS_LIST; i++)
		strcat(line, ",1");
	wrong(line, "more than");
}

TEST(help_shows_every_option_but_hidden_ones)
{
	CHECK_EQ(parse("--help"), OPTIONS_HELPED);
	for (const struct options_option *o = table; o->help != NULL; o++)
		CHECK_HAS(output, o->name);
	CHECK(strstr(output, "secret") == NULL);
	CHECK_HAS(output, "usage: prog [OPTION]... [FILE]");
}

TEST(shared_options_are_stored_in_the_programs_structure)
{
	struct {
		struct given given;
		struct shared first, second;
	} both = { .first = { .level = 7 } };
	const struct options_program sharing = {
		.name = "prog",
		.options = table,
		.shared = { { shared_table, (size_t)((char *)&both.first - (char *)&both) } },
	};
	char *words[] = { (char *)"prog", (char *)"--loud", (char *)"--number=3", NULL };
	char *more[] = { (char *)"prog", (char *)"--level=9", NULL };

	CHECK_EQ(options_parse(&sharing, 3, words, &both, &operands), OPTIONS_GO);
	CHECK(both.first.loud && !both.second.loud);
	CHECK_EQ(both.first.level, 7);
	CHECK_EQ(both.given.number, 3);
	CHECK_EQ(options_parse(&sharing, 2, more, &both, &operands), OPTIONS_GO);
	CHECK_EQ(both.first.level, 9);
	CHECK_EQ(both.second.level, 0);
}
