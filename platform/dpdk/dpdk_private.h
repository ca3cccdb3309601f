/* dpdk_private.h - internals of the DPDK platform. */
#ifndef XK_PLATFORM_DPDK_DPDK_PRIVATE_H
#define XK_PLATFORM_DPDK_DPDK_PRIVATE_H

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <rte_mbuf.h>
#include <sys/types.h>

#include "platform/clock.h"
#include "platform/dpdk/dpdk.h"
#include "xkernel/engine/stack.h"

#ifdef XK_CONTEXT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* ---- eal.c ---- */

/* Functions here with `why` return 0, or -errno with the reason in why, unless stated otherwise. */

/* Fails if this process may open too few files: libevent would abort, and DPDK does not report the shortage. */
int dpdk_eal_check_files(char *why, size_t size);

/* Fails if DPDK's memory cannot be a file, which another process needs to share it. */
int dpdk_eal_check_shared(char *why, size_t size);

/* Starts DPDK, once per process, and copies its clock. */
int dpdk_eal_start(const struct xk_dpdk_config *config, struct clock *clock, char *why, size_t size);

/* Clears DPDK's log, and returns the errors logged since, in one line. */
void dpdk_eal_log_reset(void);
const char *dpdk_eal_log_text(char *text, size_t size);

/*
 * Writes what failed in DPDK, the error, DPDK's log since its reset, and limits of the process that may be the cause.
 */
void dpdk_why(int error, const char *what, char *why, size_t size);

/* ---- dpdk.c ---- */

enum { DPDK_POOLS = 16 };

struct dpdk_platform {
	struct xk_platform base;
	struct clock clock;
	struct dpdk_platform *owner; /* owns the pool: itself, or the platform of the kernel's first driver */
	struct rte_mempool *pool;
	_Atomic unsigned borrowed;            /* messages in buffers of devices' own pools */
	_Atomic unsigned in_rings;            /* slots for buffers in the rings of open devices */
	struct rte_mempool *left[DPDK_POOLS]; /* pools of closed devices */
	unsigned left_count;
	struct event_base *events;
	struct event *wake_event, *timer_event;
	bool is_starved;   /* the latest poll of a port found too few buffers */
	uint64_t timer_ns; /* time at which the timer fires, or fired unnoticed; UINT64_MAX: not set */
	int wake_fd, timer_fd;
};

/* Returns the platform that owns this one's buffers and their counts. */
static inline struct dpdk_platform *
dpdk_owner_of(struct xk_platform *platform)
{
	return ((struct dpdk_platform *)platform)->owner;
}

uint64_t dpdk_now_ns(struct xk_platform *platform);
void dpdk_wake(struct xk_platform *platform);

/* ---- ThreadSanitizer, which cannot see the rings and locks inside DPDK ---- */

/*
 * Declares that DPDK orders this thread's accesses so far before those that follow dpdk_after(what) in other threads.
 */
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

/* Hands m, and the mbuf or loan it is attached to, to DPDK. */
static inline void
dpdk_give(const struct rte_mbuf *m)
{
#ifdef XK_CONTEXT_TSAN
	if (RTE_MBUF_CLONED(m))
		dpdk_before(rte_mbuf_from_indirect((struct rte_mbuf *)(uintptr_t)m));
	if (RTE_MBUF_HAS_EXTBUF(m))
		dpdk_before(m->shinfo);
#endif
	dpdk_before(m);
}

/* Takes m, and the mbuf or loan it is attached to, from DPDK. */
static inline void
dpdk_take(const struct rte_mbuf *m)
{
	dpdk_after(m);
#ifdef XK_CONTEXT_TSAN
	if (RTE_MBUF_CLONED(m))
		dpdk_after(rte_mbuf_from_indirect((struct rte_mbuf *)(uintptr_t)m));
	if (RTE_MBUF_HAS_EXTBUF(m))
		dpdk_after(m->shinfo);
#endif
}

/* ---- buffer.c ---- */

enum { DPDK_DEVICE_RING = 256 }; /* slots of a device's ring, per direction */

