/*
 * xk_run.c - xk run: a network file in the simulator, or one host that stands on its link until it is told to end.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/json.h"
#include "tools/net.h"
#include "tools/options.h"
#include "tools/pair.h"
#include "tools/pcapng.h"
#include "tools/xk.h"

struct run_options {
	struct options_texts sets;
	const char *link, *until, *json, *pcap;
	uint64_t seed;
	bool trace, quiet;
};

static const struct options_option run_options[] = {
	{ .name = "link",
	  .kind = OPTIONS_TEXT,
	  .offset = offsetof(struct run_options, link),
	  .argument = "LINK",
	  .help = "sim: the simulator, the only one so far" },
	{ .name = "seed",
	  .kind = OPTIONS_NUMBER,
	  .offset = offsetof(struct run_options, seed),
	  .argument = "S",
	  .max = UINT64_MAX,
	  .help = "what happens by chance; the same seed gives the same run (1)" },
	{ .name = "until",
	  .kind = OPTIONS_TEXT,
	  .offset = offsetof(struct run_options, until),
	  .argument = "T",
	  .help = "how much virtual time passes: 500ms, 10s (1s)" },
	{ .name = "set",
	  .kind = OPTIONS_TEXT_ANY,
	  .offset = offsetof(struct run_options, sets),
	  .argument = "NODE.ATTRIBUTE=VALUE",
	  .help = "of a host or link; HOST.PROTOCOL.ATTRIBUTE of a host's graph,\n"
		  "graph.PROTOCOL.ATTRIBUTE of every host's" },
	{ .name = "trace",
	  .kind = OPTIONS_FLAG,
	  .offset = offsetof(struct run_options, trace),
	  .help = "print each message's crossings of every host's graph, too" },
	{ .name = "quiet",
	  .kind = OPTIONS_FLAG,
	  .offset = offsetof(struct run_options, quiet),
	  .help = "do not print frames" },
	{ .name = "json",
	  .kind = OPTIONS_TEXT,
	  .offset = offsetof(struct run_options, json),
	  .argument = "FILE",
	  .help = "write all counts as JSON; - is standard output" },
	{ .name = "pcap",
	  .kind = OPTIONS_TEXT,
	  .offset = offsetof(struct run_options, pcap),
	  .argument = "FILE",
	  .help = "write every frame as pcapng, with what was done to it" },
	{ .name = NULL },
};

static const struct options_program run_program = {
	.name = "xk run",
	.usage = "NETWORK --link sim [OPTION]...",
	.about = "Runs a network file in the simulator: hosts and links on virtual time. Each frame, boot and crash\n"
		 "is a line on standard output; what was counted, and a hash of all that happened, come at the end\n"
		 "on standard error.",
	.footer = "Exit status: 0 success, 1 failure (a refused file, a host that cannot be booted, lost buffers),\n"
		  "2 misuse.",
	.options = run_options,
	.operands_min = 1,
	.operands_max = 1,
};

struct run {
	const struct run_options *options;
	struct net net;
	struct pcapng *capture;
	unsigned *interfaces; /* of the capture, by host and device */
};

/* ---- watching ---- */

static const char *const run_events[] = {
	[XK_SIM_SENT] = "sent",     [XK_SIM_ARRIVED] = "arrived", [XK_SIM_LOST] = "lost",
	[XK_SIM_BOOTED] = "booted", [XK_SIM_CRASHED] = "crashed",
};

enum { RUN_SHOWN = 34 /* bytes of a frame: Ethernet and IP headers */ };

/* "ffffffffffff 020000000001 0806 0001..." */
static void
run_print_bytes(const struct xk_sim_record *record)
{
	size_t shown = record->len < RUN_SHOWN ? record->len : RUN_SHOWN;

	for (size_t i = 0; i < shown; i++)
		printf("%s%02x", i == 0 || i == 6 || i == 12 || i == 14 ? " " : "", record->frame[i]);
	printf(record->len > shown ? " ..." : "");
}

