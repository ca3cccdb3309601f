/*
 * dpdk.h - the DPDK platform: buffers are mbufs, ports are DPDK devices, time comes from the processor's counter.
 *
 * A program calls xk_dpdk_start and xk_dpdk_open, hands platform and port to a kernel (kernel.h), which closes the
 * port, and calls xk_dpdk_stop at the end. Any user may do so, with or without huge pages or a network card: DPDK uses
 * only the PCI devices it is given, and leaves no files behind. docs/dpdk.md describes the links, and what to do when
 * something fails.
 *
 * A platform serves one driver. Two hosts in one process have two platforms. A host with several drivers has one
 * platform for each, the first from xk_dpdk_start and the others from xk_dpdk_start_beside, and ports from
 * xk_dpdk_open_lanes. The first xk_dpdk_start of a process starts DPDK, which runs until the process ends, with the
 * core, memory and huge pages that the first caller chose. Fork before the first start, not after it.
 *
 * Functions with `why` return 0, or -errno with a sentence in why that states what is wrong and what to do; those that
 * return a port return NULL instead. Unless marked otherwise, functions are for the main thread while no driver runs.
 */
#ifndef XK_PLATFORM_DPDK_H
#define XK_PLATFORM_DPDK_H

#include "xkernel/platform.h"

struct event_base;
struct xk_kernel;

enum {
	XK_DPDK_WHY = 512,             /* size of `why` that fits every message */
	XK_DPDK_WAIT_MS = 10000,       /* default time that a client waits for its server */
	XK_DPDK_BUFFERS = 8192,        /* default per platform */
	XK_DPDK_BUFFERS_MIN = 2048,    /* each ring and each thread's cache holds hundreds */
	XK_DPDK_BUFFERS_MAX = 1 << 20, /* 2.6 GB */
};

enum xk_dpdk_hugepages {
	XK_DPDK_HUGEPAGES_AUTO, /* if enough are free */
	XK_DPDK_HUGEPAGES_NEVER,
	XK_DPDK_HUGEPAGES_ALWAYS, /* otherwise xk_dpdk_start fails */
};

enum { XK_DPDK_PCI = 8 };

/* Good defaults: 0 for everything but core, which is -1. */
struct xk_dpdk_config {
	int core;           /* the driver's core, which DPDK's own threads avoid; -1: not known */
	unsigned buffers;   /* mbufs of this platform; 0: XK_DPDK_BUFFERS */
	unsigned memory_mb; /* DPDK's memory, for all platforms of the process; 0: enough for two like this one */
	enum xk_dpdk_hugepages hugepages;
	bool verbose;                 /* copy DPDK's log to standard error */
	bool telemetry;               /* let DPDK answer dpdk-telemetry.py; see xk_dpdk_telemetry_begin */
	const char *pci[XK_DPDK_PCI]; /* addresses of the PCI devices for ports; needs huge pages */
};

/*
 * Creates a platform, and starts DPDK unless this process has started it, which takes about 0.15 s. The calling thread
 * keeps its affinity. Returns 0, -ENOMEM, -EINVAL, or an error of DPDK.
 */
int xk_dpdk_start(const struct xk_dpdk_config *config, struct xk_platform **platform, char *why, size_t size);

/*
 * Creates a platform for a further driver of first's kernel. It sleeps on its own, but shares first's clock and
 * buffers, so buffers_out counts both. Returns 0 or -ENOMEM.
 */
int xk_dpdk_start_beside(struct xk_platform *first, struct xk_platform **platform, char *why, size_t size);

/*
 * Frees a platform after its ports are closed and its messages freed. Stop the platforms started beside it first. NULL
 * is allowed.
 */
void xk_dpdk_stop(struct xk_platform *platform);

/* Returns "DPDK 22.11.11". Any context; DPDK need not be started. */
const char *xk_dpdk_version(void);

/*
 * Returns true if DPDK's installation has the driver ("net_memif"), or if its drivers are not separate files. Any
 * thread; DPDK need not be started.
 */
bool xk_dpdk_has_driver(const char *name);

/*
 * Returns the loop in which the platform sleeps. Add events for signals and control before the driver runs, or from the
 * loop's callbacks, which run in the driver: the loop has no locks. A callback that breaks the loop ends a sleep, or a
 * client's wait for its server.
 */
struct event_base *xk_dpdk_event_base(struct xk_platform *platform);