/* Size of an mbuf's private area, which holds its segment. */
#ifdef XK_DEBUG
enum { DPDK_BUFFER_PRIVATE = 256 };
#else
enum { DPDK_BUFFER_PRIVATE = 128 };
#endif
enum { DPDK_BUFFER_ROOM = XK_MSG_HEADROOM + XK_MSG_SEGMENT };

static_assert(sizeof(struct xk_msg) <= DPDK_BUFFER_PRIVATE, "the segment fits the mbuf's private area");
static_assert(RTE_PKTMBUF_HEADROOM == XK_MSG_HEADROOM, "drivers leave the headroom that messages rely on");
static_assert(sizeof(((struct rte_mbuf *)NULL)->refcnt) == sizeof(_Atomic uint16_t) &&
		      _Alignof(_Atomic uint16_t) <= 2 && offsetof(struct rte_mbuf, refcnt) % 2 == 0,
	      "xk_msg.references points at an mbuf's own count");

static inline struct rte_mbuf *
dpdk_buffer_of(const struct xk_msg *segment)
{
	return (struct rte_mbuf *)((uintptr_t)segment - sizeof(struct rte_mbuf));
}

/* Returns the mbuf that owns the bytes that m shows. */
static inline struct rte_mbuf *
dpdk_buffer_owner(struct rte_mbuf *m)
{
	return RTE_MBUF_CLONED(m) ? rte_mbuf_from_indirect(m) : m;
}

/* Lent bytes, described in the data room of a separate mbuf, which no message shows. DPDK counts the mbufs attached. */
struct dpdk_loan {
	struct rte_mbuf_ext_shared_info shared; /* first: mbufs point to it */
	void (*given_back)(void *context);
	void *context;
	const uint8_t *bytes;
	size_t len;
	_Atomic rte_iova_t iova; /* see dpdk_loan_iova; 0: not looked up yet */
};

/* The callback of DPDK that ends a loan. */
void dpdk_loan_end(void *bytes, void *holder);

/* Returns the loan of which m shows a part, or NULL. */
static inline struct dpdk_loan *
dpdk_buffer_loan(const struct rte_mbuf *m)
{
	if (xk_likely(!RTE_MBUF_HAS_EXTBUF(m)) || m->shinfo->free_cb != dpdk_loan_end)
		return NULL;
	return (struct dpdk_loan *)m->shinfo;
}

/* The reference count of all segments that show lent bytes. */
extern const _Atomic uint16_t dpdk_buffer_lent_count;

/* Initializes the segment in m's private area to show len bytes at data. */
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
	segment->ceiling = segment->own_end = segment->floor + m->buf_len;
	if (xk_unlikely(dpdk_buffer_loan(m) != NULL)) {
		segment->references = (_Atomic uint16_t *)(uintptr_t)&dpdk_buffer_lent_count;
		segment->own_end = segment->floor;
	}
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

/* Prepares dpdk_buffer_pool_new_lent, once per process. Returns 0 or -errno. */
int dpdk_buffer_register(void);

/* Returns a pool of `count` buffers, or NULL and why without memory. */
struct rte_mempool *dpdk_buffer_pool_new(unsigned count, char *why, size_t size);

/*
 * Returns a pool for a device that does not return all buffers when it is closed. dpdk_platform.borrowed counts its
 * buffers that are messages, not those that the device keeps.
 */
struct rte_mempool *dpdk_buffer_pool_new_lent(unsigned count, char *why, size_t size);

/* Buffers in a thread's cache; DPDK lets it grow by half. */
enum { DPDK_BUFFER_CACHE = 256, DPDK_BUFFER_CACHE_MAX = DPDK_BUFFER_CACHE * 3 / 2 };

struct xk_msg *dpdk_buffer_new(struct xk_platform *platform);
bool dpdk_buffers_are_short(struct xk_platform *platform);
unsigned dpdk_buffers(struct xk_platform *platform, unsigned threads);

/* Returns true if a device of the calling driver may be unable to fill its ring. */
bool dpdk_buffers_are_out(struct xk_platform *platform);
struct xk_msg *dpdk_buffer_view(struct xk_platform *platform, const struct xk_msg *segment);
bool dpdk_buffer_hold(struct xk_platform *platform, const struct xk_msg *segment);
void dpdk_buffer_let_go(struct xk_platform *platform, _Atomic uint16_t *references);
struct xk_msg *dpdk_buffer_lend(struct xk_platform *platform, const void *bytes, size_t len,
				void (*given_back)(void *context), void *context);
