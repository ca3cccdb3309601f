/* host_link.c - the links of hosts, and the private networks and sockets of pairs; see host.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/pci_address.h"
#include "platform/private.h"
#include "tools/host/host_private.h"
#include "tools/host/netns.h"

enum { HOST_VIRTIO_DRIVERS = 8, HOST_TEXT = 256 };

#ifdef XK_HAVE_DPDK
enum { HOST_HAS_DPDK = true };
#else
enum { HOST_HAS_DPDK = false };
#endif

/* ---- links ---- */

static const struct host_link host_links[] = {
	/* two processes over shared memory */
	{ .name = "virtio", .on_dpdk = true, .can_sleep = true, .drivers = HOST_VIRTIO_DRIVERS },
	{ .name = "memif", .on_dpdk = true, .drivers = 1 },
	/* two hosts of one process over DPDK's rings */
	{ .name = "ring", .on_dpdk = true, .in_process = true, .drivers = HOST_DRIVERS_MAX },
	/* this machine's kernel; interfaces of the kernel, by a packet socket or an XDP socket */
	{ .name = "tap", .on_dpdk = true, .can_sleep = true, .has_interface = true, .drivers = 1 },
	{ .name = "af_packet", .on_dpdk = true, .can_sleep = true, .has_interface = true, .drivers = 1 },
	{ .name = "af_xdp", .on_dpdk = true, .can_sleep = true, .has_interface = true, .drivers = 1 },
	{ .name = "pci", .on_dpdk = true, .can_sleep = true, .is_card = true, .drivers = HOST_DRIVERS_MAX },
	/* two hosts of one process over queues in memory; two simulated hosts on virtual time */
	{ .name = "memory", .in_process = true, .can_sleep = true, .drivers = HOST_DRIVERS_MAX },
	{ .name = "sim", .in_process = true, .simulated = true, .can_sleep = true, .drivers = 1 },
};

int
host_link_find(const struct options_program *program, const char *name, int driver, const struct host_link **link)
{
	const struct host_link *end = host_links + XK_ARRAY_LENGTH(host_links), *l = host_links;
	char list[HOST_TEXT] = "", address[16];
	size_t len = 0;

	while (l < end && !(l->is_card ? xk_pci_address(name, address, sizeof(address)) : strcmp(l->name, name) == 0))
		l++;
	if (l == end || (l->on_dpdk && !HOST_HAS_DPDK)) {
		bool needs_dpdk = l < end;

		for (l = host_links; l < end && len < sizeof(list); l++)
			if (HOST_HAS_DPDK || !l->on_dpdk)
				len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", len == 0 ? "" : ", ",
							l->is_card ? "a PCI address" : l->name);
		if (needs_dpdk)
			return options_misuse(program,
					      "--link %s needs DPDK, which this build lacks; `./run build` builds "
					      "everything. This build has: %s",
					      name, list);
		return options_misuse(program, "--link %s is not available in this build; there are: %s", name, list);
	}
	*link = l;
	if ((driver != XK_DRIVER_INTERRUPT && driver != XK_DRIVER_ADAPTIVE) || l->can_sleep)
		return 0;
	return options_misuse(program,
			      "--link %s cannot wake a sleeping driver, so --driver %s is refused: use --driver poll",
			      name, driver == XK_DRIVER_INTERRUPT ? "interrupt" : "adaptive");
}

/* ---- pairs ---- */

/* Names an interface of a pair's own network: port `port` of an end, or its bridge. */
void
host_interface_name(char *name, unsigned port, const char *whose)
{
	snprintf(name, NETNS_NAME, "xk%u-%.8s", port % HOST_PORTS, whose);
}

bool
host_has_own_network(const struct host *host)
{
	bool any = false;

	for (unsigned i = 0; i < host->port_count; i++)
		any |= host->port_is_set[i];
	return host->options.paired && host->options.link->has_interface && !any;
}

int
host_prepare_pair(const struct host *host, bool far)
{
	bool is_tap = strcmp(host->options.link->name, "tap") == 0;
	char client[NETNS_NAME], server[NETNS_NAME], bridge[NETNS_NAME], why[NETNS_WHY];
	const char *const names[2] = { client, server };
	int err;

	if (far && host_has_own_network(host)) {
		fprintf(stderr,
			"%s: --far: each end needs an interface: --set client:port.dev=NAME --set "
			"server:port.dev=NAME\n",
			host->options.program);
		return OPTIONS_MISUSE;
	}
	if (far)
		return 0;
	if (host->options.link->is_card) {
		fprintf(stderr,
			"%s: a pair would need two network cards: start --server and --client separately, each with "
			"--link and its own PCI address\n",
			host->options.program);
		return OPTIONS_MISUSE;
	}
	if (!host_has_own_network(host))
		return 0;
	err = netns_enter(why, sizeof(why));
	for (unsigned i = 0; i < host->port_count && err == 0; i++) {
		host_interface_name(client, i, pair_end_names[PAIR_CLIENT]);
		host_interface_name(server, i, pair_end_names[PAIR_SERVER]);
		host_interface_name(bridge, i, "bridge");
		err = is_tap ? netns_taps(names, bridge, why, sizeof(why)) : netns_veth(names, i, why, sizeof(why));
	}
	if (err == 0)
		return 0;
	fprintf(stderr, "%s: --link %s cannot create a network for a pair: %s\n", host->options.program,
		host->options.link->name, why);
	return OPTIONS_FAILURE;
}

/* Removes sockets by name: port NAME has "xk-NAME.sock" in the user's run-time directory (xk_dpdk_socket_path). */
void
host_sweep(const char *prefix)
{
	char path[HOST_PATH], start[PAIR_NAME], why[HOST_TEXT];
	size_t len = (size_t)snprintf(start, sizeof(start), "xk-%s-", prefix);
	struct dirent *entry;
	DIR *directory;

	if (private_directory(path, sizeof(path), false, why, sizeof(why)) != 0)
		return;
	directory = opendir(path);
	while (directory != NULL && (entry = readdir(directory)) != NULL) {
		char *end;
		long pid;

		if (strncmp(entry->d_name, start, len) != 0)
			continue;
		pid = strtol(entry->d_name + len, &end, 10);
		if (*end == '-' && pid > 0 && pid < INT_MAX &&
		    (pid == (long)getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH)))
			unlinkat(dirfd(directory), entry->d_name, 0);
	}
	if (directory != NULL)
		closedir(directory);
}
