/* stats_print.h - prints the counts of a running host. */
#ifndef STATS_PRINT_H
#define STATS_PRINT_H

#include <stdio.h>

#include "tools/host/host.h"

/* Counts of the first of two samples, in the order of the tables: zeroed before it. The caller frees counts. */
struct stats_before {
	uint64_t *counts;
	size_t count;
	uint64_t at_ns;
};

struct stats_about {
	const char *name;
	uint64_t now_ns;     /* of a clock with any origin */
	uint64_t counted_ns; /* time for which edges have been counted */
	struct stats_before *before;
	bool is_one_of_many; /* metrics name the host: they may stand beside others' */
};

/*
 * Write a host's counts: as the document; as tables, with rates since the sample in about->before, which the new sample
 * replaces; as a row for a list. Return false without memory, or if out has failed. Any thread, while the host runs.
 */
bool stats_print_document(const struct host *host, const struct stats_about *about, FILE *out);
bool stats_print_tables(const struct host *host, const struct stats_about *about, FILE *out);
bool stats_print_line(const struct host *host, const struct stats_about *about, FILE *out);

#endif