void *dpdk_lendable_new(struct xk_platform *platform, size_t len);
void dpdk_lendable_free(struct xk_platform *platform, void *bytes);

/*
 * Returns the address of the first byte for readers outside this process: other processes and network cards.
 * RTE_BAD_IOVA: they cannot read all bytes.
 */
rte_iova_t dpdk_loan_iova(struct dpdk_loan *loan);
void dpdk_buffer_free(struct xk_platform *platform, struct xk_msg *segment);
unsigned dpdk_buffers_out(struct xk_platform *platform);

/* ---- link.c ---- */

struct dpdk_device;
struct dpdk_port;

struct dpdk_link {
	struct xk_dpdk_link about;

	/*
	 * Creates or finds the port's device, whose port->device has no name yet, and starts it (dpdk_device_start).
	 * The caller closes the port on failure. NULL: xk_dpdk_open does not open this link.
	 */
	int (*open)(struct dpdk_port *port, const struct xk_dpdk_port_config *config, char *why, size_t size);

	/*
	 * Returns how many of a device's several lanes the peer uses. Called by DPDK's threads when that may have
	 * changed, and when a peer comes (up) or goes. NULL: all.
	 */
	unsigned (*lanes)(struct dpdk_device *device, bool up);

	/* Called after the device is configured and before it starts. Returns 0 or -errno. May be NULL. */
	int (*configured)(struct dpdk_device *device);

	/* Called before the device, if any, is stopped. May be NULL. */
	void (*closing)(struct dpdk_device *device);

	/* Frees device->state after the device is gone, or was never created. May be NULL. */
	void (*closed)(struct dpdk_device *device);

	/*
	 * Receive and send frames like rte_eth_rx_burst and rte_eth_tx_burst, by the link's own descriptor. NULL:
	 * DPDK's driver does it.
	 */
	unsigned (*receive)(struct dpdk_port *port, struct rte_mbuf **frames, unsigned max);
	unsigned (*transmit)(struct dpdk_port *port, struct rte_mbuf **frames, unsigned count);

	/* Adds the device's counts since the last call to the port's. Any thread. May be NULL. */
	void (*count)(struct dpdk_port *port);

	/* ---- for links on an interface ---- */

	bool is_other_end;    /* the interface is the other end of the cable */
	bool is_missed_twice; /* the interface's drops include the frames that the link missed */

	/* Takes an interface that has returned. In the driver. Returns 0 or -errno. NULL: nothing to do. */
	int (*reopen)(struct dpdk_port *port, char *why, size_t size);

	/*
	 * Return a descriptor of the interface's network namespace, and store the interface's name, or return -errno.
	 * NULL: the link loses an interface that leaves its namespace.
	 */
	int (*netns)(struct dpdk_port *port);
	int (*name)(struct dpdk_port *port, char *name);
};

extern const struct dpdk_link dpdk_link_virtio, dpdk_link_memif, dpdk_link_ring, dpdk_link_tap, dpdk_link_packet,
	dpdk_link_xdp, dpdk_link_pci;

/* ---- device.c ---- */

/* A device. Each of its queues, the lanes, is a port. */
struct dpdk_device {
	const struct dpdk_link *link;
	uint16_t id; /* DPDK's number; UINT16_MAX: none yet */
	bool is_started;
	bool reports_link;                   /* DPDK reports whether there is a peer */
	bool is_plugged;                     /* a virtual device, created by dpdk_device_plug */
	bool is_card;                        /* a network card, with counts of its own */
	bool can_chain;                      /* sends chains of mbufs */
	bool is_read_by_others;              /* other processes or devices read sent frames in this process's memory */
	bool spreads;                        /* the sending queue determines the peer's lane */
	struct rte_mempool *pool;            /* own pool, whose buffers it cannot send; NULL: the platform's */
	char name[64];                       /* DPDK's */
	struct dpdk_port *ports[XK_DRIVERS]; /* by queue */
	unsigned port_count, open_count;
	_Atomic unsigned lanes; /* used by the peer; 0: no peer */
	uint32_t enabled[2];    /* virtio: bits of the send and receive queues that the peer uses */
	void *state;            /* the link's */
};

