/* xk_explore.c - `xk explore`: its options, and what a search has found, as a story and a list to replay it. */
#include "tools/explore/xk_explore.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/explore/promise.h"
#include "tools/explore/search.h"
#include "tools/host/host_pair.h"
#include "tools/net/net_settings.h"
#include "tools/options.h"

static const char *const explore_kinds[] = { "loss",  "double", "delay",   "damage", "crash",
					     "order", "memory", "handoff", NULL };

static const uint32_t explore_bits[] = {
	SEARCH_FATE(XK_SIM_LOSE),  SEARCH_FATE(XK_SIM_DOUBLE), SEARCH_FATE(XK_SIM_DELAY),  SEARCH_FATE(XK_SIM_DAMAGE),
	SEARCH_KIND(XK_SIM_CRASH), SEARCH_KIND(XK_SIM_ORDER),  SEARCH_KIND(XK_SIM_BUFFER), SEARCH_KIND(XK_SIM_STACK),
};

struct explore {
	struct search_options search;
	struct options_numbers choose;
	struct options_texts sets;
	unsigned no_paths; /* index in options_yes_no */
	bool quiet;
};

static const struct options_option explore_options[] = {
	OPTION(NUMBER, struct explore, search.faults, "faults", "N", "most unusual choices of a run (1)",
	       .max = CHOICES_MAX),
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

/* ---- the story ---- */

static const char *const explore_events[] = {
	[XK_SIM_SENT] = NULL,      [XK_SIM_ARRIVED] = "arrives", [XK_SIM_LOST] = "is lost",
	[XK_SIM_BOOTED] = "boots", [XK_SIM_CRASHED] = "crashes",
};

/* Prints what is unusual: frames with a fault, crashes and boots. */
static void
explore_print_event(void *context, const struct xk_sim_record *record)
{
	(void)context;
	if ((record->frame != NULL && record->why == NULL) || (record->frame == NULL && record->at_ns == 0))
		return;
	printf("  %6" PRIu64 ".%09" PRIu64 " ", record->at_ns / 1000000000, record->at_ns % 1000000000);
	if (record->frame != NULL)
		printf("frame %" PRIu64 " (%zu bytes) %s at %s: %s\n", record->number, record->len,
		       explore_events[record->event], xk_sim_host_name(record->host), record->why);
	else
		printf("%s %s\n", xk_sim_host_name(record->host), explore_events[record->event]);
}

/* Prints a time in the largest unit of settings that keeps it exact. */
static void
explore_print_time(uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} units[] = { { 1000000000, "s" }, { 1000000, "ms" }, { 1000, "us" }, { 1, "ns" } };
	unsigned i = 0;

	while (ns % units[i].ns != 0)
		i++;
	printf("%" PRIu64 "%s", ns / units[i].ns, units[i].name);
}

static void
explore_print_replay(const struct explore *explore, const struct net *net, const char *file,
		     const struct choices *choices)
{
	printf("replay: xk run %s --until ", file);
	explore_print_time(explore->search.until_ns);
	if (explore->search.seed != 1)
		printf(" --seed %" PRIu64, explore->search.seed);
	fputs(explore->no_paths != 0 ? " --paths no" : "", stdout);
	for (unsigned i = 0; i < explore->sets.count; i++)
		printf(" --set '%s'", explore->sets.text[i]);
	printf(" --choices '");
	choices_print(choices, net, stdout);
	printf("'\n");
}

static int
explore_report(const struct explore *explore, struct net *net, const char *file, const struct search_result *result)
{
	struct search_outcome outcome;
	double seconds = (double)result->elapsed_ns / 1e9;

	if (result->is_found) {
		printf("broken: %s\n", result->outcome.why);
		search_try(net, &explore->search, &result->choices, explore_print_event, NULL, &outcome);
		explore_print_replay(explore, net, file, &result->choices);
	} else if (result->is_complete) {
		printf("all promises hold with at most %" PRIu64 " unusual choices\n", explore->search.faults);
	} else {
		printf("ended before all runs were made: %.1f %% of those with %u unusual choices\n",
		       100 * result->share, result->length);
	}
	printf("%" PRIu64 " runs, %" PRIu64 " events, %s%" PRIu64 " different ends (%016" PRIx64 "), %.1f s\n",
	       result->runs, result->events, result->states == SEARCH_STATES_MAX ? "at least " : "", result->states,
	       result->states_hash, seconds);
	return result->is_found ? OPTIONS_FAILURE : result->is_complete ? OPTIONS_SUCCESS : 3;
}

int
xk_explore_main(int argc, char **argv)
{
	struct explore explore = { .search = { .seed = 1, .until_ns = UINT64_C(10000000000), .faults = 1, .jobs = 1 },
				   .choose = { 4, { 0, 1, 2, 4 } } };
	struct options_texts operands;
	struct search_result result = { .runs = 0 };
	char why[PROMISE_WHY];
	struct net net;
	int status = options_parse(&explore_program, argc, argv, &explore, &operands), signals, err;

	if (status != OPTIONS_GO)
		return status;
	explore.search.is_shown = !explore.quiet;
	for (unsigned i = 0; i < explore.choose.count; i++)
		explore.search.choose |= explore_bits[explore.choose.value[i]];
	signals = pair_signals();
	status = net_read(&net, explore_program.name, operands.text[0], explore.sets.text, explore.sets.count);
	net.no_paths = explore.no_paths != 0;
	if (status == 0 && promise_check(&net, why) != NULL) {
		fprintf(stderr, "%s: %s: promise: %s\n", explore_program.name, operands.text[0], why);
		status = OPTIONS_FAILURE;
	}
	if (status == 0) {
		err = search(&net, &explore.search, signals, &result);
		if (err != 0)
			fprintf(stderr, "%s: no process can be made: %s\n", explore_program.name, xk_error(err));
		status = err != 0 ? OPTIONS_FAILURE : explore_report(&explore, &net, operands.text[0], &result);
	}
	net_close(&net);
	return status;
}
