/* stats_print.h - a host's counts as tables for people. */
#ifndef STATS_PRINT_H
#define STATS_PRINT_H

#include <stdio.h>

#include "tools/stats_read.h"

/* before: of the same host, some time ago: what has happened since is told as rates. */
void stats_print(const struct stats *now, const struct stats *before, FILE *out);

#endif