/* Gives the device a free name: `kind` and a number. */
void dpdk_device_name(struct dpdk_device *device, const char *kind);

/* Creates the virtual device called device->name. The reason for a failure begins with `what`. */
int dpdk_device_plug(struct dpdk_device *device, const char *arguments, const char *what, char *why, size_t size);

/* Configures and starts the existing device called device->name. */
int dpdk_device_start(struct dpdk_device *device, char *why, size_t size);

/* Stops and removes the device, if any. It can be created again. */
void dpdk_device_unplug(struct dpdk_device *device);

/* Removes the device, calls link->closed, and frees the device and its ports. */
void dpdk_device_close(struct dpdk_device *device);

/* Records that a peer has come, has gone or uses other lanes, and wakes the drivers. Any thread. */
void dpdk_device_set_up(struct dpdk_device *device, bool up);
bool dpdk_device_is_up(const struct dpdk_device *device);

/* Asks DPDK whether the link of a started device is up. */
bool dpdk_device_is_linked(const struct dpdk_device *device);

/* ---- port.c ---- */

enum { DPDK_PORT_MTU = 1500, DPDK_PORT_HEADERS = 18 };

/* Lets threads use devices until another thread needs them idle. Threads that find it shut do not wait. */
struct dpdk_guard {
	_Atomic bool is_shut;
	_Atomic unsigned inside; /* threads that use the devices or are about to check is_shut */
};

/* A port's counts, in the order of dpdk_port_count_names. */
enum dpdk_count {
	DPDK_COUNT_NO_PEER,  /* sent without a peer */
	DPDK_COUNT_TOO_LONG, /* sent, but too long for the link */
	DPDK_COUNT_UNSENT,   /* sent, but refused by the device */
	DPDK_COUNT_MALFORMED,
	DPDK_COUNT_RX_TOO_LONG, /* received, but longer than a buffer */
	DPDK_COUNT_RX_JOINED,   /* received, but joined from several frames by the kernel */
	DPDK_COUNT_RX_UNSUMMED, /* received, but without a checksum, which cannot be completed here */
	DPDK_COUNT_RX_MISSED,   /* lost before the port, for lack of room */
	DPDK_COUNT_DROPS,       /* number of counts above, all of lost frames */

	DPDK_COUNT_RENAMED = DPDK_COUNT_DROPS, /* changes of the interface */
	DPDK_COUNT_MOVED,
	DPDK_COUNT_DELETED,
	DPDK_COUNT_RETURNED,
	DPDK_COUNT_MTU_CHANGED,
	DPDK_COUNT_ADDRESS_CHANGED,
	DPDK_COUNT_DOWNS,
	DPDK_COUNT_UPS,
	DPDK_COUNTS
};

struct dpdk_port {
	struct xk_port base;
	struct dpdk_device *device;
	uint16_t id, queue;       /* DPDK's numbers */
	struct event *event;      /* for the watched descriptor; NULL: the port cannot sleep */
	bool has_interrupts;      /* enabled before a sleep; otherwise the descriptor itself reports frames */
	bool is_watched;          /* the event is in the loop */
	struct dpdk_guard *guard; /* the device's; NULL: none needed */
	bool is_starved;          /* the last receive found no frame, and too few buffers */
	_Atomic bool up;          /* there is a peer, and it uses this lane */
	_Atomic bool is_sending;  /* some driver is sending by this queue; used with several lanes */
	_Atomic bool is_arming;   /* the driver is enabling or disabling interrupts */
	_Atomic bool has_advised; /* the user was advised how to avoid joined frames */
	_Atomic uint64_t counts[DPDK_COUNTS];
	char name[108]; /* as long as a socket's path may be */
};

/*
 * Creates a device, not yet known to DPDK, with a port for each of the platforms. Returns the first port, or NULL and
 * why if the name is too long or there is no memory.
 */
struct dpdk_port *dpdk_port_new(struct xk_platform *const *platforms, unsigned count, const char *name,
				const struct dpdk_link *link, char *why, size_t size);

