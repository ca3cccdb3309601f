/* xk_run_net.c - `xk run` of a network file: its hosts and links in the simulator, on virtual time. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/host/host_pair.h"
#include "tools/host/watch.h"
#include "tools/json.h"
#include "tools/net/net.h"
#include "tools/xk/xk_run_private.h"

struct run {
	const struct run_options *options;
	struct net net;
	int signals;
};

/* ---- watching ---- */

static const char *const run_events[] = {
	[XK_SIM_SENT] = "sent",     [XK_SIM_ARRIVED] = "arrived", [XK_SIM_LOST] = "lost",
	[XK_SIM_BOOTED] = "booted", [XK_SIM_CRASHED] = "crashed",
};

enum { RUN_SHOWN = 34 /* bytes of a frame: Ethernet and IP headers */ };

/* Prints a record as a line: "  0.001 client sent cable 60 bytes ffffffffffff 020000000001 0806 0001..." */
static void
run_print(const struct xk_sim_record *record)
{
	size_t shown = record->len < RUN_SHOWN ? record->len : RUN_SHOWN;

	printf("%6" PRIu64 ".%09" PRIu64 " %s", record->at_ns / 1000000000, record->at_ns % 1000000000,
	       xk_sim_host_name(record->host));
	if (record->link != NULL)
		printf(" %s %s %zu bytes", run_events[record->event], xk_sim_link_name(record->link), record->len);
	else
		printf(" %s", run_events[record->event]);
	if (record->why != NULL)
		printf(" (%s)", record->why);
	for (size_t i = 0; i < shown && record->frame != NULL; i++)
		printf("%s%02x", i == 0 || i == 6 || i == 12 || i == 14 ? " " : "", record->frame[i]);
	printf(record->frame != NULL && record->len > shown ? " ...\n" : "\n");
}

static void
run_see(void *context, const struct xk_sim_record *record)
{
	struct run *run = context;

	if (!run->options->quiet || record->frame == NULL)
		run_print(record);
	net_capture_see(&run->net, record);
}

/* ---- what was counted ---- */

/* Calls tell for each count of a host and, if it is up, of its protocols and its kernel since it was booted. */
static void
run_tell_host(struct xk_sim_host *host, void (*tell)(void *to, const char *name, uint64_t count), void *to)
{
	struct xk_sim_host_counts counts;
	struct xk_kernel_stats stats;
	char name[RUN_NAME];

	xk_sim_host_counts(host, &counts);
	tell(to, "boots", xk_sim_host_boots(host));
	tell(to, "frames_in", counts.frames_in);
	tell(to, "frames_out", counts.frames_out);
	tell(to, "full", counts.full);
	tell(to, "no_buffer", counts.no_buffer);
	tell(to, "unheard", counts.unheard);
	tell(to, "thread_switches", counts.thread_switches);
	tell(to, "driver_wakes", counts.driver_wakes);
	tell(to, "busy_us", counts.busy_ns / 1000);
	if (!xk_sim_is_up(host))
		return;
	xk_kernel_stats(xk_sim_kernel(host), &stats);
	tell(to, "handoffs_explicit", stats.handoffs[XK_HANDOFF_EXPLICIT]);
	tell(to, "handoffs_implicit", stats.handoffs[XK_HANDOFF_IMPLICIT]);
	tell(to, "handoffs_time", stats.handoffs[XK_HANDOFF_TIME]);
	tell(to, "fallbacks", stats.fallbacks);
	tell(to, "overruns", stats.overruns);
	for (struct xk_protocol *p = xk_kernel_first(xk_sim_kernel(host)); p != NULL; p = p->next) {
		for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++) {
			snprintf(name, sizeof(name), "%s.%s", p->name, p->type->counters[i]);
			tell(to, name, xk_counter(p, i));
		}
		for (unsigned i = 1; i < xk_drop_count(p->type); i++) {
			snprintf(name, sizeof(name), "%s.%s", p->name, xk_drop_name(p->type, i));
			tell(to, name, p->drops[i]);
		}
	}
}

static void
run_tell_link(const struct xk_sim_link *link, void (*tell)(void *to, const char *name, uint64_t count), void *to)
{
	struct sim_link_counts counts;

	xk_sim_link_counts(link, &counts);
	tell(to, "sent", counts.sent);
	tell(to, "delivered", counts.delivered);
	tell(to, "loss", counts.loss);
	tell(to, "duplicate", counts.duplicate);
	tell(to, "reorder", counts.reorder);
	tell(to, "corrupt", counts.corrupt);
	tell(to, "cut", counts.cut);
	tell(to, "queue", counts.queue);
	tell(to, "mtu", counts.mtu);
	tell(to, "nobody", counts.nobody);
	tell(to, "withdrawn", counts.withdrawn);
}

static void
run_tell_json(void *to, const char *name, uint64_t count)
{
	json_uint(to, name, count);
}

/* Returns whether all nodes of --show exist; prints a message if not. */
static bool
run_show_is_known(const char *show, const struct run_table *hosts)
{
	for (size_t len; show != NULL && *show != '\0'; show += len + (show[len] == ',')) {
		len = strcspn(show, ",");
		if (run_table_has(hosts, show, len) || (len == 4 && memcmp(show, "host", 4) == 0) ||
		    (len == 4 && memcmp(show, "link", 4) == 0))
			continue;
		fprintf(stderr, "xk run: --show: no host that is up has a node \"%.*s\"\n", (int)len, show);
		return false;
	}
	return true;
}

