/*
 * fuzz_settings.c - hostile values: every declared setting, links, costs, times, addresses, and command lines.
 *
 * An input: a byte for its kind (enum settings_which); for one setting, a byte or two that choose it; then text. Lines
 * of text are settings of a link (name=value), or the words of a command line. These must hold: a value is refused with
 * a message and nothing is changed; or it is accepted, within its limits, and reads the same when printed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/sim/link.h"
#include "platform/sim/sim.h"
#include "tests/fuzz/fuzz.h"
#include "tools/options.h"
#include "xkernel/protocol.h"

enum settings_which {
	SETTINGS_ONE,
	SETTINGS_LINK,
	SETTINGS_COSTS,
	SETTINGS_TIME,
	SETTINGS_OPTIONS,
	SETTINGS_WHICH,
};

enum {
	SETTINGS_TEXT = 2048,
	SETTINGS_LINES = 32,
	SETTINGS_ALL = 1024,
	SETTINGS_INSTANCE = 1 << 16,
	SETTINGS_WHY = 160
};

/* ---- one setting ---- */

struct settings_all {
	const struct xk_setting *setting[SETTINGS_ALL];
	unsigned count;
};

static void
settings_collect(struct settings_all *all, const struct xk_setting *setting)
{
	for (; setting != NULL && setting->name != NULL; setting++)
		if (setting->offset < SETTINGS_INSTANCE - sizeof(struct xk_network) && all->count < SETTINGS_ALL)
			all->setting[all->count++] = setting;
}

/* Checks that the value at place can be read as it is printed. */
static void
settings_check_printed(const struct xk_setting *setting, const uint8_t *place)
{
	char text[XK_SETTING_TEXT], why[SETTINGS_WHY];
	struct xk_setting at_once = *setting;
	uint64_t value, again;

	if (setting->type != XK_SETTING_UINT && setting->type != XK_SETTING_TIME && setting->type != XK_SETTING_RATE &&
	    setting->type != XK_SETTING_PROBABILITY)
		return;
	memcpy(&value, place, sizeof(value));
	if (setting->type == XK_SETTING_PROBABILITY)
		FUZZ_CHECK(value <= UINT64_C(1) << 32);
	else if (setting->min != 0 || setting->max != 0)
		FUZZ_CHECK(value >= setting->min && value <= setting->max);
	at_once.offset = 0;
	xk_setting_print(setting->type, value, text);
	FUZZ_CHECK(strlen(text) < sizeof(text));
	FUZZ_CHECK(xk_setting_parse(&at_once, text, &again, why, sizeof(why)) == 0 && again == value);
}

static void
settings_one(unsigned index, const char *text)
{
	static const uint8_t zero[SETTINGS_INSTANCE];
	struct settings_all all = { .count = 0 };
	const struct xk_setting *setting;
	uint8_t *instance = calloc(1, SETTINGS_INSTANCE);
	char why[SETTINGS_WHY] = "";
	unsigned choice;
	char *copy;

	FUZZ_CHECK(instance != NULL);
	for (unsigned i = 0; xk_protocol_types[i] != NULL; i++)
		settings_collect(&all, xk_protocol_types[i]->settings);
	settings_collect(&all, sim_link_settings);
	setting = all.setting[index % all.count];
	if (xk_setting_parse(setting, text, instance, why, sizeof(why)) != 0) {
		FUZZ_CHECK(why[0] != '\0' && memchr(why, '\0', sizeof(why)) != NULL);
		FUZZ_CHECK(memcmp(instance, zero, SETTINGS_INSTANCE) == 0);
	} else if (setting->type == XK_SETTING_STRING) {
		memcpy(&copy, instance + setting->offset, sizeof(copy));
		FUZZ_CHECK(strcmp(copy, text) == 0);
		free(copy);
	} else if (setting->type == XK_SETTING_CHOICE) {
		memcpy(&choice, instance + setting->offset, sizeof(choice));
		FUZZ_CHECK(strcmp(setting->choices[choice], text) == 0);
	} else {
		settings_check_printed(setting, instance + setting->offset);
	}
	free(instance);
}

/* ---- lines ---- */

/* Splits text at its line ends; NULL follows the last. */
static unsigned
settings_cut(char *text, char *lines[SETTINGS_LINES + 1])
{
	unsigned count = 0;

	while (count < SETTINGS_LINES && text != NULL)
		lines[count++] = strsep(&text, "\n");
	lines[count] = NULL;
	return count;
}

/* Checks a link of any preset with further settings: an accepted one can be made, and its times are sane. */
static void
settings_link(unsigned preset, char *text)
{
	struct sim_link_config config;
	char *lines[SETTINGS_LINES + 1], why[SETTINGS_WHY];
	struct sim_link *link;
	unsigned presets = 0;

	while (sim_link_preset_names[presets] != NULL)
		presets++;
	config = sim_link_preset_find(sim_link_preset_names[preset % presets])->config;
	settings_cut(text, lines);
	for (char **line = lines; *line != NULL; line++) {
		char *name = strsep(line, "=");
		int status;

		if (*line == NULL)
			break;
		why[0] = '\0';
		status = sim_link_set(&config, name, *line, why, sizeof(why));
		FUZZ_CHECK(status == 0 || status == -ENOENT || (status == -EINVAL && why[0] != '\0'));
	}
	if (sim_link_check(&config) != NULL)
		return;
	FUZZ_CHECK(sim_link_frame_ns(&config, 60) <= sim_link_frame_ns(&config, 65000));
	FUZZ_CHECK(sim_link_frame_ns(&config, 65000) < UINT64_C(1) << 63);
	link = sim_link_new(&config, 1);
	FUZZ_CHECK(link != NULL && sim_link_join(link, FUZZ_LINK) == 0 && sim_link_room(link, 0) > 0);
	sim_link_free(link);
}

