/*
 * udptest.c - the main job: how long a UDP message takes to a peer and back, when the driver hands every message to a
 * thread (regular) and when it carries messages up itself (IPP), and what the second saves.
 *
 * Without --server or --client it starts both ends as processes and alternates what it compares in short blocks, so
 * that whatever the machine does meanwhile happens to all of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "protocols/udptest.h"
#include "tools/host.h"
#include "tools/json.h"
#include "tools/machine.h"
#include "tools/options.h"
#include "tools/pair.h"

enum {
	UDPTEST_BLOCKS = 20,    /* of a configuration, at most */
	UDPTEST_BLOCK_MIN = 50, /* round trips */
	UDPTEST_WARM_UP = 100,
	UDPTEST_ROUNDS_MAX = 1000000000,
	UDPTEST_THREADS_MAX = 256,
	UDPTEST_CORES_MAX = 1023,
	UDPTEST_LOSSES_SHOWN = 20,
	UDPTEST_STILL_S = 60, /* without a round trip or a loss: the engine stands still */
	UDPTEST_NO_CONTROL = 0,
};

/* ---- options ----------------------------------------------------------------------------------------------- */

struct udptest_options {
	const char *graph, *link, *client, *json, *pcap, *end;
	struct options_texts sets;
	struct options_numbers modes, handoffs, threads, cores, sizes;
	unsigned driver; /* UDPTEST_DRIVER_ABSENT: not given */
	uint64_t rounds, control;
	bool server, trace, compiled;
};

static const char *const udptest_modes[] = { "regular", "ipp", NULL };
static const char *const udptest_drivers[] = { "poll", "interrupt", "adaptive", NULL };
static const char *const udptest_handoffs[] = { "none", "client", "server", "both", NULL };
static const char *const udptest_handoff_names[] = { "none", "client", "server", "both", "graph" };

enum { UDPTEST_DRIVER_ABSENT = 3 };

#define UDPTEST_AT(member) offsetof(struct udptest_options, member)

static const struct options_option udptest_table[] = {
	{ .name = "server",
	  .kind = OPTIONS_FLAG,
	  .offset = UDPTEST_AT(server),
	  .help = "be only a server, until SIGINT or SIGTERM" },
	{ .name = "client",
	  .kind = OPTIONS_TEXT,
	  .offset = UDPTEST_AT(client),
	  .argument = "ADDRESS",
	  .help = "be only a client, of the server at this address (10.77.0.2)" },
	{ .name = "mode",
	  .kind = OPTIONS_CHOICES,
	  .offset = UDPTEST_AT(modes),
	  .argument = "MODE,...",
	  .choices = udptest_modes,
	  .help = "who carries an arriving message up the graph:\n"
		  "regular: a thread, given it by the driver\n"
		  "ipp: the driver itself (default: each is run; a lone server: ipp)" },
	{ .name = "driver",
	  .kind = OPTIONS_CHOICE,
	  .offset = UDPTEST_AT(driver),
	  .argument = "DRIVER",
	  .choices = udptest_drivers,
	  .help = "how it waits for frames: poll, interrupt (default), adaptive" },
	{ .name = "handoff",
	  .kind = OPTIONS_CHOICES,
	  .offset = UDPTEST_AT(handoffs),
	  .argument = "END,...",
	  .choices = udptest_handoffs,
	  .help = "where messages leave the driver for a thread, below the test\n"
		  "protocol: none, client, server, both (default: as the graph says)" },
	{ .name = "threads",
	  .kind = OPTIONS_NUMBERS,
	  .offset = UDPTEST_AT(threads),
	  .argument = "N,...",
	  .min = 1,
	  .max = UDPTEST_THREADS_MAX,
	  .help = "input threads in regular mode, size of the pool in ipp (1)" },
	{ .name = "cores",
	  .kind = OPTIONS_NUMBERS,
	  .offset = UDPTEST_AT(cores),
	  .argument = "A,B",
	  .max = UDPTEST_CORES_MAX,
	  .help = "cores of client and server with their threads (0,1)" },
	{ .name = "size",
	  .kind = OPTIONS_NUMBERS,
	  .offset = UDPTEST_AT(sizes),
	  .argument = "N,...",
	  .min = 1,
	  .max = XK_UDPTEST_MAX,
	  .help = "bytes of a message (1)" },
	{ .name = "rounds",
	  .kind = OPTIONS_NUMBER,
	  .offset = UDPTEST_AT(rounds),
	  .argument = "N",
	  .min = 1,
	  .max = UDPTEST_ROUNDS_MAX,
	  .help = "round trips that are counted, of each size and mode (10000)" },
	{ .name = "graph",
	  .kind = OPTIONS_TEXT,
	  .offset = UDPTEST_AT(graph),
	  .argument = "FILE",
	  .help = "the protocol graph (graphs/udptest.dot)" },
	{ .name = "set",
	  .kind = OPTIONS_TEXT_ANY,
	  .offset = UDPTEST_AT(sets),
	  .argument = "NODE.ATTR=VALUE",
	  .help = "a setting, at both ends; client:NODE... or server:NODE... at one" },
	{ .name = "link",
	  .kind = OPTIONS_TEXT,
	  .offset = UDPTEST_AT(link),
	  .argument = "LINK",
	  .help = "what joins the ends: virtio (default), ring, sim" },
	{ .name = "trace",
	  .kind = OPTIONS_FLAG,
	  .offset = UDPTEST_AT(trace),
	  .help = "print each message's crossings; without warm-up" },
	{ .name = "json",
	  .kind = OPTIONS_TEXT,
	  .offset = UDPTEST_AT(json),
	  .argument = "FILE",
	  .help = "write the results as JSON, a lone server its counts at its end;\n"
		  "- is standard output" },
	{ .name = "compiled",
	  .kind = OPTIONS_FLAG,
	  .offset = UDPTEST_AT(compiled),
	  .help = "the graph compiled (not available in this build)" },
	{ .name = "pcap",
	  .kind = OPTIONS_TEXT,
	  .offset = UDPTEST_AT(pcap),
	  .argument = "FILE",
	  .help = "write what crossed the port (not available in this build)" },
	{ .name = "control", .kind = OPTIONS_NUMBER, .offset = UDPTEST_AT(control), .min = 1, .max = INT32_MAX },
	{ .name = "end", .kind = OPTIONS_TEXT, .offset = UDPTEST_AT(end) },
	{ .name = NULL },
};

