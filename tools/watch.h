/*
 * watch.h - a thread that looks after its program from outside: a second signal ends the program at once, whatever it is
 * doing, and a host whose thread computes without getting on is named.
 *
 * What gets on is told by counts that are kept anyway (a driver's turns, what a thread of the pool has carried, the steps of
 * a simulated world); time is the thread's own on a processor, so that a machine which is busy with other things, or a
 * program that was stopped, raises no alarm. A simulated world cannot go on beside a protocol that computes: the program
 * ends with OPTIONS_FAILURE. Elsewhere it is told once per time, and the host goes on.
 */
#ifndef WATCH_H
#define WATCH_H

#include <stdint.h>

struct watch;
struct xk_kernel;
struct xk_sim;

/*
 * Starts the thread. *signals is what pair_signals has returned, -1 for none; afterwards it is a descriptor that is read in the
 * same way, for the first signal. limit_ns: how long a thread may compute; 0: for ever. NULL: no thread or descriptor is left.
 * Before a host is opened.
 */
struct watch *watch_new(const char *program, int *signals, uint64_t limit_ns);

/* Ends the thread. NULL is let through. *signals stays open, for nobody: from now on a signal ends the program. */
void watch_free(struct watch *watch);

/* From now on the threads of kernel, or the calling thread as the one that runs sim, are watched. watch may be NULL. */
void watch_kernel(struct watch *watch, struct xk_kernel *kernel);
void watch_world(struct watch *watch, struct xk_sim *sim);

/* ... and no more. Before the kernel or the world is freed; `what` may be unknown, or NULL. */
void watch_forget(struct watch *watch, const void *what);

#endif
