/*
 * host.c - see host.h.
 */
#include "tests/conformance/host.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "tests/random.h"
#include "xkernel/kernel.h"
#include "xkernel/path.h"

struct host_port {
	struct host *host;
	struct xk_port *port; /* the kernel's once it has it */
	char name[XK_GRAPH_NAME_MAX + 1];
	struct xk_msg *arriving[XK_BURST];
	unsigned arriving_count;
};

struct host {
	struct xk_platform *platform;
	struct host_plan plan;
	struct xk_platform_ops ops; /* the platform's, but for its random numbers */
	uint64_t random;
	struct xk_kernel *kernel;
	struct host_port ports[HOST_PORTS];
	unsigned port_count;
	struct sent *first, **last;
	bool stops; /* at the next frame sent */
	uint64_t bytes_sent;
};

#define HOST_LINK UINT64_C(0x020000000001)

/* ---- ports ---- */

uint64_t
host_link(const struct host_plan *plan, unsigned port)
{
	return HOST_LINK + (uint64_t)HOST_PORTS * plan->number + port;
}

static unsigned
host_receive(void *context, struct xk_msg **frames, unsigned max)
{
	struct host_port *port = context;
	unsigned count = port->arriving_count < max ? port->arriving_count : max;

	memcpy(frames, port->arriving, count * sizeof(frames[0]));
	port->arriving_count -= count;
	memmove(port->arriving, port->arriving + count, port->arriving_count * sizeof(frames[0]));
	return count;
}

static void
host_keep(struct host_port *port, struct xk_msg *m)
{
	struct host *host = port->host;
	struct sent *sent = malloc(sizeof(*sent) + xk_msg_len(m));

	if (sent == NULL)
		abort();
	*sent = (struct sent){ .at_ns = host_now_ns(host),
			       .port = (unsigned)(port - host->ports),
			       .len = xk_msg_len(m) };
	xk_msg_copy_out(m, 0, sent->bytes, sent->len);
	xk_msg_free(m);
	*host->last = sent;
	host->last = &sent->next;
	host->bytes_sent += sent->len;
	if (host->stops)
		xk_kernel_halt(host->kernel);
}

static unsigned
host_transmit(void *context, struct xk_msg **frames, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		host_keep(context, frames[i]);
	return count;
}

static bool
host_add_port(struct host *host, const char *name, uint32_t mtu)
{
	struct host_port *port = &host->ports[host->port_count];

	if (host->port_count == HOST_PORTS)
		return false;
	snprintf(port->name, sizeof(port->name), "%s", name);
	port->host = host;
	port->port = xk_memory_port_new(host->platform, name, host_link(&host->plan, host->port_count), mtu);
	if (port->port == NULL)
		abort();
	port->port->offloads = host->plan.offloads;
	xk_memory_loop(port->port, host_receive, host_transmit, port);
	xk_kernel_add_port(host->kernel, port->port);
	host->port_count++;
	return true;
}

/* ---- the graph ---- */

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Adds a port of this file's for each port node, in the order of their names. */
static bool
host_add_ports(struct host *host, struct xk_graph *graph, uint32_t mtu, struct xk_graph_errors *errors)
{
	const char *names[XK_GRAPH_NODES_MAX];
	unsigned count = 0;
	bool good = true;

	for (unsigned i = 0; i < graph->node_count; i++) {
		const struct xk_graph_node *node = &graph->nodes[i];
		const struct xk_graph_attribute *type = xk_graph_attribute_find(&node->attributes, "protocol");

		if (strcmp(type != NULL ? type->value : node->name, "port") == 0)
			names[count++] = node->name;
	}
	qsort(names, count, sizeof(names[0]), compare_names);
	for (unsigned i = 0; i < count && good; i++) {
		char set[2 * XK_GRAPH_NAME_MAX + 8];

		snprintf(set, sizeof(set), "%s.dev=%s", names[i], names[i]);
		good = host_add_port(host, names[i], mtu) && xk_graph_set(graph, set, errors) == 0;
	}
	return good;
}

/* Makes random initial values 1, so that a script always has the same outcome. */
static void
host_settle(struct xk_protocol *p)
{
	char why[64];

	p->resume = XK_RESUME_DRIVER; /* everything runs on this thread */
	for (const struct xk_setting *s = p->type->settings; s != NULL && s->name != NULL; s++)
		if (strcmp(s->name, "seed") == 0 && *(const uint64_t *)((const char *)p + s->offset) == 0)
			xk_setting_parse(s, "1", p, why, sizeof(why));
}

static bool
host_compose(struct host *host, const struct host_plan *plan, struct xk_graph *graph, struct xk_graph_errors *errors)
{
	struct xk_protocol *failed = NULL;

	for (unsigned i = 0; i < plan->set_count; i++)
		if (xk_graph_set(graph, plan->sets[i], errors) != 0)
			return false;
	if (!host_add_ports(host, graph, plan->mtu, errors) ||
	    xk_graph_check(graph, plan->types != NULL ? plan->types : xk_protocol_types, errors) != 0 ||
	    xk_graph_build(graph, host->kernel, errors) != 0)
		return false;
	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		host_settle(p);
	if (plan->no_paths)
		xk_kernel_set_paths(host->kernel, false);
	if (xk_kernel_init(host->kernel, &failed) == 0)
		return true;
	xk_graph_errors_add(errors, graph->file, 0, "%s cannot begin", failed != NULL ? failed->name : "the host");
	return false;
}

