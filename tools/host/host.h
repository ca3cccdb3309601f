/*
 * host.h - from a command line to a host that runs: link, platform, ports, graph, kernel.
 *
 * host_open makes a host that stands on its own end of a link; host_open_both makes two in this process, for links that
 * join hosts of one process. Then host_start, and in the end host_close. What goes wrong is told on standard error in a
 * sentence, and the functions return the status to exit with. Everything is for the main thread.
 */
#ifndef HOST_H
#define HOST_H

#include <stdio.h>

#include "tools/host/host_pair.h"
#include "tools/options.h"
#include "xkernel/kernel.h"

struct capture;
struct watch;
struct xk_graph;

enum { HOST_PORTS = 4, HOST_PATH = 4096, HOST_DRIVERS_MAX = 16 };

struct host_link {
	const char *name, *help;
	bool available;  /* in this build */
	bool in_process; /* joins two hosts of one process */
	bool simulated;  /* on virtual time */
	bool can_sleep;  /* the drivers interrupt and adaptive work */
	/* Ports are network interfaces: settings `dev`. Of a pair that has not set them, in a network of its own. */
	bool has_interface;
	bool is_card;     /* ports are network cards; the link's name, or a setting `dev`, is a PCI address */
	unsigned drivers; /* of a host, at most: its ports have a queue for each; of cards, if they have so many */
};

/*
 * The link called name, or that for a PCI address, if it can be used with `driver` (-1: the driver was not chosen). 0 and *link, or
 * OPTIONS_MISUSE: there is none such here, and what there is has been printed.
 */
int host_link_find(const struct options_program *program, const char *name, int driver, const struct host_link **link);

struct host_options {
	const char *program;
	const char *name; /* in traces: "client", "server" */
	unsigned end;     /* PAIR_CLIENT or PAIR_SERVER: which end of the link, and which addresses */
	bool paired;      /* the other end is started with the same settings: addresses given count for the server */
	const char *graph;
	const struct options_texts *sets; /* "node.attribute=value", or "client:node..." for one end alone */
	const struct host_link *link;
	const char *link_name; /* as it was given; NULL: as the link is called */
	const char *meeting;   /* what is put before a port's name where `dev` is not set, for private links; "" */
	enum xk_mode mode;
	enum xk_driver_policy driver;
	unsigned threads;
	unsigned stacks;       /* detachable stacks of each driver; 0: the usual number */
	unsigned drivers;      /* 0: one */
	int core;              /* of the first driver; -1: any */
	const uint64_t *cores; /* of each driver; NULL: core is that of all */
	bool yields, trace;
	struct watch *watch; /* the program's watchdog; NULL: none */
	bool watched;        /* edges will be marked that the graph file does not mark */
	bool telemetry;      /* DPDK's own is started */
	const char
		*pcap; /* what crosses its ports and taps goes into this file (a pair's: FILE.client); NULL: nowhere */
	/* of --link sim */
	uint64_t seed;
	/* A preset: what the link is like; and what things cost on a host, for xk_sim_costs_parse. */
	const char *preset, *costs;
};

/* A world that hosts of --link sim stand in together (host_sim.c). */
struct host_world;

struct host {
	struct host_options options;
	struct host_world *world; /* NULL: the real one */
	struct capture *capture;  /* NULL: not asked for */
	struct xk_graph *graph;
	struct xk_platform *platforms[HOST_DRIVERS_MAX]; /* of each driver */
	struct xk_kernel *kernel;
	struct xk_port *ports[HOST_PORTS][HOST_DRIVERS_MAX]; /* the lanes of each, by driver; they have one address */
	const char *port_names[HOST_PORTS];                  /* what the protocols call them: settings `dev` */
	const char *port_nodes[HOST_PORTS];                  /* the protocols' own names */
	bool port_is_set[HOST_PORTS];                        /* the name was given, by the graph or by --set */
	unsigned port_count;
	uint32_t address; /* the host's first */
	bool started, ended;
};

/* Whether every --set has the form node.attribute=value; if not, says so. */
bool host_sets_are_good(const struct options_program *program, const struct options_texts *sets);

/*
 * Where `file` of graphs/ is: below the working directory, else beside the program's directory, as it was built or as it
 * was installed. Returns path.
 */
const char *host_graph_path(const char *file, char *path, size_t size);

/*
 * Reads and checks the graph, and nothing more: host->graph, and the address that it gives to the host. host_close
 * afterwards.
 */
int host_load(struct host *host, const struct host_options *options);

/*
 * For who starts both hosts of a pair as processes of their own, of which `host` has been loaded: makes the network that
 * they will stand in, where the link needs one, and goes into it. Before this process has threads. 0, or the status to
 * exit with, and a sentence.
 */
int host_prepare_pair(const struct host *host);

int host_open(struct host *host, const struct host_options *options);
int host_open_both(struct host hosts[2], const struct host_options options[2]);

int host_start(struct host *host);

/*
 * Of a host with options.telemetry, on DPDK, that has started: DPDK answers for it, and tells asked(context) of each question,
 * by a thread of its own. 0, or OPTIONS_FAILURE and a sentence. host_end_telemetry before the host ends, in any case.
 */
int host_begin_telemetry(struct host *host, void (*asked)(void *context), void *context);
void host_end_telemetry(struct host *host);

/*
 * Whether the file of options->pcap can be written, which is empty then; for who starts hosts in other processes. 0, or
 * OPTIONS_FAILURE and a sentence.
 */
int host_capture_check(const struct host_options *options);

/*
 * Stops and frees the kernel, but not what it had its memory from: hosts of one process may hold each other's buffers, so
 * that each of them ends before one is closed. Does nothing for hosts with a world.
 */
void host_end(struct host *host);

/* Stops and frees everything. 0, or OPTIONS_FAILURE if buffers have not come back or its capture is incomplete. */
int host_close(struct host *host);

/* The first instance of a type, or NULL and a sentence. */
struct xk_protocol *host_find_type(struct host *host, const char *type);

unsigned host_driver_count(const struct host *host);

/* Everything but messages and process_switches. */
void host_counts(struct host *host, struct pair_counts *counts);

/* Calls tell(argument, "INSTANCE.COUNTER", count) for every counter of every protocol. */
void host_each_counter(const struct host *host, void (*tell)(void *argument, const char *name, uint64_t count),
		       void *argument);

/*
 * Lets virtual time pass until go_on(context) is false. False: nothing will happen any more, and it still is true. For
 * hosts with a world.
 */
bool host_world_run(struct host *host, bool (*go_on)(void *context), void *context);

/* What a protocol's counter says; 0 where there is none of this name. */
uint64_t host_counter(const struct xk_protocol *protocol, const char *name);

/*
 * Removes what ends of private links left behind that were killed: sockets that are called "PREFIX-PID-...", of
 * processes that are no more and of this one, none of whose ends may be running.
 */
void host_sweep(const char *prefix);

#endif
