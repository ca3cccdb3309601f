/*
 * dpdk.h - the DPDK platform: buffers are mbufs, ports are DPDK devices, the clock is the processor's.
 *
 * For programs: xk_dpdk_start, then a port by xk_dpdk_open, both handed to a kernel (kernel.h), which
 * closes the port; at the end xk_dpdk_stop. Works as any user, with huge pages or without, and needs no network card:
 * DPDK looks at no PCI device that it was not told of, and leaves no files behind. What the links are and what to do when something fails is
 * told in docs/dpdk.md.
 *
 * A platform serves one driver. Two hosts in one process have two platforms; a host with several drivers has one for
 * each, all but the first by xk_dpdk_start_beside, and ports by xk_dpdk_open_lanes. DPDK itself is started by the first
 * xk_dpdk_start of a process and stays until its end, so what belongs to it (core, memory, huge pages) is the first
 * caller's choice. Fork before the first start, not after it.
 *
 * Constructors give 0 or a port; otherwise -errno or NULL, and in `why` a sentence of what is wrong and what to do.
 * Everything here is for the main thread while no driver runs, unless it says otherwise.
 */
#ifndef XK_PLATFORM_DPDK_H
#define XK_PLATFORM_DPDK_H

#include "xkernel/platform.h"

struct event_base;
struct xk_kernel;

enum {
	XK_DPDK_WHY = 512,             /* a `why` of this size holds every message */
	XK_DPDK_WAIT_MS = 10000,       /* how long a client waits for its server */
	XK_DPDK_BUFFERS = 8192,        /* of a platform */
	XK_DPDK_BUFFERS_MIN = 2048,    /* rings and caches of threads hold some hundred each */
	XK_DPDK_BUFFERS_MAX = 1 << 20, /* 2.6 GB */
};

enum xk_dpdk_hugepages {
	XK_DPDK_HUGEPAGES_AUTO, /* where enough are free */
	XK_DPDK_HUGEPAGES_NEVER,
	XK_DPDK_HUGEPAGES_ALWAYS, /* refuse to start without */
};

enum { XK_DPDK_PCI = 8 };

/* Zero is a good value for everything but core (-1). */
struct xk_dpdk_config {
	int core;           /* which core the driver will run on: DPDK's own threads keep off it; -1: not known */
	unsigned buffers;   /* mbufs of this platform; 0: XK_DPDK_BUFFERS */
	unsigned memory_mb; /* of DPDK, for all platforms of the process; 0: enough for two like this */
	enum xk_dpdk_hugepages hugepages;
	bool verbose;                 /* DPDK's own log goes to standard error */
	bool telemetry;               /* DPDK answers dpdk-telemetry.py: xk_dpdk_telemetry_begin */
	const char *pci[XK_DPDK_PCI]; /* addresses of PCI devices that ports will be opened on; needs huge pages */
};

/*
 * Starts DPDK, if this process has not yet, and makes a platform. The calling thread keeps its cores. About 0.15 s.
 * 0; -ENOMEM, -EINVAL, or whatever DPDK says.
 */
int xk_dpdk_start(const struct xk_dpdk_config *config, struct xk_platform **platform, char *why, size_t size);

/*
 * A platform for a further driver of first's kernel: a sleep of its own, and first's clock and buffers (buffers_out
 * counts those of both). 0; -ENOMEM.
 */
int xk_dpdk_start_beside(struct xk_platform *first, struct xk_platform **platform, char *why, size_t size);

/*
 * Gives the platform back; its ports are closed and its messages freed. One that others were started beside is the last
 * to go. NULL is let through.
 */
void xk_dpdk_stop(struct xk_platform *platform);

/* Whether the process's buffers lie in huge pages. */
bool xk_dpdk_has_hugepages(const struct xk_platform *platform);

/* "DPDK 22.11.11". Any context; DPDK need not be started. */
const char *xk_dpdk_version(void);

/*
 * Whether DPDK's installation has a driver ("net_memif"), as far as can be seen: true where drivers are no files of their
 * own. Any thread; DPDK need not be started.
 */
bool xk_dpdk_has_driver(const char *name);

/*
 * The loop that the platform sleeps in: signals and control are added to it before the driver runs, or by its own
 * callbacks, which run in the driver. It has no locks. A callback that breaks the loop ends a sleep, and a client's
 * waiting for its server.
 */
struct event_base *xk_dpdk_event_base(struct xk_platform *platform);

/* ---- DPDK's telemetry ---- */

/*
 * Of a process that was started with `telemetry`: /xkernel/protocols, /xkernel/protocol, /xkernel/edges and
 * /xkernel/drivers are about kernel from now on. asked(context) is told of each question before it is answered, by
 * DPDK's thread. 0; -EBUSY: they are about another; or what DPDK says.
 */
