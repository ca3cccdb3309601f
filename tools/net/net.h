/*
 * net.h - from a network file to a simulated world: links, hosts, their graphs, and when they crash and boot.
 *
 * net_read reads and checks the file, net_open makes the world of it, xk_sim_run lets time pass, net_close frees all,
 * also where one of these has failed. What goes wrong is told on standard error in a sentence, and the functions return
 * the status to exit with. Everything is for the main thread.
 */
#ifndef NET_H
#define NET_H

#include <stdio.h>

#include "graphs/topology.h"
#include "platform/sim/sim.h"
#include "tools/net/net_settings.h"

struct net;
struct net_capture;
struct xk_capture;

struct net_host {
	struct net *net;
	const struct xk_topology_host *topology;
	struct net_host_settings settings;
	struct xk_sim_host *sim;
	struct xk_capture *capture; /* of its taps; NULL: nobody captures */
	bool healed;                /* it does not crash any more */
	bool compiled;              /* its graph is the one that the program was made of */
};

struct net {
	const char *program;
	struct xk_topology *topology;
	struct xk_sim *sim;
	struct xk_sim_link **links;  /* as topology->links */
	struct net_host *hosts;      /* as topology->hosts */
	struct net_capture *capture; /* net_capture.h; NULL: not asked for */
	FILE *trace;                 /* where kernels trace to */
	bool traces;                 /* every message of every host */
	bool failed;                 /* a host could not be booted, or has lost buffers */
};

/* Reads and checks file, or size bytes of text that is called file. 0, or the status to exit with. */
int net_read(struct net *net, const char *program, const char *file, const char *const *sets, unsigned set_count);
int net_read_text(struct net *net, const char *program, const char *file, const char *text, size_t size);

/* Makes the world, with every host's first boot to come. trace: NULL for standard error. */
int net_open(struct net *net, uint64_t seed, FILE *trace, bool traces);

/*
 * Ends faults: every link is from now on without loss, duplicates, reordering and corruption, who was cut off is joined
 * again, who is down is booted, and no host crashes. Between steps.
 */
void net_heal(struct net *net);

/*
 * Frees everything. 0, or OPTIONS_FAILURE if a host could not be booted, buffers have not come back, or the capture is
 * incomplete.
 */
int net_close(struct net *net);

/* The host of this name; NULL: there is none. */
struct net_host *net_host_find(struct net *net, const char *name);

#endif
