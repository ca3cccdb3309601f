/*
 * pci.c - link `pci`: any network card with a DPDK driver, by its PCI address. DPDK must have been started with that
 * address (struct xk_dpdk_config), and the card must have been taken from the kernel's driver.
 */
#define _GNU_SOURCE
#include <libgen.h>
#include <limits.h>
#include <rte_ethdev.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"
#include "xkernel/bytes.h"

static const char dpdk_pci_devices[] = "/sys/bus/pci/devices";

/* The kernel's drivers that leave a device to programs, or share it with them. */
static const char *const dpdk_pci_drivers[] = { "vfio-pci", "uio_pci_generic", "igb_uio", "mlx4_core", "mlx5_core" };

bool
dpdk_pci_address(const char *text, char *address, size_t size)
{
	unsigned domain = 0, bus, device, function;
	int end = 0;

	if (sscanf(text, "%4x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) != 4 || text[end] != '\0') {
		domain = 0;
		end = 0;
		if (sscanf(text, "%2x:%2x.%1x%n", &bus, &device, &function, &end) != 3 || text[end] != '\0')
			return false;
	}
	snprintf(address, size, "%04x:%02x:%02x.%x", domain, bus, device, function);
	return true;
}

/* Returns the name of the device's kernel driver, or "". */
static const char *
dpdk_pci_driver(const char *address, char *path, size_t size)
{
	char link[PATH_MAX];
	ssize_t len;

	snprintf(link, sizeof(link), "%s/%s/driver", dpdk_pci_devices, address);
	len = readlink(link, path, size - 1);
	path[len > 0 ? len : 0] = '\0';
	return len > 0 ? basename(path) : path;
}

int
dpdk_pci_check(const char *address, char *why, size_t size)
{
	char path[PATH_MAX];
	const char *driver;

	snprintf(path, sizeof(path), "%s/%s", dpdk_pci_devices, address);
	if (access(path, F_OK) != 0) {
		snprintf(why, size,
			 "there is no PCI device %s: `dpdk-devbind.py --status-dev net` or `lspci -D` lists "
			 "those there are",
			 address);
		return -ENODEV;
	}
	driver = dpdk_pci_driver(address, path, sizeof(path));
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(dpdk_pci_drivers); i++)
		if (strcmp(driver, dpdk_pci_drivers[i]) == 0)
			return 0;
	snprintf(why, size,
		 "PCI device %s belongs to %s%s%s: take it from there (as root: modprobe vfio-pci; dpdk-devbind.py "
		 "-b vfio-pci %s), and reserve huge pages (sysctl vm.nr_hugepages=128)",
		 address, driver[0] == '\0' ? "no driver" : "the kernel's driver \"", driver,
		 driver[0] == '\0' ? "" : "\"", address);
	return -EBUSY;
}

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
		snprintf(why, size, "the network card at %s does not spread frames over queues: take one driver",
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

	if (!dpdk_pci_address(config->device, device->name, sizeof(device->name))) {
		snprintf(why, size, "\"%.40s\" is no PCI address like 0000:01:00.0", config->device);
		return -EINVAL;
	}
	if (rte_eth_dev_get_port_by_name(device->name, &id) != 0) {
		snprintf(why, size, "DPDK has found no network card at %s that it has a driver for", device->name);
		return -ENODEV;
	}
	device->tells_link = true;
	device->is_read_outside = true;
	error = dpdk_pci_check_lanes(device, id, why, size);
	if (error == 0)
		error = dpdk_device_start(device, why, size);
	if (error != 0)
		return error;
	device->is_card = true;
	if (port->base.address != 0) {
		xk_put48(address.addr_bytes, port->base.address);
		if (rte_eth_dev_default_mac_addr_set(id, &address) != 0 && rte_eth_promiscuous_enable(id) != 0) {
			snprintf(why, size,
				 "the card %s takes no other link address than its own: leave port.address out",
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