/* Prints tables of the first RUN_COLUMNS hosts and links, and what identifies the run. */
static int
run_summary(const struct run *run)
{
	const char *show = run->options->show;
	char names[RUN_COLUMNS][XK_GRAPH_NAME_MAX + 8];
	struct run_table hosts = { .rows = NULL }, links = { .rows = NULL };
	struct xk_sim *sim = run->net.sim;
	unsigned count = 0;
	bool good;

	for (struct xk_sim_host *host = xk_sim_first_host(sim); host != NULL; host = xk_sim_next_host(host)) {
		if (count++ >= RUN_COLUMNS)
			continue;
		snprintf(names[count - 1], sizeof(names[0]), "%s%s", xk_sim_host_name(host),
			 xk_sim_is_up(host) ? "" : " (down)");
		run_table_column(&hosts, names[count - 1]);
		run_tell_host(host, run_table_tell, &hosts);
	}
	run_table_print(&hosts, "host", show, stderr);
	if (count > RUN_COLUMNS)
		fprintf(stderr, "... and %u more hosts (--json has them)\n", count - RUN_COLUMNS);
	count = 0;
	for (struct xk_sim_link *link = xk_sim_first_link(sim); link != NULL; link = xk_sim_next_link(link)) {
		if (count++ >= RUN_COLUMNS)
			continue;
		run_table_column(&links, xk_sim_link_name(link));
		run_tell_link(link, run_table_tell, &links);
	}
	run_table_print(&links, "link", show, stderr);
	if (count > RUN_COLUMNS)
		fprintf(stderr, "... and %u more links (--json has them)\n", count - RUN_COLUMNS);
	good = !hosts.no_memory && !links.no_memory;
	if (!good)
		fprintf(stderr, "xk run: %s\n", strerror(ENOMEM));
	else
		good = run_show_is_known(show, &hosts);
	free(hosts.rows);
	free(links.rows);
	fprintf(stderr, "seed %" PRIu64 ", until %" PRIu64 ".%06" PRIu64 " s, hash %016" PRIx64 "\n",
		run->options->seed, xk_sim_now_ns(sim) / 1000000000, xk_sim_now_ns(sim) / 1000 % 1000000,
		xk_sim_hash(sim));
	return good ? 0 : OPTIONS_FAILURE;
}

static int
run_json(struct run *run)
{
	struct xk_sim *sim = run->net.sim;
	struct json document, *json = &document;
	char hash[20];
	FILE *out;
	int status = host_open_json(run_program.name, run->options->common.json, &out);

	if (out == NULL)
		return status;
	json_begin(json, out);
	snprintf(hash, sizeof(hash), "%016" PRIx64, xk_sim_hash(sim));
	json_object(json, NULL);
	json_string(json, "program", run_program.name);
	json_string(json, "network", run->net.topology->file);
	json_string(json, "link", "sim");
	json_uint(json, "seed", run->options->seed);
	json_uint(json, "until_ns", xk_sim_now_ns(sim));
	json_string(json, "hash", hash);
	json_object(json, "hosts");
	for (struct xk_sim_host *host = xk_sim_first_host(sim); host != NULL; host = xk_sim_next_host(host)) {
		json_object(json, xk_sim_host_name(host));
		json_bool(json, "up", xk_sim_is_up(host));
		json_bool(json, "compiled", net_host_find(&run->net, xk_sim_host_name(host))->compiled);
		run_tell_host(host, run_tell_json, json);
		json_close(json);
	}
	json_close(json);
	json_object(json, "links");
	for (struct xk_sim_link *link = xk_sim_first_link(sim); link != NULL; link = xk_sim_next_link(link)) {
		json_object(json, xk_sim_link_name(link));
		run_tell_link(link, run_tell_json, json);
		json_close(json);
	}
	json_close(json);
	status = host_end_json(run_program.name, run->options->common.json, json);
	host_close_json(out);
	return status;
}

/* ---- running ---- */

/* A signal ends the run, which reports the counts so far. */
struct run_stop {
	int signals;
	unsigned steps;
};

enum { RUN_LOOK_EVERY = 1 << 10 };

static bool
run_goes_on(void *context)
{
	struct run_stop *stop = context;
	struct pollfd polls = { .fd = stop->signals, .events = POLLIN };

	return ++stop->steps % RUN_LOOK_EVERY != 0 || poll(&polls, 1, 0) <= 0;
}

static int
run_network(struct run *run, uint64_t until_ns)
{
	struct run_stop stop = { .signals = run->signals };
	int status = 0, told;

	if (!run->options->quiet || run->options->common.pcap != NULL)
		xk_sim_watch(run->net.sim, run_see, run);
	if (run->options->common.pcap != NULL)
		status = net_capture_open(&run->net, run->options->common.pcap);
	if (status == 0) {
		xk_sim_run_while(run->net.sim, until_ns, run_goes_on, &stop);
		fflush(stdout);
		status = run_summary(run);
		told = run_json(run);
		status = status != 0 ? status : told;
	}
	xk_sim_watch(run->net.sim, NULL, NULL);
	return status;
}

int
run_network_main(const struct run_options *options, const char *file)
{
	struct run run = { .options = options, .signals = pair_signals() };
	struct watch *watch = watch_new(run_program.name, &run.signals, options->common.watchdog_ns);
	int status, closed;

	status = net_read(&run.net, run_program.name, file, options->common.sets.text, options->common.sets.count);
	if (status == 0)
		status = net_open(&run.net, options->seed, stdout, options->common.trace);
	if (status == 0) {
		watch_world(watch, run.net.sim);
		status = run_network(&run, options->until_ns);
		watch_forget(watch, run.net.sim);
	}
	closed = net_close(&run.net);
	watch_free(watch);
	return status == 0 ? closed : status;
}
