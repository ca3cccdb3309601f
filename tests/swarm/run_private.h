/*
 * run_private.h - a run in progress, shared by run.c (events), run_count.c (kernels' counts) and run_check.c
 * (guarantees).
 */
#ifndef TESTS_RUN_PRIVATE_H
#define TESTS_RUN_PRIVATE_H

#include "protocols/test/traffic.h"
#include "tests/swarm/run.h"
#include "tools/capture/pcapng.h"
#include "tools/net/net.h"
#include "xkernel/support/chance.h"

enum { RUN_TRAFFICS = PLAN_HOSTS_MAX * PLAN_TRAFFICS_MAX, RUN_STREAMS = 1000 };

/* Messages that one user has tried to send to another: accepted and refused. */
struct run_attempts {
	uint64_t accepted, refused;
	bool open;
};

/* One traffic instance. */
struct run_user {
	struct net_host *host;
	unsigned n; /* index in the scenario's traffics */
	uint32_t address;
	uint64_t incarnation; /* when the network had settled */
	/* by host number, at that time: messages tried to it, and received from it */
	struct run_attempts tried[PLAN_HOSTS_MAX];
	uint64_t had_of[PLAN_HOSTS_MAX];
};

/* The client of a host's tcptest. */
struct run_client {
	struct run *run;
	unsigned host, server;  /* server: of the run under way, or the last one */
	unsigned asked;         /* servers since the network has settled */
	bool runs, has_settled; /* has_settled: the run began after that */
	unsigned ended;         /* runs that have, of these */
};

/* Frames seen, in total and of IP. */
struct run_frames {
	uint64_t receivers, arrived, lost, ip_sent, ip_arrived;
};

struct run {
	const struct plan *plan;
	struct net net;
	struct run_tally *tally;
	struct run_result *result;
	struct run_frames frames;
	struct run_user users[RUN_TRAFFICS];
	unsigned user_count;
	uint64_t steps, steps_max;
	uint64_t faulty_frames; /* arrived while there were faults */
	struct pcapng *capture;
	unsigned interfaces[PLAN_HOSTS_MAX];
	/* sums of this run's messages, over all boots */
	uint64_t sent, unsent, received, damaged, misdirected;
	uint64_t drops, given_up, duplicated;
	struct xk_traffic_sender senders[RUN_STREAMS];
	struct run_client clients[PLAN_HOSTS_MAX];
	struct xk_chance chance; /* of what clients ask for */
};

/* ---- run.c ---- */

/* Only the first failure is reported. */
__attribute__((format(printf, 3, 4))) void run_fail(struct run *run, enum run_verdict verdict, const char *format, ...);

/* ---- run_count.c ---- */

/* Returns true if p is of the type of that name. */
bool run_is(const struct xk_protocol *p, const char *type);

/* Returns a user's traffic in the current boot of its host; NULL: the host is down. */
struct xk_protocol *run_protocol(const struct run *run, const struct run_user *user);

/* Asks all protocols for their promises. at_rest: nothing is in flight any more. */
void run_check_promises(struct run *run, bool at_rest);

/* Adds up the counts of host's kernel and checks its users' guarantees, at the end of a boot or of the run. */
void run_harvest(struct run *run, struct net_host *host);

/* Writes all hosts' nonzero counts into directory (trailing slash). */
void run_keep_counts(struct run *run, const char *directory);

/* ---- run_streams.c: runs of tcptest's clients; only in scenarios that have it ---- */

void run_streams_init(struct run *run);

/* Starts a run on each host without one, of random streams from or to a random host. */
void run_streams_start(struct run *run);

/* The same, once the network has settled: one run for each pair of hosts. */
void run_streams_start_settled(struct run *run);

/* Checks that these have ended. */
void run_streams_check(struct run *run);

/* Returns true if a run is under way. */
bool run_streams_go_on(const struct run *run);

/* ---- run_check.c ---- */

/* Returns true if the network carries everything, once it has settled. */
bool run_is_live(const struct run *run);

/* Remembers the messages tried until the network settled. A host that is down is a failure. */
void run_begin_settled(struct run *run);

/* Checks that something has arrived from each user to each other since then. */
void run_check_live(struct run *run);

/* Nothing is in flight any more: harvests all hosts, and checks that every message is accounted for. */
void run_end(struct run *run);

#endif
