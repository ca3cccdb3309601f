/* output.c - see output.h. */
#define _GNU_SOURCE
#include "tools/output.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tools/options.h"

int
output_finish(int status)
{
	bool failed = ferror(stdout);

	if (fflush(stdout) == 0 && !failed)
		return status;
	fprintf(stderr, "%s: standard output cannot be written\n", program_invocation_short_name);
	return status == OPTIONS_SUCCESS ? OPTIONS_FAILURE : status;
}

bool
output_is_input(const char *program, const char *output, const char *input)
{
	struct stat of_output, of_input;

	if (stat(output, &of_output) != 0 || stat(input, &of_input) != 0 || of_output.st_dev != of_input.st_dev ||
	    of_output.st_ino != of_input.st_ino)
		return false;
	fprintf(stderr, "%s: %s is what is read: it would be written over\n", program, output);
	return true;
}
