/* net.c - see net.h. */
#include "tools/net/net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/graph.h"
#include "tools/capture/pcapng.h"
#include "tools/journey/journey.h"
#include "tools/options.h"
#include "xkernel/trace.h"

enum { NET_WHY = 160, NET_TEXT = 32, NET_CAPTURE_NAME = 2 * XK_GRAPH_NAME_MAX + 32 };

/* A capture's interface for a tap, which stays the same after its host has crashed and booted. */
struct net_tap {
	struct net_tap *next;
	int interface;
	char name[];
};

/* A stack and its guard page are two mappings. */
#define NET_NO_STACKS                                                                                                  \
	"no memory for its stacks; `stacks` asks for fewer, vm.max_map_count and `ulimit -v` limit those of all hosts"

static int
net_fail(const struct net *net, const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", net->program, what, why);
	return OPTIONS_FAILURE;
}

/* ---- reading ---- */

/* Initializes net from the topology, which is NULL if it was refused; prints the errors. */
static int
net_begin(struct net *net, const char *program, struct xk_topology *topology, struct xk_graph_errors *errors)
{
	int status = topology == NULL ? OPTIONS_FAILURE : 0;

	*net = (struct net){ .program = program, .topology = topology };
	if (topology != NULL) {
		net->hosts = calloc(topology->host_count + 1, sizeof(*net->hosts));
		net->links = calloc(topology->link_count + 1, sizeof(struct xk_sim_link *));
		if (net->hosts == NULL || net->links == NULL)
			status = net_fail(net, topology->file, "no memory for its hosts and links");
	}
	for (unsigned i = 0; status == 0 && i < topology->host_count; i++) {
		struct net_host *host = &net->hosts[i];

		host->net = net;
		host->topology = &topology->hosts[i];
		net_host_settings_of(topology, host->topology, &host->settings, errors);
	}
	xk_graph_errors_print(errors, stderr);
	xk_graph_errors_clear(errors);
	return status;
}

int
net_read(struct net *net, const char *program, const char *file, const char *const *sets, unsigned set_count)
{
	struct xk_graph_errors errors = { .list = NULL };

	return net_begin(net, program, net_load(file, sets, set_count, &errors), &errors);
}

int
net_read_text(struct net *net, const char *program, const char *file, const char *text, size_t size)
{
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_topology *topology = xk_topology_load_text(file, text, size, NULL, 0, &net_types, &errors);

	if (topology != NULL && net_check(topology, &errors) != 0) {
		xk_topology_free(topology);
		topology = NULL;
	}
	return net_begin(net, program, topology, &errors);
}

/* ---- booting ---- */

/* Returns true if the host's graph itself sets `attribute` of this node. */
static bool
net_graph_sets(const struct net_host *host, const struct xk_protocol *p, const char *attribute)
{
	const struct xk_graph *graph = host->topology->checked;
	int node = xk_graph_node_find(graph, p->name);

	return node >= 0 && xk_graph_attribute_find(&graph->nodes[node].attributes, attribute) != NULL;
}

/* Sets the n'th address of a protocol, that of the n'th device, unless the graph does. */
static void
net_set_address(const struct net_host *host, struct xk_protocol *p, const struct xk_setting *setting, unsigned n)
{
	const struct xk_topology_device *device = n < host->topology->device_count ? &host->topology->devices[n] : NULL;
	char address[16], text[NET_TEXT], why[NET_WHY];

	if (device == NULL || device->host == 0 || net_graph_sets(host, p, setting->name))
		return;
	snprintf(text, sizeof(text), "%s/%u", xk_host_print(device->host, address), device->bits);
	xk_setting_parse(setting, text, p, why, sizeof(why));
}

/* Sets the addresses and device names that the graph does not specify. */
static void
net_set_protocol(const struct net_host *host, struct xk_protocol *p, unsigned *ports)
{
	bool is_port = (p->type->flags & XK_PORT) != 0;
	unsigned addresses = 0;
	char why[NET_WHY];

	for (const struct xk_setting *s = p->type->settings; s != NULL && s->name != NULL; s++) {
		if (s->type == XK_SETTING_ADDRESS)
			net_set_address(host, p, s, addresses++);
		if (is_port && strcmp(s->name, "dev") == 0 && *ports < host->topology->device_count &&
		    !net_graph_sets(host, p, s->name))
			xk_setting_parse(s, host->topology->devices[(*ports)++].name, p, why, sizeof(why));
	}
}

