/* kernel_graph.c - fills a kernel with ports, protocols and the edges between them, and initializes and frees these. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "xkernel/engine/engine.h"
#include "xkernel/path.h"
#include "xkernel/table.h"
#include "xkernel/trace.h"

/* ---- ports ---- */

struct xk_port *
xk_kernel_find_port(struct xk_kernel *kernel, const char *name)
{
	for (struct xk_port *port = kernel->ports; port != NULL; port = port->next)
		if (strcmp(port->name, name) == 0)
			return port;
	return NULL;
}

static void
kernel_notify_port_changed(struct xk_event *event, void *argument)
{
	struct xk_port *port = argument;

	(void)event;
	for (struct xk_protocol *p = xk_kernel_first(port->transmit->driver->kernel); p != NULL; p = p->next)
		if (p->ops->port_changed != NULL)
			p->ops->port_changed(p);
}

void
xk_port_changed(struct xk_port *port)
{
	if (port->transmit != NULL)
		xk_event_schedule(&port->changes, 0);
}

void
xk_kernel_add_port(struct xk_kernel *kernel, struct xk_port *port)
{
	struct xk_port *sibling = xk_kernel_find_port(kernel, port->name), **at;
	struct xk_driver *driver = xk_kernel_driver(kernel, port->driver);
	struct xk_device *device;

	xk_assert(driver != NULL);
	port->transmit = calloc(1, sizeof(*port->transmit));
	xk_assert(port->transmit != NULL);
	port->transmit->driver = driver;
	xk_event_init(&port->changes, kernel, kernel_notify_port_changed, port);
	port->transmit->last = &port->transmit->first;
	port->runner = &driver->runner;

	/* A device has its ports' name, and a lane for each driver. */
	if (sibling != NULL) {
		device = xk_container_of(sibling->lanes, struct xk_device, lanes);
	} else {
		device = calloc(1, sizeof(*device));
		xk_assert(device != NULL);
		device->next = kernel->devices;
		kernel->devices = device;
	}
	xk_assert(device->lanes[port->driver] == NULL);
	device->lanes[port->driver] = port;
	port->lanes = device->lanes;

	for (at = &driver->ports; *at != NULL; at = &(*at)->beside)
		continue;
	*at = port;
	port->around = driver->ports;
	if (driver->port != NULL)
		driver->port->around = port;
	driver->port = port;

	for (at = &kernel->ports; *at != NULL; at = &(*at)->next)
		continue;
	*at = port;
}

void
xk_port_listen(struct xk_port *port, struct xk_session *session)
{
	for (unsigned i = 0; i < XK_DRIVERS; i++)
		if (port->lanes[i] != NULL)
			port->lanes[i]->receiver = session;
}

/* ---- protocols and edges ---- */

/* Allocates the protocol's counters for each driver and for other threads. Several drivers share no cache line. */
static bool
kernel_make_counts(struct xk_protocol *protocol)
{
	const char *const *names = protocol->type->counters;
	unsigned drivers = protocol->kernel->driver_count, count = 0;
	size_t size;

	while (names != NULL && names[count] != NULL)
		count++;
	size = (XK_COUNT_OWN + count) * sizeof(protocol->counts[0][0]);
	if (drivers > 1)
		size = (size + 63) & ~(size_t)63;
	protocol->counts = calloc(drivers + 1, sizeof(protocol->counts[0]));
	for (unsigned lane = 0; protocol->counts != NULL && lane <= drivers; lane++) {
		protocol->counts[lane] = aligned_alloc(drivers > 1 ? 64 : sizeof(protocol->counts[0][0]), size);
		if (protocol->counts[lane] == NULL)
			return false;
		memset((void *)protocol->counts[lane], 0, size);
	}
	return protocol->counts != NULL;
}

static void
kernel_free_protocol(struct xk_protocol *protocol)
{
	const struct xk_setting *setting = protocol->type->settings;

	for (; setting != NULL && setting->name != NULL; setting++)
		if (setting->type == XK_SETTING_STRING)
			free(*(char **)((char *)protocol + setting->offset));
	for (unsigned i = 0; i < protocol->lower_count; i++)
		free(protocol->lowers[i]);
	free(protocol->lowers);
	free((void *)protocol->drops);
	for (unsigned lane = 0; protocol->counts != NULL && lane <= protocol->kernel->driver_count; lane++)
		free((void *)protocol->counts[lane]);
	free((void *)protocol->counts);
	free(protocol->path_ops);
	free((void *)protocol->name);
	free(protocol);
}

