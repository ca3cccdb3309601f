/*
 * bench.h - what the benchmarks of `xk bench` share: options, hosts in memory composed of a graph file, and the
 * report.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stdio.h>

#include "platform/sim/memory.h"
#include "tools/json.h"
#include "tools/options.h"
#include "xkernel/kernel.h"

/* First in the options of each benchmark of a graph, which are zeroed but for the defaults. */
struct bench_options {
	const char *program; /* "xk bench echo"; set by bench_main */
	const char *graph, *json;
	uint64_t size, rounds; /* table entries of the benchmark's own */
	struct options_texts sets;
	bool compiled;
};

/* All of these but size and rounds, for a program's `shared`. */
extern const struct options_option bench_options[];

struct bench_kind {
	const struct options_program *program;
	const char *word, *graph; /* after `xk bench`; where no graph is given */
	/* Runs and reports. False: something was wrong, after a message. */
	bool (*run)(const struct bench_options *options, struct xk_platform *platform);
};

/* Parses the options, goes on as a compiled program if that is asked for, and runs. Returns the status to exit with. */
int bench_main(const struct bench_kind *kind, struct bench_options *options, int argc, char **argv);

struct bench_host {
	const char *name;
	uint64_t link;       /* its port's address */
	const char *address; /* setting before the user's where there is a vnet */
	const char *policy;  /* the same, of any graph; NULL: none */
	const char *test;    /* the protocol that the benchmark drives; NULL: none */
	unsigned sessions;   /* limits of passively opened sessions are raised to keep so many */
	xk_memory_receive *receive;
	xk_memory_transmit *transmit;
	void *context;
};

/* Makes a host in IPP mode, whose driver polls a port with these ends. NULL: its graph was refused, after a message. */
struct xk_kernel *bench_host_new(const struct bench_options *options, struct xk_platform *platform,
				 const struct bench_host *host);

/* The counts of a kernel that benchmarks tell; a name NULL ends them. */
struct bench_count {
	const char *name;
	size_t offset; /* in struct xk_kernel_stats */
};
extern const struct bench_count bench_counts[];

/* Returns how much a count has grown for each round, over so many hosts. */
double bench_per_round(const struct bench_options *options, const struct bench_count *count,
		       const struct xk_kernel_stats *before, const struct xk_kernel_stats *after, unsigned hosts);

/* Opens the document of a benchmark of a graph, with what was measured; the caller closes it. */
void bench_json(struct json *json, const struct bench_options *options);

struct bench_report {
	const char *program, *json; /* a file, - for standard output, or NULL */
	bool (*write_json)(const void *bench, FILE *out);
	void (*tell)(const void *bench); /* on standard output, unless that is for JSON */
};

/* False: it could not be written, after a message. */
bool bench_report(const struct bench_report *report, const void *bench);

#endif
