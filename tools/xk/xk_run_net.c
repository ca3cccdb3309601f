/* xk_run_net.c - `xk run` for a network file: its hosts and links in the simulator, on virtual time. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/explore/choices.h"
#include "tools/explore/promise.h"
#include "tools/explore/search.h"
#include "tools/host/host_pair.h"
#include "tools/host/watch.h"
#include "tools/journey/journey.h"
#include "tools/json.h"
#include "tools/net/net.h"
#include "tools/output.h"
#include "tools/xk/xk_run_private.h"

struct run {
	const struct run_options *options;
	uint64_t seed;
	struct net net;
	int signals;
	unsigned steps;
	bool is_broken;               /* a protocol's promise */
	uint64_t stop_at;             /* event before which to stop for a debugger; 0: none, or it has come */
	struct choices_replay replay; /* of --choices */
	struct choices recorded;      /* for --write-choices */
};

/* ---- records ---- */

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
	journey_see(run->net.journey, record);
}

/* ---- a table: a column for each host or link, a row for each count ---- */

enum {
	RUN_COLUMNS = 20,
	RUN_NAME = 160,
	RUN_PARKED = 32,
	TABLE_WIDTH = 110,
	TABLE_NAMES = 24, /* narrowest column of names */
	TABLE_LEAST = 8,  /* narrowest column of counts */
	TABLE_TEXT = 24,
	TABLE_ROWS = 64, /* allocated at a time */
};

#define TABLE_ABSENT UINT64_MAX

/* Rows keep the order of the counts in each column. The owner frees them. */
struct run_table {
	struct run_row {
		char name[RUN_NAME];
		uint64_t counts[RUN_COLUMNS];
	} * rows;
	char heads[RUN_COLUMNS][XK_GRAPH_NAME_MAX + 8];
	unsigned row_count, next_row;
	unsigned columns; /* those beyond RUN_COLUMNS are only counted */
	bool no_memory;
};

static void
run_table_column(struct run_table *table, const char *name, bool is_up)
{
	if (table->columns < RUN_COLUMNS)
		snprintf(table->heads[table->columns], sizeof(table->heads[0]), "%s%s", name, is_up ? "" : " (down)");
	table->columns++;
	table->next_row = 0;
}

/* Adds a count to the last column of the struct run_table at `to`. */
static void
run_table_add(void *to, const char *name, uint64_t count)
{
	struct run_table *table = to;
	struct run_row *rows = table->rows;
	unsigned i = 0;

	if (table->columns > RUN_COLUMNS)
		return;
	while (i < table->row_count && strcmp(rows[i].name, name) != 0)
		i++;
	if (i == table->row_count) {
		if (i % TABLE_ROWS == 0)
			rows = reallocarray(rows, i + TABLE_ROWS, sizeof(*rows));
		if (rows == NULL) {
			table->no_memory = true;
			return;
		}
		table->rows = rows;
		i = table->next_row;
		memmove(&rows[i + 1], &rows[i], (table->row_count++ - i) * sizeof(*rows));
		snprintf(rows[i].name, sizeof(rows[i].name), "%s", name);
		for (unsigned k = 0; k < RUN_COLUMNS; k++)
			rows[i].counts[k] = TABLE_ABSENT;
	}
	rows[i].counts[table->columns - 1] = count;
	table->next_row = i + 1;
}

/* Returns the length of the node in a row's name, or 0 if the count is the host's or link's own. */
static size_t
table_node_len(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot == NULL ? 0 : (size_t)(dot - name);
}

/* Returns true if --show lists the node of the row, which is `own` if its name has none. */
static bool
table_is_shown(const struct run_row *row, const char *own, const char *show)
{
	size_t node_len = table_node_len(row->name), len;
	const char *node = node_len == 0 ? own : row->name;

	if (node_len == 0)
		node_len = strlen(own);
	for (; show != NULL && *show != '\0'; show += len + (show[len] == ',')) {
		len = strcspn(show, ",");
		if (len == node_len && memcmp(show, node, len) == 0)
			return true;
	}
	return show == NULL;
}

/* Returns true if the row has no count above 0 in columns first to end - 1. */
static bool
table_is_zero(const struct run_row *row, unsigned first, unsigned end)
{
	for (; first < end; first++)
		if (row->counts[first] != 0 && row->counts[first] != TABLE_ABSENT)
			return false;
	return true;
}

/* Writes `count`, or "-" for none. Returns the length. */
static int
table_write_count(char text[TABLE_TEXT], uint64_t count)
{
	return count == TABLE_ABSENT ? snprintf(text, TABLE_TEXT, "-") : snprintf(text, TABLE_TEXT, "%" PRIu64, count);
}

