/*
 * mutants.h - sources with small defects, one of which can be chosen at run time: tests must find it. mutate.py makes
 * them, and the tables here.
 *
 * A program has mutants if it is linked with such copies before the library's own objects; XK_MUTANTS is defined then.
 * Initially none is active, or the one named by the environment variable XK_MUTANT, so that any test can be tried on a
 * mutant.
 */
#ifndef MUTANTS_H
#define MUTANTS_H

#include <stdbool.h>

/* By number: 0 is "none"; FILE:LINE: FUNCTION: OPERATOR: BEFORE -> AFTER: CODE. Ends with NULL. */
extern const char *const mutants_table[];

/* Mutants of which networks must reveal at least one; scenarios.txt. */
struct mutants_scenario {
	const char *name;
	const char *files;       /* separated by spaces */
	const unsigned *numbers; /* ends with 0 */
	unsigned seed;           /* of the network that is likely to reveal one; 0: unknown */
};

/* Ends with one without a name. */
extern const struct mutants_scenario mutants_scenarios[];

/* Number of the active mutant; 0: none. Set it before the mutated code runs. */
extern unsigned xk_mutant;

/* Selects a mutant by number, or the first one of a scenario by name. Returns false if it does not exist. */
bool mutants_select(const char *name);

#endif
