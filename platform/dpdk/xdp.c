/*
 * xdp.c - link `af_xdp`: queue 0 of a network interface of the operating system, by an XDP socket. Its frames go to the
 * port instead of the operating system.
 *
 * DPDK's driver has no interrupts, but its socket, found among the process's descriptors, becomes readable. The kernel
 * writes frames into a pool of the device's own, because the driver does not return buffers that the kernel still has
 * at the end. The driver copies frames to send into that pool.
 */
#include <dlfcn.h>
#include <linux/capability.h>
#include <linux/if_xdp.h>
#include <rte_mempool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"
#include "xkernel/engine/stack.h"

enum { DPDK_XDP_ARGUMENTS = 96, DPDK_XDP_BUFFERS = 4096, DPDK_XDP_TRIES = 20, DPDK_XDP_PAUSE_US = 50000 };

/* DPDK's driver leaks 80 bytes of the XDP library, which the leak sanitizer should not report. */
#ifdef XK_CONTEXT_ASAN
#include <sanitizer/lsan_interface.h>
#else
#define __lsan_disable()
#define __lsan_enable()
#endif

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
#endif

struct dpdk_xdp {
	struct dpdk_interface interface; /* with DPDK's socket */
	struct dpdk_guard guard;
	_Atomic uint64_t missed; /* the kernel's count at the last reading */
};

static int
dpdk_xdp_print_nothing(int level, const char *format, va_list arguments)
{
	(void)level;
	(void)format;
	(void)arguments;
	return 0;
}

/*
 * Silences the libraries that load the XDP program, which print their attempts on standard error. They are loaded with
 * DPDK's driver, which links them. Also disables their dispatcher, which shares an interface among programs by files
 * that a killed process would leave behind.
 */
static void
dpdk_xdp_silence(void)
{
	static const char *const libraries[][2] = { { "libxdp.so.1", "libxdp_set_print" },
						    { "libbpf.so.1", "libbpf_set_print" } };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(libraries); i++) {
		void *library = dlopen(libraries[i][0], RTLD_LAZY | RTLD_NOLOAD);
		void *(*set_print)(int (*print)(int, const char *, va_list)) = NULL;

		if (library == NULL)
			continue;
		*(void **)&set_print = dlsym(library, libraries[i][1]);
		if (set_print != NULL)
			set_print(dpdk_xdp_print_nothing);
		dlclose(library);
	}
	setenv("LIBXDP_SKIP_DISPATCHER", "1", 0);
}

static int
dpdk_xdp_start(struct dpdk_device *device, const char *interface, char *why, size_t size)
{
	char arguments[DPDK_XDP_ARGUMENTS];
	int error;

	device->pool = dpdk_buffer_pool_new_lent(DPDK_XDP_BUFFERS, why, size);
	if (device->pool == NULL)
		return -ENOMEM;
	dpdk_device_name(device, "net_af_xdp");
	snprintf(arguments, sizeof(arguments), "iface=%s,busy_budget=0", interface);
	__lsan_disable();
	error = dpdk_device_plug(device, arguments, "DPDK creates no af_xdp device", why, size);
	if (error == 0)
		error = dpdk_device_start(device, why, size);
	__lsan_enable();
	return error;
}

/* Retries for a while: the kernel frees a queue a moment after its last socket was closed, without notification. */
static int
dpdk_xdp_start_with_retries(struct dpdk_device *device, const char *interface, char *why, size_t size)
{
	int error = dpdk_xdp_start(device, interface, why, size);

	for (unsigned i = 0; i < DPDK_XDP_TRIES && error != 0; i++) {
		/* A device that did not start has taken buffers nevertheless. */
		dpdk_device_unplug(device);
		rte_mempool_free(device->pool);
		device->pool = NULL;
		usleep(DPDK_XDP_PAUSE_US);
		error = dpdk_xdp_start(device, interface, why, size);
	}
	return error;
}

/* Creates the device on the interface, and finds its socket. */
static int
dpdk_xdp_take(struct dpdk_port *port, const char *name, char *why, size_t size)
{
	struct dpdk_interface *interface = port->device->state;
	struct dpdk_descriptors before;
	struct stat status;
	int fd, error;

	if (!dpdk_descriptors_find(&before, AF_XDP)) {
		snprintf(why, size, "%s",
			 before.count > 0 ? "this process has too many XDP sockets of its own: close some"
					  : "the XDP socket could not be found: mount /proc, or use link af_packet");
		return -ENOENT;
	}
	error = dpdk_xdp_start_with_retries(port->device, name, why, size);
	if (error != 0) {
		size_t len = strlen(why);

		snprintf(why + len, size - len,
			 "; bridges and some drivers do not support XDP sockets: use link af_packet there");
		return error;
	}
	fd = dpdk_descriptors_new(&before, AF_XDP);
	if (fd >= 0 && fstat(fd, &status) == 0) {
		interface->socket_fd = fd;
		interface->socket = status.st_ino;
	}
	dpdk_port_watch_fd(port, fd);
	return 0;
}

