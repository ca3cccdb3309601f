/* xk_run_host.c - `xk run` of a graph file: one host, which stands on its link until a signal ends it. */
#include <errno.h>
#include <string.h>

#include "tools/host/host_alone.h"
#include "tools/host/watch.h"
#include "tools/json.h"
#include "tools/machine.h"
#include "tools/stats/stats_server.h"
#include "tools/xk/xk_run_private.h"

enum { RUN_WHY = 400, RUN_TELEMETRY_S = 30 };

/* The defaults of addresses and names are those of udptest, so that either can be the other end. */
static struct host_options
run_host_options(const struct run_options *options, const char *file, const struct host_link *link, struct watch *watch)
{
	struct host_options made = host_single_options_of(&options->common, &options->single, link);

	made.program = run_program.name;
	made.name = "host";
	made.end = options->end;
	made.graph = file;
	made.watch = watch;
	made.watched = true; /* xk stats may ask at any time */
	made.telemetry = options->telemetry;
	return made;
}

static int
run_host_tell(const struct run_options *options, struct host *host, FILE *out)
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

/* Failure only costs `xk stats`: the host goes on. */
static struct stats_server *
run_host_offer_stats(struct host *host)
{
	struct stats_server *server;
	char why[RUN_WHY];

	if (stats_server_start(host, &server, why, sizeof(why)) != 0)
		fprintf(stderr, "%s: no `xk stats` of this host: %s\n", run_program.name, why);
	return server;
}

/* DPDK's clients ask periodically: what they see next time is counted from here on. */
static void
run_host_asked(void *server)
{
	stats_server_count(server, RUN_TELEMETRY_S);
}

/* Lets the host stand until a signal comes. Returns 0, or the status to exit with. */
static int
run_host_stand(const struct run_options *options, struct host *host, int signals)
{
	struct stats_server *stats = run_host_offer_stats(host);
	int status = 0;

	if (options->telemetry && host_is_on_dpdk(host))
		status = host_begin_telemetry(host, run_host_asked, stats);
	if (status == 0) {
		host_print_standing(host);
		host_await_signal(signals);
	}
	if (options->telemetry && host_is_on_dpdk(host))
		host_end_telemetry(host);
	stats_server_stop(stats);
	return status;
}

int
run_host_main(const struct run_options *options, const char *file, const struct host_link *link)
{
	int signals = pair_signals(), status, closed;
	struct watch *watch = watch_new(run_program.name, &signals, options->common.watchdog_ns);
	struct host_options settings = run_host_options(options, file, link, watch);
	struct host host = { .port_count = 0 };
	FILE *out;

	status = host_open_json(run_program.name, options->common.json, &out);
	if (status == 0)
		status = host_open_alone(&host, &settings, signals);
	if (status == 0)
		status = host_start(&host);
	if (status == 0) {
		status = run_host_stand(options, &host, signals);
		if (status == 0)
			status = run_host_tell(options, &host, out);
	}
	host_close_json(out);
	closed = host_close(&host);
	watch_free(watch);
	return status != 0 ? status : closed;
}
