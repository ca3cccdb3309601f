/*
 * plan.h - from a seed to a network: everything that a run of the swarm is made of.
 *
 * A plan is texts, a network file and two protocol graphs, which can be kept and read again, besides what is no matter of
 * those files: when links are cut, when all faults end, what is promised and what is to be looked at. The same seed and
 * scenario give the same plan, on every machine.
 */
#ifndef PLAN_H
#define PLAN_H

#include "xkernel/base.h"

enum {
	PLAN_GRAPHS = 2, /* variants of the scenario's graph; a host has one of them */
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
	PLAN_CORRUPT, /* on a link: ARP has no checksum, and may be misled */
	PLAN_CUT,
	PLAN_CRASH,
	PLAN_VLOSS, /* of vdrop */
	PLAN_VDUPLICATE,
	PLAN_VREORDER,
	PLAN_VCORRUPT,
	PLAN_VDELAY,
	PLAN_FAULTS
};

extern const char *const plan_fault_names[PLAN_FAULTS];

/* What a scenario may vary. */
enum plan_allows {
	PLAN_LONG = 1 << 0,      /* messages longer than a frame */
	PLAN_UNCHECKED = 1 << 1, /* udp.checksum=no; nothing is damaged then */
	PLAN_DAMAGE = 1 << 2,    /* bits flipped below ip */
	PLAN_COUNTED = 1 << 3,   /* each message is one frame, and sent once: it can be followed by counting */
};

/* An edge, and what stands on it besides marks: "" or "number=253". */
struct plan_edge {
	const char *upper, *lower, *attributes;
};

struct plan_scenario {
	const char *name, *help;
	const struct plan_edge *edges;           /* down to ip; those below it are always the same */
	const char *traffics[PLAN_TRAFFICS_MAX]; /* nodes, and what each is promised */
	const char *promises[PLAN_TRAFFICS_MAX];
	unsigned allows;
};

/* A name NULL ends them. Seed S runs the scenario number S modulo their count, where none is named. */
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
	unsigned permille[PLAN_FAULTS]; /* how probable; of the link's kinds */
	bool damages;                   /* messages */
	bool checked;                   /* udp computes checksums */
	bool is_long;                   /* some messages are longer than a frame */
	bool scarce;                    /* some host has hardly any buffers: it may drop what it likes, by name */
	bool crowded;     /* some host has few stacks, and messages that wait for their turn: those that find none go */
	bool misled;      /* the link damages frames: what hosts believe of others' addresses may be wrong for ever */
	uint64_t heal_ns; /* faults end */
	bool patient;     /* nobody has a reason to give up: peers are always there, and most frames arrive */
	uint64_t settle_ns; /* what is sent from now on has to arrive ... */
	uint64_t stop_ns;   /* ... and some of it has; now traffic stops */
	uint64_t quiet_ns;  /* nothing is under way any more */
	uint64_t end_ns;
	struct plan_cut cuts[PLAN_CUTS_MAX];
	unsigned cut_count;
	char network[PLAN_TEXT], graphs[PLAN_GRAPHS][PLAN_TEXT];
};

/* The scenario called name; NULL: there is none. */
const struct plan_scenario *plan_scenario_find(const char *name);

/* The scenario that the seed chooses. */
const struct plan_scenario *plan_of_seed(uint64_t seed);

/* Whether protocol `name` is in the scenario. */
bool plan_has(const struct plan_scenario *scenario, const char *name);

/* scenario: NULL for the one that the seed chooses. */
void plan_make(struct plan *plan, uint64_t seed, const struct plan_scenario *scenario);

/* What files do not say, for people. */
void plan_print(const struct plan *plan);

/* What the files of graphs are called in the network. */
extern const char *const plan_graph_files[PLAN_GRAPHS];

#endif
