/* pci_address.h - PCI addresses as text, also for programs without DPDK. */
#ifndef XK_PCI_ADDRESS_H
#define XK_PCI_ADDRESS_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Writes the full form, "0000:03:00.1", of a PCI address whose domain may be missing. Returns false if text is not one.
 */
static inline bool
xk_pci_address(const char *text, char *address, size_t size)
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

#endif
