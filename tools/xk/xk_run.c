/*
 * xk_run.c - `xk run`: its options, and one host of a graph file, which runs on its link until a signal ends it. For
 * network files, see xk_run_net.c.
 */
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "tools/host/host_alone.h"
#include "tools/host/watch.h"
#include "tools/json.h"
#include "tools/live/live.h"
#include "tools/machine.h"
#include "tools/stats/stats_client.h"
#include "tools/stats/stats_server.h"
#include "tools/xk/xk.h"
#include "tools/xk/xk_run_private.h"

enum { RUN_TELEMETRY_S = 30 };

static const char *const run_ends[] = { "client", "server", NULL }; /* by PAIR_CLIENT and PAIR_SERVER */

static const struct options_option run_options[] = {
	OPTION(CHOICE, struct run_options, end, "end", "END",
	       "of a host: the end of its link, client or server (server);\n"
	       "its default address is 10.77.0.1 as client, 10.77.0.2 as\n"
	       "server",
	       .choices = run_ends),
	OPTION(NUMBERS, struct run_options, seeds, "seed", "S",
	       "of a network: the seed of random events; the same seed gives the\n"
	       "same run (1)",
	       .max = UINT64_MAX),
	OPTION(TEXT, struct run_options, choices, "choices", "LIST",
	       "of a network: replays the run that has these unusual choices, as\n"
	       "`xk explore` prints them"),
	OPTION(TEXT, struct run_options, write_choices, "write-choices", "FILE",
	       "of a network: writes what the links' own faults do as such a list"),
	OPTION(NUMBER, struct run_options, stop_at, "stop-at", "EVENT",
	       "of a network: stops before this event, for a debugger", .max = RUN_EVENT_ABSENT - 1),
	OPTION(NUMBER, struct run_options, back, "back", "N",
	       "... before the event N events earlier; without --stop-at, earlier\n"
	       "than the one with which the run ends or breaks a promise",
	       .max = RUN_EVENT_ABSENT - 1),
	OPTION(TIME, struct run_options, until_ns, "until", "T",
	       "duration: 500ms, 10s; of a network, in virtual time\n"
	       "(1s; with --choices 10s); of a host, in real time (until a signal)"),
	OPTION(FLAG, struct run_options, quiet, "quiet", NULL, "of a network: do not print frames"),
	OPTION(TEXT, struct run_options, show, "show", "NODE,...",
	       "of a network: print only the counts of these protocols; `host`\n"
	       "stands for the hosts' own, `link` for the links'"),
	OPTION(FLAG, struct run_options, telemetry, "telemetry", NULL,
	       "of a host: serve dpdk-telemetry.py, too (/xkernel/...)"),
	{ .name = NULL },
};

const struct options_program run_program = {
	.name = "xk run",
	.usage = "GRAPH|NETWORK [OPTION]...",
	.about = "Of a graph file (digraph): runs a host with these protocols on its link until SIGINT, SIGTERM or\n"
		 "SIGHUP, --until, or until one of its protocols ends it, and then prints its counts. A second\n"
		 "signal ends it at once.\n\n"
		 "Of a network file (graph), with --link sim: runs its hosts and links in the simulator, on virtual\n"
		 "time. Each frame, boot and crash is a line on standard output; the counts, and a hash of all\n"
		 "events, are printed at the end on standard error. --set sets a host or link, a host's graph\n"
		 "(--set HOST.NODE.ATTR=VALUE), or every host's (--set graph.NODE.ATTR=VALUE).",
	.footer = "Exit status: 0 success, 1 failure (a refused file, a link or host that does not work, a protocol\n"
		  "that ended its host as a failure, lost buffers, messages that wait forever), 2 misuse.",
	.options = run_options,
	.shared = { { host_single_options, offsetof(struct run_options, single) },
		    { host_common_options, offsetof(struct run_options, common) } },
	.operands_min = 1,
	.operands_max = 1,
	.reads_operands = true,
};

/* ---- one host ---- */

/* DPDK's clients ask periodically: starts counting for their next query. */
static void
run_host_before_query(void *server)
{
	stats_server_count(server, RUN_TELEMETRY_S);
}

