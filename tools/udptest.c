/*
 * udptest.c - the main job: how long a UDP message takes to a peer and back, when the driver hands every message to a
 * thread (regular) and when it carries messages up itself (IPP), and what the second saves.
 *
 * Without --server or --client it starts both ends as processes and alternates what it compares in short blocks, so
 * that whatever the machine does meanwhile happens to all of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/udptest.h"

enum {
	UDPTEST_BLOCKS = 20,    /* of a configuration, at most */
	UDPTEST_BLOCK_MIN = 50, /* round trips */
	UDPTEST_WARM_UP = 100,
	UDPTEST_NO_CONTROL = 0,
};

/* ---- what is compared ---- */

static struct udptest_run *
udptest_add_run(struct udptest_job *job, uint64_t size, uint64_t mode, uint64_t threads, uint64_t handoff)
{
	struct udptest_run *run = &job->runs[job->run_count++];

	run->setup = (struct pair_setup){ (uint32_t)mode, (uint32_t)threads, (uint32_t)handoff };
	run->size = (uint32_t)size;
	histogram_init(&run->rtt);
	return run;
}

/* Each size with each mode, number of threads and handoff; in regular mode there is nothing to hand off. */
static bool
udptest_plan(struct udptest_job *job)
{
	const struct udptest_options *o = job->options;
	size_t most = (size_t)o->sizes.count * o->modes.count * o->threads.count * o->handoffs.count;

	job->runs = calloc(most, sizeof(*job->runs));
	if (job->runs == NULL)
		return false;
	for (unsigned s = 0; s < o->sizes.count; s++)
		for (unsigned m = 0; m < o->modes.count; m++)
			for (unsigned t = 0; t < o->threads.count; t++)
				for (unsigned h = 0; h < o->handoffs.count; h++)
					if (h == 0 || o->modes.value[m] == XK_IPP)
						udptest_add_run(job, o->sizes.value[s], o->modes.value[m],
								o->threads.value[t], o->handoffs.value[h]);
	job->per_size = job->run_count / o->sizes.count;
	return true;
}

static int
udptest_counts(struct udptest_job *job, struct pair_counts counts[PAIR_ENDS])
{
	int status = 0;

	for (unsigned i = 0; i < PAIR_ENDS && status == 0; i++)
		status = pair_counts(&job->pair, i, &counts[i]);
	return status;
}

static int
udptest_warm_up(struct udptest_job *job, struct udptest_run *run, struct pair_result *result)
{
	struct pair_block block = { .host = job->server, .size = run->size, .rounds = UDPTEST_WARM_UP };
	int status;

	if (job->options->common.trace)
		return 0;
	status = pair_run(&job->pair, &block, result);
	return status;
}

static void
udptest_merge(struct udptest_run *run, const struct pair_result *result)
{
	histogram_merge(&run->rtt, &result->rtt);
	run->rounds += result->rounds;
	run->lost += result->lost;
	run->late += result->late;
	run->bad += result->bad;
}

static int
udptest_block(struct udptest_job *job, struct udptest_run *run, uint64_t rounds)
{
	struct pair_block block = { .host = job->server, .size = run->size, .rounds = rounds };
	int status = pair_setup(&job->pair, &run->setup);

	if (status == 0)
		status = udptest_warm_up(job, run, &job->result);
	if (status == 0)
		status = udptest_counts(job, job->before);
	if (status == 0)
		status = pair_run(&job->pair, &block, &job->result);
	if (status == 0)
		status = udptest_counts(job, job->after);
	if (status != 0)
		return status;
	udptest_merge(run, &job->result);
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		pair_counts_add(&run->sum[i], &job->before[i], &job->after[i]);
	return 0;
}

static void
udptest_progress(const struct udptest_job *job, const struct udptest_run *run)
{
	uint64_t done = 0, all = job->run_count * job->options->rounds;

	if (!job->shows_progress)
		return;
	for (unsigned i = 0; i < job->run_count; i++)
		done += job->runs[i].rounds;
	fprintf(stderr, "\r\033[Kudptest: %3.0f %%  %" PRIu32 " bytes, %s", 100.0 * (double)done / (double)all,
		run->size, host_modes[run->setup.mode]);
	if (done == all)
		fprintf(stderr, "\r\033[K");
}

