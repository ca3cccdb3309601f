/* roundtrip_options.c - the options of udptest, chantest, tcptest and logp, and their defaults. */
#include <inttypes.h>
#include <string.h>

#include "graphs/graph.h"
#include "platform/sim/sim.h"
#include "tools/roundtrip/roundtrip.h"

#define ROUNDTRIP_PRESET "ethernet10"
#define ROUNDTRIP_COSTS "decstation"

static const char *const roundtrip_handoffs[] = { "none", "client", "server", "both", NULL };
const char *const roundtrip_handoff_names[] = { "none", "client", "server", "both", "graph" };

const struct options_option roundtrip_common_options[] = {
	OPTION(FLAG, struct roundtrip_options, server, "server", NULL, "run only a server, until SIGINT or SIGTERM"),
	OPTION(HOST, struct roundtrip_options, client, "client", "ADDRESS",
	       "run only a client of the server at this address (10.77.0.2)"),
	OPTION(TEXT, struct roundtrip_options, far, "far", "COMMAND",
	       "start the server on another machine, by --far 'ssh MACHINE'; this\n"
	       "program must have the same path there"),
	OPTION(CHOICES, struct roundtrip_options, modes, "mode", "MODE,...",
	       "carrier of arriving messages up the graph:\n"
	       "regular: a thread, to which the driver gives them\n"
	       "ipp: the driver itself (default: each is run; a lone server: ipp)",
	       .choices = host_modes),
	OPTION(CHOICES, struct roundtrip_options, handoffs, "handoff", "END,...",
	       "ends at which messages leave the driver for a thread, below the test\n"
	       "protocol: none, client, server, both (default: as in the graph)",
	       .choices = roundtrip_handoffs),
	OPTION(NUMBERS, struct roundtrip_options, threads, "threads", "N,...",
	       "input threads in regular mode, size of the pool in ipp (1)", .min = 1, .max = HOST_THREADS_MAX),
	OPTION(NUMBERS, struct roundtrip_options, cores, "cores", "A,B",
	       "cores of client and server with their threads (0,1); with\n"
	       "--drivers N, for all drivers of each, or 2N: the client's\n"
	       "first, second, ..., then the server's (one after the other)",
	       .max = HOST_CORES_MAX),
	OPTION(FILE, struct roundtrip_options, graph, "graph", "FILE", "the protocol graph (graphs/PROGRAM.dot)"),
	OPTION(NUMBER, struct roundtrip_options, seed, "seed", "S",
	       "with --link sim: the same seed gives the same run (1)", .max = UINT64_MAX),
	OPTION(TEXT, struct roundtrip_options, preset, "preset", "NAME",
	       "with --link sim: the kind of link (ethernet10):\n"
	       "a name, and changes to it: myrinet,mtu=16000"),
	OPTION(TEXT, struct roundtrip_options, costs, "costs", "COSTS",
	       "with --link sim: the costs of threads and stacks (decstation):\n"
	       "a name, and changes to it: modern,thread_switch=5us"),
	OPTION(FLAG, struct roundtrip_options, compiled, "compiled", NULL,
	       "with the graph inside a program made for it"),
	OPTION(NUMBER, struct roundtrip_options, control, "control", NULL, NULL, .max = INT32_MAX),
	OPTION(NUMBER, struct roundtrip_options, answer, "answer", NULL, NULL, .max = INT32_MAX),
	OPTION(TEXT, struct roundtrip_options, end, "end", NULL, NULL),
	{ .name = NULL },
};

const char roundtrip_footer[] = "Exit status: 0 success, 1 failure (a refused graph, a lost peer), 2 misuse.";

bool
roundtrip_is_here(const struct roundtrip_options *options, unsigned index)
{
	bool is_server = options->end != NULL && strcmp(options->end, pair_end_names[PAIR_SERVER]) == 0;

	return options->far == NULL || options->cores.count == 1 || is_server == (index >= options->cores.count / 2);
}

