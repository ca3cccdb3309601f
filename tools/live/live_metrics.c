/*
 * live_metrics.c - a host's counts in Prometheus' text format, version 0.0.4: each family of samples has a line of help
 * and one of its type; its samples are together. Reads only atomics.
 */
#include <inttypes.h>

#include "tools/host/host.h"
#include "tools/host/host_options.h"
#include "tools/live/live.h"
#include "tools/stats/stats_print.h"
#include "xkernel/trace.h"

static uint64_t
metrics_load(_Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

static void
metrics_family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Writes a label. A byte that is not printable ASCII becomes \xHH, whose backslash is escaped like any other. */
static void
metrics_label(FILE *out, char before, const char *name, const char *value)
{
	fprintf(out, "%c%s=\"", before, name);
	for (const unsigned char *p = (const unsigned char *)value; *p != '\0'; p++) {
		if (*p == '\\' || *p == '"')
			fprintf(out, "\\%c", *p);
		else if (*p == '\n')
			fputs("\\n", out);
		else if (*p < ' ' || *p >= 0x7f)
			fprintf(out, "\\\\x%02x", *p);
		else
			putc(*p, out);
	}
	putc('"', out);
}

static void
metrics_value(FILE *out, uint64_t value)
{
	fprintf(out, "} %" PRIu64 "\n", value);
}

static void
metrics_seconds(FILE *out, uint64_t ns)
{
	fprintf(out, "} %.9f\n", (double)ns / 1e9);
}

/* ---- protocols ---- */

static void
metrics_protocol(FILE *out, const char *family, const struct xk_protocol *p, const char *label, const char *value)
{
	fputs(family, out);
	metrics_label(out, '{', "protocol", p->name);
	metrics_label(out, ',', "type", p->type->name);
	if (label != NULL)
		metrics_label(out, ',', label, value);
}

static void
metrics_protocols(const struct host *host, FILE *out)
{
	struct xk_protocol *first = xk_kernel_first(host->kernel), *p;

	metrics_family(out, "xk_drops_total", "counter", "Messages that a protocol has dropped, by reason.");
	for (p = first; p != NULL; p = p->next)
		for (unsigned i = 1; i < xk_drop_count(p->type); i++) {
			metrics_protocol(out, "xk_drops_total", p, "reason", xk_drop_name(p->type, i));
			metrics_value(out, metrics_load(&p->drops[i]));
		}
	metrics_family(out, "xk_counter", "untyped", "What a protocol counts besides, by name.");
	for (p = first; p != NULL; p = p->next)
		for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++) {
			metrics_protocol(out, "xk_counter", p, "counter", p->type->counters[i]);
			metrics_value(out, xk_counter(p, i));
		}
	metrics_family(out, "xk_kept_buffers", "gauge", "Buffers of messages that a protocol keeps.");
	for (p = first; p != NULL; p = p->next) {
		metrics_protocol(out, "xk_kept_buffers", p, NULL, NULL);
		metrics_value(out, xk_kept(p));
	}
}

/* ---- edges ---- */

static void
metrics_edge(FILE *out, const char *family, const struct xk_edge *edge, const char *label, const char *value)
{
	fputs(family, out);
	metrics_label(out, '{', "upper", edge->upper->name);
	metrics_label(out, ',', "lower", edge->lower->name);
	metrics_label(out, ',', "role", edge->role);
	metrics_label(out, ',', label, value);
}

/* Calls print for each edge and direction. */
static void
metrics_each_crossing(const struct host *host, FILE *out,
		      void (*print)(FILE *out, struct xk_edge *edge, enum xk_direction direction))
{
	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		for (unsigned i = 0; i < p->lower_count; i++)
			for (unsigned direction = 0; direction < XK_DIRECTIONS; direction++)
				print(out, p->lowers[i], (enum xk_direction)direction);
}

static void
metrics_messages(FILE *out, struct xk_edge *edge, enum xk_direction direction)
{
	metrics_edge(out, "xk_messages_total", edge, "direction", xk_direction_names[direction]);
	metrics_value(out, metrics_load(&edge->counts[direction].messages));
}

static void
metrics_timed(FILE *out, struct xk_edge *edge, enum xk_direction direction)
{
	metrics_edge(out, "xk_timed_messages_total", edge, "direction", xk_direction_names[direction]);
	metrics_value(out, metrics_load(&edge->counts[direction].timed));
}

static void
metrics_times(FILE *out, struct xk_edge *edge, enum xk_direction direction)
{
	metrics_edge(out, "xk_timed_seconds_total", edge, "direction", xk_direction_names[direction]);
	metrics_seconds(out, metrics_load(&edge->counts[direction].ns));
}

