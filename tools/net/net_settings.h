/*
 * net_settings.h - network files of simulated hosts: what a host and a link in them may be set to, and what they are set
 * to. graphs/topology.h reads the files; the simulator (platform/sim/sim.h) is made of what is found here.
 *
 *	struct xk_graph_errors errors = { 0 };
 *	struct xk_topology *net = net_load(file, sets, set_count, &errors);
 *	struct net_host_settings host;
 *
 *	net_host_settings_of(net, &net->hosts[0], &host, &errors);      // of a network that was loaded: cannot fail
 *
 * Everything here is for the main thread.
 */
#ifndef NET_SETTINGS_H
#define NET_SETTINGS_H

#include "graphs/topology.h"
#include "platform/sim/sim.h"

enum { NET_CRASHES_MAX = 16 };

/* What a host is set to. */
struct net_host_settings {
	const char *mode_name, *costs_name; /* the network's text, or constant */
	const char *crash_text, *boot_text;
	enum xk_mode mode;
	uint64_t threads, stacks, buffers; /* 0: the usual number */
	struct xk_sim_costs costs;         /* those of costs_name, where the host does not say otherwise */
	uint64_t start_ns, stagger_ns;     /* when it is booted first, stagger included */
	/* Then it crashes and is booted again, in turn: start < crash[0] < boot[0] < crash[1] ... */
	unsigned crash_count, boot_count; /* equal, or one crash more */
	uint64_t crash_ns[NET_CRASHES_MAX], boot_ns[NET_CRASHES_MAX];
};

/* The table of a host's settings; the struct is struct net_host_settings. A link's is sim_link_settings. */
extern const struct xk_setting net_host_settings[];

/* With both tables, the presets of links, and the protocols that were built in. */
extern const struct xk_topology_types net_types;

/*
 * xk_topology_load with net_types, and every host and link has settings that make sense together. NULL: refused, and
 * errors say why.
 */
struct xk_topology *net_load(const char *file, const char *const *sets, unsigned set_count,
			     struct xk_graph_errors *errors);

/* The second half of net_load: 0, or -EINVAL and errors say why. */
int net_check(const struct xk_topology *net, struct xk_graph_errors *errors);

/* What a host is set to. 0; -EINVAL: a value is none, and errors say which. Texts in *settings are the network's. */
int net_host_settings_of(const struct xk_topology *net, const struct xk_topology_host *host,
			 struct net_host_settings *settings, struct xk_graph_errors *errors);

/* The same of a link: its preset, and what is set besides. */
int net_link_config_of(const struct xk_topology *net, const struct xk_topology_link *link,
		       struct sim_link_config *config, struct xk_graph_errors *errors);

#endif
