/* roundtrip_report.c - the results: a table for readers, JSON for programs. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "graphs/graph.h"
#include "tools/json.h"
#include "tools/roundtrip/roundtrip.h"

enum { ROUNDTRIP_CORES = 128 };

/* ---- results: JSON ---- */

static void
roundtrip_json_ends(struct json *json, const char *key, uint64_t client, uint64_t server, bool has_server)
{
	json_object(json, key);
	json_uint(json, "client", client);
	if (has_server)
		json_uint(json, "server", server);
	else
		json_null(json, "server");
	json_close(json);
}

void
roundtrip_json_setup(const struct roundtrip_job *job, const struct roundtrip_run *run, struct json *json)
{
	const struct roundtrip_test *test = job->options->test;

	json_string(json, "mode", host_modes[run->setup.mode]);
	json_string(json, "handoff", roundtrip_handoff_names[run->setup.handoff]);
	json_uint(json, "threads", run->setup.threads);
	json_uint(json, "size", run->size);
	if (test->channels != NULL)
		json_uint(json, test->channels, run->channels);
	if (test->flows != NULL)
		json_string(json, "flow", test->flows[run->flow]);
}

static void
roundtrip_json_run(const struct roundtrip_job *job, struct json *json, const struct roundtrip_run *run)
{
	const struct pair_counts *client = &run->sum[PAIR_CLIENT], *server = &run->sum[PAIR_SERVER];
	const struct pair_counts none = { .frames = 0 };
	struct pair_counts both = none;
	bool has_server = job->options->client == 0;

	json_object(json, NULL);
	roundtrip_json_setup(job, run, json);
	json_uint(json, "rounds", run->rounds);
	json_uint(json, "elapsed_ns", run->elapsed_ns);
	histogram_json(&run->rtt, json, "rtt_ns");
	json_string(json, "of", job->options->test->flows == NULL ? "full round trips" : "messages");
	json_close(json);
	json_uint(json, "messages", client->messages + server->messages);
	json_uint(json, "fragments", client->frames + server->frames);
	roundtrip_json_ends(json, "driver_switches", client->driver_switches, server->driver_switches, has_server);
	roundtrip_json_ends(json, "context_switches", client->thread_switches, server->thread_switches, has_server);
	if (job->pair.in_one_process)
		json_uint(json, "process_switches", client->process_switches);
	else
		roundtrip_json_ends(json, "process_switches", client->process_switches, server->process_switches,
				    has_server);
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		pair_counts_add(&both, &none, &run->sum[i]);
	host_json_counts(json, &both);
	json_uint(json, "lost", run->lost);
	json_uint(json, "late", run->late);
	json_uint(json, "bad", run->bad);
	json_close(json);
}

/* Begins a document, which the caller ends. */
static void
roundtrip_json_begin(const struct roundtrip_job *job, struct json *json)
{
	const struct roundtrip_options *o = job->options;

	json_begin(json, job->json);
	json_object(json, NULL);
	json_string(json, "program", o->test->program->name);
	json_string(json, "graph", o->graph);
	json_bool(json, "compiled", xk_program_graph != NULL);
	json_string(json, "link", o->common.link);
	json_string(json, "driver", host_drivers[o->common.driver]);
	json_array(json, "cores");
	for (unsigned i = 0; i < o->cores.count; i++)
		json_uint(json, NULL, o->cores.value[i]);
	json_close(json);
	if (o->preset != NULL) {
		json_string(json, "preset", o->preset);
		json_string(json, "costs", o->costs);
		json_uint(json, "seed", o->seed);
	}
	machine_json(&job->machine, json, "machine");
}

void
roundtrip_json_runs(const struct roundtrip_job *job, struct json *json)
{
	for (unsigned i = 0; i < job->run_count; i++)
		if (job->runs[i].rounds > 0)
			roundtrip_json_run(job, json, &job->runs[i]);
}

int
roundtrip_json(struct roundtrip_job *job)
{
	struct json json;

	if (job->json == NULL)
		return 0;
	roundtrip_json_begin(job, &json);
	json_bool(&json, "cut_short", job->pair.interrupted);
	json_array(&json, "runs");
	job->options->test->json(job, &json);
	json_close(&json);
	return host_end_json(job->options->test->program->name, job->options->common.json, &json);
}

