/*
 * stats_server.h - offers the counts of a running host (stats_client.h). Its thread sleeps between requests, reads only
 * atomics and holds nothing that a driver waits for.
 */
#ifndef STATS_SERVER_H
#define STATS_SERVER_H

#include <stdio.h>

#include "tools/host/host.h"

struct stats_about;
struct stats_server;

/*
 * Starts the server of a started host, under a name made from its graph and this process's number, and removes the
 * sockets of killed hosts. Returns 0, or -errno with the reason in why. Main thread.
 */
int stats_server_start(struct host *host, struct stats_server **server, char *why, size_t size);

/* Stops the server, before the host ends. Ignores NULL. */
void stats_server_stop(struct stats_server *server);

/* Fills in *about but for `before`, as of now; the name is valid as long as the server. Any thread. */
void stats_server_about(struct stats_server *server, struct stats_about *about);

/* Counts edges for at least `seconds` from now on. Ignores NULL. Any thread. */
void stats_server_count(struct stats_server *server, unsigned seconds);

#endif