/* Runs the host until its end. Returns 0, or the exit status. */
static int
run_host_until_end(const struct run_options *options, struct host *host, struct live *live, int signals,
		   uint64_t until_ns)
{
	struct stats_server *stats;
	char why[STATS_WHY];
	int status = 0;

	if (stats_server_start(host, &stats, why, sizeof(why)) != 0)
		fprintf(stderr, "%s: no `xk stats` of this host: %s\n", run_program.name, why);
	live_begin(live, host, stats);
	if (host_is_on_dpdk(host) && options->telemetry)
		status = host_begin_telemetry(host, run_host_before_query, stats);
	if (status == 0) {
		host_print_standing(host);
		host_await_end(host, signals, until_ns);
		status = xk_kernel_ended(host->kernel) == XK_ENDED_BADLY ? OPTIONS_FAILURE : 0;
	}
	if (host_is_on_dpdk(host) && options->telemetry)
		host_end_telemetry(host);
	live_end(live);
	stats_server_stop(stats);
	return status;
}

static int
run_host_report(const struct run_options *options, struct host *host, FILE *out)
{
	struct machine machine;
	struct json json;

	if (out != stdout)
		host_print_counts(host, stdout);
	if (out == NULL)
		return 0;
	machine_describe(&machine);
	json_begin(&json, out);
	json_object(&json, NULL);
	json_string(&json, "program", run_program.name);
	json_string(&json, "graph", host->options.graph);
	json_string(&json, "link", host->options.link->name);
	json_string(&json, "driver", host_drivers[host->options.driver]);
	machine_json(&machine, &json, "machine");
	host_json(host, &json, "host");
	return host_end_json(run_program.name, options->common.json, &json);
}

/* Runs one host. Without settings, the host has udptest's addresses and names, so that either can be the other end. */
static int
run_host(struct run_options *options, const char *file)
{
	const struct host_link *link;
	struct host_options settings;
	struct host host = { .port_count = 0 };
	struct live *live;
	struct watch *watch;
	int signals, status, closed, reported;
	uint64_t until_ns = options->until_ns == RUN_UNTIL_ABSENT ? 0 : options->until_ns;
	FILE *out;

	if (options->quiet || options->seeds.count > 0 || options->show != NULL || options->choices != NULL ||
	    options->write_choices != NULL || options->stop_at != RUN_EVENT_ABSENT || options->back != RUN_EVENT_ABSENT)
		return options_misuse(
			&run_program,
			"--quiet, --seed, --show, --choices, --write-choices, --stop-at and --back are for "
			"network files, but %s is a graph",
			file);
	if (options->until_ns == 0)
		return options_misuse(&run_program, "--until: 0 is not a time such as 500ms or 10s");
	status = host_common_complete(&run_program, &options->common, true, &link);
	if (status == 0)
		status = host_single_complete(&run_program, &options->single, options->common.drivers);
	if (status != 0)
		return status;
	live = live_new();
	signals = pair_signals();
	watch = watch_new(run_program.name, &signals, options->common.watchdog_ns);
	settings = host_single_options_of(&options->common, &options->single, link);
	settings.program = run_program.name;
	settings.name = "host";
	settings.end = options->end == PAIR_ENDS ? PAIR_SERVER : options->end;
	settings.graph = file;
	settings.watch = watch;
	settings.pages = live_pages(live);
	settings.telemetry = options->telemetry;
	settings.ended_fd = eventfd(0, EFD_CLOEXEC);
	status = host_open_json(run_program.name, options->common.json, &out);
	if (status == 0)
		status = host_open_alone(&host, &settings, signals);
	if (status == 0) {
		live_draw(live, &host, run_program.name);
		status = host_start(&host);
	}
	if (status == 0) {
		status = run_host_until_end(options, &host, live, signals, until_ns);
		reported = run_host_report(options, &host, out);
		status = status != 0 ? status : reported;
	}
	host_close_json(out);
	closed = host_close(&host);
	if (settings.ended_fd > 0)
		close(settings.ended_fd);
	watch_free(watch);
	live_free(live);
	return status != 0 ? status : closed;
}

int
xk_run_main(int argc, char **argv)
{
	struct run_options options = { .common = HOST_COMMON_INITIAL,
				       .single = HOST_SINGLE_INITIAL,
				       .until_ns = RUN_UNTIL_ABSENT,
				       .stop_at = RUN_EVENT_ABSENT,
				       .back = RUN_EVENT_ABSENT,
				       .end = PAIR_ENDS };
	struct options_texts operands;
	const char *link;
	bool is_network;
	int status;

	options.common.link = NULL;
	status = options_parse(&run_program, argc, argv, &options, &operands);
	if (status != OPTIONS_GO)
		return status;
	link = options.common.link;
	is_network = xk_graph_file_is_network(operands.text[0]);
	if (link == NULL && !is_network)
		options.common.link = "virtio";
	if ((link != NULL && strcmp(link, "sim") == 0) || is_network)
		return run_network(&options, operands.text[0]);
	return run_host(&options, operands.text[0]);
}
