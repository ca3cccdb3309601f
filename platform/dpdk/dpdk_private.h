/* dpdk_private.h - what the files of the DPDK platform share. Not for others. */
#ifndef XK_PLATFORM_DPDK_DPDK_PRIVATE_H
#define XK_PLATFORM_DPDK_DPDK_PRIVATE_H

#include <errno.h>
#include <event2/event.h>
#include <rte_mbuf.h>
#include <sys/types.h>

#include "platform/clock.h"
#include "platform/dpdk/dpdk.h"
#include "xkernel/engine/stack.h"

#ifdef XK_CONTEXT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* ---- eal.c ---- */

/* Starts DPDK once; later calls only give the same clock. 0 or -errno and why. */
int dpdk_eal_start(const struct xk_dpdk_config *config, struct clock *clock, bool *hugepages, char *why, size_t size);

/* What DPDK has logged since the last reset, errors only, in one line. */
void dpdk_eal_log_reset(void);
const char *dpdk_eal_log_text(char *text, size_t size);

/* ---- dpdk.c ---- */

enum { DPDK_POOLS = 16 };

struct dpdk_platform {
	struct xk_platform base;
	struct clock clock;
	struct dpdk_platform *owner; /* of the pool: itself, or the platform of the kernel's first driver */
	struct rte_mempool *pool;
	_Atomic unsigned borrowed;            /* messages in buffers of devices' own pools */
	struct rte_mempool *left[DPDK_POOLS]; /* of devices that have gone */
	unsigned left_count;
	struct event_base *events;
	struct event *wake_event, *timer_event;
	uint64_t timer_ns; /* the timer has been or will be heard of at this time; UINT64_MAX: it is not set */
	int wake_fd, timer_fd;
	bool hugepages;
};

/* The platform that has the buffers of this one, and the counts of them. */
static inline struct dpdk_platform *
dpdk_owner_of(struct xk_platform *platform)
{
	return ((struct dpdk_platform *)platform)->owner;
}

uint64_t dpdk_now_ns(struct xk_platform *platform);
void dpdk_wake(struct xk_platform *platform);

/* ---- ThreadSanitizer, which does not see the rings and locks inside of DPDK ---- */

/* DPDK sees to it that what this thread has done so far comes before what others do after their dpdk_after(what). */
static inline void
dpdk_before(const void *what)
{
	(void)what;
#ifdef XK_CONTEXT_TSAN
	__tsan_release((void *)(uintptr_t)what);
#endif
}

static inline void
dpdk_after(const void *what)
{
	(void)what;
#ifdef XK_CONTEXT_TSAN
	__tsan_acquire((void *)(uintptr_t)what);
#endif
}

/* m goes to DPDK, with what it is attached to. */
static inline void
dpdk_give(const struct rte_mbuf *m)
{
#ifdef XK_CONTEXT_TSAN
	if (RTE_MBUF_CLONED(m))
		dpdk_before(rte_mbuf_from_indirect((struct rte_mbuf *)(uintptr_t)m));
#endif
	dpdk_before(m);
}

/* m has just come from DPDK. */
static inline void
dpdk_take(const struct rte_mbuf *m)
{
	dpdk_after(m);
#ifdef XK_CONTEXT_TSAN
	if (RTE_MBUF_CLONED(m))
		dpdk_after(rte_mbuf_from_indirect((struct rte_mbuf *)(uintptr_t)m));
#endif
}

/* ---- buffer.c ---- */

/* An mbuf's private area: the segment that views it. */
#ifdef XK_DEBUG
enum { DPDK_BUFFER_PRIVATE = 192 };
#else
enum { DPDK_BUFFER_PRIVATE = 128 };
#endif
enum { DPDK_BUFFER_ROOM = XK_MSG_HEADROOM + XK_MSG_SEGMENT };

static_assert(sizeof(struct xk_msg) <= DPDK_BUFFER_PRIVATE, "the segment lies in the mbuf's private area");
static_assert(RTE_PKTMBUF_HEADROOM == XK_MSG_HEADROOM, "drivers leave the headroom that messages rely on");
static_assert(sizeof(((struct rte_mbuf *)NULL)->refcnt) == sizeof(_Atomic uint16_t) &&
		      _Alignof(_Atomic uint16_t) <= 2 && offsetof(struct rte_mbuf, refcnt) % 2 == 0,
	      "xk_msg.references points at an mbuf's own count");

