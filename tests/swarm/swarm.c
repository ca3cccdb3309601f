/*
 * swarm.c - simulated networks by the thousand: each seed is a network of its own, with faults of its own, and a
 * verdict.
 *
 * Children do the runs, so that one that ends the program, or never ends, is a verdict like others. A child runs as
 * many seeds as it can; a seed that fails is run again by a child of its own, which leaves its files.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/swarm/run.h"
#include "tools/options.h"
#include "xkernel/protocol.h"
#ifdef XK_MUTANTS
#include "tests/mutation/mutants.h"
#endif

enum {
	SWARM_FAILURES_MAX = 10, /* then the batch ends */
	SWARM_REAL_TIME = 30,    /* seconds of processor time; ten times as many in real time */
	SWARM_MUTANT_TIME = 2,   /* the same for a mutant: some never end; three times the slowest seed's without one */
	SWARM_BATCH = 200,       /* runs after which every kind of fault must have happened */
};

struct swarm_options {
	const char *seeds, *scenario, *keep, *mutant;
	bool verbose, mutants;
};

/* Results from a child to its parent. */
struct swarm_shared {
	struct run_tally tally;
	uint64_t seed; /* seed in progress */
	bool failed;   /* ... and its failure */
	struct run_result result;
};

struct swarm {
	struct swarm_options options;
	const struct plan_scenario *scenario; /* NULL: the seed's */
	uint64_t first, last;
	struct swarm_shared *shared;
	char directory[64]; /* directory of the networks being run; with a trailing slash */
	unsigned failures;
	char **argv;
};

static const struct options_option swarm_options[] = {
	OPTION(TEXT, struct swarm_options, seeds, "seeds", "FIRST-LAST", "seeds to run (1-100)"),
	OPTION(TEXT, struct swarm_options, scenario, "scenario", "NAME", "scenario of all runs (default: the seed's)"),
	OPTION(FLAG, struct swarm_options, verbose, "verbose", NULL, "print every plan, and the hash of its run"),
	OPTION(TEXT, struct swarm_options, keep, "keep", "DIR",
	       "directory for the files of failed seeds (build/swarm)"),
#ifdef XK_MUTANTS
	OPTION(TEXT, struct swarm_options, mutant, "mutant", "NAME", "run protocols with this defect"),
	OPTION(FLAG, struct swarm_options, mutants, "mutants", NULL,
	       "run every mutant that networks can reveal, until it is found"),
#endif
	{ .name = NULL },
};

static const struct options_program swarm_program = {
	.name = "swarm",
	.usage = "[OPTION]...",
	.about = "Runs simulated networks, one for each seed, with faults, and checks the protocols' guarantees.",
	.footer = "Exit status: 0 success, 1 failure, 2 misuse.",
	.options = swarm_options,
};

/* ---- a child ---- */

static void
swarm_directory(const struct swarm *swarm, uint64_t seed, char *directory, size_t size)
{
	snprintf(directory, size, "%s/%" PRIu64 "/", swarm->options.keep, seed);
}

/* Runs the seed for at most limit_s of processor time; with `keeps`, leaves its files and a capture. */
static void
swarm_run(struct swarm *swarm, uint64_t seed, int limit_s, bool keeps)
{
	struct swarm_shared *shared = swarm->shared;
	struct plan *plan = malloc(sizeof(*plan));
	char directory[256], capture[300];
	struct itimerval limit = { 0 };

	xk_assert(plan != NULL);
	shared->seed = seed;
	limit.it_value.tv_sec = limit_s;
	setitimer(ITIMER_PROF, &limit, NULL);
	alarm(10 * (unsigned)limit_s);
	plan_make(plan, seed, swarm->scenario);
	if (swarm->options.verbose)
		plan_print(plan);
	fflush(stdout);
	swarm_directory(swarm, seed, directory, sizeof(directory));
	snprintf(capture, sizeof(capture), "%scapture.pcapng", directory);
	run_plan(plan, keeps ? directory : swarm->directory, keeps ? capture : NULL, &shared->tally, &shared->result);
	shared->failed = shared->result.verdict != RUN_GOOD;
	if (swarm->options.verbose)
		printf("hash %016" PRIx64 "\n", shared->result.hash);
	free(plan);
}

/* Runs seeds from `first` on, until one fails. */
static void
swarm_run_from(struct swarm *swarm, uint64_t first, uint64_t last)
{
	for (uint64_t seed = first; seed <= last && !swarm->shared->failed; seed++)
		swarm_run(swarm, seed, SWARM_REAL_TIME, false);
}

/* ---- children ---- */