static int
dpdk_xdp_open(struct dpdk_port *port, const struct xk_dpdk_port_config *config, char *why, size_t size)
{
	static const unsigned needed[] = { CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF };
	struct dpdk_device *device = port->device;
	const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	int error = dpdk_interface_new(device, sizeof(struct dpdk_xdp), config->device, why, size);
	struct dpdk_xdp *self = device->state;

	if (error == 0)
		error = dpdk_interface_check(&self->interface, needed, XK_ARRAY_LENGTH(needed), "link af_xdp", why,
					     size);
	if (error != 0)
		return error;
	setrlimit(RLIMIT_MEMLOCK, &unlimited); /* the buffers count as locked memory */
	dpdk_xdp_silence();
	port->guard = &self->guard;
	error = dpdk_xdp_take(port, config->device, why, size);
	return error != 0 ? error : dpdk_interface_attach(port, why, size);
}

/* Releases the pool and the socket of a device that is gone. */
static void
dpdk_xdp_leave(struct dpdk_device *device)
{
	struct dpdk_platform *platform = dpdk_owner_of(device->ports[0]->base.platform);
	struct dpdk_interface *interface = device->state;
	struct stat status;

	/* Messages may outlive the device, but not the platform. */
	if (atomic_load_explicit(&platform->borrowed, memory_order_acquire) > 0 && platform->left_count < DPDK_POOLS)
		platform->left[platform->left_count++] = device->pool;
	else
		rte_mempool_free(device->pool);
	device->pool = NULL;
	/* DPDK's driver leaves its socket open, which would keep the queue in use. */
	if (interface != NULL && interface->socket_fd >= 0 && fstat(interface->socket_fd, &status) == 0 &&
	    S_ISSOCK(status.st_mode) && status.st_ino == interface->socket)
		close(interface->socket_fd);
	if (interface != NULL)
		interface->socket_fd = -1;
}

/* Creates a new device: the XDP program and the socket's binding went with the old interface. */
static int
dpdk_xdp_reopen(struct dpdk_port *port, char *why, size_t size)
{
	struct dpdk_platform *platform = dpdk_owner_of(port->base.platform);
	struct dpdk_xdp *self = port->device->state;
	int error;

	/* The old device's pool may stay in use until the process ends, so the number of pools must be bounded. */
	if (platform->left_count == DPDK_POOLS) {
		snprintf(why, size, "the interface was recreated too often: restart the program");
		return -ENOMEM;
	}
	dpdk_guard_shut(&self->guard);
	dpdk_device_unplug(port->device);
	dpdk_xdp_leave(port->device);
	error = dpdk_xdp_take(port, self->interface.now.name, why, size);
	dpdk_guard_open(&self->guard);
	return error;
}

static void
dpdk_xdp_closed(struct dpdk_device *device)
{
	dpdk_xdp_leave(device);
	dpdk_interface_free(device);
}

/* Counts frames for which the kernel had no buffer or no slot in the ring. */
static void
dpdk_xdp_count(struct dpdk_port *port)
{
	struct dpdk_xdp *self = port->device->state;
	struct xdp_statistics now;
	socklen_t len = sizeof(now);
	uint64_t missed, before;

	memset(&now, 0, sizeof(now));
	if (getsockopt(self->interface.socket_fd, SOL_XDP, XDP_STATISTICS, &now, &len) != 0)
		return;
	missed = now.rx_dropped + now.rx_ring_full;
	before = atomic_exchange_explicit(&self->missed, missed, memory_order_relaxed);
	if (missed > before)
		dpdk_port_count(port, DPDK_COUNT_RX_MISSED, missed - before);
}

const struct dpdk_link dpdk_link_xdp = {
	.about = { "af_xdp", "a network interface of the kernel, by an XDP socket", XK_DPDK_NEEDS_INTERFACE, true, 1 },
	.open = dpdk_xdp_open,
	.closed = dpdk_xdp_closed,
	.count = dpdk_xdp_count,
	.is_missed_twice = true,
	.reopen = dpdk_xdp_reopen,
};
