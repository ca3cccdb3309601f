/*
 * window.h - the header of the lab window on the wire, and its numbers: layout 0000000000000000.
 * ./run grade wrote this file; yours may differ from others'.
 */
#ifndef WINDOW_H
#define WINDOW_H

#include "xkernel/header.h"

/* Offsets of the fields, in bytes. */
enum {
	WINDOW_CHECKSUM = 0,
	WINDOW_KIND = 2,
	WINDOW_NUMBER = 3,
	WINDOW_LENGTH = 5,
	WINDOW_HEADER_LEN = 7,
};

/* Kinds: a message of the user, and its acknowledgement. */
#define WINDOW_DATA 1
#define WINDOW_ACK 2

/* The number of the first message; after 65535 comes 0. */
#define WINDOW_FIRST 65512

/* Maximum number of messages in flight. */
#define WINDOW_SIZE 7

/* Milliseconds until a message without an answer is sent again. */
#define WINDOW_TIMEOUT_MS 200

/* Maximum number of unacknowledged messages, in flight or waiting. */
#define WINDOW_QUEUE 64

/* For dissectors, traces and tests. */
/* clang-format off */
static const struct xk_field_value window_kinds[] = { { WINDOW_DATA, "DATA" }, { WINDOW_ACK, "ACK" }, { 0, NULL } };
static const struct xk_field window_fields[] = {
	{ .name = "checksum", .bits = 16, .kind = XK_CHECKSUM, .print = XK_PRINT_HEX, .covers = XK_COVERS_MESSAGE,
	  .help = "the Internet's, of header and payload" },
	{ .name = "kind", .bits = 8, .kind = XK_VARIES, .values = window_kinds,
	  .help = "what the frame is" },
	{ .name = "number", .bits = 16, .kind = XK_VARIES,
	  .help = "of DATA, or the next that the receiver expects" },
	{ .name = "length", .bits = 16, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE,
	  .help = "of header and payload" },
	{ .name = NULL },
};
/* clang-format on */

#endif