static int
table_max(int a, int b)
{
	return a > b ? a : b;
}

/* Prints the rows that are shown and not zero everywhere, in as many blocks of columns as needed. */
static void
run_table_print(const struct run_table *table, const char *own, const char *show, FILE *out)
{
	unsigned columns = table->columns < RUN_COLUMNS ? table->columns : RUN_COLUMNS, fit;
	int names = TABLE_NAMES, width = TABLE_LEAST;
	char text[TABLE_TEXT];

	/* all columns are as wide as the widest head or count */
	for (unsigned k = 0; k < columns; k++)
		width = table_max(width, (int)strlen(table->heads[k]));
	for (unsigned i = 0; i < table->row_count; i++) {
		for (unsigned k = 0; k < columns; k++)
			width = table_max(width, table_write_count(text, table->rows[i].counts[k]));
		if (table_is_shown(&table->rows[i], own, show))
			names = table_max(names, (int)strlen(table->rows[i].name));
	}
	fit = TABLE_WIDTH > names + width + 1 ? (unsigned)((TABLE_WIDTH - names) / (width + 1)) : 1;
	for (unsigned first = 0; first < columns; first += fit) {
		unsigned end = first + fit < columns ? first + fit : columns;
		bool begun = false;

		for (unsigned i = 0; i < table->row_count; i++) {
			const struct run_row *row = &table->rows[i];

			if (!table_is_shown(row, own, show) || table_is_zero(row, first, end))
				continue;
			for (unsigned k = first; !begun && k < end; k++)
				fprintf(out, "%*s%s", k == first ? names + 1 + width : width + 1, table->heads[k],
					k + 1 == end ? "\n" : "");
			begun = true;
			fprintf(out, "%-*s", names, row->name);
			for (unsigned k = first; k < end; k++) {
				table_write_count(text, row->counts[k]);
				fprintf(out, " %*s", width, text);
			}
			fputc('\n', out);
		}
		if (begun)
			fputc('\n', out);
	}
	if (table->columns > RUN_COLUMNS)
		fprintf(out, "... and %u more %ss (--json has them)\n", table->columns - RUN_COLUMNS, own);
}

/* ---- counts ---- */

/* Returns the number of messages that wait in p. */
static unsigned
run_messages_parked(const struct xk_protocol *p)
{
	struct xk_parked groups[RUN_PARKED];
	unsigned groups_count = xk_kernel_parked(p->kernel, groups, RUN_PARKED), count = 0;

	for (unsigned i = 0; i < groups_count; i++)
		if (groups[i].protocol == p && groups[i].load == XK_LOAD_MESSAGE)
			count += groups[i].count;
	return count;
}

/* Calls add for each count of a host and, if it is up, of its protocols and its kernel since its boot. */
static void
run_each_host_count(struct xk_sim_host *host, void (*add)(void *to, const char *name, uint64_t count), void *to)
{
	struct xk_sim_host_counts counts;
	struct xk_kernel_stats stats;
	char name[RUN_NAME];

	xk_sim_host_counts(host, &counts);
	add(to, "boots", xk_sim_host_boots(host));
	add(to, "frames_in", counts.frames_in);
	add(to, "frames_out", counts.frames_out);
	add(to, "full", counts.full);
	add(to, "no_buffer", counts.no_buffer);
	add(to, "unheard", counts.unheard);
	add(to, "thread_switches", counts.thread_switches);
	add(to, "driver_wakes", counts.driver_wakes);
	add(to, "busy_us", counts.busy_ns / 1000);
	if (!xk_sim_is_up(host))
		return;
	xk_kernel_stats(xk_sim_kernel(host), &stats);
	add(to, "handoffs_explicit", stats.handoffs[XK_HANDOFF_EXPLICIT]);
	add(to, "handoffs_implicit", stats.handoffs[XK_HANDOFF_IMPLICIT]);
	add(to, "handoffs_time", stats.handoffs[XK_HANDOFF_TIME]);
	add(to, "fallbacks", stats.fallbacks);
	add(to, "overruns", stats.overruns);
	add(to, "no_stack", stats.no_stack);
	for (struct xk_protocol *p = xk_kernel_first(xk_sim_kernel(host)); p != NULL; p = p->next) {
		for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++) {
			snprintf(name, sizeof(name), "%s.%s", p->name, p->type->counters[i]);
			add(to, name, xk_counter(p, i));
		}
		for (unsigned i = 1; i < xk_drop_count(p->type); i++) {
			snprintf(name, sizeof(name), "%s.%s", p->name, xk_drop_name(p->type, i));
			add(to, name, p->drops[i]);
		}
		snprintf(name, sizeof(name), "%s.messages_parked", p->name);
		add(to, name, run_messages_parked(p));
	}
}