static inline struct rte_mbuf *
dpdk_buffer_of(const struct xk_msg *segment)
{
	return (struct rte_mbuf *)((uintptr_t)segment - sizeof(struct rte_mbuf));
}

/* The mbuf that owns the bytes m shows. */
static inline struct rte_mbuf *
dpdk_buffer_owner(struct rte_mbuf *m)
{
	return RTE_MBUF_CLONED(m) ? rte_mbuf_from_indirect(m) : m;
}

/* Makes m's private area the segment that shows len bytes of it from data. */
static inline struct xk_msg *
dpdk_buffer_show(struct xk_platform *platform, struct rte_mbuf *m, uint8_t *data, uint32_t len)
{
	struct xk_msg *segment = rte_mbuf_to_priv(m);

	segment->data = data;
	segment->len = len;
	segment->total = 0;
	segment->next = NULL;
	segment->tail = segment;
	segment->references = (_Atomic uint16_t *)(uintptr_t)&dpdk_buffer_owner(m)->refcnt;
	segment->floor = m->buf_addr;
	segment->ceiling = segment->floor + m->buf_len;
	segment->platform = platform;
	segment->link = NULL;
	segment->id = 0;
	segment->flags = 0;
	segment->owner = NULL;
#ifdef XK_DEBUG
	segment->crossings = 0;
#endif
	return segment;
}

/* Makes dpdk_buffer_pool_new_lent possible; once in a process. 0 or -errno. */
int dpdk_buffer_register(void);

/* A pool for `count` buffers. NULL and why: no memory. */
struct rte_mempool *dpdk_buffer_pool_new(unsigned count, char *why, size_t size);

/*
 * The same for a device that keeps buffers when it goes: what it lends us is counted in dpdk_platform.borrowed, what it
 * keeps is not.
 */
struct rte_mempool *dpdk_buffer_pool_new_lent(unsigned count, char *why, size_t size);

/* Of one thread: what DPDK lets it grow to is half as much again. */
enum { DPDK_BUFFER_CACHE = 256, DPDK_BUFFER_CACHE_MAX = DPDK_BUFFER_CACHE * 3 / 2 };

struct xk_msg *dpdk_buffer_new(struct xk_platform *platform);
struct xk_msg *dpdk_buffer_view(struct xk_platform *platform, const struct xk_msg *segment);
void dpdk_buffer_free(struct xk_platform *platform, struct xk_msg *segment);
unsigned dpdk_buffers_out(struct xk_platform *platform);

/* ---- link.c: what is known of each link ---- */

struct dpdk_device;
struct dpdk_port;

struct dpdk_link {
	struct xk_dpdk_link about;

	/*
	 * Makes the port's device, or finds it, and starts it (dpdk_device_start); port->device is there and has no name
	 * yet. 0 or -errno and why; the caller closes the port. NULL: not to be opened by xk_dpdk_open.
	 */
	int (*open)(struct dpdk_port *port, const struct xk_dpdk_port_config *config, char *why, size_t size);

	/*
	 * Of a device with several lanes: how many of them the other end uses. Called whenever that may have changed, and
	 * when somebody has come or gone (up), by DPDK's threads. NULL: all.
	 */
	unsigned (*lanes)(struct dpdk_device *device, bool up);

	/* The device is configured, not yet started. 0 or -errno. May be NULL. */
	int (*configured)(struct dpdk_device *device);

	/* The device is about to be stopped, if there is one. May be NULL. */
	void (*closing)(struct dpdk_device *device);

	/* The device is gone, or never came: frees device->state. May be NULL. */
	void (*closed)(struct dpdk_device *device);
};

extern const struct dpdk_link dpdk_link_virtio, dpdk_link_memif, dpdk_link_ring, dpdk_link_tap, dpdk_link_packet,
	dpdk_link_xdp, dpdk_link_pci;

/* ---- device.c: a DPDK device, its coming and going ---- */

enum { DPDK_DEVICE_RING = 256 };

