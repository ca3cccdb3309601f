/*
 * bench.h - the benchmarks of `xk bench`: their common options, hosts in memory composed from a graph file, reports.
 *
 * A benchmark's struct begins with a struct bench, and its option tables fill it.
 */
#ifndef BENCH_H
#define BENCH_H

#include "platform/sim/memory.h"
#include "tools/json.h"
#include "tools/options.h"
#include "xkernel/kernel.h"

enum { BENCH_HOSTS = 2, BENCH_COUNTS = 6, BENCH_DRIVERS = 8 };

struct bench {
	/* options: those of bench_options, and those that each benchmark lists in its own table */
	const char *graph, *json;
	struct options_texts sets;
	bool compiled, alone;
	unsigned no_paths; /* index in options_yes_no */
	uint64_t size, rounds;
	uint64_t mtu; /* of the ports; 0: 1500 */

	const struct bench_kind *kind;
	uint64_t drivers;                             /* of each host; 0: 1 */
	struct xk_platform *platforms[BENCH_DRIVERS]; /* of the drivers */
	struct xk_kernel *kernels[BENCH_HOSTS];       /* NULL: none */
	/* at the start and the end of the counted rounds */
	struct xk_kernel_stats before[BENCH_HOSTS], after[BENCH_HOSTS];
};

struct bench_kind {
	const struct options_program *program;
	const char *command; /* after `xk bench` */
	const char *graph;   /* default; NULL: the benchmark has no graph */
	/* Runs and reports. Returns the exit status; unless it is 0, after a message. */
	int (*run)(struct bench *bench);
	void (*write)(const struct bench *bench, struct json *json); /* the document's own keys */
	void (*print)(const struct bench *bench);                    /* on standard output */
};

/* Options for a program's `shared`, of benchmarks with a graph: --compiled, --graph, --set, --paths, --json. */
extern const struct options_option bench_options[];

/*
 * Parses the options into the benchmark's struct, which contains only the defaults, and runs it, in a compiled program
 * if requested. Returns the exit status.
 */
int bench_main(const struct bench_kind *kind, struct bench *bench, int argc, char **argv);

struct bench_host {
	const char *name;
	uint64_t link;                /* its port's address */
	const char *address;          /* setting, before the user's, for graphs with a vnet */
	const char *policy;           /* the same, for any graph; NULL: none */
	const char *test;             /* the protocol that the benchmark drives; NULL: none */
	unsigned sessions;            /* number of passively opened sessions for which limits are raised */
	struct xk_platform *platform; /* its single driver's; NULL: bench->platforms, shared by all hosts */
	xk_memory_receive *receive;
	xk_memory_transmit *transmit;
	void *contexts[BENCH_DRIVERS]; /* for the drivers' lanes of the port */
};

/*
 * Creates bench->kernels[which]: a host in IPP mode, whose drivers poll a port with these ends, pinned to cores if
 * there are several. Returns false, after a message, if its graph was refused. The caller frees the kernel.
 */
bool bench_host_open(struct bench *bench, unsigned which, const struct bench_host *host);

/* Gets the counts of all kernels. */
void bench_take_stats(const struct bench *bench, struct xk_kernel_stats stats[BENCH_HOSTS]);

/* The counts of a kernel that benchmarks report per round. */
extern const struct xk_kernel_count bench_counts[BENCH_COUNTS];

/* Returns the growth of a count per round, over all hosts. */
double bench_per_round(const struct bench *bench, const struct xk_kernel_count *count);

/* Writes the object `key` with the first `count` of bench_counts per round. */
void bench_json_counts(const struct bench *bench, struct json *json, const char *key, unsigned count);

/*
 * Writes the JSON, if requested, and calls kind->print unless that goes to standard output. Returns 0, or
 * OPTIONS_FAILURE after a message.
 */
int bench_report(const struct bench *bench);

/* The commands of `xk bench`. */
int xk_bench_main(int argc, char **argv);
int bench_echo_main(int argc, char **argv);
int bench_call_main(int argc, char **argv);
int bench_copy_main(int argc, char **argv);
int bench_handoff_main(int argc, char **argv);
int bench_message_main(int argc, char **argv);
int bench_sim_main(int argc, char **argv);

#endif
