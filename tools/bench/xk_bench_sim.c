/*
 * xk_bench_sim.c - `xk bench sim`: frames that the simulator delivers per second, and memory per host.
 *
 * The measured period is cut into slices of virtual time. The median slice is reported, because others use the machine,
 * too.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "tools/batches.h"
#include "tools/bench/bench.h"
#include "tools/net/net.h"
#include "tools/options.h"

enum { BENCH_SLICES = 20 };

#define BENCH_S UINT64_C(1000000000)

struct bench_sim_options {
	uint64_t warm_ns, measured_ns;
	struct options_texts sets;
	uint64_t seed;
};

static const struct options_option bench_sim_table[] = {
	OPTION(TIME, struct bench_sim_options, warm_ns, "warm", "T", "virtual time before the measurement (2s)"),
	OPTION(TIME, struct bench_sim_options, measured_ns, "for", "T", "virtual time of the measurement (1s)"),
	OPTION(TEXT_ANY, struct bench_sim_options, sets, "set", "NODE.ATTRIBUTE=VALUE",
	       "as for xk run; host.count=100 for fewer hosts"),
	OPTION(NUMBER, struct bench_sim_options, seed, "seed", "S", "of the world (1)", .max = UINT64_MAX),
	{ .name = NULL },
};

static const struct options_program bench_sim_program = {
	.name = "xk bench sim",
	.usage = "NETWORK [OPTION]...",
	.about = "Runs a network file in the simulator and prints how many frames were delivered per second of the\n"
		 "processor's time, and how much memory is resident.",
	.options = bench_sim_table,
	.operands_min = 1,
	.operands_max = 1,
	.reads_operands = true,
};

static uint64_t
bench_sim_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t
bench_sim_delivered(const struct net *net)
{
	uint64_t delivered = 0;

	for (struct xk_sim_link *link = xk_sim_first_link(net->sim); link != NULL; link = xk_sim_next_link(link)) {
		struct sim_link_counts counts;

		xk_sim_link_counts(link, &counts);
		delivered += counts.delivered;
	}
	return delivered;
}

static uint64_t
bench_sim_resident_kib(void)
{
	unsigned long long size = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (file != NULL && fscanf(file, "%llu %llu", &size, &resident) != 2)
		resident = 0;
	if (file != NULL)
		fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static int
bench_sim(struct net *net, const struct bench_sim_options *o)
{
	double rates[BENCH_SLICES]; /* deliveries per second of processor time */
	uint64_t first, before;
	int status = net_open(net, o->seed, NULL, false);

	if (status != 0)
		return status;
	xk_sim_run(net->sim, o->warm_ns);
	first = before = bench_sim_delivered(net);
	for (unsigned i = 0; i < BENCH_SLICES; i++) {
		uint64_t began_ns = bench_sim_cpu_ns(), took_ns, after;

		xk_sim_run(net->sim, xk_sim_now_ns(net->sim) + o->measured_ns / BENCH_SLICES);
		took_ns = bench_sim_cpu_ns() - began_ns;
		after = bench_sim_delivered(net);
		rates[i] = (double)(after - before) * 1e9 / (double)(took_ns == 0 ? 1 : took_ns);
		before = after;
	}
	printf("%u hosts: %" PRIu64 " frames delivered, %.0f a second; %" PRIu64 " KiB resident\n",
	       net->topology->host_count, before - first, batches_median(rates, BENCH_SLICES),
	       bench_sim_resident_kib());
	return 0;
}

int
bench_sim_main(int argc, char **argv)
{
	struct bench_sim_options o = { .warm_ns = 2 * BENCH_S, .measured_ns = BENCH_S, .seed = 1 };
	struct options_texts operands;
	struct net net;
	int status, closed;

	status = options_parse(&bench_sim_program, argc, argv, &o, &operands);
	if (status != OPTIONS_GO)
		return status;
	status = net_read(&net, bench_sim_program.name, operands.text[0], o.sets.text, o.sets.count);
	if (status == 0)
		status = bench_sim(&net, &o);
	closed = net_close(&net);
	return status == 0 ? closed : status;
}
