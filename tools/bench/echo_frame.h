/*
 * echo_frame.h - request frames of many peers to one UDP echo server, and the checks of its answers.
 *
 * For the benchmarks: a frame is a template with one peer's addresses, ports and checksums patched in, so that making
 * one costs little and touches no memory of that peer. Ethernet, IPv4 without options, UDP with checksum. What does not
 * fit one frame is a datagram in pieces: fragments, in order, each in a frame of its own.
 */
#ifndef ECHO_FRAME_H
#define ECHO_FRAME_H

#include "xkernel/base.h"

enum {
	ECHO_FRAME_HEADERS = 14 + 20 + 8,
	ECHO_FRAME_MAX_SIZE = 1472,                 /* message bytes that fit one Ethernet frame */
	ECHO_FRAME_PIECE = 8 + ECHO_FRAME_MAX_SIZE, /* of IP's payload in each piece but the last */
	ECHO_FRAME_MAX_PIECES = 3,
	ECHO_FRAME_MAX_MESSAGE = ECHO_FRAME_MAX_PIECES * ECHO_FRAME_PIECE - 8,
	ECHO_FRAME_MAX_PEERS = 1 << 20 /* how many different peers there can be */
};

/* One end of a conversation. */
struct echo_end {
	uint64_t link;    /* link address, 48 bits */
	uint32_t address; /* IPv4, in the machine's order */
	uint16_t port;
};

struct echo_frames {
	struct echo_end server;
	bool neighbours;  /* each peer has a link address of its own; false: all are behind one router */
	uint32_t len;     /* of a frame; the first of several */
	uint32_t size;    /* of a message */
	uint64_t ip_sum;  /* of the IP header but for the source address and the checksum */
	uint64_t udp_sum; /* of pseudo-header, header and data but for the same and the source port */
	uint8_t template[ECHO_FRAME_HEADERS + ECHO_FRAME_MAX_SIZE];
	/* pieces */
	uint32_t pieces;
	struct echo_piece {
		uint32_t len;
		uint64_t ip_sum; /* as that of the first, whose identification is 0 */
		uint8_t template[ECHO_FRAME_HEADERS + ECHO_FRAME_MAX_SIZE];
	} piece[ECHO_FRAME_MAX_PIECES]; /* the first is the template above */
};

/* Prepares requests of size message bytes (at most ECHO_FRAME_MAX_MESSAGE) to server; neighbours: false until set. */
void echo_frames_init(struct echo_frames *frames, const struct echo_end *server, uint32_t size);

/* The peer with this index (below ECHO_FRAME_MAX_PEERS). Its address lies in 10.128.0.0/9. */
struct echo_end echo_frame_peer(const struct echo_frames *frames, uint32_t index);

/* Writes the request of one peer to frame, which has room for frames->len bytes. */
void echo_frame_write(const struct echo_frames *frames, uint32_t index, uint8_t *frame);

/*
 * Whether a frame of len bytes (at least ECHO_FRAME_HEADERS) is the echo to that peer: length, addresses, ports. Costs
 * the same whatever the answer.
 */
bool echo_frame_is_echo(const struct echo_frames *frames, uint32_t index, const uint8_t *frame, size_t len);

/* How long a piece's frame is; writes it, of the datagram with that identification, to such a frame. */
uint32_t echo_frame_piece_len(const struct echo_frames *frames, uint32_t piece);
void echo_frame_write_piece(const struct echo_frames *frames, uint32_t index, uint32_t piece, uint16_t id,
			    uint8_t *frame);

/* As echo_frame_is_echo and echo_frame_check, of a piece; *sum is the caller's, from the first piece to the last. */
bool echo_frame_is_piece(const struct echo_frames *frames, uint32_t index, uint32_t piece, const uint8_t *frame,
			 size_t len);
const char *echo_frame_check_piece(const struct echo_frames *frames, uint32_t index, uint32_t piece,
				   const uint8_t *frame, size_t len, uint64_t *sum);

/* NULL, or what is wrong with a frame that should be that peer's echo: headers, both checksums, every byte of data. */
const char *echo_frame_check(const struct echo_frames *frames, uint32_t index, const uint8_t *frame, size_t len);

#endif
