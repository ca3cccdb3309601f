/*
 * bidctl_tag.c - what BIDCTL computes with a key instead of remembering it: the boot id that each host is told, and the
 * tags of questions to hosts that have asked; see bidctl.c.
 *
 * Such a tag is a keyed hash of whom it asks, of the boot that the question is about, and of the time: what SYN cookies are to
 * TCP (Bernstein, 1996). It is good for that host's answer with that boot, once or more often, for one to two periods. So
 * who floods this host with questions takes nothing from it, and an answer that was long under way counts for nothing.
 */
#include "protocols/bid/bidctl_private.h"

/* ---- SipHash-2-4 (Aumasson and Bernstein, 2012), of two words ---- */

static uint64_t
bidctl_tag_rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static void
bidctl_tag_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = bidctl_tag_rotate(v[1], 13) ^ v[0];
	v[0] = bidctl_tag_rotate(v[0], 32);
	v[2] += v[3];
	v[3] = bidctl_tag_rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = bidctl_tag_rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = bidctl_tag_rotate(v[1], 17) ^ v[2];
	v[2] = bidctl_tag_rotate(v[2], 32);
}

static void
bidctl_tag_add(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	bidctl_tag_round(v);
	bidctl_tag_round(v);
	v[0] ^= word;
}

uint64_t
bidctl_tag_hash(const uint64_t key[2], uint64_t first, uint64_t second)
{
	uint64_t v[4] = { key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
			  key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573) };

	bidctl_tag_add(v, first);
	bidctl_tag_add(v, second);
	bidctl_tag_add(v, UINT64_C(16) << 56); /* the length, in bytes */
	v[2] ^= 0xff;
	for (unsigned i = 0; i < 4; i++)
		bidctl_tag_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- boot ids ---- */

/* An id equals a tag only if the asker has guessed the secret and used it as its boot id. */
uint64_t
bidctl_own(struct xk_protocol *self, uint32_t host)
{
	const struct bidctl *b = bidctl_of(self);
	uint64_t id = bidctl_tag_hash(b->key, host, b->secret), boots = xk_boots(self);

	if (boots != 0)
		id = boots << 40 | id >> 24;
	return id != 0 ? id : 1;
}

/* ---- tags ---- */

/* Two of them are over before a host that has answered can be forgotten: its answer does not count again. */
static uint64_t
bidctl_tag_period(const struct bidctl *b)
{
	uint64_t now_ns = xk_now_ns(&b->protocol);

	return now_ns / (b->timeout_max_ns < b->lifetime_ns / 2 ? b->timeout_max_ns : b->lifetime_ns / 2);
}

/* The host and the period fit one word: 2^32 periods are longer than any boot. */
static uint64_t
bidctl_tag_in(const struct bidctl *b, uint32_t host, uint64_t boot, uint64_t period)
{
	return bidctl_tag_hash(b->key, period << 32 | host, boot) | 1;
}

void
bidctl_tag_init(struct bidctl *b)
{
	b->key[0] = xk_random(&b->protocol);
	b->key[1] = xk_random(&b->protocol);
}

uint64_t
bidctl_tag_make(const struct bidctl *b, uint32_t host, uint64_t boot)
{
	return bidctl_tag_in(b, host, boot, bidctl_tag_period(b));
}

bool
bidctl_tag_is_good(const struct bidctl *b, uint32_t host, uint64_t boot, uint64_t tag)
{
	uint64_t period = bidctl_tag_period(b);

	return tag == bidctl_tag_in(b, host, boot, period) ||
	       (period > 0 && tag == bidctl_tag_in(b, host, boot, period - 1));
}
