/*
 * xk_bench_call.c - `xk bench call`: the cost of a call and its reply through two whole graphs without a wire.
 *
 * One process, one thread: two hosts with the graph of chantest, each on a fiber, joined by ports that pass frames on
 * without copying. A driver with nothing to receive lets the other one run, so no time is spent polling. Only calls
 * run, one at a time, made by a shepherd in xk_call that the driver resumes, or with --async by the callback of the
 * previous call. The benchmark makes no system calls, so it can run under callgrind: the difference in instructions
 * between two values of --rounds is the cost of the additional rounds. With --alone there are fibers and frames but no
 * hosts: the cost of the benchmark itself.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "protocols/test/chantest.h"
#include "tools/batches.h"
#include "tools/bench/bench.h"
#include "tools/output.h"
#include "xkernel/engine/fiber.h"

enum {
	CALL_CLIENT,
	CALL_SERVER,
	CALL_HOSTS = BENCH_HOSTS,
	CALL_QUEUE = 512, /* frames queued for a host */
	CALL_STACK = 256 * 1024,
	CALL_WARM_UP = 4096,
	CALL_PATIENCE = 1 << 22, /* turns without a frame: some seconds */
};

#define CALL_LINK UINT64_C(0x020000000001)
#define CALL_CLIENT_ADDRESS 0x0a4d0001
#define CALL_SERVER_ADDRESS 0x0a4d0002

struct call_host {
	struct call_bench *bench;
	struct xk_fiber fiber;
	struct xk_msg *queue[CALL_QUEUE]; /* frames that arrive here next */
	unsigned first, count;
	bool ended;
};

struct call_bench {
	struct bench common; /* first */
	bool async;
	struct xk_call call;       /* --async */
	struct xk_semaphore ended; /* --async: signalled at the end */
	struct call_host hosts[CALL_HOSTS];
	struct xk_session *channel;
	unsigned silent;
	int err;
	bool done;
	struct batches batches;
	double call_ns;
};

static const struct options_option call_options[] = {
	OPTION(NUMBER, struct call_bench, common.size, "size", "N", "message bytes (1)", .max = XK_CHANTEST_MAX),
	OPTION(NUMBER, struct call_bench, common.rounds, "rounds", "N", "calls that count (200000)", .min = 1,
	       .max = UINT32_MAX),
	OPTION(FLAG, struct call_bench, async, "async", NULL, "replies call the caller back, which does not wait"),
	OPTION(FLAG, struct call_bench, common.alone, "alone", NULL,
	       "without hosts: the cost of passing frames and counting alone"),
	{ .name = NULL },
};

static const struct options_program call_program = {
	.name = "xk bench call",
	.usage = "[OPTION]...",
	.about = "Times calls between two hosts of the graph of chantest (graphs/chantest.dot), in one process and "
		 "without\n"
		 "a wire.",
	.footer = "Instructions per call, by the difference of two runs:\n"
		  "  valgrind --tool=callgrind --callgrind-out-file=/dev/null xk bench call --rounds 10000\n"
		  "  valgrind --tool=callgrind --callgrind-out-file=/dev/null xk bench call --rounds 20000\n"
		  "The same with --alone is the benchmark's own part of them.",
	.options = call_options,
	.shared = { { bench_options, offsetof(struct call_bench, common) } },
};

static void
call_counting(void *context)
{
	struct bench *bench = context;

	bench_take_stats(bench, bench->before);
}

/* ---- the wire ---- */

static void
call_finish(struct call_bench *bench, int err)
{
	if (bench->done)
		return;
	bench->done = true;
	bench->err = err;
	bench_take_stats(&bench->common, bench->common.after);
	for (unsigned i = 0; i < CALL_HOSTS && !bench->common.alone; i++)
		xk_kernel_halt(bench->common.kernels[i]);
}

/* If the queue is empty, lets the other host run first. */
static unsigned
call_receive(void *context, struct xk_msg **frames, unsigned max)
{
	struct call_host *host = context;
	unsigned count = 0;

	if (host->count == 0) {
		if (++host->bench->silent == CALL_PATIENCE)
			call_finish(host->bench, -ETIMEDOUT);
		xk_fiber_rest(&host->fiber);
	}
	for (; count < max && host->count > 0; count++, host->count--) {
		frames[count] = host->queue[host->first];
		host->first = (host->first + 1) % CALL_QUEUE;
	}
	return count;
}

