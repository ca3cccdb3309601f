/*
 * platform.h - what the framework needs from its environment: buffers, ports, a clock, sleep, threads.
 *
 * There are two platforms: platform/dpdk (ports are DPDK devices; time is real) and platform/sim (ports are in memory;
 * time is virtual or real). The framework includes neither: a program makes one and gives it to xk_kernel_new.
 *
 * Unless a comment says otherwise, operations run in any context and never wait.
 */
#ifndef XK_PLATFORM_H
#define XK_PLATFORM_H

#include <semaphore.h>

#include "xkernel/event.h"
#include "xkernel/msg.h"

struct xk_context;
struct xk_platform;
struct xk_port;
struct xk_protocol;
struct xk_runner;
struct xk_session;

/* Limit of the references to a buffer, which concurrent callers may exceed by a few. */
enum { XK_BUFFER_REFERENCES = UINT16_MAX - 255 };

struct xk_platform_ops {
	/* Returns nanoseconds since an arbitrary start. Monotonic, and the same for all drivers of a kernel. */
	uint64_t (*now_ns)(struct xk_platform *platform);

	/*
	 * Returns a fresh segment with its own buffer and one reference: data == floor + XK_MSG_HEADROOM, ceiling >=
	 * data + XK_MSG_SEGMENT, own_end == ceiling; len, total, next, link, id, flags and owner zero; tail itself.
	 * NULL: none left.
	 */
	struct xk_msg *(*buffer_new)(struct xk_platform *platform);

	/*
	 * Returns true if only the reserve is left: buffers for receiving, headers and short messages (xk_msg_new).
	 * buffer_view and buffer_lend fail then. NULL: there is no reserve.
	 */
	bool (*is_short)(struct xk_platform *platform);

	/*
	 * Returns the number of buffers that protocols may keep at a time: all except the reserve, the devices' and
	 * those in the caches of `threads` threads. NULL: no limit.
	 */
	unsigned (*buffers)(struct xk_platform *platform, unsigned threads);

	/*
	 * Returns another segment over the buffer of `segment`, which gets one more reference: the same data and len;
	 * total, next, id and flags zero; tail itself; own_end is the caller's to set. NULL: none left, or
	 * XK_BUFFER_REFERENCES reached.
	 */
	struct xk_msg *(*buffer_view)(struct xk_platform *platform, const struct xk_msg *segment);

	/*
	 * Adds a reference without a segment to the buffer of `segment`, so that its bytes stay as they are. If
	 * segments in use are counted, it counts as one. buffer_let_go releases such a reference, by xk_msg.references;
	 * the last reference frees the buffer. Meanwhile, a copy of the segment serves buffer_view, even after the
	 * segment was freed. Returns false if the buffer cannot be held, such as lent bytes, or has
	 * XK_BUFFER_REFERENCES.
	 */
	bool (*buffer_hold)(struct xk_platform *platform, const struct xk_msg *segment);
	void (*buffer_let_go)(struct xk_platform *platform, _Atomic uint16_t *references);

	/*
	 * Returns a segment that shows the len (<= XK_MSG_MAX) bytes at `bytes`, without room for headers: data ==
	 * floor == own_end, ceiling == data + len; the rest as of buffer_new. Its reference count, and that of its
	 * views, is never 1, so nothing writes there. When all of them have been freed, calls given_back(context).
	 * NULL: none left.
	 */
	struct xk_msg *(*buffer_lend)(struct xk_platform *platform, const void *bytes, size_t len,
				      void (*given_back)(void *context), void *context);

	/* Implement xk_lendable_new and xk_lendable_free (msg.h). NULL, both: malloc and free. */
	void *(*lendable_new)(struct xk_platform *platform, size_t len);
	void (*lendable_free)(struct xk_platform *platform, void *bytes);

	/*
	 * Frees a segment, and its buffer with the last reference. A freed segment keeps a length and a reference count
	 * of 0 until its memory is reused (xk_msg_is_given_up).
	 */
	void (*buffer_free)(struct xk_platform *platform, struct xk_msg *segment);

	/* Return the number of segments in use; call see for each (NULL: no list). Main thread, when nothing runs. */
	unsigned (*buffers_out)(struct xk_platform *platform);
	void (*each_out)(struct xk_platform *platform, void (*see)(void *context, const struct xk_msg *segment),
			 void *context);

