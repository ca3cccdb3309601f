/* net_capture.c - see net_capture.h. */
#include "tools/net/net_capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/capture/pcapng.h"
#include "tools/options.h"
#include "xkernel/capture.h"

enum { NET_CAPTURE_NAME = 2 * XK_GRAPH_NAME_MAX + 32 };

/* A tap. It keeps its interface when its host is booted again. */
struct net_capture_tap {
	struct net_capture_tap *next;
	int interface;
	char name[];
};

struct net_capture_host {
	struct xk_capture sink;
	struct net_capture *capture;
	const struct net_host *host;
	struct net_capture_tap *taps;
	unsigned devices[XK_TOPOLOGY_DEVICES_MAX]; /* interfaces */
};

struct net_capture {
	const struct net *net;
	const char *path;
	struct pcapng *file;
	uint8_t *bytes; /* room for a message of several segments */
	bool stopped;
	struct net_capture_host hosts[];
};

static int
net_capture_fail(const struct net *net, const char *path, int err)
{
	fprintf(stderr, "%s: --pcap %s cannot be written: %s\n", net->program, path, strerror(err));
	return OPTIONS_FAILURE;
}

/* ---- taps ---- */

static int
net_capture_add(struct xk_capture *sink, const char *name, enum xk_capture_link link)
{
	struct net_capture_host *host = xk_container_of(sink, struct net_capture_host, sink);
	size_t size = strlen(host->host->topology->name) + strlen(name) + 2;
	struct net_capture_tap *tap = malloc(sizeof(*tap) + size);

	if (tap == NULL)
		return -ENOMEM;
	snprintf(tap->name, size, "%s.%s", host->host->topology->name, name);
	for (struct net_capture_tap *t = host->taps; t != NULL; t = t->next)
		if (strcmp(t->name, tap->name) == 0) {
			free(tap);
			return t->interface;
		}
	tap->interface = (int)pcapng_interface_of(host->capture->file, tap->name, NULL, link);
	tap->next = host->taps;
	host->taps = tap;
	return tap->interface;
}

static void
net_capture_tap_see(struct xk_capture *sink, unsigned place, enum xk_capture_way way, const struct xk_msg *m)
{
	const struct net_capture_host *host = xk_container_of(sink, struct net_capture_host, sink);
	struct xk_platform *platform = xk_sim_platform(host->host->sim);
	const uint8_t *bytes = m->data;

	if (host->capture->stopped)
		return;
	if (m->next != NULL) {
		bytes = host->capture->bytes;
		xk_msg_copy_out(m, 0, host->capture->bytes, xk_msg_len(m));
	}
	pcapng_frame(host->capture->file, place, platform->ops->now_ns(platform),
		     way == XK_CAPTURE_UP ? PCAPNG_IN : PCAPNG_OUT, bytes, xk_msg_len(m), NULL);
}

static const struct xk_capture_ops net_capture_ops = { .add = net_capture_add, .see = net_capture_tap_see };

/* ---- devices ---- */

void
net_capture_see(struct net_capture *capture, const struct xk_sim_record *record)
{
	if (record->frame != NULL)
		pcapng_frame(capture->file, capture->hosts[xk_sim_host_number(record->host)].devices[record->device],
			     record->at_ns, record->event == XK_SIM_SENT ? PCAPNG_OUT : PCAPNG_IN, record->frame,
			     record->len, record->why);
}

static void
net_capture_add_host(struct net_capture *capture, struct net_host *host, struct net_capture_host *captured)
{
	const struct xk_topology_host *topology = host->topology;
	char name[NET_CAPTURE_NAME];

	captured->sink.ops = &net_capture_ops;
	captured->capture = capture;
	captured->host = host;
	host->capture = &captured->sink;
	for (unsigned i = 0; i < topology->device_count; i++) {
		snprintf(name, sizeof(name), "%s.%s", topology->name, topology->devices[i].name);
		captured->devices[i] = pcapng_interface(capture->file, name);
	}
}

/* ---- opening and closing ---- */

static void
net_capture_free(struct net_capture *capture)
{
	for (unsigned i = 0; i < capture->net->topology->host_count; i++) {
		struct net_capture_tap *tap;

		while ((tap = capture->hosts[i].taps) != NULL) {
			capture->hosts[i].taps = tap->next;
			free(tap);
		}
	}
	free(capture->bytes);
	free(capture);
}

int
net_capture_open(struct net *net, const char *path)
{
	unsigned host_count = net->topology->host_count;
	struct net_capture *capture = calloc(1, sizeof(*capture) + host_count * sizeof(capture->hosts[0]));

	if (capture != NULL) {
		capture->net = net;
		capture->path = path;
		capture->bytes = malloc(XK_MSG_MAX);
		capture->file = capture->bytes == NULL ? NULL : pcapng_open(path, net->program);
	}
	if (capture == NULL || capture->file == NULL) {
		net_capture_fail(net, path, errno);
		if (capture != NULL)
			net_capture_free(capture);
		return OPTIONS_FAILURE;
	}
	for (unsigned i = 0; i < host_count; i++)
		net_capture_add_host(capture, &net->hosts[i], &capture->hosts[i]);
	net->capture = capture;
	return 0;
}

void
net_capture_stop(struct net_capture *capture)
{
	if (capture != NULL)
		capture->stopped = true;
}

int
net_capture_close(struct net_capture *capture)
{
	int err, status;

	if (capture == NULL)
		return 0;
	err = pcapng_close(capture->file);
	status = err == 0 ? 0 : net_capture_fail(capture->net, capture->path, -err);
	net_capture_free(capture);
	return status;
}
