/* checksum.c - long sums, with the widest registers that the processor has; see checksum.h. */
#include "xkernel/checksum.h"

/*
 * A sum of vectors of 64-bit words, which loses carries, and one of the words' upper halves, which does not: the rest
 * is the lower halves. Vectors of 32 bytes are SSE's or NEON's in pairs unless a function may use AVX2.
 */
typedef uint64_t checksum_vector __attribute__((vector_size(32)));

enum { CHECKSUM_BLOCK = 2 * sizeof(checksum_vector) };

/* Adds blocks to two sums, so that consecutive additions do not depend on each other. */
__attribute__((always_inline)) static inline uint64_t
checksum_blocks(uint64_t sum, const uint8_t *p, size_t len)
{
	checksum_vector all[2] = { { 0 }, { 0 } }, upper[2] = { { 0 }, { 0 } }, words;

	for (; len >= CHECKSUM_BLOCK; p += CHECKSUM_BLOCK, len -= CHECKSUM_BLOCK)
		for (unsigned i = 0; i < 2; i++) {
			memcpy(&words, p + i * sizeof(words), sizeof(words));
			all[i] += words;
			upper[i] += words >> 32;
		}
	all[0] += all[1];
	upper[0] += upper[1];
	words = all[0] - (upper[0] << 32) + upper[0];
	return sum + words[0] + words[1] + words[2] + words[3];
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static uint64_t
checksum_avx2(uint64_t sum, const uint8_t *p, size_t len)
{
	return checksum_blocks(sum, p, len);
}
#endif

uint64_t
xk_sum_long(uint64_t sum, const uint8_t *p, size_t len)
{
	size_t blocks = len & ~(size_t)(CHECKSUM_BLOCK - 1);

#ifdef __x86_64__
	if (xk_likely(__builtin_cpu_supports("avx2")))
		sum = checksum_avx2(sum, p, blocks);
	else
#endif
		sum = checksum_blocks(sum, p, blocks);
	return xk_sum(sum, p + blocks, len - blocks);
}
