/*
 * watch.h - a watchdog thread: reports threads that compute without progress, and lets a second signal end the program
 * at once, whatever it is doing. Signals within 100 ms are one.
 *
 * Progress is measured by counts that are kept anyway: a driver's turns, messages and events of a pool thread, steps
 * of a simulated world. Time is the thread's processor time, so neither a busy machine nor a stopped program raises an
 * alarm. A simulated world cannot go on while a protocol computes: the program ends with OPTIONS_FAILURE. Elsewhere
 * each standstill is reported once, and the host goes on.
 */
#ifndef WATCH_H
#define WATCH_H

#include <stdint.h>

struct watch;
struct xk_kernel;
struct xk_sim;

/*
 * Starts the thread, before a host is opened. limit_ns: how long a thread may compute; 0: for ever. *signals is the
 * result of pair_signals, or -1; it becomes a descriptor that is read in the same way, for the first signal only.
 * NULL: no memory, thread or descriptor is left; *signals is as it was. The functions below do nothing if watch is
 * NULL.
 */
struct watch *watch_new(const char *program, int *signals, uint64_t limit_ns);

/* Ends the thread. The descriptor in *signals stays open but unused: from now on any signal ends the program. */
void watch_free(struct watch *watch);

/* Watches the threads of kernel; or the calling thread, which runs sim. */
void watch_kernel(struct watch *watch, struct xk_kernel *kernel);
void watch_world(struct watch *watch, struct xk_sim *sim);

/* Stops watching the kernel or world `what`, before it is freed. `what` may be unknown or NULL. */
void watch_forget(struct watch *watch, const void *what);

#endif
