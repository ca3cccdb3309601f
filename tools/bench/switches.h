/*
 * switches.h - what changing from one thread to another costs on this machine, without any code of the engine: what a
 * message saves that is not handed to a thread.
 */
#ifndef SWITCHES_H
#define SWITCHES_H

#include <stdint.h>

struct switches;

/*
 * Two threads, on cores a and b, which may be the same, that take turns: each wakes the other by a futex and sleeps. NULL: no
 * memory, no thread, or a core that may not be used.
 */
struct switches *switches_new(unsigned a, unsigned b);

/* Half of each of `count` round trips, in nanoseconds: one wake-up and the switch to who is woken. Waits for it. */
void switches_wake(struct switches *s, uint32_t *ns, unsigned count);

void switches_free(struct switches *s);

/*
 * Nanoseconds of one switch between two threads on core that are both ready and give way to each other, the mean of many;
 * 0: that cannot be measured. Takes some 20 ms.
 */
uint64_t switches_yield_ns(unsigned core);

#endif
