/*
 * platform.h - what the framework needs of the world: buffers, ports, a clock, sleep, threads.
 *
 * There are two platforms: platform/dpdk (ports are DPDK devices; the clock is real) and platform/sim (ports are in
 * memory; the clock is virtual or real). The framework includes neither; a program makes one and gives it to
 * xk_kernel_new (kernel.h).
 */
#ifndef XK_PLATFORM_H
#define XK_PLATFORM_H

#include <semaphore.h>

#include "xkernel/msg.h"

struct xk_context;
struct xk_platform;
struct xk_port;
struct xk_protocol;
struct xk_session;

struct xk_platform_ops {
	/* Nanoseconds since some start, never going back; the same clock for all drivers of a kernel. Any context. */
	uint64_t (*now_ns)(struct xk_platform *platform);

	/*
	 * A fresh segment: its own buffer with one reference, data == floor + XK_MSG_HEADROOM, ceiling - data >=
	 * XK_MSG_SEGMENT, len, total, next, link, id, flags, owner zero, tail itself. NULL: none left. Any context;
	 * never waits.
	 */
	struct xk_msg *(*buffer_new)(struct xk_platform *platform);

	/*
	 * Another segment over the buffer of `segment`, with the same data and len (one reference more); total, next,
	 * id, flags zero, tail itself. NULL: none left. Any context; never waits.
	 */
	struct xk_msg *(*buffer_view)(struct xk_platform *platform, const struct xk_msg *segment);

	/*
	 * Gives one segment back; its buffer goes with the last reference. A freed segment keeps a length of 0 and a
	 * reference count of 0 until its memory is reused: see xk_msg_is_given_up. Any context; never waits.
	 */
	void (*buffer_free)(struct xk_platform *platform, struct xk_msg *segment);

	/* How many segments are out, for leak checks. Main thread, when nothing runs. */
	unsigned (*buffers_out)(struct xk_platform *platform);

	/* Calls see for each segment that is out. NULL: the platform keeps no list of them. As buffers_out. */
	void (*each_out)(struct xk_platform *platform, void (*see)(void *context, const struct xk_msg *segment),
			 void *context);

	/*
	 * The driver has nothing to do until deadline_ns (UINT64_MAX: for ever), a frame on an armed port, or wake.
	 * Returns early whenever it likes. Driver only; may serve signals and control. On a virtual clock: lets time
	 * pass.
	 */
	void (*sleep)(struct xk_platform *platform, uint64_t deadline_ns);

	/* Ends a sleep that has begun or is about to. Any context; never waits. */
	void (*wake)(struct xk_platform *platform);

	/*
	 * Serves what sleep would serve, without sleeping; called at most once a millisecond while polling. May be
	 * NULL.
	 */
	void (*poll_control)(struct xk_platform *platform);

	/* A thread that will touch buffers begins and ends (DPDK registers it). May be NULL. In that thread. */
	void (*thread_begin)(struct xk_platform *platform);
	void (*thread_end)(struct xk_platform *platform);

	/* 64 random bits. NULL: the system's; a simulator's come from its seed. Any context; never waits. */
	uint64_t (*random)(struct xk_platform *platform);

	/*
	 * How often this host has been booted, this time included, as far as it can remember: what a host keeps when it
	 * crashes. NULL or 0: it cannot tell. Any context.
	 */
	uint64_t (*boots)(struct xk_platform *platform);

	/* The calling shepherd computes for work_ns. NULL: the processor is kept busy so long. Holds no lock. */
	void (*work)(struct xk_platform *platform, uint64_t work_ns);

	/* A shepherd has left the driver with its stack (for platforms on which that costs virtual time). May be NULL. */
	void (*stack_switched)(struct xk_platform *platform);
};

/* What a thread waits on, one at a time: it counts what was posted. */
struct xk_token {
	sem_t semaphore; /* of the operating system's threads */
	unsigned posted; /* of a platform's own */
	void *waiter;    /* the platform's */
};

/*
 * A platform may bring its own threads instead of the operating system's: a simulator, in which all of them are stacks
 * of one thread and take turns where they wait. fiber.h has what they are made of.
 */
struct xk_thread_ops {
	/*
	 * Starts body(argument); *thread names the thread. driver: it is the driver, which the others' computing waits for.
	 * detached: nobody will join it, and the name is good until it ends. 0 or -EAGAIN.
	 */
	int (*start)(struct xk_platform *platform, void (*body)(void *argument), void *argument, bool driver,
		     bool detached, void **thread);

	/* Returns when thread has ended; forgets it. Main thread. */
	void (*join)(struct xk_platform *platform, void *thread);

