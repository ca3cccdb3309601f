/* batches.h - times rounds in batches and takes the median batch, which other load on the machine disturbs little. */
#ifndef BATCHES_H
#define BATCHES_H

#include "xkernel/base.h"

enum { BATCHES_MAX = 512 };

struct batches {
	uint64_t done, next, end; /* rounds, warm-up included: so far, at the end of this batch, in all */
	uint64_t warm_up, size;   /* rounds before the first batch; rounds per batch except the last */
	uint64_t began_ns;
	unsigned count;
	double ns[BATCHES_MAX];          /* per round */
	void (*counting)(void *context); /* called when the first batch begins; may be NULL */
	void *context;
};

/* Starts counting. rounds: at least 1, without the warm-up. */
void batches_init(struct batches *b, uint64_t warm_up, uint64_t rounds);

/* Ends the current batch; for batches_count. */
bool batches_end(struct batches *b);

/* Counts a round. Returns false after the last one. */
static inline bool
batches_count(struct batches *b)
{
	return xk_likely(++b->done != b->next) || batches_end(b);
}

/* Returns the median of the batches, in nanoseconds per round, or 0 without any. Sorts them. */
double batches_median_ns(struct batches *b);

/* Sorts values, and returns the middle one, or 0 if there are none. */
double batches_median(double *values, unsigned count);

/*
 * Returns which of `count` treatments has its turn at this place (0 to count - 1) of a block. In `count` blocks, or
 * twice as many if it is odd, each follows each other one equally often, because the effects of one on the machine last
 * into the next: Williams, "Experimental designs balanced for the estimation of residual effects of treatments" (1949).
 */
unsigned batches_turn(unsigned count, uint64_t block, unsigned place);

#endif