/* All configurations of one size: a block of each, over and over. */
static int
udptest_compare(struct udptest_job *job, struct udptest_run *runs)
{
	uint64_t rounds = job->options->rounds, blocks = rounds / UDPTEST_BLOCK_MIN;
	int status = 0;

	blocks = blocks < 1 ? 1 : blocks > UDPTEST_BLOCKS ? UDPTEST_BLOCKS : blocks;
	for (uint64_t block = 0; block < blocks; block++)
		for (unsigned i = 0; i < job->per_size && status == 0; i++) {
			uint64_t until = rounds * (block + 1) / blocks;

			status = udptest_block(job, &runs[i], until - runs[i].rounds);
			udptest_progress(job, &runs[i]);
		}
	return status;
}

static int
udptest_compare_all(struct udptest_job *job)
{
	int status = 0;

	for (unsigned i = 0; i < job->run_count && status == 0; i += job->per_size)
		status = udptest_compare(job, &job->runs[i]);
	if (status != 0 && job->shows_progress)
		fputc('\n', stderr);
	return status;
}

/* ---- a measurement ---- */

static uint64_t
udptest_line_ns(const struct udptest_job *job)
{
	const struct options_numbers *cores = &job->options->cores;

	return machine_cache_line_ns((unsigned)cores->value[0], (unsigned)cores->value[1]);
}

/* The ends are ready: measures, ends them, tells. */
static int
udptest_measure(struct udptest_job *job)
{
	int status = udptest_compare_all(job), ended, written;

	if (status != 0)
		return status;
	ended = pair_stop(&job->pair, true);
	job->machine.line_ns[1] = udptest_line_ns(job);
	udptest_print(job);
	written = udptest_json(job);
	return ended != 0 ? ended : written;
}

static int
udptest_begin(struct udptest_job *job, const struct udptest_options *options, int signals)
{
	int status;

	*job = (struct udptest_job){ .options = options,
				     .shows_progress = isatty(STDERR_FILENO) && !options->common.trace };
	pair_init(&job->pair, udptest_program.name, signals);
	status = host_open_json(udptest_program.name, options->common.json, &job->json);
	if (status == 0 && !udptest_plan(job))
		status = OPTIONS_FAILURE;
	machine_describe(&job->machine);
	job->machine.line_ns[0] = udptest_line_ns(job);
	return status;
}

static void
udptest_end_job(struct udptest_job *job)
{
	pair_stop(&job->pair, false);
	free(job->runs);
	host_close_json(job->json);
}

/* What is wrong with the files of --pcap is told once, too. */
static int
udptest_check_captures(const struct udptest_options *options, const struct host_link *link)
{
	int status = 0;

	for (unsigned i = 0; i < PAIR_ENDS && status == 0; i++) {
		struct host_options end = udptest_host_options(options, link, i);

		status = host_capture_check(&end);
	}
	return status;
}

/* Two processes. The graph is looked at here first, so that what is wrong with it is told once. */
static int
udptest_run_pair(const struct udptest_options *options, const struct host_link *link, int argc, char **argv,
		 int signals)
{
	struct host_options server = udptest_host_options(options, link, PAIR_SERVER);
	struct udptest_job job;
	struct host host;
	int status = host_load(&host, &server);
	uint32_t address = host.address;

	if (status == 0)
		status = host_prepare_pair(&host);
	host_close(&host);
	if (status == 0)
		status = udptest_check_captures(options, link);
	if (status != 0)
		return status;
	status = udptest_begin(&job, options, signals);
	job.server = address;
	if (status == 0) {
		host_sweep("pair");
		status = pair_start(&job.pair, argc, argv);
	}
	if (status == 0)
		status = udptest_measure(&job);
	udptest_end_job(&job);
	host_sweep("pair");
	return status;
}

/* Both hosts in this process. */
static int
udptest_run_here(const struct udptest_options *options, const struct host_link *link, int signals)
{
	struct host_options both[PAIR_ENDS] = { udptest_host_options(options, link, PAIR_CLIENT),
						udptest_host_options(options, link, PAIR_SERVER) };
	struct udptest_end ends[PAIR_ENDS] = { { .woken = -1 }, { .woken = -1 } };
	struct host hosts[PAIR_ENDS];
	struct udptest_job job;
	int status = host_open_both(hosts, both), closed = 0;

	for (unsigned i = 0; i < PAIR_ENDS; i++) {
		ends[i].host = hosts[i];
		if (status == 0)
			status = udptest_end_begin(&ends[i], i);
	}
	if (status == 0) {
		ends[PAIR_CLIENT].owns_process = true;
		status = udptest_begin(&job, options, signals);
		job.server = ends[PAIR_SERVER].host.address;
		job.pair.in_one_process = true;
		for (unsigned i = 0; i < PAIR_ENDS; i++)
			pair_add_local(&job.pair, i, &udptest_end_ops, &ends[i]);
		if (status == 0)
			status = udptest_measure(&job);
		udptest_end_job(&job);
	}
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		closed |= udptest_end_close(&ends[i]);
	return status != 0 ? status : closed;
}

