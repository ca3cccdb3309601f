/* batches.c - see batches.h. */
#include "tools/batches.h"

#include <stdlib.h>

#include "platform/clock.h"

void
batches_init(struct batches *b, uint64_t warm_up, uint64_t rounds)
{
	*b = (struct batches){
		.next = warm_up,
		.end = warm_up + rounds,
		.warm_up = warm_up,
		.size = (rounds + BATCHES_MAX - 1) / BATCHES_MAX,
	};
}

bool
batches_end(struct batches *b)
{
	uint64_t now_ns = clock_system_ns();

	if (b->done > b->warm_up) {
		uint64_t size = b->done - b->warm_up - b->count * b->size;

		b->ns[b->count++] = (double)(now_ns - b->began_ns) / (double)size;
	} else if (b->counting != NULL) {
		b->counting(b->context);
		now_ns = clock_system_ns();
	}
	b->began_ns = now_ns;
	b->next = b->end - b->done < b->size ? b->end : b->done + b->size;
	return b->done < b->end;
}

static int
batches_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double
batches_median(double *values, unsigned count)
{
	qsort(values, count, sizeof(*values), batches_compare);
	return count == 0 ? 0 : values[count / 2];
}

double
batches_median_ns(struct batches *b)
{
	return batches_median(b->ns, b->count);
}

unsigned
batches_turn(unsigned count, uint64_t block, unsigned place)
{
	bool mirrors = count % 2 != 0 && block / count % 2 != 0; /* an odd number takes two squares */
	unsigned at = mirrors ? count - 1 - place : place;

	return (unsigned)(((at % 2 == 0 ? count - at / 2 : (at + 1) / 2) + block) % count);
}
