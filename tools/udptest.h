/*
 * udptest.h - what the files of the program udptest share: its options, an end, a job and its results. All of it is for
 * the main thread.
 */
#ifndef UDPTEST_H
#define UDPTEST_H

#include "protocols/udptest.h"
#include "tools/host_alone.h"
#include "tools/machine.h"
#include "tools/options.h"
#include "tools/pair.h"

/* ---- udptest_options.c ---- */

struct udptest_options {
	struct host_common common;
	const char *graph, *client, *end;
	const char *preset, *costs; /* once complete: NULL but for simulated links */
	struct options_numbers modes, handoffs, threads, cores, sizes;
	uint64_t rounds, control, seed;
	bool server, compiled;
	char path[HOST_PATH]; /* of the graph where none is given */
};

extern const char *const udptest_handoff_names[]; /* by enum pair_handoff */
extern const struct options_program udptest_program;

/* Checks the options and fills in what was not given. 0 and the link, or OPTIONS_MISUSE and a sentence. */
int udptest_complete(struct udptest_options *options, const struct host_link **link);

/* ---- udptest_end.c: a host with the test protocol, as the pair's client or server ---- */

/* What the graph says of the edge below the test protocol, to be put back. */
struct udptest_marks {
	unsigned explicit_mark;
	bool never;
	uint64_t budget_ns;
	enum xk_resume resume;
};

struct udptest_end {
	struct host host;
	struct xk_protocol *test;
	struct udptest_marks marks;
	bool is_client, owns_process;
	/* of a run; the callbacks write and then tell `woken` */
	int woken;
	struct histogram *rtt;
	uint64_t all_losses; /* of all runs, as far as they were told of */
	_Atomic uint64_t moves, losses, waited_ns;
	_Atomic bool done;
	struct xk_udptest_result result;
};

extern const struct pair_end_ops udptest_end_ops;

/* What host_open wants to know of an end. */
struct host_options udptest_host_options(const struct udptest_options *options, const struct host_link *link,
					 unsigned which);

/* Starts an end whose host is open. 0, or the status to exit with; what was wrong has been printed. */
int udptest_end_begin(struct udptest_end *end, unsigned which);

/* Stops and frees an end, whether or not it has begun. As host_close. */
int udptest_end_close(struct udptest_end *end);

/* Where messages leave the driver is decided here alone, or by the graph. */
void udptest_set_handoff(struct udptest_end *end, enum pair_handoff handoff);

void udptest_end_counts(void *argument, struct pair_counts *counts);

/* ---- udptest.c: what is compared ---- */

/* One configuration and what became of it. */
struct udptest_run {
	struct pair_setup setup;
	uint32_t size;
	uint64_t rounds; /* done so far */
	struct histogram rtt;
	struct pair_counts sum[PAIR_ENDS];
	uint64_t lost, late, bad;
};

struct udptest_job {
	const struct udptest_options *options;
	struct pair pair;
	uint32_t server;
	struct machine machine;
	struct udptest_run *runs;
	unsigned run_count, per_size;
	FILE *json;
	bool shows_progress;
	struct pair_counts before[PAIR_ENDS], after[PAIR_ENDS]; /* of the block under way */
	struct pair_result result;
};

/* ---- udptest_report.c ---- */

/* The table, on standard output unless JSON goes there. */
void udptest_print(const struct udptest_job *job);

/* Writes the results to job->json, if there is one. 0, or OPTIONS_FAILURE and a sentence. */
int udptest_json(struct udptest_job *job);

/* A lone server tells at its end what it has done since it was started: a run's keys, with one end's counts. */
int udptest_json_server(const struct udptest_job *job, struct udptest_end *end);

#endif
