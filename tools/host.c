/* host.c - see host.h. */
#define _GNU_SOURCE
#include "tools/host_private.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "xkernel/trace.h"
#ifdef XK_HAVE_DPDK
#include "platform/dpdk/dpdk.h"
#endif

#ifdef XK_HAVE_DPDK
#define HOST_HAS_DPDK true
#else
#define HOST_HAS_DPDK false
#endif

enum {
	HOST_MEMORY_MTU = 1500,
	HOST_TWO_MB = 128, /* of DPDK's memory, where two hosts share it */
	HOST_WHY = 512,
	HOST_TEXT = 256,
};

#define HOST_LINK_ADDRESS UINT64_C(0x020000000000)

static const struct host_link host_links[] = {
	{ "virtio", "two processes over shared memory (virtio-user to vhost-user)", HOST_HAS_DPDK, false, false, true },
	{ "ring", "two hosts in one process over DPDK rings", HOST_HAS_DPDK, true, false, false },
	{ "memory", "two hosts in one process over queues in memory, without DPDK", true, true, false, true },
	{ "sim", "two simulated hosts on virtual time", true, true, true, true },
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
						host_links[i].name);
}

int
host_link_find(const struct options_program *program, const char *name, int driver, const struct host_link **link)
{
	char list[HOST_TEXT];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(host_links); i++) {
		*link = &host_links[i];
		if (!host_links[i].available || strcmp(host_links[i].name, name) != 0)
			continue;
		if (driver == XK_DRIVER_INTERRUPT && !host_links[i].can_sleep)
			return options_misuse(
				program,
				"--link %s cannot wake a sleeping driver, so --driver interrupt is refused:"
				" use --driver poll",
				name);
		return 0;
	}
	host_link_list(list, sizeof(list));
	return options_misuse(program, "--link %s is not available in this build; there are: %s", name, list);
}

/* ---- platform and ports ---- */

int
host_fail(const struct host *host, const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s: %s\n", host->options.program, host->options.name, what, why);
	return OPTIONS_FAILURE;
}

#ifdef XK_HAVE_DPDK

static bool
host_is_on_dpdk(const struct host *host)
{
	return host->world == NULL && strcmp(host->options.link->name, "memory") != 0;
}

static int
host_open_dpdk(struct host *host)
{
	struct xk_dpdk_config config = {
		.core = host->options.core,
		.memory_mb = host->options.link->in_process ? HOST_TWO_MB : 0,
	};
	char why[XK_DPDK_WHY] = "";

	if (xk_dpdk_start(&config, &host->platform, why, sizeof(why)) != 0)
		return host_fail(host, "DPDK cannot be started", why);
	return 0;
}

static int
host_open_virtio(struct host *host)
{
	char why[XK_DPDK_WHY] = "";

	for (unsigned i = 0; i < host->port_count; i++) {
		struct xk_dpdk_virtio_config config = {
			.name = host->port_names[i],
			.socket = host->port_names[i],
			.end = host->options.end == PAIR_CLIENT ? XK_DPDK_CLIENT : XK_DPDK_SERVER,
		};

		host->ports[i] = xk_dpdk_virtio_open(host->platform, &config, why, sizeof(why));
		if (host->ports[i] == NULL)
			return host_fail(host, host->port_names[i], why);
	}
	return 0;
}

static int
host_open_rings(struct host hosts[2])
{
	struct xk_platform *const platforms[2] = { hosts[0].platform, hosts[1].platform };
	char why[XK_DPDK_WHY] = "";

	for (unsigned i = 0; i < hosts[0].port_count; i++) {
		const char *const names[2] = { hosts[0].port_names[i], hosts[1].port_names[i] };
		struct xk_port *ports[2];

		if (xk_dpdk_ring_open(platforms, names, ports, why, sizeof(why)) != 0)
			return host_fail(&hosts[0], names[0], why);
		hosts[0].ports[i] = ports[0];
		hosts[1].ports[i] = ports[1];
	}
	return 0;
}