/* Forks without buffered output, which both would print. Returns 0 in the child. */
static pid_t
swarm_fork(bool quiet)
{
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child < 0) {
		perror("swarm: fork");
		exit(OPTIONS_FAILURE);
	}
	if (child == 0 && quiet && freopen("/dev/null", "w", stderr) == NULL)
		_exit(OPTIONS_FAILURE);
	return child;
}

/* Waits for child, and stores how it ended if that was abnormal. */
static void
swarm_wait(struct swarm *swarm, pid_t child)
{
	struct swarm_shared *shared = swarm->shared;
	struct run_result *result = &shared->result;
	int status;

	while (waitpid(child, &status, 0) < 0)
		xk_assert(errno == EINTR);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	shared->failed = true;
	result->verdict = RUN_CAUGHT;
	if (WIFSIGNALED(status))
		snprintf(result->why, sizeof(result->why), "%s",
			 WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGPROF ? "it has not ended in time"
										    : strsignal(WTERMSIG(status)));
	else
		snprintf(result->why, sizeof(result->why), "exit status %d", WEXITSTATUS(status));
}

static void
swarm_begin(struct swarm *swarm)
{
	swarm->shared->failed = false;
	swarm->shared->seed = 0;
}

/* ---- failures ---- */

static void
swarm_make_directory(const struct swarm *swarm, uint64_t seed)
{
	char directory[256];

	mkdir("build", 0777);
	mkdir(swarm->options.keep, 0777);
	swarm_directory(swarm, seed, directory, sizeof(directory));
	mkdir(directory, 0777);
}

/* Runs the seed again and keeps its files; its tally was counted before. */
static void
swarm_keep(struct swarm *swarm, uint64_t seed)
{
	struct run_tally tally = swarm->shared->tally;
	struct run_result result = swarm->shared->result;
	pid_t child;

	swarm_make_directory(swarm, seed);
	child = swarm_fork(true);
	if (child == 0) {
		swarm_run(swarm, seed, SWARM_REAL_TIME, true);
		_exit(0);
	}
	swarm_wait(swarm, child);
	swarm->shared->tally = tally;
	if (swarm->shared->result.verdict != result.verdict || swarm->shared->result.hash != result.hash)
		printf("  and the same seed had another outcome\n");
	swarm->shared->result = result;
}

static void
swarm_print_failure(struct swarm *swarm)
{
	const struct run_result *result = &swarm->shared->result;
	struct plan *plan = malloc(sizeof(*plan));
	uint64_t seed = swarm->shared->seed;
	char directory[256];

	xk_assert(plan != NULL);
	plan_make(plan, seed, swarm->scenario);
	swarm_directory(swarm, seed, directory, sizeof(directory));
	printf("FAILED seed %" PRIu64 " (%s): %s: %s\n", seed, plan->scenario->name, run_verdict_names[result->verdict],
	       result->why);
	if (!swarm->options.verbose)
		plan_print(plan);
	swarm_keep(swarm, seed);
	printf("  again: %s --seeds %" PRIu64 "-%" PRIu64 "%s%s%s%s --verbose\n", swarm->argv[0], seed, seed,
	       swarm->options.scenario == NULL ? "" : " --scenario ",
	       swarm->options.scenario == NULL ? "" : swarm->options.scenario,
	       swarm->options.mutant == NULL ? "" : " --mutant ",
	       swarm->options.mutant == NULL ? "" : swarm->options.mutant);
	printf("  files: %s; to watch it, without cuts and healing:\n", directory);
	printf("         build/xk run %snetwork.dot --link sim --seed %" PRIu64 " --until %" PRIu64 "ms\n", directory,
	       seed, plan->end_ns / 1000000);
	free(plan);
}

/* ---- a batch ---- */

static void
swarm_print_drops(const struct run_tally *tally)
{
	printf("drop reasons never reached:");
	for (unsigned type = 0; type < RUN_TYPES_MAX && xk_protocol_types[type] != NULL; type++) {
		const struct xk_protocol_type *t = xk_protocol_types[type];
		uint64_t sum = 0;

		for (unsigned i = 1; i < xk_drop_count(t) && i < RUN_DROPS_MAX; i++)
			sum += tally->drops[type][i];
		for (unsigned i = 1; sum != 0 && i < xk_drop_count(t) && i < RUN_DROPS_MAX; i++)
			if (tally->drops[type][i] == 0)
				printf(" %s.%s", t->name, xk_drop_name(t, i));
	}
	printf("\ndropped:");
	for (unsigned type = 0; type < RUN_TYPES_MAX && xk_protocol_types[type] != NULL; type++)
		for (unsigned i = 1; i < xk_drop_count(xk_protocol_types[type]) && i < RUN_DROPS_MAX; i++)
			if (tally->drops[type][i] != 0)
				printf(" %s.%s %" PRIu64, xk_protocol_types[type]->name,
				       xk_drop_name(xk_protocol_types[type], i), tally->drops[type][i]);
	printf("\n");
}

