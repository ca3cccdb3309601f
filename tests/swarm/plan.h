/*
 * plan.h - from a seed to a network: everything in a run of the swarm.
 *
 * A plan is a network file and two protocol graphs, texts that can be kept and read again; and what these files cannot
 * express: when links are cut, when all faults end, the guarantees and the checks. The same seed and scenario give the
 * same plan on every machine.
 */
#ifndef PLAN_H
#define PLAN_H

#include "xkernel/base.h"

enum {
	PLAN_GRAPHS = 2, /* variants of the scenario's graph; each host has one of them */
	PLAN_TEXT = 8192,
	PLAN_HOSTS_MAX = 8,
	PLAN_CUTS_MAX = 4,
	PLAN_TRAFFICS_MAX = 2,
};

/* Kinds of faults. */
enum plan_fault {
	PLAN_LOSS,
	PLAN_DUPLICATE,
	PLAN_REORDER,
	PLAN_CORRUPT, /* on a link: ARP has no checksum and may be misled */
	PLAN_CUT,
	PLAN_CRASH,
	PLAN_VLOSS, /* vdrop's */
	PLAN_VDUPLICATE,
	PLAN_VREORDER,
	PLAN_VCORRUPT,
	PLAN_VDELAY,
	PLAN_FAULTS
};

extern const char *const plan_fault_names[PLAN_FAULTS];

/* The parts of a scenario that may vary. */
enum plan_allows {
	PLAN_LONG = 1 << 0,      /* messages longer than a frame */
	PLAN_UNCHECKED = 1 << 1, /* udp.checksum=no; then nothing is damaged */
	PLAN_DAMAGE = 1 << 2,    /* bits flipped below ip */
	PLAN_COUNTED = 1 << 3,   /* each message is one frame and sent once, so counters can follow it */
};

/* An edge and its attributes besides marks: "" or "number=253". */
struct plan_edge {
	const char *upper, *lower, *attributes;
};

struct plan_scenario {
	const char *name, *help;
	const struct plan_edge *edges;           /* down to ip; the edges below are always the same */
	const char *traffics[PLAN_TRAFFICS_MAX]; /* nodes of datagrams and messages, and the guarantees of each */
	const char *promises[PLAN_TRAFFICS_MAX];
	unsigned allows;
};

/* A NULL name ends them. */
extern const struct plan_scenario plan_scenarios[];

struct plan_cut {
	unsigned host;
	uint64_t from_ns, to_ns;
	bool sends, receives;
};

struct plan {
	uint64_t seed;
	const struct plan_scenario *scenario;
	unsigned hosts;
	bool asked[PLAN_FAULTS];
	unsigned permille[PLAN_FAULTS]; /* probability; of the link's kinds */
	bool damages;                   /* damages messages */
	bool checked;                   /* udp computes checksums */
	bool is_long;                   /* some messages are longer than a frame */
	bool scarce;                    /* some host has hardly any buffers: it may drop any message, by name */
	bool crowded; /* some host has few stacks and messages that wait for a turn: those without a stack are dropped */
	bool misled;  /* the link damages frames: hosts may have wrong addresses of others for ever */
	uint64_t stream_bytes; /* of a run of tcptest, at most */
	uint64_t heal_ns;      /* faults end */
	bool patient;          /* no host has a reason to give up: peers are always up, and most frames arrive */
	uint64_t settle_ns;    /* messages sent from now on must arrive ... */
	uint64_t stop_ns;      /* ... and some have; now traffic stops */
	uint64_t quiet_ns;     /* nothing is in flight any more */
	uint64_t end_ns;
	struct plan_cut cuts[PLAN_CUTS_MAX];
	unsigned cut_count;
	char network[PLAN_TEXT], graphs[PLAN_GRAPHS][PLAN_TEXT];
};

/* Returns the scenario called name; NULL: unknown. */
const struct plan_scenario *plan_scenario_find(const char *name);

/* Returns the scenario that the seed chooses, unless one is named. */
const struct plan_scenario *plan_of_seed(uint64_t seed);

/* Returns true if protocol `name` is in the scenario. */
bool plan_has(const struct plan_scenario *scenario, const char *name);

/* Makes a plan. scenario: NULL for the one that the seed chooses. */
void plan_make(struct plan *plan, uint64_t seed, const struct plan_scenario *scenario);

/* Prints what is not in the files. */
void plan_print(const struct plan *plan);

/* Names of the graphs' files in the network. */
extern const char *const plan_graph_files[PLAN_GRAPHS];

#endif
