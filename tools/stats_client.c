/* stats_client.c - see stats_client.h. */
#define _GNU_SOURCE
#include "tools/stats_client.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "platform/private.h"

enum { CLIENT_PATIENCE_S = 5, CLIENT_CHUNK = 64 * 1024 };

#define CLIENT_SECOND_NS UINT64_C(1000000000)

/* ---- one host ---- */

/* A socket that is connected to the host, or -errno. */
static int
client_connect(const struct sockaddr_un *address)
{
	struct timeval patience = { .tv_sec = CLIENT_PATIENCE_S };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), error;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

/* All that comes, at most STATS_DOCUMENT bytes, and a zero byte. 0 or -errno. */
static int
client_read(int fd, char **text, size_t *len)
{
	size_t size = 0;
	char *grown;
	ssize_t got;

	*text = NULL;
	*len = 0;
	do {
		if (size - *len < 2) {
			size += CLIENT_CHUNK + size;
			grown = *len > STATS_DOCUMENT ? NULL : realloc(*text, size);
			if (grown == NULL)
				return *len > STATS_DOCUMENT ? -EMSGSIZE : -ENOMEM;
			*text = grown;
		}
		got = read(fd, *text + *len, size - *len - 1);
		if (got < 0)
			return -errno;
		*len += (size_t)got;
	} while (got > 0);
	(*text)[*len] = '\0';
	return *len == 0 ? -ECONNRESET : 0;
}

static int
client_ask(int fd, unsigned seconds, char **text, size_t *len)
{
	char request[STATS_REQUEST];
	size_t asked = (size_t)snprintf(request, sizeof(request), "stats %u\n", seconds);

	if (send(fd, request, asked, MSG_NOSIGNAL) != (ssize_t)asked)
		return -EPIPE;
	return client_read(fd, text, len);
}

int
stats_ask(const char *name, unsigned seconds, char **text, size_t *len, char *why, size_t size)
{
	char directory[STATS_PATH];
	struct sockaddr_un address;
	int error = private_directory(directory, sizeof(directory), false, why, size), fd;

	*text = NULL;
	if (error != 0)
		return error;
	if (!stats_address(directory, name, &address)) {
		snprintf(why, size, "%s: the path is too long", directory);
		return -ENAMETOOLONG;
	}
	fd = client_connect(&address);
	error = fd < 0 ? fd : client_ask(fd, seconds, text, len);
	if (fd >= 0)
		close(fd);
	if (error == 0)
		return 0;
	snprintf(why, size, "%s: %s", name, error == -EAGAIN ? "it does not answer" : strerror(-error));
	free(*text);
	*text = NULL;
	return error;
}

int
stats_gather(const char *name, uint64_t interval_ns, char **text, size_t *len, char *why, size_t size)
{
	unsigned seconds = (unsigned)(interval_ns / CLIENT_SECOND_NS) + 2;
	struct timespec rest = { .tv_sec = (time_t)(interval_ns / CLIENT_SECOND_NS),
				 .tv_nsec = (long)(interval_ns % CLIENT_SECOND_NS) };
	int error = stats_ask(name, seconds, text, len, why, size);

	if (error != 0)
		return error;
	free(*text);
	while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
		;
	return stats_ask(name, 0, text, len, why, size);
}

int
stats_load(const char *file, char **text, size_t *len, char *why, size_t size)
{
	FILE *stream = fopen(file, "re");
	int error = stream == NULL ? -errno : client_read(fileno(stream), text, len);

	if (stream != NULL)
		fclose(stream);
	else
		*text = NULL;
	if (error == 0)
		return 0;
	snprintf(why, size, "%s cannot be read: %s", file, error == -ECONNRESET ? "it is empty" : strerror(-error));
	free(*text);
	*text = NULL;
	return error;
}

/* ---- all of them ---- */

static bool
client_answers(const char *directory, const char *name)
{
	struct sockaddr_un address;
	int fd = stats_address(directory, name, &address) ? client_connect(&address) : -1;

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

static int
client_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

int
stats_list(struct stats_hosts *hosts, char *why, size_t size)
{
	char directory[STATS_PATH], *name;
	int error = private_directory(directory, sizeof(directory), false, why, size);
	struct dirent *entry;
	DIR *entries;

	hosts->count = 0;
	if (error != 0)
		return error == -ENOENT ? 0 : error;
	entries = opendir(directory);
	if (entries == NULL) {
		snprintf(why, size, "%s: %s", directory, strerror(errno));
		return -errno;
	}
	while ((entry = readdir(entries)) != NULL && hosts->count < STATS_HOSTS) {
		name = hosts->names[hosts->count];
		if (stats_name_of(entry->d_name, name) && client_answers(directory, name))
			hosts->count++;
	}
	closedir(entries);
	qsort(hosts->names, hosts->count, sizeof(hosts->names[0]), client_compare);
	return 0;
}

static bool
client_is_meant(const char *name, const char *wanted)
{
	const char *dash = strrchr(name, '-');

	return strncmp(name, wanted, strlen(wanted)) == 0 || (dash != NULL && strcmp(dash + 1, wanted) == 0);
}

int
stats_choose(const struct stats_hosts *hosts, const char *wanted, const char **name, char *why, size_t size)
{
	unsigned meant = 0;

	for (unsigned i = 0; i < hosts->count; i++) {
		if (wanted != NULL && strcmp(hosts->names[i], wanted) == 0) {
			*name = hosts->names[i];
			return 0;
		}
		if (wanted == NULL || client_is_meant(hosts->names[i], wanted)) {
			*name = hosts->names[i];
			meant++;
		}
	}
	if (meant == 1)
		return 0;
	if (hosts->count == 0)
		snprintf(why, size, "no host runs here: start one with `xk run GRAPH`");
	else if (meant == 0)
		snprintf(why, size, "no host is called %.40s: `xk stats --list` lists those that run", wanted);
	else
		snprintf(why, size, "%u hosts may be meant: `xk stats --list` lists them", meant);
	return meant == 0 ? -ENOENT : -ENOTUNIQ;
}
