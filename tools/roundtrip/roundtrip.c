/*
 * roundtrip.c - the main of programs that measure with a test protocol in a pair of hosts: creates the ends, runs the
 * program's measurement, and reports. Without --server or --client it starts both ends as processes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "tools/host/watch.h"
#include "tools/program/program_compile.h"
#include "tools/roundtrip/roundtrip.h"

enum { ROUNDTRIP_ARGUMENTS = 250 };

/* ---- the plan ---- */

/* Removes the last digit of *number, in base list->count, and returns the value at this index. */
static uint32_t
roundtrip_digit(const struct options_numbers *list, size_t *number)
{
	uint32_t value = (uint32_t)list->value[*number % list->count];

	*number /= list->count;
	return value;
}

/*
 * Plans each flow and size with each number of channels, and for these each choice of copies, mode, number of threads
 * and handoff.
 */
static bool
roundtrip_plan(struct roundtrip_job *job)
{
	const struct roundtrip_options *o = job->options;
	size_t configurations = (size_t)o->flows.count * o->sizes.count * o->channels.count;
	size_t most = configurations * o->copies.count * o->modes.count * o->threads.count * o->handoffs.count;

	job->runs = calloc(most, sizeof(*job->runs));
	if (job->runs == NULL)
		return false;
	for (size_t i = 0; i < most; i++) {
		struct roundtrip_run *run = &job->runs[job->run_count];
		size_t number = i;

		run->setup.handoff = roundtrip_digit(&o->handoffs, &number);
		run->setup.threads = roundtrip_digit(&o->threads, &number);
		run->setup.mode = roundtrip_digit(&o->modes, &number);
		run->copies = roundtrip_digit(&o->copies, &number);
		run->channels = roundtrip_digit(&o->channels, &number);
		run->size = roundtrip_digit(&o->sizes, &number);
		run->flow = roundtrip_digit(&o->flows, &number);
		histogram_init(&run->rtt);
		/* a regular mode has no handoffs */
		if (run->setup.mode != XK_REGULAR || i % o->handoffs.count == 0)
			job->run_count++;
	}
	job->per_size = job->run_count / (unsigned)configurations;
	return true;
}

/* ---- a measurement ---- */

/* Returns the round trip of a cache line, or 0 if the figures do not depend on it. */
static uint64_t
roundtrip_line_ns(const struct roundtrip_job *job)
{
	const struct roundtrip_options *o = job->options;

	if (o->far != NULL || o->preset != NULL) /* on two machines, or simulated */
		return 0;
	return machine_cache_line_ns((unsigned)o->cores.value[0], (unsigned)o->cores.value[o->common.drivers]);
}

/* Measures, ends the pair and reports. After a signal, reports the measurements so far. */
static int
roundtrip_measure(struct roundtrip_job *job)
{
	const struct roundtrip_test *test = job->options->test;
	int status = test->measure(job), ended, written;

	if (status != 0 && job->shows_progress)
		fputc('\n', stderr);
	if (status != 0 && !job->pair.interrupted)
		return status;
	ended = status == 0 ? pair_stop(&job->pair, true) : status;
	if (status == 0)
		job->machine.line_ns[1] = roundtrip_line_ns(job);
	test->print(job, job->json == stdout ? stderr : stdout);
	written = roundtrip_json(job);
	return ended != 0 ? ended : written;
}

static void
roundtrip_init_job(struct roundtrip_job *job, const struct roundtrip_options *options, int signals)
{
	*job = (struct roundtrip_job){ .options = options,
				       .shows_progress = isatty(STDERR_FILENO) && !options->common.trace };
	pair_init(&job->pair, options->test->program->name, signals);
	job->pair.far = options->far;
}

static int
roundtrip_begin(struct roundtrip_job *job)
{
	const struct roundtrip_options *options = job->options;
	int status = host_open_json(options->test->program->name, options->common.json, &job->json);

	if (status == 0 && !roundtrip_plan(job))
		status = OPTIONS_FAILURE;
	machine_describe(&job->machine);
	if (!options->server)
		job->machine.line_ns[0] = roundtrip_line_ns(job);
	return status;
}

