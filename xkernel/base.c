/* base.c - the texts of errors, and the end of a program whose assertion failed. */
#include "xkernel/base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *
xk_error(int error)
{
	switch (error < 0 ? -error : error) {
	case EAGAIN:
		return "Resource temporarily unavailable: `ulimit -u` limits threads and processes, `ulimit -v` their "
		       "memory";
	case EBADF:
		return "Bad file descriptor: it is closed";
	case EFBIG:
		return "File too large: `ulimit -f` limits what a process may write";
	case EMFILE:
		return "Too many open files: `ulimit -n` limits them";
	case ENFILE:
		return "Too many open files in the system: fs.file-max limits them";
	case ENOMEM:
		return "Cannot allocate memory: free some, or raise `ulimit -v` or the container's limit";
	case ENOSPC:
		return "No space left on device: free some, or use another directory";
	case EPERM:
		return "Operation not permitted: it needs root, or a container that allows it";
	case EROFS:
		return "Read-only file system: use another directory, or make this one writable";
	default:
		return strerror(error < 0 ? -error : error);
	}
}

const char *const xk_direction_names[] = { "up", "down" };

void
xk_assert_failed(const char *what, const char *file, int line)
{
	const char *why = errno == ENOMEM ? xk_error(ENOMEM) : "";

	fprintf(stderr, "%s:%d: assertion failed: %s%s%s\n", file, line, what, *why != '\0' ? "; " : "", why);
	abort();
}