	/* Makes context stand for the calling thread's own stack, as xk_context_adopt does (fiber.h). */
	void (*adopt)(struct xk_platform *platform, struct xk_context *context);

	/* Waits until token was posted, or until deadline_ns (UINT64_MAX: never). One of the threads. */
	void (*wait)(struct xk_platform *platform, struct xk_token *token, uint64_t deadline_ns);
	void (*post)(struct xk_platform *platform, struct xk_token *token);

	/* Lets others go on for about nap_ns. One of the threads, or the main thread, which lets all of them go on. */
	void (*nap)(struct xk_platform *platform, uint64_t nap_ns);

	/* How often thread (NULL: the caller) has waited. */
	uint64_t (*switches)(struct xk_platform *platform, const void *thread);
};

struct xk_platform {
	const struct xk_platform_ops *ops;
	const struct xk_thread_ops *threads; /* NULL: the operating system's */
	bool virtual_time;                   /* time passes where somebody waits or works: the driver never polls */
};

enum xk_port_offload {
	XK_OFFLOAD_IP_SUM = 1 << 0,  /* fills in IP header checksums on transmit */
	XK_OFFLOAD_UDP_SUM = 1 << 1, /* ... UDP checksums (the protocol leaves the pseudo-header's sum there) */
};

struct xk_port_ops {
	/*
	 * Takes up to max frames that have arrived; each becomes the caller's, begins with its Ethernet header and
	 * carries no trailing checksum. Driver only; never waits.
	 */
	unsigned (*receive)(struct xk_port *port, struct xk_msg **frames, unsigned max);

	/*
	 * Sends frames; returns how many it took (they are gone), the rest stays the caller's. By whoever holds the
	 * port's transmit; never waits.
	 */
	unsigned (*transmit)(struct xk_port *port, struct xk_msg **frames, unsigned count);

	/*
	 * Before a sleep: from now on an arriving frame ends xk_platform_ops.sleep. The caller receives once more
	 * afterwards. 0; -ENOTSUP: this port cannot wake anybody (and `interrupt` is refused for it). disarm: after it.
	 */
	int (*arm)(struct xk_port *port);
	void (*disarm)(struct xk_port *port);

	/* Gives the port back. No driver uses it any more. */
	void (*close)(struct xk_port *port);
};

enum {
	XK_BURST = 32,
	XK_DRIVERS = 32, /* of one kernel, at most */
};

/*
 * A place where frames come and go. A platform's own port begins with one; its creator fills in the first part.
 *
 * A device with several queues is several ports, one for each: they have the same name, address, mtu and offloads, and
 * each its driver's platform (a lane of the device). Each is used as if it were the only one; whatever an operation
 * touches that lanes share is the platform's to protect.
 */
struct xk_port {
	const struct xk_port_ops *ops;
	struct xk_platform *platform;
	const char *name;  /* what `port.dev` names */
	uint64_t address;  /* link address, 48 bits */
	uint32_t mtu;      /* longest payload of a frame, without Ethernet header */
	unsigned offloads; /* enum xk_port_offload */
	bool can_sleep;    /* arm works */
	unsigned driver;   /* which of the kernel's drivers takes its frames; 0: the first */

	/* the framework's */
	struct xk_session *receiver; /* the port protocol's session; NULL: nobody listens yet */
	struct xk_transmit *transmit;
	struct xk_port *const *lanes; /* of its device, by driver; NULL: that driver has none */
	struct xk_port *next;         /* of the kernel's */
	struct xk_port *beside;       /* of its driver's */
	struct xk_port *around;       /* the same, in a ring */
	_Atomic uint64_t frames_in, frames_out;
	_Atomic uint64_t unheard; /* frames that nobody listened for: dropped as no_session */
};

/*
 * For the port protocol: frames of port and of its other lanes go to session from now on (NULL: to nobody). Main thread,
 * or when nothing runs.
 */
void xk_port_listen(struct xk_port *port, struct xk_session *session);

/*
 * For the port protocol (owner): sends frame m by the lane of port that the caller's driver has: the driver in which the
 * shepherd runs or which it came from; of a foreign thread, the first. In that driver it goes at the end of the turn,
 * together with others, or before somebody computes there (xk_work); otherwise now, or as soon as whoever holds the
 * lane's transmit comes by. Where the ring is full, waits as owner's `implicit` says (at most 10 ms in a thread). Takes m.
 * 0; -ENOBUFS: it was dropped, for the reason `full` of owner's. A shepherd or a foreign thread; may hand off.
 */
int xk_port_transmit(struct xk_port *port, struct xk_protocol *owner, struct xk_msg *m, unsigned full);

#endif
