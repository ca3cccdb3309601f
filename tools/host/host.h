/*
 * host.h - creates a running host from a command line: link, platform, ports, graph, kernel.
 *
 * host_open creates one host, whose peer is elsewhere; host_open_both creates the two of a link that joins hosts of one
 * process. host_start and host_close follow. A status is 0, or the exit status after a message on standard error. Main
 * thread only.
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
struct xk_pages;
struct xk_trace_sink;

enum { HOST_PORTS = 4, HOST_PATH = 4096, HOST_DRIVERS_MAX = 16 };

struct host_link {
	const char *name;
	bool on_dpdk;    /* only in builds with DPDK */
	bool in_process; /* joins two hosts of one process */
	bool simulated;  /* on virtual time */
	bool can_sleep;  /* supports the drivers interrupt and adaptive */
	/* Each port is the network interface named by the setting `dev`. A pair without it gets its own network. */
	bool has_interface;
	bool is_card;     /* each port is a network card, whose PCI address is the link's name, or `dev` */
	unsigned drivers; /* maximum per host, each with a queue of every port (a card may have fewer) */
};

/* Finds a link by its name or a PCI address, and checks that `driver` (-1: not chosen) works on it. */
int host_link_find(const struct options_program *program, const char *name, int driver, const struct host_link **link);

struct host_options {
	const char *program;
	const char *name; /* in traces: "client", "server" */
	unsigned end;     /* PAIR_CLIENT or PAIR_SERVER: the end of the link, which also selects the addresses */
	bool paired;      /* the other end has the same settings; their addresses are the server's */
	const char *graph;
	const char *top;                  /* protocol that replaces the graph's test protocol; NULL: none */
	const struct options_texts *sets; /* "node.attribute=value"; "client:node..." for one end only */
	const struct host_link *link;
	const char *link_name; /* as given; NULL: the link's own */
	uint32_t peer;         /* the host expected to answer, checked by host_load; 0: any */
	const char *meeting;   /* prefix for the names of ports without `dev`, for private links; "": none */
	enum xk_mode mode;
	enum xk_driver_policy driver;
	uint64_t spin_ns; /* time for which XK_DRIVER_ADAPTIVE polls after work; 0: the default */
	unsigned threads;
	unsigned stacks;       /* detachable stacks per driver; 0: the default */
	unsigned drivers;      /* 0: one */
	const uint64_t *cores; /* by driver; NULL: any */
	bool yields, trace;
	bool no_paths;          /* even if the graph enables them */
	struct watch *watch;    /* the program's watchdog; NULL: none */
	struct xk_pages *pages; /* what the host shows to protocols; NULL: nothing */
	int ended_fd;           /* an eventfd, written when a protocol ends the host; 0: none */
	bool telemetry;         /* start DPDK's telemetry */
	const char *pcap;       /* capture file for ports and taps (for a pair: FILE.client); NULL: none */
	const char *journey;    /* for --link sim: page of the run (tools/journey/journey.h); NULL: none */
	/* for --link sim */
	uint64_t seed;
	const char *preset, *costs; /* the link's preset; costs for xk_sim_costs_parse */
};

/* A world shared by hosts on --link sim (host_sim.c). */
struct host_world;

struct host {
	struct host_options options;
	struct host_world *world;   /* NULL: real time */
	struct capture *capture;    /* NULL: none */
	struct xk_trace_sink *sink; /* NULL: none */
	struct xk_graph *graph;
	struct xk_platform *platforms[HOST_DRIVERS_MAX]; /* by driver */
	struct xk_kernel *kernel;
	struct xk_port *ports[HOST_PORTS][HOST_DRIVERS_MAX]; /* each port's lanes, by driver; they share an address */
	const char *port_names[HOST_PORTS];                  /* by port: the setting `dev` */
	const char *port_nodes[HOST_PORTS];                  /* by port: the name of its protocol */
	bool port_is_set[HOST_PORTS];                        /* by port: `dev` was given, by the graph or by --set */
	uint64_t port_addresses[HOST_PORTS];                 /* by port: the setting `address`; 0: none */
	unsigned port_count;
	uint32_t address; /* the host's first address */
	bool started;
	bool is_stuck; /* a message was waiting without bound when the host ended */
};