/* Fills in a core for each driver from the given ones: the client's, then the server's. */
static int
roundtrip_complete_cores(struct roundtrip_options *options)
{
	struct options_numbers *cores = &options->cores;
	unsigned drivers = (unsigned)options->common.drivers, core = 0;
	uint64_t client = cores->value[0], server = cores->value[cores->count < 2 ? 0 : 1];

	static_assert(2 * (int)HOST_DRIVERS_MAX <= (int)OPTIONS_LIST, "--cores has room for one per driver");
	if (cores->count > 2 && cores->count != 2 * drivers)
		return options_misuse(options->test->program,
				      "--cores takes two cores, the client's and the server's, or 2N with --drivers N");
	for (unsigned i = 0; i < cores->count; i++)
		if (roundtrip_is_here(options, i) && !host_has_core(options->test->program, cores->value[i]))
			return OPTIONS_MISUSE;
	if (cores->count == 0) {
		/* one core after the other, starting again if there are not enough */
		for (; cores->count < 2 * drivers; core = (core + 1) % (HOST_CORES_MAX + 1))
			if (machine_has_core(core))
				cores->value[cores->count++] = core;
	} else if (cores->count <= 2) {
		for (cores->count = 0; cores->count < 2 * drivers; cores->count++)
			cores->value[cores->count] = cores->count < drivers ? client : server;
	}
	return 0;
}

static int
roundtrip_check_ends(const struct roundtrip_options *options)
{
	const struct options_program *program = options->test->program;

	if ((options->server) + (options->client != 0) + (options->far != NULL) > 1)
		return options_misuse(program, "--server, --client and --far exclude each other");
	if (options->answer != 0 && options->answer != sizeof(struct pair_answer))
		return options_misuse(program, "this program and the client's are different builds");
	if (options->server && options->modes.count > 1)
		return options_misuse(program, "a lone --server runs in one --mode");
	if (options->server && options->threads.count > 1)
		return options_misuse(program, "a lone --server has one number of --threads");
	if (options->server && options->handoffs.count > 1)
		return options_misuse(program, "a lone --server has one --handoff");
	return 0;
}

static int
roundtrip_complete_simulated(struct roundtrip_options *options, const struct host_link *link)
{
	const struct options_program *program = options->test->program;
	struct sim_link_config config;
	struct xk_sim_costs costs;
	char why[XK_SIM_COSTS_WHY];

	if (!link->simulated && (options->preset != NULL || options->costs != NULL))
		return options_misuse(program, "--preset and --costs need --link sim");
	if (!link->simulated)
		return 0;
	if (options->preset == NULL)
		options->preset = ROUNDTRIP_PRESET;
	if (options->costs == NULL)
		options->costs = ROUNDTRIP_COSTS;
	if (sim_link_parse(options->preset, &config, why, sizeof(why)) != 0)
		return options_misuse(program, "--preset: %s", why);
	if (xk_sim_costs_parse(options->costs, &costs, why, sizeof(why)) != 0)
		return options_misuse(program, "--costs %s: %s", options->costs, why);
	return 0;
}

static void
roundtrip_default(struct options_numbers *list, unsigned count, uint64_t first, uint64_t second)
{
	if (list->count == 0)
		*list = (struct options_numbers){ count, { first, second } };
}

int
roundtrip_complete(struct roundtrip_options *options, const struct host_link **link)
{
	bool alone = options->server || options->client != 0;
	int status = roundtrip_check_ends(options);

	if (status == 0)
		status = roundtrip_complete_cores(options);
	if (status == 0)
		status = host_common_complete(options->test->program, &options->common, alone, link);
	if (status == 0)
		status = roundtrip_complete_simulated(options, *link);
	if (status != 0)
		return OPTIONS_MISUSE;
	options->graph = xk_graph_file(options->graph,
				       host_graph_path(options->test->graph, options->path, sizeof(options->path)));
	if (options->server)
		roundtrip_default(&options->modes, 1, XK_IPP, 0);
	roundtrip_default(&options->modes, 2, XK_REGULAR, XK_IPP);
	roundtrip_default(&options->handoffs, 1, PAIR_HANDOFF_GRAPH, 0);
	roundtrip_default(&options->threads, 1, 1, 0);
	roundtrip_default(&options->channels, 1, 1, 0);
	roundtrip_default(&options->copies, 1, 0, 0);
	roundtrip_default(&options->flows, 1, 0, 0);
	return 0;
}