static void
run_each_link_count(const struct xk_sim_link *link, void (*add)(void *to, const char *name, uint64_t count), void *to)
{
	struct sim_link_counts counts;

	xk_sim_link_counts(link, &counts);
	add(to, "sent", counts.sent);
	add(to, "delivered", counts.delivered);
	add(to, "loss", counts.loss);
	add(to, "duplicate", counts.duplicate);
	add(to, "reorder", counts.reorder);
	add(to, "corrupt", counts.corrupt);
	add(to, "cut", counts.cut);
	add(to, "queue", counts.queue);
	add(to, "mtu", counts.mtu);
	add(to, "nobody", counts.nobody);
	add(to, "withdrawn", counts.withdrawn);
}

static void
run_add_json(void *to, const char *name, uint64_t count)
{
	json_uint(to, name, count);
}

/* Returns true if all nodes of --show exist; prints a message otherwise. */
static bool
run_show_is_known(const char *show, const struct run_table *hosts)
{
	for (size_t len; show != NULL && *show != '\0'; show += len + (show[len] == ',')) {
		bool known;

		len = strcspn(show, ",");
		known = len == 4 && (memcmp(show, "host", 4) == 0 || memcmp(show, "link", 4) == 0);
		for (unsigned i = 0; i < hosts->row_count && !known; i++)
			known = len > 0 && table_node_len(hosts->rows[i].name) == len &&
				memcmp(hosts->rows[i].name, show, len) == 0;
		if (known)
			continue;
		fprintf(stderr, "xk run: --show: no host that is up has a node \"%.*s\"\n", (int)len, show);
		return false;
	}
	return true;
}

/* Prints tables of hosts and links, and the identification of the run. */
static int
run_summary(const struct run *run)
{
	const char *show = run->options->show;
	struct run_table hosts = { .rows = NULL }, links = { .rows = NULL };
	struct xk_sim *sim = run->net.sim;
	bool good;

	for (struct xk_sim_host *host = xk_sim_first_host(sim); host != NULL; host = xk_sim_next_host(host)) {
		run_table_column(&hosts, xk_sim_host_name(host), xk_sim_is_up(host));
		run_each_host_count(host, run_table_add, &hosts);
	}
	for (struct xk_sim_link *link = xk_sim_first_link(sim); link != NULL; link = xk_sim_next_link(link)) {
		run_table_column(&links, xk_sim_link_name(link), true);
		run_each_link_count(link, run_table_add, &links);
	}
	run_table_print(&hosts, "host", show, stderr);
	run_table_print(&links, "link", show, stderr);
	good = !hosts.no_memory && !links.no_memory;
	if (!good)
		fprintf(stderr, "xk run: no memory for the table of counts\n");
	else
		good = run_show_is_known(show, &hosts);
	free(hosts.rows);
	free(links.rows);
	fprintf(stderr, "seed %" PRIu64 ", until %" PRIu64 ".%06" PRIu64 " s, hash %016" PRIx64 "\n", run->seed,
		xk_sim_now_ns(sim) / 1000000000, xk_sim_now_ns(sim) / 1000 % 1000000, xk_sim_hash(sim));
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
	json_uint(json, "seed", run->seed);
	json_uint(json, "until_ns", xk_sim_now_ns(sim));
	json_string(json, "hash", hash);
	json_object(json, "hosts");
	for (struct xk_sim_host *host = xk_sim_first_host(sim); host != NULL; host = xk_sim_next_host(host)) {
		json_object(json, xk_sim_host_name(host));
		json_bool(json, "up", xk_sim_is_up(host));
		run_each_host_count(host, run_add_json, json);
		json_close(json);
	}
	json_close(json);
	json_object(json, "links");
	for (struct xk_sim_link *link = xk_sim_first_link(sim); link != NULL; link = xk_sim_next_link(link)) {
		json_object(json, xk_sim_link_name(link));
		run_each_link_count(link, run_add_json, json);
		json_close(json);
	}
	json_close(json);
	status = host_end_json(run_program.name, run->options->common.json, json);
	host_close_json(out);
	return status;
}

/* ---- running ---- */

enum { RUN_POLL_STEPS = 1 << 10 /* number of the world's steps between two polls for signals */ };

