/* udptest_options.c - the options of udptest, and what stands for those that are not given. */
#include <inttypes.h>

#include "platform/sim/sim.h"
#include "tools/udptest.h"

enum { UDPTEST_ROUNDS_MAX = 1000000000 };

#define UDPTEST_PRESET "ethernet10"
#define UDPTEST_COSTS "decstation"

static const char *const udptest_handoffs[] = { "none", "client", "server", "both", NULL };
const char *const udptest_handoff_names[] = { "none", "client", "server", "both", "graph" };

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
	  .choices = host_modes,
	  .help = "who carries an arriving message up the graph:\n"
		  "regular: a thread, given it by the driver\n"
		  "ipp: the driver itself (default: each is run; a lone server: ipp)" },
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
	  .max = HOST_THREADS_MAX,
	  .help = "input threads in regular mode, size of the pool in ipp (1)" },
	{ .name = "cores",
	  .kind = OPTIONS_NUMBERS,
	  .offset = UDPTEST_AT(cores),
	  .argument = "A,B",
	  .max = HOST_CORES_MAX,
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
	{ .name = "seed",
	  .kind = OPTIONS_NUMBER,
	  .offset = UDPTEST_AT(seed),
	  .argument = "S",
	  .max = UINT64_MAX,
	  .help = "of --link sim: the same seed gives the same run (1)" },
	{ .name = "preset",
	  .kind = OPTIONS_TEXT,
	  .offset = UDPTEST_AT(preset),
	  .argument = "NAME",
	  .help = "of --link sim: what the link is like (ethernet10)" },
	{ .name = "costs",
	  .kind = OPTIONS_TEXT,
	  .offset = UDPTEST_AT(costs),
	  .argument = "COSTS",
	  .help = "of --link sim: what threads and stacks cost (decstation):\n"
		  "a name, and what is otherwise: modern,thread_switch=5us" },
	{ .name = "compiled",
	  .kind = OPTIONS_FLAG,
	  .offset = UDPTEST_AT(compiled),
	  .help = "the graph compiled (not available in this build)" },
	{ .name = "control", .kind = OPTIONS_NUMBER, .offset = UDPTEST_AT(control), .min = 1, .max = INT32_MAX },
	{ .name = "end", .kind = OPTIONS_TEXT, .offset = UDPTEST_AT(end) },
	{ .name = NULL },
};

const struct options_program udptest_program = {
	.name = "udptest",
	.usage = "[OPTION]...",
	.about = "Measures round trips of UDP messages between two hosts: a request goes up the server's protocol "
		 "graph\n"
		 "and its echo up the client's. Without --server or --client both ends are started here, as two\n"
		 "processes, and the modes are compared in short alternating blocks.",
	.footer = "Exit status: 0 success, 1 failure (a refused graph, a lost peer), 2 misuse.",
	.options = udptest_table,
	.shared = { { host_common_options, UDPTEST_AT(common) } },
};

/* A machine with one core gets both ends on it, unless other cores were asked for. */
static bool
udptest_check_cores(struct udptest_options *options)
{
	struct options_numbers *cores = &options->cores;

	if (cores->count == 0) {
		unsigned first = 0, second;

		while (first < HOST_CORES_MAX && !machine_has_core(first))
			first++;
		for (second = first + 1; second < HOST_CORES_MAX && !machine_has_core(second);)
			second++;
		*cores = (struct options_numbers){ 2, { first, second < HOST_CORES_MAX ? second : first } };
		return true;
	}
	if (cores->count > 2) {
		options_misuse(&udptest_program, "--cores takes two: the client's and the server's");
		return false;
	}
	if (cores->count == 1)
		cores->value[cores->count++] = cores->value[0];
	return host_has_core(&udptest_program, cores->value[0]) && host_has_core(&udptest_program, cores->value[1]);
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

static bool
udptest_check_simulated(struct udptest_options *options, const struct host_link *link)
{
	struct xk_sim_costs costs;
	char why[XK_SIM_COSTS_WHY];

	if (link->simulated && options->preset == NULL)
		options->preset = UDPTEST_PRESET;
	if (link->simulated && options->costs == NULL)
		options->costs = UDPTEST_COSTS;
	if (!link->simulated && (options->preset != NULL || options->costs != NULL))
		options_misuse(&udptest_program, "--preset and --costs are of --link sim");
	else if (options->preset != NULL && sim_link_preset_find(options->preset) == NULL)
		options_misuse(&udptest_program, "--preset: there is no link \"%s\"; docs/links.md lists them",
			       options->preset);
	else if (options->costs != NULL && xk_sim_costs_parse(options->costs, &costs, why, sizeof(why)) != 0)
		options_misuse(&udptest_program, "--costs %s: %s", options->costs, why);
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

int
udptest_complete(struct udptest_options *options, const struct host_link **link)
{
	bool alone = options->server || options->client != NULL;

	if (options->compiled)
		return options_misuse(&udptest_program, "--compiled is not available in this build");
	if (!udptest_check_ends(options) || !udptest_check_cores(options) ||
	    host_common_complete(&udptest_program, &options->common, alone, link) != 0)
		return OPTIONS_MISUSE;
	if (!udptest_check_simulated(options, *link))
		return OPTIONS_MISUSE;
	if (options->graph == NULL)
		options->graph = host_graph_path("udptest.dot", options->path, sizeof(options->path));
	if (options->server)
		udptest_default(&options->modes, 1, XK_IPP, 0);
	udptest_default(&options->modes, 2, XK_REGULAR, XK_IPP);
	udptest_default(&options->handoffs, 1, PAIR_HANDOFF_GRAPH, 0);
	udptest_default(&options->threads, 1, 1, 0);
	udptest_default(&options->sizes, 1, 1, 0);
	return 0;
}
