/*
 * host_pair.h - drives the two ends of a measurement, the client and the server, from one program.
 *
 * An end is a process of its own (started here: the same program with two hidden options, a socket between them), or
 * lies in this process (a link that joins two hosts of one process; a lone client, whose server is elsewhere and cannot
 * be asked). The driving program says: set both ends up, run a block of round trips, tell the counts; in each end the
 * program's pair_end_ops do it. Processes end with their parent, and the pair fails as soon as either of them ends by
 * itself. Everything is for the main thread.
 */
#ifndef HOST_PAIR_H
#define HOST_PAIR_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/histogram.h"

enum { PAIR_CLIENT, PAIR_SERVER, PAIR_ENDS };
enum { PAIR_HANDOFFS = 3, PAIR_DROPS = 128, PAIR_NAME = 64, PAIR_WHY = 200 };

/* What --handoff says: which end's test protocol leaves the driver. */
enum pair_handoff {
	PAIR_HANDOFF_NONE,
	PAIR_HANDOFF_CLIENT,
	PAIR_HANDOFF_SERVER,
	PAIR_HANDOFF_BOTH,
	PAIR_HANDOFF_GRAPH, /* the option is absent: as the graph says */
};

/* What is changed between blocks, at both ends. */
struct pair_setup {
	uint32_t mode; /* enum xk_mode */
	uint32_t threads;
	uint32_t handoff; /* enum pair_handoff */
};

/* A block of round trips, run by the client. */
struct pair_block {
	uint32_t host; /* the server */
	uint32_t size, channels;
	uint64_t rounds;
};

struct pair_drop {
	char name[PAIR_NAME]; /* "ip.short" */
	uint64_t count;
};

/* Of one end, since it was started; differences are what counts. */
struct pair_counts {
	uint64_t driver_switches, thread_switches, process_switches; /* voluntary */
	uint64_t frames, messages;
	uint64_t handoffs[PAIR_HANDOFFS]; /* by enum xk_handoff_reason */
	uint64_t fallbacks, overruns, overtaken, stalled;
	unsigned drop_count;
	struct pair_drop drops[PAIR_DROPS];
};

/* What became of a block. */
struct pair_result {
	int32_t error; /* 0, or -errno and a sentence in why */
	char why[PAIR_WHY];
	uint64_t rounds, lost, late, bad, elapsed_ns;
	struct histogram rtt;
};

/* What an end can do; `end` is the program's. */
struct pair_end_ops {
	/* 0, or -errno and a sentence in why. */
	int (*setup)(void *end, const struct pair_setup *setup, char *why, size_t why_len);
	void (*counts)(void *end, struct pair_counts *counts);
	/* Runs the block to its end. False: given up, because `stop` (a descriptor) became readable. */
	bool (*run)(void *end, const struct pair_block *block, struct pair_result *result, int stop);
};

struct pair_end {
	const struct pair_end_ops *ops; /* in this process; NULL: see pid */
	void *end;
	pid_t pid;   /* a process; 0: none */
	int control; /* socket to it */
};

struct pair {
	const char *program; /* in messages */
	int signals;         /* descriptor that becomes readable when the program is to end */
	bool in_one_process; /* both ends' process_switches are one count */
	bool interrupted;    /* by a signal, which has been reported */
	struct pair_end ends[PAIR_ENDS];
};

/* "client", "server". */
extern const char *const pair_end_names[PAIR_ENDS];

/* The signals that end a program in peace: SIGINT, SIGTERM and, unless it was started to outlive its terminal, SIGHUP. */
void pair_signal_set(sigset_t *set);

/* Blocks them and returns a descriptor on which they can be read, or -1. Before any thread is made, so that all inherit it. */
int pair_signals(void);

/* A pair without ends. */
void pair_init(struct pair *pair, const char *program, int signals);

/*
 * Starts both ends as processes: the program with argv, to which "--control=FD --end=NAME" is added in front. Returns
 * when both have called pair_serve. 0, or the status to exit with; what was wrong has been printed.
 */
int pair_start(struct pair *pair, int argc, char **argv);

/* One end lies in this process. */
void pair_add_local(struct pair *pair, unsigned which, const struct pair_end_ops *ops, void *end);

/* Sets both ends up. 0, or the status to exit with; what was wrong has been printed. */
int pair_setup(struct pair *pair, const struct pair_setup *setup);

/* Asks one end, or zeroes counts where there is none to ask. As pair_setup. */
int pair_counts(struct pair *pair, unsigned which, struct pair_counts *counts);

/* Runs a block at the client. As pair_setup. */
int pair_run(struct pair *pair, const struct pair_block *block, struct pair_result *result);

/*
 * Ends the processes and waits for them: in peace, which gives them time to free what they have and tells how they
 * ended; or at once. 0, or OPTIONS_FAILURE.
 */
int pair_stop(struct pair *pair, bool in_peace);

/*
 * For the program in an end's process: serves the pair's requests until its parent ends or says so. The status to exit
 * with.
 */
int pair_serve(int control, const struct pair_end_ops *ops, void *end);

/* after - before, added to sum. */
void pair_counts_add(struct pair_counts *sum, const struct pair_counts *before, const struct pair_counts *after);

/* Adds `count` to the drop called name; a table that is full counts what is left under "other". */
void pair_counts_drop(struct pair_counts *counts, const char *name, uint64_t count);

#endif
