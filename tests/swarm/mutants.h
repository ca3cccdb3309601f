/*
 * mutants.h - the protocols with small defects, one of which can be chosen when the program runs; for tests that must
 * find them. mutants.txt has the list, mutate.py what can be written there.
 *
 * A program gets them with mutants_dep before the library's own protocols among its dependencies; XK_MUTANTS is defined
 * then. Chosen is none at first, or what the environment variable XK_MUTANT names, so that every test of the protocols
 * can be tried on a mutant.
 */
#ifndef MUTANTS_H
#define MUTANTS_H

#include <stdbool.h>
#include <stddef.h>

struct mutants_entry {
	const char *name;
	const char *files;  /* separated by blanks */
	const char *defect; /* what is wrong */
	const char *breaks; /* which promise that breaks */
	const char *seen;   /* how it shows, words of mutate.py's SEEN: one of them is enough */
	const char *needs;  /* what must be going on for that; "": nothing */
	const char *tests;  /* which tests of protocols see it; "": networks do */
};

/* By number: 0 is "none"; ended by an entry without a name. */
extern const struct mutants_entry mutants_table[];

/* The number of the mutant that the protocols act as. Set it before they run. */
extern unsigned xk_mutant;

/* Makes the protocols act as mutant name. False: there is none of this name. */
bool mutants_select(const char *name);

#endif
