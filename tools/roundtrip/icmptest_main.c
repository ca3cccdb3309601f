/*
 * icmptest_main.c - pings: ICMP echo requests to a host, and their replies.
 *
 * Without an address it also starts the host that answers: as a separate process, or in this one on links that join
 * hosts of one process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "protocols/test/icmptest.h"
#include "tools/host/host_alone.h"
#include "tools/host/watch.h"
#include "tools/json.h"
#include "tools/machine.h"
#include "tools/roundtrip/programs.h"

enum {
	ICMPTEST_SILENT_S = 10,    /* time without a reply until that is reported */
	ICMPTEST_STUCK_S = 30,     /* time without an event, beyond interval and timeout, until the engine is "stuck" */
	ICMPTEST_PIPE = 256 << 10, /* bytes of events that wait to be printed, if the system allows as many */
};

struct icmptest_options {
	struct host_common common;
	struct host_single single;
	const char *graph;
	uint64_t interval_ns, timeout_ns, count, size, pattern;
	uint32_t host; /* host to ping; 0: a server that is started here */
	bool quiet;
	char path[HOST_PATH]; /* of the default graph */
};

struct icmptest_job {
	const struct icmptest_options *options;
	const struct host_link *link;
	struct host host, server; /* server: on links that join hosts of one process */
	struct host_companion companion;
	int signals;
	struct watch *watch;
	uint32_t to;
	FILE *out, *json; /* out: for readable output */
	/*
	 * From the driver, which may not print, to the main thread: events, each in one piece. The write end is closed
	 * after the last one. Events without room are only counted: the results are complete all the same.
	 */
	int events[2];
	_Atomic uint64_t unprinted;
	struct histogram rtt; /* the callbacks' until the run has finished */
	_Atomic bool done;
	struct xk_icmptest_result result;
};

/* ---- options ---- */

static const struct options_option icmptest_options[] = {
	OPTION(NUMBER, struct icmptest_options, count, "count", "N", "requests; 0: until ctrl-C (5)",
	       .max = UINT64_MAX),
	OPTION(NUMBER, struct icmptest_options, size, "size", "N", "bytes of data in each (56)",
	       .max = XK_ICMPTEST_MAX),
	OPTION(TIME, struct icmptest_options, interval_ns, "interval", "T",
	       "time from one request to the next: 10us, 200ms, 1s (1s)", .min = 1000),
	OPTION(TIME, struct icmptest_options, timeout_ns, "timeout", "T", "maximum time for a reply (1s)", .min = 1000),
	OPTION(NUMBER, struct icmptest_options, pattern, "pattern", "N",
	       "seed of the data, besides position and sequence number (0)", .max = UINT8_MAX),
	OPTION(FLAG, struct icmptest_options, quiet, "quiet", NULL, "no line for each reply"),
	OPTION(FILE, struct icmptest_options, graph, "graph", "FILE", "the protocol graph (graphs/icmptest.dot)"),
	{ .name = NULL },
};

static const struct options_program icmptest_program = {
	.name = "icmptest",
	.usage = "[ADDRESS] [OPTION]...",
	.about = "Sends ICMP echo requests to the host at ADDRESS on the link, and checks every byte of the replies.\n"
		 "Without ADDRESS it also starts a host that answers. Any host that answers pings will do, such as\n"
		 "`xk run graphs/icmptest.dot` on the other end of the link.",
	.footer = "Exit status: 0 at least one reply, and none corrupt; 1 failure (no reply, a refused graph, a link\n"
		  "that does not work), 2 misuse.",
	.options = icmptest_options,
	.shared = { { host_single_options, offsetof(struct icmptest_options, single) },
		    { host_common_options, offsetof(struct icmptest_options, common) } },
	.operands_max = 1,
};

