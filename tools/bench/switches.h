/*
 * switches.h - measures switches between threads on this machine, without
 * the engine: the cost that a message saves if it is not handed to a thread.
 */
#ifndef SWITCHES_H
#define SWITCHES_H

#include <stdint.h>

struct switches;

/*
 * Makes two threads, on cores a and b (which may be the same), that take turns: each wakes the other by a futex and
 * sleeps. Returns NULL without memory, threads, or permission to use a core.
 */
struct switches *switches_new(unsigned a, unsigned b);

/*
 * Measures half of each of `count` round trips: a wake-up and the switch to the woken thread. Waits until it is done.
 */
void switches_wake(struct switches *s, uint32_t *ns, unsigned count);

void switches_free(struct switches *s);

/*
 * Returns the mean nanoseconds of a switch between two threads on `core` that yield to each other; 0: it cannot be
 * measured. Takes some 20 ms.
 */
uint64_t switches_yield_ns(unsigned core);

#endif
