/*
 * watch.h - a watchdog thread: reports threads that compute or block without progress, and lets a second signal end the
 * program at once, whatever it is doing. Signals within 100 ms count as one.
 *
 * Progress is a driver's turns, a pool thread's messages and events, or the steps of a simulated world. Time is the
 * thread's processor time, so a busy machine or a stopped program raises no alarm; a thread blocked in a system call,
 * where it uses none, is found by repeated checks. Waiting for work, for a signal (xk_semaphore_wait) or for a reader
 * of output is not a stall. Each stall is reported once. It ends a simulated world's program with OPTIONS_FAILURE,
 * because nothing else can happen there.
 */
#ifndef WATCH_H
#define WATCH_H

#include <stdint.h>

struct watch;
struct xk_kernel;
struct xk_sim;

/*
 * Starts the thread, before a host is opened. limit_ns: maximum time that a thread may compute (0: forever). *signals:
 * the result of pair_signals, or -1; replaced by a descriptor that delivers the first signal only. Returns NULL if
 * resources are exhausted, with *signals unchanged. The functions below ignore NULL.
 */
struct watch *watch_new(const char *program, int *signals, uint64_t limit_ns);

/* Ends the thread. The descriptor in *signals stays open, unused: any further signal ends the program. */
void watch_free(struct watch *watch);

/* Watches the threads of kernel, or the calling thread, which runs sim. */
void watch_kernel(struct watch *watch, struct xk_kernel *kernel);
void watch_world(struct watch *watch, struct xk_sim *sim);

/* Stops watching a kernel or world, before it is freed; may be unknown or NULL. */
void watch_forget(struct watch *watch, const void *what);

#endif