int
roundtrip_json_server(const struct roundtrip_job *job, struct roundtrip_end *end)
{
	struct pair_counts counts = { 0 };
	struct json json;

	if (job->json == NULL)
		return 0;
	roundtrip_end_counts(end, &counts);
	roundtrip_json_begin(job, &json);
	json_object(&json, "server");
	json_string(&json, "mode", host_modes[job->options->modes.value[0]]);
	json_string(&json, "handoff", roundtrip_handoff_names[job->options->handoffs.value[0]]);
	json_uint(&json, "threads", job->options->threads.value[0]);
	json_uint(&json, "messages", counts.messages);
	json_uint(&json, "fragments", counts.frames);
	json_uint(&json, "buffers", end->host.platforms[0]->ops->buffers_out(end->host.platforms[0]));
	host_json_drivers(&end->host, &json);
	json_uint(&json, "driver_switches", counts.driver_switches);
	json_uint(&json, "context_switches", counts.thread_switches);
	json_uint(&json, "process_switches", counts.process_switches);
	host_json_counts(&json, &counts);
	host_json_counters(&end->host, &json);
	json_close(&json);
	return host_end_json(job->options->test->program->name, job->options->common.json, &json);
}

/* ---- results: the table ---- */

/* A run as the table shows it. */
struct roundtrip_row {
	double us50, us90, us99; /* percentiles of the round trip */
	double switches;         /* voluntary, on all threads, per message delivered */
	double rate;             /* round trips per second */
};

static struct roundtrip_row
roundtrip_row(const struct roundtrip_run *run)
{
	const struct pair_counts *client = &run->sum[PAIR_CLIENT], *server = &run->sum[PAIR_SERVER];
	uint64_t messages = client->messages + server->messages;
	uint64_t switches =
		client->driver_switches + client->thread_switches + server->driver_switches + server->thread_switches;

	return (struct roundtrip_row){
		.us50 = (double)histogram_percentile(&run->rtt, 50) / 1000.0,
		.us90 = (double)histogram_percentile(&run->rtt, 90) / 1000.0,
		.us99 = (double)histogram_percentile(&run->rtt, 99) / 1000.0,
		.switches = messages == 0 ? 0 : (double)switches / (double)messages,
		.rate = run->elapsed_ns == 0 ? 0 : 1e9 * (double)run->rounds / (double)run->elapsed_ns,
	};
}

static const char *
roundtrip_handoff_text(const struct roundtrip_run *run)
{
	return run->setup.mode == XK_REGULAR ? "-" : roundtrip_handoff_names[run->setup.handoff];
}

/* Writes "core 0" or "cores 0,1", and returns text. */
static const char *
roundtrip_cores(const struct roundtrip_options *o, unsigned which, char *text, size_t size)
{
	unsigned drivers = (unsigned)o->common.drivers;
	size_t len = (size_t)snprintf(text, size, drivers == 1 ? "core" : "cores");

	for (unsigned i = 0; i < drivers && len < size; i++)
		len += (size_t)snprintf(text + len, size - len, "%c%" PRIu64, i == 0 ? ' ' : ',',
					o->cores.value[which * drivers + i]);
	return text;
}

/* Prints the head. The times of simulated hosts are the model's, on any machine. */
void
roundtrip_print_head(const struct roundtrip_job *job, const char *what, FILE *out)
{
	const struct roundtrip_options *o = job->options;
	char client[ROUNDTRIP_CORES], server[ROUNDTRIP_CORES];

	if (o->preset != NULL)
		fprintf(out, "%s over sim: %s, costs %s, seed %" PRIu64 ", driver %s\n\n", what, o->preset, o->costs,
			o->seed, host_drivers[o->common.driver]);
	else
		fprintf(out, "%s over %s, driver %s, client on %s, server on %s%s\n\n", what, o->common.link,
			host_drivers[o->common.driver], roundtrip_cores(o, PAIR_CLIENT, client, sizeof(client)),
			roundtrip_cores(o, PAIR_SERVER, server, sizeof(server)),
			job->machine.sanitized ? " (sanitizers: times are meaningless)" : "");
}

