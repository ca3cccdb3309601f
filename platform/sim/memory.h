/*
 * memory.h - a platform in memory: buffers from malloc, ports that are queues, a virtual or a real clock.
 *
 * For tests, simulation, and programs that embed a graph: the far end of a port is C functions, which inject frames and
 * take transmitted ones.
 *
 * Threads: with the real clock, functions may be called from any thread unless they are marked "Set-up". With the
 * virtual clock, time passes only while the driver sleeps, which suits kernels that one thread runs.
 */
#ifndef XK_SIM_MEMORY_H
#define XK_SIM_MEMORY_H

#include "xkernel/platform.h"

enum xk_memory_clock {
	XK_MEMORY_VIRTUAL, /* begins at 0 */
	XK_MEMORY_REAL,    /* CLOCK_MONOTONIC */
};

enum { XK_MEMORY_QUEUE = 4096 }; /* maximum number of frames waiting at each end of a port */

/* Returns a platform, or NULL without memory. */
struct xk_platform *xk_memory_platform_new(enum xk_memory_clock clock);

/* Frees a platform after all its buffers are freed and its ports closed. */
void xk_memory_platform_free(struct xk_platform *platform);

/*
 * Limits the segments in use (xk_platform_ops.buffers_out) to count; initially UINT_MAX. Every further thread that
 * allocates at the same time may exceed that by one. A 32nd of the limit (at most 64) is the reserve: payload
 * (xk_platform_ops.is_short) leaves all of it, headers and short messages half. Any thread.
 */
void xk_memory_platform_limit(struct xk_platform *platform, unsigned count);

/*
 * Keeps freed buffers for the thread that drives a kernel on the platform (the first one, if there are several): its
 * messages then cost neither a malloc nor an atomic operation; those of other threads do. The default is true, except
 * in debug builds and under the address sanitizer, where each buffer and each view is a malloc of its own, so that
 * every overrun and leak is detected. Set-up.
 */
void xk_memory_platform_recycle(struct xk_platform *platform, bool recycles);

/*
 * Reads a real clock from the processor's counter (platform/clock.h), which halves the cost. The clock is then
 * CLOCK_MONOTONIC_RAW, and may differ slightly from other platforms'. Waits for 5 ms. Set-up.
 */
void xk_memory_platform_calibrate(struct xk_platform *platform);

/*
 * Returns a message of len (<= XK_MSG_MAX) undefined bytes in one segment, with XK_MSG_HEADROOM in front and no room
 * behind, so that sanitizers detect reads past its end. If the caller's freed buffers are kept, it is an ordinary one
 * where that is long enough. Returns NULL if there is no buffer.
 */
struct xk_msg *xk_memory_frame(struct xk_platform *platform, size_t len);

/* ---- the virtual clock ---- */

/* Advances the clock by ns. */
void xk_memory_advance(struct xk_platform *platform, uint64_t ns);

/* Ends every sleep at until_ns at the latest; initially UINT64_MAX, which is never. */
void xk_memory_run_until(struct xk_platform *platform, uint64_t until_ns);

/*
 * Makes a sleep without a deadline, or with one later than the end set by xk_memory_run_until, call idle(context) (the
 * clock is then at the end): nothing more happens by itself. idle may halt the kernel, inject a frame or set another
 * end. Without it, such a sleep waits for xk_platform_ops.wake. Set-up.
 */
void xk_memory_on_idle(struct xk_platform *platform, void (*idle)(void *context), void *context);

/* ---- ports ---- */

/*
 * Returns a port that queues transmitted frames until they are taken, or NULL without memory. name is copied. The first
 * driver serves it unless the caller sets port->driver. The `close` operation, which the port's kernel calls, frees the
 * port and waiting frames.
 */
struct xk_port *xk_memory_port_new(struct xk_platform *platform, const char *name, uint64_t address, uint32_t mtu);

/* Delivers a frame to the port. Takes m, also on failure. Returns false if the queue is full and the frame is lost. */
bool xk_memory_inject(struct xk_port *port, struct xk_msg *m);

/*
 * Delivers a copy of len bytes, which begin with the Ethernet header. Returns 0, -EMSGSIZE if len exceeds XK_MSG_MAX,
 * or -ENOBUFS if there is no buffer or the queue is full.
 */
int xk_memory_inject_bytes(struct xk_port *port, const void *bytes, size_t len);

/* Receives a transmitted frame of len bytes, Ethernet header included, which are valid until the function returns. */
typedef void xk_memory_sent(void *context, const uint8_t *bytes, size_t len);

/*
 * Passes every frame that the port transmits to sent(context, ...) instead of queuing it. The transmitting thread, a
 * driver or another thread of the kernel, calls sent for one frame of a port at a time. sent must neither block nor
 * call the kernel; it may inject frames, into this port too. Set-up.
 */
void xk_memory_on_sent(struct xk_port *port, xk_memory_sent *sent, void *context);

/* Returns the oldest transmitted frame in the queue, which the caller then owns, or NULL. */
struct xk_msg *xk_memory_take(struct xk_port *port);

/* Sets the size of the transmit ring. On a connected port, it limits the frames that wait at the other port. */
void xk_memory_transmit_limit(struct xk_port *port, unsigned count);

/*
 * Connects two ports (or one with itself): frames that one transmits arrive at the other, each copied into one buffer
 * of the receiving platform, so two hosts share nothing. The transmit ring is full while the other's queue is full or
 * its platform has no buffer. Frames to a closed port are lost. Returns 0 or -ENOMEM. Set-up.
 */
int xk_memory_connect(struct xk_port *a, struct xk_port *b);

/* How a wire chooses the lane in which a frame arrives. */
enum xk_memory_spread {
	XK_MEMORY_BY_FLOW, /* lane_of_flow (platform/lane.h): keeps the messages of a conversation in order */
	XK_MEMORY_BY_LANE, /* the sending lane, modulo the number of receiving lanes */
};

/*
 * Connects, like xk_memory_connect, two devices with a_count and b_count lanes (ports of one name; see platform.h), at
 * most XK_DRIVERS each. Every lane copies into buffers of its own platform.
 */
int xk_memory_connect_lanes(struct xk_port *const *a, unsigned a_count, struct xk_port *const *b, unsigned b_count,
			    enum xk_memory_spread spread);

/* Implement xk_port_ops.receive and transmit. */
typedef unsigned xk_memory_receive(void *context, struct xk_msg **frames, unsigned max);
typedef unsigned xk_memory_transmit(void *context, struct xk_msg **frames, unsigned count);

/* Replaces the port's queues by these functions, which are called without a lock. Set-up. */
void xk_memory_loop(struct xk_port *port, xk_memory_receive *receive, xk_memory_transmit *transmit, void *context);

#endif
