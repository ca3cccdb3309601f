/* xk_explore.c - `xk explore`: its options, and what a search has found, as a story and a list to replay it. */
#include "tools/explore/xk_explore.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/explore/promise.h"
#include "tools/explore/search.h"
#include "tools/explore/story.h"
#include "tools/host/host_pair.h"
#include "tools/journey/journey.h"
#include "tools/net/net_settings.h"
#include "tools/options.h"
#include "tools/output.h"

static const char *const explore_kinds[] = { "loss",  "double", "delay",   "damage", "crash",
					     "order", "memory", "handoff", NULL };

/* Characters that a shell leaves alone. */
static const char explore_plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:@%,";

static const uint32_t explore_bits[] = {
	SEARCH_FATE(XK_SIM_LOSE),   SEARCH_FATE(XK_SIM_DOUBLE), SEARCH_FATE(XK_SIM_DELAY),
	SEARCH_FATE(XK_SIM_DAMAGE), SEARCH_KIND(XK_SIM_CRASH),  SEARCH_KIND(XK_SIM_ORDER) | SEARCH_KIND(XK_SIM_TIMER),
	SEARCH_KIND(XK_SIM_BUFFER), SEARCH_KIND(XK_SIM_STACK),
};

struct explore {
	struct search_options search;
	struct options_numbers choose;
	struct options_texts sets;
	const char *choices, *save, *journey;
	unsigned no_paths; /* index in options_yes_no */
	bool quiet;
};

static const struct options_option explore_options[] = {
	OPTION(NUMBER, struct explore, search.faults, "faults", "N", "most unusual choices of a run (1)",
	       .max = SEARCH_FAULTS_MAX),
	OPTION(TIME, struct explore, search.until_ns, "until", "T",
	       "virtual time of a run, long enough for the network to come to rest\n"
	       "(10s)",
	       .min = 1),
	OPTION(CHOICES, struct explore, choose, "choose", "KIND,...",
	       "of loss, double, delay, damage (of a frame); crash (a host crashes\n"
	       "and boots); order (of events that are due at one moment); memory\n"
	       "(a buffer is refused); handoff (a message that would leave the\n"
	       "driver cannot) (loss,double,delay,crash)",
	       .choices = explore_kinds),
	OPTION(NUMBER, struct explore, search.jobs, "jobs", "N", "processes (1)", .min = 1, .max = SEARCH_JOBS_MAX),
	OPTION(TIME, struct explore, search.limit_ns, "time", "T", "ends the search after this real time (no limit)"),
	OPTION(NUMBER, struct explore, search.seed, "seed", "S",
	       "of the links' own faults and the hosts' random numbers (1)", .max = UINT64_MAX),
	OPTION(FLAG, struct explore, search.all, "all-orders", NULL,
	       "also runs that differ only in the order of events which cannot\n"
	       "influence each other"),
	OPTION(CHOICE, struct explore, no_paths, "paths", "YES", "no: every message goes layer by layer (yes)",
	       .choices = options_yes_no),
	OPTION(TEXT, struct explore, choices, "choices", "LIST",
	       "does not search: makes the run of this list. If it breaks a promise,\n"
	       "choices that are not needed are taken out"),
	OPTION(TEXT, struct explore, save, "save", "FILE",
	       "writes the broken promise, its story, and the command that makes the\n"
	       "run: a case for tests/explore/"),
	OPTION(TEXT, struct explore, journey, "journey", "FILE",
	       "writes the run that breaks a promise as a page to step through"),
	OPTION(FLAG, struct explore, quiet, "quiet", NULL, "no progress on standard error"),
	OPTION(TEXT_ANY, struct explore, sets, "set", "HOST.ATTRIBUTE=VALUE",
	       "as if it were in the file; may be given many times"),
	{ .name = NULL },
};

