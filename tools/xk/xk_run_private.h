/* xk_run_private.h - shared by the files of `xk run`. */
#ifndef XK_RUN_PRIVATE_H
#define XK_RUN_PRIVATE_H

#include "tools/host/host_options.h"

#define RUN_UNTIL_ABSENT UINT64_MAX
#define RUN_EVENT_ABSENT UINT64_MAX

struct run_options {
	struct host_common common;
	struct host_single single;
	const char *show, *choices, *write_choices;
	uint64_t until_ns, stop_at, back; /* RUN_UNTIL_ABSENT, RUN_EVENT_ABSENT: not given */
	struct options_numbers seeds;     /* none or one: the count shows whether the option was given */
	unsigned end; /* the host's end of its links: PAIR_CLIENT, PAIR_SERVER; PAIR_ENDS: not given */
	bool quiet, telemetry;
};

extern const struct options_program run_program;

/* Checks the options, and runs a network file in the simulator (xk_run_net.c). Returns the exit status. */
int run_network(struct run_options *options, const char *file);

#endif