static void
settings_costs(const char *text)
{
	struct xk_sim_costs costs, was;
	char why[XK_SIM_COSTS_WHY] = "";

	memset(&costs, 0x55, sizeof(costs));
	was = costs;
	if (xk_sim_costs_parse(text, &costs, why, sizeof(why)) != 0) {
		FUZZ_CHECK(why[0] != '\0' && memchr(why, '\0', sizeof(why)) != NULL);
		FUZZ_CHECK(memcmp(&costs, &was, sizeof(costs)) == 0);
		return;
	}
	FUZZ_CHECK(costs.interrupt_ns <= XK_SIM_COST_MAX && costs.frame_in_ns <= XK_SIM_COST_MAX &&
		   costs.frame_out_ns <= XK_SIM_COST_MAX && costs.stack_start_ns <= XK_SIM_COST_MAX &&
		   costs.stack_switch_ns <= XK_SIM_COST_MAX && costs.thread_switch_ns <= XK_SIM_COST_MAX);
}

static void
settings_time(const char *text)
{
	char printed[XK_SETTING_TEXT];
	uint32_t host, again_host;
	uint64_t ns, again;

	if (xk_time_parse(text, &ns)) {
		xk_setting_print(XK_SETTING_TIME, ns, printed);
		FUZZ_CHECK(xk_time_parse(printed, &again) && again == ns);
	}
	if (xk_host_parse(text, &host)) {
		FUZZ_CHECK(xk_host_parse(xk_host_print(host, printed), &again_host) && again_host == host);
		FUZZ_CHECK(strcmp(printed, text) == 0); /* an address has one notation */
	}
}

/* ---- command lines ---- */

struct settings_command {
	bool flag;
	const char *text;
	struct options_texts any;
	uint64_t number;
	struct options_numbers numbers, choices;
	unsigned choice;
};

static const char *const settings_choices[] = { "regular", "ipp", "both", NULL };

#define SETTINGS_OPTION(field, of)                                                                                     \
	.name = #field, .kind = OPTIONS_##of, .offset = offsetof(struct settings_command, field)

static const struct options_option settings_options[] = {
	{ SETTINGS_OPTION(flag, FLAG), .help = "a flag" },
	{ SETTINGS_OPTION(text, TEXT), .argument = "TEXT", .help = "a text" },
	{ SETTINGS_OPTION(any, TEXT_ANY), .argument = "TEXT", .help = "texts" },
	{ SETTINGS_OPTION(number, NUMBER), .argument = "N", .help = "a number", .min = 1, .max = 65507 },
	{ SETTINGS_OPTION(numbers, NUMBERS), .argument = "N,...", .help = "numbers", .max = UINT64_MAX },
	{ SETTINGS_OPTION(choice, CHOICE), .argument = "HOW", .help = "how", .choices = settings_choices },
	{ SETTINGS_OPTION(choices, CHOICES), .argument = "HOW,...", .help = "how", .choices = settings_choices },
	{ .name = NULL },
};

static const struct options_program settings_program = {
	.name = "fuzz",
	.usage = "[OPTION]... [OPERAND]...",
	.about = "No program.",
	.options = settings_options,
	.operands_max = 3,
};

static void
settings_check_command(const struct settings_command *command, const struct options_texts *operands)
{
	FUZZ_CHECK(operands->count <= 3 && command->choice < 3);
	FUZZ_CHECK(command->number >= 1 && command->number <= 65507);
	FUZZ_CHECK(command->any.count <= OPTIONS_TEXTS && command->numbers.count <= OPTIONS_LIST);
	for (unsigned i = 0; i < command->choices.count; i++)
		FUZZ_CHECK(command->choices.value[i] < 3);
}

/* Collects the messages about the command line: some if it is wrong, none if it is right. */
static void
settings_command_line(char *text)
{
	struct settings_command command = { .number = 1 };
	char name[] = "fuzz", *words[SETTINGS_LINES + 2] = { name }, *said = NULL;
	unsigned count = 1 + settings_cut(text, words + 1);
	FILE *out = stdout, *error = stderr;
	struct options_texts operands = { .count = 0 };
	enum options_result result;
	size_t len = 0;

	stdout = stderr = open_memstream(&said, &len);
	FUZZ_CHECK(stderr != NULL);
	result = options_parse(&settings_program, (int)count, words, &command, &operands);
	fclose(stderr);
	stdout = out;
	stderr = error;
	FUZZ_CHECK(result == OPTIONS_GO || result == OPTIONS_HELPED || result == OPTIONS_WRONG);
	FUZZ_CHECK((len == 0) == (result == OPTIONS_GO));
	if (result == OPTIONS_GO)
		settings_check_command(&command, &operands);
	free(said);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned which, choice;
	char text[SETTINGS_TEXT];

	if (size < 3 || size - 3 >= sizeof(text))
		return 0;
	which = data[0] % SETTINGS_WHICH;
	choice = data[1] | (unsigned)data[2] << 8;
	memcpy(text, data + 3, size - 3);
	text[size - 3] = '\0';
	if (which == SETTINGS_ONE)
		settings_one(choice, text);
	else if (which == SETTINGS_LINK)
		settings_link(choice, text);
	else if (which == SETTINGS_COSTS)
		settings_costs(text);
	else if (which == SETTINGS_TIME)
		settings_time(text);
	else
		settings_command_line(text);
	return 0;
}
