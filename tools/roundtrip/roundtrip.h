/*
 * roundtrip.h - programs that measure with a test protocol in a pair of hosts: udptest, chantest, tcptest, logp. They differ
 * in a struct roundtrip_test; the rest of this file is shared by the files of the measurement. Main thread only, except
 * where noted.
 */
#ifndef ROUNDTRIP_H
#define ROUNDTRIP_H

#include "tools/host/host_alone.h"
#include "tools/host/host_pair.h"
#include "tools/machine.h"
#include "tools/options.h"

/* ---- a program ---- */

struct json;
struct roundtrip_end;
struct roundtrip_job;

struct roundtrip_test {
	const struct options_program *program; /* fills a struct roundtrip_options */
	const char *protocol;                  /* the test protocol */
	bool takes_top;                        /* replaces the graph's test protocol, if that is another one */
	/* defaults of --rounds and --size */
	uint64_t rounds;
	struct options_numbers sizes;
	const char *graph;        /* the default, in graphs/ */
	const char *message;      /* name of the unit delivered once in each direction: "datagram" */
	const char *answer;       /* "echo" */
	const char *channels;     /* what several messages are in flight on: "channels"; NULL: one at a time */
	const char *const *flows; /* names of what is measured, up to NULL; NULL: round trips alone */
	unsigned streams;         /* the first of flows that has no round trips */
	/*
	 * Starts the block at the client, which then calls roundtrip_record, roundtrip_lost and, last,
	 * roundtrip_finished. Before the last call it sets, in end->result, error (-ETIMEDOUT, -EHOSTUNREACH,
	 * -ENETUNREACH, -EMSGSIZE, -ECANCELED, or the reason why there is no session), rounds, lost, late and bad.
	 * Returns 0, or -errno after calling none of them.
	 */
	int (*start)(struct xk_protocol *protocol, const struct pair_block *block, struct roundtrip_end *end);
	/* Measures every configuration, into job->runs or job->own. Returns a status. */
	int (*measure)(struct roundtrip_job *job);
	/* Print the results, and write them as elements of an array; also for an interrupted measurement. */
	void (*print)(const struct roundtrip_job *job, FILE *out);
	void (*json)(const struct roundtrip_job *job, struct json *json);
};

/* Runs the program. Returns the exit status. */
int roundtrip_main(const struct roundtrip_test *test, int argc, char **argv);

/* For any thread, one at a time. argument: the end. */
void roundtrip_record(void *argument, uint64_t rtt_ns);
void roundtrip_lost(void *argument, uint64_t waited_ns);
/* max_packet: the session's longest message; 0: there was no session. */
void roundtrip_finished(struct roundtrip_end *end, uint32_t max_packet);

/* ---- roundtrip_options.c ---- */

struct roundtrip_options {
	const struct roundtrip_test *test;
	struct host_common common;
	const char *graph, *far, *end;
	uint32_t client;            /* the server's address; 0: not given */
	const char *preset, *costs; /* after roundtrip_complete: NULL unless the link is simulated */
	struct options_numbers modes, handoffs, threads, cores, sizes, channels, copies, flows;
	uint64_t rounds, control, answer, seed;
	uint64_t repeats, messages; /* for logp */
	bool server, compiled;
	struct watch *watch;
	char path[HOST_PATH]; /* of the default graph */
};

extern const char *const roundtrip_handoff_names[]; /* by enum pair_handoff */
/* For a program's `shared`: all options but --size and --channels. */
extern const struct options_option roundtrip_common_options[];
extern const char roundtrip_footer[];

/* Returns true if the end that uses entry `index` of --cores runs on this machine. */
bool roundtrip_is_here(const struct roundtrip_options *options, unsigned index);

/* Checks the options, fills in defaults and finds the link. Returns 0, or OPTIONS_MISUSE after a message. */
int roundtrip_complete(struct roundtrip_options *options, const struct host_link **link);

/* ---- roundtrip_end.c: a host with the test protocol, as the pair's client or server ---- */

struct roundtrip_end {
	const struct roundtrip_test *kind;
	struct host host;
	struct xk_protocol *test;
	bool is_client, owns_process;
	/* for a run; the callbacks write to `woken` last */
	int woken;
	struct pair_result *result;
	uint32_t max_packet; /* of the session; 0: there was none */
	uint64_t all_losses; /* reported, of all runs */
	_Atomic uint64_t moves, losses, waited_ns;
	_Atomic bool done;
};

extern const struct pair_end_ops roundtrip_end_ops;

/* Returns the options of an end's host. */
struct host_options roundtrip_host_options(const struct roundtrip_options *options, const struct host_link *link,
					   unsigned which);

/* Starts an end whose host is open. Returns 0, or the exit status after a message. */
int roundtrip_end_begin(struct roundtrip_end *end, unsigned which);

/* Stops and frees an end, whether or not it has begun. Returns like host_close. */
int roundtrip_end_close(struct roundtrip_end *end);

/* Makes messages leave the driver at these ends only; PAIR_HANDOFF_GRAPH changes nothing. */
void roundtrip_set_handoff(struct roundtrip_end *end, enum pair_handoff handoff);

void roundtrip_end_counts(void *argument, struct pair_counts *counts);

/* ---- roundtrip.c ---- */

/* One configuration and its results so far. */
struct roundtrip_run {
	struct pair_setup setup;
	uint32_t size, channels, copies, flow;
	uint64_t rounds, elapsed_ns;
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
	void *own; /* the test's results, from malloc; NULL: none */
	FILE *json;
	bool shows_progress;
	struct pair_counts before[PAIR_ENDS], after[PAIR_ENDS]; /* of the current block */
	struct pair_result result;
};

/* ---- roundtrip_compare.c, roundtrip_report.c: udptest, chantest and tcptest compare modes ---- */

int roundtrip_compare(struct roundtrip_job *job);
void roundtrip_print(const struct roundtrip_job *job, FILE *out);
void roundtrip_json_runs(const struct roundtrip_job *job, struct json *json);

/* ---- roundtrip_report.c ---- */

/* Prints "WHAT over LINK, ...". */
void roundtrip_print_head(const struct roundtrip_job *job, const char *what, FILE *out);
/* Print a configuration as the first columns of a row, and write it as an object's first keys. */
void roundtrip_print_setup(const struct roundtrip_job *job, const struct roundtrip_run *run, FILE *out);
void roundtrip_json_setup(const struct roundtrip_job *job, const struct roundtrip_run *run, struct json *json);

/* Writes the results to job->json, if set. Returns 0, or OPTIONS_FAILURE after a message. */
int roundtrip_json(struct roundtrip_job *job);

/* The same for a lone server: a run's keys, with the counts of its end since its start. */
int roundtrip_json_server(const struct roundtrip_job *job, struct roundtrip_end *end);

#endif
