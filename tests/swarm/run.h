/*
 * run.h - one plan in the simulator, and its verdict.
 */
#ifndef RUN_H
#define RUN_H

#include "tests/swarm/plan.h"

/* Kinds of failures. */
enum run_verdict {
	RUN_GOOD,
	RUN_PROMISE, /* of a protocol; or something is left, or waits for ever, at rest */
	RUN_CORRUPT,
	RUN_DUPLICATED,
	RUN_MISDIRECTED,
	RUN_LEAKED,
	RUN_STUCK,
	RUN_BUSY,    /* something never stops */
	RUN_UNKNOWN, /* messages neither delivered nor dropped by name */
	RUN_IDLE,    /* faults were requested, but none happened */
	RUN_REFUSED, /* no such network, or a host does not boot */
	RUN_CAUGHT,  /* the program ended; set by swarm.c */
	RUN_VERDICTS
};

extern const char *const run_verdict_names[RUN_VERDICTS];

enum { RUN_TYPES_MAX = 64, RUN_DROPS_MAX = 40, RUN_WHY = 240 };

/* Sums over runs, in memory that processes share: no pointers. */
struct run_tally {
	uint64_t runs, frames, sent, received, virtual_ns, boots, steps;
	uint64_t streams, failed_streams; /* runs of tcptest's clients */
	uint64_t faults[PLAN_FAULTS];
	uint64_t drops[RUN_TYPES_MAX][RUN_DROPS_MAX]; /* by index in xk_protocol_types, and by reason */
	uint64_t handoffs, fallbacks, no_stack, parks;
	uint64_t hash;    /* of all runs */
	uint64_t counted; /* runs in which every message was accounted for */
};

struct run_result {
	enum run_verdict verdict;
	char why[RUN_WHY];
	uint64_t hash; /* of all that happened */
};

/*
 * Runs plan and adds to *tally. directory: where the network's files are, or are written; with a trailing slash.
 * capture: the pcapng file to write, or NULL.
 */
void run_plan(const struct plan *plan, const char *directory, const char *capture, struct run_tally *tally,
	      struct run_result *result);

/* Writes the plan's files into directory. Returns false if that fails. */
bool run_write_files(const struct plan *plan, const char *directory);

#endif
