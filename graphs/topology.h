/*
 * topology.h - network files: hosts and links, as an undirected DOT graph.
 *
 *	graph lab {
 *		graph [network="10.77.0.0/24"];                 // hosts get addresses from it, in the order of the file
 *		server [protocols="udptest.dot", mode=regular, threads=2];          // a host, and its graph file
 *		client [protocols="udptest.dot", set="udptest.port=2002", count=3]; // client1, client2, client3
 *		lan [link=ethernet10, loss="1%"];               // a node with `link` is a link ...
 *		server -- lan;                                  // ... and this joins a host to it
 *		client -- lan;
 *		server -- client [link=wide, latency="30ms"];   // links of their own, for two hosts each
 *	}
 *
 * They are read and checked like graph files, with errors as "file:line: what". The caller's tables list the settings
 * of hosts and links. The caller finds the values in `settings`, as text that the tables accept, and checks itself what
 * a table cannot express. docs/simulator.md describes the language. Everything here is for the main thread.
 */
#ifndef XK_TOPOLOGY_H
#define XK_TOPOLOGY_H

#include "graphs/graph.h"

enum {
	XK_TOPOLOGY_HOSTS_MAX = 10000, /* including `count` */
	XK_TOPOLOGY_DEVICES_MAX = 4,   /* of one host */
	XK_TOPOLOGY_VALUE_MAX = 512,   /* bytes of a setting's value */
	XK_TOPOLOGY_SET_MAX = 4096,    /* bytes of `set`, and of a graph's file name */
};

/* A link: a node with the attribute `link`, or an edge between two hosts. Nodes come first. */
struct xk_topology_link {
	char *name; /* a node's; "a--b" for an edge, "a--b-2" for the second between the same hosts */
	unsigned line;
	bool is_edge;
	unsigned written;                    /* the node's or the edge's index in topology->written */
	char *preset;                        /* the value of `link` */
	struct xk_graph_attributes settings; /* values of link_settings; each name once */
	unsigned device_count;               /* number of devices on the link */
};

/* A host's device. The ports of its graph use its devices in order, except for ports whose `dev` names one. */
struct xk_topology_device {
	unsigned link; /* index */
	unsigned line;
	char *name;       /* its name in the port protocol's `dev`: attribute `dev`, else "port", "port2", ... */
	uint64_t address; /* link address: attribute `address`, else made from the numbers of host and device */
	uint32_t host;    /* address on this link: attribute `host`, else the network's next; 0: no network */
	uint32_t bits;    /* of the network */
	bool is_shared;   /* another device may have `host`, too: attribute `shared` */
};

struct xk_topology_part;

/* The const members belong to the topology; hosts of one node share them. */
struct xk_topology_host {
	char *name; /* with `count`: the node's, followed by 1, 2, ... */
	unsigned line;
	unsigned number;   /* from 0, in the order of the file */
	unsigned written;  /* the node's index in topology->written */
	const char *graph; /* `protocols`, as found: beside the network file, in the directory above, or as given */
	const char *const *sets; /* "node.attribute=value"; no attribute twice */
	unsigned set_count;
	/* Values of host_settings, each name once: the host's own, else the graph's, which apply to all hosts. */
	const struct xk_graph_attributes *settings;
	/*
	 * The host's graph with its sets, checked, to build from as often as needed. Hosts with the same graph and sets
	 * share it: anything else that is set in it (an address) must be set for each of them.
	 */
	struct xk_graph *checked;
	struct xk_topology_device *devices; /* in the order of the file */
	unsigned device_count;
	struct xk_topology_part *part;
};

struct xk_topology {
	char *file;
	struct xk_topology_link *links;
	unsigned link_count;
	struct xk_topology_host *hosts;
	unsigned host_count;
	struct xk_graph *written; /* the network file as data */
	struct xk_topology_part *parts;
};

/* The settings of hosts and links, besides the attributes of this file. Outlives the topology. */
struct xk_topology_types {
	const struct xk_setting *link_settings, *host_settings;
	const char *const *presets; /* the values of `link`; terminated by NULL */
	const struct xk_protocol_type *const *protocols;
};

/*
 * Reads, sets and checks; loads and checks every host's graph, too. A set is "node.attribute=value" for a host or a
 * link (also for one host of a `count`, and for an edge by its link's name), "graph.attribute=value" for the network,
 * "host.protocol.attribute=value" for that host's graph, or "graph.protocol.attribute=value" for every host's graph.
 * Returns NULL, with the reasons in errors, if the network is refused.
 */
struct xk_topology *xk_topology_load(const char *file, const char *const *sets, unsigned set_count,
				     const struct xk_topology_types *types, struct xk_graph_errors *errors);

/*
 * Loads a network like xk_topology_load, but from size bytes of text; file is the name in errors, and the directory of
 * graphs.
 */
struct xk_topology *xk_topology_load_text(const char *file, const char *text, size_t size, const char *const *sets,
					  unsigned set_count, const struct xk_topology_types *types,
					  struct xk_graph_errors *errors);

/*
 * Returns true if file contains a network (an undirected graph) instead of a protocol graph; false also if it cannot be
 * read.
 */
bool xk_topology_is_network(const char *file);

/*
 * Adds an error about an attribute of the topology, like "mode of server is ...", at the line where it is written (0:
 * by --set). For callers that check values.
 */
__attribute__((format(printf, 4, 5))) void xk_topology_refuse(const struct xk_topology *topology,
							      struct xk_graph_errors *errors, unsigned line,
							      const char *format, ...);

/* Writes topology as DOT, for drawing. */
void xk_topology_draw(const struct xk_topology *topology, FILE *stream);

/* Frees topology, which may be NULL. */
void xk_topology_free(struct xk_topology *topology);

#endif
