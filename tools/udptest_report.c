/* udptest_report.c - what udptest tells: a table for people, JSON for programs. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/json.h"
#include "tools/udptest.h"

/* ---- results: JSON ---- */

static void
udptest_json_ends(struct json *json, const char *key, uint64_t client, uint64_t server, bool has_server)
{
	json_object(json, key);
	json_uint(json, "client", client);
	if (has_server)
		json_uint(json, "server", server);
	else
		json_null(json, "server");
	json_close(json);
}

static void
udptest_json_rtt(struct json *json, const struct histogram *rtt)
{
	histogram_json(rtt, json, "rtt_ns");
	json_string(json, "of", "full round trips");
	json_close(json);
}

/* What both ends have counted together. */
static void
udptest_json_counts(struct json *json, const struct udptest_run *run)
{
	struct pair_counts none = { 0 }, both = { 0 };

	for (unsigned i = 0; i < PAIR_ENDS; i++)
		pair_counts_add(&both, &none, &run->sum[i]);
	host_json_counts(json, &both);
}

static void
udptest_json_run(const struct udptest_job *job, struct json *json, const struct udptest_run *run)
{
	const struct pair_counts *client = &run->sum[PAIR_CLIENT], *server = &run->sum[PAIR_SERVER];
	bool has_server = job->options->client == NULL;

	json_object(json, NULL);
	json_string(json, "mode", host_modes[run->setup.mode]);
	json_string(json, "handoff", udptest_handoff_names[run->setup.handoff]);
	json_uint(json, "threads", run->setup.threads);
	json_uint(json, "size", run->size);
	json_uint(json, "rounds", run->rounds);
	udptest_json_rtt(json, &run->rtt);
	json_uint(json, "messages", client->messages + server->messages);
	json_uint(json, "fragments", client->frames + server->frames);
	udptest_json_ends(json, "driver_switches", client->driver_switches, server->driver_switches, has_server);
	udptest_json_ends(json, "context_switches", client->thread_switches, server->thread_switches, has_server);
	if (job->pair.in_one_process)
		json_uint(json, "process_switches", client->process_switches);
	else
		udptest_json_ends(json, "process_switches", client->process_switches, server->process_switches,
				  has_server);
	udptest_json_counts(json, run);
	json_uint(json, "lost", run->lost);
	json_uint(json, "late", run->late);
	json_uint(json, "bad", run->bad);
	json_close(json);
}

/* The beginning of every document; the caller closes it. */
static void
udptest_json_begin(const struct udptest_job *job, struct json *json)
{
	const struct udptest_options *o = job->options;

	json_begin(json, job->json);
	json_object(json, NULL);
	json_string(json, "program", udptest_program.name);
	json_string(json, "graph", o->graph);
	json_string(json, "link", o->common.link);
	json_string(json, "driver", host_drivers[o->common.driver]);
	json_array(json, "cores");
	json_uint(json, NULL, o->cores.value[PAIR_CLIENT]);
	json_uint(json, NULL, o->cores.value[PAIR_SERVER]);
	json_close(json);
	if (o->preset != NULL) {
		json_string(json, "preset", o->preset);
		json_string(json, "costs", o->costs);
		json_uint(json, "seed", o->seed);
	}
	machine_json(&job->machine, json, "machine");
}

static int
udptest_json_end(const struct udptest_job *job, struct json *json)
{
	json_close(json);
	if (json_end(json))
		return 0;
	fprintf(stderr, "udptest: --json %s cannot be written: %s\n", job->options->common.json, strerror(errno));
	return OPTIONS_FAILURE;
}

int
udptest_json(struct udptest_job *job)
{
	struct json json;

	if (job->json == NULL)
		return 0;
	udptest_json_begin(job, &json);
	json_array(&json, "runs");
	for (unsigned i = 0; i < job->run_count; i++)
		udptest_json_run(job, &json, &job->runs[i]);
	json_close(&json);
	return udptest_json_end(job, &json);
}

static void
udptest_json_counter(void *json, const char *name, uint64_t count)
{
	json_uint(json, name, count);
}

int
udptest_json_server(const struct udptest_job *job, struct udptest_end *end)
{
	struct pair_counts counts = { 0 };
	struct udptest_run run = { .rounds = 0 };
	struct json json;

	if (job->json == NULL)
		return 0;
	udptest_end_counts(end, &counts);
	pair_counts_add(&run.sum[PAIR_SERVER], &(struct pair_counts){ .frames = 0 }, &counts);
	udptest_json_begin(job, &json);
	json_object(&json, "server");
	json_string(&json, "mode", host_modes[job->options->modes.value[0]]);
	json_string(&json, "handoff", udptest_handoff_names[job->options->handoffs.value[0]]);
	json_uint(&json, "threads", job->options->threads.value[0]);
	json_uint(&json, "messages", counts.messages);
	json_uint(&json, "fragments", counts.frames);
	json_uint(&json, "buffers", end->host.platform->ops->buffers_out(end->host.platform));
	json_uint(&json, "driver_switches", counts.driver_switches);
	json_uint(&json, "context_switches", counts.thread_switches);
	json_uint(&json, "process_switches", counts.process_switches);
	udptest_json_counts(&json, &run);
	json_object(&json, "counters");
	host_each_counter(&end->host, udptest_json_counter, &json);
	json_close(&json);
	json_close(&json);
	return udptest_json_end(job, &json);
}

