/* roundtrip_end.c - one end of a measurement: a host with the test protocol, and the operations of a pair's end. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "tools/roundtrip/roundtrip.h"

enum {
	ROUNDTRIP_STACKS = 64, /* a kernel's default */
	ROUNDTRIP_CHECK_NS = 1000000000,
	ROUNDTRIP_STUCK_S = 60, /* time without a round trip or a loss until the engine counts as stuck */
};

void
roundtrip_record(void *argument, uint64_t rtt_ns)
{
	struct roundtrip_end *end = argument;
	uint64_t moves = atomic_load_explicit(&end->moves, memory_order_relaxed);

	histogram_add(&end->result->rtt, rtt_ns);
	atomic_store_explicit(&end->moves, moves + 1, memory_order_relaxed);
}

/* Leaves printing to the main thread, because it takes more stack and time than the driver has. */
void
roundtrip_lost(void *argument, uint64_t waited_ns)
{
	struct roundtrip_end *end = argument;

	atomic_store_explicit(&end->waited_ns, waited_ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&end->losses, 1, memory_order_release);
	eventfd_write(end->woken, 1);
}

void
roundtrip_finished(struct roundtrip_end *end, uint32_t max_packet)
{
	end->max_packet = max_packet;
	atomic_store_explicit(&end->done, true, memory_order_release);
	eventfd_write(end->woken, 1);
}

/* Reports the first loss at once; roundtrip_end_close reports the total. Returns the losses of this run. */
static uint64_t
roundtrip_report_losses(struct roundtrip_end *end, uint64_t reported)
{
	uint64_t losses = atomic_load_explicit(&end->losses, memory_order_acquire);
	uint64_t ms = atomic_load_explicit(&end->waited_ns, memory_order_relaxed) / 1000000;

	if (losses > reported && end->all_losses == 0)
		fprintf(stderr, "%s: a message was lost: no %s within %" PRIu64 " ms; continuing\n",
			end->kind->program->name, end->kind->answer, ms);
	end->all_losses += losses - reported;
	return losses;
}

/* Returns the maximum silence of the server: the test protocol's setting plus the second between two checks of it. */
static uint64_t
roundtrip_silence_ns(const struct roundtrip_end *end)
{
	const struct xk_graph *graph = end->host.graph;
	const struct xk_graph_attribute *given = NULL;
	int node = xk_graph_node_find(graph, end->test->name);
	const struct xk_setting *setting = end->test->type->settings;
	uint64_t ns = 0;

	while (strcmp(setting->name, "silence") != 0)
		setting++;
	if (node >= 0)
		given = xk_graph_attribute_find(&graph->nodes[node].attributes, setting->name);
	xk_time_parse(given != NULL ? given->value : setting->initial, &ns);
	return ns + ROUNDTRIP_CHECK_NS;
}

/*
 * Waits for the run to finish. Returns 0, -ECANCELED if stop became readable, -ETIMEDOUT if the server was silent for
 * too long (no loss and no answer, as for a waiting call), -EDEADLK if a minute passed without progress.
 */
static int
roundtrip_await(struct roundtrip_end *end, int stop)
{
	uint64_t reported = 0, moves = 0, value, moved_ns = xk_now_ns(end->test);
	uint64_t silence_ns = roundtrip_silence_ns(end);
	unsigned still_s = 0;

	while (!atomic_load_explicit(&end->done, memory_order_acquire)) {
		struct pollfd polls[] = { { .fd = end->woken, .events = POLLIN }, { .fd = stop, .events = POLLIN } };
		int ready = poll(polls, 2, 1000);
		uint64_t moved = atomic_load_explicit(&end->moves, memory_order_relaxed) + reported;

		if (ready > 0 && polls[1].revents != 0)
			return -ECANCELED;
		if (ready > 0 && read(end->woken, &value, sizeof(value)) > 0)
			reported = roundtrip_report_losses(end, reported);
		if (moved != moves)
			moved_ns = xk_now_ns(end->test);
		else if (xk_now_ns(end->test) >= moved_ns + silence_ns)
			return -ETIMEDOUT;
		still_s = ready == 0 && moved == moves ? still_s + 1 : 0;
		moves = moved;
		if (still_s == ROUNDTRIP_STUCK_S)
			return -EDEADLK;
	}
	roundtrip_report_losses(end, reported);
	return 0;
}

/* A run of a simulated end. */
struct roundtrip_watch {
	struct roundtrip_end *end;
	int stop;
	unsigned steps;
	bool stopped;
};

