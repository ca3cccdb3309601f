/* stats_print.c - a running host's counts, as a JSON document and as tables. Reads only atomics. */
#include "tools/stats/stats_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "tools/host/host_alone.h"
#include "tools/host/host_options.h"
#include "tools/json.h"
#include "xkernel/engine/where.h"
#include "xkernel/trace.h"

enum { PRINT_NAME = 24, PRINT_EDGE = 2 * 64 + 8, PRINT_PARKED = 32 };

static uint64_t
print_load(_Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

/* ---- sums ---- */

/*
 * Messages across an edge; or those that reached a protocol from below and above, with handoffs at the edges below it.
 */
struct print_sum {
	struct {
		uint64_t messages, timed, ns;
	} crossed[XK_DIRECTIONS];
	uint64_t handoffs[XK_HANDOFF_REASONS];
	double busy_ns; /* time of all messages, estimated from the timed ones */
};

/* Adds the messages that crossed an edge upward, with handoffs, or downward. */
static void
print_add(struct print_sum *sum, struct xk_edge *edge, enum xk_direction direction)
{
	uint64_t messages = print_load(&edge->counts[direction].messages),
		 timed = print_load(&edge->counts[direction].timed);
	uint64_t ns = print_load(&edge->counts[direction].ns);

	sum->crossed[direction].messages += messages;
	sum->crossed[direction].timed += timed;
	sum->crossed[direction].ns += ns;
	sum->busy_ns += timed == 0 ? 0 : (double)ns / (double)timed * (double)messages;
	for (unsigned i = 0; direction == XK_UP && i < XK_HANDOFF_REASONS; i++)
		sum->handoffs[i] += print_load(&edge->handoffs[i]);
}

/* Sums over all edges the messages that reached p (NULL: every protocol). */
static struct print_sum
print_sum_of(const struct host *host, const struct xk_protocol *p)
{
	struct print_sum sum = { .busy_ns = 0 };

	for (struct xk_protocol *upper = xk_kernel_first(host->kernel); upper != NULL; upper = upper->next)
		for (unsigned i = 0; i < upper->lower_count; i++) {
			if (p == NULL || upper == p)
				print_add(&sum, upper->lowers[i], XK_UP);
			if (p == NULL || upper->lowers[i]->lower == p)
				print_add(&sum, upper->lowers[i], XK_DOWN);
		}
	return sum;
}

static struct print_sum
print_sum_edge(struct xk_edge *edge)
{
	struct print_sum sum = { .busy_ns = 0 };

	print_add(&sum, edge, XK_UP);
	print_add(&sum, edge, XK_DOWN);
	return sum;
}

/* ---- the document ---- */

static void
print_sum(struct json *json, const struct print_sum *sum)
{
	for (unsigned i = 0; i < XK_DIRECTIONS; i++) {
		json_object(json, xk_direction_names[i]);
		json_uint(json, "messages", sum->crossed[i].messages);
		json_uint(json, "timed", sum->crossed[i].timed);
		json_uint(json, "ns", sum->crossed[i].ns);
		json_close(json);
	}
	json_object(json, "handoffs");
	for (unsigned i = 0; i < XK_HANDOFF_REASONS; i++)
		json_uint(json, xk_handoff_names[i], sum->handoffs[i]);
	json_close(json);
}

static void
print_protocol(struct json *json, const struct host *host, struct xk_protocol *p, double all_ns)
{
	struct print_sum sum = print_sum_of(host, p);

	json_object(json, NULL);
	json_string(json, "name", p->name);
	json_string(json, "protocol", p->type->name);
	json_object(json, "drops");
	for (unsigned i = 1; i < xk_drop_count(p->type); i++)
		if (print_load(&p->drops[i]) != 0)
			json_uint(json, xk_drop_name(p->type, i), print_load(&p->drops[i]));
	json_close(json);
	json_object(json, "counters");
	for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++)
		json_uint(json, p->type->counters[i], xk_counter(p, i));
	json_close(json);
	json_uint(json, "kept", xk_kept(p));
	print_sum(json, &sum);
	json_double(json, "share", all_ns > 0 ? sum.busy_ns / all_ns : NAN);
	json_close(json);
}

