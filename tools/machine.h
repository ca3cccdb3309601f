/*
 * machine.h - the machine that a measurement was made on: processor, kernel, and what two of its threads cost each
 * other. Figures across cores move with the time of a cache line between them, so it is taken before and after.
 */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;

struct machine {
	char processor[96];
	char system[96]; /* uname's name, release and machine */
	unsigned cores;  /* that this process may use */
	uint64_t huge_pages;
	bool sanitized;      /* built with a sanitizer: times mean nothing */
	uint64_t line_ns[2]; /* cache line round trip before and after; 0: not measured (one core) */
};

void machine_describe(struct machine *machine);

/*
 * Reads what follows key, and any blanks and colon, in the first line of a file (of /proc or /sys) that begins with
 * it. False, and text is "": there is none. A line that is longer than text is cut off.
 */
bool machine_read(const char *path, const char *key, char *text, size_t size);

/* Returns whether this process may run on core. */
bool machine_has_core(unsigned core);

/* Returns the number of the index-th core that this process may run on, from 0; -1: there are fewer. */
int machine_core(unsigned index);

/*
 * Returns the round trip of a cache line between threads on cores a and b, the median of many; takes about 2 ms.
 * 0: a is b, or one of them may not be used.
 */
uint64_t machine_cache_line_ns(unsigned a, unsigned b);

/*
 * Measures `count` times half a round trip of two threads, on cores a and b (which may be the same), that wake each
 * other by a futex and sleep: a wake-up and the switch to the woken thread, without any engine. False: no permission to
 * use a core, or no thread.
 */
bool machine_wake_ns(unsigned a, unsigned b, uint32_t *ns, unsigned count);

/*
 * Returns the mean nanoseconds of a switch between two threads on `core` that yield to each other; 0: it cannot be
 * measured. Takes some 20 ms.
 */
uint64_t machine_yield_ns(unsigned core);

/* Writes it as an object under key. */
void machine_json(const struct machine *machine, struct json *json, const char *key);

#endif
