/*
 * bench.h - what the benchmarks of `xk bench` share: kernels composed of a graph file, and the report.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/options.h"
#include "xkernel/kernel.h"

struct bench_graph {
	const char *program, *file;
	const char *address, *policy; /* settings before the user's: where there is a vnet; NULL: none */
	const struct options_texts *sets;
	const char *test;  /* the protocol that the benchmark drives, which must be there; NULL: none */
	unsigned sessions; /* whatever keeps sessions of its own accord keeps one for each of so many peers */
};

/* Composes and initialises kernel, which has its ports. False: refused, and said why. */
bool bench_compose(struct xk_kernel *kernel, const struct bench_graph *graph);

struct bench_report {
	const char *program, *json; /* the file, - for standard output, or NULL */
	bool (*write_json)(const void *bench, FILE *out);
	void (*tell)(const void *bench); /* on standard output, unless that is for JSON */
};

/* False: it could not be written, and said why. */
bool bench_report(const struct bench_report *report, const void *bench);

#endif
