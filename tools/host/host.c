/* host.c - see host.h. */
#define _GNU_SOURCE
#include "tools/host/host_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "tools/capture/capture_file.h"
#include "tools/host/watch.h"
#include "tools/journey/journey.h"
#include "xkernel/trace.h"

enum { HOST_MEMORY_MTU = 1500 };

/* Debug builds check every crossing anyway. */
#ifdef XK_DEBUG
enum { HOST_WATCHES_OWNERS = true };
#else
enum { HOST_WATCHES_OWNERS = false };
#endif

/* ---- platform and ports ---- */

#ifdef XK_HAVE_DPDK
bool
host_is_on_dpdk(const struct host *host)
{
	return host->world == NULL && strcmp(host->options.link->name, "memory") != 0;
}
#endif

bool
host_peer_is_gone(const struct host *host)
{
	if (host_is_on_dpdk(host))
		for (unsigned i = 0; i < host->port_count; i++)
			if (!host_port_is_up(host->ports[i][0]))
				return true;
	return false;
}

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
	for (unsigned i = 0; i < host_driver_count(host); i++) {
		host->platforms[i] = xk_memory_platform_new(XK_MEMORY_REAL);
		if (host->platforms[i] == NULL)
			return host_fail(host, "the platform in memory", "no memory for it");
	}
	return 0;
}

static int
host_open_queues(struct host hosts[2])
{
	unsigned counts[2] = { host_driver_count(&hosts[0]), host_driver_count(&hosts[1]) };

	for (unsigned i = 0; i < hosts[0].port_count; i++) {
		for (unsigned end = 0; end < 2; end++)
			for (unsigned lane = 0; lane < counts[end]; lane++) {
				struct xk_port *port =
					xk_memory_port_new(hosts[end].platforms[lane], hosts[end].port_names[i],
							   HOST_LINK_ADDRESS + 256 * i + end + 1, HOST_MEMORY_MTU);

				if (port == NULL)
					return host_fail(&hosts[end], hosts[end].port_names[i],
							 "no memory for this port");
				port->driver = lane;
				hosts[end].ports[i][lane] = port;
			}
		if (xk_memory_connect_lanes(hosts[0].ports[i], counts[0], hosts[1].ports[i], counts[1],
					    XK_MEMORY_BY_FLOW) != 0)
			return host_fail(&hosts[0], hosts[0].port_names[i], "no memory for this port");
	}
	return 0;
}

/* ---- the kernel ---- */

unsigned
host_driver_count(const struct host *host)
{
	return host->options.drivers == 0 ? 1 : host->options.drivers;
}

int
host_core(const struct host *host, unsigned driver)
{
	return host->options.cores == NULL ? -1 : (int)host->options.cores[driver];
}

/* Called when a protocol ends the host. */
static void
host_ended(void *context)
{
	const struct host *host = context;

	if (host->options.ended_fd > 0)
		eventfd_write(host->options.ended_fd, 1);
}

static int
host_create_kernel(struct host *host)
{
	const struct host_options *options = &host->options;
	struct xk_kernel_config config = {
		.name = options->name,
		.platform = host->platforms[0],
		.mode = options->mode,
		.driver = options->driver,
		.threads = options->threads,
		.stacks = options->stacks,
		.core = host_core(host, 0),
		.yields = options->yields,
		.adaptive_ns = options->spin_ns,
		.capture = capture_sink(host->capture),
		.sink = host->sink,
		.ended = host_ended,
		.ended_context = host,
	};
	int status;

	status = capture_start(host->capture, host->platforms[0]);
	for (unsigned i = 0; i < host->port_count; i++)
		for (unsigned lane = 0; lane < host_driver_count(host) && status == 0; lane++)
			status = capture_port(host->capture, host->ports[i][lane], host->port_nodes[i]);
	if (status != 0)
		return status;
	host->kernel = xk_kernel_new(&config);
	if (host->kernel == NULL)
		return host_fail(host, "the kernel",
				 "no memory or threads for it: use fewer --threads, or raise `ulimit -v` or `-u`");
	xk_kernel_set_pages(host->kernel, options->pages);
	for (unsigned i = 1; i < host_driver_count(host); i++) {
		int added = xk_kernel_add_driver(host->kernel, host->platforms[i], host_core(host, i));

		if (added < 0)
			return host_fail(host, "a further driver cannot be created: use fewer --drivers",
					 xk_error(added));
	}
	for (unsigned i = 0; i < host->port_count; i++)
		for (unsigned lane = 0; lane < host_driver_count(host); lane++)
			xk_kernel_add_port(host->kernel, host->ports[i][lane]);
	return 0;
}