/* Asks for promises. The first broken one is reported; the run goes on, and fails if it is a replay. */
static void
run_check(struct run *run)
{
	char why[NET_PROMISE];

	if (run->is_broken || net_promise(&run->net, false, why) == NULL)
		return;
	run->is_broken = true;
	fprintf(stderr, "%s: broken: %s\n", run_program.name, why);
}

/* Asks the network's promises at the end of a replay. What is left is no failure: the network may not be at rest. */
static void
run_check_end(struct run *run)
{
	char why[NET_PROMISE];

	if (run->is_broken)
		return;
	run->is_broken = promise_check(&run->net, why) != NULL;
	if (run->is_broken || net_promise(&run->net, true, why) != NULL)
		fprintf(stderr, "%s: %s: %s\n", run_program.name, run->is_broken ? "broken" : "at the end", why);
}

/* Stops before the next event, in the debugger. */
static void
run_stop(struct run *run)
{
	uint64_t now_ns = xk_sim_now_ns(run->net.sim);

	run->stop_at = 0;
	fflush(stdout);
	fprintf(stderr, "%s: stops before event %" PRIu64 ", after %" PRIu64 ".%09" PRIu64 " s\n", run_program.name,
		xk_sim_events(run->net.sim) + 1, now_ns / 1000000000, now_ns % 1000000000);
	raise(SIGTRAP);
}

static bool
run_continues(void *context)
{
	struct run *run = context;
	struct pollfd polls = { .fd = run->signals, .events = POLLIN };

	if (XK_IS_DEBUG || run->options->choices != NULL)
		run_check(run);
	if (run->stop_at != 0 && xk_sim_events(run->net.sim) + 1 >= run->stop_at)
		run_stop(run);
	return ++run->steps % RUN_POLL_STEPS != 0 || poll(&polls, 1, 0) <= 0;
}

/* Writes the list of --write-choices. */
static int
run_write_choices(const struct run *run)
{
	const char *path = run->options->write_choices;
	FILE *out;

	if (run->recorded.count > CHOICES_MAX) {
		fprintf(stderr, "%s: --write-choices: more than %d faults: make the run shorter\n", run_program.name,
			CHOICES_MAX);
		return OPTIONS_FAILURE;
	}
	out = output_open(path);
	if (out != NULL) {
		choices_print(&run->recorded, &run->net, out);
		fputc('\n', out);
	}
	if (output_close(out))
		return 0;
	fprintf(stderr, "%s: --write-choices %s: %s\n", run_program.name, path, xk_error(errno));
	return OPTIONS_FAILURE;
}

static int
run_opened(struct run *run, uint64_t until_ns)
{
	int status = 0, written;

	if (!run->options->quiet || run->options->common.pcap != NULL || run->net.journey != NULL)
		xk_sim_watch(run->net.sim, run_see, run);
	if (run->options->common.pcap != NULL)
		status = net_capture_open(&run->net, run->options->common.pcap);
	if (status == 0) {
		if (run->options->choices != NULL)
			xk_sim_choose(run->net.sim, true, choices_choose, &run->replay);
		else if (run->options->write_choices != NULL)
			xk_sim_choose(run->net.sim, true, choices_record, &run->recorded);
		if (run->replay.choices.no_faults)
			net_end_faults(&run->net);
		if (run->stop_at == 1)
			run_stop(run);
		xk_sim_run_while(run->net.sim, until_ns, run_continues, run);
		if (run->options->choices != NULL)
			run_check_end(run);
		fflush(stdout);
		status = run_summary(run);
		written = run_json(run);
		status = status != 0 ? status : written;
		if (!choices_are_made(&run->replay, &run->net, run_program.name) ||
		    (run->is_broken && run->options->choices != NULL))
			status = OPTIONS_FAILURE;
	}
	if (run->options->write_choices != NULL && run_write_choices(run) != 0)
		status = OPTIONS_FAILURE;
	xk_sim_watch(run->net.sim, NULL, NULL);
	journey_stop(run->net.journey);
	return status;
}

/* Returns whether a debugger has attached itself to this process, or has started it. */
static bool
run_has_debugger(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[80];
	int tracer = 0;

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		sscanf(line, "TracerPid: %d", &tracer);
	if (file != NULL)
		fclose(file);
	return tracer != 0;
}

