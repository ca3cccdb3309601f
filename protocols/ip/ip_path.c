/* ip_path.c - see ip_path.h. It is searched when a session is made and when somebody reports a fault, not on a message's way. */
#include "protocols/ip/ip_path.h"

#include <errno.h>
#include <stdlib.h>

int
ip_paths_init(struct ip_paths *paths, uint32_t size)
{
	*paths = (struct ip_paths){ .path = calloc(size, sizeof(struct ip_path)), .size = size };
	return paths->path == NULL ? -ENOMEM : 0;
}

void
ip_paths_fini(struct ip_paths *paths)
{
	free(paths->path);
	*paths = (struct ip_paths){ .path = NULL };
}

static struct ip_path *
ip_paths_lookup(const struct ip_paths *paths, uint32_t host)
{
	for (uint32_t i = 0; i < paths->size; i++)
		if (paths->path[i].mtu != 0 && paths->path[i].host == host)
			return &paths->path[i];
	return NULL;
}

uint32_t
ip_paths_find(const struct ip_paths *paths, uint32_t host)
{
	const struct ip_path *path = paths->count == 0 ? NULL : ip_paths_lookup(paths, host);

	return path == NULL ? 0 : path->mtu;
}

/* A free one, or else the oldest. */
static struct ip_path *
ip_paths_room(struct ip_paths *paths)
{
	struct ip_path *oldest = paths->path;

	for (uint32_t i = 0; i < paths->size; i++) {
		struct ip_path *path = &paths->path[i];

		if (path->mtu == 0)
			return path;
		if (paths->tick - path->born > paths->tick - oldest->born)
			oldest = path;
	}
	return oldest;
}

uint32_t
ip_paths_set(struct ip_paths *paths, uint32_t host, uint32_t mtu)
{
	struct ip_path *path = ip_paths_lookup(paths, host);
	uint32_t forgotten = 0;

	if (path == NULL) {
		path = ip_paths_room(paths);
		if (path->mtu == 0)
			paths->count++;
		else
			forgotten = path->host;
	}
	*path = (struct ip_path){ host, mtu, paths->tick };
	return forgotten;
}

uint32_t
ip_paths_forget(struct ip_paths *paths)
{
	for (uint32_t i = 0; i < paths->size; i++) {
		struct ip_path *path = &paths->path[i];

		if (path->mtu == 0 || paths->tick - path->born <= IP_PATH_TICKS)
			continue;
		path->mtu = 0;
		paths->count--;
		return path->host;
	}
	return 0;
}

uint32_t
ip_path_plateau(uint32_t length)
{
	static const uint32_t plateaus[] = { 65535, 32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68 };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(plateaus); i++)
		if (plateaus[i] < length)
			return plateaus[i];
	return plateaus[XK_ARRAY_LENGTH(plateaus) - 1];
}