static void
roundtrip_end_job(struct roundtrip_job *job)
{
	pair_stop(&job->pair, false);
	free(job->runs);
	free(job->own);
	host_close_json(job->json);
}

/* Starts the ends. The last --graph counts, and a pipe can be read only once (tools/input.h). */
static int
roundtrip_start_pair(struct roundtrip_job *job, int argc, char **argv)
{
	char *arguments[ROUNDTRIP_ARGUMENTS + 2], graph[] = "--graph";

	if (argc > ROUNDTRIP_ARGUMENTS)
		return options_misuse(job->options->test->program, "too many arguments");
	memcpy(arguments, argv, (size_t)argc * sizeof(*argv));
	arguments[argc] = graph;
	arguments[argc + 1] = (char *)(uintptr_t)job->options->graph;
	return pair_start(&job->pair, argc + 2, arguments);
}

/* Runs two processes. Checks their graph and files first, so that each mistake is reported once. */
static int
roundtrip_run_pair(const struct roundtrip_options *options, const struct host_link *link, int argc, char **argv,
		   int signals)
{
	struct host_options ends[PAIR_ENDS] = { roundtrip_host_options(options, link, PAIR_CLIENT),
						roundtrip_host_options(options, link, PAIR_SERVER) };
	struct roundtrip_job job;
	struct watch *watch;
	struct host host, client;
	int status = host_load(&host, &ends[PAIR_SERVER]);
	uint32_t address = host.address;

	if (status == 0) {
		status = host_load(&client, &ends[PAIR_CLIENT]);
		if (status == 0)
			status = host_check_pair(&client, &host);
		host_close(&client);
	}
	if (status == 0)
		status = host_prepare_pair(&host, options->far != NULL);
	host_close(&host);
	for (unsigned i = 0; i < PAIR_ENDS && status == 0; i++)
		if (i == PAIR_CLIENT || options->far == NULL)
			status = host_capture_check(&ends[i]);
	if (status != 0)
		return status;
	/* The watchdog is a thread, and the network must be created before there are any. */
	watch = watch_new(options->test->program->name, &signals, 0);
	roundtrip_init_job(&job, options, signals);
	job.server = address;
	status = roundtrip_begin(&job);
	if (status == 0) {
		host_sweep("pair");
		status = roundtrip_start_pair(&job, argc, argv);
	}
	if (status == 0)
		status = roundtrip_measure(&job);
	roundtrip_end_job(&job);
	watch_free(watch);
	host_sweep("pair");
	return status;
}

