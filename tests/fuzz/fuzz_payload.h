/*
 * fuzz_payload.h - what peers say above IP in scripts: messages of the test protocols and of ICMP; and how they come to
 * know what a host has said, which a script cannot: identifiers that it has chosen at random.
 *
 * In a script a field of ones stands for what has been remembered.
 */
#ifndef FUZZ_PAYLOAD_H
#define FUZZ_PAYLOAD_H

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_rpc.h"

enum {
	FUZZ_IP_ICMP = 1,
	FUZZ_IP_UDP = 17,
	FUZZ_IP_STOPWAIT = 253,
	FUZZ_TRAFFIC_PORT = 2002,
	FUZZ_PAYLOAD_MAX = 512, /* bytes of what fuzz_payload_make writes */
};

/* What a host has sent last. */
struct fuzz_payload_memory {
	uint8_t stopwait[30];             /* header */
	uint8_t packet[FUZZ_PAYLOAD_MAX]; /* IP: what errors are about */
	size_t packet_len;
	struct fuzz_rpc_memory rpc;
};

void fuzz_payload_remember(struct fuzz_payload_memory *memory, const uint8_t *frame, size_t len);

/* Puts what was remembered where a frame says so, and sets its checksum right then. */
void fuzz_payload_recall(const struct fuzz_payload_memory *memory, uint8_t *frame, size_t len);

/* Makes an IP frame the answer to itself, as the peer that it was sent to would echo it. */
void fuzz_payload_answer(uint8_t *frame, size_t len);

/* Writes what comes behind an IP header of protocol *number, which it chooses. Returns its length. */
size_t fuzz_payload_make(uint8_t *payload, unsigned peer, uint64_t *random, uint8_t *number);

#endif
