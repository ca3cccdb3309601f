/* xk_run_private.h - what the files of `xk run` share: its options, and the two things that it runs. For the main thread. */
#ifndef XK_RUN_PRIVATE_H
#define XK_RUN_PRIVATE_H

#include "tools/host/host_options.h"

struct run_options {
	struct host_common common;
	struct host_single single;
	const char *until, *show;
	struct options_numbers seeds; /* as given: none or one */
	uint64_t until_ns, seed;
	unsigned end; /* which end of its links the host is: PAIR_CLIENT, PAIR_SERVER; PAIR_ENDS: not given */
	bool quiet, telemetry;
};

extern const struct options_program run_program;

/* xk_run_net.c: a network file in the simulator. The status to exit with. */
int run_network_main(const struct run_options *options, const char *file);

/*
 * xk_run_table.c: a table of counts, with a column for each host or link and a row for each count. Rows keep the order
 * that the counts have in each column.
 */
struct run_table {
	struct run_row *rows;
	unsigned row_count, row_room, columns;
	unsigned column, next_row; /* where run_table_tell puts a count */
	bool no_memory;
};

struct run_row {
	char *name;
	uint64_t *counts; /* by column; RUN_ABSENT: the column has no such count */
};

#define RUN_ABSENT UINT64_MAX

/* Makes an empty table of so many columns. run_table_end frees what it holds. */
void run_table_begin(struct run_table *table, unsigned columns);
void run_table_end(struct run_table *table);

/* Chooses the column for the counts that run_table_tell adds from now on. */
void run_table_column(struct run_table *table, unsigned column);

/* Adds a count to the struct run_table at `to`. Without memory it sets no_memory instead. */
void run_table_tell(void *to, const char *name, uint64_t count);

/*
 * Prints the rows that are not zero everywhere. heads are the columns' names. Unless show is NULL, prints only rows
 * whose node is in the list "NODE,NODE..." show. A row's node is what precedes the dot in its name, or `own` without a
 * dot.
 */
void run_table_print(const struct run_table *table, const char *const *heads, const char *own, const char *show,
		     FILE *out);

/* Returns whether `word`, of len bytes, is the node of some row. */
bool run_table_has(const struct run_table *table, const char *word, size_t len);

/* xk_run_host.c: one host, which stands on `link` until a signal comes (pair_signals). The status to exit with. */
int run_host_main(const struct run_options *options, const char *file, const struct host_link *link);

#endif
