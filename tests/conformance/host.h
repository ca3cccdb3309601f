/*
 * host.h - the host that a script tests: a graph file over ports in memory, on a clock that the script moves, driven by
 * the test's own thread.
 */
#ifndef CONFORMANCE_HOST_H
#define CONFORMANCE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct host;

/* What a host has sent. */
struct sent {
	struct sent *next;
	uint64_t at_ns;
	unsigned port; /* from 0 */
	size_t len;
	uint8_t bytes[];
};

enum { HOST_PORTS = 4, HOST_SETS = 32 };

struct host_plan {
	const char *graph;           /* the file */
	const char *sets[HOST_SETS]; /* node.attribute=value */
	unsigned set_count;
	uint32_t mtu;
	bool no_paths;
	/* Told of each frame before it arrives; NULL: nobody. */
	void (*saw)(void *context, const struct host_plan *plan, uint64_t at_ns, unsigned port, const uint8_t *bytes,
		    size_t len);
	void *context;
};

/* The host, booted at time 0. NULL: why says what is wrong. */
struct host *host_new(const struct host_plan *plan, char *why, size_t why_size);

/* Frees it. False: it had not given back every buffer. */
bool host_free(struct host *host);

unsigned host_port_count(const struct host *host);
uint64_t host_link(const struct host *host, unsigned port);

/* A frame arrives now, and the host does what it does at this time. */
void host_inject(struct host *host, unsigned port, const uint8_t *bytes, size_t len);

uint64_t host_now_ns(const struct host *host);
/* Time passes until until_ns, or (stops) to when the host has sent a frame, if that is before. */
void host_run_until(struct host *host, uint64_t until_ns, bool stops);

/* The oldest frame that was sent and not taken. NULL: none. */
const struct sent *host_first_sent(const struct host *host);
void host_drop_sent(struct host *host);

/* The counter or drop reason "instance.name". False: there is none. */
bool host_count(const struct host *host, const char *name, uint64_t *count);
/* Calls see for each reason for which something was dropped. */
void host_each_drop(const struct host *host, void (*see)(void *context, const char *name, uint64_t count),
		    void *context);

/* The same for every counter and drop reason of all protocols, whatever it counted. */
void host_each_count(const struct host *host, void (*see)(void *context, const char *name, uint64_t count),
		     void *context);

/* Counts what crosses edges from now on, or no more. */
void host_count_edges(struct host *host, bool wanted);
/* What has crossed while that was counted: the sum over all edges and both directions, each with a weight of its own. */
uint64_t host_crossings(const struct host *host);

/* Frames that have gone up paths (xkernel/path.h). */
uint64_t host_by_path(const struct host *host);

/* Bytes of all frames that it has sent. */
uint64_t host_bytes_sent(const struct host *host);

/* Buffers that the host holds now. */
unsigned host_buffers(const struct host *host);

#endif
