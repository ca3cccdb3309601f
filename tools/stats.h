/*
 * stats.h - where hosts that run offer their counts, and what is asked there.
 *
 * A host listens at a socket of its own in the user's run-time directory (platform/private.h):
 * xkstats-NAME.sock. Who connects writes a line, "stats SECONDS", and reads a JSON document until its end (stats_tell.c
 * writes it, stats_read.c reads it). Messages and times at edges are counted from then on for so many seconds; with 0
 * nothing changes.
 */
#ifndef STATS_H
#define STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

enum {
	STATS_NAME = 64,          /* of a host, with its end */
	STATS_REQUEST = 32,       /* the longest line that is asked */
	STATS_SECONDS_MAX = 60,   /* that edges are counted for one request */
	STATS_DOCUMENT = 8 << 20, /* the longest answer */
	STATS_PATH = 256,         /* of a directory */
};

#define STATS_PREFIX "xkstats-"
#define STATS_SUFFIX ".sock"

/* Whether name may be a host's: letters, digits, '_', '-', '.'; not too long. */
bool stats_is_name(const char *name);

/* The address of the host called name. False: the path is too long. */
bool stats_address(const char *directory, const char *name, struct sockaddr_un *address);

/* The host's name in what its socket is called. False: it is no such socket. */
bool stats_name_of(const char *file, char name[STATS_NAME]);

#endif