	/*
	 * Sleeps until deadline_ns (UINT64_MAX: none), a frame on an armed port, or wake; may return early. May serve
	 * signals and control. With virtual time, lets time pass. Driver only.
	 */
	void (*sleep)(struct xk_platform *platform, uint64_t deadline_ns);

	/* Ends a sleep that has begun or is about to begin. */
	void (*wake)(struct xk_platform *platform);

	/* Serves what sleep would serve, without sleeping; at most once a millisecond while polling. May be NULL. */
	void (*poll_control)(struct xk_platform *platform);

	/* Called by a thread when it begins and ends, if it will touch buffers (DPDK registers it). May be NULL. */
	void (*thread_begin)(struct xk_platform *platform);
	void (*thread_end)(struct xk_platform *platform);

	/*
	 * Called by the thread that becomes a driver of the platform (its own, xk_kernel_run's or xk_kernel_turn's),
	 * and by the one that ends it, which may be another. May be NULL.
	 */
	void (*driver_begin)(struct xk_platform *platform);
	void (*driver_end)(struct xk_platform *platform);

	/* Returns 64 random bits, in a simulator from its seed. NULL: the system supplies them. */
	uint64_t (*random)(struct xk_platform *platform);

	/* Returns the number of this host's boots, including this one; it survives crashes. NULL or 0: unknown. */
	uint64_t (*boots)(struct xk_platform *platform);

	/* Computes for work_ns in the calling shepherd. NULL: the framework keeps the processor busy. Holds no lock. */
	void (*work)(struct xk_platform *platform, uint64_t work_ns);

	/* Called when a shepherd has left the driver with its stack, where that costs virtual time. May be NULL. */
	void (*stack_switched)(struct xk_platform *platform);

	/*
	 * Returns whether a shepherd that would leave the driver finds no stack for the driver to go on with, as if all
	 * were in use. For worlds in which that is chosen. May be NULL.
	 */
	bool (*stack_is_refused)(struct xk_platform *platform);

	/*
	 * Returns which of a kernel's `count` events that are due at one time fires first: 0 is the one that was scheduled
	 * first. For worlds in which that is chosen. May be NULL. Must not wait.
	 */
	unsigned (*event_first)(struct xk_platform *platform, unsigned count);
};

/* An object for one thread at a time to wait on. Counts posts. */
struct xk_token {
	sem_t semaphore; /* for threads of the operating system */
	unsigned posted; /* for threads of a platform */
	void *waiter;    /* the platform's */
};

/* A platform's own threads. The simulator's are stacks of one thread (fiber.h), which take turns when they wait. */
struct xk_thread_ops {
	/*
	 * Starts body(argument) in a thread and stores its name. driver: it is the driver, for which other threads'
	 * computing pauses. detached: nothing joins it, and the name is valid until it ends. Returns 0 or -EAGAIN.
	 */
	int (*start)(struct xk_platform *platform, void (*body)(void *argument), void *argument, bool driver,
		     bool detached, void **thread);

	/* Waits until thread has ended, and forgets it. Main thread. */
	void (*join)(struct xk_platform *platform, void *thread);

	/* Makes context stand for the calling thread's own stack, as xk_context_adopt (fiber.h). */
	void (*adopt)(struct xk_platform *platform, struct xk_context *context);

	/* Waits until token is posted, or until deadline_ns (UINT64_MAX: no deadline). One of the threads. */
	void (*wait)(struct xk_platform *platform, struct xk_token *token, uint64_t deadline_ns);
	void (*post)(struct xk_platform *platform, struct xk_token *token);

	/* Lets other threads run for about nap_ns. One of the threads, or the main one, which lets all run. */
	void (*nap)(struct xk_platform *platform, uint64_t nap_ns);

	/* Returns how often thread (NULL: the caller) has waited. */
	uint64_t (*switches)(struct xk_platform *platform, const void *thread);
};

struct xk_platform {
	const struct xk_platform_ops *ops;
	const struct xk_thread_ops *threads; /* NULL: the operating system's */
	bool virtual_time;                   /* time passes only in waits and work, so the driver never polls */
};

enum xk_port_offload {
	XK_OFFLOAD_UDP_SUM = 1 << 0, /* fills in UDP checksums, where the protocol left the pseudo-header's sum */
};

struct xk_port_ops {
	/*
	 * Stores up to max arrived frames and returns their number. Each is then the caller's, begins with its Ethernet
	 * header and has no trailing checksum. Driver only.
	 */
	unsigned (*receive)(struct xk_port *port, struct xk_msg **frames, unsigned max);