/* Prints the batch's results. Returns false if a kind of fault was never injected. */
static bool
swarm_print(const struct swarm *swarm, double seconds)
{
	const struct run_tally *tally = &swarm->shared->tally;
	bool good = true;

	printf("%" PRIu64 " runs, %u failed; %.1f s, %.0f runs per second\n", tally->runs, swarm->failures, seconds,
	       (double)tally->runs / seconds);
	printf("%" PRIu64 " messages sent, %" PRIu64 " received; %" PRIu64 " frames, %" PRIu64 " steps, %" PRIu64
	       " boots, %" PRIu64 " s of virtual time; every message accounted for in %" PRIu64 " runs\n",
	       tally->sent, tally->received, tally->frames, tally->steps, tally->boots, tally->virtual_ns / 1000000000,
	       tally->counted);
	printf("%" PRIu64 " runs of streams, %" PRIu64 " of which failed\n", tally->streams, tally->failed_streams);
	printf("hash of all runs %016" PRIx64 "\n", tally->hash);
	printf("handoffs %" PRIu64 ", fallbacks %" PRIu64 ", no_stack %" PRIu64 ", parks %" PRIu64 "\n",
	       tally->handoffs, tally->fallbacks, tally->no_stack, tally->parks);
	printf("faults:");
	for (unsigned i = 0; i < PLAN_FAULTS; i++) {
		printf(" %s %" PRIu64, plan_fault_names[i], tally->faults[i]);
		good &= tally->faults[i] != 0 || tally->runs < SWARM_BATCH;
	}
	printf("%s\n", good ? "" : "\nFAILED: a kind of fault never happened");
	swarm_print_drops(tally);
	return good;
}

static double
swarm_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int
swarm_batch(struct swarm *swarm)
{
	double begin = swarm_now();
	uint64_t next = swarm->first;

	while (next <= swarm->last && swarm->failures < SWARM_FAILURES_MAX) {
		pid_t child;

		swarm_begin(swarm);
		child = swarm_fork(false);
		if (child == 0) {
			swarm_run_from(swarm, next, swarm->last);
			exit(0);
		}
		swarm_wait(swarm, child);
		if (!swarm->shared->failed)
			break;
		swarm->failures++;
		swarm_print_failure(swarm);
		next = swarm->shared->seed + 1;
	}
	return swarm_print(swarm, swarm_now() - begin) && swarm->failures == 0 ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}

/* ---- mutants ---- */

#ifdef XK_MUTANTS

/*
 * Returns true if a plan's scenario has the mutants' protocol; shared files of protocols/ are in all. Streams take
 * longer, and find only their own.
 */
static bool
swarm_concerns(const struct mutants_scenario *mutants, const struct plan_scenario *scenario)
{
	static const char *const own[] = { "udp", "stopwait", "bid", "bidctl", "blast", "gm", "am", "tcp" };

	if (plan_has(scenario, "tcp") && strncmp(mutants->files, "tcp", 3) != 0)
		return false;
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(own); i++) {
		size_t len = strlen(own[i]);

		if (strncmp(mutants->files, own[i], len) == 0 && strchr("._", mutants->files[len]) != NULL &&
		    !plan_has(scenario, own[i]))
			return false;
	}
	return true;
}

/* Runs a seed with each of the mutants until one is found. Returns whether one was. */
static bool
swarm_run_mutants_of(struct swarm *swarm, const struct mutants_scenario *mutants, uint64_t seed)
{
	const struct plan_scenario *scenario = swarm->scenario;

	if (scenario == NULL)
		scenario = plan_of_seed(seed);
	for (unsigned i = 0; mutants->numbers[i] != 0 && swarm_concerns(mutants, scenario); i++) {
		xk_mutant = mutants->numbers[i];
		swarm_run(swarm, seed, SWARM_MUTANT_TIME, false);
		if (swarm->shared->failed)
			return true;
	}
	return false;
}

/* Runs seeds, the likely one first, until a mutant is found. */
static void
swarm_run_mutants(struct swarm *swarm, const struct mutants_scenario *mutants)
{
	uint64_t seed = swarm->first;

	if (mutants->seed != 0 && swarm_run_mutants_of(swarm, mutants, mutants->seed))
		return;
	while (seed <= swarm->last && !swarm_run_mutants_of(swarm, mutants, seed))
		seed++;
}

