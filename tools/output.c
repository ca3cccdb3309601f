/* output.c - see output.h. */
#define _GNU_SOURCE
#include "tools/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graphs/graph.h"

int
output_take_stdout(void)
{
	int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	return fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ? -1 : fd;
}

void
output_print_name(const char *name)
{
	xk_graph_print_plain(name, strlen(name), false, stdout);
}

FILE *
output_memory(void)
{
	int fd = memfd_create("output", MFD_CLOEXEC);

	return fd < 0 ? NULL : fdopen(fd, "w+");
}

FILE *
output_open(const char *file)
{
	return strcmp(file, "-") == 0 ? stdout : fopen(file, "we");
}

bool
output_close(FILE *stream)
{
	bool good = stream != NULL && fflush(stream) == 0 && !ferror(stream);

	if (stream != NULL && stream != stdout && fclose(stream) != 0)
		good = false;
	return good;
}

bool
output_is_input(const char *program, const char *output, const char *input)
{
	struct stat of_output, of_input;

	if (strcmp(output, "-") == 0 || stat(output, &of_output) != 0 || stat(input, &of_input) != 0 ||
	    of_output.st_dev != of_input.st_dev || of_output.st_ino != of_input.st_ino)
		return false;
	fprintf(stderr, "%s: %s is the input: it would be overwritten\n", program, output);
	return true;
}
