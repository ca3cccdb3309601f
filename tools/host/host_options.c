/* host_options.c - see host_options.h. */
#include "tools/host/host_options.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/capture/pcapng.h"
#include "tools/json.h"
#include "tools/machine.h"
#include "tools/output.h"

const char *const host_modes[] = { "regular", "ipp", NULL };
const char *const host_drivers[] = { "poll", "interrupt", "adaptive", NULL };

const struct options_option host_common_options[] = {
	OPTION(CHOICE, struct host_common, driver, "driver", "DRIVER",
	       "how to wait for frames: poll, interrupt, adaptive\n"
	       "(interrupt; poll on a link that cannot wake a sleeper)",
	       .choices = host_drivers),
	OPTION(TIME, struct host_common, spin_ns, "spin", "T",
	       "with --driver adaptive: time to poll after the last work (50us)", .min = 1),
	OPTION(NUMBER, struct host_common, drivers, "drivers", "N",
	       "drivers per host: each a thread with its own core and queue of each\n"
	       "port (1)",
	       .min = 1, .max = HOST_DRIVERS_MAX),
	OPTION(TEXT_ANY, struct host_common, sets, "set", "NODE.ATTR=VALUE",
	       "a setting of the graph; client:NODE... or server:NODE... for one of\n"
	       "two hosts"),
	OPTION(TEXT, struct host_common, link, "link", "LINK",
	       "the link between the hosts (virtio); `xk doctor` lists the links and\n"
	       "which of them work here; sim: simulated hosts on virtual time"),
	OPTION(FLAG, struct host_common, trace, "trace", NULL, "print each message's crossings"),
	OPTION(CHOICE, struct host_common, no_paths, "paths", "YES", "no: every message goes layer by layer (yes)",
	       .choices = options_yes_no),
	OPTION(TEXT, struct host_common, json, "json", "FILE", "write the results as JSON; - is standard output"),
	OPTION(TEXT, struct host_common, pcap, "pcap", "FILE",
	       "capture ports and taps (vtap) as pcapng, for tshark;\n"
	       "for two hosts: FILE.client and FILE.server; for one, - is standard\n"
	       "output, and other output goes to standard error"),
	OPTION(TEXT, struct host_common, journey, "journey", "FILE",
	       "with --link sim: write each message's course as a page (FILE.html) to\n"
	       "step through in a browser"),
	OPTION(TIME, struct host_common, watchdog_ns, "watchdog", "T",
	       "report a protocol that computes for this long without progress;\n"
	       "that ends a simulated run; 0: never (5s)"),
	{ .name = NULL },
};

const struct options_option host_single_options[] = {
	OPTION(CHOICE, struct host_single, mode, "mode", "MODE",
	       "carrier of arriving messages up the graph: regular: a thread, to\n"
	       "which the driver gives them; ipp (default): the driver itself",
	       .choices = host_modes),
	OPTION(NUMBER, struct host_single, threads, "threads", "N",
	       "input threads in regular mode, size of the pool in ipp (1)", .min = 1, .max = HOST_THREADS_MAX),
	OPTION(NUMBERS, struct host_single, cores, "cores", "A,...",
	       "the core of the driver and its threads (any); with --drivers N: one\n"
	       "for all drivers, or N, one per driver",
	       .max = HOST_CORES_MAX),
	{ .name = NULL },
};

int
host_common_take_output(const struct options_program *program, struct host_common *common)
{
	int fd;

	if (common->pcap == NULL || strcmp(common->pcap, "-") != 0)
		return 0;
	if (common->json != NULL && strcmp(common->json, "-") == 0)
		return options_misuse(program, "--json - and --pcap - cannot both use standard output");
	fd = output_take_stdout();
	if (fd < 0) {
		fprintf(stderr, "%s: --pcap -: no further descriptor for standard output: %s\n", program->name,
			xk_error(errno));
		return OPTIONS_FAILURE;
	}
	snprintf(common->pcap_descriptor, sizeof(common->pcap_descriptor), PCAPNG_DESCRIPTOR "%d", fd);
	common->pcap = common->pcap_descriptor;
	return 0;
}

int
host_common_journey(const struct options_program *program, const struct host_common *common, bool simulated)
{
	if (common->journey == NULL)
		return 0;
	if (common->journey[0] == '\0' || strcmp(common->journey, "-") == 0)
		return options_misuse(program, "--journey: the file name is missing");
	if (!simulated)
		return options_misuse(program, "--journey shows simulated hosts: it needs --link sim");
	return 0;
}

