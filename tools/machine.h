/*
 * machine.h - the machine of a measurement: processor, kernel, and the costs between two of its threads. Figures across
 * cores vary with the time of a cache line between them, so that is measured before and after.
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
	unsigned cores;  /* number that this process may use */
	uint64_t huge_pages;
	bool sanitized;      /* built with a sanitizer: times are meaningless */
	uint64_t line_ns[2]; /* cache line round trip before and after; 0: not measured (one core) */
};

void machine_describe(struct machine *machine);

/*
 * Reads the text after key, and any blanks and colon, on the first line of a file (of /proc or /sys) that begins with
 * key. Truncates it to the size of text. Returns false, with text "", if there is no such line.
 */
bool machine_read(const char *path, const char *key, char *text, size_t size);

/* Returns true if this process may run on core. */
bool machine_has_core(unsigned core);

/* Returns the number of the index-th core that this process may run on, from 0, or -1 if there are fewer. */
int machine_core(unsigned index);

/*
 * Returns the round trip of a cache line between threads on cores a and b, the median of many; takes about 2 ms.
 * Returns 0 if a is b, or one of them may not be used.
 */
uint64_t machine_cache_line_ns(unsigned a, unsigned b);

/*
 * Measures `count` times half a round trip of two threads, on cores a and b (which may be the same), that wake each
 * other by a futex and sleep: a wake-up and the switch to the woken thread, without the engine. Returns false without
 * permission to use a core, or without a thread.
 */
bool machine_wake_ns(unsigned a, unsigned b, uint32_t *ns, unsigned count);

/*
 * Returns the mean nanoseconds of a switch between two threads on `core` that yield to each other, or 0 if it cannot be
 * measured. Takes some 20 ms.
 */
uint64_t machine_yield_ns(unsigned core);

/* Writes the machine as an object under key. */
void machine_json(const struct machine *machine, struct json *json, const char *key);

#endif
