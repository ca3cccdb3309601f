/* pci_address.c - checks whether DPDK can use a PCI device. */
#define _GNU_SOURCE
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"

static const char dpdk_pci_devices[] = "/sys/bus/pci/devices";

/* The kernel's drivers that leave a device to programs, or share it with them. */
static const char *const dpdk_pci_drivers[] = { "vfio-pci", "uio_pci_generic", "igb_uio", "mlx4_core", "mlx5_core" };

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
		snprintf(why, size, "there is no PCI device %s: see `dpdk-devbind.py --status-dev net` or `lspci -D`",
			 address);
		return -ENODEV;
	}
	driver = dpdk_pci_driver(address, path, sizeof(path));
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(dpdk_pci_drivers); i++)
		if (strcmp(driver, dpdk_pci_drivers[i]) == 0)
			return 0;
	snprintf(why, size,
		 "PCI device %s belongs to %s%s%s: unbind it (as root: modprobe vfio-pci; dpdk-devbind.py "
		 "-b vfio-pci %s), and reserve huge pages (sysctl vm.nr_hugepages=128)",
		 address, driver[0] == '\0' ? "no driver" : "the kernel's driver \"", driver,
		 driver[0] == '\0' ? "" : "\"", address);
	return -EBUSY;
}