/* Runs both hosts in this process, a lone server, or a lone client of a server elsewhere. */
static int
roundtrip_run_here(const struct roundtrip_options *options, const struct host_link *link, int signals)
{
	bool is_here[PAIR_ENDS] = { !options->server, options->client == 0 };
	bool both = is_here[PAIR_CLIENT] && is_here[PAIR_SERVER];
	unsigned first = options->server ? PAIR_SERVER : PAIR_CLIENT;
	struct host_options settings[PAIR_ENDS] = { roundtrip_host_options(options, link, PAIR_CLIENT),
						    roundtrip_host_options(options, link, PAIR_SERVER) };
	struct roundtrip_end ends[PAIR_ENDS] = { { .kind = options->test, .woken = -1 },
						 { .kind = options->test, .woken = -1 } };
	struct host hosts[PAIR_ENDS] = { { .world = NULL } };
	struct roundtrip_job job;
	int status = 0, closed = 0;
	char address[16];

	ends[first].owns_process = true;
	if (options->client != 0)
		settings[PAIR_CLIENT].peer = options->client;
	roundtrip_init_job(&job, options, signals);
	job.pair.in_one_process = both;
	if (!both)
		status = roundtrip_begin(&job);
	if (status == 0)
		status = both ? host_open_both(hosts, settings)
			      : host_open_alone(&ends[first].host, &settings[first], signals);
	for (unsigned i = 0; i < PAIR_ENDS; i++) {
		if (both)
			ends[i].host = hosts[i];
		if (status == 0 && is_here[i])
			status = roundtrip_end_begin(&ends[i], i);
		if (is_here[i])
			pair_add_local(&job.pair, i, &roundtrip_end_ops, &ends[i]);
	}
	if (status == 0 && both) /* not earlier: if the graph is refused, the file of --json stays unchanged */
		status = roundtrip_begin(&job);
	job.server = ends[PAIR_SERVER].host.address;
	if (status == 0 && options->server) {
		roundtrip_set_handoff(&ends[PAIR_SERVER], (enum pair_handoff)options->handoffs.value[0]);
		fprintf(stderr, "%s: serving at %s over %s \"%s\", mode %s; ctrl-C ends it\n",
			options->test->program->name, xk_host_print(job.server, address), options->common.link,
			ends[PAIR_SERVER].host.port_names[0], host_modes[options->modes.value[0]]);
		host_await_signal(signals);
		status = roundtrip_json_server(&job, &ends[PAIR_SERVER]);
	} else if (status == 0) {
		if (!both)
			job.server = settings[PAIR_CLIENT].peer;
		status = roundtrip_measure(&job);
	}
	roundtrip_end_job(&job);
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		host_end(&ends[i].host);
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		closed |= roundtrip_end_close(&ends[i]);
	return status != 0 ? status : closed;
}

/* Runs an end of a pair, whose private link is named by the parent's process id. */
static int
roundtrip_serve_pair(const struct roundtrip_options *options, const struct host_link *link)
{
	unsigned which = strcmp(options->end, pair_end_names[PAIR_CLIENT]) == 0 ? PAIR_CLIENT : PAIR_SERVER;
	struct host_options host = roundtrip_host_options(options, link, which);
	struct roundtrip_end end = { .kind = options->test, .woken = -1, .owns_process = true };
	char meeting[32];
	int status, closed;

	snprintf(meeting, sizeof(meeting), "pair-%ld-", (long)getppid());
	host.meeting = meeting;
	status = host_open(&end.host, &host);
	if (status == 0)
		status = roundtrip_end_begin(&end, which);
	if (status == 0)
		status = pair_serve((int)options->control, &roundtrip_end_ops, &end);
	closed = roundtrip_end_close(&end);
	return status != 0 ? status : closed;
}

int
roundtrip_main(const struct roundtrip_test *test, int argc, char **argv)
{
	struct roundtrip_options options = {
		.test = test,
		.common = HOST_COMMON_INITIAL,
		.rounds = test->rounds,
		.sizes = test->sizes,
		.seed = 1,
		.repeats = 7,
		.messages = 64,
	};
	struct options_texts operands;
	const struct host_link *link;
	int signals, status;

	status = options_parse(test->program, argc, argv, &options, &operands);
	if (status != OPTIONS_GO)
		return status;
	status = roundtrip_complete(&options, &link);
	if (status != 0)
		return status;
	if (options.far != NULL && !link->has_interface && !link->is_card)
		return options_misuse(test->program,
				      "--link %s joins only hosts on one machine, so it cannot be used with --far",
				      link->name);
	if (options.compiled && xk_program_graph == NULL) {
		compile_exec(options.graph, test->program->name, NULL, argc, argv);
		return OPTIONS_FAILURE;
	}
	if (options.end != NULL) {
		signals = -1;
		options.watch = watch_new(test->program->name, &signals, options.common.watchdog_ns);
		status = roundtrip_serve_pair(&options, link);
		watch_free(options.watch);
		return status;
	}
	signals = pair_signals();
	if (!options.server && options.client == 0 && !link->in_process)
		return roundtrip_run_pair(&options, link, argc, argv, signals);
	options.watch = watch_new(test->program->name, &signals, options.common.watchdog_ns);
	status = roundtrip_run_here(&options, link, signals);
	watch_free(options.watch);
	return status;
}
