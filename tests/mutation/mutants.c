/* mutants.c - see mutants.h. */
#include "tests/mutation/mutants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned xk_mutant;

static unsigned
mutants_count(void)
{
	unsigned count = 0;

	while (mutants_table[count] != NULL)
		count++;
	return count;
}

bool
mutants_select(const char *name)
{
	char *end;
	unsigned long number = strtoul(name, &end, 10);

	for (const struct mutants_scenario *s = mutants_scenarios; s->name != NULL && *end != '\0'; s++) {
		if (strcmp(s->name, name) == 0) {
			xk_mutant = s->numbers[0];
			return true;
		}
	}
	if (*name == '\0' || *end != '\0' || number >= mutants_count())
		return false;
	xk_mutant = (unsigned)number;
	return true;
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