static bool
host_read(struct host *host, const struct host_plan *plan, char *why, size_t why_size)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = xk_graph_read(plan->graph, &errors);
	bool good = graph != NULL && host_compose(host, plan, graph, &errors);

	if (!good)
		snprintf(why, why_size, "%s", errors.count > 0 ? errors.list[0].text : "the graph has too many ports");
	xk_graph_errors_clear(&errors);
	xk_graph_free(graph);
	return good;
}

/* ---- life ---- */

/* Returns the same numbers for each host, so that a script always has the same outcome. */
static uint64_t
host_random(struct xk_platform *platform)
{
	struct host *host = (struct host *)xk_container_of(platform->ops, struct host, ops);

	return next_random(&host->random);
}

static void
host_fix_chance(struct host *host)
{
	host->random = UINT64_C(0x9e3779b97f4a7c15) + host->plan.number;
	host->ops = *host->platform->ops;
	host->ops.random = host_random;
	host->platform->ops = &host->ops;
}

static void
host_idle(void *context)
{
	xk_kernel_halt(((struct host *)context)->kernel);
}

struct host *
host_new(const struct host_plan *plan, char *why, size_t why_size)
{
	struct xk_kernel_config config = { .name = "host",
					   .mode = XK_IPP,
					   .driver = XK_DRIVER_INTERRUPT,
					   .stacks = 8,
					   .core = -1,
					   .trace = plan->trace };
	struct host *host = calloc(1, sizeof(*host));

	if (host == NULL)
		abort();
	host->plan = *plan;
	host->last = &host->first;
	host->platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);
	if (host->platform == NULL)
		abort();
	if (plan->limit > 0)
		xk_memory_platform_limit(host->platform, plan->limit);
	host_fix_chance(host);
	xk_memory_on_idle(host->platform, host_idle, host);
	config.platform = host->platform;
	host->kernel = xk_kernel_new(&config);
	if (host->kernel == NULL)
		abort();
	if (host_read(host, plan, why, why_size)) {
		host_run_until(host, 0, false);
		return host;
	}
	host_free(host);
	return NULL;
}

bool
host_free(struct host *host)
{
	unsigned left;

	for (unsigned i = 0; i < host->port_count; i++)
		while (host->ports[i].arriving_count > 0)
			xk_msg_free(host->ports[i].arriving[--host->ports[i].arriving_count]);
	xk_kernel_free(host->kernel); /* which may send */
	while (host->first != NULL)
		host_drop_sent(host);
	left = host->platform->ops->buffers_out(host->platform);
	xk_memory_platform_free(host->platform);
	free(host);
	return left == 0;
}

struct xk_protocol *
host_protocol(const struct host *host, const char *name)
{
	return xk_kernel_find(host->kernel, name);
}

unsigned
host_port_count(const struct host *host)
{
	return host->port_count;
}

/* ---- frames and time ---- */

uint64_t
host_now_ns(const struct host *host)
{
	return host->platform->ops->now_ns(host->platform);
}

void
host_run_until(struct host *host, uint64_t until_ns, bool stops)
{
	host->stops = stops && host->first == NULL;
	xk_memory_run_until(host->platform, until_ns);
	xk_kernel_run(host->kernel);
	if (host->stops) { /* whatever else happens at this time */
		host->stops = false;
		xk_memory_run_until(host->platform, host_now_ns(host));
		xk_kernel_run(host->kernel);
	}
}

/* Returns a frame of these bytes. */
static struct xk_msg *
host_frame(struct host *host, const uint8_t *bytes, size_t len)
{
	struct xk_msg *m = xk_memory_frame(host->platform, len);

	if (m == NULL)
		abort();
	memcpy(m->data, bytes, len);
	return m;
}

void
host_queue(struct host *host, unsigned port, const uint8_t *bytes, size_t len, size_t split, unsigned flags)
{
	struct host_port *to = &host->ports[port];
	bool is_split = split > 0 && split < len;
	struct xk_msg *m = host_frame(host, bytes, is_split ? split : len);

	if (is_split)
		xk_msg_join(m, host_frame(host, bytes + split, len - split));
	m->flags |= flags;
	m->link = m; /* a device leaves anything there */
	if (host->plan.saw != NULL)
		host->plan.saw(host->plan.context, &host->plan, host_now_ns(host), port, bytes, len);
	if (to->arriving_count == XK_BURST)
		abort(); /* the test's mistake */
	to->arriving[to->arriving_count++] = m;
}

void
host_inject(struct host *host, unsigned port, const uint8_t *bytes, size_t len)
{
	host_inject_parts(host, port, bytes, len, 0, 0);
}