/* ---- results: the table ---- */

/* Voluntary switches of everything that was measured, for each datagram delivered. */
static double
udptest_switches(const struct udptest_run *run)
{
	const struct pair_counts *client = &run->sum[PAIR_CLIENT], *server = &run->sum[PAIR_SERVER];
	uint64_t messages = client->messages + server->messages;

	if (messages == 0)
		return 0;
	return (double)(client->driver_switches + client->thread_switches + server->driver_switches +
			server->thread_switches) /
	       (double)messages;
}

static double
udptest_us(const struct udptest_run *run, double percent)
{
	return (double)histogram_percentile(&run->rtt, percent) / 1000.0;
}

static const char *
udptest_handoff_text(const struct udptest_run *run)
{
	return run->setup.mode == XK_REGULAR ? "-" : udptest_handoff_names[run->setup.handoff];
}

/* Of simulated hosts the times are the model's, whatever the machine. */
static void
udptest_print_head(const struct udptest_job *job, FILE *out)
{
	const struct udptest_options *o = job->options;

	if (o->preset != NULL)
		fprintf(out, "Round trips over sim: %s, costs %s, seed %" PRIu64 ", driver %s\n\n", o->preset, o->costs,
			o->seed, host_drivers[o->common.driver]);
	else
		fprintf(out,
			"Round trips over %s, driver %s, client on core %" PRIu64 ", server on core %" PRIu64 "%s\n\n",
			o->common.link, host_drivers[o->common.driver], o->cores.value[PAIR_CLIENT],
			o->cores.value[PAIR_SERVER], job->machine.sanitized ? " (sanitizers: times mean nothing)" : "");
}

static void
udptest_print_runs(const struct udptest_job *job, FILE *out)
{
	udptest_print_head(job, out);
	fprintf(out, "                                  round trip, us               context switches\n");
	fprintf(out, "   bytes  mode     threads handoff      median       90 %%       99 %%   per datagram   lost\n");
	for (unsigned i = 0; i < job->run_count; i++) {
		const struct udptest_run *run = &job->runs[i];

		fprintf(out, "%8" PRIu32 "  %-8s %7" PRIu32 " %-8s %10.2f %10.2f %10.2f %14.2f %6" PRIu64 "\n",
			run->size, host_modes[run->setup.mode], run->setup.threads, udptest_handoff_text(run),
			udptest_us(run, 50), udptest_us(run, 90), udptest_us(run, 99), udptest_switches(run),
			run->lost);
	}
}

/* The regular run that an IPP run is compared with: same size, same number of threads. */
static const struct udptest_run *
udptest_regular_of(const struct udptest_job *job, const struct udptest_run *run)
{
	for (unsigned i = 0; i < job->run_count; i++) {
		const struct udptest_run *other = &job->runs[i];

		if (other->setup.mode == XK_REGULAR && other->size == run->size &&
		    other->setup.threads == run->setup.threads)
			return other;
	}
	return NULL;
}

static void
udptest_print_saving(const struct udptest_run *run, const struct udptest_run *regular, FILE *out)
{
	double saved_us = udptest_us(regular, 50) - udptest_us(run, 50);
	double switches = udptest_switches(regular) - udptest_switches(run);

	fprintf(out, "%8" PRIu32 "  %7" PRIu32 " %-8s %10.2f %10.2f %10.2f  (%3.0f %%) %14.2f\n", run->size,
		run->setup.threads, udptest_handoff_text(run), udptest_us(regular, 50), udptest_us(run, 50), saved_us,
		100.0 * saved_us / udptest_us(regular, 50), switches);
}

static void
udptest_print_savings(const struct udptest_job *job, FILE *out)
{
	bool begun = false;

	for (unsigned i = 0; i < job->run_count; i++) {
		const struct udptest_run *run = &job->runs[i], *regular = udptest_regular_of(job, run);

		if (run->setup.mode != XK_IPP || regular == NULL)
			continue;
		if (!begun)
			fprintf(out,
				"\nWhat IPP saved: median round trip, us; context switches per datagram delivered\n\n"
				"   bytes  threads handoff     regular        ipp        saved          switches "
				"fewer\n");
		begun = true;
		udptest_print_saving(run, regular, out);
	}
	if (begun)
		fprintf(out, "\nA round trip is two datagrams: the request goes up the server's graph, its echo up the "
			     "client's.\n"
			     "regular: the driver gives each to a thread; ipp: the driver carries it up itself, and a "
			     "thread\n"
			     "takes over only at a handoff.\n");
}

static void
udptest_print_machine(const struct udptest_job *job, FILE *out)
{
	const struct machine *machine = &job->machine;

	if (job->options->preset == NULL && machine->line_ns[0] != 0 && machine->line_ns[1] != 0)
		fprintf(out,
			"A cache line takes %" PRIu64 " ns between the two cores and back before, %" PRIu64
			" ns after; figures across\ncores move with it.\n",
			machine->line_ns[0], machine->line_ns[1]);
}

void
udptest_print(const struct udptest_job *job)
{
	FILE *out = job->json == stdout ? stderr : stdout;

	udptest_print_runs(job, out);
	udptest_print_savings(job, out);
	udptest_print_machine(job, out);
}
