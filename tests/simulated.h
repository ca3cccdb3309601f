/* simulated.h - for tests of hosts on a simulated link: makes hosts, and kernels for their boot functions. */
#ifndef TESTS_SIMULATED_H
#define TESTS_SIMULATED_H

#include "platform/sim/sim.h"
#include "tests/compose.h"

/* Makes the kernel of a booting host, with its one port; config has its mode, threads and stacks. */
static inline struct xk_kernel *
simulated_kernel(struct xk_sim_host *host, struct xk_kernel_config config)
{
	struct xk_kernel *kernel;

	config.name = xk_sim_host_name(host);
	config.platform = xk_sim_platform(host);
	config.driver = XK_DRIVER_INTERRUPT;
	config.core = -1;
	kernel = xk_kernel_new(&config);
	REQUIRE(kernel != NULL);
	xk_kernel_add_port(kernel, xk_sim_port_new(host, 0));
	return kernel;
}

/* Initializes and starts the composed kernel. Returns kernel. */
static inline struct xk_kernel *
simulated_start(struct xk_kernel *kernel)
{
	struct xk_protocol *failed;

	REQUIRE(xk_kernel_init(kernel, &failed) == 0);
	REQUIRE(xk_kernel_start(kernel) == 0);
	return kernel;
}

/* Makes a host on link, not yet booted; the first host's link address is 02:00:00:00:00:01. */
static inline struct xk_sim_host *
simulated_host(struct xk_sim *sim, struct xk_sim_link *link, const char *name,
	       struct xk_kernel *(*boot)(void *context, struct xk_sim_host *host), void *context)
{
	struct xk_sim_host_config config = { .name = name, .boot = boot, .context = context };
	struct xk_sim_host *host = xk_sim_host_new(sim, &config);

	REQUIRE(xk_sim_attach(host, "port", link, 0x020000000001 + xk_sim_host_number(host)) == 0);
	return host;
}

#endif
