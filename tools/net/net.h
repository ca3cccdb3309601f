/*
 * net.h - creates a simulated world from a network file: links, hosts, their graphs, crashes and boots.
 *
 * net_read reads and checks the file, net_open creates the world, xk_sim_run lets time pass, net_close frees
 * everything, also after a failure. A status is 0, or the exit status after a message on standard error. Main thread
 * only.
 */
#ifndef NET_H
#define NET_H

#include <stdio.h>

#include "graphs/topology.h"
#include "platform/sim/sim.h"
#include "tools/net/net_settings.h"
#include "xkernel/capture.h"

struct journey;
struct net;
struct net_tap;
struct pcapng;

struct net_host {
	struct net *net;
	const struct xk_topology_host *topology;
	struct net_host_settings settings;
	struct xk_sim_host *sim;
	bool healed;                 /* will not crash */
	struct xk_trace_sink *steps; /* gets the host's steps from its next boot on, if no journey does; NULL: none */
	struct xk_capture sink;      /* with net->capture: for its taps (protocol vtap) */
	struct net_tap *taps;
	unsigned interfaces[XK_TOPOLOGY_DEVICES_MAX]; /* numbers in net->capture, by device */
};

struct net {
	const char *program;
	struct xk_topology *topology;
	struct xk_sim *sim;
	struct xk_sim_link **links; /* parallel to topology->links */
	struct net_host *hosts;     /* parallel to topology->hosts */
	struct pcapng *capture;     /* NULL: none */
	const char *capture_path;
	uint8_t *capture_bytes;  /* room for a message of several segments */
	FILE *trace;             /* for the kernels */
	bool traces;             /* for every message of every host */
	bool no_paths;           /* on all hosts; set before net_open */
	struct journey *journey; /* gets the hosts' steps; set before net_open, closed after net_close; NULL: none */
	bool failed;             /* a host could not be booted, or has leaked buffers */
};

/* Reads and checks the file, or size bytes of text; `file` is its name in messages. */
int net_read(struct net *net, const char *program, const char *file, const char *const *sets, unsigned set_count);
int net_read_text(struct net *net, const char *program, const char *file, const char *text, size_t size);

/* Creates the world; hosts boot when it runs. trace: NULL for standard error. */
int net_open(struct net *net, uint64_t seed, FILE *trace, bool traces);

/*
 * Starts a capture, with an interface for each host's devices and taps, into the file `path`, which is borrowed. Call
 * between net_open and the first step; net_close ends the capture.
 */
int net_capture_open(struct net *net, const char *path);

/* Captures the frame of a record of xk_sim_watch, if there are a frame and a capture. */
void net_capture_see(struct net *net, const struct xk_sim_record *record);

/* Ends the links' own faults: they no longer lose, duplicate, reorder or corrupt frames. Call between steps. */
void net_end_faults(struct net *net);

/*
 * Ends all faults: links no longer lose, duplicate, reorder or corrupt frames, hosts that are cut off or down return,
 * and none crashes. Call between steps.
 */
void net_heal(struct net *net);

enum { NET_PROMISE = 240 /* bytes of a sentence */ };

/*
 * Asks the protocols of all hosts for their promises (upi.h). at_rest: the hosts must also hold no buffer, and no
 * shepherd may wait. Returns NULL, or what is broken, as a sentence in why. Call between steps.
 */
const char *net_promise(const struct net *net, bool at_rest, char why[NET_PROMISE]);

/* Ends the capture, and stops the hosts that are up. net_close also does this if needed. */
void net_stop(struct net *net);

/*
 * Frees the world; net_open may create another one. Fails if a host could not be booted, if buffers have leaked, if a
 * message waited forever or a protocol had ended its host as a failure when the hosts stopped, or if the capture is
 * incomplete.
 */
int net_end(struct net *net);

/* Ends the world, if there is one, with the same status, and frees everything. */
int net_close(struct net *net);

/* Returns the host of this name, or NULL. */
struct net_host *net_host_find(struct net *net, const char *name);

#endif
