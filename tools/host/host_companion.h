/*
 * host_companion.h - a host in a child process, for a program that is the other end of its link. It ends with the
 * program, however that ends. Main thread only.
 */
#ifndef HOST_COMPANION_H
#define HOST_COMPANION_H

#include <sys/types.h>

#include "tools/host/host.h"

struct host_companion {
	pid_t pid; /* 0: none */
	int stop;  /* a pipe's write end; closing it ends the companion */
	int alive; /* a pipe's read end, readable once the companion has ended by itself; -1: none */
};

/*
 * Starts it, before this process has threads or has started DPDK, and waits until it stands on its link or a signal
 * comes (`signals`: of pair_signals, or -1). Returns 0, or the status to exit with, after a message.
 */
int host_companion_start(struct host_companion *companion, const struct host_options *options, int signals);

/* Ends it, if there is one, and waits for it. Returns 0, or OPTIONS_FAILURE with a message if it did not end well. */
int host_companion_stop(struct host_companion *companion, const char *program);

#endif