/* ---- lone ends and ends of a pair ---- */

static int
udptest_run_server(const struct udptest_options *options, const struct host_link *link, int signals)
{
	struct host_options server = udptest_host_options(options, link, PAIR_SERVER);
	struct udptest_end end = { .woken = -1, .owns_process = true };
	struct udptest_job job = { .options = options };
	int status = host_open_json(udptest_program.name, options->common.json, &job.json), closed;
	char host[16];

	machine_describe(&job.machine);
	if (status == 0)
		status = host_open_alone(&end.host, &server, signals);
	if (status == 0)
		status = udptest_end_begin(&end, PAIR_SERVER);
	if (status == 0) {
		udptest_set_handoff(&end, (enum pair_handoff)options->handoffs.value[0]);
		fprintf(stderr, "udptest: serving at %s over %s \"%s\", mode %s; ctrl-C ends it\n",
			xk_host_print(end.host.address, host), options->common.link, end.host.port_names[0],
			host_modes[options->modes.value[0]]);
		host_await_signal(signals);
		status = udptest_json_server(&job, &end);
	}
	host_close_json(job.json);
	closed = udptest_end_close(&end);
	return status != 0 ? status : closed;
}

static int
udptest_run_client(const struct udptest_options *options, const struct host_link *link, int signals)
{
	struct host_options client = udptest_host_options(options, link, PAIR_CLIENT);
	struct udptest_end end = { .woken = -1, .owns_process = true };
	struct udptest_job job;
	int status = udptest_begin(&job, options, signals), closed;

	if (status == 0)
		status = host_open_alone(&end.host, &client, signals);
	if (status == 0)
		status = udptest_end_begin(&end, PAIR_CLIENT);
	if (status == 0) {
		xk_host_parse(options->client, &job.server);
		pair_add_local(&job.pair, PAIR_CLIENT, &udptest_end_ops, &end);
		status = udptest_measure(&job);
	}
	udptest_end_job(&job);
	closed = udptest_end_close(&end);
	return status != 0 ? status : closed;
}

/* This process is an end of a pair; its parent's process id makes the name of their private link. */
static int
udptest_serve_pair(const struct udptest_options *options, const struct host_link *link)
{
	unsigned which = strcmp(options->end, pair_end_names[PAIR_CLIENT]) == 0 ? PAIR_CLIENT : PAIR_SERVER;
	struct host_options host = udptest_host_options(options, link, which);
	struct udptest_end end = { .woken = -1, .owns_process = true };
	char meeting[32];
	int status, closed;

	snprintf(meeting, sizeof(meeting), "pair-%ld-", (long)getppid());
	host.meeting = meeting;
	status = host_open(&end.host, &host);
	if (status == 0)
		status = udptest_end_begin(&end, which);
	if (status == 0)
		status = pair_serve((int)options->control, &udptest_end_ops, &end);
	closed = udptest_end_close(&end);
	return status != 0 ? status : closed;
}

int
main(int argc, char **argv)
{
	struct udptest_options options = { .common = HOST_COMMON_INITIAL, .rounds = 10000, .seed = 1 };
	struct options_texts operands;
	const struct host_link *link;
	int signals, status;

	status = options_parse(&udptest_program, argc, argv, &options, &operands);
	if (status != OPTIONS_GO)
		return status;
	status = udptest_complete(&options, &link);
	if (status != 0)
		return status;
	if (options.control != UDPTEST_NO_CONTROL && options.end != NULL)
		return udptest_serve_pair(&options, link);
	signals = pair_signals();
	if (options.server)
		return udptest_run_server(&options, link, signals);
	if (options.client != NULL)
		return udptest_run_client(&options, link, signals);
	if (link->in_process)
		return udptest_run_here(&options, link, signals);
	return udptest_run_pair(&options, link, argc, argv, signals);
}
