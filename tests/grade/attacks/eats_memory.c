/* Allocates all memory that it can get. */
#include <stdlib.h>
#include <string.h>

ATTACK
{
	for (;;) {
		char *p = malloc(1 << 20);

		if (p != NULL)
			memset(p, 1, 1 << 20);
	}
}
