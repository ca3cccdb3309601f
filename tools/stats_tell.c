/* stats_tell.c - a host's counts as a JSON document, while it runs; see stats_server.h. Only reads what is atomic. */
#include <unistd.h>

#include "graphs/graph.h"
#include "tools/host_options.h"
#include "tools/json.h"
#include "tools/stats_server.h"

static const char *const tell_reasons[XK_HANDOFF_REASONS] = { "explicit", "implicit", "time" };
static const char *const tell_directions[XK_DIRECTIONS] = { "up", "down" };

static uint64_t
tell_load(_Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

static void
tell_protocol(struct json *json, struct xk_protocol *p)
{
	json_object(json, NULL);
	json_string(json, "name", p->name);
	json_string(json, "protocol", p->type->name);
	json_object(json, "drops");
	for (unsigned i = 1; i < xk_drop_count(p->type); i++)
		if (tell_load(&p->drops[i]) != 0)
			json_uint(json, xk_drop_name(p->type, i), tell_load(&p->drops[i]));
	json_close(json);
	json_object(json, "counters");
	for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++)
		json_uint(json, p->type->counters[i], xk_counter(p, i));
	json_close(json);
	json_close(json);
}

static void
tell_edge(struct json *json, struct xk_edge *edge)
{
	json_object(json, NULL);
	json_string(json, "upper", edge->upper->name);
	json_string(json, "lower", edge->lower->name);
	json_string(json, "role", edge->role);
	for (unsigned i = 0; i < XK_DIRECTIONS; i++) {
		json_object(json, tell_directions[i]);
		json_uint(json, "messages", tell_load(&edge->counts[i].messages));
		json_uint(json, "timed", tell_load(&edge->counts[i].timed));
		json_uint(json, "ns", tell_load(&edge->counts[i].ns));
		json_close(json);
	}
	json_object(json, "handoffs");
	for (unsigned i = 0; i < XK_HANDOFF_REASONS; i++)
		json_uint(json, tell_reasons[i], tell_load(&edge->handoffs[i]));
	json_close(json);
	json_close(json);
}

static void
tell_kernel_stats(struct json *json, const char *key, const struct xk_kernel_stats *stats)
{
	json_object(json, key);
	for (const struct xk_kernel_count *count = xk_kernel_counts; count->name != NULL; count++)
		json_uint(json, count->name, *(const uint64_t *)((const char *)stats + count->offset));
	json_uint(json, "stacks_parked", stats->stacks_parked);
	json_close(json);
}

/* Each driver's own, then everything: the drivers' and that of all other threads. */
static void
tell_drivers(struct json *json, struct xk_kernel *kernel)
{
	struct xk_kernel_stats stats;

	json_array(json, "drivers");
	for (unsigned i = 0; i < xk_kernel_drivers(kernel); i++) {
		xk_kernel_driver_stats(kernel, i, &stats);
		tell_kernel_stats(json, NULL, &stats);
	}
	json_close(json);
	xk_kernel_stats(kernel, &stats);
	tell_kernel_stats(json, "kernel", &stats);
}

static void
tell_ports(struct json *json, const struct host *host)
{
	json_array(json, "ports");
	for (unsigned i = 0; i < host->port_count; i++)
		for (unsigned lane = 0; lane < host_driver_count(host); lane++) {
			struct xk_port *port = host->ports[i][lane];

			json_object(json, NULL);
			json_string(json, "name", host->port_nodes[i]);
			json_string(json, "dev", host->port_names[i]);
			json_uint(json, "driver", lane);
			json_uint(json, "frames_in", tell_load(&port->frames_in));
			json_uint(json, "frames_out", tell_load(&port->frames_out));
			json_uint(json, "unheard", tell_load(&port->unheard));
			json_close(json);
		}
	json_close(json);
}

static void
tell_host(struct json *json, const struct host *host, const struct stats_about *about)
{
	json_string(json, "program", host->options.program);
	json_string(json, "host", about->name);
	json_uint(json, "pid", (uint64_t)getpid());
	json_string(json, "graph", host->options.graph);
	json_string(json, "link", host->options.link->name);
	json_string(json, "driver", host_drivers[host->options.driver]);
	json_string(json, "mode", host_modes[xk_kernel_mode(host->kernel)]);
	json_uint(json, "now_ns", about->now_ns);
	json_uint(json, "counted_ns", about->counted_ns);
}

bool
stats_tell(const struct host *host, const struct stats_about *about, FILE *out)
{
	struct json json;

	json_begin(&json, out);
	json_object(&json, NULL);
	tell_host(&json, host, about);
	json_array(&json, "protocols");
	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		tell_protocol(&json, p);
	json_close(&json);
	json_array(&json, "edges");
	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		for (unsigned i = 0; i < p->lower_count; i++)
			tell_edge(&json, p->lowers[i]);
	json_close(&json);
	tell_drivers(&json, host->kernel);
	tell_ports(&json, host);
	json_close(&json);
	return json_end(&json);
}