/* Checks the options and fills in the rest. Returns 0 and the link, or OPTIONS_MISUSE after a message. */
static int
icmptest_complete(struct icmptest_options *options, const struct options_texts *operands, const struct host_link **link)
{
	bool alone = operands->count > 0;

	if (alone && options_host(&icmptest_program, "", operands->text[0], &options->host) != 0)
		return OPTIONS_MISUSE;
	if (host_common_complete(&icmptest_program, &options->common, alone, link) != 0 ||
	    host_single_complete(&icmptest_program, &options->single, options->common.drivers) != 0)
		return OPTIONS_MISUSE;
	if (options->timeout_ns / options->interval_ns >= XK_ICMPTEST_WINDOW)
		return options_misuse(&icmptest_program, "--timeout must be less than %d times --interval",
				      XK_ICMPTEST_WINDOW);
	if ((*link)->simulated)
		return options_misuse(&icmptest_program,
				      "simulated hosts ping in a network: xk run NETWORK --link sim");
	options->graph =
		xk_graph_file(options->graph, host_graph_path("icmptest.dot", options->path, sizeof(options->path)));
	return 0;
}

/* ---- callbacks of the driver ---- */

static void
icmptest_happened(void *argument, const struct xk_icmptest_event *event)
{
	struct icmptest_job *job = argument;

	static_assert(sizeof(*event) <= PIPE_BUF, "an event is written whole or not at all");
	if (event->kind == XK_ICMPTEST_REPLY)
		histogram_add(&job->rtt, event->rtt_ns);
	if (write(job->events[1], event, sizeof(*event)) < 0)
		atomic_fetch_add_explicit(&job->unprinted, 1, memory_order_relaxed);
}

static void
icmptest_finished(void *argument, const struct xk_icmptest_result *result)
{
	struct icmptest_job *job = argument;

	job->result = *result;
	atomic_store_explicit(&job->done, true, memory_order_release);
	close(job->events[1]);
}

/* ---- reports ---- */

static double
icmptest_us(uint64_t ns)
{
	return (double)ns / 1000.0;
}

static void
icmptest_print_event(const struct icmptest_job *job, const struct xk_icmptest_event *event)
{
	char address[16];

	switch (event->kind) {
	case XK_ICMPTEST_FAULT:
		fprintf(job->out, "%s reports for seq %" PRIu64 ": %s", xk_host_print((uint32_t)event->from, address),
			event->sequence, xk_fault_name(event->fault));
		if (event->fault == XK_FAULT_TOO_BIG && event->mtu != 0)
			fprintf(job->out, " (mtu %" PRIu32 ")", event->mtu);
		fputc('\n', job->out);
		break;
	case XK_ICMPTEST_LOST:
		fprintf(job->out, "no reply: seq %" PRIu64 "\n", event->sequence);
		break;
	case XK_ICMPTEST_UNSENT:
		fprintf(job->out, "not sent: seq %" PRIu64 "\n", event->sequence);
		break;
	default:
		fprintf(job->out, "%" PRIu32 " bytes from %s: seq %" PRIu64, event->size,
			xk_host_print(job->to, address), event->sequence);
		if (event->kind == XK_ICMPTEST_REPLY)
			fprintf(job->out, ", %.1f us\n", icmptest_us(event->rtt_ns));
		else
			fprintf(job->out, ", %s\n",
				event->kind == XK_ICMPTEST_DUPLICATE ? "a duplicate"
				: event->kind == XK_ICMPTEST_LATE    ? "too late"
								     : "corrupt");
	}
	fflush(job->out);
}

