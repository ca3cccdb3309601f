/* link.c - the links there are, and how a port on any of them is opened. */
#include <stdio.h>
#include <string.h>

#include "platform/dpdk/inside.h"

static const struct dpdk_link *const dpdk_links[] = {
	&dpdk_link_virtio, &dpdk_link_memif, &dpdk_link_ring, &dpdk_link_tap,
	&dpdk_link_packet, &dpdk_link_xdp,   &dpdk_link_pci,
};

const struct xk_dpdk_link *
xk_dpdk_link(unsigned index)
{
	return index < XK_ARRAY_LENGTH(dpdk_links) ? &dpdk_links[index]->about : NULL;
}

static const struct dpdk_link *
dpdk_link_find(const char *name)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(dpdk_links); i++)
		if (strcmp(dpdk_links[i]->about.name, name) == 0)
			return dpdk_links[i];
	return NULL;
}

struct xk_port *
xk_dpdk_open(struct xk_platform *platform, const struct xk_dpdk_port_config *config, char *why, size_t size)
{
	struct xk_dpdk_port_config whole = *config;
	const struct dpdk_link *link = dpdk_link_find(config->link);
	struct dpdk_port *port;

	if (link == NULL || link->open == NULL) {
		snprintf(why, size, "there is no link \"%s\" to be opened one end at a time", config->link);
		return NULL;
	}
	if (whole.device == NULL)
		whole.device = whole.name;
	port = dpdk_port_new(platform, config->name, link, why, size);
	if (port == NULL)
		return NULL;
	dpdk_eal_log_reset();
	if (link->open(port, &whole, why, size) != 0) {
		dpdk_port_close(&port->base);
		return NULL;
	}
	if (config->address != 0)
		port->base.address = config->address;
	return &port->base;
}

struct xk_port *
xk_dpdk_virtio_open(struct xk_platform *platform, const struct xk_dpdk_virtio_config *config, char *why, size_t size)
{
	struct xk_dpdk_port_config whole = { .link = dpdk_link_virtio.about.name,
					     .name = config->name,
					     .device = config->socket,
					     .end = config->end,
					     .address = config->address,
					     .wait_ms = config->wait_ms };

	return xk_dpdk_open(platform, &whole, why, size);
}
