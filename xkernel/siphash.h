/* siphash.h - SipHash-2-4 (Aumasson and Bernstein, 2012), a keyed hash, of two words. */
#ifndef XK_SIPHASH_H
#define XK_SIPHASH_H

#include <stdint.h>

static inline uint64_t
siphash_rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static inline void
siphash_rounds(uint64_t v[4], unsigned rounds)
{
	for (; rounds > 0; rounds--) {
		v[0] += v[1];
		v[1] = siphash_rotate(v[1], 13) ^ v[0];
		v[0] = siphash_rotate(v[0], 32);
		v[2] += v[3];
		v[3] = siphash_rotate(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = siphash_rotate(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = siphash_rotate(v[1], 17) ^ v[2];
		v[2] = siphash_rotate(v[2], 32);
	}
}

/* Returns the hash of two words, lowest byte first. */
static inline uint64_t
siphash(const uint64_t key[2], uint64_t first, uint64_t second)
{
	const uint64_t words[] = { first, second, UINT64_C(16) << 56 /* the length, in bytes */ };
	uint64_t v[4] = { key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
			  key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573) };

	for (unsigned i = 0; i < 3; i++) {
		v[3] ^= words[i];
		siphash_rounds(v, 2);
		v[0] ^= words[i];
	}
	v[2] ^= 0xff;
	siphash_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
