/* link.c - lists the links, and opens a port on any of them. */
#include <stdio.h>
#include <string.h>

#include "platform/dpdk/dpdk_private.h"

static const struct dpdk_link *const dpdk_links[] = {
	&dpdk_link_virtio, &dpdk_link_memif, &dpdk_link_ring, &dpdk_link_tap,
	&dpdk_link_packet, &dpdk_link_xdp,   &dpdk_link_pci,
};

const struct xk_dpdk_link *
xk_dpdk_link(unsigned index)
{
	return index < XK_ARRAY_LENGTH(dpdk_links) ? &dpdk_links[index]->about : NULL;
}

/* Returns the link called name, if a port on it can have `lanes` lanes, or NULL and why. */
static const struct dpdk_link *
dpdk_link_choose(const char *name, unsigned lanes, char *why, size_t size)
{
	const struct dpdk_link *link = NULL;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(dpdk_links); i++)
		if (strcmp(dpdk_links[i]->about.name, name) == 0)
			link = dpdk_links[i];
	if (link == NULL || link->open == NULL) {
		snprintf(why, size, "there is no link \"%s\" whose ends are opened one at a time", name);
		return NULL;
	}
	if (lanes <= link->about.lanes)
		return link;
	snprintf(why, size, "a port on link %s has at most %u queue%s, and this host has %u drivers", name,
		 link->about.lanes, link->about.lanes == 1 ? "" : "s", lanes);
	return NULL;
}

int
xk_dpdk_open_lanes(struct xk_platform *const *platforms, unsigned count, const struct xk_dpdk_port_config *config,
		   struct xk_port **ports, char *why, size_t size)
{
	struct xk_dpdk_port_config whole = *config;
	const struct dpdk_link *link = dpdk_link_choose(config->link, count, why, size);
	struct dpdk_port *port;
	int error;

	if (link == NULL)
		return -EINVAL;
	if (whole.device == NULL)
		whole.device = whole.name;
	port = dpdk_port_new(platforms, count, config->name, link, why, size);
	if (port == NULL)
		return -ENOMEM;
	port->base.address = config->address;
	dpdk_eal_log_reset();
	error = link->open(port, &whole, why, size);
	if (error != 0) {
		dpdk_port_close_all(port);
		return error;
	}
	if (config->address != 0)
		port->base.address = config->address;
	dpdk_port_list(port, ports);
	return 0;
}

struct xk_port *
xk_dpdk_open(struct xk_platform *platform, const struct xk_dpdk_port_config *config, char *why, size_t size)
{
	struct xk_port *port;

	return xk_dpdk_open_lanes(&platform, 1, config, &port, why, size) == 0 ? port : NULL;
}