/* Stores all ports of port's device in ports, with the address and MTU of `port`. */
void dpdk_port_list(struct dpdk_port *port, struct xk_port **ports);

/* Closes all ports of port's device. */
void dpdk_port_close_all(struct dpdk_port *port);

/* Lets the port of a started device sleep, if the device has interrupts. */
void dpdk_port_watch(struct dpdk_port *port);

/*
 * Lets the port sleep on fd instead of its previous descriptor, if any. fd becomes readable by itself when frames
 * arrive; it is watched while there is a peer.
 */
void dpdk_port_watch_fd(struct dpdk_port *port, int fd);

/* Adds to a count. Any thread. */
static inline void
dpdk_port_count(struct dpdk_port *port, enum dpdk_count count, uint64_t add)
{
	atomic_fetch_add_explicit(&port->counts[count], add, memory_order_relaxed);
}

/* Writes a line to the trace (by default standard error) of the port's kernel, if the port is in use. Any thread. */
__attribute__((format(printf, 2, 3))) void dpdk_port_report(struct dpdk_port *port, const char *format, ...);

/* Changes the MTU of a port, and notifies the protocols above. Any thread. */
void dpdk_port_set_mtu(struct dpdk_port *port, uint32_t mtu);

/* Shuts the guard and waits until no thread is inside, or opens it. Not from a device's receive or transmit. */
void dpdk_guard_shut(struct dpdk_guard *guard);
void dpdk_guard_open(struct dpdk_guard *guard);

/* Records whether this lane has a peer, and wakes its driver. Any thread. */
void dpdk_port_set_up(struct dpdk_port *port, bool up);

/* Waits, after the peer has gone, until the driver no longer uses its memory. */
void dpdk_port_await_disarmed(struct dpdk_port *port);

/*
 * Starts or stops watching the descriptor of dpdk_port_watch_fd after a peer came or went. In the driver, or before it
 * runs.
 */
void dpdk_port_rewatch(struct dpdk_port *port);

/* ---- address.c ---- */

/* Returns the text's FNV-1a hash. */
static inline uint64_t
dpdk_hash(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text != '\0'; text++)
		hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	return hash;
}

/*
 * Returns a link address for this host's port called `what`: locally administered, unicast, the same at each start, and
 * different on another host, in another network namespace and for another `what`. Its lowest bit is 0.
 */
uint64_t dpdk_address_generate(const char *what);

/* Writes "02:00:00:00:00:01". */
void dpdk_address_print(uint64_t address, char text[18]);

/* ---- claim.c ---- */

/*
 * Claims `what` for this process until it ends or calls dpdk_unclaim. Other users cannot take the claim. Returns a
 * descriptor to keep, or -errno (-EADDRINUSE: another process of this user has it).
 */
int dpdk_claim(const char *what);

/* Releases the claim of dpdk_claim and closes fd. Does nothing for -1. */
void dpdk_unclaim(int fd);

/* Returns true if a process has claimed `what`. */
bool dpdk_is_claimed(const char *what);

/* ---- socket.c: the socket at which two processes meet ---- */

enum { DPDK_SOCKET_PATH = 108 };

struct dpdk_socket {
	int type; /* SOCK_STREAM or SOCK_SEQPACKET, as the device uses */
	int claim_fd;
	int lanes_fd;             /* a server's claim that announces its number of lanes */
	bool is_harmed_by_probes; /* a connection without a message harms the server, so do not probe it */
	bool owns_path;           /* a server that must remove the file */
	char path[DPDK_SOCKET_PATH];
};

/* Sets device->state to a new socket with the path that `name` stands for. */
int dpdk_socket_new(struct dpdk_device *device, const char *name, int type, char *why, size_t size);

/* Claims the path for this server, and removes a socket left by a killed one. */
int dpdk_socket_serve(struct dpdk_device *device, char *why, size_t size);

/* Returns the number of lanes of the server, or UINT_MAX for a foreign program, which does not announce it. */
unsigned dpdk_socket_lanes(const struct dpdk_socket *self);

/*
 * Retries `attach` for up to wait_ms until there is a server without another client and it succeeds. Gives up at once
 * if attach returns -ERANGE: the two ends do not fit.
 */
