/* icmptest_private.h - what the files of the program icmptest share: its options, a job and what comes of it. Main thread. */
#ifndef ICMPTEST_PRIVATE_H
#define ICMPTEST_PRIVATE_H

#include "protocols/test/icmptest.h"
#include "tools/histogram.h"
#include "tools/host/host_alone.h"
#include "tools/host/host_companion.h"

struct icmptest_options {
	struct host_common common;
	struct host_single single;
	const char *graph, *interval, *timeout;
	uint64_t interval_ns, timeout_ns, count, size, pattern;
	uint32_t host; /* who is asked; 0: a server that is started here */
	bool quiet;
	char path[HOST_PATH]; /* of the graph where none is given */
};

extern const struct options_program icmptest_program;

enum { ICMPTEST_EVENTS = 4096 };

/*
 * What happened, on its way from the driver, which may not print, to the main thread: callbacks write at `written`, the
 * main thread reads at `told`. What finds no room is counted and not told; results are complete all the same.
 */
struct icmptest_events {
	struct xk_icmptest_event list[ICMPTEST_EVENTS];
	_Atomic unsigned written, told;
	_Atomic uint64_t untold;
};

struct icmptest_job {
	const struct icmptest_options *options;
	const struct host_link *link;
	struct host host, server; /* server: on links that join hosts of one process */
	struct host_companion companion;
	int signals, woken;
	struct watch *watch;
	uint32_t to;
	FILE *out, *json; /* out: where people read */
	struct icmptest_events *events;
	struct histogram rtt; /* the callbacks', until the run has finished */
	_Atomic bool done;
	struct xk_icmptest_result result;
};

/* ---- icmptest_report.c ---- */

void icmptest_print_head(const struct icmptest_job *job);
void icmptest_print_event(const struct icmptest_job *job, const struct xk_icmptest_event *event);
void icmptest_print_summary(const struct icmptest_job *job);

/* Writes the results to job->json, if there is one. 0, or OPTIONS_FAILURE and a sentence. */
int icmptest_json(struct icmptest_job *job);

#endif