/* Returns true if every --set has the form node.attribute=value; prints a message otherwise. */
bool host_sets_are_valid(const struct options_program *program, const struct options_texts *sets);

/* Finds `file` in graphs/ of the working directory, or else of the build or installation. Returns path. */
const char *host_graph_path(const char *file, char *path, size_t size);

/*
 * Checks that `peer` can answer this host: it is neither one of the host's own addresses nor a network's own or
 * broadcast address. Returns 0, or OPTIONS_FAILURE after a message.
 */
int host_check_peer(const struct host *host, uint32_t peer);

/* Returns true if a port of the host has lost the other end of its link. */
bool host_peer_is_gone(const struct host *host);

/* Checks that client and server have no common address. */
int host_check_pair(const struct host *client, const struct host *server);

/* Only reads and checks the graph: sets host->graph and host->address. Call host_close afterwards, also on failure. */
int host_load(struct host *host, const struct host_options *options);

/*
 * Creates and enters the network that both processes of a pair will use, if the link needs one; with `far`, the
 * processes are on two machines, and it only checks that each has an interface. `host` is one of the pair, loaded. Call
 * before this process has threads.
 */
int host_prepare_pair(const struct host *host, bool far);

/* Call host_close afterwards, also on failure. */
int host_open(struct host *host, const struct host_options *options);
int host_open_both(struct host hosts[2], const struct host_options options[2]);

int host_start(struct host *host);

/*
 * Without DPDK, the constant, first in a condition, lets compilers drop the calls into host_dpdk.c, which is not built,
 * even without optimization.
 */
#ifdef XK_HAVE_DPDK
bool host_is_on_dpdk(const struct host *host);
#else
#define host_is_on_dpdk(host) false
#endif

/*
 * Lets DPDK's telemetry report on a started host with options.telemetry; a DPDK thread calls before_answer(context) on
 * each query. Call host_end_telemetry before the host ends, also on failure. Both only if host_is_on_dpdk.
 */
int host_begin_telemetry(struct host *host, void (*before_answer)(void *context), void *context);
void host_end_telemetry(struct host *host);

/* Creates or truncates the file of options->pcap, to fail early for hosts that other processes will open. */
int host_capture_check(const struct host_options *options);

/*
 * Stops and frees the kernel, but keeps its memory: end all hosts of a process before closing one, because they may
 * hold each other's buffers. Does nothing for hosts with a world.
 */
void host_end(struct host *host);

/*
 * Stops and frees everything. Returns OPTIONS_FAILURE if buffers were not returned, a message waits forever, or the
 * capture is incomplete.
 */
int host_close(struct host *host);

/* Returns the first protocol of a type, or NULL after a message. */
struct xk_protocol *host_find_type(struct host *host, const char *type);

unsigned host_driver_count(const struct host *host);

/* Fills in all counts except messages and process_switches. */
void host_counts(struct host *host, struct pair_counts *counts);

/* Calls see for each count of the host's ports and devices, "NODE.COUNT"; is_drop: of lost frames. Any thread. */
void host_each_port_count(const struct host *host,
			  void (*see)(void *context, const char *name, uint64_t count, bool is_drop), void *context);

/* Returns a counter of the protocol, or 0 if it has none of this name. */
uint64_t host_counter(const struct xk_protocol *protocol, const char *name);

/*
 * Runs the world of the host while go_on(context) returns true. Returns false if no event is left but go_on is still
 * true.
 */
bool host_world_run(struct host *host, bool (*go_on)(void *context), void *context);

/*
 * Removes the sockets of private links, "PREFIX-PID-...", of killed processes and of this process, whose own ends must
 * have stopped.
 */
void host_sweep(const char *prefix);

#endif
