/*
 * stats_client.h - finds running hosts that offer their counts, and asks them.
 *
 * A host listens at a socket of its own in the user's run-time directory (platform/private.h): xkstats-NAME.sock. A
 * client writes a line, and reads the answer to its end (stats_server.c, stats_print.c):
 *
 * stats SECONDS    the JSON document at once; edges are counted for SECONDS from now on (0: no change)
 * json MS          the same document after MS milliseconds, during which edges are counted
 * text MS          tables with the rates of that time
 * line MS          a row for a list of hosts
 * metrics MS       Prometheus' text format, after MS milliseconds
 *
 * All answers but the first end with a zero byte; without it, they are incomplete.
 */
#ifndef STATS_CLIENT_H
#define STATS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

enum {
	STATS_NAME = 64,          /* size of a host's name, with its NUL */
	STATS_REQUEST = 32,       /* longest request */
	STATS_SECONDS_MAX = 60,   /* maximum time that edges are counted after one request */
	STATS_PERIOD_MAX = 50000, /* longest period, in milliseconds */
	STATS_DOCUMENT = 8 << 20, /* longest answer */
	STATS_HOSTS = 256,
	STATS_WHY = 400,
};

#define STATS_PREFIX "xkstats-"
#define STATS_SUFFIX ".sock"

struct stats_hosts {
	unsigned count;
	char names[STATS_HOSTS][STATS_NAME];
};

/* Returns true if name may be a host's: letters, digits, '_', '-', '.'; not too long. */
bool stats_is_name(const char *name);

/* Extracts a host's name from the name of its socket. Returns false if file is not such a socket. */
bool stats_name_of(const char *file, char name[STATS_NAME]);

/*
 * Finds the address of the host called name. make: as in private_directory. Returns 0, or -errno with the reason in
 * why.
 */
int stats_address(const char *name, bool make, struct sockaddr_un *address, char *why, size_t size);

/*
 * Lists the running hosts by name, and removes sockets left by killed hosts. Returns 0, or -errno with the reason in
 * why.
 */
int stats_list(struct stats_hosts *hosts, char *why, size_t size);

/*
 * Finds the host that `wanted` means: a name, a prefix of only one name, or the number at the end of only one name;
 * NULL: the only host. Returns 0, or -ENOENT or -ENOTUNIQ with the reason in why.
 */
int stats_choose(const struct stats_hosts *hosts, const char *wanted, const char **name, char *why, size_t size);

/*
 * Requests a form (json, text, line, metrics) from a host. Returns 0 and *text, to be freed, or -errno with the reason in why.
 */
int stats_ask(const char *name, const char *form, unsigned period_ms, char **text, char *why, size_t size);

#endif
