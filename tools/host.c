/* host.c - see host.h. */
#define _GNU_SOURCE
#include "tools/host_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "tools/capture.h"
#include "xkernel/trace.h"

enum {
	HOST_MEMORY_MTU = 1500,
	HOST_WHY = 512,
	HOST_TEXT = 256,
};

#define HOST_LINK_ADDRESS UINT64_C(0x020000000000)

/* ---- platform and ports ---- */

int
host_fail(const struct host *host, const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s: %s\n", host->options.program, host->options.name, what, why);
	return OPTIONS_FAILURE;
}

static int
host_open_platform(struct host *host)
{
	if (host_is_on_dpdk(host))
		return host_start_dpdk(host);
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
		.capture = capture_sink(host->capture),
	};

	if (host_capture_ports(host) != 0)
		return OPTIONS_FAILURE;
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
		status = host_capture_open(host);
	if (status == 0)
		status = host_open_platform(host);
	if (status == 0)
		status = host_open_ports(host);
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
			status = host_capture_open(&hosts[i]);
		if (status == 0)
			status = host_open_platform(&hosts[i]);
	}
	if (status == 0)
		status = host_is_on_dpdk(&hosts[0]) ? host_open_rings(hosts) : host_open_queues(hosts);
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
	if (host_is_on_dpdk(host))
		host_stop_dpdk(host);
	else
		xk_memory_platform_free(platform);
	return 0;
}

int
host_close(struct host *host)
{
	int status = 0, captured = 0;

	host_close_kernel(host);
	if (host->world != NULL) {
		status = host_world_close(host);
	} else {
		captured = host_capture_close(host);
		if (host->platform != NULL)
			status = host_close_platform(host);
	}
	xk_graph_free(host->graph);
	*host = (struct host){ .port_count = 0 };
	return status != 0 ? status : captured;
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