int
host_compose(struct host *host)
{
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_protocol *failed = NULL;
	int status = host_create_kernel(host), err;

	if (status != 0)
		return status;
	err = xk_graph_build(host->graph, host->kernel, &errors);
	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	if (err != 0)
		return OPTIONS_FAILURE;
	journey_graph(host->sink, host->kernel);
	if (host->options.no_paths)
		xk_kernel_set_paths(host->kernel, false);
	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL && host->options.trace; p = p->next)
		p->trace_level = XK_TRACE_MESSAGES;
	err = xk_kernel_init(host->kernel, &failed);
	if (err != 0) {
		fprintf(stderr, "%s: %s: %s cannot start: its init failed (%s)\n", host->options.program,
			host->options.name, failed == NULL ? "the graph" : failed->name, xk_error(err));
		return OPTIONS_FAILURE;
	}
	if (host->options.trace || HOST_WATCHES_OWNERS)
		xk_kernel_watch_owners(host->kernel);
	return 0;
}

static int
host_capture_open(struct host *host)
{
	const struct host_options *options = &host->options;
	char path[HOST_PATH];

	if (options->pcap == NULL)
		return 0;
	/* both ends of a pair have the same options, but separate files */
	snprintf(path, sizeof(path), options->paired ? "%s.%s" : "%s", options->pcap, options->name);
	host->capture = capture_open(options->program, path, options->name);
	return host->capture == NULL ? OPTIONS_FAILURE : 0;
}

int
host_capture_check(const struct host_options *options)
{
	struct host host = { .options = *options };
	int status = host_capture_open(&host);

	return status == 0 ? capture_close(host.capture) : status;
}

int
host_begin(struct host *host, const struct host_options *options)
{
	int status = host_load(host, options);

	return status == 0 ? host_capture_open(host) : status;
}

static int
host_open_all(struct host *hosts, const struct host_options *options, unsigned count)
{
	int status = 0;

	for (unsigned i = 0; i < count && status == 0; i++) {
		status = host_begin(&hosts[i], &options[i]);
		if (status == 0)
			status = host_open_platform(&hosts[i]);
	}
	if (status == 0 && count == 2)
		status = host_check_pair(&hosts[0], &hosts[1]);
	if (host_is_on_dpdk(hosts) && status == 0)
		status = count == 1 ? host_open_ports(hosts) : host_open_rings(hosts);
	else if (status == 0)
		status = count == 1 ? host_fail(hosts, options->link->name, "there is no lone end")
				    : host_open_queues(hosts);
	for (unsigned i = 0; i < count && status == 0; i++)
		status = host_compose(&hosts[i]);
	return status;
}

int
host_open(struct host *host, const struct host_options *options)
{
	return host_open_all(host, options, 1);
}

int
host_open_both(struct host hosts[2], const struct host_options options[2])
{
	hosts[1] = (struct host){ .options = options[1] }; /* hosts[0] may fail first */
	return options[0].link->simulated ? host_world_open(hosts, options) : host_open_all(hosts, options, 2);
}

int
host_start(struct host *host)
{
	int err = xk_kernel_start(host->kernel);

	if (err != 0)
		return host_fail(host, "the driver cannot be started", xk_error(err));
	host->started = true;
	if (host->world == NULL)
		watch_kernel(host->options.watch, host->kernel);
	return 0;
}

