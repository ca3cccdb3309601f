/* private.c - see private.h. */
#include "platform/private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "xkernel/base.h"

/* Maximum for a directory of sockets, whose full paths have at most 107 characters. */
enum { PRIVATE_LONGEST = 60 };

/* Returns true if path is a directory of this user that this process can write to and no other user can. */
static bool
private_is(const char *path)
{
	struct stat status;

	return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
	       (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 && access(path, W_OK | X_OK) == 0;
}

/* Checks path, after creating it if `make` is set. Returns 0, or -errno with the reason in why. */
static int
private_make(const char *path, bool make, char *why, size_t size)
{
	int error = make && mkdir(path, 0700) != 0 && errno != EEXIST ? -errno : 0;

	if (error != 0) {
		snprintf(why, size, "%s cannot be created (%s)", path, xk_error(error));
		return error;
	}
	if (private_is(path))
		return 0;
	error = access(path, F_OK) != 0 ? -errno : -EACCES;
	if (error == -ENOENT)
		snprintf(why, size, "%s: %s", path, xk_error(error));
	else
		snprintf(why, size, "%s is not a directory of yours alone", path);
	return error;
}

int
private_directory(char *path, size_t size, bool make, char *why, size_t why_size)
{
	const char *given = getenv("XDG_RUNTIME_DIR");

	if (given != NULL && given[0] == '/' && strlen(given) < size && strlen(given) <= PRIVATE_LONGEST &&
	    private_is(given)) {
		strcpy(path, given);
		return 0;
	}
	snprintf(path, size, "/tmp/xk-%u", (unsigned)geteuid());
	return private_make(path, make, why, why_size);
}

int
private_probe(const char *path, int type)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err = 0;

	if (fd < 0)
		return -errno;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
		err = -errno;
	close(fd);
	return err;
}

void
private_dpdk_directory(char *path, size_t size)
{
	const char *given = getenv("XDG_RUNTIME_DIR");

	snprintf(path, size, "%s/dpdk/rte", getuid() == 0 ? "/var/run" : given != NULL ? given : "/tmp");
}

int
private_fixed_directory(char *path, size_t size, char *why, size_t why_size)
{
	snprintf(path, size, geteuid() == 0 ? "/run/xk" : "/tmp/xk-%u", (unsigned)geteuid());
	return private_make(path, true, why, why_size) == 0 ? 0 : private_directory(path, size, true, why, why_size);
}
