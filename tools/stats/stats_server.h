/*
 * stats_server.h - offers the counts of a running host (stats_client.h). Its thread sleeps while nobody asks, reads
 * only atomics and holds nothing that a driver waits for.
 */
#ifndef STATS_SERVER_H
#define STATS_SERVER_H

#include <stdio.h>

#include "tools/host/host.h"

struct stats_server;

/*
 * Starts the server of a started host, under a name made of its graph and this process's number, and removes the
 * sockets of killed hosts. Returns 0, or -errno and why. Main thread.
 */
int stats_server_start(struct host *host, struct stats_server **server, char *why, size_t size);

/* Stops it; before the host ends. Does nothing for NULL. */
void stats_server_stop(struct stats_server *server);

/* Counts edges for at least so many seconds from now on. Does nothing for NULL. Any thread. */
void stats_server_count(struct stats_server *server, unsigned seconds);

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
 * Writes a host's counts (stats_tell.c): as the document; as tables, with rates since the look in about->before, which
 * this look replaces; as a row for a list. False: no memory, or out has failed. Any thread, while the host runs.
 */
bool stats_tell_document(const struct host *host, const struct stats_about *about, FILE *out);
bool stats_tell_tables(const struct host *host, const struct stats_about *about, FILE *out);
bool stats_tell_line(const struct host *host, const struct stats_about *about, FILE *out);

#endif
