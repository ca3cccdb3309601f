/* roundtrip_report.c - what udptest and chantest tell: a table for people, JSON for programs. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/json.h"
#include "tools/program/program.h"
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

static void
roundtrip_json_rtt(struct json *json, const struct histogram *rtt)
{
	histogram_json(rtt, json, "rtt_ns");
	json_string(json, "of", "full round trips");
	json_close(json);
}

/* What both ends have counted together. */
static void
roundtrip_json_counts(struct json *json, const struct roundtrip_run *run)
{
	struct pair_counts none = { 0 }, both = { 0 };

	for (unsigned i = 0; i < PAIR_ENDS; i++)
		pair_counts_add(&both, &none, &run->sum[i]);
	host_json_counts(json, &both);
}

static void
roundtrip_json_run(const struct roundtrip_job *job, struct json *json, const struct roundtrip_run *run)
{
	const struct pair_counts *client = &run->sum[PAIR_CLIENT], *server = &run->sum[PAIR_SERVER];
	bool has_server = job->options->client == NULL;

	json_object(json, NULL);
	json_string(json, "mode", host_modes[run->setup.mode]);
	json_string(json, "handoff", roundtrip_handoff_names[run->setup.handoff]);
	json_uint(json, "threads", run->setup.threads);
	json_uint(json, "size", run->size);
	if (job->options->test->has_channels)
		json_uint(json, "channels", run->channels);
	json_uint(json, "rounds", run->rounds);
	json_uint(json, "elapsed_ns", run->elapsed_ns);
	roundtrip_json_rtt(json, &run->rtt);
	json_uint(json, "messages", client->messages + server->messages);
	json_uint(json, "fragments", client->frames + server->frames);
	roundtrip_json_ends(json, "driver_switches", client->driver_switches, server->driver_switches, has_server);
	roundtrip_json_ends(json, "context_switches", client->thread_switches, server->thread_switches, has_server);
	if (job->pair.in_one_process)
		json_uint(json, "process_switches", client->process_switches);
	else
		roundtrip_json_ends(json, "process_switches", client->process_switches, server->process_switches,
				    has_server);
	roundtrip_json_counts(json, run);
	json_uint(json, "lost", run->lost);
	json_uint(json, "late", run->late);
	json_uint(json, "bad", run->bad);
	json_close(json);
}

