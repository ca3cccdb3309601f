/*
 * xk_bench_call.c - `xk bench call`: what a call and its reply cost through two whole graphs without a wire.
 *
 * One process, one thread: two hosts of the graph of chantest, each on a fiber, joined by ports whose frames change hands as
 * they are. A driver that has nothing to receive lets the other one go on, so that nobody polls in vain: all that runs is
 * the calls. One at a time, by a shepherd in xk_call that the driver resumes, or with --async by whoever is told of the reply
 * before. Nothing of the system is needed, so that it runs under callgrind: with two numbers of --rounds, the difference of
 * instructions is what the rounds between cost. With --alone there are the fibers and frames, and no hosts on them: what the
 * benchmark itself costs.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "platform/sim/memory.h"
#include "protocols/test/chantest.h"
#include "tools/bench/bench.h"
#include "tools/bench/xk_bench.h"
#include "tools/json.h"
#include "tools/options.h"
#include "tools/output.h"
#include "tools/program/program.h"
#include "tools/program/program_compile.h"
#include "xkernel/engine/fiber.h"
#include "xkernel/kernel.h"

enum {
	CALL_HOSTS = 2,
	CALL_CLIENT = 0,
	CALL_SERVER = 1,
	CALL_MTU = 1500,
	CALL_QUEUE = 512, /* frames on their way to a host */
	CALL_STACK = 256 * 1024,
	CALL_BATCHES = 256,
	CALL_WARM_UP = 4096,
	CALL_PATIENCE = 1 << 22, /* turns without a frame: some seconds */
};

#define CALL_LINK UINT64_C(0x020000000001)
#define CALL_CLIENT_ADDRESS 0x0a4d0001
#define CALL_SERVER_ADDRESS 0x0a4d0002

struct call_options {
	const char *graph;
	bool compiled;
	uint64_t size, rounds;
	bool async, alone;
	const char *json;
	struct options_texts sets;
};

struct call_host {
	struct call_bench *bench;
	struct xk_kernel *kernel;
	struct xk_fiber fiber;
	struct xk_msg *queue[CALL_QUEUE]; /* what arrives here next */
	unsigned first, count;
	bool ended;
};

struct call_bench {
	struct xk_call call; /* first */
	const struct call_options *options;
	struct xk_platform *platform;
	struct call_host hosts[CALL_HOSTS];
	struct xk_session *channel;
	struct xk_semaphore told; /* --async: it is over */
	uint64_t made, counted_from, end, batch, batch_end, batch_began_ns;
	unsigned batch_count, silent;
	int status;
	bool done;
	double batches[CALL_BATCHES]; /* nanoseconds per call */
	double call_ns;               /* the median of them */
	struct xk_kernel_stats before[CALL_HOSTS], after[CALL_HOSTS];
};

static const struct options_option call_table[] = {
	{ "compiled", OPTIONS_FLAG, offsetof(struct call_options, compiled), NULL,
	  "the graph compiled into the program: takes some seconds first", 0, 0, NULL },
	{ "graph", OPTIONS_TEXT, offsetof(struct call_options, graph), "FILE", "the graph (graphs/chantest.dot)", 0, 0,
	  NULL },
	{ "size", OPTIONS_NUMBER, offsetof(struct call_options, size), "N", "message bytes (1)", 0, XK_CHANTEST_MAX,
	  NULL },
	{ "rounds", OPTIONS_NUMBER, offsetof(struct call_options, rounds), "N", "calls that count (200000)", 1,
	  UINT32_MAX, NULL },
	{ "async", OPTIONS_FLAG, offsetof(struct call_options, async), NULL,
	  "the caller is told of replies, and does not wait for them", 0, 0, NULL },
	{ "alone", OPTIONS_FLAG, offsetof(struct call_options, alone), NULL,
	  "without hosts: what the frames' change of hands and the counting cost by themselves", 0, 0, NULL },
	{ "set", OPTIONS_TEXT_ANY, offsetof(struct call_options, sets), "NODE.ATTRIBUTE=VALUE",
	  "a setting of the graph, at both ends", 0, 0, NULL },
	{ "json", OPTIONS_TEXT, offsetof(struct call_options, json), "FILE", "JSON to FILE; - is standard output", 0, 0,
	  NULL },
	{ .name = NULL },
};

