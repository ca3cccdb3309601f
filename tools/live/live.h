/*
 * live.h - what a running host shows of itself to browsers, by a protocol that serves pages (http): its graph with live
 * counts ("/"), the document of `xk stats --json` ("/stats.json"), and the same for Prometheus ("/metrics").
 *
 * live_new, live_pages for the host's options, live_draw when the host is open, live_begin when it has started, live_end
 * before it ends, live_free. Main thread.
 */
#ifndef LIVE_H
#define LIVE_H

#include <stdbool.h>

struct host;
struct live;
struct stats_server;
struct xk_pages;

/* Ends the process if memory is exhausted. */
struct live *live_new(void);
void live_free(struct live *live);

struct xk_pages *live_pages(struct live *live);

/* Draws the host's graph, if it has a protocol that serves pages; prints a message if that cannot be done. */
void live_draw(struct live *live, const struct host *host, const char *program);

/* From now to live_end, there are pages. server: counts edges while they are being asked for; NULL: nobody does. */
void live_begin(struct live *live, const struct host *host, struct stats_server *server);
void live_end(struct live *live);

#endif