/* Finds the event before which to stop, for --stop-at and --back. Runs the network once, in another process, for its end. */
static int
run_find_stop(struct run *run, uint64_t until_ns)
{
	const struct search_options search = { .seed = run->seed, .until_ns = until_ns };
	uint64_t event = run->options->stop_at, back = run->options->back == RUN_EVENT_ABSENT ? 0 : run->options->back;
	struct choices choices = run->replay.choices;
	struct search_outcome outcome = { .events = 0 };

	if (event == RUN_EVENT_ABSENT && run->options->back == RUN_EVENT_ABSENT)
		return 0;
	if (!run_has_debugger()) {
		fprintf(stderr, "%s: --stop-at and --back need a debugger: gdb --args %s ...\n", run_program.name,
			run_program.name);
		return OPTIONS_FAILURE;
	}
	if (event == RUN_EVENT_ABSENT) {
		if (search_try(&run->net, &search, &choices, NULL, &outcome) != 0)
			return OPTIONS_FAILURE;
		event = outcome.events;
	}
	run->stop_at = event > back ? event - back : 1;
	return 0;
}

/* Opens the page of --journey, if requested. */
static int
run_open_journey(struct run *run, const char *file)
{
	const char *path = run->options->common.journey;

	if (path == NULL)
		return 0;
	if (run->net.topology->host_count > JOURNEY_HOSTS)
		return options_misuse(&run_program, "--journey shows up to %d hosts, but %s has %u", JOURNEY_HOSTS,
				      file, run->net.topology->host_count);
	if (output_is_input(run_program.name, path, file))
		return OPTIONS_FAILURE;
	run->net.journey = journey_open(run_program.name, path, file, run->seed);
	return run->net.journey == NULL ? OPTIONS_FAILURE : 0;
}

int
run_network(struct run_options *options, const char *file)
{
	struct run run = { .options = options,
			   .seed = options->seeds.count == 0 ? 1 : options->seeds.value[0],
			   .recorded = { .no_faults = true } };
	struct host_common *common = &options->common;
	struct watch *watch;
	const uint64_t usual_ns = options->choices != NULL ? UINT64_C(10000000000) : UINT64_C(1000000000);
	uint64_t until_ns = options->until_ns == RUN_UNTIL_ABSENT ? usual_ns : options->until_ns;
	char why[CHOICES_WHY];
	struct journey *journey;
	int status, closed;

	if (options->seeds.count > 1)
		return options_misuse(&run_program, "--seed takes one number");
	if (common->link == NULL || strcmp(common->link, "sim") != 0)
		return options_misuse(&run_program, "networks run in the simulator: --link sim");
	if (host_single_is_given(&options->single) || options->end != PAIR_ENDS || options->telemetry ||
	    common->driver != HOST_DRIVER_ABSENT || common->spin_ns != 0 || common->drivers != 1)
		return options_misuse(&run_program, "--mode, --threads, --cores, --driver, --spin, --drivers, --end "
						    "and --telemetry are for a host: use the settings in the network "
						    "file, or --set HOST.mode=regular");
	if (common->json != NULL && strcmp(common->json, "-") == 0 && !options->quiet)
		return options_misuse(&run_program, "--json - needs --quiet: standard output has the trace");
	if (options->write_choices != NULL && options->choices != NULL)
		return options_misuse(&run_program, "--write-choices is for a run without --choices");
	if (options->write_choices != NULL && output_is_input(run_program.name, options->write_choices, file))
		return OPTIONS_FAILURE;
	if (host_common_journey(&run_program, common, true) != 0)
		return OPTIONS_MISUSE;
	status = host_common_take_output(&run_program, common);
	if (status != 0)
		return status;
	run.signals = pair_signals();
	watch = watch_new(run_program.name, &run.signals, common->watchdog_ns);
	status = net_read(&run.net, run_program.name, file, common->sets.text, common->sets.count);
	if (status == 0 && options->choices != NULL &&
	    choices_parse(options->choices, &run.net, &run.replay.choices, why, sizeof(why)) != 0)
		status = options_misuse(&run_program, "--choices: %s", why);
	if (status == 0) {
		run.net.no_paths = common->no_paths != 0;
		status = run_find_stop(&run, until_ns);
	}
	if (status == 0)
		status = run_open_journey(&run, file);
	journey = run.net.journey; /* net_close resets it */
	if (status == 0)
		status = net_open(&run.net, run.seed, stdout, common->trace);
	if (status == 0) {
		watch_world(watch, run.net.sim);
		status = run_opened(&run, until_ns);
		net_stop(&run.net); /* under the watchdog: a shepherd may not end */
		watch_forget(watch, run.net.sim);
	}
	closed = net_close(&run.net);
	closed |= journey_close(journey);
	watch_free(watch);
	return status == 0 ? closed : status;
}
