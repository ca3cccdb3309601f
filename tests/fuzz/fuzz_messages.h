/*
 * fuzz_messages.h - what peers say of GM and of Active Messages in scripts: packets and answers with few numbers, so that
 * they meet. In a script a field of ones stands for what has been remembered of the host.
 */
#ifndef FUZZ_MESSAGES_H
#define FUZZ_MESSAGES_H

#include "tests/fuzz/fuzz.h"
#include "xkernel/bytes.h"

enum { FUZZ_GM_ON_BID = 208, FUZZ_AM_TYPE = 0x3007 };

/* What a host has said last. */
struct fuzz_messages_memory {
	uint32_t gm_ports, am_sequence;
	uint64_t gm_begin, gm_number;
	uint64_t am_session; /* the host's; of a COOKIE, that */
};

/* Puts what is known in the place of ones. */
static inline void
fuzz_recall32(uint8_t *p, uint32_t known)
{
	if (xk_get32(p) == UINT32_MAX)
		xk_put32(p, known);
}

static inline void
fuzz_recall64(uint8_t *p, uint64_t known)
{
	if (xk_get64(p) == UINT64_MAX)
		xk_put64(p, known);
}

/* Of a packet of GM, which begins at p. */
void fuzz_gm_remember(struct fuzz_messages_memory *memory, const uint8_t *p, size_t len);
void fuzz_gm_recall(const struct fuzz_messages_memory *memory, uint8_t *p, size_t len);
size_t fuzz_gm_make(uint8_t *p, uint64_t *random);

/* Of an active message. */
void fuzz_am_remember(struct fuzz_messages_memory *memory, const uint8_t *p, size_t len);
void fuzz_am_recall(const struct fuzz_messages_memory *memory, uint8_t *p, size_t len);
size_t fuzz_am_make(uint8_t *p, uint64_t *random);

#endif