static void
print_kernel_stats(struct json *json, const char *key, const struct xk_kernel_stats *stats)
{
	json_object(json, key);
	for (const struct xk_kernel_count *count = xk_kernel_counts; count->name != NULL; count++)
		json_uint(json, count->name, *(const uint64_t *)((const char *)stats + count->offset));
	json_uint(json, "stacks_parked", stats->stacks_parked);
	json_close(json);
}

static void
print_port_count(void *json, const char *name, uint64_t count, bool is_drop)
{
	(void)is_drop;
	json_uint(json, name, count);
}

static void
print_ports(struct json *json, const struct host *host)
{
	json_array(json, "ports");
	for (unsigned i = 0; i < host->port_count; i++)
		for (unsigned lane = 0; lane < host_driver_count(host); lane++) {
			struct xk_port *port = host->ports[i][lane];

			json_object(json, NULL);
			json_string(json, "name", host->port_nodes[i]);
			json_string(json, "dev", host->port_names[i]);
			json_uint(json, "driver", lane);
			json_uint(json, "frames_in", print_load(&port->frames_in));
			json_uint(json, "frames_out", print_load(&port->frames_out));
			json_uint(json, "unheard", print_load(&port->unheard));
			if (port->ops->counts != NULL) {
				json_object(json, "counts");
				port->ops->counts(port, print_port_count, json);
				json_close(json);
			}
			json_close(json);
		}
	json_close(json);
}

bool
stats_print_document(const struct host *host, const struct stats_about *about, FILE *out)
{
	double all_ns = print_sum_of(host, NULL).busy_ns;
	struct xk_kernel_stats stats;
	struct json json;

	json_begin(&json, out);
	json_object(&json, NULL);
	json_string(&json, "program", host->options.program);
	json_string(&json, "host", about->name);
	json_uint(&json, "pid", (uint64_t)getpid());
	json_string(&json, "graph", host->options.graph);
	json_string(&json, "link", host->options.link->name);
	json_string(&json, "driver", host_drivers[host->options.driver]);
	json_string(&json, "mode", host_modes[xk_kernel_mode(host->kernel)]);
	json_uint(&json, "now_ns", about->now_ns);
	json_uint(&json, "counted_ns", about->counted_ns);
	json_array(&json, "protocols");
	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		print_protocol(&json, host, p, all_ns);
	json_close(&json);
	json_array(&json, "edges");
	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		for (unsigned i = 0; i < p->lower_count; i++) {
			struct print_sum sum = print_sum_edge(p->lowers[i]);

			json_object(&json, NULL);
			json_string(&json, "upper", p->name);
			json_string(&json, "lower", p->lowers[i]->lower->name);
			json_string(&json, "role", p->lowers[i]->role);
			print_sum(&json, &sum);
			json_close(&json);
		}
	json_close(&json);
	json_array(&json, "drivers");
	for (unsigned i = 0; i < xk_kernel_drivers(host->kernel); i++) {
		xk_kernel_driver_stats(host->kernel, i, &stats);
		print_kernel_stats(&json, NULL, &stats);
	}
	json_close(&json);
	xk_kernel_stats(host->kernel, &stats);
	print_kernel_stats(&json, "kernel", &stats);
	host_json_parked(host->kernel, &json);
	print_ports(&json, host);
	json_close(&json);
	return json_end(&json);
}

/* ---- tables ---- */

struct print_tables {
	const struct host *host;
	FILE *out;
	struct stats_before *before;
	size_t at; /* index of the next count in it */
	double seconds, all_ns;
	const char *title; /* the table's, until its first row */
	bool failed;
};

/* Returns the count's growth per second since the previous sample, and keeps `now` for the next one. */
static double
print_rate(struct print_tables *t, uint64_t now)
{
	struct stats_before *before = t->before;
	uint64_t *grown = before->counts, was = now;

	if (t->at == before->count) {
		grown = realloc(before->counts, (before->count + 1) * sizeof(*grown));
		if (grown == NULL) {
			t->failed = true;
			return 0;
		}
		before->counts = grown;
		before->count++;
	} else {
		was = grown[t->at];
	}
	grown[t->at++] = now;
	return now < was ? 0 : (double)(now - was) / t->seconds;
}

