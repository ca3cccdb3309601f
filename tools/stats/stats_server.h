/*
 * stats_server.h - offers the counts of a host that runs (stats_client.h). A thread of its own, which sleeps while nobody asks,
 * reads what is atomic and holds nothing that a driver waits for.
 */
#ifndef STATS_SERVER_H
#define STATS_SERVER_H

#include <stdio.h>

#include "tools/host/host.h"

struct stats_server;

/*
 * Begins for a host that has started, under a name made of its graph and this process's number. Sockets that hosts left
 * behind which were killed are removed. 0 or -errno, and a sentence in why. Main thread.
 */
int stats_server_start(struct host *host, struct stats_server **server, char *why, size_t size);

/* Before the host ends. NULL is let through. */
void stats_server_stop(struct stats_server *server);

/* The host's name, for `xk stats`. */
const char *stats_server_name(const struct stats_server *server);

/* Edges are counted for this many seconds from now on, or as long as they are anyway. NULL is let through. Any thread. */
void stats_server_count(struct stats_server *server, unsigned seconds);

/* Counts at the first of two looks, in the order of the tables. Zero before it; counts is for free. */
struct stats_before {
	uint64_t *counts;
	size_t count;
	uint64_t at_ns;
};

struct stats_about {
	const char *name;
	uint64_t now_ns;     /* a clock that begins anywhere */
	uint64_t counted_ns; /* for so long edges have been counted */
	struct stats_before *before;
};

/*
 * Write what a host tells (stats_tell.c): the document; tables, with rates since the look that about->before holds, which
 * holds this one then; a row for a list. False: no memory, or out has failed. Any thread, while the host runs.
 */
bool stats_tell_document(const struct host *host, const struct stats_about *about, FILE *out);
bool stats_tell_tables(const struct host *host, const struct stats_about *about, FILE *out);
bool stats_tell_line(const struct host *host, const struct stats_about *about, FILE *out);

#endif