/* Returns true if the seed fails without a mutant: its failure proves nothing then. */
static bool
swarm_fails_anyway(struct swarm *swarm)
{
	struct swarm_shared found = *swarm->shared;
	pid_t child;
	bool fails;

	swarm_begin(swarm);
	child = swarm_fork(true);
	if (child == 0) {
		swarm_run(swarm, found.seed, SWARM_REAL_TIME, false);
		_exit(0);
	}
	swarm_wait(swarm, child);
	fails = swarm->shared->failed;
	*swarm->shared = found;
	return fails;
}

static bool
swarm_finds(struct swarm *swarm, const struct mutants_scenario *mutants)
{
	struct swarm_shared *shared = swarm->shared;
	double begin = swarm_now();
	uint64_t runs = shared->tally.runs;
	pid_t child;

	swarm_begin(swarm);
	child = swarm_fork(true);
	if (child == 0) {
		swarm_run_mutants(swarm, mutants);
		_exit(0);
	}
	swarm_wait(swarm, child);
	if (shared->failed && swarm_fails_anyway(swarm)) {
		printf("NOT FOUND %s: seed %" PRIu64 " fails without it\n", mutants->name, shared->seed);
		return false;
	}
	if (!shared->failed)
		printf("NOT FOUND %s: %s\n", mutants->name, mutants_table[mutants->numbers[0]]);
	else
		printf("found %s: seed %" PRIu64 ", %" PRIu64 " runs, %.1f s: %s: %s\n", mutants->name, shared->seed,
		       shared->tally.runs - runs + (shared->result.verdict == RUN_CAUGHT), swarm_now() - begin,
		       run_verdict_names[shared->result.verdict], shared->result.why);
	return shared->failed;
}

static int
swarm_find_mutants(struct swarm *swarm)
{
	double begin = swarm_now();
	unsigned found = 0, count = 0;

	for (const struct mutants_scenario *mutants = mutants_scenarios; mutants->name != NULL; mutants++) {
		if (swarm->options.mutant != NULL && strcmp(swarm->options.mutant, mutants->name) != 0)
			continue;
		count++;
		found += swarm_finds(swarm, mutants);
	}
	printf("%u of %u mutants found; %.1f s\n", found, count, swarm_now() - begin);
	return found == count ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}

#endif

/* ---- the program ---- */

static bool
swarm_parse_seeds(struct swarm *swarm)
{
	char *end;

	swarm->first = strtoull(swarm->options.seeds, &end, 10);
	if (end == swarm->options.seeds || *end != '-')
		return false;
	swarm->last = strtoull(end + 1, &end, 10);
	return *end == '\0' && swarm->last >= swarm->first;
}

static int
swarm_check(struct swarm *swarm)
{
	if (!swarm_parse_seeds(swarm))
		return options_misuse(&swarm_program, "--seeds: \"%s\" is not like 1-100", swarm->options.seeds);
	if (swarm->options.scenario == NULL)
		return 0;
	swarm->scenario = plan_scenario_find(swarm->options.scenario);
	return swarm->scenario != NULL
		       ? 0
		       : options_misuse(&swarm_program, "there is no scenario %s", swarm->options.scenario);
}

/* Removes only the files that run_write_files has written. */
static void
swarm_clean(const struct swarm *swarm)
{
	static const char *const files[] = { "network.dot", "a.dot", "b.dot" };
	char path[128];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(files); i++) {
		snprintf(path, sizeof(path), "%s%s", swarm->directory, files[i]);
		unlink(path);
	}
	rmdir(swarm->directory);
}

static int
swarm_main(struct swarm *swarm)
{
#ifdef XK_MUTANTS
	if (swarm->options.mutants)
		return swarm_find_mutants(swarm);
	if (swarm->options.mutant != NULL && !mutants_select(swarm->options.mutant))
		return options_misuse(&swarm_program, "there is no mutant %s", swarm->options.mutant);
#endif
	return swarm_batch(swarm);
}

int
main(int argc, char **argv)
{
	struct swarm swarm = { .options = { .seeds = "1-100", .keep = "build/swarm" }, .argv = argv };
	struct options_texts operands;
	int status = options_parse(&swarm_program, argc, argv, &swarm.options, &operands);

	if (status != OPTIONS_GO)
		return status;
	status = swarm_check(&swarm);
	if (status != 0)
		return status;
	swarm.shared = mmap(NULL, sizeof(*swarm.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	strcpy(swarm.directory, "/tmp/swarm-XXXXXX");
	if (swarm.shared == MAP_FAILED || mkdtemp(swarm.directory) == NULL) {
		perror("swarm");
		return OPTIONS_FAILURE;
	}
	strcat(swarm.directory, "/");
	status = swarm_main(&swarm);
	swarm_clean(&swarm);
	return status;
}