/* A device; its ports are its queues, one port each: the lanes. */
struct dpdk_device {
	const struct dpdk_link *link;
	uint16_t id; /* DPDK's number; UINT16_MAX: there is none yet */
	bool is_started;
	bool tells_link;          /* DPDK tells whether somebody is at the other end */
	bool is_plugged;          /* by us: a virtual one */
	bool can_chain;           /* sends chains of mbufs */
	bool spreads;             /* who sends says by the queue to which of the other end's lanes a frame goes */
	struct rte_mempool *pool; /* its own, which it takes no frames back from; NULL: it has the platform's */
	char name[64];            /* DPDK's */
	struct dpdk_port *ports[XK_DRIVERS]; /* by queue */
	unsigned port_count, open_count;
	_Atomic unsigned lanes; /* that the other end uses; 0: nobody is there */
	uint32_t enabled
		[2]; /* the link's: queues to send by, and to receive from, that the other end uses; a bit each */
	void *state; /* the link's */
};

/* Gives the device a name that is free: `kind` and a number. */
void dpdk_device_name(struct dpdk_device *device, const char *kind);

/* Makes the virtual device called device->name. 0 or -errno and why, which begins with `what`. */
int dpdk_device_plug(struct dpdk_device *device, const char *arguments, const char *what, char *why, size_t size);

/* Configures and starts the device called device->name, which exists. 0 or -errno and why. */
int dpdk_device_start(struct dpdk_device *device, char *why, size_t size);

/* Stops the device and removes it, if there is one; it can be made again. */
void dpdk_device_unplug(struct dpdk_device *device);

/* The same for the last time: calls link->closed, and frees the device with its ports, which do nothing any more. */
void dpdk_device_close(struct dpdk_device *device);

/* Somebody has come or gone, or uses other lanes. Any thread. */
void dpdk_device_set_up(struct dpdk_device *device, bool up);
bool dpdk_device_is_up(const struct dpdk_device *device);

/* ---- port.c: frames ---- */

enum { DPDK_PORT_MTU = 1500, DPDK_PORT_HEADERS = 18 };

/* Devices behind it may be used while it is open, by any thread, none of which waits for it. */
struct dpdk_gate {
	_Atomic bool is_shut;
	_Atomic unsigned inside; /* who uses them, or has come to look */
};

struct dpdk_port {
	struct xk_port base;
	struct dpdk_device *device;
	uint16_t id, queue;      /* of the device, as DPDK counts */
	struct event *event;     /* of the descriptor that is watched; NULL: cannot sleep */
	bool has_interrupts;     /* the device is asked for them; else the descriptor tells by itself */
	bool is_watched;         /* the event is in the loop */
	int nudge;               /* see dpdk_port_watch_fd */
	struct dpdk_gate *gate;  /* of the device; NULL: it needs none */
	_Atomic bool up;         /* somebody is at the other end, and uses this lane */
	_Atomic bool is_sending; /* of a device with several lanes: somebody sends by this one's queue */
	_Atomic bool is_arming;  /* the driver is asking the device for interrupts, or for none */
	_Atomic uint64_t no_peer, too_long, malformed;
	char name[108]; /* of the port: as long as a socket's path may be */
};

/*
 * A device, which DPDK does not have yet, and its ports, one for each of the platforms; the first of them. NULL and why:
 * the name is too long, or no memory.
 */
struct dpdk_port *dpdk_port_new(struct xk_platform *const *platforms, unsigned count, const char *name,
				const struct dpdk_link *link, char *why, size_t size);

/* Gives all ports of port's device to the caller, who wants `count` of them. They are what their first one is. */
void dpdk_port_list(struct dpdk_port *port, struct xk_port **ports);

/* Closes all ports of port's device. */
void dpdk_port_close_all(struct dpdk_port *port);

/* The device has started: how the port can sleep. */
void dpdk_port_watch(struct dpdk_port *port);

/*
 * The port sleeps on fd, which tells of each frame by itself; while nobody is at the other end it is not watched. nudge:
 * 0, or a signal that the device's driver waits for before it receives, and that is sent to the driver when fd has told.
 */
void dpdk_port_watch_fd(struct dpdk_port *port, int fd, int nudge);

/* Somebody is at the other end of this lane, or nobody is. Any thread. */
void dpdk_port_set_up(struct dpdk_port *port, bool up);

/* Nobody is: returns when the driver has let go of what the device had of the other end. */
void dpdk_port_await_disarmed(struct dpdk_port *port);

/* In the driver, or while none runs, after the other end came or went: watches what dpdk_port_watch_fd was given. */
void dpdk_port_rewatch(struct dpdk_port *port);