int
host_common_complete(const struct options_program *program, struct host_common *common, bool alone,
		     const struct host_link **link)
{
	int driver = common->driver == HOST_DRIVER_ABSENT ? -1 : (int)common->driver;

	if (!host_sets_are_valid(program, &common->sets))
		return OPTIONS_MISUSE;
	if (common->spin_ns != 0 && common->driver != XK_DRIVER_ADAPTIVE)
		return options_misuse(program, "--spin needs --driver adaptive");
	if (common->pcap != NULL && common->pcap[0] == '\0')
		return options_misuse(program, "--pcap: the file name is missing");
	if (host_link_find(program, common->link, driver, link) != 0)
		return OPTIONS_MISUSE;
	if (host_common_journey(program, common, (*link)->simulated) != 0)
		return OPTIONS_MISUSE;
	if (common->drivers > (*link)->drivers && (*link)->simulated)
		return options_misuse(program, "--drivers %" PRIu64 ": a simulated host has only one", common->drivers);
	if (common->drivers > (*link)->drivers && (*link)->drivers == 1)
		return options_misuse(program, "--link %s has one queue, so a host on it has one driver", common->link);
	if (common->drivers > (*link)->drivers)
		return options_misuse(program,
				      "--link %s has at most %u queues, so a host on it has at most as many drivers",
				      common->link, (*link)->drivers);
	if (!alone && common->pcap != NULL && strcmp(common->pcap, "-") == 0)
		return options_misuse(program,
				      "--pcap -: each end writes a file, but there is only one standard output");
	if (alone && (*link)->in_process)
		return options_misuse(program, "--link %s joins hosts of one process: neither end can run alone",
				      common->link);
	if (common->driver == HOST_DRIVER_ABSENT)
		common->driver = (*link)->can_sleep ? XK_DRIVER_INTERRUPT : XK_DRIVER_POLL;
	return host_common_take_output(program, common);
}

struct host_options
host_single_options_of(const struct host_common *common, const struct host_single *single, const struct host_link *link)
{
	return (struct host_options){
		.sets = &common->sets,
		.link = link,
		.link_name = common->link,
		.meeting = "",
		.mode = (enum xk_mode)single->mode,
		.driver = (enum xk_driver_policy)common->driver,
		.spin_ns = common->spin_ns,
		.threads = (unsigned)single->threads,
		.drivers = (unsigned)common->drivers,
		.cores = single->cores.count == 0 ? NULL : single->cores.value,
		.yields = common->drivers > 1,
		.trace = common->trace,
		.no_paths = common->no_paths != 0,
		.pcap = common->pcap,
	};
}

bool
host_has_core(const struct options_program *program, uint64_t core)
{
	if (machine_has_core((unsigned)core))
		return true;
	options_misuse(program, "--cores: this program may not use core %" PRIu64, core);
	return false;
}

bool
host_single_is_given(const struct host_single *single)
{
	return single->mode != HOST_MODE_ABSENT || single->threads != 0 || single->cores.count != 0;
}

int
host_single_complete(const struct options_program *program, struct host_single *single, uint64_t drivers)
{
	struct options_numbers *cores = &single->cores;

	if (cores->count > 1 && drivers == 1)
		return options_misuse(program, "--cores takes one core: there is one driver (--drivers)");
	if (cores->count > 1 && cores->count != drivers)
		return options_misuse(program, "--cores takes one core, or one for each of the %" PRIu64 " drivers",
				      drivers);
	for (unsigned i = 0; i < cores->count; i++)
		if (!host_has_core(program, cores->value[i]))
			return OPTIONS_MISUSE;
	while (cores->count > 0 && cores->count < drivers)
		cores->value[cores->count++] = cores->value[0];
	if (single->mode == HOST_MODE_ABSENT)
		single->mode = XK_IPP;
	if (single->threads == 0)
		single->threads = 1;
	return 0;
}

int
host_open_json(const char *program, const char *file, FILE **out)
{
	*out = NULL;
	if (file == NULL)
		return 0;
	*out = output_open(file);
	if (*out != NULL)
		return 0;
	fprintf(stderr, "%s: --json %s cannot be written: %s\n", program, file, xk_error(errno));
	return OPTIONS_FAILURE;
}

int
host_end_json(const char *program, const char *file, struct json *json)
{
	json_close(json);
	if (json_end(json))
		return 0;
	fprintf(stderr, "%s: --json %s cannot be written: %s\n", program, file, xk_error(errno));
	return OPTIONS_FAILURE;
}

void
host_close_json(FILE *out)
{
	if (out != NULL && out != stdout)
		fclose(out);
}
