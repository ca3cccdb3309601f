/*
 * host_alone.h - a host that is alone in its process: opens it while waiting for signals, waits for its end, and
 * reports its counts; and a companion for it, the other end of its link in a child process. Main thread only.
 */
#ifndef HOST_ALONE_H
#define HOST_ALONE_H

#include "tools/host/host_options.h"

struct json;

/*
 * Opens a host like host_open, which may wait for a server; a signal on `signals` (pair_signals) ends the program
 * meanwhile.
 */
int host_open_alone(struct host *host, const struct host_options *options, int signals);

/* Waits for a signal and takes it. The next one ends the process at once, even during shutdown (watch.h). */
void host_await_signal(int signals);

/* Likewise, or until a protocol ends the host (ended_fd of its options), or until_ns have passed (0: no limit). */
void host_await_end(const struct host *host, int signals, uint64_t until_ns);

/* A child process, killed if the program ends without stopping it. */
struct host_companion {
	pid_t pid; /* 0: none */
	int alive; /* a socket: readable after the companion has ended by itself; -1: none */
};

/*
 * Starts a companion and waits until it is on its link or a signal arrives (`signals`: of pair_signals, or -1). Call
 * before this process has threads or has started DPDK. Returns 0, or the exit status after a message.
 */
int host_companion_start(struct host_companion *companion, const struct host_options *options, int signals);

/* Ends the companion, if any. Returns 0, or OPTIONS_FAILURE after a message if it failed. */
int host_companion_stop(struct host_companion *companion, const char *program);

/* Prints the host's addresses, ports and driver as a line on standard error. */
void host_print_standing(const struct host *host);

/* Prints each count that is not zero. */
void host_print_counts(struct host *host, FILE *out);

/* Writes the keys that every program has, from handoffs to drops. */
void host_json_counts(struct json *json, const struct pair_counts *counts);

/* Writes the object `counters`, of all protocols. */
void host_json_counters(const struct host *host, struct json *json);

/* Writes the array `parked`: the kernel's waiting shepherds, by protocol. */
void host_json_parked(struct xk_kernel *kernel, struct json *json);

/* Writes the array `drivers`: the frames received by each, and its context switches. */
void host_json_drivers(const struct host *host, struct json *json);

/* Writes an object under key: settings, addresses, ports, and all counts. */
void host_json(struct host *host, struct json *json, const char *key);

#endif
