/*
 * memory.h - a platform in memory: buffers from malloc, ports that are queues, a virtual or a real clock.
 *
 * For tests, simulation, and programs that embed a graph: a port's two ends are C functions (inject a frame, take what
 * was transmitted; or xk_memory_loop). Every buffer is one malloc and every view of it another, so that sanitizers see
 * each overrun and leak.
 *
 * Threads: with the real clock everything may be called from any thread, except what is said to belong to set-up.
 * With the virtual clock time passes only where the driver sleeps, so it suits kernels that are run by one thread.
 */
#ifndef XK_SIM_MEMORY_H
#define XK_SIM_MEMORY_H

#include "xkernel/platform.h"

enum xk_memory_clock {
	XK_MEMORY_VIRTUAL, /* begins at 0 */
	XK_MEMORY_REAL,    /* CLOCK_MONOTONIC */
};

enum { XK_MEMORY_QUEUE = 4096 /* frames that wait at each end of a port, at most */ };

/* NULL: no memory. */
struct xk_platform *xk_memory_platform_new(enum xk_memory_clock clock);

/* Every buffer must have been given back and every port been closed. */
void xk_memory_platform_free(struct xk_platform *platform);

/* From now on at most count segments are out (xk_platform_ops.buffers_out); at first UINT_MAX. Any thread. */
void xk_memory_platform_limit(struct xk_platform *platform, unsigned count);

/*
 * For benchmarks: what is given back is kept for reuse, so that no malloc lies on a message's way. The platform's
 * buffers then belong to a single thread, and its clock is not quite another platform's: a kernel has one driver then. A
 * real clock is read from the processor's counter (platform/clock.h). Set-up.
 */
void xk_memory_platform_recycle(struct xk_platform *platform);

/*
 * A message of len (<= XK_MSG_MAX) undefined bytes in one segment, XK_MSG_HEADROOM in front and nothing behind, as long
 * as it may be: who reads past the end of the frame is seen by sanitizers. (A recycling platform gives an ordinary
 * buffer where that is long enough.) NULL: no buffer.
 */
struct xk_msg *xk_memory_frame(struct xk_platform *platform, size_t len);

/* ---- the virtual clock ---- */

/* Lets ns pass. */
void xk_memory_advance(struct xk_platform *platform, uint64_t ns);

/* No sleep goes past until_ns; at first UINT64_MAX, which is no end. */
void xk_memory_run_until(struct xk_platform *platform, uint64_t until_ns);

/*
 * idle(context) is called by a sleep that would go past the end set with xk_memory_run_until (the clock is at the end
 * then), or that has no deadline: nothing will happen by itself any more. It may halt the kernel, inject a frame, set
 * another end. Without it such a sleep waits for xk_platform_ops.wake. Set-up.
 */
void xk_memory_on_idle(struct xk_platform *platform, void (*idle)(void *context), void *context);

/* ---- ports ---- */

/*
 * A port whose transmitted frames wait to be taken. name is copied; its driver is the first, unless the caller sets
 * port->driver. It is closed with its `close` operation (a kernel
 * that has it does that), which frees what still waits. NULL: no memory.
 */
struct xk_port *xk_memory_port_new(struct xk_platform *platform, const char *name, uint64_t address, uint32_t mtu);

/* A frame arrives at port. Takes m, whatever it returns. False: the queue was full, the frame is lost. */
bool xk_memory_inject(struct xk_port *port, struct xk_msg *m);

/*
 * The same of a copy of len bytes, which begin with the Ethernet header. 0; -EMSGSIZE: longer than XK_MSG_MAX; -ENOBUFS: no
 * buffer is left, or the queue is full.
 */
int xk_memory_inject_bytes(struct xk_port *port, const void *bytes, size_t len);

/* What is told of a transmitted frame: its len bytes, from the Ethernet header on, which are there until it returns. */
typedef void xk_memory_sent(void *context, const uint8_t *bytes, size_t len);

/*
 * From now on sent(context, ...) is told of every frame that port transmits, and none waits to be taken. It is called by
 * whoever transmits, a driver or another thread of the kernel, for one frame of a port at a time; it must not wait, nor
 * call the kernel; it may inject, into this port too. Set-up.
 */
void xk_memory_on_sent(struct xk_port *port, xk_memory_sent *sent, void *context);

/* The oldest frame that port has transmitted and nobody has taken; the caller's. NULL: none. */
struct xk_msg *xk_memory_take(struct xk_port *port);

/* A transmit ring of count frames; full, port takes no more. On a connected port: so many may wait at the other. */
void xk_memory_transmit_limit(struct xk_port *port, unsigned count);

/*
 * What one transmits arrives at the other (a port may be connected to itself), copied into one buffer of the receiving
 * platform, so that two hosts share nothing. Where the other's queue is full or its platform has no buffer, the
 * transmitting port's ring is full. What is sent to a port that was closed meanwhile is lost. 0 or -ENOMEM. Set-up.
 */
int xk_memory_connect(struct xk_port *a, struct xk_port *b);

/* Into which lane of several a frame from a wire comes. */
enum xk_memory_spread {
	XK_MEMORY_BY_FLOW, /* xk_memory_lane_of: a conversation is one lane's, so that its messages stay in order */
	XK_MEMORY_BY_LANE, /* the one that was sent from, modulo how many there are */
};

/*
 * As xk_memory_connect, for devices of several lanes each (ports of one name; platform.h): a_count and b_count of them,
 * at most XK_DRIVERS. Each lane copies into buffers of its own platform.
 */
int xk_memory_connect_lanes(struct xk_port *const *a, unsigned a_count, struct xk_port *const *b, unsigned b_count,
			    enum xk_memory_spread spread);

/*
 * To which of `lanes` lanes m, which begins with its Ethernet header, belongs: of IPv4, by a hash of both addresses and,
 * of UDP and TCP that are no fragments, both ports, the same one for either direction; of anything else, lane 0.
 */
unsigned xk_memory_lane_of(const struct xk_msg *m, unsigned lanes);

/* As xk_port_ops.receive and transmit, which they are called for. */
typedef unsigned xk_memory_receive(void *context, struct xk_msg **frames, unsigned max);
typedef unsigned xk_memory_transmit(void *context, struct xk_msg **frames, unsigned count);

/* The port's two ends are these functions instead of queues, and no lock is taken. Set-up. */
void xk_memory_loop(struct xk_port *port, xk_memory_receive *receive, xk_memory_transmit *transmit, void *context);

#endif