void
host_inject_parts(struct host *host, unsigned port, const uint8_t *bytes, size_t len, size_t split, unsigned flags)
{
	host_queue(host, port, bytes, len, split, flags);
	host_run_until(host, host_now_ns(host), false);
}

const struct sent *
host_first_sent(const struct host *host)
{
	return host->first;
}

void
host_drop_sent(struct host *host)
{
	struct sent *sent = host->first;

	host->first = sent->next;
	if (host->first == NULL)
		host->last = &host->first;
	free(sent);
}

/* ---- counters ---- */

static bool
host_count_of(const struct xk_protocol *p, const char *name, uint64_t *count)
{
	unsigned drops = xk_drop_count(p->type);

	for (unsigned i = 1; i < drops; i++) {
		if (strcmp(xk_drop_name(p->type, i), name) != 0)
			continue;
		*count = atomic_load_explicit(&p->drops[i], memory_order_relaxed);
		return true;
	}
	for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++) {
		if (strcmp(p->type->counters[i], name) != 0)
			continue;
		*count = xk_counter(p, i);
		return true;
	}
	return false;
}

bool
host_count(const struct host *host, const char *name, uint64_t *count)
{
	char instance[XK_GRAPH_NAME_MAX + 1];
	size_t len = strcspn(name, ".");
	const struct xk_protocol *p;

	if (name[len] == '\0' || len >= sizeof(instance))
		return false;
	memcpy(instance, name, len);
	instance[len] = '\0';
	p = xk_kernel_find(host->kernel, instance);
	return p != NULL && host_count_of(p, name + len + 1, count);
}

void
host_each_drop(const struct host *host, void (*see)(void *context, const char *name, uint64_t count), void *context)
{
	for (const struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next) {
		for (unsigned i = 1; i < xk_drop_count(p->type); i++) {
			uint64_t count = atomic_load_explicit(&p->drops[i], memory_order_relaxed);
			char name[XK_GRAPH_NAME_MAX + 64];

			snprintf(name, sizeof(name), "%s.%s", p->name, xk_drop_name(p->type, i));
			if (count > 0)
				see(context, name, count);
		}
	}
}

/* Returns whether a count is the same for p and its counterpart; if not, says so in `why`. */
static bool
host_is_same(const struct xk_protocol *p, const char *what, uint64_t count, uint64_t other, char *why, size_t why_size)
{
	if (count == other)
		return true;
	snprintf(why, why_size, "%s.%s is %" PRIu64 " and %" PRIu64, p->name, what, count, other);
	return false;
}

static bool
host_protocol_is_like(const struct xk_protocol *p, const struct xk_protocol *q, char *why, size_t why_size)
{
	unsigned drops = xk_drop_count(p->type);

	for (unsigned i = 1; i < drops; i++)
		if (!host_is_same(p, xk_drop_name(p->type, i), atomic_load_explicit(&p->drops[i], memory_order_relaxed),
				  atomic_load_explicit(&q->drops[i], memory_order_relaxed), why, why_size))
			return false;
	for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++)
		if (!host_is_same(p, p->type->counters[i], xk_counter(p, i), xk_counter(q, i), why, why_size))
			return false;
	return host_is_same(p, "sessions", xk_map_count(&p->table.sessions), xk_map_count(&q->table.sessions), why,
			    why_size) &&
	       host_is_same(p, "kept", xk_kept(p), xk_kept(q), why, why_size);
}

bool
host_is_like(const struct host *host, const struct host *other, char *why, size_t why_size)
{
	const struct xk_protocol *p = xk_kernel_first(host->kernel), *q = xk_kernel_first(other->kernel);

	for (; p != NULL && q != NULL; p = p->next, q = q->next)
		if (!host_protocol_is_like(p, q, why, why_size))
			return false;
	snprintf(why, why_size, "%u buffers are held, and %u", host_buffers(host), host_buffers(other));
	return host_buffers(host) == host_buffers(other);
}

void
host_count_edges(struct host *host, bool wanted)
{
	xk_kernel_count_edges(host->kernel, wanted);
}

uint64_t
host_crossings(const struct host *host)
{
	uint64_t sum = 0, weight = 1;

	for (const struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		for (unsigned i = 0; i < p->lower_count; i++)
			for (unsigned way = 0; way < XK_DIRECTIONS; way++, weight = weight * 31 + 7)
				sum += weight *
				       atomic_load_explicit(&p->lowers[i]->counts[way].messages, memory_order_relaxed);
	return sum;
}

uint64_t
host_by_path(const struct host *host)
{
	uint64_t taken = 0;

	for (unsigned i = 0; i < host->port_count; i++)
		if (host->ports[i].port->paths != NULL)
			taken += xk_paths_taken(host->ports[i].port);
	return taken;
}

uint64_t
host_bytes_sent(const struct host *host)
{
	return host->bytes_sent;
}

unsigned
host_sessions(const struct host *host)
{
	unsigned count = 0;

	for (const struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		count += xk_map_count(&p->table.sessions);
	return count;
}

unsigned
host_buffers(const struct host *host)
{
	return host->platform->ops->buffers_out(host->platform);
}
