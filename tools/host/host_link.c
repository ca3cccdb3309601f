/* host_link.c - the links that hosts stand on, and a host's ports on those that are DPDK's; see host.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/host/host_private.h"
#include "tools/host/netns.h"
#ifdef XK_HAVE_DPDK
#include "platform/dpdk/dpdk.h"
#endif

#ifdef XK_HAVE_DPDK
#define HOST_HAS_DPDK true
#else
#define HOST_HAS_DPDK false
#endif

enum {
	HOST_TWO_MB = 128,          /* of DPDK's memory, where two hosts share it */
	HOST_DRIVER_BUFFERS = 1024, /* more for each further driver: its rings and cache hold so many */
	HOST_DRIVER_MB = 6,         /* of two hosts */
	HOST_VIRTIO_DRIVERS = 8,
	HOST_TEXT = 256,
};

static const struct host_link host_links[] = {
	{ .name = "virtio",
	  .help = "two processes over shared memory (virtio-user to vhost-user)",
	  .available = HOST_HAS_DPDK,
	  .can_sleep = true,
	  .drivers = HOST_VIRTIO_DRIVERS },
	{ .name = "memif",
	  .help = "two processes over shared memory (memif)",
	  .available = HOST_HAS_DPDK,
	  .drivers = 1 },
	{ .name = "ring",
	  .help = "two hosts in one process over DPDK rings",
	  .available = HOST_HAS_DPDK,
	  .in_process = true,
	  .drivers = HOST_DRIVERS_MAX },
	{ .name = "tap",
	  .help = "this machine's kernel, or what it joins the interface with",
	  .available = HOST_HAS_DPDK,
	  .can_sleep = true,
	  .has_interface = true,
	  .drivers = 1 },
	{ .name = "af_packet",
	  .help = "a network interface of the kernel's, by a packet socket",
	  .available = HOST_HAS_DPDK,
	  .can_sleep = true,
	  .has_interface = true,
	  .drivers = 1 },
	{ .name = "af_xdp",
	  .help = "a network interface of the kernel's, by an XDP socket",
	  .available = HOST_HAS_DPDK,
	  .can_sleep = true,
	  .has_interface = true,
	  .drivers = 1 },
	{ .name = "pci",
	  .help = "a network card, by its PCI address: 0000:01:00.0",
	  .available = HOST_HAS_DPDK,
	  .can_sleep = true,
	  .is_card = true,
	  .drivers = HOST_DRIVERS_MAX },
	{ .name = "memory",
	  .help = "two hosts in one process over queues in memory, without DPDK",
	  .available = true,
	  .in_process = true,
	  .can_sleep = true,
	  .drivers = HOST_DRIVERS_MAX },
	{ .name = "sim",
	  .help = "two simulated hosts on virtual time",
	  .available = true,
	  .in_process = true,
	  .simulated = true,
	  .can_sleep = true,
	  .drivers = 1 },
};

/* ---- links ---- */

static void
host_link_list(char *text, size_t size)
{
	size_t len = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(host_links); i++)
		if (host_links[i].available && len < size)
			len += (size_t)snprintf(text + len, size - len, "%s%s", len == 0 ? "" : ", ",
						host_links[i].is_card ? "a PCI address" : host_links[i].name);
}

static bool
host_is_pci_address(const char *text)
{
	unsigned domain, bus, device, function;
	int end = 0;

	if (sscanf(text, "%4x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) == 4 && text[end] == '\0')
		return true;
	return sscanf(text, "%2x:%2x.%1x%n", &bus, &device, &function, &end) == 3 && text[end] == '\0';
}

static const struct host_link *
host_link_called(const char *name)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(host_links); i++)
		if (host_links[i].available &&
		    (host_links[i].is_card ? host_is_pci_address(name) : strcmp(host_links[i].name, name) == 0))
			return &host_links[i];
	return NULL;
}

int
host_link_find(const struct options_program *program, const char *name, int driver, const struct host_link **link)
{
	char list[HOST_TEXT];

	*link = host_link_called(name);
	if (*link == NULL) {
		host_link_list(list, sizeof(list));
		return options_misuse(program, "--link %s is not available in this build; there are: %s", name, list);
	}
	if ((driver != XK_DRIVER_INTERRUPT && driver != XK_DRIVER_ADAPTIVE) || (*link)->can_sleep)
		return 0;
	return options_misuse(program,
			      "--link %s cannot wake a sleeping driver, so --driver %s is refused: use --driver poll",
			      name, driver == XK_DRIVER_INTERRUPT ? "interrupt" : "adaptive");
}

/* ---- pairs ---- */

/* The interfaces of a pair's own network: who stands on them, and what joins them, of port `port`. */
static void
host_interface_name(char *name, unsigned port, const char *whose)
{
	snprintf(name, NETNS_NAME, "xk%u-%.8s", port % HOST_PORTS, whose);
}

static bool
host_has_own_network(const struct host *host)
{
	bool any = false;

	for (unsigned i = 0; i < host->port_count; i++)
		any |= host->port_is_set[i];
	return host->options.paired && host->options.link->has_interface && !any;
}

static int
host_make_interfaces(const struct host *host, unsigned port, char *why, size_t size)
{
	char client[NETNS_NAME], server[NETNS_NAME], bridge[NETNS_NAME];
	const char *const names[2] = { client, server };

	host_interface_name(client, port, pair_end_names[PAIR_CLIENT]);
	host_interface_name(server, port, pair_end_names[PAIR_SERVER]);
	host_interface_name(bridge, port, "bridge");
	if (strcmp(host->options.link->name, "tap") == 0)
		return netns_taps(names, bridge, why, size);
	return netns_veth(names, port, why, size);
}

