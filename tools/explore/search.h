/*
 * search.h - runs a network with every list of at most so many unusual choices, short lists first.
 *
 * The search is stateless: each run begins at time 0. Lists of n choices are those of n - 1 with one more choice, which
 * comes later in the run (as in Musuvathi and Qadeer, "Iterative Context Bounding", 2007, with faults as the bound).
 * Processes share the runs of a length; each has a part of the first choices.
 */
#ifndef EXPLORE_SEARCH_H
#define EXPLORE_SEARCH_H

#include "tools/explore/choices.h"
#include "tools/net/net.h"

enum { SEARCH_WHY = 240, SEARCH_JOBS_MAX = 64, SEARCH_STATES_MAX = 1 << 19 };

/* Bits of what may be chosen: of a frame's fate its number, of a kind of choices XK_SIM_FATES + its number. */
#define SEARCH_FATE(fate) (UINT32_C(1) << (fate))
#define SEARCH_KIND(kind) (UINT32_C(1) << (XK_SIM_FATES + (kind)))

struct search_options {
	uint64_t seed, until_ns;
	uint64_t faults;   /* most unusual choices of a run */
	uint64_t jobs;     /* processes */
	uint64_t limit_ns; /* real time; 0: none */
	uint32_t choose;   /* SEARCH_FATE and SEARCH_KIND */
	bool all;          /* also orders that make no difference; see xk_sim_choose */
	bool is_shown;     /* progress on standard error */
};

/* The end of a run. */
struct search_outcome {
	bool is_broken;
	char why[SEARCH_WHY]; /* the promise that was broken */
	uint64_t events;
};

struct search_result {
	uint64_t runs, events, elapsed_ns;
	uint64_t states;      /* different ends of runs, by all protocols' counts; SEARCH_STATES_MAX: or more */
	uint64_t states_hash; /* of the set */
	unsigned length;      /* all lists of up to so many choices were tried, if is_complete; else shorter ones */
	double share;         /* of the lists of `length` choices, by their first choice */
	bool is_complete, is_found;
	/* If is_found: */
	struct choices choices;
	struct search_outcome outcome;
};

/* Searches until a promise is broken, everything is tried, time is up, or `signals` becomes readable. */
int search(struct net *net, const struct search_options *options, int signals, struct search_result *result);

/*
 * Runs one list in a process of its own, which may end unexpectedly. see: NULL, or is called there with each record and
 * the world. Returns 0, or -errno: no process could be made.
 */
int search_try(struct net *net, const struct search_options *options, const struct choices *choices,
	       void (*see)(void *context, const struct xk_sim_record *record), void *context,
	       struct search_outcome *outcome);

#endif