enum { ROUNDTRIP_POLL_STEPS = 1 << 10 /* number of the world's steps between two polls of `stop` */ };

static bool
roundtrip_continues(void *context)
{
	struct roundtrip_watch *watch = context;
	struct pollfd stop = { .fd = watch->stop, .events = POLLIN };

	if (++watch->steps % ROUNDTRIP_POLL_STEPS == 0)
		watch->stopped = poll(&stop, 1, 0) > 0;
	return !watch->stopped && !atomic_load_explicit(&watch->end->done, memory_order_acquire);
}

static int
roundtrip_simulate(struct roundtrip_end *end, int stop)
{
	struct roundtrip_watch watch = { .end = end, .stop = stop };
	bool ended = host_world_run(&end->host, roundtrip_continues, &watch);

	roundtrip_report_losses(end, 0);
	if (watch.stopped)
		return -ECANCELED;
	return ended ? 0 : -EDEADLK;
}

/*
 * Appends a limit under which a link may carry nothing: DPDK's vhost does not report that it cannot map the client's
 * memory.
 */
static void
roundtrip_add_limit(char *why)
{
	size_t len = strlen(why);
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur >> 30 == 0)
		snprintf(why + len, PAIR_WHY - len,
			 "; or the link's memory does not fit into the %lu MiB of `ulimit -v`",
			 (unsigned long)(limit.rlim_cur >> 20));
}

/* Writes the meaning of result->error into result->why. */
static void
roundtrip_explain(const struct roundtrip_end *end, const struct pair_block *block, struct pair_result *result)
{
	const char *program = end->kind->program->name;
	char host[16], *why = result->why;

	xk_host_print(block->host, host);
	if (result->error == -ETIMEDOUT)
		snprintf(why, PAIR_WHY, "%s has not answered for too long (is %s --server running there?)%s", host,
			 program,
			 host_peer_is_gone(&end->host) ? ": its end of the link is gone, so it has ended or was killed"
						       : "");
	else if (result->error == -EHOSTUNREACH)
		snprintf(why, PAIR_WHY,
			 "no host on the link has the address %s and runs this graph (is %s --server running?)", host,
			 program);
	else if (result->error == -ENETUNREACH)
		snprintf(why, PAIR_WHY, "%s is on no network of this host (see --set vnet.address=, ip.routes=)", host);
	else if (result->error == -EMSGSIZE)
		snprintf(why, PAIR_WHY, "this graph sends at most %" PRIu32 " bytes in a message, not %" PRIu32,
			 end->max_packet, block->size);
	else if (result->error == -EDEADLK)
		snprintf(why, PAIR_WHY, "no more events: the engine is stuck");
	else if (end->max_packet == 0)
		snprintf(why, PAIR_WHY, "no session to %s: %s", host, xk_error(result->error));
	else
		snprintf(why, PAIR_WHY, "the session to %s has failed: %s", host, xk_error(result->error));
	if (result->error == -ETIMEDOUT || result->error == -EHOSTUNREACH)
		roundtrip_add_limit(why);
}

static bool
roundtrip_end_run(void *argument, const struct pair_block *block, struct pair_result *result, int stop)
{
	struct roundtrip_end *end = argument;
	uint64_t begun_ns = xk_now_ns(end->test);
	int err;

	end->result = result;
	end->max_packet = 0;
	atomic_store_explicit(&end->losses, 0, memory_order_relaxed);
	atomic_store_explicit(&end->done, false, memory_order_relaxed);
	err = end->kind->start(end->test, block, end);
	if (err == 0)
		err = end->host.world != NULL ? roundtrip_simulate(end, stop) : roundtrip_await(end, stop);
	if (err == -ECANCELED)
		return false;
	result->elapsed_ns = xk_now_ns(end->test) - begun_ns;
	if (err != 0)
		result->error = err;
	if (result->error != 0)
		roundtrip_explain(end, block, result);
	return true;
}

void
roundtrip_set_handoff(struct roundtrip_end *end, enum pair_handoff handoff)
{
	bool leaves =
		handoff == PAIR_HANDOFF_BOTH || handoff == (end->is_client ? PAIR_HANDOFF_CLIENT : PAIR_HANDOFF_SERVER);
	struct xk_edge *edge = end->test->lowers[0];

	/* Without --handoff, no block changes the marks of the graph. */
	if (handoff != PAIR_HANDOFF_GRAPH) {
		xk_edge_watch(edge, XK_WATCH_EXPLICIT, leaves ? XK_WATCH_EXPLICIT : 0);
		edge->never = !leaves;
		edge->budget_ns = 0;
		/* The test protocol, and protocols that its calls go through, may park their caller. */
		for (struct xk_protocol *p = end->test; p != NULL;) {
			p->resume = leaves ? XK_RESUME_THREAD : XK_RESUME_DRIVER;
			p = p->lower_count > 0 && (xk_lower(p, 0)->type->offers & XK_RPC) ? xk_lower(p, 0) : NULL;
		}
	}
	xk_kernel_rewatch(end->host.kernel);
}

