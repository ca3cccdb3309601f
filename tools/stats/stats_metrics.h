/* stats_metrics.h - prints the counts of a running host for Prometheus. */
#ifndef STATS_METRICS_H
#define STATS_METRICS_H

#include "tools/stats/stats_print.h"

/* As stats_print_document, in Prometheus' text format, version 0.0.4. */
bool stats_print_metrics(const struct host *host, const struct stats_about *about, FILE *out);

#endif