static int
net_compose(struct net_host *host, struct xk_kernel *kernel)
{
	struct net *net = host->net;
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_protocol *failed = NULL;
	unsigned ports = 0;
	int err;

	err = xk_graph_build(host->topology->checked, kernel, &errors);
	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	if (err != 0)
		return err;
	for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL; p = p->next) {
		net_set_protocol(host, p, &ports);
		if (net->traces)
			p->trace_level = XK_TRACE_MESSAGES;
	}
	journey_graph(journey_sink(net->journey, host->topology->name), kernel);
	if (net->no_paths)
		xk_kernel_set_paths(kernel, false);
	err = xk_kernel_init(kernel, &failed);
	if (err == 0)
		xk_kernel_watch_owners(kernel);
	if (err != 0)
		fprintf(stderr, "%s: %s: %s cannot start: its init failed (%s)\n", net->program, host->topology->name,
			failed == NULL ? "the graph" : failed->name, xk_error(err));
	return err;
}

static struct xk_kernel *
net_boot(void *context, struct xk_sim_host *sim_host)
{
	struct net_host *host = context;
	struct xk_kernel_config config = {
		.name = xk_sim_host_name(sim_host),
		.platform = xk_sim_platform(sim_host),
		.mode = host->settings.mode,
		.driver = XK_DRIVER_INTERRUPT,
		.threads = (unsigned)host->settings.threads,
		.stacks = (unsigned)host->settings.stacks,
		.core = -1,
		.trace = host->net->trace,
		.capture = host->net->capture == NULL ? NULL : &host->sink,
		.sink = host->net->journey == NULL ? host->steps
						   : journey_sink(host->net->journey, host->topology->name),
	};
	struct xk_kernel *kernel = xk_kernel_new(&config);

	if (kernel == NULL) {
		host->net->failed = true;
		net_fail(host->net, config.name, NET_NO_STACKS);
		return NULL;
	}
	for (unsigned i = 0; i < host->topology->device_count; i++) {
		struct xk_port *port = xk_sim_port_new(sim_host, i);

		if (port != NULL)
			xk_kernel_add_port(kernel, port);
	}
	if (net_compose(host, kernel) == 0) {
		if (xk_kernel_start(kernel) == 0)
			return kernel;
		net_fail(host->net, config.name, NET_NO_STACKS);
	}
	host->net->failed = true;
	xk_kernel_free(kernel);
	return NULL;
}

/* ---- boots and crashes ---- */

static void
net_boot_now(void *context)
{
	struct net_host *host = context;

	if (xk_sim_is_up(host->sim) || xk_sim_boot(host->sim) == 0)
		return;
	net_fail(host->net, host->topology->name, "it cannot be booted");
}

static void
net_crash_now(void *context)
{
	struct net_host *host = context;
	unsigned left = host->healed ? 0 : xk_sim_crash(host->sim);

	if (left == 0)
		return;
	fprintf(stderr, "%s: %s: %u buffers were not returned before it crashed\n", host->net->program,
		host->topology->name, left);
	host->net->failed = true;
}

static int
net_schedule(struct net_host *host)
{
	const struct net_host_settings *settings = &host->settings;
	struct xk_sim *sim = host->net->sim;
	int err = xk_sim_at(sim, settings->start_ns, net_boot_now, host);

	for (unsigned i = 0; i < settings->crash_count && err == 0; i++)
		err = xk_sim_at(sim, settings->crash_ns[i], net_crash_now, host);
	for (unsigned i = 0; i < settings->boot_count && err == 0; i++)
		err = xk_sim_at(sim, settings->boot_ns[i], net_boot_now, host);
	return err;
}

/* ---- the world ---- */

static int
net_open_host(struct net *net, struct net_host *host)
{
	const struct xk_topology_host *topology = host->topology;
	struct xk_sim_host_config config = { .name = topology->name,
					     .costs = host->settings.costs,
					     .boot = net_boot,
					     .context = host,
					     .buffers = (unsigned)host->settings.buffers };
	int err = 0;

	host->sim = xk_sim_host_new(net->sim, &config);
	if (host->sim == NULL)
		return net_fail(net, topology->name, "no memory for this host");
	for (unsigned i = 0; i < topology->device_count && err == 0; i++) {
		const struct xk_topology_device *device = &topology->devices[i];

		err = xk_sim_attach(host->sim, device->name, net->links[device->link], device->address);
	}
	if (err == 0)
		err = net_schedule(host);
	return err == 0 ? 0 : net_fail(net, topology->name, "no memory for its ports and events");
}

