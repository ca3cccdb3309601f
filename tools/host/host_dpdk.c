/* host_dpdk.c - a host's platform and ports on DPDK; only in builds with it (host_is_on_dpdk). */
#include <errno.h>
#include <string.h>

#include "platform/dpdk/dpdk.h"
#include "tools/host/host_private.h"

enum {
	HOST_TWO_MB = 128,          /* DPDK's memory for two hosts */
	HOST_DRIVER_BUFFERS = 1024, /* held by the rings and the cache of each further driver */
	HOST_DRIVER_MB = 6,         /* memory for each further driver of two hosts */
};

/* Returns the platform's name for a port's device, which may be stored in `name`. */
static const char *
host_device(const struct host *host, unsigned port, char name[NETNS_NAME])
{
	const struct host_options *options = &host->options;

	if (options->link->is_card && !host->port_is_set[port] && options->link_name != NULL)
		return options->link_name;
	if (!host_has_own_network(host))
		return host->port_names[port];
	host_interface_name(name, port, pair_end_names[options->end]);
	return name;
}

int
host_start_dpdk(struct host *host)
{
	unsigned further = host_driver_count(host) - 1;
	struct xk_dpdk_config config = {
		.core = host_core(host, 0),
		.buffers = XK_DPDK_BUFFERS + further * HOST_DRIVER_BUFFERS,
		.memory_mb = host->options.link->in_process ? HOST_TWO_MB + further * HOST_DRIVER_MB : 0,
		.telemetry = host->options.telemetry,
	};
	char why[XK_DPDK_WHY] = "", name[NETNS_NAME];

	static_assert((int)HOST_PORTS <= (int)XK_DPDK_PCI, "every port may be a card");
	for (unsigned i = 0; host->options.link->is_card && i < host->port_count; i++)
		config.pci[i] = host_device(host, i, name);
	if (xk_dpdk_start(&config, &host->platforms[0], why, sizeof(why)) != 0)
		return host_fail(host, "DPDK cannot be started", why);
	for (unsigned i = 1; i <= further; i++)
		if (xk_dpdk_start_beside(host->platforms[0], &host->platforms[i], why, sizeof(why)) != 0)
			return host_fail(host, "a further driver", why);
	return 0;
}

void
host_stop_dpdk(struct xk_platform *platform)
{
	xk_dpdk_stop(platform);
}

bool
host_port_is_up(const struct xk_port *port)
{
	return xk_dpdk_port_is_up(port);
}

int
host_begin_telemetry(struct host *host, void (*before_answer)(void *context), void *context)
{
	int err = xk_dpdk_telemetry_begin(host->kernel, before_answer, context);

	return err == 0 ? 0 : host_fail(host, "DPDK's telemetry", xk_error(err));
}

void
host_end_telemetry(struct host *host)
{
	if (host->kernel != NULL)
		xk_dpdk_telemetry_end(host->kernel);
}

int
host_open_ports(struct host *host)
{
	char why[XK_DPDK_WHY] = "", name[NETNS_NAME];

	for (unsigned i = 0; i < host->port_count; i++) {
		struct xk_dpdk_port_config config = {
			.link = host->options.link->name,
			.name = host->port_names[i],
			.device = host_device(host, i, name),
			.end = host->options.end == PAIR_CLIENT ? XK_DPDK_CLIENT : XK_DPDK_SERVER,
			.address = host->port_addresses[i],
		};

		if (xk_dpdk_open_lanes(host->platforms, host_driver_count(host), &config, host->ports[i], why,
				       sizeof(why)) != 0)
			return host_fail(host, host->port_names[i], why);
		for (unsigned lane = 0; lane < host_driver_count(host); lane++)
			if (host->options.driver != XK_DRIVER_POLL && !host->ports[i][lane]->can_sleep)
				return host_fail(host, host->port_names[i],
						 "its device cannot wake a sleeping driver: use --driver poll");
	}
	return 0;
}

int
host_open_rings(struct host hosts[2])
{
	struct xk_platform *const *const platforms[2] = { hosts[0].platforms, hosts[1].platforms };
	char why[XK_DPDK_WHY] = "";

	for (unsigned i = 0; i < hosts[0].port_count; i++) {
		const char *const names[2] = { hosts[0].port_names[i], hosts[1].port_names[i] };
		struct xk_port **const ports[2] = { hosts[0].ports[i], hosts[1].ports[i] };

		if (xk_dpdk_ring_open_lanes(platforms, host_driver_count(&hosts[0]), names, ports, why, sizeof(why)) !=
		    0)
			return host_fail(&hosts[0], names[0], why);
	}
	return 0;
}