static const struct options_program call_program = {
	.name = "xk bench call",
	.usage = "[OPTION]...",
	.about = "Times calls between two hosts of the graph of chantest, in one process and without a wire.",
	.footer = "Instructions per call, by the difference of two runs:\n"
		  "  valgrind --tool=callgrind --callgrind-out-file=/dev/null xk bench call --rounds 10000\n"
		  "  valgrind --tool=callgrind --callgrind-out-file=/dev/null xk bench call --rounds 20000\n"
		  "The same with --alone is the benchmark's own part of them.",
	.options = call_table,
};

static uint64_t
call_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void
call_take_stats(struct call_bench *bench, struct xk_kernel_stats *stats)
{
	for (unsigned i = 0; i < CALL_HOSTS && !bench->options->alone; i++)
		xk_kernel_stats(bench->hosts[i].kernel, &stats[i]);
}

/* ---- the wire ---- */

static void
call_finish(struct call_bench *bench, int status)
{
	if (bench->done)
		return;
	bench->done = true;
	bench->status = status;
	call_take_stats(bench, bench->after);
	for (unsigned i = 0; i < CALL_HOSTS && !bench->options->alone; i++)
		xk_kernel_halt(bench->hosts[i].kernel);
}

/* Nothing is here: the other host's turn. */
static void
call_rest(struct call_host *host)
{
	struct call_bench *bench = host->bench;

	if (++bench->silent == CALL_PATIENCE)
		call_finish(bench, -ETIMEDOUT);
	xk_fiber_rest(&host->fiber);
}

