/*
 * fuzz_rpc.h - what peers say of the RPC suite in scripts: BIDCTL's questions and answers, requests and replies of CHAN in
 * BID in BLAST, whole and in fragments, and packets of GM in BID (fuzz_messages.h); and how they come to know boot ids, tags, channels and sequence numbers.
 *
 * In a script a field of ones stands for what has been remembered of the host.
 */
#ifndef FUZZ_RPC_H
#define FUZZ_RPC_H

#include "tests/fuzz/fuzz_messages.h"

enum { FUZZ_PROCEDURE = 5, FUZZ_PROCEDURES = 2 }; /* the first procedure that a host serves by SELECT, and how many */

enum { FUZZ_RPC_MAX = 128 }; /* bytes of what fuzz_rpc_make writes */

/* What a host has said last. It has another boot id for each peer. */
struct fuzz_rpc_memory {
	uint64_t boots[FUZZ_PEERS], tag;
	uint32_t channel, sequence, blast_sequence;
	struct fuzz_messages_memory messages;
};

void fuzz_rpc_remember(struct fuzz_rpc_memory *memory, const uint8_t *frame, size_t len);
void fuzz_rpc_recall(const struct fuzz_rpc_memory *memory, uint8_t *frame, size_t len);

/* Writes what comes behind an Ethernet header of *type, which it chooses, or an IP header (*type below 256). Returns its length. */
size_t fuzz_rpc_make(uint8_t *payload, unsigned peer, uint64_t *random, unsigned *type);

/* The same: what a peer answers to the question after its boot id; what it requests. */
size_t fuzz_rpc_make_response(uint8_t *payload, unsigned peer, unsigned *type);
size_t fuzz_rpc_make_request(uint8_t *payload, unsigned peer, uint64_t *random, unsigned *type);

/* The same: a packet of GM in BID. */
size_t fuzz_rpc_make_gm(uint8_t *payload, unsigned peer, uint64_t *random, unsigned *type);

#endif