	/* Sends frames and returns how many it took; the rest stays the caller's. Holder of the port's transmit. */
	unsigned (*transmit)(struct xk_port *port, struct xk_msg **frames, unsigned count);

	/*
	 * Makes an arriving frame end sleep, until disarm; the caller then receives once more before it sleeps. Returns
	 * 0, or -ENOTSUP: the port cannot wake a driver, and `interrupt` is refused for it.
	 */
	int (*arm)(struct xk_port *port);
	void (*disarm)(struct xk_port *port);

	/*
	 * Calls see for each count of the port and its device, by name; is_drop: it counts lost frames. Any thread.
	 * NULL: there are none.
	 */
	void (*counts)(struct xk_port *port, void (*see)(void *context, const char *name, uint64_t count, bool is_drop),
		       void *context);

	/* Closes the port, which no driver uses. */
	void (*close)(struct xk_port *port);
};

enum {
	XK_BURST = 32,
	XK_DRIVERS = 32, /* limit for one kernel */
};

/*
 * A place where frames arrive and leave. A platform's own port begins with this struct; its creator fills in the first
 * part. A device with several queues is several ports (lanes), one per queue, with the same name, address, MTU and
 * offloads, each with its driver's platform, which protects what lanes share.
 */
struct xk_port {
	const struct xk_port_ops *ops;
	struct xk_platform *platform;
	const char *name;     /* the value of `port.dev` */
	uint64_t address;     /* link address, 48 bits */
	_Atomic uint32_t mtu; /* bytes of a frame's longest payload, without the Ethernet header (xk_port_changed) */
	unsigned offloads;    /* enum xk_port_offload */
	bool can_sleep;       /* arm succeeds */
	unsigned driver;      /* index of the driver that takes its frames */

	/* the framework's */
	struct xk_session *receiver; /* the port protocol's session; NULL: none yet */
	struct xk_transmit *transmit;
	const struct xk_runner *runner; /* its driver's: one comparison shows whether a pusher is that driver */
	struct xk_paths *paths;         /* of what arrives here (path.h); NULL: none */
	_Atomic uint32_t unsampled;   /* number of frames to come that go layer by layer, without a search for a path */
	struct xk_port *const *lanes; /* of its device, by driver; NULL: that driver has none */
	struct xk_port *next;         /* in the kernel's list */
	struct xk_port *beside;       /* in its driver's list */
	struct xk_port *around;       /* in its driver's ring */
	struct xk_event changes;      /* notifies all protocols (xk_port_changed) */
	uint8_t apart[64]; /* so that other drivers, which read what is above, share no cache line with the counts */
	_Atomic uint64_t frames_in, frames_out;
	_Atomic uint64_t unheard; /* frames dropped as no_session, because there was no receiver */
	uint64_t starved_ns;      /* when it last lacked buffers; 0: not yet */
};

/*
 * Directs frames of port's lanes to session (NULL: drops them). For the port protocol. Main thread, or when nothing
 * runs.
 */
void xk_port_listen(struct xk_port *port, struct xk_session *session);

/*
 * Called by the platform when port had no buffer to receive into: `frames` were lost, or (0) an unknown number is
 * waiting in the device. Adds `frames`, or 1, to `no_buffer` of the protocol on the port. Reports it on standard error,
 * at most once a second. The port's driver, in receive.
 */
void xk_port_starved(struct xk_port *port, unsigned frames);

/*
 * Notifies all protocols, lowers first and in an event, that the port is up again or has another MTU (port_changed,
 * upi.h). Does nothing for a port that belongs to no kernel yet. For the platform. Any context.
 */
void xk_port_changed(struct xk_port *port);

/*
 * Sends frame m through the lane of the caller's driver: the one in which the shepherd runs or from which it came; for
 * a foreign thread, the first. For the port protocol (owner). Takes m. A shepherd or a foreign thread; may hand off.
 *
 * In that driver, m goes at the end of the turn, together with others, or before a shepherd computes there (xk_work);
 * otherwise at once, or when the holder of the lane's transmit next drains its queue. If its queue is full, waits as
 * owner's `implicit` says (at most 10 ms in a thread). Returns 0, or -ENOBUFS: m was dropped for owner's reason `full`.
 */
int xk_port_transmit(struct xk_port *port, struct xk_protocol *owner, struct xk_msg *m, unsigned full);

#endif
