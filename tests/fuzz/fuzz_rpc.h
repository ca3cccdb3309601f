/*
 * fuzz_rpc.h - peers' messages of the RPC suite in scripts: BIDCTL's queries and answers, CHAN's requests and replies
 * in BID in BLAST, whole and in fragments, and GM packets in BID (fuzz_messages.h); and a memory of boot ids, tags,
 * channels and sequence numbers.
 *
 * In a script a field of ones stands for the host's latest value.
 */
#ifndef FUZZ_RPC_H
#define FUZZ_RPC_H

#include "tests/fuzz/fuzz_messages.h"

enum {
	FUZZ_PROCEDURE = 5,
	FUZZ_PROCEDURES = 2
}; /* the first procedure that a host serves by SELECT, and their number */

enum { FUZZ_RPC_MAX = 128 }; /* maximum length that fuzz_rpc_make writes */

/* The host's latest values. It has another boot id for each peer. */
struct fuzz_rpc_memory {
	uint64_t boots[FUZZ_PEERS], tag;
	uint32_t channel, sequence, blast_sequence;
	struct fuzz_messages_memory messages;
};

void fuzz_rpc_remember(struct fuzz_rpc_memory *memory, const uint8_t *frame, size_t len);
void fuzz_rpc_recall(const struct fuzz_rpc_memory *memory, uint8_t *frame, size_t len);

/*
 * Writes the payload of an Ethernet header of *type, which it chooses, or of an IP header (*type below 256). Returns
 * its length.
 */
size_t fuzz_rpc_make(uint8_t *payload, unsigned peer, uint64_t *random, unsigned *type);

/* The same: a peer's answer to a query after its boot id; a peer's request. */
size_t fuzz_rpc_make_response(uint8_t *payload, unsigned peer, unsigned *type);
size_t fuzz_rpc_make_request(uint8_t *payload, unsigned peer, uint64_t *random, unsigned *type);

/* The same: a GM packet in BID. */
size_t fuzz_rpc_make_gm(uint8_t *payload, unsigned peer, uint64_t *random, unsigned *type);

#endif
