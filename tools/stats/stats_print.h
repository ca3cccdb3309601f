/* stats_print.h - what a running host has counted, in words. */
#ifndef STATS_TELL_H
#define STATS_TELL_H

#include <stdio.h>

#include "tools/host/host.h"

/* Counts at the first of two looks, in the order of the tables: zeroed before it. The caller frees counts. */
struct stats_before {
	uint64_t *counts;
	size_t count;
	uint64_t at_ns;
};

struct stats_about {
	const char *name;
	uint64_t now_ns;     /* a clock that begins anywhere */
	uint64_t counted_ns; /* how long edges have been counted */
	struct stats_before *before;
};

/*
 * Writes a host's counts: as the document; as tables, with rates since the look in about->before, which
 * this look replaces; as a row for a list. False: no memory, or out has failed. Any thread, while the host runs.
 */
bool stats_print_document(const struct host *host, const struct stats_about *about, FILE *out);
bool stats_print_tables(const struct host *host, const struct stats_about *about, FILE *out);
bool stats_print_line(const struct host *host, const struct stats_about *about, FILE *out);

#endif