/* The beginning of every document; the caller closes it. */
static void
roundtrip_json_begin(const struct roundtrip_job *job, struct json *json)
{
	const struct roundtrip_options *o = job->options;

	json_begin(json, job->json);
	json_object(json, NULL);
	json_string(json, "program", o->test->program->name);
	json_string(json, "graph", o->graph);
	json_bool(json, "compiled", program_graph != NULL);
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

static int
roundtrip_json_end(const struct roundtrip_job *job, struct json *json)
{
	json_close(json);
	if (json_end(json))
		return 0;
	fprintf(stderr, "%s: --json %s cannot be written: %s\n", job->options->test->program->name,
		job->options->common.json, strerror(errno));
	return OPTIONS_FAILURE;
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
	for (unsigned i = 0; i < job->run_count; i++)
		if (job->runs[i].rounds > 0)
			roundtrip_json_run(job, &json, &job->runs[i]);
	json_close(&json);
	return roundtrip_json_end(job, &json);
}

static void
roundtrip_json_counter(void *json, const char *name, uint64_t count)
{
	json_uint(json, name, count);
}

int
roundtrip_json_server(const struct roundtrip_job *job, struct roundtrip_end *end)
{
	struct pair_counts counts = { 0 };
	struct roundtrip_run run = { .rounds = 0 };
	struct json json;

	if (job->json == NULL)
		return 0;
	roundtrip_end_counts(end, &counts);
	pair_counts_add(&run.sum[PAIR_SERVER], &(struct pair_counts){ .frames = 0 }, &counts);
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
	roundtrip_json_counts(&json, &run);
	json_object(&json, "counters");
	host_each_counter(&end->host, roundtrip_json_counter, &json);
	json_close(&json);
	json_close(&json);
	return roundtrip_json_end(job, &json);
}

/* ---- results: the table ---- */

/* Voluntary switches of everything that was measured, for each message delivered. */
static double
roundtrip_switches(const struct roundtrip_run *run)
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
roundtrip_us(const struct roundtrip_run *run, double percent)
{
	return (double)histogram_percentile(&run->rtt, percent) / 1000.0;
}

static double
roundtrip_rate(const struct roundtrip_run *run)
{
	return run->elapsed_ns == 0 ? 0 : 1e9 * (double)run->rounds / (double)run->elapsed_ns;
}

static const char *
roundtrip_handoff_text(const struct roundtrip_run *run)
{
	return run->setup.mode == XK_REGULAR ? "-" : roundtrip_handoff_names[run->setup.handoff];
}

/* "core 0", "cores 0,1" */
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

/* Of simulated hosts the times are the model's, whatever the machine. */
static void
roundtrip_print_head(const struct roundtrip_job *job, FILE *out)
{
	const struct roundtrip_options *o = job->options;
	char client[ROUNDTRIP_CORES], server[ROUNDTRIP_CORES];

	if (o->preset != NULL)
		fprintf(out, "Round trips over sim: %s, costs %s, seed %" PRIu64 ", driver %s\n\n", o->preset, o->costs,
			o->seed, host_drivers[o->common.driver]);
	else
		fprintf(out, "Round trips over %s, driver %s, client on %s, server on %s%s\n\n", o->common.link,
			host_drivers[o->common.driver], roundtrip_cores(o, PAIR_CLIENT, client, sizeof(client)),
			roundtrip_cores(o, PAIR_SERVER, server, sizeof(server)),
			job->machine.sanitized ? " (sanitizers: times mean nothing)" : "");
}

static void
roundtrip_print_run(const struct roundtrip_job *job, const struct roundtrip_run *run, FILE *out)
{
	fprintf(out, "%8" PRIu32 "  ", run->size);
	if (job->options->test->has_channels)
		fprintf(out, "%8" PRIu32 " ", run->channels);
	fprintf(out, "%-8s %7" PRIu32 " %-8s %10.2f %10.2f %10.2f %14.2f %6" PRIu64, host_modes[run->setup.mode],
		run->setup.threads, roundtrip_handoff_text(run), roundtrip_us(run, 50), roundtrip_us(run, 90),
		roundtrip_us(run, 99), roundtrip_switches(run), run->lost);
	if (job->options->test->has_channels)
		fprintf(out, " %10.0f", roundtrip_rate(run));
	fputc('\n', out);
}

static void
roundtrip_print_runs(const struct roundtrip_job *job, FILE *out)
{
	bool has_channels = job->options->test->has_channels;
	const char *message = job->options->test->message;

	roundtrip_print_head(job, out);
	fprintf(out, "%s                                  round trip, us               context switches\n",
		has_channels ? "         " : "");
	fprintf(out, "   bytes  %smode     threads handoff      median       90 %%       99 %% %*sper %s   lost%s\n",
		has_channels ? "channels " : "", 10 - (int)strlen(message), "", message,
		has_channels ? "   a second" : "");
	for (unsigned i = 0; i < job->run_count; i++)
		if (job->runs[i].rounds > 0)
			roundtrip_print_run(job, &job->runs[i], out);
}

/* The regular run that an IPP run is compared with: same size, channels and number of threads. */
static const struct roundtrip_run *
roundtrip_regular_of(const struct roundtrip_job *job, const struct roundtrip_run *run)
{
	for (unsigned i = 0; i < job->run_count; i++) {
		const struct roundtrip_run *other = &job->runs[i];

		if (other->setup.mode == XK_REGULAR && other->size == run->size && other->channels == run->channels &&
		    other->setup.threads == run->setup.threads)
			return other;
	}
	return NULL;
}

static bool
roundtrip_is_compared(const struct roundtrip_run *run, const struct roundtrip_run *regular)
{
	return run->setup.mode == XK_IPP && regular != NULL && run->rounds > 0 && regular->rounds > 0;
}

static void
roundtrip_print_saving(const struct roundtrip_job *job, const struct roundtrip_run *run,
		       const struct roundtrip_run *regular, FILE *out)
{
	double saved_us = roundtrip_us(regular, 50) - roundtrip_us(run, 50);
	double switches = roundtrip_switches(regular) - roundtrip_switches(run);

	fprintf(out, "%8" PRIu32 "  ", run->size);
	if (job->options->test->has_channels)
		fprintf(out, "%8" PRIu32 " ", run->channels);
	fprintf(out, "%7" PRIu32 " %-8s %10.2f %10.2f %10.2f  (%3.0f %%) %14.2f\n", run->setup.threads,
		roundtrip_handoff_text(run), roundtrip_us(regular, 50), roundtrip_us(run, 50), saved_us,
		100.0 * saved_us / roundtrip_us(regular, 50), switches);
}

/* Returns whether run's 99th percentile is worse, by what the table of runs can show. */
static bool
roundtrip_is_later(const struct roundtrip_run *run, const struct roundtrip_run *regular)
{
	return roundtrip_us(run, 99) - roundtrip_us(regular, 99) >= 0.01;
}

static bool
roundtrip_is_slower(const struct roundtrip_job *job, const struct roundtrip_run *run,
		    const struct roundtrip_run *regular)
{
	return job->options->test->has_channels && roundtrip_rate(regular) - roundtrip_rate(run) >= 1;
}

static void
roundtrip_print_loss(const struct roundtrip_job *job, const struct roundtrip_run *run,
		     const struct roundtrip_run *regular, FILE *out)
{
	bool is_later = roundtrip_is_later(run, regular);

	fprintf(out, "  %" PRIu32 " byte%s, ", run->size, run->size == 1 ? "" : "s");
	if (job->options->test->has_channels)
		fprintf(out, "%" PRIu32 " channel%s, ", run->channels, run->channels == 1 ? "" : "s");
	fprintf(out, "%" PRIu32 " thread%s, handoff %s:", run->setup.threads, run->setup.threads == 1 ? "" : "s",
		roundtrip_handoff_text(run));
	if (is_later)
		fprintf(out, " 99 %% took up to %.2f us instead of %.2f", roundtrip_us(run, 99),
			roundtrip_us(regular, 99));
	if (roundtrip_is_slower(job, run, regular))
		fprintf(out, "%s %.0f a second instead of %.0f", is_later ? ";" : "", roundtrip_rate(run),
			roundtrip_rate(regular));
	fputc('\n', out);
}

/* Warns of IPP runs that were worse than regular ones in the 99th percentile or the rate. */
static void
roundtrip_print_losses(const struct roundtrip_job *job, FILE *out)
{
	bool begun = false;

	for (unsigned i = 0; i < job->run_count; i++) {
		const struct roundtrip_run *run = &job->runs[i], *regular = roundtrip_regular_of(job, run);

		if (!roundtrip_is_compared(run, regular) ||
		    (!roundtrip_is_later(run, regular) && !roundtrip_is_slower(job, run, regular)))
			continue;
		if (!begun)
			fprintf(out, "\nWarning: IPP lost at the 99 %% or in the rate:\n");
		begun = true;
		roundtrip_print_loss(job, run, regular, out);
	}
}

static void
roundtrip_print_savings(const struct roundtrip_job *job, FILE *out)
{
	const char *message = job->options->test->message;
	bool begun = false;

	for (unsigned i = 0; i < job->run_count; i++) {
		const struct roundtrip_run *run = &job->runs[i], *regular = roundtrip_regular_of(job, run);

		if (!roundtrip_is_compared(run, regular))
			continue;
		if (!begun)
			fprintf(out,
				"\nWhat IPP saved: median round trip, us; context switches per %s delivered\n\n"
				"   bytes  %sthreads handoff     regular        ipp        saved          switches "
				"fewer\n",
				message, job->options->test->has_channels ? "channels " : "");
		begun = true;
		roundtrip_print_saving(job, run, regular, out);
	}
	roundtrip_print_losses(job, out);
	if (begun)
		fprintf(out,
			"\nA round trip is two %ss: the request goes up the server's graph, its %s up the client's.\n"
			"regular: the driver gives each to a thread; ipp: the driver carries it up itself, and a "
			"thread\n"
			"takes over only at a handoff.\n",
			message, job->options->test->answer);
}

static void
roundtrip_print_machine(const struct roundtrip_job *job, FILE *out)
{
	const struct machine *machine = &job->machine;

	if (job->options->preset == NULL && machine->line_ns[0] != 0 && machine->line_ns[1] != 0)
		fprintf(out,
			"A cache line takes %" PRIu64 " ns between the two cores and back before, %" PRIu64
			" ns after; figures across\ncores move with it.\n",
			machine->line_ns[0], machine->line_ns[1]);
}

static uint64_t
roundtrip_done(const struct roundtrip_job *job)
{
	uint64_t done = 0;

	for (unsigned i = 0; i < job->run_count; i++)
		done += job->runs[i].rounds;
	return done;
}

static void
roundtrip_print_cut(const struct roundtrip_job *job, FILE *out)
{
	fprintf(out, "CUT SHORT by a signal: %" PRIu64 " of %" PRIu64 " round trips were measured.\n\n",
		roundtrip_done(job), job->run_count * job->options->rounds);
}

void
roundtrip_print(const struct roundtrip_job *job)
{
	FILE *out = job->json == stdout ? stderr : stdout;

	if (job->pair.interrupted)
		roundtrip_print_cut(job, out);
	if (roundtrip_done(job) == 0)
		return;
	roundtrip_print_runs(job, out);
	roundtrip_print_savings(job, out);
	roundtrip_print_machine(job, out);
}