/* Prints the heads of the first columns: roundtrip_print_size. */
static void
roundtrip_print_keys(const struct roundtrip_test *test, FILE *out)
{
	fprintf(out, "   bytes  ");
	if (test->channels != NULL)
		fprintf(out, "%s ", test->channels);
	if (test->flows != NULL)
		fprintf(out, "flow    ");
}

static void
roundtrip_print_columns(const struct roundtrip_test *test, FILE *out)
{
	int keys = (test->channels != NULL ? (int)strlen(test->channels) + 1 : 0) + (test->flows != NULL ? 8 : 0);

	fprintf(out, "%*s                                  round trip, us               context switches\n", keys, "");
	roundtrip_print_keys(test, out);
	fprintf(out, "mode     threads handoff      median       90 %%       99 %% %*sper %s   lost%s%s\n",
		10 - (int)strlen(test->message), "", test->message, test->channels != NULL ? "   a second" : "",
		test->flows != NULL ? "      MB/s" : "");
}

/* Prints the first columns of a run's line in every table. */
static void
roundtrip_print_size(const struct roundtrip_job *job, const struct roundtrip_run *run, FILE *out)
{
	const struct roundtrip_test *test = job->options->test;

	fprintf(out, "%8" PRIu32 "  ", run->size);
	if (test->channels != NULL)
		fprintf(out, "%*" PRIu32 " ", (int)strlen(test->channels), run->channels);
	if (test->flows != NULL)
		fprintf(out, "%-8s", test->flows[run->flow]);
}

void
roundtrip_print_setup(const struct roundtrip_job *job, const struct roundtrip_run *run, FILE *out)
{
	roundtrip_print_size(job, run, out);
	fprintf(out, "%-8s %7" PRIu32 " %-8s", host_modes[run->setup.mode], run->setup.threads,
		roundtrip_handoff_text(run));
}

static void
roundtrip_print_run(const struct roundtrip_job *job, const struct roundtrip_run *run, FILE *out)
{
	struct roundtrip_row row = roundtrip_row(run);

	roundtrip_print_setup(job, run, out);
	fprintf(out, " %10.2f %10.2f %10.2f %14.2f %6" PRIu64, row.us50, row.us90, row.us99, row.switches, run->lost);
	if (job->options->test->channels != NULL)
		fprintf(out, " %10.0f", row.rate);
	if (job->options->test->flows != NULL)
		fprintf(out, " %9.2f", row.rate * run->size / 1e6);
	fputc('\n', out);
}

/*
 * Returns the regular run to compare with run, of IPP: of the same flow, size, channels and threads. Returns NULL if run is
 * regular itself, or one of the two was not measured.
 */
static const struct roundtrip_run *
roundtrip_regular_of(const struct roundtrip_job *job, const struct roundtrip_run *run)
{
	for (unsigned i = 0; i < job->run_count && run->setup.mode == XK_IPP && run->rounds > 0; i++) {
		const struct roundtrip_run *other = &job->runs[i];

		if (other->setup.mode == XK_REGULAR && other->size == run->size && other->channels == run->channels &&
		    other->flow == run->flow && other->setup.threads == run->setup.threads)
			return other->rounds > 0 ? other : NULL;
	}
	return NULL;
}

/* Returns whether the times of run are those of messages that somebody waits for. */
static bool
roundtrip_has_trips(const struct roundtrip_job *job, const struct roundtrip_run *run)
{
	return job->options->test->flows == NULL || run->flow < job->options->test->streams;
}

