/*
 * host.h - from a command line to a running host: link, platform, ports, graph, kernel.
 *
 * host_open makes a host at its own end of a link; host_open_both makes two in this process, for links that join hosts
 * of one process. Then come host_start and, in the end, host_close. Functions that return a status return 0, or the
 * status to exit with after a message on standard error. Main thread only.
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
	const char *name;
	bool in_process; /* joins two hosts of one process */
	bool simulated;  /* on virtual time */
	bool can_sleep;  /* the drivers interrupt and adaptive work */
	/* Ports are network interfaces, named by the setting `dev`. A pair without it gets a network of its own. */
	bool has_interface;
	bool is_card;     /* ports are network cards: the link's name, or `dev`, is a PCI address */
	unsigned drivers; /* most drivers of a host: its ports have a queue for each, as far as a card has them */
};

/*
 * Finds the link called name, or the one for a PCI address, and checks that `driver` (-1: not chosen) works on it.
 * Returns 0 or OPTIONS_MISUSE.
 */
int host_link_find(const struct options_program *program, const char *name, int driver, const struct host_link **link);

struct host_options {
	const char *program;
	const char *name; /* in traces: "client", "server" */
	unsigned end;     /* PAIR_CLIENT or PAIR_SERVER: which end of the link, and which addresses */
	bool paired;      /* the other end is started with the same settings, whose addresses are the server's */
	const char *graph;
	const struct options_texts *sets; /* "node.attribute=value"; "client:node..." for one end alone */
	const struct host_link *link;
	const char *link_name; /* as given; NULL: the link's own */
	const char *meeting;   /* prefix of names of ports that have no `dev`, for private links; "" */
	enum xk_mode mode;
	enum xk_driver_policy driver;
	unsigned threads;
	unsigned stacks;       /* detachable stacks of each driver; 0: the default */
	unsigned drivers;      /* 0: one */
	int core;              /* of the first driver; -1: any */
	const uint64_t *cores; /* of each driver; NULL: `core` for all */
	bool yields, trace;
	struct watch *watch; /* the program's watchdog; NULL: none */
	bool watched;        /* edges will be marked that have no mark in the graph file */
	bool telemetry;      /* DPDK's own is started */
	const char *pcap;    /* capture file for ports and taps (of a pair: FILE.client); NULL: none */
	/* of --link sim */
	uint64_t seed;
	const char *preset, *costs; /* the link's preset; costs for xk_sim_costs_parse */
};

/* A world that hosts of --link sim share (host_sim.c). */
struct host_world;

struct host {
	struct host_options options;
	struct host_world *world; /* NULL: the real one */
	struct capture *capture;  /* NULL: none */
	struct xk_graph *graph;
	struct xk_platform *platforms[HOST_DRIVERS_MAX]; /* by driver */
	struct xk_kernel *kernel;
	struct xk_port *ports[HOST_PORTS][HOST_DRIVERS_MAX]; /* each port's lanes, by driver; they share an address */
	const char *port_names[HOST_PORTS];                  /* the setting `dev` of each */
	const char *port_nodes[HOST_PORTS];                  /* the names of their protocols */
	bool port_is_set[HOST_PORTS];                        /* `dev` was given, by the graph or by --set */
	unsigned port_count;
	uint32_t address; /* the host's first */
	bool started, ended;
};

/* Returns whether every --set has the form node.attribute=value; prints a message if not. */
bool host_sets_are_good(const struct options_program *program, const struct options_texts *sets);

/*
 * Finds `file` of graphs/: below the working directory, else beside the program, where it was built or installed.
 * Returns path.
 */
const char *host_graph_path(const char *file, char *path, size_t size);

/* Reads and checks the graph only: sets host->graph and host->address. Call host_close afterwards, in any case. */
int host_load(struct host *host, const struct host_options *options);

/*
 * For a program that starts both hosts of a pair as processes, of which `host` is loaded: makes the network that they
 * will stand in, where the link needs one, and enters it. Call before this process has threads.
 */
int host_prepare_pair(const struct host *host);

int host_open(struct host *host, const struct host_options *options);
int host_open_both(struct host hosts[2], const struct host_options options[2]);

int host_start(struct host *host);

/*
 * Builds without DPDK have no such hosts: there gcc drops calls under this condition, even when it does not optimize,
 * and with them the need for host_dpdk.c.
 */
#ifdef XK_HAVE_DPDK
bool host_is_on_dpdk(const struct host *host);
#else
#define host_is_on_dpdk(host) false
#endif

/*
 * For a host on DPDK with options.telemetry that has started: DPDK answers for it, and a thread of DPDK calls
 * asked(context) on each question. Call host_end_telemetry before the host ends, in any case.
 */
int host_begin_telemetry(struct host *host, void (*asked)(void *context), void *context);
void host_end_telemetry(struct host *host);

/* Checks that the file of options->pcap can be written, and empties it; for hosts that other processes will open. */
int host_capture_check(const struct host_options *options);

/*
 * Stops and frees the kernel, but not its memory: hosts of one process may hold each other's
 * buffers, so all of them end before one is closed. Does nothing for hosts with a world.
 */
void host_end(struct host *host);

/* Stops and frees everything. Returns OPTIONS_FAILURE if buffers have not come back or the capture is incomplete. */
int host_close(struct host *host);

/* Returns the first instance of a type, or NULL after a message. */
struct xk_protocol *host_find_type(struct host *host, const char *type);

unsigned host_driver_count(const struct host *host);

/* Gets all counts but messages and process_switches. */
void host_counts(struct host *host, struct pair_counts *counts);

/* Calls tell(argument, "INSTANCE.COUNTER", count) for every counter of every protocol. */
void host_each_counter(const struct host *host, void (*tell)(void *argument, const char *name, uint64_t count),
		       void *argument);

/* Returns a protocol's counter; 0 if there is none of this name. */
uint64_t host_counter(const struct xk_protocol *protocol, const char *name);

/*
 * For a host with a world: lets virtual time pass until go_on(context) is false. Returns false if go_on still is true
 * but nothing is left to happen.
 */
bool host_world_run(struct host *host, bool (*go_on)(void *context), void *context);

/*
 * Removes the sockets of private links, "PREFIX-PID-...", that processes left when they were killed, and those of this
 * process. No end of its own may be running.
 */
void host_sweep(const char *prefix);

#endif