static void
icmptest_print_summary(const struct icmptest_job *job)
{
	const struct xk_icmptest_result *r = &job->result;
	uint64_t unprinted = atomic_load(&job->unprinted);
	const char *before = "reported by hosts on the route: ";
	char to[16];

	if (unprinted != 0)
		fprintf(job->out, "(%" PRIu64 " lines arrived too fast to be printed)\n", unprinted);
	fprintf(job->out, "\n%s: %" PRIu64 " sent, %" PRIu64 " received, %" PRIu64 " lost (%.3g %%)",
		xk_host_print(job->to, to), r->sent, r->received, r->lost,
		r->sent == 0 ? 0.0 : 100.0 * (double)r->lost / (double)r->sent);
	fprintf(job->out, ", %" PRIu64 " duplicates, %" PRIu64 " late, %" PRIu64 " corrupt\n", r->duplicates, r->late,
		r->corrupt);
	if (r->unsent != 0)
		fprintf(job->out, "%" PRIu64 " of those lost could not be sent\n", r->unsent);
	for (unsigned i = 0; i < XK_FAULTS; i++)
		if (r->faults[i] != 0) {
			fprintf(job->out, "%s%s %" PRIu64, before, xk_fault_name((enum xk_fault)i), r->faults[i]);
			before = ", ";
		}
	if (before[0] == ',')
		fputc('\n', job->out);
	if (job->rtt.count != 0)
		fprintf(job->out,
			"round trip, us: min %.1f, median %.1f, 90 %% %.1f, 99 %% %.1f, max %.1f, mean %.1f\n",
			icmptest_us(job->rtt.min), icmptest_us(histogram_percentile(&job->rtt, 50)),
			icmptest_us(histogram_percentile(&job->rtt, 90)),
			icmptest_us(histogram_percentile(&job->rtt, 99)), icmptest_us(job->rtt.max),
			icmptest_us(histogram_mean(&job->rtt)));
}

/* Writes the results to job->json, if set. Returns 0, or OPTIONS_FAILURE after a message. */
static int
icmptest_json(struct icmptest_job *job)
{
	const struct icmptest_options *o = job->options;
	const struct xk_icmptest_result *r = &job->result;
	struct machine machine;
	struct json json;
	char to[16];

	if (job->json == NULL)
		return 0;
	machine_describe(&machine);
	json_begin(&json, job->json);
	json_object(&json, NULL);
	json_string(&json, "program", icmptest_program.name);
	json_string(&json, "graph", o->graph);
	json_string(&json, "link", o->common.link);
	json_string(&json, "driver", host_drivers[o->common.driver]);
	machine_json(&machine, &json, "machine");
	json_string(&json, "to", xk_host_print(job->to, to));
	json_uint(&json, "size", o->size);
	json_uint(&json, "sent", r->sent);
	json_uint(&json, "received", r->received);
	json_uint(&json, "lost", r->lost);
	json_uint(&json, "duplicates", r->duplicates);
	json_uint(&json, "late", r->late);
	json_uint(&json, "corrupt", r->corrupt);
	json_uint(&json, "unsent", r->unsent);
	json_object(&json, "faults");
	for (unsigned i = 0; i < XK_FAULTS; i++)
		json_uint(&json, xk_fault_name((enum xk_fault)i), r->faults[i]);
	json_close(&json);
	histogram_json(&job->rtt, &json, "rtt_ns");
	json_close(&json);
	host_json(&job->host, &json, "client");
	return host_end_json(icmptest_program.name, o->common.json, &json);
}

/* ---- the main thread ---- */

/*
 * Prints events until the run is over. A signal ends it early, and so does the exit of the answering host. Returns 0,
 * or -EDEADLK if no event has occurred for too long.
 */
