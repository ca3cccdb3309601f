/*
 * roundtrip_compare.c - measures the round trips of messages if the driver hands every message to a thread (regular),
 * if the driver carries messages up itself (IPP), and the savings of IPP. The configurations alternate in short blocks,
 * so that disturbances affect all of them alike.
 *
 * The effects of a block on the machine last into the next one: where cores halt, the same configuration takes a fifth
 * less after one that halts them for shorter times. Therefore the order changes from block to block (batches_turn).
 */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/batches.h"
#include "tools/roundtrip/roundtrip.h"

enum {
	ROUNDTRIP_BLOCKS = 20,    /* per configuration, unless blocks would be too long */
	ROUNDTRIP_BLOCK_MIN = 50, /* round trips */
	ROUNDTRIP_BLOCK_MAX = 5000,
	ROUNDTRIP_WARM_UP = 100, /* maximum; no more than are counted */
};

static int
roundtrip_counts(struct roundtrip_job *job, struct pair_counts counts[PAIR_ENDS])
{
	int status = 0;

	for (unsigned i = 0; i < PAIR_ENDS && status == 0; i++)
		status = pair_counts(&job->pair, i, &counts[i]);
	return status;
}

/* Runs a block of a configuration, after a warm-up, and adds its results. */
static int
roundtrip_block(struct roundtrip_job *job, struct roundtrip_run *run, uint64_t rounds)
{
	struct pair_block block = {
		.host = job->server,
		.size = run->size,
		.channels = run->channels,
		.flow = run->flow,
		.rounds = rounds < ROUNDTRIP_WARM_UP ? rounds : ROUNDTRIP_WARM_UP,
	};
	const struct pair_result *result = &job->result;
	int status = pair_setup(&job->pair, &run->setup);

	if (status == 0 && !job->options->common.trace)
		status = pair_run(&job->pair, &block, &job->result);
	if (status == 0)
		status = roundtrip_counts(job, job->before);
	block.rounds = rounds;
	if (status == 0)
		status = pair_run(&job->pair, &block, &job->result);
	if (status == 0)
		status = roundtrip_counts(job, job->after);
	if (status != 0)
		return status;
	histogram_merge(&run->rtt, &result->rtt);
	run->rounds += result->rounds;
	run->elapsed_ns += result->elapsed_ns;
	run->lost += result->lost;
	run->late += result->late;
	run->bad += result->bad;
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		pair_counts_add(&run->sum[i], &job->before[i], &job->after[i]);
	return 0;
}

static void
roundtrip_progress(const struct roundtrip_job *job, const struct roundtrip_run *run)
{
	uint64_t done = 0, all = job->run_count * job->options->rounds;

	if (!job->shows_progress)
		return;
	for (unsigned i = 0; i < job->run_count; i++)
		done += job->runs[i].rounds;
	dprintf(STDERR_FILENO, "\r\033[K%s: %3.0f %%  %" PRIu32 " bytes, %s", job->options->test->program->name,
		100.0 * (double)done / (double)all, run->size, host_modes[run->setup.mode]);
	if (done == all)
		dprintf(STDERR_FILENO, "\r\033[K");
}

/* Runs all configurations of one size and number of channels: a block of each, repeatedly. */
static int
roundtrip_compare_size(struct roundtrip_job *job, struct roundtrip_run *runs)
{
	uint64_t rounds = job->options->rounds, blocks = rounds / ROUNDTRIP_BLOCK_MIN;
	int status = 0;

	blocks = blocks < 1 ? 1 : blocks > ROUNDTRIP_BLOCKS ? ROUNDTRIP_BLOCKS : blocks;
	if (rounds / blocks > ROUNDTRIP_BLOCK_MAX)
		blocks = rounds / ROUNDTRIP_BLOCK_MAX;
	for (uint64_t block = 0; block < blocks && status == 0; block++)
		for (unsigned place = 0; place < job->per_size && status == 0; place++) {
			struct roundtrip_run *run = &runs[batches_turn(job->per_size, block, place)];
			uint64_t until = block + 1 == blocks ? rounds : rounds / blocks * (block + 1);

			status = roundtrip_block(job, run, until - run->rounds);
			roundtrip_progress(job, run);
		}
	return status;
}

int
roundtrip_compare(struct roundtrip_job *job)
{
	int status = 0;

	for (unsigned i = 0; i < job->run_count && status == 0; i += job->per_size)
		status = roundtrip_compare_size(job, &job->runs[i]);
	return status;
}
