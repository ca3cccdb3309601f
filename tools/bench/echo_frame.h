/*
 * echo_frame.h - request frames from many peers to one UDP echo server, and checks of its answers.
 *
 * For benchmarks: a frame is a template with one peer's addresses, ports and checksums patched in, so creating one
 * costs little and touches no memory of that peer. Ethernet, IPv4 without options, UDP with checksum. A message that
 * does not fit one frame is sent as fragments, in order, each piece in its own frame.
 */
#ifndef ECHO_FRAME_H
#define ECHO_FRAME_H

#include "xkernel/base.h"

enum {
	ECHO_FRAME_HEADERS = 14 + 20 + 8,
	ECHO_FRAME_MAX_SIZE = 1472,                 /* message bytes that fit one Ethernet frame */
	ECHO_FRAME_PIECE = 8 + ECHO_FRAME_MAX_SIZE, /* IP payload bytes of each piece but the last */
	ECHO_FRAME_MAX_PIECES = 3,
	ECHO_FRAME_MAX_MESSAGE = ECHO_FRAME_MAX_PIECES * ECHO_FRAME_PIECE - 8,
	ECHO_FRAME_MAX_PEERS = 1 << 20 /* different peers */
};

/* One end of a conversation. */
struct echo_end {
	uint64_t link;    /* link address, 48 bits */
	uint32_t address; /* IPv4, in host byte order */
	uint16_t port;
};

struct echo_frames {
	struct echo_end server;
	bool neighbours;  /* each peer has its own link address; false: all are behind one router */
	uint32_t len;     /* of the first piece's frame */
	uint32_t size;    /* message bytes */
	uint64_t udp_sum; /* pseudo-header, header and data, without source address, source port and checksum */
	uint32_t pieces;
	struct echo_piece {
		uint32_t len;
		uint64_t ip_sum; /* IP header without source address, identification and checksum */
		uint8_t template[ECHO_FRAME_HEADERS + ECHO_FRAME_MAX_SIZE];
	} piece[ECHO_FRAME_MAX_PIECES];
};

/*
 * Prepares requests of size message bytes (at most ECHO_FRAME_MAX_MESSAGE) to server. `neighbours` is false until set.
 */
void echo_frames_init(struct echo_frames *frames, const struct echo_end *server, uint32_t size);

/* Writes one peer's request in a single piece to frame, which has room for frames->len bytes. */
void echo_frame_write(const struct echo_frames *frames, uint32_t peer, uint8_t *frame);

/* Writes a piece of the datagram with identification `id` to a frame of that piece's length. */
void echo_frame_write_piece(const struct echo_frames *frames, uint32_t peer, uint32_t piece, uint16_t id,
			    uint8_t *frame);

/*
 * Returns true if a frame of len bytes, of which the first ECHO_FRAME_HEADERS are at `frame`, is that piece of the echo
 * to that peer, by length, addresses, ports and offset. Its cost does not depend on the result.
 */
bool echo_frame_is_echo(const struct echo_frames *frames, uint32_t peer, uint32_t piece, const uint8_t *frame,
			size_t len);

/*
 * Checks a frame that should be that piece: headers, checksums, every byte of data. Returns NULL, or the part that is
 * wrong. The caller keeps *sum from the first piece to the last, which completes the check of UDP's checksum.
 */
const char *echo_frame_check_piece(const struct echo_frames *frames, uint32_t peer, uint32_t piece,
				   const uint8_t *frame, size_t len, uint64_t *sum);

/* Checks like echo_frame_check_piece, but an echo in one piece. */
static inline const char *
echo_frame_check(const struct echo_frames *frames, uint32_t peer, const uint8_t *frame, size_t len)
{
	uint64_t sum;

	return echo_frame_check_piece(frames, peer, 0, frame, len, &sum);
}

#endif
