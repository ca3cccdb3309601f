/*
 * pci.c - link `pci`: any network card with a DPDK driver, by its PCI address. DPDK must have been started with that
 * address (struct xk_dpdk_config), and the card must have been unbound from the kernel's driver.
 */
#define _GNU_SOURCE
#include <rte_ethdev.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"
#include "platform/pci_address.h"
#include "xkernel/bytes.h"

/* Fails unless the card has a queue for each lane, and spreads received frames over them. */
static int
dpdk_pci_check_lanes(const struct dpdk_device *device, uint16_t id, char *why, size_t size)
{
	struct rte_eth_dev_info info;
	int error = rte_eth_dev_info_get(id, &info);
	unsigned most;

	if (error != 0 || device->port_count == 1)
		return 0; /* dpdk_device_start reports the error */
	most = info.max_rx_queues < info.max_tx_queues ? info.max_rx_queues : info.max_tx_queues;
	if (device->port_count > most)
		snprintf(why, size, "the network card at %s has at most %u queue%s, and this host has %u drivers",
			 device->name, most, most == 1 ? "" : "s", device->port_count);
	else if (info.flow_type_rss_offloads == 0)
		snprintf(why, size, "the network card at %s does not spread frames over queues: use one driver",
			 device->name);
	else
		return 0;
	return -ENOTSUP;
}

static int
dpdk_pci_open(struct dpdk_port *port, const struct xk_dpdk_port_config *config, char *why, size_t size)
{
	struct dpdk_device *device = port->device;
	struct rte_ether_addr address;
	struct rte_eth_link link = { 0 };
	uint16_t mtu, id;
	int error;

	if (!xk_pci_address(config->device, device->name, sizeof(device->name))) {
		snprintf(why, size, "\"%.40s\" is not a PCI address like 0000:01:00.0", config->device);
		return -EINVAL;
	}
	if (rte_eth_dev_get_port_by_name(device->name, &id) != 0) {
		snprintf(why, size, "DPDK found no network card at %s with a driver", device->name);
		return -ENODEV;
	}
	device->reports_link = true;
	device->is_read_by_others = true;
	error = dpdk_pci_check_lanes(device, id, why, size);
	if (error == 0)
		error = dpdk_device_start(device, why, size);
	if (error != 0)
		return error;
	device->is_card = true;
	if (port->base.address != 0) {
		xk_put48(address.addr_bytes, port->base.address);
		if (rte_eth_dev_default_mac_addr_set(id, &address) != 0 && rte_eth_promiscuous_enable(id) != 0) {
			snprintf(why, size, "the card %s cannot change its link address: leave port.address out",
				 device->name);
			return -ENOTSUP;
		}
	} else if (rte_eth_macaddr_get(id, &address) == 0) {
		port->base.address = xk_get48(address.addr_bytes);
	}
	if (rte_eth_dev_get_mtu(id, &mtu) == 0 && mtu < port->base.mtu)
		port->base.mtu = mtu;
	if (rte_eth_link_get_nowait(id, &link) != 0 || link.link_status == RTE_ETH_LINK_UP)
		dpdk_device_set_up(device, true);
	return 0;
}

const struct dpdk_link dpdk_link_pci = {
	.about = { "pci", "a network card, by its PCI address: 0000:01:00.0", XK_DPDK_NEEDS_PCI, true, XK_DRIVERS },
	.open = dpdk_pci_open,
};