/* Prints the first cell of a row, on one line even if a name in it has a newline. */
__attribute__((format(printf, 2, 3))) static void
print_name(struct print_tables *t, const char *format, ...)
{
	char name[PRINT_EDGE];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(name, sizeof(name), format, arguments);
	va_end(arguments);
	for (char *newline = name; (newline = strchr(newline, '\n')) != NULL;)
		*newline = '?';
	fprintf(t->out, "%-*s", PRINT_NAME, name);
}

static void
print_sum_title(struct print_tables *t, const char *title)
{
	fprintf(t->out, "\n%-*s %9s %11s %9s %11s %7s %7s %8s %8s %8s", PRINT_NAME, title, "up/s", "up", "down/s",
		"down", "ns up", "ns down", "explicit", "implicit", "time");
}

static void
print_sum_cells(struct print_tables *t, const struct print_sum *sum)
{
	for (unsigned i = 0; i < XK_DIRECTIONS; i++)
		fprintf(t->out, " %9.0f %11" PRIu64, print_rate(t, sum->crossed[i].messages), sum->crossed[i].messages);
	for (unsigned i = 0; i < XK_DIRECTIONS; i++)
		if (sum->crossed[i].timed == 0)
			fprintf(t->out, " %7s", "-");
		else
			fprintf(t->out, " %7.0f", (double)sum->crossed[i].ns / (double)sum->crossed[i].timed);
	for (unsigned i = 0; i < XK_HANDOFF_REASONS; i++)
		fprintf(t->out, " %8" PRIu64, sum->handoffs[i]);
}

static void
print_protocol_row(struct print_tables *t, struct xk_protocol *p)
{
	struct print_sum sum = print_sum_of(t->host, p);
	uint64_t drops = 0;

	for (unsigned i = 1; i < xk_drop_count(p->type); i++)
		drops += print_load(&p->drops[i]);
	print_name(t, "%.63s", p->name);
	print_sum_cells(t, &sum);
	if (t->all_ns > 0)
		fprintf(t->out, " %5.1f%%", 100 * sum.busy_ns / t->all_ns);
	else
		fprintf(t->out, " %6s", "-");
	fprintf(t->out, " %8" PRIu64 "\n", drops);
}

static void
print_edge_rows(struct print_tables *t, struct xk_protocol *p)
{
	for (unsigned i = p->lower_count; i-- > 0;) {
		struct print_sum sum = print_sum_edge(p->lowers[i]);

		print_name(t, "%.63s -> %.63s", p->name, p->lowers[i]->lower->name);
		print_sum_cells(t, &sum);
		putc('\n', t->out);
	}
}

/* Prints a row unless the count is zero. */
static void
print_count_row(struct print_tables *t, const char *name, uint64_t count)
{
	double rate = print_rate(t, count);

	if (count == 0)
		return;
	if (t->title != NULL)
		fprintf(t->out, "\n%-*s %9s %11s\n", PRINT_NAME, t->title, "/s", "all");
	t->title = NULL;
	print_name(t, "%s", name);
	fprintf(t->out, " %9.0f %11" PRIu64 "\n", rate, count);
}

static void
print_protocol_count_row(struct print_tables *t, const struct xk_protocol *p, const char *name, uint64_t count)
{
	char whole[PRINT_EDGE];

	snprintf(whole, sizeof(whole), "%.63s.%.63s", p->name, name);
	print_count_row(t, whole, count);
}

static void
print_drop_rows(struct print_tables *t, struct xk_protocol *p)
{
	for (unsigned i = 1; i < xk_drop_count(p->type); i++)
		print_protocol_count_row(t, p, xk_drop_name(p->type, i), print_load(&p->drops[i]));
}

static void
print_port_drop_row(void *tables, const char *name, uint64_t count, bool is_drop)
{
	if (is_drop)
		print_count_row(tables, name, count);
}

static void
print_port_counter_row(void *tables, const char *name, uint64_t count, bool is_drop)
{
	if (!is_drop)
		print_count_row(tables, name, count);
}

static void
print_counter_rows(struct print_tables *t, struct xk_protocol *p)
{
	for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++)
		print_protocol_count_row(t, p, p->type->counters[i], xk_counter(p, i));
	print_protocol_count_row(t, p, "kept", xk_kept(p));
}

