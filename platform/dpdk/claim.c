/*
 * claim.c - claims, each of which only one process may hold.
 *
 * A claim is a lock on one byte of a file. The system drops it when the process ends, however it ends. The file lies in
 * a directory that only this user can write to: if claims were names that anyone can take, such as abstract sockets,
 * any user could keep root's host from starting.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"
#include "platform/private.h"

enum { DPDK_CLAIMS_PATH = DPDK_SOCKET_PATH + 16 };

/* Writes the path of the file of claims, and creates its directory if needed. Returns 0 or -errno. */
static int
dpdk_claims_path(char path[DPDK_CLAIMS_PATH])
{
	char directory[DPDK_SOCKET_PATH], why[XK_DPDK_WHY];
	int error = private_fixed_directory(directory, sizeof(directory), why, sizeof(why));

	snprintf(path, DPDK_CLAIMS_PATH, "%s/claims", directory);
	return error;
}

/* Opens the file of claims. Returns a descriptor or -errno. */
static int
dpdk_claims_open(int flags)
{
	char path[DPDK_CLAIMS_PATH];
	int error = dpdk_claims_path(path), fd = -1;

	if (error == 0)
		fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	return error != 0 ? error : fd < 0 ? -errno : fd;
}

/* Returns the lock that represents `what`: a byte chosen by its hash. */
static struct flock
dpdk_claim_of(const char *what)
{
	return (struct flock){ .l_type = F_WRLCK, .l_start = (off_t)(dpdk_hash(what) >> 2), .l_len = 1 };
}

/* Returns true if a process has the claim. A process that removes the file locks all of it, which is no claim. */
static bool
dpdk_claim_is_held(int fd, struct flock claim)
{
	return fcntl(fd, F_OFD_GETLK, &claim) == 0 && claim.l_type != F_UNLCK && claim.l_len == 1;
}

/* Takes the claim. Returns 0 or -errno; -EAGAIN: the file is being removed, so open it again. */
static int
dpdk_claim_take(int fd, struct flock claim)
{
	struct stat status;

	if (fcntl(fd, F_OFD_SETLK, &claim) == 0)
		return fstat(fd, &status) == 0 && status.st_nlink > 0 ? 0 : -EAGAIN;
	if (errno != EAGAIN && errno != EACCES)
		return -errno;
	return dpdk_claim_is_held(fd, claim) ? -EADDRINUSE : -EAGAIN;
}

int
dpdk_claim(const char *what)
{
	int fd, error;

	do {
		fd = dpdk_claims_open(O_CREAT);
		error = fd < 0 ? fd : dpdk_claim_take(fd, dpdk_claim_of(what));
		if (error != 0 && fd >= 0)
			close(fd);
	} while (error == -EAGAIN);
	return error == 0 ? fd : error;
}

bool
dpdk_is_claimed(const char *what)
{
	int fd = dpdk_claims_open(0);
	bool held = fd >= 0 && dpdk_claim_is_held(fd, dpdk_claim_of(what));

	if (fd >= 0)
		close(fd);
	return held;
}

/* Removes the file with the last claim. */
void
dpdk_unclaim(int fd)
{
	struct flock all = { .l_type = F_WRLCK };
	char path[DPDK_CLAIMS_PATH];

	if (fd < 0)
		return;
	if (fcntl(fd, F_OFD_SETLK, &all) == 0 && dpdk_claims_path(path) == 0)
		unlink(path);
	close(fd);
}
