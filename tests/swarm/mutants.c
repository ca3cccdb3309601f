/* mutants.c - see mutants.h. */
#include "tests/swarm/mutants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned xk_mutant;

bool
mutants_select(const char *name)
{
	for (unsigned i = 0; mutants_table[i].name != NULL; i++) {
		if (strcmp(mutants_table[i].name, name) == 0) {
			xk_mutant = i;
			return true;
		}
	}
	return false;
}

__attribute__((constructor)) static void
mutants_select_from_environment(void)
{
	const char *name = getenv("XK_MUTANT");

	if (name == NULL || mutants_select(name))
		return;
	fprintf(stderr, "XK_MUTANT: there is no mutant '%s'\n", name);
	exit(2);
}