static const struct options_program udptest_program = {
	.name = "udptest",
	.usage = "[OPTION]...",
	.about = "Measures round trips of UDP messages between two hosts: a request goes up the server's protocol "
		 "graph\n"
		 "and its echo up the client's. Without --server or --client both ends are started here, as two\n"
		 "processes, and the modes are compared in short alternating blocks.",
	.footer = "Exit status: 0 success, 1 failure (a refused graph, a lost peer), 2 misuse.",
	.options = udptest_table,
};

static bool
udptest_has_core(uint64_t core)
{
	if (machine_has_core((unsigned)core))
		return true;
	options_misuse(&udptest_program, "--cores: this program may not use core %" PRIu64, core);
	return false;
}

/* A machine with one core gets both ends on it, unless other cores were asked for. */
static bool
udptest_check_cores(struct udptest_options *options)
{
	struct options_numbers *cores = &options->cores;

	if (cores->count == 0) {
		unsigned first = 0, second;

		while (first < UDPTEST_CORES_MAX && !machine_has_core(first))
			first++;
		for (second = first + 1; second < UDPTEST_CORES_MAX && !machine_has_core(second);)
			second++;
		*cores = (struct options_numbers){ 2, { first, second < UDPTEST_CORES_MAX ? second : first } };
		return true;
	}
	if (cores->count > 2) {
		options_misuse(&udptest_program, "--cores takes two: the client's and the server's");
		return false;
	}
	if (cores->count == 1)
		cores->value[cores->count++] = cores->value[0];
	return udptest_has_core(cores->value[0]) && udptest_has_core(cores->value[1]);
}

static bool
udptest_check_ends(const struct udptest_options *options)
{
	uint32_t host;

	if (options->server && options->client != NULL)
		options_misuse(&udptest_program, "--server and --client exclude each other");
	else if (options->client != NULL && !xk_host_parse(options->client, &host))
		options_misuse(&udptest_program, "--client: \"%s\" is not an address like 10.77.0.2", options->client);
	else if (options->server && options->modes.count > 1)
		options_misuse(&udptest_program, "a lone --server runs in one --mode");
	else if (options->server && options->threads.count > 1)
		options_misuse(&udptest_program, "a lone --server has one number of --threads");
	else if (options->server && options->handoffs.count > 1)
		options_misuse(&udptest_program, "a lone --server has one --handoff");
	else
		return true;
	return false;
}

static void
udptest_default(struct options_numbers *list, unsigned count, uint64_t first, uint64_t second)
{
	if (list->count == 0)
		*list = (struct options_numbers){ count, { first, second } };
}

/* Fills in what was not given. 0 and the link, or OPTIONS_MISUSE. */
static int
udptest_complete(struct udptest_options *options, const struct host_link **link)
{
	static char path[HOST_PATH];
	int driver = options->driver == UDPTEST_DRIVER_ABSENT ? -1 : (int)options->driver;

	if (options->compiled)
		return options_misuse(&udptest_program, "--compiled is not available in this build");
	if (options->pcap != NULL)
		return options_misuse(&udptest_program, "--pcap is not available in this build");
	if (!udptest_check_ends(options) || !udptest_check_cores(options) ||
	    !host_sets_are_good(&udptest_program, &options->sets))
		return OPTIONS_MISUSE;
	if (host_link_find(&udptest_program, options->link, driver, link) != 0)
		return OPTIONS_MISUSE;
	if ((*link)->in_process && (options->server || options->client != NULL))
		return options_misuse(&udptest_program, "--link %s joins hosts of one process: there is no lone end",
				      options->link);
	if (options->driver == UDPTEST_DRIVER_ABSENT)
		options->driver = (*link)->can_sleep ? XK_DRIVER_INTERRUPT : XK_DRIVER_POLL;
	if (options->graph == NULL)
		options->graph = host_graph_path("udptest.dot", path, sizeof(path));
	if (options->server)
		udptest_default(&options->modes, 1, XK_IPP, 0);
	udptest_default(&options->modes, 2, XK_REGULAR, XK_IPP);
	udptest_default(&options->handoffs, 1, PAIR_HANDOFF_GRAPH, 0);
	udptest_default(&options->threads, 1, 1, 0);
	udptest_default(&options->sizes, 1, 1, 0);
	return 0;
}

