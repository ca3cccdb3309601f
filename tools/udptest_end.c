/*
 * udptest_end.c - one end of a measurement: a host, its test protocol, and what the pair asks of it (pair.h).
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/udptest.h"

enum {
	UDPTEST_STILL_S = 60, /* without a round trip or a loss: the engine stands still */
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

/* The first loss is told at once; how many there were, at the end. */
static uint64_t
udptest_report_losses(struct udptest_end *end, uint64_t reported)
{
	uint64_t losses = atomic_load_explicit(&end->losses, memory_order_acquire);
	uint64_t ms = atomic_load_explicit(&end->waited_ns, memory_order_relaxed) / 1000000;

	if (losses > reported && end->all_losses == 0)
		fprintf(stderr, "udptest: a message was lost: no echo within %" PRIu64 " ms; going on\n", ms);
	end->all_losses += losses - reported;
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

/* Of a simulated end: its world goes on until the run has finished. */
struct udptest_watch {
	struct udptest_end *end;
	int stop;
	unsigned steps;
	bool stopped;
};

enum { UDPTEST_LOOK_EVERY = 1 << 16 /* steps of the world, for the descriptor `stop` */ };

static bool
udptest_goes_on(void *context)
{
	struct udptest_watch *watch = context;
	struct pollfd stop = { .fd = watch->stop, .events = POLLIN };

	if (++watch->steps % UDPTEST_LOOK_EVERY == 0)
		watch->stopped = poll(&stop, 1, 0) > 0;
	return !watch->stopped && !atomic_load_explicit(&watch->end->done, memory_order_acquire);
}

static int
udptest_simulate(struct udptest_end *end, int stop)
{
	struct udptest_watch watch = { .end = end, .stop = stop };
	bool ended = host_world_run(&end->host, udptest_goes_on, &watch);

	udptest_report_losses(end, 0);
	if (watch.stopped)
		return -ECANCELED;
	return ended ? 0 : -EDEADLK;
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
		snprintf(result->why, sizeof(result->why), "nothing happens any more: the engine stands still");
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
		error = end->host.world != NULL ? udptest_simulate(end, stop) : udptest_await(end, stop);
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

void
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
			 host_modes[setup->mode], setup->threads, strerror(-error));
	else
		udptest_set_handoff(end, (enum pair_handoff)setup->handoff);
	return error;
}

void
udptest_end_counts(void *argument, struct pair_counts *counts)
{
	struct udptest_end *end = argument;
	struct rusage usage;

	host_counts(&end->host, counts);
	counts->messages = host_counter(end->test, "messages");
	if (end->host.world != NULL)
		counts->process_switches = counts->driver_switches + counts->thread_switches;
	else if (end->owns_process && getrusage(RUSAGE_SELF, &usage) == 0)
		counts->process_switches = (uint64_t)usage.ru_nvcsw;
}

const struct pair_end_ops udptest_end_ops = {
	.setup = udptest_end_setup,
	.counts = udptest_end_counts,
	.run = udptest_end_run,
};

int
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

int
udptest_end_close(struct udptest_end *end)
{
	int status = host_close(&end->host);

	if (end->all_losses > 1)
		fprintf(stderr, "udptest: %" PRIu64 " messages were lost in all, those of the warm-up among them\n",
			end->all_losses);
	if (end->woken >= 0)
		close(end->woken);
	return status;
}

struct host_options
udptest_host_options(const struct udptest_options *options, const struct host_link *link, unsigned which)
{
	return (struct host_options){
		.program = udptest_program.name,
		.name = pair_end_names[which],
		.end = which,
		.paired = !options->server && options->client == NULL,
		.graph = options->graph,
		.sets = &options->common.sets,
		.link = link,
		.link_name = options->common.link,
		.meeting = "",
		.mode = (enum xk_mode)options->modes.value[0],
		.driver = (enum xk_driver_policy)options->common.driver,
		.threads = (unsigned)options->threads.value[0],
		.core = (int)options->cores.value[which],
		.yields = options->cores.value[0] == options->cores.value[1],
		.trace = options->common.trace,
		.pcap = options->common.pcap,
		.seed = options->seed,
		.preset = options->preset,
		.costs = options->costs,
	};
}
