/*
 * host_companion.h - a host in a process of its own, for a program that is the other end of its link. It ends with the
 * program, however that ends. Everything is for the main thread.
 */
#ifndef HOST_COMPANION_H
#define HOST_COMPANION_H

#include <sys/types.h>

#include "tools/host/host.h"

struct host_companion {
	pid_t pid; /* 0: there is none */
	int stop;  /* the end of a pipe: closed when it is to end */
	int alive; /* ... of another: readable when it has ended by itself; -1: there is none */
};

/*
 * Starts it; before this process has threads or has started DPDK. Returns when it stands on its link. signals: of
 * pair_signals, or -1. 0, or the status to exit with; what was wrong has been printed.
 */
int host_companion_start(struct host_companion *companion, const struct host_options *options, int signals);

/* Ends it and waits for it. 0, also where there is none; OPTIONS_FAILURE: it did not end well, which has been printed. */
int host_companion_stop(struct host_companion *companion, const char *program);

#endif