static const struct options_program explore_program = {
	.name = "xk explore",
	.usage = "NETWORK [OPTION]...",
	.about = "Runs a network in the simulator with every list of at most N unusual choices, short lists first, "
		 "until a\n"
		 "promise of a protocol is broken: something arrives twice or out of order where it must not, a host\n"
		 "crashes, loses a buffer, or waits for ever. Prints the run as a story and as a list of choices, "
		 "which\n"
		 "`xk run NETWORK --choices LIST` replays.",
	.footer =
		"Exit status: 0 all promises hold in all runs; 1 one is broken, or a refused file; 2 misuse; 3 ended\n"
		"before all runs were made, by --time or a signal.",
	.options = explore_options,
	.operands_min = 1,
	.operands_max = 1,
	.reads_operands = true,
};

/* ---- a run that breaks a promise ---- */

/* The context of the observers below. */
struct explore_telling {
	const struct explore *explore;
	const char *prefix;
	FILE *out;
	struct story *story;
	struct journey *journey;
	char title[2 * NET_PROMISE]; /* of the page */
	struct net *net;
};

static void
explore_begin_story(void *context, struct net *net)
{
	struct explore_telling *telling = context;

	telling->story = story_new(net, telling->out, telling->prefix);
}

static void
explore_see_story(void *context, const struct xk_sim_record *record)
{
	const struct explore_telling *telling = context;

	story_see(telling->story, record);
}

static void
explore_choose_story(void *context, const struct xk_sim_choice *made)
{
	const struct explore_telling *telling = context;

	story_choose(telling->story, made);
}

static void
explore_break_story(void *context, const char *why)
{
	const struct explore_telling *telling = context;

	story_break(telling->story, why);
}

static void
explore_stop_story(void *context)
{
	const struct explore_telling *telling = context;

	story_stop(telling->story);
}

static void
explore_end_story(void *context)
{
	const struct explore_telling *telling = context;

	story_free(telling->story);
}

static void
explore_begin_journey(void *context, struct net *net)
{
	struct explore_telling *telling = context;

	telling->net = net;
	telling->journey = journey_open(explore_program.name, telling->explore->journey, telling->title,
					telling->explore->search.seed);
	net->journey = telling->journey;
}

static void
explore_see_journey(void *context, const struct xk_sim_record *record)
{
	const struct explore_telling *telling = context;

	journey_see(telling->journey, record);
}

static void
explore_stop_journey(void *context)
{
	const struct explore_telling *telling = context;

	journey_stop(telling->journey);
}

static void
explore_end_journey(void *context)
{
	const struct explore_telling *telling = context;

	telling->net->journey = NULL;
	journey_close(telling->journey);
}

/* Prints text as a word of a shell's command, in one line; in quotes unless it is a plain name. */
static void
explore_print_word(const char *text, FILE *out)
{
	if (text[strspn(text, explore_plain)] == '\0') {
		fputs(text, out);
		return;
	}
	fputc('\'', out);
	for (; *text != '\0'; text++)
		fputs(*text == '\'' ? "'\\''" : *text == '\n' ? " " : (const char[]){ *text, '\0' }, out);
	fputc('\'', out);
}

/* Prints the command that makes the run: of `xk run`, or of `xk explore`, which asks for promises. */
static void
explore_print_command(const struct explore *explore, const struct net *net, const char *command, const char *file,
		      const struct choices *choices, FILE *out)
{
	char time[XK_SETTING_TEXT];

	fprintf(out, "%s ", command);
	explore_print_word(file, out);
	fprintf(out, " --until %s", xk_setting_print(XK_SETTING_TIME, explore->search.until_ns, time));
	if (explore->search.seed != 1)
		fprintf(out, " --seed %" PRIu64, explore->search.seed);
	fputs(explore->no_paths != 0 ? " --paths no" : "", out);
	for (unsigned i = 0; i < explore->sets.count; i++) {
		fputs(" --set ", out);
		explore_print_word(explore->sets.text[i], out);
	}
	fputs(" --choices '", out);
	choices_print(choices, net, out);
	fputs("'\n", out);
}

