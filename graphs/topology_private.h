/* topology_private.h - shared by the files that load a network. */
#ifndef XK_TOPOLOGY_PRIVATE_H
#define XK_TOPOLOGY_PRIVATE_H

#include "graphs/attributes.h"
#include "graphs/topology.h"

/* The places where an attribute may appear. */
enum topology_where {
	TOPOLOGY_GRAPH = 1 << 0,
	TOPOLOGY_HOST = 1 << 1,
	TOPOLOGY_LINK = 1 << 2,   /* a node */
	TOPOLOGY_DEVICE = 1 << 3, /* an edge that joins a host to a link */
	TOPOLOGY_WIRE = 1 << 4,   /* an edge that is a link */
};

/* The common part of the hosts of one node. A host changed individually by --set has its own. */
struct xk_topology_part {
	struct xk_topology_part *next;
	unsigned line;                       /* line of `protocols`; 0: from --set */
	char *graph;                         /* NULL: refused */
	struct xk_graph_attributes given;    /* its sets, by "node.attribute"; line 0: from --set */
	const char **sets;                   /* the same, as text */
	struct xk_graph_attributes settings; /* the graph's defaults, overridden by the host's own */
	uint64_t hash;                       /* of graph and given */
	struct xk_graph *checked;            /* NULL: refused */
	bool is_owner;                       /* owner of `checked` */
	bool is_single;                      /* belongs to one host, by --set */
	bool is_bad;                         /* the graph itself is refused, independent of the sets */
};

/* A node of the file. */
struct topology_node {
	enum topology_where where; /* TOPOLOGY_HOST or TOPOLOGY_LINK */
	unsigned first, count;     /* its hosts; or its link, and 1 */
	bool counted;              /* has a `count` attribute */
	struct xk_topology_part *part;
	struct xk_graph_attributes given; /* sets from --set for its graph */
};

/* State of a load. */
struct topology_load {
	struct attributes_check check; /* of topology->written, which it marks refused */
	const struct xk_topology_types *types;
	struct xk_topology *topology;
	struct topology_node *nodes;           /* parallel to topology->written->nodes */
	unsigned *node_order;                  /* indices in the order of the file */
	unsigned *edge_order;                  /* the same for edges */
	struct xk_graph_attributes file_given; /* sets in the file for every host's graph */
	struct xk_graph_attributes given;      /* the same from --set */
};

static inline struct xk_graph *
topology_written(const struct topology_load *load)
{
	return load->topology->written;
}

/* ---- topology_attributes.c ---- */

/* Refuses attributes that may not appear there. of: their owner, for errors. */
void topology_check_attributes(struct topology_load *load, enum topology_where where, const char *of,
			       const struct xk_graph_attributes *attributes);

/* Returns the setting called name in types' table for that place, or NULL. */
const struct xk_setting *topology_setting(const struct topology_load *load, enum topology_where where,
					  const char *name);

/* The same for a single attribute. */
void topology_check_attribute(struct topology_load *load, enum topology_where where, const char *of,
			      const struct xk_graph_attribute *a);

/* Parses the value of a checked attribute into place. Returns false if it is absent or was refused. */
bool topology_value(const struct xk_graph_attributes *attributes, const char *name, void *place);

/* Copies attributes; they replace those of the same names. */
void topology_merge(struct xk_graph_attributes *into, const struct xk_graph_attributes *attributes);

/* The same, but only for settings in types' tables. */
void topology_merge_settings(const struct topology_load *load, enum topology_where where,
			     struct xk_graph_attributes *into, const struct xk_graph_attributes *attributes);

/* Writes the presets as "ethernet10, fddi, ..." into text, and returns text. */
const char *topology_list_presets(const struct topology_load *load, char *text, size_t size);

/* ---- topology_host.c ---- */

/* Parses the attribute `set`, "node.attribute=value ...", of `of` into `into`. */
void topology_parse_sets(struct topology_load *load, const char *of, const struct xk_graph_attributes *attributes,
			 struct xk_graph_attributes *into);

/* Adds the part of a host node to topology->parts, from its attributes, the graph's and --set. */
struct xk_topology_part *topology_part_new(struct topology_load *load, const struct xk_graph_node *node);

/* Adds a copy of part, for a single host. */
struct xk_topology_part *topology_part_copy(struct topology_load *load, const struct xk_topology_part *part);

/* Loads every part's graph, and refuses hosts whose devices do not match their graph's ports. */
void topology_check_graphs(struct topology_load *load);

/* ---- topology_join.c ---- */

/* Finds the kind of every node and edge, and checks its attributes. */
void topology_classify(struct topology_load *load);

/* Creates hosts, links and devices. Returns false if there are too many. */
bool topology_create(struct topology_load *load);

/* ---- topology_address.c ---- */

/* Gives every device its host address, and refuses addresses of two devices. */
void topology_assign_addresses(struct topology_load *load);

#endif