/* A number that differs for different texts, and a link address made of it. */
uint64_t dpdk_hash(const char *text);
uint64_t dpdk_hash_address(const char *text);

/* ---- socket.c: two processes meet at a socket in the file system ---- */

enum { DPDK_SOCKET_PATH = 108 };

struct dpdk_socket {
	int type; /* SOCK_STREAM, SOCK_SEQPACKET: what the device makes there */
	int claim_fd;
	int lanes_fd;   /* a server's: tells clients how many lanes it has */
	bool is_shy;    /* a server suffers from who connects and says nothing */
	bool owns_path; /* a server's: the file is ours to remove */
	char path[DPDK_SOCKET_PATH];
};

/* device->state, with the path that `name` stands for. 0 or -errno and why. */
int dpdk_socket_new(struct dpdk_device *device, const char *name, int type, char *why, size_t size);

/* The server's turn: the path is this process's, and free. 0 or -errno and why. */
int dpdk_socket_serve(struct dpdk_device *device, char *why, size_t size);

/* How many lanes the server there has; UINT_MAX: it is none of ours, and does not tell. */
unsigned dpdk_socket_lanes(const struct dpdk_socket *self);

/*
 * The client's: returns when a server is there that has no other client, and `attach` has succeeded; tries again for
 * wait_ms, or until it is -ERANGE, since the two do not fit. 0 or -errno and why.
 */
int dpdk_socket_await(struct dpdk_port *port, unsigned wait_ms,
		      int (*attach)(struct dpdk_port *port, char *why, size_t size), char *why, size_t size);

/* For attach: whether somebody is at the other end, at the latest after wait_ms. */
bool dpdk_socket_is_answered(struct dpdk_port *port, unsigned wait_ms);

void dpdk_socket_free(struct dpdk_device *device);

/*
 * Claims `what` for this process until it ends or calls dpdk_unclaim. Other users cannot take the claim. Returns a
 * descriptor to keep, or -errno (-EADDRINUSE: another process of this user has it).
 */
int dpdk_claim(const char *what);

/* Gives back the claim of dpdk_claim and closes fd. -1: does nothing. */
void dpdk_unclaim(int fd);

/*
 * Between these two calls, only this user can connect to sockets that DPDK makes, whatever the umask is. The first
 * returns the old umask, for the second to restore. Other threads that call the first wait.
 */
mode_t dpdk_umask_private(void);
void dpdk_umask_restore(mode_t mask);

/* ---- interface.c: a network interface of the kernel's ---- */

struct dpdk_interface {
	char name[16];
	int claim_fd;
	int ioctl_fd;    /* a socket of the network namespace that the interface is in */
	int netlink_fd;  /* tells of changes */
	int socket_fd;   /* the device's; -1: not known */
	uint64_t socket; /* ... what the descriptor is of: an inode */
	int index;       /* 0: there was no such interface yet */
	uint32_t mtu;
	uint8_t address[6];
	struct event *event;
};

/*
 * device->state, for the interface called `name`, claimed for this process; what is known of it, if it exists. 0 or
 * -errno and why.
 */
int dpdk_interface_new(struct dpdk_device *device, const char *name, char *why, size_t size);

/* Refuses where there is no such interface, or it is down. */
int dpdk_interface_is_there(const struct dpdk_interface *self, char *why, size_t size);

/* Refuses where this process lacks a capability (CAP_NET_RAW), saying that `what` needs it. */
int dpdk_interface_may(unsigned capability, const char *what, char *why, size_t size);

/* The port's address and mtu are the interface's; from now on it is up when the interface is. 0 or -errno and why. */
int dpdk_interface_attach(struct dpdk_port *port, char *why, size_t size);

/* Which descriptors are sockets of this domain; a bit for each of the first 4096. */
struct dpdk_descriptors {
	uint64_t bits[64];
};

void dpdk_descriptors_find(struct dpdk_descriptors *self, int domain);

/* A socket of this domain that was not there `before`, or -1. */
int dpdk_descriptors_new(const struct dpdk_descriptors *before, int domain);

void dpdk_interface_free(struct dpdk_device *device);

/* ---- pci.c ---- */

/* The whole address of the PCI device: with its domain. False: text is none. */
bool dpdk_pci_address(const char *text, char *address, size_t size);

/* Whether DPDK can have the device. 0 or -errno and why. */
int dpdk_pci_check(const char *address, char *why, size_t size);

#endif
