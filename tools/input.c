/* input.c - see input.h. */
#define _GNU_SOURCE
#include "tools/input.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Names for the copy of a named pipe, which needs its own descriptor. */
static const char *const input_names[] = { "/dev/fd/3", "/dev/fd/4", "/dev/fd/5", "/dev/fd/6",
					   "/dev/fd/7", "/dev/fd/8", "/dev/fd/9" };

enum { INPUT_FIRST = 3, INPUT_NAMES = sizeof(input_names) / sizeof(input_names[0]) };

/* Returns the descriptor that a name in /dev represents, or -1. */
static int
input_descriptor(const char *file)
{
	int fd, len = 0;

	if (strcmp(file, "/dev/stdin") == 0)
		return STDIN_FILENO;
	if (sscanf(file, "/dev/fd/%d%n", &fd, &len) == 1 || sscanf(file, "/proc/self/fd/%d%n", &fd, &len) == 1)
		return file[len] == '\0' ? fd : -1;
	return -1;
}

/* Returns true if reading consumes the contents. */
static bool
input_is_stream(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || isatty(fd));
}

/* Copies fd's contents into memory. Returns a descriptor of the copy, or -1. */
static int
input_copy(int fd)
{
	int copy = memfd_create("input", 0);
	char bytes[1 << 16];
	size_t size = 0;
	ssize_t got;

	while (copy >= 0 && size < INPUT_MAX && (got = read(fd, bytes, sizeof(bytes))) > 0) {
		if (write(copy, bytes, (size_t)got) != got)
			break;
		size += (size_t)got;
	}
	return copy;
}

const char *
input_file(const char *file)
{
	const char *name = strcmp(file, "-") == 0 ? "/dev/stdin" : file;
	int fd = input_descriptor(name), from = fd, copy, to = fd;
	struct stat status;

	if (fd < 0 && (stat(name, &status) != 0 || !S_ISFIFO(status.st_mode)))
		return name;
	if (fd < 0)
		from = open(name, O_RDONLY | O_CLOEXEC);
	copy = from >= 0 && input_is_stream(from) ? input_copy(from) : -1;
	if (fd < 0 && from >= 0)
		close(from);
	if (copy < 0)
		return name;
	if (fd >= 0)
		dup2(copy, fd);
	else
		to = fcntl(copy, F_DUPFD, INPUT_FIRST);
	close(copy);
	return fd < 0 && to >= INPUT_FIRST && to < INPUT_FIRST + INPUT_NAMES ? input_names[to - INPUT_FIRST] : name;
}