/* ---- an end ------------------------------------------------------------------------------------------------ */

/* What the graph says of the edge below the test protocol, to be put back. */
struct udptest_marks {
	unsigned explicit_mark;
	bool never;
	uint64_t budget_ns;
	enum xk_resume resume;
};

struct udptest_end {
	struct host host;
	struct xk_protocol *test;
	struct udptest_marks marks;
	bool is_client, owns_process;
	/* of a run; the callbacks write and then tell `woken` */
	int woken;
	struct histogram *rtt;
	_Atomic uint64_t moves, losses, waited_ns;
	_Atomic bool done;
	struct xk_udptest_result result;
};

static void
udptest_wake(struct udptest_end *end)
{
	uint64_t one = 1;
	ssize_t written = write(end->woken, &one, sizeof(one));

	(void)written; /* it fails only where the descriptor is readable anyway */
}

static void
udptest_record(void *argument, uint64_t rtt_ns)
{
	struct udptest_end *end = argument;
	uint64_t moves = atomic_load_explicit(&end->moves, memory_order_relaxed);

	histogram_add(end->rtt, rtt_ns);
	atomic_store_explicit(&end->moves, moves + 1, memory_order_relaxed);
}

/* Printing takes more stack and time than the driver has. */
static void
udptest_lost(void *argument, uint64_t waited_ns)
{
	struct udptest_end *end = argument;

	atomic_store_explicit(&end->waited_ns, waited_ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&end->losses, 1, memory_order_release);
	udptest_wake(end);
}

static void
udptest_finished(void *argument, const struct xk_udptest_result *result)
{
	struct udptest_end *end = argument;

	end->result = *result;
	atomic_store_explicit(&end->done, true, memory_order_release);
	udptest_wake(end);
}

/* One line for each loss, until there are too many. */
static uint64_t
udptest_report_losses(struct udptest_end *end, uint64_t reported)
{
	uint64_t losses = atomic_load_explicit(&end->losses, memory_order_acquire);
	uint64_t ms = atomic_load_explicit(&end->waited_ns, memory_order_relaxed) / 1000000;

	for (; reported < losses; reported++)
		if (reported < UDPTEST_LOSSES_SHOWN)
			fprintf(stderr, "udptest: a message was lost: no echo within %" PRIu64 " ms; going on\n", ms);
		else if (reported == UDPTEST_LOSSES_SHOWN)
			fprintf(stderr, "udptest: more messages were lost; they are counted\n");
	return losses;
}

/* Waits for the run to finish. 0; -ECANCELED: stop became readable; -EDEADLK: nothing has happened for a minute. */
static int
udptest_await(struct udptest_end *end, int stop)
{
	uint64_t reported = 0, moves = 0, value;
	unsigned still_s = 0;

	while (!atomic_load_explicit(&end->done, memory_order_acquire)) {
		struct pollfd polls[] = { { .fd = end->woken, .events = POLLIN }, { .fd = stop, .events = POLLIN } };
		int ready = poll(polls, 2, 1000);
		uint64_t moved = atomic_load_explicit(&end->moves, memory_order_relaxed) + reported;

		if (ready > 0 && polls[1].revents != 0)
			return -ECANCELED;
		if (ready > 0 && read(end->woken, &value, sizeof(value)) > 0)
			reported = udptest_report_losses(end, reported);
		still_s = ready == 0 && moved == moves ? still_s + 1 : 0;
		moves = moved;
		if (still_s == UDPTEST_STILL_S)
			return -EDEADLK;
	}
	udptest_report_losses(end, reported);
	return 0;
}

static void
udptest_explain(const struct udptest_end *end, const struct pair_block *block, struct pair_result *result)
{
	char host[16];

	xk_host_print(block->host, host);
	if (result->error == -ETIMEDOUT)
		snprintf(result->why, sizeof(result->why),
			 "%s has not answered for too long (is udptest --server running there?)", host);
	else if (result->error == -EHOSTUNREACH)
		snprintf(result->why, sizeof(result->why),
			 "nobody on the link has the address %s (is udptest --server running?)", host);
	else if (result->error == -ENETUNREACH)
		snprintf(result->why, sizeof(result->why),
			 "%s is on no network of this host (see --set vnet.address=, ip.routes=)", host);
	else if (result->error == -EMSGSIZE)
		snprintf(result->why, sizeof(result->why),
			 "this graph sends at most %" PRIu32 " bytes in a message, not %" PRIu32,
			 end->result.max_packet, block->size);
	else if (result->error == -EDEADLK)
		snprintf(result->why, sizeof(result->why), "nothing has happened for %d s: the engine stands still",
			 UDPTEST_STILL_S);
	else
		snprintf(result->why, sizeof(result->why), "no session to %s: %s", host, strerror(-result->error));
}