int
net_open(struct net *net, uint64_t seed, FILE *trace, bool traces)
{
	struct xk_graph_errors errors = { .list = NULL };
	struct sim_link_config config;
	int status = 0;

	net->trace = trace;
	net->traces = traces;
	xk_sim_expect(net->topology->host_count);
	net->sim = xk_sim_new(seed);
	if (net->sim == NULL)
		return net_fail(net, "the simulated world", "no memory for it");
	for (unsigned i = 0; i < net->topology->link_count && status == 0; i++) {
		const struct xk_topology_link *link = &net->topology->links[i];

		net_link_config_of(net->topology, link, &config, &errors); /* net_read has checked it */
		net->links[i] = xk_sim_link_new(net->sim, link->name, &config);
		if (net->links[i] == NULL)
			status = net_fail(net, link->name, "no memory for this link");
	}
	for (unsigned i = 0; i < net->topology->host_count && status == 0; i++)
		status = net_open_host(net, &net->hosts[i]);
	return status;
}

void
net_end_faults(struct net *net)
{
	for (unsigned i = 0; i < net->topology->link_count; i++) {
		struct sim_link_config config = *xk_sim_link_config(net->links[i]);

		config.loss = config.duplicate = config.reorder = config.corrupt = 0;
		xk_sim_link_change(net->links[i], &config);
	}
}

void
net_heal(struct net *net)
{
	net_end_faults(net);
	for (unsigned i = 0; i < net->topology->host_count; i++) {
		struct net_host *host = &net->hosts[i];

		for (unsigned n = 0; n < host->topology->device_count; n++)
			xk_sim_cut(host->sim, n, false, false);
		host->healed = true;
		if (!xk_sim_is_up(host->sim))
			net_boot_now(host);
	}
}

/* ---- capture ---- */

static int
net_capture_fail(const struct net *net, int err)
{
	fprintf(stderr, "%s: --pcap %s cannot be written: %s\n", net->program, net->capture_path, xk_error(err));
	return OPTIONS_FAILURE;
}

static int
net_tap_add(struct xk_capture *sink, const char *name, enum xk_capture_link link)
{
	struct net_host *host = xk_container_of(sink, struct net_host, sink);
	size_t size = strlen(host->topology->name) + strlen(name) + 2;
	struct net_tap *tap = malloc(sizeof(*tap) + size);

	if (tap == NULL)
		return -ENOMEM;
	snprintf(tap->name, size, "%s.%s", host->topology->name, name);
	for (struct net_tap *t = host->taps; t != NULL; t = t->next)
		if (strcmp(t->name, tap->name) == 0) {
			free(tap);
			return t->interface;
		}
	tap->interface = (int)pcapng_interface_of(host->net->capture, tap->name, NULL, link);
	tap->next = host->taps;
	host->taps = tap;
	return tap->interface;
}

static void
net_tap_see(struct xk_capture *sink, unsigned place, enum xk_direction direction, const struct xk_msg *m)
{
	const struct net_host *host = xk_container_of(sink, struct net_host, sink);
	const struct net *net = host->net;
	struct xk_platform *platform = xk_sim_platform(host->sim);
	const uint8_t *bytes = m->data;

	if (net->capture == NULL) /* closed by net_stop */
		return;
	if (m->next != NULL) {
		xk_msg_copy_out(m, 0, net->capture_bytes, xk_msg_len(m));
		bytes = net->capture_bytes;
	}
	pcapng_frame(net->capture, place, platform->ops->now_ns(platform), direction == XK_UP ? PCAPNG_IN : PCAPNG_OUT,
		     bytes, xk_msg_len(m), NULL);
}

static const struct xk_capture_ops net_capture_ops = { .add = net_tap_add, .see = net_tap_see };

void
net_capture_see(struct net *net, const struct xk_sim_record *record)
{
	if (net->capture == NULL || record->frame == NULL)
		return;
	pcapng_frame(net->capture, net->hosts[xk_sim_host_number(record->host)].interfaces[record->device],
		     record->at_ns, record->event == XK_SIM_SENT ? PCAPNG_OUT : PCAPNG_IN, record->frame, record->len,
		     record->why);
}

