/*
 * host.h - the host that a script tests: a graph file over ports in memory, on a clock that the script advances, driven
 * by the test's own thread.
 */
#ifndef CONFORMANCE_HOST_H
#define CONFORMANCE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct host;
struct xk_protocol;
struct xk_protocol_type;

/* A frame that a host has sent. */
struct sent {
	struct sent *next;
	uint64_t at_ns;
	unsigned port; /* counted from 0 */
	size_t len;
	uint8_t bytes[];
};

enum { HOST_PORTS = 4, HOST_SETS = 32 };

struct host_plan {
	const char *graph;           /* the graph file */
	const char *sets[HOST_SETS]; /* node.attribute=value */
	unsigned set_count;
	uint32_t mtu;
	uint32_t limit;    /* of its buffers; 0: none */
	unsigned number;   /* of this host among those of a network: they differ in link addresses and random numbers */
	unsigned offloads; /* of its ports (enum xk_port_offload) */
	const struct xk_protocol_type *const *types; /* of protocols; NULL: the library's */
	FILE *trace;                                 /* what its protocols report; NULL: standard error */
	bool no_paths;
	/* Called with each frame before it arrives; NULL: not called. */
	void (*saw)(void *context, const struct host_plan *plan, uint64_t at_ns, unsigned port, const uint8_t *bytes,
		    size_t len);
	void *context;
};

/* Returns a host booted at time 0. NULL: failed, with the reason in `why`. */
struct host *host_new(const struct host_plan *plan, char *why, size_t why_size);

/* Frees the host. Returns false if it has leaked buffers. */
bool host_free(struct host *host);

/* Returns the protocol of this name; NULL: none. */
struct xk_protocol *host_protocol(const struct host *host, const char *name);

unsigned host_port_count(const struct host *host);
/* Returns the link address of a port. */
uint64_t host_link(const struct host_plan *plan, unsigned port);

/*
 * Adds a frame, with these flags (msg.h) and in two segments if 0 < split < len, to the burst that arrives on a port once
 * the host runs: of XK_BURST frames at most.
 */
void host_queue(struct host *host, unsigned port, const uint8_t *bytes, size_t len, size_t split, unsigned flags);
/* Delivers a frame and runs the host until nothing is left to do at this time. */
void host_inject(struct host *host, unsigned port, const uint8_t *bytes, size_t len);
/* The same for a frame as host_queue has it. */
void host_inject_parts(struct host *host, unsigned port, const uint8_t *bytes, size_t len, size_t split,
		       unsigned flags);

uint64_t host_now_ns(const struct host *host);
/* Advances time to until_ns or, with `stops`, until the host sends a frame. */
void host_run_until(struct host *host, uint64_t until_ns, bool stops);

/* Returns the oldest frame sent and not dropped. NULL: none. */
const struct sent *host_first_sent(const struct host *host);
void host_drop_sent(struct host *host);

/* Stores the counter or drop reason "instance.name". Returns false if it does not exist. */
bool host_count(const struct host *host, const char *name, uint64_t *count);
/* Calls see for each reason for which a message was dropped. */
void host_each_drop(const struct host *host, void (*see)(void *context, const char *name, uint64_t count),
		    void *context);

/*
 * Compares all counters, drop reasons, numbers of sessions and buffers of two hosts of the same graph. Returns false,
 * with the first difference in `why`, if they differ.
 */
bool host_is_like(const struct host *host, const struct host *other, char *why, size_t why_size);

/* Starts or stops counting messages on edges. */
void host_count_edges(struct host *host, bool wanted);
/* Returns a weighted sum over all edges, in both directions, of the messages counted. */
uint64_t host_crossings(const struct host *host);

/* Returns the number of frames that took paths (xkernel/path.h). */
uint64_t host_by_path(const struct host *host);

/* Returns the total bytes of all frames sent. */
uint64_t host_bytes_sent(const struct host *host);

/* Returns the number of sessions of all protocols. */
unsigned host_sessions(const struct host *host);

/* Returns the number of buffers that the host holds. */
unsigned host_buffers(const struct host *host);

#endif
