/* stats_client.c - see stats_client.h. */
#define _GNU_SOURCE
#include "tools/stats/stats_client.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "platform/private.h"
#include "xkernel/base.h"

enum { STATS_PATH = 256, STATS_PATIENCE_S = 5, STATS_CHUNK = 64 * 1024 };

/* ---- names ---- */

bool
stats_is_name(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]) && strchr("_-.", name[i]) == NULL)
			return false;
	return len > 0 && len < STATS_NAME;
}

bool
stats_name_of(const char *file, char name[STATS_NAME])
{
	size_t len = strlen(file), before = strlen(STATS_PREFIX), after = strlen(STATS_SUFFIX);

	if (len <= before + after || len - before - after >= STATS_NAME || strncmp(file, STATS_PREFIX, before) != 0 ||
	    strcmp(file + len - after, STATS_SUFFIX) != 0)
		return false;
	memcpy(name, file + before, len - before - after);
	name[len - before - after] = '\0';
	return stats_is_name(name);
}

int
stats_address(const char *name, bool make, struct sockaddr_un *address, char *why, size_t size)
{
	char directory[STATS_PATH];
	int err = private_directory(directory, sizeof(directory), make, why, size);

	if (err != 0)
		return err;
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if ((size_t)snprintf(address->sun_path, sizeof(address->sun_path), "%s/" STATS_PREFIX "%s" STATS_SUFFIX,
			     directory, name) < sizeof(address->sun_path))
		return 0;
	snprintf(why, size, "the path of a socket in %s is too long", directory);
	return -ENAMETOOLONG;
}

/* ---- all hosts ---- */

/*
 * Returns true if the host runs. Never waits. A socket that refuses was a killed host's, because a live host listens
 * before its socket gets its name.
 */
static bool
stats_is_running(const char *name)
{
	struct sockaddr_un address;
	char why[STATS_WHY];
	int err = stats_address(name, false, &address, why, sizeof(why));

	if (err == 0)
		err = private_probe(address.sun_path, SOCK_STREAM);
	if (err == -ECONNREFUSED)
		unlink(address.sun_path);
	return err == 0 || err == -EAGAIN;
}

static int
stats_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

int
stats_list(struct stats_hosts *hosts, char *why, size_t size)
{
	char directory[STATS_PATH], *name;
	int err = private_directory(directory, sizeof(directory), false, why, size);
	struct dirent *entry;
	DIR *entries;

	hosts->count = 0;
	if (err != 0)
		return err == -ENOENT ? 0 : err;
	entries = opendir(directory);
	if (entries == NULL) {
		snprintf(why, size, "the directory of running hosts, %s, cannot be read: %s", directory,
			 xk_error(errno));
		return -errno;
	}
	while ((entry = readdir(entries)) != NULL && hosts->count < STATS_HOSTS) {
		name = hosts->names[hosts->count];
		if (stats_name_of(entry->d_name, name) && stats_is_running(name))
			hosts->count++;
	}
	closedir(entries);
	qsort(hosts->names, hosts->count, sizeof(hosts->names[0]), stats_compare);
	return 0;
}

int
stats_choose(const struct stats_hosts *hosts, const char *wanted, const char **name, char *why, size_t size)
{
	unsigned meant = 0;

	for (unsigned i = 0; i < hosts->count; i++) {
		const char *host = hosts->names[i], *dash = strrchr(host, '-');

		if (wanted == NULL || strncmp(host, wanted, strlen(wanted)) == 0 ||
		    (dash != NULL && strcmp(dash + 1, wanted) == 0)) {
			*name = host;
			meant++;
			if (wanted != NULL && strcmp(host, wanted) == 0)
				return 0;
		}
	}
	if (meant == 1)
		return 0;
	if (hosts->count == 0)
		snprintf(why, size, "no host runs here: start one with `xk run GRAPH`");
	else if (meant == 0)
		snprintf(why, size, "no host is called %.40s: `xk stats --list` lists the running hosts", wanted);
	else
		snprintf(why, size, "%u hosts match: `xk stats --list` lists them", meant);
	return meant == 0 ? -ENOENT : -ENOTUNIQ;
}

/* ---- one host ---- */

/* Reads the answer, up to about STATS_DOCUMENT bytes. Returns 0 or -errno. */
static int
stats_read(int fd, char **text)
{
	size_t size = 0, len = 0;
	ssize_t got;

	do {
		if (size - len < 1) {
			char *grown = len > STATS_DOCUMENT ? NULL : realloc(*text, size += STATS_CHUNK + size);

			if (grown == NULL)
				return len > STATS_DOCUMENT ? -EMSGSIZE : -ENOMEM;
			*text = grown;
		}
		got = read(fd, *text + len, size - len);
		if (got < 0)
			return -errno;
		len += (size_t)got;
	} while (got > 0);
	return len == 0 || (*text)[len - 1] != '\0' ? -ECONNRESET : 0;
}

static int
stats_ask_at(const struct sockaddr_un *address, const char *form, unsigned period_ms, char **text)
{
	struct timeval patience = { .tv_sec = STATS_PATIENCE_S + period_ms / 1000 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), err = 0;
	char request[STATS_REQUEST];
	size_t asked = (size_t)snprintf(request, sizeof(request), "%s %u\n", form, period_ms);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0)
		err = -errno;
	else if (send(fd, request, asked, MSG_NOSIGNAL) != (ssize_t)asked)
		err = -EPIPE;
	else
		err = stats_read(fd, text);
	close(fd);
	return err;
}

int
stats_ask(const char *name, const char *form, unsigned period_ms, char **text, char *why, size_t size)
{
	struct sockaddr_un address;
	int err = stats_address(name, false, &address, why, size);

	*text = NULL;
	if (err != 0)
		return err;
	err = stats_ask_at(&address, form, period_ms, text);
	if (err == 0)
		return 0;
	snprintf(why, size, "%s: %s", name,
		 err == -EAGAIN       ? "it does not answer"
		 : err == -ECONNRESET ? "it ended or hung up in the middle of its answer"
				      : xk_error(err));
	free(*text);
	*text = NULL;
	return err;
}
