/*
 * fuzz_payload.h - peers' messages above IP in scripts: those of the test protocols and of ICMP; and a memory of the
 * host's random identifiers, which a script cannot know.
 *
 * In a script a field of ones stands for the host's latest value.
 */
#ifndef FUZZ_PAYLOAD_H
#define FUZZ_PAYLOAD_H

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_rpc.h"

enum {
	FUZZ_IP_ICMP = 1,
	FUZZ_IP_TCP = 6,
	FUZZ_IP_UDP = 17,
	FUZZ_IP_STOPWAIT = 253,
	FUZZ_TRAFFIC_PORT = 2002,
	FUZZ_TCP_PORT = 5001,
	FUZZ_TCP_NEAR = 16, /* so many numbers, from all ones down, are near the host's latest (fuzz_payload_recall) */
	FUZZ_PAYLOAD_MAX = 512, /* maximum length that fuzz_payload_make writes */
};

/* The host's latest values. */
struct fuzz_payload_memory {
	uint8_t stopwait[30];             /* the header */
	uint32_t tcp_ports;               /* of a segment: source and destination */
	uint32_t tcp_wants, tcp_end;      /* the bytes that the host expects, and sends next */
	uint8_t packet[FUZZ_PAYLOAD_MAX]; /* an IP datagram, for errors about it */
	size_t packet_len;
	struct fuzz_rpc_memory rpc;
};

void fuzz_payload_remember(struct fuzz_payload_memory *memory, const uint8_t *frame, size_t len);

/*
 * Replaces fields of ones by the host's values, and corrects the frame's checksum. TCP's numbers that are less than ones by
 * a little become the host's and a few segments more.
 */
void fuzz_payload_recall(const struct fuzz_payload_memory *memory, uint8_t *frame, size_t len);

/* Turns an IP frame into its echo by the peer that it was sent to. */
void fuzz_payload_answer(uint8_t *frame, size_t len);

/* Writes a segment of TCP. Returns its length. */
size_t fuzz_payload_make_segment(uint8_t *payload, uint64_t *random);

/* Writes the payload of an IP header of protocol *number, which it chooses. Returns its length. */
size_t fuzz_payload_make(uint8_t *payload, unsigned peer, uint64_t *random, uint8_t *number);

#endif