static void
print_driver_rows(struct print_tables *t)
{
	struct xk_kernel *kernel = t->host->kernel;
	struct xk_kernel_stats stats;

	fprintf(t->out, "\n%-*s %9s %11s %9s %11s %9s %11s %9s %9s %9s %9s %9s\n", PRINT_NAME, "driver", "turns/s",
		"turns", "frames/s", "frames", "sleeps/s", "sleeps", "overruns", "fallbacks", "no_stack", "parks",
		"overtaken");
	for (unsigned i = 0; i < xk_kernel_drivers(kernel); i++) {
		xk_kernel_driver_stats(kernel, i, &stats);
		print_name(t, "%u", i);
		fprintf(t->out, " %9.0f %11" PRIu64, print_rate(t, stats.turns), stats.turns);
		fprintf(t->out, " %9.0f %11" PRIu64, print_rate(t, stats.frames), stats.frames);
		fprintf(t->out, " %9.0f %11" PRIu64, print_rate(t, stats.sleeps), stats.sleeps);
		fprintf(t->out, " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 "\n", stats.overruns,
			stats.fallbacks, stats.no_stack, stats.parks, stats.overtaken);
	}
}

/* Prints a row for each function of a protocol in which shepherds wait. */
static void
print_parked_rows(struct print_tables *t)
{
	struct xk_parked groups[PRINT_PARKED];
	unsigned count = xk_kernel_parked(t->host->kernel, groups, PRINT_PARKED);
	char function[XK_WHERE_FUNCTION];

	if (count > 0)
		fprintf(t->out, "\n%-*s %9s %12s %9s %12s  %s\n", PRINT_NAME, "parked", "count", "what", "wait",
			"longest s", "in");
	for (unsigned i = 0; i < count; i++) {
		print_name(t, "%.63s", groups[i].protocol->name);
		fprintf(t->out, " %9u %12s %9s %12.3f  %s\n", groups[i].count, xk_load_names[groups[i].load],
			xk_wait_end_names[groups[i].end], (double)groups[i].longest_ns / 1e9,
			xk_where_function(groups[i].from, function));
	}
}

/* Calls print for p and the protocols after it in the kernel's list, uppers first. */
static void
print_each(struct print_tables *t, struct xk_protocol *p, void (*print)(struct print_tables *t, struct xk_protocol *p))
{
	if (p == NULL)
		return;
	print_each(t, p->next, print);
	print(t, p);
}

bool
stats_print_tables(const struct host *host, const struct stats_about *about, FILE *out)
{
	struct xk_protocol *first = xk_kernel_first(host->kernel);
	struct print_tables t = { .host = host, .out = out, .before = about->before };
	double seconds = (double)(about->now_ns - about->before->at_ns) / 1e9;

	t.seconds = seconds > 0 ? seconds : 1;
	t.all_ns = print_sum_of(host, NULL).busy_ns;
	fprintf(out, "%s: ", about->name);
	xk_graph_print_plain(host->options.graph, strlen(host->options.graph), false, out);
	fprintf(out, " on %s, driver %s, mode %s\n", host->options.link->name, host_drivers[host->options.driver],
		host_modes[xk_kernel_mode(host->kernel)]);
	fprintf(out, "rates of the last %.1f s; edges have been counted for %.1f s, on request\n", t.seconds,
		(double)about->counted_ns / 1e9);
	print_sum_title(&t, "protocol");
	fputs("  share    drops\n", out);
	print_each(&t, first, print_protocol_row);
	print_sum_title(&t, "edge");
	putc('\n', out);
	print_each(&t, first, print_edge_rows);
	t.title = "drops";
	print_each(&t, first, print_drop_rows);
	host_each_port_count(host, print_port_drop_row, &t);
	t.title = "counters";
	print_each(&t, first, print_counter_rows);
	host_each_port_count(host, print_port_counter_row, &t);
	print_driver_rows(&t);
	print_parked_rows(&t);
	about->before->at_ns = about->now_ns;
	return !t.failed;
}

bool
stats_print_line(const struct host *host, const struct stats_about *about, FILE *out)
{
	fprintf(out, "%-40s %8ld  %-9s %-9s %-7s  ", about->name, (long)getpid(), host->options.link->name,
		host_drivers[host->options.driver], host_modes[xk_kernel_mode(host->kernel)]);
	xk_graph_print_plain(host->options.graph, strlen(host->options.graph), false, out);
	putc('\n', out);
	return true;
}
