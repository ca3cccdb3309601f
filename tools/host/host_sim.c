/* host_sim.c - the two hosts of --link sim: one simulated world, with a link for each pair of ports. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "platform/sim/sim.h"
#include "tools/capture/capture_file.h"
#include "tools/host/host_private.h"
#include "tools/host/watch.h"
#include "tools/journey/journey.h"
#include "tools/output.h"

struct host_world {
	struct xk_sim *sim;
	struct xk_sim_link *links[HOST_PORTS];
	struct capture *captures[PAIR_ENDS]; /* of closed hosts */
	struct journey *journey;             /* NULL: none */
	unsigned users;
};

/* Returns a kernel, which the world frees, or NULL after a message. */
static struct xk_kernel *
host_boot(void *context, struct xk_sim_host *sim_host)
{
	struct host *host = context;

	host->platforms[0] = xk_sim_platform(sim_host);
	host->sink = journey_sink(host->world->journey, host->options.name);
	for (unsigned i = 0; i < host->port_count; i++) {
		host->ports[i][0] = xk_sim_port_new(sim_host, i);
		if (host->ports[i][0] == NULL) {
			host_fail(host, host->port_names[i], "no memory for it");
			return NULL;
		}
	}
	if (host_compose(host) == 0)
		return host->kernel;
	xk_kernel_free(host->kernel);
	host->kernel = NULL;
	return NULL;
}

static int
host_world_add(struct host_world *world, struct host *host, unsigned end)
{
	struct xk_sim_host_config config = { .name = host->options.name, .boot = host_boot, .context = host };
	struct xk_sim_host *sim_host;
	char why[XK_SIM_COSTS_WHY];

	if (xk_sim_costs_parse(host->options.costs, &config.costs, why, sizeof(why)) != 0)
		return host_fail(host, "costs", why);
	sim_host = xk_sim_host_new(world->sim, &config);
	if (sim_host == NULL)
		return host_fail(host, "the simulated host", "no memory for it");
	for (unsigned i = 0; i < host->port_count; i++)
		if (xk_sim_attach(sim_host, host->port_names[i], world->links[i],
				  HOST_LINK_ADDRESS + 256 * i + end + 1) != 0)
			return host_fail(host, host->port_names[i], "no memory for it");
	return xk_sim_boot(sim_host) == 0 ? 0 : OPTIONS_FAILURE;
}

/* Opens the page of --journey. */
static int
host_world_journey(struct host_world *world, const struct host_options *options)
{
	if (options->journey == NULL)
		return 0;
	if (output_is_input(options->program, options->journey, options->graph))
		return OPTIONS_FAILURE;
	world->journey = journey_open(options->program, options->journey, options->graph, options->seed);
	if (world->journey == NULL)
		return OPTIONS_FAILURE;
	xk_sim_watch(world->sim, journey_see, world->journey);
	return 0;
}

int
host_world_open(struct host hosts[2], const struct host_options options[2])
{
	struct host_world *world = calloc(1, sizeof(*world));
	struct sim_link_config link = { .rate = 0 };
	char why[XK_SIM_COSTS_WHY];
	int status = 0;

	for (unsigned i = 0; i < 2 && status == 0; i++)
		status = host_begin(&hosts[i], &options[i]);
	if (status == 0)
		status = host_check_pair(&hosts[0], &hosts[1]);
	if (world != NULL)
		world->sim = xk_sim_new(options[0].seed);
	if (world == NULL || world->sim == NULL) {
		free(world);
		return host_fail(&hosts[0], "the simulated world", "no memory for it");
	}
	watch_world(options[0].watch, world->sim);
	world->users = 2;
	hosts[0].world = hosts[1].world = world;
	if (status == 0)
		status = host_world_journey(world, &options[0]);
	if (status == 0 && sim_link_parse(options[0].preset, &link, why, sizeof(why)) != 0)
		status = host_fail(&hosts[0], options[0].preset, why);
	for (unsigned i = 0; i < hosts[0].port_count && status == 0; i++) {
		world->links[i] = xk_sim_link_new(world->sim, hosts[0].port_names[i], &link);
		if (world->links[i] == NULL)
			status = host_fail(&hosts[0], hosts[0].port_names[i], "no memory for it");
	}
	for (unsigned i = 0; i < 2 && status == 0; i++)
		status = host_world_add(world, &hosts[i], i);
	return status;
}

int
host_world_close(struct host *host)
{
	struct host_world *world = host->world;
	int status = 0;
	unsigned left = 0;

	world->captures[--world->users] = host->capture;
	if (world->users > 0)
		return 0;
	journey_stop(world->journey);
	for (struct xk_sim_host *other = xk_sim_first_host(world->sim); other != NULL; other = xk_sim_next_host(other))
		left += xk_sim_crash(other); /* under the watchdog: a shepherd may not end */
	watch_forget(host->options.watch, world->sim);
	left += xk_sim_free(world->sim);
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		status |= capture_close(world->captures[i]);
	status |= journey_close(world->journey);
	free(world);
	if (left == 0)
		return status;
	fprintf(stderr, "%s: %u buffers were not returned\n", host->options.program, left);
	return OPTIONS_FAILURE;
}

bool
host_world_run(struct host *host, bool (*go_on)(void *context), void *context)
{
	return !go_on(context) || xk_sim_run_while(host->world->sim, UINT64_MAX, go_on, context);
}
