/* xk_run.c - `xk run`: the options, for a network file in the simulator or for one host on a real link. */
#include <string.h>

#include "graphs/graph.h"
#include "tools/program/program.h"
#include "tools/xk/xk.h"
#include "tools/xk/xk_run_private.h"

static const char *const run_ends[] = { "client", "server", NULL }; /* by PAIR_CLIENT and PAIR_SERVER */

static const struct options_option run_options[] = {
	OPTION(CHOICE, struct run_options, end, "end", "END",
	       "of a host: which end of its link it is, client or server\n"
	       "(server); what is not set it has at 10.77.0.1 as client,\n"
	       "at 10.77.0.2 as server",
	       .choices = run_ends),
	OPTION(NUMBERS, struct run_options, seeds, "seed", "S",
	       "of a network: what happens by chance; the same seed gives the\n"
	       "same run (1)",
	       .max = UINT64_MAX),
	OPTION(TEXT, struct run_options, until, "until", "T",
	       "of a network: how much virtual time passes: 500ms, 10s (1s)"),
	OPTION(FLAG, struct run_options, quiet, "quiet", NULL, "of a network: do not print frames"),
	OPTION(TEXT, struct run_options, show, "show", "NODE,...",
	       "of a network: print the counts of these protocols only; `host`\n"
	       "stands for the hosts' own, `link` for the links'"),
	OPTION(FLAG, struct run_options, telemetry, "telemetry", NULL,
	       "of a host: dpdk-telemetry.py can ask it, too (/xkernel/...)"),
	{ .name = NULL },
};

const struct options_program run_program = {
	.name = "xk run",
	.usage = "GRAPH|NETWORK [OPTION]...",
	.about = "Of a graph file (digraph): a host with these protocols, which stands on its link until SIGINT,\n"
		 "SIGTERM or SIGHUP, and then tells what it has counted. A second signal ends it at once.\n\n"
		 "Of a network file (graph), with --link sim: its hosts and links in the simulator, on virtual time.\n"
		 "Each frame, boot and crash is a line on standard output; what was counted, and a hash of all that\n"
		 "happened, come at the end on standard error. Settings there are of a host or link, of a host's\n"
		 "graph (--set HOST.NODE.ATTR=VALUE), of every host's (--set graph.NODE.ATTR=VALUE).",
	.footer = "Exit status: 0 success, 1 failure (a refused file, a link or host that does not work, lost\n"
		  "buffers), 2 misuse.",
	.options = run_options,
	.shared = { { host_single_options, offsetof(struct run_options, single) },
		    { host_common_options, offsetof(struct run_options, common) } },
	.operands_min = 1,
	.operands_max = 1,
};

static int
run_network_checked(struct run_options *options, const char *file)
{
	const struct host_common *common = &options->common;
	int status;

	if (options->until == NULL)
		options->until = "1s";
	if (options->seeds.count > 1)
		return options_misuse(&run_program, "--seed takes one");
	options->seed = options->seeds.count == 0 ? 1 : options->seeds.value[0];
	if (common->link == NULL || strcmp(common->link, "sim") != 0)
		return options_misuse(&run_program, "networks run in the simulator: --link sim");
	if (!xk_time_parse(options->until, &options->until_ns))
		return options_misuse(&run_program, "--until: \"%s\" is no time such as 500ms or 10s", options->until);
	if (host_single_is_given(&options->single) || options->end != PAIR_ENDS || options->telemetry ||
	    common->driver != HOST_DRIVER_ABSENT || common->drivers != 1)
		return options_misuse(&run_program, "--mode, --threads, --cores, --driver, --drivers, --end and "
						    "--telemetry are of a host: set what "
						    "there is "
						    "in the network file, or --set HOST.mode=regular");
	if (common->json != NULL && strcmp(common->json, "-") == 0 && !options->quiet)
		return options_misuse(&run_program, "--json - needs --quiet: standard output has the trace");
	if (host_common_watchdog(&run_program, &options->common) != 0)
		return OPTIONS_MISUSE;
	status = host_common_take_output(&run_program, &options->common);
	return status != 0 ? status : run_network_main(options, file);
}

static int
run_host_checked(struct run_options *options, const char *file)
{
	const struct host_link *link;
	int status;

	if (options->until != NULL || options->quiet || options->seeds.count > 0 || options->show != NULL)
		return options_misuse(&run_program,
				      "--until, --quiet, --seed and --show are of network files, and %s is a graph",
				      file);
	status = host_common_complete(&run_program, &options->common, true, &link);
	if (status == 0)
		status = host_single_complete(&run_program, &options->single, options->common.drivers);
	if (status != 0)
		return status;
	if (options->end == PAIR_ENDS)
		options->end = PAIR_SERVER;
	return run_host_main(options, file, link);
}

int
xk_run_main(int argc, char **argv)
{
	struct run_options options = { .common = HOST_COMMON_INITIAL, .single = HOST_SINGLE_INITIAL, .end = PAIR_ENDS };
	struct options_texts operands;
	const char *link;
	bool is_network;
	int status;

	options.common.link = NULL;
	status = options_parse(&run_program, argc, argv, &options, &operands);
	if (status != OPTIONS_GO)
		return status;
	link = options.common.link;
	is_network = (program_graph == NULL || strcmp(operands.text[0], program_graph->file) != 0) &&
		     xk_graph_file_is_network(operands.text[0]);
	if (link == NULL && !is_network)
		options.common.link = "virtio";
	if ((link != NULL && strcmp(link, "sim") == 0) || is_network)
		return run_network_checked(&options, operands.text[0]);
	return run_host_checked(&options, operands.text[0]);
}
