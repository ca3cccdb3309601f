/*
 * run_private.h - a run while it goes on, shared by run.c (what happens when), run_count.c (what kernels have counted) and
 * run_judge.c (whether that is what was promised).
 */
#ifndef TESTS_RUN_PRIVATE_H
#define TESTS_RUN_PRIVATE_H

#include "protocols/test/traffic.h"
#include "tests/swarm/run.h"
#include "tools/capture/pcapng.h"
#include "tools/net/net.h"

enum { RUN_TRAFFICS = PLAN_HOSTS_MAX * PLAN_TRAFFICS_MAX, RUN_STREAMS = 1000 };

/* What one user has tried to send to another: what was accepted, what was refused. */
struct run_attempts {
	uint64_t accepted, refused;
	bool open;
};

/* One traffic instance. */
struct run_user {
	struct net_host *host;
	unsigned n; /* of the scenario's traffics */
	uint32_t address;
	uint64_t incarnation; /* when the network had settled */
	/* by host number: what this user had tried to send to it then, and had of it */
	struct run_attempts tried[PLAN_HOSTS_MAX];
	uint64_t had_of[PLAN_HOSTS_MAX];
};

/* Frames that were seen, all and those of IP. */
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
	/* sums of the messages of this run, over all boots */
	uint64_t sent, unsent, received, damaged, misdirected;
	uint64_t drops, given_up, duplicated;
	struct xk_traffic_sender senders[RUN_STREAMS];
};

/* ---- run.c ---- */

/* The first thing that is wrong is told. */
__attribute__((format(printf, 3, 4))) void run_fail(struct run *run, enum run_verdict verdict, const char *format, ...);

/* ---- run_count.c ---- */

/* Whether p is of the type of that name. */
bool run_is(const struct xk_protocol *p, const char *type);

/* A user's traffic in the boot of its host that is there; NULL: the host is down. */
struct xk_protocol *run_protocol(const struct run *run, const struct run_user *user);

/* Adds up what host's kernel has counted, and judges what its users got. A boot of it is over, or the run is. */
void run_harvest(struct run *run, struct net_host *host);

/* Writes into directory (trailing slash) what is not zero of all hosts' counts. */
void run_keep_counts(struct run *run, const char *directory);

/* ---- run_judge.c ---- */

/* The network has settled: remembers what has been tried until now. A host that is down is a failure. */
void run_begin_settled(struct run *run);

/* Whether something has come from each user to each since then. */
void run_judge_live(struct run *run);

/* Nothing is under way any more: harvests all hosts, and looks whether everything is where it was promised to be. */
void run_end(struct run *run);

#endif