/* Writes the broken promise, and the story of its run, as lines that begin with prefix. */
static void
explore_tell(const struct explore *explore, struct net *net, const struct search_result *result, const char *prefix,
	     FILE *out)
{
	struct explore_telling telling = { .explore = explore, .prefix = prefix, .out = out };
	const struct search_observer observer = { .begin = explore_begin_story,
						  .record = explore_see_story,
						  .choice = explore_choose_story,
						  .broken = explore_break_story,
						  .stop = explore_stop_story,
						  .end = explore_end_story,
						  .context = &telling };
	struct choices choices = result->choices;
	struct search_outcome outcome;

	fprintf(out, "%sbroken: %s\n", prefix, result->outcome.why);
	search_try(net, &explore->search, &choices, &observer, &outcome);
}

/* Writes the case for --save. */
static void
explore_save(const struct explore *explore, struct net *net, const char *file, const struct search_result *result)
{
	FILE *out = output_open(explore->save);

	if (out != NULL) {
		explore_tell(explore, net, result, "# ", out);
		explore_print_command(explore, net, "xk explore", file, &result->choices, out);
	}
	if (!output_close(out))
		fprintf(stderr, "%s: --save %s: %s\n", explore_program.name, explore->save, xk_error(errno));
}

/* Writes the page of --journey. A program that ends early leaves none. */
static void
explore_draw(const struct explore *explore, struct net *net, const char *file, const struct search_result *result)
{
	struct explore_telling telling = { .explore = explore };
	const struct search_observer observer = { .begin = explore_begin_journey,
						  .record = explore_see_journey,
						  .stop = explore_stop_journey,
						  .end = explore_end_journey,
						  .context = &telling };
	struct choices choices = result->choices;
	struct search_outcome outcome;
	const char *name = strrchr(file, '/') == NULL ? file : strrchr(file, '/') + 1;
	struct stat page;
	int err;

	snprintf(telling.title, sizeof(telling.title), "%s: broken: %s", name, result->outcome.why);
	for (char *c = telling.title; *c != '\0'; c++) /* a page is called after what follows the last slash */
		*c = *c == '/' ? ' ' : *c;
	err = search_try(net, &explore->search, &choices, &observer, &outcome);
	if (err == 0 && !outcome.has_ended)
		return;
	if (stat(explore->journey, &page) == 0 && S_ISREG(page.st_mode)) /* and no device */
		remove(explore->journey);
	fprintf(stderr, "%s: --journey: no page: %s\n", explore_program.name, err != 0 ? xk_error(err) : outcome.why);
}

static void
explore_report_found(const struct explore *explore, struct net *net, const char *file,
		     const struct search_result *result)
{
	explore_tell(explore, net, result, "", stdout);
	fputs("replay: ", stdout);
	explore_print_command(explore, net, "xk run --link sim", file, &result->choices, stdout);
	fflush(stdout);
	if (explore->save != NULL)
		explore_save(explore, net, file, result);
	if (explore->journey != NULL)
		explore_draw(explore, net, file, result);
}

/* ---- one run ---- */

/* Makes the run of --choices. */
static int
explore_one(const struct explore *explore, struct net *net, const char *file)
{
	struct search_result result = { .is_found = false };
	struct choices asked;
	char why[CHOICES_WHY];
	int err;

	if (choices_parse(explore->choices, net, &result.choices, why, sizeof(why)) != 0)
		return options_misuse(&explore_program, "--choices: %s", why);
	asked = result.choices;
	err = search_try(net, &explore->search, &result.choices, NULL, &result.outcome);
	if (err == 0 && result.outcome.is_broken) {
		err = search_shrink(net, &explore->search, &result.choices, &result.outcome);
		if (err == 0)
			explore_report_found(explore, net, file, &result);
	} else if (err == 0 && result.choices.count < asked.count) {
		choices_print_missing(&asked, &result.choices, net, explore_program.name);
		return OPTIONS_FAILURE;
	} else if (err == 0) {
		printf("all promises hold in this run: %" PRIu64 " events\n", result.outcome.events);
		return OPTIONS_SUCCESS;
	}
	if (err != 0)
		fprintf(stderr, "%s: no process can be made: %s\n", explore_program.name, xk_error(err));
	return OPTIONS_FAILURE;
}

