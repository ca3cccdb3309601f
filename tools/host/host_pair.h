/*
 * host_pair.h - drives the two ends of a measurement, client and server, from one program.
 *
 * An end is a separate process (pair_start: the same program with two hidden options and a socket; the server also on
 * another machine), or is in this process: both ends of a link that joins hosts of one process, and a lone client,
 * whose server cannot be asked for counts. The program sets both ends up, lets the client run blocks of round trips,
 * and requests counts; pair_end_ops do the work. The processes die with their parent, and the pair fails as soon as one
 * ends by itself. Main thread only. A status is 0, or the exit status after a message.
 */
#ifndef HOST_PAIR_H
#define HOST_PAIR_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocols/papers/logptest.h"
#include "tools/histogram.h"

enum { PAIR_CLIENT, PAIR_SERVER, PAIR_ENDS };
enum { PAIR_DROPS = 128, PAIR_NAME = 64, PAIR_WHY = 256, PAIR_END_MS = 10000 };

/* The values of --handoff: the end whose test protocol leaves the driver. */
enum pair_handoff {
	PAIR_HANDOFF_NONE,
	PAIR_HANDOFF_CLIENT,
	PAIR_HANDOFF_SERVER,
	PAIR_HANDOFF_BOTH,
	PAIR_HANDOFF_GRAPH, /* default: as in the graph */
};

/* The settings of both ends that change between blocks. */
struct pair_setup {
	uint32_t mode; /* enum xk_mode */
	uint32_t threads;
	uint32_t handoff; /* enum pair_handoff */
};

/* A block of round trips, run by the client. */
struct pair_block {
	uint32_t host; /* the server */
	uint32_t size, channels, copies, flow;
	uint64_t rounds;
	struct xk_logptest_loop loop; /* for logp */
};

struct pair_drop {
	char name[PAIR_NAME]; /* "ip.short" */
	uint64_t count;
};

/* One end's counts since its start. All but the drops are uint64_t and come first, for pair_counts_add. */
struct pair_counts {
	uint64_t driver_switches, thread_switches, process_switches; /* voluntary */
	uint64_t frames, messages;
	uint64_t handoffs[XK_HANDOFF_REASONS]; /* by enum xk_handoff_reason */
	uint64_t fallbacks, overruns, overtaken, stalled;
	unsigned drop_count;
	struct pair_drop drops[PAIR_DROPS];
};

/* The result of a block. */
struct pair_result {
	int32_t error; /* 0, or -errno with the reason in why */
	char why[PAIR_WHY];
	uint64_t rounds, lost, late, bad, elapsed_ns;
	struct xk_logptest_times times; /* for logp */
	struct histogram rtt;
};

/* The work of an end; `end` is the program's. */
struct pair_end_ops {
	/* Returns 0, or -errno with the reason in why. */
	int (*setup)(void *end, const struct pair_setup *setup, char *why, size_t why_len);
	void (*counts)(void *end, struct pair_counts *counts);
	/* Runs the whole block. Returns false if it gave up because the descriptor `stop` became readable. */
	bool (*run)(void *end, const struct pair_block *block, struct pair_result *result, int stop);
};

struct pair_end {
	const struct pair_end_ops *ops; /* NULL: not in this process */
	void *end;
	pid_t pid;   /* 0: not a separate process */
	int control; /* the socket to the process, or -1 */
};

/* An end's answer to a request (host_pair.c). */
struct pair_answer {
	uint32_t type; /* the request's type */
	int32_t error;
	char why[PAIR_WHY];
	union {
		struct pair_counts counts;
		struct pair_result result;
	};
};

struct pair {
	const char *program; /* name for messages */
	const char *far;     /* the command that starts the server on another machine (pair_start); NULL: here */
	int signals;         /* readable when the program must end (pair_signals) */
	bool in_one_process; /* both ends have the same process_switches */
	bool interrupted;    /* by a signal, which has been reported */
	struct pair_end ends[PAIR_ENDS];
	struct pair_answer answer; /* the last one */
};

/* "client", "server". */
extern const char *const pair_end_names[PAIR_ENDS];

/* Gets the signals that end a program: SIGINT, SIGTERM, and SIGHUP unless it is ignored (nohup). */
void pair_signal_set(sigset_t *set);

/* Blocks these signals and returns a signalfd for them, or -1. Call before creating threads, which inherit the mask. */
int pair_signals(void);

/* Ends that: takes the signals that are pending, and closes `signals`. Later ones act as usual. */
void pair_signals_end(int signals);

/* Forks. The child is killed when its parent ends, and ignores SIGINT; blocked signals stay blocked. */
pid_t pair_fork(void);

/* Waits for a child to end, and kills it after limit_ms. Returns its wait status, or -1 if it was killed. */
int pair_reap(pid_t pid, unsigned limit_ms);

/* Initializes a pair without ends. */
void pair_init(struct pair *pair, const char *program, int signals);

/*
 * Runs this program with argv after "--control=FD --end=NAME" as each end, and waits until both call pair_serve. With
 * pair->far, the shell runs that command with one more argument, a line for the shell of the other machine: it changes
 * to this directory and runs this program there as the server, with control as its standard input and output. Both
 * machines must have the same program at the same place; "--answer=SIZE" gives the server the size of this one's struct
 * pair_answer.
 */
int pair_start(struct pair *pair, int argc, char **argv);

/* Adds an end that is in this process. */
void pair_add_local(struct pair *pair, unsigned which, const struct pair_end_ops *ops, void *end);

/* Sets both ends up. */
int pair_setup(struct pair *pair, const struct pair_setup *setup);

/* Gets the counts of one end, or zeroes if it cannot be asked. */
int pair_counts(struct pair *pair, unsigned which, struct pair_counts *counts);

/* Makes the client run a block. *result is undefined on failure. */
int pair_run(struct pair *pair, const struct pair_block *block, struct pair_result *result);

/* Ends the processes: cleanly, within PAIR_END_MS and with a message if one fails, or else at once. */
int pair_stop(struct pair *pair, bool cleanly);

/*
 * Serves requests in an end's process until the parent closes the socket. control: the option's. Returns the exit
 * status.
 */
int pair_serve(int control, const struct pair_end_ops *ops, void *end);

/* Adds after - before to sum. */
void pair_counts_add(struct pair_counts *sum, const struct pair_counts *before, const struct pair_counts *after);

/* Adds `count` to the drop called name, or to "other" if the table is full. */
void pair_counts_drop(struct pair_counts *counts, const char *name, uint64_t count);

#endif
