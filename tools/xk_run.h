/* xk_run.h - what the files of `xk run` share: its options, and the two things that it runs. For the main thread. */
#ifndef XK_RUN_H
#define XK_RUN_H

#include "tools/host_options.h"

struct run_options {
	struct host_common common;
	struct host_single single;
	const char *until;
	struct options_numbers seeds; /* as given: none or one */
	uint64_t until_ns, seed;
	unsigned end; /* which end of its links the host is: PAIR_CLIENT, PAIR_SERVER; PAIR_ENDS: not given */
	bool quiet, telemetry;
};

extern const struct options_program run_program;

/* xk_run_net.c: a network file in the simulator. The status to exit with. */
int run_network_main(const struct run_options *options, const char *file);

/* xk_run_host.c: one host, which stands on `link` until a signal comes (pair_signals). The status to exit with. */
int run_host_main(const struct run_options *options, const char *file, const struct host_link *link);

#endif
