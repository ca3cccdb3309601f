/*
 * run_streams.c - streams of random lengths between hosts, by the clients of tcptest; see run_private.h.
 */
#include "tests/swarm/run_private.h"

#include <errno.h>

#include "protocols/test/tcptest.h"

enum { RUN_STREAM_MESSAGES = 100, RUN_SHORT_CONNECTIONS = 8 };

static uint64_t
run_between(struct run *run, uint64_t low, uint64_t high)
{
	return low + xk_chance_below(&run->chance, high - low + 1);
}

void
run_streams_init(struct run *run)
{
	xk_chance_init(&run->chance, run->plan->seed, 1);
	for (unsigned i = 0; i < run->plan->hosts; i++)
		run->clients[i] = (struct run_client){ .run = run, .host = i };
}

static const char *
run_host_name(const struct run *run, unsigned host)
{
	return run->net.hosts[host].topology->name;
}

/* A client's run has ended. One that began in a settled network must be good, and so must all of patient hosts. */
static void
run_stream_finished(void *argument, const struct xk_tcptest_result *result)
{
	struct run_client *client = argument;
	struct run *run = client->run;

	client->runs = false;
	run->tally->streams++;
	run->tally->failed_streams += result->error != 0;
	client->ended += client->has_settled;
	if (result->bad != 0)
		run_fail(run, RUN_CORRUPT, "%s received %llu wrong bytes from %s", run_host_name(run, client->host),
			 (unsigned long long)result->bad, run_host_name(run, client->server));
	if (result->error != 0 && (client->has_settled || run->plan->patient) && run_is_live(run))
		run_fail(run, RUN_STUCK, "a connection of %s to %s has failed at %llu ms: %s",
			 run_host_name(run, client->host), run_host_name(run, client->server),
			 (unsigned long long)(xk_sim_now_ns(run->net.sim) / 1000000), xk_error(result->error));
}

/* Draws a run: one or several connections at once; round trips are fewer, and may each have a connection. */
static struct xk_tcptest_run
run_draw_stream(struct run *run)
{
	uint64_t bytes = run_between(run, 1, run_between(run, 1, run->plan->stream_bytes));
	uint64_t most = bytes / run_between(run, 1, RUN_STREAM_MESSAGES) + 1;
	struct xk_tcptest_run drawn = {
		.flow = (enum xk_tcptest_flow)run_between(run, XK_TCPTEST_SEND, XK_TCPTEST_ECHO),
		.size = (uint32_t)run_between(run, most / 2 + 1, most),
		.connections = (unsigned)run_between(run, 1, xk_chance_below(&run->chance, 4) == 0 ? 4 : 1),
		.finished = run_stream_finished,
	};

	drawn.is_short = drawn.flow == XK_TCPTEST_ECHO && xk_chance_below(&run->chance, 3) == 0;
	drawn.rounds = bytes / drawn.size + 1;
	if (drawn.is_short)
		drawn.rounds = drawn.rounds % RUN_SHORT_CONNECTIONS + 1;
	else if (drawn.flow == XK_TCPTEST_ECHO)
		drawn.rounds = drawn.rounds % 50 + 1;
	return drawn;
}

/* Starts a run from a client to a server, if it has none and a stack is free. Returns whether it did. */
static bool
run_start_stream(struct run_client *client, unsigned server, bool has_settled)
{
	struct run *run = client->run;
	struct xk_kernel *kernel = xk_sim_kernel(run->net.hosts[client->host].sim);
	struct xk_tcptest_run drawn;
	int err;

	if (kernel == NULL)
		return false;
	drawn = run_draw_stream(run);
	drawn.host = run->net.hosts[server].topology->devices[0].host;
	drawn.argument = client;
	err = xk_tcptest_start(xk_kernel_find(kernel, "tcptest"), &drawn);
	xk_assert(err == 0 || err == -EBUSY || err == -EAGAIN);
	if (err != 0)
		return false;
	client->server = server;
	client->runs = true;
	client->has_settled = has_settled;
	return true;
}

void
run_streams_start(struct run *run)
{
	for (unsigned i = 0; i < run->plan->hosts; i++) {
		unsigned distance = (unsigned)run_between(run, 1, run->plan->hosts - 1);

		run_start_stream(&run->clients[i], (i + distance) % run->plan->hosts, false);
	}
}

void
run_streams_start_settled(struct run *run)
{
	for (unsigned i = 0; i < run->plan->hosts; i++) {
		struct run_client *client = &run->clients[i];

		if (client->asked + 1 < run->plan->hosts)
			client->asked += run_start_stream(client, (i + client->asked + 1) % run->plan->hosts, true);
	}
}

void
run_streams_check(struct run *run)
{
	for (unsigned i = 0; i < run->plan->hosts && plan_has(run->plan->scenario, "tcptest"); i++)
		if (run->clients[i].ended + 1 < run->plan->hosts && run_is_live(run))
			run_fail(run, RUN_STUCK,
				 "since the network settled, %u runs of %s's tcptest have ended, the last with %s",
				 run->clients[i].ended, run_host_name(run, i),
				 run_host_name(run, run->clients[i].server));
}

bool
run_streams_go_on(const struct run *run)
{
	for (unsigned i = 0; i < run->plan->hosts; i++)
		if (run->clients[i].runs)
			return true;
	return false;
}
