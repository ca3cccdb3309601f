/*
 * conversation.h - records what arrives at hosts of a graph file that talk to each other: a server, 10.0.0.1, and two
 * clients, 10.0.0.2 with short messages and 10.0.0.3 with long ones.
 */
#ifndef CONFORMANCE_CONVERSATION_H
#define CONFORMANCE_CONVERSATION_H

#include "tests/conformance/host.h"

enum { TALKERS = 3, ARRIVALS = 48, ARRIVAL_MAX = 1536 };

struct arrival {
	uint64_t at_ns;
	unsigned port;
	size_t len;
	bool by_path; /* at a host with paths */
	uint8_t bytes[ARRIVAL_MAX];
};

struct talker {
	struct host_plan plan;
	char sets[HOST_SETS][128];
	unsigned count; /* of arrivals */
	struct arrival arrivals[ARRIVALS];
};

struct conversation {
	const char *graph;
	struct talker talkers[TALKERS];
};

/*
 * Runs the graph file, with further settings for the hosts (NULL or NULL-terminated; a client's own come later), for a
 * few seconds, or until a host has received ARRIVALS frames. The rest of the hosts' plans is as in `plan`. Returns NULL if
 * no protocol of the graph begins conversations between hosts of one kind (a router); ends the test if none is known
 * here, or if it does not begin. Free it with free.
 */
struct conversation *conversation_record(const struct host_plan *plan, const char *const *sets);

#endif