static unsigned
call_receive(void *context, struct xk_msg **frames, unsigned max)
{
	struct call_host *host = context;
	unsigned count = 0;

	if (host->count == 0)
		call_rest(host);
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

static void
call_end_batch(struct call_bench *bench)
{
	uint64_t now_ns = call_now_ns();

	if (bench->made == bench->counted_from) {
		call_take_stats(bench, bench->before);
		now_ns = call_now_ns();
	} else if (bench->batch_count < CALL_BATCHES) {
		bench->batches[bench->batch_count++] = (double)(now_ns - bench->batch_began_ns) / (double)bench->batch;
	}
	bench->batch_began_ns = now_ns;
	bench->batch_end += bench->batch;
}

/* A reply has come. False: it was the last one. */
static bool
call_count(struct call_bench *bench)
{
	if (xk_unlikely(++bench->made == bench->batch_end))
		call_end_batch(bench);
	return bench->made < bench->end;
}

/* The next request, of the buffer of the reply before where that is only ours. Takes m. NULL: no buffer. */
static struct xk_msg *
call_request(struct call_bench *bench, struct xk_msg *m)
{
	if (m != NULL && m->next == NULL && xk_msg_is_writable(m))
		return m;
	xk_msg_free(m);
	m = xk_msg_new(bench->platform, bench->options->size);
	for (struct xk_msg *part = m; part != NULL; part = part->next)
		memset(part->data, 'x', part->len);
	return m;
}

static int
call_sync(struct call_bench *bench)
{
	struct xk_msg *m = NULL;
	int status;

	do {
		m = call_request(bench, m);
		status = m == NULL ? -ENOBUFS : xk_call(bench->channel, m, &m);
		if (status == 0 && xk_msg_len(m) != bench->options->size)
			status = -EBADMSG;
	} while (status == 0 && call_count(bench));
	xk_msg_free(m);
	return status;
}

static int
call_begin(struct call_bench *bench, struct xk_msg *m)
{
	m = call_request(bench, m);
	return m == NULL ? -ENOBUFS : xk_call_async(bench->channel, m, &bench->call);
}

static void
call_done(struct xk_call *call, int status, struct xk_msg *reply)
{
	struct call_bench *bench = (struct call_bench *)call;

	if (status == 0 && xk_msg_len(reply) != bench->options->size)
		status = -EBADMSG;
	if (status == 0 && call_count(bench)) {
		status = call_begin(bench, reply);
		if (status == 0)
			return;
	} else {
		xk_msg_free(reply);
	}
	bench->status = status;
	xk_semaphore_signal(&bench->told);
}

static int
call_async(struct call_bench *bench)
{
	int status = call_begin(bench, NULL);

	if (status == 0)
		status = xk_semaphore_wait(&bench->told, XK_FOREVER);
	return status != 0 ? status : bench->status;
}

static void
call_client(void *argument)
{
	struct call_bench *bench = argument;
	struct xk_protocol *test = xk_kernel_find(bench->hosts[CALL_CLIENT].kernel, "chantest");
	struct xk_participants server = { .remote = { 1, { CALL_SERVER_ADDRESS } } };
	int status = xk_open(test, test, xk_lower(test, 0), &server, &bench->channel);

	xk_semaphore_init(&bench->told, test, 0);
	if (status == 0)
		status = bench->options->async ? call_async(bench) : call_sync(bench);
	xk_close(bench->channel);
	call_finish(bench, status);
}

/*
 * The server opens a channel, too, before the first call is made: so it knows the client's boot, and need not drop the first
 * request, for which the client would wait in vain, and poll.
 */
static void
call_server(void *argument)
{
	struct call_bench *bench = argument;
	struct xk_protocol *test = xk_kernel_find(bench->hosts[CALL_SERVER].kernel, "chantest");
	struct xk_participants client = { .remote = { 1, { CALL_CLIENT_ADDRESS } } };
	struct xk_session *channel;
	int status = xk_open(test, test, xk_lower(test, 0), &client, &channel);

	if (status == 0)
		xk_close(channel);
	if (status == 0)
		status = xk_thread_start(bench->hosts[CALL_CLIENT].kernel, "caller", call_client, bench);
	if (status != 0)
		call_finish(bench, status);
}

/* ---- without hosts ---- */

/* Whatever comes goes back; the client counts it as a reply, and makes a request of it. */
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
		else if (is_client && !call_count(bench))
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

static bool
call_compose(struct call_bench *bench, unsigned which)
{
	const struct bench_graph graph = {
		.program = call_program.name,
		.file = bench->options->graph,
		.address = which == CALL_CLIENT ? "vnet.address=10.77.0.1/24" : "vnet.address=10.77.0.2/24",
		.policy = "graph.resume=driver",
		.sets = &bench->options->sets,
		.test = "chantest",
	};

	return bench_compose(bench->hosts[which].kernel, &graph);
}

static void
call_host_run(void *argument)
{
	struct call_host *host = argument;

	xk_kernel_run(host->kernel);
	host->ended = true;
	for (;;)
		xk_fiber_rest(&host->fiber);
}

static bool
call_host_open(struct call_bench *bench, unsigned which)
{
	const struct xk_kernel_config config = { .name = which == CALL_CLIENT ? "client" : "server",
						 .platform = bench->platform,
						 .mode = XK_IPP,
						 .driver = XK_DRIVER_POLL,
						 .core = -1 };
	struct call_host *host = &bench->hosts[which];
	struct xk_port *port;

	host->bench = bench;
	if (bench->options->alone)
		return xk_fiber_init(&host->fiber, CALL_STACK, call_alone_run, host) == 0;
	port = xk_memory_port_new(bench->platform, "port", CALL_LINK + which, CALL_MTU);
	host->kernel = xk_kernel_new(&config);
	xk_assert(host->kernel != NULL && port != NULL);
	xk_memory_loop(port, call_receive, call_transmit, host);
	xk_kernel_add_port(host->kernel, port);
	xk_assert(xk_fiber_init(&host->fiber, CALL_STACK, call_host_run, host) == 0);
	return call_compose(bench, which);
}

static void
call_host_close(struct call_host *host)
{
	for (; host->count > 0; host->count--) {
		xk_msg_free(host->queue[host->first]);
		host->first = (host->first + 1) % CALL_QUEUE;
	}
	xk_kernel_free(host->kernel);
	xk_fiber_fini(&host->fiber);
}

/* False: something was wrong, and said what. */
static bool
call_run(struct call_bench *bench)
{
	struct xk_context own;
	bool good = true;

	xk_context_adopt(&own);
	for (unsigned i = 0; i < CALL_HOSTS; i++)
		good &= call_host_open(bench, i);
	good = good && (bench->options->alone ||
			xk_thread_start(bench->hosts[CALL_SERVER].kernel, "opener", call_server, bench) == 0);
	while (good && (!bench->hosts[CALL_CLIENT].ended || !bench->hosts[CALL_SERVER].ended))
		for (unsigned i = 0; i < CALL_HOSTS; i++)
			if (!bench->hosts[i].ended)
				xk_fiber_run(&bench->hosts[i].fiber, &own);
	for (unsigned i = 0; i < CALL_HOSTS; i++)
		call_host_close(&bench->hosts[i]);
	xk_context_disown(&own);
	if (good && bench->status != 0)
		fprintf(stderr, "xk bench call: call %" PRIu64 ": %s\n", bench->made, strerror(-bench->status));
	return good && bench->status == 0;
}

/* ---- telling ---- */

static int
call_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
call_median_ns(struct call_bench *bench)
{
	qsort(bench->batches, bench->batch_count, sizeof(bench->batches[0]), call_compare);
	return bench->batch_count == 0 ? 0 : bench->batches[bench->batch_count / 2];
}

struct call_count {
	const char *name;
	size_t offset;
};

static const struct call_count call_counts[] = {
	{ "turns", offsetof(struct xk_kernel_stats, turns) },
	{ "clock_reads", offsetof(struct xk_kernel_stats, clock_reads) },
	{ "stack_switches", offsetof(struct xk_kernel_stats, stack_switches) },
	{ "locks", offsetof(struct xk_kernel_stats, locks) },
	{ "parks", offsetof(struct xk_kernel_stats, parks) },
};

/* Per call, of both hosts. */
static double
call_per_call(const struct call_bench *bench, const struct call_count *count)
{
	uint64_t sum = 0, before, after;

	for (unsigned i = 0; i < CALL_HOSTS; i++) {
		memcpy(&before, (const char *)&bench->before[i] + count->offset, sizeof(before));
		memcpy(&after, (const char *)&bench->after[i] + count->offset, sizeof(after));
		sum += after - before;
	}
	return (double)sum / (double)bench->options->rounds;
}

static bool
call_write_json(const void *context, FILE *out)
{
	const struct call_bench *bench = context;
	const struct call_options *o = bench->options;
	struct json json;

	json_begin(&json, out);
	json_object(&json, NULL);
	json_string(&json, "program", "xk bench call");
	json_string(&json, "graph", o->graph);
	json_bool(&json, "compiled", program_graph != NULL);
	json_uint(&json, "size", o->size);
	json_uint(&json, "rounds", o->rounds);
	json_string(&json, "caller", o->alone ? "alone" : o->async ? "told" : "waits");
	json_double(&json, "call_ns", bench->call_ns);
	json_object(&json, "per_call");
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(call_counts); i++)
		json_double(&json, call_counts[i].name, call_per_call(bench, &call_counts[i]));
	json_close(&json);
	json_close(&json);
	return json_end(&json);
}

