/*
 * search.h - runs a network with every list of at most so many unusual choices, short lists first.
 *
 * The search is stateless: each run begins at time 0. Lists of n choices are those of n - 1 with one more choice, which
 * comes later in the run (as in Musuvathi and Qadeer, "Iterative Context Bounding", 2007, with faults as the bound).
 * Processes share the runs of a length: each takes the next first choice until none is left.
 */
#ifndef EXPLORE_SEARCH_H
#define EXPLORE_SEARCH_H

#include "tools/explore/choices.h"
#include "tools/net/net.h"

enum { SEARCH_JOBS_MAX = 64, SEARCH_FAULTS_MAX = 16, SEARCH_STATES_MAX = 1 << 19 };

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
	bool has_ended;        /* the program, before the run did */
	char why[NET_PROMISE]; /* the promise that was broken */
	uint64_t events;       /* so far: also set if the program has ended */
};

struct search_result {
	uint64_t runs, events, elapsed_ns;
	uint64_t states;      /* different ends of runs, by all protocols' counts; SEARCH_STATES_MAX: or more */
	uint64_t states_hash; /* of the set */
	unsigned length;      /* all lists of up to so many choices were tried, if is_complete; else shorter ones */
	double share;         /* of the lists of `length` choices, by their first choice */
	bool is_complete, is_found;
	/* If is_found: of the shortest lists found, one that ends earliest */
	struct choices choices;
	struct search_outcome outcome;
};

/*
 * Searches until a promise is broken, everything is tried, time is up, or `signals` becomes readable. After the first
 * broken promise, as many lists of the same length again are tried, for one that ends earlier.
 */
int search(struct net *net, const struct search_options *options, int signals, struct search_result *result);

/* What sees a run, in the run's process. Each function may be NULL. */
struct search_observer {
	void (*begin)(void *context, struct net *net); /* before there is a world */
	void (*record)(void *context, const struct xk_sim_record *record);
	void (*choice)(void *context, const struct xk_sim_choice *made); /* that was not the usual one */
	void (*broken)(void *context, const char *why);                  /* a promise, before the end of the run */
	void (*stop)(void *context);                                     /* before the hosts stop */
	void (*end)(void *context);                                      /* after the world's end */
	void *context;
};

/*
 * Runs one list, in a process of its own, which may end unexpectedly. observer: NULL for none. Choices that the run does
 * not have are taken out of the list. Returns 0, or -errno: no process could be made.
 */
int search_try(struct net *net, const struct search_options *options, struct choices *choices,
	       const struct search_observer *observer, struct search_outcome *outcome);

/*
 * Takes choices out of a list that breaks a promise, as long as the rest breaks one. Returns 0 or -errno, as search_try.
 */
int search_shrink(struct net *net, const struct search_options *options, struct choices *choices,
		  struct search_outcome *outcome);

#endif