static unsigned
call_transmit(void *context, struct xk_msg **frames, unsigned count)
{
	struct call_host *from = context, *to;
	unsigned taken = 0;

	to = &from->bench->hosts[from == &from->bench->hosts[CALL_CLIENT] ? CALL_SERVER : CALL_CLIENT];
	from->bench->silent = 0;
	for (; taken < count && to->count < CALL_QUEUE; taken++, to->count++) {
		frames[taken]->flags = 0;
		to->queue[(to->first + to->count) % CALL_QUEUE] = frames[taken];
	}
	return taken;
}

/* ---- the caller ---- */

/*
 * Creates the next request, in the buffer m of the previous reply if nothing else holds it. Takes m. NULL: no buffer.
 */
static struct xk_msg *
call_request(struct call_bench *bench, struct xk_msg *m)
{
	if (m != NULL && m->next == NULL && xk_msg_is_writable(m))
		return m;
	xk_msg_free(m);
	m = xk_msg_new(bench->common.platforms[0], bench->common.size);
	for (struct xk_msg *part = m; part != NULL; part = part->next)
		memset(part->data, 'x', part->len);
	return m;
}

static int
call_sync(struct call_bench *bench)
{
	struct xk_msg *m = NULL;
	int err;

	do {
		m = call_request(bench, m);
		err = m == NULL ? -ENOBUFS : xk_call(bench->channel, m, &m);
		if (err == 0 && xk_msg_len(m) != bench->common.size)
			err = -EBADMSG;
	} while (err == 0 && batches_count(&bench->batches));
	xk_msg_free(m);
	return err;
}

static int
call_begin(struct call_bench *bench, struct xk_msg *m)
{
	m = call_request(bench, m);
	return m == NULL ? -ENOBUFS : xk_call_async(bench->channel, m, &bench->call);
}

static void
call_done(struct xk_call *call, int err, struct xk_msg *reply)
{
	struct call_bench *bench = xk_container_of(call, struct call_bench, call);

	if (err == 0 && xk_msg_len(reply) != bench->common.size)
		err = -EBADMSG;
	if (err == 0 && batches_count(&bench->batches)) {
		err = call_begin(bench, reply);
		if (err == 0)
			return;
	} else {
		xk_msg_free(reply);
	}
	bench->err = err;
	xk_semaphore_signal(&bench->ended);
}

static void
call_client(void *argument)
{
	struct call_bench *bench = argument;
	struct xk_protocol *test = xk_kernel_find(bench->common.kernels[CALL_CLIENT], "chantest");
	struct xk_participants server = { .remote = { 1, { CALL_SERVER_ADDRESS } } };
	int err = xk_open(test, test, xk_lower(test, 0), &server, &bench->channel);

	xk_semaphore_init(&bench->ended, test, 0);
	if (err == 0 && !bench->async) {
		err = call_sync(bench);
	} else if (err == 0) {
		err = call_begin(bench, NULL);
		if (err == 0)
			err = xk_semaphore_wait(&bench->ended, XK_FOREVER);
		if (err == 0)
			err = bench->err;
	}
	xk_close(bench->channel);
	call_finish(bench, err);
}

/*
 * Opens a channel at the server, too, before the first call is made: the server then knows the client's boot, and does
 * not drop the first request, for whose reply the client would wait in vain.
 */
static void
call_server(void *argument)
{
	struct call_bench *bench = argument;
	struct xk_protocol *test = xk_kernel_find(bench->common.kernels[CALL_SERVER], "chantest");
	struct xk_participants client = { .remote = { 1, { CALL_CLIENT_ADDRESS } } };
	struct xk_session *channel;
	int err = xk_open(test, test, xk_lower(test, 0), &client, &channel);

	if (err == 0)
		xk_close(channel);
	if (err == 0)
		err = xk_thread_start(bench->common.kernels[CALL_CLIENT], "caller", call_client, bench);
	if (err != 0)
		call_finish(bench, err);
}

/* ---- without hosts ---- */

/* Sends every message back; the client counts it as a reply, and makes it a request. */
static void
call_alone_run(void *argument)
{
	struct call_host *host = argument;
	struct call_bench *bench = host->bench;
	bool is_client = host == &bench->hosts[CALL_CLIENT];
	struct xk_msg *m = is_client ? call_request(bench, NULL) : NULL;

	while (!bench->done) {
		if (m != NULL)
			call_transmit(host, &m, 1);
		if (call_receive(host, &m, 1) == 0)
			m = NULL;
		else if (is_client && !batches_count(&bench->batches))
			call_finish(bench, 0);
		else if (is_client)
			m = call_request(bench, m);
	}
	xk_msg_free(m);
	host->ended = true;
	for (;;)
		xk_fiber_rest(&host->fiber);
}