int xk_dpdk_telemetry_begin(struct xk_kernel *kernel, void (*asked)(void *context), void *context);

/* They are about none, and nobody asks kernel any more. Before it is freed; does nothing if they are not about it. */
void xk_dpdk_telemetry_end(struct xk_kernel *kernel);

/* ---- links ---- */

enum xk_dpdk_needs {
	XK_DPDK_NEEDS_SOCKET,    /* `device` is a socket where two processes of one user meet */
	XK_DPDK_NEEDS_INTERFACE, /* ... a network interface of the kernel's */
	XK_DPDK_NEEDS_PCI,       /* ... a PCI address: 0000:01:00.0 */
	XK_DPDK_NEEDS_NOTHING,   /* two hosts in one process */
};

struct xk_dpdk_link {
	const char *name, *help;
	enum xk_dpdk_needs needs;
	bool can_sleep; /* the drivers interrupt and adaptive work (of a PCI device: if its driver can) */
	unsigned lanes; /* of a port, at most (of a PCI device: if it has so many queues) */
};

/* The links, by number from 0 on; NULL: there are no more. */
const struct xk_dpdk_link *xk_dpdk_link(unsigned index);

enum xk_dpdk_end {
	XK_DPDK_CLIENT, /* connects to the server's socket */
	XK_DPDK_SERVER, /* owns the socket and outlives its clients, of which it has one at a time */
};

struct xk_dpdk_port_config {
	const char *link; /* "virtio", "memif", "tap", "af_packet", "af_xdp", "pci" */
	const char *name; /* of the port */
	/*
	 * A path, or a word for a socket in the user's own run-time directory; an interface; a PCI address that
	 * xk_dpdk_start was told of. NULL: as name.
	 */
	const char *device;
	enum xk_dpdk_end end; /* of links with a socket */
	uint64_t address;     /* link address; 0: the device's own, or one made from socket and end */
	unsigned wait_ms;     /* a client's patience with a server that is not there; 0: XK_DPDK_WAIT_MS */
};

/*
 * Opens a port. Of two ends at a socket either may be first: a server does not wait for its client, a client waits for
 * its server.
 */
struct xk_port *xk_dpdk_open(struct xk_platform *platform, const struct xk_dpdk_port_config *config, char *why,
			     size_t size);

/*
 * The same with a lane for each of the platforms: ports[i] is the one of driver i, which sleeps on platforms[i]. Links
 * have at most xk_dpdk_link.lanes, but a network card spreads frames over them by itself; on the others the sender does,
 * so that a conversation stays in one lane (IPv4 by addresses and ports). Two ends at a socket may have different numbers
 * of lanes if the server has more. All are to be closed before any of the platforms is stopped. 0 or -errno.
 */
int xk_dpdk_open_lanes(struct xk_platform *const *platforms, unsigned count, const struct xk_dpdk_port_config *config,
		       struct xk_port **ports, char *why, size_t size);

/* The path that `socket` stands for (its directory is made when missing). 0 or -errno. */
int xk_dpdk_socket_path(const char *socket, char *path, size_t path_size, char *why, size_t size);

struct xk_dpdk_virtio_config {
	const char *name, *socket;
	enum xk_dpdk_end end;
	uint64_t address;
	unsigned wait_ms;
};

/* xk_dpdk_open of link `virtio`. */
struct xk_port *xk_dpdk_virtio_open(struct xk_platform *platform, const struct xk_dpdk_virtio_config *config, char *why,
				    size_t size);

/* Link `ring`: two ports, one for each platform, joined by two rings; closed in any order. 0 or -errno. */
int xk_dpdk_ring_open(struct xk_platform *const platforms[2], const char *const names[2], struct xk_port *ports[2],
		      char *why, size_t size);

/* The same with `count` lanes: ports[i] has those of host i, on the platforms[i] of its drivers. */
int xk_dpdk_ring_open_lanes(struct xk_platform *const *const platforms[2], unsigned count, const char *const names[2],
			    struct xk_port **const ports[2], char *why, size_t size);

/* ---- every port ---- */

/*
 * Whether somebody is at the other end (of a lane: and sends to it). Frames sent while nobody is are dropped, as by a
 * cable pulled out. Any context.
 */
bool xk_dpdk_port_is_up(const struct xk_port *port);

/* What a port, of several lanes each, dropped by itself; taken at any time. */
struct xk_dpdk_port_counts {
	uint64_t no_peer;   /* to be sent while nobody was at the other end */
	uint64_t too_long;  /* to be sent, longer than the link's frames */
	uint64_t malformed; /* received, with lengths that lie outside their buffers: the peer is broken or hostile */
};

void xk_dpdk_port_counts(const struct xk_port *port, struct xk_dpdk_port_counts *counts);

#endif
