/* stats_path.c - see stats.h. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "tools/stats.h"

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
