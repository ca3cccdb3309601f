/* host_capture.c - what of a host goes into the file of --pcap. */
#include <stdlib.h>

#include "tools/capture/capture_file.h"
#include "tools/host/host_private.h"

/* The ends of a pair, which were given the same options, write a file each. */
static void
host_capture_path(const struct host_options *options, char *path, size_t size)
{
	if (options->paired)
		snprintf(path, size, "%s.%s", options->pcap, options->name);
	else
		snprintf(path, size, "%s", options->pcap);
}

int
host_capture_open(struct host *host)
{
	char path[HOST_PATH];

	if (host->options.pcap == NULL)
		return 0;
	host_capture_path(&host->options, path, sizeof(path));
	host->capture = capture_open(host->options.program, path, host->options.name);
	return host->capture == NULL ? OPTIONS_FAILURE : 0;
}

int
host_capture_check(const struct host_options *options)
{
	struct host host = { .options = *options };
	int status = host_capture_open(&host);

	return status == 0 ? capture_close(host.capture) : status;
}

int
host_capture_ports(struct host *host)
{
	int status = capture_start(host->capture, host->platforms[0]);

	for (unsigned i = 0; i < host->port_count; i++)
		for (unsigned lane = 0; lane < host_driver_count(host) && status == 0; lane++)
			status = capture_port(host->capture, host->ports[i][lane], host->port_nodes[i]);
	return status;
}

int
host_capture_close(struct host *host)
{
	int status = capture_close(host->capture);

	host->capture = NULL;
	return status;
}
