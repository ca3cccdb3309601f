/*
 * checksum.h - the internet checksum (RFC 1071), for ports that do not compute it.
 *
 * A sum is a 64-bit accumulator of 16-bit words in the machine's byte order, not folded. Sums of pieces of even length
 * may be added. xk_checksum_finish folds and complements a sum to the value to store.
 */
#ifndef XK_CHECKSUM_H
#define XK_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "xkernel/base.h"

static inline uint64_t
xk_sum_load32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint64_t
xk_sum_load16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Returns what a number adds to a sum if it is stored in network order. */
static inline uint64_t
xk_sum_of16(uint16_t number)
{
	return __builtin_bswap16(number);
}

static inline uint64_t
xk_sum_of32(uint32_t number)
{
	return __builtin_bswap32(number);
}

enum { XK_SUM_SHORT = 8, XK_SUM_LONG = 128 };

/* The slow start and the fast rest of xk_sum, for len >= XK_SUM_LONG. Not for callers. */
uint64_t xk_sum_long(uint64_t sum, const uint8_t *p, size_t len);

/* Adds the len bytes at p, len a multiple of 16: four 32-bit words at a time, as two of 64 bits. */
static inline uint64_t
xk_sum_pairs(uint64_t sum, const uint8_t *p, size_t len)
{
	typedef uint64_t pair __attribute__((vector_size(16)));
	pair all = { 0 }, upper = { 0 }, words; /* all loses carries, upper does not */

	for (; len > 0; p += sizeof(words), len -= sizeof(words)) {
		memcpy(&words, p, sizeof(words));
		all += words;
		upper += words >> 32;
	}
	words = all - (upper << 32) + upper;
	return sum + words[0] + words[1];
}

/* Returns the sum of the len < XK_SUM_SHORT bytes at p, after XK_SUM_SHORT readable bytes (of a header, say). */
static inline uint64_t
xk_sum_short(const uint8_t *p, size_t len)
{
	uint64_t last;

	memcpy(&last, p + len - XK_SUM_SHORT, sizeof(last));
	return last >> 8 * (XK_SUM_SHORT - 1 - len) >> 8; /* two shifts: a single one would be by 64 if len is 0 */
}

/* Adds the len bytes at p; an odd last byte counts as if a zero followed. Any context. */
static inline uint64_t
xk_sum(uint64_t sum, const uint8_t *p, size_t len)
{
	if (len >= XK_SUM_LONG)
		return xk_sum_long(sum, p, len);
	if (len >= 16) {
		sum = xk_sum_pairs(sum, p, len & ~(size_t)15);
		p += len & ~(size_t)15;
	}
	if (len & 8) {
		sum += xk_sum_load32(p) + xk_sum_load32(p + 4);
		p += 8;
	}
	if (len & 4) {
		sum += xk_sum_load32(p);
		p += 4;
	}
	if (len & 2) {
		sum += xk_sum_load16(p);
		p += 2;
	}
	return len & 1 ? sum + *p : sum;
}

/*
 * Folds sum to 16 bits, in the machine's byte order; the result is zero only if sum is. Adding a word to itself with
 * its halves exchanged leaves, in the upper half, the sum of the halves with the end-around carry.
 */
static inline uint16_t
xk_sum_fold(uint64_t sum)
{
	uint32_t half;

	sum += sum >> 32 | sum << 32;
	half = (uint32_t)(sum >> 32);
	half += half >> 16 | half << 16;
	return (uint16_t)(half >> 16);
}

/*
 * Returns whether sum, which covers a checksum and is not zero, folds to all ones: the bytes are intact. It does if
 * 65535 divides it, which compilers turn into a multiplication.
 */
static inline bool
xk_sum_is_intact(uint64_t sum)
{
	return sum % 0xffff == 0;
}

/*
 * Returns whether the checksum at p is the sum of its pseudo-header alone, not complemented: its sender left the rest
 * to a device (CHECKSUM_PARTIAL in Linux).
 */
static inline bool
xk_sum_is_left(uint64_t pseudo_sum, const uint8_t *p)
{
	return xk_sum_fold(pseudo_sum) == xk_sum_load16(p);
}

/* Returns the checksum to compare with zero, or to store with xk_checksum_store. */
static inline uint16_t
xk_checksum_finish(uint64_t sum)
{
	return (uint16_t)~xk_sum_fold(sum);
}

/* Stores a finished checksum, which has the byte order of the summed bytes already. */
static inline void
xk_checksum_store(uint8_t *p, uint16_t checksum)
{
	memcpy(p, &checksum, sizeof(checksum));
}

#endif