/* Prints the savings of IPP. Returns true if anything was compared. */
static bool
roundtrip_print_savings(const struct roundtrip_job *job, FILE *out)
{
	bool begun = false;

	for (unsigned i = 0; i < job->run_count; i++) {
		const struct roundtrip_run *run = &job->runs[i], *regular = roundtrip_regular_of(job, run);
		struct roundtrip_row ipp, old;

		if (regular == NULL || !roundtrip_has_trips(job, run))
			continue;
		if (!begun) {
			fprintf(out, "\nWhat IPP saved: median round trip, us; context switches per %s delivered\n\n",
				job->options->test->message);
			roundtrip_print_keys(job->options->test, out);
			fprintf(out, "threads handoff     regular        ipp        saved          switches fewer\n");
		}
		begun = true;
		ipp = roundtrip_row(run);
		old = roundtrip_row(regular);
		roundtrip_print_size(job, run, out);
		fprintf(out, "%7" PRIu32 " %-8s %10.2f %10.2f %10.2f  (%3.0f %%) %14.2f\n", run->setup.threads,
			roundtrip_handoff_text(run), old.us50, ipp.us50, old.us50 - ipp.us50,
			100.0 * (old.us50 - ipp.us50) / old.us50, old.switches - ipp.switches);
	}
	return begun;
}

/* Warns of IPP runs that were worse than regular ones in the 99th percentile or the rate, as the table shows them. */
static void
roundtrip_print_losses(const struct roundtrip_job *job, FILE *out)
{
	const struct roundtrip_test *test = job->options->test;
	bool begun = false;

	for (unsigned i = 0; i < job->run_count; i++) {
		const struct roundtrip_run *run = &job->runs[i], *regular = roundtrip_regular_of(job, run);
		struct roundtrip_row ipp, old;
		bool is_later, is_slower;

		if (regular == NULL)
			continue;
		ipp = roundtrip_row(run);
		old = roundtrip_row(regular);
		is_later = roundtrip_has_trips(job, run) && ipp.us99 - old.us99 >= 0.01;
		is_slower = test->channels != NULL && old.rate - ipp.rate >= 1;
		if (!is_later && !is_slower)
			continue;
		if (!begun)
			fprintf(out, "\nWarning: IPP lost at the 99 %% or in the rate:\n");
		begun = true;
		fprintf(out, "  %" PRIu32 " byte%s, ", run->size, run->size == 1 ? "" : "s");
		if (test->channels != NULL)
			fprintf(out, "%" PRIu32 " %.*s, ", run->channels,
				(int)strlen(test->channels) - (run->channels == 1), test->channels);
		if (test->flows != NULL)
			fprintf(out, "%s, ", test->flows[run->flow]);
		fprintf(out, "%" PRIu32 " thread%s, handoff %s:", run->setup.threads,
			run->setup.threads == 1 ? "" : "s", roundtrip_handoff_text(run));
		if (is_later)
			fprintf(out, " 99 %% took up to %.2f us instead of %.2f", ipp.us99, old.us99);
		if (is_slower)
			fprintf(out, "%s %.0f a second instead of %.0f", is_later ? ";" : "", ipp.rate, old.rate);
		fputc('\n', out);
	}
}

void
roundtrip_print(const struct roundtrip_job *job, FILE *out)
{
	const struct machine *machine = &job->machine;
	uint64_t done = 0;
	bool compared;

	for (unsigned i = 0; i < job->run_count; i++)
		done += job->runs[i].rounds;
	if (job->pair.interrupted)
		fprintf(out, "CUT SHORT by a signal: %" PRIu64 " of %" PRIu64 " round trips were measured.\n\n", done,
			job->run_count * job->options->rounds);
	if (done == 0)
		return;
	roundtrip_print_head(job, "Round trips", out);
	roundtrip_print_columns(job->options->test, out);
	for (unsigned i = 0; i < job->run_count; i++)
		if (job->runs[i].rounds > 0)
			roundtrip_print_run(job, &job->runs[i], out);
	compared = roundtrip_print_savings(job, out);
	roundtrip_print_losses(job, out);
	if (compared)
		fprintf(out,
			"\nA round trip is two %ss: the request goes up the server's graph, its %s up the client's.\n"
			"regular: the driver gives each to a thread; ipp: the driver carries it up itself, and a "
			"thread\n"
			"takes over only at a handoff.\n",
			job->options->test->message, job->options->test->answer);
	if (job->options->preset == NULL && machine->line_ns[0] != 0 && machine->line_ns[1] != 0)
		fprintf(out,
			"A cache line takes %" PRIu64 " ns between the two cores and back before, %" PRIu64
			" ns after; figures across\ncores move with it.\n",
			machine->line_ns[0], machine->line_ns[1]);
}