static bool
kernel_set_initial(struct xk_protocol *protocol)
{
	const struct xk_setting *setting = protocol->type->settings;
	char why[128];

	for (; setting != NULL && setting->name != NULL; setting++)
		if (setting->initial != NULL &&
		    xk_setting_parse(setting, setting->initial, protocol, why, sizeof(why)) != 0)
			return false;
	return true;
}

struct xk_protocol *
xk_kernel_add_protocol(struct xk_kernel *kernel, const struct xk_protocol_type *type, const char *name)
{
	struct xk_protocol *protocol = calloc(1, type->size), **at = &kernel->protocols;

	if (protocol == NULL)
		return NULL;
	protocol->type = type;
	protocol->ops = type->ops;
	protocol->kernel = kernel;
	protocol->session_max = type->session_max;
	xk_format_init(&protocol->format, type);
	protocol->name = strdup(name);
	protocol->drops = calloc(xk_drop_count(type), sizeof(*protocol->drops));
	if (protocol->name == NULL || protocol->drops == NULL || !kernel_make_counts(protocol) ||
	    !kernel_set_initial(protocol)) {
		kernel_free_protocol(protocol);
		return NULL;
	}
	for (; *at != NULL; at = &(*at)->next)
		protocol->index++;
	*at = protocol;
	return protocol;
}

struct xk_edge *
xk_kernel_add_edge(struct xk_kernel *kernel, struct xk_protocol *upper, struct xk_protocol *lower, const char *role)
{
	struct xk_edge **lowers = realloc(upper->lowers, (upper->lower_count + 1) * sizeof(*lowers)), *edge;

	if (lowers == NULL)
		return NULL;
	upper->lowers = lowers;
	edge = calloc(1, sizeof(*edge) + kernel->driver_count * sizeof(edge->credit_ns[0]));
	if (edge == NULL)
		return NULL;
	edge->upper = upper;
	edge->demux = upper->ops->demux;
	atomic_init(&edge->watch, xk_header_gathers(upper->type));
	edge->lower = lower;
	edge->role = role;
	lowers[upper->lower_count++] = edge;
	return edge;
}

/* ---- watching edges ---- */

void
xk_kernel_set_budget(struct xk_kernel *kernel, uint64_t budget_ns, unsigned carry)
{
	kernel->budget_ns = budget_ns;
	kernel->carry_ns = budget_ns * carry;
}

void
xk_kernel_set_paths(struct xk_kernel *kernel, bool wanted)
{
	kernel->no_paths = !wanted;
}

void
xk_kernel_set_pages(struct xk_kernel *kernel, struct xk_pages *pages)
{
	kernel->pages = pages;
}

void
xk_kernel_count_edges(struct xk_kernel *kernel, bool wanted)
{
	for (struct xk_protocol *p = kernel->protocols; p != NULL; p = p->next)
		for (unsigned i = 0; i < p->lower_count; i++)
			xk_edge_watch(p->lowers[i], XK_WATCH_COUNT, wanted ? XK_WATCH_COUNT : 0);
}

void
xk_kernel_watch_owners(struct xk_kernel *kernel)
{
	kernel->watches_owners = true;
#ifndef XK_DEBUG /* debug builds check each crossing anyway */
	for (struct xk_protocol *p = kernel->protocols; p != NULL; p = p->next)
		for (unsigned i = 0; i < p->lower_count; i++)
			xk_edge_watch(p->lowers[i], XK_WATCH_OWNER, XK_WATCH_OWNER);
#endif
}

