/*
 * fuzz_messages.h - peers' messages of GM and of Active Messages in scripts: packets and answers with few numbers, so
 * that they match. In a script a field of ones stands for the host's latest value.
 */
#ifndef FUZZ_MESSAGES_H
#define FUZZ_MESSAGES_H

#include "tests/fuzz/fuzz.h"
#include "xkernel/bytes.h"

enum { FUZZ_GM_ON_BID = 208, FUZZ_AM_TYPE = 0x3007 };

/* The host's latest values. */
struct fuzz_messages_memory {
	uint32_t gm_ports, am_sequence;
	uint64_t gm_begin, gm_number;
	uint64_t am_session; /* the host's; of a COOKIE, the cookie */
};

/* Replaces a field of ones by the known value. */
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

/* Remembers or replaces the values of a GM packet at p. */
void fuzz_gm_remember(struct fuzz_messages_memory *memory, const uint8_t *p, size_t len);
void fuzz_gm_recall(const struct fuzz_messages_memory *memory, uint8_t *p, size_t len);
size_t fuzz_gm_make(uint8_t *p, uint64_t *random);

/* The same for an active message. */
void fuzz_am_remember(struct fuzz_messages_memory *memory, const uint8_t *p, size_t len);
void fuzz_am_recall(const struct fuzz_messages_memory *memory, uint8_t *p, size_t len);
size_t fuzz_am_make(uint8_t *p, uint64_t *random);

#endif