int dpdk_socket_await(struct dpdk_port *port, unsigned wait_ms,
		      int (*attach)(struct dpdk_port *port, char *why, size_t size), char *why, size_t size);

/* Waits up to wait_ms for a peer, for attach. Returns true if there is one. */
bool dpdk_socket_is_answered(struct dpdk_port *port, unsigned wait_ms);

void dpdk_socket_free(struct dpdk_device *device);

/*
 * Keep sockets that DPDK creates between the two calls private to this user. The first returns the old umask, for the
 * second to restore, and blocks while another thread is between the calls.
 */
mode_t dpdk_umask_private(void);
void dpdk_umask_restore(mode_t mask);

/* ---- interface.c: a network interface of the operating system ---- */

/* The operating system's counts of an interface. */
struct dpdk_interface_counts {
	uint64_t rx_dropped, rx_missed, rx_errors, tx_dropped, tx_errors;
};

struct dpdk_interface_state {
	int index; /* 0: there is none */
	char name[16], kind[16];
	unsigned flags, type;
	uint32_t mtu;
	uint8_t address[6], own_address[6]; /* own: the card's factory address */
	bool is_moved;                      /* it is moving to another network namespace */
	struct dpdk_interface_counts counts;
};

/* The link's own state begins with this struct. */
struct dpdk_interface {
	char given_name[16];                 /* the configured name */
	struct dpdk_interface_state now;     /* if the interface is gone, the last known state */
	struct dpdk_interface_counts before; /* counts when the interface was taken */
	struct dpdk_port *port;              /* NULL: not attached yet */
	int claim_fd;
	int query_fd, notify_fd; /* netlink sockets in the interface's network namespace */
	int filter_fd;           /* see dpdk_interface_accept; -1: not needed */
	int socket_fd;           /* the link's socket; -1: none, or not known */
	uint64_t socket;         /* inode of socket_fd */
	struct event *event;
	pthread_mutex_t query_lock; /* protects query_fd, answer, before and changes of now */
	_Alignas(8) uint8_t answer[16384], notifications[16384];
};

/*
 * Sets device->state to a new state of state_size bytes for the interface called `name`, which need not exist, and
 * claims that for this process.
 */
int dpdk_interface_new(struct dpdk_device *device, size_t state_size, const char *name, char *why, size_t size);

/*
 * Stores the link address of the network namespace's first card, or of its first veth or macvlan. Returns false if
 * there is none.
 */
bool dpdk_interface_first(uint8_t address[6]);

/* Fails if the interface is not Ethernet; `why` then names alternatives. */
int dpdk_interface_is_ethernet(const struct dpdk_interface_state *now, char *why, size_t size);

/*
 * Fails if the interface does not exist, is not Ethernet or is down, or if this process lacks one of the `count`
 * capabilities at `needed`, which `what` needs.
 */
int dpdk_interface_check(const struct dpdk_interface *self, const unsigned *needed, unsigned count, const char *what,
			 char *why, size_t size);

/* Fails if this process lacks a capability (such as CAP_NET_RAW), which `what` needs. */
int dpdk_interface_may(unsigned capability, const char *what, char *why, size_t size);

/*
 * Takes the port's MTU from the interface, and its address if the port has none, keeps the port's state equal to the
 * interface's, and reports and counts the interface's changes.
 */
int dpdk_interface_attach(struct dpdk_port *port, char *why, size_t size);

/* Stores the system's counts of the interface since it was taken. Any thread. */
void dpdk_interface_count(struct dpdk_interface *self, struct dpdk_interface_counts *counts);

/* This process's descriptors of sockets of one domain. */
struct dpdk_descriptors {
	unsigned count;
	int fds[64];
};

/* Returns false if the system does not list this process's descriptors, or there are too many such sockets. */
bool dpdk_descriptors_find(struct dpdk_descriptors *self, int domain);

/* Returns a socket of this domain that did not exist `before`, or -1. */
int dpdk_descriptors_new(const struct dpdk_descriptors *before, int domain);

void dpdk_interface_free(struct dpdk_device *device);

/* ---- pci_address.c ---- */

/* Fails if DPDK cannot use the device because it does not exist or a kernel driver has it. */
int dpdk_pci_check(const char *address, char *why, size_t size);

#endif
