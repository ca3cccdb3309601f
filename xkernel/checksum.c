/* checksum.c - see checksum.h. */
#include "xkernel/checksum.h"

/* Two 64-bit words, as any processor with vector registers has them. */
typedef uint64_t checksum_pair __attribute__((vector_size(16)));

/* The sum of pairs, which loses carries, and of their upper halves, which does not: the rest is the lower halves. */
struct checksum_sums {
	checksum_pair all, upper;
};

static inline void
checksum_add(struct checksum_sums *sums, const uint8_t *p)
{
	checksum_pair pair;

	memcpy(&pair, p, sizeof(pair));
	sums->all += pair;
	sums->upper += pair >> 32;
}

/* Keeps two sums, so that their additions do not depend on each other. */
uint64_t
xk_sum_long(uint64_t sum, const uint8_t *p, size_t len)
{
	struct checksum_sums even = { { 0 }, { 0 } }, odd = { { 0 }, { 0 } };
	checksum_pair halves;

	if (len & 16) {
		checksum_add(&even, p);
		p += 16;
	}
	for (len &= ~(size_t)31; len > 0; p += 32, len -= 32) {
		checksum_add(&even, p);
		checksum_add(&odd, p + 16);
	}
	even.all += odd.all;
	even.upper += odd.upper;
	halves = even.all - (even.upper << 32) + even.upper;
	return sum + halves[0] + halves[1];
}