static int
roundtrip_end_setup(void *argument, const struct pair_setup *setup, char *why, size_t why_len)
{
	struct roundtrip_end *end = argument;
	int err = xk_kernel_reconfigure(end->host.kernel, (enum xk_mode)setup->mode, setup->threads);

	if (err != 0)
		snprintf(why, why_len, "the mode cannot be changed to %s with %" PRIu32 " threads: %s",
			 host_modes[setup->mode], setup->threads, xk_error(err));
	else
		roundtrip_set_handoff(end, (enum pair_handoff)setup->handoff);
	return err;
}

void
roundtrip_end_counts(void *argument, struct pair_counts *counts)
{
	struct roundtrip_end *end = argument;
	struct rusage usage;

	host_counts(&end->host, counts);
	counts->messages = host_counter(end->test, "messages");
	if (end->host.world != NULL)
		counts->process_switches = counts->driver_switches + counts->thread_switches;
	else if (end->owns_process && getrusage(RUSAGE_SELF, &usage) == 0)
		counts->process_switches = (uint64_t)usage.ru_nvcsw;
}

const struct pair_end_ops roundtrip_end_ops = {
	.setup = roundtrip_end_setup,
	.counts = roundtrip_end_counts,
	.run = roundtrip_end_run,
};

int
roundtrip_end_begin(struct roundtrip_end *end, unsigned which)
{
	end->is_client = which == PAIR_CLIENT;
	end->woken = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	end->test = host_find_type(&end->host, end->kind->protocol);
	if (end->woken < 0) {
		fprintf(stderr, "%s: no descriptor to wait on: %s\n", end->kind->program->name, xk_error(errno));
		return OPTIONS_FAILURE;
	}
	if (end->test == NULL)
		return OPTIONS_FAILURE;
	return host_start(&end->host);
}

int
roundtrip_end_close(struct roundtrip_end *end)
{
	int status = host_close(&end->host);

	if (end->all_losses > 1)
		fprintf(stderr, "%s: %" PRIu64 " messages were lost in all, including the warm-up\n",
			end->kind->program->name, end->all_losses);
	if (end->woken >= 0)
		close(end->woken);
	return status;
}

struct host_options
roundtrip_host_options(const struct roundtrip_options *options, const struct host_link *link, unsigned which)
{
	const struct options_numbers *cores = &options->cores;
	uint64_t channels = 0;
	struct host_options host = {
		.program = options->test->program->name,
		.name = pair_end_names[which],
		.end = which,
		.paired = !options->server && options->client == 0,
		.watch = options->watch,
		.graph = options->graph,
		.top = options->test->takes_top ? options->test->protocol : NULL,
		.sets = &options->common.sets,
		.link = link,
		.link_name = options->common.link,
		.meeting = "",
		.mode = (enum xk_mode)options->modes.value[0],
		.driver = (enum xk_driver_policy)options->common.driver,
		.spin_ns = options->common.spin_ns,
		.threads = (unsigned)options->threads.value[0],
		.drivers = (unsigned)options->common.drivers,
		.cores = &cores->value[which * options->common.drivers],
		.trace = options->common.trace,
		.no_paths = options->common.no_paths != 0,
		.pcap = options->common.pcap,
		.journey = options->common.journey,
		.seed = options->seed,
		.preset = options->preset,
		.costs = options->costs,
	};

	/* Drivers that share a core, of either end, yield. */
	for (unsigned i = 0; i < cores->count; i++)
		for (unsigned j = 0; j < i; j++)
			host.yields |= cores->value[i] == cores->value[j] && roundtrip_is_here(options, i) &&
				       roundtrip_is_here(options, j);
	/*
	 * Each channel's caller holds a stack while it waits, callers of the previous block may not have returned
	 * theirs, and other work takes some.
	 */
	for (unsigned i = 0; i < options->channels.count; i++)
		if (options->channels.value[i] > channels)
			channels = options->channels.value[i];
	if (channels > ROUNDTRIP_STACKS / 4)
		host.stacks = 2 * (unsigned)channels + ROUNDTRIP_STACKS;
	return host;
}