void
xk_kernel_rewatch(struct xk_kernel *kernel)
{
	bool budgeted = false, printed = false, has_sink = kernel->config.sink != NULL;
	int shown;

	for (struct xk_protocol *p = kernel->protocols; p != NULL; p = p->next) {
		printed = printed || p->trace_level >= XK_TRACE_MESSAGES;
		shown = has_sink && p->trace_level < XK_TRACE_EVENTS ? XK_TRACE_EVENTS : p->trace_level;
		if (p->shown_level != shown) /* not written needlessly: a running host's threads read it */
			p->shown_level = shown;
		for (unsigned i = 0; i < p->lower_count; i++) {
			struct xk_edge *edge = p->lowers[i];
			unsigned watch = has_sink ? XK_WATCH_SINK : 0;

			if (!edge->never && (edge->budget_ns != 0 || kernel->budget_ns != 0))
				watch |= XK_WATCH_BUDGET;
			if (p->trace_level >= XK_TRACE_MESSAGES || edge->lower->trace_level >= XK_TRACE_MESSAGES)
				watch |= XK_WATCH_TRACE;
			xk_edge_watch(edge, XK_WATCH_BUDGET | XK_WATCH_TRACE | XK_WATCH_SINK, watch);
			budgeted = budgeted || watch & XK_WATCH_BUDGET;
		}
	}
	atomic_store_explicit(&kernel->budgeted, budgeted, memory_order_relaxed);
	if (kernel->prints_handoffs != printed)
		kernel->prints_handoffs = printed;
	atomic_store_explicit(&kernel->traced, printed || has_sink, memory_order_relaxed);
}

/* ---- initializing, freeing and looking up ---- */

void
xk_kernel_fini_protocols(struct xk_protocol *first, const struct xk_protocol *end)
{
	if (first == NULL || first == end)
		return;
	xk_kernel_fini_protocols(first->next, end);
	xk_session_uncache(first, NULL, NULL);
	if (first->ops->fini != NULL)
		first->ops->fini(first);
	xk_table_fini(first);
}

int
xk_kernel_init(struct xk_kernel *kernel, struct xk_protocol **failed)
{
	*failed = NULL;
	xk_kernel_rewatch(kernel);
	for (struct xk_port *port = kernel->ports; port != NULL && !kernel->no_paths; port = port->next)
		if (port->paths == NULL && xk_paths_init(port, kernel) != 0)
			return -ENOMEM;
	for (struct xk_protocol *p = kernel->protocols; p != NULL; p = p->next) {
		int err = xk_table_init(p);

		if (err == 0 && p->ops->init != NULL) {
			kernel->initializes = true;
			err = p->ops->init(p);
			kernel->initializes = false;
			if (err != 0)
				xk_table_fini(p);
		}
		if (err == 0)
			continue;
		*failed = p;
		xk_kernel_fini_protocols(kernel->protocols, p);
		xk_epochs_drain(&kernel->epochs);
		kernel->initialized = NULL;
		return err;
	}
	kernel->initialized = kernel->protocols;
	return 0;
}

void
xk_kernel_free_graph(struct xk_kernel *kernel)
{
	for (struct xk_port *port = kernel->ports, *next; port != NULL; port = next) {
		next = port->next;
		xk_transmit_free(port);
		xk_paths_fini(port);
		free(port->transmit);
		xk_event_cancel(&port->changes);
		port->ops->close(port);
	}
	for (struct xk_device *device = kernel->devices, *next; device != NULL; device = next) {
		next = device->next;
		free(device);
	}
	xk_owner_report_lost(kernel);
	for (struct xk_protocol *p = kernel->protocols, *next; p != NULL; p = next) {
		next = p->next;
		kernel_free_protocol(p);
	}
}

struct xk_protocol *
xk_kernel_first(struct xk_kernel *kernel)
{
	return kernel->protocols;
}

const char *
xk_kernel_promise(struct xk_kernel *kernel, bool at_rest, struct xk_protocol **broken)
{
	const char *why = NULL;

	for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL && why == NULL; p = p->next) {
		*broken = p;
		why = xk_table_promise(p, at_rest);
		if (why == NULL && p->type->ops->promise != NULL)
			why = p->type->ops->promise(p, at_rest);
	}
	return why;
}

struct xk_protocol *
xk_kernel_find(struct xk_kernel *kernel, const char *name)
{
	for (struct xk_protocol *p = kernel->protocols; p != NULL; p = p->next)
		if (strcmp(p->name, name) == 0)
			return p;
	return NULL;
}
