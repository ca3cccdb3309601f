/* base.c - the end of a program whose assertion failed. */
#include "xkernel/base.h"

#include <stdio.h>
#include <stdlib.h>

void
xk_assert_failed(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: this must hold and does not: %s\n", file, line, what);
	abort();
}
