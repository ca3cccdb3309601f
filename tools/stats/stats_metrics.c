/*
 * stats_metrics.c - see stats_metrics.h. Each family of samples has a line of help and one of its type; its samples are
 * together. Reads only atomics.
 */
#include "tools/stats/stats_metrics.h"

#include <inttypes.h>
#include <string.h>

#include "tools/host/host.h"
#include "tools/host/host_options.h"
#include "xkernel/trace.h"

enum { METRICS_PORT = 64, METRICS_NUMBER = 16 };

struct metrics {
	FILE *out;
	const char *host; /* the label `host` of all samples; NULL: they have none */
	unsigned labels;  /* of the sample that is being written */
};

static uint64_t
metrics_load(_Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

static void
metrics_family(const struct metrics *metrics, const char *name, const char *type, const char *help)
{
	fprintf(metrics->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Writes a label. A byte that is not printable ASCII becomes \xHH, whose backslash is escaped like any other. */
static void
metrics_label(struct metrics *metrics, const char *name, const char *value)
{
	FILE *out = metrics->out;

	fprintf(out, "%c%s=\"", metrics->labels++ == 0 ? '{' : ',', name);
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

/* Begins a sample; its labels follow, then its value. */
static void
metrics_begin(struct metrics *metrics, const char *family)
{
	fputs(family, metrics->out);
	metrics->labels = 0;
	if (metrics->host != NULL)
		metrics_label(metrics, "host", metrics->host);
}

static void
metrics_value(struct metrics *metrics, uint64_t value)
{
	fprintf(metrics->out, "%s %" PRIu64 "\n", metrics->labels > 0 ? "}" : "", value);
}

static void
metrics_seconds(struct metrics *metrics, uint64_t ns)
{
	fprintf(metrics->out, "%s %.9f\n", metrics->labels > 0 ? "}" : "", (double)ns / 1e9);
}

/* ---- protocols ---- */

static void
metrics_protocol(struct metrics *metrics, const char *family, const struct xk_protocol *p, const char *label,
		 const char *value)
{
	metrics_begin(metrics, family);
	metrics_label(metrics, "protocol", p->name);
	metrics_label(metrics, "type", p->type->name);
	if (label != NULL)
		metrics_label(metrics, label, value);
}

static void
metrics_protocols(const struct host *host, struct metrics *metrics)
{
	struct xk_protocol *first = xk_kernel_first(host->kernel), *p;

	metrics_family(metrics, "xk_drops_total", "counter", "Messages that a protocol has dropped, by reason.");
	for (p = first; p != NULL; p = p->next)
		for (unsigned i = 1; i < xk_drop_count(p->type); i++) {
			metrics_protocol(metrics, "xk_drops_total", p, "reason", xk_drop_name(p->type, i));
			metrics_value(metrics, metrics_load(&p->drops[i]));
		}
	metrics_family(metrics, "xk_protocol_events", "untyped", "What a protocol counts besides, by name.");
	for (p = first; p != NULL; p = p->next)
		for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++) {
			metrics_protocol(metrics, "xk_protocol_events", p, "event", p->type->counters[i]);
			metrics_value(metrics, xk_counter(p, i));
		}
	metrics_family(metrics, "xk_kept_buffers", "gauge", "Buffers of messages that a protocol keeps.");
	for (p = first; p != NULL; p = p->next) {
		metrics_protocol(metrics, "xk_kept_buffers", p, NULL, NULL);
		metrics_value(metrics, xk_kept(p));
	}
}

/* ---- edges ---- */

static void
metrics_edge(struct metrics *metrics, const char *family, const struct xk_edge *edge, const char *label,
	     const char *value)
{
	metrics_begin(metrics, family);
	metrics_label(metrics, "upper", edge->upper->name);
	metrics_label(metrics, "lower", edge->lower->name);
	metrics_label(metrics, "role", edge->role);
	metrics_label(metrics, label, value);
}

/* Calls print for each edge and direction. */
static void
metrics_each_crossing(const struct host *host, struct metrics *metrics,
		      void (*print)(struct metrics *metrics, struct xk_edge *edge, enum xk_direction direction))
{
	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		for (unsigned i = 0; i < p->lower_count; i++)
			for (unsigned direction = 0; direction < XK_DIRECTIONS; direction++)
				print(metrics, p->lowers[i], (enum xk_direction)direction);
}

static void
metrics_messages(struct metrics *metrics, struct xk_edge *edge, enum xk_direction direction)
{
	metrics_edge(metrics, "xk_messages_total", edge, "direction", xk_direction_names[direction]);
	metrics_value(metrics, metrics_load(&edge->counts[direction].messages));
}

static void
metrics_timed(struct metrics *metrics, struct xk_edge *edge, enum xk_direction direction)
{
	metrics_edge(metrics, "xk_timed_messages_total", edge, "direction", xk_direction_names[direction]);
	metrics_value(metrics, metrics_load(&edge->counts[direction].timed));
}

static void
metrics_times(struct metrics *metrics, struct xk_edge *edge, enum xk_direction direction)
{
	metrics_edge(metrics, "xk_timed_seconds_total", edge, "direction", xk_direction_names[direction]);
	metrics_seconds(metrics, metrics_load(&edge->counts[direction].ns));
}

static void
metrics_edges(const struct host *host, struct metrics *metrics)
{
	metrics_family(metrics, "xk_messages_total", "counter",
		       "Messages that have crossed an edge, while that was counted (xk_counted_seconds_total).");
	metrics_each_crossing(host, metrics, metrics_messages);
	metrics_family(metrics, "xk_timed_messages_total", "counter", "Those of them that were timed.");
	metrics_each_crossing(host, metrics, metrics_timed);
	metrics_family(metrics, "xk_timed_seconds_total", "counter",
		       "The time of these in the protocol that they entered, without those it called.");
	metrics_each_crossing(host, metrics, metrics_times);
	metrics_family(metrics, "xk_handoffs_total", "counter",
		       "Messages that have left the driver at an edge on their way up, by reason.");
	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		for (unsigned i = 0; i < p->lower_count; i++)
			for (unsigned reason = 0; reason < XK_HANDOFF_REASONS; reason++) {
				metrics_edge(metrics, "xk_handoffs_total", p->lowers[i], "reason",
					     xk_handoff_names[reason]);
				metrics_value(metrics, metrics_load(&p->lowers[i]->handoffs[reason]));
			}
}

/* ---- ports ---- */

struct metrics_ports {
	struct metrics *metrics;
	bool drops;
};

static void
metrics_port_count(void *context, const char *name, uint64_t count, bool is_drop)
{
	const struct metrics_ports *ports = context;
	const char *dot = strrchr(name, '.');
	char port[METRICS_PORT];

	if (is_drop != ports->drops || dot == NULL)
		return;
	snprintf(port, sizeof(port), "%.*s", (int)(dot - name), name);
	metrics_begin(ports->metrics, is_drop ? "xk_port_drops_total" : "xk_port_events");
	metrics_label(ports->metrics, "port", port);
	metrics_label(ports->metrics, is_drop ? "reason" : "event", dot + 1);
	metrics_value(ports->metrics, count);
}

static void
metrics_port(struct metrics *metrics, const struct host *host, unsigned index, unsigned lane, const char *direction,
	     uint64_t frames)
{
	char driver[METRICS_NUMBER];

	snprintf(driver, sizeof(driver), "%u", lane);
	metrics_begin(metrics, "xk_frames_total");
	metrics_label(metrics, "port", host->port_nodes[index]);
	metrics_label(metrics, "dev", host->port_names[index]);
	metrics_label(metrics, "driver", driver);
	metrics_label(metrics, "direction", direction);
	metrics_value(metrics, frames);
}

static void
metrics_ports(const struct host *host, struct metrics *metrics)
{
	struct metrics_ports drops = { metrics, true }, others = { metrics, false };

	metrics_family(metrics, "xk_frames_total", "counter",
		       "Frames that a driver has taken from a port, or given to it.");
	for (unsigned i = 0; i < host->port_count; i++)
		for (unsigned lane = 0; lane < host_driver_count(host); lane++) {
			metrics_port(metrics, host, i, lane, "in", metrics_load(&host->ports[i][lane]->frames_in));
			metrics_port(metrics, host, i, lane, "out", metrics_load(&host->ports[i][lane]->frames_out));
		}
	metrics_family(metrics, "xk_port_drops_total", "counter", "Frames that a port has lost, by reason.");
	host_each_port_count(host, metrics_port_count, &drops);
	metrics_family(metrics, "xk_port_events", "untyped", "What a port counts besides, by name.");
	host_each_port_count(host, metrics_port_count, &others);
}

/* ---- the host ---- */

static void
metrics_kernel(const struct host *host, struct metrics *metrics)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(host->kernel, &stats);
	metrics_family(metrics, "xk_kernel_events_total", "counter", "What the kernel counts, by name.");
	for (const struct xk_kernel_count *count = xk_kernel_counts; count->name != NULL; count++) {
		metrics_begin(metrics, "xk_kernel_events_total");
		metrics_label(metrics, "event", count->name);
		metrics_value(metrics, *(const uint64_t *)((const char *)&stats + count->offset));
	}
	metrics_family(metrics, "xk_stacks_parked", "gauge", "Stacks of waiting shepherds.");
	metrics_begin(metrics, "xk_stacks_parked");
	metrics_value(metrics, stats.stacks_parked);
}

bool
stats_print_metrics(const struct host *host, const struct stats_about *about, FILE *out)
{
	struct metrics sample = { .out = out, .host = about->is_one_of_many ? about->name : NULL }, *metrics = &sample;

	metrics_family(metrics, "xk_host_info", "gauge", "The host; its value is 1.");
	metrics_begin(metrics, "xk_host_info");
	if (!about->is_one_of_many)
		metrics_label(metrics, "host", about->name);
	metrics_label(metrics, "graph", host->options.graph);
	metrics_label(metrics, "link", host->options.link->name);
	metrics_label(metrics, "driver", host_drivers[host->options.driver]);
	metrics_label(metrics, "mode", host_modes[xk_kernel_mode(host->kernel)]);
	metrics_value(metrics, 1);
	metrics_family(metrics, "xk_counted_seconds_total", "counter",
		       "Time for which messages at edges were counted: for a minute after each request.");
	metrics_begin(metrics, "xk_counted_seconds_total");
	metrics_seconds(metrics, about->counted_ns);
	metrics_protocols(host, metrics);
	metrics_edges(host, metrics);
	metrics_ports(host, metrics);
	metrics_kernel(host, metrics);
	return !ferror(out);
}
