/*
 * fuzz_messages.h - what peers say of GM and of Active Messages in scripts: packets and answers with few numbers, so that
 * they meet. In a script a field of ones stands for what has been remembered of the host.
 */
#ifndef FUZZ_MESSAGES_H
#define FUZZ_MESSAGES_H

#include "tests/fuzz/fuzz.h"

enum { FUZZ_GM_ON_BID = 208, FUZZ_AM_TYPE = 0x3007 };

/* What a host has said last. */
struct fuzz_messages_memory {
	uint32_t gm_ports, am_sequence;
	uint64_t gm_begin, gm_number;
	uint64_t am_session; /* the host's; of a COOKIE, that */
};

/* Of a packet of GM, which begins at p. */
void fuzz_gm_remember(struct fuzz_messages_memory *memory, const uint8_t *p, size_t len);
void fuzz_gm_recall(const struct fuzz_messages_memory *memory, uint8_t *p, size_t len);
size_t fuzz_gm_make(uint8_t *p, uint64_t *random);

/* Of an active message. */
void fuzz_am_remember(struct fuzz_messages_memory *memory, const uint8_t *p, size_t len);
void fuzz_am_recall(const struct fuzz_messages_memory *memory, uint8_t *p, size_t len);
size_t fuzz_am_make(uint8_t *p, uint64_t *random);

#endif
