/* host_private.h - shared by the files that create hosts; a status is as in host.h. */
#ifndef HOST_PRIVATE_H
#define HOST_PRIVATE_H

#include "tools/host/host.h"
#include "tools/host/netns.h"

/* Ports' link addresses: this plus 256 times the port's index, plus 1 for the first host or 2 for the second. */
#define HOST_LINK_ADDRESS UINT64_C(0x020000000000)

/* Prints an error. Returns OPTIONS_FAILURE. */
int host_fail(const struct host *host, const char *what, const char *why);

/* Calls host_load and opens the file of --pcap. */
int host_begin(struct host *host, const struct host_options *options);

/* Returns the core of a driver, or -1 for any. */
int host_core(const struct host *host, unsigned driver);

/* Creates the kernel on the host's platforms and ports, and builds the graph in it. */
int host_compose(struct host *host);

/* ---- host_link.c ---- */

/* Returns true if the host uses interfaces that host_prepare_pair has created. */
bool host_has_own_network(const struct host *host);

void host_interface_name(char *name, unsigned port, const char *whose);

/* ---- host_dpdk.c ---- */

int host_start_dpdk(struct host *host);
void host_stop_dpdk(struct xk_platform *platform);

bool host_port_is_up(const struct xk_port *port);

/* Opens host's ports, whose other ends are in other processes. */
int host_open_ports(struct host *host);

/* Opens and joins the ports of two hosts. */
int host_open_rings(struct host hosts[2]);

/* ---- host_sim.c: --link sim ---- */

/* Opens two hosts like host_open_both. */
int host_world_open(struct host hosts[2], const struct host_options options[2]);

/* Removes the host from its world; the last one frees the world and fails if buffers have leaked. */
int host_world_close(struct host *host);

#endif
