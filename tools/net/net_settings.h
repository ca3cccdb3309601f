/*
 * net_settings.h - settings of simulated hosts and links in network files, which graphs/topology.h reads. Main thread
 * only.
 *
 *	struct xk_graph_errors errors = { 0 };
 *	struct xk_topology *net = net_load(file, sets, set_count, &errors);
 *	struct net_host_settings host;
 *
 *	net_host_settings_of(net, &net->hosts[0], &host, &errors);      // cannot fail after net_load
 */
#ifndef NET_SETTINGS_H
#define NET_SETTINGS_H

#include "graphs/topology.h"
#include "platform/sim/sim.h"

enum { NET_CRASHES_MAX = 16 };

/* The settings of a host. */
struct net_host_settings {
	const char *costs_name; /* borrowed from the network, or constants */
	const char *crash_text, *boot_text;
	enum xk_mode mode;
	uint64_t threads, stacks, buffers; /* 0: the default */
	struct xk_sim_costs costs;         /* those of costs_name, overridden by the host's own */
	uint64_t start_ns, stagger_ns;     /* start: time of the first boot, including stagger */
	/* start < crash[0] < boot[0] < crash[1] ... */
	unsigned crash_count, boot_count; /* as many boots as crashes, or one less */
	uint64_t crash_ns[NET_CRASHES_MAX], boot_ns[NET_CRASHES_MAX];
};

/* For a struct net_host_settings. The settings of links are sim_link_settings. */
extern const struct xk_setting net_host_settings[];

/* Both tables, the presets of links, and the built-in protocols. */
extern const struct xk_topology_types net_types;

/* Loads a network like xk_topology_load, with net_types and net_check. */
struct xk_topology *net_load(const char *file, const char *const *sets, unsigned set_count,
			     struct xk_graph_errors *errors);

/* Checks the settings of hosts and links. Returns 0, or -EINVAL with the reasons in errors. */
int net_check(const struct xk_topology *net, struct xk_graph_errors *errors);

/* Gets a host's settings, which borrow the network's strings. Returns 0, or -EINVAL with the reasons in errors. */
int net_host_settings_of(const struct xk_topology *net, const struct xk_topology_host *host,
			 struct net_host_settings *settings, struct xk_graph_errors *errors);

/* The same for a link: its preset and its own settings. */
int net_link_config_of(const struct xk_topology *net, const struct xk_topology_link *link,
		       struct sim_link_config *config, struct xk_graph_errors *errors);

#endif
