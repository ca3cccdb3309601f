/*
 * stream.h - the header of the lab stream on the wire, and its numbers: layout 0000000000000000.
 * ./run grade wrote this file; yours may differ from others'.
 */
#ifndef STREAM_H
#define STREAM_H

#include "xkernel/header.h"

/* TCP's header (RFC 9293, 3.1). */
/* clang-format off */
#define STREAM_HEADER(F) \
	F(16, source, .kind = XK_NAMES_SESSION, .end = XK_END_REMOTE, .help = "port") \
	F(16, destination, .kind = XK_NAMES_SESSION, .end = XK_END_LOCAL, .help = "port") \
	F(32, sequence, .help = "of the first byte, or of the SYN") \
	F(32, acknowledgement, .help = "the next byte that is expected") \
	F(4, offset, .help = "of the payload, in words of 4 bytes") \
	F(4, reserved, .help = "ignored") \
	F(8, flags, .help = "1 FIN, 2 SYN, 4 RST, 8 PSH, 16 ACK") \
	F(16, window, .help = "bytes that the receiver has room for") \
	F(16, checksum, .kind = XK_CHECKSUM, .print = XK_PRINT_HEX, .covers = XK_COVERS_PSEUDO, .pseudo = 6) \
	F(16, urgent, .help = "ignored")
/* clang-format on */
XK_HEADER(stream, STREAM_HEADER);

enum {
	STREAM_FIN = 1 << 0,
	STREAM_SYN = 1 << 1,
	STREAM_RST = 1 << 2,
	STREAM_PSH = 1 << 3,
	STREAM_ACK = 1 << 4,
	STREAM_HEADER_LEN = XK_HEADER_LEN(stream),
};

/* The SYN's number; the first byte has the next one. After 4294967295 comes 0. */
#define STREAM_FIRST UINT32_C(4294957296)

/* Bytes of payload of a full segment. */
#define STREAM_SEGMENT 512

/* Full segments in the first congestion window. */
#define STREAM_INITIAL 2

/* Duplicate ACKs in a row that show a loss. */
#define STREAM_DUPLICATES 3

/* Milliseconds until bytes without an ACK are sent again: before a round trip is measured, at least, at most. */
#define STREAM_TIMEOUT_MS 1000
#define STREAM_TIMEOUT_MIN_MS 200
#define STREAM_TIMEOUT_MAX_MS 10000

/* Timeouts in a row, after which the next one gives the stream up. */
#define STREAM_TRIES 6

/* The longest window, in bytes: the header has no room for more. */
#define STREAM_WINDOW_MAX 65535

/* Bytes that are pushed and not acknowledged, before a push waits. */
#define STREAM_ROOM 131072

#endif
