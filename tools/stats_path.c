/* stats_path.c - see stats.h. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/stats.h"

/* Whether path is a directory of this user's, where no other can write. */
static bool
stats_is_private(const char *path)
{
	struct stat status;

	return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
	       (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

int
stats_directory(char *path, size_t size, bool make, char *why, size_t why_size)
{
	const char *given = getenv("XDG_RUNTIME_DIR");

	if (given != NULL && given[0] == '/' && strlen(given) < size && stats_is_private(given)) {
		strcpy(path, given);
		return 0;
	}
	snprintf(path, size, "/tmp/xk-%u", (unsigned)geteuid());
	if (make && mkdir(path, 0700) != 0 && errno != EEXIST) {
		int error = -errno;

		snprintf(why, why_size, "%s cannot be made: %s", path, strerror(errno));
		return error;
	}
	if (access(path, F_OK) != 0) {
		snprintf(why, why_size, "%s: %s", path, strerror(errno));
		return -ENOENT;
	}
	if (stats_is_private(path))
		return 0;
	snprintf(why, why_size, "%s is not a directory of yours alone", path);
	return -EACCES;
}

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
stats_address(const char *directory, const char *name, struct sockaddr_un *address)
{
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	return (size_t)snprintf(address->sun_path, sizeof(address->sun_path), "%s/" STATS_PREFIX "%s" STATS_SUFFIX,
				directory, name) < sizeof(address->sun_path);
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