static void
host_count_device(const struct host *host, unsigned port, struct pair_counts *counts)
{
	struct xk_dpdk_port_counts device;
	char name[PAIR_NAME];

	if (!host_is_on_dpdk(host))
		return;
	xk_dpdk_port_counts(host->ports[port], &device);
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

static int
host_open_dpdk(struct host *host)
{
	return host_fail(host, "DPDK", "not in this build");
}

static int
host_open_virtio(struct host *host)
{
	return host_fail(host, "virtio", "not in this build");
}

static int
host_open_rings(struct host hosts[2])
{
	return host_fail(&hosts[0], "ring", "not in this build");
}

static void
host_count_device(const struct host *host, unsigned port, struct pair_counts *counts)
{
}

void
host_sweep(const char *prefix)
{
}

#endif

static int
host_open_platform(struct host *host)
{
	if (strcmp(host->options.link->name, "memory") != 0)
		return host_open_dpdk(host);
	host->platform = xk_memory_platform_new(XK_MEMORY_REAL);
	return host->platform == NULL ? host_fail(host, "the platform in memory", strerror(ENOMEM)) : 0;
}

static int
host_open_queues(struct host hosts[2])
{
	for (unsigned i = 0; i < hosts[0].port_count; i++) {
		for (unsigned end = 0; end < 2; end++) {
			struct host *host = &hosts[end];

			host->ports[i] = xk_memory_port_new(host->platform, host->port_names[i],
							    HOST_LINK_ADDRESS + 256 * i + end + 1, HOST_MEMORY_MTU);
			if (host->ports[i] == NULL)
				return host_fail(host, host->port_names[i], strerror(ENOMEM));
		}
		if (xk_memory_connect(hosts[0].ports[i], hosts[1].ports[i]) != 0)
			return host_fail(&hosts[0], hosts[0].port_names[i], strerror(ENOMEM));
	}
	return 0;
}

/* ---- the kernel ---- */

static int
host_make_kernel(struct host *host)
{
	const struct host_options *options = &host->options;
	struct xk_kernel_config config = {
		.name = options->name,
		.platform = host->platform,
		.mode = options->mode,
		.driver = options->driver,
		.threads = options->threads,
		.core = options->core,
		.yields = options->yields,
	};

	host->kernel = xk_kernel_new(&config);
	if (host->kernel == NULL)
		return host_fail(host, "the kernel", strerror(ENOMEM));
	for (unsigned i = 0; i < host->port_count; i++)
		xk_kernel_add_port(host->kernel, host->ports[i]);
	return 0;
}

static void
host_trace(struct host *host)
{
	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		p->trace_level = XK_TRACE_MESSAGES;
}

int
host_compose(struct host *host)
{
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_protocol *failed = NULL;
	int error = host_make_kernel(host);

	if (error != 0)
		return error;
	error = xk_graph_build(host->graph, host->kernel, &errors);
	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	if (error != 0)
		return OPTIONS_FAILURE;
	if (host->options.trace)
		host_trace(host);
	error = xk_kernel_init(host->kernel, &failed);
	if (error != 0)
		return host_fail(host, failed == NULL ? "the graph" : failed->name, strerror(-error));
	return 0;
}

int
host_open(struct host *host, const struct host_options *options)
{
	int status = host_load(host, options);

	if (status == 0)
		status = host_open_platform(host);
	if (status == 0)
		status = host_open_virtio(host);
	return status == 0 ? host_compose(host) : status;
}

int
host_open_both(struct host hosts[2], const struct host_options options[2])
{
	int status = 0;

	hosts[1] = (struct host){ .options = options[1] };
	if (options[0].link->simulated)
		return host_world_open(hosts, options);
	for (unsigned i = 0; i < 2 && status == 0; i++) {
		status = host_load(&hosts[i], &options[i]);
		if (status == 0)
			status = host_open_platform(&hosts[i]);
	}
	if (status == 0)
		status = strcmp(options[0].link->name, "ring") == 0 ? host_open_rings(hosts) : host_open_queues(hosts);
	for (unsigned i = 0; i < 2 && status == 0; i++)
		status = host_compose(&hosts[i]);
	return status;
}

int
host_start(struct host *host)
{
	int error = xk_kernel_start(host->kernel);

	if (error != 0)
		return host_fail(host, "the driver cannot be started", strerror(-error));
	host->started = true;
	return 0;
}

/* Before a kernel has them, ports are still the host's to close. */
static void
host_close_kernel(struct host *host)
{
	if (host->world != NULL)
		return;
	if (host->started)
		xk_kernel_stop(host->kernel);
	if (host->kernel != NULL)
		xk_kernel_free(host->kernel);
	else
		for (unsigned i = 0; i < host->port_count; i++)
			if (host->ports[i] != NULL)
				host->ports[i]->ops->close(host->ports[i]);
}

static int
host_close_platform(struct host *host)
{
	struct xk_platform *platform = host->platform;
	unsigned out = platform->ops->buffers_out(platform);

	if (out != 0) {
		fprintf(stderr, "%s: %s: %u buffers have not come back\n", host->options.program, host->options.name,
			out);
		return OPTIONS_FAILURE;
	}
#ifdef XK_HAVE_DPDK
	if (host_is_on_dpdk(host))
		xk_dpdk_stop(platform);
	else
#endif
		xk_memory_platform_free(platform);
	return 0;
}

int
host_close(struct host *host)
{
	int status = 0;

	host_close_kernel(host);
	if (host->world != NULL)
		status = host_world_close(host);
	else if (host->platform != NULL)
		status = host_close_platform(host);
	xk_graph_free(host->graph);
	*host = (struct host){ .port_count = 0 };
	return status;
}

/* ---- what it has counted ---- */

struct xk_protocol *
host_find_type(struct host *host, const char *type)
{
	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		if (strcmp(p->type->name, type) == 0)
			return p;
	fprintf(stderr, "%s: there is no %s in %s\n", host->options.program, type, host->options.graph);
	return NULL;
}

uint64_t
host_counter(const struct xk_protocol *protocol, const char *name)
{
	const char *const *names = protocol->type->counters;

	for (unsigned i = 0; names != NULL && names[i] != NULL; i++)
		if (strcmp(names[i], name) == 0)
			return atomic_load_explicit(&protocol->counters[i], memory_order_relaxed);
	return 0;
}

void
host_each_counter(const struct host *host, void (*tell)(void *argument, const char *name, uint64_t count),
		  void *argument)
{
	char name[PAIR_NAME];

	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++) {
			snprintf(name, sizeof(name), "%.30s.%.30s", p->name, p->type->counters[i]);
			tell(argument, name, atomic_load_explicit(&p->counters[i], memory_order_relaxed));
		}
}