static void
metrics_edges(const struct host *host, FILE *out)
{
	metrics_family(out, "xk_messages_total", "counter",
		       "Messages that have crossed an edge, while that was counted (xk_counted_seconds_total).");
	metrics_each_crossing(host, out, metrics_messages);
	metrics_family(out, "xk_timed_messages_total", "counter", "Those of them that were timed.");
	metrics_each_crossing(host, out, metrics_timed);
	metrics_family(out, "xk_timed_seconds_total", "counter",
		       "The time of these in the protocol that they entered, without those it called.");
	metrics_each_crossing(host, out, metrics_times);
	metrics_family(out, "xk_handoffs_total", "counter",
		       "Messages that have left the driver at an edge on their way up, by reason.");
	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		for (unsigned i = 0; i < p->lower_count; i++)
			for (unsigned reason = 0; reason < XK_HANDOFF_REASONS; reason++) {
				metrics_edge(out, "xk_handoffs_total", p->lowers[i], "reason",
					     xk_handoff_names[reason]);
				metrics_value(out, metrics_load(&p->lowers[i]->handoffs[reason]));
			}
}

/* ---- ports ---- */

struct metrics_ports {
	FILE *out;
	bool drops;
};

static void
metrics_port_count(void *context, const char *name, uint64_t count, bool is_drop)
{
	const struct metrics_ports *ports = context;

	if (is_drop != ports->drops)
		return;
	fputs(is_drop ? "xk_port_drops_total" : "xk_port_counter", ports->out);
	metrics_label(ports->out, '{', "count", name);
	metrics_value(ports->out, count);
}

static void
metrics_port(FILE *out, const struct host *host, unsigned index, unsigned lane, const char *direction, uint64_t frames)
{
	fputs("xk_frames_total", out);
	metrics_label(out, '{', "port", host->port_nodes[index]);
	metrics_label(out, ',', "dev", host->port_names[index]);
	fprintf(out, ",driver=\"%u\"", lane);
	metrics_label(out, ',', "direction", direction);
	metrics_value(out, frames);
}

static void
metrics_ports(const struct host *host, FILE *out)
{
	struct metrics_ports drops = { out, true }, others = { out, false };

	metrics_family(out, "xk_frames_total", "counter",
		       "Frames that a driver has taken from a port, or given to it.");
	for (unsigned i = 0; i < host->port_count; i++)
		for (unsigned lane = 0; lane < host_driver_count(host); lane++) {
			metrics_port(out, host, i, lane, "in", metrics_load(&host->ports[i][lane]->frames_in));
			metrics_port(out, host, i, lane, "out", metrics_load(&host->ports[i][lane]->frames_out));
		}
	metrics_family(out, "xk_port_drops_total", "counter", "Frames that a port has lost, by PORT.REASON.");
	host_each_port_count(host, metrics_port_count, &drops);
	metrics_family(out, "xk_port_counter", "untyped", "What a port counts besides, by PORT.NAME.");
	host_each_port_count(host, metrics_port_count, &others);
}

/* ---- the host ---- */

static void
metrics_kernel(const struct host *host, FILE *out)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(host->kernel, &stats);
	metrics_family(out, "xk_kernel_events_total", "counter", "What the kernel counts, by name.");
	for (const struct xk_kernel_count *count = xk_kernel_counts; count->name != NULL; count++) {
		fputs("xk_kernel_events_total", out);
		metrics_label(out, '{', "event", count->name);
		metrics_value(out, *(const uint64_t *)((const char *)&stats + count->offset));
	}
	metrics_family(out, "xk_stacks_parked", "gauge", "Stacks of waiting shepherds.");
	fprintf(out, "xk_stacks_parked %u\n", stats.stacks_parked);
}

bool
live_metrics_print(const struct host *host, const struct stats_about *about, FILE *out)
{
	metrics_family(out, "xk_host_info", "gauge", "The host; its value is 1.");
	fputs("xk_host_info", out);
	metrics_label(out, '{', "host", about->name);
	metrics_label(out, ',', "graph", host->options.graph);
	metrics_label(out, ',', "link", host->options.link->name);
	metrics_label(out, ',', "driver", host_drivers[host->options.driver]);
	metrics_label(out, ',', "mode", host_modes[xk_kernel_mode(host->kernel)]);
	metrics_value(out, 1);
	metrics_family(out, "xk_counted_seconds_total", "counter",
		       "Time for which messages at edges were counted: for a minute after each request.");
	fprintf(out, "xk_counted_seconds_total %.9f\n", (double)about->counted_ns / 1e9);
	metrics_protocols(host, out);
	metrics_edges(host, out);
	metrics_ports(host, out);
	metrics_kernel(host, out);
	return !ferror(out);
}