static void
run_print(const struct xk_sim_record *record)
{
	printf("%6" PRIu64 ".%09" PRIu64 " %s", record->at_ns / 1000000000, record->at_ns % 1000000000,
	       xk_sim_host_name(record->host));
	if (record->link != NULL)
		printf(" %s %s %zu bytes", run_events[record->event], xk_sim_link_name(record->link), record->len);
	else
		printf(" %s", run_events[record->event]);
	if (record->why != NULL)
		printf(" (%s)", record->why);
	if (record->frame != NULL)
		run_print_bytes(record);
	putchar('\n');
}

static void
run_capture(struct run *run, const struct xk_sim_record *record)
{
	unsigned interface =
		run->interfaces[xk_sim_host_number(record->host) * XK_TOPOLOGY_DEVICES_MAX + record->device];

	pcapng_frame(run->capture, interface, record->at_ns, record->event == XK_SIM_SENT ? PCAPNG_OUT : PCAPNG_IN,
		     record->frame, record->len, record->why);
}

static void
run_see(void *context, const struct xk_sim_record *record)
{
	struct run *run = context;

	if (!run->options->quiet || record->frame == NULL)
		run_print(record);
	if (run->capture != NULL && record->frame != NULL)
		run_capture(run, record);
}

static int
run_open_capture(struct run *run)
{
	const struct xk_topology *topology = run->net.topology;
	char name[2 * XK_GRAPH_NAME_MAX + 32];

	if (run->options->pcap == NULL)
		return 0;
	run->interfaces = calloc((size_t)topology->host_count * XK_TOPOLOGY_DEVICES_MAX, sizeof(*run->interfaces));
	run->capture = run->interfaces == NULL ? NULL : pcapng_open(run->options->pcap, run_program.name);
	if (run->capture == NULL) {
		fprintf(stderr, "xk run: --pcap %s cannot be written: %s\n", run->options->pcap, strerror(errno));
		return OPTIONS_FAILURE;
	}
	for (unsigned i = 0; i < topology->host_count; i++)
		for (unsigned n = 0; n < topology->hosts[i].device_count; n++) {
			snprintf(name, sizeof(name), "%s.%s", topology->hosts[i].name,
				 topology->hosts[i].devices[n].name);
			run->interfaces[i * XK_TOPOLOGY_DEVICES_MAX + n] = pcapng_interface(run->capture, name);
		}
	return 0;
}

static int
run_close_capture(struct run *run)
{
	int error = pcapng_close(run->capture);

	free(run->interfaces);
	if (error == 0)
		return 0;
	fprintf(stderr, "xk run: --pcap %s cannot be written: %s\n", run->options->pcap, strerror(-error));
	return OPTIONS_FAILURE;
}

/* ---- what was counted ---- */

