/* host_private.h - what the files that make hosts share; see host.h. */
#ifndef HOST_PRIVATE_H
#define HOST_PRIVATE_H

#include "tools/host/host.h"

/* Says on standard error what failed, and why. Returns OPTIONS_FAILURE. */
int host_fail(const struct host *host, const char *what, const char *why);

/* Makes the kernel on host's platform and ports, and the graph in it. 0, or the status to exit with. */
int host_compose(struct host *host);

/* ---- host_link.c: platform and ports on DPDK. 0, or OPTIONS_FAILURE and a sentence ---- */

bool host_is_on_dpdk(const struct host *host);
int host_start_dpdk(struct host *host);
void host_stop_dpdk(struct xk_platform *platform);

/* Opens host's ports, whose other ends are in other processes. */
int host_open_ports(struct host *host);

/* Joins the ports of two hosts. */
int host_open_rings(struct host hosts[2]);

/* Adds what a lane of a port dropped by itself. */
void host_count_device(const struct host *host, unsigned port, const struct xk_port *lane, struct pair_counts *counts);

/* ---- host_capture.c: --pcap; without it, these do nothing. 0, or OPTIONS_FAILURE and a sentence ---- */

int host_capture_open(struct host *host);
/* When platform and ports are there, and nobody uses them yet. */
int host_capture_ports(struct host *host);
/* When the kernel is no more, and the platform still is or time was virtual. */
int host_capture_close(struct host *host);

/* ---- host_sim.c: --link sim ---- */

/* As host_open_both. */
int host_world_open(struct host hosts[2], const struct host_options options[2]);

/* The host leaves its world, which goes with the last. 0, or OPTIONS_FAILURE if buffers have not come back. */
int host_world_close(struct host *host);

#endif
