/*
 * host_alone.h - a host that is alone in its process: opened while signals are heard, standing until one comes, and
 * telling what it has counted. Everything is for the main thread.
 */
#ifndef HOST_ALONE_H
#define HOST_ALONE_H

#include "tools/host/host_options.h"

struct json;

/*
 * As host_open, which may take long (a client waits for its server); the signals that pair_signals has turned
 * into `signals` end the program meanwhile.
 */
int host_open_alone(struct host *host, const struct host_options *options, int signals);

/* Waits for the first signal. The second one ends the process at once, even while it shuts down (watch.h). */
void host_await_signal(int signals);

/* Calls tell for each address that the host has: "10.77.0.2/24". */
void host_each_address(const struct host *host, void (*tell)(void *argument, const char *address), void *argument);

/* On standard error, in a line: where the host stands. */
void host_print_standing(const struct host *host);

/* What it has counted, but for what is zero, a line each. */
void host_print_counts(struct host *host, FILE *out);

/* The keys that what is counted has in every program's JSON: handoffs to drops. */
void host_json_counts(struct json *json, const struct pair_counts *counts);

/* An array `drivers`: what each has received, and how often it has waited. */
void host_json_drivers(const struct host *host, struct json *json);

/* As an object under key: settings, addresses, ports, and everything that it has counted. */
void host_json(struct host *host, struct json *json, const char *key);

#endif