static bool
udptest_end_run(void *argument, const struct pair_block *block, struct pair_result *result, int stop)
{
	struct udptest_end *end = argument;
	struct xk_udptest_run run = {
		.host = block->host,
		.size = block->size,
		.rounds = block->rounds,
		.record = udptest_record,
		.lost = udptest_lost,
		.finished = udptest_finished,
		.argument = end,
	};
	int error;

	end->rtt = &result->rtt;
	atomic_store_explicit(&end->losses, 0, memory_order_relaxed);
	atomic_store_explicit(&end->done, false, memory_order_relaxed);
	end->result = (struct xk_udptest_result){ .error = 0 };
	error = xk_udptest_start(end->test, &run);
	if (error == 0)
		error = udptest_await(end, stop);
	if (error == -ECANCELED)
		return false;
	result->error = error != 0 ? error : end->result.error;
	result->rounds = end->result.rounds;
	result->lost = end->result.lost;
	result->late = end->result.late;
	result->bad = end->result.bad;
	if (result->error != 0)
		udptest_explain(end, block, result);
	return true;
}

static void
udptest_remember_marks(struct udptest_end *end)
{
	const struct xk_edge *edge = end->test->lowers[0];

	end->marks.explicit_mark = atomic_load_explicit(&edge->watch, memory_order_relaxed) & XK_WATCH_EXPLICIT;
	end->marks.never = edge->never;
	end->marks.budget_ns = edge->budget_ns;
	end->marks.resume = end->test->resume;
}

/* Where messages leave the driver is decided here alone, or by the graph. */
static void
udptest_set_handoff(struct udptest_end *end, enum pair_handoff handoff)
{
	enum pair_handoff mine = end->is_client ? PAIR_HANDOFF_CLIENT : PAIR_HANDOFF_SERVER;
	bool leaves = handoff == mine || handoff == PAIR_HANDOFF_BOTH;
	struct xk_edge *edge = end->test->lowers[0];

	atomic_store_explicit(&edge->watch, leaves ? XK_WATCH_EXPLICIT : 0, memory_order_relaxed);
	edge->never = !leaves;
	edge->budget_ns = 0;
	end->test->resume = leaves ? XK_RESUME_THREAD : XK_RESUME_DRIVER;
	if (handoff == PAIR_HANDOFF_GRAPH) {
		atomic_store_explicit(&edge->watch, end->marks.explicit_mark, memory_order_relaxed);
		edge->never = end->marks.never;
		edge->budget_ns = end->marks.budget_ns;
		end->test->resume = end->marks.resume;
	}
	xk_kernel_rewatch(end->host.kernel);
}

static int
udptest_end_setup(void *argument, const struct pair_setup *setup, char *why, size_t why_len)
{
	struct udptest_end *end = argument;
	int error = xk_kernel_reconfigure(end->host.kernel, (enum xk_mode)setup->mode, setup->threads);

	if (error != 0)
		snprintf(why, why_len, "the mode cannot be changed to %s with %" PRIu32 " threads: %s",
			 udptest_modes[setup->mode], setup->threads, strerror(-error));
	else
		udptest_set_handoff(end, (enum pair_handoff)setup->handoff);
	return error;
}

static void
udptest_end_counts(void *argument, struct pair_counts *counts)
{
	struct udptest_end *end = argument;
	struct rusage usage;

	host_counts(&end->host, counts);
	counts->messages = host_counter(end->test, "messages");
	if (end->owns_process && getrusage(RUSAGE_SELF, &usage) == 0)
		counts->process_switches = (uint64_t)usage.ru_nvcsw;
}

static const struct pair_end_ops udptest_end_ops = {
	.setup = udptest_end_setup,
	.counts = udptest_end_counts,
	.run = udptest_end_run,
};

/* What an end needs besides its host, which is open. */
static int
udptest_end_begin(struct udptest_end *end, unsigned which)
{
	end->is_client = which == PAIR_CLIENT;
	end->woken = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	end->test = host_find_type(&end->host, "udptest");
	if (end->woken < 0 || end->test == NULL)
		return OPTIONS_FAILURE;
	udptest_remember_marks(end);
	return host_start(&end->host);
}

static int
udptest_end_close(struct udptest_end *end)
{
	int status = host_close(&end->host);

	if (end->woken >= 0)
		close(end->woken);
	return status;
}

static struct host_options
udptest_host_options(const struct udptest_options *options, const struct host_link *link, unsigned which)
{
	return (struct host_options){
		.program = udptest_program.name,
		.name = pair_end_names[which],
		.end = which,
		.paired = !options->server && options->client == NULL,
		.graph = options->graph,
		.sets = &options->sets,
		.link = link,
		.meeting = "",
		.mode = (enum xk_mode)options->modes.value[0],
		.driver = (enum xk_driver_policy)options->driver,
		.threads = (unsigned)options->threads.value[0],
		.core = (int)options->cores.value[which],
		.yields = options->cores.value[0] == options->cores.value[1],
		.trace = options->trace,
	};
}