/* ---- a search ---- */

static int
explore_report(const struct explore *explore, struct net *net, const char *file, const struct search_result *result)
{
	double seconds = (double)result->elapsed_ns / 1e9;

	if (result->is_found)
		explore_report_found(explore, net, file, result);
	else if (result->is_complete)
		printf("all promises hold with at most %" PRIu64 " unusual choice%s\n", explore->search.faults,
		       explore->search.faults == 1 ? "" : "s");
	else
		printf("ended before all runs were made: %.1f %% of those with %u unusual choice%s\n",
		       100 * result->share, result->length, result->length == 1 ? "" : "s");
	printf("%" PRIu64 " runs, %" PRIu64 " events, %s%" PRIu64 " different ends (%016" PRIx64 "), %.1f s\n",
	       result->runs, result->events, result->states == SEARCH_STATES_MAX ? "at least " : "", result->states,
	       result->states_hash, seconds);
	return result->is_found ? OPTIONS_FAILURE : result->is_complete ? OPTIONS_SUCCESS : 3;
}

static int
explore_search(const struct explore *explore, struct net *net, const char *file)
{
	struct search_result result = { .runs = 0 };
	int signals = pair_signals(), err = search(net, &explore->search, signals, &result);

	pair_signals_end(signals); /* from now on, a signal ends the program */
	if (err == 0)
		return explore_report(explore, net, file, &result);
	fprintf(stderr, "%s: no process can be made: %s\n", explore_program.name, xk_error(err));
	return OPTIONS_FAILURE;
}

int
xk_explore_main(int argc, char **argv)
{
	struct explore explore = { .search = { .seed = 1, .until_ns = UINT64_C(10000000000), .faults = 1, .jobs = 1 },
				   .choose = { 4, { 0, 1, 2, 4 } } };
	struct options_texts operands;
	char why[PROMISE_WHY];
	struct net net;
	int status = options_parse(&explore_program, argc, argv, &explore, &operands);

	if (status != OPTIONS_GO)
		return status;
	if (explore.journey != NULL && (explore.journey[0] == '\0' || strcmp(explore.journey, "-") == 0))
		return options_misuse(&explore_program, "--journey: the file name is missing");
	explore.search.is_shown = !explore.quiet;
	for (unsigned i = 0; i < explore.choose.count; i++)
		explore.search.choose |= explore_bits[explore.choose.value[i]];
	status = net_read(&net, explore_program.name, operands.text[0], explore.sets.text, explore.sets.count);
	net.no_paths = explore.no_paths != 0;
	if (status == 0 && explore.journey != NULL && net.topology->host_count > JOURNEY_HOSTS)
		status = options_misuse(&explore_program, "--journey shows up to %d hosts, but %s has %u",
					JOURNEY_HOSTS, operands.text[0], net.topology->host_count);
	if (status == 0 && promise_check(&net, why) != NULL) {
		fprintf(stderr, "%s: %s: promise: %s\n", explore_program.name, operands.text[0], why);
		status = OPTIONS_FAILURE;
	}
	if (status == 0 &&
	    ((explore.save != NULL && output_is_input(explore_program.name, explore.save, operands.text[0])) ||
	     (explore.journey != NULL && output_is_input(explore_program.name, explore.journey, operands.text[0]))))
		status = OPTIONS_FAILURE;
	if (status == 0)
		status = explore.choices != NULL ? explore_one(&explore, &net, operands.text[0])
						 : explore_search(&explore, &net, operands.text[0]);
	net_close(&net);
	return status;
}
