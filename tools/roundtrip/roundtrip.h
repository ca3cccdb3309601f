/*
 * roundtrip.h - a program that measures round trips with a test protocol, in a pair of hosts: udptest and chantest. What
 * differs between them is a struct roundtrip_test; the rest of this file is what the others share: options, an end, a job
 * and its results. All of it is for the main thread.
 */
#ifndef ROUNDTRIP_H
#define ROUNDTRIP_H

#include "tools/host/host_alone.h"
#include "tools/host/host_pair.h"
#include "tools/machine.h"
#include "tools/options.h"

/* ---- what a program says of itself ---- */

/* What became of a block. */
struct roundtrip_outcome {
	/* 0; -ETIMEDOUT, -EHOSTUNREACH, -ENETUNREACH, -EMSGSIZE (see max_packet), -ECANCELED, or why there is no session */
	int error;
	uint64_t rounds, lost, late, bad;
	uint32_t max_packet; /* what the session takes at most, 0 if it did not come to that */
};

struct roundtrip_end;

struct roundtrip_test {
	const struct options_program
		*program;    /* its name is the test protocol's, too; its struct is roundtrip_options */
	const char *graph;   /* file below graphs/ where none is given */
	const char *message; /* what is delivered once in each direction: "datagram" */
	const char *answer;  /* what comes back: "echo" */
	bool has_channels;
	/*
	 * Starts the block at the client. roundtrip_record, roundtrip_lost and in the end roundtrip_finished are to be
	 * told, with end. 0 or -errno: then they are not.
	 */
	int (*start)(struct xk_protocol *protocol, const struct pair_block *block, struct roundtrip_end *end);
};

/* Runs the program to its end. The status to exit with. */
int roundtrip_main(const struct roundtrip_test *test, int argc, char **argv);

/* By whoever carries the message; never two of them at once. argument: the end. */
void roundtrip_record(void *argument, uint64_t rtt_ns);
void roundtrip_lost(void *argument, uint64_t waited_ns);
void roundtrip_finished(void *argument, const struct roundtrip_outcome *outcome);

/* ---- roundtrip_options.c ---- */

struct roundtrip_options {
	const struct roundtrip_test *test;
	struct host_common common;
	const char *graph, *client, *end;
	const char *preset, *costs; /* once complete: NULL but for simulated links */
	struct options_numbers modes, handoffs, threads, cores, sizes, channels;
	uint64_t rounds, control, seed;
	bool server, compiled;
	struct watch *watch;
	char path[HOST_PATH]; /* of the graph where none is given */
};

extern const char *const roundtrip_handoff_names[]; /* by enum pair_handoff */
/* All options but --size and --channels, for a program's `shared`. */
extern const struct options_option roundtrip_common_options[];
extern const char roundtrip_footer[];

/* Checks the options and fills in what was not given. 0 and the link, or OPTIONS_MISUSE and a sentence. */
int roundtrip_complete(struct roundtrip_options *options, const struct host_link **link);

/* ---- roundtrip_end.c: a host with the test protocol, as the pair's client or server ---- */

enum { ROUNDTRIP_CALLERS = 4 };

/* What the graph says of the edge below the test protocol, and of who parks its callers, to be put back. */
struct roundtrip_marks {
	unsigned explicit_mark;
	bool never;
	uint64_t budget_ns;
	enum xk_resume resume[ROUNDTRIP_CALLERS];
};

struct roundtrip_end {
	const struct roundtrip_test *kind;
	struct host host;
	struct xk_protocol *test;
	struct roundtrip_marks marks;
	bool is_client, owns_process;
	/* of a run; the callbacks write and then tell `woken` */
	int woken;
	struct histogram *rtt;
	uint64_t all_losses; /* of all runs, as far as they were told of */
	_Atomic uint64_t moves, losses, waited_ns;
	_Atomic bool done;
	struct roundtrip_outcome outcome;
};

extern const struct pair_end_ops roundtrip_end_ops;

/* What host_open wants to know of an end. */
struct host_options roundtrip_host_options(const struct roundtrip_options *options, const struct host_link *link,
					   unsigned which);

/* Starts an end whose host is open. 0, or the status to exit with; what was wrong has been printed. */
int roundtrip_end_begin(struct roundtrip_end *end, unsigned which);

/* Stops and frees an end, whether or not it has begun. As host_close. */
int roundtrip_end_close(struct roundtrip_end *end);

/* Where messages leave the driver is decided here alone, or by the graph. */
void roundtrip_set_handoff(struct roundtrip_end *end, enum pair_handoff handoff);

void roundtrip_end_counts(void *argument, struct pair_counts *counts);

/* ---- roundtrip.c: what is compared ---- */

/* One configuration and what became of it. */
struct roundtrip_run {
	struct pair_setup setup;
	uint32_t size, channels;
	uint64_t rounds, elapsed_ns; /* so far */
	struct histogram rtt;
	struct pair_counts sum[PAIR_ENDS];
	uint64_t lost, late, bad;
};

struct roundtrip_job {
	const struct roundtrip_options *options;
	struct pair pair;
	uint32_t server;
	struct machine machine;
	struct roundtrip_run *runs;
	unsigned run_count, per_size;
	FILE *json;
	bool shows_progress;
	struct pair_counts before[PAIR_ENDS], after[PAIR_ENDS]; /* of the block under way */
	struct pair_result result;
};

/* ---- roundtrip_report.c ---- */

/* The table, on standard output unless JSON goes there. */
void roundtrip_print(const struct roundtrip_job *job);

/* Writes the results to job->json, if there is one. 0, or OPTIONS_FAILURE and a sentence. */
int roundtrip_json(struct roundtrip_job *job);

/* A lone server tells at its end what it has done since it was started: a run's keys, with one end's counts. */
int roundtrip_json_server(const struct roundtrip_job *job, struct roundtrip_end *end);

#endif
