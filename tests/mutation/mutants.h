/*
 * mutants.h - sources with small defects, one of which can be chosen when the program runs: tests must find it.
 * mutate.py makes them, and the tables here.
 *
 * A program has them if it is linked with copies before the library's own objects; XK_MUTANTS is defined then. Chosen is
 * none at first, or the one that the environment variable XK_MUTANT names, so that any test can be tried on a mutant.
 */
#ifndef MUTANTS_H
#define MUTANTS_H

#include <stdbool.h>

/* By number: 0 is "none"; FILE:LINE: FUNCTION: OPERATOR: BEFORE -> AFTER: CODE. Ended by NULL. */
extern const char *const mutants_table[];

/* Mutants of which networks must show one; scenarios.txt. */
struct mutants_scenario {
	const char *name;
	const char *files;       /* separated by blanks */
	const unsigned *numbers; /* ended by 0 */
};

/* Ended by one without a name. */
extern const struct mutants_scenario mutants_scenarios[];

/* The number of the mutant that the copies act as; 0: none. Set it before they run. */
extern unsigned xk_mutant;

/* Chooses a mutant by its number, or the first one of a scenario by its name. False: there is none. */
bool mutants_select(const char *name);

#endif