int
host_prepare_pair(const struct host *host)
{
	char why[NETNS_WHY];
	int error;

	if (host->options.link->is_card) {
		fprintf(stderr,
			"%s: a pair would need two network cards: start --server and --client by themselves, each with "
			"--link and the PCI address of its own\n",
			host->options.program);
		return OPTIONS_MISUSE;
	}
	if (!host_has_own_network(host))
		return 0;
	error = netns_enter(why, sizeof(why));
	for (unsigned i = 0; i < host->port_count && error == 0; i++)
		error = host_make_interfaces(host, i, why, sizeof(why));
	if (error == 0)
		return 0;
	fprintf(stderr, "%s: --link %s has no network for a pair: %s\n", host->options.program,
		host->options.link->name, why);
	return OPTIONS_FAILURE;
}

/* ---- platform and ports ---- */

bool
host_is_on_dpdk(const struct host *host)
{
	return host->world == NULL && strcmp(host->options.link->name, "memory") != 0;
}

#ifdef XK_HAVE_DPDK

/* What a port stands on, as the platform calls it. */
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
		.core = host->options.cores == NULL ? host->options.core : (int)host->options.cores[0],
		.buffers = XK_DPDK_BUFFERS + further * HOST_DRIVER_BUFFERS,
		.memory_mb = host->options.link->in_process ? HOST_TWO_MB + further * HOST_DRIVER_MB : 0,
		.telemetry = host->options.telemetry,
	};
	char why[XK_DPDK_WHY] = "", name[NETNS_NAME];

	static_assert((int)HOST_PORTS <= (int)XK_DPDK_PCI, "every port can be a card");
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

int
host_begin_telemetry(struct host *host, void (*asked)(void *context), void *context)
{
	int error = xk_dpdk_telemetry_begin(host->kernel, asked, context);

	return error == 0 ? 0 : host_fail(host, "DPDK's telemetry", strerror(-error));
}

void
host_end_telemetry(struct host *host)
{
	if (host->kernel != NULL)
		xk_dpdk_telemetry_end(host->kernel);
}

static bool
host_can_sleep(const struct host *host, unsigned port)
{
	bool can = true;

	for (unsigned i = 0; i < host_driver_count(host); i++)
		can &= host->ports[port][i]->can_sleep;
	return can;
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
		};

		if (xk_dpdk_open_lanes(host->platforms, host_driver_count(host), &config, host->ports[i], why,
				       sizeof(why)) != 0)
			return host_fail(host, host->port_names[i], why);
		if (host->options.driver != XK_DRIVER_POLL && !host_can_sleep(host, i))
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

void
host_count_device(const struct host *host, unsigned port, const struct xk_port *lane, struct pair_counts *counts)
{
	struct xk_dpdk_port_counts device;
	char name[PAIR_NAME];

	if (!host_is_on_dpdk(host))
		return;
	xk_dpdk_port_counts(lane, &device);
	snprintf(name, sizeof(name), "%.40s.no_peer", host->port_nodes[port]);
	pair_counts_drop(counts, name, device.no_peer);
	snprintf(name, sizeof(name), "%.40s.device_too_long", host->port_nodes[port]);
	pair_counts_drop(counts, name, device.too_long);
	snprintf(name, sizeof(name), "%.40s.malformed", host->port_nodes[port]);
	pair_counts_drop(counts, name, device.malformed);
}

/* This process sweeps when its own ends have ended, or have not begun. */
static bool
host_is_gone(long pid)
{
	if (pid == (long)getpid())
		return true;
	return pid > 0 && pid < INT_MAX && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

static void
host_sweep_directory(DIR *directory, const char *start)
{
	size_t len = strlen(start);
	struct dirent *entry;

	while ((entry = readdir(directory)) != NULL) {
		char *end;
		long pid;

		if (strncmp(entry->d_name, start, len) != 0)
			continue;
		pid = strtol(entry->d_name + len, &end, 10);
		if (*end == '-' && host_is_gone(pid))
			unlinkat(dirfd(directory), entry->d_name, 0);
	}
}

/* What the platform makes of a word shows where its sockets are and how their names begin. */
void
host_sweep(const char *prefix)
{
	char word[PAIR_NAME], path[HOST_PATH], why[XK_DPDK_WHY], *start, *end;
	DIR *directory;

	snprintf(word, sizeof(word), "%s-", prefix);
	if (xk_dpdk_socket_path(word, path, sizeof(path), why, sizeof(why)) != 0)
		return;
	start = strrchr(path, '/');
	end = start == NULL ? NULL : strstr(start, word);
	if (end == NULL)
		return;
	*start++ = '\0';
	end[strlen(word)] = '\0';
	directory = opendir(path);
	if (directory == NULL)
		return;
	host_sweep_directory(directory, start);
	closedir(directory);
}

#else

int
host_start_dpdk(struct host *host)
{
	return host_fail(host, "DPDK", "not in this build");
}

void
host_stop_dpdk(struct xk_platform *platform)
{
}

int
host_begin_telemetry(struct host *host, void (*asked)(void *context), void *context)
{
	return host_fail(host, "DPDK's telemetry", "not in this build");
}

void
host_end_telemetry(struct host *host)
{
}

int
host_open_ports(struct host *host)
{
	return host_fail(host, host->options.link->name, "not in this build");
}

int
host_open_rings(struct host hosts[2])
{
	return host_fail(&hosts[0], "ring", "not in this build");
}

void
host_count_device(const struct host *host, unsigned port, const struct xk_port *lane, struct pair_counts *counts)
{
}

void
host_sweep(const char *prefix)
{
}

#endif