/* ---- what is compared -------------------------------------------------------------------------------------- */

struct udptest_run {
	struct pair_setup setup;
	uint32_t size;
	uint64_t rounds; /* done so far */
	struct histogram rtt;
	struct pair_counts sum[PAIR_ENDS];
	uint64_t lost, late, bad;
};

struct udptest_job {
	const struct udptest_options *options;
	struct pair pair;
	uint32_t server;
	struct machine machine;
	struct udptest_run *runs;
	unsigned run_count, per_size;
	FILE *json;
	bool shows_progress;
};

static struct udptest_run *
udptest_add_run(struct udptest_job *job, uint64_t size, uint64_t mode, uint64_t threads, uint64_t handoff)
{
	struct udptest_run *run = &job->runs[job->run_count++];

	run->setup = (struct pair_setup){ (uint32_t)mode, (uint32_t)threads, (uint32_t)handoff };
	run->size = (uint32_t)size;
	histogram_init(&run->rtt);
	return run;
}

/* Each size with each mode, number of threads and handoff; in regular mode there is nothing to hand off. */
static bool
udptest_plan(struct udptest_job *job)
{
	const struct udptest_options *o = job->options;
	size_t most = (size_t)o->sizes.count * o->modes.count * o->threads.count * o->handoffs.count;

	job->runs = calloc(most, sizeof(*job->runs));
	if (job->runs == NULL)
		return false;
	for (unsigned s = 0; s < o->sizes.count; s++)
		for (unsigned m = 0; m < o->modes.count; m++)
			for (unsigned t = 0; t < o->threads.count; t++)
				for (unsigned h = 0; h < o->handoffs.count; h++)
					if (h == 0 || o->modes.value[m] == XK_IPP)
						udptest_add_run(job, o->sizes.value[s], o->modes.value[m],
								o->threads.value[t], o->handoffs.value[h]);
	job->per_size = job->run_count / o->sizes.count;
	return true;
}

static int
udptest_counts(struct udptest_job *job, struct pair_counts counts[PAIR_ENDS])
{
	int status = 0;

	for (unsigned i = 0; i < PAIR_ENDS && status == 0; i++)
		status = pair_counts(&job->pair, i, &counts[i]);
	return status;
}

static int
udptest_warm_up(struct udptest_job *job, struct udptest_run *run, struct pair_result *result)
{
	struct pair_block block = { .host = job->server, .size = run->size, .rounds = UDPTEST_WARM_UP };
	int status;

	if (job->options->trace)
		return 0;
	status = pair_run(&job->pair, &block, result);
	return status;
}

static void
udptest_merge(struct udptest_run *run, const struct pair_result *result)
{
	histogram_merge(&run->rtt, &result->rtt);
	run->rounds += result->rounds;
	run->lost += result->lost;
	run->late += result->late;
	run->bad += result->bad;
}

static int
udptest_block(struct udptest_job *job, struct udptest_run *run, uint64_t rounds)
{
	static struct pair_counts before[PAIR_ENDS], after[PAIR_ENDS];
	static struct pair_result result;
	struct pair_block block = { .host = job->server, .size = run->size, .rounds = rounds };
	int status = pair_setup(&job->pair, &run->setup);

	if (status == 0)
		status = udptest_warm_up(job, run, &result);
	if (status == 0)
		status = udptest_counts(job, before);
	if (status == 0)
		status = pair_run(&job->pair, &block, &result);
	if (status == 0)
		status = udptest_counts(job, after);
	if (status != 0)
		return status;
	udptest_merge(run, &result);
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		pair_counts_add(&run->sum[i], &before[i], &after[i]);
	return 0;
}

static void
udptest_progress(const struct udptest_job *job, const struct udptest_run *run)
{
	uint64_t done = 0, all = job->run_count * job->options->rounds;

	if (!job->shows_progress)
		return;
	for (unsigned i = 0; i < job->run_count; i++)
		done += job->runs[i].rounds;
	fprintf(stderr, "\r\033[Kudptest: %3.0f %%  %" PRIu32 " bytes, %s", 100.0 * (double)done / (double)all,
		run->size, udptest_modes[run->setup.mode]);
	if (done == all)
		fprintf(stderr, "\r\033[K");
}

/* All configurations of one size: a block of each, over and over. */
static int
udptest_compare(struct udptest_job *job, struct udptest_run *runs)
{
	uint64_t rounds = job->options->rounds, blocks = rounds / UDPTEST_BLOCK_MIN;
	int status = 0;

	blocks = blocks < 1 ? 1 : blocks > UDPTEST_BLOCKS ? UDPTEST_BLOCKS : blocks;
	for (uint64_t block = 0; block < blocks; block++)
		for (unsigned i = 0; i < job->per_size && status == 0; i++) {
			uint64_t until = rounds * (block + 1) / blocks;

			status = udptest_block(job, &runs[i], until - runs[i].rounds);
			udptest_progress(job, &runs[i]);
		}
	return status;
}