static int
icmptest_await(struct icmptest_job *job, struct xk_protocol *test)
{
	uint64_t limit_ms = (job->options->interval_ns + job->options->timeout_ns) / 1000000 + ICMPTEST_STUCK_S * 1000;
	struct pollfd polls[] = { { .fd = job->events[0], .events = POLLIN },
				  { .fd = job->signals, .events = POLLIN },
				  { .fd = job->companion.alive, .events = POLLIN } };
	struct xk_icmptest_event event;
	uint64_t received_ns = xk_now_ns(test);
	bool is_reported = false;
	ssize_t got = -1;

	while (got != 0) {
		int ready = poll(polls, 3, limit_ms < INT32_MAX ? (int)limit_ms : -1);
		char to[16];

		if (ready == 0)
			return -EDEADLK;
		for (unsigned i = 1; i < 3 && ready > 0; i++)
			if (polls[i].revents != 0) {
				if (i == 1)
					host_await_signal(job->signals);
				polls[i].fd = -1;
				xk_icmptest_stop(test);
			}
		while ((got = read(job->events[0], &event, sizeof(event))) > 0) {
			if (event.kind == XK_ICMPTEST_REPLY)
				received_ns = xk_now_ns(test);
			is_reported &= event.kind != XK_ICMPTEST_REPLY;
			if (!job->options->quiet)
				icmptest_print_event(job, &event);
		}
		if (!is_reported && xk_now_ns(test) >= received_ns + ICMPTEST_SILENT_S * UINT64_C(1000000000)) {
			is_reported = true;
			fprintf(stderr, "icmptest: %s has not answered for %d s%s; continuing\n",
				xk_host_print(job->to, to), ICMPTEST_SILENT_S,
				host_peer_is_gone(&job->host) ? ": its end of the link is gone, as when it is killed"
							      : "");
			fflush(stderr);
		}
	}
	return atomic_load_explicit(&job->done, memory_order_acquire) ? 0 : -EDEADLK;
}

static int
icmptest_explain(const struct icmptest_job *job, int err)
{
	char to[16];

	xk_host_print(job->to, to);
	if (err == -EMSGSIZE)
		fprintf(stderr, "icmptest: this graph does not send %" PRIu64 " bytes in a message\n",
			job->options->size);
	else if (err == -ENETUNREACH)
		fprintf(stderr, "icmptest: %s is on no network of this host (see --set vnet.address=, ip.routes=)\n",
			to);
	else if (err == -EDEADLK)
		fprintf(stderr, "icmptest: no more events: the engine is stuck\n");
	else
		fprintf(stderr, "icmptest: no pings to %s: %s\n", to, xk_error(err));
	return OPTIONS_FAILURE;
}