/* ---- hosts ---- */

static void
call_host_run(void *argument)
{
	struct call_host *host = argument;

	xk_kernel_run(host->bench->common.kernels[host - host->bench->hosts]);
	host->ended = true;
	for (;;)
		xk_fiber_rest(&host->fiber);
}

/* Opens a host. Returns false, after a message, if its graph was refused. */
static bool
call_host_open(struct call_bench *bench, unsigned which)
{
	const struct bench_host made = {
		.name = which == CALL_CLIENT ? "client" : "server",
		.link = CALL_LINK + which,
		.address = which == CALL_CLIENT ? "vnet.address=10.77.0.1/24" : "vnet.address=10.77.0.2/24",
		.policy = "graph.resume=driver",
		.test = "chantest",
		.receive = call_receive,
		.transmit = call_transmit,
		.contexts = { &bench->hosts[which] },
	};

	return bench->common.alone || bench_host_open(&bench->common, which, &made);
}

static int
call_run(struct bench *common)
{
	struct call_bench *bench = (struct call_bench *)common;
	struct xk_context own;
	bool good = true;

	bench->call.done = call_done;
	batches_init(&bench->batches, CALL_WARM_UP, common->rounds);
	bench->batches.counting = call_counting;
	bench->batches.context = bench;
	xk_context_adopt(&own);
	for (unsigned i = 0; i < CALL_HOSTS; i++) {
		struct call_host *host = &bench->hosts[i];

		host->bench = bench;
		xk_assert(xk_fiber_init(&host->fiber, CALL_STACK, common->alone ? call_alone_run : call_host_run,
					host) == 0);
		good = good && call_host_open(bench, i);
	}
	good = good &&
	       (common->alone || xk_thread_start(common->kernels[CALL_SERVER], "opener", call_server, bench) == 0);
	while (good && (!bench->hosts[CALL_CLIENT].ended || !bench->hosts[CALL_SERVER].ended))
		for (unsigned i = 0; i < CALL_HOSTS; i++)
			if (!bench->hosts[i].ended)
				xk_fiber_run(&bench->hosts[i].fiber, &own);
	for (unsigned i = 0; i < CALL_HOSTS; i++) {
		struct call_host *host = &bench->hosts[i];

		for (; host->count > 0; host->count--) {
			xk_msg_free(host->queue[host->first]);
			host->first = (host->first + 1) % CALL_QUEUE;
		}
		xk_kernel_free(common->kernels[i]);
		xk_fiber_fini(&host->fiber);
	}
	xk_context_disown(&own);
	if (good && bench->err != 0)
		fprintf(stderr, "xk bench call: call %" PRIu64 " failed: %s\n", bench->batches.done,
			xk_error(bench->err));
	if (!good || bench->err != 0)
		return OPTIONS_FAILURE;
	bench->call_ns = batches_median_ns(&bench->batches);
	return bench_report(common);
}

/* ---- the report ---- */

static void
call_write(const struct bench *common, struct json *json)
{
	const struct call_bench *bench = (const struct call_bench *)common;

	json_string(json, "caller", common->alone ? "alone" : bench->async ? "told" : "waits");
	json_double(json, "call_ns", bench->call_ns);
	bench_json_counts(common, json, "per_call", BENCH_COUNTS);
}

static void
call_print(const struct bench *common)
{
	const struct call_bench *bench = (const struct call_bench *)common;

	if (common->alone) {
		printf("The benchmark alone: %.1f ns a call (median of batches).\n", bench->call_ns);
		return;
	}
	output_print_name(common->graph);
	printf(", %" PRIu64 " byte%s, the caller %s: %.1f ns a call, for both hosts (median of batches).\n",
	       common->size, common->size == 1 ? "" : "s", bench->async ? "is called back" : "waits", bench->call_ns);
	printf("Per call:");
	for (unsigned i = 0; i < BENCH_COUNTS; i++)
		printf("%s %s %.3f", i == 0 ? "" : ",", bench_counts[i].name,
		       bench_per_round(common, &bench_counts[i]));
	printf(".\nInstructions: see --help.\n");
}

int
bench_call_main(int argc, char **argv)
{
	static const struct bench_kind kind = { &call_program, "call",     "graphs/chantest.dot",
						call_run,      call_write, call_print };
	struct call_bench bench = { .common = { .size = 1, .rounds = 200000 } };

	return bench_main(&kind, &bench.common, argc, argv);
}