/* Calls tell for each count that is not zero; of hosts that are up, those of their protocols too. */
static void
run_tell_host(struct xk_sim_host *host, void (*tell)(void *to, const char *name, uint64_t count), void *to)
{
	struct xk_sim_host_counts counts;
	struct xk_protocol *first = xk_sim_is_up(host) ? xk_kernel_first(xk_sim_kernel(host)) : NULL;
	char name[160];

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
	for (struct xk_protocol *p = first; p != NULL; p = p->next) {
		for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++) {
			snprintf(name, sizeof(name), "%s.%s", p->name, p->type->counters[i]);
			tell(to, name, p->counters[i]);
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
run_tell_text(void *to, const char *name, uint64_t count)
{
	if (count != 0)
		fprintf(to, " %s %" PRIu64, name, count);
}

static void
run_tell_json(void *to, const char *name, uint64_t count)
{
	json_uint(to, name, count);
}

enum { RUN_HOSTS_SHOWN = 20 };

static void
run_summary(const struct run *run)
{
	struct xk_sim *sim = run->net.sim;
	unsigned hosts = 0;

	for (struct xk_sim_host *host = xk_sim_first_host(sim); host != NULL; host = xk_sim_next_host(host))
		if (hosts++ < RUN_HOSTS_SHOWN) {
			fprintf(stderr, "%s:%s", xk_sim_host_name(host), xk_sim_is_up(host) ? "" : " down");
			run_tell_host(host, run_tell_text, stderr);
			fputc('\n', stderr);
		}
	if (hosts > RUN_HOSTS_SHOWN)
		fprintf(stderr, "... and %u more hosts (--json has them)\n", hosts - RUN_HOSTS_SHOWN);
	for (struct xk_sim_link *link = xk_sim_first_link(sim); link != NULL; link = xk_sim_next_link(link)) {
		fprintf(stderr, "%s:", xk_sim_link_name(link));
		run_tell_link(link, run_tell_text, stderr);
		fputc('\n', stderr);
	}
	fprintf(stderr, "seed %" PRIu64 ", until %" PRIu64 ".%06" PRIu64 " s, hash %016" PRIx64 "\n",
		run->options->seed, xk_sim_now_ns(sim) / 1000000000, xk_sim_now_ns(sim) / 1000 % 1000000,
		xk_sim_hash(sim));
}

static void
run_json_body(const struct run *run, struct json *json)
{
	struct xk_sim *sim = run->net.sim;
	char hash[20];

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
	json_close(json);
}

static int
run_json(const struct run *run)
{
	const char *file = run->options->json;
	bool is_stdout = file != NULL && strcmp(file, "-") == 0, good;
	struct json json;
	FILE *out;

	if (file == NULL)
		return 0;
	out = is_stdout ? stdout : fopen(file, "we");
	if (out != NULL) {
		json_begin(&json, out);
		run_json_body(run, &json);
		good = json_end(&json);
		if (!is_stdout)
			good = fclose(out) == 0 && good;
		if (good)
			return 0;
	}
	fprintf(stderr, "xk run: --json %s cannot be written: %s\n", file, strerror(errno));
	return OPTIONS_FAILURE;
}

/* ---- running ---- */

/* A signal ends the run; what was counted so far is told. */
struct run_stop {
	int signals;
	unsigned steps;
};

enum { RUN_LOOK_EVERY = 1 << 14 };

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
	struct run_stop stop = { .signals = pair_signals() };
	int status, captured;

	if (!run->options->quiet || run->options->pcap != NULL)
		xk_sim_watch(run->net.sim, run_see, run);
	status = run_open_capture(run);
	if (status == 0) {
		xk_sim_run_while(run->net.sim, until_ns, run_goes_on, &stop);
		fflush(stdout);
		run_summary(run);
		status = run_json(run);
	}
	xk_sim_watch(run->net.sim, NULL, NULL);
	captured = run_close_capture(run);
	return status == 0 ? captured : status;
}

static int
run_check(const struct run_options *options, const char *file, uint64_t *until_ns)
{
	if (options->link == NULL || strcmp(options->link, "sim") != 0)
		return options_misuse(&run_program, "networks run in the simulator: --link sim");
	if (!xk_time_parse(options->until, until_ns))
		return options_misuse(&run_program, "--until: \"%s\" is no time such as 500ms or 10s", options->until);
	if (options->json != NULL && strcmp(options->json, "-") == 0 && !options->quiet)
		return options_misuse(&run_program, "--json - needs --quiet: standard output has the trace");
	(void)file;
	return 0;
}

int
xk_run_main(int argc, char **argv)
{
	struct run_options options = { .until = "1s", .seed = 1 };
	struct run run = { .options = &options };
	struct options_texts operands;
	uint64_t until_ns;
	int status, closed;

	status = options_parse(&run_program, argc, argv, &options, &operands);
	if (status != OPTIONS_GO)
		return status;
	status = run_check(&options, operands.text[0], &until_ns);
	if (status != 0)
		return status;
	status = net_read(&run.net, run_program.name, operands.text[0], options.sets.text, options.sets.count);
	if (status == 0)
		status = net_open(&run.net, options.seed, stdout, options.trace);
	if (status == 0)
		status = run_network(&run, until_ns);
	closed = net_close(&run.net);
	return status == 0 ? closed : status;
}
