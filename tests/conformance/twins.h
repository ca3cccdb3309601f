/*
 * twins.h - two hosts of one plan, without paths (xkernel/path.h) and with, which get the same frames side by side. Both
 * must send the same bytes at the same times, and count and hold the same.
 */
#ifndef CONFORMANCE_TWINS_H
#define CONFORMANCE_TWINS_H

#include "tests/conformance/host.h"

enum { BY_LAYERS, BY_PATHS, TWINS };

struct twins {
	const char *name; /* in reports of differences */
	struct host *hosts[TWINS];
};

/* Boots both hosts at time 0. Ends the test if the plan is wrong. */
void twins_begin(struct twins *twins, const char *name, const struct host_plan *plan);

/* Frees both. Fails the test if one has leaked buffers. */
void twins_end(struct twins *twins);

/* The rest returns false, after printing the difference, if the hosts behave differently. */

/* Advances time, if until_ns is later, and compares what the hosts have sent. */
bool twins_wait(const struct twins *twins, uint64_t until_ns);

/* Delivers a frame to both, as host_inject_parts, and compares what they have sent. */
bool twins_inject(const struct twins *twins, unsigned port, const uint8_t *bytes, size_t len, size_t split,
		  unsigned flags);

/* The same in two steps: adds a frame to the burst that arrives at both, and lets it arrive. */
void twins_queue(const struct twins *twins, unsigned port, const uint8_t *bytes, size_t len);
bool twins_deliver(const struct twins *twins);

/* Compares counters, drop reasons, sessions, buffers, and counted edges. */
bool twins_compare(const struct twins *twins);

/*
 * Corrects the checksum of IP in an Ethernet frame, and with_udp that of UDP, unless it is 0. Changes nothing if the
 * headers are not there.
 */
void frame_correct_sums(uint8_t *bytes, size_t len, bool with_udp);

#endif