static int
udptest_compare_all(struct udptest_job *job)
{
	int status = 0;

	for (unsigned i = 0; i < job->run_count && status == 0; i += job->per_size)
		status = udptest_compare(job, &job->runs[i]);
	if (status != 0 && job->shows_progress)
		fputc('\n', stderr);
	return status;
}

/* ---- results: JSON ----------------------------------------------------------------------------------------- */

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
	json_object(json, "rtt_ns");
	json_uint(json, "min", rtt->min);
	json_uint(json, "p50", histogram_percentile(rtt, 50));
	json_uint(json, "p90", histogram_percentile(rtt, 90));
	json_uint(json, "p99", histogram_percentile(rtt, 99));
	json_uint(json, "max", rtt->max);
	json_uint(json, "mean", histogram_mean(rtt));
	json_string(json, "of", "full round trips");
	json_close(json);
}

static void
udptest_json_drops(struct json *json, const struct udptest_run *run)
{
	static struct pair_counts both;

	memset(&both, 0, sizeof(both));
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		for (unsigned d = 0; d < run->sum[i].drop_count; d++)
			pair_counts_drop(&both, run->sum[i].drops[d].name, run->sum[i].drops[d].count);
	json_object(json, "drops");
	for (unsigned d = 0; d < both.drop_count; d++)
		json_uint(json, both.drops[d].name, both.drops[d].count);
	json_close(json);
}

/* What both ends have counted together. */
static void
udptest_json_counts(struct json *json, const struct udptest_run *run)
{
	static const char *const reasons[PAIR_HANDOFFS] = { "explicit", "implicit", "time" };
	const struct pair_counts *client = &run->sum[PAIR_CLIENT], *server = &run->sum[PAIR_SERVER];

	json_object(json, "handoffs");
	for (unsigned i = 0; i < PAIR_HANDOFFS; i++)
		json_uint(json, reasons[i], client->handoffs[i] + server->handoffs[i]);
	json_close(json);
	json_uint(json, "fallbacks", client->fallbacks + server->fallbacks);
	json_uint(json, "overruns", client->overruns + server->overruns);
	json_uint(json, "overtaken", client->overtaken + server->overtaken);
	json_uint(json, "stalled", client->stalled + server->stalled);
	udptest_json_drops(json, run);
}

static void
udptest_json_run(const struct udptest_job *job, struct json *json, const struct udptest_run *run)
{
	const struct pair_counts *client = &run->sum[PAIR_CLIENT], *server = &run->sum[PAIR_SERVER];
	bool has_server = job->options->client == NULL;

	json_object(json, NULL);
	json_string(json, "mode", udptest_modes[run->setup.mode]);
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
	json_string(json, "link", o->link);
	json_string(json, "driver", udptest_drivers[o->driver]);
	json_array(json, "cores");
	json_uint(json, NULL, o->cores.value[PAIR_CLIENT]);
	json_uint(json, NULL, o->cores.value[PAIR_SERVER]);
	json_close(json);
	machine_json(&job->machine, json, "machine");
}

static int
udptest_json_end(const struct udptest_job *job, struct json *json)
{
	json_close(json);
	if (json_end(json))
		return 0;
	fprintf(stderr, "udptest: --json %s cannot be written: %s\n", job->options->json, strerror(errno));
	return OPTIONS_FAILURE;
}

static int
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