void
host_end(struct host *host)
{
	host->is_stuck |= host->kernel != NULL && xk_kernel_is_stuck(host->kernel);
	if (host->world != NULL)
		return;
	if (host->started)
		xk_kernel_stop(host->kernel);
	watch_forget(host->options.watch, host->kernel);
	if (host->kernel != NULL)
		xk_kernel_free(host->kernel);
	else /* no kernel owns the ports yet */
		for (unsigned i = 0; i < host->port_count; i++)
			for (unsigned lane = 0; lane < host_driver_count(host); lane++)
				if (host->ports[i][lane] != NULL)
					host->ports[i][lane]->ops->close(host->ports[i][lane]);
	host->started = false;
	host->kernel = NULL;
	host->port_count = 0;
}

/* Frees a driver's platform. With DPDK all drivers share the first one's buffers. */
static int
host_close_platform(const struct host *host, unsigned driver)
{
	struct xk_platform *platform = host->platforms[driver];
	unsigned out = driver > 0 && host_is_on_dpdk(host) ? 0 : platform->ops->buffers_out(platform);

	if (out != 0) {
		fprintf(stderr, "%s: %s: %u buffers were not returned\n", host->options.program, host->options.name,
			out);
		return OPTIONS_FAILURE;
	}
	if (host_is_on_dpdk(host))
		host_stop_dpdk(platform);
	else
		xk_memory_platform_free(platform);
	return 0;
}

int
host_close(struct host *host)
{
	int status = 0, captured = 0;
	bool is_stuck;

	host_end(host);
	is_stuck = host->is_stuck;
	if (host->world != NULL) {
		status = host_world_close(host);
	} else {
		captured = capture_close(host->capture);
		for (unsigned i = host_driver_count(host); i-- > 0;)
			if (host->platforms[i] != NULL)
				status |= host_close_platform(host, i);
	}
	xk_graph_free(host->graph);
	*host = (struct host){ .port_count = 0 };
	if (status == 0 && is_stuck)
		status = OPTIONS_FAILURE;
	return status != 0 ? status : captured;
}

/* ---- counts ---- */

struct xk_protocol *
host_find_type(struct host *host, const char *type)
{
	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		if (strcmp(p->type->name, type) == 0)
			return p;
	fprintf(stderr, "%s: there is no %s in %s, which this program needs to measure\n", host->options.program, type,
		host->options.graph);
	return NULL;
}

uint64_t
host_counter(const struct xk_protocol *protocol, const char *name)
{
	const char *const *names = protocol->type->counters;

	for (unsigned i = 0; names != NULL && names[i] != NULL; i++)
		if (strcmp(names[i], name) == 0)
			return xk_counter(protocol, i);
	return 0;
}

struct host_port_counts {
	void (*see)(void *context, const char *name, uint64_t count, bool is_drop);
	void *context;
	const char *node;
};

static void
host_see_port_count(void *context, const char *name, uint64_t count, bool is_drop)
{
	const struct host_port_counts *all = context;
	char whole[PAIR_NAME];

	snprintf(whole, sizeof(whole), "%.30s.%.30s", all->node, name);
	all->see(all->context, whole, count, is_drop);
}

void
host_each_port_count(const struct host *host,
		     void (*see)(void *context, const char *name, uint64_t count, bool is_drop), void *context)
{
	struct host_port_counts all = { .see = see, .context = context };

	for (unsigned i = 0; i < host->port_count; i++) {
		all.node = host->port_nodes[i];
		for (unsigned lane = 0; lane < host_driver_count(host); lane++) {
			struct xk_port *port = host->ports[i][lane];

			if (port != NULL && port->ops->counts != NULL)
				port->ops->counts(port, host_see_port_count, &all);
		}
	}
}

static void
host_count_port_drop(void *context, const char *name, uint64_t count, bool is_drop)
{
	if (is_drop)
		pair_counts_drop(context, name, count);
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
		for (unsigned lane = 0; lane < host_driver_count(host); lane++) {
			struct xk_port *port = host->ports[i][lane];

			pair_counts_drop(counts, name, atomic_load_explicit(&port->unheard, memory_order_relaxed));
		}
	}
	host_each_port_count(host, host_count_port_drop, counts);
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