static void
host_count_drops(struct host *host, struct pair_counts *counts)
{
	char name[PAIR_NAME];

	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		for (unsigned i = 1; i < xk_drop_count(p->type); i++) {
			uint64_t count = atomic_load_explicit(&p->drops[i], memory_order_relaxed);

			if (count == 0)
				continue;
			snprintf(name, sizeof(name), "%.30s.%.30s", p->name, xk_drop_name(p->type, i));
			pair_counts_drop(counts, name, count);
		}
	for (unsigned i = 0; i < host->port_count; i++) {
		snprintf(name, sizeof(name), "%.40s.no_session", host->port_nodes[i]);
		pair_counts_drop(counts, name, atomic_load_explicit(&host->ports[i]->unheard, memory_order_relaxed));
		host_count_device(host, i, counts);
	}
}

void
host_counts(struct host *host, struct pair_counts *counts)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(host->kernel, &stats);
	counts->driver_switches = stats.driver_switches;
	counts->thread_switches = stats.thread_switches;
	counts->frames = stats.frames;
	counts->fallbacks = stats.fallbacks;
	counts->overruns = stats.overruns;
	counts->overtaken = stats.overtaken;
	counts->stalled = stats.stalled;
	for (unsigned i = 0; i < XK_HANDOFF_REASONS; i++)
		counts->handoffs[i] = stats.handoffs[i];
	host_count_drops(host, counts);
}