int
net_capture_open(struct net *net, const char *path)
{
	char name[NET_CAPTURE_NAME];

	net->capture_path = path;
	net->capture_bytes = malloc(XK_MSG_MAX);
	net->capture = net->capture_bytes == NULL ? NULL : pcapng_open(path, net->program);
	if (net->capture == NULL)
		return net_capture_fail(net, errno);
	for (unsigned i = 0; i < net->topology->host_count; i++) {
		const struct xk_topology_host *host = &net->topology->hosts[i];

		net->hosts[i].sink.ops = &net_capture_ops;
		for (unsigned n = 0; n < host->device_count; n++) {
			snprintf(name, sizeof(name), "%s.%s", host->name, host->devices[n].name);
			net->hosts[i].interfaces[n] = pcapng_interface(net->capture, name);
		}
	}
	return 0;
}

/* ---- closing ---- */

static void
net_free_taps(struct net_host *host)
{
	struct net_tap *tap;

	while ((tap = host->taps) != NULL) {
		host->taps = tap->next;
		free(tap);
	}
}

/* Checks what a host holds at rest. */
static const char *
net_promise_rest(const struct net_host *host, struct xk_kernel *kernel, char why[NET_PROMISE])
{
	struct xk_platform *platform = xk_sim_platform(host->sim);
	unsigned buffers = platform->ops->buffers_out(platform);
	struct xk_kernel_stats stats;

	xk_kernel_stats(kernel, &stats);
	if (stats.stacks_parked != 0)
		snprintf(why, NET_PROMISE, "%s has %u shepherds that wait at the end", host->topology->name,
			 stats.stacks_parked);
	else if (buffers != 0)
		snprintf(why, NET_PROMISE, "%s holds %u buffers at the end", host->topology->name, buffers);
	return stats.stacks_parked != 0 || buffers != 0 ? why : NULL;
}

const char *
net_promise(const struct net *net, bool at_rest, char why[NET_PROMISE])
{
	for (unsigned i = 0; i < net->topology->host_count; i++) {
		const struct net_host *host = &net->hosts[i];
		struct xk_kernel *kernel = xk_sim_kernel(host->sim);
		struct xk_protocol *p;
		const char *broken = kernel == NULL ? NULL : xk_kernel_promise(kernel, at_rest, &p);

		if (broken != NULL) {
			snprintf(why, NET_PROMISE, "%s.%s: %s", host->topology->name, p->name, broken);
			return why;
		}
		if (at_rest && kernel != NULL && net_promise_rest(host, kernel, why) != NULL)
			return why;
	}
	return NULL;
}

void
net_stop(struct net *net)
{
	int err = pcapng_close(net->capture);

	net->capture = NULL; /* taps do not capture the end */
	if (err != 0)
		net->failed |= net_capture_fail(net, -err) != 0;
	for (unsigned i = 0; net->hosts != NULL && i < net->topology->host_count; i++) {
		struct xk_sim_host *sim = net->hosts[i].sim;
		unsigned left;

		if (sim == NULL)
			continue;
		if (xk_sim_is_up(sim) && xk_kernel_ended(xk_sim_kernel(sim)) == XK_ENDED_BADLY)
			net->failed |= net_fail(net, net->hosts[i].topology->name,
						"one of its protocols has reported a failure") != 0;
		net->failed |= xk_sim_is_up(sim) && xk_kernel_is_stuck(xk_sim_kernel(sim));
		left = xk_sim_crash(sim);
		if (left > 0)
			fprintf(stderr, "%s: %s: %u buffers were not returned\n", net->program,
				net->hosts[i].topology->name, left);
		net->failed |= left > 0;
	}
}

int
net_end(struct net *net)
{
	bool failed;

	net_stop(net);
	for (unsigned i = 0; net->hosts != NULL && i < net->topology->host_count; i++) {
		net_free_taps(&net->hosts[i]);
		net->hosts[i].sim = NULL;
		net->hosts[i].healed = false;
	}
	net->failed |= xk_sim_free(net->sim) > 0;
	failed = net->failed;
	net->sim = NULL;
	net->failed = false;
	return failed ? OPTIONS_FAILURE : 0;
}

int
net_close(struct net *net)
{
	int status = net_end(net);

	free(net->capture_bytes);
	free(net->hosts);
	free(net->links);
	xk_topology_free(net->topology);
	*net = (struct net){ .program = net->program };
	return status;
}

struct net_host *
net_host_find(struct net *net, const char *name)
{
	for (unsigned i = 0; i < net->topology->host_count; i++)
		if (strcmp(net->hosts[i].topology->name, name) == 0)
			return &net->hosts[i];
	return NULL;
}
