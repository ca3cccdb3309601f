/* stats_client.h - asks hosts for their counts (stats.h). */
#ifndef STATS_CLIENT_H
#define STATS_CLIENT_H

#include "tools/stats.h"

enum { STATS_HOSTS = 256, STATS_WHY = 400 };

struct stats_hosts {
	unsigned count;
	char names[STATS_HOSTS][STATS_NAME];
};

/* The hosts that answer, by name. 0 or -errno, and why. */
int stats_list(struct stats_hosts *hosts, char *why, size_t size);

/*
 * The host that is meant by `wanted`: its name, or the beginning or the number at the end of one host's alone; NULL: the only one. 0;
 * -ENOENT, -ENOTUNIQ and a sentence.
 */
int stats_choose(const struct stats_hosts *hosts, const char *wanted, const char **name, char *why, size_t size);

/*
 * The document of the host called name, for free; edges are counted for `seconds` from now on. 0 and *text, *len (a zero byte
 * follows); or -errno, and why.
 */
int stats_ask(const char *name, unsigned seconds, char **text, size_t *len, char *why, size_t size);

/*
 * The document of the host called name as it is after interval_ns, for which its edges have been counted. As stats_ask.
 */
int stats_gather(const char *name, uint64_t interval_ns, char **text, size_t *len, char *why, size_t size);

/* As stats_ask, of a file. */
int stats_load(const char *file, char **text, size_t *len, char *why, size_t size);

#endif