static int
icmptest_ping(struct icmptest_job *job)
{
	const struct icmptest_options *o = job->options;
	struct xk_protocol *test = host_find_type(&job->host, "icmptest");
	struct xk_icmptest_run run = {
		.host = job->to,
		.size = (uint32_t)o->size,
		.count = o->count,
		.interval_ns = o->interval_ns,
		.timeout_ns = o->timeout_ns,
		.pattern = (uint8_t)o->pattern,
		.happened = icmptest_happened,
		.finished = icmptest_finished,
		.argument = job,
	};
	char to[16], from[16];
	int err;

	if (test == NULL)
		return OPTIONS_FAILURE;
	fprintf(job->out, "Pinging %s from %s over %s: %" PRIu64 " bytes, mode %s, driver %s\n",
		xk_host_print(job->to, to), xk_host_print(job->host.address, from), o->common.link, o->size,
		host_modes[o->single.mode], host_drivers[o->common.driver]);
	fflush(job->out);
	/* not earlier: the process of the answering host must not inherit it */
	err = pipe2(job->events, O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : -errno;
	if (err == 0) {
		fcntl(job->events[1], F_SETPIPE_SZ, ICMPTEST_PIPE);
		err = xk_icmptest_start(test, &run);
	}
	if (err == 0)
		err = icmptest_await(job, test);
	if (err == 0)
		err = job->result.error;
	if (err != 0)
		return icmptest_explain(job, err);
	icmptest_print_summary(job);
	if (icmptest_json(job) != 0 || job->result.received == 0 || job->result.corrupt != 0)
		return OPTIONS_FAILURE;
	return 0;
}

/* Starts the watchdog, a thread: only after the last fork, and after the network is created. */
static void
icmptest_watch(struct icmptest_job *job, struct host_options options[PAIR_ENDS])
{
	job->watch = watch_new(icmptest_program.name, &job->signals, job->options->common.watchdog_ns);
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		options[i].watch = job->watch;
}

/* Opens the host that asks and, unless an address was given, the one that answers. 0, or the status to exit with. */
static int
icmptest_open(struct icmptest_job *job)
{
	const struct icmptest_options *o = job->options;
	struct host_options options[PAIR_ENDS];
	struct host hosts[PAIR_ENDS];
	char meeting[40] = "";
	int status;

	if (o->host == 0)
		snprintf(meeting, sizeof(meeting), "icmptest-%ld-", (long)getpid());
	for (unsigned i = 0; i < PAIR_ENDS; i++) {
		options[i] = host_single_options_of(&o->common, &o->single, job->link);
		options[i].program = icmptest_program.name;
		options[i].name = pair_end_names[i];
		options[i].end = i;
		options[i].paired = o->host == 0;
		options[i].graph = o->graph;
		options[i].meeting = meeting;
		options[i].yields |= o->host == 0;
	}
	options[PAIR_CLIENT].peer = o->host;
	if (o->host != 0 || job->link->in_process)
		icmptest_watch(job, options);
	if (o->host != 0)
		return host_open_alone(&job->host, &options[PAIR_CLIENT], job->signals);
	if (job->link->in_process) {
		status = host_open_both(hosts, options);
		job->host = hosts[PAIR_CLIENT];
		job->server = hosts[PAIR_SERVER];
		job->to = job->server.address;
		return status != 0 ? status : host_start(&job->server);
	}
	status = host_load(&job->server, &options[PAIR_SERVER]);
	job->to = options[PAIR_CLIENT].peer = job->server.address;
	if (status == 0)
		status = host_load(&job->host, &options[PAIR_CLIENT]);
	host_close(&job->host);
	if (status == 0)
		status = host_prepare_pair(&job->server, false);
	host_close(&job->server);
	host_sweep("icmptest");
	if (status == 0)
		status = host_companion_start(&job->companion, &options[PAIR_SERVER], job->signals);
	icmptest_watch(job, options);
	return status != 0 ? status : host_open_alone(&job->host, &options[PAIR_CLIENT], job->signals);
}

static int
icmptest_close(struct icmptest_job *job)
{
	int closed = host_close(&job->host);

	closed |= host_close(&job->server);
	closed |= host_companion_stop(&job->companion, icmptest_program.name);
	host_close_json(job->json);
	if (job->options->host == 0)
		host_sweep("icmptest");
	if (job->events[0] >= 0)
		close(job->events[0]);
	if (job->events[1] >= 0 && !atomic_load(&job->done))
		close(job->events[1]);
	return closed;
}

int
icmptest_main(int argc, char **argv)
{
	struct icmptest_options options = {
		.common = HOST_COMMON_INITIAL,
		.single = HOST_SINGLE_INITIAL,
		.interval_ns = UINT64_C(1000000000),
		.timeout_ns = UINT64_C(1000000000),
		.count = 5,
		.size = 56,
	};
	struct icmptest_job job = {
		.options = &options, .out = stdout, .companion = { .alive = -1 }, .events = { -1, -1 }
	};
	struct options_texts operands;
	int status = options_parse(&icmptest_program, argc, argv, &options, &operands), closed;

	if (status != OPTIONS_GO)
		return status;
	status = icmptest_complete(&options, &operands, &job.link);
	if (status != 0)
		return status;
	job.to = options.host;
	job.signals = pair_signals();
	histogram_init(&job.rtt);
	status = host_open_json(icmptest_program.name, options.common.json, &job.json);
	if (job.json == stdout)
		job.out = stderr;
	if (status == 0)
		status = icmptest_open(&job);
	if (status == 0)
		status = host_start(&job.host);
	if (status == 0)
		status = icmptest_ping(&job);
	closed = icmptest_close(&job);
	watch_free(job.watch);
	return status != 0 ? status : closed;
}