static void
call_tell(const void *context)
{
	const struct call_bench *bench = context;
	const struct call_options *o = bench->options;

	if (o->alone) {
		printf("The benchmark alone: %.1f ns a call (median of batches).\n", bench->call_ns);
		return;
	}
	output_print_name(o->graph);
	printf(", %" PRIu64 " byte%s, the caller %s: %.1f ns a call, of both hosts (median of batches).\n", o->size,
	       o->size == 1 ? "" : "s", o->async ? "is told" : "waits", bench->call_ns);
	printf("Per call:");
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(call_counts); i++)
		printf("%s %s %.3f", i == 0 ? "" : ",", call_counts[i].name, call_per_call(bench, &call_counts[i]));
	printf(".\nInstructions: see --help.\n");
}

static bool
call_bench(struct call_bench *bench)
{
	const struct call_options *o = bench->options;
	const struct bench_report report = { call_program.name, o->json, call_write_json, call_tell };

	bench->call.done = call_done;
	bench->counted_from = bench->batch_end = CALL_WARM_UP;
	bench->end = bench->counted_from + o->rounds;
	bench->batch = o->rounds / CALL_BATCHES + 1;
	if (!call_run(bench))
		return false;
	bench->call_ns = call_median_ns(bench);
	return bench_report(&report, bench);
}

int
xk_bench_call_main(int argc, char **argv)
{
	struct call_options o = { .size = 1, .rounds = 200000 };
	struct options_texts operands;
	struct call_bench *bench;
	bool good;
	int status;

	status = options_parse(&call_program, argc, argv, &o, &operands);
	if (status != OPTIONS_GO)
		return status;
	o.graph = program_graph_file(&call_program, o.graph, "graphs/chantest.dot");
	if (o.graph == NULL)
		return OPTIONS_MISUSE;
	if (o.compiled && program_graph == NULL) {
		compile_exec(o.graph, "bench", "call", argc, argv);
		return OPTIONS_FAILURE;
	}
	bench = calloc(1, sizeof(*bench));
	xk_assert(bench != NULL);
	bench->options = &o;
	bench->platform = xk_memory_platform_new(XK_MEMORY_REAL);
	xk_assert(bench->platform != NULL);
	xk_memory_platform_recycle(bench->platform);
	good = call_bench(bench);
	xk_memory_platform_free(bench->platform);
	free(bench);
	return good ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}
