/* xk_run_private.h - shared by the files of `xk run`. Main thread only. */
#ifndef XK_RUN_PRIVATE_H
#define XK_RUN_PRIVATE_H

#include "tools/host/host_options.h"

struct run_options {
	struct host_common common;
	struct host_single single;
	const char *until, *show;
	struct options_numbers seeds; /* as given: none or one */
	uint64_t until_ns, seed;
	unsigned end; /* the host's end of its links: PAIR_CLIENT, PAIR_SERVER; PAIR_ENDS: not given */
	bool quiet, telemetry;
};

extern const struct options_program run_program;

/* xk_run_net.c: runs a network file in the simulator. Returns the status to exit with. */
int run_network_main(const struct run_options *options, const char *file);

/* xk_run_host.c: runs one host on `link` until a signal comes. Returns the status to exit with. */
int run_host_main(const struct run_options *options, const char *file, const struct host_link *link);

/*
 * xk_run_table.c: a table of counts, with a column for each host or link and a row for each count. Rows keep the order
 * that the counts have in each column. An empty table is all zero; its rows are freed by who made it.
 */
enum { RUN_COLUMNS = 20, RUN_NAME = 160 };

struct run_table {
	struct run_row {
		char name[RUN_NAME];
		uint64_t counts[RUN_COLUMNS];
	} * rows;
	const char *heads[RUN_COLUMNS];
	unsigned row_count, columns, next_row;
	bool no_memory;
};

/* Adds a column, of which there are at most RUN_COLUMNS. The head stays the caller's. */
void run_table_column(struct run_table *table, const char *head);

/* Adds a count to the last column of the struct run_table at `to`. Sets no_memory instead if there is none. */
void run_table_tell(void *to, const char *name, uint64_t count);

/*
 * Prints the rows that are not zero everywhere. Unless show is NULL, prints only rows whose node is in the list
 * "NODE,NODE..." show. A row's node is the part of its name before the dot, or `own` without a dot.
 */
void run_table_print(const struct run_table *table, const char *own, const char *show, FILE *out);

/* Returns whether `word`, of len bytes, is the node of some row. */
bool run_table_has(const struct run_table *table, const char *word, size_t len);

#endif
