/*
 * host_alone.h - a host that is alone in its process: opens it while listening for signals, waits for the one that ends
 * it, and reports its counts; and a companion for it, the other end of its link in a child process. Main thread only.
 */
#ifndef HOST_ALONE_H
#define HOST_ALONE_H

#include "tools/host/host_options.h"

struct json;

/*
 * As host_open, which may take long (a client waits for its server): meanwhile
 * a signal that pair_signals has turned into `signals` ends the program.
 */
int host_open_alone(struct host *host, const struct host_options *options, int signals);

/* Waits for the first signal. A second one ends the process at once, even while it shuts down (watch.h). */
void host_await_signal(int signals);

/* A child process, which ends with the program, however that ends. */
struct host_companion {
	pid_t pid; /* 0: none */
	int alive; /* a socket: readable once the companion has ended by itself; -1: none */
};

/*
 * Starts it, before this process has threads or has started DPDK, and waits until it stands on its link or a signal
 * comes (`signals`: of pair_signals, or -1). Returns 0, or the status to exit with, after a message.
 */
int host_companion_start(struct host_companion *companion, const struct host_options *options, int signals);

/* Ends it, if there is one, and waits for it. Returns 0, or OPTIONS_FAILURE with a message if it did not end well. */
int host_companion_stop(struct host_companion *companion, const char *program);

/* Prints a line on standard error: where the host stands. */
void host_print_standing(const struct host *host);

/* Prints the counts that are not zero, a line each. */
void host_print_counts(struct host *host, FILE *out);

/* Writes the keys that counts have in every program's JSON: handoffs to drops. */
void host_json_counts(struct json *json, const struct pair_counts *counts);

/* Writes the object `counters`, of all protocols. */
void host_json_counters(const struct host *host, struct json *json);

/* Writes the array `drivers`: how many frames each has received, and how often it has waited. */
void host_json_drivers(const struct host *host, struct json *json);

/* Writes an object under key: settings, addresses, ports, and all counts. */
void host_json(struct host *host, struct json *json, const char *key);

#endif
