/*
 * topology.h - network files: hosts and links, as an undirected DOT graph.
 *
 *	graph lab {
 *		graph [network="10.77.0.0/24"];                 // hosts get addresses from it, in the order of the file
 *		client [graph="udptest.dot", set="udptest.peer=10.77.0.2"];
 *		server [graph="udptest.dot", mode=regular, threads=2];
 *		lan [link=ethernet10, loss="1%"];               // a node with `link` is a link ...
 *		client -- lan;                                  // ... and this joins a host to it
 *		client -- server [link=wide, latency="30ms"];   // a link of their own
 *	}
 *
 * Read and checked like graph files, with all that is wrong as "file:line: what". What a host and a link may be set to
 * is not known here: the caller says so with tables of settings. The language is described in docs/simulator.md.
 * Everything here is for the main thread.
 */
#ifndef XK_TOPOLOGY_H
#define XK_TOPOLOGY_H

#include "graphs/graph.h"

enum {
	XK_TOPOLOGY_HOSTS_MAX = 10000, /* with `count` */
	XK_TOPOLOGY_DEVICES_MAX = 4,   /* of one host */
};

/* A link: a node with the attribute `link`, or an edge between two hosts. */
struct xk_topology_link {
	char *name; /* of the node; "a--b" of an edge */
	unsigned line;
	char *preset;                         /* the value of `link` */
	struct xk_graph_attributes settings;  /* the others that link_settings know */
};

/* A host's device. */
struct xk_topology_device {
	unsigned link; /* index */
	unsigned line;
	char *name;       /* what the port protocol's `dev` calls it: attribute `dev`, else "port", "port2", ... */
	uint64_t address; /* link address: attribute `address`, else made from the host's number and the device's */
	uint32_t host;    /* the host's address on this link: attribute `host`, else the next of the network; 0: no network */
	uint32_t bits;    /* of the network */
};

struct xk_topology_host {
	char *name; /* with `count`: the node's, followed by 1, 2, ... */
	unsigned line;
	unsigned number; /* from 0, in the order of the file */
	char *graph;     /* the file, as found: beside the network file, or in the directory above it, or as given */
	char **sets;     /* "node.attribute=value" */
	unsigned set_count;
	struct xk_graph_attributes settings; /* the others that host_settings know; the graph's defaults first */
	struct xk_topology_device *devices;  /* in the order of the file */
	unsigned device_count;
};

struct xk_topology {
	char *file;
	struct xk_topology_link *links;
	unsigned link_count;
	struct xk_topology_host *hosts;
	unsigned host_count;
	/* for drawing: what was written */
	struct xk_graph *written;
};

/* What hosts and links may be set to besides what this file says. */
struct xk_topology_types {
	const struct xk_setting *link_settings, *host_settings;
	/* Whether there is a preset of this name; NULL ends the list. */
	const char *const *presets;
	const struct xk_protocol_type *const *protocols;
};

/*
 * Reads, sets and checks; every host's graph is loaded and checked too. sets: "node.attribute=value" for hosts and
 * links; "node.protocol.attribute=value" is a host's graph's. NULL: refused, and errors say why.
 */
struct xk_topology *xk_topology_load(const char *file, const char *const *sets, unsigned set_count,
				     const struct xk_topology_types *types, struct xk_graph_errors *errors);

/* As xk_topology_load, of size bytes of text; file is the name in errors, and where graphs are looked for. */
struct xk_topology *xk_topology_load_text(const char *file, const char *text, size_t size, const char *const *sets,
					  unsigned set_count, const struct xk_topology_types *types,
					  struct xk_graph_errors *errors);

/* Whether file holds a network (an undirected graph) rather than a protocol graph; false also if it cannot be read. */
bool xk_topology_is_one(const char *file);

/* Writes topology as DOT, for drawing. */
void xk_topology_draw(const struct xk_topology *topology, FILE *stream);

/* NULL is let through. */
void xk_topology_free(struct xk_topology *topology);

#endif
