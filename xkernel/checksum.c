/* checksum.c - see checksum.h. */
#include "xkernel/checksum.h"

/* Two words of 64 bits side by side, as any processor with vectors has them. */
typedef uint64_t checksum_pair __attribute__((vector_size(16)));

/*
 * Of so many pairs the sum, in which carries are lost, and the sum of the upper halves, in which none are: what the lower
 * halves sum up to is the difference.
 */
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

/* Two sums, neither of which waits for the other. */
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