/* ---- DPDK's telemetry ---- */

/*
 * Makes DPDK's /xkernel/protocols, /xkernel/protocol, /xkernel/edges and /xkernel/drivers report on the kernel, in a
 * process started with `telemetry`. DPDK's thread calls before_answer(context) before each answer. Returns 0, -EBUSY if
 * they report on another kernel, or an error of DPDK.
 */
int xk_dpdk_telemetry_begin(struct xk_kernel *kernel, void (*before_answer)(void *context), void *context);

/* Ends the reports on the kernel, if any. Call before freeing it. */
void xk_dpdk_telemetry_end(struct xk_kernel *kernel);

/* ---- links ---- */

/* Meaning of a port's `device`. */
enum xk_dpdk_needs {
	XK_DPDK_NEEDS_SOCKET,    /* a socket at which two processes of one user meet */
	XK_DPDK_NEEDS_INTERFACE, /* a network interface of the operating system */
	XK_DPDK_NEEDS_PCI,       /* a PCI address: 0000:01:00.0 */
	XK_DPDK_NEEDS_NOTHING,   /* nothing: both hosts are in one process */
};

struct xk_dpdk_link {
	const char *name, *help;
	enum xk_dpdk_needs needs;
	bool can_sleep; /* for the interrupt and adaptive drivers (on a PCI device: if its driver has interrupts) */
	unsigned lanes; /* maximum per port (on a PCI device: if it has as many queues) */
};

/* Returns the index'th link, from 0, or NULL after the last. */
const struct xk_dpdk_link *xk_dpdk_link(unsigned index);

enum xk_dpdk_end {
	XK_DPDK_CLIENT, /* connects to the server's socket */
	XK_DPDK_SERVER, /* owns the socket; serves one client at a time, and outlives it */
};

struct xk_dpdk_port_config {
	const char *link; /* "virtio", "memif", "tap", "af_packet", "af_xdp", "pci" */
	const char *name; /* the port's */
	/*
	 * A socket's path, or a name for a socket in the user's run-time directory; an interface; a PCI address that
	 * was passed to xk_dpdk_start. NULL: the same as name.
	 */
	const char *device;
	enum xk_dpdk_end end; /* for links with a socket */
	uint64_t address;     /* link address; 0: the device's own, or one made from socket and end */
	unsigned wait_ms;     /* time that a client waits for its server; 0: XK_DPDK_WAIT_MS */
};

/* Opens a port. Either end of a socket may be opened first: a client waits for its server, a server does not wait. */
struct xk_port *xk_dpdk_open(struct xk_platform *platform, const struct xk_dpdk_port_config *config, char *why,
			     size_t size);

/*
 * Opens a port with a lane for each of the platforms, at most xk_dpdk_link.lanes: ports[i] is the lane of driver i,
 * which sleeps on platforms[i]. A network card spreads frames over the lanes itself. On other links the sender does,
 * and keeps a conversation in one lane (IPv4, by addresses and ports); a server may have more lanes than its client.
 * Close all ports before stopping any of the platforms. Returns 0 or -errno.
 */
int xk_dpdk_open_lanes(struct xk_platform *const *platforms, unsigned count, const struct xk_dpdk_port_config *config,
		       struct xk_port **ports, char *why, size_t size);

/* Writes the path that `socket` stands for, and creates its directory if needed. Returns 0 or -errno. */
int xk_dpdk_socket_path(const char *socket, char *path, size_t path_size, char *why, size_t size);

/*
 * Opens two ports of link `ring`, one on each platform, joined by two rings. Close them in any order. Returns 0 or
 * -errno.
 */
int xk_dpdk_ring_open(struct xk_platform *const platforms[2], const char *const names[2], struct xk_port *ports[2],
		      char *why, size_t size);

/* Opens two such ports with `count` lanes each: ports[i] are those of host i, on its drivers' platforms[i]. */
int xk_dpdk_ring_open_lanes(struct xk_platform *const *const platforms[2], unsigned count, const char *const names[2],
			    struct xk_port **const ports[2], char *why, size_t size);

/* ---- every port ---- */

/*
 * Returns true if the port has a peer (and, for a lane, the peer uses it). Frames sent without a peer are dropped, as
 * on an unplugged cable. Any context.
 */
bool xk_dpdk_port_is_up(const struct xk_port *port);

#endif
