/* host_private.h - what the files that make hosts share; see host.h. */
#ifndef HOST_PRIVATE_H
#define HOST_PRIVATE_H

#include "tools/host.h"

/* Says on standard error what failed, and why. Returns OPTIONS_FAILURE. */
int host_fail(const struct host *host, const char *what, const char *why);

/* Makes the kernel on host's platform and ports, and the graph in it. 0, or the status to exit with. */
int host_compose(struct host *host);

/* ---- host_sim.c: --link sim ---- */

/* As host_open_both. */
int host_world_open(struct host hosts[2], const struct host_options options[2]);

/* The host leaves its world, which goes with the last. 0, or OPTIONS_FAILURE if buffers have not come back. */
int host_world_close(struct host *host);

#endif