/* A lone server tells at its end what it has done since it was started: a run's keys, with one end's counts. */
static int
udptest_json_server(const struct udptest_job *job, struct udptest_end *end)
{
	static struct pair_counts counts;
	static struct udptest_run run;
	struct json json;

	if (job->json == NULL)
		return 0;
	udptest_end_counts(end, &counts);
	pair_counts_add(&run.sum[PAIR_SERVER], &(struct pair_counts){ .frames = 0 }, &counts);
	udptest_json_begin(job, &json);
	json_object(&json, "server");
	json_string(&json, "mode", udptest_modes[job->options->modes.value[0]]);
	json_string(&json, "handoff", udptest_handoff_names[job->options->handoffs.value[0]]);
	json_uint(&json, "threads", job->options->threads.value[0]);
	json_uint(&json, "messages", counts.messages);
	json_uint(&json, "fragments", counts.frames);
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

/* ---- results: the table ------------------------------------------------------------------------------------ */

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

static void
udptest_print_runs(const struct udptest_job *job, FILE *out)
{
	const struct udptest_options *o = job->options;

	fprintf(out, "Round trips over %s, driver %s, client on core %" PRIu64 ", server on core %" PRIu64 "%s\n\n",
		o->link, udptest_drivers[o->driver], o->cores.value[PAIR_CLIENT], o->cores.value[PAIR_SERVER],
		job->machine.sanitized ? " (sanitizers: times mean nothing)" : "");
	fprintf(out, "                                  round trip, us               context switches\n");
	fprintf(out, "   bytes  mode     threads handoff      median       90 %%       99 %%   per datagram   lost\n");
	for (unsigned i = 0; i < job->run_count; i++) {
		const struct udptest_run *run = &job->runs[i];

		fprintf(out, "%8" PRIu32 "  %-8s %7" PRIu32 " %-8s %10.2f %10.2f %10.2f %14.2f %6" PRIu64 "\n",
			run->size, udptest_modes[run->setup.mode], run->setup.threads, udptest_handoff_text(run),
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

	if (machine->line_ns[0] != 0 && machine->line_ns[1] != 0)
		fprintf(out,
			"A cache line takes %" PRIu64 " ns between the two cores and back before, %" PRIu64
			" ns after; figures across\ncores move with it.\n",
			machine->line_ns[0], machine->line_ns[1]);
}

static void
udptest_print(const struct udptest_job *job)
{
	FILE *out = job->json == stdout ? stderr : stdout;

	udptest_print_runs(job, out);
	udptest_print_savings(job, out);
	udptest_print_machine(job, out);
}

/* ---- a measurement ----------------------------------------------------------------------------------------- */

static int
udptest_open_json(struct udptest_job *job)
{
	const char *file = job->options->json;

	if (file == NULL)
		return 0;
	job->json = strcmp(file, "-") == 0 ? stdout : fopen(file, "we");
	if (job->json != NULL)
		return 0;
	fprintf(stderr, "udptest: --json %s cannot be written: %s\n", file, strerror(errno));
	return OPTIONS_FAILURE;
}

static uint64_t
udptest_line_ns(const struct udptest_job *job)
{
	const struct options_numbers *cores = &job->options->cores;

	return machine_cache_line_ns((unsigned)cores->value[0], (unsigned)cores->value[1]);
}

/* The ends are ready: measures, ends them, tells. */
static int
udptest_measure(struct udptest_job *job)
{
	int status = udptest_compare_all(job), ended, written;

	if (status != 0)
		return status;
	ended = pair_stop(&job->pair, true);
	job->machine.line_ns[1] = udptest_line_ns(job);
	udptest_print(job);
	written = udptest_json(job);
	return ended != 0 ? ended : written;
}

static int
udptest_begin(struct udptest_job *job, const struct udptest_options *options, int signals)
{
	int status;

	*job = (struct udptest_job){ .options = options, .shows_progress = isatty(STDERR_FILENO) && !options->trace };
	pair_init(&job->pair, udptest_program.name, signals);
	status = udptest_open_json(job);
	if (status == 0 && !udptest_plan(job))
		status = OPTIONS_FAILURE;
	machine_describe(&job->machine);
	job->machine.line_ns[0] = udptest_line_ns(job);
	return status;
}

static void
udptest_end_job(struct udptest_job *job)
{
	pair_stop(&job->pair, false);
	free(job->runs);
	if (job->json != NULL && job->json != stdout)
		fclose(job->json);
}

/* Two processes. The graph is looked at here first, so that what is wrong with it is told once. */
static int
udptest_run_pair(const struct udptest_options *options, const struct host_link *link, int argc, char **argv,
		 int signals)
{
	struct host_options server = udptest_host_options(options, link, PAIR_SERVER);
	struct udptest_job job;
	struct host host;
	int status = host_load(&host, &server);
	uint32_t address = host.address;

	host_close(&host);
	if (status != 0)
		return status;
	status = udptest_begin(&job, options, signals);
	job.server = address;
	if (status == 0) {
		host_sweep("pair");
		status = pair_start(&job.pair, argc, argv);
	}
	if (status == 0)
		status = udptest_measure(&job);
	udptest_end_job(&job);
	host_sweep("pair");
	return status;
}

/* Both hosts in this process. */
static int
udptest_run_here(const struct udptest_options *options, const struct host_link *link, int signals)
{
	struct host_options both[PAIR_ENDS] = { udptest_host_options(options, link, PAIR_CLIENT),
						udptest_host_options(options, link, PAIR_SERVER) };
	struct udptest_end ends[PAIR_ENDS] = { { .woken = -1 }, { .woken = -1 } };
	struct host hosts[PAIR_ENDS];
	struct udptest_job job;
	int status = host_open_both(hosts, both), closed = 0;

	for (unsigned i = 0; i < PAIR_ENDS; i++) {
		ends[i].host = hosts[i];
		if (status == 0)
			status = udptest_end_begin(&ends[i], i);
	}
	if (status == 0) {
		ends[PAIR_CLIENT].owns_process = true;
		status = udptest_begin(&job, options, signals);
		job.server = ends[PAIR_SERVER].host.address;
		job.pair.in_one_process = true;
		for (unsigned i = 0; i < PAIR_ENDS; i++)
			pair_add_local(&job.pair, i, &udptest_end_ops, &ends[i]);
		if (status == 0)
			status = udptest_measure(&job);
		udptest_end_job(&job);
	}
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		closed |= udptest_end_close(&ends[i]);
	return status != 0 ? status : closed;
}

/* ---- lone ends and ends of a pair -------------------------------------------------------------------------- */

/*
 * While a lone end is opened, which may take long (a client waits for its server), a thread of its own sees to it that
 * a signal ends the program: the main thread does not listen yet.
 */
struct udptest_opening {
	pthread_t thread;
	int signals, opened;
};

static void *
udptest_listen(void *argument)
{
	struct udptest_opening *opening = argument;
	struct pollfd polls[] = { { .fd = opening->signals, .events = POLLIN },
				  { .fd = opening->opened, .events = POLLIN } };

	while (poll(polls, 2, -1) < 0 && errno == EINTR)
		;
	if (polls[1].revents == 0)
		_exit(OPTIONS_FAILURE);
	return NULL;
}

static int
udptest_open_lone(struct udptest_end *end, const struct host_options *options, int signals)
{
	struct udptest_opening opening = { .signals = signals, .opened = eventfd(0, EFD_CLOEXEC) };
	uint64_t one = 1;
	int status;

	if (opening.opened < 0 || pthread_create(&opening.thread, NULL, udptest_listen, &opening) != 0)
		return OPTIONS_FAILURE;
	status = host_open(&end->host, options);
	if (write(opening.opened, &one, sizeof(one)) != sizeof(one))
		status = OPTIONS_FAILURE;
	pthread_join(opening.thread, NULL);
	close(opening.opened);
	return status;
}

static void
udptest_await_signal(int signals)
{
	struct pollfd polls = { .fd = signals, .events = POLLIN };

	while (poll(&polls, 1, -1) < 0 && errno == EINTR)
		;
}

static int
udptest_run_server(const struct udptest_options *options, const struct host_link *link, int signals)
{
	struct host_options server = udptest_host_options(options, link, PAIR_SERVER);
	struct udptest_end end = { .woken = -1, .owns_process = true };
	struct udptest_job job = { .options = options };
	int status = udptest_open_json(&job), closed;
	char host[16];

	machine_describe(&job.machine);
	if (status == 0)
		status = udptest_open_lone(&end, &server, signals);
	if (status == 0)
		status = udptest_end_begin(&end, PAIR_SERVER);
	if (status == 0) {
		udptest_set_handoff(&end, (enum pair_handoff)options->handoffs.value[0]);
		fprintf(stderr, "udptest: serving at %s over %s \"%s\", mode %s; ctrl-C ends it\n",
			xk_host_print(end.host.address, host), options->link, end.host.port_names[0],
			udptest_modes[options->modes.value[0]]);
		udptest_await_signal(signals);
		status = udptest_json_server(&job, &end);
	}
	if (job.json != NULL && job.json != stdout)
		fclose(job.json);
	closed = udptest_end_close(&end);
	return status != 0 ? status : closed;
}

static int
udptest_run_client(const struct udptest_options *options, const struct host_link *link, int signals)
{
	struct host_options client = udptest_host_options(options, link, PAIR_CLIENT);
	struct udptest_end end = { .woken = -1, .owns_process = true };
	struct udptest_job job;
	int status = udptest_begin(&job, options, signals), closed;

	if (status == 0)
		status = udptest_open_lone(&end, &client, signals);
	if (status == 0)
		status = udptest_end_begin(&end, PAIR_CLIENT);
	if (status == 0) {
		xk_host_parse(options->client, &job.server);
		pair_add_local(&job.pair, PAIR_CLIENT, &udptest_end_ops, &end);
		status = udptest_measure(&job);
	}
	udptest_end_job(&job);
	closed = udptest_end_close(&end);
	return status != 0 ? status : closed;
}

/* This process is an end of a pair; its parent's process id makes the name of their private link. */
static int
udptest_serve_pair(const struct udptest_options *options, const struct host_link *link)
{
	unsigned which = strcmp(options->end, pair_end_names[PAIR_CLIENT]) == 0 ? PAIR_CLIENT : PAIR_SERVER;
	struct host_options host = udptest_host_options(options, link, which);
	struct udptest_end end = { .woken = -1, .owns_process = true };
	char meeting[32];
	int status, closed;

	snprintf(meeting, sizeof(meeting), "pair-%ld-", (long)getppid());
	host.meeting = meeting;
	status = host_open(&end.host, &host);
	if (status == 0)
		status = udptest_end_begin(&end, which);
	if (status == 0)
		status = pair_serve((int)options->control, &udptest_end_ops, &end);
	closed = udptest_end_close(&end);
	return status != 0 ? status : closed;
}

int
main(int argc, char **argv)
{
	struct udptest_options options = { .link = "virtio", .driver = UDPTEST_DRIVER_ABSENT, .rounds = 10000 };
	struct options_texts operands;
	const struct host_link *link;
	int signals, status;

	switch (options_parse(&udptest_program, argc, argv, &options, &operands)) {
	case OPTIONS_HELPED:
		return OPTIONS_SUCCESS;
	case OPTIONS_WRONG:
		return OPTIONS_MISUSE;
	case OPTIONS_GO:
		break;
	}
	status = udptest_complete(&options, &link);
	if (status != 0)
		return status;
	if (options.control != UDPTEST_NO_CONTROL && options.end != NULL)
		return udptest_serve_pair(&options, link);
	signals = pair_signals();
	if (options.server)
		return udptest_run_server(&options, link, signals);
	if (options.client != NULL)
		return udptest_run_client(&options, link, signals);
	if (link->in_process)
		return udptest_run_here(&options, link, signals);
	return udptest_run_pair(&options, link, argc, argv, signals);
}
